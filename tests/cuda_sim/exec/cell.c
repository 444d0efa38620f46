/* cell.c - what is kept of a word, or of a byte of it: who touched it, and whether the next one to touch it knows.
 *
 * A word whose bytes are written apart is split into four cells until a whole word is written again, so that neighbours
 * in a word never look like a race. A cell keeps all that can still matter (as FastTrack does, Flanagan and Freund,
 * PLDI 2009): the last weak write, and the accesses since that don't follow one another. */
#include "shadow.h"

#include <stdlib.h>
#include <string.h>

/* --- cells --- */

/* In place of the last write, a split word has its number; whoever takes it for a write never knows of it. */
static uint64_t split_tag(uint32_t number)
{
    return (uint64_t)SPLIT_ACTOR << ACTOR_SHIFT | (uint64_t)number << LANE_SHIFT | (uint64_t)WEAK_WRITE << CLASS_SHIFT |
           TIME_MASK;
}

static uint32_t split_number(const race_cell *cell)
{
    return (uint32_t)(cell->write >> LANE_SHIFT) & MAX_SPLITS;
}

static bool is_split(const race_cell *cell)
{
    return stamp_actor(cell->write) == SPLIT_ACTOR;
}

static race_cell *bytes_of(sim_race *race, const race_cell *cell)
{
    return race->split[split_number(cell)];
}

/* --- lists of chunks --- */

void race_leave_list(sim_race *race, uint32_t list, uint32_t users)
{
    if (!list || (race->chunk[list].users -= users) > 0) {
        return;
    }
    race_forget(race); /* the list's number may come back */
    uint32_t last = list;
    while (race->chunk[last].next) {
        last = race->chunk[last].next;
    }
    race->chunk[last].next = race->free_chunk;
    race->free_chunk = list;
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

uint32_t race_own_list(sim_race *race, uint32_t list, uint32_t users)
{
    if (!list || race->chunk[list].users == users) {
        return list;
    }
    uint32_t copy = 0;
    for (uint32_t from = list; from; from = race->chunk[from].next) {
        uint32_t at = new_chunk(race);
        if (!at) {
            return 0;
        }
        race->chunk[at] = race->chunk[from];
        race->chunk[at].next = copy;
        copy = at;
    }
    race->chunk[list].users -= users;
    race->chunk[copy].users = users;
    return copy;
}

uint32_t race_lengthen_list(sim_race *race, uint32_t list, uint32_t users)
{
    uint32_t at = new_chunk(race);
    if (at) {
        race->chunk[at].next = list;
        race->chunk[at].users = users;
    }
    return at;
}

static bool split_word(sim_race *race, race_cell *cell)
{
    uint32_t at;
    if (race->free_split_count) {
        at = race->free_splits[--race->free_split_count];
    } else {
        if (race->splits == MAX_SPLITS) {
            race->failed = true;
            return false;
        }
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
    for (uint32_t b = 0; b < 4; b++) {
        race->split[at][b] = *cell;
    }
    if (cell->more) {
        race->chunk[cell->more].users += 3;
    }
    *cell = (race_cell){.write = split_tag(at)};
    return true;
}

/* The whole word has been written. */
static void join_word(sim_race *race, race_cell *cell)
{
    uint32_t at = split_number(cell);
    for (uint32_t b = 0; b < 4; b++) {
        race_leave_list(race, race->split[at][b].more, 1);
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

static inline void set_write(const actor_view *v, race_cell *cell, uint32_t lane)
{
    bool same = without_lane(cell->write) == v->stamp && stamp_lane(cell->write) != lane; /* of this instruction */
    cell->write = with_lane(v->stamp, !same ? lane : v->waits ? SEVERAL_LANES : MIXED_LANES);
    memset(cell->since, 0, sizeof cell->since);
    race_leave_list(v->race, cell->more, 1);
    cell->more = 0;
}

/* Looks through `count` stamps: those that `stamp` stands for go; returns a free place or `place`. */
static inline uint64_t *make_room(const actor_view *v, uint64_t *since, uint32_t count, uint64_t *stamp,
                                  uint64_t *place)
{
    for (uint32_t k = 0; k < count; k++) {
        uint64_t old = since[k];
        if (old && stands_for(v->class, stamp_class(old))) {
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
    cell->more = race_own_list(v->race, cell->more, 1);
    for (uint32_t at = cell->more; at; at = v->race->chunk[at].next) {
        place = make_room(v, v->race->chunk[at].since, CHUNK_STAMPS, &stamp, place);
    }
    if (!place) {
        uint32_t at = race_lengthen_list(v->race, cell->more, 1);
        if (!at) {
            return;
        }
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

uint64_t race_cell_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step)
{
    switch (step) {
    case CHECK:
        return find_race(v, cell, lane);
    case WRITE:
        set_write(v, cell, lane);
        return 0;
    default:
        return touch_cell(v, cell, lane);
    }
}

uint64_t race_word_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step, uint32_t *at, uint32_t end)
{
    bool whole = *at % 4 == 0 && end - *at == 4;
    if (is_split(cell) && whole && step == WRITE) {
        join_word(v->race, cell);
    } else if (!is_split(cell) && !whole && !split_word(v->race, cell)) {
        return 0;
    }
    if (!is_split(cell)) {
        return race_cell_step(v, cell, lane, step);
    }
    for (; *at < end; ++*at) {
        uint64_t other = race_cell_step(v, &bytes_of(v->race, cell)[*at % 4], lane, step);
        if (other) {
            return other;
        }
    }
    return 0;
}
