/* kernel_abi.h - argument structs of the built-in kernels, for C, OpenCL C, GLSL and CUDA C++.
 *
 * Every built-in kernel takes its spans (HAL_ABI_OFFSET: a pointer, in OpenCL C followed by a ulong byte offset), then
 * one of these structs by value. The GLSL kernels have its fields as the end of a block { uint64_t span[n]; ... }: they
 * are in kernel_args_NAME.inc, which GLSL includes, too. Only 4-byte scalars, so that no language pads; 64-bit values
 * are two words, low first. group_base, where there is one, is last and is added to the group id. */
#ifndef HAL_KERNEL_ABI_H
#define HAL_KERNEL_ABI_H

#if defined(__OPENCL_VERSION__)
#define HAL_U32 uint
#define HAL_U64 ulong
#elif defined(GL_core_profile)
#define HAL_U32 uint
#define HAL_U64 uint64_t
#else
#include <stdint.h>
#define HAL_U32 uint32_t
#define HAL_U64 uint64_t
#endif
#ifdef GL_core_profile
#define HAL_JOIN64(words) (HAL_U64((words)[0]) | HAL_U64((words)[1]) << 32)
#else
#define HAL_JOIN64(words) ((HAL_U64)(words)[0] | (HAL_U64)(words)[1] << 32)
#endif

/* Values of hal_dtype, as kernels see them. */
#define HAL_KERNEL_F32    1u
#define HAL_KERNEL_F16    2u
#define HAL_KERNEL_BF16   3u
#define HAL_KERNEL_F8E4M3 4u

/* gemm: D = act(alpha A B + beta C + bias) + residual. Spans: A, B, C, D, bias, residual; gemm_any has b_up, scale_a,
 * scale_b and scale_d, too. Grid: x counts TILE_N columns, y TILE_M rows, z the problems of the batch; group_base is
 * added to all three. An operand that flags call absent has D's span in its place and must not be touched. k = 0 where
 * alpha = 0: A and B are not touched. */
#ifndef GL_core_profile
typedef struct hal_gemm_args {
#include "kernel_args_gemm.inc"
} hal_gemm_args;
typedef struct hal_gemm_flat_args {
#include "kernel_args_gemm_flat.inc"
} hal_gemm_flat_args;
#endif

/* flags: a dtype in three bits for each operand of the epilogue (0: absent) and for what is rounded to between its
 * steps, the activation, and what is transposed. The rest is gemm_any's. */
#define GEMM_DTYPE_C(flags)        ((flags)&7u)
#define GEMM_DTYPE_D(flags)        ((flags) >> 3 & 7u)
#define GEMM_DTYPE_BIAS(flags)     ((flags) >> 6 & 7u)
#define GEMM_DTYPE_RESIDUAL(flags) ((flags) >> 9 & 7u)
#define GEMM_BETWEEN(flags)        ((flags) >> 12 & 7u)
#define GEMM_ACT(flags)            ((flags) >> 15 & 7u) /* hal_act */
#define GEMM_TRANS_A               0x40000u
#define GEMM_TRANS_B               0x80000u
#define GEMM_TRANS_D               0x100000u
#define GEMM_INTERLEAVED           0x200000u            /* gate and up are alternate columns of B */
#define GEMM_SCALE_A(flags)        ((flags) >> 22 & 3u) /* GEMM_SCALE_ONE, GEMM_SCALE_EACH or absent, 0 */
#define GEMM_SCALE_B(flags)        ((flags) >> 24 & 3u)
#define GEMM_SCALE_D(flags)        ((flags) >> 26 & 3u)
#define GEMM_ALTERNATE             0x10000000u /* gemm_combine: sums of gate and up in turn */
#define GEMM_PAIR                  0x20000000u /* SwiGLU: two sums for an element of D */
#define GEMM_SCALE_ONE             1u
#define GEMM_SCALE_EACH            2u
#define GEMM_FLAGS(c, d, bias, residual, between, act)                                                                 \
    ((c) | (d) << 3 | (bias) << 6 | (residual) << 9 | (between) << 12 | (act) << 15)
#define GEMM_SCALES(a, b, d) ((a) << 22 | (b) << 24 | (d) << 26)

#define GEMM_ACT_NONE        0u
#define GEMM_ACT_RELU        1u
#define GEMM_ACT_GELU_ERF    2u
#define GEMM_ACT_GELU_TANH   3u
#define GEMM_ACT_SILU        4u

/* Bytes of dynamic shared memory of gemm_mma: `stages` pairs of tiles. */
#define GEMM_MMA_SHARED(tile_m, tile_n, tile_k, stages) ((stages) * ((tile_m) + (tile_n)) * (tile_k)*2u)
/* Of gemm_async: as many, two barriers of 8 bytes for each, and what lies before the first multiple of 1 KiB. */
#define GEMM_ASYNC_SHARED(tile_m, tile_n, tile_k, stages)                                                              \
    (GEMM_MMA_SHARED(tile_m, tile_n, tile_k, stages) + 16u * (stages) + 1024u)

/* Operators on rows: dtypes of up to four operands in three bits each, how strictly, and what to do. */
#define ROW_FLAGS(d0, d1, d2, d3, strict, op) ((d0) | (d1) << 3 | (d2) << 6 | (d3) << 9 | (strict) << 15 | (op) << 16)
#define ROW_DTYPE(flags, i)                   ((flags) >> 3 * (i)&7u)
#define ROW_STRICT(flags)                     (((flags) >> 15 & 1u) != 0u)
#define ROW_OP(flags)                         ((flags) >> 16 & 255u)

/* ROW_OP of activation: a hal_act, or from ACTIVATION_ADD on a hal_binary_op. */
#define ACTIVATION_SILU     4u
#define ACTIVATION_ADD      16u
#define ACTIVATION_MULTIPLY 17u
#define ACTIVATION_SWIGLU   18u
/* activation_row on CUDA: the most work-items of a group, and bytes of a row that are kept in shared memory. */
#define ACTIVATION_ROW_THREADS 256
#define ACTIVATION_ROW_KEPT    32768
#ifndef GL_core_profile
typedef struct hal_activation_args {
#include "kernel_args_activation.inc"
} hal_activation_args;
#endif

#endif
