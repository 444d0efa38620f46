/* bench_sim.c - how fast the stand-in runs matrix instructions of whole kernels, in GFLOP/s: of one core with all
 * checks, without the race check, without any; and of two threads with all checks, by the clock and by what they used
 * of two cores. A program to look at, not a test: it depends on the machine.
 *
 * usage: bench_sim [REPEATS [SUBJECT]]; the best repetition counts. The linker sends kernel_launch()'s sim_launch_run()
 * here, so that only that is timed. */
#include "builtin_attention.h"
#include "builtin_gemm.h"
#include "gemm_run.h"
#include "kernel_abi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    int repeats;
    double seconds, cpu; /* of the best repetitions of the last launch: what passed, what its threads used */
} timing = {.repeats = 5};

bool __real_sim_launch_run(const sim_launch *launch, sim_counters *counters, sim_fault *fault);
bool __wrap_sim_launch_run(const sim_launch *launch, sim_counters *counters, sim_fault *fault);

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool __wrap_sim_launch_run(const sim_launch *launch, sim_counters *counters, sim_fault *fault)
{
    bool good = true;
    timing.seconds = timing.cpu = INFINITY;
    for (int i = 0; good && i < timing.repeats; i++) {
        memset(counters, 0, sizeof *counters);
        const double start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        good = __real_sim_launch_run(launch, counters, fault);
        timing.cpu = fmin(timing.cpu, now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
        timing.seconds = fmin(timing.seconds, now(CLOCK_MONOTONIC) - start);
    }
    return good;
}

typedef struct subject {
    const char *name, *file, *entry;
    kernel_runner *run;
    const void *problem;
} subject;

static const gemm_case wgmma = {"gemm_sm90", 1, 2, 256, 256, 1024};
static const builtin_gemm mma = {.dtype = HAL_KERNEL_BF16,
                                 .dtype_d = HAL_KERNEL_BF16,
                                 .tile_m = 128,
                                 .tile_n = 128,
                                 .threads = {256, 1},
                                 .dynamic_shared = GEMM_MMA_SHARED(128, 128, 32, 3),
                                 .m = 256,
                                 .n = 256,
                                 .k = 1024};
static const builtin_attention attention = {.dtype = HAL_KERNEL_BF16,
                                            .dtype_o = HAL_KERNEL_BF16,
                                            .room = 64,
                                            .batch = 1,
                                            .q_heads = 1,
                                            .kv_heads = 1,
                                            .head_dim = 64,
                                            .value_dim = 64,
                                            .q_length = 128,
                                            .kv_length = 512,
                                            .splits = 1};
static const subject subjects[] = {
    {"wgmma m64n128k16", GEMM_SM90_PTX, "gemm_sm90", gemm_run, &wgmma},
    {"mma.sync m16n8k16", KERNELS "gemm_mma.ptx", "gemm_mma__3_0_0_128_128_32_64_32_3", builtin_gemm_run, &mma},
    {"attention, mma.sync", KERNELS "attention_mma.ptx", "attention_mma__3_64", builtin_attention_run, &attention},
};

static void measure(const subject *s, const ptx_function *function, const sim_options *options)
{
    char what[1024] = "";
    sim_counters counters = {0};
    if (s->run(function, s->problem, options, &counters, what, sizeof what) != KERNEL_RIGHT) {
        fprintf(stderr, "%s: %s\n", s->name, what);
        return;
    }
    const double work = (double)counters.mma_flops * 1e-9;
    printf(" %10.2f", options->threads * work / timing.cpu); /* others on the machine count for little */
    if (options->threads > 1) {
        printf(" %10.2f", work / timing.seconds);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    timing.repeats = argc > 1 ? atoi(argv[1]) : timing.repeats;
    printf("%-22s %10s %10s %10s %10s %10s   GFLOP/s\n", "", "all checks", "no races", "none", "2 cores", "2 threads");
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        const subject *s = &subjects[i];
        if (argc > 2 && !strstr(s->name, argv[2])) {
            continue;
        }
        char what[1024] = "", *text = kernel_text(s->file, s->entry);
        ptx_module *module = ptx_module_load(text, strlen(text), what, sizeof what);
        free(text);
        if (!module) {
            fprintf(stderr, "%s: %s\n", s->entry, what);
            return 1;
        }
        const ptx_function *function = ptx_module_entry(module, s->entry);
        const sim_options options[] = {{.threads = 1},
                                       {.threads = 1, .no_races = true},
                                       {.threads = 1, .no_races = true, .no_undefined = true},
                                       {.threads = 2}};
        printf("%-22s", s->name);
        for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
            measure(s, function, &options[o]);
        }
        printf("\n");
        ptx_module_free(module);
    }
    return 0;
}
