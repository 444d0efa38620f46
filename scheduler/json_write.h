/* json_write.h - writing JSON (RFC 8259), whatever the locale is. */
#ifndef HAL_JSON_WRITE_H
#define HAL_JSON_WRITE_H

#include <stdio.h>

/* Quoted and escaped. Bytes that are not UTF-8 become U+FFFD. */
void hal_json_write_string(FILE *out, const char *text);
/* The shortest decimal that reads back as the same double, or float; null for what JSON has no number for. */
void hal_json_write_number(FILE *out, double value);
void hal_json_write_float(FILE *out, float value);

#endif
