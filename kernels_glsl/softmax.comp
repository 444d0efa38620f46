/* softmax.comp - y = softmax(scale x + mask) or its logarithm, in groups of THREADS invocations a row and ROWS rows.
 * Constants: DTYPE_X DTYPE_MASK DTYPE_Y LOG ONLINE KEEP STRICT, as flags say, THREADS and ROWS. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "rows.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE_X = 1;
layout(constant_id = 1) const uint DTYPE_MASK = 0;
layout(constant_id = 2) const uint DTYPE_Y = 1;
layout(constant_id = 3) const uint LOG = 0;
layout(constant_id = 4) const uint ONLINE = 0;
layout(constant_id = 5) const uint KEEP = 1;
layout(constant_id = 6) const uint STRICT = 0;
layout(constant_id = 7) const uint THREADS = 256;
layout(constant_id = 8) const uint ROWS = 1;
#include "reduce.glsl"
#include "softmax.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block
{
    uint64_t span[3]; /* x, mask, y */
#include "kernel_args_softmax.inc"
};
layout(push_constant) uniform push_block
{
    block args;
};

#ifdef HAL_KERNEL_softmax_view /* x is a texel view; no mask */
layout(set = 0, binding = 0) uniform usamplerBuffer x_view;
#endif

struct row_in {
    uint64_t x, mask, x_at, mask_at;
    uint columns;
    float scale;
};

/* Scores of columns c to c + 3; -infinity beyond the row, and where the mask hides. */
vec4 scores(row_in row, uint c)
{
    vec4 s = vec4(-HM_INFINITY);
#ifdef HAL_KERNEL_softmax_view
    const vec4 x = fetch_four(x_view, DTYPE_X, args.base_x + (uint(row.x_at) + c) / 4);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        s[i] = c + i < row.columns ? score_of(flush_if(strict, x[i]), row.scale) : s[i];
    }
    return s;
#else
    [[unroll]] for (uint i = 0; i < 4; i++)
    {
        if (c + i < row.columns) {
            float x = flush_if(strict, load_element(row.x, DTYPE_X, row.x_at + c + i));
            precise float v = score_of(x, row.scale);
            if (DTYPE_MASK == SOFTMAX_BOOL) {
                v = uint(ref_u8(row.mask + row.mask_at + c + i).value) != 0u ? v : -HM_INFINITY;
            } else if (DTYPE_MASK != 0u) {
                float m = flush_if(strict, load_element(row.mask, DTYPE_MASK, row.mask_at + c + i));
                v = HM_ADD(v, m);
                v = m == -HM_INFINITY ? m : flush_if(strict, v);
            }
            s[i] = v;
        }
    }
    return s;
#endif
}

void store(uint64_t y, uint64_t at, uint c, uint columns, vec4 v)
{
    if (c < columns)
        store_part4(y, DTYPE_Y, at + c, columns - c, v);
}

/* A row whose scores stay in registers. */
void row_kept(row_in row, uint64_t y, uint64_t y_at, bool there, uint t)
{
    vec4 kept[KEEP != 0u ? KEEP : 1u];
    precise vec4 sum = vec4(0.0);
    float most = -HM_INFINITY;
    [[unroll]] for (uint k = 0; k < KEEP; k++)
    {
        kept[k] = scores(row, 4 * t + 4 * THREADS * k);
        most = greatest(kept[k], most);
    }
    const float base = base_of(group_max(most));
    [[unroll]] for (uint k = 0; k < KEEP; k++)
    {
        vec4 e = exp_from(kept[k], base);
        kept[k] = LOG != 0u ? kept[k] : e;
        sum += e;
    }
    const float unit = unit_of(group_sum(sum));
    [[unroll]] for (uint k = 0; k < KEEP; k++)
    {
        [[unroll]] for (uint i = 0; i < 4; i++) kept[k][i] = result(kept[k][i], kept[k][i], base, unit);
        if (there)
            store(y, y_at, 4 * t + 4 * THREADS * k, row.columns, kept[k]);
    }
}

float max_of_row(row_in row, uint t)
{
    float most = -HM_INFINITY;
    for (uint c = 4 * t; c < row.columns; c += 4 * THREADS)
        most = greatest(scores(row, c), most);
    return most;
}

/* Of the invocation's own partial sums. */
vec4 sum_of_row(row_in row, uint t, float base)
{
    vec4 sum, waiting[5];
    for (uint i = 0; i < ROW_SUMS / (4 * THREADS); i++) {
        precise vec4 own = vec4(0.0);
        for (uint c = 4 * t + owned_column(i); c < row.columns; c += ROW_SUMS)
            own += exp_from(scores(row, c), base);
        sum = fold(i, own, waiting);
    }
    return sum;
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. */
vec4 online(row_in row, uint t, out float most)
{
    precise vec4 sum = vec4(0.0);
    most = -HM_INFINITY;
    for (uint c = 4 * t; c < row.columns; c += 4 * THREADS) {
        vec4 s = scores(row, c);
        float next = greatest(s, most), base = base_of(next);
        if (next > most)
            sum *= exp_below(most - base);
        sum += exp_from(s, base);
        most = next;
    }
    return sum;
}

void row_read_again(row_in row, uint64_t y, uint64_t y_at, bool there, uint t)
{
    float base, most;
    precise vec4 sum;
    if (ONLINE != 0u) {
        sum = online(row, t, most);
        base = base_of(group_max(most));
        sum *= exp_below(most - base);
    } else {
        base = base_of(group_max(max_of_row(row, t)));
        sum = sum_of_row(row, t, base);
    }
    const float unit = unit_of(group_sum(sum));
    for (uint c = 4 * t; there && c < row.columns; c += 4 * THREADS) {
        vec4 s = scores(row, c), e = LOG != 0u ? s : exp_from(s, base);
        [[unroll]] for (uint i = 0; i < 4; i++) s[i] = result(s[i], e[i], base, unit);
        store(y, y_at, c, row.columns, s);
    }
}

void main()
{
    const uint t = gl_LocalInvocationID.x;
    const uint asked = (gl_WorkGroupID.x + args.group_base[0]) * ROWS + gl_LocalInvocationID.y;
    const uint r = min(asked, args.rows - 1); /* all take part in the barriers */
    const row_in row = row_in(args.span[0], args.span[1], r * JOIN(args.ldx), (r % args.mask_rows) * JOIN(args.ldmask),
                              args.columns, args.scale);
    const uint64_t y_at = r * JOIN(args.ldy);
    if (KEEP != 0u)
        row_kept(row, args.span[2], y_at, asked == r, t);
    else
        row_read_again(row, args.span[2], y_at, asked == r, t);
}
