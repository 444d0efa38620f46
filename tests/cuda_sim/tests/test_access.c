/* Loads, stores and atomics by their values: PTX ISA "ld", "st", "atom", "red", "Operand Size Exceeding
 * Instruction-Type Size". (What is out of bounds or misaligned: test_memory.c.) */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

/* Bytes with both signs in every width. */
static void fill(void)
{
    static const uint8_t bytes[16] = {0x80, 0x01, 0xff, 0x7f, 0x05, 0x06, 0x07, 0x88,
                                      0xf1, 0xf2, 0xf3, 0xf4, 0x11, 0x12, 0x13, 0x14};
    memcpy(sim_tester.memory, bytes, sizeof bytes);
}

static void widths(void)
{
    fill();
    SIM_OP("ld.global.u8 d, [g];", "r", {0x80}, {0x80});
    SIM_OP("ld.global.s8 d, [g];", "r", {0xffffff80}, {0xffffff80});
    SIM_OP("ld.global.b8 d, [g];", "r", {0x80}, {0x80});
    SIM_OP("ld.global.s8 d, [g+3];", "h", {0x7f}, {0x7f});
    SIM_OP("ld.global.s8 d, [g];", "h", {0xff80}, {0xff80});
    SIM_OP("ld.global.u8 d, [g];", "l", {0x80}, {0x80});
    SIM_OP("ld.global.s8 d, [g];", "l", {0xffffffffffffff80}, {0xffffffffffffff80});
    SIM_OP("ld.global.u16 d, [g+6];", "h", {0x8807}, {0x8807});
    SIM_OP("ld.global.u16 d, [g+6];", "r", {0x8807}, {0x8807});
    SIM_OP("ld.global.s16 d, [g+6];", "r", {0xffff8807}, {0xffff8807});
    SIM_OP("ld.global.s16 d, [g+6];", "l", {0xffffffffffff8807}, {0xffffffffffff8807});
    SIM_OP("ld.global.b16 d, [g+6];", "l", {0x8807}, {0x8807});
    SIM_OP("ld.global.u32 d, [g+4];", "r", {0x88070605}, {0x88070605});
    SIM_OP("ld.global.s32 d, [g+4];", "l", {0xffffffff88070605}, {0xffffffff88070605});
    SIM_OP("ld.global.u32 d, [g+4];", "l", {0x88070605}, {0x88070605});
    SIM_OP("ld.global.f32 d, [g+4];", "r", {0x88070605}, {0x88070605});
    SIM_OP("ld.global.b64 d, [g];", "l", {0x880706057fff0180}, {0x880706057fff0180});
    SIM_OP("ld.global.f64 d, [g+8];", "l", {0x14131211f4f3f2f1}, {0x14131211f4f3f2f1});
    SIM_OP(".reg .b32 t; ld.global.v2.u32 {d, t}, [g]; sub.u32 d, d, t;", "r", {0x7fff0180 - 0x88070605},
           {0x7fff0180 - 0x88070605});
    SIM_OP(".reg .b32 t<3>; ld.global.v4.b32 {t0, t1, d, t2}, [g];", "r", {0xf4f3f2f1}, {0xf4f3f2f1});
    SIM_OP("ld.global.v4.b32 {_, _, _, d}, [g];", "r", {0x14131211}, {0x14131211});
    SIM_OP(".reg .b32 t<3>; ld.global.v4.s8 {t0, d, t1, t2}, [g+8];", "r", {0xfffffff2}, {0xfffffff2});
    SIM_OP(".reg .b16 t; ld.global.v2.u16 {t, d}, [g+4];", "h", {0x8807}, {0x8807});
    SIM_OP(".reg .b64 t; ld.global.v2.b64 {t, d}, [g];", "l", {0x14131211f4f3f2f1}, {0x14131211f4f3f2f1});
    SIM_OP(".reg .b64 t; add.u64 t, g, a; ld.global.u8 d, [t+-1];", "rl", {0x80, 1}, {0xff, 3}, {0x14, 16}, {0xf1, 9});
}

/* How it is cached or ordered does not change what it is. */
static void manners(void)
{
    static const char *const loads[] = {"ld.global.nc.u32",
                                        "ld.global.ca.u32",
                                        "ld.global.cg.u32",
                                        "ld.global.cs.u32",
                                        "ld.global.lu.u32",
                                        "ld.global.cv.u32",
                                        "ld.volatile.global.u32",
                                        "ld.relaxed.gpu.global.u32",
                                        "ld.acquire.sys.global.u32",
                                        "ld.weak.global.u32",
                                        "ld.global.L1::no_allocate.u32",
                                        "ld.relaxed.cta.global.u32",
                                        "ld.global.L2::128B.u32",
                                        "ld.global.nc.L1::no_allocate.L2::256B.u32",
                                        "ld.acquire.gpu.u32",
                                        "ld.u32"};
    static const char *const stores[] = {"st.global.wb.u32",          "st.global.cg.u32",
                                         "st.global.cs.u32",          "st.global.wt.u32",
                                         "st.volatile.global.u32",    "st.relaxed.gpu.global.u32",
                                         "st.release.sys.global.u32", "st.weak.global.u32",
                                         "st.release.gpu.u32",        "st.u32"};
    char text[200];
    fill();
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        snprintf(text, sizeof text, "%s d, [g+4];", loads[i]);
        SIM_OP(text, "r", {0x88070605}, {0x88070605});
    }
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        snprintf(text, sizeof text, ".reg .b64 t; mad.wide.u32 t, %%n, 4, g; %s [t+64], a; ld.global.u32 d, [t+64];",
                 stores[i]);
        SIM_OP(text, "rr", {7, 7}, {0x89abcdef, 0x89abcdef});
    }
}

static void stores(void)
{
    /* Each lane writes 0xff.. over its 16 bytes, then a narrower value, and reads all back. */
    static const struct {
        const char *store;
        char kind;
        uint64_t value, low;
    } cases[] = {{"st.global.u8 [t+1], a;", 'r', 0x12345678, 0xffffffffffff78ff},
                 {"st.global.b8 [t], a;", 'h', 0x5678, 0xffffffffffffff78},
                 {"st.global.s8 [t+7], a;", 'l', 0x56, 0x56ffffffffffffff},
                 {"st.global.u16 [t+2], a;", 'h', 0x5678, 0xffffffff5678ffff},
                 {"st.global.b16 [t+2], a;", 'r', 0x12345678, 0xffffffff5678ffff},
                 {"st.global.u32 [t+4], a;", 'r', 0x12345678, 0x12345678ffffffff},
                 {"st.global.b32 [t+4], a;", 'l', 0xaaaaaaaa12345678, 0x12345678ffffffff},
                 {"st.global.f32 [t], a;", 'r', 0x7fa00001, 0xffffffff7fa00001},
                 {"st.global.b64 [t], a;", 'l', 0x1122334455667788, 0x1122334455667788},
                 {"st.global.v2.b32 [t], {a, 9};", 'r', 3, 0x0000000900000003},
                 {"st.global.v4.b16 [t], {a, 9, a, 7};", 'h', 3, 0x0007000300090003},
                 {"st.global.v2.u8 [t+2], {a, 9};", 'r', 3, 0xffffffff0903ffff},
                 {"st.global.u8 [t], -1;", 'r', 0, 0xffffffffffffffff},
                 {"st.global.u32 [t], 5;", 'r', 0, 0xffffffff00000005},
                 {"st.global.f32 [t], 0f3F800000;", 'r', 0, 0xffffffff3f800000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200], kinds[3] = {'l', cases[i].kind};
        snprintf(text, sizeof text,
                 ".reg .b64 t; mad.wide.u32 t, %%n, 16, g; st.global.b64 [t], -1; %s ld.global.b64 d, [t];",
                 cases[i].store);
        const sim_row rows[2] = {{cases[i].low, cases[i].value}, {cases[i].low, cases[i].value}};
        sim_test_rows(SIM_HERE, text, kinds, rows, 2);
    }
}

static void spaces(void)
{
    SIM_OP(".shared .align 8 .b8 s[512]; .reg .b32 t; mov.u32 t, s; mad.lo.u32 t, %n, 8, t; st.shared.b32 [t+4], a; "
           "ld.shared.s16 d, [t+6];",
           "rr", {0xffff8123, 0x81234567}, {0x7123, 0x71234567});
    SIM_OP(".shared .b64 s[64]; .reg .b64 t, u; mov.u64 t, s; mad.wide.u32 t, %n, 8, t; st.shared.b64 [t], a; "
           "cvta.shared.u64 u, t; ld.u64 d, [u];",
           "ll", {0x123456789abcdef0, 0x123456789abcdef0});
    SIM_OP(".shared .b64 s[64]; .reg .b64 t, u; cvta.shared.u64 u, s; mad.wide.u32 u, %n, 8, u; st.b64 [u], a; "
           "cvta.to.shared.u64 t, u; ld.shared.b64 d, [t];",
           "ll", {0x123456789abcdef0, 0x123456789abcdef0});
    SIM_OP(
        ".shared .b32 s; .reg .pred p; setp.eq.u32 p, %n, 0; @p st.shared.b32 [s], a; bar.warp.sync -1; ld.shared.b32 "
        "d, [s];",
        "rr", {5, 5}, {5, 6});
    SIM_OP(".local .align 8 .b8 s[16]; .reg .b64 t, u; mov.u64 t, s; st.local.u32 [t+8], a; ld.local.u8 d, [t+9]; "
           "cvta.local.u64 u, t; st.u8 [u+9], d; ld.local.u32 d, [s+8];",
           "rr", {0x12345678, 0x12345678}, {0xabcdef01, 0xabcdef01});
    SIM_OP(".reg .b64 t, u; mov.u64 t, memory; ld.param.u64 u, [t]; sub.u64 d, u, g;", "l", {0}, {0});
    SIM_OP(".reg .b64 t; cvta.to.global.u64 t, g; st.global.u32 [t], 5; cvta.global.u64 t, t; ld.u32 d, [t];", "r", {5},
           {5});
    SIM_OP("ld.param.s32 d, [mask]; shr.s64 d, d, 63;", "l", {~0ull}, {~0ull});
    SIM_OP(
        ".reg .b64 t; .reg .pred p, q, r; .shared .b32 s; .local .b32 l; isspacep.global p, g; cvta.shared.u64 t, s; "
        "isspacep.shared q, t; cvta.local.u64 t, l; isspacep.local r, t; and.pred d, p, q; and.pred d, d, r; "
        "isspacep.shared p, t; not.pred p, p; and.pred d, d, p;",
        "p", {1}, {1});
}

/* d is the old value, and what stands in memory is the new one; both in global and in shared memory. */
static void atom(const char *op, char kind, const sim_row *rows, size_t count)
{
    /* rows: a before, b operand, c second operand (cas), d after */
    static const char *const space[] = {"global", "shared"};
    const char *bits = kind == 'l' || kind == 'D' ? "b64" : kind == 'h' ? "b16" : "b32";
    bool two = strncmp(op, "cas", 3) == 0;
    sim_row old[64];
    for (size_t i = 0; i < count; i++) {
        old[i] = rows[i];
        old[i].d = rows[i].a;
    }
    char text[400], kinds[5] = {kind, kind, kind, kind, '\0'};
    for (int s = 0; s < 2; s++) {
        const char *base = s ? ".shared .b64 s[512]; mov.u64 t, s;" : "mov.b64 t, g;";
        snprintf(text, sizeof text,
                 ".reg .b64 t; %s mad.wide.u32 t, %%n, 8, t; st.%s.%s [t], a; atom.%s.%s d, [t], b%s;", base, space[s],
                 bits, space[s], op, two ? ", c" : "");
        sim_test_rows(op, text, kinds, old, count);
        snprintf(text, sizeof text,
                 ".reg .b64 t; %s mad.wide.u32 t, %%n, 8, t; st.%s.%s [t], a; atom.%s.%s d, [t], b%s; ld.%s.%s d, [t];",
                 base, space[s], bits, space[s], op, two ? ", c" : "", space[s], bits);
        sim_test_rows(op, text, kinds, rows, count);
        if (!two && strncmp(op, "exch", 4) != 0) {
            snprintf(text, sizeof text,
                     ".reg .b64 t; %s mad.wide.u32 t, %%n, 8, t; st.%s.%s [t], a; red.%s.%s [t], b; ld.%s.%s d, [t];",
                     base, space[s], bits, space[s], op, space[s], bits);
            sim_test_rows(op, text, kinds, rows, count);
        }
    }
}
#define ATOM(op, kind, ...)                                                                                            \
    atom(op, kind, (const sim_row[]){__VA_ARGS__}, sizeof((const sim_row[]){__VA_ARGS__}) / sizeof(sim_row))

static void atomics(void)
{
    ATOM("add.u32", 'r', {3, 1, 2}, {0, 0xffffffff, 1});
    ATOM("add.s32", 'r', {0x80000000, 0x7fffffff, 1});
    ATOM("add.u64", 'l', {0x100000000, 0xffffffff, 1});
    ATOM("min.u32", 'r', {1, 0xffffffff, 1}, {1, 1, 0xffffffff});
    ATOM("min.s32", 'r', {0xffffffff, 0xffffffff, 1}, {0x80000000, 0, 0x80000000});
    ATOM("max.u32", 'r', {0xffffffff, 0xffffffff, 1}, {5, 1, 5});
    ATOM("max.s32", 'r', {1, 0xffffffff, 1}, {0, 0, 0x80000000});
    ATOM("min.u64", 'l', {1, ~0ull, 1});
    ATOM("min.s64", 'l', {~0ull, ~0ull, 1});
    ATOM("max.u64", 'l', {~0ull, ~0ull, 1});
    ATOM("max.s64", 'l', {1, ~0ull, 1});
    ATOM("and.b32", 'r', {0x0f000000, 0xff00ff00, 0x0f0f00ff});
    ATOM("or.b32", 'r', {0xff0fffff, 0xff00ff00, 0x0f0f00ff});
    ATOM("xor.b32", 'r', {0xf00fffff, 0xff00ff00, 0x0f0f00ff});
    ATOM("and.b64", 'l', {1, 3, 1ull << 63 | 1});
    ATOM("or.b64", 'l', {1ull << 63 | 3, 3, 1ull << 63 | 1});
    ATOM("xor.b64", 'l', {1ull << 63 | 2, 3, 1ull << 63 | 1});
    ATOM("exch.b32", 'r', {2, 1, 2});
    ATOM("exch.b64", 'l', {1ull << 60, 1, 1ull << 60});
    ATOM("cas.b32", 'r', {3, 1, 1, 3}, {1, 1, 2, 3});
    ATOM("cas.b64", 'l', {3, 1ull << 40, 1ull << 40, 3}, {1ull << 40, 1ull << 40, 0, 3});
    ATOM("cas.b16", 'h', {3, 1, 1, 3}, {1, 1, 2, 3});
    /* inc: back to 0 from b on; dec: back to b from 0 or from above b */
    ATOM("inc.u32", 'r', {2, 1, 5}, {0, 5, 5}, {0, 9, 5}, {0, 0, 0}, {0, 0xffffffff, 0xffffffff});
    ATOM("dec.u32", 'r', {0, 1, 5}, {5, 0, 5}, {5, 9, 5}, {4, 5, 5}, {0xffffffff, 0, 0xffffffff});
    ATOM("add.f32", 'f', {0x40400000, 0x3f800000, 0x40000000}, {0x3f800000, 0x3f800000, 0x33800000},
         {0x3f800002, 0x3f800001, 0x33800000}, {0x7fc00000, 0x7f800000, 0xff800000});
    ATOM("add.f64", 'D', {0x4008000000000000, 0x3ff0000000000000, 0x4000000000000000});
    ATOM("add.noftz.f16x2", 'r', {0x42003c01, 0x3c003c00, 0x40001400}, {0x00027c00, 0x00017bff, 0x00015000});
    /* Subnormal numbers: flushed in global memory, not in shared memory. */
    SIM_OP("st.global.u32 [g], a; atom.global.add.f32 d, [g], b; ld.global.u32 d, [g];", "rrr", {0, 1, 1});
    SIM_OP(".shared .b32 s[64]; .reg .b32 t; mov.u32 t, s; mad.lo.u32 t, %n, 4, t; st.shared.u32 [t], a; "
           "atom.shared.add.f32 d, [t], b; ld.shared.u32 d, [t];",
           "rrr", {2, 1, 1});
    sim_test_target("sm_90", "7.8");
    ATOM("add.noftz.bf16x2", 'r', {0x40403f80, 0x3f803f80, 0x40003b80}, {0x3f823f80, 0x3f813f80, 0x3b800000});
    ATOM("add.noftz.f16", 'h', {0x4200, 0x3c00, 0x4000});
    ATOM("add.noftz.bf16", 'h', {0x4040, 0x3f80, 0x4000});
}

static void orders(void)
{
    static const char *const names[] = {"atom.add.u32", "atom.relaxed.gpu.global.add.u32",
                                        "atom.acquire.cta.global.add.u32", "atom.release.sys.global.add.u32",
                                        "atom.acq_rel.gpu.add.u32"};
    char text[200];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(text, sizeof text,
                 ".reg .b64 t; mad.wide.u32 t, %%n, 4, g; st.global.u32 [t], a; %s d, [t], b; ld.global.u32 d, [t];",
                 names[i]);
        SIM_OP(text, "rrr", {3, 1, 2}, {9, 4, 5});
    }
    SIM_REFUSED(".reg .b32 r; .reg .b64 t; atom.global.add.b32 r, [t], r;", "atom.global.add.b32");
    SIM_REFUSED(".reg .b32 r; .reg .b64 t; atom.global.min.f32 r, [t], r;", "atom.global.min.f32");
    SIM_REFUSED(".reg .b32 r; .reg .b64 t; atom.global.and.u32 r, [t], r;", "atom.global.and.u32");
    SIM_REFUSED(".reg .b32 r; .reg .b64 t; red.global.exch.b32 [t], r;", "red.global.exch.b32");
}

/* All on one address: no addition is lost, and every lane saw a value of its own. */
static void contention(void)
{
    uint32_t *words = (uint32_t *)(void *)sim_tester.memory;
    sim_tester.options.threads = 2;
    bool good =
        sim_test_run(".reg .b32 r; .reg .b64 t; .reg .pred p; atom.global.add.u32 r, [g], 1; mad.wide.u32 t, r, 4, g; "
                     "st.global.u32 [t+64], 7; red.global.max.u32 [g+8], %n; setp.lt.u32 p, %n, 100; @p "
                     "red.global.add.f32 [g+16], 0f3F800000; atom.global.inc.u32 r, [g+24], 6;",
                     8, 128);
    SIM_CHECK(good, "%s", sim_tester.fault.text);
    SIM_CHECK(words[0] == 1024 && words[2] == 1023, "%u %u", words[0], words[2]);
    SIM_CHECK(words[4] == 0x42c80000 && words[6] == 1024 % 7, "%#x %u", words[4], words[6]);
    for (int i = 0; i < 1024; i++) {
        SIM_CHECK(words[16 + i] == 7, "no lane saw %d", i);
    }
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"widths", widths},        {"manners", manners}, {"stores", stores},
                                       {"spaces", spaces},        {"atomics", atomics}, {"orders", orders},
                                       {"contention", contention}};
    return SIM_MAIN("access", groups);
}
