/* stream.c - streams: batches of commands, their submission, points, waits between streams, timestamps.
 *
 * A stream counts its points on a timeline semaphore. Its commands gather in an open batch (a command buffer and what
 * that needs), which is submitted at a mark, or before when it has grown: it then signals a second timeline,
 * `progress`, so that every batch has exactly one value by which to know that it is done. Batches are done in order. */
#include "vulkan_backend.h"

#define BATCH_PARAMETERS (32u << 10)                            /* bytes of dispatch parameters one batch takes */
#define PARAMETERS_MAX   (HAL_MAX_BINDINGS * 8u + HAL_MAX_ARGS) /* of one command */
#define BATCH_COMMANDS   256u                 /* a batch is submitted when it has this many commands ... */
#define BATCH_EARLY      16u                  /* ... or at multiples of this, when the device has nothing to do */
#define WAIT_SLICE       UINT64_C(1000000000) /* one driver call waits no longer: some overflow on long timeouts */

typedef struct vk_batch {
    vk_recorder recorder;
    bool recording; /* the recorder's command buffer is open, and part of the batch */
    uint32_t command_count;
    VkCommandBuffer lists[VK_BATCH_LISTS]; /* run after the recorder's commands */
    vk_instance *instances[VK_BATCH_LISTS];
    uint32_t list_count;
    vk_timeline *waits[VK_BATCH_WAITS]; /* on the device, before any of it */
    uint64_t wait_values[VK_BATCH_WAITS];
    uint32_t wait_count;
    const vk_timeline *timeline; /* reaches `value` when the batch is done */
    uint64_t value;
} vk_batch;

struct hal_native_stream {
    hal_native_device *device;
    vk_queue *queue;
    vk_timeline *points, *progress;
    uint64_t progress_value;
    uint64_t points_seen, progress_seen; /* values known to be reached */
    vk_batch *open;                      /* gathering, or NULL */
    vk_batch *flight[VK_BATCHES_MAX];    /* ring of what is submitted, oldest at `oldest` */
    uint32_t oldest, flight_count;
    vk_batch *idle[VK_BATCHES_MAX];
    uint32_t idle_count, batch_count;
};

struct hal_native_event {
    hal_native_device *device;
    VkQueryPool pool;
};

/* ---- timelines */

static hal_status timeline_create(hal_native_device *device, uint64_t value, vk_timeline **out)
{
    vk_timeline *timeline = hal_calloc(device->core, 1, sizeof *timeline);
    if (!timeline)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a timeline");
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE,
        .initialValue = value,
    };
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result = device->vk.CreateSemaphore(device->handle, &info, NULL, &timeline->semaphore);
    if (result != VK_SUCCESS) {
        hal_free(timeline);
        return hal_vk_fail(result, "vkCreateSemaphore");
    }
    timeline->device = device;
    atomic_init(&timeline->references, 1);
    *out = timeline;
    return HAL_OK;
}

vk_timeline *hal_vk_timeline_hold(vk_timeline *timeline)
{
    atomic_fetch_add(&timeline->references, 1);
    return timeline;
}

void hal_vk_timeline_release(vk_timeline *timeline)
{
    if (!timeline || atomic_fetch_sub(&timeline->references, 1) != 1)
        return;
    timeline->device->vk.DestroySemaphore(timeline->device->handle, timeline->semaphore, NULL);
    hal_free(timeline);
}

static hal_status timeline_value(const vk_timeline *timeline, uint64_t *value)
{
    VkResult result =
        timeline->device->vk.GetSemaphoreCounterValue(timeline->device->handle, timeline->semaphore, value);
    return result == VK_SUCCESS ? HAL_OK : hal_vk_device_fail(timeline->device, result, "vkGetSemaphoreCounterValue");
}

hal_status hal_vk_timeline_wait(vk_timeline *timeline, uint64_t value, uint64_t timeout)
{
    uint64_t reached;
    hal_status status = timeline_value(timeline, &reached);
    if (status != HAL_OK || reached >= value)
        return status;
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &timeline->semaphore,
        .pValues = &value,
    };
    for (uint64_t left = timeout; left > 0;) {
        uint64_t slice = left < WAIT_SLICE ? left : WAIT_SLICE;
        VkResult result = timeline->device->vk.WaitSemaphores(timeline->device->handle, &info, slice);
        if (result == VK_SUCCESS)
            return HAL_OK;
        if (result != VK_TIMEOUT)
            return hal_vk_device_fail(timeline->device, result, "vkWaitSemaphores");
        if (timeout != UINT64_MAX)
            left -= slice;
    }
    return HAL_TIMEOUT;
}

/* ---- batches */

static void batch_destroy(vk_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t i = 0; i < batch->wait_count; i++)
        hal_vk_timeline_release(batch->waits[i]);
    for (uint32_t i = 0; i < batch->list_count; i++)
        hal_vk_instance_submitted(batch->instances[i], NULL, 0);
    hal_vk_recorder_destroy(&batch->recorder);
    hal_free(batch);
}

static void batch_retire(hal_native_stream *stream, vk_batch *batch)
{
    for (uint32_t i = 0; i < batch->wait_count; i++)
        hal_vk_timeline_release(batch->waits[i]);
    batch->wait_count = 0;
    batch->command_count = 0;
    batch->recording = false;
    hal_vk_recorder_release(&batch->recorder);
    stream->idle[stream->idle_count++] = batch;
}

static hal_status batch_done(hal_native_stream *stream, const vk_batch *batch, bool *done)
{
    uint64_t *seen = batch->timeline == stream->points ? &stream->points_seen : &stream->progress_seen;
    hal_status status = HAL_OK;
    if (*seen < batch->value)
        status = timeline_value(batch->timeline, seen);
    *done = *seen >= batch->value;
    return status;
}

static hal_status retire_done(hal_native_stream *stream)
{
    while (stream->flight_count) {
        vk_batch *batch = stream->flight[stream->oldest];
        bool done;
        hal_status status = batch_done(stream, batch, &done);
        if (status != HAL_OK || !done)
            return status;
        stream->oldest = (stream->oldest + 1) % VK_BATCHES_MAX;
        stream->flight_count--;
        batch_retire(stream, batch);
    }
    return HAL_OK;
}

static hal_status batch_create(hal_native_stream *stream)
{
    hal_native_device *device = stream->device;
    vk_batch *batch = hal_calloc(device->core, 1, sizeof *batch);
    if (!batch)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a command batch");
    hal_status status = hal_vk_recorder_create(&batch->recorder, device, BATCH_PARAMETERS);
    if (status != HAL_OK) {
        hal_free(batch);
        return status;
    }
    stream->batch_count++;
    stream->idle[stream->idle_count++] = batch;
    return HAL_OK;
}

/* Have an open batch. A queue that is full is waited for, but not for ever. */
static hal_status open_batch(hal_native_stream *stream)
{
    if (stream->open)
        return HAL_OK;
    hal_status status = retire_done(stream);
    if (status == HAL_OK && stream->idle_count == 0 && stream->batch_count < VK_BATCHES_MAX)
        status = batch_create(stream);
    if (status == HAL_OK && stream->idle_count == 0) {
        const vk_batch *oldest = stream->flight[stream->oldest];
        vk_timeline *timeline = oldest->timeline == stream->points ? stream->points : stream->progress;
        status = hal_vk_timeline_wait(timeline, oldest->value, hal_submit_patience(stream->device->core));
        if (status == HAL_TIMEOUT)
            return hal_fail(HAL_TIMEOUT, "vulkan: %d submissions of the stream are unfinished: its queue is full",
                            VK_BATCHES_MAX);
        if (status == HAL_OK)
            status = retire_done(stream);
    }
    if (status == HAL_OK)
        stream->open = stream->idle[--stream->idle_count];
    return status;
}

static VkResult queue_submit(hal_native_stream *stream, const vk_batch *batch, const vk_timeline *timeline,
                             uint64_t value)
{
    VkCommandBuffer commands[1 + VK_BATCH_LISTS];
    VkSemaphore semaphores[VK_BATCH_WAITS];
    VkPipelineStageFlags stages[VK_BATCH_WAITS];
    uint32_t count = 0;
    if (batch->recording)
        commands[count++] = batch->recorder.commands;
    for (uint32_t i = 0; i < batch->list_count; i++)
        commands[count++] = batch->lists[i];
    for (uint32_t i = 0; i < batch->wait_count; i++) {
        semaphores[i] = batch->waits[i]->semaphore;
        stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    VkTimelineSemaphoreSubmitInfo values = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = batch->wait_count,
        .pWaitSemaphoreValues = batch->wait_values,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value,
    };
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .waitSemaphoreCount = batch->wait_count,
        .pWaitSemaphores = semaphores,
        .pWaitDstStageMask = stages,
        .commandBufferCount = count,
        .pCommandBuffers = commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &timeline->semaphore,
    };
    pthread_mutex_lock(&stream->queue->lock);
    VkResult result = stream->device->vk.QueueSubmit(stream->queue->handle, 1, &info, VK_NULL_HANDLE);
    pthread_mutex_unlock(&stream->queue->lock);
    return result;
}

/* Hand the open batch to the device; `timeline` reaches `value` when it and all before it are done. */
static hal_status submit(hal_native_stream *stream, vk_timeline *timeline, uint64_t value)
{
    hal_status status = open_batch(stream);
    if (status != HAL_OK)
        return status;
    vk_batch *batch = stream->open;
    if (batch->recording)
        status = hal_vk_recorder_end(&batch->recorder);
    if (status == HAL_OK) {
        VkResult result = queue_submit(stream, batch, timeline, value);
        if (result != VK_SUCCESS)
            status = hal_vk_device_fail(stream->device, result, "vkQueueSubmit");
    }
    for (uint32_t i = 0; i < batch->list_count; i++)
        hal_vk_instance_submitted(batch->instances[i], status == HAL_OK ? timeline : NULL, value);
    batch->list_count = 0;
    stream->open = NULL;
    if (status != HAL_OK) {
        batch_retire(stream, batch);
        return status;
    }
    if (timeline == stream->progress)
        stream->progress_value = value;
    batch->timeline = timeline;
    batch->value = value;
    stream->flight[(stream->oldest + stream->flight_count++) % VK_BATCHES_MAX] = batch;
    return HAL_OK;
}

hal_status hal_vk_stream_submit_early(hal_native_stream *stream)
{
    return submit(stream, stream->progress, stream->progress_value + 1);
}

/* Have an open batch with an open command buffer. Commands told after a list go to the next submission. */
static hal_status open_recording(hal_native_stream *stream)
{
    hal_status status = HAL_OK;
    if (stream->open && stream->open->list_count)
        status = hal_vk_stream_submit_early(stream);
    if (status == HAL_OK)
        status = open_batch(stream);
    vk_batch *batch = stream->open;
    if (status != HAL_OK || !batch || batch->recording)
        return status;
    status = hal_vk_recorder_begin(&batch->recorder, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    batch->recording = status == HAL_OK;
    return status;
}

/* ---- streams */

static vk_queue *choose_queue(hal_native_device *device, int priority)
{
    uint32_t count = device->queue_count;
    uint32_t turn = atomic_fetch_add(&device->next_queue, 1);
    if (!device->caps.info.priorities)
        return &device->queues[turn % count];
    if (priority > 0)
        return &device->queues[0];
    if (priority < 0)
        return &device->queues[count - 1];
    return &device->queues[1 + turn % (count - 2)];
}

hal_status hal_vk_stream_create(hal_native_device *device, int priority, const char *label, hal_native_stream **out)
{
    (void)label;
    hal_native_stream *stream = hal_calloc(device->core, 1, sizeof *stream);
    if (!stream)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a stream");
    stream->device = device;
    stream->queue = choose_queue(device, priority);
    hal_status status = timeline_create(device, device->core->first_point, &stream->points);
    if (status == HAL_OK)
        status = timeline_create(device, 0, &stream->progress);
    if (status != HAL_OK) {
        hal_vk_stream_destroy(stream);
        return status;
    }
    *out = stream;
    return HAL_OK;
}

/* What is in flight is finished first, within the submit timeout; a lost device answers at once. */
void hal_vk_stream_destroy(hal_native_stream *stream)
{
    if (!stream)
        return;
    for (; stream->flight_count; stream->flight_count--) {
        vk_batch *batch = stream->flight[stream->oldest];
        vk_timeline *timeline = batch->timeline == stream->points ? stream->points : stream->progress;
        hal_vk_timeline_wait(timeline, batch->value, stream->device->core->submit_timeout);
        stream->oldest = (stream->oldest + 1) % VK_BATCHES_MAX;
        batch_destroy(batch);
    }
    batch_destroy(stream->open);
    while (stream->idle_count)
        batch_destroy(stream->idle[--stream->idle_count]);
    hal_vk_timeline_release(stream->points);
    hal_vk_timeline_release(stream->progress);
    hal_free(stream);
}

/* Submit when the batch is full, or has enough to be worth it for a device that would otherwise stand idle. */
static hal_status submit_if_due(hal_native_stream *stream)
{
    if (stream->open->command_count >= BATCH_COMMANDS)
        return hal_vk_stream_submit_early(stream);
    hal_status status = retire_done(stream);
    if (status == HAL_OK && stream->flight_count == 0)
        status = hal_vk_stream_submit_early(stream);
    return status;
}

hal_status hal_vk_stream_execute(hal_native_stream *stream, const hal_command *command)
{
    vk_batch *batch = stream->open;
    hal_status status = HAL_OK;
    if (batch && batch->recording && batch->recorder.used > BATCH_PARAMETERS - PARAMETERS_MAX)
        status = hal_vk_stream_submit_early(stream);
    if (status == HAL_OK && (!stream->open || !stream->open->recording || stream->open->list_count))
        status = open_recording(stream);
    batch = stream->open;
    if (status != HAL_OK || !batch)
        return status;
    status = hal_vk_record(&batch->recorder, command);
    if (status != HAL_OK)
        return status;
    batch->command_count++;
    return batch->command_count % BATCH_EARLY ? HAL_OK : submit_if_due(stream);
}

hal_status hal_vk_stream_mark(hal_native_stream *stream, uint64_t point)
{
    return submit(stream, stream->points, point);
}

hal_status hal_vk_stream_completed(hal_native_stream *stream, uint64_t *point)
{
    return timeline_value(stream->points, point);
}

hal_status hal_vk_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout)
{
    return hal_vk_timeline_wait(stream->points, point, timeout);
}

hal_status hal_vk_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point)
{
    /* On one queue the point was submitted before what is to wait, whose command buffer opens with a barrier. */
    if (other->queue == stream->queue)
        return HAL_OK;
    hal_status status = HAL_OK;
    vk_batch *batch = stream->open;
    if (batch && (batch->recording || batch->list_count || batch->wait_count == VK_BATCH_WAITS))
        status = hal_vk_stream_submit_early(stream);
    if (status == HAL_OK)
        status = open_batch(stream);
    batch = stream->open;
    if (status != HAL_OK || !batch)
        return status;
    for (uint32_t i = 0; i < batch->wait_count; i++)
        if (batch->waits[i] == other->points) {
            if (batch->wait_values[i] < point)
                batch->wait_values[i] = point;
            return HAL_OK;
        }
    batch->waits[batch->wait_count] = hal_vk_timeline_hold(other->points);
    batch->wait_values[batch->wait_count++] = point;
    return HAL_OK;
}

hal_status hal_vk_stream_append(hal_native_stream *stream, VkCommandBuffer commands, vk_instance *instance)
{
    hal_status status = HAL_OK;
    if (stream->open && stream->open->list_count == VK_BATCH_LISTS)
        status = hal_vk_stream_submit_early(stream);
    if (status == HAL_OK)
        status = open_batch(stream);
    if (status != HAL_OK)
        return status;
    vk_batch *batch = stream->open;
    batch->lists[batch->list_count] = commands;
    batch->instances[batch->list_count++] = instance;
    return HAL_OK;
}

/* ---- events */

hal_status hal_vk_event_create(hal_native_device *device, hal_native_event **out)
{
    if (!device->caps.info.timestamps)
        return hal_fail(HAL_ERROR_UNSUPPORTED, "vulkan: the device's queues have no timestamps");
    hal_native_event *event = hal_calloc(device->core, 1, sizeof *event);
    if (!event)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating an event");
    event->device = device;
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 1,
    };
    VkResult result = device->vk.CreateQueryPool(device->handle, &info, NULL, &event->pool);
    if (result != VK_SUCCESS) {
        hal_free(event);
        return hal_vk_fail(result, "vkCreateQueryPool");
    }
    *out = event;
    return HAL_OK;
}

void hal_vk_event_destroy(hal_native_event *event)
{
    if (!event)
        return;
    event->device->vk.DestroyQueryPool(event->device->handle, event->pool, NULL);
    hal_free(event);
}

hal_status hal_vk_event_record(hal_native_event *event, hal_native_stream *stream)
{
    hal_status status = open_recording(stream);
    if (status != HAL_OK)
        return status;
    VkCommandBuffer commands = stream->open->recorder.commands;
    stream->device->vk.CmdResetQueryPool(commands, event->pool, 0, 1);
    stream->device->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, event->pool, 0);
    stream->open->command_count++;
    return HAL_OK;
}

static hal_status timestamp(hal_native_event *event, uint64_t *ticks)
{
    VkResult result = event->device->vk.GetQueryPoolResults(event->device->handle, event->pool, 0, 1, sizeof *ticks,
                                                            ticks, sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    if (result == VK_NOT_READY)
        return hal_fail(HAL_ERROR_INVALID_STATE, "vulkan: vkGetQueryPoolResults: the timestamp is not there yet");
    return result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkGetQueryPoolResults");
}

/* Timestamps count up to a number of valid bits and start over. */
hal_status hal_vk_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds)
{
    uint64_t from, to;
    hal_status status = timestamp(start, &from);
    if (status == HAL_OK)
        status = timestamp(end, &to);
    if (status != HAL_OK)
        return status;
    uint32_t bits = start->device->caps.timestamp_bits;
    uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    *nanoseconds = (uint64_t)((double)((to - from) & mask) * start->device->caps.info.timestamp_period_ns);
    return HAL_OK;
}
