/* transpose.cl - elements of WIDTH bytes from one set of strides to another, see kernel_args_transpose.inc. Constants:
 * WIDTH, THREADS of a group (1 on CPU devices), TILE: the side of a tile, or the elements of one in transpose_copy,
 * where it is 2^LOG_B wide; SIDE: of the square that a group takes, tile by tile. */
#include "kernel_convert.h"
#include "rows.clh"

#define SPANS global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset

#if WIDTH == 1
typedef uchar element;
typedef uchar8 element8;
#elif WIDTH == 2
typedef ushort element;
typedef ushort8 element8;
#elif WIDTH == 4
typedef uint element;
typedef uint8 element8;
#elif WIDTH == 8
typedef uint2 element;
#else
typedef uint4 element;
#endif

/* Where the group's part of the outer axes begins. */
void start(const hal_transpose_args *args, uint rest, ulong *x, ulong *y)
{
    *x = *y = 0;
    for (uint i = 0; i < args->outer; i++) {
        const uint at = rest % args->counts[i];
        rest /= args->counts[i];
        *x += at * JOIN(&args->outer_x[2 * i]);
        *y += at * JOIN(&args->outer_y[2 * i]);
    }
}

#ifdef HAL_KERNEL_transpose
#define ROW (TILE + (THREADS == 1 ? 8 : 4 / WIDTH)) /* elements of a row of the tile: a column's lie in different banks */

/* Any part of a tile, element by element. */
void turn(global const element *x, ulong xa, ulong xb, global element *y, ulong ya, ulong yb, uint width_a,
          uint width_b, local element *tile)
{
    for (uint e = get_local_id(0); e < TILE * TILE; e += THREADS) {
        const uint b = e / TILE, a = e % TILE;
        if (a < width_a && b < width_b)
            tile[b * ROW + a] = x[a * xa + b * xb];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = get_local_id(0); e < TILE * TILE; e += THREADS) {
        const uint a = e / TILE, b = e % TILE;
        if (a < width_a && b < width_b)
            y[a * ya + b * yb] = tile[b * ROW + a];
    }
}

#if THREADS == 1
#define ZIP_LOW(p, q)   (element8)(p.s0, q.s0, p.s1, q.s1, p.s4, q.s4, p.s5, q.s5)
#define ZIP_HIGH(p, q)  (element8)(p.s2, q.s2, p.s3, q.s3, p.s6, q.s6, p.s7, q.s7)
#define PAIR_LOW(p, q)  (element8)(p.s01, q.s01, p.s45, q.s45)
#define PAIR_HIGH(p, q) (element8)(p.s23, q.s23, p.s67, q.s67)

/* A square of 8 of x to a square of the tile, turned. */
void square(global const element *x, ulong xb, local element *to)
{
    element8 r[8], s[8];
#pragma unroll
    for (uint i = 0; i < 8; i++)
        r[i] = vload8(0, x + i * xb);
#pragma unroll
    for (uint i = 0; i < 8; i += 2) {
        s[i] = ZIP_LOW(r[i], r[i + 1]);
        s[i + 1] = ZIP_HIGH(r[i], r[i + 1]);
    }
#pragma unroll
    for (uint i = 0; i < 8; i += 4) {
        r[i] = PAIR_LOW(s[i], s[i + 2]);
        r[i + 1] = PAIR_HIGH(s[i], s[i + 2]);
        r[i + 2] = PAIR_LOW(s[i + 1], s[i + 3]);
        r[i + 3] = PAIR_HIGH(s[i + 1], s[i + 3]);
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        *(local element8 *)(to + i * ROW) = (element8)(r[i].lo, r[i + 4].lo);
        *(local element8 *)(to + (i + 4) * ROW) = (element8)(r[i].hi, r[i + 4].hi);
    }
}

/* The rows of the next squares come to the second cache meanwhile: strides that are powers of two crowd the first. */
void prefetch_rows(global const element *x, ulong xb)
{
#ifdef HAS_STREAM
    for (uint i = 0; i < 8; i++)
        for (uint a = 0; a < TILE; a += 64 / WIDTH)
            __builtin_prefetch((const void *)(ulong)(x + i * xb + a), 0, 2);
#endif
}

/* Eight neighbours past the cache, where the compiler can and the address allows it. */
void stream8(global element *y, element8 value)
{
#ifdef HAS_STREAM
    if (((ulong)y & (8 * WIDTH - 1)) == 0) {
        __builtin_nontemporal_store(value, (global element8 *)y);
        return;
    }
#endif
    vstore8(value, 0, y);
}

/* A whole tile of one task, through squares in registers. */
void turn_whole(global const element *x, ulong xb, global element *y, ulong ya, local element *tile)
{
    for (uint b = 0; b < TILE; b += 8) {
        prefetch_rows(x + (b + 8) * xb, xb);
        for (uint a = 0; a < TILE; a += 8)
            square(x + b * xb + a, xb, tile + a * ROW + b);
    }
    for (uint a = 0; a < TILE; a++)
        for (uint b = 0; b < TILE; b += 8)
            stream8(y + a * ya + b, *(local element8 *)(tile + a * ROW + b));
}
#endif

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void transpose(SPANS, hal_transpose_args args)
{
    local element tile[TILE * ROW] __attribute__((aligned(64)));
    const uint b0 = (get_group_id(0) + args.group_base[0]) * SIDE, a0 = (get_group_id(1) + args.group_base[1]) * SIDE;
    const uint end_a = min(args.count_a - a0, (uint)SIDE), end_b = min(args.count_b - b0, (uint)SIDE);
    const ulong xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    ulong x0, y0;
    start(&args, get_group_id(2) + args.group_base[2], &x0, &y0);
    for (uint a = 0; a < end_a; a += TILE) {
        for (uint b = 0; b < end_b; b += TILE) {
            const uint width_a = min(end_a - a, (uint)TILE), width_b = min(end_b - b, (uint)TILE);
            global const element *x = (global const element *)(x_span + x_offset) + x0 + (a0 + a) * xa + (b0 + b) * xb;
            global element *y = (global element *)(y_span + y_offset) + y0 + (a0 + a) * ya + (b0 + b) * yb;
#if THREADS == 1
            if (xa == 1 && yb == 1 && width_a == TILE && width_b == TILE) {
                turn_whole(x, xb, y, ya, tile);
                continue;
            }
#endif
            turn(x, xa, xb, y, ya, yb, width_a, width_b, tile);
        }
    }
}
#endif

#ifdef HAL_KERNEL_transpose_copy
/* Past the cache, where that pays. */
void move(global element *to, element value)
{
#ifdef HAS_STREAM
    if (THREADS == 1 && WIDTH == 16) {
        __builtin_nontemporal_store(value, to);
        return;
    }
#endif
    *to = value;
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void transpose_copy(SPANS, hal_transpose_args args)
{
    global const element *x = (global const element *)(x_span + x_offset);
    global element *y = (global element *)(y_span + y_offset);
    const uint rows = TILE >> LOG_B, columns = 1u << LOG_B;
    const uint a0 = (get_group_id(1) + args.group_base[1]) * rows,
               b0 = (get_group_id(0) + args.group_base[0]) * columns;
    const ulong xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    ulong x0, y0;
    start(&args, get_group_id(2) + args.group_base[2], &x0, &y0);
    if (THREADS == 1) {
        const uint end_a = min(args.count_a - a0, rows) + a0, end_b = min(args.count_b - b0, columns) + b0;
        for (uint a = a0; a < end_a; a++)
            for (uint b = b0; b < end_b; b++)
                move(&y[y0 + a * ya + b * yb], x[x0 + a * xa + b * xb]);
        return;
    }
    for (uint e = get_local_id(0); e < TILE; e += THREADS) {
        const uint a = a0 + (e >> LOG_B), b = b0 + (e & (columns - 1));
        if (a < args.count_a && b < args.count_b)
            move(&y[y0 + a * ya + b * yb], x[x0 + a * xa + b * xb]);
    }
}
#endif
