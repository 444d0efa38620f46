/* function.c - the stand-in driver's functions: attributes, and the limits of launches. */
#include "drv.h"

static uint32_t max_threads(const ptx_function *code)
{
    uint32_t threads = ptx_max_threads(code);
    return threads ? threads : DRV_MAX_THREADS;
}

/* How many ptxas would take is not known: at most what is declared, what a thread can have, and what a block of
 * max_threads can have. */
static uint32_t registers(const ptx_function *code)
{
    uint32_t most = DRV_REGISTERS / max_threads(code), declared = code->registers_32 + 2 * code->registers_64;
    most = most < 255 ? most : 255;
    return declared < most ? declared : most;
}

/* -- attributes ---------------------------------------------------------------------------------------------------- */

static bool attribute_value(const drv_function *function, int attribute, int *value)
{
    const ptx_function *code = function->code;
    int capability = 10 * drv_set.profile->major + drv_set.profile->minor;
    switch (attribute) {
    case NV_FUNCTION_MAX_THREADS_PER_BLOCK:
        *value = (int)max_threads(code);
        return true;
    case NV_FUNCTION_SHARED_SIZE_BYTES:
        *value = (int)code->shared_bytes;
        return true;
    case NV_FUNCTION_LOCAL_SIZE_BYTES:
        *value = (int)code->local_bytes;
        return true;
    case NV_FUNCTION_NUM_REGS:
        *value = (int)registers(code);
        return true;
    case NV_FUNCTION_PTX_VERSION:
        *value = (int)function->image->code->target;
        return true;
    case NV_FUNCTION_BINARY_VERSION:
        *value = capability;
        return true;
    case NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)function->max_dynamic_shared;
        return true;
    case NV_FUNCTION_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        return true;
    case NV_FUNCTION_REQUIRED_CLUSTER_WIDTH:
    case NV_FUNCTION_REQUIRED_CLUSTER_HEIGHT:
    case NV_FUNCTION_REQUIRED_CLUSTER_DEPTH:
        *value = (int)function->cluster[attribute - NV_FUNCTION_REQUIRED_CLUSTER_WIDTH];
        return true;
    case NV_FUNCTION_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = function->non_portable_cluster;
        return true;
    case NV_FUNCTION_CONST_SIZE_BYTES:
    case NV_FUNCTION_CACHE_MODE_CA:
    case NV_FUNCTION_CLUSTER_SIZE_MUST_BE_SET:
    case NV_FUNCTION_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = 0;
        return true;
    default:
        return false;
    }
}

nv_result cuFuncGetAttribute(int *value, nv_function_attribute attribute, nv_function handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result == NV_SUCCESS && !attribute_value(function, (int)attribute, value))
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "cuFuncGetAttribute(%d)", (int)attribute);
    return drv_leave(result);
}

static nv_result set_cluster(drv_function *function, int attribute, int value)
{
    if (function->code->cluster[0]) /* "If set at compile time, it cannot be modified" */
        return (nv_result)NV_ERROR_NOT_PERMITTED;
    if (value < 0)
        return NV_ERROR_INVALID_VALUE;
    function->cluster[attribute - NV_FUNCTION_REQUIRED_CLUSTER_WIDTH] = (uint32_t)value;
    return NV_SUCCESS;
}

static nv_result set_attribute(drv_function *function, int attribute, int value)
{
    switch (attribute) {
    case NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (int64_t)value + function->code->shared_bytes > drv_set.profile->shared_optin)
            return NV_ERROR_INVALID_VALUE;
        function->max_dynamic_shared = (uint32_t)value;
        return NV_SUCCESS;
    case NV_FUNCTION_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return NV_ERROR_INVALID_VALUE;
        function->carveout = value;
        return NV_SUCCESS;
    case NV_FUNCTION_REQUIRED_CLUSTER_WIDTH:
    case NV_FUNCTION_REQUIRED_CLUSTER_HEIGHT:
    case NV_FUNCTION_REQUIRED_CLUSTER_DEPTH:
        return set_cluster(function, attribute, value);
    case NV_FUNCTION_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function->non_portable_cluster = value != 0;
        return NV_SUCCESS;
    default:
        return NV_ERROR_INVALID_VALUE;
    }
}

nv_result cuFuncSetAttribute(nv_function handle, nv_function_attribute attribute, int value)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_function *function = (drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result == NV_SUCCESS && (result = set_attribute(function, (int)attribute, value)) != NV_SUCCESS)
        drv_misuse(result, "cuFuncSetAttribute(%s, %d, %d)", function->code->name, (int)attribute, value);
    return drv_leave(result);
}

nv_result cuFuncLoad(nv_function function)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(drv_check(function, DRV_FUNCTION, __func__));
}

nv_result cuFuncGetParamInfo(nv_function handle, size_t index, size_t *offset, size_t *size)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result == NV_SUCCESS && index >= function->code->param_count)
        result = NV_ERROR_INVALID_VALUE;
    if (result == NV_SUCCESS) {
        const ptx_symbol *param = function->code->param[index];
        *offset = param->offset;
        if (size)
            *size = param->size;
    }
    return drv_leave(result);
}

/* By threads, blocks and shared memory; what registers allow only ptxas knows. */
nv_result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, nv_function handle, int block_size,
                                                      size_t dynamic_bytes)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (block_size <= 0 || !blocks)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "an occupancy query for blocks of %d", block_size));
    uint64_t shared = function->code->shared_bytes + dynamic_bytes + DRV_SHARED_RESERVED;
    int most = DRV_THREADS_PER_SM / ((block_size + 31) / 32 * 32);
    int by_shared = (int)((uint64_t)drv_set.profile->shared_per_sm / shared);
    most = most < DRV_BLOCKS_PER_SM ? most : DRV_BLOCKS_PER_SM;
    most = most < by_shared ? most : by_shared;
    *blocks = (uint32_t)block_size > max_threads(function->code) ? 0 : most;
    return drv_leave(NV_SUCCESS);
}

/* -- launches ------------------------------------------------------------------------------------------------------ */

static bool fits(const drv_function *function, const unsigned *grid, const unsigned *block, unsigned shared)
{
    static const unsigned most_groups[] = {0x7fffffff, 65535, 65535}, most_threads[] = {1024, 1024, 64};
    const uint32_t *required = function->code->required_threads;
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || grid[i] > most_groups[i] || block[i] == 0 || block[i] > most_threads[i] ||
            (required[0] && block[i] != (required[i] ? required[i] : 1)))
            return false;
    return block[0] * block[1] * block[2] <= max_threads(function->code) && shared <= function->max_dynamic_shared &&
           function->code->shared_bytes + shared <= (uint32_t)drv_set.profile->shared_optin;
}

nv_result drv_check_cluster(const char *name, const unsigned *grid, const unsigned *cluster, bool non_portable)
{
    uint64_t blocks = (uint64_t)cluster[0] * cluster[1] * cluster[2];
    if (cluster[0] == 0 && cluster[1] == 0 && cluster[2] == 0)
        return NV_SUCCESS;
    if (!drv_set.profile->clusters)
        return drv_misuse(NV_ERROR_NOT_SUPPORTED, "launch of %s: clusters need compute capability 9.0", name);
    if (blocks == 0 || blocks > (non_portable ? DRV_MAX_CLUSTER : DRV_PORTABLE_CLUSTER) || grid[0] % cluster[0] ||
        grid[1] % cluster[1] || grid[2] % cluster[2])
        return drv_misuse((nv_result)NV_ERROR_INVALID_CLUSTER_SIZE, "launch of %s: clusters of %u %u %u, grid %u %u %u",
                          name, cluster[0], cluster[1], cluster[2], grid[0], grid[1], grid[2]);
    return NV_SUCCESS;
}

/* The cluster that the launch has: what it says itself must be what the function requires, if it requires one. */
static nv_result take_cluster(const drv_function *function, const unsigned *grid, const unsigned *asked,
                              unsigned *cluster)
{
    static const unsigned none[3];
    const uint32_t *required = function->cluster;
    bool asks = asked && (asked[0] || asked[1] || asked[2]), requires = required[0] || required[1] || required[2];
    for (int i = 0; i < 3; i++) {
        cluster[i] = asks ? asked[i] : none[i];
        if (requires)
            cluster[i] = required[i] ? required[i] : 1;
        if (asks && requires && cluster[i] != asked[i])
            return drv_misuse((nv_result)NV_ERROR_INVALID_CLUSTER_SIZE,
                              "launch of %s: another cluster than it requires", function->code->name);
    }
    return drv_check_cluster(function->code->name, grid, cluster, function->non_portable_cluster);
}

/* The parameters are copied now: what they point to may change once the call returned. */
static nv_result take_params(drv_launch *launch, void **params)
{
    const ptx_function *code = launch->code;
    for (uint32_t i = 0; i < code->param_count; i++) {
        if (!params || !params[i])
            return drv_misuse(NV_ERROR_INVALID_VALUE, "launch of %s: parameter %u is NULL", code->name, i);
        memcpy(launch->params + code->param[i]->offset, params[i], code->param[i]->size);
    }
    return NV_SUCCESS;
}

nv_result drv_work_launch(drv_work *work, nv_function handle, const unsigned *grid, const unsigned *block,
                          unsigned shared, const unsigned *cluster, void **params)
{
    const drv_function *function = (const drv_function *)handle;
    unsigned taken[3];
    *work = (drv_work){.kind = DRV_NOTHING};
    nv_result result = drv_check(function, DRV_FUNCTION, "a launch");
    if (result != NV_SUCCESS)
        return result;
    if (!fits(function, grid, block, shared))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "launch of %s: grid %u %u %u, block %u %u %u, shared %u",
                          function->code->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared);
    result = take_cluster(function, grid, cluster, taken);
    if (result != NV_SUCCESS)
        return result;
    drv_launch *launch = drv_alloc(sizeof *launch + function->code->param_bytes);
    launch->refs = 1;
    launch->image = function->image;
    launch->image->refs++;
    launch->code = function->code;
    launch->dynamic_shared = shared;
    memcpy(launch->grid, grid, sizeof launch->grid);
    memcpy(launch->block, block, sizeof launch->block);
    memcpy(launch->cluster, taken, sizeof launch->cluster);
    *work = (drv_work){.kind = DRV_LAUNCH, .launch = launch};
    result = take_params(launch, params);
    if (result != NV_SUCCESS) {
        drv_work_drop(work);
        *work = (drv_work){.kind = DRV_NOTHING};
    }
    return result;
}
