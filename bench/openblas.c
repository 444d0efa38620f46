/* openblas.c - the peer on the host: OpenBLAS by dlopen, in its plain configuration. */
#include "gemm.h"

#include <dlfcn.h>
#include <stdlib.h>

/* Constants of CBLAS: row-major, and no transposition. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111 };

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);

typedef struct blas {
    sgemm_fn sgemm;
    bench_problem problem;
    float *result;
} blas;

static sgemm_fn load(uint32_t threads)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    char text[16];
    void *library = NULL;
    snprintf(text, sizeof text, "%u", threads);
    /* Set before it is loaded, as it reads these then. Its threads are not to spin after a product: the device's need
     * the cores (2^20 cycles instead of 2^26). */
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    setenv("OPENBLAS_NUM_THREADS", text, 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL); /* it stays loaded, as it has threads */
    sgemm_fn sgemm = NULL;
    if (library)
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    return sgemm;
}

static bool call(bench_peer *peer, uint32_t repeats, double *seconds)
{
    blas *self = peer->state;
    const bench_problem *problem = &self->problem;
    int m = (int)problem->m, n = (int)problem->n, k = (int)problem->k;
    double start = bench_seconds();
    for (uint32_t i = 0; i < repeats; i++)
        self->sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, m, n, k, 1, problem->a->values, k, problem->b->values, n, 0,
                    self->result, n);
    *seconds = (bench_seconds() - start) / repeats;
    bench_pause(0.001); /* its threads go to sleep */
    return true;
}

static void close_peer(bench_peer *peer)
{
    blas *self = peer->state;
    free(self->result);
    free(self);
}

void bench_openblas_peer(bench_peer *peer, const bench_problem *problem, uint32_t threads)
{
    sgemm_fn sgemm = load(threads);
    blas *self = sgemm ? malloc(sizeof *self) : NULL;
    if (!self)
        return;
    *self = (blas){sgemm, *problem, malloc((size_t)problem->m * problem->n * sizeof(float))};
    *peer = (bench_peer){.name = "OpenBLAS", .call = call, .close = close_peer, .state = self};
    if (!self->result) {
        close_peer(peer);
        peer->name = NULL;
    }
}
