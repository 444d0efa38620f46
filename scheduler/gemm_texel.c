/* gemm_texel.c - the plan of a core's task in GLSL: operands as texel views, where they can be, since texels are
 * fetched without a branch. */
#include "gemm_plan.h"

/* Whether a problem's operand can be indexed in 32 bits, with room for an edge tile. */
static bool indexes_fit(const hal_operand *o)
{
    return o->rows * o->ld <= INT32_MAX;
}

/* How an operand is seen as texels of 16 bytes: where the view starts, and whether rows start inside texels. */
static bool view_operand(const hal_device_info *info, const hal_operand *o, uint32_t batch, uint64_t *back,
                         uint64_t *bytes, uint32_t *shift)
{
    const uint64_t size = hal_dtype_size(o->dtype), texel = 16 / size;
    if (!hal_operand_placed(o, info->view_alignment)) {
        return false; /* its address is not known until submit, and a view's is restricted */
    }
    *back = hal_operand_before(o, info->view_alignment);
    if (*back > o->span.offset) {
        return false; /* a view would begin before the buffer */
    }
    *bytes = *back + o->bytes;
    *shift = *back % 16 != 0 || o->ld % texel != 0 || (batch > 1 && o->stride % texel != 0);
    return *bytes / 16 + 1 <= info->max_view_elements && *bytes / size <= INT32_MAX;
}

/* Groups of 8 rows that share what is fetched of B. More take longer to compile: only where there is much to compute.
 */
static uint32_t texel_row_groups(const gemm_problem *p, bool shift_b)
{
    const bool large = (uint64_t)p->m * p->n >= (UINT64_C(1) << 24) / p->k;
    const uint32_t best = p->operands[GEMM_A].dtype == HAL_F32 ? (shift_b ? 6 : 4) : 2;
    const uint32_t most = (uint32_t)hal_groups(p->m, 8);
    return !large ? 1 : best < most ? best : most;
}

bool hal_gemm_plan_texel_task(const hal_device_info *info, const gemm_problem *p, uint32_t without, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE",   "TRANS_A", "TRANS_B", "ROW_GROUPS",
                                        "SHIFT_A", "SHIFT_B", "DTYPE_D", "EXTRAS"};
    const hal_operand *o = p->operands;
    uint64_t back[2], bytes[2];
    uint32_t shift[2] = {1, 1};
    if (!info->subgroups || !info->subgroup_shuffle || info->subgroup_size != 8 || info->max_group_size < 8 ||
        p->k == 0 || !indexes_fit(&o[GEMM_A]) || !indexes_fit(&o[GEMM_B])) {
        return false;
    }
    const bool views = !(without & GEMM_KERNEL_VIEWS) &&
                       view_operand(info, &o[GEMM_A], p->batch, &back[0], &bytes[0], &shift[0]) &&
                       view_operand(info, &o[GEMM_B], p->batch, &back[1], &bytes[1], &shift[1]);
    if (!views) {
        shift[0] = shift[1] = 1;
    }
    const hal_dtype dtype = o[GEMM_A].dtype;
    const bool extras = o[GEMM_C].present || o[GEMM_BIAS].present || o[GEMM_RESIDUAL].present || p->act != HAL_ACT_NONE;
    const uint32_t columns = dtype == HAL_F32 ? 32 : 64;
    const uint32_t row_groups = p->want ? p->want->tile_m / 8 : texel_row_groups(p, shift[1]);
    if (row_groups < 1 || row_groups > 8) {
        return false;
    }
    const uint32_t constants[] = {
        (uint32_t)dtype, p->trans_a, p->trans_b, row_groups, shift[0], shift[1], extras ? 0 : (uint32_t)o[GEMM_D].dtype,
        extras};
    hal_gemm_plan_start(plan, views ? "gemm_task" : "gemm_task_address", constants, 8);
    plan->constant_names = names;
    plan->spec.group[0] = 8;
    if (views) {
        plan->spec.views[GEMM_A] = plan->spec.views[GEMM_B] = HAL_VIEW_RGBA32UI;
        plan->back_a = back[0];
        plan->back_b = back[1];
        plan->view_a = bytes[0];
        plan->view_b = bytes[1];
    }
    hal_gemm_plan_cover(plan, p, 8 * row_groups, columns, 0);
    const uint32_t step = dtype == HAL_F32 ? 16 : 8;
    plan->iterations = (uint64_t)p->k / step + 1 + p->k % step + 1 + (uint64_t)row_groups * columns + 1;
    return hal_gemm_plan_loops_fit(info, plan) && hal_gemm_plan_wanted(p, plan->spec.name, 8 * row_groups, columns, 0);
}
