/* json_write.c - see json_write.h. */
#include "json_write.h"

#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void hal_json_write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *at = text; *at;) {
        const int size = hal_utf8_size(at);
        if (size == 0) {
            fputs("\\ufffd", out);
        } else if ((unsigned char)*at < 0x20) {
            fprintf(out, "\\u%04x", (unsigned)*at);
        } else {
            if (*at == '"' || *at == '\\') {
                fputc('\\', out);
            }
            fwrite(at, 1, (size_t)size, out);
        }
        at += size ? size : 1;
    }
    fputc('"', out);
}

/* As few digits as it takes, from `digits` on. */
static void write_number(FILE *out, double value, int digits, bool single)
{
    char text[40];
    if (!isfinite(value)) {
        fputs("null", out);
        return;
    }
    for (;; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (digits == 17 || back == value || (single && (float)back == (float)value)) {
            break;
        }
    }
    char *point = strpbrk(text, ",."); /* the locale's */
    if (point) {
        *point = '.';
    }
    fputs(text, out);
}

void hal_json_write_number(FILE *out, double value)
{
    write_number(out, value, 15, false);
}

void hal_json_write_float(FILE *out, float value)
{
    write_number(out, value, 6, true);
}
