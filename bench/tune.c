/* tune.c - hal-bench tune: which kernel and tile a device multiplies fastest with, and in how many splits it attends to
 * many keys, for the shapes of a workload. The
 * file is saved after each shape, so that an interrupted run goes on where it was. */
#include "tune.h"

#include "table.h"

#include <cjson/cJSON.h>
#include <hal/tune.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHAPES = 256, MOST_FILE = 1 << 20 };

typedef struct shape {
    bool attention;
    uint64_t m, n, k;                                          /* of a product */
    uint64_t q_length, kv_length, q_heads, kv_heads, head_dim; /* of an attention */
    uint64_t batch, count;
    hal_dtype dtype;
    bool trans_b;
    bool done, skipped; /* measured now; known before */
    char note[200];     /* why it could not be */
    hal_tune_result result;
} shape;

typedef struct workload {
    shape shapes[MOST_SHAPES];
    uint32_t count;
} workload;

/* Workload */

static bool refuse(const char *path, const char *what)
{
    fprintf(stderr, "hal-bench: --workload: %.200s: %s\n", path, what);
    return false;
}

static bool read_count(const cJSON *item, const char *name, uint64_t fallback, uint64_t *value)
{
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, name);
    *value = fallback;
    if (!number)
        return fallback > 0;
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 1 && number->valuedouble <= 1 << 24))
        return false;
    *value = (uint64_t)number->valuedouble;
    return (double)*value == number->valuedouble;
}

static bool read_product(const cJSON *item, shape *s)
{
    const cJSON *trans_b = cJSON_GetObjectItemCaseSensitive(item, "trans_b");
    s->trans_b = cJSON_IsTrue(trans_b);
    return (!trans_b || cJSON_IsBool(trans_b)) && read_count(item, "m", 0, &s->m) && read_count(item, "n", 0, &s->n) &&
           read_count(item, "k", 0, &s->k);
}

static bool read_attention(const cJSON *item, shape *s)
{
    return read_count(item, "q_heads", 0, &s->q_heads) && read_count(item, "kv_heads", s->q_heads, &s->kv_heads) &&
           read_count(item, "head_dim", 0, &s->head_dim) && read_count(item, "q_length", 1, &s->q_length) &&
           read_count(item, "kv_length", 0, &s->kv_length) && read_count(item, "batch", 1, &s->batch);
}

static bool read_shape(const cJSON *item, shape *s)
{
    static const hal_dtype dtypes[] = {HAL_F32, HAL_F16, HAL_BF16};
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(item, "op");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    *s = (shape){.dtype = HAL_DTYPE_DEFAULT};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (name ? !strcmp(name, hal_dtype_name(dtypes[i])) : i == 0)
            s->dtype = dtypes[i];
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    s->attention = cJSON_IsString(op) && !strcmp(op->valuestring, "attention");
    return (!dtype || name) && (!op || s->attention || (cJSON_IsString(op) && !strcmp(op->valuestring, "gemm"))) &&
           s->dtype != HAL_DTYPE_DEFAULT && (s->attention ? read_attention(item, s) : read_product(item, s)) &&
           read_count(item, "count", 1, &s->count);
}

static bool read_workload(const char *path, workload *w)
{
    size_t size;
    char error[400], what[200], *text = bench_file_read(path, MOST_FILE, &size, error, sizeof error);
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    const cJSON *shapes = cJSON_GetObjectItemCaseSensitive(root, "shapes"), *item;
    bool good = cJSON_IsArray(shapes) && cJSON_GetArraySize(shapes) >= 1;
    if (!text)
        fprintf(stderr, "hal-bench: --workload: %s\n", error);
    else if (!good)
        refuse(path, "no JSON object with an array \"shapes\"");
    cJSON_ArrayForEach(item, shapes)
    {
        if (!good)
            break;
        good = w->count < MOST_SHAPES && read_shape(item, &w->shapes[w->count]);
        snprintf(
            what, sizeof what,
            "shape %u: wants m, n, k and may have trans_b, or op attention, q_heads, head_dim, kv_length and may have "
            "kv_heads, q_length, batch; dtype, count; at most %d",
            w->count, MOST_SHAPES);
        if (!good)
            refuse(path, what);
        w->count += good;
    }
    cJSON_Delete(root);
    free(text);
    return good;
}

/* A decoder layer: Qwen3-8B's on GPUs (its config.json), a quarter of its width on CPU devices; the products of its
 * feed-forward part for one token, a few, and a prompt, and a token's attention. */
static void default_workload(const bench_device *device, workload *w)
{
    static const uint64_t rows[] = {1, 16, 256};
    const bool cpu = device->info.type == HAL_DEVICE_CPU;
    const uint64_t hidden = cpu ? 1024 : 4096, inner = 3 * hidden;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int down = 0; down < 2; down++)
            w->shapes[w->count++] = (shape){.m = rows[i],
                                            .n = down ? hidden : inner,
                                            .k = down ? inner : hidden,
                                            .count = down ? 1 : 2,
                                            .dtype = cpu ? HAL_F32 : HAL_BF16};
    w->shapes[w->count++] = (shape){.attention = true,
                                    .q_heads = cpu ? 8 : 32,
                                    .kv_heads = cpu ? 2 : 8,
                                    .head_dim = 128,
                                    .q_length = 1,
                                    .kv_length = 4096,
                                    .batch = 1,
                                    .count = 1,
                                    .dtype = cpu ? HAL_F32 : HAL_BF16};
}

static const char *name_of(const shape *s, char text[96])
{
    if (s->attention)
        snprintf(text, 96, "attention %llux%llu/%llux%llu, %llux%llu keys", (unsigned long long)s->batch,
                 (unsigned long long)s->q_heads, (unsigned long long)s->kv_heads, (unsigned long long)s->head_dim,
                 (unsigned long long)s->q_length, (unsigned long long)s->kv_length);
    else
        snprintf(text, 96, "%llux%llux%llu%s", (unsigned long long)s->m, (unsigned long long)s->n,
                 (unsigned long long)s->k, s->trans_b ? " nt" : "");
    return text;
}

/* Products and sums of a call, up to a factor. */
static double work_of(const shape *s)
{
    return s->attention ? 2 * (double)s->batch * (double)s->q_heads * (double)s->q_length * (double)s->kv_length *
                              (double)s->head_dim
                        : (double)s->m * (double)s->n * (double)s->k;
}

/* What takes longest in all comes first. */
static int by_work(const void *x, const void *y)
{
    const shape *a = x, *b = y;
    const double work_a = (double)a->count * work_of(a), work_b = (double)b->count * work_of(b);
    return (work_a < work_b) - (work_a > work_b);
}

/* Tuning */

typedef struct tuning {
    bench_run *run;
    const bench_device *device;
    const shape *now;
    uint32_t index, count;
} tuning;

static bool on_progress(void *user, hal_tune_stage stage, uint32_t index, uint32_t count)
{
    char name[96];
    tuning *t = user;
    t->run->step = t->index;
    t->run->steps = t->count;
    bench_progress(t->run, "%s: %s %s, %s %u of %u", t->device->select, name_of(t->now, name),
                   hal_dtype_name(t->now->dtype), stage == HAL_TUNE_CHECK ? "checking" : "timing", index + 1, count);
    return !bench_interrupted();
}

static hal_status tune_shape(tuning *t, hal_device *device, shape *s)
{
    const bench_options *o = t->run->options;
    const hal_gemm_desc *gemm = HAL_GEMM(.m = s->m, .n = s->n, .k = s->k, .dtype = s->dtype, .trans_b = s->trans_b);
    const hal_attention_desc *attention =
        HAL_ATTENTION(.batch = s->batch, .q_heads = (uint32_t)s->q_heads, .kv_heads = (uint32_t)s->kv_heads,
                      .head_dim = (uint32_t)s->head_dim, .q_length = s->q_length, .kv_length = s->kv_length,
                      .dtype = s->dtype);
    const hal_tune_desc *desc =
        HAL_TUNE(.gemm = s->attention ? NULL : gemm, .attention = s->attention ? attention : NULL,
                 .seconds = o->quick ? 0.05 : o->seconds, .progress = on_progress, .user = t);
    s->result.struct_size = sizeof s->result;
    hal_status status = hal_tune_known(device, desc, &s->skipped, &s->result);
    s->skipped = s->skipped && !o->again;
    if (status == HAL_OK && !s->skipped) {
        status = hal_tune(device, desc, &s->result);
        s->done = status == HAL_OK;
    }
    if (status != HAL_OK && status != HAL_TIMEOUT)
        snprintf(s->note, sizeof s->note, "%.190s", hal_last_error());
    return status;
}

/* false: the device or the file cannot be used. */
static bool tune_device(bench_run *run, const bench_device *device, workload *w)
{
    hal_device *opened;
    tuning t = {.run = run, .device = device, .count = w->count};
    if (bench_device_open(device, &opened) != HAL_OK) {
        fprintf(stderr, "hal-bench: %s\n", hal_last_error());
        return false;
    }
    const char *output = run->options->output;
    bool good = true;
    if (output) {
        const hal_status status = hal_tuning_load(opened, output);
        good = status == HAL_OK || status == HAL_ERROR_NOT_FOUND;
    }
    for (uint32_t i = 0; good && i < w->count && !bench_interrupted(); i++) {
        t.now = &w->shapes[i];
        t.index = i;
        const hal_status status = tune_shape(&t, opened, &w->shapes[i]);
        run->failed = run->failed || (status != HAL_OK && status != HAL_TIMEOUT);
        if (w->shapes[i].done)
            good = hal_tuning_save(opened, output) == HAL_OK;
    }
    if (!good)
        fprintf(stderr, "hal-bench: %s\n", hal_last_error());
    bench_progress_clear();
    hal_device_destroy(opened);
    return good;
}

/* Reports */

static void print_shapes(const bench_run *run, const bench_device *device, const workload *w)
{
    char before[24], after[24], name[96];
    double sum_before = 0, sum_after = 0;
    bench_table *table =
        bench_table_create("<shape|<type|count|<by rule|time|<chosen|time|gain|candidates|pruned|wrong|<");
    for (uint32_t i = 0; i < w->count; i++) {
        const shape *s = &w->shapes[i];
        const hal_tune_result *r = &s->result;
        if (!s->done && !s->skipped && !*s->note)
            continue; /* interrupted before */
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", name_of(s, name));
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", hal_dtype_name(s->dtype));
        bench_table_cell(table, BENCH_TONE_PLAIN, "%llu", (unsigned long long)s->count);
        bench_table_cell(table, BENCH_TONE_DIM, "%s", *r->rule ? r->rule : "-");
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", *s->note ? "-" : bench_format_ns(r->rule_us * 1e3, before));
        bench_table_cell(table, r->changed ? BENCH_TONE_GOOD : BENCH_TONE_PLAIN, "%s", *s->note ? "-" : r->choice);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", *s->note ? "-" : bench_format_ns(r->us * 1e3, after));
        bench_table_cell(table, BENCH_TONE_PLAIN, *s->note ? "-" : "%.2f", r->rule_us / r->us);
        bench_table_cell(table, BENCH_TONE_PLAIN, s->done ? "%u" : "-", r->candidates);
        bench_table_cell(table, BENCH_TONE_PLAIN, s->done ? "%u" : "-", r->pruned);
        bench_table_cell(table, r->wrong ? BENCH_TONE_BAD : BENCH_TONE_PLAIN, s->done ? "%u" : "-", r->wrong);
        bench_table_cell(table, BENCH_TONE_DIM, "%s",
                         *s->note     ? s->note
                         : s->skipped ? "known; --again measures it"
                                      : "");
        sum_before += *s->note ? 0 : (double)s->count * r->rule_us;
        sum_after += *s->note ? 0 : (double)s->count * r->us;
    }
    fprintf(run->out, "\n%s (%s) tuned\n", device->select, device->info.name);
    bench_table_print(table, run->out, run->colour);
    bench_table_destroy(table);
    if (sum_after > 0)
        fprintf(run->out, "all calls of the workload: %s by the rules, %s as chosen: %.2fx\n",
                bench_format_ns(sum_before * 1e3, before), bench_format_ns(sum_after * 1e3, after),
                sum_before / sum_after);
}

static void add_sizes(cJSON *item, const shape *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } product[] = {{"m", s->m}, {"n", s->n}, {"k", s->k}},
      attention[] = {{"batch", s->batch},       {"q_heads", s->q_heads},   {"kv_heads", s->kv_heads},
                     {"head_dim", s->head_dim}, {"q_length", s->q_length}, {"kv_length", s->kv_length}};
    const size_t count = s->attention ? sizeof attention / sizeof attention[0] : sizeof product / sizeof product[0];
    for (size_t i = 0; i < count; i++)
        cJSON_AddNumberToObject(item, s->attention ? attention[i].name : product[i].name,
                                (double)(s->attention ? attention[i].value : product[i].value));
}

static void add_shapes(cJSON *results, const bench_device *device, const workload *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        const shape *s = &w->shapes[i];
        if (!s->done && !s->skipped)
            continue;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "kind", "tune");
        cJSON_AddStringToObject(item, "backend", device->info.backend);
        cJSON_AddStringToObject(item, "device", device->info.name);
        cJSON_AddStringToObject(item, "op", s->attention ? "attention" : "gemm");
        cJSON_AddStringToObject(item, "dtype", hal_dtype_name(s->dtype));
        add_sizes(item, s);
        cJSON_AddNumberToObject(item, "count", (double)s->count);
        cJSON_AddStringToObject(item, "choice", s->result.choice);
        cJSON_AddNumberToObject(item, "us", s->result.us);
        cJSON_AddNumberToObject(item, "rule_us", s->result.rule_us);
        cJSON_AddBoolToObject(item, "changed", s->result.changed);
        cJSON_AddBoolToObject(item, "known", s->skipped);
        cJSON_AddNumberToObject(item, "candidates", s->result.candidates);
        cJSON_AddNumberToObject(item, "pruned", s->result.pruned);
        cJSON_AddNumberToObject(item, "wrong", s->result.wrong);
        cJSON_AddNumberToObject(item, "dropped", s->result.dropped);
        cJSON_AddItemToArray(results, item);
    }
}

static void write_json(bench_run *run, const cJSON *root)
{
    char error[400] = "out of memory", *text = cJSON_Print(root);
    if (!text || !bench_file_write(run->options->json, text, error, sizeof error)) {
        fprintf(stderr, "hal-bench: %s\n", error);
        run->failed = true;
    }
    cJSON_free(text);
}

int bench_tune(bench_run *run)
{
    const bench_options *o = run->options;
    workload *given = calloc(1, sizeof *given), *w = calloc(1, sizeof *w);
    int code = !given || !w || (o->workload && !read_workload(o->workload, given)) ? 2 : bench_devices_choose(run);
    cJSON *root = cJSON_CreateObject(), *results = cJSON_AddArrayToObject(root, "results");
    cJSON_AddNumberToObject(root, "schema", 1);
    bench_interrupt_install();
    for (uint32_t i = 0; !code && i < run->device_count && !bench_interrupted(); i++) {
        *w = *given;
        if (!o->workload)
            default_workload(&run->devices[i], w);
        qsort(w->shapes, w->count, sizeof w->shapes[0], by_work);
        code = tune_device(run, &run->devices[i], w) ? 0 : 1;
        print_shapes(run, &run->devices[i], w);
        add_shapes(results, &run->devices[i], w);
    }
    free(given);
    free(w);
    if (o->json && code != 2)
        write_json(run, root);
    cJSON_Delete(root);
    if (bench_interrupted())
        fputs("\ninterrupted; the shapes that are done are saved, and a second run goes on from there\n", run->out);
    return bench_interrupted() ? 130 : code ? code : run->failed;
}
