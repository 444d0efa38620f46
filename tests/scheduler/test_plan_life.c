/* test_plan_life.c - plans that outlive the handle of their device, rows that no program is made for, and programs that
 * are recorded in the background; also under ThreadSanitizer. */
#include "plan_case.h"

#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 12 };

static void expect_run(plan_case *c, hal_plan *plan, uint64_t rows)
{
    plan_poison(c);
    OK(plan_run_on(c, plan, c->f->stream, rows, NULL));
    plan_compare(c, rows, "a run");
}

/* Told, or recorded now for rows that are new: both need the kernels that the device keeps. */
static void test_device_goes_first(void **state)
{
    (void)state;
    for (int replay = 0; replay < 2; replay++) {
        fixture f;
        plan_case c;
        fixture_open(&f, NULL);
        plan_case_ffn(&c, &f, HAL_F32, 16, 32, ROWS);
        plan_expect(&c, 5, HAL_MODE_FAST);
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = replay, .measure_rows = 2));
        hal_plan *other = plan_create(&c, HAL_PLAN(.replay = replay, .fusion = HAL_FUSE_NONE, .measure_rows = 2));
        hal_device_destroy(f.device);
        expect_run(&c, plan, 5);
        hal_plan_destroy(plan);
        expect_run(&c, other, 5);
        hal_plan_destroy(other);
        plan_case_close(&c);
        hal_stream_destroy(f.stream);
    }
}

/* So many rows that a GEMM would be cut into more kernels than a program has room for; on a GPU it is fewer. */
static void test_too_many_rows(void **state)
{
    enum { WIDE = 512, FEW = 3 };
    const uint64_t most = ((uint64_t)1 << 31) - 1;
    plan_case c;
    plan_case_open(&c, *state, FEW, 1);
    hal_tensor x = hal_graph_input(c.graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, WIDE));
    hal_graph_output(c.graph, "y", hal_graph_gemm(c.graph, x, plan_weight(&c, "w", HAL_F32, WIDE, WIDE), NULL));
    plan_case_memory(&c);
    for (int replay = 0; replay < 2; replay++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = replay, .measure_rows = FEW));
        uint64_t size = 1;
        const hal_status status = hal_plan_prepare(plan, most);
        if (hal_device_get_info(c.f->device)->type == HAL_DEVICE_CPU) {
            assert_int_equal(status, HAL_ERROR_LIMIT);
            assert_non_null(strstr(hal_last_error(), "of 2147483647 rows"));
            assert_non_null(strstr(hal_last_error(), "more than 65"));
            REFUSED(HAL_ERROR_LIMIT, hal_plan_scratch(plan, most, &size));
            assert_int_equal(size, 0);
        } else {
            OK(status);
        }
        plan_check(&c, plan, FEW, NULL, HAL_MODE_FAST);
        hal_plan_destroy(plan);
    }
    plan_case_close(&c);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Runs, which are right whatever way they take, until one more program is there. */
static void run_until_recorded(plan_case *c, hal_plan *plan, uint64_t rows, uint64_t programs)
{
    const time_t begin = time(NULL);
    while (plan_stats(plan, rows).programs_recorded < programs) {
        expect_run(c, plan, rows);
        pause_ms(1);
        if (time(NULL) - begin > 100) {
            fail_msg("no program of %llu rows after 100 s", (unsigned long long)rows);
        }
    }
    const uint64_t submits = plan_stats(plan, rows).submits;
    expect_run(c, plan, rows);
    assert_int_equal(plan_stats(plan, rows).submits, submits + 1);
}

/* The first run is told; a program comes by itself. */
static void test_background(void **state)
{
    static const uint64_t buckets[] = {8, ROWS};
    for (int shapes = HAL_SHAPES_SPECIAL; shapes <= HAL_SHAPES_AUTO; shapes++) {
        plan_case c;
        plan_case_ffn(&c, *state, HAL_F32, 16, 32, ROWS);
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = true, .background = true, .shapes = (hal_shapes)shapes,
                                                  .buckets = buckets, .bucket_count = 2, .fusion = HAL_FUSE_NONE,
                                                  .mode = HAL_MODE_BATCH_INVARIANT, .measure_rows = ROWS));
        plan_expect(&c, 5, HAL_MODE_BATCH_INVARIANT);
        expect_run(&c, plan, 5);
        assert_int_equal(plan_stats(plan, 5).submits, 6);
        if (shapes != HAL_SHAPES_GENERAL) {
            run_until_recorded(&c, plan, 5, 1);
            plan_expect(&c, 11, HAL_MODE_BATCH_INVARIANT);
            run_until_recorded(&c, plan, 11, 2);
        }
        const hal_plan_stats stats = plan_stats(plan, 5);
        assert_true(stats.programs_failed == 0 && stats.failure == HAL_OK);
        hal_plan_destroy(plan);
        plan_case_close(&c);
    }
}

/* Destroyed while programs are asked for and recorded. */
static void test_destroyed_meanwhile(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, 16, 32, ROWS);
    for (uint32_t turn = 0; turn < 20; turn++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = true, .background = true, .measure_rows = ROWS));
        for (uint64_t rows = 1; rows <= turn % ROWS; rows++) {
            OK(plan_run_on(&c, plan, c.f->stream, rows, NULL));
        }
        hal_plan_destroy(plan);
    }
    OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
    plan_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device_goes_first), cmocka_unit_test(test_too_many_rows),
                                       cmocka_unit_test(test_background), cmocka_unit_test(test_destroyed_meanwhile)};
    return ROWS_MAIN("plan_life", tests);
}
