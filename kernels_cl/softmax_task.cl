/* softmax_task.cl - softmax for CPU devices: one work-item takes group_rows rows, eight columns at a time. Constants as
 * in softmax.cl, but KEEP: columns of a row whose exponentials are kept (0: they are computed again). */
#include "task.clh"

typedef struct row_in {
    global const uchar *x, *mask;
    ulong x_at, mask_at;
    uint columns;
    float scale;
} row_in;

/* Scores of columns c to c + 7; -infinity beyond the row, and where the mask hides. */
float8 scores(const row_in *in, uint c)
{
    const uint count = min(in->columns - c, 8u);
    float8 s = flush_if8(STRICT, load_part8(in->x, DTYPE_X, in->x_at + c, count, -INFINITY));
    s = STRICT ? hm_mul8(s, in->scale) : s * in->scale;
    if (DTYPE_MASK == SOFTMAX_BOOL) {
        uchar8 shown = 0;
        if (count == 8)
            shown = vload8(0, in->mask + in->mask_at + c);
        else
            for (uint i = 0; i < count; i++)
                ((uchar *)&shown)[i] = in->mask[in->mask_at + c + i];
        s = convert_int8(shown) != 0 ? s : -INFINITY;
    } else if (DTYPE_MASK) {
        float8 m = flush_if8(STRICT, load_part8(in->mask, DTYPE_MASK, in->mask_at + c, count, -INFINITY));
        s = m == -INFINITY ? m : flush_if8(STRICT, s + m);
    }
    return count == 8 ? s : first8(count, s, -INFINITY);
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

void store(global uchar *y, ulong y_at, const row_in *in, uint c, float8 v)
{
    if (in->columns - c >= 8)
        stream_elements8(y, DTYPE_Y, y_at + c, v);
    else
        store_part8(y, DTYPE_Y, y_at + c, in->columns - c, v);
}

float max_of_row(const row_in *in)
{
    float8 most = -INFINITY;
    for (uint c = 0; c < in->columns; c += 8) {
        const float8 s = scores(in, c);
        most = s > most ? s : most;
    }
    return max8(most);
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. Each lane has its own. */
float online(const row_in *in, float *base)
{
    float8 most = -INFINITY, sum = 0.0f;
    for (uint c = 0; c < in->columns; c += 8) {
        const float8 s = scores(in, c), next = s > most ? s : most, from = next == -INFINITY ? 0.0f : next;
        if (any(next > most))
            sum *= hm_exp8(most - from);
        sum += hm_exp8(s - from);
        most = next;
    }
    *base = base_of(max8(most));
    return sum8(sum * hm_exp8(most - *base));
}

void row(const row_in *in, global uchar *y, ulong y_at, local float8 *sums, local float8 *kept)
{
    float base, sum;
    if (ONLINE) {
        sum = online(in, &base);
    } else {
        base = base_of(max_of_row(in));
        clear_sums(sums, in->columns);
        for (uint c = 0; c < in->columns; c += 8) {
            const float8 s = scores(in, c), e = hm_exp8(s - base);
            sums[c / 8 % (ROW_SUMS / 8)] += e;
            if (KEEP)
                kept[c / 8] = LOG ? s : e;
        }
        sum = fold_sums(sums, in->columns);
    }
    const float unit = unit_of(sum);
    for (uint c = 0; c < in->columns; c += 8) {
        float8 v = KEEP ? kept[c / 8] : scores(in, c);
        if (LOG)
            v = flush_if8(STRICT, (v - base) - unit);
        else {
            v = KEEP ? v : hm_exp8(v - base);
            v = STRICT ? hm_mul8(v, unit) : v * unit;
        }
        store(y, y_at, in, c, v);
    }
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
