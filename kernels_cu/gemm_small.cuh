/* gemm_small.cuh - the GEMM for m <= ROWS (decode): bound by reading B, which is read once, 16 bytes a thread.
 *
 * A group makes TILE_N columns of all rows. Where n is contiguous in B, a few neighbouring lanes share a row of B and
 * the rest of the group's threads take other rows; where k is contiguous, a warp takes some columns and its lanes share
 * the k of each. The partial sums are added in a fixed order. A is small and comes from the caches. What is not aligned
 * to 16 bytes, and edges, are read element by element into the same places: the same sums in the same order. */
#ifndef HAL_GEMM_SMALL_CUH
#define HAL_GEMM_SMALL_CUH

#include "gemm_common.cuh"

/* 16 bytes of elements. */
template <class TYPE> struct Sixteen {
    typedef typename TYPE::bits bits;
    static const int COUNT = 16 / sizeof(bits);

    static __device__ __forceinline__ bool aligned(const bits *matrix, uint64_t ld)
    {
        return (((uintptr_t)matrix | ld * sizeof(bits)) & 15) == 0;
    }

    static __device__ __forceinline__ uint4 read(const bits *from) { return __ldcs((const uint4 *)from); }

    /* The first `count` of COUNT elements that are `step` apart, then zeros. */
    static __device__ __forceinline__ uint4 gather(const bits *from, uint64_t step, uint32_t count)
    {
        uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++)
            if (i < count)
                word[i * 4 / COUNT] |= raw(from[i * step]) << (COUNT == 8 ? i % 2 * 16 : 0);
        return make_uint4(word[0], word[1], word[2], word[3]);
    }

    static __device__ __forceinline__ void widen(const uint4 &from, float (&value)[COUNT])
    {
        const uint32_t word[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            value[i] = one(word[i * 4 / COUNT] >> (COUNT == 8 ? i % 2 * 16 : 0), TYPE());
    }

  private:
    static __device__ __forceinline__ uint32_t raw(float value)
    {
        return __float_as_uint(value);
    }
    static __device__ __forceinline__ uint32_t raw(uint16_t value)
    {
        return value;
    }
    static __device__ __forceinline__ float one(uint32_t word, F32)
    {
        return __uint_as_float(word);
    }
    template <class HALF> static __device__ __forceinline__ float one(uint32_t word, HALF)
    {
        return HALF::widen((uint16_t)word);
    }
};

/* A's element (row, k) is at row * step_m + k * step_k. Rows beyond m repeat the last one; their sums are not used. */
template <class TYPE> struct GemmRows {
    typedef typename TYPE::bits bits;
    const bits *matrix;
    uint64_t step_m, step_k;
    uint32_t last;

    __device__ __forceinline__ GemmRows(const bits *a, const hal_gemm_args &args) : matrix(a), last(args.m - 1)
    {
        const uint64_t ld = HAL_JOIN64(args.lda);
        step_m = args.flags & GEMM_TRANS_A ? 1 : ld;
        step_k = args.flags & GEMM_TRANS_A ? ld : 1;
    }
    __device__ __forceinline__ const bits *at(uint32_t row, uint32_t k) const
    {
        return matrix + min(row, last) * step_m + k * step_k;
    }
};

/* B is k x n: n contiguous. Adds this thread's share of k to sum[row][i], i counting the COUNT columns at `from`. */
template <class TYPE, int ROWS, int PASS, int UNROLL, bool WIDE>
__device__ __forceinline__ uint32_t gemm_small_rows(float (&sum)[ROWS][Sixteen<TYPE>::COUNT], const GemmRows<TYPE> &a,
                                                    const typename TYPE::bits *from, uint64_t ldb, uint32_t first,
                                                    uint32_t depth, uint32_t count)
{
    typedef Sixteen<TYPE> Part;
    uint32_t k = first;
#pragma unroll 1
    for (; k < depth && depth - k > (UNROLL - 1) * PASS; k += UNROLL * PASS) {
        uint4 held[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const typename TYPE::bits *row = from + (uint64_t)(k + u * PASS) * ldb;
            held[u] = WIDE ? Part::read(row) : Part::gather(row, 1, count);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            float part[Part::COUNT];
            Part::widen(held[u], part);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float factor = TYPE::widen(*a.at(r, k + u * PASS));
#pragma unroll
                for (int i = 0; i < Part::COUNT; i++)
                    sum[r][i] = fmaf(factor, part[i], sum[r][i]);
            }
        }
    }
    return k;
}

/* B is n x k: k contiguous. Adds this lane's share of k to sum[row][c], c counting the COLUMNS at `from`. */
template <class TYPE, int ROWS, int COLUMNS>
__device__ __forceinline__ void gemm_small_columns(float (&sum)[ROWS][COLUMNS], const GemmRows<TYPE> &a,
                                                   const typename TYPE::bits *from, uint64_t ldb, uint32_t depth,
                                                   uint32_t columns)
{
    typedef Sixteen<TYPE> Part;
    const bool wide_a = a.step_k == 1 && Part::aligned(a.matrix, a.step_m);
    const bool wide_b = Part::aligned(from, ldb) && columns == COLUMNS;
#pragma unroll 1
    for (uint32_t k = threadIdx.x % 32 * Part::COUNT; k < depth; k += 32 * Part::COUNT) {
        const uint32_t count = min(depth - k, (uint32_t)Part::COUNT);
        uint4 held[COLUMNS];
        if (wide_b && count == Part::COUNT) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                held[c] = Part::read(from + c * ldb + k);
        } else {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                held[c] = Part::gather(from + c * ldb + k, 1, c < columns ? count : 0);
        }
        float part_b[COLUMNS][Part::COUNT];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            Part::widen(held[c], part_b[c]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float part_a[Part::COUNT];
            Part::widen(wide_a && count == Part::COUNT ? *(const uint4 *)a.at(r, k)
                                                       : Part::gather(a.at(r, k), a.step_k, count),
                        part_a);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int i = 0; i < Part::COUNT; i++)
                    sum[r][c] = fmaf(part_a[i], part_b[c][i], sum[r][c]);
        }
    }
}

template <class TYPE, bool TRANS_B, int ROWS, int TILE_N, int THREADS>
__device__ __forceinline__ void gemm_small(GEMM_PARAMETERS)
{
    typedef Sixteen<TYPE> Part;
    const int WARPS = THREADS / 32;
    const int SHARES = TRANS_B ? 1 : WARPS; /* partial sums of an element that meet in shared memory */
    __shared__ __align__(16) float shared[SHARES][ROWS][TILE_N];

    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t tile = (blockIdx.x + args.group_base[0]) * TILE_N;
    const uint32_t problem = blockIdx.z + args.group_base[2];
    const uint64_t ldb = HAL_JOIN64(args.ldb);
    const GemmRows<TYPE> rows(gemm_operand<typename TYPE::bits>(a, args.stride_a, problem), args);
    const typename TYPE::bits *from = gemm_operand<typename TYPE::bits>(b, args.stride_b, problem);

    if (TRANS_B) {
        const int COLUMNS = TILE_N / WARPS;
        const uint32_t column = tile + warp * COLUMNS;
        float sum[ROWS][COLUMNS] = {};
        if (column < args.n)
            gemm_small_columns<TYPE, ROWS, COLUMNS>(sum, rows, from + column * ldb, ldb, args.k,
                                                    min(args.n - column, (uint32_t)COLUMNS));
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
#pragma unroll
                for (int other = 16; other; other /= 2)
                    sum[r][c] += __shfl_xor_sync(0xffffffffu, sum[r][c], other);
                if (lane == 0)
                    shared[0][r][warp * COLUMNS + c] = sum[r][c];
            }
    } else {
        const int LANES = TILE_N / Part::COUNT, PASS = THREADS / LANES;
        const uint32_t column = tile + lane % LANES * Part::COUNT, first = threadIdx.x / LANES;
        const uint32_t count = column < args.n ? min(args.n - column, (uint32_t)Part::COUNT) : 0;
        float sum[ROWS][Part::COUNT] = {};
        from += column;
        if (count == Part::COUNT && Part::aligned(from, ldb)) {
            const uint32_t k = gemm_small_rows<TYPE, ROWS, PASS, 4, true>(sum, rows, from, ldb, first, args.k, count);
            gemm_small_rows<TYPE, ROWS, PASS, 1, true>(sum, rows, from, ldb, k, args.k, count);
        } else if (count) {
            gemm_small_rows<TYPE, ROWS, PASS, 1, false>(sum, rows, from, ldb, first, args.k, count);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int i = 0; i < Part::COUNT; i++) {
#pragma unroll
                for (int other = 16; other >= LANES; other /= 2)
                    sum[r][i] += __shfl_xor_sync(0xffffffffu, sum[r][i], other);
                if (lane < LANES)
                    shared[warp][r][lane * Part::COUNT + i] = sum[r][i];
            }
    }
    __syncthreads();

    const uint32_t row = threadIdx.x / (TILE_N / 4), column = threadIdx.x % (TILE_N / 4) * 4;
    if (row >= ROWS)
        return;
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int share = 0; share < SHARES; share++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            total[i] += shared[share][row][column + i];
    GemmOutput(args, c, d, bias, residual, problem).finish(row, tile + column, total);
}

#endif
