/* attention_case.h - one problem of hal_attention with its memory, and the reference in double. */
#ifndef TEST_ATTENTION_CASE_H
#define TEST_ATTENTION_CASE_H

#include "rows.h"

typedef enum case_kind { CASE_PLAIN, CASE_PACKED, CASE_LENGTHS, CASE_PAGED } case_kind;
typedef enum case_mask { CASE_NO_MASK, CASE_ADD, CASE_BOOL } case_mask;

/* The fields up to `without` are given. A row of q, k, v or o is one head of one token. */
typedef struct attention_case {
    uint64_t batch, q_length, kv_length;
    uint32_t kv_heads, ratio, head_dim, value_dim;
    hal_dtype dtype, dtype_o;
    case_kind kind;
    const uint32_t *q_lengths, *kv_lengths; /* of the sequences; NULL: drawn, where the kind has some */
    hal_causal causal;
    int64_t causal_offset;
    case_mask mask;
    uint32_t hidden_column, hidden_row; /* of the mask: hidden whole; 0: none */
    float softcap, scale;
    uint32_t page_size, splits;
    bool heads_first, lse; /* layout [batch][head][token][dim] */
    bool aligned;          /* rows start at multiples of 16 bytes, and have whole ones */
    hal_mode mode;
    bool scores; /* wanted, too */
    hal_scores scores_kind;
    hal_dtype dtype_scores;
    uint32_t without; /* 1: with the kernel for any device only */

    bool matrix_units;
    operand q, k, v, o, sums, hides, seen;
    int32_t *cu_q, *cu_k, *lengths, *pages;
    uint64_t page_count, page_columns;
    hal_buffer *cu_q_buffer, *cu_k_buffer, *lengths_buffer, *pages_buffer, *workspace;
    double *want, *error, *want_lse, *lse_error; /* by row */
} attention_case;

void attention_create(attention_case *c, fixture *f, uint64_t *seed);
void attention_free(attention_case *c);
hal_attention_desc attention_desc(const attention_case *c, fixture *f);
/* Twice; the outputs' hosts get the bytes. */
void attention_run(attention_case *c, fixture *f);
void attention_check(attention_case *c);
/* Once more, but only one query of one sequence of a CASE_PLAIN. */
void attention_one_query(attention_case *c, fixture *f, uint64_t sequence, uint64_t query);

uint64_t attention_query_row(const attention_case *c, uint64_t sequence, uint64_t query, uint32_t head);
uint64_t attention_key_row(const attention_case *c, uint64_t sequence, uint64_t key, uint32_t head);

#endif
