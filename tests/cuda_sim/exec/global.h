/* global.h - global memory, between memory.c and memory_agent.c. */
#ifndef SIM_GLOBAL_H
#define SIM_GLOBAL_H

#include "sim.h"

bool sim_global_reachable(sim_worker *worker, uint64_t address, uint64_t size, sim_access access);
sim_next sim_fault_global(sim_warp *warp, const ptx_insn *insn, int lane, uint64_t address, uint32_t size,
                          sim_access access);

static inline uint8_t *sim_host_pointer(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr): a global address is a host address */
}

#endif
