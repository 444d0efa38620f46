/* gemm_check.c - operands, and a double-precision reference to hold results against. */
#include "gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t scramble(uint32_t value)
{
    value ^= value >> 16;
    value *= 0x7feb352dU;
    value ^= value >> 15;
    value *= 0x846ca68bU;
    return value ^ value >> 16;
}

bool bench_operand_create(bench_operand_data *data, uint64_t count, hal_dtype dtype, uint32_t seed)
{
    memset(data, 0, sizeof *data);
    data->count = count;
    data->dtype = dtype;
    data->values = malloc(count * sizeof *data->values);
    data->elements = dtype == HAL_F32 ? data->values : malloc(count * hal_dtype_size(dtype));
    if (!data->values || !data->elements) {
        bench_operand_destroy(data);
        return false;
    }
    for (uint64_t i = 0; i < count; i++)
        data->values[i] = (float)(int32_t)scramble((uint32_t)i ^ seed) * 0x1p-31f;
    if (dtype == HAL_F32)
        return true;
    /* The values become what the elements hold, so that the reference sees what the device sees. */
    hal_status status = hal_numeric_encode(dtype, data->values, count, data->elements);
    if (!status)
        status = hal_numeric_decode(dtype, data->elements, count, data->values);
    if (status)
        bench_operand_destroy(data);
    return status == HAL_OK;
}

void bench_operand_destroy(bench_operand_data *data)
{
    if (data->elements != data->values)
        free(data->elements);
    free(data->values);
    memset(data, 0, sizeof *data);
}

static float element(const void *result, hal_dtype dtype, uint64_t index)
{
    switch (dtype) {
    case HAL_F16:
        return hal_f16_to_f32(((const uint16_t *)result)[index]);
    case HAL_BF16:
        return hal_bf16_to_f32(((const uint16_t *)result)[index]);
    default:
        return ((const float *)result)[index];
    }
}

/* Relative rounding error of one store: 2^-p for a significand of p bits. */
static double store_error(hal_dtype dtype)
{
    return dtype == HAL_BF16 ? 0x1p-8 : dtype == HAL_F16 ? 0x1p-11 : 0x1p-24;
}

/* FP32 sums of k products are off by at most 8 sqrt(k) 2^-24 sum |a b| but for a chance below 1e-9 (Higham and Mary, "A
 * New Approach to Probabilistic Rounding Error Analysis", 2019, theorem 3.1 with lambda = 8). */
static double error_at(const bench_problem *problem, const void *result, uint64_t row, uint64_t column)
{
    double want = 0, magnitude = 0;
    const float *a = problem->a->values + row * problem->k, *b = problem->b->values + column;
    for (uint64_t i = 0; i < problem->k; i++) {
        double product = (double)a[i] * (double)b[i * problem->n];
        want += product;
        magnitude += fabs(product);
    }
    double bound = 8 * sqrt((double)problem->k) * 0x1p-24 * magnitude + store_error(problem->dtype) * fabs(want);
    double off = fabs((double)element(result, problem->dtype, row * problem->n + column) - want);
    return isnan(off) ? INFINITY : off / fmax(bound, 1e-30);
}

double bench_gemm_error(const bench_problem *problem, const void *result)
{
    enum { ALL = 4096, SAMPLE = 96 };
    uint64_t size = problem->m * problem->n;
    double worst = 0;
    if (size <= ALL) {
        for (uint64_t i = 0; i < size; i++)
            worst = fmax(worst, error_at(problem, result, i / problem->n, i % problem->n));
        return worst;
    }
    /* The corners, where tiles are cut, and places all over. */
    const uint64_t corners[4] = {0, problem->n - 1, size - problem->n, size - 1};
    for (uint32_t i = 0; i < 4; i++)
        worst = fmax(worst, error_at(problem, result, corners[i] / problem->n, corners[i] % problem->n));
    for (uint32_t i = 0; i < SAMPLE; i++) {
        uint64_t place = ((uint64_t)scramble(i) << 32 | scramble(i + SAMPLE)) % size;
        worst = fmax(worst, error_at(problem, result, place / problem->n, place % problem->n));
    }
    return worst;
}
