/* gemm.h - one matrix product, measured. */
#ifndef BENCH_GEMM_H
#define BENCH_GEMM_H

#include "bench.h"

/* A is m x k, B k x n: elements of `dtype` in `a` and `b`, their values as floats in a32 and b32 (the same memory for
 * HAL_F32). Filled with numbers in [-1, 1) that are fixed by their place. */
typedef struct bench_operand_data {
    float *values;
    void *elements;
    uint64_t count;
    hal_dtype dtype;
} bench_operand_data;

bool bench_operand_create(bench_operand_data *data, uint64_t count, hal_dtype dtype, uint32_t seed);
void bench_operand_destroy(bench_operand_data *data);

typedef struct bench_problem {
    const char *label;
    uint64_t m, n, k;
    hal_dtype dtype;
    double budget;                   /* seconds to spend on timed rounds */
    const bench_operand_data *a, *b; /* at least m * k and k * n elements */
} bench_problem;

/* Check, time and add a row. */
void bench_gemm_measure(bench_run *run, const bench_device *device, const bench_problem *problem);
/* The largest power of two of rows, at most `most`, whose product takes no longer than `seconds` on the device; 0 if
 * the device cannot do it at all (the row says why when it is measured). */
uint64_t bench_gemm_fit(bench_run *run, const bench_device *device, const bench_problem *problem, uint64_t most,
                        double seconds);

/* The largest |got - want| / bound over a sample of the result (all of a small one), where want is computed in double
 * precision and the bound is for FP32 accumulation of k terms and one rounding to dtype. At most 1 is right. */
double bench_gemm_error(const bench_problem *problem, const void *result);

/* OpenBLAS, where it is installed. */
typedef void (*bench_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                               int lda, const float *b, int ldb, float beta, float *c, int ldc);
/* NULL if it is not there; loaded once, kept until exit. */
bench_sgemm_fn bench_openblas(uint32_t threads);

#endif
