/* list.c - recorded lists: every dispatch is a cl_kernel of its own whose arguments are set when the list is built. A
 * submission sets what the bindings changed and enqueues; the driver takes the arguments at the enqueue, so an earlier
 * submission may still run. */
#include "opencl_backend.h"

typedef struct recorded {
    const hal_command *command;
    opencl_launch launch; /* dispatches only */
    uint32_t first_scalar, scalar_count;
    bool late; /* has slots or scalars */
} recorded;

struct hal_native_list {
    hal_native_device *device;
    const hal_list_program *program;
    recorded *commands;
    hal_list_scalar *scalars; /* by command */
    bool bound;
    uint64_t serial; /* of the values that the launches hold */
};

static bool has_slots(const hal_command *command)
{
    for (uint32_t i = 0; i < command->dispatch.span_count; i++)
        if (!command->dispatch.spans[i].memory)
            return true;
    return false;
}

/* Sort the scalars by command, and tell each command where its own are. */
static void place_scalars(hal_native_list *list)
{
    const hal_list_program *program = list->program;
    uint32_t next = 0;
    for (uint32_t i = 0; i < program->scalar_count; i++)
        list->commands[program->scalars[i].command].scalar_count++;
    for (uint32_t i = 0; i < program->command_count; i++) {
        list->commands[i].first_scalar = next;
        next += list->commands[i].scalar_count;
        list->commands[i].scalar_count = 0;
    }
    for (uint32_t i = 0; i < program->scalar_count; i++) {
        recorded *command = &list->commands[program->scalars[i].command];
        list->scalars[command->first_scalar + command->scalar_count++] = program->scalars[i];
    }
}

/* A kernel with its fixed spans and its recorded args. */
static hal_status record_dispatch(recorded *record)
{
    const hal_command *command = record->command;
    hal_status status = hal_opencl_launch_init(&record->launch, command->dispatch.kernel);
    for (uint32_t i = 0; i < command->dispatch.span_count && status == HAL_OK; i++)
        if (command->dispatch.spans[i].memory)
            status = hal_opencl_launch_bind(&record->launch, i, &command->dispatch.spans[i], NULL);
    if (status == HAL_OK)
        status = hal_opencl_launch_args(&record->launch, command->dispatch.args);
    record->late = has_slots(command) || record->scalar_count;
    return status;
}

hal_status hal_opencl_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **list)
{
    hal_core *core = device->core;
    hal_status status = HAL_ERROR_OUT_OF_MEMORY;
    *list = NULL;
    hal_native_list *created = hal_calloc(core, 1, sizeof *created);
    if (created) {
        created->device = device;
        created->program = program;
        created->commands = hal_calloc(core, program->command_count + 1, sizeof *created->commands);
        created->scalars = hal_calloc(core, program->scalar_count + 1, sizeof *created->scalars);
    }
    if (!created || !created->commands || !created->scalars) {
        hal_fail(status, "opencl: list %s of %u commands: out of host memory", program->label ? program->label : "",
                 (unsigned)program->command_count);
        goto fail;
    }
    place_scalars(created);
    status = HAL_OK;
    for (uint32_t i = 0; i < program->command_count && status == HAL_OK; i++) {
        created->commands[i].command = &program->commands[i];
        if (program->commands[i].kind == HAL_COMMAND_DISPATCH)
            status = record_dispatch(&created->commands[i]);
    }
    if (status != HAL_OK)
        goto fail;
    *list = created;
    return HAL_OK;
fail:
    if (created)
        hal_opencl_list_destroy(created);
    return status;
}

void hal_opencl_list_destroy(hal_native_list *list)
{
    for (uint32_t i = 0; list->commands && i < list->program->command_count; i++)
        hal_opencl_launch_finish(&list->commands[i].launch);
    hal_free(list->commands);
    hal_free(list->scalars);
    hal_free(list);
}

/* The place that a span means in this submission. */
static hal_native_span resolve(const hal_native_span *span, const hal_list_values *values)
{
    if (span->memory)
        return *span;
    const hal_native_span *bound = &values->bindings[span->slot];
    uint64_t size = span->size == HAL_REST ? bound->size - span->offset : span->size;
    if (size == 0) /* the rest of it is nothing: its beginning stands for that */
        return *bound;
    return (hal_native_span){bound->memory, bound->offset + span->offset, size, HAL_NO_SLOT, 0};
}

static hal_status bind_late(hal_native_list *list, recorded *record, const hal_list_values *values,
                            opencl_argument *recent)
{
    const hal_command *command = record->command;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; i < command->dispatch.span_count && status == HAL_OK; i++)
        if (!command->dispatch.spans[i].memory) {
            hal_native_span span = resolve(&command->dispatch.spans[i], values);
            status = hal_opencl_launch_bind(&record->launch, i, &span, recent);
        }
    if (status != HAL_OK || !record->scalar_count)
        return status;
    uint8_t args[HAL_MAX_ARGS];
    memcpy(args, command->dispatch.args, command->dispatch.args_size);
    for (uint32_t i = 0; values->scalars && i < record->scalar_count; i++) {
        const hal_list_scalar *scalar = &list->scalars[record->first_scalar + i];
        memcpy(args + scalar->args_offset, &values->scalars[scalar->index], sizeof values->scalars[0]);
    }
    return hal_opencl_launch_args(&record->launch, args);
}

static hal_status submit_copy(hal_native_list *list, cl_command_queue queue, const hal_command *command,
                              const hal_list_values *values, cl_event *event)
{
    hal_native_span dst = resolve(&command->copy.dst, values), src = resolve(&command->copy.src, values);
    return hal_opencl_copy(list->device, queue, &dst, &src, event);
}

static hal_status submit_fill(hal_native_list *list, cl_command_queue queue, const hal_command *command,
                              const hal_list_values *values, cl_event *event)
{
    hal_native_span dst = resolve(&command->fill.dst, values);
    return hal_opencl_fill(list->device, queue, &dst, command->fill.pattern, command->fill.pattern_size, event);
}

hal_status hal_opencl_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values)
{
    uint32_t count = list->program->command_count;
    bool rebind = !list->bound || list->serial != values->serial;
    hal_status status = hal_opencl_stream_reserve(stream, count);
    list->bound = false; /* until all of it is set */
    for (uint32_t i = 0; i < count && status == HAL_OK; i++) {
        recorded *record = &list->commands[i];
        const hal_command *command = record->command;
        cl_event *event = i + 1 == count ? &stream->tail : NULL; /* saves the next mark a marker */
        switch (command->kind) {
        case HAL_COMMAND_DISPATCH:
            if (rebind && record->late)
                status = bind_late(list, record, values, stream->recent);
            if (status == HAL_OK)
                status = hal_opencl_launch_enqueue(&record->launch, stream->queue, command->dispatch.grid, event);
            break;
        case HAL_COMMAND_COPY:
            status = submit_copy(list, stream->queue, command, values, event);
            break;
        case HAL_COMMAND_FILL:
            status = submit_fill(list, stream->queue, command, values, event);
            break;
        }
    }
    list->bound = status == HAL_OK;
    list->serial = values->serial;
    return status;
}

uint64_t hal_opencl_list_builds(const hal_native_list *list)
{
    (void)list;
    return 1; /* rebinding sets arguments; the kernels are made once */
}
