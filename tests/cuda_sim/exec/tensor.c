/* tensor.c - boxes of a tensor between global and shared memory.
 * Facts: PTX ISA "Tensors" (Dimension, size and format; Tensor Access Modes: Tiled mode, Bounding Box,
 * Traversal-Stride, Out of Boundary Access; Swizzling Modes; Tensor-map), CUDA Driver API cuTensorMapEncodeTiled. */
#include "bulk.h"
#include <string.h>

enum { CHUNK = 16 };

ptx_type tensor_type(const sim_tensor_map *map)
{
    static const ptx_type types[] = {PTX_U8,  PTX_U16, PTX_U32, PTX_S32, PTX_U64,
                                     PTX_S64, PTX_F16, PTX_F32, PTX_F64, PTX_BF16};
    return map->data_type < sizeof types / sizeof types[0] ? types[map->data_type] : PTX_NO_TYPE;
}

/* Elements that dimension `d` of a box has: TMA takes every element_stride-th; never so in the innermost dimension. */
static uint32_t box_size(const sim_tensor_map *map, uint32_t d)
{
    uint32_t step = d ? map->element_stride[d] : 1;
    return (map->box[d] + step - 1) / step;
}

static uint32_t row_bytes(const sim_tensor_map *map)
{
    return map->box[0] * map->element_bytes;
}

static uint32_t row_count(const sim_tensor_map *map)
{
    uint32_t rows = 1;
    for (uint32_t d = 1; d < map->rank; d++) {
        rows *= box_size(map, d);
    }
    return rows;
}

uint32_t tensor_box_bytes(const sim_tensor_map *map)
{
    return row_bytes(map) * row_count(map);
}

/* Why the map cannot be used, or NULL. cuTensorMapEncodeTiled has refused most of it before. */
static const char *map_error(const sim_tensor_map *map, uint32_t rank)
{
    if (map->magic != SIM_TENSOR_MAP_MAGIC) {
        return "these 128 bytes are not a tensor map";
    }
    if (map->rank != rank) {
        return "the tensor map has another number of dimensions";
    }
    if (map->interleave || map->swizzle > 3 || tensor_type(map) == PTX_NO_TYPE) {
        return "a tensor map with an interleaved layout, a swizzle beyond 128B or a converting type is not supported";
    }
    if (map->element_bytes != ptx_type_size(tensor_type(map)) || map->address % 16) {
        return "the tensor map is damaged";
    }
    uint64_t box = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (!map->box[d] || map->box[d] > 256 || !map->element_stride[d] || map->element_stride[d] > 8 ||
            (d && map->stride[d - 1] % 16)) {
            return "the tensor map is damaged";
        }
        box *= map->box[d];
    }
    if (box * map->element_bytes > UINT32_MAX || row_bytes(map) % CHUNK) {
        return "the tensor map is damaged";
    }
    /* A narrower box leaves gaps; how many bytes it then counts is not documented. */
    if (map->swizzle && row_bytes(map) != 16u << map->swizzle) {
        return "the box is not as wide as its swizzle";
    }
    return NULL;
}

sim_next tensor_map_read(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address, uint32_t rank,
                         sim_tensor_map *map)
{
    enum { HALF = 64 }; /* also the alignment of a tensor map */
    for (uint32_t at = 0; at < sizeof *map; at += HALF) {
        const uint8_t *host = sim_reach(warp, insn, lane, PTX_GENERIC, address + at, HALF, SIM_READ, NULL, NULL);
        if (!host) {
            return SIM_FAULT;
        }
        memcpy((uint8_t *)map + at, host, HALF);
    }
    const char *error = map_error(map, rank);
    return error ? sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "%s", error) : SIM_NEXT;
}

/* Swizzling exchanges 16-byte chunks within spans of 32, 64 or 128 bytes: the chunk's number in the span is XORed with
 * bits of the shared address above 128 bytes, as many as the number has. */
static uint32_t swizzled(uint32_t address, uint32_t mode)
{
    return address ^ ((address >> 3) & (((1u << mode) - 1) << 4));
}

static void fill(const sim_tensor_map *map, uint8_t *row)
{
    static const uint8_t nan[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    uint32_t size = map->element_bytes;
    memset(row, 0, row_bytes(map));
    for (uint32_t at = 0; map->fill_nan && at < row_bytes(map); at += size) {
        memcpy(row + at, nan + 8 - size, size);
    }
}

/* A row of the box: which of its bytes lie inside of the tensor, and where they begin in global memory. */
typedef struct span {
    uint64_t global;
    uint32_t first, bytes; /* bytes 0: none */
} span;

static span row_span(const bulk_copy *copy, uint32_t row)
{
    const sim_tensor_map *map = &copy->map;
    uint64_t global = map->address;
    for (uint32_t d = 1; d < map->rank; d++) {
        int64_t at = (int64_t)copy->coordinate[d] + (int64_t)(row % box_size(map, d)) * map->element_stride[d];
        row /= box_size(map, d);
        if (at < 0 || (uint64_t)at >= map->size[d]) {
            return (span){0};
        }
        global += (uint64_t)at * map->stride[d - 1];
    }
    int64_t low = copy->coordinate[0], high = low + map->box[0];
    int64_t begin = low < 0 ? 0 : low;
    int64_t end = (uint64_t)(high < 0 ? 0 : high) > map->size[0] ? (int64_t)map->size[0] : high;
    if (begin >= end) {
        return (span){0};
    }
    return (span){global + (uint64_t)begin * map->element_bytes, (uint32_t)(begin - low) * map->element_bytes,
                  (uint32_t)(end - begin) * map->element_bytes};
}

/* Between a row in order and the box in shared memory. */
static void move_row(const bulk_copy *copy, uint32_t row, uint8_t *ordered, bool to_shared)
{
    uint32_t bytes = row_bytes(&copy->map), at = copy->offset + row * bytes + SIM_SHARED_BASE;
    for (uint32_t chunk = 0; chunk < bytes; chunk += CHUNK) {
        uint8_t *shared = copy->block->shared + swizzled(at + chunk, copy->map.swizzle) - SIM_SHARED_BASE;
        memcpy(to_shared ? shared : ordered + chunk, to_shared ? ordered + chunk : shared, CHUNK);
    }
}

sim_next tensor_load(bulk_copy *copy)
{
    uint8_t ordered[256 * sizeof(uint64_t)];
    uint32_t rows = row_count(&copy->map), bytes = row_bytes(&copy->map);
    for (uint32_t row = 0; row < rows; row++) {
        span s = row_span(copy, row);
        if (s.bytes < bytes) {
            fill(&copy->map, ordered);
        }
        if (s.bytes) {
            const uint8_t *global = sim_global_by_agent(&copy->base.agent, s.global, s.bytes, SIM_READ);
            if (!global) {
                return SIM_FAULT;
            }
            memcpy(ordered + s.first, global, s.bytes);
        }
        move_row(copy, row, ordered, true);
    }
    return SIM_NEXT;
}

void tensor_stage(bulk_copy *copy)
{
    uint32_t rows = row_count(&copy->map), bytes = row_bytes(&copy->map);
    for (uint32_t row = 0; row < rows; row++) {
        move_row(copy, row, copy->staged + (size_t)row * bytes, false);
    }
}

sim_next tensor_store(bulk_copy *copy)
{
    uint32_t rows = row_count(&copy->map), bytes = row_bytes(&copy->map);
    for (uint32_t row = 0; row < rows; row++) {
        span s = row_span(copy, row);
        if (!s.bytes) {
            continue;
        }
        uint8_t *global = sim_global_by_agent(&copy->base.agent, s.global, s.bytes,
                                              copy->reduce == BULK_COPY ? SIM_WRITE : SIM_ATOMIC);
        if (!global) {
            return SIM_FAULT;
        }
        reduce_span(copy->reduce, copy->type, global, copy->staged + (size_t)row * bytes + s.first, s.bytes);
    }
    return SIM_NEXT;
}
