/* builtin_rows.h - one activation by libhal's own PTX (kernels_cu/activation.cu), for its mutants and its counters. */
#ifndef BUILTIN_ROWS_H
#define BUILTIN_ROWS_H

#include "kernel_run.h"

typedef struct builtin_activation {
    uint32_t dtype_a, dtype_b, dtype_y; /* HAL_KERNEL_F32 or HAL_KERNEL_BF16; b: 0 for y = relu(a), else y = a + b */
    uint32_t rows, columns, b_rows, b_columns;
    uint32_t pad; /* elements behind each row */
} builtin_activation;

/* A kernel_runner: the problem is a builtin_activation. */
kernel_result builtin_activation_run(const ptx_function *function, const void *problem, const sim_options *options,
                                     char *text, size_t size);
/* The same, counted. */
kernel_result builtin_activation_count(const ptx_function *function, const builtin_activation *problem,
                                       const sim_options *options, sim_counters *counters, char *text, size_t size);

#endif
