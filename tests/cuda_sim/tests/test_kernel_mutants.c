/* test_kernel_mutants.c - libhal's own CUDA kernels are right under every timing, and each of their mutants is not.
 *
 * Edges matter: sizes leave parts of tiles, of slices and of 16-byte chunks, memory ends where the matrices do, and
 * what lies between their rows is NaN. */
#include "builtin_gemm.h"
#include "builtin_reduce.h"
#include "builtin_rows.h"
#include "kernel_abi.h"
#include "mutate.h"
#include "sim_test.h"
#include <stdlib.h>

/* --- gemm_mma: a ring of three stages of 8 KiB, the wait and the barrier of the loop come first --- */

#define LOOP     "cp.async.wait_group 1"
#define EPILOGUE "cp.async.wait_group 0"

/* Four slices of k, the last of 20: lines 16 to 19 of B, and two chunks of A and half of one. */
static const builtin_gemm mma_problem = {
    .dtype = HAL_KERNEL_BF16,
    .dtype_d = HAL_KERNEL_F32,
    .tile_m = 64,
    .tile_n = 64,
    .threads = {128, 1},
    .dynamic_shared = GEMM_MMA_SHARED(64, 64, 32, 3),
    .m = 100,
    .n = 84,
    .k = 116,
    .pad_a = 4,
    .pad_b = 4,
    .pad_d = 4,
};

static void gemm_mma(void)
{
    static const mutant list[] = {
        {"no wait for a slice", "cp.async.wait_group", 0, MUTANT_DROP},
        {"wait_group 2", "cp.async.wait_group", 0, MUTANT_REPLACE, "1;", "2;"},
        {"no bar.sync in the loop", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync before the epilogue", "bar.sync", 1, MUTANT_DROP},
        {"no commit of the first slices", "cp.async.commit_group", 0, MUTANT_DROP},
        {"no commit in the loop", "cp.async.commit_group", 1, MUTANT_DROP},
        {"A's first lines are not copied", "cp.async.cg", 0, MUTANT_DROP},
        {"B's lines are not copied", "cp.async.cg", 3, MUTANT_DROP},
        {"A's lines are not copied in the loop", "cp.async.cg", 0, MUTANT_DROP, .from = LOOP},
        {"16 bytes whatever is left of A", "cp.async.cg", 4, MUTANT_LAST_OPERAND, NULL, "16"},
        {"16 bytes whatever is left of B", "cp.async.cg", 7, MUTANT_LAST_OPERAND, NULL, "16"},
        {"8 bytes of each chunk of A", "cp.async.cg", 0, MUTANT_LAST_OPERAND, NULL, "8"},
        {"nothing but zeros in B", "cp.async.cg", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "0"},
        {"one slice is fetched ahead", "setp.lt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "1", .until = LOOP},
        {"filled stage is off by one", "add.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "8192", ", 16384;",
         .until = LOOP},
        {"two stages of three are used", "add.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "8192", ", 16384;",
         .from = LOOP},
        {"stages overlap", "add.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "4096", ", 8192;", .from = "mma.sync"},
        {"a slice too many is fetched", "setp.ge.u32", 0, MUTANT_REPLACE, "ge", "gt", .from = LOOP},
        {"a slice too many is multiplied", "setp.lt.u32", MUTANT_LAST, MUTANT_REPLACE, "lt", "le", .until = EPILOGUE},

        {"a line of k too many", "setp.lt.u32", MUTANT_LAST, MUTANT_REPLACE, "lt", "le", .from = LOOP,
         .until = "ldmatrix"},
        {"a column of k too few", "min.u32", 0, MUTANT_REPLACE, ", 8;", ", 7;", .from = LOOP},
        {"A is loaded transposed", "ldmatrix", 0, MUTANT_REPLACE, "x4.shared", "x4.trans.shared"},
        {"B is not loaded transposed", "ldmatrix", 2, MUTANT_REPLACE, "x4.trans.shared", "x4.shared"},
        {"registers of A's fragment swapped", "ldmatrix", 1, MUTANT_SWAP, ""},
        {"A's fragment swapped in one product", "mma.sync", 3, MUTANT_SWAP, "{"},
        {"B's fragment swapped in one product", "mma.sync", 9, MUTANT_SWAP, "{{"},
        {"sums swapped", "mma.sync", MUTANT_LAST, MUTANT_SWAP, ""},
        {"a product is missing", "mma.sync", 5, MUTANT_DROP},
        {"other permutation of A's chunks", "xor.b32", MUTANT_LAST, MUTANT_REPLACE, "xor", "or", .until = LOOP},
        {"other permutation of B's chunks", "xor.b32", 7, MUTANT_REPLACE, "xor", "or", .until = LOOP},
        {"B's copies permute four chunks", "and.b32", 0, MUTANT_REPLACE, ", 112;", ", 48;", ", 112;"},
        {"no bar.warp.sync before a block", "bar.warp.sync", 0, MUTANT_DROP},
        {"no bar.warp.sync behind a block", "bar.warp.sync", 1, MUTANT_DROP},
        {"sums are kept swapped", "st.shared.v2", MUTANT_LAST, MUTANT_SWAP, ""},
        {"a pair of sums is not kept", "st.shared.v2", 3, MUTANT_DROP},
        {"eight rows are elsewhere", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "512", ", 1024;", .from = EPILOGUE},
        {"other permutation of sums", "xor.b32", 0, MUTANT_REPLACE, "xor", "or", .from = "st.shared.v2"},
        {"a row too many is stored", "setp.le.u32", 0, MUTANT_REPLACE, "le", "lt", .from = EPILOGUE},
        {"no test of rows and columns", "@%p", MUTANT_LAST, MUTANT_DROP, .from = EPILOGUE, .until = "ld.shared.v4"},
    };
    KERNEL("gemm_mma", "gemm_mma__3_0_0_64_64_32_32_32_3", builtin_gemm_run, &mma_problem, list);
}

/* Rows that are not aligned to 16 bytes are copied element by element. */
static void gemm_mma_elements(void)
{
    static const mutant list[] = {
        {"no bar.sync in the loop", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync before the epilogue", "bar.sync", 1, MUTANT_DROP},
        {"elements swapped", "st.shared.v4", 0, MUTANT_SWAP, ""},
        {"a chunk is not stored", "st.shared.v4", MUTANT_LAST, MUTANT_DROP},
        {"one line of each thread's only", "setp.lt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "1", ", 2;",
         .until = "cp.async.cg"},
        {"no test of the first element", "@%p", MUTANT_LAST, MUTANT_DROP, .until = "ld.global.u16"},
        {"halves of a word swapped", "shl.b32", 0, MUTANT_LAST_OPERAND, NULL, "0", .from = "ld.global.u16"},
    };
    builtin_gemm problem = mma_problem;
    problem.pad_a = 1;
    problem.pad_b = 1;
    KERNEL("gemm_mma", "gemm_mma__3_0_0_64_64_32_32_32_3", builtin_gemm_run, &problem, list);
}

/* --- gemm: two buffers of slices of 16, tiles of 32 x 32 --- */

/* Three slices of k, the last of 3; 21 rows and 13 columns of the last tiles. */
static const builtin_gemm tile_problem = {
    .dtype = HAL_KERNEL_F32,
    .dtype_d = HAL_KERNEL_F32,
    .tile_m = 32,
    .tile_n = 32,
    .threads = {8, 8},
    .m = 53,
    .n = 45,
    .k = 35,
    .pad_a = 1,
    .pad_d = 3,
};

static void gemm_tile(void)
{
    static const mutant list[] = {
        {"no bar.sync behind the first slices", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync in the loop", "bar.sync", 1, MUTANT_DROP},
        {"one buffer for both", "mov.u32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1152;"},
        {"a row of A too many", "setp.ge.u32", 6, MUTANT_REPLACE, "ge", "gt"},
        {"a column of k too many", "setp.ge.u32", 1, MUTANT_REPLACE, "ge", "gt", .from = "bar.sync"},
        {"a row of k too many", "setp.ge.u32", 8, MUTANT_REPLACE, "ge", "gt", .from = "bar.sync"},
        {"a column of B too many", "setp.lt.u32", 7, MUTANT_REPLACE, "lt", "le"},
        {"first slice has 15 of k", "min.u32", 0, MUTANT_REPLACE, ", 16;", ", 15;", ", 16;"},
        {"15 of k are taken off", "min.u32", 0, MUTANT_REPLACE, ", 16;", ", 15;", ", 16;", .from = "bar.sync"},
        {"A's stores without the gap", "mad.lo.s32", MUTANT_ALL, MUTANT_REPLACE, ", 36,", ", 32,", ", 36,"},
        {"B's stores without the gap", "mul.lo.s32", 0, MUTANT_LAST_OPERAND, NULL, "32", ", 36;"},
        {"reads without the gap", "mul.lo.s32", 0, MUTANT_LAST_OPERAND, NULL, "32", ", 36;", .from = "bar.sync"},
        {"a row of B is elsewhere", "st.shared.f32", 0, MUTANT_REPLACE, "+288]", "+284]", "+288]"},
        {"an element of A is not kept", "st.shared.f32", 3, MUTANT_DROP},
        {"an element of B is not kept later", "st.shared.f32", MUTANT_LAST, MUTANT_DROP},
        {"elements of a row swapped", "ld.shared.v4", 0, MUTANT_SWAP, ""},
        {"the second k is read again", "ld.shared.v4", 2, MUTANT_REPLACE, "+144]", "]"},
        {"reads off their alignment", "ld.shared.v4", 3, MUTANT_REPLACE, "+144]", "+140]"},
        {"12 of 16 k", "setp.ne.s32", 0, MUTANT_LAST_OPERAND, NULL, "12", ", 16;"},
        {"a product is missing", "fma.rn.f32", 5, MUTANT_DROP},
        {"A is read one k later", "add.s64", 0, MUTANT_LAST_OPERAND, NULL, "68", ", 64;"},
        {"B is read 8 rows on", "shl.b64", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "5", ", 6;",
         .until = "ld.shared.v4"},
        {"all but one keep the place", "setp.ne.s32", 0, MUTANT_REPLACE, "ne", "eq"},
        {"the row is not kept", "st.shared.u32", 0, MUTANT_DROP},
        {"columns of groups by their rows", "mov.u32", 0, MUTANT_REPLACE, "%ctaid.x", "%ctaid.y", "%ctaid.x"},
        {"tiles of 16 rows", "shl.b32", 0, MUTANT_LAST_OPERAND, NULL, "4", ", 5;"},
        {"sums are kept swapped", "st.shared.v4", 1, MUTANT_SWAP, ""},
        {"sums overlap", "st.shared.v4", 1, MUTANT_REPLACE, "+1024]", "+1008]"},
        {"a row too many is stored", "setp.le.u32", 1, MUTANT_REPLACE, "le", "lt"},
        {"no test of rows and columns", "@%p", 0, MUTANT_DROP, .from = "setp.le.u32"},
    };
    KERNEL("gemm", "gemm__1_0_0_32_32_16_4_4", builtin_gemm_run, &tile_problem, list);
}

/* Without a k the barrier for it is not there, and D is zero. */
static void gemm_tile_of_nothing(void)
{
    static const mutant list[] = {
        {"no bar.sync where there is no k", "bar.sync", 2, MUTANT_DROP},
        {"barrier where there is k only", "setp.ne.s32", MUTANT_LAST, MUTANT_REPLACE, "ne", "eq",
         .until = "st.shared.v4"},
    };
    builtin_gemm problem = tile_problem;
    problem.k = 0;
    KERNEL("gemm", "gemm__1_0_0_32_32_16_4_4", builtin_gemm_run, &problem, list);
}

/* --- gemm_small: partial sums of rows of B by eight warps --- */

#define FIRST_SUM "ld.global.cs.v4"
#define SHUFFLES  "shfl.sync"

/* k such that 96, what the loop over four rows needs, is left to some threads. */
static const builtin_gemm small_problem = {
    .dtype = HAL_KERNEL_F32,
    .dtype_d = HAL_KERNEL_F32,
    .tile_m = 2,
    .tile_n = 32,
    .threads = {256, 1},
    .m = 2,
    .n = 44,
    .k = 240,
    .pad_a = 1,
    .pad_d = 4,
};

static void gemm_small(void)
{
    static const mutant list[] = {
        {"no bar.sync", "bar.sync", 0, MUTANT_DROP},
        {"four rows at a time to the end", "setp.gt.u32", 0, MUTANT_REPLACE, "gt", "ge", ", 96;"},
        {"steps of 96 rows", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "96", ", 128;"},
        {"a row of k too many", "setp.lt.u32", MUTANT_LAST, MUTANT_REPLACE, "lt", "le", .until = SHUFFLES},
        {"rest in steps of 64", "add.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "64", ", 32;", .until = SHUFFLES},
        {"no rest", "setp.ge.u32", MUTANT_LAST, MUTANT_REPLACE, "ge", "ne", .until = SHUFFLES},
        {"columns swapped", "ld.global.cs.v4", 1, MUTANT_SWAP, ""},
        {"a product is missing", "fma.rn.f32", MUTANT_LAST, MUTANT_DROP, .until = SHUFFLES},
        {"lanes 8 apart twice", "mov.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "8", ", 16;", .until = SHUFFLES},
        {"shfl.up", "shfl.sync", 0, MUTANT_REPLACE, "bfly", "up"},
        {"lanes in groups of 16", "mov.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "4127", ", 31;",
         .until = SHUFFLES},
        {"16 lanes only", "mov.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "65535", ", -1;", .until = SHUFFLES},
        {"seven lanes keep sums", "setp.gt.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "6", ", 7;",
         .until = "st.shared.f32"},
        {"all lanes keep sums", "@%p", MUTANT_LAST, MUTANT_DROP, .until = "st.shared.f32"},
        {"second row is elsewhere", "st.shared.f32", 0, MUTANT_REPLACE, "+128]", "+124]", "+128]"},
        {"a sum is not kept", "st.shared.f32", 2, MUTANT_DROP},
        {"sums are read swapped", "ld.shared.v4", MUTANT_LAST, MUTANT_SWAP, ""},
        {"a warp's sums are read twice", "ld.shared.v4", 1, MUTANT_REPLACE, "+256]", "]"},
        {"a row too many is added", "setp.gt.u32", 0, MUTANT_LAST_OPERAND, NULL, "23", .from = "bar.sync"},
        {"columns of groups by z", "mov.u32", 0, MUTANT_REPLACE, "%ctaid.x", "%ctaid.z", "%ctaid.x"},
    };
    KERNEL("gemm", "gemm_small__1_0_2_32_256", builtin_gemm_run, &small_problem, list);
}

/* One row where the kernel has two, and columns that are read element by element. */
static void gemm_small_edges(void)
{
    static const mutant list[] = {
        {"second row is read", "setp.eq.s32", 0, MUTANT_REPLACE, "eq", "ne", ", 1;"},
        {"second row is stored", "setp.le.u32", MUTANT_ALL, MUTANT_REPLACE, "le", "lt", .from = "bar.sync",
         .until = "or.pred"},
        {"three of four columns", "min.u32", 0, MUTANT_REPLACE, ", 4;", ", 3;", ", 4;"},
        {"two columns where one is left", "setp.lt.u32", 0, MUTANT_LAST_OPERAND, NULL, "1", ", 2;"},
        {"an element is not read", "ld.global.f32", 0, MUTANT_DROP},
    };
    builtin_gemm problem = small_problem;
    problem.m = 1;
    problem.n = 45;
    KERNEL("gemm", "gemm_small__1_0_2_32_256", builtin_gemm_run, &problem, list);
}

/* B transposed: a warp takes four columns, a lane 8 of k; three columns and four of k are left at the end. */
static void gemm_small_columns(void)
{
    static const mutant list[] = {
        {"no bar.sync", "bar.sync", 0, MUTANT_DROP},
        {"steps of 128", "add.s32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "128", ", 256;", .until = SHUFFLES},
        {"7 of k a lane", "min.u32", 0, MUTANT_REPLACE, ", 8;", ", 7;", ", 8;"},
        {"16 bytes where 8 are left", "setp.gt.u32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 7;"},
        {"four columns where three are left", "setp.gt.u32", 0, MUTANT_LAST_OPERAND, NULL, "2", ", 3;"},
        {"a column too many, by elements", "setp.gt.u32", 0, MUTANT_LAST_OPERAND, NULL, "2", ", 3;", .from = FIRST_SUM},
        {"elements swapped", "ld.global.cs.v4", 2, MUTANT_SWAP, ""},
        {"A's elements swapped", "ld.global.v4", 0, MUTANT_SWAP, ""},
        {"lanes 8 apart twice", "mov.u32", MUTANT_LAST, MUTANT_LAST_OPERAND, NULL, "8", ", 16;",
         .until = "st.shared.f32"},
        {"shfl.up", "shfl.sync", 3, MUTANT_REPLACE, "bfly", "up"},
        {"a sum is elsewhere", "st.shared.f32", 0, MUTANT_REPLACE, "+4]", "+8]", "+4]"},
        {"a sum is not kept", "st.shared.f32", MUTANT_LAST, MUTANT_DROP},
    };
    static const builtin_gemm problem = {
        .dtype = HAL_KERNEL_BF16,
        .dtype_d = HAL_KERNEL_F32,
        .trans_b = 1,
        .tile_m = 2,
        .tile_n = 32,
        .threads = {256, 1},
        .m = 2,
        .n = 43,
        .k = 268,
        .pad_a = 4,
        .pad_b = 4,
        .pad_d = 1,
    };
    KERNEL("gemm", "gemm_small__3_1_2_32_256", builtin_gemm_run, &problem, list);
}

/* --- activation: four columns a thread --- */

static void activation(void)
{
    static const mutant list[] = {
        {"no end of columns", "@%p", 0, MUTANT_DROP},
        {"groups as wide as the thread", "mov.u32", 0, MUTANT_REPLACE, "%ntid.x", "%tid.x", "%ntid.x"},
        {"two columns a thread", "shl.b32", 0, MUTANT_LAST_OPERAND, NULL, "1", ", 2;"},
        {"three columns a thread", "min.u32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 4;"},
        {"four where two are left", "setp.gt.u32", 0, MUTANT_LAST_OPERAND, NULL, "1", ", 3;"},
        {"rows of groups by x", "mov.u32", 0, MUTANT_REPLACE, "%ctaid.y", "%ctaid.x", "%ctaid.y"},
        {"b's row by a division", "rem.u32", 0, MUTANT_REPLACE, "rem", "div"},
        {"loaded swapped", "ld.global.v4.u16", MUTANT_ALL, MUTANT_SWAP, ""},
        {"b loaded swapped", "ld.global.v4.u32", MUTANT_ALL, MUTANT_SWAP, ""},
        {"stored swapped", "st.global.v4", MUTANT_ALL, MUTANT_SWAP, ""},
        {"not stored", "st.global.v4", MUTANT_ALL, MUTANT_DROP},
        {"elements not stored", "st.global.f32", MUTANT_ALL, MUTANT_DROP},
    };
    static const builtin_activation problem = {.dtype_a = HAL_KERNEL_BF16,
                                               .dtype_b = HAL_KERNEL_F32,
                                               .dtype_y = HAL_KERNEL_F32,
                                               .rows = 3,
                                               .columns = 1542,
                                               .b_rows = 2,
                                               .b_columns = 1542,
                                               .pad = 2};
    KERNEL("activation", "activation", builtin_activation_run, &problem, list);
}

/* --- transpose: squares of 32 in lines of 33 --- */

static void transpose(void)
{
    static const mutant list[] = {
        {"no bar.sync", "bar.sync", MUTANT_ALL, MUTANT_DROP},
        {"an element is not kept", "st.shared.u32", 1, MUTANT_DROP},
        {"an element is not read", "ld.shared.u32", 2, MUTANT_DROP},
        {"an element is not stored", "st.global.u32", 3, MUTANT_DROP},
        {"lines of 32 to keep some", "mad.lo.s32", 1, MUTANT_REPLACE, ", 132,", ", 128,", ", 132,"},
        {"lines of 32 to read some", "mad.lo.s32", MUTANT_LAST, MUTANT_REPLACE, ", 132,", ", 128,", ", 132,"},
        {"no end of x", "@%p", MUTANT_LAST, MUTANT_DROP, .until = "ld.global.u32"},
        {"no end of y", "@%p", MUTANT_LAST, MUTANT_DROP, .until = "ld.shared.u32"},
        {"a column of x too many", "setp.ge.u32", MUTANT_LAST, MUTANT_REPLACE, "ge", "gt", .until = "ld.global.u32"},
        {"a row of y too many", "setp.ge.u32", 1, MUTANT_REPLACE, "ge", "gt", .from = "bar.sync"},
        {"squares of 31", "min.u32", 0, MUTANT_REPLACE, ", 32;", ", 31;", ", 32;"},
        {"rows by columns", "mov.u32", MUTANT_ALL, MUTANT_REPLACE, "%ctaid.x", "%ctaid.y", "%ctaid.x"},
    };
    static const builtin_transpose problem = {4, 70, 45, 1, 3};
    KERNEL("transpose", "transpose", builtin_transpose_run, &problem, list);
}

/* --- rows that stay on chip: two fours a thread, 6 columns of the second; sums of eight warps --- */

static void softmax(void)
{
    static const mutant list[] = {
        {"no bar.sync of maxima", "bar.sync", 3, MUTANT_DROP},
        {"no bar.sync of sums", "bar.sync", MUTANT_LAST, MUTANT_DROP},
        {"arrival behind maxima", "bar.sync", 3, MUTANT_REPLACE, "bar.sync \t0", "bar.arrive 0, 256"},
        {"one warp's bar.sync of maxima", "bar.sync", 3, MUTANT_REPLACE, "bar.sync \t0", "bar.warp.sync -1"},
        {"one warp's bar.sync of sums", "bar.sync", MUTANT_LAST, MUTANT_REPLACE, "bar.sync \t0", "bar.warp.sync -1"},
        {"x loaded swapped", "ld.global.v4.u32", 0, MUTANT_SWAP, ""},
        {"mask loaded swapped", "ld.global.v4.u32", 1, MUTANT_SWAP, ""},
        {"three columns a thread", "min.u32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 4;"},
        {"a four is not kept", "st.shared.v4.f32", 1, MUTANT_DROP},
        {"kept swapped", "st.shared.v4.f32", 0, MUTANT_SWAP, ""},
        {"exponentials are not kept", "st.shared.v4.f32", 4, MUTANT_DROP},
        {"a warp's sums are not kept", "st.shared.v4.f32", MUTANT_LAST, MUTANT_DROP},
        {"a warp's sums are read twice", "ld.shared.v4.f32", MUTANT_LAST, MUTANT_REPLACE, "+512]", "]", "+512]"},
        {"maxima by shfl.up", "shfl.sync", 6, MUTANT_REPLACE, "bfly", "up"},
        {"sums by shfl.up", "shfl.sync", 7, MUTANT_REPLACE, "bfly", "up"},
        {"stored swapped", "st.global.v4.f32", MUTANT_LAST, MUTANT_SWAP, ""},
        {"not stored", "st.global.v4.f32", MUTANT_LAST, MUTANT_DROP},
        {"a row behind the last", "min.u32", 0, MUTANT_REPLACE, "min", "max"},
    };
    static const builtin_softmax problem = {.dtype = HAL_KERNEL_F32,
                                            .dtype_mask = HAL_KERNEL_F32,
                                            .dtype_y = HAL_KERNEL_F32,
                                            .rows = 2,
                                            .columns = 1030,
                                            .pad = 2,
                                            .shape = {256, 1, 2}};
    KERNEL("softmax", "softmax", builtin_softmax_run, &problem, list);
}

static const builtin_rmsnorm norm_problem = {.dtype = HAL_KERNEL_F32,
                                             .dtype_weight = HAL_KERNEL_F32,
                                             .dtype_y = HAL_KERNEL_F32,
                                             .rows = 2,
                                             .columns = 1030,
                                             .pad = 2,
                                             .shape = {256, 1, 2},
                                             .residual = true};

static void rmsnorm(void)
{
    static const mutant list[] = {
        {"no bar.sync of sums", "bar.sync", 7, MUTANT_DROP},
        {"x loaded swapped", "ld.global.v4.u32", 0, MUTANT_SWAP, ""},
        {"residual loaded swapped", "ld.global.v4.u32", 1, MUTANT_SWAP, ""},
        {"weight loaded swapped", "ld.global.v4.u32", MUTANT_LAST, MUTANT_SWAP, ""},
        {"three columns a thread", "min.u32", 0, MUTANT_LAST_OPERAND, NULL, "3", ", 4;"},
        {"a four is not kept", "st.shared.v4.u32", 0, MUTANT_DROP},
        {"kept swapped", "st.shared.v4.u32", 1, MUTANT_SWAP, ""},
        {"a warp's sums are not kept", "st.shared.v4.f32", 3, MUTANT_DROP},
        {"a warp's sums are read twice", "ld.shared.v4.f32", MUTANT_LAST, MUTANT_REPLACE, "+512]", "]", "+512]"},
        {"sums by shfl.up", "shfl.sync", 11, MUTANT_REPLACE, "bfly", "up"},
        {"y stored swapped", "st.global.v4.f32", 2, MUTANT_SWAP, ""},
        {"new residual stored swapped", "st.global.v4.f32", 3, MUTANT_SWAP, ""},
        {"new residual not stored", "st.global.v4.f32", 3, MUTANT_DROP},
        {"a row behind the last", "min.u32", 0, MUTANT_REPLACE, "min", "max"},
    };
    KERNEL("rmsnorm", "rmsnorm", builtin_rmsnorm_run, &norm_problem, list);
}

static void rmsnorm_quantised(void)
{
    static const mutant list[] = {
        {"no bar.sync of maxima", "bar.sync", MUTANT_LAST, MUTANT_DROP},
        {"maxima by shfl.up", "shfl.sync", MUTANT_LAST, MUTANT_REPLACE, "bfly", "up"},
        {"a warp's maximum is not kept", "st.shared.f32", MUTANT_LAST, MUTANT_DROP},
        {"normalised values are not kept", "st.shared.v4.f32", MUTANT_LAST, MUTANT_DROP},
        {"no scale", "st.global.f32", MUTANT_LAST, MUTANT_DROP},
    };
    builtin_rmsnorm problem = norm_problem;
    problem.dtype_y = HAL_KERNEL_F8E4M3;
    KERNEL("rmsnorm", "rmsnorm", builtin_rmsnorm_run, &problem, list);
}

/* Thirty-two blocks a row, in three launches; two turns for the squares. */
static void rmsnorm_in_parts(void)
{
    static const mutant list[] = {
        {"no bar.sync before squares", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync behind squares", "bar.sync", 1, MUTANT_DROP},
        {"squares are not kept", "st.shared.v4.f32", 0, MUTANT_DROP},
        {"no bar.sync of sums", "bar.sync", 2, MUTANT_DROP},
        {"a part ends with the row", "min.u32", 1, MUTANT_REPLACE, "min", "max", .from = "st.shared.v4.f32"},
    };
    builtin_rmsnorm problem = norm_problem;
    problem.parts = true;
    problem.residual = false;
    problem.rows = 1;
    problem.columns = 33000;
    problem.shape.keep = 0;
    problem.dtype_y = HAL_KERNEL_F8E4M3;
    KERNEL("rmsnorm", "rmsnorm", builtin_rmsnorm_run, &problem, list);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"gemm_mma", gemm_mma},
                                       {"gemm_mma_elements", gemm_mma_elements},
                                       {"gemm_tile", gemm_tile},
                                       {"gemm_tile_of_nothing", gemm_tile_of_nothing},
                                       {"gemm_small", gemm_small},
                                       {"gemm_small_edges", gemm_small_edges},
                                       {"gemm_small_columns", gemm_small_columns},
                                       {"activation", activation},
                                       {"transpose", transpose},
                                       {"softmax", softmax},
                                       {"rmsnorm", rmsnorm},
                                       {"rmsnorm_quantised", rmsnorm_quantised},
                                       {"rmsnorm_in_parts", rmsnorm_in_parts}};
    return SIM_MAIN("kernel_mutants", groups);
}
