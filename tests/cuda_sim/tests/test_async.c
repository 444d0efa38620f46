/* test_async.c - cp.async and its groups, bulk copies without tensors, and the times at which they are performed.
 * Expectations: PTX ISA, "cp.async", "cp.async.wait_group", "cp.async.mbarrier.arrive", "cp.async.bulk",
 * "cp.async.bulk.wait_group", "cp.reduce.async.bulk". */
#include "sim_test.h"
#include <string.h>

enum { THREADS = 32, BYTES = 16 * THREADS, FROM = 1024, NUMBER = 2048, SEEDS = 8, TIMINGS = 2 + SEEDS };

/* Each thread has 16 bytes: at %from, at %to, and at %row of shared memory, which is filled with 0x77. */
#define BEGIN                                                                                                          \
    ".reg .pred %first, %p1, %p2;\n.reg .b32 %row, %buffer, %barrier, %number, %fill, %r<9>;\n"                        \
    ".reg .b64 %from, %dest, %rd<9>;\n"                                                                                \
    ".shared .align 128 .b8 buffer[1024];\n.shared .align 8 .b64 barrier;\n"                                           \
    "mov.u32 %buffer, buffer;\nmov.u32 %barrier, barrier;\n"                                                           \
    "ld.global.u32 %number, [g+2048];\n"                                                                               \
    "shl.b32 %r0, %n, 4;\nadd.u32 %row, %buffer, %r0;\n"                                                               \
    "cvt.u64.u32 %rd0, %r0;\nadd.u64 %dest, g, %rd0;\nadd.u64 %from, %dest, 1024;\n"                                   \
    "mov.u32 %fill, 0x77777777;\nst.shared.v4.u32 [%row], {%fill, %fill, %fill, %fill};\n"                             \
    "setp.eq.u32 %first, %n, 0;\n"
#define END                                                                                                            \
    "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%row];\n"                                                                 \
    "st.global.v4.u32 [%dest], {%r1, %r2, %r3, %r4};\n"

static void prepare(uint32_t time, uint32_t number)
{
    sim_test_target("sm_90a", "8.6");
    sim_tester.options.timing = time == 0 ? SIM_EAGER : time == 1 ? SIM_LATE : SIM_SEEDED;
    sim_tester.options.seed = time;
    memset(sim_tester.memory, 0xee, BYTES);
    for (uint32_t i = 0; i < BYTES; i++) {
        sim_tester.memory[FROM + i] = (uint8_t)(i * 7 + 3);
    }
    memcpy(sim_tester.memory + NUMBER, &number, sizeof number);
}

/* Of every 16 bytes: `copied` from the source, then zeros up to `written`, then what was there. */
static void expect_rows(const char *where, uint32_t copied, uint32_t written)
{
    const uint8_t *to = sim_tester.memory, *from = to + FROM;
    for (uint32_t i = 0; i < BYTES; i++) {
        uint32_t at = i % 16, want = at < copied ? from[i] : at < written ? 0 : 0x77;
        if (to[i] != want) {
            sim_test_check(where, false, "byte %u is %#x, not %#x", i, to[i], want);
            return;
        }
    }
}

static void works(const char *where, const char *body, uint32_t number, uint32_t copied, uint32_t written)
{
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t, number);
        bool good = sim_test_run(body, 1, THREADS);
        sim_test_check(where, good, "timing %u: %s", t, sim_tester.fault.text);
        if (good) {
            expect_rows(where, copied, written);
        }
    }
}

static void faults(const char *where, const char *body, uint32_t number, sim_fault_kind kind)
{
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t, number);
        sim_test_faults(where, body, THREADS, kind, "");
    }
}

#define WORKS(body, number, copied, written) works(SIM_HERE, BEGIN body END, number, copied, written)
#define FAULTS(body, number, kind)           faults(SIM_HERE, BEGIN body END, number, kind)
#define REFUSED(body, message)               SIM_REFUSED(BEGIN body END, message)

#define WAITED                               "cp.async.commit_group;\ncp.async.wait_group 0;\n"

static void sizes(void)
{
    WORKS("cp.async.ca.shared.global [%row], [%from], 4;\n" WAITED, 0, 4, 4);
    WORKS("cp.async.ca.shared::cta.global [%row], [%from], 8;\n" WAITED, 0, 8, 8);
    WORKS("cp.async.ca.shared.global.L2::128B [%row], [%from], 16;\n" WAITED, 0, 16, 16);
    WORKS("cp.async.cg.shared.global [%row], [%from], 16;\n" WAITED, 0, 16, 16);
    WORKS("cp.async.ca.shared.global [%row+4], [%from+4], 4;\ncp.async.ca.shared.global [%row], [%from], 4;\n" WAITED,
          0, 8, 8);
    WORKS("mov.b64 %rd5, 0;\ncp.async.cg.shared.global.L2::cache_hint [%row], [%from], 16, %rd5;\n" WAITED, 0, 16, 16);
    WORKS("cp.async.cg.shared.global [%row], [%from], 16;\ncp.async.wait_all;\n", 0, 16, 16);
}

static void fills_with_zeros(void)
{
#define SIZED "cp.async.cg.shared.global [%row], [%from], 16, %number;\n" WAITED
    for (uint32_t bytes = 0; bytes <= 16; bytes++) {
        WORKS(SIZED, bytes, bytes, 16);
    }
    WORKS("cp.async.ca.shared.global [%row], [%from], 8, 3;\n" WAITED, 0, 3, 8);
    /* Nothing is read: the address may be anything. */
    WORKS("mov.b64 %from, 0;\ncp.async.cg.shared.global [%row], [%from], 16, 0;\n" WAITED, 0, 0, 16);
#define IGNORED "setp.ne.u32 %p1, %number, 0;\ncp.async.ca.shared.global [%row], [%from], 8, %p1;\n" WAITED
    WORKS(IGNORED, 0, 8, 8);
    WORKS(IGNORED, 1, 0, 8);
    FAULTS(SIZED, 17, SIM_FAULT_INSTRUCTION);
}

static void groups_of_copies(void)
{
    /* Two groups: the older one is over when one may be pending. */
#define TWO_GROUPS                                                                                                     \
    "cp.async.ca.shared.global [%row], [%from], 8;\ncp.async.commit_group;\n"                                          \
    "cp.async.ca.shared.global [%row+8], [%from+8], 8;\ncp.async.commit_group;\n"
    WORKS(TWO_GROUPS "cp.async.wait_group 1;\n"
                     "ld.shared.v2.u32 {%r5, %r6}, [%row];\ncp.async.wait_group 0;\n",
          0, 16, 16);
    FAULTS(TWO_GROUPS "cp.async.wait_group 1;\nld.shared.v2.u32 {%r5, %r6}, [%row+8];\n", 0, SIM_FAULT_RACE);
    /* Empty groups count. */
    WORKS(TWO_GROUPS "cp.async.commit_group;\ncp.async.commit_group;\ncp.async.wait_group 2;\n", 0, 16, 16);
    /* What is not committed is not waited for. */
    FAULTS("cp.async.ca.shared.global [%row], [%from], 8;\ncp.async.wait_group 0;\n", 0, SIM_FAULT_RACE);
    FAULTS("cp.async.ca.shared.global [%row], [%from], 8;\n", 0, SIM_FAULT_RACE);
    FAULTS("cp.async.ca.shared.global [%row], [%from], 8;\ncp.async.commit_group;\n", 0, SIM_FAULT_RACE);
    /* A write to the destination before the wait. */
    FAULTS("cp.async.ca.shared.global [%row], [%from], 8;\nst.shared.u32 [%row], %fill;\n" WAITED, 0, SIM_FAULT_RACE);
    /* Another thread's copy: its wait is not enough without a barrier. */
#define NEIGHBOUR "xor.b32 %r8, %row, 16;\n"
    FAULTS(NEIGHBOUR "cp.async.ca.shared.global [%row], [%from], 8;\n" WAITED "ld.shared.u32 %r5, [%r8];\n", 0,
           SIM_FAULT_RACE);
    WORKS(NEIGHBOUR "cp.async.ca.shared.global [%row], [%from], 8;\n" WAITED "bar.sync 0;\nld.shared.u32 %r5, [%r8];\n",
          0, 8, 8);
    /* Lanes in different groups. */
    WORKS("@%first cp.async.commit_group;\n@%first cp.async.commit_group;\n"
          "cp.async.ca.shared.global [%row], [%from], 8;\n" WAITED,
          0, 8, 8);
    /* The others' wait is enough for theirs. */
    WORKS("@%first cp.async.commit_group;\ncp.async.ca.shared.global [%row], [%from], 8;\ncp.async.commit_group;\n"
          "@!%first cp.async.wait_group 0;\n@!%first ld.shared.u32 %r5, [%row];\ncp.async.wait_group 0;\n",
          0, 8, 8);
}

/* As late as a wait allows, the bytes are not there before; at once, they are. Both without the race check. */
static void timing(void)
{
    for (uint32_t t = 0; t < 2; t++) {
        const char *body = BEGIN "cp.async.ca.shared.global [%row], [%from], 8;\ncp.async.commit_group;\n" END;
        prepare(t, 0);
        sim_tester.options.no_races = true;
        bool good = sim_test_run(body, 1, THREADS);
        SIM_CHECK(good, "%s", sim_tester.fault.text);
        expect_rows(SIM_HERE, t == 0 ? 8 : 0, t == 0 ? 8 : 0);
    }
}

/* 32 lanes of 16 bytes are 16 sectors. In a row they meet no bank twice; 128 bytes apart, a quarter warp takes 8
 * rounds. */
static void counted(void)
{
    prepare(0, 0);
    bool good = sim_test_run(BEGIN "cp.async.cg.shared.global [%row], [%from], 16;\n" WAITED, 1, THREADS);
    sim_counters row = sim_tester.counters;
    SIM_CHECK(good, "%s", sim_tester.fault.text);
    /* ld.global of the number reads 4 bytes a lane of one sector; st.shared writes each row first. */
    SIM_CHECK(row.async_copies == 1 && row.global_read_bytes == BYTES + 4 * THREADS && row.global_read_sectors == 17,
              "%llu copies, %llu bytes, %llu sectors", (unsigned long long)row.async_copies,
              (unsigned long long)row.global_read_bytes, (unsigned long long)row.global_read_sectors);
    SIM_CHECK(row.shared_write_bytes == 2 * BYTES && row.shared_conflicts == 0, "%llu bytes, %llu conflicts",
              (unsigned long long)row.shared_write_bytes, (unsigned long long)row.shared_conflicts);
    good = sim_test_run(".reg .b32 %to, %r0;\n.reg .b64 %from;\n.shared .align 128 .b8 buffer[4096];\n"
                        "mov.u32 %r0, buffer;\nmad.lo.u32 %to, %n, 128, %r0;\nmad.wide.u32 %from, %n, 16, g;\n"
                        "cp.async.cg.shared.global [%to], [%from], 16;\ncp.async.wait_all;\n",
                        1, THREADS);
    SIM_CHECK(good && sim_tester.counters.shared_conflicts == 4 * 7, "%llu conflicts: %s",
              (unsigned long long)sim_tester.counters.shared_conflicts, sim_tester.fault.text);
}

static void arrival_of_copies(void)
{
#define INIT(count)                                                                                                    \
    "@%first mbarrier.init.shared::cta.b64 [%barrier], " count ";\nbar.sync 0;\n"                                      \
    "cp.async.cg.shared.global [%row], [%from], 16;\n"
#define WAIT_FOR_PHASE                                                                                                 \
    "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%barrier], 0;\n@!%p2 bra again;\n"                         \
    "xor.b32 %r8, %row, 16;\nld.shared.u32 %r5, [%r8];\n"
    WORKS(INIT("32") "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%barrier];\n" WAIT_FOR_PHASE, 0, 16, 16);
    /* Without .noinc it adds the arrival that it makes: the threads' own are still missing. */
    WORKS(INIT("32") "cp.async.mbarrier.arrive.shared.b64 [%barrier];\n"
                     "mbarrier.arrive.shared::cta.b64 %rd4, [%barrier];\n" WAIT_FOR_PHASE,
          0, 16, 16);
    FAULTS(INIT("32") "cp.async.mbarrier.arrive.shared.b64 [%barrier];\n" WAIT_FOR_PHASE, 0, SIM_FAULT_DEADLOCK);
    /* Arriving oneself says nothing about copies. */
    FAULTS(INIT("32") "mbarrier.arrive.shared::cta.b64 %rd4, [%barrier];\n" WAIT_FOR_PHASE, 0, SIM_FAULT_RACE);
}

static void misuse_of_copies(void)
{
    FAULTS("cp.async.ca.shared.global [%row+4], [%from], 8;\n" WAITED, 0, SIM_FAULT_MISALIGNED);
    FAULTS("cp.async.ca.shared.global [%row], [%from+4], 8;\n" WAITED, 0, SIM_FAULT_MISALIGNED);
    FAULTS("cp.async.ca.shared.global [%row], [%from+4], 8, 4;\n" WAITED, 0, SIM_FAULT_MISALIGNED);
    FAULTS("cp.async.ca.shared.global [%row], [%from+65536], 8;\n" WAITED, 0, SIM_FAULT_ADDRESS);
    FAULTS("cp.async.ca.shared.global [%row], [%from+65536], 8, 1;\n" WAITED, 0, SIM_FAULT_ADDRESS);
    FAULTS("cp.async.ca.shared.global [%row+1048576], [%from], 8;\n" WAITED, 0, SIM_FAULT_ADDRESS);
    REFUSED("cp.async.cg.shared.global [%row], [%from], 8;\n" WAITED, "cp-size");
    REFUSED("cp.async.ca.shared.global [%row], [%from], 2;\n" WAITED, "cp-size");
    REFUSED("cp.async.ca.shared.global [%row], [%from], 8, 9;\n" WAITED, "src-size");
    REFUSED("cp.async.ca.global.shared [%from], [%row], 8;\n" WAITED, "cp.async");
    REFUSED("cp.async.ca.shared.global.b8 [%row], [%from], 8;\n" WAITED, "b8");
    REFUSED("cp.async.wait_group %number;\n", "constant");
    REFUSED("cp.async.wait_some 0;\n", "cp.async");
    REFUSED("cp.async.bulk.wait_group 0, 1;\n", "");
}

/* A group of wgmma is one of the whole warpgroup. */
static void warpgroups(void)
{
    prepare(0, 0);
    SIM_FAULTS(".reg .pred %p;\nsetp.lt.u32 %p, %n, 32;\n@!%p bra done;\nwgmma.commit_group.sync.aligned;\n"
               "wgmma.wait_group.sync.aligned 0;\ndone:\n",
               128, SIM_FAULT_DEADLOCK, "another warp of the warpgroup");
    bool good =
        sim_test_run(".reg .pred %p;\nsetp.lt.u32 %p, %n, 32;\nwgmma.commit_group.sync.aligned;\n@!%p bra done;\n"
                     "wgmma.wait_group.sync.aligned 0;\ndone:\n",
                     1, 128);
    SIM_CHECK(good, "%s", sim_tester.fault.text);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"sizes", sizes},
                                       {"fills_with_zeros", fills_with_zeros},
                                       {"groups_of_copies", groups_of_copies},
                                       {"timing", timing},
                                       {"counted", counted},
                                       {"arrival_of_copies", arrival_of_copies},
                                       {"misuse_of_copies", misuse_of_copies},
                                       {"warpgroups", warpgroups}};
    return SIM_MAIN("async", groups);
}
