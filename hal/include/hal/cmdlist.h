/* hal/cmdlist.h - commands, told at once or recorded and replayed.
 *
 * Immediate and recorded lists take the same calls. A stream's immediate list (hal_stream_cmdlist) submits as it is
 * told; a recorded list is finished once and submitted any number of times, to any stream of its device, also while an
 * earlier submission still runs: each submission keeps its own bindings.
 *
 * Order: commands of a list behave as if run one after the other. libhal derives the real dependencies from the
 * declared access and byte ranges and lets the rest overlap. Two different slots are taken to be different memory, and
 * a submit that binds a written slot over another span of the list is refused (HAL_ERROR_OVERLAP).
 *
 * Native concept: CUDA graph built node by node; pre-set kernels on a command queue (OpenCL); command buffer (Vulkan).
 * Zero-sized commands succeed and do nothing.
 */
#ifndef HAL_CMDLIST_H
#define HAL_CMDLIST_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_cmdlist_desc {
    size_t struct_size;
    const char *label;
} hal_cmdlist_desc;
#define HAL_CMDLIST(...) HAL_DESC(hal_cmdlist_desc, __VA_ARGS__)

/* An empty recorded list. It keeps alive what it records. */
HAL_API hal_status hal_cmdlist_create(hal_device *device, const hal_cmdlist_desc *desc, hal_cmdlist **list);
HAL_API void hal_cmdlist_destroy(hal_cmdlist *list); /* pending submissions are finished first, without blocking here */
/* Close the list: dependencies are derived and the native object is built. */
HAL_API hal_status hal_cmdlist_finish(hal_cmdlist *list);

/* A command that fails to record poisons a recorded list: hal_cmdlist_finish returns the first such status,
 * and its message. */

typedef struct hal_grid {
    uint32_t x, y, z; /* groups, not work-items; at most 2^31 - 1 each */
} hal_grid;
#define HAL_GRID1(gx)         HAL_GRID3(gx, 1, 1)
#define HAL_GRID2(gx, gy)     HAL_GRID3(gx, gy, 1)
#define HAL_GRID3(gx, gy, gz) HAL_VALUE(hal_grid, (uint32_t)(gx), (uint32_t)(gy), (uint32_t)(gz))

/* The spans of a dispatch, in the kernel's order: HAL_SPANS(hal_at(x, 0), hal_at(y, 0)). */
#define HAL_SPANS(...) HAL_ARRAY(hal_span, __VA_ARGS__), HAL_COUNT(hal_span, __VA_ARGS__)

/* Run a kernel over a grid of groups. `args` are copied; args_size must be the kernel's. */
HAL_API hal_status hal_cmd_dispatch(hal_cmdlist *list, hal_kernel *kernel, hal_grid grid, const hal_span *spans,
                                    uint32_t span_count, const void *args, uint32_t args_size);
/* Recorded lists: the 4-byte scalar at `args_offset` of the hal_cmd_dispatch just recorded takes the value of scalar
 * `index` at each submit. Only after your own dispatch: operators' arguments are private. */
HAL_API hal_status hal_cmd_scalar(hal_cmdlist *list, uint32_t index, uint32_t args_offset);
/* Copy src to dst: equal sizes (HAL_REST adapts to the other side). Overlap: HAL_ERROR_OVERLAP. */
HAL_API hal_status hal_cmd_copy(hal_cmdlist *list, hal_span dst, hal_span src);
/* Fill with a pattern of 1, 2 or 4 bytes; offset and size are multiples of it. */
HAL_API hal_status hal_cmd_fill(hal_cmdlist *list, hal_span dst, const void *pattern, uint32_t pattern_size);
/* Write host bytes; they are copied at the call and may be reused at once. A recorded list keeps the bytes (at most
 * 64 KiB a command). */
HAL_API hal_status hal_cmd_upload(hal_cmdlist *list, hal_span dst, const void *source, uint64_t size);
/* Immediate lists only: read into host memory. The bytes are there when a later wait on the stream (or on an event
 * recorded after this) has returned HAL_OK; `target` must stay valid until then. */
HAL_API hal_status hal_cmd_download(hal_cmdlist *list, void *target, hal_span source);
/* Event record and wait as part of a list. */
HAL_API hal_status hal_cmd_event_record(hal_cmdlist *list, hal_event *event);
HAL_API hal_status hal_cmd_event_wait(hal_cmdlist *list, hal_event *event);

typedef struct hal_bindings {
    size_t struct_size;
    const hal_span *spans;   /* spans[i] is what slot i means in this submission; buffer spans */
    uint32_t span_count;     /* at least one more than the highest slot used */
    const uint32_t *scalars; /* new values of the scalars, bit patterns; all or none */
    uint32_t scalar_count;
} hal_bindings;
/* HAL_BINDINGS(hal_whole(in), hal_whole(out)) */
#define HAL_BINDINGS(...)                                                                                              \
    HAL_DESC(hal_bindings, .spans = HAL_ARRAY(hal_span, __VA_ARGS__), .span_count = HAL_COUNT(hal_span, __VA_ARGS__))

/* Run a finished list on a stream, in stream order. bindings may be NULL for a list without slots; scalars keep their
 * recorded values where none are given. A full queue is waited for at most hal_device_desc.submit_timeout, then
 * HAL_TIMEOUT and nothing was submitted. */
HAL_API hal_status hal_cmdlist_submit(hal_cmdlist *list, hal_stream *stream, const hal_bindings *bindings);

/* The device a list belongs to; NULL for NULL. */
HAL_API hal_device *hal_cmdlist_device(const hal_cmdlist *list);

typedef struct hal_cmdlist_stats {
    uint32_t commands;      /* recorded, after splitting */
    uint32_t edges;         /* dependencies derived */
    uint32_t barriers;      /* points where everything before must be done: what an API without edges needs */
    uint32_t segments;      /* native objects: event commands and the node budget cut a list */
    uint64_t submits;       /* so far */
    uint64_t native_builds; /* native objects built so far (graph instances, command buffers, sets of kernels): as many
                               as were in flight at once with different bindings, at most. Rebinding rewrites one: node
                               parameters, arguments, a parameter block; a command buffer is recorded again where
                               slots or scalars of PLAIN kernels, views, copies or fills are part of it */
} hal_cmdlist_stats;
HAL_API hal_status hal_cmdlist_get_stats(const hal_cmdlist *list, hal_cmdlist_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
