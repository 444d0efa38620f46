/* stall.c - what is unfinished, and what it waits for. */
#include "internal.h"
#include <stdarg.h>

typedef struct report {
    char *text;
    size_t capacity, used;
    hal_stall *stall;
} report;

static void say(report *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(report *out, const char *format, ...)
{
    if (!out->text || out->used + 1 >= out->capacity) {
        return;
    }
    va_list args;
    va_start(args, format);
    int written = vsnprintf(out->text + out->used, out->capacity - out->used, format, args);
    va_end(args);
    size_t room = out->capacity - out->used - 1;
    out->used += written < 0 ? 0 : (size_t)written < room ? (size_t)written : room;
}

static const char *waits_for(const hal_held *held)
{
    return held->kind == HAL_HELD_GATE ? held->event->object.label : held->stream->object.label;
}

static void report_held(report *out, const hal_stream *stream)
{
    const hal_held *held = stream->held;
    if (held->kind == HAL_HELD_GATE) {
        out->stall->stuck = true;
        say(out, "  stuck: %u commands are held back by gate '%s', which nobody has signalled\n", stream->held_count,
            waits_for(held));
    } else if (held->kind == HAL_HELD_WAIT) {
        say(out, "  %u commands are held back until stream '%s' goes on\n", stream->held_count, waits_for(held));
    }
}

static void report_stream(report *out, hal_stream *stream)
{
    uint64_t now = hal_now();
    bool header = false;
    hal_stream_lock_beside(stream, UINT64_MAX);
    uint32_t first = stream->history_count > HAL_HISTORY ? stream->history_count - HAL_HISTORY : 0;
    for (uint32_t i = first; i < stream->history_count; i++) {
        const hal_history *entry = &stream->history[i % HAL_HISTORY];
        if (hal_stream_passed(stream, entry->point)) {
            continue;
        }
        if (!header) {
            say(out, "stream '%s':\n", stream->object.label);
            header = true;
        }
        uint64_t age = now - entry->time;
        out->stall->unfinished++;
        out->stall->oldest_age_ns = age > out->stall->oldest_age_ns ? age : out->stall->oldest_age_ns;
        say(out, "  point %llu, %llu ms old: %u commands, last '%s'%s%s%s\n", (unsigned long long)entry->point,
            (unsigned long long)(age / 1000000u), entry->commands, entry->label[0] ? entry->label : "event",
            entry->waits_for[0] ? ", waits for '" : "", entry->waits_for, entry->waits_for[0] ? "'" : "");
    }
    if (stream->dirty) {
        say(out, "%s%s%s  %u commands not yet handed over, last '%s'\n", header ? "" : "stream '",
            header ? "" : stream->object.label, header ? "" : "':\n", stream->unmarked,
            stream->last_label ? stream->last_label : "event");
        out->stall->unfinished++;
    }
    if (stream->held) {
        report_held(out, stream);
    } else if (header) {
        say(out, "  slow, not stuck: the device has it and nothing on the host holds it back\n");
    }
    pthread_mutex_unlock(&stream->lock);
}

hal_status hal_device_stall_report(hal_device *device, hal_stall *stall, char *text, size_t capacity)
{
    if (stall) {
        memset(stall, 0, sizeof *stall);
    }
    if (text && capacity) {
        text[0] = 0;
    }
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    if (status == HAL_OK && text && !capacity) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_stall_report: text without capacity");
    }
    if (status == HAL_OK && hal_forked(device)) {
        status = hal_device_usable(device);
    }
    if (status != HAL_OK) {
        return status;
    }
    hal_stall own = {0};
    report out = {text, capacity, 0, &own};
    uint32_t count;
    hal_stream **streams = hal_streams_snapshot(device, &count);
    if (!streams) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a stall report");
    }
    for (uint32_t i = 0; i < count; i++) {
        report_stream(&out, streams[i]);
        hal_release(&streams[i]->object);
    }
    hal_free(streams);
    if (!own.unfinished) {
        say(&out, "nothing is pending\n");
    }
    if (stall) {
        *stall = own;
    }
    return HAL_OK;
}
