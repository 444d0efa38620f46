/* plan_cost.c - what the scheduler itself costs the host: planning a graph of many decoder layers, stage by stage, and
 * replaying one layer beside its recorded list submitted by hand. It looks into plans, so it is linked to the static
 * library and is not part of hal-bench. HAL_BACKEND chooses the device. */
#include "plan_state.h"

#include "internal.h"

enum {
    HIDDEN = 256,
    INNER = 768,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 64,
    ROWS = 16,
    REPEATS = 20,
    PAIRS = 301,
    BATCH = 8
};

typedef struct cost {
    hal_device *device;
    hal_stream *stream;
    hal_buffer *weights, *x, *y, *scratch;
    hal_graph *graph;
    uint32_t names;
} cost;

static bool did(hal_status status)
{
    if (status != HAL_OK) {
        fprintf(stderr, "plan_cost: %s\n", hal_last_error());
    }
    return status == HAL_OK;
}

/* All weights are the same memory. */
static hal_tensor weight(cost *c, uint64_t rows, uint64_t columns)
{
    char name[16];
    snprintf(name, sizeof name, "w%u", c->names++);
    return hal_graph_constant(c->graph, name, HAL_F32, rows > 1 ? HAL_DIMS(rows, columns) : HAL_DIMS(columns),
                              hal_whole(c->weights));
}

static hal_tensor multiply(cost *c, hal_tensor x, uint64_t rows, uint64_t columns)
{
    return hal_graph_gemm(c->graph, x, weight(c, rows, columns), NULL);
}

/* The decoder layer of hal-bench layer. */
static hal_tensor add_layer(cost *c, hal_tensor x, const hal_tensor tables[2])
{
    hal_graph *g = c->graph;
    const uint64_t queries = HEADS * HEAD_DIM, keys = KV_HEADS * HEAD_DIM;
    hal_tensor n = hal_graph_rmsnorm(g, x, weight(c, 1, HIDDEN), 1e-6f);
    const hal_tensor q = multiply(c, n, HIDDEN, queries), k = multiply(c, n, HIDDEN, keys);
    const hal_tensor v = multiply(c, n, HIDDEN, keys);
    const hal_tensor rq = hal_graph_rope(g, q, HEADS, tables[0], tables[1], HAL_NO_TENSOR);
    const hal_tensor rk = hal_graph_rope(g, k, KV_HEADS, tables[0], tables[1], HAL_NO_TENSOR);
    const hal_tensor o = hal_graph_attention(
        g, rq, rk, v, HAL_GRAPH_ATTENTION(.q_heads = HEADS, .kv_heads = KV_HEADS, .causal = HAL_CAUSAL_TOP_LEFT));
    x = hal_graph_add(g, multiply(c, o, queries, HIDDEN), x);
    n = hal_graph_rmsnorm(g, x, weight(c, 1, HIDDEN), 1e-6f);
    const hal_tensor gate = multiply(c, n, HIDDEN, INNER), up = multiply(c, n, HIDDEN, INNER);
    return hal_graph_add(g, multiply(c, hal_graph_swiglu(g, gate, up), INNER, HIDDEN), x);
}

static bool build(cost *c, uint32_t layers)
{
    hal_graph_destroy(c->graph);
    c->names = 0;
    if (!did(hal_graph_create(NULL, &c->graph))) {
        return false;
    }
    const hal_tensor tables[2] = {weight(c, ROWS, HEAD_DIM / 2), weight(c, ROWS, HEAD_DIM / 2)};
    hal_tensor x = hal_graph_input(c->graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, HIDDEN));
    for (uint32_t i = 0; i < layers; i++) {
        x = add_layer(c, x, tables);
    }
    hal_graph_output(c->graph, "y", x);
    return did(hal_graph_status(c->graph));
}

static void least(double *us, uint64_t begin)
{
    const double now = (double)(hal_now() - begin) / 1e3;
    *us = *us == 0 || now < *us ? now : *us;
}

/* Fusion and memory plan by themselves, as hal_plan_create calls them. */
static bool plan_apart(const cost *c, double *fuse_us, double *memory_us, uint32_t *steps)
{
    hal_program program;
    hal_model_machine machine;
    hal_decisions decisions = {0};
    hal_memory_plan memory = {0};
    bool good = did(hal_program_copy(hal_graph_program(c->graph), &program)) &&
                did(hal_model_machine_find(hal_device_get_info(c->device), &machine));
    uint64_t begin = hal_now();
    const hal_fusion_options options = {.rows = ROWS, .info = hal_device_get_info(c->device), .machine = &machine};
    good = good && did(hal_fuse(&program, &options, &decisions));
    least(fuse_us, begin);
    begin = hal_now();
    good = good && did(hal_memory_plan_make(&program, ROWS, NULL, NULL, &memory));
    least(memory_us, begin);
    *steps = program.step_count;
    hal_memory_plan_clear(&memory);
    hal_decisions_clear(&decisions);
    hal_program_clear(&program);
    return good;
}

/* The least of several: others' work on the machine only adds. */
static bool planning(cost *c, uint32_t layers)
{
    double build_us = 0, fuse_us = 0, memory_us = 0, create_us = 0, record_us = 0;
    uint32_t steps = 0;
    for (uint32_t i = 0; i < REPEATS; i++) {
        hal_plan *plan = NULL;
        uint64_t begin = hal_now();
        if (!build(c, layers)) {
            return false;
        }
        least(&build_us, begin);
        bool good = plan_apart(c, &fuse_us, &memory_us, &steps);
        begin = hal_now();
        good = good && did(hal_plan_create(c->device, c->graph, HAL_PLAN(.replay = true, .measure_rows = ROWS), &plan));
        least(&create_us, begin);
        begin = hal_now();
        good = good && did(hal_plan_prepare(plan, ROWS));
        least(&record_us, begin);
        hal_plan_destroy(plan);
        if (!good) {
            return false;
        }
    }
    printf("planning %u decoder layers, %u operators in %u steps\n", layers, hal_graph_program(c->graph)->step_count,
           steps);
    printf("  building the graph      %8.0f us\n  fusion                  %8.0f us\n", build_us, fuse_us);
    printf("  memory plan             %8.0f us\n  hal_plan_create, in all %8.0f us, kernels compiled before\n",
           memory_us, create_us);
    printf("  recorded, finished      %8.0f us, memory plan included\n", record_us);
    return true;
}

static int ascending(const void *left, const void *right)
{
    const double x = *(const double *)left, y = *(const double *)right;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, PAIRS, sizeof *values, ascending);
    return values[PAIRS / 2];
}

/* So many submissions in a row, then the wait. */
static bool run(const cost *c, hal_plan *plan, hal_cmdlist *list, const hal_bindings *bindings, double *submit,
                double *all)
{
    bool good = true;
    const uint64_t begin = hal_now();
    for (uint32_t i = 0; good && i < BATCH; i++) {
        good =
            did(list ? hal_cmdlist_submit(list, c->stream, bindings) : hal_plan_run(plan, c->stream, ROWS, bindings));
    }
    *submit = (double)(hal_now() - begin) / 1e3 / BATCH;
    good = good && did(hal_stream_wait(c->stream, HAL_SECONDS(60)));
    *all = (double)(hal_now() - begin) / 1e3 / BATCH;
    return good;
}

/* The list and the plan in turns. */
static bool replaying(cost *c, hal_plan *plan, const hal_bindings *bindings)
{
    static double submit[2][PAIRS], all[2][PAIRS], apart[PAIRS];
    double best[2] = {0, 0};
    for (uint32_t i = 0; i < PAIRS; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t way = (i + k) % 2;
            if (!run(c, plan, way ? NULL : plan->newest->list, bindings, &submit[way][i], &all[way][i])) {
                return false;
            }
            best[way] = best[way] == 0 || submit[way][i] < best[way] ? submit[way][i] : best[way];
        }
        apart[i] = all[1][i] - all[0][i];
    }
    const double raw = median(all[0]), more = median(apart);
    printf("replaying one layer of %d rows, the recorded list by hand and hal_plan_run\n", ROWS);
    printf("  submit, least      %8.2f us %8.2f us, %+.2f us, %+.1f %%\n", best[0], best[1], best[1] - best[0],
           100 * (best[1] / best[0] - 1));
    printf("  submit, median     %8.2f us %8.2f us\n", median(submit[0]), median(submit[1]));
    printf("  until done, median %8.1f us %8.1f us, in pairs %+.2f us, %+.2f %%\n", raw, median(all[1]), more,
           100 * more / raw);
    return true;
}

static bool replay(cost *c)
{
    hal_plan *plan = NULL;
    uint64_t scratch = 0;
    const uint64_t bytes = (uint64_t)ROWS * HIDDEN * sizeof(float);
    bool good = build(c, 1) &&
                did(hal_plan_create(c->device, c->graph, HAL_PLAN(.replay = true, .measure_rows = ROWS), &plan)) &&
                did(hal_plan_prepare(plan, ROWS)) && did(hal_plan_scratch(plan, ROWS, &scratch)) &&
                did(hal_buffer_create(c->device, HAL_BUFFER(.size = bytes), &c->x)) &&
                did(hal_buffer_create(c->device, HAL_BUFFER(.size = bytes), &c->y)) &&
                did(hal_buffer_create(c->device, HAL_BUFFER(.size = scratch), &c->scratch));
    good = good && replaying(c, plan, HAL_BINDINGS(hal_whole(c->x), hal_whole(c->y), hal_whole(c->scratch)));
    hal_plan_destroy(plan);
    return good;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "--help") == 0) {
        printf("usage: plan_cost [LAYERS], 1 to 1000; default 36\n\nTimes what planning a model of so many layers, and "
               "replaying one of them, cost the host.\n");
        return 0;
    }
    const long layers = count > 1 ? strtol(arguments[1], NULL, 10) : 36;
    if (count > 2 || layers < 1 || layers > 1000) {
        fprintf(stderr, "usage: plan_cost [LAYERS], 1 to 1000; default 36\n");
        return 2;
    }
    cost c = {0};
    const hal_status status = hal_device_open(NULL, &c.device);
    if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
        printf("skipped: %s\n", hal_last_error());
        return 77;
    }
    bool good =
        did(status) && did(hal_stream_create(c.device, NULL, &c.stream)) &&
        did(hal_buffer_create(c.device, HAL_BUFFER(.size = (uint64_t)HIDDEN * INNER * sizeof(float)), &c.weights));
    if (good) {
        printf("%s (%s)\n", hal_device_get_info(c.device)->name, hal_device_get_info(c.device)->backend);
    }
    good = good && planning(&c, (uint32_t)layers) && replay(&c);
    hal_graph_destroy(c.graph);
    hal_buffer_destroy(c.weights);
    hal_buffer_destroy(c.x);
    hal_buffer_destroy(c.y);
    hal_buffer_destroy(c.scratch);
    hal_stream_destroy(c.stream);
    hal_device_destroy(c.device);
    return good ? 0 : 1;
}
