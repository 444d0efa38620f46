/* buffer.c - buffers, pooled device memory, imported host memory. */
#include "internal.h"
#include <unistd.h>

#define LARGEST_BLOCK (64u << 20)

/* A native allocation that many buffers share. */
struct hal_memory_block {
    hal_memory_block *next;
    hal_native_memory *memory;
    uint64_t size;
    uint32_t live;
    hal_pool_block pool;
};

hal_memory_block *hal_memory_block_close(hal_device *device, hal_memory_block *block)
{
    hal_memory_block *next = block->next;
    hal_pool_block_free(&block->pool);
    device->backend->memory_destroy(block->memory);
    device->stats.reserved -= block->size;
    hal_free(block);
    return next;
}

/* Count `size` against the limit; false if it does not fit. */
static bool reserve(hal_device *device, uint64_t size)
{
    pthread_mutex_lock(&device->lock);
    bool fits = size <= device->limits.memory && device->stats.reserved <= device->limits.memory - size;
    if (fits) {
        device->stats.reserved += size;
    }
    pthread_mutex_unlock(&device->lock);
    return fits;
}

void hal_memory_unreserve(hal_device *device, uint64_t size)
{
    pthread_mutex_lock(&device->lock);
    device->stats.reserved -= size;
    pthread_mutex_unlock(&device->lock);
}

hal_status hal_memory_reserve(hal_device *device, hal_native_memory_kind kind, uint64_t size, bool collect, void **host,
                              hal_native_memory **memory)
{
    *memory = NULL;
    if (hal_fault_hit(device, HAL_FAULT_ALLOC)) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "injected fault: allocation of %llu bytes on '%s'",
                        (unsigned long long)size, device->object.label);
    }
    hal_status status = HAL_ERROR_OUT_OF_MEMORY;
    /* Buried memory may only need its turn: collect, and try once more. */
    for (int attempt = 0; attempt < (collect ? 2 : 1) && status == HAL_ERROR_OUT_OF_MEMORY; attempt++) {
        if (attempt) {
            hal_collect(device);
        }
        if (!reserve(device, size)) {
            status =
                hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%llu bytes exceed the %llu of device '%s' (HAL_LIMITS memory)",
                         (unsigned long long)size, (unsigned long long)device->limits.memory, device->object.label);
            continue;
        }
        status = device->backend->memory_create(device->native, kind, size, host, memory);
        if (status != HAL_OK) {
            hal_memory_unreserve(device, size);
        }
    }
    return hal_device_note(device, status);
}

/* Take a place in a block that has room. The device is locked. */
static bool place_locked(hal_buffer *buffer, hal_memory_block *block, uint64_t size)
{
    hal_device *device = buffer->object.device;
    if (!hal_pool_alloc(&block->pool, size, device->info.span_alignment, &buffer->offset)) {
        return false;
    }
    block->live++;
    buffer->block = block;
    buffer->memory = block->memory;
    return true;
}

static bool place(hal_buffer *buffer, uint64_t size)
{
    hal_device *device = buffer->object.device;
    bool placed = false;
    pthread_mutex_lock(&device->lock);
    for (hal_memory_block *block = device->blocks; block && !placed; block = block->next) {
        placed = place_locked(buffer, block, size);
    }
    pthread_mutex_unlock(&device->lock);
    return placed;
}

static hal_status add_block(hal_buffer *buffer, uint64_t size)
{
    hal_device *device = buffer->object.device;
    pthread_mutex_lock(&device->lock);
    uint64_t block_size = device->next_block_size;
    pthread_mutex_unlock(&device->lock);
    while (block_size < size) {
        block_size *= 2;
    }
    if (block_size > device->info.max_buffer_size) {
        block_size = size;
    }
    hal_memory_block *block = hal_calloc(&device->core, 1, sizeof *block);
    if (!block || hal_pool_block_init(&device->core, &block->pool, block_size) != HAL_OK) {
        hal_free(block);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a memory pool");
    }
    void *host = NULL;
    hal_status status = hal_memory_reserve(device, HAL_NATIVE_DEVICE, block_size, true, &host, &block->memory);
    if (status != HAL_OK) {
        hal_pool_block_free(&block->pool);
        hal_free(block);
        return status;
    }
    block->size = block_size;
    pthread_mutex_lock(&device->lock);
    place_locked(buffer, block, size);
    block->next = device->blocks;
    device->blocks = block;
    if (device->next_block_size < LARGEST_BLOCK) {
        device->next_block_size *= 2;
    }
    pthread_mutex_unlock(&device->lock);
    return HAL_OK;
}

static hal_status own_memory(hal_buffer *buffer, hal_native_memory_kind kind, uint64_t size)
{
    void *host = NULL;
    hal_status status = hal_memory_reserve(buffer->object.device, kind, size, true, &host, &buffer->memory);
    buffer->reserved = status == HAL_OK ? size : 0;
    return status;
}

static void count(hal_buffer *buffer, bool created)
{
    hal_memory_stats *stats = &buffer->object.device->stats;
    pthread_mutex_lock(&buffer->object.device->lock);
    stats->current += created ? buffer->size : -buffer->size;
    stats->count += created ? 1 : -(uint64_t)1;
    if (stats->current > stats->peak) {
        stats->peak = stats->current;
    }
    pthread_mutex_unlock(&buffer->object.device->lock);
}

static void leave_block(hal_device *device, hal_buffer *buffer)
{
    hal_memory_block *block = buffer->block, *empty = NULL;
    pthread_mutex_lock(&device->lock);
    hal_pool_free(&block->pool, buffer->offset);
    if (--block->live == 0) {
        hal_memory_block **at = &device->blocks;
        while (*at != block) {
            at = &(*at)->next;
        }
        *at = block->next;
        empty = block;
        device->stats.reserved -= block->size;
    }
    pthread_mutex_unlock(&device->lock);
    if (empty) {
        device->backend->memory_destroy(empty->memory);
        hal_pool_block_free(&empty->pool);
        hal_free(empty);
    }
}

static void free_buffer(hal_object *object)
{
    hal_buffer *buffer = (hal_buffer *)object;
    hal_device *device = object->device;
    if (buffer->map_pointer && buffer->memory) {
        device->backend->memory_unmap(buffer->memory, buffer->map_pointer);
        atomic_fetch_sub(&device->mapped_buffers, 1);
    }
    count(buffer, false);
    if (buffer->block) {
        leave_block(device, buffer);
    } else if (buffer->memory) {
        device->backend->memory_destroy(buffer->memory);
        hal_memory_unreserve(device, buffer->reserved);
    }
    if (buffer->release) {
        buffer->release(buffer->release_user, buffer->release_pointer, buffer->size);
    }
    object->type = 0;
    hal_free(object->label);
    hal_free(buffer);
    hal_release(&device->object);
}

static hal_status new_buffer(hal_device *device, uint64_t size, const char *label, hal_buffer **out)
{
    *out = NULL;
    hal_status status = hal_device_usable(device);
    if (status != HAL_OK) {
        return status;
    }
    if (size > device->info.max_buffer_size) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "buffer '%s': %llu bytes, but '%s' allows %llu a buffer",
                        label ? label : "buffer", (unsigned long long)size, device->object.label,
                        (unsigned long long)device->info.max_buffer_size);
    }
    hal_buffer *buffer = hal_calloc(&device->core, 1, sizeof *buffer);
    if (!buffer) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a buffer");
    }
    status = hal_object_init(&buffer->object, HAL_TYPE_BUFFER, device, label, "buffer", free_buffer);
    if (status != HAL_OK) {
        hal_free(buffer);
        return status;
    }
    buffer->size = size;
    buffer->number = atomic_fetch_add(&device->memory_numbers, 1);
    *out = buffer;
    return HAL_OK;
}

hal_status hal_buffer_create(hal_device *device, const hal_buffer_desc *given, hal_buffer **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_buffer_create: buffer is NULL");
    }
    *out = NULL;
    if (!given) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_buffer_create: desc is NULL; pass HAL_BUFFER(.size = ...) (a size of 0 is legal)");
    }
    hal_buffer_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_buffer_desc") : status;
    if (status != HAL_OK) {
        return status;
    }
    if ((unsigned)desc.memory > HAL_MEMORY_UNIFIED) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_buffer_create: memory %d is none of hal_memory",
                        (int)desc.memory);
    }
    hal_collect(device);
    hal_buffer *buffer;
    status = new_buffer(device, desc.size, desc.label, &buffer);
    if (status != HAL_OK) {
        return status;
    }
    buffer->kind = desc.memory;
    /* Small: an empty buffer still has a place, so that an empty span has an address. */
    uint64_t align = device->info.span_alignment, size = desc.size ? (desc.size + align - 1) / align * align : align;
    if (desc.memory != HAL_MEMORY_DEVICE) {
        status = own_memory(buffer, desc.memory == HAL_MEMORY_HOST ? HAL_NATIVE_HOST : HAL_NATIVE_UNIFIED, size);
    } else if (desc.dedicated || size > LARGEST_BLOCK / 2 || size > device->limits.pooled) {
        status = own_memory(buffer, HAL_NATIVE_DEVICE, size);
    } else if (!place(buffer, size)) {
        status = add_block(buffer, size);
        if (status == HAL_ERROR_OUT_OF_MEMORY) { /* a whole block does not fit, but this buffer may */
            status = own_memory(buffer, HAL_NATIVE_DEVICE, size);
        }
    }
    count(buffer, true);
    if (status != HAL_OK) {
        status =
            hal_fail_prefix(status, "buffer '%s' of %llu bytes", buffer->object.label, (unsigned long long)desc.size);
        free_buffer(&buffer->object);
        return status;
    }
    *out = buffer;
    return HAL_OK;
}

hal_status hal_buffer_import(hal_device *device, void *pointer, uint64_t size, hal_release_fn release, void *user,
                             const char *label, hal_buffer **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_buffer_import: buffer is NULL");
    }
    *out = NULL;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    if (status != HAL_OK) {
        return status;
    }
    if (!pointer || !size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_buffer_import: pointer %p, %llu bytes; nothing to import",
                        pointer, (unsigned long long)size);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), room = UINTPTR_MAX - (uintptr_t)pointer;
    if (room < page || size > room - page) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_buffer_import: %llu bytes at %p leave the address space",
                        (unsigned long long)size, pointer);
    }
    if (!device->info.import_host_memory) {
        return hal_fail(HAL_ERROR_UNSUPPORTED, "device '%s' cannot import host memory; create a buffer and upload",
                        device->object.label);
    }
    hal_collect(device);
    hal_buffer *buffer;
    status = new_buffer(device, size, label, &buffer);
    if (status != HAL_OK) {
        return status;
    }
    /* Drivers import whole pages: take the pages around the range, and start inside them. */
    uint64_t start = (uintptr_t)pointer & ~(page - 1);
    uint64_t end = ((uintptr_t)pointer + size + page - 1) & ~(page - 1);
    void *host = (void *)(uintptr_t)start;
    status = device->backend->memory_create(device->native, HAL_NATIVE_IMPORT, end - start, &host, &buffer->memory);
    buffer->kind = HAL_MEMORY_HOST;
    buffer->imported = true;
    buffer->offset = (uintptr_t)pointer - start;
    count(buffer, true);
    if (status != HAL_OK) {
        status = hal_fail_prefix(hal_device_note(device, status), "import of %llu bytes at %p",
                                 (unsigned long long)size, pointer);
        free_buffer(&buffer->object);
        return status;
    }
    buffer->release = release;
    buffer->release_user = user;
    buffer->release_pointer = pointer;
    *out = buffer;
    return HAL_OK;
}

void hal_buffer_destroy(hal_buffer *buffer)
{
    if (buffer && hal_check(buffer, HAL_TYPE_BUFFER, "buffer") == HAL_OK) {
        hal_release(&buffer->object);
    }
}

hal_status hal_buffer_map(hal_buffer *buffer, uint64_t offset, uint64_t size, hal_access access, void **pointer)
{
    if (pointer) {
        *pointer = NULL;
    }
    hal_status status = hal_check(buffer, HAL_TYPE_BUFFER, "buffer");
    if (status == HAL_OK && (!pointer || access < HAL_READ || access > HAL_READ_WRITE)) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                          "hal_buffer_map('%s'): pointer is NULL or access %d is none of hal_access",
                          buffer->object.label, (int)access);
    }
    if (status == HAL_OK) {
        status = hal_device_usable(buffer->object.device);
    }
    if (status != HAL_OK) {
        return status;
    }
    if (size == HAL_REST && offset <= buffer->size) {
        size = buffer->size - offset;
    }
    if (offset > buffer->size || size > buffer->size - offset) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_buffer_map('%s'): [%llu, +%llu) leaves its %llu bytes",
                        buffer->object.label, (unsigned long long)offset, (unsigned long long)size,
                        (unsigned long long)buffer->size);
    }
    if (buffer->kind == HAL_MEMORY_DEVICE) {
        return hal_fail(
            HAL_ERROR_UNSUPPORTED,
            "hal_buffer_map('%s'): it is device memory; use hal_cmd_upload/hal_cmd_download, or HAL_MEMORY_HOST",
            buffer->object.label);
    }
    if (atomic_exchange(&buffer->mapped, true)) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "hal_buffer_map('%s'): already mapped; unmap it first",
                        buffer->object.label);
    }
    hal_device *device = buffer->object.device;
    /* Nothing at the end of a buffer has no address of its own: its first byte stands for it. */
    status = device->backend->memory_map(buffer->memory, buffer->offset + (size ? offset : 0), size ? size : 1, access,
                                         pointer);
    if (status != HAL_OK) {
        atomic_store(&buffer->mapped, false);
        return hal_fail_prefix(hal_device_note(device, status), "hal_buffer_map('%s')", buffer->object.label);
    }
    buffer->map_pointer = *pointer;
    atomic_fetch_add(&device->mapped_buffers, 1);
    return HAL_OK;
}

hal_status hal_buffer_unmap(hal_buffer *buffer)
{
    hal_status status = hal_check(buffer, HAL_TYPE_BUFFER, "buffer");
    if (status != HAL_OK) {
        return status;
    }
    if (hal_forked(buffer->object.device)) {
        return hal_device_usable(buffer->object.device);
    }
    if (!atomic_load(&buffer->mapped) || !buffer->map_pointer) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "hal_buffer_unmap('%s'): it is not mapped", buffer->object.label);
    }
    hal_device *device = buffer->object.device;
    status = device->backend->memory_unmap(buffer->memory, buffer->map_pointer);
    buffer->map_pointer = NULL;
    atomic_store(&buffer->mapped, false);
    atomic_fetch_sub(&device->mapped_buffers, 1);
    return hal_device_note(device, status);
}

uint64_t hal_buffer_size(const hal_buffer *buffer)
{
    return hal_check(buffer, HAL_TYPE_BUFFER, "buffer") == HAL_OK ? buffer->size : 0;
}

const char *hal_buffer_label(const hal_buffer *buffer)
{
    return hal_check(buffer, HAL_TYPE_BUFFER, "buffer") == HAL_OK ? buffer->object.label : "";
}
