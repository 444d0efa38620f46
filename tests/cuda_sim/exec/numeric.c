#include "numeric.h"

typedef struct format {
    uint32_t exponent_bits, fraction_bits;
    uint32_t largest; /* finite */
    uint32_t infinity, nan, sign;
    uint32_t shift; /* of the stored bits: TF32 lies in the upper 19 bits of a register */
} format;

/* PTX ISA "Alternate Floating-Point Data Formats"; E4M3 and E5M2: OCP 8-bit Floating Point Specification. */
static const format formats[PTX_TYPE_COUNT] = {
    [PTX_F32] = {8, 23, 0x7f7fffff, 0x7f800000, 0x7fffffff, 0x80000000, 0},
    [PTX_TF32] = {8, 10, 0x3fbff, 0x3fc00, 0x3ffff, 0x40000, 13},
    [PTX_F16] = {5, 10, 0x7bff, 0x7c00, 0x7fff, 0x8000, 0},
    [PTX_BF16] = {8, 7, 0x7f7f, 0x7f80, 0x7fff, 0x8000, 0},
    [PTX_E4M3] = {4, 3, 0x7e, 0x7e, 0x7f, 0x80, 0},
    [PTX_E5M2] = {5, 2, 0x7b, 0x7c, 0x7f, 0x80, 0},
};

static bool rounds_up(sim_round round, bool negative, uint64_t kept, uint64_t rest, uint64_t half)
{
    switch (round) {
    case SIM_RN:
        return rest > half || (rest == half && kept & 1);
    case SIM_RNA:
        return rest >= half;
    case SIM_RM:
        return negative && rest;
    case SIM_RP:
        return !negative && rest;
    case SIM_RZ:
        break;
    }
    return false;
}

/* What a finite number beyond the largest becomes. */
static bool overflows_to_infinity(sim_round round, bool negative)
{
    return round == SIM_RN || round == SIM_RNA || round == (negative ? SIM_RM : SIM_RP);
}

uint32_t sim_encode(double value, ptx_type type, sim_round round, bool satfinite)
{
    const format *f = &formats[type];
    uint64_t bits = sim_bits64(value);
    bool negative = bits >> 63;
    uint32_t sign = negative ? f->sign : 0;
    if (value != value) {
        return f->nan << f->shift;
    }
    if (isinf(value)) {
        return (sign | (satfinite ? f->largest : f->infinity)) << f->shift;
    }
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t significand = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == -1023) {
        exponent++;
    } else {
        significand |= UINT64_C(1) << 52;
    }
    int bias = (1 << (f->exponent_bits - 1)) - 1, lowest = 1 - bias;
    bool subnormal = exponent < lowest;
    int shift = 52 - (int)f->fraction_bits + (subnormal ? lowest - exponent : 0);
    shift = shift > 63 ? 63 : shift;
    uint64_t kept = significand >> shift, rest = significand & ((UINT64_C(1) << shift) - 1);
    kept += rounds_up(round, negative, kept, rest, UINT64_C(1) << (shift - 1));
    /* A carry out of the fraction moves into the exponent, which is then the right one. */
    uint64_t result = subnormal ? kept : ((uint64_t)(exponent + bias - 1) << f->fraction_bits) + kept;
    if (result > f->largest) {
        result = !satfinite && overflows_to_infinity(round, negative) ? f->infinity : f->largest;
    }
    return ((uint32_t)result | sign) << f->shift;
}

double sim_odd_integer(bool negative, uint64_t magnitude)
{
    int extra = 11 - (magnitude ? __builtin_clzll(magnitude) : 64);
    if (extra > 0) {
        uint64_t lost = magnitude & ((UINT64_C(1) << extra) - 1);
        magnitude = (magnitude >> extra | (lost != 0)) << extra;
    }
    double value = (double)magnitude;
    return negative ? -value : value;
}
