/* unit.c - the parts of hal-bench that need no device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attention.h"
#include "gemm.h"
#include "report.h"
#include "stats.h"
#include "table.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-9 * fmax(1, fabs(want))))
        fail_msg("got %.12g, want %.12g", got, want);
}

static void median_and_quartiles(void **state)
{
    (void)state;
    const double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
    near(bench_median(odd, 3), 3);
    near(bench_median(even, 4), 2.5);
    near(bench_median(one, 1), 7);
    near(bench_quantile(even, 4, 0.25), 1.75);
    near(bench_quantile(even, 4, 0), 1);
    near(bench_quantile(even, 4, 1), 4);
    assert_true(isnan(bench_median(odd, 0)));
    near(odd[0], 5); /* the caller's samples keep their order */
}

static bool parse(bench_options *options, const char *line, char *error, size_t size)
{
    static char copy[300];
    char *words[20] = {(char *)"hal-bench"};
    int count = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    return bench_options_parse(options, count, words, error, size);
}

static void arguments(void **state)
{
    (void)state;
    bench_options options;
    char error[300];
    assert_true(parse(&options, "", error, sizeof error));
    assert_int_equal(options.command, BENCH_SUITE);
    assert_int_equal(options.rounds, 21);
    assert_true(parse(&options, "--quick", error, sizeof error));
    assert_int_equal(options.rounds, 3);
    assert_true(
        parse(&options, "gemm --m 7 --n=8 --k 9 --dtype BF16 --backend opencl,vulkan:0 --json -", error, sizeof error));
    assert_int_equal(options.command, BENCH_GEMM);
    assert_true(options.m == 7 && options.n == 8 && options.k == 9 && options.has_dtype && options.dtype == HAL_BF16);
    assert_string_equal(options.backends, "opencl,vulkan:0");
    assert_string_equal(options.json, "-");
    assert_true(parse(&options, "devices --json", error, sizeof error));
    assert_string_equal(options.json, "-");
    assert_true(parse(&options, "overhead --json --quick", error, sizeof error));
    assert_true(options.quick && !strcmp(options.json, "-"));
    assert_true(parse(&options, "replay --help", error, sizeof error));
    assert_true(options.command == BENCH_HELP && options.help_for == BENCH_REPLAY);
    assert_true(parse(&options, "activation --op gelu --rows 3 --columns 5", error, sizeof error));
    assert_true(options.command == BENCH_ACTIVATION && options.rows == 3 && options.columns == 5);
    assert_true(!options.has_dtype && !strcmp(options.op, "gelu"));
    assert_true(parse(&options, "transpose --perm 0,2,1 --shape 8x128x64", error, sizeof error));
    const bench_permutation *shape = &options.permutation;
    assert_true(shape->rank == 3 && shape->dims[0] == 8 && shape->dims[1] == 128 && shape->dims[2] == 64);
    assert_true(shape->perm[0] == 0 && shape->perm[1] == 2 && shape->perm[2] == 1);
    assert_true(parse(&options, "transpose --shape 3x5", error, sizeof error));
    assert_true(shape->perm[0] == 1 && shape->perm[1] == 0);
    assert_true(parse(&options, "attention --batch 2 --q-heads 6 --kv-heads 3 --head-dim 64 --q-len 5 --kv-len 9",
                      error, sizeof error));
    const bench_heads *heads = &options.heads;
    assert_true(heads->batch == 2 && heads->q_heads == 6 && heads->kv_heads == 3 && heads->head_dim == 64);
    assert_true(heads->q_len == 5 && heads->kv_len == 9 && !heads->causal && heads->page_size == 0);
    assert_true(parse(&options, "attention --causal --page-size 16", error, sizeof error));
    assert_true(heads->causal && heads->page_size == 16);
    assert_true(parse(&options, "help gemm", error, sizeof error));
    assert_true(options.command == BENCH_HELP && options.help_for == BENCH_GEMM);
    assert_true(parse(&options, "-V", error, sizeof error));
    assert_int_equal(options.command, BENCH_VERSION);
}

static void wrong_arguments(void **state)
{
    (void)state;
    static const char *const lines[][2] = {{"gemn", "\"gemn\""},
                                           {"--jsn x", "--jsn"},
                                           {"gemm --m", "--m"},
                                           {"gemm --m -1", "\"-1\""},
                                           {"gemm --m 1e9", "\"1e9\""},
                                           {"gemm --m 99999999999999999999", "--m"},
                                           {"gemm --dtype f64", "f64"},
                                           {"replay --n 3", "--n"},
                                           {"overhead --rounds 2", "\"2\""},
                                           {"overhead extra", "extra"},
                                           {"gemm --rows 3", "--rows"},
                                           {"activation --op sil", "\"sil\""},
                                           {"activation --op", "--op"},
                                           {"--op silu", "--op"},
                                           {"activation --columns 0", "--columns"},
                                           {"transpose --shape 3x", "\"3x\""},
                                           {"transpose --shape 3x0", "3x0"},
                                           {"transpose --shape 1x1x1x1x1x1x1x1x1", "--shape"},
                                           {"transpose --perm 1,0", "--perm"},
                                           {"transpose --shape 2x3 --perm 1,1", "1,1"},
                                           {"transpose --shape 2x3 --perm 1,2", "1,2"},
                                           {"transpose --shape 2x3 --perm 0", "\"0\""},
                                           {"transpose --rows 3", "--rows"},
                                           {"attention --q-heads 5 --kv-heads 2", "multiple"},
                                           {"attention --head-dim 257", "257"},
                                           {"attention --page-size 0", "\"0\""}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        bench_options options;
        char error[300] = "";
        if (parse(&options, lines[i][0], error, sizeof error))
            fail_msg("\"%s\" is accepted", lines[i][0]);
        if (!strstr(error, lines[i][1]))
            fail_msg("\"%s\": the message \"%s\" does not say %s", lines[i][0], error, lines[i][1]);
    }
}

static void aligned_table(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    bench_table *table = bench_table_create("<name|count|<last");
    bench_table_cell(table, BENCH_TONE_PLAIN, "a");
    bench_table_cell(table, BENCH_TONE_GOOD, "%d", 12345678);
    bench_table_cell(table, BENCH_TONE_PLAIN, "x");
    bench_table_cell(table, BENCH_TONE_PLAIN, "caf\xc3\xa9s");
    bench_table_cell(table, BENCH_TONE_PLAIN, "1");
    bench_table_cell(table, BENCH_TONE_PLAIN, "yy");
    bench_table_print(table, out, false);
    fclose(out);
    assert_string_equal(text, "name      count  last\n"
                              "a      12345678  x\n"
                              "caf\xc3\xa9s         1  yy\n");
    bench_table_destroy(table);
    free(text);
}

static void times(void **state)
{
    (void)state;
    char text[24];
    assert_string_equal(bench_format_ns(0, text), "0 ns");
    assert_string_equal(bench_format_ns(999, text), "999 ns");
    assert_string_equal(bench_format_ns(1234, text), "1.23 us");
    assert_string_equal(bench_format_ns(45678, text), "45.7 us");
    assert_string_equal(bench_format_ns(2.5e9, text), "2.50 s");
    assert_string_equal(bench_format_ns(NAN, text), "-");
}

static void published_peaks(void **state)
{
    (void)state;
    near(bench_peak_find("NVIDIA H100 80GB HBM3", HAL_BF16).gflops, 989400);
    near(bench_peak_find("NVIDIA H100 PCIe", HAL_BF16).gbps, 2000);
    near(bench_peak_find("NVIDIA H200", HAL_F32).gbps, 4800);
    near(bench_peak_find("NVIDIA GH200 480GB", HAL_F16).gbps, 4000);
    assert_true(isnan(bench_peak_find("Tesla T4", HAL_BF16).gflops));
    assert_true(isnan(bench_peak_find("NVIDIA XH2000", HAL_F32).gflops));
}

static void product(const bench_problem *problem, float *result)
{
    for (uint64_t row = 0; row < problem->m; row++)
        for (uint64_t column = 0; column < problem->n; column++) {
            float sum = 0;
            for (uint64_t i = 0; i < problem->k; i++)
                sum += problem->a->values[row * problem->k + i] * problem->b->values[i * problem->n + column];
            result[row * problem->n + column] = sum;
        }
}

static double worst_share(const bench_problem *problem, const float *result)
{
    bench_worst worst = {0};
    bench_gemm_check(problem, result, &worst);
    return worst.share;
}

static void gemm_bound(void **state)
{
    (void)state;
    bench_operand_data a = {0}, b = {0};
    assert_true(bench_operand_create(&a, (uint64_t)9 * 300, HAL_F32, 1, 1));
    assert_true(bench_operand_create(&b, (uint64_t)300 * 11, HAL_F32, 2, 1));
    bench_problem problem = {.m = 9, .n = 11, .k = 300, .dtype = HAL_F32, .a = &a, .b = &b};
    float result[9 * 11];
    assert_non_null(a.values);
    assert_non_null(b.values);
    product(&problem, result);
    assert_true(worst_share(&problem, result) < 0.5);
    /* One product left out of one sum must show, and so must a NaN. */
    result[50] -= a.values[4 * 300 + 7] * b.values[7 * 11 + 6];
    assert_true(worst_share(&problem, result) > 1);
    product(&problem, result);
    result[98] = NAN;
    assert_true(worst_share(&problem, result) > 1);
    bench_operand_destroy(&a);
    bench_operand_destroy(&b);
}

static void worst_errors(void **state)
{
    (void)state;
    bench_worst worst = {0};
    bench_worst_note(&worst, 1, 1, 0); /* exact where it must be */
    near(worst.share, 0);
    bench_worst_note(&worst, 1.5, 1, 2);
    bench_worst_note(&worst, 10, 9, 8);
    near(worst.error, 0.5);
    near(worst.bound, 2);
    bench_worst_note(&worst, 1, 0, 0);
    assert_true(worst.share > 1);
    worst = (bench_worst){0};
    bench_worst_note(&worst, NAN, 1, 1);
    assert_true(worst.share > 1);
    assert_true(bench_sample(7, 0) == 0 && bench_sample(7, 1) == 6 && bench_sample(7, 2) < 7);
}

/* Each word of --op is a case of the table, and sizes and dtypes take the place of the table's. */
static void operator_cases(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "activation --op silu", "activation --op gelu", "activation --op gelu_tanh", "activation --op sigmoid",
        "activation --op relu", "activation --op add",  "activation --op multiply",  "activation --op swiglu"};
    bench_options options;
    char error[300];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_true(parse(&options, lines[i], error, sizeof error));
        uint32_t (*steps)(const bench_options *options) = options.command == BENCH_ACTIVATION ? bench_activation_steps
                                                          : options.command == BENCH_SOFTMAX  ? bench_softmax_steps
                                                          : options.command == BENCH_RMSNORM  ? bench_rmsnorm_steps
                                                                                              : bench_quantize_steps;
        uint32_t cases = steps(&options);
        assert_true(cases > 0 && cases % 2 == 0); /* of two dtypes */
    }
    assert_true(parse(&options, "activation", error, sizeof error));
    assert_int_equal(bench_activation_steps(&options), 16);
    assert_true(parse(&options, "attention --page-size 16", error, sizeof error));
    assert_int_equal(bench_attention_steps(&options), 14); /* pages alone leave the table as it is */
    assert_true(parse(&options, "attention --q-len 1", error, sizeof error));
    assert_int_equal(bench_attention_steps(&options), 1);
    assert_true(parse(&options, "transpose --shape 3x5 --dtype f16", error, sizeof error));
    assert_int_equal(bench_transpose_steps(&options), 1);
    assert_true(parse(&options, "gemm", error, sizeof error));
    uint32_t all = bench_gemm_steps(&options);
    assert_true(parse(&options, "gemm --dtype f16", error, sizeof error));
    assert_int_equal(2 * bench_gemm_steps(&options), all);
    assert_true(parse(&options, "gemm --m 3", error, sizeof error));
    assert_int_equal(bench_gemm_steps(&options), 1);

    static const bench_matrix_case table[] = {
        {"one", 1, 100, 200, true, HAL_F32}, {"one", 1, 1, 9, false, HAL_F32}, {"two", 2, 100, 200, false, HAL_F32}};
    bench_matrix_case cases[BENCH_MAX_CASES];
    options = (bench_options){.command = BENCH_ACTIVATION};
    assert_int_equal(bench_matrix_cases(&options, table, 3, cases), 6);
    assert_true(cases[1].dtype == HAL_BF16 && cases[1].rows == 100);
    options.op = "one";
    assert_int_equal(bench_matrix_cases(&options, table, 3, cases), 4);
    options.columns = 5;
    assert_int_equal(bench_matrix_cases(&options, table, 3, cases), 1);
    assert_true(cases[0].rows == 100 && cases[0].columns == 5 && cases[0].dtype == HAL_F32);
    options = (bench_options){.command = BENCH_SUITE};
    assert_int_equal(bench_matrix_cases(&options, table, 3, cases), 1);
}

/* A plain FP32 attention is within the bound; a key too many is not. */
static void attention_bound(void **state)
{
    (void)state;
    enum { DIM = 16, QUERIES = 3, KEYS = 5, HEADS = 2 };
    bench_attention_problem problem = {.heads = {1, HEADS, 1, DIM, QUERIES, KEYS, 2, true}, .dtype = HAL_F32};
    float result[QUERIES * HEADS * DIM];
    assert_true(bench_attention_create(&problem));
    assert_int_equal(problem.page_columns, 3);
    for (uint64_t extra = 0; extra < 2; extra++) {
        for (uint64_t row = 0; row < (uint64_t)QUERIES * HEADS; row++) {
            float weights[KEYS], sum = 0;
            uint64_t keys = bench_attention_keys(&problem.heads, row / HEADS);
            assert_int_equal(keys, row / HEADS + 3);
            keys += row == 0 ? extra : 0;
            memset(result + row * DIM, 0, DIM * sizeof *result);
            for (uint64_t j = 0; j < keys; j++) {
                uint64_t place = ((2 - j / 2) * 2 + j % 2) * DIM; /* pages from last to first */
                float score = 0;
                for (uint64_t d = 0; d < DIM; d++)
                    score += problem.q.values[row * DIM + d] * problem.k.values[place + d];
                sum += weights[j] = expf(score * 0.25f);
                for (uint64_t d = 0; d < DIM; d++)
                    result[row * DIM + d] += weights[j] * problem.v.values[place + d];
            }
            for (uint64_t d = 0; d < DIM; d++)
                result[row * DIM + d] /= sum;
        }
        bench_worst worst = {0};
        bench_attention_check(&problem, result, &worst);
        assert_true(extra ? worst.share > 1 : worst.share < 1);
    }
    bench_attention_destroy(&problem);
}

static void host_limits(void **state)
{
    (void)state;
    for (bench_limit kind = BENCH_LIMIT_FMA; kind <= BENCH_LIMIT_READ; kind++) {
        bench_host_limit *limit = bench_host_limit_create(kind, 1 << 20, 2);
        assert_non_null(limit);
        double rate = bench_host_limit_measure(limit, 3);
        assert_true(rate > 0.001 && rate < 1e6);
        bench_host_limit_destroy(limit);
    }
}

static void json_of_operators(void **state)
{
    (void)state;
    bench_options options = {0};
    bench_run run = {.options = &options, .out = stdout};
    bench_device device = {.select = "vulkan:0"};
    bench_row *row = bench_row_add(&run, BENCH_ROW_OPERATOR, &device, "silu");
    row->op = "activation";
    row->floor = "copy";
    row->floor_rate = 20;
    row->peer_count = 2;
    row->peers[0].name = "first";
    row->peers[0].rate = 1;
    row->peers[0].ratio = 30;
    row->peers[1].name = "second";
    row->peers[1].rate = 10;
    row->peers[1].ratio = 3;
    char *text = bench_report_json(&run);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "results"), 0);
    const cJSON *floor = cJSON_GetObjectItemCaseSensitive(item, "floor");
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(item, "kind")->valuestring, "activation");
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(item, "peer")->valuestring, "first");
    near(cJSON_GetObjectItemCaseSensitive(item, "peer_ratio")->valuedouble, 30);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(item, "peers")), 2);
    near(cJSON_GetObjectItemCaseSensitive(floor, "rate")->valuedouble, 20);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "seconds")));
    cJSON_Delete(root);
    free(text);
    free(run.rows);
}

static void json_of_rows(void **state)
{
    (void)state;
    bench_options options = {0};
    bench_run run = {.options = &options, .out = stdout};
    bench_device device = {.select = "opencl:0"};
    snprintf(device.info.backend, sizeof device.info.backend, "opencl");
    snprintf(device.info.name, sizeof device.info.name, "a \"quoted\" device");
    bench_row *row = bench_row_add(&run, BENCH_ROW_OVERHEAD, &device, "immediate");
    row->libhal_ns = 12.5;
    char *text = bench_report_json(&run);
    cJSON *root = cJSON_Parse(text);
    assert_non_null(root);
    const cJSON *item = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "results"), 0);
    near(cJSON_GetObjectItemCaseSensitive(item, "libhal_ns")->valuedouble, 12.5);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(item, "raw_ns")));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(item, "device")->valuestring, "a \"quoted\" device");
    cJSON_Delete(root);
    free(text);
    free(run.rows);
}

static void whole_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/hal-bench-XXXXXX", path[64], error[300], text[8] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.json", folder);
    assert_true(bench_file_write(path, "one", error, sizeof error));
    assert_true(bench_file_write(path, "two", error, sizeof error));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "two");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else is left in it */
    assert_false(bench_file_write(path, "three", error, sizeof error));
    assert_non_null(strstr(error, path));
}

static void *sleep_until_unlocked(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

static void spread_threads(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[2];
    cpu_set_t all, own, cpus[2], both;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_until_unlocked, &lock), 0);
    bench_threads_spread();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_getaffinity_np(threads[i], sizeof cpus[i], &cpus[i]), 0);
        assert_int_equal(CPU_COUNT(&cpus[i]), 1);
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CPU_AND(&both, &cpus[0], &cpus[1]);
    assert_int_equal(CPU_COUNT(&both), 0);
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    assert_true(CPU_EQUAL(&own, &all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_and_quartiles), cmocka_unit_test(arguments),    cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(aligned_table),        cmocka_unit_test(times),        cmocka_unit_test(published_peaks),
        cmocka_unit_test(gemm_bound),           cmocka_unit_test(worst_errors), cmocka_unit_test(operator_cases),
        cmocka_unit_test(attention_bound),      cmocka_unit_test(host_limits),  cmocka_unit_test(json_of_operators),
        cmocka_unit_test(json_of_rows),         cmocka_unit_test(whole_files),  cmocka_unit_test(spread_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
