/* stats.c - medians of samples. */
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double bench_quantile(const double *samples, uint32_t count, double fraction)
{
    double sorted[BENCH_MAX_SAMPLES];
    if (count == 0)
        return NAN;
    if (count > BENCH_MAX_SAMPLES)
        count = BENCH_MAX_SAMPLES;
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    double place = fraction * (count - 1);
    uint32_t below = (uint32_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]);
}

double bench_median(const double *samples, uint32_t count)
{
    return bench_quantile(samples, count, 0.5);
}
