/* test_graph_misuse.c - every misuse of a graph's calls with its message, and the first failure kept. */
#include "graph_tensors.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_misuse_says_what),
        cmocka_unit_test(no_graph),
    };
    return cmocka_run_group_tests_name("graph_misuse", tests, NULL, NULL);
}
