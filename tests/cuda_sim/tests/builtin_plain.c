/* builtin_plain.c - see builtin_plain.h. */
#include "builtin_plain.h"
#include "kernel_attention.h"
#include "kernel_convert.h"
#include "kernel_matrix.h"
#include "kernel_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static kernel_result end(kernel_matrix *m, uint32_t count, kernel_result result, bool right)
{
    for (uint32_t i = 0; i < count; i++) {
        free(m[i].data);
    }
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}

static uint32_t groups(uint32_t size, uint32_t tile)
{
    return (size - 1) / tile + 1;
}

/* --- GEMM --- */

enum { A, B, C, D, BIAS, RESIDUAL, UP, SCALE_A, SCALE_B, SCALE_D, GEMM_SPANS };
enum { ANY_TILE = 32, ANY_SIDE = 8, COMBINE_THREADS = 64 };

static kernel_result run_gemm(const builtin_plain_gemm *p, kernel_matrix m[GEMM_SPANS], bool parts, sim_launch *l,
                              sim_counters *counters, char *text, size_t size)
{
    kernel_matrix_fill(&m[A], 1, 1.0f);
    kernel_matrix_fill(&m[B], 77, 1.0f);
    kernel_matrix_fill(&m[BIAS], 7, 1.0f);
    hal_gemm_args args = {.m = p->m,
                          .n = p->n,
                          .k = p->k,
                          .alpha = 1.0f,
                          .flags = GEMM_FLAGS(0u, p->dtype_d, p->dtype_bias, 0u, 0u, GEMM_ACT_NONE)};
    args.lda[0] = m[A].ld;
    args.ldb[0] = m[B].ld;
    args.stride_b[0] = parts ? p->m * p->n : 0;
    args.ldd[0] = p->n;
    kernel_spans s = {.count = GEMM_SPANS, .written = 1u << D};
    for (uint32_t i = 0; i < GEMM_SPANS; i++) {
        s.of[i] = &m[i];
    }
    const kernel_result result = kernel_launch_spans(l, &s, &args, sizeof args, counters, text, size);
    bool right = true;
    for (uint32_t i = 0; right && result == KERNEL_RIGHT && i < p->m; i++) {
        for (uint32_t j = 0; right && j < p->n; j++) {
            double sum = p->dtype_bias ? kernel_matrix_get(&m[BIAS], 0, j) : 0;
            for (uint32_t k = 0; k < p->k; k++) {
                sum += parts ? kernel_matrix_get(&m[A], k * p->m + i, j)
                             : kernel_matrix_get(&m[A], i, k) * kernel_matrix_get(&m[B], k, j);
            }
            right = kernel_value_is(&m[D], i, j, sum, text, size);
        }
    }
    return end(m, GEMM_SPANS, result, right);
}

kernel_result builtin_gemm_any_run(const ptx_function *function, const void *problem, const sim_options *options,
                                   sim_counters *counters, char *text, size_t size)
{
    const builtin_plain_gemm *p = problem;
    kernel_matrix m[GEMM_SPANS] = {[A] = kernel_matrix_of(p->dtype, p->m, p->k, 0),
                                   [B] = kernel_matrix_of(p->dtype, p->k, p->n, 0),
                                   [D] = kernel_matrix_of(p->dtype_d, p->m, p->n, 0),
                                   [BIAS] = kernel_matrix_of(p->dtype_bias, 1, p->n, 0)};
    sim_launch l = {.function = function,
                    .grid = {groups(p->n, ANY_TILE), groups(p->m, ANY_TILE), 1},
                    .block = {ANY_SIDE, ANY_SIDE, 1},
                    .options = *options};
    return run_gemm(p, m, false, &l, counters, text, size);
}

kernel_result builtin_gemm_combine_run(const ptx_function *function, const void *problem, const sim_options *options,
                                       sim_counters *counters, char *text, size_t size)
{
    const builtin_plain_gemm *p = problem;
    kernel_matrix m[GEMM_SPANS] = {[A] = kernel_matrix_of(HAL_KERNEL_F32, p->k * p->m, p->n, 0),
                                   [D] = kernel_matrix_of(p->dtype_d, p->m, p->n, 0),
                                   [BIAS] = kernel_matrix_of(p->dtype_bias, 1, p->n, 0)};
    sim_launch l = {.function = function,
                    .grid = {groups(p->n, 4 * COMBINE_THREADS), p->m, 1},
                    .block = {COMBINE_THREADS, 1, 1},
                    .options = *options};
    return run_gemm(p, m, true, &l, counters, text, size);
}

/* --- rows that move --- */

kernel_result builtin_copy_run(const ptx_function *function, const void *problem, const sim_options *options,
                               sim_counters *counters, char *text, size_t size)
{
    enum { THREADS = 256, COPY = 1024 };
    const builtin_copy *p = problem;
    kernel_matrix m[2] = {kernel_matrix_of(p->dtype, p->rows, p->columns, p->pad_x),
                          kernel_matrix_of(p->dtype, p->rows, p->columns, p->pad_y)};
    kernel_matrix_fill(&m[0], 1, 1.0f);
    const uint32_t values = p->width / kernel_dtype_size(p->dtype); /* of an element */
    hal_transpose_args args = {
        .count_a = p->rows, .count_b = p->columns / values, .width = p->width, .log_b = p->log_b};
    args.xa[0] = m[0].ld / values;
    args.ya[0] = m[1].ld / values;
    args.xb[0] = args.yb[0] = 1;
    const kernel_spans s = {.of = {&m[0], &m[1]}, .count = 2, .written = 2};
    sim_launch l = {.function = function,
                    .grid = {groups(args.count_b, 1u << p->log_b), groups(p->rows, COPY >> p->log_b), 1},
                    .block = {THREADS, 1, 1},
                    .options = *options};
    const kernel_result result = kernel_launch_spans(&l, &s, &args, sizeof args, counters, text, size);
    bool right = result == KERNEL_RIGHT && kernel_padding_is_left(&m[1], text, size);
    for (uint32_t i = 0; right && i < p->rows * p->columns; i++) {
        const uint32_t row = i / p->columns, column = i % p->columns;
        right = kernel_value_is(&m[1], row, column, kernel_matrix_get(&m[0], row, column), text, size);
    }
    return end(m, 2, result, right);
}

/* --- scores --- */

/* Rows of q and of scores are those of heads of tokens, rows of k likewise. */
static bool scores_are_right(const builtin_scores *p, const kernel_matrix m[ATTENTION_SPANS], uint32_t row, char *text,
                             size_t size)
{
    const uint32_t token = row / p->q_heads, head = row % p->q_heads / (p->q_heads / p->kv_heads);
    const uint32_t first = token / p->q_length * p->kv_length;
    double *score = calloc(p->kv_length, sizeof *score), most = -INFINITY, sum = 0;
    for (uint32_t key = 0; score && key < p->kv_length; key++) {
        for (uint32_t d = 0; d < p->head_dim; d++) {
            score[key] += kernel_matrix_get(&m[ATTENTION_Q], row, d) *
                          kernel_matrix_get(&m[ATTENTION_K], (first + key) * p->kv_heads + head, d);
        }
        most = fmax(most, score[key]);
    }
    for (uint32_t key = 0; score && key < p->kv_length; key++) {
        sum += exp(score[key] - most);
    }
    bool right = score != NULL;
    for (uint32_t key = 0; right && key < p->kv_length; key++) {
        const double want = p->weights ? exp(score[key] - most) / sum : score[key];
        right = kernel_value_is(&m[ATTENTION_O], row, key, want, text, size);
    }
    free(score);
    return right;
}

static hal_attention_args args_of_scores(const builtin_scores *p)
{
    hal_attention_args args = {.flags = ROW_FLAGS(p->dtype, p->dtype_o, 0u, 0u, 0u, 0u),
                               .q_heads = p->q_heads,
                               .kv_heads = p->kv_heads,
                               .head_dim = p->head_dim,
                               .value_dim = p->head_dim,
                               .q_length = p->q_length,
                               .kv_length = p->kv_length,
                               .batch = p->batch,
                               .splits = 1,
                               .part = groups(p->kv_length, ATTENTION_KEYS),
                               .scores = p->weights ? ATTENTION_WEIGHTS : ATTENTION_SCALED,
                               .scale = 1.0f};
    args.q_head[0] = args.k_head[0] = p->head_dim;
    args.q_token[0] = p->q_heads * p->head_dim;
    args.q_batch[0] = p->q_length * args.q_token[0];
    args.k_token[0] = p->kv_heads * p->head_dim;
    args.k_batch[0] = p->kv_length * args.k_token[0];
    args.o_head[0] = p->kv_length;
    args.o_token[0] = p->q_heads * p->kv_length;
    args.o_batch[0] = p->q_length * args.o_token[0];
    return args;
}

kernel_result builtin_scores_run(const ptx_function *function, const void *problem, const sim_options *options,
                                 sim_counters *counters, char *text, size_t size)
{
    const builtin_scores *p = problem;
    const uint32_t rows = p->batch * p->q_length * p->q_heads;
    kernel_matrix m[ATTENTION_SPANS] = {
        [ATTENTION_Q] = kernel_matrix_of(p->dtype, rows, p->head_dim, 0),
        [ATTENTION_K] = kernel_matrix_of(p->dtype, p->batch * p->kv_length * p->kv_heads, p->head_dim, 0),
        [ATTENTION_O] = kernel_matrix_of(p->dtype_o, rows, p->kv_length, 0)};
    kernel_matrix_fill(&m[ATTENTION_Q], 1, 0.25f);
    kernel_matrix_fill(&m[ATTENTION_K], 77, 0.25f);
    const hal_attention_args args = args_of_scores(p);
    kernel_spans s = {.count = ATTENTION_SPANS, .written = 1u << ATTENTION_O};
    for (uint32_t i = 0; i < ATTENTION_SPANS; i++) {
        s.of[i] = &m[i];
    }
    sim_launch l = {.function = function,
                    .grid = {p->q_length * (p->q_heads / p->kv_heads), p->kv_heads, p->batch},
                    .block = {ATTENTION_SCORE_THREADS, 1, 1},
                    .options = *options};
    const kernel_result result = kernel_launch_spans(&l, &s, &args, sizeof args, counters, text, size);
    bool right = true;
    for (uint32_t row = 0; right && result == KERNEL_RIGHT && row < rows; row++) {
        right = scores_are_right(p, m, row, text, size);
    }
    return end(m, ATTENTION_SPANS, result, right);
}
