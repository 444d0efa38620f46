/* model_shapes.c - the topic shapes: programs that are prepared once and run often. */
#include "model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STRATEGIES = 64 };

typedef struct shapes {
    uint32_t count;
    hal_model_strategy times[MOST_STRATEGIES];
    const char *names[MOST_STRATEGIES];
    uint64_t *rows; /* of the calls of a run; NULL: the file has none */
    uint32_t row_count;
    double flop_per_row, peak_tflops;
} shapes;

/* "rows": [[8, 256], 1536, 2048] is eight calls of 256 rows and two more. */
static bool read_row(model_call *call, const cJSON *item, double *calls, double *rows)
{
    const bool pair = cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2;
    const cJSON *many = pair ? cJSON_GetArrayItem(item, 0) : NULL, *size = pair ? cJSON_GetArrayItem(item, 1) : item;
    *calls = pair && cJSON_IsNumber(many) ? many->valuedouble : pair ? 0 : 1;
    *rows = cJSON_IsNumber(size) ? size->valuedouble : 0;
    if (*calls >= 1 && *calls <= MODEL_MEMBERS && *rows >= 1 && *rows <= MODEL_WHOLE && *calls == floor(*calls) &&
        *rows == floor(*rows))
        return true;
    return model_refuse(call, "--file: \"rows\" takes numbers of rows, or [calls, rows], as whole numbers");
}

static bool read_rows(model_call *call, const cJSON *root, shapes *s)
{
    const cJSON *array, *item;
    double calls, rows;
    if (!cJSON_GetObjectItemCaseSensitive(root, "rows"))
        return true;
    if (!(array = model_file_array(call, root, "rows")) ||
        !model_file_number(call, root, "the file", "flop_per_row", false, 1, 1e18, &s->flop_per_row) ||
        !model_file_number(call, root, "the file", "peak_tflops", false, 1e-6, 1e9, &s->peak_tflops))
        return false;
    s->rows = calloc(MODEL_MEMBERS, sizeof *s->rows);
    if (!s->rows)
        return model_refuse(call, "--file: out of memory");
    cJSON_ArrayForEach(item, array)
    {
        if (!read_row(call, item, &calls, &rows))
            return false;
        if (s->row_count + calls > MODEL_MEMBERS)
            return model_refuse(call, "--file: \"rows\" has more than %d calls", MODEL_MEMBERS);
        for (uint32_t i = 0; i < (uint32_t)calls; i++)
            s->rows[s->row_count++] = (uint64_t)rows;
    }
    return true;
}

static bool read_buckets(model_call *call, const cJSON *object, const char *where, uint64_t buckets[MOST_STRATEGIES],
                         uint32_t *count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, "buckets"), *item;
    *count = 0;
    if (!array)
        return true;
    cJSON_ArrayForEach(item, array)
    {
        const double size = cJSON_IsNumber(item) ? item->valuedouble : 0;
        if (*count == MOST_STRATEGIES || !(size >= 1 && size <= MODEL_WHOLE) || size != floor(size))
            return model_refuse(call, "--file: %s.buckets takes at most %d whole numbers", where, MOST_STRATEGIES);
        buckets[(*count)++] = (uint64_t)size;
    }
    return true;
}

/* run_ms as given, or from rows (padded to buckets) and the share of the peak that is reached. */
static bool read_run(model_call *call, const cJSON *object, const char *where, const shapes *s, double *run_ms)
{
    uint64_t buckets[MOST_STRATEGIES], rows = 0;
    uint32_t count;
    double mfu = 0;
    if (cJSON_GetObjectItemCaseSensitive(object, "run_ms") || !s->rows)
        return model_file_number(call, object, where, "run_ms", false, 0, MODEL_TIME, run_ms);
    if (!model_file_number(call, object, where, "mfu", false, 1e-6, 1, &mfu) ||
        !read_buckets(call, object, where, buckets, &count) ||
        !model_check(call, "--file", hal_model_padded_rows(s->rows, s->row_count, buckets, count, &rows)))
        return false;
    *run_ms = hal_model_mfu_us((double)rows * s->flop_per_row, s->peak_tflops * 1e12, mfu) / 1e3;
    return true;
}

/* An answer names strategies: two of one name could not be told apart. */
static bool is_new(model_call *call, const shapes *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (!strcmp(s->names[i], name))
            return model_refuse(call, "--file: two strategies have the name \"%s\"", name);
    return true;
}

static bool read_shapes(model_call *call, const cJSON *root, shapes *s)
{
    const cJSON *array, *item;
    if ((cJSON_IsObject(root) &&
         !model_file_members(call, root, "the file", "strategies rows flop_per_row peak_tflops")) ||
        !read_rows(call, root, s) || !(array = model_file_array(call, root, "strategies")))
        return false;
    cJSON_ArrayForEach(item, array)
    {
        char where[40];
        if (s->count == MOST_STRATEGIES)
            return model_refuse(call, "--file: \"strategies\" has more than %d members", MOST_STRATEGIES);
        snprintf(where, sizeof where, "strategies[%u]", s->count);
        hal_model_strategy *times = &s->times[s->count];
        if (!model_file_members(call, item, where, "name prepare_ms run_ms mfu buckets") ||
            !(s->names[s->count] = model_file_name(call, item, where)) || !is_new(call, s, s->names[s->count]) ||
            !model_file_number(call, item, where, "prepare_ms", false, 0, MODEL_TIME, &times->prepare) ||
            !read_run(call, item, where, s, &times->run))
            return false;
        s->count++;
    }
    return true;
}

/* Every pair in which one is cheaper to prepare and the other to run. */
static void put_break_evens(cJSON *answer, const shapes *s)
{
    cJSON *array = cJSON_AddArrayToObject(answer, "break_evens");
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t j = 0; j < s->count; j++) {
            const double n = hal_model_break_even(s->times[i], s->times[j]);
            if (!(n > 0) || isinf(n))
                continue;
            cJSON *pair = cJSON_CreateObject();
            cJSON_AddStringToObject(pair, "from", s->names[i]);
            cJSON_AddStringToObject(pair, "to", s->names[j]);
            model_put_real(pair, "n", n);
            cJSON_AddItemToArray(array, pair);
        }
}

static void put_ranges(cJSON *answer, const shapes *s)
{
    hal_model_range ranges[MOST_STRATEGIES];
    uint32_t count = 0;
    cJSON *array = cJSON_AddArrayToObject(answer, "ranges");
    if (hal_model_ranges(s->times, s->count, ranges, &count) != HAL_OK)
        return;
    for (uint32_t i = 0; i < count; i++) {
        cJSON *range = cJSON_CreateObject();
        cJSON_AddStringToObject(range, "name", s->names[ranges[i].strategy]);
        model_put_real(range, "from", ranges[i].from);
        model_put_real(range, "to", ranges[i].to);
        cJSON_AddItemToArray(array, range);
    }
}

static void put_strategies(cJSON *answer, const shapes *s, bool at_n, double n)
{
    cJSON *array = cJSON_AddArrayToObject(answer, "strategies");
    for (uint32_t i = 0; i < s->count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "name", s->names[i]);
        model_put_real(one, "prepare_ms", s->times[i].prepare);
        model_put_real(one, "run_ms", s->times[i].run);
        if (at_n)
            model_put_real(one, "total_ms", hal_model_strategy_total(s->times[i], n));
        cJSON_AddItemToArray(array, one);
    }
}

static bool run_shapes(model_call *call)
{
    shapes s = {0};
    const double n = (double)model_count(call, "n");
    cJSON *root = model_file_load(call);
    const bool good = root && read_shapes(call, root, &s);
    if (good) {
        put_break_evens(call->answer, &s);
        put_ranges(call->answer, &s);
        put_strategies(call->answer, &s, model_given(call, "n"), n);
        if (model_given(call, "n"))
            cJSON_AddStringToObject(call->answer, "best", s.names[hal_model_best(s.times, s.count, n)]);
    }
    free(s.rows);
    cJSON_Delete(root);
    return good;
}

const model_topic model_shape_topics[] = {
    {"shapes",
     "general, bucketed and special programs: which from when",
     "Programs that are prepared once and then run n times: prepare_ms + n run_ms.\n"
     "  break_evens  for each two: the n from which `to` is better than `from`\n"
     "  ranges       of n in which each is best; `to` is null without end\n"
     "  strategies   as read, with total_ms at --n; best: their best\n"
     "The file, or only its array:\n"
     "  {\"strategies\": [{\"name\": \"general\", \"prepare_ms\": 100, \"run_ms\": 17}, ...]}\n"
     "In place of run_ms: \"mfu\": 0.4 and, if rows are padded, \"buckets\": [512, 2048]; then beside\n"
     "\"strategies\" stand \"rows\" (a number for each call, or [calls, rows]), \"flop_per_row\" and "
     "\"peak_tflops\".\n",
     "--file examples/model/shapes.json --n 70 --json",
     run_shapes,
     {MODEL_FILE_OPTION, {"n", "N", MODEL_COUNT, true, 0, 1e15, 0, "runs to compare at"}}},
    {0}};
