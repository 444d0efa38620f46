/* counters.c - exact counts of what a kernel asks the memories for. They are facts about the addresses, not times.
 *
 * Global memory moves in sectors of 32 bytes: a warp's access costs as many as it touches ("CUDA C++ Best Practices
 * Guide", "Coalesced Access to Global Memory"). Shared memory has 32 banks of 4 bytes; lanes that use different words
 * of one bank wait for each other, lanes that use the same word don't ("CUDA C++ Programming Guide", "Shared Memory" of
 * compute capability 5.x and up). An access of 8 bytes a lane goes in two halves of the warp, one of 16 in four
 * quarters; a lane's place in the warp decides, active or not. */
#include "sim.h"

#include <string.h>

enum { SECTOR_SHIFT = 5, BANKS = 32, SECTOR_HASH = 128 };

/* Each lane's bytes lie in one sector: the access is aligned and at most 32 bytes. */
static uint32_t count_distinct(uint32_t mask, const uint64_t *address)
{
    uint64_t seen[SECTOR_HASH], last = 0;
    uint8_t used[SECTOR_HASH];
    uint32_t count = 0;
    bool ascending = true;
    SIM_FOR_LANES(lane, mask)
    {
        uint64_t sector = address[lane] >> SECTOR_SHIFT;
        ascending &= sector >= last;
        count += sector != last || count == 0;
        last = sector;
    }
    if (ascending) {
        return count;
    }
    count = 0;
    memset(used, 0, sizeof used);
    SIM_FOR_LANES(lane, mask)
    {
        uint64_t sector = address[lane] >> SECTOR_SHIFT;
        uint32_t at = (uint32_t)((sector * UINT64_C(0x9e3779b97f4a7c15)) >> 57);
        while (used[at] && seen[at] != sector) {
            at = (at + 1) % SECTOR_HASH;
        }
        count += !used[at];
        used[at] = 1;
        seen[at] = sector;
    }
    return count;
}

static void add_global(sim_counters *counters, uint64_t bytes, uint64_t sectors, sim_access access)
{
    if (access & SIM_READ) {
        counters->global_read_bytes += bytes;
        counters->global_read_sectors += sectors;
    }
    if (access & SIM_WRITE) {
        counters->global_write_bytes += bytes;
        counters->global_write_sectors += sectors;
    }
}

void sim_count_global(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, sim_access access)
{
    uint64_t bytes = (uint64_t)__builtin_popcount(mask) * size;
    add_global(sim_count(warp), bytes, count_distinct(mask, address), access);
}

void sim_count_global_span(sim_warp *warp, uint64_t address, uint32_t size, sim_access access)
{
    uint64_t sectors = size ? ((address + size - 1) >> SECTOR_SHIFT) - (address >> SECTOR_SHIFT) + 1 : 0;
    add_global(sim_count(warp), size, sectors, access);
}

/* Rounds that the lanes of one part of a warp need: the most different words that one bank has to deliver. */
static uint32_t count_rounds(uint32_t mask, const uint64_t *address, uint32_t words)
{
    uint32_t word[BANKS][PTX_LANES], rounds = 0;
    uint8_t used[BANKS] = {0};
    SIM_FOR_LANES(lane, mask)
    {
        for (uint32_t w = 0; w < words; w++) {
            /* All address bits take part, so that two blocks' memories (shared::cluster) differ. */
            uint32_t at = (uint32_t)(address[lane] >> 2) + w, bank = at % BANKS, known = 0;
            while (known < used[bank] && word[bank][known] != at) {
                known++;
            }
            if (known == used[bank]) {
                word[bank][used[bank]++] = at;
                rounds = used[bank] > rounds ? used[bank] : rounds;
            }
        }
    }
    return rounds;
}

/* All lanes use one word. */
static bool is_broadcast(uint32_t mask, const uint64_t *address)
{
    uint64_t first = address[__builtin_ctz(mask)], odd = 0;
    SIM_FOR_LANES(lane, mask)
    {
        odd |= address[lane] ^ first;
    }
    return odd == 0;
}

/* No bank has two lanes' words: the common case, found without a table. `words` is 1, 2 or 4, and addresses aligned. */
static bool are_apart(uint32_t mask, const uint64_t *address, uint32_t words)
{
    uint32_t used = 0, twice = 0;
    SIM_FOR_LANES(lane, mask)
    {
        uint32_t banks = ((1u << words) - 1) << ((address[lane] >> 2) % BANKS);
        twice |= used & banks;
        used |= banks;
    }
    return twice == 0;
}

static void add_shared(sim_counters *counters, uint64_t bytes, sim_access access)
{
    counters->shared_read_bytes += access & SIM_READ ? bytes : 0;
    counters->shared_write_bytes += access & SIM_WRITE ? bytes : 0;
}

void sim_count_shared_row(sim_warp *warp, uint32_t size, sim_access access)
{
    add_shared(sim_count(warp), (uint64_t)PTX_LANES * size, access);
}

void sim_count_shared(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, sim_access access)
{
    sim_counters *counters = sim_count(warp);
    add_shared(counters, (uint64_t)__builtin_popcount(mask) * size, access);
    uint32_t words = size <= 4 ? 1 : size / 4, lanes = PTX_LANES / words;
    for (uint32_t first = 0; first < PTX_LANES; first += lanes) {
        uint32_t part = mask & (lanes == PTX_LANES ? ~0u : ((1u << lanes) - 1) << first);
        if (part && !are_apart(part, address, words) && !is_broadcast(part, address)) {
            counters->shared_conflicts += count_rounds(part, address, words) - 1;
        }
    }
}

static void add_shapes(sim_counters *into, const sim_counters *from)
{
    for (uint32_t f = 0; f < SIM_MMA_SHAPES && from->mma_by_shape[f].count; f++) {
        uint32_t i = 0;
        while (i < SIM_MMA_SHAPES && into->mma_by_shape[i].count &&
               strcmp(into->mma_by_shape[i].shape, from->mma_by_shape[f].shape) != 0) {
            i++;
        }
        if (i < SIM_MMA_SHAPES) {
            memcpy(into->mma_by_shape[i].shape, from->mma_by_shape[f].shape, sizeof into->mma_by_shape[i].shape);
            into->mma_by_shape[i].count += from->mma_by_shape[f].count;
        }
    }
}

void sim_counters_add(sim_counters *into, const sim_counters *from)
{
    into->warp_instructions += from->warp_instructions;
    into->thread_instructions += from->thread_instructions;
    into->global_read_bytes += from->global_read_bytes;
    into->global_write_bytes += from->global_write_bytes;
    into->global_read_sectors += from->global_read_sectors;
    into->global_write_sectors += from->global_write_sectors;
    into->shared_read_bytes += from->shared_read_bytes;
    into->shared_write_bytes += from->shared_write_bytes;
    into->shared_conflicts += from->shared_conflicts;
    into->atomics += from->atomics;
    into->mma += from->mma;
    into->wgmma += from->wgmma;
    into->mma_flops += from->mma_flops;
    add_shapes(into, from);
    into->barriers += from->barriers;
    into->async_copies += from->async_copies;
    into->tma_bytes += from->tma_bytes;
    into->registers = into->registers > from->registers ? into->registers : from->registers;
    into->shared_bytes = into->shared_bytes > from->shared_bytes ? into->shared_bytes : from->shared_bytes;
}
