/* gemm_queue.comp - the GEMM with every option, and its rows as E4M3 codes with a scale each, in one kernel whose groups
 * stay on the device and take tasks from a queue. Constants: DTYPE STRICT PARTS.
 *
 * A task is a tile of D; tasks are in the order of rows. The group that finishes the last tile of TILE rows quantises
 * them: it knows from the count that it was the last, so that no group ever waits for another, and none needs to run
 * together with another (what waiting would need: Sorensen et al., "Portable inter-workgroup barrier synchronisation for
 * GPUs", 2016). */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define GEMM_SPANS 13
#define NUMERICS_COHERENT coherent /* D is read by other groups than have written it */
#include "gemm_any_tile.glsl"
#include "greatest.glsl"
#include "kernel_queue.h"

#define SPAN_CODES 10
#define SPAN_SCALES 11
#define SPAN_QUEUE 12

layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer ref_count {
    uint value;
};

shared uint number;

/* The next number of a count, for the whole group. */
uint take(uint index)
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0u)
        number = atomicAdd(ref_count(args.span[SPAN_QUEUE] + uint64_t(index) * 4).value, 1u);
    barrier();
    memoryBarrierBuffer();
    return number;
}

/* A row of D, by all invocations, as quantize_row does. */
void quantise_row(uint row)
{
    const uint thread = gl_LocalInvocationIndex, n = args.n, dtype = GEMM_DTYPE_D(args.flags);
    const uint64_t d = args.span[SPAN_D], first = row * JOIN64(args.ldd);
    uint mine = 0u;
    for (uint column = thread; column < n; column += THREADS)
        mine = max(mine, magnitude(operand(d, dtype, first + column)));
    const float by = hm_row_scale(uintBitsToFloat(greatest(mine)));
    barrier();
    if (thread == 0u)
        ref_f32(args.span[SPAN_SCALES] + uint64_t(row) * 4).value = by;
    const uint64_t codes = args.span[SPAN_CODES] + uint64_t(row) * n;
    for (uint column = thread; column < n; column += THREADS)
        ref_u8(codes + column).value = uint8_t(hm_quantize(operand(d, dtype, first + column), by));
}

void main()
{
    const uint columns = (args.n + TILE - 1) / TILE, blocks = (args.m + TILE - 1) / TILE;
    for (uint task = take(QUEUE_TASKS); task < columns * blocks; task = take(QUEUE_TASKS)) {
        const uint block_row = task / columns, row0 = block_row * TILE;
        multiply_tile(0, row0, task % columns * TILE);
        if (take(QUEUE_BLOCKS + block_row) + 1 == columns)
            for (uint row = row0; row < min(row0 + TILE, args.m); row++)
                quantise_row(row);
    }
    /* The last group leaves the queue as it found it. */
    if (take(QUEUE_DONE) + 1 == gl_NumWorkGroups.x)
        for (uint i = gl_LocalInvocationIndex; i < QUEUE_BLOCKS + blocks; i += THREADS)
            ref_count(args.span[SPAN_QUEUE] + uint64_t(i) * 4).value = 0u;
}
