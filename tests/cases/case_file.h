/* case_file.h - a conformance case: case.json and its raw .bin files, read without trusting either.
 *
 * A tensor's file is a whole allocation: `offset` elements, then rows (all dimensions but the last, flattened) of
 * `columns` elements, `ld` apart. Gaps of outputs hold 0x5A and are compared, too. */
#ifndef CASE_FILE_H
#define CASE_FILE_H

#include <hal/hal.h>

#include <cjson/cJSON.h>

#define CASE_DIMS    8
#define CASE_TENSORS 16

typedef struct case_tensor {
    bool present;
    char name[64];
    char dtype_name[16];
    hal_dtype dtype;       /* HAL_DTYPE_DEFAULT: one that libhal does not compute with */
    uint32_t element_size; /* bytes; 0: an unknown dtype, whose file is not read */
    uint32_t dim_count;
    uint64_t dims[CASE_DIMS];
    uint64_t rows, columns, ld, offset;
    double abs, rel; /* outputs: tolerance */
    uint8_t *data;   /* the whole file */
    uint64_t size;
} case_tensor;

typedef struct case_file {
    cJSON *json;
    const char *op; /* points into json */
    const cJSON *attributes;
    case_tensor inputs[CASE_TENSORS], outputs[CASE_TENSORS];
    uint32_t input_count, output_count;
    char error[256]; /* why it could not be read */
} case_file;

/* Only the JSON; false with `error` set. Free with case_close either way. */
bool case_open(case_file *c, const char *folder);
/* Describe the tensors and load their files. */
bool case_load(case_file *c, const char *folder);
void case_close(case_file *c);

/* NULL if there is no such input or it is null. */
const case_tensor *case_input(const case_file *c, const char *name);
/* false if it is there, but no number. */
bool case_number(const case_file *c, const char *name, double fallback, double *value);
/* As case_number; a whole number in [0, 2^31]. */
bool case_count(const case_file *c, const char *name, uint64_t fallback, uint64_t *value);

/* Compare a whole file with what the case expects. false: `why` says where they differ. */
bool case_compare(const case_tensor *want, const uint8_t *got, char *why, size_t capacity);

#endif
