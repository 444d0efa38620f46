/* kernel_matrix.h - rows of elements that a kernel reads and writes, and its launch on some of them. */
#ifndef KERNEL_MATRIX_H
#define KERNEL_MATRIX_H

#include "kernel_run.h"

typedef struct kernel_matrix {
    void *data; /* NULL: absent */
    size_t bytes;
    uint32_t dtype, rows, columns, ld;
} kernel_matrix;

uint32_t kernel_dtype_size(uint32_t dtype);
/* Each byte 0xff, for the caller to free. The padding of the last row does not exist; dtype 0: nothing does. */
kernel_matrix kernel_matrix_of(uint32_t dtype, uint32_t rows, uint32_t columns, uint32_t pad);
void kernel_matrix_set(const kernel_matrix *m, uint32_t row, uint32_t column, float value);
double kernel_matrix_get(const kernel_matrix *m, uint32_t row, uint32_t column);
/* With kernel_number(), times `factor`; nothing where it is absent. */
void kernel_matrix_fill(const kernel_matrix *m, uint32_t seed, float factor);
/* What lies behind the rows is as it was; else `text` says where not. */
bool kernel_padding_is_left(const kernel_matrix *m, char *text, size_t size);
/* Beyond rounding in the dtype, and 4e-6 in F32. */
bool kernel_value_is(const kernel_matrix *m, uint32_t row, uint32_t column, double want, char *text, size_t size);

/* E4M3 codes times the row's scale are `want`, the scale a 448th of its greatest magnitude. */
bool kernel_codes_are(const kernel_matrix *codes, const kernel_matrix *scales, uint32_t row, const double *want,
                      char *text, size_t size);

enum { KERNEL_MOST_SPANS = 11 };
typedef struct kernel_spans {
    const kernel_matrix *of[KERNEL_MOST_SPANS]; /* absent ones have the first one's address */
    uint32_t count, written;                    /* bits */
} kernel_spans;
/* The kernel takes the spans' addresses, then `args`. */
kernel_result kernel_launch_spans(sim_launch *launch, const kernel_spans *spans, const void *args, size_t args_size,
                                  sim_counters *counters, char *text, size_t size);

#endif
