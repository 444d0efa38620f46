/* stage.c - the device's side of a job: operands in its memory, calls on a stream, results read back. */
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool bench_succeeded(hal_status status, const char *doing, char *error, size_t error_size)
{
    if (status != HAL_OK)
        snprintf(error, error_size, "%s: %s", doing, hal_last_error());
    return status == HAL_OK;
}

static bool did(bench_stage *stage, hal_status status, const char *doing)
{
    stage->status = status != HAL_OK ? status : stage->status;
    return bench_succeeded(status, doing, stage->error, sizeof stage->error);
}

static bool create_buffer(bench_stage *stage, uint64_t size, const char *label, hal_buffer **buffer)
{
    return did(stage, hal_buffer_create(stage->device, HAL_BUFFER(.size = size, .label = label), buffer), label);
}

static bool create_operands(bench_stage *stage)
{
    hal_cmdlist *now = hal_stream_cmdlist(stage->stream);
    const uint32_t poison = UINT32_MAX; /* NaN in every dtype: what the operator does not write shows */
    for (uint32_t i = 0; i < BENCH_MAX_PLACES && stage->job->places[i].name; i++) {
        const bench_place *place = &stage->job->places[i];
        if (!create_buffer(stage, place->size, place->name, &stage->buffers[i]))
            return false;
        hal_span span = stage->spans[i] = hal_whole(stage->buffers[i]);
        if (!did(stage,
                 place->elements ? hal_cmd_upload(now, span, place->elements, place->size)
                                 : hal_cmd_fill(now, span, &poison, 1),
                 place->name))
            return false;
    }
    return did(stage, hal_stream_wait(stage->stream, HAL_SECONDS(60)), "uploading the operands");
}

static bool create_workspace(bench_stage *stage)
{
    uint64_t size = 0;
    if (!stage->job->workspace)
        return true;
    if (!did(stage, stage->job->workspace(stage->device, stage->job, stage->spans, &size), "sizing the workspace"))
        return false;
    if (size == 0)
        return true;
    if (!create_buffer(stage, size, "workspace", &stage->workspace))
        return false;
    stage->workspace_span = hal_whole(stage->workspace);
    return true;
}

bool bench_stage_open(bench_stage *stage, const bench_device *device, const bench_job *job)
{
    const hal_event_desc *timing = HAL_EVENT(.timing = true);
    *stage = (bench_stage){.job = job};
    bool good =
        did(stage, bench_device_open(device, &stage->device), "opening the device") &&
        did(stage, hal_stream_create(stage->device, HAL_STREAM(.label = job->op), &stage->stream), "making a stream");
    if (good && device->info.timestamps)
        good = did(stage, hal_event_create(stage->device, timing, &stage->start), "making an event") &&
               did(stage, hal_event_create(stage->device, timing, &stage->end), "making an event");
    return good && create_operands(stage) && create_workspace(stage);
}

void bench_stage_close(bench_stage *stage)
{
    hal_event_destroy(stage->start);
    hal_event_destroy(stage->end);
    for (uint32_t i = 0; i < BENCH_MAX_PLACES; i++)
        hal_buffer_destroy(stage->buffers[i]);
    hal_buffer_destroy(stage->workspace);
    hal_buffer_destroy(stage->copy_from);
    hal_buffer_destroy(stage->copy_to);
    hal_stream_destroy(stage->stream);
    hal_device_destroy(stage->device);
}

static hal_status call_job(bench_stage *stage, hal_cmdlist *now)
{
    return stage->job->call(now, stage->job, stage->spans, stage->workspace_span);
}

static hal_status call_copy(bench_stage *stage, hal_cmdlist *now)
{
    return hal_cmd_copy(now, hal_whole(stage->copy_to), hal_whole(stage->copy_from));
}

static bool time_calls(bench_stage *stage, hal_status (*call)(bench_stage *stage, hal_cmdlist *now), const char *name,
                       uint32_t repeats, bool on_device, bench_times *times)
{
    uint64_t elapsed = 0;
    hal_cmdlist *now = hal_stream_cmdlist(stage->stream);
    bool events = on_device && stage->start;
    double start = bench_seconds();
    if (events && !did(stage, hal_event_record(stage->start, stage->stream), "timing"))
        return false;
    for (uint32_t i = 0; i < repeats; i++)
        if (!did(stage, call(stage, now), name))
            return false;
    if ((events && !did(stage, hal_event_record(stage->end, stage->stream), "timing")) ||
        !did(stage, hal_stream_flush(stage->stream), "flushing"))
        return false;
    double handed_over = bench_seconds();
    if (!did(stage, hal_stream_wait(stage->stream, HAL_SECONDS(120)), "waiting for the result"))
        return false;
    times->wait = (bench_seconds() - handed_over) / repeats;
    times->submit = (handed_over - start) / repeats;
    times->device = NAN;
    if (events && !did(stage, hal_event_elapsed(stage->start, stage->end, &elapsed), "timing"))
        return false;
    if (events)
        times->device = (double)elapsed * 1e-9 / repeats;
    return true;
}

double bench_times_seconds(const bench_times *times)
{
    return times->device > 0 ? times->device : times->submit + times->wait;
}

bool bench_stage_call(bench_stage *stage, uint32_t repeats, bool on_device, bench_times *times)
{
    return time_calls(stage, call_job, stage->job->op, repeats, on_device, times);
}

bool bench_stage_copy(bench_stage *stage, uint64_t size, uint32_t repeats, bench_times *times)
{
    const uint8_t zero = 0;
    if (!stage->copy_from &&
        (!create_buffer(stage, size, "copy", &stage->copy_from) ||
         !create_buffer(stage, size, "copy", &stage->copy_to) ||
         !did(stage, hal_cmd_fill(hal_stream_cmdlist(stage->stream), hal_whole(stage->copy_from), &zero, sizeof zero),
              "filling a buffer")))
        return false;
    return time_calls(stage, call_copy, "copying", repeats, true, times);
}

bool bench_stage_check(bench_stage *stage, bench_worst *worst)
{
    void *results[BENCH_MAX_PLACES] = {0};
    hal_cmdlist *now = hal_stream_cmdlist(stage->stream);
    bool good = true;
    for (uint32_t i = 0; good && i < BENCH_MAX_PLACES && stage->job->places[i].name; i++) {
        const bench_place *place = &stage->job->places[i];
        if (place->elements)
            continue;
        results[i] = malloc(place->size);
        if (!results[i])
            snprintf(stage->error, sizeof stage->error, "out of memory");
        good = results[i] && did(stage, hal_cmd_download(now, results[i], stage->spans[i]), "reading the result");
    }
    /* Downloads write host memory until they are waited for. */
    good = did(stage, hal_stream_wait(stage->stream, HAL_SECONDS(60)), "reading the result") && good;
    *worst = (bench_worst){0};
    if (good)
        stage->job->check(stage->job, (const void *const *)results, worst);
    for (uint32_t i = 0; i < BENCH_MAX_PLACES; i++)
        free(results[i]);
    return good;
}
