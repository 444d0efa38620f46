/* quantize.cl - conversion of rows: y = x in another dtype, E4M3(x / scale) or x scale; quantize_row takes the scale
 * from each row's largest magnitude. Constants: DTYPE_X DTYPE_Y OP SCALING STRICT, as flags say, THREADS of a
 * group (1 on CPU devices) and TILE, the columns that it takes. */
#include "kernel_convert.h"
#include "quantize.clh"

#define SPANS                                                                                                          \
    global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset, global uchar *s_span,            \
        ulong s_offset

/* Columns [first, first + 8 or fewer) of a row. */
__attribute__((always_inline)) void eight(global const uchar *x, ulong at_x, global uchar *y, ulong at_y, uint count,
                                          const quantizer *by)
{
    float8 v = flush_if8(STRICT, load_part8(x, DTYPE_X, at_x, count, 0.0f));
    if (OP == QUANTIZE_CODES) {
        store_codes(y, at_y, count, codes_of(v, by));
        return;
    }
    if (OP == QUANTIZE_CAST_NAN) {
        store_codes(y, at_y, count, hm_e4m3_from_f328(v, 0x7fu));
        return;
    }
    if (OP == QUANTIZE_VALUES)
        v = STRICT ? hm_mul8(v, by->scale) : v * by->scale;
    if (count == 8)
        stream_elements8(y, DTYPE_Y, at_y, v);
    else
        store_part8(y, DTYPE_Y, at_y, count, v);
}

/* Columns [0, count): work-items take eight neighbours each in turn; a task that only casts takes four times eight
 * while it can. */
__attribute__((always_inline)) void run(global const uchar *x, ulong at_x, global uchar *y, ulong at_y, uint count,
                                        float scale)
{
    const quantizer by = quantizer_of(scale);
    uint done = 0;
#if THREADS == 1 && OP < QUANTIZE_CODES
    for (; done + 32 <= count; done += 32) {
#pragma unroll
        for (uint j = 0; j < 32; j += 8)
            eight(x, at_x + done + j, y, at_y + done + j, 8, &by);
    }
#endif
    uint c = done + 8 * get_local_id(0);
    for (; c + 8 <= count; c += 8 * THREADS)
        eight(x, at_x + c, y, at_y + c, 8, &by);
    if (c < count)
        eight(x, at_x + c, y, at_y + c, count - c, &by);
}

#ifdef HAL_KERNEL_quantize
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void quantize(SPANS, hal_quantize_args args)
{
    global const uchar *x = x_span + x_offset, *scales = s_span + s_offset;
    const uint row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
#if OP >= QUANTIZE_CODES && SCALING == QUANTIZE_PER_COLUMN
    for (uint c = column0 + 8 * get_local_id(0); c < end; c += 8 * THREADS) {
        const uint count = min(end - c, 8u);
        const quantizer by = quantizer_of(load_part8(scales, ROW_DTYPE(args.flags, 2), c, count, 1.0f));
        eight(x, x_row + c, y_span + y_offset, y_row + c, count, &by);
    }
#else
    const float scale = OP < QUANTIZE_CODES
                            ? 1.0f
                            : load_element(scales, ROW_DTYPE(args.flags, 2), SCALING == QUANTIZE_PER_ROW ? row : 0);
    run(x, x_row + column0, y_span + y_offset, y_row + column0, end - column0, scale);
#endif
}
#endif

#ifdef HAL_KERNEL_quantize_row
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void quantize_row(SPANS, hal_quantize_args args)
{
    local uint partial[THREADS];
    global const uchar *x = x_span + x_offset;
    const uint row = get_group_id(1) + args.group_base[1], first = 8 * get_local_id(0);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    uint8 most = 0;
    uint c = first;
    for (; c + 8 <= args.columns; c += 8 * THREADS)
        most = max(most, magnitude8(flush_if8(STRICT, load_elements8(x, DTYPE_X, x_row + c))));
    if (c < args.columns)
        most = max(most, magnitude8(flush_if8(STRICT, load_part8(x, DTYPE_X, x_row + c, args.columns - c, 0.0f))));
    const uint4 four = max(most.lo, most.hi);
    const uint2 two = max(four.lo, four.hi);
    const float scale = hm_row_scale(as_float(greatest(max(two.x, two.y), partial)));
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    run(x, x_row, y_span + y_offset, y_row, args.columns, scale);
}
#endif
