/* numerics.cuh - number formats of the CUDA kernels; the same meanings as hal/numeric.h. Activations are
 * kernel_math.h's.
 * Nothing here needs more than sm_80 and PTX 7.0. */
#ifndef HAL_NUMERICS_CUH
#define HAL_NUMERICS_CUH

#include <stdint.h>

#include "kernel_abi.h"
#include "kernel_math.h"

/* Storage formats. Widening is exact; narrowing rounds to nearest even and keeps NaN. */
struct F32 {
    typedef float bits;
    static __device__ __forceinline__ float widen(bits value) { return value; }
};

struct F16 {
    typedef uint16_t bits;
    static __device__ __forceinline__ float widen(bits value)
    {
        float result;
        asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value));
        return result;
    }
    static __device__ __forceinline__ bits narrow(float value)
    {
        bits result;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(value));
        return result;
    }
};

struct BF16 {
    typedef uint16_t bits;
    static __device__ __forceinline__ float widen(bits value) { return __uint_as_float((uint32_t)value << 16); }
    static __device__ __forceinline__ bits narrow(float value)
    {
        bits result;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
        return result;
    }
};

/* One element of a dtype that is known at run time only. */
__device__ __forceinline__ float load_element(const void *base, uint32_t dtype, uint64_t index)
{
    if (dtype == HAL_KERNEL_F32)
        return ((const float *)base)[index];
    if (dtype == HAL_KERNEL_F8E4M3)
        return hm_f32_from_e4m3(((const uint8_t *)base)[index]);
    const uint16_t bits = ((const uint16_t *)base)[index];
    return dtype == HAL_KERNEL_F16 ? F16::widen(bits) : BF16::widen(bits);
}

__device__ __forceinline__ void store_element(void *base, uint32_t dtype, uint64_t index, float value)
{
    if (dtype == HAL_KERNEL_F32)
        ((float *)base)[index] = value;
    else if (dtype == HAL_KERNEL_F8E4M3)
        ((uint8_t *)base)[index] = (uint8_t)hm_e4m3_from_f32(value, 0x7eu);
    else
        ((uint16_t *)base)[index] = dtype == HAL_KERNEL_F16 ? F16::narrow(value) : BF16::narrow(value);
}

/* Four neighbours at an address that is a multiple of their size together. */
__device__ __forceinline__ void load_four(const void *base, uint32_t dtype, uint64_t index, float (&value)[4])
{
    if (dtype == HAL_KERNEL_F32) {
        const float4 four = *(const float4 *)((const float *)base + index);
        value[0] = four.x, value[1] = four.y, value[2] = four.z, value[3] = four.w;
        return;
    }
    if (dtype == HAL_KERNEL_F8E4M3) {
        const uchar4 four = *(const uchar4 *)((const uint8_t *)base + index);
        value[0] = hm_f32_from_e4m3(four.x), value[1] = hm_f32_from_e4m3(four.y);
        value[2] = hm_f32_from_e4m3(four.z), value[3] = hm_f32_from_e4m3(four.w);
        return;
    }
    const ushort4 four = *(const ushort4 *)((const uint16_t *)base + index);
    const uint16_t bits[4] = {four.x, four.y, four.z, four.w};
    if (dtype == HAL_KERNEL_F16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = F16::widen(bits[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = BF16::widen(bits[i]);
    }
}

__device__ __forceinline__ void store_four(void *base, uint32_t dtype, uint64_t index, const float (&value)[4])
{
    if (dtype == HAL_KERNEL_F32) {
        *(float4 *)((float *)base + index) = make_float4(value[0], value[1], value[2], value[3]);
        return;
    }
    if (dtype == HAL_KERNEL_F8E4M3) {
        *(uchar4 *)((uint8_t *)base + index) =
            make_uchar4((uint8_t)hm_e4m3_from_f32(value[0], 0x7eu), (uint8_t)hm_e4m3_from_f32(value[1], 0x7eu),
                        (uint8_t)hm_e4m3_from_f32(value[2], 0x7eu), (uint8_t)hm_e4m3_from_f32(value[3], 0x7eu));
        return;
    }
    uint16_t bits[4];
    if (dtype == HAL_KERNEL_F16) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits[i] = F16::narrow(value[i]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
            bits[i] = BF16::narrow(value[i]);
    }
    *(ushort4 *)((uint16_t *)base + index) = make_ushort4(bits[0], bits[1], bits[2], bits[3]);
}

__device__ __forceinline__ bool aligned_four(const void *base, uint32_t dtype)
{
    return ((uintptr_t)base & (dtype == HAL_KERNEL_F32 ? 15u : dtype == HAL_KERNEL_F8E4M3 ? 3u : 7u)) == 0;
}

#endif
