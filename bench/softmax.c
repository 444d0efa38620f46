/* softmax.c - how fast is a softmax along rows, against a plain copy? */
#include "job.h"

#include <hal/ops.h>
#include <math.h>

enum { PLAIN, LOGARITHM };

/* The second is a row of a large vocabulary's scores (Llama 3: 128,256 tokens), past a group's shared memory. */
static const bench_matrix_case table[] = {
    {"softmax", PLAIN, 1024, 4096, true, HAL_F32},
    {"softmax", PLAIN, 32, 128256, false, HAL_F32},
    {"log_softmax", LOGARITHM, 1024, 4096, false, HAL_F32},
};
enum { CASES = sizeof table / sizeof table[0], RANGE = 8, SAMPLE_ROWS = 12 };

typedef struct softmax {
    bench_matrix_case shape;
    bench_operand_data x;
} softmax;

static hal_status call(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const softmax *self = job->problem;
    (void)workspace;
    return hal_softmax(list,
                       HAL_SOFTMAX(.rows = self->shape.rows, .columns = self->shape.columns, .dtype = self->shape.dtype,
                                   .log = self->shape.op == LOGARITHM, .x = spans[1], .y = spans[0]));
}

/* exp's argument is rounded and so is its result; the sum of n terms is off by at most 8 sqrt(n) units. */
static void check_row(const softmax *self, const void *result, uint64_t row, bench_worst *worst)
{
    const uint64_t n = self->shape.columns;
    const float *x = self->x.values + row * n;
    const double sum_error = 8 * sqrt((double)n) * 0x1p-24;
    double most = -INFINITY, sum = 0;
    for (uint64_t i = 0; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (uint64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    for (uint64_t i = 0; i < n; i++) {
        const double below = (double)x[i] - most;
        double want, error;
        if (self->shape.op == LOGARITHM) {
            want = below - log(sum);
            error = sum_error + 0x1p-24 * (8 + 4 * (fabs(below) + fabs(log(sum))));
        } else {
            want = exp(below) / sum;
            error = want * (sum_error + 0x1p-24 * (8 + 2 * fabs(below))) + 0x1p-126;
        }
        bench_worst_note(worst, bench_element(result, self->shape.dtype, row * n + i), want,
                         error + bench_store_error(self->shape.dtype, want));
    }
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    const softmax *self = job->problem;
    for (uint32_t i = 0; i < SAMPLE_ROWS; i++)
        check_row(self, results[0], bench_sample(self->shape.rows, i), worst);
}

static void measure_case(bench_run *run, const bench_device *device, const bench_matrix_case *shape)
{
    softmax self = {.shape = *shape};
    uint64_t count = shape->rows * shape->columns, size = count * hal_dtype_size(shape->dtype);
    bench_job job = bench_matrix_job(run->options, "softmax", shape);
    job.bytes = 2 * (double)size;
    job.problem = &self;
    job.call = call;
    job.check = check;
    if (bench_operand_create(&self.x, count, shape->dtype, 1, RANGE)) {
        job.places[0] = (bench_place){"y", NULL, size};
        job.places[1] = (bench_place){"x", self.x.elements, size};
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&self.x);
}

uint32_t bench_softmax_steps(const bench_options *options)
{
    return bench_matrix_cases(options, table, CASES, NULL);
}

void bench_softmax(bench_run *run, const bench_device *device)
{
    bench_matrix_each(run, device, table, CASES, measure_case);
}
