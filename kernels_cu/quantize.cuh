/* quantize.cuh - how numbers become E4M3 codes with a scale, and which scale a row has. */
#ifndef HAL_QUANTIZE_CUH
#define HAL_QUANTIZE_CUH

#include "greatest.cuh"
#include "rows.cuh"

/* A scale that is not a positive finite number spoils what it scales. */
__device__ __forceinline__ uint32_t code_of(float x, float scale)
{
    return __float_as_uint(scale) - 1u < 0x7f7fffffu ? hm_quantize(x, scale) : 0x7fu;
}

__device__ __forceinline__ void store_codes(void *y, uint64_t i, uint32_t count, bool wide, const uint32_t (&code)[4])
{
    uint8_t *at = (uint8_t *)y + i;
    if (wide && count >= 4) {
        *(uint32_t *)at = code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24;
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (j < count)
            at[j] = (uint8_t)code[j];
}

#endif
