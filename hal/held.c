/* held.c - what streams hold back while they wait for a gate.
 *
 * A gate is opened by the host, so what waits for it can be kept in host memory until then and no backend needs to
 * know: on one hardware queue a native wait would stall every other stream behind it. What follows a held-back command,
 * and other streams that wait for a held-back point, are held back too; hal_event_signal lets all of it go, in order.
 */
#include "internal.h"

#define MOST_HELD 65536

void hal_held_free(hal_held *held)
{
    hal_release(held->event ? &held->event->object : NULL);
    hal_release(held->stream ? &held->stream->object : NULL);
    hal_release(held->list ? &held->list->object : NULL);
    hal_free(held->bindings);
    hal_free(held);
}

static hal_status copy_bindings(hal_core *core, hal_held *held, const hal_held *what)
{
    size_t spans = what->binding_count * sizeof *held->bindings;
    held->bindings = hal_calloc(core, 1, spans + what->scalar_count * sizeof *held->scalars);
    if (!held->bindings) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    if (spans) {
        memcpy(held->bindings, what->bindings, spans);
    }
    held->scalars = NULL;
    if (what->scalar_count) {
        held->scalars = (uint32_t *)((uint8_t *)held->bindings + spans);
        memcpy(held->scalars, what->scalars, what->scalar_count * sizeof *held->scalars);
    }
    return HAL_OK;
}

hal_status hal_held_room(const hal_stream *stream, uint64_t more)
{
    return stream->held_count <= MOST_HELD && more <= MOST_HELD - stream->held_count
               ? HAL_OK
               : hal_fail(HAL_ERROR_LIMIT, "stream '%s' holds back %u commands behind a gate; open it, or submit less",
                          stream->object.label, stream->held_count);
}

hal_status hal_held_push(hal_stream *stream, const hal_held *what)
{
    hal_core *core = &stream->object.device->core;
    hal_status status = hal_held_room(stream, 1);
    if (status != HAL_OK) {
        return status;
    }
    hal_held *held = hal_calloc(core, 1, sizeof *held);
    if (!held) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to hold a command back");
    }
    *held = *what;
    held->next = NULL;
    if (what->kind == HAL_HELD_LIST && copy_bindings(core, held, what) != HAL_OK) {
        hal_free(held);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to hold a submission back");
    }
    if (what->kind == HAL_HELD_COMMAND && what->command.kind == HAL_COMMAND_DISPATCH) {
        memcpy(held->spans, what->command.dispatch.spans, what->command.dispatch.span_count * sizeof held->spans[0]);
        held->command.dispatch.spans = held->spans;
        if (what->command.dispatch.args_size) {
            memcpy(held->args, what->command.dispatch.args, what->command.dispatch.args_size);
        }
        held->command.dispatch.args = held->args;
    }
    hal_object *referenced[] = {held->event ? &held->event->object : NULL, held->stream ? &held->stream->object : NULL,
                                held->list ? &held->list->object : NULL};
    for (size_t i = 0; i < sizeof referenced / sizeof referenced[0]; i++) {
        if (referenced[i]) {
            hal_retain(referenced[i]);
        }
    }
    *stream->held_tail = held;
    stream->held_tail = &held->next;
    stream->held_count++;
    return HAL_OK;
}

/* Do what was held back; false while it must wait on. */
static bool let_go(hal_stream *stream, hal_held *held)
{
    hal_device *device = stream->object.device;
    const hal_backend *backend = device->backend;
    hal_status status = HAL_OK;
    if (atomic_load(&device->lost) && held->kind != HAL_HELD_MARK) {
        return true; /* dropped */
    }
    switch (held->kind) {
    case HAL_HELD_GATE:
        return atomic_load(&held->event->signals) >= held->point;
    case HAL_HELD_WAIT:
        if (atomic_load(&held->stream->issued) < held->point) {
            return false;
        }
        status = backend->stream_wait_point(stream->native, held->stream->native, held->point);
        break;
    case HAL_HELD_COMMAND:
        status = backend->stream_execute(stream->native, &held->command);
        break;
    case HAL_HELD_LIST:
        status = hal_list_submit_segment_locked(held->list, held->segment, stream, held->bindings, held->scalars);
        break;
    case HAL_HELD_STAMP:
        status = backend->event_record(held->event->native, stream->native);
        break;
    case HAL_HELD_MARK:
        status = backend->stream_mark(stream->native, held->point);
        /* A mark that fails is covered by the next one; on a lost device it counts as passed. */
        if (status == HAL_OK) {
            atomic_store(&stream->issued, held->point);
        }
        break;
    }
    atomic_store(&stream->full, status == HAL_TIMEOUT);
    if (status == HAL_TIMEOUT) {
        return false; /* nothing was enqueued: whoever waits or flushes pumps again */
    }
    if (held->kind == HAL_HELD_COMMAND && status != HAL_OK) {
        hal_hazard_window_lose(&stream->window);
    }
    if (held->kind == HAL_HELD_MARK && status != HAL_OK) {
        stream->dirty = true; /* so that there is a next mark */
    }
    if (hal_device_note(device, status) != HAL_OK && stream->held_status == HAL_OK) {
        stream->held_status = status;
    }
    return true;
}

/* Let one stream go on as far as it can; what is done is put on `done`, to be freed without locks. */
static bool advance(hal_stream *stream, hal_held **done)
{
    bool moved = false;
    hal_stream_lock_beside(stream, UINT64_MAX);
    while (stream->held && let_go(stream, stream->held)) {
        hal_held *held = stream->held;
        stream->held = held->next;
        if (!stream->held) {
            stream->held_tail = &stream->held;
        }
        stream->held_count--;
        held->next = *done;
        *done = held;
        moved = true;
    }
    pthread_mutex_unlock(&stream->lock);
    return moved;
}

void hal_tell_moved(hal_device *device)
{
    pthread_mutex_lock(&device->lock);
    pthread_cond_broadcast(&device->moved);
    pthread_mutex_unlock(&device->lock);
}

void hal_pump(hal_device *device)
{
    uint32_t count;
    hal_held *done = NULL;
    hal_stream **streams = hal_streams_snapshot(device, &count);
    bool moved = streams != NULL;
    hal_set_patience(false); /* a full queue is not waited for: held-back work may take long */
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < count; i++) {
            moved |= advance(streams[i], &done);
        }
    }
    hal_set_patience(true);
    if (done) {
        hal_tell_moved(device);
    }
    for (hal_held *next; done; done = next) {
        next = done->next;
        hal_held_free(done);
    }
    for (uint32_t i = 0; streams && i < count; i++) {
        hal_release(&streams[i]->object);
    }
    hal_free(streams);
}
