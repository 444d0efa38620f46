/* softmax_task.cl - softmax for CPU devices: one work-item takes group_rows rows, eight columns at a time. Constants as
 * in softmax.cl, but KEEP: columns of a row whose exponentials are kept (0: they are computed again). */
#include "task.clh"

typedef struct row_in {
    global const uchar *x, *mask;
    ulong x_at, mask_at;
    uint columns;
    float scale;
} row_in;

/* Scores of `count` columns, 8 but at the row's end, from c on; -infinity beyond, and where the mask hides. */
float8 scores(const row_in *in, uint c, uint count)
{
    float8 s = flush_if8(STRICT, load_part8(in->x, DTYPE_X, in->x_at + c, count, -INFINITY));
    s = product8(STRICT, s, in->scale);
    if (DTYPE_MASK == SOFTMAX_BOOL) {
        uchar8 shown = 0;
        if (count == 8)
            shown = vload8(0, in->mask + in->mask_at + c);
        else
            for (uint i = 0; i < count; i++)
                ((uchar *)&shown)[i] = in->mask[in->mask_at + c + i];
        s = CONVERT8(int, shown) != 0 ? s : -INFINITY;
    } else if (DTYPE_MASK) {
        float8 m = flush_if8(STRICT, load_part8(in->mask, DTYPE_MASK, in->mask_at + c, count, -INFINITY));
        s = m == -INFINITY ? m : flush_if8(STRICT, s + m);
    }
    return count == 8 ? s : first8(count, s, -INFINITY);
}

/* exp(x), x <= 0 */
float8 exp_below8(float8 x)
{
    return STRICT ? hm_exp_below8(x) : hm_fast_exp8(x);
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

float8 greater(const row_in *in, uint c, uint count, float8 most)
{
    const float8 s = scores(in, c, count);
    return s > most ? s : most;
}

/* What is subtracted. */
float greatest(const row_in *in)
{
    const uint whole = in->columns & ~7u;
    float8 most = -INFINITY;
    for (uint c = 0; c < whole; c += 8)
        most = greater(in, c, 8, most);
    if (whole < in->columns)
        most = greater(in, whole, in->columns - whole, most);
    return base_of(max8(most));
}

void add(const row_in *in, uint c, uint count, float base, local float8 *sums, local float8 *kept)
{
    const float8 s = scores(in, c, count), e = exp_below8(s - base);
    sums[c / 8 % (ROW_SUMS / 8)] += e;
    if (KEEP)
        kept[c / 8] = LOG ? s : e;
}

float sum_of_row(const row_in *in, float base, local float8 *sums, local float8 *kept)
{
    const uint whole = in->columns & ~7u;
    clear_sums(sums, in->columns);
    for (uint c = 0; c < whole; c += 8)
        add(in, c, 8, base, sums, kept);
    if (whole < in->columns)
        add(in, whole, in->columns - whole, base, sums, kept);
    return fold_sums(sums, in->columns);
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. Each lane has its own. */
float online(const row_in *in, float *base)
{
    float8 most = -INFINITY, sum = 0.0f;
    for (uint c = 0; c < in->columns; c += 8) {
        const float8 s = scores(in, c, min(in->columns - c, 8u)), next = s > most ? s : most;
        const float8 from = next == -INFINITY ? 0.0f : next;
        if (any8(next > most))
            sum *= exp_below8(most - from);
        sum += exp_below8(s - from);
        most = next;
    }
    *base = base_of(max8(most));
    return sum8(sum * exp_below8(most - *base));
}

/* Eight results. */
float8 result(const row_in *in, uint c, uint count, float base, float unit, const local float8 *kept)
{
    const float8 v = KEEP ? kept[c / 8] : scores(in, c, count);
    if (LOG)
        return flush_if8(STRICT, (v - base) - unit);
    return product8(STRICT, KEEP ? v : exp_below8(v - base), unit);
}

void row(const row_in *in, global uchar *y, ulong y_at, local float8 *sums, local float8 *kept)
{
    const uint whole = in->columns & ~7u, rest = in->columns - whole;
    float base, sum;
    if (ONLINE) {
        sum = online(in, &base);
    } else {
        base = greatest(in);
        sum = sum_of_row(in, base, sums, kept);
    }
    const float unit = unit_of(sum);
    for (uint c = 0; c < whole; c += 8)
        stream_elements8(y, DTYPE_Y, y_at + c, result(in, c, 8, base, unit, kept));
    if (rest)
        store_part8(y, DTYPE_Y, y_at + whole, rest, result(in, whole, rest, base, unit, kept));
}

#ifdef HAL_KERNEL_softmax_task
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void softmax_task(global const uchar *x_span, ulong x_offset,
                                                                        global const uchar *mask_span,
                                                                        ulong mask_offset, global uchar *y_span,
                                                                        ulong y_offset, hal_softmax_args args)
{
    local float8 sums[ROW_SUMS / 8], kept[KEEP ? KEEP / 8 : 1];
    const uint begin = (get_group_id(0) + args.group_base[0]) * args.group_rows;
    const uint end = min(begin + args.group_rows, args.rows);
    for (uint r = begin; r < end; r++) {
        const row_in in = {x_span + x_offset,  mask_span + mask_offset,
                           r * JOIN(args.ldx), (r % args.mask_rows) * JOIN(args.ldmask),
                           args.columns,       args.scale};
        row(&in, y_span + y_offset, r * JOIN(args.ldy), sums, kept);
    }
}
#endif
