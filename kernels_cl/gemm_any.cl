/* gemm_any.cl - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed. */
#include "gemm_any_tile.clh"

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) kernel void gemm_any(ALL_SPANS, hal_gemm_args args)
{
    TILES;
    multiply_tile(ALL_FORWARD, args, get_group_id(2) + args.group_base[2],
                  (get_group_id(1) + args.group_base[1]) * TILE, (get_group_id(0) + args.group_base[0]) * TILE, a_tile,
                  b_tile);
}
