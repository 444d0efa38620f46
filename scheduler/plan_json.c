/* plan_json.c - hal_plan_explain_json: what hal_plan_explain says, for programs. */
#include "plan_report.h"

#include <math.h>

#include "core.h"
#include "json_write.h"

/* Members of an object: a comma before all but the first. */
typedef struct members {
    FILE *out;
    const char *before;
} members;

static void key(members *m, const char *name)
{
    fprintf(m->out, "%s\"%s\": ", m->before, name);
    m->before = ", ";
}

static void number(members *m, const char *name, double value)
{
    key(m, name);
    hal_json_write_number(m->out, value);
}

static void count(members *m, const char *name, uint64_t value)
{
    key(m, name);
    fprintf(m->out, "%llu", (unsigned long long)value);
}

static void string(members *m, const char *name, const char *value)
{
    key(m, name);
    hal_json_write_string(m->out, value);
}

static void write_step(FILE *out, const hal_step_report *step)
{
    members m = {out, ""};
    fprintf(out, "{");
    string(&m, "kernel", step->kernel);
    string(&m, "result", step->result);
    count(&m, "bytes", step->bytes);
    number(&m, "flops", step->flops);
    number(&m, "floor_us", step->floor_us);
    number(&m, "predicted_us", step->predicted_us);
    number(&m, "measured_us", step->measured_us);
    count(&m, "kernels", step->kernels);
    count(&m, "stream", step->stream);
    string(&m, "place", step->place);
    fprintf(out, "}");
}

static void write_decision(FILE *out, const hal_plan *plan, const hal_decision *decision)
{
    members m = {out, ""};
    char text[HAL_DECISION_TEXT];
    fprintf(out, "{");
    string(&m, "rule", decision->rule);
    string(&m, "tensor", plan->program.tensors[decision->tensor].name);
    string(&m, "verdict", hal_plan_verdict_name(decision->verdict));
    key(&m, "reorders");
    fprintf(out, "%s", decision->reorders ? "true" : "false");
    count(&m, "bytes_before", decision->bytes_before);
    count(&m, "bytes_after", decision->bytes_after);
    number(&m, "us_before", decision->us_before);
    number(&m, "us_after", decision->us_after);
    string(&m, "reason", hal_decision_reason(decision, text));
    fprintf(out, "}");
}

static void write_stats(members *m, const hal_plan_stats *stats)
{
    count(m, "operators", stats->operators);
    count(m, "steps", stats->steps);
    count(m, "fusions", stats->fusions);
    count(m, "declined", stats->declined);
    count(m, "refused", stats->refused);
    count(m, "streams", stats->streams);
    count(m, "bytes", stats->bytes);
    number(m, "flops", stats->flops);
    count(m, "scratch_bytes", stats->scratch_bytes);
    count(m, "peak_bytes", stats->peak_bytes);
    count(m, "unshared_bytes", stats->unshared_bytes);
    number(m, "predicted_us", stats->predicted_us);
    count(m, "runs", stats->runs);
    count(m, "submits", stats->submits);
    count(m, "kernels", stats->kernels);
    count(m, "programs_recorded", stats->programs_recorded);
    count(m, "programs_dropped", stats->programs_dropped);
    count(m, "programs_failed", stats->programs_failed);
    number(m, "submit_us", stats->submit_us);
    number(m, "device_us", stats->device_us);
}

static void write_report(FILE *out, const hal_plan_report *report)
{
    const hal_plan *plan = report->plan;
    const hal_device_info *info = hal_device_get_info(plan->device);
    members m = {out, ""};
    fprintf(out, "{");
    string(&m, "plan", plan->program.label);
    string(&m, "backend", info->backend);
    string(&m, "device", info->name);
    string(&m, "machine", plan->machine.name);
    count(&m, "rows", report->rows);
    write_stats(&m, &report->stats);
    number(&m, "one_stream_us", plan->desc.streams > 1 ? plan->serial_us : NAN); /* else nobody asked */
    number(&m, "best_schedule_us", plan->desc.streams > 1 ? plan->spread_us : NAN);
    number(&m, "told_us", report->told.count ? report->told.us : NAN);
    number(&m, "replayed_us", report->replayed.count ? report->replayed.us : NAN);
    number(&m, "recording_us", report->recording.count ? report->recording.us : NAN);
    number(&m, "critical_path_us", report->path_us);
    key(&m, "critical_path");
    for (uint32_t i = 0; i < report->path_count; i++) {
        fprintf(out, "%s%u", i ? ", " : "[", report->path[i]);
    }
    fprintf(out, "%s],\n \"step_list\": [", report->path_count ? "" : "[");
    for (uint32_t i = 0; i < report->stats.steps; i++) {
        fprintf(out, "%s\n  ", i ? "," : "");
        write_step(out, &report->steps[i]);
    }
    fprintf(out, "],\n \"decisions\": [");
    for (uint32_t i = 0; i < plan->decisions.count; i++) {
        fprintf(out, "%s\n  ", i ? "," : "");
        write_decision(out, plan, &plan->decisions.list[i]);
    }
    fprintf(out, "]}\n");
}

hal_status hal_plan_explain_json(hal_plan *plan, uint64_t rows, FILE *out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_explain_json: out is NULL");
    }
    hal_plan_report report;
    hal_status status = hal_plan_report_make(plan, "hal_plan_explain_json", rows, &report);
    if (status == HAL_OK) {
        write_report(out, &report);
        status = ferror(out) ? hal_fail(HAL_ERROR_IO, "hal_plan_explain_json: out could not be written") : status;
    }
    hal_plan_report_clear(&report);
    return status;
}
