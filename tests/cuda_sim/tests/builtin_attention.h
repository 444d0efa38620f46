/* builtin_attention.h - one attention by libhal's own PTX (kernels_cu/attention.cu, attention_mma.cu,
 * attention_combine.cu), for their mutants and their counters.
 *
 * Scores are whole numbers of few products and the scale is ln 2, so that every weight is a power of two, which BF16
 * has, and results hold to the last bits. */
#ifndef BUILTIN_ATTENTION_H
#define BUILTIN_ATTENTION_H

#include "kernel_run.h"

typedef struct builtin_attention {
    uint32_t dtype, dtype_o; /* HAL_KERNEL_F32 or HAL_KERNEL_BF16 */
    uint32_t room;           /* DIM of attention_mma; 0: attention */
    uint32_t batch, q_heads, kv_heads, head_dim, value_dim, q_length, kv_length;
    uint32_t pad; /* elements behind each row: NaN in q, k and v, and to be left alone in o */
    /* Of kernel_attention.h. With CU_Q each sequence has SHORTER_Q queries less than the one before, with CU_K or
     * LENGTHS SHORTER_K keys; what LENGTHS leave over is NaN. */
    uint32_t options;
    uint32_t mask; /* 0, HAL_KERNEL_F32 (added), HAL_KERNEL_F8E4M3 (bytes); hides every fifth key, whose value is NaN */
    uint32_t page_size, splits;
} builtin_attention;
enum { SHORTER_Q = 3, SHORTER_K = 13 };

kernel_runner builtin_attention_run;
kernel_runner builtin_attention_combine_run; /* attention_combine on splits as they should be */

#endif
