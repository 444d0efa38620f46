/* event.c - events and gates. */
#include "internal.h"

static void free_event(hal_object *object)
{
    hal_event *event = (hal_event *)object;
    hal_device *device = object->device;
    if (event->native) {
        device->backend->event_destroy(event->native);
    }
    hal_release(event->stream ? &event->stream->object : NULL);
    pthread_mutex_destroy(&event->lock);
    object->type = 0;
    hal_free(object->label);
    hal_free(event);
    hal_release(&device->object);
}

hal_status hal_event_create(hal_device *device, const hal_event_desc *given, hal_event **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_event_create: event is NULL");
    }
    *out = NULL;
    hal_event_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_event_desc") : status;
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status != HAL_OK) {
        return status;
    }
    if (desc.gate && desc.timing) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_event_create('%s'): a gate has no device time; drop gate or timing",
                        desc.label ? desc.label : "event");
    }
    if (desc.timing && !device->info.timestamps) {
        return hal_fail(HAL_ERROR_UNSUPPORTED, "hal_event_create: device '%s' has no timestamps", device->object.label);
    }
    hal_event *event = hal_calloc(&device->core, 1, sizeof *event);
    if (!event) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for an event");
    }
    status =
        hal_object_init(&event->object, HAL_TYPE_EVENT, device, desc.label, desc.gate ? "gate" : "event", free_event);
    if (status != HAL_OK) {
        hal_free(event);
        return status;
    }
    pthread_mutex_init(&event->lock, NULL);
    event->gate = desc.gate;
    event->timing = desc.timing;
    if (desc.timing) {
        status = hal_device_note(device, device->backend->event_create(device->native, &event->native));
        if (status != HAL_OK) {
            event->native = NULL;
            free_event(&event->object);
            return status;
        }
    }
    *out = event;
    return HAL_OK;
}

bool hal_gate_closed(hal_event *event, uint64_t *signal)
{
    pthread_mutex_lock(&event->lock);
    bool closed = !event->open;
    *signal = atomic_load(&event->signals) + 1;
    pthread_mutex_unlock(&event->lock);
    return closed;
}

static void open_gate(hal_event *event)
{
    pthread_mutex_lock(&event->lock);
    event->open = true;
    atomic_fetch_add(&event->signals, 1);
    pthread_mutex_unlock(&event->lock);
    hal_tell_moved(event->object.device);
    hal_pump(event->object.device);
}

void hal_event_destroy(hal_event *event)
{
    if (!event || hal_check(event, HAL_TYPE_EVENT, "event") != HAL_OK || hal_forked(event->object.device)) {
        return;
    }
    hal_device *device = event->object.device;
    hal_retain(&device->object);
    if (event->gate) {
        open_gate(event);
    }
    hal_release(&event->object);
    if (atomic_load(&device->closing)) {
        hal_drain(device, device->core.submit_timeout);
    }
    hal_release(&device->object);
}

/* The stream, referenced, and point of the latest record. */
static hal_status latest(hal_event *event, hal_stream **stream, uint64_t *point)
{
    pthread_mutex_lock(&event->lock);
    *stream = event->stream;
    *point = event->point;
    if (*stream) {
        hal_retain(&(*stream)->object);
    }
    pthread_mutex_unlock(&event->lock);
    return *stream ? HAL_OK
                   : hal_fail(HAL_ERROR_INVALID_STATE, "event '%s' has never been recorded", event->object.label);
}

hal_status hal_stream_record_locked(hal_stream *stream, hal_event *event)
{
    hal_device *device = stream->object.device;
    hal_status status = HAL_OK;
    if (event->timing) {
        status = stream->held ? hal_held_push(stream, &(hal_held){.kind = HAL_HELD_STAMP, .event = event})
                              : hal_device_note(device, device->backend->event_record(event->native, stream->native));
        event->object.used = true;
        stream->dirty = true;
    }
    uint64_t point;
    status = status == HAL_OK ? hal_stream_mark_locked(stream, &point) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_retain(&stream->object);
    pthread_mutex_lock(&event->lock);
    hal_stream *old = event->stream;
    event->stream = stream;
    event->point = point;
    pthread_mutex_unlock(&event->lock);
    /* Never the last reference of this stream; of another one it may be, and that one has nothing pending. */
    hal_release(old ? &old->object : NULL);
    return HAL_OK;
}

static hal_status check_pair(hal_event *event, hal_stream *stream)
{
    hal_status status = hal_check(stream, HAL_TYPE_STREAM, "stream");
    status = status == HAL_OK ? hal_check_on(stream->object.device, event, HAL_TYPE_EVENT, "event") : status;
    return status == HAL_OK ? hal_device_usable(stream->object.device) : status;
}

hal_status hal_event_record(hal_event *event, hal_stream *stream)
{
    hal_status status = check_pair(event, stream);
    if (status == HAL_OK && event->gate) {
        status = hal_fail(HAL_ERROR_INVALID_STATE,
                          "event '%s' is a gate: the host signals it, streams cannot record it", event->object.label);
    }
    if (status != HAL_OK) {
        return status;
    }
    hal_stream_lock(stream);
    status = hal_stream_record_locked(stream, event);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

hal_status hal_stream_follow_locked(hal_stream *stream, hal_stream *other, uint64_t point, const char *label)
{
    if (other == stream) {
        return HAL_OK; /* in order anyway */
    }
    hal_device *device = stream->object.device;
    hal_status status = HAL_OK;
    if (stream->held || atomic_load(&other->issued) < point) {
        status = hal_held_push(stream, &(hal_held){.kind = HAL_HELD_WAIT, .stream = other, .point = point});
    } else if (hal_stream_passed(other, point)) {
        return hal_device_usable(device);
    } else {
        status = hal_device_note(device, device->backend->stream_wait_point(stream->native, other->native, point));
    }
    if (status == HAL_OK) {
        stream->dirty = true;
        snprintf(stream->waits_for, sizeof stream->waits_for, "%.39s", label);
    }
    return status;
}

hal_status hal_stream_wait_event_locked(hal_stream *stream, hal_event *event)
{
    if (event->gate) {
        /* Under the stream's lock, so that a signal either is seen here or finds what is pushed. */
        uint64_t signal;
        if (!hal_gate_closed(event, &signal)) {
            return HAL_OK;
        }
        hal_status status = hal_held_push(stream, &(hal_held){.kind = HAL_HELD_GATE, .event = event, .point = signal});
        if (status == HAL_OK) {
            stream->dirty = true;
            snprintf(stream->waits_for, sizeof stream->waits_for, "%.39s", event->object.label);
        }
        return status;
    }
    hal_stream *other;
    uint64_t point;
    hal_status status = latest(event, &other, &point);
    if (status == HAL_OK) {
        status = hal_stream_follow_locked(stream, other, point, event->object.label);
        hal_release(&other->object);
    }
    return status;
}

hal_status hal_stream_wait_event(hal_stream *stream, hal_event *event)
{
    hal_status status = check_pair(event, stream);
    if (status != HAL_OK) {
        return status;
    }
    hal_stream_lock(stream);
    status = hal_stream_wait_event_locked(stream, event);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static hal_status wait_gate(hal_event *event, uint64_t timeout)
{
    hal_device *device = event->object.device;
    uint64_t deadline = hal_deadline(hal_now(), timeout), signal;
    if (!hal_gate_closed(event, &signal)) {
        return hal_device_usable(device);
    }
    pthread_mutex_lock(&device->lock);
    while (atomic_load(&event->signals) < signal && !atomic_load(&device->lost) && hal_now() < deadline) {
        hal_wait_moved_locked(device, deadline, HAL_MILLISECONDS(50));
    }
    pthread_mutex_unlock(&device->lock);
    hal_status status = hal_device_usable(device);
    return status != HAL_OK || atomic_load(&event->signals) >= signal
               ? status
               : hal_fail(HAL_TIMEOUT, "gate '%s' has not been signalled", event->object.label);
}

hal_status hal_event_wait(hal_event *event, uint64_t timeout)
{
    hal_status status = hal_check(event, HAL_TYPE_EVENT, "event");
    status = status == HAL_OK ? hal_device_usable(event->object.device) : status;
    if (status != HAL_OK) {
        return status;
    }
    if (event->gate) {
        return wait_gate(event, timeout);
    }
    hal_device *device = event->object.device;
    hal_stream *stream;
    uint64_t point;
    status = latest(event, &stream, &point);
    if (status == HAL_OK) {
        status = hal_stream_wait_until(stream, point, timeout);
        hal_release(&stream->object);
    }
    if (status == HAL_OK) {
        hal_collect(device);
    }
    return status;
}

static hal_status check_gate(hal_event *event, const char *call)
{
    hal_status status = hal_check(event, HAL_TYPE_EVENT, "event");
    if (status == HAL_OK && !event->gate) {
        status = hal_fail(HAL_ERROR_INVALID_STATE, "%s: event '%s' is not a gate; create it with .gate = true", call,
                          event->object.label);
    }
    if (status == HAL_OK && hal_forked(event->object.device)) {
        status = hal_device_usable(event->object.device);
    }
    return status;
}

hal_status hal_event_signal(hal_event *event)
{
    hal_status status = check_gate(event, "hal_event_signal");
    if (status == HAL_OK) {
        open_gate(event); /* also on a lost device: what is held back is dropped */
        status = hal_device_usable(event->object.device);
    }
    return status;
}

hal_status hal_event_reset(hal_event *event)
{
    hal_status status = check_gate(event, "hal_event_reset");
    if (status == HAL_OK) {
        pthread_mutex_lock(&event->lock);
        event->open = false;
        pthread_mutex_unlock(&event->lock);
        status = hal_device_usable(event->object.device);
    }
    return status;
}

hal_status hal_event_elapsed(hal_event *start, hal_event *end, uint64_t *nanoseconds)
{
    if (nanoseconds) {
        *nanoseconds = 0;
    }
    hal_status status = hal_check(start, HAL_TYPE_EVENT, "start");
    status = status == HAL_OK ? hal_check_on(start->object.device, end, HAL_TYPE_EVENT, "end") : status;
    if (status == HAL_OK && !nanoseconds) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_event_elapsed: nanoseconds is NULL");
    }
    status = status == HAL_OK ? hal_device_usable(start->object.device) : status;
    if (status != HAL_OK || !end) { /* a NULL was refused above: said once more for the analyser */
        return status;
    }
    hal_event *both[] = {start, end};
    for (int i = 0; i < 2; i++) {
        if (!both[i]->timing) {
            return hal_fail(HAL_ERROR_INVALID_STATE, "hal_event_elapsed: event '%s' was not created with timing",
                            both[i]->object.label);
        }
        hal_stream *stream;
        uint64_t point;
        status = latest(both[i], &stream, &point);
        if (status != HAL_OK) {
            return status;
        }
        bool passed = hal_stream_passed(stream, point);
        hal_release(&stream->object);
        if (!passed) {
            return hal_fail(HAL_ERROR_INVALID_STATE,
                            "hal_event_elapsed: event '%s' has not passed yet; wait for it first",
                            both[i]->object.label);
        }
    }
    hal_device *device = start->object.device;
    status = hal_device_usable(device);
    return status == HAL_OK
               ? hal_device_note(device, device->backend->event_elapsed(start->native, end->native, nanoseconds))
               : status;
}
