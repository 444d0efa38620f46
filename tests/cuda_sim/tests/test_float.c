/* Floating point: PTX ISA "Floating Point Instructions", "Half Precision Floating Point Instructions". Rows with a NaN
 * as the answer take any NaN, but where the ISA names the canonical one (min, max): those have kind r. */
#include "sim_test.h"
#include <math.h>
#include <stdio.h>

enum {
    ONE = 0x3f800000,
    TWO = 0x40000000,
    HALF = 0x3f000000,
    M_ONE = (int)0xbf800000,
    INF = 0x7f800000,
    M_INF = (int)0xff800000,
    QNAN = 0x7fc00000,
    MAX = 0x7f7fffff,
    NORMAL = 0x00800000,
    M_ZERO = (int)0x80000000,
    TIE = 0x33800000,   /* 2^-24: half a unit in the last place of 1 */
    TIE_3 = 0x34400000, /* 3 * 2^-24 */
};
#define NEG(x) ((uint32_t)(x) ^ 0x80000000u)
#define U(x)   ((uint32_t)(x))

static void sums(void)
{
    SIM_OP("add.f32 d, a, b;", "frr", {ONE, ONE, TIE}, {0x3f800002, ONE, TIE_3}, {INF, MAX, MAX}, {0, ONE, U(M_ONE)},
           {QNAN, INF, U(M_INF)}, {QNAN, QNAN, ONE}, {U(M_ZERO), U(M_ZERO), U(M_ZERO)}, {0, 0, U(M_ZERO)}, {2, 1, 1},
           {0x80000001, NORMAL, 0x80800001}, {INF, INF, ONE});
    SIM_OP("add.rn.f32 d, a, b;", "frr", {ONE, ONE, TIE}, {0x3f800002, ONE, TIE_3});
    SIM_OP("add.rz.f32 d, a, b;", "frr", {ONE, ONE, TIE}, {0x3f800001, ONE, TIE_3}, {NEG(ONE), NEG(ONE), NEG(TIE)},
           {MAX, MAX, MAX}, {NEG(MAX), NEG(MAX), NEG(MAX)}, {0, ONE, U(M_ONE)});
    SIM_OP("add.rm.f32 d, a, b;", "frr", {ONE, ONE, TIE}, {0xbf800001, NEG(ONE), NEG(TIE)}, {MAX, MAX, MAX},
           {U(M_INF), NEG(MAX), NEG(MAX)}, {U(M_ZERO), ONE, U(M_ONE)}, {U(M_ZERO), 0, U(M_ZERO)}, {0, 0, 0});
    SIM_OP("add.rp.f32 d, a, b;", "frr", {0x3f800001, ONE, TIE}, {NEG(ONE), NEG(ONE), NEG(TIE)}, {INF, MAX, MAX},
           {NEG(MAX), NEG(MAX), NEG(MAX)}, {0, ONE, U(M_ONE)});
    SIM_OP("add.ftz.f32 d, a, b;", "frr", {0, 1, 1}, {U(M_ZERO), NORMAL, 0x80800001},
           {U(M_ZERO), 0x80000001, 0x80000001}, {ONE, ONE, 0x007fffff}, {NORMAL, NORMAL, 0x007fffff});
    SIM_OP("add.sat.f32 d, a, b;", "rrr", {ONE, HALF, 0x3f400000}, {0, U(M_ONE), HALF}, {0, QNAN, ONE}, {HALF, HALF, 0},
           {ONE, INF, 0}, {0, U(M_INF), 0});
    SIM_OP("add.rz.ftz.sat.f32 d, a, b;", "rrr", {0, 1, 1}, {ONE, TWO, ONE});
    SIM_OP("sub.f32 d, a, b;", "frr", {0x3f7fffff, ONE, TIE}, {0, ONE, ONE}, {QNAN, INF, INF},
           {U(M_ZERO), U(M_ZERO), 0}, {1, 2, 1});
    SIM_OP("sub.rm.f32 d, a, b;", "frr", {U(M_ZERO), ONE, ONE}, {ONE, ONE, NEG(TIE)});
    SIM_OP("sub.rp.f32 d, a, b;", "frr", {0x3f800001, ONE, NEG(TIE)});
    SIM_OP("sub.rz.ftz.f32 d, a, b;", "frr", {0, 2, 1}, {0x3f7fffff, ONE, TIE});
    SIM_OP("add.f32 d, a, 0f3F800000;", "fr", {TWO, ONE}, {ONE, 0});
    SIM_OP("add.f64 d, a, b;", "Dll", {0x3ff0000000000000, 0x3ff0000000000000, 0x3ca0000000000000},
           {0x3ff0000000000002, 0x3ff0000000000000, 0x3cb8000000000000}, {2, 1, 1});
}

static void products(void)
{
    SIM_OP("mul.f32 d, a, b;", "frr", {0x3f800002, 0x3f800001, 0x3f800001}, {QNAN, 0, INF}, {0x00400000, NORMAL, HALF},
           {U(M_ZERO), U(M_ZERO), ONE}, {0, 1, HALF}, {2, 3, HALF}, {INF, MAX, TWO}, {U(M_INF), INF, U(M_ONE)});
    SIM_OP("mul.rp.f32 d, a, b;", "frr", {0x3f800003, 0x3f800001, 0x3f800001}, {1, 1, HALF});
    SIM_OP("mul.rm.f32 d, a, b;", "frr", {0x3f800002, 0x3f800001, 0x3f800001}, {0x80000001, 1, NEG(HALF)});
    SIM_OP("mul.rz.f32 d, a, b;", "frr", {MAX, MAX, TWO}, {U(M_ZERO), 1, NEG(HALF)});
    SIM_OP("mul.ftz.f32 d, a, b;", "frr", {0, NORMAL, HALF}, {U(M_ZERO), NORMAL, NEG(HALF)}, {0, 1, 0x7f000000});
    SIM_OP("mul.sat.f32 d, a, b;", "rrr", {ONE, TWO, TWO}, {0, TWO, NEG(TWO)}, {0, 0, INF});
    SIM_REFUSED(".reg .f64 r; mul.rp.f64 r, r, r;", "not supported"); /* doubles round to the nearest only */
    SIM_OP("mul.rn.f64 d, a, b;", "Dll", {0x3ff0000000000002, 0x3ff0000000000001, 0x3ff0000000000001});
    /* (1 + 2^-23) (1 - 2^-23) - 1 = -2^-46: one rounding, no more */
    SIM_OP("fma.rn.f32 d, a, b, c;", "frrr", {0xa8800000, 0x3f800001, 0x3f7ffffe, U(M_ONE)}, {QNAN, 0, INF, ONE},
           {QNAN, INF, ONE, U(M_INF)}, {0, ONE, ONE, U(M_ONE)}, {3, 1, ONE, 2}, {ONE, TIE, ONE, ONE});
    SIM_OP("fma.rz.f32 d, a, b, c;", "frrr", {0x3f7fffff, TIE, U(M_ONE), ONE}, {ONE, TIE, ONE, ONE},
           {0x3f7fffff, 0x0d000000, U(M_ONE), ONE});
    SIM_OP("fma.rm.f32 d, a, b, c;", "frrr", {U(M_ZERO), ONE, ONE, U(M_ONE)}, {0x3f7fffff, 1, 0x80000001, ONE});
    SIM_OP("fma.rp.f32 d, a, b, c;", "frrr", {0x3f800001, 1, 1, ONE});
    SIM_OP("fma.rn.ftz.f32 d, a, b, c;", "frrr", {0, 1, ONE, 2}, {U(M_ZERO), NORMAL, NEG(HALF), 0x80000000});
    SIM_OP("fma.rn.sat.f32 d, a, b, c;", "rrrr", {ONE, TWO, TWO, ONE}, {0, TWO, NEG(TWO), ONE}, {0, QNAN, 0, 0});
    SIM_OP("mad.rn.f32 d, a, b, c;", "frrr", {0xa8800000, 0x3f800001, 0x3f7ffffe, U(M_ONE)});
    SIM_OP("fma.rn.f64 d, a, b, c;", "Dlll",
           {0xb970000000000000, 0x3ff0000000000001, 0x3feffffffffffffe, 0xbff0000000000000});
}

static void quotients(void)
{
    const uint32_t three = 0x40400000, third = 0x3eaaaaab;
    SIM_OP("div.rn.f32 d, a, b;", "frr", {third, ONE, three}, {INF, ONE, 0}, {U(M_INF), U(M_ONE), 0},
           {U(M_INF), ONE, U(M_ZERO)}, {QNAN, 0, 0}, {QNAN, INF, INF}, {0, ONE, INF}, {0x00400000, NORMAL, TWO},
           {INF, MAX, HALF}, {0, 1, TWO}, {2, 3, TWO});
    SIM_OP("div.rz.f32 d, a, b;", "frr", {0x3eaaaaaa, ONE, three}, {NEG(0x3eaaaaaa), U(M_ONE), three},
           {MAX, MAX, HALF});
    SIM_OP("div.rm.f32 d, a, b;", "frr", {0x3eaaaaaa, ONE, three}, {NEG(third), U(M_ONE), three});
    SIM_OP("div.rp.f32 d, a, b;", "frr", {third, ONE, three}, {NEG(0x3eaaaaaa), U(M_ONE), three}, {1, 1, TWO});
    SIM_OP("div.rn.ftz.f32 d, a, b;", "frr", {0, NORMAL, TWO}, {INF, ONE, 1}, {QNAN, 1, 1});
    SIM_OP("div.rn.f64 d, a, b;", "Dll", {0x3fd5555555555555, 0x3ff0000000000000, 0x4008000000000000},
           {0x7ff0000000000000, 0x3ff0000000000000, 0});
    SIM_OP("rcp.rn.f32 d, a;", "fr", {third, three}, {INF, 0}, {U(M_INF), U(M_ZERO)}, {0, INF}, {INF, 1}, {HALF, TWO});
    SIM_OP("rcp.rz.f32 d, a;", "fr", {0x3eaaaaaa, three}, {MAX, 1});
    SIM_OP("rcp.rp.f32 d, a;", "fr", {third, three}, {NEG(0x3eaaaaaa), NEG(three)});
    SIM_OP("rcp.rm.f32 d, a;", "fr", {0x3eaaaaaa, three}, {NEG(third), NEG(three)});
    SIM_OP("rcp.rn.f64 d, a;", "Dl", {0x3fd5555555555555, 0x4008000000000000});
    SIM_OP("sqrt.rn.f32 d, a;", "fr", {0x3fb504f3, TWO}, {U(M_ZERO), U(M_ZERO)}, {QNAN, U(M_ONE)}, {INF, INF}, {0, 0},
           {TWO, 0x40800000});
    SIM_OP("sqrt.rp.f32 d, a;", "fr", {0x3fb504f4, TWO}, {TWO, 0x40800000});
    SIM_OP("sqrt.rz.f32 d, a;", "fr", {0x3fb504f3, TWO});
    SIM_OP("sqrt.rm.f32 d, a;", "fr", {0x3fb504f3, TWO});
    SIM_OP("sqrt.rn.ftz.f32 d, a;", "fr", {0, 1}, {U(M_ZERO), 0x80000001});
    SIM_OP("sqrt.rn.f64 d, a;", "Dl", {0x3ff6a09e667f3bcd, 0x4000000000000000},
           {0x8000000000000000, 0x8000000000000000});
}

/* Approximations: special values exactly, others within a relative error. */
static void near(const char *where, const char *op, double (*exact)(double), double least, double most, double relative,
                 double absolute)
{
    char text[300];
    sim_row row[256];
    for (int i = 0; i < 256; i++) {
        float x = (float)(least + (most - least) * i / 255.0);
        double y = exact((double)x), error = fabs(y) * relative + absolute;
        row[i] = (sim_row){1, bits_of_float(x), bits_of_float((float)(y - error)), bits_of_float((float)(y + error))};
    }
    snprintf(text, sizeof text, ".reg .b32 t; .reg .pred p; %s t, a; setp.ge.f32 p, t, b; setp.le.and.f32 d, t, c, p;",
             op);
    sim_test_rows(where, text, "prrr", row, 256);
}
#define NEAR(op, exact, least, most, relative, absolute) near(SIM_HERE, op, exact, least, most, relative, absolute)

static double reciprocal(double x)
{
    return 1 / x;
}
static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static void approximations(void)
{
    const double ulp = 0x1p-22; /* room for the rounding of the bounds as well */
    NEAR("rcp.approx.f32", reciprocal, 0.1, 100, ulp, 0);
    NEAR("rcp.approx.ftz.f32", reciprocal, -100, -0.1, ulp, 0);
    NEAR("rsqrt.approx.f32", reciprocal_root, 0.01, 1000, 2 * ulp, 0);
    NEAR("sqrt.approx.f32", sqrt, 0.01, 1000, 2 * ulp, 0);
    NEAR("ex2.approx.f32", exp2, -30, 30, 2 * ulp, 0);
    NEAR("ex2.approx.ftz.f32", exp2, -30, 30, 2 * ulp, 0);
    NEAR("lg2.approx.f32", log2, 0.6, 1.9, ulp, 0x1p-22);
    NEAR("lg2.approx.f32", log2, 2, 1e6, ulp, 0x1p-22);
    NEAR("sin.approx.f32", sin, -3.14, 3.14, 0, 0x1p-20);
    NEAR("cos.approx.f32", cos, -3.14, 3.14, 0, 0x1p-20);
    NEAR("tanh.approx.f32", tanh, -4, 4, 0x1p-10, 0);
    SIM_OP("rcp.approx.f32 d, a;", "fr", {INF, 0}, {U(M_INF), U(M_ZERO)}, {0, INF}, {U(M_ZERO), U(M_INF)},
           {QNAN, QNAN});
    SIM_OP("rcp.approx.ftz.f32 d, a;", "fr", {INF, 1}, {U(M_INF), 0x80000001}, {0, 0x7f000000 + 0x00400000});
    SIM_OP("rsqrt.approx.f32 d, a;", "fr", {INF, 0}, {U(M_INF), U(M_ZERO)}, {0, INF}, {QNAN, U(M_ONE)},
           {QNAN, U(M_INF)}, {QNAN, QNAN});
    SIM_OP("rsqrt.approx.ftz.f32 d, a;", "fr", {INF, 1}, {U(M_INF), 0x80000001});
    SIM_OP("sqrt.approx.f32 d, a;", "fr", {0, 0}, {U(M_ZERO), U(M_ZERO)}, {INF, INF}, {QNAN, U(M_ONE)});
    SIM_OP("ex2.approx.f32 d, a;", "fr", {ONE, 0}, {ONE, U(M_ZERO)}, {INF, INF}, {0, U(M_INF)}, {QNAN, QNAN}, {ONE, 1},
           {INF, 0x43000000}, {0, 0xc3480000});
    SIM_OP("ex2.approx.ftz.f32 d, a;", "fr", {0, 0xc3000000}, {ONE, 0x80000001});
    SIM_OP("lg2.approx.f32 d, a;", "fr", {U(M_INF), 0}, {U(M_INF), U(M_ZERO)}, {INF, INF}, {QNAN, U(M_ONE)}, {0, ONE});
    SIM_OP("lg2.approx.ftz.f32 d, a;", "fr", {U(M_INF), 1});
    SIM_OP("sin.approx.f32 d, a;", "fr", {0, 0}, {U(M_ZERO), U(M_ZERO)}, {QNAN, INF}, {QNAN, QNAN});
    SIM_OP("cos.approx.f32 d, a;", "fr", {ONE, 0}, {ONE, U(M_ZERO)}, {QNAN, U(M_INF)});
    SIM_OP("tanh.approx.f32 d, a;", "fr", {0, 0}, {U(M_ZERO), U(M_ZERO)}, {ONE, INF}, {U(M_ONE), U(M_INF)},
           {QNAN, QNAN});
    SIM_OP("div.approx.f32 d, a, b;", "frr", {INF, ONE, 0}, {QNAN, 0, 0}, {0, ONE, INF}, {HALF, ONE, TWO});
    SIM_OP("div.full.f32 d, a, b;", "frr", {INF, ONE, 0}, {QNAN, 0, 0}, {0, ONE, INF}, {HALF, ONE, TWO});
    /* 2^126 and more below the line: a reciprocal that is 0 */
    SIM_OP("div.approx.f32 d, a, b;", "frr", {0, ONE, 0x7f000000}, {QNAN, INF, 0x7f000000});
    static sim_row near_quotient[256];
    for (int i = 0; i < 256; i++) {
        float a = (float)(i - 100) * 0.37f, b = 0.1f + (float)i * 1.7f;
        near_quotient[i] = (sim_row){1, bits_of_float(a), bits_of_float(b), bits_of_float(a / b)};
    }
    sim_test_rows(SIM_HERE, ".reg .b32 t; div.approx.f32 t, a, b; sub.s32 t, t, c; abs.s32 t, t; setp.le.s32 d, t, 2;",
                  "prrr", near_quotient, 256);
    sim_test_rows(SIM_HERE, ".reg .b32 t; div.full.f32 t, a, b; sub.s32 t, t, c; abs.s32 t, t; setp.le.s32 d, t, 2;",
                  "prrr", near_quotient, 256);
}

static void extremes(void)
{
    const uint64_t canonical = 0x7fffffff;
    SIM_OP("min.f32 d, a, b;", "rrr", {ONE, QNAN, ONE}, {ONE, ONE, 0xffffffff}, {canonical, QNAN, 0xffc00001},
           {U(M_ZERO), U(M_ZERO), 0}, {U(M_ZERO), 0, U(M_ZERO)}, {U(M_INF), U(M_INF), ONE}, {1, 1, 2});
    SIM_OP("max.f32 d, a, b;", "rrr", {ONE, QNAN, ONE}, {ONE, ONE, 0xffffffff}, {canonical, QNAN, 0xffc00001},
           {0, U(M_ZERO), 0}, {0, 0, U(M_ZERO)}, {ONE, U(M_INF), ONE}, {2, 1, 2});
    SIM_OP("min.NaN.f32 d, a, b;", "rrr", {canonical, QNAN, ONE}, {canonical, ONE, 0xffc00001}, {ONE, ONE, TWO});
    SIM_OP("max.NaN.f32 d, a, b;", "rrr", {canonical, QNAN, ONE}, {canonical, ONE, 0xffc00001}, {TWO, ONE, TWO});
    SIM_OP("min.ftz.f32 d, a, b;", "rrr", {0, 1, 2}, {U(M_ZERO), 0x80000001, 0});
    SIM_OP("max.ftz.f32 d, a, b;", "rrr", {0, 1, 2}, {0, 0x80000001, 0});
    SIM_OP("min.f64 d, a, b;", "lll", {0x3ff0000000000000, 0x7ff8000000000000, 0x3ff0000000000000},
           {0x8000000000000000, 0, 0x8000000000000000});
    SIM_OP("max.f64 d, a, b;", "lll", {0x3ff0000000000000, 0x3ff0000000000000, 0x7ff8000000000000},
           {0, 0, 0x8000000000000000});
    SIM_OP("abs.f32 d, a;", "rr", {ONE, U(M_ONE)}, {0, U(M_ZERO)}, {INF, U(M_INF)}, {1, 0x80000001});
    SIM_OP("abs.ftz.f32 d, a;", "rr", {ONE, U(M_ONE)}, {0, 0x80000001});
    SIM_OP("neg.f32 d, a;", "rr", {ONE, U(M_ONE)}, {0, U(M_ZERO)}, {U(M_ZERO), 0}, {1, 0x80000001});
    SIM_OP("neg.ftz.f32 d, a;", "rr", {0, 0x80000001}, {U(M_ZERO), 1});
    SIM_OP("abs.f64 d, a;", "ll", {1, 0x8000000000000001});
    SIM_OP("neg.f64 d, a;", "ll", {1, 0x8000000000000001}, {0x8000000000000000, 0});
    SIM_OP("copysign.f32 d, a, b;", "rrr", {NEG(TWO), U(M_ONE), TWO}, {TWO, ONE, NEG(TWO)}, {U(M_ZERO), NEG(TWO), 0});
    SIM_OP("copysign.f64 d, a, b;", "lll", {0x8000000000000001, 0x8000000000000000, 1});
    SIM_OP("testp.finite.f32 d, a;", "pr", {1, ONE}, {0, INF}, {0, QNAN}, {1, 1}, {1, 0});
    SIM_OP("testp.infinite.f32 d, a;", "pr", {0, ONE}, {1, INF}, {1, U(M_INF)}, {0, QNAN});
    SIM_OP("testp.number.f32 d, a;", "pr", {1, ONE}, {1, INF}, {0, QNAN}, {0, 0xffffffff});
    SIM_OP("testp.notanumber.f32 d, a;", "pr", {0, ONE}, {0, INF}, {1, QNAN}, {1, 0xff800001});
    SIM_OP("testp.normal.f32 d, a;", "pr", {1, ONE}, {0, INF}, {0, 1}, {0, 0}, {0, QNAN}, {1, NORMAL});
    SIM_OP("testp.subnormal.f32 d, a;", "pr", {0, ONE}, {1, 1}, {1, 0x807fffff}, {0, 0}, {0, NORMAL});
    SIM_OP("testp.finite.f64 d, a;", "pl", {1, 1}, {0, 0x7ff0000000000000});
}

static void halves(void)
{
    SIM_OP("add.f16 d, a, b;", "xhh", {0x3c00, 0x3c00, 0x1000}, {0x3c02, 0x3c01, 0x1000}, {0x6800, 0x6800, 0x3c00},
           {0x7c00, 0x7bff, 0x4c00}, {0x7bff, 0x7bff, 0x4800}, {2, 1, 1}, {0x7e00, 0x7c00, 0xfc00},
           {0x8000, 0x8000, 0x8000}, {0, 0x8000, 0});
    SIM_OP("add.rn.ftz.f16 d, a, b;", "xhh", {0, 1, 1}, {0x8000, 0x8001, 0x8001});
    SIM_OP("add.sat.f16 d, a, b;", "xhh", {0x3c00, 0x3c00, 0x3c00}, {0, 0xbc00, 0x3800}, {0, 0x7e00, 0x3c00});
    SIM_OP("sub.f16 d, a, b;", "xhh", {0x3bff, 0x3c00, 0x1000}, {0, 0x3c00, 0x3c00});
    SIM_OP("mul.f16 d, a, b;", "xhh", {0x0200, 0x0400, 0x3800}, {0x3c02, 0x3c01, 0x3c01}, {0, 1, 0x3800},
           {2, 3, 0x3800}, {0x7c00, 0x7bff, 0x4000});
    SIM_OP("fma.rn.f16 d, a, b, c;", "xhhh", {0x8010, 0x3c01, 0x3bfe, 0xbc00}, {0x4500, 0x4000, 0x4000, 0x3c00});
    SIM_OP("fma.rn.relu.f16 d, a, b, c;", "hhhh", {0, 0xbc00, 0x3c00, 0}, {0x3c00, 0x3c00, 0x3c00, 0},
           {0x7fff, 0x7e00, 0, 0});
    SIM_OP("fma.rn.sat.f16 d, a, b, c;", "hhhh", {0x3c00, 0x4000, 0x4000, 0}, {0, 0xbc00, 0x3c00, 0});
    SIM_OP("add.f16x2 d, a, b;", "rrr", {0x40004200, 0x3c003c00, 0x3c004000}, {0x7bff0002, 0x7bff0001, 0x48000001});
    SIM_OP("sub.f16x2 d, a, b;", "rrr", {0x0000bc00, 0x3c003c00, 0x3c004000});
    SIM_OP("mul.f16x2 d, a, b;", "rrr", {0x44004000, 0x40003c00, 0x40004000});
    SIM_OP("fma.rn.f16x2 d, a, b, c;", "rrrr", {0x45004200, 0x40003c00, 0x40004000, 0x3c003c00});
    SIM_OP("neg.f16 d, a;", "hh", {0xbc00, 0x3c00}, {0, 0x8000});
    SIM_OP("neg.f16x2 d, a;", "rr", {0xbc003c00, 0x3c00bc00});
    SIM_OP("abs.f16 d, a;", "hh", {0x3c00, 0xbc00}, {0, 0x8000});
    SIM_OP("abs.f16x2 d, a;", "rr", {0x3c003c00, 0x3c00bc00});
    SIM_OP("min.f16 d, a, b;", "hhh", {0x3c00, 0x7e00, 0x3c00}, {0x7fff, 0x7e00, 0xfe01}, {0x8000, 0, 0x8000},
           {0xbc00, 0x3c00, 0xbc00});
    SIM_OP("max.f16 d, a, b;", "hhh", {0x3c00, 0x7e00, 0x3c00}, {0x7fff, 0x7e00, 0xfe01}, {0, 0, 0x8000},
           {0x3c00, 0x3c00, 0xbc00});
    SIM_OP("max.NaN.f16 d, a, b;", "hhh", {0x7fff, 0x7e00, 0x3c00}, {0x4000, 0x4000, 0x3c00});
    SIM_OP("min.f16x2 d, a, b;", "rrr", {0xbc003c00, 0x3c003c00, 0xbc007e00});
    SIM_OP("max.f16x2 d, a, b;", "rrr", {0x3c003c00, 0x3c003c00, 0xbc007e00});
    SIM_OP("ex2.approx.f16 d, a;", "hh", {0x3c00, 0}, {0x4000, 0x3c00}, {0, 0xfc00}, {0x7c00, 0x7c00},
           {0x7c00, 0x4c00});
    SIM_OP("ex2.approx.f16x2 d, a;", "rr", {0x40003c00, 0x3c000000});
    SIM_OP("tanh.approx.f16 d, a;", "hh", {0, 0}, {0x3c00, 0x7c00}, {0xbc00, 0xfc00}, {0x8000, 0x8000});
    SIM_OP("setp.lt.f16 d, a, b;", "phh", {1, 0x3c00, 0x4000}, {0, 0x7e00, 0x4000});
}

static void brains(void)
{
    SIM_OP("fma.rn.bf16 d, a, b, c;", "yhhh", {0x3f80, 0x3f80, 0x3f80, 0x0000}, {0x3f80, 0x3f80, 0x3b80, 0x3f80},
           {0x3f82, 0x3f80, 0x3b80, 0x3f81}, {0xb880, 0x3f81, 0x3f7e, 0xbf80}, {0x7f80, 0x7f7f, 0x4000, 0},
           {0x7fc0, 0, 0x7f80, 0});
    SIM_OP("fma.rn.relu.bf16 d, a, b, c;", "hhhh", {0, 0xbf80, 0x3f80, 0}, {0x7fff, 0x7fc0, 0, 0});
    SIM_OP("fma.rn.bf16x2 d, a, b, c;", "rrrr", {0x40a04040, 0x40003f80, 0x40004000, 0x3f803f80});
    SIM_OP("neg.bf16 d, a;", "hh", {0xbf80, 0x3f80});
    SIM_OP("neg.bf16x2 d, a;", "rr", {0xbf803f80, 0x3f80bf80});
    SIM_OP("abs.bf16 d, a;", "hh", {0x3f80, 0xbf80});
    SIM_OP("abs.bf16x2 d, a;", "rr", {0x3f803f80, 0x3f80bf80});
    SIM_OP("min.bf16 d, a, b;", "hhh", {0x3f80, 0x7fc0, 0x3f80}, {0x7fff, 0x7fc0, 0xffc1}, {0x8000, 0, 0x8000});
    SIM_OP("max.bf16 d, a, b;", "hhh", {0x3f80, 0x7fc0, 0x3f80}, {0, 0, 0x8000}, {0x3f80, 0x3f80, 0xbf80});
    SIM_OP("max.NaN.bf16 d, a, b;", "hhh", {0x7fff, 0x7fc0, 0x3f80});
    SIM_OP("min.bf16x2 d, a, b;", "rrr", {0xbf803f80, 0x3f803f80, 0xbf807fc0});
    SIM_OP("max.bf16x2 d, a, b;", "rrr", {0x3f803f80, 0x3f803f80, 0xbf807fc0});
    sim_test_target("sm_90", "7.8");
    SIM_OP("add.bf16 d, a, b;", "yhh", {0x4000, 0x3f80, 0x3f80}, {0x3f80, 0x3f80, 0x3b80}, {0x3f82, 0x3f81, 0x3b80});
    SIM_OP("sub.bf16 d, a, b;", "yhh", {0, 0x3f80, 0x3f80}, {0xbf80, 0x3f80, 0x4000});
    SIM_OP("mul.bf16 d, a, b;", "yhh", {0x4080, 0x4000, 0x4000}, {0x3f82, 0x3f81, 0x3f81});
    SIM_OP("add.bf16x2 d, a, b;", "rrr", {0x40003f80, 0x3f803f80, 0x3f800000});
    SIM_OP("mul.bf16x2 d, a, b;", "rrr", {0x40803f80, 0x40003f80, 0x40003f80});
    SIM_OP("ex2.approx.ftz.bf16 d, a;", "hh", {0x3f80, 0}, {0x4000, 0x3f80}, {0, 0xff80});
    SIM_OP("tanh.approx.bf16 d, a;", "hh", {0, 0}, {0x3f80, 0x7f80});
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"sums", sums},         {"products", products}, {"quotients", quotients}, {"approximations", approximations},
        {"extremes", extremes}, {"halves", halves},     {"brains", brains}};
    return SIM_MAIN("float", groups);
}
