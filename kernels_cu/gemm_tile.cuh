/* gemm_tile.cuh - the work-group GEMM with FP32 FMA: a TILE_M x TILE_N tile a group, MICRO_M x MICRO_N sums a thread.
 *
 * Two buffers of shared memory hold TILE_K slices of A and B widened to FP32, each k a row of consecutive m (or n), so
 * that a thread reads its rows and columns as float4. While one slice is multiplied the next is on its way from global
 * memory in registers. All reads of A and B are element by element, neighbouring threads on neighbouring addresses:
 * right at any alignment, and few beside the FMAs. */
#ifndef HAL_GEMM_TILE_CUH
#define HAL_GEMM_TILE_CUH

#include "gemm_common.cuh"

/* One operand's slices: EXTENT rows (of A) or columns (of B) by DEPTH of k. DEEP: k is contiguous in memory. What lies
 * outside the matrix is zero. */
template <class TYPE, bool DEEP, int EXTENT, int DEPTH, int THREADS> struct GemmSlice {
    static const int ROW = EXTENT + 4; /* floats; the gap spreads the banks of the transposing stores */
    static const int COUNT = EXTENT * DEPTH / THREADS;
    static const int STEP = THREADS / (DEEP ? DEPTH : EXTENT);
    typedef typename TYPE::bits bits;

    const bits *next; /* this thread's first element of the next slice */
    uint64_t step;    /* elements from one of its elements to the next */
    uint32_t depth;   /* of its first element in a slice; beyond any where all its columns lie outside */
    uint32_t inside;  /* DEEP: bit i tells that its i-th row lies inside */
    float *place;     /* of its first element in the slice at offset 0 */
    bits held[COUNT];

    __device__ __forceinline__ GemmSlice(const bits *matrix, uint64_t ld, uint32_t first, uint32_t size,
                                         uint32_t thread, float *shared)
        : step(STEP * ld), depth(DEEP ? thread % DEPTH : thread / EXTENT), inside(0)
    {
        const uint32_t extent = DEEP ? thread / DEPTH : thread % EXTENT, limit = size - first;
        next = DEEP ? matrix + (uint64_t)(first + extent) * ld + depth : matrix + depth * ld + first + extent;
        place = shared + depth * ROW + extent;
#pragma unroll
        for (int i = 0; DEEP && i < COUNT; i++)
            inside |= (extent + i * STEP < limit ? 1u : 0u) << i;
        if (!DEEP && extent >= limit)
            depth = 0x80000000u;
    }

    /* `left` is what of k is left at this slice. */
    __device__ __forceinline__ void fetch(uint32_t left)
    {
        left = min(left, (uint32_t)DEPTH);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const bool here = DEEP ? depth < left && (inside >> i & 1u) : depth + i * STEP < left;
            held[i] = here ? next[i * step] : bits(0);
        }
        next += DEEP ? DEPTH : COUNT * step;
    }

    __device__ __forceinline__ void keep(uint32_t offset) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            place[offset + i * STEP * (DEEP ? 1 : ROW)] = TYPE::widen(held[i]);
    }
};

/* Element i of a thread's MICRO: groups of four neighbours, the groups spread over the tile. */
template <int TILE, int MICRO> __device__ __forceinline__ constexpr int gemm_spread(int i)
{
    return i / 4 * (TILE / (MICRO / 4)) + i % 4;
}

template <int TILE, int MICRO> __device__ __forceinline__ void gemm_take(float (&value)[MICRO], const float *row)
{
#pragma unroll
    for (int i = 0; i < MICRO; i += 4) {
        const float4 four = *(const float4 *)(row + gemm_spread<TILE, MICRO>(i));
        value[i] = four.x, value[i + 1] = four.y, value[i + 2] = four.z, value[i + 3] = four.w;
    }
}

template <class TYPE, bool TRANS_A, bool TRANS_B, int TILE_M, int TILE_N, int TILE_K, int MICRO_M, int MICRO_N>
__device__ __forceinline__ void gemm_tile(GEMM_PARAMETERS)
{
    const int THREADS = TILE_M / MICRO_M * (TILE_N / MICRO_N);
    const int UNROLL = MICRO_M * MICRO_N >= 64 ? 1 : 4; /* two groups of 256 threads leave 128 registers */
    typedef GemmSlice<TYPE, !TRANS_A, TILE_M, TILE_K, THREADS> SliceA;
    typedef GemmSlice<TYPE, TRANS_B, TILE_N, TILE_K, THREADS> SliceB;
    const int SLICE_A = TILE_K * SliceA::ROW, SLICES = SLICE_A + TILE_K * SliceB::ROW;
    static_assert(2 * SLICES >= 4 * MICRO_N * THREADS, "the epilogue's rows fit");
    __shared__ __align__(16) float shared[2 * SLICES];

    const uint32_t thread = threadIdx.y * (TILE_N / MICRO_N) + threadIdx.x;
    const GemmPlace place = gemm_place(args, TILE_M, TILE_N);
    __shared__ GemmPlace kept; /* for the epilogue: registers are short in between */
    if (thread == 0)
        kept = place;
    SliceA slice_a(gemm_operand<typename TYPE::bits>(a, args.stride_a, place.problem), HAL_JOIN64(args.lda), place.row,
                   args.m, thread, shared);
    SliceB slice_b(gemm_operand<typename TYPE::bits>(b, args.stride_b, place.problem), HAL_JOIN64(args.ldb),
                   place.column, args.n, thread, shared + SLICE_A);

    float sum[MICRO_M][MICRO_N] = {};
    if (args.k) {
        slice_a.fetch(args.k);
        slice_b.fetch(args.k);
        slice_a.keep(0);
        slice_b.keep(0);
        __syncthreads();
    }
    uint32_t current = 0; /* the slices that are multiplied: at 0 or at SLICES */
    for (uint32_t left = args.k; left; current = SLICES - current) {
        left -= min(left, (uint32_t)TILE_K);
        if (left) {
            slice_a.fetch(left);
            slice_b.fetch(left);
        }
        const float *row_a = shared + current + threadIdx.y * 4, *row_b = shared + current + SLICE_A + threadIdx.x * 4;
#pragma unroll(UNROLL)
        for (int k = 0; k < TILE_K; k++) {
            float part_a[MICRO_M], part_b[MICRO_N];
            gemm_take<TILE_M>(part_a, row_a + k * SliceA::ROW);
            gemm_take<TILE_N>(part_b, row_b + k * SliceB::ROW);
#pragma unroll
            for (int i = 0; i < MICRO_M; i++)
#pragma unroll
                for (int j = 0; j < MICRO_N; j++)
                    sum[i][j] = fmaf(part_a[i], part_b[j], sum[i][j]);
        }
        if (left) {
            slice_a.keep(SLICES - current);
            slice_b.keep(SLICES - current);
        }
        __syncthreads();
    }

    if (args.k == 0)
        __syncthreads();
    /* Through this thread's own part of shared memory, four rows at a time: registers cannot be indexed at run time,
     * and one epilogue in a loop is a tenth of the code of one for each sum. */
    const GemmOutput output(args, c, d, bias, residual, kept.problem);
    const int FOURS = MICRO_N / 4;
    float4 *held = (float4 *)shared + thread;
#pragma unroll 1
    for (uint32_t first = 0; first < MICRO_M; first += 4) {
#pragma unroll
        for (int i = 0; i < MICRO_M; i++)
#pragma unroll
            for (int j = 0; j < FOURS; j++)
                if (first == i / 4 * 4)
                    held[(i % 4 * FOURS + j) * THREADS] =
                        make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
#pragma unroll 1
        for (uint32_t i = 0; i < 4 * FOURS; i++) {
            const float4 four = held[i * THREADS];
            float value[4] = {four.x, four.y, four.z, four.w};
            output.finish(kept.row + threadIdx.y * 4 + gemm_spread<TILE_M, MICRO_M>(first + i / FOURS),
                          kept.column + threadIdx.x * 4 + gemm_spread<TILE_N, MICRO_N>(i % FOURS * 4), value);
        }
    }
}

#endif
