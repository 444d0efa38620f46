/* model_output.c - a topic's answer, as JSON and for people. */
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void model_put_count(cJSON *object, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    cJSON_AddRawToObject(object, name, text);
}

static void format_real(double value, char *text, size_t size)
{
    if (!isfinite(value))
        snprintf(text, size, "null");
    else if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, size, "%.0f", value == 0 ? 0 : value); /* no "-0" */
    else
        snprintf(text, size, "%.15g", value);
}

void model_put_real(cJSON *object, const char *name, double value)
{
    char text[40];
    format_real(value, text, sizeof text);
    cJSON_AddRawToObject(object, name, text);
}

void model_put_reals(cJSON *object, const char *name, const double *values, uint32_t count)
{
    cJSON *array = cJSON_AddArrayToObject(object, name);
    for (uint32_t i = 0; i < count; i++) {
        char text[40];
        format_real(values[i], text, sizeof text);
        cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
    }
}

static bool ends_in(const char *name, const char *end)
{
    const size_t length = strlen(name), tail = strlen(end);
    return length >= tail && !strcmp(name + length - tail, end);
}

/* What a number is in the unit that fits; nothing where it fits already. */
static void print_unit(const char *name, const char *text, FILE *out)
{
    const double value = strtod(text, NULL);
    if (!strcmp(text, "null"))
        fputs("  (never, or without end)", out);
    else if (ends_in(name, "_bytes_per_s"))
        fprintf(out, "  bytes/s (%.4g GB/s)", value / 1e9);
    else if (strstr(name, "bytes") || !strncmp(name, "peak_", 5) || ends_in(name, "_size"))
        fprintf(out,
                value < 1024         ? "  bytes"
                : value < 1048576    ? "  bytes (%.1f KiB)"
                : value < 1073741824 ? "  bytes (%.1f MiB)"
                                     : "  bytes (%.1f GiB)",
                value < 1048576      ? value / 1024
                : value < 1073741824 ? value / 1048576
                                     : value / 1073741824);
    else if (ends_in(name, "_us") && value >= 1000)
        fprintf(out, "  us (%.2f ms)", value / 1000);
    else if (ends_in(name, "_us"))
        fputs("  us", out);
    else if (value >= 1e6)
        fprintf(out, "  (%.3g)", value);
}

/* One line, whatever a name of the user's has in it. */
static void print_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text, out);
}

static void print_item(const cJSON *item, int depth, int width, FILE *out)
{
    const char *name = item->string ? item->string : "-";
    fprintf(out, "%*s%-*s  ", 2 * depth, "", width, name);
    if (cJSON_IsRaw(item)) {
        fputs(item->valuestring, out);
        if (item->string)
            print_unit(name, item->valuestring, out);
    } else if (cJSON_IsBool(item)) {
        fputs(cJSON_IsTrue(item) ? "yes" : "no", out);
    } else if (cJSON_IsString(item)) {
        print_text(item->valuestring, out);
    }
    fputc('\n', out);
}

static void print_object(const cJSON *object, int depth, FILE *out)
{
    const cJSON *item;
    int width = 0;
    cJSON_ArrayForEach(item, object)
    {
        const int length = item->string ? (int)strlen(item->string) : 1;
        width = length > width ? length : width;
    }
    cJSON_ArrayForEach(item, object)
    {
        print_item(item, depth, width, out);
        if (cJSON_IsObject(item) || cJSON_IsArray(item))
            print_object(item, depth + 1, out);
    }
}

void model_print(const cJSON *answer, FILE *out)
{
    print_object(answer, 0, out);
}
