/* softmax.cl - y = softmax(scale x + mask) or its logarithm, in groups of THREADS work-items a row and ROWS rows.
 * Constants: DTYPE_X DTYPE_MASK DTYPE_Y LOG ONLINE KEEP STRICT, as flags say, THREADS and ROWS. softmax_task.cl is for
 * CPU devices. */
#include "reduce.clh"

typedef struct row_in {
    global const uchar *x, *mask;
    ulong x_at, mask_at;
    uint columns;
    float scale;
} row_in;

/* Scores of columns c to c + 3; -infinity beyond the row, and where the mask hides. */
void scores(const row_in *in, uint c, float *s)
{
    for (uint i = 0; i < 4; i++) {
        s[i] = -INFINITY;
        if (c + i < in->columns) {
            float x = flush_if(STRICT, load_element(in->x, DTYPE_X, in->x_at + c + i));
            s[i] = STRICT ? hm_mul(x, in->scale) : x * in->scale;
            if (DTYPE_MASK == SOFTMAX_BOOL)
                s[i] = in->mask[in->mask_at + c + i] ? s[i] : -INFINITY;
            else if (DTYPE_MASK) {
                float m = flush_if(STRICT, load_element(in->mask, DTYPE_MASK, in->mask_at + c + i));
                s[i] = m == -INFINITY ? m : flush_if(STRICT, s[i] + m);
            }
        }
    }
}

float greatest(const float *s, float most)
{
    for (uint i = 0; i < 4; i++)
        most = s[i] > most ? s[i] : most;
    return most;
}

/* exp(x), x <= 0 */
float exp_below(float x)
{
    return STRICT ? hm_exp_below(x) : hm_fast_exp(x);
}

/* What is subtracted; a row that is hidden whole gives exp(-infinity). */
float base_of(float most)
{
    return most == -INFINITY ? 0.0f : most;
}

/* A row's result from one score: `unit` is 1 / sum, or log(sum). */
float result(float score, float e, float base, float unit)
{
    if (LOG)
        return flush_if(STRICT, (score - base) - unit);
    return STRICT ? hm_mul(e, unit) : e * unit;
}

float unit_of(float sum)
{
    if (LOG)
        return sum == 0.0f ? 0.0f : hm_log(sum);
    return sum == 0.0f ? 0.0f : hm_reciprocal(sum);
}

void store(global uchar *y, ulong at, uint c, uint columns, const float *v)
{
    for (uint i = 0; i < 4; i++)
        if (c + i < columns)
            store_element(y, DTYPE_Y, at + c + i, v[i]);
}

/* A row whose scores stay in registers. */
void row_kept(const row_in *in, global uchar *y, ulong y_at, bool there, uint t, local float4 *scratch)
{
    float kept[KEEP ? KEEP : 1][4], sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, most = -INFINITY;
    for (uint k = 0; k < KEEP; k++) {
        scores(in, 4 * t + 4 * THREADS * k, kept[k]);
        most = greatest(kept[k], most);
    }
    const float base = base_of(group_max(most, t, THREADS, scratch));
    for (uint k = 0; k < KEEP; k++)
        for (uint i = 0; i < 4; i++) {
            float e = exp_below(kept[k][i] - base);
            kept[k][i] = LOG ? kept[k][i] : e;
            sum[i] += e;
        }
    const float unit = unit_of(group_sum(vload4(0, sum), t, THREADS, scratch));
    for (uint k = 0; k < KEEP; k++) {
        for (uint i = 0; i < 4; i++)
            kept[k][i] = result(kept[k][i], kept[k][i], base, unit);
        if (there)
            store(y, y_at, 4 * t + 4 * THREADS * k, in->columns, kept[k]);
    }
}

float max_of_row(const row_in *in, uint t)
{
    float s[4], most = -INFINITY;
    for (uint c = 4 * t; c < in->columns; c += 4 * THREADS) {
        scores(in, c, s);
        most = greatest(s, most);
    }
    return most;
}

/* Of the thread's own partial sums. */
float4 sum_of_row(const row_in *in, uint t, float base)
{
    float4 sum = 0.0f, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++) {
        float4 own = 0.0f;
        for (uint c = 4 * t + owned_column(i); c < in->columns; c += ROW_SUMS) {
            float s[4];
            scores(in, c, s);
            own += (float4)(exp_below(s[0] - base), exp_below(s[1] - base), exp_below(s[2] - base),
                            exp_below(s[3] - base));
        }
        sum = fold(i, own, waiting);
    }
    return sum;
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. */
float4 online(const row_in *in, uint t, float *most)
{
    float4 sum = 0.0f;
    for (uint c = 4 * t; c < in->columns; c += 4 * THREADS) {
        float s[4];
        scores(in, c, s);
        const float next = greatest(s, *most), base = base_of(next);
        if (next > *most)
            sum *= exp_below(*most - base);
        sum += (float4)(exp_below(s[0] - base), exp_below(s[1] - base), exp_below(s[2] - base), exp_below(s[3] - base));
        *most = next;
    }
    return sum;
}

void row_read_again(const row_in *in, global uchar *y, ulong y_at, bool there, uint t, local float4 *scratch)
{
    float base, most = -INFINITY;
    float4 sum;
    if (ONLINE) {
        sum = online(in, t, &most);
        base = base_of(group_max(most, t, THREADS, scratch));
        sum *= exp_below(most - base);
    } else {
        base = base_of(group_max(max_of_row(in, t), t, THREADS, scratch));
        sum = sum_of_row(in, t, base);
    }
    const float unit = unit_of(group_sum(sum, t, THREADS, scratch));
    for (uint c = 4 * t; there && c < in->columns; c += 4 * THREADS) {
        float s[4];
        scores(in, c, s);
        for (uint i = 0; i < 4; i++)
            s[i] = result(s[i], LOG ? 0.0f : exp_below(s[i] - base), base, unit);
        store(y, y_at, c, in->columns, s);
    }
}

#ifdef HAL_KERNEL_softmax
__attribute__((reqd_work_group_size(THREADS, ROWS, 1))) kernel void softmax(global const uchar *x_span, ulong x_offset,
                                                                            global const uchar *mask_span,
                                                                            ulong mask_offset, global uchar *y_span,
                                                                            ulong y_offset, hal_softmax_args args)
{
    local float4 scratch[THREADS * ROWS];
    const uint t = get_local_id(0), in_group = get_local_id(1);
    const uint asked = (get_group_id(0) + args.group_base[0]) * ROWS + in_group;
    const uint row = min(asked, args.rows - 1); /* all take part in the barriers */
    const row_in in = {x_span + x_offset,    mask_span + mask_offset,
                       row * JOIN(args.ldx), (row % args.mask_rows) * JOIN(args.ldmask),
                       args.columns,         args.scale};
    const ulong y_at = row * JOIN(args.ldy);
    if (KEEP)
        row_kept(&in, y_span + y_offset, y_at, asked == row, t, scratch + in_group * THREADS);
    else
        row_read_again(&in, y_span + y_offset, y_at, asked == row, t, scratch + in_group * THREADS);
}
#endif
