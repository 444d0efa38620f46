/* test_plan_memory.c - a plan's life with one thing failing, for every thing: host memory, device memory, submissions,
 * compilations, the device. */
#include "failures.h"
#include "plan_case.h"

#include "host_memory.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

typedef enum way { FUSED, SPREAD, MEASURED, WAYS } way;

/* A plan is made, recorded, run in two ways, asked and exported; everything is destroyed. The first failure. */
static hal_status life(plan_case *c, way how)
{
    const bool spread = how == SPREAD;
    hal_plan *plan = NULL, *copy = NULL;
    char *choices = NULL;
    uint64_t size = 0;
    hal_plan_stats stats = {.struct_size = sizeof stats};
    const hal_plan_desc *desc = HAL_PLAN(.fusion = how == MEASURED ? HAL_FUSE_MEASURED : HAL_FUSE_ALL,
                                         .replay = !spread, .streams = spread ? 2 : 1, .measure_rows = 2);
    hal_status status = hal_plan_create_with(c->f->device, c->graph, desc, &(hal_plan_hooks){.spread = spread}, &plan);
#define STEP(call) status = status == HAL_OK ? (call) : status
    STEP(hal_plan_prepare(plan, 3));
    STEP(hal_plan_run(plan, c->f->stream, 3, HAL_BINDINGS(hal_whole(c->buffers[0]), hal_whole(c->buffers[1]))));
    STEP(hal_plan_scratch(plan, 5, &size));
    STEP(hal_plan_run(plan, c->f->stream, 5, HAL_BINDINGS(hal_whole(c->buffers[0]), hal_whole(c->buffers[1]))));
    STEP(hal_plan_get_stats(plan, 4, &stats));
    STEP(hal_plan_export(plan, &choices));
    host_memory_add_live(choices != NULL); /* the C library's own, freed by libhal */
    STEP(hal_plan_create(c->f->device, c->graph, HAL_PLAN(.choices = choices, .measure_rows = 2), &copy));
    STEP(hal_stream_wait(c->f->stream, TEST_TIMEOUT));
#undef STEP
    hal_plan_export_free(choices);
    hal_plan_destroy(plan);
    hal_plan_destroy(copy);
    return status;
}

/* The run's result is right. */
static void check_result(plan_case *c)
{
    hal_plan *plan = NULL;
    OK(hal_plan_create(c->f->device, c->graph, HAL_PLAN(.fusion = HAL_FUSE_NONE, .replay = true, .measure_rows = 2),
                       &plan));
    plan_poison(c);
    OK(plan_run_on(c, plan, c->f->stream, 5, NULL));
    plan_compare(c, 5, "after a failure");
    hal_plan_destroy(plan);
}

static void open_case(plan_case *c, fixture *f)
{
    plan_case_ffn(c, f, HAL_F32, 16, 16, 5);
    plan_expect(c, 5, HAL_MODE_FAST);
    check_result(c); /* what is kept for good is kept now */
}

/* What the helpers of failures.h are told of a case. */
typedef struct told {
    plan_case *c;
    way how;
} told;

static hal_status live(void *user)
{
    const told *t = user;
    return life(t->c, t->how);
}

static void check(void *user)
{
    check_result(((const told *)user)->c);
}

static void test_host_memory(void **state)
{
    plan_case c;
    open_case(&c, *state);
    for (way how = FUSED; how < WAYS; how++) {
        fail_host_memory(&(a_life){c.f->device, live, check, &(told){&c, how}}, 50);
    }
    plan_case_close(&c);
}

static void test_device_memory(void **state)
{
    (void)state;
    fixture f;
    plan_case c;
    fixture_open(&f, "pooled=0"); /* each buffer is an allocation */
    open_case(&c, &f);
    for (way how = FUSED; how < WAYS; how++) { /* where a step cannot be measured, the model decides */
        fail_each(&(a_life){f.device, live, check, &(told){&c, how}}, HAL_FAULT_ALLOC, HAL_ERROR_OUT_OF_MEMORY,
                  how < MEASURED);
    }
    plan_case_close(&c);
    fixture_close(&f);
}

static void test_submissions(void **state)
{
    plan_case c;
    open_case(&c, *state);
    for (way how = FUSED; how < WAYS; how++) {
        fail_each(&(a_life){c.f->device, live, check, &(told){&c, how}}, HAL_FAULT_SUBMIT, HAL_ERROR_BACKEND,
                  how < MEASURED);
    }
    plan_case_close(&c);
}

/* On devices that have compiled nothing yet. */
static void test_compilations(void **state)
{
    (void)state;
    hal_status status = HAL_ERROR_COMPILE;
    uint64_t nth;
    for (nth = 1; status != HAL_OK && nth < 50; nth++) {
        fixture f;
        plan_case c;
        fixture_open(&f, NULL);
        plan_case_ffn(&c, &f, HAL_F32, 16, 16, 5);
        OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, nth));
        status = life(&c, FUSED);
        OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, 0));
        assert_true(status == HAL_OK || status == HAL_ERROR_COMPILE);
        OK(life(&c, FUSED));
        plan_expect(&c, 5, HAL_MODE_FAST);
        check_result(&c);
        plan_case_close(&c);
        fixture_close(&f);
    }
    assert_true(nth > 3 && nth < 50);
}

/* Once the device is lost every call says so, and all can be destroyed. */
static void test_lost(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 6; nth++) {
        fixture f;
        plan_case c;
        fixture_open(&f, NULL);
        plan_case_ffn(&c, &f, HAL_F32, 16, 16, 5);
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = nth % 2));
        OK(hal_device_inject_fault(f.device, HAL_FAULT_LOST, nth));
        hal_status status = HAL_OK;
        for (uint32_t i = 0; i < 6 && status == HAL_OK; i++) {
            status = plan_run_on(&c, plan, f.stream, 2, NULL);
            status = status == HAL_OK ? hal_stream_flush(f.stream) : status;
        }
        status = status == HAL_OK ? hal_device_status(f.device) : status;
        if (status != HAL_OK) {
            assert_int_equal(status, HAL_ERROR_DEVICE_LOST);
            assert_int_equal(plan_run_on(&c, plan, f.stream, 2, NULL), HAL_ERROR_DEVICE_LOST);
            assert_int_equal(life(&c, FUSED), HAL_ERROR_DEVICE_LOST);
        }
        hal_plan_destroy(plan);
        plan_case_close(&c);
        fixture_close(&f);
    }
}

/* Rows for which there is no memory are refused by the run, others go on. */
static void test_little_memory(void **state)
{
    (void)state;
    fixture f;
    plan_case c;
    fixture_open(&f, "memory=33554432,pooled=0");
    plan_case_open(&c, &f, 8, 1);
    hal_tensor x = hal_graph_input(c.graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, 16));
    hal_tensor wide = hal_graph_gemm(c.graph, x, plan_weight(&c, "w", HAL_F32, 16, 4096), NULL);
    wide = hal_graph_activation(c.graph, hal_graph_softmax(c.graph, wide, 1.0f, HAL_NO_TENSOR), HAL_ACT_SILU);
    hal_graph_output(c.graph, "y", hal_graph_gemm(c.graph, wide, plan_weight(&c, "v", HAL_F32, 4096, 1), NULL));
    plan_case_memory(&c);
    hal_buffer *in, *out;
    OK(hal_buffer_create(f.device, HAL_BUFFER(.size = 4096 * 64), &in));
    OK(hal_buffer_create(f.device, HAL_BUFFER(.size = 4096 * 4), &out));
    for (int replay = 0; replay < 2; replay++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = replay, .measure_rows = 8, .fusion = HAL_FUSE_NONE));
        plan_expect(&c, 8, HAL_MODE_FAST);
        for (int turn = 0; turn < 3; turn++) {
            REFUSED(HAL_ERROR_OUT_OF_MEMORY,
                    hal_plan_run(plan, f.stream, 4096, HAL_BINDINGS(hal_whole(in), hal_whole(out))));
            plan_poison(&c);
            OK(plan_run_on(&c, plan, f.stream, 8, NULL));
            plan_compare(&c, 8, "with little memory");
        }
        hal_plan_destroy(plan);
    }
    hal_buffer_destroy(in);
    hal_buffer_destroy(out);
    plan_case_close(&c);
    fixture_close(&f);
}

/* A replay allocates nothing, and neither does a run that is told. */
static void test_no_allocation(void **state)
{
    plan_case c;
    open_case(&c, *state);
    for (int replay = 0; replay < 2; replay++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = replay, .measure_rows = 2));
        for (int turn = 0; turn < 200; turn++) {
            if (turn == 100) {
                host_memory_count(0);
            }
            OK(plan_run_on(&c, plan, c.f->stream, 2 + turn % 3, NULL));
            OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
        }
        assert_int_equal(host_memory_stop(), 0);
        hal_plan_destroy(plan);
    }
    plan_case_close(&c);
}

/* What fails in the background is told to who asks, runs go on being told, and it is tried again. */
static void test_background(void **state)
{
    plan_case c;
    open_case(&c, *state);
    host_memory_fail_elsewhere(true);
    hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = true, .background = true, .measure_rows = 2));
    hal_plan_stats stats;
    for (uint32_t i = 0; i < 50 || !stats.programs_failed; i++) {
        plan_poison(&c);
        OK(plan_run_on(&c, plan, c.f->stream, 5, NULL));
        plan_compare(&c, 5, "while the background fails");
        stats = plan_stats(plan, 5);
        assert_true(i < 100000);
    }
    assert_int_equal(stats.failure, HAL_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stats.programs_recorded, 0);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(hal_plan_explain(plan, 5, out));
    fclose(out);
    assert_non_null(strstr(text, "could not be recorded, the last: out of host memory"));
    host_memory_add_live(1); /* the C library's own */
    free(text);
    host_memory_fail_elsewhere(false);
    for (uint32_t i = 0; !stats.programs_recorded; i++) {
        OK(plan_run_on(&c, plan, c.f->stream, 5, NULL));
        OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
        stats = plan_stats(plan, 5);
        assert_true(i < 100000);
    }
    plan_check(&c, plan, 5, NULL, HAL_MODE_FAST);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_memory),   cmocka_unit_test(test_device_memory),
        cmocka_unit_test(test_submissions),   cmocka_unit_test(test_compilations),
        cmocka_unit_test(test_lost),          cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_no_allocation), cmocka_unit_test(test_background),
    };
    return ROWS_MAIN("plan_memory", tests);
}
