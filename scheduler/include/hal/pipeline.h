/* hal/pipeline.h - many items of the same work through a device: upload, compute and download overlap, each on a stream
 * of its own, over a fixed number of slots.
 *
 * A slot has an input and an output buffer on the device. It is *full* when its upload is done and *empty* again when
 * its download is. The computation waits for full, and the download for the computation, on the device: the host only
 * tells work ahead. A push that finds no empty slot waits for the oldest one: that is the backpressure, and it is
 * counted. With two slots the copies of one item hide behind the computation of another; a third absorbs jitter
 * (`hal-bench model pipeline` predicts what a number of slots gives).
 *
 * Items are computed one after another in the order of the pushes. A pipeline is used by one thread at a time. */
#ifndef HAL_PIPELINE_H
#define HAL_PIPELINE_H

#include <hal/hal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_pipeline hal_pipeline;

/* Tells the work of one item to a stream's immediate list: from `input` (as many bytes as were pushed) to `output`.
 * Anything but HAL_OK ends the pipeline: every later call returns that status. */
typedef hal_status (*hal_pipeline_fn)(void *user, hal_cmdlist *list, uint64_t item, hal_span input, hal_span output);

typedef struct hal_pipeline_desc {
    size_t struct_size;
    const char *label;                /* NULL: "pipeline" */
    uint32_t slots;                   /* 0: 3; at most 64 */
    uint64_t input_size, output_size; /* bytes of a slot's buffers; 0: there is none */
    hal_pipeline_fn compute;
    void *user;
} hal_pipeline_desc;
#define HAL_PIPELINE(...) HAL_DESC(hal_pipeline_desc, __VA_ARGS__)

HAL_API hal_status hal_pipeline_create(hal_device *device, const hal_pipeline_desc *desc, hal_pipeline **pipeline);
HAL_API void hal_pipeline_destroy(hal_pipeline *pipeline); /* pending work is finished, without blocking here; targets
                                                                   not waited for hold anything */

/* Push the next item: `size` bytes of `source` are copied at the call and may be reused at once; `output_size` bytes of
 * the result come to `target` (NULL: they are not downloaded). Items are numbered from 0. HAL_TIMEOUT: no slot became
 * empty in time and nothing was pushed. */
HAL_API hal_status hal_pipeline_push(hal_pipeline *pipeline, const void *source, uint64_t size, void *target,
                                     uint64_t output_size, uint64_t timeout);
/* Wait until the target of item `item`, which has been pushed, holds its result. */
HAL_API hal_status hal_pipeline_wait(hal_pipeline *pipeline, uint64_t item, uint64_t timeout);
/* Wait for all that was pushed. */
HAL_API hal_status hal_pipeline_finish(hal_pipeline *pipeline, uint64_t timeout);

typedef struct hal_pipeline_stats {
    size_t struct_size;
    uint64_t pushed, done; /* items */
    uint64_t stalls;       /* pushes that found no empty slot */
    double stalled_us;     /* host time that they waited */
} hal_pipeline_stats;
HAL_API hal_status hal_pipeline_get_stats(hal_pipeline *pipeline, hal_pipeline_stats *stats);

/* A line a slot: its item, what of it is done (uploaded, computed, downloaded), for how long it has been under way, and
 * what it waits for. Writes at most `size` bytes, NUL included. Asks the device, without waiting. */
HAL_API hal_status hal_pipeline_report(hal_pipeline *pipeline, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
