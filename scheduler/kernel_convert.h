/* kernel_convert.h - arguments of the kernels that convert, move and turn elements, as in kernel_abi.h. */
#ifndef HAL_KERNEL_CONVERT_H
#define HAL_KERNEL_CONVERT_H

#include "kernel_abi.h"

/* ROW_OP of quantize, in its lowest two bits; a hal_scaling above them. */
#define QUANTIZE_CAST       0u
#define QUANTIZE_CAST_NAN   1u /* to E4M3: NaN beyond 448 */
#define QUANTIZE_CODES      2u /* E4M3(x / scale) */
#define QUANTIZE_VALUES     3u /* x scale */
#define QUANTIZE_PER_ROW    1u
#define QUANTIZE_PER_COLUMN 2u
#define QUANTIZE_PER_TENSOR 3u
#ifndef GL_core_profile
typedef struct hal_quantize_args {
#include "kernel_args_quantize.inc"
} hal_quantize_args;
#endif

#ifndef GL_core_profile
typedef struct hal_transpose_args {
#include "kernel_args_transpose.inc"
} hal_transpose_args;

typedef struct hal_transpose_flat_args {
#include "kernel_args_transpose_flat.inc"
} hal_transpose_flat_args;
#endif

/* ROW_OP bits of rope and gather. */
#define ROPE_INTERLEAVED 1u
#define ROPE_HAS_IDS     2u
#define GATHER_INT64     1u
#ifndef GL_core_profile
typedef struct hal_rope_args {
#include "kernel_args_rope.inc"
} hal_rope_args;

typedef struct hal_rope_flat_args {
#include "kernel_args_rope_flat.inc"
} hal_rope_flat_args;

typedef struct hal_gather_args {
#include "kernel_args_gather.inc"
} hal_gather_args;
#endif

#endif
