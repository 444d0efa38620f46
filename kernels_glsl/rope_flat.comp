/* rope_flat.comp - rope.comp for CPU devices, see flat.glsl: a subgroup takes the RUNS runs of a head. Constants: DTYPE
 * INTERLEAVED HAS_IDS STRICT, as in rope.comp, REST, as in kernel_flat.h, RUNS; of a group's subgroups SUBGROUPS_H take
 * heads of one token; PAIR_RUNS that are apart are turned together, or 0. rotary_dim is a multiple of 8. In place,
 * what a store overwrites must be read already: it goes into the store if pairs are turned together. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_Y = 1;
layout(constant_id = 1) const uint INTERLEAVED = 0;
layout(constant_id = 2) const uint HAS_IDS = 0;
layout(constant_id = 3) const uint STRICT = 0;
layout(constant_id = 4) const uint REST = 0;
layout(constant_id = 5) const uint RUNS = 4;
layout(constant_id = 6) const uint SUBGROUPS_H = 8;
layout(constant_id = 7) const uint PAIR_RUNS = 0;
#include "rope.glsl"

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_rope_flat.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
#define Y_BINDING 1
#include "flat_output.glsl"
layout(set = 0, binding = 2) uniform usamplerBuffer cos_view;
layout(set = 0, binding = 3) uniform usamplerBuffer sin_view;
layout(set = 0, binding = 4) uniform usamplerBuffer ids_view; /* of words */

/* Negative positions are beyond any table. */
uint position_of(uint token)
{
    return HAS_IDS != 0u ? texelFetch(ids_view, int(args.base_ids + token)).x : args.first + token;
}

/* Of the pairs of four columns, of which `pair` is the first's: neighbours if pairs are apart, else two and two. */
vec4 angles(usamplerBuffer view, uint base, uint position, uint pair)
{
    const uint at = position * (args.rotary_dim / 2) + pair;
    const vec4 v = fetch_texel(view, HAL_KERNEL_F32, base + at / 4);
    const vec4 four = INTERLEAVED == 0u ? v : mix(v.xxyy, v.zzww, bvec4(at % 4 != 0u));
    return mix(vec4(uintBitsToFloat(0x7fc00000u)), four, bvec4(position < args.positions));
}

/* Four of a head that begins at x_at. */
vec4 fetch_x(uint x_at, uint column)
{
    return fetch_texel(x_view, DTYPE_Y, args.base_x + (x_at + column) / 4);
}

vec4 turn_four(vec4 own, vec4 other, vec4 c, vec4 s)
{
    vec4 y;
    [[unroll]] for (uint i = 0; i < 4; i++)
        y[i] = turn(flush_if(strict, own[i]), c[i], flush_if(strict, other[i]), s[i]);
    return y;
}

/* Any four, turned. */
vec4 values(uint x_at, uint position, uint column)
{
    const uint pairs = args.rotary_dim / 2;
    const bool second = column >= pairs;
    const vec4 own = fetch_x(x_at, column);
    vec4 other = own.yxwz, sign = vec4(-1.0, 1.0, -1.0, 1.0);
    uint pair = column / 2;
    if (INTERLEAVED == 0u) {
        pair = mix(column, column - pairs, second);
        other = fetch_x(x_at, mix(column + pairs, column - pairs, second));
        sign = vec4(second ? 1.0 : -1.0);
    }
    const vec4 c = angles(cos_view, args.base_cos, position, pair), s = angles(sin_view, args.base_sin, position, pair);
    return mix(own, turn_four(own, other, c, sign * s), bvec4(column < args.rotary_dim));
}

void main()
{
    const uint lane = gl_SubgroupInvocationID, subgroup = known(gl_LocalInvocationID.y, 1);
    const uint head = (known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0]) * SUBGROUPS_H + subgroup % SUBGROUPS_H;
    const uint token = (known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1]) * (FLAT_SUBGROUPS / SUBGROUPS_H) +
                       subgroup / SUBGROUPS_H;
    const uint inside = uint(head < args.heads) * uint(token < args.tokens), columns = inside * args.head_dim;
    const uint x_at = token * args.x_token + head * args.x_head, y_at = token * args.y_token + head * args.y_head;
    const uint position = position_of(token);
    [[unroll]] for (uint i = 0; i < PAIR_RUNS; i++) {
        const uint column = i * FLAT_RUN + 4 * lane;
        const vec4 a = fetch_x(x_at, column), b = fetch_x(x_at, column + PAIR_RUNS * FLAT_RUN);
        const vec4 c = angles(cos_view, args.base_cos, position, column);
        const vec4 s = angles(sin_view, args.base_sin, position, column);
        store_run(y_at, i, columns, turn_four(a, b, c, -s));
        store_run(y_at, i + PAIR_RUNS, columns, turn_four(b, a, c, s));
    }
    [[unroll]] for (uint i = 2 * PAIR_RUNS; i < RUNS; i++)
        store_run(y_at, i, columns, values(x_at, position, i * FLAT_RUN + 4 * lane));
    if (REST != FLAT_PART)
        return;
    for (uint column = (columns & ~(FLAT_RUN - 1)) + lane; column < columns; column += FLAT_LANES)
        store_one(y_at + column, values(x_at, position, column & ~3u)[column % 4]);
}
