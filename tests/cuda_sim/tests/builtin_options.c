/* builtin_options.c - see builtin_options.h. */
#include "builtin_options.h"
#include "kernel_abi.h"
#include "kernel_matrix.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { A, B, C, D, BIAS, RESIDUAL, UP, SCALE_A, SCALE_B, SCALE_D, SPANS };

static kernel_matrix matrix_of(uint32_t dtype, bool turned, uint32_t rows, uint32_t columns, uint32_t pad)
{
    return kernel_matrix_of(dtype, turned ? columns : rows, turned ? rows : columns, pad);
}

static double element(const kernel_matrix *m, bool turned, uint32_t row, uint32_t column)
{
    return turned ? kernel_matrix_get(m, column, row) : kernel_matrix_get(m, row, column);
}

/* Powers of two, so that scaled sums are exact. */
static double scale_of(uint32_t i)
{
    return ldexp(1, (int)(i * 5 % 7) - 3);
}

static kernel_matrix scales(bool present, uint32_t count)
{
    const kernel_matrix m = kernel_matrix_of(present ? HAL_KERNEL_F32 : 0, 1, count, 0);
    for (uint32_t i = 0; present && i < count; i++) {
        kernel_matrix_set(&m, 0, i, (float)scale_of(i));
    }
    return m;
}

/* Of gate, part 0, or of what it is multiplied by. */
static double sum_of(const builtin_options *p, const kernel_matrix m[SPANS], uint32_t row, uint32_t column,
                     uint32_t part)
{
    const kernel_matrix *b = part && p->up ? &m[UP] : &m[B];
    const uint32_t in_b = p->interleaved ? 2 * column + part : column;
    const uint32_t scale = p->interleaved ? in_b : part * p->n + column;
    double sum = 0;
    for (uint32_t k = 0; k < p->k; k++) {
        sum += element(&m[A], p->trans_a, row, k) * element(b, p->trans_b, k, in_b);
    }
    return p->scaled ? sum * scale_of(row) * scale_of(scale) : sum;
}

/* The code nearest to a number, the even one of two. */
static double nearest_code(double x)
{
    uint8_t best = 0;
    for (uint8_t code = 1; code < 0x7f; code++) {
        const double nearer =
            fabs(fabs(x) - (double)kernel_of_e4m3(best)) - fabs(fabs(x) - (double)kernel_of_e4m3(code));
        best = nearer > 0 || (nearer == 0 && code % 2 == 0) ? code : best;
    }
    return copysign((double)kernel_of_e4m3(best), x);
}

static bool right_element(const builtin_options *p, const kernel_matrix m[SPANS], uint32_t row, uint32_t column,
                          char *text, size_t size)
{
    const double sum = sum_of(p, m, row, column, 0);
    const uint32_t i = p->trans_d ? column : row, j = p->trans_d ? row : column;
    if (p->up || p->interleaved) {
        const double want = sum / (1 + exp(-sum)) * sum_of(p, m, row, column, 1);
        return kernel_value_is(&m[D], i, j, want, text, size);
    }
    if (p->dtype_d == HAL_KERNEL_BF16) {
        return kernel_value_is(&m[D], i, j, sum, text, size);
    }
    const double want = p->dtype_d == HAL_KERNEL_F32 ? sum : nearest_code(p->scaled ? sum / scale_of(row) : sum);
    const double got = kernel_matrix_get(&m[D], i, j);
    if (got != want) {
        snprintf(text, size, "element (%u, %u) is %g, not %g", row, column, got, want);
    }
    return got == want;
}

static hal_gemm_args args_of(const builtin_options *p, const kernel_matrix m[SPANS])
{
    hal_gemm_args args = {.m = p->m, .n = p->n, .k = p->k, .alpha = 1.0f, .swiglu_alpha = 1.0f};
    const uint32_t each = p->scaled ? GEMM_SCALE_EACH : 0;
    args.flags = GEMM_FLAGS(0u, p->dtype_d, 0u, 0u, HAL_KERNEL_F32, GEMM_ACT_NONE) |
                 GEMM_SCALES(each, each, m[SCALE_D].data ? each : 0) | (p->trans_a ? GEMM_TRANS_A : 0) |
                 (p->trans_b ? GEMM_TRANS_B : 0) | (p->trans_d ? GEMM_TRANS_D : 0) |
                 (p->interleaved ? GEMM_INTERLEAVED : 0) | (p->up || p->interleaved ? GEMM_PAIR : 0);
    args.lda[0] = m[A].ld;
    args.ldb[0] = m[B].ld;
    args.ldd[0] = m[D].ld;
    return args;
}

kernel_result builtin_options_run(const ptx_function *function, const void *problem, const sim_options *options,
                                  sim_counters *counters, char *text, size_t size)
{
    const builtin_options *p = problem;
    const bool pair = p->up || p->interleaved;
    const uint32_t tile_n = pair ? p->tile / 2 : p->tile;
    kernel_matrix m[SPANS] = {
        [A] = matrix_of(p->dtype, p->trans_a, p->m, p->k, p->pad_a),
        [B] = matrix_of(p->dtype, p->trans_b, p->k, p->interleaved ? 2 * p->n : p->n, p->pad_b),
        [D] = matrix_of(p->dtype_d, p->trans_d, p->m, p->n, p->pad_d),
        [UP] = matrix_of(p->up ? p->dtype : 0, p->trans_b, p->k, p->n, p->pad_b),
        [SCALE_A] = scales(p->scaled, p->m),
        [SCALE_B] = scales(p->scaled, pair ? 2 * p->n : p->n),
        [SCALE_D] = scales(p->scaled && p->dtype_d == HAL_KERNEL_F8E4M3, p->m),
    };
    kernel_matrix_fill(&m[A], 1, 1.0f);
    kernel_matrix_fill(&m[B], 77, 1.0f);
    kernel_matrix_fill(&m[UP], 7, 1.0f);
    kernel_spans spans = {.count = SPANS, .written = 1u << D};
    for (uint32_t i = 0; i < SPANS; i++) {
        spans.of[i] = &m[i];
    }
    const hal_gemm_args args = args_of(p, m);
    sim_launch launch = {.function = function,
                         .grid = {(p->n - 1) / tile_n + 1, (p->m - 1) / p->tile + 1, 1},
                         .block = {p->tile * 2, 1, 1},
                         .dynamic_shared = GEMM_MMA_SHARED(p->tile, p->tile, 32, 4),
                         .options = *options};
    const kernel_result result = kernel_launch_spans(&launch, &spans, &args, sizeof args, counters, text, size);
    bool right = result != KERNEL_RIGHT || kernel_padding_is_left(&m[D], text, size);
    for (uint32_t i = 0; right && result == KERNEL_RIGHT && i < p->m * p->n; i++) {
        right = right_element(p, m, i / p->n, i % p->n, text, size);
    }
    for (uint32_t i = 0; i < SPANS; i++) {
        free(m[i].data);
    }
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}
