/* test_tune_attention.c - the tuner with attention, on the device that HAL_BACKEND names: what it chooses among gives
 * the same results, wrong and slow ones do not win, and hal_attention takes what was noted. */
#include "attention.h"
#include "gemm_case.h"
#include "rows.h"
#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One token that attends to many: split, by the rules, on a device of more than one unit. */
static const hal_attention_desc decode = {.struct_size = sizeof(hal_attention_desc),
                                          .batch = 1,
                                          .q_heads = 2,
                                          .kv_heads = 1,
                                          .head_dim = 16,
                                          .q_length = 1,
                                          .kv_length = 300,
                                          .dtype = HAL_F32};

/* Operands of it, with room for any number of splits. */
typedef struct tuned {
    fixture f;
    hal_attention_desc attention;
    hal_buffer *buffers[4], *workspace;
    uint64_t size; /* of o, in elements */
    gemm_choice choices[GEMM_MOST_CHOICES];
    uint32_t count;
    hal_tune_result result;
} tuned;

static void open_tuned(tuned *t, const char *limits)
{
    const hal_attention_desc *d = &decode;
    const uint64_t q = (uint64_t)d->q_heads * d->head_dim, k = d->kv_length * d->kv_heads * d->head_dim;
    const uint64_t counts[] = {q, k, k, q};
    memset(t, 0, sizeof *t);
    setenv("HAL_TUNING", "", 1);
    fixture_open(&t->f, limits);
    OK(hal_tuning_clear(t->f.device));
    for (uint32_t i = 0; i < 4; i++) {
        float *values = malloc(counts[i] * sizeof *values);
        assert_non_null(values);
        for (uint64_t e = 0; e < counts[i]; e++) {
            values[e] = (float)((int)(e * 7919 % 97 % 5) - 2);
        }
        OK(hal_buffer_create(t->f.device, HAL_BUFFER(.size = counts[i] * 4), &t->buffers[i]));
        OK(hal_cmd_upload(t->f.list, hal_whole(t->buffers[i]), values, counts[i] * 4));
        free(values);
    }
    OK(hal_buffer_create(t->f.device, HAL_BUFFER(.size = 64 * (q + 2 * d->q_heads) * 4), &t->workspace));
    t->attention = decode;
    t->attention.q = hal_whole(t->buffers[0]);
    t->attention.k = hal_whole(t->buffers[1]);
    t->attention.v = hal_whole(t->buffers[2]);
    t->attention.o = hal_whole(t->buffers[3]);
    t->size = counts[3];
    attention_problem p;
    uint64_t workspace;
    bool empty;
    OK(hal_attention_resolve(&t->attention, true, &p, &empty));
    OK(hal_attention_choices(t->f.device, &p, t->choices, &t->count, &workspace));
    assert_true(t->count >= 3 && workspace <= 64 * (q + 2 * d->q_heads) * 4);
    t->attention.workspace = hal_whole(t->workspace);
    t->result.struct_size = sizeof t->result;
}

static void close_tuned(tuned *t)
{
    OK(hal_stream_wait(t->f.stream, TEST_TIMEOUT));
    for (uint32_t i = 0; i < 4; i++) {
        hal_buffer_destroy(t->buffers[i]);
    }
    hal_buffer_destroy(t->workspace);
    fixture_close(&t->f);
}

/* With a choice, or NULL: as hal_attention does it. */
static void run(tuned *t, const gemm_choice *choice, float *values)
{
    const uint8_t poison = 0xFF;
    OK(hal_cmd_fill(t->f.list, t->attention.o, &poison, 1));
    OK(choice ? hal_attention_chosen(t->f.list, &t->attention, choice) : hal_attention(t->f.list, &t->attention));
    OK(hal_cmd_download(t->f.list, values, t->attention.o));
    OK(hal_stream_wait(t->f.stream, TEST_TIMEOUT));
}

static void compare(const tuned *t, const float *got, const float *want)
{
    for (uint64_t i = 0; i < t->size; i++) {
        assert_true(fabsf(got[i] - want[i]) <= 1e-5f);
    }
}

/* The first is the rules'; the others have its kernel, other splits, and its result. */
static void test_choices(void **state)
{
    (void)state;
    tuned t;
    float want[64], got[64];
    open_tuned(&t, NULL);
    run(&t, NULL, want);
    for (uint32_t i = 0; i < t.count; i++) {
        run(&t, &t.choices[i], got);
        compare(&t, got, want);
        assert_string_equal(t.choices[i].kernel, t.choices[0].kernel);
        for (uint32_t other = 0; other < i; other++) {
            assert_int_not_equal(t.choices[i].tile_n, t.choices[other].tile_n);
        }
    }
    const gemm_choice bad[] = {{"attention", 3, 1, 0}, {"attention_task", 1, 65536, 0}, {"nothing", 1, 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(HAL_ERROR_UNSUPPORTED, hal_attention_chosen(t.f.list, &t.attention, &bad[i]));
    }
    close_tuned(&t);
}

static void note(tuned *t, gemm_choice choice)
{
    const hal_device_info *info = hal_device_get_info(t->f.device);
    hal_tuning tuning = {
        .op = HAL_TUNED_ATTENTION, .dtype = HAL_F32, .m = 2, .n = 16, .k = 300, .batch = 1, .choice = choice};
    snprintf(tuning.device, sizeof tuning.device, "%s", info->name);
    snprintf(tuning.driver, sizeof tuning.driver, "%s", info->driver);
    OK(hal_tuning_note(t->f.device, &tuning));
}

/* Kernels of an attention: one, and one more that puts splits together. */
static uint32_t kernels(tuned *t, const hal_attention_desc *attention)
{
    hal_cmdlist *list;
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_create(t->f.device, NULL, &list));
    OK(hal_attention(list, attention));
    OK(hal_cmdlist_get_stats(list, &stats));
    hal_cmdlist_destroy(list);
    return stats.commands;
}

static const gemm_choice *with_splits(const tuned *t, bool split)
{
    for (uint32_t i = t->count; i-- > 0;) {
        if ((t->choices[i].tile_n > 1) == split) {
            return &t->choices[i];
        }
    }
    fail_msg("no choice of %s", split ? "splits" : "one split");
    return NULL;
}

/* hal_attention itself: in the fast mode, with a workspace, unless it is told how many. */
static void test_taken(void **state)
{
    (void)state;
    tuned t;
    uint64_t ruled, size;
    open_tuned(&t, NULL);
    OK(hal_attention_workspace(t.f.device, &t.attention, &ruled));
    note(&t, *with_splits(&t, false));
    assert_int_equal(kernels(&t, &t.attention), 1);
    OK(hal_attention_workspace(t.f.device, &t.attention, &size));
    assert_int_equal(size, ruled); /* enough for the rules, too */
    hal_attention_desc other = t.attention;
    other.splits = 4;
    assert_int_equal(kernels(&t, &other), 2);

    const gemm_choice *most = with_splits(&t, true);
    note(&t, *most);
    assert_int_equal(kernels(&t, &t.attention), 2);
    OK(hal_attention_workspace(t.f.device, &t.attention, &size));
    assert_true(size >= ruled && size >= most->tile_n * (16 + 2) * 2 * 4);
    other = t.attention;
    other.workspace = (hal_span){0};
    assert_int_equal(kernels(&t, &other), 1);
    other = t.attention;
    other.mode = HAL_MODE_BATCH_INVARIANT;
    assert_int_equal(kernels(&t, &other), 1);
    other.mode = HAL_MODE_STRICT;
    assert_int_equal(kernels(&t, &other), 1);
    /* A workspace that was told before the tuning is still enough, and one that it was told for after it. */
    other = t.attention;
    other.workspace.size = ruled ? ruled : 4;
    OK(hal_attention(t.f.list, &other));
    OK(hal_tuning_clear(t.f.device));
    other.workspace.size = size;
    OK(hal_attention(t.f.list, &other));
    note(&t, (gemm_choice){"attention", 3, 5, 0}); /* of no kernel: the rules choose */
    OK(hal_attention(t.f.list, &t.attention));
    close_tuned(&t);
}

/* Candidates that behave: as fast as said, wrong, or failing. */
typedef struct act {
    gemm_choice rule, wrong, failing, fast;
    uint32_t wrong_runs, failing_runs;
} act;

static bool is(const gemm_choice *x, const gemm_choice *y)
{
    return *y->kernel && hal_gemm_same_choice(x, y);
}

static hal_status run_act(void *user, hal_cmdlist *list, const hal_tune_subject *s, const gemm_choice *choice)
{
    act *a = user;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < (is(choice, &a->fast) ? 1 : 6); i++) {
        status = hal_tune_subject_run(list, s, &a->rule); /* the same work for all, so that times are what we say */
    }
    if (status == HAL_OK && is(choice, &a->wrong)) {
        const float value = 0.5f;
        a->wrong_runs++;
        status = hal_cmd_fill(list, hal_range(s->attention.o.buffer, 4, 4), &value, 4);
    }
    a->failing_runs += is(choice, &a->failing);
    return status == HAL_OK && is(choice, &a->failing) ? HAL_ERROR_LIMIT : status;
}

static hal_status tune(tuned *t, act *a)
{
    return hal_tune_with(t->f.device, HAL_TUNE(.attention = &decode, .seconds = 0.2), run_act, a, &t->result);
}

/* Those that the cost model leaves in: by their checks. */
typedef struct seen {
    uint32_t indices[GEMM_MOST_CHOICES], count;
} seen;

static bool see(void *user, hal_tune_stage stage, uint32_t index, uint32_t count)
{
    seen *s = user;
    (void)count;
    if (stage == HAL_TUNE_CHECK) {
        s->indices[s->count++] = index;
    }
    return stage == HAL_TUNE_CHECK;
}

/* The nth of them after the rules'. */
static gemm_choice candidate(tuned *t, uint32_t nth)
{
    seen s = {.count = 0};
    const hal_status status =
        hal_tune(t->f.device, HAL_TUNE(.attention = &decode, .progress = see, .user = &s), &t->result);
    assert_int_equal(status, HAL_TIMEOUT);
    assert_int_equal(s.indices[0], 0);
    if (nth + 1 >= s.count) {
        print_message("skipped: the cost model leaves %u candidates on this device; this needs %u\n", s.count, nth + 2);
        close_tuned(t);
        skip();
    }
    return t->choices[s.indices[nth + 1]];
}

static void describe(const gemm_choice *c, char text[64])
{
    snprintf(text, 64, "%s %u rows, %u split%s", c->kernel, c->tile_m, c->tile_n, c->tile_n == 1 ? "" : "s");
}

static void test_fast_wins(void **state)
{
    (void)state;
    tuned t;
    char text[64];
    bool known = true;
    open_tuned(&t, NULL);
    act a = {.rule = t.choices[0], .fast = candidate(&t, 0)};
    OK(hal_tune_known(t.f.device, HAL_TUNE(.attention = &decode), &known, NULL));
    assert_false(known);
    OK(tune(&t, &a));
    describe(&a.fast, text);
    assert_string_equal(t.result.choice, text);
    assert_true(t.result.changed && t.result.us < t.result.rule_us);
    assert_int_equal(t.result.candidates, t.count);
    assert_int_equal(kernels(&t, &t.attention), a.fast.tile_n == 1 ? 1 : 2);
    hal_tune_result again = {.struct_size = sizeof again};
    OK(hal_tune_known(t.f.device, HAL_TUNE(.attention = &decode), &known, &again));
    assert_true(known && again.changed && again.us == t.result.us);
    assert_string_equal(again.choice, t.result.choice);
    close_tuned(&t);
}

static void test_wrong_and_failing(void **state)
{
    (void)state;
    tuned t;
    char text[64];
    open_tuned(&t, NULL);
    act a = {.rule = t.choices[0], .wrong = candidate(&t, 0), .failing = candidate(&t, 1)};
    a.fast = a.wrong; /* wrong, and the fastest */
    OK(tune(&t, &a));
    assert_int_equal(t.result.wrong, a.wrong_runs + a.failing_runs);
    assert_true(a.wrong_runs == 1 && a.failing_runs == 1); /* looked at once, never timed */
    describe(&a.wrong, text);
    assert_string_not_equal(t.result.choice, text);
    a.failing = t.choices[0]; /* the rules' own failing is the call's */
    assert_int_equal(tune(&t, &a), HAL_ERROR_LIMIT);
    close_tuned(&t);
}

/* Without a hook: some choice comes out, and the result is what it was. */
static void test_real(void **state)
{
    (void)state;
    tuned t;
    float want[64], got[64];
    bool known = false;
    open_tuned(&t, NULL);
    run(&t, NULL, want);
    for (int dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        hal_attention_desc d = decode;
        d.dtype = (hal_dtype)dtype;
        OK(hal_tune(t.f.device, HAL_TUNE(.attention = &d, .seconds = 0.05), &t.result));
        assert_int_equal(t.result.wrong, 0);
        assert_true(t.result.us > 0 && t.result.us <= t.result.rule_us);
        OK(hal_tune_known(t.f.device, HAL_TUNE(.attention = &d), &known, NULL));
        assert_true(known);
    }
    run(&t, NULL, got);
    compare(&t, got, want);
    close_tuned(&t);
}

static void test_misuse(void **state)
{
    (void)state;
    tuned t;
    hal_attention_desc d = decode;
    bool known = true;
    const hal_gemm_desc gemm = {.struct_size = sizeof gemm, .m = 8, .n = 8, .k = 8};
    open_tuned(&t, "pooled=0"); /* each buffer is an allocation */
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(t.f.device, HAL_TUNE(.attention = &d, .gemm = &gemm), &t.result));
    d.kv_length = 0;
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_tune(t.f.device, HAL_TUNE(.attention = &d), &t.result));
    assert_non_null(strstr(hal_last_error(), "nothing to choose"));
    OK(hal_tune_known(t.f.device, HAL_TUNE(.attention = &d), &known, NULL));
    assert_false(known);
    d = decode;
    d.kv_heads = 3;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(t.f.device, HAL_TUNE(.attention = &d), &t.result));
    for (uint64_t nth = 1; nth <= 5; nth++) { /* q, k, v, o, the workspace */
        OK(hal_device_inject_fault(t.f.device, HAL_FAULT_ALLOC, nth));
        REFUSED(HAL_ERROR_OUT_OF_MEMORY, hal_tune(t.f.device, HAL_TUNE(.attention = &decode), &t.result));
        OK(hal_device_inject_fault(t.f.device, HAL_FAULT_ALLOC, 0));
    }
    close_tuned(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices),           cmocka_unit_test(test_taken),
                                       cmocka_unit_test(test_fast_wins),         cmocka_unit_test(test_real),
                                       cmocka_unit_test(test_wrong_and_failing), cmocka_unit_test(test_misuse)};
    return ROWS_MAIN("tune_attention", tests);
}
