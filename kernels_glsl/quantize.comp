/* quantize.comp - conversion of rows: y = x in another dtype, E4M3(x / scale) or x scale; quantize_row takes the scale
 * from each row's largest magnitude. Constants: DTYPE_X DTYPE_Y OP SCALING STRICT, as flags say, THREADS of a
 * group and TILE, the columns that it takes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "kernel_convert.h"
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_Y = 1;
layout(constant_id = 2) const uint OP = 0;
layout(constant_id = 3) const uint SCALING = 3;
layout(constant_id = 4) const uint STRICT = 0;
layout(constant_id = 5) const uint THREADS = 256;
layout(constant_id = 6) const uint TILE = 1024;
#include "quantize.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[3]; /* x, y, scales */
#include "kernel_args_quantize.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

void one(uint64_t x, uint64_t at_x, uint64_t y, uint64_t at_y, float scale)
{
    const float v = flush_if(STRICT != 0u, load_element(x, DTYPE_X, at_x));
    if (OP == QUANTIZE_CODES)
        ref_u8(y + at_y).value = uint8_t(code_of(v, scale));
    else if (OP == QUANTIZE_CAST_NAN)
        ref_u8(y + at_y).value = uint8_t(hm_e4m3_from_f32(v, 0x7fu));
    else
        store_element(y, DTYPE_Y, at_y, number(v, scale));
}

/* Up to four neighbours; `wide`: both addresses allow four at once. */
void four(uint64_t x, uint64_t at_x, uint64_t y, uint64_t at_y, uint count, bool wide, vec4 scale)
{
    if (!wide || count < 4) {
        for (uint i = 0; i < min(count, 4u); i++)
            one(x, at_x + i, y, at_y + i, scale[i]);
        return;
    }
    vec4 v = load_four(x, DTYPE_X, at_x);
    uvec4 codes;
    for (uint i = 0; i < 4; i++) {
        v[i] = flush_if(STRICT != 0u, v[i]);
        if (OP == QUANTIZE_CODES)
            codes[i] = code_of(v[i], scale[i]);
        else if (OP == QUANTIZE_CAST_NAN)
            codes[i] = hm_e4m3_from_f32(v[i], 0x7fu);
        else
            v[i] = number(v[i], scale[i]);
    }
    if (OP == QUANTIZE_CODES || OP == QUANTIZE_CAST_NAN)
        store_four_codes(y + at_y, codes);
    else
        store_four(y, DTYPE_Y, at_y, v);
}

#ifdef HAL_KERNEL_quantize
void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1];
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const uint64_t x = args.span[0], y = args.span[1], scales = args.span[2];
    const uint64_t x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    const bool wide = rows_wide(x, DTYPE_X, JOIN(args.ldx)) && rows_wide(y, DTYPE_Y, JOIN(args.ldy));
    vec4 scale = vec4(1.0);
    if (OP >= QUANTIZE_CODES && SCALING != QUANTIZE_PER_COLUMN)
        scale = vec4(load_element(scales, ROW_DTYPE(args.flags, 2), SCALING == QUANTIZE_PER_ROW ? row : 0u));
    for (uint c = column0 + 4 * gl_LocalInvocationID.x; c < end; c += 4 * THREADS) {
        if (OP >= QUANTIZE_CODES && SCALING == QUANTIZE_PER_COLUMN)
            for (uint i = 0; i < min(end - c, 4u); i++)
                scale[i] = load_element(scales, ROW_DTYPE(args.flags, 2), c + i);
        four(x, x_row + c, y, y_row + c, end - c, wide, scale);
    }
}
#endif

#ifdef HAL_KERNEL_quantize_row
#include "greatest.glsl"

void main()
{
    const uint row = gl_WorkGroupID.y + args.group_base[1], first = gl_LocalInvocationID.x, columns = args.columns;
    const uint64_t x = args.span[0], y = args.span[1];
    const uint64_t x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    const bool wide_x = rows_wide(x, DTYPE_X, JOIN(args.ldx));
    const bool wide = wide_x && rows_wide(y, HAL_KERNEL_F8E4M3, JOIN(args.ldy));
    uint most = 0;
    for (uint c = 4 * first; c < columns; c += 4 * THREADS) {
        vec4 v = vec4(0.0);
        if (wide_x && columns - c >= 4)
            v = load_four(x, DTYPE_X, x_row + c);
        else
            for (uint i = 0; i < min(columns - c, 4u); i++)
                v[i] = load_element(x, DTYPE_X, x_row + c + i);
        for (uint i = 0; i < 4; i++)
            most = max(most, magnitude(flush_if(STRICT != 0u, v[i])));
    }
    const float scale = hm_row_scale(uintBitsToFloat(greatest(most)));
    if (first == 0)
        ref_f32(args.span[2] + uint64_t(row) * 4).value = scale;
    for (uint c = 4 * first; c < columns; c += 4 * THREADS)
        four(x, x_row + c, y, y_row + c, columns - c, wide, vec4(scale));
}
#endif
