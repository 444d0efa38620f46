/* stream.c - streams, their points, immediate commands, timing events.
 *
 * A point is a CUevent in a ring. Events without timing cost least, and a wait asks for them with cuEventQuery: the
 * only way to wait with a deadline, since cuEventSynchronize has none. */
#include "cuda_backend.h"

#include <limits.h>
#include <sched.h>
#include <time.h>

#define SPIN_NS      50000u
#define SLEEP_MIN_NS 5000u
#define SLEEP_MAX_NS 1000000u

hal_status cuda_stream_create(hal_native_device *device, int priority, const char *label, hal_native_stream **out)
{
    (void)label; /* the driver API has no names for streams */
    bool pushed;
    hal_native_stream *stream = hal_calloc(device->core, 1, sizeof *stream);
    *out = NULL;
    if (!stream)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a stream");
    stream->device = device;
    pthread_mutex_init(&stream->lock, NULL);

    /* For CUDA a lower number is more urgent. */
    int wanted = priority > INT_MIN ? -priority : INT_MAX;
    wanted = wanted < device->priority_greatest ? device->priority_greatest : wanted;
    wanted = wanted > device->priority_least ? device->priority_least : wanted;

    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK) {
        nv_result result = device->driver.cuStreamCreateWithPriority(&stream->handle, NV_STREAM_NON_BLOCKING, wanted);
        if (result != NV_SUCCESS)
            status = cuda_fail(&device->driver, result, "cuStreamCreateWithPriority(priority %d)", wanted);
    }
    cuda_leave(device, pushed);
    if (status != HAL_OK) {
        pthread_mutex_destroy(&stream->lock);
        hal_free(stream);
        return status;
    }
    *out = stream;
    return HAL_OK;
}

void cuda_stream_destroy(hal_native_stream *stream)
{
    bool pushed;
    if (!stream)
        return;
    hal_native_device *device = stream->device;
    const cuda_driver *driver = &device->driver;
    cuda_enter(device, &pushed);
    for (uint32_t i = 0; i < stream->count; i++)
        cuda_check_destroy(device, driver->cuEventDestroy_v2(stream->marks[(stream->first + i) % CUDA_MARKS].event),
                           "cuEventDestroy_v2");
    for (uint32_t i = 0; i < stream->spare_count; i++)
        cuda_check_destroy(device, driver->cuEventDestroy_v2(stream->spare[i]), "cuEventDestroy_v2");
    cuda_check_destroy(device, driver->cuStreamDestroy_v2(stream->handle), "cuStreamDestroy_v2");
    cuda_leave(device, pushed);
    pthread_mutex_destroy(&stream->lock);
    hal_free(stream);
}

/* -- points -------------------------------------------------------------------------------------------------------- */

static cuda_mark *mark_at(hal_native_stream *stream, uint32_t index)
{
    return &stream->marks[(stream->first + index) % CUDA_MARKS];
}

static void pass_marks(hal_native_stream *stream, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        cuda_mark *mark = mark_at(stream, i);
        stream->completed = mark->point;
        stream->done = mark->commands;
        stream->spare[stream->spare_count++] = mark->event;
    }
    stream->first = (stream->first + count) % CUDA_MARKS;
    stream->count -= count;
}

/* Take note of the marks that are passed. They pass in order, so the first that is not is found by bisection. */
static hal_status poll_locked(hal_native_stream *stream)
{
    const cuda_driver *driver = &stream->device->driver;
    uint32_t passed = 0, open = stream->count;
    while (passed < open) {
        /* Mostly the oldest is the one in question, or all are done. */
        uint32_t probe = passed == 0 && open == stream->count ? 0 : passed + (open - passed) / 2;
        nv_result result = driver->cuEventQuery(mark_at(stream, probe)->event);
        if (result == NV_SUCCESS)
            passed = probe + 1;
        else if (result == NV_ERROR_NOT_READY)
            open = probe;
        else
            return cuda_fail(driver, result, "cuEventQuery");
    }
    pass_marks(stream, passed);
    return HAL_OK;
}

/* Where a stream is. */
typedef struct progress {
    uint64_t completed; /* point */
    uint64_t done;      /* commands */
} progress;

static hal_status poll(hal_native_stream *stream, progress *now)
{
    pthread_mutex_lock(&stream->lock);
    hal_status status = poll_locked(stream);
    *now = (progress){stream->completed, stream->done};
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Wait a little: at first not at all, as short work is done within microseconds; then a part of the time that has
 * passed, so that a wait is late by that part at most. */
static void back_off(uint64_t waited, uint64_t left)
{
    if (waited < SPIN_NS) {
        sched_yield();
        return;
    }
    uint64_t ns = waited / 16;
    ns = ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
    nanosleep(&(struct timespec){0, (long)(ns < left ? ns : left)}, NULL);
}

/* Wait until the stream has passed `point` and `commands`. */
static hal_status wait_in_context(hal_native_stream *stream, uint64_t point, uint64_t commands, uint64_t timeout)
{
    uint64_t start = hal_now();
    for (;;) {
        progress at;
        hal_status status = poll(stream, &at);
        if (status != HAL_OK || (at.completed >= point && at.done >= commands))
            return status;
        uint64_t waited = hal_now() - start;
        if (waited >= timeout)
            return HAL_TIMEOUT;
        back_off(waited, timeout - waited);
    }
}

hal_status cuda_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout)
{
    bool pushed;
    hal_status status = cuda_enter(stream->device, &pushed);
    if (status == HAL_OK)
        status = wait_in_context(stream, point, 0, timeout);
    cuda_leave(stream->device, pushed);
    return status;
}

hal_status cuda_stream_completed(hal_native_stream *stream, uint64_t *point)
{
    bool pushed;
    progress at = {0};
    hal_status status = cuda_enter(stream->device, &pushed);
    if (status == HAL_OK)
        status = poll(stream, &at);
    cuda_leave(stream->device, pushed);
    *point = at.completed;
    return status;
}

static hal_status record_mark(hal_native_stream *stream, uint64_t point)
{
    const cuda_driver *driver = &stream->device->driver;
    nv_event event = NULL;
    nv_result result = NV_SUCCESS;
    if (stream->spare_count > 0)
        event = stream->spare[--stream->spare_count];
    else
        result = driver->cuEventCreate(&event, NV_EVENT_DISABLE_TIMING);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuEventCreate");
    result = driver->cuEventRecord(event, stream->handle);
    if (result != NV_SUCCESS) {
        stream->spare[stream->spare_count++] = event;
        return cuda_fail(driver, result, "cuEventRecord");
    }
    *mark_at(stream, stream->count++) = (cuda_mark){point, stream->enqueued, event};
    stream->marked = stream->enqueued;
    stream->last_point = point;
    return HAL_OK;
}

/* The first point that must pass before there is room for a mark; 0: there is. Marks without commands between them
 * are not bounded by the queue. */
static hal_status find_room(hal_native_stream *stream, uint64_t *oldest)
{
    hal_status status = HAL_OK;
    *oldest = 0;
    pthread_mutex_lock(&stream->lock);
    if (stream->count == CUDA_MARKS)
        status = poll_locked(stream);
    if (stream->count == CUDA_MARKS)
        *oldest = mark_at(stream, 0)->point;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static hal_status mark_in_context(hal_native_stream *stream, uint64_t point)
{
    uint64_t oldest;
    hal_status status = find_room(stream, &oldest);
    if (status == HAL_OK && oldest)
        status = wait_in_context(stream, oldest, 0, hal_submit_patience(stream->device->core));
    if (status == HAL_TIMEOUT)
        return hal_fail(HAL_TIMEOUT, "cuda: %u marks of the stream are unfinished: its queue is full", CUDA_MARKS);
    if (status != HAL_OK)
        return status;
    pthread_mutex_lock(&stream->lock);
    status = record_mark(stream, point);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

hal_status cuda_stream_mark(hal_native_stream *stream, uint64_t point)
{
    bool pushed;
    hal_status status = cuda_enter(stream->device, &pushed);
    if (status == HAL_OK)
        status = mark_in_context(stream, point);
    cuda_leave(stream->device, pushed);
    return status;
}

static hal_status wait_point_in_context(hal_native_stream *stream, hal_native_stream *other, uint64_t point)
{
    const cuda_driver *driver = &stream->device->driver;
    hal_status status = cuda_stream_reserve(stream);
    if (status != HAL_OK)
        return status;
    /* Under the other's lock its events are not recorded anew; the wait keeps what is recorded now. */
    pthread_mutex_lock(&other->lock);
    uint32_t index = 0;
    while (index < other->count && mark_at(other, index)->point < point)
        index++;
    if (index < other->count) {
        nv_result result = driver->cuStreamWaitEvent(stream->handle, mark_at(other, index)->event, 0);
        if (result != NV_SUCCESS)
            status = cuda_fail(driver, result, "cuStreamWaitEvent");
    }
    pthread_mutex_unlock(&other->lock);
    return status;
}

hal_status cuda_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point)
{
    bool pushed;
    hal_status status = cuda_enter(stream->device, &pushed);
    if (status == HAL_OK)
        status = wait_point_in_context(stream, other, point);
    cuda_leave(stream->device, pushed);
    return status;
}

/* -- commands ------------------------------------------------------------------------------------------------------ */

/* The queue may be full: find out, and wait for room for at most submit_timeout. */
static hal_status make_room(hal_native_stream *stream)
{
    uint64_t timeout = hal_submit_patience(stream->device->core);
    progress at;
    hal_status status = poll(stream, &at);
    if (status == HAL_OK && stream->enqueued - at.done >= CUDA_QUEUE) {
        status = wait_in_context(stream, 0, at.done + 1, timeout);
        at.done++;
    }
    if (status == HAL_TIMEOUT)
        return hal_fail(HAL_TIMEOUT,
                        "cuda: the stream's queue is full and nothing finished within %llu ms; wait for the stream, or "
                        "raise submit_timeout",
                        (unsigned long long)(timeout / 1000000u));
    if (status == HAL_OK)
        stream->seen_done = at.done;
    return status;
}

hal_status cuda_stream_reserve(hal_native_stream *stream)
{
    hal_status status = HAL_OK;
    /* Once in a while a mark of no new point, to know how full the queue is. */
    if (stream->enqueued - stream->marked >= CUDA_QUEUE / 4)
        status = mark_in_context(stream, stream->last_point);
    if (status == HAL_OK && stream->enqueued - stream->seen_done >= CUDA_QUEUE)
        status = make_room(stream);
    if (status == HAL_OK)
        stream->enqueued++;
    return status;
}

void cuda_params_fill(cuda_params *params, const hal_command *command, const void *args, const hal_list_values *values)
{
    uint32_t count = command->dispatch.span_count;
    for (uint32_t i = 0; i < count; i++) {
        params->spans[i] = cuda_span_address(&command->dispatch.spans[i], values);
        params->list[i] = &params->spans[i];
    }
    params->list[count] = (void *)(uintptr_t)args; /* the driver only reads it */
}

static hal_status execute_dispatch(hal_native_stream *stream, const hal_command *command)
{
    const cuda_driver *driver = &stream->device->driver;
    const hal_native_kernel *kernel = command->dispatch.kernel;
    const uint32_t *grid = command->dispatch.grid;
    cuda_params params;
    cuda_params_fill(&params, command, command->dispatch.args, NULL);
    nv_result result =
        driver->cuLaunchKernel(kernel->function, grid[0], grid[1], grid[2], kernel->group[0], kernel->group[1],
                               kernel->group[2], kernel->dynamic_shared, stream->handle, params.list, NULL);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuLaunchKernel(%s, grid %u x %u x %u, group %u x %u x %u)",
                         command->label ? command->label : "kernel", grid[0], grid[1], grid[2], kernel->group[0],
                         kernel->group[1], kernel->group[2]);
    return HAL_OK;
}

static hal_status execute_copy(hal_native_stream *stream, const hal_command *command)
{
    const cuda_driver *driver = &stream->device->driver;
    uint64_t size = command->copy.dst.size;
    nv_result result = driver->cuMemcpyAsync(cuda_span_address(&command->copy.dst, NULL),
                                             cuda_span_address(&command->copy.src, NULL), size, stream->handle);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuMemcpyAsync(%llu bytes)", (unsigned long long)size);
    return HAL_OK;
}

static hal_status execute_fill(hal_native_stream *stream, const hal_command *command)
{
    const cuda_driver *driver = &stream->device->driver;
    nv_ptr dst = cuda_span_address(&command->fill.dst, NULL);
    uint32_t bytes = command->fill.pattern_size, pattern = command->fill.pattern;
    uint64_t count = command->fill.dst.size / bytes;
    nv_result result;
    if (bytes == 1)
        result = driver->cuMemsetD8Async(dst, (unsigned char)pattern, count, stream->handle);
    else if (bytes == 2)
        result = driver->cuMemsetD16Async(dst, (unsigned short)pattern, count, stream->handle);
    else
        result = driver->cuMemsetD32Async(dst, pattern, count, stream->handle);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuMemsetD%uAsync(%llu elements)", bytes * 8, (unsigned long long)count);
    return HAL_OK;
}

static hal_status execute_in_context(hal_native_stream *stream, const hal_command *command)
{
    hal_status status = cuda_stream_reserve(stream);
    if (status != HAL_OK)
        return status;
    switch (command->kind) {
    case HAL_COMMAND_DISPATCH:
        return execute_dispatch(stream, command);
    case HAL_COMMAND_COPY:
        return execute_copy(stream, command);
    case HAL_COMMAND_FILL:
        return execute_fill(stream, command);
    }
    return HAL_ERROR_BACKEND;
}

hal_status cuda_stream_execute(hal_native_stream *stream, const hal_command *command)
{
    bool pushed;
    hal_status status = cuda_enter(stream->device, &pushed);
    if (status == HAL_OK)
        status = execute_in_context(stream, command);
    cuda_leave(stream->device, pushed);
    return status;
}

/* -- timing events ------------------------------------------------------------------------------------------------- */

hal_status cuda_event_create(hal_native_device *device, hal_native_event **out)
{
    bool pushed;
    hal_native_event *event = hal_calloc(device->core, 1, sizeof *event);
    *out = NULL;
    if (!event)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for an event");
    event->device = device;
    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK) {
        nv_result result = device->driver.cuEventCreate(&event->handle, NV_EVENT_DEFAULT);
        if (result != NV_SUCCESS)
            status = cuda_fail(&device->driver, result, "cuEventCreate");
    }
    cuda_leave(device, pushed);
    if (status != HAL_OK) {
        hal_free(event);
        return status;
    }
    *out = event;
    return HAL_OK;
}

void cuda_event_destroy(hal_native_event *event)
{
    bool pushed;
    if (!event)
        return;
    cuda_enter(event->device, &pushed);
    cuda_check_destroy(event->device, event->device->driver.cuEventDestroy_v2(event->handle), "cuEventDestroy_v2");
    cuda_leave(event->device, pushed);
    hal_free(event);
}

hal_status cuda_event_record(hal_native_event *event, hal_native_stream *stream)
{
    bool pushed;
    const cuda_driver *driver = &event->device->driver;
    hal_status status = cuda_enter(event->device, &pushed);
    if (status == HAL_OK)
        status = cuda_stream_reserve(stream);
    if (status == HAL_OK) {
        nv_result result = driver->cuEventRecord(event->handle, stream->handle);
        if (result != NV_SUCCESS)
            status = cuda_fail(driver, result, "cuEventRecord");
    }
    cuda_leave(event->device, pushed);
    return status;
}

hal_status cuda_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds)
{
    bool pushed;
    float milliseconds = 0;
    const cuda_driver *driver = &start->device->driver;
    *nanoseconds = 0;
    hal_status status = cuda_enter(start->device, &pushed);
    if (status != HAL_OK)
        return status;
    nv_result result = driver->cuEventElapsedTime(&milliseconds, start->handle, end->handle);
    cuda_leave(start->device, pushed);
    if (result == NV_ERROR_NOT_READY || result == NV_ERROR_INVALID_HANDLE)
        return hal_fail(HAL_ERROR_INVALID_STATE,
                        "cuda: cuEventElapsedTime: an event was not recorded or is not passed");
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuEventElapsedTime");
    /* Events on two streams may come in either order. */
    if (milliseconds > 0)
        *nanoseconds = (uint64_t)((double)milliseconds * 1e6 + 0.5);
    return HAL_OK;
}
