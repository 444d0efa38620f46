/* rows.cuh - what the kernels on rows share. */
#ifndef HAL_ROWS_CUH
#define HAL_ROWS_CUH

#include "numerics.cuh"

__device__ __forceinline__ float flush_if(bool strict, float x)
{
    return strict ? hm_flush(x) : x;
}

/* Rounded to a dtype and back: what storing and loading it again would do. */
__device__ __forceinline__ float round_to(uint32_t dtype, float x)
{
    return dtype == HAL_KERNEL_BF16  ? BF16::widen(BF16::narrow(x))
           : dtype == HAL_KERNEL_F16 ? F16::widen(F16::narrow(x))
                                     : x;
}

/* Up to four neighbours from element i on; `wide`: the address allows four at once. */
__device__ __forceinline__ void load_part4(const void *base, uint32_t dtype, uint64_t i, uint32_t count, bool wide,
                                           float (&value)[4])
{
    if (wide && count >= 4) {
        load_four(base, dtype, i, value);
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        value[j] = j < count ? load_element(base, dtype, i + j) : 0.0f;
}

__device__ __forceinline__ void store_part4(void *base, uint32_t dtype, uint64_t i, uint32_t count, bool wide,
                                            const float (&value)[4])
{
    if (wide && count >= 4) {
        store_four(base, dtype, i, value);
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (j < count)
            store_element(base, dtype, i + j, value[j]);
}

__device__ __forceinline__ uint32_t dtype_bytes(uint32_t dtype)
{
    return dtype == HAL_KERNEL_F32 ? 4u : dtype == HAL_KERNEL_F8E4M3 ? 1u : 2u;
}

/* Whether every row that starts at `base` and is `ld` elements from the next can be moved four elements at a time. */
__device__ __forceinline__ bool rows_wide(const void *base, uint32_t dtype, uint64_t ld)
{
    return aligned_four(base, dtype) && (ld & 3) == 0;
}

/* Magnitudes as integers: they compare as the numbers do, and NaN does not count. */
__device__ __forceinline__ uint32_t magnitude(float x)
{
    const uint32_t bits = __float_as_uint(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? 0u : bits;
}

#endif
