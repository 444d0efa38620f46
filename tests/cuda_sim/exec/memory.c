/* memory.c - addresses of every space become host pointers here, after the checks that a GPU leaves out or makes late:
 * bounds (to the byte), alignment (PTX ISA "Alignment": an access must be aligned to its whole size), bytes of shared
 * and local memory that nobody has written. Accounting (counters.c) and the race check (race.c) of a warp's access
 * start from here too. */
#include "defined.h"
#include "global.h"

#include <inttypes.h>
#include <string.h>

enum { WINDOW_MASK = (1 << SIM_RANK_SHIFT) - 1 };

static const char *access_name(sim_access access)
{
    switch ((int)access & 3) {
    case SIM_READ:
        return "read";
    case SIM_WRITE:
        return "write";
    default:
        return "atomic";
    }
}

static uint32_t window_of(uint64_t address)
{
    return (uint32_t)(address >> 32);
}

/* Which space a generic address lies in. */
static ptx_space space_of(ptx_space space, uint64_t address)
{
    if (space != PTX_GENERIC) {
        return space == PTX_CONST ? PTX_GLOBAL : space;
    }
    uint32_t window = window_of(address);
    return window == SIM_SHARED_WINDOW >> 32  ? PTX_SHARED
           : window == SIM_LOCAL_WINDOW >> 32 ? PTX_LOCAL
           : window == SIM_PARAM_WINDOW >> 32 ? PTX_PARAM
                                              : PTX_GLOBAL;
}

static sim_next fault_bounds(sim_warp *warp, const ptx_insn *insn, int lane, const char *what, uint64_t address,
                             uint32_t size, sim_access access)
{
    return sim_fault_at(warp, insn, lane, SIM_FAULT_ADDRESS,
                        "%s of %" PRIu32 " bytes at 0x%" PRIx64 " is outside of %s memory", access_name(access), size,
                        address, what);
}

static bool is_aligned(sim_warp *warp, const ptx_insn *insn, int lane, uint64_t address, uint32_t size)
{
    if ((address & (size - 1)) == 0) {
        return true;
    }
    sim_fault_at(warp, insn, lane, SIM_FAULT_MISALIGNED,
                 "address 0x%" PRIx64 " is not a multiple of the access's %" PRIu32 " bytes", address, size);
    return false;
}

/* --- global --- */

static const sim_range *find_range(const sim_launch *launch, uint64_t address)
{
    size_t low = 0, high = launch->range_count; /* the last range that starts at or below address lies below high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (launch->ranges[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low ? &launch->ranges[low - 1] : NULL;
}

static bool in_range(const sim_range *range, uint64_t address, uint64_t size, sim_access access)
{
    return range && address >= range->start && address < range->end && size <= range->end - address &&
           !(range->read_only && (access & SIM_WRITE));
}

bool sim_global_reachable(sim_worker *worker, uint64_t address, uint64_t size, sim_access access)
{
    if (in_range(worker->last_range, address, size, access)) {
        return true;
    }
    const sim_range *range = find_range(worker->run->launch, address);
    if (in_range(range, address, size, access)) {
        worker->last_range = range;
        return true;
    }
    const ptx_module *module = worker->run->function->module;
    uint64_t data = (uint64_t)(uintptr_t)module->data;
    return address >= data && address - data < module->data_size && size <= module->data_size - (address - data);
}

sim_next sim_fault_global(sim_warp *warp, const ptx_insn *insn, int lane, uint64_t address, uint32_t size,
                          sim_access access)
{
    const sim_range *range = find_range(warp->block->cluster->worker->run->launch, address);
    if (range && in_range(range, address, size, SIM_READ)) {
        return sim_fault_at(warp, insn, lane, SIM_FAULT_ADDRESS, "%s of read-only memory at 0x%" PRIx64,
                            access_name(access), address);
    }
    if (range && address - range->start < 2 * (range->end - range->start)) {
        return sim_fault_at(warp, insn, lane, SIM_FAULT_ADDRESS,
                            "%s of %" PRIu32 " bytes at 0x%" PRIx64 " is outside of global memory (byte %" PRIu64
                            " of an allocation of %" PRIu64 ")",
                            access_name(access), size, address, address - range->start, range->end - range->start);
    }
    return fault_bounds(warp, insn, lane, insn->space == PTX_CONST ? "constant" : "global", address, size, access);
}

/* --- shared --- */

/* The block that a shared address lies in and the byte there; NULL: none. */
static sim_block *find_shared(const sim_warp *warp, uint64_t address, uint32_t size, uint32_t *offset)
{
    sim_block *block = warp->block;
    uint64_t rank = (address & 0xffffffffu) >> SIM_RANK_SHIFT;
    if (rank) {
        if (rank > block->cluster->block_count) {
            return NULL;
        }
        block = &block->cluster->block[rank - 1];
    }
    uint32_t at = (uint32_t)(address & ((1u << SIM_RANK_SHIFT) - 1));
    uint32_t window = window_of(address);
    if ((window && window != SIM_SHARED_WINDOW >> 32) || at < SIM_SHARED_BASE) {
        return NULL;
    }
    *offset = at - SIM_SHARED_BASE;
    bool inside = *offset < block->shared_bytes && size <= block->shared_bytes - *offset;
    return inside && block->live_warps ? block : NULL;
}

/* .shared without ::cluster is the own block's (PTX ISA "Shared State Space"). */
static bool cta_only(const ptx_insn *insn, ptx_space space)
{
    return space == PTX_SHARED && !insn->any_block;
}

static sim_next fault_shared(sim_warp *warp, const ptx_insn *insn, int lane, uint64_t address, uint32_t size,
                             sim_access access)
{
    uint64_t rank = (address & 0xffffffffu) >> SIM_RANK_SHIFT;
    const sim_cluster *cluster = warp->block->cluster;
    if (rank && rank <= cluster->block_count && !cluster->block[rank - 1].live_warps) {
        return sim_fault_at(warp, insn, lane, SIM_FAULT_ADDRESS,
                            "%s of the shared memory of block rank %" PRIu64 ", which has exited", access_name(access),
                            rank - 1);
    }
    return sim_fault_at(warp, insn, lane, SIM_FAULT_ADDRESS,
                        "%s of %" PRIu32 " bytes at 0x%" PRIx64 " is outside of shared memory (byte %" PRId64
                        " of %" PRIu32 ")",
                        access_name(access), size, address,
                        (int64_t)(address & ((1u << SIM_RANK_SHIFT) - 1)) - SIM_SHARED_BASE, warp->block->shared_bytes);
}

/* --- local and parameters --- */

static uint8_t *reach_local(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address, uint32_t size,
                            sim_access access)
{
    uint64_t bytes = sim_function(warp)->local_bytes, offset = address & 0xffffffffu;
    uint32_t window = window_of(address);
    if ((window && window != SIM_LOCAL_WINDOW >> 32) || offset >= bytes || size > bytes - offset) {
        fault_bounds(warp, insn, (int)lane, "local", address, size, access);
        return NULL;
    }
    uint64_t at = lane * bytes + offset;
    if (warp->local_defined) {
        uint32_t missing;
        if ((access & SIM_READ) && !sim_opts(warp)->no_undefined &&
            (missing = sim_first_undefined(warp->local_defined, at, size)) != UINT32_MAX) {
            sim_fault_undefined(warp, insn, (int)lane, "local", (uint32_t)offset + missing);
            return NULL;
        }
        if (access & SIM_WRITE) {
            sim_set_defined(warp->local_defined, at, size);
        }
    }
    return warp->local + at;
}

static uint8_t *reach_param(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address, uint32_t size,
                            sim_access access)
{
    uint64_t offset = address & 0xffffffffu, bytes = sim_function(warp)->param_bytes;
    uint32_t window = window_of(address);
    if ((window && window != SIM_PARAM_WINDOW >> 32) || offset >= bytes || size > bytes - offset ||
        (access & SIM_WRITE)) {
        fault_bounds(warp, insn, (int)lane, (access & SIM_WRITE) ? "writable parameter" : "parameter", address, size,
                     access);
        return NULL;
    }
    return (uint8_t *)(uintptr_t)(warp->block->cluster->worker->run->launch->params + offset); /* read only */
}

/* --- one lane --- */

uint8_t *sim_reach(sim_warp *warp, const ptx_insn *insn, uint32_t lane, ptx_space space, uint64_t address,
                   uint32_t size, sim_access access, sim_block **owner, uint32_t *offset)
{
    if (!is_aligned(warp, insn, (int)lane, address, size)) {
        return NULL;
    }
    switch (space_of(space, address)) {
    case PTX_SHARED: {
        uint32_t at = 0;
        sim_block *block = find_shared(warp, address, size, &at);
        if (!block || (cta_only(insn, space) && block != warp->block)) {
            fault_shared(warp, insn, (int)lane, address, size, access);
            return NULL;
        }
        if (owner) {
            *owner = block;
            *offset = at;
        }
        return block->shared + at;
    }
    case PTX_LOCAL:
        return reach_local(warp, insn, lane, address, size, access);
    case PTX_PARAM:
        return reach_param(warp, insn, lane, address, size, access);
    default:
        if (!sim_global_reachable(warp->block->cluster->worker, address, size, access)) {
            sim_fault_global(warp, insn, (int)lane, address, size, access);
            return NULL;
        }
        return sim_host_pointer(address);
    }
}

/* --- a warp --- */

/* All 32 lanes, each `size` bytes behind the one before. */
static bool is_row(uint32_t mask, const uint64_t *address, uint32_t size)
{
    if (mask != ~0u) {
        return false;
    }
    uint64_t odd = 0;
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        odd |= address[lane] ^ (address[0] + (uint64_t)lane * size);
    }
    return odd == 0;
}

static bool all_aligned(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const uint64_t *address, uint32_t size)
{
    uint64_t odd = 0;
    SIM_FOR_LANES(lane, mask)
    {
        odd |= address[lane];
    }
    if ((odd & (size - 1)) == 0) {
        return true;
    }
    SIM_FOR_LANES(lane, mask)
    {
        if (!is_aligned(warp, insn, (int)lane, address[lane], size)) {
            return false;
        }
    }
    return true;
}

static sim_next reach_global(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const uint64_t *address,
                             uint32_t size, sim_access access, uint8_t **host, uint8_t **row)
{
    sim_worker *worker = warp->block->cluster->worker;
    bool strong = access == SIM_ATOMIC || (access & SIM_STRONG_MARK);
    if (row && !strong && is_row(mask, address, size) && (address[0] & (size - 1)) == 0 &&
        sim_global_reachable(worker, address[0], (uint64_t)size * PTX_LANES, access)) {
        *row = sim_host_pointer(address[0]);
    } else {
        if (!all_aligned(warp, insn, mask, address, size)) {
            return SIM_FAULT;
        }
        SIM_FOR_LANES(lane, mask)
        {
            if (!sim_global_reachable(worker, address[lane], size, access)) {
                return sim_fault_global(warp, insn, (int)lane, address[lane], size, access);
            }
            host[lane] = sim_host_pointer(address[lane]);
        }
    }
    sim_count_global(warp, mask, address, size, access);
    if (strong) {
        sim_race_strong(warp, mask, host, access);
    }
    return SIM_NEXT;
}

/* The lanes' bytes lie one after another in the own block's memory. */
static sim_next reach_shared_row(sim_warp *warp, const ptx_insn *insn, uint32_t offset, uint32_t size,
                                 sim_access access)
{
    sim_block *block = warp->block;
    const sim_options *options = sim_opts(warp);
    if ((access & SIM_READ) && !options->no_undefined) {
        uint32_t missing = sim_first_undefined(block->shared_defined, offset, PTX_LANES * size);
        if (missing != UINT32_MAX) {
            return sim_fault_undefined(warp, insn, (int)(missing / size), "shared", offset + missing);
        }
    }
    if (access & SIM_WRITE) {
        sim_set_defined(block->shared_defined, offset, PTX_LANES * size);
    }
    sim_count_shared_row(warp, size, access);
    return options->no_races ? SIM_NEXT : sim_race_row(warp, insn, block, offset, size, access);
}

/* Lanes in the own block's memory: their offsets. `mask` is a constant where that helps. */
static inline __attribute__((always_inline)) bool own_offsets(sim_warp *warp, uint32_t mask, const uint64_t *address,
                                                              uint32_t size, sim_block **owner, uint32_t *offset)
{
    uint64_t window = address[__builtin_ctz(mask)] & ~(uint64_t)WINDOW_MASK, odd = 0;
    uint32_t bytes = warp->block->shared_bytes, all = 0, outside = 0;
    if ((window && window != SIM_SHARED_WINDOW) || size > bytes) {
        return false;
    }
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        if (mask >> lane & 1) {
            offset[lane] = (uint32_t)address[lane] - SIM_SHARED_BASE;
            owner[lane] = warp->block;
            odd |= address[lane] ^ window;
            all |= offset[lane];
            outside |= (bytes - size) - offset[lane]; /* the sign, as sizes are small */
        }
    }
    return odd <= WINDOW_MASK && ((all | outside) >> 31) == 0 && (all & (size - 1)) == 0;
}

/* All lanes in the own block's memory, as they mostly are: without a look at each. */
static bool reach_own(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, sim_block **owner,
                      uint32_t *offset)
{
    return mask == ~0u ? own_offsets(warp, ~0u, address, size, owner, offset)
                       : own_offsets(warp, mask, address, size, owner, offset);
}

bool sim_own_lanes(sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size, uint32_t *offset)
{
    sim_block *owner[PTX_LANES];
    return reach_own(warp, mask, address, size, owner, offset);
}

bool sim_global_lanes(const sim_warp *warp, uint32_t mask, const uint64_t *address, uint32_t size)
{
    uint64_t low = UINT64_MAX, high = 0, odd = 0;
    SIM_FOR_LANES(lane, mask)
    {
        low = address[lane] < low ? address[lane] : low;
        high = address[lane] > high ? address[lane] : high;
        odd |= address[lane];
    }
    return (odd & (size - 1)) == 0 &&
           sim_global_reachable(warp->block->cluster->worker, low, high - low + size, SIM_READ);
}

static sim_next find_lanes(sim_warp *warp, const ptx_insn *insn, uint32_t mask, bool own, const uint64_t *address,
                           uint32_t size, sim_access access, sim_block **owner, uint32_t *offset)
{
    if (!all_aligned(warp, insn, mask, address, size)) {
        return SIM_FAULT;
    }
    SIM_FOR_LANES(lane, mask)
    {
        owner[lane] = find_shared(warp, address[lane], size, &offset[lane]);
        if (!owner[lane] || (own && owner[lane] != warp->block)) {
            return fault_shared(warp, insn, (int)lane, address[lane], size, access);
        }
    }
    return SIM_NEXT;
}

static sim_next reach_shared(sim_warp *warp, const ptx_insn *insn, uint32_t mask, bool own, const uint64_t *address,
                             uint32_t size, sim_access access, uint8_t **host, uint8_t **row)
{
    sim_block *owner[PTX_LANES];
    uint32_t offset[PTX_LANES];
    bool strong = access == SIM_ATOMIC || (access & SIM_STRONG_MARK);
    if (row && !strong && is_row(mask, address, size) && (address[0] & (size - 1)) == 0 &&
        find_shared(warp, address[0], size * PTX_LANES, &offset[0]) == warp->block) {
        *row = warp->block->shared + offset[0];
        return reach_shared_row(warp, insn, offset[0], size, access);
    }
    if (!reach_own(warp, mask, address, size, owner, offset) &&
        find_lanes(warp, insn, mask, own, address, size, access, owner, offset) != SIM_NEXT) {
        return SIM_FAULT;
    }
    SIM_FOR_LANES(lane, mask)
    {
        host[lane] = owner[lane]->shared + offset[lane];
    }
    if (sim_use_defined(warp, insn, mask, owner, offset, size, access) != SIM_NEXT) {
        return SIM_FAULT;
    }
    sim_count_shared(warp, mask, address, size, access);
    if (strong) {
        sim_race_strong(warp, mask, host, access);
    }
    return sim_opts(warp)->no_races ? SIM_NEXT : sim_race_warp(warp, insn, mask, owner, offset, size, access);
}

static sim_next reach_private(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space,
                              const uint64_t *address, uint32_t size, sim_access access, uint8_t **host)
{
    uint32_t last = PTX_LANES;
    SIM_FOR_LANES(lane, mask)
    {
        const bool same = space == PTX_PARAM && last < PTX_LANES && address[lane] == address[last];
        host[lane] = same ? host[last] : sim_reach(warp, insn, lane, space, address[lane], size, access, NULL, NULL);
        if (!host[lane]) {
            return SIM_FAULT;
        }
        last = lane;
    }
    return SIM_NEXT;
}

/* Lanes of one space. */
static sim_next reach_space(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space, bool own,
                            const uint64_t *address, uint32_t size, sim_access access, uint8_t **host, uint8_t **row)
{
    switch (space) {
    case PTX_SHARED:
        return reach_shared(warp, insn, mask, own, address, size, access, host, row);
    case PTX_LOCAL:
    case PTX_PARAM:
        return reach_private(warp, insn, mask, space, address, size, access, host);
    default:
        return reach_global(warp, insn, mask, address, size, access, host, row);
    }
}

sim_next sim_reach_row(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space, const uint64_t *address,
                       uint32_t size, sim_access access, uint8_t **host, uint8_t **row)
{
    if (row) {
        *row = NULL;
    }
    if (space != PTX_GENERIC) {
        return reach_space(warp, insn, mask, space, cta_only(insn, space), address, size, access, host, row);
    }
    for (uint32_t rest = mask; rest;) {
        ptx_space first = space_of(space, address[__builtin_ctz(rest)]);
        uint32_t same = 0;
        SIM_FOR_LANES(lane, rest)
        {
            same |= (uint32_t)(space_of(space, address[lane]) == first) << lane;
        }
        if (reach_space(warp, insn, same, first, false, address, size, access, host, same == mask ? row : NULL) !=
            SIM_NEXT) {
            return SIM_FAULT;
        }
        rest &= ~same;
    }
    return SIM_NEXT;
}

sim_next sim_reach_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask, ptx_space space, const uint64_t *address,
                        uint32_t size, sim_access access, uint8_t **host)
{
    return sim_reach_row(warp, insn, mask, space, address, size, access, host, NULL);
}

void sim_addresses(const sim_warp *warp, uint32_t slot, bool wide, int64_t offset, uint64_t *address)
{
    if (wide) {
        const uint64_t *base = sim_u64(warp, slot);
        for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
            address[lane] = base[lane] + (uint64_t)offset;
        }
        return;
    }
    const uint32_t *base = sim_u32(warp, slot);
    for (uint32_t lane = 0; lane < PTX_LANES; lane++) {
        address[lane] = base[lane] + (uint32_t)offset;
    }
}
