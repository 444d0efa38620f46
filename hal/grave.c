/* grave.c - objects that are gone for the user but that work in flight may still touch. */
#include "internal.h"

typedef struct grave_wait {
    hal_stream *stream; /* referenced */
    uint64_t point;
} grave_wait;

struct hal_grave {
    hal_grave *next;
    hal_object *object;
    uint32_t count;
    grave_wait waits[];
};

hal_stream **hal_streams_snapshot(hal_device *device, uint32_t *count)
{
    pthread_mutex_lock(&device->lock);
    uint32_t n = 0;
    for (hal_stream *stream = device->streams; stream; stream = stream->next) {
        n++;
    }
    hal_stream **streams = hal_calloc(&device->core, n + 1, sizeof *streams);
    n = 0;
    for (hal_stream *stream = device->streams; stream && streams; stream = stream->next) {
        /* A stream whose last reference is gone is about to leave the list; its work is done. */
        unsigned refs = atomic_load(&stream->object.refs);
        while (refs && !atomic_compare_exchange_weak(&stream->object.refs, &refs, refs + 1)) {
        }
        if (refs) {
            streams[n++] = stream;
        }
    }
    pthread_mutex_unlock(&device->lock);
    *count = n;
    return streams;
}

/* The point of the stream that covers all told to it so far. Where marking must wait (a full queue), the next mark will
 * be that point. */
static uint64_t covering_point(hal_stream *stream)
{
    uint64_t point;
    hal_stream_lock_beside(stream, UINT64_MAX);
    if (hal_stream_mark_locked(stream, &point) != HAL_OK) {
        point = stream->last_point + (stream->dirty ? 1 : 0);
    }
    pthread_mutex_unlock(&stream->lock);
    return point;
}

static bool passed(const hal_grave *grave)
{
    for (uint32_t i = 0; i < grave->count; i++) {
        if (!hal_stream_passed(grave->waits[i].stream, grave->waits[i].point)) {
            return false;
        }
    }
    return true;
}

static void finish(hal_grave *graves)
{
    for (hal_grave *next; graves; graves = next) {
        next = graves->next;
        for (uint32_t i = 0; i < graves->count; i++) {
            hal_release(&graves->waits[i].stream->object);
        }
        graves->object->free_object(graves->object);
        hal_free(graves);
    }
}

void hal_collect(hal_device *device)
{
    hal_grave *done = NULL;
    pthread_mutex_lock(&device->lock);
    for (hal_grave **at = &device->graves; *at;) {
        hal_grave *grave = *at;
        if (passed(grave)) {
            *at = grave->next;
            grave->next = done;
            done = grave;
        } else {
            at = &grave->next;
        }
    }
    pthread_mutex_unlock(&device->lock);
    finish(done);
}

/* A buried wait that will end by itself: a stream, referenced, and a point it has been given; NULL if there is none.
 * What stopped at a full queue goes on when the queue has moved. */
static hal_stream *next_wait(hal_device *device, uint64_t *point)
{
    hal_stream *found = NULL;
    pthread_mutex_lock(&device->lock);
    for (hal_grave *grave = device->graves; grave && !found; grave = grave->next) {
        for (uint32_t i = 0; i < grave->count && !found; i++) {
            hal_stream *stream = grave->waits[i].stream;
            uint64_t issued = atomic_load(&stream->issued), wanted = grave->waits[i].point;
            if ((issued >= wanted || atomic_load(&stream->full)) && !hal_stream_passed(stream, wanted)) {
                found = stream;
                *point = issued < wanted ? issued : wanted;
                hal_retain(&found->object);
            }
        }
    }
    pthread_mutex_unlock(&device->lock);
    return found;
}

/* Pump, and free what is passed. */
static void move_on(hal_device *device)
{
    hal_pump(device);
    hal_collect(device);
}

void hal_drain(hal_device *device, uint64_t timeout)
{
    uint64_t deadline = hal_deadline(hal_now(), timeout), point;
    hal_retain(&device->object);
    move_on(device); /* on a lost device this drops what a gate holds back: it will never run */
    for (hal_stream *stream; (stream = next_wait(device, &point)); move_on(device)) {
        uint64_t now = hal_now();
        hal_status status = device->backend->stream_wait(stream->native, point, deadline > now ? deadline - now : 0);
        hal_device_note(device, status);
        hal_release(&stream->object);
        if (now >= deadline || (status != HAL_OK && !atomic_load(&device->lost))) {
            hal_log(&device->core, HAL_LOG_ERROR, "device '%s': destroyed objects are still in use after %llu ms: %s",
                    device->object.label, (unsigned long long)(timeout / 1000000u), hal_last_error());
            break;
        }
    }
    hal_release(&device->object);
}

void hal_bury(hal_object *object)
{
    hal_device *device = object->device;
    uint32_t count, kept = 0;
    hal_retain(&device->object);
    hal_stream **streams = hal_streams_snapshot(device, &count);
    hal_grave *grave = streams ? hal_calloc(&device->core, 1, sizeof *grave + count * sizeof grave->waits[0]) : NULL;
    for (uint32_t i = 0; streams && i < count; i++) {
        uint64_t point = covering_point(streams[i]);
        if (hal_stream_passed(streams[i], point)) {
            hal_release(&streams[i]->object);
        } else if (grave) {
            grave->waits[kept++] = (grave_wait){streams[i], point};
        } else {
            /* No memory to remember it: wait here instead. */
            device->backend->stream_wait(streams[i]->native, point, device->core.submit_timeout);
            hal_release(&streams[i]->object);
        }
    }
    hal_free(streams);
    if (grave) {
        grave->object = object;
        grave->count = kept;
        grave->next = NULL;
    }
    if (!kept) {
        hal_free(grave);
        object->free_object(object);
    } else {
        pthread_mutex_lock(&device->lock);
        grave->next = device->graves;
        device->graves = grave;
        pthread_mutex_unlock(&device->lock);
    }
    if (atomic_load(&device->closing)) {
        hal_drain(device, device->core.submit_timeout);
    }
    hal_release(&device->object);
}
