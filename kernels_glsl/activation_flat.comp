/* activation_flat.comp - activation.comp for CPU devices, see flat.glsl: a subgroup takes RUNS runs of a row.
 * Constants: DTYPE_A DTYPE_B DTYPE_Y OP STRICT, as flags say, ROWS: whether there are several, ONE: b has one column,
 * REST, as in kernel_flat.h, RUNS, BETWEEN: what is rounded to, since both sides of a branch are run. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_A = 1;
layout(constant_id = 1) const uint DTYPE_B = 1;
layout(constant_id = 2) const uint DTYPE_Y = 1;
layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint STRICT = 0;
layout(constant_id = 5) const uint ROWS = 0;
layout(constant_id = 6) const uint ONE = 0;
layout(constant_id = 7) const uint REST = 0;
layout(constant_id = 8) const uint RUNS = 8;
layout(constant_id = 9) const uint BETWEEN = 1;
#include "activation.glsl"

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_activation.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer a_view;
layout(set = 0, binding = 1) uniform usamplerBuffer b_view;
#define Y_BINDING 2
#include "flat_output.glsl"

const bool strict = STRICT != 0u;

void main()
{
    const uint lane = gl_SubgroupInvocationID, columns = args.columns;
    const uint run0 = ((known(gl_WorkGroupID.x, 7) + args.group_base[0]) * FLAT_SUBGROUPS +
                       known(gl_LocalInvocationID.y, 1)) * RUNS;
    const uint row = ROWS != 0u ? known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1] : 0u;
    const uint b_row = ROWS != 0u ? row % args.b_rows * args.ldb[0] : 0u;
    const float one = ONE != 0u ? flush_if(strict, fetch_element(b_view, DTYPE_B, args.base_b + b_row)) : 0.0;
    const float alpha = args.alpha;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const uint column = (run0 + i) * FLAT_RUN + 4 * lane;
        vec4 a = fetch_texel(a_view, DTYPE_A, args.base_a + (row * args.lda[0] + column) / 4), b = vec4(one);
        if (OP >= ACTIVATION_ADD && ONE == 0u)
            b = fetch_texel(b_view, DTYPE_B, args.base_b + (b_row + column) / 4);
        [[unroll]] for (uint j = 0; j < 4; j++)
            a[j] = combine(flush_if(strict, a[j]), flush_if(strict, b[j]), alpha, BETWEEN);
        store_run(row * args.ldy[0], run0 + i, columns, a);
    }
    if (REST != FLAT_PART)
        return;
    const uint end = min(columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + lane; column < end; column += FLAT_LANES) {
        const uint a_at = row * args.lda[0] + column, b_at = b_row + column;
        const float a = fetch_texel(a_view, DTYPE_A, args.base_a + a_at / 4)[a_at % 4];
        float b = one;
        if (OP >= ACTIVATION_ADD && ONE == 0u)
            b = fetch_texel(b_view, DTYPE_B, args.base_b + b_at / 4)[b_at % 4];
        store_one(row * args.ldy[0] + column, combine(flush_if(strict, a), flush_if(strict, b), alpha, BETWEEN));
    }
}
