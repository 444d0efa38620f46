/* activation_row.cl - act(a), a + b, a b or SiLU(a) b, rounded as a store would, as E4M3 codes with a scale a row: what
 * activation and quantize_row give one after the other. A group takes a row; it keeps the first KEPT results, so that
 * they are not computed again for the codes. Constants: DTYPE_A DTYPE_B OP STRICT, as flags say, THREADS of a group
 * (1 on CPU devices), KEPT, a multiple of LANES. */
#include "activation.clh"
#include "quantize.clh"

typedef struct row_in {
    global const uchar *a, *b;
    ulong a_at, b_at; /* element index of the row */
    bool b_is_one;
    float alpha;
    uint between, columns;
} row_in;

/* LANES columns from c on; zeros beyond the row. */
__attribute__((always_inline)) floats some(const row_in *in, uint c)
{
    const uint count = min(in->columns - c, (uint)LANES);
    const floats v = WIDE(flush_if)(STRICT, WIDE(load_part)(in->a, DTYPE_A, in->a_at + c, count, 0.0f));
    floats w = 0.0f;
    if (BINARY) {
        w = in->b_is_one ? (floats)(load_element(in->b, DTYPE_B, in->b_at))
                         : WIDE(load_part)(in->b, DTYPE_B, in->b_at + c, count, 0.0f);
        w = WIDE(flush_if)(STRICT, w);
    }
    return WIDE(flush_if)(STRICT, WIDE(round_to)(in->between, result(v, w, in->alpha, in->between)));
}

/* What counts for the scale. */
uints counted(floats v, uint count)
{
    return LANE < count ? WIDE(magnitude)(v) : (uints)(0);
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void
activation_row(global const uchar *a_span, ulong a_offset, global const uchar *b_span, ulong b_offset,
               global uchar *y_span, ulong y_offset, global uchar *s_span, ulong s_offset, hal_activation_args args)
{
    local uint partial[THREADS];
    local float kept[KEPT];
    const uint row = get_group_id(1) + args.group_base[1], first = LANES * get_local_id(0);
    const row_in in = {
        a_span + a_offset,   b_span + b_offset, row * JOIN(args.lda),     (row % args.b_rows) * JOIN(args.ldb),
        args.b_columns == 1, args.alpha,        ROW_DTYPE(args.flags, 3), args.columns};
    uints most = 0;
    for (uint c = first; c < args.columns; c += LANES * THREADS) {
        const floats v = some(&in, c);
        most = max(most, counted(v, args.columns - c));
        if (c < KEPT)
            WIDE(vstore)(v, 0, kept + c);
    }
    const float scale = hm_row_scale(as_float(greatest(greatest_lane(most), partial)));
    const quantizer by = quantizer_of(scale);
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    for (uint c = first; c < args.columns; c += LANES * THREADS) {
        const floats v = c < KEPT ? WIDE(vload)(0, kept + c) : some(&in, c);
        store_codes(y_span + y_offset, row * JOIN(args.ldy) + c, min(args.columns - c, (uint)LANES),
                    WIDE(quantize)(&by, v));
    }
}
