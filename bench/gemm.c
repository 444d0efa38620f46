/* gemm.c - how fast is a matrix product, against what the machine can do and against OpenBLAS and CLBlast? */
#include "gemm.h"

#include <hal/ops.h>
#include <math.h>
#include <string.h>

static const hal_gemm_desc *describe(const bench_problem *problem, const hal_span *spans, hal_span workspace,
                                     hal_gemm_desc *desc)
{
    *desc = *HAL_GEMM(.m = problem->m, .n = problem->n, .k = problem->k, .dtype = problem->dtype, .a = spans[0],
                      .b = spans[1], .d = spans[2], .workspace = workspace);
    return desc;
}

static hal_status call(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    hal_gemm_desc desc;
    return hal_gemm(list, describe(job->problem, spans, workspace, &desc));
}

static hal_status workspace(hal_device *device, const bench_job *job, const hal_span *spans, uint64_t *size)
{
    hal_gemm_desc desc;
    return hal_gemm_workspace(device, describe(job->problem, spans, (hal_span){0}, &desc), size);
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    bench_gemm_check(job->problem, results[2], worst);
}

bench_job bench_gemm_job(const bench_problem *problem)
{
    uint64_t m = problem->m, n = problem->n, k = problem->k, element = hal_dtype_size(problem->dtype);
    bench_job job = {.op = "gemm",
                     .label = problem->label,
                     .dtype = problem->dtype,
                     .limit = BENCH_LIMIT_FMA,
                     .flops = 2 * (double)m * (double)n * (double)k,
                     .bytes = (double)((m * k + k * n + m * n) * element),
                     .budget = problem->budget,
                     .places = {{"A", problem->a->elements, m * k * element},
                                {"B", problem->b->elements, k * n * element},
                                {"D", NULL, m * n * element}},
                     .problem = problem,
                     .call = call,
                     .workspace = workspace,
                     .check = check};
    snprintf(job.shape, sizeof job.shape, "%llux%llux%llu", (unsigned long long)m, (unsigned long long)n,
             (unsigned long long)k);
    return job;
}

void bench_gemm_measure(bench_run *run, const bench_device *device, const bench_problem *problem)
{
    bench_job job = bench_gemm_job(problem);
    bench_peak peak = bench_peak_of(run, device, problem->dtype);
    bool cpu = device->info.type == HAL_DEVICE_CPU, compute;
    job.limit = bench_job_limit(run, device, &job);
    compute = job.limit == BENCH_LIMIT_FMA;
    if (cpu)
        bench_openblas_peer(&job.peers[0], problem, run->machine.floors.threads);
    bench_clblast_peer(&job.peers[1], problem, device);
    if (problem->full_m) {
        const bench_problem full = {
            .m = problem->full_m, .n = problem->full_n, .k = problem->full_k, .dtype = problem->dtype};
        bench_own_gemm_peer(&job.peers[2], "full size", device, &full, job.limit);
    }
    bench_row *row = bench_job_measure(run, device, &job);
    if (!row)
        return;
    row->m = problem->m;
    row->n = problem->n;
    row->k = problem->k;
    row->peak_fraction = cpu ? row->floor_ratio : compute ? row->gflops / peak.gflops : row->gbps / peak.gbps;
}

uint64_t bench_gemm_fit(const bench_device *device, const bench_problem *problem, uint64_t most, double seconds)
{
    bench_problem probe = *problem;
    uint64_t fits = 0;
    for (probe.m = 16; probe.m <= most && !bench_interrupted(); probe.m *= 4) {
        bench_stage stage;
        bench_times times = {0};
        const bench_job job = bench_gemm_job(&probe);
        bool good = bench_stage_open(&stage, device, &job);
        for (int turn = 0; good && turn < 2; turn++) /* the first may compile */
            good = bench_stage_call(&stage, 1, false, &times);
        bench_stage_close(&stage);
        if (!good)
            break;
        double each = (times.submit + times.wait) / (double)probe.m;
        fits = 1;
        while (2 * fits <= most && (double)(2 * fits) * each <= seconds)
            fits *= 2;
        if (fits <= probe.m * 4 || probe.m * 4 > most)
            break; /* near enough to what was timed; else look closer */
    }
    return fits;
}

/* Few rows, a matrix that fills its tiles, a k that just does and just does not, and one that fills nothing: these are
 * compared with a near size that does. */
static const struct {
    uint64_t m, n, k, full_m, full_k;
} shapes[] = {{1, 3072, 1024, 0, 0},         {8, 3072, 1024, 0, 0},          {9, 3072, 1024, 8, 1024},
              {16, 3072, 1024, 0, 0},        {17, 3072, 1024, 16, 1024},     {256, 3072, 1024, 0, 0},
              {1024, 1024, 1024, 0, 0},      {1024, 1024, 1023, 1024, 1024}, {1024, 1024, 1025, 1024, 1024},
              {1000, 1001, 1003, 1024, 1024}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], QUICK_SHRINK = 8 };

static bool single(const bench_options *options)
{
    return options->m || options->n || options->k;
}

static uint64_t shrink(const bench_options *options, uint64_t size)
{
    return options->quick && size > QUICK_SHRINK * 4 ? size / QUICK_SHRINK : size;
}

static bench_problem problem_at(const bench_options *options, uint32_t i)
{
    bench_problem problem = {.label = "gemm", .budget = bench_budget(options) / 2};
    if (single(options)) {
        problem.budget = bench_budget(options) * 2;
        problem.m = options->m ? options->m : 128;
        problem.n = options->n ? options->n : 12288;
        problem.k = options->k ? options->k : 4096;
    } else {
        problem.m = shrink(options, shapes[i].m);
        problem.n = shrink(options, shapes[i].n);
        problem.k = shrink(options, shapes[i].k);
        problem.full_m = shrink(options, shapes[i].full_m);
        problem.full_n = (problem.n + 63) / 64 * 64;
        problem.full_k = shrink(options, shapes[i].full_k);
    }
    return problem;
}

static bool quantises(const bench_options *options)
{
    return options->op && strcmp(options->op, "quantize") == 0;
}

uint32_t bench_gemm_steps(const bench_options *options)
{
    hal_dtype dtypes[2];
    return quantises(options) ? bench_gemm_quantize_steps(options)
                              : bench_dtypes(options, single(options), dtypes) * (single(options) ? 1 : SHAPES);
}

static void measure_shape(bench_run *run, const bench_device *device, bench_problem problem)
{
    bench_operand_data a = {0}, b = {0};
    problem.a = &a;
    problem.b = &b;
    if (bench_operand_create(&a, problem.m * problem.k, problem.dtype, 1, 1) &&
        bench_operand_create(&b, problem.k * problem.n, problem.dtype, 2, 1)) {
        bench_gemm_measure(run, device, &problem);
    } else {
        const bench_job job = bench_gemm_job(&problem);
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&a);
    bench_operand_destroy(&b);
}

void bench_gemm(bench_run *run, const bench_device *device)
{
    hal_dtype dtypes[2];
    const bench_options *options = run->options;
    if (quantises(options)) {
        bench_gemm_quantize(run, device);
        return;
    }
    uint32_t dtype_count = bench_dtypes(options, single(options), dtypes);
    for (uint32_t d = 0; d < dtype_count; d++)
        for (uint32_t i = 0; i < (single(options) ? 1 : SHAPES) && !bench_interrupted(); i++) {
            bench_problem problem = problem_at(options, i);
            problem.dtype = dtypes[d];
            measure_shape(run, device, problem);
        }
}
