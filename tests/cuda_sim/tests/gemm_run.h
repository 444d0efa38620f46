/* gemm_run.h - one GEMM by the PTX of kernels/gemm_sm90.cu, for its test and its mutants. */
#ifndef GEMM_RUN_H
#define GEMM_RUN_H

#include "kernel_run.h"

typedef struct gemm_case {
    const char *entry;
    uint32_t cluster; /* blocks */
    uint32_t grid;    /* blocks; fewer than tiles, so that the ring and the output boxes are used again */
    uint32_t m, n, k; /* n and k multiples of 8 */
} gemm_case;

kernel_runner gemm_run; /* its problem is a gemm_case */

#endif
