/* gemm_any.cu - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed.
 * The entry's name ends with DTYPE STRICT PARTS. */
#include "gemm_any_tile.cuh"

#define GEMM_ANY(dtype, strict, parts)                                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        gemm_any__##dtype##_##strict##_##parts(ALL_SPANS, const __grid_constant__ hal_gemm_args args)                  \
    {                                                                                                                  \
        multiply_tile<dtype, strict, parts>(a, b, c, d, bias, residual, up, scale_a, scale_b, scale_d, args,           \
                                            gemm_place(args, TILE, TILE));                                             \
    }
#define GEMM_ANY_TYPE(dtype)                                                                                           \
    GEMM_ANY(dtype, 0, 1)                                                                                              \
    GEMM_ANY(dtype, 0, 2)                                                                                              \
    GEMM_ANY(dtype, 1, 1)                                                                                              \
    GEMM_ANY(dtype, 1, 2)

GEMM_ANY_TYPE(1)
GEMM_ANY_TYPE(2)
GEMM_ANY_TYPE(3)
GEMM_ANY_TYPE(4)
