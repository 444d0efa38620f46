/* subject.c - what all subjects share: the work's arithmetic and its check. */
#include "subject.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bench_operands bench_step_operands(bench_pattern pattern, uint32_t step)
{
    switch (pattern) {
    case BENCH_INDEPENDENT:
        return (bench_operands){0, step, 1};
    case BENCH_CHAIN:
        return (bench_operands){0, 0, 1};
    case BENCH_REBIND:
        break;
    }
    return (bench_operands){step, step, step};
}

uint32_t bench_source_value(uint32_t index)
{
    return 1 + index % 7;
}

uint32_t bench_upload_word(uint32_t upload, uint32_t word)
{
    return upload * 2654435761u + word;
}

bool bench_subject_fail(bench_subject *subject, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(subject->error, sizeof subject->error, format, arguments);
    va_end(arguments);
    return false;
}

bool bench_subject_open(bench_subject *subject, const bench_subject_api *api, const bench_device *device)
{
    memset(subject, 0, sizeof *subject);
    subject->api = api;
    subject->expected = calloc((size_t)BENCH_GROUPS * BENCH_MAX_STEPS, sizeof *subject->expected);
    if (!subject->expected)
        return bench_subject_fail(subject, "out of memory");
    return api->open(subject, device);
}

void bench_subject_close(bench_subject *subject)
{
    if (subject->api)
        subject->api->close(subject);
    free(subject->expected);
    memset(subject, 0, sizeof *subject);
}

bool bench_subject_clear(bench_subject *subject)
{
    memset(subject->expected, 0, (size_t)BENCH_GROUPS * BENCH_MAX_STEPS * sizeof *subject->expected);
    return subject->api->clear(subject);
}

void bench_subject_expect(bench_subject *subject, bench_pattern pattern, bench_group group, uint32_t count)
{
    uint32_t *sinks = subject->expected + (size_t)group * BENCH_MAX_STEPS;
    for (uint32_t step = 0; step < count; step++) {
        bench_operands operands = bench_step_operands(pattern, step);
        sinks[operands.sink] += bench_source_value(operands.source) + operands.add;
    }
}

bool bench_subject_check(bench_subject *subject)
{
    uint32_t sinks[BENCH_MAX_STEPS];
    for (uint32_t group = 0; group < BENCH_GROUPS; group++) {
        const uint32_t *expected = subject->expected + (size_t)group * BENCH_MAX_STEPS;
        if (!subject->api->read(subject, (bench_group)group, BENCH_MAX_STEPS, sinks))
            return false;
        for (uint32_t sink = 0; sink < BENCH_MAX_STEPS; sink++)
            if (sinks[sink] != expected[sink])
                return bench_subject_fail(subject, "%s computed a wrong result: sink %u of group %u holds %u, not %u",
                                          subject->api->name, sink, group, sinks[sink], expected[sink]);
    }
    return true;
}

void *bench_driver_open(bench_subject *subject, const char *variable, const char *name)
{
    const char *instead = getenv(variable);
    /* It stays mapped: drivers leave threads and exit handlers behind. */
    void *library = dlopen(instead && *instead ? instead : name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        bench_subject_fail(subject, "%s: %s", subject->api->name, dlerror());
    return library;
}

const bench_subject_api *bench_raw_api(const char *backend, const char **reason)
{
    *reason = "";
#ifdef BENCH_HAVE_OPENCL
    if (!strcmp(backend, "opencl"))
        return &bench_raw_opencl;
#endif
#ifdef BENCH_HAVE_VULKAN
    if (!strcmp(backend, "vulkan"))
        return &bench_raw_vulkan;
#endif
    if (!strcmp(backend, "cuda"))
        return &bench_raw_cuda;
    *reason = "no raw control: this build did not find the API's headers (CL/cl.h, vulkan/vulkan.h)";
    return NULL;
}
