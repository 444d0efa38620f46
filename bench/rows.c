/* rows.c - the results so far, and how figures are written. */
#include "bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bench_row *bench_row_add(bench_run *run, bench_kind kind, const bench_device *device, const char *label)
{
    if (run->row_count == run->row_capacity) {
        uint32_t capacity = run->row_capacity ? 2 * run->row_capacity : 64;
        bench_row *rows = realloc(run->rows, capacity * sizeof *rows);
        if (!rows) {
            fputs("hal-bench: out of memory\n", stderr);
            exit(1);
        }
        run->rows = rows;
        run->row_capacity = capacity;
    }
    bench_row *row = &run->rows[run->row_count++];
    memset(row, 0, sizeof *row);
    row->kind = kind;
    snprintf(row->backend, sizeof row->backend, "%s", device->info.backend);
    snprintf(row->device, sizeof row->device, "%s", device->info.name);
    row->index = device->info.index;
    snprintf(row->label, sizeof row->label, "%s", label);
    double *const figures[] = {
        &row->libhal_ns,       &row->raw_ns,       &row->ratio,       &row->ratio_low, &row->ratio_high,
        &row->libhal_total_ns, &row->raw_total_ns, &row->total_ratio, &row->device_ns, &row->wait_ns,
        &row->allocations,     &row->rss_growth,   &row->eager_ns,    &row->record_ns, &row->break_even,
        &row->rerecord_ns,     &row->seconds,      &row->rate,        &row->gflops,    &row->gbps,
        &row->floor_rate,      &row->floor_ratio,  &row->max_error,   &row->bound,     &row->peak_fraction,
        &row->predicted_ns};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        *figures[i] = NAN;
    row->op = row->unit = row->floor = row->mode = "";
    return row;
}

void bench_row_fail(bench_run *run, bench_row *row, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row->note, sizeof row->note, format, arguments);
    va_end(arguments);
    row->failed = true;
    run->failed = true;
}

const char *bench_row_kind(const bench_row *row)
{
    static const char *const names[] = {"overhead", "replay", "operator", "graph"};
    return row->kind == BENCH_ROW_OPERATOR ? row->op : names[row->kind];
}

double bench_row_error(const bench_row *row)
{
    return row->max_error == 0 ? 0 : row->max_error / row->bound;
}

char *bench_format_number(double value, const char *format, char text[24])
{
    if (isnan(value))
        snprintf(text, 24, "-");
    else
        snprintf(text, 24, format, value); /* `format` is a literal at every call */
    return text;
}

char *bench_format_ns(double nanoseconds, char text[24])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    if (isnan(nanoseconds))
        return bench_format_number(nanoseconds, "", text);
    while (nanoseconds >= 1000 && unit < 3) {
        nanoseconds /= 1000;
        unit++;
    }
    snprintf(text, 24, "%.*f %s",
             unit == 0           ? 0
             : nanoseconds < 10  ? 2
             : nanoseconds < 100 ? 1
                                 : 0,
             nanoseconds, units[unit]);
    return text;
}
