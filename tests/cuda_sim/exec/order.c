/* order.c - what warps and agents know of each other's past, over barriers, mbarriers, groups and fences.
 *
 * A release hands over all that the warp knows, an acquire takes it in. fence.proxy.async marks what the warp knows as
 * known to the async proxy; that mark travels with releases, so it doesn't matter whether the fence stands before the
 * barrier in each writing warp or behind it in the warp that issues (PTX ISA "Proxies"). What some lanes release or
 * fence is theirs, and of the others what these did, or waited for, before the last bar.warp.sync. What some lanes
 * acquire is known to them, and to the others behind the next one. Any bar.warp.sync, even of some lanes, orders all.
 *
 * Strong accesses and fences order warps as "Release and Acquire Patterns" of the memory model says: what a warp knew
 * at its last fence is left at each place that it then writes strongly, and whoever reads that place strongly has it
 * after a fence of his own. */
#include "race.h"

#include <stdlib.h>
#include <string.h>

/* --- warps --- */

static sim_race *race_of_warp(const sim_warp *warp)
{
    return warp->block->shadow->race;
}

static void check(const sim_warp *warp, bool done)
{
    if (!done) {
        race_of_warp(warp)->failed = true;
    }
}

/* The clock changes: accesses, and agents that are issued from now on, know something else. */
static void drop_snapshot(race_warp *state)
{
    state->looked = false;
    sim_clock_free(state->snapshot);
    state->snapshot = NULL;
}

static void advance(race_warp *state)
{
    uint32_t *time = &state->clock.known[state->number];
    *time += *time < TIME_MASK;
    if (state->ahead_lanes) {
        state->ahead.known[state->number] = *time;
    }
    state->sealed = false;
    drop_snapshot(state);
}

uint32_t race_now(race_warp *state)
{
    if (state->sealed) {
        advance(state);
    }
    return state->clock.known[state->number];
}

/* All lanes that there are. */
static bool is_whole(const sim_warp *warp, uint32_t mask)
{
    return (warp->live & ~mask) == 0;
}

/* race->limited becomes what lanes `mask` know of `from`, the past of `warp` or some of it: not what the others did, or
 * waited for, since the lanes met last. Lanes that have ended count as theirs. */
static bool limit(const sim_warp *warp, uint32_t mask, const sim_clock *from)
{
    const race_warp *state = race_of(warp);
    sim_race *race = race_of_warp(warp);
    sim_clock *clock = &race->limited;
    const uint32_t before = state->lane_sync - 1, known = state->met.all > before ? state->met.all : before;
    sim_clock_clear(clock);
    bool done = clock_join(clock, from) && clock_limit(clock, state->number, known, mask | ~warp->live);
    for (uint32_t s = 0; done && s < race->slots && state->waited >= state->lane_sync; s++) {
        const race_slot *slot = &race->slot[s];
        if (slot->issuer == warp && slot->completed >= state->lane_sync) {
            done = clock_limit(clock, race->warps + s, slot->number - 1, mask | ~slot->lanes);
        }
    }
    return done;
}

/* Lanes `mask` hand over what they know of `from`. */
static bool tell(const sim_warp *warp, uint32_t mask, sim_clock *into, const sim_clock *from)
{
    return is_whole(warp, mask) ? clock_join(into, from)
                                : limit(warp, mask, from) && clock_join(into, &race_of_warp(warp)->limited);
}

void sim_release(sim_warp *warp, uint32_t mask, sim_clock *into)
{
    if (warp->clock) {
        check(warp, tell(warp, mask, into, race_known_by(race_of(warp), mask)));
        race_of(warp)->sealed = true;
    }
}

/* The lanes are of one mind again. */
static void join_ahead(sim_warp *warp)
{
    race_warp *state = race_of(warp);
    if (state->ahead_lanes) {
        check(warp, clock_join(&state->clock, &state->ahead));
        state->ahead_lanes = 0;
        drop_snapshot(state);
    }
}

/* Lanes `mask`, not all, learn. All together know what each has learnt: that may hide a race, but invents none. */
static void go_ahead(sim_warp *warp, uint32_t mask, const sim_clock *from)
{
    race_warp *state = race_of(warp);
    if (!state->ahead_lanes) {
        sim_clock_clear(&state->ahead);
        check(warp, clock_join(&state->ahead, &state->clock));
    }
    check(warp, clock_join(&state->ahead, from));
    state->ahead_lanes |= mask;
    if (is_whole(warp, state->ahead_lanes)) {
        join_ahead(warp);
    }
}

/* What lanes have told their own warp. Where all lanes learn what all have told, they have met. */
static void meet(race_warp *state, bool whole, const sim_clock *from)
{
    const uint32_t own = state->number, told = own < from->size ? from->known[own] : 0;
    if (whole && told >= state->lane_sync) {
        state->lane_sync = told + 1;
    }
    state->met.all = told > state->met.all ? told : state->met.all;
    if (own < from->parts) {
        uint32_t before = state->lane_sync - 1;
        clock_join_part(&state->met.some, from->part[own].known, &before);
    }
}

void sim_acquire(sim_warp *warp, uint32_t mask, const sim_clock *from)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    drop_snapshot(state);
    if (is_whole(warp, mask)) {
        join_ahead(warp);
        check(warp, clock_join(&state->clock, from));
    } else {
        go_ahead(warp, mask, from);
    }
    meet(state, is_whole(warp, mask), from);
}

void sim_warp_sync(sim_warp *warp)
{
    if (warp->clock) {
        race_warp *state = race_of(warp);
        join_ahead(warp);
        advance(state);
        state->lane_sync = state->clock.known[state->number];
    }
}

/* What lanes `mask` know is fenced, in `clock`, for their whole warp. */
static bool fence(const sim_warp *warp, uint32_t mask, sim_clock *clock)
{
    sim_clock *seen = &race_of_warp(warp)->limited;
    if (is_whole(warp, mask)) {
        clock_fence(clock);
        return true;
    }
    bool done = limit(warp, mask, clock);
    clock_fence(seen);
    return done && clock_join(clock, seen);
}

void sim_proxy_fence(sim_warp *warp, uint32_t mask)
{
    if (warp->clock) {
        race_warp *state = race_of(warp);
        check(warp, fence(warp, mask, &state->clock));
        check(warp, !state->ahead_lanes || fence(warp, mask, &state->ahead));
        drop_snapshot(state);
        state->sealed = true;
    }
}

/* --- strong accesses --- */

void sim_release_relaxed(sim_warp *warp, uint32_t mask, sim_clock *into)
{
    if (warp->clock && race_of(warp)->released.size) {
        check(warp, tell(warp, mask, into, &race_of(warp)->released));
    }
}

void sim_acquire_relaxed(sim_warp *warp, const sim_clock *from)
{
    if (warp->clock) {
        check(warp, clock_join(&race_of(warp)->pending, from));
    }
}

void sim_memory_fence(sim_warp *warp, uint32_t mask)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    if (state->pending.size) {
        drop_snapshot(state); /* for the whole warp: who has read what is not known */
        check(warp, clock_join(&state->clock, &state->pending));
        check(warp, !state->ahead_lanes || clock_join(&state->ahead, &state->pending));
        sim_clock_clear(&state->pending);
    }
    check(warp, tell(warp, mask, &state->released, race_known_by(state, mask)));
    state->sealed = true;
}

static race_place *find_place(sim_race *race, const uint8_t *key)
{
    uint32_t mask = race->place_capacity - 1;
    uint32_t at = (uint32_t)(((uintptr_t)key / 4 * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;
    while (race->place[at].key && race->place[at].key != key) {
        at = (at + 1) & mask;
    }
    return &race->place[at];
}

static race_place *add_place(sim_race *race, const uint8_t *key)
{
    if (2 * race->places >= race->place_capacity) {
        sim_race old = *race;
        uint32_t capacity = old.place_capacity ? 2 * old.place_capacity : 64;
        race_place *place = calloc(capacity, sizeof *place);
        if (!place) {
            return NULL;
        }
        race->place = place;
        race->place_capacity = capacity;
        for (uint32_t i = 0; i < old.place_capacity; i++) {
            if (old.place[i].key) {
                *find_place(race, old.place[i].key) = old.place[i];
            }
        }
        free(old.place);
    }
    race_place *place = find_place(race, key);
    race->places += !place->key;
    place->key = key;
    return place;
}

void sim_race_strong(sim_warp *warp, uint32_t mask, uint8_t *const *key, sim_access access)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    sim_race *race = race_of_warp(warp);
    SIM_FOR_LANES(lane, mask)
    {
        if ((access & SIM_READ) && race->places) {
            race_place *place = find_place(race, key[lane]);
            check(warp, !place->key || clock_join(&state->pending, &place->clock));
        }
        if ((access & SIM_WRITE) && state->released.size) {
            race_place *place = add_place(race, key[lane]);
            check(warp, place && tell(warp, 1u << lane, &place->clock, &state->released));
        }
    }
}

/* --- agents --- */

/* Its last user is in the past of all lanes of the warp that waited for it, and of the one that wants it. */
static bool is_free(const sim_race *race, const sim_clock *clock, uint32_t at)
{
    const race_slot *slot = &race->slot[at];
    const uint32_t actor = race->warps + at;
    return slot->number <= race->base || (actor < clock->size && clock->known[actor] >= slot->number &&
                                          slot->completed < race_of(slot->issuer)->lane_sync);
}

/* A free slot; else a new one; else, when there are no more, any: it may hide a race, but invents none. */
static race_slot *take_slot(sim_race *race, race_warp *state, const sim_clock *knows)
{
    for (uint32_t k = 0; k < race->slots; k++) {
        uint32_t at = (state->next_slot + k) % race->slots;
        if (is_free(race, knows, at)) {
            state->next_slot = at + 1;
            return &race->slot[at];
        }
    }
    if (race->slots > 0 && race->warps + race->slots == MAX_ACTORS) {
        return &race->slot[state->next_slot++ % race->slots];
    }
    if (race->slots == race->slot_capacity) {
        uint32_t capacity = 2 * race->slot_capacity + 16;
        race_slot *slot = realloc(race->slot, capacity * sizeof *slot);
        if (!slot) {
            return NULL;
        }
        race->slot = slot;
        race->slot_capacity = capacity;
    }
    race->slot[race->slots] = (race_slot){.number = race->base};
    return &race->slot[race->slots++];
}

/* Of what the lanes that issue an agent know; it is kept while all know the same. */
static sim_clock *take_snapshot(race_warp *state, const sim_clock *knows)
{
    sim_clock *snapshot = knows == &state->clock ? state->snapshot : NULL;
    if (!snapshot) {
        snapshot = sim_clock_new(NULL);
        if (!snapshot || !clock_join(snapshot, knows)) {
            sim_clock_free(snapshot);
            return NULL;
        }
        if (knows != &state->clock) {
            return snapshot;
        }
        state->snapshot = snapshot;
    }
    snapshot->users++;
    return snapshot;
}

bool sim_agent_init(sim_agent *agent, sim_warp *issuer, const ptx_insn *insn, uint32_t lane, uint32_t lanes,
                    bool async_proxy)
{
    *agent = (sim_agent){.issuer = issuer, .insn = insn, .lane = lane, .lanes = lanes, .async_proxy = async_proxy};
    if (!issuer->clock) {
        return true;
    }
    sim_race *race = race_of_warp(issuer);
    race_warp *state = race_of(issuer);
    const sim_clock *knows = race_known_by(state, lanes);
    race_slot *slot = take_slot(race, state, knows);
    agent->knows = slot ? take_snapshot(state, knows) : NULL;
    if (!agent->knows) {
        return false;
    }
    uint32_t number = slot->number < race->base ? race->base : slot->number;
    *slot = (race_slot){.issuer = issuer,
                        .insn = insn,
                        .number = number + (number < TIME_MASK),
                        .lanes = lanes,
                        .lane_sync = state->lane_sync,
                        .met = state->met};
    agent->slot = (uint32_t)(slot - race->slot);
    agent->number = slot->number;
    state->sealed = true;
    return true;
}

void sim_agent_complete(sim_agent *agent, uint32_t lanes, sim_clock *into)
{
    if (agent->knows) {
        uint32_t actor = race_of_warp(agent->issuer)->warps + agent->slot;
        check(agent->issuer, clock_add(into, actor, agent->number, lanes | ~agent->lanes, agent->async_proxy));
    }
}

/* What all lanes did together they also wait for together. */
void sim_agent_complete_warp(sim_agent *agent, uint32_t lanes, sim_warp *warp)
{
    if (!agent->knows) {
        return;
    }
    race_slot *slot = &race_of_warp(warp)->slot[agent->slot];
    if (agent->lane < PTX_LANES && slot->issuer == warp && slot->number == agent->number) {
        slot->completed = race_of(warp)->waited = race_now(race_of(warp));
    }
    sim_agent_complete(agent, lanes, warp->clock);
    if (race_of(warp)->ahead_lanes) {
        sim_agent_complete(agent, lanes, &race_of(warp)->ahead);
    }
    drop_snapshot(race_of(warp));
}

void sim_agent_end(sim_agent *agent)
{
    sim_clock_free(agent->knows);
    agent->knows = NULL;
}

/* --- begin and end --- */

static void clear_places(sim_race *race)
{
    for (uint32_t i = 0; race->places && i < race->place_capacity; i++) {
        clock_empty(&race->place[i].clock);
        race->place[i] = (race_place){0};
    }
    race->places = 0;
}

bool race_next_cluster(sim_race *race)
{
    uint32_t last = race->base;
    for (uint32_t w = 0; w < race->warps; w++) {
        const race_warp *state = &race->warp[w];
        uint32_t time = state->clock.size ? state->clock.known[state->number] : 0;
        last = time > last ? time : last;
    }
    for (uint32_t s = 0; s < race->slots; s++) {
        last = race->slot[s].number > last ? race->slot[s].number : last;
    }
    if (last > TIME_MASK / 2) {
        return false;
    }
    race->base = last;
    clear_places(race);
    for (uint32_t w = 0; w < race->warps; w++) {
        race_warp *state = &race->warp[w];
        sim_clock_clear(&state->clock);
        sim_clock_clear(&state->released);
        sim_clock_clear(&state->pending);
        drop_snapshot(state);
        state->number = w;
        state->lane_sync = last + 1;
        state->waited = 0;
        state->ahead_lanes = 0;
        state->met = (race_met){0};
        state->sealed = false;
        state->next_slot = 0;
        if (!clock_grow(&state->clock, w + 1)) {
            race->failed = true;
            return true;
        }
        state->clock.known[w] = last + 1;
    }
    return true;
}

void race_free_clocks(sim_race *race)
{
    clear_places(race);
    free(race->place);
    clock_empty(&race->limited);
    for (uint32_t w = 0; race->warp && w < race->warps; w++) {
        race_warp *state = &race->warp[w];
        drop_snapshot(state);
        clock_empty(&state->clock);
        clock_empty(&state->ahead);
        clock_empty(&state->released);
        clock_empty(&state->pending);
    }
    free(race->warp);
    free(race->slot);
}
