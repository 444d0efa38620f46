/* raw_cuda.c - the control for CUDA's driver API: launches in a stream; a graph built node by node for replay, its
 * nodes' parameters set anew for rebinding. The few declarations that it needs are its own. */
#include "subject.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct cuda_kernel_params { /* CUDA_KERNEL_NODE_PARAMS */
    void *function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
} cuda_kernel_params;

typedef unsigned long long cuda_address;
typedef struct cuda_api {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int size, int device);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*alloc)(cuda_address *address, size_t size);
    int (*free)(cuda_address address);
    int (*host_alloc)(void **pointer, size_t size, unsigned flags);
    int (*host_free)(void *pointer);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*to_device)(cuda_address target, const void *source, size_t size, void *stream);
    int (*to_host)(void *target, cuda_address source, size_t size);
    int (*fill)(cuda_address target, unsigned value, size_t count, void *stream);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **params, void **extra);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*graph_create)(void **graph, unsigned flags);
    int (*graph_destroy)(void *graph);
    int (*graph_add)(void **node, void *graph, void *const *needs, size_t count, const cuda_kernel_params *params);
    int (*graph_instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*exec_destroy)(void *exec);
    int (*exec_set)(void *exec, void *node, const cuda_kernel_params *params);
    int (*exec_launch)(void *exec, void *stream);
} cuda_api;

typedef struct graph {
    void *graph, *exec;
    void *nodes[BENCH_MAX_STEPS];
    uint32_t count;
} graph;

typedef struct raw {
    void *library;
    cuda_api cu;
    int device;
    bool retained;
    void *context, *module, *function, *stream, *event;
    graph recorded, slots;
    cuda_address sources, sinks, uploads; /* [BENCH_GROUPS][BENCH_MAX_STEPS], BENCH_SPACING apart */
    unsigned char *staging;
} raw;

static bool check(bench_subject *subject, const char *call, int code)
{
    return code == 0 || bench_subject_fail(subject, "raw CUDA: %s failed with %d", call, code);
}

static bool load(bench_subject *subject)
{
    raw *self = subject->state;
    static const char *const names[] = {"cuInit",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuDevicePrimaryCtxRelease_v2",
                                        "cuCtxSetCurrent",
                                        "cuModuleLoadData",
                                        "cuModuleUnload",
                                        "cuModuleGetFunction",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "cuMemHostAlloc",
                                        "cuMemFreeHost",
                                        "cuStreamCreate",
                                        "cuStreamDestroy_v2",
                                        "cuStreamSynchronize",
                                        "cuMemcpyHtoDAsync_v2",
                                        "cuMemcpyDtoH_v2",
                                        "cuMemsetD32Async",
                                        "cuLaunchKernel",
                                        "cuEventCreate",
                                        "cuEventDestroy_v2",
                                        "cuEventRecord",
                                        "cuEventSynchronize",
                                        "cuGraphCreate",
                                        "cuGraphDestroy",
                                        "cuGraphAddKernelNode",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphExecDestroy",
                                        "cuGraphExecKernelNodeSetParams",
                                        "cuGraphLaunch"};
    _Static_assert(sizeof(cuda_api) == sizeof names / sizeof names[0] * sizeof(void *), "a name for each function");
    self->library = bench_driver_open(subject, "HAL_CUDA_LIBRARY", "libcuda.so.1");
    if (!self->library)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(self->library, names[i]);
        if (!symbol)
            return bench_subject_fail(subject, "raw CUDA: libcuda.so.1 has no %s", names[i]);
        memcpy((char *)&self->cu + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

static bool find_device(bench_subject *subject, const bench_device *wanted)
{
    raw *self = subject->state;
    int count = 0;
    char name[256] = "";
    if (!check(subject, "cuInit", self->cu.init(0)) ||
        !check(subject, "cuDeviceGetCount", self->cu.device_count(&count)))
        return false;
    if ((int)wanted->info.index >= count)
        return bench_subject_fail(subject, "raw CUDA: there is no device %u", wanted->info.index);
    if (!check(subject, "cuDeviceGet", self->cu.device_get(&self->device, (int)wanted->info.index)) ||
        !check(subject, "cuDeviceGetName", self->cu.device_name(name, sizeof name - 1, self->device)))
        return false;
    if (strncmp(name, wanted->info.name, strlen(wanted->info.name)) != 0)
        return bench_subject_fail(subject, "raw CUDA: device %u is \"%s\", not \"%s\"", wanted->info.index, name,
                                  wanted->info.name);
    return true;
}

static bool create_objects(bench_subject *subject)
{
    raw *self = subject->state;
    size_t arena = (size_t)BENCH_GROUPS * BENCH_MAX_STEPS * BENCH_SPACING;
    size_t uploads = (size_t)BENCH_MAX_UPLOADS * BENCH_UPLOAD_SIZE;
    const unsigned non_blocking = 1, no_timing = 2, mapped = 2;
    self->retained = check(subject, "cuDevicePrimaryCtxRetain", self->cu.context_retain(&self->context, self->device));
    return self->retained && check(subject, "cuCtxSetCurrent", self->cu.context_set(self->context)) &&
           check(subject, "cuModuleLoadData", self->cu.module_load(&self->module, bench_step_ptx)) &&
           check(subject, "cuModuleGetFunction",
                 self->cu.module_function(&self->function, self->module, "bench_step")) &&
           check(subject, "cuStreamCreate", self->cu.stream_create(&self->stream, non_blocking)) &&
           check(subject, "cuEventCreate", self->cu.event_create(&self->event, no_timing)) &&
           check(subject, "cuMemAlloc", self->cu.alloc(&self->sources, arena)) &&
           check(subject, "cuMemAlloc", self->cu.alloc(&self->sinks, arena)) &&
           check(subject, "cuMemAlloc", self->cu.alloc(&self->uploads, uploads)) &&
           check(subject, "cuMemHostAlloc",
                 self->cu.host_alloc((void **)&self->staging, arena > uploads ? arena : uploads, mapped));
}

static bool wait(bench_subject *subject)
{
    raw *self = subject->state;
    return check(subject, "cuStreamSynchronize", self->cu.stream_wait(self->stream));
}

static bool raw_open(bench_subject *subject, const bench_device *device)
{
    raw *self = subject->state = calloc(1, sizeof *self);
    if (!self)
        return bench_subject_fail(subject, "out of memory");
    if (!load(subject) || !find_device(subject, device) || !create_objects(subject))
        return false;
    size_t arena = (size_t)BENCH_GROUPS * BENCH_MAX_STEPS * BENCH_SPACING;
    for (uint32_t i = 0; i < BENCH_GROUPS * BENCH_MAX_STEPS; i++) {
        uint32_t value = bench_source_value(i % BENCH_MAX_STEPS);
        memcpy(self->staging + (size_t)i * BENCH_SPACING, &value, sizeof value);
    }
    return check(subject, "cuMemcpyHtoDAsync", self->cu.to_device(self->sources, self->staging, arena, self->stream)) &&
           wait(subject);
}

static void destroy_graph(raw *self, graph *list)
{
    if (list->exec)
        self->cu.exec_destroy(list->exec);
    if (list->graph)
        self->cu.graph_destroy(list->graph);
    list->graph = list->exec = NULL;
    list->count = 0;
}

static void raw_close(bench_subject *subject)
{
    raw *self = subject->state;
    if (!self)
        return;
    if (self->retained) {
        self->cu.context_set(self->context);
        destroy_graph(self, &self->recorded);
        destroy_graph(self, &self->slots);
        if (self->event)
            self->cu.event_destroy(self->event);
        if (self->stream)
            self->cu.stream_destroy(self->stream);
        if (self->module)
            self->cu.module_unload(self->module);
        cuda_address memory[] = {self->sources, self->sinks, self->uploads};
        for (uint32_t i = 0; i < 3; i++)
            if (memory[i])
                self->cu.free(memory[i]);
        if (self->staging)
            self->cu.host_free(self->staging);
        self->cu.context_set(NULL);
        self->cu.context_release(self->device);
    }
    if (self->library)
        dlclose(self->library);
    free(self);
    subject->state = NULL;
}

static bool clear(bench_subject *subject)
{
    raw *self = subject->state;
    size_t words = (size_t)BENCH_GROUPS * BENCH_MAX_STEPS * BENCH_SPACING / 4;
    return check(subject, "cuCtxSetCurrent", self->cu.context_set(self->context)) &&
           check(subject, "cuMemsetD32Async", self->cu.fill(self->sinks, 0, words, self->stream)) && wait(subject);
}

static bool read_sinks(bench_subject *subject, bench_group group, uint32_t count, uint32_t *sinks)
{
    raw *self = subject->state;
    size_t size = (size_t)BENCH_MAX_STEPS * BENCH_SPACING;
    if (!check(subject, "cuCtxSetCurrent", self->cu.context_set(self->context)) ||
        !check(subject, "cuMemcpyDtoH", self->cu.to_host(self->staging, self->sinks + group * size, size)))
        return false;
    for (uint32_t i = 0; i < count; i++)
        memcpy(&sinks[i], self->staging + (size_t)i * BENCH_SPACING, sizeof *sinks);
    return true;
}

typedef struct operands {
    cuda_address source, sink;
    uint32_t add;
    void *params[3];
} operands;

static void set_operands(const raw *self, bench_group group, bench_operands step, operands *out)
{
    cuda_address first = (cuda_address)group * BENCH_MAX_STEPS;
    out->source = self->sources + (first + step.source) * BENCH_SPACING;
    out->sink = self->sinks + (first + step.sink) * BENCH_SPACING;
    out->add = step.add;
    out->params[0] = &out->source;
    out->params[1] = &out->sink;
    out->params[2] = &out->add;
}

static bool dispatch(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    raw *self = subject->state;
    operands step;
    int code = self->cu.context_set(self->context);
    for (uint32_t i = 0; i < count && !code; i++) {
        set_operands(self, BENCH_BUFFERS, bench_step_operands(pattern, i), &step);
        code = self->cu.launch(self->function, 1, 1, 1, 1, 1, 1, 0, self->stream, step.params, NULL);
    }
    return check(subject, "cuLaunchKernel", code);
}

static bool upload(bench_subject *subject, const void *source, uint32_t count)
{
    raw *self = subject->state;
    int code = self->cu.context_set(self->context);
    for (uint32_t i = 0; i < count && !code; i++) {
        size_t place = (size_t)i * BENCH_UPLOAD_SIZE;
        memcpy(self->staging + place, (const char *)source + place, BENCH_UPLOAD_SIZE);
        code = self->cu.to_device(self->uploads + place, self->staging + place, BENCH_UPLOAD_SIZE, self->stream);
    }
    return check(subject, "cuMemcpyHtoDAsync", code);
}

static bool read_upload(bench_subject *subject, uint32_t index, void *target)
{
    raw *self = subject->state;
    cuda_address place = self->uploads + (cuda_address)index * BENCH_UPLOAD_SIZE;
    return check(subject, "cuCtxSetCurrent", self->cu.context_set(self->context)) &&
           check(subject, "cuMemcpyDtoH", self->cu.to_host(target, place, BENCH_UPLOAD_SIZE));
}

static bool round_trip(bench_subject *subject, uint32_t count)
{
    raw *self = subject->state;
    for (uint32_t i = 0; i < count; i++)
        if (!dispatch(subject, BENCH_CHAIN, 1) ||
            !check(subject, "cuEventRecord", self->cu.event_record(self->event, self->stream)) ||
            !check(subject, "cuEventSynchronize", self->cu.event_wait(self->event)))
            return false;
    return true;
}

static cuda_kernel_params node_params(const raw *self, operands *step)
{
    return (cuda_kernel_params){
        .function = self->function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = step->params};
}

static bool build(bench_subject *subject, graph *list, bench_pattern pattern, bench_group group, uint32_t count)
{
    raw *self = subject->state;
    self->cu.context_set(self->context);
    destroy_graph(self, list);
    int code = self->cu.graph_create(&list->graph, 0);
    for (uint32_t i = 0; i < count && !code; i++) {
        operands step;
        set_operands(self, group, bench_step_operands(pattern, i), &step);
        cuda_kernel_params params = node_params(self, &step);
        bool chained = pattern == BENCH_CHAIN && i > 0;
        code = self->cu.graph_add(&list->nodes[i], list->graph, chained ? &list->nodes[i - 1] : NULL, chained, &params);
    }
    if (!code)
        code = self->cu.graph_instantiate(&list->exec, list->graph, 0);
    list->count = count;
    return check(subject, "building a graph", code);
}

static bool launch(bench_subject *subject, const graph *list)
{
    raw *self = subject->state;
    return check(subject, "cuCtxSetCurrent", self->cu.context_set(self->context)) &&
           check(subject, "cuGraphLaunch", self->cu.exec_launch(list->exec, self->stream));
}

static bool record(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    raw *self = subject->state;
    return build(subject, &self->recorded, pattern, BENCH_BUFFERS, count);
}

static bool replay(bench_subject *subject)
{
    raw *self = subject->state;
    return launch(subject, &self->recorded);
}

static bool record_slots(bench_subject *subject, uint32_t count)
{
    raw *self = subject->state;
    return build(subject, &self->slots, BENCH_REBIND, BENCH_SLOTS_A, count);
}

static bool rebind(bench_subject *subject, bench_group group)
{
    raw *self = subject->state;
    int code = self->cu.context_set(self->context);
    for (uint32_t i = 0; i < self->slots.count && !code; i++) {
        operands step;
        set_operands(self, group, bench_step_operands(BENCH_REBIND, i), &step);
        cuda_kernel_params params = node_params(self, &step);
        code = self->cu.exec_set(self->slots.exec, self->slots.nodes[i], &params);
    }
    return check(subject, "cuGraphExecKernelNodeSetParams", code) && launch(subject, &self->slots);
}

/* A graph in flight may be destroyed: CUDA keeps what still runs. */
static bool rerecord(bench_subject *subject, bench_group group, uint32_t count)
{
    raw *self = subject->state;
    graph list = {0};
    bool good = build(subject, &list, BENCH_REBIND, group, count) && launch(subject, &list);
    destroy_graph(self, &list);
    return good;
}

const bench_subject_api bench_raw_cuda = {
    .name = "raw CUDA",
    .open = raw_open,
    .close = raw_close,
    .wait = wait,
    .clear = clear,
    .read = read_sinks,
    .dispatch = dispatch,
    .upload = upload,
    .read_upload = read_upload,
    .round_trip = round_trip,
    .record = record,
    .replay = replay,
    .record_slots = record_slots,
    .rebind = rebind,
    .rerecord = rerecord,
};
