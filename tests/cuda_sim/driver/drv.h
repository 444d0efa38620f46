/* drv.h - inside the driver half of the stand-in libcuda.so.1.
 *
 * Memory is host memory, every stream is a thread, graphs run their nodes in the most awkward order that their edges
 * allow, and each handle, context, address and limit is checked. Kernels are run by exec/ (sim_api.h).
 *
 *   control.c   the lock, checks of handles, call counts, injected failures, what a test can ask
 *   settings.c  environment and device profiles
 *   device.c    start, errors' names, devices    context.c  contexts    entry.c  cuGetProcAddress
 *   memory.c    allocations, copies, fills       module.c   images and their functions
 *   function.c  attributes, limits, launches     work.c     what streams and graphs run
 *   stream.c    streams     event.c  events      graph.c    graphs      exec.c   executable graphs
 *   counters.c  counters by kernel               tensor_map.c
 *
 * Everything is called with the lock held, unless it says otherwise. */
#ifndef DRV_H
#define DRV_H

#include "../exec/sim_api.h"
#include "../ptx/ptx.h"
#include "cuda_sim.h"
#include "extra.h"
#include <pthread.h>

#define NV_FUNCTION(name, params) __attribute__((visibility("default"))) nv_result name params;
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
#include "extra.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL

/* --- settings.c --- */
enum {
    DRV_SHARED_DEFAULT = 48 * 1024, /* of a block, without cuFuncSetAttribute */
    DRV_SHARED_RESERVED = 1024,     /* of a block, by the system: compute capability 8.0 and later */
    DRV_REGISTERS = 65536,          /* of a multiprocessor, and at most of a block */
    DRV_THREADS_PER_SM = 2048,
    DRV_BLOCKS_PER_SM = 32,
    DRV_MAX_THREADS = 1024,
    DRV_PORTABLE_CLUSTER = 8,
    DRV_MAX_CLUSTER = 16
};
typedef struct drv_profile {
    const char *name, *device;
    int major, minor, multiprocessors;
    int shared_per_sm, shared_optin, l2_bytes;
    int clock_khz, memory_khz, bus_bits;
    bool clusters; /* and tensor maps */
} drv_profile;
typedef struct drv_settings {
    const drv_profile *profile; /* NULL: an unknown one was asked for */
    int devices, version;
    size_t memory; /* bytes of each device */
    bool report, broken;
    sim_options options;
} drv_settings;
extern drv_settings drv_set;
void drv_settings_read(void); /* once, when the library is loaded */

/* --- objects --- */
typedef enum drv_kind {
    DRV_CONTEXT,
    DRV_ALLOCATION,
    DRV_STREAM,
    DRV_EVENT,
    DRV_MODULE,
    DRV_FUNCTION,
    DRV_GRAPH,
    DRV_NODE,
    DRV_EXEC
} drv_kind;

/* First member of every object. The memory of dead objects is kept for a while, so that the use of a dead handle is
 * seen. */
typedef struct drv_object {
    drv_kind kind;
    bool alive;
    struct drv_context *context;
    struct drv_object *next;
} drv_object;

typedef struct drv_context {
    drv_object object;
    int device;
    unsigned live;    /* objects in it */
    unsigned streams; /* threads of streams that have not ended */
    bool closing;
    nv_result sticky;
    struct drv_stream *first_stream;
} drv_context;

typedef enum drv_memory_kind {
    DRV_DEVICE_MEMORY,
    DRV_HOST_MEMORY,
    DRV_MANAGED_MEMORY,
    DRV_REGISTERED,
    DRV_GLOBALS /* of a module */
} drv_memory_kind;

typedef struct drv_allocation {
    drv_object object;
    drv_memory_kind kind;
    uint8_t *pointer;
    size_t size;
    struct drv_allocation *next_doomed;
} drv_allocation;

/* A loaded PTX module; launches in flight keep it. */
typedef struct drv_image {
    unsigned refs;
    uint64_t hash, size; /* of its text */
    ptx_module *code;
    struct drv_image *next;
} drv_image;

typedef struct drv_module {
    drv_object object;
    drv_image *image;
    struct drv_function *functions; /* those that were asked for */
    drv_allocation *globals;
} drv_module;

typedef struct drv_function {
    drv_object object;
    struct drv_function *next;
    drv_image *image;
    const ptx_function *code;
    uint32_t max_dynamic_shared;
    uint32_t cluster[3]; /* required, by PTX or cuFuncSetAttribute; 0: none */
    bool non_portable_cluster;
    int carveout;
} drv_function;

typedef struct drv_launch {
    unsigned refs;
    drv_image *image;
    const ptx_function *code;
    uint32_t grid[3], block[3], cluster[3], dynamic_shared; /* cluster: 0 unless the launch or node says it */
    uint8_t params[];
} drv_launch;

/* Completion of something, shared by those who wait for it. */
typedef struct drv_marker {
    unsigned refs;
    bool done;
    uint64_t time;
} drv_marker;

typedef struct drv_event {
    drv_object object;
    bool timing;
    drv_marker *marker; /* of the latest record */
} drv_event;

typedef enum drv_work_kind {
    DRV_NOTHING,
    DRV_LAUNCH,
    DRV_COPY,
    DRV_FILL,
    DRV_HOST,
    DRV_RECORD, /* of a graph: an event */
    DRV_AWAIT,
    DRV_WAIT_VALUE,
    DRV_WRITE_VALUE
} drv_work_kind;
typedef struct drv_work {
    drv_work_kind kind;
    union {
        drv_launch *launch;
        struct {
            uint8_t *dst;
            const uint8_t *src;
            size_t size;
        } copy;
        struct {
            uint8_t *dst;
            uint32_t value, element_size;
            size_t count;
        } fill;
        nv_host_node host;
        drv_event *event;
        struct {
            nv_ptr address;
            uint64_t value;
            unsigned flags, bytes;
        } word;
    };
} drv_work;

typedef struct drv_node {
    drv_object object;
    struct drv_graph *graph;
    uint32_t index;
    drv_work work;
    uint32_t dep_count;
    uint32_t *deps;
} drv_node;

typedef struct drv_graph {
    drv_object object;
    uint32_t count, capacity;
    drv_node **nodes;
} drv_graph;

/* What a launch runs: shared by the executable graph and its launches in flight; changed by copy. */
typedef struct drv_body {
    unsigned refs;
    uint32_t count;
    drv_work *work;
    uint32_t *dep_start, *deps;
} drv_body;

typedef struct drv_exec {
    drv_object object;
    drv_graph *graph;
    drv_body *body;
    drv_marker *last; /* the latest launch */
} drv_exec;

typedef enum drv_op_kind { DRV_OP_WORK, DRV_OP_RECORD, DRV_OP_WAIT, DRV_OP_GRAPH } drv_op_kind;
typedef struct drv_op {
    struct drv_op *next;
    drv_op_kind kind;
    drv_work work;
    drv_marker *wait, *signal;
    drv_body *body;
} drv_op;

typedef struct drv_stream {
    drv_object object;
    struct drv_stream *next_in_context;
    pthread_cond_t told; /* there is something to do */
    drv_op *head, **tail;
    bool stop;
} drv_stream;

/* --- control.c --- */
extern pthread_mutex_t drv_lock;
extern pthread_cond_t drv_moved; /* a marker is done, an operation is over or a stream has ended */

enum { DRV_NEEDS_NOTHING = 0, DRV_NEEDS_INIT = 1, DRV_NEEDS_CONTEXT = 2 };
/* Takes the lock, counts the call, and says whether it may go on: else it has let go of the lock again. */
nv_result drv_enter(const char *function, unsigned *number, int needs);
nv_result drv_leave(nv_result result); /* lets go of the lock */
#define DRV_ENTER(needs)                                                                                               \
    do {                                                                                                               \
        static unsigned number; /* of the function, once it is known */                                                \
        nv_result entered = drv_enter(__func__, &number, (needs));                                                     \
        if (entered != NV_SUCCESS) {                                                                                   \
            return entered;                                                                                            \
        }                                                                                                              \
    } while (0)

nv_result drv_start(void); /* cuInit */
nv_result drv_misuse(nv_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A kernel's fault: noted as a misuse too, and said on stderr if HAL_CUDA_SIM_REPORT is set. */
nv_result drv_fault(const sim_fault *fault);
bool drv_is_sticky(nv_result result);
void drv_break(drv_context *context, nv_result result);
/* Between these two the thread runs a host function, which may not call the driver. Without the lock. */
void drv_callback_begin(void);
void drv_callback_end(void);

void *drv_alloc(size_t size); /* zeroed; never NULL */
void *drv_new(size_t size, drv_kind kind, drv_context *context);
void drv_die(drv_object *object);  /* its handle is no longer good */
void drv_bury(drv_object *object); /* and its memory goes, some time */
/* NV_SUCCESS if `handle` is a live object of that kind in the current context. */
nv_result drv_check(const void *handle, drv_kind kind, const char *function);

/* --- context.c --- */
drv_context *drv_current(void);
nv_result drv_check_device(int device);

/* --- memory.c --- */
drv_allocation *drv_note(drv_memory_kind kind, void *pointer, size_t size);
void drv_forget(drv_allocation *allocation);
/* Free the memory that a closed context left behind. */
void drv_memory_close(const drv_context *context);
/* Memory that is freed while work runs goes once nothing runs any more, as that work may reach it. */
void drv_memory_running(int change);
/* The live allocation that holds [pointer, pointer + size). */
drv_allocation *drv_find(const void *pointer, size_t size);
/* NULL if a device may not touch this. Without the lock. */
void *drv_reach(nv_ptr pointer, uint64_t size);
/* All that a kernel may reach; free() it. Without the lock. */
sim_range *drv_ranges(size_t *count);

/* --- module.c --- */
void drv_image_drop(drv_image *image);

/* --- work.c --- */
void drv_work_keep(const drv_work *work); /* one more owner */
void drv_work_drop(const drv_work *work);
/* Run one piece of work. Without the lock. */
nv_result drv_work_run(const drv_work *work, const drv_context *context);
nv_result drv_work_launch(drv_work *work, nv_function function, const unsigned *grid, const unsigned *block,
                          unsigned shared, const unsigned *cluster, void **params);
nv_result drv_work_copy(drv_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function);
nv_result drv_work_fill(drv_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                        const char *function);
/* NV_SUCCESS if the grid can be split so; cluster of 0: none. */
nv_result drv_check_cluster(const char *name, const unsigned *grid, const unsigned *cluster, bool non_portable);

/* --- stream.c, event.c --- */
uint64_t drv_now(void); /* ns */
drv_marker *drv_marker_new(void);
drv_marker *drv_marker_ref(drv_marker *marker);
void drv_marker_drop(drv_marker *marker);
void drv_marker_finish(drv_marker *marker);
drv_op *drv_push(drv_stream *stream, drv_op_kind kind);
/* Wait until the streams of a closing context have ended. */
void drv_streams_end(drv_context *context);

/* --- exec.c --- */
void drv_body_drop(drv_body *body);
/* Without the lock. */
nv_result drv_body_run(const drv_body *body, const drv_context *context);
nv_result drv_take_kernel(drv_work *work, const nv_kernel_node *params, const unsigned *cluster);
nv_result drv_take_copy(drv_work *work, const nv_memcpy3d *params, nv_context context);
nv_result drv_take_fill(drv_work *work, const nv_memset_node *params, nv_context context);

/* --- counters.c --- */
void drv_counters_add(const char *kernel, const sim_counters *counters); /* Without the lock. */

#endif
