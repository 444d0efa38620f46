/* attention_check.c - operands of attention, and a double-precision reference. */
#include "attention.h"

#include <math.h>
#include <stdlib.h>

static bool create_pages(bench_attention_problem *problem)
{
    const uint64_t batch = problem->heads.batch, columns = problem->page_columns;
    problem->page_table = malloc(batch * columns * sizeof *problem->page_table);
    problem->kv_lengths = malloc(batch * sizeof *problem->kv_lengths);
    if (!problem->page_table || !problem->kv_lengths)
        return false;
    for (uint64_t i = 0; i < batch * columns; i++)
        problem->page_table[i] = (int32_t)(batch * columns - 1 - i);
    for (uint64_t s = 0; s < batch; s++)
        problem->kv_lengths[s] = (int32_t)problem->heads.kv_len;
    return true;
}

bool bench_attention_create(bench_attention_problem *problem)
{
    enum { RANGE = 4 }; /* of Q: scores that differ by several units */
    const bench_heads *heads = &problem->heads;
    uint64_t tokens = heads->kv_len;
    if (heads->page_size) {
        problem->page_columns = (heads->kv_len + heads->page_size - 1) / heads->page_size;
        tokens = problem->page_columns * heads->page_size;
    }
    const uint64_t dim = heads->head_dim, keys = heads->batch * tokens * heads->kv_heads * dim;
    return bench_operand_create(&problem->q, heads->batch * heads->q_len * heads->q_heads * dim, problem->dtype, 1,
                                RANGE) &&
           bench_operand_create(&problem->k, keys, problem->dtype, 2, 1) &&
           bench_operand_create(&problem->v, keys, problem->dtype, 3, 1) &&
           (!heads->page_size || create_pages(problem));
}

void bench_attention_destroy(bench_attention_problem *problem)
{
    bench_operand_destroy(&problem->q);
    bench_operand_destroy(&problem->k);
    bench_operand_destroy(&problem->v);
    free(problem->page_table);
    free(problem->kv_lengths);
}

uint64_t bench_attention_keys(const bench_heads *heads, uint64_t i)
{
    if (!heads->causal)
        return heads->kv_len;
    uint64_t beyond = i + 1 + heads->kv_len; /* minus q_len: the last query sees the last key */
    return beyond > heads->q_len ? beyond - heads->q_len : 0;
}

/* Key or value `token` of a sequence, at its first head. */
static uint64_t place_of(const bench_attention_problem *problem, uint64_t sequence, uint64_t token)
{
    const bench_heads *heads = &problem->heads;
    uint64_t at = sequence * heads->kv_len + token;
    if (heads->page_size) {
        uint64_t page = (uint64_t)problem->page_table[sequence * problem->page_columns + token / heads->page_size];
        at = page * heads->page_size + token % heads->page_size;
    }
    return at * heads->kv_heads * heads->head_dim;
}

/* Probabilities in `weights` (not divided by their sum, which is returned), and in `error` how far each may be off as a
 * share: a score is a sum of d products, exp passes its error on, and the sum of n terms adds its own. */
static double weigh(const bench_attention_problem *problem, uint64_t sequence, const float *q, uint64_t kv_head,
                    uint64_t keys, double *weights, double *error)
{
    const uint64_t dim = problem->heads.head_dim;
    const double scale = 1 / sqrt((double)dim);
    double most = -INFINITY, least = INFINITY, largest = 0, sum = 0;
    for (uint64_t j = 0; j < keys; j++) {
        const float *k = problem->k.values + place_of(problem, sequence, j) + kv_head * dim;
        double score = 0, magnitude = 0;
        for (uint64_t d = 0; d < dim; d++) {
            score += (double)q[d] * (double)k[d];
            magnitude += fabs((double)q[d] * (double)k[d]);
        }
        weights[j] = score * scale;
        largest = fmax(largest, magnitude * scale);
        most = fmax(most, weights[j]);
        least = fmin(least, weights[j]);
    }
    for (uint64_t j = 0; j < keys; j++)
        sum += weights[j] = exp(weights[j] - most);
    *error = 0x1p-24 * (8 + 8 * sqrt((double)dim) * largest + 2 * (most - least) + 8 * sqrt((double)keys));
    return sum;
}

/* Both the weighted sum and its divisor are off by the weights' share. Matrix units take weights of the operands' type,
 * so those may be rounded once more. */
static void check_row(const bench_attention_problem *problem, uint64_t row, const void *result, double *weights,
                      bench_worst *worst)
{
    const bench_heads *heads = &problem->heads;
    const uint64_t dim = heads->head_dim, head = row % heads->q_heads, token = row / heads->q_heads;
    const uint64_t sequence = token / heads->q_len, kv_head = head / (heads->q_heads / heads->kv_heads);
    const uint64_t keys = bench_attention_keys(heads, token % heads->q_len);
    double error = 0;
    const double sum = weigh(problem, sequence, problem->q.values + row * dim, kv_head, keys, weights, &error);
    const double rounding = problem->dtype == HAL_F32 ? 0 : bench_store_error(problem->dtype, 1);
    for (uint64_t d = 0; d < dim; d++) {
        double want = 0, magnitude = 0;
        for (uint64_t j = 0; j < keys; j++) {
            const float *v = problem->v.values + place_of(problem, sequence, j) + kv_head * dim;
            want += weights[j] * (double)v[d];
            magnitude += weights[j] * fabs((double)v[d]);
        }
        want = keys ? want / sum : 0;
        magnitude = keys ? magnitude / sum : 0;
        bench_worst_note(worst, bench_element(result, problem->dtype, row * dim + d), want,
                         magnitude * (2 * error + rounding) + bench_store_error(problem->dtype, want) + 0x1p-126);
    }
}

void bench_attention_check(const bench_attention_problem *problem, const void *result, bench_worst *worst)
{
    const bench_heads *heads = &problem->heads;
    const double work = (double)heads->kv_len * (double)heads->head_dim;
    const uint32_t sample = (uint32_t)fmin(fmax(0x1p24 / work, 6), 64); /* fewer of long ones */
    double *weights = malloc((heads->kv_len + 1) * sizeof *weights);
    if (!weights) {
        bench_worst_note(worst, NAN, 0, 0); /* unchecked is not right */
        return;
    }
    for (uint32_t i = 0; i < sample; i++)
        check_row(problem, bench_sample(heads->batch * heads->q_len * heads->q_heads, i), result, weights, worst);
    free(weights);
}
