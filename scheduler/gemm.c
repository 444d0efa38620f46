/* gemm.c - the GEMM operator: checks operands, picks a kernel and its tile for the device, records one dispatch.
 *
 * Kernels (files kernels_{cl,glsl,cu}/gemm.*), spans and args as in kernel_abi.h. Constants in order, with the
 * specialisation constant ids 0, 1, 2, ... in that order; DTYPE is of A and B (HAL_KERNEL_F32, _F16, _BF16):
 *
 *  gemm        work-groups, any device. DTYPE TRANS_A TRANS_B TILE_M TILE_N TILE_K MICRO_M MICRO_N
 *              group (TILE_N / MICRO_N, TILE_M / MICRO_M), shared (TILE_M + TILE_N + 8) TILE_K floats at most;
 *              tiles 128 128 16 8 8, 64 64 16 4 4, 32 32 16 4 4
 *  gemm_mma    matrix units (CUDA sm_80), F16 and BF16. DTYPE TRANS_A TRANS_B TILE_M TILE_N TILE_K WARP_M WARP_N STAGES
 *              group 32 (TILE_M / WARP_M) (TILE_N / WARP_N), dynamic shared GEMM_MMA_SHARED;
 *              tiles 128 128 32 64 32 3, 64 64 32 32 32 3
 *  gemm_small  work-groups, m <= ROWS, B read once. DTYPE TRANS_B ROWS TILE_N THREADS; A's transposition by flags
 *              group THREADS, shared THREADS ROWS floats at most; ROWS 1 2 4 8, TILE_N THREADS 32 256, 32 64
 *  gemm_task   one task a group, for CPU devices (OpenCL: group 1; Vulkan: one subgroup of 8, A and B as texel views)
 *  gemm_task_small  the same for m <= 8 (OpenCL)
 *
 * All are right for any size, leading dimension and element-aligned address; the wide forms test the address
 * themselves. Sums are FP32 in an order that depends only on the kernel and its constants. */
#include <hal/ops.h>

#include "kernel_abi.h"

_Static_assert(HAL_KERNEL_F32 == HAL_F32 && HAL_KERNEL_F16 == HAL_F16 && HAL_KERNEL_BF16 == HAL_BF16, "dtype values");
