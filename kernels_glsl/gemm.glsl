/* gemm.glsl - what the GEMM kernels share: the argument block (kernel_abi.h: hal_gemm_args) and the epilogue. */
#include "numerics.glsl"

#define SPAN_A 0
#define SPAN_B 1
#define SPAN_C 2
#define SPAN_D 3
#define SPAN_BIAS 4
#define SPAN_RESIDUAL 5
#ifndef GEMM_SPANS
#define GEMM_SPANS 6
#endif

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer gemm_block {
    uint64_t span[GEMM_SPANS];
#include "kernel_args_gemm.inc"
};

layout(push_constant) uniform push_block {
    gemm_block args;
};

#define JOIN64 HAL_JOIN64

/* What the epilogue of one problem of the batch needs. Filled in outside of all control flow, where every driver reads
 * the block once for all invocations. */
struct epilogue {
    uint64_t c, d, bias, residual; // address of the problem's first element
    uint64_t ldc, ldd, ldr;
    uint flags;
    float alpha, beta;
};

epilogue load_epilogue(uint problem)
{
    epilogue e;
    e.flags = args.flags;
    e.alpha = args.alpha;
    e.beta = args.beta;
    e.ldc = JOIN64(args.ldc);
    e.ldd = JOIN64(args.ldd);
    e.ldr = JOIN64(args.ldr);
    e.c = args.span[SPAN_C] + problem * JOIN64(args.stride_c) * element_size(GEMM_DTYPE_C(e.flags));
    e.d = args.span[SPAN_D] + problem * JOIN64(args.stride_d) * element_size(GEMM_DTYPE_D(e.flags));
    e.residual = args.span[SPAN_RESIDUAL] + problem * JOIN64(args.stride_r) * element_size(GEMM_DTYPE_RESIDUAL(e.flags));
    e.bias = args.span[SPAN_BIAS];
    return e;
}

/* Every step is rounded, as the separate operators would: nothing is contracted (precise). Never strict. */
void finish_element(epilogue e, uint row, uint column, float sum)
{
    precise float v = e.alpha * sum;
    if (GEMM_DTYPE_C(e.flags) != 0u)
        v += e.beta * load_element(e.c, GEMM_DTYPE_C(e.flags), row * e.ldc + column);
    if (GEMM_DTYPE_BIAS(e.flags) != 0u)
        v += load_element(e.bias, GEMM_DTYPE_BIAS(e.flags), column);
    if (GEMM_ACT(e.flags) != 0u)
        v = hm_fast_activate(GEMM_ACT(e.flags), round_to(GEMM_BETWEEN(e.flags), v));
    if (GEMM_DTYPE_RESIDUAL(e.flags) != 0u)
        v = round_to(GEMM_BETWEEN(e.flags), v) + load_element(e.residual, GEMM_DTYPE_RESIDUAL(e.flags), row * e.ldr + column);
    store_element(e.d, GEMM_DTYPE_D(e.flags), row * e.ldd + column, v);
}
