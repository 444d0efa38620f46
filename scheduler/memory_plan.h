/* memory_plan.h - where the intermediates of a program lie: one arena, shared by those that are never alive together.
 */
#ifndef HAL_MEMORY_PLAN_H
#define HAL_MEMORY_PLAN_H

#include "program.h"

#define HAL_NO_PLACE UINT64_MAX

enum { HAL_MEMORY_ALIGNMENT = 256 }; /* of every place */

typedef struct hal_memory_plan {
    uint64_t *offsets;   /* by tensor id, in the arena; HAL_NO_PLACE: inputs, outputs, constants, fused */
    uint64_t *workspace; /* by step: its scratch; HAL_NO_PLACE: none */
    uint32_t tensors, steps;
    uint64_t size;       /* of the arena */
    uint64_t peak;       /* the most that is alive at once, scratch included */
    uint64_t peak_apart; /* the same, if nothing were done in place */
    uint64_t unshared;   /* the size without sharing */
} hal_memory_plan;

/* `before`: bit j of row i (words of 64 bits, hal_order_words(steps) a row) says that step j is done before step i
 * begins; NULL: steps run one after another. `workspaces`: bytes by step; NULL: none. A result may take the place of an
 * operand that is read last by its step where hal_step_in_place says so. */
hal_status hal_memory_plan_make(const hal_program *program, uint64_t rows, const uint64_t *before,
                                const uint64_t *workspaces, hal_memory_plan *plan);
void hal_memory_plan_clear(hal_memory_plan *plan);
static inline uint32_t hal_order_words(uint32_t steps)
{
    return (steps + 63) / 64;
}

/* Whether the operator may write Y exactly over the operand of a role: same dtype and size, and in place is legal. */
bool hal_step_in_place(const hal_program *program, const hal_step *step, hal_role role);

/* The checker, which shares nothing with the planner (memory_check.c): runs the steps in thought, in every order that
 * `before` allows, and says what is wrong: a value overwritten before its last reader, a place outside of the arena, a
 * misaligned place, an overlap of operands that the operator refuses. HAL_OK or HAL_ERROR_INVALID_STATE with the reason
 * in hal_last_error(). */
hal_status hal_memory_plan_check(const hal_program *program, uint64_t rows, const uint64_t *before,
                                 const uint64_t *workspaces, const hal_memory_plan *plan);

#endif
