/* op_atomic.c - atom and red (PTX ISA "Parallel Synchronization and Communication Instructions": "atom", "red").
 *
 * Lanes go one after another, each by a compare-and-swap of the host: other workers may use the same global memory at
 * the same time. A vector is as many atomics as it has elements. .acquire and .release are fences around it. */
#include "numeric.h"
#include "op_memory.h"

#include <stdatomic.h>

enum { MAX_VECTOR = 8 };

typedef enum atomic_kind { OP_AND, OP_OR, OP_XOR, OP_EXCH, OP_CAS, OP_ADD, OP_INC, OP_DEC, OP_MIN, OP_MAX } atomic_kind;

typedef struct atomic_op {
    int64_t offset;
    uint32_t address;                         /* slot of the base */
    uint32_t d[MAX_VECTOR], b[MAX_VECTOR], c; /* slots: old values (atom), operands, the new value of cas */
    uint32_t count, size;
    bool wide, returns, acquire, release;
    atomic_kind kind;
    ptx_type type;
    ptx_space space;
} atomic_op;

/* --- one operation on values --- */

/* atom.add.f32 on global memory reads and gives subnormal numbers as zeros of the same sign, on shared memory it keeps
 * them (PTX ISA "atom"). */
static uint32_t add_f32(uint32_t a, uint32_t b, bool flushes)
{
    float x = sim_float(a), y = sim_float(b);
    if (flushes) {
        x = fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
        y = fabsf(y) < 0x1p-126f ? copysignf(0, y) : y;
    }
    float sum = sim_canonical(x + y);
    return sim_bits32(flushes && fabsf(sum) < 0x1p-126f ? copysignf(0, sum) : sum);
}

/* add, min and max of f16 and bf16: a NaN loses against a number in min and max. */
static uint32_t combine_half(atomic_kind kind, uint32_t a, uint32_t b, ptx_type type)
{
    float x = type == PTX_F16 ? sim_decode_f16(a) : sim_decode_bf16(a);
    float y = type == PTX_F16 ? sim_decode_f16(b) : sim_decode_bf16(b);
    if (kind == OP_ADD) {
        return sim_encode(sim_odd_add(x, y), type, SIM_RN, false);
    }
    if (isnan(x) || isnan(y)) {
        return isnan(x) && isnan(y) ? 0x7fff : isnan(x) ? b : a;
    }
    bool below = x < y || (x == y && signbit(x));
    return below == (kind == OP_MIN) ? a : b;
}

static uint64_t combine_float(atomic_kind kind, uint64_t a, uint64_t b, ptx_type type, bool flushes)
{
    switch (type) {
    case PTX_F32:
        return add_f32((uint32_t)a, (uint32_t)b, flushes);
    case PTX_F64:
        return sim_bits64(sim_double(a) + sim_double(b));
    case PTX_F16X2:
    case PTX_BF16X2: {
        ptx_type half = type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
        uint32_t low = combine_half(kind, a & 0xffff, b & 0xffff, half);
        return low | combine_half(kind, (uint32_t)a >> 16, (uint32_t)b >> 16, half) << 16;
    }
    default:
        return combine_half(kind, (uint32_t)a, (uint32_t)b, type);
    }
}

static bool is_less(uint64_t a, uint64_t b, ptx_type type)
{
    switch (type) {
    case PTX_S32:
        return (int32_t)a < (int32_t)b;
    case PTX_S64:
        return (int64_t)a < (int64_t)b;
    default:
        return a < b;
    }
}

/* What memory that holds `a` holds afterwards; bits above the type's don't matter. */
static uint64_t combine(const atomic_op *op, uint64_t a, uint64_t b, uint64_t c, bool flushes)
{
    if (ptx_type_is_float(op->type)) {
        return combine_float(op->kind, a, b, op->type, flushes);
    }
    switch (op->kind) {
    case OP_AND:
        return a & b;
    case OP_OR:
        return a | b;
    case OP_XOR:
        return a ^ b;
    case OP_EXCH:
        return b;
    case OP_CAS:
        return a == b ? c : a;
    case OP_ADD:
        return a + b;
    case OP_INC:
        return a >= b ? 0 : a + 1;
    case OP_DEC:
        return a == 0 || a > b ? b : a - 1;
    case OP_MIN:
        return is_less(b, a, op->type) ? b : a;
    case OP_MAX:
        return is_less(a, b, op->type) ? b : a;
    }
    return a;
}

static uint64_t update_16(const atomic_op *op, uint8_t *host, uint64_t b, uint64_t c, bool flushes)
{
    _Atomic uint16_t *at = (_Atomic uint16_t *)(void *)host;
    uint16_t old = atomic_load(at);
    while (!atomic_compare_exchange_weak(at, &old, (uint16_t)combine(op, old, b, c, flushes))) {
    }
    return old;
}

static uint64_t update_32(const atomic_op *op, uint8_t *host, uint64_t b, uint64_t c, bool flushes)
{
    _Atomic uint32_t *at = (_Atomic uint32_t *)(void *)host;
    uint32_t old = atomic_load(at);
    while (!atomic_compare_exchange_weak(at, &old, (uint32_t)combine(op, old, b, c, flushes))) {
    }
    return old;
}

static uint64_t update_64(const atomic_op *op, uint8_t *host, uint64_t b, uint64_t c, bool flushes)
{
    _Atomic uint64_t *at = (_Atomic uint64_t *)(void *)host;
    uint64_t old = atomic_load(at);
    while (!atomic_compare_exchange_weak(at, &old, combine(op, old, b, c, flushes))) {
    }
    return old;
}

/* --- a warp --- */

static uint64_t lane_value(const sim_warp *warp, uint32_t slot, uint32_t lane, uint32_t size)
{
    return size == 8 ? sim_u64(warp, slot)[lane] : sim_u32(warp, slot)[lane];
}

static void update_lane(sim_warp *warp, const atomic_op *op, uint32_t lane, uint8_t *host, bool flushes)
{
    for (uint32_t k = 0; k < op->count; k++, host += op->size) {
        uint64_t b = lane_value(warp, op->b[k], lane, op->size);
        uint64_t c = op->kind == OP_CAS ? lane_value(warp, op->c, lane, op->size) : 0;
        uint64_t old = op->size == 8   ? update_64(op, host, b, c, flushes)
                       : op->size == 4 ? update_32(op, host, b, c, flushes)
                                       : update_16(op, host, b, c, flushes);
        if (op->returns && op->size == 8) {
            sim_u64(warp, op->d[k])[lane] = old;
        } else if (op->returns) {
            sim_u32(warp, op->d[k])[lane] = (uint32_t)old;
        }
    }
}

static sim_next run_atomic(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const atomic_op *op = insn->data;
    uint64_t address[PTX_LANES];
    uint8_t *host[PTX_LANES];
    sim_addresses(warp, op->address, op->wide, op->offset, address);
    if (op->release) {
        sim_memory_fence(warp, mask);
    }
    if (sim_reach_warp(warp, insn, mask, op->space, address, op->size * op->count, SIM_ATOMIC, host) != SIM_NEXT) {
        return SIM_FAULT;
    }
    SIM_FOR_LANES(lane, mask)
    {
        bool shared = op->space == PTX_SHARED || address[lane] >> 32 == SIM_SHARED_WINDOW >> 32;
        update_lane(warp, op, lane, host[lane], !shared);
    }
    if (op->acquire) {
        sim_memory_fence(warp, mask);
    }
    sim_count(warp)->atomics += (uint64_t)__builtin_popcount(mask) * op->count;
    /* It may wait for another block: let others run. */
    return op->returns && op->space != PTX_SHARED ? SIM_YIELD : SIM_NEXT;
}

/* --- binders --- */

/* {.relaxed,.acquire,.release,.acq_rel}{.cta,.cluster,.gpu,.sys}; red knows no .acquire and no .acq_rel. */
static bool bind_order(ptx_bind *b, atomic_op *op)
{
    static const char *const orders[] = {"relaxed", "release", "acquire", "acq_rel", NULL};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    int order = bind_choice(b, orders), scope = bind_choice(b, scopes);
    op->release = order == 1 || order == 3;
    op->acquire = order >= 2;
    if (op->acquire && !op->returns) {
        return bind_fail(b, "red has no .%s", orders[order]);
    }
    return (order < 0 || bind_needs_target(b, SM_70, "a memory order")) &&
           (scope < 0 || bind_needs_target(b, scope == 1 ? SM_90 : SM_60, "this scope"));
}

static bool takes_float(const atomic_op *op)
{
    switch (op->type) {
    case PTX_F32:
    case PTX_F64:
        return op->kind == OP_ADD;
    case PTX_F16:
    case PTX_F16X2:
    case PTX_BF16:
    case PTX_BF16X2:
        return op->kind == OP_ADD || (op->count > 1 && (op->kind == OP_MIN || op->kind == OP_MAX));
    default:
        return false;
    }
}

/* The table of operations and types of "atom". */
static bool takes_type(const atomic_op *op)
{
    ptx_type t = op->type;
    if (ptx_type_is_float(t)) {
        return takes_float(op);
    }
    switch (op->kind) {
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_EXCH:
        return t == PTX_B32 || t == PTX_B64;
    case OP_CAS:
        return t == PTX_B16 || t == PTX_B32 || t == PTX_B64;
    case OP_ADD:
        return t == PTX_U32 || t == PTX_S32 || t == PTX_U64;
    case OP_INC:
    case OP_DEC:
        return t == PTX_U32;
    default:
        return t == PTX_U32 || t == PTX_S32 || t == PTX_U64 || t == PTX_S64;
    }
}

static bool is_half(ptx_type t)
{
    return t == PTX_F16 || t == PTX_F16X2 || t == PTX_BF16 || t == PTX_BF16X2;
}

static bool bind_shape(ptx_bind *b, atomic_op *op)
{
    static const char *const vectors[] = {"v2", "v4", "v8", NULL};
    int vector = bind_choice(b, vectors);
    op->count = vector < 0 ? 1 : 2u << vector;
    op->type = bind_type(b);
    return !b->failed;
}

/* .op{.noftz}{.L2::cache_hint}{.vector}.type, or for vectors .vector.type.op{.noftz}{.L2::cache_hint}: the grammar has
 * the one, the examples and ptxas have both. */
static bool bind_operation(ptx_bind *b, atomic_op *op, bool *policy)
{
    static const char *const names[] = {"and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max", NULL};
    int kind = bind_choice(b, names);
    bool shape_first = kind < 0;
    if (shape_first && (!bind_shape(b, op) || (kind = bind_choice(b, names)) < 0)) {
        return bind_fail(b, "an operation is missing");
    }
    op->kind = (atomic_kind)kind;
    bool noftz = bind_take(b, "noftz");
    *policy = bind_take(b, "L2::cache_hint");
    if (!shape_first && !bind_shape(b, op)) {
        return false;
    }
    op->size = ptx_type_size(op->type);
    if (!bind_end(b)) {
        return false;
    }
    if (!takes_type(op) || (!op->returns && (op->kind == OP_EXCH || op->kind == OP_CAS)) ||
        noftz != is_half(op->type)) {
        return bind_fail(b, "this operation doesn't take .%s so", ptx_type_name(op->type));
    }
    if (op->count > 1 &&
        (op->space != PTX_GLOBAL || op->size > 4 || op->size * op->count > 16 || !ptx_type_is_float(op->type))) {
        return bind_fail(b, "a vector of this type is not possible here");
    }
    uint32_t target = op->count > 1 || op->type == PTX_BF16 || op->type == PTX_BF16X2 ? SM_90
                      : op->size == 2                                                 ? SM_70
                                                                                      : SM_60;
    return bind_needs_target(b, target, "this operation") &&
           (!*policy || bind_needs_target(b, SM_80, ".L2::cache_hint"));
}

static bool bind_values(ptx_bind *b, atomic_op *op)
{
    ptx_operand *value = bind_vector(b, op->returns ? 2 : 1, op->count);
    ptx_operand *old = op->returns && value ? bind_vector(b, 0, op->count) : NULL;
    if (!value || (op->returns && !old)) {
        return false;
    }
    for (uint32_t k = 0; k < op->count; k++) {
        op->b[k] = bind_source_operand(b, &value[k], op->type);
        if (old) {
            op->d[k] = bind_dest_or_sink(b, &old[k], op->type);
        }
    }
    if (op->kind == OP_CAS) {
        op->c = bind_source(b, 3, op->type);
    }
    return bind_ok(b);
}

/* atom d, [a], b{, c}{, policy}; red [a], b{, policy} */
static bool bind_atomic(ptx_bind *b, bool returns)
{
    atomic_op *op = bind_alloc(b, sizeof *op);
    bool policy = false;
    op->returns = returns;
    b->insn->data = op;
    b->insn->run = run_atomic;
    if (!bind_order(b, op)) {
        return false;
    }
    op->space = bind_space_if(b);
    if (op->space != PTX_GENERIC && op->space != PTX_GLOBAL && op->space != PTX_SHARED) {
        return bind_fail(b, "atomics are for .global and .shared memory");
    }
    uint32_t index = returns;
    if (!bind_operation(b, op, &policy) || !bind_operands(b, index + 2 + (op->kind == OP_CAS) + policy)) {
        return false;
    }
    if (!bind_memory_address(b, index, op->space, &op->address, &op->wide, &op->offset)) {
        return false;
    }
    if (policy) {
        bind_source(b, b->insn->operand_count - 1, PTX_B64);
    }
    return bind_values(b, op);
}

static bool bind_atom(ptx_bind *b)
{
    return bind_atomic(b, true);
}

static bool bind_red(ptx_bind *b)
{
    return bind_atomic(b, false);
}

const ptx_op ptx_ops_atomic[] = {{"atom", bind_atom}, {"red", bind_red}, {NULL, NULL}};
