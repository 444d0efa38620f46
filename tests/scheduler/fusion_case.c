/* fusion_case.c - see fusion_case.h. */
#include "fusion_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fusion_case_open(fusion_case *c, fixture *f, uint64_t rows, uint64_t seed)
{
    *c = (fusion_case){.f = f, .rows = rows, .seed = seed};
    OK(hal_graph_create(NULL, &c->graph));
}

static void upload_numbers(fusion_case *c, hal_tensor tensor, hal_dtype dtype, uint64_t count, bool scales)
{
    float *values = malloc((count + 1) * sizeof *values);
    uint8_t *bytes = malloc(4 * (count + 1));
    assert_non_null(values);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        const float unit = (float)(random_below(&c->seed, 1u << 24) + 1) / (float)(1u << 24);
        values[i] = scales ? unit : 4 * unit - 2;
    }
    OK(hal_numeric_encode(dtype, values, count, bytes));
    const uint64_t size = count * hal_dtype_size(dtype);
    assert_true(tensor.id && tensor.id < FUSION_TENSORS);
    OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size), &c->shared[tensor.id]));
    OK(hal_cmd_upload(c->f->list, hal_whole(c->shared[tensor.id]), bytes, size));
    free(values);
    free(bytes);
}

static const char *new_name(fusion_case *c, char name[16])
{
    snprintf(name, 16, "t%u", c->names++);
    return name;
}

hal_tensor fusion_input(fusion_case *c, hal_dtype dtype, uint64_t columns)
{
    char name[16];
    const hal_tensor t = hal_graph_input(c->graph, new_name(c, name), dtype, HAL_DIMS(HAL_ROWS, columns));
    upload_numbers(c, t, dtype, c->rows * columns, false);
    return t;
}

hal_tensor fusion_scales(fusion_case *c)
{
    char name[16];
    const hal_tensor t = hal_graph_input(c->graph, new_name(c, name), HAL_F32, HAL_DIMS(HAL_ROWS));
    upload_numbers(c, t, HAL_F32, c->rows, true);
    return t;
}

hal_tensor fusion_weight(fusion_case *c, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    char name[16];
    const hal_dims dims = rows ? HAL_DIMS(rows, columns) : HAL_DIMS(columns);
    const hal_tensor t = hal_graph_constant(c->graph, new_name(c, name), dtype, dims, (hal_span){0});
    upload_numbers(c, t, dtype, (rows ? rows : 1) * columns, false);
    return t;
}

void fusion_output(fusion_case *c, hal_tensor tensor)
{
    char name[16];
    hal_graph_output(c->graph, new_name(c, name), tensor);
}

/* One way of running it, with memory for each result. */
typedef struct way {
    const hal_program *program;
    hal_buffer *buffers[FUSION_TENSORS];
    hal_span spans[FUSION_TENSORS];
} way;

static void way_run(fusion_case *c, way *w, hal_mode mode)
{
    const hal_program *program = w->program;
    assert_true(program->tensor_count <= FUSION_TENSORS);
    for (uint32_t t = 1; t < program->tensor_count; t++) {
        if (program->tensors[t].kind == HAL_TENSOR_STEP) {
            const uint8_t poison = 0x5A;
            const uint64_t size = hal_tensor_bytes(&program->tensors[t], c->rows);
            OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size), &w->buffers[t]));
            OK(hal_cmd_fill(c->f->list, hal_whole(w->buffers[t]), &poison, 1));
        }
        hal_buffer *buffer = c->shared[t] ? c->shared[t] : w->buffers[t];
        w->spans[t] = buffer ? hal_whole(buffer) : (hal_span){0};
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hal_step *step = &program->steps[i];
        uint64_t size;
        hal_buffer *workspace = NULL;
        OK(hal_step_workspace(c->f->device, program, step, c->rows, mode, &size));
        if (size) {
            OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size), &workspace));
        }
        OK(hal_step_record(c->f->list, program, step, c->rows, mode, w->spans,
                           workspace ? hal_whole(workspace) : (hal_span){0}));
        hal_buffer_destroy(workspace);
    }
}

static void way_free(way *w)
{
    for (uint32_t t = 0; t < FUSION_TENSORS; t++) {
        hal_buffer_destroy(w->buffers[t]);
    }
}

/* The outputs of both. */
static void compare(fusion_case *c, const way *apart, const way *fused, const char *what)
{
    for (uint32_t t = 1; t < apart->program->tensor_count; t++) {
        const hal_tensor_info *tensor = &apart->program->tensors[t];
        if (!tensor->output) {
            continue;
        }
        const uint64_t size = hal_tensor_bytes(tensor, c->rows), element = tensor->element_size;
        uint8_t *want = malloc(size + 1), *got = malloc(size + 1);
        assert_non_null(want);
        assert_non_null(got);
        OK(hal_cmd_download(c->f->list, want, apart->spans[t]));
        OK(hal_cmd_download(c->f->list, got, fused->spans[t]));
        OK(hal_stream_wait(c->f->stream, TEST_TIMEOUT));
        uint64_t first = size, count = 0;
        for (uint64_t i = size; i-- > 0;) {
            first = want[i] != got[i] ? i : first;
            count += want[i] != got[i];
        }
        if (first < size) {
            fail_msg("%s: '%s' differs in %llu bytes, first at row %llu, column %llu", what, tensor->name,
                     (unsigned long long)count, (unsigned long long)(first / element / hal_tensor_columns(tensor)),
                     (unsigned long long)(first / element % hal_tensor_columns(tensor)));
        }
        free(want);
        free(got);
    }
}

void fusion_case_run(fusion_case *c, hal_mode mode, const char *what, char *steps, size_t size)
{
    hal_program program;
    hal_decisions decisions;
    hal_model_machine machine;
    char name[HAL_STEP_NAME];
    OK(hal_graph_status(c->graph));
    OK(hal_model_machine_find(hal_device_get_info(c->f->device), &machine));
    OK(hal_program_copy(hal_graph_program(c->graph), &program));
    OK(hal_fuse(&program,
                &(hal_fusion_options){.policy = HAL_FUSE_ALL,
                                      .no_reordering = true,
                                      .mode = mode,
                                      .rows = c->rows,
                                      .info = hal_device_get_info(c->f->device),
                                      .machine = &machine},
                &decisions));
    *steps = 0;
    for (uint32_t i = 0; i < program.step_count; i++) {
        snprintf(steps + strlen(steps), size - strlen(steps), "%s%s", i ? ", " : "",
                 hal_step_name(&program.steps[i], name));
    }
    way apart = {.program = hal_graph_program(c->graph)}, fused = {.program = &program};
    way_run(c, &apart, mode);
    way_run(c, &fused, mode);
    compare(c, &apart, &fused, what);
    way_free(&apart);
    way_free(&fused);
    hal_decisions_clear(&decisions);
    hal_program_clear(&program);
}

void fusion_case_close(fusion_case *c)
{
    hal_graph_destroy(c->graph);
    for (uint32_t t = 0; t < FUSION_TENSORS; t++) {
        hal_buffer_destroy(c->shared[t]);
    }
}
