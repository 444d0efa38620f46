/* stream.c - the stand-in driver's streams, each a thread that takes its operations in order, and events. */
#include "drv.h"

#include <time.h>

/* -- markers ------------------------------------------------------------------------------------------------------- */

drv_marker *drv_marker_new(void)
{
    drv_marker *marker = calloc(1, sizeof *marker);
    if (!marker)
        abort();
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

/* -- streams ------------------------------------------------------------------------------------------------------- */

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* With the lock held, which is given up while work runs. */
static void run(drv_stream *stream, drv_op *op)
{
    drv_context *context = stream->object.context;
    while (op->wait && !op->wait->done)
        pthread_cond_wait(&drv_moved, &drv_lock);
    if (!context->sticky && (op->kind == DRV_OP_WORK || op->kind == DRV_OP_GRAPH)) {
        pthread_mutex_unlock(&drv_lock);
        nv_result result = op->kind == DRV_OP_WORK ? drv_work_run(&op->work) : drv_body_run(op->body);
        pthread_mutex_lock(&drv_lock);
        if (result != NV_SUCCESS)
            drv_break(context, drv_is_sticky(result) ? result : NV_ERROR_LAUNCH_FAILED);
    }
    if (op->signal) {
        op->signal->time = now();
        op->signal->done = true;
        pthread_cond_broadcast(&drv_moved);
    }
}

static void *serve(void *argument)
{
    drv_stream *stream = argument;
    pthread_mutex_lock(&drv_lock);
    for (;;) {
        while (!stream->head && !stream->stop)
            pthread_cond_wait(&stream->told, &drv_lock);
        drv_op *op = stream->head;
        if (!op)
            break;
        run(stream, op);
        stream->head = op->next;
        if (!stream->head)
            stream->tail = &stream->head;
        drv_marker_drop(op->wait);
        drv_marker_drop(op->signal);
        drv_body_drop(op->body);
        free(op);
    }
    pthread_mutex_unlock(&drv_lock);
    return NULL;
}

drv_op *drv_push(drv_stream *stream, drv_op_kind kind)
{
    drv_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->kind = kind;
    *stream->tail = op;
    stream->tail = &op->next;
    pthread_cond_signal(&stream->told);
    return op;
}

nv_result cuStreamCreateWithPriority(nv_stream *out, unsigned int flags, int priority)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    if (flags != NV_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "stream flags %u, priority %d", flags, priority));
    drv_stream *stream = drv_new(sizeof *stream, DRV_STREAM, drv_current());
    stream->tail = &stream->head;
    pthread_cond_init(&stream->told, NULL);
    if (pthread_create(&stream->thread, NULL, serve, stream) != 0) {
        drv_bury(&stream->object);
        return drv_leave(NV_ERROR_OUT_OF_MEMORY);
    }
    *out = (nv_stream)stream;
    return drv_leave(NV_SUCCESS);
}

nv_result cuStreamDestroy_v2(nv_stream handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_stream *stream = (drv_stream *)handle;
    nv_result result = drv_check(stream, DRV_STREAM, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (stream->head && !stream->object.context->sticky)
        drv_misuse(NV_SUCCESS, "a stream was destroyed with work pending");
    stream->stop = true;
    drv_bury(&stream->object);
    pthread_cond_signal(&stream->told);
    pthread_t thread = stream->thread;
    result = stream->object.context->sticky;
    drv_leave(NV_SUCCESS);
    pthread_join(thread, NULL);
    return result;
}

/* -- events -------------------------------------------------------------------------------------------------------- */

nv_result cuEventCreate(nv_event *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
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

/* -- immediate work ------------------------------------------------------------------------------------------------ */

static nv_result push_work(nv_stream handle, const drv_work *work, nv_result result, const char *function)
{
    drv_stream *stream = (drv_stream *)handle;
    if (result == NV_SUCCESS)
        result = drv_check(stream, DRV_STREAM, function);
    if (result == NV_SUCCESS)
        drv_push(stream, DRV_OP_WORK)->work = *work;
    return drv_leave(result);
}

nv_result cuLaunchKernel(nv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                         unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                         nv_stream stream, void **params, void **extra)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    nv_result result = drv_work_launch(&work, function, grid, block, shared_bytes, params);
    if (extra)
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "cuLaunchKernel: extra");
    return push_work(stream, &work, result, __func__);
}

nv_result cuMemcpyAsync(nv_ptr dst, nv_ptr src, size_t size, nv_stream stream)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    return push_work(stream, &work, drv_work_copy(&work, dst, src, size, __func__), __func__);
}

nv_result cuMemsetD8Async(nv_ptr dst, unsigned char value, size_t count, nv_stream stream)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    return push_work(stream, &work, drv_work_fill(&work, dst, value, 1, count, __func__), __func__);
}

nv_result cuMemsetD16Async(nv_ptr dst, unsigned short value, size_t count, nv_stream stream)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    return push_work(stream, &work, drv_work_fill(&work, dst, value, 2, count, __func__), __func__);
}

nv_result cuMemsetD32Async(nv_ptr dst, unsigned int value, size_t count, nv_stream stream)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    return push_work(stream, &work, drv_work_fill(&work, dst, value, 4, count, __func__), __func__);
}
