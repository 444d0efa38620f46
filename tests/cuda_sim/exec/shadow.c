/* shadow.c - a cell for each piece of shared memory, 16 bytes, as most accesses touch whole ones. The words of a piece
 * get cells of their own when one is touched alone, until all are written together again. Words are looked at many at a
 * time (shadow_run.h); what is not alike is taken in parts, and at last word by word (cell.c). */
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

/* --- pieces --- */

enum { PIECE = SIM_PIECE, PIECE_WORDS = PIECE / 4 };
#define IN_WORDS UINT64_MAX /* in place of a piece's last write; nobody knows of such a one */

static void to_words(struct sim_shadow *shadow, uint32_t piece)
{
    race_cell *cell = &shadow->piece[piece];
    if (cell->write == IN_WORDS) {
        return;
    }
    for (uint32_t w = 0; w < PIECE_WORDS; w++) {
        store_cell(shadow, piece * PIECE_WORDS + w, cell);
    }
    if (cell->more) {
        shadow->race->chunk[cell->more].users += PIECE_WORDS - 1;
    }
    *cell = (race_cell){.write = IN_WORDS};
}

/* Words of one piece, from `offset` to `end`. */
static uint64_t words_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane,
                           uint32_t offset, uint32_t end, uint32_t *at)
{
    if (end - offset == PIECE && short_step(v, shadow, step, lane, offset, PIECE_WORDS)) {
        return 0;
    }
    for (uint32_t next; offset < end; offset = next) {
        const bool whole = offset % 4 == 0 && end - offset >= 4;
        uint64_t other = 0;
        next = (offset & ~3u) + 4;
        *at = offset;
        if (!whole || !short_step(v, shadow, step, lane, offset, 1)) {
            other = word_at(v, shadow, step, lane, at, end);
        }
        if (other) {
            return other;
        }
    }
    return 0;
}

/* A piece that has one cell. */
static uint64_t cell_at(const actor_view *v, race_cell *cell, race_step step, uint32_t lane)
{
    struct sim_shadow one = {
        .race = v->race, .write = &cell->write, .since = {&cell->since[0], &cell->since[1]}, .more = &cell->more};
    if (short_step(v, &one, step, lane, 0, 1)) {
        return 0;
    }
    race_forget(v->race); /* lists change */
    return race_cell_step(v, cell, lane, step);
}

/* Bytes of one piece, from `offset` to `end`. */
static uint64_t piece_at(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                         uint32_t end, uint32_t *at)
{
    const uint32_t piece = offset / PIECE;
    const bool whole = end - offset == PIECE;
    *at = offset;
    if (whole && shadow->piece[piece].write != IN_WORDS) {
        return cell_at(v, &shadow->piece[piece], step, lane);
    }
    to_words(shadow, piece);
    const uint64_t other = words_step(v, shadow, step, lane, offset, end, at);
    if (whole && step == WRITE) { /* by one lane: one cell again */
        shadow->piece[piece].write = shadow->write[(size_t)piece * PIECE_WORDS];
    }
    return other;
}

/* Looked at before: it only becomes this write's. */
static ALWAYS_INLINE bool write_piece(const actor_view *v, race_cell *cell, uint32_t lane)
{
    if (cell->write == IN_WORDS || is_of_now(v, cell->write)) {
        return false;
    }
    race_leave_list(v->race, cell->more, 1);
    *cell = (race_cell){.write = with_lane(v->stamp, lane)};
    return true;
}

/* Is or becomes what another piece of this access was or became; false: that is not so, and nothing is done. */
static ALWAYS_INLINE bool piece_like_last(const actor_view *v, race_cell *cell, race_step step, uint32_t lane)
{
    const race_last *last = last_like(v, cell->write, cell->since[0]);
    const uint64_t odd =
        (cell->write ^ last->write) | (cell->since[0] ^ last->since[0]) | (cell->since[1] ^ last->since[1]);
    if (last->use != v->race->use || (odd & ACTOR_AND_TIME) || cell->more != last->more) {
        return false;
    }
    if (step == CHECK) {
        return last->made != NOT_CLEAR;
    }
    if (last->made == IN_STAMPS) {
        cell->since[last->place] = with_lane(v->stamp, lane);
        return true;
    }
    if (last->made != IN_LIST || last->lane != lane) {
        return false;
    }
    v->race->chunk[last->list].users++;
    race_leave_list(v->race, cell->more, 1);
    cell->more = last->list;
    return true;
}

static ALWAYS_INLINE uint64_t piece_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane,
                                         uint32_t offset, uint32_t *at)
{
    race_cell *cell = &shadow->piece[offset / PIECE];
    const bool done = step == WRITE ? write_piece(v, cell, lane) : piece_like_last(v, cell, step, lane);
    return done ? 0 : piece_at(v, shadow, step, lane, offset, offset + PIECE, at);
}

uint64_t shadow_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                     uint32_t size, uint32_t *at)
{
    uint64_t other = 0;
    for (uint32_t end = offset + size, next; offset < end && !other; offset = next) {
        next = (offset & ~(PIECE - 1u)) + PIECE;
        next = next < end ? next : end;
        other = next - offset == PIECE ? piece_step(v, shadow, step, lane, offset, at)
                                       : piece_at(v, shadow, step, lane, offset, next, at);
    }
    return other;
}

uint64_t shadow_touch_pieces(const actor_view *v, struct sim_shadow *shadow, uint32_t lane, const uint64_t *pieces,
                             uint32_t count, uint32_t *at)
{
    for (uint32_t k = 0; k < count; k++) {
        for (uint64_t left = pieces[k]; left; left &= left - 1) {
            const uint32_t piece = 64 * k + (uint32_t)__builtin_ctzll(left);
            const uint64_t other = piece_step(v, shadow, TOUCH, lane, PIECE * piece, at);
            if (other) {
                return other;
            }
        }
    }
    return 0;
}

/* `step` is a constant. */
static ALWAYS_INLINE uint64_t lanes_step(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit,
                                         uint32_t *at)
{
    SIM_FOR_LANES(lane, p->mask)
    {
        struct sim_shadow *shadow = p->owner[lane]->shadow;
        const uint32_t name = p->together ? SEVERAL_LANES : lane, offset = p->offset[lane];
        const uint64_t other = p->size == PIECE ? piece_step(v, shadow, step, name, offset, at)
                                                : shadow_step(v, shadow, step, name, offset, p->size, at);
        if (other) {
            *culprit = lane;
            return other;
        }
    }
    return 0;
}

uint64_t shadow_lanes(const actor_view *v, race_step step, const shadow_places *p, uint32_t *culprit, uint32_t *at)
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

/* --- rows --- */

static ALWAYS_INLINE bool row_of_pieces(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t offset,
                                        uint32_t size)
{
    uint64_t other = 0;
    uint32_t at;
    for (uint32_t k = 0; k < PTX_LANES * size && !other; k += PIECE) {
        other = piece_step(v, shadow, step, k / size, offset + k, &at);
    }
    return !other;
}

static ALWAYS_INLINE bool row_of_words(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t offset,
                                       uint32_t size)
{
    const uint32_t shift = (uint32_t)__builtin_ctz(size / 4), lanes = RUN >> shift; /* of a run */
    words w = {.count = RUN, .shift = shift};
    bool clear = true;
    for (w.lane = 0; clear && w.lane < PTX_LANES; w.lane += lanes) {
        w.first = (offset + w.lane * size) / 4;
        clear = run_step(v, shadow, &w, step);
    }
    return clear;
}

static ALWAYS_INLINE bool any_row(const actor_view *v, struct sim_shadow *shadow, uint32_t offset, uint32_t size)
{
    const race_step step = v->class == WEAK_WRITE ? WRITE : TOUCH;
    if (size >= PIECE) {
        return row_of_pieces(v, shadow, CHECK, offset, size) && row_of_pieces(v, shadow, step, offset, size);
    }
    for (uint32_t piece = offset / PIECE; PIECE * piece < offset + PTX_LANES * size; piece++) {
        to_words(shadow, piece);
    }
    return row_of_words(v, shadow, CHECK, offset, size) && row_of_words(v, shadow, step, offset, size);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static bool row_avx2(const actor_view *v, struct sim_shadow *shadow, uint32_t offset,
                                                     uint32_t size)
{
    return any_row(v, shadow, offset, size);
}
#endif

bool shadow_row(const actor_view *v, struct sim_shadow *shadow, uint32_t offset, uint32_t size)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return row_avx2(v, shadow, offset, size);
    }
#endif
    return any_row(v, shadow, offset, size);
}

bool shadow_knows(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced)
{
    return is_known(v, stamp, lane, fenced);
}

bool shadow_init(struct sim_shadow *shadow, sim_race *race, uint32_t bytes)
{
    size_t count = (size_t)bytes / 4 + RUN;
    uint64_t *stamps = calloc(count, (1 + CELL_STAMPS) * sizeof *stamps + sizeof *shadow->more);
    shadow->piece = calloc(count / PIECE_WORDS, sizeof *shadow->piece);
    shadow->race = race;
    shadow->write = stamps;
    for (uint32_t k = 0; k < CELL_STAMPS; k++) {
        shadow->since[k] = stamps + (k + 1) * count;
    }
    shadow->more = (uint32_t *)(void *)(stamps + (1 + CELL_STAMPS) * count);
    return shadow->piece && stamps;
}

void shadow_end(struct sim_shadow *shadow)
{
    free(shadow->piece);
    free(shadow->write);
}
