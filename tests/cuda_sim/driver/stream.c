/* stream.c - the stand-in driver's streams, each a thread that takes its operations in order. */
#include "drv.h"

/* -- the threads --------------------------------------------------------------------------------------------------- */

/* With the lock held, which is given up while work runs. */
static void run(drv_stream *stream, const drv_op *op)
{
    drv_context *context = stream->object.context;
    while (op->wait && !op->wait->done)
        pthread_cond_wait(&drv_moved, &drv_lock);
    if (!context->sticky && (op->kind == DRV_OP_WORK || op->kind == DRV_OP_GRAPH)) {
        drv_memory_running(1);
        pthread_mutex_unlock(&drv_lock);
        nv_result result = op->kind == DRV_OP_WORK ? drv_work_run(&op->work, context) : drv_body_run(op->body, context);
        pthread_mutex_lock(&drv_lock);
        drv_memory_running(-1);
        if (result != NV_SUCCESS)
            drv_break(context, drv_is_sticky(result) ? result : NV_ERROR_LAUNCH_FAILED);
    }
    if (op->signal)
        drv_marker_finish(op->signal);
}

static void take_off(drv_stream *stream)
{
    drv_op *op = stream->head;
    stream->head = op->next;
    if (!stream->head)
        stream->tail = &stream->head;
    drv_marker_drop(op->wait);
    drv_marker_drop(op->signal);
    drv_body_drop(op->body);
    drv_work_drop(&op->work);
    free(op);
    pthread_cond_broadcast(&drv_moved);
}

static void *serve(void *argument)
{
    drv_stream *stream = argument;
    drv_context *context = stream->object.context;
    pthread_mutex_lock(&drv_lock);
    for (;;) {
        while (!stream->head && !stream->stop)
            pthread_cond_wait(&stream->told, &drv_lock);
        if (!stream->head)
            break;
        run(stream, stream->head);
        take_off(stream);
    }
    drv_stream **link = &context->first_stream;
    while (*link != stream)
        link = &(*link)->next_in_context;
    *link = stream->next_in_context;
    pthread_cond_destroy(&stream->told);
    drv_bury(&stream->object);
    context->streams--;
    pthread_cond_broadcast(&drv_moved);
    pthread_mutex_unlock(&drv_lock);
    return NULL;
}

drv_op *drv_push(drv_stream *stream, drv_op_kind kind)
{
    drv_op *op = drv_alloc(sizeof *op);
    op->kind = kind;
    *stream->tail = op;
    stream->tail = &op->next;
    pthread_cond_signal(&stream->told);
    return op;
}

static void stop(drv_stream *stream)
{
    stream->stop = true;
    pthread_cond_signal(&stream->told);
}

void drv_streams_end(drv_context *context)
{
    context->closing = true;
    for (drv_stream *stream = context->first_stream; stream; stream = stream->next_in_context)
        stop(stream);
    while (context->streams > 0)
        pthread_cond_wait(&drv_moved, &drv_lock);
}

/* -- streams ------------------------------------------------------------------------------------------------------- */

static nv_result create(nv_stream *out, unsigned flags, int priority)
{
    pthread_t thread;
    if (flags != NV_STREAM_NON_BLOCKING || priority > 0 || priority < -5)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "stream flags %u, priority %d", flags, priority);
    drv_context *context = drv_current();
    drv_stream *stream = drv_new(sizeof *stream, DRV_STREAM, context);
    stream->tail = &stream->head;
    pthread_cond_init(&stream->told, NULL);
    if (pthread_create(&thread, NULL, serve, stream) != 0) {
        drv_bury(&stream->object);
        return NV_ERROR_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    stream->next_in_context = context->first_stream;
    context->first_stream = stream;
    context->streams++;
    *out = (nv_stream)stream;
    return NV_SUCCESS;
}

nv_result cuStreamCreateWithPriority(nv_stream *out, unsigned int flags, int priority)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(create(out, flags, priority));
}

nv_result cuStreamCreate(nv_stream *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(create(out, flags, 0));
}

/* Returns at once; what is pending still runs. */
nv_result cuStreamDestroy_v2(nv_stream handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_stream *stream = (drv_stream *)handle;
    nv_result result = drv_check(stream, DRV_STREAM, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (stream->head && !stream->object.context->sticky)
        drv_misuse(NV_SUCCESS, "a stream was destroyed with work pending");
    drv_die(&stream->object);
    stop(stream);
    return drv_leave(stream->object.context->sticky);
}

nv_result cuStreamQuery(nv_stream handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_stream *stream = (const drv_stream *)handle;
    nv_result result = drv_check(stream, DRV_STREAM, __func__);
    if (result == NV_SUCCESS && stream->head)
        result = NV_ERROR_NOT_READY;
    return drv_leave(result);
}

/* Until all that was told to it by now is over: a marker behind it. */
static drv_marker *mark(drv_stream *stream)
{
    drv_marker *marker = drv_marker_new();
    drv_push(stream, DRV_OP_RECORD)->signal = drv_marker_ref(marker);
    return marker;
}

static void wait_for(drv_marker *marker)
{
    while (!marker->done)
        pthread_cond_wait(&drv_moved, &drv_lock);
    drv_marker_drop(marker);
}

nv_result cuStreamSynchronize(nv_stream handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_stream *stream = (drv_stream *)handle;
    nv_result result = drv_check(stream, DRV_STREAM, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    wait_for(mark(stream));
    return drv_leave(drv_current()->sticky);
}

nv_result cuCtxSynchronize(void)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_context *context = drv_current();
    drv_marker **markers = drv_alloc(context->streams * sizeof(drv_marker *));
    size_t count = 0;
    for (drv_stream *stream = context->first_stream; stream; stream = stream->next_in_context)
        markers[count++] = mark(stream);
    for (size_t i = 0; i < count; i++)
        wait_for(markers[i]);
    free(markers);
    return drv_leave(context->sticky);
}

/* -- immediate work ------------------------------------------------------------------------------------------------ */

/* Takes the work over. */
static nv_result push_work(nv_stream handle, const drv_work *work, nv_result result, const char *function)
{
    drv_stream *stream = (drv_stream *)handle;
    if (result != NV_SUCCESS)
        return drv_leave(result);
    result = drv_check(stream, DRV_STREAM, function);
    if (result == NV_SUCCESS)
        drv_push(stream, DRV_OP_WORK)->work = *work;
    else
        drv_work_drop(work);
    return drv_leave(result);
}

nv_result cuLaunchKernel(nv_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                         unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                         nv_stream stream, void **params, void **extra)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    if (extra)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuLaunchKernel: extra is not supported here"));
    nv_result result = drv_work_launch(&work, function, grid, block, shared_bytes, NULL, params);
    return push_work(stream, &work, result, __func__);
}

/* Attributes that change when a kernel may start, or how well it is served, ask for nothing that must be done. */
static nv_result take_attributes(const nv_launch_config *config, const unsigned **cluster)
{
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const nv_launch_attribute *attribute = &config->attributes[i];
        switch (attribute->id) {
        case NV_LAUNCH_CLUSTER_DIMENSION:
            *cluster = attribute->value.cluster;
            break;
        case NV_LAUNCH_COOPERATIVE:
            if (attribute->value.cooperative)
                return drv_misuse(NV_ERROR_NOT_SUPPORTED, "cooperative launches are not supported here");
            break;
        case NV_LAUNCH_IGNORE:
        case NV_LAUNCH_CLUSTER_SCHEDULING_POLICY:
        case NV_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION:
        case NV_LAUNCH_PRIORITY:
        case NV_LAUNCH_MEM_SYNC_DOMAIN_MAP:
        case NV_LAUNCH_MEM_SYNC_DOMAIN:
            break;
        default:
            return drv_misuse(NV_ERROR_NOT_SUPPORTED, "launch attribute %d is not supported here", (int)attribute->id);
        }
    }
    return NV_SUCCESS;
}

nv_result cuLaunchKernelEx(const nv_launch_config *config, nv_function function, void **params, void **extra)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    const unsigned *cluster = NULL;
    if (!config || extra)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuLaunchKernelEx: no config, or extra"));
    nv_result result = take_attributes(config, &cluster);
    if (result == NV_SUCCESS)
        result = drv_work_launch(&work, function, config->grid, config->block, config->shared_bytes, cluster, params);
    return push_work(config->stream, &work, result, __func__);
}

nv_result cuLaunchHostFunc(nv_stream stream, nv_host_function function, void *data)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_work work = {.kind = DRV_HOST, .host = {function, data}};
    nv_result result = function ? NV_SUCCESS : drv_misuse(NV_ERROR_INVALID_VALUE, "cuLaunchHostFunc: no function");
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

/* -- words --------------------------------------------------------------------------------------------------------- */

static nv_result push_word(nv_stream stream, drv_work_kind kind, nv_ptr address, uint64_t value, unsigned bytes,
                           unsigned flags, const char *function)
{
    const drv_work work = {.kind = kind, .word = {address, value, flags, bytes}};
    unsigned most = kind == DRV_WAIT_VALUE ? NV_WAIT_VALUE_NOR : NV_WRITE_VALUE_NO_MEMORY_BARRIER;
    nv_result result = NV_SUCCESS;
    if (kind == DRV_WAIT_VALUE && flags & NV_WAIT_VALUE_FLUSH)
        result = drv_misuse(NV_ERROR_NOT_SUPPORTED, "%s: flushing, which the device cannot", function);
    else if (flags > most || address % bytes || !drv_find((void *)(uintptr_t)address, bytes))
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %#llx, flags %#x", function, address, flags);
    return push_work(stream, &work, result, function);
}

nv_result cuStreamWaitValue32_v2(nv_stream stream, nv_ptr address, nv_u32 value, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return push_word(stream, DRV_WAIT_VALUE, address, value, 4, flags, __func__);
}

nv_result cuStreamWaitValue64_v2(nv_stream stream, nv_ptr address, nv_u64 value, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return push_word(stream, DRV_WAIT_VALUE, address, value, 8, flags, __func__);
}

nv_result cuStreamWriteValue32_v2(nv_stream stream, nv_ptr address, nv_u32 value, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return push_word(stream, DRV_WRITE_VALUE, address, value, 4, flags, __func__);
}

nv_result cuStreamWriteValue64_v2(nv_stream stream, nv_ptr address, nv_u64 value, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return push_word(stream, DRV_WRITE_VALUE, address, value, 8, flags, __func__);
}
