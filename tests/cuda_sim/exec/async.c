/* async.c - when asynchronous operations are performed, and who has waited for them.
 *
 * Each warp has a queue a kind. An operation leaves its queue when it is performed and its issuer has waited for its
 * group; one that completes on an mbarrier (lanes == 0) leaves when it is performed. */
#include "sim.h"
#include <stdlib.h>

typedef struct queue {
    sim_async *head, **tail;
} queue;

struct sim_async_state {
    queue queue[SIM_ASYNC_KINDS];
    uint64_t group[SIM_ASYNC_KINDS][PTX_LANES]; /* the open one */
    sim_clock *matrices; /* first warp of a warpgroup: wgmma of all four that somebody has waited for */
};

static void discard(sim_async *op)
{
    if (op->free) {
        op->free(op);
    }
    sim_agent_end(&op->agent);
    free(op);
}

/* Takes *link out of its queue and frees it. */
static void leave(queue *q, sim_async **link)
{
    sim_async *op = *link;
    *link = op->next;
    if (q->tail == &op->next) {
        q->tail = link;
    }
    discard(op);
}

static sim_next perform(sim_async *op)
{
    if (op->performed) {
        return SIM_NEXT;
    }
    op->performed = true;
    return op->perform(op);
}

/* Performs `op` of queue `q` behind those that it follows. */
static sim_next perform_in_order(queue *q, sim_async *op)
{
    if (op->follows) {
        for (sim_async *earlier = q->head; earlier != op; earlier = earlier->next) {
            if ((earlier->lanes & op->follows) && perform(earlier) == SIM_FAULT) {
                return SIM_FAULT;
            }
        }
    }
    return perform(op);
}

static void leave_if_over(queue *q, sim_async *op)
{
    if (op->performed && !op->lanes) {
        sim_async **link = &q->head;
        while (*link != op) {
            link = &(*link)->next;
        }
        leave(q, link);
    }
}

/* A random time for SIM_SEEDED: at once, soon, later, or not before somebody waits. */
static uint64_t random_due(sim_cluster *cluster)
{
    uint64_t random = sim_random(cluster);
    switch (random & 3) {
    case 0:
        return 0;
    case 1:
        return cluster->async_now + 1 + (random >> 8) % 32;
    case 2:
        return cluster->async_now + 1 + (random >> 8) % 2048;
    default:
        return UINT64_MAX;
    }
}

sim_next sim_async_issue(sim_async *op)
{
    sim_warp *warp = op->agent.issuer;
    sim_cluster *cluster = warp->block->cluster;
    queue *q = &warp->async->queue[op->kind];
    op->number = cluster->async_issued++;
    op->group = op->lanes ? warp->async->group[op->kind][__builtin_ctz(op->lanes)] : 0;
    op->next = NULL;
    *q->tail = op;
    q->tail = &op->next;

    sim_timing timing = sim_opts(warp)->timing;
    op->due = timing == SIM_EAGER ? 0 : timing == SIM_LATE ? UINT64_MAX : random_due(cluster);
    if (op->due) {
        cluster->async_due = op->due < cluster->async_due ? op->due : cluster->async_due;
        return SIM_NEXT;
    }
    sim_next result = perform_in_order(q, op);
    leave_if_over(q, op);
    return result;
}

uint32_t sim_async_alike(const sim_warp *warp, sim_async_kind kind, uint32_t mask)
{
    const uint64_t *group = warp->async->group[kind];
    uint64_t first = group[__builtin_ctz(mask)];
    uint32_t alike = 0;
    SIM_FOR_LANES(lane, mask)
    {
        alike |= group[lane] == first ? 1u << lane : 0;
    }
    return alike;
}

void sim_async_commit(sim_warp *warp, sim_async_kind kind, uint32_t mask)
{
    SIM_FOR_LANES(lane, mask)
    {
        warp->async->group[kind][lane]++;
    }
    if (kind == SIM_WGMMA) {
        sim_wake(warp->block->cluster);
    }
}

/* wait_group.read: the source may be reused, the writes may come later. */
static sim_next wait_for_reads(sim_async *op)
{
    if (!op->performed && op->read(op) == SIM_FAULT) {
        return SIM_FAULT;
    }
    op->read_done = true;
    sim_agent_complete_warp(&op->agent, ~0u, op->agent.issuer); /* what reads shared memory writes none of it */
    return SIM_NEXT;
}

/* What `waiters` of its lanes learn by their wait. */
static sim_next complete(sim_async *op, uint32_t waiters)
{
    op->lanes &= ~waiters;
    if (op->complete) {
        return op->complete(op);
    }
    sim_agent_complete_warp(&op->agent, waiters, op->agent.issuer);
    return SIM_NEXT;
}

sim_next sim_async_wait(sim_warp *warp, sim_async_kind kind, uint32_t mask, uint64_t keep, bool reads_only)
{
    queue *q = &warp->async->queue[kind];
    const uint64_t *open = warp->async->group[kind];
    sim_async **link = &q->head;
    while (*link) {
        sim_async *op = *link;
        uint32_t waiters = 0;
        SIM_FOR_LANES(lane, op->lanes & mask)
        {
            waiters |= op->group + keep < open[lane] ? 1u << lane : 0;
        }
        /* A second wait for reads finishes the writes as well, so that not all of a kernel's output is in flight. */
        if (waiters && ((reads_only && !op->read_done)
                            ? wait_for_reads(op) == SIM_FAULT
                            : perform_in_order(q, op) == SIM_FAULT || complete(op, waiters) == SIM_FAULT)) {
            return SIM_FAULT;
        }
        if (op->performed && !op->lanes) {
            leave(q, link);
        } else {
            link = &op->next;
        }
    }
    return SIM_NEXT;
}

/* Performs what `warp` has committed before `limit`; the warpgroup's clock learns of it. */
static sim_next finish_matrices(sim_warp *warp, uint64_t limit, sim_clock *clock)
{
    queue *q = &warp->async->queue[SIM_WGMMA];
    for (sim_async *op = q->head; op && op->group < limit; op = op->next) {
        if (perform_in_order(q, op) == SIM_FAULT) {
            return SIM_FAULT;
        }
        if (clock) {
            sim_agent_complete(&op->agent, ~0u, clock);
        }
    }
    return SIM_NEXT;
}

/* A wgmma-group is one of all four warps (PTX ISA, "wgmma.commit_group"): where one warp has waited for it, the others'
 * parts have been done as well, so that one thread may hand back the operands for all. */
sim_next sim_async_wait_warpgroup(sim_warp *warp, const ptx_insn *insn, uint64_t keep)
{
    enum { WARPS = 4 };
    sim_warp *first = warp - warp->id % WARPS;
    uint64_t open = warp->async->group[SIM_WGMMA][0], limit = open > keep ? open - keep : 0;
    for (uint32_t w = 0; w < WARPS; w++) {
        if (first[w].async->group[SIM_WGMMA][0] < limit) {
            return SIM_WAIT;
        }
    }
    struct sim_async_state *state = first->async;
    if (warp->clock && !state->matrices && !(state->matrices = sim_clock_new(warp->block->cluster))) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "the host is out of memory");
    }
    for (uint32_t w = 0; w < WARPS; w++) {
        if (finish_matrices(&first[w], limit, state->matrices) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    if (state->matrices) {
        sim_acquire(warp, ~0u, state->matrices);
    }
    return sim_async_wait(warp, SIM_WGMMA, ~0u, keep, false);
}

/* An operation that its lanes have all published leaves unless it belongs to a committed group: a kernel that uses
 * mbarriers commits none, and would never wait for it. */
sim_next sim_async_publish(sim_async *op, sim_block *owner, uint32_t offset)
{
    struct sim_async_state *state = op->agent.issuer->async;
    queue *q = &state->queue[op->kind];
    sim_async **link = &q->head;
    while (*link != op) {
        sim_async *earlier = *link;
        if (earlier->lanes & op->follows) {
            if (sim_mbarrier_complete_tx(&earlier->agent, op->follows, owner, offset, 0) == SIM_FAULT) {
                return SIM_FAULT;
            }
            earlier->published |= op->follows;
        }
        if (earlier->lanes && !(earlier->lanes & ~earlier->published) &&
            earlier->group == state->group[op->kind][__builtin_ctz(earlier->lanes)]) {
            leave(q, link);
        } else {
            link = &earlier->next;
        }
    }
    return SIM_NEXT;
}

/* The unperformed operation of the cluster that is due first, oldest first among equals; `on_mbarrier`: of those that
 * complete on one. NULL: none. */
static sim_async *first_due(sim_cluster *cluster, bool on_mbarrier, queue **of)
{
    sim_async *first = NULL;
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        for (uint32_t w = 0; w < cluster->block[b].warp_count; w++) {
            sim_warp *warp = &cluster->block[b].warp[w];
            for (int kind = 0; kind < SIM_ASYNC_KINDS; kind++) {
                for (sim_async *op = warp->async->queue[kind].head; op; op = op->next) {
                    if (op->performed || (on_mbarrier && op->lanes)) {
                        continue;
                    }
                    if (!first || op->due < first->due || (op->due == first->due && op->number < first->number)) {
                        first = op;
                        *of = &warp->async->queue[kind];
                    }
                }
            }
        }
    }
    return first;
}

bool sim_async_advance(sim_cluster *cluster, sim_next *result)
{
    queue *q = NULL;
    sim_async *op = first_due(cluster, true, &q);
    if (!op) {
        return false;
    }
    *result = perform_in_order(q, op);
    leave_if_over(q, op);
    return true;
}

sim_next sim_async_perform_due(sim_cluster *cluster)
{
    for (;;) {
        queue *q = NULL;
        sim_async *op = first_due(cluster, false, &q);
        cluster->async_due = op ? op->due : UINT64_MAX;
        if (cluster->async_now < cluster->async_due) {
            return SIM_NEXT;
        }
        sim_next result = perform_in_order(q, op);
        leave_if_over(q, op);
        if (result == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
}

/* Block `rank` has ended with `op` in the queue. cp.async needs no wait, and neither do the writes of a store; all else
 * would go on with shared memory that may belong to another block by now. */
static sim_next end_operation(queue *q, sim_async *op, uint32_t rank)
{
    if (op->kind == SIM_CP_ASYNC || op->read_done) {
        return op->agent.issuer->block->rank == rank ? perform_in_order(q, op) : SIM_NEXT;
    }
    return sim_fault_at(op->agent.issuer, op->agent.insn, (int)op->agent.lane, SIM_FAULT_ASYNC,
                        "block %u of its cluster has ended, and nobody waited for this operation on its shared memory",
                        rank);
}

sim_next sim_async_block_ends(sim_block *block)
{
    sim_cluster *cluster = block->cluster;
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        for (uint32_t w = 0; w < cluster->block[b].warp_count; w++) {
            struct sim_async_state *state = cluster->block[b].warp[w].async;
            for (int kind = 0; kind < SIM_ASYNC_KINDS; kind++) {
                for (sim_async *op = state->queue[kind].head; op; op = op->next) {
                    if ((op->blocks & (1u << block->rank)) &&
                        end_operation(&state->queue[kind], op, block->rank) == SIM_FAULT) {
                        return SIM_FAULT;
                    }
                }
            }
        }
    }
    return SIM_NEXT;
}

bool sim_async_init(sim_warp *warp)
{
    struct sim_async_state *state = calloc(1, sizeof *state);
    warp->async = state;
    for (int kind = 0; state && kind < SIM_ASYNC_KINDS; kind++) {
        state->queue[kind].tail = &state->queue[kind].head;
    }
    return state != NULL;
}

void sim_async_end(sim_warp *warp)
{
    struct sim_async_state *state = warp->async;
    for (int kind = 0; state && kind < SIM_ASYNC_KINDS; kind++) {
        while (state->queue[kind].head) {
            leave(&state->queue[kind], &state->queue[kind].head);
        }
    }
    if (state && state->matrices) {
        sim_clock_free(state->matrices);
    }
    free(state);
    warp->async = NULL;
}
