/* drv.h - inside the cuda_sim.so.1, which lets the CUDA backend's tests run where there is no GPU.
 *
 * It is a driver in order, arguments and lifetimes only: memory is host memory, every stream is a thread, graphs run
 * their nodes in the most awkward order that their edges allow, and each handle, context and address is checked. It
 * does not execute PTX: it reads the names and parameters of the entries, and runs the C functions of drv_kernels.c by
 * name. So it says nothing about any kernel, nor about speed. */
#ifndef DRV_H
#define DRV_H

#include "../../../backends/cuda/driver.h"
#include "cuda_sim.h"
#include <pthread.h>

#define NV_FUNCTION(name, params) __attribute__((visibility("default"))) nv_result name params;
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL

#define DRV_MAX_PARAMS      32
#define DRV_MAX_PARAM_BYTES 512

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
    unsigned live; /* objects in it */
    nv_result sticky;
} drv_context;

typedef enum drv_memory_kind { DRV_DEVICE_MEMORY, DRV_HOST_MEMORY, DRV_MANAGED_MEMORY, DRV_REGISTERED } drv_memory_kind;

typedef struct drv_allocation {
    drv_object object;
    drv_memory_kind kind;
    uint8_t *pointer;
    size_t size;
    int device;
} drv_allocation;

typedef struct drv_module {
    drv_object object;
    struct drv_function *functions;
} drv_module;

typedef struct drv_launch drv_launch;
/* A kernel in C: returns NV_SUCCESS, or what the device would fail with. */
typedef nv_result (*drv_run)(const drv_launch *launch);

typedef struct drv_function {
    drv_object object;
    struct drv_function *next;
    char name[128];
    uint32_t param_count;
    size_t param_offset[DRV_MAX_PARAMS], param_size[DRV_MAX_PARAMS];
    uint32_t max_threads;
    uint32_t max_dynamic_shared;
    drv_run run; /* NULL: there is no C function of that name */
} drv_function;

struct drv_launch {
    const drv_function *function;
    uint32_t grid[3], block[3];
    uint8_t params[DRV_MAX_PARAM_BYTES];
};

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

typedef struct drv_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t size;
} drv_copy;

typedef struct drv_fill {
    uint8_t *dst;
    uint32_t value, element_size;
    size_t count;
} drv_fill;

typedef enum drv_work_kind { DRV_LAUNCH, DRV_COPY, DRV_FILL, DRV_NOTHING } drv_work_kind;
typedef struct drv_work {
    drv_work_kind kind;
    union {
        drv_launch launch;
        drv_copy copy;
        drv_fill fill;
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
    pthread_t thread;
    pthread_cond_t told; /* there is something to do */
    drv_op *head, **tail;
    bool stop;
} drv_stream;

/* Everything below is called with the lock held, unless it says otherwise. */
extern pthread_mutex_t drv_lock;
extern pthread_cond_t drv_moved; /* a marker is done */

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

drv_context *drv_current(void);
nv_result drv_misuse(nv_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool drv_is_sticky(nv_result result);
void drv_break(drv_context *context, nv_result result);

void *drv_new(size_t size, drv_kind kind, drv_context *context);
void drv_bury(drv_object *object);
/* NV_SUCCESS if `handle` is a live object of that kind in the current context. */
nv_result drv_check(const void *handle, drv_kind kind, const char *function);

size_t drv_total_memory(void);
int drv_version(void);
/* Free the memory that a closed context left behind. */
void drv_memory_close(const drv_context *context);
/* The live allocation that holds [pointer, pointer + size). */
drv_allocation *drv_find(const void *pointer, size_t size);
/* For kernels, without the lock: the memory, or NULL if a kernel may not touch it. */
void *drv_reach(nv_ptr pointer, uint64_t size);

drv_marker *drv_marker_new(void);
drv_marker *drv_marker_ref(drv_marker *marker);
void drv_marker_drop(drv_marker *marker);
drv_op *drv_push(drv_stream *stream, drv_op_kind kind);
/* Run one piece of work. Without the lock. */
nv_result drv_work_run(const drv_work *work);

nv_result drv_work_launch(drv_work *work, nv_function function, const unsigned *grid, const unsigned *block,
                          unsigned shared, void **params);
nv_result drv_work_copy(drv_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function);
nv_result drv_work_fill(drv_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                        const char *function);

void drv_body_drop(drv_body *body);
/* Without the lock. */
nv_result drv_body_run(const drv_body *body);

/* drv_kernels.c: NULL if there is no such kernel. */
typedef struct drv_kernel {
    const char *name;
    uint32_t spans, args_size;
    drv_run run;
} drv_kernel;
const drv_kernel *drv_kernel_find(const char *name);

#endif
