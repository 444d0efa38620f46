/* table.h - aligned tables on a terminal or in a file. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct bench_table bench_table;

typedef enum bench_tone { BENCH_TONE_PLAIN, BENCH_TONE_GOOD, BENCH_TONE_BAD, BENCH_TONE_DIM } bench_tone;

/* Columns are named as in "case|<commands|<ratio": '<' at the start of a name aligns its column to the left, others go
 * right. NULL when out of memory. */
bench_table *bench_table_create(const char *columns);
void bench_table_destroy(bench_table *table);
/* Fill the next cell; rows are as long as there are columns. */
void bench_table_cell(bench_table *table, bench_tone tone, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bench_table_print(const bench_table *table, FILE *out, bool colour);

#endif
