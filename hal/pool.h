/* pool.h - places inside one block of native memory, without any driver call. Not thread-safe: the caller locks. */
#ifndef HAL_POOL_H
#define HAL_POOL_H

#include "core.h"

typedef struct hal_pool_range {
    uint64_t begin;
    uint64_t size;
    bool used;
} hal_pool_range;

/* The ranges are sorted, touch each other and cover the block; no two free ones are neighbours. */
typedef struct hal_pool_block {
    hal_core *core;
    uint64_t size;
    uint64_t used;         /* bytes handed out */
    uint64_t free_largest; /* no free range is larger than this; may be too high */
    hal_pool_range *ranges;
    uint32_t count, capacity;
} hal_pool_block;

/* size > 0. HAL_ERROR_OUT_OF_MEMORY for host memory. */
hal_status hal_pool_block_init(hal_core *core, hal_pool_block *block, uint64_t size);
void hal_pool_block_free(hal_pool_block *block);
/* The smallest free range that holds `size` > 0 bytes at a multiple of `alignment` (a power of two). false: it does not
 * fit, or host memory is out; nothing is changed then. */
bool hal_pool_alloc(hal_pool_block *block, uint64_t size, uint64_t alignment, uint64_t *offset);
/* Give back what starts at `offset`. false: nothing does. */
bool hal_pool_free(hal_pool_block *block, uint64_t offset);
/* Whether the invariants hold; for tests. */
bool hal_pool_check(const hal_pool_block *block);

#endif
