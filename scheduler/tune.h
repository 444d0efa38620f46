/* tune.h - what hal_tune is told of an operator (tune_subject.c), and hal_tune with another way to run a candidate:
 * tests make one go wrong. */
#ifndef HAL_TUNE_INTERNAL_H
#define HAL_TUNE_INTERNAL_H

#include "tuning.h"

#include <hal/model.h>

enum { HAL_TUNE_OPERANDS = 4 };

/* An operator on operands of the tuner's own, and its candidates. */
typedef struct hal_tune_subject {
    hal_tuned_shape shape;
    hal_gemm_desc gemm;
    hal_attention_desc attention;
    uint32_t operands; /* the result is the last */
    hal_dtype dtypes[HAL_TUNE_OPERANDS];
    uint64_t sizes[HAL_TUNE_OPERANDS]; /* bytes */
    uint64_t workspace;
    double error;                           /* of the greatest element: how far results may differ; 0: the same bits */
    gemm_choice choices[GEMM_MOST_CHOICES]; /* the rules' first */
    uint32_t count;
} hal_tune_subject;

/* What the descriptor means, without memory; HAL_ERROR_UNSUPPORTED: there is nothing to choose. */
hal_status hal_tune_subject_open(const hal_tune_desc *desc, hal_tune_subject *subject);
/* Its spans; then its candidates, which may depend on how operands are aligned. */
hal_status hal_tune_subject_bind(hal_device *device, hal_tune_subject *subject, const hal_span *operands);
/* A floor of a candidate's time. */
double hal_tune_subject_predict(const hal_device_info *info, const hal_model_machine *machine,
                                const hal_tune_subject *subject, const gemm_choice *choice);
hal_status hal_tune_subject_run(hal_cmdlist *list, const hal_tune_subject *subject, const gemm_choice *choice);

typedef hal_status (*hal_tune_run_fn)(void *user, hal_cmdlist *list, const hal_tune_subject *subject,
                                      const gemm_choice *choice);
hal_status hal_tune_with(hal_device *device, const hal_tune_desc *desc, hal_tune_run_fn run, void *user,
                         hal_tune_result *result);

#endif
