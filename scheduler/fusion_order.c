/* fusion_order.c - see fusion_order.h. A merged step takes the place of its last part: its operands are written by
 * then. What changes is that results of the other parts come later, so that steps between which read them, and those
 * which read theirs, move behind it; if it reads one of those itself, there is no order. */
#include "fusion_order.h"

#include "core.h"

/* Steps that read a tensor change by one, for each that the step reads. */
static void count_reads(hal_fusion_order *order, const hal_step *step, uint32_t change)
{
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        const uint32_t t = step->tensors[role];
        bool counted = t == 0;
        for (uint32_t before = 0; !counted && before < role; before++) {
            counted = step->tensors[before] == t;
        }
        order->readers[t] += counted ? 0 : change;
    }
}

static void set_writer(hal_fusion_order *order, const hal_step *step, uint32_t writer)
{
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        const uint32_t t = step->tensors[role];
        order->writers[t] = t ? writer : UINT32_MAX;
    }
}

static void clear(hal_fusion_order *order)
{
    free(order->steps);
    free(order->writers);
    free(order->readers);
    free(order->finished);
    free(order->line);
    free(order->late);
    *order = (hal_fusion_order){0};
}

hal_status hal_fusion_order_make(hal_fusion_order *order, hal_program *program)
{
    const uint32_t steps = program->step_count, tensors = program->tensor_count + 1;
    *order = (hal_fusion_order){.program = program, .count = steps};
    order->steps = malloc((steps + 1) * sizeof *order->steps);
    order->writers = malloc(tensors * sizeof *order->writers);
    order->readers = calloc(tensors, sizeof *order->readers);
    order->finished = malloc((steps + 1) * sizeof *order->finished);
    order->line = malloc((steps + 1) * sizeof *order->line);
    order->late = calloc((size_t)tensors + steps, sizeof *order->late);
    if (!order->steps || !order->writers || !order->readers || !order->finished || !order->line || !order->late) {
        clear(order);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for the fusion of %u steps", steps);
    }
    memset(order->writers, 0xff, tensors * sizeof *order->writers); /* UINT32_MAX */
    for (uint32_t i = 0; i < steps; i++) {
        order->steps[i] = i;
        count_reads(order, &program->steps[i], 1);
        set_writer(order, &program->steps[i], i);
    }
    return HAL_OK;
}

static bool *late_step(const hal_fusion_order *order, uint32_t step)
{
    return &order->late[order->program->tensor_count + step];
}

static bool is_part(const hal_candidate *c, uint32_t step)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->steps[i] == step) {
            return true;
        }
    }
    return false;
}

/* Where the first part is. */
static uint32_t begin_of(const hal_fusion_order *order, const hal_candidate *c, uint32_t at)
{
    uint32_t begin = at;
    for (uint32_t found = 1; found < c->count;) {
        found += is_part(c, order->steps[--begin]);
    }
    return begin;
}

static bool reads_late(const hal_fusion_order *order, const hal_step *step)
{
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        if (order->late[step->tensors[role]]) {
            return true;
        }
    }
    return false;
}

static void set_late(const hal_fusion_order *order, const hal_step *step, bool late)
{
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        order->late[step->tensors[role]] = late && step->tensors[role];
    }
}

/* Notes, or takes back, which steps from `begin` on have to move behind the merged one. */
static void find_late(const hal_fusion_order *order, const hal_candidate *c, uint32_t begin, uint32_t at)
{
    set_late(order, &c->merged, true);
    for (uint32_t i = begin; i < at; i++) {
        const uint32_t id = order->steps[i];
        if (id != HAL_STEP_GONE && !is_part(c, id) && reads_late(order, &order->program->steps[id])) {
            *late_step(order, id) = true;
            set_late(order, &order->program->steps[id], true);
        }
    }
}

static void forget_late(const hal_fusion_order *order, const hal_candidate *c, uint32_t begin, uint32_t at)
{
    set_late(order, &c->merged, false);
    for (uint32_t i = begin; i < at; i++) {
        const uint32_t id = order->steps[i];
        if (id != HAL_STEP_GONE && *late_step(order, id)) {
            *late_step(order, id) = false;
            set_late(order, &order->program->steps[id], false);
        }
    }
}

bool hal_fusion_order_fits(const hal_fusion_order *order, const hal_candidate *c, uint32_t at)
{
    const uint32_t begin = begin_of(order, c, at);
    find_late(order, c, begin, at);
    const bool fits = !reads_late(order, &c->merged);
    forget_late(order, c, begin, at);
    return fits;
}

uint32_t hal_fusion_order_merge(hal_fusion_order *order, const hal_candidate *c, uint32_t at)
{
    const uint32_t begin = begin_of(order, c, at), last = order->steps[at];
    uint32_t used = 0, *line = order->line;
    find_late(order, c, begin, at);
    for (uint32_t i = begin; i < at; i++) {
        const uint32_t id = order->steps[i];
        if (id != HAL_STEP_GONE && !is_part(c, id) && !*late_step(order, id)) {
            line[used++] = id;
        }
    }
    line[used++] = last;
    const uint32_t behind = used;
    for (uint32_t i = begin; i < at; i++) {
        const uint32_t id = order->steps[i];
        if (id != HAL_STEP_GONE && *late_step(order, id)) {
            line[used++] = id;
        }
    }
    forget_late(order, c, begin, at);
    for (uint32_t i = 0; i < c->count; i++) {
        count_reads(order, &order->program->steps[c->steps[i]], UINT32_MAX); /* one less */
        set_writer(order, &order->program->steps[c->steps[i]], UINT32_MAX);
    }
    count_reads(order, &c->merged, 1);
    set_writer(order, &c->merged, last);
    order->program->steps[last] = c->merged;
    const uint32_t first = at + 1 - used;
    memset(&order->steps[begin], 0xff, (first - begin) * sizeof *order->steps); /* HAL_STEP_GONE */
    memcpy(&order->steps[first], line, used * sizeof *line);
    return first + behind - 1;
}

void hal_fusion_order_pack(hal_fusion_order *order)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->steps[i] != HAL_STEP_GONE) {
            order->steps[used++] = order->steps[i];
        }
    }
    order->count = used;
}

void hal_fusion_order_finish(hal_fusion_order *order)
{
    hal_program *program = order->program;
    hal_fusion_order_pack(order);
    for (uint32_t i = 0; i < order->count; i++) {
        order->finished[i] = program->steps[order->steps[i]];
    }
    program->step_count = order->count;
    memcpy(program->steps, order->finished, order->count * sizeof *program->steps);
    clear(order);
}
