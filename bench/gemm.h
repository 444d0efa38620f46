/* gemm.h - matrix products, for the suite and for those that a product is the measure of. */
#ifndef BENCH_GEMM_H
#define BENCH_GEMM_H

#include "job.h"

typedef struct bench_problem {
    const char *label;
    uint64_t m, n, k;
    hal_dtype dtype;
    double budget;                   /* seconds to spend on timed rounds */
    const bench_operand_data *a, *b; /* A is m x k, B k x n: at least so many elements */
    uint64_t full_m, full_n, full_k; /* a near size that fills its tiles, to compare with; 0: none */
} bench_problem;

/* The job of a problem, without peers. */
bench_job bench_gemm_job(const bench_problem *problem);
/* Check, time and add a row. */
void bench_gemm_measure(bench_run *run, const bench_device *device, const bench_problem *problem);
/* `gemm --op quantize`: rows quantised by the same kernel, against two kernels. */
uint32_t bench_gemm_quantize_steps(const bench_options *options);
void bench_gemm_quantize(bench_run *run, const bench_device *device);
/* The largest power of two of rows, at most `most`, whose product takes no longer than `seconds` on the device; 0 if
 * the device cannot do it at all (the row says why when it is measured). */
uint64_t bench_gemm_fit(const bench_device *device, const bench_problem *problem, uint64_t most, double seconds);
/* Compare a sample of D (all of a small one) with sums in double precision; the bound is for FP32 accumulation of k
 * terms and one rounding to dtype. */
void bench_gemm_check(const bench_problem *problem, const void *result, bench_worst *worst);

/* Peers: their names stay NULL where they are not to be had. */

/* OpenBLAS on the host, in FP32. */
void bench_openblas_peer(bench_peer *peer, const bench_problem *problem, uint32_t threads);
/* libhal's product of another size on the same device: its rate in what limits the job. `name` stays the caller's. */
void bench_own_gemm_peer(bench_peer *peer, const char *name, const bench_device *device, const bench_problem *problem,
                         bench_limit limit);
/* CLBlast on an OpenCL device, in FP32. */
void bench_clblast_peer(bench_peer *peer, const bench_problem *problem, const bench_device *device);

#endif
