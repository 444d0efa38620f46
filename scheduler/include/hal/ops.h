/* hal/ops.h - operators: called on any command list, immediate or recorded, like BLAS.
 *
 * An operator validates its operands, picks a kernel for the device and records dispatches. It never waits and never
 * allocates device memory; kernels are compiled at their first use on a device (hal_gemm_prepare does it ahead).
 * A problem that may keep the device busy for more than a second becomes several dispatches, so that no watchdog ends
 * it and other work gets its turn; the result is the same, bit for bit. Operands are spans (a buffer or a slot, and a
 * byte offset: any multiple of the element size) with the dtype and leading dimension in the descriptor. Matrices are
 * row-major; a leading dimension is a row's stride in elements. */
#ifndef HAL_OPS_H
#define HAL_OPS_H

#include <hal/ops_attention.h>
#include <hal/ops_rows.h>

#ifdef __cplusplus
extern "C" {
#endif

/* D = act(alpha A B + beta C + bias) + residual, for each of `batch` problems.
 *
 * A is m x k (or k x m with trans_a), B k x n (or n x k with trans_b), C, D and residual m x n, bias n.
 * Everything is computed in FP32 and rounded once, at the store. alpha = 0 does not read A or B; beta = 0 does not read
 * C; k = 0 gives act(beta C + bias) + residual. m, n or batch = 0: nothing is written, success. D may be exactly C or
 * exactly the residual (same span, dtype and leading dimension); any other overlap of D with an operand is
 * HAL_ERROR_OVERLAP. */
typedef struct hal_gemm_desc {
    size_t struct_size;
    uint64_t m, n, k;
    uint64_t batch;           /* 0 counts as 1 unless batch_is_zero */
    bool batch_is_zero;       /* an empty batch: nothing is done */
    hal_dtype dtype;          /* of A and B: HAL_F32 (default), HAL_F16, HAL_BF16 */
    hal_dtype dtype_c;        /* default: dtype_d */
    hal_dtype dtype_d;        /* default: dtype */
    hal_dtype dtype_bias;     /* default: HAL_F32 */
    hal_dtype dtype_residual; /* default: dtype_d */
    bool trans_a, trans_b;
    hal_span a, b, c, d, bias, residual;                       /* c, bias, residual may be none */
    uint64_t lda, ldb, ldc, ldd, ldr;                          /* elements; 0: the row length */
    uint64_t stride_a, stride_b, stride_c, stride_d, stride_r; /* elements from one problem of the batch to the next;
                                            0: packed for d; for operands: shared by all problems */
    float alpha;                                               /* 0 counts as 1 unless alpha_is_zero */
    bool alpha_is_zero;
    float beta;
    hal_act act;
    hal_span workspace; /* scratch, hal_gemm_workspace bytes; none: a kernel that needs no scratch is used */
} hal_gemm_desc;
#define HAL_GEMM(...) (&(hal_gemm_desc){.struct_size = sizeof(hal_gemm_desc), __VA_ARGS__})

HAL_API hal_status hal_gemm(hal_cmdlist *list, const hal_gemm_desc *desc);
/* Bytes of scratch that let hal_gemm use its fastest kernel for this problem on this device; may be 0. */
HAL_API hal_status hal_gemm_workspace(hal_device *device, const hal_gemm_desc *desc, uint64_t *size);
/* Compile what hal_gemm will need for this problem, so that the first call does not have to. */
HAL_API hal_status hal_gemm_prepare(hal_device *device, const hal_gemm_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
