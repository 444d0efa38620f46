/* bytes_step.c - see bytes_step.h. */
#include "bytes_step.h"

#include <string.h>

static hal_tensor in(hal_graph *graph, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    return hal_graph_input(graph, name, dtype, HAL_DIMS(rows, columns));
}

static uint32_t named(const hal_program *program, const char *name)
{
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        if (strcmp(program->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return 0;
}

static hal_tensor gemm(hal_graph *g, const shape *s)
{
    hal_graph_gemm_options desc = *HAL_GRAPH_GEMM(.trans_b = (s->with & TRANS_B) != 0);
    if (s->with & WITH_BIAS) {
        desc.bias = hal_graph_input(g, "bias", HAL_F32, HAL_DIMS(s->columns));
    }
    if (s->with & WITH_RESIDUAL) {
        in(g, "residual", s->dtype, HAL_ROWS, s->columns);
    }
    if (s->with & WITH_UP) {
        in(g, "up", s->dtype, s->inner, s->columns);
    }
    if (s->with & WITH_CODES) {
        hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    }
    const bool turned = s->with & TRANS_B;
    return hal_graph_gemm(g, in(g, "a", s->dtype, HAL_ROWS, s->inner),
                          in(g, "b", s->dtype, turned ? s->columns : s->inner, turned ? s->inner : s->columns), &desc);
}

void bytes_gemm(hal_graph *g, const shape *s)
{
    gemm(g, s);
}

void bytes_gemm_quantize(hal_graph *g, const shape *s)
{
    hal_tensor scales;
    hal_graph_quantize(g, gemm(g, s), HAL_NO_TENSOR, &scales);
}

void bytes_gemm_scaled(hal_graph *g, const shape *s)
{
    const hal_tensor rows = hal_graph_input(g, "rows", HAL_F32, HAL_DIMS(HAL_ROWS));
    const hal_tensor columns = hal_graph_input(g, "columns", HAL_F32, HAL_DIMS(s->columns));
    hal_graph_gemm(g, in(g, "a", s->dtype, HAL_ROWS, s->inner), in(g, "b", s->dtype, s->inner, s->columns),
                   HAL_GRAPH_GEMM(.scale_a = rows, .scale_b = columns, .dtype = HAL_BF16));
}

void bytes_activation(hal_graph *g, const shape *s)
{
    hal_graph_activation(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_ACT_GELU_TANH);
}

void bytes_add_row(hal_graph *g, const shape *s)
{
    hal_graph_add(g, in(g, "a", s->dtype, HAL_ROWS, s->columns),
                  hal_graph_input(g, "b", HAL_F32, HAL_DIMS(s->columns)));
}

void bytes_multiply_column(hal_graph *g, const shape *s)
{
    hal_graph_multiply(g, in(g, "a", s->dtype, HAL_ROWS, s->columns), in(g, "b", s->dtype, HAL_ROWS, 1));
}

void bytes_swiglu(hal_graph *g, const shape *s)
{
    hal_graph_swiglu(g, in(g, "gate", s->dtype, HAL_ROWS, s->columns), in(g, "up", s->dtype, HAL_ROWS, s->columns));
}

void bytes_cast(hal_graph *g, const shape *s)
{
    hal_graph_cast(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_F8E4M3);
}

void bytes_rmsnorm(hal_graph *g, const shape *s)
{
    if (s->with & WITH_SUM) {
        in(g, "residual", s->dtype, HAL_ROWS, s->columns);
    }
    hal_graph_rmsnorm(g, in(g, "x", s->dtype, HAL_ROWS, s->columns),
                      hal_graph_input(g, "weight", HAL_F32, HAL_DIMS(s->columns)), 1e-5f);
}

void bytes_softmax(hal_graph *g, const shape *s)
{
    const bool mask = s->with & WITH_MASK;
    hal_graph_softmax(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), 1,
                      mask ? in(g, "mask", HAL_F32, HAL_ROWS, s->columns) : HAL_NO_TENSOR);
}

void bytes_quantize(hal_graph *g, const shape *s)
{
    hal_tensor scales;
    hal_graph_quantize(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_NO_TENSOR, &scales);
}

void bytes_quantize_given(hal_graph *g, const shape *s)
{
    hal_graph_quantize(g, in(g, "x", s->dtype, HAL_ROWS, s->columns),
                       hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS)), NULL);
}

void bytes_dequantize(hal_graph *g, const shape *s)
{
    hal_graph_dequantize(g, in(g, "x", HAL_F8E4M3, HAL_ROWS, s->columns),
                         hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS)), s->dtype);
}

void bytes_transpose(hal_graph *g, const shape *s)
{
    hal_graph_transpose(g, hal_graph_input(g, "x", s->dtype, HAL_DIMS(HAL_ROWS, s->inner, s->columns)),
                        (const uint32_t[4]){0, 2, 1});
}

void bytes_rope(hal_graph *g, const shape *s)
{
    const hal_tensor ids = hal_graph_index_input(g, "ids", 4, HAL_DIMS(HAL_ROWS));
    hal_graph_rope(g, in(g, "x", s->dtype, HAL_ROWS, s->heads * s->inner), s->heads,
                   in(g, "cos", HAL_F32, TABLE, s->columns / 2), in(g, "sin", HAL_F32, TABLE, s->columns / 2), ids);
}

void bytes_gather(hal_graph *g, const shape *s)
{
    hal_graph_gather(g, in(g, "table", s->dtype, TABLE, s->columns),
                     hal_graph_index_input(g, "ids", 8, HAL_DIMS(HAL_ROWS)));
}

void bytes_attention(hal_graph *g, const shape *s)
{
    hal_graph_attention_options desc =
        *HAL_GRAPH_ATTENTION(.q_heads = s->heads, .kv_heads = s->kv_heads, .causal = s->causal);
    if (s->with & WITH_MASK) {
        desc.mask = in(g, "mask", HAL_F32, HAL_ROWS, s->columns);
    }
    if (s->with & WITH_LENGTH) {
        desc.kv_lengths = hal_graph_index_input(g, "length", 4, HAL_DIMS(1));
    }
    hal_graph_attention(g, in(g, "q", s->dtype, HAL_ROWS, s->heads * s->inner),
                        in(g, "k", s->dtype, s->columns, s->kv_heads * s->inner),
                        in(g, "v", s->dtype, s->columns, s->kv_heads * s->inner), &desc);
}

void bytes_fuse(hal_program *program, hal_step *step, const shape *s)
{
    const uint32_t with = s->with;
    const bool gemm = step->op == HAL_STEP_GEMM;
    uint32_t *tensors = step->tensors;
    if (with & (WITH_RESIDUAL | WITH_SUM)) {
        tensors[HAL_ROLE_RESIDUAL] = named(program, "residual");
    }
    if (with & WITH_UP) {
        tensors[HAL_ROLE_B_UP] = named(program, "up");
    }
    if (with & WITH_SUM) {
        const hal_tensor_info sum = program->tensors[tensors[HAL_ROLE_X]];
        OK(hal_program_add_tensor(
            program,
            &(hal_tensor_info){
                .kind = HAL_TENSOR_STEP, .dtype = sum.dtype, .element_size = sum.element_size, .dims = sum.dims},
            NULL, &tensors[HAL_ROLE_SUM]));
    }
    if (with & WITH_CODES) {
        hal_tensor_info *y = &program->tensors[tensors[HAL_ROLE_Y]];
        y->dtype = HAL_F8E4M3;
        y->element_size = 1;
        const hal_tensor_info scales = {
            .kind = HAL_TENSOR_STEP, .dtype = HAL_F32, .element_size = 4, .dims = HAL_DIMS(HAL_ROWS)};
        if (gemm) {
            tensors[HAL_ROLE_SCALE_D] = named(program, "scales");
        } else {
            OK(hal_program_add_tensor(program, &scales, NULL, &tensors[HAL_ROLE_SCALES]));
        }
    }
}
