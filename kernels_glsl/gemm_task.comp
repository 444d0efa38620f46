/* gemm_task.comp - the form of the GEMM in gemm_task.glsl for any D, C, bias and residual, by their addresses.
 * gemm_task_address is the same where A and B, too, have no views (the address is not known before submit, or the
 * operand is too large for one): slower there, but far ahead of a kernel with shared memory. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "gemm.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TRANS_A = 0;
layout(constant_id = 2) const uint TRANS_B = 0;
layout(constant_id = 3) const uint ROW_GROUPS = 1;
layout(constant_id = 4) const uint SHIFT_A = 0;
layout(constant_id = 5) const uint SHIFT_B = 0;
layout(constant_id = 6) const uint DTYPE_D = 1;
layout(constant_id = 7) const uint EXTRAS = 1; /* C, bias, activation or residual */

#ifdef HAL_KERNEL_gemm_task_address
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer ref_texel {
    uvec4 value;
};
uint64_t a_start, b_start; /* of the problem's operand, rounded down to a texel */

uvec4 fetch_a(uint texel)
{
    return ref_texel(a_start + uint64_t(texel) * 16).value;
}

uvec4 fetch_b(uint texel)
{
    return ref_texel(b_start + uint64_t(texel) * 16).value;
}
#else
layout(set = 0, binding = 0) uniform usamplerBuffer a_view;
layout(set = 0, binding = 1) uniform usamplerBuffer b_view;

uvec4 fetch_a(uint texel)
{
    return texelFetch(a_view, int(texel));
}

uvec4 fetch_b(uint texel)
{
    return texelFetch(b_view, int(texel));
}
#endif
#include "gemm_task.glsl"

void main()
{
    const uint lane = gl_LocalInvocationID.x;
    const uint problem = gl_WorkGroupID.z + args.group_base[2];
    task t;
    t.m = args.m;
    t.n = args.n;
    t.depth = args.k;
    t.lda = args.lda[0]; /* a view's elements fit 32 bits */
    t.ldb = args.ldb[0];
    t.row0 = (gl_WorkGroupID.y + args.group_base[1]) * ROWS;
    t.column0 = (gl_WorkGroupID.x + args.group_base[0]) * 8 * VECTORS;
#ifdef HAL_KERNEL_gemm_task_address
    a_start = args.span[SPAN_A] + problem * JOIN64(args.stride_a) * element_size(DTYPE);
    b_start = args.span[SPAN_B] + problem * JOIN64(args.stride_b) * element_size(DTYPE);
    t.a0 = (uint(a_start) & 15u) / element_size(DTYPE);
    t.b0 = (uint(b_start) & 15u) / element_size(DTYPE);
    a_start &= ~uint64_t(15);
    b_start &= ~uint64_t(15);
    t.last_a = (t.a0 + (TRANS_A == 0 ? (t.m - 1) * t.lda + t.depth : (t.depth - 1) * t.lda + t.m) - 1) / TEXEL;
    t.last_b = (t.b0 + (TRANS_B == 0 ? (t.depth - 1) * t.ldb + t.n : (t.n - 1) * t.ldb + t.depth) - 1) / TEXEL;
#else
    t.a0 = args.base_a + problem * args.stride_a[0];
    t.b0 = args.base_b + problem * args.stride_b[0];
    t.last_a = uint(textureSize(a_view)) - 1;
    t.last_b = uint(textureSize(b_view)) - 1;
#endif
    const epilogue e = load_epilogue(problem);

    multiply(t, lane);
    /* A copy, so that only it has to lie in memory for the loop to index it. */
    float result[ROWS * VECTORS];
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++)
        result[i] = sum[i];
    [[dont_unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) {
        const uint row = t.row0 + i / VECTORS, column = column_of(t, lane, i % VECTORS);
        if (row < t.m && column < t.n) {
            if (EXTRAS != 0)
                finish_element(e, row, column, result[i]);
            else
                store_element(e.d, DTYPE_D, row * e.ldd + column, e.alpha * result[i]);
        }
    }
}
