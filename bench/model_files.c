/* model_files.c - topics on whole programs, read from a file: critical-path, request. */
#include "model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* critical-path */

typedef struct named {
    const char *name;
    uint32_t index;
} named;

typedef struct tasks {
    uint32_t count;
    hal_model_task *list;
    named *names, *sorted;
    uint32_t *after, *path;
} tasks;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Names and times first: a task may wait for one that follows in the file. */
static bool read_tasks(model_call *call, const cJSON *array, tasks *t)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        char where[40];
        snprintf(where, sizeof where, "tasks[%u]", t->count);
        const char *name = NULL;
        if (!model_file_members(call, item, where, "name us after") || !(name = model_file_name(call, item, where)) ||
            !model_file_number(call, item, where, "us", false, 0, MODEL_TIME, &t->list[t->count].time_us))
            return false;
        t->names[t->count] = t->sorted[t->count] = (named){name, t->count};
        t->count++;
    }
    qsort(t->sorted, t->count, sizeof *t->sorted, by_name);
    for (uint32_t i = 1; i < t->count; i++)
        if (!by_name(&t->sorted[i - 1], &t->sorted[i]))
            return model_refuse(call, "--file: two tasks have the name \"%s\"", t->sorted[i].name);
    return true;
}

static bool read_after(model_call *call, const cJSON *array, tasks *t)
{
    const cJSON *item, *name;
    uint32_t *after = t->after, index = 0;
    cJSON_ArrayForEach(item, array)
    {
        hal_model_task *task = &t->list[index];
        const cJSON *names = cJSON_GetObjectItemCaseSensitive(item, "after");
        if (names && !cJSON_IsArray(names))
            return model_refuse(call, "--file: tasks[%u].after must be an array of names", index);
        task->after = after;
        cJSON_ArrayForEach(name, names)
        {
            const named wanted = {cJSON_GetStringValue(name), 0};
            const named *found = wanted.name ? bsearch(&wanted, t->sorted, t->count, sizeof *t->sorted, by_name) : NULL;
            if (!found)
                return model_refuse(call, "--file: tasks[%u] waits for \"%.60s\", which is no task", index,
                                    wanted.name ? wanted.name : "something without a name");
            *after++ = found->index;
            task->after_count++;
        }
        index++;
    }
    return true;
}

static uint64_t edges_of(const cJSON *array)
{
    uint64_t edges = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        edges += (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(item, "after"));
    }
    return edges;
}

static bool solve_tasks(model_call *call, const cJSON *array, tasks *t)
{
    double length = 0;
    uint32_t count = 0;
    if (!read_tasks(call, array, t) || !read_after(call, array, t) ||
        !model_check(call, "--file", hal_model_critical_path(t->list, t->count, &length, t->path, &count)))
        return false;
    model_put_real(call->answer, "length_us", length);
    cJSON *path = cJSON_AddArrayToObject(call->answer, "path");
    for (uint32_t i = 0; i < count; i++)
        cJSON_AddItemToArray(path, cJSON_CreateString(t->names[t->path[i]].name));
    return true;
}

static bool run_critical_path(model_call *call)
{
    cJSON *root = model_file_load(call);
    const cJSON *array = root && (cJSON_IsArray(root) || model_file_members(call, root, "the file", "tasks"))
                             ? model_file_array(call, root, "tasks")
                             : NULL;
    bool good = false;
    if (array) {
        const size_t most = (size_t)cJSON_GetArraySize(array);
        tasks t = {.list = calloc(most, sizeof *t.list),
                   .names = calloc(most, sizeof *t.names),
                   .sorted = calloc(most, sizeof *t.sorted),
                   .after = calloc(edges_of(array) + 1, sizeof *t.after),
                   .path = calloc(most, sizeof *t.path)};
        if (t.list && t.names && t.sorted && t.after && t.path)
            good = solve_tasks(call, array, &t);
        else
            model_refuse(call, "--file: out of memory");
        free(t.list);
        free(t.names);
        free(t.sorted);
        free(t.after);
        free(t.path);
    }
    cJSON_Delete(root);
    return good;
}

/* request */

static bool read_calls(model_call *call, const cJSON *array, hal_model_calls *shapes_of, uint32_t *count)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
    {
        char where[40];
        double calls = 0;
        hal_model_calls *s = &shapes_of[*count];
        snprintf(where, sizeof where, "shapes[%u]", *count);
        if (!model_file_members(call, item, where, "name calls old_us new_us beside_us") ||
            !model_file_name(call, item, where) ||
            !model_file_number(call, item, where, "calls", false, 0, MODEL_WHOLE, &calls) ||
            !model_file_number(call, item, where, "old_us", false, 0, MODEL_TIME, &s->old_us) ||
            !model_file_number(call, item, where, "new_us", false, 0, MODEL_TIME, &s->new_us) ||
            !model_file_number(call, item, where, "beside_us", true, 0, MODEL_TIME, &s->beside_us))
            return false;
        if (calls != floor(calls))
            return model_refuse(call, "--file: %s.calls must be a whole number", where);
        s->calls = (uint64_t)calls;
        (*count)++;
    }
    return true;
}

static bool solve_request(model_call *call, const cJSON *root)
{
    const cJSON *array;
    double request_us = 0;
    uint32_t count = 0;
    hal_model_request cost;
    if (!model_file_members(call, root, "the file", "request_us shapes") ||
        !model_file_number(call, root, "the file", "request_us", false, 1e-6, MODEL_TIME, &request_us) ||
        !(array = model_file_array(call, root, "shapes")))
        return false;
    hal_model_calls *shapes_of = calloc((size_t)cJSON_GetArraySize(array), sizeof *shapes_of);
    bool good = shapes_of ? read_calls(call, array, shapes_of, &count) : model_refuse(call, "--file: out of memory");
    good = good && model_check(call, "--file", hal_model_request_costs(shapes_of, count, request_us, &cost));
    free(shapes_of);
    if (!good)
        return false;
    model_put_count(call->answer, "calls", cost.calls);
    model_put_real(call->answer, "saved_us", cost.saved_us);
    model_put_real(call->answer, "share", cost.share);
    model_put_real(call->answer, "old_us", cost.old_us);
    model_put_real(call->answer, "new_us", cost.new_us);
    model_put_real(call->answer, "saved_share", cost.saved_share);
    return true;
}

static bool run_request(model_call *call)
{
    cJSON *root = model_file_load(call);
    const bool good = root && solve_request(call, root);
    cJSON_Delete(root);
    return good;
}

const model_topic model_file_topics[] = {
    {"critical-path",
     "the longest way through tasks that wait for others",
     "  length_us  of the longest way\n"
     "  path       the names along it; of equal ways the one listed first\n"
     "The file, or only its array: {\"tasks\": [{\"name\": \"a\", \"us\": 10},\n"
     "                                          {\"name\": \"b\", \"us\": 5, \"after\": [\"a\"]}]}.\n",
     "--file examples/model/critical_path.json --json",
     run_critical_path,
     {MODEL_FILE_OPTION}},
    {"request",
     "what a faster operator saves of a whole request",
     "  calls     of all shapes\n"
     "  saved_us  over all calls\n"
     "  share     of the request that the operator takes with its old times; saved_share: that is saved\n"
     "  old_us, new_us  of all calls\n"
     "The file: {\"request_us\": 850000,\n"
     "           \"shapes\": [{\"name\": \"decode\", \"calls\": 1116, \"old_us\": 2.6, \"new_us\": 1.3}]}.\n"
     "\"beside_us\": other work of that length runs beside each call, and only what sticks out of it counts.\n",
     "--file examples/model/request.json --json",
     run_request,
     {MODEL_FILE_OPTION}},
    {0}};
