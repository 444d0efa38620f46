/* fake_stream.c - the fake driver's streams, each a thread that takes its operations in order, and events. */
#include "fake.h"

#include <time.h>

/* -- markers ------------------------------------------------------------------------------------------------------- */

fake_marker *fake_marker_new(void)
{
    fake_marker *marker = calloc(1, sizeof *marker);
    if (!marker)
        abort();
    marker->refs = 1;
    return marker;
}

fake_marker *fake_marker_ref(fake_marker *marker)
{
    if (marker)
        marker->refs++;
    return marker;
}

void fake_marker_drop(fake_marker *marker)
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
static void run(fake_stream *stream, fake_op *op)
{
    fake_context *context = stream->object.context;
    while (op->wait && !op->wait->done)
        pthread_cond_wait(&fake_moved, &fake_lock);
    if (!context->sticky && (op->kind == FAKE_OP_WORK || op->kind == FAKE_OP_GRAPH)) {
        pthread_mutex_unlock(&fake_lock);
        nv_result result = op->kind == FAKE_OP_WORK ? fake_work_run(&op->work) : fake_body_run(op->body);
        pthread_mutex_lock(&fake_lock);
        if (result != NV_SUCCESS)
            fake_break(context, fake_is_sticky(result) ? result : NV_ERROR_LAUNCH_FAILED);
    }
    if (op->signal) {
        op->signal->time = now();
        op->signal->done = true;
        pthread_cond_broadcast(&fake_moved);
    }
}

static void *serve(void *argument)
{
    fake_stream *stream = argument;
    pthread_mutex_lock(&fake_lock);
    for (;;) {
        while (!stream->head && !stream->stop)
            pthread_cond_wait(&stream->told, &fake_lock);
        fake_op *op = stream->head;
        if (!op)
            break;
        run(stream, op);
        stream->head = op->next;
        if (!stream->head)
            stream->tail = &stream->head;
        fake_marker_drop(op->wait);
        fake_marker_drop(op->signal);
        fake_body_drop(op->body);
        free(op);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

fake_op *fake_push(fake_stream *stream, fake_op_kind kind)
{
    fake_op *op = calloc(1, sizeof *op);
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
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    if (flags != NV_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
        return fake_leave(fake_misuse(NV_ERROR_INVALID_VALUE, "stream flags %u, priority %d", flags, priority));
    fake_stream *stream = fake_new(sizeof *stream, FAKE_STREAM, fake_current());
    stream->tail = &stream->head;
    pthread_cond_init(&stream->told, NULL);
    if (pthread_create(&stream->thread, NULL, serve, stream) != 0) {
        fake_bury(&stream->object);
        return fake_leave(NV_ERROR_OUT_OF_MEMORY);
    }
    *out = (nv_stream)stream;
    return fake_leave(NV_SUCCESS);
}

nv_result cuStreamDestroy_v2(nv_stream handle)
{
    FAKE_ENTER(FAKE_NEEDS_INIT);
    fake_stream *stream = (fake_stream *)handle;
    nv_result result = fake_check(stream, FAKE_STREAM, __func__);
    if (result != NV_SUCCESS)
        return fake_leave(result);
    if (stream->head && !stream->object.context->sticky)
        fake_misuse(NV_SUCCESS, "a stream was destroyed with work pending");
    stream->stop = true;
    fake_bury(&stream->object);
    pthread_cond_signal(&stream->told);
    pthread_t thread = stream->thread;
    result = stream->object.context->sticky;
    fake_leave(NV_SUCCESS);
    pthread_join(thread, NULL);
    return result;
}

/* -- events -------------------------------------------------------------------------------------------------------- */

nv_result cuEventCreate(nv_event *out, unsigned int flags)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_event *event = fake_new(sizeof *event, FAKE_EVENT, fake_current());
    event->timing = !(flags & NV_EVENT_DISABLE_TIMING);
    *out = (nv_event)event;
    return fake_leave(NV_SUCCESS);
}

nv_result cuEventDestroy_v2(nv_event handle)
{
    FAKE_ENTER(FAKE_NEEDS_INIT);
    fake_event *event = (fake_event *)handle;
    nv_result result = fake_check(event, FAKE_EVENT, __func__);
    if (result != NV_SUCCESS)
        return fake_leave(result);
    fake_marker_drop(event->marker);
    event->marker = NULL;
    fake_bury(&event->object);
    return fake_leave(NV_SUCCESS);
}

nv_result cuEventRecord(nv_event handle, nv_stream stream_handle)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_event *event = (fake_event *)handle;
    fake_stream *stream = (fake_stream *)stream_handle;
    nv_result result = fake_check(event, FAKE_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = fake_check(stream, FAKE_STREAM, __func__);
    if (result != NV_SUCCESS)
        return fake_leave(result);
    fake_marker_drop(event->marker);
    event->marker = fake_marker_new();
    fake_push(stream, FAKE_OP_RECORD)->signal = fake_marker_ref(event->marker);
    return fake_leave(NV_SUCCESS);
}

nv_result cuEventQuery(nv_event handle)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    const fake_event *event = (const fake_event *)handle;
    nv_result result = fake_check(event, FAKE_EVENT, __func__);
    if (result == NV_SUCCESS && event->marker && !event->marker->done)
        result = NV_ERROR_NOT_READY;
    return fake_leave(result);
}

nv_result cuEventElapsedTime(float *milliseconds, nv_event start_handle, nv_event end_handle)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    const fake_event *start = (const fake_event *)start_handle, *end = (const fake_event *)end_handle;
    nv_result result = fake_check(start, FAKE_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = fake_check(end, FAKE_EVENT, __func__);
    if (result != NV_SUCCESS)
        return fake_leave(result);
    if (!start->timing || !end->timing || !start->marker || !end->marker)
        return fake_leave(NV_ERROR_INVALID_HANDLE);
    if (!start->marker->done || !end->marker->done)
        return fake_leave(NV_ERROR_NOT_READY);
    *milliseconds = (float)((double)(int64_t)(end->marker->time - start->marker->time) * 1e-6);
    return fake_leave(NV_SUCCESS);
}

nv_result cuStreamWaitEvent(nv_stream stream_handle, nv_event handle, unsigned int flags)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_event *event = (fake_event *)handle;
    fake_stream *stream = (fake_stream *)stream_handle;
    nv_result result = fake_check(event, FAKE_EVENT, __func__);
    if (result == NV_SUCCESS)
        result = fake_check(stream, FAKE_STREAM, __func__);
    if (result == NV_SUCCESS && flags)
        result = fake_misuse(NV_ERROR_INVALID_VALUE, "cuStreamWaitEvent: flags %u", flags);
    if (result == NV_SUCCESS && event->marker)
        fake_push(stream, FAKE_OP_WAIT)->wait = fake_marker_ref(event->marker);
    return fake_leave(result);
}

/* -- immediate work ------------------------------------------------------------------------------------------------ */

static nv_result push_work(nv_stream handle, const fake_work *work, nv_result result, const char *function)
{
    fake_stream *stream = (fake_stream *)handle;
    if (result == NV_SUCCESS)
        result = fake_check(stream, FAKE_STREAM, function);
    if (result == NV_SUCCESS)
        fake_push(stream, FAKE_OP_WORK)->work = *work;
    return fake_leave(result);
}

nv_result cuLaunchKernel(nv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                         unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                         nv_stream stream, void **params, void **extra)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_work work;
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    nv_result result = fake_work_launch(&work, function, grid, block, shared_bytes, params);
    if (extra)
        result = fake_misuse(NV_ERROR_INVALID_VALUE, "cuLaunchKernel: extra");
    return push_work(stream, &work, result, __func__);
}

nv_result cuMemcpyAsync(nv_ptr dst, nv_ptr src, size_t size, nv_stream stream)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_work work;
    return push_work(stream, &work, fake_work_copy(&work, dst, src, size, __func__), __func__);
}

nv_result cuMemsetD8Async(nv_ptr dst, unsigned char value, size_t count, nv_stream stream)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_work work;
    return push_work(stream, &work, fake_work_fill(&work, dst, value, 1, count, __func__), __func__);
}

nv_result cuMemsetD16Async(nv_ptr dst, unsigned short value, size_t count, nv_stream stream)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_work work;
    return push_work(stream, &work, fake_work_fill(&work, dst, value, 2, count, __func__), __func__);
}

nv_result cuMemsetD32Async(nv_ptr dst, unsigned int value, size_t count, nv_stream stream)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_work work;
    return push_work(stream, &work, fake_work_fill(&work, dst, value, 4, count, __func__), __func__);
}
