/* gemm_async.cu - entries of the GEMM for asynchronous matrix units, one for each combination of constants that
 * scheduler/gemm.c asks for. Compiled for sm_90a alone (cmake/kernels.cmake); every other device has gemm_mma. */
#include "gemm_async.cuh"

#define GEMM_ASYNC(dtype, type, trans_a, trans_b, tile_n, stages)                                                      \
    extern "C" __global__ void __launch_bounds__(ASYNC_THREADS, 1)                                                     \
        gemm_async__##dtype##_##trans_a##_##trans_b##_128_##tile_n##_64_##stages(GEMM_ENTRY)                           \
    {                                                                                                                  \
        gemm_async<type, trans_a, trans_b, tile_n, stages>(GEMM_FORWARD);                                              \
    }
#define GEMM_ASYNC_SIZES(dtype, type, trans_a, trans_b)                                                                \
    GEMM_ASYNC(dtype, type, trans_a, trans_b, 256, 4)                                                                  \
    GEMM_ASYNC(dtype, type, trans_a, trans_b, 128, 6)
#define GEMM_ASYNC_TYPE(dtype, type)                                                                                   \
    GEMM_ASYNC_SIZES(dtype, type, 0, 0)                                                                                \
    GEMM_ASYNC_SIZES(dtype, type, 0, 1)                                                                                \
    GEMM_ASYNC_SIZES(dtype, type, 1, 0)                                                                                \
    GEMM_ASYNC_SIZES(dtype, type, 1, 1)

GEMM_ASYNC_TYPE(2, F16)
GEMM_ASYNC_TYPE(3, BF16)
