/* builtin_gemm.h - one GEMM by libhal's own PTX (kernels_cu/gemm.cu, gemm_mma.cu, gemm_async.cu), for its mutants and
 * its counters. */
#ifndef BUILTIN_GEMM_H
#define BUILTIN_GEMM_H

#include "kernel_run.h"

typedef struct builtin_gemm {
    uint32_t dtype, dtype_d; /* HAL_KERNEL_F32 or HAL_KERNEL_BF16, of A and B, and of D */
    uint32_t trans_a, trans_b;
    uint32_t tile_m, tile_n, threads[2], dynamic_shared;
    uint32_t m, n, k;
    uint32_t pad_a, pad_b, pad_d; /* elements behind each row: NaN in A and B, and to be left alone in D */
} builtin_gemm;

kernel_runner builtin_gemm_run;

#endif
