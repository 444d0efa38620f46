/* activation.comp - y = act(a), a + b, a b, SiLU(a) b. Constants: DTYPE_A DTYPE_B DTYPE_Y OP STRICT, as flags say, THREADS
 * of a group and TILE, the columns that it takes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_A = 1;
layout(constant_id = 1) const uint DTYPE_B = 1;
layout(constant_id = 2) const uint DTYPE_Y = 1;
layout(constant_id = 3) const uint OP = 0;
layout(constant_id = 4) const uint STRICT = 0;
layout(constant_id = 5) const uint THREADS = 256;
layout(constant_id = 6) const uint TILE = 1024;
#include "activation.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[3]; /* a, b, y */
#include "kernel_args_activation.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1];
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE;
    const uint end = min(column0 + TILE, args.columns), between = ROW_DTYPE(args.flags, 3);
    const uint64_t a = args.span[0], b = args.span[1], y = args.span[2];
    const uint64_t a_row = row * JOIN(args.lda), b_row = (row % args.b_rows) * JOIN(args.ldb);
    const uint64_t y_row = row * JOIN(args.ldy);
    const bool b_is_one = args.b_columns == 1;
    const float alpha = args.alpha;
    for (uint c = column0 + gl_LocalInvocationID.x; c < end; c += THREADS) {
        float v = flush_if(STRICT != 0u, load_element(a, DTYPE_A, a_row + c)), w = 0.0;
        if (OP >= ACTIVATION_ADD)
            w = flush_if(STRICT != 0u, load_element(b, DTYPE_B, b_row + (b_is_one ? 0u : c)));
        store_element(y, DTYPE_Y, y_row + c, combine(v, w, alpha, between));
    }
}
