/* gemm_combine.cl - the second phase of split-K: A holds k matrices of sums, which are added in order; then the
 * epilogue. Constant: THREADS. A group takes 4 THREADS columns of a row. */
#define DTYPE HAL_KERNEL_F32
#include "gemm.clh"

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void gemm_combine(SPANS, hal_gemm_args args)
{
    const uint row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * 4 * THREADS + get_local_id(0);
    const ulong stride = HAL_JOIN64(args.stride_a);
    global const float *a = (global const float *)(a_span + a_offset) + row * HAL_JOIN64(args.lda);
    const epilogue e = EPILOGUE(0);
    for (uint column = column0, j = 0; j < 4 && column < args.n; j++, column += THREADS) {
        float sum = 0.0f;
        for (uint part = 0; part < args.k; part++)
            sum += a[part * stride + column];
        finish_element(&e, row, column, sum);
    }
}
