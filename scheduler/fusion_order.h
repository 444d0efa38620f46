/* fusion_order.h - the steps of a program while fusion merges them. They stay where they are in program->steps, and the
 * order in which they run is kept beside them, so that a merge costs what lies between its parts and no more. */
#ifndef HAL_FUSION_ORDER_H
#define HAL_FUSION_ORDER_H

#include "fusion_rules.h"

#define HAL_STEP_GONE UINT32_MAX

typedef struct hal_fusion_order {
    hal_program *program;
    uint32_t *steps; /* as they run; HAL_STEP_GONE: it is part of another */
    uint32_t count;
    uint32_t *writers;  /* by tensor: the step; UINT32_MAX: none */
    uint32_t *readers;  /* by tensor: how many steps */
    hal_step *finished; /* room for the steps in their order */
    uint32_t *line;     /* scratch */
    bool *late;         /* scratch, all false: by tensor, then by step */
} hal_fusion_order;

/* A failure leaves nothing to finish. */
hal_status hal_fusion_order_make(hal_fusion_order *order, hal_program *program);
/* Whether the candidate, whose last step is at place `at`, could run there, with the steps between that need its
 * results behind it. */
bool hal_fusion_order_fits(const hal_fusion_order *order, const hal_candidate *c, uint32_t at);
/* Does it; returns the place of the merged step. */
uint32_t hal_fusion_order_merge(hal_fusion_order *order, const hal_candidate *c, uint32_t at);
/* Leaves out the places that are gone. */
void hal_fusion_order_pack(hal_fusion_order *order);
/* The program's steps become those that are left, in their order. */
void hal_fusion_order_finish(hal_fusion_order *order);

#endif
