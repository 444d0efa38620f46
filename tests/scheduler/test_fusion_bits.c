/* test_fusion_bits.c - fused is as unfused, bit for bit, on the device that HAL_BACKEND names: each rule for all dtypes
 * and modes, and graphs at random. */
#include "fusion_case.h"

#include <stdio.h>

typedef struct shape {
    uint64_t m, k, n;
} shape;

/* A pattern of steps: `steps` is what it becomes, for FP32 and for the others where that differs. */
typedef struct pattern {
    const char *name;
    void (*build)(fusion_case *c, hal_dtype dtype, const shape *s);
    const char *f32, *others;
} pattern;

static hal_tensor gemm(fusion_case *c, hal_tensor x, hal_dtype dtype, const shape *s, bool trans_b)
{
    const hal_tensor b = fusion_weight(c, dtype, trans_b ? s->n : s->k, trans_b ? s->k : s->n);
    return hal_graph_gemm(c->graph, x, b, HAL_GRAPH_GEMM(.trans_b = trans_b, .alpha = trans_b ? 0.3f : 0));
}

static hal_tensor first_gemm(fusion_case *c, hal_dtype dtype, const shape *s, bool trans_b)
{
    return gemm(c, fusion_input(c, dtype, s->k), dtype, s, trans_b);
}

static void bias(fusion_case *c, hal_dtype dtype, const shape *s)
{
    fusion_output(c, hal_graph_add(c->graph, first_gemm(c, dtype, s, true), fusion_weight(c, HAL_F16, 0, s->n)));
}

static void activations(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor x = fusion_input(c, dtype, s->k);
    for (int act = HAL_ACT_RELU; act <= HAL_ACT_SIGMOID; act++) {
        fusion_output(c, hal_graph_activation(c->graph, gemm(c, x, dtype, s, act % 2), (hal_act)act));
    }
}

static void residuals(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor r = fusion_input(c, dtype, s->n), wide = fusion_input(c, HAL_F32, s->n);
    fusion_output(c, hal_graph_add(c->graph, first_gemm(c, dtype, s, false), r));
    fusion_output(c, hal_graph_add(c->graph, wide, first_gemm(c, dtype, s, true)));
}

static void bias_act_residual(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor b = fusion_weight(c, HAL_F32, 0, s->n);
    const hal_tensor t = hal_graph_gemm(c->graph, fusion_input(c, dtype, s->k), fusion_weight(c, dtype, s->k, s->n),
                                        HAL_GRAPH_GEMM(.bias = b));
    const hal_tensor act = hal_graph_activation(c->graph, t, HAL_ACT_SILU);
    fusion_output(c, hal_graph_add(c->graph, act, fusion_input(c, dtype, s->n)));
}

static void codes(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor t = hal_graph_activation(c->graph, first_gemm(c, dtype, s, false), HAL_ACT_GELU_ERF);
    fusion_output(c, hal_graph_quantize(c->graph, t, fusion_scales(c), NULL));
    fusion_output(c, hal_graph_quantize(c->graph, first_gemm(c, dtype, s, true), fusion_scales(c), NULL));
}

static void cast(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor t = hal_graph_gemm(c->graph, fusion_input(c, dtype, s->k), fusion_weight(c, dtype, s->k, s->n),
                                        HAL_GRAPH_GEMM(.dtype = HAL_F32));
    const hal_tensor half = hal_graph_cast(c->graph, t, HAL_BF16);
    fusion_output(c, hal_graph_add(c->graph, half, fusion_input(c, HAL_F16, s->n)));
}

static hal_tensor ffn(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor x = fusion_input(c, dtype, s->k);
    return hal_graph_swiglu(c->graph, gemm(c, x, dtype, s, true), gemm(c, x, dtype, s, true));
}

static void gate_and_up(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor x = fusion_input(c, dtype, s->k);
    const hal_tensor gate = gemm(c, x, dtype, s, false), up = gemm(c, x, dtype, s, false);
    fusion_output(c, hal_graph_multiply(c->graph, up, hal_graph_activation(c->graph, gate, HAL_ACT_SILU)));
    fusion_output(c, hal_graph_add(c->graph, ffn(c, dtype, s), fusion_input(c, dtype, s->n)));
}

static void silu_multiply(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor x = fusion_input(c, dtype, s->n), silu = hal_graph_activation(c->graph, x, HAL_ACT_SILU);
    fusion_output(c, hal_graph_multiply(c->graph, silu, fusion_weight(c, HAL_F32, 0, s->n)));
    const hal_tensor other = fusion_input(c, HAL_BF16, s->n);
    const hal_tensor again = hal_graph_activation(c->graph, fusion_input(c, dtype, s->n), HAL_ACT_SILU);
    fusion_output(c, hal_graph_multiply(c->graph, other, again));
}

static void norms(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor a = fusion_input(c, dtype, s->n), b = fusion_input(c, dtype, s->n);
    const hal_tensor sum = hal_graph_add(c->graph, a, b), w = fusion_weight(c, HAL_F32, 0, s->n);
    fusion_output(c, hal_graph_rmsnorm(c->graph, sum, w, 1e-5f));
    fusion_output(c, sum);
    fusion_output(c, hal_graph_rmsnorm(c->graph, hal_graph_add(c->graph, b, b), HAL_NO_TENSOR, 1e-6f));
}

static void norm_codes(fusion_case *c, hal_dtype dtype, const shape *s)
{
    hal_tensor scales, more;
    const hal_tensor a = fusion_input(c, dtype, s->n), b = fusion_input(c, dtype, s->n);
    const hal_tensor y = hal_graph_rmsnorm(c->graph, a, fusion_weight(c, dtype, 0, s->n), 1e-5f);
    fusion_output(c, hal_graph_quantize(c->graph, y, HAL_NO_TENSOR, &scales));
    fusion_output(c, scales);
    const hal_tensor sum = hal_graph_add(c->graph, a, b);
    const hal_tensor z = hal_graph_rmsnorm(c->graph, sum, HAL_NO_TENSOR, 1e-5f);
    fusion_output(c, hal_graph_quantize(c->graph, z, HAL_NO_TENSOR, &more));
    fusion_output(c, more);
    fusion_output(c, sum);
}

static void quantised(fusion_case *c, hal_tensor x)
{
    hal_tensor scales;
    fusion_output(c, hal_graph_quantize(c->graph, x, HAL_NO_TENSOR, &scales));
    fusion_output(c, scales);
}

static void act_codes(fusion_case *c, hal_dtype dtype, const shape *s)
{
    const hal_tensor gate = fusion_input(c, dtype, s->n), up = fusion_input(c, dtype, s->n);
    const hal_tensor silu = hal_graph_activation(c->graph, gate, HAL_ACT_SILU);
    quantised(c, hal_graph_multiply(c->graph, silu, up));
    quantised(c, hal_graph_activation(c->graph, gate, HAL_ACT_GELU_TANH));
    quantised(c, hal_graph_add(c->graph, up, fusion_weight(c, HAL_F32, 0, s->n)));
}

/* E4M3 all through: codes and scales of a row, weights with a scale a column. */
static void of_codes(fusion_case *c, hal_dtype dtype, const shape *s)
{
    hal_tensor scales;
    const hal_tensor x = hal_graph_quantize(c->graph, fusion_input(c, dtype, s->k), HAL_NO_TENSOR, &scales);
    const hal_tensor scale_b = fusion_weight(c, HAL_F32, 0, s->n);
    const hal_tensor t =
        hal_graph_gemm(c->graph, x, fusion_weight(c, HAL_F8E4M3, s->n, s->k),
                       HAL_GRAPH_GEMM(.trans_b = true, .dtype = dtype, .scale_a = scales, .scale_b = scale_b));
    fusion_output(
        c, hal_graph_add(c->graph, hal_graph_activation(c->graph, t, HAL_ACT_RELU), fusion_input(c, dtype, s->n)));
    hal_tensor pair[2];
    for (uint32_t i = 0; i < 2; i++) {
        pair[i] = hal_graph_gemm(c->graph, x, fusion_weight(c, HAL_F8E4M3, s->k, s->n),
                                 HAL_GRAPH_GEMM(.dtype = dtype, .scale_a = scales));
    }
    fusion_output(c,
                  hal_graph_quantize(c->graph, hal_graph_swiglu(c->graph, pair[0], pair[1]), fusion_scales(c), NULL));
}

static const pattern gemm_patterns[] = {
    {"bias", bias, "gemm+bias", "gemm, add"},
    {"activations", activations, "gemm+relu, gemm+gelu, gemm+gelu_tanh, gemm+silu, gemm+sigmoid", NULL},
    {"residuals", residuals, "gemm+residual, gemm+residual", NULL},
    {"bias, act, residual", bias_act_residual, "gemm+bias+silu+residual", NULL},
    {"codes", codes, "gemm+gelu+quantize, gemm+quantize", NULL},
    {"cast", cast, "gemm+residual", NULL},
    {"gate and up", gate_and_up, "gemm+swiglu, gemm+swiglu+residual", NULL},
    {"of codes", of_codes, "quantize, gemm+relu+residual, gemm+swiglu+quantize", NULL},
};

static const pattern row_patterns[] = {
    {"silu, multiply", silu_multiply, "swiglu, swiglu", NULL},
    {"norms", norms, "add+rmsnorm, add+rmsnorm", NULL},
    {"activation, codes", act_codes, "swiglu+quantize, gelu_tanh+quantize, add+quantize", NULL},
    {"norm, codes", norm_codes, "rmsnorm+quantize, add+rmsnorm+quantize", NULL},
};

static void run_pattern(fixture *f, const pattern *p, hal_dtype dtype, const shape *s, hal_mode mode)
{
    static const char *const modes[] = {"fast", "batch-invariant", "strict"};
    fusion_case c;
    char what[160], steps[512];
    snprintf(what, sizeof what, "%s: %s, %s, m %llu, k %llu, n %llu", p->name, hal_dtype_name(dtype), modes[mode],
             (unsigned long long)s->m, (unsigned long long)s->k, (unsigned long long)s->n);
    fusion_case_open(&c, f, s->m, s->m + s->n * 1000 + (uint64_t)dtype);
    p->build(&c, dtype, s);
    fusion_case_run(&c, mode, what, steps, sizeof steps);
    assert_string_equal(steps, dtype != HAL_F32 && p->others ? p->others : p->f32);
    fusion_case_close(&c);
}

typedef struct run_of {
    shape s;
    hal_mode mode;
} run_of;

static void run_patterns(fixture *f, const pattern *patterns, size_t count, const run_of *runs, size_t run_count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < run_count; r++) {
            for (int dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
                run_pattern(f, &patterns[i], (hal_dtype)dtype, &runs[r].s, runs[r].mode);
            }
        }
    }
}

/* Few rows; edges of tiles; deep and small, so that k is split. */
static void gemms(void **state)
{
    static const run_of runs[] = {{{1, 64, 96}, HAL_MODE_FAST},
                                  {{7, 1100, 20}, HAL_MODE_FAST},
                                  {{70, 130, 65}, HAL_MODE_FAST},
                                  {{7, 1100, 20}, HAL_MODE_BATCH_INVARIANT},
                                  {{33, 70, 65}, HAL_MODE_STRICT}};
    run_patterns(*state, gemm_patterns, sizeof gemm_patterns / sizeof gemm_patterns[0], runs,
                 sizeof runs / sizeof runs[0]);
}

static void rows(void **state)
{
    static const run_of runs[] = {{{1, 1, 4097}, HAL_MODE_FAST},
                                  {{33, 1, 250}, HAL_MODE_FAST},
                                  {{5, 1, 8}, HAL_MODE_BATCH_INVARIANT},
                                  {{9, 1, 250}, HAL_MODE_STRICT}};
    run_patterns(*state, row_patterns, sizeof row_patterns / sizeof row_patterns[0], runs,
                 sizeof runs / sizeof runs[0]);
}

static hal_tensor pick(fusion_case *c, const hal_tensor *made, uint32_t count)
{
    return made[count - 1 - (random_below(&c->seed, 2) ? 0 : random_below(&c->seed, count))];
}

static hal_tensor random_operator(fusion_case *c, const hal_tensor *made, uint32_t count)
{
    const hal_tensor a = pick(c, made, count), b = pick(c, made, count);
    const shape square = {c->rows, 40, 40};
    hal_dtype dtype = HAL_F32;
    hal_dims dims;
    hal_tensor scales;
    OK(hal_graph_tensor(c->graph, a, &dtype, &dims));
    switch (random_below(&c->seed, 11)) {
    case 0:
    case 1:
    case 2:
        return gemm(c, hal_graph_rmsnorm(c->graph, a, HAL_NO_TENSOR, 1e-5f), dtype, &square, random_below(&c->seed, 2));
    case 3:
        return hal_graph_activation(c->graph, a, (hal_act)(1 + random_below(&c->seed, 5)));
    case 4:
        return hal_graph_activation(c->graph, a, HAL_ACT_SILU);
    case 5:
    case 6:
        return hal_graph_add(c->graph, a, b);
    case 7:
        return hal_graph_multiply(c->graph, hal_graph_rmsnorm(c->graph, a, HAL_NO_TENSOR, 1e-5f), b);
    case 8:
        return hal_graph_swiglu(c->graph, a, b);
    case 9:
        return hal_graph_cast(c->graph, a, (hal_dtype)(HAL_F32 + random_below(&c->seed, 3)));
    default: {
        const hal_tensor y = hal_graph_quantize(c->graph, a, HAL_NO_TENSOR, &scales);
        return hal_graph_dequantize(c->graph, y, scales, dtype);
    }
    }
}

static void random_graphs(void **state)
{
    for (uint64_t i = 0; i < 40; i++) {
        fusion_case c;
        hal_tensor made[24];
        char what[64], steps[2048];
        uint32_t count = 0;
        fusion_case_open(&c, *state, 1 + i * 7 % 40, 100 + i);
        made[count++] = fusion_input(&c, (hal_dtype)(HAL_F32 + i % 3), 40);
        made[count++] = fusion_input(&c, HAL_BF16, 40);
        while (count < 8 + i % 16) {
            made[count] = random_operator(&c, made, count);
            count++;
        }
        fusion_output(&c, made[count - 1]);
        fusion_output(&c, made[count / 2]);
        snprintf(what, sizeof what, "graph %llu", (unsigned long long)i);
        fusion_case_run(&c, (hal_mode)(i % 3), what, steps, sizeof steps);
        fusion_case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(gemms),
                                       cmocka_unit_test(random_graphs)};
    return ROWS_MAIN("fusion_bits", tests);
}
