/* gemm_run.h - one GEMM by the PTX of kernels/gemm_sm90.cu, for its test and its mutants. */
#ifndef GEMM_RUN_H
#define GEMM_RUN_H

#include "../exec/sim_api.h"

typedef struct gemm_case {
    const char *entry;
    uint32_t cluster; /* blocks */
    uint32_t grid;    /* blocks; fewer than tiles, so that the ring and the output boxes are used again */
    uint32_t m, n, k; /* n and k multiples of 8 */
} gemm_case;

typedef enum gemm_result { GEMM_RIGHT, GEMM_NOT_RUN, GEMM_FAULT, GEMM_WRONG } gemm_result;
/* Inputs are small integers, so that every sum is exact and the one right answer known to the bit. `text` says what is
 * wrong: the loader's error, the fault, or the first wrong element. */
gemm_result gemm_run(const char *ptx, const gemm_case *gemm, const sim_options *options, char *text, size_t size);
/* The whole file; NULL if it cannot be read. */
char *gemm_read(const char *path);

#endif
