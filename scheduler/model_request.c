/* model_request.c - whole programs: submissions, hand-overs, the critical path, a request's calls. */
#include "model_parts.h"

uint64_t hal_model_submissions(uint64_t programs, uint64_t kernels, bool replayed)
{
    bool over = false;
    const uint64_t all = times(&over, programs, kernels);
    return replayed ? programs : over ? UINT64_MAX : all;
}

uint64_t hal_model_metadata_copies(uint64_t arrays, uint64_t layers, bool planned)
{
    return hal_model_submissions(arrays, layers, planned);
}

hal_status hal_model_replay_costs(double bytes, double bytes_per_s, double submit_us, double prepare_us,
                                  double compute_us, hal_model_replay *cost)
{
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model replay: cost must not be NULL");
    *cost = (hal_model_replay){0};
    if (!sensible(bytes) || !sensible(bytes_per_s) || bytes_per_s == 0 || !sensible(submit_us) ||
        !sensible(prepare_us) || !sensible(compute_us))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model replay: sizes and times from 0 on, and a rate above 0");
    cost->eager_us = submit_us + compute_us;
    cost->replay_us = prepare_us + 2 * bytes / bytes_per_s * 1e6 + compute_us;
    cost->break_even_bytes = fmax(0, (submit_us - prepare_us) * bytes_per_s / 2 / 1e6);
    return HAL_OK;
}

hal_status hal_model_persistent_costs(uint64_t tiles, double tp_us, double ta_us, double launch_us, double task_us,
                                      hal_model_persistent *cost)
{
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model persistent: cost must not be NULL");
    *cost = (hal_model_persistent){0};
    if (!sensible(tp_us) || !sensible(ta_us) || !sensible(launch_us) || !sensible(task_us))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model persistent: times are numbers from 0 on");
    cost->coarse_us = 2 * launch_us + (double)tiles * (tp_us + ta_us);
    cost->tiled_us = launch_us + hal_model_pipeline_us(tiles, tp_us + task_us, ta_us + task_us, 2);
    return HAL_OK;
}

/* The critical path */

typedef struct search {
    double *finish;   /* of each task at the earliest */
    uint32_t *before; /* what it waits for longest; itself if nothing */
    uint32_t *order;  /* tasks, each behind what it waits for */
} search;

static hal_status check_tasks(const hal_model_task *tasks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!sensible(tasks[i].time_us))
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model critical path: task %u: the time is no number from 0 on",
                            i);
        for (uint32_t j = 0; j < tasks[i].after_count; j++)
            if (tasks[i].after[j] >= count)
                return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model critical path: task %u waits for %u; there are %u",
                                i, tasks[i].after[j], count);
    }
    return HAL_OK;
}

/* Kahn's order. How many tasks have one: fewer than count if there is a cycle. begin[i] becomes where the followers of
 * task i begin in `followers`. */
static uint32_t order_tasks(const hal_model_task *tasks, uint32_t count, uint32_t *order, uint32_t *missing,
                            uint64_t *begin, uint32_t *followers)
{
    uint32_t ordered = 0;
    for (uint32_t i = 0; i < count; i++) {
        missing[i] = tasks[i].after_count;
        for (uint32_t j = 0; j < tasks[i].after_count; j++)
            begin[tasks[i].after[j]]++;
        if (!missing[i])
            order[ordered++] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        begin[i + 1] += begin[i];
    for (uint32_t i = count; i-- > 0;)
        for (uint32_t j = 0; j < tasks[i].after_count; j++)
            followers[--begin[tasks[i].after[j]]] = i;
    for (uint32_t at = 0; at < ordered; at++)
        for (uint64_t j = begin[order[at]]; j < begin[order[at] + 1]; j++)
            if (--missing[followers[j]] == 0)
                order[ordered++] = followers[j];
    return ordered;
}

static uint32_t longest(const hal_model_task *tasks, uint32_t count, search *s)
{
    uint32_t last = 0;
    for (uint32_t at = 0; at < count; at++) {
        const uint32_t i = s->order[at];
        double start = 0;
        s->before[i] = i;
        for (uint32_t j = 0; j < tasks[i].after_count; j++) {
            const uint32_t other = tasks[i].after[j];
            if (s->before[i] == i || s->finish[other] > start) {
                start = s->finish[other];
                s->before[i] = other;
            }
        }
        s->finish[i] = start + tasks[i].time_us;
    }
    for (uint32_t i = 1; i < count; i++)
        if (s->finish[i] > s->finish[last])
            last = i;
    return last;
}

static void trace_back(const search *s, uint32_t last, uint32_t *path, uint32_t *path_count)
{
    uint32_t length = 1, task = last;
    for (; s->before[task] != task; task = s->before[task])
        length++;
    *path_count = length;
    for (task = last; length > 0; task = s->before[task])
        path[--length] = task;
}

hal_status hal_model_critical_path(const hal_model_task *tasks, uint32_t count, double *length_us, uint32_t *path,
                                   uint32_t *path_count)
{
    if (!length_us || !path_count || (count && (!tasks || !path)))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model critical path: tasks and results must not be NULL");
    *length_us = 0;
    *path_count = 0;
    hal_status status = check_tasks(tasks, count);
    if (status != HAL_OK || count == 0)
        return status;
    uint64_t edges = 0;
    for (uint32_t i = 0; i < count; i++)
        edges += tasks[i].after_count;
    search s = {calloc(count, sizeof(double)), calloc(count, sizeof(uint32_t)), calloc(count, sizeof(uint32_t))};
    uint32_t *missing = calloc(count, sizeof *missing), *followers = calloc(edges + 1, sizeof *followers);
    uint64_t *begin = calloc((size_t)count + 1, sizeof *begin);
    if (!s.finish || !s.before || !s.order || !missing || !followers || !begin) {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "model critical path: no memory for %u tasks", count);
    } else if (order_tasks(tasks, count, s.order, missing, begin, followers) < count) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model critical path: tasks wait for each other in a circle");
    } else {
        const uint32_t last = longest(tasks, count, &s);
        *length_us = s.finish[last];
        trace_back(&s, last, path, path_count);
    }
    free(s.finish);
    free(s.before);
    free(s.order);
    free(missing);
    free(followers);
    free(begin);
    return status;
}

/* A request */

hal_status hal_model_request_costs(const hal_model_calls *shapes, uint32_t count, double request_us,
                                   hal_model_request *cost)
{
    bool over = false;
    if (!cost || (count && !shapes))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model request: shapes and cost must not be NULL");
    *cost = (hal_model_request){0};
    if (!sensible(request_us) || request_us == 0)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model request: the request's time is a number above 0");
    hal_model_request c = {0};
    for (uint32_t i = 0; i < count; i++) {
        const hal_model_calls *s = &shapes[i];
        if (!sensible(s->old_us) || !sensible(s->new_us) || !sensible(s->beside_us))
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model request: shape %u: times are numbers from 0 on", i);
        c.calls = plus(&over, c.calls, s->calls);
        c.old_us += (double)s->calls * fmax(0, s->old_us - s->beside_us);
        c.new_us += (double)s->calls * fmax(0, s->new_us - s->beside_us);
    }
    if (over)
        return too_large("model request");
    c.saved_us = c.old_us - c.new_us;
    c.share = c.old_us / request_us;
    c.saved_share = c.saved_us / request_us;
    *cost = c;
    return HAL_OK;
}
