/* defined.c - see defined.h. */
#include "defined.h"

#include <inttypes.h>

sim_next sim_fault_undefined(sim_warp *warp, const ptx_insn *insn, int lane, const char *what, uint32_t offset)
{
    return sim_fault_at(warp, insn, lane, SIM_FAULT_UNDEFINED, "read of %s+0x%" PRIx32 ", which nobody has written",
                        what, offset);
}

/* The bits of one access are in one word. */
sim_next sim_use_defined(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                         const uint32_t *offset, uint32_t size, sim_access access)
{
    uint32_t bits = size == 32 ? ~0u : (1u << size) - 1, missing = 0;
    if ((access & SIM_READ) && !sim_opts(warp)->no_undefined) {
        SIM_FOR_LANES(lane, mask)
        {
            missing |= ~(owner[lane]->shared_defined[offset[lane] / 32] >> (offset[lane] & 31)) & bits;
        }
    }
    if (missing) {
        SIM_FOR_LANES(lane, mask)
        {
            missing = sim_first_undefined(owner[lane]->shared_defined, offset[lane], size);
            if (missing != UINT32_MAX) {
                return sim_fault_undefined(warp, insn, (int)lane, "shared", offset[lane] + missing);
            }
        }
    }
    if (access & SIM_WRITE) {
        SIM_FOR_LANES(lane, mask)
        {
            owner[lane]->shared_defined[offset[lane] / 32] |= bits << (offset[lane] & 31);
        }
    }
    return SIM_NEXT;
}
