/* builtin_gemm.c - see builtin_gemm.h. */
#include "builtin_gemm.h"
#include "kernel_abi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A row-major matrix. */
typedef struct matrix {
    void *data;
    uint32_t dtype, rows, columns, ld;
} matrix;

/* The padding of the last row does not exist. */
static size_t bytes_of(const matrix *m)
{
    size_t elements = m->rows ? (size_t)(m->rows - 1) * m->ld + m->columns : 0;
    return elements * (m->dtype == HAL_KERNEL_F32 ? 4 : 2);
}

static matrix matrix_of(uint32_t dtype, uint32_t rows, uint32_t columns, uint32_t pad)
{
    matrix m = {NULL, dtype, rows, columns, columns + pad};
    m.data = kernel_memory(bytes_of(&m));
    return m;
}

static void fill(const matrix *m, uint32_t seed)
{
    for (size_t i = 0; i < m->rows; i++) {
        for (size_t j = 0; j < m->columns; j++) {
            kernel_set(m->data, m->dtype, i * m->ld + j, kernel_number(i, j, seed));
        }
    }
}

static float element(const matrix *m, size_t row, size_t column)
{
    return kernel_get(m->data, m->dtype, row * m->ld + column);
}

static kernel_result compare(const builtin_gemm *gemm, const matrix *a, const matrix *b, const matrix *d, char *text,
                             size_t size)
{
    for (size_t i = 0; i < gemm->m; i++) {
        for (size_t j = 0; j < gemm->n; j++) {
            float sum = 0;
            for (size_t k = 0; k < gemm->k; k++) {
                sum += (gemm->trans_a ? element(a, k, i) : element(a, i, k)) *
                       (gemm->trans_b ? element(b, j, k) : element(b, k, j));
            }
            const float got = element(d, i, j);
            const float want = d->dtype == HAL_KERNEL_F32 ? sum : kernel_of_bf16(kernel_bf16(sum));
            if (got != want) {
                snprintf(text, size, "element (%zu, %zu) is %g, not %g", i, j, got, want);
                return KERNEL_WRONG;
            }
        }
        for (size_t j = gemm->n; j < d->ld && i + 1 < gemm->m; j++) {
            if (!isnan(element(d, i, j))) {
                snprintf(text, size, "written behind row %zu, column %zu", i, j);
                return KERNEL_WRONG;
            }
        }
    }
    return KERNEL_RIGHT;
}

/* What a kernel of six spans and a hal_gemm_args takes. */
typedef struct parameters {
    const void *a, *b, *c, *d, *bias, *residual;
    hal_gemm_args args;
} parameters;

static kernel_result launch(const ptx_function *function, const builtin_gemm *gemm, const matrix m[3],
                            const sim_options *options, sim_counters *counters, char *text, size_t size)
{
    parameters p = {m[0].data, m[1].data, m[2].data, m[2].data, m[2].data, m[2].data, {0}};
    p.args.m = gemm->m;
    p.args.n = gemm->n;
    p.args.k = gemm->k;
    p.args.alpha = 1.0f;
    p.args.flags = GEMM_FLAGS(0u, gemm->dtype_d, 0u, 0u, 0u, GEMM_ACT_NONE) | (gemm->trans_a ? GEMM_TRANS_A : 0) |
                   (gemm->trans_b ? GEMM_TRANS_B : 0);
    p.args.lda[0] = m[0].ld;
    p.args.ldb[0] = m[1].ld;
    p.args.ldd[0] = m[2].ld;
    sim_range ranges[] = {kernel_range(m[0].data, bytes_of(&m[0]), true),
                          kernel_range(m[1].data, bytes_of(&m[1]), true),
                          kernel_range(m[2].data, bytes_of(&m[2]), false)};
    sim_launch l = {
        .function = function,
        .grid = {(gemm->n - 1) / gemm->tile_n + 1, (gemm->m - 1) / gemm->tile_m + 1, 1},
        .block = {gemm->threads[0], gemm->threads[1], 1},
        .dynamic_shared = gemm->dynamic_shared,
        .params = (const uint8_t *)&p,
        .options = *options,
    };
    return kernel_launch(&l, ranges, 3, counters, text, size);
}

kernel_result builtin_gemm_run(const ptx_function *function, const void *problem, const sim_options *options,
                               sim_counters *counters, char *text, size_t size)
{
    const builtin_gemm *gemm = problem;
    const matrix m[3] = {gemm->trans_a ? matrix_of(gemm->dtype, gemm->k, gemm->m, gemm->pad_a)
                                       : matrix_of(gemm->dtype, gemm->m, gemm->k, gemm->pad_a),
                         gemm->trans_b ? matrix_of(gemm->dtype, gemm->n, gemm->k, gemm->pad_b)
                                       : matrix_of(gemm->dtype, gemm->k, gemm->n, gemm->pad_b),
                         matrix_of(gemm->dtype_d, gemm->m, gemm->n, gemm->pad_d)};
    fill(&m[0], 1);
    fill(&m[1], 77);
    kernel_result result = launch(function, gemm, m, options, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare(gemm, &m[0], &m[1], &m[2], text, size);
    }
    free(m[0].data);
    free(m[1].data);
    free(m[2].data);
    return result;
}
