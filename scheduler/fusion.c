/* fusion.c - see fusion.h: each rule (fusion_rules.h) is tried at each step, and what it finds is made or not, as the
 * policy says; either way it is noted. */
#include "fusion.h"

#include "core.h"
#include "fusion_cost.h"
#include "fusion_order.h"
#include <math.h>

typedef struct fusion {
    hal_program *program;
    const hal_fusion_options *options;
    hal_decisions *decisions;
    hal_fusion_order order;
    hal_step_costs costs;
} fusion;

/* Bytes and time of the steps apart and as one. */
static void weigh(fusion *f, const hal_candidate *c, hal_decision *d)
{
    d->us_before = d->us_after = NAN;
    if (c->bytes_before) {
        d->bytes_before = c->bytes_before;
        d->bytes_after = c->bytes_after;
        return;
    }
    d->us_before = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const hal_step_cost part = hal_step_costs_of(&f->costs, &f->program->steps[c->steps[i]]);
        d->bytes_before += part.bytes;
        d->us_before += part.us;
    }
    const hal_step_cost merged = hal_step_costs_of(&f->costs, &c->merged);
    d->bytes_after = merged.bytes;
    d->us_after = merged.us;
}

static bool measured(const fusion *f, const hal_candidate *c, hal_decision *d)
{
    const hal_fusion_options *o = f->options;
    hal_step apart[HAL_FUSION_STEPS];
    double before, after;
    for (uint32_t i = 0; i < c->count; i++) {
        apart[i] = f->program->steps[c->steps[i]];
    }
    if (!o->measure || !o->measure(o->user, f->program, apart, c->count, &before) ||
        !o->measure(o->user, f->program, &c->merged, 1, &after)) {
        return false;
    }
    d->us_before = before;
    d->us_after = after;
    return true;
}

/* The figures are put into words when somebody asks. */
static void say(hal_decision *d, const char *why)
{
    snprintf(d->reason, sizeof d->reason, "%s", why);
    d->figures = true;
}

const char *hal_decision_reason(const hal_decision *d, char text[HAL_DECISION_TEXT])
{
    if (!d->figures) {
        return d->reason;
    }
    snprintf(text, HAL_DECISION_TEXT, "%s: %.2f MiB for %.2f, %.1f us for %.1f", d->reason,
             (double)d->bytes_after / MIB, (double)d->bytes_before / MIB, d->us_after, d->us_before);
    return text;
}

/* A choice that was imported; NULL: none of this fusion. */
static const hal_decision *given_of(const hal_decisions *given, const hal_decision *d)
{
    for (uint32_t i = 0; i < given->count; i++) {
        if (given->list[i].tensor == d->tensor && strcmp(given->list[i].rule, d->rule) == 0) {
            return &given->list[i];
        }
    }
    return NULL;
}

static bool gains(const hal_decision *d)
{
    return d->us_after < d->us_before || (!(d->us_after > d->us_before) && d->bytes_after < d->bytes_before);
}

/* Of a legal candidate with a kernel: is it made? */
static void decide(const fusion *f, const hal_candidate *c, hal_decision *d)
{
    const hal_fusion_options *o = f->options;
    bool make = true;
    if (d->reorders && o->no_reordering) {
        make = false;
        say(d, "it takes sums in another order, which is not wanted");
    } else if (o->given) {
        const hal_decision *given = given_of(o->given, d);
        make = given && given->verdict == HAL_VERDICT_FUSED;
        say(d, given ? "as the choices say" : "the choices do not have it");
    } else if (o->policy == HAL_FUSE_ALL) {
        say(d, "all are made");
    } else {
        const bool timed = o->policy == HAL_FUSE_MEASURED && measured(f, c, d);
        make = gains(d);
        say(d, timed  ? make ? "measured to gain" : "measured not to gain"
               : make ? "predicted to gain"
                      : "predicted not to gain");
    }
    d->verdict = make ? HAL_VERDICT_FUSED : HAL_VERDICT_DECLINED;
}

/* Operators of the graph that the merged step stands for. */
static uint32_t operators(const fusion *f, const hal_candidate *c)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const uint32_t stands_for = f->program->steps[c->steps[i]].fused;
        sum += stands_for ? stands_for : 1;
    }
    return sum;
}

static bool reserve(hal_decisions *decisions)
{
    if (decisions->count < decisions->capacity) {
        return true;
    }
    const uint32_t capacity = decisions->capacity ? 2 * decisions->capacity : 16;
    hal_decision *list = realloc(decisions->list, capacity * sizeof *list);
    if (list) {
        decisions->list = list;
        decisions->capacity = capacity;
    }
    return list != NULL;
}

/* Notes the candidate, and makes it if that is decided: *at, where its last step is, is where the merged one is then.
 */
static hal_status consider(fusion *f, const hal_fusion_rule *rule, hal_candidate *c, uint32_t *at, bool *made)
{
    hal_decisions *decisions = f->decisions;
    *made = false;
    if (!reserve(decisions)) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for %u decisions on fusions", decisions->count);
    }
    hal_decision *d = &decisions->list[decisions->count++];
    *d = (hal_decision){.rule = rule->name, .tensor = c->tensor, .reorders = c->reorders};
    c->merged.fused = operators(f, c);
    if (c->verdict == HAL_VERDICT_FUSED && !hal_fusion_order_fits(&f->order, c, *at)) {
        hal_candidate_refuse(c, "a step between the two needs the first and is needed by the second");
    }
    weigh(f, c, d);
    d->verdict = c->verdict;
    memcpy(d->reason, c->reason, sizeof d->reason);
    if (c->verdict == HAL_VERDICT_FUSED) {
        decide(f, c, d);
    }
    if (d->verdict == HAL_VERDICT_FUSED) {
        *at = hal_fusion_order_merge(&f->order, c, *at);
        *made = true;
        for (uint32_t i = 0; i < c->gone_count; i++) {
            f->program->tensors[c->gone[i]].kind = HAL_TENSOR_FUSED;
        }
    }
    return HAL_OK;
}

/* A rule at each step. */
static hal_status apply(fusion *f, const hal_fusion_rule *rule)
{
    hal_status status = HAL_OK;
    for (uint32_t at = 0; status == HAL_OK && at < f->order.count;) {
        const hal_fusion_site site = {f->program, f->order.writers, f->order.readers, f->order.steps[at],
                                      f->options->rows};
        hal_candidate c;
        bool made = false;
        if (site.last != HAL_STEP_GONE && rule->find(&site, &c)) {
            status = consider(f, rule, &c, &at, &made);
        }
        at += !made; /* what was made may be part of more */
    }
    hal_fusion_order_pack(&f->order);
    return status;
}

hal_status hal_fuse(hal_program *program, const hal_fusion_options *options, hal_decisions *decisions)
{
    *decisions = (hal_decisions){0};
    if (options->policy == HAL_FUSE_NONE) {
        return HAL_OK;
    }
    fusion f = {.program = program,
                .options = options,
                .decisions = decisions,
                .costs = {.program = program, .options = options}};
    hal_status status = hal_fusion_order_make(&f.order, program);
    if (status != HAL_OK) {
        return status;
    }
    for (uint32_t r = 0; status == HAL_OK && r < hal_fusion_rule_count; r++) {
        status = apply(&f, &hal_fusion_rules[r]);
    }
    hal_fusion_order_finish(&f.order);
    if (status != HAL_OK) {
        hal_decisions_clear(decisions);
    }
    return status;
}

void hal_decisions_clear(hal_decisions *decisions)
{
    free(decisions->list);
    *decisions = (hal_decisions){0};
}
