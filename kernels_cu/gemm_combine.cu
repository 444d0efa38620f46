/* gemm_combine.cu - the second phase of a GEMM: A holds the sums that other kernels have stored, those of k parts of k;
 * they are added in order, and the epilogue follows. A group takes 4 THREADS columns of a row. With PARTS 2 (GEMM_PAIR)
 * the gate's sums come first, then the others as many behind, or the two alternate. */
#include "gemm_any.cuh"

#define THREADS 64

template <uint32_t PARTS> __device__ __forceinline__ void combine(ALL_SPANS, const hal_gemm_args &args)
{
    const uint32_t problem = blockIdx.z + args.group_base[2], row = blockIdx.y + args.group_base[1];
    const uint32_t column0 = (blockIdx.x + args.group_base[0]) * 4 * THREADS + threadIdx.x;
    const bool alternate = (args.flags & GEMM_ALTERNATE) != 0;
    const uint64_t next = HAL_JOIN64(args.stride_b), behind = alternate ? 1 : args.k * next;
    const float *sums = (const float *)a + problem * HAL_JOIN64(args.stride_a) + row * HAL_JOIN64(args.lda);
    const AnyOutput<false, PARTS> output(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args, problem);
#pragma unroll 1
    for (uint32_t column = column0, j = 0; j < 4 && column < args.n; j++, column += THREADS) {
        float sum[PARTS];
#pragma unroll
        for (uint32_t part = 0; part < PARTS; part++) {
            sum[part] = 0.0f;
            for (uint32_t k = 0; k < args.k; k++)
                sum[part] += sums[part * behind + k * next + (alternate ? 2 * column : column)];
        }
        output.finish(row, column, sum);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gemm_combine(ALL_SPANS, const __grid_constant__ hal_gemm_args args)
{
    if (args.flags & GEMM_PAIR)
        combine<2>(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args);
    else
        combine<1>(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args);
}
