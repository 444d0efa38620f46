/* rmsnorm.cl - y = x / sqrt(mean(x^2) + eps) * weight, in groups of THREADS work-items a row and ROWS rows. Constants:
 * DTYPE_X DTYPE_WEIGHT (0: none) DTYPE_Y BETWEEN WHAT KEEP PHASE STRICT, as flags say, THREADS and ROWS.
 * rmsnorm_task.cl is for CPU devices. */
#include "reduce.clh"

#define QUANTISED (DTYPE_Y == HAL_KERNEL_F8E4M3)

typedef struct row_in {
    global const uchar *x, *weight, *residual;
    global uchar *sum;
    ulong x_at, r_at, s_at;
    uint columns; /* end of what is looked at */
} row_in;

/* Four of x, or of x + residual, rounded as if it had been stored; zero beyond the end. */
void values(const row_in *in, uint c, float *v)
{
    for (uint i = 0; i < 4; i++) {
        v[i] = 0.0f;
        if (c + i < in->columns) {
            v[i] = flush_if(STRICT, load_element(in->x, DTYPE_X, in->x_at + c + i));
            if (WHAT & RMSNORM_RESIDUAL) {
                const float r = flush_if(STRICT, load_element(in->residual, DTYPE_X, in->r_at + c + i));
                v[i] = flush_if(STRICT, round_to(DTYPE_X, flush_if(STRICT, v[i] + r)));
            }
        }
    }
}

/* The new residual: written last, since it may lie where x or the residual was. */
void store_sum(const row_in *in, uint c, const float *v)
{
    if (WHAT & RMSNORM_SUM)
        for (uint i = 0; i < 4; i++)
            if (c + i < in->columns)
                store_element(in->sum, DTYPE_X, in->s_at + c + i, v[i]);
}

/* Strict: a square that would be subnormal is zero. */
float square(float v)
{
    return STRICT && fabs(v) < 0x1p-63f ? 0.0f : v * v;
}

float4 squares(const float *v)
{
    return (float4)(square(v[0]), square(v[1]), square(v[2]), square(v[3]));
}

float inverse_root(float sum, const hal_rmsnorm_args *args)
{
    return hm_rsqrt(hm_mul(sum, args->inverse) + args->eps);
}

float product(float a, float b)
{
    return STRICT ? hm_mul(a, b) : a * b;
}

/* From values to the normalised row. */
void normalise(const row_in *in, uint c, float root, float *v)
{
    for (uint i = 0; i < 4; i++) {
        v[i] = product(v[i], root);
        if (DTYPE_WEIGHT && c + i < in->columns)
            v[i] = product(v[i], flush_if(STRICT, load_element(in->weight, DTYPE_WEIGHT, c + i)));
        if (QUANTISED)
            v[i] = round_to(BETWEEN, v[i]);
    }
}

float greatest(const float *v, float most)
{
    for (uint i = 0; i < 4; i++)
        most = fabs(v[i]) > most ? fabs(v[i]) : most;
    return most;
}

void store(global uchar *y, ulong at, uint c, uint columns, float scale, const float *v)
{
    for (uint i = 0; i < 4; i++) {
        if (c + i < columns) {
            if (QUANTISED)
                y[at + c + i] = (uchar)hm_quantize(v[i], scale);
            else
                store_element(y, DTYPE_Y, at + c + i, v[i]);
        }
    }
}

/* A row that stays in registers. Its scale, if it is quantised. */
float row_kept(const row_in *in, const hal_rmsnorm_args *args, global uchar *y, ulong y_at, bool there, uint t,
               local float4 *scratch)
{
    float v[KEEP ? KEEP : 1][4], scale = 1.0f;
    float4 sum = 0.0f;
    for (uint k = 0; k < KEEP; k++) {
        values(in, 4 * t + 4 * THREADS * k, v[k]);
        sum += squares(v[k]);
    }
    const float root = inverse_root(group_sum(sum, t, THREADS, scratch), args);
    float most = 0.0f;
    for (uint k = 0; k < KEEP; k++) {
        if (there)
            store_sum(in, 4 * t + 4 * THREADS * k, v[k]);
        normalise(in, 4 * t + 4 * THREADS * k, root, v[k]);
        most = greatest(v[k], most);
    }
    if (QUANTISED)
        scale = hm_row_scale(group_max(most, t, THREADS, scratch));
    for (uint k = 0; there && k < KEEP; k++)
        store(y, y_at, 4 * t + 4 * THREADS * k, in->columns, scale, v[k]);
    return scale;
}

/* Of the thread's own partial sums. */
float4 sum_of_row(const row_in *in, uint t)
{
    float4 sum = 0.0f, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++) {
        float4 own = 0.0f;
        for (uint c = 4 * t + owned_column(i); c < in->columns; c += ROW_SUMS) {
            float v[4];
            values(in, c, v);
            own += squares(v);
        }
        sum = fold(i, own, waiting);
    }
    return sum;
}

float greatest_of(const row_in *in, uint begin, float root, uint t)
{
    float v[4], most = 0.0f;
    for (uint c = begin + 4 * t; c < in->columns; c += 4 * THREADS) {
        values(in, c, v);
        normalise(in, c, root, v);
        most = greatest(v, most);
    }
    return most;
}

void write(const row_in *in, uint begin, float root, float scale, global uchar *y, ulong y_at, uint t)
{
    float v[4];
    for (uint c = begin + 4 * t; c < in->columns; c += 4 * THREADS) {
        values(in, c, v);
        store_sum(in, c, v);
        normalise(in, c, root, v);
        store(y, y_at, c, in->columns, scale, v);
    }
}

float row_read_again(const row_in *in, const hal_rmsnorm_args *args, global uchar *y, ulong y_at, bool there, uint t,
                     local float4 *scratch)
{
    const float root = inverse_root(group_sum(sum_of_row(in, t), t, THREADS, scratch), args);
    float scale = 1.0f;
    if (QUANTISED)
        scale = hm_row_scale(group_max(greatest_of(in, 0, root, t), t, THREADS, scratch));
    if (there)
        write(in, 0, root, scale, y, y_at, t);
    return scale;
}

/* One part of a row's partial sums, ROW_SUMS / RMSNORM_PARTS of them: THREADS work-items fetch, as many as there are
 * partial sums add. */
void sums_of_part(const row_in *in, uint part, global float *sums, uint t, local float *squared)
{
    const uint width = ROW_SUMS / RMSNORM_PARTS, deep = 4 * THREADS / width;
    const uint mine = part * width + 4 * t % width + 4 * t / width * ROW_SUMS;
    float own = 0.0f;
    for (uint c = 0; c < in->columns; c += deep * ROW_SUMS) {
        float v[4];
        values(in, c + mine, v);
        barrier(CLK_LOCAL_MEM_FENCE);
        vstore4(squares(v), t, squared);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; t < width && k < deep; k++)
            own += squared[k * width + t];
    }
    if (t < width)
        sums[part * width + t] = own;
}

/* What comes after, for a part of the columns. */
void part_of_row(row_in *in, const hal_rmsnorm_args *args, uint part, global float *parts, global float *scale_of_row,
                 global uchar *y, ulong y_at, uint t, local float4 *scratch)
{
    float4 sum = 0.0f, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++)
        sum = fold(i, vload4(t + owned_column(i) / 4, parts), waiting);
    const float root = inverse_root(group_sum(sum, t, THREADS, scratch), args);
    const uint begin = min(part * args->part_columns, args->columns);
    in->columns = min(begin + args->part_columns, args->columns);
    if (PHASE == RMSNORM_AMAX) {
        const float most = group_max(greatest_of(in, begin, root, t), t, THREADS, scratch);
        if (t == 0)
            parts[ROW_SUMS + part] = most;
        return;
    }
    float scale = 1.0f;
    if (QUANTISED) {
        scale = hm_row_scale(group_max(t < RMSNORM_PARTS ? parts[ROW_SUMS + t] : 0.0f, t, THREADS, scratch));
        if (t == 0 && part == 0)
            *scale_of_row = scale;
    }
    write(in, begin, root, scale, y, y_at, t);
}

#ifdef HAL_KERNEL_rmsnorm
__attribute__((reqd_work_group_size(THREADS, ROWS, 1))) kernel void
rmsnorm(global const uchar *x_span, ulong x_offset, global const uchar *weight_span, ulong weight_offset,
        global const uchar *residual_span, ulong residual_offset, global uchar *sum_span, ulong sum_offset,
        global uchar *y_span, ulong y_offset, global uchar *scales_span, ulong scales_offset, global uchar *parts_span,
        ulong parts_offset, hal_rmsnorm_args args)
{
    local float4 scratch[THREADS * ROWS];
    const uint t = get_local_id(0), in_group = get_local_id(1), part = get_group_id(1) + args.group_base[1];
    const uint asked = (get_group_id(0) + args.group_base[0]) * ROWS + in_group;
    const uint row = min(asked, args.rows - 1); /* all take part in the barriers */
    row_in in = {x_span + x_offset,
                 weight_span + weight_offset,
                 residual_span + residual_offset,
                 sum_span + sum_offset,
                 row * JOIN(args.ldx),
                 row * JOIN(args.ldr),
                 row * JOIN(args.lds),
                 args.columns};
    global uchar *y = y_span + y_offset;
    global float *scales = (global float *)(scales_span + scales_offset);
    global float *parts = (global float *)(parts_span + parts_offset) + (ulong)row * RMSNORM_ROW;
    const ulong y_at = row * JOIN(args.ldy);
    const bool there = asked == row;
    if (PHASE == RMSNORM_SUMS) {
        sums_of_part(&in, part, parts, t, (local float *)scratch);
    } else if (PHASE != RMSNORM_WHOLE) {
        part_of_row(&in, &args, part, parts, scales + row, y, y_at, t, scratch);
    } else {
        const float scale = KEEP ? row_kept(&in, &args, y, y_at, there, t, scratch + in_group * THREADS)
                                 : row_read_again(&in, &args, y, y_at, there, t, scratch + in_group * THREADS);
        if (QUANTISED && there && t == 0)
            scales[row] = scale;
    }
}
#endif
