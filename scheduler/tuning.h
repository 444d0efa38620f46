/* tuning.h - the tunings of a device: choices by shape. */
#ifndef HAL_TUNING_H
#define HAL_TUNING_H

#include <hal/tune.h>

#include "gemm.h"

#include <stdio.h>

typedef enum hal_tuned_op { HAL_TUNED_GEMM, HAL_TUNED_ATTENTION, HAL_TUNED_OPS } hal_tuned_op;

/* What a choice depends on. An attention is products, too: one for each sequence and head of keys (batch), of its
 * queries' rows (m) with the keys (k), which have n elements each. */
typedef struct hal_tuned_shape {
    hal_tuned_op op;
    hal_dtype dtype;
    bool trans_a, trans_b;
    uint32_t m, n, k, batch;
} hal_tuned_shape;

/* A choice for a shape, and how it was found. An attention's tile is rows and splits. */
typedef struct hal_tuning {
    char device[128],
        driver[128]; /* as hal_device_info has them; or "*" for a driver, and a word of the name for a family */
    hal_tuned_op op;
    hal_dtype dtype;
    bool trans_a, trans_b;
    uint64_t m, n, k, batch;
    gemm_choice choice;
    double us, rule_us; /* 0: not measured */
    bool shipped;       /* by libhal: not written to a file, which would outlive it */
} hal_tuning;
enum { HAL_MOST_TUNINGS = 4096 }; /* of a device, and of a file */

static inline hal_tuned_shape hal_gemm_shape(const gemm_problem *p)
{
    return (hal_tuned_shape){HAL_TUNED_GEMM, p->operands[GEMM_A].dtype, p->trans_a, p->trans_b, p->m, p->n, p->k,
                             p->batch};
}

/* The choice for a shape: of the very shape, else of the nearest one that differs by a factor of 2 at most in each
 * dimension; of the device and driver, else its family. false: there is none. Never fails; cheap where a device has no
 * tunings, and of a shape that was asked for before. */
bool hal_tuning_find(hal_device *device, const hal_tuned_shape *shape, gemm_choice *choice);
/* What is known of the very shape on this device. */
bool hal_tuning_exact(hal_device *device, const hal_tuned_shape *shape, hal_tuning *tuning);
/* Note one, in place of what is known of the very shape. */
hal_status hal_tuning_note(hal_device *device, const hal_tuning *tuning);

/* What is shipped, generated from scheduler/tuning/. */
extern const uint32_t hal_tuning_text_count;
extern const char *const hal_tuning_texts[];

/* tuning_file.c: JSON text of tunings. Unknown kernels and impossible numbers are refused whole. */
hal_status hal_tuning_parse(const char *name, const char *text, size_t size, hal_tuning **list, uint32_t *count);
void hal_tuning_write(FILE *out, const hal_tuning *list, uint32_t count);

#endif
