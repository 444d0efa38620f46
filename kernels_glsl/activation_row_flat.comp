/* activation_row_flat.comp - activation_row.comp for CPU devices, see flat.glsl: a group takes a row, RUNS runs of each of
 * SUBGROUPS. Constants: DTYPE_A DTYPE_B OP STRICT, as flags say, ONE: b has one column, REST, as in kernel_flat.h, RUNS,
 * SUBGROUPS, BETWEEN: what is rounded to, since both sides of a branch are run. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_A = 1;
layout(constant_id = 1) const uint DTYPE_B = 1;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint STRICT = 0;
layout(constant_id = 4) const uint ONE = 0;
layout(constant_id = 5) const uint REST = 0;
layout(constant_id = 6) const uint RUNS = 8;
layout(constant_id = 7) const uint SUBGROUPS = 8;
layout(constant_id = 8) const uint BETWEEN = 1;
const uint DTYPE_Y = HAL_KERNEL_F8E4M3;
#include "activation.glsl"
#include "codes.glsl"

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_activation.inc"
} args;
#include "flat.glsl"
#include "flat_greatest.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer a_view;
layout(set = 0, binding = 1) uniform usamplerBuffer b_view;
#define Y_BINDING 2
#include "flat_output.glsl"
layout(set = 0, binding = 3, std430) writeonly buffer scales_block {
    float scales[];
};

const bool strict = STRICT != 0u;

/* Columns c to c + 3 of the row. */
vec4 four(uint row, uint c)
{
    const uint b_row = row % args.b_rows * args.ldb[0];
    const vec4 a = fetch_texel(a_view, DTYPE_A, args.base_a + (row * args.lda[0] + c) / 4);
    vec4 b = vec4(0.0), v;
    if (ONE != 0u)
        b = vec4(fetch_element(b_view, DTYPE_B, args.base_b + b_row));
    else if (OP >= ACTIVATION_ADD)
        b = fetch_texel(b_view, DTYPE_B, args.base_b + (b_row + c) / 4);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        v[i] = combine(flush_if(strict, a[i]), flush_if(strict, b[i]), args.alpha, BETWEEN);
        v[i] = flush_if(strict, round_to(BETWEEN, v[i]));
    }
    return v;
}

uvec4 codes_of(vec4 v, float scale)
{
    uvec4 codes;
    [[unroll]] for (uint i = 0; i < 4; i++)
        codes[i] = code_of(v[i], scale);
    return codes;
}

void main()
{
    const uint columns = args.columns, subgroup = known(gl_LocalInvocationID.y, 3), run0 = subgroup * RUNS;
    const uint row = known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0];
    vec4 v[RUNS];
    uint most = 0;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const uint column = (run0 + i) * FLAT_RUN + 4 * gl_SubgroupInvocationID;
        v[i] = four(row, column);
        [[unroll]] for (uint k = 0; k < 4; k++)
            most = REST == FLAT_WHOLE || column + k < columns ? max(most, magnitude(v[i][k])) : most;
    }
    const float scale = hm_row_scale(uintBitsToFloat(greatest_of_group(subgroup, most)));
    scales[subgroup == 0u ? args.base_s + row : NOWHERE] = scale;
    [[unroll]] for (uint i = 0; i < RUNS; i++)
        store_run_bits(row * args.ldy[0], run0 + i, columns, codes_of(v[i], scale));
    if (REST != FLAT_PART)
        return;
    const uint end = min(columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + gl_SubgroupInvocationID; column < end;
         column += FLAT_LANES) {
        const vec4 near = four(row, column & ~3u);
        store_bits(row * args.ldy[0] + column, code_of(near[column % 4], scale));
    }
}
