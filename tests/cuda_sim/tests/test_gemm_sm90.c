/* test_gemm_sm90.c - kernels/gemm_sm90.cu is right under every timing, and each of its mutants is not. */
#include "gemm_run.h"
#include "mutate.h"
#include "sim_test.h"
#include <stdio.h>
#include <stdlib.h>

static void right_numbers(void)
{
    static const gemm_case cases[] = {
        {"gemm_sm90", 1, 1, 128, 128, 64},       {"gemm_sm90", 1, 2, 200, 136, 200},
        {"gemm_sm90", 1, 1, 72, 264, 8},         {"gemm_sm90", 1, 2, 384, 256, 320},
        {"gemm_sm90_pair", 2, 2, 256, 128, 64},  {"gemm_sm90_pair", 2, 4, 300, 400, 136},
        {"gemm_sm90_pair", 2, 2, 520, 264, 264},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char *text = kernel_text(GEMM_SM90_PTX, cases[c].entry), name[16];
        snprintf(name, sizeof name, "case %zu", c);
        kernel_right(&(kernel_subject){text, cases[c].entry, gemm_run, &cases[c], false}, name);
        free(text);
    }
}

static void caught(const gemm_case *gemm, const mutant *list, size_t count, bool races)
{
    char *text = kernel_text(GEMM_SM90_PTX, gemm->entry);
    kernel_mutants(&(kernel_subject){text, gemm->entry, gemm_run, gemm, !races}, list, count);
    free(text);
}

/* A descriptor's constant part: see describe() in the kernel. */
#define DESCRIPTOR "4611686293305360384"

static void mutants(void)
{
    static const mutant list[] = {
        {"no fence.proxy.async", "fence.proxy.async", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.fence", "wgmma.fence", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.wait_group", "wgmma.wait_group", MUTANT_ALL, MUTANT_DROP},
        {"no wgmma.wait_group 0", "wgmma.wait_group.sync.aligned 0", MUTANT_ALL, MUTANT_DROP},
        {"wgmma.wait_group 2", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL, MUTANT_REPLACE, "aligned 1", "aligned 2"},
        {"no wgmma.commit_group", "wgmma.commit_group", MUTANT_ALL, MUTANT_DROP},
        {"no bulk wait_group.read", "cp.async.bulk.wait_group.read", MUTANT_ALL, MUTANT_DROP},
        {"no bulk wait_group at the end", "cp.async.bulk.wait_group 0", MUTANT_ALL, MUTANT_DROP},
        {"no bulk commit_group", "cp.async.bulk.commit_group", MUTANT_ALL, MUTANT_DROP},
        {"expects 16 bytes too few", "mbarrier.arrive.expect_tx", MUTANT_ALL, MUTANT_LAST_OPERAND, NULL, "32752"},
        {"expects 16 bytes too many", "mbarrier.arrive.expect_tx", MUTANT_ALL, MUTANT_LAST_OPERAND, NULL, "32784"},
        {"expects nothing", "mbarrier.arrive.expect_tx", MUTANT_ALL, MUTANT_LAST_OPERAND, NULL, "0"},
        {"producer never waits", "mbarrier.try_wait", 0, MUTANT_LAST_OPERAND, NULL, "1"},
        {"consumer's parity is always 0", "mbarrier.try_wait", 1, MUTANT_LAST_OPERAND, NULL, "0"},
        {"consumer's parity is always 1", "mbarrier.try_wait", 1, MUTANT_LAST_OPERAND, NULL, "1"},
        {"no release of a stage", "mbarrier.arrive.shared", MUTANT_ALL, MUTANT_DROP},
        {"one consumer empties a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "1"},
        {"three consumers empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "3"},
        {"two producers fill a stage", "mbarrier.init", 0, MUTANT_LAST_OPERAND, NULL, "2"},
        {"no bar.sync behind the init", "bar.sync \t0", MUTANT_ALL, MUTANT_DROP},
        {"no bar.sync of consumer 0", "bar.sync 1", MUTANT_ALL, MUTANT_DROP},
        {"no bar.sync before the boxes", "bar.sync 1", 0, MUTANT_DROP},
        {"no bar.sync behind the boxes", "bar.sync 2", 1, MUTANT_DROP},
        {"bar.sync of 256 threads", "bar.sync 1", 0, MUTANT_REPLACE, "128", "256"},
        {"bar.sync of the other consumer", "bar.sync 2", 0, MUTANT_REPLACE, "2, 128", "1, 128"},
        {"64-byte swizzle in descriptors", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR, "9223372311732748288"},
        {"no swizzle in descriptors", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR, "274877972480"},
        {"8 rows are 512 bytes", "or.b64", MUTANT_ALL, MUTANT_REPLACE, DESCRIPTOR, "4611686155866406912"},
        {"load coordinates swapped", "cp.async.bulk.tensor.2d.shared::cluster", 0, MUTANT_SWAP, ""},
        {"store coordinates swapped", "cp.async.bulk.tensor.2d.global", 0, MUTANT_SWAP, ""},
        {"a box is not loaded", "cp.async.bulk.tensor.2d.shared::cluster", 1, MUTANT_DROP},
        {"a box is not stored", "cp.async.bulk.tensor.2d.global", 1, MUTANT_DROP},
        {"B is transposed", "wgmma.mma_async", 2, MUTANT_REPLACE, "1, 1, 0, 0", "1, 1, 0, 1"},
        {"a product is missing", "wgmma.mma_async", 3, MUTANT_DROP},
        {"no fence behind the init", "fence.mbarrier_init", MUTANT_ALL, MUTANT_DROP},
        {"the fence is one of aliases", "fence.mbarrier_init", MUTANT_ALL, MUTANT_REPLACE,
         "mbarrier_init.release.cluster", "proxy.alias"},
        {"producer asks once", "@!done bra", 0, MUTANT_DROP},
        {"consumer asks once", "@!done bra", 1, MUTANT_DROP},
        {"a tile's last stage is not released", "mbarrier.arrive.shared", 1, MUTANT_DROP},
        {"bulk wait_group.read 1", "cp.async.bulk.wait_group.read", MUTANT_ALL, MUTANT_REPLACE, "read 0", "read 1"},
        {"half a warp elects", "elect.sync", MUTANT_ALL, MUTANT_REPLACE, "0xffffffff", "0xffff"},
        {"producer keeps 48 registers", "setmaxnreg.dec", 0, MUTANT_REPLACE, "40", "48"},
        {"consumers want 240 registers", "setmaxnreg.inc", 0, MUTANT_REPLACE, "232", "240"},
        {"producer gives nothing", "setmaxnreg.dec", 0, MUTANT_DROP},
        {"stages are aligned down", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "0", ", 1023;"},
        {"A is for the other consumer", "add.s32", 0, MUTANT_REPLACE, "-8192", "0", "-8192"},
        {"two slices on at once", "add.s32", 0, MUTANT_LAST_OPERAND, NULL, "128", ", 64;", .from = "tile.mbarrier"},
        {"producer's ring has two stages", "setp.eq.s32", 0, MUTANT_LAST_OPERAND, NULL, "2", ", 3;"},
        {"consumer's ring has two stages", "setp.eq.s32", 0, MUTANT_LAST_OPERAND, NULL, "2", ", 3;",
         .from = "setmaxnreg.inc"},
        {"producer's phase never changes", "xor.b32", 1, MUTANT_LAST_OPERAND, NULL, "0", .from = "setmaxnreg.dec"},
        {"boxes are transposed", "stmatrix", 4, MUTANT_REPLACE, "x4.shared", "x4.trans.shared"},
    };
    static const gemm_case gemm = {"gemm_sm90", 1, 1, 256, 128, 320};
    caught(&gemm, list, sizeof list / sizeof list[0], true);
}

static void mutants_of_the_pair(void)
{
    static const mutant list[] = {
        {"no cluster barrier at the start", "barrier.cluster", 0, MUTANT_DROP},
        {"no wait for the cluster", "barrier.cluster.wait", 0, MUTANT_DROP},
        {"only the own stage is released", "mapa", MUTANT_ALL, MUTANT_LAST_OPERAND, NULL, "0"},
        {"three consumers empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "3"},
        {"no fence behind the init", "fence.mbarrier_init", MUTANT_ALL, MUTANT_DROP},
        {"two consumers empty a stage", "mbarrier.init", 1, MUTANT_LAST_OPERAND, NULL, "2"},
        {"B is for the first block only",
         "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::"
         "bytes.multicast",
         MUTANT_ALL, MUTANT_LAST_OPERAND, NULL, "1"},
        {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL, MUTANT_DROP},
        {"no fence.proxy.async", "fence.proxy.async", MUTANT_ALL, MUTANT_DROP},
        {"no release of a stage", "mbarrier.arrive.release", MUTANT_ALL, MUTANT_DROP},
    };
    static const gemm_case gemm = {"gemm_sm90_pair", 2, 2, 256, 256, 320};
    caught(&gemm, list, sizeof list / sizeof list[0], true);
}

/* What waits for nothing is wrong by its numbers too where copies and products come late: no race check needed. */
static void late_mutants(void)
{
    static const mutant reads = {"no bulk wait_group.read", "cp.async.bulk.wait_group.read", MUTANT_ALL, MUTANT_DROP};
    static const mutant boxes = {"no bar.sync before the boxes", "bar.sync 1", 0, MUTANT_DROP};
    static const mutant products = {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", MUTANT_ALL,
                                    MUTANT_DROP};
    caught(&(gemm_case){"gemm_sm90", 1, 1, 256, 128, 320}, &reads, 1, false);
    caught(&(gemm_case){"gemm_sm90", 1, 1, 256, 128, 320}, &boxes, 1, false);
    caught(&(gemm_case){"gemm_sm90_pair", 2, 2, 256, 256, 320}, &products, 1, false);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"right_numbers", right_numbers},
                                       {"mutants", mutants},
                                       {"mutants_of_the_pair", mutants_of_the_pair},
                                       {"late_mutants", late_mutants}};
    return SIM_MAIN("gemm_sm90", groups);
}
