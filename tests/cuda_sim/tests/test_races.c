/* Races over shared memory: each kernel is seen to be refused without the synchronisation that it needs, and to pass
 * with it. What orders accesses: PTX ISA "Memory Consistency Model", "bar", "bar.warp.sync", "mbarrier", "Proxies",
 * "cp.async.bulk.wait_group". */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

/* t: thread in the block, w: its warp, %at: word t of s; %next: the neighbour's; zero: thread 0, first: warp 0. */
#define BEGIN                                                                                                          \
    ".shared .align 128 .b8 s[4096]; .shared .align 8 .b64 m;\n.reg .b32 t, w, %base, %at, %next, x, y, z, bar;\n"     \
    ".reg .b64 e;\n.reg .pred zero, first, second, third, q;\nmov.u32 t, %tid.x; shr.u32 w, t, 5; mov.u32 %base, s;\n" \
    "mov.u32 bar, m; mad.lo.u32 %at, t, 4, %base; xor.b32 %next, %at, 4; mov.b32 z, 7;\nsetp.eq.u32 zero, t, 0; "      \
    "setp.eq.u32 first, w, 0; setp.eq.u32 second, w, 1; setp.eq.u32 third, w, 2;\n"

static void races(const char *where, const char *body, uint32_t threads, const char *text)
{
    static const sim_timing timings[] = {SIM_EAGER, SIM_LATE};
    for (int t = 0; t < 2; t++) {
        sim_tester.options.timing = timings[t];
        sim_test_faults(where, body, threads, SIM_FAULT_RACE, text);
    }
    sim_tester.options.timing = SIM_EAGER;
    sim_tester.options.no_races = true;
    sim_test_check(where, sim_test_run(body, 1, threads), "without the check: %s", sim_tester.fault.text);
    sim_tester.options.no_races = false;
}

static void passes(const char *where, const char *body, uint32_t threads)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        sim_tester.options.timing = seed == 0 ? SIM_EAGER : seed == 1 ? SIM_LATE : SIM_SEEDED;
        sim_tester.options.seed = seed;
        sim_test_check(where, sim_test_run(body, 3, threads), "%s", sim_tester.fault.text);
    }
    sim_tester.options.timing = SIM_EAGER;
}

#define RACES(body, threads, text) races(SIM_HERE, BEGIN body, threads, text)
#define PASSES(body, threads)      passes(SIM_HERE, BEGIN body, threads)

/* One warp behind another in time, with nothing that orders what they do. */
#define SIGNAL(word) "st.relaxed.cta.shared.b32 [%base+" word "], 1; "
#define SPIN(label, word)                                                                                              \
    label ": ld.relaxed.cta.shared.b32 x, [%base+" word "]; setp.ne.u32 q, x, 1; @q bra " label "; "
#define NO_SIGNALS "@zero st.shared.v2.b32 [%base+2048], {0, 0}; bar.sync 0; "

static void warps(void)
{
    /* Each word is written by one warp and read by the other: word t and t ^ 32. */
#define OTHER "xor.b32 %next, %at, 128;\n"
    RACES(OTHER "st.shared.b32 [%at], t; ld.shared.b32 x, [%at]; st.shared.b32 [%next], t;", 64, "write");
    RACES(OTHER "@first st.shared.b32 [%at], t; @first bra end; mov.u32 %at, %next; ld.shared.b32 x, [%at]; end: ret;",
          64, "");
    PASSES(OTHER "st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next];", 64);
    /* Reading is not writing. */
    PASSES(OTHER "st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next]; ld.shared.b32 x, [%at];", 64);
    /* Write after read. */
    RACES(OTHER "st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next]; st.shared.b32 [%at], x;", 64, "read");
    PASSES(OTHER "st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next]; bar.sync 0; st.shared.b32 [%at], x;",
           64);
    /* Write after write. */
    RACES("st.shared.b32 [%base], z;", 64, "write");
    PASSES("@first st.shared.b32 [%base], z; bar.sync 0; @second st.shared.b32 [%base], z;", 64);
}

static void lanes(void)
{
    RACES("st.shared.b32 [%at], t; ld.shared.b32 x, [%next];", 32, "thread (0,0,0)");
    PASSES("st.shared.b32 [%at], t; ld.shared.b32 x, [%at]; st.shared.b32 [%at], x;", 32);
    PASSES("st.shared.b32 [%at], t; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%next];", 32);
    PASSES("st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next];", 32);
    RACES("st.shared.b32 [%at], t; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%next]; st.shared.b32 [%at], x;", 32,
          "read");
    PASSES("st.shared.b32 [%at], t; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%next]; bar.warp.sync 0xffffffff; "
           "st.shared.b32 [%at], x;",
           32);
    /* A shuffle synchronises the lanes, not what they wrote. */
    RACES("st.shared.b32 [%at], t; shfl.sync.bfly.b32 y, t, 1, 0x1f, 0xffffffff; ld.shared.b32 x, [%next];", 32, "");
    /* A broadcast, then one lane writes. */
    RACES("@zero st.shared.b32 [%base], z; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%base]; @zero st.shared.b32 "
          "[%base], x;",
          32, "lanes of warp 0");
    PASSES("@zero st.shared.b32 [%base], z; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%base]; "
           "bar.warp.sync 0xffffffff; @zero st.shared.b32 [%base], x;",
           32);
    /* The lanes of one store at one place. */
    PASSES("st.shared.b32 [%base], z; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%base];", 32);
    RACES("st.shared.b32 [%base], z; ld.shared.b32 x, [%base];", 32, "");
    RACES("st.shared.b32 [%base], t;", 32, "another value");
}

/* Threads that share a word, by bytes or halves. */
static void bytes(void)
{
#define BYTE "add.u32 %next, %base, t; shr.u32 y, t, 2; mad.lo.u32 y, y, 4, %base;\n"
#define HALF "mad.lo.u32 %next, t, 2, %base; shr.u32 y, t, 1; mad.lo.u32 y, y, 4, %base;\n"
    PASSES(BYTE "st.shared.b8 [%next], t; ld.shared.b8 x, [%next];", 64);
    PASSES(HALF "st.shared.b16 [%next], t; ld.shared.b16 x, [%next];", 64);
    RACES(BYTE "st.shared.b8 [%next], t; ld.shared.b32 x, [y];", 32, "shared+0x1");
    RACES(HALF "st.shared.b16 [%next], t; ld.shared.b32 x, [y];", 32, "shared+0x2");
    PASSES(HALF "st.shared.b16 [%next], t; bar.sync 0; ld.shared.b32 x, [y];", 64);
#define FOUR ".reg .b32 v<4>; and.b32 y, t, 3; mad.lo.u32 y, y, 16, %base; ld.shared.v4.b32 {v0, v1, v2, v3}, [y];"
    RACES(HALF "st.shared.b16 [%next], t; " FOUR, 32, "shared+0x");
    PASSES(HALF "st.shared.b16 [%next], t; bar.sync 0; " FOUR, 64);
    RACES(HALF "st.shared.b16 [%next], t; bar.sync 0; " FOUR "st.shared.b16 [%next], t;", 64, "read");
    /* Apart, whole, and apart again. */
    PASSES(HALF
           "st.shared.b16 [%next], t; bar.sync 0; ld.shared.b32 x, [y]; bar.sync 0; @first st.shared.b32 [%at], x; "
           "bar.sync 0; st.shared.b16 [%next], t; bar.sync 0; ld.shared.b32 x, [y];",
           64);
    RACES(HALF "st.shared.b16 [%next], t; bar.sync 0; ld.shared.b32 x, [y]; st.shared.b16 [%next], t;", 64, "");
    RACES("st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%at]; bar.sync 0; xor.b32 y, %at, 128; st.shared.b16 "
          "[y], t; "
          "st.shared.b8 [%at+1], t;",
          64, "write");
    PASSES("st.shared.b32 [%at], t; bar.sync 0; xor.b32 y, %at, 128; st.shared.b16 [y], t; st.shared.b8 [%at+2], t;",
           64);
    /* Wide accesses over words of several threads. */
    PASSES(
        "st.shared.b32 [%at], t; bar.sync 0; mad.lo.u32 y, t, 16, %base; setp.lt.u32 q, t, 16; "
        ".reg .b32 v<4>; @q ld.shared.v4.b32 {v0, v1, v2, v3}, [y]; bar.sync 0; @q st.shared.v4.b32 [y], {t, t, t, t};",
        64);
    RACES("st.shared.b32 [%at], t; bar.sync 0; mad.lo.u32 y, t, 16, %base; setp.lt.u32 q, t, 16; "
          ".reg .b32 v<4>; @q ld.shared.v4.b32 {v0, v1, v2, v3}, [y]; st.shared.b32 [%at], t;",
          64, "read");
}

/* A wide access whose first words are in the past, and the last ones are not. */
static void later_words(void)
{
#define PAIRS "st.shared.b32 [%at], t; bar.sync 0; and.b32 y, t, 31; mad.lo.u32 y, y, 8, %base; .reg .b32 v<2>;\n"
    PASSES(PAIRS "@first ld.shared.v2.b32 {v0, v1}, [y];", 64);
    RACES(PAIRS "@second st.shared.b32 [%at], t; @first ld.shared.v2.b32 {v0, v1}, [y];", 64,
          "this read and the write");
#define ONE_WRITER                                                                                                     \
    PAIRS "bar.sync 0; @first st.shared.v2.b32 [y], {t, t}; bar.sync 0; @second ld.shared.b32 x, [%at];\n"
    RACES(ONE_WRITER "@first st.shared.v2.b32 [y], {t, t};", 64, "this write and the read");
    RACES(ONE_WRITER "mad.lo.u32 y, t, 16, %base; setp.lt.u32 q, t, 16; @q st.shared.v4.b32 [y], {t, t, t, t};", 64,
          "this write and the read");
}

/* ldmatrix reads a lane's line for all lanes. Lines one behind the other, and lines of which pairs lie side by side. */
static void matrices(void)
{
#define LINES "and.b32 y, t, 31; mad.lo.u32 y, y, 16, %base; .reg .b32 v<4>;\n"
#define SIDE_BY_SIDE                                                                                                   \
    "and.b32 y, t, 15; mad.lo.u32 y, y, 32, %base; shr.u32 x, t, 4; and.b32 x, x, 1; mad.lo.u32 y, x, 16, y; "         \
    ".reg .b32 v<4>;\n"
#define STORE_LINE "st.shared.v4.b32 [y], {t, t, t, t};\n"
#define LOAD_LINES "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {v0, v1, v2, v3}, [y];\n"
#define SYNC       "bar.warp.sync -1;\n"
    PASSES(LINES STORE_LINE SYNC LOAD_LINES SYNC STORE_LINE, 32);
    RACES(LINES STORE_LINE LOAD_LINES, 32, "this read and the write");
    RACES(LINES STORE_LINE SYNC LOAD_LINES STORE_LINE, 32, "this write and the read of lanes of warp 0");
    PASSES(SIDE_BY_SIDE STORE_LINE SYNC LOAD_LINES SYNC STORE_LINE, 32);
    RACES(SIDE_BY_SIDE STORE_LINE LOAD_LINES, 32, "this read and the write");
    RACES(SIDE_BY_SIDE STORE_LINE SYNC LOAD_LINES STORE_LINE, 32, "this write and the read of lanes of warp 0");
    /* Two warps read; one word of a line is written too early, or without both of them. */
#define BOTH_LOAD SIDE_BY_SIDE "@first st.shared.v4.b32 [y], {t, t, t, t}; bar.sync 0;\n" LOAD_LINES
    PASSES(BOTH_LOAD "bar.sync 0; @second st.shared.v4.b32 [y], {t, t, t, t};", 64);
    RACES(BOTH_LOAD "setp.eq.u32 q, t, 32; @q st.shared.b32 [%base+20], z;", 64, "shared+0x14");
    RACES(SIDE_BY_SIDE "@first st.shared.v4.b32 [y], {t, t, t, t}; bar.sync 0; @zero st.shared.b32 [%base+20], z;\n"
                       "@!second bra end; " LOAD_LINES "end: ret;",
          64, "shared+0x14");
}

/* Many warps read a word; one that the writer doesn't know of is enough. */
static void readers(void)
{
#define READ "@zero st.shared.b32 [%base], z; bar.sync 0; ld.shared.b32 x, [%base];\n"
    PASSES(READ "bar.sync 0; @zero st.shared.b32 [%base], x;", 512);
    RACES(READ "@zero st.shared.b32 [%base], x;", 512, "");
    RACES(READ "@!third bar.sync 1, 480; @zero st.shared.b32 [%base], x;", 512, "");
    RACES(READ "setp.eq.u32 q, w, 15; @!q bar.sync 1, 480; @zero st.shared.b32 [%base], x;", 512, "");
    PASSES(READ "@third bra last; bar.sync 1, 480; last: bar.sync 0; @zero st.shared.b32 [%base], x;", 512);
    /* Rows and parts of rows, by many: words that share their readers, and then no longer do. */
#define WIDE "mad.lo.u32 y, t, 16, %base; and.b32 y, y, 127; add.u32 y, y, %base; .reg .b32 v<4>;\n"
#define ALL  WIDE "@first st.shared.b32 [%at], t; bar.sync 0; ld.shared.v4.b32 {v0, v1, v2, v3}, [y];\n"
    PASSES(ALL "@third ld.shared.b32 x, [%base+4]; bar.sync 0; @first st.shared.b32 [%at], t;", 512);
    RACES(ALL "bar.sync 0; @third ld.shared.b32 x, [%base+4]; @first st.shared.b32 [%at], t;", 512, "shared+0x4");
    RACES(ALL "bar.sync 0; @!zero bra end; @zero ld.shared.b32 x, [%base+8]; end: @second st.shared.b32 [%base+8], z;",
          512, "shared+0x8");
    RACES(ALL "setp.eq.u32 q, w, 9; @!q bar.sync 1, 480; @first st.shared.b32 [%at], t;", 512, "read");
    PASSES(ALL
           "bar.sync 0; setp.lt.u32 q, t, 8; @q st.shared.v4.b32 [y], {z, z, z, z}; bar.sync 0; ld.shared.b32 x, [y]; "
           "bar.sync 0; @q st.shared.v4.b32 [y], {z, z, z, z};",
           512);
    /* Four words with the same two readers, one with a third: warp 3 knows of the two. */
#define PARTS(known)                                                                                                   \
    NO_SIGNALS                                                                                                         \
    ".reg .b32 v<4>; @zero st.shared.v4.b32 [%base], {z, z, z, z}; bar.sync 0; @first bra one; @second bra two; "      \
    "@third bra three; " SPIN("again", "2052") known                                                                   \
        " st.shared.v4.b32 [%base], {z, z, z, z}; ret; "                                                               \
        "one: ld.shared.v4.b32 {v0, v1, v2, v3}, [%base]; bra told; two: ld.shared.v4.b32 {v0, v1, v2, v3}, "          \
        "[%base]; " SIGNAL("2048") "bra told; three: " SPIN("more", "2048") "ld.shared.b32 y, [%base+8]; " SIGNAL(     \
            "2052") "told: " known "ret;"
    PASSES(PARTS("bar.sync 1, 128;"), 128);
    RACES(PARTS("@!third bar.sync 1, 96;"), 128, "shared+0x8");
    /* Bytes of a word with many readers: each keeps them until it is written. */
    PASSES(NO_SIGNALS
           "@zero st.shared.v4.b32 [%base], {z, z, z, z}; bar.sync 0; ld.shared.b32 x, [%base]; bar.sync 0; "
           "setp.eq.u32 q, t, 96; @q st.shared.b8 [%base], z; bar.sync 0; setp.lt.u32 q, t, 96; @!q bra last; "
           "ld.shared.b32 x, [%base+8]; @third " SIGNAL("2048") "ret; last: " SPIN(
               "again", "2048") "setp.eq.u32 q, t, 96; @q st.shared.b8 [%base+1], z;",
           128);
    /* In turns: warp 0 tells warp 1, warp 1 warp 2. */
#define TURNS(one, two)                                                                                                \
    "@first st.shared.b32 [%base], z; @first " one "; @second " one "; @second " two "; @third " two                   \
    "; @third ld.shared.b32 x, [%base];"
    PASSES(TURNS("bar.sync 1, 64", "bar.sync 2, 64"), 96);
    RACES("@first st.shared.b32 [%base], z; @first bar.sync 1, 64; @second bar.sync 1, 64; @third ld.shared.b32 x, "
          "[%base];",
          96, "");
    /* bar.arrive hands over, and learns nothing. */
    PASSES("@first st.shared.b32 [%at], t; @first bar.arrive 1, 64; @second bar.sync 1, 64; "
           "@second ld.shared.b32 x, [%base];",
           64);
    sim_tester.options.no_undefined = true;
    RACES(
        "st.shared.b32 [%at], t; @first bar.arrive 1, 64; @second bar.sync 1, 64; @first ld.shared.b32 x, [%base+128];",
        64, "");
    sim_tester.options.no_undefined = false;
}

static void strong(void)
{
    PASSES("@zero st.shared.b32 [%base], z; bar.sync 0; atom.shared.add.u32 x, [%base], 1;", 96);
    RACES("@zero st.shared.b32 [%base], z; bar.sync 0; atom.shared.add.u32 x, [%base], 1; @zero ld.shared.b32 x, "
          "[%base];",
          96, "");
    RACES("@zero st.shared.b32 [%base], z; atom.shared.add.u32 x, [%base], 1;", 32, "");
    RACES("@zero st.shared.b32 [%base], z; bar.sync 0; atom.shared.add.u32 x, [%base], 1; @zero st.shared.b32 [%base], "
          "x;",
          96, "");
    PASSES("@zero st.shared.b32 [%base], z; bar.sync 0; atom.shared.add.u32 x, [%base], 1; bar.sync 0; "
           "ld.shared.b32 x, [%base];",
           96);
    /* One after the other, either way. */
    RACES(NO_SIGNALS
          "@zero st.shared.b32 [%base], z; bar.sync 0; @first bra other; atom.shared.add.u32 y, [%base], 1; " SIGNAL(
              "2048") "ret; other: " SPIN("again", "2048") "ld.shared.b32 y, [%base];",
          64, "this read and the strong write");
    RACES(NO_SIGNALS "@zero st.shared.b32 [%base], z; bar.sync 0; @first bra other; ld.shared.b32 y, [%base]; " SIGNAL(
              "2048") "ret; other: " SPIN("again", "2048") "atom.shared.add.u32 y, [%base], 1;",
          64, "this strong write and the read");
    PASSES("@zero st.volatile.shared.b32 [%base], z; bar.warp.sync -1; ld.volatile.shared.b32 x, [%base]; "
           "@zero st.volatile.shared.b32 [%base], z;",
           32);
}

/* Warp 0 writes word 1 and raises the flag, word 0; warp 1 waits for it. */
#define MESSAGE(fence_a, store, load, fence_b)                                                                         \
    "@zero st.shared.b32 [%base], 0; bar.sync 0; @second bra wait; @zero st.shared.b32 [%base+4], z; " fence_a         \
    " @zero " store " [%base], 1; ret; wait: " load " x, [%base]; setp.ne.u32 q, x, 1; @q bra wait; " fence_b          \
    " ld.shared.b32 y, [%base+4];"

static void messages(void)
{
    PASSES(
        MESSAGE("fence.acq_rel.cta;", "st.relaxed.cta.shared.b32", "ld.relaxed.cta.shared.b32", "fence.acq_rel.cta;"),
        64);
    PASSES(MESSAGE("membar.cta;", "st.volatile.shared.b32", "ld.volatile.shared.b32", "membar.cta;"), 64);
    PASSES(MESSAGE("", "st.release.cta.shared.b32", "ld.acquire.cta.shared.b32", ""), 64);
    PASSES(MESSAGE("", "st.release.cta.shared.b32", "ld.relaxed.cta.shared.b32", "fence.acq_rel.cta;"), 64);
    RACES(MESSAGE("", "st.relaxed.cta.shared.b32", "ld.acquire.cta.shared.b32", ""), 64, "shared+0x4");
    RACES(MESSAGE("", "st.release.cta.shared.b32", "ld.relaxed.cta.shared.b32", ""), 64, "shared+0x4");
    RACES(MESSAGE("", "st.volatile.shared.b32", "ld.volatile.shared.b32", ""), 64, "shared+0x4");
    sim_test_target("sm_90", "8.6");
    RACES(MESSAGE("fence.proxy.async;", "st.relaxed.cta.shared.b32", "ld.relaxed.cta.shared.b32", "fence.proxy.async;"),
          64, "shared+0x4");
    sim_test_target("sm_80", "8.0");
    /* The flag itself, weak. */
    RACES(MESSAGE("fence.acq_rel.cta;", "st.shared.b32", "ld.relaxed.cta.shared.b32", "fence.acq_rel.cta;"), 64,
          "shared+0x0");
    /* By an atomic, and through global memory. */
    PASSES("@zero st.shared.b32 [%base], 0; bar.sync 0; @second bra wait; @zero st.shared.b32 [%base+4], z; "
           "@zero atom.release.cta.shared.exch.b32 x, [%base], 1; ret; wait: atom.acquire.cta.shared.or.b32 x, "
           "[%base], 0; "
           "setp.ne.u32 q, x, 1; @q bra wait; ld.shared.b32 y, [%base+4];",
           64);
}

#define INIT(count) "@zero mbarrier.init.shared.b64 [bar], " count "; bar.sync 0;\n"
#define WAIT(label) label ": mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 0; @!q bra " label ";\n"

static void mbarriers(void)
{
    sim_test_target("sm_90a", "8.6");
    PASSES(INIT("32") "@second bra take; st.shared.b32 [%at], t; mbarrier.arrive.shared.b64 e, [bar]; ret; take: " WAIT(
               "again") "ld.shared.b32 x, [%at+-128];",
           64);
    RACES(INIT("32") "@second bra take; st.shared.b32 [%at], t; mbarrier.arrive.shared.b64 e, [bar]; ret; take: "
                     "nanosleep.u32 100; xor.b32 y, %at, 128; st.shared.b32 [y], t;",
          64, "write");
    /* The arrival before the write. */
    RACES(INIT("32") "@second bra take; mbarrier.arrive.shared.b64 e, [bar]; st.shared.b32 [%at], t; ret; take: " WAIT(
              "again") "xor.b32 y, %at, 128; st.shared.b32 [y], t;",
          64, "write");
    sim_test_target("sm_80", "8.0");
}

/* The async proxy: 64 bytes from and to global memory. */
#define FETCH                                                                                                          \
    "@zero mbarrier.arrive.expect_tx.shared.b64 e, [bar], 64; "                                                        \
    "@zero cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [g], 64, [bar];\n"
#define DONE  "@zero cp.async.bulk.wait_group 0;"
#define STORE "@zero cp.async.bulk.global.shared::cta.bulk_group [g], [%base], 64; @zero cp.async.bulk.commit_group;\n"
#define FILL  "mad.lo.u32 y, t, 4, %base; setp.lt.u32 q, t, 16; @q st.shared.b32 [y], t;\n"

/* One lane that speaks for its warp: only for what the others did before they met. */
static void lanes_apart(void)
{
    sim_test_target("sm_90a", "8.6");
#define ONE_ARRIVES(between)                                                                                           \
    "st.shared.b32 [%at], t;" INIT("1") "@second bra take; ld.shared.b32 x, [%at]; " between                           \
                                        "@zero mbarrier.arrive.shared.b64 e, [bar]; ret; take: " WAIT(                 \
                                            "again") "xor.b32 y, %at, 128; st.shared.b32 [y], t;"
    PASSES(ONE_ARRIVES("bar.warp.sync 0xffffffff;"), 64);
    RACES(ONE_ARRIVES(""), 64, "the read of thread (1,0,0)");
    /* What it did itself it may tell. */
    PASSES(INIT("1") "@second bra take; @zero st.shared.b32 [%base], t; @zero mbarrier.arrive.shared.b64 e, [bar]; "
                     "ret; take: " WAIT("again") "ld.shared.b32 x, [%base];",
           64);
    /* It tells others of its warp who wait, too; and what it learns of others it passes on. */
    RACES(
        "st.shared.b32 [%at], t;" INIT("1") "ld.shared.b32 x, [%at]; @zero mbarrier.arrive.shared.b64 e, [bar]; " WAIT(
            "again") "st.shared.b32 [%next], t;",
        32, "read");
    PASSES(INIT("32") "st.shared.b32 [%at], t; mbarrier.arrive.shared.b64 e, [bar]; " WAIT(
               "again") "ld.shared.b32 x, [%next];",
           32);
    /* One lane that asks for its warp: the others know when they meet it. */
#define ONE_WAITS(between)                                                                                             \
    "st.shared.b32 [%at], t;" INIT(                                                                                    \
        "32") "@second bra take; st.shared.b32 [%at], t; mbarrier.arrive.shared.b64 e, [bar]; ret; take: "             \
              "setp.ne.u32 q, t, 32; @q bra go; " WAIT("again") "go: " between                                         \
                                                                "xor.b32 y, %at, 128; ld.shared.b32 x, [y];"
    PASSES(ONE_WAITS("bar.warp.sync 0xffffffff; "), 64);
    RACES(ONE_WAITS(""), 64, "thread (33,0,0)");
    RACES(ONE_WAITS("xor.b32 y, %at, 128; @!q ld.shared.b32 x, [y]; @q st.shared.b32 [y], t; "), 64, "thread (33,0,0)");
    PASSES(ONE_WAITS("xor.b32 y, %at, 128; @!q ld.shared.b32 x, [y]; bar.warp.sync 0xffffffff; "), 64);
    /* Each asks for itself. */
    PASSES(INIT("32") "@second bra take; st.shared.b32 [%at], t; mbarrier.arrive.shared.b64 e, [bar]; ret; take: "
                      "setp.ne.u32 q, t, 32; @q bra others; " WAIT("again") "bra go; others: " WAIT(
                          "more") "go: xor.b32 y, %at, 128; ld.shared.b32 x, [y];",
           64);
    /* The lanes arrive in two parts. */
#define HALVES                                                                                                         \
    "st.shared.b32 [%at], t;" INIT(                                                                                    \
        "32") "@second bra take; ld.shared.b32 x, [%base]; and.b32 y, t, 1; "                                          \
              "setp.eq.u32 q, y, 0; @q bra even; mbarrier.arrive.shared.b64 e, [bar]; ret; "                           \
              "even: mbarrier.arrive.shared.b64 e, [bar]; ret; take: " WAIT("again")
    PASSES(HALVES "st.shared.b32 [%base], z;", 64);
    /* A fence is for what its lane did, and for what all did before they met. */
#define FENCED(before, behind) FILL before "@zero fence.proxy.async;" behind STORE DONE
    PASSES(FENCED("bar.warp.sync 0xffffffff;", ""), 32);
    RACES(FENCED("", "bar.warp.sync 0xffffffff;"), 32, "no fence.proxy.async");
    RACES(FILL "bar.warp.sync 0xffffffff;" STORE DONE, 32, "no fence.proxy.async");
    PASSES(FILL "fence.proxy.async; bar.warp.sync 0xffffffff;" STORE DONE, 32);
    RACES(FILL "fence.proxy.async;" STORE DONE, 32, "not ordered");
    /* The fence of one lane, and another's arrival, which knows nothing of it. */
#define FAR(between)                                                                                                   \
    INIT("1")                                                                                                          \
    "@second bra take; mad.lo.u32 y, t, 4, %base; st.shared.b32 [y], t; fence.proxy.async; " between                   \
    "@zero mbarrier.arrive.shared.b64 e, [bar]; ret; take: " WAIT("again") "setp.eq.u32 zero, t, 32;" STORE DONE
    PASSES(FAR("bar.warp.sync 0xffffffff;"), 64);
    RACES(FAR(""), 64, "not ordered");
    sim_test_target("sm_80", "8.0");
    /* Flags: the fence and the flag's store are of one lane each. */
#define FLAG(fence, between)                                                                                           \
    NO_SIGNALS "@second bra take; st.shared.b32 [%at], t; " fence between "@zero " SIGNAL("2048") "ret; take: " SPIN(  \
        "spin", "2048") "membar.cta; xor.b32 y, %at, 128; ld.shared.b32 x, [y];"
    PASSES(FLAG("bar.warp.sync 0xffffffff; ", "@zero membar.cta; "), 64);
    PASSES(FLAG("membar.cta; ", "bar.warp.sync 0xffffffff; "), 64);
    RACES(FLAG("membar.cta; ", ""), 64, "write of thread (1,0,0)");
    RACES(FLAG("@zero membar.cta; ", "bar.warp.sync 0xffffffff; "), 64, "write of thread (1,0,0)");
}

static void bulk_loads(void)
{
    sim_test_target("sm_90a", "8.6");
#define READY "@zero mbarrier.init.shared.b64 [bar], 1; @zero fence.mbarrier_init.release.cluster; bar.sync 0;\n"
    PASSES(READY FETCH WAIT("again") "ld.shared.b32 x, [%base];", 64);
    /* The mbarrier itself: its init is a write of the generic proxy, by another thread or by the one that fetches. */
#define INIT_BY(lane, fence, behind)                                                                                   \
    "setp.eq.u32 q, t, " lane "; @q mbarrier.init.shared.b64 [bar], 1; " fence "bar.sync 0;" behind FETCH WAIT("agai"  \
                                                                                                               "n")
    RACES(INIT_BY("0", "", ""), 64, "no fence.proxy.async");
    RACES(INIT_BY("40", "", ""), 64, "no fence.proxy.async");
    RACES(INIT_BY("40", "@zero fence.mbarrier_init.release.cluster; ", ""), 64, "no fence.proxy.async");
    PASSES(INIT_BY("40", "@q fence.mbarrier_init.release.cluster; ", ""), 64);
    PASSES(INIT_BY("40", "@q fence.proxy.async; ", ""), 64);
    PASSES(INIT_BY("40", "", "@zero fence.proxy.async; "), 64);
    sim_tester.options.no_undefined = true; /* late: nothing has come yet */
    RACES(READY FETCH "ld.shared.b32 x, [%base];" WAIT("again"), 64, "race on shared+0x0");
    /* Thread 0 waits, the others read without a barrier of their warp or block. */
    RACES(READY FETCH "@!first bra read; " WAIT("again") "read: ld.shared.b32 x, [%base];", 64, "");
    sim_tester.options.no_undefined = false;
    PASSES(READY FETCH "@!first bra read; " WAIT("again") "read: bar.sync 0; ld.shared.b32 x, [%base];", 64);
    /* What was written before needs a proxy fence, by the writers or behind the barrier. */
    RACES(READY FILL "bar.sync 0;" FETCH WAIT("again"), 64, "fence.proxy.async");
    PASSES(READY FILL "fence.proxy.async.shared::cta; bar.sync 0;" FETCH WAIT("again") "ld.shared.b32 x, [%base];", 64);
    PASSES(READY FILL "bar.sync 0; @zero fence.proxy.async;" FETCH WAIT("again") "ld.shared.b32 x, [%base];", 64);
    RACES(READY FILL "fence.proxy.async.global; bar.sync 0;" FETCH WAIT("again"), 64, "fence.proxy.async");
    /* Fetched, and stored from there: the agents know of each other through the mbarrier. */
    PASSES(READY FETCH "@!zero bra end;" WAIT("again") STORE DONE "end: ret;", 64);
    sim_tester.options.no_undefined = true;
    RACES(READY FETCH "@!zero bra end;" STORE DONE WAIT("again") "end: ret;", 64, "asynchronous");
    sim_tester.options.no_undefined = false;
    /* The buffer is taken again while somebody still reads. */
#define TWICE(between)                                                                                                 \
    READY FETCH WAIT(                                                                                                  \
        "again") "ld.shared.b32 x, [%base];" between FETCH                                                             \
                 "more: mbarrier.try_wait.parity.shared::cta.b64 q, [bar], 1; @!q bra more; ld.shared.b32 x, [%base];"
    PASSES(TWICE("bar.sync 0;"), 64);
    SIM_FAULTS(BEGIN TWICE(""), 64, SIM_FAULT_RACE, "asynchronous write");
    sim_test_target("sm_80", "8.0");
}

static void bulk_stores(void)
{
    sim_test_target("sm_90a", "8.6");
    PASSES(FILL "fence.proxy.async; bar.sync 0;" STORE "@zero cp.async.bulk.wait_group.read 0;", 64);
    RACES(FILL "bar.sync 0;" STORE DONE, 64, "fence.proxy.async");
    RACES(FILL "fence.proxy.async;" STORE DONE, 64, "not ordered");
    RACES(FILL "fence.proxy.async; @q st.shared.b32 [y], z; bar.sync 0;" STORE DONE, 64, "fence.proxy.async");
    /* The source is written again. */
#define AGAIN(between) FILL "fence.proxy.async; bar.sync 0;" STORE between "@q st.shared.b32 [y], z;" DONE
    PASSES(AGAIN("@zero cp.async.bulk.wait_group.read 0; bar.sync 0;"), 64);
    PASSES(AGAIN("@zero cp.async.bulk.wait_group 0; bar.sync 0;"), 64);
    RACES(AGAIN("bar.sync 0;"), 64, "");
    RACES(AGAIN("@zero cp.async.bulk.wait_group.read 1; bar.sync 0;"), 64, "");
    RACES(AGAIN("@zero cp.async.bulk.wait_group.read 0;"), 64, "");
    /* Reading it is fine. */
    PASSES(FILL "fence.proxy.async; bar.sync 0;" STORE
                "@q ld.shared.b32 x, [y]; @zero cp.async.bulk.wait_group.read 0;",
           64);
    sim_test_target("sm_80", "8.0");
}

static void copies(void)
{
#define COPY "cp.async.ca.shared.global [%at], [g], 4; cp.async.commit_group;\n"
    PASSES(COPY "cp.async.wait_group 0; bar.sync 0; ld.shared.b32 x, [%next];", 64);
    sim_tester.options.no_undefined = true;
    RACES(COPY "bar.sync 0; ld.shared.b32 x, [%next];", 64, "");
    RACES(COPY "cp.async.wait_group 0; ld.shared.b32 x, [%next];", 64, "");
    /* Copies of several lanes to one place: each knows of its own only. */
#define ONE_PLACE "cp.async.ca.shared.global [%base], [g], 4; cp.async.commit_group; cp.async.wait_group 0; "
    RACES(ONE_PLACE "ld.shared.b32 x, [%base];", 32, "");
    PASSES(ONE_PLACE "bar.warp.sync 0xffffffff; ld.shared.b32 x, [%base];", 32);
    RACES(COPY "cp.async.wait_group 1; bar.sync 0; ld.shared.b32 x, [%next];", 64, "");
    sim_tester.options.no_undefined = false;
    RACES(COPY "st.shared.b32 [%at], z; cp.async.wait_group 0;", 64, "");
    /* The generic proxy: no fence between a store and a copy over it. */
    PASSES("st.shared.b32 [%next], z; bar.sync 0;" COPY "cp.async.wait_group 0; ld.shared.b32 x, [%at];", 64);
    RACES("st.shared.b32 [%next], z;" COPY, 64, "");
    /* Stages: each is filled again behind a barrier. */
    PASSES(COPY "cp.async.ca.shared.global [%at+1024], [g], 4;"
                "cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; ld.shared.b32 x, [%next]; bar.sync 0;" COPY
                "cp.async.wait_group 0; bar.sync 0; ld.shared.b32 x, [%next];",
           64);
    sim_tester.options.no_undefined = true;
    RACES(COPY "cp.async.wait_group 0; bar.sync 0; ld.shared.b32 x, [%next];" COPY "cp.async.wait_group 0;", 64,
          "read");
    sim_tester.options.no_undefined = false;
}

/* Who has waited for whose copies, and whom that lane tells. */
static void copies_of_lanes(void)
{
    sim_test_target("sm_90a", "8.6");
    sim_tester.options.no_undefined = true;
    RACES(COPY "@zero cp.async.wait_group 0; ld.shared.b32 x, [%at];", 32, "write of thread (1,0,0)");
    PASSES(COPY "@zero cp.async.wait_group 0; @zero ld.shared.b32 x, [%at]; cp.async.wait_group 0; "
                "ld.shared.b32 x, [%at];",
           32);
#define ODD_LANES "and.b32 y, t, 1; setp.eq.u32 q, y, 1; "
    PASSES(COPY ODD_LANES "@q cp.async.wait_group 0; @!q cp.async.wait_group 0; bar.warp.sync 0xffffffff; "
                          "ld.shared.b32 x, [%next];",
           32);
    RACES(COPY ODD_LANES "@q cp.async.wait_group 0; bar.warp.sync 0xffffffff; ld.shared.b32 x, [%next];", 32,
          "write of thread (0,0,0)");
    /* One lane says that the copies are there. */
#define TOLD(count, wait)                                                                                              \
    INIT(count)                                                                                                        \
    "@second bra take; " COPY wait "ret; take: " WAIT("again") "xor.b32 y, %at, 128; ld.shared.b32 x, "                \
                                                               "[y];"
    PASSES(TOLD("1", "cp.async.wait_group 0; bar.warp.sync 0xffffffff; @zero mbarrier.arrive.shared.b64 e, [bar]; "),
           64);
    RACES(TOLD("1", "cp.async.wait_group 0; @zero mbarrier.arrive.shared.b64 e, [bar]; "), 64,
          "write of thread (1,0,0)");
    RACES(
        TOLD("1", "@zero cp.async.wait_group 0; bar.warp.sync 0xffffffff; @zero mbarrier.arrive.shared.b64 e, [bar]; "),
        64, "write of thread (1,0,0)");
    PASSES(TOLD("32", "cp.async.wait_group 0; mbarrier.arrive.shared.b64 e, [bar]; "), 64);
    PASSES(TOLD("32", "cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; "), 64);
    RACES(TOLD("1", "@zero cp.async.mbarrier.arrive.noinc.shared.b64 [bar]; "), 64, "write of thread (1,0,0)");
    /* One lane lets the async proxy read them. */
#define STORED(between) COPY "cp.async.wait_group 0; " between STORE DONE
    PASSES(STORED("fence.proxy.async; bar.warp.sync 0xffffffff; "), 32);
    PASSES(STORED("bar.warp.sync 0xffffffff; @zero fence.proxy.async; "), 32);
    RACES(STORED("fence.proxy.async; "), 32, "not ordered");
    RACES(STORED("@zero fence.proxy.async; bar.warp.sync 0xffffffff; "), 32, "no fence.proxy.async");
    RACES(STORED("bar.warp.sync 0xffffffff; "), 32, "no fence.proxy.async");
    sim_tester.options.no_undefined = false;
    sim_test_target("sm_80", "8.0");
}

/* Block 1 writes into the memory of block 0. */
static void clusters(void)
{
    sim_test_target("sm_90", "8.6");
    sim_tester.cluster[0] = 2;
    sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
    sim_tester.options.no_undefined = true;
#define REMOTE(between)                                                                                                \
    BEGIN "mov.u32 x, %cluster_ctarank; setp.eq.u32 q, x, 1; mapa.shared::cluster.u32 y, %at, 0;\n"                    \
          "@q st.shared::cluster.b32 [y], t; " between " @!q ld.shared.b32 x, [%at];\n"                                \
          "barrier.cluster.arrive; barrier.cluster.wait;\n"
    SIM_CHECK(sim_test_run(REMOTE("barrier.cluster.arrive; barrier.cluster.wait;"), 4, 64), "%s",
              sim_tester.fault.text);
    SIM_CHECK(!sim_test_run(REMOTE("bar.sync 0;"), 4, 64) && sim_tester.fault.kind == SIM_FAULT_RACE &&
                  strstr(sim_tester.fault.text, "of block rank"),
              "%s", sim_tester.fault.text);
    sim_tester.options.no_undefined = false;
    memset(sim_tester.cluster, 0, sizeof sim_tester.cluster);
    sim_test_target("sm_80", "8.0");
}

/* Shared memory goes from block to block without a race, and a late one is still watched. */
static void many_blocks(void)
{
    static const char body[] = BEGIN "st.shared.b32 [%at], t; bar.sync 0; ld.shared.b32 x, [%next];\n"
                                     "mov.u32 y, %ctaid.x; setp.eq.u32 q, y, 2999; @q st.shared.b32 [%at], t;";
    SIM_CHECK(sim_test_run(body, 2999, 64), "%s", sim_tester.fault.text);
    SIM_CHECK(!sim_test_run(body, 3000, 64) && sim_tester.fault.kind == SIM_FAULT_RACE, "%s", sim_tester.fault.text);
}

/* Both accesses are named, with line, opcode and thread. */
static void reports(void)
{
    SIM_FAULTS(BEGIN "@first st.shared.b32 [%at+8], t;\n@second ld.shared.b32 x, [%at+-120];", 64, SIM_FAULT_RACE,
               "thread (32,0,0): race on shared+0x8: this read and the write of thread (0,0,0) (line ");
    SIM_CHECK(strstr(sim_tester.fault.text, "ld.shared.b32") &&
                  strstr(sim_tester.fault.text, ", st.shared.b32) are not ordered"),
              "%s", sim_tester.fault.text);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"warps", warps},           {"lanes", lanes},
        {"bytes", bytes},           {"later_words", later_words},
        {"readers", readers},       {"matrices", matrices},
        {"strong", strong},         {"messages", messages},
        {"mbarriers", mbarriers},   {"lanes_apart", lanes_apart},
        {"bulk loads", bulk_loads}, {"bulk stores", bulk_stores},
        {"copies", copies},         {"copies_of_lanes", copies_of_lanes},
        {"clusters", clusters},     {"many blocks", many_blocks},
        {"reports", reports},
    };
    return SIM_MAIN("races", groups);
}
