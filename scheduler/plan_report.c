/* plan_report.c - figures of a plan, predicted and measured. See plan_report.h. */
#include "plan_report.h"

#include "internal.h"
#include "space.h"

const char *hal_plan_verdict_name(hal_verdict verdict)
{
    return verdict == HAL_VERDICT_FUSED ? "fused" : verdict == HAL_VERDICT_DECLINED ? "declined" : "refused";
}

/* "output 'y'", "scratch +4096", "scratch +4096, in place of '%3'". */
static void describe_place(const hal_plan *plan, const hal_plan_shape *shape, const hal_step *step, uint32_t tensor,
                           char text[128])
{
    const hal_tensor_info *info = &plan->program.tensors[tensor];
    const uint64_t offset = shape->memory.offsets[tensor];
    if (info->output) {
        snprintf(text, 128, "output '%.100s'", info->name);
        return;
    }
    int used = snprintf(text, 128, "scratch +%llu", (unsigned long long)offset);
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        const uint32_t operand = step->tensors[role];
        if (operand && offset != HAL_NO_PLACE && shape->memory.offsets[operand] == offset) {
            snprintf(text + used, 128 - (size_t)used, ", in place of '%.60s'", plan->program.tensors[operand].name);
            return;
        }
    }
}

static void report_step(const hal_plan *plan, const hal_plan_shape *shape, uint32_t i, hal_step_report *out)
{
    const hal_program *program = &plan->program;
    const hal_step *step = &program->steps[i];
    const uint32_t y = step->tensors[HAL_ROLE_Y];
    hal_space space;
    hal_space_of(program, step, shape->rows, &space);
    hal_step_name(step, out->kernel);
    out->result = program->tensors[y].name;
    out->bytes = hal_space_step_bytes(&space, program, step, shape->rows);
    out->flops = hal_space_flops(&space);
    out->predicted_us = hal_plan_predict_us(plan, i, shape->rows);
    out->floor_us = hal_plan_floor_us(plan, i, shape->rows);
    out->measured_us = shape->measured_us[i];
    out->kernels = shape->kernels[i];
    out->stream = plan->lanes ? plan->lanes[i].stream : 0;
    describe_place(plan, shape, step, y, out->place);
}

static void sum_up(const hal_plan *plan, const hal_plan_shape *shape, bool padded, hal_plan_report *report)
{
    hal_plan_stats *stats = &report->stats;
    stats->operators = plan->operators;
    stats->steps = plan->program.step_count;
    for (uint32_t i = 0; i < plan->decisions.count; i++) {
        const hal_verdict verdict = plan->decisions.list[i].verdict;
        stats->fusions += verdict == HAL_VERDICT_FUSED;
        stats->declined += verdict == HAL_VERDICT_DECLINED;
        stats->refused += verdict == HAL_VERDICT_REFUSED;
    }
    for (uint32_t i = 0; i < stats->steps; i++) {
        stats->bytes += report->steps[i].bytes;
        stats->flops += report->steps[i].flops;
        stats->predicted_us += report->steps[i].predicted_us;
    }
    report->serial_us = stats->predicted_us;
    if (plan->streams > 1) { /* scaled from the rows that the streams were chosen for */
        stats->predicted_us *= plan->spread_us / plan->serial_us;
    }
    stats->streams = plan->streams;
    stats->scratch_bytes = padded ? shape->padded_end : shape->memory.size;
    stats->peak_bytes = shape->memory.peak;
    stats->unshared_bytes = shape->memory.unshared;
    stats->runs = plan->runs;
    stats->submits = plan->submits;
    stats->kernels = plan->kernel_count;
    stats->programs_recorded = plan->recorded;
    stats->programs_dropped = plan->dropped;
    stats->submit_us = plan->submit_us;
    stats->device_us = plan->device_us;
    stats->programs_failed = plan->failed;
    stats->failure = plan->failure;
}

static hal_status find_path(const hal_plan *plan, hal_plan_report *report)
{
    const uint32_t steps = plan->program.step_count;
    hal_model_task *tasks = calloc(steps + 1, sizeof *tasks);
    uint32_t *after = calloc((size_t)steps * HAL_ROLES + 1, sizeof *after), used = 0;
    hal_status status = tasks && after
                            ? HAL_OK
                            : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for the critical path of plan '%s'",
                                       plan->program.label);
    for (uint32_t i = 0; status == HAL_OK && i < steps; i++) {
        const uint32_t count = hal_plan_after(plan, i, after + used);
        tasks[i] = (hal_model_task){report->steps[i].predicted_us, after + used, count};
        used += count;
    }
    status = status == HAL_OK
                 ? hal_model_critical_path(tasks, steps, &report->path_us, report->path, &report->path_count)
                 : status;
    free(tasks);
    free(after);
    return status;
}

static hal_status make_locked(hal_plan *plan, uint64_t rows, uint64_t carried, hal_plan_report *report)
{
    hal_plan_shape *shape;
    hal_status status = hal_plan_shape_locked(plan, carried, false, &shape);
    if (status != HAL_OK) {
        return status;
    }
    hal_plan_harvest_locked(plan);
    report->rows = carried;
    for (uint32_t i = 0; i < plan->program.step_count; i++) {
        report_step(plan, shape, i, &report->steps[i]);
    }
    sum_up(plan, shape, plan->has_rows && rows != carried, report);
    report->told = plan->told;
    report->replayed = plan->replayed;
    report->recording = plan->recording;
    report->programs = plan->list_count;
    memcpy(report->failure_text, plan->failure_text, sizeof report->failure_text);
    return HAL_OK;
}

hal_status hal_plan_report_make(hal_plan *plan, const char *call, uint64_t rows, hal_plan_report *report)
{
    *report = (hal_plan_report){.plan = plan};
    uint64_t carried;
    hal_status status = hal_plan_check(plan, call);
    status = status == HAL_OK ? hal_plan_rows(plan, call, rows, &carried) : status;
    if (status != HAL_OK) {
        return status;
    }
    report->steps = calloc(plan->program.step_count + 1, sizeof *report->steps);
    report->path = calloc(plan->program.step_count + 1, sizeof *report->path);
    if (!report->steps || !report->path) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory", call);
    }
    pthread_mutex_lock(&plan->lock);
    status = make_locked(plan, rows, carried, report);
    pthread_mutex_unlock(&plan->lock);
    return status == HAL_OK ? find_path(plan, report) : status;
}

void hal_plan_report_clear(hal_plan_report *report)
{
    free(report->steps);
    free(report->path);
}

hal_status hal_plan_get_stats(hal_plan *plan, uint64_t rows, hal_plan_stats *stats)
{
    static const char call[] = "hal_plan_get_stats";
    if (!stats || stats->struct_size < sizeof stats->struct_size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: stats is NULL or has no struct_size", call);
    }
    const size_t size = stats->struct_size;
    memset((uint8_t *)stats + sizeof size, 0, size - sizeof size);
    hal_plan_report report;
    hal_status status = hal_plan_report_make(plan, call, rows, &report);
    if (status == HAL_OK) {
        hal_desc_write(&report.stats, sizeof report.stats, stats);
    }
    hal_plan_report_clear(&report);
    return status;
}
