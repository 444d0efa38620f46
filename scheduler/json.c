/* json.c - reading JSON. One block holds the nodes and a copy of the text, in which strings are decoded in place. */
#include "json.h"

#include "core.h"

#include <errno.h>
#include <math.h>

enum { MOST_LEVELS = 64, MOST_SIZE = 1 << 30 };

typedef struct reader {
    const char *name, *text;
    char *copy, *at, *end; /* *end is NUL */
    hal_json *nodes;
    size_t used;
} reader;

static bool refuse(const reader *r, const char *what)
{
    unsigned line = 1;
    for (ptrdiff_t i = 0; i < r->at - r->copy; i++)
        line += r->text[i] == '\n';
    hal_set_error("%s: line %u: %s", r->name, line, what);
    return false;
}

static void skip_space(reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')
        r->at++;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Four hexadecimal digits at r->at. */
static bool read_hex(reader *r, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = *r->at;
        uint32_t digit = is_digit(c)            ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return refuse(r, "\\u takes four hexadecimal digits");
        *value = *value * 16 + digit;
    }
    return true;
}

/* The code point after "\u", as UTF-8: never longer than what it was written as. */
static bool read_code_point(reader *r, char **out)
{
    uint32_t code, low;
    if (!read_hex(r, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->at[0] != '\\' || r->at[1] != 'u')
            return refuse(r, "half a surrogate pair");
        r->at += 2;
        if (!read_hex(r, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(r, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code == 0 || (code >= 0xdc00 && code < 0xe000)) {
        return refuse(r, "a code point that strings may not hold");
    }
    if (code < 0x80) {
        *(*out)++ = (char)code;
        return true;
    }
    int rest = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *(*out)++ = (char)(lead[rest] | (code >> (6 * rest)));
    while (rest--)
        *(*out)++ = (char)(0x80 | ((code >> (6 * rest)) & 0x3f));
    return true;
}

int hal_utf8_size(const char *text)
{
    const unsigned char first = (unsigned char)text[0], second = (unsigned char)(first ? text[1] : 0);
    if (first < 0x80)
        return 1;
    const int size = first >= 0xc2 && first <= 0xdf   ? 2
                     : (first & 0xf0) == 0xe0         ? 3
                     : first >= 0xf0 && first <= 0xf4 ? 4
                                                      : 0;
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (size == 0 || second < least || second > most)
        return 0;
    for (int i = 2; i < size; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

static bool read_string(reader *r, const char **string)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (*r->at != '"')
        return refuse(r, "a string is wanted here");
    char *out = ++r->at;
    *string = out;
    while (*r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            return refuse(r, r->at == r->end ? "a string has no end" : "a control character in a string");
        if (*r->at != '\\') {
            const int size = hal_utf8_size(r->at);
            if (!size)
                return refuse(r, "a string that is not UTF-8");
            for (int i = 0; i < size; i++)
                *out++ = *r->at++;
            continue;
        }
        char escape = r->at[1];
        const char *found = escape ? strchr(names, escape) : NULL;
        if (!found && escape != 'u')
            return refuse(r, "an unknown escape in a string");
        r->at += 2;
        if (found)
            *out++ = values[found - names];
        else if (!read_code_point(r, &out))
            return false;
    }
    r->at++;
    *out = 0;
    return true;
}

/* strtod would ask the locale what a decimal point is. Exact where the digits fit in 53 bits and the power of ten is
 * exact, as in everything people write. */
static bool read_number(reader *r, double *number)
{
    uint64_t digits = 0;
    int scale = 0, exponent = 0;
    bool negative = *r->at == '-';
    r->at += negative;
    if (!is_digit(*r->at) || (*r->at == '0' && is_digit(r->at[1])))
        return refuse(r, "no value that JSON knows");
    for (bool fraction = false;; r->at++) {
        if (*r->at == '.' && !fraction && is_digit(r->at[1])) {
            fraction = true;
            continue;
        }
        if (!is_digit(*r->at))
            break;
        bool keep = digits <= (UINT64_MAX - 9) / 10;
        if (keep)
            digits = digits * 10 + (uint64_t)(*r->at - '0');
        scale += (!keep) - fraction;
    }
    if (*r->at == 'e' || *r->at == 'E') {
        bool down = r->at[1] == '-';
        r->at += 1 + (down || r->at[1] == '+');
        if (!is_digit(*r->at))
            return refuse(r, "an exponent without digits");
        for (; is_digit(*r->at); r->at++)
            exponent = exponent < 100000 ? exponent * 10 + (*r->at - '0') : exponent;
        scale += down ? -exponent : exponent;
    }
    double value = (double)digits;
    if (digits <= (1ULL << 53) && scale >= -22 && scale <= 22)
        value = scale < 0 ? value / pow(10, -scale) : value * pow(10, scale);
    else if (digits)
        value = (double)((long double)digits * powl(10, scale));
    *number = negative ? -value : value;
    return isfinite(value) || refuse(r, "a number that is too large");
}

static bool read_word(reader *r, hal_json *node)
{
    static const struct {
        const char *word;
        hal_json_type type;
    } words[] = {{"null", HAL_JSON_NULL}, {"true", HAL_JSON_TRUE}, {"false", HAL_JSON_FALSE}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (!strncmp(r->at, words[i].word, length)) {
            r->at += length;
            node->type = words[i].type;
            return true;
        }
    }
    node->type = HAL_JSON_NUMBER;
    return read_number(r, &node->number);
}

static bool read_value(reader *r, hal_json *node, int level);

static bool read_members(reader *r, hal_json *node, int level)
{
    const bool object = node->type == HAL_JSON_OBJECT;
    const char close = object ? '}' : ']';
    const hal_json **link = &node->first;
    if (level == MOST_LEVELS)
        return refuse(r, "nested too deeply");
    r->at++;
    skip_space(r);
    if (*r->at == close) {
        r->at++;
        return true;
    }
    for (;;) {
        hal_json *member = &r->nodes[r->used++];
        skip_space(r);
        if (object) {
            if (!read_string(r, &member->key))
                return false;
            skip_space(r);
            if (*r->at != ':')
                return refuse(r, "a colon is wanted here");
            r->at++;
        }
        if (!read_value(r, member, level + 1))
            return false;
        *link = member;
        link = &member->next;
        node->count++;
        skip_space(r);
        if (*r->at == close) {
            r->at++;
            return true;
        }
        if (*r->at != ',')
            return refuse(r, object ? "a comma or } is wanted here" : "a comma or ] is wanted here");
        r->at++;
    }
}

static bool read_value(reader *r, hal_json *node, int level)
{
    skip_space(r);
    if (*r->at == '{' || *r->at == '[') {
        node->type = *r->at == '{' ? HAL_JSON_OBJECT : HAL_JSON_ARRAY;
        return read_members(r, node, level);
    }
    if (*r->at == '"') {
        node->type = HAL_JSON_STRING;
        return read_string(r, &node->string);
    }
    return read_word(r, node);
}

hal_status hal_json_parse(const char *name, const char *text, size_t size, hal_json **root)
{
    *root = NULL;
    /* Every value but the first stands behind one of these. */
    size_t nodes = 1;
    for (size_t i = 0; i < size; i++)
        nodes += text[i] == ',' || text[i] == '[' || text[i] == '{';
    if (size > MOST_SIZE)
        return hal_fail(HAL_ERROR_LIMIT, "%s: too large", name);
    char *block = calloc(1, nodes * sizeof(hal_json) + size + 1);
    if (!block)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: no memory to read it", name);
    char *copy = block + nodes * sizeof(hal_json);
    memcpy(copy, text, size);
    reader r = {.name = name,
                .text = text,
                .copy = copy,
                .at = copy,
                .end = copy + size,
                .nodes = (hal_json *)(void *)block,
                .used = 1};
    bool good = read_value(&r, r.nodes, 0);
    if (good) {
        skip_space(&r);
        good = r.at == r.end || refuse(&r, "something follows the value");
    }
    if (!good) {
        free(block);
        return HAL_ERROR_INVALID_ARGUMENT;
    }
    *root = r.nodes;
    return HAL_OK;
}

void hal_json_free(hal_json *root)
{
    free(root);
}

hal_status hal_json_load(const char *path, size_t most, hal_json **root)
{
    *root = NULL;
    FILE *file = fopen(path, "rb");
    if (!file)
        return hal_fail(HAL_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    char *text = malloc(most + 1);
    size_t size = text ? fread(text, 1, most + 1, file) : 0;
    const int why = text && ferror(file) ? errno : 0;
    fclose(file);
    hal_status status = !text         ? hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: no memory to read it", path)
                        : why         ? hal_fail(HAL_ERROR_IO, "cannot read %s: %s", path, strerror(why))
                        : size > most ? hal_fail(HAL_ERROR_LIMIT, "%s: larger than %zu bytes", path, most)
                                      : hal_json_parse(path, text, size, root);
    free(text);
    return status;
}

const hal_json *hal_json_get(const hal_json *object, const char *key)
{
    if (!object || object->type != HAL_JSON_OBJECT)
        return NULL;
    for (const hal_json *member = object->first; member; member = member->next)
        if (!strcmp(member->key, key))
            return member;
    return NULL;
}
