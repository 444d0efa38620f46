/* test_kernel_counters.c - what libhal's own CUDA kernels move and compute, each count by a formula. A kernel that is
 * changed so that it reads more, or meets bank conflicts, fails here. */
#include "builtin_attention.h"
#include "builtin_convert.h"
#include "builtin_gemm.h"
#include "builtin_plain.h"
#include "builtin_reduce.h"
#include "builtin_rows.h"
#include "kernel_attention.h"
#include "kernel_convert.h"
#include "kernel_rows.h"
#include "sim_test.h"
#include <stdlib.h>
#include <string.h>

typedef unsigned long long count;

static ptx_module *module_of(const char *file, const char *entry)
{
    char what[1024] = "", *text = kernel_text(file, entry);
    ptx_module *module = ptx_module_load(text, strlen(text), what, sizeof what);
    SIM_CHECK(module, "%s: %s", entry, what);
    free(text);
    return module;
}

/* Runs the kernel on one problem. */
static sim_counters count_of(const char *file, const char *entry, kernel_runner *run, const void *problem)
{
    char what[1024] = "";
    sim_counters counters = {0};
    ptx_module *module = module_of(file, entry);
    if (module) {
        kernel_result result =
            run(ptx_module_entry(module, entry), problem, &(sim_options){0}, &counters, what, sizeof what);
        SIM_CHECK(result == KERNEL_RIGHT, "%s: %s", entry, what);
    }
    ptx_module_free(module);
    return counters;
}

static sim_counters count_gemm(const char *file, const char *entry, const builtin_gemm *gemm)
{
    return count_of(file, entry, builtin_gemm_run, gemm);
}

static void expect(const char *where, const char *entry, const char *what, count got, count want)
{
    sim_test_check(where, got == want, "%s: %s: %llu, not %llu", entry, what, got, want);
}
#define EXPECT(entry, what, got, want) expect(SIM_HERE, entry, what, got, want)

static count groups(count size, count tile)
{
    return (size + tile - 1) / tile;
}

static count size_of(uint32_t dtype)
{
    return dtype == 0 ? 0 : dtype == HAL_KERNEL_F32 ? 4 : dtype == HAL_KERNEL_F8E4M3 ? 1 : 2;
}

static void expect_bytes(const char *where, const char *entry, const sim_counters *c, count read, count written)
{
    expect(where, entry, "bytes read", c->global_read_bytes, read);
    expect(where, entry, "bytes written", c->global_write_bytes, written);
}

/* Whole sectors only. */
static void expect_sectors(const char *where, const char *entry, const sim_counters *c)
{
    expect(where, entry, "sectors read", c->global_read_sectors, c->global_read_bytes / 32);
    expect(where, entry, "sectors written", c->global_write_sectors, c->global_write_bytes / 32);
    expect(where, entry, "bank conflicts", c->shared_conflicts, 0);
}

/* A tile of m x n reads its rows of A and its columns of B once, so that with e bytes an element all tiles read
 * e (M K ceil(N/n) + K N ceil(M/m)) and write e M N. Whole sectors: rows are multiples of 32 bytes. */
static void expect_tiles(const char *where, const char *entry, const builtin_gemm *g, const sim_counters *c)
{
    const count m = g->m, n = g->n, k = g->k, size = g->dtype == HAL_KERNEL_F32 ? 4 : 2,
                size_d = g->dtype_d == HAL_KERNEL_F32 ? 4 : 2;
    const count read = size * (m * k * groups(n, g->tile_n) + k * n * groups(m, g->tile_m)), written = size_d * m * n;
    expect(where, entry, "bytes read", c->global_read_bytes, read);
    expect(where, entry, "bytes written", c->global_write_bytes, written);
    expect(where, entry, "sectors read", c->global_read_sectors, read / 32);
    expect(where, entry, "sectors written", c->global_write_sectors, written / 32);
    expect(where, entry, "atomics", c->atomics, 0);
}

static const builtin_gemm tile_64 = {.dtype = HAL_KERNEL_F32,
                                     .dtype_d = HAL_KERNEL_F32,
                                     .tile_m = 64,
                                     .tile_n = 64,
                                     .threads = {16, 16},
                                     .m = 200,
                                     .n = 256,
                                     .k = 96};

/* FP32 tiles. A's elements are stored transposed, 16 of k by 2 rows a warp, in lines of 68 floats: bank
 * (4 k + row) mod 32 is the same for k and k + 8, so that each store of A takes one round more. Nothing else does. */
static void gemm_tile(void)
{
    const char *entry = "gemm__1_0_0_64_64_16_4_4";
    const builtin_gemm *g = &tile_64;
    const sim_counters c = count_gemm(KERNELS "gemm.ptx", entry, g);
    expect_tiles(SIM_HERE, entry, g, &c);
    const count tiles = groups(g->m, 64) * groups(g->n, 64), slices = groups(g->k, 16);
    EXPECT(entry, "bank conflicts", c.shared_conflicts, tiles * slices * 64 * 16 / 32);

    builtin_gemm large = *g;
    large.tile_m = large.tile_n = 128;
    const char *large_entry = "gemm__1_0_0_128_128_16_8_8";
    const sim_counters d = count_gemm(KERNELS "gemm.ptx", large_entry, &large);
    expect_tiles(SIM_HERE, large_entry, &large, &d);

    builtin_gemm half = *g;
    half.dtype = half.dtype_d = HAL_KERNEL_BF16;
    const char *half_entry = "gemm__3_0_0_64_64_16_4_4";
    const sim_counters e = count_gemm(KERNELS "gemm.ptx", half_entry, &half);
    expect_tiles(SIM_HERE, half_entry, &half, &e);
}

/* Tensor cores: what is copied by cp.async, and m n k / (16 8 16) products. The loop, whose share grows with k, and the
 * copies meet no bank conflict; neither does the epilogue. */
static void gemm_mma(void)
{
    const char *entry = "gemm_mma__3_0_0_128_128_32_64_32_3";
    builtin_gemm g = {.dtype = HAL_KERNEL_BF16,
                      .dtype_d = HAL_KERNEL_BF16,
                      .tile_m = 128,
                      .tile_n = 128,
                      .threads = {256, 1},
                      .dynamic_shared = GEMM_MMA_SHARED(128, 128, 32, 3),
                      .m = 128,
                      .n = 128,
                      .k = 64};
    sim_counters c = count_gemm(KERNELS "gemm_mma.ptx", entry, &g);
    expect_tiles(SIM_HERE, entry, &g, &c);
    EXPECT(entry, "mma.sync", c.mma, 512);
    EXPECT(entry, "m16n8k16", c.mma_by_shape[0].count, 512);
    SIM_CHECK(strncmp(c.mma_by_shape[0].shape, "m16n8k16", 8) == 0, "%s", c.mma_by_shape[0].shape);
    EXPECT(entry, "floating point operations", c.mma_flops, 2 * 128 * 128 * 64);
    EXPECT(entry, "bank conflicts", c.shared_conflicts, 0);
    EXPECT(entry, "wgmma", c.wgmma, 0);

    /* Edges are computed whole, but only what exists is read. */
    g.m = 200, g.n = 256, g.k = 112;
    c = count_gemm(KERNELS "gemm_mma.ptx", entry, &g);
    expect_tiles(SIM_HERE, entry, &g, &c);
    EXPECT(entry, "mma.sync", c.mma, 2 * 2 * groups(112, 32) * 256);
    EXPECT(entry, "bank conflicts", c.shared_conflicts, 0);

    /* Every arrangement of A and B. */
    static const char *const layouts[] = {"gemm_mma__3_0_1_128_128_32_64_32_3", "gemm_mma__3_0_1_64_64_32_32_32_3",
                                          "gemm_mma__3_0_0_64_64_32_32_32_3", "gemm_mma__3_0_0_128_256_32_64_64_4"};
    static const uint32_t tiles[][4] = {{128, 128, 256, 3}, {64, 64, 128, 3}, {64, 64, 128, 3}, {128, 256, 256, 4}};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) {
        builtin_gemm other = g;
        other.trans_b = i < 2;
        other.tile_m = tiles[i][0], other.tile_n = tiles[i][1], other.threads[0] = tiles[i][2];
        other.dynamic_shared = GEMM_MMA_SHARED(tiles[i][0], tiles[i][1], 32, tiles[i][3]);
        c = count_gemm(KERNELS "gemm_mma.ptx", layouts[i], &other);
        expect_tiles(SIM_HERE, layouts[i], &other, &c);
        EXPECT(layouts[i], "bank conflicts", c.shared_conflicts, 0);
    }
}

/* B once, whatever the rows; each of A's rows once for each tile of columns: 32 lanes in step, 4 k a sector. */
static void gemm_small(void)
{
    const char *entry = "gemm_small__1_0_2_32_256";
    const builtin_gemm g = {.dtype = HAL_KERNEL_F32,
                            .dtype_d = HAL_KERNEL_F32,
                            .tile_m = 2,
                            .tile_n = 32,
                            .threads = {256, 1},
                            .m = 2,
                            .n = 96,
                            .k = 512};
    const sim_counters c = count_gemm(KERNELS "gemm.ptx", entry, &g);
    /* A thread reads 16 bytes of B and, for those, one element of each of the m rows. */
    const count b = 4 * 512 * 96, a = b / 16 * 2 * 4;
    EXPECT(entry, "bytes read", c.global_read_bytes, b + a);
    EXPECT(entry, "sectors read", c.global_read_sectors, b / 32 + b / 512 * 2);
    EXPECT(entry, "bytes written", c.global_write_bytes, 4 * 2 * 96);
    EXPECT(entry, "sectors written", c.global_write_sectors, 4 * 2 * 96 / 32);
}

/* Tiles of 32 x 32, as above, an element at a time; each element of D reads its bias. */
static void gemm_any(void)
{
    static const builtin_plain_gemm problems[] = {
        {HAL_KERNEL_F32, HAL_KERNEL_F32, 0, 64, 96, 48},
        {HAL_KERNEL_BF16, HAL_KERNEL_BF16, HAL_KERNEL_F32, 33, 70, 50},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_plain_gemm *p = &problems[i];
        const char *entry = p->dtype == HAL_KERNEL_F32 ? "gemm_any__1_0_1" : "gemm_any__3_0_1";
        const sim_counters c = count_of(KERNELS "gemm_any.ptx", entry, builtin_gemm_any_run, p);
        const count m = p->m, n = p->n, k = p->k, tiles = m * k * groups(n, 32) + k * n * groups(m, 32);
        expect_bytes(SIM_HERE, entry, &c, size_of(p->dtype) * tiles + size_of(p->dtype_bias) * m * n,
                     size_of(p->dtype_d) * m * n);
    }
}

/* All parts once in, D once out. */
static void gemm_combine(void)
{
    static const builtin_plain_gemm problems[] = {
        {HAL_KERNEL_F32, HAL_KERNEL_F32, 0, 5, 608, 3},
        {HAL_KERNEL_F32, HAL_KERNEL_BF16, HAL_KERNEL_BF16, 3, 130, 4},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_plain_gemm *p = &problems[i];
        const sim_counters c = count_of(KERNELS "gemm_combine.ptx", "gemm_combine", builtin_gemm_combine_run, p);
        const count elements = (count)p->m * p->n;
        expect_bytes(SIM_HERE, "gemm_combine", &c, elements * (4 * p->k + size_of(p->dtype_bias)),
                     elements * size_of(p->dtype_d));
        if (i == 0) {
            expect_sectors(SIM_HERE, "gemm_combine", &c);
        }
    }
}

/* Each operand once. */
static void activation(void)
{
    static const builtin_activation problems[] = {
        {HAL_KERNEL_F32, 0, HAL_KERNEL_F32, 5, 1104, 0, 0, 0},
        {HAL_KERNEL_BF16, 0, HAL_KERNEL_F32, 5, 1104, 0, 0, 0},
        {HAL_KERNEL_BF16, HAL_KERNEL_F32, HAL_KERNEL_BF16, 5, 1104, 5, 1104, 16},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_activation *p = &problems[i];
        const sim_counters c = count_of(KERNELS "activation.ptx", "activation", builtin_activation_run, p);
        const count size_a = p->dtype_a == HAL_KERNEL_F32 ? 4 : 2, size_y = p->dtype_y == HAL_KERNEL_F32 ? 4 : 2,
                    size_b = p->dtype_b == HAL_KERNEL_F32 ? 4 : 0, elements = (count)p->rows * p->columns;
        EXPECT("activation", "bytes read", c.global_read_bytes, elements * (size_a + size_b));
        EXPECT("activation", "sectors read", c.global_read_sectors, elements * (size_a + size_b) / 32);
        EXPECT("activation", "bytes written", c.global_write_bytes, elements * size_y);
        EXPECT("activation", "sectors written", c.global_write_sectors, elements * size_y / 32);
        EXPECT("activation", "shared bytes", c.shared_read_bytes + c.shared_write_bytes, 0);
    }
}

/* Every element once in and once out, whole sectors, and no bank conflict whatever the width: the lines of the tile
 * have an odd number of words. */
static void transpose(void)
{
    static const builtin_transpose problems[] = {
        {4, 96, 160, 0, 0}, {2, 96, 160, 0, 0}, {1, 96, 160, 0, 0}, {4, 80, 48, 16, 48}};
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_transpose *p = &problems[i];
        const sim_counters c = count_of(KERNELS "transpose.ptx", "transpose", builtin_transpose_run, p);
        const count bytes = (count)p->rows * p->columns * p->width;
        EXPECT("transpose", "bytes read", c.global_read_bytes, bytes);
        EXPECT("transpose", "sectors read", c.global_read_sectors, bytes / 32);
        EXPECT("transpose", "bytes written", c.global_write_bytes, bytes);
        EXPECT("transpose", "sectors written", c.global_write_sectors, bytes / 32);
        EXPECT("transpose", "bank conflicts", c.shared_conflicts, 0);
    }
}

/* Every element once in and once out, from register to register, whatever the width. */
static void transpose_copy(void)
{
    static const builtin_copy problems[] = {
        {HAL_KERNEL_F32, 16, 40, 96, 32, 8, 5},    {HAL_KERNEL_F32, 8, 40, 96, 32, 8, 6},
        {HAL_KERNEL_F32, 4, 40, 96, 32, 8, 7},     {HAL_KERNEL_BF16, 2, 40, 96, 32, 16, 10},
        {HAL_KERNEL_F8E4M3, 1, 40, 96, 32, 32, 5},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_copy *p = &problems[i];
        const sim_counters c = count_of(KERNELS "transpose.ptx", "transpose_copy", builtin_copy_run, p);
        const count bytes = (count)p->rows * p->columns * size_of(p->dtype);
        expect_bytes(SIM_HERE, "transpose_copy", &c, bytes, bytes);
        expect_sectors(SIM_HERE, "transpose_copy", &c);
        EXPECT("transpose_copy", "shared bytes", c.shared_read_bytes + c.shared_write_bytes, 0);
    }
}

/* --- rows that are reduced --- */

/* A row that fits on chip: x, the residual and the weight once in; y and the new residual once out. Else x and the
 * residual come once for the mean, once for the greatest magnitude if the row is quantised, and once for y; the weight
 * as often but for the mean. A block takes the last row for those that it has too many. A scale for each quantised
 * row. */
static void rmsnorm(void)
{
    enum { F32 = HAL_KERNEL_F32, BF16 = HAL_KERNEL_BF16, F8 = HAL_KERNEL_F8E4M3 };
    static const builtin_rmsnorm problems[] = {
        {F32, F32, F32, 3, 1024, 0, {256, 1, 1}, false, false},
        {BF16, BF16, BF16, 3, 4096, 0, {256, 1, 4}, false, false},
        {BF16, BF16, BF16, 2, 5120, 32, {256, 1, 8}, true, false},
        {BF16, 0, BF16, 11, 128, 0, {32, 8, 1}, true, false},
        {BF16, F32, F8, 2, 4096, 0, {256, 1, 4}, true, false},
        {F32, F32, F32, 2, 9216, 0, {256, 1, 0}, true, false},
        {BF16, BF16, F8, 2, 9216, 0, {256, 1, 0}, false, false},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_rmsnorm *p = &problems[i];
        const sim_counters c = count_of(KERNELS "rmsnorm.ptx", "rmsnorm", builtin_rmsnorm_run, p);
        const bool quantised = p->dtype_y == F8;
        const count rows = groups(p->rows, p->shape.rows) * p->shape.rows, times = p->shape.keep ? 1 : 2 + quantised;
        const count x = size_of(p->dtype) * (p->residual ? 2 : 1), y = size_of(p->dtype_y),
                    sum = p->residual ? size_of(p->dtype) : 0, weight = size_of(p->dtype_weight);
        const count read = rows * p->columns * (x * times + weight * (times > 1 ? times - 1 : 1));
        expect_bytes(SIM_HERE, "rmsnorm", &c, read, (count)p->rows * (p->columns * (y + sum) + (quantised ? 4 : 0)));
        if (!quantised) {
            expect_sectors(SIM_HERE, "rmsnorm", &c);
        }
    }
}

/* Parts of a row: each of the RMSNORM_PARTS blocks reads its share, and all partial sums, in each phase but the first.
 * Sums and greatest magnitudes of parts go through memory. */
static void rmsnorm_in_parts(void)
{
    static const builtin_rmsnorm problem = {.dtype = HAL_KERNEL_BF16,
                                            .dtype_weight = HAL_KERNEL_BF16,
                                            .dtype_y = HAL_KERNEL_BF16,
                                            .rows = 2,
                                            .columns = 32768,
                                            .shape = {256, 1, 0},
                                            .parts = true};
    const sim_counters c = count_of(KERNELS "rmsnorm.ptx", "rmsnorm", builtin_rmsnorm_run, &problem);
    const count elements = 2 * 32768, sums = 2 * 4 * ROW_SUMS;
    expect_bytes(SIM_HERE, "rmsnorm", &c, 2 * (2 * elements + elements) + RMSNORM_PARTS * sums, 2 * elements + sums);
}

/* A row that fits on chip once in and once out. Else twice: maximum and sum take one pass where it is online, else one
 * each; y is the last. The mask comes with x. */
static void softmax(void)
{
    enum { F32 = HAL_KERNEL_F32, BF16 = HAL_KERNEL_BF16 };
    static const builtin_softmax problems[] = {
        {F32, 0, F32, 3, 1024, 0, {256, 1, 1}, false, false},
        {F32, BF16, BF16, 2, 4096, 16, {256, 1, 4}, false, false},
        {BF16, 0, F32, 11, 128, 0, {32, 8, 1}, true, false},
        {F32, 0, F32, 2, 9216, 0, {256, 1, 0}, false, true},
        {F32, F32, F32, 2, 9216, 0, {256, 1, 0}, false, false},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_softmax *p = &problems[i];
        const sim_counters c = count_of(KERNELS "softmax.ptx", "softmax", builtin_softmax_run, p);
        const count rows = groups(p->rows, p->shape.rows) * p->shape.rows, times = p->shape.keep ? 1 : 3 - p->online;
        expect_bytes(SIM_HERE, "softmax", &c, rows * p->columns * times * (size_of(p->dtype) + size_of(p->dtype_mask)),
                     (count)p->rows * p->columns * size_of(p->dtype_y));
        expect_sectors(SIM_HERE, "softmax", &c);
    }
}

/* --- attention --- */

/* Rows of a tile see its last row's keys, in blocks of ATTENTION_KEYS: so many of them are read for the tile. */
static count keys_of_tile(const builtin_attention *p, count tile, count tile_rows)
{
    const count ratio = p->q_heads / p->kv_heads, rows = p->q_length * ratio, end = (tile + 1) * tile_rows;
    const count last = (end < rows ? end : rows) - 1;
    const bool causal = p->options & ATTENTION_BOTTOM_RIGHT;
    const count visible = causal ? last / ratio + p->kv_length - p->q_length + 1 : p->kv_length;
    const count read = groups(visible, ATTENTION_KEYS) * ATTENTION_KEYS;
    return read < p->kv_length ? read : p->kv_length;
}

/* Every tile of rows scans its keys and values once: with S scans of L keys, 2 S L d elements where both have d
 * dimensions. attention_mma reads q once; attention reads a tile's q for each of its blocks of keys. o is written once.
 * Where keys are split, each split has an o of its own in FP32, its greatest score and its sum. */
static void expect_attention(const char *where, const char *entry, const builtin_attention *p, const sim_counters *c)
{
    const count size = size_of(p->dtype), tile_rows = p->room ? 64 : 16, heads = (count)p->batch * p->kv_heads;
    const count rows = (count)p->q_length * (p->q_heads / p->kv_heads);
    count kv = 0, q = 0, mma = 0;
    for (count tile = 0; tile < groups(rows, tile_rows); tile++) {
        const count keys = keys_of_tile(p, tile, tile_rows), blocks = groups(keys, ATTENTION_KEYS);
        const count tile_end = (tile + 1) * tile_rows, here = (tile_end < rows ? tile_end : rows) - tile * tile_rows;
        kv += keys * (p->head_dim + p->value_dim) * size;
        q += here * p->head_dim * size * (p->room ? p->splits : blocks);
        mma += blocks * (4 * 2 * 2 * p->room / 16 * ATTENTION_KEYS / 16); /* 4 warps, q k and weights v */
    }
    const count outputs = heads * rows, lse = p->options & ATTENTION_HAS_LSE ? 4 : 0;
    const count written = p->splits > 1 ? outputs * p->splits * (p->value_dim + 2) * 4
                                        : outputs * (p->value_dim * size_of(p->dtype_o) + lse);
    expect(where, entry, "bytes read", c->global_read_bytes, heads * (kv + q));
    expect(where, entry, "bytes written", c->global_write_bytes, written);
    expect(where, entry, "sectors read", c->global_read_sectors, c->global_read_bytes / 32);
    expect(where, entry, "mma.sync", c->mma, heads * mma);
    expect(where, entry, "bank conflicts", c->shared_conflicts, 0);
}

static void attention(void)
{
    static const builtin_attention base = {.dtype = HAL_KERNEL_F32,
                                           .dtype_o = HAL_KERNEL_F32,
                                           .batch = 2,
                                           .q_heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 64,
                                           .value_dim = 32,
                                           .q_length = 21,
                                           .kv_length = 141,
                                           .splits = 1};
    static const uint32_t options[] = {0, ATTENTION_BOTTOM_RIGHT | ATTENTION_HAS_LSE, 0};
    for (uint32_t i = 0; i < 3; i++) {
        builtin_attention p = base;
        p.options = options[i];
        p.splits = i == 2 ? 3 : 1;
        const sim_counters c = count_of(KERNELS "attention.ptx", "attention", builtin_attention_run, &p);
        expect_attention(SIM_HERE, "attention", &p, &c);
        p.dtype = p.dtype_o = HAL_KERNEL_BF16;
        p.room = 64;
        p.q_length = 75;
        const char *entry = "attention_mma__3_64";
        const sim_counters d = count_of(KERNELS "attention_mma.ptx", entry, builtin_attention_run, &p);
        expect_attention(SIM_HERE, entry, &p, &d);
    }
    const char *wide = "attention_mma__3_128";
    builtin_attention p = base;
    p.dtype = p.dtype_o = HAL_KERNEL_BF16;
    p.room = p.head_dim = p.value_dim = 128;
    const sim_counters c = count_of(KERNELS "attention_mma.ptx", wide, builtin_attention_run, &p);
    expect_attention(SIM_HERE, wide, &p, &c);
}

/* A row's parts: each thread of 128 reads the greatest scores, and for each column that, the sum and the column. */
static void attention_combine(void)
{
    static const builtin_attention p = {.dtype = HAL_KERNEL_F32,
                                        .dtype_o = HAL_KERNEL_F32,
                                        .batch = 2,
                                        .q_heads = 3,
                                        .kv_heads = 3,
                                        .head_dim = 32,
                                        .value_dim = 64,
                                        .q_length = 5,
                                        .kv_length = 256,
                                        .splits = 4};
    const sim_counters c =
        count_of(KERNELS "attention_combine.ptx", "attention_combine", builtin_attention_combine_run, &p);
    const count rows = 2 * 3 * 5;
    expect_bytes(SIM_HERE, "attention_combine", &c, rows * 4 * 4 * (128 + 3 * 64), rows * 64 * 4);
    EXPECT("attention_combine", "sectors written", c.global_write_sectors, rows * 64 * 4 / 32);
}

/* For each score a row of q and one of k; weights need all scores of their row three times. */
static void attention_scores(void)
{
    static const builtin_scores problems[] = {
        {HAL_KERNEL_F32, HAL_KERNEL_F32, 2, 4, 2, 24, 3, 70, false},
        {HAL_KERNEL_BF16, HAL_KERNEL_F32, 2, 2, 2, 32, 5, 130, true},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_scores *p = &problems[i];
        const sim_counters c = count_of(KERNELS "attention_scores.ptx", "attention_scores", builtin_scores_run, p);
        const count scores = (count)p->batch * p->q_heads * p->q_length * p->kv_length;
        expect_bytes(SIM_HERE, "attention_scores", &c,
                     scores * p->head_dim * 2 * size_of(p->dtype) * (p->weights ? 3 : 1), scores * size_of(p->dtype_o));
    }
}

/* --- conversions --- */

/* x once in, y once out; quantize_row needs x once more, for the scale, and writes that. A thread reads its scale, or
 * those of its four columns. */
static void quantize(void)
{
    enum { F32 = HAL_KERNEL_F32, BF16 = HAL_KERNEL_BF16, F8 = HAL_KERNEL_F8E4M3 };
    static const builtin_quantize problems[] = {
        {F32, BF16, QUANTIZE_CAST, 0, 3, 1056, 32},
        {BF16, F32, QUANTIZE_CAST, 0, 3, 1056, 0},
        {BF16, F8, QUANTIZE_CAST_NAN, 0, 3, 1056, 0},
        {BF16, F8, QUANTIZE_CODES, QUANTIZE_PER_ROW, 3, 1056, 0},
        {BF16, F8, QUANTIZE_CODES, QUANTIZE_PER_COLUMN, 3, 1056, 0},
        {F8, BF16, QUANTIZE_VALUES, QUANTIZE_PER_TENSOR, 3, 1056, 0},
        {BF16, F8, QUANTIZE_CODES, 0, 3, 2080, 0},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_quantize *p = &problems[i];
        const bool scaled = p->op >= QUANTIZE_CODES, by_row = scaled && !p->scaling;
        const char *entry = by_row ? "quantize_row" : "quantize";
        const sim_counters c = count_of(KERNELS "quantize.ptx", entry, builtin_quantize_run, p);
        const count elements = (count)p->rows * p->columns;
        const count scales = by_row || !scaled ? 0 : p->scaling == QUANTIZE_PER_COLUMN ? 4 * elements : elements;
        expect_bytes(SIM_HERE, entry, &c, elements * size_of(p->dtype) * (by_row ? 2 : 1) + scales,
                     elements * size_of(p->dtype_y) + (by_row ? 4 * p->rows : 0));
        if (!scaled) {
            expect_sectors(SIM_HERE, entry, &c);
        }
    }
}

/* x once in, y once out, and a cosine and a sine for each pair; a thread reads its position, if there are any. */
static void rope(void)
{
    static const builtin_rope problems[] = {
        {HAL_KERNEL_F32, 3, 4, 64, 64, 0, 2, false, false},
        {HAL_KERNEL_BF16, 3, 5, 128, 64, 16, 4, true, false},
        {HAL_KERNEL_BF16, 3, 4, 64, 64, 0, 4, true, true},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_rope *p = &problems[i];
        const sim_counters c = count_of(KERNELS "rope.ptx", "rope", builtin_rope_run, p);
        const count heads = (count)p->tokens * p->heads, x = heads * p->head_dim * size_of(p->dtype);
        const count blocks = p->tokens * groups(p->heads, p->heads_a_group);
        const count ids = p->ids ? blocks * 256 * 4 : 0;
        expect_bytes(SIM_HERE, "rope", &c, x + heads * p->rotary_dim / 2 * 8 + ids, x);
    }
}

/* Each row once out, and once in if the table has it; a thread reads the id for its four columns. */
static void gather(void)
{
    static const builtin_gather problems[] = {
        {HAL_KERNEL_BF16, HAL_KERNEL_BF16, 5, 1056, 7, 0, false},
        {HAL_KERNEL_F32, HAL_KERNEL_BF16, 5, 1056, 7, 16, true},
    };
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_gather *p = &problems[i];
        const sim_counters c = count_of(KERNELS "gather.ptx", "gather", builtin_gather_run, p);
        const count found = p->count - 1, ids = (count)p->count * p->columns / 4 * (p->int64 ? 8 : 4);
        expect_bytes(SIM_HERE, "gather", &c, found * p->columns * size_of(p->dtype) + ids,
                     (count)p->count * p->columns * size_of(p->dtype_y));
        EXPECT("gather", "sectors written", c.global_write_sectors, c.global_write_bytes / 32);
    }
}

int main(int argc, char **argv)
{
    static const sim_group groups_of_tests[] = {{"gemm_tile", gemm_tile},
                                                {"gemm_mma", gemm_mma},
                                                {"gemm_small", gemm_small},
                                                {"gemm_any", gemm_any},
                                                {"gemm_combine", gemm_combine},
                                                {"activation", activation},
                                                {"transpose", transpose},
                                                {"transpose_copy", transpose_copy},
                                                {"rmsnorm", rmsnorm},
                                                {"rmsnorm_in_parts", rmsnorm_in_parts},
                                                {"softmax", softmax},
                                                {"attention", attention},
                                                {"attention_combine", attention_combine},
                                                {"attention_scores", attention_scores},
                                                {"quantize", quantize},
                                                {"rope", rope},
                                                {"gather", gather}};
    return SIM_MAIN("kernel_counters", groups_of_tests);
}
