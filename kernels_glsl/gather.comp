/* gather.comp - row ids[i] of a table becomes row i of y. Constants: DTYPE_T DTYPE_Y INT64, as flags say, THREADS of a
 * group and TILE, the columns that it takes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_T = 1;
layout(constant_id = 1) const uint DTYPE_Y = 1;
layout(constant_id = 2) const uint INT64 = 0;
layout(constant_id = 3) const uint THREADS = 256;
layout(constant_id = 4) const uint TILE = 1024;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[3]; /* table, ids, y */
#include "kernel_args_gather.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

uint id_word(uint64_t i)
{
    return floatBitsToUint(ref_f32(args.span[1] + i * 4).value);
}

/* Negative ids are beyond any table. */
uint64_t id_of(uint i)
{
    return INT64 != 0u ? uint64_t(id_word(uint64_t(i) * 2)) | uint64_t(id_word(uint64_t(i) * 2 + 1)) << 32
                       : uint64_t(int64_t(int(id_word(i))));
}

void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1];
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const uint64_t id = id_of(row);
    const bool known = id < args.table_rows;
    const uint64_t t_row = (known ? id : 0) * JOIN(args.ldt), y_row = row * JOIN(args.ldy);
    for (uint c = column0 + gl_LocalInvocationID.x; c < end; c += THREADS) {
        float v = 0.0;
        if (known)
            v = load_element(args.span[0], DTYPE_T, t_row + c);
        store_element(args.span[2], DTYPE_Y, y_row + c, v);
    }
}
