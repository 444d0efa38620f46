/* clock.c - what is known of the past of each actor: vector clocks, told apart by lanes where a warp's lanes are not of
 * one mind. */
#include "race.h"

#include <stdlib.h>
#include <string.h>

sim_clock *sim_clock_new(const sim_cluster *cluster)
{
    (void)cluster;
    sim_clock *clock = calloc(1, sizeof *clock);
    if (clock) {
        clock->users = 1;
    }
    return clock;
}

void clock_empty(sim_clock *clock)
{
    free(clock->known);
    free(clock->part);
}

void sim_clock_free(sim_clock *clock)
{
    if (clock && --clock->users == 0) {
        clock_empty(clock);
        free(clock);
    }
}

void sim_clock_clear(sim_clock *clock)
{
    clock->size = 0;
    clock->parts = 0;
}

bool clock_grow(sim_clock *clock, uint32_t size)
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

static bool grow_parts(sim_clock *clock, uint32_t count)
{
    if (count <= clock->parts) {
        return true;
    }
    if (count > clock->part_room) {
        uint32_t room = count + count / 2 + 8;
        race_parts *part = realloc(clock->part, room * sizeof *part);
        if (!part) {
            return false;
        }
        clock->part = part;
        clock->part_room = room;
    }
    memset(clock->part + clock->parts, 0, (count - clock->parts) * sizeof *clock->part);
    clock->parts = count;
    return true;
}

void clock_join_part(race_part *into, race_part from, uint32_t *whole)
{
    const race_part old = *into;
    if (from.time <= *whole || !from.lanes) {
        return;
    }
    *into = from;
    if (old.time > *whole && old.lanes) {
        const race_part later = old.time > from.time ? old : from;
        const bool all = (old.lanes | from.lanes) == ALL_LANES;
        *whole = !all ? *whole : old.time < from.time ? old.time : from.time;
        *into = all ? later : (race_part){later.time, old.lanes | from.lanes};
    }
}

static bool join_parts(sim_clock *into, const sim_clock *from)
{
    if (!grow_parts(into, from->parts)) {
        return false;
    }
    for (uint32_t a = 0; a < from->parts; a++) {
        clock_join_part(&into->part[a].known, from->part[a].known, &into->known[a]);
        clock_join_part(&into->part[a].fenced, from->part[a].fenced, &into->fenced[a]);
    }
    return true;
}

bool clock_join(sim_clock *into, const sim_clock *from)
{
    if (!clock_grow(into, from->size)) {
        return false;
    }
    join_entries(into->known, from->known, from->size);
    join_entries(into->fenced, from->fenced, from->size);
    return !from->parts || join_parts(into, from);
}

bool clock_add(sim_clock *clock, uint32_t actor, uint32_t time, uint32_t lanes, bool fenced)
{
    if (!clock_grow(clock, actor + 1)) {
        return false;
    }
    if (lanes == ALL_LANES) {
        clock->known[actor] = clock->known[actor] > time ? clock->known[actor] : time;
        if (fenced) {
            clock->fenced[actor] = clock->known[actor];
        }
        return true;
    }
    if (!grow_parts(clock, actor + 1)) {
        return false;
    }
    clock_join_part(&clock->part[actor].known, (race_part){time, lanes}, &clock->known[actor]);
    if (fenced) {
        clock_join_part(&clock->part[actor].fenced, (race_part){time, lanes}, &clock->fenced[actor]);
    }
    return true;
}

static void limit_part(uint32_t *whole, race_part *part, uint32_t time, uint32_t lanes)
{
    const race_part all = {*whole, lanes};
    part->lanes &= part->time > time ? lanes : ALL_LANES;
    if (*whole > time) {
        *whole = time;
        clock_join_part(part, all, whole);
    }
}

bool clock_limit(sim_clock *clock, uint32_t actor, uint32_t time, uint32_t lanes)
{
    if (actor >= clock->size) {
        return true;
    }
    if (!grow_parts(clock, actor + 1)) {
        return false;
    }
    limit_part(&clock->known[actor], &clock->part[actor].known, time, lanes);
    limit_part(&clock->fenced[actor], &clock->part[actor].fenced, time, lanes);
    return true;
}

void clock_fence(sim_clock *clock)
{
    memcpy(clock->fenced, clock->known, clock->size * sizeof *clock->known);
    for (uint32_t a = 0; a < clock->parts; a++) {
        clock->part[a].fenced = clock->part[a].known;
    }
}
