/* op_compare.c - PTX ISA "Comparison and Selection Instructions": setp, set, selp, slct. */
#include "lanes.h"
#include "numeric.h"

typedef uint32_t (*compare)(const void *a, const void *b); /* 32 values each; a bit a lane */
#define COMPARE(name, T, L, expression)                                                                                \
    static uint32_t name(const void *first, const void *second)                                                        \
    {                                                                                                                  \
        const L *pa = first, *pb = second;                                                                             \
        uint32_t bits = 0;                                                                                             \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            T a = (T)pa[l], b = (T)pb[l];                                                                              \
            bits |= (uint32_t)(expression) << l;                                                                       \
        }                                                                                                              \
        return bits;                                                                                                   \
    }
/* "ne" of numbers is false for NaN, as all ordered relations are. */
#define COMPARE_ALL(type, T, L, unequal)                                                                               \
    COMPARE(eq_##type, T, L, a == b)                                                                                   \
    COMPARE(ne_##type, T, L, unequal)                                                                                  \
    COMPARE(lt_##type, T, L, a < b)                                                                                    \
    COMPARE(le_##type, T, L, a <= b)                                                                                   \
    COMPARE(gt_##type, T, L, a > b)                                                                                    \
    COMPARE(ge_##type, T, L, a >= b)
COMPARE_ALL(u16, uint16_t, uint32_t, a != b)
COMPARE_ALL(s16, int16_t, uint32_t, a != b)
COMPARE_ALL(u32, uint32_t, uint32_t, a != b)
COMPARE_ALL(s32, int32_t, uint32_t, a != b)
COMPARE_ALL(u64, uint64_t, uint64_t, a != b)
COMPARE_ALL(s64, int64_t, uint64_t, a != b)
COMPARE_ALL(f32, float, float, a<b || a> b)
COMPARE_ALL(f64, double, double, a<b || a> b)
COMPARE(num_f32, float, float, a == a && b == b)
COMPARE(num_f64, double, double, a == a && b == b)

enum { EQ, NE, LT, LE, GT, GE, NUM };
#define SIX(type) eq_##type, ne_##type, lt_##type, le_##type, gt_##type, ge_##type
static const compare by_type[PTX_TYPE_COUNT][NUM + 1] = {
    [PTX_B16] = {eq_u16, ne_u16},    [PTX_B32] = {eq_u32, ne_u32},    [PTX_B64] = {eq_u64, ne_u64},
    [PTX_U16] = {SIX(u16)},          [PTX_U32] = {SIX(u32)},          [PTX_U64] = {SIX(u64)},
    [PTX_S16] = {SIX(s16)},          [PTX_S32] = {SIX(s32)},          [PTX_S64] = {SIX(s64)},
    [PTX_F32] = {SIX(f32), num_f32}, [PTX_F64] = {SIX(f64), num_f64},
};

/* Suffix, the relation that decides, whether it is its opposite, and for what: integers, unsigned ones, numbers. */
enum { INTEGERS = 1, UNSIGNED = 2, NUMBERS = 4 };
static const struct {
    const char *name;
    uint8_t relation, opposite, types;
} relations[] = {
    {"eq", EQ, 0, INTEGERS | NUMBERS}, {"ne", NE, 0, INTEGERS | NUMBERS}, {"lt", LT, 0, INTEGERS | NUMBERS},
    {"le", LE, 0, INTEGERS | NUMBERS}, {"gt", GT, 0, INTEGERS | NUMBERS}, {"ge", GE, 0, INTEGERS | NUMBERS},
    {"lo", LT, 0, UNSIGNED},           {"ls", LE, 0, UNSIGNED},           {"hi", GT, 0, UNSIGNED},
    {"hs", GE, 0, UNSIGNED},           {"equ", NE, 1, NUMBERS},           {"neu", EQ, 1, NUMBERS},
    {"ltu", GE, 1, NUMBERS},           {"leu", GT, 1, NUMBERS},           {"gtu", LE, 1, NUMBERS},
    {"geu", LT, 1, NUMBERS},           {"num", NUM, 0, NUMBERS},          {"nan", NUM, 1, NUMBERS},
};

typedef enum joining { JOIN_AND, JOIN_OR, JOIN_XOR, JOIN_NOTHING } joining;
typedef struct comparison {
    compare run;
    ptx_type half; /* F16, BF16: the elements of a and b, else PTX_NO_TYPE */
    bool two;      /* of them in a lane */
    bool opposite, ftz, negated;
    joining join;
    uint32_t c, second; /* slots: joined predicate; destination behind "|" */
    bool has_second;
    uint32_t one; /* set: what true is */
} comparison;

static void elements(float *to, const sim_warp *w, uint32_t slot, const comparison *how, uint32_t part)
{
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        uint32_t bits = SIM_SLOT(uint32_t, slot)[l];
        float value = how->half == PTX_F16    ? sim_decode_f16(bits >> (16 * part))
                      : how->half == PTX_BF16 ? sim_decode_bf16(bits >> (16 * part))
                                              : sim_float(bits);
        float normal = how->half == PTX_F16 ? 0x1p-14f : 0x1p-126f;
        to[l] = how->ftz && fabsf(value) < normal ? copysignf(0, value) : value;
    }
}

static uint32_t compared(const sim_warp *w, const ptx_insn *i, const comparison *how, uint32_t part)
{
    uint32_t bits;
    if (how->ftz || how->half != PTX_NO_TYPE) {
        float a[PTX_LANES], b[PTX_LANES];
        elements(a, w, i->a, how, part);
        elements(b, w, i->b, how, part);
        bits = how->run(a, b);
    } else {
        bits = how->run(w->file + i->a, w->file + i->b);
    }
    return how->opposite ? ~bits : bits;
}

static uint32_t joined(const sim_warp *w, const comparison *how, uint32_t bits)
{
    uint32_t c = how->join == JOIN_NOTHING ? 0 : *sim_pred(w, how->c) ^ (how->negated ? UINT32_MAX : 0);
    switch (how->join) {
    case JOIN_AND:
        return bits & c;
    case JOIN_OR:
        return bits | c;
    case JOIN_XOR:
        return bits ^ c;
    case JOIN_NOTHING:
        break;
    }
    return bits;
}

SIM_HANDLER(setp)
{
    const comparison *how = i->data;
    uint32_t bits = compared(w, i, how, 0);
    uint32_t second = how->has_second ? joined(w, how, how->two ? compared(w, i, how, 1) : ~bits) : 0;
    sim_store_predicate(w, i->d, joined(w, how, bits), mask);
    if (how->has_second) {
        sim_store_predicate(w, how->second, second, mask);
    }
    return SIM_NEXT;
}

SIM_HANDLER(set)
{
    const comparison *how = i->data;
    uint32_t low = joined(w, how, compared(w, i, how, 0));
    uint32_t high = how->two ? joined(w, how, compared(w, i, how, 1)) : 0;
    SIM_FOR_LANES(l, mask)
    {
        sim_u32(w, i->d)[l] = (low >> l & 1 ? how->one : 0) | (high >> l & 1 ? how->one << 16 : 0);
    }
    return SIM_NEXT;
}

static int bind_relation(ptx_bind *b)
{
    for (size_t r = 0; r < sizeof relations / sizeof relations[0]; r++) {
        if (bind_take(b, relations[r].name)) {
            return (int)r;
        }
    }
    bind_fail(b, "needs a relation");
    return -1;
}

static bool fits(int relation, ptx_type type)
{
    uint8_t types = relations[relation].types;
    bool is_unsigned = type == PTX_U16 || type == PTX_U32 || type == PTX_U64;
    return ptx_type_is_float(type) ? types & NUMBERS : types & INTEGERS || (types & UNSIGNED && is_unsigned);
}

/* Relation, joining, .ftz; NULL after a failure. */
static comparison *bind_comparison(ptx_bind *b, int *relation)
{
    static const char *const joinings[] = {"and", "or", "xor", NULL};
    comparison *how = bind_alloc(b, sizeof *how);
    *relation = bind_relation(b);
    if (*relation < 0) {
        return NULL;
    }
    int join = bind_choice(b, joinings);
    how->join = join < 0 ? JOIN_NOTHING : (joining)join;
    how->opposite = relations[*relation].opposite;
    how->ftz = bind_take(b, "ftz");
    b->insn->data = how;
    return how;
}

static bool bind_compared_type(ptx_bind *b, comparison *how, int relation)
{
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    how->two = type == PTX_F16X2 || type == PTX_BF16X2;
    how->half = type == PTX_F16 || type == PTX_F16X2 ? PTX_F16 : type == PTX_BF16 || how->two ? PTX_BF16 : PTX_NO_TYPE;
    how->run = by_type[how->half == PTX_NO_TYPE ? type : PTX_F32][relations[relation].relation];
    bool flushable = type == PTX_F32 || how->half == PTX_F16;
    if (!how->run || !fits(relation, type) || (how->ftz && !flushable)) {
        return bind_fail(b, "the relation or .ftz does not go with .%s", ptx_type_name(type));
    }
    return bind_end(b) && bind_operands(b, how->join == JOIN_NOTHING ? 3 : 4);
}

static void bind_compared(ptx_bind *b, comparison *how)
{
    ptx_insn *i = b->insn;
    i->a = bind_source(b, 1, (ptx_type)i->type);
    i->b = bind_source(b, 2, (ptx_type)i->type);
    if (how->join != JOIN_NOTHING) {
        how->c = bind_predicate(b, &i->operand[3], &how->negated);
    }
}

static bool bind_setp(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    int relation;
    comparison *how = bind_comparison(b, &relation);
    if (!how || !bind_compared_type(b, how, relation)) {
        return false;
    }
    bind_compared(b, how);
    how->has_second = i->operand[0].kind == PTX_PAIR;
    if (how->has_second && how->half != PTX_NO_TYPE && !how->two) {
        return bind_fail(b, "has one result for .%s", ptx_type_name((ptx_type)i->type));
    }
    if (how->has_second) {
        i->d = bind_dest_or_sink(b, &i->operand[0].element[0], PTX_PRED);
        how->second = bind_dest_or_sink(b, &i->operand[0].element[1], PTX_PRED);
    } else if (how->two) {
        return bind_fail(b, "needs two predicates");
    } else {
        i->d = bind_dest(b, 0, PTX_PRED);
    }
    i->run = setp;
    return bind_ok(b);
}

static bool bind_set(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    int relation;
    comparison *how = bind_comparison(b, &relation);
    ptx_type result = how ? bind_type(b) : PTX_NO_TYPE;
    if (!how || !bind_compared_type(b, how, relation)) {
        return false;
    }
    bool packed = result == PTX_F16X2 || result == PTX_BF16X2;
    switch (result) {
    case PTX_U32:
    case PTX_S32:
        how->one = how->two ? UINT16_MAX : UINT32_MAX; /* of a half */
        packed = how->two;
        break;
    case PTX_U16:
    case PTX_S16:
        how->one = 0xffff;
        break;
    case PTX_F32:
        how->one = 0x3f800000;
        break;
    case PTX_F16:
    case PTX_F16X2:
        how->one = 0x3c00;
        break;
    case PTX_BF16:
    case PTX_BF16X2:
        how->one = 0x3f80;
        break;
    default:
        return bind_fail(b, "cannot give .%s", ptx_type_name(result));
    }
    if (packed != how->two || (ptx_type_size(result) == 2 && how->half == PTX_NO_TYPE)) {
        return bind_fail(b, "cannot give .%s here", ptx_type_name(result));
    }
    bind_compared(b, how);
    i->d = bind_dest(b, 0, result);
    i->run = set;
    return bind_ok(b);
}

/* --- selp, slct --- */

#define SELECT(name, L)                                                                                                \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const L *pa = SIM_SLOT(L, i->a), *pb = SIM_SLOT(L, i->b);                                                      \
        uint32_t which = *sim_pred(w, i->c) ^ (i->flag ? UINT32_MAX : 0);                                              \
        L r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            r[l] = which >> l & 1 ? pa[l] : pb[l];                                                                     \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }
SELECT(selp_32, uint32_t)
SELECT(selp_64, uint64_t)

static bool bind_selp(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    uint32_t size = ptx_type_size(type);
    if (!bind_end(b) || !bind_operands(b, 4)) {
        return false;
    }
    bool negated;
    i->type = (uint8_t)type;
    i->a = bind_source(b, 1, type);
    i->b = bind_source(b, 2, type);
    i->c = bind_predicate(b, &i->operand[3], &negated);
    i->flag = negated;
    i->d = bind_dest(b, 0, type);
    i->run = sim_is_plain(type) ? (size == 8 ? selp_64 : selp_32) : NULL;
    return bind_ok(b);
}

/* The first where c is not negative (-0 is not); the second for NaN. insn->flag: .ftz, subnormal numbers are zeros. */
#define NOT_NEGATIVE (i->flag ? c > -0x1p-126f : c >= 0)
SIM_LANES_3(slct_32_s32, uint32_t, uint32_t, uint32_t, int32_t, c >= 0 ? a : b)
SIM_LANES_3(slct_64_s32, uint64_t, uint64_t, uint64_t, int32_t, c >= 0 ? a : b)
SIM_LANES_3(slct_32_f32, uint32_t, uint32_t, uint32_t, float, NOT_NEGATIVE ? a : b)
SIM_LANES_3(slct_64_f32, uint64_t, uint64_t, uint64_t, float, NOT_NEGATIVE ? a : b)

static bool bind_slct(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    i->flag = bind_take(b, "ftz");
    ptx_type type = bind_type(b), by = bind_type(b);
    if ((by != PTX_S32 && by != PTX_F32) || (i->flag && by != PTX_F32) || !bind_end(b) || !bind_operands(b, 4)) {
        return bind_fail(b, "selects by .s32 or .f32");
    }
    if (ptx_type_is_float(type) && type != PTX_F32 && type != PTX_F64) {
        return bind_fail(b, "has no form for .%s", ptx_type_name(type));
    }
    i->a = bind_source(b, 1, type);
    i->b = bind_source(b, 2, type);
    i->c = bind_source(b, 3, by);
    i->d = bind_dest(b, 0, type);
    bool wide = ptx_type_size(type) == 8, single = by == PTX_F32;
    i->run = wide ? (single ? slct_64_f32 : slct_64_s32) : single ? slct_32_f32 : slct_32_s32;
    return bind_ok(b);
}

const ptx_op ptx_ops_compare[] = {
    {"setp", bind_setp}, {"set", bind_set}, {"selp", bind_selp}, {"slct", bind_slct}, {NULL, NULL},
};
