/* activation.cl - y = act(a), a + b, a b, SiLU(a) b. Constants: DTYPE_A DTYPE_B DTYPE_Y OP STRICT, as flags say,
 * THREADS of a group (1 on CPU devices) and TILE, the columns that it takes. */
#include "activation.clh"

#define SPANS                                                                                                          \
    global const uchar *a_span, ulong a_offset, global const uchar *b_span, ulong b_offset, global uchar *y_span,      \
        ulong y_offset

typedef struct row_in {
    global const uchar *a, *b;
    global uchar *y;
    ulong a_at, b_at, y_at; /* element index of the row */
    bool b_is_one;
    float alpha;
    uint between;
} row_in;

/* `count` columns from c on, LANES but at the row's end. */
__attribute__((always_inline)) void some(const row_in *in, uint c, uint count)
{
    const floats v = WIDE(flush_if)(STRICT, WIDE(load_part)(in->a, DTYPE_A, in->a_at + c, count, 0.0f));
    floats w = 0.0f;
    if (BINARY) {
        w = in->b_is_one ? (floats)(load_element(in->b, DTYPE_B, in->b_at))
                         : WIDE(load_part)(in->b, DTYPE_B, in->b_at + c, count, 0.0f);
        w = WIDE(flush_if)(STRICT, w);
    }
    const floats y = result(v, w, in->alpha, in->between);
    WIDE(stream_part)(in->y, DTYPE_Y, in->y_at + c, count, y);
}

#ifdef HAL_KERNEL_activation
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void activation(SPANS, hal_activation_args args)
{
    const uint row = get_group_id(1) + args.group_base[1], column0 = (get_group_id(0) + args.group_base[0]) * TILE;
    const uint end = min(column0 + TILE, args.columns), whole = end & ~(LANES - 1u);
    const row_in in = {a_span + a_offset,
                       b_span + b_offset,
                       y_span + y_offset,
                       row * JOIN(args.lda),
                       (row % args.b_rows) * JOIN(args.ldb),
                       row * JOIN(args.ldy),
                       args.b_columns == 1,
                       args.alpha,
                       ROW_DTYPE(args.flags, 3)};
    uint c = column0 + LANES * get_local_id(0);
    for (; c < whole; c += LANES * THREADS)
        some(&in, c, LANES);
    if (c < end)
        some(&in, c, end - c);
}
#endif
