/* op_bulk.c - cp.async.bulk, cp.async.bulk.tensor and their reductions: one thread starts a copy of many bytes.
 * Facts: PTX ISA "Data Movement and Conversion Instructions": cp.async.bulk, cp.reduce.async.bulk,
 * cp.async.bulk.prefetch, cp.async.bulk.commit_group, .wait_group, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor,
 * cp.async.bulk.prefetch.tensor. */
#include "../ptx/bind.h"
#include "bulk.h"
#include <stdlib.h>
#include <string.h>

enum { BULK_ALIGNMENT = 16, TENSOR_ALIGNMENT = 128 };

typedef enum way { LOAD, STORE, TO_SHARED, PREFETCH } way; /* TO_SHARED: from the own block's shared memory */

typedef struct place {
    uint32_t slot;
    bool wide;
    int64_t offset;
} place;

/* insn->data */
typedef struct form {
    way way;
    uint32_t rank;             /* 0: plain bytes */
    bool multicast, own_block; /* own_block: .shared::cta destination */
    bulk_reduce reduce;
    ptx_type type;
    place shared, global, barrier, source; /* global: or the tensor map; source: of TO_SHARED */
    uint32_t coordinate[5];                /* slots, as the next two */
    uint32_t size, blocks;
} form;

static uint64_t address_of(const sim_warp *warp, const place *p, uint32_t lane)
{
    uint64_t base = p->wide ? sim_u64(warp, p->slot)[lane] : sim_u32(warp, p->slot)[lane];
    return p->wide ? base + (uint64_t)p->offset : (uint32_t)(base + (uint64_t)p->offset);
}

/* --- performing --- */
static sim_next perform_load(sim_async *op)
{
    bulk_copy *c = (bulk_copy *)op;
    if (sim_shared_by_agent(&op->agent, c->block, c->offset, c->bytes, SIM_WRITE) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (c->rank) {
        if (tensor_load(c) == SIM_FAULT) {
            return SIM_FAULT;
        }
    } else {
        const uint8_t *global = sim_global_by_agent(&op->agent, c->global, c->bytes, SIM_READ);
        if (!global) {
            return SIM_FAULT;
        }
        memcpy(c->block->shared + c->offset, global, c->bytes);
    }
    return sim_mbarrier_complete_tx(&op->agent, ~0u, c->block, c->barrier, c->bytes);
}

static sim_next perform_to_shared(sim_async *op)
{
    bulk_copy *c = (bulk_copy *)op;
    if (sim_shared_by_agent(&op->agent, c->source, c->source_offset, c->bytes, SIM_READ) == SIM_FAULT ||
        sim_shared_by_agent(&op->agent, c->block, c->offset, c->bytes,
                            c->reduce == BULK_COPY ? SIM_WRITE : SIM_ATOMIC) == SIM_FAULT) {
        return SIM_FAULT;
    }
    reduce_span(c->reduce, c->type, c->block->shared + c->offset, c->source->shared + c->source_offset, c->bytes);
    return sim_mbarrier_complete_tx(&op->agent, ~0u, c->block, c->barrier, c->bytes);
}

static sim_next read_for_store(sim_async *op)
{
    bulk_copy *c = (bulk_copy *)op;
    c->staged = malloc(c->bytes);
    if (!c->staged) {
        return sim_fault_at(op->agent.issuer, op->agent.insn, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    if (sim_shared_by_agent(&op->agent, c->block, c->offset, c->bytes, SIM_READ) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (c->rank) {
        tensor_stage(c);
    } else {
        memcpy(c->staged, c->block->shared + c->offset, c->bytes);
    }
    return SIM_NEXT;
}

static sim_next perform_store(sim_async *op)
{
    bulk_copy *c = (bulk_copy *)op;
    if (!op->read_done && read_for_store(op) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (c->rank) {
        return tensor_store(c);
    }
    uint8_t *global =
        sim_global_by_agent(&op->agent, c->global, c->bytes, c->reduce == BULK_COPY ? SIM_WRITE : SIM_ATOMIC);
    if (!global) {
        return SIM_FAULT;
    }
    reduce_span(c->reduce, c->type, global, c->staged, c->bytes);
    return SIM_NEXT;
}

static void free_copy(sim_async *op)
{
    free(((bulk_copy *)op)->staged);
}

/* --- issuing --- */
static sim_next misaligned(sim_warp *warp, const ptx_insn *insn, uint32_t lane, const char *what, uint64_t value,
                           uint32_t alignment)
{
    return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_MISALIGNED, "%s 0x%llx is not a multiple of %u", what,
                        (unsigned long long)value, alignment);
}

/* The block and the offset of a shared address with `bytes` behind it. `own`: it must lie in the own block. */
static sim_next find_shared(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address, uint32_t bytes,
                            bool own, sim_block **block, uint32_t *offset)
{
    if (!sim_reach(warp, insn, lane, PTX_SHARED, address, 1, SIM_WRITE, block, offset)) {
        return SIM_FAULT;
    }
    if (own && *block != warp->block) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "0x%llx is in another block's shared memory",
                            (unsigned long long)address);
    }
    if (bytes > (*block)->shared_bytes - *offset) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS,
                            "%u bytes at 0x%llx reach beyond the block's %u bytes of shared memory", bytes,
                            (unsigned long long)address, (*block)->shared_bytes);
    }
    return SIM_NEXT;
}

/* Size, and what global memory is used: for all ways. */
static sim_next prepare_global(bulk_copy *c, const form *f, uint32_t lane)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    c->reduce = f->reduce;
    c->type = f->type;
    c->rank = f->rank;
    c->global = f->way == TO_SHARED ? 0 : address_of(warp, &f->global, lane);
    if (!f->rank) {
        c->bytes = sim_u32(warp, f->size)[lane];
        if (!c->bytes) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                                "the size is 0; a bulk copy takes a positive multiple of %u bytes", BULK_ALIGNMENT);
        }
        if (c->bytes % BULK_ALIGNMENT) {
            return misaligned(warp, insn, lane, "the size", c->bytes, BULK_ALIGNMENT);
        }
        return c->global % BULK_ALIGNMENT ? misaligned(warp, insn, lane, "global address", c->global, BULK_ALIGNMENT)
                                          : SIM_NEXT;
    }
    if (tensor_map_read(warp, insn, lane, c->global, f->rank, &c->map) == SIM_FAULT) {
        return SIM_FAULT;
    }
    c->bytes = tensor_box_bytes(&c->map);
    for (uint32_t d = 0; d < f->rank; d++) {
        c->coordinate[d] = sim_s32(warp, f->coordinate[d])[lane];
    }
    c->type = tensor_type(&c->map);
    if (!reduce_is_known(f->reduce, c->type)) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "no such reduction of %s elements",
                            ptx_type_name(c->type));
    }
    return SIM_NEXT;
}

static sim_next prepare_shared(bulk_copy *c, const form *f, uint32_t lane)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    uint64_t address = address_of(warp, &f->shared, lane);
    uint32_t alignment = f->rank ? TENSOR_ALIGNMENT : BULK_ALIGNMENT;
    if (address % alignment) {
        return misaligned(warp, insn, lane, "shared address", address, alignment);
    }
    if (find_shared(warp, insn, lane, address, c->bytes, f->way == STORE || f->own_block, &c->block, &c->offset) ==
        SIM_FAULT) {
        return SIM_FAULT;
    }
    if (f->way == TO_SHARED) {
        address = address_of(warp, &f->source, lane);
        if (address % BULK_ALIGNMENT) {
            return misaligned(warp, insn, lane, "shared address", address, BULK_ALIGNMENT);
        }
        return find_shared(warp, insn, lane, address, c->bytes, true, &c->source, &c->source_offset);
    }
    return SIM_NEXT;
}

static sim_next prepare_barrier(bulk_copy *c, const form *f, uint32_t lane)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    sim_block *block = NULL;
    if (!sim_reach(warp, insn, lane, PTX_SHARED, address_of(warp, &f->barrier, lane), sizeof(uint64_t), SIM_ATOMIC,
                   &block, &c->barrier)) {
        return SIM_FAULT;
    }
    if (block != c->block) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                            "the mbarrier is not in the block that the copy writes to");
    }
    return SIM_NEXT;
}

/* Takes `c`; with its own agent, since each is performed at its own time. */
static sim_next issue(bulk_copy *c, const form *f, uint32_t lane)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    if (!c->block->live_warps) {
        uint32_t rank = c->block->rank;
        free(c);
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "block %u of the cluster has ended", rank);
    }
    c->base.kind = f->way == STORE ? SIM_BULK_STORE : SIM_BULK_LOAD;
    c->base.lanes = f->way == STORE ? 1u << lane : 0;
    c->base.blocks = 1u << c->block->rank | (c->source ? 1u << c->source->rank : 0);
    c->base.read = f->way == STORE ? read_for_store : NULL;
    c->base.perform = f->way == LOAD ? perform_load : f->way == STORE ? perform_store : perform_to_shared;
    c->base.free = free_copy;
    if (!sim_agent_init(&c->base.agent, warp, insn, lane, UINT32_C(1) << lane, true)) {
        free(c);
        return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    sim_counters *counters = sim_count(warp);
    counters->async_copies++;
    counters->tma_bytes += c->bytes;
    return sim_async_issue(&c->base);
}

/* A copy of `c` for each block of the mask, at the same offsets. */
static sim_next issue_multicast(const bulk_copy *c, const form *f, uint32_t lane)
{
    sim_warp *warp = c->base.agent.issuer;
    const ptx_insn *insn = c->base.agent.insn;
    sim_cluster *cluster = warp->block->cluster;
    uint32_t mask = sim_u32(warp, f->blocks)[lane] & 0xffff;
    if (!mask || mask >> cluster->block_count) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                            "block mask 0x%x, and the cluster has %u blocks", mask, cluster->block_count);
    }
    for (uint32_t rank = 0; rank < cluster->block_count; rank++) {
        if (!(mask >> rank & 1)) {
            continue;
        }
        bulk_copy *one = malloc(sizeof *one);
        if (!one) {
            return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "out of memory");
        }
        *one = *c;
        one->block = &cluster->block[rank];
        if (issue(one, f, lane) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_NEXT;
}

static sim_next issue_lane(bulk_copy *c, const form *f, uint32_t lane)
{
    if (prepare_global(c, f, lane) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (f->way == PREFETCH) {
        return SIM_NEXT;
    }
    if (prepare_shared(c, f, lane) == SIM_FAULT || (f->way != STORE && prepare_barrier(c, f, lane) == SIM_FAULT)) {
        return SIM_FAULT;
    }
    if (f->multicast) {
        return issue_multicast(c, f, lane);
    }
    bulk_copy *one = malloc(sizeof *one);
    if (!one) {
        return sim_fault_at(c->base.agent.issuer, c->base.agent.insn, -1, SIM_FAULT_RESOURCES, "out of memory");
    }
    *one = *c;
    return issue(one, f, lane);
}

static sim_next run_bulk(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    SIM_FOR_LANES(lane, mask)
    {
        bulk_copy copy = {.base.agent = {.issuer = warp, .insn = insn}, .block = warp->block};
        if (issue_lane(&copy, insn->data, lane) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_NEXT;
}

static sim_next run_commit(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)insn;
    sim_async_commit(warp, SIM_BULK_STORE, mask);
    return SIM_NEXT;
}

static sim_next run_wait(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    return sim_async_wait(warp, SIM_BULK_STORE, mask, insn->value, insn->flag);
}

/* --- binders --- */
static bool bind_groups(ptx_bind *b, bool wait)
{
    ptx_insn *i = b->insn;
    int64_t keep = 0;
    i->flag = wait && bind_take(b, "read");
    if (!bind_end(b) || !bind_operands(b, wait ? 1 : 0)) {
        return false;
    }
    if (wait && (!bind_constant(b, &i->operand[0], &keep) || keep < 0 || keep > UINT32_MAX)) {
        return bind_fail(b, "the number of groups must be a constant");
    }
    i->value = (uint32_t)keep;
    i->run = wait ? run_wait : run_commit;
    return bind_ok(b);
}

/* The next operand, which is an address. */
static place bind_place(ptx_bind *b, uint32_t *next)
{
    place p = {0};
    if (*next >= b->insn->operand_count) {
        bind_fail(b, "operands are missing");
        return p;
    }
    ptx_operand *operand = &b->insn->operand[(*next)++];
    p.slot = bind_address(b, operand, &p.wide);
    p.offset = operand->offset;
    return p;
}

static uint32_t bind_value(ptx_bind *b, uint32_t *next, ptx_type type)
{
    if (*next >= b->insn->operand_count) {
        bind_fail(b, "operands are missing");
        return 0;
    }
    return bind_source(b, (*next)++, type);
}

/* [map, {x, y}] */
static void bind_tensor(ptx_bind *b, form *f, uint32_t *next)
{
    uint32_t at = *next;
    f->global = bind_place(b, next);
    if (!bind_ok(b)) {
        return;
    }
    ptx_operand *operand = &b->insn->operand[at];
    if (operand->count != 1 || operand->element[0].count != f->rank) {
        bind_fail(b, "%u coordinates expected", f->rank);
        return;
    }
    for (uint32_t d = 0; d < f->rank; d++) {
        f->coordinate[d] = bind_source_operand(b, &operand->element[0].element[d], PTX_S32);
    }
}

/* Operands in the order of the way; `hint`: a cache policy at the end. */
static bool bind_places(ptx_bind *b, form *f, bool hint)
{
    uint32_t next = 0;
    bool global_first = f->way == STORE || f->way == PREFETCH;
    if (!global_first) {
        f->shared = bind_place(b, &next);
    }
    if (f->way == TO_SHARED) {
        f->source = bind_place(b, &next);
    } else if (f->rank) {
        bind_tensor(b, f, &next);
    } else {
        f->global = bind_place(b, &next);
    }
    if (f->way == STORE) {
        f->shared = bind_place(b, &next);
    }
    if (!f->rank) {
        if (next < b->insn->operand_count && b->insn->operand[next].kind == PTX_IMMEDIATE &&
            b->insn->operand[next].bits % BULK_ALIGNMENT) {
            return bind_fail(b, "the size is not a multiple of %d", BULK_ALIGNMENT);
        }
        f->size = bind_value(b, &next, PTX_U32);
    }
    if (!global_first) {
        f->barrier = bind_place(b, &next);
    }
    if (f->multicast) {
        f->blocks = bind_value(b, &next, PTX_B16);
    }
    if (hint) {
        bind_value(b, &next, PTX_B64);
    }
    return bind_ok(b) && (next == b->insn->operand_count || bind_fail(b, "%u operands", b->insn->operand_count));
}

static bool bind_rank(ptx_bind *b, form *f)
{
    static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    if (!bind_take(b, "tensor")) {
        return true;
    }
    int rank = bind_choice(b, ranks);
    f->rank = (uint32_t)rank + 1;
    return rank >= 0 || bind_fail(b, "1d to 5d expected");
}

/* .dst.src */
static bool bind_way(ptx_bind *b, form *f)
{
    if (bind_take(b, "global")) {
        f->way = STORE;
        return bind_take(b, "shared::cta") || bind_fail(b, "the source must be .shared::cta");
    }
    f->own_block = bind_take(b, "shared::cta");
    if (!f->own_block && !bind_take(b, "shared::cluster")) {
        return bind_fail(b, ".global, .shared::cta or .shared::cluster expected");
    }
    if (bind_take(b, "global")) {
        f->way = LOAD;
        return true;
    }
    f->way = TO_SHARED;
    return (!f->own_block && !f->rank && bind_take(b, "shared::cta")) || bind_fail(b, "no copy between these spaces");
}

static bool bind_completion(ptx_bind *b, form *f)
{
    if (f->way == STORE) {
        return bind_take(b, "bulk_group") || bind_fail(b, ".bulk_group expected");
    }
    if (!bind_take(b, "mbarrier::complete_tx::bytes")) {
        return bind_fail(b, ".mbarrier::complete_tx::bytes expected");
    }
    f->multicast = f->way == LOAD && bind_take(b, "multicast::cluster");
    return !(f->multicast && f->own_block) || bind_fail(b, "multicast needs a .shared::cluster destination");
}

static bool bind_reduction(ptx_bind *b, form *f)
{
    static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", NULL};
    int reduction = bind_choice(b, names);
    f->reduce = (bulk_reduce)(reduction + 1);
    return reduction >= 0 || bind_fail(b, "the reduction is missing");
}

/* .noftz stands with the additions of f16 and bf16, and only there. */
static bool bind_reduced_type(ptx_bind *b, form *f)
{
    bool noftz = bind_take(b, "noftz");
    f->type = bind_type(b);
    bool half = f->type == PTX_F16 || f->type == PTX_BF16;
    if (!bind_ok(b) || noftz != (half && f->reduce == BULK_ADD) || !reduce_is_known(f->reduce, f->type) ||
        (f->way == TO_SHARED && (ptx_type_is_float(f->type) || ptx_type_size(f->type) < 4))) {
        return bind_fail(b, "no such reduction");
    }
    return true;
}

static bool bind_mode(ptx_bind *b, const form *f)
{
    static const char *const others[] = {"tile::gather4",  "tile::scatter4", "im2col", "im2col::w",
                                         "im2col::w::128", "im2col_no_offs", NULL};
    if (f->rank && !bind_take(b, "tile") && bind_choice(b, others) >= 0) { /* .tile is the default */
        return bind_fail(b, "im2col, gather4 and scatter4 are not supported");
    }
    return true;
}

/* Plain: way, completion, hint, reduction and type; tensor: way, reduction, mode, completion, hint. */
static bool bind_forms(ptx_bind *b, form *f, bool reduces)
{
    if (!bind_rank(b, f) || !bind_way(b, f) || (reduces && f->rank && !bind_reduction(b, f))) {
        return false;
    }
    if (reduces && f->way == LOAD) {
        return bind_fail(b, "no reduction from global to shared memory");
    }
    if (!bind_mode(b, f) || !bind_completion(b, f)) {
        return false;
    }
    bool hint = bind_take(b, "L2::cache_hint");
    if (reduces && !f->rank && (!bind_reduction(b, f) || !bind_reduced_type(b, f))) {
        return false;
    }
    return bind_end(b) && bind_places(b, f, hint);
}

static bool bind_prefetch(ptx_bind *b, form *f)
{
    f->way = PREFETCH;
    if (!bind_rank(b, f)) {
        return false;
    }
    if (!bind_take(b, "L2") || !bind_take(b, "global")) {
        return bind_fail(b, ".L2.global expected");
    }
    if (!bind_mode(b, f)) {
        return false;
    }
    bool hint = bind_take(b, "L2::cache_hint");
    return bind_end(b) && bind_places(b, f, hint);
}

bool bind_bulk(ptx_bind *b)
{
    bool reduces = bind_take(b, "reduce") && bind_take(b, "async");
    if (!bind_take(b, "bulk")) {
        return bind_fail(b, "not a form of cp that is known");
    }
    if (b->module->target < 90) {
        return bind_fail(b, "bulk copies need sm_90");
    }
    if (!reduces && bind_take(b, "commit_group")) {
        return bind_groups(b, false);
    }
    if (!reduces && bind_take(b, "wait_group")) {
        return bind_groups(b, true);
    }
    form *f = bind_alloc(b, sizeof *f);
    f->type = PTX_B8;
    b->insn->data = f;
    b->insn->run = run_bulk;
    return !reduces && bind_take(b, "prefetch") ? bind_prefetch(b, f) : bind_forms(b, f, reduces);
}

const ptx_op ptx_ops_bulk[] = {{NULL, NULL}};
