/* op_float.c - PTX ISA "Floating Point Instructions", "Half Precision Floating Point Instructions".
 *
 * Everything can be computed by any_float(): sources as doubles, the result as a double rounded to odd, then encoded in
 * the type with its rounding and modifiers. The forms that kernels are full of have handlers of their own.
 *
 * The .approx instructions give the exact result rounded to nearest: within the error that the ISA states, but not the
 * bits of a GPU. */
#include "lanes.h"
#include "numeric.h"

typedef enum float_op {
    ADD,
    SUB,
    MUL,
    FMA,
    DIV,
    DIV_APPROX,
    RCP,
    SQRT,
    RSQRT,
    EX2,
    LG2,
    SIN,
    COS,
    TANH,
    MIN,
    MAX,
    NEG,
    ABS,
} float_op;
enum { FTZ = 1, SAT = 2, RELU = 4, NAN_WINS = 8, XOR_SIGN = 16 }; /* insn->flag */

/* --- elements of a lane: 1 of F32, F16, BF16, or 2 of F16X2, BF16X2 (kind, type: of an element) --- */

static void load(double *v, const sim_warp *w, uint32_t slot, ptx_type type, uint32_t shift, bool flush)
{
    const uint32_t *bits = SIM_SLOT(uint32_t, slot);
    switch (type) {
    case PTX_F16:
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            v[l] = sim_decode_f16(bits[l] >> shift);
        }
        break;
    case PTX_BF16:
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            v[l] = sim_decode_bf16(bits[l] >> shift);
        }
        break;
    default:
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            v[l] = sim_float(bits[l]);
        }
    }
    double normal = type == PTX_F16 ? 0x1p-14 : 0x1p-126;
    for (uint32_t l = 0; flush && l < PTX_LANES; l++) {
        v[l] = fabs(v[l]) < normal ? copysign(0, v[l]) : v[l];
    }
}

static double lesser(double a, double b, bool nan_wins)
{
    if (a != a || b != b) {
        return nan_wins ? NAN : a != a ? b : a;
    }
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double extreme(const ptx_insn *i, double a, double b)
{
    bool negative = (i->flag & XOR_SIGN) && signbit(a) != signbit(b);
    if (i->flag & XOR_SIGN) {
        a = fabs(a);
        b = fabs(b);
    }
    double r = i->kind == MIN ? lesser(a, b, i->flag & NAN_WINS) : -lesser(-a, -b, i->flag & NAN_WINS);
    return negative ? -r : r;
}

/* PTX ISA "div": where |b| > 2^126 the quotient is 0, or NaN for an infinite a. */
static double divide_approx(double a, double b)
{
    if (fabs(b) > 0x1p126 && !isinf(b) && a == a) {
        return isinf(a) ? NAN : copysign(0, a) * copysign(1, b);
    }
    return sim_odd_div(a, b);
}

/* Downwards, a sum that is exactly 0 is -0 unless both are +0 (IEEE 754). */
static double sum(const ptx_insn *i, double a, double b)
{
    double r = sim_odd_add(a, b);
    return r == 0 && i->extra == SIM_RM && (signbit(a) || signbit(b)) ? -0.0 : r;
}

static double compute(const ptx_insn *i, double a, double b, double c)
{
    switch ((float_op)i->kind) {
    case ADD:
        return sum(i, a, b);
    case SUB:
        return sum(i, a, -b);
    case MUL:
        return a * b; /* exact, here and in a sum */
    case FMA:
        return sum(i, a * b, c);
    case DIV:
        return sim_odd_div(a, b);
    case DIV_APPROX:
        return divide_approx(a, b);
    case RCP:
        return sim_odd_div(1, a);
    case SQRT:
        return sim_odd_sqrt(a);
    case RSQRT:
        return 1 / sqrt(a);
    case EX2:
        return exp2(a);
    case LG2:
        return log2(a);
    case SIN:
        return sin(a);
    case COS:
        return cos(a);
    case TANH:
        return tanh(a);
    case MIN:
    case MAX:
        return extreme(i, a, b);
    case NEG:
        return -a;
    case ABS:
        return fabs(a);
    }
    return NAN;
}

static uint32_t finish(const ptx_insn *i, double r)
{
    ptx_type type = (ptx_type)i->type;
    if (i->flag & SAT) {
        r = r > 0 ? (r < 1 ? r : 1) : 0;
    }
    if (i->flag & RELU) {
        r = r <= 0 ? 0 : r;
    }
    uint32_t bits = type == PTX_F32 && i->extra == SIM_RN ? sim_bits32(sim_canonical((float)r))
                                                          : sim_encode(r, type, (sim_round)i->extra, false);
    uint32_t exponent = type == PTX_F16 ? 0x7c00 : type == PTX_BF16 ? 0x7f80 : 0x7f800000;
    uint32_t sign = type == PTX_F32 ? 0x80000000 : 0x8000;
    return (i->flag & FTZ) && !(bits & exponent) ? bits & sign : bits;
}

SIM_HANDLER(any_float)
{
    uint32_t r[PTX_LANES] = {0};
    for (uint32_t part = 0; part < i->count; part++) {
        double a[PTX_LANES], b[PTX_LANES] = {0}, c[PTX_LANES] = {0};
        load(a, w, i->a, (ptx_type)i->type, 16 * part, i->flag & FTZ);
        if (i->width > 1) {
            load(b, w, i->b, (ptx_type)i->type, 16 * part, i->flag & FTZ);
        }
        if (i->width > 2) {
            load(c, w, i->c, (ptx_type)i->type, 16 * part, i->flag & FTZ);
        }
        SIM_FOR_LANES(l, mask)
        {
            r[l] |= finish(i, compute(i, a[l], b[l], c[l])) << (16 * part);
        }
    }
    sim_store(w->file + i->d, r, sizeof r[0], mask);
    return SIM_NEXT;
}

/* --- frequent forms, to nearest and without modifiers --- */

static inline float lesser_f32(float a, float b)
{
    float ordered = a < b ? a : b < a ? b : sim_float(sim_bits32(a) | sim_bits32(b));
    return a != a ? sim_canonical(b) : b != b ? a : ordered;
}
SIM_LANES_2(add_f32, float, float, float, sim_canonical(a + b))
SIM_LANES_2(sub_f32, float, float, float, sim_canonical(a - b))
SIM_LANES_2(mul_f32, float, float, float, sim_canonical(a *b))
SIM_LANES_2(div_f32, float, float, float, sim_canonical(a / b))
SIM_LANES_2(min_f32, float, float, float, lesser_f32(a, b))
SIM_LANES_2(max_f32, float, float, float,
            lesser_f32(-a, -b) != lesser_f32(-a, -b) ? sim_float(SIM_NAN_BITS) : -lesser_f32(-a, -b))
SIM_LANES_1(rcp_f32, float, float, sim_canonical(1 / a))
SIM_LANES_1(sqrt_f32, float, float, sim_canonical(sqrtf(a)))
SIM_LANES_1(neg_f32, uint32_t, uint32_t, a ^ 0x80000000)
SIM_LANES_1(abs_f32, uint32_t, uint32_t, a & 0x7fffffff)
SIM_LANES_3(fma_f32, float, float, float, float, sim_canonical((float)sim_odd_fma(a, b, c)))
#ifdef __x86_64__
/* The same bits in one instruction. */
__attribute__((target("avx2,fma"))) SIM_LANES_3(fma_f32_fast, float, float, float, float, sim_canonical(fmaf(a, b, c)))
#endif

    static sim_handler fma_handler(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return fma_f32_fast;
    }
#endif
    return fma_f32;
}

SIM_LANES_2(add_f64, double, double, double, a + b)
SIM_LANES_2(sub_f64, double, double, double, a - b)
SIM_LANES_2(mul_f64, double, double, double, a *b)
SIM_LANES_2(div_f64, double, double, double, a / b)
SIM_LANES_2(min_f64, double, double, double, lesser(a, b, false))
SIM_LANES_2(max_f64, double, double, double, -lesser(-a, -b, false))
SIM_LANES_1(rcp_f64, double, double, 1 / a)
SIM_LANES_1(sqrt_f64, double, double, sqrt(a))
SIM_LANES_1(rsqrt_f64, double, double, 1 / sqrt(a))
SIM_LANES_1(neg_f64, double, double, -a)
SIM_LANES_1(abs_f64, double, double, fabs(a))
SIM_LANES_3(fma_f64, double, double, double, double, fma(a, b, c))

/* --- binding --- */

#define BIT(type) (1u << (type))
enum { HALVES = BIT(PTX_F16) | BIT(PTX_F16X2) | BIT(PTX_BF16) | BIT(PTX_BF16X2) };
typedef enum rounding { NO_ROUNDING, MAY_ROUND, MUST_ROUND, APPROX, APPROX_OR_ROUND } rounding;

typedef struct float_form {
    const char *mnemonic;
    uint8_t op, sources, rounding, flags; /* flags: modifiers of some type */
    uint32_t types;
    sim_handler f32, f64; /* plain; NULL: any_float for f32, refused for f64 */
} float_form;

enum { COMMON = BIT(PTX_F32) | BIT(PTX_F64) | HALVES };
static const float_form forms[] = {
    {"add", ADD, 2, MAY_ROUND, FTZ | SAT, COMMON, add_f32, add_f64},
    {"sub", SUB, 2, MAY_ROUND, FTZ | SAT, COMMON, sub_f32, sub_f64},
    {"mul", MUL, 2, MAY_ROUND, FTZ | SAT, COMMON, mul_f32, mul_f64},
    {"fma", FMA, 3, MUST_ROUND, FTZ | SAT | RELU, COMMON, fma_f32, fma_f64},
    {"mad", FMA, 3, MUST_ROUND, FTZ | SAT, BIT(PTX_F32) | BIT(PTX_F64), fma_f32, fma_f64},
    {"div", DIV, 2, APPROX_OR_ROUND, FTZ, BIT(PTX_F32) | BIT(PTX_F64), div_f32, div_f64},
    {"rcp", RCP, 1, APPROX_OR_ROUND, FTZ, BIT(PTX_F32) | BIT(PTX_F64), rcp_f32, rcp_f64},
    {"sqrt", SQRT, 1, APPROX_OR_ROUND, FTZ, BIT(PTX_F32) | BIT(PTX_F64), sqrt_f32, sqrt_f64},
    {"rsqrt", RSQRT, 1, APPROX, FTZ, BIT(PTX_F32) | BIT(PTX_F64), NULL, rsqrt_f64},
    {"ex2", EX2, 1, APPROX, FTZ, BIT(PTX_F32) | HALVES, NULL, NULL},
    {"lg2", LG2, 1, APPROX, FTZ, BIT(PTX_F32), NULL, NULL},
    {"sin", SIN, 1, APPROX, FTZ, BIT(PTX_F32), NULL, NULL},
    {"cos", COS, 1, APPROX, FTZ, BIT(PTX_F32), NULL, NULL},
    {"tanh", TANH, 1, APPROX, 0, BIT(PTX_F32) | HALVES, NULL, NULL},
    {"min", MIN, 2, NO_ROUNDING, FTZ | NAN_WINS | XOR_SIGN, COMMON, min_f32, min_f64},
    {"max", MAX, 2, NO_ROUNDING, FTZ | NAN_WINS | XOR_SIGN, COMMON, max_f32, max_f64},
    {"neg", NEG, 1, NO_ROUNDING, FTZ, COMMON, neg_f32, neg_f64},
    {"abs", ABS, 1, NO_ROUNDING, FTZ, COMMON, abs_f32, abs_f64},
};

/* insn->extra: the rounding; insn->kind: the operation. */
static bool bind_rounding(ptx_bind *b, const float_form *form, bool *approx)
{
    static const char *const modes[] = {"rn", "rz", "rm", "rp", NULL};
    ptx_insn *i = b->insn;
    i->kind = form->op;
    i->extra = SIM_RN;
    *approx = false;
    if (form->rounding == APPROX || form->rounding == APPROX_OR_ROUND) {
        bool approximate = bind_take(b, "approx");
        *approx = approximate || (form->op == DIV && bind_take(b, "full"));
        if (approximate && form->op == DIV) {
            i->kind = DIV_APPROX;
        }
        if (*approx || form->rounding == APPROX) {
            return *approx || bind_fail(b, "needs .approx");
        }
    }
    int mode = form->rounding == NO_ROUNDING ? -1 : bind_choice(b, modes);
    if (mode < 0) {
        return form->rounding <= MAY_ROUND || bind_fail(b, "needs a rounding modifier");
    }
    i->extra = (uint8_t)mode;
    return true;
}

static uint8_t bind_flags(ptx_bind *b)
{
    uint8_t flags = bind_take(b, "ftz") ? FTZ : 0;
    flags |= bind_take(b, "sat") ? SAT : 0;
    flags |= bind_take(b, "relu") ? RELU : 0;
    flags |= bind_take(b, "NaN") ? NAN_WINS : 0;
    if (bind_take(b, "xorsign")) {
        if (!bind_take(b, "abs")) {
            bind_fail(b, "needs .xorsign.abs");
        }
        flags |= XOR_SIGN;
    }
    return flags;
}

/* Modifiers that the types do not share: PTX ISA, the syntax of each instruction. */
static bool flags_fit(const float_form *form, ptx_type type, uint8_t flags)
{
    bool bf16 = type == PTX_BF16 || type == PTX_BF16X2;
    uint8_t known = form->flags;
    if (type == PTX_F64) {
        known = 0;
    } else if (type == PTX_F32) {
        known &= (uint8_t)~RELU;
    } else if (form->op == EX2) {
        return flags == (bf16 ? FTZ : 0);
    } else if (bf16) {
        known &= (uint8_t) ~(FTZ | SAT);
    }
    return !(flags & ~known) && (flags & (SAT | RELU)) != (SAT | RELU);
}

static const float_form *find_form(const char *mnemonic)
{
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        if (strcmp(forms[f].mnemonic, mnemonic) == 0) {
            return &forms[f];
        }
    }
    return NULL;
}

bool sim_bind_float(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    const float_form *form = find_form(i->mnemonic);
    bool approx;
    if (!form) {
        return bind_fail(b, "has no floating-point form");
    }
    if (!bind_rounding(b, form, &approx)) {
        return false;
    }
    i->flag = bind_flags(b);
    ptx_type type = bind_type(b);
    if (!(form->types & BIT(type))) {
        return bind_fail(b, "has no form for .%s", ptx_type_name(type));
    }
    if (!flags_fit(form, type, i->flag) || (HALVES & BIT(type) && i->extra != SIM_RN)) {
        return bind_fail(b, "a modifier does not go with .%s", ptx_type_name(type));
    }
    i->type = (uint8_t)type;
    bool plain = !i->flag && i->extra == SIM_RN && (!approx || (type == PTX_F64 && form->op == RSQRT));
    sim_handler run = any_float;
    if (type == PTX_F64) {
        run = plain ? form->f64 : NULL;
    } else if (type == PTX_F32 && plain && form->f32) {
        run = form->op == FMA ? fma_handler() : form->f32;
    }
    bool bound = sim_bind_same(b, form->sources, run);
    bool two = type == PTX_F16X2 || type == PTX_BF16X2;
    i->width = form->sources;
    i->count = two ? 2 : 1;
    i->type = (uint8_t)(type == PTX_F16X2 ? PTX_F16 : type == PTX_BF16X2 ? PTX_BF16 : type);
    return bound;
}

/* copysign d, a, b: the sign of a on b. */
SIM_LANES_2(copysign_f32, uint32_t, uint32_t, uint32_t, (a & 0x80000000) | (b & 0x7fffffff))
SIM_LANES_2(copysign_f64, uint64_t, uint64_t, uint64_t, (a & INT64_MIN) | (b & INT64_MAX))

static bool bind_copysign(ptx_bind *b)
{
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    return sim_bind_same(b, 2, type == PTX_F32 ? copysign_f32 : type == PTX_F64 ? copysign_f64 : NULL);
}

static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal", NULL};

static bool tested(uint32_t test, double value, double normal)
{
    switch (test) {
    case 0:
        return isfinite(value);
    case 1:
        return isinf(value);
    case 2:
        return value == value;
    case 3:
        return value != value;
    case 4:
        return isfinite(value) && fabs(value) >= normal;
    default:
        return value != 0 && fabs(value) < normal;
    }
}

SIM_HANDLER(testp)
{
    uint32_t bits = 0;
    SIM_FOR_LANES(l, mask)
    {
        bool single = i->type == PTX_F32;
        double value = single ? sim_f32(w, i->a)[l] : sim_f64(w, i->a)[l];
        bits |= (uint32_t)tested(i->kind, value, single ? 0x1p-126 : 0x1p-1022) << l;
    }
    sim_store_predicate(w, i->d, bits, mask);
    return SIM_NEXT;
}

static bool bind_testp(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    int test = bind_choice(b, tests);
    ptx_type type = bind_type(b);
    if (test < 0 || (type != PTX_F32 && type != PTX_F64)) {
        return bind_fail(b, "needs a test, and .f32 or .f64");
    }
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    i->kind = (uint8_t)test;
    i->type = (uint8_t)type;
    i->a = bind_source(b, 1, type);
    i->d = bind_dest(b, 0, PTX_PRED);
    i->run = testp;
    return bind_ok(b);
}

const ptx_op ptx_ops_float[] = {
    {"fma", sim_bind_float},  {"rcp", sim_bind_float}, {"sqrt", sim_bind_float},    {"rsqrt", sim_bind_float},
    {"ex2", sim_bind_float},  {"lg2", sim_bind_float}, {"sin", sim_bind_float},     {"cos", sim_bind_float},
    {"tanh", sim_bind_float}, {"testp", bind_testp},   {"copysign", bind_copysign}, {NULL, NULL},
};
