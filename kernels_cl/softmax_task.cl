/* softmax_task.cl - softmax for CPU devices: one work-item takes group_rows rows, LANES columns at a time. Constants as
 * in softmax.cl, but KEEP: columns of a row whose exponentials are kept (0: they are computed again). */
#include "task.clh"

typedef struct row_in {
    global const uchar *x, *mask;
    ulong x_at, mask_at, x_next; /* the latter: from one row to the next */
    uint columns;
    float scale;
} row_in;

/* Scores of `count` columns, LANES but at the row's end, from c on; -infinity beyond, and where the mask hides. */
floats scores(const row_in *in, uint c, uint count)
{
    floats s = WIDE(flush_if)(STRICT, WIDE(load_part)(in->x, DTYPE_X, in->x_at + c, count, -INFINITY));
    s = product(STRICT, s, in->scale);
    if (DTYPE_MASK == SOFTMAX_BOOL) {
        uchars shown = 0;
        if (count == LANES)
            shown = WIDE(vload)(0, in->mask + in->mask_at + c);
        else
            for (uint i = 0; i < count; i++)
                ((uchar *)&shown)[i] = in->mask[in->mask_at + c + i];
        s = CONVERT(int, shown) != 0 ? s : -INFINITY;
    } else if (DTYPE_MASK) {
        floats m = WIDE(flush_if)(STRICT, WIDE(load_part)(in->mask, DTYPE_MASK, in->mask_at + c, count, -INFINITY));
        s = m == -INFINITY ? m : WIDE(flush_if)(STRICT, s + m);
    }
    return count == LANES ? s : first(count, s, -INFINITY);
}

/* exp(x), x <= 0 */
floats exp_below(floats x)
{
    return STRICT ? WIDE(hm_exp_below)(x) : WIDE(hm_fast_exp)(x);
}

float base_of(float most)
{
    return most == -INFINITY ? 0.0f : most;
}

float unit_of(float sum)
{
    if (LOG)
        return sum == 0.0f ? 0.0f : hm_log(sum);
    return sum == 0.0f ? 0.0f : hm_reciprocal(sum);
}

floats greater(const row_in *in, uint c, uint count, floats most)
{
    const floats s = scores(in, c, count);
    return s > most ? s : most;
}

/* What is subtracted. */
float greatest(const row_in *in)
{
    const uint whole = in->columns & ~(LANES - 1u);
    floats most = -INFINITY;
    for (uint c = 0; c < whole; c += LANES)
        most = greater(in, c, LANES, most);
    if (whole < in->columns)
        most = greater(in, whole, in->columns - whole, most);
    return base_of(max_of(most));
}

void add(const row_in *in, uint c, uint count, float base, local floats *sums, local floats *kept)
{
    const floats s = scores(in, c, count), e = exp_below(s - base);
    sums[c / LANES % (ROW_SUMS / LANES)] += e;
    if (KEEP)
        kept[c / LANES] = LOG ? s : e;
}

float sum_of_row(const row_in *in, float base, local floats *sums, local floats *kept)
{
    const uint whole = in->columns & ~(LANES - 1u);
    clear_sums(sums, in->columns);
    for (uint c = 0; c < whole; c += LANES) {
        fetch_ahead(in->x, DTYPE_X, in->x_at + in->x_next + c);
        add(in, c, LANES, base, sums, kept);
    }
    if (whole < in->columns)
        add(in, whole, in->columns - whole, base, sums, kept);
    return fold_sums(sums, in->columns);
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. Each lane has its own. */
float online(const row_in *in, float *base)
{
    floats most = -INFINITY, sum = 0.0f;
    for (uint c = 0; c < in->columns; c += LANES) {
        const floats s = scores(in, c, min(in->columns - c, (uint)LANES)), next = s > most ? s : most;
        const floats from = next == -INFINITY ? 0.0f : next;
        if (any_lane(next > most))
            sum *= exp_below(most - from);
        sum += exp_below(s - from);
        most = next;
    }
    *base = base_of(max_of(most));
    return sum_of(sum * exp_below(most - *base));
}

/* LANES results. */
floats result(const row_in *in, uint c, uint count, float base, float unit, const local floats *kept)
{
    const floats v = KEEP ? kept[c / LANES] : scores(in, c, count);
    if (LOG)
        return WIDE(flush_if)(STRICT, (v - base) - unit);
    return product(STRICT, KEEP ? v : exp_below(v - base), unit);
}

void row(const row_in *in, global uchar *y, ulong y_at, local floats *sums, local floats *kept)
{
    const uint whole = in->columns & ~(LANES - 1u), rest = in->columns - whole;
    float base, sum;
    if (ONLINE) {
        sum = online(in, &base);
    } else {
        base = greatest(in);
        sum = sum_of_row(in, base, sums, kept);
    }
    const float unit = unit_of(sum);
    for (uint c = 0; c < whole; c += LANES)
        WIDE(stream_elements)(y, DTYPE_Y, y_at + c, result(in, c, LANES, base, unit, kept));
    if (rest)
        WIDE(store_part)(y, DTYPE_Y, y_at + whole, rest, result(in, whole, rest, base, unit, kept));
}

#ifdef HAL_KERNEL_softmax_task
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void softmax_task(global const uchar *x_span, ulong x_offset,
                                                                        global const uchar *mask_span,
                                                                        ulong mask_offset, global uchar *y_span,
                                                                        ulong y_offset, hal_softmax_args args)
{
    local floats sums[ROW_SUMS / LANES], kept[KEEP ? KEEP / LANES : 1];
    const uint begin = (get_group_id(0) + args.group_base[0]) * args.group_rows;
    const uint end = min(begin + args.group_rows, args.rows);
    for (uint r = begin; r < end; r++) {
        const row_in in = {x_span + x_offset,  mask_span + mask_offset,
                           r * JOIN(args.ldx), (r % args.mask_rows) * JOIN(args.ldmask),
                           JOIN(args.ldx),     args.columns,
                           args.scale};
        row(&in, y_span + y_offset, r * JOIN(args.ldy), sums, kept);
    }
}
#endif
