/* op_barrier.c - bar, barrier and barrier.cluster. */
#include "barrier.h"
#include "op_memory.h"
#include <string.h>

typedef enum { REDUCE_NONE, REDUCE_POPC, REDUCE_AND, REDUCE_OR } reduction;

/* insn->a: slot of the barrier's number; b: of the thread count, if count; c: of the predicate, negated if extra;
 * flag: aligned; kind: reduction; width: waits. */
static sim_next arrival_of(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_arrival *arrival)
{
    uint32_t first = (uint32_t)__builtin_ctz(mask);
    const uint32_t *id = sim_u32(warp, insn->a), *threads = insn->count ? sim_u32(warp, insn->b) : NULL;
    *arrival = (sim_arrival){.id = id[first],
                             .counted = threads != NULL,
                             .threads = threads ? threads[first] : 0,
                             .waits = insn->width != 0,
                             .reduces = insn->kind != REDUCE_NONE};
    SIM_FOR_LANES(lane, mask)
    {
        if (id[lane] != arrival->id || (threads && threads[lane] != arrival->threads)) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                                "the threads of a warp name different barriers or thread counts");
        }
    }
    if (arrival->id >= SIM_BARRIERS) {
        return sim_fault_at(warp, insn, (int)first, SIM_FAULT_INSTRUCTION, "barrier %u of 16", arrival->id);
    }
    if (threads && (arrival->threads == 0 || arrival->threads % PTX_LANES)) {
        return sim_fault_at(warp, insn, (int)first, SIM_FAULT_INSTRUCTION,
                            "%u threads, not a multiple of the warp size", arrival->threads);
    }
    if (arrival->reduces) {
        uint32_t values = *sim_pred(warp, insn->c);
        arrival->values = insn->extra ? ~values : values;
    }
    return SIM_NEXT;
}

static void store_result(sim_warp *warp, const ptx_insn *insn, uint32_t lanes, const sim_reduction *result)
{
    if (insn->kind == REDUCE_POPC) {
        uint32_t *d = sim_u32(warp, insn->d);
        SIM_FOR_LANES(lane, lanes)
        {
            d[lane] = result->count;
        }
    } else if (insn->kind != REDUCE_NONE) {
        uint32_t *d = sim_pred(warp, insn->d);
        bool value = insn->kind == REDUCE_AND ? result->all : result->any;
        *d = value ? *d | lanes : *d & ~lanes;
    }
}

static sim_next run_bar(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = insn->flag ? sim_converge(warp, insn, mask, ~UINT32_C(0)) : SIM_NEXT;
    sim_arrival arrival;
    if (next != SIM_NEXT || (next = arrival_of(warp, insn, mask, &arrival)) != SIM_NEXT) {
        return next;
    }
    uint32_t outside = arrival.waits ? sim_bar_outside(warp, arrival.id, mask) : mask;
    if (outside && sim_bar_arrive(warp, insn, outside, &arrival) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (!arrival.waits) {
        return SIM_NEXT;
    }
    sim_reduction result;
    uint32_t left = sim_bar_leave(warp, arrival.id, mask, &result);
    if (!left) {
        return SIM_WAIT;
    }
    store_result(warp, insn, left, &result);
    if (left == mask) {
        return SIM_NEXT;
    }
    for (uint32_t w = 0; w < insn->write_count; w++) {
        warp->defined[insn->writes[w]] |= left;
    }
    sim_move(warp, left, warp->split[warp->current].pc + 1);
    return SIM_MOVED;
}

/* What run_bar() would refuse is refused at once where it is known. */
static bool constant_fits(ptx_bind *b, const ptx_operand *operand, uint32_t limit, uint32_t step)
{
    bool good = operand->kind != PTX_IMMEDIATE || (operand->bits < limit && operand->bits % step == 0);
    return good || bind_fail(b, "%llu is no barrier, or no thread count", (unsigned long long)operand->bits);
}

/* bar.X is barrier.X.aligned (PTX ISA "barrier"). */
static bool bind_named(ptx_bind *b, bool aligned)
{
    static const char *const actions[] = {"sync", "arrive", "red", NULL};
    static const char *const reductions[] = {"popc", "and", "or", NULL};
    ptx_insn *i = b->insn;
    int action = bind_choice(b, actions);
    if (action < 0) {
        return bind_fail(b, "neither .sync, .arrive nor .red");
    }
    int reduce = action == 2 ? bind_choice(b, reductions) : -1;
    i->kind = (uint8_t)(reduce < 0 ? REDUCE_NONE : REDUCE_POPC + reduce);
    i->flag = (uint8_t)(aligned || bind_take(b, "aligned"));
    i->width = action != 1;
    uint32_t at = 0;
    if (action == 2) {
        ptx_type type = bind_type(b);
        if (reduce < 0 || type != (reduce == 0 ? PTX_U32 : PTX_PRED)) {
            return bind_fail(b, "not .popc.u32, .and.pred or .or.pred");
        }
        i->d = bind_dest(b, at++, type);
    }
    /* d, number, count, predicate: the count may be left out, but not with .arrive */
    uint32_t most = at + 2 + (action == 2);
    if (!bind_end(b) || (i->operand_count + 1 == most && action != 1 ? false : !bind_operands(b, most))) {
        return false;
    }
    i->count = i->operand_count == most;
    if (!constant_fits(b, &i->operand[at], SIM_BARRIERS, 1) ||
        (i->count && !constant_fits(b, &i->operand[at + 1], UINT32_MAX, PTX_LANES))) {
        return false;
    }
    i->a = bind_source(b, at++, PTX_U32);
    if (i->count) {
        i->b = bind_source(b, at++, PTX_U32);
    }
    if (action == 2) {
        bool negated = false;
        i->c = bind_predicate(b, &i->operand[at], &negated);
        i->extra = negated;
    }
    i->run = run_bar;
    return bind_ok(b);
}

static sim_next run_bar_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = sim_converge_members(warp, insn, mask, sim_u32(warp, insn->a));
    if (next == SIM_NEXT) {
        sim_warp_sync(warp);
    }
    return next;
}

static bool bind_bar_warp(ptx_bind *b)
{
    if (!bind_take(b, "sync") || !bind_end(b) || !bind_operands(b, 1)) {
        return bind_fail(b, "not bar.warp.sync membermask");
    }
    b->insn->a = bind_source(b, 0, PTX_B32);
    b->insn->run = run_bar_warp;
    return bind_ok(b);
}

static bool bind_bar(ptx_bind *b)
{
    if (bind_take(b, "warp")) {
        return bind_bar_warp(b);
    }
    bind_take(b, "cta");
    return bind_named(b, true);
}

static sim_next run_cluster(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = insn->flag ? sim_converge(warp, insn, mask, ~UINT32_C(0)) : SIM_NEXT;
    if (next != SIM_NEXT) {
        return next;
    }
    return insn->width ? sim_cluster_wait(warp, insn, mask) : sim_cluster_arrive(warp, insn, mask, insn->kind != 0);
}

/* barrier.cluster.arrive{.release, .relaxed}{.aligned}, barrier.cluster.wait{.acquire}{.aligned} */
static bool bind_cluster(ptx_bind *b)
{
    static const char *const actions[] = {"arrive", "wait", NULL};
    ptx_insn *i = b->insn;
    int action = bind_choice(b, actions);
    if (action < 0) {
        return bind_fail(b, "neither .arrive nor .wait");
    }
    i->width = action == 1;
    if (action == 1) {
        bind_take(b, "acquire");
    } else if (bind_take(b, "relaxed")) {
        i->kind = 1;
    } else {
        bind_take(b, "release");
    }
    i->flag = bind_take(b, "aligned");
    i->run = run_cluster;
    return bind_needs_target(b, SM_90, "barrier.cluster") && bind_end(b) && bind_operands(b, 0);
}

static bool bind_barrier(ptx_bind *b)
{
    if (bind_take(b, "cluster")) {
        return bind_cluster(b);
    }
    bind_take(b, "cta");
    return bind_named(b, false);
}

const ptx_op ptx_ops_barrier[] = {
    {"bar", bind_bar},
    {"barrier", bind_barrier},
    {NULL, NULL},
};
