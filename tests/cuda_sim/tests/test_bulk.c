/* test_bulk.c - cp.async.bulk without tensors, its groups and reductions, under every timing.
 * Expectations: PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk", "cp.async.bulk.wait_group", "Async Proxy". */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

enum { THREADS = 32, BYTES = 16 * THREADS, FROM = 1024, SECOND = 2048, SEEDS = 8, TIMINGS = 2 + SEEDS };

/* Each thread has 16 bytes: at %from and %to of global memory, at %row of shared memory. */
#define BEGIN                                                                                                          \
    ".reg .pred %first, %done;\n.reg .b32 %row, %buffer, %barrier, %fill, %r<9>;\n"                                    \
    ".reg .b64 %from, %dest, %rd<9>;\n.reg .b16 %mask;\n"                                                              \
    ".shared .align 128 .b8 buffer[1024];\n.shared .align 8 .b64 barrier;\n"                                           \
    "mov.u32 %buffer, buffer;\nmov.u32 %barrier, barrier;\nmov.u32 %r1, %tid.x;\n"                                     \
    "shl.b32 %r0, %r1, 4;\nadd.u32 %row, %buffer, %r0;\n"                                                              \
    "cvt.u64.u32 %rd0, %r0;\nadd.u64 %dest, g, %rd0;\nadd.u64 %from, %dest, 1024;\nadd.u64 %rd1, g, 1024;\n"           \
    "setp.eq.u32 %first, %r1, 0;\n@%first mbarrier.init.shared::cta.b64 [%barrier], 1;\n"                              \
    "fence.mbarrier_init.release.cluster;\nmov.u32 %fill, 0x77777777;\n"
#define FILL          "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%from];\nst.shared.v4.u32 [%row], {%r5, %r6, %r7, %r8};\n"
#define EXPECT(bytes) "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], " bytes ";\n"
#define WAIT          "again:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], 0;\n@!%done bra again;\n"
#define SHOW          "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%row];\nst.global.v4.u32 [%dest], {%r1, %r2, %r3, %r4};\n"
#define PROXY         "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
#define LOAD          "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
#define STORE         "@%first cp.async.bulk.global.shared::cta.bulk_group [g], [%buffer], 512;\n"
#define COMMIT        "cp.async.bulk.commit_group;\n"

static void prepare(uint32_t time)
{
    sim_test_target("sm_90a", "8.6");
    sim_tester.options.timing = time == 0 ? SIM_EAGER : time == 1 ? SIM_LATE : SIM_SEEDED;
    sim_tester.options.seed = time;
    memset(sim_tester.memory, 0xee, FROM);
    for (uint32_t i = 0; i < BYTES; i++) {
        sim_tester.memory[FROM + i] = (uint8_t)(i * 7 + 3);
    }
}

/* Every block copies; that of number b to b * SECOND behind `to`. */
static void works(const char *where, const char *body, uint32_t blocks)
{
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t);
        memset(sim_tester.cluster, 0, sizeof sim_tester.cluster);
        sim_tester.cluster[0] = blocks;
        sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
        memset(sim_tester.memory + SECOND, 0xee, BYTES);
        bool good = sim_test_run(body, blocks, THREADS);
        sim_test_check(where, good, "timing %u: %s", t, sim_tester.fault.text);
        for (uint32_t b = 0; good && b < blocks; b++) {
            good = memcmp(sim_tester.memory + (size_t)b * SECOND, sim_tester.memory + FROM, BYTES) == 0;
            sim_test_check(where, good, "timing %u: block %u: wrong bytes", t, b);
        }
    }
}

static void faults(const char *where, const char *body, uint32_t blocks, sim_fault_kind kind)
{
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t);
        sim_tester.cluster[0] = blocks;
        sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
        bool good = sim_test_run(body, blocks, THREADS);
        sim_test_check(where, !good, "timing %u: no fault", t);
        sim_test_check(where, good || sim_tester.fault.kind == kind, "timing %u: fault %d, not %d: %s", t,
                       (int)sim_tester.fault.kind, (int)kind, sim_tester.fault.text);
    }
}

#define WORKS(body)        works(SIM_HERE, BEGIN body, 1)
#define FAULTS(body, kind) faults(SIM_HERE, BEGIN body, 1, kind)

static void loads(void)
{
    WORKS("bar.sync 0;\n" EXPECT("512") LOAD "[%buffer], [%rd1], 512, [%barrier];\n" WAIT SHOW);
    WORKS("bar.sync 0;\n" EXPECT("512") LOAD "[%buffer], [%rd1], 256, [%barrier];\n" LOAD
                                             "[%buffer+256], [%rd1+256], 256, [%barrier];\n" WAIT SHOW);
    WORKS(
        "bar.sync 0;\nmov.u32 %r2, 512;\n" EXPECT("512") "@%first cp.async.bulk.shared::cta.global.mbarrier::complete_"
                                                         "tx::bytes [%buffer], [%rd1], %r2, [%barrier];\n" WAIT SHOW);
    WORKS("bar.sync 0;\nmov.b64 %rd2, 0;\n" EXPECT(
        "512") "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%buffer], "
               "[%rd1], 512, [%barrier], %rd2;\n" WAIT SHOW);
    /* A copy may come before its bytes are expected: the arrival is still missing. */
    WORKS("bar.sync 0;\n" LOAD "[%buffer], [%rd1], 512, [%barrier];\n" EXPECT("512") WAIT SHOW);
    WORKS("cp.async.bulk.prefetch.L2.global [%rd1], 512;\nbar.sync 0;\n" EXPECT("512") LOAD
          "[%buffer], [%rd1], 512, [%barrier];\n" WAIT SHOW);
    /* What generic code has written may be overwritten behind a proxy fence. */
    WORKS("st.shared.u32 [%row], %fill;\n" PROXY EXPECT("512") LOAD "[%buffer], [%rd1], 512, [%barrier];\n" WAIT SHOW);
    FAULTS("st.shared.u32 [%row], %fill;\nbar.sync 0;\n" EXPECT("512") LOAD
           "[%buffer], [%rd1], 512, [%barrier];\n" WAIT SHOW,
           SIM_FAULT_RACE);
}

static void loads_that_are_wrong(void)
{
    FAULTS("st.shared.u32 [%row], %fill;\n" PROXY EXPECT("512") LOAD
           "[%buffer], [%rd1], 512, [%barrier];\nld.shared.u32 %r2, [%row];\n" WAIT,
           SIM_FAULT_RACE);
    FAULTS("bar.sync 0;\n" EXPECT("496") LOAD "[%buffer], [%rd1], 512, [%barrier];\n" WAIT, SIM_FAULT_DEADLOCK);
    FAULTS("bar.sync 0;\n" EXPECT("528") LOAD "[%buffer], [%rd1], 512, [%barrier];\n" WAIT, SIM_FAULT_DEADLOCK);
    FAULTS("bar.sync 0;\n" EXPECT("512") WAIT, SIM_FAULT_DEADLOCK);
    FAULTS(LOAD "[%buffer+8], [%rd1], 512, [%barrier];\n", SIM_FAULT_MISALIGNED);
    FAULTS(LOAD "[%buffer], [%rd1], 0, [%barrier];\n", SIM_FAULT_INSTRUCTION);
    FAULTS(LOAD "[%buffer], [%rd1+8], 512, [%barrier];\n", SIM_FAULT_MISALIGNED);
    FAULTS("mov.u32 %r2, 500;\n" LOAD "[%buffer], [%rd1], %r2, [%barrier];\n", SIM_FAULT_MISALIGNED);
    FAULTS(LOAD "[%buffer+528], [%rd1], 512, [%barrier];\n", SIM_FAULT_ADDRESS);
    FAULTS("bar.sync 0;\n" EXPECT("512") LOAD "[%buffer], [%rd1+65536], 512, [%barrier];\n" WAIT, SIM_FAULT_ADDRESS);
}

static void stores(void)
{
    WORKS(FILL PROXY STORE COMMIT "cp.async.bulk.wait_group 0;\n");
    /* Only the reads are waited for; the kernel's end is enough for the writes. */
    WORKS(FILL PROXY STORE COMMIT "cp.async.bulk.wait_group.read 0;\n");
    WORKS(FILL PROXY STORE COMMIT "cp.async.bulk.wait_group.read 0;\nbar.sync 0;\nst.shared.u32 [%row], %fill;\n");
    WORKS(FILL PROXY STORE COMMIT COMMIT COMMIT "cp.async.bulk.wait_group.read 2;\n");
    WORKS("setp.ne.u32 %done, %r1, 0;\n" FILL PROXY
          "mov.b64 %rd2, 0;\n@%first cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [g], [%buffer], 512, "
          "%rd2;\n" COMMIT "cp.async.bulk.wait_group 0;\n");
}

static void stores_that_are_wrong(void)
{
    FAULTS(FILL "bar.sync 0;\n" STORE COMMIT "cp.async.bulk.wait_group 0;\n", SIM_FAULT_RACE);
    FAULTS(FILL "bar.sync 0;\nfence.proxy.async.global;\n" STORE COMMIT "cp.async.bulk.wait_group 0;\n",
           SIM_FAULT_RACE);
    /* The fence belongs to the thread that wrote, before the barrier. Behind it thread 0 may make it for all. */
    WORKS(FILL "bar.sync 0;\nfence.proxy.async.shared::cta;\n" STORE COMMIT "cp.async.bulk.wait_group 0;\n");
    FAULTS(FILL "fence.proxy.async.shared::cta;\n" STORE COMMIT "cp.async.bulk.wait_group 0;\n", SIM_FAULT_RACE);
    FAULTS(FILL PROXY STORE COMMIT, SIM_FAULT_ASYNC);
    FAULTS(FILL PROXY STORE "cp.async.bulk.wait_group 0;\n", SIM_FAULT_ASYNC);
    FAULTS(FILL PROXY STORE COMMIT "cp.async.bulk.wait_group.read 1;\n", SIM_FAULT_ASYNC);
    FAULTS(FILL PROXY STORE COMMIT "bar.sync 0;\nst.shared.u32 [%row], %fill;\ncp.async.bulk.wait_group 0;\n",
           SIM_FAULT_RACE);
    /* Another thread's wait waits for nothing. */
    FAULTS(FILL PROXY STORE COMMIT "@!%first cp.async.bulk.wait_group 0;\nbar.sync 0;\nst.shared.u32 [%row], %fill;\n"
                                   "cp.async.bulk.wait_group 0;\n",
           SIM_FAULT_RACE);
    FAULTS("fence.proxy.async.shared::cta;\n" STORE COMMIT "cp.async.bulk.wait_group 0;\n", SIM_FAULT_UNDEFINED);
    FAULTS(FILL PROXY "@%first cp.async.bulk.global.shared::cta.bulk_group [g+8], [%buffer], 512;\n",
           SIM_FAULT_MISALIGNED);
}

/* What is written late is not there when only the reads were waited for. */
static void late_writes(void)
{
    static const char *const waits[] = {
        BEGIN FILL PROXY STORE COMMIT
        "cp.async.bulk.wait_group.read 0;\nbar.sync 0;\nld.global.u32 %r2, [g];\nst.global.u32 [g+2048], %r2;\n",
        BEGIN FILL PROXY STORE COMMIT
        "cp.async.bulk.wait_group 0;\nbar.sync 0;\nld.global.u32 %r2, [g];\nst.global.u32 [g+2048], %r2;\n"};
    for (uint32_t w = 0; w < 2; w++) {
        prepare(1);
        bool good = sim_test_run(waits[w], 1, THREADS);
        SIM_CHECK(good, "%s", sim_tester.fault.text);
        uint32_t seen;
        memcpy(&seen, sim_tester.memory + SECOND, sizeof seen);
        SIM_CHECK(seen == (w == 0 ? 0xeeeeeeeeu : 0x18110a03u), "wait %u saw %#x", w, seen);
    }
}

#define MEET  "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
#define PLACE "mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %rd3, %r2, 2048;\nadd.u64 %dest, %dest, %rd3;\n"

static void clusters(void)
{
    /* To the other block's shared memory and its barrier. */
    works(SIM_HERE,
          BEGIN MEET PLACE FILL PROXY EXPECT(
              "256") "xor.b32 %r3, %r2, 1;\nmapa.shared::cluster.u32 %r4, %buffer, %r3;\nmapa.shared::cluster.u32 %r5, "
                     "%barrier, %r3;\n"
                     "@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4+512], "
                     "[%buffer], "
                     "256, [%r5];\n" WAIT "shr.u32 %r0, %r0, 1;\nld.shared.u32 %r3, [%row];\n" SHOW MEET,
          2);
    /* Each block loads one half for both. */
    works(SIM_HERE,
          BEGIN MEET PLACE EXPECT(
              "512") "shl.b32 %r3, %r2, 8;\nadd.u32 %r4, %buffer, %r3;\ncvt.u64.u32 %rd4, %r3;\nadd.u64 %rd4, %rd4, "
                     "%rd1;\n"
                     "mov.b16 %mask, 3;\n"
                     "@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%r4], "
                     "[%rd4], 256, [%barrier], %mask;\n" WAIT SHOW MEET,
          2);
    faults(SIM_HERE,
           BEGIN MEET "mov.b16 %mask, 5;\n@%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes."
                      "multicast::cluster [%buffer], [%rd1], 256, [%barrier], %mask;\n" MEET,
           2, SIM_FAULT_INSTRUCTION);
    /* The barrier must be where the data go. */
    faults(SIM_HERE,
           BEGIN MEET FILL PROXY "mapa.shared::cluster.u32 %r4, %buffer, 1;\n"
                                 "@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                                 "[%r4], [%buffer], 256, [%barrier];\n" MEET,
           2, SIM_FAULT_INSTRUCTION);
    /* The source of a copy between blocks is the own one. */
    faults(
        SIM_HERE,
        BEGIN MEET PLACE
        "xor.b32 %r3, %r2, 1;\nmapa.shared::cluster.u32 %r4, %buffer, %r3;\nmapa.shared::cluster.u32 %r5, %barrier, "
        "%r3;\n@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r4+512], 256, "
        "[%r5];\n" MEET,
        2, SIM_FAULT_ADDRESS);
    /* Nobody waits for what still flows into a block: seen when it is late. */
    prepare(1);
    sim_tester.cluster[0] = 1;
    SIM_FAULTS(BEGIN "bar.sync 0;\n" EXPECT("512") LOAD "[%buffer], [%rd1], 512, [%barrier];\n", THREADS,
               SIM_FAULT_ASYNC, "has ended");
}

/* 16 bytes of elements a in global memory, reduced with b's. */
static void reduce(const char *where, const char *operation, uint32_t size, uint64_t a, uint64_t b, uint64_t want)
{
    char body[2048];
    snprintf(body, sizeof body, "%s%s [g], [%%buffer], 16;\n%s",
             BEGIN FILL PROXY "@%first cp.reduce.async.bulk.global.shared::cta.bulk_group.", operation,
             COMMIT "cp.async.bulk.wait_group 0;\n");
    for (uint32_t t = 0; t < 2; t++) {
        prepare(t);
        for (uint32_t at = 0; at < 16; at += size) {
            memcpy(sim_tester.memory + at, &a, size);
            memcpy(sim_tester.memory + FROM + at, &b, size);
        }
        bool good = sim_test_run(body, 1, THREADS);
        sim_test_check(where, good, "%s: %s", operation, sim_tester.fault.text);
        for (uint32_t at = 0; good && at < 16; at += size) {
            uint64_t got = 0;
            memcpy(&got, sim_tester.memory + at, size);
            sim_test_check(where, got == want, "%s: %#llx, not %#llx", operation, (unsigned long long)got,
                           (unsigned long long)want);
        }
        sim_test_check(where, sim_tester.memory[16] == 0xee, "%s: too many bytes", operation);
    }
}

static void reductions(void)
{
    reduce(SIM_HERE, "add.u32", 4, 0xffffffff, 2, 1);
    reduce(SIM_HERE, "add.s32", 4, 0x7fffffff, 1, 0x80000000);
    reduce(SIM_HERE, "add.u64", 8, 0xffffffff, 2, 0x100000001);
    reduce(SIM_HERE, "min.u32", 4, 0xffffffff, 2, 2);
    reduce(SIM_HERE, "min.s32", 4, 0xffffffff, 2, 0xffffffff);
    reduce(SIM_HERE, "max.u32", 4, 0xffffffff, 2, 0xffffffff);
    reduce(SIM_HERE, "max.s32", 4, 0xffffffff, 2, 2);
    reduce(SIM_HERE, "min.s64", 8, 0xffffffffffffffff, 2, 0xffffffffffffffff);
    reduce(SIM_HERE, "max.u64", 8, 0x100000000, 2, 0x100000000);
    reduce(SIM_HERE, "inc.u32", 4, 7, 7, 0);
    reduce(SIM_HERE, "inc.u32", 4, 6, 7, 7);
    reduce(SIM_HERE, "dec.u32", 4, 0, 7, 7);
    reduce(SIM_HERE, "dec.u32", 4, 8, 7, 7);
    reduce(SIM_HERE, "dec.u32", 4, 7, 7, 6);
    reduce(SIM_HERE, "and.b32", 4, 0xf0f0, 0xff00, 0xf000);
    reduce(SIM_HERE, "or.b32", 4, 0xf0f0, 0xff00, 0xfff0);
    reduce(SIM_HERE, "xor.b64", 8, 0xf0f0, 0xff00, 0x0ff0);
    reduce(SIM_HERE, "add.f32", 4, 0x3f800000, 0x33800000, 0x3f800000);                         /* 1 + 2^-24: to even */
    reduce(SIM_HERE, "add.f32", 4, 0x3f800001, 0x33800000, 0x3f800002);                         /* and up */
    reduce(SIM_HERE, "add.f64", 8, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000); /* 1 + 2 */
    reduce(SIM_HERE, "add.noftz.f16", 2, 0x3c00, 0x1000, 0x3c00);                               /* 1 + 2^-11: to even */
    reduce(SIM_HERE, "add.noftz.f16", 2, 0x0001, 0x0001, 0x0002);                               /* subnormal */
    reduce(SIM_HERE, "add.noftz.bf16", 2, 0x3f80, 0x4000, 0x4040);                              /* 1 + 2 */
    reduce(SIM_HERE, "max.f16", 2, 0x7e00, 0xbc00, 0xbc00);                                     /* NaN and -1 */
    reduce(SIM_HERE, "min.bf16", 2, 0x8000, 0x0000, 0x8000);
    reduce(SIM_HERE, "min.bf16", 2, 0x0000, 0x8000, 0x8000); /* -0 is less */
}

static void refusals(void)
{
    prepare(0);
    SIM_REFUSED(BEGIN "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [g], [%buffer], 16;\n", "reduction");
    SIM_REFUSED(BEGIN "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [g], [%buffer], 16;\n", "reduction");
    SIM_REFUSED(BEGIN "cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [g], [%buffer], 16;\n", "reduction");
    SIM_REFUSED(BEGIN "cp.async.bulk.global.shared::cta [g], [%buffer], 16;\n", "bulk_group");
    SIM_REFUSED(BEGIN "cp.async.bulk.global.global.bulk_group [g], [g], 16;\n", "shared::cta");
    SIM_REFUSED(BEGIN "cp.async.bulk.shared::cluster.global.bulk_group [%buffer], [g], 16;\n", "complete_tx");
    SIM_REFUSED(BEGIN "cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%buffer], [%buffer], 16, "
                      "[%barrier];\n",
                "spaces");
    SIM_REFUSED(BEGIN LOAD "[%buffer], [%rd1], 500, [%barrier];\n", "multiple");
    SIM_REFUSED(BEGIN "cp.async.bulk.wait_group %r0;\n", "constant");
    SIM_REFUSED(BEGIN "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%buffer], "
                      "[g], 16, [%barrier];\n",
                "missing");
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"loads", loads},
                                       {"loads_that_are_wrong", loads_that_are_wrong},
                                       {"stores", stores},
                                       {"stores_that_are_wrong", stores_that_are_wrong},
                                       {"late_writes", late_writes},
                                       {"clusters", clusters},
                                       {"reductions", reductions},
                                       {"refusals", refusals}};
    return SIM_MAIN("bulk", groups);
}
