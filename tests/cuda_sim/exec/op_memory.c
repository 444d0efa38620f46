/* op_memory.c - ld, st, ldu, prefetch, fence, membar, isspacep and the hints for caches (PTX ISA "Data Movement and
 * Conversion Instructions", "Parallel Synchronization and Communication Instructions"). Cache operators and hints are
 * read and change nothing; the order of memory is kept by fences of the host. */
#include "../ptx/bind.h"
#include "sim.h"

#include <stdatomic.h>
#include <string.h>

enum { MAX_VECTOR = 8, SM_70 = 70, SM_80 = 80, SM_90 = 90, SM_100 = 100 };

typedef struct memory_op {
    int64_t offset;
    uint32_t address;                /* slot of the base */
    uint32_t slot[MAX_VECTOR];       /* of the values */
    uint32_t count, size, registers; /* elements, bytes of one in memory and of one in a register */
    bool wide, is_signed, acquire, release;
    bool polls; /* it may wait for another block: let others run */
    sim_access access;
    ptx_space space;
} memory_op;

/* --- loads --- */

static inline uint64_t load_host(const uint8_t *host, uint32_t size)
{
    uint64_t value = 0;
    memcpy(&value, host, size);
    return value;
}

static inline uint64_t extend(uint64_t value, const memory_op *op)
{
    if (op->is_signed && op->size < sizeof value) {
        uint32_t shift = 64 - 8 * op->size;
        value = (uint64_t)((int64_t)(value << shift) >> shift);
        value &= op->registers < sizeof value ? (UINT64_C(1) << (8 * op->registers)) - 1 : UINT64_MAX;
    }
    return value;
}

static void load_lanes(const sim_warp *warp, const memory_op *op, uint32_t mask, uint8_t *const *host)
{
    for (uint32_t k = 0; k < op->count; k++) {
        uint32_t at = k * op->size;
        if (op->registers == 4 && op->size == 4) {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                memcpy(&d[lane], host[lane] + at, 4);
            }
        } else if (op->registers == 8) {
            uint64_t *d = sim_u64(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                d[lane] = extend(load_host(host[lane] + at, op->size), op);
            }
        } else {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                d[lane] = (uint32_t)extend(load_host(host[lane] + at, op->size), op);
            }
        }
    }
}

/* The lanes' bytes lie in a row. */
static void load_row(const sim_warp *warp, const memory_op *op, const uint8_t *row)
{
    uint32_t stride = op->size * op->count;
    for (uint32_t k = 0; k < op->count; k++) {
        const uint8_t *from = row + k * op->size;
        if (op->registers == 4 && op->size == 4) {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(&d[lane], from + (size_t)lane * stride, 4);
            }
        } else if (op->registers == 8) {
            uint64_t *d = sim_u64(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                d[lane] = extend(load_host(from + (size_t)lane * stride, op->size), op);
            }
        } else if (op->size == 2 && !op->is_signed) {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                d[lane] = (uint32_t)load_host(from + (size_t)lane * stride, 2);
            }
        } else {
            uint32_t *d = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                d[lane] = (uint32_t)extend(load_host(from + (size_t)lane * stride, op->size), op);
            }
        }
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
    if (row) {
        load_row(warp, op, row);
    } else {
        load_lanes(warp, op, mask, host);
    }
    if (op->acquire) {
        atomic_thread_fence(memory_order_acquire);
        sim_memory_fence(warp);
    }
    return op->polls ? SIM_YIELD : SIM_NEXT;
}

/* --- stores --- */

static inline void store_lanes(const sim_warp *warp, const memory_op *op, uint32_t mask, uint8_t *const *host)
{
    for (uint32_t k = 0; k < op->count; k++) {
        uint32_t at = k * op->size;
        if (op->registers == 4 && op->size == 4) {
            const uint32_t *s = sim_u32(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                memcpy(host[lane] + at, &s[lane], 4);
            }
        } else if (op->registers == 8) {
            const uint64_t *s = sim_u64(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                memcpy(host[lane] + at, &s[lane], op->size);
            }
        } else {
            const uint32_t *s = sim_u32(warp, op->slot[k]);
            SIM_FOR_LANES(lane, mask)
            {
                memcpy(host[lane] + at, &s[lane], op->size);
            }
        }
    }
}

static void store_row(const sim_warp *warp, const memory_op *op, uint8_t *row)
{
    uint32_t stride = op->size * op->count;
    for (uint32_t k = 0; k < op->count; k++) {
        uint8_t *to = row + k * op->size;
        if (op->registers == 4 && op->size == 4) {
            const uint32_t *s = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(to + (size_t)lane * stride, &s[lane], 4);
            }
        } else if (op->registers == 8) {
            const uint64_t *s = sim_u64(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(to + (size_t)lane * stride, &s[lane], op->size);
            }
        } else if (op->size == 2) {
            const uint32_t *s = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(to + (size_t)lane * stride, &s[lane], 2);
            }
        } else {
            const uint32_t *s = sim_u32(warp, op->slot[k]);
            for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
                memcpy(to + (size_t)lane * stride, &s[lane], op->size);
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
            const uint8_t *s = op->registers == 8 ? (const uint8_t *)(sim_u64(warp, op->slot[k]) + lane)
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
        sim_memory_fence(warp);
    }
    if (sim_reach_row(warp, insn, mask, op->space, address, op->size * op->count, op->access, host, &row) != SIM_NEXT) {
        return SIM_FAULT;
    }
    if (row) {
        store_row(warp, op, row);
        return SIM_NEXT;
    }
    store_lanes(warp, op, mask, host);
    bool shared = op->space == PTX_SHARED && !(op->access & SIM_STRONG_MARK);
    return shared && !sim_opts(warp)->no_races ? check_overlap(warp, insn, op, mask, host) : SIM_NEXT;
}

/* --- binders --- */

static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};

static bool needs_target(ptx_bind *b, uint32_t target, const char *what)
{
    return b->module->target >= target || bind_fail(b, "%s needs sm_%u", what, target);
}

static bool bind_scope(ptx_bind *b)
{
    int scope = bind_choice(b, scopes);
    if (scope < 0) {
        return bind_fail(b, "a scope (.cta, .cluster, .gpu, .sys) is missing");
    }
    return scope != 1 || needs_target(b, SM_90, "scope .cluster");
}

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
        return needs_target(b, SM_70, "a memory order") && bind_scope(b);
    }
    return true;
}

/* Suffixes behind the space that say something to caches only, in the order of the grammar. */
static bool bind_hints(ptx_bind *b, bool load, bool *non_coherent, bool *policy, bool *level2)
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
    return (!evict || needs_target(b, SM_70, "an eviction priority")) &&
           (!*policy || needs_target(b, SM_80, ".L2::cache_hint")) &&
           (!fetch || needs_target(b, SM_70, "a prefetch size"));
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
    for (uint32_t k = 0; element && k < op->count; k++) {
        bool sink = element[k].kind == PTX_SINK;
        op->slot[k] = !load  ? bind_source_wide(b, &element[k], type)
                      : sink ? bind_dest_or_sink(b, &element[k], type)
                             : bind_dest_wide(b, &element[k], type);
        uint32_t bytes = register_bytes(&element[k], type);
        if (k && bytes != op->registers) {
            return bind_fail(b, "the elements of a vector must be registers of one width");
        }
        op->registers = bytes;
    }
    return element != NULL;
}

static bool bind_address_operand(ptx_bind *b, memory_op *op, uint32_t index)
{
    ptx_operand *operand = &b->insn->operand[index];
    if (operand->kind != PTX_ADDRESS || operand->count) {
        return bind_fail(b, "operand %u must be an address", index + 1);
    }
    op->address = bind_address(b, operand, &op->wide);
    op->offset = operand->offset;
    if (!op->wide && (op->space == PTX_GLOBAL || op->space == PTX_GENERIC || op->space == PTX_CONST)) {
        return bind_fail(b, "the address must have 64 bits");
    }
    return true;
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
    return needs_target(b, SM_100, "a vector of 32 bytes");
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
    if (!bind_hints(b, load, &non_coherent, &policy, &level2) || !bind_vector_type(b, op)) {
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
    if (strong && (op->space == PTX_CONST || op->space == PTX_PARAM)) {
        return bind_fail(b, "memory orders are for memory that can be written");
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

/* --- prefetch and hints --- */

static sim_next run_nothing(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return SIM_NEXT;
}

static bool bind_hint_address(ptx_bind *b)
{
    memory_op *op = new_op(b, run_nothing);
    return bind_end(b) && bind_operands(b, 1) && bind_address_operand(b, op, 0) && bind_ok(b);
}

/* prefetch{.global,.local}.{L1,L2}, prefetch.global.L2::evict_*, prefetch{.const,.param}.tensormap. A prefetch faults
 * nowhere ("no operation" on a bad address), so nothing is done. */
static bool bind_prefetch(ptx_bind *b)
{
    static const char *const levels[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal", NULL};
    ptx_space space = bind_space_if(b);
    if (space != PTX_GLOBAL && bind_take(b, "tensormap")) {
        if (!needs_target(b, SM_90, "prefetch.tensormap")) {
            return false;
        }
    } else if (bind_choice(b, levels) < 0) {
        return bind_fail(b, "a level is missing");
    }
    memory_op *op = new_op(b, run_nothing);
    op->space = PTX_PARAM; /* any width of address */
    return bind_end(b) && bind_operands(b, 1) && bind_address_operand(b, op, 0) && bind_ok(b);
}

static bool bind_prefetchu(ptx_bind *b)
{
    return bind_take(b, "L1") ? bind_hint_address(b) : bind_fail(b, ".L1 is missing");
}

/* applypriority{.global}.L2::evict_normal [a], 128 and discard{.global}.L2 [a], 128 */
static bool bind_range_hint(ptx_bind *b, const char *suffix)
{
    memory_op *op = new_op(b, run_nothing);
    int64_t size = 0;
    op->space = bind_space_if(b);
    if (!bind_take(b, suffix)) {
        return bind_fail(b, ".%s is missing", suffix);
    }
    return bind_end(b) && bind_operands(b, 2) && bind_address_operand(b, op, 0) &&
           bind_constant(b, &b->insn->operand[1], &size) && (size == 128 || bind_fail(b, "the size must be 128")) &&
           needs_target(b, SM_80, "this hint") && bind_ok(b);
}

static bool bind_applypriority(ptx_bind *b)
{
    return bind_range_hint(b, "L2::evict_normal");
}

static bool bind_discard(ptx_bind *b)
{
    return bind_range_hint(b, "L2");
}

static sim_next run_createpolicy(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint64_t *d = sim_u64(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = 0; /* opaque, and nobody looks into it */
    }
    return SIM_NEXT;
}

/* createpolicy.fractional.L2::evict_*{.L2::evict_*}.b64 d{, fraction} */
static bool bind_createpolicy(ptx_bind *b)
{
    static const char *const primary[] = {"L2::evict_last", "L2::evict_normal", "L2::evict_first",
                                          "L2::evict_unchanged", NULL};
    static const char *const secondary[] = {"L2::evict_first", "L2::evict_unchanged", NULL};
    if (!needs_target(b, SM_80, "createpolicy")) {
        return false;
    }
    if (!bind_take(b, "fractional") || bind_choice(b, primary) < 0) {
        return bind_fail(b, "only createpolicy.fractional is supported");
    }
    (void)bind_choice(b, secondary);
    if (!bind_take(b, "b64") || !bind_end(b)) {
        return bind_fail(b, ".b64 is missing");
    }
    if (b->insn->operand_count == 2) {
        bind_source(b, 1, PTX_F32);
    } else if (!bind_operands(b, 1)) {
        return false;
    }
    b->insn->d = bind_dest(b, 0, PTX_B64);
    b->insn->run = run_createpolicy;
    return bind_ok(b);
}

/* --- fences --- */

static sim_next run_fence(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)mask;
    atomic_thread_fence(memory_order_seq_cst);
    sim_memory_fence(warp);
    if (insn->flag) {
        sim_proxy_fence(warp);
    }
    return SIM_NEXT;
}

/* fence.proxy.{alias, async{.global, .shared::*}, tensormap::generic.{release,acquire}.scope} */
static bool bind_proxy_fence(ptx_bind *b)
{
    static const char *const from_tensormap[] = {"release", "acquire", NULL};
    if (bind_take(b, "alias")) {
        return needs_target(b, SM_70, "fence.proxy.alias") && bind_end(b) && bind_operands(b, 0);
    }
    if (bind_take(b, "async")) {
        static const char *const spaces[] = {"global", "shared::cta", "shared::cluster", NULL};
        b->insn->flag = bind_choice(b, spaces) != 0;
        return needs_target(b, SM_90, "fence.proxy.async") && bind_end(b) && bind_operands(b, 0);
    }
    if (bind_take(b, "tensormap::generic")) {
        int choice = bind_choice(b, from_tensormap);
        if (choice < 0 || !bind_scope(b) || !needs_target(b, SM_90, "fence.proxy.tensormap")) {
            return bind_fail(b, ".release or .acquire is missing");
        }
        if (choice == 0) {
            return bind_end(b) && bind_operands(b, 0);
        }
        memory_op op = {.space = PTX_GENERIC};
        return bind_end(b) && bind_operands(b, 2) && bind_address_operand(b, &op, 0);
    }
    return bind_fail(b, "this proxy is not supported");
}

/* fence{.sc,.acq_rel,.acquire,.release}.scope, fence.mbarrier_init.release.cluster, fence.proxy.* */
static bool bind_fence(ptx_bind *b)
{
    static const char *const orders[] = {"sc", "acq_rel", "acquire", "release", NULL};
    b->insn->run = run_fence;
    if (!needs_target(b, SM_70, "fence")) {
        return false;
    }
    if (bind_take(b, "proxy")) {
        return bind_proxy_fence(b) && bind_ok(b);
    }
    if (bind_take(b, "mbarrier_init")) {
        if (!bind_take(b, "release") || !bind_take(b, "cluster")) {
            return bind_fail(b, ".release.cluster is missing");
        }
        return needs_target(b, SM_90, "fence.mbarrier_init") && bind_end(b) && bind_operands(b, 0) && bind_ok(b);
    }
    (void)bind_choice(b, orders); /* .acq_rel is the default */
    return bind_scope(b) && bind_end(b) && bind_operands(b, 0) && bind_ok(b);
}

static bool bind_membar(ptx_bind *b)
{
    static const char *const levels[] = {"cta", "gl", "sys", NULL};
    b->insn->run = run_fence;
    if (bind_choice(b, levels) < 0) {
        return bind_fail(b, "a level (.cta, .gl, .sys) is missing");
    }
    return bind_end(b) && bind_operands(b, 0) && bind_ok(b);
}

/* --- isspacep --- */

enum { IN_GLOBAL, IN_SHARED_CTA, IN_SHARED_CLUSTER, IN_LOCAL, IN_PARAM };

static bool lies_in(const sim_warp *warp, uint32_t kind, uint64_t address)
{
    uint64_t window = address >> 32, rank = (address & 0xffffffffu) >> SIM_RANK_SHIFT;
    switch (kind) {
    case IN_SHARED_CTA:
        return window == SIM_SHARED_WINDOW >> 32 && (rank == 0 || rank == warp->block->rank + 1);
    case IN_SHARED_CLUSTER:
        return window == SIM_SHARED_WINDOW >> 32 && rank <= warp->block->cluster->block_count;
    case IN_LOCAL:
        return window == SIM_LOCAL_WINDOW >> 32;
    case IN_PARAM:
        return window == SIM_PARAM_WINDOW >> 32;
    default:
        return window != SIM_SHARED_WINDOW >> 32 && window != SIM_LOCAL_WINDOW >> 32 &&
               window != SIM_PARAM_WINDOW >> 32;
    }
}

static sim_next run_isspacep(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const uint64_t *a = sim_u64(warp, insn->a);
    uint32_t inside = 0, *d = sim_pred(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        inside |= (uint32_t)lies_in(warp, insn->kind, a[lane]) << lane;
    }
    *d = (*d & ~mask) | inside;
    return SIM_NEXT;
}

static bool bind_isspacep(ptx_bind *b)
{
    static const char *const names[] = {"global", "shared::cta",  "shared::cluster", "local",
                                        "param",  "param::entry", "shared",          NULL};
    static const uint8_t kinds[] = {IN_GLOBAL, IN_SHARED_CTA, IN_SHARED_CLUSTER, IN_LOCAL,
                                    IN_PARAM,  IN_PARAM,      IN_SHARED_CTA};
    int choice = bind_choice(b, names);
    if (choice < 0) {
        return bind_fail(b, "a space is missing, or not supported");
    }
    b->insn->kind = kinds[choice];
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    b->insn->d = bind_dest(b, 0, PTX_PRED);
    b->insn->a = bind_source(b, 1, PTX_B64);
    b->insn->run = run_isspacep;
    return bind_ok(b);
}

const ptx_op ptx_ops_memory[] = {{"ld", bind_ld},
                                 {"st", bind_st},
                                 {"ldu", bind_ldu},
                                 {"prefetch", bind_prefetch},
                                 {"prefetchu", bind_prefetchu},
                                 {"applypriority", bind_applypriority},
                                 {"discard", bind_discard},
                                 {"createpolicy", bind_createpolicy},
                                 {"fence", bind_fence},
                                 {"membar", bind_membar},
                                 {"isspacep", bind_isspacep},
                                 {NULL, NULL}};
