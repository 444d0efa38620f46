/* operand.c - see operand.h. */
#include "flat.h"

#include "recording.h"

hal_status hal_operator_desc(const char *op, const void *given, void *desc, size_t size, const char *type)
{
    if (!given) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: desc is NULL; use the descriptor's macro", op);
    }
    return hal_desc_read(given, desc, size, type);
}

hal_status hal_operand_dtype(const char *op, const char *field, hal_dtype *dtype, hal_dtype fallback, bool f8)
{
    if (*dtype == HAL_DTYPE_DEFAULT) {
        *dtype = fallback;
    }
    if (*dtype == HAL_F32 || *dtype == HAL_F16 || *dtype == HAL_BF16 || (f8 && *dtype == HAL_F8E4M3)) {
        return HAL_OK;
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: %s is %d (%s); use HAL_F32, HAL_F16%s", op, field, (int)*dtype,
                    hal_dtype_name(*dtype), f8 ? ", HAL_BF16 or HAL_F8E4M3" : " or HAL_BF16");
}

hal_status hal_operand_dimensions(const char *op, const char *names, const uint64_t *dimensions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dimensions[i] > HAL_MAX_DIMENSION) {
            return hal_fail(HAL_ERROR_LIMIT, "%s: of %s, one is %llu; each must be below 2^31", op, names,
                            (unsigned long long)dimensions[i]);
        }
    }
    return HAL_OK;
}

/* a + b * c, or false where that passes 2^63. */
static bool add_product(uint64_t a, uint64_t b, uint64_t c, uint64_t *sum)
{
    uint64_t product;
    return !__builtin_mul_overflow(b, c, &product) && !__builtin_add_overflow(a, product, sum) && *sum <= INT64_MAX;
}

/* The bytes from the first to the last element. */
static hal_status measure(const char *op, hal_operand *o)
{
    if (o->ld == 0) {
        o->ld = o->columns;
    }
    if (o->ld < o->columns) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: leading dimension of %s is %llu; its rows have %llu elements",
                        op, o->name, (unsigned long long)o->ld, (unsigned long long)o->columns);
    }
    if (o->rows <= 1) {
        o->ld = o->columns; /* nothing is stepped over; any value is as good, and this one cannot overflow */
    }
    if (o->batch == 0) {
        o->batch = 1;
    }
    o->bytes = 0;
    if (o->rows == 0 || o->columns == 0) {
        return HAL_OK;
    }
    uint64_t elements = 0;
    if (!add_product(o->columns, o->rows - 1, o->ld, &elements) ||
        !add_product(elements, o->batch - 1, o->stride, &elements) ||
        !add_product(0, elements, hal_dtype_size(o->dtype), &o->bytes)) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: %s with leading dimension %llu and stride %llu passes 2^63 bytes",
                        op, o->name, (unsigned long long)o->ld, (unsigned long long)o->stride);
    }
    return HAL_OK;
}

hal_status hal_operand_resolve(const char *op, hal_operand *o, bool spans)
{
    if (!o->present) {
        return HAL_OK;
    }
    hal_status status = measure(op, o);
    if (status != HAL_OK || !spans) {
        return status;
    }
    if (o->span.kind == HAL_SPAN_NONE) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: %s is none; give a span", op, o->name);
    }
    const uint64_t size = hal_dtype_size(o->dtype);
    if (o->span.offset % size) {
        return hal_fail(HAL_ERROR_ALIGNMENT, "%s: %s starts at byte %llu; use a multiple of %llu", op, o->name,
                        (unsigned long long)o->span.offset, (unsigned long long)size);
    }
    uint64_t room = o->span.size;
    if (o->span.kind == HAL_SPAN_BUFFER) {
        status = hal_check(o->span.buffer, HAL_TYPE_BUFFER, "operator: span.buffer");
        if (status != HAL_OK) {
            return hal_fail_prefix(status, "%s", op);
        }
        uint64_t end = hal_buffer_size(o->span.buffer);
        o->start = o->span.buffer->offset;
        uint64_t rest = o->span.offset > end ? 0 : end - o->span.offset;
        room = room == HAL_REST ? rest : room;
        if (room > rest) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: span of %s, %llu bytes at %llu, leaves buffer '%s' of %llu",
                            op, o->name, (unsigned long long)room, (unsigned long long)o->span.offset,
                            hal_buffer_label(o->span.buffer), (unsigned long long)end);
        }
    }
    if (o->bytes > room) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: %s needs %llu bytes (%llu of %s); its span has %llu", op, o->name,
                        (unsigned long long)o->bytes, (unsigned long long)(o->bytes / size), hal_dtype_name(o->dtype),
                        (unsigned long long)room);
    }
    o->span.size = o->bytes; /* the tightest range: hazards are derived from it */
    return HAL_OK;
}

static bool same_memory(const hal_span *x, const hal_span *y)
{
    return x->kind == y->kind && (x->kind == HAL_SPAN_BUFFER ? x->buffer == y->buffer : x->slot == y->slot);
}

void hal_operands_align_slots(const hal_cmdlist *list, hal_operand *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        operands[i].slot_alignment = hal_slot_alignment(list);
    }
}

bool hal_operand_placed(const hal_operand *o, uint64_t alignment)
{
    return o->span.kind != HAL_SPAN_SLOT || (alignment && o->slot_alignment && o->slot_alignment % alignment == 0);
}

uint64_t hal_operand_before(const hal_operand *o, uint64_t alignment)
{
    return alignment ? (o->start + o->span.offset) % alignment : 0;
}

void hal_operand_move_back(hal_operand *o, uint64_t bytes)
{
    o->span.offset -= bytes;
    o->span.size = bytes + o->bytes;
}

void hal_operands_bind(const hal_operand *operands, uint32_t count, uint32_t stand_in, hal_span *spans,
                       uint32_t *alignments)
{
    for (uint32_t i = 0; i < count; i++) {
        const hal_operand *bound = &operands[operands[i].present ? i : stand_in];
        spans[i] = bound->span;
        alignments[i] = hal_dtype_size(bound->dtype);
    }
}

bool hal_operands_overlap(const hal_operand *x, const hal_operand *y)
{
    if (!same_memory(&x->span, &y->span) || x->span.offset >= y->span.offset + y->bytes ||
        y->span.offset >= x->span.offset + x->bytes) {
        return false;
    }
    const uint64_t size_x = hal_dtype_size(x->dtype), size_y = hal_dtype_size(y->dtype), row = x->ld * size_x;
    if (y->ld * size_y != row || (x->batch > 1 && x->stride * size_x % row) ||
        (y->batch > 1 && y->stride * size_y % row)) {
        return true;
    }
    const uint64_t apart = x->span.offset >= y->span.offset ? (x->span.offset - y->span.offset) % row
                                                            : row - 1 - (y->span.offset - x->span.offset - 1) % row;
    /* x's columns begin `apart` bytes into y's rows (mod a row) */
    return apart < y->columns * size_y || apart + x->columns * size_x > row;
}

hal_status hal_operand_check_output(const char *op, const hal_operand *operands, uint32_t count, uint32_t out,
                                    uint32_t exactly)
{
    const hal_operand *d = &operands[out];
    for (uint32_t i = 0; d->present && i < count; i++) {
        const hal_operand *o = &operands[i];
        if (i == out || !o->present || !hal_operands_overlap(d, o)) {
            continue;
        }
        const bool may = exactly >> i & 1;
        bool exact = d->span.offset == o->span.offset && d->dtype == o->dtype && d->ld == o->ld && d->rows == o->rows &&
                     d->batch == o->batch && (d->batch <= 1 || d->stride == o->stride);
        if (!exact || !may) {
            return hal_fail(HAL_ERROR_OVERLAP, "%s: %s overlaps %s%s", op, d->name, o->name,
                            may ? "; it may only be exactly it (offset, dtype, leading dimension)"
                                : "; give it memory of its own");
        }
    }
    return HAL_OK;
}

void hal_set64(uint32_t words[2], uint64_t value)
{
    words[0] = (uint32_t)value;
    words[1] = (uint32_t)(value >> 32);
}

uint64_t hal_fewer(uint64_t x, uint64_t y)
{
    return x < y ? x : y;
}

uint64_t hal_groups(uint64_t size, uint64_t tile)
{
    return size / tile + (size % tile != 0);
}

uint32_t hal_threads_allowed(const hal_device_info *info, uint32_t wanted)
{
    while (wanted > info->max_group_size || wanted > info->max_group_dim[0]) {
        wanted /= 2;
    }
    return wanted;
}

uint32_t hal_row_threads(const hal_device_info *info)
{
    return hal_threads_allowed(info, info->type == HAL_DEVICE_CPU ? info->subgroup_size : 256);
}

uint32_t hal_row_tile(const hal_device_info *info)
{
    return info->type == HAL_DEVICE_CPU ? 4096 : 4 * hal_row_threads(info);
}

void hal_operator_launch_start(hal_operator_launch *launch, const char *kernel, const uint32_t *constants,
                               const char *const *names, uint32_t count, uint32_t args_size)
{
    memset(launch, 0, sizeof *launch); /* the cache compares specs bytewise */
    hal_kernel_spec *spec = &launch->spec;
    snprintf(spec->name, sizeof spec->name, "%s", kernel);
    memcpy(spec->constants, constants, count * sizeof *constants);
    spec->constant_count = count;
    spec->args_size = args_size;
    spec->group[0] = spec->group[1] = spec->group[2] = 1;
    launch->constant_names = names;
    launch->grid = HAL_GRID1(1);
}

static hal_status kernel_of(hal_device *device, const char *op, hal_operator_launch *launch, const hal_access *access,
                            uint32_t count, hal_kernel **kernel)
{
    memcpy(launch->spec.bindings, access, count * sizeof *access);
    launch->spec.binding_count = count;
    hal_status status = hal_kernel_cached(device, &launch->spec, launch->constant_names, kernel);
    return status == HAL_OK ? status : hal_fail_prefix(status, "%s", op);
}

hal_status hal_operator_dispatch(hal_cmdlist *list, const char *op, hal_operator_launch *launch,
                                 const hal_operand *operands, const hal_access *access, uint32_t count,
                                 uint32_t stand_in, const void *args)
{
    hal_kernel *kernel = NULL;
    hal_status status = kernel_of(hal_cmdlist_device(list), op, launch, access, count, &kernel);
    if (status != HAL_OK) {
        return status;
    }
    hal_span spans[HAL_MAX_BINDINGS];
    uint32_t alignments[HAL_MAX_BINDINGS];
    hal_operands_bind(operands, count, stand_in, spans, alignments);
    const hal_dispatch_rules rules = {alignments, launch->most_groups};
    hal_flat_words flat;
    if (launch->spec.plain) {
        flat = hal_flat_words_of(args, launch->spec.args_size - FLAT_DIGITS * sizeof *flat.words);
        args = flat.words;
    }
    return hal_cmd_dispatch_with(list, kernel, launch->grid, spans, count, &rules, args, launch->spec.args_size);
}

hal_status hal_operator_prepare(hal_device *device, const char *op, hal_operator_launch *launch,
                                const hal_access *access, uint32_t count)
{
    hal_kernel *kernel = NULL;
    return kernel_of(device, op, launch, access, count, &kernel);
}
