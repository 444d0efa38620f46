/* builtin_reduce.h - RMSNorm and softmax by libhal's own PTX (kernels_cu/rmsnorm.cu, softmax.cu), for their mutants and
 * their counters. */
#ifndef BUILTIN_REDUCE_H
#define BUILTIN_REDUCE_H

#include "kernel_run.h"

/* How rows are laid over a block, as scheduler/row_kernels.c does. */
typedef struct builtin_shape {
    uint32_t threads, rows; /* of a row; rows of a block: 256 together */
    uint32_t keep;          /* fours that a thread keeps of its row; 0: the row is read again */
} builtin_shape;

/* y = x / sqrt(mean(x^2) + 1/4) * weight; with a residual x is x + residual, and is written, too. */
typedef struct builtin_rmsnorm {
    uint32_t dtype, dtype_weight, dtype_y; /* F32 or BF16; weight 0: none; y also HAL_KERNEL_F8E4M3: with scales */
    uint32_t rows, columns, pad;           /* elements behind each row, NaN */
    builtin_shape shape;
    bool residual, parts; /* parts: a long row in RMSNORM_PARTS parts */
} builtin_rmsnorm;

/* y = softmax(x + mask), or its logarithm. x are whole octaves. */
typedef struct builtin_softmax {
    uint32_t dtype, dtype_mask, dtype_y; /* F32 or BF16; mask 0: none, else it hides every fifth column */
    uint32_t rows, columns, pad;
    builtin_shape shape;
    bool log, online;
} builtin_softmax;

kernel_runner builtin_rmsnorm_run, builtin_softmax_run;

#endif
