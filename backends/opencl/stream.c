/* stream.c - one in-order command queue a stream: commands, points, waits; and device timestamps. */
#include "opencl_backend.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#define SPIN_NS    50000u     /* a short kernel ends sooner than a thread wakes */
#define SOON       4          /* commands after a mark that carry an event */
#define RECHECK_NS 100000000u /* a driver that loses an event callback costs this much, not for ever */

static opencl_signal *signal_create(hal_core *core)
{
    pthread_condattr_t attributes;
    opencl_signal *signal = hal_calloc(core, 1, sizeof *signal);
    if (!signal)
        return NULL;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&signal->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&signal->lock, NULL);
    atomic_init(&signal->references, 1);
    return signal;
}

static void signal_release(opencl_signal *signal)
{
    if (atomic_fetch_sub_explicit(&signal->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&signal->changed);
    pthread_mutex_destroy(&signal->lock);
    hal_free(signal);
}

static void CL_CALLBACK wake(cl_event event, cl_int status, void *user)
{
    opencl_signal *signal = user;
    (void)event;
    (void)status; /* the waiting thread asks the event itself */
    /* The driver hands `signal` from thread to thread; the acquire pairs with the release in watch(). */
    atomic_fetch_add_explicit(&signal->references, 0, memory_order_acquire);
    pthread_mutex_lock(&signal->lock);
    pthread_cond_broadcast(&signal->changed);
    pthread_mutex_unlock(&signal->lock);
    signal_release(signal);
}

static void watch(hal_native_device *device, opencl_signal *signal, cl_event event)
{
    atomic_fetch_add_explicit(&signal->references, 1, memory_order_release);
    if (device->cl.SetEventCallback(event, CL_COMPLETE, wake, signal) != CL_SUCCESS)
        /* Not the last reference, the caller has one. Waiting goes by RECHECK_NS then. */
        atomic_fetch_sub_explicit(&signal->references, 1, memory_order_relaxed);
}

/* CL_COMPLETE (0), a negative error, or a positive "not yet". */
static cl_int event_status(const hal_native_device *device, cl_event event)
{
    cl_int status = CL_QUEUED;
    cl_int code = device->cl.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return code == CL_SUCCESS ? status : code < 0 ? code : CL_QUEUED;
}

static hal_status lost(cl_int code)
{
    return hal_fail(HAL_ERROR_DEVICE_LOST, "opencl: a command ended with %s (%d): close the device and open it again",
                    hal_opencl_error_name(code), (int)code);
}

static hal_status event_result(cl_int status)
{
    return status < 0 ? lost(status) : status == CL_COMPLETE ? HAL_OK : HAL_TIMEOUT;
}

static uint64_t deadline_after(uint64_t timeout)
{
    uint64_t now = hal_now();
    return timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
}

/* OpenCL has no timed wait. A short look catches work that is about to end; after it the thread sleeps until the
 * event's callback wakes it, as sleeping by the clock would be late by half a period or busy. */
static cl_int spin_until(const hal_native_device *device, cl_event event, uint64_t deadline)
{
    uint64_t end = hal_now() + SPIN_NS;
    cl_int status = event_status(device, event);
    end = end < deadline ? end : deadline;
    while (status > 0 && hal_now() < end) {
        sched_yield();
        status = event_status(device, event);
    }
    return status;
}

/* A callback of the event must have been set to wake `signal`. */
static cl_int sleep_until(const hal_native_device *device, cl_event event, opencl_signal *signal, uint64_t deadline)
{
    cl_int status;
    uint64_t now;
    pthread_mutex_lock(&signal->lock);
    /* The callback takes the lock after the event has changed, so a change after this look cannot be missed. */
    while ((status = event_status(device, event)) > 0 && (now = hal_now()) < deadline) {
        uint64_t until = deadline - now > RECHECK_NS ? now + RECHECK_NS : deadline;
        struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
        pthread_cond_timedwait(&signal->changed, &signal->lock, &at);
    }
    pthread_mutex_unlock(&signal->lock);
    return status;
}

hal_status hal_opencl_event_wait(hal_native_device *device, cl_event event, uint64_t timeout)
{
    uint64_t deadline = deadline_after(timeout);
    cl_int status = spin_until(device, event, deadline);
    if (status > 0 && hal_now() < deadline) {
        opencl_signal *signal = signal_create(device->core);
        if (!signal)
            return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: waiting for an event: out of host memory");
        watch(device, signal, event);
        status = sleep_until(device, event, signal, deadline);
        signal_release(signal);
    }
    if (status > 0)
        return hal_fail(HAL_TIMEOUT, "opencl: a command did not end within %llu ns", (unsigned long long)timeout);
    return event_result(status);
}

static cl_command_queue create_queue(hal_native_device *device, int priority, cl_command_queue_properties options,
                                     cl_int *code)
{
    const opencl_driver *cl = &device->cl;
    cl_command_queue queue;
    if (device->priorities && priority) {
        const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, options, CL_QUEUE_PRIORITY_KHR,
                                                  priority > 0 ? CL_QUEUE_PRIORITY_HIGH_KHR : CL_QUEUE_PRIORITY_LOW_KHR,
                                                  0};
        queue = cl->CreateCommandQueueWithProperties(device->context, device->id, properties, code);
    } else {
        queue = cl->CreateCommandQueue(device->context, device->id, options, code);
    }
    return *code == CL_SUCCESS ? queue : NULL;
}

/* Go on with a queue that takes timestamps. Streams start without: on PoCL they cost every command a tenth of its
 * enqueue. */
static hal_status start_timestamps(hal_native_stream *stream)
{
    const opencl_driver *cl = &stream->device->cl;
    const char *call = "clCreateCommandQueue";
    cl_event event = NULL;
    cl_int code;
    cl_command_queue timed = create_queue(stream->device, stream->priority, CL_QUEUE_PROFILING_ENABLE, &code);
    if (!timed)
        goto fail;
    call = "clEnqueueMarkerWithWaitList";
    code = cl->EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event);
    if (code == CL_SUCCESS)
        code = cl->Flush(stream->queue);
    if (code == CL_SUCCESS)
        code = cl->EnqueueBarrierWithWaitList(timed, 1, &event, NULL);
    if (code != CL_SUCCESS)
        goto fail;
    cl->ReleaseEvent(event);
    stream->untimed = stream->queue;
    stream->queue = timed;
    return HAL_OK;
fail:
    if (event)
        cl->ReleaseEvent(event);
    if (timed)
        cl->ReleaseCommandQueue(timed);
    return hal_opencl_fail(code, call, "a queue with timestamps");
}

hal_status hal_opencl_stream_create(hal_native_device *device, int priority, const char *label,
                                    hal_native_stream **stream)
{
    cl_int code = CL_SUCCESS;
    *stream = NULL;
    hal_native_stream *created = hal_calloc(device->core, 1, sizeof *created);
    if (created)
        created->signal = signal_create(device->core);
    if (!created || !created->signal) {
        hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: stream %s: out of host memory", label ? label : "");
        goto fail;
    }
    created->device = device;
    created->priority = priority;
    created->queue = create_queue(device, priority, 0, &code);
    if (!created->queue) {
        hal_opencl_fail(code, "clCreateCommandQueue", "stream %s", label ? label : "");
        goto fail;
    }
    pthread_mutex_init(&created->lock, NULL);
    *stream = created;
    return HAL_OK;
fail:
    if (created && created->signal)
        signal_release(created->signal);
    hal_free(created);
    return code == CL_SUCCESS ? HAL_ERROR_OUT_OF_MEMORY : hal_opencl_status(code);
}

void hal_opencl_stream_destroy(hal_native_stream *stream)
{
    const opencl_driver *cl = &stream->device->cl;
    hal_opencl_launch_free_all(stream);
    for (uint32_t i = 0; i < stream->mark_count; i++)
        cl->ReleaseEvent(stream->marks[(stream->first_mark + i) % OPENCL_MARKS].event);
    if (stream->tail)
        cl->ReleaseEvent(stream->tail);
    cl->ReleaseCommandQueue(stream->queue);
    if (stream->untimed)
        cl->ReleaseCommandQueue(stream->untimed);
    pthread_mutex_destroy(&stream->lock);
    signal_release(stream->signal);
    hal_free(stream);
}

static hal_status dispatch(hal_native_stream *stream, const hal_command *command, cl_event *event)
{
    hal_native_kernel *kernel = command->dispatch.kernel;
    opencl_launch *launch = stream->latest;
    hal_status status = HAL_OK;
    if (!launch || launch->kernel != kernel)
        status = hal_opencl_launch_find(stream, kernel, &launch);
    for (uint32_t i = 0; i < command->dispatch.span_count && status == HAL_OK; i++)
        status = hal_opencl_launch_bind(launch, i, &command->dispatch.spans[i], stream->recent);
    if (status == HAL_OK)
        status = hal_opencl_launch_args(launch, command->dispatch.args);
    if (status == HAL_OK)
        status = hal_opencl_launch_enqueue(launch, stream->queue, command->dispatch.grid, event);
    return status;
}

hal_status hal_opencl_stream_execute(hal_native_stream *stream, const hal_command *command)
{
    hal_status status = hal_opencl_stream_reserve(stream, 1);
    if (status != HAL_OK)
        return status;
    /* A mark that comes soon, as in upload, dispatch, wait, then needs no marker. */
    cl_event *event = stream->enqueued - stream->marked <= SOON ? &stream->tail : NULL;
    switch (command->kind) {
    case HAL_COMMAND_DISPATCH:
        return dispatch(stream, command, event);
    case HAL_COMMAND_COPY:
        return hal_opencl_copy(stream->device, stream->queue, &command->copy.dst, &command->copy.src, event);
    case HAL_COMMAND_FILL:
        return hal_opencl_fill(stream->device, stream->queue, &command->fill.dst, command->fill.pattern,
                               command->fill.pattern_size, event);
    }
    return hal_fail(HAL_ERROR_BACKEND, "opencl: unknown command kind %d", (int)command->kind);
}

/* Points. */

/* Take finished marks off the ring. The lock is held. */
static void retire_marks(hal_native_stream *stream)
{
    while (stream->mark_count && !stream->failed) {
        opencl_mark *mark = &stream->marks[stream->first_mark];
        cl_int status = event_status(stream->device, mark->event);
        if (status > 0)
            return;
        if (status < 0) {
            stream->failed = status;
            return;
        }
        stream->device->cl.ReleaseEvent(mark->event);
        atomic_store_explicit(&stream->retired, mark->commands, memory_order_relaxed);
        atomic_store_explicit(&stream->completed, mark->point, memory_order_release);
        stream->first_mark = (stream->first_mark + 1) % OPENCL_MARKS;
        stream->mark_count--;
    }
}

/* The oldest mark whose point is at least `point`, or NULL if that is passed. The lock is held. */
static opencl_mark *find_mark(hal_native_stream *stream, uint64_t point)
{
    for (uint32_t i = 0; i < stream->mark_count; i++) {
        opencl_mark *mark = &stream->marks[(stream->first_mark + i) % OPENCL_MARKS];
        if (mark->point >= point)
            return mark;
    }
    return NULL;
}

/* The event of that mark, retained; NULL with HAL_OK if the point is passed. */
static hal_status mark_event(hal_native_stream *stream, uint64_t point, cl_event *event)
{
    pthread_mutex_lock(&stream->lock);
    retire_marks(stream);
    cl_int failed = stream->failed;
    opencl_mark *mark = failed ? NULL : find_mark(stream, point);
    *event = mark ? mark->event : NULL;
    if (mark)
        stream->device->cl.RetainEvent(mark->event);
    pthread_mutex_unlock(&stream->lock);
    return failed ? lost(failed) : HAL_OK;
}

/* One callback a mark, however many threads and however often they wait for it. */
static void watch_mark(hal_native_stream *stream, uint64_t point, cl_event event)
{
    pthread_mutex_lock(&stream->lock);
    opencl_mark *mark = find_mark(stream, point);
    bool set = mark && mark->event == event && !mark->watched;
    if (set)
        mark->watched = true;
    pthread_mutex_unlock(&stream->lock);
    if (set)
        watch(stream->device, stream->signal, event);
}

/* Wait for the oldest mark whose point is at least `point`; HAL_TIMEOUT without a message at the deadline. */
static hal_status wait_mark(hal_native_stream *stream, uint64_t point, uint64_t deadline)
{
    hal_native_device *device = stream->device;
    cl_event event = NULL;
    hal_status status = mark_event(stream, point, &event);
    if (!event)
        return status;
    cl_int reached = spin_until(device, event, deadline);
    if (reached > 0 && hal_now() < deadline) {
        watch_mark(stream, point, event);
        reached = sleep_until(device, event, stream->signal, deadline);
    }
    device->cl.ReleaseEvent(event);
    if (reached <= 0) {
        pthread_mutex_lock(&stream->lock);
        retire_marks(stream);
        pthread_mutex_unlock(&stream->lock);
    }
    return event_result(reached);
}

static hal_status add_mark(hal_native_stream *stream, uint64_t point)
{
    const opencl_driver *cl = &stream->device->cl;
    cl_event event = stream->tail;
    cl_int code = event ? CL_SUCCESS : cl->EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &event);
    stream->tail = NULL;
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clEnqueueMarkerWithWaitList", "point %llu", (unsigned long long)point);
    pthread_mutex_lock(&stream->lock);
    stream->marks[(stream->first_mark + stream->mark_count++) % OPENCL_MARKS] =
        (opencl_mark){point, stream->enqueued, event, false};
    stream->last_point = point;
    stream->marked = stream->enqueued;
    pthread_mutex_unlock(&stream->lock);
    code = cl->Flush(stream->queue);
    return code == CL_SUCCESS ? HAL_OK : hal_opencl_fail(code, "clFlush", "point %llu", (unsigned long long)point);
}

/* The oldest mark, waited for because the queue is full. */
static hal_status wait_oldest(hal_native_stream *stream, uint64_t deadline)
{
    hal_status status = wait_mark(stream, 0, deadline);
    if (status == HAL_TIMEOUT)
        return hal_fail(HAL_TIMEOUT, "opencl: the queue is full and nothing ended within %llu ns",
                        (unsigned long long)hal_submit_patience(stream->device->core));
    return status;
}

static hal_status make_room(hal_native_stream *stream, uint32_t commands)
{
    uint64_t deadline = deadline_after(hal_submit_patience(stream->device->core));
    hal_status status = HAL_OK;
    /* Half of the queue, so that the next commands find room without a wait each. */
    uint64_t allowed = commands < OPENCL_COMMANDS_IN_FLIGHT / 2 ? OPENCL_COMMANDS_IN_FLIGHT / 2 : 0;
    pthread_mutex_lock(&stream->lock);
    uint32_t count = stream->mark_count;
    uint32_t newest = (stream->first_mark + count - 1) % OPENCL_MARKS;
    bool unmarked = count == 0 || stream->marks[newest].commands != stream->enqueued;
    pthread_mutex_unlock(&stream->lock);
    /* Commands after the last mark could not be waited for; this mark repeats its point, so it names nothing new. */
    if (unmarked && count < OPENCL_MARKS)
        status = add_mark(stream, stream->last_point);
    while (status == HAL_OK && stream->enqueued - atomic_load(&stream->retired) > allowed)
        status = wait_oldest(stream, deadline);
    return status;
}

static void drop_tail(hal_native_stream *stream)
{
    if (stream->tail)
        stream->device->cl.ReleaseEvent(stream->tail);
    stream->tail = NULL;
}

hal_status hal_opencl_stream_reserve(hal_native_stream *stream, uint32_t commands)
{
    uint64_t pending = stream->enqueued - atomic_load_explicit(&stream->retired, memory_order_relaxed);
    /* A list longer than the limit goes onto an empty queue. */
    if (pending && pending + commands > OPENCL_COMMANDS_IN_FLIGHT) {
        hal_status status = make_room(stream, commands);
        if (status != HAL_OK)
            return status;
    }
    drop_tail(stream);
    stream->enqueued += commands;
    return HAL_OK;
}

hal_status hal_opencl_stream_mark(hal_native_stream *stream, uint64_t point)
{
    hal_opencl_launch_drop_destroyed(stream);
    pthread_mutex_lock(&stream->lock);
    retire_marks(stream);
    bool full = stream->mark_count == OPENCL_MARKS;
    cl_int failed = stream->failed;
    pthread_mutex_unlock(&stream->lock);
    if (failed)
        return lost(failed);
    hal_status status = HAL_OK;
    if (full)
        status = wait_oldest(stream, deadline_after(hal_submit_patience(stream->device->core)));
    return status == HAL_OK ? add_mark(stream, point) : status;
}

hal_status hal_opencl_stream_completed(hal_native_stream *stream, uint64_t *point)
{
    pthread_mutex_lock(&stream->lock);
    retire_marks(stream);
    cl_int failed = stream->failed;
    pthread_mutex_unlock(&stream->lock);
    *point = atomic_load_explicit(&stream->completed, memory_order_acquire);
    return failed ? lost(failed) : HAL_OK;
}

hal_status hal_opencl_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout)
{
    if (atomic_load_explicit(&stream->completed, memory_order_acquire) >= point)
        return HAL_OK;
    if (timeout == 0) {
        uint64_t reached;
        hal_status status = hal_opencl_stream_completed(stream, &reached);
        return status != HAL_OK ? status : reached >= point ? HAL_OK : HAL_TIMEOUT;
    }
    return wait_mark(stream, point, deadline_after(timeout));
}

hal_status hal_opencl_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point)
{
    const opencl_driver *cl = &stream->device->cl;
    cl_event event = NULL;
    if (stream == other || atomic_load_explicit(&other->completed, memory_order_acquire) >= point)
        return HAL_OK;
    hal_status status = mark_event(other, point, &event);
    if (!event)
        return status; /* passed meanwhile, or lost */
    drop_tail(stream);
    cl_int code = cl->EnqueueBarrierWithWaitList(stream->queue, 1, &event, NULL);
    cl->ReleaseEvent(event);
    return code == CL_SUCCESS ? HAL_OK
                              : hal_opencl_fail(code, "clEnqueueBarrierWithWaitList", "point %llu of a stream",
                                                (unsigned long long)point);
}

/* Timestamps: the end of a marker. */

struct hal_native_event {
    hal_native_device *device;
    pthread_mutex_t lock;
    cl_event event;
};

hal_status hal_opencl_event_create(hal_native_device *device, hal_native_event **event)
{
    *event = hal_calloc(device->core, 1, sizeof **event);
    if (!*event)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: event: out of host memory");
    (*event)->device = device;
    pthread_mutex_init(&(*event)->lock, NULL);
    return HAL_OK;
}

void hal_opencl_event_destroy(hal_native_event *event)
{
    if (event->event)
        event->device->cl.ReleaseEvent(event->event);
    pthread_mutex_destroy(&event->lock);
    hal_free(event);
}

hal_status hal_opencl_event_record(hal_native_event *event, hal_native_stream *stream)
{
    const opencl_driver *cl = &event->device->cl;
    cl_event marker = NULL;
    hal_status status = stream->untimed ? HAL_OK : start_timestamps(stream);
    if (status != HAL_OK)
        return status;
    drop_tail(stream);
    cl_int code = cl->EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker);
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clEnqueueMarkerWithWaitList", "timestamp");
    if (cl->RetainEvent(marker) == CL_SUCCESS)
        stream->tail = marker;
    pthread_mutex_lock(&event->lock);
    cl_event earlier = event->event;
    event->event = marker;
    pthread_mutex_unlock(&event->lock);
    if (earlier)
        cl->ReleaseEvent(earlier);
    return HAL_OK;
}

static hal_status timestamp(hal_native_event *event, cl_ulong *time)
{
    cl_int code = CL_PROFILING_INFO_NOT_AVAILABLE;
    pthread_mutex_lock(&event->lock);
    if (event->event)
        code =
            event->device->cl.GetEventProfilingInfo(event->event, CL_PROFILING_COMMAND_END, sizeof *time, time, NULL);
    pthread_mutex_unlock(&event->lock);
    return code == CL_SUCCESS ? HAL_OK : hal_opencl_fail(code, "clGetEventProfilingInfo", "the event has no timestamp");
}

hal_status hal_opencl_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds)
{
    cl_ulong from = 0, to = 0;
    *nanoseconds = 0;
    hal_status status = timestamp(start, &from);
    if (status == HAL_OK)
        status = timestamp(end, &to);
    if (status == HAL_OK)
        *nanoseconds = to > from ? to - from : 0;
    return status;
}
