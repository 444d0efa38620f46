/* hal/graph.h - a graph of operators on tensors, built once in C, compiled for a device by <hal/plan.h>.
 *
 * A graph holds no device memory and calls no driver. Tensors have a dtype and 1 to 4 dimensions, outermost first,
 * packed; the first dimension may be HAL_ROWS, which every run of a plan gives a value. Operators treat a tensor as a
 * matrix: its last dimension is the columns, those before it the rows; HAL_ROWS alone is a column. Each dimension, and
 * the product of all but the first, is below 2^31. What each operator computes is said in <hal/ops.h>; a result is
 * rounded to its tensor's dtype, and fusion keeps that rounding.
 *
 * Builder calls return the new tensor. One that fails returns no tensor (id 0), and the graph keeps this first failure
 * and takes nothing more: hal_graph_status and hal_plan_create report it. So a graph is written without a check a line.
 * A graph is used by one thread at a time, but for hal_plan_create: any number may make plans of one that is built. */
#ifndef HAL_GRAPH_H
#define HAL_GRAPH_H

#include <hal/ops.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_graph hal_graph;

/* A tensor of one graph; id 0 is none. */
typedef struct hal_tensor {
    uint32_t id;
    uint32_t graph; /* tells graphs apart */
} hal_tensor;
#define HAL_NO_TENSOR ((hal_tensor){0, 0})

#define HAL_MAX_RANK  4
#define HAL_ROWS      UINT64_MAX /* as the first dimension: as many as a run says */
typedef struct hal_dims {
    uint32_t rank;
    uint64_t size[HAL_MAX_RANK];
} hal_dims;
/* HAL_DIMS(HAL_ROWS, 4096) */
#define HAL_DIMS(...) HAL_VALUE(hal_dims, HAL_COUNT(uint64_t, __VA_ARGS__), {__VA_ARGS__})

typedef struct hal_graph_desc {
    size_t struct_size;
    const char *label; /* NULL: "graph" */
} hal_graph_desc;
#define HAL_GRAPH(...) HAL_DESC(hal_graph_desc, __VA_ARGS__)

HAL_API hal_status hal_graph_create(const hal_graph_desc *desc, hal_graph **graph); /* desc may be NULL */
HAL_API void hal_graph_destroy(hal_graph *graph);                                   /* plans made of it live on */
/* The first failure of a builder call, which also becomes hal_last_error(); HAL_OK if there was none. */
HAL_API hal_status hal_graph_status(const hal_graph *graph);

/* What goes in and comes out. Names are unique in the graph, copied, and used in dumps and messages. The order of
 * inputs, then that of outputs, is the order of the spans at hal_plan_run. */
HAL_API hal_tensor hal_graph_input(hal_graph *graph, const char *name, hal_dtype dtype, hal_dims dims);
/* An input of int32 or int64 values (element_size 4 or 8): ids, positions, lengths. */
HAL_API hal_tensor hal_graph_index_input(hal_graph *graph, const char *name, uint32_t element_size, hal_dims dims);
/* Weights: stay where they are; buffers are held by the graph and its plans. A span of kind none: a constant without
 * memory, for graphs that are only described and costed. */
HAL_API hal_tensor hal_graph_constant(hal_graph *graph, const char *name, hal_dtype dtype, hal_dims dims,
                                      hal_span span);
/* Names a result, which must be of an operator; a tensor is an output once. */
HAL_API void hal_graph_output(hal_graph *graph, const char *name, hal_tensor tensor);

/* D = alpha A B + bias: a [..., k], b [k, n] (trans_b: [n, k]), bias [n]. */
typedef struct hal_graph_gemm_options {
    size_t struct_size;
    hal_dtype dtype; /* of the result; default: a's, HAL_F32 where that is HAL_F8E4M3 */
    bool trans_b;
    float alpha;        /* 0 counts as 1 */
    hal_tensor bias;    /* of FP32, FP16 or BF16 */
    hal_tensor scale_a; /* FP32, one a row of a: what hal_graph_quantize gave */
    hal_tensor scale_b; /* FP32, one a column of b */
} hal_graph_gemm_options;
#define HAL_GRAPH_GEMM(...) HAL_DESC(hal_graph_gemm_options, __VA_ARGS__)
HAL_API hal_tensor hal_graph_gemm(hal_graph *graph, hal_tensor a, hal_tensor b, const hal_graph_gemm_options *options);

HAL_API hal_tensor hal_graph_activation(hal_graph *graph, hal_tensor x, hal_act act);
/* a op b; b may have one row, or one column, for all of a's (hal_binary_desc). */
HAL_API hal_tensor hal_graph_binary(hal_graph *graph, hal_binary_op op, hal_tensor a, hal_tensor b);
static inline hal_tensor hal_graph_add(hal_graph *graph, hal_tensor a, hal_tensor b)
{
    return hal_graph_binary(graph, HAL_ADD, a, b);
}
static inline hal_tensor hal_graph_multiply(hal_graph *graph, hal_tensor a, hal_tensor b)
{
    return hal_graph_binary(graph, HAL_MULTIPLY, a, b);
}
/* SiLU(gate), rounded to its dtype, times up. */
static inline hal_tensor hal_graph_swiglu(hal_graph *graph, hal_tensor gate, hal_tensor up)
{
    return hal_graph_binary(graph, HAL_SWIGLU, gate, up);
}
HAL_API hal_tensor hal_graph_rmsnorm(hal_graph *graph, hal_tensor x, hal_tensor weight, float eps);
/* softmax(scale x + mask) along rows; mask (may be none) of as many rows, or of one that serves all. scale 0 counts
 * as 1. */
HAL_API hal_tensor hal_graph_softmax(hal_graph *graph, hal_tensor x, float scale, hal_tensor mask);
HAL_API hal_tensor hal_graph_cast(hal_graph *graph, hal_tensor x, hal_dtype dtype);
/* Codes of HAL_F8E4M3. scales none: each row's own scale, which becomes *row_scales [rows] (FP32). Else one a row is
 * read, and row_scales may be NULL. */
HAL_API hal_tensor hal_graph_quantize(hal_graph *graph, hal_tensor x, hal_tensor scales, hal_tensor *row_scales);
HAL_API hal_tensor hal_graph_dequantize(hal_graph *graph, hal_tensor codes, hal_tensor row_scales, hal_dtype dtype);
/* Dimension d of the result is dimension perm[d] of x; HAL_ROWS stays first. */
HAL_API hal_tensor hal_graph_transpose(hal_graph *graph, hal_tensor x, const uint32_t perm[HAL_MAX_RANK]);
/* x [tokens, heads * head_dim]; cos and sin FP32 [positions, rotary_dim / 2]; positions: int32 [tokens], none: 0, 1,
 * ... */
HAL_API hal_tensor hal_graph_rope(hal_graph *graph, hal_tensor x, uint32_t heads, hal_tensor cosines, hal_tensor sines,
                                  hal_tensor positions);
/* Rows `ids` (index input) of the table. */
HAL_API hal_tensor hal_graph_gather(hal_graph *graph, hal_tensor table, hal_tensor ids);

/* One sequence: q [rows, q_heads * head_dim], k and v [keys, kv_heads * head_dim]. */
typedef struct hal_graph_attention_options {
    size_t struct_size;
    uint32_t q_heads, kv_heads; /* 0: 1; q_heads */
    hal_causal causal;
    float scale, softcap;  /* 0: 1 / sqrt(head_dim); none */
    hal_tensor mask;       /* [rows, keys], added; none */
    hal_tensor kv_lengths; /* int32 [1]: so many of the keys count; none: all */
} hal_graph_attention_options;
#define HAL_GRAPH_ATTENTION(...) HAL_DESC(hal_graph_attention_options, __VA_ARGS__)
HAL_API hal_tensor hal_graph_attention(hal_graph *graph, hal_tensor q, hal_tensor k, hal_tensor v,
                                       const hal_graph_attention_options *options);

/* What a tensor is. Failure: no such tensor in this graph. */
HAL_API hal_status hal_graph_tensor(const hal_graph *graph, hal_tensor tensor, hal_dtype *dtype, hal_dims *dims);

typedef enum hal_graph_format {
    HAL_GRAPH_TEXT = 0, /* a line a step */
    HAL_GRAPH_DOT = 1,  /* Graphviz */
    HAL_GRAPH_JSON = 2
} hal_graph_format;
HAL_API hal_status hal_graph_dump(const hal_graph *graph, hal_graph_format format, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
