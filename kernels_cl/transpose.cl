/* transpose.cl - elements of WIDTH bytes from one set of strides to another, see kernel_args_transpose.inc. Constants:
 * WIDTH, THREADS of a group (1 on CPU devices), TILE: the side of a tile, or the elements of one in transpose_copy,
 * where it is 2^LOG_B wide. */
#include "kernel_convert.h"

#define JOIN  HAL_JOIN64
#define SPANS global const uchar *x_span, ulong x_offset, global uchar *y_span, ulong y_offset

#if WIDTH == 1
typedef uchar element;
#elif WIDTH == 2
typedef ushort element;
#elif WIDTH == 4
typedef uint element;
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
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void transpose(SPANS, hal_transpose_args args)
{
    local element tile[TILE][TILE + 1]; /* a column's elements lie in different banks */
    global const element *x = (global const element *)(x_span + x_offset);
    global element *y = (global element *)(y_span + y_offset);
    const uint b0 = (get_group_id(0) + args.group_base[0]) * TILE, a0 = (get_group_id(1) + args.group_base[1]) * TILE;
    const uint width_a = min(args.count_a - a0, (uint)TILE), width_b = min(args.count_b - b0, (uint)TILE);
    const ulong xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    ulong x0, y0;
    start(&args, get_group_id(2) + args.group_base[2], &x0, &y0);
    x += x0 + a0 * xa + b0 * xb;
    y += y0 + a0 * ya + b0 * yb;
    for (uint e = get_local_id(0); e < TILE * TILE; e += THREADS) {
        const uint b = e / TILE, a = e % TILE;
        if (a < width_a && b < width_b)
            tile[b][a] = x[a * xa + b * xb];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint e = get_local_id(0); e < TILE * TILE; e += THREADS) {
        const uint a = e / TILE, b = e % TILE;
        if (a < width_a && b < width_b)
            y[a * ya + b * yb] = tile[b][a];
    }
}
#endif

#ifdef HAL_KERNEL_transpose_copy
__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void transpose_copy(SPANS, hal_transpose_args args)
{
    global const element *x = (global const element *)(x_span + x_offset);
    global element *y = (global element *)(y_span + y_offset);
    const uint a0 = (get_group_id(1) + args.group_base[1]) * (TILE >> LOG_B);
    const uint b0 = (get_group_id(0) + args.group_base[0]) << LOG_B;
    const ulong xa = JOIN(args.xa), xb = JOIN(args.xb), ya = JOIN(args.ya), yb = JOIN(args.yb);
    ulong x0, y0;
    start(&args, get_group_id(2) + args.group_base[2], &x0, &y0);
    for (uint e = get_local_id(0); e < TILE; e += THREADS) {
        const uint a = a0 + (e >> LOG_B), b = b0 + (e & ((1u << LOG_B) - 1));
        if (a < args.count_a && b < args.count_b)
            y[y0 + a * ya + b * yb] = x[x0 + a * xa + b * xb];
    }
}
#endif
