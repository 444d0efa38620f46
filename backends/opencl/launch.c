/* launch.c - one lowering for each kind of command, shared by streams and recorded lists; and the kernels of a stream.
 */
#include "opencl_backend.h"

#define MIN_KERNELS 16 /* places of the first table */

hal_status hal_opencl_launch_init(opencl_launch *launch, hal_native_kernel *kernel)
{
    cl_int code;
    memset(launch, 0, sizeof *launch);
    launch->handle = kernel->device->cl.CreateKernel(kernel->program, kernel->entry, &code);
    if (code != CL_SUCCESS) {
        launch->handle = NULL;
        return hal_opencl_fail(code, "clCreateKernel", "another %s", kernel->entry);
    }
    launch->kernel = kernel;
    atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
    return HAL_OK;
}

void hal_opencl_launch_finish(opencl_launch *launch)
{
    if (!launch->kernel)
        return;
    for (uint32_t i = 0; i < launch->kernel->binding_count; i++)
        if (launch->arguments[i].view)
            hal_opencl_view_release(launch->arguments[i].view);
    launch->kernel->device->cl.ReleaseKernel(launch->handle);
    hal_opencl_kernel_release(launch->kernel);
    launch->kernel = NULL;
}

static hal_status set_argument(opencl_launch *launch, uint32_t index, size_t size, const void *value)
{
    cl_int code = launch->kernel->device->cl.SetKernelArg(launch->handle, index, size, value);
    if (code == CL_SUCCESS)
        return HAL_OK;
    return hal_opencl_fail(code, "clSetKernelArg", "argument %u (%zu bytes) of %s", (unsigned)index, size,
                           launch->kernel->entry);
}

/* OFFSET form: the whole memory and a byte offset, so that no sub-buffer is needed. */
static hal_status bind_offset(opencl_launch *launch, uint32_t index, const hal_native_span *span)
{
    opencl_argument *held = &launch->arguments[index];
    cl_ulong offset = span->offset;
    hal_status status = HAL_OK;
    if (held->id != span->memory->id)
        status = set_argument(launch, 2 * index, sizeof(cl_mem), &span->memory->mem);
    if (status == HAL_OK && (held->id == 0 || held->offset != offset))
        status = set_argument(launch, 2 * index + 1, sizeof offset, &offset);
    held->id = status == HAL_OK ? span->memory->id : 0;
    held->offset = offset;
    return status;
}

/* The view of a span, with a reference for the caller. */
static hal_status find_view(const hal_native_span *span, opencl_argument *recent, opencl_view **view)
{
    if (!recent)
        return hal_opencl_view_acquire(span->memory, span->offset, span->size, view);
    uint64_t id = span->memory->id, hash = (id + span->offset / 64 + span->size) * 0x9e3779b97f4a7c15u;
    opencl_argument *slot = &recent[(hash >> 32) % OPENCL_RECENT_VIEWS];
    if (slot->id != id || slot->offset != span->offset || slot->size != span->size) {
        opencl_view *fresh;
        hal_status status = hal_opencl_view_acquire(span->memory, span->offset, span->size, &fresh);
        if (status != HAL_OK)
            return status;
        if (slot->view)
            hal_opencl_view_release(slot->view);
        *slot = (opencl_argument){id, span->offset, span->size, fresh};
    }
    *view = slot->view;
    atomic_fetch_add_explicit(&slot->view->references, 1, memory_order_relaxed);
    return HAL_OK;
}

static hal_status bind_plain(opencl_launch *launch, uint32_t index, const hal_native_span *span,
                             opencl_argument *recent)
{
    opencl_argument *held = &launch->arguments[index];
    opencl_view *view = NULL;
    hal_status status = HAL_OK;
    if (span->offset)
        status = find_view(span, recent, &view);
    if (status != HAL_OK)
        return status;
    status = set_argument(launch, index, sizeof(cl_mem), view ? &view->mem : &span->memory->mem);
    if (held->view)
        hal_opencl_view_release(held->view);
    *held = (opencl_argument){status == HAL_OK ? span->memory->id : 0, span->offset, span->size, view};
    return status;
}

hal_status hal_opencl_launch_bind(opencl_launch *launch, uint32_t index, const hal_native_span *span,
                                  opencl_argument *recent)
{
    const opencl_argument *held = &launch->arguments[index];
    bool same = held->id == span->memory->id && held->offset == span->offset;
    if (launch->kernel->abi == HAL_ABI_OFFSET)
        return same ? HAL_OK : bind_offset(launch, index, span);
    /* The whole memory stands for every span at its start, whatever the size. */
    if (same && (span->offset == 0 || held->size == span->size))
        return HAL_OK;
    return bind_plain(launch, index, span, recent);
}

hal_status hal_opencl_launch_args(opencl_launch *launch, const void *args)
{
    const hal_native_kernel *kernel = launch->kernel;
    uint32_t index = kernel->binding_count * (kernel->abi == HAL_ABI_OFFSET ? 2 : 1);
    if (kernel->args_size == 0 || (launch->args_set && memcmp(launch->args, args, kernel->args_size) == 0))
        return HAL_OK;
    hal_status status = set_argument(launch, index, kernel->args_size, args);
    launch->args_set = status == HAL_OK;
    if (launch->args_set)
        memcpy(launch->args, args, kernel->args_size);
    return status;
}

hal_status hal_opencl_launch_enqueue(opencl_launch *launch, cl_command_queue queue, const uint32_t grid[3],
                                     cl_event *event)
{
    const hal_native_kernel *kernel = launch->kernel;
    const size_t *local = kernel->group;
    size_t global[3] = {grid[0] * local[0], grid[1] * local[1], grid[2] * local[2]};
    cl_uint dims = global[2] > 1 ? 3 : global[1] > 1 ? 2 : 1;
    cl_int code =
        kernel->device->cl.EnqueueNDRangeKernel(queue, launch->handle, dims, NULL, global, local, 0, NULL, event);
    if (code == CL_SUCCESS)
        return HAL_OK;
    return hal_opencl_fail(code, "clEnqueueNDRangeKernel", "%s with %u x %u x %u groups of %zu x %zu x %zu",
                           kernel->entry, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], local[0], local[1],
                           local[2]);
}

hal_status hal_opencl_copy(hal_native_device *device, cl_command_queue queue, const hal_native_span *dst,
                           const hal_native_span *src, cl_event *event)
{
    const opencl_driver *cl = &device->cl;
    const hal_native_memory *to = dst->memory, *from = src->memory;
    const char *call = "clEnqueueCopyBuffer";
    size_t size = (size_t)dst->size, into = (size_t)dst->offset, at = (size_t)src->offset;
    cl_int code;
    if (to->host) {
        call = "clEnqueueReadBuffer";
        code = cl->EnqueueReadBuffer(queue, from->mem, CL_FALSE, at, size, to->host + into, 0, NULL, event);
    } else if (from->host) {
        call = "clEnqueueWriteBuffer";
        code = cl->EnqueueWriteBuffer(queue, to->mem, CL_FALSE, into, size, from->host + at, 0, NULL, event);
    } else {
        code = cl->EnqueueCopyBuffer(queue, from->mem, to->mem, at, into, size, 0, NULL, event);
    }
    if (code == CL_SUCCESS)
        return HAL_OK;
    return hal_opencl_fail(code, call, "%zu bytes from offset %zu to offset %zu", size, at, into);
}

hal_status hal_opencl_fill(hal_native_device *device, cl_command_queue queue, const hal_native_span *dst,
                           uint32_t pattern, uint32_t pattern_size, cl_event *event)
{
    cl_int code = device->cl.EnqueueFillBuffer(queue, dst->memory->mem, &pattern, pattern_size, (size_t)dst->offset,
                                               (size_t)dst->size, 0, NULL, event);
    if (code == CL_SUCCESS)
        return HAL_OK;
    return hal_opencl_fail(code, "clEnqueueFillBuffer", "%llu bytes at offset %llu", (unsigned long long)dst->size,
                           (unsigned long long)dst->offset);
}

/* Clones of a stream's kernels. */

static opencl_launch **launch_slot(opencl_launch **table, uint32_t capacity, const hal_native_kernel *kernel)
{
    uint32_t at = (uint32_t)(((uintptr_t)kernel >> 4) * 0x9e3779b1u >> 8) & (capacity - 1);
    while (table[at] && table[at]->kernel != kernel)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

/* Move the clones to a table of `capacity`, leaving out those whose kernel was destroyed. */
static hal_status rehash(hal_native_stream *stream, uint32_t capacity)
{
    opencl_launch **table = hal_calloc(stream->device->core, capacity, sizeof(opencl_launch *));
    if (!table)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: kernels of a stream: out of host memory");
    stream->launch_count = 0;
    stream->latest = NULL;
    for (uint32_t i = 0; i < stream->launch_capacity; i++) {
        opencl_launch *launch = stream->launches[i];
        if (launch && atomic_load_explicit(&launch->kernel->destroyed, memory_order_relaxed)) {
            hal_opencl_launch_finish(launch);
            hal_free(launch);
        } else if (launch) {
            *launch_slot(table, capacity, launch->kernel) = launch;
            stream->launch_count++;
        }
    }
    hal_free(stream->launches);
    stream->launches = table;
    stream->launch_capacity = capacity;
    return HAL_OK;
}

void hal_opencl_launch_drop_destroyed(hal_native_stream *stream)
{
    uint64_t count = atomic_load_explicit(&stream->device->destroyed_kernels, memory_order_relaxed);
    if (count != stream->destroyed_kernels && stream->launch_count && rehash(stream, stream->launch_capacity) == HAL_OK)
        stream->destroyed_kernels = count;
}

static hal_status add_launch(hal_native_stream *stream, hal_native_kernel *kernel, opencl_launch **added)
{
    hal_status status = HAL_OK;
    if (2 * (stream->launch_count + 1) > stream->launch_capacity)
        status = rehash(stream, stream->launch_capacity ? 2 * stream->launch_capacity : MIN_KERNELS);
    if (status != HAL_OK)
        return status;
    opencl_launch *launch = hal_calloc(stream->device->core, 1, sizeof *launch);
    if (!launch)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: kernels of a stream: out of host memory");
    status = hal_opencl_launch_init(launch, kernel);
    if (status != HAL_OK) {
        hal_free(launch);
        return status;
    }
    *launch_slot(stream->launches, stream->launch_capacity, kernel) = launch;
    stream->launch_count++;
    *added = launch;
    return HAL_OK;
}

hal_status hal_opencl_launch_find(hal_native_stream *stream, hal_native_kernel *kernel, opencl_launch **found)
{
    opencl_launch *launch =
        stream->launch_capacity ? *launch_slot(stream->launches, stream->launch_capacity, kernel) : NULL;
    hal_status status = launch ? HAL_OK : add_launch(stream, kernel, &launch);
    if (status == HAL_OK)
        stream->latest = *found = launch;
    return status;
}

void hal_opencl_launch_free_all(hal_native_stream *stream)
{
    for (uint32_t i = 0; i < stream->launch_capacity; i++)
        if (stream->launches[i]) {
            hal_opencl_launch_finish(stream->launches[i]);
            hal_free(stream->launches[i]);
        }
    for (uint32_t i = 0; i < OPENCL_RECENT_VIEWS; i++)
        if (stream->recent[i].view)
            hal_opencl_view_release(stream->recent[i].view);
    hal_free(stream->launches);
}
