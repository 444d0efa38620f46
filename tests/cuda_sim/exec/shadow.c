/* shadow.c - a cell for each word of shared memory, and many of them looked at together (shadow_run.h); what is not
 * alike is taken in parts, and at last word by word (cell.c). */
#include "shadow_run.h"

#include <stdlib.h>
#include <string.h>

static race_cell load_cell(const struct sim_shadow *shadow, uint32_t word)
{
    race_cell cell = {.write = shadow->write[word], .more = shadow->more[word]};
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        cell.since[k] = shadow->since[k][word];
    }
    return cell;
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
    race_forget(v->race); /* lists change */
    uint64_t other = race_word_step(v, &cell, lane, step, at, next < end ? next : end);
    store_cell(shadow, word, &cell);
    return other;
}

/* `count` is a constant: the loops over words go. */
static ALWAYS_INLINE bool short_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane,
                                     uint32_t offset, uint32_t count)
{
    words w = {.first = offset / 4, .count = count, .lane = lane, .shift = ONE_LANE};
    return run_step(v, shadow, &w, step);
}

/* `count` words, 8, 4, 2 or 1, from *at on, which could not be taken as one. */
static uint64_t parts_at(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t *at,
                         uint32_t count)
{
    const uint32_t part = count > 4 ? 4 : 1, end = *at + 4 * count;
    for (uint32_t next = *at; next < end; next += 4 * part) {
        uint64_t other = 0;
        *at = next;
        if (part == 4 && !short_step(v, shadow, step, lane, next, 4)) {
            other = parts_at(v, shadow, step, lane, at, 4);
        } else if (part == 1 && !short_step(v, shadow, step, lane, next, 1)) {
            other = word_at(v, shadow, step, lane, at, next + 4);
        }
        if (other) {
            return other;
        }
    }
    return 0;
}

/* The words that are taken together at `offset`: 8, 4, 2 or 1; 0: not a whole word. */
static ALWAYS_INLINE uint32_t words_together(uint32_t offset, uint32_t end)
{
    const uint32_t whole = offset % 4 == 0 ? (end - offset) / 4 : 0;
    return whole >= 8 ? 8 : whole >= 4 ? 4 : whole >= 2 ? 2 : whole;
}

static ALWAYS_INLINE uint64_t any_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane,
                                       uint32_t offset, uint32_t size, uint32_t *at)
{
    for (uint32_t end = offset + size, next; offset < end; offset = next) {
        const uint32_t count = words_together(offset, end);
        const bool done = count == 8   ? short_step(v, shadow, step, lane, offset, 8)
                          : count == 4 ? short_step(v, shadow, step, lane, offset, 4)
                          : count == 2 ? short_step(v, shadow, step, lane, offset, 2)
                                       : count == 1 && short_step(v, shadow, step, lane, offset, 1);
        uint64_t other = 0;
        next = count ? offset + 4 * count : (offset & ~3u) + 4;
        *at = offset;
        if (!done) {
            other = count > 1 ? parts_at(v, shadow, step, lane, at, count) : word_at(v, shadow, step, lane, at, end);
        }
        if (other) {
            return other;
        }
    }
    return 0;
}

/* Of lanes that read together 16 bytes each, those whose pieces lie side by side: of lane l the one `distance` further
 * on, 8 or 16; 0: not all do. */
static ALWAYS_INLINE uint32_t distance_of_pairs(const shadow_places *p)
{
    if (!p->together || p->size != 16 || p->mask != ~0u) {
        return 0;
    }
    for (uint32_t distance = 8; distance <= 16; distance *= 2) {
        uint32_t odd = 0;
        for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
            const uint32_t other = lane ^ distance, apart = p->offset[other] - p->offset[lane];
            odd |= (uint32_t)(p->owner[other] != p->owner[lane]) | ((apart + 16) & ~32u);
        }
        if (!odd) {
            return distance;
        }
    }
    return 0;
}

/* Takes the pairs of lanes together that are alike; the lanes that are left. */
static ALWAYS_INLINE uint32_t step_pairs(const actor_view *v, race_step step, const shadow_places *p, uint32_t distance)
{
    uint32_t left = p->mask;
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        const uint32_t first = p->offset[lane], second = p->offset[lane ^ distance];
        if (!(lane & distance) &&
            short_step(v, p->owner[lane]->shadow, step, SEVERAL_LANES, first < second ? first : second, 8)) {
            left &= ~(1u << lane | 1u << (lane ^ distance));
        }
    }
    return left;
}

/* Pieces of 16 bytes are taken here, as most are, others one by one. `step` is a constant. */
static ALWAYS_INLINE uint64_t lanes_step(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit,
                                         uint32_t *at)
{
    const uint32_t distance = distance_of_pairs(p), mask = distance ? step_pairs(v, step, p, distance) : p->mask;
    SIM_FOR_LANES(lane, mask)
    {
        struct sim_shadow *shadow = p->owner[lane]->shadow;
        const uint32_t name = p->together ? SEVERAL_LANES : lane, offset = p->offset[lane];
        if (p->size == 16 && short_step(v, shadow, step, name, offset, 4)) {
            continue;
        }
        const uint64_t other = shadow_step(v, shadow, step, name, offset, p->size, at);
        if (other) {
            *culprit = lane;
            return other;
        }
    }
    return 0;
}

static ALWAYS_INLINE uint64_t any_lanes(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit,
                                        uint32_t *at)
{
    switch (step) {
    case CHECK:
        return lanes_step(v, CHECK, p, culprit, at);
    case WRITE:
        return lanes_step(v, WRITE, p, culprit, at);
    default:
        return lanes_step(v, TOUCH, p, culprit, at);
    }
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2"))) static

AVX2 uint64_t step_avx2(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                        uint32_t size, uint32_t *at)
{
    return any_step(v, shadow, step, lane, offset, size, at);
}

AVX2 uint64_t lanes_avx2(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit, uint32_t *at)
{
    return any_lanes(v, step, p, culprit, at);
}
#endif

uint64_t shadow_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                     uint32_t size, uint32_t *at)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return step_avx2(v, shadow, step, lane, offset, size, at);
    }
#endif
    return any_step(v, shadow, step, lane, offset, size, at);
}

uint64_t shadow_lanes(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit, uint32_t *at)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return lanes_avx2(v, step, p, culprit, at);
    }
#endif
    return any_lanes(v, step, p, culprit, at);
}

bool shadow_row(const actor_view *v, struct sim_shadow *shadow, uint32_t offset, uint32_t size)
{
    uint32_t shift = (uint32_t)__builtin_ctz(size / 4), lanes = RUN >> shift; /* of a run */
    words w = {.count = RUN, .shift = shift};
    bool clear = true;
    for (w.lane = 0; clear && w.lane < PTX_LANES; w.lane += lanes) {
        w.first = (offset + w.lane * size) / 4;
        clear = run_step(v, shadow, &w, CHECK);
    }
    for (w.lane = 0; clear && w.lane < PTX_LANES; w.lane += lanes) {
        w.first = (offset + w.lane * size) / 4;
        clear = run_step(v, shadow, &w, v->class == WEAK_WRITE ? WRITE : TOUCH);
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
