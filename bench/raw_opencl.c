/* raw_opencl.c - the control for OpenCL: the work in the fastest plain form that we know.
 *
 * Independent work and chains each go to whichever queue gets them done sooner here: an in-order one, or an
 * out-of-order one, where a chain needs barriers. A recorded list is one kernel object per dispatch with its arguments
 * set, so that a replay is only enqueues. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "stats.h"
#include "subject.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(clGetPlatformIDs)                                                                                                \
    X(clGetDeviceIDs)                                                                                                  \
    X(clGetDeviceInfo)                                                                                                 \
    X(clCreateContext)                                                                                                 \
    X(clReleaseContext)                                                                                                \
    X(clCreateCommandQueue)                                                                                            \
    X(clReleaseCommandQueue)                                                                                           \
    X(clCreateBuffer)                                                                                                  \
    X(clReleaseMemObject)                                                                                              \
    X(clCreateProgramWithSource)                                                                                       \
    X(clBuildProgram)                                                                                                  \
    X(clReleaseProgram)                                                                                                \
    X(clCreateKernel)                                                                                                  \
    X(clReleaseKernel)                                                                                                 \
    X(clSetKernelArg)                                                                                                  \
    X(clEnqueueNDRangeKernel)                                                                                          \
    X(clEnqueueWriteBuffer)                                                                                            \
    X(clEnqueueReadBuffer)                                                                                             \
    X(clEnqueueBarrierWithWaitList)                                                                                    \
    X(clEnqueueMarkerWithWaitList)                                                                                     \
    X(clWaitForEvents)                                                                                                 \
    X(clReleaseEvent)                                                                                                  \
    X(clFlush)                                                                                                         \
    X(clFinish)

typedef struct opencl_api {
#define DECLARE(name) __typeof__(name) *(name);
    FUNCTIONS(DECLARE)
#undef DECLARE
} opencl_api;

typedef struct raw {
    void *library;
    opencl_api cl;
    cl_device_id device;
    cl_context context;
    cl_command_queue ordered, unordered;
    cl_command_queue used;  /* by the work not yet waited for */
    bool unordered_best[2]; /* for independent work; for a chain */
    cl_program program;
    cl_kernel kernel;
    cl_kernel recorded[BENCH_MAX_STEPS], slots[BENCH_MAX_STEPS];
    uint32_t recorded_count, slot_count;
    bench_pattern recorded_pattern;
    cl_mem sources[BENCH_GROUPS][BENCH_MAX_STEPS], sinks[BENCH_GROUPS][BENCH_MAX_STEPS], uploads;
    unsigned char *staging;
} raw;

static bool failed(bench_subject *subject, const char *call, cl_int code)
{
    return bench_subject_fail(subject, "raw OpenCL: %s failed with %d", call, (int)code);
}

static bool load(bench_subject *subject)
{
    raw *self = subject->state;
    self->library = bench_driver_open(subject, "HAL_OPENCL_LIBRARY", "libOpenCL.so.1");
    if (!self->library)
        return false;
#define LOAD(name)                                                                                                     \
    *(void **)&self->cl.name = dlsym(self->library, #name);                                                            \
    if (!self->cl.name)                                                                                                \
        return bench_subject_fail(subject, "raw OpenCL: libOpenCL.so.1 has no " #name);
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

/* The device that libhal measures, by name; of several with one name the first. */
static bool find_device(bench_subject *subject, const char *wanted)
{
    raw *self = subject->state;
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    self->cl.clGetPlatformIDs(16, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count && p < 16; p++) {
        cl_device_id devices[32];
        cl_uint device_count = 0;
        if (self->cl.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 32, devices, &device_count))
            continue;
        for (cl_uint d = 0; d < device_count && d < 32; d++) {
            char name[256] = "";
            self->cl.clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
            if (!strncmp(name, wanted, strlen(wanted))) {
                self->device = devices[d];
                return true;
            }
        }
    }
    return bench_subject_fail(subject, "raw OpenCL: no device is named \"%s\"", wanted);
}

static bool create_queues(bench_subject *subject)
{
    raw *self = subject->state;
    cl_int code;
    self->context = self->cl.clCreateContext(NULL, 1, &self->device, NULL, NULL, &code);
    if (!self->context)
        return failed(subject, "clCreateContext", code);
    self->ordered = self->cl.clCreateCommandQueue(self->context, self->device, 0, &code);
    if (!self->ordered)
        return failed(subject, "clCreateCommandQueue", code);
    self->unordered =
        self->cl.clCreateCommandQueue(self->context, self->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    return true; /* without out-of-order queues the in-order one does everything */
}

static bool create_kernel(bench_subject *subject)
{
    raw *self = subject->state;
    cl_int code;
    const char *source = (const char *)bench_step_cl;
    self->program = self->cl.clCreateProgramWithSource(self->context, 1, &source, NULL, &code);
    if (!self->program)
        return failed(subject, "clCreateProgramWithSource", code);
    code = self->cl.clBuildProgram(self->program, 1, &self->device, "", NULL, NULL);
    if (code)
        return failed(subject, "clBuildProgram", code);
    self->kernel = self->cl.clCreateKernel(self->program, "bench_step", &code);
    return self->kernel || failed(subject, "clCreateKernel", code);
}

static bool create_buffers(bench_subject *subject)
{
    raw *self = subject->state;
    cl_int code;
    for (uint32_t group = 0; group < BENCH_GROUPS; group++)
        for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++) {
            uint32_t content[BENCH_SPACING / 4] = {bench_source_value(i)};
            cl_mem_flags flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
            self->sources[group][i] = self->cl.clCreateBuffer(self->context, flags, sizeof content, content, &code);
            if (!self->sources[group][i])
                return failed(subject, "clCreateBuffer", code);
            self->sinks[group][i] =
                self->cl.clCreateBuffer(self->context, CL_MEM_READ_WRITE, sizeof content, NULL, &code);
            if (!self->sinks[group][i])
                return failed(subject, "clCreateBuffer", code);
        }
    size_t size = (size_t)BENCH_MAX_UPLOADS * BENCH_UPLOAD_SIZE;
    self->uploads = self->cl.clCreateBuffer(self->context, CL_MEM_READ_WRITE, size, NULL, &code);
    if (!self->uploads)
        return failed(subject, "clCreateBuffer", code);
    self->staging = malloc(size);
    return self->staging || bench_subject_fail(subject, "out of memory");
}

static bool choose_queue(bench_subject *subject, bench_pattern pattern, uint32_t count);

static bool raw_open(bench_subject *subject, const bench_device *device)
{
    subject->state = calloc(1, sizeof(raw));
    if (!subject->state)
        return bench_subject_fail(subject, "out of memory");
    return load(subject) && find_device(subject, device->info.name) && create_queues(subject) &&
           create_kernel(subject) && create_buffers(subject) &&
           choose_queue(subject, BENCH_INDEPENDENT, BENCH_MAX_STEPS) && choose_queue(subject, BENCH_CHAIN, 200);
}

static void release_kernels(raw *self, cl_kernel *kernels, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++)
        self->cl.clReleaseKernel(kernels[i]);
    *count = 0;
}

static void raw_close(bench_subject *subject)
{
    raw *self = subject->state;
    if (!self)
        return;
    release_kernels(self, self->recorded, &self->recorded_count);
    release_kernels(self, self->slots, &self->slot_count);
    for (uint32_t group = 0; group < BENCH_GROUPS; group++)
        for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++) {
            if (self->sources[group][i])
                self->cl.clReleaseMemObject(self->sources[group][i]);
            if (self->sinks[group][i])
                self->cl.clReleaseMemObject(self->sinks[group][i]);
        }
    if (self->uploads)
        self->cl.clReleaseMemObject(self->uploads);
    if (self->kernel)
        self->cl.clReleaseKernel(self->kernel);
    if (self->program)
        self->cl.clReleaseProgram(self->program);
    if (self->unordered)
        self->cl.clReleaseCommandQueue(self->unordered);
    if (self->ordered)
        self->cl.clReleaseCommandQueue(self->ordered);
    if (self->context)
        self->cl.clReleaseContext(self->context);
    free(self->staging);
    if (self->library)
        dlclose(self->library);
    free(self);
    subject->state = NULL;
}

static bool wait(bench_subject *subject)
{
    raw *self = subject->state;
    cl_int code = self->cl.clFinish(self->used ? self->used : self->ordered);
    return code == CL_SUCCESS || failed(subject, "clFinish", code);
}

static bool clear(bench_subject *subject)
{
    raw *self = subject->state;
    static const uint32_t zero[BENCH_SPACING / 4];
    for (uint32_t group = 0; group < BENCH_GROUPS; group++)
        for (uint32_t i = 0; i < BENCH_MAX_STEPS; i++) {
            cl_int code = self->cl.clEnqueueWriteBuffer(self->ordered, self->sinks[group][i], CL_FALSE, 0, sizeof zero,
                                                        zero, 0, NULL, NULL);
            if (code)
                return failed(subject, "clEnqueueWriteBuffer", code);
        }
    self->used = self->ordered;
    return wait(subject);
}

static bool read_sinks(bench_subject *subject, bench_group group, uint32_t count, uint32_t *sinks)
{
    raw *self = subject->state;
    for (uint32_t i = 0; i < count; i++) {
        cl_int code = self->cl.clEnqueueReadBuffer(self->ordered, self->sinks[group][i], CL_FALSE, 0, sizeof *sinks,
                                                   &sinks[i], 0, NULL, NULL);
        if (code)
            return failed(subject, "clEnqueueReadBuffer", code);
    }
    self->used = self->ordered;
    return wait(subject);
}

static cl_int set_args(raw *self, cl_kernel kernel, bench_group group, bench_operands operands)
{
    cl_int code = self->cl.clSetKernelArg(kernel, 0, sizeof(cl_mem), &self->sources[group][operands.source]);
    if (!code)
        code = self->cl.clSetKernelArg(kernel, 1, sizeof(cl_mem), &self->sinks[group][operands.sink]);
    if (!code)
        code = self->cl.clSetKernelArg(kernel, 2, sizeof operands.add, &operands.add);
    return code;
}

/* The queue for a pattern; *barriers says whether each dispatch needs one first. */
static cl_command_queue queue_for(raw *self, bench_pattern pattern, bool *barriers)
{
    bool unordered = self->unordered && self->unordered_best[pattern == BENCH_CHAIN];
    *barriers = unordered && pattern == BENCH_CHAIN;
    return self->used = unordered ? self->unordered : self->ordered;
}

static cl_int enqueue(raw *self, cl_command_queue queue, cl_kernel kernel, bool barrier)
{
    static const size_t one = 1;
    cl_int code = barrier ? self->cl.clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL) : CL_SUCCESS;
    return code ? code : self->cl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL);
}

static bool dispatch(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    raw *self = subject->state;
    bool barriers;
    cl_command_queue queue = queue_for(self, pattern, &barriers);
    for (uint32_t i = 0; i < count; i++) {
        cl_int code = set_args(self, self->kernel, BENCH_BUFFERS, bench_step_operands(pattern, i));
        if (!code)
            code = enqueue(self, queue, self->kernel, barriers);
        if (code)
            return failed(subject, "a dispatch", code);
    }
    cl_int code = self->cl.clFlush(queue);
    return code == CL_SUCCESS || failed(subject, "clFlush", code);
}

/* Time both queues, a few times in turn, and keep the one that is done sooner. */
static bool choose_queue(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    raw *self = subject->state;
    bool *unordered = &self->unordered_best[pattern == BENCH_CHAIN];
    double samples[2][5];
    for (uint32_t turn = 0; turn < 12 && self->unordered; turn++) {
        *unordered = turn % 2;
        double start = bench_seconds();
        if (!dispatch(subject, pattern, count) || !wait(subject))
            return false;
        if (turn >= 2) /* the first ones compile */
            samples[turn % 2][turn / 2 - 1] = bench_seconds() - start;
    }
    *unordered = self->unordered && bench_median(samples[1], 5) < bench_median(samples[0], 5);
    return true;
}

static bool upload(bench_subject *subject, const void *source, uint32_t count)
{
    raw *self = subject->state;
    cl_command_queue queue = self->used = self->ordered;
    for (uint32_t i = 0; i < count; i++) {
        size_t place = (size_t)i * BENCH_UPLOAD_SIZE;
        /* The caller may reuse its bytes at once, as with hal_cmd_upload. */
        memcpy(self->staging + place, (const char *)source + place, BENCH_UPLOAD_SIZE);
        cl_int code = self->cl.clEnqueueWriteBuffer(queue, self->uploads, CL_FALSE, place, BENCH_UPLOAD_SIZE,
                                                    self->staging + place, 0, NULL, NULL);
        if (code)
            return failed(subject, "clEnqueueWriteBuffer", code);
    }
    cl_int code = self->cl.clFlush(queue);
    return code == CL_SUCCESS || failed(subject, "clFlush", code);
}

static bool read_upload(bench_subject *subject, uint32_t index, void *target)
{
    raw *self = subject->state;
    cl_int code = self->cl.clEnqueueReadBuffer(self->ordered, self->uploads, CL_TRUE, (size_t)index * BENCH_UPLOAD_SIZE,
                                               BENCH_UPLOAD_SIZE, target, 0, NULL, NULL);
    return code == CL_SUCCESS || failed(subject, "clEnqueueReadBuffer", code);
}

static bool round_trip(bench_subject *subject, uint32_t count)
{
    raw *self = subject->state;
    cl_command_queue queue = self->used = self->ordered;
    for (uint32_t i = 0; i < count; i++) {
        cl_event event = NULL;
        cl_int code = set_args(self, self->kernel, BENCH_BUFFERS, bench_step_operands(BENCH_CHAIN, i));
        if (!code)
            code = enqueue(self, queue, self->kernel, false);
        if (!code)
            code = self->cl.clEnqueueMarkerWithWaitList(queue, 0, NULL, &event);
        if (!code)
            code = self->cl.clWaitForEvents(1, &event);
        if (event)
            self->cl.clReleaseEvent(event);
        if (code)
            return failed(subject, "a dispatch, marker and wait", code);
    }
    return true;
}

/* One kernel object per dispatch, its arguments set. */
static bool preset(bench_subject *subject, cl_kernel *kernels, uint32_t *made, bench_group group, bench_pattern pattern,
                   uint32_t count)
{
    raw *self = subject->state;
    release_kernels(self, kernels, made);
    for (uint32_t i = 0; i < count; i++) {
        cl_int code;
        kernels[i] = self->cl.clCreateKernel(self->program, "bench_step", &code);
        if (!kernels[i])
            return failed(subject, "clCreateKernel", code);
        ++*made;
        code = set_args(self, kernels[i], group, bench_step_operands(pattern, i));
        if (code)
            return failed(subject, "clSetKernelArg", code);
    }
    return true;
}

static bool enqueue_all(bench_subject *subject, cl_kernel *kernels, uint32_t count, bench_pattern pattern)
{
    raw *self = subject->state;
    bool barriers;
    cl_command_queue queue = queue_for(self, pattern, &barriers);
    for (uint32_t i = 0; i < count; i++) {
        cl_int code = enqueue(self, queue, kernels[i], barriers);
        if (code)
            return failed(subject, "a dispatch", code);
    }
    cl_int code = self->cl.clFlush(queue);
    return code == CL_SUCCESS || failed(subject, "clFlush", code);
}

static bool record(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    raw *self = subject->state;
    self->recorded_pattern = pattern;
    return preset(subject, self->recorded, &self->recorded_count, BENCH_BUFFERS, pattern, count);
}

static bool replay(bench_subject *subject)
{
    raw *self = subject->state;
    return enqueue_all(subject, self->recorded, self->recorded_count, self->recorded_pattern);
}

static bool record_slots(bench_subject *subject, uint32_t count)
{
    raw *self = subject->state;
    return preset(subject, self->slots, &self->slot_count, BENCH_SLOTS_A, BENCH_REBIND, count);
}

static bool rebind(bench_subject *subject, bench_group group)
{
    raw *self = subject->state;
    bool barriers;
    cl_command_queue queue = queue_for(self, BENCH_REBIND, &barriers);
    for (uint32_t i = 0; i < self->slot_count; i++) {
        bench_operands operands = bench_step_operands(BENCH_REBIND, i);
        cl_int code =
            self->cl.clSetKernelArg(self->slots[i], 0, sizeof(cl_mem), &self->sources[group][operands.source]);
        if (!code)
            code = self->cl.clSetKernelArg(self->slots[i], 1, sizeof(cl_mem), &self->sinks[group][operands.sink]);
        if (!code)
            code = enqueue(self, queue, self->slots[i], false);
        if (code)
            return failed(subject, "a dispatch", code);
    }
    cl_int code = self->cl.clFlush(queue);
    return code == CL_SUCCESS || failed(subject, "clFlush", code);
}

static bool rerecord(bench_subject *subject, bench_group group, uint32_t count)
{
    raw *self = subject->state;
    cl_kernel kernels[BENCH_MAX_STEPS] = {0};
    uint32_t made = 0;
    bool good = preset(subject, kernels, &made, group, BENCH_REBIND, count) &&
                enqueue_all(subject, kernels, count, BENCH_REBIND);
    release_kernels(self, kernels, &made);
    return good;
}

const bench_subject_api bench_raw_opencl = {
    .name = "raw OpenCL",
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
