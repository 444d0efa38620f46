/* test_gemm_mma_any.c - kernels_cu/gemm_mma_any.cu is right under every timing, each of its mutants is not, and what it
 * moves and multiplies is known. */
#include "builtin_options.h"
#include "kernel_abi.h"
#include "mutate.h"
#include "sim_test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long count;

#define FILE_NAME KERNELS "gemm_mma_any.ptx"
#define NAME      "gemm_mma_any__"
#define WIDE      "_128_128_32_64_32_4"
#define SMALL     "_64_64_32_32_32_4"
enum { F32 = HAL_KERNEL_F32, BF16 = HAL_KERNEL_BF16, CODES = HAL_KERNEL_F8E4M3 };

static void expect(const char *entry, const char *what, count got, count want)
{
    SIM_CHECK(got == want, "%s: %s: %llu, not %llu", entry, what, got, want);
}

static count groups(count size, count tile)
{
    return (size + tile - 1) / tile;
}

/* A tile reads its rows of A and its columns of B once, and multiplies whole slices of 32. Each element of D needs the
 * scale of its column, and each four of a row the row's. No access to shared memory meets a bank conflict. */
static void expect_counts(const char *entry, const builtin_options *p, const sim_counters *c)
{
    const count m = p->m, n = p->n, k = p->k, sums = p->up || p->interleaved ? 2 : 1, size = p->dtype == CODES ? 1 : 2;
    const count rows = groups(m, p->tile), columns = groups(n * sums, p->tile), fours = m * n / 4;
    const count tiles = rows * columns, size_d = p->dtype_d == F32 ? 4 : p->dtype_d == BF16 ? 2 : 1;
    const count scales = !p->scaled ? 0 : 4 * sums * (m * n + fours) + (p->dtype_d == CODES ? 4 * fours : 0);
    const count mma = tiles * groups(k, 32) * p->tile / 16 * p->tile / 8 * 2;
    expect(entry, "bytes read", c->global_read_bytes, size * (m * k * columns + k * n * sums * rows) + scales);
    expect(entry, "bytes written", c->global_write_bytes, size_d * m * n);
    expect(entry, "mma.sync", c->mma, mma);
    expect(entry, "m16n8k16", c->mma_by_shape[0].count, mma);
    expect(entry, "floating point operations", c->mma_flops, mma * 2 * 16 * 8 * 16);
    expect(entry, "bank conflicts", c->shared_conflicts, 0);
    expect(entry, "atomics", c->atomics, 0);
    if (!scales) {
        expect(entry, "sectors read", c->global_read_sectors, c->global_read_bytes / 32);
    }
    if (!p->trans_d) {
        expect(entry, "sectors written", c->global_write_sectors, c->global_write_bytes / 32);
    }
}

static void counters(void)
{
    static const struct {
        const char *entry;
        builtin_options problem;
    } cases[] = {
        {"4_0_0" WIDE, {CODES, F32, 128, 128, 128, 64}},
        {"4_0_0" WIDE, {CODES, CODES, 128, 192, 256, 224, .scaled = true}},
        {"4_0_1" WIDE, {CODES, BF16, 128, 64, 160, 96, .trans_b = true, .scaled = true}},
        {"4_1_0" SMALL, {CODES, F32, 64, 64, 96, 160, .trans_a = true}},
        {"4_1_1" SMALL, {CODES, BF16, 64, 96, 64, 32, .trans_a = true, .trans_b = true, .trans_d = true}},
        {"4_0_1" SMALL, {CODES, BF16, 64, 64, 96, 64, .trans_b = true, .scaled = true, .up = true}},
        {"3_0_0" WIDE, {BF16, CODES, 128, 192, 256, 112, .scaled = true}},
        {"3_0_1" SMALL, {BF16, BF16, 64, 64, 96, 64, .trans_b = true, .trans_d = true}},
        {"3_0_1" WIDE, {BF16, BF16, 128, 192, 96, 64, .trans_b = true, .up = true}},
        {"3_1_0" SMALL, {BF16, F32, 64, 64, 96, 96, .trans_a = true, .up = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char entry[64], what[1024] = "";
        snprintf(entry, sizeof entry, NAME "%s", cases[i].entry);
        char *text = kernel_text(FILE_NAME, entry);
        sim_counters c = {0};
        ptx_module *module = ptx_module_load(text, strlen(text), what, sizeof what);
        free(text);
        SIM_CHECK(module && builtin_options_run(ptx_module_entry(module, entry), &cases[i].problem, &(sim_options){0},
                                                &c, what, sizeof what) == KERNEL_RIGHT,
                  "%s: %s", entry, what);
        ptx_module_free(module);
        expect_counts(entry, &cases[i].problem, &c);
    }
}

/* Four slices of k, the last of 20; parts of tiles and of 16 codes. */
static const builtin_options of_codes = {.dtype = CODES,
                                         .dtype_d = F32,
                                         .tile = 64,
                                         .m = 100,
                                         .n = 84,
                                         .k = 116,
                                         .pad_a = 12,
                                         .pad_b = 12,
                                         .pad_d = 4,
                                         .scaled = true};

#define LOOP     "bar.sync"
#define EPILOGUE "st.shared.v2"

static void mutants_of_codes(void)
{
    static const mutant list[] = {
        {"no wait for codes", "cp.async.wait_group", MUTANT_ALL, MUTANT_DROP},
        {"wait_group 3 in the loop", "cp.async.wait_group", 1, MUTANT_REPLACE, "2;", "3;"},
        {"no bar.sync in the loop", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync before the epilogue", "bar.sync", 1, MUTANT_DROP},
        {"no commit in the loop", "cp.async.commit_group", 1, MUTANT_DROP},
        {"A's codes are not copied", "cp.async.cg", 0, MUTANT_DROP},
        {"B's codes are not copied in the loop", "cp.async.cg", 3, MUTANT_DROP},
        {"16 bytes whatever is left of A", "cp.async.cg", 2, MUTANT_LAST_OPERAND, NULL, "16"},
        {"16 bytes whatever is left of B", "cp.async.cg", 3, MUTANT_LAST_OPERAND, NULL, "16"},
        {"8 bytes of each 16", "cp.async.cg", 0, MUTANT_LAST_OPERAND, NULL, "8"},
        {"two slices are fetched ahead", "setp.ne.s32", 0, MUTANT_LAST_OPERAND, NULL, "2", ", 3;",
         .from = "cp.async.commit_group", .until = LOOP},
        {"a slice too many is fetched", "setp.ge.u32", 0, MUTANT_REPLACE, "ge", "gt", .from = LOOP},
        {"the ring is a stage short", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "24576", ", 28672;", .from = LOOP},
        {"stages overlap", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "2048", ", 4096;", .from = LOOP,
         .until = "ldmatrix"},

        {"sign is lost", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", "-2147450880;", .from = LOOP},
        {"codes in another order", "mov.u32", 0, MUTANT_LAST_OPERAND, NULL, "13348", "5124;", .from = LOOP},
        {"codes are not moved down", "shr.u32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = "mma.sync"},
        {"exponents are cut off", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "1061109567", "2139062143;", .from = LOOP},
        {"every code is made NaN", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "-1", "-2139062144;", .from = LOOP},
        {"half of A's are not kept", "st.shared.v4", 1, MUTANT_DROP, .from = "mma.sync"},
        {"words of B swapped", "st.shared.v4", 2, MUTANT_SWAP, "", .from = "mma.sync"},
        {"other permutation of A's chunks", "xor.b32", 0, MUTANT_REPLACE, "xor", "or"},
        {"other permutation of B's chunks", "xor.b32", 2, MUTANT_REPLACE, "xor", "or"},

        {"A is loaded transposed", "ldmatrix", 0, MUTANT_REPLACE, "x4.shared", "x4.trans.shared"},
        {"A's fragment swapped in one product", "mma.sync", 3, MUTANT_SWAP, "{"},
        {"a product is missing", "mma.sync", 5, MUTANT_DROP},
        {"a pair of sums is not kept", "st.shared.v2", 3, MUTANT_DROP},
        {"no bar.warp.sync behind the sums", "bar.warp.sync", 0, MUTANT_DROP},
        {"other permutation of sums", "xor.b32", 0, MUTANT_REPLACE, "xor", "or", .from = EPILOGUE},
        {"no scale of a row", "mul.rn.f32", 1, MUTANT_DROP, .from = EPILOGUE},
        {"no scale of a column", "mul.rn.f32", 2, MUTANT_DROP, .from = EPILOGUE},
        {"a row too many is stored", "setp.le.u32", 0, MUTANT_REPLACE, "le", "lt", .from = EPILOGUE},
    };
    kernel_checked(FILE_NAME, NAME "4_0_0" SMALL, builtin_options_run, &of_codes, list, sizeof list / sizeof list[0]);
}

/* Rows that start anywhere, SwiGLU by two matrices, D transposed. */
static void mutants_of_bytes(void)
{
    static const mutant list[] = {
        {"no bar.sync in the loop", "bar.sync", 0, MUTANT_DROP},
        {"no test of the first code", "@%p", MUTANT_LAST, MUTANT_DROP, .until = "ld.global.u8"},
        {"words swapped", "st.shared.v4", 0, MUTANT_SWAP, ""},
        {"A's words are not kept", "st.shared.v4", 0, MUTANT_DROP, .from = LOOP},
        {"B's words are not kept", "st.shared.v4", 1, MUTANT_DROP, .from = LOOP},
    };
    builtin_options problem = of_codes;
    problem.trans_b = problem.trans_d = problem.up = true;
    problem.pad_a = problem.pad_b = 1;
    kernel_checked(FILE_NAME, NAME "4_0_1" SMALL, builtin_options_run, &problem, list, sizeof list / sizeof list[0]);
}

/* Every layout, type and tile, at edges and at no edge. */
static void right_numbers(void)
{
    static const struct {
        const char *entry;
        builtin_options problem;
    } cases[] = {
        {"4_0_0" WIDE, {CODES, CODES, 128, 130, 129, 33, .pad_a = 3, .trans_d = true, .scaled = true}},
        {"4_0_1" WIDE, {CODES, BF16, 128, 64, 70, 100, .trans_b = true, .up = true, .pad_d = 3}},
        {"4_1_0" WIDE, {CODES, F32, 128, 100, 70, 50, 12, 12, .trans_a = true, .interleaved = true, .scaled = true}},
        {"4_1_1" WIDE, {CODES, F32, 128, 17, 9, 200, 1, 8, 1, .trans_a = true, .trans_b = true, .interleaved = true}},
        {"4_0_0" SMALL, {CODES, F32, 64, 65, 33, 31, .interleaved = true, .trans_d = true}},
        {"4_1_0" SMALL, {CODES, F32, 64, 63, 66, 127, 1, 14, 2, .trans_a = true, .up = true}},
        {"4_1_1" SMALL, {CODES, BF16, 64, 1, 1, 1, .trans_a = true, .trans_b = true, .scaled = true}},
        {"3_0_0" WIDE, {BF16, CODES, 128, 130, 129, 33, .pad_a = 3, .trans_d = true, .scaled = true}},
        {"3_0_0" WIDE, {BF16, F32, 128, 130, 70, 50, 6, 2, 1, .up = true, .scaled = true}},
        {"3_0_0" SMALL, {BF16, F32, 64, 65, 33, 31, 1, 6, .interleaved = true, .scaled = true}},
        {"3_0_1" WIDE, {BF16, F32, 128, 33, 130, 72, .trans_b = true, .up = true, .trans_d = true}},
        {"3_1_1" SMALL, {BF16, F32, 64, 65, 70, 99, 7, 5, .trans_a = true, .trans_b = true, .interleaved = true}},
        {"3_1_1" SMALL, {BF16, BF16, 64, 65, 70, 100, 7, 4, 1, .trans_a = true, .trans_b = true, .scaled = true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char entry[64];
        snprintf(entry, sizeof entry, NAME "%s", cases[i].entry);
        kernel_checked(FILE_NAME, entry, builtin_options_run, &cases[i].problem, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    static const sim_group all[] = {{"right_numbers", right_numbers},
                                    {"mutants_of_codes", mutants_of_codes},
                                    {"mutants_of_bytes", mutants_of_bytes},
                                    {"counters", counters}};
    return SIM_MAIN("gemm_mma_any", all);
}
