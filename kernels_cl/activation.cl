/* activation.cl - y = act(a), a + b, a b, SiLU(a) b. Constants: DTYPE_A DTYPE_B DTYPE_Y OP STRICT, as flags say,
 * THREADS of a group (1 on CPU devices) and TILE, the columns that it takes. */
#include "rows.clh"

#define BINARY (OP >= ACTIVATION_ADD)
#define SPANS                                                                                                          \
    global const uchar *a_span, ulong a_offset, global const uchar *b_span, ulong b_offset, global uchar *y_span,      \
        ulong y_offset

/* Columns [first, first + 8 or fewer) of a row. */
void eight(global const uchar *a, ulong at_a, global const uchar *b, ulong at_b, bool b_is_one, global uchar *y,
           ulong at_y, uint count, float alpha, uint between)
{
    float8 v = flush_if8(STRICT, load_part8(a, DTYPE_A, at_a, count, 0.0f));
    if (BINARY) {
        float8 w = b_is_one ? (float8)(load_element(b, DTYPE_B, at_b)) : load_part8(b, DTYPE_B, at_b, count, 0.0f);
        w = flush_if8(STRICT, w);
        if (OP == ACTIVATION_SWIGLU)
            v = round_to8(between, hm_times_sigmoid8(v, alpha * v));
        v = OP == ACTIVATION_ADD ? flush_if8(STRICT, v + w) : STRICT ? hm_mul8(v, w) : v * w;
    } else {
        v = OP == ACTIVATION_SILU ? hm_times_sigmoid8(v, alpha * v) : hm_activate8(OP, v);
    }
    if (count == 8)
        stream_elements8(y, DTYPE_Y, at_y, v);
    else
        store_part8(y, DTYPE_Y, at_y, count, v);
}

/* `threads` work-items take eight neighbours each in turn. */
void tile(SPANS, const hal_activation_args *args, uint row, uint column0, uint thread, uint threads)
{
    const ulong a_row = row * JOIN(args->lda), b_row = (row % args->b_rows) * JOIN(args->ldb);
    const ulong y_row = row * JOIN(args->ldy);
    const bool b_is_one = args->b_columns == 1;
    const uint end = min(column0 + TILE, args->columns), between = ROW_DTYPE(args->flags, 3);
    for (uint c = column0 + 8 * thread; c < end; c += 8 * threads)
        eight(a_span + a_offset, a_row + c, b_span + b_offset, b_row + (b_is_one ? 0 : c), b_is_one, y_span + y_offset,
              y_row + c, min(end - c, 8u), args->alpha, between);
}

#ifdef HAL_KERNEL_activation
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void activation(SPANS, hal_activation_args args)
{
    tile(a_span, a_offset, b_span, b_offset, y_span, y_offset, &args, get_group_id(1) + args.group_base[1],
         (get_group_id(0) + args.group_base[0]) * TILE, get_local_id(0), THREADS);
}
#endif
