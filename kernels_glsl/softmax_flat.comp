/* softmax_flat.comp - softmax.comp for CPU devices, see flat.glsl: a group takes a row. Constants: DTYPE_X DTYPE_Y LOG
 * STRICT, as flags say, RUNS of each of SUBGROUPS, REST, as in kernel_flat.h, DTYPE_MASK. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_Y = 1;
layout(constant_id = 2) const uint LOG = 0;
layout(constant_id = 3) const uint STRICT = 0;
layout(constant_id = 4) const uint RUNS = 8;
layout(constant_id = 5) const uint SUBGROUPS = 8;
layout(constant_id = 6) const uint REST = 0;
layout(constant_id = 7) const uint DTYPE_MASK = 0;
#include "kernel_rows.h"

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_softmax.inc"
} args;
#include "flat.glsl"
#include "flat_row.glsl"
#include "softmax.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
layout(set = 0, binding = 1) uniform usamplerBuffer mask_view;
#define Y_BINDING 2
#include "flat_output.glsl"

uint x_at, mask_at; /* where the row begins */
float base;

/* Scores under the mask of columns c to c + 3. */
vec4 masked(uint c, vec4 s)
{
    const uint texel = args.base_mask + (mask_at + c) / 4;
    if (DTYPE_MASK == SOFTMAX_BOOL) {
        const uint bytes = texelFetch(mask_view, int(texel)).x;
        [[unroll]] for (uint i = 0; i < 4; i++)
            s[i] = (bytes >> 8 * i & 0xffu) != 0u ? s[i] : -HM_INFINITY;
        return s;
    }
    const vec4 mask = fetch_texel(mask_view, DTYPE_MASK, texel);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const float m = flush_if(strict, mask[i]);
        precise float v = HM_ADD(s[i], m);
        s[i] = m == -HM_INFINITY ? m : flush_if(strict, v);
    }
    return s;
}

/* Scores of columns c to c + 3; -infinity beyond the row. */
vec4 scores(uint c)
{
    const vec4 x = fetch_texel(x_view, DTYPE_X, args.base_x + (x_at + c) / 4);
    vec4 s;
    [[unroll]] for (uint i = 0; i < 4; i++)
        s[i] = score_of(flush_if(strict, x[i]), args.scale);
    if (DTYPE_MASK != 0u)
        s = masked(c, s);
    [[unroll]] for (uint i = 0; i < 4; i++)
        s[i] = REST == FLAT_WHOLE || c + i < args.columns ? s[i] : -HM_INFINITY;
    return s;
}

/* Whether a subgroup takes the runs that it adds and holds them in registers. Then its stores are far from each other,
 * which costs more than it saves for FP32, but in strict mode; and many registers take long to compile. */
const bool FAST_F32 = DTYPE_Y == HAL_KERNEL_F32 && STRICT == 0u;
const bool HELD = SUBGROUPS == ADDERS && RUNS <= 16 && !FAST_F32;
vec4 held[RUNS]; /* scores, then exponentials */

uint run_of(uint subgroup, uint i)
{
    return HELD ? i * SUBGROUPS + subgroup : subgroup * RUNS + i;
}

vec4 summand(uint i, uint column)
{
    const vec4 e = exp_from(HELD ? held[i] : scores(column), base);
    if (HELD && LOG == 0u)
        held[i] = e;
    return e;
}

vec4 results(vec4 s, vec4 e, float unit)
{
    [[unroll]] for (uint i = 0; i < 4; i++)
        s[i] = result(s[i], e[i], base, unit);
    return s;
}

vec4 results_at(uint column, float unit)
{
    const vec4 s = scores(column);
    return results(s, LOG != 0u ? s : exp_from(s, base), unit);
}

void main()
{
    const uint lane = gl_SubgroupInvocationID, subgroup = known(gl_LocalInvocationID.y, 3);
    const uint row = known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0], y_at = row * args.ldy[0];
    x_at = row * args.ldx[0];
    mask_at = DTYPE_MASK != 0u ? row % args.mask_rows * args.ldmask[0] : 0u;
    float most = -HM_INFINITY;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const vec4 s = scores(run_of(subgroup, i) * FLAT_RUN + 4 * lane);
        most = greatest(s, most);
        if (HELD)
            held[i] = s;
    }
    base = base_of(greatest_of_group(subgroup, most));
    const float unit = unit_of(sum_of_row(subgroup, args.columns));
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        const uint run = run_of(subgroup, i);
        store_run(y_at, run, args.columns,
                  HELD ? results(held[i], held[i], unit) : results_at(run * FLAT_RUN + 4 * lane, unit));
    }
    if (REST != FLAT_PART)
        return;
    const uint end = gl_LocalInvocationID.y == 0u ? args.columns : 0u;
    for (uint column = (args.columns & ~(FLAT_RUN - 1)) + lane; column < end; column += FLAT_LANES)
        store_one(y_at + column, results_at(column & ~3u, unit)[column % 4]);
}
