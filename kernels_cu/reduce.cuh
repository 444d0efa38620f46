/* reduce.cuh - greatest number and sum over the threads of a row, in the order of kernel_rows.h. A block has blockDim.x
 * threads a row, a power of two from 8 to 256, and 256 in all (128 with lowered limits); threads of a row up to 32 are
 * lanes of one warp. */
#ifndef HAL_REDUCE_CUH
#define HAL_REDUCE_CUH

#include "kernel_rows.h"
#include "rows.cuh"

#define ROW_WARPS 8u

/* What warps of a block tell each other; a buffer for each reduction in turn, so that one barrier each is enough. */
struct row_scratch {
    float4 sums[ROW_WARPS * 32];
    float most[2][ROW_WARPS];
};

/* What threads keep of their rows: ROW_KEEP fours each, every thread its own. */
extern __shared__ float4 row_kept_fours[];

__device__ __forceinline__ float4 &kept_four(uint32_t k)
{
    return row_kept_fours[(k * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x];
}

__device__ __forceinline__ float4 plus(float4 a, float4 b)
{
    return make_float4(HM_ADD(a.x, b.x), HM_ADD(a.y, b.y), HM_ADD(a.z, b.z), HM_ADD(a.w, b.w));
}

__device__ __forceinline__ float greater(float a, float b)
{
    return b > a ? b : a;
}

__device__ __forceinline__ uint32_t warp_of_block()
{
    return (threadIdx.x + threadIdx.y * blockDim.x) / 32;
}

/* All threads of a row get the greatest. NaN counts for nothing. `turn`: 0 and 1 in alternation. */
__device__ __forceinline__ float group_max(float value, row_scratch &scratch, uint32_t turn)
{
    for (uint32_t stride = min(blockDim.x, 32u) / 2; stride > 0; stride /= 2)
        value = greater(value, __shfl_xor_sync(0xffffffffu, value, stride));
    if (blockDim.x <= 32)
        return value;
    const uint32_t warp = warp_of_block(), warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0)
        scratch.most[turn][warp] = value;
    __syncthreads();
    for (uint32_t w = 0; w < warps; w++)
        value = greater(value, scratch.most[turn][warp / warps * warps + w]);
    return value;
}

/* Each thread gives four neighbouring partial sums; all of a row get the sum of all. Between two calls there must be
 * a barrier of the whole block. */
__device__ __forceinline__ float group_sum(float4 value, row_scratch &scratch)
{
    if (blockDim.x > 32) { /* the strides between warps: every warp folds all of its row */
        const uint32_t warp = warp_of_block(), warps = blockDim.x / 32, lane = threadIdx.x % 32;
        scratch.sums[warp * 32 + lane] = value;
        __syncthreads();
        const float4 *row = scratch.sums + warp / warps * warps * 32 + lane;
        float4 v[ROW_WARPS];
#pragma unroll
        for (uint32_t w = 0; w < ROW_WARPS; w++)
            v[w] = w < warps ? row[w * 32] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (uint32_t stride = ROW_WARPS / 2; stride > 0; stride /= 2)
#pragma unroll
            for (uint32_t w = 0; w < stride; w++)
                v[w] = plus(v[w], v[w + stride]);
        value = v[0];
    }
    for (uint32_t stride = min(blockDim.x, 32u) / 2; stride > 0; stride /= 2)
        value = plus(value, make_float4(__shfl_xor_sync(0xffffffffu, value.x, stride),
                                        __shfl_xor_sync(0xffffffffu, value.y, stride),
                                        __shfl_xor_sync(0xffffffffu, value.z, stride),
                                        __shfl_xor_sync(0xffffffffu, value.w, stride)));
    return HM_ADD(HM_ADD(value.x, value.z), HM_ADD(value.y, value.w));
}

#endif
