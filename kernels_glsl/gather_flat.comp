/* gather_flat.comp - gather.comp for CPU devices, see flat.glsl: a subgroup takes RUNS runs of a row. Constants: DTYPE_T
 * DTYPE_Y INT64, as flags say, REST, as in kernel_flat.h, RUNS. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_T = 1;
layout(constant_id = 1) const uint DTYPE_Y = 1;
layout(constant_id = 2) const uint INT64 = 0;
layout(constant_id = 3) const uint REST = 0;
layout(constant_id = 4) const uint RUNS = 8;

layout(push_constant) uniform push_block {
    uint digits[8];
#include "kernel_args_gather.inc"
} args;
#include "flat.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer table_view;
layout(set = 0, binding = 1) uniform usamplerBuffer ids_view; /* of words */
#define Y_BINDING 2
#include "flat_output.glsl"

/* Negative ids are beyond any table. */
bool id_of(uint row, out uint id)
{
    const uint at = args.base_ids + (INT64 != 0u ? 2 * row : row);
    const uint high = INT64 != 0u ? texelFetch(ids_view, int(at + 1)).x : 0u;
    id = texelFetch(ids_view, int(at)).x;
    return high == 0u && id < args.table_rows;
}

/* Of row t_row of the table, if it is there. */
vec4 values(uint t_row, bool there, uint column)
{
    return mix(vec4(0.0), fetch_texel(table_view, DTYPE_T, args.base_table + (t_row + column) / 4), bvec4(there));
}

void main()
{
    const uint lane = gl_SubgroupInvocationID, columns = args.columns;
    const uint run0 = ((known(gl_WorkGroupID.x, 7) + args.group_base[0]) * FLAT_SUBGROUPS +
                       known(gl_LocalInvocationID.y, 1)) * RUNS;
    const uint row = known(gl_WorkGroupID.y, FLAT_DIGITS) + args.group_base[1], y_row = row * args.ldy[0];
    uint id;
    const bool there = id_of(row, id);
    const uint t_row = mix(0u, id * args.ldt[0], there);
    [[unroll]] for (uint i = 0; i < RUNS; i++)
        store_run(y_row, run0 + i, columns, values(t_row, there, (run0 + i) * FLAT_RUN + 4 * lane));
    if (REST != FLAT_PART)
        return;
    const uint end = min(columns, (run0 + RUNS) * FLAT_RUN);
    for (uint column = max(columns & ~(FLAT_RUN - 1), run0 * FLAT_RUN) + lane; column < end; column += FLAT_LANES)
        store_one(y_row + column, values(t_row, there, column & ~3u)[column % 4]);
}
