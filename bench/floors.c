/* floors.c - what the host can do at best: FP32 multiply-adds, copies past the caches, reads. A CPU device's figures
 * are held against these, measured in the same run because a shared machine's speed drifts. */
#include "job.h"
#include "stats.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_THREADS = 256 };
static const double fma_seconds = 0.006; /* of a measurement */
static const double traffic = 0x1p28;    /* bytes that all threads read together: past every cache */

/* Each returns a number that depends on all its work, so that none of it can be left out. */
typedef float (*work_fn)(float *data, float *target, size_t count);

typedef struct worker {
    pthread_t thread;
    atomic_int *go; /* 0: not yet; 1: start; -1: give up */
    work_fn work;
    float *data, *target;
    size_t count;
    uint32_t repeats;
    double start, end;
    float result;
} worker;

/* Twelve independent accumulators cover the latency of the multiply-add on the CPUs of the last ten years. */
#define ACCUMULATE(type, fma)                                                                                          \
    type sums[12], factor, term;                                                                                       \
    memcpy(&factor, data, sizeof factor);                                                                              \
    memcpy(&term, data + 16, sizeof term);                                                                             \
    for (int i = 0; i < 12; i++)                                                                                       \
        sums[i] = term;                                                                                                \
    for (size_t turn = 0; turn < count; turn++)                                                                        \
        _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) sums[i] = fma;                                           \
    float result = 0;                                                                                                  \
    for (int i = 0; i < 12; i++)                                                                                       \
        result += ((const float *)&sums[i])[0];                                                                        \
    return result

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float fma_512(float *data, float *target, size_t count)
{
    (void)target;
    ACCUMULATE(__m512, _mm512_fmadd_ps(sums[i], factor, term));
}

__attribute__((target("avx2,fma"))) static float fma_256(float *data, float *target, size_t count)
{
    (void)target;
    ACCUMULATE(__m256, _mm256_fmadd_ps(sums[i], factor, term));
}

__attribute__((target("avx"))) static float copy(float *data, float *target, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        _mm256_stream_ps(target + i, _mm256_load_ps(data + i));
        _mm256_stream_ps(target + i + 8, _mm256_load_ps(data + i + 8));
    }
    _mm_sfence();
    return target[count - 1];
}

__attribute__((target("avx"))) static float sum(float *data, float *target, size_t count)
{
    __m256 sums[8];
    (void)target;
    for (int i = 0; i < 8; i++)
        sums[i] = _mm256_setzero_ps();
    for (size_t i = 0; i < count; i += 64) {
        _mm_prefetch((const char *)(data + i) + 1024, _MM_HINT_T0);
        _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) sums[j] =
            _mm256_add_ps(sums[j], _mm256_load_ps(data + i + 8 * (size_t)j));
    }
    for (int i = 1; i < 8; i++)
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return ((const float *)&sums[0])[0];
}
#endif

typedef float vector4 __attribute__((vector_size(16)));

static float fma_128(float *data, float *target, size_t count)
{
    (void)target;
    ACCUMULATE(vector4, sums[i] * factor + term);
}

static float copy_plain(float *data, float *target, size_t count)
{
    memcpy(target, data, count * sizeof *data);
    return target[count - 1];
}

static float sum_plain(float *data, float *target, size_t count)
{
    vector4 sums[8] = {0};
    (void)target;
    for (size_t i = 0; i < count; i += 32)
        for (int j = 0; j < 8; j++)
            sums[j] += *(const vector4 *)(const void *)(data + i + 4 * (size_t)j);
    for (int j = 1; j < 8; j++)
        sums[0] += sums[j];
    return sums[0][0];
}

static void *run_worker(void *argument)
{
    worker *self = argument;
    int go;
    while ((go = atomic_load(self->go)) == 0)
        sched_yield();
    if (go < 0)
        return NULL;
    self->start = bench_seconds();
    for (uint32_t i = 0; i < self->repeats; i++)
        self->result += self->work(self->data, self->target, self->count);
    self->end = bench_seconds();
    return NULL;
}

struct bench_host_limit {
    work_fn work;
    uint32_t threads;
    float *data, *target;
    size_t each, step; /* what a thread counts; from one's data to the next's */
    double amount;     /* floating-point operations or bytes of all threads */
};

/* Seconds from the first start to the last end; NAN if the threads could not be had. */
static double run_all(const bench_host_limit *limit, uint32_t repeats)
{
    worker workers[MAX_THREADS];
    atomic_int go = 0;
    uint32_t started = 0;
    for (; started < limit->threads; started++) {
        size_t place = started * limit->step;
        workers[started] = (worker){.go = &go,
                                    .work = limit->work,
                                    .data = limit->data + place,
                                    .target = limit->target ? limit->target + place : NULL,
                                    .count = limit->each,
                                    .repeats = repeats};
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]))
            break;
    }
    atomic_store(&go, started == limit->threads ? 1 : -1);
    double start = INFINITY, end = 0;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        start = fmin(start, workers[i].start);
        end = fmax(end, workers[i].end);
    }
    return started == limit->threads ? end - start : NAN;
}

double bench_host_limit_measure(bench_host_limit *limit, uint32_t repeats)
{
    return limit->amount * repeats * 1e-9 / run_all(limit, repeats);
}

/* Use this loop if it is faster than what is there, for as many turns as take a while. */
static void try_fma(bench_host_limit *limit, work_fn work, uint32_t width, double *best)
{
    bench_host_limit candidate = *limit;
    candidate.work = work;
    for (size_t turns = 4000; turns < ((size_t)4000 << 12); turns *= 2) {
        candidate.each = turns;
        candidate.amount = 2.0 * 12 * width * (double)turns * limit->threads;
        double seconds = run_all(&candidate, 1), rate = candidate.amount / seconds;
        if (!(seconds < fma_seconds)) {
            if (rate > *best) {
                *best = rate;
                *limit = candidate;
            }
            return;
        }
    }
}

static void create_fma(bench_host_limit *limit)
{
    double best = 0;
    for (int i = 0; i < 64; i++)
        limit->data[i] = 0.5f;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        try_fma(limit, fma_512, 16, &best);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        try_fma(limit, fma_256, 8, &best);
#endif
    if (best == 0)
        try_fma(limit, fma_128, 4, &best);
}

static void create_traffic(bench_host_limit *limit, bool writes, size_t size)
{
    memset(limit->data, 0, size); /* touches the pages */
    if (writes)
        memset(limit->target, 0, size);
    limit->work = writes ? copy_plain : sum_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        limit->work = writes ? copy : sum;
#endif
    limit->each = limit->step = size / sizeof(float) / limit->threads / 64 * 64;
    limit->amount = (writes ? 2.0 : 1.0) * (double)limit->each * sizeof(float) * limit->threads;
}

bench_host_limit *bench_host_limit_create(bench_limit kind, double bytes, uint32_t threads)
{
    bool writes = kind == BENCH_LIMIT_COPY;
    bench_host_limit *limit = calloc(1, sizeof *limit);
    size_t size = kind == BENCH_LIMIT_FMA ? 4096 : ((size_t)(writes ? bytes / 2 : bytes) + 4095) / 4096 * 4096;
    if (!limit)
        return NULL;
    limit->threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    limit->data = aligned_alloc(4096, size);
    limit->target = writes ? aligned_alloc(4096, size) : NULL;
    if (!limit->data || (writes && !limit->target)) {
        bench_host_limit_destroy(limit);
        return NULL;
    }
    if (kind == BENCH_LIMIT_FMA)
        create_fma(limit);
    else
        create_traffic(limit, writes, size);
    return limit;
}

void bench_host_limit_destroy(bench_host_limit *limit)
{
    if (limit) {
        free(limit->data);
        free(limit->target);
    }
    free(limit);
}

/* The median of a few measurements after a first one; of multiply-adds the best. */
static double measure_once(bench_limit kind, uint32_t threads)
{
    double samples[3];
    bench_host_limit *limit = bench_host_limit_create(kind, kind == BENCH_LIMIT_COPY ? 2 * traffic : traffic, threads);
    if (!limit)
        return NAN;
    bench_host_limit_measure(limit, 1);
    for (int i = 0; i < 3; i++)
        samples[i] = bench_host_limit_measure(limit, 1);
    bench_host_limit_destroy(limit);
    return bench_quantile(samples, 3, kind == BENCH_LIMIT_FMA ? 1 : 0.5);
}

bool bench_floors_measure(bench_floors *floors)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    floors->threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (uint32_t)cores;
    floors->fma_gflops = measure_once(BENCH_LIMIT_FMA, floors->threads);
    floors->copy_gbps = measure_once(BENCH_LIMIT_COPY, floors->threads);
    floors->read_gbps = measure_once(BENCH_LIMIT_READ, floors->threads);
    return floors->fma_gflops > 0 && floors->copy_gbps > 0 && floors->read_gbps > 0;
}
