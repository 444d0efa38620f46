/* test_barriers.c - bar, barrier, barrier.cluster and mbarrier: what they order, what they count, and what is said of
 * those who never come.
 * Expectations: PTX ISA "bar, barrier", "barrier.cluster", "mbarrier" and its instructions. */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

/* %t: the thread in its block; %to: its word of the result; %buffer, %mb: shared words and mbarriers. */
#define BEGIN                                                                                                          \
    ".reg .pred %p<8>;\n.reg .b32 %r<16>, %lane, %t, %w, %buffer, %mb;\n.reg .b64 %to, %rd<8>;\n"                      \
    ".shared .align 16 .b8 buffer[4096];\n.shared .align 8 .b64 barriers[16];\n"                                       \
    "mad.wide.u32 %to, %n, 4, g;\nmov.u32 %lane, %laneid;\nmov.u32 %t, %tid.x;\nshr.u32 %w, %t, 5;\n"                  \
    "mov.u32 %buffer, buffer;\nmov.u32 %mb, barriers;\nsetp.eq.u32 %p7, %t, 0;\n"
#define STORE       "st.global.u32 [%to], %r9;\n"
#define INIT(count) "@%p7 mbarrier.init.shared.b64 [%mb], " count ";\nbar.sync 0;\n"
/* Waits for parity `p` at %mb + offset. */
#define WAIT(label, offset, p)                                                                                         \
    label ":\nmbarrier.try_wait.parity.shared.b64 %p6, [%mb+" offset "], " p ";\n@!%p6 bra " label ";\n"

static uint32_t word(uint32_t index)
{
    uint32_t value;
    memcpy(&value, sim_tester.memory + 4 * (size_t)index, sizeof value);
    return value;
}

static bool runs(const char *where, const char *body, uint32_t blocks, uint32_t threads)
{
    memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
    bool good = sim_test_run(body, blocks, threads);
    sim_test_check(where, good, "%s", sim_tester.fault.text);
    return good;
}
#define RUNS(body, blocks, threads) runs(SIM_HERE, body, blocks, threads)

#define EXPECT(count, want)                                                                                            \
    for (uint32_t i = 0; i < (count); i++) {                                                                           \
        SIM_CHECK(word(i) == (uint32_t)(want), "word %u is %u, not %u", i, word(i), (uint32_t)(want));                 \
    }

/* The last fault's text has this too. */
#define ALSO(part) SIM_CHECK(strstr(sim_tester.fault.text, part), "no \"%s\" in \"%s\"", part, sim_tester.fault.text)

static void sm_90(void)
{
    sim_test_target("sm_90a", "8.0");
}

/* --- bar --- */

static void sync(void)
{
    /* Each thread reads what its mirror image wrote, thrice. */
    RUNS(BEGIN "mad.lo.s32 %r0, %t, 4, %buffer;\nsub.u32 %r1, 127, %t;\nmad.lo.s32 %r1, %r1, 4, %buffer;\n"
               "mov.u32 %r9, %t;\nmov.u32 %r2, 0;\n"
               "LOOP:\nst.shared.u32 [%r0], %r9;\nbar.sync 0;\nld.shared.u32 %r9, [%r1];\nbar.sync 0;\n"
               "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p0, %r2, 3;\n@%p0 bra LOOP;\n" STORE,
         2, 128);
    EXPECT(256, 127 - i % 128);
    SIM_CHECK(sim_tester.counters.barriers == 2 * 6 * 4, "%u barriers", (unsigned)sim_tester.counters.barriers);
    /* A last warp that is not whole, and warps that have exited. */
    RUNS(BEGIN "setp.lt.u32 %p0, %t, 72;\nsetp.gt.u32 %p1, %t, 31;\nand.pred %p0, %p0, %p1;\n@%p0 exit;\n"
               "barrier.sync 0;\nmov.u32 %r9, 1;\n" STORE,
         1, 100);
    EXPECT(100, i < 32 || i >= 72);
    /* A warp that exits while the others wait. */
    RUNS(BEGIN "setp.eq.u32 %p0, %w, 1;\n@%p0 bra LATE;\nbar.sync 0;\nmov.u32 %r9, 1;\n" STORE "ret;\n"
               "LATE:\nmov.u32 %r0, 0;\nLOOP:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 1000;\n@%p1 bra LOOP;\n",
         1, 96);
    EXPECT(96, i / 32 != 1);
    /* Warps 2 and 3 never met warp 0, though all four used barrier 1. */
    SIM_FAULTS(BEGIN
               "@%p7 st.shared.u32 [%buffer], 5;\nsetp.ge.u32 %p0, %w, 2;\n@%p0 bra LATE;\n"
               "bar.sync 1, 64;\nbar.sync 1, 64;\nret;\n"
               "LATE:\nmov.u32 %r0, 0;\nLOOP:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 1000;\n@%p1 bra LOOP;\n"
               "bar.sync 1, 64;\nld.shared.u32 %r1, [%buffer];\n",
               128, SIM_FAULT_RACE, "ld.shared.u32");
}

/* Two warps hand values to two others: arrive on one side, sync on the other. */
static void producers(void)
{
    RUNS(BEGIN
         "setp.ge.u32 %p0, %w, 2;\nmov.u32 %r2, 0;\n@%p0 bra CONSUMER;\n"
         "mad.lo.s32 %r0, %t, 4, %buffer;\n"
         "PRODUCE:\nbar.sync 2, 128;\nadd.u32 %r3, %r2, %t;\nst.shared.u32 [%r0], %r3;\nbar.arrive 1, 128;\n"
         "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 10;\n@%p1 bra PRODUCE;\nmov.u32 %r9, 0;\nbra END;\n"
         "CONSUMER:\nmad.lo.s32 %r0, %t, 4, %buffer;\nmov.u32 %r9, 0;\n"
         "CONSUME:\nbar.arrive 2, 128;\nbar.sync 1, 128;\nld.shared.u32 %r3, [%r0+-256];\nadd.u32 %r9, %r9, %r3;\n"
         "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 10;\n@%p1 bra CONSUME;\nEND:\n" STORE,
         1, 128);
    EXPECT(128, i < 64 ? 0 : 45 + 10 * (i - 64));
}

static void reductions(void)
{
    RUNS(BEGIN "setp.ne.u32 %p0, %t, 50;\nbar.red.and.pred %p1, 0, %p0;\nbar.red.or.pred %p2, 0, !%p0;\n"
               "selp.u32 %r9, 1, 0, %p1;\n@%p2 add.u32 %r9, %r9, 2;\n" STORE,
         1, 96);
    EXPECT(96, 2);
    RUNS(BEGIN "setp.lt.u32 %p0, %t, 50;\nsetp.lt.u32 %p1, %t, 500;\nsetp.gt.u32 %p2, %t, 500;\n"
               "bar.red.popc.u32 %r0, 0, %p0;\nbarrier.red.popc.aligned.u32 %r1, 1, 96, !%p0;\n"
               "bar.red.and.pred %p3, 0, %p0;\nbar.red.and.pred %p4, 0, %p1;\n"
               "bar.red.or.pred %p5, 0, 96, %p0;\nbar.red.or.pred %p6, 0, %p2;\n"
               "mad.lo.s32 %r9, %r1, 100, %r0;\n"
               "@%p3 add.u32 %r9, %r9, 10000;\n@%p4 add.u32 %r9, %r9, 20000;\n@%p5 add.u32 %r9, %r9, 40000;\n"
               "@%p6 add.u32 %r9, %r9, 80000;\n" STORE,
         1, 96);
    EXPECT(96, 50 + 46 * 100 + 20000 + 40000);
}

/* Lanes of a warp come to barrier.sync one after another; the aligned form does not take that. */
static void divergent(void)
{
    RUNS(BEGIN "setp.lt.u32 %p0, %lane, 7;\nmov.u32 %r9, 1;\n@%p0 bra FEW;\nbarrier.sync 3;\nbra END;\n"
               "FEW:\nadd.u32 %r9, %r9, 1;\nbarrier.sync 3;\nEND:\n" STORE,
         1, 64);
    EXPECT(64, i % 32 < 7 ? 2 : 1);
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %lane, 7;\n@%p0 bra FEW;\nbar.sync 3;\nbra END;\nFEW:\nbar.sync 3;\nEND:\n", 64,
               SIM_FAULT_DIVERGENT, "lanes 0x0000007f are here, lanes 0xffffff80 will never come");
    /* A warp arrives when all of it is there: two halves of warps are none. */
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %lane, 16;\n@%p0 bra FEW;\nbarrier.sync 2, 32;\nFEW:\nbarrier.sync 1, 32;\n", 64,
               SIM_FAULT_DEADLOCK, "barrier 1: 0 of 32 threads, and a part of this warp");
    /* The upper half of warp 0 comes to the second barrier where the lower half has not left the first one. */
    RUNS(BEGIN "mov.u32 %r1, 0;\nsetp.lt.u32 %p0, %lane, 16;\nsetp.eq.u32 %p1, %w, 0;\n@!%p1 bra ONE;\n@%p0 bra LOW;\n"
               "barrier.sync 1;\nLOW:\nbarrier.sync 1;\n@!%p0 ld.shared.u32 %r9, [%buffer];\n@!%p0 bra STORE;\nadd.u32 "
               "%r1, %r1, 1;\n"
               "setp.lt.u32 %p2, %r1, 2;\n@%p2 bra LOW;\nbra END;\n"
               "ONE:\nbarrier.sync 1;\nst.shared.u32 [%buffer], 2;\nbarrier.sync 1;\n"
               "END:\nld.shared.u32 %r9, [%buffer];\nSTORE:\n" STORE,
         1, 64);
    EXPECT(64, 2);
    /* The others come later: that is no fault. */
    RUNS(BEGIN
         "setp.lt.u32 %p0, %lane, 7;\n@%p0 bra SKIP;\nmov.u32 %r9, 1;\nSKIP:\nmov.u32 %r9, 2;\nbar.sync 0;\n" STORE,
         1, 64);
    EXPECT(64, 2);
    /* A warp goes round a barrier that the others are at. */
    SIM_FAULTS(BEGIN "setp.eq.u32 %p0, %w, 1;\n@%p0 exit;\nsetp.eq.u32 %p0, %w, 0;\n@%p0 bra SKIP;\nbar.sync 0, 96;\n"
                     "SKIP:\nbar.sync 1, 96;\n",
               96, SIM_FAULT_DEADLOCK, "warp 0 lanes 0xffffffff");
    ALSO("bar.sync: barrier 1: 32 of 96 threads");
    ALSO("bar.sync: barrier 0: 32 of 96 threads");
}

static void bar_faults(void)
{
    SIM_FAULTS(BEGIN "setp.eq.u32 %p0, %w, 0;\n@%p0 bra A;\nbar.sync 0, 64;\nbra END;\nA:\nbar.sync 0, 96;\nEND:\n", 64,
               SIM_FAULT_INSTRUCTION, "barrier 0 is for");
    SIM_FAULTS(BEGIN "add.u32 %r0, %w, 48;\nbar.sync 0, %r0;\n", 32, SIM_FAULT_INSTRUCTION,
               "multiple of the warp size");
    SIM_FAULTS(BEGIN "add.u32 %r0, %w, 16;\nbar.sync %r0;\n", 32, SIM_FAULT_INSTRUCTION, "barrier 16 of 16");
    SIM_FAULTS(BEGIN "bar.arrive 1, 96;\nbar.arrive 1, 96;\n", 64, SIM_FAULT_INSTRUCTION, "arrives twice");
    SIM_FAULTS(BEGIN "setp.eq.u32 %p0, %w, 0;\n@%p0 bra A;\nbar.sync 0;\nbra END;\nA:\nbar.red.popc.u32 %r0, 0, %p0;\n"
                     "END:\n",
               64, SIM_FAULT_INSTRUCTION, "reduces for some");
    SIM_FAULTS(BEGIN "bar.sync %lane;\n", 32, SIM_FAULT_INSTRUCTION, "different barriers");
    SIM_REFUSED("bar.arrive 1;", "");
    SIM_REFUSED("bar.sync.foo 1;", "");
    SIM_REFUSED("barrier.red.popc.pred %q, 1, %q;", "");
}

static void warp_sync(void)
{
    RUNS(BEGIN "setp.lt.u32 %p0, %lane, 16;\nmov.u32 %r9, 1;\n@%p0 bra LOW;\nbar.warp.sync 0xffff0000;\nbra END;\n"
               "LOW:\nmov.u32 %r9, 2;\nbar.warp.sync 0xffff;\nEND:\nbar.warp.sync 0xffffffff;\n" STORE,
         1, 32);
    EXPECT(32, i < 16 ? 2 : 1);
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %lane, 16;\n@%p0 bra LOW;\nbar.warp.sync 0xffffffff;\nbra END;\n"
                     "LOW:\nbar.warp.sync 0xffffffff;\nEND:\n",
               32, SIM_FAULT_DIVERGENT, "will never come");
    SIM_FAULTS(BEGIN "bar.warp.sync 0xfffffffe;\n", 32, SIM_FAULT_DIVERGENT, "name 0xfffffffe");
    /* Those who exit are not waited for; those whom the guard keeps out may come back. */
    RUNS(BEGIN "setp.lt.u32 %p0, %lane, 16;\n@%p0 bra LOW;\nmov.u32 %r9, 2;\n" STORE "exit;\n"
               "LOW:\nbar.warp.sync 0xffffffff;\nmov.u32 %r9, 1;\n" STORE,
         1, 32);
    EXPECT(32, i < 16 ? 1 : 2);
    RUNS(BEGIN "setp.ge.u32 %p0, %lane, 16;\n@%p0 bra HIGH;\nbar.warp.sync 0xffffffff;\nmov.u32 %r9, 1;\n" STORE
               "HIGH:\nexit;\n",
         1, 32);
    RUNS(BEGIN "setp.lt.u32 %p0, %lane, 16;\nmov.u32 %r9, 4;\nLOOP:\n@%p0 bar.warp.sync 0xffffffff;\n@%p0 bra END;\n"
               "setp.eq.u32 %p0, %w, 0;\nbra LOOP;\nEND:\n" STORE,
         1, 32);
    EXPECT(32, 4);
    /* Two lanes wait for a third that waits for another warp, which does not come. */
    SIM_FAULTS(BEGIN "setp.eq.u32 %p0, %w, 1;\n@%p0 exit;\nsetp.eq.u32 %p0, %lane, 5;\n@%p0 bra FIVE;\n"
                     "bar.warp.sync 0xffffffff;\nFIVE:\nbarrier.sync 1, 64;\n",
               64, SIM_FAULT_DEADLOCK, "waits for lanes 0x00000020 of its warp");
}

/* --- mbarrier --- */

static void states(void)
{
    /* 3 arrivals: two leave the phase open, the last one ends it; the states show the counts before each. */
    RUNS(BEGIN
         "@!%p7 exit;\nmbarrier.init.shared.b64 [%mb], 3;\n"
         "mbarrier.arrive.shared.b64 %rd0, [%mb];\nmbarrier.pending_count.b64 %r0, %rd0;\n"
         "mbarrier.arrive.noComplete.shared.b64 %rd1, [%mb], 1;\nmbarrier.pending_count.b64 %r1, %rd1;\n"
         "mbarrier.test_wait.shared.b64 %p0, [%mb], %rd0;\n"
         "mbarrier.test_wait.parity.shared.b64 %p1, [%mb], 0;\nmbarrier.test_wait.parity.shared.b64 %p2, [%mb], 1;\n"
         "mbarrier.arrive.shared::cta.b64 %rd2, [%mb];\n"
         "mbarrier.test_wait.shared.b64 %p3, [%mb], %rd2;\n"
         "mbarrier.test_wait.parity.shared.b64 %p4, [%mb], 0;\nmbarrier.test_wait.parity.shared.b64 %p5, [%mb], 1;\n"
         "mad.lo.s32 %r9, %r1, 10, %r0;\n@%p0 add.u32 %r9, %r9, 100;\n@%p1 add.u32 %r9, %r9, 200;\n"
         "@%p2 add.u32 %r9, %r9, 400;\n@%p3 add.u32 %r9, %r9, 800;\n@%p4 add.u32 %r9, %r9, 1600;\n"
         "@%p5 add.u32 %r9, %r9, 3200;\n" STORE "mbarrier.inval.shared.b64 [%mb];\n"
         "mbarrier.init.shared.b64 [%mb], 1;\n",
         1, 32);
    EXPECT(1, 23 + 400 + 800 + 1600);
    sim_test_target("sm_90", "8.0");
    /* A drop lowers the later phases: 3 arrivals, then 2, of which one is the other thread's. */
    RUNS(BEGIN "@!%p7 exit;\nmbarrier.init.shared.b64 [%mb], 3;\nmbarrier.arrive.shared.b64 _, [%mb], 2;\n"
               "mbarrier.arrive_drop.shared.b64 %rd0, [%mb];\nmbarrier.arrive.shared.b64 %rd1, [%mb], 2;\n"
               "mbarrier.pending_count.b64 %r9, %rd1;\nmbarrier.test_wait.parity.shared.b64 %p0, [%mb], 1;\n"
               "@%p0 add.u32 %r9, %r9, 10;\n" STORE,
         1, 32);
    EXPECT(1, 12);
    /* Bytes: the phase ends when they are all there, whatever comes first. */
    RUNS(BEGIN "@!%p7 exit;\nmbarrier.init.shared.b64 [%mb], 1;\nmov.u32 %r9, 0;\n"
               "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%mb], 48;\n"
               "mbarrier.arrive.expect_tx.shared::cta.b64 %rd0, [%mb], 64;\n"
               "mbarrier.test_wait.shared.b64 %p0, [%mb], %rd0;\n@%p0 add.u32 %r9, %r9, 1;\n"
               "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%mb], 16;\n"
               "mbarrier.test_wait.acquire.cta.shared::cta.b64 %p0, [%mb], %rd0;\n@%p0 add.u32 %r9, %r9, 2;\n"
               "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%mb], 32;\nmbarrier.arrive.shared.b64 %rd1, [%mb];\n"
               "mbarrier.try_wait.parity.shared.b64 %p0, [%mb], 0, 100;\n@%p0 add.u32 %r9, %r9, 4;\n"
               "mbarrier.test_wait.parity.shared.b64 %p0, [%mb], 1;\n@%p0 add.u32 %r9, %r9, 8;\n" STORE,
         1, 32);
    EXPECT(1, 6);
}

#define ALONE BEGIN "@!%p7 exit;\n"
static void mbarrier_faults(void)
{
    sm_90();
    SIM_FAULTS(ALONE "mbarrier.arrive.shared.b64 _, [%mb];\n", 32, SIM_FAULT_UNDEFINED, "no mbarrier");
    SIM_FAULTS(ALONE "mbarrier.try_wait.parity.shared.b64 %p0, [%mb+8], 0;\n", 32, SIM_FAULT_UNDEFINED, "no mbarrier");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 1;\nmbarrier.init.shared.b64 [%mb], 1;\n", 32,
               SIM_FAULT_INSTRUCTION, "initialised already");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 1;\nmbarrier.inval.shared.b64 [%mb];\n"
                     "mbarrier.arrive.shared.b64 _, [%mb];\n",
               32, SIM_FAULT_UNDEFINED, "no mbarrier");
    SIM_FAULTS(ALONE "mov.u32 %r0, 0;\nmbarrier.init.shared.b64 [%mb], %r0;\n", 32, SIM_FAULT_INSTRUCTION,
               "count of 0");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb+4], 1;\n", 32, SIM_FAULT_MISALIGNED, "mbarrier.init");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 2;\nmbarrier.arrive.shared.b64 _, [%mb], 3;\n", 32,
               SIM_FAULT_INSTRUCTION, "3 arrivals");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 2;\nmbarrier.arrive.noComplete.shared.b64 %rd0, [%mb], 2;\n", 32,
               SIM_FAULT_INSTRUCTION, "completes the phase");
    SIM_FAULTS(ALONE
               "mbarrier.init.shared.b64 [%mb], 1;\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%mb], 1048575;\n"
               "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%mb], 1;\n",
               32, SIM_FAULT_INSTRUCTION, "tx-count");
    SIM_FAULTS(ALONE
               "mbarrier.init.shared.b64 [%mb], 1;\nst.shared.u32 [%mb], 0;\nmbarrier.arrive.shared.b64 _, [%mb];\n",
               32, SIM_FAULT_INSTRUCTION, "overwritten");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 1;\nmov.u32 %r0, 2;\n"
                     "mbarrier.try_wait.parity.shared.b64 %p0, [%mb], %r0;\n",
               32, SIM_FAULT_INSTRUCTION, "parity of 2");
    SIM_FAULTS(ALONE "mbarrier.init.shared.b64 [%mb], 1;\nmbarrier.arrive.shared.b64 %rd0, [%mb];\n"
                     "mbarrier.arrive.shared.b64 _, [%mb];\nmbarrier.test_wait.shared.b64 %p0, [%mb], %rd0;\n",
               32, SIM_FAULT_INSTRUCTION, "2 phases old");
    SIM_FAULTS(ALONE "mbarrier.init.b64 [g], 1;\n", 32, SIM_FAULT_ADDRESS, "shared");
    SIM_REFUSED("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%in];", "");
    SIM_REFUSED("mbarrier.arrive.sometimes.b64 _, [%in];", "sometimes");
}

/* A ring of 4 stages: one producer thread, 3 warps of consumers; 40 rounds. */
#define RING(full_parity, full_count, empty_count, arrive)                                                             \
    BEGIN                                                                                                              \
    "@!%p7 bra READY;\nmov.u32 %r0, 0;\n"                                                                              \
    "INIT:\nmad.lo.s32 %r1, %r0, 16, %mb;\nmbarrier.init.shared.b64 [%r1], " full_count ";\n"                          \
    "mbarrier.init.shared.b64 [%r1+8], " empty_count ";\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 4;\n"             \
    "@%p0 bra INIT;\nREADY:\nbar.sync 0;\n"                                                                            \
    "mov.u32 %r9, 0;\nmov.u32 %r0, 0;\nsetp.eq.u32 %p0, %w, 0;\n@!%p0 bra CONSUMER;\n@!%p7 bra END;\n"                 \
    "PRODUCE:\nand.b32 %r1, %r0, 3;\nmad.lo.s32 %r2, %r1, 16, %mb;\nshr.u32 %r3, %r0, 2;\nand.b32 %r3, %r3, 1;\n"      \
    "xor.b32 %r4, %r3, 1;\n"                                                                                           \
    "EMPTY:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r2+8], %r4;\n@!%p1 bra EMPTY;\n"                               \
    "mad.lo.s32 %r5, %r1, 4, %buffer;\nst.shared.u32 [%r5], %r0;\nmbarrier.arrive.shared.b64 _, [%r2];\n"              \
    "add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 40;\n@%p1 bra PRODUCE;\nbra END;\n"                                   \
    "CONSUMER:\nand.b32 %r1, %r0, 3;\nmad.lo.s32 %r2, %r1, 16, %mb;\nshr.u32 %r3, %r0, 2;\n"                           \
    "and.b32 %r3, %r3, 1;\nxor.b32 %r3, %r3, " full_parity ";\n"                                                       \
    "FULL:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r2], %r3;\n@!%p1 bra FULL;\n"                                   \
    "mad.lo.s32 %r5, %r1, 4, %buffer;\nld.shared.u32 %r6, [%r5];\nadd.u32 %r9, %r9, %r6;\n"                            \
    "setp.eq.u32 %p2, %lane, 0;\nbar.warp.sync 0xffffffff;\n" arrive "add.u32 %r0, %r0, 1;\n"                          \
    "setp.lt.u32 %p1, %r0, 40;\n@%p1 bra CONSUMER;\nEND:\n" STORE
#define FREE "@%p2 mbarrier.arrive.shared.b64 _, [%r2+8];\n"

static void rings(void)
{
    sm_90();
    for (uint32_t seed = 0; seed < 9; seed++) {
        sim_tester.options.timing = seed ? SIM_SEEDED : SIM_LATE;
        sim_tester.options.seed = seed;
        RUNS(RING("0", "1", "3", FREE), 2, 128);
        EXPECT(256, i % 128 < 32 ? 0 : 780);
    }
    sim_tester.options = (sim_options){.threads = 1};
    SIM_FAULTS(RING("0", "2", "3", FREE), 128, SIM_FAULT_DEADLOCK,
               "mbarrier.try_wait.parity.shared.b64: mbarrier at shared+0x");
    ALSO("phase 0: 1 of 2 arrivals and 0 bytes missing");
    SIM_FAULTS(RING("0", "1", "4", FREE), 128, SIM_FAULT_DEADLOCK, "phase 0: 1 of 4 arrivals");
    SIM_FAULTS(RING("0", "1", "3", ""), 128, SIM_FAULT_DEADLOCK, "phase 0: 3 of 3 arrivals");
    /* The wrong parity: the consumers read what is not there yet. */
    SIM_FAULTS(RING("1", "1", "3", FREE), 128, SIM_FAULT_UNDEFINED, "ld.shared.u32");
    /* More arrivals than the barrier knows of. */
    SIM_FAULTS(RING("0", "1", "3", "mbarrier.arrive.shared.b64 _, [%r2+8];\n"), 128, SIM_FAULT_DEADLOCK,
               "phase 32: 3 of 3 arrivals");
}

static void missing_bytes(void)
{
    sm_90();
    SIM_FAULTS(BEGIN INIT("1") "@%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%mb], 64;\n"
                               "@%p7 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%mb], 48;\n" WAIT("L", "0", "0"),
               64, SIM_FAULT_DEADLOCK, "phase 0: 0 of 1 arrivals and 16 bytes missing");
    ALSO("warp 1 lanes 0xffffffff");
    /* One lane waits, the others of its warp and another one do what it waits for. */
    RUNS(BEGIN INIT("63") "mov.u32 %r9, 3;\n@!%p7 mbarrier.arrive.shared.b64 _, [%mb];\n@!%p7 bra END;\n" WAIT(
             "L", "0", "0") "END:\n" STORE,
         1, 64);
    RUNS(BEGIN INIT("63") "mov.u32 %r9, 3;\n@%p7 bra WAITS;\nmbarrier.arrive.shared.b64 _, [%mb];\nbra "
                          "END;\nWAITS:\n" WAIT("L", "0", "0") "END:\n" STORE,
         1, 64);
    /* A warp that did not wait for the other one's phase does not know what it wrote. */
    SIM_FAULTS(BEGIN INIT("1") "@%p7 st.shared.u32 [%buffer], 5;\n@%p7 mbarrier.arrive.shared.b64 _, [%mb];\n"
                               "@%p7 mbarrier.arrive.shared.b64 _, [%mb];\nsetp.ne.u32 %p0, %t, 32;\n@%p0 exit;\n"
                               "mov.u32 %r0, 0;\nLOOP:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 1000;\n"
                               "@%p1 bra LOOP;\nmbarrier.arrive.shared.b64 %rd0, [%mb];\n"
                               "mbarrier.test_wait.shared.b64 %p2, [%mb], %rd0;\nld.shared.u32 %r1, [%buffer];\n",
               64, SIM_FAULT_RACE, "ld.shared.u32");
    /* test_wait polls. */
    RUNS(BEGIN INIT("32") "setp.eq.u32 %p0, %w, 0;\n@!%p0 mbarrier.arrive.shared.b64 %rd0, [%mb];\n@!%p0 bra END;\n"
                          "LOOP:\nmbarrier.test_wait.parity.shared.b64 %p1, [%mb], 0;\n@!%p1 bra LOOP;\nEND:\n",
         1, 64);
}

/* --- clusters --- */

static void clusters(void)
{
    sm_90();
    sim_tester.cluster[0] = 4;
    sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
    /* Each block writes to the next one's shared memory, and reads its own. */
    RUNS(BEGIN "mov.u32 %r0, %cluster_ctarank;\nadd.u32 %r1, %r0, 1;\nand.b32 %r1, %r1, 3;\n"
               "mad.lo.s32 %r2, %t, 4, %buffer;\nmapa.shared::cluster.u32 %r3, %r2, %r1;\n"
               "getctarank.shared::cluster.u32 %r5, %r3;\n"
               "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
               "st.shared::cluster.u32 [%r3], %n;\n"
               "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n"
               "ld.shared.u32 %r9, [%r2];\nmad.lo.s32 %r9, %r5, 1000, %r9;\n" STORE
               "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n",
         8, 64);
    EXPECT(512, (i / 64 + 1) % 4 * 1000 + (i / 64 % 4 ? i - 64 : i + 192));
    /* Arrivals from afar: block 0 waits for all four. */
    RUNS(BEGIN "@%p7 mbarrier.init.shared.b64 [%mb], 4;\nfence.mbarrier_init.release.cluster;\n"
               "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;\n"
               "mov.u32 %r0, 0;\nmapa.shared::cluster.u32 %r1, %mb, %r0;\n"
               "@%p7 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];\n"
               "mov.u32 %r2, %cluster_ctarank;\nsetp.ne.u32 %p0, %r2, 0;\nmov.u32 %r9, 4;\n@%p0 bra END;\n"
               "LOOP:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%mb], 0;\n@!%p1 bra LOOP;\n"
               "END:\n" STORE,
         4, 64);
    /* Specials. */
    RUNS(BEGIN "mov.u32 %r0, %clusterid.x;\nmov.u32 %r1, %cluster_ctaid.x;\nmov.u32 %r2, %nclusterid.x;\n"
               "mov.u32 %r3, %cluster_nctarank;\nmad.lo.s32 %r9, %r0, 10, %r1;\nmad.lo.s32 %r9, %r2, 100, %r9;\n"
               "mad.lo.s32 %r9, %r3, 1000, %r9;\n" STORE,
         8, 32);
    EXPECT(256, 4000 + 200 + i / 128 * 10 + i / 32 % 4);
}

static bool cluster_faults_in(const char *where, const char *body, sim_fault_kind kind, const char *text)
{
    bool good = sim_test_run(body, 2, 32);
    sim_test_check(where, !good && sim_tester.fault.kind == kind && strstr(sim_tester.fault.text, text),
                   "fault %d \"%s\", not %d with \"%s\"", (int)sim_tester.fault.kind, sim_tester.fault.text, (int)kind,
                   text);
    return !good;
}
#define CLUSTER_FAULTS(body, kind, text) cluster_faults_in(SIM_HERE, body, kind, text)

static void cluster_faults(void)
{
    sm_90();
    sim_tester.cluster[0] = 2;
    sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
    CLUSTER_FAULTS(BEGIN "barrier.cluster.wait;\n", SIM_FAULT_INSTRUCTION, "has not arrived");
    CLUSTER_FAULTS(BEGIN "barrier.cluster.arrive;\nbarrier.cluster.arrive;\n", SIM_FAULT_INSTRUCTION, "arrives again");
    CLUSTER_FAULTS(BEGIN "mov.u32 %r0, 2;\nmapa.shared::cluster.u32 %r1, %mb, %r0;\n", SIM_FAULT_ADDRESS,
                   "rank 2 of 2 blocks");
    /* A block that leaves too early for its peer's arrival. */
    CLUSTER_FAULTS(BEGIN "@%p7 mbarrier.init.shared.b64 [%mb], 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                         "mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 exit;\n"
                         "mov.u32 %r2, 0;\nLOOP:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p0, %r2, 1000;\n@%p0 bra LOOP;\n"
                         "mov.u32 %r0, 0;\nmapa.shared::cluster.u32 %r1, %mb, %r0;\n"
                         "@%p7 mbarrier.arrive.shared::cluster.b64 _, [%r1];\n",
                   SIM_FAULT_ADDRESS, "exited");
    CLUSTER_FAULTS(BEGIN "mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra ZERO;\n"
                         "barrier.cluster.arrive;\nbarrier.cluster.wait;\nZERO:\nbar.sync 1, 64;\n",
                   SIM_FAULT_DEADLOCK, "barrier.cluster, phase 0: 32 of 64 threads");
    /* A block that exits is not waited for. */
    SIM_CHECK(sim_test_run(BEGIN "mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra ZERO;\n"
                                 "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\nZERO:\nmov.u32 %r0, 0;\n"
                                 "LOOP:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p1, %r0, 1000;\n@%p1 bra LOOP;\n",
                           2, 32),
              "%s", sim_tester.fault.text);
    /* The other block's barrier cannot be waited for. */
    CLUSTER_FAULTS(BEGIN
                   "@%p7 mbarrier.init.shared.b64 [%mb], 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                   "cvt.u64.u32 %rd0, %mb;\ncvta.shared.u64 %rd0, %rd0;\nmov.u32 %r0, %cluster_ctarank;\n"
                   "xor.b32 %r0, %r0, 1;\nmapa.u64 %rd1, %rd0, %r0;\nmbarrier.try_wait.parity.b64 %p0, [%rd1], 1;\n",
                   SIM_FAULT_ADDRESS, "own block's");
}

/* What ptxas refuses for a target, or altogether. */
static void targets(void)
{
    SIM_REFUSED("barrier.cluster.arrive;", "sm_90");
    SIM_REFUSED("barrier.cluster.wait;", "sm_90");
    SIM_REFUSED("mbarrier.try_wait.shared.b64 %q, [%x], %in;", "sm_90");
    SIM_REFUSED("mbarrier.test_wait.relaxed.cta.shared.b64 %q, [%x], %in;", "sm_90");
    SIM_REFUSED("mbarrier.test_wait.acquire.cluster.shared.b64 %q, [%x], %in;", "sm_90");
    SIM_REFUSED("mbarrier.arrive.shared.b64 %in, [%x], 2;", "sm_90");
    SIM_REFUSED("mbarrier.arrive.expect_tx.shared.b64 %in, [%x], 2;", "sm_90");
    SIM_REFUSED("mbarrier.arrive.shared::cluster.b64 _, [%x];", "sm_90");
    SIM_REFUSED("mbarrier.expect_tx.relaxed.cta.shared.b64 [%x], 2;", "sm_90");
    SIM_REFUSED("mbarrier.complete_tx.relaxed.cta.shared.b64 [%x], 2;", "sm_90");
    SIM_REFUSED("mapa.u64 %in, %in, %x;", "sm_90");
    SIM_REFUSED("getctarank.u64 %x, %in;", "sm_90");
    SIM_REFUSED("elect.sync %x|%q, -1;", "sm_90");
    SIM_REFUSED("griddepcontrol.wait;", "sm_90");
    SIM_REFUSED("setmaxnreg.inc.sync.aligned.u32 40;", "sm_90a");
    sim_test_target("sm_90", "8.0");
    SIM_REFUSED("setmaxnreg.inc.sync.aligned.u32 40;", "sm_90a");
    SIM_REFUSED("mbarrier.arrive.shared::cluster.b64 %in, [%x];", "state");
    SIM_REFUSED("mbarrier.arrive.shared.b64 [%x];", "");
    SIM_REFUSED("mbarrier.init.shared::cluster.b64 [%x], 1;", "own block");
    SIM_REFUSED("mbarrier.arrive.release.gpu.shared.b64 _, [%x];", "scope");
    SIM_REFUSED("barrier.cluster.wait.relaxed;", "relaxed");
    SIM_REFUSED("bar.sync 16;", "16");
    SIM_REFUSED("bar.sync 0, 33;", "33");
    SIM_REFUSED("shfl.sync.idx.b32 _|%q, %x, 1, 31, -1;", "left out");
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"sync", sync},
        {"producers", producers},
        {"reductions", reductions},
        {"divergent", divergent},
        {"bar_faults", bar_faults},
        {"warp_sync", warp_sync},
        {"states", states},
        {"mbarrier_faults", mbarrier_faults},
        {"rings", rings},
        {"missing_bytes", missing_bytes},
        {"clusters", clusters},
        {"cluster_faults", cluster_faults},
        {"targets", targets},
    };
    return SIM_MAIN("barriers", groups);
}
