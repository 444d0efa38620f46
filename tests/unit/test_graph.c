/* test_graph.c - graphs: the shape of every result, every misuse with its message, the first failure kept, dumps, and
 * host memory that runs out at every allocation. */
#include "unit.h"

#include "internal.h"
#include "json.h"
#include "program.h"
#include <locale.h>
#include <math.h>

/* Allocation number `fail_at` from now on fails; 0: none does. The one state of the test: see the link options. */
static uint64_t fail_at;

static bool out_of_memory(void)
{
    return fail_at && --fail_at == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory() ? NULL : __real_calloc(count, size);
}
void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size)
{
    return out_of_memory() ? NULL : __real_realloc(pointer, size);
}
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return out_of_memory() ? NULL : __real_strdup(text);
}

/* A graph with a tensor of each kind that the cases need. */
typedef struct tensors {
    hal_graph *graph;
    hal_tensor x, cube, fixed, vector, column, w, codes, scales, ids, ids64, table, rows;
} tensors;

static tensors open_tensors(void)
{
    tensors t;
    assert_int_equal(hal_graph_create(HAL_GRAPH(.label = "test"), &t.graph), HAL_OK);
    t.x = hal_graph_input(t.graph, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 24));
    t.cube = hal_graph_input(t.graph, "cube", HAL_BF16, HAL_DIMS(HAL_ROWS, 3, 24));
    t.fixed = hal_graph_input(t.graph, "fixed", HAL_F16, HAL_DIMS(10, 24));
    t.vector = hal_graph_input(t.graph, "vector", HAL_F16, HAL_DIMS(24));
    t.column = hal_graph_input(t.graph, "column", HAL_F16, HAL_DIMS(HAL_ROWS, 1));
    t.w = hal_graph_constant(t.graph, "w", HAL_F16, HAL_DIMS(24, 40), (hal_span){0});
    t.codes = hal_graph_input(t.graph, "codes", HAL_F8E4M3, HAL_DIMS(HAL_ROWS, 24));
    t.scales = hal_graph_input(t.graph, "scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    t.ids = hal_graph_index_input(t.graph, "ids", 4, HAL_DIMS(HAL_ROWS));
    t.ids64 = hal_graph_index_input(t.graph, "ids64", 8, HAL_DIMS(HAL_ROWS, 2));
    t.table = hal_graph_constant(t.graph, "table", HAL_F32, HAL_DIMS(100, 6), (hal_span){0});
    t.rows = hal_graph_input(t.graph, "rows", HAL_F16, HAL_DIMS(HAL_ROWS));
    assert_int_equal(hal_graph_status(t.graph), HAL_OK);
    return t;
}

/* Shapes */

static void expect(const tensors *t, hal_tensor tensor, hal_dtype dtype, const char *dims)
{
    hal_dtype got = HAL_DTYPE_DEFAULT;
    hal_dims size = {0};
    char text[HAL_DIMS_TEXT];
    if (hal_graph_status(t->graph) != HAL_OK || hal_graph_tensor(t->graph, tensor, &got, &size) != HAL_OK) {
        fail_msg("%s", hal_last_error());
    }
    assert_string_equal(hal_dims_text(&size, text), dims);
    assert_int_equal(got, dtype);
}

static void shapes(void **state)
{
    (void)state;
    tensors t = open_tensors();
    hal_graph *g = t.graph;
    hal_tensor scales;
    expect(&t, hal_graph_gemm(g, t.x, t.w, NULL), HAL_F16, "[rows, 40]");
    expect(&t, hal_graph_gemm(g, t.x, t.fixed, HAL_GRAPH_GEMM(.trans_b = true, .dtype = HAL_F32)), HAL_F32,
           "[rows, 10]");
    expect(&t, hal_graph_gemm(g, t.vector, t.w, NULL), HAL_F16, "[40]");
    expect(&t, hal_graph_gemm(g, t.rows, hal_graph_input(g, "outer", HAL_F16, HAL_DIMS(1, 5)), NULL), HAL_F16,
           "[rows, 5]");
    expect(&t,
           hal_graph_gemm(g, t.codes, hal_graph_input(g, "w8", HAL_F8E4M3, HAL_DIMS(24, 8)),
                          HAL_GRAPH_GEMM(.scale_a = t.scales)),
           HAL_F32, "[rows, 8]");
    expect(&t, hal_graph_activation(g, t.cube, HAL_ACT_RELU), HAL_BF16, "[rows, 3, 24]");
    expect(&t, hal_graph_add(g, t.cube, t.vector), HAL_BF16, "[rows, 3, 24]");
    expect(&t, hal_graph_multiply(g, t.x, t.column), HAL_F16, "[rows, 24]");
    expect(&t, hal_graph_multiply(g, t.rows, t.rows), HAL_F16, "[rows]");
    expect(&t, hal_graph_swiglu(g, t.x, t.x), HAL_F16, "[rows, 24]");
    expect(&t, hal_graph_rmsnorm(g, t.cube, t.vector, 0), HAL_BF16, "[rows, 3, 24]");
    expect(&t, hal_graph_rmsnorm(g, t.x, HAL_NO_TENSOR, 0), HAL_F16, "[rows, 24]");
    expect(&t, hal_graph_softmax(g, t.x, 0, t.vector), HAL_F16, "[rows, 24]");
    expect(&t, hal_graph_cast(g, t.x, HAL_F8E4M3), HAL_F8E4M3, "[rows, 24]");
    expect(&t, hal_graph_quantize(g, t.cube, HAL_NO_TENSOR, &scales), HAL_F8E4M3, "[rows, 3, 24]");
    expect(&t, scales, HAL_F32, "[rows, 3]");
    expect(&t, hal_graph_quantize(g, t.vector, HAL_NO_TENSOR, &scales), HAL_F8E4M3, "[24]");
    expect(&t, scales, HAL_F32, "[1]");
    expect(&t, hal_graph_quantize(g, t.x, t.scales, &scales), HAL_F8E4M3, "[rows, 24]");
    assert_int_equal(scales.id, t.scales.id);
    expect(&t, hal_graph_quantize(g, t.rows, HAL_NO_TENSOR, &scales), HAL_F8E4M3, "[rows]");
    expect(&t, scales, HAL_F32, "[rows]");
    expect(&t, hal_graph_dequantize(g, t.codes, t.scales, HAL_DTYPE_DEFAULT), HAL_F32, "[rows, 24]");
    expect(&t, hal_graph_transpose(g, t.cube, (const uint32_t[4]){0, 2, 1}), HAL_BF16, "[rows, 24, 3]");
    expect(&t, hal_graph_transpose(g, t.w, (const uint32_t[4]){1, 0}), HAL_F16, "[40, 24]");
    expect(&t, hal_graph_rope(g, t.x, 2, t.table, t.table, t.ids), HAL_F16, "[rows, 24]");
    expect(&t, hal_graph_gather(g, t.table, t.ids64), HAL_F32, "[rows, 2, 6]");
    expect(&t,
           hal_graph_attention(g, t.x, t.fixed, hal_graph_input(g, "v", HAL_F16, HAL_DIMS(10, 16)),
                               HAL_GRAPH_ATTENTION(.q_heads = 2, .kv_heads = 2)),
           HAL_F16, "[rows, 16]");
    expect(&t, hal_graph_attention(g, t.x, t.x, t.x, HAL_GRAPH_ATTENTION(.q_heads = 4)), HAL_F16, "[rows, 24]");
    hal_graph_destroy(g);
}

static void sizes(void **state)
{
    (void)state;
    hal_tensor_info info = {.element_size = 2, .dims = HAL_DIMS(HAL_ROWS, 3, 24)};
    assert_int_equal(hal_tensor_rows(&info, 7), 21);
    assert_int_equal(hal_tensor_columns(&info), 24);
    assert_int_equal(hal_tensor_bytes(&info, 7), 21 * 24 * 2);
    info.dims = HAL_DIMS(HAL_ROWS);
    assert_int_equal(hal_tensor_rows(&info, 7), 7);
    assert_int_equal(hal_tensor_columns(&info), 1);
    info.dims = HAL_DIMS(24);
    assert_int_equal(hal_tensor_rows(&info, 7), 1);
    assert_int_equal(hal_tensor_columns(&info), 24);
    info.dims = HAL_DIMS(HAL_ROWS, INT32_MAX);
    assert_true(hal_tensor_bytes(&info, INT32_MAX) == UINT64_C(2) * INT32_MAX * INT32_MAX);
}

/* Misuse */

typedef void (*misuse_fn)(tensors *t);
typedef struct misuse {
    misuse_fn call;
    const char *message;
} misuse;

#define MISUSE(name, ...)                                                                                              \
    static void name(tensors *t)                                                                                       \
    {                                                                                                                  \
        hal_graph *g = t->graph;                                                                                       \
        __VA_ARGS__;                                                                                                   \
    }

MISUSE(rank_0, hal_graph_input(g, "y", HAL_F16, (hal_dims){0}))
MISUSE(rank_5, hal_graph_input(g, "y", HAL_F16, ((hal_dims){5, {1, 1, 1, 1}})))
MISUSE(dim_0, hal_graph_input(g, "y", HAL_F16, HAL_DIMS(4, 0)))
MISUSE(dim_large, hal_graph_input(g, "y", HAL_F16, HAL_DIMS(UINT64_C(1) << 31, 1)))
MISUSE(row_large, hal_graph_input(g, "y", HAL_F16, HAL_DIMS(HAL_ROWS, 1 << 16, 1 << 15)))
MISUSE(rows_inside, hal_graph_input(g, "y", HAL_F16, HAL_DIMS(4, HAL_ROWS)))
MISUSE(rows_constant, hal_graph_constant(g, "y", HAL_F16, HAL_DIMS(HAL_ROWS, 4), (hal_span){0}))
MISUSE(bad_dtype, hal_graph_input(g, "y", (hal_dtype)9, HAL_DIMS(4)))
MISUSE(no_dtype, hal_graph_constant(g, "y", HAL_DTYPE_DEFAULT, HAL_DIMS(4), (hal_span){0}))
MISUSE(bad_index, hal_graph_index_input(g, "y", 2, HAL_DIMS(4)))
MISUSE(name_twice, hal_graph_input(g, "x", HAL_F16, HAL_DIMS(4)))
MISUSE(name_null, hal_graph_input(g, NULL, HAL_F16, HAL_DIMS(4)))
MISUSE(name_empty, hal_graph_constant(g, "", HAL_F16, HAL_DIMS(4), (hal_span){0}))
MISUSE(name_percent, hal_graph_index_input(g, "%3", 4, HAL_DIMS(4)))
MISUSE(slot_constant, hal_graph_constant(g, "y", HAL_F16, HAL_DIMS(4), hal_slot(0, 0)))
MISUSE(null_constant, hal_graph_constant(g, "y", HAL_F16, HAL_DIMS(4), hal_at(NULL, 0)))
MISUSE(no_operand, hal_graph_activation(g, HAL_NO_TENSOR, HAL_ACT_RELU))
MISUSE(beyond, hal_graph_activation(g, ((hal_tensor){99, t->x.graph}), HAL_ACT_RELU))
MISUSE(foreign, tensors other = open_tensors(); hal_graph_activation(g, other.x, HAL_ACT_RELU);
       hal_graph_destroy(other.graph))
MISUSE(foreign_mask, tensors other = open_tensors(); hal_graph_softmax(g, t->x, 0, other.vector);
       hal_graph_destroy(other.graph))
MISUSE(indices_to_act, hal_graph_activation(g, t->ids, HAL_ACT_RELU))
MISUSE(codes_to_act, hal_graph_activation(g, t->codes, HAL_ACT_RELU))
MISUSE(bad_act, hal_graph_activation(g, t->x, (hal_act)6))
MISUSE(gemm_k, hal_graph_gemm(g, t->x, t->fixed, NULL))
MISUSE(gemm_k_trans, hal_graph_gemm(g, t->x, t->w, HAL_GRAPH_GEMM(.trans_b = true)))
MISUSE(gemm_rank, hal_graph_gemm(g, t->x, t->vector, NULL))
MISUSE(gemm_rows, hal_graph_gemm(g, t->x, t->x, HAL_GRAPH_GEMM(.trans_b = true)))
MISUSE(gemm_dtypes, hal_graph_gemm(g, t->cube, t->w, NULL))
MISUSE(gemm_bias, hal_graph_gemm(g, t->x, t->w, HAL_GRAPH_GEMM(.bias = t->vector)))
MISUSE(gemm_bias_codes, hal_graph_gemm(g, t->x, t->w, HAL_GRAPH_GEMM(.bias = t->codes)))
MISUSE(gemm_scale_a, hal_graph_gemm(g, t->cube, hal_graph_input(g, "b", HAL_BF16, HAL_DIMS(24, 4)),
                                    HAL_GRAPH_GEMM(.scale_a = t->scales)))
MISUSE(gemm_scale_b, hal_graph_gemm(g, t->x, t->w, HAL_GRAPH_GEMM(.scale_b = t->scales)))
MISUSE(gemm_codes, hal_graph_gemm(g, t->x, t->w, HAL_GRAPH_GEMM(.dtype = HAL_F8E4M3)))
MISUSE(gemm_newer, hal_graph_gemm(g, t->x, t->w, &(hal_graph_gemm_options){.struct_size = 2}))
MISUSE(bad_binary, hal_graph_binary(g, (hal_binary_op)3, t->x, t->x))
MISUSE(binary_columns, hal_graph_add(g, t->x, t->rows); hal_graph_add(g, t->x, t->scales);
       hal_graph_add(g, t->x, hal_graph_cast(g, t->table, HAL_F16)))
MISUSE(binary_rows, hal_graph_add(g, t->x, t->fixed))
MISUSE(rms_weight, hal_graph_rmsnorm(g, t->x, t->rows, 0))
MISUSE(softmax_mask, hal_graph_softmax(g, t->x, 0, t->fixed))
MISUSE(bad_cast, hal_graph_cast(g, t->x, HAL_DTYPE_DEFAULT))
MISUSE(quantize_null, hal_graph_quantize(g, t->x, HAL_NO_TENSOR, NULL))
MISUSE(quantize_scales, hal_tensor made = t->x; hal_graph_quantize(g, t->cube, t->scales, &made);
       assert_int_equal(made.id, 0))
MISUSE(quantize_one, hal_graph_quantize(g, t->x, hal_graph_input(g, "s", HAL_F32, HAL_DIMS(1)), NULL))
MISUSE(dequantize_scales, hal_graph_dequantize(g, t->codes, hal_graph_input(g, "s", HAL_F32, HAL_DIMS(3)), HAL_F16))
MISUSE(dequantize_none, hal_graph_dequantize(g, t->codes, HAL_NO_TENSOR, HAL_F16))
MISUSE(dequantize_dtype, hal_graph_dequantize(g, t->codes, t->scales, HAL_F8E4M3))
MISUSE(transpose_null, hal_graph_transpose(g, t->x, NULL))
MISUSE(transpose_twice, hal_graph_transpose(g, t->x, (const uint32_t[4]){0, 0}))
MISUSE(transpose_beyond, hal_graph_transpose(g, t->x, (const uint32_t[4]){0, 2}))
MISUSE(transpose_rows, hal_graph_transpose(g, t->x, (const uint32_t[4]){1, 0}))
MISUSE(rope_heads, hal_graph_rope(g, t->x, 5, t->table, t->table, t->ids))
MISUSE(rope_no_heads, hal_graph_rope(g, t->x, 0, t->table, t->table, t->ids))
MISUSE(rope_tables, hal_graph_rope(g, t->x, 2, t->table, hal_graph_input(g, "s", HAL_F32, HAL_DIMS(100, 5)), t->ids))
MISUSE(rope_wide, hal_graph_rope(g, t->x, 4, t->table, t->table, t->ids))
MISUSE(rope_short, hal_tensor few = hal_graph_input(g, "few", HAL_F32, HAL_DIMS(9, 6));
       hal_graph_rope(g, t->fixed, 2, few, few, HAL_NO_TENSOR))
MISUSE(rope_ids, hal_graph_rope(g, t->x, 2, t->table, t->table, t->ids64))
MISUSE(rope_floats, hal_graph_rope(g, t->x, 2, t->table, t->table, t->scales))
MISUSE(gather_ids, hal_graph_gather(g, t->table, t->scales))
MISUSE(gather_table, hal_graph_gather(g, t->cube, t->ids))
MISUSE(attention_heads, hal_graph_attention(g, t->x, t->x, t->x, HAL_GRAPH_ATTENTION(.q_heads = 4, .kv_heads = 3)))
MISUSE(attention_dims, hal_graph_attention(g, t->x, t->x, t->x, HAL_GRAPH_ATTENTION(.q_heads = 4, .kv_heads = 2)))
MISUSE(attention_wide, hal_tensor q = hal_graph_input(g, "q", HAL_F16, HAL_DIMS(4, 257));
       hal_graph_attention(g, q, q, q, NULL))
MISUSE(attention_values, hal_graph_attention(g, t->x, t->x, t->fixed, NULL))
MISUSE(attention_dtypes, hal_tensor b = hal_graph_cast(g, t->x, HAL_BF16); hal_graph_attention(g, t->x, t->x, b, NULL))
MISUSE(attention_causal, hal_graph_attention(g, t->x, t->x, t->x, HAL_GRAPH_ATTENTION(.causal = (hal_causal)3)))
MISUSE(attention_mask, hal_graph_attention(g, t->x, t->fixed, t->fixed, HAL_GRAPH_ATTENTION(.mask = t->x)))
MISUSE(attention_lengths, hal_graph_attention(g, t->x, t->fixed, t->fixed, HAL_GRAPH_ATTENTION(.kv_lengths = t->ids)))
MISUSE(output_input, hal_graph_output(g, "y", t->x))
MISUSE(output_none, hal_graph_output(g, "y", HAL_NO_TENSOR))
MISUSE(output_twice, hal_tensor y = hal_graph_cast(g, t->x, HAL_F32); hal_graph_output(g, "y", y);
       hal_graph_output(g, "z", y))
MISUSE(output_name, hal_graph_output(g, "x", hal_graph_cast(g, t->x, HAL_F32)))

static const misuse misuses[] = {
    {rank_0, "hal_graph_input: rank of 'y' is 0; use 1 to 4"},
    {rank_5, "hal_graph_input: rank of 'y' is 5; use 1 to 4"},
    {dim_0, "hal_graph_input: dimension 1 of 'y' is 0; use 1 to 2^31 - 1"},
    {dim_large, "hal_graph_input: dimension 0 of 'y' is 2147483648; use 1 to 2^31 - 1"},
    {row_large, "hal_graph_input: dimensions of 'y' but the first multiply to more than 2^31 - 1"},
    {rows_inside, "hal_graph_input: dimension 1 of 'y' is HAL_ROWS; only the first may be"},
    {rows_constant, "hal_graph_constant: dimension 0 of 'y' is HAL_ROWS; a constant has fixed dimensions"},
    {bad_dtype, "hal_graph_input: dtype of 'y' is 9; use a hal_dtype"},
    {no_dtype, "hal_graph_constant: dtype of 'y' is 0; use a hal_dtype"},
    {bad_index, "hal_graph_index_input: element_size of 'y' is 2; use 4 or 8"},
    {name_twice, "hal_graph_input: there is a tensor 'x' already; names are unique in a graph"},
    {name_null, "hal_graph_input: name is NULL; give one that does not begin with %"},
    {name_empty, "hal_graph_constant: name is ''; give one that does not begin with %"},
    {name_percent, "hal_graph_index_input: name is '%3'; give one that does not begin with %"},
    {slot_constant, "hal_graph_constant: span of 'y' is of a slot; constants lie in a buffer"},
    {null_constant, "hal_graph_constant: span.buffer is NULL; pass a buffer"},
    {no_operand, "hal_graph_activation: x is no tensor; pass one of the graph's"},
    {beyond, "hal_graph_activation: x, tensor 99, is not of graph 'test'"},
    {foreign, "hal_graph_activation: x, tensor 1, is not of graph 'test'"},
    {foreign_mask, "hal_graph_softmax: mask, tensor 4, is not of graph 'test'"},
    {indices_to_act, "hal_graph_activation: x, 'ids', is of i32; use f32, f16 or bf16"},
    {codes_to_act, "hal_graph_activation: x, 'codes', is of f8e4m3; use f32, f16 or bf16"},
    {bad_act, "hal_graph_activation: act is 6; use a hal_act"},
    {gemm_k, "hal_graph_gemm: a 'x' is [rows, 24], b 'fixed' [10, 24]; a [..., k] goes with b [k, n]; or set trans_b"},
    {gemm_k_trans, "hal_graph_gemm: a 'x' is [rows, 24], b 'w' [24, 40]; a [..., k] goes with b [n, k]"},
    {gemm_rank, "hal_graph_gemm: a 'x' is [rows, 24], b 'vector' [24]; a [..., k] goes with b [k, n]; or set trans_b"},
    {gemm_rows, "hal_graph_gemm: a 'x' is [rows, 24], b 'x' [rows, 24]; a [..., k] goes with b [n, k]"},
    {gemm_dtypes, "hal_graph_gemm: a 'cube' is of bf16, b 'w' of f16; cast one"},
    {gemm_bias, "hal_graph_gemm: bias 'vector' is [24], b 'w' [24, 40]; bias has one element a column of the result"},
    {gemm_bias_codes, "hal_graph_gemm: bias, 'codes', is of f8e4m3; use f32, f16 or bf16"},
    {gemm_scale_a,
     "hal_graph_gemm: scale_a 'scales' is [rows], a 'cube' [rows, 3, 24]; scale_a has one element a row of a"},
    {gemm_scale_b,
     "hal_graph_gemm: scale_b 'scales' is [rows], b 'w' [24, 40]; scale_b has one element a column of the result"},
    {gemm_codes, "hal_graph_gemm: dtype is 4; use HAL_F32, HAL_F16 or HAL_BF16, and hal_graph_quantize for codes"},
    {gemm_newer, "hal_graph_gemm_options.struct_size is 2; use the descriptor macro or set sizeof"},
    {bad_binary, "hal_graph_binary: op is 3; use a hal_binary_op"},
    {binary_columns,
     "hal_graph_binary: a 'x' is [rows, 24], b '%15' [100, 6]; b has a's rows or one, and a's columns or one"},
    {binary_rows,
     "hal_graph_binary: a 'x' is [rows, 24], b 'fixed' [10, 24]; b has a's rows or one, and a's columns or one"},
    {rms_weight, "hal_graph_rmsnorm: weight 'rows' is [rows], x 'x' [rows, 24]; weight has one element a column of x"},
    {softmax_mask,
     "hal_graph_softmax: mask 'fixed' is [10, 24], x 'x' [rows, 24]; mask has x's rows or one, and x's columns"},
    {bad_cast, "hal_graph_cast: dtype is 0; use a hal_dtype"},
    {quantize_null,
     "hal_graph_quantize: scales is none and row_scales is NULL; codes without their scales mean nothing"},
    {quantize_scales,
     "hal_graph_quantize: scales 'scales' is [rows], x 'cube' [rows, 3, 24]; scales has one element a row of x"},
    {quantize_one, "hal_graph_quantize: scales 's' is [1], x 'x' [rows, 24]; scales has one element a row of x"},
    {dequantize_scales, "hal_graph_dequantize: row_scales 's' is [3], codes 'codes' [rows, 24]; row_scales has one "
                        "element a row of codes"},
    {dequantize_none, "hal_graph_dequantize: row_scales is no tensor; pass one of the graph's"},
    {dequantize_dtype, "hal_graph_dequantize: dtype is 4; use HAL_F32, HAL_F16 or HAL_BF16"},
    {transpose_null, "hal_graph_transpose: perm is NULL; give 2 dimensions"},
    {transpose_twice, "hal_graph_transpose: perm[1] is 0; of 2 dimensions each is named once"},
    {transpose_beyond, "hal_graph_transpose: perm[1] is 2; of 2 dimensions each is named once"},
    {transpose_rows, "hal_graph_transpose: dimension 1 of 'result' is HAL_ROWS; only the first may be"},
    {rope_heads, "hal_graph_rope: heads is 5, x 'x' has 24 columns; they must divide"},
    {rope_no_heads, "hal_graph_rope: heads is 0, x 'x' has 24 columns; they must divide"},
    {rope_tables,
     "hal_graph_rope: cosines 'table' is [100, 6], sines 's' [100, 5]; both are [positions, rotary_dim / 2]"},
    {rope_wide, "hal_graph_rope: cosines 'table' is [100, 6], x 'x' [rows, 24]; a head has fewer elements than twice "
                "the tables' columns"},
    {rope_short,
     "hal_graph_rope: cosines 'few' is [9, 6], x 'fixed' [10, 24]; the tables have fewer positions than x has rows"},
    {rope_ids, "hal_graph_rope: positions 'ids64' is [rows, 2], x 'x' [rows, 24]; positions are int32, one a row of x"},
    {rope_floats, "hal_graph_rope: positions, 'scales', is of f32; use indices"},
    {gather_ids, "hal_graph_gather: ids, 'scales', is of f32; use indices"},
    {gather_table,
     "hal_graph_gather: table 'cube' is [rows, 3, 24], ids 'ids' [rows]; a table has 2 dimensions, ids at most 3"},
    {attention_heads, "hal_graph_attention: q_heads is 4, kv_heads 3; the first is a multiple of the second"},
    {attention_dims, "hal_graph_attention: q is [rows, 24], k [rows, 24], v [rows, 24] with 4 and 2 heads; q is [rows, "
                     "q_heads * d], k [keys, kv_heads * d], v [keys, kv_heads * e]"},
    {attention_wide, "hal_graph_attention: heads have 257 and 257 elements; at most 256"},
    {attention_values, "hal_graph_attention: k 'x' is [rows, 24], v 'fixed' [10, 24]; there is a value for each key"},
    {attention_dtypes, "hal_graph_attention: q is of f16, k of f16, v of bf16; use one dtype"},
    {attention_causal, "hal_graph_attention: causal is 3; use a hal_causal"},
    {attention_mask,
     "hal_graph_attention: mask 'x' is [rows, 24], k 'fixed' [10, 24]; mask has q's rows and a column a key"},
    {attention_lengths, "hal_graph_attention: kv_lengths 'ids' is [rows], k 'fixed' [10, 24]; kv_lengths is int32 [1]"},
    {output_input, "hal_graph_output: 'y' is 'x', which is no operator's result"},
    {output_none, "hal_graph_output: tensor is no tensor; pass one of the graph's"},
    {output_twice, "hal_graph_output: 'z' is 'y', which is an output already"},
    {output_name, "hal_graph_output: there is a tensor 'x' already; names are unique in a graph"},
};

static void every_misuse_says_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        const misuse *m = &misuses[i];
        tensors t = open_tensors();
        const hal_program *program = hal_graph_program(t.graph);
        m->call(&t);
        const hal_status status = hal_graph_status(t.graph);
        if (status != HAL_ERROR_INVALID_ARGUMENT || strcmp(hal_last_error(), m->message) != 0) {
            fail_msg("misuse %zu: %s \"%s\", expected \"%s\"", i, hal_status_name(status), hal_last_error(),
                     m->message);
        }
        /* It is the first failure that is kept, and nothing more is taken. */
        const uint32_t tensors_before = program->tensor_count, steps_before = program->step_count;
        hal_graph_gemm(t.graph, t.x, t.fixed, NULL);
        assert_int_equal(hal_graph_activation(t.graph, t.x, HAL_ACT_RELU).id, 0);
        assert_int_equal(hal_graph_input(t.graph, "late", HAL_F32, HAL_DIMS(4)).id, 0);
        hal_graph_output(t.graph, "x", t.x);
        assert_int_equal(program->tensor_count, tensors_before);
        assert_int_equal(program->step_count, steps_before);
        assert_int_equal(hal_graph_status(t.graph), HAL_ERROR_INVALID_ARGUMENT);
        assert_string_equal(hal_last_error(), m->message);
        hal_graph_destroy(t.graph);
    }
}

static void no_graph(void **state)
{
    (void)state;
    hal_graph *graph = (hal_graph *)(uintptr_t)8;
    uint64_t not_a_graph[64] = {0};
    assert_int_equal(hal_graph_create(NULL, NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_graph_create(&(hal_graph_desc){.struct_size = 1}, &graph), HAL_ERROR_INVALID_ARGUMENT);
    assert_null(graph);
    assert_int_equal(hal_graph_status(NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_string_equal(hal_last_error(), "hal_graph_status: graph is NULL; use what hal_graph_create gave");
    assert_int_equal(hal_graph_status((const hal_graph *)not_a_graph), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_graph_input(NULL, "x", HAL_F32, HAL_DIMS(4)).id, 0);
    assert_int_equal(hal_graph_gemm((hal_graph *)not_a_graph, HAL_NO_TENSOR, HAL_NO_TENSOR, NULL).id, 0);
    assert_string_equal(hal_last_error(), "hal_graph_gemm: graph is not a live graph; use what hal_graph_create gave");
    hal_graph_output(NULL, "x", HAL_NO_TENSOR);
    assert_int_equal(hal_graph_dump(NULL, HAL_GRAPH_TEXT, stdout), HAL_ERROR_INVALID_ARGUMENT);
    hal_graph_destroy(NULL);

    tensors t = open_tensors(), other = open_tensors();
    hal_dims dims;
    assert_int_equal(hal_graph_tensor(t.graph, HAL_NO_TENSOR, NULL, &dims), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_graph_tensor(t.graph, other.x, NULL, &dims), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_graph_tensor(t.graph, t.x, NULL, NULL), HAL_OK);
    assert_int_equal(hal_graph_status(t.graph), HAL_OK); /* asking breaks nothing */
    assert_int_equal(hal_graph_dump(t.graph, (hal_graph_format)3, stdout), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_graph_dump(t.graph, HAL_GRAPH_TEXT, NULL), HAL_ERROR_INVALID_ARGUMENT);
    hal_graph_destroy(t.graph);
    hal_graph_destroy(other.graph);
}

/* Constants in memory: a buffer that no driver knows is enough. */

static void buffer_freed(hal_object *object)
{
    ((hal_buffer *)object)->size = 0;
}

static void constants_hold_their_buffers(void **state)
{
    (void)state;
    hal_device device = {.object = {.type = HAL_TYPE_DEVICE, .label = (char *)(uintptr_t) "device"}};
    hal_buffer buffer = {.object = {.type = HAL_TYPE_BUFFER,
                                    .device = &device,
                                    .label = (char *)(uintptr_t) "weights",
                                    .free_object = buffer_freed},
                         .size = 100};
    const uint32_t alive = 1;
    device.alive = &alive;
    atomic_init(&buffer.object.refs, 1);
    static const struct {
        uint64_t offset, size;
        hal_status status;
        const char *message;
    } cases[] = {
        {4, HAL_REST, HAL_OK, ""},
        {4, 96, HAL_OK, ""},
        {8, HAL_REST, HAL_ERROR_OUT_OF_RANGE,
         "hal_graph_constant: 'w' is 96 bytes; its span has 92, and buffer 'weights' 92 from byte 8 on"},
        {4, 95, HAL_ERROR_OUT_OF_RANGE,
         "hal_graph_constant: 'w' is 96 bytes; its span has 95, and buffer 'weights' 96 from byte 4 on"},
        {4, 97, HAL_ERROR_OUT_OF_RANGE,
         "hal_graph_constant: 'w' is 96 bytes; its span has 97, and buffer 'weights' 96 from byte 4 on"},
        {200, HAL_REST, HAL_ERROR_OUT_OF_RANGE,
         "hal_graph_constant: 'w' is 96 bytes; its span has 0, and buffer 'weights' 0 from byte 200 on"},
        {2, HAL_REST, HAL_ERROR_ALIGNMENT, "hal_graph_constant: 'w' starts at byte 2; use a multiple of 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hal_graph *graph;
        assert_int_equal(hal_graph_create(NULL, &graph), HAL_OK);
        hal_graph_constant(graph, "w", HAL_F32, HAL_DIMS(4, 6), hal_range(&buffer, cases[i].offset, cases[i].size));
        assert_int_equal(hal_graph_status(graph), cases[i].status);
        if (cases[i].status != HAL_OK) {
            assert_string_equal(hal_last_error(), cases[i].message);
        }
        assert_int_equal(atomic_load(&buffer.object.refs), cases[i].status == HAL_OK ? 2 : 1);
        hal_program copy;
        assert_int_equal(hal_program_copy(hal_graph_program(graph), &copy), HAL_OK);
        hal_graph_destroy(graph);
        assert_int_equal(atomic_load(&buffer.object.refs), cases[i].status == HAL_OK ? 2 : 1);
        hal_program_clear(&copy);
        assert_int_equal(atomic_load(&buffer.object.refs), 1);
    }
}

/* Dumps */

static hal_graph *small_graph(void)
{
    hal_graph *g;
    assert_int_equal(hal_graph_create(HAL_GRAPH(.label = "a \"b\"\n\\ \xc3\xa4 \xff"), &g), HAL_OK);
    const hal_tensor x = hal_graph_input(g, "x\t1", HAL_BF16, HAL_DIMS(HAL_ROWS, 24));
    const hal_tensor w = hal_graph_constant(g, "w", HAL_BF16, HAL_DIMS(40, 24), (hal_span){0});
    const hal_tensor n = hal_graph_rmsnorm(g, x, HAL_NO_TENSOR, 1e-6f);
    const hal_tensor y = hal_graph_gemm(g, n, w, HAL_GRAPH_GEMM(.trans_b = true, .alpha = 0.1f));
    hal_tensor scales;
    const hal_tensor codes = hal_graph_quantize(g, hal_graph_swiglu(g, y, y), HAL_NO_TENSOR, &scales);
    hal_graph_output(g, "turned", hal_graph_transpose(g, w, (const uint32_t[4]){1, 0}));
    hal_graph_output(g, "codes", codes);
    hal_graph_rmsnorm(g, x, HAL_NO_TENSOR, INFINITY);
    assert_int_equal(hal_graph_status(g), HAL_OK);
    return g;
}

static char *dumped(const hal_graph *graph, hal_graph_format format)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(hal_graph_dump(graph, format, out), HAL_OK);
    fclose(out);
    return text;
}

static void text_dump(void **state)
{
    (void)state;
    hal_graph *graph = small_graph();
    char *text = dumped(graph, HAL_GRAPH_TEXT);
    assert_string_equal(text, "graph a \"b\"\n\\ \xc3\xa4 \xff\n"
                              "  input x\t1: bf16 [rows, 24]\n"
                              "  constant w: bf16 [40, 24]\n"
                              "  %3: bf16 [rows, 24] = rmsnorm(x x\t1) eps 1e-06\n"
                              "  %4: bf16 [rows, 40] = gemm(x %3, b w) alpha 0.1 trans_b 1\n"
                              "  %5: bf16 [rows, 40] = swiglu(x %4, b %4) between bf16\n"
                              "  codes: f8e4m3 [rows, 40], %6: f32 [rows] = quantize(x %5)\n"
                              "  turned: bf16 [24, 40] = transpose(x w) perm 1, 0\n"
                              "  %9: bf16 [rows, 24] = rmsnorm(x x\t1) eps null\n"
                              "  output turned\n"
                              "  output codes\n");
    free(text);
    hal_graph_destroy(graph);
}

static void json_dump(void **state)
{
    (void)state;
    hal_graph *graph = small_graph();
    char *text = dumped(graph, HAL_GRAPH_JSON);
    hal_json *root;
    if (hal_json_parse("dump", text, strlen(text), &root) != HAL_OK) {
        fail_msg("%s in\n%s", hal_last_error(), text);
    }
    assert_string_equal(hal_json_get(root, "graph")->string, "a \"b\"\n\\ \xc3\xa4 \xef\xbf\xbd");
    const hal_json *tensors_json = hal_json_get(root, "tensors"), *steps = hal_json_get(root, "steps");
    assert_int_equal(tensors_json->count, 9);
    assert_int_equal(steps->count, 6);
    assert_string_equal(hal_json_get(tensors_json->first, "name")->string, "x\t1");
    const hal_json *gemm = steps->first->next;
    assert_string_equal(hal_json_get(gemm, "op")->string, "gemm");
    assert_true(hal_json_get(gemm, "alpha")->number == 0.1);
    assert_true(hal_json_get(hal_json_get(gemm, "reads"), "b")->number == 2);
    assert_true(hal_json_get(hal_json_get(gemm, "writes"), "y")->number == 4);
    hal_json_free(root);
    free(text);
    hal_graph_destroy(graph);
}

/* Numbers have a point whatever the locale says. */
static void dumps_keep_the_point(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    bool set = false;
    for (size_t i = 0; !set && i < sizeof locales / sizeof locales[0]; i++) {
        set = setlocale(LC_NUMERIC, locales[i]) != NULL;
    }
    if (!set) {
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    hal_graph *graph = small_graph();
    char *text = dumped(graph, HAL_GRAPH_TEXT);
    setlocale(LC_NUMERIC, "C");
    assert_non_null(strstr(text, "alpha 0.1 "));
    free(text);
    hal_graph_destroy(graph);
}

static void dot_dump(void **state)
{
    (void)state;
    hal_graph *graph = small_graph();
    char *text = dumped(graph, HAL_GRAPH_DOT);
    assert_non_null(strstr(text, "digraph \"a \\\"b\\\" \\\\ "));
    assert_non_null(strstr(text, "t1 [style=solid, label=\"x 1\\nbf16 [rows, 24]\"];"));
    assert_non_null(strstr(text, "t2 -> s1 [label=\"b\"];"));
    assert_non_null(strstr(text, "s1 -> t4 [label=\"y\"];"));
    int quotes = 0, braces = 0;
    for (const char *at = text; *at; at++) {
        quotes += *at == '"' && at[-1] != '\\';
        braces += *at == '{' ? 1 : *at == '}' ? -1 : 0;
    }
    assert_int_equal(quotes % 2, 0);
    assert_int_equal(braces, 0);
    free(text);
    hal_graph_destroy(graph);
}

/* A full disk is an error, not a shorter dump. */
static void dump_to_a_full_disk(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full) {
        print_message("skipped: there is no /dev/full\n");
        skip();
    }
    hal_graph *graph = small_graph();
    assert_int_equal(hal_graph_dump(graph, HAL_GRAPH_JSON, full), HAL_ERROR_IO);
    fclose(full);
    hal_graph_destroy(graph);
}

/* Host memory that runs out */

static void out_of_memory_anywhere(void **state)
{
    (void)state;
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        hal_graph *graph = NULL;
        hal_program copy = {0};
        fail_at = nth;
        hal_status status = hal_graph_create(NULL, &graph);
        hal_tensor x = status == HAL_OK ? hal_graph_input(graph, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 8)) : HAL_NO_TENSOR;
        for (int i = 0; status == HAL_OK && i < 40; i++) { /* the arrays grow twice */
            x = hal_graph_activation(graph, x, HAL_ACT_SILU);
        }
        if (status == HAL_OK) {
            hal_graph_output(graph, "y", x);
            status = hal_graph_status(graph);
        } else {
            assert_null(graph);
        }
        status = status == HAL_OK ? hal_program_copy(hal_graph_program(graph), &copy) : status;
        const bool failed = fail_at == 0;
        fail_at = 0;
        assert_int_equal(status, failed ? HAL_ERROR_OUT_OF_MEMORY : HAL_OK);
        hal_program_clear(&copy);
        hal_graph_destroy(graph);
        if (!failed) {
            break;
        }
        failures++;
        assert_non_null(strstr(hal_last_error(), "out of host memory"));
    }
    assert_true(failures > 90); /* two names a tensor, and more */
}

/* Programs */

static void programs(void **state)
{
    (void)state;
    hal_graph *graph = small_graph();
    hal_program copy;
    assert_int_equal(hal_program_copy(hal_graph_program(graph), &copy), HAL_OK);
    hal_graph_destroy(graph);
    assert_int_equal(copy.step_count, 6);
    assert_int_equal(copy.inputs, 1);
    assert_int_equal(copy.outputs, 2);
    assert_int_equal(hal_program_writer(&copy, 4), 1);
    assert_int_equal(hal_program_writer(&copy, 6), 3); /* the scales */
    assert_int_equal(hal_program_writer(&copy, 1), UINT32_MAX);
    assert_int_equal(hal_program_writer(&copy, 0), UINT32_MAX);
    assert_int_equal(hal_program_readers(&copy, 1), 2);
    assert_int_equal(hal_program_readers(&copy, 4), 1); /* SwiGLU, twice */
    assert_int_equal(hal_program_readers(&copy, 0), 0);
    hal_program_remove_step(&copy, 1);
    assert_int_equal(copy.step_count, 5);
    assert_int_equal(copy.steps[1].op, HAL_STEP_BINARY);
    assert_int_equal(copy.steps[4].op, HAL_STEP_RMSNORM);
    hal_program_clear(&copy);
    assert_int_equal(copy.tensor_count, 0);
}

static void step_names(void **state)
{
    (void)state;
    static const struct {
        hal_step step;
        const char *name;
    } cases[] = {
        {{.op = HAL_STEP_GEMM}, "gemm"},
        {{.op = HAL_STEP_GEMM,
          .act = HAL_ACT_GELU_TANH,
          .tensors = {[HAL_ROLE_BIAS] = 1, [HAL_ROLE_RESIDUAL] = 2, [HAL_ROLE_SCALE_D] = 3}},
         "gemm+bias+gelu_tanh+residual+quantize"},
        {{.op = HAL_STEP_GEMM, .tensors = {[HAL_ROLE_B_UP] = 1}}, "gemm+swiglu"},
        {{.op = HAL_STEP_ACTIVATION, .act = HAL_ACT_SILU}, "silu"},
        {{.op = HAL_STEP_BINARY, .binary = HAL_SWIGLU}, "swiglu"},
        {{.op = HAL_STEP_RMSNORM, .tensors = {[HAL_ROLE_RESIDUAL] = 1, [HAL_ROLE_SCALES] = 2}}, "add+rmsnorm+quantize"},
        {{.op = HAL_STEP_QUANTIZE, .tensors = {[HAL_ROLE_SCALES] = 2}}, "quantize"},
    };
    char name[HAL_STEP_NAME];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(hal_step_name(&cases[i].step, name), cases[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(sizes),
        cmocka_unit_test(every_misuse_says_what),
        cmocka_unit_test(no_graph),
        cmocka_unit_test(constants_hold_their_buffers),
        cmocka_unit_test(text_dump),
        cmocka_unit_test(json_dump),
        cmocka_unit_test(dumps_keep_the_point),
        cmocka_unit_test(dot_dump),
        cmocka_unit_test(dump_to_a_full_disk),
        cmocka_unit_test(out_of_memory_anywhere),
        cmocka_unit_test(programs),
        cmocka_unit_test(step_names),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
