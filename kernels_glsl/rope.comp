/* rope.comp - rotary position embedding. Constants: DTYPE INTERLEAVED HAS_IDS STRICT, as flags say, and THREADS of a
 * group. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint INTERLEAVED = 0;
layout(constant_id = 2) const uint HAS_IDS = 0;
layout(constant_id = 3) const uint STRICT = 0;
layout(constant_id = 4) const uint THREADS = 256;
#include "rope.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[5]; /* x, y, cos, sin, position ids */
#include "kernel_args_rope.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

/* The row of the tables for this token. */
uint64_t position_of(uint token)
{
    if (HAS_IDS != 0u)
        return uint64_t(int64_t(int(floatBitsToUint(ref_f32(args.span[4] + uint64_t(token) * 4).value))));
    return JOIN(args.first) + token;
}

void main()
{
    const uint token = gl_WorkGroupID.y + args.group_base[1];
    const uint head0 = (gl_WorkGroupID.x + args.group_base[0]) * args.heads_a_group;
    const uint heads = min(args.heads - head0, args.heads_a_group), pairs = args.rotary_dim / 2;
    const uint steps = args.head_dim - pairs;
    const uint64_t x = args.span[0], y = args.span[1];
    const uint64_t position = position_of(token);
    const bool known = position < JOIN(args.positions);
    for (uint step = gl_LocalInvocationID.x; step < heads * steps; step += THREADS) {
        const uint head = head0 + step / steps, i = step % steps;
        const uint64_t x_at = token * JOIN(args.x_token) + head * JOIN(args.x_head);
        const uint64_t y_at = token * JOIN(args.y_token) + head * JOIN(args.y_head);
        if (i >= pairs) {
            store_element(y, DTYPE, y_at + pairs + i, load_element(x, DTYPE, x_at + pairs + i));
            continue;
        }
        float c = uintBitsToFloat(0x7fc00000u), s = c;
        if (known) {
            c = load_element(args.span[2], HAL_KERNEL_F32, position * pairs + i);
            s = load_element(args.span[3], HAL_KERNEL_F32, position * pairs + i);
        }
        const uint first = INTERLEAVED != 0u ? 2 * i : i, second = INTERLEAVED != 0u ? 2 * i + 1 : i + pairs;
        const float a = flush_if(strict, load_element(x, DTYPE, x_at + first));
        const float b = flush_if(strict, load_element(x, DTYPE, x_at + second));
        store_element(y, DTYPE, y_at + first, turn(a, c, b, -s));
        store_element(y, DTYPE, y_at + second, turn(b, c, a, s));
    }
}
