/* sim_api.h - what the driver half and the tests call: run one launch, get its fault and its counters. */
#ifndef SIM_API_H
#define SIM_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_function;

/* Memory that a kernel may reach, sorted by address, not overlapping. */
typedef struct sim_range {
    uint64_t start, end;
    bool read_only;
} sim_range;

typedef enum sim_timing { SIM_EAGER, SIM_LATE, SIM_SEEDED } sim_timing;
typedef struct sim_options {
    sim_timing timing;         /* of asynchronous operations */
    uint64_t seed;             /* SIM_SEEDED: their times and the order of warps */
    bool no_races;             /* leave out the race check */
    bool no_undefined;         /* leave out the checks of undefined registers and shared memory */
    uint32_t threads;          /* 0: one a core */
    uint64_t max_instructions; /* warp instructions, then the launch is given up as endless; 0: 2^36 */
} sim_options;

enum { SIM_MMA_SHAPES = 16, SIM_SHAPE_NAME = 32 };
typedef struct sim_counters {
    uint64_t warp_instructions, thread_instructions;
    uint64_t global_read_bytes, global_write_bytes;     /* asked for by the lanes (and by TMA, cp.async) */
    uint64_t global_read_sectors, global_write_sectors; /* distinct 32-byte sectors of each warp's access, added up */
    uint64_t shared_read_bytes, shared_write_bytes, shared_conflicts; /* conflicts: extra rounds */
    uint64_t atomics;
    uint64_t mma;       /* mma.sync, warp instructions, all shapes */
    uint64_t wgmma;     /* wgmma.mma_async, warpgroup instructions */
    uint64_t mma_flops; /* 2*m*n*k of both */
    struct {
        char shape[SIM_SHAPE_NAME];
        uint64_t count;
    } mma_by_shape[SIM_MMA_SHAPES]; /* "m16n8k16.bf16" */
    uint64_t barriers, async_copies, tma_bytes;
    uint32_t registers, shared_bytes; /* peak per thread (declared and used), per block */
} sim_counters;

typedef enum sim_fault_kind {
    SIM_NO_FAULT,
    SIM_FAULT_ADDRESS,    /* out of bounds: CUDA_ERROR_ILLEGAL_ADDRESS */
    SIM_FAULT_MISALIGNED, /* CUDA_ERROR_MISALIGNED_ADDRESS */
    SIM_FAULT_UNDEFINED,  /* an undefined register or byte of shared memory was read */
    SIM_FAULT_RACE,
    SIM_FAULT_DEADLOCK,
    SIM_FAULT_DIVERGENT,   /* an .aligned instruction with lanes missing */
    SIM_FAULT_ASYNC,       /* accumulators in flight touched, a missing fence or wait */
    SIM_FAULT_INSTRUCTION, /* illegal operand values (descriptor, barrier number, transaction count) */
    SIM_FAULT_TRAP,
    SIM_FAULT_ENDLESS,
    SIM_FAULT_RESOURCES /* the host is out of memory */
} sim_fault_kind;
typedef struct sim_fault {
    sim_fault_kind kind;
    char text[2560]; /* one line; a deadlock: a line for each waiting warp (first 16) */
} sim_fault;

typedef struct sim_launch {
    const struct ptx_function *function;
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0,0,0: what the function says, else 1,1,1 */
    uint32_t dynamic_shared;
    const uint8_t *params; /* function->param_bytes, laid out as its parameters are */
    const sim_range *ranges;
    size_t range_count;
    sim_options options;
    uint32_t max_cluster_blocks; /* 0: 8 */
    uint32_t sm_count;           /* 0: 132; for %nsmid and %smid */
} sim_launch;

/* Checks nothing that a driver checks before a launch (limits). Blocks until the grid is done. `counters` may be NULL;
 * they are added to. false: *fault says why. */
bool sim_launch_run(const sim_launch *launch, sim_counters *counters, sim_fault *fault);

#endif
