/* model_options.c - the options of a topic: exact names, plain finite numbers in range, nothing left over. */
#include "model.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool model_refuse(model_call *call, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call->error, sizeof call->error, format, arguments);
    va_end(arguments);
    for (char *at = call->error; *at; at++) /* one line, whatever was typed */
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return false;
}

bool model_check(model_call *call, const char *name, hal_status status)
{
    return status == HAL_OK || model_refuse(call, "%s: %s", name, hal_last_error());
}

static const model_option *find_option(const model_topic *topic, const char *name, size_t length)
{
    for (const model_option *option = topic->options; option->kind != MODEL_NONE; option++)
        if (strlen(option->name) == length && !strncmp(option->name, name, length))
            return option;
    return NULL;
}

static bool parse_count(model_call *call, const model_option *option, const char *text, model_value *value)
{
    char *end;
    errno = 0;
    value->count = strtoull(text, &end, 10);
    if (strspn(text, "0123456789") == strlen(text) && *text && !errno && (double)value->count >= option->low &&
        (double)value->count <= option->high)
        return true;
    return model_refuse(call, "--%s takes a whole number from %.0f to %.0f, not \"%.60s\"", option->name, option->low,
                        option->high, text);
}

/* strtod knows "inf", "nan" and hexadecimal; here only digits, a point and an exponent count. *end: behind the number.
 */
static bool parse_real(model_call *call, const model_option *option, const char *text, double *real, const char **end)
{
    size_t length = strcspn(text, option->kind == MODEL_REALS ? "," : "");
    char *stop = NULL;
    *end = text + length;
    *real = NAN;
    if (strspn(text, "0123456789.eE+-") >= length && length > 0)
        *real = strtod(text, &stop);
    if (stop == *end && *real >= option->low && *real <= option->high)
        return true;
    return model_refuse(call, "--%s takes a number from %g to %g, not \"%.*s\"", option->name, option->low,
                        option->high, length < 60 ? (int)length : 60, text);
}

static bool parse_reals(model_call *call, const model_option *option, const char *text, model_value *value)
{
    const char *all = text, *end = text;
    value->real_count = 0;
    do {
        if (value->real_count == MODEL_LIST)
            return model_refuse(call, "--%s takes at most %d numbers", option->name, MODEL_LIST);
        if (!parse_real(call, option, text, &value->reals[value->real_count++], &end))
            return false;
        text = end + 1;
    } while (*end);
    if (option->reals && value->real_count != option->reals)
        return model_refuse(call, "--%s takes %u numbers with commas between them, not \"%.60s\"", option->name,
                            option->reals, all);
    return true;
}

static bool parse_value(model_call *call, const model_option *option, const char *text)
{
    model_value *value = &call->values[option - call->topic->options];
    const char *end;
    value->given = true;
    switch (option->kind) {
    case MODEL_COUNT:
        return parse_count(call, option, text, value);
    case MODEL_REAL:
        return parse_real(call, option, text, &value->real, &end);
    case MODEL_REALS:
        return parse_reals(call, option, text, value);
    default:
        value->text = text;
        return *text || model_refuse(call, "--%s must not be empty", option->name);
    }
}

/* --json takes a file if one follows; alone it is standard output. */
static void take_json(int argc, char **argv, int *at, const char *inside, const char **json)
{
    *json = "-";
    if (inside)
        *json = inside;
    else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        *json = argv[++*at];
}

static bool take_option(model_call *call, int argc, char **argv, int *at, const char **json)
{
    const char *word = argv[*at];
    if (strncmp(word, "--", 2) != 0 || !word[2])
        return model_refuse(call, "\"%.60s\" is one word too many; see hal-bench model %s --help", word,
                            call->topic->name);
    const size_t length = strcspn(word + 2, "=");
    const char *inside = word[2 + length] ? word + 2 + length + 1 : NULL;
    if (length == 4 && !strncmp(word + 2, "json", 4)) {
        take_json(argc, argv, at, inside, json);
        return true;
    }
    const model_option *option = find_option(call->topic, word + 2, length);
    if (!option)
        return model_refuse(call, "there is no option \"%.*s\"; see hal-bench model %s --help",
                            length < 60 ? (int)length + 2 : 62, word, call->topic->name);
    if (option->kind == MODEL_FLAG) {
        call->values[option - call->topic->options].given = true;
        return !inside || model_refuse(call, "--%s takes no value", option->name);
    }
    if (!inside && (*at + 1 == argc || !strncmp(argv[*at + 1], "--", 2)))
        return model_refuse(call, "--%s needs a value", option->name);
    return parse_value(call, option, inside ? inside : argv[++*at]);
}

bool model_options_parse(model_call *call, int argc, char **argv, const char **json)
{
    for (int at = 0; at < argc; at++)
        if (!take_option(call, argc, argv, &at, json))
            return false;
    for (int i = 0; call->topic->options[i].kind != MODEL_NONE; i++)
        if (!call->topic->options[i].optional && !call->values[i].given)
            return model_refuse(call, "--%s is missing; see hal-bench model %s --help", call->topic->options[i].name,
                                call->topic->name);
    return true;
}

/* A topic asks only for options it has. */
static const model_value *value_of(const model_call *call, const char *name)
{
    return &call->values[find_option(call->topic, name, strlen(name)) - call->topic->options];
}

bool model_given(const model_call *call, const char *name)
{
    return value_of(call, name)->given;
}

uint64_t model_count(const model_call *call, const char *name)
{
    return value_of(call, name)->count;
}

double model_real(const model_call *call, const char *name)
{
    return value_of(call, name)->real;
}

const double *model_reals(const model_call *call, const char *name, uint32_t *count)
{
    *count = value_of(call, name)->real_count;
    return value_of(call, name)->reals;
}

const char *model_text(const model_call *call, const char *name)
{
    return value_of(call, name)->text;
}

bool model_machine(model_call *call, hal_model_machine *machine)
{
    const char *name = model_text(call, "device");
    const size_t length = strlen(name);
    const bool file = length > 5 && !strcmp(name + length - 5, ".json");
    return model_check(call, "--device",
                       file ? hal_model_machine_load(name, machine) : hal_model_machine_named(name, machine));
}
