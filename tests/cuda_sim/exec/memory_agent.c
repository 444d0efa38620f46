/* memory_agent.c - what asynchronous operations do to memory, with the same checks as memory.c. */
#include "defined.h"
#include "global.h"

enum { SIM_ALL_LANES = -1 };

sim_next sim_shared_by_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access)
{
    const sim_options *options = sim_opts(agent->issuer);
    if ((access & SIM_READ) && !options->no_undefined) {
        uint32_t missing = sim_first_undefined(owner->shared_defined, offset, size);
        if (missing != UINT32_MAX) {
            return sim_fault_undefined(agent->issuer, agent->insn,
                                       agent->lane < PTX_LANES ? (int)agent->lane : SIM_ALL_LANES, "shared",
                                       offset + missing);
        }
    }
    if (access & SIM_WRITE) {
        sim_set_defined(owner->shared_defined, offset, size);
    }
    return options->no_races ? SIM_NEXT : sim_race_agent(agent, owner, offset, size, access);
}

/* The first undefined byte of the pieces, or UINT32_MAX. */
static uint32_t undefined_in_pieces(const uint32_t *defined, const uint64_t *pieces, uint32_t count)
{
    uint32_t missing = 0, at = UINT32_MAX;
    for (uint32_t k = 0; k < count; k++) {
        for (uint64_t left = pieces[k]; left; left &= left - 1) {
            const uint32_t piece = 64 * k + (uint32_t)__builtin_ctzll(left);
            missing |= ~(defined[piece / 2] >> piece % 2 * 16) & 0xffff;
        }
        for (uint64_t left = missing ? pieces[k] : 0; left && at == UINT32_MAX; left &= left - 1) {
            const uint32_t offset = SIM_PIECE * (64 * k + (uint32_t)__builtin_ctzll(left));
            const uint32_t byte = sim_first_undefined(defined, offset, SIM_PIECE);
            at = byte == UINT32_MAX ? byte : offset + byte;
        }
    }
    return at;
}

sim_next sim_shared_pieces_by_agent(sim_agent *agent, sim_block *owner, const uint64_t *pieces, uint32_t count)
{
    const sim_options *options = sim_opts(agent->issuer);
    if (!options->no_undefined) {
        uint32_t missing = undefined_in_pieces(owner->shared_defined, pieces, count);
        if (missing != UINT32_MAX) {
            return sim_fault_undefined(agent->issuer, agent->insn,
                                       agent->lane < PTX_LANES ? (int)agent->lane : SIM_ALL_LANES, "shared", missing);
        }
    }
    return options->no_races ? SIM_NEXT : sim_race_agent_pieces(agent, owner, pieces, count);
}

sim_next sim_shared_by_agent_lanes(sim_agent *agent, uint32_t mask, sim_block *const *owner, const uint32_t *offset,
                                   uint32_t size)
{
    const sim_options *options = sim_opts(agent->issuer);
    if (sim_use_defined(agent->issuer, agent->insn, mask, owner, offset, size, SIM_WRITE) == SIM_FAULT) {
        return SIM_FAULT;
    }
    return options->no_races ? SIM_NEXT : sim_race_agent_lanes(agent, mask, owner, offset, size);
}

uint8_t *sim_global_by_agent(sim_agent *agent, uint64_t address, uint32_t size, sim_access access)
{
    if (!sim_global_reachable(agent->issuer->block->cluster->worker, address, size, access)) {
        sim_fault_global(agent->issuer, agent->insn, agent->lane < PTX_LANES ? (int)agent->lane : SIM_ALL_LANES,
                         address, size, access);
        return NULL;
    }
    sim_count_global_span(agent->issuer, address, size, access);
    return sim_host_pointer(address);
}
