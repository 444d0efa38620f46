/* builtin_reduce.c - see builtin_reduce.h. */
#include "builtin_reduce.h"
#include "kernel_matrix.h"
#include "kernel_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN_EVERY = 5 };
#define LN2       0.69314718055994531
#define TOLERANCE 4e-6
#define EPSILON   0.25f

static bool is_near(double got, double want, double tolerance)
{
    return got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* One element of each row is the greatest, in no warp's first lane. */
static void fill_x(const kernel_matrix *x, float factor, float greatest)
{
    kernel_matrix_fill(x, 1, factor);
    for (uint32_t i = 0; i < x->rows; i++) {
        kernel_matrix_set(x, i, (517 + 36 * i) % x->columns, greatest);
    }
}

static sim_launch launch_of(const ptx_function *function, const builtin_shape *shape, uint32_t rows, uint32_t parts,
                            const sim_options *options)
{
    return (sim_launch){.function = function,
                        .grid = {(rows - 1) / shape->rows + 1, parts, 1},
                        .block = {shape->threads, shape->rows, 1},
                        .dynamic_shared = shape->keep * shape->threads * shape->rows * 16,
                        .options = *options};
}

/* --- RMSNorm --- */

enum { X, WEIGHT, RESIDUAL, SUM, Y, SCALES, PARTS, RMSNORM_SPANS };

static void rmsnorm_operands(const builtin_rmsnorm *p, kernel_matrix m[RMSNORM_SPANS])
{
    const bool quantised = p->dtype_y == HAL_KERNEL_F8E4M3;
    m[X] = kernel_matrix_of(p->dtype, p->rows, p->columns, p->pad);
    m[WEIGHT] = kernel_matrix_of(p->dtype_weight, 1, p->columns, 0);
    m[RESIDUAL] = kernel_matrix_of(p->residual ? p->dtype : 0, p->rows, p->columns, p->pad);
    m[SUM] = kernel_matrix_of(p->residual ? p->dtype : 0, p->rows, p->columns, p->pad);
    m[Y] = kernel_matrix_of(p->dtype_y, p->rows, p->columns, p->pad);
    m[SCALES] = kernel_matrix_of(quantised ? HAL_KERNEL_F32 : 0, 1, p->rows, 0);
    m[PARTS] = kernel_matrix_of(p->parts ? HAL_KERNEL_F32 : 0, p->rows, RMSNORM_ROW, 0);
    fill_x(&m[X], 1.0f, 20.0f);
    kernel_matrix_fill(&m[WEIGHT], 77, 0.5f);
    kernel_matrix_fill(&m[RESIDUAL], 7, 1.0f);
}

static bool norm_is_right(const builtin_rmsnorm *p, const kernel_matrix m[RMSNORM_SPANS], uint32_t row, double *want,
                          char *text, size_t size)
{
    double squares = 0;
    bool right = true;
    for (uint32_t j = 0; j < p->columns; j++) {
        want[j] = kernel_matrix_get(&m[X], row, j) + (p->residual ? kernel_matrix_get(&m[RESIDUAL], row, j) : 0);
        squares += want[j] * want[j];
        right = right && (!p->residual || kernel_value_is(&m[SUM], row, j, want[j], text, size));
    }
    const double root = 1 / sqrt(squares / p->columns + EPSILON);
    for (uint32_t j = 0; right && j < p->columns; j++) {
        want[j] *= root * (p->dtype_weight ? kernel_matrix_get(&m[WEIGHT], 0, j) : 1);
        right = p->dtype_y == HAL_KERNEL_F8E4M3 || kernel_value_is(&m[Y], row, j, want[j], text, size);
    }
    return right && (p->dtype_y != HAL_KERNEL_F8E4M3 || kernel_codes_are(&m[Y], &m[SCALES], row, want, text, size));
}

static kernel_result rmsnorm_phase(const ptx_function *function, const builtin_rmsnorm *p,
                                   const kernel_matrix m[RMSNORM_SPANS], uint32_t phase, const sim_options *options,
                                   sim_counters *counters, char *text, size_t size)
{
    const uint32_t parts = p->parts ? RMSNORM_PARTS : 1;
    hal_rmsnorm_args args = {
        .rows = p->rows,
        .columns = p->columns,
        .flags = ROW_FLAGS(p->dtype, p->dtype_weight, p->dtype_y, HAL_KERNEL_F32, 0u,
                           RMSNORM_OP(p->residual ? RMSNORM_RESIDUAL | RMSNORM_SUM : 0u, p->shape.keep, phase)),
        .group_rows = p->shape.rows,
        .parts = parts,
        .part_columns = 8 * ((p->columns - 1) / (8 * parts) + 1),
        .eps = EPSILON,
        .inverse = 1.0f / (float)p->columns};
    args.ldx[0] = args.ldr[0] = args.lds[0] = args.ldy[0] = p->columns + p->pad;
    const kernel_spans s = {{&m[X], &m[WEIGHT], &m[RESIDUAL], &m[SUM], &m[Y], &m[SCALES], &m[PARTS]},
                            RMSNORM_SPANS,
                            1u << SUM | 1u << Y | 1u << SCALES | 1u << PARTS};
    sim_launch l = launch_of(function, &p->shape, p->rows, parts, options);
    return kernel_launch_spans(&l, &s, &args, sizeof args, counters, text, size);
}

static kernel_result rmsnorm_compare(const builtin_rmsnorm *p, const kernel_matrix m[RMSNORM_SPANS], char *text,
                                     size_t size)
{
    double *want = calloc(p->columns, sizeof *want);
    bool right = want && kernel_padding_is_left(&m[Y], text, size);
    right = right && (!p->residual || kernel_padding_is_left(&m[SUM], text, size));
    for (uint32_t i = 0; right && i < p->rows; i++) {
        right = norm_is_right(p, m, i, want, text, size);
    }
    free(want);
    return right ? KERNEL_RIGHT : KERNEL_WRONG;
}

kernel_result builtin_rmsnorm_run(const ptx_function *function, const void *problem, const sim_options *options,
                                  sim_counters *counters, char *text, size_t size)
{
    const builtin_rmsnorm *p = problem;
    static const uint32_t whole[] = {RMSNORM_WHOLE}, split[] = {RMSNORM_SUMS, RMSNORM_AMAX, RMSNORM_WRITE};
    const uint32_t *phases = p->parts ? split : whole, count = p->parts ? 3 : 1;
    kernel_matrix m[RMSNORM_SPANS];
    rmsnorm_operands(p, m);
    kernel_result result = KERNEL_RIGHT;
    for (uint32_t i = 0; i < count && result == KERNEL_RIGHT; i++) {
        if (phases[i] != RMSNORM_AMAX || p->dtype_y == HAL_KERNEL_F8E4M3) {
            result = rmsnorm_phase(function, p, m, phases[i], options, counters, text, size);
        }
    }
    result = result == KERNEL_RIGHT ? rmsnorm_compare(p, m, text, size) : result;
    for (uint32_t i = 0; i < RMSNORM_SPANS; i++) {
        free(m[i].data);
    }
    return result;
}

/* --- softmax --- */

enum { MASK = 1, SOFTMAX_Y, SOFTMAX_SPANS };

static bool is_hidden(const builtin_softmax *p, uint32_t column)
{
    return p->dtype_mask && column % HIDDEN_EVERY == 2;
}

static bool softmax_is_right(const builtin_softmax *p, const kernel_matrix m[SOFTMAX_SPANS], uint32_t row, char *text,
                             size_t size)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < p->columns; j++) {
        most = is_hidden(p, j) ? most : fmax(most, kernel_matrix_get(&m[X], row, j));
    }
    for (uint32_t j = 0; j < p->columns; j++) {
        sum += is_hidden(p, j) ? 0 : exp(kernel_matrix_get(&m[X], row, j) - most);
    }
    for (uint32_t j = 0; j < p->columns; j++) {
        const double log_y = is_hidden(p, j) ? -INFINITY : kernel_matrix_get(&m[X], row, j) - most - log(sum);
        const double want = p->log ? log_y : exp(log_y) * p->columns;
        const double got = kernel_matrix_get(&m[SOFTMAX_Y], row, j) * (p->log ? 1 : p->columns);
        if (!is_near(got, want, p->dtype_y == HAL_KERNEL_F32 ? TOLERANCE : 1.0 / 128)) {
            snprintf(text, size, "element (%u, %u) is %.9g, not %.9g", row, j, got, want);
            return false;
        }
    }
    return true;
}

kernel_result builtin_softmax_run(const ptx_function *function, const void *problem, const sim_options *options,
                                  sim_counters *counters, char *text, size_t size)
{
    const builtin_softmax *p = problem;
    kernel_matrix m[SOFTMAX_SPANS] = {kernel_matrix_of(p->dtype, p->rows, p->columns, p->pad),
                                      kernel_matrix_of(p->dtype_mask, p->rows, p->columns, p->pad),
                                      kernel_matrix_of(p->dtype_y, p->rows, p->columns, p->pad)};
    fill_x(&m[X], (float)LN2, 5 * (float)LN2);
    for (uint32_t i = 0; i < p->rows && p->dtype_mask; i++) {
        for (uint32_t j = 0; j < p->columns; j++) {
            kernel_matrix_set(&m[MASK], i, j, is_hidden(p, j) ? -INFINITY : 0.0f);
        }
    }
    hal_softmax_args args = {.rows = p->rows,
                             .columns = p->columns,
                             .flags = ROW_FLAGS(p->dtype, p->dtype_mask, p->dtype_y, 0u, 0u,
                                                SOFTMAX_OP((uint32_t)p->log, (uint32_t)p->online, p->shape.keep)),
                             .group_rows = p->shape.rows,
                             .mask_rows = p->rows,
                             .scale = 1.0f};
    args.ldx[0] = args.ldmask[0] = args.ldy[0] = p->columns + p->pad;
    const kernel_spans s = {{&m[X], &m[MASK], &m[SOFTMAX_Y]}, SOFTMAX_SPANS, 1u << SOFTMAX_Y};
    sim_launch l = launch_of(function, &p->shape, p->rows, 1, options);
    kernel_result result = kernel_launch_spans(&l, &s, &args, sizeof args, counters, text, size);
    bool right = result == KERNEL_RIGHT && kernel_padding_is_left(&m[SOFTMAX_Y], text, size);
    for (uint32_t i = 0; right && i < p->rows; i++) {
        right = softmax_is_right(p, m, i, text, size);
    }
    for (uint32_t i = 0; i < SOFTMAX_SPANS; i++) {
        free(m[i].data);
    }
    return result == KERNEL_RIGHT && !right ? KERNEL_WRONG : result;
}
