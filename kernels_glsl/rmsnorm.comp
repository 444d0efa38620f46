/* rmsnorm.comp - y = x / sqrt(mean(x^2) + eps) * weight, in groups of THREADS invocations a row and ROWS rows. Constants:
 * DTYPE_X DTYPE_WEIGHT (0: none) DTYPE_Y BETWEEN WHAT KEEP PHASE STRICT, as flags say, THREADS and ROWS. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_WEIGHT = 0;
layout(constant_id = 2) const uint DTYPE_Y = 1;
layout(constant_id = 3) const uint BETWEEN = 1;
layout(constant_id = 4) const uint WHAT = 0;
layout(constant_id = 5) const uint KEEP = 1;
layout(constant_id = 6) const uint PHASE = 0;
layout(constant_id = 7) const uint STRICT = 0;
layout(constant_id = 8) const uint THREADS = 256;
layout(constant_id = 9) const uint ROWS = 1;
#include "reduce.glsl"
#include "rmsnorm.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block {
    uint64_t span[7]; /* x, weight, residual, sum, y, scales, parts */
#include "kernel_args_rmsnorm.inc"
};
layout(push_constant) uniform push_block {
    block args;
};

#ifdef HAL_KERNEL_rmsnorm_view /* inputs are texel views */
layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
layout(set = 0, binding = 1) uniform usamplerBuffer weight_view;
layout(set = 0, binding = 2) uniform usamplerBuffer residual_view;
#endif

struct row_in {
    uint64_t x, weight, residual, sum;
    uint64_t x_at, r_at, s_at;
    uint columns; /* end of what is looked at */
};

/* Four of x, of the residual and of the weight; zero beyond the end. */
#ifdef HAL_KERNEL_rmsnorm_view
vec4 inside(row_in row, uint c, vec4 v)
{
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = c + i < row.columns ? flush_if(strict, v[i]) : 0.0;
    return v;
}

vec4 load_x(row_in row, uint c)
{
    return inside(row, c, fetch_four(x_view, DTYPE_X, ROW_BASE(args.bases[0], 0) + (uint(row.x_at) + c) / 4));
}

vec4 load_residual(row_in row, uint c)
{
    return inside(row, c, fetch_four(residual_view, DTYPE_X, ROW_BASE(args.bases[0], 2) + (uint(row.r_at) + c) / 4));
}

vec4 load_weight(row_in row, uint c)
{
    return inside(row, c, fetch_four(weight_view, DTYPE_WEIGHT, ROW_BASE(args.bases[0], 1) + c / 4));
}
#else
vec4 load_row(row_in row, uint64_t address, uint dtype, uint64_t at, uint c)
{
    vec4 v = vec4(0.0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (c + i < row.columns)
            v[i] = flush_if(strict, load_element(address, dtype, at + c + i));
    return v;
}

vec4 load_x(row_in row, uint c)
{
    return load_row(row, row.x, DTYPE_X, row.x_at, c);
}

vec4 load_residual(row_in row, uint c)
{
    return load_row(row, row.residual, DTYPE_X, row.r_at, c);
}

vec4 load_weight(row_in row, uint c)
{
    return load_row(row, row.weight, DTYPE_WEIGHT, uint64_t(0), c);
}
#endif

/* Four of x, or of x + residual, rounded as if it had been stored. */
vec4 values(row_in row, uint c)
{
    const vec4 x = load_x(row, c);
    if (!has_residual)
        return x;
    return with_residual(x, load_residual(row, c));
}

/* The new residual: written last, since it may lie where x or the residual was. */
void store_sum(row_in row, uint c, vec4 v)
{
    if (has_sum && c < row.columns)
        store_part4(row.sum, DTYPE_X, row.s_at + c, row.columns - c, v);
}

/* From values to the normalised row. */
vec4 normalised(row_in row, uint c, float root, vec4 v)
{
    return times_root(v, root, DTYPE_WEIGHT != 0u ? load_weight(row, c) : vec4(1.0));
}

void store(uint64_t y, uint64_t at, uint c, uint columns, float scale, vec4 v)
{
    if (!quantised && c < columns)
        store_part4(y, DTYPE_Y, at + c, columns - c, v);
    if (quantised)
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (c + i < columns)
                ref_u8(y + at + c + i).value = uint8_t(hm_quantize(v[i], scale));
}

/* A row that stays in registers. Its scale, if it is quantised. */
float row_kept(row_in row, uint64_t y, uint64_t y_at, bool there, uint t)
{
    vec4 v[KEEP != 0u ? KEEP : 1u];
    precise vec4 sum = vec4(0.0);
    float scale = 1.0, most = 0.0;
    [[unroll]] for (uint k = 0; k < KEEP; k++) {
        v[k] = values(row, 4 * t + 4 * THREADS * k);
        sum += squares(v[k]);
    }
    const float root = inverse_root(group_sum(sum), args.inverse, args.eps);
    [[unroll]] for (uint k = 0; k < KEEP; k++) {
        if (there)
            store_sum(row, 4 * t + 4 * THREADS * k, v[k]);
        v[k] = normalised(row, 4 * t + 4 * THREADS * k, root, v[k]);
        most = greatest(v[k], most);
    }
    if (quantised)
        scale = hm_row_scale(group_max(most));
    if (there)
        [[unroll]] for (uint k = 0; k < KEEP; k++)
            store(y, y_at, 4 * t + 4 * THREADS * k, row.columns, scale, v[k]);
    return scale;
}

/* Of the invocation's own partial sums. */
vec4 sum_of_row(row_in row, uint t)
{
    vec4 sum, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++) {
        precise vec4 own = vec4(0.0);
        for (uint c = 4 * t + owned_column(i); c < row.columns; c += ROW_SUMS)
            own += squares(values(row, c));
        sum = fold(i, own, waiting);
    }
    return sum;
}

float greatest_of(row_in row, uint begin, float root, uint t)
{
    float most = 0.0;
    for (uint c = begin + 4 * t; c < row.columns; c += 4 * THREADS)
        most = greatest(normalised(row, c, root, values(row, c)), most);
    return most;
}

void write(row_in row, uint begin, float root, float scale, uint64_t y, uint64_t y_at, uint t)
{
    for (uint c = begin + 4 * t; c < row.columns; c += 4 * THREADS) {
        const vec4 v = values(row, c);
        store_sum(row, c, v);
        store(y, y_at, c, row.columns, scale, normalised(row, c, root, v));
    }
}

float row_read_again(row_in row, uint64_t y, uint64_t y_at, bool there, uint t)
{
    const float root = inverse_root(group_sum(sum_of_row(row, t)), args.inverse, args.eps);
    float scale = 1.0;
    if (quantised)
        scale = hm_row_scale(group_max(greatest_of(row, 0, root, t)));
    if (there)
        write(row, 0, root, scale, y, y_at, t);
    return scale;
}

float load_part(uint64_t parts, uint i)
{
    return ref_f32(parts + uint64_t(i) * 4).value;
}

void store_part(uint64_t parts, uint i, float value)
{
    ref_f32(parts + uint64_t(i) * 4).value = value;
}

/* One part of a row's partial sums, ROW_SUMS / RMSNORM_PARTS of them: THREADS invocations fetch, as many as there are
 * partial sums add. */
void sums_of_part(row_in row, uint part, uint64_t sums, uint t)
{
    const uint width = ROW_SUMS / RMSNORM_PARTS, deep = 4 * THREADS / width;
    const uint mine = part * width + 4 * t % width + 4 * t / width * ROW_SUMS;
    precise float own = 0.0;
    for (uint c = 0; c < row.columns; c += deep * ROW_SUMS) {
        const vec4 squared = squares(values(row, c + mine));
        barrier();
        scratch[t] = squared;
        barrier();
        for (uint k = 0; t < width && k < deep; k++) {
            const uint at = k * width + t;
            own += scratch[at / 4][at % 4];
        }
    }
    if (t < width)
        store_part(sums, part * width + t, own);
}

/* What comes after, for a part of the columns. */
void part_of_row(row_in row, uint part, uint64_t parts, uint64_t scale_of_row, uint64_t y, uint64_t y_at, uint t)
{
    vec4 sum, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++) {
        const uint at = 4 * t + owned_column(i);
        sum = fold(i, vec4(load_part(parts, at), load_part(parts, at + 1), load_part(parts, at + 2),
                           load_part(parts, at + 3)),
                   waiting);
    }
    const float root = inverse_root(group_sum(sum), args.inverse, args.eps);
    const uint begin = min(part * args.part_columns, args.columns);
    row.columns = min(begin + args.part_columns, args.columns);
    if (PHASE == RMSNORM_AMAX) {
        const float most = group_max(greatest_of(row, begin, root, t));
        if (t == 0)
            store_part(parts, ROW_SUMS + part, most);
        return;
    }
    float scale = 1.0;
    if (quantised) {
        scale = hm_row_scale(group_max(t < RMSNORM_PARTS ? load_part(parts, ROW_SUMS + t) : 0.0));
        if (t == 0 && part == 0)
            ref_f32(scale_of_row).value = scale;
    }
    write(row, begin, root, scale, y, y_at, t);
}

void main()
{
    const uint t = gl_LocalInvocationID.x, part = gl_WorkGroupID.y + args.group_base[1];
    const uint asked = (gl_WorkGroupID.x + args.group_base[0]) * ROWS + gl_LocalInvocationID.y;
    const uint r = min(asked, args.rows - 1); /* all take part in the barriers */
    const row_in row = row_in(args.span[0], args.span[1], args.span[2], args.span[3], r * JOIN(args.ldx),
                              r * JOIN(args.ldr), r * JOIN(args.lds), args.columns);
    const uint64_t y = args.span[4], y_at = r * JOIN(args.ldy), scale_at = args.span[5] + uint64_t(r) * 4;
    const uint64_t parts = args.span[6] + uint64_t(r) * (RMSNORM_ROW * 4);
    const bool there = asked == r;
    if (PHASE == RMSNORM_SUMS) {
        sums_of_part(row, part, parts, t);
    } else if (PHASE != RMSNORM_WHOLE) {
        part_of_row(row, part, parts, scale_at, y, y_at, t);
    } else {
        const float scale = KEEP != 0u ? row_kept(row, y, y_at, there, t) : row_read_again(row, y, y_at, there, t);
        if (quantised && there && t == 0)
            ref_f32(scale_at).value = scale;
    }
}
