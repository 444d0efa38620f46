/* subject_hal.c - the work through libhal's public API. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>

typedef struct hal_subject {
    hal_device *device;
    hal_stream *stream;
    hal_cmdlist *now; /* the stream's immediate list */
    hal_module *module;
    hal_kernel *kernel;
    hal_buffer *sources[BENCH_MAX_STEPS], *sinks[BENCH_MAX_STEPS]; /* BENCH_BUFFERS */
    hal_buffer *slot_sources[2], *slot_sinks[2];                   /* SLOTS_A, SLOTS_B: step i at i * BENCH_SPACING */
    hal_buffer *uploads;
    hal_cmdlist *list, *slot_list;
    hal_event *start, *end, *point;
} hal_subject;

static bool failed(bench_subject *subject, const char *doing)
{
    return bench_subject_fail(subject, "libhal: %s: %s", doing, hal_last_error());
}

static bool create_kernel(bench_subject *subject)
{
    hal_subject *self = subject->state;
    /* Offsets are added by the kernel in OpenCL and live in a block of memory in Vulkan: what the operators use. */
    const hal_module_desc *module =
        HAL_MODULE(.label = "bench_step", .opencl_c = (const char *)bench_step_cl,
                   .cuda_ptx = (const char *)bench_step_ptx, .spirv = bench_step_block_size ? bench_step_block : NULL,
                   .spirv_size = bench_step_block_size);
    bool opencl = !strcmp(hal_device_get_info(self->device)->backend, "opencl");
    const hal_kernel_desc *kernel =
        HAL_KERNEL(.label = "bench_step", .bindings = {HAL_READ, HAL_READ_WRITE}, .binding_count = 2,
                   .args_size = sizeof(uint32_t), .group = {1, 1, 1}, .abi = HAL_ABI_OFFSET);
    if (hal_module_create(self->device, module, &self->module) ||
        hal_kernel_create(self->module, opencl ? "bench_step_offset" : "bench_step", kernel, &self->kernel))
        return failed(subject, "making the kernel");
    return true;
}

static bool create_buffers(bench_subject *subject)
{
    hal_subject *self = subject->state;
    uint64_t arena = (uint64_t)BENCH_MAX_STEPS * BENCH_SPACING;
    for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++)
        if (hal_buffer_create(self->device, HAL_BUFFER(.size = BENCH_SPACING), &self->sources[i]) ||
            hal_buffer_create(self->device, HAL_BUFFER(.size = BENCH_SPACING), &self->sinks[i]))
            return failed(subject, "allocating");
    for (uint32_t i = 0; i < 2; i++)
        if (hal_buffer_create(self->device, HAL_BUFFER(.size = arena), &self->slot_sources[i]) ||
            hal_buffer_create(self->device, HAL_BUFFER(.size = arena), &self->slot_sinks[i]))
            return failed(subject, "allocating");
    uint64_t uploads = (uint64_t)BENCH_MAX_UPLOADS * BENCH_UPLOAD_SIZE;
    if (hal_buffer_create(self->device, HAL_BUFFER(.size = uploads), &self->uploads))
        return failed(subject, "allocating");
    return true;
}

static bool wait(bench_subject *subject)
{
    hal_subject *self = subject->state;
    return hal_stream_wait(self->stream, HAL_SECONDS(30)) == HAL_OK || failed(subject, "waiting for the stream");
}

static bool fill_sources(bench_subject *subject)
{
    hal_subject *self = subject->state;
    for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++) {
        uint32_t value = bench_source_value(i);
        hal_span single = hal_range(self->sources[i], 0, sizeof value);
        if (hal_cmd_fill(self->now, single, &value, sizeof value))
            return failed(subject, "filling");
        for (uint32_t slot = 0; slot < 2; slot++) {
            hal_span part = hal_range(self->slot_sources[slot], (uint64_t)i * BENCH_SPACING, sizeof value);
            if (hal_cmd_fill(self->now, part, &value, sizeof value))
                return failed(subject, "filling");
        }
    }
    return wait(subject);
}

static bool hal_open(bench_subject *subject, const bench_device *device)
{
    hal_subject *self = subject->state = calloc(1, sizeof *self);
    if (!self)
        return bench_subject_fail(subject, "out of memory");
    if (hal_device_open(HAL_DEVICE(.select = device->select, .label = "hal-bench"), &self->device))
        return failed(subject, "opening the device");
    if (hal_stream_create(self->device, HAL_STREAM(.label = "bench"), &self->stream) ||
        hal_event_create(self->device, HAL_EVENT(.label = "point"), &self->point))
        return failed(subject, "making a stream");
    if (device->info.timestamps && (hal_event_create(self->device, HAL_EVENT(.timing = true), &self->start) ||
                                    hal_event_create(self->device, HAL_EVENT(.timing = true), &self->end)))
        return failed(subject, "making events");
    self->now = hal_stream_cmdlist(self->stream);
    return create_kernel(subject) && create_buffers(subject) && fill_sources(subject);
}

static void hal_close(bench_subject *subject)
{
    hal_subject *self = subject->state;
    if (!self)
        return;
    hal_cmdlist_destroy(self->list);
    hal_cmdlist_destroy(self->slot_list);
    hal_event_destroy(self->start);
    hal_event_destroy(self->end);
    hal_event_destroy(self->point);
    for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++) {
        hal_buffer_destroy(self->sources[i]);
        hal_buffer_destroy(self->sinks[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        hal_buffer_destroy(self->slot_sources[i]);
        hal_buffer_destroy(self->slot_sinks[i]);
    }
    hal_buffer_destroy(self->uploads);
    hal_kernel_destroy(self->kernel);
    hal_module_destroy(self->module);
    hal_stream_destroy(self->stream);
    hal_device_destroy(self->device);
    free(self);
    subject->state = NULL;
}

static bool clear(bench_subject *subject)
{
    hal_subject *self = subject->state;
    uint32_t zero = 0;
    for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++)
        if (hal_cmd_fill(self->now, hal_whole(self->sinks[i]), &zero, sizeof zero))
            return failed(subject, "clearing");
    for (uint32_t i = 0; i < 2; i++)
        if (hal_cmd_fill(self->now, hal_whole(self->slot_sinks[i]), &zero, sizeof zero))
            return failed(subject, "clearing");
    return wait(subject);
}

static bool read_sinks(bench_subject *subject, bench_group group, uint32_t count, uint32_t *sinks)
{
    hal_subject *self = subject->state;
    for (uint32_t i = 0; i < count; i++) {
        hal_span place = hal_range(self->sinks[i], 0, sizeof *sinks);
        if (group != BENCH_BUFFERS)
            place = hal_range(self->slot_sinks[group - BENCH_SLOTS_A], (uint64_t)i * BENCH_SPACING, sizeof *sinks);
        if (hal_cmd_download(self->now, &sinks[i], place))
            return failed(subject, "reading");
    }
    return wait(subject);
}

static hal_status step(hal_subject *self, hal_cmdlist *list, bench_pattern pattern, uint32_t index)
{
    bench_operands operands = bench_step_operands(pattern, index);
    return hal_cmd_dispatch(
        list, self->kernel, HAL_GRID1(1),
        HAL_SPANS(hal_range(self->sources[operands.source], 0, 4), hal_range(self->sinks[operands.sink], 0, 4)),
        &operands.add, sizeof operands.add);
}

static bool dispatch(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    hal_subject *self = subject->state;
    for (uint32_t i = 0; i < count; i++)
        if (step(self, self->now, pattern, i))
            return failed(subject, "dispatching");
    return hal_stream_flush(self->stream) == HAL_OK || failed(subject, "flushing");
}

static bool upload(bench_subject *subject, const void *source, uint32_t count)
{
    hal_subject *self = subject->state;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t place = (uint64_t)i * BENCH_UPLOAD_SIZE;
        if (hal_cmd_upload(self->now, hal_range(self->uploads, place, BENCH_UPLOAD_SIZE), (const char *)source + place,
                           BENCH_UPLOAD_SIZE))
            return failed(subject, "uploading");
    }
    return hal_stream_flush(self->stream) == HAL_OK || failed(subject, "flushing");
}

static bool read_upload(bench_subject *subject, uint32_t index, void *target)
{
    hal_subject *self = subject->state;
    hal_span place = hal_range(self->uploads, (uint64_t)index * BENCH_UPLOAD_SIZE, BENCH_UPLOAD_SIZE);
    if (hal_cmd_download(self->now, target, place))
        return failed(subject, "reading");
    return wait(subject);
}

static bool round_trip(bench_subject *subject, uint32_t count)
{
    hal_subject *self = subject->state;
    for (uint32_t i = 0; i < count; i++)
        if (step(self, self->now, BENCH_CHAIN, i) || hal_event_record(self->point, self->stream) ||
            hal_event_wait(self->point, HAL_SECONDS(30)))
            return failed(subject, "recording and waiting for an event");
    return true;
}

static bool record(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    hal_subject *self = subject->state;
    hal_cmdlist_destroy(self->list);
    if (hal_cmdlist_create(self->device, HAL_CMDLIST(.label = "steps"), &self->list))
        return failed(subject, "making a list");
    for (uint32_t i = 0; i < count; i++)
        if (step(self, self->list, pattern, i))
            return failed(subject, "recording");
    return hal_cmdlist_finish(self->list) == HAL_OK || failed(subject, "finishing a list");
}

static bool replay(bench_subject *subject)
{
    hal_subject *self = subject->state;
    if (hal_cmdlist_submit(self->list, self->stream, NULL) || hal_stream_flush(self->stream))
        return failed(subject, "submitting a list");
    return true;
}

/* `source` and `sink` are buffers or slots: dispatch i works at i * BENCH_SPACING of both. */
static hal_status slot_step(hal_subject *self, hal_cmdlist *list, hal_span source, hal_span sink, uint32_t index)
{
    bench_operands operands = bench_step_operands(BENCH_REBIND, index);
    source.offset = sink.offset = (uint64_t)index * BENCH_SPACING;
    return hal_cmd_dispatch(list, self->kernel, HAL_GRID1(1), HAL_SPANS(source, sink), &operands.add,
                            sizeof operands.add);
}

static bool record_slots(bench_subject *subject, uint32_t count)
{
    hal_subject *self = subject->state;
    hal_cmdlist_destroy(self->slot_list);
    if (hal_cmdlist_create(self->device, HAL_CMDLIST(.label = "slots"), &self->slot_list))
        return failed(subject, "making a list");
    for (uint32_t i = 0; i < count; i++)
        if (slot_step(self, self->slot_list, hal_slot_range(0, 0, 4), hal_slot_range(1, 0, 4), i))
            return failed(subject, "recording");
    return hal_cmdlist_finish(self->slot_list) == HAL_OK || failed(subject, "finishing a list");
}

static bool rebind(bench_subject *subject, bench_group group)
{
    hal_subject *self = subject->state;
    uint32_t set = group - BENCH_SLOTS_A;
    const hal_bindings *bindings = HAL_BINDINGS(hal_whole(self->slot_sources[set]), hal_whole(self->slot_sinks[set]));
    if (hal_cmdlist_submit(self->slot_list, self->stream, bindings) || hal_stream_flush(self->stream))
        return failed(subject, "submitting a list");
    return true;
}

static bool rerecord(bench_subject *subject, bench_group group, uint32_t count)
{
    hal_subject *self = subject->state;
    hal_cmdlist *list;
    uint32_t set = group - BENCH_SLOTS_A;
    if (hal_cmdlist_create(self->device, HAL_CMDLIST(.label = "again"), &list))
        return failed(subject, "making a list");
    hal_status status = HAL_OK;
    hal_span source = hal_range(self->slot_sources[set], 0, 4), sink = hal_range(self->slot_sinks[set], 0, 4);
    for (uint32_t i = 0; i < count && !status; i++)
        status = slot_step(self, list, source, sink, i);
    if (!status)
        status = hal_cmdlist_finish(list);
    if (!status)
        status = hal_cmdlist_submit(list, self->stream, NULL);
    if (!status)
        status = hal_stream_flush(self->stream);
    if (status)
        failed(subject, "recording again");
    hal_cmdlist_destroy(list);
    return status == HAL_OK;
}

static bool clock_start(bench_subject *subject)
{
    hal_subject *self = subject->state;
    return self->start && (hal_event_record(self->start, self->stream) == HAL_OK || failed(subject, "timing"));
}

static bool clock_stop(bench_subject *subject, double *nanoseconds)
{
    hal_subject *self = subject->state;
    uint64_t elapsed;
    if (hal_event_record(self->end, self->stream) || hal_event_wait(self->end, HAL_SECONDS(30)) ||
        hal_event_elapsed(self->start, self->end, &elapsed))
        return failed(subject, "timing");
    *nanoseconds = (double)elapsed;
    return true;
}

static uint64_t allocations(bench_subject *subject)
{
    hal_subject *self = subject->state;
    hal_memory_stats stats;
    return hal_device_memory_stats(self->device, &stats) ? 0 : stats.host_allocations;
}

bool bench_subject_trace_start(bench_subject *subject)
{
    hal_subject *self = subject->state;
    return hal_trace_start(self->device) == HAL_OK || failed(subject, "starting a trace");
}

bool bench_subject_trace_write(bench_subject *subject, const char *path)
{
    hal_subject *self = subject->state;
    return hal_trace_write(self->device, path, HAL_SECONDS(30)) == HAL_OK || failed(subject, "writing the trace");
}

const bench_subject_api bench_libhal = {
    .name = "libhal",
    .open = hal_open,
    .close = hal_close,
    .wait = wait,
    .clear = clear,
    .read = read_sinks,
    .dispatch = dispatch,
    .upload = upload,
    .read_upload = read_upload,
    .round_trip = round_trip,
    .record = record,
    .replay = replay,
    .record_slots = record_slots,
    .rebind = rebind,
    .rerecord = rerecord,
    .clock_start = clock_start,
    .clock_stop = clock_stop,
    .allocations = allocations,
};
