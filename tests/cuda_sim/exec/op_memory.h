/* op_memory.h - what the binders of op_memory.c, op_fence.c and op_atomic.c share. */
#ifndef OP_MEMORY_H
#define OP_MEMORY_H

#include "../ptx/bind.h"
#include "sim.h"

enum { SM_60 = 60, SM_70 = 70, SM_80 = 80, SM_90 = 90, SM_100 = 100 };

/* Fails where the module is for an older target. */
bool bind_needs_target(ptx_bind *b, uint32_t target, const char *what);
/* Consumes .cta, .cluster, .gpu or .sys. */
bool bind_scope(ptx_bind *b);
/* Operand `index` must be an address of `space`: 64 bits wide, or 32 in .shared, .local and .param. */
bool bind_memory_address(ptx_bind *b, uint32_t index, ptx_space space, uint32_t *slot, bool *wide, int64_t *offset);

#endif
