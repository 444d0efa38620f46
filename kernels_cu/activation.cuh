/* activation.cuh - what activation and activation_row compute. */
#ifndef HAL_ACTIVATION_CUH
#define HAL_ACTIVATION_CUH

#include "rows.cuh"

__device__ __forceinline__ float silu(bool strict, float x, float alpha)
{
    return strict ? hm_times_sigmoid(x, HM_MUL(alpha, x)) : hm_fast_times_sigmoid(x, HM_MUL(alpha, x));
}

__device__ __forceinline__ float combine(uint32_t op, bool strict, float a, float b, float alpha, uint32_t between)
{
    if (op == ACTIVATION_SILU)
        return silu(strict, a, alpha);
    if (op < ACTIVATION_ADD)
        return strict ? hm_activate(op, a) : hm_fast_activate(op, a);
    if (op == ACTIVATION_ADD)
        return flush_if(strict, HM_ADD(a, b));
    if (op == ACTIVATION_SWIGLU)
        a = round_to(between, silu(strict, a, alpha));
    return strict ? hm_mul(a, b) : HM_MUL(a, b);
}

#endif
