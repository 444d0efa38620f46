/* gemm_any_tile.cuh - one tile of the GEMM with every option. PARTS is 2 for SwiGLU: the gate's sums, then those it is
 * multiplied by.
 *
 * One thread computes MICRO x MICRO elements, k ascending, one accumulator for each. The shared tiles are k-major;
 * edges are filled with zeros. */
#ifndef HAL_GEMM_ANY_TILE_CUH
#define HAL_GEMM_ANY_TILE_CUH

#include "gemm_any.cuh"

static const uint32_t TILE = 32; /* rows and columns of D */
static const uint32_t DEPTH = 16;
static const uint32_t MICRO = 4;
static const uint32_t SIDE = TILE / MICRO;
static const uint32_t THREADS = SIDE * SIDE;
static const uint32_t PITCH = TILE + 4;

/* The tile at a place. Shared memory may be used again after a barrier. */
template <uint32_t DTYPE, bool STRICT, uint32_t PARTS>
__device__ __forceinline__ void multiply_tile(ALL_SPANS, const hal_gemm_args &args, const GemmPlace &place)
{
    __shared__ __align__(16) float a_tile[DEPTH][PITCH];
    __shared__ float b_tile[PARTS][DEPTH][PITCH];
    typedef AnyOutput<STRICT, PARTS> Output;
    const uint32_t tx = threadIdx.x, ty = threadIdx.y, thread = ty * SIDE + tx;
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0, trans_b = (args.flags & GEMM_TRANS_B) != 0;
    const bool alternate = (args.flags & GEMM_INTERLEAVED) != 0;
    const uint64_t lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const uint64_t a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    const uint64_t b_next = trans_b ? ldb : 1, b_k = trans_b ? 1 : ldb, b_column = b_next * (alternate ? 2 : 1);
    const uint64_t a_first = place.problem * HAL_JOIN64(args.stride_a);
    const uint64_t b_first = place.problem * HAL_JOIN64(args.stride_b);

    float sum[MICRO][MICRO][PARTS] = {};
#pragma unroll 1
    for (uint32_t k0 = 0; k0 < args.k; k0 += DEPTH) {
#pragma unroll
        for (uint32_t item = thread; item < TILE * DEPTH; item += THREADS) {
            const uint32_t i = trans_a ? item % TILE : item / DEPTH, k = trans_a ? item / TILE : item % DEPTH;
            float v = 0.0f;
            if (place.row + i < args.m && k0 + k < args.k)
                v = Output::operand(a, DTYPE, a_first + (place.row + i) * a_row + (k0 + k) * a_k);
            a_tile[k][i] = v;
        }
#pragma unroll
        for (uint32_t part = 0; part < PARTS; part++) {
            const void *matrix = part && !alternate ? up : b;
            const uint64_t first = b_first + (part && alternate ? b_next : 0);
#pragma unroll
            for (uint32_t item = thread; item < TILE * DEPTH; item += THREADS) {
                const uint32_t j = trans_b ? item / DEPTH : item % TILE, k = trans_b ? item % DEPTH : item / TILE;
                float v = 0.0f;
                if (place.column + j < args.n && k0 + k < args.k)
                    v = Output::operand(matrix, DTYPE, first + (place.column + j) * b_column + (k0 + k) * b_k);
                b_tile[part][k][j] = v;
            }
        }
        __syncthreads();
#pragma unroll 4
        for (uint32_t k = 0; k < DEPTH; k++) {
            const float4 four = *(const float4 *)&a_tile[k][ty * MICRO];
            const float x[MICRO] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (uint32_t part = 0; part < PARTS; part++)
#pragma unroll
                for (uint32_t j = 0; j < MICRO; j++) {
                    const float y = b_tile[part][k][j * SIDE + tx];
#pragma unroll
                    for (uint32_t i = 0; i < MICRO; i++) {
                        float &to = sum[i][j][part];
                        to = STRICT ? hm_add_product(to, x[i], y) : fmaf(x[i], y, to);
                    }
                }
        }
        __syncthreads();
    }

    /* Through shared memory: registers cannot be indexed at run time, and one epilogue in a loop is little code. */
    const Output output(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args, place.problem);
    float *held = &a_tile[0][0] + thread;
    static_assert(DEPTH * PITCH >= MICRO * PARTS * THREADS, "a row of sums fits");
#pragma unroll 1
    for (uint32_t i = 0; i < MICRO; i++) {
#pragma unroll
        for (uint32_t row = 0; row < MICRO; row++)
#pragma unroll
            for (uint32_t at = 0; at < MICRO * PARTS; at++)
                if (row == i)
                    held[at * THREADS] = sum[row][at / PARTS][at % PARTS];
#pragma unroll 1
        for (uint32_t j = 0; j < MICRO; j++) {
            const uint32_t row = place.row + ty * MICRO + i, column = place.column + j * SIDE + tx;
            float value[PARTS];
#pragma unroll
            for (uint32_t part = 0; part < PARTS; part++)
                value[part] = held[(j * PARTS + part) * THREADS];
            if (row < args.m && column < args.n)
                output.finish(row, column, value);
        }
    }
}

#endif
