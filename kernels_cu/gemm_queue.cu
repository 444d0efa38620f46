/* gemm_queue.cu - the GEMM with every option, and its rows as E4M3 codes with a scale each, in one kernel whose groups
 * stay on the device and take tasks from a queue. The entry's name ends with DTYPE STRICT PARTS.
 *
 * A task is a tile of D; tasks are in the order of rows. The group that finishes the last tile of TILE rows quantises
 * them: it knows from the count that it was the last, so that no group ever waits for another, and none needs to run
 * together with another (what waiting would need: Sorensen et al., "Portable inter-workgroup barrier synchronisation
 * for GPUs", 2016). */
#include "gemm_any_tile.cuh"
#include "greatest.cuh"
#include "kernel_queue.h"

/* The next number of a count, for the whole group. What its threads wrote before is there for whoever sees the count
 * (CUDA C++ Programming Guide, "Memory Fence Functions"). */
__device__ __forceinline__ uint32_t take(uint32_t *count)
{
    __shared__ uint32_t number;
    __threadfence();
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0)
        number = atomicAdd(count, 1u);
    __syncthreads();
    __threadfence();
    const uint32_t taken = number;
    __syncthreads();
    return taken;
}

/* A row of D, by all threads, as quantize_row does. */
template <bool STRICT>
__device__ __forceinline__ void quantise_row(const void *d, uint64_t first, uint32_t dtype, uint32_t n, uint8_t *codes,
                                             float *scale)
{
    const uint32_t thread = threadIdx.y * SIDE + threadIdx.x;
    uint32_t mine = 0;
    for (uint32_t column = thread; column < n; column += THREADS)
        mine = max(mine, magnitude(flush_if(STRICT, load_element(d, dtype, first + column))));
    const float by = hm_row_scale(__uint_as_float(greatest<THREADS>(mine, thread, THREADS)));
    __syncthreads();
    if (thread == 0)
        *scale = by;
    for (uint32_t column = thread; column < n; column += THREADS)
        codes[column] = (uint8_t)hm_quantize(flush_if(STRICT, load_element(d, dtype, first + column)), by);
}

template <uint32_t DTYPE, bool STRICT, uint32_t PARTS>
__device__ __forceinline__ void gemm_queue(ALL_SPANS, uint8_t *codes, float *scales, uint32_t *queue,
                                           const hal_gemm_args &args)
{
    const uint32_t columns = (args.n + TILE - 1) / TILE, blocks = (args.m + TILE - 1) / TILE;
    for (uint32_t task = take(queue + QUEUE_TASKS); task < columns * blocks; task = take(queue + QUEUE_TASKS)) {
        const uint32_t block = task / columns, end = min((block + 1) * TILE, args.m);
        const GemmPlace place = {block * TILE, task % columns * TILE, 0};
        multiply_tile<DTYPE, STRICT, PARTS>(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args, place);
        if (take(queue + QUEUE_BLOCKS + block) + 1 < columns)
            continue;
        for (uint32_t row = place.row; row < end; row++)
            quantise_row<STRICT>(d, row * HAL_JOIN64(args.ldd), GEMM_DTYPE_D(args.flags), args.n,
                                 codes + row * (uint64_t)args.n, scales + row);
    }
    /* The last group leaves the queue as it found it. */
    if (take(queue + QUEUE_DONE) + 1 == gridDim.x)
        for (uint32_t i = threadIdx.y * SIDE + threadIdx.x; i < QUEUE_BLOCKS + blocks; i += THREADS)
            queue[i] = 0;
}

#define GEMM_QUEUE(dtype, strict, parts)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS) gemm_queue__##dtype##_##strict##_##parts(                    \
        ALL_SPANS, uint8_t *codes, float *scales, uint32_t *queue, const __grid_constant__ hal_gemm_args args)         \
    {                                                                                                                  \
        gemm_queue<dtype, strict, parts>(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, codes, scales,     \
                                         queue, args);                                                                 \
    }
#define GEMM_QUEUE_TYPE(dtype)                                                                                         \
    GEMM_QUEUE(dtype, 0, 1)                                                                                            \
    GEMM_QUEUE(dtype, 0, 2)                                                                                            \
    GEMM_QUEUE(dtype, 1, 1)                                                                                            \
    GEMM_QUEUE(dtype, 1, 2)

GEMM_QUEUE_TYPE(1)
GEMM_QUEUE_TYPE(2)
GEMM_QUEUE_TYPE(3)
GEMM_QUEUE_TYPE(4)
