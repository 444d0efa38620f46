/* pool.c - best fit over a sorted array of ranges. Blocks hold up to some thousands of buffers: a scan of such an array
 * costs about a microsecond, which no buffer creation notices. */
#include "pool.h"

hal_status hal_pool_block_init(hal_core *core, hal_pool_block *block, uint64_t size)
{
    *block = (hal_pool_block){.core = core, .size = size, .free_largest = size, .count = 1, .capacity = 16};
    block->ranges = hal_calloc(core, block->capacity, sizeof *block->ranges);
    if (block->ranges == NULL)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "pool: no host memory for a block of %llu bytes",
                        (unsigned long long)size);
    block->ranges[0] = (hal_pool_range){0, size, false};
    return HAL_OK;
}

void hal_pool_block_free(hal_pool_block *block)
{
    hal_free(block->ranges);
    *block = (hal_pool_block){0};
}

static void insert(hal_pool_block *block, uint32_t at, hal_pool_range range)
{
    memmove(block->ranges + at + 1, block->ranges + at, (block->count - at) * sizeof *block->ranges);
    block->ranges[at] = range;
    block->count++;
}

static void erase(hal_pool_block *block, uint32_t at)
{
    block->count--;
    memmove(block->ranges + at, block->ranges + at + 1, (block->count - at) * sizeof *block->ranges);
}

static uint64_t padding(uint64_t begin, uint64_t alignment)
{
    return (alignment - (begin & (alignment - 1))) & (alignment - 1);
}

static bool reserve(hal_pool_block *block, uint32_t more)
{
    if (block->count + more <= block->capacity)
        return true;
    hal_pool_range *grown = hal_realloc(block->core, block->ranges, (size_t)block->capacity * 2 * sizeof *grown);
    if (grown == NULL)
        return false;
    block->ranges = grown;
    block->capacity *= 2;
    return true;
}

bool hal_pool_alloc(hal_pool_block *block, uint64_t size, uint64_t alignment, uint64_t *offset)
{
    if (size == 0 || size > block->free_largest || !reserve(block, 2))
        return false;
    uint32_t best = UINT32_MAX;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const hal_pool_range *range = &block->ranges[i];
        if (range->used)
            continue;
        if (range->size > largest)
            largest = range->size;
        uint64_t pad = padding(range->begin, alignment);
        if (range->size >= size && range->size - size >= pad &&
            (best == UINT32_MAX || range->size < block->ranges[best].size))
            best = i;
    }
    block->free_largest = largest;
    if (best == UINT32_MAX)
        return false;

    hal_pool_range whole = block->ranges[best];
    uint64_t pad = padding(whole.begin, alignment);
    uint64_t tail = whole.size - pad - size;
    block->ranges[best] = (hal_pool_range){whole.begin + pad, size, true};
    if (tail > 0)
        insert(block, best + 1, (hal_pool_range){whole.begin + pad + size, tail, false});
    if (pad > 0)
        insert(block, best, (hal_pool_range){whole.begin, pad, false});
    block->used += size;
    *offset = whole.begin + pad;
    return true;
}

bool hal_pool_free(hal_pool_block *block, uint64_t offset)
{
    uint32_t low = 0, high = block->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (block->ranges[middle].begin < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == block->count || block->ranges[low].begin != offset || !block->ranges[low].used)
        return false;
    hal_pool_range *range = &block->ranges[low];
    block->used -= range->size;
    range->used = false;
    if (low + 1 < block->count && !range[1].used) {
        range->size += range[1].size;
        erase(block, low + 1);
    }
    if (low > 0 && !range[-1].used) {
        range[-1].size += range->size;
        erase(block, low);
        range--;
    }
    if (range->size > block->free_largest)
        block->free_largest = range->size;
    return true;
}

bool hal_pool_check(const hal_pool_block *block)
{
    uint64_t at = 0, used = 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const hal_pool_range *range = &block->ranges[i];
        if (range->begin != at || range->size == 0)
            return false;
        if (!range->used && (range->size > block->free_largest || (i > 0 && !range[-1].used)))
            return false;
        at += range->size;
        used += range->used ? range->size : 0;
    }
    return at == block->size && used == block->used && block->count <= block->capacity;
}
