/* defined.h - bytes of shared and local memory that somebody has written: a bit each. */
#ifndef SIM_DEFINED_H
#define SIM_DEFINED_H

#include "sim.h"

/* The first undefined byte of [offset, offset + size), or UINT32_MAX. */
static inline uint32_t sim_first_undefined(const uint32_t *defined, uint64_t offset, uint32_t size)
{
    for (uint64_t at = offset, end = offset + size; at < end;) {
        uint32_t first = (uint32_t)at & 31, count = 32 - first;
        if (count > end - at) {
            count = (uint32_t)(end - at);
        }
        uint32_t bits = (count == 32 ? ~0u : (1u << count) - 1) << first, missing = bits & ~defined[at / 32];
        if (missing) {
            return (uint32_t)(at - offset) - first + (uint32_t)__builtin_ctz(missing);
        }
        at += count;
    }
    return UINT32_MAX;
}

static inline void sim_set_defined(uint32_t *defined, uint64_t offset, uint32_t size)
{
    for (uint64_t at = offset, end = offset + size; at < end;) {
        uint32_t first = (uint32_t)at & 31, count = 32 - first;
        if (count > end - at) {
            count = (uint32_t)(end - at);
        }
        defined[at / 32] |= (count == 32 ? ~0u : (1u << count) - 1) << first;
        at += count;
    }
}

sim_next sim_fault_undefined(sim_warp *warp, const ptx_insn *insn, int lane, const char *what, uint32_t offset);
/* Reads of what is undefined are faults, writes define: aligned accesses of at most 32 bytes to shared memory. */
sim_next sim_use_defined(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                         const uint32_t *offset, uint32_t size, sim_access access);

#endif
