/* recording.c - building a recorded list: append, and at finish derive hazards and make the native lists. */
#include "recording.h"

void *hal_array_add(hal_core *core, hal_array *array, uint32_t count, size_t size)
{
    if (count == 0 || count > UINT32_MAX / 2 - array->count) {
        return NULL;
    }
    if (array->count + count > array->capacity) {
        uint32_t capacity = array->capacity ? array->capacity : 16;
        while (capacity < array->count + count) {
            capacity *= 2;
        }
        void *grown = hal_realloc(core, array->data, capacity * size);
        if (!grown) {
            return NULL;
        }
        array->data = grown;
        array->capacity = capacity;
    }
    void *added = (uint8_t *)array->data + array->count * size;
    array->count += count;
    return added;
}

static hal_status no_memory(const hal_cmdlist *list)
{
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to record list '%s'", list->object.label);
}

static hal_status hold(hal_cmdlist *list, hal_object *object)
{
    hal_object **ref = hal_array_add(&list->object.device->core, &list->recording->refs, 1, sizeof *ref);
    if (!ref) {
        return no_memory(list);
    }
    hal_retain(object);
    *ref = object;
    return HAL_OK;
}

void hal_recording_align_slots(hal_cmdlist *list, uint32_t alignment)
{
    list->recording->slot_alignment = alignment;
}

void hal_recording_bound(hal_cmdlist *list, uint32_t commands)
{
    list->recording->most_commands = commands;
}

uint32_t hal_slot_alignment(const hal_cmdlist *list)
{
    return list->recording && list->recording->slot_alignment ? list->recording->slot_alignment : 1;
}

static void note_slot(hal_recording *recording, const hal_told *told, uint32_t i)
{
    const hal_native_span *span = &told->spans[i];
    hal_slot_use *use = &recording->slots[span->slot];
    hal_hazard_access access = hal_told_access(told, i);
    uint64_t least = span->size == HAL_REST ? span->offset : access.end;
    if (!use->used) {
        const uint32_t alignment = recording->slot_alignment ? recording->slot_alignment : 1;
        *use = (hal_slot_use){.used = true, .begin = access.begin, .end = access.end, .alignment = alignment};
    }
    use->written |= access.write;
    use->begin = access.begin < use->begin ? access.begin : use->begin;
    use->end = access.end > use->end ? access.end : use->end;
    use->least = least > use->least ? least : use->least;
    use->alignment = told->alignment[i] > use->alignment ? told->alignment[i] : use->alignment;
    recording->slot_count = span->slot + 1 > recording->slot_count ? span->slot + 1 : recording->slot_count;
}

hal_status hal_recording_append(hal_cmdlist *list, const hal_told *told)
{
    hal_recording *recording = list->recording;
    hal_core *core = &list->object.device->core;
    uint32_t args_size = told->command.kind == HAL_COMMAND_DISPATCH ? told->command.dispatch.args_size : 0;
    if (recording->most_commands && recording->commands.count >= recording->most_commands) {
        return hal_fail(HAL_ERROR_LIMIT, "list '%s' would have more than %u commands", list->object.label,
                        recording->most_commands);
    }
    hal_command *command = hal_array_add(core, &recording->commands, 1, sizeof *command);
    hal_part *part = hal_array_add(core, &recording->parts, 1, sizeof *part);
    hal_native_span *spans = hal_array_add(core, &recording->spans, told->span_count, sizeof *spans);
    hal_hazard_access *accesses = hal_array_add(core, &recording->accesses, told->span_count, sizeof *accesses);
    uint8_t *args = hal_array_add(core, &recording->args, args_size, 1);
    if (!command || !part || (told->span_count && (!spans || !accesses)) || (args_size && !args)) {
        return no_memory(list);
    }
    recording->last_is_dispatch = false; /* the caller says so when all parts of a dispatch are in */
    *command = told->command;
    *part = (hal_part){recording->spans.count - told->span_count, recording->args.count - args_size,
                       recording->accesses.count - told->span_count, told->span_count, told->upload};
    if (args_size) {
        memcpy(args, told->command.dispatch.args, args_size);
    }
    hal_told filled = *told;
    for (uint32_t i = 0; i < told->span_count; i++) {
        accesses[i] = hal_told_access(told, i);
        if (told->spans[i].slot != HAL_NO_SLOT) {
            note_slot(recording, told, i);
        }
    }
    hal_told_fill_empty(&filled);
    if (told->span_count) {
        memcpy(spans, filled.spans, told->span_count * sizeof *spans);
    }
    for (uint32_t i = 0; i < told->ref_count; i++) {
        hal_status status = hold(list, told->refs[i]);
        if (status != HAL_OK) {
            return status;
        }
    }
    return HAL_OK;
}

static hal_segment *open_segment(hal_cmdlist *list)
{
    hal_recording *recording = list->recording;
    hal_segment *segment = hal_array_add(&list->object.device->core, &recording->segments, 1, sizeof *segment);
    if (segment) {
        memset(segment, 0, sizeof *segment);
        segment->first = recording->segments.count == 1 ? 0 : recording->commands.count;
    }
    return segment;
}

static hal_segment *segment_at(const hal_recording *recording, uint32_t i)
{
    return (hal_segment *)recording->segments.data + i;
}

hal_status hal_recording_event(hal_cmdlist *list, hal_event *event, bool is_wait)
{
    hal_recording *recording = list->recording;
    if (!recording->segments.count && !open_segment(list)) {
        return no_memory(list);
    }
    hal_status status = hold(list, &event->object);
    if (status != HAL_OK) {
        return status;
    }
    hal_segment *segment = segment_at(recording, recording->segments.count - 1);
    segment->event = event;
    segment->event_is_wait = is_wait;
    segment->count = recording->commands.count - segment->first;
    recording->last_is_dispatch = false;
    return open_segment(list) ? HAL_OK : no_memory(list);
}

hal_status hal_recording_bytes(hal_cmdlist *list, const void *source, uint32_t size, uint64_t *upload)
{
    hal_recording *recording = list->recording;
    uint32_t padded = (size + 15u) & ~15u;
    uint8_t *bytes = hal_array_add(&list->object.device->core, &recording->uploads, padded, 1);
    if (!bytes) {
        return no_memory(list);
    }
    memcpy(bytes, source, size);
    memset(bytes + size, 0, padded - size);
    *upload = 1 + recording->uploads.count - padded;
    return HAL_OK;
}

/* The arrays have stopped growing: point every command at its parts. */
static hal_status fix_pointers(hal_cmdlist *list)
{
    hal_recording *recording = list->recording;
    hal_device *device = list->object.device;
    if (recording->uploads.count) {
        void *host = NULL;
        hal_status status = hal_memory_reserve(device, HAL_NATIVE_STAGING, recording->uploads.count, true, &host,
                                               &recording->upload_memory);
        if (status != HAL_OK) {
            return status;
        }
        recording->upload_size = recording->uploads.count;
        memcpy(host, recording->uploads.data, recording->uploads.count);
    }
    hal_command *commands = recording->commands.data;
    const hal_part *parts = recording->parts.data;
    for (uint32_t i = 0; i < recording->commands.count; i++) {
        const hal_native_span *spans = (hal_native_span *)recording->spans.data + parts[i].first_span;
        if (commands[i].kind == HAL_COMMAND_DISPATCH) {
            commands[i].dispatch.spans = spans;
            commands[i].dispatch.args = (uint8_t *)recording->args.data + parts[i].first_arg;
        } else if (parts[i].upload) {
            commands[i].copy.src = (hal_native_span){recording->upload_memory, parts[i].upload - 1,
                                                     commands[i].copy.dst.size, HAL_NO_SLOT, 0};
        }
    }
    return HAL_OK;
}

/* Cut segments that exceed the budget of commands a native list may hold. */
static hal_status cut_segments(hal_cmdlist *list)
{
    hal_recording *recording = list->recording;
    uint64_t most = list->object.device->limits.list_commands;
    if (!recording->segments.count && !open_segment(list)) {
        return no_memory(list);
    }
    hal_segment *last = segment_at(recording, recording->segments.count - 1);
    last->count = recording->commands.count - last->first;
    hal_array old = recording->segments;
    recording->segments = (hal_array){NULL, 0, 0};
    hal_status status = HAL_OK;
    for (uint32_t i = 0; i < old.count && status == HAL_OK; i++) {
        const hal_segment *whole = (hal_segment *)old.data + i;
        uint32_t done = 0;
        do {
            hal_segment *piece = open_segment(list);
            if (!piece) {
                status = no_memory(list);
                break;
            }
            piece->first = whole->first + done;
            piece->count = whole->count - done < most ? whole->count - done : (uint32_t)most;
            done += piece->count;
            piece->event = done == whole->count ? whole->event : NULL;
            piece->event_is_wait = whole->event_is_wait;
        } while (done < whole->count);
    }
    hal_free(old.data);
    return status;
}

static hal_status derive_hazards(hal_cmdlist *list, hal_segment *segment)
{
    hal_recording *recording = list->recording;
    hal_core *core = &list->object.device->core;
    hal_hazard_command *inputs = hal_calloc(core, segment->count, sizeof *inputs);
    if (!inputs) {
        return no_memory(list);
    }
    const hal_part *parts = (hal_part *)recording->parts.data + segment->first;
    for (uint32_t i = 0; i < segment->count; i++) {
        inputs[i].accesses = (hal_hazard_access *)recording->accesses.data + parts[i].first_access;
        inputs[i].count = parts[i].access_count;
    }
    hal_status status = hal_hazard_graph_build(core, inputs, segment->count, &segment->graph);
    hal_free(inputs);
    hal_command *commands = (hal_command *)recording->commands.data + segment->first;
    for (uint32_t i = 0; i < segment->count && status == HAL_OK; i++) {
        commands[i].barrier = segment->graph.barrier[i];
    }
    return status;
}

static hal_status build_segment(hal_cmdlist *list, hal_segment *segment)
{
    if (!segment->count) {
        return HAL_OK;
    }
    hal_recording *recording = list->recording;
    hal_device *device = list->object.device;
    hal_status status = derive_hazards(list, segment);
    if (status != HAL_OK) {
        return status;
    }
    segment->scalars = hal_calloc(&device->core, recording->scalars.count, sizeof *segment->scalars);
    if (!segment->scalars) {
        return no_memory(list);
    }
    hal_list_program *program = &segment->program;
    for (uint32_t i = 0; i < recording->scalars.count; i++) {
        hal_list_scalar scalar = ((hal_list_scalar *)recording->scalars.data)[i];
        if (scalar.command >= segment->first && scalar.command - segment->first < segment->count) {
            scalar.command -= segment->first;
            segment->scalars[program->scalar_count++] = scalar;
        }
    }
    program->commands = (hal_command *)recording->commands.data + segment->first;
    program->command_count = segment->count;
    program->dep_start = segment->graph.dep_start;
    program->deps = segment->graph.deps;
    program->scalars = segment->scalars;
    program->slot_count = recording->slot_count;
    program->label = list->object.label;
    return hal_device_note(device, device->backend->list_create(device->native, program, &segment->native));
}

static int by_place(const void *a, const void *b)
{
    const hal_hazard_access *x = a, *y = b;
    if (x->key != y->key) {
        return (uintptr_t)x->key < (uintptr_t)y->key ? -1 : 1;
    }
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* The fixed memory that the list touches, for the check that no slot is bound over it. Neighbours of one kind merge. */
static hal_status gather_fixed(hal_cmdlist *list)
{
    hal_recording *recording = list->recording;
    if (!recording->slot_count) {
        return HAL_OK;
    }
    const char *keys = recording->slot_keys;
    hal_array *fixed = &recording->fixed;
    for (uint32_t i = 0; i < recording->accesses.count; i++) {
        const hal_hazard_access *access = (hal_hazard_access *)recording->accesses.data + i;
        bool slot = (uintptr_t)access->key - (uintptr_t)keys < HAL_MAX_SLOTS;
        if (!slot && access->begin < access->end) {
            hal_hazard_access *added = hal_array_add(&list->object.device->core, fixed, 1, sizeof *added);
            if (!added) {
                return no_memory(list);
            }
            *added = *access;
        }
    }
    if (!fixed->count) {
        return HAL_OK;
    }
    hal_hazard_access *ranges = fixed->data;
    qsort(ranges, fixed->count, sizeof *ranges, by_place);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < fixed->count; i++) {
        hal_hazard_access *last = &ranges[kept];
        if (ranges[i].key == last->key && ranges[i].write == last->write && ranges[i].begin <= last->end) {
            last->end = ranges[i].end > last->end ? ranges[i].end : last->end;
        } else {
            ranges[++kept] = ranges[i];
        }
    }
    fixed->count = kept + 1;
    return HAL_OK;
}

typedef struct first_record {
    const hal_event *event;
    uint32_t segment;
} first_record;

static int by_event(const void *a, const void *b)
{
    const first_record *x = a, *y = b;
    if (x->event != y->event) {
        return (uintptr_t)x->event < (uintptr_t)y->event ? -1 : 1;
    }
    return x->segment < y->segment ? -1 : x->segment > y->segment;
}

/* Mark the waits for events that the list itself records before: they need no record from outside. */
static hal_status find_inner_waits(hal_cmdlist *list)
{
    hal_recording *recording = list->recording;
    uint32_t count = 0;
    first_record *records = hal_calloc(&list->object.device->core, recording->segments.count, sizeof *records);
    if (!records) {
        return no_memory(list);
    }
    for (uint32_t i = 0; i < recording->segments.count; i++) {
        const hal_segment *segment = segment_at(recording, i);
        if (segment->event && !segment->event_is_wait) {
            records[count++] = (first_record){segment->event, i};
        }
    }
    qsort(records, count, sizeof *records, by_event);
    for (uint32_t i = 0; i < recording->segments.count; i++) {
        hal_segment *segment = segment_at(recording, i);
        uint32_t low = 0, high = count;
        while (segment->event && segment->event_is_wait && low < high) { /* the first record of the event */
            uint32_t middle = (low + high) / 2;
            if ((uintptr_t)records[middle].event < (uintptr_t)segment->event) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        segment->recorded_inside = segment->event && segment->event_is_wait && low < count &&
                                   records[low].event == segment->event && records[low].segment < i;
    }
    hal_free(records);
    return HAL_OK;
}

hal_status hal_cmdlist_finish(hal_cmdlist *list)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "list");
    status = status == HAL_OK ? hal_device_usable(list->object.device) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_recording *recording = list->recording;
    if (!recording) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "'%s' is an immediate list; only recorded lists are finished",
                        list->object.label);
    }
    if (recording->finished) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "list '%s' is finished already", list->object.label);
    }
    if (recording->failed != HAL_OK) {
        return hal_fail(recording->failed, "list '%s': a command could not be recorded (%s): %s; record it anew",
                        list->object.label, hal_status_name(recording->failed), recording->failure);
    }
    recording->finished = true;
    status = fix_pointers(list);
    status = status == HAL_OK ? cut_segments(list) : status;
    status = status == HAL_OK ? gather_fixed(list) : status;
    status = status == HAL_OK ? find_inner_waits(list) : status;
    for (uint32_t i = 0; i < recording->segments.count && status == HAL_OK; i++) {
        status = build_segment(list, segment_at(recording, i));
    }
    recording->failed = status;
    return status;
}

static void free_list(hal_object *object)
{
    hal_cmdlist *list = (hal_cmdlist *)object;
    hal_recording *recording = list->recording;
    hal_device *device = object->device;
    for (uint32_t i = 0; i < recording->segments.count; i++) {
        hal_segment *segment = segment_at(recording, i);
        if (segment->native) {
            device->backend->list_destroy(segment->native);
        }
        hal_hazard_graph_free(&segment->graph);
        hal_free(segment->scalars);
    }
    if (recording->upload_memory) {
        device->backend->memory_destroy(recording->upload_memory);
        hal_memory_unreserve(device, recording->upload_size);
    }
    for (uint32_t i = 0; i < recording->refs.count; i++) {
        hal_release(((hal_object **)recording->refs.data)[i]);
    }
    hal_array *arrays[] = {&recording->commands, &recording->parts, &recording->spans,   &recording->args,
                           &recording->accesses, &recording->refs,  &recording->uploads, &recording->scalars,
                           &recording->segments, &recording->fixed};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        hal_free(arrays[i]->data);
    }
    pthread_mutex_destroy(&recording->lock);
    object->type = 0;
    hal_free(object->label);
    hal_free(recording);
    hal_free(list);
    hal_release(&device->object);
}

hal_status hal_cmdlist_create(hal_device *device, const hal_cmdlist_desc *given, hal_cmdlist **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_cmdlist_create: list is NULL");
    }
    *out = NULL;
    hal_cmdlist_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_cmdlist_desc") : status;
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_cmdlist *list = hal_calloc(&device->core, 1, sizeof *list);
    hal_recording *recording = hal_calloc(&device->core, 1, sizeof *recording);
    if (!list || !recording ||
        hal_object_init(&list->object, HAL_TYPE_CMDLIST, device, desc.label, "list", free_list) != HAL_OK) {
        hal_free(list);
        hal_free(recording);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a command list");
    }
    pthread_mutex_init(&recording->lock, NULL);
    list->recording = recording;
    *out = list;
    return HAL_OK;
}

void hal_cmdlist_destroy(hal_cmdlist *list)
{
    if (list && hal_check(list, HAL_TYPE_CMDLIST, "list") == HAL_OK && list->recording) {
        hal_release(&list->object);
    }
}

hal_device *hal_cmdlist_device(const hal_cmdlist *list)
{
    return hal_check(list, HAL_TYPE_CMDLIST, "list") == HAL_OK ? list->object.device : NULL;
}

hal_status hal_cmdlist_get_stats(const hal_cmdlist *list, hal_cmdlist_stats *stats)
{
    if (stats) {
        memset(stats, 0, sizeof *stats);
    }
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "list");
    if (status == HAL_OK && (!stats || !list->recording)) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                          "hal_cmdlist_get_stats('%s'): stats is NULL or the list is immediate", list->object.label);
    }
    if (status != HAL_OK) {
        return status;
    }
    const hal_recording *recording = list->recording;
    *stats = (hal_cmdlist_stats){.commands = recording->commands.count, .submits = recording->submits};
    for (uint32_t i = 0; i < recording->segments.count && recording->finished; i++) {
        const hal_segment *segment = segment_at(recording, i);
        stats->edges += segment->graph.edges;
        stats->barriers += segment->graph.barriers;
        if (segment->native) {
            stats->segments++;
            stats->native_builds += list->object.device->backend->list_builds(segment->native);
        }
    }
    return HAL_OK;
}
