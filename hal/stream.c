/* stream.c - streams: marks, waits, execution of immediate commands. */
#include "internal.h"

/* A label cut to its place. Not snprintf: this is on the way of every submission. */
static void short_label(char (*out)[40], const char *label)
{
    size_t length = strnlen(label, sizeof *out - 1);
    memcpy(*out, label, length);
    (*out)[length] = 0;
}

/* Forget what cannot be told again, and remember the mark for the stall report. */
static void note_mark(hal_stream *stream, uint64_t point)
{
    hal_history *entry = &stream->history[stream->history_count++ % HAL_HISTORY];
    entry->point = point;
    entry->time = hal_now();
    entry->commands = stream->unmarked;
    short_label(&entry->label, stream->last_label ? stream->last_label : "");
    memcpy(entry->waits_for, stream->waits_for, sizeof entry->waits_for);
    stream->waits_for[0] = 0;
    stream->last_label = NULL;
    stream->unmarked = 0;
    stream->dirty = false;
}

bool hal_stream_lock_beside(hal_stream *stream, uint64_t deadline)
{
    if (pthread_mutex_trylock(&stream->lock) == 0) {
        return true;
    }
    bool locked = false;
    atomic_fetch_add(&stream->waiting, 1);
    while (!(locked = pthread_mutex_trylock(&stream->lock) == 0) && hal_now() < deadline) {
        nanosleep(&(struct timespec){0, 20000}, NULL);
    }
    atomic_fetch_sub(&stream->waiting, 1);
    return locked;
}

hal_status hal_stream_mark_locked(hal_stream *stream, uint64_t *point)
{
    *point = stream->last_point;
    if (!stream->dirty) {
        return HAL_OK;
    }
    hal_device *device = stream->object.device;
    uint64_t next = stream->last_point + 1;
    hal_status status;
    if (stream->held) {
        status = hal_held_push(stream, &(hal_held){.kind = HAL_HELD_MARK, .point = next});
    } else {
        status = hal_device_note(device, device->backend->stream_mark(stream->native, next));
        if (status == HAL_OK) {
            atomic_store(&stream->issued, next);
        }
    }
    if (status == HAL_OK) {
        stream->last_point = next;
        *point = next;
        note_mark(stream, next);
    }
    return status;
}

bool hal_stream_passed(hal_stream *stream, uint64_t point)
{
    hal_device *device = stream->object.device;
    if (atomic_load(&stream->completed) >= point) {
        return true;
    }
    if (atomic_load(&stream->issued) < point) {
        return atomic_load(&device->lost); /* then it never will be, and never runs */
    }
    uint64_t completed;
    if (hal_device_note(device, device->backend->stream_completed(stream->native, &completed)) != HAL_OK) {
        return atomic_load(&device->lost); /* nothing runs on a device that the driver calls lost */
    }
    uint_fast64_t seen = atomic_load(&stream->completed);
    while (seen < completed && !atomic_compare_exchange_weak(&stream->completed, &seen, completed)) {
    }
    return completed >= point;
}

/* Sleep until something moves. Not for long: a device is lost without a signal, since whoever notices may hold locks.
 */
void hal_wait_moved_locked(hal_device *device, uint64_t deadline, uint64_t slice)
{
    uint64_t end = hal_deadline(hal_now(), slice);
    struct timespec until = hal_timespec(deadline < end ? deadline : end);
    pthread_cond_timedwait(&device->moved, &device->lock, &until);
}

/* Wait until the backend knows `point`: something holds the stream back. */
static hal_status wait_issued(hal_stream *stream, uint64_t point, uint64_t deadline)
{
    hal_device *device = stream->object.device;
    while (atomic_load(&stream->issued) < point && !atomic_load(&device->lost) && hal_now() < deadline) {
        hal_pump(device); /* what a full queue stopped goes on here */
        pthread_mutex_lock(&device->lock);
        if (atomic_load(&stream->issued) < point) {
            hal_wait_moved_locked(device, deadline, HAL_MILLISECONDS(atomic_load(&stream->full) ? 1 : 50));
        }
        pthread_mutex_unlock(&device->lock);
    }
    if (atomic_load(&stream->issued) >= point) {
        return HAL_OK;
    }
    hal_status status = hal_device_usable(device);
    return status != HAL_OK ? status
                            : hal_fail(HAL_TIMEOUT,
                                       "stream '%s' is held back by a gate or stream that has not passed; "
                                       "hal_device_stall_report() names it",
                                       stream->object.label);
}

hal_status hal_stream_wait_until(hal_stream *stream, uint64_t point, uint64_t timeout)
{
    hal_device *device = stream->object.device;
    uint64_t deadline = hal_deadline(hal_now(), timeout);
    hal_status status = hal_device_usable(device);
    if (status != HAL_OK) {
        return status;
    }
    if (!hal_stream_passed(stream, point)) {
        status = wait_issued(stream, point, deadline);
        if (status == HAL_OK) {
            uint64_t now = hal_now();
            uint64_t left = deadline == UINT64_MAX ? UINT64_MAX : deadline > now ? deadline - now : 0;
            status = hal_device_note(device, device->backend->stream_wait(stream->native, point, left));
        }
        if (status == HAL_TIMEOUT) {
            return hal_fail(HAL_TIMEOUT,
                            "stream '%s' still runs after %llu us; wait again or see hal_device_stall_report()",
                            stream->object.label, (unsigned long long)(timeout / 1000u));
        }
        if (status != HAL_OK) {
            return status;
        }
        uint_fast64_t seen = atomic_load(&stream->completed);
        while (seen < point && !atomic_compare_exchange_weak(&stream->completed, &seen, point)) {
        }
    }
    if (atomic_load(&device->lost)) {
        return hal_device_usable(device);
    }
    hal_stream_lock_beside(stream, UINT64_MAX);
    hal_staging_copy_out_locked(stream, point);
    status = stream->held_status;
    stream->held_status = HAL_OK;
    pthread_mutex_unlock(&stream->lock);
    return status == HAL_OK ? status
                            : hal_fail(status, "stream '%s': something that was held back failed when its turn came",
                                       stream->object.label);
}

hal_status hal_stream_execute_locked(hal_stream *stream, const hal_command *command)
{
    hal_device *device = stream->object.device;
    hal_status status = hal_submit_fault(stream, command->label);
    if (status != HAL_OK) {
        return status;
    }
    if (stream->held) {
        status = hal_held_push(stream, &(hal_held){.kind = HAL_HELD_COMMAND, .command = *command});
    } else {
        hal_trace_mark trace;
        bool traced = device->trace != NULL;
        if (traced) {
            hal_trace_begin(stream, &trace);
        }
        status = device->backend->stream_execute(stream->native, command);
        if (traced) {
            hal_trace_end(stream, &trace, command->label);
        }
        if (status != HAL_OK) {
            return hal_device_note(device, status);
        }
    }
    stream->dirty = true;
    stream->last_label = command->label;
    /* Now and then, so that what is buried goes and the stall report has something to show. */
    if (status == HAL_OK && ++stream->unmarked >= 1024) {
        uint64_t point;
        status = hal_stream_mark_locked(stream, &point);
    }
    return status;
}

static void unlink_stream(hal_device *device, hal_stream *stream)
{
    pthread_mutex_lock(&device->lock);
    for (hal_stream **at = &device->streams; *at; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    pthread_mutex_unlock(&device->lock);
}

/* Nothing is pending: the handle was buried first. */
static void free_stream(hal_object *object)
{
    hal_stream *stream = (hal_stream *)object;
    hal_device *device = object->device;
    unlink_stream(device, stream);
    while (stream->held) {
        hal_held *held = stream->held;
        stream->held = held->next;
        hal_held_free(held);
    }
    hal_staging_free(stream);
    if (stream->native) {
        device->backend->stream_destroy(stream->native);
    }
    pthread_mutex_destroy(&stream->lock);
    object->type = 0;
    stream->immediate.object.type = 0;
    hal_free(object->label);
    hal_free(stream);
    hal_release(&device->object);
}

hal_status hal_stream_create(hal_device *device, const hal_stream_desc *given, hal_stream **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_stream_create: stream is NULL");
    }
    *out = NULL;
    hal_stream_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_stream_desc") : status;
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_stream *stream = hal_calloc(&device->core, 1, sizeof *stream);
    if (!stream) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a stream");
    }
    status = hal_object_init(&stream->object, HAL_TYPE_STREAM, device, desc.label, "stream", free_stream);
    if (status != HAL_OK) {
        hal_free(stream);
        return status;
    }
    pthread_mutex_init(&stream->lock, NULL);
    stream->last_point = device->core.first_point;
    atomic_init(&stream->issued, stream->last_point);
    atomic_init(&stream->completed, stream->last_point);
    stream->held_tail = &stream->held;
    stream->downloads_tail = &stream->downloads;
    stream->immediate.object = (hal_object){
        .type = HAL_TYPE_CMDLIST, .device = device, .label = stream->object.label, .refs = 1, .free_object = NULL};
    stream->immediate.stream = stream;
    status = hal_device_note(
        device, device->backend->stream_create(device->native, desc.priority, stream->object.label, &stream->native));
    if (status != HAL_OK) {
        stream->native = NULL;
        free_stream(&stream->object);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    stream->next = device->streams;
    device->streams = stream;
    pthread_mutex_unlock(&device->lock);
    *out = stream;
    return HAL_OK;
}

/* A buried stream stands for the user's reference; events and graves may hold others. */
typedef struct stream_handle {
    hal_object object;
    hal_stream *stream;
} stream_handle;

static void free_handle(hal_object *object)
{
    stream_handle *handle = (stream_handle *)object;
    hal_device *device = object->device;
    hal_release(&handle->stream->object);
    hal_free(object->label);
    hal_free(handle);
    hal_release(&device->object);
}

void hal_stream_destroy(hal_stream *stream)
{
    if (!stream || hal_check(stream, HAL_TYPE_STREAM, "stream") != HAL_OK || hal_forked(stream->object.device)) {
        return;
    }
    hal_device *device = stream->object.device;
    stream_handle *handle = hal_calloc(&device->core, 1, sizeof *handle);
    if (!handle ||
        hal_object_init(&handle->object, HAL_TYPE_STREAM, device, stream->object.label, "stream", free_handle)) {
        hal_free(handle);
        hal_drain(device, device->core.submit_timeout);
        hal_release(&stream->object);
        return;
    }
    handle->stream = stream;
    handle->object.used = true;
    hal_release(&handle->object);
}

hal_cmdlist *hal_stream_cmdlist(hal_stream *stream)
{
    return hal_check(stream, HAL_TYPE_STREAM, "stream") == HAL_OK ? &stream->immediate : NULL;
}

hal_status hal_stream_flush(hal_stream *stream)
{
    hal_status status = hal_check(stream, HAL_TYPE_STREAM, "stream");
    status = status == HAL_OK ? hal_device_usable(stream->object.device) : status;
    if (status != HAL_OK) {
        return status;
    }
    uint64_t point;
    hal_stream_lock(stream);
    status = hal_stream_mark_locked(stream, &point);
    pthread_mutex_unlock(&stream->lock);
    if (atomic_load(&stream->full)) {
        hal_pump(stream->object.device);
    }
    return status;
}

hal_status hal_stream_wait(hal_stream *stream, uint64_t timeout)
{
    hal_status status = hal_check(stream, HAL_TYPE_STREAM, "stream");
    status = status == HAL_OK ? hal_device_usable(stream->object.device) : status;
    if (status != HAL_OK) {
        return status;
    }
    uint64_t point, now = hal_now(), deadline = hal_deadline(now, timeout);
    if (!hal_stream_lock_beside(stream, deadline)) {
        return hal_fail(HAL_TIMEOUT, "stream '%s' is taking commands from another thread", stream->object.label);
    }
    status = hal_stream_mark_locked(stream, &point);
    pthread_mutex_unlock(&stream->lock);
    if (status != HAL_OK) {
        return status;
    }
    hal_device *device = stream->object.device;
    now = hal_now();
    status = hal_stream_wait_until(stream, point,
                                   deadline == UINT64_MAX ? UINT64_MAX
                                   : deadline > now       ? deadline - now
                                                          : 0);
    if (status == HAL_OK) {
        hal_collect(device);
    }
    return status;
}

hal_status hal_device_wait(hal_device *device, uint64_t timeout)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status != HAL_OK) {
        return status;
    }
    uint64_t deadline = hal_deadline(hal_now(), timeout);
    uint32_t count;
    hal_stream **streams = hal_streams_snapshot(device, &count);
    if (!streams) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to wait for a device");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t now = hal_now();
        if (status == HAL_OK) {
            status = hal_stream_wait(streams[i], deadline == UINT64_MAX ? UINT64_MAX
                                                 : deadline > now       ? deadline - now
                                                                        : 0);
        }
        hal_release(&streams[i]->object);
    }
    hal_free(streams);
    return status;
}
