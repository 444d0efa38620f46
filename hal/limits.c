/* limits.c - lowered limits and injected faults, given as text. See hal/debug.h. */
#include "internal.h"

#include <ctype.h>
#include <errno.h>

/* Split "name=value,..." (or "name:value") and hand each pair to `apply`. */
typedef hal_status (*pair_fn)(void *user, const char *name, uint64_t value);

static hal_status each_pair(const char *text, char separator, const char *what, pair_fn apply, void *user)
{
    while (text && *text) {
        char item[64], *end;
        size_t length = strcspn(text, ",");
        if (length >= sizeof item) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: '%.40s...' is too long", what, text);
        }
        memcpy(item, text, length);
        item[length] = 0;
        text += length + (text[length] == ',');
        if (!length) {
            continue;
        }
        char *mark = strchr(item, separator);
        errno = 0;
        uint64_t value = mark ? strtoull(mark + 1, &end, 0) : 0;
        if (!mark || !isdigit((unsigned char)mark[1]) || *end || errno) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: '%s' is not name%cnumber", what, item, separator);
        }
        *mark = 0;
        hal_status status = apply(user, item, value);
        if (status != HAL_OK) {
            return status;
        }
    }
    return HAL_OK;
}

typedef struct limits_target {
    hal_device_info *info;
    hal_limits *limits;
} limits_target;

static hal_status above(const char *name, uint64_t value, uint64_t real)
{
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                    "HAL_LIMITS: %s=%llu is above the device's %llu; limits can only be lowered", name,
                    (unsigned long long)value, (unsigned long long)real);
}

static hal_status lower32(const char *name, uint64_t value, uint32_t *field)
{
    if (value > *field) {
        return above(name, value, *field);
    }
    *field = (uint32_t)value;
    return HAL_OK;
}

static hal_status lower64(const char *name, uint64_t value, uint64_t *field)
{
    if (value > *field) {
        return above(name, value, *field);
    }
    *field = value;
    return HAL_OK;
}

/* 0 is not to be had: in the field it says that nothing is limited. */
static hal_status lower_loops(uint64_t value, uint32_t *field)
{
    if (!value) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_LIMITS: loop_iterations=0; at least 1");
    }
    *field = *field ? *field : UINT32_MAX;
    return lower32("loop_iterations", value, field);
}

static hal_status hide(const char *name, uint64_t value, bool *feature)
{
    if (value) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_LIMITS: %s=%llu; features can only be hidden, with %s=0", name,
                        (unsigned long long)value, name);
    }
    *feature = false;
    return HAL_OK;
}

static hal_status apply_limit(void *user, const char *name, uint64_t value)
{
    limits_target *target = user;
    hal_device_info *info = target->info;
    if (strcmp(name, "group_size") == 0) {
        for (int i = 0; i < 3; i++) {
            info->max_group_dim[i] = info->max_group_dim[i] < value ? info->max_group_dim[i] : (uint32_t)value;
        }
        return lower32(name, value, &info->max_group_size);
    }
    if (strcmp(name, "group_count") == 0) {
        if (value > info->max_group_count[0]) {
            return above(name, value, info->max_group_count[0]);
        }
        for (int i = 0; i < 3; i++) {
            if (value < info->max_group_count[i]) {
                info->max_group_count[i] = value;
            }
        }
        return value ? HAL_OK : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_LIMITS: group_count=0; at least 1");
    }
    if (strcmp(name, "units") == 0) {
        return value ? lower32(name, value, &info->compute_units)
                     : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_LIMITS: units=0; at least 1");
    }
    if (strcmp(name, "shared") == 0) {
        return lower32(name, value, &info->max_shared_memory);
    }
    if (strcmp(name, "loop_iterations") == 0) {
        return lower_loops(value, &info->max_loop_iterations);
    }
    if (strcmp(name, "buffer_size") == 0) {
        return lower64(name, value, &info->max_buffer_size);
    }
    if (strcmp(name, "bounded_span") == 0) {
        return lower64(name, value, &info->bounded_span);
    }
    if (strcmp(name, "memory") == 0) {
        target->limits->memory = value;
        return lower64(name, value, &info->memory_size);
    }
    if (strcmp(name, "list_commands") == 0) {
        target->limits->list_commands = value ? value : 1;
        return HAL_OK;
    }
    if (strcmp(name, "pooled") == 0) {
        target->limits->pooled = value;
        return HAL_OK;
    }
    if (strcmp(name, "first_point") == 0) {
        if (value > INT64_MAX) {
            return above(name, value, INT64_MAX);
        }
        target->limits->first_point = value;
        return HAL_OK;
    }
    if (strcmp(name, "subgroups") == 0) {
        info->subgroup_shuffle = false;
        return hide(name, value, &info->subgroups);
    }
    if (strcmp(name, "matrix") == 0) {
        info->async_matrix = false;
        return hide(name, value, &info->matrix_units);
    }
    if (strcmp(name, "cpu") == 0) {
        bool cpu = info->type == HAL_DEVICE_CPU;
        info->type = cpu ? HAL_DEVICE_INTEGRATED : info->type;
        return hide(name, value, &cpu);
    }
    const struct {
        const char *name;
        bool *feature;
    } features[] = {
        {"fp16", &info->fp16}, {"bf16", &info->bf16}, {"fp8", &info->fp8}, {"async_matrix", &info->async_matrix}};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (strcmp(name, features[i].name) == 0) {
            return hide(name, value, features[i].feature);
        }
    }
    return hal_fail(
        HAL_ERROR_INVALID_ARGUMENT,
        "HAL_LIMITS: no such limit '%s' (group_size, group_count, units, shared, memory, buffer_size, fp16, "
        "bf16, fp8, subgroups, matrix, async_matrix, cpu, loop_iterations, bounded_span, list_commands, pooled, "
        "first_point)",
        name);
}

hal_status hal_limits_apply(const char *text, hal_device_info *info, hal_limits *limits)
{
    limits_target target = {info, limits};
    return each_pair(text, '=', "HAL_LIMITS", apply_limit, &target);
}

static hal_status apply_fault(void *user, const char *name, uint64_t value)
{
    static const char *const names[] = {"alloc", "submit", "compile", "lost"};
    hal_device *device = user;
    for (int i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) {
            atomic_store(&device->faults[i], value);
            return HAL_OK;
        }
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_FAULT: no such fault '%s' (alloc, submit, compile, lost)", name);
}

hal_status hal_faults_apply(const char *text, hal_device *device)
{
    return each_pair(text, ':', "HAL_FAULT", apply_fault, device);
}

hal_status hal_device_inject_fault(hal_device *device, hal_fault fault, uint64_t nth)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    if (status == HAL_OK && (unsigned)fault > HAL_FAULT_LOST) {
        status =
            hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_inject_fault: fault %d is none of hal_fault", (int)fault);
    }
    if (status == HAL_OK) {
        atomic_store(&device->faults[fault], nth);
    }
    return status;
}

bool hal_fault_hit(hal_device *device, hal_fault fault)
{
    if (atomic_load_explicit(&device->faults[fault], memory_order_relaxed) == 0) {
        return false;
    }
    uint_fast64_t left = atomic_load(&device->faults[fault]);
    while (left && !atomic_compare_exchange_weak(&device->faults[fault], &left, left - 1)) {
    }
    return left == 1;
}

hal_status hal_submit_fault(hal_stream *stream, const char *label)
{
    hal_device *device = stream->object.device;
    if (hal_fault_hit(device, HAL_FAULT_LOST)) {
        return hal_device_note(
            device, hal_fail(HAL_ERROR_DEVICE_LOST, "injected fault: device '%s' is lost", device->object.label));
    }
    return !hal_fault_hit(device, HAL_FAULT_SUBMIT)
               ? HAL_OK
               : hal_fail(HAL_ERROR_BACKEND, "injected fault: submit of '%s' on stream '%s'", label,
                          stream->object.label);
}
