/* gemm_combine.cu - the second phase of split-K: A holds k matrices of sums, which are added in order; then the
 * epilogue. A group takes 4 THREADS columns of a row. */
#include "gemm_common.cuh"

#define THREADS 64

extern "C" __global__ void __launch_bounds__(THREADS) gemm_combine(GEMM_ENTRY)
{
    const uint32_t row = blockIdx.y + args.group_base[1];
    const uint32_t column = (blockIdx.x + args.group_base[0]) * 4 * THREADS + threadIdx.x * 4;
    if (column >= args.n)
        return;
    const uint64_t stride = HAL_JOIN64(args.stride_a);
    const uint32_t count = min(args.n - column, 4u);
    const float *from = (const float *)a + row * HAL_JOIN64(args.lda) + column;
    const bool wide = rows_wide(a, HAL_KERNEL_F32, args.n);
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (uint32_t part = 0; part < args.k; part++, from += stride) {
        float value[4];
        load_part4(from, HAL_KERNEL_F32, 0, count, wide, value);
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] += value[i];
    }
    GemmOutput(args, c, d, bias, residual, 0).finish(row, column, sum);
}
