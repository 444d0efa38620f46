/* gemm_queue.c - hal_gemm_quantize: one kernel, or hal_gemm and hal_quantize. */
#include "gemm.h"

#include "kernel_queue.h"
#include "recording.h"

static const char op[] = "hal_gemm_quantize";
enum { TILE_ROWS = 32 }; /* of gemm_any */

static uint64_t queue_words(uint64_t m)
{
    return QUEUE_BLOCKS + hal_groups(m, TILE_ROWS);
}

static hal_operand packed(const char *name, hal_span span, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    return (hal_operand){
        .name = name, .present = true, .span = span, .dtype = dtype, .rows = rows, .columns = columns, .batch = 1};
}

/* The operands beside the GEMM's; all outputs are apart from each other and from what is read. */
static hal_status resolve_rest(const gemm_problem *p, const hal_gemm_quantize_desc *desc, hal_operand *operands)
{
    memcpy(operands, p->operands, sizeof p->operands);
    operands[GEMM_CODES] = packed("codes", desc->codes, HAL_F8E4M3, p->m, p->n);
    operands[GEMM_ROW_SCALES] = packed("scales", desc->scales, HAL_F32, 1, p->m);
    operands[GEMM_QUEUE] = packed("queue", desc->queue, HAL_F32, 1, queue_words(p->m));
    hal_status status = HAL_OK;
    for (uint32_t i = GEMM_CODES; status == HAL_OK && i < GEMM_QUEUE_OPERANDS; i++) {
        status = hal_operand_resolve(op, &operands[i], true);
    }
    for (uint32_t i = GEMM_CODES; status == HAL_OK && i < GEMM_QUEUE_OPERANDS; i++) {
        status = hal_operand_check_output(op, operands, GEMM_QUEUE_OPERANDS, i, 0);
    }
    return status;
}

static hal_status dispatch(hal_cmdlist *list, hal_kernel *kernel, const gemm_plan *plan, const gemm_problem *p,
                           const hal_operand *operands)
{
    hal_gemm_args args;
    hal_span spans[GEMM_QUEUE_OPERANDS];
    uint32_t alignments[GEMM_QUEUE_OPERANDS];
    hal_gemm_arguments(p, plan, &args);
    for (uint32_t i = 0; i < GEMM_QUEUE_OPERANDS; i++) {
        const hal_operand *bound = operands[i].present ? &operands[i] : &operands[GEMM_D]; /* absent: not touched */
        spans[i] = bound->span;
        alignments[i] = hal_dtype_size(bound->dtype);
    }
    const hal_dispatch_rules rules = {alignments, 0};
    return hal_cmd_dispatch_with(list, kernel, plan->grid, spans, GEMM_QUEUE_OPERANDS, &rules, &args, sizeof args);
}

static hal_status tell_apart(hal_cmdlist *list, const hal_gemm_quantize_desc *desc, const gemm_problem *p)
{
    const hal_operand *d = &p->operands[GEMM_D];
    gemm_kernel used;
    hal_status status = hal_gemm_record(list, desc->gemm, 0, 0, &used);
    return status == HAL_OK ? hal_quantize(list, HAL_QUANTIZE(.rows = p->m, .columns = p->n, .dtype = d->dtype,
                                                              .x = d->span, .ldx = d->ld, .codes = desc->codes,
                                                              .scales = desc->scales, .mode = p->mode))
                            : status;
}

static hal_status record(hal_cmdlist *list, const hal_gemm_quantize_desc *given)
{
    hal_gemm_quantize_desc desc;
    gemm_problem p;
    gemm_plan plan;
    hal_operand operands[GEMM_QUEUE_OPERANDS];
    hal_kernel *kernel = NULL;
    bool empty, fits;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_gemm_quantize_desc");
    status = status == HAL_OK ? hal_gemm_resolve(desc.gemm, true, &p, &empty) : status;
    if (status != HAL_OK || empty) {
        return status;
    }
    if (p.batch != 1 || p.trans_d || p.operands[GEMM_D].dtype == HAL_F8E4M3) {
        return hal_fail(
            HAL_ERROR_UNSUPPORTED,
            "%s: batch is %u, trans_d %d, dtype_d %s; use one problem with D of f32, f16 or bf16, not transposed", op,
            p.batch, p.trans_d, hal_dtype_name(p.operands[GEMM_D].dtype));
    }
    status = resolve_rest(&p, &desc, operands);
    hal_device *device = hal_cmdlist_device(list);
    if (status != HAL_OK || (status = hal_gemm_plan_queue(hal_device_get_info(device), &p, &plan, &fits)) != HAL_OK) {
        return status;
    }
    if (!fits) {
        return tell_apart(list, &desc, &p);
    }
    status = hal_kernel_cached(device, &plan.spec, plan.constant_names, &kernel);
    return status == HAL_OK ? dispatch(list, kernel, &plan, &p, operands) : hal_fail_prefix(status, "%s", op);
}

hal_status hal_gemm_quantize(hal_cmdlist *list, const hal_gemm_quantize_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_gemm_quantize: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, record(list, desc)) : status;
}

hal_status hal_gemm_quantize_queue(const hal_gemm_desc *gemm, uint64_t *size)
{
    gemm_problem p;
    bool empty;
    if (!size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_gemm_quantize_queue: size is NULL; pass a uint64_t");
    }
    *size = 0;
    hal_status status = hal_gemm_resolve(gemm, false, &p, &empty);
    if (status == HAL_OK && !empty) {
        *size = queue_words(p.m) * sizeof(uint32_t);
    }
    return status;
}
