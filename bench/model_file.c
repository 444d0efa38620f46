/* model_file.c - see model_file.h. */
#include "model_file.h"
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE = 4 << 20 };

static size_t line_of(const char *text, const char *at)
{
    size_t line = 1;
    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

/* Bytes that follow the first one of a character, and the bounds of the next (RFC 3629, section 4); 4: no first one. */
static unsigned utf8_tail(unsigned lead, unsigned *low, unsigned *high)
{
    *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (lead < 0x80)
        return 0;
    return lead < 0xc2 || lead > 0xf4 ? 4 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
}

/* The first character that is none, or the end. */
static const char *end_of_utf8(const char *text, const char *end)
{
    unsigned low, high;
    while (text < end) {
        const unsigned tail = utf8_tail((unsigned char)*text, &low, &high);
        if (tail == 4 || end - text <= (ptrdiff_t)tail)
            return text;
        for (unsigned i = 1; i <= tail; i++, low = 0x80, high = 0xbf)
            if ((unsigned char)text[i] < low || (unsigned char)text[i] > high)
                return text;
        text += 1 + tail;
    }
    return end;
}

/* What cJSON does not mind: bytes that are no UTF-8 would make the answer no JSON, and a NUL would end a name. */
static bool is_text(model_call *call, const char *path, const char *text, size_t size)
{
    const char *end = end_of_utf8(text, text + size), *nul = memmem(text, size, "\\u0000", 6);
    if (end < text + size)
        return model_refuse(call, "--file: %.200s, line %zu: no UTF-8", path, line_of(text, end));
    return !nul || model_refuse(call, "--file: %.200s, line %zu: a NUL in a string", path, line_of(text, nul));
}

cJSON *model_file_load(model_call *call)
{
    size_t size = 0;
    const char *path = model_text(call, "file"), *end = NULL;
    char error[400], *text = bench_file_read(path, MOST_FILE, &size, error, sizeof error);
    if (!text) {
        model_refuse(call, "--file: %s", error);
        return NULL;
    }
    if (!is_text(call, path, text, size)) {
        free(text);
        return NULL;
    }
    cJSON *root = cJSON_ParseWithLengthOpts(text, size, &end, false);
    const char *rest = end ? end : text;
    while (root && rest < text + size && strchr(" \t\r\n", *rest) && *rest)
        rest++;
    const bool good = (cJSON_IsObject(root) || cJSON_IsArray(root)) && rest == text + size;
    if (!good) {
        if (root && rest == text + size)
            model_refuse(call, "--file: %.200s holds no JSON object or array", path);
        else
            model_refuse(call, "--file: %.200s, line %zu: no JSON", path, line_of(text, rest));
        cJSON_Delete(root);
        root = NULL;
    }
    free(text);
    return root;
}

const cJSON *model_file_array(model_call *call, const cJSON *root, const char *name)
{
    const cJSON *array = cJSON_IsArray(root) ? root : cJSON_GetObjectItemCaseSensitive(root, name);
    const int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count >= 1 && count <= MODEL_MEMBERS)
        return array;
    model_refuse(call, "--file: \"%s\" must be an array of 1 to %d members", name, MODEL_MEMBERS);
    return NULL;
}

static bool is_word_of(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; length && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && !strncmp(at, word, length))
            return true;
    return false;
}

bool model_file_members(model_call *call, const cJSON *object, const char *where, const char *allowed)
{
    const cJSON *member;
    if (!cJSON_IsObject(object))
        return model_refuse(call, "--file: %s must be an object", where);
    cJSON_ArrayForEach(member, object)
    {
        if (!is_word_of(allowed, member->string))
            return model_refuse(call, "--file: %s has an unknown member \"%.60s\"; it may have: %s", where,
                                member->string, allowed);
        if (cJSON_GetObjectItemCaseSensitive(object, member->string) != member)
            return model_refuse(call, "--file: %s has \"%s\" twice", where, member->string);
    }
    return true;
}

bool model_file_number(model_call *call, const cJSON *object, const char *where, const char *name, bool optional,
                       double low, double high, double *number)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!member && optional)
        return true;
    if (!member || !cJSON_IsNumber(member) || !(member->valuedouble >= low && member->valuedouble <= high))
        return model_refuse(call, "--file: %s.%s must be a number from %g to %g", where, name, low, high);
    *number = member->valuedouble;
    return true;
}

const char *model_file_name(model_call *call, const cJSON *object, const char *where)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "name"));
    if (name && *name && strlen(name) <= MODEL_NAME)
        return name;
    model_refuse(call, "--file: %s.name must be a string of 1 to %d bytes", where, MODEL_NAME);
    return NULL;
}
