/* barrier.c - the named barriers of a block (bar, barrier) and the barrier of a cluster. */
#include "barrier.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sim_next sim_clock_release(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_clock **clock, bool relaxed)
{
    if (sim_opts(warp)->no_races) {
        return SIM_NEXT;
    }
    if (!*clock && !(*clock = sim_clock_new(warp->block->cluster))) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "the host is out of memory");
    }
    if (relaxed) {
        sim_release_relaxed(warp, mask, *clock);
    } else {
        sim_release(warp, mask, *clock);
    }
    return SIM_NEXT;
}

void sim_clock_acquire(sim_warp *warp, uint32_t mask, const sim_clock *clock, bool relaxed)
{
    if (clock && relaxed) {
        sim_acquire_relaxed(warp, clock);
    } else if (clock) {
        sim_acquire(warp, mask, clock);
    }
}

static void clear_clock(sim_clock *clock)
{
    if (clock) {
        sim_clock_clear(clock);
    }
}

static void free_clock(sim_clock *clock)
{
    if (clock) {
        sim_clock_free(clock);
    }
}

bool sim_barriers_init(sim_block *block)
{
    if (!block->barriers) {
        block->barriers = calloc(1, sizeof *block->barriers);
        return block->barriers != NULL;
    }
    struct sim_barriers *all = block->barriers;
    for (uint32_t rest = all->used; rest; rest &= rest - 1) {
        sim_named_barrier *barrier = &all->named[__builtin_ctz(rest)];
        sim_clock *clock[2] = {barrier->clock[0], barrier->clock[1]};
        clear_clock(clock[0]);
        clear_clock(clock[1]);
        *barrier = (sim_named_barrier){.clock = {clock[0], clock[1]}};
    }
    all->used = 0;
    sim_mbarriers_clear(block);
    return true;
}

void sim_barriers_end(sim_block *block)
{
    if (!block->barriers) {
        return;
    }
    for (uint32_t id = 0; id < SIM_BARRIERS; id++) {
        free_clock(block->barriers->named[id].clock[0]);
        free_clock(block->barriers->named[id].clock[1]);
    }
    sim_mbarriers_free(block);
    free(block->barriers);
    block->barriers = NULL;
}

/* --- named barriers --- */

/* A warp arrives when all its threads that have not exited are here, and counts as a whole one, however many threads
 * it has (PTX ISA "bar, barrier"). */
static uint32_t arrived_threads(const sim_block *block, const sim_named_barrier *barrier)
{
    uint32_t threads = 0;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        uint32_t lanes = barrier->arrived[w];
        threads += lanes && !(block->warp[w].live & ~lanes) ? PTX_LANES : 0;
    }
    return threads;
}

/* Without a count: all threads that have not exited. */
static uint32_t wanted_threads(const sim_block *block, const sim_named_barrier *barrier)
{
    uint32_t threads = 0;
    for (uint32_t w = 0; w < block->warp_count && !barrier->counted; w++) {
        threads += block->warp[w].live || barrier->arrived[w] ? PTX_LANES : 0;
    }
    return barrier->counted ? barrier->expected : threads;
}

static void complete_if_full(sim_block *block, sim_named_barrier *barrier)
{
    if (arrived_threads(block, barrier) < wanted_threads(block, barrier)) {
        return;
    }
    for (uint32_t w = 0; w < block->warp_count; w++) {
        barrier->passed[w] |= barrier->waiting[w];
        barrier->passed_as[w] = barrier->waiting[w] ? (uint8_t)barrier->phase : barrier->passed_as[w];
        barrier->arrived[w] = barrier->waiting[w] = 0;
    }
    barrier->active = false;
    barrier->phase ^= 1;
    sim_wake(block->cluster);
}

/* The first arrival of a phase says what the barrier is in it; the others must agree. */
static sim_next join(sim_warp *warp, const ptx_insn *insn, sim_named_barrier *barrier, const sim_arrival *arrival)
{
    if (!barrier->active) {
        barrier->active = true;
        barrier->counted = arrival->counted;
        barrier->expected = arrival->threads;
        barrier->reducing = arrival->reduces;
        barrier->result[barrier->phase] = (sim_reduction){.all = true};
        clear_clock(barrier->clock[barrier->phase]);
        warp->block->barriers->used |= UINT32_C(1) << arrival->id;
        return SIM_NEXT;
    }
    if (barrier->counted != arrival->counted || (barrier->counted && barrier->expected != arrival->threads)) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "barrier %u is for %u threads here and for %u there",
                            arrival->id, arrival->counted ? arrival->threads : warp->block->thread_count,
                            wanted_threads(warp->block, barrier));
    }
    if (barrier->reducing != arrival->reduces) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "barrier %u reduces for some and not for others",
                            arrival->id);
    }
    return SIM_NEXT;
}

sim_next sim_bar_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const sim_arrival *arrival)
{
    sim_block *block = warp->block;
    sim_named_barrier *barrier = &block->barriers->named[arrival->id];
    uint32_t twice = mask & barrier->arrived[warp->id];
    if (twice) {
        return sim_fault_at(warp, insn, __builtin_ctz(twice), SIM_FAULT_INSTRUCTION,
                            "arrives twice in one phase of barrier %u", arrival->id);
    }
    if (join(warp, insn, barrier, arrival) == SIM_FAULT ||
        sim_clock_release(warp, insn, mask, &barrier->clock[barrier->phase], false) == SIM_FAULT) {
        return SIM_FAULT;
    }
    barrier->arrived[warp->id] |= mask;
    barrier->waiting[warp->id] |= arrival->waits ? mask : 0;
    sim_reduction *result = &barrier->result[barrier->phase];
    result->count += (uint32_t)__builtin_popcount(mask & arrival->values);
    result->all &= !(mask & ~arrival->values);
    result->any |= (mask & arrival->values) != 0;
    if (arrived_threads(block, barrier) > wanted_threads(block, barrier)) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "%u threads at barrier %u, which is for %u",
                            arrived_threads(block, barrier), arrival->id, wanted_threads(block, barrier));
    }
    sim_count(warp)->barriers++;
    complete_if_full(block, barrier);
    return SIM_NEXT;
}

uint32_t sim_bar_leave(sim_warp *warp, uint32_t id, uint32_t mask, sim_reduction *result)
{
    sim_named_barrier *barrier = &warp->block->barriers->named[id];
    uint32_t lanes = mask & barrier->passed[warp->id];
    if (lanes) {
        barrier->passed[warp->id] &= ~lanes;
        *result = barrier->result[barrier->passed_as[warp->id]];
        sim_clock_acquire(warp, lanes, barrier->clock[barrier->passed_as[warp->id]], false);
        sim_warp_sync(warp);
    }
    return lanes;
}

uint32_t sim_bar_outside(const sim_warp *warp, uint32_t id, uint32_t mask)
{
    const sim_named_barrier *barrier = &warp->block->barriers->named[id];
    return mask & ~(barrier->waiting[warp->id] | barrier->passed[warp->id]);
}

/* --- the cluster's barrier --- */

bool sim_cluster_barrier_init(sim_cluster *cluster)
{
    struct sim_cluster_barrier *barrier = cluster->barrier;
    uint32_t warps = cluster->block_count * cluster->worker->run->warps_per_block;
    if (!barrier) {
        barrier = cluster->barrier = calloc(1, sizeof *barrier);
        if (!barrier) {
            return false;
        }
        barrier->warps = warps;
        barrier->arrived = calloc(warps, sizeof *barrier->arrived);
        barrier->passed = calloc(warps, sizeof *barrier->passed);
        return barrier->arrived && barrier->passed;
    }
    barrier->phase = 0;
    memset(barrier->arrived, 0, warps * sizeof *barrier->arrived);
    memset(barrier->passed, 0, warps * sizeof *barrier->passed);
    clear_clock(barrier->clock[0]);
    clear_clock(barrier->clock[1]);
    return true;
}

void sim_cluster_barrier_end(sim_cluster *cluster)
{
    struct sim_cluster_barrier *barrier = cluster->barrier;
    if (!barrier) {
        return;
    }
    free_clock(barrier->clock[0]);
    free_clock(barrier->clock[1]);
    free(barrier->arrived);
    free(barrier->passed);
    free(barrier);
    cluster->barrier = NULL;
}

static uint32_t number_in_cluster(const sim_warp *warp)
{
    return warp->block->rank * warp->block->warp_count + warp->id;
}

static void cluster_complete_if_full(sim_cluster *cluster)
{
    struct sim_cluster_barrier *barrier = cluster->barrier;
    const sim_warp *warps = cluster->block[0].warp;
    uint32_t arrived = 0;
    for (uint32_t w = 0; w < barrier->warps; w++) {
        arrived |= barrier->arrived[w];
        if (warps[w].live & ~barrier->arrived[w]) {
            return;
        }
    }
    if (!arrived) {
        return;
    }
    for (uint32_t w = 0; w < barrier->warps; w++) {
        barrier->passed[w] |= barrier->arrived[w];
        barrier->arrived[w] = 0;
    }
    barrier->phase++;
    clear_clock(barrier->clock[barrier->phase & 1]);
    sim_wake(cluster);
}

sim_next sim_cluster_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask, bool relaxed)
{
    struct sim_cluster_barrier *barrier = warp->block->cluster->barrier;
    uint32_t number = number_in_cluster(warp);
    uint32_t twice = mask & (barrier->arrived[number] | barrier->passed[number]);
    if (twice) {
        return sim_fault_at(warp, insn, __builtin_ctz(twice), SIM_FAULT_INSTRUCTION,
                            "arrives again and has not waited since it did");
    }
    if (sim_clock_release(warp, insn, mask, &barrier->clock[barrier->phase & 1], relaxed) == SIM_FAULT) {
        return SIM_FAULT;
    }
    barrier->arrived[number] |= mask;
    sim_count(warp)->barriers++;
    cluster_complete_if_full(warp->block->cluster);
    return SIM_NEXT;
}

sim_next sim_cluster_wait(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    struct sim_cluster_barrier *barrier = warp->block->cluster->barrier;
    uint32_t number = number_in_cluster(warp);
    uint32_t neither = mask & ~(barrier->arrived[number] | barrier->passed[number]);
    if (neither) {
        return sim_fault_at(warp, insn, __builtin_ctz(neither), SIM_FAULT_INSTRUCTION, "waits and has not arrived");
    }
    if (mask & ~barrier->passed[number]) {
        return SIM_WAIT;
    }
    barrier->passed[number] &= ~mask;
    sim_clock_acquire(warp, mask, barrier->clock[(barrier->phase - 1) & 1], false);
    sim_warp_sync(warp);
    return SIM_NEXT;
}

/* --- who waits, and who never will --- */

void sim_barriers_warp_exited(sim_warp *warp, uint32_t lanes)
{
    sim_block *block = warp->block;
    (void)lanes;
    for (uint32_t rest = block->barriers->used; rest; rest &= rest - 1) {
        sim_named_barrier *barrier = &block->barriers->named[__builtin_ctz(rest)];
        if (barrier->active) {
            complete_if_full(block, barrier);
        }
    }
    cluster_complete_if_full(block->cluster);
}

static void explain_named(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, char *text, size_t size)
{
    uint32_t id = sim_u32(warp, insn->a)[__builtin_ctz(mask)];
    if (id < SIM_BARRIERS) {
        const sim_named_barrier *barrier = &warp->block->barriers->named[id];
        bool whole = !(warp->live & ~barrier->arrived[warp->id]);
        snprintf(text, size, "barrier %u: %u of %u threads%s", id, arrived_threads(warp->block, barrier),
                 wanted_threads(warp->block, barrier), whole ? "" : ", and a part of this warp");
    }
}

static void explain_cluster(const sim_warp *warp, char *text, size_t size)
{
    const sim_cluster *cluster = warp->block->cluster;
    const struct sim_cluster_barrier *barrier = cluster->barrier;
    uint32_t arrived = 0, live = 0;
    for (uint32_t w = 0; w < barrier->warps; w++) {
        arrived += (uint32_t)__builtin_popcount(barrier->arrived[w]);
        live += (uint32_t)__builtin_popcount(barrier->arrived[w] | cluster->block[0].warp[w].live);
    }
    snprintf(text, size, "barrier.cluster, phase %llu: %u of %u threads", (unsigned long long)barrier->phase, arrived,
             live);
}

void sim_barrier_explain(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, char *text, size_t size)
{
    for (uint32_t i = 0; i < warp->split_count; i++) {
        if (warp->split[i].converging && (warp->split[i].mask & mask)) {
            snprintf(text, size, "waits for lanes 0x%08x of its warp", warp->live & ~warp->split[i].mask);
            return;
        }
    }
    if (strcmp(insn->mnemonic, "setmaxnreg") == 0) {
        sim_registers_explain(warp, insn, text, size);
    } else if (strcmp(insn->mnemonic, "mbarrier") == 0) {
        sim_mbarrier_explain(warp, insn, mask, text, size);
    } else if (strstr(insn->text, "cluster")) {
        explain_cluster(warp, text, size);
    } else if (strcmp(insn->mnemonic, "wgmma") == 0) {
        snprintf(text, size, "another warp of the warpgroup has not committed that group");
    } else if (strncmp(insn->mnemonic, "bar", 3) == 0) {
        explain_named(warp, insn, mask, text, size);
    }
}
