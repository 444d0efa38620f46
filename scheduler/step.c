/* step.c - a step of a program as a call of the operator that does it: the descriptor is filled in from the roles. */
#include "program.h"

#include "core.h"
#include "gemm.h"

/* A step with what its descriptor is made of. */
typedef struct call {
    const hal_program *program;
    const hal_step *step;
    uint64_t rows;
    hal_mode mode;
    const hal_span *spans; /* by tensor id; NULL: memory is not there yet, a slot a role stands for it */
    hal_span workspace;
} call;

/* NULL: the step has no such operand. */
static const hal_tensor_info *tensor_of(const call *c, hal_role role)
{
    const uint32_t id = c->step->tensors[role];
    return id ? &c->program->tensors[id] : NULL;
}

static hal_span span_of(const call *c, hal_role role)
{
    const uint32_t id = c->step->tensors[role];
    return !id ? (hal_span){0} : c->spans ? c->spans[id] : hal_slot(role, 0);
}

static hal_dtype dtype_of(const call *c, hal_role role)
{
    const hal_tensor_info *tensor = tensor_of(c, role);
    return tensor ? tensor->dtype : HAL_DTYPE_DEFAULT;
}

static uint64_t rows_of(const call *c, hal_role role)
{
    const hal_tensor_info *tensor = tensor_of(c, role);
    return tensor ? hal_tensor_rows(tensor, c->rows) : 0;
}

static uint64_t columns_of(const call *c, hal_role role)
{
    const hal_tensor_info *tensor = tensor_of(c, role);
    return tensor ? hal_tensor_columns(tensor) : 0;
}

static uint64_t elements_of(const call *c, hal_role role)
{
    return rows_of(c, role) * columns_of(c, role);
}

static hal_gemm_desc gemm_desc(const call *c)
{
    const hal_step *step = c->step;
    return *HAL_GEMM(.m = rows_of(c, HAL_ROLE_X), .n = columns_of(c, HAL_ROLE_Y), .k = columns_of(c, HAL_ROLE_X),
                     .dtype = dtype_of(c, HAL_ROLE_X), .dtype_d = dtype_of(c, HAL_ROLE_Y),
                     .dtype_bias = dtype_of(c, HAL_ROLE_BIAS), .dtype_residual = dtype_of(c, HAL_ROLE_RESIDUAL),
                     .trans_b = step->trans_b, .a = span_of(c, HAL_ROLE_X), .b = span_of(c, HAL_ROLE_B),
                     .d = span_of(c, HAL_ROLE_Y), .bias = span_of(c, HAL_ROLE_BIAS),
                     .residual = span_of(c, HAL_ROLE_RESIDUAL), .alpha = step->alpha, .act = step->act,
                     .workspace = c->workspace, .mode = c->mode, .round_between = step->round_between,
                     .b_up = span_of(c, HAL_ROLE_B_UP), .scale_a = span_of(c, HAL_ROLE_SCALE_A),
                     .scale_b = span_of(c, HAL_ROLE_SCALE_B), .scale_d = span_of(c, HAL_ROLE_SCALE_D));
}

static hal_rmsnorm_desc rmsnorm_desc(const call *c)
{
    return *HAL_RMSNORM(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                        .dtype = dtype_of(c, HAL_ROLE_X), .dtype_y = dtype_of(c, HAL_ROLE_Y),
                        .dtype_weight = dtype_of(c, HAL_ROLE_WEIGHT), .round_between = c->step->round_between,
                        .x = span_of(c, HAL_ROLE_X), .weight = span_of(c, HAL_ROLE_WEIGHT), .y = span_of(c, HAL_ROLE_Y),
                        .residual = span_of(c, HAL_ROLE_RESIDUAL), .sum = span_of(c, HAL_ROLE_SUM),
                        .scales = span_of(c, HAL_ROLE_SCALES), .eps = c->step->eps, .mode = c->mode,
                        .workspace = c->workspace);
}

static hal_attention_desc attention_desc(const call *c)
{
    const hal_step *step = c->step;
    return *HAL_ATTENTION(.batch = 1, .q_heads = step->heads, .kv_heads = step->kv_heads,
                          .head_dim = (uint32_t)(columns_of(c, HAL_ROLE_X) / step->heads),
                          .value_dim = (uint32_t)(columns_of(c, HAL_ROLE_V) / step->kv_heads),
                          .q_length = rows_of(c, HAL_ROLE_X), .kv_length = rows_of(c, HAL_ROLE_B),
                          .dtype = dtype_of(c, HAL_ROLE_X), .dtype_o = dtype_of(c, HAL_ROLE_Y),
                          .q = span_of(c, HAL_ROLE_X), .k = span_of(c, HAL_ROLE_B), .v = span_of(c, HAL_ROLE_V),
                          .o = span_of(c, HAL_ROLE_Y), .kv_lengths = span_of(c, HAL_ROLE_KV_LENGTHS),
                          .scale = step->scale, .causal = step->causal, .softcap = step->softcap,
                          .mask = span_of(c, HAL_ROLE_MASK), .dtype_mask = dtype_of(c, HAL_ROLE_MASK), .mode = c->mode,
                          .workspace = c->workspace);
}

static hal_status record_gemm(hal_cmdlist *list, const call *c)
{
    const hal_gemm_desc desc = gemm_desc(c);
    return hal_gemm(list, &desc);
}

static hal_status record_rmsnorm(hal_cmdlist *list, const call *c)
{
    const hal_rmsnorm_desc desc = rmsnorm_desc(c);
    return hal_rmsnorm(list, &desc);
}

static hal_status record_attention(hal_cmdlist *list, const call *c)
{
    const hal_attention_desc desc = attention_desc(c);
    return hal_attention(list, &desc);
}

static hal_status record_activation(hal_cmdlist *list, const call *c)
{
    return hal_activation(list, HAL_ACTIVATION(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                                               .act = c->step->act, .dtype = dtype_of(c, HAL_ROLE_X),
                                               .dtype_y = dtype_of(c, HAL_ROLE_Y), .x = span_of(c, HAL_ROLE_X),
                                               .y = span_of(c, HAL_ROLE_Y), .alpha = c->step->alpha, .mode = c->mode,
                                               .round_between = c->step->round_between,
                                               .scales = span_of(c, HAL_ROLE_SCALES)));
}

static hal_status record_binary(hal_cmdlist *list, const call *c)
{
    return hal_binary(list,
                      HAL_BINARY(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                                 .op = c->step->binary, .dtype = dtype_of(c, HAL_ROLE_X),
                                 .dtype_b = dtype_of(c, HAL_ROLE_B), .dtype_y = dtype_of(c, HAL_ROLE_Y),
                                 .a = span_of(c, HAL_ROLE_X), .b = span_of(c, HAL_ROLE_B), .y = span_of(c, HAL_ROLE_Y),
                                 .b_rows = rows_of(c, HAL_ROLE_B), .b_columns = columns_of(c, HAL_ROLE_B),
                                 .alpha = c->step->alpha, .round_between = c->step->round_between, .mode = c->mode,
                                 .scales = span_of(c, HAL_ROLE_SCALES)));
}

static hal_status record_softmax(hal_cmdlist *list, const call *c)
{
    return hal_softmax(list, HAL_SOFTMAX(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                                         .dtype = dtype_of(c, HAL_ROLE_X), .dtype_y = dtype_of(c, HAL_ROLE_Y),
                                         .x = span_of(c, HAL_ROLE_X), .y = span_of(c, HAL_ROLE_Y),
                                         .scale = c->step->scale, .log = c->step->log,
                                         .mask = span_of(c, HAL_ROLE_MASK), .dtype_mask = dtype_of(c, HAL_ROLE_MASK),
                                         .mask_rows = rows_of(c, HAL_ROLE_MASK), .mode = c->mode));
}

static hal_status record_cast(hal_cmdlist *list, const call *c)
{
    return hal_cast(list, HAL_CAST(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                                   .dtype = dtype_of(c, HAL_ROLE_X), .dtype_y = dtype_of(c, HAL_ROLE_Y),
                                   .x = span_of(c, HAL_ROLE_X), .y = span_of(c, HAL_ROLE_Y)));
}

static hal_status record_quantize(hal_cmdlist *list, const call *c)
{
    const bool given = c->step->tensors[HAL_ROLE_SCALE_A] != 0;
    return hal_quantize(
        list, HAL_QUANTIZE(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                           .dtype = dtype_of(c, HAL_ROLE_X), .scaling = given ? HAL_SCALE_ROW : HAL_SCALE_ROW_AMAX,
                           .x = span_of(c, HAL_ROLE_X), .codes = span_of(c, HAL_ROLE_Y),
                           .scales = span_of(c, given ? HAL_ROLE_SCALE_A : HAL_ROLE_SCALES), .mode = c->mode));
}

static hal_status record_dequantize(hal_cmdlist *list, const call *c)
{
    return hal_dequantize(list, HAL_QUANTIZE(.rows = rows_of(c, HAL_ROLE_X), .columns = columns_of(c, HAL_ROLE_X),
                                             .dtype = dtype_of(c, HAL_ROLE_Y), .scaling = HAL_SCALE_ROW,
                                             .x = span_of(c, HAL_ROLE_Y), .codes = span_of(c, HAL_ROLE_X),
                                             .scales = span_of(c, HAL_ROLE_SCALE_A), .mode = c->mode));
}

static hal_status record_transpose(hal_cmdlist *list, const call *c)
{
    const hal_dims *dims = &tensor_of(c, HAL_ROLE_X)->dims;
    hal_transpose_desc desc = *HAL_TRANSPOSE(.rank = dims->rank, .dtype = dtype_of(c, HAL_ROLE_X),
                                             .x = span_of(c, HAL_ROLE_X), .y = span_of(c, HAL_ROLE_Y));
    for (uint32_t i = 0; i < dims->rank; i++) {
        desc.dims[i] = dims->size[i] == HAL_ROWS ? c->rows : dims->size[i];
        desc.perm[i] = c->step->perm[i];
    }
    return hal_transpose(list, &desc);
}

static hal_status record_rope(hal_cmdlist *list, const call *c)
{
    return hal_rope(list, HAL_ROPE(.tokens = rows_of(c, HAL_ROLE_X), .heads = c->step->heads,
                                   .head_dim = (uint32_t)(columns_of(c, HAL_ROLE_X) / c->step->heads),
                                   .rotary_dim = (uint32_t)(2 * columns_of(c, HAL_ROLE_COS)),
                                   .dtype = dtype_of(c, HAL_ROLE_X), .x = span_of(c, HAL_ROLE_X),
                                   .y = span_of(c, HAL_ROLE_Y), .cos = span_of(c, HAL_ROLE_COS),
                                   .sin = span_of(c, HAL_ROLE_SIN), .positions = rows_of(c, HAL_ROLE_COS),
                                   .position_ids = span_of(c, HAL_ROLE_POSITIONS), .mode = c->mode));
}

static hal_status record_gather(hal_cmdlist *list, const call *c)
{
    return hal_gather(list, HAL_GATHER(.count = elements_of(c, HAL_ROLE_B), .columns = columns_of(c, HAL_ROLE_X),
                                       .table_rows = rows_of(c, HAL_ROLE_X), .dtype = dtype_of(c, HAL_ROLE_X),
                                       .dtype_y = dtype_of(c, HAL_ROLE_Y), .table = span_of(c, HAL_ROLE_X),
                                       .ids = span_of(c, HAL_ROLE_B), .y = span_of(c, HAL_ROLE_Y),
                                       .ids_are_int64 = tensor_of(c, HAL_ROLE_B)->element_size == 8));
}

hal_status hal_step_record(hal_cmdlist *list, const hal_program *program, const hal_step *step, uint64_t rows,
                           hal_mode mode, const hal_span *spans, hal_span workspace)
{
    static hal_status (*const record[HAL_STEP_OPS])(hal_cmdlist *, const call *) = {
        [HAL_STEP_GEMM] = record_gemm,           [HAL_STEP_ACTIVATION] = record_activation,
        [HAL_STEP_BINARY] = record_binary,       [HAL_STEP_RMSNORM] = record_rmsnorm,
        [HAL_STEP_SOFTMAX] = record_softmax,     [HAL_STEP_CAST] = record_cast,
        [HAL_STEP_QUANTIZE] = record_quantize,   [HAL_STEP_DEQUANTIZE] = record_dequantize,
        [HAL_STEP_TRANSPOSE] = record_transpose, [HAL_STEP_ROPE] = record_rope,
        [HAL_STEP_GATHER] = record_gather,       [HAL_STEP_ATTENTION] = record_attention};
    return record[step->op](list, &(call){program, step, rows, mode, spans, workspace});
}

hal_status hal_step_workspace(hal_device *device, const hal_program *program, const hal_step *step, uint64_t rows,
                              hal_mode mode, uint64_t *size)
{
    *size = 0;
    const call c = {program, step, rows, mode, NULL, {0}};
    hal_status status = HAL_OK;
    if (step->op == HAL_STEP_GEMM) {
        const hal_gemm_desc desc = gemm_desc(&c);
        status = hal_gemm_workspace(device, &desc, size);
    } else if (step->op == HAL_STEP_RMSNORM) {
        const hal_rmsnorm_desc desc = rmsnorm_desc(&c);
        status = hal_rmsnorm_workspace(device, &desc, size);
    } else if (step->op == HAL_STEP_ATTENTION) {
        const hal_attention_desc desc = attention_desc(&c);
        status = hal_attention_workspace(device, &desc, size);
    }
    return status;
}

void hal_step_phases(const hal_device_info *info, const hal_program *program, const hal_step *step, uint64_t rows,
                     hal_mode mode, gemm_phases *phases)
{
    *phases = (gemm_phases){0};
    if (step->op == HAL_STEP_GEMM) {
        const call c = {program, step, rows, mode, NULL, {0}};
        const hal_gemm_desc desc = gemm_desc(&c);
        hal_gemm_asked_phases(info, &desc, phases);
    }
}

/* Told to a list that is thrown away: whatever the step will need is compiled. */
hal_status hal_step_prepare(hal_device *device, const hal_program *program, const hal_step *step, uint64_t rows,
                            hal_mode mode)
{
    uint64_t size;
    hal_cmdlist *list;
    hal_status status = hal_step_workspace(device, program, step, rows, mode, &size);
    status = status == HAL_OK ? hal_cmdlist_create(device, HAL_CMDLIST(.label = "prepare"), &list) : status;
    if (status != HAL_OK) {
        return status;
    }
    status = hal_step_record(list, program, step, rows, mode, NULL, size ? hal_slot(HAL_ROLES, 0) : (hal_span){0});
    hal_cmdlist_destroy(list);
    return status;
}
