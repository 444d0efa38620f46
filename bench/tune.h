/* tune.h - hal-bench tune. */
#ifndef BENCH_TUNE_H
#define BENCH_TUNE_H

#include "bench.h"

int bench_tune(bench_run *run); /* the exit code */

#endif
