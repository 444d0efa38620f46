/* gemm_quantize.c - a matrix product whose rows are quantised: one kernel with a queue of tiles (hal_gemm_quantize)
 * against the two kernels in turn. It competes where both have the same tile: E4M3 operands, and strict mode. */
#include "gemm.h"

#include <hal/ops.h>
#include <math.h>
#include <stdlib.h>

enum { A, B, D, CODES, SCALES, QUEUE }; /* places */
enum { SAMPLE_ROWS = 8, LARGEST = 448 /* of E4M3 */ };

static const struct {
    hal_dtype dtype; /* of A and B */
    hal_mode mode;
    const char *label;
} kinds[] = {{HAL_F8E4M3, HAL_MODE_FAST, "gemm+quantize"}, {HAL_F32, HAL_MODE_STRICT, "gemm+quantize strict"}};
static const struct {
    uint64_t m, n, k;
} shapes[] = {{1, 1024, 1024}, {16, 256, 256}, {64, 1024, 256}, {256, 1024, 1024}};
enum { KINDS = sizeof kinds / sizeof kinds[0], SHAPES = sizeof shapes / sizeof shapes[0], QUICK_SHRINK = 8 };

typedef struct chain {
    bench_problem problem; /* dtype: D's */
    hal_dtype dtype;       /* A's and B's */
    hal_mode mode;
    bench_operand_data a, b;
    void *zeros; /* the queue */
    uint64_t queue_size;
} chain;

/* The two kernels, in memory of their own. */
typedef struct in_turn {
    bench_job job;
    bench_stage stage;
    bool gpu;
} in_turn;

static hal_gemm_desc gemm_of(const chain *c, const hal_span *spans)
{
    const bench_problem *p = &c->problem;
    return *HAL_GEMM(.m = p->m, .n = p->n, .k = p->k, .dtype = c->dtype, .dtype_d = p->dtype, .a = spans[A],
                     .b = spans[B], .d = spans[D], .mode = c->mode);
}

static hal_status call_queue(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const hal_gemm_desc gemm = gemm_of(job->problem, spans);
    (void)workspace;
    return hal_gemm_quantize(
        list, HAL_GEMM_QUANTIZE(.gemm = &gemm, .codes = spans[CODES], .scales = spans[SCALES], .queue = spans[QUEUE]));
}

static hal_status call_in_turn(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const chain *c = job->problem;
    const bench_problem *p = &c->problem;
    hal_gemm_desc gemm = gemm_of(c, spans);
    gemm.workspace = workspace;
    const hal_status status = hal_gemm(list, &gemm);
    return status ? status
                  : hal_quantize(list, HAL_QUANTIZE(.rows = p->m, .columns = p->n, .dtype = p->dtype, .x = spans[D],
                                                    .codes = spans[CODES], .scales = spans[SCALES], .mode = c->mode));
}

static hal_status workspace_in_turn(hal_device *device, const bench_job *job, const hal_span *spans, uint64_t *size)
{
    const hal_gemm_desc gemm = gemm_of(job->problem, spans);
    return hal_gemm_workspace(device, &gemm, size);
}

/* A row's scale is D's largest magnitude / 448; code * scale is then the nearest such number to D's. */
static void check_row(const bench_problem *p, const void *const *results, uint64_t row, bench_worst *worst)
{
    double most = 0;
    for (uint64_t i = 0; i < p->n; i++)
        most = fmax(most, fabs(bench_element(results[D], p->dtype, row * p->n + i)));
    const double scale = bench_element(results[SCALES], HAL_F32, row), want = most > 0 ? most / LARGEST : 1;
    bench_worst_note(worst, scale, want, want * 0x1p-23);
    for (uint64_t i = row * p->n; i < (row + 1) * p->n; i++) {
        const double d = bench_element(results[D], p->dtype, i);
        bench_worst_note(worst, bench_element(results[CODES], HAL_F8E4M3, i) * scale, d,
                         scale * bench_store_error(HAL_F8E4M3, d / scale) * (1 + 0x1p-20));
    }
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    const chain *c = job->problem;
    bench_gemm_check(&c->problem, results[D], worst);
    for (uint32_t i = 0; i < SAMPLE_ROWS; i++)
        check_row(&c->problem, results, bench_sample(c->problem.m, i), worst);
}

static bool call_peer(bench_peer *peer, uint32_t repeats, double *seconds)
{
    in_turn *self = peer->state;
    bench_times times;
    if (!bench_stage_call(&self->stage, repeats, self->gpu, &times))
        return false;
    *seconds = bench_times_seconds(&times);
    return true;
}

static void close_peer(bench_peer *peer)
{
    in_turn *self = peer->state;
    bench_stage_close(&self->stage);
    free(self);
}

/* Checked, too: what is wrong is no peer. */
static void open_peer(bench_peer *peer, const bench_device *device, const bench_job *queue)
{
    in_turn *self = calloc(1, sizeof *self);
    bench_times first;
    bench_worst worst;
    if (!self)
        return;
    *peer = (bench_peer){.name = "two kernels", .call = call_peer, .close = close_peer, .state = self};
    self->gpu = device->info.type != HAL_DEVICE_CPU;
    self->job = *queue;
    self->job.call = call_in_turn;
    self->job.workspace = workspace_in_turn;
    if (!bench_stage_open(&self->stage, device, &self->job) || !bench_stage_call(&self->stage, 1, false, &first) ||
        !bench_stage_check(&self->stage, &worst) || !(worst.share <= 1)) {
        close_peer(peer);
        *peer = (bench_peer){.name = NULL};
    }
}

static void measure(bench_run *run, const bench_device *device, chain *c)
{
    bench_problem *p = &c->problem;
    const bool good = bench_operand_create(&c->a, p->m * p->k, c->dtype, 1, 1) &&
                      bench_operand_create(&c->b, p->k * p->n, c->dtype, 2, 1);
    p->a = &c->a;
    p->b = &c->b;
    bench_job job = bench_gemm_job(p);
    const hal_gemm_desc sizes = *HAL_GEMM(.m = p->m, .n = p->n, .k = p->k, .dtype = c->dtype, .dtype_d = p->dtype);
    const bool queue = good && hal_gemm_quantize_queue(&sizes, &c->queue_size) == HAL_OK &&
                       (c->zeros = calloc(1, c->queue_size)) != NULL;
    job.problem = c;
    job.call = call_queue;
    job.workspace = NULL;
    job.check = check;
    job.dtype = c->dtype;
    const uint64_t element = hal_dtype_size(c->dtype);
    job.places[A].size = p->m * p->k * element;
    job.places[B].size = p->k * p->n * element;
    job.places[CODES] = (bench_place){"codes", NULL, p->m * p->n};
    job.places[SCALES] = (bench_place){"scales", NULL, p->m * sizeof(float)};
    job.places[QUEUE] = (bench_place){"queue", c->zeros, c->queue_size};
    if (queue) {
        open_peer(&job.peers[0], device, &job);
        bench_row *row = bench_job_measure(run, device, &job);
        if (row) {
            row->m = p->m;
            row->n = p->n;
            row->k = p->k;
            row->peak_fraction = row->floor_ratio;
        }
    } else {
        bench_job_no_memory(run, device, &job);
    }
    free(c->zeros);
    bench_operand_destroy(&c->a);
    bench_operand_destroy(&c->b);
}

static bool single(const bench_options *options)
{
    return options->m || options->n || options->k;
}

static uint64_t size_of(const bench_options *options, uint64_t given, uint64_t fallback, uint64_t of_case)
{
    if (single(options))
        return given ? given : fallback;
    return options->quick && of_case > QUICK_SHRINK * 4 ? of_case / QUICK_SHRINK : of_case;
}

uint32_t bench_gemm_quantize_steps(const bench_options *options)
{
    return KINDS * (single(options) ? 1 : SHAPES);
}

void bench_gemm_quantize(bench_run *run, const bench_device *device)
{
    const bench_options *o = run->options;
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < (single(o) ? 1 : SHAPES) && !bench_interrupted(); i++) {
            chain c = {.problem = {.label = kinds[kind].label,
                                   .m = size_of(o, o->m, 64, shapes[i].m),
                                   .n = size_of(o, o->n, 1024, shapes[i].n),
                                   .k = size_of(o, o->k, 1024, shapes[i].k),
                                   .dtype = kinds[kind].dtype == HAL_F32 ? HAL_F32 : HAL_BF16,
                                   .budget = bench_budget(o)},
                       .dtype = kinds[kind].dtype,
                       .mode = kinds[kind].mode};
            measure(run, device, &c);
        }
}
