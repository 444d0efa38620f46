/* model_parts.h - what the files of the cost model share. */
#ifndef HAL_MODEL_PARTS_H
#define HAL_MODEL_PARTS_H

#include <hal/model.h>
#include <math.h>

#include "core.h"

/* The texts of scheduler/devices/, made by CMakeLists.txt. */
extern const char *const hal_model_devices[];
extern const uint32_t hal_model_device_count;

/* 64-bit arithmetic that remembers in *over that something did not fit. */
static inline uint64_t times(bool *over, uint64_t a, uint64_t b)
{
    uint64_t product;
    *over = __builtin_mul_overflow(a, b, &product) || *over;
    return product;
}

static inline uint64_t plus(bool *over, uint64_t a, uint64_t b)
{
    uint64_t sum;
    *over = __builtin_add_overflow(a, b, &sum) || *over;
    return sum;
}

static inline uint64_t parts_of(uint64_t size, uint64_t part)
{
    return size / part + (size % part != 0);
}

/* A time, a size or a rate. */
static inline bool sensible(double value)
{
    return isfinite(value) && value >= 0;
}

static inline hal_status too_large(const char *what)
{
    return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: the result is not below 2^64", what);
}

#endif
