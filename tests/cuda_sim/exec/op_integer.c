/* op_integer.c - PTX ISA "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions". */
#include "lanes.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* Handlers by type. T is what an expression computes in, U the type's own width, L the lanes of a register. 16-bit
 * values lie in 32-bit lanes, zeros above. */
#define TYPED_1(name, T, U, L, expression)                                                                             \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const L *pa = SIM_SLOT(L, i->a);                                                                               \
        L r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            T a = (T)pa[l];                                                                                            \
            r[l] = (U)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }
#define TYPED_2(name, T, U, L, expression)                                                                             \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const L *pa = SIM_SLOT(L, i->a), *pb = SIM_SLOT(L, i->b);                                                      \
        L r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            T a = (T)pa[l], b = (T)pb[l];                                                                              \
            r[l] = (U)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }
#define TYPED_3(name, T, U, L, expression)                                                                             \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const L *pa = SIM_SLOT(L, i->a), *pb = SIM_SLOT(L, i->b), *pc = SIM_SLOT(L, i->c);                             \
        L r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            T a = (T)pa[l], b = (T)pb[l], c = (T)pc[l];                                                                \
            r[l] = (U)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }

#define EACH_UNSIGNED(M, op, e)                                                                                        \
    M(op##_u16, uint16_t, uint16_t, uint32_t, e)                                                                       \
    M(op##_u32, uint32_t, uint32_t, uint32_t, e) M(op##_u64, uint64_t, uint64_t, uint64_t, e)
#define EACH_SIGNED(M, op, e)                                                                                          \
    M(op##_s16, int16_t, uint16_t, uint32_t, e)                                                                        \
    M(op##_s32, int32_t, uint32_t, uint32_t, e) M(op##_s64, int64_t, uint64_t, uint64_t, e)
#define EACH_TYPE(M, op, e)  EACH_UNSIGNED(M, op, e) EACH_SIGNED(M, op, e)
#define UNSIGNED_ENTRIES(op) [PTX_U16] = op##_u16, [PTX_U32] = op##_u32, [PTX_U64] = op##_u64
#define SIGNED_ENTRIES(op)   [PTX_S16] = op##_s16, [PTX_S32] = op##_s32, [PTX_S64] = op##_s64
#define TABLE(op)            static const sim_handler op##_by_type[PTX_TYPE_COUNT]

/* Wrapping arithmetic is that of unsigned numbers, whatever the type. */
#define WRAP(x) ((uint64_t)(x))
EACH_UNSIGNED(TYPED_2, add, WRAP(a) + WRAP(b))
EACH_UNSIGNED(TYPED_2, sub, WRAP(a) - WRAP(b))
EACH_UNSIGNED(TYPED_2, mul_lo, WRAP(a) * WRAP(b))
EACH_UNSIGNED(TYPED_3, mad_lo, WRAP(a) * WRAP(b) + WRAP(c))
/* The upper half of a product; X has twice the width. */
#define UPPER(X) ((X)a * (X)b >> (4 * sizeof(X)))
TYPED_2(mul_hi_u16, uint16_t, uint16_t, uint32_t, UPPER(uint32_t))
TYPED_2(mul_hi_u32, uint32_t, uint32_t, uint32_t, UPPER(uint64_t))
TYPED_2(mul_hi_u64, uint64_t, uint64_t, uint64_t, UPPER(uint128))
TYPED_2(mul_hi_s16, int16_t, uint16_t, uint32_t, UPPER(int32_t))
TYPED_2(mul_hi_s32, int32_t, uint32_t, uint32_t, UPPER(int64_t))
TYPED_2(mul_hi_s64, int64_t, uint64_t, uint64_t, UPPER(int128))
TYPED_3(mad_hi_u16, uint16_t, uint16_t, uint32_t, WRAP(UPPER(uint32_t)) + WRAP(c))
TYPED_3(mad_hi_u32, uint32_t, uint32_t, uint32_t, WRAP(UPPER(uint64_t)) + WRAP(c))
TYPED_3(mad_hi_u64, uint64_t, uint64_t, uint64_t, WRAP(UPPER(uint128)) + WRAP(c))
TYPED_3(mad_hi_s16, int16_t, uint16_t, uint32_t, WRAP(UPPER(int32_t)) + WRAP(c))
TYPED_3(mad_hi_s32, int32_t, uint32_t, uint32_t, WRAP(UPPER(int64_t)) + WRAP(c))
TYPED_3(mad_hi_s64, int64_t, uint64_t, uint64_t, WRAP(UPPER(int128)) + WRAP(c))
EACH_TYPE(TYPED_2, min, a < b ? a : b)
EACH_TYPE(TYPED_2, max, a > b ? a : b)
EACH_TYPE(TYPED_3, sad, WRAP(c) + (a > b ? WRAP(a) - WRAP(b) : WRAP(b) - WRAP(a)))
EACH_SIGNED(TYPED_1, neg, 0 - WRAP(a))
EACH_SIGNED(TYPED_1, abs, a < 0 ? 0 - WRAP(a) : WRAP(a))
/* Division by zero is "an unspecified, machine-specific value": all ones, and the dividend as the remainder. */
EACH_UNSIGNED(TYPED_2, div, b == 0 ? WRAP(-1) : a / b)
EACH_SIGNED(TYPED_2, div, b == 0 ? WRAP(-1) : b == -1 ? 0 - WRAP(a) : WRAP(a / b))
EACH_UNSIGNED(TYPED_2, rem, b == 0 ? a : a % b)
EACH_SIGNED(TYPED_2, rem, b == 0 ? a : b == -1 ? 0 : a % b)

#define SAME_BITS(op)                                                                                                  \
    [PTX_U16] = op##_u16, [PTX_S16] = op##_u16, [PTX_U32] = op##_u32, [PTX_S32] = op##_u32, [PTX_U64] = op##_u64,      \
    [PTX_S64] = op##_u64
TABLE(add) = {SAME_BITS(add)};
TABLE(sub) = {SAME_BITS(sub)};
TABLE(mul_lo) = {SAME_BITS(mul_lo)};
TABLE(mad_lo) = {SAME_BITS(mad_lo)};
TABLE(mul_hi) = {UNSIGNED_ENTRIES(mul_hi), SIGNED_ENTRIES(mul_hi)};
TABLE(mad_hi) = {UNSIGNED_ENTRIES(mad_hi), SIGNED_ENTRIES(mad_hi)};
TABLE(min) = {UNSIGNED_ENTRIES(min), SIGNED_ENTRIES(min)};
TABLE(max) = {UNSIGNED_ENTRIES(max), SIGNED_ENTRIES(max)};
TABLE(sad) = {UNSIGNED_ENTRIES(sad), SIGNED_ENTRIES(sad)};
TABLE(div) = {UNSIGNED_ENTRIES(div), SIGNED_ENTRIES(div)};
TABLE(rem) = {UNSIGNED_ENTRIES(rem), SIGNED_ENTRIES(rem)};
TABLE(neg) = {SIGNED_ENTRIES(neg)};
TABLE(abs) = {SIGNED_ENTRIES(abs)};

/* Sources of half the width of the result. */
SIM_LANES_2(mul_wide_u16, uint32_t, uint32_t, uint32_t, a *b)
SIM_LANES_2(mul_wide_s16, uint32_t, uint32_t, uint32_t, (int16_t)a *(int16_t)b)
SIM_LANES_2(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)a *b)
SIM_LANES_2(mul_wide_s32, uint64_t, int32_t, int32_t, (int64_t)a *b)
SIM_LANES_3(mad_wide_u16, uint32_t, uint32_t, uint32_t, uint32_t, a *b + c)
SIM_LANES_3(mad_wide_s16, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)((int16_t)a *(int16_t)b) + c)
SIM_LANES_3(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)a *b + c)
SIM_LANES_3(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)a *b) + c)
#define WIDE_ENTRIES(op)                                                                                               \
    [PTX_U16] = op##_wide_u16, [PTX_S16] = op##_wide_s16, [PTX_U32] = op##_wide_u32, [PTX_S32] = op##_wide_s32
TABLE(mul_wide) = {WIDE_ENTRIES(mul)};
TABLE(mad_wide) = {WIDE_ENTRIES(mad)};

static int32_t clamp_s32(int64_t x)
{
    return (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}
SIM_LANES_2(add_sat, int32_t, int32_t, int32_t, clamp_s32((int64_t)a + b))
SIM_LANES_2(sub_sat, int32_t, int32_t, int32_t, clamp_s32((int64_t)a - b))
SIM_LANES_3(mad_hi_sat, int32_t, int32_t, int32_t, int32_t, clamp_s32(((int64_t)a * b >> 32) + c))
SIM_LANES_2(min_relu, int32_t, int32_t, int32_t, (a < b ? a : b) < 0 ? 0 : (a < b ? a : b))
SIM_LANES_2(max_relu, int32_t, int32_t, int32_t, (a > b ? a : b) < 0 ? 0 : (a > b ? a : b))

/* Pairs of 16-bit numbers in 32 bits. */
static uint32_t pair(int64_t high, int64_t low)
{
    return (uint32_t)(uint16_t)high << 16 | (uint16_t)low;
}
#define HIGH(x)    ((int16_t)((x) >> 16))
#define LOW(x)     ((int16_t)(x))
#define UHIGH(x)   ((x) >> 16)
#define ULOW(x)    ((x)&0xffff)
#define LESS(x, y) ((x) < (y) ? (x) : (y))
#define MORE(x, y) ((x) > (y) ? (x) : (y))
SIM_LANES_2(add_16x2, uint32_t, uint32_t, uint32_t, pair((int64_t)UHIGH(a) + UHIGH(b), (int64_t)ULOW(a) + ULOW(b)))
SIM_LANES_2(min_s16x2, uint32_t, uint32_t, uint32_t, pair(LESS(HIGH(a), HIGH(b)), LESS(LOW(a), LOW(b))))
SIM_LANES_2(max_s16x2, uint32_t, uint32_t, uint32_t, pair(MORE(HIGH(a), HIGH(b)), MORE(LOW(a), LOW(b))))
#define RELU(x) MORE(x, 0)
SIM_LANES_2(min_relu_s16x2, uint32_t, uint32_t, uint32_t,
            pair(RELU(LESS(HIGH(a), HIGH(b))), RELU(LESS(LOW(a), LOW(b)))))
SIM_LANES_2(max_relu_s16x2, uint32_t, uint32_t, uint32_t,
            pair(RELU(MORE(HIGH(a), HIGH(b))), RELU(MORE(LOW(a), LOW(b)))))
SIM_LANES_2(min_u16x2, uint32_t, uint32_t, uint32_t, pair(LESS(UHIGH(a), UHIGH(b)), LESS(ULOW(a), ULOW(b))))
SIM_LANES_2(max_u16x2, uint32_t, uint32_t, uint32_t, pair(MORE(UHIGH(a), UHIGH(b)), MORE(ULOW(a), ULOW(b))))

/* Products of 24 bits: the upper or the lower 32 of 48. */
#define U24(x) ((uint64_t)((x)&0xffffff))
#define S24(x) ((int64_t)((int32_t)((x) << 8) >> 8))
SIM_LANES_2(mul24_lo_u32, uint32_t, uint32_t, uint32_t, U24(a) * U24(b))
SIM_LANES_2(mul24_lo_s32, uint32_t, uint32_t, uint32_t, S24(a) * S24(b))
SIM_LANES_2(mul24_hi_u32, uint32_t, uint32_t, uint32_t, U24(a) * U24(b) >> 16)
SIM_LANES_2(mul24_hi_s32, uint32_t, uint32_t, uint32_t, S24(a) * S24(b) >> 16)
SIM_LANES_3(mad24_lo_u32, uint32_t, uint32_t, uint32_t, uint32_t, U24(a) * U24(b) + c)
SIM_LANES_3(mad24_lo_s32, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)(S24(a) * S24(b)) + c)
SIM_LANES_3(mad24_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, (U24(a) * U24(b) >> 16) + c)
SIM_LANES_3(mad24_hi_s32, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)(S24(a) * S24(b) >> 16) + c)

static bool bind_by_type(ptx_bind *b, uint32_t sources, const sim_handler *by_type)
{
    b->insn->type = (uint8_t)bind_type(b);
    return sim_bind_same(b, sources, by_type[b->insn->type]);
}

static bool bind_s32(ptx_bind *b, uint32_t sources, sim_handler run)
{
    b->insn->type = PTX_S32;
    return bind_type(b) == PTX_S32 ? sim_bind_same(b, sources, run) : bind_fail(b, "only .s32 takes this modifier");
}

static bool bind_pair(ptx_bind *b, sim_handler run)
{
    b->insn->type = PTX_B32;
    return sim_bind_same(b, 2, run);
}

/* --- carry chains --- */

enum { CHAIN_ADD, CHAIN_SUB, CHAIN_LOW, CHAIN_HIGH }; /* insn->kind; the last two: a * b + c */

/* insn->flag: takes CC.CF, insn->extra: gives it. For a subtraction it is the borrow. */
static sim_next chain(sim_warp *w, const ptx_insn *i, uint32_t mask)
{
    bool wide = i->width == 8, is_signed = ptx_type_is_signed((ptx_type)i->type);
    uint32_t carries = w->carry, bits = i->width * 8u;
    SIM_FOR_LANES(l, mask)
    {
        uint64_t a = wide ? sim_u64(w, i->a)[l] : sim_u32(w, i->a)[l];
        uint64_t b = wide ? sim_u64(w, i->b)[l] : sim_u32(w, i->b)[l];
        if (i->kind == CHAIN_LOW || i->kind == CHAIN_HIGH) {
            int128 signed_product = wide ? (int128)(int64_t)a * (int64_t)b : (int128)((int64_t)(int32_t)a * (int32_t)b);
            uint128 product = is_signed ? (uint128)signed_product : (uint128)a * b;
            a = (uint64_t)(i->kind == CHAIN_HIGH ? product >> bits : product);
            a = wide ? a : (uint32_t)a;
            b = wide ? sim_u64(w, i->c)[l] : sim_u32(w, i->c)[l];
        }
        uint32_t carry = i->flag ? carries >> l & 1 : 0;
        uint128 result = i->kind == CHAIN_SUB ? (uint128)a - b - carry : (uint128)a + b + carry;
        if (wide) {
            sim_u64(w, i->d)[l] = (uint64_t)result;
        } else {
            sim_u32(w, i->d)[l] = (uint32_t)result;
        }
        if (i->extra) {
            w->carry = (w->carry & ~(1u << l)) | (uint32_t)(result >> bits & 1) << l;
        }
    }
    return SIM_NEXT;
}

static bool bind_chain(ptx_bind *b, uint8_t kind, bool takes)
{
    ptx_insn *i = b->insn;
    i->kind = kind;
    i->flag = takes;
    i->extra = bind_take(b, "cc");
    i->type = (uint8_t)bind_type(b);
    i->width = (uint8_t)ptx_type_size((ptx_type)i->type);
    bool integer = i->type == PTX_U32 || i->type == PTX_S32 || i->type == PTX_U64 || i->type == PTX_S64;
    return sim_bind_same(b, kind >= CHAIN_LOW ? 3 : 2, integer ? chain : NULL);
}

static bool next_is(const ptx_bind *b, const char *suffix)
{
    return b->next < b->insn->suffix_count && strcmp(b->insn->suffix[b->next], suffix) == 0;
}

static bool bind_addc(ptx_bind *b)
{
    return bind_chain(b, CHAIN_ADD, true);
}
static bool bind_subc(ptx_bind *b)
{
    return bind_chain(b, CHAIN_SUB, true);
}
static bool bind_madc(ptx_bind *b)
{
    static const char *const halves[] = {"lo", "hi", NULL};
    int half = bind_choice(b, halves);
    return half < 0 ? bind_fail(b, "needs .lo or .hi") : bind_chain(b, half ? CHAIN_HIGH : CHAIN_LOW, true);
}

/* --- binders --- */

static bool bind_add(ptx_bind *b)
{
    if (ptx_type_is_float(sim_last_type(b))) {
        return sim_bind_float(b);
    }
    if (next_is(b, "cc")) {
        return bind_chain(b, CHAIN_ADD, false);
    }
    if (bind_take(b, "sat")) {
        return bind_s32(b, 2, add_sat);
    }
    if (bind_take(b, "u16x2") || bind_take(b, "s16x2")) {
        return bind_pair(b, add_16x2);
    }
    return bind_by_type(b, 2, add_by_type);
}

static bool bind_sub(ptx_bind *b)
{
    if (ptx_type_is_float(sim_last_type(b))) {
        return sim_bind_float(b);
    }
    if (next_is(b, "cc")) {
        return bind_chain(b, CHAIN_SUB, false);
    }
    if (bind_take(b, "sat")) {
        return bind_s32(b, 2, sub_sat);
    }
    return bind_by_type(b, 2, sub_by_type);
}

static const char *const parts[] = {"lo", "hi", "wide", NULL};

static bool bind_wide(ptx_bind *b, uint32_t sources, const sim_handler *by_type)
{
    ptx_insn *i = b->insn;
    i->type = (uint8_t)bind_type(b);
    if (!bind_end(b) || !bind_operands(b, sources + 1)) {
        return false;
    }
    ptx_type result = ptx_type_size((ptx_type)i->type) == 2 ? PTX_B32 : PTX_B64;
    i->a = bind_source(b, 1, (ptx_type)i->type);
    i->b = bind_source(b, 2, (ptx_type)i->type);
    i->c = sources == 3 ? bind_source(b, 3, result) : 0;
    i->d = bind_dest(b, 0, result);
    i->run = by_type[i->type];
    return bind_ok(b);
}

static bool bind_mul(ptx_bind *b)
{
    if (ptx_type_is_float(sim_last_type(b))) {
        return sim_bind_float(b);
    }
    switch (bind_choice(b, parts)) {
    case 0:
        return bind_by_type(b, 2, mul_lo_by_type);
    case 1:
        return bind_by_type(b, 2, mul_hi_by_type);
    case 2:
        return bind_wide(b, 2, mul_wide_by_type);
    default:
        return bind_fail(b, "needs .lo, .hi or .wide");
    }
}

static bool bind_mad(ptx_bind *b)
{
    if (ptx_type_is_float(sim_last_type(b))) {
        return sim_bind_float(b);
    }
    int part = bind_choice(b, parts);
    if (part < 2 && next_is(b, "cc")) {
        return bind_chain(b, part ? CHAIN_HIGH : CHAIN_LOW, false);
    }
    switch (part) {
    case 0:
        return bind_by_type(b, 3, mad_lo_by_type);
    case 1:
        return bind_take(b, "sat") ? bind_s32(b, 3, mad_hi_sat) : bind_by_type(b, 3, mad_hi_by_type);
    case 2:
        return bind_wide(b, 3, mad_wide_by_type);
    default:
        return bind_fail(b, "needs .lo, .hi or .wide");
    }
}

/* nvcc writes .relu behind the type, the ISA before it; ptxas takes both. */
static bool bind_extreme(ptx_bind *b, const sim_handler *by_type, const sim_handler *relu, sim_handler s16x2,
                         sim_handler u16x2)
{
    if (ptx_type_is_float(sim_last_type(b))) {
        return sim_bind_float(b);
    }
    bool first = bind_take(b, "relu");
    if (bind_take(b, "u16x2") && !first) {
        return bind_pair(b, u16x2);
    }
    if (bind_take(b, "s16x2")) {
        return bind_pair(b, first || bind_take(b, "relu") ? relu[1] : s16x2);
    }
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    if (first || bind_take(b, "relu")) {
        return type == PTX_S32 ? sim_bind_same(b, 2, relu[0]) : bind_fail(b, ".relu goes with .s32 and .s16x2");
    }
    return sim_bind_same(b, 2, by_type[type]);
}
static bool bind_min(ptx_bind *b)
{
    static const sim_handler relu[] = {min_relu, min_relu_s16x2};
    return bind_extreme(b, min_by_type, relu, min_s16x2, min_u16x2);
}
static bool bind_max(ptx_bind *b)
{
    static const sim_handler relu[] = {max_relu, max_relu_s16x2};
    return bind_extreme(b, max_by_type, relu, max_s16x2, max_u16x2);
}

static bool bind_neg(ptx_bind *b)
{
    return ptx_type_is_float(sim_last_type(b)) ? sim_bind_float(b) : bind_by_type(b, 1, neg_by_type);
}
static bool bind_abs(ptx_bind *b)
{
    return ptx_type_is_float(sim_last_type(b)) ? sim_bind_float(b) : bind_by_type(b, 1, abs_by_type);
}
static bool bind_div(ptx_bind *b)
{
    return ptx_type_is_float(sim_last_type(b)) ? sim_bind_float(b) : bind_by_type(b, 2, div_by_type);
}
static bool bind_rem(ptx_bind *b)
{
    return bind_by_type(b, 2, rem_by_type);
}
static bool bind_sad(ptx_bind *b)
{
    return bind_by_type(b, 3, sad_by_type);
}

/* handlers: .lo of U32 and S32, .hi of U32 and S32. */
static bool bind_24(ptx_bind *b, uint32_t sources, const sim_handler *handlers)
{
    static const char *const halves[] = {"lo", "hi", NULL};
    int half = bind_choice(b, halves);
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    if (half < 0 || (type != PTX_U32 && type != PTX_S32)) {
        return bind_fail(b, "needs .lo or .hi and .u32 or .s32");
    }
    return sim_bind_same(b, sources, handlers[half * 2 + (type == PTX_S32)]);
}
static bool bind_mul24(ptx_bind *b)
{
    static const sim_handler handlers[] = {mul24_lo_u32, mul24_lo_s32, mul24_hi_u32, mul24_hi_s32};
    return bind_24(b, 2, handlers);
}
static bool bind_mad24(ptx_bind *b)
{
    static const sim_handler handlers[] = {mad24_lo_u32, mad24_lo_s32, mad24_hi_u32, mad24_hi_s32};
    return bind_24(b, 3, handlers);
}

/* --- dot products: insn->type and source_type are those of a and b; width: 4 or 2 terms; kind: dp2a.hi --- */

static int64_t part_of(uint32_t bits, uint32_t index, uint32_t width, bool is_signed)
{
    uint32_t part = bits >> (index * width) & (width == 8 ? UINT8_MAX : UINT16_MAX);
    return is_signed && part >> (width - 1) ? (int64_t)part - (INT64_C(1) << width) : part;
}

static sim_next dot(sim_warp *w, const ptx_insn *i, uint32_t mask)
{
    bool signed_a = i->type == PTX_S32, signed_b = i->source_type == PTX_S32;
    SIM_FOR_LANES(l, mask)
    {
        uint32_t a = sim_u32(w, i->a)[l], b = sim_u32(w, i->b)[l], sum = sim_u32(w, i->c)[l];
        for (uint32_t t = 0; t < i->width; t++) {
            sum += (uint32_t)(part_of(a, t, 32u / i->width, signed_a) * part_of(b, i->kind * 2u + t, 8, signed_b));
        }
        sim_u32(w, i->d)[l] = sum;
    }
    return SIM_NEXT;
}

static bool bind_dot(ptx_bind *b, uint8_t terms)
{
    ptx_insn *i = b->insn;
    i->width = terms;
    i->type = (uint8_t)bind_type(b);
    i->source_type = (uint8_t)bind_type(b);
    bool known = (i->type == PTX_U32 || i->type == PTX_S32) && (i->source_type == PTX_U32 || i->source_type == PTX_S32);
    return sim_bind_same(b, 3, known ? dot : NULL);
}
static bool bind_dp4a(ptx_bind *b)
{
    return bind_dot(b, 4);
}
static bool bind_dp2a(ptx_bind *b)
{
    static const char *const halves[] = {"lo", "hi", NULL};
    int half = bind_choice(b, halves);
    b->insn->kind = half == 1;
    return half < 0 ? bind_fail(b, "needs .lo or .hi") : bind_dot(b, 2);
}

const ptx_op ptx_ops_integer[] = {
    {"add", bind_add},     {"sub", bind_sub},   {"mul", bind_mul},   {"mad", bind_mad}, {"addc", bind_addc},
    {"subc", bind_subc},   {"madc", bind_madc}, {"div", bind_div},   {"rem", bind_rem}, {"min", bind_min},
    {"max", bind_max},     {"neg", bind_neg},   {"abs", bind_abs},   {"sad", bind_sad}, {"mul24", bind_mul24},
    {"mad24", bind_mad24}, {"dp4a", bind_dp4a}, {"dp2a", bind_dp2a}, {NULL, NULL},
};
