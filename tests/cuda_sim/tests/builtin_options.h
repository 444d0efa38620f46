/* builtin_options.h - one GEMM with options on tensor cores by libhal's own PTX (kernels_cu/gemm_mma_any.cu), for its
 * mutants and its counters. */
#ifndef BUILTIN_OPTIONS_H
#define BUILTIN_OPTIONS_H

#include "kernel_run.h"

typedef struct builtin_options {
    uint32_t dtype, dtype_d; /* HAL_KERNEL_BF16 or _F8E4M3, of A and B; of D also _F32 */
    uint32_t tile;           /* 128 or 64, rows and columns of B */
    uint32_t m, n, k;
    uint32_t pad_a, pad_b, pad_d; /* elements behind each row: NaN in A and B, and to be left alone in D */
    bool trans_a, trans_b, trans_d;
    bool scaled;          /* each row of A and each column of B, and D's rows where that is E4M3 */
    bool up, interleaved; /* SwiGLU, by two matrices or by one */
} builtin_options;

kernel_runner builtin_options_run;

#endif
