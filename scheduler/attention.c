/* attention.c - hal_attention: the descriptor is checked, its strides become extents, and one kernel is dispatched, or
 * two where keys are split, and one more where scores are wanted. */
#include "attention.h"

#include "recording.h"

#include <math.h>

_Static_assert(ATTENTION_SCALED == HAL_SCORES_SCALED && ATTENTION_CAPPED == HAL_SCORES_CAPPED &&
                   ATTENTION_MASKED == HAL_SCORES_MASKED && ATTENTION_WEIGHTS == HAL_SCORES_WEIGHTS,
               "kinds of scores");

static const char op[] = "hal_attention";

static const hal_access accesses[ATTENTION_SPANS] = {
    [ATTENTION_Q] = HAL_READ,    [ATTENTION_K] = HAL_READ,       [ATTENTION_V] = HAL_READ,
    [ATTENTION_O] = HAL_WRITE,   [ATTENTION_MASK] = HAL_READ,    [ATTENTION_CU_Q] = HAL_READ,
    [ATTENTION_CU_K] = HAL_READ, [ATTENTION_LENGTHS] = HAL_READ, [ATTENTION_PAGES] = HAL_READ,
    [ATTENTION_LSE] = HAL_WRITE, [ATTENTION_PARTS] = HAL_WRITE};
static const hal_access combine_accesses[ATTENTION_SPANS] = {
    [ATTENTION_Q] = HAL_READ,    [ATTENTION_K] = HAL_READ,       [ATTENTION_V] = HAL_READ,
    [ATTENTION_O] = HAL_WRITE,   [ATTENTION_MASK] = HAL_READ,    [ATTENTION_CU_Q] = HAL_READ,
    [ATTENTION_CU_K] = HAL_READ, [ATTENTION_LENGTHS] = HAL_READ, [ATTENTION_PAGES] = HAL_READ,
    [ATTENTION_LSE] = HAL_WRITE, [ATTENTION_PARTS] = HAL_READ};

static bool given(const hal_span *span)
{
    return span->kind != HAL_SPAN_NONE;
}

/* `count` things `stride` elements apart: adds the distance to the last to *extent; false where that passes 2^62. */
static bool reach(uint64_t *extent, uint64_t count, uint64_t stride)
{
    uint64_t product;
    return !__builtin_mul_overflow(count - 1, stride, &product) && !__builtin_add_overflow(*extent, product, extent) &&
           *extent <= INT64_MAX / 2;
}

/* A tensor [outer][tokens][heads][dim]: fills in its packed strides, and its extent as one row. */
static hal_status shape(const char *name, hal_operand *o, hal_span span, hal_dtype dtype, const uint64_t counts[3],
                        uint64_t dim, uint64_t *strides[3])
{
    uint64_t extent = dim, packed = dim;
    for (int i = 2; i >= 0; i--) {
        if (*strides[i] == 0 && __builtin_mul_overflow(packed, i == 2 ? 1 : counts[i + 1], strides[i])) {
            *strides[i] = UINT64_MAX;
        }
        packed = *strides[i];
    }
    const bool empty = !counts[0] || !counts[1] || !counts[2];
    for (int i = 0; i < 3 && !empty; i++) {
        if (!reach(&extent, counts[i], *strides[i])) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: the strides of %s pass 2^62 elements", op, name);
        }
    }
    *o = (hal_operand){name, !empty, span, dtype, 1, extent, 0, 1, 0, 0, 0, 0};
    return HAL_OK;
}

/* Rows of an output do not overlap. */
static hal_status check_apart(const char *name, const char *dim_name, const uint64_t counts[3], uint64_t dim,
                              const uint64_t strides[3])
{
    for (int i = 0; i < 3; i++) {
        if (counts[i] > 1 && strides[i] < dim) {
            return hal_fail(HAL_ERROR_OVERLAP, "%s: a stride of %s is below %s, %llu: rows overlap", op, name, dim_name,
                            (unsigned long long)dim);
        }
    }
    return HAL_OK;
}

static hal_status shape_tensors(attention_problem *p)
{
    hal_attention_desc *d = &p->desc;
    hal_operand *o = p->operands;
    const bool cu_q = given(&d->cu_q), cu_k = given(&d->cu_k), paged = d->page_size != 0;
    const uint64_t q_counts[] = {cu_q ? 1 : d->batch, cu_q ? d->q_tokens : d->q_length, d->q_heads};
    uint64_t k_counts[] = {cu_k    ? 1
                           : paged ? d->pages
                                   : d->batch,
                           cu_k    ? d->kv_tokens
                           : paged ? d->page_size
                                   : d->kv_length,
                           d->kv_heads};
    if (d->kv_length == 0) {
        k_counts[1] = 0;
    }
    hal_status status = shape("q", &o[ATTENTION_Q], d->q, d->dtype, q_counts, d->head_dim,
                              (uint64_t *[]){&d->q_batch, &d->q_token, &d->q_head});
    if (status == HAL_OK) {
        status = shape("k", &o[ATTENTION_K], d->k, d->dtype, k_counts, d->head_dim,
                       (uint64_t *[]){&d->k_batch, &d->k_token, &d->k_head});
    }
    if (status == HAL_OK) {
        status = shape("v", &o[ATTENTION_V], d->v, d->dtype, k_counts, d->value_dim,
                       (uint64_t *[]){&d->v_batch, &d->v_token, &d->v_head});
    }
    if (status == HAL_OK) {
        status = shape("o", &o[ATTENTION_O], d->o, d->dtype_o, q_counts, d->value_dim,
                       (uint64_t *[]){&d->o_batch, &d->o_token, &d->o_head});
    }
    p->tokens = q_counts[0] * q_counts[1];
    return status == HAL_OK
               ? check_apart("o", "value_dim", q_counts, d->value_dim, (uint64_t[]){d->o_batch, d->o_token, d->o_head})
               : status;
}

static hal_status shape_scores(attention_problem *p)
{
    hal_attention_desc *d = &p->desc;
    const uint64_t counts[] = {d->batch, d->q_heads, d->q_length};
    if (!given(&d->scores) || d->kv_length == 0) {
        return HAL_OK;
    }
    hal_status status = shape("scores", &p->operands[ATTENTION_SCORES], d->scores, d->dtype_scores, counts,
                              d->kv_length, (uint64_t *[]){&d->scores_batch, &d->scores_head, &d->scores_row});
    return status == HAL_OK ? check_apart("scores", "kv_length", counts, d->kv_length,
                                          (uint64_t[]){d->scores_batch, d->scores_head, d->scores_row})
                            : status;
}

static hal_operand vector(const char *name, bool present, hal_span span, hal_dtype dtype, uint64_t elements)
{
    return (hal_operand){name, present, span, dtype, 1, elements, 0, 1, 0, 0, 0, 0};
}

/* Mask, lengths, pages and lse. int32 counts as a dtype of its size. */
static hal_status shape_others(attention_problem *p)
{
    hal_attention_desc *d = &p->desc;
    hal_operand *o = p->operands;
    const bool masked = given(&d->mask) && d->kv_length > 0;
    d->mask_row = d->mask_row ? d->mask_row : d->kv_length;
    uint64_t mask = d->kv_length, pages = 0;
    if (masked && (!reach(&mask, d->q_length, d->mask_row) || !reach(&mask, d->q_heads, d->mask_head) ||
                   !reach(&mask, d->batch, d->mask_batch))) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: the strides of mask pass 2^62 elements", op);
    }
    if (d->page_size && __builtin_mul_overflow(d->batch, d->page_columns, &pages)) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: batch x page_columns passes 2^64", op);
    }
    const bool bytes = d->mask_kind == HAL_MASK_BOOL;
    o[ATTENTION_MASK] = vector("mask", masked, d->mask, bytes ? HAL_F8E4M3 : d->dtype_mask, mask);
    o[ATTENTION_CU_Q] = vector("cu_q", given(&d->cu_q), d->cu_q, HAL_F32, d->batch + 1);
    o[ATTENTION_CU_K] = vector("cu_k", given(&d->cu_k), d->cu_k, HAL_F32, d->batch + 1);
    o[ATTENTION_LENGTHS] = vector("kv_lengths", given(&d->kv_lengths), d->kv_lengths, HAL_F32, d->batch);
    o[ATTENTION_PAGES] = vector("page_table", pages > 0, d->page_table, HAL_F32, pages);
    o[ATTENTION_LSE] = vector("lse", given(&d->lse), d->lse, HAL_F32, p->tokens * d->q_heads);
    return HAL_OK;
}

static hal_status check_numbers(const hal_attention_desc *d)
{
    const uint64_t dimensions[] = {d->batch, d->q_length, d->kv_length, d->page_columns, d->page_size};
    if (!d->q_heads || !d->kv_heads || d->q_heads % d->kv_heads) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "%s: q_heads is %u, kv_heads %u; the first is a multiple of the second", op, d->q_heads,
                        d->kv_heads);
    }
    if (d->head_dim - 1 >= 256 || d->value_dim - 1 >= 256) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: head_dim is %u, value_dim %u; use 1 to 256", op, d->head_dim,
                        d->value_dim);
    }
    if ((unsigned)d->causal > HAL_CAUSAL_TOP_LEFT || (unsigned)d->mode > HAL_MODE_STRICT ||
        (unsigned)d->mask_kind > HAL_MASK_BOOL || (unsigned)d->scores_kind > HAL_SCORES_WEIGHTS ||
        !(d->softcap >= 0.0f) || isinf(d->softcap) || !isfinite(d->scale)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "%s: causal is %d, mode %d, mask_kind %d, scores_kind %d, softcap %g, scale %g; use values of "
                        "their types, a finite scale and a softcap of 0 or more",
                        op, (int)d->causal, (int)d->mode, (int)d->mask_kind, (int)d->scores_kind, (double)d->softcap,
                        (double)d->scale);
    }
    if (d->splits > 1 && d->mode != HAL_MODE_FAST) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: splits is %u; only HAL_MODE_FAST splits keys", op, d->splits);
    }
    return hal_operand_dimensions(op, "batch, q_length, kv_length, page_columns, page_size", dimensions, 5);
}

static hal_status check_combination(const hal_attention_desc *d)
{
    const bool cu_q = given(&d->cu_q);
    if (cu_q && (given(&d->mask) || given(&d->scores))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: mask and scores do not go together with cu_q", op);
    }
    if (d->page_size && (!given(&d->kv_lengths) || given(&d->cu_k))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: with pages give kv_lengths, and not cu_k", op);
    }
    if (d->page_size && d->kv_length > d->page_columns * d->page_size) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: kv_length is %llu; %llu pages of %u have fewer", op,
                        (unsigned long long)d->kv_length, (unsigned long long)d->page_columns, d->page_size);
    }
    if (d->q_length * d->q_heads / d->kv_heads > HAL_MAX_DIMENSION || d->batch * d->q_length > HAL_MAX_DIMENSION ||
        d->q_tokens > HAL_MAX_DIMENSION || d->kv_tokens > HAL_MAX_DIMENSION ||
        d->q_length + d->kv_length > HAL_MAX_DIMENSION) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "%s: tokens in all, queries x heads of one head of keys, and q_length + kv_length must be "
                        "below 2^31",
                        op);
    }
    return HAL_OK;
}

hal_status hal_attention_resolve(const hal_attention_desc *told, bool spans, attention_problem *p, bool *empty)
{
    hal_attention_desc *d = &p->desc;
    memset(p, 0, sizeof *p);
    *empty = false;
    hal_status status = hal_operator_desc(op, told, d, sizeof *d, "hal_attention_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &d->dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_o", &d->dtype_o, d->dtype, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_mask", &d->dtype_mask, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_scores", &d->dtype_scores, d->dtype, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    d->value_dim = d->value_dim ? d->value_dim : d->head_dim;
    status = check_numbers(d);
    status = status == HAL_OK ? check_combination(d) : status;
    if (status != HAL_OK) {
        return status;
    }
    *empty = d->batch == 0 || d->q_length == 0 || (given(&d->cu_q) && d->q_tokens == 0);
    if (*empty) {
        return HAL_OK;
    }
    /* Beyond these every key is seen, or none. */
    d->causal_offset = d->causal_offset > (int64_t)d->kv_length   ? (int64_t)d->kv_length
                       : d->causal_offset < -(int64_t)d->q_length ? -(int64_t)d->q_length
                                                                  : d->causal_offset;
    d->scale = d->scale == 0.0f ? 1.0f / sqrtf((float)d->head_dim) : d->scale;
    p->rows = (uint32_t)(d->q_length * (d->q_heads / d->kv_heads));
    status = shape_tensors(p);
    status = status == HAL_OK ? shape_others(p) : status;
    status = status == HAL_OK ? shape_scores(p) : status;
    for (uint32_t i = 0; status == HAL_OK && i < ATTENTION_OPERANDS; i++) {
        status = i == ATTENTION_PARTS ? HAL_OK : hal_operand_resolve(op, &p->operands[i], spans);
    }
    return status;
}

static uint32_t options(const attention_problem *p)
{
    const hal_operand *o = p->operands;
    return (p->desc.causal == HAL_CAUSAL_BOTTOM_RIGHT ? ATTENTION_BOTTOM_RIGHT : 0u) |
           (p->desc.causal == HAL_CAUSAL_TOP_LEFT ? ATTENTION_TOP_LEFT : 0u) |
           (o[ATTENTION_CU_Q].present ? ATTENTION_HAS_CU_Q : 0u) |
           (o[ATTENTION_CU_K].present ? ATTENTION_HAS_CU_K : 0u) |
           (o[ATTENTION_LENGTHS].present ? ATTENTION_HAS_LENGTHS : 0u) |
           (p->desc.page_size ? ATTENTION_HAS_PAGES : 0u) | (o[ATTENTION_LSE].present ? ATTENTION_HAS_LSE : 0u);
}

static hal_attention_args arguments(const attention_problem *p, const attention_plan *plan)
{
    const hal_attention_desc *d = &p->desc;
    const uint32_t mask = p->operands[ATTENTION_MASK].present ? (uint32_t)p->operands[ATTENTION_MASK].dtype : 0u;
    hal_attention_args args = {.flags = ROW_FLAGS((uint32_t)d->dtype, (uint32_t)d->dtype_o, mask, 0u,
                                                  (uint32_t)(d->mode == HAL_MODE_STRICT), options(p)),
                               .q_heads = d->q_heads,
                               .kv_heads = d->kv_heads,
                               .head_dim = d->head_dim,
                               .value_dim = d->value_dim,
                               .q_length = (uint32_t)d->q_length,
                               .kv_length = (uint32_t)d->kv_length,
                               .page_size = d->page_size,
                               .page_columns = (uint32_t)d->page_columns,
                               .batch = (uint32_t)d->batch,
                               .splits = plan->splits,
                               .base_q = plan->back[0] / hal_dtype_size(d->dtype),
                               .base_k = plan->back[1] / hal_dtype_size(d->dtype),
                               .base_v = plan->back[2] / hal_dtype_size(d->dtype),
                               .part = plan->part,
                               .diagonal = (uint32_t)(int32_t)d->causal_offset,
                               .scale = d->scale,
                               .softcap = d->softcap};
    hal_set64(args.q_batch, d->q_batch), hal_set64(args.q_token, d->q_token), hal_set64(args.q_head, d->q_head);
    hal_set64(args.k_batch, d->k_batch), hal_set64(args.k_token, d->k_token), hal_set64(args.k_head, d->k_head);
    hal_set64(args.v_batch, d->v_batch), hal_set64(args.v_token, d->v_token), hal_set64(args.v_head, d->v_head);
    hal_set64(args.o_batch, d->o_batch), hal_set64(args.o_token, d->o_token), hal_set64(args.o_head, d->o_head);
    hal_set64(args.mask_batch, d->mask_batch), hal_set64(args.mask_head, d->mask_head);
    hal_set64(args.mask_row, d->mask_row);
    return args;
}

/* The best kernel that this backend has. */
static hal_status plan_kernel(hal_device *device, const attention_problem *p, bool may_split, uint32_t without,
                              attention_plan *plan)
{
    const hal_device_info *info = hal_device_get_info(device);
    hal_status status = hal_attention_plan(info, p, may_split, without, plan);
    if (status == HAL_OK && plan->kernel == ATTENTION_KERNEL_MMA) {
        status = hal_operator_prepare(device, op, &plan->launch, accesses, ATTENTION_SPANS);
        if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
            status = hal_attention_plan(info, p, may_split, without | ATTENTION_KERNEL_MMA, plan);
        }
    }
    return status;
}

static uint64_t workspace_bytes(const attention_problem *p, const attention_plan *plan)
{
    return plan->splits > 1 ? hal_attention_part_elements(p, plan->splits) * sizeof(float) : 0;
}

hal_tuned_shape hal_attention_shape(const attention_problem *p)
{
    return (hal_tuned_shape){.op = HAL_TUNED_ATTENTION,
                             .dtype = p->desc.dtype,
                             .m = p->rows,
                             .n = p->desc.head_dim,
                             .k = (uint32_t)p->desc.kv_length,
                             .batch = (uint32_t)(p->desc.batch * p->desc.kv_heads)};
}

static gemm_choice choice_of(const attention_plan *plan)
{
    gemm_choice choice = {.tile_m = plan->rows, .tile_n = plan->splits};
    memcpy(choice.kernel, plan->launch.spec.name, sizeof choice.kernel);
    return choice;
}

/* The plan with so many splits, if that is the choice then. */
static bool plan_choice(hal_device *device, const attention_problem *p, uint32_t without, const gemm_choice *choice,
                        attention_plan *plan)
{
    attention_problem split = *p;
    split.desc.splits = choice->tile_n;
    if (plan_kernel(device, &split, true, without, plan) != HAL_OK) {
        return false;
    }
    const gemm_choice got = choice_of(plan);
    return hal_gemm_same_choice(&got, choice);
}

/* The device's tunings are asked in the mode that may split, where splits are not told and there is room for them. */
static bool plan_tuned(hal_device *device, const attention_problem *p, bool may_split, uint32_t without,
                       attention_plan *plan)
{
    gemm_choice choice;
    if (!may_split || p->desc.splits || without || p->desc.mode != HAL_MODE_FAST || p->desc.kv_length == 0 ||
        p->desc.batch * p->desc.kv_heads > HAL_MAX_DIMENSION) {
        return false;
    }
    const hal_tuned_shape shape = hal_attention_shape(p);
    return hal_tuning_find(device, &shape, &choice) && plan_choice(device, p, without, &choice, plan);
}

hal_status hal_attention_choices(hal_device *device, const attention_problem *p, gemm_choice choices[GEMM_MOST_CHOICES],
                                 uint32_t *count, uint64_t *workspace)
{
    static const uint32_t splits[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}; /* 0: as the rules say */
    hal_status status = HAL_OK;
    *count = 0;
    *workspace = 0;
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        attention_problem split = *p;
        attention_plan plan;
        split.desc.splits = splits[i];
        status = plan_kernel(device, &split, true, 0, &plan);
        if (status != HAL_OK) {
            break;
        }
        const gemm_choice got = choice_of(&plan);
        bool known = false;
        for (uint32_t c = 0; c < *count; c++) {
            known = known || hal_gemm_same_choice(&choices[c], &got);
        }
        if (!known) {
            const uint64_t bytes = workspace_bytes(p, &plan);
            choices[(*count)++] = got;
            *workspace = bytes > *workspace ? bytes : *workspace;
        }
    }
    return status;
}

/* Outputs share memory with nothing else. */
static hal_status check_outputs(const attention_problem *p)
{
    static const uint32_t outputs[] = {ATTENTION_O, ATTENTION_LSE, ATTENTION_PARTS, ATTENTION_SCORES};
    hal_status status = HAL_OK;
    for (size_t i = 0; status == HAL_OK && i < sizeof outputs / sizeof outputs[0]; i++) {
        status = hal_operand_check_output(op, p->operands, ATTENTION_OPERANDS, outputs[i], 0);
    }
    return status;
}

/* The scores are the output of an attention of their own. */
static hal_status record_scores(hal_cmdlist *list, const attention_problem *asked, hal_operator_launch *launch)
{
    const attention_plan plan = {.splits = 1, .part = UINT32_MAX};
    attention_problem p = *asked;
    hal_attention_desc *d = &p.desc;
    d->dtype_o = d->dtype_scores;
    d->o_batch = d->scores_batch;
    d->o_head = d->scores_head;
    d->o_token = d->scores_row;
    p.operands[ATTENTION_O] = p.operands[ATTENTION_SCORES];
    p.operands[ATTENTION_V].present = p.operands[ATTENTION_LSE].present = p.operands[ATTENTION_PARTS].present = false;
    hal_attention_args args = arguments(&p, &plan);
    args.scores = (uint32_t)d->scores_kind;
    return hal_operator_dispatch(list, op, launch, p.operands, accesses, ATTENTION_SPANS, ATTENTION_O, &args);
}

/* The list takes the mask's place. */
static hal_status use_list(const attention_list *work, uint32_t kv_heads, attention_plan *plan, hal_operand *operands,
                           hal_attention_args *args)
{
    operands[ATTENTION_LIST] = vector("list", true, work->items, HAL_F32, (uint64_t)work->count * ATTENTION_ITEM_WORDS);
    plan->launch.grid = HAL_GRID3(work->count, kv_heads, 1);
    args->flags |= ROW_FLAGS(0u, 0u, 0u, 0u, 0u, ATTENTION_HAS_LIST);
    return hal_operand_resolve(op, &operands[ATTENTION_LIST], true);
}

static hal_status record_outputs(hal_cmdlist *list, const attention_problem *p, attention_plan *plan,
                                 const attention_list *work)
{
    hal_attention_args args = arguments(p, plan);
    hal_operand operands[ATTENTION_SPANS];
    memcpy(operands, p->operands, sizeof operands);
    if (work && work->rows == plan->rows && work->splits == plan->splits) {
        hal_status status = use_list(work, p->desc.kv_heads, plan, operands, &args);
        if (status != HAL_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        operands[i].span.offset -= plan->back[i];
        operands[i].span.size += plan->back[i];
    }
    hal_status status =
        hal_operator_dispatch(list, op, &plan->launch, operands, accesses, ATTENTION_SPANS, ATTENTION_O, &args);
    if (status == HAL_OK && plan->splits > 1) {
        hal_operator_launch launch;
        hal_attention_plan_combine(hal_device_get_info(hal_cmdlist_device(list)), p, &launch);
        status =
            hal_operator_dispatch(list, op, &launch, operands, combine_accesses, ATTENTION_SPANS, ATTENTION_O, &args);
    }
    return status;
}

/* The splits' parts in the workspace. */
static hal_status place_parts(attention_problem *p, const attention_plan *plan)
{
    hal_operand *parts = &p->operands[ATTENTION_PARTS];
    *parts =
        vector("workspace", plan->splits > 1, p->desc.workspace, HAL_F32, hal_attention_part_elements(p, plan->splits));
    return hal_operand_resolve(op, parts, true);
}

static hal_status record(hal_cmdlist *list, const hal_attention_desc *desc, uint32_t without,
                         const attention_list *work)
{
    attention_problem p;
    attention_plan plan;
    hal_operator_launch scores;
    bool empty;
    hal_status status = hal_attention_resolve(desc, true, &p, &empty);
    if (status != HAL_OK || empty) {
        return status;
    }
    hal_device *device = hal_cmdlist_device(list);
    const bool has_scores = p.operands[ATTENTION_SCORES].present;
    hal_operands_align_slots(list, p.operands, ATTENTION_OPERANDS);
    if (!plan_tuned(device, &p, given(&p.desc.workspace), without, &plan) || place_parts(&p, &plan) != HAL_OK) {
        status = plan_kernel(device, &p, given(&p.desc.workspace), without, &plan);
        status = status == HAL_OK ? place_parts(&p, &plan) : status;
    }
    if (status == HAL_OK && has_scores) {
        status = hal_attention_plan_scores(hal_device_get_info(device), &p, &scores);
    }
    status = status == HAL_OK ? check_outputs(&p) : status;
    status = status == HAL_OK ? record_outputs(list, &p, &plan, work) : status;
    return status == HAL_OK && has_scores ? record_scores(list, &p, &scores) : status;
}

hal_status hal_attention_without(hal_cmdlist *list, const hal_attention_desc *desc, uint32_t without)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_attention: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, record(list, desc, without, NULL)) : status;
}

hal_status hal_attention_chosen(hal_cmdlist *list, const hal_attention_desc *desc, const gemm_choice *choice)
{
    attention_problem p;
    attention_plan plan;
    bool empty;
    hal_status status = hal_attention_resolve(desc, true, &p, &empty);
    if (status != HAL_OK || empty) {
        return status;
    }
    if (!plan_choice(hal_cmdlist_device(list), &p, 0, choice, &plan)) {
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        "%s: %s with %u rows and %u splits does not fit the problem or the device", op, choice->kernel,
                        choice->tile_m, choice->tile_n);
    }
    hal_attention_desc split = p.desc;
    split.splits = choice->tile_n;
    return record(list, &split, 0, NULL);
}

hal_status hal_attention_listed(hal_cmdlist *list, const hal_attention_desc *desc, const attention_list *work)
{
    return hal_cmdlist_noted(list, record(list, desc, 0, work));
}

hal_status hal_attention(hal_cmdlist *list, const hal_attention_desc *desc)
{
    return hal_attention_without(list, desc, 0);
}

/* Compiles the kernels of a plan. */
static hal_status prepare(hal_device *device, const attention_problem *p, attention_plan *plan)
{
    hal_status status = hal_operator_prepare(device, op, &plan->launch, accesses, ATTENTION_SPANS);
    if (status == HAL_OK && plan->splits > 1) {
        hal_operator_launch launch;
        hal_attention_plan_combine(hal_device_get_info(device), p, &launch);
        status = hal_operator_prepare(device, op, &launch, combine_accesses, ATTENTION_SPANS);
    }
    return status;
}

hal_status hal_attention_workspace(hal_device *device, const hal_attention_desc *desc, uint64_t *size)
{
    attention_problem p;
    attention_plan plan;
    bool empty;
    if (!size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_attention_workspace: size is NULL; pass a uint64_t");
    }
    *size = 0;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_attention_workspace: device");
    if (status != HAL_OK || (status = hal_attention_resolve(desc, false, &p, &empty)) != HAL_OK || empty ||
        (status = plan_kernel(device, &p, true, 0, &plan)) != HAL_OK) {
        return status;
    }
    *size = workspace_bytes(&p, &plan);
    if (plan_tuned(device, &p, true, 0, &plan)) { /* the rules' too: they choose again if the tuning is gone */
        const uint64_t tuned = workspace_bytes(&p, &plan);
        *size = tuned > *size ? tuned : *size;
    }
    return HAL_OK;
}

hal_status hal_attention_layout(hal_device *device, const hal_attention_desc *desc, attention_list *list)
{
    attention_problem p;
    attention_plan plan;
    bool empty;
    hal_status status = hal_attention_resolve(desc, false, &p, &empty);
    status = status == HAL_OK ? plan_kernel(device, &p, true, 0, &plan) : status;
    status = status == HAL_OK ? prepare(device, &p, &plan) : status;
    if (status == HAL_OK) {
        *list = (attention_list){.rows = plan.rows, .splits = plan.splits, .workspace = workspace_bytes(&p, &plan)};
    }
    return status;
}

hal_status hal_attention_prepare(hal_device *device, const hal_attention_desc *desc)
{
    attention_problem p;
    attention_plan plan;
    bool empty;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_attention_prepare: device");
    if (status != HAL_OK || (status = hal_attention_resolve(desc, false, &p, &empty)) != HAL_OK || empty) {
        return status;
    }
    const bool may_split = given(&p.desc.workspace);
    if (!plan_tuned(device, &p, may_split, 0, &plan)) {
        status = plan_kernel(device, &p, may_split, 0, &plan);
    }
    status = status == HAL_OK ? prepare(device, &p, &plan) : status;
    if (status == HAL_OK && p.operands[ATTENTION_SCORES].present) {
        hal_operator_launch launch;
        status = hal_attention_plan_scores(hal_device_get_info(device), &p, &launch);
        status = status == HAL_OK ? hal_operator_prepare(device, op, &launch, accesses, ATTENTION_SPANS) : status;
    }
    return status;
}
