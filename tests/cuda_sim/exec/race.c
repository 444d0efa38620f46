/* race.c - who has touched each word of shared memory, and whether the next one to touch it knows.
 *
 * Two accesses race if they touch the same byte, at least one writes, not both are strong, and neither is known to the
 * other (PTX ISA "Memory Consistency Model", "Data Races"):
 * - Program order orders one lane's accesses. Lanes of one warp are ordered by bar.warp.sync and barriers only; that
 *   they run in step, or meet in shfl, vote or mma, orders nothing, as since Volta they need not ("CUDA C++ Programming
 *   Guide", "Independent Thread Scheduling").
 * - The lanes of one instruction don't race: all may write one place, and one of them wins; op_memory.c refuses
 *   different values.
 * - An agent of the async proxy knows of a generic write only what passed a fence.proxy.async; generic reads it knows
 *   like others do (a slot is handed back by an mbarrier without a proxy fence). What it did itself is known through
 *   the mbarrier or the wait for its group.
 * - What an issuer's wait for its group makes known, is known to the issuing lane, and to other lanes of its warp
 * behind the next bar.warp.sync or barrier. */
#include "race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- reports --- */

static void describe_thread(const sim_warp *warp, uint32_t lane, char *text, size_t size)
{
    const uint32_t *dims = warp->block->cluster->worker->run->launch->block;
    uint32_t thread = warp->id * PTX_LANES + (lane >= PTX_LANES ? 0 : lane);
    char block[32] = "";
    if (warp->block->cluster->block_count > 1) {
        snprintf(block, sizeof block, " of block rank %" PRIu32, warp->block->rank);
    }
    if (lane >= PTX_LANES) {
        snprintf(text, size, "lanes of warp %" PRIu32 "%s", warp->id, block);
    } else {
        snprintf(text, size, "thread (%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")%s", thread % dims[0],
                 thread / dims[0] % dims[1], thread / dims[0] / dims[1], block);
    }
}

static const char *class_name(access_class class)
{
    static const char *const names[] = {"read", "strong read", "strong write", "write"};
    return names[class];
}

static sim_next report(const actor_view *v, sim_warp *warp, const ptx_insn *insn, uint32_t lane, const sim_block *owner,
                       uint32_t offset, uint64_t other)
{
    const ptx_function *function = sim_function(warp);
    uint32_t actor = stamp_actor(other), index = (uint32_t)(other >> INSN_SHIFT) & MAX_INSN;
    const sim_warp *by =
        actor >= v->race->warps
            ? v->race->slot[actor - v->race->warps].issuer
            : &warp->block->cluster->block[actor / warp->block->warp_count].warp[actor % warp->block->warp_count];
    const ptx_insn *earlier = index < function->insn_count ? &function->insn[index] : NULL;
    char who[96], place[48];
    describe_thread(by, stamp_lane(other), who, sizeof who);
    snprintf(place, sizeof place,
             owner == warp->block ? "shared+0x%" PRIx32 : "shared+0x%" PRIx32 " of block rank %" PRIu32, offset,
             owner->rank);
    bool fence_missing = v->proxy && stamp_class(other) >= STRONG_WRITE && shadow_knows(v, other, lane, false);
    return sim_fault_at(warp, insn, lane == SEVERAL_LANES ? -1 : (int)lane, SIM_FAULT_RACE,
                        "race on %s: this %s%s and the %s%s of %s (line %" PRIu32 ", %s) %s", place,
                        v->waits ? "" : "asynchronous ", class_name(v->class),
                        actor >= v->race->warps ? "asynchronous " : "", class_name(stamp_class(other)), who,
                        earlier ? earlier->line : 0, earlier ? earlier->text : "?",
                        fence_missing ? "have no fence.proxy.async between them" : "are not ordered");
}

static sim_next out_of_memory(sim_warp *warp, const ptx_insn *insn)
{
    return sim_fault_at(warp, insn, -1, SIM_FAULT_RESOURCES, "out of memory for the race check");
}

/* --- entry points --- */

static access_class classify(sim_access access)
{
    bool strong = access == SIM_ATOMIC || (access & SIM_STRONG_MARK);
    if (access & SIM_WRITE) {
        return strong ? STRONG_WRITE : WEAK_WRITE;
    }
    return strong ? STRONG_READ : WEAK_READ;
}

static uint64_t make_stamp(const sim_warp *warp, const ptx_insn *insn, uint32_t actor, access_class class,
                           uint32_t time)
{
    uint64_t index = (uint64_t)(insn - sim_function(warp)->insn);
    index = index < MAX_INSN ? index : MAX_INSN;
    return (uint64_t)actor << ACTOR_SHIFT | index << INSN_SHIFT | (uint64_t) class << CLASS_SHIFT | time;
}

/* What was found for the access before holds for this one, too, if it is by the same actor at the same time. */
static void look_as(const actor_view *v, bool knows_the_same)
{
    if (!knows_the_same || ((v->race->stamp ^ v->stamp) & ACTOR_AND_TIME)) {
        race_forget(v->race);
    }
    v->race->stamp = v->stamp;
}

static actor_view view_of_warp(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_access access)
{
    race_warp *state = race_of(warp);
    uint32_t time = race_now(state);
    const sim_clock *clock = race_known_by(state, mask);
    actor_view v = {.race = warp->block->shadow->race,
                    .clock = clock,
                    .known = clock->known,
                    .fenced = clock->fenced,
                    .size = clock->size,
                    .self = state->number,
                    .warp = state->number,
                    .lane_sync = state->lane_sync,
                    .met = state->met,
                    .waits = warp,
                    .class = classify(access)};
    v.stamp = make_stamp(warp, insn, v.self, v.class, time);
    look_as(&v, state->looked && !state->ahead_lanes);
    state->looked = true;
    return v;
}

static inline uint64_t warp_step(const actor_view *v, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                                 uint32_t size, race_step step, uint32_t *culprit, uint32_t *at)
{
    return shadow_lanes(v, step, &(shadow_places){mask, size, owner, offset, false}, culprit, at);
}

/* Lanes that weakly read one place are one access of "several". Returns those that speak for others and for themselves;
 * names[] of them: the lane or SEVERAL_LANES. */
static uint32_t merge_readers(uint32_t mask, sim_block *const *owner, const uint32_t *offset, uint32_t size,
                              uint8_t *names)
{
    enum { PLACES = 64 };
    uint8_t first[PLACES];
    uint32_t left = mask;
    memset(first, PTX_LANES, sizeof first);
    SIM_FOR_LANES(lane, mask)
    {
        uint8_t *place = &first[(offset[lane] / size) % PLACES];
        names[lane] = (uint8_t)lane;
        if (*place == PTX_LANES) {
            *place = (uint8_t)lane;
        } else if (offset[*place] == offset[lane] && owner[*place] == owner[lane]) {
            names[*place] = SEVERAL_LANES;
            left &= ~(1u << lane);
        }
    }
    return left;
}

/* The places of several lanes that lie one after another are taken together. */
static uint64_t read_places(const actor_view *v, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                            uint32_t size, uint32_t *culprit, uint32_t *at)
{
    uint8_t names[PTX_LANES];
    uint32_t left = merge_readers(mask, owner, offset, size, names);
    while (left) {
        uint32_t lane = (uint32_t)__builtin_ctz(left), name = names[lane], bytes = 0, next;
        do {
            bytes += size;
            left &= left - 1;
            next = left ? (uint32_t)__builtin_ctz(left) : lane;
        } while (left && name == SEVERAL_LANES && names[next] == name && owner[next] == owner[lane] &&
                 offset[next] == offset[lane] + bytes);
        if (shadow_step(v, owner[lane]->shadow, TOUCH, name, offset[lane], bytes, at)) {
            return warp_step(v, mask, owner, offset, size, CHECK, culprit, at); /* which of them it is */
        }
    }
    return 0;
}

static bool is_row(uint32_t mask, sim_block *const *owner, const uint32_t *offset, uint32_t size)
{
    bool row = mask == ~0u && size >= 4;
    for (uint32_t lane = 0; row && lane < PTX_LANES; lane++) {
        row = owner[lane] == owner[0] && offset[lane] == offset[0] + lane * size;
    }
    return row;
}

/* Lanes that know the same. The access that one of them races with, or 0; what is no weak write is noted, too. */
static uint64_t race_of_lanes(const actor_view *v, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                              uint32_t size, bool together, uint32_t *lane, uint32_t *at)
{
    if (together) {
        return shadow_lanes(v, TOUCH, &(shadow_places){mask, size, owner, offset, true}, lane, at);
    }
    if (v->class == WEAK_READ) {
        return read_places(v, mask, owner, offset, size, lane, at);
    }
    return warp_step(v, mask, owner, offset, size, v->class == WEAK_WRITE ? CHECK : TOUCH, lane, at);
}

sim_next sim_race_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                       const uint32_t *offset, uint32_t size, sim_access access)
{
    if (!warp->clock) {
        return SIM_NEXT;
    }
    const uint32_t ahead = mask & race_of(warp)->ahead_lanes;
    const bool together = access & SIM_WARP_MARK;
    actor_view v = view_of_warp(warp, insn, mask, access);
    if (!ahead && !together && is_row(mask, owner, offset, size) && shadow_row(&v, owner[0]->shadow, offset[0], size)) {
        return v.race->failed ? out_of_memory(warp, insn) : SIM_NEXT;
    }
    uint32_t lane = 0, at = 0;
    for (uint32_t left = mask, part; left; left &= ~part) {
        part = left & ahead ? left & ahead : left;
        v = ahead ? view_of_warp(warp, insn, part, access) : v;
        uint64_t other = race_of_lanes(&v, part, owner, offset, size, together, &lane, &at);
        if (other) {
            return report(&v, warp, insn, lane, owner[lane], at, other);
        }
    }
    if (v.class == WEAK_WRITE) { /* the lanes of one store don't race with each other */
        warp_step(&v, mask, owner, offset, size, WRITE, &lane, &at);
    }
    return v.race->failed ? out_of_memory(warp, insn) : SIM_NEXT;
}

sim_next sim_race_row(sim_warp *warp, const ptx_insn *insn, sim_block *owner, uint32_t offset, uint32_t size,
                      sim_access access)
{
    if (!warp->clock) {
        return SIM_NEXT;
    }
    const bool alike = !race_of(warp)->ahead_lanes;
    actor_view v = view_of_warp(warp, insn, 0, access);
    if (alike && size >= 4 && shadow_row(&v, owner->shadow, offset, size)) {
        return SIM_NEXT;
    }
    sim_block *owners[PTX_LANES];
    uint32_t offsets[PTX_LANES];
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        owners[lane] = owner;
        offsets[lane] = offset + lane * size;
    }
    return sim_race_warp(warp, insn, ~0u, owners, offsets, size, access);
}

sim_next sim_race_access(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner, uint32_t offset,
                         uint32_t size, sim_access access)
{
    sim_block *owners[PTX_LANES];
    uint32_t offsets[PTX_LANES];
    owners[lane] = owner;
    offsets[lane] = offset;
    return sim_race_warp(warp, insn, 1u << lane, owners, offsets, size, access);
}

static actor_view view_of_agent(const sim_agent *agent, sim_access access)
{
    sim_warp *issuer = agent->issuer;
    sim_race *race = issuer->block->shadow->race;
    actor_view v = {.race = race,
                    .clock = agent->knows,
                    .known = agent->knows->known,
                    .fenced = agent->knows->fenced,
                    .size = agent->knows->size,
                    .self = race->warps + agent->slot,
                    .warp = race_of(issuer)->number,
                    .lane_sync = race->slot[agent->slot].lane_sync,
                    .met = race->slot[agent->slot].met,
                    .proxy = agent->async_proxy,
                    .class = classify(access)};
    v.stamp = make_stamp(issuer, agent->insn, v.self, v.class, agent->number);
    look_as(&v, true); /* what an agent knows does not change */
    return v;
}

sim_next sim_race_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access)
{
    if (!agent->knows) {
        return SIM_NEXT;
    }
    actor_view v = view_of_agent(agent, access);
    uint32_t at = 0;
    uint64_t other;
    if (v.class == WEAK_WRITE) {
        other = shadow_step(&v, owner->shadow, CHECK, agent->lane, offset, size, &at);
        if (!other) {
            shadow_step(&v, owner->shadow, WRITE, agent->lane, offset, size, &at);
        }
    } else {
        other = shadow_step(&v, owner->shadow, TOUCH, agent->lane, offset, size, &at);
    }
    if (other) {
        return report(&v, agent->issuer, agent->insn, agent->lane, owner, at, other);
    }
    return v.race->failed ? out_of_memory(agent->issuer, agent->insn) : SIM_NEXT;
}

sim_next sim_race_agent_pieces(sim_agent *agent, sim_block *owner, const uint64_t *pieces, uint32_t count)
{
    if (!agent->knows) {
        return SIM_NEXT;
    }
    actor_view v = view_of_agent(agent, SIM_READ);
    uint32_t at = 0;
    uint64_t other = shadow_touch_pieces(&v, owner->shadow, agent->lane, pieces, count, &at);
    if (other) {
        return report(&v, agent->issuer, agent->insn, agent->lane, owner, at, other);
    }
    return v.race->failed ? out_of_memory(agent->issuer, agent->insn) : SIM_NEXT;
}

sim_next sim_race_agent_lanes(sim_agent *agent, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                              uint32_t size)
{
    if (!agent->knows) {
        return SIM_NEXT;
    }
    actor_view v = view_of_agent(agent, SIM_WRITE);
    uint32_t lane = 0, at = 0;
    uint64_t other = warp_step(&v, mask, owner, offset, size, CHECK, &lane, &at);
    if (other) {
        return report(&v, agent->issuer, agent->insn, lane, owner[lane], at, other);
    }
    warp_step(&v, mask, owner, offset, size, WRITE, &lane, &at);
    return v.race->failed ? out_of_memory(agent->issuer, agent->insn) : SIM_NEXT;
}

/* --- begin and end --- */

static sim_race *new_race(sim_cluster *cluster)
{
    uint32_t per_block = cluster->block[0].warp_count, warps = cluster->block_count * per_block;
    sim_race *race = calloc(1, sizeof *race);
    race_warp *warp = warps ? calloc(warps, sizeof *warp) : NULL;
    struct sim_shadow *first = calloc(1, sizeof *first); /* sim_race_end finds the race by it */
    if (!race || !warp || !first) {
        free(race);
        free(warp);
        free(first);
        return NULL;
    }
    race->warps = warps;
    race->warp = warp;
    bool ok = true;
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        sim_block *block = &cluster->block[b];
        block->shadow = b ? calloc(1, sizeof *block->shadow) : first;
        ok = ok && block->shadow && shadow_init(block->shadow, race, block->shared_bytes);
        for (uint32_t w = 0; ok && w < per_block; w++) {
            block->warp[w].clock = &race->warp[b * per_block + w].clock;
        }
    }
    race->failed = !ok;
    return race;
}

bool sim_race_init(sim_cluster *cluster)
{
    if (cluster->worker->run->launch->options.no_races) {
        return true;
    }
    struct sim_shadow *shadow = cluster->block[0].shadow;
    if (shadow && !race_next_cluster(shadow->race)) {
        sim_race_end(cluster); /* the times have run out: begin anew */
        shadow = NULL;
    }
    if (shadow) {
        return !shadow->race->failed;
    }
    sim_race *race = new_race(cluster);
    return race && !race->failed && race_next_cluster(race) && !race->failed;
}

void sim_race_end(sim_cluster *cluster)
{
    sim_race *race = cluster->block[0].shadow ? cluster->block[0].shadow->race : NULL;
    for (uint32_t b = 0; race && b < cluster->block_count; b++) {
        sim_block *block = &cluster->block[b];
        if (block->shadow) {
            shadow_end(block->shadow);
        }
        free(block->shadow);
        block->shadow = NULL;
        for (uint32_t w = 0; w < block->warp_count; w++) {
            block->warp[w].clock = NULL;
        }
    }
    if (race) {
        race_free_clocks(race);
        free(race->chunk);
        free(race->split);
        free(race->free_splits);
        free(race);
    }
}
