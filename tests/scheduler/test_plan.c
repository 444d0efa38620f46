/* test_plan.c - runs of a hal_plan on the device that HAL_BACKEND names: counts, the same bits whichever way it runs,
 * the bound on programs. */
#include "plan_case.h"

#include "gemm.h"
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sanitizers make a submission ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { REPLAYS = 500 };
#else
enum { REPLAYS = 10000 };
#endif

enum { H = 64, INNER = 128, ROWS = 24 };

/* Choices of HAL_FUSE_ALL with only this rule left. */
static char *only_rule(plan_case *c, const char *rule)
{
    hal_plan *all = plan_create(c, HAL_PLAN(.fusion = HAL_FUSE_ALL, .measure_rows = ROWS));
    char *json;
    OK(hal_plan_export(all, &json));
    hal_plan_destroy(all);
    bool found = false;
    for (char *at = json; (at = strstr(at, "{\"rule\": \"")) != NULL; at++) {
        char *made = strstr(at, "\"made\": ") + 8;
        if (strncmp(at + 10, rule, strlen(rule)) == 0) {
            found = true;
        } else if (*made == 't') { /* true -> false has one letter more: the rest moves */
            char *moved = malloc(strlen(json) + 2);
            assert_non_null(moved);
            sprintf(moved, "%.*sfalse%s", (int)(made - json), json, made + 4);
            at = moved + (at - json);
            hal_plan_export_free(json);
            json = moved;
        }
    }
    if (!found) {
        fail_msg("no fusion '%s' in %s", rule, json);
    }
    return json;
}

static void expect_counts(plan_case *c, const hal_plan_desc *desc, uint64_t submits, uint64_t kernels)
{
    hal_plan *plan = plan_create(c, desc);
    plan_expect(c, ROWS, HAL_MODE_FAST);
    for (int layer = 0; layer < 3; layer++) {
        plan_poison(c);
        OK(plan_run_on(c, plan, c->f->stream, ROWS, NULL));
        plan_compare(c, ROWS, "an FFN");
    }
    const hal_plan_stats stats = plan_stats(plan, ROWS);
    print_message("three FFNs, %s, %s: %llu submissions of %llu kernels\n", desc->replay ? "replayed" : "eager",
                  desc->choices                   ? "one fusion"
                  : desc->fusion == HAL_FUSE_NONE ? "not fused"
                                                  : "all fusions",
                  (unsigned long long)stats.submits, (unsigned long long)stats.kernels);
    assert_int_equal(stats.runs, 3);
    if (kernels) {
        assert_int_equal(stats.submits, submits);
        assert_int_equal(stats.kernels, kernels);
    }
    hal_plan_destroy(plan);
}

/* 18 submissions of 18 kernels; 3 of 18; and with the residual in the down projection 15 of 15; 3 of 15. */
static void test_counts(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_BF16, H, INNER, ROWS);
    char *choices = only_rule(&c, "gemm + residual");
    expect_counts(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE), 18, 18);
    expect_counts(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE, .replay = true), 3, 18);
    expect_counts(&c, HAL_PLAN(.choices = choices), 15, 15);
    expect_counts(&c, HAL_PLAN(.choices = choices, .replay = true), 3, 15);
    expect_counts(&c, HAL_PLAN(.fusion = HAL_FUSE_ALL, .no_reordering = true), 0, 0);
    expect_counts(&c, HAL_PLAN(.fusion = HAL_FUSE_ALL, .no_reordering = true, .replay = true), 0, 0);
    hal_plan_export_free(choices);
    plan_case_close(&c);
}

/* Every way of running, own scratch and the caller's, several numbers of rows. Buckets pad, and a padded GEMM may take
 * another kernel: so the mode is one in which rows do not depend on each other. */
static void every_way(plan_case *c)
{
    static const uint64_t buckets[] = {4, 16}, rows[] = {1, 4, 7, 16, ROWS};
    static const hal_fusion fusions[] = {HAL_FUSE_NONE, HAL_FUSE_ALL, HAL_FUSE_MODEL};
    for (int shapes = -1; shapes <= HAL_SHAPES_AUTO; shapes++) {
        for (uint32_t way = 0; way < 6; way++) {
            const hal_plan_desc *desc =
                HAL_PLAN(.fusion = fusions[way / 2], .no_reordering = true, .mode = HAL_MODE_BATCH_INVARIANT,
                         .replay = shapes >= 0, .shapes = shapes < 0 ? HAL_SHAPES_SPECIAL : (hal_shapes)shapes,
                         .buckets = buckets, .bucket_count = 2, .streams = way % 2 ? 3 : 1, .measure_rows = 16);
            hal_plan *plan = way % 2 ? plan_create_spread(c, desc) : plan_create(c, desc);
            for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
                hal_buffer *scratch = plan_scratch(c, plan, rows[i]);
                plan_check(c, plan, rows[i], NULL, HAL_MODE_BATCH_INVARIANT);
                plan_check(c, plan, rows[i], scratch, HAL_MODE_BATCH_INVARIANT);
                hal_buffer_destroy(scratch);
            }
            hal_plan_destroy(plan);
        }
    }
}

static void test_every_way(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_BF16, H, INNER, ROWS);
    every_way(&c);
    plan_case_close(&c);
    plan_case_branches(&c, *state, 4, ROWS);
    every_way(&c);
    plan_case_close(&c);
}

/* No rows: nothing is written, the stream goes on, and an event behind it passes. */
static void test_no_rows(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, H, INNER, ROWS);
    hal_event *event;
    OK(hal_event_create(c.f->device, NULL, &event));
    for (int replay = 0; replay < 2; replay++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = replay, .measure_rows = ROWS));
        plan_poison(&c);
        OK(plan_run_on(&c, plan, c.f->stream, 0, NULL));
        OK(hal_event_record(event, c.f->stream));
        OK(hal_event_wait(event, TEST_TIMEOUT));
        plan_compare(&c, 0, "no rows");
        assert_int_equal(plan_stats(plan, 0).kernels, 0);
        hal_plan_destroy(plan);
    }
    hal_event_destroy(event);
    plan_case_close(&c);
}

/* Other memory and other rows at each of many replays, while the ones before run; the last results of each output are
 * looked at. */
static void test_replays(void **state)
{
    enum { OUTPUTS = 5, SOME_ROWS = 6 };
    plan_case c;
    plan_case_open(&c, *state, SOME_ROWS, 3);
    hal_tensor x = hal_graph_input(c.graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, 32));
    hal_tensor silu = hal_graph_activation(c.graph, x, HAL_ACT_SILU);
    hal_graph_output(c.graph, "y",
                     hal_graph_rmsnorm(c.graph, hal_graph_multiply(c.graph, silu, x), HAL_NO_TENSOR, 0.5f));
    plan_case_memory(&c);
    hal_plan *plan = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE, .replay = true, .measure_rows = 2));
    hal_buffer *own = c.buffers[1], *outputs[OUTPUTS];
    uint64_t rows[OUTPUTS] = {0};
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        OK(hal_buffer_create(c.f->device, HAL_BUFFER(.size = hal_buffer_size(own)), &outputs[i]));
    }
    for (uint32_t i = 0; i < REPLAYS; i++) {
        const uint32_t at = random_below(&c.seed, OUTPUTS);
        rows[at] = 1 + random_below(&c.seed, SOME_ROWS);
        OK(hal_plan_run(plan, c.f->stream, rows[at], HAL_BINDINGS(hal_whole(c.buffers[0]), hal_whole(outputs[at]))));
        if (i % 64 == 0) {
            OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
        }
    }
    OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
    const hal_plan_stats stats = plan_stats(plan, 2);
    assert_int_equal(stats.runs, REPLAYS);
    assert_int_equal(stats.submits, REPLAYS);
    assert_int_equal(stats.programs_recorded, SOME_ROWS);
    assert_int_equal(stats.programs_dropped, 0);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        plan_expect(&c, rows[i], HAL_MODE_FAST);
        plan_poison(&c);
        OK(hal_cmd_copy(c.f->list, hal_range(own, 0, rows[i] * 128), hal_range(outputs[i], 0, rows[i] * 128)));
        plan_compare(&c, rows[i], "after many replays");
        hal_buffer_destroy(outputs[i]);
    }
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* More numbers of rows than programs: the bound holds, the least recently used goes, results stay right while what was
 * dropped still runs. */
static void test_bound(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, 16, 16, 60);
    hal_plan *plan =
        plan_create(&c, HAL_PLAN(.replay = true, .programs = 3, .fusion = HAL_FUSE_NONE, .measure_rows = 1));
    for (uint64_t rows = 1; rows <= 60; rows++) {
        OK(plan_run_on(&c, plan, c.f->stream, rows, NULL));
    }
    hal_plan_stats stats = plan_stats(plan, 1);
    assert_int_equal(stats.programs_recorded, 60);
    assert_int_equal(stats.programs_dropped, 57);
    for (uint64_t rows = 58; rows <= 60; rows++) {
        OK(plan_run_on(&c, plan, c.f->stream, rows, NULL));
    }
    assert_int_equal(plan_stats(plan, 1).programs_recorded, 60); /* the last three are there */
    OK(plan_run_on(&c, plan, c.f->stream, 58, NULL));
    OK(plan_run_on(&c, plan, c.f->stream, 1, NULL)); /* and now 59 goes */
    OK(plan_run_on(&c, plan, c.f->stream, 58, NULL));
    assert_int_equal(plan_stats(plan, 1).programs_recorded, 61);
    OK(plan_run_on(&c, plan, c.f->stream, 59, NULL));
    assert_int_equal(plan_stats(plan, 1).programs_recorded, 62);
    plan_check(&c, plan, 60, NULL, HAL_MODE_FAST);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* Runs on several streams without a wait between: those with the plan's scratch are ordered, those with their own may
 * overlap; destroyed while it all runs. */
static void test_streams_and_destroy(void **state)
{
    enum { STREAMS = 4 };
    for (int way = 0; way < 4; way++) {
        plan_case c;
        plan_case_branches(&c, *state, 4, ROWS);
        plan_expect(&c, ROWS, HAL_MODE_FAST);
        const hal_plan_desc *desc =
            HAL_PLAN(.replay = way % 2, .streams = 2, .measure_rows = ROWS, .fusion = HAL_FUSE_NONE);
        hal_plan *plan = plan_create_spread(&c, desc);
        hal_stream *streams[STREAMS];
        hal_buffer *own = c.buffers[1], *outputs[STREAMS], *scratch[STREAMS] = {NULL};
        for (uint32_t i = 0; i < STREAMS; i++) {
            OK(hal_stream_create(c.f->device, NULL, &streams[i]));
            OK(hal_buffer_create(c.f->device, HAL_BUFFER(.size = hal_buffer_size(own)), &outputs[i]));
            scratch[i] = way / 2 ? plan_scratch(&c, plan, ROWS) : NULL;
        }
        for (uint32_t turn = 0; turn < 20; turn++) {
            for (uint32_t i = 0; i < STREAMS; i++) {
                c.buffers[1] = outputs[i];
                OK(plan_run_on(&c, plan, streams[i], ROWS, scratch[i]));
            }
        }
        c.buffers[1] = own;
        hal_plan_destroy(plan);
        hal_graph_destroy(c.graph);
        c.graph = NULL;
        for (uint32_t i = 0; i < STREAMS; i++) {
            hal_buffer_destroy(scratch[i]);
            OK(hal_stream_wait(streams[i], TEST_TIMEOUT));
            uint8_t *got = malloc(hal_buffer_size(own));
            assert_non_null(got);
            OK(hal_cmd_download(hal_stream_cmdlist(streams[i]), got, hal_whole(outputs[i])));
            OK(hal_stream_wait(streams[i], TEST_TIMEOUT));
            assert_memory_equal(got, c.want[1], hal_buffer_size(own));
            free(got);
            hal_stream_destroy(streams[i]);
            hal_buffer_destroy(outputs[i]);
        }
        plan_case_close(&c);
    }
}

/* HAL_SHAPES_AUTO tells at first and records when that pays; prepare records at once. */
static void test_auto(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, 16, 16, ROWS);
    const hal_plan_desc *desc =
        HAL_PLAN(.replay = true, .shapes = HAL_SHAPES_AUTO, .fusion = HAL_FUSE_NONE, .measure_rows = ROWS);
    hal_plan *plan = plan_create(&c, desc);
    OK(plan_run_on(&c, plan, c.f->stream, 3, NULL));
    OK(plan_run_on(&c, plan, c.f->stream, 3, NULL));
    assert_int_equal(plan_stats(plan, 3).programs_recorded, 0);
    assert_int_equal(plan_stats(plan, 3).submits, 12);
    for (int i = 0; i < 50; i++) { /* nothing is measured of recording yet: it counts as a few tellings */
        OK(plan_run_on(&c, plan, c.f->stream, 3, NULL));
    }
    assert_int_equal(plan_stats(plan, 3).programs_recorded, 1);
    plan_check(&c, plan, 3, NULL, HAL_MODE_FAST);
    OK(hal_plan_prepare(plan, 5));
    OK(hal_plan_prepare(plan, 5));
    hal_plan_stats before = plan_stats(plan, 5);
    assert_int_equal(before.programs_recorded, 2);
    OK(plan_run_on(&c, plan, c.f->stream, 5, NULL));
    assert_int_equal(plan_stats(plan, 5).submits, before.submits + 1);
    plan_check(&c, plan, 5, NULL, HAL_MODE_FAST);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* A plan without HAL_ROWS ignores the rows of a run. */
static void test_fixed(void **state)
{
    plan_case c;
    plan_case_open(&c, *state, 1, 4);
    hal_tensor x = hal_graph_input(c.graph, "x", HAL_F32, HAL_DIMS(5, 32));
    hal_graph_output(c.graph, "silu", hal_graph_activation(c.graph, x, HAL_ACT_SILU));
    hal_graph_output(c.graph, "sum", hal_graph_add(c.graph, x, x));
    plan_case_memory(&c);
    hal_plan *plan = plan_create(&c, HAL_PLAN(.replay = true));
    const uint64_t rows[] = {0, 1, 77, UINT64_MAX};
    plan_expect(&c, 1, HAL_MODE_FAST);
    for (uint32_t i = 0; i < 4; i++) {
        plan_poison(&c);
        OK(plan_run_on(&c, plan, c.f->stream, rows[i], NULL));
        plan_compare(&c, 1, "fixed");
    }
    assert_int_equal(plan_stats(plan, 0).programs_recorded, 1);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* Gate, up and SwiGLU as one GEMM, beside one without options; the kernels of each are those that the model charges. */
static void expect_charged(fixture *f, hal_dtype dtype, uint64_t rows, uint64_t k, hal_mode mode)
{
    plan_case c;
    plan_case_open(&c, f, rows, 1);
    hal_graph *g = c.graph;
    const hal_tensor x = hal_graph_input(g, "x", dtype, HAL_DIMS(HAL_ROWS, k));
    const hal_tensor gate = hal_graph_gemm(g, x, plan_weight(&c, "gate", dtype, k, H), NULL);
    const hal_tensor up = hal_graph_gemm(g, x, plan_weight(&c, "up", dtype, k, H), NULL);
    hal_graph_output(g, "y", hal_graph_swiglu(g, gate, up));
    hal_graph_output(g, "z", hal_graph_gemm(g, x, plan_weight(&c, "plain", dtype, k, H), NULL));
    plan_case_memory(&c);
    hal_plan *plan = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_ALL, .mode = mode, .measure_rows = rows));
    assert_int_equal(plan->program.step_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        gemm_phases phases;
        hal_step_phases(hal_device_get_info(f->device), &plan->program, &plan->program.steps[i], rows, mode, &phases);
        assert_int_equal(plan->newest->kernels[i], phases.bytes ? phases.kernels + 1 : 1);
        assert_int_equal(plan->newest->workspaces[i], phases.bytes);
    }
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

static void test_charged(void **state)
{
    static const uint64_t depths[] = {24, 520, 2000}; /* the last are cut along k on wide devices */
    for (int dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int mode = HAL_MODE_FAST; mode <= HAL_MODE_STRICT; mode++) {
            for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
                expect_charged(*state, (hal_dtype)dtype, 1, depths[i], (hal_mode)mode);
                expect_charged(*state, (hal_dtype)dtype, ROWS, depths[i], (hal_mode)mode);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),  cmocka_unit_test(test_every_way), cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_replays), cmocka_unit_test(test_bound),     cmocka_unit_test(test_streams_and_destroy),
        cmocka_unit_test(test_auto),    cmocka_unit_test(test_fixed),     cmocka_unit_test(test_charged),
    };
    return ROWS_MAIN("plan", tests);
}
