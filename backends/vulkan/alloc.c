/* alloc.c - host memory for what a driver keeps of recorded commands.
 *
 * Software drivers keep every command in memory of its own, so that malloc and free are most of the cost of recording.
 * Blocks of a recorder's command pool come from free lists instead: a pool is used by one thread at a time, and the
 * same commands are recorded over and over. */
#include "vulkan_backend.h"

#define GRANULE     32u
#define CHUNK_BYTES (32u << 10)

/* Before each block. */
typedef struct header {
    void *base; /* what to free; NULL: the block belongs to the free list of its class */
    union {
        size_t size; /* with a base */
        size_t class;
    };
} header;

struct vk_chunk {
    struct vk_chunk *next;
    uint64_t unused; /* keeps what follows aligned */
};

_Static_assert(sizeof(header) == 16 && sizeof(struct vk_chunk) == 16, "blocks are aligned to 16 bytes");

static header *header_of(void *block)
{
    return (header *)block - 1;
}

static size_t class_of(size_t size)
{
    return size ? ((size + GRANULE - 1) / GRANULE) : 1; /* some drivers ask for 0 bytes and want a pointer */
}

static void *large_block(vk_allocator *allocator, size_t size, size_t alignment)
{
    if (alignment < sizeof(header))
        alignment = sizeof(header);
    char *base = size < SIZE_MAX / 2 ? hal_calloc(allocator->core, 1, size + alignment + sizeof(header)) : NULL;
    if (!base)
        return NULL;
    uintptr_t place = ((uintptr_t)base + sizeof(header) + alignment - 1) & ~(uintptr_t)(alignment - 1);
    void *block = base + (place - (uintptr_t)base);
    *header_of(block) = (header){.base = base, .size = size};
    return block;
}

static void *fresh_block(vk_allocator *allocator, size_t class)
{
    size_t size = class * GRANULE + sizeof(header);
    if (allocator->left < size) {
        struct vk_chunk *chunk = hal_calloc(allocator->core, 1, CHUNK_BYTES);
        if (!chunk)
            return NULL;
        chunk->next = allocator->chunks;
        allocator->chunks = chunk;
        allocator->bump = (char *)(chunk + 1);
        allocator->left = CHUNK_BYTES - sizeof *chunk;
    }
    void *block = allocator->bump + sizeof(header);
    allocator->bump += size;
    allocator->left -= size;
    *header_of(block) = (header){.base = NULL, .class = class};
    return block;
}

static void *VKAPI_PTR allocate(void *user, size_t size, size_t alignment, VkSystemAllocationScope scope)
{
    vk_allocator *allocator = user;
    (void)scope;
    size_t class = class_of(size);
    if (class >= VK_ALLOCATOR_CLASSES || alignment > sizeof(header))
        return large_block(allocator, size, alignment);
    void *block = allocator->lists[class];
    if (!block)
        return fresh_block(allocator, class);
    memcpy(&allocator->lists[class], block, sizeof(void *));
    return block;
}

static void VKAPI_PTR release(void *user, void *block)
{
    vk_allocator *allocator = user;
    if (!block)
        return;
    const header *head = header_of(block);
    if (head->base) {
        hal_free(head->base);
        return;
    }
    size_t class = head->class;
    memcpy(block, &allocator->lists[class], sizeof(void *));
    allocator->lists[class] = block;
}

static void *VKAPI_PTR reallocate(void *user, void *original, size_t size, size_t alignment,
                                  VkSystemAllocationScope scope)
{
    if (size == 0) {
        release(user, original);
        return NULL;
    }
    void *block = allocate(user, size, alignment, scope);
    if (block && original) {
        const header *head = header_of(original);
        size_t old = head->base ? head->size : head->class * GRANULE;
        memcpy(block, original, old < size ? old : size);
        release(user, original);
    }
    return block;
}

hal_status hal_vk_allocator_create(hal_core *core, vk_allocator **out)
{
    vk_allocator *allocator = hal_calloc(core, 1, sizeof *allocator);
    if (!allocator)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a command pool");
    allocator->core = core;
    allocator->callbacks = (VkAllocationCallbacks){
        .pUserData = allocator,
        .pfnAllocation = allocate,
        .pfnReallocation = reallocate,
        .pfnFree = release,
    };
    *out = allocator;
    return HAL_OK;
}

void hal_vk_allocator_destroy(vk_allocator *allocator)
{
    if (!allocator)
        return;
    for (struct vk_chunk *chunk = allocator->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        hal_free(chunk);
    }
    hal_free(allocator);
}
