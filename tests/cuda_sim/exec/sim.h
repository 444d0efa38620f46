/* sim.h - running a kernel of a PTX module on the CPU, with the checks that a GPU does not make.
 *
 * One launch: clusters of blocks are handed to worker threads; a worker runs the warps of its clusters one instruction
 * of one warp at a time, so nothing inside a cluster needs a lock. Only global memory, the counters and the hand-out of
 * clusters are shared among workers. The first fault ends the launch.
 *
 *   run.c      launch, workers, blocks and clusters, resident sets, watchdog
 *   warp.c     one warp: lanes' pcs, divergence and reconvergence, guards, undefined registers
 *   memory.c   addresses of every space -> host pointers, bounds, alignment
 *   memory_agent.c: the same for asynchronous operations; defined.c: bytes that nobody has written
 *   race.c     races over shared memory, generic and async proxy; shadow.c: what happened to each word
 *   order.c    what warps and asynchronous operations know of each other; clock.c: how that is kept
 *   async.c    asynchronous operations (cp.async, bulk copies, wgmma): eager, late or seeded
 *   barrier.c  named barriers, mbarrier, cluster barriers; who waits for what
 *   counters.c exact counters
 *   op_*.c     the instructions */
#ifndef SIM_H
#define SIM_H

#include "../ptx/ptx.h"
#include "sim_api.h"

/* --- addresses ---
 * Global: host addresses. Shared (32 bits): bits 24 up: 1 + rank of the block in its cluster, or 0 for the own block
 * (shared::cta); below: the offset, which starts at SIM_SHARED_BASE, so that address 0 is caught. A generic address is
 * a global one unless it lies in a window below; the upper half of a generic shared address is SIM_SHARED_WINDOW >> 32.
 */
#define SIM_SHARED_WINDOW UINT64_C(0xfe00000000000000)
#define SIM_LOCAL_WINDOW  UINT64_C(0xfd00000000000000)
#define SIM_PARAM_WINDOW  UINT64_C(0xfc00000000000000)
enum {
    SIM_SHARED_BASE = 1024,
    SIM_PIECE = 16, /* bytes of shared memory that most accesses come in multiples of */
    SIM_RANK_SHIFT = 24,
    SIM_MAX_WARPS = 32,
    SIM_MAX_CLUSTER = 16,
    SIM_BARRIERS = 16,
    SIM_SM_COUNT = 132
};

typedef struct sim_worker sim_worker;
typedef struct sim_cluster sim_cluster;
typedef struct sim_block sim_block;
typedef struct sim_warp sim_warp;
typedef struct sim_async sim_async;
typedef struct sim_agent sim_agent;

/* Lanes at one pc. A warp is a list of these, in the order of their pcs; the first that can go on runs, so that lanes
 * meet again at the lowest pc. */
typedef struct sim_split {
    uint32_t pc, mask;
    bool waiting;    /* its instruction returned SIM_WAIT */
    bool converging; /* for other lanes of its warp (sim_converge) */
    uint64_t seen;   /* sim_cluster.events when it did: tried again after a change */
} sim_split;

struct sim_warp {
    sim_block *block;
    uint32_t id, live;       /* number in the block; lanes that have not exited */
    uint8_t *file;           /* registers, constants, special registers; see ptx_operand */
    uint32_t *defined;       /* a register's lanes that hold a value; [0] is all ones */
    uint32_t *in_flight;     /* lanes of registers that an unfinished wgmma owns (they are also undefined) */
    uint32_t *unfenced;      /* lanes of registers used since the last wgmma.fence; NULL where in_flight is */
    const sim_async **owner; /* of a register in flight: the last operation that uses it; NULL where in_flight is */
    uint8_t *local;          /* lane l's local memory at l * function->local_bytes */
    uint32_t *local_defined; /* a bit a byte of `local`; NULL: not checked */
    sim_split split[PTX_LANES];
    uint32_t split_count, current;        /* the split that runs */
    uint32_t pinned;                      /* a lane whose split has its turn though others are at lower pcs, or 0 */
    uint32_t streak;                      /* instructions since the turns last changed */
    uint32_t registers, register_changes; /* op_registers.c: how many a thread has; setmaxnreg that changed them */
    const ptx_insn *register_change;      /* the last one */
    uint32_t carry;                       /* CC.CF, a bit a lane */
    struct sim_clock *clock;              /* race.c */
    struct sim_async_state *async;        /* async.c: this warp's groups */
};

struct sim_block {
    sim_cluster *cluster;
    uint32_t rank, ctaid[3], index[3]; /* rank and position in the cluster */
    uint32_t warp_count, live_warps, thread_count;
    sim_warp *warp;
    uint8_t *shared;               /* shared_bytes, from SIM_SHARED_BASE on */
    uint32_t shared_bytes;         /* static and dynamic */
    uint32_t *shared_defined;      /* a bit a byte */
    uint32_t free_registers;       /* op_registers.c: of all that it was launched with */
    struct sim_barriers *barriers; /* barrier.c */
    struct sim_shadow *shadow;     /* race.c */
};

struct sim_cluster {
    sim_worker *worker;
    uint32_t block_count, live_blocks;
    uint64_t number;  /* in the launch */
    uint64_t events;  /* counts whatever may let a waiting split go on */
    sim_block *block; /* block_count of them, by rank */
    struct sim_cluster_barrier *barrier;
    uint64_t async_issued; /* async.c: numbers the operations */
    uint64_t async_now,
        async_due; /* SIM_SEEDED: instructions so far, and at which one the next operation is performed */
    uint64_t random;
};

struct sim_worker {
    struct sim_run *run;
    sim_counters counters; /* added up at the end */
    const sim_range *last_range;
    uint64_t instructions;
};

/* The state of one launch. */
typedef struct sim_run {
    const sim_launch *launch;
    const ptx_function *function;
    uint32_t cluster_dims[3], blocks_per_cluster, warps_per_block;
    uint32_t shared_bytes, shared_used; /* of a block: its memory, and without gaps */
    uint64_t cluster_total;
    bool uses_clocks; /* the kernel reads a clock or a timer */
    _Atomic uint64_t next_cluster, instructions;
    _Atomic int faulted;
    sim_fault fault; /* of the first one who set faulted */
} sim_run;

/* Ends the launch: says what went wrong and where (kernel, line, opcode, block, thread of `lane`; -1: no single lane).
 * Returns SIM_FAULT. */
sim_next sim_fault_at(sim_warp *warp, const ptx_insn *insn, int lane, sim_fault_kind kind, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static inline const ptx_function *sim_function(const sim_warp *w)
{
    return w->block->cluster->worker->run->function;
}
static inline const sim_options *sim_opts(const sim_warp *w)
{
    return &w->block->cluster->worker->run->launch->options;
}
static inline sim_counters *sim_count(const sim_warp *w)
{
    return &w->block->cluster->worker->counters;
}

/* Slots as lanes. */
static inline uint32_t *sim_u32(const sim_warp *w, uint32_t slot)
{
    return (uint32_t *)(void *)(w->file + slot);
}
static inline int32_t *sim_s32(const sim_warp *w, uint32_t slot)
{
    return (int32_t *)(void *)(w->file + slot);
}
static inline uint64_t *sim_u64(const sim_warp *w, uint32_t slot)
{
    return (uint64_t *)(void *)(w->file + slot);
}
static inline int64_t *sim_s64(const sim_warp *w, uint32_t slot)
{
    return (int64_t *)(void *)(w->file + slot);
}
static inline float *sim_f32(const sim_warp *w, uint32_t slot)
{
    return (float *)(void *)(w->file + slot);
}
static inline double *sim_f64(const sim_warp *w, uint32_t slot)
{
    return (double *)(void *)(w->file + slot);
}
static inline uint32_t *sim_pred(const sim_warp *w, uint32_t slot)
{
    return (uint32_t *)(void *)(w->file + slot);
}

#define SIM_FOR_LANES(lane, mask)                                                                                      \
    for (uint32_t lane##_rest = (mask), lane = 0; lane##_rest && (lane = (uint32_t)__builtin_ctz(lane##_rest), true);  \
         lane##_rest &= lane##_rest - 1)

/* SIM_SEEDED: the next random number of the cluster (splitmix64, Steele, Lea and Flood 2014). */
static inline uint64_t sim_random(sim_cluster *cluster)
{
    uint64_t x = cluster->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* --- run.c, warp.c --- */
void sim_wake(sim_cluster *cluster); /* something happened that a waiting split may wait for */
/* Lanes `mask` of the current split go to `target`, the others of it to the next instruction. Handler returns
 * SIM_MOVED. */
void sim_branch(sim_warp *warp, uint32_t mask, uint32_t target);
void sim_exit(sim_warp *warp, uint32_t mask); /* lanes end */
/* Run warp's current split for at most `budget` instructions. */
sim_next sim_warp_run(sim_warp *warp, uint32_t budget);
/* Lanes of the current split go to `target`; what is left of it stays where it is. Handler returns SIM_MOVED. */
void sim_move(sim_warp *warp, uint32_t lanes, uint32_t target);
/* Whether all live lanes of `wanted` are here (mask): SIM_NEXT; SIM_WAIT while others may still come; SIM_FAULT with
 * "divergent" if all other lanes wait in the same way elsewhere. .aligned: wanted is ~0. */
sim_next sim_converge(sim_warp *warp, const ptx_insn *insn, uint32_t mask, uint32_t wanted);
/* .sync instructions: each lane names its partners in members[lane]; all those who name the same ones must be here. */
sim_next sim_converge_members(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const uint32_t *members);

/* --- memory.c --- */
/* Strong ones (.relaxed, .acquire, .release, .volatile) and atomics don't race among each other. */
typedef enum sim_access {
    SIM_READ = 1,
    SIM_WRITE = 2,
    SIM_ATOMIC = 3,
    SIM_STRONG_MARK = 4,
    SIM_STRONG_READ = 5,
    SIM_STRONG_WRITE = 6,
    SIM_WARP_MARK = 8,
    SIM_WARP_READ = 9 /* what a lane's address names is read for all lanes of the warp (ldmatrix) */
} sim_access;
/* Host pointer for `size` bytes at `address` of `space` for one lane, after checks of bounds and alignment (`size`), or
 * NULL after sim_fault_at(). Does no accounting. For shared addresses *owner is the block that it lies in and *offset
 * its byte there (from 0). `owner` may be NULL where the caller does not care. */
uint8_t *sim_reach(sim_warp *warp, const ptx_insn *insn, uint32_t lane, ptx_space space, uint64_t address,
                   uint32_t size, sim_access access, sim_block **owner, uint32_t *offset);
/* Two looks at lanes that mostly suffice, without accounting. All are aligned and in the own block's shared memory, at
 * offset[lane]; else sim_reach() says of each what is the matter. */
bool sim_own_lanes(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, uint32_t *offset);
/* All may be read and lie in one allocation. */
bool sim_global_lanes(const sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size);
/* A whole warp's access, shared memory's defined bits, race shadow, sectors and bank conflicts accounted:
 * address[lane], `size` bytes a lane. Fills host[lane]. SIM_NEXT or SIM_FAULT. */
sim_next sim_reach_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space, const uint64_t *address,
                        uint32_t size, sim_access access, uint8_t **host);
/* The same; where the lanes lie one after another, *row is the first one's byte and host[] is left alone; else NULL. */
sim_next sim_reach_row(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space, const uint64_t *address,
                       uint32_t size, sim_access access, uint8_t **host, uint8_t **row);
/* Addresses of an operand for each lane (bind_address): base slot, 64-bit lanes or not, and the offset. */
void sim_addresses(const sim_warp *warp, uint32_t slot, bool wide, int64_t offset, uint64_t *address);
/* Read or write by an asynchronous agent (TMA, cp.async, wgmma) of `size` bytes of a block's shared memory at `offset`
 * (from 0): bounds are the caller's; defined bits are checked (read) or set (write) here, races through `agent`. */
sim_next sim_shared_by_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access);
/* Reads of pieces of SIM_PIECE bytes: a bit for each, from the block's first on, in `count` words. */
sim_next sim_shared_pieces_by_agent(sim_agent *agent, sim_block *owner, const uint64_t *pieces, uint32_t count);
/* Aligned writes of at most 32 bytes for lanes of its issuer, at offset[lane] of *owner[lane]. */
sim_next sim_shared_by_agent_lanes(sim_agent *agent, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                                   uint32_t size);
/* Global memory by an agent: the host pointer or NULL after a fault; sectors are counted. */
uint8_t *sim_global_by_agent(sim_agent *agent, uint64_t address, uint32_t size, sim_access access);

/* --- race.c: happens-before ---
 * A clock holds, for every warp of the cluster, how much of its past is known. Lanes of one warp are ordered among each
 * other only by bar.warp.sync and by barriers. The async proxy (TMA, wgmma reading shared memory) sees generic writes
 * only from before a fence.proxy.async of a warp that itself had them in its past; generic code sees writes of the
 * async proxy through the mbarrier or group that they complete on. */
typedef struct sim_clock sim_clock;
sim_clock *sim_clock_new(const sim_cluster *cluster); /* all zero; NULL when out of memory */
void sim_clock_free(sim_clock *clock);
/* Lanes `mask` hand over their past; of the other lanes' that of before the last bar.warp.sync or barrier. */
void sim_release(sim_warp *warp, uint32_t mask, sim_clock *into);
void sim_acquire(sim_warp *warp, uint32_t mask, const sim_clock *from); /* counts for the whole warp */
/* The same without .release and .acquire: only what is on the other side of the warp's memory fences. */
void sim_release_relaxed(sim_warp *warp, uint32_t mask, sim_clock *into);
void sim_acquire_relaxed(sim_warp *warp, const sim_clock *from);
void sim_clock_clear(sim_clock *clock);
void sim_warp_sync(sim_warp *warp);                   /* bar.warp.sync */
void sim_proxy_fence(sim_warp *warp, uint32_t mask);  /* fence.proxy.async of lanes `mask` */
void sim_memory_fence(sim_warp *warp, uint32_t mask); /* fence, membar: orders strong accesses */
/* Generic access of one lane; SIM_FAULT after a race. */
sim_next sim_race_access(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner, uint32_t offset,
                         uint32_t size, sim_access access);
/* The same for the lanes of one instruction, at offset[lane] of *owner[lane]: they are one access, not several. */
sim_next sim_race_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                       const uint32_t *offset, uint32_t size, sim_access access);
/* All lanes of the warp, one after another from `offset` on. */
sim_next sim_race_row(sim_warp *warp, const ptx_insn *insn, sim_block *owner, uint32_t offset, uint32_t size,
                      sim_access access);
/* Strong accesses (atomics, .relaxed, .acquire, .release, .volatile) at key[lane]: together with memory fences they
 * order the warps. */
void sim_race_strong(sim_warp *warp, uint32_t mask, uint8_t *const *key, sim_access access);
bool sim_race_init(sim_cluster *cluster); /* for the next blocks */
void sim_race_end(sim_cluster *cluster);  /* frees */

/* One asynchronous operation as an actor of its own. It knows what its issuer knew when it was issued: the generic past
 * (cp.async, proxy generic) or what of it passed a proxy fence (async proxy). */
struct sim_agent {
    sim_warp *issuer;
    const ptx_insn *insn;
    bool async_proxy;
    uint32_t slot, number; /* race.h: its place in clocks, and its use of it */
    sim_clock *knows;
    uint32_t lane;  /* issuing lane, for reports; PTX_LANES: all together */
    uint32_t lanes; /* for whom it does something */
};
bool sim_agent_init(sim_agent *agent, sim_warp *issuer, const ptx_insn *insn, uint32_t lane, uint32_t lanes,
                    bool async_proxy);
/* Its accesses for `lanes` are now in the past of whoever acquires `into` (an mbarrier's clock, a group's clock). */
void sim_agent_complete(sim_agent *agent, uint32_t lanes, sim_clock *into);
/* Same, directly into a warp whose `lanes` have waited for their own group. */
void sim_agent_complete_warp(sim_agent *agent, uint32_t lanes, sim_warp *warp);
void sim_agent_end(sim_agent *agent);
sim_next sim_race_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access);
sim_next sim_race_agent_pieces(sim_agent *agent, sim_block *owner, const uint64_t *pieces, uint32_t count);
/* Writes for lanes of its issuer, at offset[lane] of *owner[lane]. */
sim_next sim_race_agent_lanes(sim_agent *agent, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                              uint32_t size);

/* --- async.c ---
 * An operation is queued when it is issued and performed once, at a time that options.timing decides: at once (eager),
 * when somebody's wait can only be satisfied by it (late), or at a random time in between (seeded). Its issuer learns
 * of it by waiting for its group (cp.async, bulk stores, wgmma: kept until then, performed or not), others by the
 * mbarrier that it completes on. */
typedef enum sim_async_kind { SIM_CP_ASYNC, SIM_BULK_LOAD, SIM_BULK_STORE, SIM_WGMMA, SIM_ASYNC_KINDS } sim_async_kind;
struct sim_async {
    sim_async *next; /* of its kind in its warp, in order of issue */
    sim_async_kind kind;
    sim_agent agent;
    uint32_t lanes;       /* issuers that have not waited for its group; 0: it completes on an mbarrier */
    uint32_t follows;     /* issuers whose earlier operations of this kind come first (wgmma: all) */
    uint32_t blocks;      /* a bit a rank: whose shared memory it uses, which may not end before */
    uint64_t group;       /* set by issue; one number for all of `lanes`, see sim_async_alike */
    uint64_t number, due; /* async.c */
    uint32_t published;   /* lanes that made it visible by cp.async.mbarrier.arrive */
    bool read_done, performed;
    sim_next (*read)(sim_async *op);     /* bulk stores: the reads alone, which may be waited for alone; else NULL */
    sim_next (*perform)(sim_async *op);  /* (reads if !read_done) and writes; then what completes on an mbarrier */
    sim_next (*complete)(sim_async *op); /* the issuer has waited for it; NULL: sim_agent_complete_warp */
    void (*free)(sim_async *op);         /* what it owns besides agent and itself; NULL: nothing */
};
/* Takes `op` (calloced). May perform it at once. */
sim_next sim_async_issue(sim_async *op);
/* Lanes of `mask` that are in the same open group as its first one: one operation can be issued for them. */
uint32_t sim_async_alike(const sim_warp *warp, sim_async_kind kind, uint32_t mask);
/* The open group of each lane is closed, and a new one opened. wgmma: mask of all lanes. */
void sim_async_commit(sim_warp *warp, sim_async_kind kind, uint32_t mask);
/* Until at most `keep` committed groups are pending: performs the others and completes them. reads_only:
 * wait_group.read. */
sim_next sim_async_wait(sim_warp *warp, sim_async_kind kind, uint32_t mask, uint64_t keep, bool reads_only);
/* wgmma.wait_group: of the whole warpgroup. SIM_WAIT until all its warps have committed what is waited for. */
sim_next sim_async_wait_warpgroup(sim_warp *warp, const ptx_insn *insn, uint64_t keep);
/* Nothing in the cluster can go on (all wait, or only poll): perform one pending operation that completes on an
 * mbarrier and return true with *result; false: none is pending. */
bool sim_async_advance(sim_cluster *cluster, sim_next *result);
/* Once an instruction: seeded timing may perform something. */
sim_next sim_async_perform_due(sim_cluster *cluster);
static inline sim_next sim_async_tick(sim_cluster *cluster)
{
    return ++cluster->async_now < cluster->async_due ? SIM_NEXT : sim_async_perform_due(cluster);
}
/* The last warp of a block has ended: stores are finished; a fault if an operation would still use its shared memory.
 */
sim_next sim_async_block_ends(sim_block *block);
/* What the operations that `op` follows did becomes visible to whoever waits for this phase of the mbarrier. */
sim_next sim_async_publish(sim_async *op, sim_block *owner, uint32_t offset);
bool sim_async_init(sim_warp *warp);
void sim_async_end(sim_warp *warp); /* when the cluster goes: frees */

/* --- barrier.c --- */
/* An mbarrier at `offset` of a block's shared memory. Its state lies in the 64 bits of shared memory, in sim's own
 * layout; its clock beside the block. */
sim_next sim_mbarrier_complete_tx(sim_agent *agent, uint32_t lanes, sim_block *owner, uint32_t offset, uint32_t bytes);
/* cp.async.mbarrier.arrive: one more arrival is expected in this phase (without .noinc, at its issue); the agent
 * arrives. What other agents did becomes visible with it by complete_tx of 0 bytes. */
sim_next sim_mbarrier_expect_arrival(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner,
                                     uint32_t offset);
/* Lanes have executed fence.mbarrier_init or fence.proxy.async. */
void sim_mbarriers_fence(sim_warp *warp, uint32_t mask);
sim_next sim_mbarrier_arrive_agent(sim_agent *agent, sim_block *owner, uint32_t offset);
bool sim_barriers_init(sim_block *block);
void sim_barriers_end(sim_block *block);
bool sim_cluster_barrier_init(sim_cluster *cluster);
void sim_cluster_barrier_end(sim_cluster *cluster);
void sim_barriers_warp_exited(sim_warp *warp, uint32_t lanes); /* a barrier may be complete without them */
/* One line on what a waiting split waits for ("bar.sync 1: 64 of 128 threads", "mbarrier at shared+0x40, phase 1: 1
 * arrival and 512 bytes missing"). */
void sim_barrier_explain(const sim_warp *warp, const ptx_insn *insn, uint32_t mask, char *text, size_t size);

/* --- op_registers.c --- */
void sim_registers_begin(sim_block *block);
/* A warp has ended: the others of its warpgroup must not have changed their registers once more than it. */
sim_next sim_registers_warp_ends(sim_warp *warp);
/* What a waiting setmaxnreg waits for. */
void sim_registers_explain(const sim_warp *warp, const ptx_insn *insn, char *text, size_t size);

/* --- counters.c --- */
/* One warp access: bytes asked for, and the distinct 32-byte sectors that they lie in. An atomic counts as a read and a
 * write. */
void sim_count_global(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, sim_access access);
/* One access to `size` bytes in a row, of TMA or cp.async. */
void sim_count_global_span(sim_warp *warp, uint64_t address, uint32_t size, sim_access access);
/* Extra rounds of one warp access to shared memory: 32 banks of 4 bytes; 8-byte accesses by half warps, 16-byte ones by
 * quarter warps; lanes that use the same word share it. */
void sim_count_shared(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, sim_access access);
void sim_count_shared_row(sim_warp *warp, uint32_t size, sim_access access); /* lanes one after another: no extra */
void sim_counters_add(sim_counters *into, const sim_counters *from);

#endif
