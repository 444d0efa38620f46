/* gemm_phases.c - a GEMM in two phases, where it is given a workspace. The first is GEMMs that store FP32 sums there,
 * by whatever kernels are the fastest; gemm_combine adds them in order and does the epilogue. No sum depends on what is
 * done first. It serves
 *
 *  - split-K: a product of fewer tiles than the device has units, and deep. k is cut into parts, which are the problems
 *    of a batch (the last, shorter one a GEMM of its own).
 *  - options that the fast kernels do not have: SwiGLU is two GEMMs, of b and b_up, or of every other row of a
 * transposed B; one of 2n columns where gate and up alternate in a row. The first phase is cut along k, too, but for
 *    gate and up that alternate. */
#include "gemm.h"

#include "recording.h"

#define LEAST_DEPTH 256u /* of a part: less would cost more to add up than it gains */
#define MOST_PARTS  64u
#define ROUND       64u /* depths are multiples, so that parts are aligned as the whole is */

static uint64_t columns_of(const gemm_problem *p, const gemm_phases *phases)
{
    return phases->alternate ? 2 * (uint64_t)p->n : p->n;
}

gemm_phases hal_gemm_phases_of(const gemm_problem *p, uint32_t parts)
{
    const uint32_t depth = parts < 2 ? p->k : (uint32_t)(hal_groups(hal_groups(p->k, parts), ROUND) * ROUND);
    gemm_phases phases = {.depth = depth, .parts = (uint32_t)hal_groups(p->k, depth)};
    phases.alternate = p->interleaved && !p->trans_b;
    phases.sums = p->swiglu && !phases.alternate ? 2 : 1;
    phases.kernels = phases.sums * (p->k % depth ? 2 : 1);
    phases.bytes = (uint64_t)phases.sums * phases.parts * p->batch * p->m * columns_of(p, &phases) * sizeof(float);
    return phases;
}

/* What a first phase computes, as a GEMM that somebody asks for by itself: it is cut along k as that would be, so that
 * the sums have the same bits. */
static gemm_problem without_options(const gemm_problem *p)
{
    gemm_problem plain = *p;
    plain.swiglu = plain.interleaved = plain.trans_d = false;
    plain.operands[GEMM_D].dtype = HAL_F32;
    plain.operands[GEMM_AT_SCALE_A].present = plain.operands[GEMM_AT_SCALE_B].present = false;
    return plain;
}

/* Whether the kernel of the first phase has the options as well, and so the same sums. */
static bool one_kernel(const hal_device_info *info, const gemm_problem *p, const gemm_plan *first, uint32_t without)
{
    gemm_plan plan;
    gemm_kernel chosen;
    return hal_gemm_plan(info, p, without, &plan, &chosen) == HAL_OK && strcmp(plan.spec.name, first->spec.name) == 0;
}

bool hal_gemm_phases(const hal_device_info *info, const gemm_problem *p, uint32_t without, gemm_phases *phases)
{
    const gemm_problem plain = without_options(p);
    gemm_plan plan;
    gemm_kernel chosen;
    if (p->mode == HAL_MODE_STRICT || p->k == 0 || p->operands[GEMM_A].dtype == HAL_F8E4M3) {
        return false;
    }
    uint32_t parts = 1;
    const bool planned = hal_gemm_plan(info, &plain, without, &plan, &chosen) == HAL_OK;
    if (planned && p->mode == HAL_MODE_FAST && p->batch == 1 && p->k >= 2 * LEAST_DEPTH && !p->interleaved) {
        const uint64_t idle = info->compute_units / ((uint64_t)plan.grid.x * plan.grid.y);
        parts = idle < MOST_PARTS ? (uint32_t)idle : MOST_PARTS;
        parts = parts < p->k / LEAST_DEPTH ? parts : p->k / LEAST_DEPTH;
    }
    const bool options = hal_gemm_has_options(p), one = options && planned && one_kernel(info, p, &plan, without);
    *phases = hal_gemm_phases_of(p, parts);
    phases->narrow = one && p->swiglu && chosen == GEMM_KERNEL_TASK;
    return phases->parts > 1 || (options && !one);
}

static hal_span from(hal_span span, uint64_t bytes)
{
    span.offset += bytes;
    span.size -= bytes;
    return span;
}

/* What the first phase stores is the A of the second, and the distance between parts is in its B's stride. */
static hal_status combine_problem(const gemm_problem *p, const gemm_phases *phases, gemm_problem *combine)
{
    *combine = *p;
    combine->k = phases->parts;
    combine->alternate = phases->alternate;
    const uint64_t columns = columns_of(p, phases), matrix = p->m * columns;
    hal_operand *sums = &combine->operands[GEMM_A];
    *sums = (hal_operand){.name = "workspace",
                          .present = true,
                          .span = p->workspace,
                          .dtype = HAL_F32,
                          .rows = p->m,
                          .columns = columns,
                          .ld = columns,
                          .batch = (uint64_t)phases->sums * phases->parts * p->batch,
                          .stride = matrix};
    hal_status status = hal_operand_resolve("hal_gemm", sums, true);
    for (uint32_t i = 0; status == HAL_OK && i < GEMM_ALL_OPERANDS; i++) {
        if (p->operands[i].present && hal_operands_overlap(sums, &p->operands[i])) {
            status = hal_fail(HAL_ERROR_OVERLAP, "hal_gemm: workspace overlaps %s; give it memory of its own",
                              p->operands[i].name);
        }
    }
    sums->ld = columns; /* also of one row */
    combine->operands[GEMM_B].present = combine->operands[GEMM_B_UP].present = false;
    combine->operands[GEMM_B].stride = p->batch * matrix;
    return status;
}

/* A times one B into `sums`, k in parts. */
static hal_status record_sums(hal_cmdlist *list, const gemm_problem *p, const gemm_phases *phases, hal_span b,
                              uint64_t ldb, hal_span sums, uint32_t without, gemm_kernel *used)
{
    const hal_operand *a = &p->operands[GEMM_A];
    const uint64_t size = hal_dtype_size(a->dtype), depth = phases->depth, whole = p->k / depth;
    const bool split = phases->parts > 1;
    const uint64_t columns = columns_of(p, phases);
    hal_gemm_desc desc = {.struct_size = sizeof desc,
                          .m = p->m,
                          .n = columns,
                          .k = depth,
                          .batch = split ? whole : p->batch,
                          .dtype = a->dtype,
                          .dtype_d = HAL_F32,
                          .trans_a = p->trans_a,
                          .trans_b = p->trans_b,
                          .a = a->span,
                          .b = b,
                          .d = sums,
                          .lda = a->ld,
                          .ldb = ldb,
                          .stride_a = !split       ? a->stride
                                      : p->trans_a ? depth * a->ld
                                                   : depth,
                          .stride_b = !split       ? p->operands[GEMM_B].stride
                                      : p->trans_b ? depth
                                                   : depth * ldb,
                          .mode = p->mode};
    hal_status status = hal_gemm_record(list, &desc, without, 0, used);
    if (status == HAL_OK && p->k % depth) {
        desc.k = p->k % depth;
        desc.batch = 1;
        desc.a = from(a->span, whole * desc.stride_a * size);
        desc.b = from(b, whole * desc.stride_b * size);
        desc.d = from(sums, whole * p->m * columns * sizeof(float));
        status = hal_gemm_record(list, &desc, without, 0, used);
    }
    return status;
}

hal_status hal_gemm_record_phases(hal_cmdlist *list, const gemm_problem *p, const gemm_phases *phases, uint32_t without,
                                  gemm_kernel *used)
{
    const hal_operand *b = &p->operands[GEMM_B];
    const bool rows_alternate = p->interleaved && !phases->alternate;
    hal_device *device = hal_cmdlist_device(list);
    hal_kernel *kernel = NULL;
    gemm_plan plan;
    gemm_problem combine;
    hal_status status = combine_problem(p, phases, &combine);
    if (status != HAL_OK) {
        return status;
    }
    hal_gemm_plan_combine(hal_device_get_info(device), &combine, &plan);
    status = hal_kernel_cached(device, &plan.spec, plan.constant_names, &kernel);
    if (status != HAL_OK) {
        return hal_fail_prefix(status, "hal_gemm");
    }
    const uint64_t ldb = rows_alternate ? 2 * b->ld : b->ld;
    const hal_span sums = combine.operands[GEMM_A].span;
    status = record_sums(list, p, phases, b->span, ldb, sums, without, used);
    if (status == HAL_OK && phases->sums == 2) {
        const hal_span up =
            rows_alternate ? from(b->span, b->ld * hal_dtype_size(b->dtype)) : p->operands[GEMM_B_UP].span;
        status = record_sums(list, p, phases, up, ldb, from(sums, phases->bytes / 2), without, used);
    }
    return status == HAL_OK ? hal_gemm_dispatch(list, kernel, &plan, &combine, 0) : status;
}
