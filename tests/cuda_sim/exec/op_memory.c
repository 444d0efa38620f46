/* op_memory.c - ld, st, ldu (PTX ISA "Data Movement and Conversion Instructions"). Cache operators and hints are read
 * and change nothing; the order of memory is kept by fences of the host. */
#include "op_memory.h"

#include <stdatomic.h>
#include <string.h>

enum { MAX_VECTOR = 8 };

typedef struct memory_op {
    int64_t offset;
    uint32_t address;              /* slot of the base */
    uint32_t slot[MAX_VECTOR];     /* of the values */
    uint32_t count, size;          /* elements, bytes of one in memory */
    uint8_t registers[MAX_VECTOR]; /* bytes of the register */
    bool row_is_plain; /* a row of lanes has loops of its own: registers as wide as memory, or 16 in 32 bits */
    bool wide, is_signed, acquire, release;
    bool polls; /* it may wait for another block: let others run */
    sim_access access;
    ptx_space space;
} memory_op;

/* --- loads --- */

/* One access of the host's: other workers may write the same place. */
static inline uint64_t load_host(const uint8_t *host, uint32_t size)
{
    switch (size) {
    case 1:
        return __atomic_load_n(host, __ATOMIC_RELAXED);
    case 2:
        return __atomic_load_n((const uint16_t *)(const void *)host, __ATOMIC_RELAXED);
    case 4:
        return __atomic_load_n((const uint32_t *)(const void *)host, __ATOMIC_RELAXED);
    default:
        return __atomic_load_n((const uint64_t *)(const void *)host, __ATOMIC_RELAXED);
    }
}

static inline uint64_t extend(uint64_t value, const memory_op *op, uint32_t registers)
{
    if (op->is_signed && op->size < sizeof value) {
        uint32_t shift = 64 - 8 * op->size;
        value = (uint64_t)((int64_t)(value << shift) >> shift);
        value &= registers < sizeof value ? (UINT64_C(1) << (8 * registers)) - 1 : UINT64_MAX;
    }
    return value;
}

static void load_words(uint32_t *d, uint32_t mask, uint8_t *const *host, uint32_t at)
{
    for (uint32_t lane = 0; mask == ~0u && lane < PTX_LANES; lane++) {
        d[lane] = (uint32_t)load_host(host[lane] + at, 4);
    }
    SIM_FOR_LANES(lane, mask == ~0u ? 0 : mask)
    {
        d[lane] = (uint32_t)load_host(host[lane] + at, 4);
    }
}

static void load_lanes(const sim_warp *warp, const memory_op *op, uint32_t mask, uint8_t *const *host)
{
    for (uint32_t k = 0; k < op->count; k++) {
        uint32_t at = k * op->size, registers = op->registers[k];
        if (op->size == 4 && registers == 4) { /* what kernels are full of */
            load_words(sim_u32(warp, op->slot[k]), mask, host, at);
        } else if (registers == 8) {
            uint64_t *d = sim_u64(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                d[lane] = extend(load_host(host[lane] + at, op->size), op, registers);
            }
        } else {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                d[lane] = (uint32_t)extend(load_host(host[lane] + at, op->size), op, registers);
            }
        }
    }
}

/* The lanes' bytes lie in a row, and go into registers of their width (16 bits: of 32). */
static inline void load_row(const sim_warp *warp, const memory_op *op, const uint8_t *row)
{
    uint32_t stride = op->size * op->count;
    for (uint32_t k = 0; k < op->count; k++, row += op->size) {
        uint32_t *d = sim_u32(warp, op->slot[k]);
        if (op->size == 4) {
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(&d[lane], row + (size_t)lane * stride, 4);
            }
        } else if (op->size == 8) {
            uint64_t *wide = sim_u64(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(&wide[lane], row + (size_t)lane * stride, 8);
            }
        } else {
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                uint16_t half;
                memcpy(&half, row + (size_t)lane * stride, 2);
                d[lane] = half;
            }
        }
    }
}

static void spread_row(const memory_op *op, uint8_t *row, uint8_t **host)
{
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        host[lane] = row + (size_t)lane * op->size * op->count;
    }
}

static sim_next run_load(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const memory_op *op = insn->data;
    uint64_t address[PTX_LANES];
    uint8_t *host[PTX_LANES], *row;
    sim_addresses(warp, op->address, op->wide, op->offset, address);
    if (sim_reach_row(warp, insn, mask, op->space, address, op->size * op->count, op->access, host, &row) != SIM_NEXT) {
        return SIM_FAULT;
    }
    if (row && op->row_is_plain) {
        load_row(warp, op, row);
    } else {
        if (row) {
            spread_row(op, row, host);
        }
        load_lanes(warp, op, mask, host);
    }
    if (op->acquire) {
        atomic_thread_fence(memory_order_acquire);
        sim_memory_fence(warp, mask);
    }
    return op->polls ? SIM_YIELD : SIM_NEXT;
}

/* --- stores --- */

static inline void store_host(uint8_t *host, uint64_t value, uint32_t size)
{
    switch (size) {
    case 1:
        __atomic_store_n(host, (uint8_t)value, __ATOMIC_RELAXED);
        break;
    case 2:
        __atomic_store_n((uint16_t *)(void *)host, (uint16_t)value, __ATOMIC_RELAXED);
        break;
    case 4:
        __atomic_store_n((uint32_t *)(void *)host, (uint32_t)value, __ATOMIC_RELAXED);
        break;
    default:
        __atomic_store_n((uint64_t *)(void *)host, value, __ATOMIC_RELAXED);
    }
}

static void store_lanes(const sim_warp *warp, const memory_op *op, uint32_t mask, uint8_t *const *host)
{
    for (uint32_t k = 0; k < op->count; k++) {
        uint32_t at = k * op->size;
        const uint32_t *s = sim_u32(warp, op->slot[k]);
        const uint64_t *wide = sim_u64(warp, op->slot[k]);
        SIM_FOR_LANES(lane, mask)
        {
            store_host(host[lane] + at, op->registers[k] == 8 ? wide[lane] : s[lane], op->size);
        }
    }
}

static void store_row(const sim_warp *warp, const memory_op *op, uint8_t *row)
{
    uint32_t stride = op->size * op->count;
    for (uint32_t k = 0; k < op->count; k++, row += op->size) {
        const uint32_t *s = sim_u32(warp, op->slot[k]);
        if (op->size == 4) {
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(row + (size_t)lane * stride, &s[lane], 4);
            }
        } else if (op->size == 8) {
            const uint64_t *wide = sim_u64(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(row + (size_t)lane * stride, &wide[lane], 8);
            }
        } else {
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                uint16_t half = (uint16_t)s[lane];
                memcpy(row + (size_t)lane * stride, &half, 2);
            }
        }
    }
}

/* Lanes that store different values to one address in one instruction: which one stays is left open (CUDA C++
 * Programming Guide, "SIMT Architecture", "Notes"), so the result depends on the machine. The same value is legal. */
static sim_next check_overlap(sim_warp *warp, const ptx_insn *insn, const memory_op *op, uint32_t mask,
                              uint8_t *const *host)
{
    for (uint32_t k = 0; k < op->count; k++) {
        SIM_FOR_LANES(lane, mask)
        {
            const uint8_t *s = op->registers[k] == 8 ? (const uint8_t *)(sim_u64(warp, op->slot[k]) + lane)
                                                     : (const uint8_t *)(sim_u32(warp, op->slot[k]) + lane);
            if (memcmp(host[lane] + k * op->size, s, op->size) != 0) {
                return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_RACE,
                                    "another lane of the same store writes another value to the same address");
            }
        }
    }
    return SIM_NEXT;
}

static sim_next run_store(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const memory_op *op = insn->data;
    uint64_t address[PTX_LANES];
    uint8_t *host[PTX_LANES], *row;
    sim_addresses(warp, op->address, op->wide, op->offset, address);
    if (op->release) {
        atomic_thread_fence(memory_order_release);
        sim_memory_fence(warp, mask);
    }
    if (sim_reach_row(warp, insn, mask, op->space, address, op->size * op->count, op->access, host, &row) != SIM_NEXT) {
        return SIM_FAULT;
    }
    if (row && op->row_is_plain) {
        store_row(warp, op, row);
        return SIM_NEXT;
    }
    if (row) {
        spread_row(op, row, host);
    }
    store_lanes(warp, op, mask, host);
    bool shared = op->space == PTX_SHARED && !(op->access & SIM_STRONG_MARK);
    return shared && !sim_opts(warp)->no_races ? check_overlap(warp, insn, op, mask, host) : SIM_NEXT;
}

/* --- binders --- */

/* .weak, .volatile, .relaxed.scope, .acquire.scope or .release.scope, .mmio.relaxed.sys. */
static bool bind_order(ptx_bind *b, memory_op *op, sim_access access)
{
    bool load = access == SIM_READ;
    op->access = access;
    if (bind_take(b, "weak")) {
        return true;
    }
    if (bind_take(b, "volatile")) {
        op->access |= SIM_STRONG_MARK;
        return true;
    }
    bool mmio = bind_take(b, "mmio"), relaxed = bind_take(b, "relaxed");
    bool ordered = !mmio && !relaxed && bind_take(b, load ? "acquire" : "release");
    if (mmio && !relaxed) {
        return bind_fail(b, ".mmio needs .relaxed.sys");
    }
    if (relaxed || ordered) {
        op->access |= SIM_STRONG_MARK;
        op->acquire = ordered && load;
        op->release = ordered && !load;
        return bind_needs_target(b, SM_70, "a memory order") && bind_scope(b);
    }
    return true;
}

/* Suffixes behind the space that say something to caches only, in the order of the grammar. */
static bool bind_hints(ptx_bind *b, ptx_space space, bool load, bool *non_coherent, bool *policy, bool *level2)
{
    static const char *const load_ops[] = {"ca", "cg", "cs", "lu", "cv", NULL};
    static const char *const store_ops[] = {"wb", "cg", "cs", "wt", NULL};
    static const char *const first[] = {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                                        "L1::evict_last",   "L1::no_allocate",     NULL};
    static const char *const second[] = {"L2::evict_normal", "L2::evict_first", "L2::evict_last", NULL};
    static const char *const prefetch[] = {"L2::64B", "L2::128B", "L2::256B", NULL};
    *non_coherent = load && bind_take(b, "nc");
    bool cached = bind_choice(b, load ? load_ops : store_ops) >= 0;
    *non_coherent |= load && bind_take(b, "nc"); /* on either side */
    bool evict = !cached && bind_choice(b, first) >= 0;
    *level2 = !cached && bind_choice(b, second) >= 0;
    *policy = bind_take(b, "L2::cache_hint");
    bool fetch = load && bind_choice(b, prefetch) >= 0;
    if ((evict || fetch) && space != PTX_GLOBAL && space != PTX_GENERIC) {
        return bind_fail(b, "eviction priorities and prefetch sizes are for .global memory");
    }
    return (!evict || bind_needs_target(b, SM_70, "an eviction priority")) &&
           (!*policy || bind_needs_target(b, SM_80, ".L2::cache_hint")) &&
           (!fetch || bind_needs_target(b, SM_70, "a prefetch size"));
}

static ptx_space bind_memory_space(ptx_bind *b)
{
    if (bind_take(b, "param::entry")) {
        return PTX_PARAM;
    }
    return bind_space_if(b);
}

/* Bytes of a register, as the file holds it: 2, 4 or 8; constants count as the type's. */
static uint32_t register_bytes(const ptx_operand *operand, ptx_type type)
{
    uint32_t size = ptx_type_size(operand->kind == PTX_REGISTER ? operand->type : type);
    return size < 2 ? 2 : size;
}

static bool bind_values(ptx_bind *b, memory_op *op, uint32_t index, bool load)
{
    ptx_type type = (ptx_type)b->insn->type;
    ptx_operand *element = bind_vector(b, index, op->count);
    op->row_is_plain = true;
    for (uint32_t k = 0; element && k < op->count; k++) {
        bool sink = element[k].kind == PTX_SINK;
        op->slot[k] = !load  ? bind_source_wide(b, &element[k], type)
                      : sink ? bind_dest_or_sink(b, &element[k], type)
                             : bind_dest_wide(b, &element[k], type);
        uint32_t bytes = register_bytes(&element[k], type);
        op->registers[k] = (uint8_t)bytes;
        op->row_is_plain &= op->size == bytes || (op->size == 2 && !(load && op->is_signed) && bytes == 4);
    }
    return element != NULL;
}

static bool bind_address_operand(ptx_bind *b, memory_op *op, uint32_t index)
{
    return bind_memory_address(b, index, op->space, &op->address, &op->wide, &op->offset);
}

/* .v2, .v4, .v8, and the type. Up to 128 bits; 256 of global memory from sm_100 on. */
static bool bind_vector_type(ptx_bind *b, memory_op *op)
{
    static const char *const names[] = {"v2", "v4", "v8", NULL};
    int choice = bind_choice(b, names);
    op->count = choice < 0 ? 1 : 2u << choice;
    ptx_type type = bind_type(b);
    b->insn->type = (uint8_t)type;
    op->size = ptx_type_size(type);
    op->is_signed = ptx_type_is_signed(type);
    if (b->failed) {
        return false;
    }
    if (op->size == 0 || op->size > 8 || (type >= PTX_F16 && type != PTX_F32 && type != PTX_F64)) {
        return bind_fail(b, "memory holds no .%s", ptx_type_name(type));
    }
    uint32_t bytes = op->size * op->count;
    if (bytes <= 16 && op->count <= 4) {
        return true;
    }
    if (bytes > 32 || op->size < 4 || (op->space != PTX_GLOBAL && op->space != PTX_GENERIC)) {
        return bind_fail(b, "a vector of %u bytes is too long", bytes);
    }
    return bind_needs_target(b, SM_100, "a vector of 32 bytes");
}

static memory_op *new_op(ptx_bind *b, sim_handler run)
{
    memory_op *op = bind_alloc(b, sizeof *op);
    b->insn->data = op;
    b->insn->run = run;
    return op;
}

static bool bind_policy(ptx_bind *b, bool policy, uint32_t index)
{
    if (!bind_operands(b, index + policy)) {
        return false;
    }
    if (policy) {
        bind_source(b, index, PTX_B64);
    }
    return true;
}

static bool bind_transfer(ptx_bind *b, bool load)
{
    memory_op *op = new_op(b, load ? run_load : run_store);
    bool non_coherent = false, policy = false, level2 = false;
    if (!bind_order(b, op, load ? SIM_READ : SIM_WRITE)) {
        return false;
    }
    op->space = bind_memory_space(b);
    b->insn->space = (uint8_t)op->space;
    if (!bind_hints(b, op->space, load, &non_coherent, &policy, &level2) || !bind_vector_type(b, op)) {
        return false;
    }
    bool strong = op->access & SIM_STRONG_MARK;
    op->polls = load && strong && op->space != PTX_SHARED;
    if (!load && (op->space == PTX_CONST || op->space == PTX_PARAM)) {
        return bind_fail(b, "this space can't be written");
    }
    if ((non_coherent && op->space != PTX_GLOBAL) || (non_coherent && strong)) {
        return bind_fail(b, ".nc is for weak loads of .global only");
    }
    if (strong && (op->space == PTX_CONST || op->space == PTX_PARAM || op->space == PTX_LOCAL)) {
        return bind_fail(b, "memory orders are for memory that others can write");
    }
    if (level2 && op->size * op->count != 32) {
        return bind_fail(b, ".L2::evict_* is for vectors of 32 bytes");
    }
    /* ld d, [a]{, policy}; st [a], b{, policy} */
    bool unified = load && bind_take(b, "unified");
    if (unified) {
        return bind_fail(b, ".unified is not supported");
    }
    return bind_end(b) && bind_policy(b, policy, 2) && bind_address_operand(b, op, load) &&
           bind_values(b, op, !load, load) && bind_ok(b);
}

static bool bind_ld(ptx_bind *b)
{
    return bind_transfer(b, true);
}

static bool bind_st(ptx_bind *b)
{
    return bind_transfer(b, false);
}

/* ldu.global: the address is the same for all lanes; a load like others. */
static bool bind_ldu(ptx_bind *b)
{
    memory_op *op = new_op(b, run_load);
    op->access = SIM_READ;
    op->space = bind_space_if(b);
    if (op->space != PTX_GLOBAL && op->space != PTX_GENERIC) {
        return bind_fail(b, "ldu reads .global memory");
    }
    return bind_vector_type(b, op) && bind_end(b) && bind_operands(b, 2) && bind_address_operand(b, op, 1) &&
           bind_values(b, op, 0, true) && bind_ok(b);
}

const ptx_op ptx_ops_memory[] = {{"ld", bind_ld}, {"st", bind_st}, {"ldu", bind_ldu}, {NULL, NULL}};
