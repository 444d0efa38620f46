/* test_fusion.c - each rule: what it makes, and what it refuses or declines with which reason. */
#include "fusion_graphs.h"

#define ROWS(columns) HAL_DIMS(HAL_ROWS, columns)
#define A_GEMM        "gemm + activation"

static hal_tensor gemm(fixture *f, hal_tensor x, hal_dtype dtype, uint64_t k, uint64_t n)
{
    return hal_graph_gemm(f->graph, x, weights(f, dtype, HAL_DIMS(k, n)), NULL);
}

static void gemm_takes_an_activation(void **state)
{
    (void)state;
    for (int dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor t = gemm(&f, input(&f, (hal_dtype)dtype, ROWS(64)), (hal_dtype)dtype, 64, 96);
        output(&f, hal_graph_activation(f.graph, t, HAL_ACT_GELU_TANH));
        fuse(&f);
        expect_steps(&f, "gemm+gelu_tanh");
        const hal_step *step = &f.program.steps[0];
        assert_int_equal(step->round_between, dtype);
        assert_int_equal(step->fused, 2);
        assert_int_equal(f.program.tensors[t.id].kind, HAL_TENSOR_FUSED);
        const hal_decision *d = expect(&f, A_GEMM, HAL_VERDICT_FUSED, "all are made");
        assert_int_equal(d->tensor, t.id);
        const uint64_t matrix = UINT64_C(1024) * 96 * hal_dtype_size((hal_dtype)dtype);
        assert_int_equal(d->bytes_before - d->bytes_after, 2 * matrix);
        assert_true(d->us_after < d->us_before);
        end_graph(&f);
    }
}

/* What is between is an output, or somebody else reads it. */
static void what_others_need_stays(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor t = gemm(&f, input(&f, HAL_F16, ROWS(64)), HAL_F16, 64, 96);
        const hal_tensor y = hal_graph_activation(f.graph, t, HAL_ACT_RELU);
        output(&f, i ? hal_graph_multiply(f.graph, y, t) : y);
        if (!i) {
            output(&f, t);
        }
        fuse(&f);
        expect_steps(&f, i ? "gemm, relu, multiply" : "gemm, relu");
        expect(&f, A_GEMM, HAL_VERDICT_REFUSED, i ? "is read by 2 steps" : "is an output");
        end_graph(&f);
    }
}

static void gemm_takes_a_bias_in_fp32(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) { /* FP32; stored as BF16; a column; after an activation */
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_dtype dtype = i == 1 ? HAL_BF16 : HAL_F32;
        hal_tensor t = gemm(&f, input(&f, dtype, ROWS(64)), dtype, 64, 96);
        t = i == 3 ? hal_graph_activation(f.graph, t, HAL_ACT_RELU) : t;
        const hal_tensor b = i == 2 ? input(&f, HAL_F32, ROWS(1)) : weights(&f, i ? HAL_F32 : HAL_BF16, HAL_DIMS(96));
        output(&f, hal_graph_add(f.graph, t, b));
        fuse(&f);
        if (i == 0) {
            expect_steps(&f, "gemm+bias");
            assert_int_equal(f.program.steps[0].tensors[HAL_ROLE_BIAS], b.id);
        } else if (i == 1) {
            expect(&f, "gemm + bias", HAL_VERDICT_REFUSED, "dropping a rounding: '%3' is stored as bf16 before");
        } else if (i == 2) {
            assert_null(decision(&f, "gemm + bias"));
        } else {
            expect_steps(&f, "gemm+relu, add");
        }
        end_graph(&f);
    }
}

static void gemm_takes_a_residual_on_either_side(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) { /* t + r, r + t, t + t, r of another dtype */
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor t = gemm(&f, input(&f, HAL_F16, ROWS(64)), HAL_F16, 64, 96);
        const hal_tensor r = i == 2 ? t : input(&f, i == 3 ? HAL_F32 : HAL_F16, ROWS(96));
        output(&f, i == 1 || i == 3 ? hal_graph_add(f.graph, r, t) : hal_graph_add(f.graph, t, r));
        fuse(&f);
        if (i == 2) {
            expect(&f, "gemm + residual", HAL_VERDICT_REFUSED, "both terms are");
        } else {
            expect_steps(&f, "gemm+residual");
            assert_int_equal(f.program.steps[0].tensors[HAL_ROLE_RESIDUAL], r.id);
            assert_int_equal(f.program.steps[0].round_between, HAL_F16);
        }
        end_graph(&f);
    }
}

/* Both terms are of GEMMs, and one of them is an output: the other can take it as its residual. */
static void the_side_that_can_is_taken(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor x = input(&f, HAL_F16, ROWS(96));
        const hal_tensor kept = gemm(&f, x, HAL_F16, 96, 96), t = gemm(&f, x, HAL_F16, 96, 96);
        output(&f, i ? hal_graph_add(f.graph, t, kept) : hal_graph_add(f.graph, kept, t));
        output(&f, kept);
        const hal_tensor act = hal_graph_activation(f.graph, x, HAL_ACT_SILU);
        const hal_tensor other = hal_graph_activation(f.graph, x, HAL_ACT_SILU);
        output(&f, i ? hal_graph_multiply(f.graph, act, other) : hal_graph_multiply(f.graph, other, act));
        output(&f, other);
        fuse(&f);
        expect_steps(&f, "gemm, gemm+residual, silu, swiglu");
        assert_int_equal(f.program.steps[1].tensors[HAL_ROLE_RESIDUAL], kept.id);
        assert_int_equal(f.program.steps[3].tensors[HAL_ROLE_B], other.id);
        end_graph(&f);
    }
}

static void gemm_does_each_thing_once(void **state)
{
    (void)state;
    fixture f = start_graph(HAL_FUSE_ALL);
    hal_tensor t = gemm(&f, input(&f, HAL_F32, ROWS(64)), HAL_F32, 64, 96);
    t = hal_graph_add(f.graph, t, weights(&f, HAL_F32, HAL_DIMS(96)));
    t = hal_graph_add(f.graph, t, weights(&f, HAL_F32, HAL_DIMS(96)));
    output(&f, t);
    t = gemm(&f, input(&f, HAL_F32, ROWS(64)), HAL_F32, 64, 96);
    t = hal_graph_activation(f.graph, hal_graph_activation(f.graph, t, HAL_ACT_RELU), HAL_ACT_RELU);
    output(&f, t);
    t = gemm(&f, input(&f, HAL_F32, ROWS(64)), HAL_F32, 64, 96);
    t = hal_graph_add(f.graph, hal_graph_add(f.graph, t, input(&f, HAL_F32, ROWS(96))), input(&f, HAL_F32, ROWS(96)));
    output(&f, t);
    fuse(&f);
    expect_steps(&f, "gemm+bias, add, gemm+relu, relu, gemm+residual, add");
    end_graph(&f);
}

/* gemm -> activation -> residual -> codes: one step, as long as there is one dtype to round to. */
static void gemm_takes_a_chain(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        hal_tensor t = gemm(&f, input(&f, HAL_BF16, ROWS(64)), HAL_BF16, 64, 96);
        t = hal_graph_activation(f.graph, t, HAL_ACT_SILU);
        t = i ? hal_graph_add(f.graph, input(&f, HAL_F32, ROWS(96)), t)
              : hal_graph_add(f.graph, t, input(&f, HAL_F32, ROWS(96)));
        output(&f, hal_graph_quantize(f.graph, t, input(&f, HAL_F32, ROWS(1)), NULL));
        fuse(&f);
        if (i) { /* the sum is FP32 */
            expect_steps(&f, "gemm+silu+residual, quantize");
            expect(&f, "gemm + quantize", HAL_VERDICT_REFUSED, "dropping a rounding: '%6' is stored as f32");
        } else {
            expect_steps(&f, "gemm+silu+residual+quantize");
            assert_int_equal(f.program.steps[0].fused, 4);
        }
        end_graph(&f);
    }
}

static void gemm_takes_a_cast_from_fp32(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor t =
            hal_graph_gemm(f.graph, input(&f, HAL_BF16, ROWS(64)), weights(&f, HAL_BF16, HAL_DIMS(64, 96)),
                           HAL_GRAPH_GEMM(.dtype = i ? HAL_BF16 : HAL_F32));
        output(&f, hal_graph_cast(f.graph, t, i ? HAL_F32 : HAL_BF16));
        fuse(&f);
        expect_steps(&f, i ? "gemm, cast" : "gemm");
        if (i) {
            expect(&f, "gemm + cast", HAL_VERDICT_REFUSED, "dropping a rounding");
        }
        end_graph(&f);
    }
}

/* Softmax, RMSNorm and scales that are found need the whole row. */
static void whole_rows_do_not_fit_in_a_tile(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor t = gemm(&f, input(&f, HAL_F32, ROWS(64)), HAL_F32, 64, 4096);
        hal_tensor scales = HAL_NO_TENSOR;
        output(&f, i == 0   ? hal_graph_softmax(f.graph, t, 0, HAL_NO_TENSOR)
                   : i == 1 ? hal_graph_rmsnorm(f.graph, t, HAL_NO_TENSOR, 1e-6f)
                            : hal_graph_quantize(f.graph, t, HAL_NO_TENSOR, &scales));
        expect_alone(&f, i == 2 ? "gemm + quantize" : "gemm + operator on rows", HAL_VERDICT_REFUSED, "128 of 4096");
    }
}

typedef enum pair_fault {
    RIGHT,
    OTHER_A,
    SHAPE,
    ONE_TRANSPOSED,
    BIAS,
    ALPHA,
    DTYPE,
    ONE_OUTPUT,
    PAIR_FAULTS
} pair_fault;

static void gate_and_up_become_one_gemm(void **state)
{
    (void)state;
    static const char *const words[PAIR_FAULTS] = {"all are made",
                                                   "different matrices",
                                                   "differ in dtype or layout",
                                                   "differ in dtype or layout",
                                                   "up has a bias",
                                                   "scales of their own",
                                                   "dropping a rounding: '%6' is stored as f32",
                                                   "is an output"};
    for (int fault = RIGHT; fault < PAIR_FAULTS; fault++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor x = input(&f, HAL_BF16, ROWS(64)), other = input(&f, HAL_BF16, ROWS(64));
        const hal_tensor w = weights(&f, HAL_BF16, HAL_DIMS(64, fault == ONE_TRANSPOSED ? 64 : 96));
        const uint64_t n = fault == ONE_TRANSPOSED ? 64 : 96;
        const hal_tensor gate = hal_graph_gemm(f.graph, x, w, NULL);
        const hal_tensor up = hal_graph_gemm(
            f.graph, fault == OTHER_A ? other : x, fault == SHAPE ? w : weights(&f, HAL_BF16, HAL_DIMS(64, n)),
            HAL_GRAPH_GEMM(.trans_b = fault == ONE_TRANSPOSED, .alpha = fault == ALPHA ? 2 : 0,
                           .dtype = fault == DTYPE ? HAL_F32 : HAL_BF16,
                           .bias = fault == BIAS ? weights(&f, HAL_F32, HAL_DIMS(96)) : HAL_NO_TENSOR));
        output(&f, hal_graph_swiglu(f.graph, gate, up));
        if (fault == ONE_OUTPUT) {
            output(&f, up);
        }
        fuse(&f);
        if (fault == RIGHT || fault == SHAPE) { /* the same matrix twice is as good as any */
            expect_steps(&f, "gemm+swiglu");
            assert_int_equal(f.program.steps[0].fused, 3);
            assert_int_equal(f.program.steps[0].round_between, HAL_BF16);
            assert_int_equal(f.program.tensors[gate.id].kind, HAL_TENSOR_FUSED);
            assert_int_equal(f.program.tensors[up.id].kind, HAL_TENSOR_FUSED);
        } else {
            expect_steps(&f, fault == BIAS ? "gemm, gemm+bias, swiglu" : "gemm, gemm, swiglu");
            expect(&f, "gemm, gemm + swiglu",
                   fault == DTYPE || fault == ONE_OUTPUT ? HAL_VERDICT_REFUSED : HAL_VERDICT_DECLINED, words[fault]);
        }
        end_graph(&f);
    }
}

static void silu_and_multiply_become_swiglu(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) { /* a b, b a, one row, one row first, gelu, squared */
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor x = input(&f, HAL_F16, i == 3 ? HAL_DIMS(1, 96) : ROWS(96));
        const hal_tensor up = input(&f, HAL_F32, i == 2 ? HAL_DIMS(1, 96) : ROWS(96));
        const hal_tensor t = hal_graph_activation(f.graph, x, i == 4 ? HAL_ACT_GELU_ERF : HAL_ACT_SILU);
        output(&f, i == 5             ? hal_graph_multiply(f.graph, t, t)
                   : i == 1 || i == 3 ? hal_graph_multiply(f.graph, up, t)
                                      : hal_graph_multiply(f.graph, t, up));
        fuse(&f);
        if (i <= 2) {
            expect_steps(&f, "swiglu");
            assert_int_equal(f.program.steps[0].tensors[HAL_ROLE_X], x.id);
            assert_int_equal(f.program.steps[0].tensors[HAL_ROLE_B], up.id);
            assert_int_equal(f.program.steps[0].round_between, HAL_F16);
        } else if (i == 3) {
            assert_null(decision(&f, "activation + multiply"));
        } else {
            expect(&f, "activation + multiply", i == 4 ? HAL_VERDICT_DECLINED : HAL_VERDICT_REFUSED,
                   i == 4 ? "silu and multiply only" : "both factors");
        }
        end_graph(&f);
    }
}

/* The sum may be wanted: before, between or after; and it may be needed for the norm's own weight. */
static void rmsnorm_adds_its_residual(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) { /* dropped, an output, read between, read after, read between and needed */
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_dims dims = HAL_DIMS(1, 96);
        const hal_tensor a = input(&f, HAL_F16, dims), b = input(&f, HAL_F16, dims);
        const hal_tensor sum = hal_graph_add(f.graph, a, b);
        const hal_tensor other = i == 2 || i == 4 ? hal_graph_activation(f.graph, sum, HAL_ACT_RELU) : HAL_NO_TENSOR;
        const hal_tensor y = hal_graph_rmsnorm(f.graph, sum, i == 4 ? other : HAL_NO_TENSOR, 1e-6f);
        output(&f, i == 3 ? hal_graph_multiply(f.graph, y, sum) : y);
        if (i == 1) {
            output(&f, sum);
        } else if (i == 2) {
            output(&f, other);
        }
        fuse(&f);
        static const char *const steps[] = {"add+rmsnorm", "add+rmsnorm", "add+rmsnorm, relu", "add+rmsnorm, multiply",
                                            "add, relu, rmsnorm"};
        expect_steps(&f, steps[i]);
        if (i == 4) {
            expect(&f, "add + rmsnorm", HAL_VERDICT_REFUSED, "needs the first and is needed by the second");
        } else {
            const hal_step *step = &f.program.steps[0];
            assert_int_equal(step->tensors[HAL_ROLE_X], a.id);
            assert_int_equal(step->tensors[HAL_ROLE_RESIDUAL], b.id);
            assert_int_equal(step->tensors[HAL_ROLE_SUM], i ? sum.id : 0);
            assert_int_equal(f.program.tensors[sum.id].kind, i ? HAL_TENSOR_STEP : HAL_TENSOR_FUSED);
        }
        end_graph(&f);
    }
}

static void rmsnorm_needs_a_residual_like_x(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        const hal_tensor sum = hal_graph_add(f.graph, input(&f, HAL_F16, ROWS(96)),
                                             input(&f, i ? HAL_F16 : HAL_F32, i ? HAL_DIMS(1, 96) : ROWS(96)));
        output(&f, hal_graph_rmsnorm(f.graph, sum, HAL_NO_TENSOR, 1e-6f));
        expect_alone(&f, "add + rmsnorm", HAL_VERDICT_DECLINED, i ? "is smaller" : "of one dtype");
    }
}

static void rmsnorm_quantises(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* scales found, given, and somebody else reads the row */
        fixture f = start_graph(HAL_FUSE_ALL);
        hal_tensor scales = HAL_NO_TENSOR;
        const hal_tensor x = input(&f, HAL_BF16, ROWS(96));
        const hal_tensor t = hal_graph_rmsnorm(f.graph, hal_graph_add(f.graph, x, x), HAL_NO_TENSOR, 1e-6f);
        output(&f, hal_graph_quantize(f.graph, t, i == 1 ? input(&f, HAL_F32, ROWS(1)) : HAL_NO_TENSOR, &scales));
        if (i == 2) {
            output(&f, t);
        }
        fuse(&f);
        if (i == 0) {
            expect_steps(&f, "add+rmsnorm+quantize");
            assert_int_equal(f.program.steps[0].round_between, HAL_BF16);
            assert_int_equal(f.program.steps[0].tensors[HAL_ROLE_SCALES], scales.id);
        } else {
            expect(&f, "rmsnorm + quantize", i == 1 ? HAL_VERDICT_DECLINED : HAL_VERDICT_REFUSED,
                   i == 1 ? "here they are given" : "is an output");
        }
        end_graph(&f);
    }
}

typedef enum attention_case {
    PLAIN,
    MASKED,
    MASK_ADDED,
    ONE_ROW,
    STORED_BF16,
    SCORES_READ,
    WIDE_HEAD,
    UNWANTED,
    ATTENTION_CASES
} attention_case;

static void parts_become_attention(void **state)
{
    (void)state;
    static const char *const words[ATTENTION_CASES] = {"all are made",
                                                       "all are made",
                                                       "all are made",
                                                       "mask is smaller",
                                                       "dropping a rounding: the scores, '%5', are stored as bf16",
                                                       "is read by 2 steps",
                                                       "at most 256",
                                                       "in another order"};
    for (int i = 0; i < ATTENTION_CASES; i++) {
        fixture f = start_graph(HAL_FUSE_ALL);
        f.options.no_reordering = i == UNWANTED;
        const hal_dtype dtype = i == STORED_BF16 ? HAL_BF16 : HAL_F32;
        const uint64_t d = i == WIDE_HEAD ? 512 : 64, keys = 200;
        const hal_tensor q = input(&f, dtype, ROWS(d)), k = input(&f, dtype, HAL_DIMS(keys, d));
        const hal_tensor v = input(&f, dtype, HAL_DIMS(keys, 32));
        const hal_tensor mask = input(&f, HAL_F32, i == ONE_ROW ? HAL_DIMS(1, keys) : ROWS(keys));
        const hal_tensor s = hal_graph_gemm(f.graph, q, k, HAL_GRAPH_GEMM(.trans_b = true, .alpha = 0.125f));
        const hal_tensor masked = i == MASK_ADDED ? hal_graph_add(f.graph, s, mask) : s;
        const hal_tensor p = hal_graph_softmax(f.graph, masked, i == MASK_ADDED ? 0 : 0.5f,
                                               i == MASKED || i == ONE_ROW ? mask : HAL_NO_TENSOR);
        output(&f, hal_graph_gemm(f.graph, p, v, NULL));
        if (i == SCORES_READ) {
            output(&f, hal_graph_activation(f.graph, s, HAL_ACT_RELU));
        }
        fuse(&f);
        const hal_verdict verdicts[] = {HAL_VERDICT_FUSED,    HAL_VERDICT_FUSED,   HAL_VERDICT_FUSED,
                                        HAL_VERDICT_DECLINED, HAL_VERDICT_REFUSED, HAL_VERDICT_REFUSED,
                                        HAL_VERDICT_DECLINED, HAL_VERDICT_DECLINED};
        const hal_decision *decided = expect(&f, "scores + softmax + weighted sum -> attention", verdicts[i], words[i]);
        assert_true(decided->reorders);
        if (i <= MASK_ADDED) {
            const hal_step *step = &f.program.steps[0];
            expect_steps(&f, "attention");
            assert_int_equal(step->fused, i == MASK_ADDED ? 4 : 3);
            assert_true(step->scale == (i == MASK_ADDED ? 0.125f : 0.0625f));
            assert_int_equal(step->tensors[HAL_ROLE_MASK], i == PLAIN ? 0 : mask.id);
            assert_int_equal(step->tensors[HAL_ROLE_V], v.id);
        } else {
            expect(&f, "softmax + gemm", HAL_VERDICT_REFUSED, "m, l and u must be kept");
            expect(&f, "gemm + operator on rows", HAL_VERDICT_REFUSED, "");
        }
        end_graph(&f);
    }
}

/* A [4096, 4096] in FP16, W [4096, 1536] in E4M3. */
static void quantising_inside_a_gemm_loses(void **state)
{
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20;
    for (int given = 0; given < 2; given++) {
        fixture f = start_graph(HAL_FUSE_MODEL);
        hal_tensor scales = HAL_NO_TENSOR;
        f.options.rows = 4096;
        const hal_tensor x = input(&f, HAL_F16, ROWS(4096));
        const hal_tensor codes =
            hal_graph_quantize(f.graph, x, given ? input(&f, HAL_F32, ROWS(1)) : HAL_NO_TENSOR, &scales);
        output(&f, hal_graph_gemm(f.graph, codes, weights(&f, HAL_F8E4M3, HAL_DIMS(4096, 1536)),
                                  HAL_GRAPH_GEMM(.dtype = HAL_F16, .scale_a = scales)));
        fuse(&f);
        expect_steps(&f, "quantize, gemm");
        const hal_decision *d = expect(&f, "quantize inside gemm", HAL_VERDICT_DECLINED,
                                       given ? "588 MiB, apart 444 (+32 %)" : "620 MiB, apart 444 (+40 %)");
        assert_int_equal(d->bytes_before, (32 + 16 + 192 + 204) * mib);
        assert_int_equal(d->bytes_after, ((given ? 0 : 32) + 384 + 204) * mib);
        end_graph(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_takes_an_activation),
        cmocka_unit_test(what_others_need_stays),
        cmocka_unit_test(gemm_takes_a_bias_in_fp32),
        cmocka_unit_test(gemm_takes_a_residual_on_either_side),
        cmocka_unit_test(the_side_that_can_is_taken),
        cmocka_unit_test(gemm_does_each_thing_once),
        cmocka_unit_test(gemm_takes_a_chain),
        cmocka_unit_test(gemm_takes_a_cast_from_fp32),
        cmocka_unit_test(whole_rows_do_not_fit_in_a_tile),
        cmocka_unit_test(gate_and_up_become_one_gemm),
        cmocka_unit_test(silu_and_multiply_become_swiglu),
        cmocka_unit_test(rmsnorm_adds_its_residual),
        cmocka_unit_test(rmsnorm_needs_a_residual_like_x),
        cmocka_unit_test(rmsnorm_quantises),
        cmocka_unit_test(parts_become_attention),
        cmocka_unit_test(quantising_inside_a_gemm_loses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
