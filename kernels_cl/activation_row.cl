/* activation_row.cl - act(a), a + b, a b or SiLU(a) b, rounded as a store would, as E4M3 codes with a scale a row: what
 * activation and quantize_row give one after the other. A group takes a row; it keeps the first KEPT results, so that
 * they are not computed again for the codes. Constants: DTYPE_A DTYPE_B OP STRICT, as flags say, THREADS of a group
 * (1 on CPU devices), KEPT, a multiple of LANES. */
#include "activation.clh"
#include "quantize.clh"

/* LANES results from c on, as a store would round them. */
floats stored(const row_operands *in, uint c, uint columns)
{
    const floats v = results(in, c, min(columns - c, (uint)LANES));
    return WIDE(flush_if)(STRICT, WIDE(round_to)(in->between, v));
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
    const row_operands in = ROW_OPERANDS(row);
    uints most = 0;
    for (uint c = first; c < args.columns; c += LANES * THREADS) {
        const floats v = stored(&in, c, args.columns);
        most = max(most, counted(v, args.columns - c));
        if (c < KEPT)
            WIDE(vstore)(v, 0, kept + c);
    }
    const float scale = hm_row_scale(as_float(greatest(greatest_lane(most), partial)));
    const quantizer by = quantizer_of(scale);
    if (first == 0)
        ((global float *)(s_span + s_offset))[row] = scale;
    for (uint c = first; c < args.columns; c += LANES * THREADS) {
        const floats v = c < KEPT ? WIDE(vload)(0, kept + c) : stored(&in, c, args.columns);
        store_codes(y_span + y_offset, row * JOIN(args.ldy) + c, min(args.columns - c, (uint)LANES),
                    WIDE(quantize)(&by, v));
    }
}
