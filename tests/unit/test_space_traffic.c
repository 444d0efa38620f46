/* test_space_traffic.c - bytes of kernels by how they go over a step, against loops that count each load and store.
 * tests/scheduler/test_model_bytes.c holds them against kernels. */
#include "unit.h"

#include "space.h"

#include <hal/model.h>

static hal_graph *new_graph(void)
{
    hal_graph *graph;
    assert_int_equal(hal_graph_create(NULL, &graph), HAL_OK);
    return graph;
}

static uint64_t least(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

static void expect(hal_graph *graph, uint64_t rows, const hal_walk *walk, uint64_t read, uint64_t written)
{
    const hal_program *program = hal_graph_program(graph);
    assert_int_equal(hal_graph_status(graph), HAL_OK);
    const hal_traffic traffic = hal_space_traffic(program, &program->steps[0], rows, walk);
    assert_int_equal(traffic.read, read);
    assert_int_equal(traffic.written, written);
}

/* Bias comes with each element of D, not with each tile; rows of A are filled up to those of a tile. */
static void epilogue_of_gemm(void **state)
{
    (void)state;
    const uint64_t m = 13, n = 20, k = 24, tile = 8;
    hal_graph *graph = new_graph();
    const hal_tensor bias = hal_graph_input(graph, "bias", HAL_F32, HAL_DIMS(n));
    hal_graph_gemm(graph, hal_graph_input(graph, "a", HAL_BF16, HAL_DIMS(HAL_ROWS, k)),
                   hal_graph_input(graph, "b", HAL_BF16, HAL_DIMS(k, n)), HAL_GRAPH_GEMM(.bias = bias));
    hal_walk walk = {.tile = {tile, tile, 0}, .lane = {1, 1, 0}};
    const uint64_t a = 2 * m * k * 3, b = 2 * k * n * 2, d = 2 * m * n;
    expect(graph, m, &walk, a + b + 4 * m * n, d);
    walk.tile_rows = tile;
    expect(graph, m, &walk, 2 * 16 * k * 3 + b + 4 * m * n, d);
    walk.lane_rows = tile;
    expect(graph, m, &walk, 2 * 16 * k * 3 + b + 4 * 16 * n, d);
    hal_graph_destroy(graph);
}

/* hal/model.h, which `hal-bench model tile` prints, says the same as the description of the operator, and the plan's
 * figure is its minimum. */
static void tile_of_the_model(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int round = 0; round < 200; round++) {
        const uint64_t m = 1 + unit_random(&seed) % 300, n = 1 + unit_random(&seed) % 300,
                       k = 1 + unit_random(&seed) % 300, tile_m = 1 + unit_random(&seed) % 128,
                       tile_n = 1 + unit_random(&seed) % 128;
        hal_graph *graph = new_graph();
        hal_graph_gemm(graph, hal_graph_input(graph, "a", HAL_BF16, HAL_DIMS(HAL_ROWS, k)),
                       hal_graph_input(graph, "b", HAL_BF16, HAL_DIMS(k, n)), NULL);
        hal_model_gemm_cost cost;
        const hal_model_gemm gemm = {.m = m, .k = k, .n = n, .tile_m = tile_m, .tile_k = 16, .tile_n = tile_n};
        assert_int_equal(hal_model_gemm_costs(&gemm, &cost), HAL_OK);
        const hal_walk walk = {.tile = {tile_m, tile_n, 16}, .lane = {1, 1, 0}};
        expect(graph, m, &walk, cost.a_bytes + cost.b_bytes, cost.d_bytes);
        const hal_program *program = hal_graph_program(graph);
        assert_int_equal(hal_space_bytes(program, &program->steps[0], m), cost.minimum);
        hal_graph_destroy(graph);
    }
}

/* Two passes over a row, unless the tile has all of it and the passes share it. */
static void passes_over_a_row(void **state)
{
    (void)state;
    const uint64_t rows = 5, columns = 24, x = 4 * rows * columns;
    hal_graph *graph = new_graph();
    hal_graph_softmax(graph, hal_graph_input(graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, columns)), 1, HAL_NO_TENSOR);
    hal_walk walk = {.tile = {1, 0, 0}, .lane = {1, 0, 0}};
    expect(graph, rows, &walk, x, x);
    walk.apart = true;
    expect(graph, rows, &walk, 2 * x, x);
    walk = (hal_walk){.tile = {1, 8, 8}, .lane = {1, 8, 8}};
    expect(graph, rows, &walk, 2 * x, x);
    walk.passes = 2; /* the first of these, twice */
    expect(graph, rows, &walk, 3 * x, x);
    walk.tile[1] = 0; /* k: the tile has the row */
    expect(graph, rows, &walk, 2 * x, x);
    hal_graph_destroy(graph);
}

/* Tables have a column for each pair that is turned, all of a head's or fewer. */
static void tables_of_rope(void **state)
{
    (void)state;
    const uint64_t rows = 5, heads = 3, dim = 16, positions = 40;
    for (uint64_t pairs = 1; pairs <= dim / 2; pairs++) {
        hal_graph *graph = new_graph();
        hal_graph_rope(graph, hal_graph_input(graph, "x", HAL_BF16, HAL_DIMS(HAL_ROWS, heads * dim)), (uint32_t)heads,
                       hal_graph_input(graph, "cos", HAL_F32, HAL_DIMS(positions, pairs)),
                       hal_graph_input(graph, "sin", HAL_F32, HAL_DIMS(positions, pairs)), HAL_NO_TENSOR);
        const hal_program *program = hal_graph_program(graph);
        const uint64_t x = 2 * rows * heads * dim;
        hal_space space;
        hal_space_of(program, &program->steps[0], rows, &space);
        hal_walk walk = {.apart = false};
        for (uint32_t d = 0; d < space.dims; d++) {
            walk.lane[d] = 1;
        }
        expect(graph, rows, &walk, x + 2 * 4 * rows * heads * pairs, x);
        assert_int_equal(hal_space_bytes(program, &program->steps[0], rows), 2 * x + 2 * 4 * rows * pairs);
        hal_graph_destroy(graph);
    }
}

enum { HEADS, KV_HEADS, QUERIES, KEYS };
/* Tiles of queries, or of rows of a head of keys, with all its heads of queries. Q comes with each block of keys that
 * is seen or, ahead of them, with each tile of blocks. */
static void expect_attention(const uint64_t c[4], hal_causal causal, bool joined, bool ahead)
{
    const uint64_t dim = 8, tile = 4, block = 8, part = ahead ? 16 : block, ratio = joined ? c[HEADS] / c[KV_HEADS] : 1,
                   width = c[HEADS] / ratio * dim;
    hal_graph *graph = new_graph();
    hal_graph_attention(
        graph, hal_graph_input(graph, "q", HAL_BF16, HAL_DIMS(HAL_ROWS, c[HEADS] * dim)),
        hal_graph_input(graph, "k", HAL_BF16, HAL_DIMS(c[KEYS], c[KV_HEADS] * dim)),
        hal_graph_input(graph, "v", HAL_BF16, HAL_DIMS(c[KEYS], c[KV_HEADS] * dim)),
        HAL_GRAPH_ATTENTION(.q_heads = (uint32_t)c[HEADS], .kv_heads = (uint32_t)c[KV_HEADS], .causal = causal));
    uint64_t kv = 0, q = 0;
    for (uint64_t first = 0; first < c[QUERIES] * ratio; first += tile) {
        const uint64_t end = least(first + tile, c[QUERIES] * ratio), last = (end - 1) / ratio;
        uint64_t loaded = 0; /* keys, a block at a time */
        while (loaded < c[KEYS] &&
               (causal == HAL_CAUSAL_NONE ||
                (causal == HAL_CAUSAL_TOP_LEFT ? loaded <= last : loaded + c[QUERIES] <= last + c[KEYS]))) {
            loaded += block;
            q += ahead ? 0 : 2 * (end - first) * width;
        }
        for (uint64_t key = 0; ahead && key < c[KEYS]; key += part) {
            q += 2 * (end - first) * width;
        }
        kv += 2 * 2 * least(loaded, c[KEYS]) * c[KV_HEADS] * dim;
    }
    const hal_program *program = hal_graph_program(graph);
    hal_space space;
    hal_space_of(program, &program->steps[0], c[QUERIES], &space);
    hal_walk walk = {.block = block, .apart = true, .joined = joined, .ahead = ahead};
    for (uint32_t d = 0; d < space.dims; d++) {
        const char name = *space.dim[d].name;
        walk.tile[d] = walk.lane[d] = name == 'i' ? tile : name == 'g' ? 1 : name == 's' ? part : 0;
    }
    expect(graph, c[QUERIES], &walk, q + kv, 2 * c[QUERIES] * c[HEADS] * dim);
    hal_graph_destroy(graph);
}

static void tiles_of_attention(void **state)
{
    (void)state;
    static const uint64_t cases[][4] = {{4, 2, 10, 30}, {4, 2, 30, 30}, {4, 2, 30, 10}, {4, 2, 1, 17}, {4, 2, 8, 64},
                                        {6, 2, 10, 30}, {7, 1, 31, 30}, {9, 3, 30, 10}, {6, 1, 1, 17}, {5, 1, 8, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int way = 0; way < 12; way++) {
            static const hal_causal causal[] = {HAL_CAUSAL_NONE, HAL_CAUSAL_TOP_LEFT, HAL_CAUSAL_BOTTOM_RIGHT};
            expect_attention(cases[i], causal[way / 4], way & 1, way & 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(epilogue_of_gemm), cmocka_unit_test(tile_of_the_model),
                                       cmocka_unit_test(passes_over_a_row), cmocka_unit_test(tables_of_rope),
                                       cmocka_unit_test(tiles_of_attention)};
    return cmocka_run_group_tests_name("space_traffic", tests, NULL, NULL);
}
