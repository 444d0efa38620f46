/* test_gemm_async.c - kernels_cu/gemm_async.cu is right under every timing, each of its mutants is not, and what it
 * moves and computes is what a formula says. */
#include "builtin_gemm.h"
#include "kernel_abi.h"
#include "mutate.h"
#include "sim_test.h"
#include <stdlib.h>
#include <string.h>

typedef unsigned long long count;

#define FILE_NAME  KERNELS "gemm_async.ptx"
#define ENTRY_256  "gemm_async__3_0_0_128_256_64_4"
#define ENTRY_128  "gemm_async__3_1_1_128_128_64_6"
#define WIDE(n, s) .tile_m = 128, .tile_n = (n), .threads = {384, 1}, .dynamic_shared = GEMM_ASYNC_SHARED(128, n, 64, s)

static void right_numbers(void)
{
    static const struct {
        const char *entry;
        builtin_gemm gemm;
    } cases[] = {
        {"gemm_async__3_0_0_128_256_64_4", {3, 1, 0, 0, WIDE(256, 4), .m = 128, .n = 256, .k = 64}},
        {"gemm_async__3_0_1_128_256_64_4", {3, 3, 0, 1, WIDE(256, 4), .m = 200, .n = 264, .k = 392}},
        {"gemm_async__3_1_0_128_256_64_4", {3, 1, 1, 0, WIDE(256, 4), .m = 129, .n = 100, .k = 200, .pad_b = 4}},
        {"gemm_async__3_1_1_128_256_64_4", {3, 1, 1, 1, WIDE(256, 4), .m = 72, .n = 257, .k = 8, .pad_a = 1}},
        {"gemm_async__3_0_0_128_128_64_6", {3, 1, 0, 0, WIDE(128, 6), .m = 5, .n = 129, .k = 77, .pad_d = 3}},
        {"gemm_async__3_0_1_128_128_64_6", {3, 3, 0, 1, WIDE(128, 6), .m = 256, .n = 128, .k = 512}},
        {"gemm_async__3_1_0_128_128_64_6", {3, 1, 1, 0, WIDE(128, 6), .m = 136, .n = 64, .k = 456}},
        {"gemm_async__3_1_1_128_128_64_6", {3, 1, 1, 1, WIDE(128, 6), .m = 100, .n = 84, .k = 450, .pad_a = 4}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char *text = kernel_text(FILE_NAME, cases[c].entry);
        kernel_right(&(kernel_subject){text, cases[c].entry, builtin_gemm_run, &cases[c].gemm, false}, "a case");
        free(text);
    }
}

/* Constant parts of descriptors, see wgmma_operand(): of A with k innermost, and of B with n. */
#define DESCRIPTOR_A "4611686293305360384"
#define DESCRIPTOR_B "4611686293338849280"
#define PRODUCER     "setmaxnreg.dec"
#define CONSUMER     "setmaxnreg.inc"
#define EPILOGUE     "bar.sync 1"

/* Ten slices, the last of 20 of k, in a ring of four; the second tile has 56 columns. */
static const builtin_gemm problem = {
    3, 1, 0, 0, WIDE(256, 4), .m = 100, .n = 312, .k = 596, .pad_a = 4, .pad_b = 8, .pad_d = 4,
};

static void mutants(void)
{
    static const mutant list[] = {
        {"no fence.proxy.async", "fence.proxy.async", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.fence", "wgmma.fence", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.wait_group", "wgmma.wait_group", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL, MUTANT_DROP},
        {"wgmma.wait_group 2", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL, MUTANT_REPLACE, "aligned 1", "aligned 2"},
        {"no wgmma.wait_group 0", "wgmma.wait_group.sync.aligned 0", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.commit_group", "wgmma.commit_group", MUTANT_ALL, MUTANT_DROP},
        {"no wait for copies", "cp.async.wait_group", MUTANT_ALL, MUTANT_DROP},
        {"wait for all copies but two slices", "cp.async.wait_group", MUTANT_ALL, MUTANT_REPLACE, "1;", "2;"},
        {"no commit of copies", "cp.async.commit_group", MUTANT_ALL, MUTANT_DROP},
        {"no bar.sync behind the init", "bar.sync \t0", MUTANT_ALL, MUTANT_DROP},
        {"no bar.sync before the epilogue", "bar.sync 1", MUTANT_ALL, MUTANT_DROP},
        {"bar.sync of one consumer", "bar.sync 1", MUTANT_ALL, MUTANT_REPLACE, "256", "128"},
        {"bar.sync of all", "bar.sync 1", MUTANT_ALL, MUTANT_REPLACE, "256", "384"},

        {"producer never waits", "mbarrier.try_wait", 0, MUTANT_LAST_OPERAND, NULL, "1"},
        {"producer's parity is always 0", "mbarrier.try_wait", 0, MUTANT_LAST_OPERAND, NULL, "0"},
        {"producer begins with the wrong parity", "xor.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1;",
         .from = PRODUCER},
        {"consumer's parity is always 0", "mbarrier.try_wait", 1, MUTANT_LAST_OPERAND, NULL, "0"},
        {"consumer's parity is always 1", "mbarrier.try_wait", 1, MUTANT_LAST_OPERAND, NULL, "1"},
        {"no slice is ever full", "mbarrier.arrive", 0, MUTANT_DROP},
        {"no stage is ever empty", "mbarrier.arrive", 1, MUTANT_DROP},
        {"three warps fill a stage", "mbarrier.init", 0, MUTANT_LAST_OPERAND, NULL, "3"},
        {"five warps fill a stage", "mbarrier.init", 0, MUTANT_LAST_OPERAND, NULL, "5"},
        {"one consumer empties a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "4"},
        {"nine warps empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "9"},
        {"three stages have barriers", "setp.gt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "2", ", 3;",
         .until = "mbarrier.init"},
        {"every other consumer warp speaks", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "63", ", 31;", .from = CONSUMER},
        {"every consumer thread speaks", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 31;", .from = CONSUMER},
        {"a stage is handed back at once", "setp.eq.s32", 0, MUTANT_LAST_OPERAND, NULL, "-1", ", 0;",
         .from = "wgmma.wait_group"},

        {"64-byte swizzle of A", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_A, "9223372311732748288"},
        {"no swizzle of A", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_A, "274877972480"},
        {"64-byte swizzle of B", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_B, "9223372311766237184"},
        {"A's eight rows are 512 bytes", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_A, "4611686155866406912"},
        {"B's eight k are 512 bytes", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_B, "4611686155899895808"},
        {"B's 64 columns are 4096 bytes", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_B, "4611686293322072064"},
        {"A is eight k on", "add.s32", 0, MUTANT_REPLACE, ", 253984;", ", 253968;", ", 253984;"},
        {"A is 16 k on twice", "add.s32", 0, MUTANT_REPLACE, ", 254016;", ", 253984;", ", 254016;"},
        {"B is eight k on", "add.s32", 0, MUTANT_REPLACE, ", 18432;", ", 17408;", ", 18432;"},
        {"B's second 16 k are the first", "add.s32", 0, MUTANT_REPLACE, ", 18432;", ", 16384;", ", 18432;"},
        {"B begins in A", "add.s32", 0, MUTANT_REPLACE, ", 16384;", ", 8192;", ", 16384;", .from = CONSUMER},
        {"both consumers have the same rows", "and.b32", 0, MUTANT_REPLACE, "-8192", "0", ", -8192;"},
        {"A is transposed", "wgmma.mma_async", 1, MUTANT_REPLACE, "1, 1, 0, 1", "1, 1, 1, 1"},
        {"B is not transposed", "wgmma.mma_async", 2, MUTANT_REPLACE, "1, 1, 0, 1", "1, 1, 0, 0"},
        {"A is subtracted", "wgmma.mma_async", 0, MUTANT_REPLACE, "1, 1, 0, 1", "-1, 1, 0, 1"},
        {"a product is missing", "wgmma.mma_async", 3, MUTANT_DROP},
        {"sums begin with what is there", "setp.ne.b32", 0, MUTANT_REPLACE, "ne", "eq", .from = CONSUMER},
        {"sums begin anew with each slice", "setp.ne.b32", 1, MUTANT_REPLACE, "ne", "eq", .from = CONSUMER},
        {"sums of eight columns swapped", "wgmma.mma_async", 3, MUTANT_SWAP, ""},

        {"stages overlap", "mul.lo.s32", 0, MUTANT_LAST_OPERAND, NULL, "40960", ", 49152;", .from = PRODUCER},
        {"consumer's stages overlap", "mul.lo.s32", 0, MUTANT_LAST_OPERAND, NULL, "40960", ", 49152;",
         .from = CONSUMER},
        {"producer's ring has three stages", "setp.eq.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "3", ", 4;",
         .from = PRODUCER, .until = CONSUMER},
        {"consumer's ring has three stages", "setp.eq.s32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 4;",
         .from = CONSUMER},
        {"a slice too many is multiplied", "setp.lt.u32", 0, MUTANT_REPLACE, "lt", "le", .from = "wgmma.wait_group"},
        {"the last slice is never said to be full", "setp.le.u32", MUTANT_LAST, MUTANT_REPLACE, "le", "lt",
         .from = PRODUCER, .until = CONSUMER},
        {"other permutation of A's chunks", "xor.b32", 0, MUTANT_REPLACE, "xor", "or", .from = PRODUCER},
        {"other permutation of B's chunks", "xor.b32", 1, MUTANT_REPLACE, "xor", "or", .from = PRODUCER},
        {"four lines on as eight", "xor.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 64;", .from = PRODUCER},
        {"a line of A is not copied", "cp.async.cg", 3, MUTANT_DROP},
        {"a line of B is not copied", "cp.async.cg", MUTANT_LAST, MUTANT_DROP},
        {"16 bytes whatever is left of A", "cp.async.cg", 0, MUTANT_LAST_OPERAND, NULL, "16"},
        {"16 bytes whatever is left of B", "cp.async.cg", 14, MUTANT_LAST_OPERAND, NULL, "16"},
        {"8 bytes of each chunk of A", "cp.async.cg", 1, MUTANT_LAST_OPERAND, NULL, "8"},
        {"a row of A too many", "setp.lt.u32", 7, MUTANT_REPLACE, "lt", "le", .from = "st.shared.v4"},

        {"no bar.warp.sync behind kept rows", "bar.warp.sync", 1, MUTANT_DROP, .from = EPILOGUE},
        {"bar.sync that only arrives", "bar.sync 1", 0, MUTANT_REPLACE, "sync", "arrive"},
        {"a pair of sums is not kept", "st.shared.v2", 3, MUTANT_DROP},
        {"sums are kept swapped", "st.shared.v2", MUTANT_LAST, MUTANT_SWAP, ""},
        {"no test of rows and columns", "@%p", MUTANT_LAST, MUTANT_DROP, .from = EPILOGUE, .until = "ld.shared.v4"},
    };
    kernel_checked(FILE_NAME, ENTRY_256, builtin_gemm_run, &problem, list, sizeof list / sizeof list[0]);
}

/* How the warps hand stages and registers to each other. */
static void mutants_of_manners(void)
{
    static const mutant list[] = {
        {"no bar.warp.sync before a slice is full", "bar.warp.sync", 0, MUTANT_DROP, .from = PRODUCER,
         .until = CONSUMER},
        {"fence of global memory", "fence.proxy.async", 0, MUTANT_REPLACE, "shared::cta", "global"},
        {"fence of aliases", "fence.proxy.async", 0, MUTANT_REPLACE, "async.shared::cta", "alias"},
        {"fence of memory", "fence.proxy.async", 0, MUTANT_REPLACE, "proxy.async.shared::cta", "acq_rel.cta"},
        {"a commit is a fence", "wgmma.commit_group", 0, MUTANT_REPLACE, "commit_group", "fence"},
        {"the last products are not waited for", "wgmma.wait_group.sync.aligned 0", 0, MUTANT_REPLACE, "aligned 0",
         "aligned 1"},
        {"a slice is full relaxed", "mbarrier.arrive", 0, MUTANT_REPLACE, "arrive.shared", "arrive.relaxed.cta.shared"},
        {"a stage is empty relaxed", "mbarrier.arrive", 1, MUTANT_REPLACE, "arrive.shared",
         "arrive.relaxed.cta.shared"},
        {"producer waits relaxed", "mbarrier.try_wait", 0, MUTANT_REPLACE, "parity.shared",
         "parity.relaxed.cta.shared"},
        {"consumer waits relaxed", "mbarrier.try_wait", 1, MUTANT_REPLACE, "parity.shared",
         "parity.relaxed.cta.shared"},
        {"producer asks once", "@!over bra", 0, MUTANT_DROP},
        {"consumer asks once", "@!over bra", 1, MUTANT_DROP},
        {"a slice is full twice", "mbarrier.arrive", 0, MUTANT_REPLACE, "];", "], 2;"},
        {"a stage is empty twice", "mbarrier.arrive", 1, MUTANT_REPLACE, "];", "], 2;"},
        {"producer's warps drop out", "mbarrier.arrive", 0, MUTANT_REPLACE, "arrive", "arrive_drop"},
        {"consumer's warps drop out", "mbarrier.arrive", 1, MUTANT_REPLACE, "arrive", "arrive_drop"},
        {"one stage has barriers", "setp.gt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "0", ", 3;",
         .until = "mbarrier.init"},
        {"five stages have barriers", "setp.gt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "4", ", 3;",
         .until = "mbarrier.init"},
        {"full barriers lie in the last stage", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "196600", ", 196608;"},
        {"empty barriers are the full ones", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "196608", ", 196640;"},
        {"producer waits for the next stage", "add.s32", 0, MUTANT_REPLACE, "196640", "196648", "196640",
         .from = PRODUCER},
        {"the stage behind is handed back", "add.s32", 0, MUTANT_REPLACE, "196640", "196648",
         .from = "wgmma.wait_group"},
        {"the next slice is said to be full", "add.s32", MUTANT_LAST, MUTANT_REPLACE, "196608", "196616",
         .from = PRODUCER, .until = CONSUMER},
        {"consumer waits for the next slice", "add.s32", 0, MUTANT_REPLACE, "196608", "196616", "196608",
         .from = CONSUMER},
        {"consumer waits for empty stages", "add.s32", 0, MUTANT_REPLACE, "196608", "196640", "196608",
         .from = CONSUMER},
        {"producer's parity never changes", "xor.b32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "0", .from = PRODUCER,
         .until = "cp.async.commit"},
        {"consumer's parity never changes", "xor.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", .from = "wgmma.wait_group"},
        {"producer's ring has five stages", "setp.eq.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "5", ", 4;",
         .from = PRODUCER, .until = "cp.async.commit"},
        {"consumer's ring has five stages", "setp.eq.s32", 0, MUTANT_LAST_OPERAND, NULL, "5", ", 4;", .from = CONSUMER},
        {"the last slice is not produced", "shr.u32", 0, MUTANT_LAST_OPERAND, NULL, "7", ", 6;", .until = PRODUCER},
        {"slices are rounded down", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 63;"},
        {"a slice too many is produced", "setp.ge.u32", 0, MUTANT_REPLACE, "ge", "gt", .from = PRODUCER},

        {"producer keeps 96 registers", "setmaxnreg.dec", 0, MUTANT_REPLACE, "88", "96"},
        {"producer keeps all registers", "setmaxnreg.dec", 0, MUTANT_DROP},
        {"producer takes registers", "setmaxnreg.dec", 0, MUTANT_REPLACE, "dec", "inc"},
        {"consumers want 216 registers", "setmaxnreg.inc", 0, MUTANT_REPLACE, "208", "216"},
        {"consumers give registers", "setmaxnreg.inc", 0, MUTANT_REPLACE, "inc", "dec"},
        {"consumers have had more", "setmaxnreg.inc", 0, MUTANT_REPLACE, "208", "160"},
        {"launched with 80 registers", ".minnctapersm", 0, MUTANT_REPLACE, "1", "2"},
        {"producer has three warps", "setp.lt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "96", ", 128;",
         .until = PRODUCER},

        {"barriers are aligned to 512", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "511", ", 1023;"},
        {"consumer aligns nothing", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1023;", .from = CONSUMER},
        {"descriptors reach half of the memory", "and.b32", 0, MUTANT_REPLACE, "262128", "131056", "262128",
         .from = CONSUMER},
        {"descriptors count 8 bytes", "shr.u32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 4;", .from = "wgmma.fence"},
        {"32-byte swizzle of A", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_A, "13835058330160136192"},
        {"32-byte swizzle of B", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_B, "13835058330193625088"},
        {"both consumers have half of their rows", "shl.b32", 0, MUTANT_LAST_OPERAND, NULL, "5", ", 6;",
         .from = "wgmma.fence"},
        {"FP16 for BF16", "wgmma.mma_async", 1, MUTANT_REPLACE, "f32.bf16.bf16", "f32.f16.f16"},
        {"B is subtracted", "wgmma.mma_async", 2, MUTANT_REPLACE, "1, 1, 0, 1", "1, -1, 0, 1"},
        {"A's lines are copied to places of 4096", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "2048", ", 4096;",
         .from = "cp.async.cg"},
        {"four chunks of A are permuted", "and.b32", 0, MUTANT_LAST_OPERAND, NULL, "48", ", 112;", .from = PRODUCER},
        {"pairs of chunks of B are permuted", "and.b32", 1, MUTANT_LAST_OPERAND, NULL, "96", ", 112;",
         .from = PRODUCER},
    };
    kernel_checked(FILE_NAME, ENTRY_256, builtin_gemm_run, &problem, list, sizeof list / sizeof list[0]);
}

/* An arrival that is left over in each round becomes a stage that is handed back too early only after some rounds: as
 * long as one warp of each consumer has arrived, both are done. 29 slices, copied element by element. */
static void mutants_of_many_rounds(void)
{
    static const mutant list[] = {
        {"seven warps empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "7"},
        {"six warps empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "6"},
        {"three warps fill a stage", "mbarrier.init", 0, MUTANT_LAST_OPERAND, NULL, "3"},
    };
    static const builtin_gemm long_problem = {
        3, 1, 0, 0, WIDE(256, 4), .m = 100, .n = 56, .k = 1800, .pad_a = 4, .pad_b = 8, .pad_d = 4,
    };
    kernel_checked(FILE_NAME, ENTRY_256, builtin_gemm_run, &long_problem, list, sizeof list / sizeof list[0]);
}

/* The other layouts: A with m innermost, B with k; rows that only elements can be copied of. */
static void mutants_of_elements(void)
{
    static const mutant list[] = {
        {"no fence.proxy.async", "fence.proxy.async", MUTANT_ALL, MUTANT_DROP},
        {"producer never waits", "mbarrier.try_wait", 0, MUTANT_LAST_OPERAND, NULL, "1"},
        {"A's eight k are 512 bytes", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR_B, "4611686155899895808"},
        {"A is not transposed", "wgmma.mma_async", 2, MUTANT_REPLACE, "1, 1, 1, 0", "1, 1, 0, 0"},
        {"B is transposed", "wgmma.mma_async", 1, MUTANT_REPLACE, "1, 1, 1, 0", "1, 1, 1, 1"},
        {"elements swapped", "st.shared.v4", 0, MUTANT_SWAP, ""},
        {"a chunk is not kept", "st.shared.v4", 1, MUTANT_DROP},
        {"halves of a word swapped", "shl.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", .from = "ld.global.u16"},
        {"other permutation of chunks", "xor.b32", 0, MUTANT_REPLACE, "xor", "or", .from = "ld.global.u16"},
        {"parts of 128 bytes overlap", "and.b32", 0, MUTANT_REPLACE, "112", "48", .from = "ld.global.u16"},
    };
    builtin_gemm elements = {3, 1, 1, 1, WIDE(128, 6), .m = 100, .n = 84, .k = 450, .pad_a = 1, .pad_b = 1, .pad_d = 1};
    kernel_checked(FILE_NAME, ENTRY_128, builtin_gemm_run, &elements, list, sizeof list / sizeof list[0]);
}

/* What waits for nothing is wrong by its numbers, too, where copies and products come late: no race check needed. */
static void late_mutants(void)
{
    static const mutant list[] = {
        {"no wait for copies", "cp.async.wait_group", MUTANT_ALL, MUTANT_DROP},
        {"producer never waits", "mbarrier.try_wait", 0, MUTANT_LAST_OPERAND, NULL, "1"},
        {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL, MUTANT_DROP},
    };
    char *text = kernel_text(FILE_NAME, ENTRY_256);
    kernel_mutants(&(kernel_subject){text, ENTRY_256, builtin_gemm_run, &problem, true}, list,
                   sizeof list / sizeof list[0]);
    free(text);
}

static void expect(const char *entry, const char *what, count got, count want)
{
    SIM_CHECK(got == want, "%s: %s: %llu, not %llu", entry, what, got, want);
}

/* A tile of 128 x n reads its rows of A and its columns of B once, in whole sectors, 16 bytes a copy, and multiplies
 * whole slices of 64, in two halves by 64 x n x 16. Nothing meets a bank conflict. */
static void counters(void)
{
    static const struct {
        const char *entry, *shape;
        builtin_gemm gemm;
    } cases[] = {
        {ENTRY_256, "m64n256k16", {3, 3, 0, 0, WIDE(256, 4), .m = 128, .n = 256, .k = 64}},
        {ENTRY_256, "m64n256k16", {3, 1, 0, 0, WIDE(256, 4), .m = 200, .n = 512, .k = 432}},
        {ENTRY_128, "m64n128k16", {3, 3, 1, 1, WIDE(128, 6), .m = 256, .n = 128, .k = 512}},
        {"gemm_async__3_1_0_128_256_64_4", "m64n256k16", {3, 3, 1, 0, WIDE(256, 4), .m = 176, .n = 240, .k = 272}},
        {"gemm_async__3_0_1_128_128_64_6", "m64n128k16", {3, 1, 0, 1, WIDE(128, 6), .m = 48, .n = 160, .k = 80}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *entry = cases[i].entry;
        const builtin_gemm *g = &cases[i].gemm;
        char what[1024] = "", *text = kernel_text(FILE_NAME, entry);
        sim_counters c = {0};
        ptx_module *module = ptx_module_load(text, strlen(text), what, sizeof what);
        free(text);
        SIM_CHECK(module && builtin_gemm_run(ptx_module_entry(module, entry), g, &(sim_options){0}, &c, what,
                                             sizeof what) == KERNEL_RIGHT,
                  "%s: %s", entry, what);
        ptx_module_free(module);
        const count m = g->m, n = g->n, k = g->k, rows = (m + 127) / 128, columns = (n + g->tile_n - 1) / g->tile_n;
        const count slices = (k + 63) / 64, tiles = rows * columns, read = 2 * (m * k * columns + k * n * rows);
        const count written = (g->dtype_d == HAL_KERNEL_F32 ? 4 : 2) * m * n;
        expect(entry, "bytes read", c.global_read_bytes, read);
        expect(entry, "sectors read", c.global_read_sectors, read / 32);
        expect(entry, "bytes written", c.global_write_bytes, written);
        expect(entry, "sectors written", c.global_write_sectors, written / 32);
        expect(entry, "wgmma", c.wgmma, tiles * slices * 2 * 4);
        expect(entry, cases[i].shape, c.mma_by_shape[0].count, tiles * slices * 2 * 4);
        SIM_CHECK(strncmp(c.mma_by_shape[0].shape, cases[i].shape, 10) == 0, "%s", c.mma_by_shape[0].shape);
        expect(entry, "mma.sync", c.mma, 0);
        expect(entry, "floating point operations", c.mma_flops, tiles * slices * 64 * 2 * 128 * g->tile_n);
        expect(entry, "bank conflicts", c.shared_conflicts, 0);
        expect(entry, "atomics", c.atomics, 0);
    }
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"right_numbers", right_numbers},
                                       {"mutants", mutants},
                                       {"mutants_of_manners", mutants_of_manners},
                                       {"mutants_of_many_rounds", mutants_of_many_rounds},
                                       {"mutants_of_elements", mutants_of_elements},
                                       {"late_mutants", late_mutants},
                                       {"counters", counters}};
    return SIM_MAIN("gemm_async", groups);
}
