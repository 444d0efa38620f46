/* plan.c - making a plan and taking it apart. See plan_state.h. */
#include "plan_state.h"

#include <math.h>

#include "internal.h"
#include "json.h"
#include "operand.h"

enum { PLAN_TYPE = 0x48414c50 };

hal_status hal_plan_check(const hal_plan *plan, const char *call)
{
    return plan && plan->type == PLAN_TYPE
               ? HAL_OK
               : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: plan is %s; use what hal_plan_create gave", call,
                          plan ? "not a live plan" : "NULL");
}

const hal_tensor_info *hal_plan_slot(const hal_plan *plan, uint32_t slot)
{
    return &plan->program.tensors[plan->slots[slot]];
}

static hal_status no_memory(const hal_program *program)
{
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a plan of '%s'", program->label);
}

static hal_status check_enums(const hal_plan_desc *desc)
{
    const struct {
        const char *name;
        int value, last;
    } fields[] = {{"fusion", (int)desc->fusion, HAL_FUSE_MEASURED},
                  {"mode", (int)desc->mode, HAL_MODE_STRICT},
                  {"shapes", (int)desc->shapes, HAL_SHAPES_AUTO}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].value < 0 || fields[i].value > fields[i].last) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_create: %s is %d, none of its enum", fields[i].name,
                            fields[i].value);
        }
    }
    return HAL_OK;
}

static hal_status check_buckets(const hal_plan_desc *desc)
{
    if (!desc->replay || desc->shapes != HAL_SHAPES_BUCKETED) {
        return HAL_OK;
    }
    if (!desc->buckets || !desc->bucket_count || desc->bucket_count > HAL_PLAN_MOST_PROGRAMS) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_create: %u buckets%s; HAL_SHAPES_BUCKETED takes 1 to %d",
                        desc->bucket_count, desc->buckets ? "" : " at NULL", HAL_PLAN_MOST_PROGRAMS);
    }
    for (uint32_t i = 0; i < desc->bucket_count; i++) {
        if (desc->buckets[i] <= (i ? desc->buckets[i - 1] : 0) || desc->buckets[i] > HAL_MAX_DIMENSION) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "hal_plan_create: bucket %u is %llu rows; they ascend from 1 to below 2^31", i,
                            (unsigned long long)desc->buckets[i]);
        }
    }
    return HAL_OK;
}

/* The descriptor with defaults. */
static hal_status read_desc(const hal_plan_desc *given, hal_plan_desc *desc)
{
    hal_status status = hal_desc_read(given, desc, sizeof *desc, "hal_plan_desc");
    status = status == HAL_OK ? check_enums(desc) : status;
    status = status == HAL_OK ? check_buckets(desc) : status;
    if (status != HAL_OK) {
        return status;
    }
    desc->programs = desc->programs ? desc->programs : HAL_PLAN_PROGRAMS;
    desc->streams = desc->streams ? desc->streams : 1;
    desc->measure_rows = desc->measure_rows ? desc->measure_rows : 1024;
    if (desc->programs > HAL_PLAN_MOST_PROGRAMS || desc->streams > HAL_PLAN_MOST_STREAMS) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_plan_create: %u programs, %u streams; at most %d and %d", desc->programs,
                        desc->streams, HAL_PLAN_MOST_PROGRAMS, HAL_PLAN_MOST_STREAMS);
    }
    return HAL_OK;
}

/* Constants must be in memory of this device, and there must be something to do. */
static hal_status check_program(hal_device *device, const hal_program *program)
{
    if (!program->outputs) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_create: graph '%s' has no output", program->label);
    }
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->kind != HAL_TENSOR_CONSTANT) {
            continue;
        }
        if (tensor->constant.kind != HAL_SPAN_BUFFER) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "hal_plan_create: constant '%s' of graph '%s' has no memory; it can only be costed",
                            tensor->name, program->label);
        }
        hal_status status = hal_check_on(device, tensor->constant.buffer, HAL_TYPE_BUFFER, "constant's buffer");
        if (status != HAL_OK) {
            return hal_fail_prefix(status, "hal_plan_create: constant '%s'", tensor->name);
        }
    }
    return HAL_OK;
}

static hal_status find_slots(hal_plan *plan)
{
    hal_program *program = &plan->program;
    plan->slot_count = program->inputs + program->outputs;
    plan->slots = calloc(plan->slot_count + 1, sizeof *plan->slots);
    if (!plan->slots) {
        return no_memory(program);
    }
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        plan->has_rows |= hal_tensor_has_rows(tensor);
        if (tensor->kind == HAL_TENSOR_INPUT) {
            plan->slots[tensor->slot] = i;
        } else if (tensor->output) {
            plan->slots[program->inputs + tensor->output_slot] = i;
        }
    }
    if (plan->desc.replay && plan->slot_count >= HAL_MAX_SLOTS) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "hal_plan_create: graph '%s' has %u inputs and outputs, a recorded list takes %d; run it with "
                        "replay = false",
                        program->label, plan->slot_count, HAL_MAX_SLOTS - 1);
    }
    return HAL_OK;
}

static hal_status fuse(hal_plan *plan, const char *choices)
{
    hal_decisions given = {0};
    hal_json *held = NULL;
    hal_status status = choices ? hal_plan_import(choices, plan->graph, &given, &held) : HAL_OK;
    if (status == HAL_OK) {
        const hal_fusion_options options = {.policy = choices ? HAL_FUSE_MODEL : plan->desc.fusion,
                                            .no_reordering = plan->desc.no_reordering,
                                            .mode = plan->desc.mode,
                                            .rows = plan->has_rows ? plan->desc.measure_rows : 1,
                                            .info = hal_device_get_info(plan->device),
                                            .machine = &plan->machine,
                                            .given = choices ? &given : NULL,
                                            .measure = hal_plan_measure_steps,
                                            .user = plan};
        status = hal_fuse(&plan->program, &options, &plan->decisions);
    }
    hal_decisions_clear(&given);
    hal_json_free(held);
    return status;
}

static hal_status find_writers(hal_plan *plan)
{
    const hal_program *program = &plan->program;
    plan->writers = calloc(program->tensor_count, sizeof *plan->writers);
    if (!plan->writers) {
        return no_memory(program);
    }
    for (uint32_t i = 0; i < program->tensor_count; i++) {
        plan->writers[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
            const uint32_t tensor = program->steps[i].tensors[role];
            plan->writers[tensor] = tensor ? i : UINT32_MAX;
        }
    }
    return HAL_OK;
}

static hal_status copy_graph(hal_plan *plan, const hal_graph *graph, const char *label)
{
    hal_program *program = &plan->program;
    hal_status status = hal_program_copy(hal_graph_program(graph), program);
    if (status == HAL_OK && label && *label) {
        char *copy = strdup(label);
        if (!copy) {
            return no_memory(program);
        }
        free(program->label);
        program->label = copy;
    }
    plan->operators = program->step_count;
    plan->graph = hal_plan_digest(program);
    status = status == HAL_OK ? check_program(plan->device, program) : status;
    return status == HAL_OK ? find_slots(plan) : status;
}

static hal_status copy_buckets(hal_plan *plan)
{
    hal_plan_desc *desc = &plan->desc;
    if (!desc->replay || desc->shapes != HAL_SHAPES_BUCKETED) {
        desc->bucket_count = 0;
    }
    plan->buckets = calloc(desc->bucket_count + 1, sizeof *plan->buckets);
    if (!plan->buckets) {
        return no_memory(&plan->program);
    }
    if (desc->bucket_count) {
        memcpy(plan->buckets, desc->buckets, desc->bucket_count * sizeof *plan->buckets);
    }
    desc->buckets = plan->buckets;
    return desc->bucket_count ? hal_plan_may_pad(&plan->program) : HAL_OK;
}

/* What runs write. */
static hal_status make_state(hal_plan *plan)
{
    const char *label = plan->program.label;
    uint32_t size = 8;
    while (size < 2 * (plan->desc.programs + HAL_PLAN_UNRECORDED)) {
        size *= 2;
    }
    plan->table = calloc(size, sizeof *plan->table);
    plan->table_size = size;
    plan->spans = calloc(plan->program.tensor_count, sizeof *plan->spans);
    plan->bound = calloc(plan->slot_count + 1, sizeof *plan->bound);
    plan->given = calloc(plan->slot_count + 1, sizeof *plan->given);
    if (!plan->table || !plan->spans || !plan->bound || !plan->given) {
        return no_memory(&plan->program);
    }
    hal_status status = hal_event_create(plan->device, HAL_EVENT(.label = label), &plan->scratch_done);
    if (status == HAL_OK && hal_device_get_info(plan->device)->timestamps) {
        status = hal_event_create(plan->device, HAL_EVENT(.label = label, .timing = true), &plan->start);
        status = status == HAL_OK
                     ? hal_event_create(plan->device, HAL_EVENT(.label = label, .timing = true), &plan->end)
                     : status;
    }
    return status;
}

/* Kernels are built by going through the steps once. */
static hal_status compile(hal_plan *plan, uint64_t rows)
{
    hal_plan_shape *shape;
    pthread_mutex_lock(&plan->lock);
    hal_status status = hal_plan_shape_locked(plan, rows, false, &shape);
    pthread_mutex_unlock(&plan->lock);
    return status;
}

static hal_status build(hal_plan *plan, const hal_graph *graph, const hal_plan_desc *desc, const hal_plan_hooks *hooks)
{
    plan->desc = *desc;
    plan->desc.label = plan->desc.choices = NULL;
    uint64_t rows = 0;
    hal_status status = copy_graph(plan, graph, desc->label);
    status = status == HAL_OK ? copy_buckets(plan) : status;
    status =
        status == HAL_OK ? hal_plan_rows(plan, "hal_plan_create: measure_rows", desc->measure_rows, &rows) : status;
    status = status == HAL_OK ? hal_model_machine_find(hal_device_get_info(plan->device), &plan->machine) : status;
    status = status == HAL_OK ? fuse(plan, desc->choices) : status;
    status = status == HAL_OK ? find_writers(plan) : status;
    status = status == HAL_OK ? hal_plan_spread(plan, hooks && hooks->spread) : status;
    status = status == HAL_OK ? make_state(plan) : status;
    return status == HAL_OK ? compile(plan, rows) : status;
}

/* What every fast kernel is content with: 16 bytes, and where a kernel reads through views or stores through
 * descriptors, what those need. */
static uint32_t alignment_of(const hal_device_info *info)
{
    const bool views = info->type == HAL_DEVICE_CPU && info->max_view_elements != 0;
    return !views || info->span_alignment < 16 ? 16 : info->span_alignment;
}

hal_status hal_plan_create_with(hal_device *device, const hal_graph *graph, const hal_plan_desc *given,
                                const hal_plan_hooks *hooks, hal_plan **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_create: plan is NULL; pass where to put it");
    }
    *out = NULL;
    hal_plan_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_plan_create: device");
    status = status == HAL_OK ? hal_device_usable(device) : status;
    status = status == HAL_OK ? hal_graph_usable(graph, "hal_plan_create") : status;
    status = status == HAL_OK ? read_desc(given, &desc) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_plan_create: out of host memory");
    }
    plan->type = PLAN_TYPE;
    plan->device = device;
    plan->alignment = alignment_of(hal_device_get_info(device));
    plan->device_us = plan->submit_us = NAN;
    hal_device_keep(device);
    pthread_mutex_init(&plan->prepare, NULL);
    pthread_mutex_init(&plan->lock, NULL);
    pthread_cond_init(&plan->asked, NULL);
    status = build(plan, graph, &desc, hooks);
    status = status == HAL_OK ? hal_plan_background_start(plan) : status;
    if (status != HAL_OK) {
        hal_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return HAL_OK;
}

hal_status hal_plan_create(hal_device *device, const hal_graph *graph, const hal_plan_desc *desc, hal_plan **plan)
{
    return hal_plan_create_with(device, graph, desc, NULL, plan);
}

void hal_plan_destroy(hal_plan *plan)
{
    if (!plan || plan->type != PLAN_TYPE) {
        return;
    }
    hal_plan_background_stop(plan);
    plan->type = 0;
    hal_plan_shapes_clear(plan);
    hal_decisions_clear(&plan->decisions);
    hal_plan_lanes_clear(plan); /* counts the program's steps */
    hal_program_clear(&plan->program);
    hal_buffer_destroy(plan->scratch);
    hal_event_destroy(plan->start);
    hal_event_destroy(plan->end);
    hal_event_destroy(plan->scratch_done); /* last: what can be freed of a closing device is freed here */
    free(plan->table);
    free(plan->spans);
    free(plan->bound);
    free(plan->given);
    free(plan->slots);
    free(plan->writers);
    free(plan->buckets);
    pthread_mutex_destroy(&plan->prepare);
    pthread_mutex_destroy(&plan->lock);
    pthread_cond_destroy(&plan->asked);
    hal_device_leave(plan->device);
    free(plan);
}
