/* race.h - what clock.c and order.c (who knows what) and race.c (who has touched what) share.
 *
 * An actor is a warp of the cluster or an agent, one asynchronous operation. Agents are many, so they take turns at
 * slots: an agent gets one whose earlier users are all in its issuer's past, so that knowing the slot's n-th user means
 * knowing those before. Times of warps and uses of slots only ever grow, over all clusters that a worker runs one after
 * the other: what is not above `base` happened in an earlier cluster and concerns nobody. */
#ifndef RACE_H
#define RACE_H

#include "sim.h"

/* An access in 64 bits: actor (12), instruction (16), lane (6), class (2), time (28). 0: none. */
enum {
    TIME_BITS = 28,
    CLASS_BITS = 2,
    LANE_BITS = 6,
    INSN_BITS = 16,
    CLASS_SHIFT = TIME_BITS,
    LANE_SHIFT = CLASS_SHIFT + CLASS_BITS,
    INSN_SHIFT = LANE_SHIFT + LANE_BITS,
    ACTOR_SHIFT = INSN_SHIFT + INSN_BITS,
    TIME_MASK = (1 << TIME_BITS) - 1,
    MAX_INSN = (1 << INSN_BITS) - 1,
    MAX_SPLITS = (1 << (LANE_BITS + INSN_BITS)) - 1,
    SPLIT_ACTOR = 0xfff, /* shadow.c: the word's bytes, or the piece's words, differ */
    MAX_ACTORS = SPLIT_ACTOR,
    SEVERAL_LANES = PTX_LANES, /* of an agent: all lanes issued it together */
    MIXED_LANES                /* of an agent: several issued it each for itself */
};

#define ALL_LANES UINT32_MAX

/* What is known of some lanes of an actor alone: their accesses up to this time. Where two differ, the later time
 * stands for the lanes of both: that may hide a race, but invents none. */
typedef struct race_part {
    uint32_t time, lanes;
} race_part;
typedef struct race_parts {
    race_part known, fenced;
} race_parts;

/* known[a]: accesses of actor a, all its lanes', up to this time are in the past; fenced[a]: those that passed to the
 * async proxy. part[a]: what is known of some lanes beyond that; for the first `parts` actors. */
struct sim_clock {
    uint32_t size, capacity, users;
    uint32_t *known, *fenced;
    uint32_t parts, part_room;
    race_parts *part;
};

/* What lanes of a warp have learnt of each other where they did not meet: of all that told it, up to a time, and of
 * some. It counts for all of them, whichever asked. */
typedef struct race_met {
    uint32_t all;
    race_part some;
} race_met;

typedef struct race_warp {
    sim_clock clock; /* first: sim_warp.clock points here. known[number] is the warp's own time */
    uint32_t number;
    uint32_t lane_sync; /* the lanes know each other's accesses of before this time */
    race_met met;
    uint32_t waited; /* the time when some lanes have waited for an agent of theirs last */
    bool sealed;     /* somebody knows the present: the next access begins a new time */
    bool looked;     /* since the clock has changed last */
    sim_clock *snapshot;
    sim_clock ahead; /* what some lanes know, with all of `clock`: they have asked, and the others not met them yet */
    uint32_t ahead_lanes;        /* 0: none */
    sim_clock released, pending; /* at the last memory fence; read by strong loads since then */
    uint32_t next_slot;
} race_warp;

typedef struct race_slot {
    sim_warp *issuer;
    const ptx_insn *insn;
    uint32_t number;    /* uses so far */
    uint32_t lanes;     /* that issued it */
    uint32_t lane_sync; /* of the issuer when it issued */
    race_met met;
    uint32_t completed; /* time of the issuer when it had waited for it; 0: not by its issuer */
} race_slot;

typedef struct race_place {
    const uint8_t *key;
    sim_clock clock;
} race_place;

/* What happened to a piece, a word, or a byte of a split word: the last weak write, and what has touched it since then
 * and doesn't conflict with each other: reads, strong accesses. `more`: a list of chunks with further ones. */
enum { CELL_STAMPS = 2, CHUNK_STAMPS = 7 };
typedef struct race_cell {
    uint64_t write, since[CELL_STAMPS];
    uint32_t more;
} race_cell;
typedef struct race_chunk {
    uint64_t since[CHUNK_STAMPS];
    uint32_t next, users; /* users: cells whose `more` it is; of the first chunk of a list */
} race_chunk;

/* What a piece or a run of words was like (shadow.c) in this access, but for lanes and instructions, and what was made
 * of it. */
typedef struct race_last {
    uint64_t use; /* sim_race.use then, else it no longer holds */
    enum { NOT_CLEAR, ONLY_CLEAR, IN_STAMPS, IN_LIST } made;
    uint64_t write, since[CELL_STAMPS];
    uint32_t more;
    uint32_t place; /* IN_STAMPS: of since[] */
    uint32_t list;  /* IN_LIST: what `more` became for `lane` */
    uint32_t lane;
} race_last;

enum { RACE_LASTS = 64 };
typedef struct sim_race {
    uint32_t warps, slots, slot_capacity, base;
    bool failed; /* out of memory */
    race_warp *warp;
    race_slot *slot;
    race_place *place; /* open addressing; a power of two of them */
    uint32_t places, place_capacity;
    race_chunk *chunk; /* [0] unused */
    uint32_t chunks, chunk_capacity, free_chunk;
    race_cell (*split)[4]; /* the bytes of split words */
    uint32_t splits, split_capacity, *free_splits, free_split_count;
    sim_clock limited;          /* order.c: of some lanes, while they tell it */
    race_last last[RACE_LASTS]; /* shadow_run.h: last_like() */
    uint64_t use, stamp;        /* stamp: of the access that `last` is of */
} sim_race;

/* A cell for each piece of 16 bytes; where its words differ, a cell for each, member by member, so that many words are
 * looked at together. */
struct sim_shadow {
    sim_race *race;
    race_cell *piece;
    uint64_t *write, *since[CELL_STAMPS];
    uint32_t *more;
};

typedef enum access_class { WEAK_READ, STRONG_READ, STRONG_WRITE, WEAK_WRITE } access_class;

/* Who touches something now. */
typedef struct actor_view {
    sim_race *race;
    const sim_clock *clock; /* what he knows; the next three are its own */
    const uint32_t *known, *fenced;
    uint32_t size;
    uint32_t self;      /* actor */
    uint32_t warp;      /* actor: itself, or the issuer */
    uint32_t lane_sync; /* of the warp */
    race_met met;
    const sim_warp *waits; /* a warp's own access; NULL: an agent's */
    bool proxy;            /* writes must have passed a fence */
    uint64_t stamp;        /* but for the lane */
    access_class class;
} actor_view;

static inline race_warp *race_of(const sim_warp *warp)
{
    return (race_warp *)(void *)warp->clock;
}
/* What lanes `mask`, or some of them, know. */
static inline const sim_clock *race_known_by(const race_warp *state, uint32_t mask)
{
    return mask & state->ahead_lanes ? &state->ahead : &state->clock;
}
/* But for lane and instruction, which lie side by side. */
#define ACTOR_AND_TIME (~(((UINT64_C(1) << (LANE_BITS + INSN_BITS)) - 1) << LANE_SHIFT))

static inline uint32_t stamp_actor(uint64_t stamp)
{
    return (uint32_t)(stamp >> ACTOR_SHIFT);
}
static inline uint32_t stamp_lane(uint64_t stamp)
{
    return (uint32_t)(stamp >> LANE_SHIFT) & ((1u << LANE_BITS) - 1);
}
static inline uint32_t stamp_time(uint64_t stamp)
{
    return (uint32_t)stamp & TIME_MASK;
}

static inline access_class stamp_class(uint64_t stamp)
{
    return (access_class)((stamp >> CLASS_SHIFT) & ((1u << CLASS_BITS) - 1));
}

/* Nothing is known any more of the runs before. */
static inline void race_forget(sim_race *race)
{
    race->use++;
}

/* --- shadow.c --- */
typedef enum race_step { CHECK, WRITE, TOUCH } race_step; /* weak writes: look, then write; others: both at once */
bool shadow_init(struct sim_shadow *shadow, sim_race *race, uint32_t bytes);
void shadow_end(struct sim_shadow *shadow);
/* Is the access of `stamp` in the past of lane `lane` of v? fenced: has it passed to the async proxy? */
bool shadow_knows(const actor_view *v, uint64_t stamp, uint32_t lane, bool fenced);
/* `size` bytes of one lane. The access that this one races with, or 0; *at: the byte. */
uint64_t shadow_step(const actor_view *v, struct sim_shadow *shadow, race_step step, uint32_t lane, uint32_t offset,
                     uint32_t size, uint32_t *at);
/* The same for the lanes of one instruction, aligned to `size`. *culprit: the lane that races. */
typedef struct shadow_places {
    uint32_t mask, size;
    sim_block *const *owner;
    const uint32_t *offset; /* of a lane's, in its owner's memory */
    bool together;          /* each place is all lanes' */
} shadow_places;
uint64_t shadow_lanes(const actor_view *v, race_step step, const shadow_places *places, uint32_t *culprit,
                      uint32_t *at);
/* An agent reads pieces of 16 bytes, a bit for each; `count` words of bits. */
uint64_t shadow_touch_pieces(const actor_view *v, struct sim_shadow *shadow, uint32_t lane, const uint64_t *pieces,
                             uint32_t count, uint32_t *at);
/* All lanes, `size` bytes each (4 to 32), in a row from `offset` on, quickly. false: perhaps there is a race; the lanes
 * must be taken one by one. */
bool shadow_row(const actor_view *v, struct sim_shadow *shadow, uint32_t offset, uint32_t size);

/* --- clock.c; false: out of memory --- */
bool clock_grow(sim_clock *clock, uint32_t size);
bool clock_join(sim_clock *into, const sim_clock *from);
/* *whole: what is known of all lanes. */
void clock_join_part(race_part *into, race_part from, uint32_t *whole);
/* Accesses of some lanes of an actor, or of all, up to `time` become known. */
bool clock_add(sim_clock *clock, uint32_t actor, uint32_t time, uint32_t lanes, bool fenced);
/* Of an actor's accesses behind `time` those of `lanes` alone stay known, and fenced. */
bool clock_limit(sim_clock *clock, uint32_t actor, uint32_t time, uint32_t lanes);
void clock_fence(sim_clock *clock); /* all that is known is fenced, too */
void clock_empty(sim_clock *clock); /* frees what it holds */

/* --- order.c --- */
/* All clocks begin anew behind `base`. false: the times have run out. */
bool race_next_cluster(sim_race *race);
void race_free_clocks(sim_race *race);
/* The warp accesses something now: its time, which nobody else knows yet. */
uint32_t race_now(race_warp *state);

#endif
