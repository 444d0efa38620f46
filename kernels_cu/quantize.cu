/* quantize.cu - conversion of rows: y = x in another dtype, E4M3(x / scale) or x scale; quantize_row takes the scale
 * from each row's largest magnitude. One entry each: dtypes and operation come from flags. A work-item takes
 * four columns at a time. */
#include "kernel_convert.h"
#include "quantize.cuh"

#define THREADS 256

/* Columns [first, first + 4 or fewer) of a row. */
__device__ __forceinline__ void four(uint32_t flags, const float (&given)[4], void *y, uint64_t at_y, uint32_t count,
                                     bool wide, const float (&scale)[4])
{
    const bool strict = ROW_STRICT(flags);
    const uint32_t op = ROW_OP(flags) & 3;
    float v[4];
    uint32_t code[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = flush_if(strict, given[i]);
    if (op == QUANTIZE_CODES || op == QUANTIZE_CAST_NAN) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            code[i] = op == QUANTIZE_CODES ? code_of(v[i], scale[i]) : hm_e4m3_from_f32(v[i], 0x7fu);
        store_codes(y, at_y, count, wide, code);
        return;
    }
    if (op == QUANTIZE_VALUES) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = strict ? hm_mul(v[i], scale[i]) : HM_MUL(v[i], scale[i]);
    }
    store_part4(y, ROW_DTYPE(flags, 1), at_y, count, wide, v);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    quantize(const void *x, void *y, const void *scales, const __grid_constant__ hal_quantize_args args)
{
    const uint32_t row = blockIdx.y + args.group_base[1];
    const uint32_t column = (blockIdx.x + args.group_base[0]) * 4 * blockDim.x + threadIdx.x * 4;
    const uint32_t type_x = ROW_DTYPE(args.flags, 0), type_y = ROW_DTYPE(args.flags, 1),
                   type_s = ROW_DTYPE(args.flags, 2);
    const uint32_t op = ROW_OP(args.flags) & 3, scaling = ROW_OP(args.flags) >> 2;
    if (column >= args.columns)
        return;
    const uint32_t count = min(args.columns - column, 4u);
    const uint64_t ldx = HAL_JOIN64(args.ldx), ldy = HAL_JOIN64(args.ldy);
    float v[4], scale[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    load_part4(x, type_x, row * ldx + column, count, rows_wide(x, type_x, ldx), v);
    if (op >= QUANTIZE_CODES && scaling == QUANTIZE_PER_COLUMN)
        load_part4(scales, type_s, column, count, aligned_four(scales, type_s), scale);
    else if (op >= QUANTIZE_CODES)
        scale[0] = scale[1] = scale[2] = scale[3] = load_element(scales, type_s, scaling == QUANTIZE_PER_ROW ? row : 0);
    four(args.flags, v, y, row * ldy + column, count, rows_wide(y, type_y, ldy), scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    quantize_row(const void *x, void *y, float *scales, const __grid_constant__ hal_quantize_args args)
{
    const uint32_t row = blockIdx.y + args.group_base[1], first = threadIdx.x * 4;
    const uint32_t type_x = ROW_DTYPE(args.flags, 0);
    const uint64_t ldx = HAL_JOIN64(args.ldx), ldy = HAL_JOIN64(args.ldy);
    const bool wide_x = rows_wide(x, type_x, ldx), wide_y = rows_wide(y, HAL_KERNEL_F8E4M3, ldy);
    const bool strict = ROW_STRICT(args.flags);
    float v[4];
    uint32_t most = 0;
    for (uint32_t c = first; c < args.columns; c += 4 * blockDim.x) {
        load_part4(x, type_x, row * ldx + c, args.columns - c, wide_x, v);
#pragma unroll
        for (int i = 0; i < 4; i++)
            most = max(most, magnitude(flush_if(strict, v[i])));
    }
    const float one = hm_row_scale(__uint_as_float(greatest<THREADS>(most, threadIdx.x, blockDim.x))),
                scale[4] = {one, one, one, one};
    if (first == 0)
        scales[row] = one;
    for (uint32_t c = first; c < args.columns; c += 4 * blockDim.x) {
        load_part4(x, type_x, row * ldx + c, args.columns - c, wide_x, v);
        four(args.flags, v, y, row * ldy + c, args.columns - c, wide_y, scale);
    }
}
