/* backend.h - the one internal interface between hal/ and the backends.
 *
 * hal/ has checked every argument, resolved spans to native memory, derived hazards, and applied limits and fault
 * injection before it calls in here; a backend only lowers. Each backend defines the struct hal_native_* types itself.
 *
 * Threads: hal/ serialises all calls on one stream except stream_completed and stream_wait, which may come from any
 * thread at any time and must not hold up the others. Calls on different objects may run at once (so a VkQueue, for
 * example, needs the backend's own lock). list_submit calls of one list are serialised by hal/.
 *
 * Errors: return hal_fail(code, "vulkan: vkFoo: ...") with what, where and which value. A lost device is
 * HAL_ERROR_DEVICE_LOST from whatever call notices; hal/ makes it sticky. Nothing blocks but stream_wait, and a
 * submission that finds the queue full, which waits at most core->submit_timeout and then returns HAL_TIMEOUT.
 */
#ifndef HAL_BACKEND_H
#define HAL_BACKEND_H

#include <hal/hal.h>

#include "core.h"

typedef struct hal_native_device hal_native_device;
typedef struct hal_native_memory hal_native_memory;
typedef struct hal_native_module hal_native_module;
typedef struct hal_native_kernel hal_native_kernel;
typedef struct hal_native_stream hal_native_stream;
typedef struct hal_native_event hal_native_event;
typedef struct hal_native_list hal_native_list;

typedef enum hal_native_memory_kind {
    HAL_NATIVE_DEVICE,
    HAL_NATIVE_HOST,
    HAL_NATIVE_UNIFIED,
    HAL_NATIVE_IMPORT, /* `host` is the page-aligned memory to import, size a multiple of the page */
    HAL_NATIVE_STAGING /* for copies to and from the host: *host is a pointer that stays valid, never bound to a kernel
                        */
} hal_native_memory_kind;

#define HAL_NO_SLOT UINT32_MAX

/* Bytes [offset, offset + size) of native memory. In a recorded list memory may be NULL with a slot: the place is then
 * [bindings[slot].offset + offset, + size) of bindings[slot].memory, size HAL_REST meaning the rest of the binding. */
typedef struct hal_native_span {
    hal_native_memory *memory;
    uint64_t offset;
    uint64_t size;
    uint32_t slot;
    uint32_t number; /* tells memory apart that lies where freed memory lay; spans are compared as bytes */
} hal_native_span;

typedef enum hal_command_kind { HAL_COMMAND_DISPATCH, HAL_COMMAND_COPY, HAL_COMMAND_FILL } hal_command_kind;

/* One command, immediate or recorded. Sizes are never 0 and grids never exceed the limits. Copies may have STAGING
 * memory on one side. */
typedef struct hal_command {
    hal_command_kind kind;
    bool barrier;      /* earlier commands of the list (or stream) must be done and visible first */
    const char *label; /* lives as long as the list; for immediate commands only during the call */
    union {
        struct {
            hal_native_kernel *kernel;
            uint32_t grid[3];
            uint32_t span_count;
            uint32_t args_size;
            const hal_native_span *spans;
            const void *args; /* immediate: valid during the call only */
        } dispatch;
        struct {
            hal_native_span dst, src;
        } copy; /* equal sizes; a slot's HAL_REST has been replaced unless both sides are slots */
        struct {
            hal_native_span dst;
            uint32_t pattern; /* the 1, 2 or 4 bytes repeated to 4 */
            uint32_t pattern_size;
        } fill;
    };
} hal_command;

/* A scalar that each submit may set: the 4 bytes at args_offset of the dispatch `command`. */
typedef struct hal_list_scalar {
    uint32_t command;
    uint32_t args_offset;
    uint32_t index;
} hal_list_scalar;

/* A recorded segment. All pointers stay valid until list_destroy. Command i waits for deps[dep_start[i] ..
 * dep_start[i + 1]) (indices of earlier commands); `barrier` flags say the same, coarser, for APIs without edges. */
typedef struct hal_list_program {
    const hal_command *commands;
    uint32_t command_count;
    const uint32_t *dep_start; /* command_count + 1 entries */
    const uint32_t *deps;
    const hal_list_scalar *scalars;
    uint32_t scalar_count;
    uint32_t slot_count;
    const char *label;
} hal_list_program;

/* What one submission binds. scalars is NULL when the recorded values stand. The arrays live during the call only. */
typedef struct hal_list_values {
    const hal_native_span *bindings; /* slot_count entries */
    const uint32_t *scalars;
    uint64_t serial; /* changes whenever bindings or scalars differ from the list's previous submission */
} hal_list_values;

typedef struct hal_kernel_limits {
    uint32_t max_group_size; /* of this kernel on this device */
} hal_kernel_limits;

typedef void (*hal_found_fn)(void *user, const hal_device_info *info);

typedef struct hal_backend {
    const char *name;
    /* Call found() for each device in index order, or fail with the reason that there is none (driver library not
     * found, no device, too old: distinct messages). */
    hal_status (*enumerate)(hal_found_fn found, void *user);
    /* Open device `index`. *info is filled as by enumerate. */
    hal_status (*device_open)(uint32_t index, hal_core *core, hal_native_device **device, hal_device_info *info);
    void (*device_close)(hal_native_device *device); /* nothing is pending and all objects are destroyed */
    bool ordered; /* a stream runs its commands one after the other by itself: hal_command.barrier is not needed */
    /* kernel_create picks the entry NAME__V0_V1_... by the constants' values; else it sets them. */
    bool constants_in_names;

    hal_status (*memory_create)(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                                hal_native_memory **memory);
    void (*memory_destroy)(hal_native_memory *memory);
    hal_status (*memory_map)(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                             void **pointer);
    hal_status (*memory_unmap)(hal_native_memory *memory, void *pointer);

    hal_status (*module_create)(hal_native_device *device, const hal_module_desc *desc, hal_native_module **module);
    void (*module_destroy)(hal_native_module *module);
    hal_status (*kernel_create)(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                                hal_native_kernel **kernel, hal_kernel_limits *limits);
    void (*kernel_destroy)(hal_native_kernel *kernel);

    hal_status (*stream_create)(hal_native_device *device, int priority, const char *label, hal_native_stream **stream);
    void (*stream_destroy)(hal_native_stream *stream);
    /* Enqueue one command; it may be held back until the next mark. */
    hal_status (*stream_execute)(hal_native_stream *stream, const hal_command *command);
    /* Name the point reached by everything enqueued so far (points rise) and hand it all to the device. */
    hal_status (*stream_mark)(hal_native_stream *stream, uint64_t point);
    /* The highest point passed, without waiting. */
    hal_status (*stream_completed)(hal_native_stream *stream, uint64_t *point);
    /* HAL_OK once `point` (marked before) is passed, HAL_TIMEOUT after `timeout` ns; 0 asks. */
    hal_status (*stream_wait)(hal_native_stream *stream, uint64_t point, uint64_t timeout);
    /* What is enqueued on `stream` from now on waits on the device until `other` passes its (marked) point. */
    hal_status (*stream_wait_point)(hal_native_stream *stream, hal_native_stream *other, uint64_t point);

    /* Device timestamps. record enqueues one: it is valid when a point marked after it is passed. */
    hal_status (*event_create)(hal_native_device *device, hal_native_event **event);
    void (*event_destroy)(hal_native_event *event);
    hal_status (*event_record)(hal_native_event *event, hal_native_stream *stream);
    hal_status (*event_elapsed)(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds);

    /* Recorded segments. A submission runs in stream order: after what the stream holds, before what follows. */
    hal_status (*list_create)(hal_native_device *device, const hal_list_program *program, hal_native_list **list);
    void (*list_destroy)(hal_native_list *list); /* no submission is pending */
    hal_status (*list_submit)(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values);
    uint64_t (*list_builds)(const hal_native_list *list); /* native objects built so far */
} hal_backend;

extern const hal_backend hal_backend_cuda;
extern const hal_backend hal_backend_opencl;
extern const hal_backend hal_backend_vulkan;

#endif
