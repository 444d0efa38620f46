/* quantize_flat.comp - quantize.comp for CPU devices, see flat.glsl: a subgroup takes RUNS runs of a row. Constants:
 * DTYPE_X DTYPE_Y OP SCALING STRICT, as flags say, DTYPE_SCALES, REST, as in kernel_flat.h, RUNS, and ROWS: whether
 * there are several; or SUBGROUPS of a group, which is a row of quantize_row_flat. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_Y = 1;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint SCALING = 3;
layout(constant_id = 4) const uint STRICT = 0;
layout(constant_id = 5) const uint DTYPE_SCALES = 1;
layout(constant_id = 6) const uint REST = 0;
layout(constant_id = 7) const uint RUNS = 8;
layout(constant_id = 8) const uint ROWS = 8;
const uint SUBGROUPS = ROWS;
#include "quantize.glsl"

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_quantize.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
#define Y_BINDING 1
#include "flat_output.glsl"

vec4 fetch_x(uint at)
{
    vec4 v = fetch_texel(x_view, DTYPE_X, args.base_x + at / 4);
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = flush_if(STRICT != 0u, v[i]);
    return v;
}

uvec4 bits_of_four(vec4 v, vec4 scale)
{
    uvec4 codes;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        codes[i] = OP == QUANTIZE_CODES ? code_of(v[i], scale[i]) : hm_e4m3_from_f32(v[i], 0x7fu);
        v[i] = number(v[i], scale[i]);
    }
    return OP == QUANTIZE_CODES || OP == QUANTIZE_CAST_NAN ? codes : bits_of(DTYPE_Y, v);
}

#ifdef HAL_KERNEL_quantize_flat
layout(set = 0, binding = 2) uniform usamplerBuffer scales_view;

float scale_at(uint i)
{
    return fetch_element(scales_view, DTYPE_SCALES, args.base_s + i);
}

vec4 scales_at(uint column, float whole)
{
    vec4 scale = vec4(whole);
    if (OP >= QUANTIZE_CODES && SCALING == QUANTIZE_PER_COLUMN)
        [[unroll]] for (uint i = 0; i < 4; i++)
            scale[i] = scale_at(column + i);
    return scale;
}

void main()
{
    const uint columns = args.columns;
    const uint run0 = ((known(gl_WorkGroupID.x, 7) + args.group_base[0]) * FLAT_SUBGROUPS +
                       known(gl_LocalInvocationID.y, 1)) * RUNS;
    const uint row = ROWS != 0u ? known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1] : 0u;
    float whole = 1.0;
    if (OP >= QUANTIZE_CODES && SCALING != QUANTIZE_PER_COLUMN)
        whole = scale_at(SCALING == QUANTIZE_PER_ROW ? row : 0u);
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const uint column = (run0 + i) * FLAT_RUN + 4 * gl_SubgroupInvocationID;
        const vec4 x = fetch_x(row * args.ldx[0] + column);
        store_run_bits(row * args.ldy[0], run0 + i, columns, bits_of_four(x, scales_at(column, whole)));
    }
    if (REST != FLAT_PART)
        return;
    const uint end = min(columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + gl_SubgroupInvocationID; column < end;
         column += FLAT_LANES) {
        const uint at = row * args.ldx[0] + column;
        const vec4 x = vec4(fetch_x(at)[at % 4]), scale = vec4(scales_at(column, whole).x);
        store_bits(row * args.ldy[0] + column, bits_of_four(x, scale).x);
    }
}
#endif

#ifdef HAL_KERNEL_quantize_row_flat
layout(set = 0, binding = 2, std430) writeonly buffer scales_block {
    float scales[];
};
#include "flat_greatest.glsl"

void main()
{
    const uint columns = args.columns, subgroup = known(gl_LocalInvocationID.y, 3), run0 = subgroup * RUNS;
    const uint row = known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0];
    vec4 x[RUNS];
    uint most = 0;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const uint column = (run0 + i) * FLAT_RUN + 4 * gl_SubgroupInvocationID;
        x[i] = fetch_x(row * args.ldx[0] + column);
        [[unroll]] for (uint k = 0; k < 4; k++)
            most = REST == FLAT_WHOLE || column + k < columns ? max(most, magnitude(x[i][k])) : most;
    }
    const float scale = hm_row_scale(uintBitsToFloat(greatest_of_group(subgroup, most)));
    scales[subgroup == 0u ? args.base_s + row : NOWHERE] = scale;
    [[unroll]] for (uint i = 0; i < RUNS; i++)
        store_run_bits(row * args.ldy[0], run0 + i, columns, bits_of_four(x[i], vec4(scale)));
    if (REST != FLAT_PART)
        return;
    const uint end = min(columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + gl_SubgroupInvocationID; column < end;
         column += FLAT_LANES) {
        const uint at = row * args.ldx[0] + column;
        store_bits(row * args.ldy[0] + column, bits_of_four(vec4(fetch_x(at)[at % 4]), vec4(scale)).x);
    }
}
#endif
