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
 *              tiles 128 256 32 64 64 4, 128 128 32 64 32 3, 64 64 32 32 32 3
 *  gemm_mma_any  the same constants, and E4M3: what gemm_any has but F32 and strict sums;
 *              tiles 128 128 32 64 32 4, 64 64 32 32 32 4, in columns of B
 *  gemm_async  asynchronous matrix units (CUDA 9.0), F16 and BF16. DTYPE TRANS_A TRANS_B TILE_M TILE_N TILE_K STAGES
 *              group 384, dynamic shared GEMM_ASYNC_SHARED; tiles 128 256 64 4, 128 128 64 6
 *  gemm_small  work-groups, m <= ROWS, B read once. DTYPE TRANS_B ROWS TILE_N THREADS; A's transposition by flags
 *              group THREADS, shared THREADS ROWS floats at most; ROWS 1 2 4 8, TILE_N THREADS 32 256 (CL, GLSL: 32 64)
 *  gemm_task   one task a group, for CPU devices: OpenCL, group 1: DTYPE TRANS_A TRANS_B TILE_M TILE_N TILE_K
 *              Vulkan, one subgroup of 8, A and B as texel views: DTYPE TRANS_A TRANS_B ROW_GROUPS SHIFT_A SHIFT_B
 *              DTYPE_D EXTRAS; gemm_task_address where no views can be made; gemm_task_flat, with FLAGS REST
 *              FOURS for the last two, where D's rows start at multiples of 32 bytes (gemm_texel.c)
 *  gemm_task_small  the same for m <= 16 (OpenCL): DTYPE TRANS_B ROWS TILE_N TILE_K; ROWS 1 2 4 8 12 16
 *              both in OpenCL: with STRICT PARTS behind these, all that gemm_any has; then TILE_N counts columns of B
 *  gemm_combine  work-groups: what the first of two phases (gemm_phases.c) stored, and the epilogue. THREADS PARTS
 *  gemm_any    work-groups, any device, with what the others do not have: F8E4M3, scales, strict sums, SwiGLU, D
 *              transposed. DTYPE STRICT PARTS, which is 2 for SwiGLU. Group (8, 8), tile 32 32 16
 *  gemm_queue  the same, and D's rows quantised (gemm_queue.c)
 *
 * All are right for any size, leading dimension and element-aligned address; the wide forms test the address
 * themselves. Sums are FP32 in an order that depends only on the kernel and its constants: k ascending, one
 * accumulator an element, in gemm, gemm_any, gemm_task (address) and, B plain, gemm_task_small; 16 k at a time in
 * gemm_mma, gemm_mma_any and gemm_async; in slices in the others, which are therefore left out in batch-invariant mode.
 */
#include "gemm.h"

#include "recording.h"
#include "tuning.h"

_Static_assert(HAL_KERNEL_F32 == HAL_F32 && HAL_KERNEL_F16 == HAL_F16 && HAL_KERNEL_BF16 == HAL_BF16, "dtype values");
_Static_assert(GEMM_ACT_RELU == HAL_ACT_RELU && GEMM_ACT_GELU_ERF == HAL_ACT_GELU_ERF &&
                   GEMM_ACT_GELU_TANH == HAL_ACT_GELU_TANH && GEMM_ACT_SILU == HAL_ACT_SILU,
               "activation values");
_Static_assert(sizeof(hal_gemm_args) <= HAL_MAX_ARGS, "argument size");

static const char op[] = "hal_gemm";

/* What operands that are not E4M3 by default have where D or A is. */
static hal_dtype not_f8(hal_dtype dtype)
{
    return dtype == HAL_F8E4M3 ? HAL_F32 : dtype;
}

static hal_status resolve_dtypes(hal_gemm_desc *desc)
{
    hal_status status = hal_operand_dtype(op, "dtype", &desc->dtype, HAL_F32, true);
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_d", &desc->dtype_d, not_f8(desc->dtype), true) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_c", &desc->dtype_c, not_f8(desc->dtype_d), false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_bias", &desc->dtype_bias, HAL_F32, false) : status;
    status = status == HAL_OK
                 ? hal_operand_dtype(op, "dtype_residual", &desc->dtype_residual, not_f8(desc->dtype_d), false)
                 : status;
    return status == HAL_OK ? hal_operand_dtype(op, "round_between", &desc->round_between, HAL_F32, false) : status;
}

static hal_status check_overlap(const gemm_problem *p)
{
    const hal_operand *d = &p->operands[GEMM_D];
    const uint32_t exactly = p->trans_d ? 0 : 1u << GEMM_C | 1u << GEMM_RESIDUAL;
    hal_status status = hal_operand_check_output(op, p->operands, GEMM_ALL_OPERANDS, GEMM_D, exactly);
    if (status != HAL_OK) {
        return status;
    }
    /* The problems of a batch, too, must not write over each other: whole matrices apart, or blocks of columns apart.
     */
    const uint64_t matrix = (d->rows - 1) * d->ld + d->columns;
    bool columns_apart = d->stride >= d->columns && (p->batch - 1) * d->stride + d->columns <= d->ld;
    if (p->batch > 1 && d->stride < matrix && !columns_apart) {
        return hal_fail(HAL_ERROR_OVERLAP,
                        "hal_gemm: stride_d is %llu: the problems of the batch overlap; a matrix takes %llu",
                        (unsigned long long)d->stride, (unsigned long long)matrix);
    }
    return HAL_OK;
}

static hal_operand matrix(const char *name, bool present, hal_span span, hal_dtype dtype, uint64_t rows,
                          uint64_t columns, uint64_t ld, uint64_t batch, uint64_t stride)
{
    return (hal_operand){name, present, span, dtype, rows, columns, ld, batch, stride, 0, 0, 0};
}

static bool given_span(hal_span span)
{
    return span.kind != HAL_SPAN_NONE;
}

static void describe_operands(const hal_gemm_desc *desc, gemm_problem *p)
{
    const uint64_t m = desc->m, n = desc->n, k = p->k, batch = p->batch, wide = p->interleaved ? 2 * n : n;
    const bool two = p->swiglu && !p->interleaved, ta = desc->trans_a, tb = desc->trans_b, td = desc->trans_d;
    const uint64_t scales_a = desc->one_scale_a ? 1 : m;
    const uint64_t scales_b = !desc->one_scale_b ? (p->swiglu ? 2 * n : n) : two ? 2 : 1;
    hal_operand *o = p->operands;
    o[GEMM_A] = matrix("a", k > 0, desc->a, desc->dtype, ta ? k : m, ta ? m : k, desc->lda, batch, desc->stride_a);
    o[GEMM_B] =
        matrix("b", k > 0, desc->b, desc->dtype, tb ? wide : k, tb ? k : wide, desc->ldb, batch, desc->stride_b);
    o[GEMM_B_UP] =
        matrix("b_up", two && k > 0, desc->b_up, desc->dtype, tb ? n : k, tb ? k : n, desc->ldb, batch, desc->stride_b);
    o[GEMM_C] = matrix("c", given_span(desc->c) && desc->beta != 0.0f, desc->c, desc->dtype_c, m, n, desc->ldc, batch,
                       desc->stride_c);
    o[GEMM_D] = matrix("d", true, desc->d, desc->dtype_d, td ? n : m, td ? m : n, desc->ldd, batch, desc->stride_d);
    o[GEMM_BIAS] = matrix("bias", given_span(desc->bias), desc->bias, desc->dtype_bias, 1, n, 0, 1, 0);
    o[GEMM_RESIDUAL] = matrix("residual", given_span(desc->residual), desc->residual, desc->dtype_residual, m, n,
                              desc->ldr, batch, desc->stride_r);
    o[GEMM_AT_SCALE_A] = matrix("scale_a", given_span(desc->scale_a), desc->scale_a, HAL_F32, 1, scales_a, 0, batch,
                                desc->stride_scale_a);
    o[GEMM_AT_SCALE_B] = matrix("scale_b", given_span(desc->scale_b), desc->scale_b, HAL_F32, 1, scales_b, 0, batch,
                                desc->stride_scale_b);
    o[GEMM_AT_SCALE_D] =
        matrix("scale_d", given_span(desc->scale_d), desc->scale_d, HAL_F32, 1, m, 0, batch, desc->stride_scale_d);
}

/* What goes together. */
static hal_status check_options(const hal_gemm_desc *desc, const gemm_problem *p)
{
    if ((unsigned)desc->act > HAL_ACT_SIGMOID) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: act is %d; use a hal_act", (int)desc->act);
    }
    if ((unsigned)desc->mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: mode is %d; use a hal_mode", (int)desc->mode);
    }
    if (desc->interleaved && given_span(desc->b_up)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: interleaved and b_up; gate and up are one or the other");
    }
    if (p->swiglu &&
        (desc->act != HAL_ACT_NONE || given_span(desc->bias) || (given_span(desc->c) && desc->beta != 0.0f))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: SwiGLU takes no c, bias or act");
    }
    if (given_span(desc->scale_d) && desc->dtype_d != HAL_F8E4M3) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: scale_d with dtype_d %s; it is for HAL_F8E4M3",
                        hal_dtype_name(desc->dtype_d));
    }
    return HAL_OK;
}

hal_status hal_gemm_resolve(const hal_gemm_desc *given, bool spans, gemm_problem *p, bool *empty)
{
    hal_gemm_desc desc;
    *empty = false;
    if (!given) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: desc is NULL; use HAL_GEMM(...)");
    }
    hal_status status = hal_desc_read(given, &desc, sizeof desc, "hal_gemm_desc");
    if (status != HAL_OK || (status = resolve_dtypes(&desc)) != HAL_OK) {
        return status;
    }
    const uint64_t batch = desc.batch_is_zero ? 0 : desc.batch ? desc.batch : 1;
    *p = (gemm_problem){.trans_a = desc.trans_a,
                        .trans_b = desc.trans_b,
                        .trans_d = desc.trans_d,
                        .swiglu = desc.interleaved || given_span(desc.b_up),
                        .interleaved = desc.interleaved,
                        .one_scale_a = desc.one_scale_a,
                        .one_scale_b = desc.one_scale_b,
                        .act = desc.act,
                        .between = desc.round_between,
                        .mode = desc.mode,
                        .alpha = desc.alpha_is_zero   ? 0.0f
                                 : desc.alpha == 0.0f ? 1.0f
                                                      : desc.alpha,
                        .beta = desc.beta,
                        .workspace = desc.workspace,
                        .swiglu_alpha = desc.swiglu_alpha == 0.0f ? 1.0f : desc.swiglu_alpha};
    if ((status = check_options(&desc, p)) != HAL_OK) {
        return status;
    }
    if (desc.m == 0 || desc.n == 0 || batch == 0) {
        *empty = true;
        return HAL_OK;
    }
    if (desc.m > HAL_MAX_DIMENSION || desc.n > HAL_MAX_DIMENSION || desc.k > HAL_MAX_DIMENSION ||
        batch > HAL_MAX_DIMENSION) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_gemm: m, n, k, batch are %llu, %llu, %llu, %llu; each must be below 2^31",
                        (unsigned long long)desc.m, (unsigned long long)desc.n, (unsigned long long)desc.k,
                        (unsigned long long)batch);
    }
    p->m = (uint32_t)desc.m;
    p->n = (uint32_t)desc.n;
    p->batch = (uint32_t)batch;
    p->k = p->alpha == 0.0f ? 0 : (uint32_t)desc.k;
    describe_operands(&desc, p);
    hal_operand *d = &p->operands[GEMM_D];
    for (size_t i = 0; i < GEMM_ALL_OPERANDS; i++) {
        hal_operand *o = &p->operands[i];
        if (i == GEMM_D && d->stride == 0 && __builtin_mul_overflow(d->rows, d->ld ? d->ld : d->columns, &d->stride)) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_gemm: d with leading dimension %llu passes 2^63 bytes",
                            (unsigned long long)d->ld);
        }
        status = hal_operand_resolve(op, o, spans);
        if (status != HAL_OK) {
            return status;
        }
    }
    return spans ? check_overlap(p) : HAL_OK;
}

static uint32_t scale_flag(const hal_operand *scale, bool one)
{
    return !scale->present ? 0 : one ? GEMM_SCALE_ONE : GEMM_SCALE_EACH;
}

uint32_t hal_gemm_flags(const gemm_problem *p)
{
    const hal_operand *o = p->operands;
    uint32_t dtypes[GEMM_OPERANDS];
    for (size_t i = 0; i < GEMM_OPERANDS; i++) {
        dtypes[i] = o[i].present ? (uint32_t)o[i].dtype : 0;
    }
    return GEMM_FLAGS(dtypes[GEMM_C], dtypes[GEMM_D], dtypes[GEMM_BIAS], dtypes[GEMM_RESIDUAL], (uint32_t)p->between,
                      (uint32_t)p->act);
}

void hal_gemm_arguments(const gemm_problem *p, const gemm_plan *plan, hal_gemm_args *args)
{
    const hal_operand *o = p->operands;
    *args = (hal_gemm_args){.m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .alpha = p->k ? p->alpha : 0.0f,
                            .beta = p->beta,
                            .swiglu_alpha = p->swiglu_alpha,
                            .base_a = (uint32_t)(plan->back_a / hal_dtype_size(o[GEMM_A].dtype)),
                            .base_b = (uint32_t)(plan->back_b / hal_dtype_size(o[GEMM_B].dtype))};
    args->flags = hal_gemm_flags(p) |
                  GEMM_SCALES(scale_flag(&o[GEMM_AT_SCALE_A], p->one_scale_a),
                              scale_flag(&o[GEMM_AT_SCALE_B], p->one_scale_b), scale_flag(&o[GEMM_AT_SCALE_D], false)) |
                  (p->trans_a ? GEMM_TRANS_A : 0) | (p->trans_b ? GEMM_TRANS_B : 0) | (p->trans_d ? GEMM_TRANS_D : 0) |
                  (p->interleaved ? GEMM_INTERLEAVED : 0) | (p->alternate ? GEMM_ALTERNATE : 0) |
                  (p->swiglu ? GEMM_PAIR : 0);
    hal_set64(args->lda, o[GEMM_A].ld);
    hal_set64(args->ldb, o[GEMM_B].ld);
    hal_set64(args->ldc, o[GEMM_C].ld);
    hal_set64(args->ldd, o[GEMM_D].ld);
    hal_set64(args->ldr, o[GEMM_RESIDUAL].ld);
    hal_set64(args->stride_a, o[GEMM_A].stride);
    hal_set64(args->stride_b, o[GEMM_B].stride);
    hal_set64(args->stride_c, o[GEMM_C].stride);
    hal_set64(args->stride_d, o[GEMM_D].stride);
    hal_set64(args->stride_r, o[GEMM_RESIDUAL].stride);
    hal_set64(args->stride_scale_a, o[GEMM_AT_SCALE_A].stride);
    hal_set64(args->stride_scale_b, o[GEMM_AT_SCALE_B].stride);
    hal_set64(args->stride_scale_d, o[GEMM_AT_SCALE_D].stride);
}

hal_status hal_gemm_dispatch(hal_cmdlist *list, hal_kernel *kernel, const gemm_plan *plan, const gemm_problem *problem,
                             uint64_t most_groups)
{
    if (plan->flat) {
        return hal_gemm_dispatch_flat(list, kernel, plan, problem, most_groups);
    }
    hal_gemm_args args;
    hal_gemm_arguments(problem, plan, &args);
    hal_span spans[GEMM_ALL_OPERANDS];
    uint32_t alignments[GEMM_ALL_OPERANDS];
    hal_operands_bind(problem->operands, plan->operands, GEMM_D, spans, alignments);
    spans[GEMM_A].offset -= plan->back_a;
    spans[GEMM_A].size += plan->back_a;
    spans[GEMM_B].offset -= plan->back_b;
    spans[GEMM_B].size += plan->back_b;
    const hal_dispatch_rules rules = {alignments, most_groups ? most_groups : plan->most_groups};
    return hal_cmd_dispatch_with(list, kernel, plan->grid, spans, plan->operands, &rules, &args, sizeof args);
}

/* The kernel for the problem, falling back to the general one where this build has no better one for the device. */
static hal_status plan_kernel(hal_device *device, const gemm_problem *problem, uint32_t without, gemm_plan *plan,
                              hal_kernel **kernel, gemm_kernel *chosen)
{
    for (;;) {
        hal_status status = hal_gemm_plan(hal_device_get_info(device), problem, without, plan, chosen);
        if (status == HAL_OK) {
            status = hal_kernel_cached(device, &plan->spec, plan->constant_names, kernel);
        }
        bool absent = status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND;
        if (!absent || *chosen == 0) {
            return status == HAL_OK ? status : hal_fail_prefix(status, "hal_gemm");
        }
        without |= *chosen;
    }
}

void hal_gemm_ask_tunings(hal_device *device, gemm_problem *problem, uint32_t without, gemm_choice *choice)
{
    if (problem->mode == HAL_MODE_FAST && without == 0 && !hal_gemm_has_options(problem)) {
        const hal_tuned_shape shape = hal_gemm_shape(problem);
        problem->want = hal_tuning_find(device, &shape, choice) ? choice : NULL;
    }
}

hal_status hal_gemm_record(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                           gemm_kernel *used)
{
    gemm_problem problem;
    gemm_plan plan;
    hal_kernel *kernel = NULL;
    bool empty;
    hal_status status = hal_gemm_resolve(desc, true, &problem, &empty);
    if (status != HAL_OK || empty) {
        return status;
    }
    hal_operands_align_slots(list, problem.operands, GEMM_ALL_OPERANDS);
    if (given_span(problem.workspace)) { /* its size has been told, so no tuning changes the phases */
        gemm_phases phases;
        if (hal_gemm_phases(hal_device_get_info(hal_cmdlist_device(list)), &problem, without, &phases)) {
            return hal_gemm_record_phases(list, &problem, &phases, without, used);
        }
    }
    gemm_choice tuned;
    hal_gemm_ask_tunings(hal_cmdlist_device(list), &problem, without, &tuned);
    status = plan_kernel(hal_cmdlist_device(list), &problem, without, &plan, &kernel, used);
    return status == HAL_OK ? hal_gemm_dispatch(list, kernel, &plan, &problem, most_groups) : status;
}

hal_status hal_gemm_split(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                          gemm_kernel *used)
{
    *used = 0;
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_gemm: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, hal_gemm_record(list, desc, without, most_groups, used)) : status;
}

hal_status hal_gemm_chosen(hal_cmdlist *list, const hal_gemm_desc *desc, const gemm_choice *choice)
{
    gemm_problem problem;
    gemm_plan plan;
    gemm_kernel used;
    hal_kernel *kernel = NULL;
    bool empty;
    hal_status status = hal_gemm_resolve(desc, true, &problem, &empty);
    if (status != HAL_OK || empty) {
        return status;
    }
    problem.want = choice;
    status = plan_kernel(hal_cmdlist_device(list), &problem, 0, &plan, &kernel, &used);
    if (status != HAL_OK) {
        return status;
    }
    const gemm_choice got = hal_gemm_choice_of(&plan);
    if (!hal_gemm_same_choice(&got, choice)) {
        return hal_fail(HAL_ERROR_UNSUPPORTED, "hal_gemm: %s %ux%ux%u does not fit the problem or the device",
                        choice->kernel, choice->tile_m, choice->tile_n, choice->tile_k);
    }
    return hal_gemm_dispatch(list, kernel, &plan, &problem, 0);
}

hal_status hal_gemm_without(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, gemm_kernel *used)
{
    return hal_gemm_split(list, desc, without, 0, used);
}

hal_status hal_gemm(hal_cmdlist *list, const hal_gemm_desc *desc)
{
    gemm_kernel used;
    return hal_gemm_without(list, desc, 0, &used);
}

hal_status hal_gemm_grouped(hal_cmdlist *list, const hal_gemm_desc *descs, uint64_t count)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_gemm_grouped: list");
    gemm_problem problem;
    gemm_kernel used;
    bool empty;
    if (status != HAL_OK || count == 0) {
        return status;
    }
    if (!descs) {
        return hal_cmdlist_noted(list, hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm_grouped: descs is NULL"));
    }
    const uint64_t apart = descs->struct_size; /* as the caller was compiled */
    for (uint64_t i = 0; status == HAL_OK && i < count; i++) {
        const hal_gemm_desc *desc = (const void *)((const char *)descs + i * apart);
        status = desc->struct_size != apart
                     ? hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm_grouped: struct_size is not the first's")
                     : hal_gemm_resolve(desc, true, &problem, &empty);
        status = status == HAL_OK ? status
                                  : hal_fail_prefix(status, "hal_gemm_grouped: problem %llu", (unsigned long long)i);
    }
    for (uint64_t i = 0; status == HAL_OK && i < count; i++) {
        status = hal_gemm_record(list, (const void *)((const char *)descs + i * apart), 0, 0, &used);
    }
    return hal_cmdlist_noted(list, status);
}

hal_status hal_gemm_asked_phases(const hal_device_info *info, const hal_gemm_desc *desc, gemm_phases *phases)
{
    gemm_problem problem;
    bool empty;
    *phases = (gemm_phases){0};
    hal_status status = hal_gemm_resolve(desc, false, &problem, &empty);
    if (status == HAL_OK && !empty && !hal_gemm_phases(info, &problem, 0, phases)) {
        *phases = (gemm_phases){.narrow = phases->narrow};
    }
    return status;
}

hal_status hal_gemm_workspace(hal_device *device, const hal_gemm_desc *desc, uint64_t *size)
{
    gemm_phases phases = {0};
    if (!size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm_workspace: size is NULL; pass a uint64_t");
    }
    *size = 0;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_gemm_workspace: device");
    status = status == HAL_OK ? hal_gemm_asked_phases(hal_device_get_info(device), desc, &phases) : status;
    *size = phases.bytes;
    return status;
}

hal_status hal_gemm_prepare(hal_device *device, const hal_gemm_desc *desc)
{
    gemm_problem problem;
    gemm_plan plan;
    hal_kernel *kernel = NULL;
    gemm_kernel chosen;
    bool empty;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_gemm_prepare: device");
    if (status != HAL_OK || (status = hal_gemm_resolve(desc, false, &problem, &empty)) != HAL_OK || empty) {
        return status;
    }
    gemm_choice tuned;
    hal_gemm_ask_tunings(device, &problem, 0, &tuned);
    return plan_kernel(device, &problem, 0, &plan, &kernel, &chosen);
}
