/* quantize.cl - conversion of rows: y = x in another dtype, E4M3(x / scale) or x scale; quantize_row takes the scale
 * from each row's largest magnitude. Constants: DTYPE_X DTYPE_Y OP SCALING STRICT, as flags say, THREADS of a
 * group (1 on CPU devices) and TILE, the columns that it takes. */
#include "kernel_convert.h"
#include "quantize.clh"

#define SPANS                                                                                                          \
    global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset, global uchar *s_span,            \
        ulong s_offset

/* LANES columns of a row, or fewer at its end. */
__attribute__((always_inline)) void some(global const uchar *x, ulong at_x, global uchar *y, ulong at_y, uint count,
                                         const quantizer *by)
{
    floats v = WIDE(flush_if)(STRICT, WIDE(load_part)(x, DTYPE_X, at_x, count, 0.0f));
    if (OP == QUANTIZE_CODES) {
        store_codes(y, at_y, count, WIDE(quantize)(by, v));
        return;
    }
    if (OP == QUANTIZE_CAST_NAN) {
        store_codes(y, at_y, count, WIDE(hm_e4m3_from_f32)(v, 0x7fu));
        return;
    }
    if (OP == QUANTIZE_VALUES)
        v = STRICT ? WIDE(hm_mul)(v, by->scale) : v * by->scale;
    WIDE(stream_part)(y, DTYPE_Y, at_y, count, v);
}

/* Columns [0, count): work-items take LANES neighbours each in turn; a task that only casts takes 32 while it can. */
__attribute__((always_inline)) void run(global const uchar *x, ulong at_x, global uchar *y, ulong at_y, uint count,
                                        float scale)
{
    const quantizer by = quantizer_of(scale);
    uint done = 0;
#if THREADS == 1 && OP < QUANTIZE_CODES
    for (; done + 32 <= count; done += 32) {
#pragma unroll
        for (uint j = 0; j < 32; j += LANES)
            some(x, at_x + done + j, y, at_y + done + j, LANES, &by);
    }
#endif
    uint c = done + LANES * get_local_id(0);
    for (; c + LANES <= count; c += LANES * THREADS)
        some(x, at_x + c, y, at_y + c, LANES, &by);
    if (c < count)
        some(x, at_x + c, y, at_y + c, count - c, &by);
}

#ifdef HAL_KERNEL_quantize
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void quantize(SPANS, hal_quantize_args args)
{
    global const uchar *x = x_span + x_offset, *scales = s_span + s_offset;
    const uint row = get_group_id(1) + args.group_base[1];
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE, end = min(column0 + TILE, args.columns);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
#if OP >= QUANTIZE_CODES && SCALING == QUANTIZE_PER_COLUMN
    for (uint c = column0 + LANES * get_local_id(0); c < end; c += LANES * THREADS) {
        const uint count = min(end - c, (uint)LANES);
        const quantizer by = quantizer_of(WIDE(load_part)(scales, ROW_DTYPE(args.flags, 2), c, count, 1.0f));
        some(x, x_row + c, y_span + y_offset, y_row + c, count, &by);
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
    const uint row = get_group_id(1) + args.group_base[1], first = LANES * get_local_id(0);
    const ulong x_row = row * JOIN(args.ldx), y_row = row * JOIN(args.ldy);
    uints most = 0;
    uint c = first;
    for (; c + LANES <= args.columns; c += LANES * THREADS)
        most = max(most, WIDE(magnitude)(WIDE(flush_if)(STRICT, WIDE(load_elements)(x, DTYPE_X, x_row + c))));
    if (c < args.columns)
        most = max(most, WIDE(magnitude)(
                             WIDE(flush_if)(STRICT, WIDE(load_part)(x, DTYPE_X, x_row + c, args.columns - c, 0.0f))));
    const float scale = hm_row_scale(as_float(greatest(greatest_lane(most), partial)));
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    run(x, x_row, y_span + y_offset, y_row, args.columns, scale);
}
#endif
