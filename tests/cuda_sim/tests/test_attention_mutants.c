/* test_attention_mutants.c - libhal's CUDA attention is right under every timing, and each of its mutants is not. */
#include "builtin_attention.h"
#include "kernel_attention.h"
#include "mutate.h"
#include "sim_test.h"
#include <stdlib.h>

/* Two tiles of 16 rows, two blocks of keys, the last of 2; two pieces of the dimensions, the last not whole. */
static const builtin_attention plain = {.dtype = HAL_KERNEL_F32,
                                        .dtype_o = HAL_KERNEL_F32,
                                        .batch = 2,
                                        .q_heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 40,
                                        .value_dim = 36,
                                        .q_length = 9,
                                        .kv_length = 66,
                                        .pad = 3,
                                        .splits = 1};

/* Causal. */
static void any(void)
{
    static const mutant list[] = {
        {"no bar.sync before a piece", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync behind a piece", "bar.sync", 1, MUTANT_DROP},
        {"no bar.sync behind the scores", "bar.sync", 2, MUTANT_DROP},
        {"no bar.sync before the weights", "bar.sync", 3, MUTANT_DROP},
        {"no bar.sync behind values", "bar.sync", 5, MUTANT_DROP},
        {"no bar.sync before more values", "bar.sync", 6, MUTANT_DROP},
        {"no bar.sync before the sums", "bar.sync", 20, MUTANT_DROP},
        {"no bar.sync behind the sums", "bar.sync", MUTANT_LAST, MUTANT_DROP},
        {"the last keys are forgotten", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 63;"},
        {"the last row's keys are forgotten", "add.s32", 1, MUTANT_LAST_OPERAND, NULL, "0", ", 63;"},
        {"a tile sees a key less", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = ", 63;"},
        {"rows see a key less", "add.s32", 1, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = ", 63;"},
        {"eight threads for 16 rows", "shr.u32", 1, MUTANT_LAST_OPERAND, NULL, "4", ", 3;"},
        {"a row too many", "setp.ge.u32", 1, MUTANT_REPLACE, "ge", "gt"},
        {"a dimension too many", "setp.ge.u32", 2, MUTANT_REPLACE, "ge", "gt"},
        {"a key too many", "setp.ge.u32", 3, MUTANT_REPLACE, "ge", "gt"},
        {"a dimension of keys too many", "setp.ge.u32", 4, MUTANT_REPLACE, "ge", "gt"},
        {"half of the keys", "setp.lt.u32", 0, MUTANT_LAST_OPERAND, NULL, "1024", ", 2048;"},
        {"keys in lines of 32", "mad.lo.s32", 0, MUTANT_REPLACE, ", 33,", ", 32,", ", 33,"},
        {"the seventh key twice", "ld.shared.f32", 0, MUTANT_REPLACE, "+7392]", "+6336]", "+7392]"},
        {"a product is missing", "fma.rn.f32", 5, MUTANT_DROP},
        {"a score is not kept", "st.shared.f32", 3, MUTANT_DROP},
        {"a weight is elsewhere", "st.shared.f32", 1, MUTANT_REPLACE, "+64]", "+68]", "+64]"},
        {"sums are not shrunk", "mul.f32", 0, MUTANT_REPLACE, "mul", "max", .from = "+252]"},
        {"values in lines of 32", "mad.lo.s32", 0, MUTANT_REPLACE, ", 33,", ", 32,", .from = "+252]"},
        {"a lane's sum is taken off", "add.rn.f32", MUTANT_LAST, MUTANT_REPLACE, "add", "sub"},
        {"a column is not stored", "st.global.f32", 1, MUTANT_DROP},
        {"no lse", "st.global.f32", MUTANT_LAST, MUTANT_DROP},
        {"sequences by heads", "mov.u32", MUTANT_ALL, MUTANT_REPLACE, "%ctaid.z", "%ctaid.y", "%ctaid.z"},
    };
    builtin_attention p = plain;
    p.options = ATTENTION_BOTTOM_RIGHT | ATTENTION_HAS_LSE;
    KERNEL("attention", "attention", builtin_attention_run, &p, list);
}

/* Sequences that follow one another, a mask that hides keys whose values are NaN. */
static void any_packed(void)
{
    static const mutant list[] = {
        {"a sequence ends where it begins", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1;"},
        {"queries to the length", "min.u32", 0, MUTANT_REPLACE, "min", "max"},
        {"keys to the length", "min.u32", 1, MUTANT_REPLACE, "min", "max"},
        {"weights of zero count", "setp.eq.f32", 0, MUTANT_REPLACE, "0f00000000", "0fBF800000", "0f00000000",
         .from = "+252]"},
    };
    builtin_attention p = plain;
    p.options = ATTENTION_TOP_LEFT | ATTENTION_HAS_LSE | ATTENTION_HAS_CU_Q | ATTENTION_HAS_CU_K;
    p.mask = HAL_KERNEL_F32;
    KERNEL("attention", "attention", builtin_attention_run, &p, list);
}

/* Splits of keys in pages. */
static void any_paged(void)
{
    static const mutant list[] = {
        {"pages by the rest", "div.u32", 4, MUTANT_REPLACE, "div", "rem"},
        {"keys of a page by the sum", "sub.s32", 0, MUTANT_REPLACE, "sub", "add", .from = "ld.global.s32"},
        {"lengths are not looked at", "min.s32", 0, MUTANT_REPLACE, "min", "max"},
        {"the first split takes all", "min.u32", 2, MUTANT_REPLACE, "min", "max"},
        {"the greatest of two is the other", "setp.gt.f32", MUTANT_LAST, MUTANT_REPLACE, "gt", "lt", .until = "+248]"},
        {"a part's column is not stored", "st.global.f32", 0, MUTANT_DROP},
    };
    builtin_attention p = plain;
    p.options = ATTENTION_HAS_LENGTHS;
    p.page_size = 16;
    p.mask = HAL_KERNEL_F8E4M3;
    p.splits = 2;
    KERNEL("attention", "attention", builtin_attention_run, &p, list);
}

/* Two tiles of 64 rows, the last of 16; three blocks of keys, which take turns in two stages. */
static const builtin_attention tensor = {.dtype = HAL_KERNEL_BF16,
                                         .dtype_o = HAL_KERNEL_F32,
                                         .room = 64,
                                         .batch = 2,
                                         .q_heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 56,
                                         .value_dim = 56,
                                         .q_length = 40,
                                         .kv_length = 137,
                                         .pad = 8,
                                         .splits = 1};

static void mma(void)
{
    static const mutant list[] = {
        {"no wait for queries", "cp.async.wait_group", 0, MUTANT_DROP},
        {"no wait for a block", "cp.async.wait_group", 1, MUTANT_DROP},
        {"no bar.sync behind the copied queries", "bar.sync", 0, MUTANT_DROP},
        {"no bar.sync before keys", "bar.sync", 1, MUTANT_DROP},
        {"no bar.sync in the loop", "bar.sync", 2, MUTANT_DROP},
        {"wait for all but the queries", "cp.async.wait_group", 0, MUTANT_REPLACE, "0;", "1;"},
        {"wait for all but a block", "cp.async.wait_group", 1, MUTANT_REPLACE, "0;", "1;"},
        {"arrival behind the copied queries", "bar.sync", 0, MUTANT_REPLACE, "bar.sync \t0", "bar.arrive 0, 128"},
        {"arrival before keys", "bar.sync", 1, MUTANT_REPLACE, "bar.sync \t0", "bar.arrive 0, 128"},
        {"arrival in the loop", "bar.sync", 2, MUTANT_REPLACE, "bar.sync \t0", "bar.arrive 0, 128"},
        {"one warp's bar.sync in the loop", "bar.sync", 2, MUTANT_REPLACE, "bar.sync \t0", "bar.warp.sync 0xffffffff"},
        {"queries are waited for by elements", "cp.async.wait_group", 0, MUTANT_REPLACE, "cp.async.wait_group 0",
         "membar.cta"},
        {"no commit of queries", "cp.async.commit_group", 0, MUTANT_DROP},
        {"no commit of the first block", "cp.async.commit_group", 1, MUTANT_DROP},
        {"no commit in the loop", "cp.async.commit_group", 2, MUTANT_DROP},
        {"queries are not copied", "cp.async.cg", 1, MUTANT_DROP},
        {"keys are not copied", "cp.async.cg", 4, MUTANT_DROP},
        {"next values are not copied", "cp.async.cg", 20, MUTANT_DROP},
        {"8 bytes of a query", "selp.b32", 3, MUTANT_REPLACE, "16, 0,", "8, 0,", "16, 0,"},
        {"8 bytes of a value", "selp.b32", 8, MUTANT_REPLACE, "16, 0,", "8, 0,", "16, 0,"},
        {"a query line is elsewhere", "mad.lo.s32", 0, MUTANT_REPLACE, ", 72,", ", 64,", ", 72,"},
        {"queries' registers swapped", "ldmatrix", 0, MUTANT_SWAP, ""},
        {"keys are loaded transposed", "ldmatrix", 5, MUTANT_REPLACE, "x4.shared", "x4.trans.shared"},
        {"values are not loaded transposed", "ldmatrix", MUTANT_LAST, MUTANT_REPLACE, "x4.trans.shared", "x4.shared"},
        {"queries swapped in one product", "mma.sync", 3, MUTANT_SWAP, "{"},
        {"keys swapped in one product", "mma.sync", 9, MUTANT_SWAP, "{{"},
        {"weights swapped in one product", "mma.sync", 40, MUTANT_SWAP, "{"},
        {"a product of values is missing", "mma.sync", 62, MUTANT_DROP},
        {"the greatest of two lanes by shfl.up", "shfl.sync", 0, MUTANT_REPLACE, "bfly", "up"},
        {"the sum of two lanes by shfl.up", "shfl.sync", MUTANT_LAST, MUTANT_REPLACE, "bfly", "up"},
        {"the last keys are forgotten", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 63;"},
        {"the last row's keys are forgotten", "add.s32", 1, MUTANT_LAST_OPERAND, NULL, "0", ", 63;"},
        {"a tile sees a key less", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = ", 63;"},
        {"upper rows see a key less", "add.s32", 1, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = ", 63;"},
        {"lower rows see a key less", "add.s32", 2, MUTANT_LAST_OPERAND, NULL, "0", ", 1;", .from = ", 63;"},
        {"no lse", "st.global.f32", MUTANT_LAST, MUTANT_DROP},
        {"sequences by heads", "mov.u32", MUTANT_ALL, MUTANT_REPLACE, "%ctaid.z", "%ctaid.y", "%ctaid.z"},
    };
    builtin_attention p = tensor;
    p.options = ATTENTION_BOTTOM_RIGHT | ATTENTION_HAS_LSE;
    KERNEL("attention_mma", "attention_mma__3_64", builtin_attention_run, &p, list);
}

/* Hidden values that are NaN go another way. */
static void mma_holes(void)
{
    static const mutant list[] = {
        {"NaN is as good as a number", "bar.red.or.pred", 1, MUTANT_REPLACE, ".or.", ".and."},
        {"no bar.warp.sync behind the weights", "bar.warp.sync", 0, MUTANT_DROP},
        {"weights are not kept", "st.shared.u32", 3, MUTANT_DROP},
        {"pages by the rest", "div.u32", MUTANT_LAST, MUTANT_REPLACE, "div", "rem", .until = "cp.async.wait_group 0"},
        {"a part's column is not stored", "st.global.f32", 0, MUTANT_DROP},
    };
    builtin_attention p = tensor;
    p.mask = HAL_KERNEL_F8E4M3;
    p.page_size = 16;
    p.splits = 2;
    KERNEL("attention_mma", "attention_mma__3_64", builtin_attention_run, &p, list);
}

static void combine(void)
{
    static const mutant list[] = {
        {"the sum is taken for the greatest", "ld.global.f32", 0, MUTANT_REPLACE, "+-4]", "]", "+-4]"},
        {"parts without a sum", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "1", ", 2;"},
        {"the sum is a column", "add.s32", 1, MUTANT_LAST_OPERAND, NULL, "1", ", 2;"},
        {"a column is not stored", "st.global.f32", 0, MUTANT_DROP},
        {"lse is a difference", "add.rn.f32", MUTANT_LAST, MUTANT_REPLACE, "add", "sub"},
        {"a column too many", "setp.ge.u32", 0, MUTANT_REPLACE, "ge", "gt"},
        {"tokens by heads", "mov.u32", MUTANT_ALL, MUTANT_REPLACE, "%ctaid.y", "%ctaid.x", "%ctaid.y"},
        {"no lse", "st.global.f32", MUTANT_LAST, MUTANT_DROP},
    };
    builtin_attention p = plain;
    p.splits = 2;
    p.options = ATTENTION_HAS_LSE;
    KERNEL("attention_combine", "attention_combine", builtin_attention_combine_run, &p, list);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"any", any}, {"any_packed", any_packed}, {"any_paged", any_paged},
                                       {"mma", mma}, {"mma_holes", mma_holes},   {"combine", combine}};
    return SIM_MAIN("attention_mutants", groups);
}
