/* Comparisons, selections and moves: PTX ISA "Comparison and Selection Instructions", "mov". */
#include "sim_test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What each comparison says of "less", "equal", "greater", "unordered". */
typedef struct comparison {
    const char *name;
    bool less, equal, greater, unordered;
} comparison;

static const comparison integer_comparisons[] = {{"eq", 0, 1, 0, 0}, {"ne", 1, 0, 1, 0}, {"lt", 1, 0, 0, 0},
                                                 {"le", 1, 1, 0, 0}, {"gt", 0, 0, 1, 0}, {"ge", 0, 1, 1, 0}};
static const comparison unsigned_comparisons[] = {
    {"lo", 1, 0, 0, 0}, {"ls", 1, 1, 0, 0}, {"hi", 0, 0, 1, 0}, {"hs", 0, 1, 1, 0}};
static const comparison float_comparisons[] = {
    {"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},  {"gt", 0, 0, 1, 0},
    {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1}, {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1},
    {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1}, {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};

/* order[i]: '<', '=', '>' or '?' of a[i] and b[i]. */
typedef struct operand_pairs {
    size_t count;
    const char *order;
    const uint64_t *a, *b;
} operand_pairs;

static void compare(const char *type, char kind, const comparison *comparisons, size_t count,
                    const operand_pairs *pairs)
{
    char text[120], kinds[4] = {'p', kind, kind};
    sim_row row[32];
    for (size_t i = 0; i < count; i++) {
        const comparison *c = &comparisons[i];
        for (size_t k = 0; k < pairs->count; k++) {
            char order = pairs->order[k];
            bool d = order == '<' ? c->less : order == '=' ? c->equal : order == '>' ? c->greater : c->unordered;
            row[k] = (sim_row){d, pairs->a[k], pairs->b[k]};
        }
        snprintf(text, sizeof text, "setp.%s.%s d, a, b;", c->name, type);
        kinds[0] = 'p';
        sim_test_rows(SIM_HERE, text, kinds, row, pairs->count);
        for (size_t k = 0; k < pairs->count; k++) {
            row[k].d = row[k].d ? 0xffffffff : 0;
        }
        if (kind != 'h') {
            snprintf(text, sizeof text, "set.%s.u32.%s d, a, b;", c->name, type);
            kinds[0] = 'r';
            sim_test_rows(SIM_HERE, text, kinds, row, pairs->count);
        }
    }
}
#define COMPARE(type, kind, comparisons, pairs)                                                                        \
    compare(type, kind, comparisons, sizeof(comparisons) / sizeof(comparisons)[0], pairs)

static void integers(void)
{
    static const uint64_t a[] = {1, 2, 3, 0xffffffffffffffff, 0, 0x8000000000000000, 0x7fffffffffffffff};
    static const uint64_t b[] = {2, 2, 2, 0, 0xffffffffffffffff, 0, 0x8000000000000000};
    static const uint64_t a32[] = {1, 2, 3, 0xffffffff, 0, 0x80000000, 0x7fffffff};
    static const uint64_t b32[] = {2, 2, 2, 0, 0xffffffff, 0, 0x80000000};
    static const uint64_t a16[] = {1, 2, 3, 0xffff, 0, 0x8000, 0x7fff};
    static const uint64_t b16[] = {2, 2, 2, 0, 0xffff, 0, 0x8000};
    const operand_pairs s64 = {7, "<=><><>", a, b}, u64 = {7, "<=>><><", a, b};
    const operand_pairs s32 = {7, "<=><><>", a32, b32}, u32 = {7, "<=>><><", a32, b32};
    const operand_pairs s16 = {7, "<=><><>", a16, b16}, u16 = {7, "<=>><><", a16, b16};
    COMPARE("s64", 'l', integer_comparisons, &s64);
    COMPARE("u64", 'l', integer_comparisons, &u64);
    COMPARE("s32", 'r', integer_comparisons, &s32);
    COMPARE("u32", 'r', integer_comparisons, &u32);
    COMPARE("s16", 'h', integer_comparisons, &s16);
    COMPARE("u16", 'h', integer_comparisons, &u16);
    COMPARE("u32", 'r', unsigned_comparisons, &u32);
    COMPARE("u64", 'l', unsigned_comparisons, &u64);
    SIM_OP("setp.eq.b32 d, a, b;", "prr", {1, 5, 5}, {0, 5, 6});
    SIM_OP("setp.ne.b64 d, a, b;", "pll", {0, 5, 5}, {1, 1ull << 32, 0});
    SIM_OP("setp.eq.b16 d, a, b;", "phh", {1, 5, 5}, {0, 5, 6});
    SIM_OP("setp.lt.s32 d, a, -1;", "pr", {1, 0xfffffffe}, {0, 0});
    SIM_REFUSED(".reg .pred p; .reg .b32 r; setp.lt.b32 p, r, r;", "setp.lt.b32");
    SIM_REFUSED(".reg .pred p; .reg .b32 r; setp.lo.s32 p, r, r;", "setp.lo.s32");
    SIM_REFUSED(".reg .pred p; .reg .b32 r; setp.ltu.s32 p, r, r;", "setp.ltu.s32");
}

static void floats(void)
{
    static const uint64_t a32[] = {0x3f800000, 0x3f800000, 0x40000000, 0x80000000, 0x7fc00000,
                                   0x3f800000, 0x7fffffff, 0xff800000, 0x7f800000, 0x00000001};
    static const uint64_t b32[] = {0x40000000, 0x3f800000, 0x3f800000, 0x00000000, 0x3f800000,
                                   0xffc00000, 0x7fffffff, 0x7f800000, 0x7f800000, 0x00000002};
    static const uint64_t a64[] = {0x3ff0000000000000, 0x4000000000000000, 0x8000000000000000, 0x7ff8000000000000};
    static const uint64_t b64[] = {0x4000000000000000, 0x3ff0000000000000, 0, 0};
    static const uint64_t a16[] = {0x3c00, 0x4000, 0x8000, 0x7e00, 0xfc00, 0x0001};
    static const uint64_t b16[] = {0x4000, 0x3c00, 0x0000, 0x3c00, 0x7c00, 0x0000};
    static const uint64_t abf[] = {0x3f80, 0x4000, 0x8000, 0x7fc0, 0xff80, 0x0001};
    static const uint64_t bbf[] = {0x4000, 0x3f80, 0x0000, 0x3f80, 0x7f80, 0x0000};
    const operand_pairs f32 = {10, "<=>=\?\?\?<=<", a32, b32}, f64 = {4, "<>=\?", a64, b64},
                        f16 = {6, "<>=\?<>", a16, b16}, bf16 = {6, "<>=\?<>", abf, bbf};
    COMPARE("f32", 'r', float_comparisons, &f32);
    COMPARE("f64", 'l', float_comparisons, &f64);
    COMPARE("f16", 'h', float_comparisons, &f16);
    sim_test_target("sm_90", "7.8");
    COMPARE("bf16", 'h', float_comparisons, &bf16);
    sim_test_target("sm_80", "7.8");
    SIM_OP("setp.eq.ftz.f32 d, a, b;", "prr", {1, 1, 0x80000002}, {0, 0x00800000, 0});
    SIM_OP("setp.lt.ftz.f32 d, a, b;", "prr", {0, 1, 2}, {1, 0x80800000, 1});
    SIM_OP("set.gt.f32.f32 d, a, b;", "rrr", {0x3f800000, 0x40000000, 0x3f800000}, {0, 0x7fc00000, 0});
    SIM_OP("set.eq.s32.f32 d, a, b;", "rrr", {0xffffffff, 0x80000000, 0}, {0, 0x7fc00000, 0});
    SIM_OP("set.eq.f32.s32 d, a, b;", "rrr", {0x3f800000, 7, 7}, {0, 7, 8});
    SIM_OP("set.lt.and.u32.s32 d, a, b, c;", "rrrp", {0xffffffff, 1, 2, 1}, {0, 1, 2, 0}, {0, 2, 1, 1});
    SIM_OP("set.lt.or.u32.s32 d, a, b, !c;", "rrrp", {0xffffffff, 1, 2, 1}, {0xffffffff, 2, 1, 0}, {0, 2, 1, 1});
}

static void combined(void)
{
    SIM_OP("setp.lt.and.s32 d, a, b, c;", "prrp", {1, 1, 2, 1}, {0, 1, 2, 0}, {0, 2, 1, 1}, {0, 2, 1, 0});
    SIM_OP("setp.lt.or.s32 d, a, b, c;", "prrp", {1, 1, 2, 1}, {1, 1, 2, 0}, {1, 2, 1, 1}, {0, 2, 1, 0});
    SIM_OP("setp.lt.xor.s32 d, a, b, c;", "prrp", {0, 1, 2, 1}, {1, 1, 2, 0}, {1, 2, 1, 1}, {0, 2, 1, 0});
    SIM_OP("setp.lt.and.s32 d, a, b, !c;", "prrp", {0, 1, 2, 1}, {1, 1, 2, 0}, {0, 2, 1, 1}, {0, 2, 1, 0});
    /* p|q: q is the opposite comparison, combined with the same predicate. */
    SIM_OP(".reg .pred p; setp.lt.s32 p|d, a, b;", "prr", {0, 1, 2}, {1, 2, 1});
    SIM_OP(".reg .pred p; setp.lt.and.s32 p|d, a, b, c;", "prrp", {0, 1, 2, 1}, {0, 1, 2, 0}, {1, 2, 1, 1},
           {0, 2, 1, 0});
    SIM_OP(".reg .pred p; setp.lt.f32 p|d, a, b;", "prr", {1, 0x7fc00000, 0x3f800000}, {0, 0, 0x3f800000});
    SIM_OP(".reg .pred q; setp.lt.or.s32 d|q, a, b, !c;", "prrp", {1, 1, 2, 1}, {1, 2, 1, 0}, {0, 2, 1, 1});
}

static void selections(void)
{
    SIM_OP("selp.b32 d, a, b, c;", "rrrp", {1, 1, 2, 1}, {2, 1, 2, 0});
    SIM_OP("selp.b32 d, a, b, !c;", "rrrp", {2, 1, 2, 1}, {1, 1, 2, 0});
    SIM_OP("selp.u16 d, a, b, c;", "hhhp", {1, 1, 2, 1}, {2, 1, 2, 0});
    SIM_OP("selp.f32 d, a, b, c;", "rrrp", {0x7fa00001, 0x7fa00001, 2, 1}, {2, 1, 2, 0});
    SIM_OP("selp.b64 d, a, b, c;", "lllp", {1ull << 63, 1ull << 63, 2, 1}, {2, 1, 2, 0});
    SIM_OP("selp.u32 d, 1, 0, a;", "rp", {1, 1}, {0, 0});
    SIM_OP("selp.f32 d, 0f3F800000, a, b;", "rrp", {0x3f800000, 5, 1}, {5, 5, 0});
    /* slct: a where c >= 0, which -0 is and a NaN is not. */
    SIM_OP("slct.b32.s32 d, a, b, c;", "rrrr", {1, 1, 2, 0}, {2, 1, 2, 0xffffffff}, {1, 1, 2, 0x7fffffff});
    SIM_OP("slct.u64.s32 d, a, b, c;", "lllr", {1, 1, 2, 0}, {2, 1, 2, 0x80000000});
    SIM_OP("slct.u32.f32 d, a, b, c;", "rrrr", {1, 1, 2, 0x80000000}, {2, 1, 2, 0x7fc00000}, {2, 1, 2, 0xbf800000},
           {1, 1, 2, 0x7f800000}, {2, 1, 2, 0x80000001});
    SIM_OP("slct.ftz.f32.f32 d, a, b, c;", "rrrr", {1, 1, 2, 0x80000001}, {2, 1, 2, 0x80800000});
}

static void moves(void)
{
    SIM_OP("mov.b32 d, a;", "rr", {0x12345678, 0x12345678});
    SIM_OP("mov.f32 d, a;", "rr", {0x7fa00001, 0x7fa00001}, {0x80000000, 0x80000000});
    SIM_OP("mov.u16 d, a;", "hh", {0x1234, 0x1234});
    SIM_OP("mov.b64 d, a;", "ll", {~1ull, ~1ull});
    SIM_OP("mov.u32 d, -1;", "r", {0xffffffff}, {0xffffffff});
    SIM_OP("mov.u16 d, -2;", "h", {0xfffe}, {0xfffe});
    SIM_OP("mov.b32 d, 0f3FC00000;", "r", {0x3fc00000}, {0x3fc00000});
    SIM_OP("mov.f32 d, 0fFFA00001;", "r", {0xffa00001}, {0xffa00001});
    SIM_OP("mov.f32 d, 1.5;", "r", {0x3fc00000}, {0x3fc00000});
    SIM_OP("mov.f32 d, -1.5;", "r", {0xbfc00000}, {0xbfc00000});
    SIM_REFUSED(".reg .f32 r; mov.f32 r, -0f00000000;", "sign");
    SIM_OP("mov.f64 d, 0d3FF8000000000000;", "l", {0x3ff8000000000000}, {0x3ff8000000000000});
    SIM_OP("mov.f64 d, 1.5e0;", "l", {0x3ff8000000000000}, {0x3ff8000000000000});
    SIM_OP("mov.b32 d, 0b1010;", "r", {10}, {10});
    SIM_OP("mov.b32 d, 0777;", "r", {511}, {511});
    SIM_OP("mov.b32 d, 0xFFU;", "r", {255}, {255});
    SIM_OP("mov.b32 d, WARP_SZ;", "r", {32}, {32});
    SIM_OP("mov.b32 d, {a, b};", "rhh", {0x56781234, 0x1234, 0x5678});
    SIM_OP("mov.b32 d, {a, 5};", "rh", {0x51234, 0x1234});
    SIM_OP("mov.b64 d, {a, b};", "lrr", {0x5555000112345678, 0x12345678, 0x55550001});
    SIM_OP("mov.b64 d, {a, b, c, e};", "lhhhh", {0x0004000300020001, 1, 2, 3, 4});
    SIM_OP(".reg .b16 t; mov.b32 {d, t}, a;", "hr", {0x1234, 0x56781234});
    SIM_OP("mov.b32 {_, d}, a;", "hr", {0x5678, 0x56781234});
    SIM_OP("mov.b64 {d, _}, a;", "rl", {0x12345678, 0xfedcba9812345678});
    SIM_OP("mov.b64 {_, d}, a;", "rl", {0xfedcba98, 0xfedcba9812345678});
    SIM_OP(".reg .b16 s, t, u; mov.b64 {s, t, d, u}, a;", "hl", {0xba98, 0xfedcba9812345678 - 0x2222000000000000});
    SIM_OP(".reg .v2 .b32 v; mov.b32 v.x, a; mov.b32 v.y, b; sub.u32 d, v.y, v.x;", "rrr", {3, 4, 7});
}

/* Guards: @p and @!p, on lanes of their own. */
static void guards(void)
{
    SIM_OP("mov.b32 d, 1; @a mov.b32 d, 2; @!a add.u32 d, d, 5;", "rp", {2, 1}, {6, 0}, {2, 1}, {6, 0});
    SIM_OP(".reg .b32 a; mov.b32 d, 7; { .reg .b32 d; mov.b32 d, 8; mov.b32 a, d; } add.u32 d, d, a;", "r", {15}, {15});
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"integers", integers},     {"floats", floats}, {"combined", combined},
                                       {"selections", selections}, {"moves", moves},   {"guards", guards}};
    return SIM_MAIN("compare", groups);
}
