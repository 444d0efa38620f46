/* numeric.c - number formats on the host, in integer arithmetic: independent of the floating-point environment. */
#include <hal/numeric.h>

#include "core.h"

#define SIGN          0x80000000u
#define INFINITY_BITS 0x7f800000u

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Shift right by 1 to 31, to nearest, ties to even. */
static uint32_t shift_round(uint32_t value, unsigned shift)
{
    uint32_t odd = value >> shift & 1u;
    return (value + (1u << (shift - 1)) - 1u + odd) >> shift;
}

/* A finite magnitude in a format with `mantissa` stored bits and exponent bias `bias`. The largest codes of the format
 * are the caller's business: a carry out of the mantissa goes into the exponent as it should. */
static uint32_t narrow(uint32_t magnitude, unsigned mantissa, int bias)
{
    unsigned shift = 23 - mantissa;
    int exponent = (int)(magnitude >> 23) - 127;
    if (exponent >= 1 - bias)
        return shift_round(magnitude, shift) - ((uint32_t)(127 - bias) << mantissa);
    shift += (unsigned)(1 - bias - exponent);
    if (shift > 24)
        return 0;
    return shift_round((magnitude & 0x7fffffu) | 0x800000u, shift);
}

/* The float of a code with exponent field 0 < e < the format's special ones, or a subnormal or zero (e = 0). */
static uint32_t widen(uint32_t code, unsigned mantissa, int bias)
{
    uint32_t fraction = code & ((1u << mantissa) - 1u);
    uint32_t exponent = code >> mantissa;
    if (exponent == 0) {
        if (fraction == 0)
            return 0;
        exponent = 1;
        while (!(fraction >> mantissa)) {
            fraction <<= 1;
            exponent--; /* may pass below 0: the sum with the bias is what counts */
        }
        fraction &= (1u << mantissa) - 1u;
    }
    return ((exponent + (uint32_t)(127 - bias)) << 23) | (fraction << (23 - mantissa));
}

uint16_t hal_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value), magnitude = bits & ~SIGN;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > INFINITY_BITS)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    if (magnitude >= 0x477ff000u) /* 65520, half-way to the first value that is not there */
        return sign | 0x7c00u;
    return (uint16_t)(sign | narrow(magnitude, 10, 15));
}

float hal_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return float_of(sign | INFINITY_BITS | (magnitude & 0x3ffu) << 13);
    return float_of(sign | widen(magnitude, 10, 15));
}

uint16_t hal_bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & ~SIGN) > INFINITY_BITS)
        return (uint16_t)(bits >> 16 | 0x40u); /* quiet, so that a payload in the low half is not lost into infinity */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float hal_bf16_to_f32(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint8_t hal_f8e4m3_from_f32(float value, bool saturate)
{
    uint32_t bits = bits_of(value), magnitude = bits & ~SIGN;
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80u);
    if (magnitude > INFINITY_BITS)
        return sign | 0x7fu;
    if (magnitude > 0x43e80000u) /* 464 is a tie and goes to 448; all above would be 480, which is the NaN code */
        return sign | (saturate ? 0x7eu : 0x7fu);
    return (uint8_t)(sign | narrow(magnitude, 3, 7));
}

float hal_f8e4m3_to_f32(uint8_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x80u) << 24;
    uint32_t magnitude = bits & 0x7fu;
    if (magnitude == 0x7fu)
        return float_of(sign | 0x7fc00000u);
    return float_of(sign | widen(magnitude, 3, 7));
}

uint32_t hal_dtype_size(hal_dtype dtype)
{
    switch (dtype) {
    case HAL_F32:
        return 4;
    case HAL_F16:
    case HAL_BF16:
        return 2;
    case HAL_F8E4M3:
        return 1;
    case HAL_DTYPE_DEFAULT:
        break;
    }
    return 0;
}

const char *hal_dtype_name(hal_dtype dtype)
{
    switch (dtype) {
    case HAL_F32:
        return "f32";
    case HAL_F16:
        return "f16";
    case HAL_BF16:
        return "bf16";
    case HAL_F8E4M3:
        return "f8e4m3";
    case HAL_DTYPE_DEFAULT:
        return "default";
    }
    return "unknown";
}

static hal_status check(const char *call, hal_dtype dtype, const void *from, uint64_t count, const void *to)
{
    if (hal_dtype_size(dtype) == 0)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: dtype %d is none of HAL_F32, HAL_F16, HAL_BF16, HAL_F8E4M3",
                        call, (int)dtype);
    if (count > 0 && (from == NULL || to == NULL))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: a NULL array of %llu elements", call,
                        (unsigned long long)count);
    return HAL_OK;
}

hal_status hal_numeric_encode(hal_dtype dtype, const float *values, uint64_t count, void *elements)
{
    hal_status status = check("hal_numeric_encode", dtype, values, count, elements);
    if (status != HAL_OK || count == 0)
        return status;
    switch (dtype) {
    case HAL_F32:
        memmove(elements, values, count * sizeof *values);
        break;
    case HAL_F16:
        for (uint64_t i = 0; i < count; i++)
            ((uint16_t *)elements)[i] = hal_f16_from_f32(values[i]);
        break;
    case HAL_BF16:
        for (uint64_t i = 0; i < count; i++)
            ((uint16_t *)elements)[i] = hal_bf16_from_f32(values[i]);
        break;
    default:
        for (uint64_t i = 0; i < count; i++)
            ((uint8_t *)elements)[i] = hal_f8e4m3_from_f32(values[i], true);
        break;
    }
    return HAL_OK;
}

hal_status hal_numeric_decode(hal_dtype dtype, const void *elements, uint64_t count, float *values)
{
    hal_status status = check("hal_numeric_decode", dtype, elements, count, values);
    if (status != HAL_OK || count == 0)
        return status;
    switch (dtype) {
    case HAL_F32:
        memmove(values, elements, count * sizeof *values);
        break;
    case HAL_F16:
        for (uint64_t i = 0; i < count; i++)
            values[i] = hal_f16_to_f32(((const uint16_t *)elements)[i]);
        break;
    case HAL_BF16:
        for (uint64_t i = 0; i < count; i++)
            values[i] = hal_bf16_to_f32(((const uint16_t *)elements)[i]);
        break;
    default:
        for (uint64_t i = 0; i < count; i++)
            values[i] = hal_f8e4m3_to_f32(((const uint8_t *)elements)[i]);
        break;
    }
    return HAL_OK;
}
