/* gemm_mma.cuh - the tensor-core GEMM for FP16 and BF16 with FP32 sums: cp.async, ldmatrix and mma.sync, sm_80 and up.
 *
 * A group makes a TILE_M x TILE_N tile, each warp WARP_M x WARP_N of it. TILE_K slices of A and B lie in a ring of
 * STAGES in shared memory as they lie in global memory, so one of k and m (or n) is contiguous; ldmatrix transposes
 * where the fragment wants the other. Shared rows have no gaps: their 16-byte chunks are permuted by an exclusive or
 * with the row, so that neither the copies nor ldmatrix meet bank conflicts. An operand whose address, leading
 * dimension or batch stride is not a multiple of 16 bytes is copied element by element instead of by cp.async. */
#ifndef HAL_GEMM_MMA_CUH
#define HAL_GEMM_MMA_CUH

#include "gemm_common.cuh"
#include "mma.cuh"

/* One operand's part of a stage: EXTENT rows of A (or columns of B) by DEPTH of k. DEEP: k is contiguous. CUT: lines
 * are cut into parts of 128 bytes, the same part of all lines together (wgmma.cuh). */
template <bool DEEP, int EXTENT, int DEPTH, int THREADS, bool CUT = false> struct MmaSlice {
    static const int LINE = DEEP ? DEPTH : EXTENT; /* contiguous elements */
    static const int LINES = DEEP ? EXTENT : DEPTH;
    static const int CHUNKS = LINE / 8;                /* of 16 bytes, in a line */
    static const int COUNT = LINES * CHUNKS / THREADS; /* chunks a thread copies */
    static const int STEP = THREADS / CHUNKS;          /* lines between them */
    static const int BYTES = LINE * LINES * 2;
    static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "the permutation is for lines of 64 bytes or multiples of 128");
    static_assert(THREADS % CHUNKS == 0 && COUNT * THREADS == LINES * CHUNKS, "threads share the chunks evenly");

    const uint16_t *next; /* this thread's first chunk of the next slice */
    uint64_t ld;
    uint32_t line, column; /* of that chunk in a slice */
    uint32_t limit;        /* rows or columns of the matrix from the tile on */
    uint32_t apart;        /* lines of the matrix between this thread's */
    bool wide;             /* cp.async can copy it */

    /* Byte offset of a chunk. Eight lines at the same chunk, or eight chunks of a line, fall on all 32 banks. */
    static __device__ __forceinline__ uint32_t at(uint32_t line_, uint32_t chunk)
    {
        if (CUT)
            return (chunk / 8 * LINES + line_) * 128 + (((chunk ^ line_) & 7) << 4);
        return line_ * (LINE * 2) + ((chunk ^ (CHUNKS == 4 ? line_ >> 1 & 3 : line_ & 7)) << 4);
    }

    __device__ __forceinline__ MmaSlice(const uint16_t *matrix, uint64_t ld_, uint32_t first, uint32_t size)
        : ld(ld_), line(threadIdx.x / CHUNKS), column(threadIdx.x % CHUNKS * 8), limit(size - first), apart(STEP)
    {
        next = DEEP ? matrix + (uint64_t)(first + line) * ld + column : matrix + line * ld + first + column;
        wide = (((uintptr_t)matrix | ld * 2) & 15) == 0;
    }

    /* Start copying the next slice; `left` of k are left at it. Outside the matrix there are zeros. */
    __device__ __forceinline__ void fetch(uint32_t stage, uint32_t left)
    {
        const uint32_t lines = DEEP ? limit : left, columns = DEEP ? left : limit;
        const uint32_t count = column < columns ? min(columns - column, 8u) : 0;
        if (wide && CUT) {
            copy_cut(stage + at(line, column / 8), lines, count);
        } else if (wide) {
#pragma unroll
            for (uint32_t i = 0; i < COUNT; i++) {
                const uint32_t here = line + i * apart < lines ? count : 0;
                copy_async(stage + at(line + i * STEP, column / 8), here ? next + i * apart * ld : next, here * 2);
            }
        } else {
#pragma unroll 1
            for (uint32_t i = 0; i < COUNT; i++)
                copy_elements(stage + at(line + i * STEP, column / 8), next + i * apart * ld,
                              line + i * apart < lines ? count : 0);
        }
        next += DEEP ? DEPTH : DEPTH * ld;
    }

  private:
    /* With few registers and instructions: four lines on, the permutation has its third bit the other way round. */
    __device__ __forceinline__ void copy_cut(uint32_t to, uint32_t lines, uint32_t count)
    {
        static_assert(!CUT || STEP % 4 == 0, "the permutation's lower bits stay");
        const uint16_t *from = next;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++, from += STEP * ld)
            copy_async((to ^ (i * STEP & 4) << 4) + i * STEP * 128, from, line + i * STEP < lines ? count * 2 : 0);
    }

    static __device__ __forceinline__ void copy_elements(uint32_t to, const uint16_t *from, uint32_t count)
    {
        uint32_t pair[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t low = 2 * i < count ? from[2 * i] : 0, high = 2 * i + 1 < count ? from[2 * i + 1] : 0;
            pair[i] = low | high << 16;
        }
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pair[0]), "r"(pair[1]), "r"(pair[2]),
                     "r"(pair[3])
                     : "memory");
    }
};

/* The sums of a warp's tile go through the warp's part of shared memory, 16 rows at a time, so that a thread gets four
 * neighbouring columns and a warp writes whole lines. 32-byte parts of a row are permuted against bank conflicts. */
template <int WARP_N> __device__ __forceinline__ uint32_t mma_place(uint32_t row, uint32_t column)
{
    return row * WARP_N + (column ^ (row & 3) * 8);
}

/* In assembly because the compiler may split a float2. */
__device__ __forceinline__ void store_pair(uint32_t to, float x, float y)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}

/* 16 rows of a warp's sums to those from `to` on. */
template <int WARP_N, int BLOCKS> __device__ __forceinline__ void mma_keep(const float (&sum)[BLOCKS][4], uint32_t to)
{
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        const uint32_t low = to + 4 * mma_place<WARP_N>(lane / 4, j * 8 + lane % 4 * 2);
        store_pair(low, sum[j][0], sum[j][1]);
        store_pair(low + 4 * 8 * WARP_N, sum[j][2], sum[j][3]);
    }
}

template <int WARP_M, int WARP_N>
__device__ __forceinline__ void mma_finish(const GemmOutput &output, const float (&sum)[WARP_M / 16][WARP_N / 8][4],
                                           float *held, uint32_t row, uint32_t column)
{
    const uint32_t lane = threadIdx.x % 32, to = shared_address(held);
#pragma unroll 1
    for (uint32_t block = 0; block < WARP_M / 16; block++) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
            if (block == (uint32_t)i)
                mma_keep<WARP_N>(sum[i], to);
        __syncwarp();
#pragma unroll 1
        for (uint32_t i = lane * 4; i < 16 * WARP_N; i += 128) {
            const float4 four = *(const float4 *)(held + mma_place<WARP_N>(i / WARP_N, i % WARP_N));
            float value[4] = {four.x, four.y, four.z, four.w};
            output.finish(row + block * 16 + i / WARP_N, column + i % WARP_N, value);
        }
    }
}

/* A warp's part of the products of two slices that lie in shared memory as MmaSlice has them.
 *
 * ldmatrix takes the address of one of 32 lines from each lane: of the four 8 x 8 matrices, lanes 8q .. 8q + 7 give the
 * q-th. In A's fragment the second matrix is 8 rows on and the third 8 of k; in B's, for two blocks of columns, the
 * second is 8 of k on and the third 8 columns. */
template <bool TRANS_A, bool TRANS_B, class SLICE_A, class SLICE_B> struct MmaWarp {
    uint32_t row_a, depth_a, column_b, depth_b;

    __device__ __forceinline__ MmaWarp(uint32_t row, uint32_t column)
    {
        const uint32_t lane = threadIdx.x % 32, eighth = lane % 8, odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
        row_a = row + odd + (TRANS_A ? 0 : eighth), depth_a = upper + (TRANS_A ? eighth : 0);
        column_b = column + upper + (TRANS_B ? eighth : 0), depth_b = odd + (TRANS_B ? 0 : eighth);
    }

    /* 16 of k, from 16 `step` on; `a`, `b`: where the slices lie. */
    template <class TYPE, int ROWS, int BLOCKS>
    __device__ __forceinline__ void multiply_step(TYPE type, float (&sum)[ROWS][BLOCKS][4], uint32_t a, uint32_t b,
                                                  int step) const
    {
        uint32_t part_a[ROWS][4], part_b[BLOCKS / 2][4];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const uint32_t row = row_a + i * 16, depth = depth_a + step * 16;
            load_matrices<TRANS_A>(part_a[i],
                                   a + (TRANS_A ? SLICE_A::at(depth, row / 8) : SLICE_A::at(row, depth / 8)));
        }
#pragma unroll
        for (int j = 0; j < BLOCKS / 2; j++) {
            const uint32_t column = column_b + j * 16, depth = depth_b + step * 16;
            load_matrices<!TRANS_B>(part_b[j],
                                    b + (TRANS_B ? SLICE_B::at(column, depth / 8) : SLICE_B::at(depth, column / 8)));
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < BLOCKS; j++)
                multiply(type, sum[i][j], part_a[i], &part_b[j / 2][j % 2 * 2]);
    }
};

/* The products of a tile. `finish` is given the sums of a warp, where they are in the tile, and shared memory, all of
 * which is free. */
template <class TYPE, bool TRANS_A, bool TRANS_B, int TILE_M, int TILE_N, int TILE_K, int WARP_M, int WARP_N,
          int STAGES, class SLICE_A, class SLICE_B, class FINISH>
__device__ __forceinline__ void mma_tile(SLICE_A slice_a, SLICE_B slice_b, uint32_t k, const FINISH &finish)
{
    const int WARPS_M = TILE_M / WARP_M;
    const uint32_t STAGE = SLICE_A::BYTES + SLICE_B::BYTES;
    extern __shared__ __align__(128) uint8_t gemm_shared[];

    const uint32_t ring = shared_address(gemm_shared);
    const uint32_t warp = threadIdx.x / 32;
    const uint32_t warp_row = warp % WARPS_M * WARP_M, warp_column = warp / WARPS_M * WARP_N;
    const MmaWarp<TRANS_A, TRANS_B, SLICE_A, SLICE_B> products(warp_row, warp_column);

    const uint32_t slices = (k + TILE_K - 1) / TILE_K;
#pragma unroll 1
    for (uint32_t s = 0; s < STAGES - 1; s++) {
        if (s < slices) {
            slice_a.fetch(ring + s * STAGE, k - s * TILE_K);
            slice_b.fetch(ring + s * STAGE + SLICE_A::BYTES, k - s * TILE_K);
        }
        copy_async_commit(); /* empty at the end, so that the count below stays right */
    }

    float sum[WARP_M / 16][WARP_N / 8][4] = {};
    uint32_t stage = ring, free_stage = ring + (STAGES - 1) * STAGE;
    for (uint32_t s = 0; s < slices; s++) {
        copy_async_wait<STAGES - 2>();
        __syncthreads(); /* slice s is there for all, and all are done with the stage that is filled next */
        if (s + STAGES - 1 < slices) {
            slice_a.fetch(free_stage, k - (s + STAGES - 1) * TILE_K);
            slice_b.fetch(free_stage + SLICE_A::BYTES, k - (s + STAGES - 1) * TILE_K);
        }
        copy_async_commit();
        free_stage = stage;
#pragma unroll
        for (int step = 0; step < TILE_K / 16; step++)
            products.multiply_step(TYPE(), sum, stage, stage + SLICE_A::BYTES, step);
        stage = stage + STAGE == ring + STAGES * STAGE ? ring : stage + STAGE;
    }

    copy_async_wait<0>();
    __syncthreads(); /* the ring is free: the epilogue uses it */
    finish(sum, (float *)gemm_shared, warp_row, warp_column);
}

template <class TYPE, bool TRANS_A, bool TRANS_B, int TILE_M, int TILE_N, int TILE_K, int WARP_M, int WARP_N,
          int STAGES>
__device__ __forceinline__ void gemm_mma(GEMM_PARAMETERS)
{
    const int THREADS = 32 * (TILE_M / WARP_M) * (TILE_N / WARP_N);
    typedef MmaSlice<!TRANS_A, TILE_M, TILE_K, THREADS> SliceA;
    typedef MmaSlice<TRANS_B, TILE_N, TILE_K, THREADS> SliceB;
    static_assert(STAGES * (SliceA::BYTES + SliceB::BYTES) >= THREADS / 32 * 16 * WARP_N * sizeof(float),
                  "the epilogue's rows fit");
    const GemmPlace place = gemm_place(args, TILE_M, TILE_N);
    mma_tile<TYPE, TRANS_A, TRANS_B, TILE_M, TILE_N, TILE_K, WARP_M, WARP_N, STAGES>(
        SliceA(gemm_operand<uint16_t>(a, args.stride_a, place.problem), HAL_JOIN64(args.lda), place.row, args.m),
        SliceB(gemm_operand<uint16_t>(b, args.stride_b, place.problem), HAL_JOIN64(args.ldb), place.column, args.n),
        args.k, [&](const float(&sum)[WARP_M / 16][WARP_N / 8][4], float *shared, uint32_t row, uint32_t column) {
            const GemmOutput output(args, c, d, bias, residual, place.problem);
            mma_finish<WARP_M, WARP_N>(output, sum, shared + threadIdx.x / 32 * 16 * WARP_N, place.row + row,
                                       place.column + column);
        });
}

#endif
