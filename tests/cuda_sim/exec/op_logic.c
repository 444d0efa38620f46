/* op_logic.c - PTX ISA "Logic and Shift Instructions" and the integer instructions on bits (popc, bfe, prmt, ...). */
#include "lanes.h"

/* --- and, or, xor, not, cnot --- */

#define LOGIC_2(op, expression)                                                                                        \
    SIM_LANES_2(op##_32, uint32_t, uint32_t, uint32_t, expression)                                                     \
    SIM_LANES_2(op##_64, uint64_t, uint64_t, uint64_t, expression)                                                     \
    SIM_HANDLER(op##_pred)                                                                                             \
    {                                                                                                                  \
        uint32_t a = *sim_pred(w, i->a) ^ (i->flag & 1 ? UINT32_MAX : 0);                                              \
        uint32_t b = *sim_pred(w, i->b) ^ (i->flag & 2 ? UINT32_MAX : 0);                                              \
        sim_store_predicate(w, i->d, expression, mask);                                                                \
        return SIM_NEXT;                                                                                               \
    }
LOGIC_2(and, a &b)
LOGIC_2(or, a | b)
LOGIC_2(xor, a ^ b)
SIM_LANES_1(not_16, uint32_t, uint32_t, ~a & 0xffff)
SIM_LANES_1(not_32, uint32_t, uint32_t, ~a)
SIM_LANES_1(not_64, uint64_t, uint64_t, ~a)
SIM_LANES_1(cnot_32, uint32_t, uint32_t, a == 0)
SIM_LANES_1(cnot_64, uint64_t, uint64_t, a == 0)

SIM_HANDLER(not_pred)
{
    sim_store_predicate(w, i->d, i->flag & 1 ? *sim_pred(w, i->a) : ~*sim_pred(w, i->a), mask);
    return SIM_NEXT;
}

/* Sources that are predicates may be negated: insn->flag, a bit each. */
static bool bind_predicates(ptx_bind *b, uint32_t sources, sim_handler run)
{
    ptx_insn *i = b->insn;
    if (!bind_end(b) || !bind_operands(b, sources + 1)) {
        return false;
    }
    uint32_t *slots[] = {&i->a, &i->b};
    for (uint32_t s = 0; s < sources; s++) {
        bool negated = false;
        *slots[s] = bind_predicate(b, &i->operand[s + 1], &negated);
        i->flag |= (uint8_t)(negated << s);
    }
    i->d = bind_dest(b, 0, PTX_PRED);
    i->run = run;
    return bind_ok(b);
}

static bool bind_logic(ptx_bind *b, uint32_t sources, sim_handler predicate, sim_handler run16, sim_handler run32,
                       sim_handler run64)
{
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    switch (type) {
    case PTX_PRED:
        return predicate ? bind_predicates(b, sources, predicate) : bind_fail(b, "has no form for .pred");
    case PTX_B16:
        return sim_bind_same(b, sources, run16);
    case PTX_B32:
        return sim_bind_same(b, sources, run32);
    case PTX_B64:
        return sim_bind_same(b, sources, run64);
    default:
        return bind_fail(b, "has no form for .%s", ptx_type_name(type));
    }
}

static bool bind_and(ptx_bind *b)
{
    return bind_logic(b, 2, and_pred, and_32, and_32, and_64);
}
static bool bind_or(ptx_bind *b)
{
    return bind_logic(b, 2, or_pred, or_32, or_32, or_64);
}
static bool bind_xor(ptx_bind *b)
{
    return bind_logic(b, 2, xor_pred, xor_32, xor_32, xor_64);
}
static bool bind_not(ptx_bind *b)
{
    return bind_logic(b, 1, not_pred, not_16, not_32, not_64);
}
static bool bind_cnot(ptx_bind *b)
{
    return bind_logic(b, 1, NULL, cnot_32, cnot_32, cnot_64);
}

/* Bit n of the table is the result where a, b, c are bits 2, 1, 0 of n. */
static inline uint32_t look_up(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (uint32_t n = 0; n < 8; n++) {
        r |= table >> n & 1 ? (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c) : 0;
    }
    return r;
}
SIM_LANES_3(lop3, uint32_t, uint32_t, uint32_t, uint32_t, look_up(a, b, c, i->value))

static bool bind_lop3(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    int64_t table;
    if (!bind_take(b, "b32") || !bind_end(b) || !bind_operands(b, 5) || !bind_constant(b, &i->operand[4], &table)) {
        return bind_fail(b, "needs .b32 and an immediate table");
    }
    if (table < 0 || table > 255) {
        return bind_fail(b, "table %lld is not a byte", (long long)table);
    }
    i->value = (uint32_t)table;
    i->a = bind_source(b, 1, PTX_B32);
    i->b = bind_source(b, 2, PTX_B32);
    i->c = bind_source(b, 3, PTX_B32);
    i->d = bind_dest(b, 0, PTX_B32);
    i->run = lop3;
    return bind_ok(b);
}

/* --- shifts: amounts beyond the width give 0 or copies of the sign --- */

SIM_LANES_2(shl_16, uint32_t, uint32_t, uint32_t, b < 16 ? a << (b & 15) & 0xffff : 0)
SIM_LANES_2(shl_32, uint32_t, uint32_t, uint32_t, b < 32 ? a << (b & 31) : 0)
SIM_LANES_2(shl_64, uint64_t, uint64_t, uint32_t, b < 64 ? a << (b & 63) : 0)
SIM_LANES_2(shr_u32, uint32_t, uint32_t, uint32_t, b < 32 ? a >> (b & 31) : 0)
SIM_LANES_2(shr_u64, uint64_t, uint64_t, uint32_t, b < 64 ? a >> (b & 63) : 0)
SIM_LANES_2(shr_s16, uint32_t, uint32_t, uint32_t, (uint16_t)((int16_t)a >> (b < 16 ? b : 15)))
SIM_LANES_2(shr_s32, int32_t, int32_t, uint32_t, a >> (b < 32 ? b : 31))
SIM_LANES_2(shr_s64, int64_t, int64_t, uint32_t, a >> (b < 64 ? b : 63))

static const sim_handler lefts[PTX_TYPE_COUNT] = {[PTX_B16] = shl_16, [PTX_B32] = shl_32, [PTX_B64] = shl_64};
static const sim_handler rights[PTX_TYPE_COUNT] = {
    [PTX_B16] = shr_u32, [PTX_B32] = shr_u32, [PTX_B64] = shr_u64, [PTX_U16] = shr_u32, [PTX_U32] = shr_u32,
    [PTX_U64] = shr_u64, [PTX_S16] = shr_s16, [PTX_S32] = shr_s32, [PTX_S64] = shr_s64,
};

static bool bind_shift(ptx_bind *b, const sim_handler *by_type)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    if (!bind_end(b) || !bind_operands(b, 3)) {
        return false;
    }
    i->a = bind_source(b, 1, type);
    i->b = bind_source(b, 2, PTX_U32);
    i->d = bind_dest(b, 0, type);
    i->run = by_type[type];
    return bind_ok(b);
}
static bool bind_shl(ptx_bind *b)
{
    return bind_shift(b, lefts);
}
static bool bind_shr(ptx_bind *b)
{
    return bind_shift(b, rights);
}

/* shf d, a, b, c: of the 64 bits b:a the upper half shifted left, or the lower half shifted right. */
static inline uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t n)
{
    return n >= 32 ? a : (uint32_t)(((uint64_t)b << 32 | a) << n >> 32);
}
static inline uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t n)
{
    return n >= 32 ? b : (uint32_t)(((uint64_t)b << 32 | a) >> n);
}
SIM_LANES_3(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(a, b, c))
SIM_LANES_3(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(a, b, c))
SIM_LANES_3(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_left(a, b, c & 31))
SIM_LANES_3(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, funnel_right(a, b, c & 31))

static bool bind_shf(ptx_bind *b)
{
    static const char *const directions[] = {"l", "r", NULL}, *const modes[] = {"clamp", "wrap", NULL};
    static const sim_handler handlers[2][2] = {{shf_l_clamp, shf_l_wrap}, {shf_r_clamp, shf_r_wrap}};
    int direction = bind_choice(b, directions), mode = bind_choice(b, modes);
    if (direction < 0 || mode < 0 || !bind_take(b, "b32")) {
        return bind_fail(b, "needs .l or .r, .clamp or .wrap, and .b32");
    }
    b->insn->type = PTX_B32;
    return sim_bind_same(b, 3, handlers[direction][mode]);
}

/* --- fields of bits --- */

/* Position and length are bytes of 32-bit sources (PTX ISA "bfe", "bfi"). */
static inline uint64_t field_mask(uint32_t length)
{
    return length >= 64 ? UINT64_MAX : (UINT64_C(1) << length) - 1;
}

static uint64_t extracted(uint64_t a, uint32_t position, uint32_t length, uint32_t width, bool is_signed)
{
    position &= 255;
    length &= 255;
    uint32_t last = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    bool sign = is_signed && length && a >> last & 1;
    uint64_t field = position < width ? a >> position : 0;
    uint64_t known = position < width ? field_mask(last - position + 1) : 0;
    known = length ? known : 0;
    return (field & known) | (sign ? ~known : 0);
}
SIM_LANES_3(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extracted(a, b, c, 32, false))
SIM_LANES_3(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extracted(a, b, c, 32, true))
SIM_LANES_3(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extracted(a, b, c, 64, false))
SIM_LANES_3(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extracted(a, b, c, 64, true))

/* Position and length, where they are known. */
static bool fields_fit(ptx_bind *b, uint32_t first)
{
    for (uint32_t k = first; k < first + 2; k++) {
        const ptx_operand *operand = &b->insn->operand[k];
        if (operand->kind == PTX_IMMEDIATE && operand->bits > 255) {
            return bind_fail(b, "operand %u is not 0 to 255", k + 1);
        }
    }
    return true;
}

static bool bind_bfe(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    if (!bind_end(b) || !bind_operands(b, 4) || !fields_fit(b, 2)) {
        return false;
    }
    i->a = bind_source(b, 1, type);
    i->b = bind_source(b, 2, PTX_U32);
    i->c = bind_source(b, 3, PTX_U32);
    i->d = bind_dest(b, 0, type);
    i->run = type == PTX_U32   ? bfe_u32
             : type == PTX_S32 ? bfe_s32
             : type == PTX_U64 ? bfe_u64
             : type == PTX_S64 ? bfe_s64
                               : NULL;
    return bind_ok(b);
}

/* bfi f, a, b, c, d: the field of `d` bits at `c` in b comes from a. insn->value: slot of d. */
SIM_HANDLER(bfi)
{
    bool wide = i->width == 8;
    SIM_FOR_LANES(l, mask)
    {
        uint64_t a = wide ? sim_u64(w, i->a)[l] : sim_u32(w, i->a)[l];
        uint64_t b = wide ? sim_u64(w, i->b)[l] : sim_u32(w, i->b)[l];
        uint32_t position = sim_u32(w, i->c)[l] & 255, length = sim_u32(w, i->value)[l] & 255;
        uint64_t field = position < 64 ? field_mask(length) << position : 0;
        uint64_t r = (b & ~field) | (position < 64 ? a << position & field : 0);
        if (wide) {
            sim_u64(w, i->d)[l] = r;
        } else {
            sim_u32(w, i->d)[l] = (uint32_t)r;
        }
    }
    return SIM_NEXT;
}

static bool bind_bfi(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    if (!bind_end(b) || !bind_operands(b, 5) || !fields_fit(b, 3)) {
        return false;
    }
    i->width = (uint8_t)ptx_type_size(type);
    i->a = bind_source(b, 1, type);
    i->b = bind_source(b, 2, type);
    i->c = bind_source(b, 3, PTX_U32);
    i->value = bind_source(b, 4, PTX_U32);
    i->d = bind_dest(b, 0, type);
    i->run = type == PTX_B32 || type == PTX_B64 ? bfi : NULL;
    return bind_ok(b);
}

/* bmsk d, a, b: b ones from bit a on. */
static inline uint32_t ones(uint32_t position, uint32_t length)
{
    return position < 32 ? (uint32_t)(field_mask(length) << position) : 0;
}
SIM_LANES_2(bmsk_clamp, uint32_t, uint32_t, uint32_t, ones(a, b))
SIM_LANES_2(bmsk_wrap, uint32_t, uint32_t, uint32_t, ones(a & 31, b & 31))

static bool bind_bmsk(ptx_bind *b)
{
    static const char *const modes[] = {"clamp", "wrap", NULL};
    int mode = bind_choice(b, modes);
    if (mode < 0 || !bind_take(b, "b32")) {
        return bind_fail(b, "needs .clamp or .wrap, and .b32");
    }
    b->insn->type = PTX_B32;
    return sim_bind_same(b, 2, mode ? bmsk_wrap : bmsk_clamp);
}

/* --- counts: 32-bit results --- */

SIM_LANES_1(popc_32, uint32_t, uint32_t, __builtin_popcount(a))
SIM_LANES_1(popc_64, uint32_t, uint64_t, __builtin_popcountll(a))
SIM_LANES_1(clz_32, uint32_t, uint32_t, a ? __builtin_clz(a) : 32)
SIM_LANES_1(clz_64, uint32_t, uint64_t, a ? __builtin_clzll(a) : 64)

/* The highest bit that differs from the sign; all ones where there is none. insn->flag: .shiftamt, the shift that
 * brings it to the top. */
static uint32_t highest(uint64_t a, uint32_t width, bool shift)
{
    uint32_t position = a ? 63 - (uint32_t)__builtin_clzll(a) : UINT32_MAX;
    return shift && a ? width - 1 - position : position;
}
SIM_LANES_1(bfind_u32, uint32_t, uint32_t, highest(a, 32, i->flag))
SIM_LANES_1(bfind_s32, uint32_t, int32_t, highest((uint32_t)(a < 0 ? ~a : a), 32, i->flag))
SIM_LANES_1(bfind_u64, uint32_t, uint64_t, highest(a, 64, i->flag))
SIM_LANES_1(bfind_s64, uint32_t, int64_t, highest((uint64_t)(a < 0 ? ~a : a), 64, i->flag))

static bool bind_count(ptx_bind *b, const sim_handler *by_type)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    i->a = bind_source(b, 1, type);
    i->d = bind_dest(b, 0, PTX_U32);
    i->run = by_type[type];
    return bind_ok(b);
}
static bool bind_popc(ptx_bind *b)
{
    static const sim_handler by_type[PTX_TYPE_COUNT] = {[PTX_B32] = popc_32, [PTX_B64] = popc_64};
    return bind_count(b, by_type);
}
static bool bind_clz(ptx_bind *b)
{
    static const sim_handler by_type[PTX_TYPE_COUNT] = {[PTX_B32] = clz_32, [PTX_B64] = clz_64};
    return bind_count(b, by_type);
}
static bool bind_bfind(ptx_bind *b)
{
    static const sim_handler by_type[PTX_TYPE_COUNT] = {
        [PTX_U32] = bfind_u32, [PTX_S32] = bfind_s32, [PTX_U64] = bfind_u64, [PTX_S64] = bfind_s64};
    b->insn->flag = bind_take(b, "shiftamt");
    return bind_count(b, by_type);
}

static inline uint64_t reversed(uint64_t a)
{
    a = (a >> 1 & UINT64_C(0x5555555555555555)) | (a & UINT64_C(0x5555555555555555)) << 1;
    a = (a >> 2 & UINT64_C(0x3333333333333333)) | (a & UINT64_C(0x3333333333333333)) << 2;
    a = (a >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (a & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(a);
}
SIM_LANES_1(brev_32, uint32_t, uint32_t, reversed(a) >> 32)
SIM_LANES_1(brev_64, uint64_t, uint64_t, reversed(a))

static bool bind_brev(ptx_bind *b)
{
    return bind_logic(b, 1, NULL, NULL, brev_32, brev_64);
}

/* fns d, mask, base, offset: the offset-th set bit from `base` on, upwards or (offset < 0) downwards. */
static uint32_t nth_set(uint32_t bits, uint32_t base, int32_t offset)
{
    if (offset == 0) {
        return base < 32 && bits >> base & 1 ? base : UINT32_MAX;
    }
    int64_t left = offset < 0 ? -(int64_t)offset : offset, step = offset < 0 ? -1 : 1;
    for (int64_t at = base; at >= 0 && at < 32; at += step) {
        left -= bits >> at & 1;
        if (left == 0) {
            return (uint32_t)at;
        }
    }
    return UINT32_MAX;
}
SIM_LANES_3(fns, uint32_t, uint32_t, uint32_t, int32_t, nth_set(a, b, c))

static bool bind_fns(ptx_bind *b)
{
    b->insn->type = PTX_B32;
    return bind_take(b, "b32") ? sim_bind_same(b, 3, fns) : bind_fail(b, "needs .b32");
}

/* --- prmt: insn->kind is the mode --- */

enum { GENERIC, F4E, B4E, RC8, ECL, ECR, RC16 };

/* PTX ISA "prmt": which of the eight bytes b:a stands at each place, by mode and the two lowest bits of c. */
static uint32_t chosen_byte(uint32_t mode, uint32_t c, uint32_t place)
{
    uint32_t n = c & 3;
    switch (mode) {
    case F4E:
        return n + place;
    case B4E:
        return (n - place) & 7;
    case RC8:
        return n;
    case ECL:
        return place > n ? place : n;
    case ECR:
        return place < n ? place : n;
    case RC16:
        return (n & 1) * 2 + (place & 1);
    default:
        return c >> (4 * place) & 15; /* bit 3: eight copies of the byte's sign instead */
    }
}

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t c, uint32_t mode)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (uint32_t place = 0; place < 4; place++) {
        uint32_t which = chosen_byte(mode, c, place);
        uint32_t byte = bytes >> (8 * (which & 7)) & 255;
        byte = which & 8 ? (byte & 128 ? 255 : 0) : byte;
        r |= byte << (8 * place);
    }
    return r;
}
SIM_LANES_3(prmt, uint32_t, uint32_t, uint32_t, uint32_t, permuted(a, b, c, i->kind))

static bool bind_prmt(ptx_bind *b)
{
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16", NULL};
    if (!bind_take(b, "b32")) {
        return bind_fail(b, "needs .b32");
    }
    b->insn->kind = (uint8_t)(bind_choice(b, modes) + 1);
    b->insn->type = PTX_B32;
    return sim_bind_same(b, 3, prmt);
}

const ptx_op ptx_ops_logic[] = {
    {"and", bind_and},   {"or", bind_or},     {"xor", bind_xor},   {"not", bind_not}, {"cnot", bind_cnot},
    {"lop3", bind_lop3}, {"shl", bind_shl},   {"shr", bind_shr},   {"shf", bind_shf}, {"bfe", bind_bfe},
    {"bfi", bind_bfi},   {"bmsk", bind_bmsk}, {"popc", bind_popc}, {"clz", bind_clz}, {"bfind", bind_bfind},
    {"brev", bind_brev}, {"fns", bind_fns},   {"prmt", bind_prmt}, {NULL, NULL},
};
