/* activation_row.cu - act(a), a + b, a b or SiLU(a) b, rounded as a store would, as E4M3 codes with a scale a row: what
 * activation and quantize_row give one after the other. One entry: dtypes, operation and strictness come from flags. A
 * group takes a row, four neighbours a work-item in turn. If the results fit in ACTIVATION_ROW_KEPT bytes of shared
 * memory in the dtype that they are rounded to, they wait there for the scale; else they are computed twice. */
#include "activation.cuh"
#include "quantize.cuh"

/* A row's operands. */
struct RowIn {
    const void *a, *b;
    uint64_t a_at, b_at;
    uint32_t columns, type_a, type_b, op, between;
    bool strict, wide_a, wide_b, b_is_one;
    float alpha;

    /* Columns c to c + 3; zeros beyond the row count for nothing. */
    __device__ __forceinline__ void four(uint32_t c, float (&v)[4]) const
    {
        const uint32_t count = min(columns - c, 4u);
        float w[4] = {};
        load_part4(a, type_a, a_at + c, count, wide_a, v);
        if (op >= ACTIVATION_ADD && b_is_one)
            w[0] = w[1] = w[2] = w[3] = load_element(b, type_b, b_at);
        else if (op >= ACTIVATION_ADD)
            load_part4(b, type_b, b_at + c, count, wide_b, w);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            v[i] = combine(op, strict, flush_if(strict, v[i]), flush_if(strict, w[i]), alpha, between);
            v[i] = i < count ? flush_if(strict, round_to(between, v[i])) : 0.0f;
        }
    }
};

__device__ __forceinline__ uint32_t greater(uint32_t most, const float (&v)[4])
{
    return max(max(most, max(magnitude(v[0]), magnitude(v[1]))), max(magnitude(v[2]), magnitude(v[3])));
}

extern "C" __global__ void __launch_bounds__(ACTIVATION_ROW_THREADS)
    activation_row(const void *a, const void *b, uint8_t *y, float *scales,
                   const __grid_constant__ hal_activation_args args)
{
    const uint32_t row = blockIdx.y + args.group_base[1], first = threadIdx.x * 4, step = blockDim.x * 4;
    const uint32_t type_a = ROW_DTYPE(args.flags, 0), type_b = ROW_DTYPE(args.flags, 1), columns = args.columns;
    const uint64_t lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb), ldy = HAL_JOIN64(args.ldy);
    const RowIn in = {a,
                      b,
                      row * lda,
                      (row % args.b_rows) * ldb,
                      columns,
                      type_a,
                      type_b,
                      ROW_OP(args.flags),
                      ROW_DTYPE(args.flags, 3),
                      ROW_STRICT(args.flags),
                      rows_wide(a, type_a, lda),
                      rows_wide(b, type_b, ldb),
                      args.b_columns == 1,
                      args.alpha};
    const uint32_t between = in.between;
    const bool keep = columns <= ACTIVATION_ROW_KEPT / dtype_bytes(between);
    extern __shared__ uint4 kept[];
    float v[4];
    uint32_t most = 0;
    for (uint32_t c = first; c < columns; c += step) {
        in.four(c, v);
        most = greater(most, v);
        if (keep)
            store_four(kept, between, c, v);
    }
    const float scale = hm_row_scale(__uint_as_float(greatest<ACTIVATION_ROW_THREADS>(most, threadIdx.x, blockDim.x)));
    const bool wide = rows_wide(y, HAL_KERNEL_F8E4M3, ldy);
    if (first == 0)
        scales[row] = scale;
    for (uint32_t c = first; c < columns; c += step) {
        if (keep)
            load_four(kept, between, c, v);
        else
            in.four(c, v);
        const uint32_t code[4] = {code_of(v[0], scale), code_of(v[1], scale), code_of(v[2], scale),
                                  code_of(v[3], scale)};
        store_codes(y, row * ldy + c, columns - c, wide, code);
    }
}
