/* attention.h - one attention problem: its operands, and a reference in double precision. */
#ifndef BENCH_ATTENTION_H
#define BENCH_ATTENTION_H

#include "job.h"

/* Packed [batch][token][head][dim]; with pages K and V are [page][token][head][dim], and the table gives a sequence's
 * pages from last to first. */
typedef struct bench_attention_problem {
    const char *label;
    bench_heads heads;
    hal_dtype dtype;
    bench_operand_data q, k, v;
    uint64_t page_columns; /* pages of a sequence; 0: no pages */
    int32_t *page_table, *kv_lengths;
} bench_attention_problem;

/* Make the operands; false: out of memory. */
bool bench_attention_create(bench_attention_problem *problem);
void bench_attention_destroy(bench_attention_problem *problem);
/* How many keys query i of a sequence sees. */
uint64_t bench_attention_keys(const bench_heads *heads, uint64_t i);
/* Compare a sample of O's rows. */
void bench_attention_check(const bench_attention_problem *problem, const void *result, bench_worst *worst);

#endif
