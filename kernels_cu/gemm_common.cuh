/* gemm_common.cuh - what the GEMM kernels share: where a group works, and the epilogue. */
#ifndef HAL_GEMM_COMMON_CUH
#define HAL_GEMM_COMMON_CUH

#include "rows.cuh"

/* The parameters of every GEMM: the spans in order, then the argument struct, by value at an entry. */
#define GEMM_SPANS      const void *a, const void *b, const void *c, void *d, const void *bias, const void *residual
#define GEMM_PARAMETERS GEMM_SPANS, const hal_gemm_args &args
#define GEMM_ENTRY      GEMM_SPANS, const __grid_constant__ hal_gemm_args args
#define GEMM_FORWARD    a, b, c, d, bias, residual, args

struct GemmPlace {
    uint32_t row, column; /* of the tile's first element */
    uint32_t problem;     /* of the batch */
};

/* Neighbouring groups work on a band of tile rows, column by column, so that the groups that run at the same time share
 * their parts of A and B in the L2 cache. group_base counts in the undivided grid, so a split grid visits each tile
 * once. */
__device__ __forceinline__ GemmPlace gemm_place(const hal_gemm_args &args, uint32_t tile_m, uint32_t tile_n)
{
    const uint32_t band_rows = 8;
    const uint32_t columns = (args.n - 1) / tile_n + 1, rows = (args.m - 1) / tile_m + 1;
    const uint64_t group = (uint64_t)(blockIdx.y + args.group_base[1]) * columns + (blockIdx.x + args.group_base[0]);
    const uint64_t band_size = (uint64_t)band_rows * columns;
    const uint32_t band = (uint32_t)(group / band_size), rest = (uint32_t)(group - band * band_size);
    const uint32_t first = band * band_rows, height = min(rows - first, band_rows);
    GemmPlace place;
    place.row = (first + rest % height) * tile_m;
    place.column = rest / height * tile_n;
    place.problem = blockIdx.z + args.group_base[2];
    return place;
}

/* First element of a problem's matrix. */
template <class BITS>
__device__ __forceinline__ const BITS *gemm_operand(const void *base, const HAL_U32 (&stride)[2], uint32_t problem)
{
    return (const BITS *)base + HAL_JOIN64(stride) * problem;
}

/* D = act(alpha sum + beta C + bias) + residual for sums in FP32, four neighbouring columns at a time. Every step is
 * rounded, as the separate operators would: nothing is contracted. */
struct GemmOutput {
    const void *c, *bias, *residual;
    void *d;
    uint64_t ldc, ldd, ldr;
    float alpha, beta;
    uint32_t m, n;
    uint32_t type_c, type_d, type_bias, type_residual, between, act; /* type 0: absent */
    bool wide; /* every operand can be moved four elements at a time */

    __device__ __forceinline__ GemmOutput(const hal_gemm_args &args, const void *c_, void *d_, const void *bias_,
                                          const void *residual_, uint32_t problem)
        : bias(bias_), ldc(HAL_JOIN64(args.ldc)), ldd(HAL_JOIN64(args.ldd)), ldr(HAL_JOIN64(args.ldr)),
          alpha(args.k ? args.alpha : 0.0f), beta(args.beta), m(args.m), n(args.n),
          type_c(args.beta == 0.0f ? 0 : GEMM_DTYPE_C(args.flags)), type_d(GEMM_DTYPE_D(args.flags)),
          type_bias(GEMM_DTYPE_BIAS(args.flags)), type_residual(GEMM_DTYPE_RESIDUAL(args.flags)),
          between(GEMM_BETWEEN(args.flags)), act(GEMM_ACT(args.flags))
    {
        c = place(c_, type_c, HAL_JOIN64(args.stride_c) * problem);
        d = (void *)place(d_, type_d, HAL_JOIN64(args.stride_d) * problem);
        residual = place(residual_, type_residual, HAL_JOIN64(args.stride_r) * problem);
        wide = aligned_four(d, type_d) && (ldd & 3) == 0 && (!type_c || (aligned_four(c, type_c) && (ldc & 3) == 0)) &&
               (!type_residual || (aligned_four(residual, type_residual) && (ldr & 3) == 0)) &&
               (!type_bias || aligned_four(bias, type_bias));
    }

    /* Columns [column, column + 4) of a row; what lies outside the matrix is dropped. column is a multiple of 4. */
    __device__ __forceinline__ void finish(uint32_t row, uint32_t column, float (&value)[4]) const
    {
        if (row >= m || column >= n)
            return;
        const uint32_t count = min(n - column, 4u);
        const bool four = wide && count == 4;
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = HM_MUL(value[i], alpha);
        combine(row, column, count, four, value);
        store(row * ldd + column, count, four, value);
    }

    /* All steps behind alpha. `four`: all four columns are there, and may be moved together. */
    __device__ __forceinline__ void combine(uint32_t row, uint32_t column, uint32_t count, bool four,
                                            float (&value)[4]) const
    {
        if (type_c)
            add(value, beta, c, type_c, row * ldc + column, count, four);
        if (type_bias)
            add(value, 1.0f, bias, type_bias, column, count, four);
        if (act != GEMM_ACT_NONE) {
            round_four(value);
            activate_four(value);
        }
        if (type_residual) {
            round_four(value);
            add(value, 1.0f, residual, type_residual, row * ldr + column, count, four);
        }
    }

    /* Elements from `at` on. */
    __device__ __forceinline__ void store(uint64_t at, uint32_t count, bool four, const float (&value)[4]) const
    {
        if (four) {
            store_four(d, type_d, at, value);
            return;
        }
#pragma unroll 1
        for (uint32_t i = 0; i < count; i++)
            store_element(d, type_d, at + i, i == 0 ? value[0] : i == 1 ? value[1] : i == 2 ? value[2] : value[3]);
    }

    __device__ __forceinline__ void round_four(float (&value)[4]) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            value[i] = round_to(between, value[i]);
    }

  private:
    static __device__ __forceinline__ const void *place(const void *base, uint32_t dtype, uint64_t elements)
    {
        return (const char *)base + elements * dtype_bytes(dtype);
    }

    /* One at a time: the code of all activations, four times over at each call, would be most of the kernel. */
    __device__ __forceinline__ void activate_four(float (&value)[4]) const
    {
#pragma unroll 1
        for (uint32_t one = 0; one < 4; one++) {
            const float y = hm_fast_activate(act, one == 0   ? value[0]
                                                  : one == 1 ? value[1]
                                                  : one == 2 ? value[2]
                                                             : value[3]);
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                value[i] = i == one ? y : value[i];
        }
    }

    static __device__ __forceinline__ void add(float (&value)[4], float factor, const void *base, uint32_t dtype,
                                               uint64_t index, uint32_t count, bool four)
    {
        if (four) {
            float term[4];
            load_four(base, dtype, index, term);
#pragma unroll
            for (int i = 0; i < 4; i++)
                value[i] = HM_ADD(value[i], HM_MUL(factor, term[i]));
            return;
        }
        /* One at a time, in little code: this is for edges and for what is not aligned. */
#pragma unroll 1
        for (uint32_t one = 0; one < count; one++) {
            const float term = HM_MUL(factor, load_element(base, dtype, index + one));
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                value[i] = i == one ? HM_ADD(value[i], term) : value[i];
        }
    }
};

#endif
