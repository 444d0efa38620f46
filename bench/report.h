/* report.h - the parts of the reports that more than one file needs. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bench.h"

/* {"schema":1,"machine":{},"results":[a row for each device or absent backend]}; malloc'ed. */
char *bench_report_devices_json(const hal_device_list *list);

/* A question of the comparison: how it reads, and its answer for a device. */
typedef struct bench_question {
    char text[96];
    const bench_row *rows[8]; /* per device of the run; NULL: not measured */
} bench_question;
/* The questions that the run has answers to, in the order they were measured. Returns how many, at most `capacity`. */
uint32_t bench_report_questions(const bench_run *run, bench_question *questions, uint32_t capacity);
/* "0.98x raw, 1.23 us" and the like. */
void bench_report_answer(const bench_row *row, char text[96]);
/* The same of graphs; their tables. */
void bench_report_graph_question(const bench_row *row, char text[96]);
void bench_report_graph_answer(const bench_row *row, char text[96]);
void bench_report_graphs(const bench_run *run, const bench_device *device);
void bench_report_graph_html(const bench_run *run, FILE *file);
/* Why CPU devices are no measure of a GPU; "" if none was measured. */
const char *bench_report_cpu_note(const bench_run *run);

#endif
