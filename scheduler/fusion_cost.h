/* fusion_cost.h - what steps cost. Those of one operator on tensors of the same shapes cost the same, so that of many
 * layers one is looked at. */
#ifndef HAL_FUSION_COST_H
#define HAL_FUSION_COST_H

#include "fusion.h"

typedef struct hal_step_cost {
    uint64_t bytes; /* moved */
    double us;      /* predicted */
} hal_step_cost;

enum { HAL_KNOWN_COSTS = 256 };

/* Begins with the first two and zeros. */
typedef struct hal_step_costs {
    const hal_program *program;
    const hal_fusion_options *options;
    struct hal_known_cost {
        uint64_t digest[2];
        hal_step_cost cost;
    } known[HAL_KNOWN_COSTS]; /* by digest; a new one takes the place of an old one */
} hal_step_costs;

hal_step_cost hal_step_costs_of(hal_step_costs *costs, const hal_step *step);

#endif
