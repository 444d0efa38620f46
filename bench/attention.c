/* attention.c - how fast is attention over many queries, against the device's own matrix product, and over one, against
 * reading the keys and values once? */
#include "attention.h"
#include "gemm.h"

#include <hal/ops.h>

enum { Q, K, V, O, TABLE, LENGTHS }; /* places */

/* A prompt, and one more token after so many: the time of the last five should grow as the keys do. */
static const struct {
    const char *label;
    bench_heads heads;
    bool in_suite;
} table[] = {
    {"prefill", {1, 8, 2, 128, 2048, 2048, 0, true}, false}, {"prefill", {1, 8, 2, 128, 512, 512, 0, true}, true},
    {"decode", {1, 8, 2, 128, 1, 512, 0, false}, false},     {"decode", {1, 8, 2, 128, 1, 2048, 0, false}, false},
    {"decode", {1, 8, 2, 128, 1, 8192, 0, false}, true},     {"decode", {1, 8, 2, 128, 1, 32768, 0, false}, false},
    {"decode", {1, 8, 2, 128, 1, 65536, 0, false}, false},
};
enum { CASES = sizeof table / sizeof table[0], QUICK_SHRINK = 8 };

static const hal_attention_desc *describe(const bench_attention_problem *problem, const hal_span *spans,
                                          hal_span scratch, hal_attention_desc *desc)
{
    const bench_heads *heads = &problem->heads;
    *desc = *HAL_ATTENTION(.batch = heads->batch, .q_heads = heads->q_heads, .kv_heads = heads->kv_heads,
                           .head_dim = heads->head_dim, .q_length = heads->q_len, .kv_length = heads->kv_len,
                           .dtype = problem->dtype, .q = spans[Q], .k = spans[K], .v = spans[V], .o = spans[O],
                           .causal = heads->causal ? HAL_CAUSAL_BOTTOM_RIGHT : HAL_CAUSAL_NONE, .workspace = scratch);
    if (heads->page_size) {
        desc->page_size = heads->page_size;
        desc->pages = heads->batch * problem->page_columns;
        desc->page_table = spans[TABLE];
        desc->page_columns = problem->page_columns;
        desc->kv_lengths = spans[LENGTHS];
    }
    return desc;
}

static hal_status call(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    hal_attention_desc desc;
    return hal_attention(list, describe(job->problem, spans, workspace, &desc));
}

static hal_status workspace(hal_device *device, const bench_job *job, const hal_span *spans, uint64_t *size)
{
    hal_attention_desc desc;
    return hal_attention_workspace(device, describe(job->problem, spans, (hal_span){0}, &desc), size);
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    bench_attention_check(job->problem, results[O], worst);
}

/* Cases */

static double pairs_of(const bench_heads *heads)
{
    double pairs = 0;
    for (uint64_t i = 0; i < heads->q_len; i++)
        pairs += (double)bench_attention_keys(heads, i);
    return pairs * (double)heads->batch * heads->q_heads;
}

static void describe_shape(const bench_heads *heads, char *text, size_t size)
{
    int used = snprintf(text, size, "b%llu h%u/%u d%u q%llu kv%llu%s", (unsigned long long)heads->batch, heads->q_heads,
                        heads->kv_heads, heads->head_dim, (unsigned long long)heads->q_len,
                        (unsigned long long)heads->kv_len, heads->causal ? " causal" : "");
    if (heads->page_size && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, " page%u", heads->page_size);
}

static bench_job job_of(const bench_options *options, const bench_attention_problem *problem)
{
    const bench_heads *heads = &problem->heads;
    const uint64_t element = hal_dtype_size(problem->dtype), size_q = problem->q.count * element,
                   size_k = problem->k.count * element,
                   read = heads->batch * heads->kv_len * heads->kv_heads * heads->head_dim * element;
    bench_job job = {.op = "attention",
                     .label = problem->label,
                     .dtype = problem->dtype,
                     .flops = 4 * pairs_of(heads) * heads->head_dim,
                     .bytes = 2 * (double)size_q + 2 * (double)read,
                     .budget = bench_budget(options),
                     .places = {{"Q", problem->q.elements, size_q},
                                {"K", problem->k.elements, size_k},
                                {"V", problem->v.elements, size_k},
                                {"O", NULL, size_q}},
                     .problem = problem,
                     .call = call,
                     .workspace = workspace,
                     .check = check};
    if (heads->page_size) {
        job.places[TABLE] = (bench_place){"page table", problem->page_table,
                                          heads->batch * problem->page_columns * sizeof *problem->page_table};
        job.places[LENGTHS] = (bench_place){"lengths", problem->kv_lengths, heads->batch * sizeof *problem->kv_lengths};
    }
    describe_shape(heads, job.shape, sizeof job.shape);
    return job;
}

static void measure_case(bench_run *run, const bench_device *device, const char *label, const bench_heads *heads,
                         hal_dtype dtype)
{
    bench_attention_problem problem = {.label = label, .heads = *heads, .dtype = dtype};
    bool good = bench_attention_create(&problem);
    bench_job job = job_of(run->options, &problem);
    if (good) {
        job.limit = bench_job_limit(run, device, &job);
        if (job.limit == BENCH_LIMIT_FMA) {
            const uint64_t size = run->options->quick ? 128 : 1024;
            bench_own_gemm_peer(&job.peers[0], "own GEMM", device,
                                &(bench_problem){.m = size, .n = size, .k = size, .dtype = dtype}, job.limit);
        }
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_attention_destroy(&problem);
}

/* Any size that is given makes it a single case. */
static bool single(const bench_options *options)
{
    const bench_heads *given = &options->heads;
    return given->batch || given->q_heads || given->kv_heads || given->head_dim || given->q_len || given->kv_len ||
           given->causal;
}

static bench_heads heads_given(const bench_heads *given)
{
    bench_heads heads = *given;
    heads.batch = given->batch ? given->batch : 1;
    heads.head_dim = given->head_dim ? given->head_dim : 128;
    if (!given->q_heads)
        heads.q_heads = given->kv_heads ? 4 * given->kv_heads : 8;
    if (!given->kv_heads)
        heads.kv_heads = heads.q_heads % 4 ? heads.q_heads : heads.q_heads / 4;
    if (!given->kv_len)
        heads.kv_len = given->q_len ? given->q_len : 2048;
    if (!given->q_len)
        heads.q_len = heads.kv_len;
    return heads;
}

/* The i-th case to measure; false after the last. */
static bool next_case(const bench_options *options, uint32_t *i, const char **label, bench_heads *heads)
{
    if (single(options)) {
        *label = "attention";
        *heads = heads_given(&options->heads);
        return (*i)++ == 0;
    }
    while (*i < CASES && options->command == BENCH_SUITE && !table[*i].in_suite)
        ++*i;
    if (*i == CASES)
        return false;
    *label = table[*i].label;
    *heads = table[(*i)++].heads;
    heads->page_size = options->heads.page_size;
    if (options->quick) {
        heads->kv_len /= QUICK_SHRINK;
        heads->q_len = (heads->q_len + QUICK_SHRINK - 1) / QUICK_SHRINK;
    }
    return true;
}

uint32_t bench_attention_steps(const bench_options *options)
{
    const char *label;
    bench_heads heads;
    hal_dtype dtypes[2];
    uint32_t i = 0, cases = 0;
    while (next_case(options, &i, &label, &heads))
        cases++;
    return cases * bench_dtypes(options, single(options), dtypes);
}

void bench_attention(bench_run *run, const bench_device *device)
{
    const char *label;
    bench_heads heads;
    hal_dtype dtypes[2];
    uint32_t i = 0, dtype_count = bench_dtypes(run->options, single(run->options), dtypes);
    while (next_case(run->options, &i, &label, &heads))
        for (uint32_t d = 0; d < dtype_count && !bench_interrupted(); d++)
            measure_case(run, device, label, &heads, dtypes[d]);
}
