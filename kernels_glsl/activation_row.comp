/* activation_row.comp - act(a), a + b, a b or SiLU(a) b, rounded as a store would, as E4M3 codes with a scale a row: what
 * activation and quantize_row give one after the other. A group takes a row; it keeps the first KEPT results, so that
 * they are not computed again for the codes. Constants: DTYPE_A DTYPE_B OP STRICT, as flags say, THREADS of a group,
 * KEPT. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_A = 1;
layout(constant_id = 1) const uint DTYPE_B = 1;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint STRICT = 0;
layout(constant_id = 4) const uint THREADS = 256;
layout(constant_id = 5) const uint KEPT = 1024;
#include "activation.glsl"
#include "codes.glsl"
#include "greatest.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[4]; /* a, b, y, scales */
#include "kernel_args_activation.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

shared float kept[KEPT];

float one(uint row, uint column)
{
    const uint between = ROW_DTYPE(args.flags, 3);
    const float a = flush_if(STRICT != 0u, load_element(args.span[0], DTYPE_A, row * JOIN(args.lda) + column));
    float b = 0.0;
    if (OP >= ACTIVATION_ADD)
        b = flush_if(STRICT != 0u, load_element(args.span[1], DTYPE_B, (row % args.b_rows) * JOIN(args.ldb) +
                                                                           (args.b_columns == 1 ? 0u : column)));
    return flush_if(STRICT != 0u, round_to(between, combine(a, b, args.alpha, between)));
}

void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1], first = gl_LocalInvocationID.x, columns = args.columns;
    const uint64_t y = args.span[2] + row * JOIN(args.ldy);
    uint most = 0;
    for (uint c = first; c < columns; c += THREADS) {
        const float v = one(row, c);
        most = max(most, magnitude(v));
        if (c < KEPT)
            kept[c] = v;
    }
    const float scale = hm_row_scale(uintBitsToFloat(greatest(most)));
    if (first == 0)
        ref_f32(args.span[3] + uint64_t(row) * 4).value = scale;
    for (uint c = first; c < columns; c += THREADS)
        ref_u8(y + c).value = uint8_t(code_of(c < KEPT ? kept[c] : one(row, c), scale));
}
