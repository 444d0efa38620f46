/* Conversions: PTX ISA "cvt", with its tables worked out anew: formats by their definition, rounding by search. */
#include "sim_test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALL_16 = 65536 };

static void integers(void)
{
    SIM_OP("cvt.s32.s8 d, a;", "rr", {0xffffff80, 0x80}, {0x7f, 0x12347f}, {0xffffffff, 0xff});
    SIM_OP("cvt.u32.u8 d, a;", "rr", {0x80, 0xffffff80}, {0xff, 0xff});
    SIM_OP("cvt.s8.s32 d, a;", "rr", {0xffffff80, 0x1280}, {0x7f, 0x7f}); /* extended to the register */
    SIM_OP("cvt.u8.u32 d, a;", "rr", {0x80, 0x1280});
    SIM_OP("cvt.u16.u32 d, a;", "hr", {0x5678, 0x12345678});
    SIM_OP("cvt.s16.s32 d, a;", "hr", {0xffff, 0x1ffff});
    SIM_OP("cvt.s32.s16 d, a;", "rh", {0xffff8000, 0x8000}, {0x7fff, 0x7fff});
    SIM_OP("cvt.u32.u16 d, a;", "rh", {0x8000, 0x8000});
    SIM_OP("cvt.u32.s16 d, a;", "rh", {0xffff8000, 0x8000});
    SIM_OP("cvt.s64.s32 d, a;", "lr", {0xffffffff80000000, 0x80000000}, {0x7fffffff, 0x7fffffff});
    SIM_OP("cvt.u64.u32 d, a;", "lr", {0x80000000, 0x80000000});
    SIM_OP("cvt.s64.s16 d, a;", "lh", {~0ull, 0xffff});
    SIM_OP("cvt.u32.u64 d, a;", "rl", {0x89abcdef, 0x0123456789abcdef});
    SIM_OP("cvt.u16.u8 d, a;", "hh", {0xff, 0xffff});
    SIM_OP("cvt.s16.s8 d, a;", "hh", {0xffff, 0x00ff});
    SIM_OP("cvt.s64.s8 d, a;", "ll", {~0ull, 0xff});
    SIM_OP("cvt.sat.s8.s32 d, a;", "rr", {0x7f, 300}, {0xffffff80, 0xfffffe00}, {5, 5});
    SIM_OP("cvt.sat.u8.s32 d, a;", "rr", {0xff, 300}, {0, 0xffffffff}, {5, 5});
    SIM_OP("cvt.sat.u8.u32 d, a;", "rr", {0xff, 0xffffffff}, {5, 5});
    SIM_OP("cvt.sat.s16.s32 d, a;", "hr", {0x7fff, 40000}, {0x8000, 0xffff0000});
    SIM_OP("cvt.sat.u16.s32 d, a;", "hr", {0xffff, 70000}, {0, 0x80000000});
    SIM_OP("cvt.sat.s32.u32 d, a;", "rr", {0x7fffffff, 0xffffffff}, {7, 7});
    SIM_OP("cvt.sat.u32.s32 d, a;", "rr", {0, 0xffffffff}, {7, 7});
    SIM_OP("cvt.sat.s32.s64 d, a;", "rl", {0x7fffffff, 1ull << 40}, {0x80000000, 0xfffffe0000000000}, {7, 7});
    SIM_OP("cvt.sat.u32.s64 d, a;", "rl", {0xffffffff, 1ull << 40}, {0, ~0ull});
    SIM_OP("cvt.sat.s64.u64 d, a;", "ll", {0x7fffffffffffffff, ~0ull});
}

static void to_floats(void)
{
    SIM_OP("cvt.rn.f32.s32 d, a;", "rr", {0x4f000000, 0x7fffffff}, {0xcf000000, 0x80000000}, {0, 0}, {0xbf800000, ~0u},
           {0x4b800000, 0x01000001}, {0x4b800002, 0x01000003});
    SIM_OP("cvt.rz.f32.s32 d, a;", "rr", {0x4effffff, 0x7fffffff}, {0xcb800000, 0xfeffffff});
    SIM_OP("cvt.rm.f32.s32 d, a;", "rr", {0x4effffff, 0x7fffffff}, {0xcb800001, 0xfeffffff});
    SIM_OP("cvt.rp.f32.s32 d, a;", "rr", {0x4f000000, 0x7fffffff}, {0xcb800000, 0xfeffffff});
    SIM_OP("cvt.rn.f32.u32 d, a;", "rr", {0x4f800000, 0xffffffff}, {0x4f000000, 0x80000000});
    SIM_OP("cvt.rz.f32.u32 d, a;", "rr", {0x4f7fffff, 0xffffffff});
    SIM_OP("cvt.rn.f32.s64 d, a;", "rl", {0x5f000000, 0x7fffffffffffffff}, {0xbf800000, ~0ull},
           {0x5f000000, 0x7fffffc000000000});
    SIM_OP("cvt.rn.f32.u64 d, a;", "rl", {0x5f800000, ~0ull}, {0x5f000000, 0x8000008000000000},
           {0x5f000001, 0x8000008000000001});
    SIM_OP("cvt.rz.f32.u64 d, a;", "rl", {0x5f7fffff, ~0ull});
    SIM_OP("cvt.rn.f32.u8 d, a;", "rh", {0x437f0000, 0xffff}, {0, 0xff00});
    SIM_OP("cvt.rn.f32.s8 d, a;", "rh", {0xbf800000, 0x00ff});
    SIM_OP("cvt.rn.f32.u16 d, a;", "rh", {0x477fff00, 0xffff});
    SIM_OP("cvt.rn.f32.s16 d, a;", "rh", {0xc7000000, 0x8000});
    SIM_OP("cvt.rn.f64.s32 d, a;", "lr", {0xc1e0000000000000, 0x80000000});
    SIM_OP("cvt.rn.f64.u64 d, a;", "ll", {0x43f0000000000000, ~0ull});
    SIM_OP("cvt.rn.f16.s32 d, a;", "hr", {0x7c00, 70000}, {0x7c00, 65520}, {0x7bff, 65519}, {0x6800, 2049},
           {0x6802, 2051}, {0xfc00, 0x80000000});
    SIM_OP("cvt.rz.f16.s32 d, a;", "hr", {0x7bff, 70000}, {0x6801, 2051});
    SIM_OP("cvt.rn.f16.u16 d, a;", "hh", {0x7c00, 0xffff}, {0x3c00, 1});
}

static void to_integers(void)
{
    const uint32_t nan = 0x7fc00000, inf = 0x7f800000;
    SIM_OP("cvt.rzi.s32.f32 d, a;", "rr", {2, 0x402ccccd}, {0xfffffffe, 0xc02ccccd}, {0x7fffffff, 0x4f000000},
           {0x80000000, 0xcf000000}, {0x80000000, 0xff800000}, {0x7fffffff, inf}, {0, nan}, {0, 0x3f7fffff},
           {0, 0x80000000});
    SIM_OP("cvt.rni.s32.f32 d, a;", "rr", {2, 0x40200000}, {4, 0x40600000}, {0, 0x3f000000}, {0, 0xbf000000},
           {2, 0x3fc00000}, {0xfffffffe, 0xc0200000}, {3, 0x40200001});
    SIM_OP("cvt.rmi.s32.f32 d, a;", "rr", {2, 0x402ccccd}, {0xfffffffd, 0xc02ccccd}, {0xffffffff, 0x80000001});
    SIM_OP("cvt.rpi.s32.f32 d, a;", "rr", {3, 0x402ccccd}, {0xfffffffe, 0xc02ccccd}, {1, 1});
    SIM_OP("cvt.rpi.ftz.s32.f32 d, a;", "rr", {0, 1}, {1, 0x00800000});
    SIM_OP("cvt.rzi.u32.f32 d, a;", "rr", {0, 0xbf800000}, {0xffffffff, 0x4f800000}, {0xffffff00, 0x4f7fffff}, {0, nan},
           {0xffffffff, inf}, {0, 0xff800000});
    SIM_OP("cvt.rzi.s64.f32 d, a;", "lr", {0x8000000000000000, nan}, {0x7fffffffffffffff, inf},
           {0x8000000000000000, 0xff800000}, {0xfffffffffffffffe, 0xc02ccccd}, {0x7fffff8000000000, 0x5effffff});
    SIM_OP("cvt.rzi.u64.f32 d, a;", "lr", {0x8000000000000000, nan}, {~0ull, inf}, {0, 0xbf800000},
           {0xffffff0000000000, 0x5f7fffff});
    SIM_OP("cvt.rzi.s8.f32 d, a;", "rr", {0x7f, 0x43960000}, {0xffffff80, 0xc3960000}, {0, nan},
           {0xffffffff, 0xbfc00000});
    SIM_OP("cvt.rzi.u8.f32 d, a;", "rr", {0xff, 0x43960000}, {0, 0xc3960000}, {200, 0x43480000});
    SIM_OP("cvt.rzi.u16.f32 d, a;", "hr", {0xffff, 0x47c35000}, {0, nan}, {3, 0x40600000});
    SIM_OP("cvt.rni.s16.f32 d, a;", "hr", {0x7fff, 0x47c35000}, {0x8000, 0xc7c35000}, {4, 0x40600000});
    SIM_OP("cvt.rzi.s32.f64 d, a;", "rl", {0x80000000, 0x7ff8000000000000}, {0x7fffffff, 0x41e0000000000000},
           {2, 0x4006000000000000});
    SIM_OP("cvt.rzi.u32.f64 d, a;", "rl", {0x80000000, 0x7ff8000000000000}, {0, 0xbff0000000000000});
    SIM_OP("cvt.rni.s32.f16 d, a;", "rh", {2, 0x4100}, {0, 0x7e00}, {0x7fffffff, 0x7c00}, {65504, 0x7bff});
    SIM_OP("cvt.rzi.u16.f16 d, a;", "hh", {65504, 0x7bff}, {0xffff, 0x7c00}, {0, 0xbc00});
}

static void roundings(void)
{
    SIM_OP("cvt.rni.f32.f32 d, a;", "fr", {0x40000000, 0x40200000}, {0x40800000, 0x40600000}, {0x80000000, 0xbf000000},
           {0x7fc00000, 0x7fc00000}, {0x7f800000, 0x7f800000}, {0x4b800001, 0x4b800001}, {0, 1});
    SIM_OP("cvt.rzi.f32.f32 d, a;", "fr", {0x40000000, 0x402ccccd}, {0x80000000, 0xbf7fffff});
    SIM_OP("cvt.rmi.f32.f32 d, a;", "fr", {0x40000000, 0x402ccccd}, {0xc0400000, 0xc02ccccd}, {0xbf800000, 0x80000001});
    SIM_OP("cvt.rpi.f32.f32 d, a;", "fr", {0x40400000, 0x402ccccd}, {0x80000000, 0xbf7fffff}, {0x3f800000, 1});
    SIM_OP("cvt.rpi.ftz.f32.f32 d, a;", "fr", {0, 1}, {0x80000000, 0x80000001});
    SIM_OP("cvt.sat.f32.f32 d, a;", "rr", {0x3f800000, 0x40000000}, {0, 0xbf800000}, {0, 0x7fc00000},
           {0x3f000000, 0x3f000000});
    SIM_OP("cvt.f64.f32 d, a;", "Dr", {0x3ff8000000000000, 0x3fc00000}, {0x36a0000000000000, 1},
           {0xfff0000000000000, 0xff800000}, {0x7ff8000000000000, 0x7fc00000});
    SIM_OP("cvt.rn.f32.f64 d, a;", "fl", {0x3f800000, 0x3ff0000010000000}, {0x3f800001, 0x3ff0000010000001},
           {0x7f800000, 0x47f0000000000000}, {0x7f800000, 0x47effffff0000000}, {0x7f7fffff, 0x47efffffefffffff},
           {1, 0x36a0000000000000}, {0, 0x3690000000000000}, {0x7fc00000, 0x7ff8000000000000});
    SIM_OP("cvt.rz.f32.f64 d, a;", "fl", {0x3f800000, 0x3ff000001fffffff}, {0x7f7fffff, 0x47f0000000000000});
    SIM_OP("cvt.rp.f32.f64 d, a;", "fl", {0x3f800001, 0x3ff0000000000001}, {1, 0x0000000000000001});
    SIM_OP("cvt.rm.f32.f64 d, a;", "fl", {0x3f800000, 0x3ff0000000000001}, {0x80000001, 0x8000000000000001});
    SIM_OP("cvt.rz.f16.f32 d, a;", "xr", {0x7bff, 0x47800000}, {0x3c00, 0x3f801fff}, {0x7c00, 0x7f800000},
           {0xfbff, 0xff7fffff});
    SIM_OP("cvt.rn.f16x2.f32 d, a, b;", "rrr", {0x3c004000, 0x3f800000, 0x40000000},
           {0x7c00fc00, 0x7f7fffff, 0xff7fffff});
    SIM_OP("cvt.rz.f16x2.f32 d, a, b;", "rrr", {0x7bfffbff, 0x7f7fffff, 0xff7fffff});
    SIM_OP("cvt.rn.relu.f16x2.f32 d, a, b;", "rrr", {0x3c000000, 0x3f800000, 0xc0000000},
           {0x7fff3c00, 0x7fc00000, 0x3f800000});
    SIM_OP("cvt.rn.bf16x2.f32 d, a, b;", "rrr", {0x3f804000, 0x3f800000, 0x40000000},
           {0x3f803f82, 0x3f808000, 0x3f818000}, {0x7f80ff80, 0x7f7fffff, 0xff7fffff});
    SIM_OP("cvt.rz.bf16x2.f32 d, a, b;", "rrr", {0x7f7f3f80, 0x7f7fffff, 0x3f80ffff});
    SIM_OP("cvt.rn.relu.bf16x2.f32 d, a, b;", "rrr", {0x3f800000, 0x3f800000, 0xc0000000},
           {0x7fff3f80, 0x7fc00000, 0x3f800000});
    SIM_OP("cvt.rz.bf16.f32 d, a;", "yr", {0x3f80, 0x3f80ffff}, {0x7f7f, 0x7f7fffff}, {0x7f80, 0x7f800000});
    SIM_OP("cvt.rn.relu.bf16.f32 d, a;", "hr", {0, 0xbf800000}, {0x3f80, 0x3f800000}, {0x7fff, 0x7fc00000},
           {0, 0x80000000});
    /* tf32 keeps 10 bits; the lower 13 are not for use, so they are masked. */
    SIM_OP("cvt.rna.tf32.f32 d, a; and.b32 d, d, 0xffffe000;", "rr", {0x3f802000, 0x3f801000}, {0x3f800000, 0x3f800fff},
           {0x3f804000, 0x3f803000}, {0xbf802000, 0xbf801000}, {0x7f800000, 0x7f800000});
}

/* --- all values of the narrow formats --- */

/* The value of a code: sign, `exponent` bits, `mantissa` bits, usual bias; infinities and NaNs as IEEE has them, or for
 * `finite` (e4m3) one NaN only, all ones. */
static double value_of(uint32_t code, int exponent, int mantissa, bool finite)
{
    int bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
    int e = (int)(code >> mantissa) & top, m = (int)code & ((1 << mantissa) - 1);
    double magnitude = e == 0 ? ldexp(m, 1 - bias - mantissa) : ldexp((1 << mantissa) + m, e - bias - mantissa);
    if (finite ? e == top && m == (1 << mantissa) - 1 : e == top) {
        magnitude = finite || m != 0 ? (double)NAN : (double)INFINITY;
    }
    return code >> (exponent + mantissa) & 1 ? -magnitude : magnitude;
}

static void narrow_to_wide(void)
{
    static sim_row row[ALL_16];
    for (uint32_t code = 0; code < ALL_16; code++) {
        row[code] = (sim_row){bits_of_float((float)value_of(code, 5, 10, false)), code};
    }
    sim_test_rows(SIM_HERE, "cvt.f32.f16 d, a;", "fh", row, ALL_16);
    for (uint32_t code = 0; code < 256; code++) {
        double value = value_of(code, 4, 3, true);
        uint32_t half = isnan(value) ? 0x7fff : 0;
        for (uint32_t h = 0; h < 0x10000 && !isnan(value); h++) {
            if (value_of(h, 5, 10, false) == value && !signbit(value) == !(h >> 15)) {
                half = h;
                break;
            }
        }
        row[code] = (sim_row){half, code | (code ^ 0x55) << 8};
        row[code + 256] = (sim_row){half, code << 8 | 0x7e};
    }
    sim_test_target("sm_90", "7.8");
    sim_test_rows(SIM_HERE, ".reg .b32 t; cvt.rn.f16x2.e4m3x2 t, a; mov.b32 {d, _}, t;", "xh", row, 256);
    sim_test_rows(SIM_HERE, ".reg .b32 t; cvt.rn.f16x2.e4m3x2 t, a; mov.b32 {_, d}, t;", "xh", row + 256, 256);
    for (uint32_t code = 0; code < 256; code++) {
        row[code] = (sim_row){code << 8, code}; /* e5m2 is the upper half of f16 */
    }
    sim_test_rows(SIM_HERE, ".reg .b32 t; cvt.rn.f16x2.e5m2x2 t, a; mov.b32 {d, _}, t;", "xh", row, 256);
    for (uint32_t code = 0; code < ALL_16; code++) {
        row[code] = (sim_row){code << 16, code};
    }
    sim_test_rows(SIM_HERE, "cvt.f32.bf16 d, a;", "fh", row, ALL_16);
    SIM_OP("cvt.rn.relu.f16x2.e4m3x2 d, a;", "rh", {0x3c000000, 0x38b8});
}

/* Around every code of a 16-bit format: its value, the middle to the next one (to the even code), and its neighbours.
 */
static void wide_to_16(const char *text, char kind, int exponent, int mantissa)
{
    static sim_row row[4 * ALL_16];
    size_t count = 0;
    uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    for (uint32_t code = 0; code < ALL_16; code++) {
        uint32_t magnitude = code & 0x7fff;
        double value = value_of(code, exponent, mantissa, false);
        row[count++] = (sim_row){code, bits_of_float((float)value)};
        if (magnitude >= infinity) {
            continue;
        }
        /* behind the largest code its neighbour would be 2^(bias + 1) */
        double next = magnitude + 1 == infinity ? copysign(ldexp(1, 1 << (exponent - 1)), value)
                                                : value_of(code + 1, exponent, mantissa, false);
        uint32_t middle = bits_of_float((float)((value + next) / 2));
        row[count++] = (sim_row){code + (code & 1), middle};
        row[count++] = (sim_row){code, middle - 1};
        row[count++] = (sim_row){code + 1, middle + 1};
    }
    char kinds[3] = {kind, 'r'};
    sim_test_rows(SIM_HERE, text, kinds, row, count);
}

static void wide_to_narrow(void)
{
    wide_to_16("cvt.rn.f16.f32 d, a;", 'x', 5, 10);
    wide_to_16("cvt.rn.bf16.f32 d, a;", 'y', 8, 7);
    wide_to_16(".reg .b32 t; cvt.rn.bf16x2.f32 t, a, 0f3F800000; mov.b32 {_, d}, t;", 'y', 8, 7);
    wide_to_16(".reg .b32 t; cvt.rn.f16x2.f32 t, 0f3F800000, a; mov.b32 {d, _}, t;", 'x', 5, 10);
}

/* The code nearest to `value`, of two equally near ones the even one; never beyond the largest finite value. */
static uint32_t nearest(double value, int exponent, int mantissa, bool finite)
{
    uint32_t best = 0, largest = finite ? 0x7e : 0x7b;
    double distance = fabs(value);
    if (distance > value_of(largest, exponent, mantissa, finite)) {
        best = largest;
    }
    for (uint32_t code = 1; code <= largest && best != largest; code++) {
        double d = fabs(fabs(value) - value_of(code, exponent, mantissa, finite));
        if (d < distance || (d == distance && code % 2 == 0)) {
            best = code;
            distance = d;
        }
    }
    return best | (signbit(value) ? 0x80 : 0);
}

/* All bf16 values, and what lies around the middles; NaNs only as NaNs (their sign is not specified). */
static void to_fp8(const char *format, int exponent, int mantissa, bool finite)
{
    static sim_row row[ALL_16 + 1024];
    char text[200];
    size_t count = 0;
    uint32_t largest = finite ? 0x7e : 0x7b;
    for (uint32_t code = 0; code < ALL_16; code++) {
        float value = float_of_bits(code << 16);
        if (!isnan(value)) {
            row[count++] = (sim_row){nearest((double)value, exponent, mantissa, finite), code << 16};
        }
    }
    for (uint32_t code = 0; code < largest; code++) {
        double middle =
            (value_of(code, exponent, mantissa, finite) + value_of(code + 1, exponent, mantissa, finite)) / 2;
        uint32_t bits = bits_of_float((float)middle);
        row[count++] = (sim_row){code + (code & 1), bits};
        row[count++] = (sim_row){code, bits - 1};
        row[count++] = (sim_row){code + 1, bits + 1};
    }
    snprintf(text, sizeof text, "cvt.rn.satfinite.%sx2.f32 d, 0f00000000, a;", format);
    sim_test_rows(SIM_HERE, text, "hr", row, count);
    for (size_t i = 0; i < count; i++) {
        row[i].d = row[i].d << 8 | 0x38;
    }
    snprintf(text, sizeof text, "cvt.rn.satfinite.%sx2.f32 d, a, %s;", format, finite ? "0f3F800000" : "0f3F000000");
    sim_test_rows(SIM_HERE, text, "hr", row, count);
}

static void eights(void)
{
    sim_test_target("sm_90", "7.8");
    to_fp8("e4m3", 4, 3, true);
    to_fp8("e5m2", 5, 2, false);
    SIM_OP("cvt.rn.satfinite.e4m3x2.f32 d, a, b; and.b16 d, d, 0x7f7f;", "hrr", {0x7f7f, 0x7fc00000, 0xffc00000},
           {0x7e7e, 0x7f800000, 0xff800000}, {0x7e38, 0x7f7fffff, 0xbf800000});
    SIM_OP("cvt.rn.satfinite.e5m2x2.f32 d, a, b;", "hrr", {0x7bfb, 0x7f800000, 0xff800000});
    SIM_OP("cvt.rn.satfinite.relu.e4m3x2.f32 d, a, b;", "hrr", {0x3800, 0x3f800000, 0xbf800000});
    SIM_OP("cvt.rn.satfinite.e4m3x2.f16x2 d, a;", "hr", {0x38b8, 0x3c00bc00}, {0x7efe, 0x7bfffbff},
           {0x7e01, 0x7c001800}, {0x0002, 0x14001a00});
    SIM_OP("cvt.rn.satfinite.e5m2x2.f16x2 d, a;", "hr", {0x3cbc, 0x3c00bc00}, {0x7bfb, 0x7bfffc00},
           {0x3c3e, 0x3c803d80});
    SIM_REFUSED(".reg .b16 h; .reg .f32 f; cvt.rn.e4m3x2.f32 h, f, f;", "cvt.rn.e4m3x2.f32");
}

static void refusals(void)
{
    SIM_REFUSED(".reg .b32 r; cvt.f32.s32 r, r;", "cvt.f32.s32"); /* no rounding named */
    SIM_REFUSED(".reg .b32 r; cvt.s32.f32 r, r;", "cvt.s32.f32");
    SIM_REFUSED(".reg .b32 r; cvt.rn.s32.s16 r, r;", "cvt.rn.s32.s16");
    SIM_REFUSED(".reg .b64 l; .reg .b32 r; cvt.rn.f64.f32 l, r;", "cvt.rn.f64.f32");
    SIM_REFUSED(".reg .b16 h; .reg .b32 r; cvt.s32.s32 h, r;", "cvt.s32.s32"); /* a register that is too narrow */
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"integers", integers},
                                       {"to_floats", to_floats},
                                       {"to_integers", to_integers},
                                       {"roundings", roundings},
                                       {"narrow_to_wide", narrow_to_wide},
                                       {"wide_to_narrow", wide_to_narrow},
                                       {"eights", eights},
                                       {"refusals", refusals}};
    return SIM_MAIN("convert", groups);
}
