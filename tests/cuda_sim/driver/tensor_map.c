/* tensor_map.c - cuTensorMapEncodeTiled of the stand-in driver, with the checks that its documentation in cuda.h names.
 */
#include "../exec/tensor_map.h"

#include "drv.h"

enum { MAX_RANK = 5, MAP_ALIGN = 64, MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8 };

/* Bytes of an element; 0: a type that is not known here. */
static uint32_t element_bytes(nv_tensor_type type)
{
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static bool is_float(nv_tensor_type type)
{
    return type >= NV_TENSOR_F16;
}

static const char *check_dimensions(const sim_tensor_map *map, const uint64_t *size, const uint64_t *stride,
                                    const uint32_t *box, const uint32_t *element_stride)
{
    for (uint32_t i = 0; i < map->rank; i++) {
        if (size[i] == 0 || size[i] > UINT64_C(1) << 32)
            return "a size is 0 or above 2^32";
        if (box[i] == 0 || box[i] > MAX_BOX)
            return "a side of the box is 0 or above 256";
        if (element_stride[i] == 0 || element_stride[i] > MAX_ELEMENT_STRIDE)
            return "an element stride is 0 or above 8";
        if (i > 0 && (stride[i - 1] % 16 || stride[i - 1] >= UINT64_C(1) << 40))
            return "a stride is no multiple of 16, or not below 2^40";
        if (i == 1 && stride[0] < size[0] * map->element_bytes)
            return "the first stride is below the length of a row";
        if (i > 1 && stride[i - 1] < stride[i - 2])
            return "a stride is below the one before it";
    }
    return NULL;
}

static const char *check_modes(const sim_tensor_map *map, const uint32_t *box, nv_tensor_type type,
                               nv_tensor_interleave interleave, nv_tensor_promotion promotion, nv_tensor_fill fill)
{
    uint32_t row = box[0] * map->element_bytes;
    if (interleave != NV_TENSOR_INTERLEAVE_NONE)
        return "interleaved layouts are not supported here";
    if (row % 16)
        return "a row of the box is no multiple of 16 bytes";
    if (map->swizzle > NV_TENSOR_SWIZZLE_128B)
        return "this swizzle is not supported here";
    if (map->swizzle != NV_TENSOR_SWIZZLE_NONE && row > 16u << map->swizzle)
        return "a row of the box is longer than the swizzle's span";
    if ((unsigned)promotion > NV_TENSOR_PROMOTION_256B)
        return "no such L2 promotion";
    if ((unsigned)fill > NV_TENSOR_FILL_NAN || (fill == NV_TENSOR_FILL_NAN && !is_float(type)))
        return "NaN can fill floating-point tensors only";
    return NULL;
}

nv_result cuTensorMapEncodeTiled(nv_tensor_map *out, nv_tensor_type type, nv_u32 rank, void *address,
                                 const nv_u64 *size, const nv_u64 *stride, const nv_u32 *box,
                                 const nv_u32 *element_stride, nv_tensor_interleave interleave,
                                 nv_tensor_swizzle swizzle, nv_tensor_promotion promotion, nv_tensor_fill fill)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    sim_tensor_map map = {.magic = SIM_TENSOR_MAP_MAGIC,
                          .data_type = (uint8_t)type,
                          .rank = (uint8_t)rank,
                          .swizzle = (uint8_t)swizzle,
                          .address = (uintptr_t)address,
                          .element_bytes = (uint8_t)element_bytes(type),
                          .fill_nan = fill == NV_TENSOR_FILL_NAN};
    const char *wrong = NULL;
    if (!drv_set.profile->clusters)
        return drv_leave(drv_misuse(NV_ERROR_NOT_SUPPORTED, "tensor maps need compute capability 9.0"));
    if (!out || (uintptr_t)out % MAP_ALIGN)
        wrong = "the map is not aligned to 64 bytes";
    else if (map.element_bytes == 0)
        wrong = "this data type is not supported here";
    else if (rank == 0 || rank > MAX_RANK)
        wrong = "the rank is not 1 to 5";
    else if (!address || (uintptr_t)address % 16)
        wrong = "the tensor is not aligned to 16 bytes";
    else if (!size || !box || !element_stride || (rank > 1 && !stride))
        wrong = "an array is NULL";
    else if (!(wrong = check_dimensions(&map, size, stride, box, element_stride)))
        wrong = check_modes(&map, box, type, interleave, promotion, fill);
    if (wrong)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuTensorMapEncodeTiled: %s", wrong));
    for (uint32_t i = 0; i < rank; i++) {
        map.size[i] = size[i];
        map.box[i] = (uint16_t)box[i];
        map.element_stride[i] = (uint8_t)element_stride[i];
        if (i > 0)
            map.stride[i - 1] = stride[i - 1];
    }
    memcpy(out, &map, sizeof map);
    return drv_leave(NV_SUCCESS);
}
