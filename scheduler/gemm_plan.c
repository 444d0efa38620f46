/* gemm_plan.c - which kernel, with which tile, on which grid. Decided by what the device is and can do and by the
 * shape, never by a driver's name. */
#include "gemm.h"

#include "core.h"

typedef struct gemm_tile {
    uint32_t m, n, k, micro_m, micro_n;
} gemm_tile;

/* Largest first: a larger tile reads less, a smaller one fills more of the device. */
static const gemm_tile tiles[] = {{128, 128, 16, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}};
#define TILE_COUNT (sizeof tiles / sizeof tiles[0])

static const char *const tiled_names[] = {"DTYPE",  "TRANS_A", "TRANS_B", "TILE_M",
                                          "TILE_N", "TILE_K",  "MICRO_M", "MICRO_N"};

static uint32_t groups(uint32_t size, uint32_t tile)
{
    return size / tile + (size % tile != 0);
}

static void spec_start(gemm_plan *plan, const char *name, const uint32_t *constants, uint32_t count)
{
    static const hal_access accesses[GEMM_OPERANDS] = {HAL_READ, HAL_READ, HAL_READ, HAL_WRITE, HAL_READ, HAL_READ};
    memset(plan, 0, sizeof *plan);
    hal_kernel_spec *spec = &plan->spec;
    snprintf(spec->name, sizeof spec->name, "%s", name);
    memcpy(spec->constants, constants, count * sizeof *constants);
    spec->constant_count = count;
    memcpy(spec->bindings, accesses, sizeof accesses);
    spec->binding_count = GEMM_OPERANDS;
    spec->args_size = sizeof(hal_gemm_args);
    spec->group[0] = spec->group[1] = spec->group[2] = 1;
}

static bool tile_fits(const hal_device_info *info, const gemm_tile *tile)
{
    uint32_t x = tile->n / tile->micro_n, y = tile->m / tile->micro_m;
    return x * y <= info->max_group_size && x <= info->max_group_dim[0] && y <= info->max_group_dim[1] &&
           (tile->m + tile->n + 8) * tile->k * sizeof(float) <= info->max_shared_memory;
}

static hal_status plan_tiled(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    const gemm_tile *best = NULL;
    for (size_t i = 0; i < TILE_COUNT; i++) {
        const gemm_tile *tile = &tiles[i];
        if (!tile_fits(info, tile)) {
            continue;
        }
        best = tile;
        uint64_t count = (uint64_t)groups(p->m, tile->m) * groups(p->n, tile->n) * p->batch;
        if (count >= 2 * (uint64_t)info->compute_units) {
            break;
        }
    }
    if (!best) {
        return hal_fail(
            HAL_ERROR_LIMIT,
            "gemm: the device allows groups of %u with %u bytes of shared memory; the smallest tile needs 64 "
            "and 4608",
            info->max_group_size, info->max_shared_memory);
    }
    const uint32_t constants[] = {(uint32_t)p->operands[GEMM_A].dtype,
                                  p->trans_a,
                                  p->trans_b,
                                  best->m,
                                  best->n,
                                  best->k,
                                  best->micro_m,
                                  best->micro_n};
    spec_start(plan, "gemm", constants, 8);
    plan->constant_names = tiled_names;
    plan->spec.group[0] = best->n / best->micro_n;
    plan->spec.group[1] = best->m / best->micro_m;
    plan->grid = HAL_GRID3(groups(p->n, best->n), groups(p->m, best->m), p->batch);
    return HAL_OK;
}

hal_status hal_gemm_plan(const hal_device_info *info, const gemm_problem *problem, uint32_t without, gemm_plan *plan,
                         gemm_kernel *chosen)
{
    (void)without;
    *chosen = 0;
    return plan_tiled(info, problem, plan);
}
