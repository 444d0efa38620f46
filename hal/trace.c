/* trace.c - a Chrome/Perfetto trace ("Trace Event Format") of host submits and the device work behind them.
 *
 * Device times are placed on the host's clock through an anchor: an event that is recorded and waited for at the start,
 * so they are late by at most the time that wait took. */
#include "internal.h"
#include <errno.h>

typedef struct trace_entry {
    char name[40];
    char stream[40];
    uint64_t host_start, host_end;
    hal_native_event *start, *end; /* device; NULL if they could not be taken */
} trace_entry;

#define MOST_ENTRIES 65536

struct hal_trace {
    pthread_mutex_t lock;
    hal_event *anchor;
    uint64_t anchor_time;
    trace_entry *entries;
    uint32_t count, capacity;
    uint32_t dropped;
};

static hal_native_event *stamp(hal_stream *stream)
{
    hal_device *device = stream->object.device;
    hal_native_event *event = NULL;
    if (stream->held || device->backend->event_create(device->native, &event) != HAL_OK) {
        return NULL;
    }
    if (device->backend->event_record(event, stream->native) != HAL_OK) {
        device->backend->event_destroy(event);
        return NULL;
    }
    return event;
}

/* Put `next` in the place of `last`; false if something else is there. */
static bool swap_trace(hal_device *device, hal_trace *last, hal_trace *next)
{
    pthread_rwlock_wrlock(&device->trace_lock);
    bool swapped = device->trace == last;
    if (swapped) {
        device->trace = next;
    }
    pthread_rwlock_unlock(&device->trace_lock);
    return swapped;
}

/* Nothing of it is in flight. */
static void free_trace(hal_device *device, hal_trace *trace)
{
    for (uint32_t i = 0; i < trace->count; i++) {
        hal_native_event *events[] = {trace->entries[i].start, trace->entries[i].end};
        for (int e = 0; e < 2; e++) {
            if (events[e]) {
                device->backend->event_destroy(events[e]);
            }
        }
    }
    hal_event *anchor = trace->anchor;
    pthread_mutex_destroy(&trace->lock);
    hal_free(trace->entries);
    hal_free(trace);
    hal_event_destroy(anchor);
}

/* Room for one more entry; false (and counted) when there is none. */
static bool take_entry(hal_core *core, hal_trace *trace, uint32_t *index)
{
    pthread_mutex_lock(&trace->lock);
    if (trace->count == trace->capacity && trace->capacity < MOST_ENTRIES) {
        uint32_t capacity = trace->capacity ? 2 * trace->capacity : 256;
        trace_entry *grown = hal_realloc(core, trace->entries, capacity * sizeof *grown);
        if (grown) {
            trace->entries = grown;
            trace->capacity = capacity;
        }
    }
    bool room = trace->count < trace->capacity;
    if (room) {
        *index = trace->count++;
        memset(&trace->entries[*index], 0, sizeof trace->entries[0]);
    } else {
        trace->dropped++;
    }
    pthread_mutex_unlock(&trace->lock);
    return room;
}

/* The lock is held from begin to end, so that the trace is not taken away in between. */
void hal_trace_begin(hal_stream *stream, hal_trace_mark *mark)
{
    hal_device *device = stream->object.device;
    mark->taken = false;
    pthread_rwlock_rdlock(&device->trace_lock);
    if (device->trace && take_entry(&device->core, device->trace, &mark->index)) {
        mark->taken = true;
        mark->start = stamp(stream);
        mark->host_start = hal_now();
    } else {
        pthread_rwlock_unlock(&device->trace_lock);
    }
}

void hal_trace_end(hal_stream *stream, hal_trace_mark *mark, const char *name)
{
    if (!mark->taken) {
        return;
    }
    hal_device *device = stream->object.device;
    hal_trace *trace = device->trace;
    trace_entry entry = {.host_start = mark->host_start, .host_end = hal_now(), .start = mark->start};
    snprintf(entry.name, sizeof entry.name, "%.39s", name);
    snprintf(entry.stream, sizeof entry.stream, "%.39s", stream->object.label);
    entry.end = mark->start ? stamp(stream) : NULL;
    pthread_mutex_lock(&trace->lock);
    trace->entries[mark->index] = entry;
    pthread_mutex_unlock(&trace->lock);
    pthread_rwlock_unlock(&device->trace_lock);
}

hal_status hal_trace_start(hal_device *device)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_trace *trace = hal_calloc(&device->core, 1, sizeof *trace);
    if (!trace) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a trace");
    }
    pthread_mutex_init(&trace->lock, NULL);
    hal_stream *stream = NULL;
    if (device->info.timestamps) {
        status = hal_stream_create(device, HAL_STREAM(.label = "trace"), &stream);
        status = status == HAL_OK
                     ? hal_event_create(device, HAL_EVENT(.label = "trace", .timing = true), &trace->anchor)
                     : status;
        status = status == HAL_OK ? hal_event_record(trace->anchor, stream) : status;
        status = status == HAL_OK ? hal_event_wait(trace->anchor, HAL_SECONDS(10)) : status;
    }
    trace->anchor_time = hal_now();
    hal_stream_destroy(stream);
    if (status == HAL_OK && !swap_trace(device, NULL, trace)) {
        status = hal_fail(HAL_ERROR_INVALID_STATE, "a trace of device '%s' is running; write it first",
                          device->object.label);
    }
    if (status != HAL_OK) {
        free_trace(device, trace);
    }
    return status;
}

static void write_text(FILE *file, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20) {
            fprintf(file, "\\u%04x", *c);
        } else {
            fputc(*c, file);
        }
    }
}

/* A complete event ("ph":"X"); times in microseconds. Written without floating point: a locale could change that. */
static void write_slice(FILE *file, const char *name, const char *process, const char *thread, uint64_t start,
                        uint64_t length, bool *first)
{
    fprintf(file, "%s\n{\"name\":\"", *first ? "" : ",");
    write_text(file, name);
    fprintf(file, "\",\"ph\":\"X\",\"pid\":\"%s\",\"tid\":\"", process);
    write_text(file, thread);
    fprintf(file, "\",\"ts\":%llu.%03u,\"dur\":%llu.%03u}", (unsigned long long)(start / 1000u),
            (unsigned)(start % 1000u), (unsigned long long)(length / 1000u), (unsigned)(length % 1000u));
    *first = false;
}

static void write_entries(hal_device *device, const hal_trace *trace, FILE *file)
{
    bool first = true;
    fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (uint32_t i = 0; i < trace->count; i++) {
        const trace_entry *entry = &trace->entries[i];
        if (!entry->host_end) {
            continue; /* its command was refused */
        }
        write_slice(file, entry->name, "host", entry->stream, entry->host_start, entry->host_end - entry->host_start,
                    &first);
        uint64_t since, length;
        if (entry->end && device->backend->event_elapsed(trace->anchor->native, entry->start, &since) == HAL_OK &&
            device->backend->event_elapsed(entry->start, entry->end, &length) == HAL_OK) {
            write_slice(file, entry->name, "device", entry->stream, trace->anchor_time + since, length, &first);
        }
    }
    fprintf(file, "\n]}\n");
}

void hal_trace_drop(hal_device *device)
{
    hal_trace *trace = device->trace;
    if (!trace || !swap_trace(device, trace, NULL)) {
        return;
    }
    if (hal_device_wait(device, device->core.submit_timeout) == HAL_TIMEOUT) {
        hal_log(&device->core, HAL_LOG_ERROR, "device '%s': an unwritten trace is still in use and is not freed",
                device->object.label);
        return;
    }
    free_trace(device, trace);
}

static hal_status write_file(hal_device *device, const hal_trace *trace, const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file) {
        return hal_fail(HAL_ERROR_IO, "trace file '%s' cannot be written: %s", path, strerror(errno));
    }
    write_entries(device, trace, file);
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (trace->dropped) {
        hal_log(&device->core, HAL_LOG_WARNING, "trace: %u entries beyond the first %u are not in '%s'", trace->dropped,
                MOST_ENTRIES, path);
    }
    return failed ? hal_fail(HAL_ERROR_IO, "trace file '%s' was not written whole: %s", path, strerror(errno)) : HAL_OK;
}

hal_status hal_trace_write(hal_device *device, const char *path, uint64_t timeout)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status == HAL_OK && !path) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_trace_write: path is NULL");
    }
    if (status != HAL_OK) {
        return status;
    }
    hal_trace *trace = device->trace;
    if (!trace || !swap_trace(device, trace, NULL)) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "no trace of device '%s' was started", device->object.label);
    }
    /* Nothing is added any more; what was is complete when the device has passed it. */
    status = hal_device_wait(device, timeout);
    status = status == HAL_OK ? write_file(device, trace, path) : status;
    if (status != HAL_OK && swap_trace(device, NULL, trace)) {
        return status; /* the trace goes on: try again */
    }
    free_trace(device, trace);
    return status;
}
