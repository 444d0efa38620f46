/* Loads, stores, atomics, fences: PTX ISA "ld", "st", "atom", "red", "isspacep", "Alignment", "Operand Size Exceeding
 * Instruction-Type Size", "State Spaces". Each check of an address is seen to fire beside an access that it lets pass.
 */
#include "../ptx/ptx.h"
#include "sim_test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each lane's own 16 bytes. */
#define PLACE ".reg .b64 p; mad.wide.u32 p, %n, 16, g; "

static void widths(void)
{
    uint64_t a = 0x8081828384858687;
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.u8 d, [p];", "hl", {0x87, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s8 d, [p];", "hl", {0xff87, a}, {0x7f, 0x7f});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.u8 d, [p+7];", "rl", {0x80, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s8 d, [p+7];", "rl", {0xffffff80, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s8 d, [p+1];", "ll", {0xffffffffffffff86, a}, {0x12, 0x1234});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.u16 d, [p+2];", "rl", {0x8485, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s16 d, [p+2];", "rl", {0xffff8485, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s16 d, [p];", "ll", {0xffffffffffff8687, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.s32 d, [p+4];", "ll", {0xffffffff80818283, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.u32 d, [p+4];", "ll", {0x80818283, a});
    SIM_OP(PLACE "st.global.b64 [p], a; ld.global.b32 d, [p+4];", "rl", {0x80818283, a});
    /* A store takes the low bits of a wider register. */
    SIM_OP(PLACE "st.global.b64 [p], a; st.global.u8 [p+1], b; ld.global.b64 d, [p];", "lll",
           {0x808182838485ff87, a, 0x11223344556677ff});
    SIM_OP(PLACE "st.global.b64 [p], a; st.global.u16 [p+4], b; ld.global.b64 d, [p];", "llr",
           {0x8081beef84858687, a, 0xdeadbeef});
    SIM_OP(PLACE "st.global.b64 [p], a; st.global.u32 [p], b; ld.global.b64 d, [p];", "lll",
           {0x8081828300000001, a, 0xffffffff00000001});
    SIM_OP(PLACE "st.global.u32 [p], 7; ld.global.u32 d, [p];", "r", {7});
    SIM_OP(PLACE "st.global.f32 [p], 0f3F800000; ld.global.u32 d, [p];", "r", {0x3f800000});
    SIM_OP(PLACE "st.global.f64 [p], 0d3FF0000000000000; ld.global.b64 d, [p];", "l", {0x3ff0000000000000});
}

static void vectors(void)
{
    SIM_OP(PLACE ".reg .b32 x, y; st.global.v2.b32 [p], {a, b}; ld.global.v2.b32 {x, y}, [p]; sub.s32 d, x, y;", "rrr",
           {5, 7, 2}, {0xffffffff, 1, 2});
    SIM_OP(PLACE ".reg .b32 x<4>; st.global.v4.b32 [p], {a, b, c, 9}; ld.global.v4.b32 {x0, x1, x2, x3}, [p]; "
                 "mad.lo.u32 d, x0, x1, x2; add.u32 d, d, x3;",
           "rrrr", {6 + 4 + 9, 2, 3, 4});
    SIM_OP(PLACE ".reg .b64 x, y; st.global.v2.b64 [p], {a, b}; ld.global.v2.b64 {x, y}, [p]; sub.s64 d, x, y;", "lll",
           {5, 7, 2});
    SIM_OP(PLACE ".reg .b16 x<4>; .reg .b32 y; st.global.b64 [p], a; ld.global.v4.u16 {x0, x1, x2, x3}, [p]; "
                 "mov.b64 d, {x3, x2, x1, x0};",
           "ll", {0x4444333322221111, 0x1111222233334444});
    SIM_OP(PLACE ".reg .s32 x<4>; st.global.b32 [p], a; ld.global.v4.s8 {x0, x1, x2, x3}, [p]; "
                 "add.s32 d, x0, x1; add.s32 d, d, x2; add.s32 d, d, x3;",
           "rr", {0xfffffffa, 0xff02f801}, {4, 0x01010101});
    /* A constant beside registers wider than memory. */
    SIM_OP(PLACE ".reg .b32 x; st.global.b32 [p], 0; st.global.v2.u8 [p], {a, 9}; ld.global.b32 d, [p];", "rr",
           {0x912, 0xffffff12});
    SIM_OP(PLACE "st.global.b32 [p], 0; st.global.v2.u16 [p], {9, a}; ld.global.b32 d, [p];", "rl",
           {0x12340009, 0x5678ffff1234});
    sim_test_target("sm_100", "8.8");
    SIM_CHECK(sim_test_run(".reg .b32 x<8>, y; .reg .b64 p; mad.wide.u32 p, %n, 32, g;\n"
                           "st.global.v8.b32 [p], {%n, 1, 2, 3, 4, 5, 6, 7};\n"
                           "ld.global.v8.b32 {x0, x1, x2, x3, x4, x5, x6, x7}, [p];\n"
                           "add.u32 y, x0, x7; st.global.b32 [p], y;",
                           1, 32),
              "%s", sim_tester.fault.text);
    const uint32_t *words = (const uint32_t *)(void *)sim_tester.memory;
    SIM_CHECK(words[8 * 31] == 38 && words[7] == 7 && words[9] == 1, "v8: %u %u %u", words[8 * 31], words[7], words[9]);
    sim_test_target("sm_90", "8.6");
    SIM_REFUSED(".reg .b32 x<8>; ld.global.v8.b32 {x0, x1, x2, x3, x4, x5, x6, x7}, [g];", "sm_100");
    sim_test_target("sm_80", "8.0");
}

static void suffixes(void)
{
    SIM_OP(PLACE "st.global.cs.b32 [p], a; ld.global.cg.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.weak.global.wb.b32 [p], a; ld.weak.global.ca.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.global.L1::no_allocate.b32 [p], a; ld.global.L1::evict_last.L2::128B.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.global.b32 [p], a; ld.global.ca.nc.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.global.b32 [p], a; ld.global.nc.L1::no_allocate.L2::256B.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.volatile.global.b32 [p], a; ld.volatile.global.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.relaxed.gpu.global.b32 [p], a; ld.relaxed.sys.global.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.release.cta.global.b32 [p], a; ld.acquire.gpu.global.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE "st.b32 [p], a; fence.acq_rel.gpu; membar.gl; fence.sc.cta; ld.b32 d, [p];", "rr", {3, 3});
    SIM_OP(PLACE ".reg .b64 q; createpolicy.fractional.L2::evict_first.b64 q, 0f3F800000; "
                 "st.global.L2::cache_hint.b32 [p], a, q; ld.global.L2::cache_hint.b32 d, [p], q;",
           "rr", {3, 3});
    SIM_OP(PLACE "prefetch.global.L2 [p]; prefetchu.L1 [p]; st.global.b32 [p], a; ldu.global.b32 d, [p];", "rr",
           {3, 3});
    SIM_REFUSED(".reg .b32 x; ld.global.xx.b32 x, [g];", "xx");
    SIM_REFUSED(".reg .b32 x; ld.relaxed.global.b32 x, [g];", "scope");
    SIM_REFUSED(".reg .b32 x; ld.shared.nc.b32 x, [8];", ".nc");
    SIM_REFUSED(".reg .b32 x, y; ld.global.b32 x, [y];", "64 bits");
    SIM_REFUSED(".reg .b32 x; ld.global.v2.b32 x, [g];", "vector");
}

static void spaces(void)
{
    SIM_OP(".shared .align 8 .b8 s[256]; .reg .b32 p; mov.u32 p, s; mad.lo.u32 p, %n, 8, p; "
           "st.shared.b64 [p], a; ld.shared.s32 d, [p];",
           "ll", {0xffffffff80000001, 0x1234567880000001});
    SIM_OP(".local .align 8 .b8 s[16]; .reg .b64 p; mov.u64 p, s; st.local.b32 [s+4], a; ld.local.b32 d, [p+4];", "rr",
           {1, 1}, {2, 2}, {3, 3});
    /* Generic addresses of each window. */
    SIM_OP(".shared .align 8 .b8 s[256]; .reg .b64 p; .reg .b32 x; mov.u64 p, s; cvta.shared.u64 p, p; "
           "mad.wide.u32 p, %n, 8, p; st.b32 [p], a; ld.b32 d, [p];",
           "rr", {7, 7}, {8, 8});
    SIM_OP(".local .align 8 .b8 s[16]; .reg .b64 p; mov.u64 p, s; cvta.local.u64 p, p; st.b32 [p+8], a; ld.b32 d, "
           "[p+8];",
           "rr", {7, 7}, {8, 8});
    /* Lanes of one instruction in different spaces: odd ones in shared memory. */
    SIM_OP(
        ".shared .align 8 .b8 s[256]; .reg .b64 p, q; .reg .pred odd; mov.u64 p, s; cvta.shared.u64 p, p; "
        "mad.wide.u32 p, %n, 8, p; mad.wide.u32 q, %n, 8, g; .reg .b32 x; and.b32 x, %n, 1; setp.ne.u32 odd, x, 0; "
        "selp.b64 p, p, q, odd; st.b32 [p], a; ld.b32 d, [p]; @odd ld.shared.b32 d, [p]; @!odd ld.global.b32 d, [p];",
        "rr", {7, 7}, {8, 8}, {9, 9});
    SIM_OP(".shared .b32 s; .reg .b64 p; mov.u64 p, s; cvta.shared.u64 p, p; isspacep.shared d, p;", "p", {1});
    SIM_OP(".shared .b32 s; .reg .b64 p; mov.u64 p, s; cvta.shared.u64 p, p; isspacep.global d, p;", "p", {0});
    SIM_OP(".local .b32 s; .reg .b64 p; mov.u64 p, s; cvta.local.u64 p, p; isspacep.local d, p;", "p", {1});
    SIM_OP("isspacep.global d, g;", "p", {1});
    SIM_OP("isspacep.local d, g;", "p", {0});
    SIM_OP(
        ".reg .b32 x; .reg .b64 y; ld.param.b32 x, [mask]; cvt.s64.s32 y, x; ld.param.s32 d, [mask]; sub.s64 d, d, y;",
        "l", {0});
    SIM_OP("ld.param.b64 d, [memory]; sub.s64 d, d, g;", "l", {0});
}

#define SHARED ".shared .align 16 .b8 s[64]; .reg .b32 x, p; mov.u32 p, s;\n"

static void addresses(void)
{
    SIM_FAULTS(".reg .b32 x; ld.global.b32 x, [g+65536];", 1, SIM_FAULT_ADDRESS,
               "byte 65536 of an allocation of 65536");
    SIM_FAULTS(".reg .b64 x; ld.global.b64 x, [g+65532];", 1, SIM_FAULT_MISALIGNED, "8 bytes");
    SIM_FAULTS(".reg .b32 x<4>; ld.global.v4.b32 {x0, x1, x2, x3}, [g+8];", 1, SIM_FAULT_MISALIGNED, "16 bytes");
    SIM_FAULTS(".reg .b32 x; ld.global.b32 x, [g+-4];", 1, SIM_FAULT_ADDRESS, "global memory");
    SIM_FAULTS(".reg .b64 p; mov.u64 p, 16; st.global.b32 [p], 0;", 1, SIM_FAULT_ADDRESS, "write of 4 bytes at 0x10");
    /* The last lane alone. */
    SIM_FAULTS(".reg .b64 p; mad.wide.u32 p, %n, 4, g; st.global.b32 [p+65412], %n;", 32, SIM_FAULT_ADDRESS,
               "(31,0,0)");
    SIM_CHECK(sim_test_run(".reg .b64 p; mad.wide.u32 p, %n, 4, g; st.global.b32 [p+65408], %n;", 1, 32), "%s",
              sim_tester.fault.text);
    SIM_FAULTS(SHARED "st.shared.b32 [p+64], p;", 1, SIM_FAULT_ADDRESS, "byte 64 of 64");
    SIM_FAULTS(SHARED "st.shared.b32 [p+-4], p;", 1, SIM_FAULT_ADDRESS, "shared memory");
    SIM_FAULTS(SHARED "mov.u32 p, 0; st.shared.b32 [p], p;", 1, SIM_FAULT_ADDRESS, "shared memory");
    SIM_FAULTS(SHARED "st.shared.b32 [p+2], p;", 1, SIM_FAULT_MISALIGNED, "4 bytes");
    SIM_FAULTS(SHARED ".reg .b32 y; atom.shared.add.u32 y, [p+64], p;", 1, SIM_FAULT_ADDRESS, "atomic");
    SIM_FAULTS(".local .b32 s[2]; st.local.b32 [s+8], 0;", 1, SIM_FAULT_ADDRESS, "local memory");
    SIM_FAULTS(".local .align 8 .b32 s[2]; st.local.b16 [s+1], 0;", 1, SIM_FAULT_MISALIGNED, "2 bytes");
    SIM_FAULTS(".reg .b64 p; mov.b64 p, mask; ld.param.b64 p, [p+8];", 1, SIM_FAULT_ADDRESS, "parameter");
    sim_test_target("sm_90", "8.6");
    SIM_FAULTS(SHARED "add.u32 p, p, 0x5000000; st.shared::cluster.b32 [p], p;", 1, SIM_FAULT_ADDRESS, "shared memory");
    sim_test_target("sm_80", "8.0");
}

static void undefined(void)
{
    SIM_FAULTS(SHARED "ld.shared.b32 x, [p+8];", 1, SIM_FAULT_UNDEFINED, "shared+0x8");
    SIM_FAULTS(SHARED "st.shared.b16 [p+8], 0; ld.shared.b32 x, [p+8];", 1, SIM_FAULT_UNDEFINED, "shared+0xa");
    SIM_FAULTS(SHARED "atom.shared.add.u32 x, [p], 1;", 1, SIM_FAULT_UNDEFINED, "shared+0x0");
    SIM_FAULTS(".local .b32 s[4]; .reg .b32 x; st.local.b32 [s+4], 1; ld.local.b32 x, [s+8];", 1, SIM_FAULT_UNDEFINED,
               "local+0x8");
    SIM_CHECK(sim_test_run(SHARED "st.shared.b16 [p+8], 0; st.shared.b16 [p+10], 0; ld.shared.b32 x, [p+8];", 1, 1),
              "%s", sim_tester.fault.text);
    /* What one block wrote isn't there for the next. */
    sim_tester.options.threads = 1;
    SIM_CHECK(!sim_test_run(SHARED ".reg .pred q; setp.eq.u32 q, %n, 0; @q st.shared.b32 [p], 1; ld.shared.b32 x, [p];",
                            4, 1) &&
                  sim_tester.fault.kind == SIM_FAULT_UNDEFINED,
              "%s", sim_tester.fault.text);
    sim_tester.options.threads = 0;
    sim_tester.options.no_undefined = true;
    SIM_CHECK(sim_test_run(SHARED "ld.shared.b32 x, [p+8];", 1, 1), "%s", sim_tester.fault.text);
    sim_tester.options.no_undefined = false;
}

static void atomics(void)
{
#define OLD PLACE "st.global.b32 [p], a; atom.global."
#define NEW " d, [p], b; ld.global.b32 d, [p];"
    SIM_OP(OLD "add.u32 d, [p], b;", "rrr", {5, 5, 3});
    SIM_OP(OLD "add.u32" NEW, "rrr", {8, 5, 3}, {0, 0xffffffff, 1});
    SIM_OP(OLD "and.b32" NEW, "rrr", {0x0f00, 0xff00, 0x0f0f});
    SIM_OP(OLD "or.b32" NEW, "rrr", {0xff0f, 0xff00, 0x0f0f});
    SIM_OP(OLD "xor.b32" NEW, "rrr", {0xf00f, 0xff00, 0x0f0f});
    SIM_OP(OLD "exch.b32" NEW, "rrr", {3, 5, 3});
    SIM_OP(OLD "min.s32" NEW, "rrr", {0xffffffff, 0xffffffff, 1}, {1, 2, 1});
    SIM_OP(OLD "max.s32" NEW, "rrr", {1, 0xffffffff, 1}, {2, 2, 1});
    SIM_OP(OLD "min.u32" NEW, "rrr", {1, 0xffffffff, 1});
    SIM_OP(OLD "max.u32" NEW, "rrr", {0xffffffff, 0xffffffff, 1});
    SIM_OP(OLD "inc.u32" NEW, "rrr", {4, 3, 7}, {0, 7, 7}, {0, 9, 7});
    SIM_OP(OLD "dec.u32" NEW, "rrr", {2, 3, 7}, {7, 0, 7}, {7, 9, 7}, {6, 7, 7});
    SIM_OP(OLD "cas.b32 d, [p], b, c; ld.global.b32 d, [p];", "rrrr", {9, 5, 5, 9}, {5, 5, 4, 9});
    SIM_OP(OLD "add.f32" NEW, "rrr", {0x40400000, 0x3f800000, 0x40000000}, {0, 0x00000001, 0x00000001});
    SIM_OP(PLACE "st.global.b64 [p], a; atom.global.add.u64 d, [p], b; ld.global.b64 d, [p];", "lll",
           {0x100000000, 0xffffffff, 1});
    SIM_OP(PLACE "st.global.b64 [p], a; atom.global.add.f64 d, [p], b; ld.global.b64 d, [p];", "lll",
           {0x4008000000000000, 0x3ff0000000000000, 0x4000000000000000});
    SIM_OP(PLACE "st.global.b64 [p], a; atom.global.min.s64 d, [p], b; ld.global.b64 d, [p];", "lll",
           {~0ull, ~0ull, 1});
    SIM_OP(PLACE "st.global.b64 [p], a; atom.global.cas.b64 d, [p], b, c; ld.global.b64 d, [p];", "llll",
           {9, 0x500000005, 0x500000005, 9}, {0x600000005, 0x600000005, 0x500000005, 9});
    SIM_OP(PLACE "st.global.b16 [p], a; atom.global.cas.b16 d, [p], b, c; ld.global.b16 d, [p];", "hhhh", {9, 5, 5, 9});
    SIM_OP(OLD "add.noftz.f16x2" NEW, "rrr", {0x40003c01, 0x3c000001 + 0x3c00, 0x3c000000}, {2, 1, 1});
    SIM_OP(PLACE "st.global.b16 [p], a; atom.global.add.noftz.f16 d, [p], b; ld.global.b16 d, [p];", "hhh",
           {0x4200, 0x3c00, 0x4000});
    SIM_OP(PLACE "st.global.b32 [p], a; red.global.add.u32 [p], b; ld.global.b32 d, [p];", "rrr", {8, 5, 3});
    SIM_OP(PLACE "st.global.b32 [p], a; red.release.gpu.global.max.s32 [p], b; ld.global.b32 d, [p];", "rrr",
           {5, 5, 3});
    SIM_OP(PLACE "st.global.b32 [p], a; atom.acq_rel.gpu.global.add.u32 d, [p], b;", "rrr", {5, 5, 3});
    /* Shared memory keeps subnormal numbers. */
    SIM_OP(".shared .b32 s[32]; .reg .b32 p; mov.u32 p, s; mad.lo.u32 p, %n, 4, p; st.shared.b32 [p], a; "
           "atom.shared.add.f32 d, [p], b; ld.shared.b32 d, [p];",
           "rrr", {2, 1, 1});
    sim_test_target("sm_90", "8.6");
    SIM_OP(OLD "add.noftz.bf16x2" NEW, "rrr", {0x40003f81, 0x3f803f80, 0x3f803c00});
    SIM_OP(PLACE
           ".reg .f32 x, y, z; st.global.v2.b32 [p], {a, b}; mov.b32 z, c; atom.global.v2.f32.add {x, y}, [p], {z, z};"
           "ld.global.b32 d, [p+4];",
           "rrrr", {0x40400000, 0, 0x3f800000, 0x40000000});
    sim_test_target("sm_80", "8.0");
    SIM_REFUSED(".reg .b32 x; atom.global.add.s64 x, [g], 1;", "s64");
    SIM_REFUSED(".reg .b32 x; red.global.exch.b32 [g], x;", "b32");
    SIM_REFUSED(".reg .b32 x; atom.local.add.u32 x, [g], 1;", ".shared");
}

/* All lanes of all blocks, on all workers, at one place. */
static void together(void)
{
    static const char body[] = ".reg .b32 x; .reg .f32 f; mov.f32 f, 0f3F800000; red.global.add.u32 [g], 1;\n"
                               "red.global.add.f32 [g+4], f; atom.global.inc.u32 x, [g+8], 999;\n"
                               "red.global.max.u32 [g+12], %n;";
    memset(sim_tester.memory, 0, 16);
    sim_tester.options.threads = 2;
    SIM_CHECK(sim_test_run(body, 64, 96), "%s", sim_tester.fault.text);
    sim_tester.options.threads = 0;
    const uint32_t *words = (const uint32_t *)(void *)sim_tester.memory;
    SIM_CHECK(words[0] == 6144 && words[1] == bits_of_float(6144) && words[2] == 144 && words[3] == 6143,
              "%u %#x %u %u", words[0], words[1], words[2], words[3]);
    SIM_CHECK(sim_tester.counters.atomics == 4 * 6144u, "%llu atomics",
              (unsigned long long)sim_tester.counters.atomics);
}

/* A module of its own: .const, .global and memory that may only be read. */
static bool run_module(const char *text, const uint32_t *read_only, sim_fault *fault)
{
    char error[256];
    ptx_module *module = ptx_module_load(text, strlen(text), error, sizeof error);
    if (!module) {
        SIM_CHECK(false, "%s", error);
        return false;
    }
    uint64_t params[1] = {(uint64_t)(uintptr_t)read_only};
    sim_range range = {params[0], params[0] + 16, true};
    sim_launch launch = {.function = ptx_module_entry(module, "k"),
                         .grid = {1, 1, 1},
                         .block = {1, 1, 1},
                         .params = (const uint8_t *)params,
                         .ranges = &range,
                         .range_count = 1};
    bool good = sim_launch_run(&launch, NULL, fault);
    ptx_module_free(module);
    return good;
}

static void module_memory(void)
{
    static const uint32_t data[4] = {1, 2, 3, 4};
    sim_fault fault = {0};
#define MODULE ".version 8.0\n.target sm_80\n.address_size 64\n"
#define ENTRY  ".visible .entry k(.param .u64 a)\n{\n.reg .b64 p; .reg .b32 x, y; .reg .pred q; ld.param.u64 p, [a];\n"
    SIM_CHECK(run_module(MODULE ".const .align 4 .b32 c[2] = {5, 6};\n.global .align 4 .b32 v = 7;\n" ENTRY
                                "ld.const.u32 x, [c+4]; ld.global.u32 y, [v]; add.u32 x, x, y; setp.ne.u32 q, x, 13;\n"
                                "@q trap; st.global.u32 [v], x; ld.global.u32 y, [p+12]; ret;\n}\n",
                         data, &fault),
              "%s", fault.text);
    SIM_CHECK(!run_module(MODULE ENTRY "st.global.u32 [p], 1; ret;\n}\n", data, &fault) &&
                  fault.kind == SIM_FAULT_ADDRESS && strstr(fault.text, "read-only"),
              "%s", fault.text);
    SIM_CHECK(!run_module(MODULE ".const .align 4 .b32 c[2] = {5, 6};\n" ENTRY "ld.const.u32 x, [c+4096]; ret;\n}\n",
                          data, &fault) &&
                  fault.kind == SIM_FAULT_ADDRESS && strstr(fault.text, "outside of constant memory"),
              "%s", fault.text);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"widths", widths},   {"vectors", vectors},     {"suffixes", suffixes},
        {"spaces", spaces},   {"addresses", addresses}, {"undefined", undefined},
        {"atomics", atomics}, {"together", together},   {"module memory", module_memory},
    };
    return SIM_MAIN("memory", groups);
}
