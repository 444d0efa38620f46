/* bytes_step.h - a graph with one step of each kind, in a shape that a case chooses; for test_model_bytes.c. */
#ifndef TEST_BYTES_STEP_H
#define TEST_BYTES_STEP_H

#include "rows.h"

#include "program.h"

enum { TABLE = 50 }; /* rows of tables that are looked up */
enum {
    WITH_BIAS = 1,
    WITH_RESIDUAL = 2,
    WITH_UP = 4,
    WITH_CODES = 8,
    TRANS_B = 16,
    WITH_SUM = 32,
    WITH_MASK = 64,
    WITH_LENGTH = 128,
    STRICT = 256
};

typedef struct shape {
    hal_dtype dtype;
    uint64_t rows, columns, inner; /* GEMM: m, n, k; attention: queries, keys, elements of a head;
                                      RoPE: tokens, turned elements of a head and all */
    uint32_t with, heads, kv_heads;
    hal_causal causal;
} shape;

void bytes_gemm(hal_graph *g, const shape *s);
/* And its rows quantised. */
void bytes_gemm_quantize(hal_graph *g, const shape *s);
void bytes_gemm_scaled(hal_graph *g, const shape *s);
void bytes_activation(hal_graph *g, const shape *s);
void bytes_add_row(hal_graph *g, const shape *s);
void bytes_multiply_column(hal_graph *g, const shape *s);
void bytes_swiglu(hal_graph *g, const shape *s);
void bytes_cast(hal_graph *g, const shape *s);
void bytes_rmsnorm(hal_graph *g, const shape *s);
void bytes_softmax(hal_graph *g, const shape *s);
void bytes_quantize(hal_graph *g, const shape *s);
void bytes_quantize_given(hal_graph *g, const shape *s);
void bytes_dequantize(hal_graph *g, const shape *s);
void bytes_transpose(hal_graph *g, const shape *s);
void bytes_rope(hal_graph *g, const shape *s);
void bytes_gather(hal_graph *g, const shape *s);
void bytes_attention(hal_graph *g, const shape *s);

/* Makes of the graph's last step what only fusion can. */
void bytes_fuse(hal_program *program, hal_step *step, const shape *s);

#endif
