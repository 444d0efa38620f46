/* memory.c - buffers, host mappings, and the sub-buffers that PLAIN kernels see.
 *
 * A PLAIN kernel gets a bare pointer, so a span inside a buffer needs a cl_mem of its own: a sub-buffer, kept in a
 * table of the memory. SVM pointers would do without, but SVM is optional, absent before 2.0 and slow or small on some
 * GPUs. */
#include "opencl_backend.h"

/* For a map, an unmap or a first touch: short work on a queue of its own, which only a dead driver does not end. */
#define COPY_TIMEOUT HAL_SECONDS(10)

#include <unistd.h>

static hal_status create_staging(hal_native_memory *memory, void **host)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = ((size_t)memory->size + page - 1) / page * page;
    void *pointer = NULL;
    if (size < memory->size || posix_memalign(&pointer, page, size) != 0)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: %llu bytes of staging memory: out of host memory",
                        (unsigned long long)memory->size);
    atomic_fetch_add_explicit(&memory->device->core->host_allocations, 1, memory_order_relaxed);
    memory->host = pointer;
    *host = pointer;
    return HAL_OK;
}

/* Drivers may put the allocation off to the first use, and then a dispatch runs out of memory. Ask for it now. */
static hal_status commit(hal_native_memory *memory)
{
    hal_native_device *device = memory->device;
    const opencl_driver *cl = &device->cl;
    cl_event event = NULL;
    cl_int code = cl->EnqueueMigrateMemObjects(device->maps, 1, &memory->mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED,
                                               0, NULL, &event);
    if (code == CL_SUCCESS)
        code = cl->Flush(device->maps);
    hal_status status = code == CL_SUCCESS
                            ? hal_opencl_event_wait(device, event, COPY_TIMEOUT)
                            : hal_opencl_fail(code, "clEnqueueMigrateMemObjects", "%llu bytes of device memory",
                                              (unsigned long long)memory->size);
    if (event)
        cl->ReleaseEvent(event);
    return status;
}

/* CPU drivers hand out more than they have and leave the rest to the kernel's out-of-memory killer. */
static hal_status claim(hal_native_memory *memory)
{
    hal_native_device *device = memory->device;
    uint64_t before = atomic_fetch_add_explicit(&device->allocated, memory->size, memory_order_relaxed);
    if (device->memory_size == 0 || (before <= device->memory_size && memory->size <= device->memory_size - before))
        return HAL_OK;
    atomic_fetch_sub_explicit(&device->allocated, memory->size, memory_order_relaxed);
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: %llu bytes do not fit: %llu of the device's %llu are in use",
                    (unsigned long long)memory->size, (unsigned long long)before,
                    (unsigned long long)device->memory_size);
}

static void unclaim(hal_native_memory *memory)
{
    if (memory->kind != HAL_NATIVE_IMPORT)
        atomic_fetch_sub_explicit(&memory->device->allocated, memory->size, memory_order_relaxed);
}

static hal_status create_buffer(hal_native_memory *memory, void *host)
{
    const opencl_driver *cl = &memory->device->cl;
    cl_mem_flags flags = CL_MEM_READ_WRITE;
    cl_int code;
    bool import = memory->kind == HAL_NATIVE_IMPORT;
    hal_status status = import ? HAL_OK : claim(memory);
    if (status != HAL_OK)
        return status;
    if (memory->kind == HAL_NATIVE_HOST || memory->kind == HAL_NATIVE_UNIFIED)
        flags |= CL_MEM_ALLOC_HOST_PTR;
    if (import)
        flags |= CL_MEM_USE_HOST_PTR;
    memory->mem = cl->CreateBuffer(memory->device->context, flags, (size_t)memory->size, import ? host : NULL, &code);
    if (code != CL_SUCCESS) {
        memory->mem = NULL;
        status = hal_opencl_fail(code, "clCreateBuffer", "%llu bytes", (unsigned long long)memory->size);
    } else if (memory->kind == HAL_NATIVE_DEVICE) {
        status = commit(memory);
    }
    if (status == HAL_OK)
        return HAL_OK;
    if (memory->mem)
        cl->ReleaseMemObject(memory->mem);
    unclaim(memory);
    return status;
}

hal_status hal_opencl_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                                    hal_native_memory **memory)
{
    *memory = NULL;
    hal_native_memory *created = hal_calloc(device->core, 1, sizeof *created);
    if (!created)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: memory_create: out of host memory");
    created->device = device;
    created->kind = kind;
    created->size = size;
    created->id = atomic_fetch_add_explicit(&device->next_id, 1, memory_order_relaxed);
    created->view_limit = OPENCL_VIEW_BUCKETS;
    hal_status status =
        kind == HAL_NATIVE_STAGING ? create_staging(created, host) : create_buffer(created, host ? *host : NULL);
    if (status != HAL_OK) {
        hal_free(created);
        return status;
    }
    pthread_mutex_init(&created->lock, NULL);
    *memory = created;
    return HAL_OK;
}

/* Drop the table's reference. Launches may still hold the struct, never its cl_mem: hal/ destroys memory when no work
 * uses it, and an argument is set anew before it is used with other memory. */
static void retire_view(hal_native_memory *memory, opencl_view *view)
{
    memory->device->cl.ReleaseMemObject(view->mem);
    view->mem = NULL;
    hal_opencl_view_release(view);
}

void hal_opencl_memory_destroy(hal_native_memory *memory)
{
    for (size_t i = 0; memory->views && i < OPENCL_VIEW_BUCKETS; i++)
        for (opencl_view *view = memory->views[i], *next; view; view = next) {
            next = view->next;
            retire_view(memory, view);
        }
    if (memory->mem) {
        memory->device->cl.ReleaseMemObject(memory->mem);
        unclaim(memory);
    }
    pthread_mutex_destroy(&memory->lock);
    free(memory->host);
    hal_free(memory->views);
    hal_free(memory);
}

hal_status hal_opencl_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                                 void **pointer)
{
    hal_native_device *device = memory->device;
    const opencl_driver *cl = &device->cl;
    cl_map_flags flags = (access & HAL_READ ? CL_MAP_READ : 0) | (access & HAL_WRITE ? CL_MAP_WRITE : 0);
    cl_event event = NULL;
    cl_int code;
    *pointer = NULL;
    void *mapped = cl->EnqueueMapBuffer(device->maps, memory->mem, CL_FALSE, flags, (size_t)offset, (size_t)size, 0,
                                        NULL, &event, &code);
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clEnqueueMapBuffer", "bytes %llu to %llu of %llu", (unsigned long long)offset,
                               (unsigned long long)offset + size, (unsigned long long)memory->size);
    code = cl->Flush(device->maps);
    hal_status status = code == CL_SUCCESS ? hal_opencl_event_wait(device, event, COPY_TIMEOUT)
                                           : hal_opencl_fail(code, "clFlush", "mapping a buffer");
    cl->ReleaseEvent(event);
    if (status == HAL_OK)
        *pointer = mapped;
    else
        (void)cl->EnqueueUnmapMemObject(device->maps, memory->mem, mapped, 0, NULL, NULL);
    return status;
}

hal_status hal_opencl_memory_unmap(hal_native_memory *memory, void *pointer)
{
    hal_native_device *device = memory->device;
    const opencl_driver *cl = &device->cl;
    cl_event event = NULL;
    cl_int code = cl->EnqueueUnmapMemObject(device->maps, memory->mem, pointer, 0, NULL, &event);
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clEnqueueUnmapMemObject", "%p", pointer);
    code = cl->Flush(device->maps);
    hal_status status = code == CL_SUCCESS ? hal_opencl_event_wait(device, event, COPY_TIMEOUT)
                                           : hal_opencl_fail(code, "clFlush", "unmapping a buffer");
    cl->ReleaseEvent(event);
    return status;
}

static size_t view_bucket(uint64_t offset, uint64_t size)
{
    uint64_t hash = (offset * 0x9e3779b97f4a7c15u) ^ (size * 0xc2b2ae3d27d4eb4fu);
    return (size_t)((hash * 0x9e3779b97f4a7c15u) >> 56) % OPENCL_VIEW_BUCKETS;
}

/* Drop every view that no launch holds; the limit then doubles if that left it more than half full, so that the sweep
 * stays rare. */
static void evict_idle_views(hal_native_memory *memory)
{
    for (size_t i = 0; i < OPENCL_VIEW_BUCKETS; i++)
        for (opencl_view **link = &memory->views[i]; *link;) {
            opencl_view *view = *link;
            if (atomic_load_explicit(&view->references, memory_order_acquire) > 1) {
                link = &view->next;
                continue;
            }
            *link = view->next;
            memory->view_count--;
            retire_view(memory, view);
        }
    while (memory->view_count > memory->view_limit / 2)
        memory->view_limit *= 2;
}

static hal_status create_view(hal_native_memory *memory, uint64_t offset, uint64_t size, opencl_view **created)
{
    hal_native_device *device = memory->device;
    opencl_view *view = hal_calloc(device->core, 1, sizeof *view);
    if (view && !memory->views)
        memory->views = hal_calloc(device->core, OPENCL_VIEW_BUCKETS, sizeof(opencl_view *));
    if (!view || !memory->views) {
        hal_free(view);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: sub-buffer: out of host memory");
    }
    if (memory->view_count >= memory->view_limit)
        evict_idle_views(memory);
    cl_buffer_region region = {(size_t)offset, (size_t)size};
    cl_int code;
    view->mem =
        device->cl.CreateSubBuffer(memory->mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    if (code != CL_SUCCESS) {
        hal_free(view);
        return hal_opencl_fail(code, "clCreateSubBuffer", "bytes %llu to %llu of %llu", (unsigned long long)offset,
                               (unsigned long long)offset + size, (unsigned long long)memory->size);
    }
    view->offset = offset;
    view->size = size;
    atomic_init(&view->references, 1);
    opencl_view **bucket = &memory->views[view_bucket(offset, size)];
    view->next = *bucket;
    *bucket = view;
    memory->view_count++;
    *created = view;
    return HAL_OK;
}

hal_status hal_opencl_view_acquire(hal_native_memory *memory, uint64_t offset, uint64_t size, opencl_view **view)
{
    hal_status status = HAL_OK;
    opencl_view *found = NULL;
    pthread_mutex_lock(&memory->lock);
    if (memory->views)
        for (found = memory->views[view_bucket(offset, size)]; found; found = found->next)
            if (found->offset == offset && found->size == size)
                break;
    if (!found)
        status = create_view(memory, offset, size, &found);
    if (status == HAL_OK)
        atomic_fetch_add_explicit(&found->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&memory->lock);
    *view = found;
    return status;
}

void hal_opencl_view_release(opencl_view *view)
{
    if (atomic_fetch_sub_explicit(&view->references, 1, memory_order_acq_rel) == 1)
        hal_free(view);
}
