/* report_table.c - results for people: a table per device and question, then the comparison. */
#include "report.h"
#include "table.h"

#include <math.h>
#include <string.h>

enum { MAX_QUESTIONS = 96 };

static bool of_device(const bench_row *row, const bench_device *device)
{
    return !strcmp(row->backend, device->info.backend) && row->index == device->info.index;
}

static bool measured(const bench_row *row)
{
    return !row->failed && row->rounds > 0;
}

/* At most a tenth over the raw API is good, a half over it is bad. */
static bench_tone ratio_tone(double ratio)
{
    return isnan(ratio)   ? BENCH_TONE_DIM
           : ratio <= 1.1 ? BENCH_TONE_GOOD
           : ratio >= 1.5 ? BENCH_TONE_BAD
                          : BENCH_TONE_PLAIN;
}

static void cell_ns(bench_table *table, double nanoseconds)
{
    char text[24];
    bench_table_cell(table, isnan(nanoseconds) ? BENCH_TONE_DIM : BENCH_TONE_PLAIN, "%s",
                     bench_format_ns(nanoseconds, text));
}

static void cell_number(bench_table *table, double value, int digits)
{
    if (isnan(value))
        bench_table_cell(table, BENCH_TONE_DIM, "-");
    else
        bench_table_cell(table, BENCH_TONE_PLAIN, "%.*f", digits, value);
}

static void cell_ratio(bench_table *table, double ratio)
{
    if (isnan(ratio))
        bench_table_cell(table, BENCH_TONE_DIM, "-");
    else
        bench_table_cell(table, ratio_tone(ratio), "%.2f", ratio);
}

/* The columns that overhead and replay have in common, from the case to the ratios. */
static void host_cells(bench_table *table, const bench_row *row)
{
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s x%u", row->label, row->commands);
    cell_ns(table, row->libhal_ns);
    cell_ns(table, row->raw_ns);
    cell_ratio(table, row->ratio);
    if (isnan(row->ratio))
        bench_table_cell(table, BENCH_TONE_DIM, "-");
    else
        bench_table_cell(table, BENCH_TONE_DIM, "%.2f-%.2f", row->ratio_low, row->ratio_high);
    cell_ns(table, row->device_ns);
    cell_ns(table, row->wait_ns);
    cell_ns(table, row->libhal_total_ns);
    cell_ratio(table, row->total_ratio);
}

static void replay_cells(bench_table *table, const bench_row *row)
{
    host_cells(table, row);
    cell_ns(table, row->eager_ns);
    cell_ns(table, row->record_ns);
    if (isinf(row->break_even))
        bench_table_cell(table, BENCH_TONE_BAD, "never");
    else
        cell_number(table, row->break_even, 0);
}

static void cell_peers(bench_table *table, const bench_row *row)
{
    char text[96] = "-";
    size_t used = 0;
    for (uint32_t i = 0; i < row->peer_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.2f %s", i ? ", " : "", row->peers[i].ratio,
                                 row->peers[i].name);
    bench_table_cell(table, row->peer_count ? BENCH_TONE_PLAIN : BENCH_TONE_DIM, "%s", text);
}

static void operator_cells(bench_table *table, const bench_row *row)
{
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->label);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->shape);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", hal_dtype_name(row->dtype));
    cell_ns(table, row->seconds * 1e9);
    cell_number(table, row->rate, row->rate < 1 ? 3 : row->rate < 100 ? 1 : 0);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->unit);
    cell_number(table, row->floor_ratio * 100, 0);
    cell_number(table, row->floor_rate, row->floor_rate < 100 ? 1 : 0);
    bench_table_cell(table, BENCH_TONE_DIM, "%s", *row->floor ? row->floor : "-");
    cell_peers(table, row);
    cell_number(table, bench_row_error(row), 3);
    cell_ns(table, row->libhal_ns);
    cell_ns(table, row->device_ns);
    cell_ns(table, row->wait_ns);
}

/* What a column would waste its width on. */
static void print_remarks(const bench_run *run, const bench_row *row)
{
    char a[24], b[24];
    if (!strcmp(row->label, "immediate_rebind"))
        fprintf(run->out, "host allocations per dispatch: %.3f\n", row->allocations);
    if (!isnan(row->rss_growth))
        fprintf(run->out,
                "%u submissions that nobody waits for: memory grows by %.0f KiB; a full queue makes submitting wait\n",
                row->commands, row->rss_growth / 1024);
    if (!isnan(row->rerecord_ns))
        fprintf(run->out,
                "rebinding all buffers of the list of %u and submitting: %s a dispatch; recording it anew: %s, %.1fx\n",
                row->commands, bench_format_ns(row->libhal_ns, a), bench_format_ns(row->rerecord_ns, b),
                row->rerecord_ns / row->libhal_ns);
}

static void print_kind(const bench_run *run, const bench_device *device, bench_kind kind)
{
    static const struct {
        const char *title, *columns;
        void (*cells)(bench_table *table, const bench_row *row);
    } kinds[] = {
        {"overhead: commands told at once, time per command",
         "<case|libhal|raw API|ratio|spread|device|wait|in all|in all/raw", host_cells},
        {"replay: recorded lists, time per command",
         "<case|libhal|raw API|ratio|spread|device|wait|in all|in all/raw|eager|record|break-even", replay_cells},
        {"operators", "<case|<shape|<type|time|rate|<unit|% of|floor|<of|<against peers|error|submit|device|wait",
         operator_cells},
    };
    bench_table *table = bench_table_create(kinds[kind].columns);
    uint32_t shown = 0;
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (row->kind != kind || !of_device(row, device) || !measured(row))
            continue;
        kinds[kind].cells(table, row);
        shown++;
    }
    if (shown) {
        fprintf(run->out, "\n%s%s (%s) %s%s\n", run->colour ? "\033[1m" : "", device->select, device->info.name,
                kinds[kind].title, run->colour ? "\033[0m" : "");
        bench_table_print(table, run->out, run->colour);
    }
    bench_table_destroy(table);
    for (uint32_t i = 0; i < run->row_count; i++)
        if (run->rows[i].kind == kind && of_device(&run->rows[i], device) && measured(&run->rows[i]))
            print_remarks(run, &run->rows[i]);
    const char *said = ""; /* a note that many rows share is said once */
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (row->kind != kind || !of_device(row, device) || !*row->note || !strcmp(row->note, said))
            continue;
        const char *what = row->failed ? "FAILED" : measured(row) ? "note" : "not measured";
        fprintf(run->out, "%s%s: %s %s: %s%s\n", run->colour && row->failed ? "\033[31m" : "", what, device->select,
                measured(row) ? bench_row_kind(row) : row->label, row->note,
                run->colour && row->failed ? "\033[0m" : "");
        said = row->note;
    }
}

void bench_report_table(const bench_run *run)
{
    bool host = false, operators = false;
    for (uint32_t i = 0; i < run->device_count; i++)
        for (int kind = BENCH_ROW_OVERHEAD; kind <= BENCH_ROW_OPERATOR; kind++)
            print_kind(run, &run->devices[i], (bench_kind)kind);
    for (uint32_t i = 0; i < run->device_count; i++)
        bench_report_graphs(run, &run->devices[i]);
    for (uint32_t i = 0; i < run->row_count; i++) {
        bool computes = run->rows[i].kind == BENCH_ROW_OPERATOR, graph = run->rows[i].kind == BENCH_ROW_GRAPH;
        host = host || (!computes && !graph && measured(&run->rows[i]));
        operators = operators || (computes && measured(&run->rows[i]));
    }
    if (host)
        fputs("\nlibhal, raw API: host time until the work is handed over. ratio: median of libhal / raw\n"
              "over the interleaved pairs; spread: its quartiles. device: by device timestamps. wait: host\n"
              "time in the wait. in all: until the work is done. record: making the list. break-even:\n"
              "submissions until that has paid.\n",
              run->out);
    if (operators)
        fputs("\n% of floor: of what limits the operator, measured in turns with it: on CPU devices this host's\n"
              "FP32 multiply-adds, non-temporal copies or reads; on GPUs the device's own copy, or the published\n"
              "peak. peers: our rate / theirs, in turns. error: as a share of what FP32 accumulation and one\n"
              "rounding may be off by; above 1 is wrong.\n",
              run->out);
}

static void question_text(const bench_row *row, char text[96])
{
    static const struct {
        const char *label, *text;
    } known[] = {{"immediate_independent", "dispatch, independent"},
                 {"immediate_dependent", "dispatch, dependent"},
                 {"immediate_rebind", "dispatch, all operands new"},
                 {"upload_4k", "upload of 4 KiB"},
                 {"event_record_wait", "dispatch, event, wait"},
                 {"unwaited_submits", "submit a list, unwaited"},
                 {"replay", "replay, per dispatch"},
                 {"replay_dependent", "replay of a chain, per dispatch"},
                 {"rebind", "rebind a list, per dispatch"},
                 {"rerecord", "record it anew, per dispatch"},
                 {"up", "FFN up-projection"},
                 {"down", "FFN down-projection"},
                 {"decode up", "FFN up-projection, 1 token"}};
    const char *name = row->label;
    if (row->kind == BENCH_ROW_GRAPH) {
        bench_report_graph_question(row, text);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(row->label, known[i].label))
            name = known[i].text;
    if (row->kind == BENCH_ROW_OPERATOR && name != row->label)
        snprintf(text, 96, "%s, %s", name, hal_dtype_name(row->dtype));
    else if (row->kind == BENCH_ROW_OPERATOR)
        snprintf(text, 96, "%.39s %.40s, %.8s", name, row->shape, hal_dtype_name(row->dtype));
    else if (row->kind == BENCH_ROW_REPLAY)
        snprintf(text, 96, "%s, list of %u", name, row->commands);
    else
        snprintf(text, 96, "%s", name);
}

uint32_t bench_report_questions(const bench_run *run, bench_question *questions, uint32_t capacity)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < run->row_count; i++) {
        char text[96];
        uint32_t at = 0;
        const bench_row *row = &run->rows[i];
        question_text(row, text);
        while (at < count && strcmp(questions[at].text, text) != 0)
            at++;
        if (at == capacity)
            continue;
        if (at == count) {
            memset(&questions[count], 0, sizeof questions[count]);
            memcpy(questions[count++].text, text, sizeof text);
        }
        for (uint32_t d = 0; d < run->device_count && d < 8; d++)
            if (of_device(row, &run->devices[d]))
                questions[at].rows[d] = row;
    }
    return count;
}

/* Of a layer's products it says for how many tokens: as many as the device does in a moment. */
static void operator_answer(const bench_row *row, char text[96])
{
    int used = snprintf(text, 96, "%.*f %s", row->rate < 1 ? 3 : row->rate < 10 ? 1 : 0, row->rate, row->unit);
    if (!isnan(row->floor_ratio))
        used += snprintf(text + used, 96 - (size_t)used, ", %.0f%%", row->floor_ratio * 100);
    if (row->m && strcmp(row->label, row->op) != 0)
        snprintf(text + used, 96 - (size_t)used, " (%llu tok.)", (unsigned long long)row->m);
}

void bench_report_answer(const bench_row *row, char text[96])
{
    char time[24];
    if (!row)
        snprintf(text, 96, "-");
    else if (row->failed)
        snprintf(text, 96, "FAILED");
    else if (!measured(row))
        snprintf(text, 96, "not measured");
    else if (row->kind == BENCH_ROW_GRAPH)
        bench_report_graph_answer(row, text);
    else if (row->kind == BENCH_ROW_OPERATOR)
        operator_answer(row, text);
    else if (isnan(row->ratio) && !isnan(row->total_ratio))
        snprintf(text, 96, "%s in all, %.2fx raw", bench_format_ns(row->libhal_total_ns, time), row->total_ratio);
    else if (isnan(row->ratio))
        snprintf(text, 96, "%s", bench_format_ns(row->libhal_ns, time));
    else
        snprintf(text, 96, "%s, %.2fx raw", bench_format_ns(row->libhal_ns, time), row->ratio);
}

const char *bench_report_cpu_note(const bench_run *run)
{
    bool cpu = false, gpu = false;
    for (uint32_t i = 0; i < run->device_count; i++) {
        cpu = cpu || run->devices[i].info.type == HAL_DEVICE_CPU;
        gpu = gpu || run->devices[i].info.type != HAL_DEVICE_CPU;
    }
    if (!cpu)
        return "";
    return gpu ? "Some of these devices are CPU drivers: their figures show libhal's overhead and replay, not GPU "
                 "speed."
               : "These devices are CPU drivers: their figures show libhal's overhead and replay, not GPU speed.";
}

void bench_report_comparison(const bench_run *run)
{
    static const char before[] = "<host time to submit; rate and share of the limit; of graphs submits/kernels";
    bench_question questions[MAX_QUESTIONS];
    uint32_t count = bench_report_questions(run, questions, MAX_QUESTIONS);
    uint32_t columns = run->device_count < 8 ? run->device_count : 8;
    char names[320 + sizeof before];
    size_t used = (size_t)snprintf(names, sizeof names, "%s", before);
    for (uint32_t d = 0; d < columns; d++)
        used += (size_t)snprintf(names + used, sizeof names - used, "|%s", run->devices[d].select);
    bench_table *table = bench_table_create(names);
    for (uint32_t i = 0; i < count; i++) {
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", questions[i].text);
        for (uint32_t d = 0; d < columns; d++) {
            char text[96];
            const bench_row *row = questions[i].rows[d];
            bench_tone tone = !row || !row->rounds ? BENCH_TONE_DIM : ratio_tone(row->ratio);
            bench_report_answer(row, text);
            if (row && row->kind >= BENCH_ROW_OPERATOR)
                tone = BENCH_TONE_PLAIN;
            bench_table_cell(table, row && row->failed ? BENCH_TONE_BAD : tone, "%s", text);
        }
    }
    if (count) {
        fprintf(run->out, "\n%scomparison%s\n", run->colour ? "\033[1m" : "", run->colour ? "\033[0m" : "");
        bench_table_print(table, run->out, run->colour);
        if (*bench_report_cpu_note(run))
            fprintf(run->out, "\n%s\n", bench_report_cpu_note(run));
    }
    bench_table_destroy(table);
}
