/* program.c - see program.h. */
#include "program.h"

#include "internal.h"

/* Room for one more element of an array that doubles. */
static void *grown(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity) {
        return array;
    }
    const uint32_t wanted = *capacity ? 2 * *capacity : 16;
    void *larger = realloc(array, wanted * size);
    if (larger) {
        *capacity = wanted;
    } else {
        hal_set_error("out of host memory for a graph of %u tensors or steps", wanted);
    }
    return larger;
}

static char *name_of(const char *name, uint32_t id)
{
    char text[16];
    if (!name) {
        snprintf(text, sizeof text, "%%%u", id);
        name = text;
    }
    char *copy = strdup(name);
    if (!copy) {
        hal_set_error("out of host memory for the name of tensor '%s'", name);
    }
    return copy;
}

hal_status hal_program_add_tensor(hal_program *program, const hal_tensor_info *info, const char *name, uint32_t *id)
{
    *id = 0;
    hal_tensor_info *tensors =
        grown(program->tensors, program->tensor_count, &program->tensor_capacity, sizeof *tensors);
    if (!tensors) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    program->tensors = tensors;
    if (program->tensor_count == 0) {
        tensors[program->tensor_count++] = (hal_tensor_info){0}; /* there is room for 16 */
    }
    char *copy = name_of(name, program->tensor_count);
    if (!copy) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    *id = program->tensor_count++;
    tensors[*id] = *info;
    tensors[*id].name = copy;
    if (info->constant.kind == HAL_SPAN_BUFFER) {
        hal_retain(&info->constant.buffer->object);
    }
    return HAL_OK;
}

hal_status hal_program_add_step(hal_program *program, const hal_step *step)
{
    hal_step *steps = grown(program->steps, program->step_count, &program->step_capacity, sizeof *steps);
    if (!steps) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    program->steps = steps;
    steps[program->step_count++] = *step;
    return HAL_OK;
}

void hal_program_remove_step(hal_program *program, uint32_t index)
{
    hal_step *steps = program->steps;
    memmove(&steps[index], &steps[index + 1], (--program->step_count - index) * sizeof *steps);
}

hal_status hal_program_copy(const hal_program *from, hal_program *to)
{
    *to = (hal_program){.inputs = from->inputs, .outputs = from->outputs};
    hal_status status = HAL_OK;
    if (from->label && !(to->label = strdup(from->label))) {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a copy of graph '%s'", from->label);
    }
    for (uint32_t i = 1; status == HAL_OK && i < from->tensor_count; i++) {
        uint32_t id;
        status = hal_program_add_tensor(to, &from->tensors[i], from->tensors[i].name, &id);
    }
    for (uint32_t i = 0; status == HAL_OK && i < from->step_count; i++) {
        status = hal_program_add_step(to, &from->steps[i]);
    }
    if (status != HAL_OK) {
        hal_program_clear(to);
    }
    return status;
}

void hal_program_clear(hal_program *program)
{
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->constant.kind == HAL_SPAN_BUFFER) {
            hal_release(&tensor->constant.buffer->object);
        }
        free(tensor->name);
    }
    free(program->tensors);
    free(program->steps);
    free(program->label);
    *program = (hal_program){0};
}

uint32_t hal_program_writer(const hal_program *program, uint32_t tensor)
{
    for (uint32_t i = 0; tensor && i < program->step_count; i++) {
        for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
            if (program->steps[i].tensors[role] == tensor) {
                return i;
            }
        }
    }
    return UINT32_MAX;
}

uint32_t hal_program_readers(const hal_program *program, uint32_t tensor)
{
    uint32_t readers = 0;
    for (uint32_t i = 0; tensor && i < program->step_count; i++) {
        bool reads = false;
        for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
            reads = reads || program->steps[i].tensors[role] == tensor;
        }
        readers += reads;
    }
    return readers;
}

static uint64_t size_of(uint64_t dim, uint64_t rows)
{
    return dim == HAL_ROWS ? rows : dim;
}

uint64_t hal_tensor_columns(const hal_tensor_info *tensor)
{
    const uint64_t last = tensor->dims.size[tensor->dims.rank - 1];
    return last == HAL_ROWS ? 1 : last;
}

uint64_t hal_tensor_rows(const hal_tensor_info *tensor, uint64_t rows)
{
    const hal_dims *dims = &tensor->dims;
    uint64_t product = dims->size[dims->rank - 1] == HAL_ROWS ? rows : 1;
    for (uint32_t i = 0; i + 1 < dims->rank; i++) {
        product *= size_of(dims->size[i], rows);
    }
    return product;
}

uint64_t hal_tensor_bytes(const hal_tensor_info *tensor, uint64_t rows)
{
    return hal_tensor_rows(tensor, rows) * hal_tensor_columns(tensor) * tensor->element_size;
}

const char *hal_dims_text(const hal_dims *dims, char text[HAL_DIMS_TEXT])
{
    size_t used = 0;
    for (uint32_t i = 0; i < dims->rank; i++) {
        const char *before = i ? ", " : "[";
        used += (size_t)(dims->size[i] == HAL_ROWS ? snprintf(text + used, HAL_DIMS_TEXT - used, "%srows", before)
                                                   : snprintf(text + used, HAL_DIMS_TEXT - used, "%s%llu", before,
                                                              (unsigned long long)dims->size[i]));
    }
    snprintf(text + used, HAL_DIMS_TEXT - used, "]");
    return text;
}

const char *hal_tensor_dtype_name(const hal_tensor_info *tensor)
{
    return tensor->dtype != HAL_DTYPE_DEFAULT ? hal_dtype_name(tensor->dtype)
           : tensor->element_size == 8        ? "i64"
                                              : "i32";
}

const char *hal_role_name(hal_role role)
{
    static const char *const names[HAL_ROLES] = {[HAL_ROLE_X] = "x",
                                                 [HAL_ROLE_B] = "b",
                                                 [HAL_ROLE_B_UP] = "b_up",
                                                 [HAL_ROLE_V] = "v",
                                                 [HAL_ROLE_WEIGHT] = "weight",
                                                 [HAL_ROLE_BIAS] = "bias",
                                                 [HAL_ROLE_RESIDUAL] = "residual",
                                                 [HAL_ROLE_SCALE_A] = "scale_a",
                                                 [HAL_ROLE_SCALE_B] = "scale_b",
                                                 [HAL_ROLE_SCALE_D] = "scale_d",
                                                 [HAL_ROLE_MASK] = "mask",
                                                 [HAL_ROLE_COS] = "cos",
                                                 [HAL_ROLE_SIN] = "sin",
                                                 [HAL_ROLE_POSITIONS] = "positions",
                                                 [HAL_ROLE_KV_LENGTHS] = "kv_lengths",
                                                 [HAL_ROLE_Y] = "y",
                                                 [HAL_ROLE_SUM] = "sum",
                                                 [HAL_ROLE_SCALES] = "scales"};
    return names[role];
}

static const char *act_name(hal_act act)
{
    static const char *const names[] = {"copy", "relu", "gelu", "gelu_tanh", "silu", "sigmoid"};
    return names[act];
}

static const char *op_name(const hal_step *step)
{
    static const char *const binaries[] = {"add", "multiply", "swiglu"};
    static const char *const names[HAL_STEP_OPS] = {"gemm",      "activation", "binary",   "rmsnorm",
                                                    "softmax",   "cast",       "quantize", "dequantize",
                                                    "transpose", "rope",       "gather",   "attention"};
    return step->op == HAL_STEP_ACTIVATION ? act_name(step->act)
           : step->op == HAL_STEP_BINARY   ? binaries[step->binary]
                                           : names[step->op];
}

const char *hal_step_name(const hal_step *step, char name[HAL_STEP_NAME])
{
    const uint32_t *t = step->tensors;
    const bool gemm = step->op == HAL_STEP_GEMM, norm = step->op == HAL_STEP_RMSNORM;
    const bool residual = t[HAL_ROLE_RESIDUAL] != 0;
    const bool quantised = t[HAL_ROLE_SCALE_D] || (t[HAL_ROLE_SCALES] && step->op != HAL_STEP_QUANTIZE);
    const bool act = gemm && step->act != HAL_ACT_NONE;
    snprintf(name, HAL_STEP_NAME, "%s%s%s%s%s%s%s%s", norm && residual ? "add+" : "", op_name(step),
             gemm && t[HAL_ROLE_BIAS] ? "+bias" : "", act ? "+" : "", act ? act_name(step->act) : "",
             gemm && t[HAL_ROLE_B_UP] ? "+swiglu" : "", gemm && residual ? "+residual" : "",
             quantised ? "+quantize" : "");
    return name;
}
