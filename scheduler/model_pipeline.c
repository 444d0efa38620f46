/* model_pipeline.c - stages in a row: closed forms, and a simulation for what has none. */
#include "model_parts.h"

#define MOST_ITEMS 10000000u
#define MOST_US    1e15 /* of an item: the sum of all stays finite */

double hal_model_pipeline_us(uint64_t n, double tm, double tc, uint64_t slots)
{
    if (!sensible(tm) || !sensible(tc) || !slots)
        return NAN;
    if (n == 0)
        return 0;
    return slots == 1 ? (double)n * (tm + tc) : tm + (double)(n - 1) * fmax(tm, tc) + tc;
}

double hal_model_chunked_us(double bytes, double bytes_per_s, double compute_us, double overhead_us, uint64_t chunks)
{
    if (!sensible(bytes) || !sensible(bytes_per_s) || bytes_per_s == 0 || !sensible(compute_us) ||
        !sensible(overhead_us) || !chunks)
        return NAN;
    const double parts = (double)chunks, copy_us = bytes / bytes_per_s * 1e6;
    return hal_model_pipeline_us(chunks, copy_us / parts + overhead_us, compute_us / parts + overhead_us, 2);
}

/* With x = copy, y = compute, o = overhead: min(x, y) / c + max(x, y) + (c + 1) o falls to c = sqrt(min(x, y) / o) and
 * rises behind it, so the best whole number is beside that. */
uint64_t hal_model_chunks_best(double bytes, double bytes_per_s, double compute_us, double overhead_us, uint64_t most)
{
    if (!most || isnan(hal_model_chunked_us(bytes, bytes_per_s, compute_us, overhead_us, 1)))
        return 0;
    const double shorter = fmin(bytes / bytes_per_s * 1e6, compute_us);
    const double ideal = overhead_us > 0 ? sqrt(shorter / overhead_us) : (double)most;
    uint64_t low = ideal < 1 ? 1 : ideal < (double)most ? (uint64_t)ideal : most;
    uint64_t high = low < most ? low + 1 : most;
    return hal_model_chunked_us(bytes, bytes_per_s, compute_us, overhead_us, high) <
                   hal_model_chunked_us(bytes, bytes_per_s, compute_us, overhead_us, low)
               ? high
               : low;
}

uint64_t hal_model_queue_slots(uint64_t limit, uint64_t reserved, uint64_t slot_size)
{
    return slot_size && limit > reserved ? (limit - reserved) / slot_size : 0;
}

/* Simulation */

typedef struct place {
    uint64_t next; /* item that it starts next */
    bool at_work;
    double until;         /* when at work */
    uint64_t ready, held; /* behind it: items that are finished, and places taken */
} place;

static double item_us(const hal_model_line *line, uint32_t stage, uint64_t item)
{
    return line->each_us ? line->each_us[stage * line->items + item] : line->time_us[stage];
}

static bool has_input(const hal_model_line *line, const place *places, uint32_t stage)
{
    return stage == 0 ? places[0].next < line->items : places[stage - 1].ready > 0;
}

static bool has_room(const hal_model_line *line, const place *places, uint32_t stage)
{
    return stage + 1 == line->stages || places[stage].held < line->slots[stage];
}

static void start_all(const hal_model_line *line, place *places, hal_model_stage *stages, double now)
{
    for (uint32_t i = 0; i < line->stages; i++) {
        place *p = &places[i];
        if (p->at_work || !has_input(line, places, i) || !has_room(line, places, i))
            continue;
        const double time_us = item_us(line, i, p->next++);
        p->at_work = true;
        p->until = now + time_us;
        stages[i].busy_us += time_us;
        if (i > 0)
            places[i - 1].ready--;
        if (i + 1 < line->stages && ++p->held > stages[i].queue_peak)
            stages[i].queue_peak = (uint32_t)p->held;
    }
}

static void finish_all(const hal_model_line *line, place *places, hal_model_stage *stages, double now)
{
    for (uint32_t i = 0; i < line->stages; i++) {
        place *p = &places[i];
        if (!p->at_work || p->until > now)
            continue;
        p->at_work = false;
        stages[i].done++;
        p->ready++;
        if (i > 0)
            places[i - 1].held--;
    }
}

/* When the next stage finishes; INFINITY when none is at work. */
static double next_event(const hal_model_line *line, const place *places)
{
    double when = INFINITY;
    for (uint32_t i = 0; i < line->stages; i++)
        if (places[i].at_work)
            when = fmin(when, places[i].until);
    return when;
}

static void count_idle(const hal_model_line *line, const place *places, hal_model_stage *stages, double span)
{
    for (uint32_t i = 0; i < line->stages; i++) {
        if (places[i].at_work || places[i].next == line->items)
            continue;
        if (has_input(line, places, i))
            stages[i].blocked_us += span;
        else
            stages[i].starved_us += span;
    }
}

static hal_status check_line(const hal_model_line *line)
{
    if (line->stages < 1 || line->stages > HAL_MODEL_STAGES || (!line->time_us && !line->each_us) ||
        (line->stages > 1 && !line->slots))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model line: 1 to %d stages, with times and slots",
                        HAL_MODEL_STAGES);
    if (line->items > MOST_ITEMS)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model line: items is at most %u", MOST_ITEMS);
    for (uint32_t i = 0; i + 1 < line->stages; i++)
        if (!line->slots[i])
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model line: slots[%u] must not be 0: nothing could pass", i);
    for (uint32_t i = 0; i < line->stages; i++)
        for (uint64_t item = 0; item < (line->each_us ? line->items : 1); item++)
            if (!(item_us(line, i, item) >= 0 && item_us(line, i, item) <= MOST_US))
                return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model line: a time of stage %u is not from 0 to 1e15", i);
    return HAL_OK;
}

hal_status hal_model_line_run(const hal_model_line *line, double *total_us, hal_model_stage stages[HAL_MODEL_STAGES])
{
    place places[HAL_MODEL_STAGES] = {{0}};
    if (!line || !total_us || !stages)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model line: line, total_us and stages must not be NULL");
    *total_us = 0;
    memset(stages, 0, HAL_MODEL_STAGES * sizeof *stages);
    hal_status status = check_line(line);
    if (status != HAL_OK)
        return status;
    double now = 0;
    for (;;) {
        start_all(line, places, stages, now);
        const double when = next_event(line, places);
        if (isinf(when))
            break;
        count_idle(line, places, stages, when - now);
        now = when;
        finish_all(line, places, stages, now);
    }
    for (uint32_t i = 0; i < line->stages && now > 0; i++)
        stages[i].busy_fraction = stages[i].busy_us / now;
    *total_us = now;
    return HAL_OK;
}
