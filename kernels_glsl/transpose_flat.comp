/* transpose_flat.comp - transpose.comp for CPU devices, see flat.glsl. A lane takes 16 bytes along a (in
 * transpose_copy_flat: b) at a time; a subgroup makes parts of 32 bytes along b.
 * Constants: SIZE of an element in bytes: 1, 2 or 4; WIDE_X: x is read in texels of 16 bytes, else element by element;
 * Y_UNIT: bytes of y that are stored at a time, 32, or 4 where rows are whole words that follow each other, else an
 * element; OUTER axes; of a group's subgroups SUBGROUPS_B lie along b; a subgroup takes
 * TEXELS along a (transpose_copy_flat: rows) and PARTS along b. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint SIZE = 4;
layout(constant_id = 1) const uint WIDE_X = 1;
layout(constant_id = 2) const uint Y_UNIT = 32;
layout(constant_id = 3) const uint OUTER = 0;
layout(constant_id = 4) const uint SUBGROUPS_B = 1;
layout(constant_id = 5) const uint TEXELS = 4;
layout(constant_id = 6) const uint PARTS = 2;

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_transpose_flat.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
layout(set = 0, binding = 1, std430) writeonly buffer y_block {
    u64vec4 y[];
};
layout(set = 0, binding = 1, std430) writeonly buffer y32_block {
    uint y32[];
};
layout(set = 0, binding = 1, std430) writeonly buffer y16_block {
    uint16_t y16[];
};
layout(set = 0, binding = 1, std430) writeonly buffer y8_block {
    uint8_t y8[];
};

const uint PER_WORD = 4 / SIZE, PER_TEXEL = 16 / SIZE, PER_PART = 32 / SIZE;
const uint BITS = 8 * SIZE, MASK = 0xffffffffu >> (32 - BITS);

/* 16 bytes: elements from `at` on, `stride` apart. */
uvec4 fetch(uint at, uint stride)
{
    if (WIDE_X != 0u)
        return texelFetch(x_view, int(at / PER_TEXEL));
    uvec4 words = uvec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        [[unroll]] for (uint k = 0; k < PER_WORD; k++) {
            const uint element = at + (i * PER_WORD + k) * stride;
            const uint word = texelFetch(x_view, int(element / PER_WORD)).x;
            words[i] |= (word >> element % PER_WORD * BITS & MASK) << k * BITS;
        }
    return words;
}

/* Elements of a lane's word, `stride` apart; `count` are inside. Lane by lane: there is no cheaper way. */
void store_elements(uint at, uint count, uint word)
{
    [[unroll]] for (uint k = 0; k < PER_WORD; k++) {
        const uint element = word >> k * BITS & MASK, to = k < count ? at + k * args.yb : NOWHERE * PER_PART;
        if (SIZE == 4)
            y32[to] = element;
        else if (SIZE == 2)
            y16[to] = uint16_t(element);
        else
            y8[to] = uint8_t(element);
    }
}

/* Where the group's part of the outer axes begins. */
void start(uint rest, out uint x, out uint y)
{
    x = args.base_x;
    y = args.base_y;
    [[unroll]] for (uint i = 0; i < OUTER; i++) {
        const uint at = i + 1 < OUTER ? rest % args.counts[i] : rest;
        if (i + 1 < OUTER)
            rest /= args.counts[i];
        x += at * args.outer_x[i];
        y += at * args.outer_y[i];
    }
}

/* Conditions that decide where a part is stored are max() and mix(): what a branch gives is not known. */
uint left(uint count, uint from)
{
    return max(count, from) - from;
}

/* Where the subgroup begins, with `tall` elements along a and `wide` along b for each; and in x and y. */
void locate(uint tall, uint wide, out uint a, out uint b, out uint x, out uint y_at)
{
    const uint subgroup = known(gl_LocalInvocationID.y, 3), row = subgroup / SUBGROUPS_B;
    const uint across = FLAT_SUBGROUPS / SUBGROUPS_B;
    b = ((known(gl_WorkGroupID.x, FLAT_DIGITS) + args.group_base[0]) * SUBGROUPS_B + subgroup % SUBGROUPS_B) * wide;
    a = ((known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1]) * across + row) * tall;
    start(OUTER != 0u ? known(gl_WorkGroupID.z, FLAT_DIGITS) + args.group_base[2] : 0u, x, y_at);
    x += a * args.xa + b * args.xb;
    y_at += a * args.ya + b * args.yb;
}

/* How many elements along b there are from `b` on in row `a`. */
uint inside(uint a, uint b)
{
    return mix(0u, left(args.count_b, b), a < args.count_a);
}

#ifdef HAL_KERNEL_transpose_flat
/* Element i of what PER_WORD texels along b have, as a word. */
uint turned(uvec4 texels[PER_WORD], uint i)
{
    uint word = 0;
    [[unroll]] for (uint k = 0; k < PER_WORD; k++)
        word |= (texels[k][i / PER_WORD] >> i % PER_WORD * BITS & MASK) << k * BITS;
    return word;
}

/* A lane's words of a row. */
void store_row(uint at, uint count, uint word)
{
    const uint first = gl_SubgroupInvocationID * PER_WORD;
    if (Y_UNIT == SIZE && SIZE < 4) {
        store_elements(at + first * args.yb, left(count, first), word);
        return;
    }
    if (Y_UNIT == 4) {
        [[unroll]] for (uint k = 0; k < FLAT_LANES; k++)
            y32[mix(NOWHERE * 8, at / PER_WORD + k * args.yb, k * PER_WORD < count)] = subgroupShuffle(word, k);
        return;
    }
    u64vec4 part;
    [[unroll]] for (uint k = 0; k < 4; k++)
        part[k] = packUint2x32(uvec2(subgroupShuffle(word, 2 * k), subgroupShuffle(word, 2 * k + 1)));
    y[mix(NOWHERE, at / PER_PART, count != 0u)] = part;
}

void main()
{
    uint a0, b0, x, y_at;
    locate(TEXELS * PER_TEXEL, PARTS * PER_PART, a0, b0, x, y_at);
    x += gl_SubgroupInvocationID * PER_WORD * args.xb;
    uvec4 texels[PARTS][TEXELS][PER_WORD];
    [[unroll]] for (uint p = 0; p < PARTS; p++)
        [[unroll]] for (uint k = 0; k < PER_WORD; k++)
            [[unroll]] for (uint t = 0; t < TEXELS; t++)
                texels[p][t][k] = fetch(x + t * PER_TEXEL * args.xa + (p * PER_PART + k) * args.xb, args.xa);
    [[unroll]] for (uint a = 0; a < TEXELS * PER_TEXEL; a++)
        [[unroll]] for (uint p = 0; p < PARTS; p++)
            store_row(y_at + a * args.ya + p * PER_PART * args.yb, inside(a0 + a, b0 + p * PER_PART),
                      turned(texels[p][a / PER_TEXEL], a % PER_TEXEL));
}
#endif

#ifdef HAL_KERNEL_transpose_copy_flat
/* Four parts: 16 bytes of each lane. */
void store_four(uint at, uint count, uvec4 words)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint first = gl_SubgroupInvocationID * PER_TEXEL + i * PER_WORD;
        if (Y_UNIT != 32) {
            store_elements(at + first * args.yb, left(count, first), words[i]);
        } else {
            const uvec4 even = subgroupShuffle(words, 2 * i), odd = subgroupShuffle(words, 2 * i + 1);
            y[mix(NOWHERE, at / PER_PART + i, i * PER_PART < count)] = u64vec4(
                packUint2x32(even.xy), packUint2x32(even.zw), packUint2x32(odd.xy), packUint2x32(odd.zw));
        }
    }
}

void main()
{
    uint a0, b0, x, y_at;
    locate(TEXELS, PARTS * PER_PART, a0, b0, x, y_at);
    x += gl_SubgroupInvocationID * PER_TEXEL * args.xb;
    [[unroll]] for (uint a = 0; a < TEXELS; a++)
        [[unroll]] for (uint p = 0; p < PARTS; p += 4)
            store_four(y_at + a * args.ya + p * PER_PART * args.yb, inside(a0 + a, b0 + p * PER_PART),
                       fetch(x + a * args.xa + p * PER_PART * args.xb, args.xb));
}
#endif
