/* floors.c - what the host can do at best: FP32 multiply-adds, copies past the caches, reads. A CPU device's figures
 * are held against these, measured in the same run because a shared machine's speed drifts. */
#include "bench.h"
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
static const size_t first_turns = 4000;
static const size_t traffic = (size_t)256 << 20; /* bytes that all threads read together: past every cache */

/* Each returns a number that depends on all its work, so that none of it can be left out. */
typedef float (*work_fn)(float *data, float *target, size_t count);

typedef struct worker {
    pthread_t thread;
    atomic_int *go; /* 0: not yet; 1: start; -1: give up */
    work_fn work;
    float *data, *target;
    size_t count;
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
    self->result = self->work(self->data, self->target, self->count);
    self->end = bench_seconds();
    return NULL;
}

/* Seconds from the first start to the last end; NAN if the threads could not be had. */
static double run_all(work_fn work, uint32_t threads, float *data, float *target, size_t each, bool shared)
{
    worker workers[MAX_THREADS];
    atomic_int go = 0;
    uint32_t started = 0;
    for (; started < threads; started++) {
        size_t place = shared ? 0 : started * each;
        workers[started] = (worker){
            .go = &go, .work = work, .data = data + place, .target = target ? target + place : NULL, .count = each};
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]))
            break;
    }
    atomic_store(&go, started == threads ? 1 : -1);
    double start = INFINITY, end = 0;
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        start = fmin(start, workers[i].start);
        end = fmax(end, workers[i].end);
    }
    return started == threads ? end - start : NAN;
}

static double best_fma(work_fn work, uint32_t width, uint32_t threads)
{
    _Alignas(64) float data[64];
    double best = 0;
    for (int i = 0; i < 64; i++)
        data[i] = 0.5f;
    for (size_t turns = first_turns; turns < first_turns * 4096; turns *= 2) {
        double seconds = run_all(work, threads, data, NULL, turns, true);
        double rate = 2.0 * 12 * width * (double)turns * threads / seconds * 1e-9;
        if (rate > best)
            best = rate;
        if (seconds > 0.006)
            break;
    }
    return best;
}

double bench_floors_fma(uint32_t threads)
{
    double best = 0;
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    for (int turn = 0; turn < 2; turn++) {
        double rate = 0;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            rate = best_fma(fma_512, 16, threads);
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            rate = fmax(rate, best_fma(fma_256, 8, threads));
#endif
        if (rate == 0)
            rate = best_fma(fma_128, 4, threads);
        best = fmax(best, rate);
    }
    return best;
}

/* GB/s, the median of a few runs after a first one that touches the pages. */
static double bandwidth(work_fn work, uint32_t threads, bool writes)
{
    double samples[3];
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    size_t each = traffic / sizeof(float) / threads / 64 * 64, size = each * threads * sizeof(float);
    float *data = aligned_alloc(4096, (size + 8191) / 4096 * 4096);
    float *target = writes ? aligned_alloc(4096, (size + 8191) / 4096 * 4096) : NULL;
    double rate = NAN;
    if (data && (target || !writes)) {
        memset(data, 0, size);
        if (target)
            memset(target, 0, size);
        run_all(work, threads, data, target, each, false);
        for (int i = 0; i < 3; i++)
            samples[i] = (writes ? 2.0 : 1.0) * (double)size * 1e-9 / run_all(work, threads, data, target, each, false);
        rate = bench_median(samples, 3);
    }
    free(target);
    free(data);
    return rate;
}

double bench_floors_read(uint32_t threads)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        return bandwidth(sum, threads, false);
#endif
    return bandwidth(sum_plain, threads, false);
}

static double copy_bandwidth(uint32_t threads)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        return bandwidth(copy, threads, true);
#endif
    return bandwidth(copy_plain, threads, true);
}

bool bench_floors_measure(bench_floors *floors)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    floors->threads = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (uint32_t)cores;
    floors->fma_gflops = bench_floors_fma(floors->threads);
    floors->copy_gbps = copy_bandwidth(floors->threads);
    floors->read_gbps = bench_floors_read(floors->threads);
    return floors->fma_gflops > 0 && floors->copy_gbps > 0 && floors->read_gbps > 0;
}
