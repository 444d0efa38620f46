/* op_wgmma.c - wgmma (PTX ISA "Asynchronous Warpgroup Level Matrix Instructions").
 *
 * Each of a warpgroup's four warps issues an operation of its own, for its 16 rows of A and D. Until the warp has
 * waited for it, it owns the accumulators and the registers of A: they are in flight and undefined. When the operation
 * is performed it reads shared memory, as an agent of the async proxy. */
#include "tile.h"
#include <stdio.h>
#include <stdlib.h>

enum { GROUP_WARPS = 4, WARP_ROWS = 16, MAX_COLUMNS = 256, CHUNK = SIM_PIECE, DEPTH_BYTES = 32, MAX_DEPTH = 32 };
enum { MAX_SUMS = MAX_COLUMNS / 2, INPUTS = 4 };

typedef struct wgmma {
    ptx_type type, other_type, sum_type; /* of A and B, of the accumulators */
    uint32_t columns, depth;
    uint32_t sum_count, sum[MAX_SUMS], sum_reg[MAX_SUMS];
    bool a_in_registers;
    uint32_t a[INPUTS], a_reg[INPUTS]; /* a[0]: also the slot of A's descriptor */
    uint32_t b;
    uint32_t scale_d;
    bool scale_d_negated, negative; /* the product is subtracted */
    bool a_by_rows, b_by_rows;      /* .trans: M or N innermost */
    char shape[SIM_SHAPE_NAME];
} wgmma;

typedef struct operation {
    sim_async base; /* first */
    const wgmma *how;
    uint64_t a, b; /* descriptors */
    bool accumulate;
} operation;

/* --- matrices in shared memory --- */

/* A descriptor (PTX ISA "Matrix Descriptor Format"). */
typedef struct layout {
    uint32_t start, leading, stride, phase; /* bytes; phase: the base offset, in rows of the pattern */
    uint32_t span, shift;                   /* bytes of the swizzle: 0, 32, 64, 128; 2^shift chunks */
    bool by_rows;                           /* the matrix' rows (M or N) are innermost, not K */
} layout;

static layout layout_of(uint64_t descriptor, bool by_rows)
{
    static const uint32_t spans[] = {0, 128, 64, 32}, shifts[] = {0, 3, 2, 1};
    return (layout){.start = (uint32_t)(descriptor & 0x3fff) << 4,
                    .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                    .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                    .phase = (uint32_t)(descriptor >> 49 & 7),
                    .span = spans[descriptor >> 62],
                    .shift = shifts[descriptor >> 62],
                    .by_rows = by_rows};
}

/* Address of a chunk of 16 bytes (PTX ISA "Shared Memory Matrix Layout", "Strides"): the `inner`-th in the innermost
 * direction, at place `outer` of the other one. Eight places by one chunk are a core matrix.
 *   K innermost: `stride` leads to the next eight rows; without a swizzle `leading` leads to the next chunk.
 *   Rows innermost: without a swizzle `stride` leads to the next chunk and `leading` to the next eight k; with one,
 *   `leading` leads to the next `span` bytes of rows and `stride` to the next eight k.
 * A swizzle exchanges the chunks of a line of `span` bytes: bits 4-6 of the address are xored with as many from bit 7
 * on, counted from where the pattern begins. */
static uint32_t chunk_address(const layout *at, uint32_t inner, uint32_t outer)
{
    uint32_t line = outer % 8, eight = outer / 8;
    if (at->span == 0) {
        uint32_t next_chunk = at->by_rows ? at->stride : at->leading;
        uint32_t next_eight = at->by_rows ? at->leading : at->stride;
        return at->start + line * CHUNK + eight * next_eight + inner * next_chunk;
    }
    uint32_t last = (1u << at->shift) - 1;
    uint32_t linear = at->start + line * at->span + eight * at->stride + (inner & last) * CHUNK +
                      (inner >> at->shift) * (at->by_rows ? at->leading : 0);
    uint32_t row = ((linear >> 7) - at->phase) & last;
    return linear ^ row << 4;
}

/* Chunks that an operation reads: a bit each of the 18-bit addresses of a descriptor. */
typedef struct chunks {
    uint64_t bits[(1 << 18) / CHUNK / 64];
} chunks;

static sim_next read_chunks(operation *op, const chunks *read)
{
    enum { BASE = SIM_SHARED_BASE / CHUNK / 64 };
    sim_block *block = op->base.agent.issuer->block;
    uint32_t count = (block->shared_bytes + 64 * CHUNK - 1) / (64 * CHUNK);
    uint32_t most = sizeof read->bits / sizeof read->bits[0] - BASE;
    return sim_shared_pieces_by_agent(&op->base.agent, block, read->bits + BASE, count < most ? count : most);
}

/* `rows` of the matrix from row `first` on, K = DEPTH_BYTES, as their chunks lie in the other matrix `to`: [rows][K]
 * or, by_rows, [K][rows]. */
static sim_next gather(operation *op, const layout *at, const char *name, uint32_t first, uint32_t rows, uint8_t *to,
                       chunks *read)
{
    sim_warp *warp = op->base.agent.issuer;
    uint32_t per_chunk = CHUNK / ptx_type_size(op->how->type);
    uint32_t inners = at->by_rows ? rows / per_chunk : DEPTH_BYTES / CHUNK;
    uint32_t outers = at->by_rows ? op->how->depth : rows;
    uint32_t inner_first = at->by_rows ? first / per_chunk : 0, outer_first = at->by_rows ? 0 : first;
    uint32_t end = SIM_SHARED_BASE + warp->block->shared_bytes;
    for (uint32_t outer = 0; outer < outers; outer++) {
        for (uint32_t inner = 0; inner < inners; inner++) {
            uint32_t address = chunk_address(at, inner_first + inner, outer_first + outer);
            if (address < SIM_SHARED_BASE || address + CHUNK > end) {
                return sim_fault_at(warp, op->base.agent.insn, -1, SIM_FAULT_ADDRESS,
                                    "matrix %s: shared address 0x%x is outside the block's %u bytes", name, address,
                                    warp->block->shared_bytes);
            }
            memcpy(to, warp->block->shared + address - SIM_SHARED_BASE, CHUNK);
            to += CHUNK;
            read->bits[address / CHUNK / 64] |= UINT64_C(1) << address / CHUNK % 64;
        }
    }
    return SIM_NEXT;
}

/* b[16][columns] of 16-bit elements [columns][16]. */
static void turn_halves(float *b, const uint8_t *from, ptx_type type, uint32_t columns)
{
    for (uint32_t column = 0; column < columns; column += SIM_TILE) {
        for (uint32_t k = 0; k < DEPTH_BYTES / 2; k += SIM_TILE) {
            sim_halves row[SIM_TILE];
            for (uint32_t r = 0; r < SIM_TILE; r++) {
                memcpy(&row[r], from + (column + r) * DEPTH_BYTES + 2 * k, sizeof row[r]);
            }
            sim_transpose_halves(row);
            float tile[SIM_TILE_SIZE];
            sim_tile_decode(tile, row, type, SIM_TILE_SIZE);
            for (uint32_t r = 0; r < SIM_TILE; r++) {
                memcpy(b + (size_t)(k + r) * columns + column, tile + r * SIM_TILE, SIM_TILE * sizeof *b);
            }
        }
    }
}

static void transpose(float *to, const float *from, uint32_t rows, uint32_t columns)
{
    for (uint32_t row = 0; row < rows; row += 8) {
        for (uint32_t column = 0; column < columns; column++) {
            for (uint32_t r = 0; r < 8; r++) {
                to[column * rows + row + r] = from[(row + r) * columns + column];
            }
        }
    }
}

/* a[16][depth]. */
static sim_next load_a(operation *op, float *a, chunks *read)
{
    const wgmma *how = op->how;
    sim_warp *warp = op->base.agent.issuer;
    if (how->a_in_registers) { /* fragments as those of mma.sync: 8 rows, half of the depth in each register */
        uint32_t wide = how->depth / 2;
        for (uint32_t r = 0; r < INPUTS; r++) {
            float tile[8 * MAX_DEPTH / 2];
            sim_tile_decode(tile, warp->file + how->a[r], how->type, 8 * wide);
            for (uint32_t row = 0; row < 8; row++) {
                memcpy(a + ((r & 1) * 8 + row) * how->depth + (r >> 1) * wide, tile + row * wide, wide * sizeof *a);
            }
        }
        return SIM_NEXT;
    }
    layout at = layout_of(op->a, how->a_by_rows);
    uint8_t bytes[WARP_ROWS * DEPTH_BYTES];
    uint32_t first = warp->id % GROUP_WARPS * WARP_ROWS;
    if (gather(op, &at, "A", first, WARP_ROWS, bytes, read) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (how->a_by_rows) {
        float turned[WARP_ROWS * MAX_DEPTH];
        sim_tile_decode(turned, bytes, how->type, WARP_ROWS * how->depth);
        transpose(a, turned, how->depth, WARP_ROWS);
    } else {
        sim_tile_decode(a, bytes, how->type, WARP_ROWS * how->depth);
    }
    return SIM_NEXT;
}

/* b[depth][columns]. */
static sim_next load_b(operation *op, float *b, chunks *read)
{
    const wgmma *how = op->how;
    layout at = layout_of(op->b, how->b_by_rows);
    uint8_t bytes[MAX_COLUMNS * DEPTH_BYTES];
    if (gather(op, &at, "B", 0, how->columns, bytes, read) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (how->b_by_rows) {
        sim_tile_decode(b, bytes, how->other_type, how->columns * how->depth);
    } else if (how->depth == DEPTH_BYTES / 2) {
        turn_halves(b, bytes, how->other_type, how->columns);
    } else {
        float turned[MAX_COLUMNS * MAX_DEPTH];
        sim_tile_decode(turned, bytes, how->other_type, how->columns * how->depth);
        transpose(b, turned, how->columns, how->depth);
    }
    return SIM_NEXT;
}

/* --- an operation --- */

/* PTX ISA "Register Fragments for wgmma.mma_async": per 8 columns, the fragments of rows 0-7 and then of rows 8-15. */
static sim_next perform(sim_async *base)
{
    operation *op = (operation *)base;
    const wgmma *how = op->how;
    sim_warp *warp = base->agent.issuer;
    float a[WARP_ROWS * MAX_DEPTH], b[MAX_COLUMNS * MAX_DEPTH];
    chunks read = {{0}};
    if (load_a(op, a, &read) == SIM_FAULT || load_b(op, b, &read) == SIM_FAULT || read_chunks(op, &read) == SIM_FAULT) {
        return SIM_FAULT;
    }
    for (uint32_t e = 0; how->negative && e < WARP_ROWS * how->depth; e++) {
        a[e] = -a[e];
    }
    uint32_t tiles = how->columns / 8 * 2, per_tile = how->sum_type == PTX_F16 ? 1 : 2;
    for (uint32_t t = 0; t < tiles; t++) {
        float c[SIM_TILE_SIZE] = {0};
        const uint32_t *slots = how->sum + t * per_tile;
        if (op->accumulate) {
            sim_tile_load(c, warp, slots, how->sum_type);
        }
        sim_tile_multiply(c, a + (t & 1) * 8 * how->depth, b + (t >> 1) * 8, how->columns, how->depth);
        sim_tile_store(warp, slots, how->sum_type, c);
    }
    return SIM_NEXT;
}

static void release(sim_warp *warp, const sim_async *op, const uint32_t *regs, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        if (warp->owner[regs[r]] == op) {
            warp->in_flight[regs[r]] = 0;
            warp->defined[regs[r]] = UINT32_MAX;
            warp->owner[regs[r]] = NULL;
        }
    }
}

static sim_next complete(sim_async *base)
{
    const wgmma *how = ((operation *)base)->how;
    sim_warp *warp = base->agent.issuer;
    release(warp, base, how->sum_reg, how->sum_count);
    if (how->a_in_registers) {
        release(warp, base, how->a_reg, INPUTS);
    }
    sim_agent_complete_warp(&base->agent, ~0u, warp);
    return SIM_NEXT;
}

static bool same_sums(const wgmma *a, const wgmma *b)
{
    return a->columns == b->columns && a->depth == b->depth && a->sum_type == b->sum_type;
}

static bool sums_to(const wgmma *how, uint32_t reg)
{
    for (uint32_t r = 0; r < how->sum_count; r++) {
        if (how->sum_reg[r] == reg) {
            return true;
        }
    }
    return false;
}

/* Whether the operation may use a register now. In flight it may only be as what another operation of the same shape
 * sums to, or as an input of both (PTX ISA "wgmma.fence"). */
static sim_next take(operation *op, uint32_t index, bool is_sum, bool is_read)
{
    uint32_t reg = is_sum ? op->how->sum_reg[index] : op->how->a_reg[index];
    sim_warp *warp = op->base.agent.issuer;
    const ptx_insn *insn = op->base.agent.insn;
    const char *name = sim_function(warp)->register_name[reg];
    const sim_async *owner = warp->owner[reg];
    if (owner) {
        const wgmma *other = ((const operation *)owner)->how;
        bool was_sum = other->sum_reg[index] == reg || sums_to(other, reg);
        if (was_sum != is_sum || (is_sum && !same_sums(op->how, other))) {
            return sim_fault_at(warp, insn, -1, SIM_FAULT_ASYNC,
                                "%s is in flight in a wgmma of line %u that was not waited for", name,
                                owner->agent.insn->line);
        }
    } else if (warp->unfenced[reg]) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_ASYNC, "%s was used since the last wgmma.fence", name);
    } else if (is_read && !sim_opts(warp)->no_undefined && warp->defined[reg] != UINT32_MAX) {
        return sim_fault_at(warp, insn, __builtin_ctz(~warp->defined[reg]), SIM_FAULT_UNDEFINED,
                            "%s is read but was never written", name);
    }
    warp->in_flight[reg] = UINT32_MAX;
    warp->defined[reg] = 0;
    return SIM_NEXT;
}

static sim_next take_registers(operation *op)
{
    const wgmma *how = op->how;
    for (uint32_t r = 0; r < how->sum_count; r++) {
        if (take(op, r, true, op->accumulate) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    for (uint32_t r = 0; how->a_in_registers && r < INPUTS; r++) {
        if (take(op, r, false, true) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    for (uint32_t r = 0; r < how->sum_count; r++) {
        op->base.agent.issuer->owner[how->sum_reg[r]] = &op->base;
    }
    for (uint32_t r = 0; how->a_in_registers && r < INPUTS; r++) {
        op->base.agent.issuer->owner[how->a_reg[r]] = &op->base;
    }
    return SIM_NEXT;
}

/* The descriptor of all lanes, which must be the same; bits that the ISA leaves out must be 0. */
static sim_next descriptor(sim_warp *w, const ptx_insn *i, uint32_t slot, const char *name, uint64_t *value)
{
    const uint64_t *lanes = sim_u64(w, slot);
    *value = lanes[0];
    for (uint32_t l = 1; l < PTX_LANES; l++) {
        if (lanes[l] != lanes[0]) {
            return sim_fault_at(w, i, (int)l, SIM_FAULT_INSTRUCTION, "the lanes' descriptors of %s differ", name);
        }
    }
    if (*value & UINT64_C(0x3ff1c000c000c000)) {
        return sim_fault_at(w, i, -1, SIM_FAULT_INSTRUCTION, "descriptor 0x%016llx of %s has reserved bits set",
                            (unsigned long long)*value, name);
    }
    return SIM_NEXT;
}

static sim_next whole_group(sim_warp *w, const ptx_insn *i, uint32_t mask)
{
    sim_next next = sim_whole_warp(w, i, mask);
    if (next == SIM_NEXT && w->id / GROUP_WARPS * GROUP_WARPS + GROUP_WARPS > w->block->warp_count) {
        return sim_fault_at(w, i, -1, SIM_FAULT_INSTRUCTION, "warp %u is in no warpgroup of four warps", w->id);
    }
    return next;
}

static void count(sim_warp *w, const wgmma *how)
{
    sim_count(w)->mma_flops += 2u * WARP_ROWS * how->columns * how->depth;
    if (w->id % GROUP_WARPS == 0) {
        sim_count(w)->wgmma++;
        sim_count_mma(w, how->shape);
    }
}

static bool uniform(uint32_t bits)
{
    return bits == 0 || bits == UINT32_MAX;
}

SIM_HANDLER(mma_async)
{
    const wgmma *how = i->data;
    sim_next next = whole_group(w, i, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    operation *op = calloc(1, sizeof *op);
    if (!op || !sim_agent_init(&op->base.agent, w, i, PTX_LANES, ~0u, true)) {
        free(op);
        return sim_fault_at(w, i, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    op->base.kind = SIM_WGMMA;
    op->base.lanes = op->base.follows = UINT32_MAX;
    op->base.blocks = 1u << w->block->rank;
    op->base.perform = perform;
    op->base.complete = complete;
    op->how = how;
    uint32_t scale = *sim_pred(w, how->scale_d) ^ (how->scale_d_negated ? UINT32_MAX : 0);
    op->accumulate = scale != 0;
    if (!uniform(scale)) {
        next = sim_fault_at(w, i, -1, SIM_FAULT_INSTRUCTION, "the lanes' scale-d differ");
    } else if (descriptor(w, i, how->b, "B", &op->b) == SIM_FAULT ||
               (!how->a_in_registers && descriptor(w, i, how->a[0], "A", &op->a) == SIM_FAULT) ||
               take_registers(op) == SIM_FAULT) {
        next = SIM_FAULT;
    }
    if (next == SIM_FAULT) {
        sim_agent_end(&op->base.agent);
        free(op);
        return next;
    }
    count(w, how);
    return sim_async_issue(&op->base);
}

SIM_HANDLER(fence)
{
    sim_next next = whole_group(w, i, mask);
    if (next == SIM_NEXT) {
        memset(w->unfenced, 0, sim_function(w)->register_count * sizeof *w->unfenced);
    }
    return next;
}

SIM_HANDLER(commit_group)
{
    sim_next next = whole_group(w, i, mask);
    if (next == SIM_NEXT) {
        sim_async_commit(w, SIM_WGMMA, mask);
    }
    return next;
}

SIM_HANDLER(wait_group)
{
    sim_next next = whole_group(w, i, mask);
    return next == SIM_NEXT ? sim_async_wait_warpgroup(w, i, i->value) : next;
}

/* --- binding --- */

/* Not noted as read and written: warp.c would take a chain of wgmma for a use of what is in flight. */
static bool bind_registers(ptx_bind *b, const ptx_operand *vector, ptx_type type, uint32_t *slots, uint32_t *regs)
{
    for (uint32_t r = 0; r < vector->count; r++) {
        const ptx_operand *element = &vector->element[r];
        bool fits =
            element->kind == PTX_REGISTER && ptx_type_size(element->type) == 4 &&
            (element->type == type || element->type == PTX_B32 || (type == PTX_B32 && element->type != PTX_F32));
        if (!fits) {
            return bind_fail(b, "a vector of %s registers expected", ptx_type_name(type));
        }
        slots[r] = element->slot;
        regs[r] = element->reg;
    }
    return true;
}

static bool bind_a(ptx_bind *b, wgmma *how)
{
    ptx_operand *a = &b->insn->operand[1];
    how->a_in_registers = a->kind == PTX_VECTOR;
    if (!how->a_in_registers) {
        how->a[0] = bind_source(b, 1, PTX_B64);
        return bind_ok(b);
    }
    if (a->count != INPUTS) {
        return bind_fail(b, "A is %d registers", INPUTS);
    }
    return bind_registers(b, a, PTX_B32, how->a, how->a_reg);
}

static bool bind_sign(ptx_bind *b, uint32_t index, bool *negative)
{
    int64_t value = 0;
    if (!bind_constant(b, &b->insn->operand[index], &value) || (value != 1 && value != -1)) {
        return bind_fail(b, "imm-scale is 1 or -1");
    }
    *negative ^= value < 0;
    return true;
}

static bool bind_transposed(ptx_bind *b, uint32_t index, bool *by_rows)
{
    int64_t value = 0;
    if (!bind_constant(b, &b->insn->operand[index], &value) || (value != 0 && value != 1)) {
        return bind_fail(b, "imm-trans is 0 or 1");
    }
    *by_rows = value;
    return true;
}

/* d, a, b, scale-d, imm-scale-a, imm-scale-b and, for 16-bit types, imm-trans-a (A in shared memory), imm-trans-b. */
static bool bind_operands_of(ptx_bind *b, wgmma *how)
{
    ptx_insn *i = b->insn;
    bool in_registers = i->operand_count > 1 && i->operand[1].kind == PTX_VECTOR;
    uint32_t transposes = ptx_type_size(how->type) != 2 ? 0 : in_registers ? 1 : 2;
    if (!bind_operands(b, 6 + transposes)) {
        return false;
    }
    const ptx_operand *sums = &i->operand[0];
    how->sum_count = how->columns / (how->sum_type == PTX_F16 ? 4 : 2);
    if (sums->kind != PTX_VECTOR || sums->count != how->sum_count) {
        return bind_fail(b, "D is %u registers", how->sum_count);
    }
    ptx_type sum_type = how->sum_type == PTX_F16 ? PTX_B32 : PTX_F32;
    if (!bind_registers(b, sums, sum_type, how->sum, how->sum_reg) || !bind_a(b, how)) {
        return false;
    }
    how->b = bind_source(b, 2, PTX_B64);
    how->scale_d = bind_predicate(b, &i->operand[3], &how->scale_d_negated);
    if (!bind_sign(b, 4, &how->negative) || !bind_sign(b, 5, &how->negative)) {
        return false;
    }
    if (transposes == 2 && !bind_transposed(b, 6, &how->a_by_rows)) {
        return false;
    }
    return transposes == 0 || bind_transposed(b, 5 + transposes, &how->b_by_rows);
}

static bool types_fit(const wgmma *how)
{
    bool eight = how->type == PTX_E4M3 || how->type == PTX_E5M2;
    bool other_eight = how->other_type == PTX_E4M3 || how->other_type == PTX_E5M2;
    bool known = eight || how->type == PTX_F16 || how->type == PTX_BF16 || how->type == PTX_TF32;
    bool sums = how->sum_type == PTX_F32 || (how->sum_type == PTX_F16 && (eight || how->type == PTX_F16));
    return known && sums && (how->type == how->other_type || (eight && other_eight)) &&
           how->depth * ptx_type_size(how->type) == DEPTH_BYTES;
}

/* "m64n256k16". */
static bool bind_shape(ptx_bind *b, wgmma *how)
{
    const char *shape = b->next < b->insn->suffix_count ? b->insn->suffix[b->next] : "";
    int end = 0;
    bool read = sscanf(shape, "m64n%3uk%2u%n", &how->columns, &how->depth, &end) == 2 && shape[end] == '\0';
    if (!read || how->columns < 8 || how->columns > MAX_COLUMNS || how->columns % 8) {
        return bind_fail(b, "needs a shape m64n8k* to m64n256k*");
    }
    return bind_take(b, shape);
}

static bool bind_mma_async(ptx_bind *b)
{
    wgmma *how = bind_alloc(b, sizeof *how);
    if (!bind_take(b, "sync") || !bind_take(b, "aligned")) {
        return bind_fail(b, "needs .sync.aligned");
    }
    if (!bind_shape(b, how)) {
        return false;
    }
    how->sum_type = bind_type(b);
    how->type = bind_type(b);
    how->other_type = bind_type(b);
    if (!bind_end(b)) {
        return false;
    }
    if (!types_fit(how)) {
        return bind_fail(b, "has no such shape of these types");
    }
    if (!bind_operands_of(b, how)) {
        return false;
    }
    snprintf(how->shape, sizeof how->shape, "m64n%uk%u.%s", how->columns, how->depth, ptx_type_name(how->type));
    b->insn->data = how;
    b->insn->run = mma_async;
    return bind_ok(b);
}

static bool bind_wgmma(ptx_bind *b)
{
    static const char *const names[] = {"mma_async", "fence", "commit_group", "wait_group", NULL};
    ptx_insn *i = b->insn;
    if (b->module->target != 90 || !b->module->arch_specific) {
        return bind_fail(b, "needs .target sm_90a");
    }
    int name = bind_choice(b, names);
    if (name == 0) {
        return bind_mma_async(b);
    }
    if (name < 0 || !bind_take(b, "sync") || !bind_take(b, "aligned") || !bind_end(b) ||
        !bind_operands(b, name == 3 ? 1 : 0)) {
        return bind_fail(b, "needs .sync.aligned");
    }
    int64_t keep = 0;
    if (name == 3 && (!bind_constant(b, &i->operand[0], &keep) || keep < 0 || keep > INT32_MAX)) {
        return bind_fail(b, "needs a number of groups");
    }
    i->value = (uint32_t)keep;
    i->run = name == 1 ? fence : name == 2 ? commit_group : wait_group;
    return bind_ok(b);
}

const ptx_op ptx_ops_wgmma[] = {{"wgmma", bind_wgmma}, {NULL, NULL}};
