/* op_convert.c - cvt and cvt.pack (PTX ISA "Data Movement and Conversion Instructions: cvt").
 *
 * In three steps: 32 values of the source type as 64-bit integers or as doubles, which hold every one of them exactly;
 * the modifiers; the values in the destination type. */
#include "lanes.h"
#include "numeric.h"
#include "op_memory.h"

/* How the instruction rounds: to an integer, or to a format. */
static const char *const integer_roundings[] = {"rni", "rzi", "rmi", "rpi", NULL};
static const char *const format_roundings[] = {"rn", "rz", "rm", "rp", "rna", NULL};
enum { FTZ = 1, SAT = 2, RELU = 4, SATFINITE = 8, TO_INTEGRAL = 16 }; /* insn->flag; insn->extra: sim_round */
/* insn->type and source_type: of an element; width: bytes of the destination register; count: elements; space: bytes of
 * the source register */

/* --- sources --- */

static void load_integers(int64_t *v, const sim_warp *w, uint32_t slot, ptx_type type, bool wide)
{
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        v[l] = wide ? (int64_t)SIM_SLOT(uint64_t, slot)[l] : (int64_t)SIM_SLOT(uint32_t, slot)[l];
    }
    uint32_t unused = 64 - 8 * ptx_type_size(type);
    if (ptx_type_is_signed(type)) {
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            v[l] = (int64_t)((uint64_t)v[l] << unused) >> unused;
        }
    } else {
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            v[l] = (int64_t)((uint64_t)v[l] << unused >> unused);
        }
    }
}

static double decode(uint32_t bits, ptx_type type)
{
    switch (type) {
    case PTX_F16:
        return sim_decode_f16(bits);
    case PTX_BF16:
        return sim_decode_bf16(bits);
    case PTX_E4M3:
        return sim_decode_e4m3(bits);
    case PTX_E5M2:
        return sim_decode_e5m2(bits);
    default:
        return sim_float(bits);
    }
}

static double flushed(double v)
{
    return fabs(v) < 0x1p-126 ? copysign(0, v) : v;
}

/* --- floating point to floating point --- */

/* PTX ISA "cvt": .rni rounds ties to even. */
static double integral(double v, sim_round round)
{
    switch (round) {
    case SIM_RZ:
        return trunc(v);
    case SIM_RM:
        return floor(v);
    case SIM_RP:
        return ceil(v);
    default: {
        double below = floor(v), rest = v - below;
        bool up = rest > 0.5 || (rest == 0.5 && fmod(below, 2) != 0);
        return copysign(up ? below + 1 : below, v);
    }
    }
}

static double modified(const ptx_insn *i, double v)
{
    if ((i->flag & FTZ) && i->source_type == PTX_F32) {
        v = flushed(v);
    }
    if (i->flag & TO_INTEGRAL) {
        v = integral(v, (sim_round)i->extra);
    }
    if (i->flag & SAT) {
        v = v > 0 ? (v < 1 ? v : 1) : 0;
    }
    return (i->flag & RELU) && v <= 0 ? 0 : v;
}

static uint32_t encode(const ptx_insn *i, double v)
{
    sim_round round = i->flag & TO_INTEGRAL ? SIM_RN : (sim_round)i->extra;
    uint32_t bits = i->type == PTX_F32 && round == SIM_RN
                        ? sim_bits32(sim_canonical((float)v))
                        : sim_encode(v, (ptx_type)i->type, round, i->flag & SATFINITE);
    bool flush = (i->flag & FTZ) && i->type == PTX_F32 && !(bits & 0x7f800000);
    return flush ? bits & 0x80000000 : bits;
}

SIM_HANDLER(float_to_float)
{
    SIM_FOR_LANES(l, mask)
    {
        double v =
            modified(i, i->space == 8 ? sim_f64(w, i->a)[l] : decode(sim_u32(w, i->a)[l], (ptx_type)i->source_type));
        if (i->width == 8) {
            sim_f64(w, i->d)[l] = v;
        } else {
            sim_u32(w, i->d)[l] = encode(i, v);
        }
    }
    return SIM_NEXT;
}

/* Two elements: cvt d, a, b puts a above b; cvt d, a takes both from a (kind 1). */
SIM_HANDLER(floats_to_pair)
{
    uint32_t from = 8 * ptx_type_size((ptx_type)i->source_type), to = 8 * ptx_type_size((ptx_type)i->type);
    SIM_FOR_LANES(l, mask)
    {
        uint32_t a = sim_u32(w, i->a)[l], b = i->kind ? a : sim_u32(w, i->b)[l];
        a = i->kind ? a >> from : a;
        uint32_t high = encode(i, modified(i, decode(a, (ptx_type)i->source_type)));
        uint32_t low = encode(i, modified(i, decode(b, (ptx_type)i->source_type)));
        sim_u32(w, i->d)[l] = high << to | low;
    }
    return SIM_NEXT;
}

/* Frequent forms. */
SIM_LANES_1(f32_from_bf16, uint32_t, uint32_t, a << 16)
SIM_LANES_1(f32_from_f16, float, uint32_t, sim_canonical(sim_decode_f16(a)))
SIM_LANES_1(bf16_from_f32, uint32_t, uint32_t, sim_nearest_bf16(a))
SIM_LANES_1(f16_from_f32, uint32_t, uint32_t, sim_nearest_f16(a))
SIM_LANES_2(bf16x2_from_f32, uint32_t, uint32_t, uint32_t, sim_nearest_bf16(a) << 16 | sim_nearest_bf16(b))
SIM_LANES_2(f16x2_from_f32, uint32_t, uint32_t, uint32_t, sim_nearest_f16(a) << 16 | sim_nearest_f16(b))

/* --- to and from integers --- */

static int64_t least(ptx_type type)
{
    return ptx_type_is_signed(type) ? INT64_MIN >> (64 - 8 * ptx_type_size(type)) : 0;
}

/* As bits: UINT64_MAX for U64. */
static uint64_t greatest(ptx_type type)
{
    return UINT64_MAX >> (64 - 8 * ptx_type_size(type) + (ptx_type_is_signed(type) ? 1 : 0));
}

static void store_integers(sim_warp *w, const ptx_insn *i, uint32_t mask, int64_t *v)
{
    uint32_t unused = 64 - 8 * ptx_type_size((ptx_type)i->type);
    bool is_signed = ptx_type_is_signed((ptx_type)i->type);
    uint32_t narrow[PTX_LANES];
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        uint64_t top = (uint64_t)v[l] << unused;
        v[l] = is_signed ? (int64_t)top >> unused : (int64_t)(top >> unused);
        narrow[l] = i->width == 2 ? (uint16_t)v[l] : (uint32_t)v[l];
    }
    if (i->width == 8) {
        sim_store(w->file + i->d, v, sizeof v[0], mask);
    } else {
        sim_store(w->file + i->d, narrow, sizeof narrow[0], mask);
    }
}

static int64_t clamped(int64_t v, bool is_signed, ptx_type type)
{
    if (is_signed && v < 0) {
        return v < least(type) ? least(type) : v;
    }
    return (uint64_t)v > greatest(type) ? (int64_t)greatest(type) : v;
}

SIM_HANDLER(integer_to_integer)
{
    int64_t v[PTX_LANES];
    load_integers(v, w, i->a, (ptx_type)i->source_type, i->space == 8);
    for (uint32_t l = 0; (i->flag & SAT) && l < PTX_LANES; l++) {
        v[l] = clamped(v[l], ptx_type_is_signed((ptx_type)i->source_type), (ptx_type)i->type);
    }
    store_integers(w, i, mask, v);
    return SIM_NEXT;
}
SIM_LANES_1(u64_from_u32, uint64_t, uint32_t, a)
SIM_LANES_1(s64_from_s32, int64_t, int32_t, a)
SIM_LANES_1(u32_from_u64, uint32_t, uint64_t, a)

/* PTX ISA "cvt": out of range is the nearest limit; NaN is 0, but 2^(n-1) where either type has 64 bits. */
static int64_t to_integer(const ptx_insn *i, double v)
{
    ptx_type type = (ptx_type)i->type;
    uint32_t size = ptx_type_size(type);
    if (v != v) {
        return size == 8 || i->source_type == PTX_F64 ? (int64_t)(UINT64_C(1) << (8 * size - 1)) : 0;
    }
    if (v < (double)least(type)) {
        return least(type);
    }
    double beyond = ldexp(1, (int)(8 * size) - (ptx_type_is_signed(type) ? 1 : 0));
    if (v >= beyond) {
        return (int64_t)greatest(type);
    }
    return v >= 0x1p63 ? (int64_t)(uint64_t)v : (int64_t)v;
}

SIM_HANDLER(float_to_integer)
{
    int64_t v[PTX_LANES] = {0};
    SIM_FOR_LANES(l, mask)
    {
        double x = i->space == 8 ? sim_f64(w, i->a)[l] : decode(sim_u32(w, i->a)[l], (ptx_type)i->source_type);
        x = (i->flag & FTZ) && i->source_type == PTX_F32 ? flushed(x) : x;
        v[l] = to_integer(i, integral(x, (sim_round)i->extra));
    }
    store_integers(w, i, mask, v);
    return SIM_NEXT;
}

/* A 64-bit integer as a double, rounded: the nearest one, or its neighbour on the other side of the exact value. */
static double rounded_integer(bool negative, uint64_t magnitude, sim_round round)
{
    double nearest = (double)magnitude;
    bool above = nearest >= 0x1p64 || (uint64_t)nearest > magnitude;
    bool below = !above && (uint64_t)nearest < magnitude;
    bool away = round == (negative ? SIM_RM : SIM_RP);
    if (round != SIM_RN && above && !away) {
        nearest = nextafter(nearest, 0);
    } else if (round != SIM_RN && below && away) {
        nearest = nextafter(nearest, INFINITY);
    }
    return negative ? -nearest : nearest;
}

SIM_HANDLER(integer_to_float)
{
    int64_t v[PTX_LANES];
    load_integers(v, w, i->a, (ptx_type)i->source_type, i->space == 8);
    SIM_FOR_LANES(l, mask)
    {
        bool negative = ptx_type_is_signed((ptx_type)i->source_type) && v[l] < 0;
        uint64_t magnitude = negative ? 0 - (uint64_t)v[l] : (uint64_t)v[l];
        if (i->width == 8) {
            double x = rounded_integer(negative, magnitude, (sim_round)i->extra);
            sim_f64(w, i->d)[l] = i->flag & SAT ? (x > 0 ? 1 : 0) : x;
        } else {
            sim_u32(w, i->d)[l] = encode(i, modified(i, sim_odd_integer(negative, magnitude)));
        }
    }
    return SIM_NEXT;
}

/* --- binding --- */

static ptx_type element_type(ptx_type type)
{
    switch (type) {
    case PTX_F16X2:
        return PTX_F16;
    case PTX_BF16X2:
        return PTX_BF16;
    case PTX_E4M3X2:
        return PTX_E4M3;
    case PTX_E5M2X2:
        return PTX_E5M2;
    default:
        return type;
    }
}

/* Bits of the fraction: what tells a conversion that loses from one that does not. */
static int precision(ptx_type type)
{
    switch (type) {
    case PTX_F64:
        return 52;
    case PTX_F32:
        return 23;
    case PTX_F16:
    case PTX_TF32:
        return 10;
    case PTX_BF16:
        return 7;
    case PTX_E4M3:
        return 3;
    default:
        return 2;
    }
}

static sim_handler frequent(const ptx_insn *i)
{
    bool plain = i->flag == 0 && i->extra == SIM_RN;
    if (!plain) {
        return NULL;
    }
    if (i->type == PTX_F32 && i->source_type == PTX_BF16) {
        return f32_from_bf16;
    }
    if (i->type == PTX_F32 && i->source_type == PTX_F16) {
        return f32_from_f16;
    }
    if (i->type == PTX_BF16 && i->source_type == PTX_F32) {
        return bf16_from_f32;
    }
    if (i->type == PTX_F16 && i->source_type == PTX_F32) {
        return f16_from_f32;
    }
    if (i->type == PTX_U64 && i->source_type == PTX_U32 && i->space == 4) {
        return u64_from_u32;
    }
    if (i->type == PTX_S64 && i->source_type == PTX_S32 && i->space == 4) {
        return s64_from_s32;
    }
    return i->type == PTX_U32 && i->source_type == PTX_U64 && i->width == 4 ? u32_from_u64 : NULL;
}

static void bind_modifiers(ptx_bind *b, int *to_integral, int *to_format)
{
    ptx_insn *i = b->insn;
    *to_integral = bind_choice(b, integer_roundings);
    *to_format = *to_integral < 0 ? bind_choice(b, format_roundings) : -1;
    i->extra = (uint8_t)(*to_integral > 0 ? *to_integral : *to_format > 0 ? *to_format : SIM_RN);
    i->flag = *to_integral >= 0 ? TO_INTEGRAL : 0;
    i->flag |= bind_take(b, "ftz") ? FTZ : 0;
    i->flag |= bind_take(b, "sat") ? SAT : 0;
    i->flag |= bind_take(b, "satfinite") ? SATFINITE : 0;
    i->flag |= bind_take(b, "relu") ? RELU : 0;
    i->flag |= bind_take(b, "satfinite") ? SATFINITE : 0;
}

/* Both are elements' types. */
static bool check_rounding(ptx_bind *b, ptx_type to, ptx_type from, int to_integral, int to_format)
{
    bool float_to = ptx_type_is_float(to), float_from = ptx_type_is_float(from);
    bool eight = to == PTX_E4M3 || to == PTX_E5M2, from_eight = from == PTX_E4M3 || from == PTX_E5M2;
    bool loses = float_to && (!float_from || precision(to) < precision(from) || from_eight ||
                              (from == PTX_F16 && to == PTX_BF16) || (from == PTX_BF16 && to == PTX_F16));
    if (float_from && !float_to && to_integral < 0) {
        return bind_fail(b, "needs a rounding to an integer");
    }
    if (loses && to_format < 0) {
        return bind_fail(b, "needs a rounding modifier");
    }
    if (!loses && to_format >= 0) {
        return bind_fail(b, "takes no rounding modifier");
    }
    if (to_integral >= 0 && (!float_from || (float_to && to != from))) {
        return bind_fail(b, "cannot round to an integer here");
    }
    if (eight && (!(b->insn->flag & SATFINITE) || to_format != SIM_RN)) {
        return bind_fail(b, "needs .rn.satfinite");
    }
    if (to_format == SIM_RNA && to != PTX_TF32) {
        return bind_fail(b, ".rna is for .tf32");
    }
    return true;
}

/* .ftz, .sat, .satfinite and .relu: what the grammar of each pair of types has. `pair`: two elements. */
static bool check_flags(ptx_bind *b, ptx_type to, ptx_type from, bool pair, int to_format)
{
    uint8_t flag = b->insn->flag;
    bool bf16 = to == PTX_BF16 || from == PTX_BF16, tf32 = to == PTX_TF32;
    bool eight = to == PTX_E4M3 || to == PTX_E5M2;
    if (flag & FTZ && (pair || tf32 || (to != PTX_F32 && from != PTX_F32))) {
        return bind_fail(b, ".ftz does not go with these types");
    }
    if (flag & SAT && (bf16 || tf32 || eight)) {
        return bind_fail(b, ".sat does not go with these types");
    }
    if (flag & (RELU | SATFINITE)) {
        bool narrows = from == PTX_F32 || pair;
        if (to_format < 0 || !narrows || to == PTX_F32 || to_format == SIM_RM || to_format == SIM_RP) {
            return bind_fail(b, ".relu and .satfinite do not go with these types and this rounding");
        }
        if (tf32 && flag & SATFINITE && to_format != SIM_RNA && !bind_needs_target(b, SM_100, ".satfinite here")) {
            return false;
        }
    }
    if (tf32 && from != PTX_F32) {
        return bind_fail(b, "only .f32 becomes .tf32");
    }
    if (pair && from == PTX_F32 && to_format != SIM_RN && to_format != SIM_RZ) {
        return bind_fail(b, "needs .rn or .rz");
    }
    if (from == PTX_BF16 && ptx_type_size(to) == 1 && !eight) {
        return bind_fail(b, "cannot convert .bf16 to 8 bits");
    }
    return true;
}

/* Two elements from two registers, or from one. */
static bool bind_pair(ptx_bind *b, ptx_type to, ptx_type from)
{
    ptx_insn *i = b->insn;
    bool both = from != PTX_F32; /* in one register */
    if (!bind_operands(b, both ? 2 : 3)) {
        return false;
    }
    ptx_type source = from == PTX_E4M3X2 || from == PTX_E5M2X2 ? PTX_B16 : both ? PTX_B32 : PTX_F32;
    i->kind = both;
    i->a = bind_source(b, 1, source);
    i->b = both ? 0 : bind_source(b, 2, source);
    i->d = bind_dest(b, 0, to == PTX_E4M3X2 || to == PTX_E5M2X2 ? PTX_B16 : PTX_B32);
    bool plain = i->flag == 0 && i->extra == SIM_RN && from == PTX_F32;
    bool known = from == PTX_F32 || (to == PTX_F16X2 ? source == PTX_B16 : from == PTX_F16X2);
    i->run = plain && to == PTX_BF16X2  ? bf16x2_from_f32
             : plain && to == PTX_F16X2 ? f16x2_from_f32
             : known                    ? floats_to_pair
                                        : NULL;
    return bind_ok(b);
}

static uint8_t register_bytes(const ptx_operand *operand, ptx_type type)
{
    uint32_t size = operand->kind == PTX_REGISTER ? ptx_type_size(operand->type) : ptx_type_size(type);
    return (uint8_t)(size < 2 ? 2 : size);
}

static bool bind_cvt_pack(ptx_bind *b);

static bool bind_cvt(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (bind_take(b, "pack")) {
        return bind_cvt_pack(b);
    }
    int to_integral, to_format;
    bind_modifiers(b, &to_integral, &to_format);
    ptx_type to = bind_type(b), from = bind_type(b);
    i->type = (uint8_t)element_type(to);
    i->source_type = (uint8_t)element_type(from);
    if (!bind_end(b) || !check_rounding(b, (ptx_type)i->type, (ptx_type)i->source_type, to_integral, to_format)) {
        return false;
    }
    if (!check_flags(b, (ptx_type)i->type, (ptx_type)i->source_type, i->type != to, to_format)) {
        return false;
    }
    if (i->type != to) {
        return bind_pair(b, to, from);
    }
    if (i->source_type != from || !bind_operands(b, 2)) {
        return bind_fail(b, "cannot convert .%s to .%s", ptx_type_name(from), ptx_type_name(to));
    }
    bool float_to = ptx_type_is_float(to), float_from = ptx_type_is_float(from);
    i->width = register_bytes(&i->operand[0], to);
    i->space = register_bytes(&i->operand[1], from);
    i->a = bind_source_wide(b, &i->operand[1], from);
    i->d = bind_dest_wide(b, &i->operand[0], to);
    sim_handler quick = frequent(i);
    i->run = quick                    ? quick
             : float_to && float_from ? float_to_float
             : float_to               ? integer_to_float
             : float_from             ? float_to_integer
                                      : integer_to_integer;
    return bind_ok(b);
}

/* cvt.pack.sat.d.s32: a above b; of 8 bits, both below the lower half of c. */
SIM_HANDLER(convert_pack)
{
    ptx_type type = (ptx_type)i->type;
    uint32_t bits = i->width * 8u, known = (1u << bits) - 1;
    SIM_FOR_LANES(l, mask)
    {
        uint32_t a = (uint32_t)clamped(sim_s32(w, i->a)[l], true, type) & known;
        uint32_t b = (uint32_t)clamped(sim_s32(w, i->b)[l], true, type) & known;
        uint32_t above = bits == 8 ? sim_u32(w, i->c)[l] << 16 : 0;
        sim_u32(w, i->d)[l] = above | a << bits | b;
    }
    return SIM_NEXT;
}

static bool bind_cvt_pack(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sat")) {
        return bind_fail(b, "needs .sat");
    }
    ptx_type to = bind_type(b), from = bind_type(b);
    bool eight = to == PTX_U8 || to == PTX_S8;
    if ((!eight && to != PTX_U16 && to != PTX_S16) || from != PTX_S32 || (eight && !bind_take(b, "b32"))) {
        return bind_fail(b, "has no such form");
    }
    i->width = (uint8_t)ptx_type_size(to);
    i->type = PTX_B32;
    bool bound = sim_bind_same(b, eight ? 3 : 2, convert_pack);
    i->type = (uint8_t)to;
    return bound;
}

const ptx_op ptx_ops_convert[] = {{"cvt", bind_cvt}, {NULL, NULL}};
