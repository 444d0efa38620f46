/* test_warp.c - shfl, vote, match, redux, activemask, elect, mapa: one row a lane.
 * Expectations: PTX ISA "shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync", "mapa",
 * "getctarank". */
#include "sim_test.h"
#include <string.h>

enum { LANES = 32 };

static uint32_t value_of(uint32_t lane)
{
    return 0x1000 + 17 * lane;
}

/* --- shfl: segments of `width` lanes, as CUDA's __shfl_*_sync() pass them --- */

#define SHFL(mode) "{.reg .pred %in;\nshfl.sync." mode ".b32 d|%in, a, b, c, 0xffffffff;\n@%in add.u32 d, d, 0x100000;}"

/* source[lane]: whom it reads; outside: a bit for each lane that is out of range and gets its own value. */
static void shfl(const char *where, const char *text, uint32_t b, uint32_t c, const uint32_t *source, uint32_t outside)
{
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        bool in = !(outside >> l & 1);
        rows[l] = (sim_row){.d = value_of(in ? source[l] : l) + (in ? 0x100000 : 0), .a = value_of(l), .b = b, .c = c};
    }
    sim_test_rows(where, text, "rrrr", rows, LANES);
}

static void shfl_up(void)
{
    sim_tester.all_lanes = true;
    for (uint32_t width = 1; width <= 32; width *= 2) {
        for (uint32_t delta = 0; delta < 34; delta++) {
            uint32_t source[LANES], outside = 0, d = delta % 32;
            for (uint32_t l = 0; l < LANES; l++) {
                source[l] = l - d;
                outside |= (uint32_t)(l % width < d) << l;
            }
            shfl(SIM_HERE, SHFL("up"), delta, (32 - width) << 8, source, outside);
        }
    }
}

static void shfl_down(void)
{
    sim_tester.all_lanes = true;
    for (uint32_t width = 1; width <= 32; width *= 2) {
        for (uint32_t delta = 0; delta < 34; delta++) {
            uint32_t source[LANES], outside = 0, d = delta % 32;
            for (uint32_t l = 0; l < LANES; l++) {
                source[l] = l + d;
                outside |= (uint32_t)(l % width + d >= width) << l;
            }
            shfl(SIM_HERE, SHFL("down"), delta, (32 - width) << 8 | 31, source, outside);
        }
    }
}

/* A lane may reach down into an earlier segment, not up into a later one. */
static void shfl_bfly(void)
{
    sim_tester.all_lanes = true;
    for (uint32_t width = 1; width <= 32; width *= 2) {
        for (uint32_t mask = 0; mask < 34; mask++) {
            uint32_t source[LANES], outside = 0;
            for (uint32_t l = 0; l < LANES; l++) {
                source[l] = l ^ (mask % 32);
                outside |= (uint32_t)(source[l] / width > l / width) << l;
            }
            shfl(SIM_HERE, SHFL("bfly"), mask, (32 - width) << 8 | 31, source, outside);
        }
    }
}

static void shfl_idx(void)
{
    sim_tester.all_lanes = true;
    for (uint32_t width = 1; width <= 32; width *= 2) {
        for (uint32_t index = 0; index < 34; index++) {
            uint32_t source[LANES];
            for (uint32_t l = 0; l < LANES; l++) {
                source[l] = l / width * width + index % width;
            }
            shfl(SIM_HERE, SHFL("idx"), index, (32 - width) << 8 | 31, source, 0);
        }
    }
    /* A clamp below the segment's end: lanes above 4 are out of range. */
    uint32_t source[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        source[l] = 4;
    }
    shfl(SIM_HERE, SHFL("idx"), 4, 4, source, 0);
    shfl(SIM_HERE, SHFL("idx"), 5, 4, source, UINT32_MAX);
}

static void shfl_rest(void)
{
    sim_tester.all_lanes = true;
    SIM_OP("{.reg .pred %q1;\nsetp.lt.u32 %q1, a, 4;\n@%q1 shfl.sync.idx.b32 d, b, 2, 31, 0xf;\n@!%q1 mov.b32 d, 9;}",
           "rrr", {70, 0, 50}, {70, 1, 60}, {70, 2, 70}, {70, 3, 80}, {9, 4, 90});
    /* Each half with its own members; the result may be left out. */
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l] = (sim_row){.d = l < 16 ? 3 : 16 + 3, .a = l, .b = l < 16 ? 3 : 19, .c = l < 16 ? 0xffff : 0xffff0000};
    }
    sim_test_rows(SIM_HERE, "shfl.sync.idx.b32 d, a, b, 31, c;", "rrrr", rows, LANES);
    SIM_FAULTS(".reg .pred %q1;\n.reg .b32 %r1;\nsetp.lt.u32 %q1, %n, 16;\n@%q1 bra LOW;\nret;\n"
               "LOW:\nshfl.sync.idx.b32 %r1, %n, 20, 31, 0xffff;\n",
               32, SIM_FAULT_UNDEFINED, "lane 20");
    SIM_FAULTS(".reg .pred %q1;\n.reg .b32 %r1;\nsetp.lt.u32 %q1, %n, 16;\n@%q1 shfl.sync.idx.b32 %r1, %n, 3, 31, -1;\n"
               "bar.sync 0;\n",
               32, SIM_FAULT_DIVERGENT, "will never come");
    SIM_FAULTS(".reg .b32 %r1;\nshfl.sync.idx.b32 %r1, %n, 3, 31, 0xff;\n", 32, SIM_FAULT_DIVERGENT, "name 0x000000ff");
    SIM_REFUSED("shfl.idx.b32 %x, %x, 1, 31;", "shfl.sync");
    SIM_REFUSED("shfl.sync.sideways.b32 %x, %x, 1, 31, -1;", "");
    SIM_REFUSED("shfl.sync.idx.b64 %in, %in, 1, 31, -1;", "");
}

/* --- vote --- */

/* `answer` for the half of the lanes below 16 and for the other one, when lanes `ayes` say yes. */
static void vote(const char *where, const char *text, char kind, uint32_t ayes, uint32_t low, uint32_t high)
{
    char kinds[] = {kind, 'p', 'r', 0};
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l] = (sim_row){.d = l < 16 ? low : high, .a = ayes >> l & 1, .b = l < 16 ? 0xffff : 0xffff0000};
    }
    sim_test_rows(where, text, kinds, rows, LANES);
}

static void votes(void)
{
    sim_tester.all_lanes = true;
    vote(SIM_HERE, "vote.sync.all.pred d, a, b;", 'p', 0xfffeffff, 1, 0);
    vote(SIM_HERE, "vote.sync.any.pred d, a, b;", 'p', 0x80000000, 0, 1);
    vote(SIM_HERE, "vote.sync.uni.pred d, a, b;", 'p', 0x00010000, 1, 0);
    vote(SIM_HERE, "vote.sync.uni.pred d, a, b;", 'p', 0xfffffffe, 0, 1);
    vote(SIM_HERE, "vote.sync.ballot.b32 d, a, b;", 'r', 0x80c30001, 1, 0x80c30000);
    vote(SIM_HERE, "vote.sync.ballot.b32 d, !a, b;", 'r', 0x80c30001, 0xfffe, 0x7f3c0000);
    vote(SIM_HERE, "vote.sync.all.pred d, !a, b;", 'p', 0x00010000, 1, 0);
    SIM_REFUSED("vote.all.pred %q, %q;", "vote.sync");
    SIM_REFUSED("vote.sync.ballot.pred %q, %q, -1;", "");
}

/* --- match, redux --- */

static void matches(void)
{
    sim_tester.all_lanes = true;
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t low = 0x49249249u << (l % 3); /* lanes of the same remainder by 3, from bit 0 on */
        rows[l] = (sim_row){.d = low, .a = l % 3};
    }
    sim_test_rows(SIM_HERE, "match.any.sync.b32 d, a, 0xffffffff;", "rr", rows, LANES);
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l].a <<= 40;
    }
    sim_test_rows(SIM_HERE, "match.any.sync.b64 d, a, 0xffffffff;", "rl", rows, LANES);
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t members = l < 16 ? 0xffff : 0xffff0000;
        rows[l] = (sim_row){.d = l < 16 ? 0xffff : 7, .a = l < 16 ? 5 : l == 20 ? 6 : 4, .b = members};
    }
    sim_test_rows(SIM_HERE, "{.reg .pred %q1;\nmatch.all.sync.b32 d|%q1, a, b;\n@!%q1 add.u32 d, d, 7;}", "rrr", rows,
                  LANES);
    SIM_REFUSED("match.any.sync.b32 %x|%q, %x, -1;", "no predicate");
    SIM_REFUSED("match.any.sync.u32 %x, %x, -1;", "");
}

static void redux(const char *where, const char *text, uint32_t low, uint32_t high)
{
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l] = (sim_row){
            .d = l < 30 ? low : high, .a = l == 7 ? 0xfffffff0 : 2 * l + 1, .b = l < 30 ? 0x3fffffff : 3u << 30};
    }
    sim_test_rows(where, text, "rrr", rows, LANES);
}

/* 1, 3, .. 59 with 0xfffffff0 (-16) in the place of 15; and 61, 63. */
static void reductions(void)
{
    sim_tester.all_lanes = true;
    redux(SIM_HERE, "redux.sync.add.u32 d, a, b;", 900 - 15 - 16, 124);
    redux(SIM_HERE, "redux.sync.add.s32 d, a, b;", 900 - 15 - 16, 124);
    redux(SIM_HERE, "redux.sync.min.u32 d, a, b;", 1, 61);
    redux(SIM_HERE, "redux.sync.min.s32 d, a, b;", 0xfffffff0, 61);
    redux(SIM_HERE, "redux.sync.max.u32 d, a, b;", 0xfffffff0, 63);
    redux(SIM_HERE, "redux.sync.max.s32 d, a, b;", 59, 63);
    redux(SIM_HERE, "redux.sync.and.b32 d, a, b;", 0, 61);
    redux(SIM_HERE, "redux.sync.or.b32 d, a, b;", 0xffffffff, 63);
    /* (4k+1) ^ (4k+3) is 2, fifteen times: 2. Without 15: 13. */
    redux(SIM_HERE, "redux.sync.xor.b32 d, a, b;", 0xfffffff0u ^ 13, 61 ^ 63);
    SIM_REFUSED("redux.sync.add.b32 %x, %x, -1;", "");
    SIM_REFUSED("redux.sync.min.f32 %x, %x, -1;", "");
}

/* --- who is here --- */

static void who(void)
{
    sim_tester.all_lanes = true;
    sim_row rows[LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l] = (sim_row){.d = l < 5 ? 0x1f : l < 9 ? 0x1e0 : 0xfffffe00, .a = l < 5, .b = l < 9};
    }
    sim_test_rows(SIM_HERE,
                  "{.reg .pred %q1, %q2;\nsetp.eq.u32 %q1, a, 1;\nsetp.eq.u32 %q2, b, 1;\n@%q1 bra A;\n@%q2 bra B;\n"
                  "activemask.b32 d;\nbra END;\nA:\nactivemask.b32 d;\nbra END;\nB:\nactivemask.b32 d;\nEND:}",
                  "rrr", rows, LANES);
    sim_test_target("sm_90", "8.0");
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l] = (sim_row){.d = (l < 16 ? 0 : 16) + (l % 16 == 0 ? 100 : 0), .a = l < 16 ? 0xffff : 0xffff0000};
    }
    sim_test_rows(SIM_HERE, "{.reg .pred %q1;\nelect.sync d|%q1, a;\n@%q1 add.u32 d, d, 100;}", "rr", rows, LANES);
    for (uint32_t l = 0; l < LANES; l++) {
        rows[l].d = l % 16 == 0;
    }
    sim_test_rows(SIM_HERE, "elect.sync _|d, a;", "pr", rows, LANES);
}

static void ranks(void)
{
    sim_tester.all_lanes = true;
    sim_test_target("sm_90", "8.0");
    SIM_OP("{.shared .b32 word;\n.reg .b32 %r1;\nmov.u32 %r1, word;\nmapa.shared::cluster.u32 %r1, %r1, a;\n"
           "getctarank.shared::cluster.u32 d, %r1;}",
           "rr", {0, 0});
    SIM_OP("{.shared .b32 word;\n.reg .b64 %r1;\nmov.u64 %r1, word;\ncvta.shared.u64 %r1, %r1;\nmapa.u64 %r1, %r1, a;\n"
           "st.u32 [%r1], 77;\nbar.warp.sync -1;\nld.shared.u32 d, [word];\n}",
           "rr", {77, 0});
    SIM_FAULTS(".reg .b64 %r1;\nmapa.u64 %r1, g, 0;\n", 32, SIM_FAULT_ADDRESS, "mapa");
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"shfl_up", shfl_up},   {"shfl_down", shfl_down},   {"shfl_bfly", shfl_bfly},
        {"shfl_idx", shfl_idx}, {"shfl_rest", shfl_rest},   {"votes", votes},
        {"matches", matches},   {"reductions", reductions}, {"who", who},
        {"ranks", ranks},
    };
    return SIM_MAIN("warp", groups);
}
