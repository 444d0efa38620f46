/* fusion.c - see fusion.h: each rule (fusion_rules.h) is tried at each step, and what it finds is made or not, as the
 * policy says; either way it is noted. */
#include "fusion.h"

#include "core.h"
#include "fusion_rules.h"
#include "space.h"
#include <math.h>

typedef struct fusion {
    hal_program *program;
    const hal_fusion_options *options;
    hal_decisions *decisions;
} fusion;

/* A GEMM with options that only the second of two phases has (hal_gemm_workspace) stores its sums in FP32 and reads
 * them again. */
static uint32_t stored_sums(const hal_program *program, const hal_step *step, hal_mode mode)
{
    const uint32_t *t = step->tensors;
    const bool options = step->op == HAL_STEP_GEMM && (t[HAL_ROLE_B_UP] || t[HAL_ROLE_SCALE_A] || t[HAL_ROLE_SCALE_B] ||
                                                       program->tensors[t[HAL_ROLE_Y]].dtype == HAL_F8E4M3);
    return !options || mode == HAL_MODE_STRICT || program->tensors[t[HAL_ROLE_X]].dtype == HAL_F8E4M3 ? 0
           : t[HAL_ROLE_B_UP]                                                                         ? 2
                                                                                                      : 1;
}

static uint64_t sum_bytes(const hal_program *program, const hal_step *step, uint64_t rows, hal_mode mode)
{
    const hal_tensor_info *y = &program->tensors[step->tensors[HAL_ROLE_Y]];
    return stored_sums(program, step, mode) * hal_tensor_rows(y, rows) * hal_tensor_columns(y) * sizeof(float);
}

/* What a first phase reads again: A, for the second of two sums. */
static uint64_t again_bytes(const hal_program *program, const hal_step *step, uint64_t rows, hal_mode mode)
{
    return stored_sums(program, step, mode) > 1 ? hal_tensor_bytes(&program->tensors[step->tensors[HAL_ROLE_X]], rows)
                                                : 0;
}

static uint64_t bytes_of(const hal_program *program, const hal_step *step, uint64_t rows, hal_mode mode)
{
    return hal_space_bytes(program, step, rows) + 2 * sum_bytes(program, step, rows, mode) +
           again_bytes(program, step, rows, mode);
}

/* What the second phase moves is not hidden behind the arithmetic of the first. */
static double predict_us(const hal_program *program, const hal_step *step, uint64_t rows, hal_mode mode,
                         const hal_model_machine *machine)
{
    const bool matrices = step->op == HAL_STEP_GEMM || step->op == HAL_STEP_ATTENTION;
    const hal_dtype dtype = matrices ? program->tensors[step->tensors[HAL_ROLE_X]].dtype : HAL_F32;
    const uint32_t phases = stored_sums(program, step, mode);
    const double bytes = (double)(hal_space_bytes(program, step, rows) + again_bytes(program, step, rows, mode));
    hal_space space;
    hal_space_of(program, step, rows, &space);
    const double flops = hal_space_flops(&space);
    if (phases == 0) {
        return hal_model_kernels_us(machine, dtype, flops, bytes, 1);
    }
    const double sums = (double)sum_bytes(program, step, rows, mode);
    const double result = (double)hal_tensor_bytes(&program->tensors[step->tensors[HAL_ROLE_Y]], rows);
    return hal_model_kernels_us(machine, dtype, flops, bytes - result + sums, phases) +
           hal_model_kernels_us(machine, HAL_F32, 0, sums + result, 1);
}

double hal_step_predict_us(const hal_program *program, const hal_step *step, uint64_t rows,
                           const hal_model_machine *machine)
{
    return predict_us(program, step, rows, HAL_MODE_FAST, machine);
}

/* Bytes and time of the steps apart and as one. */
static void cost(const fusion *f, const hal_candidate *c, hal_decision *d)
{
    const hal_fusion_options *o = f->options;
    d->us_before = d->us_after = NAN;
    if (c->bytes_before) {
        d->bytes_before = c->bytes_before;
        d->bytes_after = c->bytes_after;
        return;
    }
    d->us_before = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        const hal_step *step = &f->program->steps[c->steps[i]];
        d->bytes_before += bytes_of(f->program, step, o->rows, o->mode);
        d->us_before += predict_us(f->program, step, o->rows, o->mode, o->machine);
    }
    d->bytes_after = bytes_of(f->program, &c->merged, o->rows, o->mode);
    d->us_after = predict_us(f->program, &c->merged, o->rows, o->mode, o->machine);
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

static void say(hal_decision *d, const char *why)
{
    snprintf(d->reason, sizeof d->reason, "%s: %.2f MiB for %.2f, %.1f us for %.1f", why, (double)d->bytes_after / MIB,
             (double)d->bytes_before / MIB, d->us_after, d->us_before);
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

/* Whether all that a step reads is written already. */
static bool ready(const hal_program *program, const hal_step *step, const bool *written)
{
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        const uint32_t t = step->tensors[role];
        if (t && program->tensors[t].kind == HAL_TENSOR_STEP && !written[t]) {
            return false;
        }
    }
    return true;
}

/* The steps with the merged one in place of its parts, in an order in which they can run, as near as can be to what it
 * was. *place: where the merged one is; UINT32_MAX: it waits for itself. */
static hal_status arrange(const fusion *f, const hal_candidate *c, hal_step *steps, uint32_t *place)
{
    const hal_program *program = f->program;
    const uint32_t total = program->step_count, last = c->steps[c->count - 1];
    bool *written = calloc(program->tensor_count + (size_t)total, sizeof *written);
    *place = UINT32_MAX;
    if (!written) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a fusion of %u steps", total);
    }
    bool *done = written + program->tensor_count;
    for (uint32_t i = 0; i + 1 < c->count; i++) {
        done[c->steps[i]] = true;
    }
    for (uint32_t first = 0, count = 0; first < total;) {
        uint32_t i = first;
        while (i < total && (done[i] || !ready(program, i == last ? &c->merged : &program->steps[i], written))) {
            i++;
        }
        if (i == total) {
            *place = UINT32_MAX;
            break;
        }
        *place = i == last ? count : *place;
        steps[count] = i == last ? c->merged : program->steps[i];
        for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
            written[steps[count].tensors[role]] = true;
        }
        count++;
        done[i] = true;
        while (first < total && done[first]) {
            first++;
        }
    }
    free(written);
    return HAL_OK;
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

/* Notes the candidate, and makes it if that is decided: *place is where the merged step is then, else UINT32_MAX. */
static hal_status consider(const fusion *f, const hal_fusion_rule *rule, hal_candidate *c, uint32_t *place)
{
    hal_program *program = f->program;
    hal_decisions *decisions = f->decisions;
    c->merged.fused = operators(f, c);
    hal_step *steps = malloc(program->step_count * sizeof *steps);
    if (!steps || !reserve(decisions)) {
        free(steps);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a fusion of %u steps", program->step_count);
    }
    hal_status status = arrange(f, c, steps, place);
    if (status == HAL_OK) {
        hal_decision *d = &decisions->list[decisions->count++];
        *d = (hal_decision){.rule = rule->name, .tensor = c->tensor, .reorders = c->reorders};
        if (*place == UINT32_MAX) {
            hal_candidate_refuse(c, "a step between the two needs the first and is needed by the second");
        }
        cost(f, c, d);
        d->verdict = c->verdict;
        memcpy(d->reason, c->reason, sizeof d->reason);
        if (c->verdict == HAL_VERDICT_FUSED) {
            decide(f, c, d);
        }
        if (d->verdict == HAL_VERDICT_FUSED) {
            program->step_count -= c->count - 1;
            memcpy(program->steps, steps, program->step_count * sizeof *steps);
            for (uint32_t i = 0; i < c->gone_count; i++) {
                program->tensors[c->gone[i]].kind = HAL_TENSOR_FUSED;
            }
        } else {
            *place = UINT32_MAX;
        }
    }
    free(steps);
    return status;
}

hal_status hal_fuse(hal_program *program, const hal_fusion_options *options, hal_decisions *decisions)
{
    const fusion f = {program, options, decisions};
    hal_status status = HAL_OK;
    *decisions = (hal_decisions){0};
    for (uint32_t r = 0; options->policy != HAL_FUSE_NONE && r < hal_fusion_rule_count; r++) {
        for (uint32_t i = 0; status == HAL_OK && i < program->step_count;) {
            const hal_fusion_site site = {program, i, options->rows};
            hal_candidate c;
            uint32_t place = UINT32_MAX;
            if (hal_fusion_rules[r].find(&site, &c)) {
                status = consider(&f, &hal_fusion_rules[r], &c, &place);
            }
            i = place == UINT32_MAX ? i + 1 : place; /* what was made may be part of more */
        }
    }
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
