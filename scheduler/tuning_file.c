/* tuning_file.c - tunings as JSON, and back:
 *   {"format": "hal-tuning", "version": 1, "source": "...", "tunings": [{"device": "...", "driver": "...", "op":
 * "gemm", "dtype": "f32", "trans": "nt", "m": 1024, "n": 3072, "k": 1024, "batch": 1, "kernel": "gemm_task", "tile":
 * [258, 64, 512], "us": 1234.5, "rule_us": 1500}, ...]} A text is hostile until it has been read whole: everything is
 * bounded, and the kernels that a choice may name are few; whether it fits a problem is decided where it is used. */
#include "tuning.h"

#include "core.h"
#include "json.h"
#include "json_write.h"

#define FORMAT "hal-tuning"
enum { VERSION = 1 };

/* The kernels of an operator begin with its name. */
static const char *const ops[HAL_TUNED_OPS] = {[HAL_TUNED_GEMM] = "gemm", [HAL_TUNED_ATTENTION] = "attention"};
static const char *const kernels[] = {"gemm",           "gemm_small",        "gemm_mma",        "gemm_async",
                                      "gemm_task",      "gemm_task_address", "gemm_task_small", "attention",
                                      "attention_task", "attention_mma"};

static hal_status wrong(const char *file, uint32_t index, const char *what)
{
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: tuning %u: %s; run hal-bench tune again, or remove the file", file,
                    index, what);
}

static bool read_text(const hal_json *object, const char *key, char *text, size_t size)
{
    const hal_json *value = hal_json_get(object, key);
    if (!value || value->type != HAL_JSON_STRING || !*value->string || strlen(value->string) >= size) {
        return false;
    }
    memcpy(text, value->string, strlen(value->string) + 1);
    return true;
}

static bool read_count(const hal_json *value, double least, double most, uint64_t *count)
{
    if (!value || value->type != HAL_JSON_NUMBER || !(value->number >= least && value->number <= most) ||
        value->number != (double)(uint64_t)value->number) {
        return false;
    }
    *count = (uint64_t)value->number;
    return true;
}

static bool read_time(const hal_json *object, const char *key, double *us)
{
    const hal_json *value = hal_json_get(object, key);
    if (value && (value->type != HAL_JSON_NUMBER || value->number < 0)) {
        return false;
    }
    *us = value ? value->number : 0;
    return true;
}

static bool read_op(const hal_json *object, hal_tuned_op *op)
{
    char name[12];
    if (!read_text(object, "op", name, sizeof name)) {
        return false;
    }
    *op = HAL_TUNED_GEMM;
    while (*op < HAL_TUNED_OPS && strcmp(name, ops[*op]) != 0) {
        ++*op;
    }
    return *op < HAL_TUNED_OPS;
}

static bool read_choice(const hal_json *object, hal_tuned_op op, gemm_choice *choice)
{
    const hal_json *tile = hal_json_get(object, "tile");
    uint64_t sides[3];
    bool known = false;
    if (!read_text(object, "kernel", choice->kernel, sizeof choice->kernel) || !tile || tile->type != HAL_JSON_ARRAY ||
        tile->count != 3) {
        return false;
    }
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        known =
            known || (strcmp(kernels[i], choice->kernel) == 0 && strncmp(kernels[i], ops[op], strlen(ops[op])) == 0);
    }
    const hal_json *side = tile->first;
    for (int i = 0; i < 3; i++, side = side->next) {
        if (!read_count(side, i < 2, 1 << 16, &sides[i])) { /* a depth of 0: the kernel has but one */
            return false;
        }
    }
    choice->tile_m = (uint32_t)sides[0], choice->tile_n = (uint32_t)sides[1], choice->tile_k = (uint32_t)sides[2];
    return known;
}

static bool read_dtype(const hal_json *object, hal_dtype *dtype)
{
    char name[8];
    if (!read_text(object, "dtype", name, sizeof name)) {
        return false;
    }
    for (*dtype = HAL_F32; *dtype <= HAL_BF16; ++*dtype) {
        if (strcmp(name, hal_dtype_name(*dtype)) == 0) {
            return true;
        }
    }
    return false;
}

static const char *read_tuning(const hal_json *object, hal_tuning *t)
{
    char trans[4];
    const double most = (double)HAL_MAX_DIMENSION;
    memset(t, 0, sizeof *t);
    if (!read_text(object, "device", t->device, sizeof t->device) ||
        !read_text(object, "driver", t->driver, sizeof t->driver)) {
        return "device or driver is no text, or too long";
    }
    if (!read_op(object, &t->op) || !read_dtype(object, &t->dtype) ||
        !read_text(object, "trans", trans, sizeof trans) || strlen(trans) != 2 || strspn(trans, "nt") != 2) {
        return "op is neither gemm nor attention, or dtype or trans is none";
    }
    t->trans_a = trans[0] == 't';
    t->trans_b = trans[1] == 't';
    if (!read_count(hal_json_get(object, "m"), 1, most, &t->m) ||
        !read_count(hal_json_get(object, "n"), 1, most, &t->n) ||
        !read_count(hal_json_get(object, "k"), 1, most, &t->k) ||
        !read_count(hal_json_get(object, "batch"), 1, most, &t->batch)) {
        return "m, n, k or batch is no number of 1 to 2^31 - 1";
    }
    if (!read_choice(object, t->op, &t->choice)) {
        return "kernel or tile is none that libhal has";
    }
    return read_time(object, "us", &t->us) && read_time(object, "rule_us", &t->rule_us) ? NULL : "a time is no number";
}

static hal_status read_list(const char *name, const hal_json *root, hal_tuning **list, uint32_t *count)
{
    const hal_json *format = hal_json_get(root, "format"), *version = hal_json_get(root, "version");
    const hal_json *tunings = hal_json_get(root, "tunings");
    if (!format || format->type != HAL_JSON_STRING || strcmp(format->string, FORMAT) != 0 || !version ||
        version->type != HAL_JSON_NUMBER || version->number != VERSION || !tunings || tunings->type != HAL_JSON_ARRAY ||
        tunings->count > HAL_MOST_TUNINGS) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "%s: not tunings of version %d, or more than %d; run hal-bench tune again, or remove the file",
                        name, VERSION, HAL_MOST_TUNINGS);
    }
    hal_tuning *made = calloc(tunings->count ? tunings->count : 1, sizeof *made);
    if (!made) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory for %u tunings", name, tunings->count);
    }
    uint32_t i = 0;
    for (const hal_json *object = tunings->first; object; object = object->next, i++) {
        const char *problem = read_tuning(object, &made[i]);
        if (problem) {
            free(made);
            return wrong(name, i, problem);
        }
    }
    *list = made;
    *count = i;
    return HAL_OK;
}

hal_status hal_tuning_parse(const char *name, const char *text, size_t size, hal_tuning **list, uint32_t *count)
{
    hal_json *root = NULL;
    *list = NULL;
    *count = 0;
    hal_status status = hal_json_parse(name, text, size, &root);
    if (status == HAL_OK) {
        status = read_list(name, root, list, count);
    }
    hal_json_free(root);
    return status;
}

static void write_tuning(FILE *out, const hal_tuning *t)
{
    fputs("{\"device\": ", out);
    hal_json_write_string(out, t->device);
    fputs(", \"driver\": ", out);
    hal_json_write_string(out, t->driver);
    fprintf(out, ",\n \"op\": \"%s\", \"dtype\": \"%s\", \"trans\": \"%c%c\", ", ops[t->op], hal_dtype_name(t->dtype),
            t->trans_a ? 't' : 'n', t->trans_b ? 't' : 'n');
    fprintf(out, "\"m\": %llu, \"n\": %llu, \"k\": %llu, \"batch\": %llu,\n \"kernel\": \"%s\", \"tile\": [%u, %u, %u]",
            (unsigned long long)t->m, (unsigned long long)t->n, (unsigned long long)t->k, (unsigned long long)t->batch,
            t->choice.kernel, t->choice.tile_m, t->choice.tile_n, t->choice.tile_k);
    fputs(", \"us\": ", out);
    hal_json_write_number(out, t->us);
    fputs(", \"rule_us\": ", out);
    hal_json_write_number(out, t->rule_us);
    fputc('}', out);
}

void hal_tuning_write(FILE *out, const hal_tuning *list, uint32_t count)
{
    fprintf(out, "{\"format\": \"%s\", \"version\": %d, \"source\": \"hal-bench tune, libhal %s\", \"tunings\": [",
            FORMAT, VERSION, hal_version());
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!list[i].shipped) {
            fputs(written++ ? ",\n" : "\n", out);
            write_tuning(out, &list[i]);
        }
    }
    fputs("\n]}\n", out);
}
