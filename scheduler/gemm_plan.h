/* gemm_plan.h - what the files that plan a GEMM's kernels share. */
#ifndef HAL_GEMM_PLAN_H
#define HAL_GEMM_PLAN_H

#include "gemm.h"

#include "core.h"

/* Start a plan: a kernel of so many constants, groups of 1, with the first `operands` spans, or GEMM_OPERANDS. */
void hal_gemm_plan_start_with(gemm_plan *plan, const char *name, const uint32_t *constants, uint32_t count,
                              uint32_t operands);
void hal_gemm_plan_start(gemm_plan *plan, const char *name, const uint32_t *constants, uint32_t count);
/* Its tile, and the grid of them that covers D. */
void hal_gemm_plan_cover(gemm_plan *plan, const gemm_problem *p, uint32_t tile_m, uint32_t tile_n, uint32_t tile_k);
/* Whether the problem leaves the choice open, or wants this one. */
bool hal_gemm_plan_wanted(const gemm_problem *p, const char *kernel, uint32_t tile_m, uint32_t tile_n, uint32_t tile_k);
/* Beyond the device's limit loops would end early, and sums be wrong. */
bool hal_gemm_plan_loops_fit(const hal_device_info *info, const gemm_plan *plan);

/* A core's task in GLSL (gemm_texel.c). `without`: GEMM_KERNEL_VIEWS or 0. */
bool hal_gemm_plan_texel_task(const hal_device_info *info, const gemm_problem *p, uint32_t without, gemm_plan *plan);

/* Kernels for matrix units (gemm_matrix.c): without options, with them, and without them on asynchronous units.
 * Whether it does the problem on the device. */
bool hal_gemm_plan_mma(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan);
bool hal_gemm_plan_mma_any(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan);
bool hal_gemm_plan_async(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan);

#endif
