/* cuda_backend.h - the CUDA backend's objects.
 *
 *   hal_device  primary context       hal_stream  CUstream, and a ring of CUevents for its points
 *   hal_buffer  device pointer        hal_event   CUevent with timing
 *   hal_module  CUmodule              hal_cmdlist CUgraph, instantiated once; rebinding sets node parameters
 */
#ifndef HAL_CUDA_BACKEND_H
#define HAL_CUDA_BACKEND_H

#include "backend.h"
#include "driver.h"
#include <pthread.h>

/* Commands of one stream that are not known to be done. The driver's own queue holds about a thousand entries and then
 * blocks for as long as it takes; so libhal waits first, with a deadline. Between two marks there is a command at
 * least, and a mark at least every quarter of the queue: a mark always finds room. */
#define CUDA_QUEUE 512
#define CUDA_MARKS (CUDA_QUEUE + 8)

typedef struct cuda_nvrtc cuda_nvrtc;

/* Host memory registered with the driver; imports that lie within it share it. */
typedef struct cuda_import {
    struct cuda_import *next;
    uint8_t *host;
    uint64_t size;
    nv_ptr pointer;
    uint32_t refs;
} cuda_import;

struct hal_native_device {
    cuda_driver driver;
    hal_core *core;
    nv_device handle;
    nv_context context;
    uint32_t compute_capability;
    uint32_t max_shared;
    int priority_least, priority_greatest;
    bool managed; /* host and device may use managed memory at the same time */
    char key[64]; /* driver and architecture, for cache keys */
    pthread_mutex_t lock;
    cuda_import *imports;
    cuda_nvrtc *nvrtc; /* loaded when first needed */
};

struct hal_native_memory {
    hal_native_device *device;
    hal_native_memory_kind kind;
    nv_ptr pointer;
    uint8_t *host;
    uint64_t size;
    cuda_import *import;
};

struct hal_native_module {
    hal_native_device *device;
    nv_module image; /* from cubin or PTX; NULL: there is only source */
    char *source;    /* CUDA C, compiled for each set of constants */
    char *options;
    char *label;
};

struct hal_native_kernel {
    hal_native_module *module;
    nv_module image; /* its own, compiled from source; NULL: the module's */
    nv_function function;
    uint32_t group[3];
    uint32_t dynamic_shared;
};

typedef struct cuda_mark {
    uint64_t point;
    uint64_t commands; /* enqueued up to here */
    nv_event event;
} cuda_mark;

struct hal_native_stream {
    hal_native_device *device;
    nv_stream handle;
    /* For the thread that enqueues: commands so far, of them before the last mark and its point, known to be done. */
    uint64_t enqueued, marked, last_point, seen_done;
    pthread_mutex_t lock; /* everything below: waits come from any thread */
    cuda_mark marks[CUDA_MARKS];
    uint32_t first, count;
    nv_event spare[CUDA_MARKS]; /* events that no mark uses */
    uint32_t spare_count;
    uint64_t completed; /* point */
    uint64_t done;      /* commands */
};

struct hal_native_event {
    hal_native_device *device;
    nv_event handle;
};

/* Every entry brackets its work: the context is made current if it is not, and the caller's comes back. */
hal_status cuda_enter(hal_native_device *device, bool *pushed);
void cuda_leave(hal_native_device *device, bool pushed);
/* For destructors, which cannot fail: tell the log. */
void cuda_check_destroy(hal_native_device *device, nv_result result, const char *call);

hal_status cuda_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                              hal_native_memory **memory);
void cuda_memory_destroy(hal_native_memory *memory);
hal_status cuda_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                           void **pointer);
hal_status cuda_memory_unmap(hal_native_memory *memory, void *pointer);

hal_status cuda_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **module);
void cuda_module_destroy(hal_native_module *module);
hal_status cuda_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                              hal_native_kernel **kernel, hal_kernel_limits *limits);
void cuda_kernel_destroy(hal_native_kernel *kernel);

/* CUDA C to a cubin for the device or, with ptx, to PTX with its NUL; through NVRTC and the cache. *image is malloc'ed.
 */
hal_status cuda_nvrtc_load(hal_native_device *device);
void cuda_nvrtc_free(cuda_nvrtc *nvrtc);
hal_status cuda_nvrtc_compile(hal_native_device *device, const hal_native_module *module, const hal_kernel_desc *desc,
                              bool ptx, void **image, size_t *size);

hal_status cuda_stream_create(hal_native_device *device, int priority, const char *label, hal_native_stream **stream);
void cuda_stream_destroy(hal_native_stream *stream);
hal_status cuda_stream_execute(hal_native_stream *stream, const hal_command *command);
hal_status cuda_stream_mark(hal_native_stream *stream, uint64_t point);
hal_status cuda_stream_completed(hal_native_stream *stream, uint64_t *point);
hal_status cuda_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout);
hal_status cuda_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point);
/* Wait, at most core->submit_timeout, until one more command fits. The context is current. */
hal_status cuda_stream_reserve(hal_native_stream *stream);

hal_status cuda_event_create(hal_native_device *device, hal_native_event **event);
void cuda_event_destroy(hal_native_event *event);
hal_status cuda_event_record(hal_native_event *event, hal_native_stream *stream);
hal_status cuda_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds);

hal_status cuda_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **list);
void cuda_list_destroy(hal_native_list *list);
hal_status cuda_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values);
uint64_t cuda_list_builds(const hal_native_list *list);

/* Lowering, shared by immediate commands and lists: a command's spans as addresses. values is NULL for immediate ones.
 */
nv_ptr cuda_span_address(const hal_native_span *span, const hal_list_values *values);
uint64_t cuda_span_size(const hal_native_span *span, const hal_list_values *values);

/* A dispatch's parameters as the driver takes them: a pointer to each. `args` as in the command, or a changed copy. */
typedef struct cuda_params {
    nv_ptr spans[HAL_MAX_BINDINGS];
    void *list[HAL_MAX_BINDINGS + 1];
} cuda_params;
void cuda_params_fill(cuda_params *params, const hal_command *command, const void *args, const hal_list_values *values);

#endif
