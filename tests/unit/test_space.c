/* test_space.c - what operators touch and compute, and what may be done on a tile. Figures are those of the running
 * example: Qwen3-8B's FFN, 1024 rows, H = 4096, F = 12288, BF16. */
#include "unit.h"

#include "space.h"

#define MIB (UINT64_C(1) << 20)

static hal_graph *new_graph(void)
{
    hal_graph *graph;
    assert_int_equal(hal_graph_create(NULL, &graph), HAL_OK);
    return graph;
}

static const hal_program *program_of(hal_graph *graph)
{
    if (hal_graph_status(graph) != HAL_OK) {
        fail_msg("%s", hal_last_error());
    }
    return hal_graph_program(graph);
}

static hal_tensor input(hal_graph *graph, const char *name, hal_dtype dtype, hal_dims dims)
{
    return hal_graph_input(graph, name, dtype, dims);
}

static const hal_space_access *access_of(const hal_space *space, hal_role role)
{
    for (uint32_t s = 0; s < space->statements; s++) {
        for (uint32_t a = 0; a < space->statement[s].accesses; a++) {
            if (space->statement[s].access[a].role == (int)role) {
                return &space->statement[s].access[a];
            }
        }
    }
    fail_msg("no access of role %s", hal_role_name(role));
    return NULL;
}

static uint64_t footprint(const hal_space *space, hal_role role, const uint64_t *tile)
{
    return hal_space_footprint(space, access_of(space, role), tile);
}

/* GEMM */

static void gemm_traffic(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor a = input(graph, "a", HAL_BF16, HAL_DIMS(HAL_ROWS, 4096));
    const hal_tensor w = input(graph, "w", HAL_BF16, HAL_DIMS(4096, 12288));
    hal_graph_gemm(graph, a, w, NULL);
    const hal_program *program = program_of(graph);
    const hal_step *step = &program->steps[0];
    hal_space space;
    hal_space_of(program, step, 1024, &space);
    assert_int_equal(space.dims, 3);
    assert_string_equal(space.dim[0].name, "i");
    assert_string_equal(space.dim[2].name, "k");
    assert_int_equal(space.dim[1].kind, HAL_DIM_PARALLEL);
    assert_int_equal(space.dim[2].kind, HAL_DIM_REDUCTION);
    assert_true(hal_space_flops(&space) == 2.0 * 1024 * 4096 * 12288);
    assert_int_equal(hal_space_bytes(program, step, 1024), 128 * MIB);
    assert_int_equal(hal_space_tiled_bytes(program, step, 1024, (const uint64_t[6]){64, 64, 32}), 3096 * MIB);
    assert_int_equal(hal_space_tiled_bytes(program, step, 1024, (const uint64_t[6]){128, 128, 64}), 1560 * MIB);
    assert_int_equal(hal_space_tiled_bytes(program, step, 1024, (const uint64_t[6]){0, 0, 0}), 128 * MIB);

    const uint64_t tile[6] = {64, 64, 32};
    assert_int_equal(footprint(&space, HAL_ROLE_X, tile), 64 * 32);
    assert_int_equal(footprint(&space, HAL_ROLE_B, tile), 32 * 64);
    assert_int_equal(footprint(&space, HAL_ROLE_Y, tile), 64 * 64);
    /* A tile larger than the matrix is the matrix. */
    assert_int_equal(footprint(&space, HAL_ROLE_B, (const uint64_t[6]){1, 1 << 20, 1 << 20}), 4096 * 12288);
    hal_graph_destroy(graph);
}

/* Against tiles counted one by one, edges included. */
static void gemm_tiles_one_by_one(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int turn = 0; turn < 200; turn++) {
        const uint64_t m = 1 + unit_random(&seed) % 40, n = 1 + unit_random(&seed) % 40,
                       k = 1 + unit_random(&seed) % 40;
        const uint64_t tile[6] = {1 + unit_random(&seed) % 17, 1 + unit_random(&seed) % 17,
                                  1 + unit_random(&seed) % 17};
        const bool trans = unit_random(&seed) & 1;
        hal_graph *graph = new_graph();
        const hal_tensor a = input(graph, "a", HAL_F16, HAL_DIMS(m, k));
        const hal_tensor w = input(graph, "w", HAL_F16, trans ? HAL_DIMS(n, k) : HAL_DIMS(k, n));
        hal_graph_gemm(graph, a, w, HAL_GRAPH_GEMM(.trans_b = trans, .dtype = HAL_F32));
        uint64_t bytes = 0;
        for (uint64_t i = 0; i < m; i += tile[0]) {
            for (uint64_t j = 0; j < n; j += tile[1]) {
                const uint64_t rows = m - i < tile[0] ? m - i : tile[0], columns = n - j < tile[1] ? n - j : tile[1];
                for (uint64_t l = 0; l < k; l += tile[2]) {
                    bytes += 2 * (k - l < tile[2] ? k - l : tile[2]) * (rows + columns);
                }
                bytes += 4 * rows * columns;
            }
        }
        const hal_program *program = program_of(graph);
        assert_int_equal(hal_space_tiled_bytes(program, &program->steps[0], 0, tile), bytes);
        hal_graph_destroy(graph);
    }
}

/* Footprints by brute force */

enum { MOST_VALUES = 4096 };

/* Distinct index tuples of an access, counted through all points of the tile. */
static uint64_t touched(const hal_space *space, const hal_space_access *access, const uint64_t *tile)
{
    static uint64_t seen[MOST_VALUES];
    uint64_t count = 0, points = 1, extent[HAL_SPACE_DIMS];
    for (uint32_t d = 0; d < space->dims; d++) {
        extent[d] = hal_space_tile(space, tile, d);
        points *= extent[d];
    }
    for (uint64_t p = 0; p < points; p++) {
        uint64_t rest = p, key = 0;
        int64_t value[HAL_SPACE_RANK] = {0};
        for (uint32_t d = 0; d < space->dims; d++) {
            for (uint32_t i = 0; i < access->rank; i++) {
                value[i] += access->index[i].times[d] * (int64_t)(rest % extent[d]);
            }
            rest /= extent[d];
        }
        for (uint32_t i = 0; i < access->rank; i++) {
            key = key * 10007 + (uint64_t)(value[i] + 2000); /* values are small: no two tuples meet */
        }
        uint64_t at = 0;
        while (at < count && seen[at] != key) {
            at++;
        }
        if (at == count) {
            assert_true(count < MOST_VALUES);
            seen[count++] = key;
        }
    }
    return count;
}

/* exact: every dimension is in one index, and there they nest or overlap like a window. */
static void random_space(uint64_t *seed, bool exact, hal_space *space, hal_space_access *access)
{
    *space = (hal_space){.dims = 1 + (uint32_t)(unit_random(seed) % 4)};
    *access = (hal_space_access){.rank = 1 + (uint32_t)(unit_random(seed) % 3)};
    int64_t next[HAL_SPACE_RANK] = {1, 1, 1, 1};  /* a stride that nests */
    int64_t dense[HAL_SPACE_RANK] = {1, 1, 1, 1}; /* values without a gap so far; 0: there was one */
    for (uint32_t d = 0; d < space->dims; d++) {
        const int64_t extent = 1 + (int64_t)(unit_random(seed) % 5);
        const uint32_t i = (uint32_t)(unit_random(seed) % (access->rank + 1));
        space->dim[d] = (hal_dim){"x", HAL_DIM_PARALLEL, (uint64_t)extent};
        if (i == access->rank) {
            continue; /* in no index */
        }
        if (!exact) {
            access->index[i].times[d] = (int64_t)(unit_random(seed) % 7) - 3;
            access->index[unit_random(seed) % access->rank].times[d] = 1;
            continue;
        }
        const bool window = dense[i] && unit_random(seed) % 2;
        const int64_t gap = (int64_t)(unit_random(seed) % 3);
        const int64_t times = window ? 1 + (int64_t)unit_random(seed) % dense[i] : next[i] + gap;
        access->index[i].times[d] = unit_random(seed) % 4 ? times : -times;
        dense[i] = extent == 1                        ? dense[i]
                   : window || (next[i] == 1 && !gap) ? dense[i] + times * (extent - 1)
                   : dense[i] == times                ? dense[i] * extent
                                                      : 0;
        next[i] += times * (extent - 1);
    }
}

static void footprints_by_brute_force(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int turn = 0; turn < 20000; turn++) {
        const bool exact = turn % 4 != 0;
        hal_space space;
        hal_space_access access;
        uint64_t tile[HAL_SPACE_DIMS];
        random_space(&seed, exact, &space, &access);
        for (uint32_t d = 0; d < HAL_SPACE_DIMS; d++) {
            tile[d] = exact ? 0 : unit_random(&seed) % 6;
        }
        const uint64_t counted = touched(&space, &access, tile), said = hal_space_footprint(&space, &access, tile);
        if (exact ? said != counted : said < counted) {
            fail_msg("turn %d: %llu elements are touched, the footprint says %llu", turn, (unsigned long long)counted,
                     (unsigned long long)said);
        }
    }
}

/* Where values meet and leave gaps, the footprint is no more than all values from the first to the last. */
static void footprint_is_bounded(void **state)
{
    (void)state;
    const hal_space space = {.dims = 2, .dim = {{"i", HAL_DIM_PARALLEL, 5}, {"j", HAL_DIM_PARALLEL, 5}}};
    const hal_space_access access = {.rank = 1, .index = {{.times = {2, 3}}}};
    assert_int_equal(touched(&space, &access, NULL), 19);
    assert_int_equal(hal_space_footprint(&space, &access, NULL), 21);
}

/* Every operator */

static void heads_and_pairs(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor x = input(graph, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 3 * 10));
    const hal_tensor table = input(graph, "cos", HAL_F32, HAL_DIMS(64, 5));
    hal_graph_rope(graph, x, 3, table, table, HAL_NO_TENSOR);
    const hal_program *program = program_of(graph);
    hal_space space;
    hal_space_of(program, &program->steps[0], 4, &space);
    const hal_statement *statement = &space.statement[0];
    const int64_t plus[] = {0, 5, 0, 5}; /* y's halves, x's halves */
    for (uint32_t a = 0; a < 4; a++) {
        const hal_affine *column = &statement->access[a].index[1];
        assert_int_equal(column->plus, plus[a]);
        for (uint32_t d = 0; d < space.dims; d++) {
            const char name = *space.dim[d].name;
            assert_int_equal(column->times[d], name == 'h' ? 10 : name == 'c' ? 1 : 0);
        }
    }
    hal_graph_destroy(graph);
}

/* A step of every kind, most operands given. */
static hal_graph *every_operator(void)
{
    hal_graph *g = new_graph();
    const hal_tensor x = input(g, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 24));
    const hal_tensor w = input(g, "w", HAL_F16, HAL_DIMS(24, 24)), row = input(g, "row", HAL_F16, HAL_DIMS(24));
    const hal_tensor column = input(g, "column", HAL_F16, HAL_DIMS(HAL_ROWS, 1));
    const hal_tensor wide = input(g, "wide", HAL_F16, HAL_DIMS(16, 24));
    const hal_tensor tables = input(g, "cos", HAL_F32, HAL_DIMS(64, 6)),
                     mask = input(g, "mask", HAL_F32, HAL_DIMS(HAL_ROWS, 16));
    const hal_tensor ids = hal_graph_index_input(g, "ids", 4, HAL_DIMS(HAL_ROWS));
    const hal_tensor length = hal_graph_index_input(g, "length", 4, HAL_DIMS(1));
    const hal_tensor cube = input(g, "cube", HAL_F16, HAL_DIMS(3, 4, 5));
    hal_tensor scales;
    hal_graph_gemm(g, x, w, HAL_GRAPH_GEMM(.trans_b = true, .bias = row));
    hal_graph_activation(g, x, HAL_ACT_SILU);
    hal_graph_add(g, x, row);
    hal_graph_multiply(g, x, column);
    hal_graph_swiglu(g, x, x);
    hal_graph_rmsnorm(g, x, row, 1e-6f);
    hal_graph_softmax(g, x, 1, row);
    hal_graph_cast(g, x, HAL_F32);
    const hal_tensor codes = hal_graph_quantize(g, x, HAL_NO_TENSOR, &scales);
    hal_graph_dequantize(g, codes, scales, HAL_F16);
    hal_graph_transpose(g, cube, (const uint32_t[4]){2, 0, 1});
    hal_graph_transpose(g, x, (const uint32_t[4]){0, 1});
    hal_graph_rope(g, x, 2, tables, tables, ids);
    hal_graph_gather(g, wide, ids);
    hal_graph_attention(g, x, wide, wide,
                        HAL_GRAPH_ATTENTION(.q_heads = 6, .kv_heads = 2 * 3, .mask = mask, .kv_lengths = length));
    hal_graph_attention(g, x, w, input(g, "v", HAL_F16, HAL_DIMS(24, 12)),
                        HAL_GRAPH_ATTENTION(.q_heads = 2, .kv_heads = 2));
    return g;
}

static void stays_inside(const hal_program *program, const hal_step *step, const hal_space *space,
                         const hal_space_access *access, uint64_t rows)
{
    const hal_tensor_info *tensor = &program->tensors[step->tensors[access->role]];
    const uint64_t shape[2] = {hal_tensor_rows(tensor, rows), hal_tensor_columns(tensor)};
    for (uint32_t i = 0; i < access->rank; i++) {
        uint64_t most = (uint64_t)access->index[i].plus;
        for (uint32_t d = 0; d < space->dims; d++) {
            most += (uint64_t)access->index[i].times[d] * (space->dim[d].extent - 1);
        }
        const uint64_t limit = access->rank == 1 ? shape[0] * shape[1] : shape[i != 0];
        char name[HAL_STEP_NAME];
        if (most >= limit) {
            fail_msg("%s reads %s at %llu of %llu", hal_step_name(step, name), hal_role_name((hal_role)access->role),
                     (unsigned long long)most, (unsigned long long)limit);
        }
    }
}

static void every_operator_touches_its_tensors(void **state)
{
    (void)state;
    const uint64_t rows = 7;
    hal_graph *graph = every_operator();
    const hal_program *program = program_of(graph);
    for (uint32_t s = 0; s < program->step_count; s++) {
        const hal_step *step = &program->steps[s];
        char name[HAL_STEP_NAME];
        hal_space space;
        hal_space_of(program, step, rows, &space);
        uint64_t bytes = 0;
        bool seen[HAL_ROLES] = {false};
        for (uint32_t a = 0; a < space.statements; a++) {
            for (uint32_t b = 0; b < space.statement[a].accesses; b++) {
                if (space.statement[a].access[b].role >= 0) {
                    stays_inside(program, step, &space, &space.statement[a].access[b], rows);
                    seen[space.statement[a].access[b].role] = true;
                }
            }
        }
        for (uint32_t role = 0; role < HAL_ROLES; role++) {
            const uint32_t id = step->tensors[role];
            bool again = id == 0;
            for (uint32_t before = 0; before < role; before++) {
                again = again || step->tensors[before] == id;
            }
            if (id && !seen[role]) {
                fail_msg("%s does not say what it does with %s", hal_step_name(step, name),
                         hal_role_name((hal_role)role));
            }
            const bool looked_up = step->op == HAL_STEP_GATHER && role == HAL_ROLE_X;
            const bool by_position = role == HAL_ROLE_COS;
            bytes += again         ? 0
                     : looked_up   ? rows * 24 * 2
                     : by_position ? rows * 6 * 4
                                   : hal_tensor_bytes(&program->tensors[id], rows);
        }
        if (hal_space_bytes(program, step, rows) != bytes) {
            fail_msg("%s: %llu bytes, not %llu", hal_step_name(step, name),
                     (unsigned long long)hal_space_bytes(program, step, rows), (unsigned long long)bytes);
        }
        hal_space_of(program, step, 0, &space); /* no rows: no work */
        assert_true(step->op == HAL_STEP_TRANSPOSE || hal_space_flops(&space) == 0);
    }
    hal_graph_destroy(graph);
}

static double flops_of_step(const hal_program *program, uint32_t index, uint64_t rows)
{
    hal_space space;
    hal_space_of(program, &program->steps[index], rows, &space);
    return hal_space_flops(&space);
}

static void flops(void **state)
{
    (void)state;
    hal_graph *graph = every_operator();
    const hal_program *program = program_of(graph);
    const double rows = 7;
    const double expected[] = {
        rows * 24 * (2 * 24 + 1), /* a bias */
        rows * 24,
        rows * 24,
        rows * 24,
        rows * 24 * 2,       /* SiLU, product */
        rows * 24 * (2 + 2), /* square and sum; times the root, times the weight */
        rows * 24 * (5 + 4), /* mask, max, subtract, exp, sum; mask, subtract, exp, divide */
        0,
        rows * 24 * (1 + 1),
        rows * 24,
        0,
        0,
        rows * 2 * 6 * 6, /* 4 products, 2 sums a pair */
        0,
        rows * 6 * 16 *
            (2 * 4 + 5 + 2 + 2 * 4), /* of a score: product; mask, max, subtract, exp, sum; subtract, exp; weight */
        rows * 2 * 24 * (2 * 12 + 4 + 2 + 2 * 6),
    };
    assert_int_equal(program->step_count, sizeof expected / sizeof expected[0]);
    for (uint32_t i = 0; i < program->step_count; i++) {
        if (flops_of_step(program, i, 7) != expected[i]) {
            fail_msg("step %u: %g FLOPs, not %g", i, flops_of_step(program, i, 7), expected[i]);
        }
    }
    hal_graph_destroy(graph);
}

/* Steps that only fusion makes: operands are added to a step of the graph. */
static void fused_steps(void **state)
{
    (void)state;
    const uint64_t rows = 7;
    hal_graph *g = new_graph();
    const hal_tensor x = input(g, "x", HAL_BF16, HAL_DIMS(HAL_ROWS, 24)), w = input(g, "w", HAL_BF16, HAL_DIMS(24, 40));
    const hal_tensor up = input(g, "up", HAL_BF16, HAL_DIMS(24, 40)),
                     r = input(g, "r", HAL_BF16, HAL_DIMS(HAL_ROWS, 40));
    const hal_tensor scales = input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    const hal_tensor y = hal_graph_gemm(g, x, w, NULL);
    hal_graph_rmsnorm(g, y, HAL_NO_TENSOR, 0);
    const hal_program *program = program_of(g);
    const uint64_t a = rows * 24 * 2, matrix = 24 * 40 * 2, d = rows * 40 * 2, row = rows * 4;
    hal_space space;

    hal_step gemm = program->steps[0];
    gemm.act = HAL_ACT_SILU;
    gemm.tensors[HAL_ROLE_RESIDUAL] = r.id;
    hal_space_of(program, &gemm, rows, &space);
    assert_true(hal_space_flops(&space) == 7.0 * 40 * (2 * 24 + 1 + 1));
    assert_int_equal(hal_space_bytes(program, &gemm, rows), a + matrix + 2 * d);

    gemm = program->steps[0];
    gemm.tensors[HAL_ROLE_B_UP] = up.id;
    gemm.tensors[HAL_ROLE_SCALE_D] = scales.id;
    hal_space_of(program, &gemm, rows, &space);
    assert_true(hal_space_flops(&space) == 7.0 * 40 * (2 * 2 * 24 + 2 + 1)); /* SiLU and product; divided */
    assert_int_equal(hal_space_bytes(program, &gemm, rows), a + 2 * matrix + d + row);
    assert_int_equal(footprint(&space, HAL_ROLE_B_UP, (const uint64_t[6]){64, 8, 3}), 24);

    hal_step norm = program->steps[1];
    norm.tensors[HAL_ROLE_RESIDUAL] = r.id;
    norm.tensors[HAL_ROLE_SUM] = norm.tensors[HAL_ROLE_Y]; /* any tensor of that shape */
    norm.tensors[HAL_ROLE_Y] = y.id;
    norm.tensors[HAL_ROLE_X] = norm.tensors[HAL_ROLE_SUM];
    norm.tensors[HAL_ROLE_SCALES] = scales.id;
    hal_space_of(program, &norm, rows, &space);
    assert_int_equal(space.statements, 3);
    /* residual, square, sum; residual, root, largest; residual, root, divided */
    assert_true(hal_space_flops(&space) == 7.0 * 40 * (3 + 3 + 3));
    assert_int_equal(hal_space_bytes(program, &norm, rows), 3 * d + row);
    hal_graph_destroy(g);
}

/* SiLU, product, quantise: 156 MiB. */
static void activation_chain(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor gate = input(graph, "gate", HAL_BF16, HAL_DIMS(HAL_ROWS, 12288));
    const hal_tensor up = input(graph, "up", HAL_BF16, HAL_DIMS(HAL_ROWS, 12288));
    hal_tensor scales;
    hal_graph_quantize(graph, hal_graph_multiply(graph, hal_graph_activation(graph, gate, HAL_ACT_SILU), up),
                       HAL_NO_TENSOR, &scales);
    const hal_program *program = program_of(graph);
    assert_int_equal(hal_space_bytes(program, &program->steps[0], 1024), 48 * MIB);
    assert_int_equal(hal_space_bytes(program, &program->steps[1], 1024), 72 * MIB);
    assert_int_equal(hal_space_bytes(program, &program->steps[2], 1024), 36 * MIB + 1024 * 4); /* and the scales */
    /* Tiles of less than a row read x twice: for the scale, and to divide by it. */
    const uint64_t whole[6] = {1, 0, 0}, part[6] = {1, 128, 128};
    assert_int_equal(hal_space_tiled_bytes(program, &program->steps[2], 1024, whole), 36 * MIB + 1024 * 4);
    assert_int_equal(hal_space_tiled_bytes(program, &program->steps[2], 1024, part), 60 * MIB + 1024 * 4);
    hal_graph_destroy(graph);
}

/* Tiles of 82 queries read K and V ceil(8192 / 82) = 100 times, Q once. */
static void attention_scans(void **state)
{
    (void)state;
    const uint64_t length = 8192, dim = 128, queries = 82, keys = 64;
    hal_graph *graph = new_graph();
    const hal_tensor q = input(graph, "q", HAL_BF16, HAL_DIMS(HAL_ROWS, dim));
    const hal_tensor k = input(graph, "k", HAL_BF16, HAL_DIMS(HAL_ROWS, dim));
    const hal_tensor v = input(graph, "v", HAL_BF16, HAL_DIMS(HAL_ROWS, dim));
    hal_graph_attention(graph, q, k, v, NULL);
    const hal_program *program = program_of(graph);
    hal_space space;
    hal_space_of(program, &program->steps[0], length, &space);
    uint64_t tile[HAL_SPACE_DIMS] = {0};
    for (uint32_t d = 0; d < space.dims; d++) {
        tile[d] = *space.dim[d].name == 'i' ? queries : *space.dim[d].name == 's' ? keys : 0;
    }
    assert_int_equal(hal_space_tiled_bytes(program, &program->steps[0], length, tile),
                     2 * (2 * length * dim) + 100 * 2 * length * dim * 2);
    assert_int_equal(hal_space_bytes(program, &program->steps[0], length), 8 * MIB);
    hal_graph_destroy(graph);
}

/* Legality */

static void expect(hal_graph *graph, uint32_t producer, uint32_t consumer, const uint64_t *tile, const char *reason)
{
    const hal_program *program = program_of(graph);
    char said[160] = "";
    const bool legal = hal_space_may_fuse(program, &program->steps[producer], &program->steps[consumer], 1024, tile,
                                          said, sizeof said);
    if (reason == NULL ? !legal : legal || strcmp(said, reason) != 0) {
        fail_msg("step %u on a tile of step %u: %s \"%s\", expected %s", consumer, producer,
                 legal ? "legal" : "refused", said, reason ? reason : "legal");
    }
}

static void activation_after_the_loop(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor a = input(graph, "x", HAL_BF16, HAL_DIMS(HAL_ROWS, 4096));
    const hal_tensor b = input(graph, "w", HAL_BF16, HAL_DIMS(4096, 4096));
    const hal_tensor c = hal_graph_gemm(graph, a, b, NULL);
    const hal_tensor d = hal_graph_activation(graph, c, HAL_ACT_SILU);
    hal_graph_add(graph, a, c);
    hal_graph_gemm(graph, d, b, NULL);
    expect(graph, 0, 1, (const uint64_t[6]){128, 128, 0}, NULL);
    expect(graph, 0, 1, (const uint64_t[6]){128, 128, 4096}, NULL);
    expect(graph, 0, 1, NULL, NULL);
    expect(graph, 0, 1, (const uint64_t[6]){128, 128, 32},
           "the sum over k is not complete inside its loop: a tile has 32 of 4096");
    expect(graph, 0, 2, (const uint64_t[6]){128, 128, 0}, NULL);
    /* Work moved past a loop: the next GEMM sums over all columns. */
    expect(graph, 1, 3, (const uint64_t[6]){128, 128},
           "the sum over k needs the whole row: a tile has 128 of 4096 columns");
    expect(graph, 1, 3, (const uint64_t[6]){128, 4095},
           "the sum over k needs the whole row: a tile has 4095 of 4096 columns");
    expect(graph, 1, 3, (const uint64_t[6]){128, 0}, NULL);
    expect(graph, 0, 3, NULL, "no tensor joins the two");
    hal_graph_destroy(graph);
}

static void scale_of_a_row(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor x = input(graph, "x", HAL_BF16, HAL_DIMS(HAL_ROWS, 4096));
    const hal_tensor w = input(graph, "w", HAL_BF16, HAL_DIMS(4096, 12288));
    const hal_tensor given = input(graph, "given", HAL_F32, HAL_DIMS(HAL_ROWS));
    const hal_tensor y = hal_graph_gemm(graph, x, w, NULL);
    hal_tensor scales;
    const hal_tensor codes = hal_graph_quantize(graph, y, HAL_NO_TENSOR, &scales);
    hal_graph_quantize(graph, y, given, NULL);
    hal_graph_dequantize(graph, codes, scales, HAL_F16);
    hal_graph_rmsnorm(graph, y, HAL_NO_TENSOR, 0);
    const uint64_t tile[6] = {128, 128, 0}, rows[6] = {128, 0, 0};
    expect(graph, 0, 1, tile, "the scale needs the whole row: a tile has 128 of 12288 columns");
    expect(graph, 0, 1, rows, NULL);
    expect(graph, 0, 2, tile, NULL); /* the scale is known */
    expect(graph, 1, 3, rows, NULL);
    expect(graph, 1, 3, (const uint64_t[6]){128, 64, 0},
           "the scale is not complete inside its loop: a tile has 64 of 12288");
    expect(graph, 0, 4, tile, "the mean of the squares needs the whole row: a tile has 128 of 12288 columns");
    hal_graph_destroy(graph);
}

static void softmax_statistics(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor q = input(graph, "q", HAL_F32, HAL_DIMS(HAL_ROWS, 128));
    const hal_tensor k = input(graph, "k", HAL_F32, HAL_DIMS(8192, 128)),
                     v = input(graph, "v", HAL_F32, HAL_DIMS(8192, 128));
    const hal_tensor s = hal_graph_gemm(graph, q, k, HAL_GRAPH_GEMM(.trans_b = true));
    const hal_tensor p = hal_graph_softmax(graph, s, 0.1f, HAL_NO_TENSOR);
    hal_graph_gemm(graph, p, v, NULL);
    const uint64_t tile[6] = {64, 64, 0};
    expect(graph, 0, 1, tile,
           "the greatest element and the sum of exponentials needs the whole row: a tile has 64 of 8192 columns");
    expect(graph, 0, 1, (const uint64_t[6]){64, 0, 0}, NULL);
    expect(graph, 1, 2, (const uint64_t[6]){64, 64, 0},
           "the greatest element and the sum of exponentials is not complete inside its loop: a tile has 64 of 8192");
    hal_graph_destroy(graph);
}

static void pairs_and_look_ups(void **state)
{
    (void)state;
    hal_graph *graph = new_graph();
    const hal_tensor x = input(graph, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 512)),
                     w = input(graph, "w", HAL_F16, HAL_DIMS(512, 512));
    const hal_tensor table = input(graph, "cos", HAL_F32, HAL_DIMS(64, 64));
    const hal_tensor ids = hal_graph_index_input(graph, "ids", 8, HAL_DIMS(HAL_ROWS));
    const hal_tensor y = hal_graph_gemm(graph, x, w, NULL);
    hal_graph_rope(graph, y, 4, table, table, HAL_NO_TENSOR);
    hal_graph_gather(graph, y, ids);
    hal_graph_transpose(graph, y, (const uint32_t[4]){0, 1});
    hal_graph_attention(graph, y, x, x, HAL_GRAPH_ATTENTION(.q_heads = 4));
    hal_graph_attention(graph, x, y, x, HAL_GRAPH_ATTENTION(.q_heads = 4));
    expect(graph, 0, 1, (const uint64_t[6]){64, 128}, NULL);
    expect(graph, 0, 1, (const uint64_t[6]){64, 96}, "a pair needs 128 columns together: a tile has 96");
    expect(graph, 0, 2, (const uint64_t[6]){64, 128},
           "rows are looked up by their ids: each may be any of the tensor's");
    expect(graph, 0, 3, (const uint64_t[6]){64, 32}, NULL);
    expect(graph, 0, 4, (const uint64_t[6]){64, 128}, NULL);
    expect(graph, 0, 4, (const uint64_t[6]){64, 64},
           "the product of query and key needs 128 columns together: a tile has 64");
    expect(graph, 0, 5, (const uint64_t[6]){64, 512},
           "the greatest score and the sum of exponentials needs the whole column: a tile has 64 of 1024 rows");
    hal_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_traffic),
        cmocka_unit_test(gemm_tiles_one_by_one),
        cmocka_unit_test(footprints_by_brute_force),
        cmocka_unit_test(footprint_is_bounded),
        cmocka_unit_test(heads_and_pairs),
        cmocka_unit_test(every_operator_touches_its_tensors),
        cmocka_unit_test(flops),
        cmocka_unit_test(fused_steps),
        cmocka_unit_test(activation_chain),
        cmocka_unit_test(attention_scans),
        cmocka_unit_test(activation_after_the_loop),
        cmocka_unit_test(scale_of_a_row),
        cmocka_unit_test(softmax_statistics),
        cmocka_unit_test(pairs_and_look_ups),
    };
    return cmocka_run_group_tests_name("space", tests, NULL, NULL);
}
