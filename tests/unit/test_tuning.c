/* Tunings as JSON and back, what is refused, and which one answers for a shape. What needs a device takes any there is.
 */
#include "tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != HAL_OK)                                                                                          \
            fail_msg("%s: %s", #call, hal_last_error());                                                               \
    } while (0)

static const hal_tuning sample = {.device = "A \"device\"",
                                  .driver = "1.2\\3",
                                  .dtype = HAL_BF16,
                                  .trans_b = true,
                                  .m = 1024,
                                  .n = 3072,
                                  .k = 2147483647,
                                  .batch = 3,
                                  .choice = {"gemm_task", 258, 64, 512},
                                  .us = 1234.5678,
                                  .rule_us = 1500};

static void assert_same(const hal_tuning *x, const hal_tuning *y)
{
    assert_string_equal(x->device, y->device);
    assert_string_equal(x->driver, y->driver);
    assert_true(x->op == y->op && x->dtype == y->dtype && x->trans_a == y->trans_a && x->trans_b == y->trans_b);
    assert_true(x->m == y->m && x->n == y->n && x->k == y->k && x->batch == y->batch);
    assert_true(hal_gemm_same_choice(&x->choice, &y->choice));
    assert_true(x->us == y->us && x->rule_us == y->rule_us);
}

static char *text_of(const hal_tuning *list, uint32_t count)
{
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    hal_tuning_write(out, list, count);
    fclose(out);
    return text;
}

/* Every kernel that a plan can name can be read back. */
static void round_trip(void **state)
{
    (void)state;
    static const char *const kernels[] = {"gemm",           "gemm_small",        "gemm_mma",        "gemm_async",
                                          "gemm_task",      "gemm_task_address", "gemm_task_small", "attention",
                                          "attention_task", "attention_mma"};
    enum { COUNT = sizeof kernels / sizeof kernels[0] };
    hal_tuning list[COUNT + 1], *read;
    uint32_t count;
    for (uint32_t i = 0; i <= COUNT; i++) {
        list[i] = sample;
        list[i].n += i;
        list[i].op = *kernels[i % COUNT] == 'a' ? HAL_TUNED_ATTENTION : HAL_TUNED_GEMM;
        list[i].trans_a = i % 2;
        list[i].dtype = (hal_dtype)(HAL_F32 + i % 3);
        snprintf(list[i].choice.kernel, sizeof list[i].choice.kernel, "%s", kernels[i % COUNT]);
    }
    list[COUNT].shipped = true; /* not written */
    char *text = text_of(list, COUNT + 1);
    OK(hal_tuning_parse("text", text, strlen(text), &read, &count));
    assert_int_equal(count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_same(&list[i], &read[i]);
    free(read);
    free(text);
    text = text_of(NULL, 0);
    OK(hal_tuning_parse("none", text, strlen(text), &read, &count));
    assert_int_equal(count, 0);
    free(read);
    free(text);
}

#define HEAD   "{\"format\": \"hal-tuning\", \"version\": 1, \"tunings\": ["
#define NAMES  "\"device\": \"x\", \"driver\": \"*\", \"op\": \"gemm\", \"dtype\": \"f32\", \"trans\": \"nn\","
#define SIZES  "\"m\": 1, \"n\": 2, \"k\": 3, \"batch\": 1,"
#define CHOICE "\"kernel\": \"gemm\", \"tile\": [32, 32, 16]"
#define LONG                                                                                                           \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567"

static void hostile(void **state)
{
    (void)state;
    static const char no_format[] = "not tunings of version 1", names[] = "device or driver",
                      op[] = "op is neither gemm nor attention", sizes[] = "m, n, k or batch",
                      choice[] = "kernel or tile", time[] = "a time is no number";
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "text"},
        {"[", "text"},
        {"[]", no_format},
        {"null", no_format},
        {"{\"format\": \"hal-tuning\", \"version\": 2, \"tunings\": []}", no_format},
        {"{\"format\": 1, \"version\": 1, \"tunings\": []}", no_format},
        {"{\"format\": \"hal-tuning\", \"version\": \"1\", \"tunings\": []}", no_format},
        {"{\"format\": \"hal-tuning\", \"version\": 1, \"tunings\": {}}", no_format},
        {"{\"format\": \"hal-tuning\", \"version\": 1}", no_format},
        {HEAD "1]}", names},
        {HEAD "[]]}", names},
        {HEAD "{}]}", names},
        {HEAD "{\"device\": \"\", \"driver\": \"x\"}]}", names},
        {HEAD "{\"device\": \"x\", \"driver\": 5}]}", names},
        {HEAD "{\"device\": \"" LONG "\", \"driver\": \"x\"}]}", names},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"softmax\", \"dtype\": \"f32\", \"trans\": \"nn\"}]}",
         op},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"attention\"}]}", op},
        {HEAD
         "{\"device\": \"x\", \"driver\": \"*\", \"op\": \"attention\", \"dtype\": \"f32\", \"trans\": \"nn\"," SIZES
             CHOICE "}]}",
         choice},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"gemm\", \"dtype\": \"f64\", \"trans\": \"nn\"}]}", op},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"gemm\", \"dtype\": \"f32\", \"trans\": \"nx\"}]}", op},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"gemm\", \"dtype\": \"f32\", \"trans\": \"ntx\"}]}", op},
        {HEAD "{\"device\": \"x\", \"driver\": \"x\", \"op\": \"gemm\", \"dtype\": \"f32\", \"trans\": \"n\"}]}", op},
        {HEAD "{" NAMES "\"m\": 0, \"n\": 2, \"k\": 3, \"batch\": 1," CHOICE "}]}", sizes},
        {HEAD "{" NAMES "\"m\": -1, \"n\": 2, \"k\": 3, \"batch\": 1," CHOICE "}]}", sizes},
        {HEAD "{" NAMES "\"m\": 1.5, \"n\": 2, \"k\": 3, \"batch\": 1," CHOICE "}]}", sizes},
        {HEAD "{" NAMES "\"m\": 1, \"n\": 1e30, \"k\": 3, \"batch\": 1," CHOICE "}]}", sizes},
        {HEAD "{" NAMES "\"m\": 1, \"n\": 2, \"k\": \"3\", \"batch\": 1," CHOICE "}]}", sizes},
        {HEAD "{" NAMES "\"m\": 1, \"n\": 2, \"k\": 3," CHOICE "}]}", sizes},
        {HEAD "{" NAMES SIZES "\"kernel\": \"rm\", \"tile\": [32, 32, 16]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm_any\", \"tile\": [32, 32, 16]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"" LONG "\", \"tile\": [32, 32, 16]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\"}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [32, 32]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [32, 32, 16, 1]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [32, 32, \"16\"]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [0, 32, 16]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [32, 0, 16]}]}", choice},
        {HEAD "{" NAMES SIZES "\"kernel\": \"gemm\", \"tile\": [32, 32, 65537]}]}", choice},
        {HEAD "{" NAMES SIZES CHOICE ", \"us\": -1}]}", time},
        {HEAD "{" NAMES SIZES CHOICE ", \"rule_us\": \"fast\"}]}", time},
        {HEAD "{" NAMES SIZES CHOICE "}, {}]}", "tuning 1: device or driver"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hal_tuning *list = (hal_tuning *)&list;
        uint32_t count = 7;
        if (hal_tuning_parse("text", cases[i].text, strlen(cases[i].text), &list, &count) == HAL_OK)
            fail_msg("case %zu is accepted", i);
        if (!strstr(hal_last_error(), cases[i].message))
            fail_msg("case %zu: %s", i, hal_last_error());
        assert_null(list);
        assert_int_equal(count, 0);
    }
}

/* One more than a file may hold. */
static void too_many(void **state)
{
    (void)state;
    char *text = malloc(3 * HAL_MOST_TUNINGS + 200);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, HEAD);
    for (int i = 0; i < HAL_MOST_TUNINGS; i++)
        at += (size_t)sprintf(text + at, "{},");
    at += (size_t)sprintf(text + at, "{}]}");
    hal_tuning *list;
    uint32_t count;
    assert_int_equal(hal_tuning_parse("text", text, at, &list, &count), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "more than 4096"));
    free(text);
}

/* With a device */

typedef struct place {
    hal_device *device;
    char folder[64], path[80];
    char warning[512]; /* the last one */
} place;

static void on_log(void *user, hal_log_level level, const char *text)
{
    place *p = user;
    if (level == HAL_LOG_WARNING)
        snprintf(p->warning, sizeof p->warning, "%s", text);
}

static void open_device(place *p, const char *cache)
{
    OK(hal_device_open(HAL_DEVICE(.cache_dir = cache, .log = on_log, .log_user = p), &p->device));
}

static int open_place(void **state)
{
    static place p;
    memset(&p, 0, sizeof p);
    hal_device *any;
    if (hal_device_open(NULL, &any) != HAL_OK) {
        *state = NULL;
        return 0;
    }
    hal_device_destroy(any);
    strcpy(p.folder, "/tmp/hal-tuning-XXXXXX");
    assert_non_null(mkdtemp(p.folder));
    snprintf(p.path, sizeof p.path, "%s/tuning.json", p.folder);
    unsetenv("HAL_TUNING");
    *state = &p;
    return 0;
}

static int close_place(void **state)
{
    place *p = *state;
    if (p) {
        hal_device_destroy(p->device);
        unlink(p->path);
        rmdir(p->folder);
    }
    unsetenv("HAL_TUNING");
    return 0;
}

static place *here(void **state)
{
    if (!*state)
        skip();
    return *state;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static hal_tuned_shape asked(uint32_t m, uint32_t n, uint32_t k)
{
    return (hal_tuned_shape){.dtype = HAL_F32, .m = m, .n = n, .k = k, .batch = 1};
}

/* A tuning of the device, or its family, that is told by the depth of its tile. */
static void note(place *p, bool family, uint64_t m, uint64_t n, uint64_t k, uint32_t mark)
{
    hal_tuning t = {.dtype = HAL_F32, .m = m, .n = n, .k = k, .batch = 1, .choice = {"gemm_task", 8, 8, mark}};
    const hal_device_info *info = hal_device_get_info(p->device);
    snprintf(t.device, sizeof t.device, "%.*s", family ? 4 : 127, info->name);
    snprintf(t.driver, sizeof t.driver, "%s", family ? "*" : info->driver);
    OK(hal_tuning_note(p->device, &t));
}

/* The mark of what answers; 0: nothing does. */
static uint32_t found(place *p, hal_tuned_shape shape)
{
    gemm_choice choice;
    const bool first = hal_tuning_find(p->device, &shape, &choice);
    const uint32_t mark = first ? choice.tile_k : 0;
    assert_true(hal_tuning_find(p->device, &shape, &choice) == first); /* from the memo */
    assert_int_equal(first ? choice.tile_k : 0, mark);
    return mark;
}

static void lookup(void **state)
{
    place *p = here(state);
    hal_tuning t;
    open_device(p, "");
    assert_int_equal(found(p, asked(100, 100, 100)), 0);
    note(p, true, 100, 100, 100, 16);
    assert_int_equal(found(p, asked(100, 100, 100)), 16);
    assert_int_equal(found(p, asked(200, 50, 100)), 16);
    assert_int_equal(found(p, asked(201, 100, 100)), 0);
    assert_int_equal(found(p, asked(100, 49, 100)), 0);
    assert_int_equal(found(p, asked(100, 100, 201)), 0);
    hal_tuned_shape other = asked(100, 100, 100);
    other.batch = 3;
    assert_int_equal(found(p, other), 0);
    other.batch = 2;
    assert_int_equal(found(p, other), 16);
    other.trans_a = true;
    assert_int_equal(found(p, other), 0);
    other = asked(100, 100, 100);
    other.trans_b = true;
    assert_int_equal(found(p, other), 0);
    other.trans_b = false;
    other.dtype = HAL_F16;
    assert_int_equal(found(p, other), 0);
    other.dtype = HAL_F32;
    other.op = HAL_TUNED_ATTENTION;
    assert_int_equal(found(p, other), 0);
    other.op = HAL_TUNED_GEMM;
    assert_false(hal_tuning_exact(p->device, &other, &t)); /* only the family's */
    note(p, false, 150, 100, 100, 32);                     /* the device's own, though farther away */
    assert_int_equal(found(p, asked(100, 100, 100)), 32);
    assert_int_equal(found(p, asked(60, 100, 100)), 16); /* but not too far */
    note(p, false, 110, 100, 100, 48);                   /* the nearest */
    assert_int_equal(found(p, asked(100, 100, 100)), 48);
    assert_int_equal(found(p, asked(149, 100, 100)), 32);
    note(p, false, 100, 100, 100, 64); /* the very shape */
    assert_int_equal(found(p, asked(100, 100, 100)), 64);
    note(p, false, 100, 100, 100, 80); /* in its place */
    assert_int_equal(found(p, asked(100, 100, 100)), 80);
    assert_true(hal_tuning_exact(p->device, &other, &t) && t.choice.tile_k == 80);
    other.m = 101;
    assert_false(hal_tuning_exact(p->device, &other, &t));
    OK(hal_tuning_clear(p->device));
    assert_int_equal(found(p, asked(100, 100, 100)), 0);
}

/* Others' tunings do not answer, but are kept. Merged by loading two files: the later counts. */
static void files(void **state)
{
    place *p = here(state);
    char second[96];
    snprintf(second, sizeof second, "%s/second.json", p->folder);
    open_device(p, p->folder);
    OK(hal_tuning_note(p->device, &sample));
    note(p, false, 100, 100, 100, 16);
    OK(hal_tuning_save(p->device, NULL));
    struct stat info;
    assert_int_equal(stat(p->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    const ino_t before = info.st_ino;
    note(p, false, 100, 100, 100, 32);
    note(p, false, 300, 100, 100, 48);
    OK(hal_tuning_save(p->device, second));
    OK(hal_tuning_clear(p->device));
    OK(hal_tuning_load(p->device, second));
    assert_int_equal(found(p, asked(100, 100, 100)), 32);
    OK(hal_tuning_load(p->device, NULL)); /* the cache folder's */
    assert_int_equal(found(p, asked(100, 100, 100)), 16);
    assert_int_equal(found(p, asked(300, 100, 100)), 48);
    OK(hal_tuning_save(p->device, p->path));
    assert_int_equal(stat(p->path, &info), 0);
    assert_true(info.st_ino != before); /* renamed into its place, not written over */
    unlink(second);
    hal_device_destroy(p->device);
    open_device(p, p->folder); /* loaded by itself */
    assert_int_equal(found(p, asked(300, 100, 100)), 48);
    FILE *file = fopen(p->path, "r");
    char text[8192] = "";
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(text, "A \\\"device\\\""));
    assert_null(strstr(text, "H100")); /* what libhal ships is not copied */
}

/* Read at the first use; a file that is no good is one warning, and the rules choose. */
static void environment(void **state)
{
    place *p = here(state);
    static const char good[] = HEAD "{" NAMES "\"m\": 100, \"n\": 100, \"k\": 100, \"batch\": 1," CHOICE "}]}";
    char text[sizeof good + 200], *at = strstr(good, "\"x\"");
    open_device(p, "");
    snprintf(text, sizeof text, "%.*s\"%.4s%s", (int)(at - good), good, hal_device_get_info(p->device)->name, at + 2);
    hal_device_destroy(p->device);
    put(p->path, text);
    setenv("HAL_TUNING", p->path, 1);
    open_device(p, "");
    assert_int_equal(found(p, asked(100, 100, 100)), 16);
    assert_string_equal(p->warning, "");
    hal_device_destroy(p->device);
    setenv("HAL_TUNING", "", 1); /* none, though the cache has one */
    open_device(p, p->folder);
    assert_int_equal(found(p, asked(100, 100, 100)), 0);
    assert_int_equal(hal_tuning_load(p->device, NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "HAL_TUNING"));
    hal_device_destroy(p->device);
    put(p->path, "{}");
    setenv("HAL_TUNING", p->path, 1);
    open_device(p, "");
    assert_int_equal(found(p, asked(100, 100, 100)), 0);
    assert_non_null(strstr(p->warning, "not tunings of version 1"));
    hal_device_destroy(p->device);
    unlink(p->path); /* named, and not there */
    open_device(p, "");
    assert_int_equal(found(p, asked(100, 100, 100)), 0);
    assert_non_null(strstr(p->warning, p->path));
    assert_non_null(strstr(p->warning, strerror(ENOENT)));
}

static void misuse(void **state)
{
    place *p = here(state);
    char pipe[96];
    open_device(p, "");
    assert_int_equal(hal_tuning_load(NULL, p->path), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "hal_tuning_load"));
    assert_int_equal(hal_tuning_save(NULL, p->path), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_tuning_clear(NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_tuning_load(p->device, p->path), HAL_ERROR_NOT_FOUND);
    assert_non_null(strstr(hal_last_error(), p->path));
    assert_int_equal(hal_tuning_load(p->device, NULL), HAL_ERROR_INVALID_ARGUMENT); /* no cache folder */
    assert_int_equal(hal_tuning_save(p->device, NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "no cache folder"));
    assert_int_equal(hal_tuning_load(p->device, p->folder), HAL_ERROR_IO);
    assert_int_equal(hal_tuning_save(p->device, "/dev/null/tuning.json"), HAL_ERROR_IO);
    snprintf(pipe, sizeof pipe, "%s/pipe", p->folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(hal_tuning_load(p->device, pipe), HAL_ERROR_IO); /* and does not wait for a writer */
    struct stat info;
    assert_int_equal(hal_tuning_save(p->device, pipe), HAL_ERROR_IO);
    assert_int_equal(stat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode)); /* nor takes its place */
    unlink(pipe);
    int file = open(p->path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(file, (1 << 24) + 1), 0);
    close(file);
    assert_int_equal(hal_tuning_load(p->device, p->path), HAL_ERROR_IO);
}

static void full(void **state)
{
    place *p = here(state);
    hal_tuning t = sample;
    hal_status status = HAL_OK;
    open_device(p, "");
    OK(hal_tuning_clear(p->device));
    for (uint32_t i = 0; i < HAL_MOST_TUNINGS; i++) {
        t.m = i + 1;
        OK(hal_tuning_note(p->device, &t));
    }
    OK(hal_tuning_note(p->device, &t)); /* known */
    t.m++;
    status = hal_tuning_note(p->device, &t);
    assert_int_equal(status, HAL_ERROR_LIMIT);
    OK(hal_tuning_save(p->device, p->path)); /* and what is saved can be read */
    OK(hal_tuning_clear(p->device));
    OK(hal_tuning_load(p->device, p->path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(hostile),
        cmocka_unit_test(too_many),
        cmocka_unit_test_setup_teardown(lookup, open_place, close_place),
        cmocka_unit_test_setup_teardown(files, open_place, close_place),
        cmocka_unit_test_setup_teardown(environment, open_place, close_place),
        cmocka_unit_test_setup_teardown(misuse, open_place, close_place),
        cmocka_unit_test_setup_teardown(full, open_place, close_place),
    };
    return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
