/* gemm_combine.cl - the second phase of a GEMM: A holds the sums that other kernels have stored, those of k parts of k;
 * they are added in order, and the epilogue follows. Constants: THREADS PARTS. A group takes 4 THREADS columns of a
 * row. With PARTS 2 the gate's sums come first, then the others as many behind, or the two alternate. */
#define DTYPE  HAL_KERNEL_F32
#define STRICT 0
#include "gemm_any.clh"

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void gemm_combine(ALL_SPANS, hal_gemm_args args)
{
    const uint problem = get_group_id(2) + args.group_base[2], row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * 4 * THREADS + get_local_id(0);
    const bool alternate = (args.flags & GEMM_ALTERNATE) != 0;
    const ulong next = HAL_JOIN64(args.stride_b), behind = alternate ? 1 : args.k * next;
    global const float *a =
        (global const float *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a) + row * HAL_JOIN64(args.lda);
    const options o = OPTIONS(problem);
    for (uint column = column0, j = 0; j < 4 && column < args.n; j++, column += THREADS) {
        float sum[PARTS];
        for (uint part = 0; part < PARTS; part++) {
            sum[part] = 0.0f;
            for (uint k = 0; k < args.k; k++)
                sum[part] += a[part * behind + k * next + (alternate ? 2 * column : column)];
        }
        finish(&o, row, column, sum);
    }
}
