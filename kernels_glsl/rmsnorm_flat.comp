/* rmsnorm_flat.comp - rmsnorm.comp for CPU devices, see flat.glsl: a group takes a row. Constants: DTYPE_X DTYPE_WEIGHT
 * (0: none) DTYPE_Y BETWEEN WHAT, as flags say, RUNS of each of SUBGROUPS, STRICT, REST, as in kernel_flat.h. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

#include "kernel_rows.h"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_WEIGHT = 0;
layout(constant_id = 2) const uint DTYPE_Y = 1;
layout(constant_id = 3) const uint BETWEEN = 1;
layout(constant_id = 4) const uint WHAT = 0;
layout(constant_id = 5) const uint RUNS = 8;
layout(constant_id = 6) const uint SUBGROUPS = 8;
layout(constant_id = 7) const uint STRICT = 0;
layout(constant_id = 8) const uint REST = 0;

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_rmsnorm.inc"
} args;
#include "flat.glsl"
#include "flat_row.glsl"
#include "rmsnorm.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
layout(set = 0, binding = 1) uniform usamplerBuffer weight_view;
layout(set = 0, binding = 2) uniform usamplerBuffer residual_view;
layout(set = 0, binding = 3, std430) writeonly buffer sum_block { /* of DTYPE_X */
    u64vec4 new_residual[];
};
layout(set = 0, binding = 3, std430) writeonly buffer sum32_block {
    float new_residual32[];
};
layout(set = 0, binding = 3, std430) writeonly buffer sum16_block {
    uint16_t new_residual16[];
};
#define Y_BINDING 4
#define Y_BASE    ROW_BASE(args.bases[1], 0)
#include "flat_output.glsl"
layout(set = 0, binding = 5, std430) writeonly buffer scales_block {
    float scales[];
};

uint x_at, r_at; /* where the row begins */

vec4 fetch_flushed(usamplerBuffer view, uint dtype, uint texel)
{
    vec4 v = fetch_texel(view, dtype, texel);
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = flush_if(strict, v[i]);
    return v;
}

/* Four of x, or of x + residual. */
vec4 values(uint column)
{
    const vec4 x = fetch_flushed(x_view, DTYPE_X, ROW_BASE(args.bases[0], 0) + (x_at + column) / 4);
    if (!has_residual)
        return x;
    return with_residual(
        x, fetch_flushed(residual_view, DTYPE_X, ROW_BASE(args.bases[0], 2) + (r_at + column) / 4));
}

vec4 inside(uint column, vec4 v)
{
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = REST == FLAT_WHOLE || column + i < args.columns ? v[i] : 0.0;
    return v;
}

vec4 summand(uint i, uint column)
{
    return squares(inside(column, values(column)));
}

/* Has cache lines of the next row, which the same thread is likely to take, under way while this one is stored: the
 * lanes of a subgroup fetch 8 lines before every so many of its runs. What they get is of no use. */
uint touch(uint i)
{
    const uint texels = 64 / (4 * element_size(DTYPE_X)), runs = texels; /* of a line; of 8 lines */
    const uint column = (gl_LocalInvocationID.y * RUNS + i) * FLAT_RUN + 4 * texels * gl_SubgroupInvocationID;
    const uint at = ROW_BASE(args.bases[0], 0) + (x_at + args.ldx[0] + column) / 4;
    return i % runs == 0u ? texelFetch(x_view, int(at)).x : 0u;
}

vec4 normalised(uint column, float root, vec4 v)
{
    vec4 weight = vec4(1.0);
    if (DTYPE_WEIGHT != 0u)
        weight = fetch_flushed(weight_view, DTYPE_WEIGHT, ROW_BASE(args.bases[0], 1) + column / 4);
    return times_root(v, root, weight);
}

uvec4 bits_of_four(vec4 v, float scale)
{
    if (!quantised)
        return bits_of(DTYPE_Y, v);
    return uvec4(hm_quantize(v.x, scale), hm_quantize(v.y, scale), hm_quantize(v.z, scale), hm_quantize(v.w, scale));
}

void store_sum_run(uint at, uint run, vec4 v)
{
    const uint parts = parts_of_run(DTYPE_X);
    uint to = ROW_BASE(args.bases[1], 1) + at / (32 / element_size(DTYPE_X)) + run * parts;
    to = REST == FLAT_WHOLE || (run + 1) * FLAT_RUN <= args.columns ? to : NOWHERE;
    [[unroll]] for (uint i = 0; i < parts; i++)
        new_residual[to + i] = part_of_run(DTYPE_X, bits_of(DTYPE_X, v), i);
}

void store_sum_one(uint at, float v)
{
    at += ROW_BASE(args.bases[1], 1) * (32 / element_size(DTYPE_X));
    if (DTYPE_X == HAL_KERNEL_F32)
        new_residual32[at] = v;
    else
        new_residual16[at] = uint16_t(bits_of(DTYPE_X, vec4(v)).x);
}

void main()
{
    const uint lane = gl_SubgroupInvocationID, subgroup = known(gl_LocalInvocationID.y, 3), run0 = subgroup * RUNS;
    const uint row = known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0];
    const uint y_at = row * args.ldy[0], s_at = row * args.lds[0];
    x_at = row * args.ldx[0];
    r_at = row * args.ldr[0];
    float scale = 1.0, most = 0.0;
    const float root = inverse_root(sum_of_row(subgroup, args.columns), args.inverse, args.eps);
    vec4 v[RUNS];
    uint touched = 0;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        touched |= touch(i);
        const uint column = (run0 + i) * FLAT_RUN + 4 * lane;
        v[i] = values(column);
        if (has_sum)
            store_sum_run(s_at, run0 + i, v[i]);
        v[i] = normalised(column, root, v[i]);
        if (i == RUNS - 1) /* or zero, which the compiler does not know */
            v[i].x = uintBitsToFloat(floatBitsToUint(v[i].x) | touched & args.columns >> 31);
        if (quantised)
            most = greatest(inside(column, v[i]), most);
        else
            store_run_bits(y_at, run0 + i, args.columns, bits_of_four(v[i], scale));
    }
    if (quantised) {
        scale = hm_row_scale(greatest_of_group(subgroup, most));
        scales[subgroup == 0u ? ROW_BASE(args.bases[1], 2) + row : NOWHERE] = scale;
        [[unroll]] for (uint i = 0; i < RUNS; i++)
            store_run_bits(y_at, run0 + i, args.columns, bits_of_four(v[i], scale));
    }
    if (REST != FLAT_PART)
        return;
    const uint end = min(args.columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(args.columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + lane; column < end;
         column += FLAT_LANES) {
        const uint four = column & ~3u;
        const vec4 rest = values(four);
        store_bits(y_at + column, bits_of_four(vec4(normalised(four, root, rest)[column % 4]), scale).x);
        if (has_sum)
            store_sum_one(s_at + column, rest[column % 4]);
    }
}
