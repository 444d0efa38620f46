/* main.c - hal-bench: what libhal costs and how fast it is, on every backend of this machine. */
#include "bench.h"
#include "model.h"
#include "report.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* Can the files that were asked for be made? Known before anything is measured. */
static bool check_files(const bench_options *options)
{
    const char *paths[] = {options->json, options->html};
    char error[400];
    for (int i = 0; i < 2; i++)
        if (paths[i] && !bench_file_check(paths[i], error, sizeof error)) {
            fprintf(stderr, "hal-bench: %s\n", error);
            return false;
        }
    return true;
}

/* Print and write what was measured. False: a file could not be written. */
static bool report(bench_run *run)
{
    const bench_options *options = run->options;
    char error[400] = "out of memory";
    bool written = true;
    bench_progress_clear();
    bench_report_table(run);
    if (options->command == BENCH_SUITE || run->device_count > 1)
        bench_report_comparison(run);
    if (options->json) {
        char *text = bench_report_json(run);
        if (!text || !bench_file_write(options->json, text, error, sizeof error)) {
            fprintf(stderr, "hal-bench: %s\n", error);
            written = false;
        }
        free(text);
    }
    if (options->html) {
        char *text = NULL;
        size_t size = 0;
        FILE *page = open_memstream(&text, &size);
        bool good = page && bench_report_html(run, page);
        if (page && fclose(page) != 0)
            good = false;
        if (!good || !bench_file_write(options->html, text, error, sizeof error)) {
            fprintf(stderr, "hal-bench: %s\n", error);
            written = false;
        }
        free(text);
    }
    return written;
}

static int run_bench(bench_run *run)
{
    const bench_options *options = run->options;
    double start = bench_seconds();
    bench_machine_describe(&run->machine);
    int code = bench_devices_choose(run);
    if (code)
        return code;
    fprintf(run->out, "libhal %s on %s, %u cores, %s\n", hal_version(), run->machine.cpu, run->machine.cores,
            run->machine.os);
    for (uint32_t i = 0; i < run->device_count; i++)
        fprintf(run->out, "%s: %s, %s\n", run->devices[i].select, run->devices[i].info.name,
                run->devices[i].info.driver);
    fflush(run->out);
    bench_interrupt_install();
    if (!bench_floors_measure(&run->machine.floors))
        fputs("hal-bench: the host's own speed could not be measured\n", stderr);
    fprintf(run->out, "this host at its best: %.0f GFLOP/s FP32, copy %.1f GB/s, read %.1f GB/s\n",
            run->machine.floors.fma_gflops, run->machine.floors.copy_gbps, run->machine.floors.read_gbps);
    fflush(run->out);
    bench_measure(run);
    const bool written = report(run);
    for (uint32_t i = 0; options->trace && i < run->device_count && !bench_interrupted(); i++)
        bench_trace(run, &run->devices[i]);
    if (options->counters)
        bench_counters(run->out, run->colour);
    fprintf(run->out, "\n%s%.0f s\n", bench_interrupted() ? "interrupted after " : "", bench_seconds() - start);
    if (bench_interrupted())
        return EXIT_INTERRUPTED;
    if (run->failed)
        fputs("hal-bench: a result was wrong or a device failed; see above\n", stderr);
    return run->failed || !written ? EXIT_FAILED : EXIT_GOOD;
}

static bool is_stdout(const char *path)
{
    return path && !strcmp(path, "-");
}

static int measure(const bench_options *options)
{
    bench_run run = {.options = options, .out = stdout};
    if (!check_files(options))
        return EXIT_FAILED;
    if (is_stdout(options->json) || is_stdout(options->html))
        run.out = stderr;
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    run.colour = isatty(fileno(run.out)) && !(no_colour && *no_colour) && !(terminal && !strcmp(terminal, "dumb"));
    int code = options->command == BENCH_DEVICES ? bench_devices(options, run.out, run.colour)
               : options->command == BENCH_TUNE  ? bench_tune(&run)
                                                 : run_bench(&run);
    free(run.devices);
    free(run.rows);
    return code;
}

int main(int argc, char **argv)
{
    bench_options options;
    char error[300];
    int code = EXIT_GOOD;
    if (!bench_options_parse(&options, argc, argv, error, sizeof error)) {
        const char *command = bench_command_name(options.command);
        fprintf(stderr, "hal-bench: %s\ntry: hal-bench %s%s--help\n", error, command, *command ? " " : "");
        return EXIT_USAGE;
    }
    if (options.command == BENCH_HELP)
        bench_options_help(options.help_for, stdout);
    else if (options.command == BENCH_VERSION)
        printf("hal-bench %s\n", hal_version());
    else
        code = options.command == BENCH_MODEL ? bench_model(argc - 1, argv) : measure(&options);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == EXIT_GOOD) {
        fputs("hal-bench: cannot write to standard output\n", stderr);
        code = EXIT_FAILED;
    }
    return code;
}
