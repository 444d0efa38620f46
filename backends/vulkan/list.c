/* list.c - recorded lists: command buffers recorded once and submitted any number of times.
 *
 * A list has up to VK_INSTANCES_MAX instances, each a recording with a parameter block and descriptors of its own, so
 * that submissions with different bindings can be in flight at once. New bindings and scalars are written into the
 * block of an instance that is not in flight: the recording stands. Only where a slot or a scalar is part of the
 * recording itself (descriptors, texel views, push constants, copies and fills of slots) is that instance recorded
 * again. */
#include "vulkan_backend.h"

#define USES_MAX 16 /* streams that an instance may be in flight on at once */

/* A place in the parameter block that a submission sets: a span's address or a scalar. */
typedef struct vk_patch {
    uint64_t block_offset;
    uint64_t span_offset;
    uint32_t slot;
} vk_patch;

typedef struct vk_scalar_patch {
    uint64_t block_offset;
    uint32_t index;
    uint32_t recorded;
} vk_scalar_patch;

/* What a slot meant when an instance was last written: the memory by number, as its address may be used again. */
typedef struct vk_bound {
    uint64_t memory, offset, size;
} vk_bound;

struct vk_instance {
    hal_native_list *list;
    vk_recorder recorder;
    bool built, written; /* recorded; holds the values below */
    uint64_t serial;
    vk_bound bound[HAL_MAX_SLOTS];
    uint32_t pending; /* appended to streams but not submitted yet */
    vk_timeline *uses[USES_MAX];
    uint64_t use_values[USES_MAX];
    uint32_t use_count;
};

struct hal_native_list {
    hal_native_device *device;
    const hal_list_program *program;
    uint64_t parameter_size;
    bool dynamic;    /* has slots or scalars */
    bool re_records; /* ... that are part of the recording */
    vk_patch *patches;
    vk_scalar_patch *scalar_patches;
    uint32_t patch_count, scalar_patch_count;
    atomic_uint_fast64_t builds;
    pthread_mutex_t lock; /* pending and uses of the instances: streams report from their own threads */
    pthread_cond_t submitted;
    vk_instance *instances[VK_INSTANCES_MAX];
    uint32_t instance_count;
};

/* ---- what of a list depends on slots and scalars */

static bool in_slot(const hal_native_span *span)
{
    return !span->memory && span->slot != HAL_NO_SLOT;
}

static uint32_t count_slots(const hal_list_program *program)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->command_count; i++)
        if (program->commands[i].kind == HAL_COMMAND_DISPATCH)
            for (uint32_t k = 0; k < program->commands[i].dispatch.span_count; k++)
                count += in_slot(&program->commands[i].dispatch.spans[k]);
    return count;
}

static void analyse_dispatch(hal_native_list *list, const hal_command *command, uint64_t block)
{
    const hal_native_kernel *kernel = command->dispatch.kernel;
    for (uint32_t k = 0; k < command->dispatch.span_count; k++) {
        const hal_native_span *span = &command->dispatch.spans[k];
        if (!in_slot(span))
            continue;
        list->dynamic = true;
        list->re_records |= kernel->has_descriptor[k];
        if (kernel->abi == HAL_ABI_OFFSET)
            list->patches[list->patch_count++] =
                (vk_patch){block + k * sizeof(VkDeviceAddress), span->offset, span->slot};
    }
}

static void analyse_scalars(hal_native_list *list, uint32_t index, uint64_t block)
{
    const hal_list_program *program = list->program;
    const hal_command *command = &program->commands[index];
    for (uint32_t s = 0; s < program->scalar_count; s++) {
        const hal_list_scalar *scalar = &program->scalars[s];
        if (scalar->command != index)
            continue;
        list->dynamic = true;
        if (command->dispatch.kernel->abi != HAL_ABI_OFFSET) {
            list->re_records = true;
            continue;
        }
        vk_scalar_patch *patch = &list->scalar_patches[list->scalar_patch_count++];
        patch->block_offset = block + command->dispatch.span_count * sizeof(VkDeviceAddress) + scalar->args_offset;
        patch->index = scalar->index;
        memcpy(&patch->recorded, (const char *)command->dispatch.args + scalar->args_offset, sizeof patch->recorded);
    }
}

static hal_status analyse(hal_native_list *list)
{
    const hal_list_program *program = list->program;
    hal_core *core = list->device->core;
    list->patches = hal_calloc(core, count_slots(program) + 1, sizeof *list->patches);
    list->scalar_patches = hal_calloc(core, program->scalar_count + 1, sizeof *list->scalar_patches);
    if (!list->patches || !list->scalar_patches)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for list '%s'", program->label);
    for (uint32_t i = 0; i < program->command_count; i++) {
        const hal_command *command = &program->commands[i];
        bool slots = false;
        if (command->kind == HAL_COMMAND_DISPATCH)
            analyse_dispatch(list, command, list->parameter_size);
        else if (command->kind == HAL_COMMAND_COPY)
            slots = in_slot(&command->copy.dst) || in_slot(&command->copy.src);
        else
            slots = in_slot(&command->fill.dst);
        list->dynamic |= slots;
        list->re_records |= slots;
        if (program->scalar_count && command->kind == HAL_COMMAND_DISPATCH)
            analyse_scalars(list, i, list->parameter_size);
        list->parameter_size += hal_vk_parameter_size(command);
    }
    return HAL_OK;
}

/* ---- instances */

static void instance_destroy(vk_instance *instance)
{
    for (uint32_t i = 0; i < instance->use_count; i++)
        hal_vk_timeline_release(instance->uses[i]);
    hal_vk_recorder_destroy(&instance->recorder);
    hal_free(instance);
}

static hal_status instance_create(hal_native_list *list, vk_instance **out)
{
    vk_instance *instance = hal_calloc(list->device->core, 1, sizeof *instance);
    if (!instance)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for list '%s'", list->program->label);
    instance->list = list;
    hal_status status = hal_vk_recorder_create(&instance->recorder, list->device, list->parameter_size);
    if (status != HAL_OK) {
        hal_free(instance);
        return status;
    }
    list->instances[list->instance_count++] = instance;
    atomic_fetch_add(&list->builds, 1);
    *out = instance;
    return HAL_OK;
}

/* The command with the scalars of this submission in its args, which are copied to `args`. */
static hal_command with_scalars(const hal_list_program *program, uint32_t index, const hal_list_values *values,
                                uint8_t args[HAL_MAX_ARGS])
{
    hal_command command = program->commands[index];
    if (!values || !values->scalars || command.kind != HAL_COMMAND_DISPATCH || !command.dispatch.args_size)
        return command;
    memcpy(args, command.dispatch.args, command.dispatch.args_size);
    command.dispatch.args = args;
    for (uint32_t s = 0; s < program->scalar_count; s++)
        if (program->scalars[s].command == index)
            memcpy(args + program->scalars[s].args_offset, &values->scalars[program->scalars[s].index],
                   sizeof(uint32_t));
    return command;
}

/* Record the list. values is NULL while the slots are unknown and no recording depends on them. */
static hal_status build(hal_native_list *list, vk_instance *instance, const hal_list_values *values)
{
    const hal_list_program *program = list->program;
    vk_recorder *recorder = &instance->recorder;
    instance->built = instance->written = false;
    hal_status status = hal_vk_recorder_begin(recorder, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    recorder->bindings = values ? values->bindings : NULL;
    for (uint32_t i = 0; status == HAL_OK && i < program->command_count; i++) {
        uint8_t args[HAL_MAX_ARGS];
        hal_command command = with_scalars(program, i, values, args);
        status = hal_vk_record(recorder, &command);
    }
    recorder->bindings = NULL;
    if (status == HAL_OK)
        status = hal_vk_recorder_end(recorder);
    instance->built = status == HAL_OK;
    return status;
}

static void patch(const hal_native_list *list, vk_instance *instance, const hal_list_values *values)
{
    if (!instance->recorder.parameters)
        return;
    char *block = instance->recorder.parameters->host;
    for (uint32_t i = 0; i < list->patch_count; i++) {
        const vk_patch *p = &list->patches[i];
        const hal_native_span *bound = &values->bindings[p->slot];
        VkDeviceAddress address = bound->memory ? bound->memory->address + bound->offset + p->span_offset : 0;
        memcpy(block + p->block_offset, &address, sizeof address);
    }
    for (uint32_t i = 0; i < list->scalar_patch_count; i++) {
        const vk_scalar_patch *p = &list->scalar_patches[i];
        uint32_t value = values->scalars ? values->scalars[p->index] : p->recorded;
        memcpy(block + p->block_offset, &value, sizeof value);
    }
}

static vk_bound bound_of(const hal_native_span *span)
{
    vk_bound bound = {span->memory ? span->memory->id : 0, span->offset, span->size};
    return bound;
}

static bool holds(const vk_instance *instance, const hal_list_values *values)
{
    if (!instance->written || instance->serial != values->serial)
        return false;
    for (uint32_t i = 0; i < instance->list->program->slot_count; i++) {
        vk_bound bound = bound_of(&values->bindings[i]);
        if (memcmp(&bound, &instance->bound[i], sizeof bound) != 0)
            return false;
    }
    return true;
}

static hal_status write_values(hal_native_list *list, vk_instance *instance, const hal_list_values *values)
{
    hal_status status = HAL_OK;
    instance->written = false;
    if (list->re_records || !instance->built)
        status = build(list, instance, values);
    if (status != HAL_OK)
        return status;
    patch(list, instance, values);
    for (uint32_t i = 0; i < list->program->slot_count; i++)
        instance->bound[i] = bound_of(&values->bindings[i]);
    instance->serial = values->serial;
    instance->written = true;
    return HAL_OK;
}

/* With the lock held: forget the uses that are over. */
static hal_status prune(vk_instance *instance, uint64_t timeout)
{
    uint32_t kept = 0;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; i < instance->use_count; i++) {
        hal_status one = hal_vk_timeline_wait(instance->uses[i], instance->use_values[i], timeout);
        if (one == HAL_OK) {
            hal_vk_timeline_release(instance->uses[i]);
            continue;
        }
        if (status == HAL_OK || status == HAL_TIMEOUT)
            status = one;
        instance->uses[kept] = instance->uses[i];
        instance->use_values[kept++] = instance->use_values[i];
    }
    instance->use_count = kept;
    return status;
}

void hal_vk_instance_submitted(vk_instance *instance, vk_timeline *timeline, uint64_t value)
{
    if (!instance)
        return;
    hal_native_list *list = instance->list;
    pthread_mutex_lock(&list->lock);
    uint32_t i = 0;
    while (i < instance->use_count && instance->uses[i] != timeline)
        i++;
    if (timeline && i == instance->use_count)
        instance->uses[instance->use_count++] = hal_vk_timeline_hold(timeline);
    if (timeline)
        instance->use_values[i] = value;
    instance->pending--;
    pthread_cond_broadcast(&list->submitted);
    pthread_mutex_unlock(&list->lock);
}

/* ---- choosing an instance; all with the lock held */

/* One that already says what this submission wants: it may be in flight. */
static vk_instance *find_same(hal_native_list *list, const hal_list_values *values)
{
    for (uint32_t i = 0; i < list->instance_count; i++) {
        vk_instance *instance = list->instances[i];
        if (!holds(instance, values))
            continue;
        if (instance->use_count + instance->pending >= USES_MAX)
            prune(instance, 0);
        if (instance->use_count + instance->pending < USES_MAX)
            return instance;
    }
    return NULL;
}

static hal_status find_free(hal_native_list *list, vk_instance **out)
{
    for (uint32_t i = 0; i < list->instance_count; i++) {
        vk_instance *instance = list->instances[i];
        if (instance->pending)
            continue;
        hal_status status = prune(instance, 0);
        if (status == HAL_OK)
            *out = instance;
        if (status != HAL_TIMEOUT)
            return status;
    }
    return HAL_TIMEOUT;
}

static struct timespec deadline_after(uint64_t nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t seconds = nanoseconds / 1000000000u;
    until.tv_sec += (time_t)(seconds < 1000000000u ? seconds : 1000000000u);
    until.tv_nsec += (long)(nanoseconds % 1000000000u);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

/* Every instance is in flight or about to be: wait for the one whose turn is next. */
static hal_status wait_free(hal_native_list *list, hal_native_stream *stream, vk_instance **out)
{
    uint64_t timeout = hal_submit_patience(list->device->core);
    struct timespec until = deadline_after(timeout);
    pthread_mutex_unlock(&list->lock);
    hal_status status = hal_vk_stream_submit_early(stream); /* some may be held back in this very stream */
    pthread_mutex_lock(&list->lock);
    while (status == HAL_OK) {
        vk_instance *next = NULL;
        for (uint32_t i = 0; i < list->instance_count; i++)
            if (!list->instances[i]->pending && (!next || list->instances[i]->serial < next->serial))
                next = list->instances[i];
        if (next) {
            status = prune(next, timeout);
            *out = next;
            break;
        }
        if (pthread_cond_timedwait(&list->submitted, &list->lock, &until) != 0)
            status = HAL_TIMEOUT;
    }
    if (status == HAL_TIMEOUT)
        return hal_fail(HAL_TIMEOUT, "vulkan: list '%s': %d submissions with other bindings are unfinished",
                        list->program->label, VK_INSTANCES_MAX);
    return status;
}

static hal_status choose(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values,
                         vk_instance **out)
{
    vk_instance *instance = find_same(list, values);
    hal_status status = HAL_OK;
    if (!instance) {
        status = find_free(list, &instance);
        if (status == HAL_TIMEOUT && list->instance_count < VK_INSTANCES_MAX)
            status = instance_create(list, &instance);
        else if (status == HAL_TIMEOUT)
            status = wait_free(list, stream, &instance);
        if (status == HAL_OK)
            status = write_values(list, instance, values);
    }
    if (status == HAL_OK)
        instance->pending++;
    *out = instance;
    return status;
}

/* ---- lists */

hal_status hal_vk_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **out)
{
    hal_native_list *list = hal_calloc(device->core, 1, sizeof *list);
    if (!list)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for list '%s'", program->label);
    list->device = device;
    list->program = program;
    pthread_mutex_init(&list->lock, NULL);
    pthread_cond_init(&list->submitted, NULL);
    vk_instance *first = NULL;
    hal_status status = analyse(list);
    if (status == HAL_OK)
        status = instance_create(list, &first);
    if (status == HAL_OK && !list->re_records)
        status = build(list, first, NULL);
    if (status != HAL_OK) {
        hal_vk_list_destroy(list);
        return status;
    }
    *out = list;
    return HAL_OK;
}

void hal_vk_list_destroy(hal_native_list *list)
{
    if (!list)
        return;
    for (uint32_t i = 0; i < list->instance_count; i++)
        instance_destroy(list->instances[i]);
    hal_free(list->patches);
    hal_free(list->scalar_patches);
    pthread_cond_destroy(&list->submitted);
    pthread_mutex_destroy(&list->lock);
    hal_free(list);
}

hal_status hal_vk_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values)
{
    if (!list->dynamic) /* nothing is ever written: no need to know when it is done */
        return hal_vk_stream_append(stream, list->instances[0]->recorder.commands, NULL);
    vk_instance *instance;
    pthread_mutex_lock(&list->lock);
    hal_status status = choose(list, stream, values, &instance);
    pthread_mutex_unlock(&list->lock);
    if (status != HAL_OK)
        return status;
    status = hal_vk_stream_append(stream, instance->recorder.commands, instance);
    if (status != HAL_OK)
        hal_vk_instance_submitted(instance, NULL, 0);
    return status;
}

uint64_t hal_vk_list_builds(const hal_native_list *list)
{
    return atomic_load(&((hal_native_list *)list)->builds);
}
