/* kernel_rows.h - argument structs and constants of softmax and RMSNorm, for C, OpenCL C, GLSL and CUDA C++; see
 * kernel_abi.h.
 *
 * Sums along a row are taken in one order everywhere, so that their bits depend on nothing else: element i is added to
 * partial sum i mod 1024, ascending; then partial sum j takes up j + 512, then j + 256, and so on to j + 1. A thread
 * of T takes four neighbours at a time, the columns c with c / 4 mod T its own; it owns these partial sums, too. */
#ifndef HAL_KERNEL_ROWS_H
#define HAL_KERNEL_ROWS_H

#include "kernel_abi.h"

#define ROW_SUMS 1024u

/* From where views and outputs begin to their operands, in texels, or in units of 32 bytes: a byte each. */
#define ROW_BASES(b0, b1, b2) ((b0) | (b1) << 8 | (b2) << 16)
#define ROW_BASE(bases, i)    ((bases) >> 8 * (i)&255u)

/* ROW_OP of softmax. KEEP: how many times four neighbours a thread keeps; 0: it reads the row again. */
#define SOFTMAX_OP(log, online, keep) ((log) | (online) << 1 | (keep) << 2)
#define SOFTMAX_LOG(op)               (((op)&1u) != 0u)
#define SOFTMAX_ONLINE(op)            (((op)&2u) != 0u)
#define ROW_KEEP(op)                  ((op) >> 2 & 15u)
#define SOFTMAX_BOOL                  7u /* in place of the mask's dtype: bytes; 0 hides */

/* ROW_OP of rmsnorm. */
#define RMSNORM_RESIDUAL              1u
#define RMSNORM_SUM                   2u /* x + residual is written */
#define RMSNORM_OP(what, keep, phase) ((what) | (keep) << 2 | (phase) << 6)
#define RMSNORM_PHASE(op)             ((op) >> 6 & 3u)
/* All at once, or in parts: partial sums to `parts`, greatest magnitudes of the parts there (E4M3 only), y. */
#define RMSNORM_WHOLE 0u
#define RMSNORM_SUMS  1u
#define RMSNORM_AMAX  2u
#define RMSNORM_WRITE 3u
#define RMSNORM_PARTS 32u                        /* at most; of groups always */
#define RMSNORM_ROW   (ROW_SUMS + RMSNORM_PARTS) /* floats of a row in `parts` */

#ifndef GL_core_profile
typedef struct hal_softmax_args {
#include "kernel_args_softmax.inc"
} hal_softmax_args;

typedef struct hal_rmsnorm_args {
#include "kernel_args_rmsnorm.inc"
} hal_rmsnorm_args;
#endif

#endif
