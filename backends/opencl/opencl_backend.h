/* opencl_backend.h - the native objects, and what the files of this backend share.
 *
 * Queue. One in-order queue a stream. Measured on PoCL 3.1 with 1000 one-item kernels in 201 interleaved rounds, an
 * out-of-order queue takes 0.89 to 1.01 of an in-order one's time, and order then has to be bought back:
 * clEnqueueBarrierWithWaitList takes over 100 us a barrier (it waits for every command that is pending, so n of them
 * cost n^2), and markers over wait lists of 64 events add 8 us a kernel. An in-order queue makes every barrier free,
 * and it is the path that GPU drivers tune. Independent work overlaps by streams.
 *
 * Recorded lists are kernel objects with their arguments set, enqueued one by one. cl_khr_command_buffer is not used:
 * on PoCL 3.1 its replay takes 5 to 14 us a kernel against 2 to 3, and no driver at hand can change its arguments.
 */
#ifndef HAL_OPENCL_BACKEND_H
#define HAL_OPENCL_BACKEND_H

#include <pthread.h>

#include "driver.h"

struct hal_native_device {
    hal_core *core;
    opencl_driver cl;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue maps;     /* for map, unmap and migration, apart from the streams */
    uint32_t version;          /* 10 * major + minor of the device */
    uint32_t platform_version; /* the same of the platform */
    uint32_t c_version;        /* newest OpenCL C */
    uint32_t max_work_group_size;
    uint64_t local_memory_size;
    uint64_t memory_size;
    bool priorities;
    bool uneven_groups; /* the compiler must be told that groups never are */
    bool spirv;
    char *cache_identity;                   /* device, driver and platform, for cache keys */
    atomic_uint_fast64_t allocated;         /* bytes of buffers, against memory_size */
    atomic_uint_fast64_t next_id;           /* of memories */
    atomic_uint_fast64_t destroyed_kernels; /* streams drop their clones of them */
};

/* A sub-buffer for the PLAIN kernel form. The memory's table holds one reference and each launch that has it as an
 * argument another one, so that only idle views are evicted. `mem` goes with the memory, the struct with the last
 * reference. */
typedef struct opencl_view opencl_view;
struct opencl_view {
    opencl_view *next;
    uint64_t offset, size;
    cl_mem mem;
    atomic_uint references;
};

#define OPENCL_VIEW_BUCKETS 256

struct hal_native_memory {
    hal_native_device *device;
    hal_native_memory_kind kind;
    uint64_t id; /* never used twice, unlike the address of this struct */
    uint64_t size;
    cl_mem mem;           /* NULL for STAGING */
    uint8_t *host;        /* STAGING only */
    pthread_mutex_t lock; /* the views */
    opencl_view **views;  /* OPENCL_VIEW_BUCKETS lists; NULL until the first view */
    uint32_t view_count;
    uint32_t view_limit; /* evict idle views when this many exist */
};

/* A view of [offset, offset + size), with a reference for the caller. */
hal_status hal_opencl_view_acquire(hal_native_memory *memory, uint64_t offset, uint64_t size, opencl_view **view);
void hal_opencl_view_release(opencl_view *view);

struct hal_native_kernel {
    hal_native_device *device;
    cl_program program; /* clones are made from it */
    char *entry;
    hal_abi abi;
    uint32_t binding_count, args_size;
    size_t group[3];
    atomic_uint references; /* the owner and each clone */
    atomic_bool destroyed;
};

void hal_opencl_kernel_release(hal_native_kernel *kernel);

#define OPENCL_RECENT_VIEWS 64

/* What one argument of a launch is set to, or a view that a stream used lately. id 0: nothing yet. */
typedef struct opencl_argument {
    uint64_t id, offset, size;
    opencl_view *view; /* NULL where the whole memory is bound */
} opencl_argument;

/* A cl_kernel of one stream or one recorded command, with the arguments it holds: a cl_kernel's arguments are state, so
 * that it cannot be shared, and setting what is set already can be left out. */
typedef struct opencl_launch {
    hal_native_kernel *kernel;
    cl_kernel handle;
    bool args_set;
    opencl_argument arguments[HAL_MAX_BINDINGS];
    uint8_t args[HAL_MAX_ARGS];
} opencl_launch;

hal_status hal_opencl_launch_init(opencl_launch *launch, hal_native_kernel *kernel);
void hal_opencl_launch_finish(opencl_launch *launch);
/* `recent` is NULL, or a stream's table of OPENCL_RECENT_VIEWS that spares the memory's lock. */
hal_status hal_opencl_launch_bind(opencl_launch *launch, uint32_t index, const hal_native_span *span,
                                  opencl_argument *recent);
hal_status hal_opencl_launch_args(opencl_launch *launch, const void *args);
/* `event` of these three is NULL unless the command's event is wanted. */
hal_status hal_opencl_launch_enqueue(opencl_launch *launch, cl_command_queue queue, const uint32_t grid[3],
                                     cl_event *event);
hal_status hal_opencl_copy(hal_native_device *device, cl_command_queue queue, const hal_native_span *dst,
                           const hal_native_span *src, cl_event *event);
hal_status hal_opencl_fill(hal_native_device *device, cl_command_queue queue, const hal_native_span *dst,
                           uint32_t pattern, uint32_t pattern_size, cl_event *event);

/* Wakes the threads that wait on a stream. Event callbacks hold a reference: they may come after the stream has gone.
 */
typedef struct opencl_signal {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_uint references;
} opencl_signal;

typedef struct opencl_mark {
    uint64_t point;
    uint64_t commands; /* enqueued before it, in all */
    cl_event event;
    bool watched; /* an event callback is set */
} opencl_mark;

#define OPENCL_MARKS              1024  /* unfinished marks a stream may have */
#define OPENCL_COMMANDS_IN_FLIGHT 32768 /* and commands: a driver keeps some 500 bytes for each */

struct hal_native_stream {
    hal_native_device *device;
    cl_command_queue queue;
    cl_command_queue untimed; /* the queue before the first timestamp, else NULL */
    int priority;
    uint64_t enqueued;              /* commands, in all */
    atomic_uint_fast64_t retired;   /* of these, known to be done */
    atomic_uint_fast64_t completed; /* point */
    uint64_t last_point;            /* marked */
    cl_event tail;                  /* of the last command, or NULL: then a mark takes a marker */
    uint64_t marked;                /* commands before the last mark */
    opencl_signal *signal;
    pthread_mutex_t lock; /* the ring of marks; `failed` */
    opencl_mark marks[OPENCL_MARKS];
    uint32_t first_mark, mark_count;
    cl_int failed;                               /* the code of the event that failed, else 0 */
    opencl_argument recent[OPENCL_RECENT_VIEWS]; /* by a hash of the span */
    opencl_launch *latest;
    opencl_launch **launches; /* open addressing by kernel; capacity is 0 or a power of two */
    uint32_t launch_count, launch_capacity;
    uint64_t destroyed_kernels; /* the device's count when dead clones were last dropped */
};

/* The stream's clone of a kernel, made at the first use. */
hal_status hal_opencl_launch_find(hal_native_stream *stream, hal_native_kernel *kernel, opencl_launch **launch);
/* Free the clones of destroyed kernels, or all. */
void hal_opencl_launch_drop_destroyed(hal_native_stream *stream);
void hal_opencl_launch_free_all(hal_native_stream *stream);
/* Make room for `commands` more that are about to be enqueued, waiting at most core->submit_timeout. */
hal_status hal_opencl_stream_reserve(hal_native_stream *stream, uint32_t commands);
/* Wait for one event: HAL_OK, HAL_TIMEOUT, or HAL_ERROR_DEVICE_LOST if its command failed. */
hal_status hal_opencl_event_wait(hal_native_device *device, cl_event event, uint64_t timeout);

/* The members of the vtable, by file. */
hal_status hal_opencl_enumerate(hal_found_fn found, void *user);
hal_status hal_opencl_device_open(uint32_t index, hal_core *core, hal_native_device **device, hal_device_info *info);
void hal_opencl_device_close(hal_native_device *device);

hal_status hal_opencl_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                                    hal_native_memory **memory);
void hal_opencl_memory_destroy(hal_native_memory *memory);
hal_status hal_opencl_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                                 void **pointer);
hal_status hal_opencl_memory_unmap(hal_native_memory *memory, void *pointer);

hal_status hal_opencl_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **module);
void hal_opencl_module_destroy(hal_native_module *module);
hal_status hal_opencl_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                                    hal_native_kernel **kernel, hal_kernel_limits *limits);
void hal_opencl_kernel_destroy(hal_native_kernel *kernel);

hal_status hal_opencl_stream_create(hal_native_device *device, int priority, const char *label,
                                    hal_native_stream **stream);
void hal_opencl_stream_destroy(hal_native_stream *stream);
hal_status hal_opencl_stream_execute(hal_native_stream *stream, const hal_command *command);
hal_status hal_opencl_stream_mark(hal_native_stream *stream, uint64_t point);
hal_status hal_opencl_stream_completed(hal_native_stream *stream, uint64_t *point);
hal_status hal_opencl_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout);
hal_status hal_opencl_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point);
hal_status hal_opencl_event_create(hal_native_device *device, hal_native_event **event);
void hal_opencl_event_destroy(hal_native_event *event);
hal_status hal_opencl_event_record(hal_native_event *event, hal_native_stream *stream);
hal_status hal_opencl_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds);

hal_status hal_opencl_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **list);
void hal_opencl_list_destroy(hal_native_list *list);
hal_status hal_opencl_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values);
uint64_t hal_opencl_list_builds(const hal_native_list *list);

#endif
