/* test_layout_wgmma.c - where wgmma finds its elements in shared memory and registers, and what it asks for.
 *
 * Tables typed from the PTX ISA: the swizzling patterns ("Swizzling Modes"), the core matrices and strides ("Strides",
 * "Canonical Layouts"), the fragments of D and A ("Register Fragments for wgmma.mma_async.m64nNk*"). One column of A
 * meets one row of B at a time, so that D shows which elements were read as that column's and that row's. */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

enum { M = 64, N = 128, MAX_K = 32, A_AT = 0, B_AT = 16384, SUMS_AT = 32768, IMAGE = 32768 };

typedef enum swizzle { NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32 } swizzle; /* the descriptor's code */

/* Which chunk of 16 bytes of a line holds its c-th chunk; lines from an aligned address on. */
static const uint8_t pattern_128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                          {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                          {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
static const uint8_t pattern_64[8][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}, {1, 0, 3, 2}, {1, 0, 3, 2},
                                         {2, 3, 0, 1}, {2, 3, 0, 1}, {3, 2, 1, 0}, {3, 2, 1, 0}};
static const uint8_t pattern_32[8][2] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 0}, {1, 0}};
static const uint32_t line_bytes[] = {16, 128, 64, 32};

static uint32_t in_line(swizzle mode, uint32_t line, uint32_t chunk)
{
    switch (mode) {
    case SWIZZLE_128:
        return pattern_128[line][chunk];
    case SWIZZLE_64:
        return pattern_64[line][chunk];
    case SWIZZLE_32:
        return pattern_32[line][chunk];
    default:
        return chunk;
    }
}

typedef struct matrix {
    swizzle mode;
    bool by_rows;             /* M or N innermost */
    uint32_t leading, stride; /* bytes */
    uint32_t first;           /* chunk of the first line where K begins (K innermost) */
    uint32_t off;             /* bytes from an aligned address to where the pattern begins: the base offset */
} matrix;

typedef struct number {
    const char *name;
    uint32_t bytes, k, exponent_bits, fraction_bits;
} number;
static const number bf16 = {"bf16", 2, 16, 8, 7}, f16 = {"f16", 2, 16, 5, 10}, tf32 = {"tf32", 4, 8, 8, 23},
                    e4m3 = {"e4m3", 1, 32, 4, 3}, e5m2 = {"e5m2", 1, 32, 5, 2};

static uint32_t encoded(const number *type, uint32_t value)
{
    if (value == 0) {
        return 0;
    }
    uint32_t exponent = 31 - (uint32_t)__builtin_clz(value), bias = (1u << (type->exponent_bits - 1)) - 1;
    return (exponent + bias) << type->fraction_bits | (value - (1u << exponent)) << type->fraction_bits >> exponent;
}

/* Byte of element (row, k). A core matrix is eight lines. */
static uint32_t byte_of(const matrix *m, const number *type, uint32_t row, uint32_t k)
{
    uint32_t per = 16 / type->bytes, inner = m->by_rows ? row : k, outer = m->by_rows ? k : row;
    uint32_t chunk = inner / per, rest = inner % per * type->bytes, line = outer % 8, eight = outer / 8;
    if (m->mode == NONE && m->by_rows) {
        return chunk * m->stride + eight * m->leading + line * 16 + rest;
    }
    if (m->mode == NONE) {
        return chunk * m->leading + eight * m->stride + line * 16 + rest;
    }
    uint32_t chunks = line_bytes[m->mode] / 16;
    chunk += m->first;
    return chunk / chunks * m->leading + eight * m->stride + line * line_bytes[m->mode] +
           in_line(m->mode, line, chunk % chunks) * 16 + rest;
}

static void put(const matrix *m, const number *type, uint32_t at, uint32_t row, uint32_t k, uint32_t value)
{
    uint32_t bits = encoded(type, value);
    memcpy(sim_tester.memory + at + m->off + byte_of(m, type, row, k), &bits, type->bytes);
}

static uint64_t descriptor(const matrix *m, uint32_t at)
{
    uint32_t pattern = 1024 + at + m->off, shared = pattern + m->first * 16; /* s begins where shared memory does */
    return (uint64_t)(shared >> 4) | (uint64_t)(m->leading >> 4) << 16 | (uint64_t)(m->stride >> 4) << 32 |
           (uint64_t)(m->mode == NONE ? 0 : pattern >> 7 & 7) << 49 | (uint64_t)m->mode << 62;
}

/* Values of a row of A and of a column of B: one of three digits to base 8, which are exact in all types. */
enum { DIGITS = 3 };
static uint32_t digit(uint32_t index, uint32_t which)
{
    return (index >> (3 * which) & 7) + 1;
}

/* Copies the image into shared memory, so that byte 0 of it lies at address 1024. */
static const char copy_text[] =
    ".shared .align 1024 .b8 s[32768];\n.reg .b32 to, i, v<4>;\n.reg .b64 from, pd, da, db;\n"
    ".reg .pred loop, p;\n.reg .%s d<64>;\n.reg .b32 a<4>;\n"
    "mul.lo.u32 i, %%n, 16;\n"
    "again:\ncvt.u64.u32 from, i;\nadd.s64 from, from, g;\n"
    "ld.global.v4.b32 {v0, v1, v2, v3}, [from];\nmov.u32 to, s;\nadd.u32 to, to, i;\n"
    "st.shared.v4.b32 [to], {v0, v1, v2, v3};\nadd.u32 i, i, 2048;\n"
    "setp.lt.u32 loop, i, 32768;\n@loop bra again;\n"
    "fence.proxy.async;\nbar.sync 0;\n"
    "mov.b64 da, 0x%llx;\nmov.b64 db, 0x%llx;\nmad.wide.u32 pd, %%n, 256, g;\n";

static char *put_sums(char *at, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        at += sprintf(at, "%sd%u", r ? ", " : "{", r);
    }
    return at + sprintf(at, "}");
}

typedef struct product {
    const number *a, *b;
    matrix a_at, b_at;
    bool a_in_registers;
    const char *sum; /* f32, or f16: two in a register */
} product;

/* A in registers: registers 0 to 3 of lane l, warp w at A_AT + w * 512 + r * 128 + l * 4. */
static void text_of(const product *p, char *at)
{
    bool half = strcmp(p->sum, "f16") == 0;
    uint32_t sums = N / (half ? 4 : 2);
    at += sprintf(at, copy_text, half ? "b32" : "f32", (unsigned long long)descriptor(&p->a_at, A_AT),
                  (unsigned long long)descriptor(&p->b_at, B_AT));
    for (uint32_t r = 0; r < 4 && p->a_in_registers; r++) {
        at += sprintf(at, "%s",
                      r ? ""
                        : "shr.u32 i, %n, 5;\nmul.lo.u32 i, i, 384;\nmad.lo.u32 i, %n, 4, i;\n"
                          "cvt.u64.u32 from, i;\nadd.s64 from, from, g;\n");
        at += sprintf(at, "ld.global.b32 a%u, [from+%u];\n", r, r * 128);
    }
    at +=
        sprintf(at, "setp.ne.u32 p, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%dk%u.%s.%s.%s ",
                N, p->a->k, p->sum, p->a->name, p->b->name);
    at = put_sums(at, sums);
    at += sprintf(at, ", %s, db, p, 1, 1", p->a_in_registers ? "{a0, a1, a2, a3}" : "da");
    if (p->a->bytes == 2) {
        at += p->a_in_registers ? 0 : sprintf(at, ", %d", p->a_at.by_rows);
        at += sprintf(at, ", %d", p->b_at.by_rows);
    }
    at += sprintf(at, ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nbar.sync 0;\n");
    for (uint32_t r = 0; r < sums; r++) {
        at += sprintf(at, "st.global.%s [pd+%u], d%u;\n", half ? "b32" : "f32", SUMS_AT + r * 4, r);
    }
}

/* Fragments of A in registers: of lane 0, elements in register order. */
typedef struct place {
    uint8_t row, column;
} place;
static const place a_16[] = {{0, 0}, {0, 1}, {8, 0}, {8, 1}, {0, 8}, {0, 9}, {8, 8}, {8, 9}};
static const place a_32[] = {{0, 0}, {8, 0}, {0, 4}, {8, 4}};
static const place a_8[] = {{0, 0},  {0, 1},  {0, 2},  {0, 3},  {8, 0},  {8, 1},  {8, 2},  {8, 3},
                            {0, 16}, {0, 17}, {0, 18}, {0, 19}, {8, 16}, {8, 17}, {8, 18}, {8, 19}};

static void fill_registers(const number *type, uint32_t k, uint32_t which)
{
    const place *places = type->bytes == 2 ? a_16 : type->bytes == 4 ? a_32 : a_8;
    uint32_t per = 4 / type->bytes;
    for (uint32_t thread = 0; thread < 128; thread++) {
        uint32_t warp = thread / 32, lane = thread % 32;
        for (uint32_t e = 0; e < 4 * per; e++) {
            uint32_t row = places[e].row + lane / 4 + 16 * warp, column = places[e].column + lane % 4 * per;
            uint32_t bits = column == k ? encoded(type, digit(row, which)) : 0;
            memcpy(sim_tester.memory + A_AT + warp * 512 + e / per * 128 + lane * 4 + e % per * type->bytes, &bits,
                   type->bytes);
        }
    }
}

static void fill(const product *p, uint32_t k, uint32_t which)
{
    memset(sim_tester.memory, 0, SIM_TEST_MEMORY);
    for (uint32_t column = 0; column < N; column++) {
        for (uint32_t row = 0; row < p->b->k; row++) {
            put(&p->b_at, p->b, B_AT, column, row, row == k ? digit(column, which) : 16);
        }
    }
    for (uint32_t row = 0; row < M && !p->a_in_registers; row++) {
        put(&p->a_at, p->a, A_AT, row, k, digit(row, which));
    }
    if (p->a_in_registers) {
        fill_registers(p->a, k, which);
    }
}

/* D: of lane 0, four elements for each eight columns. */
static const place d_places[] = {{0, 0}, {0, 1}, {8, 0}, {8, 1}};

static void check_sums(const product *p, const char *what, uint32_t k, uint32_t which)
{
    bool half = strcmp(p->sum, "f16") == 0;
    const number f32 = {"f32", 4, 0, 8, 23};
    for (uint32_t thread = 0; thread < 128; thread++) {
        for (uint32_t e = 0; e < N / 2; e++) {
            uint32_t lane = thread % 32, row = d_places[e % 4].row + lane / 4 + thread / 32 * 16;
            uint32_t column = d_places[e % 4].column + lane % 4 * 2 + e / 4 * 8, got = 0;
            uint32_t want = encoded(half ? &f16 : &f32, digit(row, which) * digit(column, which));
            memcpy(&got, sim_tester.memory + thread * 256 + SUMS_AT + e * (half ? 2 : 4), half ? 2 : 4);
            SIM_CHECK(got == want, "%s: k %u: D[%u][%u] (thread %u, element %u) is %#x, not %#x", what, k, row, column,
                      thread, e, got, want);
        }
    }
}

static void check(const product *p)
{
    static char text[32768];
    char what[128];
    snprintf(what, sizeof what, "%s.%s.%s A %d%s%s B %d%s", p->sum, p->a->name, p->b->name, p->a_at.mode,
             p->a_at.by_rows ? " by rows" : "", p->a_in_registers ? " in registers" : "", p->b_at.mode,
             p->b_at.by_rows ? " by rows" : "");
    text_of(p, text);
    for (uint32_t k = 0; k < p->a->k; k++) {
        for (uint32_t which = 0; which < DIGITS; which++) {
            fill(p, k, which);
            if (!sim_test_run(text, 1, 128)) {
                SIM_CHECK(false, "%s: %s", what, sim_tester.fault.text);
                return;
            }
            check_sums(p, what, k, which);
        }
    }
}

/* K innermost: eight rows of a line each, then `stride`. Of 128 bytes, K may begin at chunk 0, 2, 4 or 6. */
static void k_innermost(void)
{
    const matrix plain = {NONE, false, 128, 256, 0, 0}, sparse = {NONE, false, 4096, 128, 0, 0},
                 by_32 = {SWIZZLE_32, false, 16, 256, 0, 0}, by_64 = {SWIZZLE_64, false, 16, 512, 2, 0},
                 by_128 = {SWIZZLE_128, false, 16, 1024, 0, 0}, late_128 = {SWIZZLE_128, false, 16, 1024, 6, 0},
                 off_128 = {SWIZZLE_128, false, 16, 1024, 2, 384}, off_64 = {SWIZZLE_64, false, 16, 512, 0, 128};
    const product products[] = {
        {&bf16, &bf16, plain, plain, false, "f32"},     {&bf16, &bf16, sparse, by_32, false, "f32"},
        {&f16, &f16, by_32, by_64, false, "f32"},       {&f16, &f16, by_64, by_128, false, "f16"},
        {&bf16, &bf16, by_128, late_128, false, "f32"}, {&tf32, &tf32, late_128, plain, false, "f32"},
        {&tf32, &tf32, by_64, by_128, false, "f32"},    {&e4m3, &e4m3, by_128, late_128, false, "f32"},
        {&e4m3, &e5m2, by_32, by_64, false, "f16"},     {&e5m2, &e5m2, sparse, by_128, false, "f32"},
        {&bf16, &bf16, off_128, off_64, false, "f32"},  {&bf16, &bf16, off_64, off_64, false, "f32"},
    };
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        check(&products[i]);
    }
}

/* M or N innermost: a line of them for each k; `leading` to the next lines' worth of rows, `stride` to the next eight
 * k. Without a swizzle `stride` is to the next eight rows, `leading` to the next eight k. */
static void rows_innermost(void)
{
    const matrix plain = {NONE, true, 128, 256, 0, 0}, sparse = {NONE, true, 8192, 128, 0, 0},
                 by_32 = {SWIZZLE_32, true, 512, 256, 0, 0}, by_64 = {SWIZZLE_64, true, 1024, 512, 0, 0},
                 by_128 = {SWIZZLE_128, true, 2048, 1024, 0, 0}, far_128 = {SWIZZLE_128, true, 1024, 4096, 0, 0},
                 k_128 = {SWIZZLE_128, false, 16, 1024, 0, 0};
    const product products[] = {
        {&bf16, &bf16, plain, plain, false, "f32"}, {&f16, &f16, k_128, sparse, false, "f32"},
        {&bf16, &bf16, by_32, by_32, false, "f32"}, {&bf16, &bf16, by_64, by_64, false, "f32"},
        {&f16, &f16, by_128, by_128, false, "f16"}, {&bf16, &bf16, k_128, far_128, false, "f32"},
        {&bf16, &bf16, by_64, k_128, false, "f32"},
    };
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        check(&products[i]);
    }
}

static void a_in_registers(void)
{
    const matrix none = {NONE, false, 0, 0, 0, 0}, k_128 = {SWIZZLE_128, false, 16, 1024, 2, 0},
                 rows_128 = {SWIZZLE_128, true, 2048, 1024, 0, 0};
    const product products[] = {
        {&bf16, &bf16, none, k_128, true, "f32"},
        {&f16, &f16, none, rows_128, true, "f32"},
        {&tf32, &tf32, none, k_128, true, "f32"},
        {&e4m3, &e4m3, none, k_128, true, "f32"},
    };
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        check(&products[i]);
    }
}

/* --- what is asked for --- */

/* One warpgroup; sums d0-d3, A and B the same zeroed core matrices. %s: what is left out or put in. */
static const char asked[] = ".shared .align 1024 .b8 s[1024];\n.reg .b32 to, a<4>;\n.reg .b64 da;\n.reg .pred p;\n"
                            ".reg .f32 d<4>, e<8>;\nmov.u32 to, s;\nmad.lo.u32 to, %%n, 8, to;\n"
                            "st.shared.v2.b32 [to], {%s, 0};\nmov.b64 da, 0x0000000000080040;\nsetp.eq.u32 p, 0, 0;\n"
                            "mov.f32 d0, 0f3f800000;\nmov.f32 d1, d0;\nmov.f32 d2, d0;\nmov.f32 d3, d0;\n"
                            "mov.b32 a0, 0;\nmov.b32 a1, 0;\nmov.b32 a2, 0;\nmov.b32 a3, 0;\n%s\n";
#define ONE    "0x3f803f80"
#define FENCED "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n"
#define RUN    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d0, d1, d2, d3}, da, da, p, 1, 1, 0, 0;\n"
#define RUN_RS                                                                                                         \
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d0, d1, d2, d3}, {a0, a1, a2, a3}, da, p, 1, 1, 0;\n"
#define RUN_16                                                                                                         \
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {d0, d1, d2, d3, e0, e1, e2, e3}, da, da, p, 1, 1, 0, 0;\n"
#define COMMIT  "wgmma.commit_group.sync.aligned;\n"
#define WAIT(n) "wgmma.wait_group.sync.aligned " #n ";\n"
#define STORE   "mad.wide.u32 g, %n, 4, g;\nst.global.f32 [g], d3;\n"

static void sums_to(const char *where, const char *rest, float want)
{
    char body[4096];
    snprintf(body, sizeof body, asked, "0", rest);
    sim_test_check(where, sim_test_run(body, 1, 128), "%s", sim_tester.fault.text);
    float got;
    memcpy(&got, sim_tester.memory + 127 * 4, sizeof got);
    sim_test_check(where, got == want, "%s: %f, not %f", rest, got, want);
}

static void fails(const char *where, const char *rest, sim_fault_kind kind, const char *text)
{
    char body[4096];
    snprintf(body, sizeof body, asked, "0", rest);
    sim_test_faults(where, body, 128, kind, text);
}

static void rules(void)
{
    for (sim_timing timing = SIM_EAGER; timing <= SIM_SEEDED; timing++) {
        sim_tester.options.timing = timing;
        sums_to(SIM_HERE, FENCED RUN COMMIT WAIT(0) STORE, 1);
        sums_to(SIM_HERE, FENCED RUN RUN COMMIT RUN COMMIT WAIT(1) WAIT(0) STORE, 1);
        sums_to(SIM_HERE, FENCED RUN_RS RUN_RS COMMIT WAIT(0) "mov.b32 a0, 1;\n" STORE, 1);
        sums_to(SIM_HERE, FENCED "setp.ne.u32 p, 0, 0;\n" RUN COMMIT WAIT(0) STORE, 0);
        fails(SIM_HERE, FENCED RUN COMMIT STORE, SIM_FAULT_ASYNC, "d3");
        fails(SIM_HERE, FENCED RUN COMMIT RUN COMMIT WAIT(1) STORE, SIM_FAULT_ASYNC, "d3");
        fails(SIM_HERE, FENCED RUN WAIT(0) STORE, SIM_FAULT_ASYNC, "d3"); /* not committed */
        fails(SIM_HERE, FENCED RUN "mov.f32 d0, d1;\n", SIM_FAULT_ASYNC, "d1");
        fails(SIM_HERE, FENCED RUN_RS "mov.b32 a2, 0;\n", SIM_FAULT_ASYNC, "a2");
        fails(SIM_HERE, FENCED RUN_RS "mov.b32 to, a1;\n", SIM_FAULT_ASYNC, "a1");
        fails(SIM_HERE, FENCED "setp.ne.u32 p, 0, 0;\n" RUN RUN_16, SIM_FAULT_ASYNC, "d0");
        fails(SIM_HERE, "fence.proxy.async;\nbar.sync 0;\n" RUN, SIM_FAULT_ASYNC, "wgmma.fence");
        fails(SIM_HERE, FENCED "mov.f32 d2, 0f00000000;\n" RUN, SIM_FAULT_ASYNC, "d2 was used since");
        fails(SIM_HERE, FENCED "mov.b32 a3, 7;\n" RUN_RS, SIM_FAULT_ASYNC, "a3 was used since");
        fails(SIM_HERE, FENCED RUN COMMIT WAIT(0) "add.f32 d0, d0, d0;\n" RUN, SIM_FAULT_ASYNC, "d0 was used since");
        fails(SIM_HERE, FENCED RUN COMMIT WAIT(0) "mov.f32 e0, d1;\n" RUN, SIM_FAULT_ASYNC, "d1 was used since");
        fails(SIM_HERE, "bar.sync 0;\nwgmma.fence.sync.aligned;\n" RUN COMMIT WAIT(0), SIM_FAULT_RACE, "");
        fails(SIM_HERE, FENCED RUN "st.shared.b32 [to], 0;\n" COMMIT WAIT(0), SIM_FAULT_RACE, "");
        fails(SIM_HERE, FENCED "wgmma.fence.sync.aligned;\n" RUN_16, SIM_FAULT_UNDEFINED, "e0");
    }
    sim_tester.options.timing = SIM_EAGER;
}

static void operands(void)
{
    fails(SIM_HERE, FENCED "mov.b64 da, 0x0000000000080080;\n" RUN, SIM_FAULT_ADDRESS, "matrix A");
    fails(SIM_HERE, FENCED "mov.b64 da, 0x0010000000080040;\n" RUN, SIM_FAULT_INSTRUCTION, "reserved");
    fails(SIM_HERE, FENCED "cvt.u64.u32 g, %n;\nadd.s64 da, da, g;\n" RUN, SIM_FAULT_INSTRUCTION, "differ");
    fails(SIM_HERE, FENCED "setp.eq.u32 p, %n, 5;\n" RUN, SIM_FAULT_INSTRUCTION, "scale-d");
    SIM_FAULTS("wgmma.fence.sync.aligned;", 96, SIM_FAULT_INSTRUCTION, "warpgroup");
    SIM_REFUSED(".reg .f32 d<4>;\n.reg .b64 a;\n.reg .pred p;\n"
                "wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {d0, d1, d2, d3}, a, a, p, 1, 1, 0, 0;",
                "shape");
    SIM_REFUSED(".reg .f32 d<4>;\n.reg .b64 a;\n.reg .pred p;\n"
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d0, d1, d2, d3}, a, a, p, 1, 2, 0, 0;",
                "imm-scale");
    SIM_REFUSED(".reg .f32 d<4>;\n.reg .b64 a;\n.reg .pred p;\n"
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {d0, d1, d2}, a, a, p, 1, 1, 0, 0;",
                "4 registers");
    sim_test_target("sm_90", "8.0");
    SIM_REFUSED("wgmma.fence.sync.aligned;", "sm_90a");
    sim_test_target("sm_90a", "8.0");
}

/* 1 + 16 * 1 * 1, and its signs. */
static void scales(void)
{
    static const struct {
        const char *scales;
        float want;
    } cases[] = {{"1, 1", 17}, {"-1, 1", -15}, {"1, -1", -15}, {"-1, -1", 17}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char rest[1024], body[4096];
        snprintf(rest, sizeof rest,
                 "st.shared.b32 [to+4], 0x3f803f80;\n%swgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{d0, d1, d2, d3}, da, da, p, %s, 0, 0;\n%s%s%s",
                 FENCED, cases[i].scales, COMMIT, WAIT(0), STORE);
        snprintf(body, sizeof body, asked, ONE, rest);
        SIM_CHECK(sim_test_run(body, 1, 128), "%s", sim_tester.fault.text);
        float got;
        memcpy(&got, sim_tester.memory + 5 * 4, sizeof got);
        SIM_CHECK(got == cases[i].want, "%s: %f, not %f", cases[i].scales, got, cases[i].want);
    }
}

static void on_sm_90a(void (*run)(void))
{
    sim_test_target("sm_90a", "8.0");
    run();
}
static void all_k_innermost(void)
{
    on_sm_90a(k_innermost);
}
static void all_rows_innermost(void)
{
    on_sm_90a(rows_innermost);
}
static void all_registers(void)
{
    on_sm_90a(a_in_registers);
}
static void all_rules(void)
{
    on_sm_90a(rules);
}
static void all_operands(void)
{
    on_sm_90a(operands);
}
static void all_scales(void)
{
    on_sm_90a(scales);
}

static const sim_group groups[] = {{"k innermost", all_k_innermost},  {"rows innermost", all_rows_innermost},
                                   {"A in registers", all_registers}, {"rules", all_rules},
                                   {"operands", all_operands},        {"scales", all_scales}};

int main(int argc, char **argv)
{
    return SIM_MAIN("layout_wgmma", groups);
}
