/* graphs.h - the graphs that hal-bench runs: built on a device, and computed on the host in double. */
#ifndef BENCH_GRAPHS_H
#define BENCH_GRAPHS_H

#include "job.h"

#include <hal/plan.h>

typedef enum bench_graph_kind {
    BENCH_GRAPH_ACTIVATION, /* SiLU(gate) * up, quantised by row: three kernels */
    BENCH_GRAPH_NORM,       /* x + residual, RMSNorm, quantised by row */
    BENCH_GRAPH_PROJECTION, /* x W + bias, GELU, + residual */
    BENCH_GRAPH_FFN,        /* RMSNorm, gate and up, SwiGLU, down, + residual: Qwen3's */
    BENCH_GRAPH_LAYER       /* a decoder layer: RMSNorm, Q, K, V, RoPE, attention, output, + residual; then the FFN */
} bench_graph_kind;

typedef struct bench_graph_shape {
    uint64_t rows, hidden, intermediate;
    uint32_t heads, kv_heads, head_dim;
    hal_dtype dtype;
} bench_graph_shape;

enum { BENCH_GRAPH_OPERANDS = 16 };

/* One tensor that the host gives: an input or a constant. */
typedef struct bench_graph_operand {
    const char *name;
    uint64_t rows, columns;
    bench_operand_data data;
    hal_buffer *buffer;
    bool constant;
} bench_graph_operand;

typedef struct bench_graph {
    bench_graph_kind kind;
    bench_graph_shape shape;
    hal_graph *graph;
    bench_graph_operand operands[BENCH_GRAPH_OPERANDS]; /* in the order in which the graph takes them */
    uint32_t operand_count, outputs;
    uint64_t output_bytes[2];
    bool chains; /* the output may be the next run's first input */
} bench_graph;

const char *bench_graph_name(bench_graph_kind kind);
/* Operands in the device's memory, and the graph; what is in the way is hal_last_error()'s, or out of memory. */
bool bench_graph_build(bench_graph *graph, bench_graph_kind kind, const bench_graph_shape *shape, hal_stream *stream);
void bench_graph_close(bench_graph *graph);
/* Row `row` of the first output (BENCH_GRAPH_FFN, _LAYER, _PROJECTION) in double; `want` has shape.hidden elements. */
bool bench_graph_expect(const bench_graph *graph, uint64_t row, double *want);

#endif
