/* fake_memory.c - the fake driver's memory: host memory with a list of what is allocated. */
#include "fake.h"

#include <sys/mman.h>

#define PAGE  4096u
#define FRESH 65536u     /* bytes of fresh memory that are filled, to show who reads them */
#define LARGE (1u << 20) /* from here on memory is mapped: a sanitizer takes long over large blocks */

static struct {
    fake_allocation **list;
    size_t count, capacity;
    size_t used; /* bytes of device and managed memory */
} memory;

static bool on_device(fake_memory_kind kind)
{
    return kind == FAKE_DEVICE_MEMORY || kind == FAKE_MANAGED_MEMORY;
}

static fake_allocation *note(fake_memory_kind kind, void *pointer, size_t size)
{
    if (memory.count == memory.capacity) {
        memory.capacity = 2 * memory.capacity + 64;
        memory.list = realloc(memory.list, memory.capacity * sizeof(fake_allocation *));
        if (!memory.list)
            abort();
    }
    fake_allocation *allocation = fake_new(sizeof *allocation, FAKE_ALLOCATION, fake_current());
    allocation->kind = kind;
    allocation->pointer = pointer;
    allocation->size = size;
    memory.list[memory.count++] = allocation;
    memory.used += on_device(kind) ? size : 0;
    return allocation;
}

static void forget(fake_allocation *allocation)
{
    for (size_t i = 0; i < memory.count; i++) {
        if (memory.list[i] == allocation) {
            memory.list[i] = memory.list[--memory.count];
            break;
        }
    }
    memory.used -= on_device(allocation->kind) ? allocation->size : 0;
    if (allocation->kind != FAKE_REGISTERED && allocation->size >= LARGE)
        munmap(allocation->pointer, allocation->size);
    else if (allocation->kind != FAKE_REGISTERED)
        free(allocation->pointer);
    fake_bury(&allocation->object);
}

void fake_memory_close(const fake_context *context)
{
    for (size_t i = memory.count; i-- > 0;)
        if (memory.list[i]->object.context == context)
            forget(memory.list[i]);
}

fake_allocation *fake_find(const void *pointer, size_t size)
{
    const uint8_t *start = pointer;
    for (size_t i = 0; i < memory.count; i++) {
        fake_allocation *allocation = memory.list[i];
        if (start >= allocation->pointer && start < allocation->pointer + allocation->size &&
            size <= (size_t)(allocation->pointer + allocation->size - start))
            return allocation;
    }
    return NULL;
}

void *fake_reach(nv_ptr pointer, uint64_t size)
{
    pthread_mutex_lock(&fake_lock);
    fake_allocation *allocation = fake_find((void *)(uintptr_t)pointer, size);
    if (!allocation)
        fake_misuse(NV_ERROR_ILLEGAL_ADDRESS, "a kernel touches %llu bytes at %#llx, which is no memory",
                    (unsigned long long)size, pointer);
    pthread_mutex_unlock(&fake_lock);
    return allocation ? (void *)(uintptr_t)pointer : NULL;
}

static nv_result allocate(fake_memory_kind kind, size_t size, void **pointer)
{
    *pointer = NULL;
    if (size == 0)
        return fake_misuse(NV_ERROR_INVALID_VALUE, "an allocation of 0 bytes");
    size_t limit = fake_total_memory();
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
    fake_allocation *allocation = fake_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer || allocation->kind == FAKE_REGISTERED ||
        (allocation->kind == FAKE_HOST_MEMORY) != host)
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: %p is not what it frees", function, pointer);
    nv_result result = fake_check(allocation, FAKE_ALLOCATION, function);
    if (result == NV_SUCCESS)
        forget(allocation);
    return result;
}

nv_result cuMemAlloc_v2(nv_ptr *pointer, size_t size)
{
    void *block;
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    nv_result result = allocate(FAKE_DEVICE_MEMORY, size, &block);
    *pointer = (uintptr_t)block;
    return fake_leave(result);
}

nv_result cuMemFree_v2(nv_ptr pointer)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    return fake_leave(release((void *)(uintptr_t)pointer, false, __func__));
}

nv_result cuMemHostAlloc(void **pointer, size_t size, unsigned int flags)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    if (!(flags & NV_MEMHOSTALLOC_DEVICEMAP) || flags > 7)
        return fake_leave(fake_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostAlloc: flags %u", flags));
    return fake_leave(allocate(FAKE_HOST_MEMORY, size, pointer));
}

nv_result cuMemFreeHost(void *pointer)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    return fake_leave(release(pointer, true, __func__));
}

nv_result cuMemAllocManaged(nv_ptr *pointer, size_t size, unsigned int flags)
{
    void *block;
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    if (flags != NV_MEM_ATTACH_GLOBAL)
        return fake_leave(fake_misuse(NV_ERROR_INVALID_VALUE, "cuMemAllocManaged: flags %u", flags));
    nv_result result = allocate(FAKE_MANAGED_MEMORY, size, &block);
    *pointer = (uintptr_t)block;
    return fake_leave(result);
}

nv_result cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    uint8_t *start = pointer;
    if (!pointer || size == 0 || !(flags & NV_MEMHOSTREGISTER_DEVICEMAP))
        return fake_leave(fake_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostRegister: pointer, size or flags"));
    for (size_t i = 0; i < memory.count; i++) {
        const fake_allocation *other = memory.list[i];
        /* The driver pins pages, and a page once only. */
        if ((uintptr_t)start / PAGE <= ((uintptr_t)other->pointer + other->size - 1) / PAGE &&
            (uintptr_t)other->pointer / PAGE <= ((uintptr_t)start + size - 1) / PAGE)
            return fake_leave(NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    note(FAKE_REGISTERED, pointer, size);
    return fake_leave(NV_SUCCESS);
}

nv_result cuMemHostUnregister(void *pointer)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    fake_allocation *allocation = fake_find(pointer, 1);
    if (!allocation || allocation->pointer != pointer || allocation->kind != FAKE_REGISTERED)
        return fake_leave(fake_misuse(NV_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister: %p", pointer));
    forget(allocation);
    return fake_leave(NV_SUCCESS);
}

nv_result cuMemHostGetDevicePointer_v2(nv_ptr *device_pointer, void *pointer, unsigned int flags)
{
    FAKE_ENTER(FAKE_NEEDS_CONTEXT);
    const fake_allocation *allocation = fake_find(pointer, 1);
    if (flags || !allocation || on_device(allocation->kind))
        return fake_leave(fake_misuse(NV_ERROR_INVALID_VALUE, "cuMemHostGetDevicePointer: %p", pointer));
    *device_pointer = (uintptr_t)pointer;
    return fake_leave(NV_SUCCESS);
}

/* -- copies and fills ---------------------------------------------------------------------------------------------- */

nv_result fake_work_copy(fake_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function)
{
    if (size == 0 || !fake_find((void *)(uintptr_t)dst, size) || !fake_find((void *)(uintptr_t)src, size))
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu bytes from %#llx to %#llx: not all of it is memory",
                           function, size, src, dst);
    if (dst < src + size && src < dst + size)
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: source and target overlap", function);
    *work = (fake_work){.kind = FAKE_COPY, .copy = {(uint8_t *)(uintptr_t)dst, (const uint8_t *)(uintptr_t)src, size}};
    return NV_SUCCESS;
}

nv_result fake_work_fill(fake_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                         const char *function)
{
    if ((element_size != 1 && element_size != 2 && element_size != 4) || dst % element_size)
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: element size or alignment", function);
    if (element_size < 4 && value >> (8 * element_size))
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: the value %#x does not fit %u bytes", function, value,
                           element_size);
    if (count == 0 || !fake_find((void *)(uintptr_t)dst, count * element_size))
        return fake_misuse(NV_ERROR_INVALID_VALUE, "%s: %zu elements at %#llx: not all of it is memory", function,
                           count, dst);
    *work = (fake_work){.kind = FAKE_FILL, .fill = {(uint8_t *)(uintptr_t)dst, value, element_size, count}};
    return NV_SUCCESS;
}

static void fill(const fake_fill *work)
{
    for (size_t i = 0; i < work->count; i++)
        memcpy(work->dst + i * work->element_size, &work->value, work->element_size);
}

nv_result fake_work_run(const fake_work *work)
{
    switch (work->kind) {
    case FAKE_LAUNCH:
        return work->launch.function->run(&work->launch);
    case FAKE_COPY:
        if (!fake_reach((uintptr_t)work->copy.dst, work->copy.size) ||
            !fake_reach((uintptr_t)work->copy.src, work->copy.size))
            return NV_ERROR_ILLEGAL_ADDRESS;
        memcpy(work->copy.dst, work->copy.src, work->copy.size);
        return NV_SUCCESS;
    case FAKE_FILL:
        if (!fake_reach((uintptr_t)work->fill.dst, work->fill.count * work->fill.element_size))
            return NV_ERROR_ILLEGAL_ADDRESS;
        fill(&work->fill);
        return NV_SUCCESS;
    case FAKE_NOTHING:
        break;
    }
    return NV_SUCCESS;
}
