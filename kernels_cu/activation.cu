/* activation.cu - y = act(a), a + b, a b, SiLU(a) b. One entry: dtypes, operation and strictness come from flags. A
 * group of THREADS takes TILE columns of a row. */
#include "activation.cuh"

#define MOST_THREADS 256

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
    activation(const void *a, const void *b, void *y, const __grid_constant__ hal_activation_args args)
{
    const uint32_t row = blockIdx.y + args.group_base[1];
    const uint32_t column = ((blockIdx.x + args.group_base[0]) * blockDim.x + threadIdx.x) * 4;
    const uint32_t type_a = ROW_DTYPE(args.flags, 0), type_b = ROW_DTYPE(args.flags, 1),
                   type_y = ROW_DTYPE(args.flags, 2);
    const uint32_t op = ROW_OP(args.flags), between = ROW_DTYPE(args.flags, 3);
    const bool strict = ROW_STRICT(args.flags), b_is_one = args.b_columns == 1;
    if (column >= args.columns)
        return;
    const uint32_t count = min(args.columns - column, 4u);
    const uint64_t lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb), ldy = HAL_JOIN64(args.ldy);
    float v[4], w[4] = {};
    load_part4(a, type_a, row * lda + column, count, rows_wide(a, type_a, lda), v);
    if (op >= ACTIVATION_ADD) {
        const uint64_t b_row = (row % args.b_rows) * ldb;
        if (b_is_one)
            w[0] = w[1] = w[2] = w[3] = load_element(b, type_b, b_row);
        else
            load_part4(b, type_b, b_row + column, count, rows_wide(b, type_b, ldb), w);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = combine(op, strict, flush_if(strict, v[i]), flush_if(strict, w[i]), args.alpha, between);
    store_part4(y, type_y, row * ldy + column, count, rows_wide(y, type_y, ldy), v);
}
