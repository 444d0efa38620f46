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
 *  gemm_small  work-groups, m <= ROWS, B read once. DTYPE TRANS_B ROWS TILE_N THREADS; A's transposition by flags
 *              group THREADS, shared THREADS ROWS floats at most; ROWS 1 2 4 8, TILE_N THREADS 32 256 (CL, GLSL: 32 64)
 *  gemm_task   one task a group, for CPU devices: OpenCL, group 1: DTYPE TRANS_A TRANS_B TILE_M TILE_N TILE_K
 *              Vulkan, one subgroup of 8, A and B as texel views: DTYPE TRANS_A TRANS_B ROW_GROUPS SHIFT_A SHIFT_B
 *              DTYPE_D EXTRAS; gemm_task_address where no views can be made
 *  gemm_task_small  the same for m <= 16 (OpenCL): DTYPE TRANS_B ROWS TILE_N TILE_K; ROWS 1 2 4 8 12 16
 *  gemm_any    work-groups, any device, with what the others do not have: F8E4M3, scales, strict sums, SwiGLU, D
 *              transposed. DTYPE STRICT PARTS, which is 2 for SwiGLU. Group (8, 8), tile 32 32 16
 *
 * All are right for any size, leading dimension and element-aligned address; the wide forms test the address
 * themselves. Sums are FP32 in an order that depends only on the kernel and its constants: k ascending, one
 * accumulator an element, in gemm, gemm_any, gemm_task (address) and, B plain, gemm_task_small; 16 k at a time in
 * gemm_mma; in slices in the others, which are therefore left out in batch-invariant mode. */
#include "gemm.h"

#include "recording.h"

_Static_assert(HAL_KERNEL_F32 == HAL_F32 && HAL_KERNEL_F16 == HAL_F16 && HAL_KERNEL_BF16 == HAL_BF16, "dtype values");
_Static_assert(GEMM_ACT_RELU == HAL_ACT_RELU && GEMM_ACT_GELU_ERF == HAL_ACT_GELU_ERF &&
                   GEMM_ACT_GELU_TANH == HAL_ACT_GELU_TANH && GEMM_ACT_SILU == HAL_ACT_SILU,
               "activation values");
_Static_assert(sizeof(hal_gemm_args) <= HAL_MAX_ARGS, "argument size");

/* Dimensions are 32-bit in the kernels, with room to add a tile. */
#define MAX_DIMENSION ((uint64_t)INT32_MAX)

static hal_status check_dtype(const char *name, hal_dtype *dtype, hal_dtype fallback, bool f8)
{
    if (*dtype == HAL_DTYPE_DEFAULT) {
        *dtype = fallback;
    }
    if (*dtype == HAL_F32 || *dtype == HAL_F16 || *dtype == HAL_BF16 || (f8 && *dtype == HAL_F8E4M3)) {
        return HAL_OK;
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: %s is %d; use HAL_F32, HAL_F16%s HAL_BF16%s", name,
                    (int)*dtype, f8 ? "," : " or", f8 ? " or HAL_F8E4M3" : "");
}

/* What operands that are not E4M3 by default have where D or A is. */
static hal_dtype not_f8(hal_dtype dtype)
{
    return dtype == HAL_F8E4M3 ? HAL_F32 : dtype;
}

static hal_status resolve_dtypes(hal_gemm_desc *desc)
{
    hal_status status = check_dtype("dtype", &desc->dtype, HAL_F32, true);
    status = status == HAL_OK ? check_dtype("dtype_d", &desc->dtype_d, not_f8(desc->dtype), true) : status;
    status = status == HAL_OK ? check_dtype("dtype_c", &desc->dtype_c, not_f8(desc->dtype_d), false) : status;
    status = status == HAL_OK ? check_dtype("dtype_bias", &desc->dtype_bias, HAL_F32, false) : status;
    status =
        status == HAL_OK ? check_dtype("dtype_residual", &desc->dtype_residual, not_f8(desc->dtype_d), false) : status;
    return status == HAL_OK ? check_dtype("round_between", &desc->round_between, HAL_F32, false) : status;
}

/* a + b * c, or false where that passes 2^63. */
static bool add_product(uint64_t a, uint64_t b, uint64_t c, uint64_t *sum)
{
    uint64_t product;
    return !__builtin_mul_overflow(b, c, &product) && !__builtin_add_overflow(a, product, sum) && *sum <= INT64_MAX;
}

/* Fill in defaults, and check leading dimension, alignment and extent of one operand. */
static hal_status resolve_operand(gemm_operand *o, uint64_t batch)
{
    const uint64_t size = hal_dtype_size(o->dtype);
    if (o->ld == 0) {
        o->ld = o->columns;
    }
    if (o->ld < o->columns) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_gemm: leading dimension of %s is %llu; its rows have %llu elements", o->name,
                        (unsigned long long)o->ld, (unsigned long long)o->columns);
    }
    if (o->rows == 1) {
        o->ld = o->columns; /* nothing is stepped over; any value is as good, and this one cannot overflow */
    }
    uint64_t elements = 0;
    if (!add_product(o->columns, o->rows - 1, o->ld, &elements) ||
        !add_product(elements, batch - 1, o->stride, &elements) || !add_product(0, elements, size, &o->bytes)) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE,
                        "hal_gemm: %s with leading dimension %llu and stride %llu passes 2^63 bytes", o->name,
                        (unsigned long long)o->ld, (unsigned long long)o->stride);
    }
    if (o->span.kind == HAL_SPAN_NONE) {
        return HAL_OK; /* hal_gemm_prepare */
    }
    if (o->span.offset % size) {
        return hal_fail(HAL_ERROR_ALIGNMENT, "hal_gemm: %s starts at byte %llu; use a multiple of %llu", o->name,
                        (unsigned long long)o->span.offset, (unsigned long long)size);
    }
    uint64_t room = o->span.size;
    if (o->span.kind == HAL_SPAN_BUFFER) {
        hal_status status = hal_check(o->span.buffer, HAL_TYPE_BUFFER, "hal_gemm: span.buffer");
        if (status != HAL_OK) {
            return status;
        }
        uint64_t end = hal_buffer_size(o->span.buffer);
        o->start = o->span.buffer->offset;
        uint64_t rest = o->span.offset > end ? 0 : end - o->span.offset;
        room = room == HAL_REST ? rest : room;
        if (room > rest) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE,
                            "hal_gemm: span of %s, %llu bytes at %llu, leaves buffer '%s' of %llu", o->name,
                            (unsigned long long)room, (unsigned long long)o->span.offset,
                            hal_buffer_label(o->span.buffer), (unsigned long long)end);
        }
    }
    if (o->bytes > room) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_gemm: %s needs %llu bytes; its span has %llu", o->name,
                        (unsigned long long)o->bytes, (unsigned long long)room);
    }
    o->span.size = o->bytes; /* the tightest range: hazards are derived from it */
    return HAL_OK;
}

static bool same_memory(const hal_span *x, const hal_span *y)
{
    return x->kind == y->kind && (x->kind == HAL_SPAN_BUFFER ? x->buffer == y->buffer : x->slot == y->slot);
}

/* Whether two matrices share an element. Exact for column blocks of one matrix; else their byte ranges count. */
static bool operands_overlap(const gemm_operand *x, const gemm_operand *y, uint32_t batch)
{
    if (!same_memory(&x->span, &y->span) || x->span.offset >= y->span.offset + y->bytes ||
        y->span.offset >= x->span.offset + x->bytes) {
        return false;
    }
    const uint64_t size_x = hal_dtype_size(x->dtype), size_y = hal_dtype_size(y->dtype), row = x->ld * size_x;
    if (y->ld * size_y != row || (batch > 1 && (x->stride * size_x % row || y->stride * size_y % row))) {
        return true;
    }
    const uint64_t apart = x->span.offset >= y->span.offset ? (x->span.offset - y->span.offset) % row
                                                            : row - 1 - (y->span.offset - x->span.offset - 1) % row;
    /* x's columns begin `apart` bytes into y's rows (mod a row) */
    return apart < y->columns * size_y || apart + x->columns * size_x > row;
}

static hal_status check_overlap(const gemm_problem *p)
{
    const gemm_operand *d = &p->operands[GEMM_D];
    for (size_t i = 0; i < GEMM_ALL_OPERANDS; i++) {
        const gemm_operand *o = &p->operands[i];
        if (i == GEMM_D || !o->present || !operands_overlap(d, o, p->batch)) {
            continue;
        }
        bool exact = d->span.offset == o->span.offset && d->dtype == o->dtype && d->ld == o->ld &&
                     (p->batch == 1 || d->stride == o->stride);
        const bool may = !p->trans_d && (i == GEMM_C || i == GEMM_RESIDUAL);
        if (!exact || !may) {
            return hal_fail(HAL_ERROR_OVERLAP, "hal_gemm: d overlaps %s%s", o->name,
                            may ? "; it may only be exactly it (offset, dtype, leading dimension, stride)"
                                : "; give d memory of its own");
        }
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

/* Scales: one for all or one for each of `each`. */
static gemm_operand scale_operand(const char *name, hal_span span, uint64_t each, bool one, uint64_t stride)
{
    gemm_operand scale = {name, span.kind != HAL_SPAN_NONE, span, HAL_F32, 1, one ? 1 : each, 0, stride, 0, 0};
    return scale;
}

static void describe_operands(const hal_gemm_desc *desc, gemm_problem *p)
{
    const uint64_t m = desc->m, n = desc->n, k = p->k, columns = p->interleaved ? 2 * n : n;
    const bool two = p->swiglu && !p->interleaved;
    const gemm_operand operands[GEMM_ALL_OPERANDS] = {
        [GEMM_A] = {"a", k > 0, desc->a, desc->dtype, desc->trans_a ? k : m, desc->trans_a ? m : k, desc->lda,
                    desc->stride_a, 0, 0},
        [GEMM_B] = {"b", k > 0, desc->b, desc->dtype, desc->trans_b ? columns : k, desc->trans_b ? k : columns,
                    desc->ldb, desc->stride_b, 0, 0},
        [GEMM_C] = {"c", desc->c.kind != HAL_SPAN_NONE && desc->beta != 0.0f, desc->c, desc->dtype_c, m, n, desc->ldc,
                    desc->stride_c, 0, 0},
        [GEMM_D] = {"d", true, desc->d, desc->dtype_d, desc->trans_d ? n : m, desc->trans_d ? m : n, desc->ldd,
                    desc->stride_d, 0, 0},
        [GEMM_BIAS] = {"bias", desc->bias.kind != HAL_SPAN_NONE, desc->bias, desc->dtype_bias, 1, n, 0, 0, 0, 0},
        [GEMM_RESIDUAL] = {"residual", desc->residual.kind != HAL_SPAN_NONE, desc->residual, desc->dtype_residual, m, n,
                           desc->ldr, desc->stride_r, 0, 0},
        [GEMM_B_UP] = {"b_up", two && k > 0, desc->b_up, desc->dtype, desc->trans_b ? n : k, desc->trans_b ? k : n,
                       desc->ldb, desc->stride_b, 0, 0},
        [GEMM_AT_SCALE_A] = scale_operand("scale_a", desc->scale_a, m, desc->one_scale_a, desc->stride_scale_a),
        [GEMM_AT_SCALE_B] = scale_operand("scale_b", desc->scale_b, p->swiglu ? 2 * n : n, false, desc->stride_scale_b),
        [GEMM_AT_SCALE_D] = scale_operand("scale_d", desc->scale_d, m, false, desc->stride_scale_d)};
    memcpy(p->operands, operands, sizeof operands);
    if (desc->one_scale_b) {
        p->operands[GEMM_AT_SCALE_B].columns = two ? 2 : 1;
    }
}

/* What goes together. */
static hal_status check_options(const hal_gemm_desc *desc, const gemm_problem *p)
{
    if ((unsigned)desc->act > HAL_ACT_SILU) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: act is %d; use a hal_act up to HAL_ACT_SILU",
                        (int)desc->act);
    }
    if ((unsigned)desc->mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: mode is %d; use a hal_mode", (int)desc->mode);
    }
    if (desc->interleaved && desc->b_up.kind != HAL_SPAN_NONE) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: interleaved and b_up; gate and up are one or the other");
    }
    if (p->swiglu && (desc->act != HAL_ACT_NONE || desc->bias.kind != HAL_SPAN_NONE ||
                      (desc->c.kind != HAL_SPAN_NONE && desc->beta != 0.0f))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: SwiGLU takes no c, bias or act");
    }
    if (desc->scale_d.kind != HAL_SPAN_NONE && desc->dtype_d != HAL_F8E4M3) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: scale_d with dtype_d %s; it is for HAL_F8E4M3",
                        hal_dtype_name(desc->dtype_d));
    }
    return HAL_OK;
}

/* Check the descriptor. *empty: there is nothing to do. `spans`: A, B and D must be given. */
static hal_status resolve(const hal_gemm_desc *given, bool spans, gemm_problem *p, bool *empty)
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
                        .swiglu = desc.interleaved || desc.b_up.kind != HAL_SPAN_NONE,
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
                        .swiglu_alpha = desc.swiglu_alpha == 0.0f ? 1.0f : desc.swiglu_alpha};
    if ((status = check_options(&desc, p)) != HAL_OK) {
        return status;
    }
    if (desc.m == 0 || desc.n == 0 || batch == 0) {
        *empty = true;
        return HAL_OK;
    }
    if (desc.m > MAX_DIMENSION || desc.n > MAX_DIMENSION || desc.k > MAX_DIMENSION || batch > MAX_DIMENSION) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_gemm: m, n, k, batch are %llu, %llu, %llu, %llu; each must be below 2^31",
                        (unsigned long long)desc.m, (unsigned long long)desc.n, (unsigned long long)desc.k,
                        (unsigned long long)batch);
    }
    p->m = (uint32_t)desc.m;
    p->n = (uint32_t)desc.n;
    p->batch = (uint32_t)batch;
    p->k = p->alpha == 0.0f ? 0 : (uint32_t)desc.k;
    describe_operands(&desc, p);
    gemm_operand *d = &p->operands[GEMM_D];
    for (size_t i = 0; i < GEMM_ALL_OPERANDS; i++) {
        gemm_operand *o = &p->operands[i];
        if (!o->present) {
            continue;
        }
        if (spans && o->span.kind == HAL_SPAN_NONE) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm: %s is none; give a span", o->name);
        }
        if (i == GEMM_D && d->stride == 0 && __builtin_mul_overflow(d->rows, d->ld ? d->ld : d->columns, &d->stride)) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_gemm: d with leading dimension %llu passes 2^63 bytes",
                            (unsigned long long)d->ld);
        }
        status = resolve_operand(o, i == GEMM_BIAS ? 1 : batch);
        if (status != HAL_OK) {
            return status;
        }
    }
    return spans ? check_overlap(p) : HAL_OK;
}

static void set64(uint32_t words[2], uint64_t value)
{
    words[0] = (uint32_t)value;
    words[1] = (uint32_t)(value >> 32);
}

static uint32_t scale_flag(const gemm_operand *scale, bool one)
{
    return !scale->present ? 0 : one ? GEMM_SCALE_ONE : GEMM_SCALE_EACH;
}

static void fill_args(const gemm_problem *p, const gemm_plan *plan, hal_gemm_args *args)
{
    const gemm_operand *o = p->operands;
    uint32_t dtypes[GEMM_OPERANDS];
    for (size_t i = 0; i < GEMM_OPERANDS; i++) {
        dtypes[i] = o[i].present ? (uint32_t)o[i].dtype : 0;
    }
    *args = (hal_gemm_args){.m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .alpha = p->k ? p->alpha : 0.0f,
                            .beta = p->beta,
                            .swiglu_alpha = p->swiglu_alpha,
                            .base_a = (uint32_t)(plan->back_a / hal_dtype_size(o[GEMM_A].dtype)),
                            .base_b = (uint32_t)(plan->back_b / hal_dtype_size(o[GEMM_B].dtype))};
    args->flags = GEMM_FLAGS(dtypes[GEMM_C], dtypes[GEMM_D], dtypes[GEMM_BIAS], dtypes[GEMM_RESIDUAL],
                             (uint32_t)p->between, (uint32_t)p->act) |
                  GEMM_SCALES(scale_flag(&o[GEMM_AT_SCALE_A], p->one_scale_a),
                              scale_flag(&o[GEMM_AT_SCALE_B], p->one_scale_b), scale_flag(&o[GEMM_AT_SCALE_D], false)) |
                  (p->trans_a ? GEMM_TRANS_A : 0) | (p->trans_b ? GEMM_TRANS_B : 0) | (p->trans_d ? GEMM_TRANS_D : 0) |
                  (p->interleaved ? GEMM_INTERLEAVED : 0);
    set64(args->lda, o[GEMM_A].ld);
    set64(args->ldb, o[GEMM_B].ld);
    set64(args->ldc, o[GEMM_C].ld);
    set64(args->ldd, o[GEMM_D].ld);
    set64(args->ldr, o[GEMM_RESIDUAL].ld);
    set64(args->stride_a, o[GEMM_A].stride);
    set64(args->stride_b, o[GEMM_B].stride);
    set64(args->stride_c, o[GEMM_C].stride);
    set64(args->stride_d, o[GEMM_D].stride);
    set64(args->stride_r, o[GEMM_RESIDUAL].stride);
    set64(args->stride_scale_a, o[GEMM_AT_SCALE_A].stride);
    set64(args->stride_scale_b, o[GEMM_AT_SCALE_B].stride);
    set64(args->stride_scale_d, o[GEMM_AT_SCALE_D].stride);
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

/* `most_groups` of one dispatch; 0: as planned. */
static hal_status record(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                         gemm_kernel *used)
{
    gemm_problem problem;
    gemm_plan plan;
    hal_kernel *kernel = NULL;
    bool empty;
    hal_status status = resolve(desc, true, &problem, &empty);
    if (status != HAL_OK || empty) {
        return status;
    }
    status = plan_kernel(hal_cmdlist_device(list), &problem, without, &plan, &kernel, used);
    if (status != HAL_OK) {
        return status;
    }
    hal_gemm_args args;
    fill_args(&problem, &plan, &args);
    hal_span spans[GEMM_ALL_OPERANDS];
    uint32_t alignments[GEMM_ALL_OPERANDS];
    for (size_t i = 0; i < plan.operands; i++) {
        const gemm_operand *o = &problem.operands[i];
        const gemm_operand *bound = o->present ? o : &problem.operands[GEMM_D]; /* absent: bound, but not touched */
        spans[i] = bound->span;
        alignments[i] = hal_dtype_size(bound->dtype);
    }
    if (plan.view_a) {
        spans[GEMM_A].offset -= plan.back_a;
        spans[GEMM_A].size = plan.view_a;
    }
    if (plan.view_b) {
        spans[GEMM_B].offset -= plan.back_b;
        spans[GEMM_B].size = plan.view_b;
    }
    const hal_dispatch_rules rules = {alignments, most_groups ? most_groups : plan.most_groups};
    return hal_cmd_dispatch_with(list, kernel, plan.grid, spans, plan.operands, &rules, &args, sizeof args);
}

hal_status hal_gemm_split(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                          gemm_kernel *used)
{
    *used = 0;
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_gemm: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, record(list, desc, without, most_groups, used)) : status;
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

hal_status hal_gemm_workspace(hal_device *device, const hal_gemm_desc *desc, uint64_t *size)
{
    gemm_problem problem;
    bool empty;
    if (!size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm_workspace: size is NULL; pass a uint64_t");
    }
    *size = 0; /* every kernel keeps its scratch in shared memory */
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_gemm_workspace: device");
    return status != HAL_OK ? status : resolve(desc, false, &problem, &empty);
}

hal_status hal_gemm_prepare(hal_device *device, const hal_gemm_desc *desc)
{
    gemm_problem problem;
    gemm_plan plan;
    hal_kernel *kernel = NULL;
    gemm_kernel chosen;
    bool empty;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_gemm_prepare: device");
    if (status != HAL_OK || (status = resolve(desc, false, &problem, &empty)) != HAL_OK || empty) {
        return status;
    }
    return plan_kernel(device, &problem, 0, &plan, &kernel, &chosen);
}
