/* op_mma.c - mma.sync (PTX ISA "Warp-level Matrix Instructions").
 *
 * "Matrix Fragments for mma.m16n8k*": a register of all 32 lanes, read as memory, is a row-major tile of 8 rows,
 * 32/bits x 4 elements wide. A has such tiles for rows 0-7, rows 8-15, then the same of the next columns; B has them
 * transposed (a row for each of its 8 columns), k upwards; C and D have rows 0-7 in the first half of their registers.
 */
#include "tile.h"
#include <stdio.h>

enum { ROWS = 16, COLUMNS = 8, MAX_K = 32 };

typedef struct mma {
    uint32_t d[4], a[4], b[2], c[4];             /* slots */
    uint32_t k, a_count, b_count, c_count, wide; /* wide: elements of a tile's row */
    ptx_type a_type, b_type, c_type, d_type;
    bool saturate;
    char shape[SIM_SHAPE_NAME];
} mma;

static void load_a(float *a, const sim_warp *w, const mma *m)
{
    for (uint32_t r = 0; r < m->a_count; r++) {
        sim_tile_decode(a + r * 8 * m->wide, w->file + m->a[r], m->a_type, 8 * m->wide);
    }
}

/* to[wide][8] = from[8][wide]; `wide` is a constant. */
static inline __attribute__((always_inline)) void turn(float *to, const float *from, uint32_t wide)
{
    for (uint32_t k = 0; k < wide; k++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            to[k * COLUMNS + column] = from[column * wide + k];
        }
    }
}

/* [k][8]. */
static void load_b(float *b, const sim_warp *w, const mma *m)
{
    float tile[COLUMNS * MAX_K / 2];
    for (uint32_t r = 0; r < m->b_count; r++, b += COLUMNS * m->wide) {
        sim_tile_decode(tile, w->file + m->b[r], m->b_type, 8 * m->wide);
        if (m->wide == 4) {
            turn(b, tile, 4);
        } else if (m->wide == 8) {
            turn(b, tile, 8);
        } else {
            turn(b, tile, 16);
        }
    }
}

/* c[half] += the product's rows 8 * half and up. */
static void multiply(float (*c)[SIM_TILE_SIZE], const sim_warp *w, const mma *m)
{
    float a[ROWS * MAX_K], b[MAX_K * COLUMNS];
    load_a(a, w, m);
    load_b(b, w, m);
    uint32_t tile = 8 * m->wide;
    for (uint32_t r = 0; r < m->a_count; r++) {
        sim_tile_multiply(c[r & 1], a + r * tile, b + (r >> 1) * tile, COLUMNS, m->wide);
    }
}

static void count(sim_warp *w, const mma *m)
{
    sim_count(w)->mma++;
    sim_count(w)->mma_flops += 2u * ROWS * COLUMNS * m->k;
    sim_count_mma(w, m->shape);
}

SIM_HANDLER(run_floats)
{
    const mma *m = i->data;
    sim_next next = sim_whole_warp(w, i, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    float c[2][SIM_TILE_SIZE];
    for (uint32_t half = 0; half < 2; half++) {
        sim_tile_load(c[half], w, m->c + half * m->c_count / 2, m->c_type);
    }
    multiply(c, w, m);
    for (uint32_t half = 0; half < 2; half++) {
        sim_tile_store(w, m->d + half * m->c_count / 2, m->d_type, c[half]);
    }
    count(w, m);
    return SIM_NEXT;
}

/* --- 16-bit elements with sums in f32, as nearly all are: the same steps without a call or a table --- */

#define ALWAYS_INLINE inline __attribute__((always_inline))
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16), aligned(4)));
typedef union fours {
    four part[2];
    eight all;
} fours;

/* Two vectors as one, and its parts; through memory where the compiler has no move between sizes (GCC before 12). */
#if __has_builtin(__builtin_shufflevector)
#define JOINED(low, high) __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7)
#define PART(v, n)        __builtin_shufflevector(v, v, 4 * (n), 4 * (n) + 1, 4 * (n) + 2, 4 * (n) + 3)
#else
#define JOINED(low, high) ((fours){{low, high}}).all
#define PART(v, n)        ((fours){.all = v}).part[n]
#endif
enum { HALF_DEPTH = 16 };

typedef struct halves {
    float a[2 * HALF_DEPTH / SIM_TILE][SIM_TILE_SIZE]; /* as its registers */
    float b[HALF_DEPTH][COLUMNS];                      /* a row's even columns first: as the sums lie in registers */
} halves;

static ALWAYS_INLINE void decode_halves(float *to, const void *from, ptx_type type)
{
    const uint16_t *bits = from;
    for (uint32_t e = 0; e < SIM_TILE_SIZE; e++) {
        to[e] = type == PTX_F16 ? sim_decode_f16(bits[e]) : sim_decode_bf16(bits[e]);
    }
}

static ALWAYS_INLINE void load_halves(halves *h, const sim_warp *w, const mma *m, ptx_type type)
{
    static const uint8_t order[COLUMNS] = {0, 2, 4, 6, 1, 3, 5, 7};
    for (uint32_t r = 0; r < m->b_count; r++) {
        sim_halves row[SIM_TILE];
        for (uint32_t column = 0; column < COLUMNS; column++) {
            memcpy(&row[column], w->file + m->b[r] + order[column] * sizeof row[0], sizeof row[0]);
        }
        sim_transpose_halves(row);
        decode_halves(h->b[r * SIM_TILE], row, type);
    }
    for (uint32_t r = 0; r < m->a_count; r++) {
        decode_halves(h->a[r], w->file + m->a[r], type);
    }
}

/* Eight rows, each with a sum of its own: an array of sums would not stay in registers. */
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

/* d[2][32] = c + the product, of rows 8 * half and up. */
static ALWAYS_INLINE void sum_halves(float *d, const sim_warp *w, const mma *m, const halves *h, uint32_t half)
{
    const four *low = (const four *)(const void *)sim_f32(w, m->c[2 * half]);
    const four *high = (const four *)(const void *)sim_f32(w, m->c[2 * half + 1]);
    four *to = (four *)(void *)d;
#define LOAD(row) eight sum##row = JOINED(low[row], high[row]);
#define ADD(row)  sum##row += a[(row)*SIM_TILE + k] * right;
#define STORE(row)                                                                                                     \
    to[row] = PART(sum##row, 0);                                                                                       \
    to[SIM_TILE + (row)] = PART(sum##row, 1);
    EACH_ROW(LOAD)
    for (uint32_t r = 0; r < m->b_count; r++) {
        const float *a = h->a[2 * r + half];
        for (uint32_t k = 0; k < SIM_TILE; k++) {
            eight right;
            memcpy(&right, h->b[r * SIM_TILE + k], sizeof right);
            EACH_ROW(ADD)
        }
    }
    EACH_ROW(STORE)
#undef LOAD
#undef ADD
#undef STORE
}

static ALWAYS_INLINE void multiply_halves(sim_warp *w, const mma *m, const halves *h)
{
    float d[4][PTX_LANES];
    sum_halves(d[0], w, m, h, 0);
    sum_halves(d[2], w, m, h, 1);
    for (uint32_t r = 0; r < 4; r++) { /* only now: any of them may be a source, too */
        float *to = sim_f32(w, m->d[r]);
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            to[l] = sim_canonical(d[r][l]);
        }
    }
}

/* Apart, so that what is loaded goes through memory: elements of A are broadcast from there. */
#define HALVES(name, ...)                                                                                              \
    __VA_ARGS__ static void load_##name(halves *h, const sim_warp *w, const mma *m)                                    \
    {                                                                                                                  \
        if (m->a_type == PTX_F16) {                                                                                    \
            load_halves(h, w, m, PTX_F16);                                                                             \
        } else {                                                                                                       \
            load_halves(h, w, m, PTX_BF16);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    __VA_ARGS__ static void multiply_##name(sim_warp *w, const mma *m, const halves *h)                                \
    {                                                                                                                  \
        multiply_halves(w, m, h);                                                                                      \
    }                                                                                                                  \
    SIM_HANDLER(run_##name)                                                                                            \
    {                                                                                                                  \
        sim_next next = sim_whole_warp(w, i, mask);                                                                    \
        if (next == SIM_NEXT) {                                                                                        \
            halves h;                                                                                                  \
            load_##name(&h, w, i->data);                                                                               \
            multiply_##name(w, i->data, &h);                                                                           \
            count(w, i->data);                                                                                         \
        }                                                                                                              \
        return next;                                                                                                   \
    }

HALVES(plain, __attribute__((noinline)))
#ifdef __x86_64__
/* No fma: the sums are the same bits on every machine. */
HALVES(fast, __attribute__((noinline, target("avx2"))))
#endif

static sim_handler halves_handler(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return run_fast;
    }
#endif
    return run_plain;
}

/* The products of 8-bit integers and the sum of 32 of them are exact in f32. */
SIM_HANDLER(run_integers)
{
    const mma *m = i->data;
    sim_next next = sim_whole_warp(w, i, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    float sum[2][SIM_TILE_SIZE] = {{0}};
    multiply(sum, w, m);
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        for (uint32_t e = 0; e < 4; e++) {
            int64_t exact = (int64_t)sum[e / 2][2 * l + e % 2] + sim_s32(w, m->c[e])[l];
            int64_t limited = exact > INT32_MAX ? INT32_MAX : exact < INT32_MIN ? INT32_MIN : exact;
            sim_u32(w, m->d[e])[l] = (uint32_t)(m->saturate ? limited : exact);
        }
    }
    count(w, m);
    return SIM_NEXT;
}

/* --- binding --- */

static bool bind_registers(ptx_bind *b, uint32_t index, uint32_t count, ptx_type type, uint32_t *slots)
{
    ptx_operand *vector = bind_vector(b, index, count);
    for (uint32_t r = 0; vector && r < count; r++) {
        slots[r] = index == 0 ? bind_dest_operand(b, &vector[r], type) : bind_source_operand(b, &vector[r], type);
    }
    return vector != NULL;
}

static bool is_eight(ptx_type type)
{
    return type == PTX_E4M3 || type == PTX_E5M2;
}

static bool is_integer(ptx_type type)
{
    return type == PTX_S8 || type == PTX_U8;
}

/* PTX ISA "mma": the shapes of each type of multiplicands; k is 128 or 256 bits (m16n8k4 of tf32: 128). */
static bool shape_fits(const mma *m)
{
    bool same = m->a_type == m->b_type || (is_eight(m->a_type) && is_eight(m->b_type)) ||
                (is_integer(m->a_type) && is_integer(m->b_type));
    uint32_t bits = m->k * (8 * ptx_type_size(m->a_type));
    bool half_sums = m->c_type == PTX_F16 && m->d_type == PTX_F16 && (m->a_type == PTX_F16 || is_eight(m->a_type));
    bool sums = is_integer(m->a_type) ? m->c_type == PTX_S32 && m->d_type == PTX_S32
                                      : (m->c_type == PTX_F32 && m->d_type == PTX_F32) || half_sums;
    bool known = m->a_type == PTX_F16 || m->a_type == PTX_BF16 || m->a_type == PTX_TF32 || is_eight(m->a_type) ||
                 is_integer(m->a_type);
    return known && same && sums && (bits == 256 || bits == 128);
}

static bool bind_mma(ptx_bind *b)
{
    static const char *const shapes[] = {"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", NULL};
    static const uint32_t depths[] = {4, 8, 16, 32};
    ptx_insn *i = b->insn;
    mma *m = bind_alloc(b, sizeof *m);
    if (!bind_take(b, "sync") || !bind_take(b, "aligned")) {
        return bind_fail(b, "needs .sync.aligned");
    }
    int shape = bind_choice(b, shapes);
    if (shape < 0 || !bind_take(b, "row") || !bind_take(b, "col")) {
        return bind_fail(b, "needs a shape m16n8k4 to m16n8k32, and .row.col");
    }
    m->k = depths[shape];
    m->saturate = bind_take(b, "satfinite");
    m->d_type = bind_type(b);
    m->a_type = bind_type(b);
    m->b_type = bind_type(b);
    m->c_type = bind_type(b);
    if (!bind_end(b) || !bind_operands(b, 4)) {
        return false;
    }
    if (!shape_fits(m) || (m->saturate && !is_integer(m->a_type))) {
        return bind_fail(b, "has no such shape of these types");
    }
    m->wide = 128 / (8 * ptx_type_size(m->a_type));
    m->a_count = 2 * m->k / m->wide;
    m->b_count = m->k / m->wide;
    m->c_count = m->c_type == PTX_F16 ? 2 : 4;
    ptx_type sum = m->c_type == PTX_F16 ? PTX_B32 : m->c_type;
    bool bound = bind_registers(b, 1, m->a_count, PTX_B32, m->a) && bind_registers(b, 2, m->b_count, PTX_B32, m->b) &&
                 bind_registers(b, 3, m->c_count, sum, m->c) && bind_registers(b, 0, m->c_count, sum, m->d);
    snprintf(m->shape, sizeof m->shape, "%s.%s", shapes[shape], ptx_type_name(m->a_type));
    i->data = m;
    bool short_floats = (m->a_type == PTX_F16 || m->a_type == PTX_BF16) && m->c_type == PTX_F32;
    i->run = short_floats ? halves_handler() : is_integer(m->a_type) ? run_integers : run_floats;
    return bound && bind_ok(b);
}

const ptx_op ptx_ops_mma[] = {{"mma", bind_mma}, {NULL, NULL}};
