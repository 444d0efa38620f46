/* builtin_convert.h - what converts, turns and gathers rows by libhal's own PTX (kernels_cu/quantize.cu, rope.cu,
 * gather.cu), for its counters. */
#ifndef BUILTIN_CONVERT_H
#define BUILTIN_CONVERT_H

#include "kernel_run.h"

typedef struct builtin_quantize {
    uint32_t dtype, dtype_y; /* F32, BF16, F8E4M3 */
    uint32_t op, scaling;    /* QUANTIZE_*; scaling 0: quantize_row where op is QUANTIZE_CODES */
    uint32_t rows, columns, pad;
} builtin_quantize;

typedef struct builtin_rope {
    uint32_t dtype, tokens, heads, head_dim, rotary_dim, pad; /* pad: elements behind each head */
    uint32_t heads_a_group;
    bool ids, interleaved;
} builtin_rope;

typedef struct builtin_gather {
    uint32_t dtype, dtype_y, count, columns, table_rows, pad;
    bool int64;
} builtin_gather;

kernel_runner builtin_quantize_run, builtin_rope_run, builtin_gather_run;

#endif
