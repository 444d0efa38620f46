/* list.c - recorded lists as CUDA graphs, built node by node (a stream capture would break when another thread
 * allocates or synchronises) and instantiated once.
 *
 * Rebinding sets the parameters of the nodes that use a changed slot or scalar, in the executable graph. By the CUDA
 * Driver API, section "Graph Management" (cuGraphExecKernelNodeSetParams and its like): "The modifications only affect
 * future launches of hGraphExec. Already enqueued or running launches are not affected by this call." So submissions in
 * flight keep their bindings. And by cuGraphLaunch, launches of one executable graph run one after the other. */
#include "cuda_backend.h"

/* What of the bindings a command depends on: a bit for each slot and for each scalar. */
typedef struct cuda_node {
    uint64_t slots, scalars;
    nv_node handle;
    void *args; /* a copy that the scalars are written to; NULL: the recorded ones stand */
    bool empty; /* built for a size of 0 */
} cuda_node;

/* What a slot means for the nodes. Not the hal_native_memory: another one may come to lie at the same host address. */
typedef struct cuda_bound {
    nv_ptr address;
    uint64_t size;
} cuda_bound;

struct hal_native_list {
    hal_native_device *device;
    const hal_list_program *program;
    cuda_node *nodes;  /* one a command */
    uint32_t *dynamic; /* the commands with slots or scalars */
    uint32_t dynamic_count;
    uint8_t *args; /* of the nodes with scalars */
    nv_node *deps; /* room for the dependencies of one command */
    nv_graph graph;
    nv_graph_exec exec;
    uint64_t builds;

    bool current;      /* exec holds the values below; else it may hold anything */
    cuda_bound *bound; /* slot_count */
    bool recorded;     /* the scalars have their recorded values; else: */
    uint32_t scalars[HAL_MAX_SLOTS];
    uint32_t scalar_indices; /* one more than the highest scalar index */
};

/* -- lowering ------------------------------------------------------------------------------------------------------ */

static const hal_native_span *written_span(const hal_command *command)
{
    return command->kind == HAL_COMMAND_COPY ? &command->copy.dst : &command->fill.dst;
}

static uint64_t command_size(const hal_command *command, const hal_list_values *values)
{
    return cuda_span_size(written_span(command), values);
}

static nv_kernel_node lower_dispatch(const cuda_node *node, const hal_command *command, const hal_list_values *values,
                                     cuda_params *params)
{
    const hal_native_kernel *kernel = command->dispatch.kernel;
    nv_kernel_node lowered = {.func = kernel->function, .shared_bytes = kernel->dynamic_shared, .params = params->list};
    for (int i = 0; i < 3; i++) {
        lowered.grid[i] = command->dispatch.grid[i];
        lowered.block[i] = kernel->group[i];
    }
    cuda_params_fill(params, command, node->args ? node->args : command->dispatch.args, values);
    return lowered;
}

static nv_memcpy3d lower_copy(const hal_command *command, const hal_list_values *values)
{
    /* Unified addressing tells the driver from the address what memory it is. */
    return (nv_memcpy3d){
        .src_type = NV_MEMORYTYPE_UNIFIED,
        .src_device = cuda_span_address(&command->copy.src, values),
        .dst_type = NV_MEMORYTYPE_UNIFIED,
        .dst_device = cuda_span_address(&command->copy.dst, values),
        .width = command_size(command, values),
        .height = 1,
        .depth = 1,
    };
}

static nv_memset_node lower_fill(const hal_command *command, const hal_list_values *values)
{
    uint32_t bytes = command->fill.pattern_size;
    uint32_t mask = bytes == 1 ? 0xff : bytes == 2 ? 0xffff : 0xffffffff;
    return (nv_memset_node){
        .dst = cuda_span_address(&command->fill.dst, values),
        .value = command->fill.pattern & mask,
        .element_size = bytes,
        .width = command_size(command, values) / bytes,
        .height = 1,
    };
}

/* -- building ------------------------------------------------------------------------------------------------------ */

static nv_result add_node(hal_native_list *list, uint32_t index, uint32_t dep_count, const hal_list_values *values)
{
    const cuda_driver *driver = &list->device->driver;
    const hal_command *command = &list->program->commands[index];
    cuda_node *node = &list->nodes[index];
    nv_context context = list->device->context;

    node->empty = command->kind != HAL_COMMAND_DISPATCH && command_size(command, values) == 0;
    if (node->empty)
        return driver->cuGraphAddEmptyNode(&node->handle, list->graph, list->deps, dep_count);
    if (command->kind == HAL_COMMAND_DISPATCH) {
        cuda_params params;
        nv_kernel_node lowered = lower_dispatch(node, command, values, &params);
        return driver->cuGraphAddKernelNode_v2(&node->handle, list->graph, list->deps, dep_count, &lowered);
    }
    if (command->kind == HAL_COMMAND_COPY) {
        nv_memcpy3d lowered = lower_copy(command, values);
        return driver->cuGraphAddMemcpyNode(&node->handle, list->graph, list->deps, dep_count, &lowered, context);
    }
    nv_memset_node lowered = lower_fill(command, values);
    return driver->cuGraphAddMemsetNode(&node->handle, list->graph, list->deps, dep_count, &lowered, context);
}

static void drop_graph(hal_native_list *list)
{
    hal_native_device *device = list->device;
    /* By the documentation of cuGraphExecDestroy an executable graph in flight is freed when it completes. */
    if (list->exec)
        cuda_check_destroy(device, device->driver.cuGraphExecDestroy(list->exec), "cuGraphExecDestroy");
    if (list->graph)
        cuda_check_destroy(device, device->driver.cuGraphDestroy(list->graph), "cuGraphDestroy");
    list->exec = NULL;
    list->graph = NULL;
}

/* (Re)build the graph for these values and instantiate it. values may be NULL if only dispatches use slots. */
static hal_status build(hal_native_list *list, const hal_list_values *values)
{
    const hal_list_program *program = list->program;
    const cuda_driver *driver = &list->device->driver;
    drop_graph(list);
    nv_result result = driver->cuGraphCreate(&list->graph, 0);
    if (result != NV_SUCCESS) {
        list->graph = NULL;
        return cuda_fail(driver, result, "cuGraphCreate");
    }
    for (uint32_t i = 0; i < program->command_count; i++) {
        uint32_t first = program->dep_start[i], count = program->dep_start[i + 1] - first;
        for (uint32_t j = 0; j < count; j++)
            list->deps[j] = list->nodes[program->deps[first + j]].handle;
        result = add_node(list, i, count, values);
        if (result != NV_SUCCESS)
            return cuda_fail(driver, result, "adding command %u (%s) of list \"%s\" to its graph", i,
                             program->commands[i].label ? program->commands[i].label : "command",
                             program->label ? program->label : "list");
    }
    result = driver->cuGraphInstantiateWithFlags(&list->exec, list->graph, 0);
    if (result != NV_SUCCESS) {
        list->exec = NULL;
        return cuda_fail(driver, result, "cuGraphInstantiateWithFlags(%u nodes)", program->command_count);
    }
    list->builds++;
    return HAL_OK;
}

/* -- what depends on what -------------------------------------------------------------------------------------------
 */

static uint64_t slot_bit(const hal_native_span *span)
{
    return span->memory || span->slot == HAL_NO_SLOT ? 0 : UINT64_C(1) << span->slot;
}

static uint64_t slots_of(const hal_command *command)
{
    uint64_t slots = 0;
    switch (command->kind) {
    case HAL_COMMAND_DISPATCH:
        for (uint32_t i = 0; i < command->dispatch.span_count; i++)
            slots |= slot_bit(&command->dispatch.spans[i]);
        break;
    case HAL_COMMAND_COPY:
        slots = slot_bit(&command->copy.dst) | slot_bit(&command->copy.src);
        break;
    case HAL_COMMAND_FILL:
        slots = slot_bit(&command->fill.dst);
        break;
    }
    return slots;
}

/* Returns the bytes of args that the nodes with scalars need in all. */
static size_t note_scalars(hal_native_list *list)
{
    const hal_list_program *program = list->program;
    size_t bytes = 0;
    for (uint32_t i = 0; i < program->scalar_count; i++) {
        const hal_list_scalar *scalar = &program->scalars[i];
        cuda_node *node = &list->nodes[scalar->command];
        if (!node->scalars)
            bytes += program->commands[scalar->command].dispatch.args_size;
        node->scalars |= UINT64_C(1) << scalar->index;
        if (scalar->index >= list->scalar_indices)
            list->scalar_indices = scalar->index + 1;
    }
    return bytes;
}

static void copy_args(hal_native_list *list)
{
    uint8_t *next = list->args;
    for (uint32_t i = 0; i < list->program->command_count; i++) {
        const hal_command *command = &list->program->commands[i];
        if (!list->nodes[i].scalars)
            continue;
        list->nodes[i].args = next;
        memcpy(next, command->dispatch.args, command->dispatch.args_size);
        next += command->dispatch.args_size;
    }
}

static bool allocate(hal_native_list *list)
{
    hal_core *core = list->device->core;
    const hal_list_program *program = list->program;
    uint32_t count = program->command_count, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t deps = program->dep_start[i + 1] - program->dep_start[i];
        most = deps > most ? deps : most;
    }
    list->nodes = hal_calloc(core, count + 1u, sizeof *list->nodes);
    list->dynamic = hal_calloc(core, count + 1u, sizeof *list->dynamic);
    list->deps = hal_calloc(core, most + 1u, sizeof(nv_node));
    list->bound = hal_calloc(core, program->slot_count + 1u, sizeof *list->bound);
    if (!list->nodes || !list->dynamic || !list->deps || !list->bound)
        return false;
    list->args = hal_calloc(core, 1, note_scalars(list) + 1);
    return list->args != NULL;
}

/* True if the graph can only be built once the slots are bound: a copy or a fill needs real addresses. */
static bool analyse(hal_native_list *list)
{
    const hal_list_program *program = list->program;
    bool needs_values = false;
    copy_args(list);
    for (uint32_t i = 0; i < program->command_count; i++) {
        cuda_node *node = &list->nodes[i];
        node->slots = slots_of(&program->commands[i]);
        if (node->slots | node->scalars)
            list->dynamic[list->dynamic_count++] = i;
        needs_values |= node->slots && program->commands[i].kind != HAL_COMMAND_DISPATCH;
    }
    return needs_values;
}

static void list_release(hal_native_list *list)
{
    drop_graph(list);
    hal_free(list->nodes);
    hal_free(list->dynamic);
    hal_free(list->deps);
    hal_free(list->bound);
    hal_free(list->args);
    hal_free(list);
}

hal_status cuda_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **out)
{
    bool pushed;
    hal_native_list *list = hal_calloc(device->core, 1, sizeof *list);
    *out = NULL;
    if (!list)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a list");
    list->device = device;
    list->program = program;
    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK && !allocate(list))
        status =
            hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a list of %u commands", program->command_count);
    if (status == HAL_OK && !analyse(list))
        status = build(list, NULL);
    if (status == HAL_OK)
        *out = list;
    else
        list_release(list);
    cuda_leave(device, pushed);
    return status;
}

void cuda_list_destroy(hal_native_list *list)
{
    bool pushed;
    if (!list)
        return;
    hal_native_device *device = list->device;
    cuda_enter(device, &pushed);
    list_release(list);
    cuda_leave(device, pushed);
}

uint64_t cuda_list_builds(const hal_native_list *list)
{
    return list->builds;
}

/* -- submitting ---------------------------------------------------------------------------------------------------- */

/* Take the slots' values over; returns a bit for each that changed. */
static uint64_t take_slots(hal_native_list *list, const hal_list_values *values)
{
    uint64_t changed = 0;
    for (uint32_t i = 0; i < list->program->slot_count; i++) {
        const hal_native_span *span = &values->bindings[i];
        cuda_bound bound = {span->memory ? span->memory->pointer + span->offset : 0, span->size};
        if (bound.address != list->bound[i].address || bound.size != list->bound[i].size)
            changed |= UINT64_C(1) << i;
        list->bound[i] = bound;
    }
    return list->current ? changed : UINT64_MAX;
}

static uint64_t take_scalars(hal_native_list *list, const hal_list_values *values)
{
    bool recorded = values->scalars == NULL;
    uint64_t changed = recorded == list->recorded && list->current ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < list->scalar_indices && !recorded; i++) {
        if (values->scalars[i] != list->scalars[i])
            changed |= UINT64_C(1) << i;
        list->scalars[i] = values->scalars[i];
    }
    list->recorded = recorded;
    return changed;
}

static void write_scalars(hal_native_list *list, uint64_t changed)
{
    for (uint32_t i = 0; i < list->program->scalar_count; i++) {
        const hal_list_scalar *scalar = &list->program->scalars[i];
        const uint8_t *args = list->program->commands[scalar->command].dispatch.args;
        if (changed >> scalar->index & 1)
            memcpy((uint8_t *)list->nodes[scalar->command].args + scalar->args_offset,
                   list->recorded ? (const void *)(args + scalar->args_offset) : &list->scalars[scalar->index], 4);
    }
}

static nv_result set_node(hal_native_list *list, uint32_t index, const hal_list_values *values)
{
    const cuda_driver *driver = &list->device->driver;
    const hal_command *command = &list->program->commands[index];
    const cuda_node *node = &list->nodes[index];
    nv_context context = list->device->context;
    if (command->kind == HAL_COMMAND_DISPATCH) {
        cuda_params params;
        nv_kernel_node lowered = lower_dispatch(node, command, values, &params);
        return driver->cuGraphExecKernelNodeSetParams_v2(list->exec, node->handle, &lowered);
    }
    bool empty = command_size(command, values) == 0;
    if (empty || node->empty)
        return empty == node->empty ? NV_SUCCESS : NV_ERROR_INVALID_VALUE;
    if (command->kind == HAL_COMMAND_COPY) {
        nv_memcpy3d lowered = lower_copy(command, values);
        return driver->cuGraphExecMemcpyNodeSetParams(list->exec, node->handle, &lowered, context);
    }
    nv_memset_node lowered = lower_fill(command, values);
    return driver->cuGraphExecMemsetNodeSetParams(list->exec, node->handle, &lowered, context);
}

static hal_status update(hal_native_list *list, const hal_list_values *values, uint64_t slots, uint64_t scalars)
{
    for (uint32_t i = 0; i < list->dynamic_count; i++) {
        uint32_t index = list->dynamic[i];
        const cuda_node *node = &list->nodes[index];
        if (!(node->slots & slots) && !(node->scalars & scalars))
            continue;
        nv_result result = set_node(list, index, values);
        /* A copy or fill may not change to another kind of memory, nor a fill much in size, nor anything to nothing. */
        if (result == NV_ERROR_INVALID_VALUE && list->program->commands[index].kind != HAL_COMMAND_DISPATCH)
            return build(list, values);
        if (result != NV_SUCCESS)
            return cuda_fail(&list->device->driver, result, "setting the parameters of command %u of list \"%s\"",
                             index, list->program->label ? list->program->label : "list");
    }
    return HAL_OK;
}

static hal_status submit_in_context(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values)
{
    const cuda_driver *driver = &list->device->driver;
    uint64_t slots = take_slots(list, values), scalars = take_scalars(list, values);
    write_scalars(list, scalars);
    list->current = false;
    hal_status status = HAL_OK;
    if (!list->exec)
        status = build(list, values);
    else if (slots | scalars)
        status = update(list, values, slots, scalars);
    if (status != HAL_OK)
        return status;
    list->current = true;
    status = cuda_stream_reserve(stream);
    if (status != HAL_OK)
        return status;
    nv_result result = driver->cuGraphLaunch(list->exec, stream->handle);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuGraphLaunch(list \"%s\")",
                         list->program->label ? list->program->label : "list");
    return HAL_OK;
}

hal_status cuda_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values)
{
    bool pushed;
    hal_status status = cuda_enter(list->device, &pushed);
    if (status == HAL_OK)
        status = submit_in_context(list, stream, values);
    cuda_leave(list->device, pushed);
    return status;
}
