/* op_fence.c - fence and membar, isspacep, and hints for caches, which change nothing (PTX ISA "membar, fence",
 * "isspacep", "prefetch", "applypriority", "discard", "createpolicy"). */
#include "op_memory.h"

#include <stdatomic.h>

bool bind_needs_target(ptx_bind *b, uint32_t target, const char *what)
{
    return b->module->target >= target || bind_fail(b, "%s needs sm_%u", what, target);
}

bool bind_scope(ptx_bind *b)
{
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys", NULL};
    int scope = bind_choice(b, scopes);
    if (scope < 0) {
        return bind_fail(b, "a scope (.cta, .cluster, .gpu, .sys) is missing");
    }
    return scope != 1 || bind_needs_target(b, SM_90, "scope .cluster");
}

bool bind_memory_address(ptx_bind *b, uint32_t index, ptx_space space, uint32_t *slot, bool *wide, int64_t *offset)
{
    ptx_operand *operand = &b->insn->operand[index];
    if (operand->kind != PTX_ADDRESS || operand->count) {
        return bind_fail(b, "operand %u must be an address", index + 1);
    }
    *slot = bind_address(b, operand, wide);
    *offset = operand->offset;
    if (!*wide && (space == PTX_GLOBAL || space == PTX_GENERIC || space == PTX_CONST)) {
        return bind_fail(b, "the address must have 64 bits");
    }
    return !b->failed;
}

/* --- prefetch and hints --- */

static sim_next run_nothing(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return SIM_NEXT;
}

/* One operand: an address of which nothing is asked. PTX_PARAM: of any width. */
static bool bind_hint_address(ptx_bind *b, uint32_t operands, ptx_space space)
{
    uint32_t slot;
    bool wide;
    int64_t offset;
    b->insn->run = run_nothing;
    return bind_end(b) && bind_operands(b, operands) && bind_memory_address(b, 0, space, &slot, &wide, &offset);
}

/* prefetch{.global,.local}.{L1,L2}, prefetch.global.L2::evict_*, prefetch{.const,.param}.tensormap. A prefetch faults
 * nowhere ("no operation" on a bad address), so nothing is done. */
static bool bind_prefetch(ptx_bind *b)
{
    static const char *const levels[] = {"L1", "L2", "L2::evict_last", "L2::evict_normal", NULL};
    ptx_space space = bind_space_if(b);
    if (space != PTX_GLOBAL && bind_take(b, "tensormap")) {
        if (!bind_needs_target(b, SM_90, "prefetch.tensormap")) {
            return false;
        }
    } else if (bind_choice(b, levels) < 0) {
        return bind_fail(b, "a level is missing");
    } else if (space != PTX_GLOBAL && space != PTX_LOCAL && space != PTX_GENERIC) {
        return bind_fail(b, "prefetches .global and .local memory");
    }
    return bind_hint_address(b, 1, PTX_PARAM) && bind_ok(b);
}

static bool bind_prefetchu(ptx_bind *b)
{
    return bind_take(b, "L1") ? bind_hint_address(b, 1, PTX_GENERIC) && bind_ok(b) : bind_fail(b, ".L1 is missing");
}

/* applypriority{.global}.L2::evict_normal [a], 128 and discard{.global}.L2 [a], 128 */
static bool bind_range_hint(ptx_bind *b, const char *suffix)
{
    int64_t size = 0;
    ptx_space space = bind_space_if(b);
    if (!bind_take(b, suffix)) {
        return bind_fail(b, ".%s is missing", suffix);
    }
    return bind_hint_address(b, 2, space) && bind_constant(b, &b->insn->operand[1], &size) &&
           (size == 128 || bind_fail(b, "the size must be 128")) && bind_needs_target(b, SM_80, "this hint") &&
           bind_ok(b);
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
    if (!bind_needs_target(b, SM_80, "createpolicy")) {
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

/* A fence between proxies is none for the order of strong accesses. fence.mbarrier_init counts as a whole fence, though
 * it is one for mbarrier.init alone; as one between proxies it is only that. */
enum { MEMORY_FENCE, INIT_FENCE, PROXY_FENCE, OTHER_FENCE };

static sim_next run_fence(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (insn->kind == PROXY_FENCE) {
        sim_proxy_fence(warp, mask);
    } else if (insn->kind != OTHER_FENCE) {
        sim_memory_fence(warp, mask);
    }
    if (insn->kind == INIT_FENCE || insn->kind == PROXY_FENCE) {
        sim_mbarriers_fence(warp, mask);
    }
    return SIM_NEXT;
}

/* fence.proxy.{alias, async{.global, .shared::*}, tensormap::generic.{release,acquire}.scope} */
static bool bind_proxy_fence(ptx_bind *b)
{
    static const char *const from_tensormap[] = {"release", "acquire", NULL};
    if (bind_take(b, "alias")) {
        return bind_needs_target(b, SM_70, "fence.proxy.alias") && bind_end(b) && bind_operands(b, 0);
    }
    if (bind_take(b, "async")) {
        static const char *const spaces[] = {"global", "shared::cta", "shared::cluster", NULL};
        b->insn->kind = bind_choice(b, spaces) == 0 ? OTHER_FENCE : PROXY_FENCE; /* the race check is for .shared */
        return bind_needs_target(b, SM_90, "fence.proxy.async") && bind_end(b) && bind_operands(b, 0);
    }
    if (bind_take(b, "tensormap::generic")) {
        int choice = bind_choice(b, from_tensormap);
        if (choice < 0 || !bind_scope(b) || !bind_needs_target(b, SM_90, "fence.proxy.tensormap")) {
            return bind_fail(b, ".release or .acquire is missing");
        }
        if (choice == 0) {
            return bind_end(b) && bind_operands(b, 0);
        }
        return bind_hint_address(b, 2, PTX_GENERIC);
    }
    return bind_fail(b, "this proxy is not supported");
}

/* fence{.sc,.acq_rel,.acquire,.release}.scope, fence.mbarrier_init.release.cluster, fence.proxy.* */
static bool bind_fence(ptx_bind *b)
{
    static const char *const orders[] = {"sc", "acq_rel", "acquire", "release", NULL};
    b->insn->run = run_fence;
    if (!bind_needs_target(b, SM_70, "fence")) {
        return false;
    }
    if (bind_take(b, "proxy")) {
        b->insn->kind = OTHER_FENCE;
        return bind_proxy_fence(b) && bind_ok(b);
    }
    if (bind_take(b, "mbarrier_init")) {
        if (!bind_take(b, "release") || !bind_take(b, "cluster")) {
            return bind_fail(b, ".release.cluster is missing");
        }
        b->insn->kind = INIT_FENCE;
        return bind_needs_target(b, SM_90, "fence.mbarrier_init") && bind_end(b) && bind_operands(b, 0) && bind_ok(b);
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

const ptx_op ptx_ops_fence[] = {{"fence", bind_fence},
                                {"membar", bind_membar},
                                {"isspacep", bind_isspacep},
                                {"prefetch", bind_prefetch},
                                {"prefetchu", bind_prefetchu},
                                {"applypriority", bind_applypriority},
                                {"discard", bind_discard},
                                {"createpolicy", bind_createpolicy},
                                {NULL, NULL}};
