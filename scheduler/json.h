/* json.h - reading JSON: device descriptions, databases. RFC 8259, with limits that hold against hostile text: 64
 * levels, numbers that are finite, strings of UTF-8 without NUL. Independent of the locale. */
#ifndef HAL_JSON_H
#define HAL_JSON_H

#include <hal/base.h>

typedef enum hal_json_type {
    HAL_JSON_NULL,
    HAL_JSON_FALSE,
    HAL_JSON_TRUE,
    HAL_JSON_NUMBER,
    HAL_JSON_STRING,
    HAL_JSON_ARRAY,
    HAL_JSON_OBJECT
} hal_json_type;

typedef struct hal_json {
    hal_json_type type;
    uint32_t count;     /* of an array's or object's members */
    const char *key;    /* of a member of an object */
    const char *string; /* UTF-8 */
    double number;
    const struct hal_json *first, *next; /* member; next one of the same array or object */
} hal_json;

/* `name` is for the message: "machine.json: line 3: ...". Free the root with hal_json_free. */
hal_status hal_json_parse(const char *name, const char *text, size_t size, hal_json **root);
void hal_json_free(hal_json *root);
/* A whole file of at most `most` bytes, then as above. */
hal_status hal_json_load(const char *path, size_t most, hal_json **root);
/* Bytes of the well-formed character of UTF-8 (Unicode 15, table 3-7) that a string which ends with a NUL begins with;
 * 0: there is none. */
int hal_utf8_size(const char *text);
/* The member of that key, or NULL; `object` may be NULL or something else. */
const hal_json *hal_json_get(const hal_json *object, const char *key);

#endif
