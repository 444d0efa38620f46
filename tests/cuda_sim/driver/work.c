/* work.c - what streams and graphs of the stand-in driver run. */
#include "drv.h"

#include <time.h>

void drv_work_keep(const drv_work *work)
{
    if (work->kind == DRV_LAUNCH)
        work->launch->refs++;
}

void drv_work_drop(const drv_work *work)
{
    if (work->kind != DRV_LAUNCH || --work->launch->refs > 0)
        return;
    drv_image_drop(work->launch->image);
    free(work->launch);
}

/* -- copies and fills ---------------------------------------------------------------------------------------------- */

nv_result drv_work_copy(drv_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function)
{
    if (size == 0 || !drv_find((void *)(uintptr_t)dst, size) || !drv_find((void *)(uintptr_t)src, size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu bytes from %#llx to %#llx: not all of it is memory",
                          function, size, src, dst);
    if (dst < src + size && src < dst + size)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: source and target overlap", function);
    *work = (drv_work){.kind = DRV_COPY, .copy = {(uint8_t *)(uintptr_t)dst, (const uint8_t *)(uintptr_t)src, size}};
    return NV_SUCCESS;
}

nv_result drv_work_fill(drv_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                        const char *function)
{
    if ((element_size != 1 && element_size != 2 && element_size != 4) || dst % element_size)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: element size or alignment", function);
    if (element_size < 4 && value >> (8 * element_size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: the value %#x does not fit %u bytes", function, value,
                          element_size);
    if (count == 0 || !drv_find((void *)(uintptr_t)dst, count * element_size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu elements at %#llx: not all of it is memory", function, count,
                          dst);
    *work = (drv_work){.kind = DRV_FILL, .fill = {(uint8_t *)(uintptr_t)dst, value, element_size, count}};
    return NV_SUCCESS;
}

static nv_result run_copy(const drv_work *work)
{
    if (!drv_reach((uintptr_t)work->copy.dst, work->copy.size) ||
        !drv_reach((uintptr_t)work->copy.src, work->copy.size))
        return NV_ERROR_ILLEGAL_ADDRESS;
    memcpy(work->copy.dst, work->copy.src, work->copy.size);
    return NV_SUCCESS;
}

static nv_result run_fill(const drv_work *work)
{
    uint32_t size = work->fill.element_size;
    if (!drv_reach((uintptr_t)work->fill.dst, work->fill.count * size))
        return NV_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < work->fill.count; i++)
        memcpy(work->fill.dst + i * size, &work->fill.value, size);
    return NV_SUCCESS;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */

static nv_result run_launch(const drv_launch *work)
{
    sim_launch launch = {.function = work->code,
                         .dynamic_shared = work->dynamic_shared,
                         .params = work->params,
                         .options = drv_set.options,
                         .max_cluster_blocks = DRV_MAX_CLUSTER,
                         .sm_count = (uint32_t)drv_set.profile->multiprocessors};
    sim_counters counters = {0};
    sim_fault fault = {0};
    nv_result result = NV_SUCCESS;
    memcpy(launch.grid, work->grid, sizeof launch.grid);
    memcpy(launch.block, work->block, sizeof launch.block);
    memcpy(launch.cluster, work->cluster, sizeof launch.cluster);
    sim_range *ranges = drv_ranges(&launch.range_count);
    launch.ranges = ranges;
    if (!sim_launch_run(&launch, &counters, &fault)) {
        pthread_mutex_lock(&drv_lock);
        result = drv_fault(&fault);
        pthread_mutex_unlock(&drv_lock);
    }
    free(ranges);
    drv_counters_add(work->code->name, &counters);
    return result;
}

/* -- words that streams wait for and write ------------------------------------------------------------------------- */

static bool satisfied(uint64_t is, uint64_t wanted, unsigned flags, unsigned bytes)
{
    switch (flags) {
    case NV_WAIT_VALUE_GEQ: /* by the signed difference, so that counters may wrap around */
        return bytes == 4 ? (int32_t)((uint32_t)is - (uint32_t)wanted) >= 0 : (int64_t)(is - wanted) >= 0;
    case NV_WAIT_VALUE_EQ:
        return is == wanted;
    case NV_WAIT_VALUE_AND:
        return (is & wanted) != 0;
    default:
        return bytes == 4 ? (uint32_t) ~(is | wanted) != 0 : ~(is | wanted) != 0;
    }
}

static nv_result wait_value(const drv_work *work, const drv_context *context)
{
    const struct timespec pause = {0, 20000};
    for (;;) {
        const void *word = drv_reach(work->word.address, work->word.bytes);
        if (!word)
            return NV_ERROR_ILLEGAL_ADDRESS;
        uint64_t is = work->word.bytes == 4 ? __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE)
                                            : __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
        if (satisfied(is, work->word.value, work->word.flags, work->word.bytes))
            return NV_SUCCESS;
        pthread_mutex_lock(&drv_lock);
        bool over = context->sticky || context->closing;
        pthread_mutex_unlock(&drv_lock);
        if (over)
            return NV_SUCCESS;
        nanosleep(&pause, NULL);
    }
}

static nv_result write_value(const drv_work *work)
{
    void *word = drv_reach(work->word.address, work->word.bytes);
    if (!word)
        return NV_ERROR_ILLEGAL_ADDRESS;
    if (work->word.bytes == 4)
        __atomic_store_n((uint32_t *)word, (uint32_t)work->word.value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)word, work->word.value, __ATOMIC_RELEASE);
    return NV_SUCCESS;
}

/* -- events in graphs ---------------------------------------------------------------------------------------------- */

static nv_result run_event(const drv_work *work)
{
    drv_event *event = work->event;
    nv_result result = NV_SUCCESS;
    pthread_mutex_lock(&drv_lock);
    if (!event->object.alive) {
        result = drv_misuse(NV_ERROR_LAUNCH_FAILED, "a graph uses an event that was destroyed");
    } else if (work->kind == DRV_RECORD) {
        drv_marker_drop(event->marker);
        event->marker = drv_marker_new();
        drv_marker_finish(event->marker);
    } else if (event->marker) {
        drv_marker *marker = drv_marker_ref(event->marker);
        while (!marker->done)
            pthread_cond_wait(&drv_moved, &drv_lock);
        drv_marker_drop(marker);
    }
    pthread_mutex_unlock(&drv_lock);
    return result;
}

nv_result drv_work_run(const drv_work *work, const drv_context *context)
{
    switch (work->kind) {
    case DRV_NOTHING:
        break;
    case DRV_LAUNCH:
        return run_launch(work->launch);
    case DRV_COPY:
        return run_copy(work);
    case DRV_FILL:
        return run_fill(work);
    case DRV_HOST:
        drv_callback_begin();
        work->host.fn(work->host.data);
        drv_callback_end();
        break;
    case DRV_RECORD:
    case DRV_AWAIT:
        return run_event(work);
    case DRV_WAIT_VALUE:
        return wait_value(work, context);
    case DRV_WRITE_VALUE:
        return write_value(work);
    }
    return NV_SUCCESS;
}
