/* report_graph.c - how graphs ran: eager and replayed, separate and fused. */
#include "report.h"
#include "table.h"

#include <math.h>
#include <string.h>

static char *format_bytes(double bytes, char text[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
    return text;
}

static void cell(bench_table *table, const char *text)
{
    bench_table_cell(table, strcmp(text, "-") ? BENCH_TONE_PLAIN : BENCH_TONE_DIM, "%s", text);
}

static void cells(bench_table *table, const bench_row *row)
{
    char text[24];
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->label);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s %s", row->shape, hal_dtype_name(row->dtype));
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->mode);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%s", row->fused ? "fused" : "separate");
    bench_table_cell(table, BENCH_TONE_PLAIN, "%llu", (unsigned long long)row->submits);
    bench_table_cell(table, BENCH_TONE_PLAIN, "%llu", (unsigned long long)row->kernels);
    cell(table, format_bytes((double)row->bytes, text));
    cell(table, format_bytes((double)row->peak_bytes, text));
    cell(table, bench_format_ns(row->libhal_ns, text));
    cell(table, bench_format_ns(row->wait_ns, text));
    cell(table, bench_format_ns(row->device_ns, text));
    cell(table, bench_format_ns(row->predicted_ns, text));
}

void bench_report_graphs(const bench_run *run, const bench_device *device)
{
    bench_table *table = bench_table_create(
        "<graph|<rows and columns|<mode|<operators|submits|kernels|moved|peak|submit|wait|device|predicted");
    uint32_t shown = 0;
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (row->kind != BENCH_ROW_GRAPH || row->failed || strcmp(row->backend, device->info.backend) != 0 ||
            row->index != device->info.index)
            continue;
        cells(table, row);
        shown++;
    }
    if (shown) {
        fprintf(run->out, "\n%s%s (%s) graphs%s\n", run->colour ? "\033[1m" : "", device->select, device->info.name,
                run->colour ? "\033[0m" : "");
        bench_table_print(table, run->out, run->colour);
        fputs(
            "\nseparate: one kernel an operator; fused: as the cost model chooses; the results have the same bits. "
            "moved: by the\noperands of all kernels, each once. peak: intermediates alive at once. submit: host time "
            "until all is told; wait:\nuntil it is done. device: by its own clock. predicted: what memory, arithmetic "
            "and launches cost at least.\n",
            run->out);
    }
    bench_table_destroy(table);
}

void bench_report_graph_question(const bench_row *row, char text[96])
{
    snprintf(text, 96, "graph %.30s, %.30s, %s", row->label, row->mode, row->fused ? "fused" : "separate");
}

void bench_report_graph_answer(const bench_row *row, char text[96])
{
    char submit[24], all[24];
    snprintf(text, 96, "%s of %s, %llu/%llu", bench_format_ns(row->libhal_ns, submit),
             bench_format_ns(row->libhal_ns + row->wait_ns, all), (unsigned long long)row->submits,
             (unsigned long long)row->kernels);
}

void bench_report_graph_html(const bench_run *run, FILE *file)
{
    char a[24], b[24], c[24], d[24], e[24], f[24];
    bool head = false;
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (row->kind != BENCH_ROW_GRAPH || row->failed)
            continue;
        if (!head)
            fputs("<h2>Graphs</h2>\n<div class=\"wide\"><table>\n<tr><th>graph</th><th>device</th><th>mode</th>"
                  "<th>operators</th><th>submits</th><th>kernels</th><th>moved</th><th>peak</th><th>submit</th>"
                  "<th>wait</th><th>device time</th><th>predicted</th></tr>\n",
                  file);
        head = true;
        fprintf(file,
                "<tr><td>%s %s</td><td>%s</td><td>%s</td><td>%s</td><td>%llu</td><td>%llu</td><td>%s</td><td>%s</td>"
                "<td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n",
                row->label, row->shape, row->backend, row->mode, row->fused ? "fused" : "separate",
                (unsigned long long)row->submits, (unsigned long long)row->kernels, format_bytes((double)row->bytes, a),
                format_bytes((double)row->peak_bytes, b), bench_format_ns(row->libhal_ns, c),
                bench_format_ns(row->wait_ns, d), bench_format_ns(row->device_ns, e),
                bench_format_ns(row->predicted_ns, f));
    }
    if (head)
        fputs("</table></div>\n", file);
}
