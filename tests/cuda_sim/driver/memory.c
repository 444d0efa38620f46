/* memory.c - the stand-in driver's memory: host memory with a list of what is allocated. */
#include "drv.h"

#include <sys/mman.h>

#define PAGE  4096u
#define FRESH 65536u     /* bytes of fresh memory that are filled, to show who reads them */
#define LARGE (1u << 20) /* from here on memory is mapped: a sanitizer takes long over large blocks */

static struct {
    drv_allocation **list;
    size_t count, capacity;
    size_t used; /* bytes of device and managed memory */
} memory;

static bool on_device(drv_memory_kind kind)
{
    return kind == DRV_DEVICE_MEMORY || kind == DRV_MANAGED_MEMORY;
}

static drv_allocation *note(drv_memory_kind kind, void *pointer, size_t size)
{
    if (memory.count == memory.capacity) {
        memory.capacity = 2 * memory.capacity + 64;
        memory.list = realloc(memory.list, memory.capacity * sizeof(drv_allocation *));
        if (!memory.list)
            abort();
    }
    drv_allocation *allocation = drv_new(sizeof *allocation, DRV_ALLOCATION, drv_current());
    allocation->kind = kind;
    allocation->pointer = pointer;
    allocation->size = size;
    memory.list[memory.count++] = allocation;
    memory.used += on_device(kind) ? size : 0;
    return allocation;
}

static void forget(drv_allocation *allocation)
{
    for (size_t i = 0; i < memory.count; i++) {
        if (memory.list[i] == allocation) {
            memory.list[i] = memory.list[--memory.count];
            break;
        }
    }
    memory.used -= on_device(allocation->kind) ? allocation->size : 0;
    if (allocation->kind != DRV_REGISTERED && allocation->size >= LARGE)
        munmap(allocation->pointer, allocation->size);
    else if (allocation->kind != DRV_REGISTERED)
        free(allocation->pointer);
    drv_bury(&allocation->object);
}

void drv_memory_close(const drv_context *context)
{
    for (size_t i = memory.count; i-- > 0;)
        if (memory.list[i]->object.context == context)
            forget(memory.list[i]);
}

drv_allocation *drv_find(const void *pointer, size_t size)
{
    const uint8_t *start = pointer;
    for (size_t i = 0; i < memory.count; i++) {
        drv_allocation *allocation = memory.list[i];
        if (start >= allocation->pointer && start < allocation->pointer + allocation->size &&
            size <= (size_t)(allocation->pointer + allocation->size - start))
            return allocation;
    }
    return NULL;
}

void *drv_reach(nv_ptr pointer, uint64_t size)
{
    pthread_mutex_lock(&drv_lock);
    drv_allocation *allocation = drv_find((void *)(uintptr_t)pointer, size);
    if (!allocation)
        drv_misuse(NV_ERROR_ILLEGAL_ADDRESS, "a kernel touches %llu bytes at %#llx, which is no memory",
                   (unsigned long long)size, pointer);
    pthread_mutex_unlock(&drv_lock);
    return allocation ? (void *)(uintptr_t)pointer : NULL;
}

static nv_result allocate(drv_memory_kind kind, size_t size, void **pointer)
{
    *pointer = NULL;
    if (size == 0)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    size_t limit = drv_total_memory();
    if (size > limit || (on_device(kind) && size > limit - memory.used))
        return NV_ERROR_OUT_OF_MEMORY;
    uint8_t *block = size >= LARGE ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                   : aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (!block || block == MAP_FAILED)
        return NV_ERROR_OUT_OF_MEMORY;
    memset(block, 0xa5, size < FRESH ? size : FRESH); /* fresh memory holds anything */
    note(kind, block, size);
    *pointer = block;
    return NV_SUCCESS;
}

/* Free what an allocating function returned: the exact pointer, of the right kind. */
static nv_result release(const void *pointer, bool host, const char *function)
{
    drv_allocation *allocation = drv_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer || allocation->kind == DRV_REGISTERED ||
        (allocation->kind == DRV_HOST_MEMORY) != host)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %p is not what it frees", function, pointer);
    nv_result result = drv_check(allocation, DRV_ALLOCATION, function);
    if (result == NV_SUCCESS)
        forget(allocation);
    return result;
}

nv_result cuMemAlloc_v2(nv_ptr *pointer, size_t size)
{
    void *block;
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    nv_result result = allocate(DRV_DEVICE_MEMORY, size, &block);
    *pointer = (uintptr_t)block;
    return drv_leave(result);
}

nv_result cuMemFree_v2(nv_ptr pointer)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(release((void *)(uintptr_t)pointer, false, __func__));
}

nv_result cuMemHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    if (!(flags & NV_MEMHOSTALLOC_DEVICEMAP) || flags > 7)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostAlloc: flags %u", flags));
    return drv_leave(allocate(DRV_HOST_MEMORY, size, pointer));
}

nv_result cuMemFreeHost(void *pointer)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(release(pointer, true, __func__));
}

nv_result cuMemAllocManaged(nv_ptr *pointer, size_t size, unsigned int flags)
{
    void *block;
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    if (flags != NV_MEM_ATTACH_GLOBAL)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuMemAllocManaged: flags %u", flags));
    nv_result result = allocate(DRV_MANAGED_MEMORY, size, &block);
    *pointer = (uintptr_t)block;
    return drv_leave(result);
}

nv_result cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    uint8_t *start = pointer;
    if (!pointer || size == 0 || !(flags & NV_MEMHOSTREGISTER_DEVICEMAP))
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostRegister: pointer, size or flags"));
    for (size_t i = 0; i < memory.count; i++) {
        const drv_allocation *other = memory.list[i];
        /* The driver pins pages, and a page once only. */
        if ((uintptr_t)start / PAGE <= ((uintptr_t)other->pointer + other->size - 1) / PAGE &&
            (uintptr_t)other->pointer / PAGE <= ((uintptr_t)start + size - 1) / PAGE)
            return drv_leave(NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    note(DRV_REGISTERED, pointer, size);
    return drv_leave(NV_SUCCESS);
}

nv_result cuMemHostUnregister(void *pointer)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_allocation *allocation = drv_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer || allocation->kind != DRV_REGISTERED)
        return drv_leave(drv_misuse(NV_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister: %p", pointer));
    forget(allocation);
    return drv_leave(NV_SUCCESS);
}

nv_result cuMemHostGetDevicePointer_v2(nv_ptr *device_pointer, void *pointer, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_allocation *allocation = drv_find(pointer, 1);
    if (flags || !allocation || on_device(allocation->kind))
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostGetDevicePointer: %p", pointer));
    *device_pointer = (uintptr_t)pointer;
    return drv_leave(NV_SUCCESS);
}

/* -- copies and fills ---------------------------------------------------------------------------------------------- */

nv_result drv_work_copy(drv_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function)
{
    if (size == 0 || !drv_find((void *)(uintptr_t)dst, size) || !drv_find((void *)(uintptr_t)src, size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu bytes from %#llx to %#llx: not all of it is memory",
                          function, size, src, dst);
    if (dst < src + size && src < dst + size)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: source and target overlap", function);
    *work = (drv_work){.kind = DRV_COPY, .copy = {(uint8_t *)(uintptr_t)dst, (const uint8_t *)(uintptr_t)src, size}};
    return NV_SUCCESS;
}

nv_result drv_work_fill(drv_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                        const char *function)
{
    if ((element_size != 1 && element_size != 2 && element_size != 4) || dst % element_size)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: element size or alignment", function);
    if (element_size < 4 && value >> (8 * element_size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: the value %#x does not fit %u bytes", function, value,
                          element_size);
    if (count == 0 || !drv_find((void *)(uintptr_t)dst, count * element_size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu elements at %#llx: not all of it is memory", function, count,
                          dst);
    *work = (drv_work){.kind = DRV_FILL, .fill = {(uint8_t *)(uintptr_t)dst, value, element_size, count}};
    return NV_SUCCESS;
}

static void fill(const drv_fill *work)
{
    for (size_t i = 0; i < work->count; i++)
        memcpy(work->dst + i * work->element_size, &work->value, work->element_size);
}

nv_result drv_work_run(const drv_work *work)
{
    switch (work->kind) {
    case DRV_LAUNCH:
        return work->launch.function->run(&work->launch);
    case DRV_COPY:
        if (!drv_reach((uintptr_t)work->copy.dst, work->copy.size) ||
            !drv_reach((uintptr_t)work->copy.src, work->copy.size))
            return NV_ERROR_ILLEGAL_ADDRESS;
        memcpy(work->copy.dst, work->copy.src, work->copy.size);
        return NV_SUCCESS;
    case DRV_FILL:
        if (!drv_reach((uintptr_t)work->fill.dst, work->fill.count * work->fill.element_size))
            return NV_ERROR_ILLEGAL_ADDRESS;
        fill(&work->fill);
        return NV_SUCCESS;
    case DRV_NOTHING:
        break;
    }
    return NV_SUCCESS;
}
