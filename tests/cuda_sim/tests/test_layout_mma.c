/* test_layout_mma.c - where the elements of matrices lie in a warp's registers: mma.sync, ldmatrix, stmatrix,
 * movmatrix.
 *
 * The tables are typed from the figures of the PTX ISA ("Matrix Fragments for mma.m16n8k*", "ldmatrix", "movmatrix"):
 * where lane 0's elements lie, and how far a lane is moved by lane / 4 and lane % 4. Matrices with a single 1 in A,
 * whose column k meets the only small row of B, show that every element is taken from there. */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

typedef struct place {
    uint8_t row, column;
} place;

enum { ROWS = 16, COLUMNS = 8, A_AT = 1024, D_AT = 32768, FRAGMENT = 512, MANY = 16 };

typedef struct fragment {
    place of_lane_0[16];
    uint32_t count, wide; /* elements; lane % 4 moves by so many columns (A, C) or rows (B) */
} fragment;

/* A, 16-bit types. */
static const fragment a_k16_16 = {{{0, 0}, {0, 1}, {8, 0}, {8, 1}, {0, 8}, {0, 9}, {8, 8}, {8, 9}}, 8, 2};
static const fragment b_k16_16 = {{{0, 0}, {1, 0}, {8, 0}, {9, 0}}, 4, 2};
static const fragment a_k8_16 = {{{0, 0}, {0, 1}, {8, 0}, {8, 1}}, 4, 2};
static const fragment b_k8_16 = {{{0, 0}, {1, 0}}, 2, 2};
/* tf32. */
static const fragment a_k4_32 = {{{0, 0}, {8, 0}}, 2, 1};
static const fragment b_k4_32 = {{{0, 0}}, 1, 1};
static const fragment a_k8_32 = {{{0, 0}, {8, 0}, {0, 4}, {8, 4}}, 4, 1};
static const fragment b_k8_32 = {{{0, 0}, {4, 0}}, 2, 1};
/* 8-bit types. */
static const fragment a_k16_8 = {{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {8, 0}, {8, 1}, {8, 2}, {8, 3}}, 8, 4};
static const fragment b_k16_8 = {{{0, 0}, {1, 0}, {2, 0}, {3, 0}}, 4, 4};
static const fragment a_k32_8 = {{{0, 0},
                                  {0, 1},
                                  {0, 2},
                                  {0, 3},
                                  {8, 0},
                                  {8, 1},
                                  {8, 2},
                                  {8, 3},
                                  {0, 16},
                                  {0, 17},
                                  {0, 18},
                                  {0, 19},
                                  {8, 16},
                                  {8, 17},
                                  {8, 18},
                                  {8, 19}},
                                 16,
                                 4};
static const fragment b_k32_8 = {{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {16, 0}, {17, 0}, {18, 0}, {19, 0}}, 8, 4};
/* C and D of all shapes. */
static const fragment c_all = {{{0, 0}, {0, 1}, {8, 0}, {8, 1}}, 4, 2};

typedef struct number {
    const char *name;
    uint32_t bits, exponent_bits, fraction_bits; /* 0: an integer */
} number;
static const number f16 = {"f16", 16, 5, 10}, bf16 = {"bf16", 16, 8, 7}, tf32 = {"tf32", 32, 8, 23},
                    f32 = {"f32", 32, 8, 23}, e4m3 = {"e4m3", 8, 4, 3}, e5m2 = {"e5m2", 8, 5, 2}, s8 = {"s8", 8, 0, 0},
                    u8 = {"u8", 8, 0, 0}, s32 = {"s32", 32, 0, 0};

/* Bits of a small integer that is exact in its type. */
static uint32_t encoded(const number *type, uint32_t value)
{
    if (value == 0 || type->exponent_bits == 0) {
        return value;
    }
    uint32_t exponent = 31 - (uint32_t)__builtin_clz(value), bias = (1u << (type->exponent_bits - 1)) - 1;
    uint32_t fraction = (uint32_t)((uint64_t)(value - (1u << exponent)) << type->fraction_bits >> exponent);
    return (exponent + bias) << type->fraction_bits | fraction;
}

static void put(uint32_t at, const number *type, uint32_t value)
{
    uint32_t bits = encoded(type, value);
    memcpy(sim_tester.memory + at, &bits, type->bits / 8);
}

/* Offset of element e of lane in a fragment's memory: registers one after another, 32 lanes each. */
static uint32_t element_at(const number *type, uint32_t lane, uint32_t e)
{
    uint32_t per = 32 / type->bits;
    return e / per * 128 + lane * 4 + e % per * type->bits / 8;
}

static place place_in(const fragment *f, uint32_t lane, uint32_t e, bool transposed)
{
    place p = f->of_lane_0[e];
    uint32_t step = lane % 4 * f->wide, group = lane / 4;
    p.row += transposed ? step : group;
    p.column += transposed ? group : step;
    return p;
}

typedef struct shape {
    const char *name;
    const number *ab, *b, *cd;
    const fragment *a_at, *b_at;
    uint32_t k;
} shape;

static uint32_t b_value(uint32_t row, uint32_t column, uint32_t k)
{
    return row == k ? column + 1 : 16;
}

static void fill(const shape *s, uint32_t k)
{
    memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t e = 0; e < s->b_at->count; e++) {
            place p = place_in(s->b_at, lane, e, true);
            put(element_at(s->b, lane, e), s->b, b_value(p.row, p.column, k));
        }
        for (uint32_t e = 0; e < s->a_at->count; e++) {
            place p = place_in(s->a_at, lane, e, false);
            if (p.column == k) {
                put(A_AT + p.row * FRAGMENT + element_at(s->ab, lane, e), s->ab, 1);
            }
        }
        for (uint32_t e = 0; e < c_all.count; e++) {
            place p = place_in(&c_all, lane, e, false);
            for (uint32_t row = 0; row < MANY; row++) {
                put(D_AT + row * FRAGMENT + element_at(s->cd, lane, e), s->cd, p.row * COLUMNS + p.column + 1);
            }
        }
    }
}

static char *put_vector(char *at, char name, uint32_t count)
{
    *at++ = '{';
    for (uint32_t r = 0; r < count; r++) {
        at += sprintf(at, "%s%c%u", r ? ", " : "", name, r);
    }
    return at + sprintf(at, "}");
}

static char *put_transfer(char *at, const char *op, const char *type, char name, uint32_t count, const char *from)
{
    for (uint32_t r = 0; r < count; r++) {
        at += op[0] == 'l' ? sprintf(at, "%s.global.%s %c%u, [%s+%u];\n", op, type, name, r, from, r * 128)
                           : sprintf(at, "%s.global.%s [%s+%u], %c%u;\n", op, type, from, r * 128, name, r);
    }
    return at;
}

static void text_of(const shape *s, char *at)
{
    uint32_t a = s->a_at->count * s->ab->bits / 32, b = s->b_at->count * s->b->bits / 32, c = s->cd->bits * 4 / 32;
    const char *sum = s->cd->bits == 16 ? "b32" : s->cd->name;
    at += sprintf(at, ".reg .b32 a<4>, b<2>;\n.reg .%s c<4>;\n.reg .b64 pa, pb, pd;\n", sum);
    at += sprintf(at,
                  "mov.u32 %%x, %%tid.x;\nmov.u32 %%y, %%ctaid.x;\nmad.wide.u32 pb, %%x, 4, g;\n"
                  "mad.wide.u32 pa, %%y, %d, pb;\nadd.s64 pd, pa, %d;\nadd.s64 pa, pa, %d;\n",
                  FRAGMENT, D_AT, A_AT);
    at = put_transfer(at, "ld", "b32", 'a', a, "pa");
    at = put_transfer(at, "ld", "b32", 'b', b, "pb");
    at = put_transfer(at, "ld", sum, 'c', c, "pd");
    at += sprintf(at, "mma.sync.aligned.%s.row.col.%s.%s.%s.%s ", s->name, s->cd->name, s->ab->name, s->b->name,
                  s->cd->name);
    at = put_vector(at, 'c', c);
    at = put_vector(at + sprintf(at, ", "), 'a', a);
    at = put_vector(at + sprintf(at, ", "), 'b', b);
    at = put_vector(at + sprintf(at, ", "), 'c', c);
    at += sprintf(at, ";\n");
    put_transfer(at, "st", sum, 'c', c, "pd");
}

static void check_shape(const shape *s)
{
    char text[8192];
    text_of(s, text);
    for (uint32_t k = 0; k < s->k; k++) {
        fill(s, k);
        if (!sim_test_run(text, ROWS, 32)) {
            SIM_CHECK(false, "%s.%s: %s", s->name, s->ab->name, sim_tester.fault.text);
            return;
        }
        for (uint32_t row = 0; row < ROWS; row++) {
            for (uint32_t lane = 0; lane < 32; lane++) {
                for (uint32_t e = 0; e < c_all.count; e++) {
                    place p = place_in(&c_all, lane, e, false);
                    uint32_t sum = p.row * COLUMNS + p.column + 1 + (p.row == row ? p.column + 1 : 0), got = 0;
                    memcpy(&got, sim_tester.memory + D_AT + row * FRAGMENT + element_at(s->cd, lane, e),
                           s->cd->bits / 8);
                    SIM_CHECK(got == encoded(s->cd, sum), "%s.%s: A[%u][%u] = 1: lane %u, d%u is %#x, not %u", s->name,
                              s->ab->name, row, k, lane, e, got, sum);
                }
            }
        }
    }
}

static void fragments(void)
{
    static const shape shapes[] = {
        {"m16n8k16", &f16, &f16, &f32, &a_k16_16, &b_k16_16, 16},
        {"m16n8k16", &bf16, &bf16, &f32, &a_k16_16, &b_k16_16, 16},
        {"m16n8k16", &f16, &f16, &f16, &a_k16_16, &b_k16_16, 16},
        {"m16n8k8", &f16, &f16, &f32, &a_k8_16, &b_k8_16, 8},
        {"m16n8k8", &f16, &f16, &f16, &a_k8_16, &b_k8_16, 8},
        {"m16n8k8", &bf16, &bf16, &f32, &a_k8_16, &b_k8_16, 8},
        {"m16n8k4", &tf32, &tf32, &f32, &a_k4_32, &b_k4_32, 4},
        {"m16n8k8", &tf32, &tf32, &f32, &a_k8_32, &b_k8_32, 8},
        {"m16n8k16", &s8, &u8, &s32, &a_k16_8, &b_k16_8, 16},
        {"m16n8k32", &u8, &s8, &s32, &a_k32_8, &b_k32_8, 32},
    };
    static const shape fp8[] = {{"m16n8k32", &e4m3, &e5m2, &f32, &a_k32_8, &b_k32_8, 32},
                                {"m16n8k32", &e5m2, &e4m3, &f32, &a_k32_8, &b_k32_8, 32}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        check_shape(&shapes[s]);
    }
    sim_test_target("sm_89", "8.4");
    for (size_t s = 0; s < sizeof fp8 / sizeof fp8[0]; s++) {
        check_shape(&fp8[s]);
    }
}

/* Integers wrap, or saturate; signed and unsigned ones differ. */
static void integers(void)
{
    static const char text[] =
        ".reg .b32 a, b, c, d<4>;\nmov.b32 a, 0x80808080;\nmov.b32 b, 0xffffffff;\n"
        "mov.b32 c, 0x7fffffff;\n"
        "mma.sync.aligned.m16n8k16.row.col%s.s32.%s.s32 {d0, d1, d2, d3}, {a, a}, {b}, {c, c, c, c};\n"
        "mad.wide.u32 g, %%n, 4, g;\nst.global.u32 [g], d3;\n";
    static const struct {
        const char *saturate, *types;
        uint32_t want;
    } cases[] = {{"", "s8.s8", 0x7fffffffu + 16 * 128},
                 {".satfinite", "s8.s8", 0x7fffffff},
                 {"", "s8.u8", 0x7fffffff - 16 * 128 * 255},
                 {"", "u8.s8", 0x7fffffff - 16 * 128},
                 {"", "u8.u8", 0x7fffffff + 16u * 128 * 255}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[sizeof text + 64];
        snprintf(body, sizeof body, text, cases[i].saturate, cases[i].types);
        SIM_CHECK(sim_test_run(body, 1, 32), "%s: %s", cases[i].types, sim_tester.fault.text);
        uint32_t got;
        memcpy(&got, sim_tester.memory + 31 * 4, sizeof got);
        SIM_CHECK(got == cases[i].want, "%s%s: %#x, not %#x", cases[i].types, cases[i].saturate, got, cases[i].want);
    }
}

/* --- ldmatrix, stmatrix, movmatrix --- */

/* Element e of lane in a matrix of 8 x 8: row lane / 4, columns lane % 4 * 2 + e; .trans: row and column exchanged. */
static uint32_t element(uint32_t matrix, uint32_t lane, uint32_t e, bool transposed)
{
    uint32_t row = lane / 4, column = lane % 4 * 2 + e;
    return 1000 * (matrix + 1) + (transposed ? column * 8 + row : row * 8 + column);
}

/* Row r of matrix m lies at (m * 8 + r) * 48 in shared memory. */
static const char ldmatrix_text[] =
    ".shared .align 16 .b8 s[1536];\n.reg .b32 a, r<4>;\n.reg .b64 p;\n.reg .b32 v<4>;\nmov.u32 a, s;\n"
    "mad.wide.u32 p, %%n, 16, g;\nld.global.v4.b32 {v0, v1, v2, v3}, [p];\nmad.lo.u32 a, %%n, 48, a;\n"
    "st.shared.v4.b32 [a], {v0, v1, v2, v3};\nbar.sync 0;\n"
    "mov.b32 r0, 0;\nmov.b32 r1, 0;\nmov.b32 r2, 0;\nmov.b32 r3, 0;\n"
    "ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 %s, [a];\n"
    "st.global.v4.b32 [p+4096], {r0, r1, r2, r3};\n";
static const char stmatrix_text[] =
    ".shared .align 16 .b8 s[1536];\n.reg .b32 a, r<4>;\n.reg .b64 p;\nmov.u32 a, s;\n"
    "mad.wide.u32 p, %%n, 16, g;\nld.global.v4.b32 {r0, r1, r2, r3}, [p+4096];\nmad.lo.u32 a, %%n, 48, a;\n"
    "st.shared.v4.b32 [a], {r0, r0, r0, r0};\nbar.sync 0;\n"
    "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [a], %s;\nbar.sync 0;\n"
    "ld.shared.v4.b32 {r0, r1, r2, r3}, [a];\nst.global.v4.b32 [p], {r0, r1, r2, r3};\n";
static const char *const vectors[] = {"", "{r0}", "{r0, r1}", "", "{r0, r1, r2, r3}"};

static void expect(const char *what, uint32_t at, uint32_t want)
{
    uint16_t got;
    memcpy(&got, sim_tester.memory + at, sizeof got);
    SIM_CHECK(got == want, "%s: element at %u is %u, not %u", what, at, got, want);
}

static void set(uint32_t at, uint32_t value)
{
    uint16_t bits = (uint16_t)value;
    memcpy(sim_tester.memory + at, &bits, sizeof bits);
}

/* Matrix m in memory: row-major from m * 128 on; fragments: register m of lane l at 4096 + l * 16 + m * 4. */
static void rows_of_matrices(uint32_t count, bool transposed, bool store)
{
    char body[2048], what[64];
    const char *suffix = transposed ? ".trans" : "";
    snprintf(what, sizeof what, "%s.x%u%s", store ? "stmatrix" : "ldmatrix", count, suffix);
    int unused = store ? snprintf(body, sizeof body, stmatrix_text, count, suffix, vectors[count])
                       : snprintf(body, sizeof body, ldmatrix_text, count, suffix, vectors[count]);
    (void)unused;
    memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
    for (uint32_t m = 0; m < 4; m++) {
        for (uint32_t e = 0; e < 64; e++) {
            set(store ? 4096 + e / 2 * 16 + m * 4 + e % 2 * 2 : m * 128 + e * 2,
                store ? element(m, e / 2, e % 2, transposed) : 1000 * (m + 1) + e);
        }
    }
    SIM_CHECK(sim_test_run(body, 1, 32), "%s: %s", what, sim_tester.fault.text);
    for (uint32_t m = 0; m < count; m++) {
        for (uint32_t e = 0; e < 64; e++) {
            expect(what, store ? m * 128 + e * 2 : 4096 + e / 2 * 16 + m * 4 + e % 2 * 2,
                   store ? 1000 * (m + 1) + e : element(m, e / 2, e % 2, transposed));
        }
    }
}

static void matrices(void)
{
    for (uint32_t count = 1; count <= 4; count *= 2) {
        rows_of_matrices(count, false, false);
        rows_of_matrices(count, true, false);
    }
    sim_test_target("sm_90", "8.0");
    for (uint32_t count = 1; count <= 4; count *= 2) {
        rows_of_matrices(count, false, true);
        rows_of_matrices(count, true, true);
    }
}

static void transposition(void)
{
    static const char text[] = ".reg .b32 r;\nmad.wide.u32 g, %n, 16, g;\nld.global.b32 r, [g+4096];\n"
                               "movmatrix.sync.aligned.m8n8.trans.b16 r, r;\nst.global.b32 [g+8192], r;\n";
    sim_test_target("sm_80", "7.8");
    for (uint32_t e = 0; e < 64; e++) {
        set(4096 + e / 2 * 16 + e % 2 * 2, element(0, e / 2, e % 2, false));
    }
    SIM_CHECK(sim_test_run(text, 1, 32), "movmatrix: %s", sim_tester.fault.text);
    for (uint32_t e = 0; e < 64; e++) {
        expect("movmatrix", 8192 + e / 2 * 16 + e % 2 * 2, element(0, e / 2, e % 2, true));
    }
}

static void refusals(void)
{
    SIM_REFUSED(
        ".reg .b32 a<4>, b<2>;\n.reg .f32 c<4>;\n"
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {c0,c1,c2,c3}, {a0,a1,a2,a3}, {b0,b1}, {c0,c1,c2,c3};",
        "no such shape");
    SIM_REFUSED(".reg .b32 a<4>, b<2>;\n.reg .f32 c<4>;\n"
                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {c0,c1,c2,c3}, {a0,a1}, {b0,b1}, {c0,c1,c2,c3};",
                "a vector of 4 expected");
    SIM_FAULTS(".reg .b32 a, r;\nmov.u32 a, 1032;\n.shared .align 16 .b8 s[64];\n"
               "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [a];",
               32, SIM_FAULT_MISALIGNED, "");
    SIM_FAULTS(".reg .b32 r;\nmov.u32 r, %n;\n@%q movmatrix.sync.aligned.m8n8.trans.b16 r, r;", 16, SIM_FAULT_UNDEFINED,
               "");
    SIM_FAULTS(".reg .b32 r;\nmov.u32 r, %n;\nmovmatrix.sync.aligned.m8n8.trans.b16 r, r;", 16, SIM_FAULT_DIVERGENT,
               "32 lanes");
}

static const sim_group groups[] = {{"fragments", fragments},
                                   {"integers", integers},
                                   {"matrices", matrices},
                                   {"transposition", transposition},
                                   {"refusals", refusals}};

int main(int argc, char **argv)
{
    return SIM_MAIN("layout_mma", groups);
}
