/* gemm_queue.cl - the GEMM with every option, and its rows as E4M3 codes with a scale each, in one kernel whose groups
 * stay on the device and take tasks from a queue. Constants: DTYPE STRICT PARTS.
 *
 * A task is a tile of D; tasks are in the order of rows. The group that finishes the last tile of TILE rows quantises
 * them: it knows from the count that it was the last, so that no group ever waits for another, and none needs to run
 * together with another (what waiting would need: Sorensen et al., "Portable inter-workgroup barrier synchronisation
 * for GPUs", 2016). */
#include "gemm_any_tile.clh"

#include "greatest.clh"

#include "kernel_queue.h"

/* The next number of a count, for the whole group. */
uint take(volatile global uint *count, local uint *shared_number)
{
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (get_local_id(0) + get_local_id(1) == 0)
        *shared_number = atomic_inc(count);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    return *shared_number;
}

/* A row of D, by all work-items, as quantize_row does. */
void quantise_row(global const uchar *d, ulong first, uint dtype, uint n, global uchar *codes, global float *scale,
                  local uint *most)
{
    const uint thread = get_local_id(1) * SIDE + get_local_id(0);
    uint mine = 0;
    for (uint column = thread; column < n; column += THREADS)
        mine = max(mine, magnitude(operand(d, dtype, first + column)));
    const float by = hm_row_scale(as_float(greatest(mine, most)));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread == 0)
        *scale = by;
    for (uint column = thread; column < n; column += THREADS)
        codes[column] = (uchar)hm_quantize(operand(d, dtype, first + column), by);
}

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) kernel void
gemm_queue(ALL_SPANS, global uchar *codes_span, ulong codes_offset, global uchar *scales_span, ulong scales_offset,
           global uchar *queue_span, ulong queue_offset, hal_gemm_args args)
{
    TILES;
    local uint number, most[THREADS];
    volatile global uint *queue = (volatile global uint *)(queue_span + queue_offset);
    const uint columns = (args.n + TILE - 1) / TILE, blocks = (args.m + TILE - 1) / TILE;
    for (uint task = take(queue, &number); task < columns * blocks; task = take(queue, &number)) {
        const uint block = task / columns, row0 = block * TILE;
        multiply_tile(ALL_FORWARD, args, 0, row0, task % columns * TILE, a_tile, b_tile);
        if (take(queue + QUEUE_BLOCKS + block, &number) + 1 < columns)
            continue;
        for (uint row = row0; row < min(row0 + TILE, args.m); row++)
            quantise_row(d_span + d_offset, row * HAL_JOIN64(args.ldd), GEMM_DTYPE_D(args.flags), args.n,
                         codes_span + codes_offset + row * (ulong)args.n,
                         (global float *)(scales_span + scales_offset) + row, most);
    }
    /* The last group leaves the queue as it found it. */
    if (take(queue + QUEUE_DONE, &number) + 1 == get_num_groups(0))
        for (uint i = get_local_id(1) * SIDE + get_local_id(0); i < QUEUE_BLOCKS + blocks; i += THREADS)
            queue[i] = 0;
}
