/* test_fusion_policy.c - what the policies make of the same candidates, with the figures that they go by; and programs
 * at random, which stay programs. */
#include "fusion_graphs.h"

#include "memory_plan.h"
#include "space.h"

#define MIB (UINT64_C(1) << 20)

/* Qwen3-8B: x + down(swiglu(gate(norm(x)), up(norm(x)))), 1024 rows. */
static void add_ffn(fixture *f)
{
    const uint64_t h = 4096, wide = 12288;
    const hal_tensor x = input(f, HAL_BF16, HAL_DIMS(HAL_ROWS, h));
    const hal_tensor n = hal_graph_rmsnorm(f->graph, x, weights(f, HAL_BF16, HAL_DIMS(h)), 1e-6f);
    const hal_tensor gate = hal_graph_gemm(f->graph, n, weights(f, HAL_BF16, HAL_DIMS(h, wide)), NULL);
    const hal_tensor up = hal_graph_gemm(f->graph, n, weights(f, HAL_BF16, HAL_DIMS(h, wide)), NULL);
    const hal_tensor act = hal_graph_swiglu(f->graph, gate, up);
    const hal_tensor down = hal_graph_gemm(f->graph, act, weights(f, HAL_BF16, HAL_DIMS(wide, h)), NULL);
    output(f, hal_graph_add(f->graph, x, down));
}

static void policies_of_an_ffn(void **state)
{
    (void)state;
    static const char *const steps[] = {[HAL_FUSE_NONE] = "rmsnorm, gemm, gemm, swiglu, gemm, add",
                                        [HAL_FUSE_MODEL] = "rmsnorm, gemm, gemm, swiglu, gemm+residual",
                                        [HAL_FUSE_ALL] = "rmsnorm, gemm+swiglu, gemm+residual"};
    for (int policy = HAL_FUSE_MODEL; policy <= HAL_FUSE_ALL; policy++) {
        fixture f = start_graph((hal_fusion)policy);
        add_ffn(&f);
        fuse(&f);
        expect_steps(&f, steps[policy]);
        if (policy == HAL_FUSE_NONE) {
            assert_int_equal(f.decisions.count, 0);
        }
        if (policy == HAL_FUSE_MODEL) { /* in two phases, the second after FP32 sums of 48 MiB each */
            const hal_decision *d = expect(&f, "gemm, gemm + swiglu", HAL_VERDICT_DECLINED, "predicted not to gain");
            assert_int_equal(d->bytes_before, (8 + 96 + 24) * 2 * MIB + 72 * MIB);
            assert_int_equal(d->bytes_after, (2 * 8 + 2 * 96 + 24) * MIB + 4 * 48 * MIB);
            expect(&f, "gemm + residual", HAL_VERDICT_FUSED, "predicted to gain");
        }
        end_graph(&f);
    }
}

/* Strict sums are taken by the one kernel that has every option: nothing is stored between. */
static void one_phase_gains(void **state)
{
    (void)state;
    fixture f = start_graph(HAL_FUSE_MODEL);
    f.options.mode = HAL_MODE_STRICT;
    add_ffn(&f);
    fuse(&f);
    expect_steps(&f, "rmsnorm, gemm+swiglu, gemm+residual");
    end_graph(&f);
}

/* Gate and up of [rows, 256] in FP32 on a CPU of two cores. `views`: kernels read through them, as Vulkan's do. */
static const hal_decision *gate_and_up_on_a_cpu(fixture *f, bool views, uint64_t rows)
{
    *f = start_graph(HAL_FUSE_MODEL);
    f->options.rows = rows;
    f->info = (hal_device_info){.type = HAL_DEVICE_CPU,
                                .compute_units = 2,
                                .max_group_size = 4096,
                                .max_group_dim = {4096, 4096, 4096},
                                .max_shared_memory = 1 << 20,
                                .subgroups = views,
                                .subgroup_shuffle = views,
                                .subgroup_size = 8,
                                .max_view_elements = views ? 1 << 27 : 0,
                                .view_alignment = 16};
    assert_int_equal(hal_model_machine_find(&f->info, &f->machine), HAL_OK);
    const hal_tensor x = input(f, HAL_F32, HAL_DIMS(HAL_ROWS, 256));
    const hal_tensor gate = hal_graph_gemm(f->graph, x, weights(f, HAL_F32, HAL_DIMS(256, 768)), NULL);
    const hal_tensor up = hal_graph_gemm(f->graph, x, weights(f, HAL_F32, HAL_DIMS(256, 768)), NULL);
    output(f, hal_graph_swiglu(f->graph, gate, up));
    fuse(f);
    return decision(f, "gemm, gemm + swiglu");
}

/* One kernel where a core's task has every option, two phases where none has: neither pays. */
static void devices_do_swiglu_in_their_ways(void **state)
{
    (void)state;
    static const struct {
        bool views;
        uint64_t rows;
    } cases[] = {{false, 16}, {false, 256}, {true, 16}, {true, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        const hal_decision *d = gate_and_up_on_a_cpu(&f, cases[i].views, cases[i].rows);
        const uint64_t x = cases[i].rows * 256 * 4, w = 2 * 256 * 768 * 4, y = cases[i].rows * 768 * 4;
        assert_non_null(d);
        assert_int_equal(d->bytes_before, 2 * x + w + 5 * y);
        assert_int_equal(d->bytes_after, cases[i].views ? 2 * x + w + y + 4 * y : x + w + y);
        assert_int_equal(d->verdict, HAL_VERDICT_DECLINED);
        end_graph(&f);
    }
}

/* SiLU 48, multiply 72, quantise 36 MiB: 156 apart, 108 with SwiGLU, 60 if one kernel did all. */
static void figures_of_the_activation_chain(void **state)
{
    (void)state;
    fixture f = start_graph(HAL_FUSE_MODEL);
    const hal_dims dims = HAL_DIMS(HAL_ROWS, 12288);
    const hal_tensor gate = input(&f, HAL_BF16, dims), up = input(&f, HAL_BF16, dims);
    const hal_tensor act = hal_graph_activation(f.graph, gate, HAL_ACT_SILU);
    hal_tensor scales = HAL_NO_TENSOR;
    output(&f, hal_graph_quantize(f.graph, hal_graph_multiply(f.graph, act, up), HAL_NO_TENSOR, &scales));
    const hal_program *apart = hal_graph_program(f.graph);
    const uint64_t scale_bytes = 4096;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < apart->step_count; i++) {
        bytes += hal_space_bytes(apart, &apart->steps[i], 1024);
    }
    assert_int_equal(bytes, 156 * MIB + scale_bytes);
    fuse(&f);
    expect_steps(&f, "swiglu+quantize");
    const hal_decision *d = expect(&f, "activation + multiply", HAL_VERDICT_FUSED, "72.00 MiB for 120.00");
    assert_int_equal(d->bytes_before, 120 * MIB);
    assert_int_equal(d->bytes_after, 72 * MIB);
    d = expect(&f, "activation + quantize", HAL_VERDICT_FUSED, "60.00 MiB for 108.00");
    assert_int_equal(d->bytes_before, 108 * MIB + scale_bytes);
    assert_int_equal(d->bytes_after, 60 * MIB + scale_bytes);
    end_graph(&f);
}

/* Time of steps: what the test says. */
typedef struct clock_of {
    double first, second; /* of several steps, of one */
    uint32_t calls;
} clock_of;

static bool tell_time(void *user, const hal_program *program, const hal_step *steps, uint32_t count, double *us)
{
    clock_of *c = user;
    (void)program;
    (void)steps;
    c->calls++;
    *us = count > 1 ? c->first : c->second;
    return c->first > 0;
}

static void measurement_overrules_the_model(void **state)
{
    (void)state;
    static const struct {
        clock_of clock;
        const char *steps, *words;
    } cases[] = {{{10, 12, 0}, "silu, multiply", "measured not to gain: 72.00 MiB for 120.00, 12.0 us for 10.0"},
                 {{10, 9, 0}, "swiglu", "measured to gain"},
                 {{0, 0, 0}, "swiglu", "predicted to gain"}};
    for (int i = 0; i < 3; i++) {
        fixture f = start_graph(HAL_FUSE_MEASURED);
        clock_of times = cases[i].clock;
        f.options.measure = tell_time;
        f.options.user = &times;
        const hal_dims dims = HAL_DIMS(HAL_ROWS, 12288);
        const hal_tensor act = hal_graph_activation(f.graph, input(&f, HAL_BF16, dims), HAL_ACT_SILU);
        output(&f, hal_graph_multiply(f.graph, act, input(&f, HAL_BF16, dims)));
        fuse(&f);
        expect_steps(&f, cases[i].steps);
        expect(&f, "activation + multiply", i ? HAL_VERDICT_FUSED : HAL_VERDICT_DECLINED, cases[i].words);
        assert_int_equal(times.calls, i == 2 ? 1 : 2);
        end_graph(&f);
    }
}

/* Choices of another time are followed where they are legal, and no others are made. */
static void choices_are_followed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture f = start_graph(HAL_FUSE_MODEL);
        const hal_dims dims = HAL_DIMS(HAL_ROWS, 96);
        const hal_tensor x = input(&f, HAL_F32, dims), w = weights(&f, HAL_F32, HAL_DIMS(96, 96));
        const hal_tensor t = hal_graph_gemm(f.graph, x, w, NULL);
        const hal_tensor y = hal_graph_activation(f.graph, t, HAL_ACT_RELU);
        output(&f, hal_graph_add(f.graph, y, x));
        if (i == 2) {
            output(&f, t);
        }
        hal_decision made[] = {{.rule = "gemm + residual", .tensor = y.id, .verdict = HAL_VERDICT_FUSED},
                               {.rule = "gemm + activation", .tensor = t.id, .verdict = HAL_VERDICT_FUSED}};
        const hal_decisions given = {made, i == 0 ? 1 : 2, 2};
        f.options.given = &given;
        fuse(&f);
        expect_steps(&f, i == 1 ? "gemm+relu+residual" : "gemm, relu, add");
        expect(&f, "gemm + activation",
               i == 0   ? HAL_VERDICT_DECLINED
               : i == 1 ? HAL_VERDICT_FUSED
                        : HAL_VERDICT_REFUSED,
               i == 0   ? "the choices do not have it"
               : i == 1 ? "as the choices say"
                        : "is an output");
        end_graph(&f);
    }
}

/* Graphs at random */

static hal_tensor random_tensor(uint64_t *seed, const hal_tensor *made, uint32_t count)
{
    const uint64_t how = unit_random(seed) % 4, back = how < 2   ? 0
                                                       : how < 3 ? unit_random(seed) % 3
                                                                 : unit_random(seed);
    return made[count - 1 - back % count];
}

static hal_tensor random_operator(fixture *f, uint64_t *seed, const hal_tensor *made, uint32_t count)
{
    const hal_tensor a = random_tensor(seed, made, count), b = random_tensor(seed, made, count);
    hal_graph *graph = f->graph;
    hal_dtype dtype = HAL_DTYPE_DEFAULT;
    hal_dims dims;
    hal_tensor scales = HAL_NO_TENSOR;
    assert_int_equal(hal_graph_tensor(graph, a, &dtype, &dims), HAL_OK);
    switch (unit_random(seed) % 10) {
    case 0:
    case 1:
    case 2:
        return hal_graph_gemm(graph, a, weights(f, dtype, HAL_DIMS(64, 64)),
                              HAL_GRAPH_GEMM(.trans_b = unit_random(seed) % 2 != 0));
    case 3:
        return hal_graph_activation(graph, a, (hal_act)(1 + unit_random(seed) % 5));
    case 4:
        return hal_graph_add(graph, a, b);
    case 5:
        return hal_graph_multiply(graph, a, b);
    case 6:
        return hal_graph_swiglu(graph, a, b);
    case 7:
        return hal_graph_rmsnorm(graph, a, HAL_NO_TENSOR, 1e-5f);
    case 8:
        return hal_graph_cast(graph, a, (hal_dtype)(HAL_F32 + unit_random(seed) % 3));
    default:
        return hal_graph_dequantize(graph, hal_graph_quantize(graph, a, HAL_NO_TENSOR, &scales), scales, dtype);
    }
}

/* Each step reads what is there; each output is written, once; nothing that is gone is used; no operator is lost. */
static void expect_sound(const fixture *f)
{
    const hal_program *p = &f->program;
    uint32_t operators = 0, outputs = 0;
    for (uint32_t i = 0; i < p->step_count; i++) {
        const hal_step *step = &p->steps[i];
        operators += step->fused ? step->fused : 1;
        for (uint32_t role = 0; role < HAL_ROLES; role++) {
            const uint32_t t = step->tensors[role];
            if (t) {
                const uint32_t writer = hal_program_writer(p, t);
                assert_int_not_equal(p->tensors[t].kind, HAL_TENSOR_FUSED);
                assert_true(hal_role_written(role)                  ? writer == i
                            : p->tensors[t].kind == HAL_TENSOR_STEP ? writer < i
                                                                    : writer == UINT32_MAX);
            }
        }
    }
    for (uint32_t t = 1; t < p->tensor_count; t++) {
        outputs += p->tensors[t].output && hal_program_writer(p, t) != UINT32_MAX;
    }
    assert_int_equal(operators, hal_graph_program(f->graph)->step_count);
    assert_int_equal(outputs, p->outputs);
}

static void random_programs_stay_sound(void **state)
{
    (void)state;
    const uint64_t seed = unit_seed();
    uint32_t fused = 0;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t at = seed + i * 1000;
        fixture f = start_graph(i % 2 ? HAL_FUSE_ALL : HAL_FUSE_MODEL);
        hal_tensor made[40];
        uint32_t count = 0;
        made[count++] = input(&f, HAL_BF16, HAL_DIMS(HAL_ROWS, 64));
        made[count++] = input(&f, HAL_F32, HAL_DIMS(HAL_ROWS, 64));
        while (count < 4 + i % 36) {
            made[count] = random_operator(&f, &at, made, count);
            count++;
        }
        output(&f, made[count - 1]);
        if (count > 6) {
            output(&f, made[count / 2]);
        }
        fuse(&f);
        expect_sound(&f);
        hal_memory_plan plan;
        assert_int_equal(hal_memory_plan_make(&f.program, 100, NULL, NULL, &plan), HAL_OK);
        assert_int_equal(hal_memory_plan_check(&f.program, 100, NULL, NULL, &plan), HAL_OK);
        hal_memory_plan_clear(&plan);
        for (uint32_t d = 0; d < f.decisions.count; d++) {
            assert_true(f.decisions.list[d].reason[0] != 0);
            fused += f.decisions.list[d].verdict == HAL_VERDICT_FUSED;
        }
        end_graph(&f);
    }
    print_message("%u fusions\n", fused);
    assert_true(fused > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_of_an_ffn),
        cmocka_unit_test(one_phase_gains),
        cmocka_unit_test(devices_do_swiglu_in_their_ways),
        cmocka_unit_test(figures_of_the_activation_chain),
        cmocka_unit_test(measurement_overrules_the_model),
        cmocka_unit_test(choices_are_followed),
        cmocka_unit_test(random_programs_stay_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
