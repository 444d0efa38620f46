/* gemm_any.glsl - the epilogue with every option: scales, SwiGLU, D transposed or E4M3. Constants: STRICT PARTS, declared
 * before. PARTS is 2 for SwiGLU: the gate's sum, then the one it is multiplied by. */
#ifndef GEMM_SPANS
#define GEMM_SPANS 10
#endif
#define NUMERICS_F8
#include "gemm.glsl"

#define SPAN_UP 6
#define SPAN_SCALE_A 7
#define SPAN_SCALE_B 8
#define SPAN_SCALE_D 9

/* The epilogue and what it needs besides. */
struct options {
    epilogue e;
    uint64_t scale_a, scale_b, scale_d; /* of the problem */
    float swiglu_alpha;
    uint n;
};

float flushed(float x)
{
    return STRICT != 0u ? hm_flush(x) : x;
}

float times(float x, float y)
{
    precise float product = HM_MUL(x, y);
    return STRICT != 0u ? hm_mul(x, y) : product;
}

float plus(float x, float y)
{
    precise float sum = HM_ADD(x, y);
    return flushed(sum);
}

float times_sigmoid(float x, float u)
{
    return STRICT != 0u ? hm_times_sigmoid(x, u) : hm_fast_times_sigmoid(x, u);
}

/* What the next operator would read. */
float between(options o, float x)
{
    return flushed(round_to(GEMM_BETWEEN(o.e.flags), x));
}

float operand(uint64_t p, uint dtype, uint64_t i)
{
    return flushed(load_element(p, dtype, i));
}

float scaled(options o, uint row, uint column, uint part, float sum)
{
    const uint flags = o.e.flags;
    const bool alternate = (flags & GEMM_INTERLEAVED) != 0u;
    const uint each = alternate ? 2u * column + part : part * o.n + column, one = alternate ? 0u : part;
    if (GEMM_SCALE_A(flags) != 0u)
        sum = times(sum, operand(o.scale_a, HAL_KERNEL_F32, GEMM_SCALE_A(flags) == GEMM_SCALE_EACH ? row : 0u));
    if (GEMM_SCALE_B(flags) != 0u)
        sum = times(sum, operand(o.scale_b, HAL_KERNEL_F32, GEMM_SCALE_B(flags) == GEMM_SCALE_EACH ? each : one));
    return times(flushed(o.e.alpha), sum);
}

/* The steps of finish_element (gemm.glsl) or SwiGLU. */
void finish(options o, uint row, uint column, float sum, float sum_up)
{
    const epilogue e = o.e;
    const uint flags = e.flags;
    float v = scaled(o, row, column, 0u, sum);
    if (PARTS == 2u) {
        const float gate = between(o, v), up = between(o, scaled(o, row, column, 1u, sum_up));
        precise float inner = HM_MUL(o.swiglu_alpha, gate);
        v = times(round_to(GEMM_BETWEEN(flags), times_sigmoid(gate, inner)), up);
    }
    if (GEMM_DTYPE_C(flags) != 0u)
        v = plus(v, times(flushed(e.beta), operand(e.c, GEMM_DTYPE_C(flags), row * e.ldc + column)));
    if (GEMM_DTYPE_BIAS(flags) != 0u)
        v = plus(v, operand(e.bias, GEMM_DTYPE_BIAS(flags), column));
    if (GEMM_ACT(flags) != 0u)
        v = STRICT != 0u ? hm_activate(GEMM_ACT(flags), between(o, v)) : hm_fast_activate(GEMM_ACT(flags), between(o, v));
    if (GEMM_DTYPE_RESIDUAL(flags) != 0u)
        v = plus(between(o, v), operand(e.residual, GEMM_DTYPE_RESIDUAL(flags), row * e.ldr + column));
    if (GEMM_DTYPE_D(flags) == HAL_KERNEL_F8E4M3)
        v = between(o, v);
    const uint64_t at = (flags & GEMM_TRANS_D) != 0u ? column * e.ldd + row : row * e.ldd + column;
    if (GEMM_SCALE_D(flags) != 0u)
        ref_u8(e.d + at).value = uint8_t(hm_quantize(v, load_element(o.scale_d, HAL_KERNEL_F32, row)));
    else
        store_element(e.d, GEMM_DTYPE_D(flags), at, v);
}

options load_options(uint problem)
{
    return options(load_epilogue(problem), args.span[SPAN_SCALE_A] + problem * JOIN64(args.stride_scale_a) * 4,
                   args.span[SPAN_SCALE_B] + problem * JOIN64(args.stride_scale_b) * 4,
                   args.span[SPAN_SCALE_D] + problem * JOIN64(args.stride_scale_d) * 4, args.swiglu_alpha, args.n);
}
