/* gemm_split_k.c - a product of fewer tiles than the device has units, and deep: k is cut into parts, which are the
 * problems of a batch (the last, shorter one a GEMM of its own) and store FP32 sums into the workspace; gemm_combine
 * adds them in order and does the epilogue. Any kernel serves for the parts, and no sum depends on which is done first.
 */
#include "gemm.h"

#include "recording.h"

#define LEAST_DEPTH 256u /* of a part: less would cost more to add up than it gains */
#define MOST_PARTS  64u
#define ROUND       64u /* depths are multiples, so that parts are aligned as the whole is */

static uint32_t depth_of(uint32_t k, uint32_t parts)
{
    return (uint32_t)(hal_groups(hal_groups(k, parts), ROUND) * ROUND);
}

uint32_t hal_gemm_parts(const hal_device_info *info, const gemm_problem *p, uint32_t without)
{
    gemm_plan plan;
    gemm_kernel chosen;
    if (p->mode != HAL_MODE_FAST || p->batch != 1 || p->k < 2 * LEAST_DEPTH || hal_gemm_needs_any(p) ||
        hal_gemm_plan(info, p, without, &plan, &chosen) != HAL_OK) {
        return 1;
    }
    const uint64_t idle = info->compute_units / ((uint64_t)plan.grid.x * plan.grid.y);
    uint32_t parts = idle < MOST_PARTS ? (uint32_t)idle : MOST_PARTS;
    parts = parts < p->k / LEAST_DEPTH ? parts : p->k / LEAST_DEPTH;
    return parts < 2 ? 1 : (uint32_t)hal_groups(p->k, depth_of(p->k, parts));
}

/* The workspace as the A of gemm_combine. */
static hal_status workspace_operand(const gemm_problem *p, uint32_t parts, hal_operand *sums)
{
    *sums =
        (hal_operand){"workspace", true, p->workspace, HAL_F32, p->m, p->n, p->n, parts, (uint64_t)p->m * p->n, 0, 0};
    hal_status status = hal_operand_resolve("hal_gemm", sums, true);
    for (uint32_t i = 0; status == HAL_OK && i < GEMM_ALL_OPERANDS; i++) {
        if (p->operands[i].present && hal_operands_overlap(sums, &p->operands[i])) {
            status = hal_fail(HAL_ERROR_OVERLAP, "hal_gemm: workspace overlaps %s; give it memory of its own",
                              p->operands[i].name);
        }
    }
    return status;
}

static hal_span from(hal_span span, uint64_t bytes)
{
    span.offset += bytes;
    span.size -= bytes;
    return span;
}

/* Parts of `depth` into the workspace, and what is left of k. */
static hal_status record_sums(hal_cmdlist *list, const gemm_problem *p, const hal_operand *sums, uint32_t depth,
                              uint32_t without, gemm_kernel *used)
{
    const hal_operand *a = &p->operands[GEMM_A], *b = &p->operands[GEMM_B];
    const uint64_t size = hal_dtype_size(a->dtype), whole = p->k / depth;
    hal_gemm_desc desc = {.struct_size = sizeof desc,
                          .m = p->m,
                          .n = p->n,
                          .k = depth,
                          .batch = whole,
                          .dtype = a->dtype,
                          .dtype_d = HAL_F32,
                          .trans_a = p->trans_a,
                          .trans_b = p->trans_b,
                          .a = a->span,
                          .b = b->span,
                          .d = sums->span,
                          .lda = a->ld,
                          .ldb = b->ld,
                          .stride_a = p->trans_a ? depth * a->ld : depth,
                          .stride_b = p->trans_b ? depth : depth * b->ld};
    hal_status status = hal_gemm_record(list, &desc, without, 0, used);
    if (status == HAL_OK && p->k % depth) {
        desc.k = p->k % depth;
        desc.batch = 1;
        desc.a = from(a->span, whole * desc.stride_a * size);
        desc.b = from(b->span, whole * desc.stride_b * size);
        desc.d = from(sums->span, whole * sums->stride * sizeof(float));
        status = hal_gemm_record(list, &desc, without, 0, used);
    }
    return status;
}

hal_status hal_gemm_record_parts(hal_cmdlist *list, const gemm_problem *p, uint32_t parts, uint32_t without,
                                 gemm_kernel *used)
{
    const uint32_t depth = depth_of(p->k, parts);
    hal_device *device = hal_cmdlist_device(list);
    hal_kernel *kernel = NULL;
    gemm_plan plan;
    gemm_problem combine = *p;
    combine.k = (uint32_t)hal_groups(p->k, depth);
    combine.operands[GEMM_B].present = false;
    hal_status status = workspace_operand(p, combine.k, &combine.operands[GEMM_A]);
    if (status != HAL_OK) {
        return status;
    }
    hal_gemm_plan_combine(hal_device_get_info(device), &combine, &plan);
    status = hal_kernel_cached(device, &plan.spec, plan.constant_names, &kernel);
    if (status != HAL_OK) {
        return hal_fail_prefix(status, "hal_gemm");
    }
    status = record_sums(list, p, &combine.operands[GEMM_A], depth, without, used);
    return status == HAL_OK ? hal_gemm_dispatch(list, kernel, &plan, &combine, 0) : status;
}
