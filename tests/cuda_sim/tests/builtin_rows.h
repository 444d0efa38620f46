/* builtin_rows.h - an activation and a transposition by libhal's own PTX (kernels_cu/activation.cu, transpose.cu), for
 * their mutants and their counters. */
#ifndef BUILTIN_ROWS_H
#define BUILTIN_ROWS_H

#include "kernel_run.h"

typedef struct builtin_activation {
    uint32_t dtype_a, dtype_b, dtype_y; /* HAL_KERNEL_F32 or HAL_KERNEL_BF16; b: 0 for y = relu(a), else y = a + b */
    uint32_t rows, columns, b_rows, b_columns;
    uint32_t pad; /* elements behind each row */
} builtin_activation;

/* Entry transpose. Elements are numbers of their own. */
typedef struct builtin_transpose {
    uint32_t width;         /* bytes of an element: 1, 2 or 4 */
    uint32_t rows, columns; /* of x; y has columns rows */
    uint32_t pad_x, pad_y;  /* elements behind each row */
} builtin_transpose;

kernel_runner builtin_activation_run, builtin_transpose_run;

#endif
