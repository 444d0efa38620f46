/* cases.c - which cases of an operator are measured. */
#include "job.h"

#include <string.h>

enum { QUICK_SHRINK = 16 };

double bench_budget(const bench_options *options)
{
    return (options->command == BENCH_SUITE ? 0.3 : 1.5) * options->rounds / 21;
}

uint32_t bench_dtypes(const bench_options *options, bool single, hal_dtype dtypes[2])
{
    dtypes[0] = options->has_dtype ? options->dtype : HAL_F32;
    dtypes[1] = HAL_BF16;
    return options->has_dtype || single || options->command == BENCH_SUITE ? 1 : 2;
}

/* Is it the first of its name? One shape that is asked for takes the place of all of the table. */
static bool repeats_name(const bench_matrix_case *table, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (!strcmp(table[i].name, table[at].name))
            return true;
    return false;
}

uint32_t bench_matrix_cases(const bench_options *options, const bench_matrix_case *table, uint32_t count,
                            bench_matrix_case *cases)
{
    hal_dtype dtypes[2];
    bool shaped = options->rows || options->columns;
    uint32_t dtype_count = bench_dtypes(options, shaped, dtypes), found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((options->op && strcmp(options->op, table[i].name) != 0) || (shaped && repeats_name(table, i)) ||
            (options->command == BENCH_SUITE && !table[i].in_suite))
            continue;
        for (uint32_t d = 0; d < dtype_count && found < BENCH_MAX_CASES; d++) {
            bench_matrix_case unused, *next = cases ? &cases[found] : &unused;
            found++;
            *next = table[i];
            next->dtype = dtypes[d];
            if (options->quick)
                next->rows = (next->rows + QUICK_SHRINK - 1) / QUICK_SHRINK;
            if (options->rows)
                next->rows = options->rows;
            if (options->columns)
                next->columns = options->columns;
        }
    }
    return found;
}

void bench_matrix_each(bench_run *run, const bench_device *device, const bench_matrix_case *table, uint32_t count,
                       bench_matrix_fn measure)
{
    bench_matrix_case cases[BENCH_MAX_CASES];
    uint32_t found = bench_matrix_cases(run->options, table, count, cases);
    for (uint32_t i = 0; i < found && !bench_interrupted(); i++)
        measure(run, device, &cases[i]);
}

bench_job bench_matrix_job(const bench_options *options, const char *op, const bench_matrix_case *shape)
{
    bench_job job = {.op = op,
                     .label = shape->name,
                     .dtype = shape->dtype,
                     .limit = BENCH_LIMIT_COPY,
                     .budget = bench_budget(options)};
    snprintf(job.shape, sizeof job.shape, "%llux%llu", (unsigned long long)shape->rows,
             (unsigned long long)shape->columns);
    return job;
}
