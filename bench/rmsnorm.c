/* rmsnorm.c - how fast is RMSNorm along rows, alone and with the addition before it, against a plain copy? */
#include "job.h"

#include <hal/ops.h>
#include <math.h>

enum { PLAIN, RESIDUAL };
enum { Y, X, WEIGHT, ADDED, SUM }; /* places */

static const bench_matrix_case table[] = {
    {"rmsnorm", PLAIN, 1024, 4096, true, HAL_F32},
    {"rmsnorm", PLAIN, 16, 262144, false, HAL_F32}, /* few long rows: each may be split */
    {"residual", RESIDUAL, 1024, 4096, false, HAL_F32},
};
enum { CASES = sizeof table / sizeof table[0], SAMPLE_ROWS = 24 };

static const float eps = 1e-5f;

typedef struct rmsnorm {
    bench_matrix_case shape;
    bench_operand_data x, weight, residual;
} rmsnorm;

static const hal_rmsnorm_desc *describe(const rmsnorm *self, const hal_span *spans, hal_span scratch,
                                        hal_rmsnorm_desc *desc)
{
    *desc = *HAL_RMSNORM(.rows = self->shape.rows, .columns = self->shape.columns, .dtype = self->shape.dtype,
                         .x = spans[X], .weight = spans[WEIGHT], .y = spans[Y], .eps = eps, .workspace = scratch);
    if (self->shape.op == RESIDUAL) {
        desc->residual = spans[ADDED];
        desc->sum = spans[SUM];
    }
    return desc;
}

static hal_status call(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    hal_rmsnorm_desc desc;
    return hal_rmsnorm(list, describe(job->problem, spans, workspace, &desc));
}

static hal_status workspace(hal_device *device, const bench_job *job, const hal_span *spans, uint64_t *size)
{
    hal_rmsnorm_desc desc;
    return hal_rmsnorm_workspace(device, describe(job->problem, spans, (hal_span){0}, &desc), size);
}

/* The mean of n squares is off by at most 8 sqrt(n) units, its root by half of that. With a residual the sum is checked
 * as such, and what was written of it is the input. */
static void check_row(const rmsnorm *self, const void *const *results, uint64_t row, bench_worst *worst)
{
    const uint64_t n = self->shape.columns, start = row * n;
    const hal_dtype dtype = self->shape.dtype;
    const double error = 0x1p-24 * (8 + 4 * sqrt((double)n));
    double squares = 0;
    for (uint64_t i = start; i < start + n; i++) {
        double x = (double)self->x.values[i];
        if (results[SUM]) {
            const double want = x + (double)self->residual.values[i];
            x = bench_element(results[SUM], dtype, i);
            bench_worst_note(worst, x, want, bench_store_error(dtype, want) * (1 + 0x1p-12));
        }
        squares += x * x;
    }
    const double factor = 1 / sqrt(squares / (double)n + (double)eps);
    for (uint64_t i = start; i < start + n; i++) {
        const double x = results[SUM] ? bench_element(results[SUM], dtype, i) : (double)self->x.values[i];
        const double want = x * factor * (double)self->weight.values[i - start];
        bench_worst_note(worst, bench_element(results[Y], dtype, i), want,
                         fabs(want) * error + bench_store_error(dtype, want) + 0x1p-126);
    }
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    const rmsnorm *self = job->problem;
    for (uint32_t i = 0; i < SAMPLE_ROWS; i++)
        check_row(self, results, bench_sample(self->shape.rows, i), worst);
}

static void measure_case(bench_run *run, const bench_device *device, const bench_matrix_case *shape)
{
    rmsnorm self = {.shape = *shape};
    bool residual = shape->op == RESIDUAL;
    uint64_t element = hal_dtype_size(shape->dtype), count = shape->rows * shape->columns, size = count * element;
    bench_job job = bench_matrix_job(run->options, "rmsnorm", shape);
    job.bytes = (residual ? 4.0 : 2.0) * (double)size + (double)(shape->columns * element);
    job.problem = &self;
    job.call = call;
    job.workspace = workspace;
    job.check = check;
    if (bench_operand_create(&self.x, count, shape->dtype, 1, 1) &&
        bench_operand_create(&self.weight, shape->columns, shape->dtype, 2, 2) &&
        (!residual || bench_operand_create(&self.residual, count, shape->dtype, 3, 1))) {
        job.places[Y] = (bench_place){"y", NULL, size};
        job.places[X] = (bench_place){"x", self.x.elements, size};
        job.places[WEIGHT] = (bench_place){"weight", self.weight.elements, shape->columns * element};
        if (residual) {
            job.places[ADDED] = (bench_place){"residual", self.residual.elements, size};
            job.places[SUM] = (bench_place){"sum", NULL, size};
        }
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&self.x);
    bench_operand_destroy(&self.weight);
    bench_operand_destroy(&self.residual);
}

uint32_t bench_rmsnorm_steps(const bench_options *options)
{
    return bench_matrix_cases(options, table, CASES, NULL);
}

void bench_rmsnorm(bench_run *run, const bench_device *device)
{
    bench_matrix_each(run, device, table, CASES, measure_case);
}
