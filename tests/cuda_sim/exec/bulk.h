/* bulk.h - shared by op_bulk.c (cp.async.bulk as an instruction), tensor.c (boxes of a tensor) and reduce.c. */
#ifndef BULK_H
#define BULK_H

#include "sim.h"
#include "tensor_map.h"

typedef enum bulk_reduce {
    BULK_COPY,
    BULK_ADD,
    BULK_MIN,
    BULK_MAX,
    BULK_INC,
    BULK_DEC,
    BULK_AND,
    BULK_OR,
    BULK_XOR
} bulk_reduce;

/* One operation on its way. */
typedef struct bulk_copy {
    sim_async base;
    sim_block *block;  /* the shared memory that a load writes and a store reads */
    uint32_t offset;   /* there, from 0 */
    uint32_t bytes;    /* of shared memory; what a load counts on its mbarrier */
    uint32_t barrier;  /* the mbarrier's offset in `block` */
    uint64_t global;   /* without a tensor map */
    sim_block *source; /* shared to shared */
    uint32_t source_offset;
    bulk_reduce reduce;
    ptx_type type; /* of the reduction */
    uint32_t rank; /* 0: no tensor */
    int32_t coordinate[5];
    sim_tensor_map map;
    uint8_t *staged; /* stores: what was read, in the order of the box */
} bulk_copy;

/* Reads and checks the map at `address` for an instruction of `rank` dimensions. */
sim_next tensor_map_read(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address, uint32_t rank,
                         sim_tensor_map *map);
uint32_t tensor_box_bytes(const sim_tensor_map *map);
/* The element type that a reduction works on; PTX_NO_TYPE: none. */
ptx_type tensor_type(const sim_tensor_map *map);
/* The box from global memory to copy->block; from there to copy->staged; from copy->staged to global memory. Races
 * and defined bits of the shared memory are the caller's. */
sim_next tensor_load(bulk_copy *copy);
void tensor_stage(bulk_copy *copy);
sim_next tensor_store(bulk_copy *copy);

bool reduce_is_known(bulk_reduce reduce, ptx_type type);
/* to[i] = to[i] op from[i], each element atomically; `to` is aligned to an element. BULK_COPY: a copy. */
void reduce_span(bulk_reduce reduce, ptx_type type, uint8_t *to, const uint8_t *from, uint32_t bytes);

#endif
