/* hal/tune.h - which kernel and tile a device does a product with, and in how many splits it goes through the keys of
 * an attention, measured instead of guessed, and remembered.
 *
 * Every operator has rules that choose by what the device is and the shape. A tuning replaces the choice for the shapes
 * that it knows: hal_gemm and hal_attention in HAL_MODE_FAST ask the device's tunings first (other modes promise an
 * order of sums, which a choice may change). They are loaded at the first use on a device: what libhal ships, then
 * $HAL_TUNING (empty: none), or where that is unset tuning.json in the cache folder. Choices that do not fit are not
 * taken.
 *
 * The file is JSON; merge two by loading both. Of a shape measured twice the later one counts. */
#ifndef HAL_TUNE_H
#define HAL_TUNE_H

#include <hal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hal_tune_stage { HAL_TUNE_CHECK, HAL_TUNE_TIME } hal_tune_stage;

/* Called as tuning goes on: candidate `index` of `count`. false: stop here, keep nothing of this shape. */
typedef bool (*hal_tune_fn)(void *user, hal_tune_stage stage, uint32_t index, uint32_t count);

typedef struct hal_tune_desc {
    size_t struct_size;
    const hal_gemm_desc *gemm; /* sizes, dtypes, transpositions; spans and modes are not looked at */
    double seconds;            /* of timing at most; 0: 2 */
    hal_tune_fn progress;
    void *user;
    const hal_attention_desc *attention; /* in place of gemm: sizes and dtypes */
} hal_tune_desc;
#define HAL_TUNE(...) HAL_DESC(hal_tune_desc, __VA_ARGS__)

typedef struct hal_tune_result {
    size_t struct_size;
    char choice[64];     /* "gemm_task 258x64x512", "attention_task 12 rows, 4 splits" */
    char rule[64];       /* what the rules would take */
    double us, rule_us;  /* of a call, medians of the rounds in which both ran */
    uint32_t candidates; /* that fit the device and the shape */
    uint32_t pruned;     /* not timed: the cost model has them at more than thrice the best prediction */
    uint32_t wrong;      /* discarded: they failed, or their result was not the rules' */
    uint32_t dropped;    /* given up early: surely slower */
    uint32_t rounds;
    bool changed; /* the choice is not the rules', and surely faster */
} hal_tune_result;

/* Time the candidates for one shape on operands of its own, in turns with what the rules choose, and note the best.
 * HAL_TIMEOUT: progress asked to stop; nothing is noted, and *result is as it was. The device is busy for some seconds;
 * nothing else should run. */
HAL_API hal_status hal_tune(hal_device *device, const hal_tune_desc *desc, hal_tune_result *result);
/* Whether the descriptor's shape is known exactly, so that it need not be tuned again; if so, what is chosen. */
HAL_API hal_status hal_tune_known(hal_device *device, const hal_tune_desc *desc, bool *known, hal_tune_result *result);

/* Add a file's tunings to the device's (all of them: those of other devices are kept for hal_tuning_save). path NULL:
 * $HAL_TUNING, else tuning.json in the cache folder. HAL_ERROR_NOT_FOUND: there is no such file. */
HAL_API hal_status hal_tuning_load(hal_device *device, const char *path);
/* Write all that are known, aside and renamed; 0600. */
HAL_API hal_status hal_tuning_save(hal_device *device, const char *path);
/* Forget all: only the rules choose, until the next load. */
HAL_API hal_status hal_tuning_clear(hal_device *device);

#ifdef __cplusplus
}
#endif
#endif
