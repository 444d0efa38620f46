/* clblast.c - the peer on an OpenCL device: CLBlast by dlopen, as it comes, on buffers and a queue of its own. */
#include "gemm.h"

#ifdef BENCH_HAVE_OPENCL

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
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
    X(clEnqueueReadBuffer)                                                                                             \
    X(clFinish)

/* Of CLBlast's C interface (its doc/api.md): row-major, and no transposition. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111 };
typedef int (*sgemm_fn)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                        size_t offset_a, size_t lda, cl_mem b, size_t offset_b, size_t ldb, float beta, cl_mem c,
                        size_t offset_c, size_t ldc, cl_command_queue *queue, cl_event *event);

typedef struct blas {
#define DECLARE(name) __typeof__(name) *(name);
    FUNCTIONS(DECLARE)
#undef DECLARE
    sgemm_fn sgemm;
    size_t m, n, k;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem a, b, c;
} blas;

static bool load(blas *self)
{
    /* They stay mapped: drivers leave threads and exit handlers behind. The OpenCL library is the one that CLBlast is
     * linked with. */
    void *opencl = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *clblast = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!opencl || !clblast)
        return false;
    *(void **)&self->sgemm = dlsym(clblast, "CLBlastSgemm");
#define LOAD(name)                                                                                                     \
    *(void **)&self->name = dlsym(opencl, #name);                                                                      \
    if (!self->name)                                                                                                   \
        return false;
    FUNCTIONS(LOAD)
#undef LOAD
    return self->sgemm != NULL;
}

/* The device that libhal measures, by name; of several with one name the first. */
static bool find_device(blas *self, const char *wanted)
{
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    self->clGetPlatformIDs(16, platforms, &platform_count);
    for (cl_uint p = 0; p < platform_count && p < 16; p++) {
        cl_device_id devices[32];
        cl_uint device_count = 0;
        if (self->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 32, devices, &device_count))
            continue;
        for (cl_uint d = 0; d < device_count && d < 32; d++) {
            char name[256] = "";
            self->clGetDeviceInfo(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
            self->device = devices[d];
            if (!strncmp(name, wanted, strlen(wanted)))
                return true;
        }
    }
    return false;
}

static bool create(blas *self, const bench_problem *problem)
{
    const cl_mem_flags input = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    self->m = problem->m;
    self->n = problem->n;
    self->k = problem->k;
    self->context = self->clCreateContext(NULL, 1, &self->device, NULL, NULL, NULL);
    self->queue = self->context ? self->clCreateCommandQueue(self->context, self->device, 0, NULL) : NULL;
    if (!self->queue)
        return false;
    self->a = self->clCreateBuffer(self->context, input, self->m * self->k * 4, problem->a->values, NULL);
    self->b = self->clCreateBuffer(self->context, input, self->k * self->n * 4, problem->b->values, NULL);
    self->c = self->clCreateBuffer(self->context, CL_MEM_READ_WRITE, self->m * self->n * 4, NULL, NULL);
    return self->a && self->b && self->c;
}

static void destroy(blas *self)
{
    const cl_mem buffers[] = {self->a, self->b, self->c};
    for (int i = 0; i < 3; i++)
        if (buffers[i])
            self->clReleaseMemObject(buffers[i]);
    if (self->queue)
        self->clReleaseCommandQueue(self->queue);
    if (self->context)
        self->clReleaseContext(self->context);
    free(self);
}

static bool call(bench_peer *peer, uint32_t repeats, double *seconds)
{
    blas *self = peer->state;
    double start = bench_seconds();
    for (uint32_t i = 0; i < repeats; i++)
        if (self->sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, self->m, self->n, self->k, 1, self->a, 0, self->k, self->b, 0,
                        self->n, 0, self->c, 0, self->n, &self->queue, NULL))
            return false;
    if (self->clFinish(self->queue))
        return false;
    *seconds = (bench_seconds() - start) / repeats;
    return true;
}

static void close_peer(bench_peer *peer)
{
    destroy(peer->state);
}

/* Its first call compiles its kernels; a peer that is wrong is none. */
static bool is_right(bench_peer *peer, const bench_problem *problem)
{
    blas *self = peer->state;
    size_t size = self->m * self->n * sizeof(float);
    bench_problem plain = *problem;
    bench_worst worst = {0};
    double seconds;
    void *result = malloc(size);
    plain.dtype = HAL_F32;
    bool good = result && call(peer, 1, &seconds) &&
                !self->clEnqueueReadBuffer(self->queue, self->c, CL_TRUE, 0, size, result, 0, NULL, NULL);
    if (good)
        bench_gemm_check(&plain, result, &worst);
    free(result);
    return good && worst.share <= 1;
}

void bench_clblast_peer(bench_peer *peer, const bench_problem *problem, const bench_device *device)
{
    blas *self = strcmp(device->info.backend, "opencl") ? NULL : calloc(1, sizeof *self);
    if (!self)
        return;
    if (!load(self)) {
        free(self);
        return;
    }
    *peer = (bench_peer){.name = "CLBlast", .call = call, .close = close_peer, .state = self};
    if (!find_device(self, device->info.name) || !create(self, problem) || !is_right(peer, problem)) {
        destroy(self);
        peer->name = NULL;
    }
}

#else

void bench_clblast_peer(bench_peer *peer, const bench_problem *problem, const bench_device *device)
{
    (void)peer;
    (void)problem;
    (void)device;
}

#endif
