/* tune.h - hal_tune with another way to run a candidate: tests make one go wrong. */
#ifndef HAL_TUNE_INTERNAL_H
#define HAL_TUNE_INTERNAL_H

#include "tuning.h"

typedef hal_status (*hal_tune_run_fn)(void *user, hal_cmdlist *list, const hal_gemm_desc *gemm,
                                      const gemm_choice *choice);
hal_status hal_tune_with(hal_device *device, const hal_tune_desc *desc, hal_tune_run_fn run, void *user,
                         hal_tune_result *result);

#endif
