/* shadow.c - a cell for each word of shared memory: who has touched it, and whether the next one to touch it knows.
 *
 * A word whose bytes are written apart is split into four cells until a whole word is written again, so that neighbours
 * in a word never look like a race. A cell keeps all that can still matter (as FastTrack does, Flanagan and Freund,
 * PLDI 2009): the last weak write, and the accesses since that don't follow one another.
 *
 * Words that are touched together mostly have the same past but for the lanes, so runs of words are first looked at as
 * one: their stamps must be alike, and known. Only where that fails each word is looked at alone. */
#include "race.h"

#include <stdlib.h>
#include <string.h>

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
    if (actor == v->warp) { /* "several" is one and the same to an agent only, that its whole warp issued */
        return time < v->lane_sync || (lane == SEVERAL_LANES ? !v->waits : stamp_lane(stamp) == lane);
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
    access_class earlier = stamp_class(stamp);
    return stamp && conflicts(earlier, v->class) && !is_known(v, stamp, lane, v->proxy && earlier >= STRONG_WRITE);
}

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

/* --- lists of chunks: cells that were touched together share one, and change it by a copy --- */

static void leave_list(sim_race *race, uint32_t list, uint32_t users)
{
    if (!list || (race->chunk[list].users -= users) > 0) {
        return;
    }
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

/* `list` for its `users` alone. 0: out of memory (or it was 0). */
static uint32_t own_list(sim_race *race, uint32_t list, uint32_t users)
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

/* A new chunk before the others. */
static uint32_t lengthen_list(sim_race *race, uint32_t list, uint32_t users)
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
        leave_list(race, race->split[at][b].more, 1);
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
    leave_list(race, cell->more, 1);
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
    cell->more = own_list(v->race, cell->more, 1);
    for (uint32_t at = cell->more; at; at = v->race->chunk[at].next) {
        place = make_room(v, v->race->chunk[at].since, CHUNK_STAMPS, &stamp, place);
    }
    if (!place) {
        uint32_t at = lengthen_list(v->race, cell->more, 1);
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
static uint64_t word_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step, uint32_t *at,
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

/* --- runs of words --- */

/* `count` words from `first` on, word i by lane `lane` + (i >> shift); by one lane: shift ONE_LANE. */
enum { ONE_LANE = 31, RUN = 32, ANY_LANE = SEVERAL_LANES + 1 }; /* what ANY_LANE knows, all lanes do */
typedef struct words {
    uint32_t first, count, lane, shift;
} words;

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Alike but for lane and instruction, which lie side by side. */
#define ACTOR_AND_TIME (~(((UINT64_C(1) << (LANE_BITS + INSN_BITS)) - 1) << LANE_SHIFT))

static ALWAYS_INLINE bool are_alike(const uint64_t *stamps, const words *w)
{
    uint64_t odd = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        odd |= stamps[i] ^ stamps[0];
    }
    return (odd & ACTOR_AND_TIME) == 0;
}

static ALWAYS_INLINE bool have_lanes(const uint64_t *stamps, const words *w)
{
    uint32_t odd = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        odd |= stamp_lane(stamps[i]) ^ (w->lane + (i >> w->shift));
    }
    return odd == 0;
}

/* Alike stamps: is each known to its lane? */
static ALWAYS_INLINE bool are_known(const actor_view *v, const uint64_t *stamps, const words *w, bool fenced)
{
    uint64_t stamp = without_lane(stamps[0]);
    if (is_known(v, stamp, ANY_LANE, fenced)) {
        return true;
    }
    return w->lane < SEVERAL_LANES && is_known(v, with_lane(stamp, w->lane), w->lane, fenced) && have_lanes(stamps, w);
}

/* The list that all share. */
static ALWAYS_INLINE bool have_one_list(const uint32_t *more, const words *w)
{
    uint32_t odd = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        odd |= more[i] ^ more[0];
    }
    return odd == 0;
}

static ALWAYS_INLINE bool stamps_are_clear(const actor_view *v, const uint64_t *stamps, const words *w)
{
    access_class earlier = stamp_class(stamps[0]);
    return are_alike(stamps, w) && (!stamps[0] || !conflicts(earlier, v->class) ||
                                    are_known(v, stamps, w, v->proxy && earlier >= STRONG_WRITE));
}

/* The stamps of a list are those of all words. */
static bool list_is_clear(const actor_view *v, uint32_t list, const words *w)
{
    uint32_t lane = w->shift == ONE_LANE ? w->lane : ANY_LANE;
    for (uint32_t at = list; at; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS; k++) {
            if (races_with(v, v->race->chunk[at].since[k], lane)) {
                return false;
            }
        }
    }
    return true;
}

/* Everything in these words is alike, and known or no matter. false: perhaps not. */
static ALWAYS_INLINE bool run_is_clear(const actor_view *v, const struct sim_shadow *shadow, const words *w)
{
    const uint32_t *more = shadow->more + w->first;
    return stamps_are_clear(v, shadow->write + w->first, w) && stamps_are_clear(v, shadow->since[0] + w->first, w) &&
           stamps_are_clear(v, shadow->since[1] + w->first, w) && have_one_list(more, w) &&
           (!more[0] || list_is_clear(v, more[0], w));
}

static ALWAYS_INLINE void put_stamps(const actor_view *v, uint64_t *stamps, const words *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        stamps[i] = with_lane(v->stamp, w->lane + (i >> w->shift));
    }
}

/* A clear run is written. */
static ALWAYS_INLINE bool run_write(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    uint64_t *write = shadow->write + w->first;
    uint32_t *more = shadow->more + w->first;
    bool now = ((write[0] ^ v->stamp) & ACTOR_AND_TIME) == 0; /* perhaps by another lane of this instruction */
    if (!have_one_list(more, w) || !are_alike(write, w) || stamp_actor(write[0]) == SPLIT_ACTOR ||
        (now && !have_lanes(write, w))) {
        return false;
    }
    put_stamps(v, write, w);
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        memset(shadow->since[k] + w->first, 0, w->count * sizeof *write);
    }
    if (more[0]) {
        leave_list(v->race, more[0], w->count);
        memset(more, 0, w->count * sizeof *more);
    }
    return true;
}

/* A place in the list of one lane's words: a free one, else that of a stamp that the new one stands for. */
static uint64_t *place_in_list(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    uint32_t *more = shadow->more + w->first, list = own_list(v->race, more[0], w->count);
    uint64_t *place = NULL;
    for (uint32_t at = list; at; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS; k++) {
            uint64_t *since = &v->race->chunk[at].since[k];
            place = !*since && !place ? since : place;
        }
    }
    for (uint32_t at = list; at && !place; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS && !place; k++) {
            uint64_t *since = &v->race->chunk[at].since[k];
            bool own = stamp_actor(*since) == v->self && stamp_lane(*since) == w->lane;
            bool old = stands_for(v->class, stamp_class(*since)) && (own || is_known(v, *since, w->lane, false));
            place = old ? since : NULL;
        }
    }
    if (!place) {
        list = lengthen_list(v->race, list, w->count);
        place = list ? v->race->chunk[list].since : NULL;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        more[i] = list;
    }
    return place;
}

/* A clear run is touched. */
static ALWAYS_INLINE bool run_touch(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    uint64_t *room = NULL;
    for (uint32_t k = 0; k < CELL_STAMPS && !room; k++) {
        uint64_t *since = shadow->since[k] + w->first;
        room = since[0] ? NULL : since;
    }
    for (uint32_t k = 0; k < CELL_STAMPS && !room; k++) {
        uint64_t *since = shadow->since[k] + w->first;
        bool own = stamp_actor(since[0]) == v->self && have_lanes(since, w);
        room = stands_for(v->class, stamp_class(since[0])) && (own || are_known(v, since, w, false)) ? since : NULL;
    }
    if (room) {
        put_stamps(v, room, w);
        return true;
    }
    uint64_t *place = w->shift == ONE_LANE ? place_in_list(v, shadow, w) : NULL;
    if (place) {
        *place = with_lane(v->stamp, w->lane);
    }
    return place != NULL;
}

static ALWAYS_INLINE bool run_step(const actor_view *v, struct sim_shadow *shadow, const words *w, race_step step)
{
    switch (step) {
    case CHECK:
        return run_is_clear(v, shadow, w);
    case WRITE:
        return run_write(v, shadow, w);
    default:
        return run_is_clear(v, shadow, w) && run_touch(v, shadow, w);
    }
}

/* --- entry points --- */

static race_cell load_cell(const struct sim_shadow *shadow, uint32_t word)
{
    return (race_cell){.write = shadow->write[word],
                       .since = {shadow->since[0][word], shadow->since[1][word]},
                       .more = shadow->more[word]};
}

static void store_cell(struct sim_shadow *shadow, uint32_t word, const race_cell *cell)
{
    shadow->write[word] = cell->write;
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        shadow->since[k][word] = cell->since[k];
    }
    shadow->more[word] = cell->more;
}

/* One word, or its bytes up to `end`. */
static uint64_t word_at(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t *at,
                        uint32_t end)
{
    uint32_t word = *at / 4, next = 4 * word + 4;
    race_cell cell = load_cell(shadow, word);
    uint64_t other = word_step(v, &cell, lane, step, at, next < end ? next : end);
    store_cell(shadow, word, &cell);
    return other;
}

/* `count` words from *at on, if need be in parts. */
static uint64_t words_at(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t *at,
                         uint32_t count)
{
    words w = {.first = *at / 4, .count = count, .lane = lane, .shift = ONE_LANE};
    if (count > 1 && run_step(v, shadow, &w, step)) {
        return 0;
    }
    uint32_t part = count > 8 ? 8 : count > 4 ? 4 : 1, end = *at + 4 * count;
    for (uint32_t next = *at; next < end; next += 4 * part) {
        uint32_t rest = (end - next) / 4;
        *at = next;
        uint64_t other = part == 1 ? word_at(v, shadow, step, lane, at, end)
                                   : words_at(v, shadow, step, lane, at, rest < part ? rest : part);
        if (other) {
            return other;
        }
    }
    return 0;
}

uint64_t shadow_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                     uint32_t size, uint32_t *at)
{
    if (offset % 4 == 0 && size == 4) { /* one word: the loops over words go */
        words w = {.first = offset / 4, .count = 1, .lane = lane, .shift = ONE_LANE};
        if (run_step(v, shadow, &w, step)) {
            return 0;
        }
    }
    uint64_t other = 0;
    for (uint32_t end = offset + size, next; offset < end && !other; offset = next) {
        uint32_t whole = offset % 4 == 0 ? (end - offset) / 4 : 0;
        whole = whole < RUN ? whole : RUN;
        next = whole ? offset + 4 * whole : (offset & ~3u) + 4;
        *at = offset;
        other = whole > 1 ? words_at(v, shadow, step, lane, at, whole) : word_at(v, shadow, step, lane, at, end);
    }
    return other;
}

bool shadow_row(const actor_view *v, struct sim_shadow *shadow, uint32_t offset, uint32_t size)
{
    uint32_t shift = (uint32_t)__builtin_ctz(size / 4), lanes = RUN >> shift; /* of a run */
    words w = {.count = RUN, .shift = shift};
    bool clear = true;
    for (w.lane = 0; clear && w.lane < PTX_LANES; w.lane += lanes) {
        w.first = (offset + w.lane * size) / 4;
        clear = run_is_clear(v, shadow, &w);
    }
    for (w.lane = 0; clear && w.lane < PTX_LANES; w.lane += lanes) {
        w.first = (offset + w.lane * size) / 4;
        clear = v->class == WEAK_WRITE ? run_write(v, shadow, &w) : run_touch(v, shadow, &w);
    }
    return clear;
}

bool shadow_knows(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced)
{
    return is_known(v, stamp, lane, fenced);
}

bool shadow_init(struct sim_shadow *shadow, sim_race *race, uint32_t bytes)
{
    size_t count = (size_t)bytes / 4 + RUN;
    uint64_t *stamps = calloc(count, (1 + CELL_STAMPS) * sizeof *stamps + sizeof *shadow->more);
    shadow->race = race;
    shadow->write = stamps;
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        shadow->since[k] = stamps + (k + 1) * count;
    }
    shadow->more = (uint32_t *)(void *)(stamps + (1 + CELL_STAMPS) * count);
    return stamps != NULL;
}

void shadow_end(struct sim_shadow *shadow)
{
    free(shadow->write);
}
