/* memory.c - device, pinned host, managed and imported memory. With unified addressing all of it has one kind of
 * pointer. */
#include "cuda_backend.h"

static nv_result allocate_host(const cuda_driver *driver, hal_native_memory *memory)
{
    void *host = NULL;
    nv_result result =
        driver->cuMemHostAlloc(&host, memory->size, NV_MEMHOSTALLOC_PORTABLE | NV_MEMHOSTALLOC_DEVICEMAP);
    if (result != NV_SUCCESS)
        return result;
    memory->host = host;
    return driver->cuMemHostGetDevicePointer_v2(&memory->pointer, host, 0);
}

static nv_result allocate(const cuda_driver *driver, hal_native_memory *memory)
{
    switch (memory->kind) {
    case HAL_NATIVE_DEVICE:
        return driver->cuMemAlloc_v2(&memory->pointer, memory->size);
    case HAL_NATIVE_UNIFIED:
        /* Without concurrent access the host may not touch managed memory while any kernel runs, whatever it uses. */
        if (memory->device->managed) {
            nv_result result = driver->cuMemAllocManaged(&memory->pointer, memory->size, NV_MEM_ATTACH_GLOBAL);
            memory->host = (uint8_t *)(uintptr_t)memory->pointer;
            return result;
        }
        return allocate_host(driver, memory);
    default:
        return allocate_host(driver, memory);
    }
}

static nv_result register_host(hal_native_device *device, cuda_import *import)
{
    const cuda_driver *driver = &device->driver;
    nv_result result = driver->cuMemHostRegister_v2(import->host, import->size,
                                                    NV_MEMHOSTREGISTER_PORTABLE | NV_MEMHOSTREGISTER_DEVICEMAP);
    if (result != NV_SUCCESS)
        return result;
    result = driver->cuMemHostGetDevicePointer_v2(&import->pointer, import->host, 0);
    if (result != NV_SUCCESS)
        cuda_check_destroy(device, driver->cuMemHostUnregister(import->host), "cuMemHostUnregister");
    return result;
}

/* A page can be registered once only, so buffers in the same pages share the registration. */
static hal_status import_locked(hal_native_device *device, hal_native_memory *memory)
{
    for (cuda_import *import = device->imports; import; import = import->next) {
        if (memory->host >= import->host && memory->host + memory->size <= import->host + import->size) {
            import->refs++;
            memory->import = import;
            return HAL_OK;
        }
    }
    cuda_import *import = hal_calloc(device->core, 1, sizeof *import);
    if (!import)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for an import");
    import->host = memory->host;
    import->size = memory->size;
    import->refs = 1;
    nv_result result = register_host(device, import);
    if (result != NV_SUCCESS) {
        hal_free(import);
        if (result == NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "cuda: cuMemHostRegister_v2(%p, %llu): a part of these pages is registered already, by "
                            "another import or device: import the whole range once",
                            (void *)memory->host, (unsigned long long)memory->size);
        return cuda_fail(&device->driver, result, "cuMemHostRegister_v2(%p, %llu)", (void *)memory->host,
                         (unsigned long long)memory->size);
    }
    import->next = device->imports;
    device->imports = import;
    memory->import = import;
    return HAL_OK;
}

static hal_status import_host(hal_native_memory *memory)
{
    hal_native_device *device = memory->device;
    pthread_mutex_lock(&device->lock);
    hal_status status = import_locked(device, memory);
    if (status == HAL_OK)
        memory->pointer = memory->import->pointer + (nv_ptr)(memory->host - memory->import->host);
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void release_import(hal_native_device *device, cuda_import *import)
{
    pthread_mutex_lock(&device->lock);
    if (--import->refs == 0) {
        cuda_import **link = &device->imports;
        while (*link != import)
            link = &(*link)->next;
        *link = import->next;
        cuda_check_destroy(device, device->driver.cuMemHostUnregister(import->host), "cuMemHostUnregister");
        hal_free(import);
    }
    pthread_mutex_unlock(&device->lock);
}

/* The driver may wait for the device's work before it frees: hal's pools make that rare. */
static void release(hal_native_memory *memory)
{
    hal_native_device *device = memory->device;
    const cuda_driver *driver = &device->driver;
    if (memory->import)
        release_import(device, memory->import);
    else if (memory->kind == HAL_NATIVE_DEVICE || (memory->kind == HAL_NATIVE_UNIFIED && device->managed)) {
        if (memory->pointer)
            cuda_check_destroy(device, driver->cuMemFree_v2(memory->pointer), "cuMemFree_v2");
    } else if (memory->kind != HAL_NATIVE_IMPORT && memory->host)
        cuda_check_destroy(device, driver->cuMemFreeHost(memory->host), "cuMemFreeHost");
}

static const char *const kind_names[] = {"device", "pinned host", "managed", "imported", "staging"};

hal_status cuda_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                              hal_native_memory **out)
{
    bool pushed;
    hal_native_memory *memory = hal_calloc(device->core, 1, sizeof *memory);
    *out = NULL;
    if (!memory)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a buffer");
    memory->device = device;
    memory->kind = kind;
    memory->size = size;
    memory->host = kind == HAL_NATIVE_IMPORT ? *host : NULL;

    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK && kind == HAL_NATIVE_IMPORT) {
        status = import_host(memory);
    } else if (status == HAL_OK) {
        nv_result result = allocate(&device->driver, memory);
        if (result != NV_SUCCESS)
            status = cuda_fail(&device->driver, result, "allocating %llu bytes of %s memory", (unsigned long long)size,
                               kind_names[kind]);
    }
    if (status != HAL_OK)
        release(memory);
    cuda_leave(device, pushed);
    if (status != HAL_OK) {
        hal_free(memory);
        return status;
    }
    if (host && kind != HAL_NATIVE_DEVICE && kind != HAL_NATIVE_IMPORT)
        *host = memory->host;
    *out = memory;
    return HAL_OK;
}

void cuda_memory_destroy(hal_native_memory *memory)
{
    bool pushed;
    if (!memory)
        return;
    cuda_enter(memory->device, &pushed);
    release(memory);
    cuda_leave(memory->device, pushed);
    hal_free(memory);
}

hal_status cuda_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access, void **pointer)
{
    (void)size;
    (void)access; /* pinned and managed memory is coherent */
    *pointer = memory->host + offset;
    return HAL_OK;
}

hal_status cuda_memory_unmap(hal_native_memory *memory, void *pointer)
{
    (void)memory;
    (void)pointer;
    return HAL_OK;
}

nv_ptr cuda_span_address(const hal_native_span *span, const hal_list_values *values)
{
    if (span->memory)
        return span->memory->pointer + span->offset;
    if (span->slot == HAL_NO_SLOT || !values)
        return 0;
    const hal_native_span *bound = &values->bindings[span->slot];
    return bound->memory ? bound->memory->pointer + bound->offset + span->offset : 0;
}

uint64_t cuda_span_size(const hal_native_span *span, const hal_list_values *values)
{
    if (span->size != HAL_REST || !values)
        return span->size;
    return values->bindings[span->slot].size - span->offset;
}
