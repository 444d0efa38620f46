/* tuning.h - the tunings of a device: choices by shape. */
#ifndef HAL_TUNING_H
#define HAL_TUNING_H

#include <hal/tune.h>

#include "gemm.h"

#include <stdio.h>

/* A choice for a product, and how it was found. */
typedef struct hal_tuning {
    char device[128],
        driver[128]; /* as hal_device_info has them; or "*" for a driver, and a word of the name for a family */
    hal_dtype dtype;
    bool trans_a, trans_b;
    uint64_t m, n, k, batch;
    gemm_choice choice;
    double us, rule_us; /* 0: not measured */
    bool shipped;       /* by libhal: not written to a file, which would outlive it */
} hal_tuning;
enum { HAL_MOST_TUNINGS = 4096 }; /* of a device, and of a file */

/* The choice for a problem: of the very shape, else of the nearest one that differs by a factor of 2 at most in each
 * dimension; of the device and driver, else its family. false: there is none. Never fails; cheap where a device has no
 * tunings, and of a shape that was asked for before. */
bool hal_tuning_find(hal_device *device, const gemm_problem *problem, gemm_choice *choice);
/* What is known of the very shape on this device. */
bool hal_tuning_exact(hal_device *device, const gemm_problem *problem, hal_tuning *tuning);
/* Note one, in place of what is known of the very shape. */
hal_status hal_tuning_note(hal_device *device, const hal_tuning *tuning);

/* What is shipped, generated from scheduler/tuning/. */
extern const uint32_t hal_tuning_text_count;
extern const char *const hal_tuning_texts[];

/* tuning_file.c: JSON text of tunings. Unknown kernels and impossible numbers are refused whole. */
hal_status hal_tuning_parse(const char *name, const char *text, size_t size, hal_tuning **list, uint32_t *count);
void hal_tuning_write(FILE *out, const hal_tuning *list, uint32_t count);

#endif
