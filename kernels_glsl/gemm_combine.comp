/* gemm_combine.comp - the second phase of a GEMM: A holds the sums that other kernels have stored, those of k parts of k;
 * they are added in order, and the epilogue follows. Constants: THREADS PARTS. A group takes 4 THREADS columns of a row.
 * With PARTS 2 the gate's sums come first, then the others as many behind, or the two alternate. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint THREADS = 64;
layout(constant_id = 1) const uint PARTS = 1;
const uint STRICT = 0;
#include "gemm_any.glsl"

void main()
{
    const uint problem = gl_WorkGroupID.z + args.group_base[2], row = gl_WorkGroupID.y + args.group_base[1];
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * 4 * THREADS + gl_LocalInvocationID.x;
    const uint n = args.n, k_end = args.k;
    const bool alternate = (args.flags & GEMM_ALTERNATE) != 0u;
    const uint64_t next = JOIN64(args.stride_b), behind = alternate ? uint64_t(1) : k_end * next;
    const uint64_t a = args.span[SPAN_A] + (problem * JOIN64(args.stride_a) + row * JOIN64(args.lda)) * 4;
    const options o = load_options(problem);
    for (uint column = column0, j = 0; j < 4 && column < n; j++, column += THREADS) {
        float sum[2] = {0.0, 0.0};
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            for (uint k = 0; k < k_end; k++)
                sum[part] +=
                    load_element(a, HAL_KERNEL_F32, part * behind + k * next + (alternate ? 2 * column : column));
        }
        finish(o, row, column, sum[0], sum[1]);
    }
}
