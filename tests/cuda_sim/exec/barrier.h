/* barrier.h - the barriers of a block and of a cluster, between barrier.c, mbarrier.c and their instructions. */
#ifndef SIM_BARRIER_H
#define SIM_BARRIER_H

#include "sim.h"

typedef struct sim_reduction {
    uint32_t count;
    bool all, any;
} sim_reduction;

/* bar.sync and its kin. Two clocks and results, used in turn by the phases: a warp may leave a phase when the next one
 * has begun. */
typedef struct sim_named_barrier {
    bool active, counted, reducing;   /* someone has arrived; with a thread count; with barrier.red */
    uint32_t expected;                /* threads, if counted */
    uint32_t arrived[SIM_MAX_WARPS];  /* lanes, in this phase */
    uint32_t waiting[SIM_MAX_WARPS];  /* of those: lanes that do not only arrive */
    uint32_t passed[SIM_MAX_WARPS];   /* lanes that may leave a phase that is complete */
    uint8_t passed_as[SIM_MAX_WARPS]; /* its number, modulo 2 */
    uint32_t phase;                   /* modulo 2 */
    sim_reduction result[2];
    sim_clock *clock[2];
} sim_named_barrier;

/* The phases' clocks take turns here too. */
typedef struct sim_mbarrier {
    uint32_t offset;    /* in the block's shared memory */
    bool live;          /* initialised, not invalidated */
    bool proxied;       /* and its thread has fenced that since, so that the async proxy may use it */
    uint8_t warp, lane; /* that thread */
    uint32_t expected, pending;
    int32_t tx;
    uint64_t phase;
    sim_clock *clock[2];
} sim_mbarrier;

struct sim_barriers {
    uint32_t used; /* a bit a named barrier */
    sim_named_barrier named[SIM_BARRIERS];
    sim_mbarrier *mbarrier;
    uint32_t mbarrier_count, mbarrier_room, mbarrier_last;
};

struct sim_cluster_barrier {
    uint64_t phase;
    uint32_t warps;
    uint32_t *arrived, *passed; /* lanes of each warp of the cluster */
    sim_clock *clock[2];
};

/* Lanes `mask` arrive at barrier `id`, and wait if `waits`. `values`: of the predicate, for barrier.red. */
typedef struct sim_arrival {
    uint32_t id, threads;
    bool counted, waits, reduces;
    uint32_t values;
} sim_arrival;
sim_next sim_bar_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const sim_arrival *arrival);
/* Lanes of `mask` that have arrived and may leave: they have left when it returns. */
uint32_t sim_bar_leave(sim_warp *warp, uint32_t id, uint32_t mask, sim_reduction *result);
/* Lanes of `mask` that have not arrived in this phase, and are not to leave the last one. */
uint32_t sim_bar_outside(const sim_warp *warp, uint32_t id, uint32_t mask);

sim_next sim_cluster_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask, bool relaxed);
sim_next sim_cluster_wait(sim_warp *warp, const ptx_insn *insn, uint32_t mask);

/* --- mbarrier.c --- */
/* The most arrivals and bytes (PTX ISA "Contents of the mbarrier object"). A state holds the phase modulo 8 from bit
 * SIM_MBARRIER_PHASE on. */
enum { SIM_MBARRIER_MAX = (1 << 20) - 1, SIM_MBARRIER_PHASE = 61, SIM_MBARRIER_PHASES = 7 };
/* The barrier at `address` for a lane, or NULL after a fault (none there, or not the own block's unless `remote`). */
sim_mbarrier *sim_mbarrier_at(sim_warp *warp, const ptx_insn *insn, uint32_t lane, ptx_space space, uint64_t address,
                              bool remote, sim_block **owner);
sim_next sim_mbarrier_init(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint32_t offset, uint32_t count);
sim_next sim_mbarrier_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                             sim_mbarrier *barrier, uint32_t count, bool relaxed);
/* Adds to the tx-count (mbarrier.complete_tx: a negative number). */
sim_next sim_mbarrier_expect(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                             sim_mbarrier *barrier, int64_t bytes);
/* Lanes `mask` learn what the last phase knew. */
void sim_mbarrier_acquire(sim_warp *warp, uint32_t mask, const sim_mbarrier *barrier, bool relaxed);
uint64_t sim_mbarrier_state(const sim_mbarrier *barrier);
void sim_mbarrier_store(sim_block *owner, const sim_mbarrier *barrier);
void sim_mbarriers_clear(sim_block *block);
void sim_mbarriers_free(sim_block *block);
void sim_mbarrier_explain(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, char *text, size_t size);

/* A clock that is made when it is first used; the two do nothing where races are not looked for. SIM_NEXT or
 * SIM_FAULT. */
sim_next sim_clock_release(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_clock **clock, bool relaxed);
void sim_clock_acquire(sim_warp *warp, uint32_t mask, const sim_clock *clock, bool relaxed);

#endif
