/* hal/ops.h - operators: called on any command list, immediate or recorded, like BLAS.
 *
 * An operator validates its operands, picks a kernel for the device and records dispatches. It never waits and never
 * allocates device memory; kernels are compiled at their first use on a device (hal_gemm_prepare does it ahead).
 * A problem that may keep the device busy for more than a second becomes several dispatches, so that no watchdog ends
 * it and other work gets its turn; the result is the same, bit for bit. Operands are spans (a buffer or a slot, and a
 * byte offset: any multiple of the element size) with the dtype and leading dimension in the descriptor. Matrices are
 * row-major; a leading dimension is a row's stride in elements. Sizes of 2^31 and more are HAL_ERROR_LIMIT. */
#ifndef HAL_OPS_H
#define HAL_OPS_H

#include <hal/ops_attention.h>
#include <hal/ops_rows.h>

#ifdef __cplusplus
extern "C" {
#endif

/* D = act(alpha A B + beta C + bias) + residual, for each of `batch` problems.
 *
 * With b_up or `interleaved`, D = SiLU(alpha A B_gate) (alpha A B_up) + residual instead, in one pass: SwiGLU as
 * hal_binary has it, without c, bias and act. With scales A is scale_a[row] a and B is scale_b[column] b: the sum of
 * products is multiplied by scale_a, then scale_b, then alpha.
 *
 * round_between makes a fused chain give the bits of separate operators that store that dtype: the value is rounded to
 * it before the activation, before the residual is added, and before it becomes HAL_F8E4M3; gate and up are rounded to
 * it, and SiLU(gate) before the product. The chains are hal_gemm (alpha, beta, c, bias), hal_activation, hal_binary
 * (HAL_ADD) and hal_gemm twice, hal_binary (HAL_SWIGLU, round_between), HAL_ADD, each of the same mode; then
 * hal_quantize (HAL_SCALE_ROW). SwiGLU, HAL_F8E4M3 and transposed D keep to it in HAL_MODE_STRICT, or with a workspace;
 * without one they may add up in another order.
 *
 * Modes. HAL_MODE_BATCH_INVARIANT: kernel and order of summation are chosen by n, k, dtypes and transpositions only.
 * HAL_MODE_STRICT: k ascending, products and sums rounded to FP32 one by one; subnormal numbers and products below
 * 2^-125 count as zero.
 *
 * A is m x k (or k x m with trans_a), B k x n (or n x k with trans_b), C, D and residual m x n, bias n.
 * Everything is computed in FP32 and rounded once, at the store, but for round_between. alpha = 0 does not read A or B;
 * beta = 0 does not read C, and beta without c counts as 0; k = 0 gives act(beta C + bias) + residual. m, n or batch =
 * 0: nothing is written, success. D may be exactly C or exactly the residual (same span, dtype and leading dimension)
 * unless it is transposed; any other overlap of D with an operand is HAL_ERROR_OVERLAP. */
typedef struct hal_gemm_desc {
    size_t struct_size;
    uint64_t m, n, k;
    uint64_t batch;           /* 0 counts as 1 unless batch_is_zero */
    bool batch_is_zero;       /* an empty batch: nothing is done */
    hal_dtype dtype;          /* of A and B: HAL_F32 (default), HAL_F16, HAL_BF16, HAL_F8E4M3 */
    hal_dtype dtype_c;        /* default: dtype_d; HAL_F32 where that is HAL_F8E4M3 */
    hal_dtype dtype_d;        /* default: dtype; HAL_F32 where that is HAL_F8E4M3 */
    hal_dtype dtype_bias;     /* default: HAL_F32, whatever dtype is */
    hal_dtype dtype_residual; /* default: as dtype_c */
    bool trans_a, trans_b;
    hal_span a, b, c, d, bias, residual;                       /* c, bias, residual may be none */
    uint64_t lda, ldb, ldc, ldd, ldr;                          /* elements; 0: the row length */
    uint64_t stride_a, stride_b, stride_c, stride_d, stride_r; /* elements from one problem of the batch to the next;
                                            0: packed for d; for operands: shared by all problems */
    float alpha;                                               /* 0 counts as 1 unless alpha_is_zero */
    bool alpha_is_zero;
    float beta;
    hal_act act;
    hal_span workspace; /* scratch, hal_gemm_workspace bytes (fewer: HAL_ERROR_OUT_OF_RANGE); none: a kernel that needs
                           no scratch is used */
    hal_mode mode;
    hal_dtype round_between; /* default HAL_F32 */
    hal_span b_up;           /* SwiGLU: B is the gate's matrix and this the other; dtype, ldb, trans_b, stride_b as B */
    bool interleaved;        /* SwiGLU: B has 2n columns (trans_b: rows), gate and up in turn */
    float swiglu_alpha;      /* in SiLU's sigmoid; 0 counts as 1 */
    hal_span scale_a, scale_b;     /* FP32; none: 1. One for each row of A, for each column of B and then of b_up */
    bool one_scale_a, one_scale_b; /* instead one for all of A; of B, and one for all of b_up */
    hal_span scale_d;              /* dtype_d HAL_F8E4M3: FP32, one a row: D is the code of the value / scale_d[row] */
    uint64_t stride_scale_a, stride_scale_b, stride_scale_d; /* of a batch; 0: shared by all problems */
    bool trans_d;                                            /* D is n x m: stored transposed */
} hal_gemm_desc;
#define HAL_GEMM(...) HAL_DESC(hal_gemm_desc, __VA_ARGS__)

HAL_API hal_status hal_gemm(hal_cmdlist *list, const hal_gemm_desc *desc);
/* Problems of any sizes, as if hal_gemm were called for each; one that is wrong leaves nothing recorded. Those that do
 * not touch what another writes (each with a workspace of its own, if any) run side by side. */
HAL_API hal_status hal_gemm_grouped(hal_cmdlist *list, const hal_gemm_desc *descs, uint64_t count);
/* Bytes of scratch that let hal_gemm use its fastest kernel for this problem on this device; may be 0. With it,
 * options that the fastest kernels lack (SwiGLU, scales, HAL_F8E4M3 or transposed D) are a second phase after them, and
 * so have the bits of separate operators in every mode; and in HAL_MODE_FAST few tiles that are deep are cut along k,
 * and the parts added in a fixed order. */
HAL_API hal_status hal_gemm_workspace(hal_device *device, const hal_gemm_desc *desc, uint64_t *size);
/* Compile what hal_gemm will need for this problem, so that the first call does not have to. */
HAL_API hal_status hal_gemm_prepare(hal_device *device, const hal_gemm_desc *desc);

/* hal_gemm, and D's rows quantised as hal_quantize does with HAL_SCALE_ROW_AMAX, in one kernel that stays on the
 * device: its groups take tiles of D from a queue, and whoever finishes the last tile of some rows quantises them while
 * they are in the cache. No group waits for another, so that it is safe wherever atomics are. The same bits as the two
 * operators in HAL_MODE_STRICT; in every mode sums have k ascending. A problem that it cannot do, or that might take a
 * second, is told as the two. For one problem (batch 1) with D of FP32, FP16 or BF16, not transposed. */
typedef struct hal_gemm_quantize_desc {
    size_t struct_size;
    const hal_gemm_desc *gemm;
    hal_span codes;  /* m rows of n codes, packed */
    hal_span scales; /* FP32, one a row */
    hal_span queue;  /* hal_gemm_quantize_queue bytes of zeros; they are zeros again when the work is done */
} hal_gemm_quantize_desc;
#define HAL_GEMM_QUANTIZE(...) HAL_DESC(hal_gemm_quantize_desc, __VA_ARGS__)
HAL_API hal_status hal_gemm_quantize(hal_cmdlist *list, const hal_gemm_quantize_desc *desc);
HAL_API hal_status hal_gemm_quantize_queue(const hal_gemm_desc *gemm, uint64_t *size);

#ifdef __cplusplus
}
#endif
#endif
