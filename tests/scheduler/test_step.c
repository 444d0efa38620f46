/* test_step.c - each kind of step, told through hal_step_record, gives the bytes of the operator called directly with a
 * descriptor written by hand. */
#include "gemm_case.h"

#include "program.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, KEYS = 50, MOST_TENSORS = 32 };

/* `build` makes the step, the last of the graph; `edit` makes it what only fusion can. Inputs whose name begins with +
 * are positive. at: spans by role. */
typedef struct step_test {
    const char *name;
    void (*build)(hal_graph *graph);
    void (*edit)(hal_program *program, hal_step *step);
    hal_status (*direct)(hal_cmdlist *list, const hal_span *at, hal_span workspace);
} step_test;

static hal_tensor in(hal_graph *graph, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    return hal_graph_input(graph, name, dtype, HAL_DIMS(rows, columns));
}

static uint32_t named(const hal_program *program, const char *name)
{
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        if (strcmp(program->tensors[i].name, name) == 0) {
            return i;
        }
    }
    fail_msg("no tensor '%s'", name);
    return 0;
}

static void to_codes(hal_program *program, hal_step *step)
{
    program->tensors[step->tensors[HAL_ROLE_Y]].dtype = HAL_F8E4M3;
    program->tensors[step->tensors[HAL_ROLE_Y]].element_size = 1;
}

/* A new result. */
static void also_writes(hal_program *program, hal_step *step, hal_role role, hal_dtype dtype, hal_dims dims)
{
    const hal_tensor_info info = {
        .kind = HAL_TENSOR_STEP, .dtype = dtype, .element_size = hal_dtype_size(dtype), .dims = dims};
    OK(hal_program_add_tensor(program, &info, NULL, &step->tensors[role]));
}

/* GEMM */

static void build_gemm(hal_graph *g)
{
    const hal_tensor bias = hal_graph_input(g, "bias", HAL_BF16, HAL_DIMS(40));
    hal_graph_gemm(g, in(g, "a", HAL_F16, HAL_ROWS, 24), in(g, "b", HAL_F16, 40, 24),
                   HAL_GRAPH_GEMM(.trans_b = true, .bias = bias, .alpha = 0.5f, .dtype = HAL_F32));
}

static hal_status direct_gemm(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_gemm(list,
                    HAL_GEMM(.m = ROWS, .n = 40, .k = 24, .dtype = HAL_F16, .dtype_d = HAL_F32, .dtype_bias = HAL_BF16,
                             .trans_b = true, .a = at[HAL_ROLE_X], .b = at[HAL_ROLE_B], .d = at[HAL_ROLE_Y],
                             .bias = at[HAL_ROLE_BIAS], .alpha = 0.5f, .workspace = workspace));
}

static void build_gemm_scaled(hal_graph *g)
{
    const hal_tensor rows = hal_graph_input(g, "+rows", HAL_F32, HAL_DIMS(HAL_ROWS));
    const hal_tensor columns = hal_graph_input(g, "+columns", HAL_F32, HAL_DIMS(40));
    hal_graph_gemm(g, in(g, "a", HAL_F8E4M3, HAL_ROWS, 32), in(g, "b", HAL_F8E4M3, 32, 40),
                   HAL_GRAPH_GEMM(.scale_a = rows, .scale_b = columns, .dtype = HAL_BF16));
}

static hal_status direct_gemm_scaled(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_gemm(list,
                    HAL_GEMM(.m = ROWS, .n = 40, .k = 32, .dtype = HAL_F8E4M3, .dtype_d = HAL_BF16, .a = at[HAL_ROLE_X],
                             .b = at[HAL_ROLE_B], .d = at[HAL_ROLE_Y], .scale_a = at[HAL_ROLE_SCALE_A],
                             .scale_b = at[HAL_ROLE_SCALE_B], .workspace = workspace));
}

static void build_gemm_more(hal_graph *g)
{
    in(g, "residual", HAL_BF16, HAL_ROWS, 40);
    in(g, "up", HAL_BF16, 24, 40);
    hal_graph_input(g, "+scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    hal_graph_gemm(g, in(g, "a", HAL_BF16, HAL_ROWS, 24), in(g, "b", HAL_BF16, 24, 40), NULL);
}

static void edit_gemm_residual(hal_program *program, hal_step *step)
{
    step->tensors[HAL_ROLE_RESIDUAL] = named(program, "residual");
    step->act = HAL_ACT_SILU;
    step->round_between = HAL_BF16;
}

static hal_status direct_gemm_residual(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_gemm(list, HAL_GEMM(.m = ROWS, .n = 40, .k = 24, .dtype = HAL_BF16, .a = at[HAL_ROLE_X],
                                   .b = at[HAL_ROLE_B], .d = at[HAL_ROLE_Y], .residual = at[HAL_ROLE_RESIDUAL],
                                   .act = HAL_ACT_SILU, .round_between = HAL_BF16, .workspace = workspace));
}

static void edit_gemm_swiglu(hal_program *program, hal_step *step)
{
    step->tensors[HAL_ROLE_B_UP] = named(program, "up");
    step->round_between = HAL_BF16;
}

static hal_status direct_gemm_swiglu(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_gemm(list, HAL_GEMM(.m = ROWS, .n = 40, .k = 24, .dtype = HAL_BF16, .a = at[HAL_ROLE_X],
                                   .b = at[HAL_ROLE_B], .b_up = at[HAL_ROLE_B_UP], .d = at[HAL_ROLE_Y],
                                   .round_between = HAL_BF16, .workspace = workspace));
}

static void edit_gemm_codes(hal_program *program, hal_step *step)
{
    to_codes(program, step);
    step->tensors[HAL_ROLE_SCALE_D] = named(program, "+scales");
}

static hal_status direct_gemm_codes(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_gemm(list, HAL_GEMM(.m = ROWS, .n = 40, .k = 24, .dtype = HAL_BF16, .dtype_d = HAL_F8E4M3,
                                   .a = at[HAL_ROLE_X], .b = at[HAL_ROLE_B], .d = at[HAL_ROLE_Y],
                                   .scale_d = at[HAL_ROLE_SCALE_D], .workspace = workspace));
}

/* Element by element */

static void build_activation(hal_graph *g)
{
    hal_graph_activation(g, in(g, "x", HAL_F16, HAL_ROWS, 24), HAL_ACT_GELU_TANH);
}

static hal_status direct_activation(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_activation(list, HAL_ACTIVATION(.rows = ROWS, .columns = 24, .act = HAL_ACT_GELU_TANH, .dtype = HAL_F16,
                                               .x = at[HAL_ROLE_X], .y = at[HAL_ROLE_Y]));
}

static void build_add_row(hal_graph *g)
{
    hal_graph_add(g, in(g, "a", HAL_F16, HAL_ROWS, 24), hal_graph_input(g, "b", HAL_F32, HAL_DIMS(24)));
}

static hal_status direct_add_row(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_binary(list, HAL_BINARY(.rows = ROWS, .columns = 24, .op = HAL_ADD, .dtype = HAL_F16, .dtype_b = HAL_F32,
                                       .dtype_y = HAL_F16, .a = at[HAL_ROLE_X], .b = at[HAL_ROLE_B],
                                       .y = at[HAL_ROLE_Y], .b_rows = 1));
}

static void build_multiply_column(hal_graph *g)
{
    hal_graph_multiply(g, in(g, "a", HAL_F32, HAL_ROWS, 24), in(g, "b", HAL_F32, HAL_ROWS, 1));
}

static hal_status direct_multiply_column(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_binary(list, HAL_BINARY(.rows = ROWS, .columns = 24, .op = HAL_MULTIPLY, .a = at[HAL_ROLE_X],
                                       .b = at[HAL_ROLE_B], .y = at[HAL_ROLE_Y], .b_columns = 1));
}

/* To E4M3, rounded as the operator before it stores. */
static void edit_row_codes(hal_program *program, hal_step *step)
{
    const hal_dtype between = program->tensors[step->tensors[HAL_ROLE_X]].dtype;
    to_codes(program, step);
    step->round_between = between;
    also_writes(program, step, HAL_ROLE_SCALES, HAL_F32, HAL_DIMS(HAL_ROWS));
}

static void build_swiglu(hal_graph *g)
{
    hal_graph_swiglu(g, in(g, "gate", HAL_BF16, HAL_ROWS, 24), in(g, "up", HAL_BF16, HAL_ROWS, 24));
}

static hal_status direct_swiglu(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_binary(list,
                      HAL_BINARY(.rows = ROWS, .columns = 24, .op = HAL_SWIGLU, .dtype = HAL_BF16, .a = at[HAL_ROLE_X],
                                 .b = at[HAL_ROLE_B], .y = at[HAL_ROLE_Y], .round_between = HAL_BF16));
}

static hal_status direct_swiglu_codes(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_binary(list, HAL_BINARY(.rows = ROWS, .columns = 24, .op = HAL_SWIGLU, .dtype = HAL_BF16,
                                       .dtype_y = HAL_F8E4M3, .a = at[HAL_ROLE_X], .b = at[HAL_ROLE_B],
                                       .y = at[HAL_ROLE_Y], .scales = at[HAL_ROLE_SCALES], .round_between = HAL_BF16));
}

static void build_cast(hal_graph *g)
{
    hal_graph_cast(g, in(g, "x", HAL_F32, HAL_ROWS, 24), HAL_F8E4M3);
}

static hal_status direct_cast(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_cast(list, HAL_CAST(.rows = ROWS, .columns = 24, .dtype = HAL_F32, .dtype_y = HAL_F8E4M3,
                                   .x = at[HAL_ROLE_X], .y = at[HAL_ROLE_Y]));
}

/* Along rows */

static void build_rmsnorm(hal_graph *g)
{
    in(g, "residual", HAL_F16, HAL_ROWS, 24);
    hal_graph_rmsnorm(g, in(g, "x", HAL_F16, HAL_ROWS, 24), hal_graph_input(g, "weight", HAL_F32, HAL_DIMS(24)), 1e-5f);
}

static hal_status direct_rmsnorm(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_rmsnorm(list, HAL_RMSNORM(.rows = ROWS, .columns = 24, .dtype = HAL_F16, .dtype_weight = HAL_F32,
                                         .x = at[HAL_ROLE_X], .weight = at[HAL_ROLE_WEIGHT], .y = at[HAL_ROLE_Y],
                                         .eps = 1e-5f, .workspace = workspace));
}

static void edit_rmsnorm_sum(hal_program *program, hal_step *step)
{
    step->tensors[HAL_ROLE_RESIDUAL] = named(program, "residual");
    also_writes(program, step, HAL_ROLE_SUM, HAL_F16, HAL_DIMS(HAL_ROWS, 24));
}

static hal_status direct_rmsnorm_sum(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_rmsnorm(list, HAL_RMSNORM(.rows = ROWS, .columns = 24, .dtype = HAL_F16, .dtype_weight = HAL_F32,
                                         .x = at[HAL_ROLE_X], .weight = at[HAL_ROLE_WEIGHT], .y = at[HAL_ROLE_Y],
                                         .residual = at[HAL_ROLE_RESIDUAL], .sum = at[HAL_ROLE_SUM], .eps = 1e-5f,
                                         .workspace = workspace));
}

static hal_status direct_rmsnorm_codes(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_rmsnorm(list, HAL_RMSNORM(.rows = ROWS, .columns = 24, .dtype = HAL_F16, .dtype_y = HAL_F8E4M3,
                                         .dtype_weight = HAL_F32, .round_between = HAL_F16, .x = at[HAL_ROLE_X],
                                         .weight = at[HAL_ROLE_WEIGHT], .y = at[HAL_ROLE_Y],
                                         .scales = at[HAL_ROLE_SCALES], .eps = 1e-5f, .workspace = workspace));
}

static void build_softmax(hal_graph *g)
{
    hal_graph_softmax(g, in(g, "x", HAL_F16, HAL_ROWS, 24), 0.25f, hal_graph_input(g, "mask", HAL_F32, HAL_DIMS(24)));
}

static hal_status direct_softmax(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_softmax(list, HAL_SOFTMAX(.rows = ROWS, .columns = 24, .dtype = HAL_F16, .x = at[HAL_ROLE_X],
                                         .y = at[HAL_ROLE_Y], .scale = 0.25f, .mask = at[HAL_ROLE_MASK],
                                         .dtype_mask = HAL_F32, .mask_rows = 1));
}

static void build_quantize(hal_graph *g)
{
    hal_tensor scales;
    hal_graph_quantize(g, in(g, "x", HAL_BF16, HAL_ROWS, 24), HAL_NO_TENSOR, &scales);
}

static hal_status direct_quantize(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_quantize(list,
                        HAL_QUANTIZE(.rows = ROWS, .columns = 24, .dtype = HAL_BF16, .scaling = HAL_SCALE_ROW_AMAX,
                                     .x = at[HAL_ROLE_X], .codes = at[HAL_ROLE_Y], .scales = at[HAL_ROLE_SCALES]));
}

static void build_quantize_given(hal_graph *g)
{
    const hal_tensor scales = hal_graph_input(g, "+scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    hal_graph_quantize(g, in(g, "x", HAL_BF16, HAL_ROWS, 24), scales, NULL);
}

static hal_status direct_quantize_given(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_quantize(list,
                        HAL_QUANTIZE(.rows = ROWS, .columns = 24, .dtype = HAL_BF16, .scaling = HAL_SCALE_ROW,
                                     .x = at[HAL_ROLE_X], .codes = at[HAL_ROLE_Y], .scales = at[HAL_ROLE_SCALE_A]));
}

static void build_dequantize(hal_graph *g)
{
    const hal_tensor scales = hal_graph_input(g, "+scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    hal_graph_dequantize(g, in(g, "codes", HAL_F8E4M3, HAL_ROWS, 24), scales, HAL_F16);
}

static hal_status direct_dequantize(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_dequantize(list,
                          HAL_QUANTIZE(.rows = ROWS, .columns = 24, .dtype = HAL_F16, .scaling = HAL_SCALE_ROW,
                                       .x = at[HAL_ROLE_Y], .codes = at[HAL_ROLE_X], .scales = at[HAL_ROLE_SCALE_A]));
}

/* Moved about, and of transformers */

static void build_transpose(hal_graph *g)
{
    hal_graph_transpose(g, hal_graph_input(g, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 3, 8)), (const uint32_t[4]){0, 2, 1});
}

static hal_status direct_transpose(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_transpose(list, HAL_TRANSPOSE(.rank = 3, .dims = {ROWS, 3, 8}, .perm = {0, 2, 1}, .dtype = HAL_F16,
                                             .x = at[HAL_ROLE_X], .y = at[HAL_ROLE_Y]));
}

static void build_rope(hal_graph *g)
{
    const hal_tensor ids = hal_graph_index_input(g, "ids", 4, HAL_DIMS(HAL_ROWS));
    hal_graph_rope(g, in(g, "x", HAL_F16, HAL_ROWS, 3 * 16), 3, in(g, "cos", HAL_F32, KEYS, 6),
                   in(g, "sin", HAL_F32, KEYS, 6), ids);
}

static hal_status direct_rope(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_rope(list, HAL_ROPE(.tokens = ROWS, .heads = 3, .head_dim = 16, .rotary_dim = 12, .dtype = HAL_F16,
                                   .x = at[HAL_ROLE_X], .y = at[HAL_ROLE_Y], .cos = at[HAL_ROLE_COS],
                                   .sin = at[HAL_ROLE_SIN], .positions = KEYS, .position_ids = at[HAL_ROLE_POSITIONS]));
}

static void build_gather(hal_graph *g)
{
    hal_graph_gather(g, in(g, "table", HAL_BF16, KEYS, 24), hal_graph_index_input(g, "ids", 8, HAL_DIMS(HAL_ROWS, 2)));
}

static hal_status direct_gather(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    (void)workspace;
    return hal_gather(list, HAL_GATHER(.count = 2 * ROWS, .columns = 24, .table_rows = KEYS, .dtype = HAL_BF16,
                                       .table = at[HAL_ROLE_X], .ids = at[HAL_ROLE_B], .y = at[HAL_ROLE_Y],
                                       .ids_are_int64 = true));
}

static void build_attention(hal_graph *g)
{
    const hal_tensor length = hal_graph_index_input(g, "length", 4, HAL_DIMS(1));
    hal_graph_attention(
        g, in(g, "q", HAL_F16, HAL_ROWS, 4 * 16), in(g, "k", HAL_F16, KEYS, 2 * 16), in(g, "v", HAL_F16, KEYS, 2 * 24),
        HAL_GRAPH_ATTENTION(.q_heads = 4, .kv_heads = 2, .causal = HAL_CAUSAL_TOP_LEFT, .scale = 0.3f, .softcap = 5,
                            .mask = in(g, "mask", HAL_F32, HAL_ROWS, KEYS), .kv_lengths = length));
}

static hal_status direct_attention(hal_cmdlist *list, const hal_span *at, hal_span workspace)
{
    return hal_attention(list, HAL_ATTENTION(.batch = 1, .q_heads = 4, .kv_heads = 2, .head_dim = 16, .value_dim = 24,
                                             .q_length = ROWS, .kv_length = KEYS, .dtype = HAL_F16, .q = at[HAL_ROLE_X],
                                             .k = at[HAL_ROLE_B], .v = at[HAL_ROLE_V], .o = at[HAL_ROLE_Y],
                                             .kv_lengths = at[HAL_ROLE_KV_LENGTHS], .scale = 0.3f,
                                             .causal = HAL_CAUSAL_TOP_LEFT, .softcap = 5, .mask = at[HAL_ROLE_MASK],
                                             .dtype_mask = HAL_F32, .workspace = workspace));
}

static const step_test step_tests[] = {
    {"gemm", build_gemm, NULL, direct_gemm},
    {"gemm with scales", build_gemm_scaled, NULL, direct_gemm_scaled},
    {"gemm+silu+residual", build_gemm_more, edit_gemm_residual, direct_gemm_residual},
    {"gemm+swiglu", build_gemm_more, edit_gemm_swiglu, direct_gemm_swiglu},
    {"gemm+quantize", build_gemm_more, edit_gemm_codes, direct_gemm_codes},
    {"activation", build_activation, NULL, direct_activation},
    {"add of a row", build_add_row, NULL, direct_add_row},
    {"product with a column", build_multiply_column, NULL, direct_multiply_column},
    {"swiglu", build_swiglu, NULL, direct_swiglu},
    {"swiglu+quantize", build_swiglu, edit_row_codes, direct_swiglu_codes},
    {"cast", build_cast, NULL, direct_cast},
    {"rmsnorm", build_rmsnorm, NULL, direct_rmsnorm},
    {"add+rmsnorm", build_rmsnorm, edit_rmsnorm_sum, direct_rmsnorm_sum},
    {"rmsnorm+quantize", build_rmsnorm, edit_row_codes, direct_rmsnorm_codes},
    {"softmax", build_softmax, NULL, direct_softmax},
    {"quantize", build_quantize, NULL, direct_quantize},
    {"quantize by scales", build_quantize_given, NULL, direct_quantize_given},
    {"dequantize", build_dequantize, NULL, direct_dequantize},
    {"transpose", build_transpose, NULL, direct_transpose},
    {"rope", build_rope, NULL, direct_rope},
    {"gather", build_gather, NULL, direct_gather},
    {"attention", build_attention, NULL, direct_attention},
};
enum { STEP_TESTS = sizeof step_tests / sizeof step_tests[0] };

/* A program with memory for each tensor. */
typedef struct step_case {
    hal_program program;
    hal_step step;
    hal_buffer *buffers[MOST_TENSORS];
    hal_span spans[MOST_TENSORS];
} step_case;

static void fill(fixture *f, const hal_tensor_info *tensor, hal_buffer *buffer, uint64_t *seed)
{
    const uint64_t bytes = hal_tensor_bytes(tensor, ROWS), count = bytes / tensor->element_size;
    float *values = malloc(count * sizeof *values);
    uint8_t *elements = malloc(bytes);
    assert_true(values && elements);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t drawn = random_below(seed, 4096);
        values[i] = tensor->name[0] == '+' ? 0.5f + (float)drawn / 4096 : (float)drawn / 2048 - 1;
        const int64_t index = count == 1 ? KEYS - 7 : drawn % KEYS;
        if (tensor->dtype == HAL_DTYPE_DEFAULT) {
            memcpy(elements + i * tensor->element_size, &index, tensor->element_size); /* little endian */
        }
    }
    if (tensor->dtype != HAL_DTYPE_DEFAULT) {
        OK(hal_numeric_encode(tensor->dtype, values, count, elements));
    }
    OK(hal_cmd_upload(f->list, hal_whole(buffer), elements, bytes));
    free(values);
    free(elements);
}

static void case_open(step_case *c, fixture *f, const step_test *test)
{
    hal_graph *graph;
    uint64_t seed = 5;
    OK(hal_graph_create(NULL, &graph));
    test->build(graph);
    OK(hal_graph_status(graph));
    OK(hal_program_copy(hal_graph_program(graph), &c->program));
    hal_graph_destroy(graph);
    c->step = c->program.steps[c->program.step_count - 1];
    if (test->edit) {
        test->edit(&c->program, &c->step);
    }
    assert_true(c->program.tensor_count < MOST_TENSORS);
    for (uint32_t i = 1; i < c->program.tensor_count; i++) {
        const hal_tensor_info *tensor = &c->program.tensors[i];
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = hal_tensor_bytes(tensor, ROWS)), &c->buffers[i]));
        c->spans[i] = hal_whole(c->buffers[i]);
        fill(f, tensor, c->buffers[i], &seed);
    }
}

static void case_close(step_case *c)
{
    for (uint32_t i = 1; i < c->program.tensor_count; i++) {
        hal_buffer_destroy(c->buffers[i]);
    }
    hal_program_clear(&c->program);
}

/* The bytes of every result, after the step was told one way or the other from poisoned memory. */
static uint8_t *run(step_case *c, fixture *f, const step_test *test, hal_span workspace, bool direct, uint64_t *size)
{
    const uint8_t poison = 0x5A;
    uint64_t at = 0;
    *size = 0;
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        const uint32_t id = c->step.tensors[role];
        if (id) {
            OK(hal_cmd_fill(f->list, c->spans[id], &poison, 1));
            *size += hal_tensor_bytes(&c->program.tensors[id], ROWS);
        }
    }
    hal_span by_role[HAL_ROLES] = {{0}};
    for (uint32_t role = 0; role < HAL_ROLES; role++) {
        by_role[role] = c->step.tensors[role] ? c->spans[c->step.tensors[role]] : (hal_span){0};
    }
    OK(direct ? test->direct(f->list, by_role, workspace)
              : hal_step_record(f->list, &c->program, &c->step, ROWS, HAL_MODE_FAST, c->spans, workspace));
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        const uint32_t id = c->step.tensors[role];
        if (id) {
            OK(hal_cmd_download(f->list, bytes + at, c->spans[id]));
            at += hal_tensor_bytes(&c->program.tensors[id], ROWS);
        }
    }
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    return bytes;
}

static void compare(step_case *c, fixture *f, const step_test *test, hal_span workspace)
{
    uint64_t size, size_direct;
    uint8_t *step = run(c, f, test, workspace, false, &size);
    uint8_t *direct = run(c, f, test, workspace, true, &size_direct);
    uint64_t poisoned = 0;
    for (uint64_t i = 0; i < size; i++) {
        poisoned += direct[i] == 0x5A;
    }
    if (size != size_direct || memcmp(step, direct, size) != 0 || poisoned > size / 8) {
        fail_msg("%s: the step differs from the operator, or wrote nothing", test->name);
    }
    free(step);
    free(direct);
}

static void test_as_called(void **state)
{
    fixture *f = *state;
    bool seen[HAL_STEP_OPS] = {false};
    for (uint32_t i = 0; i < STEP_TESTS; i++) {
        const step_test *test = &step_tests[i];
        step_case c;
        uint64_t size;
        case_open(&c, f, test);
        seen[c.step.op] = true;
        compare(&c, f, test, (hal_span){0});
        OK(hal_step_workspace(f->device, &c.program, &c.step, ROWS, HAL_MODE_FAST, &size));
        if (size) {
            hal_buffer *workspace;
            OK(hal_buffer_create(f->device, HAL_BUFFER(.size = size), &workspace));
            compare(&c, f, test, hal_whole(workspace));
            hal_buffer_destroy(workspace);
        }
        case_close(&c);
    }
    for (uint32_t op = 0; op < HAL_STEP_OPS; op++) {
        assert_true(seen[op]);
    }
}

/* After hal_step_prepare a list is told without compiling anything: a compile would fail. */
static void test_prepare(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < STEP_TESTS; i++) {
        const step_test *test = &step_tests[i];
        fixture f;
        step_case c;
        hal_cmdlist *list;
        fixture_open(&f, NULL); /* nothing compiled yet */
        case_open(&c, &f, test);
        OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, 1));
        REFUSED(HAL_ERROR_COMPILE, hal_step_prepare(f.device, &c.program, &c.step, ROWS, HAL_MODE_FAST));
        OK(hal_step_prepare(f.device, &c.program, &c.step, ROWS, HAL_MODE_FAST));
        OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, 1));
        uint64_t size;
        OK(hal_step_workspace(f.device, &c.program, &c.step, ROWS, HAL_MODE_FAST, &size));
        for (uint32_t id = 1; id < c.program.tensor_count; id++) {
            c.spans[id] = hal_slot(id, 0);
        }
        OK(hal_cmdlist_create(f.device, NULL, &list));
        OK(hal_step_record(list, &c.program, &c.step, ROWS, HAL_MODE_FAST, c.spans,
                           size ? hal_slot(MOST_TENSORS, 0) : (hal_span){0}));
        OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, 0));
        hal_cmdlist_destroy(list);
        case_close(&c);
        fixture_close(&f);
    }
}

/* A plan may be run with no rows at all. */
static void test_no_rows(void **state)
{
    fixture *f = *state;
    for (uint32_t i = 0; i < STEP_TESTS; i++) {
        step_case c;
        uint64_t size;
        case_open(&c, f, &step_tests[i]);
        OK(hal_step_workspace(f->device, &c.program, &c.step, 0, HAL_MODE_FAST, &size));
        OK(hal_step_record(f->list, &c.program, &c.step, 0, HAL_MODE_FAST, c.spans, (hal_span){0}));
        case_close(&c);
    }
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_called),
        cmocka_unit_test(test_prepare),
        cmocka_unit_test(test_no_rows),
    };
    return ROWS_MAIN("step", tests);
}
