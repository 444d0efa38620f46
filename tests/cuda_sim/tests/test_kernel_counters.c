/* test_kernel_counters.c - what libhal's own CUDA kernels move and compute, each count by a formula. A kernel that is
 * changed so that it reads more, or meets bank conflicts, fails here. */
#include "builtin_gemm.h"
#include "builtin_rows.h"
#include "kernel_abi.h"
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

static sim_counters count_gemm(const char *file, const char *entry, const builtin_gemm *gemm)
{
    char what[1024] = "";
    sim_counters counters = {0};
    ptx_module *module = module_of(file, entry);
    if (module) {
        kernel_result result =
            builtin_gemm_count(ptx_module_entry(module, entry), gemm, &(sim_options){0}, &counters, what, sizeof what);
        SIM_CHECK(result == KERNEL_RIGHT, "%s: %s", entry, what);
    }
    ptx_module_free(module);
    return counters;
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

/* Each operand once. */
static void activation(void)
{
    static const builtin_activation problems[] = {
        {HAL_KERNEL_F32, 0, HAL_KERNEL_F32, 5, 1104, 0, 0, 0},
        {HAL_KERNEL_BF16, 0, HAL_KERNEL_F32, 5, 1104, 0, 0, 0},
        {HAL_KERNEL_BF16, HAL_KERNEL_F32, HAL_KERNEL_BF16, 5, 1104, 5, 1104, 16},
    };
    ptx_module *module = module_of(KERNELS "activation.ptx", "activation");
    for (size_t i = 0; module && i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_activation *p = &problems[i];
        char what[1024] = "";
        sim_counters c = {0};
        kernel_result result = builtin_activation_count(ptx_module_entry(module, "activation"), p, &(sim_options){0},
                                                        &c, what, sizeof what);
        SIM_CHECK(result == KERNEL_RIGHT, "activation: %s", what);
        const count size_a = p->dtype_a == HAL_KERNEL_F32 ? 4 : 2, size_y = p->dtype_y == HAL_KERNEL_F32 ? 4 : 2,
                    size_b = p->dtype_b == HAL_KERNEL_F32 ? 4 : 0, elements = (count)p->rows * p->columns;
        EXPECT("activation", "bytes read", c.global_read_bytes, elements * (size_a + size_b));
        EXPECT("activation", "sectors read", c.global_read_sectors, elements * (size_a + size_b) / 32);
        EXPECT("activation", "bytes written", c.global_write_bytes, elements * size_y);
        EXPECT("activation", "sectors written", c.global_write_sectors, elements * size_y / 32);
        EXPECT("activation", "shared bytes", c.shared_read_bytes + c.shared_write_bytes, 0);
    }
    ptx_module_free(module);
}

/* Every element once in and once out, whole sectors, and no bank conflict whatever the width: the lines of the tile
 * have an odd number of words. */
static void transpose(void)
{
    static const builtin_transpose problems[] = {
        {4, 96, 160, 0, 0}, {2, 96, 160, 0, 0}, {1, 96, 160, 0, 0}, {4, 80, 48, 16, 48}};
    ptx_module *module = module_of(KERNELS "transpose.ptx", "transpose");
    for (size_t i = 0; module && i < sizeof problems / sizeof problems[0]; i++) {
        const builtin_transpose *p = &problems[i];
        char what[1024] = "";
        sim_counters c = {0};
        kernel_result result =
            builtin_transpose_count(ptx_module_entry(module, "transpose"), p, &(sim_options){0}, &c, what, sizeof what);
        SIM_CHECK(result == KERNEL_RIGHT, "transpose: %s", what);
        const count bytes = (count)p->rows * p->columns * p->width;
        EXPECT("transpose", "bytes read", c.global_read_bytes, bytes);
        EXPECT("transpose", "sectors read", c.global_read_sectors, bytes / 32);
        EXPECT("transpose", "bytes written", c.global_write_bytes, bytes);
        EXPECT("transpose", "sectors written", c.global_write_sectors, bytes / 32);
        EXPECT("transpose", "bank conflicts", c.shared_conflicts, 0);
    }
    ptx_module_free(module);
}

int main(int argc, char **argv)
{
    static const sim_group groups_of_tests[] = {{"gemm_tile", gemm_tile},
                                                {"gemm_mma", gemm_mma},
                                                {"gemm_small", gemm_small},
                                                {"activation", activation},
                                                {"transpose", transpose}};
    return SIM_MAIN("kernel_counters", groups_of_tests);
}
