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
    i->run = is_integer(m->a_type) ? run_integers : run_floats;
    return bound && bind_ok(b);
}

const ptx_op ptx_ops_mma[] = {{"mma", bind_mma}, {NULL, NULL}};
