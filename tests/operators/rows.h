/* rows.h - for the tests of operators other than GEMM: operands in device memory with guards and gaps, an output that
 * is poisoned and computed twice, and a comparison with a reference in double. */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#include "gemm_case.h"

/* A matrix and its copy on the device. */
typedef struct operand {
    matrix host;
    hal_buffer *buffer;
    const char *name;
} operand;

/* A matrix of this shape at a random element offset and with random padding (now and then none), uploaded.
 * FILL_POISON for outputs. */
void operand_create(operand *x, fixture *f, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns,
                    matrix_fill fill, uint64_t *seed);
/* The same with this offset and leading dimension. */
void operand_create_at(operand *x, fixture *f, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns,
                       uint64_t offset, uint64_t ld, matrix_fill fill, uint64_t *seed);
void operand_upload(operand *x, fixture *f); /* the host's bytes once more */
void operand_free(operand *x);
hal_span operand_span(const operand *x);

/* Calls `tell` twice, each time from poisoned outputs, and fails if the two differ; the bytes end up in the outputs'
 * hosts. */
typedef hal_status (*tell_fn)(hal_cmdlist *list, void *user);
void operands_run(fixture *f, tell_fn tell, void *user, operand *const *outputs, uint32_t count);

/* Element [row][column] in double, and how far a plain FP32 computation may be from it before the store. */
typedef double (*expect_fn)(void *user, uint64_t row, uint64_t column, double *error);
/* Every element within twice that error and the rounding of the store (`exact`: equal once rounded), gaps untouched. */
void operand_check(const operand *y, expect_fn expect, void *user, bool exact);
/* Gaps and guards still hold 0x5A. */
void operand_check_gaps(const operand *y);

/* What the tests draw from. */
extern const uint64_t test_sizes[];
extern const uint32_t test_size_count;
extern const float test_specials[]; /* NaN, infinities, zeros, extremes */
extern const uint32_t test_special_count;

/* Runs the tests with a fixture as their state; main's result. 77, with the reason printed, without a device. */
int rows_main(const char *name, const struct CMUnitTest *tests, size_t count);
#define ROWS_MAIN(name, tests) rows_main(name, tests, sizeof(tests) / sizeof((tests)[0]))

#endif
