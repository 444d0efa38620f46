/* quantize.c - how fast are conversions: to E4M3 with a scale a row, back, and between formats? */
#include "job.h"

#include <hal/ops.h>
#include <math.h>

enum { QUANTIZE, DEQUANTIZE, CAST };
enum { TO, FROM, SCALES }; /* places */

static const bench_matrix_case table[] = {
    {"quantize", QUANTIZE, 1024, 4096, true, HAL_F32},
    {"dequantize", DEQUANTIZE, 1024, 4096, false, HAL_F32},
    {"cast", CAST, 1024, 4096, false, HAL_F32},
};
enum { CASES = sizeof table / sizeof table[0], SAMPLE_ROWS = 24, LARGEST = 448 /* of E4M3 */ };

typedef struct conversion {
    bench_matrix_case shape;
    hal_dtype from, to; /* the formats of the two matrices */
    bench_operand_data x, scales;
} conversion;

static hal_status call_quantize(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const conversion *self = job->problem;
    (void)workspace;
    return hal_quantize(list, HAL_QUANTIZE(.rows = self->shape.rows, .columns = self->shape.columns,
                                           .dtype = self->from, .scaling = HAL_SCALE_ROW_AMAX, .x = spans[FROM],
                                           .codes = spans[TO], .scales = spans[SCALES]));
}

static hal_status call_dequantize(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const conversion *self = job->problem;
    (void)workspace;
    return hal_dequantize(list, HAL_QUANTIZE(.rows = self->shape.rows, .columns = self->shape.columns,
                                             .dtype = self->to, .scaling = HAL_SCALE_ROW, .x = spans[TO],
                                             .codes = spans[FROM], .scales = spans[SCALES]));
}

static hal_status call_cast(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const conversion *self = job->problem;
    (void)workspace;
    return hal_cast(list, HAL_CAST(.rows = self->shape.rows, .columns = self->shape.columns, .dtype = self->from,
                                   .dtype_y = self->to, .x = spans[FROM], .y = spans[TO]));
}

/* The scale is the row's largest magnitude / 448; code * scale is then the nearest such number to x. */
static void check_quantized(const conversion *self, const void *const *results, uint64_t row, bench_worst *worst)
{
    const uint64_t n = self->shape.columns;
    const float *x = self->x.values + row * n;
    double most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    const double scale = bench_element(results[SCALES], HAL_F32, row), want = most > 0 ? most / LARGEST : 1;
    bench_worst_note(worst, scale, want, want * 0x1p-23);
    for (uint64_t i = 0; i < n; i++)
        bench_worst_note(worst, bench_element(results[TO], HAL_F8E4M3, row * n + i) * scale, (double)x[i],
                         scale * bench_store_error(HAL_F8E4M3, (double)x[i] / scale) * (1 + 0x1p-20));
}

/* The others: x, or x times the row's scale, rounded once to FP32 and once to what is stored. */
static void check_converted(const conversion *self, const void *const *results, uint64_t row, bench_worst *worst)
{
    const uint64_t n = self->shape.columns;
    for (uint64_t i = row * n; i < (row + 1) * n; i++) {
        const double want = (double)self->x.values[i] * (self->scales.values ? (double)self->scales.values[row] : 1);
        bench_worst_note(worst, bench_element(results[TO], self->to, i), want,
                         fabs(want) * 0x1p-24 + bench_store_error(self->to, want));
    }
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    const conversion *self = job->problem;
    for (uint32_t i = 0; i < SAMPLE_ROWS; i++) {
        uint64_t row = bench_sample(self->shape.rows, i);
        if (self->shape.op == QUANTIZE)
            check_quantized(self, results, row, worst);
        else
            check_converted(self, results, row, worst);
    }
}

static conversion conversion_of(const bench_matrix_case *shape)
{
    conversion self = {.shape = *shape, .from = shape->dtype, .to = HAL_F8E4M3};
    if (shape->op == DEQUANTIZE) {
        self.from = HAL_F8E4M3;
        self.to = shape->dtype;
    } else if (shape->op == CAST) {
        self.to = shape->dtype == HAL_F32 ? HAL_BF16 : HAL_F32;
    }
    return self;
}

static void measure_case(bench_run *run, const bench_device *device, const bench_matrix_case *shape)
{
    conversion self = conversion_of(shape);
    const uint64_t count = shape->rows * shape->columns, size_from = count * hal_dtype_size(self.from),
                   size_to = count * hal_dtype_size(self.to), size_scales = shape->rows * sizeof(float);
    const bool scaled = shape->op != CAST, reads_scales = shape->op == DEQUANTIZE;
    bench_job job = bench_matrix_job(run->options, "quantize", shape);
    job.bytes = (double)(size_from + size_to + (scaled ? size_scales : 0));
    job.problem = &self;
    job.call = shape->op == QUANTIZE ? call_quantize : shape->op == DEQUANTIZE ? call_dequantize : call_cast;
    job.check = check;
    if (bench_operand_create(&self.x, count, self.from, 1, self.from == HAL_F8E4M3 ? LARGEST : 4) &&
        (!reads_scales || bench_operand_create(&self.scales, shape->rows, HAL_F32, 2, 1))) {
        job.places[TO] = (bench_place){"to", NULL, size_to};
        job.places[FROM] = (bench_place){"from", self.x.elements, size_from};
        if (scaled)
            job.places[SCALES] = (bench_place){"scales", self.scales.elements, size_scales};
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&self.x);
    bench_operand_destroy(&self.scales);
}

uint32_t bench_quantize_steps(const bench_options *options)
{
    return bench_matrix_cases(options, table, CASES, NULL);
}

void bench_quantize(bench_run *run, const bench_device *device)
{
    bench_matrix_each(run, device, table, CASES, measure_case);
}
