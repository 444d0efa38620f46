/* Lanes among each other: PTX ISA "shfl.sync", "vote.sync", "match.sync", "redux.sync", "elect.sync". Each group of 32
 * rows is a warp. */
#include "sim_test.h"
#include <stdio.h>

enum { LANES = 32, WARPS = 300, ROWS = LANES * WARPS };
static sim_row row[ROWS];

/* The ISA's pseudocode. Returns d, with bit 31 set where the lane keeps its own value. */
static uint32_t shuffled(char mode, uint32_t lane, uint32_t b, uint32_t c)
{
    int bval = (int)b & 31, cval = (int)c & 31, segment = (int)(c >> 8) & 31, self = (int)lane, from = 0;
    int most = (self & segment) | (cval & ~segment & 31), least = self & segment;
    bool inside = false;
    switch (mode) {
    case 'u':
        from = self - bval;
        inside = from >= most;
        break;
    case 'd':
        from = self + bval;
        inside = from <= most;
        break;
    case 'b':
        from = self ^ bval;
        inside = from <= most;
        break;
    default:
        from = least | (bval & ~segment & 31);
        inside = from <= most;
    }
    return inside ? 100 + (uint32_t)from : (100 + lane) | 0x80000000u;
}

static void shuffles(void)
{
    static const uint32_t ends[] = {0x1f, 0, 0x181f, 0x1c1f, 0x1800, 0x100f, 0x0007, 0x1e01, 0xffffe0ff};
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    sim_tester.all_lanes = true;
    for (int m = 0; m < 4; m++) {
        char text[200];
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t warp = i / LANES, lane = i % LANES;
            uint32_t b = warp % 33 == 32 ? 0xffffffe1u : warp % 33, c = ends[warp / 33 % 9];
            if (warp >= 297) { /* a count of its own for each lane */
                b = i * 7 % 31;
            }
            row[i] = (sim_row){shuffled(modes[m][0], lane, b, c), 100 + lane, b, c};
        }
        snprintf(text, sizeof text, ".reg .pred p; shfl.sync.%s.b32 d|p, a, b, c, -1; @!p or.b32 d, d, 0x80000000;",
                 modes[m]);
        sim_test_rows(SIM_HERE, text, "rrrr", row, ROWS);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        row[i] = (sim_row){100 + (i ^ 5), 100 + i};
    }
    sim_test_rows(SIM_HERE, "shfl.sync.bfly.b32 d, a, 5, 0x1f, 0xffffffff;", "rr", row, LANES);
    sim_test_rows(SIM_HERE,
                  ".reg .pred p; setp.lt.u32 p, %n, 16; mov.b32 %x, 0xffff; @p shfl.sync.bfly.b32 d, a, 5, 31, "
                  "%x; @!p shfl.sync.bfly.b32 d, a, 5, 31, 0xffff0000;",
                  "rr", row, LANES);
    SIM_REFUSED(".reg .b32 r; shfl.bfly.b32 r, r, 1, 31;", "shfl.bfly.b32");
    SIM_REFUSED(".reg .b32 r; shfl.sync.swap.b32 r, r, 1, 31, -1;", "shfl.sync.swap.b32");
}

/* Predicates of four warps: none, all, some, one. */
static const uint32_t sets[4] = {0, 0xffffffffu, 0x0f0f1234u, 0x80000000u};

static void votes(void)
{
    static const char *const modes[] = {"all", "any", "uni"};
    sim_tester.all_lanes = true;
    for (int m = 0; m < 3; m++) {
        for (int negated = 0; negated < 2; negated++) {
            char text[100];
            for (uint32_t i = 0; i < 4 * LANES; i++) {
                uint32_t set = sets[i / LANES], seen = negated ? ~set : set;
                bool all = seen == 0xffffffffu, any = seen != 0;
                row[i] = (sim_row){m == 0 ? all : m == 1 ? any : all || !any, set >> i % LANES & 1};
            }
            snprintf(text, sizeof text, "vote.sync.%s.pred d, %sa, -1;", modes[m], negated ? "!" : "");
            sim_test_rows(SIM_HERE, text, "pp", row, 4 * LANES);
        }
    }
    for (uint32_t i = 0; i < 4 * LANES; i++) {
        row[i] = (sim_row){sets[i / LANES], sets[i / LANES] >> i % LANES & 1};
    }
    sim_test_rows(SIM_HERE, "vote.sync.ballot.b32 d, a, 0xffffffff;", "rp", row, 4 * LANES);
    for (uint32_t i = 0; i < 4 * LANES; i++) {
        row[i].d = ~row[i].d;
    }
    sim_test_rows(SIM_HERE, "vote.sync.ballot.b32 d, !a, 0xffffffff;", "rp", row, 4 * LANES);
    /* Two halves vote each for itself. */
    for (uint32_t i = 0; i < 4 * LANES; i++) {
        uint32_t members = i % LANES < 16 ? 0xffffu : 0xffff0000u, set = sets[i / LANES];
        row[i] = (sim_row){set & members, set >> i % LANES & 1, members};
    }
    sim_test_rows(SIM_HERE,
                  ".reg .pred p; setp.eq.u32 p, b, 0xffff; @p vote.sync.ballot.b32 d, a, 0xffff; @!p "
                  "vote.sync.ballot.b32 d, a, 0xffff0000;",
                  "rpr", row, 4 * LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        row[i] = (sim_row){0x00ff00ffu >> i & 1 ? 0x00ff00ffu : 5, 0x00ff00ffu >> i & 1};
    }
    sim_test_rows(SIM_HERE, "mov.b32 d, 5; @a activemask.b32 d;", "rp", row, LANES);
}

static uint32_t low(uint64_t x)
{
    return (uint32_t)x;
}

static void reductions(void)
{
    static const char *const ops[] = {"add.u32", "min.u32", "max.u32", "add.s32", "min.s32",
                                      "max.s32", "and.b32", "or.b32",  "xor.b32"};
    sim_tester.all_lanes = true;
    for (int op = 0; op < 9; op++) {
        char text[100];
        for (uint32_t warp = 0; warp < 8; warp++) {
            uint32_t members = warp < 4 ? 0xffffffffu : 0x12345678u << warp | 1u << warp, result = 0;
            bool first = true;
            for (uint32_t lane = 0; lane < LANES; lane++) {
                uint32_t a = (lane + 1) * 0x9e3779b9u * (warp + 1) ^ (warp % 2 ? 0x80000000u : 0);
                row[warp * LANES + lane] = (sim_row){.a = a, .b = members >> lane & 1, .c = members};
                if (!(members >> lane & 1)) {
                    continue;
                }
                bool less = op < 3 ? a < result : (int32_t)a < (int32_t)result;
                switch (op) {
                case 0:
                case 3:
                    result = low((uint64_t)result + a);
                    break;
                case 1:
                case 4:
                    result = first || less ? a : result;
                    break;
                case 2:
                case 5:
                    result = first || !less ? a : result;
                    break;
                case 6:
                    result = first ? a : result & a;
                    break;
                case 7:
                    result |= a;
                    break;
                default:
                    result ^= a;
                }
                first = false;
            }
            for (uint32_t lane = 0; lane < LANES; lane++) {
                row[warp * LANES + lane].d = members >> lane & 1 ? result : 77;
            }
        }
        snprintf(text, sizeof text, "mov.b32 d, 77; @b redux.sync.%s d, a, c;", ops[op]);
        sim_test_rows(SIM_HERE, text, "rrpr", row, 8 * LANES);
    }
}

static void matches(void)
{
    sim_tester.all_lanes = true;
    for (uint32_t i = 0; i < 3 * LANES; i++) {
        uint32_t warp = i / LANES, lane = i % LANES;
        uint64_t same_in_four = UINT64_C(0x100000000) * (lane % 4) + 9;
        row[i] = (sim_row){warp == 0   ? 0xffffffffu
                           : warp == 1 ? 0x11111111u << lane % 4
                                       : 1u << lane,
                           warp == 0   ? 5
                           : warp == 1 ? same_in_four
                                       : lane};
    }
    sim_test_rows(SIM_HERE, "match.any.sync.b64 d, a, 0xffffffff;", "rl", row, 3 * LANES);
    for (uint32_t i = LANES; i < 2 * LANES; i++) {
        row[i].a = i % 4;
    }
    sim_test_rows(SIM_HERE, "match.any.sync.b32 d, a, 0xffffffff;", "rr", row, 3 * LANES);
    for (uint32_t i = 0; i < 3 * LANES; i++) {
        row[i].d = i < LANES ? 0xffffffffu : 0;
    }
    sim_test_rows(SIM_HERE, "match.all.sync.b32 d, a, 0xffffffff;", "rr", row, 3 * LANES);
    for (uint32_t i = 0; i < 3 * LANES; i++) {
        row[i].d = i < LANES;
    }
    sim_test_rows(SIM_HERE, ".reg .b32 t; match.all.sync.b32 t|d, a, 0xffffffff;", "pr", row, 3 * LANES);
    sim_test_rows(SIM_HERE, ".reg .b32 t; match.all.sync.b64 t|d, a, 0xffffffff;", "pl", row, 3 * LANES);
}

static void elections(void)
{
    sim_tester.all_lanes = true;
    sim_test_target("sm_90", "8.0");
    for (uint32_t i = 0; i < LANES; i++) {
        row[i] = (sim_row){i == 0 ? 100 : 0};
    }
    sim_test_rows(SIM_HERE, ".reg .pred p; elect.sync d|p, 0xffffffff; @p add.u32 d, d, 100;", "r", row, LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        row[i] = (sim_row){i < 4 ? 7 : i == 4 ? 104 : 4, i >= 4};
    }
    sim_test_rows(SIM_HERE,
                  ".reg .pred p; mov.b32 d, 7; @a bra IN; bra OUT; IN: elect.sync d|p, 0xfffffff0; @p add.u32 d, "
                  "d, 100; OUT:",
                  "rp", row, LANES);
    for (uint32_t i = 0; i < LANES; i++) {
        row[i] = (sim_row){i == 0};
    }
    sim_test_rows(SIM_HERE, "elect.sync _|d, 0xffffffff;", "p", row, LANES);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"shuffles", shuffles},
                                       {"votes", votes},
                                       {"reductions", reductions},
                                       {"matches", matches},
                                       {"elections", elections}};
    return SIM_MAIN("collective", groups);
}
