/* builtin_convert.c - see builtin_convert.h. */
#include "builtin_convert.h"
#include "kernel_convert.h"
#include "kernel_matrix.h"
#include <stdlib.h>

enum { THREADS = 256, TILE = 4 * THREADS };

static void free_all(kernel_matrix *m, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        free(m[i].data);
    }
}

static sim_launch launch_of(const ptx_function *function, uint32_t columns, uint32_t tile, uint32_t rows,
                            const sim_options *options)
{
    return (sim_launch){.function = function,
                        .grid = {(columns - 1) / tile + 1, rows, 1},
                        .block = {THREADS, 1, 1},
                        .options = *options};
}

/* --- quantize, quantize_row --- */

enum { X, Y, SCALES, QUANTIZE_SPANS };

static bool by_row(const builtin_quantize *p)
{
    return p->op == QUANTIZE_CODES && !p->scaling;
}

/* Powers of two: codes are exact. */
static double scale_of(const builtin_quantize *p, const kernel_matrix *scales, uint32_t row, uint32_t column)
{
    return p->op < QUANTIZE_CODES              ? 1
           : p->scaling == QUANTIZE_PER_COLUMN ? kernel_matrix_get(scales, 0, column)
           : p->scaling == QUANTIZE_PER_ROW    ? kernel_matrix_get(scales, 0, row)
                                               : kernel_matrix_get(scales, 0, 0);
}

static kernel_matrix scales_of(const builtin_quantize *p)
{
    const uint32_t counts[] = {p->rows, p->rows, p->columns, 1};
    kernel_matrix m = kernel_matrix_of(p->op < QUANTIZE_CODES ? 0 : HAL_KERNEL_F32, 1, counts[p->scaling], 0);
    for (uint32_t i = 0; i < m.columns && m.data && !by_row(p); i++) {
        kernel_matrix_set(&m, 0, i, (float)(1u << i % 3));
    }
    return m;
}

static bool quantized_is_right(const builtin_quantize *p, const kernel_matrix m[QUANTIZE_SPANS], uint32_t row,
                               double *want, char *text, size_t size)
{
    bool right = true;
    for (uint32_t j = 0; j < p->columns; j++) {
        want[j] = kernel_matrix_get(&m[X], row, j);
    }
    if (by_row(p)) {
        return kernel_codes_are(&m[Y], &m[SCALES], row, want, text, size);
    }
    for (uint32_t j = 0; right && j < p->columns; j++) {
        const double scale = scale_of(p, &m[SCALES], row, j);
        right = kernel_value_is(&m[Y], row, j, p->op == QUANTIZE_CODES ? want[j] / scale : want[j] * scale, text, size);
    }
    return right;
}

kernel_result builtin_quantize_run(const ptx_function *function, const void *problem, const sim_options *options,
                                   sim_counters *counters, char *text, size_t size)
{
    const builtin_quantize *p = problem;
    kernel_matrix m[QUANTIZE_SPANS] = {kernel_matrix_of(p->dtype, p->rows, p->columns, p->pad),
                                       kernel_matrix_of(p->dtype_y, p->rows, p->columns, p->pad), scales_of(p)};
    kernel_matrix_fill(&m[X], 1, 1.0f);
    hal_quantize_args args = {.rows = p->rows,
                              .columns = p->columns,
                              .flags =
                                  ROW_FLAGS(p->dtype, p->dtype_y, HAL_KERNEL_F32, 0u, 0u, p->op | p->scaling << 2)};
    args.ldx[0] = args.ldy[0] = p->columns + p->pad;
    const kernel_spans spans = {{&m[X], &m[Y], &m[SCALES]}, QUANTIZE_SPANS, 1u << Y | (uint32_t)by_row(p) << SCALES};
    sim_launch l = launch_of(function, p->columns, by_row(p) ? p->columns : TILE, p->rows, options);
    kernel_result result = kernel_launch_spans(&l, &spans, &args, sizeof args, counters, text, size);
    double *want = calloc(p->columns, sizeof *want);
    bool right = want && kernel_padding_is_left(&m[Y], text, size);
    for (uint32_t i = 0; right && result == KERNEL_RIGHT && i < p->rows; i++) {
        right = quantized_is_right(p, m, i, want, text, size);
    }
    free(want);
    free_all(m, QUANTIZE_SPANS);
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}

/* --- rope --- */

enum { COS = 2, SIN, IDS, ROPE_SPANS };

/* Ids, where there are any, count down. */
static uint32_t position_of(const builtin_rope *p, uint32_t token)
{
    return p->ids ? p->tokens - 1 - token : token;
}

static bool turned_is_right(const builtin_rope *p, const kernel_matrix m[ROPE_SPANS], uint32_t row, char *text,
                            size_t size)
{
    const uint32_t pairs = p->rotary_dim / 2, position = position_of(p, row / p->heads);
    bool right = true;
    for (uint32_t i = 0; right && i < p->head_dim; i++) {
        double want = kernel_matrix_get(&m[X], row, i);
        if (i < p->rotary_dim) {
            const bool second = p->interleaved ? i % 2 : i >= pairs;
            const uint32_t pair = p->interleaved ? i / 2 : second ? i - pairs : i;
            const uint32_t other = p->interleaved ? i ^ 1 : second ? pair : i + pairs;
            const double turn = kernel_matrix_get(&m[X], row, other) * kernel_matrix_get(&m[SIN], position, pair);
            want = want * kernel_matrix_get(&m[COS], position, pair) + (second ? turn : -turn);
        }
        right = kernel_value_is(&m[Y], row, i, want, text, size);
    }
    return right;
}

kernel_result builtin_rope_run(const ptx_function *function, const void *problem, const sim_options *options,
                               sim_counters *counters, char *text, size_t size)
{
    const builtin_rope *p = problem;
    const uint32_t rows = p->tokens * p->heads, pairs = p->rotary_dim / 2;
    kernel_matrix m[ROPE_SPANS] = {
        kernel_matrix_of(p->dtype, rows, p->head_dim, p->pad), kernel_matrix_of(p->dtype, rows, p->head_dim, p->pad),
        kernel_matrix_of(HAL_KERNEL_F32, p->tokens, pairs, 0), kernel_matrix_of(HAL_KERNEL_F32, p->tokens, pairs, 0),
        kernel_matrix_of(p->ids ? HAL_KERNEL_F32 : 0, 1, p->tokens, 0)};
    kernel_matrix_fill(&m[X], 1, 1.0f);
    kernel_matrix_fill(&m[COS], 7, 1.0f);
    kernel_matrix_fill(&m[SIN], 77, 1.0f);
    for (uint32_t i = 0; i < p->tokens && p->ids; i++) {
        ((int32_t *)m[IDS].data)[i] = (int32_t)position_of(p, i);
    }
    hal_rope_args args = {.tokens = p->tokens,
                          .heads = p->heads,
                          .head_dim = p->head_dim,
                          .rotary_dim = p->rotary_dim,
                          .flags = ROW_FLAGS(p->dtype, 0u, 0u, 0u, 0u,
                                             (p->interleaved ? ROPE_INTERLEAVED : 0u) | (p->ids ? ROPE_HAS_IDS : 0u)),
                          .heads_a_group = p->heads_a_group};
    args.x_head[0] = args.y_head[0] = p->head_dim + p->pad;
    args.x_token[0] = args.y_token[0] = p->heads * (p->head_dim + p->pad);
    args.positions[0] = p->tokens;
    const kernel_spans spans = {{&m[X], &m[Y], &m[COS], &m[SIN], &m[IDS]}, ROPE_SPANS, 1u << Y};
    sim_launch l = launch_of(function, p->heads, p->heads_a_group, p->tokens, options);
    kernel_result result = kernel_launch_spans(&l, &spans, &args, sizeof args, counters, text, size);
    bool right = kernel_padding_is_left(&m[Y], text, size);
    for (uint32_t i = 0; right && result == KERNEL_RIGHT && i < rows; i++) {
        right = turned_is_right(p, m, i, text, size);
    }
    free_all(m, ROPE_SPANS);
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}

/* --- gather --- */

enum { TABLE, TABLE_IDS, GATHERED, GATHER_SPANS };

/* One id is behind the table. */
static uint32_t id_of(const builtin_gather *p, uint32_t i)
{
    return i == 1 ? p->table_rows : i * 5 % p->table_rows;
}

kernel_result builtin_gather_run(const ptx_function *function, const void *problem, const sim_options *options,
                                 sim_counters *counters, char *text, size_t size)
{
    const builtin_gather *p = problem;
    kernel_matrix m[GATHER_SPANS] = {kernel_matrix_of(p->dtype, p->table_rows, p->columns, p->pad),
                                     kernel_matrix_of(HAL_KERNEL_F32, 1, p->count * (p->int64 ? 2 : 1), 0),
                                     kernel_matrix_of(p->dtype_y, p->count, p->columns, p->pad)};
    kernel_matrix_fill(&m[TABLE], 1, 1.0f);
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->int64) {
            ((int64_t *)m[TABLE_IDS].data)[i] = id_of(p, i);
        } else {
            ((int32_t *)m[TABLE_IDS].data)[i] = (int32_t)id_of(p, i);
        }
    }
    hal_gather_args args = {.count = p->count,
                            .columns = p->columns,
                            .table_rows = p->table_rows,
                            .flags = ROW_FLAGS(p->dtype, p->dtype_y, 0u, 0u, 0u, p->int64 ? GATHER_INT64 : 0u)};
    args.ldt[0] = args.ldy[0] = p->columns + p->pad;
    const kernel_spans spans = {{&m[TABLE], &m[TABLE_IDS], &m[GATHERED]}, GATHER_SPANS, 1u << GATHERED};
    sim_launch l = launch_of(function, p->columns, TILE, p->count, options);
    kernel_result result = kernel_launch_spans(&l, &spans, &args, sizeof args, counters, text, size);
    bool right = kernel_padding_is_left(&m[GATHERED], text, size);
    for (uint32_t i = 0; right && result == KERNEL_RIGHT && i < p->count * p->columns; i++) {
        const uint32_t row = i / p->columns, column = i % p->columns, id = id_of(p, row);
        const double want = id < p->table_rows ? kernel_matrix_get(&m[TABLE], id, column) : 0;
        right = kernel_value_is(&m[GATHERED], row, column, want, text, size);
    }
    free_all(m, GATHER_SPANS);
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}
