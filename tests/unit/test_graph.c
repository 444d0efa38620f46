/* test_graph.c - graphs: the shape of every result, constants in buffers, dumps, and host memory that runs out at every
 * allocation. Misuse is in test_graph_misuse.c. */
#include "unit.h"

#include "graph_tensors.h"
#include "host_memory.h"
#include "internal.h"
#include "json.h"
#include "program.h"
#include <locale.h>
#include <math.h>

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
    assert_string_equal(text, "graph a \"b\" \\ \xc3\xa4 \xff\n" /* a line a step, whatever names hold */
                              "  input x 1: bf16 [rows, 24]\n"
                              "  constant w: bf16 [40, 24]\n"
                              "  %3: bf16 [rows, 24] = rmsnorm(x x 1) eps 1e-06\n"
                              "  %4: bf16 [rows, 40] = gemm(x %3, b w) alpha 0.1 trans_b 1\n"
                              "  %5: bf16 [rows, 40] = swiglu(x %4, b %4) between bf16\n"
                              "  codes: f8e4m3 [rows, 40], %6: f32 [rows] = quantize(x %5)\n"
                              "  turned: bf16 [24, 40] = transpose(x w) perm 1, 0\n"
                              "  %9: bf16 [rows, 24] = rmsnorm(x x 1) eps null\n"
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

/* However many names there are, each is found again. */
static void many_names(void **state)
{
    (void)state;
    enum { NAMES = 300 };
    for (uint32_t again = 0; again < NAMES; again += 13) {
        hal_graph *graph = NULL;
        char name[16];
        assert_int_equal(hal_graph_create(NULL, &graph), HAL_OK);
        for (uint32_t i = 0; i < NAMES; i++) {
            snprintf(name, sizeof name, "name %u", i);
            const hal_tensor x = hal_graph_input(graph, name, HAL_F16, HAL_DIMS(HAL_ROWS, 8));
            snprintf(name, sizeof name, "output %u", i);
            hal_graph_output(graph, name, hal_graph_activation(graph, x, HAL_ACT_SILU));
        }
        assert_int_equal(hal_graph_status(graph), HAL_OK);
        snprintf(name, sizeof name, again % 2 ? "output %u" : "name %u", again);
        hal_graph_input(graph, name, HAL_F16, HAL_DIMS(HAL_ROWS, 8));
        assert_int_equal(hal_graph_status(graph), HAL_ERROR_INVALID_ARGUMENT);
        assert_non_null(strstr(hal_last_error(), name));
        hal_graph_destroy(graph);
    }
}

/* Host memory that runs out */

static void out_of_memory_anywhere(void **state)
{
    (void)state;
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        hal_graph *graph = NULL;
        hal_program copy = {0};
        host_memory_count(nth);
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
        const bool failed = host_memory_stop() >= nth;
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
        cmocka_unit_test(constants_hold_their_buffers),
        cmocka_unit_test(text_dump),
        cmocka_unit_test(json_dump),
        cmocka_unit_test(dumps_keep_the_point),
        cmocka_unit_test(dot_dump),
        cmocka_unit_test(dump_to_a_full_disk),
        cmocka_unit_test(many_names),
        cmocka_unit_test(out_of_memory_anywhere),
        cmocka_unit_test(programs),
        cmocka_unit_test(step_names),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
