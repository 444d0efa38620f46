/* gemm_task_flat.comp - the form of the GEMM in gemm_task.glsl for a D whose rows start at multiples of 32 bytes, stored
 * as flat.glsl says. Constants beyond those there: FLAGS of hal_gemm_args; REST: whether a row of D ends within 32
 * bytes; FOURS: whether C, bias and residual are views of four neighbours (else of single elements). */
#version 460
#extension GL_GOOGLE_include_directive : require
#define NUMERICS_F8 /* of flat_output.glsl */
#include "numerics.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TRANS_A = 0;
layout(constant_id = 2) const uint TRANS_B = 0;
layout(constant_id = 3) const uint ROW_GROUPS = 1;
layout(constant_id = 4) const uint SHIFT_A = 0;
layout(constant_id = 5) const uint SHIFT_B = 0;
layout(constant_id = 6) const uint FLAGS = 0;
layout(constant_id = 7) const uint REST = 0;
layout(constant_id = 8) const uint FOURS = 0;

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_gemm_flat.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer a_view;
layout(set = 0, binding = 1) uniform usamplerBuffer b_view;
layout(set = 0, binding = 2) uniform usamplerBuffer c_view;
layout(set = 0, binding = 4) uniform usamplerBuffer bias_view;
layout(set = 0, binding = 5) uniform usamplerBuffer residual_view;
const uint DTYPE_Y = GEMM_DTYPE_D(FLAGS);
#define Y_BINDING 3
#define Y_BASE    args.base_d
#include "flat_output.glsl"

uvec4 fetch_a(uint texel)
{
    return texelFetch(a_view, int(texel));
}

uvec4 fetch_b(uint texel)
{
    return texelFetch(b_view, int(texel));
}
#include "gemm_task.glsl"

const uint dtype_c = GEMM_DTYPE_C(FLAGS), dtype_bias = GEMM_DTYPE_BIAS(FLAGS), dtype_r = GEMM_DTYPE_RESIDUAL(FLAGS);
const bool EXTRAS = dtype_c != 0u || dtype_bias != 0u || dtype_r != 0u || GEMM_ACT(FLAGS) != 0u;

/* What C, bias or residual has in four columns, in a row that begins `at` elements behind the first. Beyond D it is
 * whatever is there. */
vec4 fetch_four(usamplerBuffer view, uint dtype, uint base, uint at, uvec4 columns)
{
    if (FOURS != 0u)
        return fetch_texel(view, dtype, base + (at + columns.x) / 4);
    vec4 v;
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = fetch_element(view, dtype, base + at + columns[i]);
    return v;
}

/* finish_element of gemm.glsl after the scaling and up to the store, four times. */
vec4 finish(uint problem, uint row, uvec4 columns, vec4 scaled)
{
    precise vec4 v = scaled;
    if (dtype_c != 0u)
        v += args.beta * fetch_four(c_view, dtype_c, args.base_c, problem * args.stride_c + row * args.ldc, columns);
    if (dtype_bias != 0u)
        v += fetch_four(bias_view, dtype_bias, args.base_bias, 0, columns);
    [[unroll]] for (uint i = 0; GEMM_ACT(FLAGS) != 0u && i < 4; i++)
        v[i] = hm_fast_activate(GEMM_ACT(FLAGS), round_to(GEMM_BETWEEN(FLAGS), v[i]));
    if (dtype_r == 0u)
        return v;
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = round_to(GEMM_BETWEEN(FLAGS), v[i]);
    return v + fetch_four(residual_view, dtype_r, args.base_r, problem * args.stride_r + row * args.ldr, columns);
}

uint bits[VECTORS]; /* of a row of the tile, in column_of(t, lane, v) */

/* Those of column c, counted from the tile's first. */
uint bits_in(uint c)
{
    return TRANS_B == 0 ? subgroupShuffle(bits[c % VECTORS], c / VECTORS) : subgroupShuffle(bits[c / 8], c % 8);
}

/* Word w of a row of the tile. */
uint word_of(uint w)
{
    return DTYPE_Y == HAL_KERNEL_F32 ? bits_in(w) : bits_in(2 * w) | bits_in(2 * w + 1) << 16;
}

uint one_bits(float v)
{
    return DTYPE_Y == HAL_KERNEL_F32   ? floatBitsToUint(v)
           : DTYPE_Y == HAL_KERNEL_F16 ? f16_from_f32(v)
                                       : hm_bf16_from_f32(v);
}

void main()
{
    const uint lane = gl_SubgroupInvocationID, problem = known(gl_WorkGroupID.z, FLAT_DIGITS) + args.group_base[2];
    const uint part = 32 / element_size(DTYPE_Y), parts = 8 * VECTORS / part; /* columns of 32 bytes; such of a tile */
    task t;
    t.m = args.m;
    t.n = args.n;
    t.depth = args.k;
    t.lda = args.lda;
    t.ldb = args.ldb;
    t.row0 = (known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1]) * ROWS;
    t.column0 = (known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0]) * 8 * VECTORS;
    t.a0 = args.base_a + problem * args.stride_a;
    t.b0 = args.base_b + problem * args.stride_b;
    t.last_a = uint(textureSize(a_view)) - 1;
    t.last_b = uint(textureSize(b_view)) - 1;

    multiply(t, lane);
    float result[ROWS * VECTORS];
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++)
        result[i] = args.alpha * sum[i];
    [[dont_unroll]] for (uint i = 0; EXTRAS && i < ROWS * VECTORS; i += 4) {
        uvec4 columns;
        vec4 v;
        [[unroll]] for (uint j = 0; j < 4; j++) {
            columns[j] = column_of(t, lane, i % VECTORS + j);
            v[j] = result[i + j];
        }
        v = finish(problem, t.row0 + i / VECTORS, columns, v);
        [[unroll]] for (uint j = 0; j < 4; j++)
            result[i + j] = v[j];
    }

    const uint d0 = problem * args.stride_d + t.column0;
    [[unroll]] for (uint row = 0; row < ROWS; row++) {
        [[unroll]] for (uint v = 0; v < VECTORS; v++)
            bits[v] = one_bits(result[row * VECTORS + v]);
        [[unroll]] for (uint i = 0; i < parts; i++) {
            uint to = args.base_d + (d0 + (t.row0 + row) * args.ldd) / part + i; /* known, so without && */
            to = t.row0 + row < t.m ? to : NOWHERE;
            to = t.column0 + (i + 1) * part <= t.n ? to : NOWHERE;
            u64vec4 words;
            [[unroll]] for (uint k = 0; k < 4; k++)
                words[k] = packUint2x32(uvec2(word_of(8 * i + 2 * k), word_of(8 * i + 2 * k + 1)));
            y[to] = words;
        }
    }
    if (REST == 0u)
        return;
    const uint whole = t.n / part * part, first = t.column0 + 8 * VECTORS > t.n ? 0 : ROWS * VECTORS;
    [[dont_unroll]] for (uint i = first; i < ROWS * VECTORS; i++) {
        const uint row = t.row0 + i / VECTORS, column = column_of(t, lane, i % VECTORS);
        if (row < t.m && column >= whole && column < t.n)
            store_one(problem * args.stride_d + row * args.ldd + column, result[i]);
    }
}
