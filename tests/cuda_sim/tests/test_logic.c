/* Bits: PTX ISA "Logic and Shift Instructions", and bfe, bfi, bmsk, prmt of the integer and the data movement ones. */
#include "sim_test.h"
#include <stdio.h>

enum { ROWS = 512 };

/* Numbers with many zeros and ones at their edges (xorshift, sometimes masked). */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    uint64_t value = *state * UINT64_C(0x2545f4914f6cdd1d);
    switch (*state >> 60) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return value | UINT64_C(0x8000000080008000);
    default:
        return value;
    }
}

static void bitwise(void)
{
    SIM_OP("and.b32 d, a, b;", "rrr", {0x0f000000, 0xff00ff00, 0x0f0f00ff});
    SIM_OP("or.b32 d, a, b;", "rrr", {0xff0fffff, 0xff00ff00, 0x0f0f00ff});
    SIM_OP("xor.b32 d, a, b;", "rrr", {0xf00fffff, 0xff00ff00, 0x0f0f00ff});
    SIM_OP("not.b32 d, a;", "rr", {0x00ff00ff, 0xff00ff00}, {0xffffffff, 0});
    SIM_OP("cnot.b32 d, a;", "rr", {1, 0}, {0, 5}, {0, 0x80000000});
    SIM_OP("and.b16 d, a, b;", "hhh", {0x0f00, 0xff00, 0x0f0f});
    SIM_OP("or.b16 d, a, b;", "hhh", {0xff0f, 0xff00, 0x0f0f});
    SIM_OP("xor.b16 d, a, b;", "hhh", {0xf00f, 0xff00, 0x0f0f});
    SIM_OP("not.b16 d, a;", "hh", {0x00ff, 0xff00});
    SIM_OP("cnot.b16 d, a;", "hh", {1, 0}, {0, 5});
    SIM_OP("and.b64 d, a, b;", "lll", {0x0f00000000000001, 0xff00000000000001, 0x0f0f000000000003});
    SIM_OP("or.b64 d, a, b;", "lll", {0xff0f000000000003, 0xff00000000000001, 0x0f0f000000000003});
    SIM_OP("xor.b64 d, a, b;", "lll", {0xf00f000000000002, 0xff00000000000001, 0x0f0f000000000003});
    SIM_OP("not.b64 d, a;", "ll", {~1ull, 1});
    SIM_OP("cnot.b64 d, a;", "ll", {1, 0}, {0, 1ull << 40});
    SIM_OP("and.pred d, a, b;", "ppp", {0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1});
    SIM_OP("or.pred d, a, b;", "ppp", {0, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1});
    SIM_OP("xor.pred d, a, b;", "ppp", {0, 0, 0}, {1, 1, 0}, {1, 0, 1}, {0, 1, 1});
    SIM_OP("not.pred d, a;", "pp", {1, 0}, {0, 1});
    SIM_OP("and.pred d, a, !b;", "ppp", {0, 0, 0}, {1, 1, 0}, {0, 0, 1}, {0, 1, 1});
    SIM_OP("or.pred d, !a, b;", "ppp", {1, 0, 0}, {0, 1, 0}, {1, 0, 1}, {1, 1, 1});
    SIM_OP("mov.pred d, a;", "pp", {0, 0}, {1, 1});
    SIM_OP("mov.pred d, -1;", "p", {1}, {1});
    SIM_OP("mov.pred d, 0;", "p", {0}, {0});
}

/* Shift counts are 32 bits, unsigned, and clamped to the width. */
static void shifts(void)
{
    SIM_OP("shl.b32 d, a, b;", "rrr", {0x80000000, 1, 31}, {0, 1, 32}, {0, 1, 33}, {0, 1, 0xffffffff}, {5, 5, 0});
    SIM_OP("shl.b16 d, a, b;", "hhr", {0x8000, 1, 15}, {0, 1, 16}, {0, 1, 32}, {0, 0xffff, 0x80000000}, {7, 7, 0});
    SIM_OP("shl.b64 d, a, b;", "llr", {1ull << 63, 1, 63}, {0, 1, 64}, {0, 1, 0xffffffff}, {1ull << 32, 1, 32});
    SIM_OP("shr.u32 d, a, b;", "rrr", {1, 0x80000000, 31}, {0, 0x80000000, 32}, {0, ~0u, 0xffffffff}, {5, 5, 0});
    SIM_OP("shr.s32 d, a, b;", "rrr", {~0u, 0x80000000, 31}, {~0u, 0x80000000, 32}, {0, 0x7fffffff, 33},
           {~0u, 0x80000000, 0xffffffff}, {0xc0000000, 0x80000000, 1});
    SIM_OP("shr.b32 d, a, b;", "rrr", {1, 0x80000000, 31}, {0, 0x80000000, 32});
    SIM_OP("shr.u16 d, a, b;", "hhr", {1, 0x8000, 15}, {0, 0x8000, 16});
    SIM_OP("shr.s16 d, a, b;", "hhr", {0xffff, 0x8000, 15}, {0xffff, 0x8000, 40}, {0, 0x7fff, 16}, {0xc000, 0x8000, 1});
    SIM_OP("shr.u64 d, a, b;", "llr", {1, 1ull << 63, 63}, {0, 1ull << 63, 64});
    SIM_OP("shr.s64 d, a, b;", "llr", {~0ull, 1ull << 63, 63}, {~0ull, 1ull << 63, 64}, {0, ~0ull >> 1, 200});
    SIM_OP("shl.b32 d, a, 4;", "rr", {0x10, 1});
}

/* PTX ISA "shf": the 64 bits b:a shifted by n, clamped to 32 or taken modulo 32. */
static void funnel_shifts(void)
{
    static sim_row left_wrap[ROWS], left_clamp[ROWS], right_wrap[ROWS], right_clamp[ROWS];
    uint64_t state = 1;
    for (int i = 0; i < ROWS; i++) {
        uint32_t a = (uint32_t)next_random(&state), b = (uint32_t)next_random(&state);
        uint32_t c = i < 80 ? (uint32_t)i : (uint32_t)next_random(&state);
        uint64_t both = (uint64_t)b << 32 | a;
        uint32_t clamped = c < 32 ? c : 32, wrapped = c % 32;
        left_clamp[i] = (sim_row){(uint32_t)((both << clamped) >> 32), a, b, c};
        if (clamped == 32) {
            left_clamp[i].d = a;
        }
        left_wrap[i] = (sim_row){(uint32_t)((both << wrapped) >> 32), a, b, c};
        right_clamp[i] = (sim_row){(uint32_t)(both >> clamped), a, b, c};
        right_wrap[i] = (sim_row){(uint32_t)(both >> wrapped), a, b, c};
    }
    sim_test_rows(SIM_HERE, "shf.l.clamp.b32 d, a, b, c;", "rrrr", left_clamp, ROWS);
    sim_test_rows(SIM_HERE, "shf.l.wrap.b32 d, a, b, c;", "rrrr", left_wrap, ROWS);
    sim_test_rows(SIM_HERE, "shf.r.clamp.b32 d, a, b, c;", "rrrr", right_clamp, ROWS);
    sim_test_rows(SIM_HERE, "shf.r.wrap.b32 d, a, b, c;", "rrrr", right_wrap, ROWS);
}

/* The byte of the table of a function is its value on 0xf0, 0xcc, 0xaa. */
static void three_inputs(void)
{
    char text[80];
    for (unsigned table = 0; table < 256; table += sim_tester.failures ? 256 : 1) {
        snprintf(text, sizeof text, "lop3.b32 d, a, b, c, 0x%x;", table);
        SIM_OP(text, "rrrr", {table * 0x01010101u, 0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa},
               {(table & 1) * 0xffffffffu, 0, 0, 0}, {(table >> 7) * 0xffffffffu, ~0u, ~0u, ~0u});
    }
}

static void fields(void)
{
    static sim_row u32[ROWS], s32[ROWS], u64[ROWS], s64[ROWS], insert32[ROWS], insert64[ROWS];
    uint64_t state = 2;
    for (int i = 0; i < ROWS; i++) {
        uint64_t a = next_random(&state), b = next_random(&state), pos = next_random(&state) % 80,
                 len = next_random(&state) % 80;
        pos = i % 16 == 0 ? pos | 0xffffff00 : pos; /* only 8 bits of both count */
        len = i % 16 == 1 ? len | 0xabcdef00 : len;
        len = i % 16 == 2 ? 255 : len;
        for (unsigned width = 32; width <= 64; width += 32) {
            uint64_t p = pos & 0xff, n = len & 0xff, field = 0, inserted = b, msb = width - 1;
            uint64_t top = p + n - 1 < msb ? p + n - 1 : msb;
            uint64_t sign = n > 0 ? a >> top & 1 : 0, extended = 0;
            for (uint64_t k = 0; k < width; k++) {
                bool inside = k < n && p + k <= msb;
                uint64_t bit = inside ? a >> (p + k) & 1 : 0;
                field |= bit << k;
                extended |= (inside ? bit : sign) << k;
                if (inside) {
                    inserted = (inserted & ~(1ull << (p + k))) | (a >> k & 1) << (p + k);
                }
            }
            *(width == 32 ? &u32[i] : &u64[i]) = (sim_row){field, a, pos, len};
            *(width == 32 ? &s32[i] : &s64[i]) = (sim_row){extended, a, pos, len};
            *(width == 32 ? &insert32[i] : &insert64[i]) = (sim_row){inserted, a, b, pos, len};
        }
    }
    sim_test_rows(SIM_HERE, "bfe.u32 d, a, b, c;", "rrrr", u32, ROWS);
    sim_test_rows(SIM_HERE, "bfe.s32 d, a, b, c;", "rrrr", s32, ROWS);
    sim_test_rows(SIM_HERE, "bfe.u64 d, a, b, c;", "llrr", u64, ROWS);
    sim_test_rows(SIM_HERE, "bfe.s64 d, a, b, c;", "llrr", s64, ROWS);
    sim_test_rows(SIM_HERE, "bfi.b32 d, a, b, c, e;", "rrrrr", insert32, ROWS);
    sim_test_rows(SIM_HERE, "bfi.b64 d, a, b, c, e;", "lllrr", insert64, ROWS);
    SIM_OP("bfe.u32 d, a, 8, 8;", "rr", {0x56, 0x12345678});
    SIM_OP("bfe.s32 d, a, 0, 0;", "rr", {0, 0xffffffff});
}

/* PTX ISA "prmt", tables of the modes: which byte of {b, a} each byte of d is, d's highest first. */
static const char *const modes[6][4] = {{"3210", "4321", "5432", "6543"}, {"5670", "6701", "7012", "0123"},
                                        {"0000", "1111", "2222", "3333"}, {"3210", "3211", "3222", "3333"},
                                        {"0000", "1110", "2210", "3210"}, {"1010", "3232", "1010", "3232"}};
static const char *const mode_names[6] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};

static void bytes(void)
{
    static sim_row any[ROWS], row[64];
    uint64_t state = 3;
    for (int i = 0; i < ROWS; i++) {
        uint64_t a = (uint32_t)next_random(&state), b = (uint32_t)next_random(&state), c = next_random(&state);
        uint64_t both = b << 32 | a, d = 0;
        for (int k = 0; k < 4; k++) {
            uint64_t selector = c >> 4 * k & 15, byte = both >> 8 * (selector & 7) & 0xff;
            byte = selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
            d |= byte << 8 * k;
        }
        any[i] = (sim_row){d, a, b, c};
    }
    sim_test_rows(SIM_HERE, "prmt.b32 d, a, b, c;", "rrrr", any, ROWS);
    SIM_OP("prmt.b32 d, a, b, 0x5410;", "rrr", {0xbbbbaaaa, 0x1111aaaa, 0x2222bbbb});
    SIM_OP("prmt.b32 d, a, b, 0x7632;", "rrr", {0x22221111, 0x1111aaaa, 0x2222bbbb});
    for (int mode = 0; mode < 6; mode++) {
        for (int i = 0; i < 64; i++) {
            uint64_t both = UINT64_C(0x8f7e6d5c4b3a2918), c = (uint64_t)i & 3, d = 0;
            for (int k = 0; k < 4; k++) {
                d = d << 8 | (both >> 8 * (modes[mode][c][k] - '0') & 0xff);
            }
            row[i] = (sim_row){d, (uint32_t)both, both >> 32, c + (i & 4 ? 0xfffffff0u : 0)};
        }
        char text[80];
        snprintf(text, sizeof text, "prmt.b32.%s d, a, b, c;", mode_names[mode]);
        sim_test_rows(SIM_HERE, text, "rrrr", row, 64);
    }
}

static void masks(void)
{
    SIM_OP("bmsk.clamp.b32 d, a, b;", "rrr", {0x1e, 1, 4}, {0, 0, 0}, {0xffffffff, 0, 32}, {0xffffffff, 0, 40},
           {0, 32, 5}, {0x80000000, 31, 5});
    SIM_OP("bmsk.wrap.b32 d, a, b;", "rrr", {0x1e, 1, 4}, {0, 0, 32}, {0x1, 32, 1}, {0x80000000, 31, 5});
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"bitwise", bitwise},
                                       {"shifts", shifts},
                                       {"funnel_shifts", funnel_shifts},
                                       {"three_inputs", three_inputs},
                                       {"fields", fields},
                                       {"bytes", bytes},
                                       {"masks", masks}};
    return SIM_MAIN("logic", groups);
}
