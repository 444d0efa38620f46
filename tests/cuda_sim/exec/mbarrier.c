/* mbarrier.c - mbarrier objects: what PTX ISA "mbarrier" calls the pending count, the expected count, the tx-count and
 * the phase, with a check of each of their limits.
 *
 * The truth lies beside the block; the 64 bits in shared memory are a copy, so that a plain store over them is seen:
 * pending count (20 bits), expected count (20), tx-count (21, two's complement), phase (3). */
#include "barrier.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPECTED_SHIFT = 20, TX_SHIFT = 40, TX_MASK = (1 << 21) - 1, FIRST_ROOM = 16 };

uint64_t sim_mbarrier_state(const sim_mbarrier *barrier)
{
    return barrier->pending | (uint64_t)barrier->expected << EXPECTED_SHIFT |
           (uint64_t)((uint32_t)barrier->tx & TX_MASK) << TX_SHIFT | barrier->phase << SIM_MBARRIER_PHASE;
}

void sim_mbarrier_store(sim_block *owner, const sim_mbarrier *barrier)
{
    uint64_t state = sim_mbarrier_state(barrier);
    memcpy(owner->shared + barrier->offset, &state, sizeof state);
}

/* --- the barriers of a block --- */

void sim_mbarriers_clear(sim_block *block)
{
    for (uint32_t i = 0; i < block->barriers->mbarrier_count; i++) {
        block->barriers->mbarrier[i].live = false;
    }
}

void sim_mbarriers_free(sim_block *block)
{
    for (uint32_t i = 0; i < block->barriers->mbarrier_count; i++) {
        for (int parity = 0; parity < 2; parity++) {
            if (block->barriers->mbarrier[i].clock[parity]) {
                sim_clock_free(block->barriers->mbarrier[i].clock[parity]);
            }
        }
    }
    free(block->barriers->mbarrier);
}

static sim_mbarrier *find(const sim_block *block, uint32_t offset)
{
    struct sim_barriers *all = block->barriers;
    if (all->mbarrier_last < all->mbarrier_count && all->mbarrier[all->mbarrier_last].offset == offset) {
        return &all->mbarrier[all->mbarrier_last];
    }
    for (uint32_t i = 0; i < all->mbarrier_count; i++) {
        if (all->mbarrier[i].offset == offset) {
            all->mbarrier_last = i;
            return &all->mbarrier[i];
        }
    }
    return NULL;
}

static sim_mbarrier *add(sim_block *block, uint32_t offset)
{
    struct sim_barriers *all = block->barriers;
    if (all->mbarrier_count == all->mbarrier_room) {
        uint32_t room = all->mbarrier_room ? 2 * all->mbarrier_room : FIRST_ROOM;
        sim_mbarrier *larger = realloc(all->mbarrier, room * sizeof *larger);
        if (!larger) {
            return NULL;
        }
        all->mbarrier = larger;
        all->mbarrier_room = room;
    }
    sim_mbarrier *barrier = &all->mbarrier[all->mbarrier_count++];
    *barrier = (sim_mbarrier){.offset = offset};
    return barrier;
}

/* An mbarrier that is there and whole, or NULL after a fault. */
static sim_mbarrier *checked(sim_warp *warp, const ptx_insn *insn, int lane, sim_block *owner, uint32_t offset)
{
    sim_mbarrier *barrier = find(owner, offset);
    if (!barrier || !barrier->live) {
        sim_fault_at(warp, insn, lane, SIM_FAULT_UNDEFINED, "no mbarrier is initialised at shared+0x%x", offset);
        return NULL;
    }
    uint64_t state = sim_mbarrier_state(barrier);
    if (memcmp(owner->shared + offset, &state, sizeof state) != 0) {
        sim_fault_at(warp, insn, lane, SIM_FAULT_INSTRUCTION, "the mbarrier at shared+0x%x was overwritten", offset);
        return NULL;
    }
    return barrier;
}

sim_mbarrier *sim_mbarrier_at(sim_warp *warp, const ptx_insn *insn, uint32_t lane, ptx_space space, uint64_t address,
                              bool remote, sim_block **owner)
{
    uint32_t offset = 0;
    *owner = NULL;
    if (!sim_reach(warp, insn, lane, space, address, sizeof(uint64_t), SIM_ATOMIC, owner, &offset)) {
        return NULL;
    }
    if (!*owner || (!remote && *owner != warp->block)) {
        sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "an mbarrier lies in %s shared memory",
                     remote ? "a block's" : "the own block's");
        return NULL;
    }
    sim_mbarrier *barrier = checked(warp, insn, (int)lane, *owner, offset);
    bool races = barrier && !sim_opts(warp)->no_races;
    if (races && sim_race_access(warp, insn, lane, *owner, offset, sizeof(uint64_t), SIM_ATOMIC) == SIM_FAULT) {
        return NULL;
    }
    return barrier;
}

sim_next sim_mbarrier_init(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint32_t offset, uint32_t count)
{
    sim_mbarrier *barrier = find(warp->block, offset);
    if (barrier && barrier->live) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                            "the mbarrier at shared+0x%x is initialised already and was not invalidated", offset);
    }
    if (count == 0 || count > SIM_MBARRIER_MAX) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "a count of %u, not 1 to 2^20-1", count);
    }
    barrier = barrier ? barrier : add(warp->block, offset);
    if (!barrier) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_RESOURCES, "the host is out of memory");
    }
    barrier->live = true;
    barrier->proxied = false;
    barrier->warp = (uint8_t)warp->id;
    barrier->lane = (uint8_t)lane;
    barrier->expected = barrier->pending = count;
    barrier->tx = 0;
    barrier->phase = 0;
    for (int parity = 0; parity < 2; parity++) {
        if (barrier->clock[parity]) {
            sim_clock_clear(barrier->clock[parity]);
        }
    }
    sim_mbarrier_store(warp->block, barrier);
    return SIM_NEXT;
}

/* --- phases --- */

static sim_clock **clock_now(sim_mbarrier *barrier)
{
    return &barrier->clock[barrier->phase & 1];
}

static void changed(sim_block *owner, sim_mbarrier *barrier)
{
    if (barrier->pending == 0 && barrier->tx == 0) {
        barrier->phase++;
        barrier->pending = barrier->expected;
        if (*clock_now(barrier)) {
            sim_clock_clear(*clock_now(barrier));
        }
        sim_wake(owner->cluster);
    }
    sim_mbarrier_store(owner, barrier);
}

static sim_next too_many(sim_warp *warp, const ptx_insn *insn, int lane, const sim_mbarrier *barrier, uint32_t count)
{
    return sim_fault_at(warp, insn, lane, SIM_FAULT_INSTRUCTION,
                        "%u arrivals at the mbarrier at shared+0x%x, of which phase %" PRIu64 " needs %u more", count,
                        barrier->offset, barrier->phase, barrier->pending);
}

sim_next sim_mbarrier_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                             sim_mbarrier *barrier, uint32_t count, bool relaxed)
{
    if (count == 0 || count > barrier->pending) {
        return too_many(warp, insn, (int)lane, barrier, count);
    }
    if (sim_clock_release(warp, insn, UINT32_C(1) << lane, clock_now(barrier), relaxed) == SIM_FAULT) {
        return SIM_FAULT;
    }
    barrier->pending -= count;
    changed(owner, barrier);
    return SIM_NEXT;
}

static sim_next add_tx(sim_warp *warp, const ptx_insn *insn, int lane, sim_block *owner, sim_mbarrier *barrier,
                       int64_t bytes)
{
    int64_t tx = barrier->tx + bytes;
    if (tx > SIM_MBARRIER_MAX || tx < -SIM_MBARRIER_MAX) {
        return sim_fault_at(warp, insn, lane, SIM_FAULT_INSTRUCTION,
                            "the tx-count of the mbarrier at shared+0x%x becomes %" PRId64, barrier->offset, tx);
    }
    barrier->tx = (int32_t)tx;
    changed(owner, barrier);
    return SIM_NEXT;
}

sim_next sim_mbarrier_expect(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                             sim_mbarrier *barrier, int64_t bytes)
{
    return add_tx(warp, insn, (int)lane, owner, barrier, bytes);
}

void sim_mbarrier_acquire(sim_warp *warp, uint32_t mask, const sim_mbarrier *barrier, bool relaxed)
{
    sim_clock_acquire(warp, mask, barrier->clock[(barrier->phase + 1) & 1], relaxed);
}

/* --- asynchronous arrivals --- */

void sim_mbarriers_fence(sim_warp *warp, uint32_t mask)
{
    struct sim_barriers *all = warp->block->barriers;
    for (uint32_t i = 0; i < all->mbarrier_count; i++) {
        sim_mbarrier *barrier = &all->mbarrier[i];
        barrier->proxied |= barrier->warp == warp->id && (mask >> barrier->lane & 1);
    }
}

static sim_mbarrier *reached_by(sim_agent *agent, uint32_t lanes, sim_block *owner, uint32_t offset)
{
    sim_mbarrier *barrier = checked(agent->issuer, agent->insn, (int)agent->lane, owner, offset);
    if (!barrier || sim_opts(agent->issuer)->no_races) {
        return barrier;
    }
    if (agent->async_proxy && !barrier->proxied &&
        sim_race_agent(agent, owner, offset, sizeof(uint64_t), SIM_ATOMIC) == SIM_FAULT) {
        return NULL;
    }
    sim_clock **clock = clock_now(barrier);
    if (!*clock && !(*clock = sim_clock_new(owner->cluster))) {
        sim_fault_at(agent->issuer, agent->insn, -1, SIM_FAULT_RESOURCES, "the host is out of memory");
        return NULL;
    }
    sim_agent_complete(agent, lanes, *clock);
    return barrier;
}

sim_next sim_mbarrier_complete_tx(sim_agent *agent, uint32_t lanes, sim_block *owner, uint32_t offset, uint32_t bytes)
{
    sim_mbarrier *barrier = reached_by(agent, lanes, owner, offset);
    return barrier ? add_tx(agent->issuer, agent->insn, (int)agent->lane, owner, barrier, -(int64_t)bytes) : SIM_FAULT;
}

sim_next sim_mbarrier_expect_arrival(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                                     uint32_t offset)
{
    sim_mbarrier *barrier = checked(warp, insn, (int)lane, owner, offset);
    if (!barrier) {
        return SIM_FAULT;
    }
    if (barrier->pending == SIM_MBARRIER_MAX) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION,
                            "the pending count of the mbarrier at shared+0x%x overflows", offset);
    }
    barrier->pending++;
    sim_mbarrier_store(owner, barrier);
    return SIM_NEXT;
}

sim_next sim_mbarrier_arrive_agent(sim_agent *agent, sim_block *owner, uint32_t offset)
{
    sim_mbarrier *barrier = reached_by(agent, ~0u, owner, offset);
    if (!barrier) {
        return SIM_FAULT;
    }
    if (barrier->pending == 0) {
        return too_many(agent->issuer, agent->insn, (int)agent->lane, barrier, 1);
    }
    barrier->pending--;
    changed(owner, barrier);
    return SIM_NEXT;
}

void sim_mbarrier_explain(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, char *text, size_t size)
{
    uint64_t address[PTX_LANES];
    sim_addresses(warp, insn->a, insn->width != 0, insn->operand[1].offset, address);
    uint32_t offset =
        (uint32_t)(address[__builtin_ctz(mask)] & ((UINT32_C(1) << SIM_RANK_SHIFT) - 1)) - SIM_SHARED_BASE;
    const sim_mbarrier *barrier = find(warp->block, offset);
    if (barrier) {
        snprintf(text, size, "mbarrier at shared+0x%x, phase %" PRIu64 ": %u of %u arrivals and %d bytes missing",
                 offset, barrier->phase, barrier->pending, barrier->expected, (int)barrier->tx);
    }
}
