/* case_file.c - see case_file.h. */
#include "case_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE  (UINT64_C(1) << 30)
#define MAX_COUNT (UINT64_C(1) << 31)

static bool bad(case_file *c, const char *where, const char *what)
{
    snprintf(c->error, sizeof c->error, "%.80s: %.160s", where, what);
    return false;
}

static uint8_t *read_file(const char *folder, const char *name, uint64_t *size)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    uint8_t *data = NULL;
    long end = -1;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) >= 0 && (uint64_t)end <= MAX_FILE &&
        fseek(file, 0, SEEK_SET) == 0 && (data = malloc((size_t)end + 1))) {
        *size = fread(data, 1, (size_t)end, file);
        data[*size] = 0;
        if (*size != (uint64_t)end) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

bool case_open(case_file *c, const char *folder)
{
    memset(c, 0, sizeof *c);
    uint64_t size = 0;
    char *text = (char *)read_file(folder, "case.json", &size);
    if (!text) {
        return bad(c, "case.json", "cannot be read");
    }
    c->json = cJSON_ParseWithLength(text, size);
    free(text);
    if (!cJSON_IsObject(c->json)) {
        return bad(c, "case.json", "is no JSON object");
    }
    c->op = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(c->json, "op"));
    c->attributes = cJSON_GetObjectItemCaseSensitive(c->json, "attributes");
    if (!c->op || !*c->op) {
        return bad(c, "op", "is no string");
    }
    return true;
}

static bool whole(const cJSON *item, uint64_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > (double)MAX_COUNT ||
        item->valuedouble != floor(item->valuedouble)) {
        return false;
    }
    *value = (uint64_t)item->valuedouble;
    return true;
}

static void read_dtype(case_tensor *t)
{
    static const struct {
        const char *name;
        hal_dtype dtype;
        uint32_t size;
    } known[] = {{"f32", HAL_F32, 4},           {"f16", HAL_F16, 2},           {"bf16", HAL_BF16, 2},
                 {"f8e4m3fn", HAL_F8E4M3, 1},   {"i32", HAL_DTYPE_DEFAULT, 4}, {"i64", HAL_DTYPE_DEFAULT, 8},
                 {"bool", HAL_DTYPE_DEFAULT, 1}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(t->dtype_name, known[i].name) == 0) {
            t->dtype = known[i].dtype;
            t->element_size = known[i].size;
        }
    }
}

static bool read_shape(case_file *c, const cJSON *item, case_tensor *t)
{
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *dim;
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > CASE_DIMS) {
        return bad(c, t->name, "shape is no array of at most 8 numbers");
    }
    t->rows = t->columns = 1;
    cJSON_ArrayForEach(dim, shape)
    {
        uint64_t size;
        if (!whole(dim, &size) || __builtin_mul_overflow(t->rows, t->columns, &t->rows)) {
            return bad(c, t->name, "a dimension is no whole number below 2^31, or there are too many elements");
        }
        t->dims[t->dim_count++] = t->columns = size;
    }
    const cJSON *ld = cJSON_GetObjectItemCaseSensitive(item, "ld");
    const cJSON *offset = cJSON_GetObjectItemCaseSensitive(item, "offset_elements");
    t->ld = t->columns;
    if ((ld && !whole(ld, &t->ld)) || (offset && !whole(offset, &t->offset))) {
        return bad(c, t->name, "ld or offset_elements is no whole number below 2^31");
    }
    if (t->ld < t->columns && t->rows > 1) {
        return bad(c, t->name, "ld is below the row length");
    }
    t->ld = t->ld < t->columns ? t->columns : t->ld; /* of a single row it means nothing */
    return true;
}

/* The file must hold every element. */
static bool read_data(case_file *c, const cJSON *item, const char *folder, case_tensor *t)
{
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "file"));
    if (!file || !*file || strchr(file, '/') || strchr(file, '\\') || file[0] == '.') {
        return bad(c, t->name, "file is no plain file name");
    }
    t->data = read_file(folder, file, &t->size);
    if (!t->data) {
        return bad(c, file, "cannot be read");
    }
    uint64_t last = 0, end;
    bool empty = t->rows == 0 || t->columns == 0;
    if (!empty &&
        (__builtin_mul_overflow(t->rows - 1, t->ld, &last) || __builtin_add_overflow(last, t->columns, &last))) {
        return bad(c, t->name, "has too many elements");
    }
    if (__builtin_add_overflow(last, t->offset, &end) || end > t->size / t->element_size) {
        return bad(c, file, "is shorter than its tensor");
    }
    return true;
}

static bool read_tensor(case_file *c, const cJSON *item, const char *folder, case_tensor *t)
{
    if (cJSON_IsNull(item)) {
        return true; /* an optional input that is not there */
    }
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "dtype"));
    if (!name || !dtype || strlen(name) >= sizeof t->name || strlen(dtype) >= sizeof t->dtype_name) {
        return bad(c, "tensor", "name or dtype is no short string");
    }
    t->present = true;
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->dtype_name, sizeof t->dtype_name, "%s", dtype);
    read_dtype(t);
    if (!read_shape(c, item, t)) {
        return false;
    }
    return t->element_size == 0 || read_data(c, item, folder, t);
}

static bool read_tensors(case_file *c, const char *key, const char *folder, case_tensor *tensors, uint32_t *count)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, key), *item;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > CASE_TENSORS) {
        return bad(c, key, "is no array of at most 16 tensors");
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!read_tensor(c, item, folder, &tensors[(*count)++])) {
            return false;
        }
    }
    return true;
}

static bool read_tolerance(case_file *c, case_tensor *t)
{
    const cJSON *expect = cJSON_GetObjectItemCaseSensitive(c->json, "expect");
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(expect, t->name);
    t->abs = expect ? 0 : 1e-7;
    t->rel = expect ? 0 : 1e-3;
    const cJSON *abs = cJSON_GetObjectItemCaseSensitive(item, "abs"),
                *rel = cJSON_GetObjectItemCaseSensitive(item, "rel");
    if ((abs && !cJSON_IsNumber(abs)) || (rel && !cJSON_IsNumber(rel))) {
        return bad(c, t->name, "tolerance is no number");
    }
    t->abs = abs ? abs->valuedouble : t->abs;
    t->rel = rel ? rel->valuedouble : t->rel;
    return t->abs >= 0 && t->rel >= 0 && t->abs < 1e30 && t->rel < 1e30 ? true
                                                                        : bad(c, t->name, "tolerance is out of range");
}

bool case_load(case_file *c, const char *folder)
{
    if (!read_tensors(c, "inputs", folder, c->inputs, &c->input_count) ||
        !read_tensors(c, "outputs", folder, c->outputs, &c->output_count)) {
        return false;
    }
    for (uint32_t i = 0; i < c->output_count; i++) {
        if (c->outputs[i].present && !read_tolerance(c, &c->outputs[i])) {
            return false;
        }
    }
    return true;
}

void case_close(case_file *c)
{
    for (uint32_t i = 0; i < CASE_TENSORS; i++) {
        free(c->inputs[i].data);
        free(c->outputs[i].data);
    }
    cJSON_Delete(c->json);
    memset(c, 0, sizeof *c);
}

const case_tensor *case_input(const case_file *c, const char *name)
{
    for (uint32_t i = 0; i < c->input_count; i++) {
        if (c->inputs[i].present && strcmp(c->inputs[i].name, name) == 0) {
            return &c->inputs[i];
        }
    }
    return NULL;
}

bool case_number(const case_file *c, const char *name, double fallback, double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(c->attributes, name);
    *value = item && cJSON_IsNumber(item) ? item->valuedouble : fallback;
    return !item || cJSON_IsNumber(item);
}

bool case_count(const case_file *c, const char *name, uint64_t fallback, uint64_t *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(c->attributes, name);
    *value = fallback;
    return !item || whole(item, value);
}

static bool agree(double got, double want, double abs, double rel)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got);
    }
    if (isinf(want) || isinf(got)) {
        return got == want;
    }
    return fabs(got - want) <= abs + rel * fabs(want);
}

bool case_compare(const case_tensor *want, const uint8_t *got, char *why, size_t capacity)
{
    const uint64_t size = hal_dtype_size(want->dtype);
    const uint64_t elements = want->size / size;
    for (uint64_t i = 0; i < elements; i++) {
        const uint64_t inner = i - want->offset;
        const bool element =
            i >= want->offset && want->columns && inner / want->ld < want->rows && inner % want->ld < want->columns;
        if (!element) {
            if (memcmp(got + i * size, want->data + i * size, size) != 0) {
                snprintf(why, capacity, "%s: element %llu of the file, in a gap, was written", want->name,
                         (unsigned long long)i);
                return false;
            }
            continue;
        }
        float g, w;
        if (hal_numeric_decode(want->dtype, got + i * size, 1, &g) != HAL_OK ||
            hal_numeric_decode(want->dtype, want->data + i * size, 1, &w) != HAL_OK) {
            snprintf(why, capacity, "%s: %s", want->name, hal_last_error());
            return false;
        }
        if (!agree(g, w, want->abs, want->rel)) {
            snprintf(why, capacity, "%s[%llu][%llu] is %.9g, want %.9g (abs %g, rel %g)", want->name,
                     (unsigned long long)(inner / want->ld), (unsigned long long)(inner % want->ld), (double)g,
                     (double)w, want->abs, want->rel);
            return false;
        }
    }
    if (memcmp(got + elements * size, want->data + elements * size, want->size - elements * size) != 0) {
        snprintf(why, capacity, "%s: the file's last bytes were written", want->name);
        return false;
    }
    return true;
}
