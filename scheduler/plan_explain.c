/* plan_explain.c - hal_plan_explain: tables for people. Cells are written with tabs between and aligned at the end. */
#include "plan_report.h"

#include <math.h>

#include "core.h"

enum { MOST_COLUMNS = 16 };

/* Characters of UTF-8. */
static int width_of(const char *text, size_t size)
{
    int width = 0;
    for (size_t i = 0; i < size; i++) {
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return width;
}

/* Print lines of cells; columns marked 'r' are right-aligned, the last is not padded. */
static void print_table(FILE *out, const char *cells, const char *alignment)
{
    int widths[MOST_COLUMNS] = {0};
    for (int pass = 0; pass < 2; pass++) {
        uint32_t column = 0;
        for (const char *at = cells; *at;) {
            const size_t size = strcspn(at, "\t\n");
            const int width = width_of(at, size), pad = widths[column] - width;
            if (!pass) {
                widths[column] = width > widths[column] ? width : widths[column];
            } else if (alignment[column] == 'r') {
                fprintf(out, "  %*s%.*s", pad, "", (int)size, at);
            } else {
                fprintf(out, "  %.*s%*s", (int)size, at, at[size] == '\n' ? 0 : pad, "");
            }
            column = at[size] == '\n' ? 0 : column + 1;
            if (pass && at[size] == '\n') {
                fputc('\n', out);
            }
            at += size + 1;
        }
    }
}

static void cell_us(FILE *cells, double us)
{
    if (!isnan(us)) {
        fprintf(cells, "\t%.2f", us);
    } else {
        fprintf(cells, "\t-");
    }
}

static void write_steps(FILE *cells, const hal_plan_report *report)
{
    fprintf(cells, "step\tkernel\tresult\tbytes\tMFLOP\tfloor us\tpredicted us\tmeasured us\tkernels\tstream\tplace\n");
    for (uint32_t i = 0; i < report->stats.steps; i++) {
        const hal_step_report *step = &report->steps[i];
        fprintf(cells, "%u\t%s\t", i, step->kernel);
        hal_program_text(cells, step->result);
        fprintf(cells, "\t%llu\t%.3f", (unsigned long long)step->bytes, step->flops / 1e6);
        cell_us(cells, step->floor_us);
        cell_us(cells, step->predicted_us);
        cell_us(cells, step->measured_us);
        fprintf(cells, "\t%u\t%u\t", step->kernels, step->stream);
        hal_program_text(cells, step->place);
        fputc('\n', cells);
    }
}

static void write_decisions(FILE *cells, const hal_plan_report *report)
{
    char text[HAL_DECISION_TEXT];
    fprintf(cells, "fusion");
    if (report->plan->has_rows) {
        fprintf(cells, " (judged at %llu rows)", (unsigned long long)report->plan->desc.measure_rows);
    }
    fprintf(cells, "\tof\tverdict\tbytes before\tafter\tus before\tafter\treason\n");
    for (uint32_t i = 0; i < report->plan->decisions.count; i++) {
        const hal_decision *decision = &report->plan->decisions.list[i];
        hal_program_text(cells, decision->rule);
        fputc('\t', cells);
        hal_program_text(cells, report->plan->program.tensors[decision->tensor].name);
        fprintf(cells, "\t%s\t%llu\t%llu", hal_plan_verdict_name(decision->verdict),
                (unsigned long long)decision->bytes_before, (unsigned long long)decision->bytes_after);
        cell_us(cells, decision->us_before);
        cell_us(cells, decision->us_after);
        fputc('\t', cells);
        hal_program_text(cells, hal_decision_reason(decision, text));
        fprintf(cells, "%s\n", decision->reorders ? " (reorders sums)" : "");
    }
}

static hal_status aligned(FILE *out, const hal_plan_report *report, const char *alignment,
                          void (*write)(FILE *cells, const hal_plan_report *report))
{
    char *text = NULL;
    size_t size = 0;
    FILE *cells = open_memstream(&text, &size);
    if (cells) {
        write(cells, report);
        if (fclose(cells) == 0) {
            print_table(out, text, alignment);
            free(text);
            return HAL_OK;
        }
    }
    free(text);
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to explain plan '%s'", report->plan->program.label);
}

static void print_head(FILE *out, const hal_plan_report *report)
{
    const hal_plan *plan = report->plan;
    const hal_plan_stats *stats = &report->stats;
    const hal_device_info *info = hal_device_get_info(plan->device);
    fputs("plan '", out);
    hal_program_text(out, plan->program.label);
    fprintf(out, "' on %s (%s), costed as %s\n", info->name, info->backend, plan->machine.name);
    if (plan->has_rows) {
        fprintf(out, "  %llu rows; ", (unsigned long long)report->rows);
    } else {
        fprintf(out, "  ");
    }
    fprintf(out, "%u operators in %u steps; %.3f MFLOP, %llu bytes\n", stats->operators, stats->steps,
            stats->flops / 1e6, (unsigned long long)stats->bytes);
    fprintf(out, "  scratch %llu bytes; alive at once %llu, without sharing %llu\n\n",
            (unsigned long long)stats->scratch_bytes, (unsigned long long)stats->peak_bytes,
            (unsigned long long)stats->unshared_bytes);
}

static void print_path(FILE *out, const hal_plan_report *report)
{
    const hal_plan *plan = report->plan;
    fprintf(out, "\ncritical path: %.2f of %.2f us:", report->path_us, report->serial_us);
    for (uint32_t i = 0; i < report->path_count; i++) {
        const uint32_t step = report->path[i];
        fprintf(out, "%s %u %s", i ? " ->" : "", step, report->steps[step].kernel);
    }
    fprintf(out, "\n");
    if (plan->desc.streams > 1) {
        fprintf(out, "streams: %u of %u; at %llu rows one takes %.2f us, the best schedule %.2f us\n", plan->streams,
                plan->desc.streams, (unsigned long long)plan->desc.measure_rows, plan->serial_us, plan->spread_us);
    }
}

static void print_mean(FILE *out, const char *what, const hal_plan_mean *mean)
{
    if (mean->count) {
        fprintf(out, ", %s %.2f us", what, mean->us);
    }
}

static void print_runs(FILE *out, const hal_plan_report *report)
{
    const hal_plan_stats *stats = &report->stats;
    fprintf(out, "runs: %llu, with %llu submissions of %llu kernels; programs: %u kept, %llu recorded, %llu dropped\n",
            (unsigned long long)stats->runs, (unsigned long long)stats->submits, (unsigned long long)stats->kernels,
            report->programs, (unsigned long long)stats->programs_recorded,
            (unsigned long long)stats->programs_dropped);
    if (stats->programs_failed) {
        fprintf(out, "background: %llu programs could not be recorded, the last: %s\n",
                (unsigned long long)stats->programs_failed, report->failure_text);
    }
    if (stats->runs) {
        fprintf(out, "host: last run timed %.2f us", stats->submit_us);
        print_mean(out, "telling the steps", &report->told);
        print_mean(out, "replaying", &report->replayed);
        print_mean(out, "recording", &report->recording);
        if (!isnan(stats->device_us)) {
            fprintf(out, "; device: %.2f us, predicted %.2f us", stats->device_us, stats->predicted_us);
        }
        fprintf(out, "\n");
    }
}

hal_status hal_plan_explain(hal_plan *plan, uint64_t rows, FILE *out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_explain: out is NULL");
    }
    hal_plan_report report;
    hal_status status = hal_plan_report_make(plan, "hal_plan_explain", rows, &report);
    if (status == HAL_OK) {
        print_head(out, &report);
        status = aligned(out, &report, "rllrrrrrrrl", write_steps);
    }
    if (status == HAL_OK && plan->decisions.count) {
        fprintf(out, "\n");
        status = aligned(out, &report, "lllrrrrl", write_decisions);
    }
    if (status == HAL_OK) {
        print_path(out, &report);
        print_runs(out, &report);
        status = ferror(out) ? hal_fail(HAL_ERROR_IO, "hal_plan_explain: out could not be written") : status;
    }
    hal_plan_report_clear(&report);
    return status;
}
