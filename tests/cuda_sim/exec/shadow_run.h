/* shadow_run.h - runs of words, looked at as one; a part of shadow.c, whose loops it becomes.
 *
 * Words that are touched together mostly have the same past but for the lanes, so runs of words are first looked at as
 * one: their stamps must be alike, and known. What some runs of an access were like and what became of them is kept, as
 * the next ones are mostly the same again. */
#ifndef SHADOW_RUN_H
#define SHADOW_RUN_H

#include "shadow.h"

#include <string.h>

/* `count` words from `first` on, word i by lane `lane` + (i >> shift); by one lane: shift ONE_LANE. */
enum { ONE_LANE = 31, RUN = 32, ANY_LANE = MIXED_LANES + 1 }; /* what ANY_LANE knows, all lanes do */
typedef struct words {
    uint32_t first, count, lane, shift;
} words;

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Alike but for lane and instruction. */
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

/* How much is known of a run: nothing, that it is clear for the lanes that touch it now, or for any. */
typedef enum clearness { PERHAPS_NOT, FOR_THESE, FOR_ALL } clearness;

static ALWAYS_INLINE clearness lesser(clearness a, clearness b)
{
    return a < b ? a : b;
}

/* Alike stamps: is each known to its lane? What is known of some lanes alone does not count. */
static ALWAYS_INLINE clearness are_known(const actor_view *v, const uint64_t *stamps, const words *w, bool fenced)
{
    uint64_t stamp = without_lane(stamps[0]);
    if (is_known_of_all(v, stamp, ANY_LANE, fenced)) {
        return FOR_ALL;
    }
    bool known = w->lane < SEVERAL_LANES && is_known_of_all(v, with_lane(stamp, w->lane), w->lane, fenced) &&
                 have_lanes(stamps, w);
    return known ? FOR_THESE : PERHAPS_NOT;
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

static ALWAYS_INLINE clearness stamps_are_clear(const actor_view *v, const uint64_t *stamps, const words *w)
{
    access_class earlier = stamp_class(stamps[0]);
    if (!are_alike(stamps, w)) {
        return PERHAPS_NOT;
    }
    bool harmless = !stamps[0] || !conflicts(earlier, v->class);
    return harmless ? FOR_ALL : are_known(v, stamps, w, v->proxy && earlier >= STRONG_WRITE);
}

static bool list_is_clear_for(const actor_view *v, uint32_t list, uint32_t lane)
{
    for (uint32_t at = list; at; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS; k++) {
            if (races_with(v, v->race->chunk[at].since[k], lane)) {
                return false;
            }
        }
    }
    return true;
}

/* The stamps of a list are those of all words. */
static clearness list_is_clear(const actor_view *v, uint32_t list, const words *w)
{
    if (list_is_clear_for(v, list, ANY_LANE)) {
        return FOR_ALL;
    }
    return w->shift == ONE_LANE && list_is_clear_for(v, list, w->lane) ? FOR_THESE : PERHAPS_NOT;
}

/* Everything in these words is alike, and known or no matter. */
static ALWAYS_INLINE clearness run_is_clear(const actor_view *v, const struct sim_shadow *shadow, const words *w)
{
    const uint32_t *more = shadow->more + w->first;
    clearness all = stamps_are_clear(v, shadow->write + w->first, w);
    for (uint32_t k = 0; k < CELL_STAMPS && all; k++) {
        all = lesser(all, stamps_are_clear(v, shadow->since[k] + w->first, w));
    }
    if (!all || !have_one_list(more, w)) {
        return PERHAPS_NOT;
    }
    return more[0] ? lesser(all, list_is_clear(v, more[0], w)) : all;
}

static ALWAYS_INLINE void put_stamps(const actor_view *v, uint64_t *stamps, const words *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        stamps[i] = with_lane(v->stamp, w->lane + (i >> w->shift));
    }
}

/* --- the run before --- */

/* Where a run like this one has left what was made of it: by who wrote it and who touched it first. */
static ALWAYS_INLINE race_last *last_like(const actor_view *v, uint64_t write, uint64_t since)
{
    return &v->race->last[(stamp_actor(write) + 7 * stamp_actor(since)) % RACE_LASTS];
}

static ALWAYS_INLINE race_last *last_of(const actor_view *v, const struct sim_shadow *shadow, const words *w)
{
    return last_like(v, shadow->write[w->first], shadow->since[0][w->first]);
}

/* Four words' stamps at once; where the host has no such registers the compiler splits them. */
typedef uint64_t four_stamps __attribute__((vector_size(32), aligned(8)));
typedef uint32_t four_lists __attribute__((vector_size(16), aligned(4)));

static ALWAYS_INLINE bool four_like_last(const race_last *last, const struct sim_shadow *shadow, uint32_t first)
{
    four_stamps odd = *(const four_stamps *)(const void *)(shadow->write + first) ^ last->write;
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        odd |= *(const four_stamps *)(const void *)(shadow->since[k] + first) ^ last->since[k];
    }
    const four_lists lists = *(const four_lists *)(const void *)(shadow->more + first) ^ last->more;
    return (((odd[0] | odd[1]) | (odd[2] | odd[3])) & ACTOR_AND_TIME) == 0 &&
           ((lists[0] | lists[1]) | (lists[2] | lists[3])) == 0;
}

/* These words are what `last` says: clear, too. */
static ALWAYS_INLINE bool like_last(const actor_view *v, const race_last *last, const struct sim_shadow *shadow,
                                    const words *w)
{
    if (last->use != v->race->use || last->made == NOT_CLEAR) {
        return false;
    }
    if (w->count == 4) {
        return four_like_last(last, shadow, w->first);
    }
    const uint64_t *write = shadow->write + w->first;
    const uint32_t *more = shadow->more + w->first;
    uint64_t odd = 0;
    uint32_t odd_lists = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        odd |= write[i] ^ last->write;
        odd_lists |= more[i] ^ last->more;
    }
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        const uint64_t *since = shadow->since[k] + w->first;
        for (uint32_t i = 0; i < w->count; i++) {
            odd |= since[i] ^ last->since[k];
        }
    }
    return (odd & ACTOR_AND_TIME) == 0 && odd_lists == 0;
}

/* Before the run changes: what the next one may be like. */
static ALWAYS_INLINE void note_run(const actor_view *v, const struct sim_shadow *shadow, const words *w)
{
    race_last *last = last_of(v, shadow, w);
    *last = (race_last){.use = v->race->use,
                        .write = shadow->write[w->first],
                        .more = shadow->more[w->first],
                        .lane = w->lane,
                        .made = ONLY_CLEAR};
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        last->since[k] = shadow->since[k][w->first];
    }
}

/* --- writes --- */

static ALWAYS_INLINE void put_write(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    uint32_t *more = shadow->more + w->first;
    put_stamps(v, shadow->write + w->first, w);
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        memset(shadow->since[k] + w->first, 0, w->count * sizeof(uint64_t));
    }
    if (more[0]) {
        race_leave_list(v->race, more[0], w->count);
        memset(more, 0, w->count * sizeof *more);
    }
}

static ALWAYS_INLINE bool is_of_now(const actor_view *v, uint64_t stamp)
{
    return ((stamp ^ v->stamp) & ACTOR_AND_TIME) == 0;
}

/* A clear run is written. */
static ALWAYS_INLINE bool write_run(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    const uint64_t *write = shadow->write + w->first;
    bool now = is_of_now(v, write[0]); /* perhaps by another lane of this instruction */
    if (!have_one_list(shadow->more + w->first, w) || !are_alike(write, w) || stamp_actor(write[0]) == SPLIT_ACTOR ||
        (now && !have_lanes(write, w))) {
        return false;
    }
    put_write(v, shadow, w);
    return true;
}

static ALWAYS_INLINE bool run_write(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    if (!is_of_now(v, shadow->write[w->first]) && like_last(v, last_of(v, shadow, w), shadow, w)) {
        put_write(v, shadow, w);
        return true;
    }
    return write_run(v, shadow, w);
}

/* --- other accesses --- */

/* A stamp of the words' list that the new one may replace, else a free place, else NULL; *lane: whom it is then of. */
static uint64_t *replaceable(const actor_view *v, uint32_t list, uint32_t *lane)
{
    uint64_t *place = NULL;
    for (uint32_t at = list; at; at = v->race->chunk[at].next) {
        for (uint32_t k = 0; k < CHUNK_STAMPS; k++) {
            uint64_t *since = &v->race->chunk[at].since[k];
            if (!*since) {
                place = place ? place : since;
            } else if (stands_for(v->class, stamp_class(*since))) {
                if (is_known(v, *since, *lane, false)) {
                    return since;
                }
                if (stamp_actor(*since) == v->self) {
                    *lane = stamp_lane(*since) == *lane ? *lane : SEVERAL_LANES;
                    return since;
                }
            }
        }
    }
    return place;
}

/* A place in the list of one lane's words. */
static uint64_t *place_in_list(const actor_view *v, struct sim_shadow *shadow, const words *w, uint32_t *lane)
{
    uint32_t *more = shadow->more + w->first, list = race_own_list(v->race, more[0], w->count);
    uint64_t *place = replaceable(v, list, lane);
    if (!place) {
        list = race_lengthen_list(v->race, list, w->count);
        place = list ? v->race->chunk[list].since : NULL;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        more[i] = list;
    }
    return place;
}

/* The words' list becomes the one that the last run's became. */
static ALWAYS_INLINE void follow_last(const actor_view *v, const race_last *last, struct sim_shadow *shadow,
                                      const words *w)
{
    uint32_t *more = shadow->more + w->first;
    v->race->chunk[last->list].users += w->count;
    for (uint32_t i = 0; i < w->count; i++) {
        more[i] = last->list;
    }
    race_leave_list(v->race, last->more, w->count);
}

static bool touch_list(const actor_view *v, struct sim_shadow *shadow, const words *w, bool note)
{
    uint32_t before = shadow->more[w->first];
    uint32_t lane = w->lane;
    uint64_t *place = w->shift == ONE_LANE ? place_in_list(v, shadow, w, &lane) : NULL;
    race_last *last = last_of(v, shadow, w);
    last->made = NOT_CLEAR;
    if (!place) {
        return false;
    }
    *place = with_lane(v->stamp, lane);
    if (note && shadow->more[w->first] != before) {
        last->list = shadow->more[w->first];
        last->made = IN_LIST;
    }
    return true;
}

/* Whether the new stamps may replace these, and whose they are then. */
static clearness may_replace(const actor_view *v, const uint64_t *since, const words *w, words *then)
{
    clearness known = are_known(v, since, w, false);
    if (known || stamp_actor(since[0]) != v->self) {
        return known;
    }
    words same = {.count = w->count, .lane = stamp_lane(since[0]), .shift = ONE_LANE};
    if (have_lanes(since, w)) {
        return FOR_THESE;
    }
    if (w->shift == ONE_LANE && have_lanes(since, &same)) {
        then->lane = SEVERAL_LANES;
        return FOR_THESE;
    }
    return PERHAPS_NOT;
}

/* A clear run is touched; `all`: it is clear for all lanes. */
static ALWAYS_INLINE bool touch_run(const actor_view *v, struct sim_shadow *shadow, const words *w, bool all)
{
    race_last *last = last_of(v, shadow, w);
    last->made = NOT_CLEAR;
    if (all) {
        note_run(v, shadow, w);
    }
    words then = *w;
    uint32_t place = CELL_STAMPS;
    for (uint32_t k = 0; k < CELL_STAMPS && place == CELL_STAMPS; k++) {
        place = shadow->since[k][w->first] ? place : k;
    }
    for (uint32_t k = 0; k < CELL_STAMPS && place == CELL_STAMPS; k++) {
        const uint64_t *since = shadow->since[k] + w->first;
        if (!stands_for(v->class, stamp_class(since[0]))) {
            continue;
        }
        clearness old = may_replace(v, since, w, &then);
        if (old) {
            place = k;
            all = all && old == FOR_ALL;
        }
    }
    if (place == CELL_STAMPS) {
        return touch_list(v, shadow, w, all);
    }
    last->made = all ? IN_STAMPS : NOT_CLEAR;
    last->place = place;
    put_stamps(v, shadow->since[place] + w->first, &then);
    return true;
}

static ALWAYS_INLINE bool clear_and_touch(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    clearness c = run_is_clear(v, shadow, w);
    return c != PERHAPS_NOT && touch_run(v, shadow, w, c == FOR_ALL);
}

static ALWAYS_INLINE bool run_touch(const actor_view *v, struct sim_shadow *shadow, const words *w)
{
    const race_last *last = last_of(v, shadow, w);
    if (last->made >= IN_STAMPS && like_last(v, last, shadow, w)) {
        if (last->made == IN_STAMPS) {
            put_stamps(v, shadow->since[last->place] + w->first, w);
            return true;
        }
        if (w->shift == ONE_LANE && last->lane == w->lane) {
            follow_last(v, last, shadow, w);
            return true;
        }
    }
    return clear_and_touch(v, shadow, w);
}

static ALWAYS_INLINE bool check_run(const actor_view *v, const struct sim_shadow *shadow, const words *w)
{
    clearness c = run_is_clear(v, shadow, w);
    if (c == FOR_ALL) {
        note_run(v, shadow, w);
    }
    return c != PERHAPS_NOT;
}

static ALWAYS_INLINE bool run_step(const actor_view *v, struct sim_shadow *shadow, const words *w, race_step step)
{
    switch (step) {
    case CHECK:
        return like_last(v, last_of(v, shadow, w), shadow, w) || check_run(v, shadow, w);
    case WRITE:
        return run_write(v, shadow, w);
    default:
        return run_touch(v, shadow, w);
    }
}

#endif
