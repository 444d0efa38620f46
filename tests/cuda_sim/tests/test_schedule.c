/* test_schedule.c - where the lanes of a warp go, whose turn it is, and how launches end: divergence, spin loops,
 * deadlocks, blocks that wait for each other, watchdog, exits.
 * Expectations: PTX ISA "bra", "brx.idx", "exit", "trap", "nanosleep", "setmaxnreg", "griddepcontrol". */
#include "../ptx/ptx.h"
#include "sim_test.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

/* %to: the thread's word of the result; %r9: what is stored there at the end. */
#define BEGIN                                                                                                          \
    ".reg .pred %p<8>;\n.reg .b32 %r<16>, %lane;\n.reg .b64 %to, %rd<8>;\n"                                            \
    "mad.wide.u32 %to, %n, 4, g;\nmov.u32 %lane, %laneid;\n"
#define STORE "st.global.u32 [%to], %r9;\n"

static uint32_t word(uint32_t index)
{
    uint32_t value;
    memcpy(&value, sim_tester.memory + 4 * (size_t)index, sizeof value);
    return value;
}

static void set_word(uint32_t index, uint32_t value)
{
    memcpy(sim_tester.memory + 4 * (size_t)index, &value, sizeof value);
}

static bool runs(const char *where, const char *body, uint32_t blocks, uint32_t threads)
{
    bool good = sim_test_run(body, blocks, threads);
    sim_test_check(where, good, "%s", sim_tester.fault.text);
    return good;
}
#define RUNS(body, blocks, threads) runs(SIM_HERE, body, blocks, threads)

#define EXPECT(count, want)                                                                                            \
    for (uint32_t i = 0; i < (count); i++) {                                                                           \
        SIM_CHECK(word(i) == (want), "word %u is %u, not %u", i, word(i), (uint32_t)(want));                           \
    }

/* --- divergence --- */

static void nested_ifs(void)
{
    RUNS(BEGIN "mov.u32 %r9, 0;\n"
               "and.b32 %r0, %lane, 1;\nsetp.eq.u32 %p0, %r0, 0;\nand.b32 %r0, %lane, 2;\nsetp.eq.u32 %p1, %r0, 0;\n"
               "@%p0 bra EVEN;\n"
               "@%p1 bra ODD_LOW;\nadd.u32 %r9, %r9, 30;\nbra ODD_END;\nODD_LOW:\nadd.u32 %r9, %r9, 20;\nODD_END:\n"
               "add.u32 %r9, %r9, 1;\nbra END;\n"
               "EVEN:\n@!%p1 bra EVEN_HIGH;\nadd.u32 %r9, %r9, 200;\nbra EVEN_END;\n"
               "EVEN_HIGH:\nadd.u32 %r9, %r9, 300;\nEVEN_END:\nadd.u32 %r9, %r9, 2;\n"
               "END:\nactivemask.b32 %r1;\nsetp.ne.u32 %p2, %r1, 0xffffffff;\n@%p2 add.u32 %r9, %r9, 10000;\n" STORE,
         1, 64);
    EXPECT(64, i & 1 ? (i & 2 ? 31u : 21u) : (i & 2 ? 302u : 202u));
}

/* Lane l goes round l + 1 times; all are together again behind the loop, so its counter shows the lanes' sum. */
static void trip_counts(void)
{
    RUNS(BEGIN "mov.u32 %r9, 0;\nLOOP:\nadd.u32 %r9, %r9, 1;\nsetp.le.u32 %p0, %r9, %lane;\n@%p0 bra LOOP;\n"
               "activemask.b32 %r1;\nsetp.ne.u32 %p2, %r1, 0xffffffff;\n@%p2 add.u32 %r9, %r9, 10000;\n" STORE,
         1, 32);
    EXPECT(32, i + 1);
    SIM_CHECK(sim_tester.counters.warp_instructions == 5 + 3 + 3 * 32 + 5,
              "%u warp instructions: the lanes did not go together", (unsigned)sim_tester.counters.warp_instructions);
}

/* Two ways out of a loop within a loop. */
static void breaks(void)
{
    RUNS(BEGIN "mov.u32 %r9, 0;\nmov.u32 %r1, 0;\n"
               "OUTER:\nmov.u32 %r2, 0;\n"
               "INNER:\nadd.u32 %r9, %r9, 1;\nsetp.eq.u32 %p0, %r9, %lane;\n@%p0 bra OUT;\n"
               "add.u32 %r2, %r2, 1;\nsetp.gt.u32 %p1, %r2, %r1;\n@%p1 bra INNER_END;\nbra INNER;\n"
               "INNER_END:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 5;\n@%p2 bra OUTER;\n"
               "add.u32 %r9, %r9, 1000;\nOUT:\n" STORE,
         1, 32);
    EXPECT(32, i >= 1 && i <= 15 ? i : 1015u);
}

static void tables(void)
{
    const char *body = BEGIN "ts: .branchtargets L0, L1, L2;\nand.b32 %r0, %lane, 3;\nsetp.eq.u32 %p0, %r0, 3;\n"
                             "mov.u32 %r9, 7;\n@!%p0 brx.idx %r0, ts;\nbra END;\n"
                             "L0:\nmov.u32 %r9, 10;\nbra END;\nL1:\nmov.u32 %r9, 11;\nbra END;\nL2:\nmov.u32 %r9, 12;\n"
                             "END:\n" STORE;
    RUNS(body, 1, 32);
    EXPECT(32, (i & 3) == 3 ? 7 : 10 + (i & 3));
    SIM_CHECK(sim_tester.counters.warp_instructions == 5 + 6 + 6 + 2, "%u warp instructions",
              (unsigned)sim_tester.counters.warp_instructions);
    SIM_FAULTS(BEGIN "ts: .branchtargets L0, L1;\nmov.u32 %r0, 2;\nbrx.idx %r0, ts;\nL0:\nL1:\nret;\n", 32,
               SIM_FAULT_INSTRUCTION, "index 2 of 2");
}

static void uniform(void)
{
    SIM_FAULTS(BEGIN "setp.gt.u32 %p0, %lane, 3;\n@%p0 bra.uni END;\nadd.u32 %r9, %n, 1;\nEND:\n", 32,
               SIM_FAULT_DIVERGENT, "only lanes 0xfffffff0");
    RUNS(BEGIN "setp.gt.u32 %p0, %n, 31;\nmov.u32 %r9, 1;\n@%p0 bra.uni END;\nmov.u32 %r9, 2;\nEND:\n" STORE, 1, 64);
    EXPECT(64, i > 31 ? 1 : 2);
}

/* --- exits --- */

static void exits(void)
{
    RUNS(BEGIN "mov.u32 %r9, 5;\nsetp.lt.u32 %p0, %lane, 9;\n@%p0 exit;\n" STORE "setp.lt.u32 %p1, %lane, 20;\n"
               "@%p1 ret;\nmov.u32 %r9, 6;\n" STORE,
         1, 32);
    EXPECT(32, i < 9 ? 0 : i < 20 ? 5 : 6);
    /* A block that is no multiple of the warp size. */
    memset(sim_tester.memory, 0, 1024);
    RUNS(BEGIN "mov.u32 %r9, 5;\n" STORE, 1, 33);
    EXPECT(64, i < 33 ? 5 : 0);
    SIM_FAULTS(BEGIN "setp.eq.u32 %p0, %n, 34;\n@%p0 trap;\n", 64, SIM_FAULT_TRAP, "thread (34,0,0)");
}

/* --- registers --- */

static void undefined(void)
{
    SIM_FAULTS(BEGIN "add.u32 %r9, %r3, 1;\n" STORE, 32, SIM_FAULT_UNDEFINED, "%r3");
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %lane, 5;\n@%p0 mov.u32 %r3, 1;\nadd.u32 %r9, %r3, 1;\n" STORE, 32,
               SIM_FAULT_UNDEFINED, "thread (5,0,0)");
    SIM_FAULTS(BEGIN "@%p5 mov.u32 %r3, 1;\n", 32, SIM_FAULT_UNDEFINED, "guard %p5");
    RUNS(BEGIN "setp.lt.u32 %p0, %lane, 5;\n@%p0 mov.u32 %r3, 1;\nmov.u32 %r9, 8;\n@%p0 add.u32 %r9, %r3, 1;\n" STORE,
         1, 32);
    EXPECT(32, i < 5 ? 2 : 8);
    sim_tester.options.no_undefined = true;
    RUNS(BEGIN "add.u32 %r9, %r3, 1;\n" STORE, 1, 32);
}

/* --- spinning --- */

/* Lanes of one warp and of others take a lock by turns: a spinning lane must not keep its holder from going on. */
static void locks(void)
{
    const char *body =
        BEGIN "LOOP:\natom.global.cas.b32 %r0, [g+8192], 0, 1;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra LOOP;\n"
              "ld.volatile.global.u32 %r1, [g+8196];\nadd.u32 %r1, %r1, 1;\n"
              "st.volatile.global.u32 [g+8196], %r1;\nmembar.gl;\n"
              "atom.global.exch.b32 %r0, [g+8192], 0;\n";
    sim_tester.options.threads = 2;
    RUNS(body, 4, 64);
    SIM_CHECK(word(8196 / 4) == 256, "%u increments of 256", word(8196 / 4));
}

/* The first warp waits for the last one, with and without a yield. */
static void flags(void)
{
    const char *const waits[] = {"", "nanosleep.u32 100;\n"};
    for (int way = 0; way < 2; way++) {
        char body[1024];
        set_word(2048, 0);
        snprintf(
            body, sizeof body,
            "%ssetp.ge.u32 %%p0, %%n, 96;\n@%%p0 bra LAST;\n"
            "LOOP:\nld.volatile.global.u32 %%r0, [g+8192];\n%ssetp.eq.u32 %%p1, %%r0, 0;\n@%%p1 bra LOOP;\nbra END;\n"
            "LAST:\nmov.u32 %%r9, 77;\nst.volatile.global.u32 [g+8192], %%r9;\nEND:\n",
            BEGIN, waits[way]);
        RUNS(body, 1, 128);
    }
}

/* Lane 0 spins on a word of shared memory that its neighbours write behind it: by plain loads, and with a yield, which
 * gives the turn away at once. */
static void neighbours(void)
{
    const char *const waits[] = {"", "nanosleep.u32 100;\n"};
    sim_tester.options.no_races = true;
    for (int way = 0; way < 2; way++) {
        char body[1024];
        snprintf(
            body, sizeof body,
            "%s.shared .b32 flag;\nsetp.eq.u32 %%p0, %%lane, 0;\n@%%p0 st.shared.u32 [flag], 0;\n@!%%p0 bra OTHERS;\n"
            "LOOP:\n%sld.shared.u32 %%r0, [flag];\nsetp.eq.u32 %%p1, %%r0, 0;\n@%%p1 bra LOOP;\nret;\n"
            "OTHERS:\nmov.u32 %%r1, 1;\nst.shared.u32 [flag], %%r1;\n",
            BEGIN, waits[way]);
        sim_tester.options.max_instructions = way ? 100 : 100000;
        RUNS(body, 1, 32);
    }
}

/* Each block waits for the one before it, or for all the others: those that wait must let others begin. */
static void blocks_wait(void)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        sim_tester.options.threads = threads;
        memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
        RUNS(BEGIN "mov.u32 %r0, %ctaid.x;\nLOOP:\nld.volatile.global.u32 %r1, [g+8192];\nsetp.ne.u32 %p0, %r1, %r0;\n"
                   "@%p0 bra LOOP;\nadd.u32 %r1, %r0, 1;\nst.volatile.global.u32 [g+8192], %r1;\n",
             100, 1);
        memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
        RUNS(BEGIN "atom.global.add.u32 %r0, [g+8192], 1;\nmov.u32 %r2, %nctaid.x;\n"
                   "LOOP:\nld.volatile.global.u32 %r1, [g+8192];\nsetp.ne.u32 %p0, %r1, %r2;\n@%p0 nanosleep.u32 10;\n"
                   "@%p0 bra LOOP;\n",
             64, 1);
    }
}

/* --- the watchdog --- */

static void endless(void)
{
    sim_tester.options.max_instructions = 100000;
    SIM_FAULTS(BEGIN "LOOP:\nadd.u32 %lane, %lane, 1;\nbra LOOP;\n", 64, SIM_FAULT_ENDLESS, "warp 1 lanes 0xffffffff");
    SIM_FAULTS(BEGIN "LOOP:\nld.volatile.global.u32 %r0, [g+8192];\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra LOOP;\n", 1,
               SIM_FAULT_ENDLESS, "given up");
    /* Who waits for the one that spins is told too. */
    SIM_FAULTS(BEGIN
               "setp.ge.u32 %p0, %n, 32;\n@%p0 bra LOOP;\nbar.sync 0;\nLOOP:\nadd.u32 %lane, %lane, 1;\nbra LOOP;\n",
               64, SIM_FAULT_ENDLESS, "bar.sync: barrier 0: 32 of 64 threads");
    sim_tester.options.max_instructions = 1000;
    RUNS(BEGIN "mov.u32 %r9, 1;\n" STORE, 1, 32);
}

/* --- order, clocks, hints --- */

static void seeded(void)
{
    uint32_t orders[8];
    for (uint32_t seed = 0; seed < 8; seed++) {
        sim_tester.options.timing = SIM_SEEDED;
        sim_tester.options.seed = seed;
        orders[seed] = 0;
        for (int twice = 0; twice < 2; twice++) {
            set_word(2048, 0);
            RUNS(BEGIN "setp.ne.u32 %p0, %lane, 0;\n@%p0 bra END;\natom.global.add.u32 %r9, [g+8192], 1;\n" STORE
                       "END:\n",
                 1, 128);
            uint32_t order = word(0) | word(32) << 8 | word(64) << 16 | word(96) << 24;
            SIM_CHECK(!twice || order == orders[seed], "one seed, two orders");
            orders[seed] = order;
        }
    }
    bool differ = false;
    for (uint32_t seed = 1; seed < 8; seed++) {
        differ |= orders[seed] != orders[0];
    }
    SIM_CHECK(differ, "all seeds have the same order");
}

static void clocks(void)
{
    RUNS(BEGIN
         "mov.u64 %rd0, %clock64;\nadd.u32 %r0, %lane, 1;\nmov.u64 %rd1, %clock64;\nsetp.gt.u64 %p0, %rd1, %rd0;\n"
         "selp.u32 %r9, 1, 0, %p0;\n" STORE,
         1, 32);
    EXPECT(32, 1);
    RUNS(BEGIN "mov.u64 %rd0, %globaltimer;\nLOOP:\nmov.u64 %rd1, %globaltimer;\nsub.u64 %rd2, %rd1, %rd0;\n"
               "setp.lt.u64 %p0, %rd2, 1000;\n@%p0 bra LOOP;\n",
         1, 32);
}

static void hints(void)
{
    sim_test_target("sm_90a", "8.0");
    RUNS(BEGIN "setmaxnreg.dec.sync.aligned.u32 40;\ngriddepcontrol.wait;\ngriddepcontrol.launch_dependents;\n"
               "bar.sync 0;\nsetmaxnreg.inc.sync.aligned.u32 232;\n",
         1, 128);
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %lane, 5;\n@%p0 exit;\nsetp.lt.u32 %p0, %lane, 9;\n"
                     "@%p0 setmaxnreg.dec.sync.aligned.u32 40;\nLOOP:\nbar.sync 0;\n",
               128, SIM_FAULT_DIVERGENT, "divergent");
    SIM_REFUSED("setmaxnreg.dec.sync.aligned.u32 41;", "multiple of 8");
    SIM_REFUSED("setmaxnreg.dec.sync.aligned.u32 16;", "multiple of 8");
    SIM_REFUSED("setmaxnreg.inc.sync.aligned.u32 264;", "multiple of 8");
}

/* 168 registers for each of 384 threads: what one warpgroup gives is what the others can take. */
static void registers(void)
{
#define DEC(count)   "setmaxnreg.dec.sync.aligned.u32 " count ";\n"
#define INC(count)   "setmaxnreg.inc.sync.aligned.u32 " count ";\n"
#define GROUPS(a, b) BEGIN "setp.lt.u32 %p0, %n, 128;\n@%p0 bra FIRST;\n" b "bra END;\nFIRST:\n" a "END:\n"
    sim_test_target("sm_90a", "8.0");
    sim_tester.directives = ".maxntid 384 .minnctapersm 1";
    RUNS(GROUPS(DEC("40"), INC("232")), 1, 384);
    SIM_FAULTS(GROUPS(DEC("40"), INC("240")), 384, SIM_FAULT_DEADLOCK,
               "72 more registers for each of its threads are 2304, of which its block has 256 free");
    SIM_FAULTS(GROUPS(DEC("48"), INC("232")), 384, SIM_FAULT_DEADLOCK, "of which its block has 1024 free");
    SIM_FAULTS(GROUPS("", INC("232")), 384, SIM_FAULT_DEADLOCK, "of which its block has 0 free");
    RUNS(GROUPS("", INC("168") "bar.sync 1, 256;\n" DEC("168")), 1, 384);
    /* Given back by those who took, and taken by others. */
    RUNS(GROUPS(DEC("24") "bar.sync 1, 128;\nbar.sync 0;\n" INC("168"),
                INC("240") "bar.sync 2, 256;\n" DEC("168") "bar.sync 0;\n"),
         1, 384);
    SIM_FAULTS(GROUPS(INC("160"), ""), 384, SIM_FAULT_INSTRUCTION, "inc to 160 registers from 168");
    SIM_FAULTS(GROUPS(DEC("176"), INC("240")), 384, SIM_FAULT_INSTRUCTION, "dec to 176 registers from 168");
    SIM_FAULTS(GROUPS(DEC("40") "bar.sync 1, 128;\n" DEC("48"), ""), 384, SIM_FAULT_INSTRUCTION,
               "dec to 48 registers from 40");
    /* Two blocks on a multiprocessor: 80 each; what .maxnreg says, in eights; what fits, whatever it says. */
    sim_tester.directives = ".reqntid 384 .minnctapersm 2";
    SIM_FAULTS(GROUPS(DEC("88"), INC("240")), 384, SIM_FAULT_INSTRUCTION, "dec to 88 registers from 80");
    sim_tester.directives = ".maxnreg 100";
    SIM_FAULTS(GROUPS(DEC("112"), INC("240")), 384, SIM_FAULT_INSTRUCTION, "dec to 112 registers from 104");
    sim_tester.directives = ".maxntid 200 .minnctapersm 2 .maxnreg 200"; /* eight warps for seven */
    SIM_FAULTS(GROUPS(DEC("136"), INC("240")), 128, SIM_FAULT_INSTRUCTION, "dec to 136 registers from 128");
    sim_tester.directives = ".maxntid 128 .minnctapersm 1"; /* 255, which are allotted as 256 */
    RUNS(BEGIN DEC("256") "bar.sync 0;\n" INC("256"), 1, 128);
    /* Not known: left out. */
    sim_tester.directives = ".maxntid 384";
    RUNS(GROUPS("", INC("232")), 1, 384);
    /* All four warps of a group, by one instruction, and all before the next. */
    sim_tester.directives = ".maxntid 384 .minnctapersm 1";
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %n, 96;\n@%p0 " DEC("40") "bar.sync 0;\n", 128, SIM_FAULT_INSTRUCTION,
               "has ended without it");
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %n, 32;\n@%p0 exit;\n" DEC("40"), 128, SIM_FAULT_INSTRUCTION,
               "has ended without it");
    SIM_FAULTS(BEGIN "setp.lt.u32 %p0, %n, 64;\n@%p0 bra LOW;\n" DEC("40") "exit;\nLOW:\n" DEC("40"), 128,
               SIM_FAULT_INSTRUCTION, "instead");
    SIM_FAULTS(BEGIN DEC("48") DEC("40"), 128, SIM_FAULT_INSTRUCTION, "has not yet executed the one before");
    RUNS(BEGIN DEC("48") "bar.sync 0;\n" DEC("40"), 1, 128);
    SIM_FAULTS(BEGIN DEC("40"), 160, SIM_FAULT_INSTRUCTION, "in no warpgroup");
}

/* --- special registers --- */

static const char shape_text[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry shape(.param .u64 g)\n{\n"
    ".reg .b32 %r<32>;\n.reg .b64 %rd<3>;\nld.param.u64 %rd0, [g];\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %tid.y;\nmov.u32 %r2, %tid.z;\n"
    "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ctaid.y;\nmov.u32 %r5, %ctaid.z;\n"
    "mov.u32 %r6, %clusterid.x;\nmov.u32 %r7, %clusterid.y;\nmov.u32 %r8, %cluster_ctaid.x;\n"
    "mov.u32 %r9, %cluster_ctaid.y;\nmov.u32 %r10, %cluster_ctarank;\nmov.u32 %r11, %warpid;\n"
    "mov.u32 %r12, %nwarpid;\nmov.u32 %r13, %lanemask_lt;\nmov.u32 %r14, %lanemask_ge;\nmov.u32 %r15, %ntid.z;\n"
    "mov.u32 %r16, %nctaid.y;\nmov.u32 %r17, %laneid;\n"
    /* the thread in the grid: blocks in the order of ctaid, threads in that of tid */
    "mad.lo.s32 %r20, %r5, 4, %r4;\nmad.lo.s32 %r20, %r20, 4, %r3;\n"
    "mad.lo.s32 %r21, %r2, 3, %r1;\nmad.lo.s32 %r21, %r21, 5, %r0;\nmad.lo.s32 %r20, %r20, 60, %r21;\n"
    "mad.wide.u32 %rd1, %r20, 80, %rd0;\n"
    "st.global.v4.u32 [%rd1], {%r0, %r1, %r2, %r3};\nst.global.v4.u32 [%rd1+16], {%r4, %r5, %r6, %r7};\n"
    "st.global.v4.u32 [%rd1+32], {%r8, %r9, %r10, %r11};\nst.global.v4.u32 [%rd1+48], {%r12, %r13, %r14, %r15};\n"
    "st.global.v2.u32 [%rd1+64], {%r16, %r17};\nret;\n}\n";

/* A grid of 4x4x2 blocks in clusters of 2x2x1, blocks of 5x3x4 threads. */
static void shapes(void)
{
    enum { BLOCKS = 32, THREADS = 60, WORDS = 20 };
    static uint32_t seen[BLOCKS * THREADS][WORDS];
    char error[1024];
    uint64_t start = (uintptr_t)seen;
    sim_range range = {start, start + sizeof seen, false};
    ptx_module *module = ptx_module_load(shape_text, sizeof shape_text - 1, error, sizeof error);
    SIM_CHECK(module, "%s", error);
    sim_launch launch = {.function = module ? ptx_module_entry(module, "shape") : NULL,
                         .grid = {4, 4, 2},
                         .block = {5, 3, 4},
                         .cluster = {2, 2, 1},
                         .params = (const uint8_t *)&start,
                         .ranges = &range,
                         .range_count = 1};
    sim_fault fault = {0};
    SIM_CHECK(module && sim_launch_run(&launch, NULL, &fault), "%s", fault.text);
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        uint32_t t = i % THREADS, b = i / THREADS, x = b % 4, y = b / 4 % 4, below = (UINT32_C(1) << t % 32) - 1;
        const uint32_t want[] = {t % 5, t / 5 % 3,         t / 15, x, y,     b / 16, x / 2, y / 2, x % 2,
                                 y % 2, x % 2 + y % 2 * 2, t / 32, 2, below, ~below, 4,     4,     t % 32};
        SIM_CHECK(memcmp(seen[i], want, sizeof want) == 0, "thread %u of block %u sees other numbers", t, b);
    }
    ptx_module_free(module);
}

/* --- many threads and many blocks --- */

/* A grid's result, counters included, does not depend on the number of workers. */
static void workers(void)
{
    const char *body = BEGIN "mov.u32 %r9, 0;\nand.b32 %r0, %n, 127;\nmov.u32 %r1, 0;\n"
                             "LOOP:\nmad.lo.s32 %r9, %r9, 3, %n;\nadd.u32 %r1, %r1, 1;\nsetp.le.u32 %p0, %r1, %r0;\n"
                             "@%p0 bra LOOP;\n" STORE;
    sim_counters counters[2];
    static uint8_t results[2][16384];
    for (uint32_t threads = 1; threads <= 2; threads++) {
        memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
        sim_tester.options.threads = threads;
        RUNS(body, 32, 96);
        memcpy(results[threads - 1], sim_tester.memory, sizeof results[0]);
        counters[threads - 1] = sim_tester.counters;
    }
    SIM_CHECK(memcmp(results[0], results[1], sizeof results[0]) == 0, "two workers have another result");
    SIM_CHECK(memcmp(&counters[0], &counters[1], sizeof counters[0]) == 0, "two workers have other counters");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What a block costs: generous, as machines differ (0.1 s was measured). */
static void tiny_blocks(void)
{
    double start = seconds();
    RUNS("red.global.add.u32 [g], 1;\n", 100000, 32);
    SIM_CHECK(word(0) == 3200000, "%u threads", word(0));
    SIM_CHECK(seconds() - start < 10, "100000 blocks took %.1f s", seconds() - start);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"nested_ifs", nested_ifs},
        {"trip_counts", trip_counts},
        {"breaks", breaks},
        {"tables", tables},
        {"uniform", uniform},
        {"exits", exits},
        {"undefined", undefined},
        {"locks", locks},
        {"flags", flags},
        {"neighbours", neighbours},
        {"shapes", shapes},
        {"blocks_wait", blocks_wait},
        {"endless", endless},
        {"seeded", seeded},
        {"clocks", clocks},
        {"hints", hints},
        {"registers", registers},
        {"workers", workers},
        {"tiny_blocks", tiny_blocks},
    };
    return SIM_MAIN("schedule", groups);
}
