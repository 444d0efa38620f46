/* numeric.h - floating-point formats and rounding by hand.
 *
 * The host's rounding mode is never touched: results that need another rounding than to nearest even, or a narrower
 * format, are computed as a double rounded to odd (the last bit of an inexact result is 1), which loses nothing that
 * a later rounding to at most 50 bits could ask for (Boldo and Melquiond, "Emulation of FMA and correctly rounded
 * sums: proved algorithms using rounding to odd", 2008). */
#ifndef NUMERIC_H
#define NUMERIC_H

#include "../ptx/ptx.h"
#include <math.h>
#include <string.h>

typedef enum sim_round { SIM_RN, SIM_RZ, SIM_RM, SIM_RP, SIM_RNA } sim_round; /* RNA: ties away from zero */

/* The bits of `value` in `type` (F16, BF16, TF32, F32, E4M3, E5M2). NaN gives the canonical one. With `satfinite` what
 * overflows, infinity too, becomes the largest finite number; E4M3, which has no infinity, always does that. */
uint32_t sim_encode(double value, ptx_type type, sim_round round, bool satfinite);
/* x rounded to odd; exact: `negative` and magnitude. */
double sim_odd_integer(bool negative, uint64_t magnitude);

static inline uint32_t sim_bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float sim_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t sim_bits64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double sim_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Arithmetic of single precision gives no other NaN than this one (CUDA C++ Programming Guide, "Floating-Point
 * Standard"). */
#define SIM_NAN_BITS UINT32_C(0x7fffffff)
static inline float sim_canonical(float value)
{
    return value != value ? sim_float(SIM_NAN_BITS) : value;
}

/* Also for subnormal numbers: the fraction is read as that of a float 2^112 times smaller, and the product is exact. */
static inline float sim_decode_f16(uint32_t bits)
{
    uint32_t magnitude = (bits & 0x7fff) << 13;
    uint32_t special = (bits & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000 : 0;
    uint32_t finite = sim_bits32(sim_float(magnitude) * 0x1p112f);
    return sim_float((special ? special : finite) | (bits & 0x8000) << 16);
}

static inline float sim_decode_bf16(uint32_t bits)
{
    return sim_float(bits << 16);
}

/* To nearest even. bf16 is the upper half of an f32: just below half of its last bit is added. */
static inline uint32_t sim_nearest_bf16(uint32_t a)
{
    return (a & 0x7fffffff) > 0x7f800000 ? 0x7fff : (a + 0x7fff + (a >> 16 & 1)) >> 16;
}

/* The same for f16, whose exponent is 112 less. The last bit of a subnormal one is that of 0.5f, which is added; 65520
 * is the first number that rounds to infinity. */
static inline uint32_t sim_nearest_f16(uint32_t a)
{
    uint32_t magnitude = a & 0x7fffffff, sign = a >> 16 & 0x8000;
    uint32_t small = sim_bits32(sim_float(magnitude) + 0.5f) - sim_bits32(0.5f);
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t finite = magnitude < sim_bits32(0x1p-14f) ? small : normal;
    uint32_t number = magnitude >= sim_bits32(65520) ? 0x7c00 : finite;
    return magnitude > 0x7f800000 ? 0x7fff : number | sign;
}

static inline float sim_decode_e5m2(uint32_t bits)
{
    return sim_decode_f16((bits & 0xff) << 8); /* its exponent is f16's */
}

static inline float sim_decode_e4m3(uint32_t bits)
{
    float value = sim_decode_f16((bits & 0x7f) << 7) * 0x1p8f; /* as f16 the exponent is 8 less, and never all ones */
    uint32_t magnitude = (bits & 0x7f) == 0x7f ? SIM_NAN_BITS : sim_bits32(value);
    return sim_float(magnitude | (bits & 0x80) << 24);
}

/* `nearest` is the exact result rounded to nearest, `error` has the sign of exact - nearest. */
static inline double sim_odd(double nearest, double error)
{
    uint64_t bits = sim_bits64(nearest);
    bool inexact = (error < 0 || error > 0) && nearest - nearest == 0;
    uint64_t up = (error > 0) == (nearest > 0) ? 1 : UINT64_MAX;
    return sim_double(inexact && !(bits & 1) ? bits + up : bits);
}

/* Knuth's exact error of a sum. */
static inline double sim_odd_add(double a, double b)
{
    double sum = a + b, part = sum - a;
    return sim_odd(sum, (a - (sum - part)) + (b - part));
}

/* a, b and c have no more than 24 bits, so that the product is exact. */
static inline double sim_odd_fma(double a, double b, double c)
{
    return sim_odd_add(a * b, c);
}

static inline double sim_odd_div(double a, double b)
{
    double quotient = a / b, rest = fma(-quotient, b, a);
    return sim_odd(quotient, b < 0 ? -rest : rest);
}

static inline double sim_odd_sqrt(double a)
{
    double root = sqrt(a);
    return sim_odd(root, fma(-root, root, a));
}

#endif
