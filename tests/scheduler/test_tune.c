/* test_tune.c - the tuner on the device that HAL_BACKEND names: every candidate gives the same bits, wrong and slow
 * ones do not win, and hal_gemm takes what was noted. */
#include "gemm_case.h"

#include "rows.h"
#include "tune.h"

#include <hal/debug.h>
#include <stdlib.h>
#include <string.h>

/* No tunings but a test's own, and nothing kept. */
static void open_untuned(fixture *f, const char *limits)
{
    setenv("HAL_TUNING", "", 1);
    fixture_open(f, limits);
    OK(hal_tuning_clear(f->device));
}

/* Operands of a product. */
typedef struct product {
    hal_gemm_desc gemm;
    hal_buffer *buffers[3];
    uint64_t size; /* of D */
} product;

static void create_product(product *p, fixture *f, hal_gemm_desc gemm)
{
    const uint64_t batch = gemm.batch ? gemm.batch : 1;
    const uint64_t counts[] = {gemm.m * gemm.k * batch, gemm.k * gemm.n * batch, gemm.m * gemm.n * batch};
    p->gemm = gemm;
    p->size = counts[2] * hal_dtype_size(gemm.dtype);
    for (int i = 0; i < 3; i++) {
        const uint64_t size = counts[i] * hal_dtype_size(gemm.dtype);
        float *values = malloc(counts[i] * sizeof *values);
        void *bytes = malloc(size);
        assert_true(values && bytes);
        for (uint64_t e = 0; e < counts[i]; e++) {
            values[e] = (float)((int)(e * 7919 % 97 % 5) - 2);
        }
        OK(hal_numeric_encode(gemm.dtype, values, counts[i], bytes));
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = size), &p->buffers[i]));
        OK(hal_cmd_upload(f->list, hal_whole(p->buffers[i]), bytes, size));
        free(values);
        free(bytes);
    }
    p->gemm.struct_size = sizeof p->gemm;
    p->gemm.a = hal_whole(p->buffers[0]);
    p->gemm.b = hal_whole(p->buffers[1]);
    p->gemm.d = hal_whole(p->buffers[2]);
    p->gemm.stride_a = batch > 1 ? gemm.m * gemm.k : 0;
    p->gemm.stride_b = batch > 1 ? gemm.k * gemm.n : 0;
}

static void free_product(product *p)
{
    for (int i = 0; i < 3; i++) {
        hal_buffer_destroy(p->buffers[i]);
    }
}

static uint32_t choices_of(const product *p, fixture *f, gemm_choice *choices)
{
    gemm_problem problem;
    bool empty;
    OK(hal_gemm_resolve(&p->gemm, true, &problem, &empty));
    return hal_gemm_choices(hal_device_get_info(f->device), &problem, choices);
}

static void run_choice(product *p, fixture *f, const gemm_choice *choice, uint8_t *bytes)
{
    const uint8_t poison = 0xFF;
    OK(hal_cmd_fill(f->list, p->gemm.d, &poison, 1));
    OK(hal_gemm_chosen(f->list, &p->gemm, choice));
    OK(hal_cmd_download(f->list, bytes, p->gemm.d));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
}

/* The first is the rules'; all others give its bits. No two are the same. */
static void test_choices(void **state)
{
    (void)state;
    static const hal_gemm_desc shapes[] = {
        {.m = 5, .n = 33, .k = 129, .dtype = HAL_BF16, .trans_b = true},
        {.m = 37, .n = 81, .k = 67, .dtype = HAL_F32, .trans_a = true, .batch = 2},
    };
    fixture f;
    open_untuned(&f, NULL);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        product p;
        gemm_choice choices[GEMM_MOST_CHOICES];
        create_product(&p, &f, shapes[i]);
        const uint32_t count = choices_of(&p, &f, choices);
        uint8_t *want = malloc(p.size), *got = malloc(p.size);
        assert_true(want && got && count >= 2);
        for (uint32_t c = 0; c < count; c++) {
            run_choice(&p, &f, &choices[c], c ? got : want);
            if (c && memcmp(got, want, p.size) != 0) {
                fail_msg("shape %zu: %s %ux%ux%u gives other bits than %s", i, choices[c].kernel, choices[c].tile_m,
                         choices[c].tile_n, choices[c].tile_k, choices[0].kernel);
            }
            for (uint32_t other = 0; other < c; other++) {
                assert_false(hal_gemm_same_choice(&choices[c], &choices[other]));
            }
        }
        free(want);
        free(got);
        free_product(&p);
    }
    fixture_close(&f);
}

static void note(fixture *f, uint64_t m, uint64_t n, uint64_t k, gemm_choice choice)
{
    const hal_device_info *info = hal_device_get_info(f->device);
    hal_tuning t = {.dtype = HAL_F32, .m = m, .n = n, .k = k, .batch = 1, .choice = choice};
    snprintf(t.device, sizeof t.device, "%s", info->name);
    snprintf(t.driver, sizeof t.driver, "%s", info->driver);
    OK(hal_tuning_note(f->device, &t));
}

/* What no kernel has, or what does not fit, is refused by itself; as a tuning it is passed over. */
static void test_not_fitting(void **state)
{
    (void)state;
    static const gemm_choice bad[] = {{"gemm_task", 7, 64, 512},      {"gemm_task", 65532, 65536, 65536},
                                      {"gemm_task", 1, 1, 0},         {"gemm_task", 65536, 32, 0},
                                      {"gemm_task_small", 3, 32, 32}, {"gemm", 31, 32, 16},
                                      {"gemm_mma", 16, 16, 16},       {"gemm_small", 1, 32, 63},
                                      {"gemm_task_address", 1, 1, 1}, {"nothing", 1, 1, 1}};
    fixture f;
    product p;
    open_untuned(&f, NULL);
    create_product(&p, &f, (hal_gemm_desc){.m = 20, .n = 40, .k = 30, .dtype = HAL_F32});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSED(HAL_ERROR_UNSUPPORTED, hal_gemm_chosen(f.list, &p.gemm, &bad[i]));
        assert_non_null(strstr(hal_last_error(), bad[i].kernel));
        note(&f, p.gemm.m, p.gemm.n, p.gemm.k, bad[i]);
        OK(hal_gemm(f.list, &p.gemm));
    }
    OK(hal_stream_wait(f.stream, TEST_TIMEOUT));
    free_product(&p);
    fixture_close(&f);
}

/* A workspace of the size that was told is enough, whatever tile a tuning takes: a larger one leaves units idle. */
static void test_workspace(void **state)
{
    (void)state;
    fixture f;
    open_untuned(&f, NULL);
    for (uint64_t n = 32; n <= 64; n *= 2) {
        product p;
        gemm_choice choices[GEMM_MOST_CHOICES];
        hal_buffer *workspace;
        uint64_t size;
        create_product(&p, &f, (hal_gemm_desc){.m = 16, .n = n, .k = 1024, .dtype = HAL_F32});
        OK(hal_gemm_workspace(f.device, &p.gemm, &size));
        OK(hal_buffer_create(f.device, HAL_BUFFER(.size = size ? size : 4), &workspace));
        const uint32_t count = choices_of(&p, &f, choices);
        p.gemm.workspace = hal_whole(workspace);
        for (uint32_t i = 0; i < count; i++) {
            if (i == 0 || strncmp(choices[i].kernel, "gemm_task", 9) == 0) {
                note(&f, 16, n, 1024, choices[i]);
                OK(hal_gemm(f.list, &p.gemm));
            }
        }
        OK(hal_stream_wait(f.stream, TEST_TIMEOUT));
        hal_buffer_destroy(workspace);
        free_product(&p);
    }
    fixture_close(&f);
}

/* The tuner with candidates that behave: `slow` many times over, `wrong` with another byte, `failing` with an error. No
 * candidate but the fast one is as fast as one run. */
typedef struct act {
    gemm_choice rule, wrong, failing, fast;
    uint32_t repeats;
    uint32_t runs, wrong_runs, failing_runs;
} act;

static bool is(const gemm_choice *x, const gemm_choice *y)
{
    return *y->kernel && hal_gemm_same_choice(x, y);
}

static hal_status run_act(void *user, hal_cmdlist *list, const hal_tune_subject *subject, const gemm_choice *choice)
{
    const hal_gemm_desc *gemm = &subject->gemm;
    act *a = user;
    a->runs++;
    if (is(choice, &a->failing)) {
        a->failing_runs++; /* although its result is right */
        hal_status done = hal_gemm_chosen(list, gemm, &a->rule);
        return done == HAL_OK ? HAL_ERROR_LIMIT : done;
    }
    const uint32_t repeats = is(choice, &a->fast) ? 1 : a->repeats;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < repeats; i++) {
        status = hal_gemm_chosen(list, gemm, &a->rule); /* the same work for all, so that times are what we say */
    }
    if (status == HAL_OK && is(choice, &a->wrong)) {
        const uint8_t byte = 0x77;
        hal_span d = gemm->d;
        a->wrong_runs++;
        d.offset += d.size == HAL_REST ? 0 : d.size - 1;
        d.size = 1;
        status = hal_cmd_fill(list, d, &byte, 1);
    }
    return status;
}

typedef struct tuned {
    fixture f;
    product p;
    gemm_choice choices[GEMM_MOST_CHOICES];
    uint32_t count;
    hal_tune_result result;
} tuned;

static const hal_gemm_desc tuned_shape = {
    .struct_size = sizeof(hal_gemm_desc), .m = 9, .n = 512, .k = 48, .dtype = HAL_F32};

static void open_tuned(tuned *t)
{
    memset(t, 0, sizeof *t);
    open_untuned(&t->f, NULL);
    create_product(&t->p, &t->f, tuned_shape);
    t->count = choices_of(&t->p, &t->f, t->choices);
    t->result.struct_size = sizeof t->result;
    assert_true(t->count >= 3);
}

static void close_tuned(tuned *t)
{
    free_product(&t->p);
    fixture_close(&t->f);
}

static void describe(const gemm_choice *c, char text[64])
{
    snprintf(text, 64, "%s %ux%ux%u", c->kernel, c->tile_m, c->tile_n, c->tile_k);
}

/* What hal_gemm would take now. */
static gemm_choice taken(tuned *t, hal_mode mode)
{
    gemm_problem problem;
    gemm_plan plan;
    gemm_kernel kernel;
    gemm_choice choice;
    bool empty;
    hal_gemm_desc gemm = t->p.gemm;
    gemm.mode = mode;
    OK(hal_gemm_resolve(&gemm, true, &problem, &empty));
    hal_gemm_ask_tunings(t->f.device, &problem, 0, &choice);
    OK(hal_gemm_plan(hal_device_get_info(t->f.device), &problem, 0, &plan, &kernel));
    return hal_gemm_choice_of(&plan);
}

/* The nth candidate that the cost model leaves in. */
typedef struct seen {
    gemm_choice choices[GEMM_MOST_CHOICES];
    uint32_t count;
} seen;

static hal_status run_seen(void *user, hal_cmdlist *list, const hal_tune_subject *subject, const gemm_choice *choice)
{
    seen *s = user;
    s->choices[s->count++] = *choice;
    return hal_gemm_chosen(list, &subject->gemm, choice);
}

static bool stop_before_time(void *user, hal_tune_stage stage, uint32_t index, uint32_t count)
{
    (void)user, (void)index, (void)count;
    return stage == HAL_TUNE_CHECK;
}

static gemm_choice candidate(tuned *t, uint32_t nth)
{
    seen s = {.count = 0};
    hal_tune_result result = {.struct_size = sizeof result};
    const hal_status status =
        hal_tune_with(t->f.device, HAL_TUNE(.gemm = &tuned_shape, .progress = stop_before_time), run_seen, &s, &result);
    assert_true(status == HAL_TIMEOUT || status == HAL_OK);
    assert_true(hal_gemm_same_choice(&s.choices[0], &t->choices[0])); /* the rules' is the first */
    uint32_t left = 1;
    while (left < s.count && !hal_gemm_same_choice(&s.choices[left], &t->choices[0])) {
        left++; /* each is checked once; then the rules' is timed */
    }
    if (nth + 1 >= left) {
        print_message("skipped: the cost model leaves %u candidates on this device; this needs %u\n", left, nth + 2);
        close_tuned(t);
        skip();
    }
    return s.choices[nth + 1];
}

static gemm_kernel used_by(product *p, fixture *f, hal_mode mode, uint32_t without)
{
    gemm_kernel used;
    p->gemm.mode = mode;
    OK(hal_gemm_without(f->list, &p->gemm, without, &used));
    return used;
}

/* hal_gemm itself: a kernel of another kind than the rules', in the fast mode and unless told which to do without. */
static void test_taken(void **state)
{
    (void)state;
    fixture f;
    product p;
    open_untuned(&f, NULL);
    create_product(&p, &f, (hal_gemm_desc){.m = 5, .n = 64, .k = 48, .dtype = HAL_F32});
    const gemm_kernel rule = used_by(&p, &f, HAL_MODE_FAST, 0);
    const gemm_kernel invariant = used_by(&p, &f, HAL_MODE_BATCH_INVARIANT, 0);
    assert_int_not_equal(rule, 0);
    note(&f, 6, 64, 50, (gemm_choice){"gemm", 32, 32, 16});
    assert_int_equal(used_by(&p, &f, HAL_MODE_FAST, 0), 0);
    assert_int_equal(used_by(&p, &f, HAL_MODE_BATCH_INVARIANT, 0), invariant);
    assert_int_equal(used_by(&p, &f, HAL_MODE_FAST, GEMM_KERNEL_VIEWS), rule);
    OK(hal_tuning_clear(f.device));
    assert_int_equal(used_by(&p, &f, HAL_MODE_FAST, 0), rule);
    OK(hal_stream_wait(f.stream, TEST_TIMEOUT));
    free_product(&p);
    fixture_close(&f);
}

static void test_fast_wins(void **state)
{
    (void)state;
    tuned t;
    char text[64];
    bool known = true;
    open_tuned(&t);
    act a = {.rule = t.choices[0], .fast = candidate(&t, 0), .repeats = 20};
    OK(hal_tune_known(t.f.device, HAL_TUNE(.gemm = &tuned_shape), &known, &t.result));
    assert_false(known);
    OK(hal_tune_with(t.f.device, HAL_TUNE(.gemm = &tuned_shape, .seconds = 0.2), run_act, &a, &t.result));
    describe(&a.fast, text);
    assert_string_equal(t.result.choice, text);
    describe(&t.choices[0], text);
    assert_string_equal(t.result.rule, text);
    assert_true(t.result.changed && t.result.us < t.result.rule_us && t.result.rounds >= 5);
    assert_int_equal(t.result.candidates, t.count);
    assert_int_equal(t.result.wrong, 0);
    /* hal_gemm takes it, in the fast mode only. */
    gemm_choice now = taken(&t, HAL_MODE_FAST);
    assert_true(hal_gemm_same_choice(&now, &a.fast));
    now = taken(&t, HAL_MODE_BATCH_INVARIANT);
    assert_true(*now.kernel && !hal_gemm_same_choice(&now, &a.fast));
    now = taken(&t, HAL_MODE_STRICT);
    assert_true(*now.kernel && !hal_gemm_same_choice(&now, &a.fast));
    /* A second run knows. */
    hal_tune_result again = {.struct_size = sizeof again};
    OK(hal_tune_known(t.f.device, HAL_TUNE(.gemm = &tuned_shape), &known, &again));
    assert_true(known && again.changed && again.us == t.result.us);
    assert_string_equal(again.choice, t.result.choice);
    close_tuned(&t);
}

static void test_slow_loses(void **state)
{
    (void)state;
    tuned t;
    char text[64];
    open_tuned(&t);
    act a = {.rule = t.choices[0], .fast = t.choices[0], .repeats = 20};
    OK(hal_tune_with(t.f.device, HAL_TUNE(.gemm = &tuned_shape, .seconds = 0.2), run_act, &a, &t.result));
    describe(&t.choices[0], text);
    assert_string_equal(t.result.choice, text);
    assert_false(t.result.changed);
    assert_true(t.result.us == t.result.rule_us);
    assert_int_equal(t.result.dropped + t.result.pruned, t.count - 1);
    close_tuned(&t);
}

static void test_wrong_and_failing(void **state)
{
    (void)state;
    tuned t;
    open_tuned(&t);
    act a = {.rule = t.choices[0], .wrong = candidate(&t, 0), .failing = candidate(&t, 1), .repeats = 3};
    a.fast = a.wrong; /* wrong, and the fastest */
    OK(hal_tune_with(t.f.device, HAL_TUNE(.gemm = &tuned_shape, .seconds = 0.1), run_act, &a, &t.result));
    assert_int_equal(t.result.wrong, 2);
    assert_int_equal(a.wrong_runs, 1); /* looked at once, never timed */
    assert_int_equal(a.failing_runs, 1);
    char text[64];
    describe(&a.wrong, text);
    assert_string_not_equal(t.result.choice, text);
    /* The rules' own failing is the call's. */
    a.failing = t.choices[0];
    assert_int_equal(hal_tune_with(t.f.device, HAL_TUNE(.gemm = &tuned_shape), run_act, &a, &t.result),
                     HAL_ERROR_LIMIT);
    OK(hal_gemm(t.f.list, &t.p.gemm));
    OK(hal_stream_wait(t.f.stream, TEST_TIMEOUT));
    close_tuned(&t);
}

typedef struct stop {
    hal_tune_stage stage;
    uint32_t calls;
} stop;

static bool stop_at(void *user, hal_tune_stage stage, uint32_t index, uint32_t count)
{
    stop *s = user;
    s->calls++;
    assert_true(index < count);
    return stage != s->stage;
}

static void test_stop(void **state)
{
    (void)state;
    tuned t;
    bool known = true;
    open_tuned(&t);
    for (hal_tune_stage stage = HAL_TUNE_CHECK; stage <= HAL_TUNE_TIME; stage++) {
        act a = {.rule = t.choices[0], .fast = candidate(&t, 0), .repeats = 5};
        stop s = {.stage = stage};
        hal_tune_result before = t.result;
        assert_int_equal(hal_tune_with(t.f.device, HAL_TUNE(.gemm = &tuned_shape, .progress = stop_at, .user = &s),
                                       run_act, &a, &t.result),
                         HAL_TIMEOUT);
        assert_true(s.calls >= 1 && (stage == HAL_TUNE_TIME || s.calls == 1));
        assert_memory_equal(&before, &t.result, sizeof before);
        OK(hal_tune_known(t.f.device, HAL_TUNE(.gemm = &tuned_shape), &known, NULL));
        assert_false(known);
    }
    close_tuned(&t);
}

/* Without a hook: some choice comes out, and a product by it is what it was. */
static void test_real(void **state)
{
    (void)state;
    tuned t;
    bool known = false;
    open_tuned(&t);
    uint8_t *want = malloc(t.p.size), *got = malloc(t.p.size);
    assert_true(want && got);
    run_choice(&t.p, &t.f, &t.choices[0], want);
    OK(hal_tune(t.f.device, HAL_TUNE(.gemm = &tuned_shape, .seconds = 0.05), &t.result));
    assert_int_equal(t.result.wrong, 0);
    assert_true(t.result.us > 0 && t.result.us <= t.result.rule_us);
    OK(hal_gemm(t.f.list, &t.p.gemm));
    OK(hal_cmd_download(t.f.list, got, t.p.gemm.d));
    OK(hal_stream_wait(t.f.stream, TEST_TIMEOUT));
    assert_memory_equal(want, got, t.p.size);
    OK(hal_tune_known(t.f.device, HAL_TUNE(.gemm = &tuned_shape), &known, NULL));
    assert_true(known);
    free(want);
    free(got);
    close_tuned(&t);
}

static void test_misuse(void **state)
{
    (void)state;
    fixture f;
    hal_tune_result result = {.struct_size = sizeof result}, unset = {0};
    hal_gemm_desc g = tuned_shape;
    bool known;
    open_untuned(&f, NULL);
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(NULL, HAL_TUNE(.gemm = &g), &result));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(f.device, NULL, &result));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(f.device, HAL_TUNE(.gemm = NULL), &result));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(f.device, HAL_TUNE(.gemm = &g), NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune(f.device, HAL_TUNE(.gemm = &g), &unset));
    assert_non_null(strstr(hal_last_error(), "struct_size"));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune_known(f.device, HAL_TUNE(.gemm = &g), NULL, &result));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune_known(f.device, HAL_TUNE(.gemm = &g), &known, &unset));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune_known(NULL, HAL_TUNE(.gemm = &g), &known, &result));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_tune_known(f.device, NULL, &known, &result));
    g.k = 0;
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_tune(f.device, HAL_TUNE(.gemm = &g), &result));
    assert_non_null(strstr(hal_last_error(), "nothing to choose"));
    g = tuned_shape;
    g.m = 0;
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_tune(f.device, HAL_TUNE(.gemm = &g), &result));
    g.m = UINT64_C(1) << 40;
    assert_true(hal_tune(f.device, HAL_TUNE(.gemm = &g), &result) < 0);
    fixture_close(&f);
}

/* A shape that fits no memory, and an allocation that fails in the middle: the device goes on. */
static void test_out_of_memory(void **state)
{
    (void)state;
    fixture f;
    hal_tune_result result = {.struct_size = sizeof result};
    hal_gemm_desc g = tuned_shape;
    open_untuned(&f, "pooled=0"); /* each buffer is an allocation */
    g.m = g.n = g.k = HAL_MAX_DIMENSION;
    assert_true(hal_tune(f.device, HAL_TUNE(.gemm = &g), &result) < 0);
    g.batch = HAL_MAX_DIMENSION;
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_tune(f.device, HAL_TUNE(.gemm = &g), &result));
    g.m = g.n = g.k = (1 << 29) + 1; /* a matrix has 61 bits, all of them 92 */
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_tune(f.device, HAL_TUNE(.gemm = &g), &result));
    for (uint64_t nth = 1; nth <= 3; nth++) {
        OK(hal_device_inject_fault(f.device, HAL_FAULT_ALLOC, nth));
        REFUSED(HAL_ERROR_OUT_OF_MEMORY, hal_tune(f.device, HAL_TUNE(.gemm = &tuned_shape), &result));
        OK(hal_device_inject_fault(f.device, HAL_FAULT_ALLOC, 0));
    }
    product p;
    create_product(&p, &f, tuned_shape);
    OK(hal_gemm(f.list, &p.gemm));
    OK(hal_stream_wait(f.stream, TEST_TIMEOUT));
    free_product(&p);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choices),
                                       cmocka_unit_test(test_not_fitting),
                                       cmocka_unit_test(test_workspace),
                                       cmocka_unit_test(test_taken),
                                       cmocka_unit_test(test_fast_wins),
                                       cmocka_unit_test(test_slow_loses),
                                       cmocka_unit_test(test_wrong_and_failing),
                                       cmocka_unit_test(test_stop),
                                       cmocka_unit_test(test_real),
                                       cmocka_unit_test(test_misuse),
                                       cmocka_unit_test(test_out_of_memory)};
    return ROWS_MAIN("tune", tests);
}
