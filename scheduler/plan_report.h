/* plan_report.h - what hal_plan_get_stats, hal_plan_explain and hal_plan_explain_json tell. See plan_state.h. */
#ifndef HAL_PLAN_REPORT_H
#define HAL_PLAN_REPORT_H

#include "plan_state.h"

typedef struct hal_step_report {
    char kernel[HAL_STEP_NAME];
    const char *result; /* the tensor's name */
    uint64_t bytes;
    double flops, floor_us, predicted_us, measured_us; /* NAN: not measured */
    uint32_t kernels, stream;
    char place[128];
} hal_step_report;

typedef struct hal_plan_report {
    const hal_plan *plan;
    uint64_t rows; /* of the program that runs with as many as were asked for */
    hal_plan_stats stats;
    hal_step_report *steps;
    uint32_t *path; /* steps of the critical path */
    uint32_t path_count;
    double path_us, serial_us; /* of all steps, one after another */
    hal_plan_mean told, replayed, recording;
    uint32_t programs; /* kept */
    char failure_text[sizeof((hal_plan *)0)->failure_text];
} hal_plan_report;

/* Everything, at one moment. Free it with hal_plan_report_clear, after a failure too. */
hal_status hal_plan_report_make(hal_plan *plan, const char *call, uint64_t rows, hal_plan_report *report);
void hal_plan_report_clear(hal_plan_report *report);
const char *hal_plan_verdict_name(hal_verdict verdict);

#endif
