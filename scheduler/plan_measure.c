/* plan_measure.c - times on the device: of a few steps on made-up data, to choose fusions by (HAL_FUSE_MEASURED), and
 * of each step of a run (hal_plan_measure). See plan_state.h. */
#include "plan_state.h"

#include "internal.h"

enum { TURNS = 7 };

/* Steps with memory of their own. */
typedef struct trial {
    hal_plan *plan;
    const hal_program *program;
    const hal_step *steps;
    uint32_t count;
    uint64_t rows;
    hal_stream *stream;
    hal_event *start, *end; /* NULL: the host's clock */
    hal_buffer **buffers;   /* by tensor; NULL: a constant's own, or not used */
    hal_span *spans;
    hal_buffer **workspaces; /* by step */
} trial;

/* Bytes that are an ordinary number in every dtype, and a small index. How many keys count is said truly: few would be
 * cheap. */
static hal_status fill(const trial *t, const hal_step *step, uint32_t role)
{
    const uint32_t tensor = step->tensors[role];
    const hal_tensor_info *info = &t->program->tensors[tensor];
    uint32_t pattern = info->dtype == HAL_DTYPE_DEFAULT ? 0 : 0x3c3c3c3c;
    uint32_t size = info->dtype == HAL_DTYPE_DEFAULT || info->element_size == 4 ? 4 : info->element_size;
    if (role == HAL_ROLE_KV_LENGTHS) {
        pattern = (uint32_t)hal_tensor_rows(&t->program->tensors[step->tensors[HAL_ROLE_B]], t->rows);
    }
    return hal_cmd_fill(hal_stream_cmdlist(t->stream), t->spans[tensor], &pattern, size);
}

static hal_status make_operand(trial *t, const hal_step *step, uint32_t role)
{
    const uint32_t tensor = step->tensors[role];
    const hal_tensor_info *info = &t->program->tensors[tensor];
    if (!tensor || t->spans[tensor].kind != HAL_SPAN_NONE) {
        return HAL_OK;
    }
    if (info->kind == HAL_TENSOR_CONSTANT) {
        t->spans[tensor] = info->constant;
        return HAL_OK;
    }
    hal_status status = hal_buffer_create(
        t->plan->device, HAL_BUFFER(.size = hal_tensor_bytes(info, t->rows), .label = info->name), &t->buffers[tensor]);
    t->spans[tensor] = hal_whole(t->buffers[tensor]);
    return status == HAL_OK ? fill(t, step, role) : status;
}

static hal_status make_step(trial *t, uint32_t i)
{
    uint64_t size = 0;
    hal_status status = HAL_OK;
    for (uint32_t role = 0; status == HAL_OK && role < HAL_ROLES; role++) {
        status = make_operand(t, &t->steps[i], role);
    }
    status = status == HAL_OK
                 ? hal_step_workspace(t->plan->device, t->program, &t->steps[i], t->rows, t->plan->desc.mode, &size)
                 : status;
    return status == HAL_OK && size ? hal_buffer_create(t->plan->device, HAL_BUFFER(.size = size), &t->workspaces[i])
                                    : status;
}

static hal_status trial_open(trial *t)
{
    t->buffers = calloc(t->program->tensor_count, sizeof *t->buffers);
    t->spans = calloc(t->program->tensor_count, sizeof *t->spans);
    t->workspaces = calloc(t->count, sizeof *t->workspaces);
    if (!t->buffers || !t->spans || !t->workspaces) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to measure steps of '%s'", t->program->label);
    }
    hal_status status = hal_stream_create(t->plan->device, HAL_STREAM(.label = "measure"), &t->stream);
    if (status == HAL_OK && hal_device_get_info(t->plan->device)->timestamps) {
        status = hal_event_create(t->plan->device, HAL_EVENT(.timing = true), &t->start);
        status = status == HAL_OK ? hal_event_create(t->plan->device, HAL_EVENT(.timing = true), &t->end) : status;
    }
    for (uint32_t i = 0; status == HAL_OK && i < t->count; i++) {
        status = make_step(t, i);
    }
    return status;
}

static void trial_close(trial *t)
{
    for (uint32_t i = 0; t->buffers && i < t->program->tensor_count; i++) {
        hal_buffer_destroy(t->buffers[i]);
    }
    for (uint32_t i = 0; t->workspaces && i < t->count; i++) {
        hal_buffer_destroy(t->workspaces[i]);
    }
    hal_event_destroy(t->start);
    hal_event_destroy(t->end);
    hal_stream_destroy(t->stream);
    free(t->buffers);
    free(t->spans);
    free(t->workspaces);
}

/* The steps once, told and waited for. */
static hal_status turn(trial *t, double *us)
{
    const uint64_t begin = hal_now();
    hal_status status = t->start ? hal_event_record(t->start, t->stream) : HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < t->count; i++) {
        const hal_span workspace = t->workspaces[i] ? hal_whole(t->workspaces[i]) : (hal_span){0};
        status = hal_step_record(hal_stream_cmdlist(t->stream), t->program, &t->steps[i], t->rows, t->plan->desc.mode,
                                 t->spans, workspace);
    }
    status = status == HAL_OK && t->end ? hal_event_record(t->end, t->stream) : status;
    status = status == HAL_OK ? hal_stream_wait(t->stream, HAL_SECONDS(60)) : status;
    uint64_t nanoseconds = hal_now() - begin;
    status = status == HAL_OK && t->end ? hal_event_elapsed(t->start, t->end, &nanoseconds) : status;
    *us = (double)nanoseconds / 1e3;
    return status;
}

bool hal_plan_measure_steps(void *user, const hal_program *program, const hal_step *steps, uint32_t count, double *us)
{
    hal_plan *plan = user;
    trial t = {.plan = plan,
               .program = program,
               .steps = steps,
               .count = count,
               .rows = plan->has_rows ? plan->desc.measure_rows : 1};
    hal_status status = trial_open(&t);
    for (int i = 0; status == HAL_OK && i < TURNS; i++) {
        double once;
        status = turn(&t, &once);
        *us = i <= 1 || once < *us ? once : *us; /* the first compiles */
    }
    trial_close(&t);
    return status == HAL_OK;
}
