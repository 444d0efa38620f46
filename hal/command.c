/* command.c - the commands a user tells a list: checked here, then executed at once or recorded. */
#include "recording.h"

static hal_status check_list(hal_cmdlist *list)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "list");
    status = status == HAL_OK ? hal_device_usable(list->object.device) : status;
    if (status == HAL_OK && list->recording && list->recording->finished) {
        status = hal_fail(HAL_ERROR_INVALID_STATE, "list '%s' is finished; nothing can be added", list->object.label);
    }
    return status;
}

hal_status hal_cmdlist_noted(hal_cmdlist *list, hal_status status)
{
    if (status == HAL_OK || !list || list->object.type != HAL_TYPE_CMDLIST) {
        return status;
    }
    if (list->recording && list->recording->failed == HAL_OK && !list->recording->finished) {
        list->recording->failed = status;
        snprintf(list->recording->failure, sizeof list->recording->failure, "%s", hal_last_error());
    }
    return status;
}

static hal_status resolve_buffer(hal_cmdlist *list, const hal_span *span, const char *what, hal_told *told)
{
    hal_buffer *buffer = span->buffer;
    hal_status status = hal_check_on(list->object.device, buffer, HAL_TYPE_BUFFER, what);
    if (status != HAL_OK) {
        return status;
    }
    uint64_t size = span->size == HAL_REST && span->offset <= buffer->size ? buffer->size - span->offset : span->size;
    if (span->offset > buffer->size || size > buffer->size - span->offset) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: [%llu, +%llu) leaves buffer '%s' of %llu bytes", what,
                        (unsigned long long)span->offset, (unsigned long long)span->size, buffer->object.label,
                        (unsigned long long)buffer->size);
    }
    if (atomic_load_explicit(&buffer->mapped, memory_order_relaxed)) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "%s: buffer '%s' is mapped; unmap it first", what,
                        buffer->object.label);
    }
    uint32_t i = told->span_count++;
    /* An empty span still needs an address; the buffer's first byte always has one. */
    told->spans[i] =
        (hal_native_span){buffer->memory, buffer->offset + (size ? span->offset : 0), size, HAL_NO_SLOT, 0};
    told->keys[i] = buffer->memory;
    if (list->recording) {
        told->refs[told->ref_count++] = &buffer->object;
    }
    atomic_store_explicit(&buffer->object.used, true, memory_order_relaxed);
    return HAL_OK;
}

static hal_status resolve(hal_cmdlist *list, const hal_span *span, const char *what, hal_told *told)
{
    if (span->kind == HAL_SPAN_BUFFER) {
        return resolve_buffer(list, span, what, told);
    }
    if (span->kind != HAL_SPAN_SLOT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "%s is no span (kind %d); use hal_at, hal_range, hal_whole or hal_slot", what, (int)span->kind);
    }
    if (!list->recording) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "%s is slot %u, but '%s' is an immediate list; slots are bound at submit", what, span->slot,
                        list->object.label);
    }
    if (span->slot >= HAL_MAX_SLOTS || (span->size != HAL_REST && span->size > UINT64_MAX - span->offset)) {
        return hal_fail(HAL_ERROR_LIMIT, "%s: slot %u at %llu, +%llu; a list has %d slots and 64-bit sizes", what,
                        span->slot, (unsigned long long)span->offset, (unsigned long long)span->size, HAL_MAX_SLOTS);
    }
    uint32_t i = told->span_count++;
    told->spans[i] = (hal_native_span){NULL, span->offset, span->size, span->slot, 0};
    told->keys[i] = &list->recording->slot_keys[span->slot];
    return HAL_OK;
}

hal_hazard_access hal_told_access(const hal_told *told, uint32_t i)
{
    const hal_native_span *span = &told->spans[i];
    uint64_t end = span->size > UINT64_MAX - span->offset ? UINT64_MAX : span->offset + span->size;
    return (hal_hazard_access){told->keys[i], span->offset, end, (told->access[i] & HAL_WRITE) != 0};
}

void hal_told_fill_empty(hal_told *told)
{
    for (uint32_t i = 0; i < told->span_count; i++) {
        if (!told->spans[i].size) {
            told->spans[i].size = 4; /* every buffer has that much, used or not */
            told->spans[i].offset = told->spans[i].slot == HAL_NO_SLOT ? told->spans[i].offset : 0;
        }
    }
}

static hal_status execute_locked(hal_stream *stream, const hal_told *told)
{
    hal_status status = hal_stream_execute_locked(stream, &told->command);
    if (status != HAL_OK) {
        hal_hazard_window_lose(&stream->window);
    }
    return status;
}

/* Execute at once, or record. */
static hal_status emit(hal_cmdlist *list, hal_told *told)
{
    if (list->recording) {
        return hal_recording_append(list, told);
    }
    hal_stream *stream = list->stream;
    hal_stream_lock(stream);
    if (!list->object.device->backend->ordered) {
        hal_hazard_access accesses[HAL_MAX_BINDINGS];
        for (uint32_t i = 0; i < told->span_count; i++) {
            accesses[i] = hal_told_access(told, i);
        }
        told->command.barrier = hal_hazard_window_add(&stream->window, accesses, told->span_count);
    }
    hal_told_fill_empty(told);
    hal_status status = execute_locked(stream, told);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static hal_status check_dispatch(hal_cmdlist *list, const hal_kernel *kernel, uint32_t span_count,
                                 const hal_span *spans, const void *args, uint32_t args_size)
{
    hal_status status = hal_check_on(list->object.device, kernel, HAL_TYPE_KERNEL, "kernel");
    if (status != HAL_OK) {
        return status;
    }
    if (span_count != kernel->desc.binding_count || (span_count && !spans)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "kernel '%s' binds %u spans, %u given", kernel->object.label,
                        kernel->desc.binding_count, span_count);
    }
    if (args_size != kernel->desc.args_size || (args_size && !args)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "kernel '%s' takes %u bytes of args, %u given",
                        kernel->object.label, kernel->desc.args_size, args_size);
    }
    return HAL_OK;
}

/* What the address of a span must be a multiple of. */
static uint32_t alignment_of(const hal_device *device, const hal_kernel *kernel, uint32_t binding)
{
    if (kernel->desc.views[binding] != HAL_VIEW_NONE && device->info.max_view_elements) {
        return device->info.view_alignment;
    }
    return kernel->desc.abi == HAL_ABI_PLAIN ? device->info.span_alignment : 1;
}

static hal_status resolve_bindings(hal_cmdlist *list, const hal_kernel *kernel, const hal_span *spans,
                                   const uint32_t *alignments, hal_told *told)
{
    for (uint32_t i = 0; i < kernel->desc.binding_count; i++) {
        hal_status status = resolve(list, &spans[i], kernel->object.label, told);
        if (status != HAL_OK) {
            return status;
        }
        uint32_t alignment = alignment_of(list->object.device, kernel, i);
        if (alignments && alignments[i] > alignment) {
            alignment = alignments[i];
        }
        if (told->spans[i].offset & (alignment - 1)) { /* all are powers of two */
            return hal_fail(
                HAL_ERROR_ALIGNMENT,
                "kernel '%s', binding %u: offset %llu is no multiple of %u; align it, or use HAL_ABI_OFFSET",
                kernel->object.label, i, (unsigned long long)spans[i].offset, alignment);
        }
        told->alignment[i] = alignment;
        told->access[i] = kernel->desc.bindings[i];
    }
    return HAL_OK;
}

/* The groups of one command in each dimension. */
static hal_status part_size(const hal_device *device, const hal_kernel *kernel, const uint32_t total[3],
                            uint64_t most_groups, uint32_t step[3])
{
    const uint64_t *most = device->info.max_group_count;
    for (int i = 0; i < 3; i++) {
        step[i] = total[i] < most[i] ? total[i] : (uint32_t)most[i];
        if (step[i] < total[i] && !kernel->desc.splittable) {
            return hal_fail(HAL_ERROR_LIMIT,
                            "kernel '%s': %u groups in dimension %d, the device takes %llu; make it splittable",
                            kernel->object.label, total[i], i, (unsigned long long)most[i]);
        }
        if (most_groups) {
            step[i] = step[i] < most_groups ? step[i] : (uint32_t)most_groups;
            most_groups /= step[i]; /* in the dimensions to come; at least 1, so that each has a group */
        }
    }
    return HAL_OK;
}

/* The whole grid, in as many commands as it takes. */
static hal_status dispatch_parts(hal_cmdlist *list, const hal_kernel *kernel, hal_grid grid, uint64_t most_groups,
                                 hal_told *told, uint8_t *args)
{
    uint32_t total[3] = {grid.x, grid.y, grid.z}, step[3];
    hal_status status = part_size(list->object.device, kernel, total, most_groups, step);
    if (status != HAL_OK) {
        return status;
    }
    const bool slow = most_groups && most_groups < (uint64_t)grid.x * grid.y * grid.z;
    if (list->recording) {
        list->recording->last_first = list->recording->commands.count;
    }
    uint32_t base[3];
    for (base[2] = 0; base[2] < total[2] && status == HAL_OK; base[2] += step[2]) {
        for (base[1] = 0; base[1] < total[1] && status == HAL_OK; base[1] += step[1]) {
            for (base[0] = 0; base[0] < total[0] && status == HAL_OK; base[0] += step[0]) {
                for (int i = 0; i < 3; i++) {
                    uint32_t left = total[i] - base[i];
                    told->command.dispatch.grid[i] = left < step[i] ? left : step[i];
                }
                if (kernel->desc.splittable) {
                    memcpy(args + kernel->desc.args_size - sizeof base, base, sizeof base);
                }
                status = emit(list, told);
                if (status == HAL_OK && slow && !list->recording) {
                    status = hal_stream_flush(list->stream); /* a watchdog may time what is submitted together */
                }
            }
        }
    }
    if (list->recording) {
        list->recording->last_is_dispatch = true;
        list->recording->last_args = kernel->desc.args_size - (kernel->desc.splittable ? (uint32_t)sizeof base : 0);
        list->recording->last_count = list->recording->commands.count - list->recording->last_first;
    }
    return status;
}

static hal_status dispatch(hal_cmdlist *list, hal_kernel *kernel, hal_grid grid, const hal_span *spans,
                           uint32_t span_count, const hal_dispatch_rules *rules, const void *given, uint32_t args_size)
{
    hal_status status = check_list(list);
    status = status == HAL_OK ? check_dispatch(list, kernel, span_count, spans, given, args_size) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_told told;
    told.span_count = told.ref_count = 0;
    told.upload = 0;
    status = resolve_bindings(list, kernel, spans, rules->alignments, &told);
    if (status != HAL_OK) {
        return status;
    }
    if (!grid.x || !grid.y || !grid.z) {
        if (list->recording) {
            list->recording->last_is_dispatch = true; /* of no commands */
            list->recording->last_count = 0;
        }
        return HAL_OK;
    }
    if (grid.x > INT32_MAX || grid.y > INT32_MAX || grid.z > INT32_MAX) {
        return hal_fail(HAL_ERROR_LIMIT, "kernel '%s': grid %u x %u x %u; at most 2^31 - 1 groups a dimension",
                        kernel->object.label, grid.x, grid.y, grid.z);
    }
    if (list->recording) {
        told.refs[told.ref_count++] = &kernel->object;
    }
    uint8_t args[HAL_MAX_ARGS];
    if (args_size) {
        memcpy(args, given, args_size);
    }
    atomic_store_explicit(&kernel->object.used, true, memory_order_relaxed);
    told.command.kind = HAL_COMMAND_DISPATCH;
    told.command.label = kernel->object.label;
    told.command.barrier = false;
    told.command.dispatch.kernel = kernel->native;
    told.command.dispatch.span_count = span_count;
    told.command.dispatch.spans = told.spans;
    told.command.dispatch.args = args;
    told.command.dispatch.args_size = args_size;
    return dispatch_parts(list, kernel, grid, rules->most_groups, &told, args);
}

hal_status hal_cmd_dispatch(hal_cmdlist *list, hal_kernel *kernel, hal_grid grid, const hal_span *spans,
                            uint32_t span_count, const void *args, uint32_t args_size)
{
    return hal_cmd_dispatch_with(list, kernel, grid, spans, span_count, &(hal_dispatch_rules){NULL, 0}, args,
                                 args_size);
}

hal_status hal_cmd_dispatch_with(hal_cmdlist *list, hal_kernel *kernel, hal_grid grid, const hal_span *spans,
                                 uint32_t span_count, const hal_dispatch_rules *rules, const void *args,
                                 uint32_t args_size)
{
    return hal_cmdlist_noted(list, dispatch(list, kernel, grid, spans, span_count, rules, args, args_size));
}

static hal_status add_scalar(hal_cmdlist *list, uint32_t index, uint32_t args_offset)
{
    hal_status status = check_list(list);
    if (status != HAL_OK) {
        return status;
    }
    hal_recording *recording = list->recording;
    if (!recording) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "hal_cmd_scalar: '%s' is an immediate list; pass the value in args",
                        list->object.label);
    }
    if (index >= HAL_MAX_SLOTS) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_cmd_scalar: index %u; a list has %d scalars", index, HAL_MAX_SLOTS);
    }
    if (!recording->last_is_dispatch) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "hal_cmd_scalar: the last command of list '%s' is no dispatch",
                        list->object.label);
    }
    for (uint32_t i = 0; i < recording->last_count; i++) {
        uint32_t command = recording->last_first + i;
        uint32_t size = recording->last_args; /* without a group base, which libhal fills in */
        if (args_offset % 4 || size < 4 || args_offset > size - 4) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE,
                            "hal_cmd_scalar: offset %u in %u bytes of args; a multiple of 4 inside them", args_offset,
                            size);
        }
        hal_list_scalar *scalar = hal_array_add(&list->object.device->core, &recording->scalars, 1, sizeof *scalar);
        if (!scalar) {
            return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to record a scalar");
        }
        *scalar = (hal_list_scalar){command, args_offset, index};
    }
    recording->scalar_count = index + 1 > recording->scalar_count ? index + 1 : recording->scalar_count;
    return HAL_OK;
}

hal_status hal_cmd_scalar(hal_cmdlist *list, uint32_t index, uint32_t args_offset)
{
    return hal_cmdlist_noted(list, add_scalar(list, index, args_offset));
}

/* Copies and fills of slots need a size: a command's size is fixed when it is recorded. */
static hal_status need_size(const hal_native_span *span, const char *what)
{
    return span->slot != HAL_NO_SLOT && span->size == HAL_REST
               ? hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: a slot needs an explicit size here; use hal_slot_range",
                          what)
               : HAL_OK;
}

static bool overlap(const hal_native_span *a, const hal_native_span *b)
{
    return a->memory == b->memory && a->slot == b->slot && a->offset < b->offset + b->size &&
           b->offset < a->offset + a->size;
}

static hal_status copy(hal_cmdlist *list, hal_span dst, hal_span src)
{
    hal_status status = check_list(list);
    if (status != HAL_OK) {
        return status;
    }
    /* HAL_REST takes the other side's size where that is known. */
    if (dst.size == HAL_REST && src.size != HAL_REST) {
        dst.size = src.size;
    } else if (src.size == HAL_REST && dst.size != HAL_REST) {
        src.size = dst.size;
    }
    hal_told told = {.command = {.kind = HAL_COMMAND_COPY, .label = "copy"}, .access = {HAL_WRITE, HAL_READ}};
    status = resolve(list, &dst, "copy target", &told);
    status = status == HAL_OK ? resolve(list, &src, "copy source", &told) : status;
    status = status == HAL_OK ? need_size(&told.spans[0], "copy target") : status;
    status = status == HAL_OK ? need_size(&told.spans[1], "copy source") : status;
    if (status != HAL_OK) {
        return status;
    }
    if (told.spans[0].size != told.spans[1].size) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "copy of %llu bytes to %llu; give both sides one size",
                        (unsigned long long)told.spans[1].size, (unsigned long long)told.spans[0].size);
    }
    if (!told.spans[0].size) {
        return HAL_OK;
    }
    if (overlap(&told.spans[0], &told.spans[1])) {
        return hal_fail(HAL_ERROR_OVERLAP,
                        "copy: source and target overlap ([%llu, +%llu) and [%llu, +%llu) of one buffer)",
                        (unsigned long long)src.offset, (unsigned long long)told.spans[1].size,
                        (unsigned long long)dst.offset, (unsigned long long)told.spans[0].size);
    }
    told.command.copy.dst = told.spans[0];
    told.command.copy.src = told.spans[1];
    return emit(list, &told);
}

hal_status hal_cmd_copy(hal_cmdlist *list, hal_span dst, hal_span src)
{
    return hal_cmdlist_noted(list, copy(list, dst, src));
}

static hal_status fill(hal_cmdlist *list, hal_span dst, const void *pattern, uint32_t pattern_size)
{
    hal_status status = check_list(list);
    if (status != HAL_OK) {
        return status;
    }
    if (!pattern || (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "fill: pattern %p of %u bytes; 1, 2 or 4", pattern, pattern_size);
    }
    hal_told told = {.command = {.kind = HAL_COMMAND_FILL, .label = "fill"}, .access = {HAL_WRITE}};
    status = resolve(list, &dst, "fill target", &told);
    status = status == HAL_OK ? need_size(&told.spans[0], "fill target") : status;
    if (status != HAL_OK || !told.spans[0].size) {
        return status;
    }
    if (told.spans[0].offset % pattern_size || told.spans[0].size % pattern_size) {
        return hal_fail(HAL_ERROR_ALIGNMENT,
                        "fill: address (offset %llu) and size %llu are to be multiples of the pattern's %u bytes",
                        (unsigned long long)dst.offset, (unsigned long long)told.spans[0].size, pattern_size);
    }
    uint8_t bytes[4];
    for (uint32_t i = 0; i < 4; i++) {
        bytes[i] = ((const uint8_t *)pattern)[i % pattern_size];
    }
    memcpy(&told.command.fill.pattern, bytes, sizeof bytes);
    told.command.fill.pattern_size = pattern_size;
    told.command.fill.dst = told.spans[0];
    told.alignment[0] = pattern_size;
    return emit(list, &told);
}

hal_status hal_cmd_fill(hal_cmdlist *list, hal_span dst, const void *pattern, uint32_t pattern_size)
{
    return hal_cmdlist_noted(list, fill(list, dst, pattern, pattern_size));
}

#define UPLOAD_CHUNK  ((uint64_t)8 << 20)
#define MOST_RECORDED 65536u

/* One chunk through the stream's staging memory. */
static hal_status upload_chunk(hal_stream *stream, hal_told *told, const uint8_t *source, uint64_t size)
{
    hal_stream_lock(stream);
    hal_staging_block *block;
    uint64_t offset;
    hal_status status = hal_staging_take_locked(stream, size, &block, &offset);
    if (status == HAL_OK) {
        memcpy(block->host + offset, source, size);
        told->command.copy.src = (hal_native_span){block->memory, offset, size, HAL_NO_SLOT, 0};
        hal_hazard_access access = hal_told_access(told, 0);
        told->command.barrier = hal_hazard_window_add(&stream->window, &access, 1);
        status = execute_locked(stream, told);
    }
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static hal_status upload(hal_cmdlist *list, hal_span dst, const void *source, uint64_t size)
{
    hal_status status = check_list(list);
    if (status != HAL_OK) {
        return status;
    }
    if (size && !source) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "upload: source is NULL");
    }
    if (dst.size == HAL_REST) {
        dst.size = size;
    }
    hal_told told = {.command = {.kind = HAL_COMMAND_COPY, .label = "upload"}, .access = {HAL_WRITE}};
    status = resolve(list, &dst, "upload target", &told);
    if (status != HAL_OK) {
        return status;
    }
    if (dst.size != size) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "upload of %llu bytes to a span of %llu", (unsigned long long)size,
                        (unsigned long long)dst.size);
    }
    if (!size) {
        return HAL_OK;
    }
    if (list->recording) {
        if (size > MOST_RECORDED) {
            return hal_fail(HAL_ERROR_LIMIT,
                            "upload of %llu bytes in a recorded list; at most %u, copy from a buffer instead",
                            (unsigned long long)size, MOST_RECORDED);
        }
        status = hal_recording_bytes(list, source, (uint32_t)size, &told.upload);
        told.command.copy.dst = told.spans[0];
        return status == HAL_OK ? emit(list, &told) : status;
    }
    uint64_t start = told.spans[0].offset;
    for (uint64_t done = 0; done < size && status == HAL_OK; done += UPLOAD_CHUNK) {
        uint64_t chunk = size - done < UPLOAD_CHUNK ? size - done : UPLOAD_CHUNK;
        told.spans[0].offset = start + done;
        told.spans[0].size = chunk;
        told.command.copy.dst = told.spans[0];
        status = upload_chunk(list->stream, &told, (const uint8_t *)source + done, chunk);
    }
    return status;
}

hal_status hal_cmd_upload(hal_cmdlist *list, hal_span dst, const void *source, uint64_t size)
{
    return hal_cmdlist_noted(list, upload(list, dst, source, size));
}

static hal_status download_locked(hal_stream *stream, hal_told *told, void *target)
{
    hal_download *download = hal_calloc(&stream->object.device->core, 1, sizeof *download);
    if (!download) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a download");
    }
    uint64_t offset, size = told->spans[0].size;
    hal_status status = hal_staging_take_locked(stream, size, &download->block, &offset);
    if (status == HAL_OK) {
        told->command.copy.src = told->spans[0];
        told->command.copy.dst = (hal_native_span){download->block->memory, offset, size, HAL_NO_SLOT, 0};
        hal_hazard_access access = hal_told_access(told, 0);
        told->command.barrier = hal_hazard_window_add(&stream->window, &access, 1);
        download->point = stream->last_point + 1; /* before execute, which may mark */
        status = execute_locked(stream, told);
    }
    if (status != HAL_OK) {
        hal_free(download);
        return status;
    }
    download->source = download->block->host + offset;
    download->target = target;
    download->size = size;
    download->block->pinned++;
    *stream->downloads_tail = download;
    stream->downloads_tail = &download->next;
    return HAL_OK;
}

static hal_status download(hal_cmdlist *list, void *target, hal_span source)
{
    hal_status status = check_list(list);
    if (status == HAL_OK && list->recording) {
        status =
            hal_fail(HAL_ERROR_INVALID_STATE,
                     "download: list '%s' is recorded; download on the stream after its submit", list->object.label);
    }
    hal_told told = {.command = {.kind = HAL_COMMAND_COPY, .label = "download"}, .access = {HAL_READ}};
    status = status == HAL_OK ? resolve(list, &source, "download source", &told) : status;
    if (status != HAL_OK || !told.spans[0].size) {
        return status;
    }
    if (!target) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "download: target is NULL");
    }
    hal_stream_lock(list->stream);
    status = download_locked(list->stream, &told, target);
    pthread_mutex_unlock(&list->stream->lock);
    return status;
}

hal_status hal_cmd_download(hal_cmdlist *list, void *target, hal_span source)
{
    return hal_cmdlist_noted(list, download(list, target, source));
}

static hal_status event_command(hal_cmdlist *list, hal_event *event, bool is_wait)
{
    hal_status status = check_list(list);
    status = status == HAL_OK ? hal_check_on(list->object.device, event, HAL_TYPE_EVENT, "event") : status;
    if (status != HAL_OK) {
        return status;
    }
    if (!list->recording) {
        return is_wait ? hal_stream_wait_event(list->stream, event) : hal_event_record(event, list->stream);
    }
    if (!is_wait && event->gate) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "event '%s' is a gate: the host signals it, lists cannot record it",
                        event->object.label);
    }
    return hal_recording_event(list, event, is_wait);
}

hal_status hal_cmd_event_record(hal_cmdlist *list, hal_event *event)
{
    return hal_cmdlist_noted(list, event_command(list, event, false));
}

hal_status hal_cmd_event_wait(hal_cmdlist *list, hal_event *event)
{
    return hal_cmdlist_noted(list, event_command(list, event, true));
}
