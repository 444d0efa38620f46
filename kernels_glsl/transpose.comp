/* transpose.comp - elements of WIDTH bytes from one set of strides to another, see kernel_args_transpose.inc.
 * Constants: WIDTH, THREADS of a group, TILE: the side of a tile, or the elements of one in transpose_copy, where it is
 * 2^LOG_B wide. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint WIDTH = 4;
layout(constant_id = 1) const uint THREADS = 256;
layout(constant_id = 2) const uint TILE = 32;
layout(constant_id = 3) const uint LOG_B = 0;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[2]; /* x, y */
#include "kernel_args_transpose.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

/* Where the group's part of the outer axes begins. */
void start(uint rest, out uint64_t x, out uint64_t y)
{
    x = y = 0;
    for (uint i = 0; i < args.outer; i++) {
        const uint at = rest % args.counts[i];
        rest /= args.counts[i];
        x += at * (uint64_t(args.outer_x[2 * i]) | uint64_t(args.outer_x[2 * i + 1]) << 32);
        y += at * (uint64_t(args.outer_y[2 * i]) | uint64_t(args.outer_y[2 * i + 1]) << 32);
    }
}

#ifdef HAL_KERNEL_transpose
shared uint tile[TILE * (TILE + 1)]; /* a column's elements lie in different banks */

uint load(uint64_t address)
{
    return WIDTH == 4   ? ref_u32(address).value
           : WIDTH == 2 ? uint(ref_u16(address).value)
                        : uint(ref_u8(address).value);
}

void store(uint64_t address, uint element)
{
    if (WIDTH == 4)
        ref_u32(address).value = element;
    else if (WIDTH == 2)
        ref_u16(address).value = uint16_t(element);
    else
        ref_u8(address).value = uint8_t(element);
}

void main()
{
    const uint b0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE, a0 = (gl_WorkGroupID.y + args.group_base[1]) * TILE;
    const uint width_a = min(args.count_a - a0, TILE), width_b = min(args.count_b - b0, TILE);
    const uint64_t xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    uint64_t x, y;
    start(gl_WorkGroupID.z + args.group_base[2], x, y);
    x = args.span[0] + (x + a0 * xa + b0 * xb) * WIDTH;
    y = args.span[1] + (y + a0 * ya + b0 * yb) * WIDTH;
    for (uint e = gl_LocalInvocationID.x; e < TILE * TILE; e += THREADS) {
        const uint b = e / TILE, a = e % TILE;
        if (a < width_a && b < width_b)
            tile[b * (TILE + 1) + a] = load(x + (a * xa + b * xb) * WIDTH);
    }
    barrier();
    for (uint e = gl_LocalInvocationID.x; e < TILE * TILE; e += THREADS) {
        const uint a = e / TILE, b = e % TILE;
        if (a < width_a && b < width_b)
            store(y + (a * ya + b * yb) * WIDTH, tile[b * (TILE + 1) + a]);
    }
}
#endif

#ifdef HAL_KERNEL_transpose_copy
void move(uint64_t to, uint64_t from)
{
    if (WIDTH == 16)
        ref_u32x4(to).value = ref_u32x4(from).value;
    else if (WIDTH == 8)
        ref_u32x2(to).value = ref_u32x2(from).value;
    else if (WIDTH == 4)
        ref_u32(to).value = ref_u32(from).value;
    else if (WIDTH == 2)
        ref_u16(to).value = ref_u16(from).value;
    else
        ref_u8(to).value = ref_u8(from).value;
}

void main()
{
    const uint a0 = (gl_WorkGroupID.y + args.group_base[1]) * (TILE >> LOG_B);
    const uint b0 = (gl_WorkGroupID.x + args.group_base[0]) << LOG_B;
    const uint64_t xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    uint64_t x, y;
    start(gl_WorkGroupID.z + args.group_base[2], x, y);
    for (uint e = gl_LocalInvocationID.x; e < TILE; e += THREADS) {
        const uint a = a0 + (e >> LOG_B), b = b0 + (e & ((1u << LOG_B) - 1u));
        if (a < args.count_a && b < args.count_b)
            move(args.span[1] + (y + a * ya + b * yb) * WIDTH, args.span[0] + (x + a * xa + b * xb) * WIDTH);
    }
}
#endif
