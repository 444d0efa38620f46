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
    hal_graph_destroy(graph);
}

/* Each tile of queries loads blocks of keys up to the last that its last query sees, and its queries with each. */
static void causal_attention(void **state)
{
    (void)state;
    const uint64_t heads = 4, kv_heads = 2, dim = 8, tile = 4, block = 8;
    static const uint64_t lengths[][2] = {{10, 30}, {30, 30}, {30, 10}, {1, 17}, {8, 64}};
    for (size_t l = 0; l < 2 * sizeof lengths / sizeof lengths[0]; l++) {
        const uint64_t queries = lengths[l / 2][0], keys = lengths[l / 2][1];
        const hal_causal causal = l % 2 ? HAL_CAUSAL_TOP_LEFT : HAL_CAUSAL_BOTTOM_RIGHT;
        hal_graph *graph = new_graph();
        hal_graph_attention(
            graph, hal_graph_input(graph, "q", HAL_BF16, HAL_DIMS(HAL_ROWS, heads * dim)),
            hal_graph_input(graph, "k", HAL_BF16, HAL_DIMS(keys, kv_heads * dim)),
            hal_graph_input(graph, "v", HAL_BF16, HAL_DIMS(keys, kv_heads * dim)),
            HAL_GRAPH_ATTENTION(.q_heads = (uint32_t)heads, .kv_heads = (uint32_t)kv_heads, .causal = causal));
        uint64_t kv = 0, q = 0;
        for (uint64_t first = 0; first < queries; first += tile) {
            const uint64_t end = least(first + tile, queries);
            uint64_t loaded = 0; /* keys, a block at a time */
            while (loaded < keys && (causal == HAL_CAUSAL_TOP_LEFT ? loaded < end : loaded + queries < end + keys)) {
                loaded += block;
                q += 2 * (end - first) * heads * dim;
            }
            kv += 2 * 2 * least(loaded, keys) * kv_heads * dim;
        }
        const hal_program *program = hal_graph_program(graph);
        hal_space space;
        hal_space_of(program, &program->steps[0], queries, &space);
        hal_walk walk = {.block = block, .apart = true};
        for (uint32_t d = 0; d < space.dims; d++) {
            const char name = *space.dim[d].name;
            walk.tile[d] = walk.lane[d] = name == 'i' ? tile : name == 'g' ? 1 : name == 's' ? block : 0;
        }
        expect(graph, queries, &walk, q + kv, 2 * queries * heads * dim);
        hal_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(epilogue_of_gemm), cmocka_unit_test(tile_of_the_model),
                                       cmocka_unit_test(passes_over_a_row), cmocka_unit_test(causal_attention)};
    return cmocka_run_group_tests_name("space_traffic", tests, NULL, NULL);
}
