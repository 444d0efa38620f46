/* activation.cl - y = act(a), a + b, a b, SiLU(a) b. Constants: DTYPE_A DTYPE_B DTYPE_Y OP STRICT, as flags say,
 * THREADS of a group (1 on CPU devices) and TILE, the columns that it takes. */
#include "activation.clh"

#define SPANS                                                                                                          \
    global const uchar *a_span, ulong a_offset, global const uchar *b_span, ulong b_offset, global uchar *y_span,      \
        ulong y_offset

#ifdef HAL_KERNEL_activation
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void activation(SPANS, hal_activation_args args)
{
    const uint row = get_group_id(1) + args.group_base[1], column0 = (get_group_id(0) + args.group_base[0]) * TILE;
    const uint end = min(column0 + TILE, args.columns), whole = end & ~(LANES - 1u);
    const row_operands in = ROW_OPERANDS(row);
    global uchar *y = y_span + y_offset;
    const ulong y_at = row * JOIN(args.ldy);
    uint c = column0 + LANES * get_local_id(0);
    for (; c < whole; c += LANES * THREADS)
        WIDE(stream_part)(y, DTYPE_Y, y_at + c, LANES, results(&in, c, LANES));
    if (c < end)
        WIDE(stream_part)(y, DTYPE_Y, y_at + c, end - c, results(&in, c, end - c));
}
#endif
