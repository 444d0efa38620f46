/* plan_run.c - runs: bindings checked, scratch found, the list submitted or the steps told. See plan_state.h. */
#include "plan_state.h"

#include "internal.h"

/* A run on its way. */
typedef struct run {
    hal_plan *plan;
    hal_plan_shape *shape;
    hal_stream *stream;
    uint64_t rows;
    bool padded;        /* the shape has more rows */
    bool own;           /* the plan's scratch is used */
    bool misaligned;    /* for a recorded list */
    bool replayed;      /* else told */
    bool timed;         /* by the device's clock, if it has one, and where it is replayed by the host's */
    hal_event **timers; /* recorded before each step and at the end, all on one stream; NULL: an ordinary run */
} run;

static const char *slot_kind(const hal_plan *plan, uint32_t slot)
{
    return slot < plan->program.inputs ? "input" : "output";
}

static uint64_t span_bytes(const hal_span *span)
{
    const uint64_t size = span->size == HAL_REST ? hal_buffer_size(span->buffer) : span->size;
    return span->size != HAL_REST ? size : size > span->offset ? size - span->offset : 0;
}

static hal_status bind_slot(run *r, uint32_t slot, const hal_span *span, uint64_t need)
{
    hal_plan *plan = r->plan;
    const char *label = plan->program.label, *kind = slot_kind(plan, slot);
    if (span->kind != HAL_SPAN_BUFFER) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "plan '%s': %s '%s' is bound to no buffer", label, kind,
                        hal_plan_slot(plan, slot)->name);
    }
    hal_status status = hal_check_on(plan->device, span->buffer, HAL_TYPE_BUFFER, "bound buffer");
    if (status != HAL_OK) {
        return hal_fail_prefix(status, "plan '%s': %s '%s'", label, kind, hal_plan_slot(plan, slot)->name);
    }
    if (span_bytes(span) < need) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "plan '%s': %s '%s' is bound to %llu bytes; %llu rows have %llu", label,
                        kind, hal_plan_slot(plan, slot)->name, (unsigned long long)span_bytes(span),
                        (unsigned long long)r->rows, (unsigned long long)need);
    }
    plan->bound[slot] = hal_plan_part(*span, 0, need);
    r->misaligned |= (span->buffer->offset + span->offset) % plan->alignment != 0;
    return HAL_OK;
}

/* Reads the bindings into plan->bound; *scratch says whether the caller gives some. Of rows that are known the sizes
 * are at hand. */
static hal_status read_bindings(run *r, const hal_bindings *given, uint64_t carried, bool *scratch)
{
    hal_plan *plan = r->plan;
    hal_bindings bindings;
    hal_status status = hal_desc_read(given, &bindings, sizeof bindings, "hal_bindings");
    if (status != HAL_OK) {
        return status;
    }
    const uint32_t count = bindings.span_count, slots = plan->slot_count;
    if (!bindings.spans || count < slots || count > slots + 1 || bindings.scalar_count) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "plan '%s': %u spans%s and %u scalars are bound; it takes %u inputs, %u outputs, and "
                        "scratch if you like",
                        plan->program.label, count, bindings.spans ? "" : " at NULL", bindings.scalar_count,
                        plan->program.inputs, plan->program.outputs);
    }
    const bool same = !plan->has_rows || carried == r->rows;
    const hal_plan_shape *known = same ? hal_plan_known_locked(plan, carried) : NULL;
    for (uint32_t i = 0; status == HAL_OK && i < slots; i++) {
        status = bind_slot(r, i, &bindings.spans[i],
                           known ? known->slot_bytes[i] : hal_tensor_bytes(hal_plan_slot(plan, i), r->rows));
    }
    if (status != HAL_OK) {
        return status;
    }
    *scratch = count > slots;
    if (*scratch) {
        plan->bound[slots] = bindings.spans[slots];
    }
    return HAL_OK;
}

static bool overlap(const hal_span *x, const hal_span *y)
{
    return x->kind == HAL_SPAN_BUFFER && y->kind == HAL_SPAN_BUFFER && x->buffer == y->buffer &&
           x->offset < y->offset + span_bytes(y) && y->offset < x->offset + span_bytes(x);
}

/* What hal/ refuses of a recorded list: memory that is written while it is also something else. */
static hal_status check_overlap(const run *r)
{
    const hal_plan *plan = r->plan;
    const hal_program *program = &plan->program;
    for (uint32_t i = program->inputs; i <= plan->slot_count; i++) { /* the last is scratch */
        const bool slot = i < plan->slot_count;
        const char *kind = slot ? slot_kind(plan, i) : "the", *name = slot ? hal_plan_slot(plan, i)->name : "scratch";
        for (uint32_t j = 0; j < i; j++) {
            if (overlap(&plan->bound[i], &plan->bound[j])) {
                return hal_fail(HAL_ERROR_OVERLAP, "plan '%s': %s '%s' is bound over %s '%s'; bind them apart",
                                program->label, kind, name, slot_kind(plan, j), hal_plan_slot(plan, j)->name);
            }
        }
        for (uint32_t j = 1; j < program->tensor_count; j++) {
            if (overlap(&plan->bound[i], &program->tensors[j].constant)) {
                return hal_fail(HAL_ERROR_OVERLAP, "plan '%s': %s '%s' is bound over constant '%s'", program->label,
                                kind, name, program->tensors[j].name);
            }
        }
    }
    return HAL_OK;
}

static hal_status grow_scratch(hal_plan *plan, uint64_t size)
{
    if (size <= plan->scratch_size) {
        return HAL_OK;
    }
    hal_buffer *larger;
    hal_status status =
        hal_buffer_create(plan->device, HAL_BUFFER(.size = size, .label = plan->program.label), &larger);
    if (status != HAL_OK) {
        return hal_fail_prefix(status, "plan '%s': scratch", plan->program.label);
    }
    hal_buffer_destroy(plan->scratch); /* hal/ keeps it while it is in use */
    plan->scratch = larger;
    plan->scratch_size = size;
    plan->scratch_stream = NULL;
    return HAL_OK;
}

/* plan->bound[slot_count]: the caller's scratch, or the plan's own behind the run before. */
static hal_status find_scratch(run *r, bool given)
{
    hal_plan *plan = r->plan;
    const uint64_t size = r->padded ? r->shape->padded_end : r->shape->memory.size;
    hal_span *scratch = &plan->bound[plan->slot_count];
    if (given) {
        if (scratch->kind != HAL_SPAN_BUFFER || span_bytes(scratch) < size || scratch->offset % HAL_MEMORY_ALIGNMENT) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "plan '%s': scratch must be %llu bytes of a buffer at a multiple of %d; give "
                            "hal_plan_scratch bytes",
                            plan->program.label, (unsigned long long)size, HAL_MEMORY_ALIGNMENT);
        }
        *scratch = hal_plan_part(*scratch, 0, size);
        return HAL_OK;
    }
    *scratch = (hal_span){0};
    if (!size) {
        return HAL_OK;
    }
    hal_status status = grow_scratch(plan, size);
    if (status == HAL_OK && plan->scratch_stream && plan->scratch_stream != r->stream) {
        status = hal_stream_wait_event(r->stream, plan->scratch_done);
    }
    r->own = status == HAL_OK;
    *scratch = hal_range(plan->scratch, 0, size);
    return status;
}

/* Later runs on other streams wait for this one. Where that cannot be said, or half of a run was told, they get other
 * scratch. */
static hal_status leave_scratch(run *r, hal_status status)
{
    hal_plan *plan = r->plan;
    if (!r->own) {
        return status;
    }
    plan->scratch_stream = r->stream;
    hal_status recorded = status == HAL_OK ? hal_event_record(plan->scratch_done, r->stream) : status;
    if (recorded != HAL_OK) {
        hal_buffer_destroy(plan->scratch);
        plan->scratch = NULL;
        plan->scratch_size = 0;
        plan->scratch_stream = NULL;
    }
    return recorded;
}

static hal_status tell_step(run *r, uint32_t i)
{
    hal_plan *plan = r->plan;
    const hal_plan_lane *lane = plan->lanes && !r->timers ? &plan->lanes[i] : NULL;
    hal_stream *stream = lane && lane->stream ? plan->side[lane->stream - 1] : r->stream;
    hal_status status = r->timers ? hal_event_record(r->timers[i], stream) : HAL_OK;
    for (uint32_t w = 0; lane && status == HAL_OK && w < lane->waits; w++) {
        status = hal_stream_wait_event(stream, plan->lanes[plan->waits[lane->first_wait + w]].event);
    }
    if (status == HAL_OK) {
        status = hal_step_record(hal_stream_cmdlist(stream), &plan->program, &plan->program.steps[i], r->shape->rows,
                                 plan->desc.mode, plan->spans,
                                 hal_plan_workspace(r->shape, i, plan->bound[plan->slot_count]));
    }
    return status == HAL_OK && lane && lane->event ? hal_event_record(lane->event, stream) : status;
}

/* The steps, one by one; other streams begin behind what this one has, and end before it goes on. */
static hal_status tell(run *r)
{
    hal_plan *plan = r->plan;
    hal_plan_place(plan, r->shape, plan->bound, plan->bound[plan->slot_count], plan->spans);
    const uint32_t side = r->timers ? 0 : plan->streams - 1;
    hal_status status = side ? hal_event_record(plan->fork, r->stream) : HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < side; i++) {
        status = hal_stream_wait_event(plan->side[i], plan->fork);
    }
    for (uint32_t i = 0; status == HAL_OK && i < plan->program.step_count; i++) {
        status = tell_step(r, i);
    }
    for (uint32_t i = 0; status == HAL_OK && i < side; i++) {
        status = hal_event_record(plan->join[i], plan->side[i]);
        status = status == HAL_OK ? hal_stream_wait_event(r->stream, plan->join[i]) : status;
    }
    if (status == HAL_OK && r->timers) {
        status = hal_event_record(r->timers[plan->program.step_count], r->stream);
    }
    plan->submits += status == HAL_OK ? r->shape->kernel_count : 0;
    return status;
}

static hal_status submit(run *r)
{
    hal_plan *plan = r->plan;
    const hal_bindings bindings = {sizeof bindings, plan->bound, plan->slot_count + 1, NULL, 0};
    hal_status status = hal_cmdlist_submit(r->shape->list, r->stream, &bindings);
    plan->submits += status == HAL_OK;
    return status;
}

static hal_status zero(hal_cmdlist *list, hal_span span)
{
    const uint32_t nothing = 0;
    return hal_cmd_fill(list, span, &nothing, span.offset % 4 || span.size % 4 ? 1 : 4);
}

/* Inputs with rows are copied to scratch, zeros behind them; outputs will be written there. plan->bound is what the
 * steps get, plan->given what the caller bound. */
static hal_status pad(run *r)
{
    hal_plan *plan = r->plan;
    hal_cmdlist *list = hal_stream_cmdlist(r->stream);
    const hal_span scratch = plan->bound[plan->slot_count];
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < plan->slot_count; i++) {
        const uint64_t at = r->shape->padded[i], all = r->shape->slot_bytes[i], some = plan->bound[i].size;
        plan->given[i] = plan->bound[i];
        if (at == HAL_NO_PLACE) {
            continue;
        }
        if (i < plan->program.inputs) {
            status = hal_cmd_copy(list, hal_plan_part(scratch, at, some), plan->given[i]);
            status = status == HAL_OK ? zero(list, hal_plan_part(scratch, at + some, all - some)) : status;
        }
        plan->bound[i] = hal_plan_part(scratch, at, all);
    }
    plan->bound[plan->slot_count] = hal_plan_part(scratch, 0, r->shape->memory.size);
    return status;
}

static hal_status unpad(run *r)
{
    hal_plan *plan = r->plan;
    hal_status status = HAL_OK;
    for (uint32_t i = plan->program.inputs; status == HAL_OK && i < plan->slot_count; i++) {
        if (r->shape->padded[i] != HAL_NO_PLACE) {
            status = hal_cmd_copy(hal_stream_cmdlist(r->stream), plan->given[i],
                                  hal_plan_part(plan->bound[i], 0, plan->given[i].size));
        }
    }
    return status;
}

static bool will_replay(const run *r)
{
    return r->shape->list && !r->timers && !r->misaligned;
}

static hal_status carry_out(run *r)
{
    r->replayed = will_replay(r);
    hal_status status = r->padded || !r->replayed ? check_overlap(r) : HAL_OK;
    status = status == HAL_OK && r->padded ? pad(r) : status;
    if (status == HAL_OK) {
        status = r->replayed ? submit(r) : tell(r);
    }
    if (status == HAL_ERROR_OVERLAP) { /* of slots: said again with the graph's names */
        const hal_status named = check_overlap(r);
        status = named != HAL_OK ? named : status;
    }
    return status == HAL_OK && r->padded ? unpad(r) : status;
}

/* Timestamps cost a submission on some drivers, and two looks at the clock a tenth of a replay: only some runs have
 * them. */
static bool is_timed(const hal_plan *plan)
{
    const uint64_t number = plan->runs + 1;
    return number % 64 == 0 || (number & (number - 1)) == 0;
}

void hal_plan_harvest_locked(hal_plan *plan)
{
    uint64_t nanoseconds;
    if (plan->timed && hal_event_elapsed(plan->start, plan->end, &nanoseconds) == HAL_OK) {
        plan->device_us = (double)nanoseconds / 1e3;
        plan->timed = false;
    }
}

static hal_status carry_out_timed(run *r)
{
    hal_plan *plan = r->plan;
    if (r->timers || !r->timed || !plan->start) {
        return carry_out(r);
    }
    plan->timed = false; /* a time that nobody has asked for is lost: asking may wait for what runs */
    hal_status status = hal_event_record(plan->start, r->stream);
    status = status == HAL_OK ? carry_out(r) : status;
    status = status == HAL_OK ? hal_event_record(plan->end, r->stream) : status;
    plan->timed = status == HAL_OK;
    return status;
}

/* HAL_SHAPES_AUTO: runs with so many rows have been told as often as recording costs, by what both have cost so far
 * (rent or buy: never more than twice the best choice in hindsight; Karlin et al., "Competitive snoopy caching",
 * 1988). Before anything was recorded, recording counts as four tellings, and replay as one kernel's telling. */
static bool recording_pays(const hal_plan *plan, const hal_plan_shape *shape)
{
    const double told = plan->told.us, kernels = shape->kernel_count ? shape->kernel_count : 1;
    const hal_model_strategy telling = {0, told};
    const hal_model_strategy replaying = {plan->recording.count ? plan->recording.us : 4 * told,
                                          plan->replayed.count ? plan->replayed.us : told / kernels};
    return plan->told.count && (double)shape->runs >= hal_model_break_even(telling, replaying);
}

static hal_status find_shape(run *r, uint64_t carried)
{
    hal_plan *plan = r->plan;
    const bool recorded = hal_plan_records(plan, carried) && !r->timers, weighed = plan->desc.shapes == HAL_SHAPES_AUTO;
    const bool beside = plan->has_worker;
    hal_status status = hal_plan_shape_locked(plan, carried, recorded && !weighed && !beside, &r->shape);
    if (status == HAL_OK && recorded && !r->shape->list && (!weighed || recording_pays(plan, r->shape))) {
        if (beside) {
            hal_plan_ask_locked(plan, r->shape);
        } else if (hal_plan_shape_locked(plan, carried, true, &r->shape) != HAL_OK) {
            r->shape->runs = 0; /* told, as before; tried again later */
        }
    }
    r->padded = carried != r->rows && plan->has_rows;
    return status;
}

static void count(run *r, uint64_t begin)
{
    hal_plan *plan = r->plan;
    if (begin) {
        plan->submit_us = (double)(hal_now() - begin) / 1e3;
        if (plan->runs && !r->timers) { /* the first finds drivers with work to do */
            hal_plan_mean_add(r->replayed ? &plan->replayed : &plan->told, plan->submit_us);
        }
    }
    plan->runs++;
    r->shape->runs += !r->replayed;
    plan->kernel_count += r->shape->kernel_count;
}

static hal_status run_locked(run *r, const hal_bindings *bindings)
{
    uint64_t carried;
    bool scratch = false;
    hal_status status = hal_plan_rows(r->plan, "hal_plan_run", r->rows, &carried);
    /* first: nothing is recorded for rows that nobody has memory for */
    status = status == HAL_OK ? read_bindings(r, bindings, carried, &scratch) : status;
    status = status == HAL_OK ? find_shape(r, carried) : status;
    r->timed = is_timed(r->plan);
    const uint64_t begin = status == HAL_OK && (r->timed || !will_replay(r)) ? hal_now() : 0;
    status = status == HAL_OK ? find_scratch(r, scratch) : status;
    if (status != HAL_OK) {
        return status;
    }
    status = leave_scratch(r, carry_out_timed(r));
    if (status == HAL_OK) {
        count(r, begin);
    }
    return status;
}

static hal_status start(hal_plan *plan, const char *call, hal_stream *stream, uint64_t rows,
                        const hal_bindings *bindings, hal_event **timers)
{
    hal_status status = hal_plan_check(plan, call);
    status = status == HAL_OK ? hal_check_on(plan->device, stream, HAL_TYPE_STREAM, "stream") : status;
    if (status != HAL_OK) {
        return status;
    }
    run r = {.plan = plan, .stream = stream, .rows = rows, .timers = timers};
    pthread_mutex_lock(&plan->lock);
    status = run_locked(&r, bindings);
    pthread_mutex_unlock(&plan->lock);
    return status;
}

hal_status hal_plan_run(hal_plan *plan, hal_stream *stream, uint64_t rows, const hal_bindings *bindings)
{
    return start(plan, "hal_plan_run", stream, rows, bindings, NULL);
}

/* The steps' times, if the shape is still there. */
static void keep_times(hal_plan *plan, uint64_t rows, hal_event **timers)
{
    uint64_t carried, nanoseconds;
    hal_plan_shape *shape = NULL;
    pthread_mutex_lock(&plan->lock);
    if (hal_plan_rows(plan, "hal_plan_measure", rows, &carried) == HAL_OK &&
        hal_plan_shape_locked(plan, carried, false, &shape) == HAL_OK) {
        for (uint32_t i = 0; i < plan->program.step_count; i++) {
            if (hal_event_elapsed(timers[i], timers[i + 1], &nanoseconds) == HAL_OK) {
                shape->measured_us[i] = (double)nanoseconds / 1e3;
            }
        }
    }
    pthread_mutex_unlock(&plan->lock);
}

static hal_status measure(hal_plan *plan, hal_stream *stream, uint64_t rows, const hal_bindings *bindings,
                          uint64_t timeout, hal_event **timers)
{
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i <= plan->program.step_count; i++) {
        status = hal_event_create(plan->device, HAL_EVENT(.timing = true), &timers[i]);
    }
    status = status == HAL_OK ? start(plan, "hal_plan_measure", stream, rows, bindings, timers) : status;
    status = status == HAL_OK ? hal_stream_wait(stream, timeout) : status;
    if (status == HAL_OK) {
        keep_times(plan, rows, timers);
    }
    return status;
}

hal_status hal_plan_measure(hal_plan *plan, hal_stream *stream, uint64_t rows, const hal_bindings *bindings,
                            uint64_t timeout)
{
    hal_status status = hal_plan_check(plan, "hal_plan_measure");
    if (status != HAL_OK) {
        return status;
    }
    hal_event **timers = calloc(plan->program.step_count + 1, sizeof(hal_event *));
    if (!timers) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "plan '%s': out of host memory to measure it", plan->program.label);
    }
    status = measure(plan, stream, rows, bindings, timeout, timers);
    for (uint32_t i = 0; i <= plan->program.step_count; i++) {
        hal_event_destroy(timers[i]);
    }
    free(timers);
    return status;
}
