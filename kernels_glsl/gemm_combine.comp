/* gemm_combine.comp - the second phase of split-K: A holds k matrices of sums, which are added in order; then the
 * epilogue. Constant: THREADS. A group takes 4 THREADS columns of a row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gemm.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint THREADS = 64;

void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1];
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * 4 * THREADS + gl_LocalInvocationID.x;
    const uint n = args.n, parts = args.k;
    const uint64_t stride = JOIN64(args.stride_a), a = args.span[SPAN_A] + row * JOIN64(args.lda) * 4;
    const epilogue e = load_epilogue(0);
    for (uint column = column0, j = 0; j < 4 && column < n; j++, column += THREADS) {
        float sum = 0.0;
        for (uint part = 0; part < parts; part++)
            sum += load_element(a, HAL_KERNEL_F32, part * stride + column);
        finish_element(e, row, column, sum);
    }
}
