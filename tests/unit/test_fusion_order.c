/* test_fusion_order.c - the order of steps while fusion merges them, and host memory that runs out at each allocation
 * of fusion and of the memory plan. */
#include "fusion_graphs.h"

#include "host_memory.h"
#include "memory_plan.h"

/* What reads the sum comes behind the step that adds and normalises, and takes with it what reads that. */
static void readers_of_a_sum_move_behind(void **state)
{
    (void)state;
    fixture f = start_graph(HAL_FUSE_ALL);
    const hal_dims dims = HAL_DIMS(HAL_ROWS, 64);
    const hal_tensor a = input(&f, HAL_F32, dims), b = input(&f, HAL_F32, dims);
    const hal_tensor sum = hal_graph_add(f.graph, a, b);
    const hal_tensor relu = hal_graph_activation(f.graph, sum, HAL_ACT_RELU);
    const hal_tensor apart = hal_graph_softmax(f.graph, a, 1, HAL_NO_TENSOR);
    const hal_tensor gelu = hal_graph_activation(f.graph, relu, HAL_ACT_GELU_TANH);
    output(&f, hal_graph_rmsnorm(f.graph, sum, weights(&f, HAL_F32, HAL_DIMS(64)), 1e-6f));
    output(&f, hal_graph_multiply(f.graph, gelu, apart));
    fuse(&f);
    expect_steps(&f, "softmax, add+rmsnorm, relu, gelu_tanh, multiply");
    expect(&f, "add + rmsnorm", HAL_VERDICT_FUSED, "all are made");
    end_graph(&f);
}

/* One that the normalisation needs, too, cannot be behind it. */
static void a_step_that_waits_for_itself(void **state)
{
    (void)state;
    fixture f = start_graph(HAL_FUSE_ALL);
    const hal_dims vector = HAL_DIMS(64);
    const hal_tensor sum = hal_graph_add(f.graph, input(&f, HAL_F32, vector), input(&f, HAL_F32, vector));
    const hal_tensor weight = hal_graph_activation(f.graph, sum, HAL_ACT_RELU);
    output(&f, hal_graph_rmsnorm(f.graph, sum, weight, 1e-6f));
    fuse(&f);
    expect_steps(&f, "add, relu, rmsnorm");
    expect(&f, "add + rmsnorm", HAL_VERDICT_REFUSED, "a step between the two");
    end_graph(&f);
}

/* Layers of a norm, two products, SwiGLU, a product and a sum; the lists grow twice. */
static void add_layers(fixture *f, uint32_t layers)
{
    hal_tensor x = input(f, HAL_BF16, HAL_DIMS(HAL_ROWS, 64));
    for (uint32_t i = 0; i < layers; i++) {
        const hal_tensor n = hal_graph_rmsnorm(f->graph, x, weights(f, HAL_BF16, HAL_DIMS(64)), 1e-6f);
        const hal_tensor gate = hal_graph_gemm(f->graph, n, weights(f, HAL_BF16, HAL_DIMS(64, 96)), NULL);
        const hal_tensor up = hal_graph_gemm(f->graph, n, weights(f, HAL_BF16, HAL_DIMS(64, 96)), NULL);
        const hal_tensor z = hal_graph_swiglu(f->graph, gate, up);
        x = hal_graph_add(f->graph, hal_graph_gemm(f->graph, z, weights(f, HAL_BF16, HAL_DIMS(96, 64)), NULL), x);
    }
    output(f, x);
}

/* Of every prefix of allocations: nothing is lost, and what is left of the program can run. */
static void out_of_memory_anywhere(void **state)
{
    (void)state;
    enum { LAYERS = 12 };
    fixture f = start_graph(HAL_FUSE_ALL);
    add_layers(&f, LAYERS);
    f.options.info = &f.info;
    f.options.machine = &f.machine;
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth++, failures++) {
        hal_program program;
        hal_memory_plan plan = {0};
        assert_int_equal(hal_program_copy(hal_graph_program(f.graph), &program), HAL_OK);
        const int64_t before = host_memory_live();
        host_memory_count(nth);
        hal_status status = hal_fuse(&program, &f.options, &f.decisions);
        const bool fused = status == HAL_OK;
        status = fused ? hal_memory_plan_make(&program, 16, NULL, NULL, &plan) : status;
        const bool failed = host_memory_stop() >= nth;
        assert_int_equal(status, failed ? HAL_ERROR_OUT_OF_MEMORY : HAL_OK);
        assert_true(!failed || strstr(hal_last_error(), "out of host memory"));
        hal_memory_plan_clear(&plan);
        hal_decisions_clear(&f.decisions);
        assert_int_equal(host_memory_live(), before);
        assert_int_equal(hal_memory_plan_make(&program, 16, NULL, NULL, &plan), HAL_OK);
        assert_int_equal(hal_memory_plan_check(&program, 16, NULL, NULL, &plan), HAL_OK);
        assert_true(fused ? program.step_count == 3 * LAYERS : program.step_count >= 3 * LAYERS);
        hal_memory_plan_clear(&plan);
        hal_program_clear(&program);
        if (!failed) {
            break;
        }
    }
    print_message("%llu allocations failed\n", (unsigned long long)failures);
    assert_true(failures > 12);
    end_graph(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_of_a_sum_move_behind),
        cmocka_unit_test(a_step_that_waits_for_itself),
        cmocka_unit_test(out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
