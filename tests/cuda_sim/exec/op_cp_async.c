/* op_cp_async.c - cp.async: each lane copies 4, 8 or 16 bytes from global to shared memory, later.
 * Facts: PTX ISA, "Data Movement and Conversion Instructions: cp.async", ".commit_group", ".wait_group",
 * ".mbarrier.arrive". */
#include "../ptx/bind.h"
#include "sim.h"
#include <stdlib.h>
#include <string.h>

enum { WHOLE, SOURCE_SIZE, IGNORE_SOURCE };

/* insn: a, flag: destination and whether its lanes are 64 bits wide; b, extra: source likewise; count: bytes;
 * kind: what c is; data: the offsets. */
typedef struct offsets {
    int64_t to, from;
    bool ignore_negated;
} offsets;

typedef struct copy {
    sim_async base;
    uint32_t mask;
    uint64_t from[PTX_LANES];
    uint32_t to[PTX_LANES];   /* in the block's shared memory, from 0 */
    uint8_t bytes[PTX_LANES]; /* read; the others up to `size` become 0 */
    uint8_t size;
    bool whole; /* all lanes read `size` bytes */
} copy;

static sim_next perform_copy(sim_async *op)
{
    copy *c = (copy *)op;
    sim_warp *warp = op->agent.issuer;
    sim_block *owner[PTX_LANES];
    SIM_FOR_LANES(lane, c->mask)
    {
        owner[lane] = warp->block;
    }
    if (sim_shared_by_agent_lanes(&op->agent, c->mask, owner, c->to, c->size) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (c->whole && c->size == 16 && sim_global_lanes(warp, c->mask, c->from, 16)) { /* the common case */
        SIM_FOR_LANES(lane, c->mask)
        {
            memcpy(warp->block->shared + c->to[lane], (const void *)(uintptr_t)c->from[lane], 16); /* NOLINT */
        }
        return SIM_NEXT;
    }
    SIM_FOR_LANES(lane, c->mask)
    {
        op->agent.lane = lane;
        uint8_t *to = warp->block->shared + c->to[lane];
        if (c->bytes[lane] < c->size) {
            memset(to, 0, c->size);
        }
        if (!c->bytes[lane]) {
            continue;
        }
        const uint8_t *from =
            c->bytes[lane] == c->size
                ? sim_reach(warp, op->agent.insn, lane, PTX_GLOBAL, c->from[lane], c->size, SIM_READ, NULL, NULL)
                : sim_global_by_agent(&op->agent, c->from[lane], c->bytes[lane], SIM_READ);
        if (!from) {
            return SIM_FAULT;
        }
        if (c->bytes[lane] == 16) {
            memcpy(to, from, 16); /* as one move */
        } else {
            memcpy(to, from, c->bytes[lane]);
        }
    }
    return SIM_NEXT;
}

/* How many bytes lane reads, or -1 after a fault. */
static int source_bytes(sim_warp *warp, const ptx_insn *insn, uint32_t lane)
{
    const offsets *o = insn->data;
    if (insn->kind == WHOLE) {
        return insn->count;
    }
    if (insn->kind == IGNORE_SOURCE) {
        return ((*sim_pred(warp, insn->c) >> lane & 1) != 0) != o->ignore_negated ? 0 : insn->count;
    }
    uint32_t bytes = sim_u32(warp, insn->c)[lane];
    if (bytes > insn->count) {
        sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "src-size %u exceeds cp-size %u", bytes,
                     insn->count);
        return -1;
    }
    return (int)bytes;
}

/* Fills one lane of `c`; checks the destination and the alignment of the source. */
static sim_next prepare_lane(copy *c, uint32_t lane, uint64_t to)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    sim_block *owner = NULL;
    if (!sim_reach(warp, insn, lane, PTX_SHARED, to, c->size, SIM_WRITE, &owner, &c->to[lane])) {
        return SIM_FAULT;
    }
    if (owner != warp->block) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "cp.async into another block's shared memory");
    }
    int bytes = source_bytes(warp, insn, lane);
    if (bytes < 0) {
        return SIM_FAULT;
    }
    if (c->from[lane] % c->size) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_MISALIGNED, "source 0x%llx is not aligned to %u bytes",
                            (unsigned long long)c->from[lane], c->size);
    }
    c->bytes[lane] = (uint8_t)bytes;
    return SIM_NEXT;
}

/* Fills all lanes if they copy all their bytes and nothing is wrong with any. */
static bool prepare_at_once(copy *c, const uint64_t *to)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    const uint32_t *bytes = insn->kind == SOURCE_SIZE ? sim_u32(warp, insn->c) : NULL;
    uint64_t odd = insn->kind == IGNORE_SOURCE;
    SIM_FOR_LANES(lane, c->mask)
    {
        odd |= (c->from[lane] & (c->size - 1u)) | (bytes ? bytes[lane] ^ c->size : 0);
    }
    c->whole = !odd && sim_own_lanes(warp, c->mask, to, c->size, c->to);
    if (c->whole) {
        memset(c->bytes, c->size, sizeof c->bytes);
    }
    return c->whole;
}

/* Sectors of the sources and bank conflicts of the destinations, as of one access of the warp. (Lanes that read a part
 * are counted when they do.) */
static void account(const copy *c, const uint64_t *to)
{
    sim_warp *warp = c->base.agent.issuer;
    uint32_t whole = 0;
    SIM_FOR_LANES(lane, c->mask)
    {
        whole |= c->bytes[lane] == c->size ? 1u << lane : 0;
    }
    if (whole) {
        sim_count_global(warp, whole, c->from, c->size, SIM_READ);
    }
    sim_count_shared(warp, c->mask, to, c->size, SIM_WRITE);
}

static sim_next issue_copy(sim_warp *warp, const ptx_insn *insn, uint32_t lanes, const uint64_t *to,
                           const uint64_t *from)
{
    copy *c = calloc(1, sizeof *c);
    if (!c || !sim_agent_init(&c->base.agent, warp, insn, (uint32_t)__builtin_ctz(lanes), lanes, false)) {
        free(c);
        return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    c->base.kind = SIM_CP_ASYNC;
    c->base.lanes = lanes;
    c->base.blocks = 1u << warp->block->rank;
    c->base.perform = perform_copy;
    c->mask = lanes;
    c->size = insn->count;
    memcpy(c->from, from, sizeof c->from);
    if (!prepare_at_once(c, to)) {
        SIM_FOR_LANES(lane, lanes)
        {
            if (prepare_lane(c, lane, to[lane]) == SIM_FAULT) {
                sim_agent_end(&c->base.agent);
                free(c);
                return SIM_FAULT;
            }
        }
    }
    account(c, to);
    sim_count(warp)->async_copies++;
    return sim_async_issue(&c->base);
}

static sim_next run_copy(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const offsets *o = insn->data;
    uint64_t to[PTX_LANES], from[PTX_LANES];
    sim_addresses(warp, insn->a, insn->flag, o->to, to);
    sim_addresses(warp, insn->b, insn->extra, o->from, from);
    while (mask) {
        uint32_t lanes = sim_async_alike(warp, SIM_CP_ASYNC, mask);
        if (issue_copy(warp, insn, lanes, to, from) == SIM_FAULT) {
            return SIM_FAULT;
        }
        mask &= ~lanes;
    }
    return SIM_NEXT;
}

static sim_next run_commit(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)insn;
    sim_async_commit(warp, SIM_CP_ASYNC, mask);
    return SIM_NEXT;
}

static sim_next run_wait(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    return sim_async_wait(warp, SIM_CP_ASYNC, mask, insn->value, false);
}

static sim_next run_wait_all(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_async_commit(warp, SIM_CP_ASYNC, mask);
    return run_wait(warp, insn, mask);
}

/* --- arrival on an mbarrier when a lane's copies so far are done --- */
typedef struct arrival {
    sim_async base;
    sim_block *owner;
    uint32_t offset;
} arrival;

/* async.c has performed the copies; what they did becomes visible through the mbarrier. */
static sim_next perform_arrival(sim_async *op)
{
    arrival *a = (arrival *)op;
    if (sim_async_publish(op, a->owner, a->offset) == SIM_FAULT) {
        return SIM_FAULT;
    }
    return sim_mbarrier_arrive_agent(&op->agent, a->owner, a->offset);
}

static sim_next issue_arrival(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address)
{
    sim_block *owner = NULL;
    uint32_t offset = 0;
    if (!sim_reach(warp, insn, lane, PTX_SHARED, address, 8, SIM_ATOMIC, &owner, &offset)) {
        return SIM_FAULT;
    }
    if (owner != warp->block) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "the mbarrier is in another block");
    }
    if (!insn->flag && sim_mbarrier_expect_arrival(warp, insn, lane, owner, offset) == SIM_FAULT) {
        return SIM_FAULT;
    }
    arrival *a = calloc(1, sizeof *a);
    if (!a || !sim_agent_init(&a->base.agent, warp, insn, lane, UINT32_C(1) << lane, false)) {
        free(a);
        return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    a->base.kind = SIM_CP_ASYNC;
    a->base.follows = 1u << lane;
    a->base.blocks = 1u << warp->block->rank;
    a->base.perform = perform_arrival;
    a->owner = owner;
    a->offset = offset;
    return sim_async_issue(&a->base);
}

static sim_next run_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const offsets *o = insn->data;
    uint64_t address[PTX_LANES];
    sim_addresses(warp, insn->a, insn->extra, o->to, address);
    SIM_FOR_LANES(lane, mask)
    {
        if (issue_arrival(warp, insn, lane, address[lane]) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_NEXT;
}

/* --- binders --- */
static bool take_shared(ptx_bind *b)
{
    return bind_take(b, "shared") || bind_take(b, "shared::cta");
}

static bool bind_arrive(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (!bind_take(b, "arrive")) {
        return bind_fail(b, "arrive expected");
    }
    i->flag = bind_take(b, "noinc");
    take_shared(b);
    if (!bind_take(b, "b64")) {
        return bind_fail(b, "b64 expected");
    }
    offsets *o = bind_alloc(b, sizeof *o);
    i->data = o;
    if (!bind_end(b) || !bind_operands(b, 1)) {
        return false;
    }
    bool wide = false;
    i->a = bind_address(b, &i->operand[0], &wide);
    i->extra = wide;
    o->to = i->operand[0].offset;
    i->run = run_arrive;
    return bind_ok(b);
}

static bool bind_group(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (bind_take(b, "commit_group")) {
        i->run = run_commit;
        return bind_end(b) && bind_operands(b, 0);
    }
    if (bind_take(b, "wait_all")) {
        i->run = run_wait_all;
        return bind_end(b) && bind_operands(b, 0);
    }
    int64_t keep = 0;
    if (!bind_take(b, "wait_group") || !bind_end(b) || !bind_operands(b, 1) ||
        !bind_constant(b, &i->operand[0], &keep)) {
        return bind_fail(b, "not an instruction of cp.async groups");
    }
    if (keep < 0 || keep > UINT32_MAX) {
        return bind_fail(b, "the number of groups is negative or too large");
    }
    i->value = (uint32_t)keep;
    i->run = run_wait;
    return true;
}

/* Behind the two addresses: cp-size {, src-size or ignore-src} {, cache-policy}. */
static bool bind_sizes(ptx_bind *b, bool cg, bool hint)
{
    ptx_insn *i = b->insn;
    offsets *o = i->data;
    uint32_t rest = i->operand_count - (hint ? 1 : 0);
    int64_t size = 0;
    if (rest < 3 || rest > 4) {
        return bind_fail(b, "%u operands", i->operand_count);
    }
    if (!bind_constant(b, &i->operand[2], &size)) {
        return false;
    }
    if (size != 16 && (cg || (size != 4 && size != 8))) {
        return bind_fail(b, "cp-size %lld", (long long)size);
    }
    i->count = (uint8_t)size;
    if (rest == 4 && i->operand[3].kind == PTX_REGISTER && i->operand[3].type == PTX_PRED) {
        i->kind = IGNORE_SOURCE;
        i->c = bind_predicate(b, &i->operand[3], &o->ignore_negated);
    } else if (rest == 4) {
        if (i->operand[3].kind == PTX_IMMEDIATE && i->operand[3].bits > (uint64_t)size) {
            return bind_fail(b, "src-size exceeds cp-size");
        }
        i->kind = SOURCE_SIZE;
        i->c = bind_source(b, 3, PTX_U32);
    }
    if (hint) {
        bind_source(b, rest, PTX_B64);
    }
    return bind_ok(b);
}

static bool bind_copy(ptx_bind *b)
{
    static const char *const caches[] = {"ca", "cg", NULL};
    static const char *const prefetches[] = {"L2::64B", "L2::128B", "L2::256B", NULL};
    ptx_insn *i = b->insn;
    int cache = bind_choice(b, caches);
    if (cache < 0) {
        return bind_fail(b, "not a form of cp.async that is known");
    }
    if (!take_shared(b) || !bind_take(b, "global")) {
        return bind_fail(b, "cp.async copies from .global to .shared");
    }
    bool hint = bind_take(b, "L2::cache_hint");
    bind_choice(b, prefetches);
    if (!bind_end(b) || i->operand_count < 3) {
        return bind_fail(b, "operands are missing");
    }
    offsets *o = bind_alloc(b, sizeof *o);
    i->data = o;
    bool wide = false;
    i->a = bind_address(b, &i->operand[0], &wide);
    i->flag = wide;
    i->b = bind_address(b, &i->operand[1], &wide);
    i->extra = wide;
    if (!bind_ok(b)) {
        return false;
    }
    o->to = i->operand[0].offset;
    o->from = i->operand[1].offset;
    i->run = run_copy;
    return bind_sizes(b, cache == 1, hint);
}

/* "cp" is shared with the bulk copies. */
static bool bind_cp(ptx_bind *b)
{
    if (!bind_take(b, "async")) {
        return bind_bulk(b);
    }
    const char *next = b->next < b->insn->suffix_count ? b->insn->suffix[b->next] : "";
    if (strcmp(next, "bulk") == 0) {
        return bind_bulk(b);
    }
    if (b->module->target < 80) {
        return bind_fail(b, "cp.async needs sm_80");
    }
    if (bind_take(b, "mbarrier")) {
        return bind_arrive(b);
    }
    return strstr(next, "_group") || strcmp(next, "wait_all") == 0 ? bind_group(b) : bind_copy(b);
}

const ptx_op ptx_ops_cp_async[] = {{"cp", bind_cp}, {NULL, NULL}};
