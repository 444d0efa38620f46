/* plan_shapes.c - what a plan keeps for the numbers of rows that it has met: memory plan and recorded list, found in
 * constant time, the least recently used let go. See plan_state.h. */
#include "plan_state.h"

#include <math.h>

#include "operand.h"
#include "recording.h"

void hal_plan_mean_add(hal_plan_mean *mean, double us)
{
    mean->count++;
    mean->us += (us - mean->us) / (double)(mean->count < 16 ? mean->count : 16);
}

hal_status hal_plan_rows(const hal_plan *plan, const char *call, uint64_t rows, uint64_t *carried)
{
    *carried = 1;
    if (!plan->has_rows) {
        return HAL_OK;
    }
    if (rows > HAL_MAX_DIMENSION) {
        return hal_fail(HAL_ERROR_LIMIT, "%s: %llu rows for plan '%s'; at most %llu", call, (unsigned long long)rows,
                        plan->program.label, (unsigned long long)HAL_MAX_DIMENSION);
    }
    uint32_t low = 0, high = plan->desc.bucket_count; /* the first bucket that is large enough */
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (plan->buckets[middle] < rows) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *carried = rows && low < plan->desc.bucket_count ? plan->buckets[low] : rows;
    return HAL_OK;
}

bool hal_plan_records(const hal_plan *plan, uint64_t carried)
{
    const hal_plan_desc *desc = &plan->desc;
    if (!desc->replay || !carried || desc->shapes == HAL_SHAPES_GENERAL) {
        return false;
    }
    return desc->shapes != HAL_SHAPES_BUCKETED || !plan->has_rows || carried <= plan->buckets[desc->bucket_count - 1];
}

void hal_plan_place(const hal_plan *plan, const hal_plan_shape *shape, const hal_span *bound, hal_span scratch,
                    hal_span *spans)
{
    const hal_program *program = &plan->program;
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        const uint64_t offset = shape->memory.offsets[i];
        if (tensor->kind == HAL_TENSOR_CONSTANT) {
            spans[i] = tensor->constant;
        } else if (offset != HAL_NO_PLACE) {
            spans[i] = hal_plan_part(scratch, offset, hal_tensor_bytes(tensor, shape->rows));
        }
    }
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        spans[plan->slots[i]] = hal_plan_part(bound[i], 0, shape->slot_bytes[i]);
    }
}

hal_span hal_plan_workspace(const hal_plan_shape *shape, uint32_t step, hal_span scratch)
{
    const uint64_t offset = shape->memory.workspace[step];
    return offset == HAL_NO_PLACE ? (hal_span){0} : hal_plan_part(scratch, offset, shape->workspaces[step]);
}

static void shape_free(hal_plan_shape *shape)
{
    if (shape) {
        hal_cmdlist_destroy(shape->list);
        hal_memory_plan_clear(&shape->memory);
        free(shape->workspaces);
        free(shape->slot_bytes);
        free(shape->padded);
        free(shape->kernels);
        free(shape->measured_us);
        free(shape);
    }
}

static hal_status no_memory(const hal_plan *plan, uint64_t rows)
{
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for %llu rows of plan '%s'", (unsigned long long)rows,
                    plan->program.label);
}

static hal_plan_shape *shape_new(const hal_plan *plan, uint64_t rows)
{
    const uint32_t steps = plan->program.step_count + 1, slots = plan->slot_count + 1;
    hal_plan_shape *shape = calloc(1, sizeof *shape);
    if (!shape) {
        return NULL;
    }
    shape->rows = rows;
    shape->workspaces = calloc(steps, sizeof *shape->workspaces);
    shape->slot_bytes = calloc(slots, sizeof *shape->slot_bytes);
    shape->padded = calloc(slots, sizeof *shape->padded);
    shape->kernels = calloc(steps, sizeof *shape->kernels);
    shape->measured_us = calloc(steps, sizeof *shape->measured_us);
    if (!shape->workspaces || !shape->slot_bytes || !shape->padded || !shape->kernels || !shape->measured_us) {
        shape_free(shape);
        return NULL;
    }
    for (uint32_t i = 0; i < steps; i++) {
        shape->measured_us[i] = NAN;
    }
    return shape;
}

/* All sizes together stay far from 2^64. */
static hal_status check_sizes(const hal_plan *plan, const hal_plan_shape *shape)
{
    const hal_program *program = &plan->program;
    uint64_t sum = 0;
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const uint64_t bytes = hal_tensor_bytes(&program->tensors[i], shape->rows);
        if (bytes > INT64_MAX / 2 || (sum += hal_plan_align(bytes)) > INT64_MAX / 2) {
            return hal_fail(HAL_ERROR_LIMIT, "plan '%s': %llu rows make tensors of more than 2^62 bytes",
                            program->label, (unsigned long long)shape->rows);
        }
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        if (shape->workspaces[i] > INT64_MAX / 2 || (sum += hal_plan_align(shape->workspaces[i])) > INT64_MAX / 2) {
            return hal_fail(HAL_ERROR_LIMIT, "plan '%s': %llu rows need more than 2^62 bytes of scratch",
                            program->label, (unsigned long long)shape->rows);
        }
    }
    return HAL_OK;
}

/* Inputs and outputs that have rows get a padded copy behind the arena, if the rows are a bucket's. */
static void place_slots(const hal_plan *plan, hal_plan_shape *shape)
{
    const bool bucket = plan->desc.bucket_count && hal_plan_records(plan, shape->rows);
    uint64_t end = shape->memory.size;
    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const hal_tensor_info *tensor = hal_plan_slot(plan, i);
        shape->slot_bytes[i] = hal_tensor_bytes(tensor, shape->rows);
        shape->padded[i] = HAL_NO_PLACE;
        if (bucket && hal_tensor_has_rows(tensor)) {
            shape->padded[i] = hal_plan_align(end);
            end = shape->padded[i] + shape->slot_bytes[i];
        }
    }
    shape->padded_end = end;
}

/* Tell the steps to a recorded list: slot i is slot i, scratch comes last. */
static hal_status record_steps(const hal_plan *plan, hal_plan_shape *shape, hal_cmdlist *list, const hal_span *spans,
                               hal_span scratch)
{
    hal_cmdlist_stats stats = {0};
    hal_status status = HAL_OK;
    shape->kernel_count = 0;
    for (uint32_t i = 0; status == HAL_OK && i < plan->program.step_count; i++) {
        status = hal_step_record(list, &plan->program, &plan->program.steps[i], shape->rows, plan->desc.mode, spans,
                                 hal_plan_workspace(shape, i, scratch));
        status = status == HAL_OK ? hal_cmdlist_get_stats(list, &stats) : status;
        shape->kernels[i] = stats.commands - shape->kernel_count;
        shape->kernel_count = stats.commands;
    }
    return status == HAL_OK ? status
                            : hal_fail_prefix(status, "plan '%s' of %llu rows", plan->program.label,
                                              (unsigned long long)shape->rows);
}

/* Where the slots are in the list, scratch last. Without replay there may be more of them than a list has, and it is
 * only gone through: then all are places in one. */
static void slot_spans(const hal_plan *plan, const hal_plan_shape *shape, hal_span *spans)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i <= plan->slot_count; i++) {
        spans[i] = plan->desc.replay ? hal_slot(i, 0) : hal_slot(0, end);
        end += i < plan->slot_count ? hal_plan_align(shape->slot_bytes[i]) : 0;
    }
}

/* The list, finished if `out` is given; else only gone through, which compiles the kernels, counts the dispatches and
 * finds what would be refused. */
static hal_status record(const hal_plan *plan, hal_plan_shape *shape, hal_cmdlist **out)
{
    hal_cmdlist *list = NULL;
    hal_span *spans = calloc(plan->program.tensor_count, sizeof *spans);
    hal_span *bound = calloc(plan->slot_count + 1, sizeof *bound);
    hal_status status = spans && bound ? HAL_OK : no_memory(plan, shape->rows);
    status =
        status == HAL_OK ? hal_cmdlist_create(plan->device, HAL_CMDLIST(.label = plan->program.label), &list) : status;
    if (status == HAL_OK) {
        hal_recording_align_slots(list, plan->alignment);
        /* a GEMM of so many rows that it would run for hours is cut into that many kernels */
        hal_recording_bound(list, HAL_PLAN_KERNELS + 16 * plan->program.step_count);
        slot_spans(plan, shape, bound);
        hal_plan_place(plan, shape, bound, bound[plan->slot_count], spans);
        status = record_steps(plan, shape, list, spans, bound[plan->slot_count]);
    }
    status = status == HAL_OK && out ? hal_cmdlist_finish(list) : status;
    free(spans);
    free(bound);
    if (status == HAL_OK && out) {
        *out = list;
    } else {
        hal_cmdlist_destroy(list);
    }
    return status;
}

/* A shape with its memory plan, and its list if `recorded`. */
static hal_status shape_make(const hal_plan *plan, uint64_t rows, bool recorded, hal_plan_shape **out)
{
    const hal_program *program = &plan->program;
    hal_plan_shape *shape = shape_new(plan, rows);
    hal_status status = shape ? HAL_OK : no_memory(plan, rows);
    for (uint32_t i = 0; status == HAL_OK && i < program->step_count; i++) {
        status =
            hal_step_workspace(plan->device, program, &program->steps[i], rows, plan->desc.mode, &shape->workspaces[i]);
    }
    status = status == HAL_OK ? check_sizes(plan, shape) : status;
    status = status == HAL_OK ? hal_memory_plan_make(program, rows, plan->before, shape->workspaces, &shape->memory)
                              : status;
    if (status == HAL_OK) {
        place_slots(plan, shape);
        status = record(plan, shape, recorded ? &shape->list : NULL);
    }
    if (status != HAL_OK) {
        shape_free(shape);
        return status;
    }
    *out = shape;
    return HAL_OK;
}

static hal_plan_shape **chain_of(const hal_plan *plan, uint64_t rows)
{
    return &plan->table[rows * 0x9e3779b97f4a7c15u >> 32 & (plan->table_size - 1)];
}

static void unlink_locked(hal_plan *plan, hal_plan_shape *shape)
{
    *(shape->newer ? &shape->newer->older : &plan->newest) = shape->older;
    *(shape->older ? &shape->older->newer : &plan->oldest) = shape->newer;
    shape->newer = shape->older = NULL;
}

static void link_locked(hal_plan *plan, hal_plan_shape *shape)
{
    shape->older = plan->newest;
    *(plan->newest ? &plan->newest->newer : &plan->oldest) = shape;
    plan->newest = shape;
}

hal_plan_shape *hal_plan_known_locked(hal_plan *plan, uint64_t carried)
{
    hal_plan_shape *shape = *chain_of(plan, carried);
    while (shape && shape->rows != carried) {
        shape = shape->chain;
    }
    return shape;
}

/* Known, and the newest from now on; else NULL. */
static hal_plan_shape *find_locked(hal_plan *plan, uint64_t rows)
{
    hal_plan_shape *shape = hal_plan_known_locked(plan, rows);
    if (shape && shape != plan->newest) {
        unlink_locked(plan, shape);
        link_locked(plan, shape);
    }
    return shape;
}

static void drop_locked(hal_plan *plan, hal_plan_shape *shape)
{
    hal_plan_shape **at = chain_of(plan, shape->rows);
    while (*at != shape) {
        at = &(*at)->chain;
    }
    *at = shape->chain;
    unlink_locked(plan, shape);
    plan->shape_count--;
    shape_free(shape);
}

/* The least recently used program goes, if there is one too many; submissions of it that run are hal/'s to finish. */
static void bound_lists_locked(hal_plan *plan)
{
    for (hal_plan_shape *shape = plan->oldest; plan->list_count > plan->desc.programs; shape = shape->newer) {
        if (shape->list) {
            hal_cmdlist_destroy(shape->list);
            shape->list = NULL;
            shape->runs = 0;
            plan->list_count--;
            plan->dropped++;
        }
    }
}

static void insert_locked(hal_plan *plan, hal_plan_shape *shape)
{
    hal_plan_shape **chain = chain_of(plan, shape->rows);
    shape->chain = *chain;
    *chain = shape;
    link_locked(plan, shape);
    plan->shape_count++;
    while (plan->shape_count - plan->list_count > HAL_PLAN_UNRECORDED) {
        hal_plan_shape *oldest = plan->oldest;
        while (oldest->list) {
            oldest = oldest->newer;
        }
        drop_locked(plan, oldest);
    }
}

static void keep_list_locked(hal_plan *plan, hal_plan_shape *shape, hal_cmdlist *list)
{
    shape->list = list;
    plan->list_count++;
    plan->recorded++;
    bound_lists_locked(plan);
}

/* A new shape, or the list of one that has none. `prepare` is held if `recorded`. */
static hal_status make_locked(hal_plan *plan, uint64_t carried, bool recorded, hal_plan_shape **shape)
{
    const uint64_t begin = hal_now();
    hal_cmdlist *list = NULL;
    hal_status status;
    if (*shape) {
        status = record(plan, *shape, &list);
    } else {
        status = shape_make(plan, carried, recorded, shape);
        if (status == HAL_OK) {
            list = (*shape)->list;
            (*shape)->list = NULL;
            insert_locked(plan, *shape);
        }
    }
    if (list) {
        keep_list_locked(plan, *shape, list);
        hal_plan_mean_add(&plan->recording, (double)(hal_now() - begin) / 1e3);
    }
    return status;
}

hal_status hal_plan_shape_locked(hal_plan *plan, uint64_t carried, bool recorded, hal_plan_shape **shape)
{
    *shape = find_locked(plan, carried);
    if (*shape && (!recorded || (*shape)->list)) {
        return HAL_OK;
    }
    recorded =
        recorded && pthread_mutex_trylock(&plan->prepare) == 0; /* else another thread is at it: told meanwhile */
    hal_status status = *shape && !recorded ? HAL_OK : make_locked(plan, carried, recorded, shape);
    if (recorded) {
        pthread_mutex_unlock(&plan->prepare);
    }
    return status;
}

/* The program that hal_plan_prepare has recorded, unless a run was faster. Its memory plan is the same that the shape
 * already has, if the rows are known. */
static void adopt_locked(hal_plan *plan, hal_plan_shape *made)
{
    hal_cmdlist *list = made->list;
    hal_plan_shape *shape = find_locked(plan, made->rows);
    made->list = NULL;
    if (!shape) {
        shape = made;
        insert_locked(plan, made);
    } else {
        shape_free(made);
    }
    if (list && !shape->list) {
        keep_list_locked(plan, shape, list);
    } else {
        hal_cmdlist_destroy(list);
    }
}

hal_status hal_plan_prepare(hal_plan *plan, uint64_t rows)
{
    uint64_t carried;
    hal_status status = hal_plan_check(plan, "hal_plan_prepare");
    status = status == HAL_OK ? hal_plan_rows(plan, "hal_plan_prepare", rows, &carried) : status;
    if (status != HAL_OK) {
        return status;
    }
    const bool recorded = hal_plan_records(plan, carried);
    hal_plan_shape *made = NULL;
    pthread_mutex_lock(&plan->prepare);
    pthread_mutex_lock(&plan->lock);
    const hal_plan_shape *known = find_locked(plan, carried);
    const bool there = known && (known->list || !recorded);
    pthread_mutex_unlock(&plan->lock);
    const uint64_t begin = hal_now();
    status = there ? HAL_OK : shape_make(plan, carried, recorded, &made); /* runs go on meanwhile */
    if (made) {
        const double us = (double)(hal_now() - begin) / 1e3;
        pthread_mutex_lock(&plan->lock);
        if (made->list) {
            hal_plan_mean_add(&plan->recording, us);
        }
        adopt_locked(plan, made);
        pthread_mutex_unlock(&plan->lock);
    }
    pthread_mutex_unlock(&plan->prepare);
    return status;
}

hal_status hal_plan_scratch(hal_plan *plan, uint64_t rows, uint64_t *size)
{
    if (size) {
        *size = 0;
    }
    uint64_t carried;
    hal_status status = hal_plan_check(plan, "hal_plan_scratch");
    if (status == HAL_OK && !size) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_scratch: size is NULL");
    }
    status = status == HAL_OK ? hal_plan_rows(plan, "hal_plan_scratch", rows, &carried) : status;
    if (status != HAL_OK) {
        return status;
    }
    hal_plan_shape *shape;
    pthread_mutex_lock(&plan->lock);
    status = hal_plan_shape_locked(plan, carried, false, &shape);
    if (status == HAL_OK) {
        *size = rows == carried || !plan->has_rows ? shape->memory.size : shape->padded_end;
    }
    pthread_mutex_unlock(&plan->lock);
    return status;
}

void hal_plan_shapes_clear(hal_plan *plan)
{
    for (hal_plan_shape *shape = plan->newest, *older; shape; shape = older) {
        older = shape->older;
        shape_free(shape);
    }
}
