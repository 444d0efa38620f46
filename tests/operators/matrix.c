/* matrix.c - see matrix.h. */
#include "matrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 16 /* elements behind the last matrix */

uint32_t random_below(uint64_t *seed, uint32_t limit)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % limit);
}

static uint64_t element(const matrix *x, uint64_t problem, uint64_t row, uint64_t column)
{
    return x->offset + problem * x->stride + row * x->ld + column;
}

static void put(matrix *x, uint64_t index, float value)
{
    if (hal_numeric_encode(x->dtype, &value, 1, x->data + index * hal_dtype_size(x->dtype)) != HAL_OK) {
        fprintf(stderr, "%s\n", hal_last_error());
        exit(1);
    }
}

void matrix_create(matrix *x, matrix_fill fill, uint64_t *seed)
{
    const uint64_t size = hal_dtype_size(x->dtype);
    uint64_t last =
        x->rows && x->columns && x->batch ? (x->batch - 1) * x->stride + (x->rows - 1) * x->ld + x->columns : 0;
    uint64_t elements = x->offset + last + GUARD;
    x->bytes = elements * size;
    x->data = malloc(x->bytes);
    if (!x->data) {
        fprintf(stderr, "no memory for a test matrix\n");
        exit(1);
    }
    memset(x->data, 0x5A, x->bytes);
    if (fill == FILL_POISON) {
        return;
    }
    for (uint64_t i = 0; i < elements; i++) {
        put(x, i, NAN);
    }
    for (uint64_t problem = 0; fill != FILL_NAN && problem < x->batch; problem++) {
        for (uint64_t row = 0; row < x->rows; row++) {
            for (uint64_t column = 0; column < x->columns; column++) {
                float value = fill == FILL_INTEGER ? (float)random_below(seed, 5) - 2.0f
                                                   : (float)random_below(seed, 1u << 24) / (float)(1u << 23) - 1.0f;
                put(x, element(x, problem, row, column), value);
            }
        }
    }
}

void matrix_free(matrix *x)
{
    free(x->data);
    x->data = NULL;
}

double matrix_get(const matrix *x, uint64_t problem, uint64_t row, uint64_t column)
{
    float value = NAN;
    hal_numeric_decode(x->dtype, x->data + element(x, problem, row, column) * hal_dtype_size(x->dtype), 1, &value);
    return value;
}

void matrix_set(matrix *x, uint64_t problem, uint64_t row, uint64_t column, float value)
{
    put(x, element(x, problem, row, column), value);
}

bool matrix_covers(const matrix *x, uint64_t at)
{
    uint64_t index = at / hal_dtype_size(x->dtype);
    if (index < x->offset) {
        return false;
    }
    index -= x->offset;
    for (uint64_t problem = 0; problem < x->batch; problem++) {
        uint64_t first = problem * x->stride;
        if (index >= first && (index - first) / x->ld < x->rows && (index - first) % x->ld < x->columns) {
            return true;
        }
    }
    return false;
}

static double activate(hal_act act, double x)
{
    if (isnan(x)) {
        return x;
    }
    double sign = x == -INFINITY ? 0.0 : x; /* the limit of those that vanish there */
    switch (act) {
    case HAL_ACT_RELU:
        return x < 0 ? 0 : x;
    case HAL_ACT_GELU_ERF:
        return 0.5 * sign * erfc(-x * M_SQRT1_2);
    case HAL_ACT_GELU_TANH:
        return 0.5 * sign * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case HAL_ACT_SILU:
        return sign / (1 + exp(-x));
    case HAL_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

double gemm_expect(const gemm_reference *g, uint64_t problem, uint64_t row, uint64_t column, double *error)
{
    const double unit = 0x1p-24;
    double sum = 0, size = 0;
    for (uint64_t k = 0; g->alpha != 0 && k < g->k; k++) {
        double a = g->trans_a ? matrix_get(g->a, problem, k, row) : matrix_get(g->a, problem, row, k);
        double b = g->trans_b ? matrix_get(g->b, problem, column, k) : matrix_get(g->b, problem, k, column);
        sum += a * b;
        size += fabs(a * b);
    }
    double v = g->k && g->alpha != 0 ? g->alpha * sum : 0;
    size = fabs((double)g->alpha) * size;
    if (g->c && g->beta != 0) {
        double c = g->beta * matrix_get(g->c, problem, row, column);
        v += c;
        size += fabs(c);
    }
    if (g->bias) {
        v += matrix_get(g->bias, 0, 0, column);
        size += fabs(matrix_get(g->bias, 0, 0, column));
    }
    *error = (double)(g->k + 4) * unit * size;
    if (g->act > HAL_ACT_RELU) {
        *error = 1.13 * *error + 4e-6 * fabs(v) + 1e-7; /* the slope, and exp and erf in FP32 */
    }
    v = activate(g->act, v);
    if (g->residual) {
        double r = matrix_get(g->residual, problem, row, column);
        v += r;
        *error += 2 * unit * (fabs(v) + fabs(r));
    }
    return v;
}

double nearest_e4m3(double value)
{
    if (!(fabs(value) < 448)) {
        return isnan(value) ? value : copysign(448, value);
    }
    int exponent;
    frexp(value, &exponent);
    const double step = ldexp(1, exponent - 4 < -9 ? -9 : exponent - 4);
    return nearbyint(value / step) * step;
}

double half_ulp(hal_dtype dtype, double value)
{
    int bits = dtype == HAL_F32 ? 24 : dtype == HAL_F16 ? 11 : 8, lowest = dtype == HAL_F16 ? -24 : -149;
    int exponent;
    frexp(value, &exponent);
    int step = exponent - bits;
    return ldexp(0.5, step < lowest ? lowest : step);
}
