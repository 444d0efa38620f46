/* gemm.glsl - what the GEMM kernels share: the argument block (kernel_abi.h: hal_gemm_args) and the epilogue. */
#include "numerics.glsl"

#define SPAN_A 0
#define SPAN_B 1
#define SPAN_C 2
#define SPAN_D 3
#define SPAN_BIAS 4
#define SPAN_RESIDUAL 5

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer gemm_block {
    uint64_t span[6];
    uint m, n, k;
    uint flags;
    float alpha, beta;
    uint base_a, base_b;
    uint lda[2], ldb[2], ldc[2], ldd[2], ldr[2];
    uint stride_a[2], stride_b[2], stride_c[2], stride_d[2], stride_r[2];
    uint group_base[3];
};

layout(push_constant) uniform push_block {
    gemm_block args;
};

#define JOIN64(words) (uint64_t(words[0]) | uint64_t(words[1]) << 32)
#define DTYPE_C(flags) ((flags) & 3u)
#define DTYPE_D(flags) ((flags) >> 2 & 3u)
#define DTYPE_BIAS(flags) ((flags) >> 4 & 3u)
#define DTYPE_RESIDUAL(flags) ((flags) >> 6 & 3u)
#define ACT(flags) ((flags) >> 8 & 7u)
#define FLAG_TRANS_A 0x800u

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
    e.c = args.span[SPAN_C] + problem * JOIN64(args.stride_c) * element_size(DTYPE_C(e.flags));
    e.d = args.span[SPAN_D] + problem * JOIN64(args.stride_d) * element_size(DTYPE_D(e.flags));
    e.residual = args.span[SPAN_RESIDUAL] + problem * JOIN64(args.stride_r) * element_size(DTYPE_RESIDUAL(e.flags));
    e.bias = args.span[SPAN_BIAS];
    return e;
}

void finish_element(epilogue e, uint row, uint column, float sum)
{
    float v = e.alpha * sum;
    if (DTYPE_C(e.flags) != 0u)
        v += e.beta * load_element(e.c, DTYPE_C(e.flags), row * e.ldc + column);
    if (DTYPE_BIAS(e.flags) != 0u)
        v += load_element(e.bias, DTYPE_BIAS(e.flags), column);
    v = hm_activate(ACT(e.flags), v);
    if (DTYPE_RESIDUAL(e.flags) != 0u)
        v += load_element(e.residual, DTYPE_RESIDUAL(e.flags), row * e.ldr + column);
    store_element(e.d, DTYPE_D(e.flags), row * e.ldd + column, v);
}
