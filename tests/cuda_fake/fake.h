/* fake.h - inside the fake libcuda.so.1, which lets the CUDA backend's tests run where there is no GPU.
 *
 * It is a driver in order, arguments and lifetimes only: memory is host memory, every stream is a thread, graphs run
 * their nodes in the most awkward order that their edges allow, and each handle, context and address is checked. It
 * does not execute PTX: it reads the names and parameters of the entries, and runs the C functions of fake_kernels.c by
 * name. So it says nothing about any kernel, nor about speed. */
#ifndef FAKE_H
#define FAKE_H

#include "../../backends/cuda/driver.h"
#include "fake_cuda.h"
#include <pthread.h>

#define NV_FUNCTION(name, params) __attribute__((visibility("default"))) nv_result name params;
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../backends/cuda/driver.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL

#define FAKE_MAX_PARAMS      32
#define FAKE_MAX_PARAM_BYTES 512

typedef enum fake_kind {
    FAKE_CONTEXT,
    FAKE_ALLOCATION,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_GRAPH,
    FAKE_NODE,
    FAKE_EXEC
} fake_kind;

/* First member of every object. The memory of dead objects is kept for a while, so that the use of a dead handle is
 * seen. */
typedef struct fake_object {
    fake_kind kind;
    bool alive;
    struct fake_context *context;
    struct fake_object *next;
} fake_object;

typedef struct fake_context {
    fake_object object;
    int device;
    unsigned live; /* objects in it */
    nv_result sticky;
} fake_context;

typedef enum fake_memory_kind {
    FAKE_DEVICE_MEMORY,
    FAKE_HOST_MEMORY,
    FAKE_MANAGED_MEMORY,
    FAKE_REGISTERED
} fake_memory_kind;

typedef struct fake_allocation {
    fake_object object;
    fake_memory_kind kind;
    uint8_t *pointer;
    size_t size;
    int device;
} fake_allocation;

typedef struct fake_module {
    fake_object object;
    struct fake_function *functions;
} fake_module;

typedef struct fake_launch fake_launch;
/* A kernel in C: returns NV_SUCCESS, or what the device would fail with. */
typedef nv_result (*fake_run)(const fake_launch *launch);

typedef struct fake_function {
    fake_object object;
    struct fake_function *next;
    char name[128];
    uint32_t param_count;
    size_t param_offset[FAKE_MAX_PARAMS], param_size[FAKE_MAX_PARAMS];
    uint32_t max_threads;
    uint32_t max_dynamic_shared;
    fake_run run; /* NULL: there is no C function of that name */
} fake_function;

struct fake_launch {
    const fake_function *function;
    uint32_t grid[3], block[3];
    uint8_t params[FAKE_MAX_PARAM_BYTES];
};

/* Completion of something, shared by those who wait for it. */
typedef struct fake_marker {
    unsigned refs;
    bool done;
    uint64_t time;
} fake_marker;

typedef struct fake_event {
    fake_object object;
    bool timing;
    fake_marker *marker; /* of the latest record */
} fake_event;

typedef struct fake_copy {
    uint8_t *dst;
    const uint8_t *src;
    size_t size;
} fake_copy;

typedef struct fake_fill {
    uint8_t *dst;
    uint32_t value, element_size;
    size_t count;
} fake_fill;

typedef enum fake_work_kind { FAKE_LAUNCH, FAKE_COPY, FAKE_FILL, FAKE_NOTHING } fake_work_kind;
typedef struct fake_work {
    fake_work_kind kind;
    union {
        fake_launch launch;
        fake_copy copy;
        fake_fill fill;
    };
} fake_work;

typedef struct fake_node {
    fake_object object;
    struct fake_graph *graph;
    uint32_t index;
    fake_work work;
    uint32_t dep_count;
    uint32_t *deps;
} fake_node;

typedef struct fake_graph {
    fake_object object;
    uint32_t count, capacity;
    fake_node **nodes;
} fake_graph;

/* What a launch runs: shared by the executable graph and its launches in flight; changed by copy. */
typedef struct fake_body {
    unsigned refs;
    uint32_t count;
    fake_work *work;
    uint32_t *dep_start, *deps;
} fake_body;

typedef struct fake_exec {
    fake_object object;
    fake_graph *graph;
    fake_body *body;
    fake_marker *last; /* the latest launch */
} fake_exec;

typedef enum fake_op_kind { FAKE_OP_WORK, FAKE_OP_RECORD, FAKE_OP_WAIT, FAKE_OP_GRAPH } fake_op_kind;
typedef struct fake_op {
    struct fake_op *next;
    fake_op_kind kind;
    fake_work work;
    fake_marker *wait, *signal;
    fake_body *body;
} fake_op;

typedef struct fake_stream {
    fake_object object;
    pthread_t thread;
    pthread_cond_t told; /* there is something to do */
    fake_op *head, **tail;
    bool stop;
} fake_stream;

/* Everything below is called with the lock held, unless it says otherwise. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_moved; /* a marker is done */

enum { FAKE_NEEDS_NOTHING = 0, FAKE_NEEDS_INIT = 1, FAKE_NEEDS_CONTEXT = 2 };
/* Takes the lock, counts the call, and says whether it may go on: else it has let go of the lock again. */
nv_result fake_enter(const char *function, unsigned *number, int needs);
nv_result fake_leave(nv_result result); /* lets go of the lock */
#define FAKE_ENTER(needs)                                                                                              \
    do {                                                                                                               \
        static unsigned number; /* of the function, once it is known */                                                \
        nv_result entered = fake_enter(__func__, &number, (needs));                                                    \
        if (entered != NV_SUCCESS) {                                                                                   \
            return entered;                                                                                            \
        }                                                                                                              \
    } while (0)

fake_context *fake_current(void);
nv_result fake_misuse(nv_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool fake_is_sticky(nv_result result);
void fake_break(fake_context *context, nv_result result);

void *fake_new(size_t size, fake_kind kind, fake_context *context);
void fake_bury(fake_object *object);
/* NV_SUCCESS if `handle` is a live object of that kind in the current context. */
nv_result fake_check(const void *handle, fake_kind kind, const char *function);

size_t fake_total_memory(void);
int fake_version(void);
/* Free the memory that a closed context left behind. */
void fake_memory_close(const fake_context *context);
/* The live allocation that holds [pointer, pointer + size). */
fake_allocation *fake_find(const void *pointer, size_t size);
/* For kernels, without the lock: the memory, or NULL if a kernel may not touch it. */
void *fake_reach(nv_ptr pointer, uint64_t size);

fake_marker *fake_marker_new(void);
fake_marker *fake_marker_ref(fake_marker *marker);
void fake_marker_drop(fake_marker *marker);
fake_op *fake_push(fake_stream *stream, fake_op_kind kind);
/* Run one piece of work. Without the lock. */
nv_result fake_work_run(const fake_work *work);

nv_result fake_work_launch(fake_work *work, nv_function function, const unsigned *grid, const unsigned *block,
                           unsigned shared, void **params);
nv_result fake_work_copy(fake_work *work, nv_ptr dst, nv_ptr src, size_t size, const char *function);
nv_result fake_work_fill(fake_work *work, nv_ptr dst, uint32_t value, uint32_t element_size, size_t count,
                         const char *function);

void fake_body_drop(fake_body *body);
/* Without the lock. */
nv_result fake_body_run(const fake_body *body);

/* fake_kernels.c: NULL if there is no such kernel. */
typedef struct fake_kernel {
    const char *name;
    uint32_t spans, args_size;
    fake_run run;
} fake_kernel;
const fake_kernel *fake_kernel_find(const char *name);

#endif
