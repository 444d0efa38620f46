/* hal/stream.h - streams and events.
 *
 * A stream is an in-order queue (CUstream; cl_command_queue; a timeline semaphore on a VkQueue): what is told to it
 * later sees the results of what was told earlier. Streams overlap. A stream is used by one thread at a time, except
 * that hal_stream_wait, hal_device_wait and hal_event_wait may be called from any thread.
 *
 * An event is a point on a stream: record it, then wait for it from other streams (on the device) or from the host
 * (with a deadline). An event can be recorded again: waits already made keep the earlier point. A gate is an event that
 * the host signals: streams that wait for it hold what follows, other streams go on. A gate never recorded nor
 * signalled can be waited for; a recorded event cannot before its first record (HAL_ERROR_INVALID_STATE): so no cycle
 * can be built.
 */
#ifndef HAL_STREAM_H
#define HAL_STREAM_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_stream_desc {
    size_t struct_size;
    const char *label;
    int priority; /* >0 sooner, <0 later; ignored where hal_device_info.priorities is false */
} hal_stream_desc;
#define HAL_STREAM(...) HAL_DESC(hal_stream_desc, __VA_ARGS__)

HAL_API hal_status hal_stream_create(hal_device *device, const hal_stream_desc *desc, hal_stream **stream);
/* Legal while work is pending: it is finished first, without blocking here. */
HAL_API void hal_stream_destroy(hal_stream *stream);
/* The stream's immediate command list: commands told to it are submitted as they are told. Owned by the stream. */
HAL_API hal_cmdlist *hal_stream_cmdlist(hal_stream *stream);
/* Immediate commands may be gathered to save submissions. They reach the device at the latest at a flush, wait, query,
 * event record, list submit or when enough have gathered. */
HAL_API hal_status hal_stream_flush(hal_stream *stream);
/* Wait for everything told to the stream so far; downloads are in host memory when it returns HAL_OK. Timeout 0 asks.
 */
HAL_API hal_status hal_stream_wait(hal_stream *stream, uint64_t timeout);
/* What is told to the stream after this waits, on the device, for the event's latest record (or its gate). */
HAL_API hal_status hal_stream_wait_event(hal_stream *stream, hal_event *event);

typedef struct hal_event_desc {
    size_t struct_size;
    const char *label;
    bool gate;   /* signalled by the host with hal_event_signal instead of recorded */
    bool timing; /* take a device timestamp at each record, for hal_event_elapsed */
} hal_event_desc;
#define HAL_EVENT(...) HAL_DESC(hal_event_desc, __VA_ARGS__)

HAL_API hal_status hal_event_create(hal_device *device, const hal_event_desc *desc, hal_event **event);
/* Destroying a gate that streams wait for opens it. */
HAL_API void hal_event_destroy(hal_event *event);
HAL_API hal_status hal_event_record(hal_event *event, hal_stream *stream);
/* HAL_OK when the point is passed, HAL_TIMEOUT at the deadline. Timeout 0 asks. */
HAL_API hal_status hal_event_wait(hal_event *event, uint64_t timeout);
/* Open a gate. It stays open until hal_event_reset. What streams held back is handed over here, without waiting for
 * room: what does not fit the device's queue goes on in later waits and flushes. */
HAL_API hal_status hal_event_signal(hal_event *event);
/* Close a gate for later waits; streams that waited before the signal have been let through. */
HAL_API hal_status hal_event_reset(hal_event *event);
/* Device time from `start` to `end` in nanoseconds, both recorded with timing on one device and passed. */
HAL_API hal_status hal_event_elapsed(hal_event *start, hal_event *end, uint64_t *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
