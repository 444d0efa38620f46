/* test_plan_threads.c - plans made by several threads at once, programs prepared while others run, questions asked
 * meanwhile; also under ThreadSanitizer. */
#include "plan_case.h"

#include "rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, TURNS = 6, ROWS = 12 };

/* A thread of its own graph, on the device of the others. */
typedef struct worker {
    pthread_t thread;
    plan_case c;
    fixture f;
    hal_plan *plan; /* shared, where there is one */
    const char *error;
} worker;

static void *make_plans(void *user)
{
    worker *w = user;
    for (uint32_t turn = 0; turn < TURNS && !w->error; turn++) {
        const uint64_t rows = 1 + turn % ROWS;
        hal_plan *plan;
        const hal_plan_desc *desc = HAL_PLAN(.fusion = turn % 2 ? HAL_FUSE_ALL : HAL_FUSE_NONE, .no_reordering = true,
                                             .replay = turn % 3 != 0, .measure_rows = rows);
        if (hal_plan_create(w->f.device, w->c.graph, desc, &plan) != HAL_OK ||
            plan_run_on(&w->c, plan, w->f.stream, rows, NULL) != HAL_OK) {
            w->error = strdup(hal_last_error());
        }
        hal_plan_destroy(plan);
    }
    return NULL;
}

static void worker_open(worker *w, fixture *f)
{
    *w = (worker){.f = *f};
    OK(hal_stream_create(f->device, HAL_STREAM(.label = "worker"), &w->f.stream));
    w->f.list = hal_stream_cmdlist(w->f.stream);
    plan_case_ffn(&w->c, &w->f, HAL_F32, 16, 32, ROWS);
}

static void worker_close(worker *w)
{
    if (w->error) {
        fail_msg("a thread failed: %s", w->error);
    }
    plan_case_close(&w->c);
    hal_stream_destroy(w->f.stream);
}

static void start_all(worker *workers, uint32_t count, void *(*work)(void *))
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

static void test_create(void **state)
{
    (void)state;
    fixture fresh; /* nothing is compiled on it */
    fixture_open(&fresh, NULL);
    worker workers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        worker_open(&workers[i], &fresh);
    }
    start_all(workers, THREADS, make_plans);
    for (uint32_t i = 0; i < THREADS; i++) { /* the last result of each */
        hal_plan *plan = plan_create(&workers[i].c, HAL_PLAN(.replay = true));
        plan_check(&workers[i].c, plan, ROWS, NULL, HAL_MODE_FAST);
        hal_plan_destroy(plan);
        worker_close(&workers[i]);
    }
    fixture_close(&fresh);
}

/* One runs, one prepares, one asks, one runs on another stream; the bound on programs is far below the rows in use. */
static void *use_plan(void *user)
{
    worker *w = user;
    const uint32_t kind = (uint32_t)w->c.seed;
    for (uint32_t turn = 0; turn < 60 && !w->error; turn++) {
        const uint64_t rows = 1 + (turn * 7 + kind) % ROWS;
        hal_plan_stats stats = {.struct_size = sizeof stats};
        char *json = NULL;
        hal_status status = kind == 0   ? hal_plan_prepare(w->plan, rows)
                            : kind == 1 ? hal_plan_get_stats(w->plan, rows, &stats)
                                        : plan_run_on(&w->c, w->plan, w->f.stream, rows, NULL);
        status = status == HAL_OK && kind == 1 ? hal_plan_export(w->plan, &json) : status;
        hal_plan_export_free(json);
        if (status != HAL_OK) {
            w->error = strdup(hal_last_error());
        }
    }
    return NULL;
}

static void test_use(void **state)
{
    for (int shapes = HAL_SHAPES_SPECIAL; shapes <= HAL_SHAPES_AUTO; shapes += HAL_SHAPES_AUTO) {
        worker workers[THREADS];
        for (uint32_t i = 0; i < THREADS; i++) {
            worker_open(&workers[i], *state);
        }
        hal_plan *plan = plan_create(
            &workers[0].c, HAL_PLAN(.replay = true, .shapes = (hal_shapes)shapes, .programs = 3, .measure_rows = ROWS));
        for (uint32_t i = 0; i < THREADS; i++) {
            workers[i].plan = plan;
            workers[i].c.seed = i;
        }
        start_all(workers, THREADS, use_plan);
        for (uint32_t i = 2; i < THREADS; i++) {
            OK(hal_stream_wait(workers[i].f.stream, TEST_TIMEOUT));
        }
        const hal_plan_stats stats = plan_stats(plan, 1);
        assert_int_equal(stats.runs, 2 * 60);
        assert_true(stats.programs_recorded - stats.programs_dropped <= 3);
        plan_check(&workers[0].c, plan, ROWS, NULL, HAL_MODE_FAST);
        hal_plan_destroy(plan);
        for (uint32_t i = 0; i < THREADS; i++) {
            worker_close(&workers[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_create), cmocka_unit_test(test_use)};
    return ROWS_MAIN("plan_threads", tests);
}
