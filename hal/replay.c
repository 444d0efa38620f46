/* replay.c - submitting a recorded list: bindings are checked and resolved, then each segment goes to the backend. */
#include "recording.h"

static hal_status resolve_binding(hal_cmdlist *list, uint32_t slot, const hal_span *span, hal_native_span *out)
{
    const hal_slot_use *use = &list->recording->slots[slot];
    *out = (hal_native_span){NULL, 0, 0, HAL_NO_SLOT, 0};
    if (!use->used) {
        return HAL_OK;
    }
    if (span->kind != HAL_SPAN_BUFFER) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "list '%s': slot %u is bound to no buffer span", list->object.label,
                        slot);
    }
    hal_buffer *buffer = span->buffer;
    hal_status status = hal_check_on(list->object.device, buffer, HAL_TYPE_BUFFER, "bound buffer");
    if (status != HAL_OK) {
        return status;
    }
    uint64_t size = span->size == HAL_REST && span->offset <= buffer->size ? buffer->size - span->offset : span->size;
    if (span->offset > buffer->size || size > buffer->size - span->offset || size < use->least) {
        return hal_fail(
            HAL_ERROR_OUT_OF_RANGE,
            "list '%s': slot %u is bound to %llu bytes at %llu of buffer '%s' (%llu bytes); the list needs %llu",
            list->object.label, slot, (unsigned long long)(size == HAL_REST ? 0 : size),
            (unsigned long long)span->offset, buffer->object.label, (unsigned long long)buffer->size,
            (unsigned long long)use->least);
    }
    if (atomic_load_explicit(&buffer->mapped, memory_order_relaxed)) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "list '%s': buffer '%s' bound to slot %u is mapped; unmap it first",
                        list->object.label, buffer->object.label, slot);
    }
    /* The offsets inside the list were checked against the alignment where they are not zero: together they must fit.
     */
    if ((buffer->offset + span->offset) % use->alignment) {
        return hal_fail(HAL_ERROR_ALIGNMENT,
                        "list '%s': slot %u is bound at offset %llu, its use needs a multiple of %u",
                        list->object.label, slot, (unsigned long long)span->offset, use->alignment);
    }
    *out = (hal_native_span){buffer->memory, buffer->offset + (size ? span->offset : 0), size ? size : 4, HAL_NO_SLOT,
                             buffer->number};
    atomic_store_explicit(&buffer->object.used, true, memory_order_relaxed);
    return HAL_OK;
}

/* The bytes of native memory that a bound slot touches. */
static hal_hazard_access touched(const hal_slot_use *use, const hal_native_span *binding)
{
    /* resolve_binding has set the binding of every slot.
     * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    uint64_t end = use->end < binding->size ? use->end : binding->size;
    return (hal_hazard_access){binding->memory, binding->offset + use->begin, binding->offset + end, use->written};
}

static bool collide(const hal_hazard_access *a, const hal_hazard_access *b)
{
    return a->key == b->key && (a->write || b->write) && a->begin < b->end && b->begin < a->end;
}

/* Hazards were derived with every slot taken as memory of its own; refuse bindings that make that wrong. */
static hal_status check_overlap(const hal_cmdlist *list, const hal_native_span *bindings)
{
    const hal_recording *recording = list->recording;
    const hal_hazard_access *fixed = recording->fixed.data;
    for (uint32_t i = 0; i < recording->slot_count; i++) {
        if (!recording->slots[i].used) {
            continue;
        }
        hal_hazard_access mine = touched(&recording->slots[i], &bindings[i]);
        for (uint32_t j = 0; j < i; j++) {
            if (!recording->slots[j].used) {
                continue;
            }
            hal_hazard_access other = touched(&recording->slots[j], &bindings[j]);
            if (collide(&mine, &other)) {
                return hal_fail(
                    HAL_ERROR_OVERLAP,
                    "list '%s': slots %u and %u are bound to overlapping memory and one is written; record them as "
                    "one slot, or bind apart",
                    list->object.label, j, i);
            }
        }
        for (uint32_t j = 0; j < recording->fixed.count; j++) {
            if (collide(&mine, &fixed[j])) {
                return hal_fail(
                    HAL_ERROR_OVERLAP,
                    "list '%s': slot %u is bound over a buffer that the list uses itself, and one is written",
                    list->object.label, i);
            }
        }
    }
    return HAL_OK;
}

static hal_status read_bindings(hal_cmdlist *list, const hal_bindings *given, hal_native_span *bindings,
                                const uint32_t **scalars)
{
    hal_recording *recording = list->recording;
    hal_bindings values;
    hal_status status = hal_desc_read(given, &values, sizeof values, "hal_bindings");
    if (status != HAL_OK) {
        return status;
    }
    if (values.span_count < recording->slot_count || (values.span_count && !values.spans)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "list '%s' has %u slots, %u spans are bound", list->object.label,
                        recording->slot_count, values.span_count);
    }
    if (values.scalar_count && (values.scalar_count < recording->scalar_count || !values.scalars)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "list '%s' has %u scalars, %u are given; all or none",
                        list->object.label, recording->scalar_count, values.scalar_count);
    }
    *scalars = values.scalar_count && recording->scalar_count ? values.scalars : NULL;
    for (uint32_t i = 0; i < recording->slot_count && status == HAL_OK; i++) {
        status = resolve_binding(list, i, &values.spans[i], &bindings[i]);
    }
    return status;
}

/* Whether the last segment that went to the backend had these values. */
static bool same_values_locked(const hal_recording *recording, const hal_native_span *bindings, const uint32_t *scalars)
{
    size_t spans = recording->slot_count * sizeof *bindings, words = recording->scalar_count * sizeof *scalars;
    return recording->serial && (!spans || memcmp(recording->last_bindings, bindings, spans) == 0) &&
           recording->last_had_scalars == (scalars != NULL) &&
           (!scalars || memcmp(recording->last_scalars, scalars, words) == 0);
}

/* The serial that stands for these values: a new one if they are not the last segment's. */
static uint64_t serial_of_locked(hal_recording *recording, const hal_native_span *bindings, const uint32_t *scalars)
{
    if (!same_values_locked(recording, bindings, scalars)) {
        recording->serial++;
        if (recording->slot_count) {
            memcpy(recording->last_bindings, bindings, recording->slot_count * sizeof *bindings);
        }
        recording->last_had_scalars = scalars != NULL;
        if (scalars) {
            memcpy(recording->last_scalars, scalars, recording->scalar_count * sizeof *scalars);
        }
    }
    return recording->serial;
}

hal_status hal_list_submit_segment_locked(hal_cmdlist *list, uint32_t segment, hal_stream *stream,
                                          const hal_native_span *bindings, const uint32_t *scalars)
{
    hal_recording *recording = list->recording;
    hal_device *device = list->object.device;
    hal_native_list *native = ((hal_segment *)recording->segments.data)[segment].native;
    hal_trace_mark trace;
    /* Whoever opens a gate may hand over segments of an earlier submission meanwhile: the serial is taken here. */
    pthread_mutex_lock(&recording->lock);
    hal_list_values values = {bindings, scalars, serial_of_locked(recording, bindings, scalars)};
    bool traced = device->trace != NULL;
    if (traced) {
        hal_trace_begin(stream, &trace);
    }
    hal_status status = device->backend->list_submit(native, stream->native, &values);
    if (traced) {
        hal_trace_end(stream, &trace, list->object.label);
    }
    pthread_mutex_unlock(&recording->lock);
    return hal_device_note(device, status);
}

static hal_status submit_segment(hal_cmdlist *list, uint32_t index, hal_stream *stream, const hal_native_span *bindings,
                                 const uint32_t *scalars)
{
    hal_recording *recording = list->recording;
    const hal_segment *segment = (hal_segment *)recording->segments.data + index;
    hal_status status = HAL_OK;
    if (segment->native && stream->held) {
        status = hal_held_push(stream, &(hal_held){.kind = HAL_HELD_LIST,
                                                   .list = list,
                                                   .segment = index,
                                                   .binding_count = recording->slot_count,
                                                   .scalar_count = scalars ? recording->scalar_count : 0,
                                                   .bindings = (hal_native_span *)(uintptr_t)bindings,
                                                   .scalars = (uint32_t *)(uintptr_t)scalars});
        hal_hazard_window_reset(&stream->window);
    } else if (segment->native) {
        status = hal_list_submit_segment_locked(list, index, stream, bindings, scalars);
        hal_hazard_window_reset(&stream->window);
    }
    if (segment->native && status == HAL_OK) {
        stream->dirty = true;
        stream->unmarked += segment->count;
        stream->last_label = list->object.label;
    }
    if (status == HAL_OK && segment->event) {
        status = segment->event_is_wait ? hal_stream_wait_event_locked(stream, segment->event)
                                        : hal_stream_record_locked(stream, segment->event);
    }
    return status;
}

/* Buffers of its own that are mapped. Only looked for when something on the device is. */
static hal_status check_mapped(const hal_cmdlist *list)
{
    const hal_array *refs = &list->recording->refs;
    for (uint32_t i = 0; i < refs->count && atomic_load(&list->object.device->mapped_buffers); i++) {
        const hal_object *object = ((hal_object **)refs->data)[i];
        if (object->type == HAL_TYPE_BUFFER && atomic_load(&((const hal_buffer *)object)->mapped)) {
            return hal_fail(HAL_ERROR_INVALID_STATE, "list '%s': its buffer '%s' is mapped; unmap it first",
                            list->object.label, object->label);
        }
    }
    return HAL_OK;
}

/* How many things a submission may hold back: a segment, its event and a mark each, from the first wait for a gate on
 * unless the stream is held back already. */
static uint64_t may_be_held(const hal_cmdlist *list, const hal_stream *stream)
{
    const hal_segment *segments = list->recording->segments.data;
    uint32_t count = list->recording->segments.count, first = 0;
    while (!stream->held && first < count &&
           !(segments[first].event && segments[first].event_is_wait && segments[first].event->gate)) {
        first++;
    }
    return 3 * (uint64_t)(count - first);
}

/* What would stop a submission half-way is found before it starts. */
static hal_status check_events(const hal_cmdlist *list, const hal_stream *stream)
{
    const hal_segment *segments = list->recording->segments.data;
    uint32_t count = list->recording->segments.count;
    for (uint32_t i = 0; i < count; i++) {
        hal_event *event = segments[i].event;
        if (event && segments[i].event_is_wait && !event->gate && !segments[i].recorded_inside) {
            pthread_mutex_lock(&event->lock);
            bool recorded = event->stream != NULL;
            pthread_mutex_unlock(&event->lock);
            if (!recorded) {
                return hal_fail(HAL_ERROR_INVALID_STATE,
                                "list '%s' waits for event '%s', which has never been recorded", list->object.label,
                                event->object.label);
            }
        }
    }
    uint64_t held = may_be_held(list, stream);
    return held ? hal_held_room(stream, held) : HAL_OK;
}

static hal_status submit_locked(hal_cmdlist *list, hal_stream *stream, const hal_native_span *bindings,
                                const uint32_t *scalars)
{
    hal_status status = hal_submit_fault(stream, list->object.label);
    status = status == HAL_OK ? check_mapped(list) : status;
    status = status == HAL_OK ? check_events(list, stream) : status;
    atomic_store_explicit(&list->object.used, true, memory_order_relaxed);
    for (uint32_t i = 0; i < list->recording->segments.count && status == HAL_OK; i++) {
        status = submit_segment(list, i, stream, bindings, scalars);
    }
    uint64_t point;
    return status == HAL_OK ? hal_stream_mark_locked(stream, &point) : status;
}

hal_status hal_cmdlist_submit(hal_cmdlist *list, hal_stream *stream, const hal_bindings *given)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "list");
    status = status == HAL_OK ? hal_check_on(list->object.device, stream, HAL_TYPE_STREAM, "stream") : status;
    status = status == HAL_OK ? hal_device_usable(list->object.device) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_recording *recording = list->recording;
    if (!recording || !recording->finished || recording->failed != HAL_OK) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "list '%s' is %s", list->object.label,
                        !recording             ? "an immediate list; it submits by itself"
                        : !recording->finished ? "not finished; call hal_cmdlist_finish first"
                                               : "unusable; hal_cmdlist_finish failed");
    }
    hal_native_span bindings[HAL_MAX_SLOTS];
    const uint32_t *scalars = NULL;
    status = read_bindings(list, given, bindings, &scalars);
    if (status != HAL_OK) {
        return status;
    }
    pthread_mutex_lock(&recording->lock);
    bool checked = same_values_locked(recording, bindings, scalars);
    pthread_mutex_unlock(&recording->lock);
    status = checked ? HAL_OK : check_overlap(list, bindings);
    if (status != HAL_OK) {
        return status;
    }
    hal_stream_lock(stream);
    status = submit_locked(list, stream, bindings, scalars);
    pthread_mutex_unlock(&stream->lock);
    recording->submits += status == HAL_OK;
    return status;
}
