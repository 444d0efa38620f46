/* report_html.c - results as one page without anything outside it: tables and bar charts in SVG. */
#include "report.h"

#include <math.h>
#include <string.h>

enum { MAX_QUESTIONS = 96 };

static void escape(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*text, file);
        }
}

static void put_head(FILE *file, const bench_run *run)
{
    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n<title>hal-bench</title>\n<style>\n"
        ":root { color-scheme: light dark; --ink: #1a1a1a; --page: #fff; --line: #ccc; --bar0: #2b6cb0; --bar1: "
        "#c05621;"
        " --bar2: #2f855a; --bar3: #6b46c1; }\n"
        "@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --page: #161616; --line: #444; --bar0: #63b3ed;"
        " --bar1: #f6ad55; --bar2: #68d391; --bar3: #b794f4; } }\n"
        "body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 70em;"
        " margin: 2em auto; padding: 0 1em; }\n"
        "div.wide { overflow-x: auto; }\n"
        "table { border-collapse: collapse; margin: 1em 0; }\n"
        "th, td { padding: .25em .8em; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; "
        "}\n"
        "th:first-child, td:first-child { text-align: left; }\n"
        "svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }\n"
        "</style>\n</head>\n<body>\n<h1>hal-bench</h1>\n<p>libhal ",
        file);
    escape(file, hal_version());
    fprintf(file, ", %u cores of ", run->machine.cores);
    escape(file, run->machine.cpu);
    fputs(", ", file);
    escape(file, run->machine.os);
    fprintf(file, ". Floors of the host in this run: %.0f GFLOP/s FP32, copy %.1f GB/s, read %.1f GB/s.</p>\n<ul>\n",
            run->machine.floors.fma_gflops, run->machine.floors.copy_gbps, run->machine.floors.read_gbps);
    for (uint32_t i = 0; i < run->device_count; i++) {
        fprintf(file, "<li><b>%s</b> ", run->devices[i].select);
        escape(file, run->devices[i].info.name);
        fputs(", ", file);
        escape(file, run->devices[i].info.driver);
        fputs("</li>\n", file);
    }
    fprintf(file, "</ul>\n<p>%s</p>\n", bench_report_cpu_note(run));
}

static void put_comparison(FILE *file, const bench_run *run, const bench_question *questions, uint32_t count)
{
    fputs("<h2>Comparison</h2>\n<div class=\"wide\"><table>\n<tr><th>question</th>", file);
    for (uint32_t d = 0; d < run->device_count && d < 8; d++)
        fprintf(file, "<th>%s</th>", run->devices[d].select);
    fputs("</tr>\n", file);
    for (uint32_t i = 0; i < count; i++) {
        fputs("<tr><td>", file);
        escape(file, questions[i].text);
        fputs("</td>", file);
        for (uint32_t d = 0; d < run->device_count && d < 8; d++) {
            char text[96];
            bench_report_answer(questions[i].rows[d], text);
            fputs("<td>", file);
            escape(file, text);
            fputs("</td>", file);
        }
        fputs("</tr>\n", file);
    }
    fputs("</table></div>\n", file);
}

typedef struct bar {
    char name[160];
    double value;
    char text[64];
    uint32_t colour;
} bar;

static void put_chart(FILE *file, const char *title, const bar *bars, uint32_t count)
{
    enum { LEFT = 330, WIDTH = 430, STEP = 22 };
    double most = 0;
    for (uint32_t i = 0; i < count; i++)
        most = fmax(most, bars[i].value);
    if (!(most > 0))
        return;
    fprintf(file, "<h2>%s</h2>\n<div class=\"wide\"><svg width=\"%d\" height=\"%u\" role=\"img\" aria-label=\"%s\">\n",
            title, LEFT + WIDTH + 140, count * STEP + 4, title);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t y = i * STEP;
        double width = bars[i].value / most * WIDTH;
        fprintf(file, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">", LEFT - 8, y + 15);
        escape(file, bars[i].name);
        fprintf(file, "</text><rect x=\"%d\" y=\"%u\" width=\"%.1f\" height=\"%d\" style=\"fill: var(--bar%u)\"/>",
                LEFT, y + 3, fmax(width, 1), STEP - 6, bars[i].colour % 4);
        fprintf(file, "<text x=\"%.1f\" y=\"%u\">", LEFT + width + 6, y + 15);
        escape(file, bars[i].text);
        fputs("</text>\n", file);
    }
    fputs("</svg></div>\n", file);
}

/* One bar for each device that answered, per question of a kind: of operators the rates in this unit, of others libhal
 * against the raw API. */
static void put_bars(FILE *file, const bench_run *run, const bench_question *questions, uint32_t count, bench_kind kind,
                     const char *unit, const char *title)
{
    bar bars[MAX_QUESTIONS * 4];
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < run->device_count && d < 8; d++) {
            const bench_row *row = questions[i].rows[d];
            if (!row || row->kind != kind || strcmp(row->unit, unit) != 0 || used == MAX_QUESTIONS * 4)
                continue;
            double value = *unit ? row->rate : row->ratio;
            if (isnan(value))
                continue;
            bar *next = &bars[used++];
            snprintf(next->name, sizeof next->name, "%.95s: %.31s", questions[i].text, run->devices[d].select);
            next->value = value;
            next->colour = d;
            if (*unit)
                snprintf(next->text, sizeof next->text, "%.*f %s", value < 10 ? 1 : 0, value, unit);
            else
                snprintf(next->text, sizeof next->text, "%.2f (%.2f-%.2f)", value, row->ratio_low, row->ratio_high);
        }
    put_chart(file, title, bars, used);
}

static void put_rows(FILE *file, const bench_run *run)
{
    char a[24], b[24], c[24], d[24];
    fputs(
        "<h2>Host time per command</h2>\n<div class=\"wide\"><table>\n<tr><th>case</th><th>device</th><th>commands</th>"
        "<th>libhal</th><th>raw API</th><th>ratio</th><th>device time</th><th>wait</th></tr>\n",
        file);
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (row->kind >= BENCH_ROW_OPERATOR || row->failed)
            continue;
        fprintf(file, "<tr><td>%s</td><td>%s</td><td>%u</td><td>%s</td><td>%s</td>", row->label, row->backend,
                row->commands, bench_format_ns(row->libhal_ns, a), bench_format_ns(row->raw_ns, b));
        if (isnan(row->ratio))
            fputs("<td>-</td>", file);
        else
            fprintf(file, "<td>%.2f</td>", row->ratio);
        fprintf(file, "<td>%s</td><td>%s</td></tr>\n", bench_format_ns(row->device_ns, c),
                bench_format_ns(row->wait_ns, d));
    }
    fputs("</table></div>\n", file);
}

static void put_failures(FILE *file, const bench_run *run)
{
    for (uint32_t i = 0; i < run->row_count; i++) {
        const bench_row *row = &run->rows[i];
        if (!row->failed && (row->rounds || !*row->note))
            continue;
        fprintf(file, "<p><b>%s</b> %s %s: ", row->failed ? "Failed" : "Not measured", row->backend, row->label);
        escape(file, row->note);
        fputs("</p>\n", file);
    }
}

bool bench_report_html(const bench_run *run, FILE *file)
{
    bench_question questions[MAX_QUESTIONS];
    uint32_t count = bench_report_questions(run, questions, MAX_QUESTIONS);
    put_head(file, run);
    put_failures(file, run);
    put_comparison(file, run, questions, count);
    put_bars(file, run, questions, count, BENCH_ROW_OPERATOR, "GFLOP/s", "Operators that compute");
    put_bars(file, run, questions, count, BENCH_ROW_OPERATOR, "GB/s", "Operators that move data");
    put_bars(file, run, questions, count, BENCH_ROW_OVERHEAD, "",
             "Commands told at once: libhal / raw API (1 is equal)");
    put_bars(file, run, questions, count, BENCH_ROW_REPLAY, "", "Recorded lists: libhal / raw API (1 is equal)");
    bench_report_graph_html(run, file);
    put_rows(file, run);
    fputs("</body>\n</html>\n", file);
    return ferror(file) == 0;
}
