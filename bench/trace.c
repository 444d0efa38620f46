/* trace.c - a short sequence, eager and replayed, as a Chrome/Perfetto trace. */
#include "subject.h"

#include <string.h>

/* FILE for one device; FILE with .BACKEND before its ending for several. */
static void trace_path(const bench_run *run, const bench_device *device, char *path, size_t size)
{
    const char *wanted = run->options->trace, *slash = strrchr(wanted, '/'),
               *dot = strrchr(slash ? slash : wanted, '.');
    size_t stem = dot ? (size_t)(dot - wanted) : strlen(wanted);
    if (run->device_count == 1)
        snprintf(path, size, "%s", wanted);
    else
        snprintf(path, size, "%.*s.%s%u%s", (int)stem, wanted, device->info.backend, device->info.index,
                 dot ? dot : "");
}

void bench_trace(bench_run *run, const bench_device *device)
{
    enum { EAGER = 20, LIST = 20, REPLAYS = 5 };
    char path[4096];
    bench_subject subject;
    trace_path(run, device, path, sizeof path);
    bool good = bench_subject_open(&subject, &bench_libhal, device) && bench_subject_trace_start(&subject) &&
                subject.api->dispatch(&subject, BENCH_INDEPENDENT, EAGER) &&
                subject.api->dispatch(&subject, BENCH_CHAIN, EAGER) && subject.api->wait(&subject) &&
                subject.api->record(&subject, BENCH_INDEPENDENT, LIST);
    for (int i = 0; i < REPLAYS && good; i++)
        good = subject.api->replay(&subject);
    good = good && subject.api->wait(&subject) && bench_subject_trace_write(&subject, path);
    if (good)
        fprintf(run->out, "trace: %s (open it in ui.perfetto.dev or chrome://tracing)\n", path);
    else
        fprintf(stderr, "hal-bench: no trace of %s: %s\n", device->select, subject.error);
    run->failed = run->failed || !good;
    bench_subject_close(&subject);
}
