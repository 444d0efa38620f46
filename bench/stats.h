/* stats.h - medians of samples. */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdint.h>

/* The value below which `fraction` of the samples lie, interpolated between neighbours; NAN without samples. Sorts a
 * copy: at most BENCH_MAX_SAMPLES are looked at. */
#define BENCH_MAX_SAMPLES 101
double bench_quantile(const double *samples, uint32_t count, double fraction);
double bench_median(const double *samples, uint32_t count);

#endif
