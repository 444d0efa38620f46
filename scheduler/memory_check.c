/* memory_check.c - the checker of memory plans. It knows nothing of lifetimes: it looks at each write of a step to the
 * arena, and asks of each value there whether that write could come between the value's own and one that reads it. Two
 * steps may run in either order, or at once, unless `before` says otherwise; so that it may come between is exactly
 * that it is neither done before the value is begun nor begun after the reader is done. */
#include "memory_plan.h"

#include "internal.h"

typedef struct checker {
    const hal_program *program;
    const uint64_t *before, *workspaces;
    const hal_memory_plan *plan;
    uint64_t rows;
} checker;

/* Bytes that a step writes: a result, or its scratch. */
typedef struct range {
    uint64_t from, to;
    uint32_t tensor; /* 0: scratch */
} range;

static bool ordered(const checker *c, uint32_t first, uint32_t then)
{
    if (!c->before) {
        return first < then;
    }
    const uint64_t *row = c->before + (size_t)then * hal_order_words(c->program->step_count);
    return (row[first / 64] >> (first % 64)) & 1;
}

static const char *named(const checker *c, const range *r)
{
    return r->tensor ? c->program->tensors[r->tensor].name : "scratch";
}

/* Where a tensor lies in the arena; false: it does not. */
static bool in_arena(const checker *c, uint32_t tensor, range *r)
{
    if (!tensor || c->plan->offsets[tensor] == HAL_NO_PLACE) {
        return false;
    }
    const uint64_t from = c->plan->offsets[tensor];
    *r = (range){from, from + hal_tensor_bytes(&c->program->tensors[tensor], c->rows), tensor};
    return true;
}

static uint32_t writes_of(const checker *c, uint32_t step, range ranges[HAL_ROLES])
{
    uint32_t count = 0;
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        count += in_arena(c, c->program->steps[step].tensors[role], &ranges[count]);
    }
    if (c->workspaces && c->workspaces[step]) {
        const uint64_t from = c->plan->workspace[step];
        ranges[count++] = (range){from, from + c->workspaces[step], 0};
    }
    return count;
}

static bool meet(const range *a, const range *b)
{
    return a->from < b->to && b->from < a->to;
}

static bool is_output_step(const hal_step *step, uint32_t tensor)
{
    return step->tensors[HAL_ROLE_Y] == tensor || step->tensors[HAL_ROLE_SUM] == tensor ||
           step->tensors[HAL_ROLE_SCALES] == tensor;
}

/* What hal/ops_*.h say may be exactly an output: x and b of the element-wise operators, x of softmax and RoPE, x and
 * residual of RMSNorm, the residual of a GEMM. */
static bool may_be_output(const hal_step *step, uint32_t role)
{
    switch (step->op) {
    case HAL_STEP_ACTIVATION:
    case HAL_STEP_SOFTMAX:
    case HAL_STEP_ROPE:
        return role == HAL_ROLE_X;
    case HAL_STEP_BINARY:
        return role == HAL_ROLE_X || role == HAL_ROLE_B;
    case HAL_STEP_RMSNORM:
        return role == HAL_ROLE_X || role == HAL_ROLE_RESIDUAL;
    case HAL_STEP_GEMM:
        return role == HAL_ROLE_RESIDUAL;
    default:
        return false;
    }
}

/* An operand and a result of one step that meet: the same place, dtype and shape, and an operator that allows it. */
static bool legally_in_place(const checker *c, const hal_step *step, uint32_t role, const range *x, const range *y)
{
    const hal_tensor_info *a = &c->program->tensors[x->tensor], *b = &c->program->tensors[y->tensor];
    return y->tensor && y->tensor != step->tensors[HAL_ROLE_SCALES] && may_be_output(step, role) &&
           x->from == y->from && x->to == y->to && a->dtype == b->dtype &&
           hal_tensor_columns(a) == hal_tensor_columns(b);
}

static hal_status check_place(const checker *c, const range *r, uint32_t step)
{
    if (r->from == HAL_NO_PLACE) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: %s of step %u has no place", named(c, r), step);
    }
    if (r->from % 256) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: %s of step %u lies at %llu, no multiple of 256",
                        named(c, r), step, (unsigned long long)r->from);
    }
    if (r->to < r->from || r->to > c->plan->size) {
        return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: %s of step %u ends at %llu; the arena has %llu bytes",
                        named(c, r), step, (unsigned long long)r->to, (unsigned long long)c->plan->size);
    }
    return HAL_OK;
}

/* Results that nobody binds must have a place; results and scratch of one step must not meet. */
static hal_status check_writes(const checker *c, uint32_t step)
{
    const hal_step *s = &c->program->steps[step];
    range writes[HAL_ROLES];
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        const uint32_t t = s->tensors[role];
        if (t && (c->plan->offsets[t] == HAL_NO_PLACE) != c->program->tensors[t].output) {
            return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: %s %s", c->program->tensors[t].name,
                            c->program->tensors[t].output ? "is an output, and has a place" : "has no place");
        }
    }
    const uint32_t count = writes_of(c, step, writes);
    for (uint32_t i = 0; i < count; i++) {
        hal_status status = check_place(c, &writes[i], step);
        if (status != HAL_OK) {
            return status;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (meet(&writes[i], &writes[j])) {
                return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: step %u writes %s over its %s", step,
                                named(c, &writes[i]), named(c, &writes[j]));
            }
        }
    }
    return HAL_OK;
}

/* Does a write of another step come between the value's own, by `def`, and its use by `reader`? (A reader's own writes
 * are check_operands'.) */
static hal_status check_value(const checker *c, const range *value, uint32_t def, uint32_t reader)
{
    for (uint32_t w = 0; w < c->program->step_count; w++) {
        range writes[HAL_ROLES];
        const uint32_t count = w == def || w == reader ? 0 : writes_of(c, w, writes);
        for (uint32_t i = 0; i < count; i++) {
            if (meet(value, &writes[i]) && !ordered(c, w, def) && !ordered(c, reader, w)) {
                return hal_fail(HAL_ERROR_INVALID_STATE,
                                "memory plan: step %u may write %s over %s, of step %u, before step %u has read it", w,
                                named(c, &writes[i]), named(c, value), def, reader);
            }
        }
    }
    return HAL_OK;
}

static hal_status check_operands(const checker *c, uint32_t reader)
{
    const hal_step *step = &c->program->steps[reader];
    range value, writes[HAL_ROLES];
    const uint32_t count = writes_of(c, reader, writes);
    hal_status status = HAL_OK;
    for (uint32_t role = 0; status == HAL_OK && role < HAL_ROLE_FIRST_OUTPUT; role++) {
        if (!in_arena(c, step->tensors[role], &value)) {
            continue;
        }
        uint32_t def = 0;
        while (def < c->program->step_count && !is_output_step(&c->program->steps[def], value.tensor)) {
            def++;
        }
        if (def == c->program->step_count || !ordered(c, def, reader)) {
            return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: step %u reads %s, which need not be there yet",
                            reader, named(c, &value));
        }
        for (uint32_t i = 0; i < count; i++) {
            if (meet(&value, &writes[i]) && !legally_in_place(c, step, role, &value, &writes[i])) {
                return hal_fail(HAL_ERROR_INVALID_STATE, "memory plan: step %u writes %s over %s, which it reads",
                                reader, named(c, &writes[i]), named(c, &value));
            }
        }
        status = check_value(c, &value, def, reader);
    }
    return status;
}

hal_status hal_memory_plan_check(const hal_program *program, uint64_t rows, const uint64_t *before,
                                 const uint64_t *workspaces, const hal_memory_plan *plan)
{
    const checker c = {program, before, workspaces, plan, rows};
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < program->step_count; i++) {
        status = check_writes(&c, i);
    }
    for (uint32_t i = 0; status == HAL_OK && i < program->step_count; i++) {
        range writes[HAL_ROLES];
        const uint32_t count = writes_of(&c, i, writes);
        status = check_operands(&c, i);
        for (uint32_t j = 0; status == HAL_OK && j < count; j++) { /* scratch, and results that nobody reads */
            status = check_value(&c, &writes[j], i, i);
        }
    }
    return status;
}
