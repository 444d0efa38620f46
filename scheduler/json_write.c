/* json_write.c - see json_write.h. */
#include "json_write.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the well-formed character at `text` (Unicode 15, table 3-7); 0: there is none. */
static int character(const unsigned char *text)
{
    const unsigned char first = text[0];
    if (first < 0x80) {
        return 1;
    }
    const int size = first >= 0xc2 && first <= 0xdf   ? 2
                     : (first & 0xf0) == 0xe0         ? 3
                     : first >= 0xf0 && first <= 0xf4 ? 4
                                                      : 0;
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (size == 0 || text[1] < least || text[1] > most) {
        return 0;
    }
    for (int i = 2; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

void hal_json_write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        const int size = character(at);
        if (size == 0) {
            fputs("\\ufffd", out);
        } else if (*at < 0x20) {
            fprintf(out, "\\u%04x", *at);
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
