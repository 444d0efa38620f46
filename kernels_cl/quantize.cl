/* quantize.cl - conversion of rows: y = x in another dtype, E4M3(x / scale) or x scale; quantize_row takes the scale
 * from each row's largest magnitude. Constants: DTYPE_X DTYPE_Y DTYPE_S OP SCALING STRICT, as flags say, THREADS of a
 * group (1 on CPU devices) and TILE, the columns that it takes. */
#include "kernel_convert.h"
#include "rows.clh"

#define SPANS                                                                                                          \
    global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset, global uchar *s_span,            \
        ulong s_offset

/* A scale that is not a positive finite number spoils what it scales. */
uint8 codes_of(float8 x, float8 scale)
{
    return as_uint8(scale) - 1u < 0x7f7fffffu ? hm_quantize8(x, scale) : (uint8)(0x7fu);
}

void store_codes(global uchar *y, ulong i, uint count, uint8 codes)
{
    uchar8 bytes = convert_uchar8(codes);
    if (count == 8) {
        vstore8(bytes, 0, y + i);
        return;
    }
    uchar v[8];
    vstore8(bytes, 0, v);
    for (uint j = 0; j < count; j++)
        y[i + j] = v[j];
}

/* Columns [first, first + 8 or fewer) of a row. */
void eight(global const uchar *x, ulong at_x, global uchar *y, ulong at_y, uint count, float8 scale)
{
    float8 v = flush_if8(STRICT, load_part8(x, DTYPE_X, at_x, count, 0.0f));
    if (OP == QUANTIZE_CODES) {
        store_codes(y, at_y, count, codes_of(v, scale));
        return;
    }
    if (OP == QUANTIZE_CAST_NAN) {
        store_codes(y, at_y, count, hm_e4m3_from_f328(v, 0x7fu));
        return;
    }
    if (OP == QUANTIZE_VALUES)
        v = STRICT ? hm_mul8(v, scale) : v * scale;
    if (count == 8)
        stream_elements8(y, DTYPE_Y, at_y, v);
    else
        store_part8(y, DTYPE_Y, at_y, count, v);
}

#ifdef HAL_KERNEL_quantize
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void quantize(SPANS, hal_quantize_args args)
{
    global const uchar *x = x_span + x_offset, *scales = s_span + s_offset;
    const uint row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    float8 scale = 1.0f;
    if (OP >= QUANTIZE_CODES && SCALING != QUANTIZE_PER_COLUMN)
        scale = load_element(scales, DTYPE_S, SCALING == QUANTIZE_PER_ROW ? row : 0);
    for (uint c = column0 + 8 * get_local_id(0); c < end; c += 8 * THREADS) {
        const uint count = min(end - c, 8u);
        if (OP >= QUANTIZE_CODES && SCALING == QUANTIZE_PER_COLUMN)
            scale = load_part8(scales, DTYPE_S, c, count, 1.0f);
        eight(x, x_row + c, y_span + y_offset, y_row + c, count, scale);
    }
}
#endif

#ifdef HAL_KERNEL_quantize_row
/* Magnitudes as integers: they compare as the numbers do, and NaN does not count. */
uint8 magnitudes(float8 x)
{
    uint8 bits = as_uint8(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? (uint8)(0) : bits;
}

/* The greatest `mine` of a group. */
uint greatest(uint mine, local uint *partial)
{
    const uint thread = get_local_id(0);
    partial[thread] = mine;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (thread < stride)
            partial[thread] = max(partial[thread], partial[thread + stride]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return partial[0];
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void quantize_row(SPANS, hal_quantize_args args)
{
    local uint partial[THREADS];
    global const uchar *x = x_span + x_offset;
    const uint row = get_group_id(1) + args.group_base[1], first = 8 * get_local_id(0);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    uint8 most = 0;
    for (uint c = first; c < args.columns; c += 8 * THREADS)
        most = max(most,
                   magnitudes(flush_if8(STRICT, load_part8(x, DTYPE_X, x_row + c, min(args.columns - c, 8u), 0.0f))));
    const uint4 four = max(most.lo, most.hi);
    const uint2 two = max(four.lo, four.hi);
    const float scale = hm_row_scale(as_float(greatest(max(two.x, two.y), partial)));
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    for (uint c = first; c < args.columns; c += 8 * THREADS)
        eight(x, x_row + c, y_span + y_offset, y_row + c, min(args.columns - c, 8u), scale);
}
#endif
