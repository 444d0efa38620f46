/* gemm.cu - entries of the work-group GEMM kernels, one for each combination of constants that scheduler/gemm.c asks
 * for. The entry's name ends with the constants' values in order. */
#include "gemm_small.cuh"
#include "gemm_tile.cuh"

#define GEMM_TILE(dtype, type, trans_a, trans_b, tile_m, tile_n, tile_k, micro_m, micro_n)                             \
    extern "C" __global__ void __launch_bounds__((tile_m) / (micro_m) * ((tile_n) / (micro_n)), (tile_m) == 128  ? 2   \
                                                                                                : (tile_m) == 64 ? 3   \
                                                                                                                 : 10) \
        gemm__##dtype##_##trans_a##_##trans_b##_##tile_m##_##tile_n##_##tile_k##_##micro_m##_##micro_n(GEMM_ENTRY)     \
    {                                                                                                                  \
        gemm_tile<type, trans_a, trans_b, tile_m, tile_n, tile_k, micro_m, micro_n>(GEMM_FORWARD);                     \
    }
#define GEMM_TILE_SIZES(dtype, type, trans_a, trans_b)                                                                 \
    GEMM_TILE(dtype, type, trans_a, trans_b, 128, 128, 16, 8, 8)                                                       \
    GEMM_TILE(dtype, type, trans_a, trans_b, 64, 64, 16, 4, 4)                                                         \
    GEMM_TILE(dtype, type, trans_a, trans_b, 32, 32, 16, 4, 4)
#define GEMM_TILE_TYPE(dtype, type)                                                                                    \
    GEMM_TILE_SIZES(dtype, type, 0, 0)                                                                                 \
    GEMM_TILE_SIZES(dtype, type, 0, 1)                                                                                 \
    GEMM_TILE_SIZES(dtype, type, 1, 0)                                                                                 \
    GEMM_TILE_SIZES(dtype, type, 1, 1)

GEMM_TILE_TYPE(1, F32)
GEMM_TILE_TYPE(2, F16)
GEMM_TILE_TYPE(3, BF16)

#define GEMM_SMALL(dtype, type, trans_b, rows, tile_n, threads)                                                        \
    extern "C" __global__ void __launch_bounds__(threads, 2)                                                           \
        gemm_small__##dtype##_##trans_b##_##rows##_##tile_n##_##threads(GEMM_ENTRY)                                    \
    {                                                                                                                  \
        gemm_small<type, trans_b, rows, tile_n, threads>(GEMM_FORWARD);                                                \
    }
#define GEMM_SMALL_ROWS(dtype, type, trans_b)                                                                          \
    GEMM_SMALL(dtype, type, trans_b, 1, 32, 256)                                                                       \
    GEMM_SMALL(dtype, type, trans_b, 2, 32, 256)                                                                       \
    GEMM_SMALL(dtype, type, trans_b, 4, 32, 256)                                                                       \
    GEMM_SMALL(dtype, type, trans_b, 8, 32, 256)
#define GEMM_SMALL_TYPE(dtype, type)                                                                                   \
    GEMM_SMALL_ROWS(dtype, type, 0)                                                                                    \
    GEMM_SMALL_ROWS(dtype, type, 1)

GEMM_SMALL_TYPE(1, F32)
GEMM_SMALL_TYPE(2, F16)
GEMM_SMALL_TYPE(3, BF16)
