#include "cluster.h"
#include <stdlib.h>
#include <string.h>

enum { FILE_ALIGN = 64, SHARED_ALIGN = 1024, UNDEFINED_BYTE = 0xff };

static size_t round_up(size_t size, size_t align)
{
    return (size + align - 1) / align * align;
}

static void *aligned_memory(size_t align, size_t size)
{
    return aligned_alloc(align, round_up(size ? size : 1, align));
}

static bool uses_wgmma(const ptx_function *function)
{
    for (uint32_t i = 0; i < function->insn_count; i++) {
        if (strcmp(function->insn[i].mnemonic, "wgmma") == 0) {
            return true;
        }
    }
    return false;
}

/* Position `number` in a grid of `size`, x fastest. */
static void position(uint64_t number, const uint32_t size[3], uint32_t at[3])
{
    at[0] = (uint32_t)(number % size[0]);
    at[1] = (uint32_t)(number / size[0] % size[1]);
    at[2] = (uint32_t)(number / size[0] / size[1]);
}

static void fill(sim_warp *warp, uint32_t slot, uint32_t value)
{
    uint32_t *lanes = sim_u32(warp, slot);
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        lanes[l] = value;
    }
}

static void fill_lanes(sim_warp *warp, ptx_special special, uint32_t slot)
{
    uint32_t *lanes = sim_u32(warp, slot);
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        uint32_t at[3], bit = UINT32_C(1) << l;
        position((uint64_t)warp->id * PTX_LANES + l, warp->block->cluster->worker->run->launch->block, at);
        switch (special) {
        case PTX_LANEID:
            lanes[l] = l;
            break;
        case PTX_LANEMASK_EQ:
            lanes[l] = bit;
            break;
        case PTX_LANEMASK_LE:
            lanes[l] = bit | (bit - 1);
            break;
        case PTX_LANEMASK_LT:
            lanes[l] = bit - 1;
            break;
        case PTX_LANEMASK_GE:
            lanes[l] = ~(bit - 1);
            break;
        case PTX_LANEMASK_GT:
            lanes[l] = ~(bit | (bit - 1));
            break;
        default:
            lanes[l] = at[special - PTX_TID_X];
        }
    }
}

/* A special register that all threads of a block see alike. */
static uint32_t block_special(const sim_block *block, ptx_special special)
{
    const sim_run *run = block->cluster->worker->run;
    const sim_launch *launch = run->launch;
    uint32_t sms = launch->sm_count ? launch->sm_count : SIM_SM_COUNT;
    if (special >= PTX_NTID_X && special <= PTX_NTID_Z) {
        return launch->block[special - PTX_NTID_X];
    }
    if (special >= PTX_CTAID_X && special <= PTX_CTAID_Z) {
        return block->ctaid[special - PTX_CTAID_X];
    }
    if (special >= PTX_NCTAID_X && special <= PTX_NCTAID_Z) {
        return launch->grid[special - PTX_NCTAID_X];
    }
    if (special >= PTX_CLUSTERID_X && special <= PTX_CLUSTERID_Z) {
        uint32_t axis = special - PTX_CLUSTERID_X;
        return block->ctaid[axis] / run->cluster_dims[axis];
    }
    if (special >= PTX_NCLUSTERID_X && special <= PTX_NCLUSTERID_Z) {
        uint32_t axis = special - PTX_NCLUSTERID_X;
        return launch->grid[axis] / run->cluster_dims[axis];
    }
    if (special >= PTX_CLUSTER_CTAID_X && special <= PTX_CLUSTER_CTAID_Z) {
        return block->index[special - PTX_CLUSTER_CTAID_X];
    }
    if (special >= PTX_CLUSTER_NCTAID_X && special <= PTX_CLUSTER_NCTAID_Z) {
        return run->cluster_dims[special - PTX_CLUSTER_NCTAID_X];
    }
    switch (special) {
    case PTX_CLUSTER_CTARANK:
        return block->rank;
    case PTX_CLUSTER_NCTARANK:
        return run->blocks_per_cluster;
    case PTX_NWARPID:
        return run->warps_per_block;
    case PTX_SMID:
        return (uint32_t)((block->cluster->number * run->blocks_per_cluster + block->rank) % sms);
    case PTX_NSMID:
        return sms;
    case PTX_DYNAMIC_SMEM_SIZE:
        return launch->dynamic_shared;
    case PTX_TOTAL_SMEM_SIZE:
        return run->shared_used;
    default: /* the clocks: warp.c moves them */
        return 0;
    }
}

static bool varies_in_a_block(ptx_special special)
{
    return special <= PTX_TID_Z || special == PTX_LANEID || (special >= PTX_LANEMASK_EQ && special <= PTX_LANEMASK_GT);
}

static bool varies_among_clusters(ptx_special special)
{
    return (special >= PTX_CTAID_X && special <= PTX_CTAID_Z) ||
           (special >= PTX_CLUSTERID_X && special <= PTX_CLUSTERID_Z) || special == PTX_SMID;
}

static void fill_special(sim_warp *warp, ptx_special special, uint32_t slot)
{
    const sim_run *run = warp->block->cluster->worker->run;
    if (special == PTX_GRIDID) {
        memset(sim_u64(warp, slot), 0, PTX_LANES * sizeof(uint64_t));
    } else if (special == PTX_IS_EXPLICIT_CLUSTER) {
        *sim_pred(warp, slot) = run->launch->cluster[0] || run->function->cluster[0] ? ~UINT32_C(0) : 0;
    } else if (special == PTX_WARPID) {
        fill(warp, slot, warp->id);
    } else if (varies_in_a_block(special)) {
        fill_lanes(warp, special, slot);
    } else {
        fill(warp, slot, block_special(warp->block, special));
    }
}

static void fill_specials(sim_warp *warp, bool all)
{
    const ptx_function *function = sim_function(warp);
    for (uint32_t i = 0; i < function->special_count; i++) {
        if (all || varies_among_clusters(function->special[i].special)) {
            fill_special(warp, function->special[i].special, function->special[i].slot);
        }
    }
}

static bool warp_new(sim_warp *warp, const ptx_function *function, bool with_wgmma)
{
    size_t registers = (size_t)function->register_count + 1;
    warp->file = aligned_memory(FILE_ALIGN, function->file_bytes);
    warp->defined = calloc(registers, sizeof *warp->defined);
    warp->in_flight = with_wgmma ? calloc(registers, sizeof *warp->in_flight) : NULL;
    warp->unfenced = with_wgmma ? calloc(registers, sizeof *warp->unfenced) : NULL;
    warp->owner = with_wgmma ? calloc(registers, sizeof *warp->owner) : NULL;
    if (!warp->file || !warp->defined || (with_wgmma && (!warp->in_flight || !warp->unfenced || !warp->owner))) {
        return false;
    }
    if (function->local_bytes) {
        warp->local = aligned_memory(FILE_ALIGN, (size_t)PTX_LANES * function->local_bytes);
        warp->local_defined = calloc(function->local_bytes, sizeof *warp->local_defined);
        if (!warp->local || !warp->local_defined) {
            return false;
        }
    }
    memset(warp->file, UNDEFINED_BYTE, function->file_bytes);
    if (function->constant_bytes) {
        memcpy(warp->file + function->constant_start, function->constants, function->constant_bytes);
    }
    fill_specials(warp, true);
    return true;
}

static bool block_new(sim_block *block, const sim_run *run, bool with_wgmma)
{
    block->shared_bytes = run->shared_bytes;
    block->shared = aligned_memory(SHARED_ALIGN, run->shared_bytes);
    block->shared_defined = calloc(run->shared_bytes / 32 + 1, sizeof *block->shared_defined);
    if (!block->shared || !block->shared_defined) {
        return false;
    }
    for (uint32_t w = 0; w < run->warps_per_block; w++) {
        block->warp[w].block = block;
        block->warp[w].id = w;
        if (!warp_new(&block->warp[w], run->function, with_wgmma)) {
            return false;
        }
    }
    return true;
}

sim_cluster *sim_cluster_new(sim_worker *worker)
{
    const sim_run *run = worker->run;
    const uint32_t *threads = run->launch->block;
    bool with_wgmma = uses_wgmma(run->function);
    sim_cluster *cluster = calloc(1, sizeof *cluster);
    sim_block *blocks = calloc(run->blocks_per_cluster, sizeof *blocks);
    sim_warp *warps = calloc((size_t)run->blocks_per_cluster * run->warps_per_block, sizeof *warps);
    if (!cluster || !blocks || !warps) {
        free(cluster);
        free(blocks);
        free(warps);
        return NULL;
    }
    cluster->worker = worker;
    cluster->block_count = run->blocks_per_cluster;
    cluster->block = blocks;
    bool ok = true;
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        sim_block *block = &blocks[b];
        block->cluster = cluster;
        block->rank = b;
        position(b, run->cluster_dims, block->index);
        block->warp_count = run->warps_per_block;
        block->thread_count = threads[0] * threads[1] * threads[2];
        block->warp = warps + (size_t)b * run->warps_per_block;
        ok = ok && block_new(block, run, with_wgmma);
    }
    if (!ok) {
        sim_cluster_free(cluster);
        return NULL;
    }
    return cluster;
}

void sim_cluster_free(sim_cluster *cluster)
{
    if (!cluster) {
        return;
    }
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        sim_block *block = &cluster->block[b];
        sim_barriers_end(block);
        for (uint32_t w = 0; w < block->warp_count; w++) {
            free(block->warp[w].file);
            free(block->warp[w].defined);
            free(block->warp[w].in_flight);
            free(block->warp[w].unfenced);
            free(block->warp[w].owner);
            free(block->warp[w].local);
            free(block->warp[w].local_defined);
        }
        free(block->shared);
        free(block->shared_defined);
    }
    sim_cluster_barrier_end(cluster);
    sim_race_end(cluster);
    free(cluster->block[0].warp);
    free(cluster->block);
    free(cluster);
}

static void warp_begin(sim_warp *warp)
{
    const ptx_function *function = sim_function(warp);
    fill_specials(warp, false);
    memset(warp->defined, 0, function->register_count * sizeof *warp->defined);
    warp->defined[0] = ~UINT32_C(0);
    if (warp->in_flight) {
        memset(warp->in_flight, 0, function->register_count * sizeof *warp->in_flight);
        memset(warp->unfenced, 0xff, function->register_count * sizeof *warp->unfenced);
    }
    if (warp->local) {
        memset(warp->local, UNDEFINED_BYTE, (size_t)PTX_LANES * function->local_bytes);
        memset(warp->local_defined, 0, function->local_bytes * sizeof *warp->local_defined);
    }
    uint32_t threads = warp->block->thread_count - warp->id * PTX_LANES;
    warp->live = threads >= PTX_LANES ? ~UINT32_C(0) : (UINT32_C(1) << threads) - 1;
    warp->split[0] = (sim_split){.mask = warp->live};
    warp->split_count = 1;
    warp->current = 0;
    warp->pinned = 0;
    warp->streak = 0;
}

static void block_begin(sim_block *block)
{
    const sim_run *run = block->cluster->worker->run;
    uint32_t clusters[3], at[3];
    for (int axis = 0; axis < 3; axis++) {
        clusters[axis] = run->launch->grid[axis] / run->cluster_dims[axis];
    }
    position(block->cluster->number, clusters, at);
    for (int axis = 0; axis < 3; axis++) {
        block->ctaid[axis] = at[axis] * run->cluster_dims[axis] + block->index[axis];
    }
    memset(block->shared, UNDEFINED_BYTE, block->shared_bytes);
    memset(block->shared_defined, 0, (block->shared_bytes / 32 + 1) * sizeof *block->shared_defined);
    block->live_warps = block->warp_count;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        warp_begin(&block->warp[w]);
    }
    sim_registers_begin(block);
}

bool sim_cluster_begin(sim_cluster *cluster, uint64_t number)
{
    cluster->number = number;
    cluster->live_blocks = cluster->block_count;
    cluster->events = 0;
    cluster->async_issued = 0;
    cluster->async_now = 0;
    cluster->async_due = UINT64_MAX;
    cluster->random = cluster->worker->run->launch->options.seed ^ (number << 32);
    bool ok = sim_cluster_barrier_init(cluster);
    for (uint32_t b = 0; b < cluster->block_count; b++) {
        block_begin(&cluster->block[b]);
        ok = ok && sim_barriers_init(&cluster->block[b]);
    }
    ok = ok && sim_race_init(cluster);
    uint32_t warps = sim_cluster_warps(cluster);
    for (uint32_t w = 0; w < warps; w++) {
        ok = ok && sim_async_init(&cluster->block[0].warp[w]);
    }
    return ok;
}

void sim_cluster_end(sim_cluster *cluster)
{
    uint32_t warps = sim_cluster_warps(cluster);
    for (uint32_t w = 0; w < warps; w++) {
        sim_async_end(&cluster->block[0].warp[w]);
    }
}
