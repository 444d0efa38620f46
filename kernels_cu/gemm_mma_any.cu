/* gemm_mma_any.cu - entries of the tensor-core GEMM with options, one for each combination of constants that
 * scheduler/gemm.c asks for. The entry's name ends with the constants' values in order; `groups` are to fit a
 * multiprocessor at once. */
#include "gemm_mma_any.cuh"

#define ANY_FORWARD a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args
#define ANY_ENTRY(dtype, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                       \
    extern "C" __global__ void __launch_bounds__(32 * ((tile_m) / (warp_m)) * ((tile_n) / (warp_n)), groups)             \
        gemm_mma_any__##dtype##_##trans_a##_##trans_b##_##tile_m##_##tile_n##_##tile_k##_##warp_m##_##warp_n##_##stages( \
            ALL_SPANS, const __grid_constant__ hal_gemm_args args)

#define HALF(dtype, type, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                    \
    ANY_ENTRY(dtype, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                         \
    {                                                                                                                  \
        gemm_mma_any<type, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages>(ANY_FORWARD);             \
    }
#define CODES(trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                                \
    ANY_ENTRY(4, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                             \
    {                                                                                                                  \
        gemm_mma_codes<trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages>(ANY_FORWARD);                 \
    }
#define LAYOUT(trans_a, trans_b)                                                                                       \
    CODES(trans_a, trans_b, 128, 128, 32, 64, 32, 4, 2)                                                                \
    CODES(trans_a, trans_b, 64, 64, 32, 32, 32, 4, 4)                                                                  \
    HALF(2, F16, trans_a, trans_b, 128, 128, 32, 64, 32, 4, 2)                                                         \
    HALF(2, F16, trans_a, trans_b, 64, 64, 32, 32, 32, 4, 4)                                                           \
    HALF(3, BF16, trans_a, trans_b, 128, 128, 32, 64, 32, 4, 2)                                                        \
    HALF(3, BF16, trans_a, trans_b, 64, 64, 32, 32, 32, 4, 4)

LAYOUT(0, 0)
LAYOUT(0, 1)
LAYOUT(1, 0)
LAYOUT(1, 1)
