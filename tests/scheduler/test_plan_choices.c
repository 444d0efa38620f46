/* test_plan_choices.c - what a hal_plan takes and refuses, what it chooses and says of itself, on the device that
 * HAL_BACKEND names. */
#include "plan_case.h"

#include "json.h"
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { H = 64, INNER = 128, ROWS = 24 };

static void expect_text(const char *part)
{
    if (!strstr(hal_last_error(), part) || strchr(hal_last_error(), '\n')) {
        fail_msg("'%s' is not one line with '%s'", hal_last_error(), part);
    }
}

static void test_bindings(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, H, INNER, ROWS);
    hal_stream *stream = c.f->stream;
    const hal_span x = hal_whole(c.buffers[0]), y = hal_whole(c.buffers[1]), none = {0};
    for (int replay = 0; replay < 2; replay++) {
        hal_plan *plan = plan_create(&c, HAL_PLAN(.label = "my plan", .replay = replay, .measure_rows = ROWS));
        hal_buffer *scratch = plan_scratch(&c, plan, ROWS);
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(NULL, stream, 1, HAL_BINDINGS(x, y)));
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(plan, NULL, 1, HAL_BINDINGS(x, y)));
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(plan, stream, 1, NULL));
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(plan, stream, 1, HAL_BINDINGS(x)));
        expect_text("my plan");
        expect_text("1 inputs, 1 outputs");
        REFUSED(HAL_ERROR_INVALID_ARGUMENT,
                hal_plan_run(plan, stream, 1, HAL_BINDINGS(x, y, hal_whole(scratch), hal_whole(scratch))));
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(plan, stream, 1, HAL_BINDINGS(x, none)));
        expect_text("output 'y'");
        REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_plan_run(plan, stream, ROWS + 1, HAL_BINDINGS(x, y)));
        expect_text("input 'x'");
        REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_plan_run(plan, stream, ROWS, HAL_BINDINGS(x, hal_at(c.buffers[1], 4))));
        REFUSED(HAL_ERROR_OUT_OF_RANGE,
                hal_plan_run(plan, stream, 1, HAL_BINDINGS(x, hal_range(c.buffers[1], 8 * ROWS * H, 4 * H))));
        REFUSED(HAL_ERROR_OVERLAP, hal_plan_run(plan, stream, 2, HAL_BINDINGS(x, x)));
        expect_text("output 'y' is bound over input 'x'");
        REFUSED(HAL_ERROR_OVERLAP, hal_plan_run(plan, stream, 2, HAL_BINDINGS(x, hal_whole(c.weights[1]))));
        REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_run(plan, stream, ROWS, HAL_BINDINGS(x, y, hal_at(scratch, 256))));
        expect_text("scratch");
        REFUSED(HAL_ERROR_LIMIT, hal_plan_run(plan, stream, (uint64_t)1 << 31, HAL_BINDINGS(x, y)));
        REFUSED(HAL_ERROR_LIMIT, hal_plan_run(plan, stream, UINT64_MAX, HAL_BINDINGS(x, y)));
        const uint64_t recorded = plan_stats(plan, ROWS).programs_recorded; /* none for rows that are not there */
        REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_plan_run(plan, stream, 40 * ROWS, HAL_BINDINGS(x, y)));
        assert_int_equal(plan_stats(plan, ROWS).programs_recorded, recorded);
        uint64_t size;
        REFUSED(HAL_ERROR_LIMIT, hal_plan_scratch(plan, UINT64_MAX / 2, &size));
        REFUSED(HAL_ERROR_LIMIT, hal_plan_prepare(plan, (uint64_t)1 << 40));
        plan_check(&c, plan, ROWS, scratch, HAL_MODE_FAST);      /* all is as before */
        const uint64_t submits = plan_stats(plan, ROWS).submits; /* an address that no list takes: it is told */
        plan_expect(&c, 2, HAL_MODE_FAST);
        plan_poison(&c);
        OK(hal_cmd_copy(c.f->list, hal_range(scratch, 256 + 4, 8 * H), hal_range(c.buffers[0], 0, 8 * H)));
        OK(hal_plan_run(plan, stream, 2, HAL_BINDINGS(hal_at(scratch, 256 + 4), y)));
        plan_compare(&c, 2, "misaligned");
        assert_true(plan_stats(plan, ROWS).submits > submits + 1);
        plan_check(&c, plan, ROWS, NULL, HAL_MODE_FAST);
        hal_buffer_destroy(scratch);
        hal_plan_destroy(plan);
    }
    plan_case_close(&c);
}

static void refuse_plan(const plan_case *c, hal_status status, const hal_plan_desc *desc, const char *text)
{
    hal_plan *plan = (hal_plan *)(uintptr_t)1;
    REFUSED(status, hal_plan_create(c->f->device, c->graph, desc, &plan));
    assert_null(plan);
    expect_text(text);
}

static void test_refused(void **state)
{
    static const uint64_t falling[] = {4, 4}, huge[] = {(uint64_t)1 << 31};
    plan_case c;
    hal_plan *plan;
    plan_case_ffn(&c, *state, HAL_F32, 16, 16, 4);
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_create(NULL, c.graph, NULL, &plan));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_create(c.f->device, NULL, NULL, &plan));
    expect_text("hal_plan_create: graph is NULL");
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_create(c.f->device, c.graph, NULL, NULL));
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.fusion = (hal_fusion)9), "fusion");
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.mode = (hal_mode)9), "mode");
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.shapes = (hal_shapes)9), "shapes");
    refuse_plan(&c, HAL_ERROR_LIMIT, HAL_PLAN(.programs = 5000), "5000 programs");
    refuse_plan(&c, HAL_ERROR_LIMIT, HAL_PLAN(.streams = 65), "65 streams");
    refuse_plan(&c, HAL_ERROR_LIMIT, HAL_PLAN(.measure_rows = UINT64_MAX), "measure_rows");
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.replay = true, .shapes = HAL_SHAPES_BUCKETED), "buckets");
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT,
                HAL_PLAN(.replay = true, .shapes = HAL_SHAPES_BUCKETED, .buckets = falling, .bucket_count = 2),
                "bucket 1");
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT,
                HAL_PLAN(.replay = true, .shapes = HAL_SHAPES_BUCKETED, .buckets = huge, .bucket_count = 1),
                "bucket 0");
    plan_case_close(&c);
    plan_case_open(&c, *state, 4, 1);
    hal_tensor x = hal_graph_input(c.graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, 8));
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, NULL, "no output");
    hal_tensor w = hal_graph_constant(c.graph, "w", HAL_F32, HAL_DIMS(8, 8), (hal_span){0});
    hal_graph_output(c.graph, "y", hal_graph_gemm(c.graph, x, w, NULL));
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, NULL, "constant 'w'");
    plan_case_close(&c);
    plan_case_open(&c, *state, 4, 1);
    hal_graph_activation(c.graph, HAL_NO_TENSOR, HAL_ACT_SILU);
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, NULL, "hal_graph_activation");
    plan_case_close(&c);
}

/* Attention with itself: keys have the rows. */
static hal_status bucketed(fixture *f, hal_causal causal, bool lengths, bool cache, plan_case *c, hal_plan **plan)
{
    static const uint64_t buckets[] = {8, 16};
    plan_case_open(c, f, 16, 9);
    hal_tensor x = hal_graph_input(c->graph, "x", HAL_F32, HAL_DIMS(HAL_ROWS, 32));
    hal_tensor n = hal_graph_rmsnorm(c->graph, x, HAL_NO_TENSOR, 0.0f); /* a row of zeros becomes NaN */
    hal_tensor k = cache ? hal_graph_input(c->graph, "k", HAL_F32, HAL_DIMS(24, 32)) : n;
    hal_tensor length = HAL_NO_TENSOR;
    if (lengths) {
        length = hal_graph_index_input(c->graph, "length", 4, HAL_DIMS(1));
        c->index_limits[c->inputs + 1 + cache] = 1;
    }
    hal_tensor y = hal_graph_attention(c->graph, n, k, k,
                                       HAL_GRAPH_ATTENTION(.q_heads = 2, .causal = causal, .kv_lengths = length));
    hal_graph_output(c->graph, "y", y);
    plan_case_memory(c);
    return hal_plan_create(f->device, c->graph,
                           HAL_PLAN(.replay = true, .shapes = HAL_SHAPES_BUCKETED, .buckets = buckets,
                                    .bucket_count = 2, .mode = HAL_MODE_BATCH_INVARIANT, .measure_rows = 8,
                                    .no_reordering = true),
                           plan);
}

/* Padding is refused where a query would see it. */
static void test_padding(void **state)
{
    static const struct {
        hal_causal causal;
        bool lengths, cache, legal;
    } cases[] = {{HAL_CAUSAL_NONE, false, false, false},        {HAL_CAUSAL_TOP_LEFT, false, false, true},
                 {HAL_CAUSAL_BOTTOM_RIGHT, false, false, true}, {HAL_CAUSAL_NONE, true, false, false},
                 {HAL_CAUSAL_BOTTOM_RIGHT, true, false, false}, {HAL_CAUSAL_NONE, false, true, true},
                 {HAL_CAUSAL_TOP_LEFT, false, true, true},      {HAL_CAUSAL_BOTTOM_RIGHT, false, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_case c;
        hal_plan *plan;
        hal_status status = bucketed(*state, cases[i].causal, cases[i].lengths, cases[i].cache, &c, &plan);
        if (cases[i].legal) {
            OK(status);
            for (uint64_t rows = 1; rows <= 16; rows += 3) {
                plan_check(&c, plan, rows, NULL, HAL_MODE_BATCH_INVARIANT);
            }
        } else {
            assert_int_equal(status, HAL_ERROR_UNSUPPORTED);
            expect_text("attention");
        }
        hal_plan_destroy(plan);
        plan_case_close(&c);
    }
}

static uint32_t verdicts(const char *json, const char *made)
{
    uint32_t count = 0;
    for (const char *at = json; (at = strstr(at, made)) != NULL; at++) {
        count++;
    }
    return count;
}

/* What is exported gives the same plan again, and hostile text none. */
static void test_choices(void **state)
{
    plan_case c, other;
    plan_case_ffn(&c, *state, HAL_BF16, H, INNER, ROWS);
    hal_plan *all = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_ALL, .measure_rows = ROWS)), *again, *none;
    char *json, *json2, *json3;
    OK(hal_plan_export(all, &json));
    again = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE, .choices = json, .measure_rows = 1));
    OK(hal_plan_export(again, &json2));
    assert_string_equal(json, json2);
    assert_int_equal(plan_stats(all, ROWS).steps, plan_stats(again, ROWS).steps);
    assert_true(verdicts(json, "\"made\": true") > 0);
    plan_check(&c, again, ROWS, NULL, HAL_MODE_FAST);
    none = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE));
    OK(hal_plan_export(none, &json3));
    assert_int_equal(verdicts(json3, "\"made\": true"), 0);

    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{}",
        "{\"format\": \"hal-plan-choices\"}",
        "{\"format\": \"hal-plan-choices\", \"version\": 2, \"graph\": \"0\", \"fusions\": []}",
        "{\"format\": \"hal-plan-choices\", \"version\": 1, \"graph\": \"0000000000000000\", \"fusions\": []}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.choices = bad[i]), "choices");
    }
    for (size_t cut = 0; cut + 2 < strlen(json); cut += 7) { /* cut short anywhere */
        char *text = strdup(json);
        assert_non_null(text);
        text[cut] = 0;
        refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.choices = text), "choices");
        free(text);
    }
    char *huge = malloc((2 << 20) + 1);
    assert_non_null(huge);
    memset(huge, ' ', 2 << 20);
    huge[2 << 20] = 0;
    refuse_plan(&c, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.choices = huge), "1 MiB");
    free(huge);
    plan_case_branches(&other, *state, 2, ROWS);
    refuse_plan(&other, HAL_ERROR_INVALID_ARGUMENT, HAL_PLAN(.choices = json), "another graph");
    plan_case_close(&other);
    hal_plan_export_free(json);
    hal_plan_export_free(json2);
    hal_plan_export_free(json3);
    hal_plan_destroy(all);
    hal_plan_destroy(again);
    hal_plan_destroy(none);
    plan_case_close(&c);
}

static char *explained(hal_plan *plan, hal_status (*explain)(hal_plan *, uint64_t, FILE *))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    OK(explain(plan, ROWS, out));
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Column of the word in its line. */
static size_t column_of(const char *text, const char *word)
{
    const char *at = strstr(text, word), *line = at;
    assert_non_null(at);
    while (line > text && line[-1] != '\n') {
        line--;
    }
    return (size_t)(at - line);
}

static void test_explain(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_BF16, H, INNER, ROWS);
    hal_plan *plan = plan_create_spread(&c, HAL_PLAN(.label = "a \"plan\"", .fusion = HAL_FUSE_ALL, .streams = 2,
                                                     .replay = true, .measure_rows = ROWS));
    OK(plan_run_on(&c, plan, c.f->stream, ROWS, NULL));
    OK(hal_stream_wait(c.f->stream, TEST_TIMEOUT));
    const bool timed = hal_device_get_info(c.f->device)->timestamps;
    if (timed) {
        hal_plan_stats stats = plan_stats(plan, ROWS);
        assert_true(stats.device_us > 0 && stats.submit_us > 0);
        OK(plan_run_on(&c, plan, c.f->stream, ROWS, NULL));
        hal_span spans[] = {hal_whole(c.buffers[0]), hal_whole(c.buffers[1])};
        OK(hal_plan_measure(plan, c.f->stream, ROWS, HAL_BINDINGS(spans[0], spans[1]), TEST_TIMEOUT));
    }
    char *text = explained(plan, hal_plan_explain), *json = explained(plan, hal_plan_explain_json);
    printf("%s", text);
    static const char *const words[] = {
        "a \"plan\"", "predicted us", "critical path:", "output 'y'", "fused", "scratch"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_non_null(strstr(text, words[i]));
    }
    assert_int_equal(column_of(text, "output 'y'"), column_of(text, "place"));
    assert_non_null(strstr(json, "\"plan\": \"a \\\"plan\\\"\""));
    assert_non_null(strstr(json, timed ? "\"measured_us\": " : "\"measured_us\": null"));
    hal_json *root;
    OK(hal_json_parse("explained", json, strlen(json), &root));
    assert_int_equal(hal_json_get(root, "step_list")->count, plan_stats(plan, ROWS).steps);
    hal_json_free(root);
    free(text);
    free(json);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* The figures are those of the graph: bytes once a step, FLOPs, arena. */
static void test_stats(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_BF16, H, INNER, ROWS);
    hal_plan *plan = plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_NONE, .measure_rows = ROWS));
    const hal_plan_stats stats = plan_stats(plan, ROWS);
    const uint64_t x = ROWS * H * 2, wide = ROWS * INNER * 2, weight = H * INNER * 2;
    assert_int_equal(stats.operators, 6);
    assert_int_equal(stats.steps, 6);
    assert_int_equal(stats.bytes, (2 * x + 2 * H) + 2 * (x + weight + wide) + 3 * wide + (wide + weight + x) + 3 * x);
    assert_true(stats.flops >= 6.0 * ROWS * H * INNER);
    assert_true(stats.peak_bytes >= x + 2 * wide && stats.scratch_bytes >= stats.peak_bytes);
    assert_true(stats.unshared_bytes > stats.scratch_bytes || stats.unshared_bytes == stats.scratch_bytes);
    assert_true(isnan(stats.device_us) && isnan(stats.submit_us) && stats.predicted_us > 0);
    hal_plan_stats old = {.struct_size = offsetof(hal_plan_stats, fusions), .fusions = 77};
    OK(hal_plan_get_stats(plan, ROWS, &old));
    assert_true(old.steps == 6 && old.fusions == 77);
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_get_stats(plan, ROWS, &(hal_plan_stats){0}));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_plan_get_stats(NULL, ROWS, &old));
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

/* Fusions chosen by timing them are legal like others. */
static void test_measured(void **state)
{
    plan_case c;
    plan_case_ffn(&c, *state, HAL_F32, H, INNER, ROWS);
    hal_plan *plan =
        plan_create(&c, HAL_PLAN(.fusion = HAL_FUSE_MEASURED, .no_reordering = true, .measure_rows = ROWS));
    plan_check(&c, plan, ROWS, NULL, HAL_MODE_FAST);
    hal_plan_destroy(plan);
    plan_case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bindings), cmocka_unit_test(test_refused), cmocka_unit_test(test_padding),
        cmocka_unit_test(test_choices),  cmocka_unit_test(test_explain), cmocka_unit_test(test_stats),
        cmocka_unit_test(test_measured),
    };
    return ROWS_MAIN("plan_choices", tests);
}
