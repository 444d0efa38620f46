/* plan_lanes.c - independent branches of a graph on several streams. See plan_state.h.
 *
 * The device is one: branches side by side share its memory and its arithmetic, so that what they need of those adds up
 * whatever the streams. What streams can hide is the gap before each kernel, and they cost about one such gap wherever
 * one waits for another. So the time of a schedule is the longest way through it, but no less than all that keeps the
 * device busy; streams are used where that is below the time of one. */
#include "plan_state.h"

#include "core.h"
#include "space.h"

enum { MOST_STEPS = 4096 }; /* what is before what takes a bit for each two */

typedef struct schedule {
    uint32_t streams; /* used */
    double us;
    uint32_t *stream; /* by step */
    double *finish;   /* by step */
} schedule;

uint32_t hal_plan_after(const hal_plan *plan, uint32_t index, uint32_t steps[HAL_ROLES])
{
    const hal_step *step = &plan->program.steps[index];
    uint32_t count = 0;
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        const uint32_t writer = plan->writers[step->tensors[role]];
        bool known = writer == UINT32_MAX;
        for (uint32_t i = 0; i < count; i++) {
            known = known || steps[i] == writer;
        }
        if (!known) {
            steps[count++] = writer;
        }
    }
    return count;
}

double hal_plan_predict_us(const hal_plan *plan, uint32_t index, uint64_t rows)
{
    const hal_fusion_options options = {
        .rows = rows, .mode = plan->desc.mode, .info = hal_device_get_info(plan->device), .machine = &plan->machine};
    return hal_step_predict_us(&plan->program, &plan->program.steps[index], &options);
}

double hal_plan_floor_us(const hal_plan *plan, uint32_t index, uint64_t rows)
{
    const hal_program *program = &plan->program;
    const hal_step *step = &program->steps[index];
    hal_space space;
    hal_space_of(program, step, rows, &space);
    return hal_model_floor_us(&plan->machine, program->tensors[step->tensors[HAL_ROLE_X]].dtype,
                              hal_space_flops(&space), (double)hal_space_step_bytes(&space, program, step, rows));
}

/* When a step could begin on a stream that is free at `free_us`. */
static double start_on(const schedule *s, uint32_t stream, double free_us, const uint32_t *after, uint32_t count,
                       double gap)
{
    double start = free_us;
    for (uint32_t i = 0; i < count; i++) {
        const double done = s->finish[after[i]] + (s->stream[after[i]] == stream ? 0 : gap);
        start = done > start ? done : start;
    }
    return start;
}

/* Each step in turn goes where it can begin first: its last operand's stream, if that is as good as another. */
static void make_schedule(const hal_plan *plan, const double *cost, double busy, uint32_t streams, schedule *s)
{
    const double gap = plan->machine.launch_us;
    double free_us[HAL_PLAN_MOST_STREAMS] = {0}, end = 0;
    s->streams = 1;
    for (uint32_t i = 0; i < plan->program.step_count; i++) {
        uint32_t after[HAL_ROLES], count = hal_plan_after(plan, i, after);
        uint32_t best = count ? s->stream[after[count - 1]] : 0;
        double start = start_on(s, best, free_us[best], after, count, gap);
        for (uint32_t stream = 0; stream < streams; stream++) {
            const double other = start_on(s, stream,
                                          free_us[stream] > 0 ? free_us[stream]
                                          : stream            ? gap
                                                              : 0,
                                          after, count, gap);
            if (other < start) {
                start = other;
                best = stream;
            }
        }
        s->stream[i] = best;
        s->finish[i] = free_us[best] = start + cost[i];
        s->streams = best + 1 > s->streams ? best + 1 : s->streams;
        const double joined = s->finish[i] + (best ? gap : 0);
        end = joined > end ? joined : end;
    }
    s->us = busy > end ? busy : end;
}

static hal_status no_memory(const hal_plan *plan)
{
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for the streams of plan '%s'", plan->program.label);
}

/* Steps whose results others read are before them: the transitive closure. */
static hal_status find_before(hal_plan *plan)
{
    const uint32_t steps = plan->program.step_count, words = hal_order_words(steps);
    plan->before = calloc((size_t)steps * words + 1, sizeof *plan->before);
    if (!plan->before) {
        return no_memory(plan);
    }
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t after[HAL_ROLES], count = hal_plan_after(plan, i, after);
        uint64_t *row = plan->before + (size_t)i * words;
        for (uint32_t d = 0; d < count; d++) {
            const uint64_t *other = plan->before + (size_t)after[d] * words;
            for (uint32_t w = 0; w < words; w++) {
                row[w] |= other[w];
            }
            row[after[d] / 64] |= (uint64_t)1 << after[d] % 64;
        }
    }
    return HAL_OK;
}

/* What each step waits for, left out where its stream waits for something later of that stream already. */
static hal_status find_waits(hal_plan *plan, const schedule *s)
{
    const uint32_t steps = plan->program.step_count;
    uint32_t *seen = calloc((size_t)s->streams * s->streams, sizeof *seen), used = 0;
    hal_status status = seen ? HAL_OK : no_memory(plan);
    for (uint32_t i = 0; status == HAL_OK && i < steps; i++) {
        hal_plan_lane *lane = &plan->lanes[i];
        uint32_t after[HAL_ROLES], count = hal_plan_after(plan, i, after);
        lane->stream = s->stream[i];
        lane->first_wait = used;
        for (uint32_t d = 0; status == HAL_OK && d < count; d++) {
            hal_plan_lane *other = &plan->lanes[after[d]];
            uint32_t *last = &seen[lane->stream * s->streams + other->stream];
            if (other->stream == lane->stream || *last > after[d]) {
                continue;
            }
            *last = after[d] + 1;
            plan->waits[used++] = after[d];
            lane->waits++;
            if (!other->event) {
                status = hal_event_create(plan->device, HAL_EVENT(.label = plan->program.label), &other->event);
            }
        }
    }
    free(seen);
    return status;
}

static hal_status make_streams(hal_plan *plan)
{
    const char *label = plan->program.label;
    hal_status status = hal_event_create(plan->device, HAL_EVENT(.label = label), &plan->fork);
    for (uint32_t i = 0; status == HAL_OK && i + 1 < plan->streams; i++) {
        status = hal_stream_create(plan->device, HAL_STREAM(.label = label), &plan->side[i]);
        status = status == HAL_OK ? hal_event_create(plan->device, HAL_EVENT(.label = label), &plan->join[i]) : status;
    }
    return status;
}

static hal_status use_schedule(hal_plan *plan, const schedule *s)
{
    plan->streams = s->streams;
    plan->lanes = calloc(plan->program.step_count, sizeof *plan->lanes);
    plan->waits = calloc((size_t)plan->program.step_count * HAL_ROLES, sizeof *plan->waits);
    plan->side = calloc(s->streams, sizeof *plan->side);
    plan->join = calloc(s->streams, sizeof *plan->join);
    if (!plan->lanes || !plan->waits || !plan->side || !plan->join) {
        return no_memory(plan);
    }
    hal_status status = find_before(plan);
    status = status == HAL_OK ? find_waits(plan, s) : status;
    return status == HAL_OK ? make_streams(plan) : status;
}

/* The best schedule of at most desc.streams; with `force` the widest. */
static void choose(hal_plan *plan, const double *cost, double busy, bool force, schedule *s)
{
    uint32_t best = 1;
    plan->spread_us = plan->serial_us;
    for (uint32_t streams = 2; streams <= plan->desc.streams; streams++) {
        make_schedule(plan, cost, busy, streams, s);
        if (s->streams > 1 && (force || s->us < plan->spread_us)) {
            plan->spread_us = s->us;
            best = streams;
        }
    }
    make_schedule(plan, cost, busy, best, s);
}

hal_status hal_plan_spread(hal_plan *plan, bool force)
{
    plan->streams = 1;
    if (plan->desc.streams == 1) {
        return HAL_OK;
    }
    const uint32_t steps = plan->program.step_count;
    const uint64_t rows = plan->has_rows ? plan->desc.measure_rows : 1;
    schedule s = {.stream = calloc(steps + 1, sizeof *s.stream), .finish = calloc(steps + 1, sizeof *s.finish)};
    double *cost = calloc(steps + 1, sizeof *cost), busy = 0;
    hal_status status = s.stream && s.finish && cost ? HAL_OK : no_memory(plan);
    for (uint32_t i = 0; status == HAL_OK && i < steps; i++) {
        cost[i] = hal_plan_predict_us(plan, i, rows);
        busy += hal_plan_floor_us(plan, i, rows);
        plan->serial_us += cost[i];
    }
    plan->spread_us = plan->serial_us;
    if (status == HAL_OK && steps <= MOST_STEPS) {
        choose(plan, cost, busy, force, &s);
        status = s.streams > 1 ? use_schedule(plan, &s) : HAL_OK;
    }
    free(s.stream);
    free(s.finish);
    free(cost);
    return status;
}

void hal_plan_lanes_clear(hal_plan *plan)
{
    for (uint32_t i = 0; plan->lanes && i < plan->program.step_count; i++) {
        hal_event_destroy(plan->lanes[i].event);
    }
    for (uint32_t i = 0; plan->side && plan->join && i + 1 < plan->streams; i++) {
        hal_stream_destroy(plan->side[i]);
        hal_event_destroy(plan->join[i]);
    }
    hal_event_destroy(plan->fork);
    free(plan->lanes);
    free(plan->waits);
    free(plan->side);
    free(plan->join);
    free(plan->before);
}
