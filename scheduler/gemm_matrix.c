/* gemm_matrix.c - the GEMMs for matrix units. A backend that has none of these kernels is found out when the
 * kernel is asked for. */
#include "gemm_plan.h"

/* Whether there is a group for each unit. */
static bool fills(const hal_device_info *info, const gemm_plan *plan)
{
    return (uint64_t)plan->grid.x * plan->grid.y * plan->grid.z >= info->compute_units;
}

typedef struct mma_shape {
    uint32_t m, n, k, warp_m, warp_n, stages;
} mma_shape;

/* The largest tile that the device allows and that leaves no unit without one, else the smallest. `sums`: columns of B
 * for one of D. */
static bool plan_mma(const hal_device_info *info, const gemm_problem *p, const char *name, const mma_shape *shapes,
                     size_t count, uint32_t operands, uint32_t sums, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE",  "TRANS_A", "TRANS_B", "TILE_M", "TILE_N",
                                        "TILE_K", "WARP_M",  "WARP_N",  "STAGES"};
    const uint32_t dtype = (uint32_t)p->operands[GEMM_A].dtype;
    bool found = false;
    if (!info->matrix_units || info->subgroup_size != 32 || dtype == HAL_F32 || p->k == 0) {
        return false;
    }
    for (size_t i = 0; i < count && !(found && fills(info, plan)); i++) {
        const mma_shape *s = &shapes[i];
        const uint32_t threads = 32 * (s->m / s->warp_m) * (s->n / s->warp_n);
        const uint32_t shared = GEMM_MMA_SHARED(s->m, s->n, s->k, s->stages);
        if (threads > info->max_group_size || shared > info->max_shared_memory ||
            !hal_gemm_plan_wanted(p, name, s->m, s->n, s->k)) {
            continue;
        }
        const uint32_t constants[] = {dtype, p->trans_a, p->trans_b, s->m, s->n, s->k, s->warp_m, s->warp_n, s->stages};
        hal_gemm_plan_start_with(plan, name, constants, 9, operands);
        plan->constant_names = names;
        plan->spec.group[0] = threads;
        plan->spec.dynamic_shared = shared;
        hal_gemm_plan_cover(plan, p, s->m, s->n / sums, s->k);
        found = true;
    }
    return found;
}

bool hal_gemm_plan_mma(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const mma_shape shapes[] = {{128, 256, 32, 64, 64, 4}, {128, 128, 32, 64, 32, 3}, {64, 64, 32, 32, 32, 3}};
    return plan_mma(info, p, "gemm_mma", shapes, sizeof shapes / sizeof shapes[0], GEMM_OPERANDS, 1, plan);
}

bool hal_gemm_plan_mma_any(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const mma_shape shapes[] = {{128, 128, 32, 64, 32, 4}, {64, 64, 32, 32, 32, 4}};
    return p->mode != HAL_MODE_STRICT && plan_mma(info, p, "gemm_mma_any", shapes, sizeof shapes / sizeof shapes[0],
                                                  GEMM_ALL_OPERANDS, p->swiglu ? 2 : 1, plan);
}

/* Asynchronous matrix units. Their tiles are large: they pay where rows fill more than half of one, and tiles half of
 * the device, beyond which gemm_mma has more, smaller ones. Batch-invariant: always, since that must not depend on m.
 */
bool hal_gemm_plan_async(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE", "TRANS_A", "TRANS_B", "TILE_M", "TILE_N", "TILE_K", "STAGES"};
    enum { TILE_M = 128, TILE_K = 64, THREADS = 384 };
    static const struct {
        uint32_t n, stages;
    } shapes[] = {{256, 4}, {128, 6}};
    const hal_dtype dtype = p->operands[GEMM_A].dtype;
    const uint64_t small_tiles = hal_groups(p->m, TILE_M) * hal_groups(p->n, 128) * p->batch;
    const bool pays =
        p->want || p->mode == HAL_MODE_BATCH_INVARIANT || (p->m > TILE_M / 2 && 2 * small_tiles >= info->compute_units);
    if (!info->async_matrix || !pays || info->max_group_size < THREADS || dtype == HAL_F32 || p->k == 0) {
        return false;
    }
    bool found = false;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const uint32_t n = shapes[i].n, stages = shapes[i].stages;
        const uint32_t shared = GEMM_ASYNC_SHARED(TILE_M, n, TILE_K, stages);
        if (shared > info->max_shared_memory || !hal_gemm_plan_wanted(p, "gemm_async", TILE_M, n, TILE_K)) {
            continue;
        }
        const uint32_t constants[] = {(uint32_t)dtype, p->trans_a, p->trans_b, TILE_M, n, TILE_K, stages};
        hal_gemm_plan_start(plan, "gemm_async", constants, 7);
        plan->constant_names = names;
        plan->spec.group[0] = THREADS;
        plan->spec.dynamic_shared = shared;
        hal_gemm_plan_cover(plan, p, TILE_M, n, TILE_K);
        found = true;
        if (fills(info, plan)) {
            break;
        }
    }
    return found;
}
