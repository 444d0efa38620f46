/* fusion.h - which steps become one, and why not. */
#ifndef HAL_FUSION_H
#define HAL_FUSION_H

#include <hal/model.h>
#include <hal/plan.h>

#include "program.h"

typedef enum hal_verdict {
    HAL_VERDICT_FUSED,
    HAL_VERDICT_DECLINED, /* legal, not made: the policy or the model is against it, or there is no kernel */
    HAL_VERDICT_REFUSED   /* it would change results */
} hal_verdict;

typedef struct hal_decision {
    const char *rule; /* "gemm + activation" */
    uint32_t tensor;  /* that disappears, or would */
    hal_verdict verdict;
    bool reorders;                      /* sums are taken in another order: other bits */
    uint64_t bytes_before, bytes_after; /* moved by the steps concerned */
    double us_before, us_after;         /* predicted, or (HAL_FUSE_MEASURED) measured */
    char reason[160];                   /* in words, but for the figures: hal_decision_reason */
    bool figures;                       /* bytes and times belong to it */
} hal_decision;

enum { HAL_DECISION_TEXT = 256 };
/* The reason with its figures, in `text` or the decision. */
const char *hal_decision_reason(const hal_decision *decision, char text[HAL_DECISION_TEXT]);

typedef struct hal_decisions {
    hal_decision *list;
    uint32_t count, capacity;
} hal_decisions;

typedef struct hal_fusion_options {
    hal_fusion policy;
    bool no_reordering;
    hal_mode mode;
    uint64_t rows;                    /* that costs are predicted for */
    const hal_device_info *info;      /* of the device: it decides how an operator is done */
    const hal_model_machine *machine; /* of the cost model */
    const hal_decisions *given;       /* imported choices: followed where legal; NULL: chosen */
    /* HAL_FUSE_MEASURED: times the steps, microseconds; false: it cannot be measured. */
    bool (*measure)(void *user, const hal_program *program, const hal_step *steps, uint32_t count, double *us);
    void *user;
} hal_fusion_options;

/* Merges steps of the program; every candidate is noted. HAL_FUSE_NONE notes none. */
hal_status hal_fuse(hal_program *program, const hal_fusion_options *options, hal_decisions *decisions);
void hal_decisions_clear(hal_decisions *decisions);

/* Predicted time of a step, as the policy has it: the larger of its bytes and its FLOPs over the machine's rates, and
 * its launches. Of the options: rows, mode, info and machine. */
double hal_step_predict_us(const hal_program *program, const hal_step *step, const hal_fusion_options *options);

#endif
