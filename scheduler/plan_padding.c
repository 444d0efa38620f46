/* plan_padding.c - whether rows that are only there to fill a bucket can change the rows that count. See plan_state.h.
 *
 * HAL_ROWS is always a first dimension, so the rows that count are the first of every tensor. A step that takes no sum
 * over rows, and looks nothing up in them, computes each row of its result from the same row of its operands: what
 * the padding holds stays in the padding. Attention sums over keys, and that is safe only where the causal rule hides
 * every padded key from every query that counts. */
#include "plan_state.h"

#include "core.h"
#include "space.h"

static bool role_has_rows(const hal_program *program, const hal_step *step, hal_role role)
{
    return step->tensors[role] && hal_tensor_has_rows(&program->tensors[step->tensors[role]]);
}

/* Whether one of the sums of the step gets longer with the rows. */
static bool sums_over_rows(const hal_program *program, const hal_step *step)
{
    hal_space few, more;
    hal_space_of(program, step, 8, &few);
    hal_space_of(program, step, 16, &more);
    for (uint32_t i = 0; i < few.dims; i++) {
        if (few.dim[i].kind == HAL_DIM_REDUCTION && few.dim[i].extent != more.dim[i].extent) {
            return true;
        }
    }
    return false;
}

/* NULL: padding is harmless. */
static const char *attention_reason(const hal_program *program, const hal_step *step, bool sums)
{
    const bool queries = role_has_rows(program, step, HAL_ROLE_X), lengths = step->tensors[HAL_ROLE_KV_LENGTHS] != 0;
    if (step->causal == HAL_CAUSAL_BOTTOM_RIGHT && queries && (!sums || lengths)) {
        return "which keys a query sees depends on how many rows there are; align to the top left";
    }
    if (sums && (step->causal == HAL_CAUSAL_NONE || !queries)) {
        return "queries see the padded keys; hide them with a causal mask";
    }
    return NULL;
}

static const char *step_reason(const hal_program *program, const hal_step *step)
{
    const bool sums = sums_over_rows(program, step);
    if (step->op == HAL_STEP_ATTENTION) {
        return attention_reason(program, step, sums);
    }
    if (sums) {
        return "it sums over the rows";
    }
    if (step->op == HAL_STEP_GATHER && role_has_rows(program, step, HAL_ROLE_X)) {
        return "its table has the rows, and an id may mean a padded one";
    }
    if (step->op == HAL_STEP_ROPE && step->tensors[HAL_ROLE_POSITIONS] && role_has_rows(program, step, HAL_ROLE_COS)) {
        return "its tables have the rows, and a position may mean a padded one";
    }
    return NULL;
}

hal_status hal_plan_may_pad(const hal_program *program)
{
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hal_step *step = &program->steps[i];
        const char *reason = step_reason(program, step);
        if (reason) {
            char name[HAL_STEP_NAME];
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "plan '%s': HAL_SHAPES_BUCKETED would change results: step %u, %s to '%s': %s; or use "
                            "HAL_SHAPES_SPECIAL",
                            program->label, i, hal_step_name(step, name),
                            program->tensors[step->tensors[HAL_ROLE_Y]].name, reason);
        }
    }
    return HAL_OK;
}
