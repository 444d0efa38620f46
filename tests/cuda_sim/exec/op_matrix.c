/* op_matrix.c - ldmatrix, stmatrix, movmatrix (PTX ISA "Warp-level Matrix Instructions").
 *
 * A matrix has 8 rows of 8 16-bit elements; lane l holds two of row l / 4, or (.trans) of column l / 4. Lane r + 8 m
 * gives the address of row r of matrix m. */
#include "tile.h"

enum { SIDE = 8, ROW_BYTES = 16 };

/* A register of all lanes, read as memory, is a matrix row by row: lane l has elements l % 4 * 2 and the next of row
 * l / 4. */
typedef struct matrix {
    uint16_t row[SIDE][SIDE];
} matrix;

static void transpose(matrix *to, const matrix *from)
{
    for (uint32_t r = 0; r < SIDE; r++) {
        for (uint32_t c = 0; c < SIDE; c++) {
            to->row[c][r] = from->row[r][c];
        }
    }
}

/* insn->count matrices; data: their registers' slots; flag: .trans; extra: 64-bit addresses; value: operand of the
 * address. */
static sim_next reach(sim_warp *w, const ptx_insn *i, uint32_t mask, sim_access access, uint8_t **host)
{
    sim_next next = sim_whole_warp(w, i, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    uint64_t address[PTX_LANES];
    sim_addresses(w, i->a, i->extra, i->operand[i->value].offset, address);
    uint32_t lanes = i->count == 4 ? UINT32_MAX : (1u << (SIDE * i->count)) - 1;
    return sim_reach_warp(w, i, lanes, (ptx_space)i->space, address, ROW_BYTES, access, host);
}

SIM_HANDLER(ldmatrix)
{
    uint8_t *host[PTX_LANES];
    sim_next next = reach(w, i, mask, SIM_WARP_READ, host);
    const uint32_t *slots = i->data;
    for (uint32_t m = 0; next == SIM_NEXT && m < i->count; m++) {
        matrix rows, *to = (matrix *)(void *)sim_u32(w, slots[m]);
        for (uint32_t r = 0; r < SIDE; r++) {
            memcpy(rows.row[r], host[m * SIDE + r], ROW_BYTES);
        }
        if (i->flag) {
            transpose(to, &rows);
        } else {
            *to = rows;
        }
    }
    return next;
}

SIM_HANDLER(stmatrix)
{
    uint8_t *host[PTX_LANES];
    sim_next next = reach(w, i, mask, SIM_WRITE, host);
    const uint32_t *slots = i->data;
    for (uint32_t m = 0; next == SIM_NEXT && m < i->count; m++) {
        matrix rows, *from = (matrix *)(void *)sim_u32(w, slots[m]);
        if (i->flag) {
            transpose(&rows, from);
        } else {
            rows = *from;
        }
        for (uint32_t r = 0; r < SIDE; r++) {
            memcpy(host[m * SIDE + r], rows.row[r], ROW_BYTES);
        }
    }
    return next;
}

SIM_HANDLER(movmatrix)
{
    sim_next next = sim_whole_warp(w, i, mask);
    if (next == SIM_NEXT) {
        const matrix from = *(const matrix *)(void *)sim_u32(w, i->a);
        transpose((matrix *)(void *)sim_u32(w, i->d), &from);
    }
    return next;
}

static bool bind_rows(ptx_bind *b, bool store)
{
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sync") || !bind_take(b, "aligned") || !bind_take(b, "m8n8")) {
        return bind_fail(b, "needs .sync.aligned.m8n8");
    }
    int count = bind_choice(b, counts);
    i->flag = bind_take(b, "trans");
    i->space = (uint8_t)bind_space_if(b);
    if (count < 0 || (i->space != PTX_SHARED && i->space != PTX_GENERIC) || !bind_take(b, "b16")) {
        return bind_fail(b, "needs .x1, .x2 or .x4, shared memory, and .b16");
    }
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    i->count = (uint8_t)(1u << count);
    i->value = store ? 0 : 1;
    ptx_operand *vector = bind_vector(b, store ? 1 : 0, i->count);
    uint32_t *slots = bind_alloc(b, i->count * sizeof *slots);
    bool wide;
    i->a = bind_address(b, &i->operand[i->value], &wide);
    i->extra = wide;
    for (uint32_t m = 0; vector && m < i->count; m++) {
        slots[m] = store ? bind_source_operand(b, &vector[m], PTX_B32) : bind_dest_operand(b, &vector[m], PTX_B32);
    }
    i->data = slots;
    i->run = store ? stmatrix : ldmatrix;
    return bind_ok(b);
}

static bool bind_ldmatrix(ptx_bind *b)
{
    return bind_rows(b, false);
}
static bool bind_stmatrix(ptx_bind *b)
{
    return bind_rows(b, true);
}

static bool bind_movmatrix(ptx_bind *b)
{
    static const char *const all[] = {"sync", "aligned", "m8n8", "trans"};
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        if (!bind_take(b, all[s])) {
            return bind_fail(b, "needs .sync.aligned.m8n8.trans.b16");
        }
    }
    b->insn->type = PTX_B32; /* registers of two .b16 */
    return bind_take(b, "b16") ? sim_bind_same(b, 1, movmatrix) : bind_fail(b, "needs .b16");
}

const ptx_op ptx_ops_matrix[] = {
    {"ldmatrix", bind_ldmatrix}, {"stmatrix", bind_stmatrix}, {"movmatrix", bind_movmatrix}, {NULL, NULL}};
