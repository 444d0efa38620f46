/* operands.c - numbers to compute with, and how results are held against what they should be. */
#include "job.h"

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

bool bench_operand_create(bench_operand_data *data, uint64_t count, hal_dtype dtype, uint32_t seed, float range)
{
    memset(data, 0, sizeof *data);
    data->count = count;
    data->dtype = dtype;
    if (count > SIZE_MAX / sizeof *data->values)
        return false;
    data->values = malloc(count * sizeof *data->values);
    data->elements = dtype == HAL_F32 ? data->values : malloc(count * hal_dtype_size(dtype));
    if (!data->values || !data->elements) {
        bench_operand_destroy(data);
        return false;
    }
    for (uint64_t i = 0; i < count; i++)
        data->values[i] = range * (float)(int32_t)scramble((uint32_t)i ^ seed) * 0x1p-31f;
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

double bench_element(const void *elements, hal_dtype dtype, uint64_t index)
{
    switch (dtype) {
    case HAL_F16:
        return (double)hal_f16_to_f32(((const uint16_t *)elements)[index]);
    case HAL_BF16:
        return (double)hal_bf16_to_f32(((const uint16_t *)elements)[index]);
    case HAL_F8E4M3:
        return (double)hal_f8e4m3_to_f32(((const uint8_t *)elements)[index]);
    default:
        return (double)((const float *)elements)[index];
    }
}

double bench_store_error(hal_dtype dtype, double value)
{
    double size = fabs(value);
    switch (dtype) {
    case HAL_F16:
        return fmax(size * 0x1p-11, 0x1p-25);
    case HAL_BF16:
        return size * 0x1p-8;
    case HAL_F8E4M3:
        return fmax(size * 0x1p-4, 0x1p-10);
    default:
        return size * 0x1p-24;
    }
}

uint64_t bench_sample(uint64_t count, uint32_t i)
{
    if (i < 2)
        return i == 0 ? 0 : count - 1;
    return ((uint64_t)scramble(i) << 32 | scramble(i + 0x1000000)) % count;
}

void bench_worst_note(bench_worst *worst, double got, double want, double bound)
{
    double off = fabs(got - want), share = off == 0 ? 0 : off / bound;
    if (isnan(off))
        share = off = INFINITY;
    if (share > worst->share || (share == worst->share && bound > worst->bound))
        *worst = (bench_worst){share, off, bound};
}
