/* activation_row.cl - act(a), a + b, a b or SiLU(a) b, rounded as a store would, as E4M3 codes with a scale a row: what
 * activation and quantize_row give one after the other. A group takes a row; it keeps the first KEPT results, so that
 * they are not computed again for the codes. Constants: DTYPE_A DTYPE_B OP STRICT, as flags say, THREADS of a group
 * (1 on CPU devices), KEPT, a multiple of 8. */
#include "activation.clh"
#include "quantize.clh"

typedef struct row_in {
    global const uchar *a, *b;
    ulong a_at, b_at; /* element index of the row */
    bool b_is_one;
    float alpha;
    uint between, columns;
} row_in;

/* Columns c to c + 7; zeros beyond the row. */
__attribute__((always_inline)) float8 eight(const row_in *in, uint c)
{
    const uint count = min(in->columns - c, 8u);
    const float8 v = flush_if8(STRICT, load_part8(in->a, DTYPE_A, in->a_at + c, count, 0.0f));
    float8 w = 0.0f;
    if (BINARY) {
        w = in->b_is_one ? (float8)(load_element(in->b, DTYPE_B, in->b_at))
                         : load_part8(in->b, DTYPE_B, in->b_at + c, count, 0.0f);
        w = flush_if8(STRICT, w);
    }
    return flush_if8(STRICT, round_to8(in->between, result(v, w, in->alpha, in->between)));
}

/* What counts for the scale. */
uint8 counted(float8 v, uint count)
{
    const uint8 lane = (uint8)(0, 1, 2, 3, 4, 5, 6, 7);
    return lane < count ? magnitude8(v) : (uint8)(0);
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void
activation_row(global const uchar *a_span, ulong a_offset, global const uchar *b_span, ulong b_offset,
               global uchar *y_span, ulong y_offset, global uchar *s_span, ulong s_offset, hal_activation_args args)
{
    local uint partial[THREADS];
    local float kept[KEPT];
    const uint row = get_group_id(1) + args.group_base[1], first = 8 * get_local_id(0);
    const row_in in = {
        a_span + a_offset,   b_span + b_offset, row * JOIN(args.lda),     (row % args.b_rows) * JOIN(args.ldb),
        args.b_columns == 1, args.alpha,        ROW_DTYPE(args.flags, 3), args.columns};
    uint8 most = 0;
    for (uint c = first; c < args.columns; c += 8 * THREADS) {
        const float8 v = eight(&in, c);
        most = max(most, counted(v, args.columns - c));
        if (c < KEPT)
            vstore8(v, 0, kept + c);
    }
    const uint4 four = max(most.lo, most.hi);
    const uint2 two = max(four.lo, four.hi);
    const float scale = hm_row_scale(as_float(greatest(max(two.x, two.y), partial)));
    const quantizer by = quantizer_of(scale);
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    for (uint c = first; c < args.columns; c += 8 * THREADS) {
        const float8 v = c < KEPT ? vload8(0, kept + c) : eight(&in, c);
        store_codes(y_span + y_offset, row * JOIN(args.ldy) + c, min(args.columns - c, 8u), codes_of(v, &by));
    }
}
