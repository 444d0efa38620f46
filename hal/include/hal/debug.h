/* hal/debug.h - logging, tracing, fault injection.
 *
 * HAL_LOG=error|warning|info|debug prints to stderr; a callback (hal_device_desc.log) gets everything at or above info.
 */
#ifndef HAL_DEBUG_H
#define HAL_DEBUG_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hal_log_level {
    HAL_LOG_ERROR = 1,
    HAL_LOG_WARNING = 2,
    HAL_LOG_INFO = 3,
    HAL_LOG_DEBUG = 4
} hal_log_level;
/* One line, no newline. May come from any thread; it must not call libhal. */
typedef void (*hal_log_fn)(void *user, hal_log_level level, const char *message);

/* Chrome/Perfetto trace of host calls and device work. Timing events are added around every submission while it runs,
 * so figures taken meanwhile are slower. */
HAL_API hal_status hal_trace_start(hal_device *device);
/* Wait (at most `timeout`) for what is pending, stop, and write the JSON to `path`. */
HAL_API hal_status hal_trace_write(hal_device *device, const char *path, uint64_t timeout);

/* Fault injection, for tests. The `nth` event of the kind from now on (1: the next) fails with its natural status:
 * ALLOC  HAL_ERROR_OUT_OF_MEMORY, SUBMIT HAL_ERROR_BACKEND, COMPILE HAL_ERROR_COMPILE, LOST HAL_ERROR_DEVICE_LOST at
 * the n-th submit, and for ever after. nth 0 clears. Also by environment:
 * HAL_FAULT="alloc:3,submit:1,compile:1,lost:5". ALLOC counts the driver's allocations: a buffer that shares one tries
 * another way then, so make it dedicated to see its creation fail.
 *
 * Lowered limits (hal_device_desc.limits, $HAL_LIMITS), a comma list of name=value:
 *   group_size, group_count, units (compute_units, as kernels are chosen for it; the device runs on all of its own),
 *   shared, memory, buffer_size, fp16, bf16, fp8, subgroups, matrix, async_matrix, loop_iterations, bounded_span,
 *   cpu (0: a CPU device is given the kernels that are made for GPUs),
 *   list_commands (commands of one native submission), pooled (largest buffer that shares an allocation with others;
 *   0: each has its own, whose bounds a checking driver can watch), first_point (start of the submission counter). A
 *   value above the real limit is refused.
 */
typedef enum hal_fault { HAL_FAULT_ALLOC, HAL_FAULT_SUBMIT, HAL_FAULT_COMPILE, HAL_FAULT_LOST } hal_fault;
HAL_API hal_status hal_device_inject_fault(hal_device *device, hal_fault fault, uint64_t nth);

#ifdef __cplusplus
}
#endif
#endif
