/* test_plan_random.c - graphs drawn from a seed (PLAN_SEED: only that one), each run as plans of every kind: the same
 * bits as operator by operator, and a memory plan that the checker finds right. */
#include "plan_case.h"

#include "rows.h"

#include <stdlib.h>
#include <string.h>

enum { LIVE = 32, MOST_ROWS = 40, POSITIONS = 64 };

/* Tensors [rows, columns] to draw operands from. */
typedef struct drawing {
    plan_case *c;
    hal_tensor live[LIVE];
    uint32_t count;
    hal_tensor ids, positions; /* none: not made yet */
    uint32_t weights;
} drawing;

static uint32_t draw(drawing *d, uint32_t limit)
{
    return random_below(&d->c->seed, limit);
}

static void look(const drawing *d, hal_tensor tensor, hal_dtype *dtype, uint64_t *columns)
{
    hal_dims dims;
    OK(hal_graph_tensor(d->c->graph, tensor, dtype, &dims));
    *columns = dims.size[1];
}

static void add(drawing *d, hal_tensor tensor)
{
    OK(hal_graph_status(d->c->graph));
    assert_true(d->count < LIVE);
    d->live[d->count++] = tensor;
}

/* Late ones more often: graphs become deep. */
static hal_tensor any(drawing *d)
{
    const uint32_t a = draw(d, d->count), b = draw(d, d->count);
    return d->live[a > b ? a : b];
}

/* Another of the same shape and dtype, or itself. */
static hal_tensor like(drawing *d, hal_tensor tensor)
{
    hal_dtype dtype, other;
    uint64_t columns, width;
    look(d, tensor, &dtype, &columns);
    for (uint32_t i = 0; i < 8; i++) {
        const hal_tensor candidate = any(d);
        look(d, candidate, &other, &width);
        if (other == dtype && width == columns) {
            return candidate;
        }
    }
    return tensor;
}

static hal_tensor weight(drawing *d, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    char name[16];
    snprintf(name, sizeof name, "w%u", d->weights++);
    return plan_weight(d->c, name, dtype, rows, columns);
}

static hal_tensor index_input(drawing *d, hal_tensor *made, const char *name, uint32_t limit)
{
    if (!made->id) {
        d->c->index_limits[hal_graph_program(d->c->graph)->inputs] = limit;
        *made = hal_graph_index_input(d->c->graph, name, 4, HAL_DIMS(HAL_ROWS));
    }
    return *made;
}

static const hal_dtype dtypes[] = {HAL_F32, HAL_F16, HAL_BF16};
static const uint64_t widths[] = {16, 32, 48};

static void add_gemm(drawing *d, hal_tensor x, hal_dtype dtype, uint64_t columns)
{
    const uint64_t n = widths[draw(d, 3)];
    const bool trans = draw(d, 2), bias = draw(d, 3) == 0;
    const hal_tensor b = trans ? weight(d, dtype, n, columns) : weight(d, dtype, columns, n);
    hal_tensor y = hal_graph_gemm(
        d->c->graph, x, b,
        HAL_GRAPH_GEMM(.trans_b = trans, .alpha = 0.125f, .bias = bias ? weight(d, HAL_F32, 1, n) : HAL_NO_TENSOR));
    if (draw(d, 3) == 0) {
        y = hal_graph_activation(d->c->graph, y, (hal_act)(1 + draw(d, 5)));
    }
    if (n == columns && draw(d, 2)) {
        y = hal_graph_add(d->c->graph, y, x);
    }
    add(d, y);
}

/* The matrix product of E4M3, or the numbers back. */
static void add_quantised(drawing *d, hal_tensor x, hal_dtype dtype, uint64_t columns)
{
    hal_tensor scales, codes = hal_graph_quantize(d->c->graph, x, HAL_NO_TENSOR, &scales);
    if (draw(d, 2)) {
        add(d, hal_graph_dequantize(d->c->graph, codes, scales, dtype));
        return;
    }
    const uint64_t n = widths[draw(d, 3)];
    add(d, hal_graph_gemm(d->c->graph, codes, weight(d, HAL_F8E4M3, columns, n),
                          HAL_GRAPH_GEMM(.dtype = dtype, .alpha = 0.125f, .scale_a = scales)));
}

static void add_swiglu(drawing *d, hal_tensor x, hal_dtype dtype, uint64_t columns)
{
    const uint64_t n = widths[draw(d, 3)];
    const hal_tensor gate = hal_graph_gemm(d->c->graph, x, weight(d, dtype, columns, n), HAL_GRAPH_GEMM(.alpha = 0.5f));
    const hal_tensor up = hal_graph_gemm(d->c->graph, x, weight(d, dtype, columns, n), HAL_GRAPH_GEMM(.alpha = 0.5f));
    add(d, hal_graph_swiglu(d->c->graph, gate, up));
}

static void add_attention(drawing *d, hal_tensor x)
{
    add(d, hal_graph_attention(d->c->graph, x, like(d, x), like(d, x),
                               HAL_GRAPH_ATTENTION(.q_heads = 2, .causal = (hal_causal)draw(d, 3))));
}

static void add_rope(drawing *d, hal_tensor x, uint64_t columns)
{
    const uint64_t half = columns / 4; /* two heads */
    const hal_tensor cosines = weight(d, HAL_F32, POSITIONS, half), sines = weight(d, HAL_F32, POSITIONS, half);
    const hal_tensor positions = draw(d, 2) ? index_input(d, &d->positions, "positions", POSITIONS) : HAL_NO_TENSOR;
    add(d, hal_graph_rope(d->c->graph, x, 2, cosines, sines, positions));
}

static void add_step(drawing *d)
{
    hal_graph *g = d->c->graph;
    const hal_tensor x = any(d);
    hal_dtype dtype;
    uint64_t columns;
    look(d, x, &dtype, &columns);
    switch (draw(d, 14)) {
    case 0:
    case 1:
    case 2:
        add_gemm(d, x, dtype, columns);
        break;
    case 3:
        add_swiglu(d, x, dtype, columns);
        break;
    case 4:
        add_quantised(d, x, dtype, columns);
        break;
    case 5:
        add(d, hal_graph_activation(g, x, (hal_act)(1 + draw(d, 5))));
        break;
    case 6:
        add(d, hal_graph_binary(g, (hal_binary_op)draw(d, 3), x, like(d, x)));
        break;
    case 7:
    case 8:
        add(d, hal_graph_rmsnorm(g, hal_graph_add(g, x, like(d, x)), weight(d, dtype, 1, columns), 1e-5f));
        break;
    case 9:
        add(d, hal_graph_rmsnorm(g, x, HAL_NO_TENSOR, 1e-5f));
        break;
    case 10:
        add(d, hal_graph_softmax(g, x, 0.5f, draw(d, 2) ? weight(d, HAL_F32, 1, columns) : HAL_NO_TENSOR));
        break;
    case 11:
        add(d, hal_graph_cast(g, x, dtypes[draw(d, 3)]));
        break;
    case 12:
        add_attention(d, x);
        break;
    default:
        add_rope(d, x, columns);
        break;
    }
}

static void add_gather(drawing *d)
{
    const hal_tensor ids = index_input(d, &d->ids, "ids", 24);
    add(d, hal_graph_gather(d->c->graph, weight(d, HAL_F16, 24, 32), ids));
}

/* What nobody reads is an output, and now and then something that is read. */
static void name_outputs(drawing *d)
{
    const hal_program *program = hal_graph_program(d->c->graph);
    uint32_t named = 0;
    for (uint32_t i = 2; i < d->count; i++) { /* the first two are inputs */
        const bool last = hal_program_readers(program, d->live[i].id) == 0;
        if (hal_program_writer(program, d->live[i].id) != UINT32_MAX && (last || draw(d, 8) == 0) && named < 12) {
            char name[16];
            snprintf(name, sizeof name, "y%u", named++);
            hal_graph_output(d->c->graph, name, d->live[i]);
        }
    }
}

static void case_random_graph(plan_case *c, fixture *f, uint64_t seed)
{
    plan_case_open(c, f, MOST_ROWS, seed);
    drawing d = {.c = c};
    for (uint32_t i = 0; i < 2; i++) {
        add(&d, hal_graph_input(c->graph, i ? "b" : "a", dtypes[draw(&d, 3)], HAL_DIMS(HAL_ROWS, widths[draw(&d, 3)])));
    }
    if (draw(&d, 3) == 0) {
        add_gather(&d);
    }
    for (uint32_t steps = 3 + draw(&d, 12); steps; steps--) {
        add_step(&d);
    }
    name_outputs(&d);
    plan_case_memory(c);
}

/* The places of what the plan keeps, checked by what did not make them. */
static void check_memory(const hal_plan *plan)
{
    for (const hal_plan_shape *shape = plan->newest; shape; shape = shape->older) {
        OK(hal_memory_plan_check(&plan->program, shape->rows, plan->before, shape->workspaces, &shape->memory));
    }
}

static void check_way(plan_case *c, const hal_plan_desc *desc, bool spread, uint64_t rows, const char *what)
{
    hal_plan *plan;
    const hal_status status =
        hal_plan_create_with(c->f->device, c->graph, desc, &(hal_plan_hooks){.spread = spread}, &plan);
    if (status == HAL_ERROR_UNSUPPORTED && desc->shapes == HAL_SHAPES_BUCKETED) {
        assert_non_null(strstr(hal_last_error(), "HAL_SHAPES_BUCKETED")); /* attention that would see the padding */
        return;
    }
    OK(status);
    for (int turn = 0; turn < 2; turn++) {
        plan_poison(c);
        OK(plan_run_on(c, plan, c->f->stream, rows, NULL));
        plan_compare(c, rows, what);
    }
    check_memory(plan);
    hal_plan_destroy(plan);
}

static void check_graph(plan_case *c)
{
    static const uint64_t buckets[] = {3, 17, MOST_ROWS};
    static const char *const names[] = {
        "fused",        "replayed",  "fused, replayed", "on streams", "fused, on streams, replayed",
        "by the model", "in buckets"};
    const hal_mode mode = (hal_mode)random_below(&c->seed, 3);
    const uint64_t rows = 1 + random_below(&c->seed, MOST_ROWS);
    plan_expect(c, rows, mode);
    for (uint32_t way = 0; way < 7; way++) {
        if (way == 6 && mode == HAL_MODE_FAST) {
            continue; /* more rows may be added up in another order */
        }
        const bool spread = way == 3 || way == 4;
        const hal_plan_desc *desc =
            HAL_PLAN(.fusion = way == 1 || way == 3 ? HAL_FUSE_NONE
                               : way == 5           ? HAL_FUSE_MODEL
                                                    : HAL_FUSE_ALL,
                     .no_reordering = true, .mode = mode, .replay = way == 1 || way == 2 || way >= 4,
                     .shapes = way == 6 ? HAL_SHAPES_BUCKETED : HAL_SHAPES_SPECIAL, .buckets = buckets,
                     .bucket_count = 3, .streams = spread ? 3 : 1, .measure_rows = rows);
        check_way(c, desc, spread, rows, names[way]);
    }
}

/* Each graph prints its seed when it fails. */
static void test_random(void **state)
{
    fixture *f = *state;
    const char *only = getenv("PLAN_SEED");
    const bool slow = strcmp(hal_device_get_info(f->device)->backend, "vulkan") == 0; /* lavapipe compiles for long */
    const uint64_t first = only ? strtoull(only, NULL, 0) : 1, last = only ? first : slow ? 8 : 60;
    for (uint64_t seed = first; seed <= last; seed++) {
        plan_case c;
        print_message("PLAN_SEED=%llu\n", (unsigned long long)seed);
        case_random_graph(&c, f, seed);
        check_graph(&c);
        plan_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return ROWS_MAIN("plan_random", tests);
}
