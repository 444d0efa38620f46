/* rmsnorm_task.cl - RMSNorm for CPU devices: one work-item takes group_rows rows, or a part of a row, LANES columns at
 * a time. Constants as in rmsnorm.cl, but KEEP: columns of x + residual that are kept (0: they are read and added
 * again). */
#include "task.clh"

#define QUANTISED (DTYPE_Y == HAL_KERNEL_F8E4M3)

typedef struct row_in {
    global const uchar *x, *weight, *residual;
    global uchar *sum;
    ulong x_at, r_at, s_at, x_next, r_next; /* the latter: from one row to the next */
    local floats *kept;
    uint columns; /* end of what is looked at */
} row_in;

/* `count`, LANES but at the end, of x, or of x + residual, rounded as if it had been stored; zero beyond. */
floats values(const row_in *in, uint c, uint count)
{
    const floats x = WIDE(flush_if)(STRICT, WIDE(load_part)(in->x, DTYPE_X, in->x_at + c, count, 0.0f));
    if (!(WHAT & RMSNORM_RESIDUAL))
        return x;
    const floats r = WIDE(flush_if)(STRICT, WIDE(load_part)(in->residual, DTYPE_X, in->r_at + c, count, 0.0f));
    return WIDE(flush_if)(STRICT, WIDE(round_to)(DTYPE_X, WIDE(flush_if)(STRICT, x + r)));
}

/* Strict: a square that would be subnormal is zero. */
floats squares(floats v)
{
    return STRICT ? (fabs(v) < 0x1p-63f ? 0.0f : v * v) : v * v;
}

void add(const row_in *in, uint c, uint count, local floats *sums)
{
    const floats v = values(in, c, count);
    if (KEEP)
        in->kept[c / LANES] = v;
    sums[c / LANES % (ROW_SUMS / LANES)] += squares(v);
}

floats kept_values(const row_in *in, uint c, uint count)
{
    return KEEP ? in->kept[c / LANES] : values(in, c, count);
}

/* Partial sums `begin` to `begin` + `count` - 1. */
void sums_of_row(const row_in *in, uint begin, uint count, local floats *sums)
{
    for (uint c0 = begin; c0 < in->columns; c0 += ROW_SUMS) {
        const uint end = min(c0 + count, in->columns), whole = end & ~(LANES - 1u);
        for (uint c = c0; c < whole; c += LANES)
            add(in, c, LANES, sums);
        if (whole < end)
            add(in, whole, end - whole, sums);
    }
}

float inverse_root(float sum, const hal_rmsnorm_args *args)
{
    return hm_rsqrt(hm_mul(sum, args->inverse) + args->eps);
}

/* From values to the normalised row. */
floats normalised(const row_in *in, uint c, uint count, float root, floats v)
{
    v = product(STRICT, v, root);
    if (DTYPE_WEIGHT)
        v = product(STRICT, v, WIDE(flush_if)(STRICT, WIDE(load_part)(in->weight, DTYPE_WEIGHT, c, count, 0.0f)));
    return QUANTISED ? WIDE(round_to)(BETWEEN, v) : v;
}

float greatest_of(const row_in *in, uint begin, float root)
{
    const uint whole = in->columns & ~(LANES - 1u);
    floats most = 0.0f;
    for (uint c = begin; c < whole; c += LANES) {
        const floats v = fabs(normalised(in, c, LANES, root, kept_values(in, c, LANES)));
        most = v > most ? v : most;
    }
    if (begin < in->columns && whole < in->columns) {
        const uint rest = in->columns - whole;
        const floats v = fabs(normalised(in, whole, rest, root, kept_values(in, whole, rest)));
        most = v > most ? v : most;
    }
    return max_of(most);
}

void store(const row_in *in, uint c, uint count, float root, const quantizer *by, global uchar *y, ulong at)
{
    const floats value = kept_values(in, c, count), v = normalised(in, c, count, root, value);
    if (WHAT & RMSNORM_SUM) /* last, since it may lie where x or the residual was */
        WIDE(stream_part)(in->sum, DTYPE_X, in->s_at + c, count, value);
    if (!QUANTISED) {
        WIDE(stream_part)(y, DTYPE_Y, at, count, v);
        return;
    }
    const uchars codes = CONVERT(uchar, WIDE(quantize)(by, v));
    if (count == LANES)
        WIDE(vstore)(codes, 0, y + at);
    else
        for (uint i = 0; i < count; i++)
            y[at + i] = ((const uchar *)&codes)[i];
}

/* From column `begin`, a multiple of LANES, on. */
void write(const row_in *in, uint begin, float root, float scale, global uchar *y, ulong y_at)
{
    const uint whole = in->columns & ~(LANES - 1u), rest = in->columns - whole;
    const quantizer by = quantizer_of(scale);
    for (uint c = begin; c < whole; c += LANES) {
        fetch_ahead(in->x, DTYPE_X, in->x_at + in->x_next + c);
        if (WHAT & RMSNORM_RESIDUAL)
            fetch_ahead(in->residual, DTYPE_X, in->r_at + in->r_next + c);
        store(in, c, LANES, root, &by, y, y_at + c);
    }
    if (begin < in->columns && rest)
        store(in, whole, rest, root, &by, y, y_at + whole);
}

/* Its scale, if it is quantised. */
float row(const row_in *in, const hal_rmsnorm_args *args, global uchar *y, ulong y_at, local floats *sums)
{
    clear_sums(sums, in->columns);
    sums_of_row(in, 0, ROW_SUMS, sums);
    const float root = inverse_root(fold_sums(sums, in->columns), args);
    const float scale = QUANTISED ? hm_row_scale(greatest_of(in, 0, root)) : 1.0f;
    write(in, 0, root, scale, y, y_at);
    return scale;
}

void sums_of_part(const row_in *in, const hal_rmsnorm_args *args, uint part, global float *parts, local floats *sums)
{
    const uint count = ROW_SUMS / args->parts, begin = part * count;
    clear_sums(sums, ROW_SUMS);
    sums_of_row(in, begin, count, sums);
    for (uint i = begin; i < begin + count; i += LANES)
        WIDE(vstore)(sums[i / LANES], i / LANES, parts);
}

void part_of_row(row_in *in, const hal_rmsnorm_args *args, uint part, global float *parts, global float *scale_of_row,
                 global uchar *y, ulong y_at, local floats *sums)
{
    for (uint i = 0; i < ROW_SUMS / LANES; i++)
        sums[i] = WIDE(vload)(i, parts);
    const float root = inverse_root(fold_sums(sums, ROW_SUMS), args);
    const uint begin = min(part * args->part_columns, args->columns);
    in->columns = min(begin + args->part_columns, args->columns);
    if (PHASE == RMSNORM_AMAX) {
        parts[ROW_SUMS + part] = greatest_of(in, begin, root);
        return;
    }
    float scale = 1.0f;
    if (QUANTISED) {
        float most = 0.0f;
        for (uint i = 0; i < args->parts; i++)
            most = parts[ROW_SUMS + i] > most ? parts[ROW_SUMS + i] : most;
        scale = hm_row_scale(most);
        if (part == 0)
            *scale_of_row = scale;
    }
    write(in, begin, root, scale, y, y_at);
}

#ifdef HAL_KERNEL_rmsnorm_task
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void
rmsnorm_task(global const uchar *x_span, ulong x_offset, global const uchar *weight_span, ulong weight_offset,
             global const uchar *residual_span, ulong residual_offset, global uchar *sum_span, ulong sum_offset,
             global uchar *y_span, ulong y_offset, global uchar *scales_span, ulong scales_offset,
             global uchar *parts_span, ulong parts_offset, hal_rmsnorm_args args)
{
    local floats sums[ROW_SUMS / LANES], kept[KEEP ? KEEP / LANES : 1];
    const uint part = get_group_id(1) + args.group_base[1];
    const uint begin = (get_group_id(0) + args.group_base[0]) * args.group_rows;
    const uint end = min(begin + args.group_rows, args.rows);
    global float *scales = (global float *)(scales_span + scales_offset);
    for (uint r = begin; r < end; r++) {
        row_in in = {x_span + x_offset,
                     weight_span + weight_offset,
                     residual_span + residual_offset,
                     sum_span + sum_offset,
                     r * JOIN(args.ldx),
                     r * JOIN(args.ldr),
                     r * JOIN(args.lds),
                     JOIN(args.ldx),
                     JOIN(args.ldr),
                     kept,
                     args.columns};
        global float *parts = (global float *)(parts_span + parts_offset) + (ulong)r * RMSNORM_ROW;
        global uchar *y = y_span + y_offset;
        const ulong y_at = r * JOIN(args.ldy);
        if (PHASE == RMSNORM_SUMS) {
            sums_of_part(&in, &args, part, parts, sums);
        } else if (PHASE != RMSNORM_WHOLE) {
            part_of_row(&in, &args, part, parts, scales + r, y, y_at, sums);
        } else {
            const float scale = row(&in, &args, y, y_at, sums);
            if (QUANTISED)
                scales[r] = scale;
        }
    }
}
#endif
