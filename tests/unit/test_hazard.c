/* Hazards against a quadratic comparison of all pairs. */
#include "unit.h"

#include "hazard.h"

#define MOST 120
#define KEYS 3

static hal_core core;
static int keys[KEYS];

typedef struct random_list {
    uint32_t count;
    hal_hazard_command commands[MOST];
    hal_hazard_access accesses[MOST][4];
} random_list;

static bool conflict(const hal_hazard_command *a, const hal_hazard_command *b)
{
    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t k = 0; k < b->count; k++) {
            const hal_hazard_access *x = &a->accesses[i], *y = &b->accesses[k];
            if (x->begin < x->end && y->begin < y->end && x->key == y->key && (x->write || y->write) &&
                x->begin < y->end && y->begin < x->end)
                return true;
        }
    return false;
}

/* `extent` bytes a key: few make dense conflicts, many make sparse ones. */
static void make_list(random_list *list, uint64_t *random, uint64_t extent)
{
    list->count = (uint32_t)(1 + unit_random(random) % MOST);
    for (uint32_t i = 0; i < list->count; i++) {
        list->commands[i] = (hal_hazard_command){list->accesses[i], (uint32_t)(unit_random(random) % 5)};
        for (uint32_t k = 0; k < list->commands[i].count; k++) {
            uint64_t begin = unit_random(random) % extent;
            uint64_t size = unit_random(random) % 4 ? unit_random(random) % 6 : unit_random(random) % extent;
            list->accesses[i][k] = (hal_hazard_access){&keys[unit_random(random) % KEYS], begin, begin + size,
                                                       unit_random(random) % 3 == 0};
        }
    }
}

/* reach[i][k]: i must run after k. */
static void oracle(const random_list *list, bool reach[MOST][MOST])
{
    for (uint32_t i = 0; i < list->count; i++) {
        for (uint32_t k = 0; k < i; k++)
            reach[i][k] = conflict(&list->commands[i], &list->commands[k]);
        for (uint32_t k = i; k-- > 0;)
            if (reach[i][k])
                for (uint32_t j = 0; j < k; j++)
                    reach[i][j] |= reach[k][j];
    }
}

static void closure(const hal_hazard_graph *graph, uint32_t count, bool reach[MOST][MOST])
{
    for (uint32_t i = 0; i < count; i++) {
        memset(reach[i], 0, i * sizeof reach[i][0]);
        for (uint32_t e = graph->dep_start[i]; e < graph->dep_start[i + 1]; e++) {
            uint32_t dep = graph->deps[e];
            assert_true(dep < i);
            assert_true(e == graph->dep_start[i] || graph->deps[e - 1] < dep);
            reach[i][dep] = true;
            for (uint32_t j = 0; j < dep; j++)
                reach[i][j] |= reach[dep][j];
        }
    }
}

static void random_graphs(void **state)
{
    (void)state;
    static random_list list;
    static bool want[MOST][MOST], got[MOST][MOST];
    uint64_t random = unit_seed();
    const uint64_t extents[4] = {8, 30, 200, 5000};
    for (int turn = 0; turn < 4000; turn++) {
        hal_hazard_graph graph;
        make_list(&list, &random, extents[turn % 4]);
        assert_int_equal(hal_hazard_graph_build(&core, list.commands, list.count, &graph), HAL_OK);
        oracle(&list, want);
        closure(&graph, list.count, got);
        uint32_t group = 0, barriers = 0, flags = 0;
        for (uint32_t i = 0; i < list.count; i++) {
            bool needed = false;
            for (uint32_t k = 0; k < i; k++) {
                assert_int_equal(got[i][k], want[i][k]);
                needed |= k >= group && conflict(&list.commands[i], &list.commands[k]);
            }
            if (needed) {
                group = i;
                barriers++;
            }
            assert_int_equal(graph.barrier[i], needed);
            flags += graph.barrier[i];
        }
        assert_int_equal(flags, barriers);
        assert_int_equal(graph.barriers, barriers);
        assert_int_equal(graph.edges, graph.dep_start[list.count]);
        hal_hazard_graph_free(&graph);
    }
}

/* No conflict may pass the window without a barrier, and no barrier may come for nothing unless the window was full. */
static void random_windows(void **state)
{
    (void)state;
    static random_list list;
    static hal_hazard_window window;
    uint64_t random = unit_seed();
    for (int turn = 0; turn < 4000; turn++) {
        make_list(&list, &random, turn % 2 ? 200 : 100000);
        hal_hazard_window_reset(&window);
        uint32_t group = 0, ranges = 0;
        for (uint32_t i = 0; i < list.count; i++) {
            bool needed = false;
            for (uint32_t k = group; k < i; k++)
                needed |= conflict(&list.commands[i], &list.commands[k]);
            bool barrier = hal_hazard_window_add(&window, list.commands[i].accesses, list.commands[i].count);
            ranges += list.commands[i].count;
            assert_true(barrier || !needed);
            assert_true(needed || !barrier || ranges > HAL_HAZARD_WINDOW);
            if (barrier) {
                group = i;
                ranges = list.commands[i].count;
            }
        }
    }
}

static hal_hazard_graph build(const hal_hazard_command *commands, uint32_t count)
{
    hal_hazard_graph graph;
    assert_int_equal(hal_hazard_graph_build(&core, commands, count, &graph), HAL_OK);
    return graph;
}

#define COMMAND(...)                                                                                                   \
    {                                                                                                                  \
        (const hal_hazard_access[]){__VA_ARGS__},                                                                      \
            sizeof((const hal_hazard_access[]){__VA_ARGS__}) / sizeof(hal_hazard_access)                               \
    }
#define R(key, begin, end)                                                                                             \
    {                                                                                                                  \
        &keys[key], begin, end, false                                                                                  \
    }
#define W(key, begin, end)                                                                                             \
    {                                                                                                                  \
        &keys[key], begin, end, true                                                                                   \
    }

/* a chain stays a chain; a diamond keeps its two branches apart. */
static void shapes(void **state)
{
    (void)state;
    const hal_hazard_command chain[4] = {COMMAND(W(0, 0, 8)), COMMAND(R(0, 0, 8), W(0, 0, 8)),
                                         COMMAND(R(0, 0, 8), W(0, 0, 8)), COMMAND(R(0, 0, 8), W(0, 0, 8))};
    hal_hazard_graph graph = build(chain, 4);
    assert_int_equal(graph.edges, 3);
    assert_int_equal(graph.barriers, 3);
    hal_hazard_graph_free(&graph);

    const hal_hazard_command diamond[4] = {COMMAND(W(0, 0, 8)), COMMAND(R(0, 0, 8), W(1, 0, 8)),
                                           COMMAND(R(0, 0, 8), W(2, 0, 8)),
                                           COMMAND(R(1, 0, 8), R(2, 0, 8), W(0, 0, 8))};
    graph = build(diamond, 4);
    assert_int_equal(graph.edges, 4);
    assert_int_equal(graph.barriers, 2);
    hal_hazard_graph_free(&graph);

    const hal_hazard_command disjoint[3] = {COMMAND(W(0, 0, 8)), COMMAND(W(0, 8, 16)), COMMAND(W(1, 0, 8))};
    graph = build(disjoint, 3);
    assert_int_equal(graph.edges, 0);
    assert_int_equal(graph.barriers, 0);
    hal_hazard_graph_free(&graph);

    /* The third waits for the first through the second. */
    const hal_hazard_command triangle[3] = {COMMAND(W(0, 0, 8)), COMMAND(R(0, 0, 8), W(1, 0, 8)),
                                            COMMAND(R(0, 0, 8), R(1, 0, 8), W(2, 0, 8))};
    graph = build(triangle, 3);
    assert_int_equal(graph.edges, 2);
    hal_hazard_graph_free(&graph);

    graph = build(NULL, 0);
    assert_int_equal(graph.edges, 0);
    hal_hazard_graph_free(&graph);
}

/* 20,000 commands over two buffers: with anything quadratic this would take minutes. */
static void long_list(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static hal_hazard_access accesses[COUNT][3];
    static hal_hazard_command commands[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t at = (uint64_t)(i % 100) * 64;
        accesses[i][0] = (hal_hazard_access){&keys[0], 0, 6400, false};
        accesses[i][1] = (hal_hazard_access){&keys[1], at, at + 64, false};
        accesses[i][2] = (hal_hazard_access){&keys[1], at, at + 64, true};
        commands[i] = (hal_hazard_command){accesses[i], 3};
    }
    uint64_t start = hal_now();
    hal_hazard_graph graph = build(commands, COUNT);
    uint64_t took = hal_now() - start;
    print_message("%d commands: %llu us\n", COUNT, (unsigned long long)(took / 1000));
    assert_int_equal(graph.edges, COUNT - 100);
    assert_int_equal(graph.barriers, COUNT / 100 - 1);
    assert_true(took < UINT64_C(2000000000));
    hal_hazard_graph_free(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(random_windows),
        cmocka_unit_test(shapes),
        cmocka_unit_test(long_list),
    };
    return cmocka_run_group_tests_name("hazard", tests, NULL, NULL);
}
