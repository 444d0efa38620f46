/* memory.c - the stand-in driver's memory: host memory with a list, by address, of what is allocated. */
#include "drv.h"

#include <sys/mman.h>

#define PAGE  4096u
#define FRESH 65536u     /* bytes of fresh memory that are filled, to show who reads them */
#define LARGE (1u << 20) /* from here on memory is mapped: a sanitizer takes long over large blocks */

static struct {
    drv_allocation **list;
    size_t count, capacity;
    size_t used; /* bytes of device and managed memory */
    int running; /* pieces of work */
    drv_allocation *doomed;
} memory;

static bool on_device(drv_memory_kind kind)
{
    return kind == DRV_DEVICE_MEMORY || kind == DRV_MANAGED_MEMORY;
}

/* How many allocations begin at or below the address. */
static size_t place(const void *pointer)
{
    size_t low = 0, high = memory.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)memory.list[middle]->pointer <= (uintptr_t)pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

drv_allocation *drv_note(drv_memory_kind kind, void *pointer, size_t size)
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
    size_t at = place(pointer);
    memmove(memory.list + at + 1, memory.list + at, (memory.count++ - at) * sizeof(drv_allocation *));
    memory.list[at] = allocation;
    memory.used += on_device(kind) ? size : 0;
    return allocation;
}

static void give_back(drv_allocation *allocation)
{
    bool ours = allocation->kind != DRV_REGISTERED && allocation->kind != DRV_GLOBALS;
    if (ours && allocation->size >= LARGE)
        munmap(allocation->pointer, allocation->size);
    else if (ours)
        free(allocation->pointer);
    drv_bury(&allocation->object);
}

void drv_memory_running(int change)
{
    memory.running += change;
    while (memory.running == 0 && memory.doomed) {
        drv_allocation *allocation = memory.doomed;
        memory.doomed = allocation->next_doomed;
        give_back(allocation);
    }
}

void drv_forget(drv_allocation *allocation)
{
    size_t at = place(allocation->pointer) - 1;
    memmove(memory.list + at, memory.list + at + 1, (--memory.count - at) * sizeof(drv_allocation *));
    memory.used -= on_device(allocation->kind) ? allocation->size : 0;
    drv_die(&allocation->object);
    allocation->next_doomed = memory.doomed;
    memory.doomed = allocation;
    drv_memory_running(0);
}

void drv_memory_close(const drv_context *context)
{
    for (size_t i = memory.count; i-- > 0;)
        if (memory.list[i]->object.context == context)
            drv_forget(memory.list[i]);
}

drv_allocation *drv_find(const void *pointer, size_t size)
{
    size_t at = place(pointer);
    if (at == 0)
        return NULL;
    drv_allocation *allocation = memory.list[at - 1];
    size_t skipped = (size_t)((const uint8_t *)pointer - allocation->pointer);
    return skipped < allocation->size && size <= allocation->size - skipped ? allocation : NULL;
}

void *drv_reach(nv_ptr pointer, uint64_t size)
{
    pthread_mutex_lock(&drv_lock);
    drv_allocation *allocation = drv_find((void *)(uintptr_t)pointer, size);
    if (!allocation)
        drv_misuse(NV_ERROR_ILLEGAL_ADDRESS, "%llu bytes at %#llx are touched, which is no memory",
                   (unsigned long long)size, pointer);
    pthread_mutex_unlock(&drv_lock);
    return allocation ? (void *)(uintptr_t)pointer : NULL;
}

sim_range *drv_ranges(size_t *count)
{
    pthread_mutex_lock(&drv_lock);
    sim_range *ranges = drv_alloc(memory.count * sizeof *ranges);
    for (size_t i = 0; i < memory.count; i++) {
        uint64_t start = (uintptr_t)memory.list[i]->pointer;
        ranges[i] = (sim_range){.start = start, .end = start + memory.list[i]->size};
    }
    *count = memory.count;
    pthread_mutex_unlock(&drv_lock);
    return ranges;
}

/* -- allocating and freeing ---------------------------------------------------------------------------------------- */

static nv_result allocate(drv_memory_kind kind, size_t size, void **pointer)
{
    *pointer = NULL;
    if (size == 0)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    size_t limit = drv_set.memory;
    if (size > limit || (on_device(kind) && size > limit - memory.used))
        return NV_ERROR_OUT_OF_MEMORY;
    uint8_t *block = size >= LARGE ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                   : aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (!block || block == MAP_FAILED)
        return NV_ERROR_OUT_OF_MEMORY;
    memset(block, 0xa5, size < FRESH ? size : FRESH); /* fresh memory holds anything */
    drv_note(kind, block, size);
    *pointer = block;
    return NV_SUCCESS;
}

/* Free what an allocating function returned: the exact pointer, of the right kind. */
static nv_result release(const void *pointer, bool host, const char *function)
{
    drv_allocation *allocation = drv_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer ||
        (host ? allocation->kind != DRV_HOST_MEMORY : !on_device(allocation->kind)))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %p is not what it frees", function, pointer);
    nv_result result = drv_check(allocation, DRV_ALLOCATION, function);
    if (result == NV_SUCCESS)
        drv_forget(allocation);
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
        /* The driver pins pages, and a page once only. Globals lie anywhere in the host's memory only here. */
        if (other->kind != DRV_GLOBALS &&
            (uintptr_t)start / PAGE <= ((uintptr_t)other->pointer + other->size - 1) / PAGE &&
            (uintptr_t)other->pointer / PAGE <= ((uintptr_t)start + size - 1) / PAGE)
            return drv_leave(NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    drv_note(DRV_REGISTERED, pointer, size);
    return drv_leave(NV_SUCCESS);
}

nv_result cuMemHostUnregister(void *pointer)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_allocation *allocation = drv_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer || allocation->kind != DRV_REGISTERED)
        return drv_leave(drv_misuse(NV_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister: %p", pointer));
    drv_forget(allocation);
    return drv_leave(NV_SUCCESS);
}

nv_result cuMemHostGetDevicePointer_v2(nv_ptr *device_pointer, void *pointer, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_allocation *allocation = drv_find(pointer, 1);
    if (flags || !allocation || (allocation->kind != DRV_HOST_MEMORY && allocation->kind != DRV_REGISTERED))
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostGetDevicePointer: %p", pointer));
    *device_pointer = (uintptr_t)pointer;
    return drv_leave(NV_SUCCESS);
}

nv_result cuMemGetInfo_v2(size_t *available, size_t *total)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    *available = drv_set.memory - memory.used;
    *total = drv_set.memory;
    return drv_leave(NV_SUCCESS);
}

/* -- copies that wait ---------------------------------------------------------------------------------------------- */

/* These go by the legacy default stream, for which non-blocking streams do not wait, nor it for them. */
static nv_result copy_now(void *dst, const void *src, size_t size, const void *device, const char *function)
{
    if (size > 0 && !drv_find(device, size))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu bytes at %p: not all of it is memory", function, size,
                          device);
    memcpy(dst, src, size);
    return NV_SUCCESS;
}

nv_result cuMemcpyHtoD_v2(nv_ptr dst, const void *src, size_t size)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    void *target = (void *)(uintptr_t)dst;
    return drv_leave(copy_now(target, src, size, target, __func__));
}

nv_result cuMemcpyDtoH_v2(void *dst, nv_ptr src, size_t size)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const void *source = (const void *)(uintptr_t)src;
    return drv_leave(copy_now(dst, source, size, source, __func__));
}
