/* builtin_plain.h - libhal's simplest kernels by its own PTX (kernels_cu/gemm_any.cu, gemm_combine.cu, transpose.cu,
 * attention_scores.cu), for their counters. */
#ifndef BUILTIN_PLAIN_H
#define BUILTIN_PLAIN_H

#include "kernel_run.h"

/* D = A B + bias. Entry gemm_any: A has m rows and k columns. Entry gemm_combine: in place of A and B there are k
 * parts of the product, in F32, which are added. */
typedef struct builtin_plain_gemm {
    uint32_t dtype, dtype_d, dtype_bias; /* HAL_KERNEL_F32 or HAL_KERNEL_BF16; bias 0: none */
    uint32_t m, n, k;
} builtin_plain_gemm;

/* Entry transpose_copy: rows to rows that lie elsewhere. */
typedef struct builtin_copy {
    uint32_t dtype, width;                /* of the values; bytes that are moved as one element, which may be several */
    uint32_t rows, columns, pad_x, pad_y; /* values; behind each row */
    uint32_t log_b;                       /* a group's elements of a row: 2^log_b */
} builtin_copy;

/* Entry attention_scores, without a mask. */
typedef struct builtin_scores {
    uint32_t dtype, dtype_o;
    uint32_t batch, q_heads, kv_heads, head_dim, q_length, kv_length;
    bool weights; /* else q k^T */
} builtin_scores;

kernel_runner builtin_gemm_any_run, builtin_gemm_combine_run, builtin_copy_run, builtin_scores_run;

#endif
