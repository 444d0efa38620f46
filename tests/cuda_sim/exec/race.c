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
 * behind the next bar.warp.sync or barrier.
 *
 * The shadow has a cell a word; a word whose bytes are written apart is split into four cells until a whole word is
 * written again, so that neighbours in a word never look like a race. A cell keeps all that can still matter (as
 * FastTrack does, Flanagan and Freund, PLDI 2009): the last weak write, and the accesses since that don't follow one
 * another. Nothing is cleared between clusters, see race.h. */
#include "race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum access_class { WEAK_READ, STRONG_READ, STRONG_WRITE, WEAK_WRITE } access_class;

/* Who touches something now. */
typedef struct actor_view {
    sim_race *race;
    const uint32_t *known, *fenced;
    uint32_t size;
    uint32_t self;         /* actor */
    uint32_t warp;         /* actor: itself, or the issuer */
    uint32_t lane_sync;    /* of the warp */
    const sim_warp *waits; /* a warp's own access; NULL: an agent's */
    bool proxy;            /* writes must have passed a fence */
    uint64_t stamp;        /* but for the lane */
    access_class class;
} actor_view;

static access_class class_of(uint64_t stamp)
{
    return (access_class)((stamp >> CLASS_SHIFT) & ((1u << CLASS_BITS) - 1));
}

static uint64_t with_lane(uint64_t stamp, uint32_t lane)
{
    return stamp | (uint64_t)lane << LANE_SHIFT;
}

static uint64_t without_lane(uint64_t stamp)
{
    return stamp & ~((((UINT64_C(1) << LANE_BITS) - 1)) << LANE_SHIFT);
}

/* --- order --- */

/* An agent's access that its issuer has waited for: other lanes of the issuer need a bar.warp.sync behind the wait. */
static bool lanes_know(const actor_view *v, uint32_t actor, uint64_t stamp, uint32_t lane)
{
    const race_slot *slot = &v->race->slot[actor - v->race->warps];
    return slot->issuer != v->waits || slot->number != stamp_time(stamp) || slot->completed < v->lane_sync ||
           stamp_lane(stamp) == lane || stamp_lane(stamp) == SEVERAL_LANES;
}

/* Is the access of `stamp` in the past of lane `lane` of v? */
static inline bool is_known(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced)
{
    uint32_t time = stamp_time(stamp), actor = stamp_actor(stamp);
    if (time <= v->race->base) {
        return true;
    }
    if (actor == v->self && actor >= v->race->warps) {
        return true; /* of the same agent: one operation */
    }
    if (actor >= v->size || (fenced ? v->fenced : v->known)[actor] < time) {
        return false;
    }
    if (actor == v->warp) {
        return time < v->lane_sync || stamp_lane(stamp) == lane || lane == SEVERAL_LANES;
    }
    return actor < v->race->warps || !v->waits || lanes_know(v, actor, stamp, lane);
}

static inline bool conflicts(access_class earlier, access_class now)
{
    switch (now) {
    case WEAK_READ:
        return earlier >= STRONG_WRITE;
    case STRONG_READ:
        return earlier == WEAK_WRITE;
    case STRONG_WRITE:
        return earlier == WEAK_READ || earlier == WEAK_WRITE;
    default:
        return true;
    }
}

/* Whatever conflicts with `earlier` conflicts with `now` too. */
static inline bool stands_for(access_class now, access_class earlier)
{
    return now == earlier || (now == WEAK_READ && earlier == STRONG_READ);
}

static inline bool races_with(const actor_view *v, uint64_t stamp, uint32_t lane)
{
    access_class earlier = class_of(stamp);
    return stamp && conflicts(earlier, v->class) && !is_known(v, stamp, lane, v->proxy && earlier >= STRONG_WRITE);
}

/* --- cells --- */

static bool is_split(const race_cell *cell)
{
    return stamp_actor(cell->write) == SPLIT_ACTOR;
}

static race_cell *bytes_of(sim_race *race, const race_cell *cell)
{
    return race->split[(uint32_t)cell->write];
}

static void free_chunks(sim_race *race, race_cell *cell)
{
    while (cell->more) {
        race_chunk *chunk = &race->chunk[cell->more];
        uint32_t next = chunk->next;
        chunk->next = race->free_chunk;
        race->free_chunk = cell->more;
        cell->more = next;
    }
}

static uint32_t new_chunk(sim_race *race)
{
    uint32_t at = race->free_chunk;
    if (at) {
        race->free_chunk = race->chunk[at].next;
    } else {
        if (race->chunks + 1 >= race->chunk_capacity) {
            uint32_t capacity = 2 * race->chunk_capacity + 64;
            race_chunk *chunk = realloc(race->chunk, capacity * sizeof *chunk);
            if (!chunk) {
                race->failed = true;
                return 0;
            }
            race->chunk = chunk;
            race->chunk_capacity = capacity;
        }
        at = ++race->chunks;
    }
    memset(&race->chunk[at], 0, sizeof race->chunk[at]);
    return at;
}

static bool split_word(sim_race *race, race_cell *cell)
{
    uint32_t at;
    if (race->free_split_count) {
        at = race->free_splits[--race->free_split_count];
    } else {
        if (race->splits == race->split_capacity) {
            uint32_t capacity = 2 * race->split_capacity + 64;
            void *split = realloc(race->split, capacity * sizeof *race->split);
            race->split = split ? split : race->split;
            uint32_t *unused = split ? realloc(race->free_splits, capacity * sizeof *unused) : NULL;
            race->free_splits = unused ? unused : race->free_splits;
            if (!unused) {
                race->failed = true;
                return false;
            }
            race->split_capacity = capacity;
        }
        at = race->splits++;
    }
    race_cell *bytes = race->split[at];
    for (uint32_t b = 0; b < 4; b++) {
        bytes[b] = *cell;
        bytes[b].more = 0;
        for (uint32_t from = cell->more; from; from = race->chunk[from].next) {
            uint32_t copy = new_chunk(race);
            memcpy(race->chunk[copy].since, race->chunk[from].since, sizeof race->chunk[copy].since);
            race->chunk[copy].next = bytes[b].more;
            bytes[b].more = copy;
        }
    }
    free_chunks(race, cell);
    *cell = (race_cell){.write = (uint64_t)SPLIT_ACTOR << ACTOR_SHIFT | at};
    return true;
}

/* The whole word has been written. */
static void join_word(sim_race *race, race_cell *cell)
{
    uint32_t at = (uint32_t)cell->write;
    for (uint32_t b = 0; b < 4; b++) {
        free_chunks(race, &race->split[at][b]);
    }
    race->free_splits[race->free_split_count++] = at;
    *cell = (race_cell){0};
}

/* --- one cell --- */

/* The access in the cell that lane's races with; 0: none. */
static inline uint64_t find_race(const actor_view *v, const race_cell *cell, uint32_t lane)
{
    if (races_with(v, cell->write, lane)) {
        return cell->write;
    }
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        if (races_with(v, cell->since[k], lane)) {
            return cell->since[k];
        }
    }
    for (uint32_t at = cell->more; at; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS; k++) {
            if (races_with(v, v->race->chunk[at].since[k], lane)) {
                return v->race->chunk[at].since[k];
            }
        }
    }
    return 0;
}

static inline void set_write(sim_race *race, race_cell *cell, uint64_t stamp, uint32_t lane)
{
    bool same = without_lane(cell->write) == stamp && stamp_lane(cell->write) != lane; /* of this instruction */
    cell->write = with_lane(stamp, same ? SEVERAL_LANES : lane);
    memset(cell->since, 0, sizeof cell->since);
    if (cell->more) {
        free_chunks(race, cell);
    }
}

/* Looks through `count` stamps: those that `stamp` stands for go; returns a free place or `place`. */
static inline uint64_t *make_room(const actor_view *v, uint64_t *since, uint32_t count, uint64_t *stamp,
                                  uint64_t *place)
{
    for (uint32_t k = 0; k < count; k++) {
        uint64_t old = since[k];
        if (old && stands_for(v->class, class_of(old))) {
            uint32_t lane = stamp_lane(*stamp);
            bool own = stamp_actor(old) == v->self;
            if (own && stamp_lane(old) != lane && !(v->waits && stamp_time(old) < v->lane_sync)) {
                *stamp = with_lane(without_lane(*stamp), SEVERAL_LANES);
                since[k] = 0;
            } else if (own || is_known(v, old, lane, false)) {
                since[k] = 0;
            }
        }
        if (!since[k] && !place) {
            place = &since[k];
        }
    }
    return place;
}

/* An access that isn't a weak write. */
static inline void add_since(const actor_view *v, race_cell *cell, uint32_t lane)
{
    uint64_t stamp = with_lane(v->stamp, lane);
    uint64_t *place = make_room(v, cell->since, CELL_STAMPS, &stamp, NULL);
    uint32_t *link = &cell->more;
    while (*link) {
        race_chunk *chunk = &v->race->chunk[*link];
        place = make_room(v, chunk->since, CHUNK_STAMPS, &stamp, place);
        link = &chunk->next;
    }
    if (!place) {
        uint32_t at = new_chunk(v->race); /* moves the chunks: link may point into them */
        if (!at) {
            return;
        }
        v->race->chunk[at].next = cell->more;
        cell->more = at;
        place = v->race->chunk[at].since;
    }
    *place = stamp;
}

static inline uint64_t touch_cell(const actor_view *v, race_cell *cell, uint32_t lane)
{
    uint64_t other = find_race(v, cell, lane);
    if (!other) {
        add_since(v, cell, lane);
    }
    return other;
}

/* --- the bytes of one access --- */

typedef enum race_step { CHECK, WRITE, TOUCH } race_step; /* weak writes: look, then write; others: both at once */

static inline uint64_t cell_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step)
{
    switch (step) {
    case CHECK:
        return find_race(v, cell, lane);
    case WRITE:
        set_write(v->race, cell, v->stamp, lane);
        return 0;
    default:
        return touch_cell(v, cell, lane);
    }
}

/* Bytes *at to end - 1 of one word; *at becomes the one that races. */
static uint64_t part_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step, uint32_t *at,
                          uint32_t end)
{
    bool whole = *at % 4 == 0 && end - *at == 4;
    if (is_split(cell) && whole && step == WRITE) {
        join_word(v->race, cell);
    } else if (!is_split(cell) && !whole && !split_word(v->race, cell)) {
        return 0;
    }
    if (!is_split(cell)) {
        return cell_step(v, cell, lane, step);
    }
    for (; *at < end; ++*at) {
        uint64_t other = cell_step(v, &bytes_of(v->race, cell)[*at % 4], lane, step);
        if (other) {
            return other;
        }
    }
    return 0;
}

/* Four words that look alike, as rows of 16 bytes do, cost as much as one. */
static inline bool four_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step, uint64_t *other)
{
    if (cell->more || is_split(cell) || memcmp(cell, cell + 1, 3 * sizeof *cell) != 0) {
        return false;
    }
    race_cell one = *cell;
    *other = cell_step(v, &one, lane, step);
    if (one.more) { /* a chunk isn't shared */
        free_chunks(v->race, &one);
        return false;
    }
    if (step != CHECK) {
        cell[0] = cell[1] = cell[2] = cell[3] = one;
    }
    return true;
}

/* The access in [offset, offset + size) that this one races with; 0: none. *at: the byte of its word. */
static inline uint64_t span_step(const actor_view *v, race_cell *cells, uint32_t lane, race_step step, uint32_t offset,
                                 uint32_t size, uint32_t *at)
{
    uint32_t end = offset + size;
    uint64_t other = 0;
    for (uint32_t next; offset < end && !other; offset = next) {
        race_cell *cell = &cells[offset / 4];
        *at = offset;
        if (offset % 16 == 0 && end - offset >= 16 && four_step(v, cell, lane, step, &other)) {
            next = offset + 16;
            continue;
        }
        next = (offset & ~3u) + 4;
        if (offset % 4 == 0 && next <= end && !is_split(cell)) {
            other = cell_step(v, cell, lane, step);
        } else {
            next = next < end ? next : end;
            other = part_step(v, cell, lane, step, at, next);
        }
    }
    return other;
}

/* --- reports --- */

static void describe_thread(const sim_warp *warp, uint32_t lane, char *text, size_t size)
{
    const uint32_t *dims = warp->block->cluster->worker->run->launch->block;
    uint32_t thread = warp->id * PTX_LANES + (lane == SEVERAL_LANES ? 0 : lane);
    char block[32] = "";
    if (warp->block->cluster->block_count > 1) {
        snprintf(block, sizeof block, " of block rank %" PRIu32, warp->block->rank);
    }
    if (lane == SEVERAL_LANES) {
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
    bool fence_missing = v->proxy && class_of(other) >= STRONG_WRITE && is_known(v, other, lane, false);
    return sim_fault_at(warp, insn, lane == SEVERAL_LANES ? -1 : (int)lane, SIM_FAULT_RACE,
                        "race on %s: this %s%s and the %s%s of %s (line %" PRIu32 ", %s) %s", place,
                        v->waits ? "" : "asynchronous ", class_name(v->class),
                        actor >= v->race->warps ? "asynchronous " : "", class_name(class_of(other)), who,
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

static inline uint64_t warp_step(const actor_view *v, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                                 uint32_t size, race_step step, uint32_t *culprit, uint32_t *at)
{
    SIM_FOR_LANES(lane, mask)
    {
        uint64_t other = span_step(v, owner[lane]->shadow->cell, lane, step, offset[lane], size, at);
        if (other) {
            *culprit = lane;
            return other;
        }
    }
    return 0;
}

sim_next sim_race_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                       const uint32_t *offset, uint32_t size, sim_access access)
{
    if (!warp->clock) {
        return SIM_NEXT;
    }
    race_warp *state = race_of(warp);
    uint32_t time = race_now(state);
    actor_view v = {.race = warp->block->shadow->race,
                    .known = state->clock.known,
                    .fenced = state->clock.fenced,
                    .size = state->clock.size,
                    .self = state->number,
                    .warp = state->number,
                    .lane_sync = state->lane_sync,
                    .waits = warp,
                    .class = classify(access)};
    v.stamp = make_stamp(warp, insn, v.self, v.class, time);
    uint32_t lane = 0, at = 0;
    uint64_t other;
    if (v.class == WEAK_WRITE) { /* the lanes of one store don't race with each other */
        other = warp_step(&v, mask, owner, offset, size, CHECK, &lane, &at);
        if (!other) {
            warp_step(&v, mask, owner, offset, size, WRITE, &lane, &at);
        }
    } else {
        other = warp_step(&v, mask, owner, offset, size, TOUCH, &lane, &at);
    }
    if (other) {
        return report(&v, warp, insn, lane, owner[lane], at, other);
    }
    return v.race->failed ? out_of_memory(warp, insn) : SIM_NEXT;
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

sim_next sim_race_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access)
{
    if (!agent->knows) {
        return SIM_NEXT;
    }
    sim_warp *issuer = agent->issuer;
    sim_race *race = issuer->block->shadow->race;
    actor_view v = {.race = race,
                    .known = agent->knows->known,
                    .fenced = agent->knows->fenced,
                    .size = agent->knows->size,
                    .self = race->warps + agent->slot,
                    .warp = race_of(issuer)->number,
                    .lane_sync = race->slot[agent->slot].lane_sync,
                    .proxy = agent->async_proxy,
                    .class = classify(access)};
    v.stamp = make_stamp(issuer, agent->insn, v.self, v.class, agent->number);
    uint32_t at = 0;
    uint64_t other;
    if (v.class == WEAK_WRITE) {
        other = span_step(&v, owner->shadow->cell, agent->lane, CHECK, offset, size, &at);
        if (!other) {
            span_step(&v, owner->shadow->cell, agent->lane, WRITE, offset, size, &at);
        }
    } else {
        other = span_step(&v, owner->shadow->cell, agent->lane, TOUCH, offset, size, &at);
    }
    if (other) {
        return report(&v, issuer, agent->insn, agent->lane, owner, at, other);
    }
    return race->failed ? out_of_memory(issuer, agent->insn) : SIM_NEXT;
}

/* --- begin and end --- */

static sim_race *new_race(sim_cluster *cluster)
{
    uint32_t per_block = cluster->block[0].warp_count;
    sim_race *race = calloc(1, sizeof *race);
    if (!race) {
        return NULL;
    }
    race->warps = cluster->block_count * per_block;
    race->warp = calloc(race->warps, sizeof *race->warp);
    bool ok = race->warp != NULL;
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        sim_block *block = &cluster->block[b];
        block->shadow = calloc(1, sizeof *block->shadow);
        ok = ok && block->shadow;
        if (block->shadow) {
            block->shadow->race = race;
            block->shadow->cell = calloc(block->shared_bytes / 4 + 4, sizeof(race_cell));
            ok = ok && block->shadow->cell;
        }
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
            free(block->shadow->cell);
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
