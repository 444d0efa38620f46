/* event.c - the stand-in driver's events, and the markers behind them. */
#include "drv.h"

#include <time.h>

uint64_t drv_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

drv_marker *drv_marker_new(void)
{
    drv_marker *marker = drv_alloc(sizeof *marker);
    marker->refs = 1;
    return marker;
}

drv_marker *drv_marker_ref(drv_marker *marker)
{
    if (marker)
        marker->refs++;
    return marker;
}

void drv_marker_drop(drv_marker *marker)
{
    if (marker && --marker->refs == 0)
        free(marker);
}

void drv_marker_finish(drv_marker *marker)
{
    marker->time = drv_now();
    marker->done = true;
    pthread_cond_broadcast(&drv_moved);
}

nv_result cuEventCreate(nv_event *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    if (flags & ~(unsigned)(NV_EVENT_BLOCKING_SYNC | NV_EVENT_DISABLE_TIMING))
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuEventCreate: flags %u", flags));
    drv_event *event = drv_new(sizeof *event, DRV_EVENT, drv_current());
    event->timing = !(flags & NV_EVENT_DISABLE_TIMING);
    *out = (nv_event)event;
    return drv_leave(NV_SUCCESS);
}

nv_result cuEventDestroy_v2(nv_event handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_event *event = (drv_event *)handle;
    nv_result result = drv_check(event, DRV_EVENT, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    drv_marker_drop(event->marker);
    event->marker = NULL;
    drv_bury(&event->object);
    return drv_leave(NV_SUCCESS);
}

nv_result cuEventRecord(nv_event handle, nv_stream stream_handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_event *event = (drv_event *)handle;
    drv_stream *stream = (drv_stream *)stream_handle;
    nv_result result = drv_check(event, DRV_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = drv_check(stream, DRV_STREAM, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    drv_marker_drop(event->marker);
    event->marker = drv_marker_new();
    drv_push(stream, DRV_OP_RECORD)->signal = drv_marker_ref(event->marker);
    return drv_leave(NV_SUCCESS);
}

nv_result cuEventQuery(nv_event handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_event *event = (const drv_event *)handle;
    nv_result result = drv_check(event, DRV_EVENT, __func__);
    if (result == NV_SUCCESS && event->marker && !event->marker->done)
        result = NV_ERROR_NOT_READY;
    return drv_leave(result);
}

/* What was recorded when it was called: a later record is not waited for. */
nv_result cuEventSynchronize(nv_event handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_event *event = (drv_event *)handle;
    nv_result result = drv_check(event, DRV_EVENT, __func__);
    if (result != NV_SUCCESS || !event->marker)
        return drv_leave(result);
    drv_marker *marker = drv_marker_ref(event->marker);
    while (!marker->done)
        pthread_cond_wait(&drv_moved, &drv_lock);
    drv_marker_drop(marker);
    return drv_leave(drv_current()->sticky);
}

nv_result cuEventElapsedTime(float *milliseconds, nv_event start_handle, nv_event end_handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_event *start = (const drv_event *)start_handle, *end = (const drv_event *)end_handle;
    nv_result result = drv_check(start, DRV_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = drv_check(end, DRV_EVENT, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (!start->timing || !end->timing || !start->marker || !end->marker)
        return drv_leave(NV_ERROR_INVALID_HANDLE);
    if (!start->marker->done || !end->marker->done)
        return drv_leave(NV_ERROR_NOT_READY);
    *milliseconds = (float)((double)(int64_t)(end->marker->time - start->marker->time) * 1e-6);
    return drv_leave(NV_SUCCESS);
}

nv_result cuStreamWaitEvent(nv_stream stream_handle, nv_event handle, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_event *event = (drv_event *)handle;
    drv_stream *stream = (drv_stream *)stream_handle;
    nv_result result = drv_check(event, DRV_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = drv_check(stream, DRV_STREAM, __func__);
    if (result == NV_SUCCESS && flags)
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "cuStreamWaitEvent: flags %u", flags);
    if (result == NV_SUCCESS && event->marker)
        drv_push(stream, DRV_OP_WAIT)->wait = drv_marker_ref(event->marker);
    return drv_leave(result);
}
