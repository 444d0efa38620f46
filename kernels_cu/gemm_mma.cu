/* gemm_mma.cu - entries of the tensor-core GEMM, one for each combination of constants that scheduler/gemm.c asks for.
 * The entry's name ends with the constants' values in order; `groups` are to fit a multiprocessor at once. A module of
 * its own: gemm.cu's is large enough. */
#include "gemm_mma.cuh"

#define GEMM_MMA(dtype, type, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages, groups)                \
    extern "C" __global__ void __launch_bounds__(32 * ((tile_m) / (warp_m)) * ((tile_n) / (warp_n)), groups)           \
        gemm_mma__##dtype##_##trans_a##_##trans_b##_##tile_m##_##tile_n##_##tile_k##_##warp_m##_##warp_n##_##stages(   \
            GEMM_ENTRY)                                                                                                \
    {                                                                                                                  \
        gemm_mma<type, trans_a, trans_b, tile_m, tile_n, tile_k, warp_m, warp_n, stages>(GEMM_FORWARD);                \
    }
#define GEMM_MMA_SIZES(dtype, type, trans_a, trans_b)                                                                  \
    GEMM_MMA(dtype, type, trans_a, trans_b, 128, 256, 32, 64, 64, 4, 1)                                                \
    GEMM_MMA(dtype, type, trans_a, trans_b, 128, 128, 32, 64, 32, 3, 2)                                                \
    GEMM_MMA(dtype, type, trans_a, trans_b, 64, 64, 32, 32, 32, 3, 4)
#define GEMM_MMA_TYPE(dtype, type)                                                                                     \
    GEMM_MMA_SIZES(dtype, type, 0, 0)                                                                                  \
    GEMM_MMA_SIZES(dtype, type, 0, 1)                                                                                  \
    GEMM_MMA_SIZES(dtype, type, 1, 0)                                                                                  \
    GEMM_MMA_SIZES(dtype, type, 1, 1)

GEMM_MMA_TYPE(2, F16)
GEMM_MMA_TYPE(3, BF16)
