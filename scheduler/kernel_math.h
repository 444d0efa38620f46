/* kernel_math.h - exp, reciprocal, 1/sqrt and the activations, once for OpenCL C, GLSL, CUDA C++ and C.
 *
 * They are made of correctly rounded FP32 additions and multiplications in a fixed order, of integer operations and of
 * comparisons, never contracted to fused multiply-adds: the same bits on every device, for numbers that are not
 * subnormal. Results that would be subnormal are zero. Those named hm_fast_ take fewer steps, but their bits are a
 * device's own. In OpenCL C each function exists for vectors as well, with their width behind its name: 8, or
 * what HM_LANES says. Error bounds are measured over all floats by tests/unit/test_kernel_math.c. */
#ifndef HAL_KERNEL_MATH_H
#define HAL_KERNEL_MATH_H

#define HM_F          float
#define HM_I          int
#define HM_NAME(name) name
#define HM_IS_NAN(x)  ((HM_BITS(x) & 0x7fffffffu) > 0x7f800000u)

#if defined(__OPENCL_VERSION__)
#pragma OPENCL FP_CONTRACT OFF
#define HM_FN
#define HM_U uint
#define HM_PRECISE
#define HM_MUL(a, b) ((a) * (b))
#define HM_ADD(a, b) ((a) + (b))
#if defined(FP_FAST_FMAF) || defined(__FMA__) /* some CPU devices leave the first out */
#define HM_FMA(a, b, c) fma(a, b, c)
#else
#define HM_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define HM_DIVIDE(a, b) ((a) / (b))
#define HM_INFINITY     INFINITY
#define HM_BITS(x)      as_uint(x)
#define HM_FLOAT(u)     as_float(u)
#define HM_UINT         uint
#define HM_FROM_U(u)    ((float)(u))
#define HM_FROM_I(i)    ((float)(i))
#define HM_AS_I(u)      as_int(u)
#define HM_AS_U(i)      as_uint(i)
#define HM_SPLAT(x)     (x)
#define HM_SPLAT_I(x)   (x)
#define HM_SPLAT_U(x)   (x)
#elif defined(GL_core_profile)
#define HM_FN
#define HM_U            uint
#define HM_PRECISE      precise
#define HM_MUL(a, b)    ((a) * (b))
#define HM_ADD(a, b)    ((a) + (b))
#define HM_FMA(a, b, c) fma(a, b, c)
#define HM_DIVIDE(a, b) ((a) / (b))
#define HM_INFINITY     uintBitsToFloat(0x7f800000u)
#define HM_BITS(x)      floatBitsToUint(x)
#define HM_FLOAT(u)     uintBitsToFloat(u)
#define HM_UINT         uint
#define HM_FROM_U(u)    float(u)
#define HM_FROM_I(i)    float(i)
#define HM_AS_I(u)      int(u)
#define HM_AS_U(i)      uint(i)
#define HM_SPLAT(x)     (x)
#define HM_SPLAT_I(x)   (x)
#define HM_SPLAT_U(x)   (x)
#else
#include <stdint.h>
#ifdef __CUDACC__
#define HM_FN           static __device__ __forceinline__
#define HM_MUL(a, b)    __fmul_rn(a, b)
#define HM_ADD(a, b)    __fadd_rn(a, b)
#define HM_FMA(a, b, c) __fmaf_rn(a, b, c)
#define HM_DIVIDE(a, b) __fdividef(a, b) /* within 2 ULP for b below 2^126 */
#define HM_INFINITY     __uint_as_float(0x7f800000u)
#define HM_BITS(x)      __float_as_uint(x)
#define HM_FLOAT(u)     __uint_as_float(u)
#else
#include <math.h>
#include <string.h>
#define HM_FN           static inline
#define HM_MUL(a, b)    ((a) * (b)) /* compile with -ffp-contract=off */
#define HM_ADD(a, b)    ((a) + (b))
#define HM_FMA(a, b, c) fmaf(a, b, c)
#define HM_DIVIDE(a, b) ((a) / (b))
#define HM_INFINITY     INFINITY
#define HM_BITS(x)      hm_bits_of(x)
#define HM_FLOAT(u)     hm_float_of(u)
static inline uint32_t hm_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float hm_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif
#define HM_U    uint32_t
#define HM_UINT uint32_t
#define HM_PRECISE
#define HM_FROM_U(u)  ((float)(u))
#define HM_FROM_I(i)  ((float)(i))
#define HM_AS_I(u)    ((int)(u))
#define HM_AS_U(i)    ((uint32_t)(i))
#define HM_SPLAT(x)   (x)
#define HM_SPLAT_I(x) (x)
#define HM_SPLAT_U(x) (x)
#endif

#if defined(GL_core_profile)
#define HM_OUT(type)  out type
#define HM_REF(x)     x
#define HM_SET(to, x) to = x
#else
#define HM_OUT(type)  type *
#define HM_REF(x)     &x
#define HM_SET(to, x) *(to) = x
#endif

#include "kernel_math.inc"
#include "kernel_math_fast.inc"

#if defined(__OPENCL_VERSION__)
#undef HM_F
#undef HM_I
#undef HM_U
#undef HM_NAME
#undef HM_BITS
#undef HM_FLOAT
#undef HM_AS_I
#undef HM_FROM_U
#undef HM_FROM_I
#undef HM_AS_U
#undef HM_SPLAT
#undef HM_SPLAT_I
#undef HM_SPLAT_U
#ifndef HM_LANES
#define HM_LANES 8
#endif
#define HM_JOIN(name, lanes)   name##lanes
#define HM_JOINED(name, lanes) HM_JOIN(name, lanes)
#define HM_WIDE(name)          HM_JOINED(name, HM_LANES)
#define HM_F                   HM_WIDE(float)
#define HM_I                   HM_WIDE(int)
#define HM_U                   HM_WIDE(uint)
#define HM_NAME(name)          HM_WIDE(name)
#define HM_BITS(x)             HM_WIDE(as_uint)(x)
#define HM_FLOAT(u)            HM_WIDE(as_float)(u)
#define HM_FROM_U(u)           HM_WIDE(convert_float)(u)
#define HM_FROM_I(i)           HM_WIDE(convert_float)(i)
#define HM_AS_I(u)             HM_WIDE(as_int)(u)
#define HM_AS_U(i)             HM_WIDE(as_uint)(i)
#define HM_SPLAT(x)            (HM_WIDE(float))(x)
#define HM_SPLAT_I(x)          (HM_WIDE(int))(x)
#define HM_SPLAT_U(x)          (HM_WIDE(uint))(x)
#include "kernel_math.inc"
#include "kernel_math_fast.inc"
#pragma OPENCL FP_CONTRACT ON
#endif

#endif
