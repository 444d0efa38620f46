/* gather.cu - row ids[i] of a table becomes row i of y. One entry: dtypes come from flags. A work-item takes
 * four columns of a row. */
#include "kernel_convert.h"
#include "rows.cuh"

#define THREADS 256

/* Negative ids are beyond any table. */
__device__ __forceinline__ uint64_t id_of(const int32_t *ids, bool int64, uint32_t i)
{
    return int64 ? (uint64_t)(uint32_t)ids[2 * (uint64_t)i] | (uint64_t)(uint32_t)ids[2 * (uint64_t)i + 1] << 32
                 : (uint64_t)(int64_t)ids[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const void *table, const int32_t *ids, void *y, const __grid_constant__ hal_gather_args args)
{
    const uint32_t row = blockIdx.y + args.group_base[1];
    const uint32_t column = (blockIdx.x + args.group_base[0]) * 4 * blockDim.x + threadIdx.x * 4;
    const uint32_t type_t = ROW_DTYPE(args.flags, 0), type_y = ROW_DTYPE(args.flags, 1);
    if (column >= args.columns)
        return;
    const uint32_t count = min(args.columns - column, 4u);
    const uint64_t ldt = HAL_JOIN64(args.ldt), ldy = HAL_JOIN64(args.ldy);
    const uint64_t id = id_of(ids, (ROW_OP(args.flags) & GATHER_INT64) != 0, row);
    float v[4] = {};
    if (id < args.table_rows)
        load_part4(table, type_t, id * ldt + column, count, rows_wide(table, type_t, ldt), v);
    store_part4(y, type_y, row * ldy + column, count, rows_wide(y, type_y, ldy), v);
}
