/* pipeline.c - hal_pipeline: three streams and n slots. */
#include <hal/pipeline.h>

#include "core.h"
#include "internal.h"

enum { PIPELINE_TYPE = 0x48414c49, DEFAULT_SLOTS = 3, MOST_SLOTS = 64 };
enum { STAGE_UPLOAD, STAGE_COMPUTE, STAGE_DOWNLOAD, STAGES };

typedef struct slot {
    hal_buffer *input, *output;
    hal_event *passed[STAGES]; /* full, computed, empty */
    uint64_t item, since;      /* the item that it has or had last, and when that was pushed */
    bool taken;                /* and nobody has seen it empty since */
} slot;

struct hal_pipeline {
    uint32_t type; /* PIPELINE_TYPE; other handles are told by it */
    hal_pipeline_desc desc;
    char *label;
    hal_device *device;
    hal_stream *streams[STAGES];
    slot *slots;
    hal_pipeline_stats stats;
    hal_status status; /* what ended it */
};

static const char *const stage_names[STAGES] = {"upload", "compute", "download"};

static hal_status live(const hal_pipeline *pipeline, const char *call)
{
    return pipeline && pipeline->type == PIPELINE_TYPE
               ? HAL_OK
               : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: pipeline is %s; use what hal_pipeline_create gave", call,
                          pipeline ? "not a live pipeline" : "NULL");
}

static hal_status usable(const hal_pipeline *pipeline, const char *call)
{
    const hal_status status = live(pipeline, call);
    return status != HAL_OK ? status
           : pipeline->status == HAL_OK
               ? HAL_OK
               : hal_fail(pipeline->status, "%s: pipeline '%s' ended at item %llu with %s", call, pipeline->label,
                          (unsigned long long)pipeline->stats.pushed, hal_status_name(pipeline->status));
}

static hal_status create_slot(hal_pipeline *p, slot *s)
{
    const hal_pipeline_desc *d = &p->desc;
    hal_status status = HAL_OK;
    if (d->input_size) {
        status = hal_buffer_create(p->device, HAL_BUFFER(.size = d->input_size, .label = p->label), &s->input);
    }
    if (status == HAL_OK && d->output_size) {
        status = hal_buffer_create(p->device, HAL_BUFFER(.size = d->output_size, .label = p->label), &s->output);
    }
    for (uint32_t i = 0; status == HAL_OK && i < STAGES; i++) {
        const hal_event_desc event = {.struct_size = sizeof event, .label = stage_names[i]};
        status = hal_event_create(p->device, &event, &s->passed[i]);
    }
    return status;
}

static hal_status check_desc(const hal_pipeline_desc *desc)
{
    if (!desc->compute || desc->slots > MOST_SLOTS) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_pipeline_create: compute is %s, slots %u; give one, and at most %d",
                        desc->compute ? "given" : "NULL", desc->slots, MOST_SLOTS);
    }
    return HAL_OK;
}

hal_status hal_pipeline_create(hal_device *device, const hal_pipeline_desc *given, hal_pipeline **pipeline)
{
    hal_pipeline_desc desc;
    if (!pipeline) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_pipeline_create: pipeline is NULL; pass a place for it");
    }
    *pipeline = NULL;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_pipeline_create: device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_pipeline_desc") : status;
    status = status == HAL_OK ? check_desc(&desc) : status;
    if (status != HAL_OK) {
        return status;
    }
    desc.slots = desc.slots ? desc.slots : DEFAULT_SLOTS;
    hal_pipeline *p = hal_calloc(&device->core, 1, sizeof *p);
    slot *slots = hal_calloc(&device->core, desc.slots, sizeof *slots);
    if (!p || !slots) {
        hal_free(p);
        hal_free(slots);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_pipeline_create: out of host memory");
    }
    *p = (hal_pipeline){.type = PIPELINE_TYPE, .desc = desc, .device = device, .slots = slots};
    hal_device_keep(device);
    status = hal_label(&device->core, desc.label, "pipeline", &p->label);
    for (uint32_t i = 0; status == HAL_OK && i < STAGES; i++) {
        const hal_stream_desc stream = {.struct_size = sizeof stream, .label = stage_names[i]};
        status = hal_stream_create(device, &stream, &p->streams[i]);
    }
    for (uint32_t i = 0; status == HAL_OK && i < desc.slots; i++) {
        status = create_slot(p, &p->slots[i]);
    }
    if (status != HAL_OK) {
        hal_pipeline_destroy(p);
        return status;
    }
    *pipeline = p;
    return HAL_OK;
}

void hal_pipeline_destroy(hal_pipeline *p)
{
    if (!p || p->type != PIPELINE_TYPE) {
        return;
    }
    p->type = 0;
    for (uint32_t i = 0; i < p->desc.slots; i++) {
        hal_buffer_destroy(p->slots[i].input);
        hal_buffer_destroy(p->slots[i].output);
        for (uint32_t stage = 0; stage < STAGES; stage++) {
            hal_event_destroy(p->slots[i].passed[stage]);
        }
    }
    for (uint32_t i = 0; i < STAGES; i++) {
        hal_stream_destroy(p->streams[i]);
    }
    hal_device *device = p->device;
    hal_free(p->label);
    hal_free(p->slots);
    hal_free(p);
    hal_device_leave(device);
}

/* Wait for the slot's item, if it has one that nobody has waited for. */
static hal_status drain(hal_pipeline *p, slot *s, uint64_t timeout)
{
    if (!s->taken) {
        return HAL_OK;
    }
    hal_status status = hal_event_wait(s->passed[STAGE_DOWNLOAD], timeout);
    if (status == HAL_OK) {
        s->taken = false;
        p->stats.done++;
    }
    return status;
}

/* The slot of the next item, empty; a wait is counted. */
static hal_status take_slot(hal_pipeline *p, uint64_t timeout, slot **taken)
{
    slot *s = &p->slots[p->stats.pushed % p->desc.slots];
    hal_status status = drain(p, s, 0);
    if (status == HAL_TIMEOUT) {
        const uint64_t start = hal_now();
        p->stats.stalls++;
        status = drain(p, s, timeout);
        p->stats.stalled_us += (double)(hal_now() - start) / 1e3;
    }
    *taken = s;
    return status;
}

/* What follows on a later stage's stream waits for this one's. */
static hal_status pass(hal_pipeline *p, slot *s, uint32_t stage)
{
    hal_status status = hal_event_record(s->passed[stage], p->streams[stage]);
    if (status == HAL_OK && stage + 1 < STAGES) {
        status = hal_stream_wait_event(p->streams[stage + 1], s->passed[stage]);
    }
    return status == HAL_OK ? hal_stream_flush(p->streams[stage]) : status;
}

/* A failure that is not libhal's comes without a message; an older one would mislead. */
static hal_status compute(hal_pipeline *p, hal_span input, hal_span output)
{
    hal_set_error("%s", "");
    hal_status status =
        p->desc.compute(p->desc.user, hal_stream_cmdlist(p->streams[STAGE_COMPUTE]), p->stats.pushed, input, output);
    return status == HAL_OK || *hal_last_error() ? status
                                                 : hal_fail(status, "compute returned %s", hal_status_name(status));
}

static hal_status tell(hal_pipeline *p, slot *s, const void *source, uint64_t size, void *target, uint64_t output_size)
{
    const hal_span none = {0}, input = s->input ? hal_range(s->input, 0, size) : none;
    const hal_span output = s->output ? hal_whole(s->output) : none;
    hal_status status = HAL_OK;
    if (size) {
        status = hal_cmd_upload(hal_stream_cmdlist(p->streams[STAGE_UPLOAD]), input, source, size);
    }
    status = status == HAL_OK ? pass(p, s, STAGE_UPLOAD) : status;
    if (status == HAL_OK) {
        status = compute(p, input, output);
    }
    status = status == HAL_OK ? pass(p, s, STAGE_COMPUTE) : status;
    if (status == HAL_OK && target && output_size) {
        status = hal_cmd_download(hal_stream_cmdlist(p->streams[STAGE_DOWNLOAD]), target,
                                  hal_range(s->output, 0, output_size));
    }
    return status == HAL_OK ? pass(p, s, STAGE_DOWNLOAD) : status;
}

hal_status hal_pipeline_push(hal_pipeline *p, const void *source, uint64_t size, void *target, uint64_t output_size,
                             uint64_t timeout)
{
    hal_status status = usable(p, "hal_pipeline_push");
    if (status != HAL_OK) {
        return status;
    }
    if (size > p->desc.input_size || (target && output_size > p->desc.output_size) || (size && !source)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_pipeline_push: %llu bytes of %s in, %llu out; slots of '%s' hold %llu and %llu",
                        (unsigned long long)size, source ? "a source" : "NULL", (unsigned long long)output_size,
                        p->label, (unsigned long long)p->desc.input_size, (unsigned long long)p->desc.output_size);
    }
    slot *s;
    status = take_slot(p, timeout, &s);
    if (status != HAL_OK) {
        return status;
    }
    s->item = p->stats.pushed;
    s->since = hal_now();
    status = tell(p, s, source, size, target, output_size);
    if (status != HAL_OK) {
        p->status = status;
        return hal_fail_prefix(status, "pipeline '%s', item %llu", p->label, (unsigned long long)s->item);
    }
    s->taken = true;
    p->stats.pushed++;
    return HAL_OK;
}

hal_status hal_pipeline_wait(hal_pipeline *p, uint64_t item, uint64_t timeout)
{
    hal_status status = usable(p, "hal_pipeline_wait");
    if (status != HAL_OK) {
        return status;
    }
    if (item >= p->stats.pushed) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_pipeline_wait: item is %llu; '%s' has been pushed %llu",
                        (unsigned long long)item, p->label, (unsigned long long)p->stats.pushed);
    }
    slot *s = &p->slots[item % p->desc.slots];
    return s->item == item ? drain(p, s, timeout) : HAL_OK;
}

hal_status hal_pipeline_finish(hal_pipeline *p, uint64_t timeout)
{
    hal_status status = usable(p, "hal_pipeline_finish");
    const uint64_t deadline = hal_deadline(hal_now(), timeout);
    for (uint32_t i = 0; status == HAL_OK && i < p->desc.slots; i++) {
        const uint64_t now = hal_now();
        const uint64_t left = timeout == HAL_FOREVER ? timeout : deadline > now ? deadline - now : 0;
        status = drain(p, &p->slots[(p->stats.pushed + i) % p->desc.slots], left);
    }
    return status;
}

hal_status hal_pipeline_get_stats(hal_pipeline *p, hal_pipeline_stats *stats)
{
    hal_status status = live(p, "hal_pipeline_get_stats");
    if (status != HAL_OK) {
        return status;
    }
    if (!stats || stats->struct_size < sizeof(size_t)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_pipeline_get_stats: stats is NULL, or stats->struct_size is not set");
    }
    for (uint32_t i = 0; i < p->desc.slots; i++) {
        status = drain(p, &p->slots[i], 0);
        if (status != HAL_OK && status != HAL_TIMEOUT) {
            return status;
        }
    }
    hal_desc_write(&p->stats, sizeof p->stats, stats);
    return HAL_OK;
}

/* The first stage that the slot's item has not passed; STAGES: it is done. */
static hal_status stage_of(const slot *s, uint32_t *stage)
{
    hal_status status = HAL_OK;
    for (*stage = 0; *stage < STAGES; ++*stage) {
        status = hal_event_wait(s->passed[*stage], 0);
        if (status != HAL_OK) {
            break;
        }
    }
    return status == HAL_TIMEOUT ? HAL_OK : status;
}

hal_status hal_pipeline_report(hal_pipeline *p, char *text, size_t size)
{
    const hal_status alive = live(p, "hal_pipeline_report");
    if (alive != HAL_OK) {
        return alive;
    }
    if (!text || !size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_pipeline_report: text is NULL, or size is 0");
    }
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < p->desc.slots && used < size; i++) {
        static const char *const waits[STAGES + 1] = {"being uploaded", "uploaded, not computed",
                                                      "computed, not downloaded", "done"};
        const slot *s = &p->slots[i];
        uint32_t stage = STAGES;
        const hal_status status = s->taken ? stage_of(s, &stage) : HAL_OK;
        if (status != HAL_OK) {
            return status;
        }
        const int length =
            s->taken ? snprintf(text + used, size - used, "slot %u: item %llu, %s, %.3f s after its push\n", i,
                                (unsigned long long)s->item, waits[stage], (double)(hal_now() - s->since) / 1e9)
                     : snprintf(text + used, size - used, "slot %u: empty\n", i);
        used += length > 0 ? (size_t)length : 0;
    }
    return HAL_OK;
}
