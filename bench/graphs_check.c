/* graphs_check.c - what the graphs should compute, on the host and in double. */
#include "graphs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float *values_of(const bench_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->operand_count; i++)
        if (!strcmp(g->operands[i].name, name))
            return g->operands[i].data.values;
    return NULL;
}

/* y [n] = x [k] W [k, n] */
static void multiply(const double *x, uint64_t k, const float *w, uint64_t n, double *y)
{
    memset(y, 0, n * sizeof *y);
    for (uint64_t i = 0; i < k; i++)
        for (uint64_t j = 0; j < n; j++)
            y[j] += x[i] * (double)w[i * n + j];
}

static void normalise(const double *x, uint64_t n, const float *weight, double *y)
{
    double squares = 0;
    for (uint64_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    const double scale = 1 / sqrt(squares / (double)n + 1e-6);
    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] * scale * (double)weight[i];
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* want += FFN(want), in place; `room` holds hidden + 2 intermediate. */
static void expect_ffn(const bench_graph *g, double *want, double *room)
{
    const uint64_t hidden = g->shape.hidden, inner = g->shape.intermediate;
    double *n = room, *gate = n + hidden, *up = gate + inner;
    normalise(want, hidden, values_of(g, "ffn_norm"), n);
    multiply(n, hidden, values_of(g, "gate"), inner, gate);
    multiply(n, hidden, values_of(g, "up"), inner, up);
    for (uint64_t i = 0; i < inner; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    multiply(gate, inner, values_of(g, "down"), hidden, n);
    for (uint64_t i = 0; i < hidden; i++)
        want[i] += n[i];
}

static void rotate(const bench_graph *g, uint64_t row, double *x, uint32_t heads)
{
    const uint32_t half = g->shape.head_dim / 2;
    const float *cosines = values_of(g, "cos") + row * half, *sines = values_of(g, "sin") + row * half;
    for (uint32_t h = 0; h < heads; h++, x += 2 * half)
        for (uint32_t i = 0; i < half; i++) {
            const double a = x[i], b = x[i + half], c = (double)cosines[i], s = (double)sines[i];
            x[i] = a * c - b * s;
            x[i + half] = b * c + a * s;
        }
}

/* Keys (rotated) and values of rows 0 to `row`; q of `row`. */
static void project(const bench_graph *g, uint64_t row, double *q, double *k, double *v, double *n)
{
    const bench_graph_shape *d = &g->shape;
    const uint64_t queries = (uint64_t)d->heads * d->head_dim, keys = (uint64_t)d->kv_heads * d->head_dim;
    const float *h = values_of(g, "h");
    double *x = n + d->hidden;
    for (uint64_t r = 0; r <= row; r++) {
        for (uint64_t i = 0; i < d->hidden; i++)
            x[i] = (double)h[r * d->hidden + i];
        normalise(x, d->hidden, values_of(g, "norm"), n);
        multiply(n, d->hidden, values_of(g, "wk"), keys, k + r * keys);
        multiply(n, d->hidden, values_of(g, "wv"), keys, v + r * keys);
        rotate(g, r, k + r * keys, d->kv_heads);
    }
    multiply(n, d->hidden, values_of(g, "wq"), queries, q);
    rotate(g, row, q, d->heads);
}

static void attend(const bench_graph *g, uint64_t row, const double *q, const double *k, const double *v, double *o)
{
    const bench_graph_shape *d = &g->shape;
    const uint64_t dim = d->head_dim, keys = (uint64_t)d->kv_heads * dim;
    for (uint32_t h = 0; h < d->heads; h++) {
        const uint64_t at = h / (d->heads / d->kv_heads) * dim;
        double sum = 0;
        memset(o + h * dim, 0, dim * sizeof *o);
        for (uint64_t r = 0; r <= row; r++) { /* scores are small: no maximum is needed */
            double score = 0;
            for (uint64_t i = 0; i < dim; i++)
                score += q[h * dim + i] * k[r * keys + at + i];
            const double weight = exp(score / sqrt((double)dim));
            sum += weight;
            for (uint64_t i = 0; i < dim; i++)
                o[h * dim + i] += weight * v[r * keys + at + i];
        }
        for (uint64_t i = 0; i < dim; i++)
            o[h * dim + i] /= sum;
    }
}

static bool expect_attention(const bench_graph *g, uint64_t row, double *want)
{
    const bench_graph_shape *d = &g->shape;
    const uint64_t queries = (uint64_t)d->heads * d->head_dim, keys = (uint64_t)d->kv_heads * d->head_dim;
    double *q = malloc((2 * queries + 2 * keys * (row + 1) + 2 * d->hidden) * sizeof *q);
    if (!q)
        return false;
    double *o = q + queries, *k = o + queries, *v = k + keys * (row + 1), *n = v + keys * (row + 1);
    project(g, row, q, k, v, n);
    attend(g, row, q, k, v, o);
    multiply(o, queries, values_of(g, "wo"), d->hidden, n);
    for (uint64_t i = 0; i < d->hidden; i++)
        want[i] += n[i];
    free(q);
    return true;
}

bool bench_graph_expect(const bench_graph *g, uint64_t row, double *want)
{
    const uint64_t hidden = g->shape.hidden;
    const float *x = g->operands[0].data.values + row * hidden;
    double *room = calloc(2 * hidden + 2 * g->shape.intermediate, sizeof *room);
    if (!room)
        return false;
    for (uint64_t i = 0; i < hidden; i++)
        want[i] = (double)x[i];
    bool good = g->kind != BENCH_GRAPH_LAYER || expect_attention(g, row, want);
    if (g->kind == BENCH_GRAPH_PROJECTION) {
        multiply(want, hidden, values_of(g, "w"), hidden, room);
        for (uint64_t i = 0; i < hidden; i++)
            want[i] += gelu_tanh(room[i] + (double)values_of(g, "bias")[i]);
    } else {
        expect_ffn(g, want, room);
    }
    free(room);
    return good;
}
