/* clock.c - what warps and agents know of each other's past: vector clocks over barriers, mbarriers, groups, fences.
 *
 * A release hands over all that the warp knows, an acquire takes it in. fence.proxy.async marks what the warp knows as
 * known to the async proxy; that mark travels with releases, so it doesn't matter whether the fence stands before the
 * barrier in each writing warp or behind it in the warp that issues (PTX ISA "Proxies"). Clocks tell warps apart; of
 * lanes they know what some of a warp have released, or fenced, without a bar.warp.sync behind what the others did
 * (race_part). What one lane acquires counts for its warp, and any bar.warp.sync, even of some lanes, orders all of
 * them.
 *
 * Strong accesses and fences order warps as "Release and Acquire Patterns" of the memory model says: what a warp knew
 * at its last fence is left at each place that it then writes strongly, and whoever reads that place strongly has it
 * after a fence of his own. */
#include "race.h"

#include <stdlib.h>
#include <string.h>

#define ALL_LANES UINT32_MAX

/* --- clocks --- */

static bool grow(sim_clock *clock, uint32_t size)
{
    if (size <= clock->size) {
        return true;
    }
    if (size > clock->capacity) {
        uint32_t capacity = size + size / 2 + 8;
        uint32_t *known = calloc(2 * (size_t)capacity, sizeof *known);
        if (!known) {
            return false;
        }
        if (clock->size) {
            memcpy(known, clock->known, clock->size * sizeof *known);
            memcpy(known + capacity, clock->fenced, clock->size * sizeof *known);
        }
        free(clock->known);
        clock->known = known;
        clock->fenced = known + capacity;
        clock->capacity = capacity;
    } else {
        memset(clock->known + clock->size, 0, (size - clock->size) * sizeof *clock->known);
        memset(clock->fenced + clock->size, 0, (size - clock->size) * sizeof *clock->fenced);
    }
    clock->size = size;
    return true;
}

static void join_entries(uint32_t *restrict into, const uint32_t *restrict from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        into[i] = into[i] > from[i] ? into[i] : from[i];
    }
}

/* There is a part for each of `count` warps. */
static bool grow_parts(sim_clock *clock, uint32_t count)
{
    if (count <= clock->parts) {
        return true;
    }
    if (count > clock->part_room) {
        race_part *part = realloc(clock->known_part, 2 * (size_t)count * sizeof *part);
        if (!part) {
            return false;
        }
        clock->known_part = part;
        clock->fenced_part = part + count;
        clock->part_room = count;
    }
    memset(clock->known_part, 0, count * sizeof *clock->known_part);
    memset(clock->fenced_part, 0, count * sizeof *clock->fenced_part);
    clock->parts = count;
    return true;
}

/* *whole: what is known of all lanes. */
static void join_part(race_part *into, race_part from, uint32_t *whole)
{
    const race_part old = *into;
    if (from.time <= *whole || !from.lanes) {
        return;
    }
    *into = from;
    if (old.time > *whole) {
        into->lanes |= old.lanes;
        into->time = old.time > from.time ? old.time : from.time;
        if (into->lanes == ALL_LANES) {
            *whole = old.time < from.time ? old.time : from.time;
        }
    }
}

static bool join_parts(sim_clock *into, const sim_clock *from)
{
    if (!from->parts) {
        return true;
    }
    if (!grow_parts(into, from->parts)) {
        return false;
    }
    uint32_t count = from->parts < from->size ? from->parts : from->size;
    for (uint32_t w = 0; w < count; w++) {
        join_part(&into->known_part[w], from->known_part[w], &into->known[w]);
        join_part(&into->fenced_part[w], from->fenced_part[w], &into->fenced[w]);
    }
    return true;
}

static bool join(sim_clock *into, const sim_clock *from)
{
    if (!grow(into, from->size)) {
        return false;
    }
    join_entries(into->known, from->known, from->size);
    join_entries(into->fenced, from->fenced, from->size);
    return join_parts(into, from);
}

sim_clock *sim_clock_new(const sim_cluster *cluster)
{
    (void)cluster;
    sim_clock *clock = calloc(1, sizeof *clock);
    if (clock) {
        clock->users = 1;
    }
    return clock;
}

static void empty(sim_clock *clock)
{
    free(clock->known);
    free(clock->known_part);
}

void sim_clock_free(sim_clock *clock)
{
    if (clock && --clock->users == 0) {
        empty(clock);
        free(clock);
    }
}

void sim_clock_clear(sim_clock *clock)
{
    clock->size = 0;
    clock->parts = 0;
}

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

/* What a clock knows of one warp, of all its lanes and of some. */
typedef struct share {
    uint32_t whole;
    race_part part;
} share;

/* Lanes `mask` tell of their warp what `from` says: of the others what they did before they met last. Lanes that have
 * ended count as theirs. */
static void tell_share(const sim_warp *warp, uint32_t mask, share *into, const share *from)
{
    const uint32_t met = race_of(warp)->lane_sync, lanes = mask | ~warp->live;
    const uint32_t before = from->whole < met ? from->whole : met - 1;
    const uint32_t own = from->part.time < met ? ALL_LANES : lanes;
    into->whole = into->whole > before ? into->whole : before;
    join_part(&into->part, (race_part){from->whole, lanes}, &into->whole);
    join_part(&into->part, (race_part){from->part.time, from->part.lanes & own}, &into->whole);
}

static share known_of(const sim_clock *clock, uint32_t warp)
{
    return (share){warp < clock->size ? clock->known[warp] : 0,
                   warp < clock->parts ? clock->known_part[warp] : (race_part){0}};
}

static share fenced_of(const sim_clock *clock, uint32_t warp)
{
    return (share){warp < clock->size ? clock->fenced[warp] : 0,
                   warp < clock->parts ? clock->fenced_part[warp] : (race_part){0}};
}

/* `from`, the past of `warp` or some of it, as lanes `mask` may tell it. */
static bool tell(const sim_warp *warp, uint32_t mask, sim_clock *into, const sim_clock *from)
{
    const uint32_t own = race_of(warp)->number;
    if (is_whole(warp, mask)) {
        return join(into, from);
    }
    share known = known_of(into, own), fenced = fenced_of(into, own);
    const share known_here = known_of(from, own), fenced_here = fenced_of(from, own);
    if (!join(into, from) || !grow_parts(into, race_of_warp(warp)->warps)) {
        return false;
    }
    tell_share(warp, mask, &known, &known_here);
    tell_share(warp, mask, &fenced, &fenced_here);
    into->known[own] = known.whole;
    into->known_part[own] = known.part;
    into->fenced[own] = fenced.whole;
    into->fenced_part[own] = fenced.part;
    return true;
}

void sim_release(sim_warp *warp, uint32_t mask, sim_clock *into)
{
    if (warp->clock) {
        check(warp, tell(warp, mask, into, warp->clock));
        race_of(warp)->sealed = true;
    }
}

/* Where all lanes learn what all lanes have told, they have met. */
void sim_acquire(sim_warp *warp, uint32_t mask, const sim_clock *from)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    const uint32_t told = state->number < from->size ? from->known[state->number] : 0;
    check(warp, join(warp->clock, from));
    drop_snapshot(state);
    if (is_whole(warp, mask) && told >= state->lane_sync) {
        state->lane_sync = told + 1;
    }
}

void sim_warp_sync(sim_warp *warp)
{
    if (warp->clock) {
        race_warp *state = race_of(warp);
        advance(state);
        state->lane_sync = state->clock.known[state->number];
    }
}

void sim_proxy_fence(sim_warp *warp, uint32_t mask)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    sim_clock *clock = &state->clock;
    const uint32_t own = state->number;
    share fenced = fenced_of(clock, own);
    const share now = known_of(clock, own);
    memcpy(clock->fenced, clock->known, clock->size * sizeof *clock->known);
    if (clock->parts) {
        memcpy(clock->fenced_part, clock->known_part, clock->parts * sizeof *clock->known_part);
    }
    if (!is_whole(warp, mask)) {
        if (!grow_parts(clock, race_of_warp(warp)->warps)) {
            check(warp, false);
            return;
        }
        tell_share(warp, mask, &fenced, &now);
        clock->fenced[own] = fenced.whole;
        clock->fenced_part[own] = fenced.part;
    }
    drop_snapshot(state);
    state->sealed = true;
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
        check(warp, join(&race_of(warp)->pending, from));
    }
}

void sim_memory_fence(sim_warp *warp, uint32_t mask)
{
    if (!warp->clock) {
        return;
    }
    race_warp *state = race_of(warp);
    if (state->pending.size) {
        sim_acquire(warp, 0, &state->pending); /* each lane has read for itself: they have not met */
        sim_clock_clear(&state->pending);
    }
    check(warp, tell(warp, mask, &state->released, &state->clock));
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
            check(warp, !place->key || join(&state->pending, &place->clock));
        }
        if ((access & SIM_WRITE) && state->released.size) {
            race_place *place = add_place(race, key[lane]);
            check(warp, place && tell(warp, 1u << lane, &place->clock, &state->released));
        }
    }
}

/* --- agents --- */

/* A slot whose last user is in the warp's past; else a new one; else, when there are no more, any: it may hide a race,
 * but invents none. */
static race_slot *take_slot(sim_race *race, race_warp *state)
{
    const sim_clock *clock = &state->clock;
    for (uint32_t k = 0; k < race->slots; k++) {
        uint32_t at = (state->next_slot + k) % race->slots, actor = race->warps + at;
        uint32_t number = race->slot[at].number;
        if (number <= race->base || (actor < clock->size && clock->known[actor] >= number)) {
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

static sim_clock *take_snapshot(race_warp *state)
{
    if (!state->snapshot) {
        state->snapshot = sim_clock_new(NULL);
        if (!state->snapshot || !join(state->snapshot, &state->clock)) {
            return NULL;
        }
    }
    state->snapshot->users++;
    return state->snapshot;
}

bool sim_agent_init(sim_agent *agent, sim_warp *issuer, const ptx_insn *insn, uint32_t lane, bool async_proxy)
{
    *agent = (sim_agent){.issuer = issuer, .insn = insn, .lane = lane, .async_proxy = async_proxy};
    if (!issuer->clock) {
        return true;
    }
    sim_race *race = race_of_warp(issuer);
    race_warp *state = race_of(issuer);
    race_slot *slot = take_slot(race, state);
    agent->knows = slot ? take_snapshot(state) : NULL;
    if (!agent->knows) {
        return false;
    }
    uint32_t number = slot->number < race->base ? race->base : slot->number;
    *slot = (race_slot){
        .issuer = issuer, .insn = insn, .number = number + (number < TIME_MASK), .lane_sync = state->lane_sync};
    agent->slot = (uint32_t)(slot - race->slot);
    agent->number = slot->number;
    state->sealed = true;
    return true;
}

void sim_agent_complete(sim_agent *agent, sim_clock *into)
{
    if (!agent->knows) {
        return;
    }
    uint32_t actor = race_of_warp(agent->issuer)->warps + agent->slot;
    if (!grow(into, actor + 1)) {
        check(agent->issuer, false);
        return;
    }
    uint32_t number = agent->number;
    into->known[actor] = into->known[actor] > number ? into->known[actor] : number;
    if (agent->async_proxy) {
        into->fenced[actor] = into->known[actor];
    }
}

void sim_agent_complete_warp(sim_agent *agent, sim_warp *warp)
{
    if (!agent->knows) {
        return;
    }
    race_slot *slot = &race_of_warp(warp)->slot[agent->slot];
    if (slot->issuer == warp && slot->number == agent->number) {
        slot->completed = race_now(race_of(warp));
    }
    sim_agent_complete(agent, warp->clock);
    drop_snapshot(race_of(warp));
}

void sim_agent_reads_done(sim_agent *agent, sim_warp *warp)
{
    sim_agent_complete_warp(agent, warp); /* what reads shared memory writes none of it */
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
        empty(&race->place[i].clock);
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
        state->sealed = false;
        state->next_slot = 0;
        if (!grow(&state->clock, w + 1)) {
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
    for (uint32_t w = 0; race->warp && w < race->warps; w++) {
        race_warp *state = &race->warp[w];
        drop_snapshot(state);
        empty(&state->clock);
        empty(&state->released);
        empty(&state->pending);
    }
    free(race->warp);
    free(race->slot);
}
