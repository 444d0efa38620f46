/* shadow.h - one cell of the race check: its order with what happens now, and its steps (cell.c); shadow.c looks at
 * many together. */
#ifndef SHADOW_H
#define SHADOW_H

#include "race.h"

static inline uint64_t with_lane(uint64_t stamp, uint32_t lane)
{
    return stamp | (uint64_t)lane << LANE_SHIFT;
}

static inline uint64_t without_lane(uint64_t stamp)
{
    return stamp & ~((((UINT64_C(1) << LANE_BITS) - 1)) << LANE_SHIFT);
}

/* --- order --- */

/* An agent's access that its issuer has waited for: other lanes of the issuer, and what they issue, need a
 * bar.warp.sync behind the wait. */
static inline bool lanes_know(const actor_view *v, uint32_t actor, uint64_t stamp, uint32_t lane)
{
    const race_slot *slot = &v->race->slot[actor - v->race->warps];
    return race_of(slot->issuer)->number != v->warp || slot->number != stamp_time(stamp) ||
           slot->completed < v->lane_sync || stamp_lane(stamp) == lane || stamp_lane(stamp) == SEVERAL_LANES ||
           (lane == SEVERAL_LANES && !v->waits);
}

/* An access that v's warp knows of: does lane `lane` of it? */
static inline bool lane_knows(const actor_view *v, uint64_t stamp, uint32_t lane)
{
    uint32_t actor = stamp_actor(stamp);
    if (actor == v->warp) { /* "several" is one and the same to an agent only, that its whole warp issued */
        return stamp_time(stamp) < v->lane_sync || (lane == SEVERAL_LANES ? !v->waits : stamp_lane(stamp) == lane);
    }
    return actor < v->race->warps || lanes_know(v, actor, stamp, lane);
}

/* Is the access of `stamp` in the past of lane `lane` of v, whichever lane's it was? */
static inline bool is_known_of_all(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced)
{
    uint32_t time = stamp_time(stamp), actor = stamp_actor(stamp);
    if (time <= v->race->base) {
        return true;
    }
    if (actor == v->self && actor >= v->race->warps && time == stamp_time(v->stamp)) {
        return true; /* of the same agent: one operation */
    }
    return actor < v->size && (fenced ? v->fenced : v->known)[actor] >= time && lane_knows(v, stamp, lane);
}

/* Which lanes "several" were is not kept: they may be those of the part where these are several, too. */
static inline bool has_part(const race_part *part, uint64_t stamp)
{
    uint32_t by = stamp_lane(stamp);
    bool among = by < PTX_LANES ? part->lanes >> by & 1 : (part->lanes & (part->lanes - 1)) != 0;
    return among && part->time >= stamp_time(stamp);
}

/* The same, or is it known of its own lane alone? */
static inline bool is_known(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced)
{
    if (is_known_of_all(v, stamp, lane, fenced)) {
        return true;
    }
    uint32_t actor = stamp_actor(stamp);
    if (actor == v->warp && !fenced && (stamp_time(stamp) <= v->met.all || has_part(&v->met.some, stamp))) {
        return true;
    }
    return actor < v->clock->parts &&
           has_part(fenced ? &v->clock->part[actor].fenced : &v->clock->part[actor].known, stamp) &&
           lane_knows(v, stamp, lane);
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

/* --- cell.c --- */
/* Lists of chunks: cells that were touched together share one, and change it by a copy. `users` of them leave it. */
void race_leave_list(sim_race *race, uint32_t list, uint32_t users);
/* `list` for its `users` alone. 0: out of memory (or it was 0). */
uint32_t race_own_list(sim_race *race, uint32_t list, uint32_t users);
/* A new chunk before the others. 0: out of memory. */
uint32_t race_lengthen_list(sim_race *race, uint32_t list, uint32_t users);
/* One cell, as a whole. */
uint64_t race_cell_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step);
/* Bytes *at to end - 1 of one word; *at becomes the one that races. */
uint64_t race_word_step(const actor_view *v, race_cell *cell, uint32_t lane, race_step step, uint32_t *at,
                        uint32_t end);

#endif
