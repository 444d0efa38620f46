/* suite.c - what is measured: one command's question, or in the default run overhead and replay, an example of each
 * operator, a Qwen3-8B feed-forward layer, and graphs, on every backend. */
#include "gemm.h"

#include <math.h>

/* Qwen3-8B (its config.json): hidden size 4096, intermediate size 12288. */
enum { HIDDEN = 4096, INTERMEDIATE = 12288, MOST_TOKENS = 4096, QUICK_SHRINK = 8 };

typedef struct projections {
    bench_operand_data weights, activations; /* large enough for either projection */
    uint64_t hidden, intermediate, most_tokens;
} projections;

static bool create(projections *data, const bench_options *options, hal_dtype dtype, uint64_t most_tokens)
{
    uint64_t shrink = options->quick ? QUICK_SHRINK : 1;
    *data = (projections){.hidden = HIDDEN / shrink, .intermediate = INTERMEDIATE / shrink, .most_tokens = most_tokens};
    return bench_operand_create(&data->weights, data->hidden * data->intermediate, dtype, 2, 1) &&
           bench_operand_create(&data->activations, most_tokens * data->intermediate, dtype, 1, 1);
}

static void destroy(projections *data)
{
    bench_operand_destroy(&data->weights);
    bench_operand_destroy(&data->activations);
}

static bench_problem problem_of(const projections *data, const char *label, bool up, uint64_t tokens, double budget)
{
    return (bench_problem){.label = label,
                           .m = tokens,
                           .n = up ? data->intermediate : data->hidden,
                           .k = up ? data->hidden : data->intermediate,
                           .dtype = data->weights.dtype,
                           .budget = budget,
                           .a = &data->activations,
                           .b = &data->weights};
}

/* Prefill: as many tokens as take about a tenth of a second. Decode: one token. */
static void measure_layer(bench_run *run, const bench_device *device, const projections *data)
{
    double budget = run->options->quick ? 0.1 : 1.2;
    bench_problem up = problem_of(data, "up", true, 1, budget);
    uint64_t tokens = bench_gemm_fit(device, &up, data->most_tokens, run->options->quick ? 0.01 : 0.12);
    up.m = tokens ? tokens : 16; /* a device that cannot do it says why when it is measured */
    bench_gemm_measure(run, device, &up);
    bench_problem down = problem_of(data, "down", false, up.m, budget);
    bench_gemm_measure(run, device, &down);
    bench_problem decode = problem_of(data, "decode up", true, 1, budget / 2);
    bench_gemm_measure(run, device, &decode);
}

static uint64_t most_tokens(const bench_run *run)
{
    for (uint32_t i = 0; i < run->device_count; i++)
        if (run->devices[i].info.type != HAL_DEVICE_CPU)
            return MOST_TOKENS;
    return 512;
}

static void measure_layers(bench_run *run, hal_dtype dtype)
{
    projections data;
    bool good = create(&data, run->options, dtype, run->options->quick ? 64 : most_tokens(run));
    for (uint32_t i = 0; i < run->device_count && !bench_interrupted(); i++) {
        if (good) {
            measure_layer(run, &run->devices[i], &data);
        } else {
            const bench_problem up = problem_of(&data, "up", true, 1, 0);
            const bench_job job = bench_gemm_job(&up);
            bench_job_no_memory(run, &run->devices[i], &job);
        }
    }
    destroy(&data);
}

static const struct {
    void (*measure)(bench_run *run, const bench_device *device);
    uint32_t (*steps)(const bench_options *options);
} questions[BENCH_COMMANDS] = {[BENCH_OVERHEAD] = {bench_overhead, bench_overhead_steps},
                               [BENCH_REPLAY] = {bench_replay, bench_replay_steps},
                               [BENCH_GEMM] = {bench_gemm, bench_gemm_steps},
                               [BENCH_SOFTMAX] = {bench_softmax, bench_softmax_steps},
                               [BENCH_ATTENTION] = {bench_attention, bench_attention_steps},
                               [BENCH_RMSNORM] = {bench_rmsnorm, bench_rmsnorm_steps},
                               [BENCH_ACTIVATION] = {bench_activation, bench_activation_steps},
                               [BENCH_TRANSPOSE] = {bench_transpose, bench_transpose_steps},
                               [BENCH_QUANTIZE] = {bench_quantize, bench_quantize_steps},
                               [BENCH_FUSION] = {bench_fusion, bench_fusion_steps},
                               [BENCH_FFN] = {bench_ffn, bench_ffn_steps},
                               [BENCH_LAYER] = {bench_layer, bench_layer_steps}};

/* A command of its own is measured in full; the suite has an example of each, but for gemm a layer. */
static bool asked_for(bench_command command, int question)
{
    return questions[question].measure && (command == BENCH_SUITE ? question != BENCH_GEMM : question == (int)command);
}

/* Those from `first` to before `end`, on every device. */
static void measure_questions(bench_run *run, int first, int end)
{
    for (int q = first; q < end; q++)
        for (uint32_t i = 0; asked_for(run->options->command, q) && i < run->device_count && !bench_interrupted(); i++)
            questions[q].measure(run, &run->devices[i]);
}

/* Graphs come last: a newcomer ends with what all the rest is for. */
void bench_measure(bench_run *run)
{
    static const hal_dtype dtypes[] = {HAL_F32, HAL_BF16};
    enum { LAYER_STEPS = 3 * 2 };
    const bench_options *options = run->options;
    bool suite = options->command == BENCH_SUITE;
    run->steps = suite ? run->device_count * LAYER_STEPS : 0;
    for (int q = 0; q < BENCH_COMMANDS; q++)
        if (asked_for(options->command, q))
            run->steps += run->device_count * questions[q].steps(options);
    measure_questions(run, 0, BENCH_FUSION);
    for (uint32_t d = 0; suite && d < sizeof dtypes / sizeof dtypes[0] && !bench_interrupted(); d++)
        measure_layers(run, dtypes[d]);
    measure_questions(run, BENCH_FUSION, BENCH_COMMANDS);
}
