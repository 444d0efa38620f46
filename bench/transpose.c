/* transpose.c - how fast are permutations of dimensions, against a plain copy? */
#include "job.h"

#include <hal/ops.h>
#include <math.h>

/* A matrix, and what attention does with heads: [tokens][heads][dim] to [heads][tokens][dim] or [heads][dim][tokens].
 */
static const struct {
    bench_permutation shape;
    bool in_suite;
} table[] = {
    {{2, {4096, 4096}, {1, 0}}, true},
    {{3, {2048, 32, 128}, {1, 0, 2}}, false},
    {{3, {2048, 32, 128}, {1, 2, 0}}, false},
    {{3, {256, 256, 256}, {2, 1, 0}}, false},
};
enum { CASES = sizeof table / sizeof table[0], QUICK_SHRINK = 4 };

typedef struct transpose {
    bench_permutation shape;
    bench_operand_data x;
} transpose;

static hal_status call(hal_cmdlist *list, const bench_job *job, const hal_span *spans, hal_span workspace)
{
    const transpose *self = job->problem;
    hal_transpose_desc desc =
        *HAL_TRANSPOSE(.rank = self->shape.rank, .dtype = job->dtype, .x = spans[1], .y = spans[0]);
    (void)workspace;
    for (uint32_t d = 0; d < desc.rank; d++) {
        desc.dims[d] = self->shape.dims[d];
        desc.perm[d] = self->shape.perm[d];
    }
    return hal_transpose(list, &desc);
}

/* Where element `place` of the result comes from. */
static uint64_t source(const bench_permutation *shape, uint64_t place)
{
    uint64_t index[HAL_MAX_DIMS] = {0}, from = 0;
    for (uint32_t d = shape->rank; d-- > 0; place /= shape->dims[shape->perm[d]])
        index[shape->perm[d]] = place % shape->dims[shape->perm[d]];
    for (uint32_t d = 0; d < shape->rank; d++)
        from = from * shape->dims[d] + index[d];
    return from;
}

static void check(const bench_job *job, const void *const *results, bench_worst *worst)
{
    enum { SAMPLE = 50000 };
    const transpose *self = job->problem;
    for (uint32_t i = 0; i < SAMPLE; i++) {
        uint64_t place = bench_sample(self->x.count, i);
        bench_worst_note(worst, bench_element(results[0], job->dtype, place),
                         (double)self->x.values[source(&self->shape, place)], 0);
    }
}

/* "4096x4096 1,0" */
static void describe(const bench_permutation *shape, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t d = 0; d < shape->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", d ? "x" : "", (unsigned long long)shape->dims[d]);
    for (uint32_t d = 0; d < shape->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%c%u", d ? ',' : ' ', shape->perm[d]);
}

static void measure_case(bench_run *run, const bench_device *device, const bench_permutation *shape, hal_dtype dtype)
{
    transpose self = {.shape = *shape};
    uint64_t count = 1;
    for (uint32_t d = 0; d < shape->rank; d++)
        count *= shape->dims[d];
    const uint64_t size = count * hal_dtype_size(dtype);
    bench_job job = {.op = "transpose",
                     .label = "transpose",
                     .dtype = dtype,
                     .limit = BENCH_LIMIT_COPY,
                     .bytes = 2 * (double)size,
                     .budget = bench_budget(run->options),
                     .problem = &self,
                     .call = call,
                     .check = check};
    describe(shape, job.shape, sizeof job.shape);
    if (bench_operand_create(&self.x, count, dtype, 1, 1)) {
        job.places[0] = (bench_place){"y", NULL, size};
        job.places[1] = (bench_place){"x", self.x.elements, size};
        bench_job_measure(run, device, &job);
    } else {
        bench_job_no_memory(run, device, &job);
    }
    bench_operand_destroy(&self.x);
}

/* The i-th shape to measure; false after the last. */
static bool next_shape(const bench_options *options, uint32_t *i, bench_permutation *shape)
{
    if (options->permutation.rank) {
        *shape = options->permutation;
        return (*i)++ == 0;
    }
    while (*i < CASES && options->command == BENCH_SUITE && !table[*i].in_suite)
        ++*i;
    if (*i == CASES)
        return false;
    *shape = table[(*i)++].shape;
    for (uint32_t d = 0; options->quick && d < shape->rank; d++)
        shape->dims[d] = shape->dims[d] / QUICK_SHRINK;
    return true;
}

uint32_t bench_transpose_steps(const bench_options *options)
{
    bench_permutation shape;
    hal_dtype dtypes[2];
    uint32_t i = 0, shapes = 0;
    while (next_shape(options, &i, &shape))
        shapes++;
    return shapes * bench_dtypes(options, options->permutation.rank > 0, dtypes);
}

void bench_transpose(bench_run *run, const bench_device *device)
{
    bench_permutation shape;
    hal_dtype dtypes[2];
    uint32_t i = 0, dtype_count = bench_dtypes(run->options, run->options->permutation.rank > 0, dtypes);
    while (next_shape(run->options, &i, &shape))
        for (uint32_t d = 0; d < dtype_count && !bench_interrupted(); d++)
            measure_case(run, device, &shape, dtypes[d]);
}
