/* gemm_any.cuh - the epilogue with every option: scales, SwiGLU, D transposed or E4M3. PARTS is 2 for SwiGLU: the
 * gate's sum, then the one it is multiplied by. */
#ifndef HAL_GEMM_ANY_CUH
#define HAL_GEMM_ANY_CUH

#include "gemm_common.cuh"

#define ALL_SPANS GEMM_SPANS, const void *up, const float *scale_a, const float *scale_b, const float *scale_d

/* The epilogue: the steps of GemmOutput (gemm_common.cuh) or SwiGLU, an element at a time. */
template <bool STRICT, uint32_t PARTS> struct AnyOutput {
    const void *c, *bias, *residual;
    void *d;
    const float *scale_a, *scale_b, *scale_d;
    uint64_t c_first, d_first, r_first; /* element index of the problem's matrix */
    const hal_gemm_args &args;

    __device__ __forceinline__ AnyOutput(ALL_SPANS, const hal_gemm_args &args_, uint32_t problem)
        : c(c), bias(bias), residual(residual), d(d), scale_a(scale_a + problem * HAL_JOIN64(args_.stride_scale_a)),
          scale_b(scale_b + problem * HAL_JOIN64(args_.stride_scale_b)),
          scale_d(scale_d + problem * HAL_JOIN64(args_.stride_scale_d)), c_first(problem * HAL_JOIN64(args_.stride_c)),
          d_first(problem * HAL_JOIN64(args_.stride_d)), r_first(problem * HAL_JOIN64(args_.stride_r)), args(args_)
    {
    }

    static __device__ __forceinline__ float times(float x, float y) { return STRICT ? hm_mul(x, y) : HM_MUL(x, y); }
    static __device__ __forceinline__ float plus(float x, float y) { return flush_if(STRICT, HM_ADD(x, y)); }
    static __device__ __forceinline__ float operand(const void *base, uint32_t dtype, uint64_t i)
    {
        return flush_if(STRICT, load_element(base, dtype, i));
    }
    static __device__ __forceinline__ float times_sigmoid(float x, float u)
    {
        return STRICT ? hm_times_sigmoid(x, u) : hm_fast_times_sigmoid(x, u);
    }
    /* What the next operator would read. */
    __device__ __forceinline__ float between(float x) const
    {
        return flush_if(STRICT, round_to(GEMM_BETWEEN(args.flags), x));
    }

    __device__ __forceinline__ float scaled(uint32_t row, uint32_t column, uint32_t part, float sum) const
    {
        const uint32_t flags = args.flags;
        const bool alternate = (flags & GEMM_INTERLEAVED) != 0;
        const uint32_t each = alternate ? 2 * column + part : part * args.n + column, one = alternate ? 0 : part;
        if (GEMM_SCALE_A(flags))
            sum = times(sum, flush_if(STRICT, scale_a[GEMM_SCALE_A(flags) == GEMM_SCALE_EACH ? row : 0]));
        if (GEMM_SCALE_B(flags))
            sum = times(sum, flush_if(STRICT, scale_b[GEMM_SCALE_B(flags) == GEMM_SCALE_EACH ? each : one]));
        return times(flush_if(STRICT, args.alpha), sum);
    }

    __device__ __forceinline__ void finish(uint32_t row, uint32_t column, const float (&sum)[PARTS]) const
    {
        const uint32_t flags = args.flags;
        float v = scaled(row, column, 0, sum[0]);
        if (PARTS == 2) {
            const float gate = between(v), up = between(scaled(row, column, 1, sum[PARTS - 1]));
            v = times(round_to(GEMM_BETWEEN(flags), times_sigmoid(gate, HM_MUL(args.swiglu_alpha, gate))), up);
        }
        if (GEMM_DTYPE_C(flags))
            v = plus(v, times(flush_if(STRICT, args.beta),
                              operand(c, GEMM_DTYPE_C(flags), c_first + row * HAL_JOIN64(args.ldc) + column)));
        if (GEMM_DTYPE_BIAS(flags))
            v = plus(v, operand(bias, GEMM_DTYPE_BIAS(flags), column));
        if (GEMM_ACT(flags))
            v = STRICT ? hm_activate(GEMM_ACT(flags), between(v)) : hm_fast_activate(GEMM_ACT(flags), between(v));
        if (GEMM_DTYPE_RESIDUAL(flags))
            v = plus(between(v),
                     operand(residual, GEMM_DTYPE_RESIDUAL(flags), r_first + row * HAL_JOIN64(args.ldr) + column));
        if (GEMM_DTYPE_D(flags) == HAL_KERNEL_F8E4M3)
            v = between(v);
        const uint64_t ldd = HAL_JOIN64(args.ldd);
        const uint64_t at = d_first + (flags & GEMM_TRANS_D ? column * ldd + row : row * ldd + column);
        if (GEMM_SCALE_D(flags))
            ((uint8_t *)d)[at] = (uint8_t)hm_quantize(v, scale_d[row]);
        else
            store_element(d, GEMM_DTYPE_D(flags), at, v);
    }
};

#endif
