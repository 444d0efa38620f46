/* Integer arithmetic: PTX ISA "Integer Arithmetic Instructions", "Extended-Precision Integer Arithmetic". */
#include "sim_test.h"

static void add_and_sub(void)
{
    SIM_OP("add.s32 d, a, b;", "rrr", {3, 1, 2}, {0x80000000, 0x7fffffff, 1}, {0, 0xffffffff, 1});
    SIM_OP("add.u32 d, a, b;", "rrr", {0xfffffffe, 0xffffffff, 0xffffffff});
    SIM_OP("add.sat.s32 d, a, b;", "rrr", {0x7fffffff, 0x7fffffff, 1}, {0x80000000, 0x80000000, 0xffffffff},
           {0x7ffffffe, 0x7fffffff, 0xffffffff}, {0x80000000, 0x80000000, 0x80000000}, {7, 3, 4});
    SIM_OP("add.u16 d, a, b;", "hhh", {0, 0xffff, 1}, {0x8000, 0x7fff, 1});
    SIM_OP("add.s16 d, a, b;", "hhh", {0xfffd, 0xffff, 0xfffe});
    SIM_OP("add.s64 d, a, b;", "lll", {0x8000000000000000, 0x7fffffffffffffff, 1}, {0x100000000, 0xffffffff, 1});
    SIM_OP("add.u64 d, a, b;", "lll", {1, 0xffffffffffffffff, 2});
    SIM_OP("sub.s32 d, a, b;", "rrr", {0xffffffff, 1, 2}, {0x7fffffff, 0x80000000, 1});
    SIM_OP("sub.sat.s32 d, a, b;", "rrr", {0x80000000, 0x80000000, 1}, {0x7fffffff, 0, 0x80000000},
           {0x7fffffff, 0x7fffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0});
    SIM_OP("sub.u16 d, a, b;", "hhh", {0xffff, 0, 1});
    SIM_OP("sub.s64 d, a, b;", "lll", {0xffffffffffffffff, 0, 1});
    SIM_OP("add.s32 d, a, -5;", "rr", {0xfffffffd, 2}, {0, 5});
    SIM_OP("sub.u32 d, 0x10, a;", "rr", {0xf, 1}, {0xffffffff, 0x11});
    if (sim_tester.failures == 0) {
        sim_test_target("sm_90", "8.0");
        SIM_OP("add.u16x2 d, a, b;", "rrr", {0x00000000, 0xffff8000, 0x00018000}, {0x00030005, 0x00010002, 0x00020003});
        SIM_OP("add.s16x2 d, a, b;", "rrr", {0x80000000, 0x7fffffff, 0x00010001});
    }
}

static void carries(void)
{
    SIM_OP("add.cc.u32 d, a, b; addc.u32 d, 0, 0;", "rrr", {1, 0xffffffff, 1}, {0, 0xfffffffe, 1},
           {1, 0x80000000, 0x80000000});
    SIM_OP(".reg .b32 t; add.cc.u32 t, a, a; addc.cc.u32 d, b, c; addc.u32 t, 0, 0; shl.b32 t, t, 8; add.u32 d, d, t;",
           "rrrr", {0x101, 0x80000000, 0xffffffff, 1}, {0x100, 0, 0xffffffff, 1}, {3, 0x80000000, 1, 1});
    /* Borrow: subc takes CC.CF as it is left by sub.cc. */
    SIM_OP(".reg .b32 t; sub.cc.u32 t, a, b; subc.u32 d, c, 0;", "rrrr", {9, 1, 2, 10}, {10, 2, 1, 10}, {10, 2, 2, 10},
           {0xffffffff, 0, 1, 0});
    SIM_OP(".reg .b32 t; mad.lo.cc.u32 t, a, b, c; madc.hi.u32 d, a, b, 0;", "rrrr",
           {0xfffffffe + 1u, 0xffffffff, 0xffffffff, 0xffffffff}, {1, 0x10000, 0x10000, 0}, {1, 1, 1, 0xffffffff});
    SIM_OP(".reg .b64 t; add.cc.u64 t, a, b; addc.u64 d, 0, 0;", "lll", {1, 0xffffffffffffffff, 1}, {0, 5, 6});
}

static void products(void)
{
    SIM_OP("mul.lo.s32 d, a, b;", "rrr", {0xfffffffa, 0xfffffffe, 3}, {0, 0x10000, 0x10000},
           {1, 0xffffffff, 0xffffffff});
    SIM_OP("mul.lo.u32 d, a, b;", "rrr", {0xfffffffe, 0xffffffff, 2});
    SIM_OP("mul.hi.s32 d, a, b;", "rrr", {0xffffffff, 0xffffffff, 1}, {0, 0xffffffff, 0xffffffff},
           {0x40000000, 0x80000000, 0x80000000});
    SIM_OP("mul.hi.u32 d, a, b;", "rrr", {0xfffffffe, 0xffffffff, 0xffffffff}, {1, 0x80000000, 2});
    SIM_OP("mul.wide.s32 d, a, b;", "lrr", {0xfffffffffffffffe, 0xffffffff, 2},
           {0x4000000000000000, 0x80000000, 0x80000000});
    SIM_OP("mul.wide.u32 d, a, b;", "lrr", {0x1fffffffe, 0xffffffff, 2}, {0xfffffffe00000001, 0xffffffff, 0xffffffff});
    SIM_OP("mul.wide.s16 d, a, b;", "rhh", {0xfffffffe, 0xffff, 2}, {0x40000000, 0x8000, 0x8000});
    SIM_OP("mul.wide.u16 d, a, b;", "rhh", {0x1fffe, 0xffff, 2});
    SIM_OP("mul.lo.u16 d, a, b;", "hhh", {0xfffe, 0xffff, 2}, {0, 0x100, 0x100});
    SIM_OP("mul.hi.u16 d, a, b;", "hhh", {1, 0xffff, 2});
    SIM_OP("mul.hi.s16 d, a, b;", "hhh", {0xffff, 0xffff, 2}, {0x4000, 0x8000, 0x8000});
    SIM_OP("mul.lo.s64 d, a, b;", "lll", {0, 0x100000000, 0x100000000}, {0xfffffffffffffffd, 0xffffffffffffffff, 3});
    SIM_OP("mul.hi.u64 d, a, b;", "lll", {1, 0x100000000, 0x100000000}, {0xfffffffffffffffe, ~0ull, ~0ull});
    SIM_OP("mul.hi.s64 d, a, b;", "lll", {0xffffffffffffffff, ~0ull, 1}, {0, ~0ull, ~0ull},
           {0x4000000000000000, 0x8000000000000000, 0x8000000000000000});
    SIM_OP("mad.lo.s32 d, a, b, c;", "rrrr", {10, 2, 3, 4}, {0xffffffff, 0xffffffff, 2, 1});
    SIM_OP("mad.hi.u32 d, a, b, c;", "rrrr", {5, 0x80000000, 2, 4});
    SIM_OP("mad.hi.s32 d, a, b, c;", "rrrr", {4, 0xffffffff, 1, 5});
    SIM_OP("mad.hi.sat.s32 d, a, b, c;", "rrrr", {0x7fffffff, 0x80000000, 0x80000000, 0x7fffffff},
           {0x80000000, 0x7fffffff, 0xfffffffe, 0x80000000});
    SIM_OP("mad.wide.s32 d, a, b, c;", "lrrl", {0xffffffffffffffff, 0xffffffff, 2, 1});
    SIM_OP("mad.wide.u32 d, a, b, c;", "lrrl", {0x1ffffffff, 0xffffffff, 2, 1});
    SIM_OP("mad.wide.u16 d, a, b, c;", "rhhr", {0x1ffff, 0xffff, 2, 1});
    SIM_OP("mad.lo.u16 d, a, b, c;", "hhhh", {0xffff, 0xffff, 2, 1});
    SIM_OP("mad.lo.s64 d, a, b, c;", "llll", {7, 2, 3, 1}, {0, ~0ull, 1, 1});
    SIM_OP("mul24.lo.u32 d, a, b;", "rrr", {0xfffffe00u + 0x200u - 0x200u, 0xff7fffff, 0xff000200},
           {6, 0xaa000002, 0xbb000003});
    SIM_OP("mul24.lo.s32 d, a, b;", "rrr", {0xfffffffe, 0x00ffffff, 2}, {6, 2, 3});
    SIM_OP("mul24.hi.u32 d, a, b;", "rrr", {0xffffffu * 0xffffffull >> 16, 0x00ffffff, 0x00ffffff});
    SIM_OP("mul24.hi.s32 d, a, b;", "rrr", {0xffffffff, 0x00ffffff, 1}, {0, 0x00ffffff, 0x00ffffff});
    SIM_OP("mad24.lo.s32 d, a, b, c;", "rrrr", {8, 2, 3, 2}, {0xffffffff, 0x00ffffff, 2, 1});
    SIM_OP("dp4a.s32.s32 d, a, b, c;", "rrrr", {1 - 2 + 3 - 4 + 10, 0xfc03fe01, 0x01010101, 10},
           {4 * 16384, 0x80808080, 0x80808080, 0});
    SIM_OP("dp4a.u32.u32 d, a, b, c;", "rrrr", {4 * 255 * 255 + 1, ~0u, ~0u, 1});
    SIM_OP("dp4a.u32.s32 d, a, b, c;", "rrrr", {-4 * 255, ~0u, ~0u, 0});
    SIM_OP("dp2a.lo.s32.s32 d, a, b, c;", "rrrr", {(uint32_t)(-3 * 2 + 5 * -1 + 1), 0x0005fffd, 0x7777ff02, 1});
    SIM_OP("dp2a.hi.u32.u32 d, a, b, c;", "rrrr", {3 * 2 + 5 * 4, 0x00050003, 0x04020909, 0});
}

static void quotients(void)
{
    SIM_OP("div.s32 d, a, b;", "rrr", {3, 7, 2}, {0xfffffffd, 0xfffffff9, 2}, {0xfffffffd, 7, 0xfffffffe},
           {3, 0xfffffff9, 0xfffffffe}, {0xc0000000, 0x80000000, 2});
    SIM_OP("div.u32 d, a, b;", "rrr", {0x7fffffff, 0xffffffff, 2}, {0, 1, 0xffffffff});
    SIM_OP("div.s16 d, a, b;", "hhh", {0xfffd, 0xfff9, 2}, {0, 1, 0x7fff});
    SIM_OP("div.u16 d, a, b;", "hhh", {0x7fff, 0xffff, 2});
    SIM_OP("div.s64 d, a, b;", "lll", {0xfffffffffffffffd, 0xfffffffffffffff9, 2});
    SIM_OP("div.u64 d, a, b;", "lll", {0x7fffffffffffffff, ~0ull, 2});
    SIM_OP("rem.s32 d, a, b;", "rrr", {1, 7, 2}, {0xffffffff, 0xfffffff9, 2}, {1, 7, 0xfffffffe},
           {0xffffffff, 0xfffffff9, 0xfffffffe});
    SIM_OP("rem.u32 d, a, b;", "rrr", {5, 0xffffffff, 10}, {3, 3, 0xffffffff});
    SIM_OP("rem.s64 d, a, b;", "lll", {0xffffffffffffffff, 0xfffffffffffffff9, 2});
    SIM_OP("rem.u64 d, a, b;", "lll", {5, ~0ull, 10});
    SIM_OP("rem.u16 d, a, b;", "hhh", {5, 0xffff, 10});
    SIM_OP("rem.s16 d, a, b;", "hhh", {0xffff, 0xfff9, 2});
    /* "Division by zero yields an unspecified, machine-specific value": it must not end the launch. */
    SIM_OP("div.s32 d, a, b; rem.s32 d, a, b; mov.b32 d, 1;", "rrr", {1, 7, 0}, {1, 0x80000000, 0xffffffff}, {1, 0, 0});
    SIM_OP("div.s64 d, a, b; rem.s64 d, a, b; mov.b64 d, 1;", "lll", {1, 7, 0}, {1, 0x8000000000000000, ~0ull});
    SIM_OP("div.u64 d, a, b; rem.u64 d, a, b; mov.b64 d, 1;", "lll", {1, 7, 0});
    SIM_OP("div.s16 d, a, b; rem.s16 d, a, b; mov.b16 d, 1;", "hhh", {1, 7, 0}, {1, 0x8000, 0xffff});
}

static void small_functions(void)
{
    SIM_OP("abs.s32 d, a;", "rr", {5, 0xfffffffb}, {5, 5}, {0x80000000, 0x80000000}, {0, 0});
    SIM_OP("abs.s16 d, a;", "hh", {1, 0xffff}, {0x8000, 0x8000});
    SIM_OP("abs.s64 d, a;", "ll", {1, ~0ull}, {0x8000000000000000, 0x8000000000000000});
    SIM_OP("neg.s32 d, a;", "rr", {0xffffffff, 1}, {0x80000000, 0x80000000});
    SIM_OP("neg.s16 d, a;", "hh", {0xffff, 1});
    SIM_OP("neg.s64 d, a;", "ll", {~0ull, 1});
    SIM_OP("min.s32 d, a, b;", "rrr", {0xffffffff, 0xffffffff, 0}, {0x80000000, 0x7fffffff, 0x80000000});
    SIM_OP("min.u32 d, a, b;", "rrr", {0, 0xffffffff, 0});
    SIM_OP("max.s32 d, a, b;", "rrr", {0, 0xffffffff, 0}, {0x7fffffff, 0x7fffffff, 0x80000000});
    SIM_OP("max.u32 d, a, b;", "rrr", {0xffffffff, 0xffffffff, 0});
    SIM_OP("min.s16 d, a, b;", "hhh", {0xffff, 0xffff, 0});
    SIM_OP("min.u16 d, a, b;", "hhh", {0, 0xffff, 0});
    SIM_OP("max.s16 d, a, b;", "hhh", {0, 0xffff, 0});
    SIM_OP("max.u16 d, a, b;", "hhh", {0xffff, 0xffff, 0});
    SIM_OP("min.s64 d, a, b;", "lll", {~0ull, ~0ull, 0});
    SIM_OP("max.u64 d, a, b;", "lll", {~0ull, ~0ull, 0});
    SIM_OP("max.s64 d, a, b;", "lll", {0, ~0ull, 0});
    SIM_OP("min.u64 d, a, b;", "lll", {0, ~0ull, 0});
    SIM_OP("sad.s32 d, a, b, c;", "rrrr", {13, 0xfffffffe, 1, 10}, {13, 1, 0xfffffffe, 10});
    SIM_OP("sad.u32 d, a, b, c;", "rrrr", {0xfffffffd + 10u - 10u, 0xfffffffe, 1, 0});
    SIM_OP("sad.u16 d, a, b, c;", "hhhh", {0xfffd, 0xfffe, 1, 0});
    SIM_OP("sad.s64 d, a, b, c;", "llll", {3, ~0ull, 2, 0});
    SIM_OP("popc.b32 d, a;", "rr", {0, 0}, {32, ~0u}, {3, 0x80010001});
    SIM_OP("popc.b64 d, a;", "rl", {64, ~0ull}, {2, 0x8000000000000001});
    SIM_OP("clz.b32 d, a;", "rr", {32, 0}, {0, 0x80000000}, {31, 1}, {15, 0x10000});
    SIM_OP("clz.b64 d, a;", "rl", {64, 0}, {0, 1ull << 63}, {63, 1}, {31, 1ull << 32});
    SIM_OP("bfind.u32 d, a;", "rr", {0xffffffff, 0}, {31, 0x80000000}, {0, 1}, {31, ~0u});
    SIM_OP("bfind.s32 d, a;", "rr", {0xffffffff, 0}, {0xffffffff, ~0u}, {30, 0x80000000}, {30, 0x7fffffff},
           {0, 0xfffffffe});
    SIM_OP("bfind.shiftamt.u32 d, a;", "rr", {0xffffffff, 0}, {0, 0x80000000}, {31, 1});
    SIM_OP("bfind.u64 d, a;", "rl", {0xffffffff, 0}, {63, ~0ull}, {32, 1ull << 32});
    SIM_OP("bfind.s64 d, a;", "rl", {0xffffffff, ~0ull}, {62, 1ull << 63});
    SIM_OP("bfind.shiftamt.s64 d, a;", "rl", {0xffffffff, ~0ull}, {1, 1ull << 63});
    SIM_OP("brev.b32 d, a;", "rr", {0x80000000, 1}, {0x0000ffff, 0xffff0000}, {0xa0000000, 5});
    SIM_OP("brev.b64 d, a;", "ll", {0x8000000000000000, 1}, {0x1, 0x8000000000000000});
    /* fns: the c-th bit set, from b on upwards; downwards when c is negative; c 0: b itself if it is set. */
    SIM_OP("fns.b32 d, a, b, c;", "rrrr", {3, 0xaaaaaaaa, 3, 1}, {5, 0xaaaaaaaa, 3, 2}, {1, 0xaaaaaaaa, 3, 0xfffffffe},
           {3, 0xaaaaaaaa, 4, 0xffffffff}, {0xffffffff, 0xaaaaaaaa, 31, 2}, {3, 0xaaaaaaaa, 3, 0},
           {0xffffffff, 0xaaaaaaaa, 4, 0}, {0xffffffff, 0, 0, 1}, {31, 0x80000000, 0, 1});
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"add_and_sub", add_and_sub},
                                       {"carries", carries},
                                       {"products", products},
                                       {"quotients", quotients},
                                       {"small_functions", small_functions}};
    return SIM_MAIN("integer", groups);
}
