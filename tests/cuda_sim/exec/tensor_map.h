/* tensor_map.h - the 128 bytes of a CUtensorMap, in this stand-in's own layout (NVIDIA does not document theirs).
 * Written by cuTensorMapEncodeTiled (driver/), read by cp.async.bulk.tensor (op_bulk.c). */
#ifndef TENSOR_MAP_H
#define TENSOR_MAP_H

#include <stdint.h>

#define SIM_TENSOR_MAP_MAGIC UINT32_C(0x70616d74)
typedef struct sim_tensor_map {
    uint32_t magic;
    uint8_t data_type;  /* CUtensorMapDataType */
    uint8_t rank;       /* 1 to 5 */
    uint8_t swizzle;    /* CUtensorMapSwizzle: 0 none, 1 32B, 2 64B, 3 128B */
    uint8_t interleave; /* 0 only */
    uint64_t address;
    uint64_t size[5];          /* elements, innermost first */
    uint64_t stride[4];        /* bytes, of dimensions 1 to 4 (below 2^40) */
    uint16_t box[5];           /* 1 to 256 */
    uint8_t element_stride[5]; /* 1 to 8 */
    uint8_t element_bytes;
    uint8_t fill_nan; /* out-of-bounds elements: 0 zero, 1 NaN */
    uint8_t reserved[23];
} __attribute__((aligned(8))) sim_tensor_map;
_Static_assert(sizeof(sim_tensor_map) == 128, "a CUtensorMap");

#endif
