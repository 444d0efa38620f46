/* json_check.c - does a file hold hal-bench's JSON? usage: bench_json_check FILE [KIND...]: a result of each kind must
 * be there. Prints what is wrong and exits 1. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fail(const char *what, const char *which)
{
    fprintf(stderr, "bench_json_check: %s: %s\n", what, which);
    return false;
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        text = size >= 0 ? calloc(1, (size_t)size + 1) : NULL;
        if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

static bool has(const cJSON *item, const char *name, bool text, bool may_be_null)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, name);
    if (!value)
        return fail("a result has no field", name);
    if (cJSON_IsNull(value))
        return may_be_null || fail("a field is null", name);
    if (text ? !cJSON_IsString(value) : !cJSON_IsNumber(value) || value->valuedouble < 0)
        return fail("a field has the wrong type or is negative", name);
    return true;
}

static bool is_operator(const char *kind)
{
    static const char *const known[] = {"gemm",       "softmax",   "attention", "rmsnorm",
                                        "activation", "transpose", "quantize"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(kind, known[i]))
            return true;
    return false;
}

/* A limit is an object or null; the peer is a name or null, and in the list of all. */
static bool check_limits(const cJSON *row)
{
    const cJSON *floor = cJSON_GetObjectItemCaseSensitive(row, "floor");
    const cJSON *peer = cJSON_GetObjectItemCaseSensitive(row, "peer");
    const cJSON *peers = cJSON_GetObjectItemCaseSensitive(row, "peers");
    if (!floor || !cJSON_IsArray(peers))
        return fail("a result has no", floor ? "peers" : "floor");
    if (!cJSON_IsNull(floor) && (!has(floor, "limit", true, false) || !has(floor, "rate", false, false)))
        return false;
    if ((cJSON_GetArraySize(peers) > 0) != cJSON_IsString(peer))
        return fail("does not agree with the peers", "peer");
    return has(row, "peer", true, true) && has(row, "peer_ratio", false, !cJSON_IsString(peer)) &&
           has(row, "floor_ratio", false, cJSON_IsNull(floor));
}

static bool check_operator(const cJSON *row, const char *kind)
{
    static const char *const texts[] = {"op", "case", "shape", "dtype", "unit"};
    static const char *const figures[] = {"seconds", "rate", "max_error", "bound", "gbps"};
    static const char *const gemm[] = {"m", "n", "k", "gflops"};
    const cJSON *rounds = cJSON_GetObjectItemCaseSensitive(row, "rounds");
    bool measured = cJSON_IsNumber(rounds) && rounds->valuedouble > 0; /* a device may have no such kernel */
    bool good = true;
    for (size_t i = 0; good && i < sizeof texts / sizeof texts[0]; i++)
        good = has(row, texts[i], true, false);
    for (size_t i = 0; good && i < sizeof figures / sizeof figures[0]; i++)
        good = has(row, figures[i], false, !measured);
    if (strcmp(kind, "gemm") == 0) {
        for (size_t i = 0; good && i < sizeof gemm / sizeof gemm[0]; i++)
            good = has(row, gemm[i], false, !measured);
        good = good && has(row, "peak_fraction", false, true);
    }
    if (!good || !measured)
        return good;
    if (cJSON_GetObjectItemCaseSensitive(row, "max_error")->valuedouble >
        cJSON_GetObjectItemCaseSensitive(row, "bound")->valuedouble)
        return fail("a wrong result is reported as right", kind);
    return check_limits(row);
}

static bool check_graph(const cJSON *row)
{
    static const char *const texts[] = {"graph", "shape", "dtype", "mode"};
    static const char *const figures[] = {"submits",   "kernels", "bytes",       "peak_bytes",
                                          "submit_us", "wait_us", "predicted_us"};
    bool good = has(row, "device_us", false, true) &&
                (cJSON_IsBool(cJSON_GetObjectItemCaseSensitive(row, "fused")) || fail("not true or false", "fused"));
    for (size_t i = 0; good && i < sizeof texts / sizeof texts[0]; i++)
        good = has(row, texts[i], true, false);
    for (size_t i = 0; good && i < sizeof figures / sizeof figures[0]; i++)
        good = has(row, figures[i], false, false);
    return good;
}

static bool check_row(const cJSON *row)
{
    static const char *const host[] = {"commands", "libhal_ns"}, *const host_null[] = {"raw_ns", "ratio"};
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "kind"));
    bool good = true;
    if (!kind)
        return fail("a result has no", "kind");
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "failed")))
        return fail("a result failed", cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "note")));
    good = has(row, "backend", true, false) && has(row, "device", true, false);
    if (is_operator(kind)) {
        good = good && check_operator(row, kind);
    } else if (!strcmp(kind, "overhead") || !strcmp(kind, "replay")) {
        good = good && has(row, "case", true, false);
        for (size_t i = 0; good && i < sizeof host / sizeof host[0]; i++)
            good = has(row, host[i], false, false) && has(row, host_null[i], false, true);
    } else if (!strcmp(kind, "graph")) {
        good = good && check_graph(row);
    } else
        good = fail("an unknown kind", kind);
    return good;
}

static bool check_kind(const cJSON *results, const char *kind)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, results)
    {
        const char *found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "kind"));
        if (found && !strcmp(found, kind))
            return true;
    }
    return fail("no result of kind", kind);
}

static bool check(const cJSON *root, int kinds, char **kind)
{
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(root, "schema");
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(root, "machine");
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(root, "results"), *row;
    bool good = true;
    if (cJSON_GetArraySize(root) != 3)
        return fail("the top level has other members than", "schema, machine, results");
    if (!cJSON_IsNumber(schema) || schema->valuedouble != 1)
        return fail("wrong", "schema");
    if (!cJSON_IsArray(results))
        return fail("not an array", "results");
    static const char *const texts[] = {"cpu", "os", "libhal"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!has(machine, texts[i], true, false))
            return false;
    cJSON_ArrayForEach(row, results) good = check_row(row) && good;
    for (int i = 0; i < kinds; i++)
        good = check_kind(results, kind[i]) && good;
    return good;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    char *text = read_all(argv[1]);
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    bool good = root ? check(root, argc - 2, argv + 2) : fail("not JSON", argv[1]);
    cJSON_Delete(root);
    free(text);
    return good ? 0 : 1;
}
