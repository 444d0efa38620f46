/* transpose.cu - elements of one width from one set of strides to another, see kernel_args_transpose.inc. A group of
 * THREADS turns a square of TILE, or moves COPY elements, 2^log_b along axis b. */
#include "kernel_convert.h"
#include "rows.cuh"

#define THREADS 256
#define TILE    32
#define COPY    1024

/* Where the group's part of the outer axes begins. */
__device__ __forceinline__ void start(const hal_transpose_args &args, uint32_t rest, uint64_t *x, uint64_t *y)
{
    *x = *y = 0;
    for (uint32_t i = 0; i < args.outer; i++) {
        const uint32_t at = rest % args.counts[i];
        rest /= args.counts[i];
        *x += at * HAL_JOIN64(&args.outer_x[2 * i]);
        *y += at * HAL_JOIN64(&args.outer_y[2 * i]);
    }
}

template <typename element>
__device__ __forceinline__ void turn(const element *x, element *y, const hal_transpose_args &args)
{
    __shared__ element tile[TILE][TILE + 4 / sizeof(element)]; /* a column's elements lie in different banks */
    const uint32_t b0 = (blockIdx.x + args.group_base[0]) * TILE, a0 = (blockIdx.y + args.group_base[1]) * TILE;
    const uint32_t width_a = min(args.count_a - a0, TILE), width_b = min(args.count_b - b0, TILE);
    const uint64_t xa = HAL_JOIN64(args.xa), xb = HAL_JOIN64(args.xb), ya = HAL_JOIN64(args.ya),
                   yb = HAL_JOIN64(args.yb);
    uint64_t x0, y0;
    start(args, blockIdx.z + args.group_base[2], &x0, &y0);
    x += x0 + a0 * xa + b0 * xb;
    y += y0 + a0 * ya + b0 * yb;
#pragma unroll 4
    for (uint32_t e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
        const uint32_t b = e / TILE, a = e % TILE;
        if (a < width_a && b < width_b)
            tile[b][a] = x[a * xa + b * xb];
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
        const uint32_t a = e / TILE, b = e % TILE;
        if (a < width_a && b < width_b)
            y[a * ya + b * yb] = tile[b][a];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const void *x, void *y, const __grid_constant__ hal_transpose_args args)
{
    if (args.width == 4)
        turn((const uint32_t *)x, (uint32_t *)y, args);
    else if (args.width == 2)
        turn((const uint16_t *)x, (uint16_t *)y, args);
    else
        turn((const uint8_t *)x, (uint8_t *)y, args);
}

template <typename element>
__device__ __forceinline__ void move(const element *x, element *y, const hal_transpose_args &args)
{
    const uint32_t a0 = (blockIdx.y + args.group_base[1]) * (COPY >> args.log_b);
    const uint32_t b0 = (blockIdx.x + args.group_base[0]) << args.log_b;
    const uint64_t xa = HAL_JOIN64(args.xa), xb = HAL_JOIN64(args.xb), ya = HAL_JOIN64(args.ya),
                   yb = HAL_JOIN64(args.yb);
    uint64_t x0, y0;
    start(args, blockIdx.z + args.group_base[2], &x0, &y0);
#pragma unroll 4
    for (uint32_t e = threadIdx.x; e < COPY; e += blockDim.x) {
        const uint32_t a = a0 + (e >> args.log_b), b = b0 + (e & ((1u << args.log_b) - 1));
        if (a < args.count_a && b < args.count_b)
            y[y0 + a * ya + b * yb] = x[x0 + a * xa + b * xb];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose_copy(const void *x, void *y, const __grid_constant__ hal_transpose_args args)
{
    switch (args.width) {
    case 16:
        return move((const uint4 *)x, (uint4 *)y, args);
    case 8:
        return move((const uint2 *)x, (uint2 *)y, args);
    case 4:
        return move((const uint32_t *)x, (uint32_t *)y, args);
    case 2:
        return move((const uint16_t *)x, (uint16_t *)y, args);
    default:
        return move((const uint8_t *)x, (uint8_t *)y, args);
    }
}
