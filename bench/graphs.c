/* graphs.c - the graphs that hal-bench runs. */
#include "graphs.h"

#include <math.h>
#include <string.h>

static const float norm_eps = 1e-6f;

const char *bench_graph_name(bench_graph_kind kind)
{
    static const char *const names[] = {"activation", "norm", "projection", "ffn", "layer"};
    return names[kind];
}

/* The next operand in the device's memory: numbers in [-range, range). */
static bench_graph_operand *operand(bench_graph *g, hal_stream *stream, const char *name, uint64_t rows,
                                    uint64_t columns, hal_dtype dtype, float range)
{
    bench_graph_operand *o = &g->operands[g->operand_count];
    *o = (bench_graph_operand){.name = name, .rows = rows, .columns = columns};
    const uint64_t size = rows * columns * hal_dtype_size(dtype);
    if (!bench_operand_create(&o->data, rows * columns, dtype, g->operand_count + 11, range))
        return NULL;
    g->operand_count++;
    const bool good =
        hal_buffer_create(hal_cmdlist_device(hal_stream_cmdlist(stream)), HAL_BUFFER(.size = size, .label = name),
                          &o->buffer) == HAL_OK &&
        hal_cmd_upload(hal_stream_cmdlist(stream), hal_whole(o->buffer), o->data.elements, size) == HAL_OK;
    return good ? o : NULL;
}

static hal_tensor input(bench_graph *g, hal_stream *stream, const char *name, uint64_t columns)
{
    const bench_graph_operand *o = operand(g, stream, name, g->shape.rows, columns, g->shape.dtype, 1);
    return o ? hal_graph_input(g->graph, name, g->shape.dtype, HAL_DIMS(HAL_ROWS, columns)) : HAL_NO_TENSOR;
}

/* A matrix of weights of a size that keeps what it multiplies about as large; a vector is of about one. */
static hal_tensor constant(bench_graph *g, hal_stream *stream, const char *name, uint64_t rows, uint64_t columns,
                           hal_dtype dtype)
{
    const float range = rows > 1 ? sqrtf(3.0f / (float)rows) : 1.0f;
    bench_graph_operand *o = operand(g, stream, name, rows, columns, dtype, range);
    if (!o)
        return HAL_NO_TENSOR;
    o->constant = true;
    return hal_graph_constant(g->graph, name, dtype, rows > 1 ? HAL_DIMS(rows, columns) : HAL_DIMS(columns),
                              hal_whole(o->buffer));
}

static void quantised(bench_graph *g, hal_tensor x, uint64_t columns)
{
    hal_tensor scales;
    hal_graph_output(g->graph, "codes", hal_graph_quantize(g->graph, x, HAL_NO_TENSOR, &scales));
    hal_graph_output(g->graph, "scales", scales);
    g->outputs = 2;
    g->output_bytes[0] = g->shape.rows * columns;
    g->output_bytes[1] = g->shape.rows * sizeof(float);
}

static void result(bench_graph *g, hal_tensor y)
{
    hal_graph_output(g->graph, "y", y);
    g->outputs = 1;
    g->output_bytes[0] = g->shape.rows * g->shape.hidden * hal_dtype_size(g->shape.dtype);
}

static void build_activation(bench_graph *g, hal_stream *s)
{
    const hal_tensor gate = input(g, s, "gate", g->shape.intermediate), up = input(g, s, "up", g->shape.intermediate);
    const hal_tensor silu = hal_graph_activation(g->graph, gate, HAL_ACT_SILU);
    quantised(g, hal_graph_multiply(g->graph, silu, up), g->shape.intermediate);
}

static void build_norm(bench_graph *g, hal_stream *s)
{
    const hal_tensor x = input(g, s, "x", g->shape.hidden), residual = input(g, s, "residual", g->shape.hidden);
    const hal_tensor weight = constant(g, s, "weight", 1, g->shape.hidden, g->shape.dtype);
    const hal_tensor sum = hal_graph_add(g->graph, x, residual);
    quantised(g, hal_graph_rmsnorm(g->graph, sum, weight, norm_eps), g->shape.hidden);
}

static void build_projection(bench_graph *g, hal_stream *s)
{
    const uint64_t hidden = g->shape.hidden;
    const hal_tensor x = input(g, s, "x", hidden);
    const hal_tensor w = constant(g, s, "w", hidden, hidden, g->shape.dtype);
    const hal_tensor bias = constant(g, s, "bias", 1, hidden, g->shape.dtype);
    const hal_tensor product = hal_graph_add(g->graph, hal_graph_gemm(g->graph, x, w, NULL), bias);
    result(g, hal_graph_add(g->graph, hal_graph_activation(g->graph, product, HAL_ACT_GELU_TANH), x));
    g->chains = true;
}

static hal_tensor ffn(bench_graph *g, hal_stream *s, hal_tensor h)
{
    const uint64_t hidden = g->shape.hidden, inner = g->shape.intermediate;
    const hal_dtype dtype = g->shape.dtype;
    const hal_tensor n = hal_graph_rmsnorm(g->graph, h, constant(g, s, "ffn_norm", 1, hidden, dtype), norm_eps);
    const hal_tensor gate = hal_graph_gemm(g->graph, n, constant(g, s, "gate", hidden, inner, dtype), NULL);
    const hal_tensor up = hal_graph_gemm(g->graph, n, constant(g, s, "up", hidden, inner, dtype), NULL);
    const hal_tensor z = hal_graph_swiglu(g->graph, gate, up);
    const hal_tensor down = hal_graph_gemm(g->graph, z, constant(g, s, "down", inner, hidden, dtype), NULL);
    return hal_graph_add(g->graph, down, h);
}

static void build_ffn(bench_graph *g, hal_stream *s)
{
    result(g, ffn(g, s, input(g, s, "h", g->shape.hidden)));
    g->chains = true;
}

/* Cosines and sines of the positions take the place of two operands' random numbers. */
static bool rope_tables(bench_graph *g, hal_stream *s, hal_tensor tables[2])
{
    const uint32_t half = g->shape.head_dim / 2;
    for (int i = 0; i < 2; i++)
        tables[i] = constant(g, s, i ? "sin" : "cos", g->shape.rows, half, HAL_F32);
    bench_graph_operand *cosines = &g->operands[g->operand_count - 2], *sines = cosines + 1;
    if (!tables[0].id || !tables[1].id ||
        hal_rope_table(g->shape.rows, 2 * half, 1e6, cosines->data.values, sines->data.values) != HAL_OK)
        return false;
    for (bench_graph_operand *o = cosines; o <= sines; o++)
        if (hal_cmd_upload(hal_stream_cmdlist(s), hal_whole(o->buffer), o->data.values,
                           o->data.count * sizeof(float)) != HAL_OK)
            return false;
    return true;
}

static void build_layer(bench_graph *g, hal_stream *s)
{
    const bench_graph_shape *d = &g->shape;
    const uint64_t queries = (uint64_t)d->heads * d->head_dim, keys = (uint64_t)d->kv_heads * d->head_dim;
    hal_tensor tables[2] = {HAL_NO_TENSOR, HAL_NO_TENSOR};
    const hal_tensor h = input(g, s, "h", d->hidden);
    if (!rope_tables(g, s, tables))
        return;
    const hal_tensor n = hal_graph_rmsnorm(g->graph, h, constant(g, s, "norm", 1, d->hidden, d->dtype), norm_eps);
    const hal_tensor q = hal_graph_gemm(g->graph, n, constant(g, s, "wq", d->hidden, queries, d->dtype), NULL);
    const hal_tensor k = hal_graph_gemm(g->graph, n, constant(g, s, "wk", d->hidden, keys, d->dtype), NULL);
    const hal_tensor v = hal_graph_gemm(g->graph, n, constant(g, s, "wv", d->hidden, keys, d->dtype), NULL);
    const hal_tensor rq = hal_graph_rope(g->graph, q, d->heads, tables[0], tables[1], HAL_NO_TENSOR);
    const hal_tensor rk = hal_graph_rope(g->graph, k, d->kv_heads, tables[0], tables[1], HAL_NO_TENSOR);
    const hal_tensor o = hal_graph_attention(
        g->graph, rq, rk, v,
        HAL_GRAPH_ATTENTION(.q_heads = d->heads, .kv_heads = d->kv_heads, .causal = HAL_CAUSAL_TOP_LEFT));
    const hal_tensor out = hal_graph_gemm(g->graph, o, constant(g, s, "wo", queries, d->hidden, d->dtype), NULL);
    result(g, ffn(g, s, hal_graph_add(g->graph, out, h)));
    g->chains = true;
}

bool bench_graph_build(bench_graph *g, bench_graph_kind kind, const bench_graph_shape *shape, hal_stream *stream)
{
    static void (*const builders[])(bench_graph * g, hal_stream * s) = {build_activation, build_norm, build_projection,
                                                                        build_ffn, build_layer};
    *g = (bench_graph){.kind = kind, .shape = *shape};
    if (hal_graph_create(HAL_GRAPH(.label = bench_graph_name(kind)), &g->graph) != HAL_OK)
        return false;
    builders[kind](g, stream);
    return hal_graph_status(g->graph) == HAL_OK && g->outputs && hal_stream_wait(stream, HAL_SECONDS(60)) == HAL_OK;
}

void bench_graph_close(bench_graph *g)
{
    hal_graph_destroy(g->graph);
    for (uint32_t i = 0; i < g->operand_count; i++) {
        hal_buffer_destroy(g->operands[i].buffer);
        bench_operand_destroy(&g->operands[i].data);
    }
    memset(g, 0, sizeof *g);
}
