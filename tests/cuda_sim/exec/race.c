/* race.c - happens-before over shared memory. */
#include "sim.h"

#include <stdlib.h>

struct sim_clock {
    uint32_t size;
};

sim_clock *sim_clock_new(const sim_cluster *cluster)
{
    (void)cluster;
    return calloc(1, sizeof(sim_clock));
}

void sim_clock_free(sim_clock *clock)
{
    free(clock);
}

void sim_release(sim_warp *warp, sim_clock *into)
{
    (void)warp;
    (void)into;
}

void sim_acquire(sim_warp *warp, const sim_clock *from)
{
    (void)warp;
    (void)from;
}

void sim_clock_clear(sim_clock *clock)
{
    (void)clock;
}

void sim_warp_sync(sim_warp *warp)
{
    (void)warp;
}

void sim_memory_fence(sim_warp *warp)
{
    (void)warp;
}

void sim_proxy_fence(sim_warp *warp)
{
    (void)warp;
}

sim_next sim_race_access(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner, uint32_t offset,
                         uint32_t size, sim_access access)
{
    (void)warp, (void)insn, (void)lane, (void)owner, (void)offset, (void)size, (void)access;
    return SIM_NEXT;
}

sim_next sim_race_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, sim_block *const *owner,
                       const uint32_t *offset, uint32_t size, sim_access access)
{
    (void)warp, (void)insn, (void)mask, (void)owner, (void)offset, (void)size, (void)access;
    return SIM_NEXT;
}

bool sim_race_init(sim_cluster *cluster)
{
    (void)cluster;
    return true;
}

void sim_race_end(sim_cluster *cluster)
{
    (void)cluster;
}

bool sim_agent_init(sim_agent *agent, sim_warp *issuer, const ptx_insn *insn, uint32_t lane, bool async_proxy)
{
    agent->issuer = issuer;
    agent->insn = insn;
    agent->lane = lane;
    agent->async_proxy = async_proxy;
    return true;
}

void sim_agent_complete(sim_agent *agent, sim_clock *into)
{
    (void)agent, (void)into;
}

void sim_agent_complete_warp(sim_agent *agent, sim_warp *warp)
{
    (void)agent, (void)warp;
}

void sim_agent_reads_done(sim_agent *agent, sim_warp *warp)
{
    (void)agent, (void)warp;
}

void sim_agent_end(sim_agent *agent)
{
    (void)agent;
}

sim_next sim_race_agent(sim_agent *agent, sim_block *owner, uint32_t offset, uint32_t size, sim_access access)
{
    (void)agent, (void)owner, (void)offset, (void)size, (void)access;
    return SIM_NEXT;
}
