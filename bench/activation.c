/* activation.c - how fast are activations, addition, multiplication and SwiGLU, against a plain copy? */
#include "job.h"

#include <hal/ops.h>
#include <math.h>

/* hal_binary's operators come after hal_activation's. */
enum { BINARY = 16 };

static const bench_matrix_case table[] = {
    {"silu", HAL_ACT_SILU, 1024, 4096, true, HAL_F32},
    {"gelu", HAL_ACT_GELU_ERF, 1024, 4096, false, HAL_F32},
    {"gelu_tanh", HAL_ACT_GELU_TANH, 1024, 4096, false, HAL_F32},
    {"sigmoid", HAL_ACT_SIGMOID, 1024, 4096, false, HAL_F32},
    {"relu", HAL_ACT_RELU, 1024, 4096, false, HAL_F32},
    {"add", BINARY + HAL_ADD, 1024, 4096, true, HAL_F32},
    {"multiply", BINARY + HAL_MULTIPLY, 1024, 4096, false, HAL_F32},
    {"swiglu", BINARY + HAL_SWIGLU, 1024, 4096, false, HAL_F32},
};
enum { CASES = sizeof table / sizeof table[0] };

typedef struct activation {
    bench_matrix_case shape;
    bench_operand_data x, b; /* b: of the binary ones */
} activation;

static hal_status call_unary(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const activation *self = job->problem;
    (void)workspace;
    return hal_activation(list, HAL_ACTIVATION(.rows = self->shape.rows, .columns = self->shape.columns,
                                               .act = (hal_act)self->shape.op, .dtype = self->shape.dtype,
                                               .x = spans[1], .y = spans[0]));
}

static hal_status call_binary(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const activation *self = job->problem;
    (void)workspace;
    return hal_binary(list, HAL_BINARY(.rows = self->shape.rows, .columns = self->shape.columns,
                                       .op = (hal_binary_op)(self->shape.op - BINARY), .dtype = self->shape.dtype,
                                       .a = spans[1], .b = spans[2], .y = spans[0]));
}

/* In double, and how far plain FP32 may be off as a share of it: some units in the last place, and what exp makes of
 * its argument being off by that. */
static double reference(int op, double x, double b, double *error)
{
    double y = NAN;
    *error = 0x1p-24;
    switch (op) {
    case HAL_ACT_RELU:
        return fmax(x, 0);
    case BINARY + HAL_ADD:
        return x + b;
    case BINARY + HAL_MULTIPLY:
        return x * b;
    case HAL_ACT_GELU_ERF:
        y = 0.5 * x * erfc(-x * M_SQRT1_2);
        break;
    case HAL_ACT_GELU_TANH:
        y = x / (1 + exp(-2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
        break;
    case HAL_ACT_SILU:
        y = x / (1 + exp(-x));
        break;
    case HAL_ACT_SIGMOID:
        y = 1 / (1 + exp(-x));
        break;
    case BINARY + HAL_SWIGLU:
        y = x / (1 + exp(-x)) * b;
        break;
    default:
        break;
    }
    *error = 0x1p-24 * (8 + 8 * x * x);
    return y;
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    enum { SAMPLE = 20000 };
    const activation *self = job->problem;
    uint64_t count = self->x.count;
    for (uint32_t i = 0; i < SAMPLE; i++) {
        double error;
        uint64_t at = bench_sample(count, i);
        double want = reference(self->shape.op, (double)self->x.values[at],
                                self->b.values ? (double)self->b.values[at] : 0, &error);
        bench_worst_note(worst, bench_element(results[0], self->shape.dtype, at), want,
                         fabs(want) * error + bench_store_error(self->shape.dtype, want) + 0x1p-126);
    }
}

static void measure_case(bench_run *run, const bench_device *device, const bench_matrix_case *shape)
{
    activation self = {.shape = *shape};
    bool binary = shape->op >= BINARY;
    uint64_t count = shape->rows * shape->columns, size = count * hal_dtype_size(shape->dtype);
    bench_job job = bench_matrix_job(run->options, "activation", shape);
    job.bytes = (binary ? 3.0 : 2.0) * (double)size;
    job.problem = &self;
    job.call = binary ? call_binary : call_unary;
    job.check = check;
    if (bench_operand_create(&self.x, count, shape->dtype, 1, 4) &&
        (!binary || bench_operand_create(&self.b, count, shape->dtype, 2, 4))) {
        job.places[0] = (bench_place){"y", NULL, size};
        job.places[1] = (bench_place){"x", self.x.elements, size};
        if (binary)
            job.places[2] = (bench_place){"b", self.b.elements, size};
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&self.x);
    bench_operand_destroy(&self.b);
}

uint32_t bench_activation_steps(const bench_options *options)
{
    return bench_matrix_cases(options, table, CASES, NULL);
}

void bench_activation(bench_run *run, const bench_device *device)
{
    bench_matrix_each(run, device, table, CASES, measure_case);
}
