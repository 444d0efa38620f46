/* gemm_any.cl - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed.
 * Constants: DTYPE STRICT PARTS. PARTS is 2 for SwiGLU: the gate's sums, then those it is multiplied by.
 *
 * One work-item computes MICRO x MICRO elements, k ascending, one accumulator for each. The tiles in local memory are
 * k-major; edges are filled with zeros. */
#include "gemm_any.clh"

#define TILE    32 /* rows and columns of D */
#define DEPTH   16
#define MICRO   4
#define SIDE    (TILE / MICRO)
#define THREADS (SIDE * SIDE)
#define PAD     4

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) kernel void gemm_any(ALL_SPANS, hal_gemm_args args)
{
    local float a_tile[DEPTH][TILE + PAD];
    local float b_tile[PARTS][DEPTH][TILE + PAD];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * TILE;
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE;
    const uint tx = get_local_id(0), ty = get_local_id(1), thread = ty * SIDE + tx;
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0, trans_b = (args.flags & GEMM_TRANS_B) != 0;
    const bool alternate = (args.flags & GEMM_INTERLEAVED) != 0;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const ulong a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    const ulong b_column = (trans_b ? ldb : 1) * (alternate ? 2 : 1), b_k = trans_b ? 1 : ldb;
    const ulong a_first = problem * HAL_JOIN64(args.stride_a), b_first = problem * HAL_JOIN64(args.stride_b);

    float sum[MICRO][MICRO][PARTS];
    for (uint i = 0; i < MICRO; i++)
        for (uint j = 0; j < MICRO; j++)
            for (uint part = 0; part < PARTS; part++)
                sum[i][j][part] = 0.0f;

    for (uint k0 = 0; k0 < args.k; k0 += DEPTH) {
        for (uint item = thread; item < TILE * DEPTH; item += THREADS) {
            const uint i = trans_a ? item % TILE : item / DEPTH, k = trans_a ? item / TILE : item % DEPTH;
            float v = 0.0f;
            if (row0 + i < args.m && k0 + k < args.k)
                v = operand(a_span + a_offset, DTYPE, a_first + (row0 + i) * a_row + (k0 + k) * a_k);
            a_tile[k][i] = v;
        }
        for (uint part = 0; part < PARTS; part++) {
            global const uchar *b = part && !alternate ? up_span + up_offset : b_span + b_offset;
            const ulong first = b_first + (alternate ? part * (trans_b ? ldb : 1) : 0);
            for (uint item = thread; item < TILE * DEPTH; item += THREADS) {
                const uint j = trans_b ? item / DEPTH : item % TILE, k = trans_b ? item % DEPTH : item / TILE;
                float v = 0.0f;
                if (column0 + j < args.n && k0 + k < args.k)
                    v = operand(b, DTYPE, first + (column0 + j) * b_column + (k0 + k) * b_k);
                b_tile[part][k][j] = v;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < DEPTH; k++)
            for (uint part = 0; part < PARTS; part++)
                for (uint i = 0; i < MICRO; i++)
                    for (uint j = 0; j < MICRO; j++) {
                        const float x = a_tile[k][ty * MICRO + i], y = b_tile[part][k][j * SIDE + tx];
                        if (STRICT)
                            sum[i][j][part] = hm_add_product(sum[i][j][part], x, y);
                        else
                            sum[i][j][part] += x * y;
                    }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const options o = OPTIONS(problem);
    for (uint i = 0; i < MICRO; i++)
        for (uint j = 0; j < MICRO; j++) {
            const uint row = row0 + ty * MICRO + i, column = column0 + j * SIDE + tx;
            if (row < args.m && column < args.n)
                finish(&o, row, column, sum[i][j]);
        }
}
