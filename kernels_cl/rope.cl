/* rope.cl - rotary position embedding. Constants: DTYPE INTERLEAVED HAS_IDS STRICT, as flags say, and THREADS of a
 * group (1 on CPU devices). */
#include "kernel_convert.h"
#include "rows.clh"
#pragma OPENCL FP_CONTRACT OFF

#define SPANS                                                                                                          \
    global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset, global const uchar *cos_span,    \
        ulong cos_offset, global const uchar *sin_span, ulong sin_offset, global const uchar *ids_span,                \
        ulong ids_offset

/* a c + b s */
float8 turn8(float8 a, float8 c, float8 b, float8 s)
{
    return STRICT ? hm_flush8(hm_mul8(a, c) + hm_mul8(b, s)) : a * c + b * s;
}

/* The two elements of pairs i to i + count - 1 of a head (count <= 8). */
void load_pairs(global const uchar *x, ulong at, uint i, uint count, uint pairs, float8 *first, float8 *second)
{
    if (!INTERLEAVED) {
        *first = load_part8(x, DTYPE, at + i, count, 0.0f);
        *second = load_part8(x, DTYPE, at + pairs + i, count, 0.0f);
        return;
    }
    const uint more = count > 4 ? 2 * count - 8 : 0;
    const float8 low = load_part8(x, DTYPE, at + 2 * i, min(2 * count, 8u), 0.0f);
    const float8 high = load_part8(x, DTYPE, at + 2 * i + 8, more, 0.0f);
    *first = (float8)(low.even, high.even);
    *second = (float8)(low.odd, high.odd);
}

void store_pairs(global uchar *y, ulong at, uint i, uint count, uint pairs, float8 first, float8 second)
{
    if (!INTERLEAVED) {
        store_part8(y, DTYPE, at + i, count, first);
        store_part8(y, DTYPE, at + pairs + i, count, second);
        return;
    }
    float8 low, high;
    low.even = first.lo, low.odd = second.lo;
    high.even = first.hi, high.odd = second.hi;
    store_part8(y, DTYPE, at + 2 * i, min(2 * count, 8u), low);
    store_part8(y, DTYPE, at + 2 * i + 8, count > 4 ? 2 * count - 8 : 0, high);
}

/* The row of the tables for this token. */
ulong position_of(global const uchar *ids, const hal_rope_args *args, uint token)
{
    return HAS_IDS ? (ulong)(long)((global const int *)ids)[token] : JOIN(args->first) + token;
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void rope(SPANS, hal_rope_args args)
{
    global const uchar *x = x_span + x_offset, *cosines = cos_span + cos_offset, *sines = sin_span + sin_offset;
    global uchar *y = y_span + y_offset;
    const uint token = get_group_id(1) + args.group_base[1];
    const uint head0 = (get_group_id(0) + args.group_base[0]) * args.heads_a_group;
    const uint heads = min(args.heads - head0, args.heads_a_group), pairs = args.rotary_dim / 2;
    const uint turned = (pairs + 7) / 8, steps = turned + (args.head_dim - args.rotary_dim + 7) / 8;
    const ulong position = position_of(ids_span + ids_offset, &args, token);
    const bool known = position < JOIN(args.positions);
    for (uint step = get_local_id(0); step < heads * steps; step += THREADS) {
        const uint head = head0 + step / steps, part = step % steps;
        const ulong x_at = token * JOIN(args.x_token) + head * JOIN(args.x_head);
        const ulong y_at = token * JOIN(args.y_token) + head * JOIN(args.y_head);
        if (part >= turned) {
            const uint i = args.rotary_dim + 8 * (part - turned), count = min(args.head_dim - i, 8u);
            store_part8(y, DTYPE, y_at + i, count, load_part8(x, DTYPE, x_at + i, count, 0.0f));
            continue;
        }
        const uint i = 8 * part, count = min(pairs - i, 8u);
        float8 c = NAN, s = NAN, a, b;
        if (known) {
            c = load_part8(cosines, HAL_KERNEL_F32, position * pairs + i, count, 0.0f);
            s = load_part8(sines, HAL_KERNEL_F32, position * pairs + i, count, 0.0f);
        }
        load_pairs(x, x_at, i, count, pairs, &a, &b);
        a = flush_if8(STRICT, a);
        b = flush_if8(STRICT, b);
        store_pairs(y, y_at, i, count, pairs, turn8(a, c, b, -s), turn8(b, c, a, s));
    }
}
