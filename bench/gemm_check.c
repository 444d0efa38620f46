/* gemm_check.c - a double-precision reference to hold matrix products against. */
#include "gemm.h"

#include <math.h>

/* FP32 sums of k products are off by at most 8 sqrt(k) 2^-24 sum |a b| but for a chance below 1e-9 (Higham and Mary, "A
 * New Approach to Probabilistic Rounding Error Analysis", 2019, theorem 3.1 with lambda = 8). */
static void check_at(const bench_problem *problem, const void *result, uint64_t place, bench_worst *worst)
{
    double want = 0, magnitude = 0;
    const uint64_t row = place / problem->n, column = place % problem->n;
    const float *a = problem->a->values + row * problem->k, *b = problem->b->values + column;
    for (uint64_t i = 0; i < problem->k; i++) {
        double product = (double)a[i] * (double)b[i * problem->n];
        want += product;
        magnitude += fabs(product);
    }
    double bound = 8 * sqrt((double)problem->k) * 0x1p-24 * magnitude + bench_store_error(problem->dtype, want);
    bench_worst_note(worst, bench_element(result, problem->dtype, place), want, fmax(bound, 1e-30));
}

void bench_gemm_check(const bench_problem *problem, const void *result, bench_worst *worst)
{
    enum { ALL = 4096, SAMPLE = 98 };
    uint64_t size = problem->m * problem->n;
    for (uint64_t i = 0; size <= ALL && i < size; i++)
        check_at(problem, result, i, worst);
    if (size <= ALL)
        return;
    /* The corners, where tiles are cut, and places all over. */
    check_at(problem, result, problem->n - 1, worst);
    check_at(problem, result, size - problem->n, worst);
    for (uint32_t i = 0; i < SAMPLE; i++)
        check_at(problem, result, bench_sample(size, i), worst);
}
