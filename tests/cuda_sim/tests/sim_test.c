/* sim_test.c - see sim_test.h. */
#include "sim_test.h"
#include "../ptx/ptx.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0x5a, BLOCK = 256, TEXT = 65536 };

sim_test sim_tester;
static struct {
    const char *folder, *name;
    unsigned entries;
    char last[TEXT];
} dump;

void sim_test_check(const char *where, bool good, const char *format, ...)
{
    if (good) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    if (++sim_tester.failures <= 40) {
        fprintf(stderr, "%s: ", where);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
}

void sim_test_target(const char *target, const char *version)
{
    sim_tester.target = target;
    sim_tester.version = version;
}

static void check_room(int size, long room)
{
    if (size < 0 || size >= room) {
        fprintf(stderr, "a text is too long for the harness\n");
        exit(2);
    }
}

/* One file a target and version (8.6 at least, as one test's entries share a file): ptxas takes many at once. */
static void dump_entry(const char *entry)
{
    if (!dump.folder || strcmp(entry, dump.last) == 0) { /* a test may run one text with many inputs */
        return;
    }
    snprintf(dump.last, sizeof dump.last, "%s", entry);
    char path[1024];
    const char *version = strcmp(sim_tester.version, "8.6") > 0 ? sim_tester.version : "8.6";
    snprintf(path, sizeof path, "%s/%s.%s-%s.ptx", dump.folder, dump.name, version, sim_tester.target);
    FILE *old = fopen(path, "r"), *file = fopen(path, "a");
    if (!file) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(2);
    }
    if (!old) {
        fprintf(file, ".version %s\n.target %s\n.address_size 64\n", version, sim_tester.target);
    } else {
        fclose(old);
    }
    fprintf(file, ".visible .entry test_%u%s\n", dump.entries++, entry);
    fclose(file);
}

/* `entry` begins behind the entry's name. */
static ptx_module *load(const char *entry, char error[1024])
{
    char *text = malloc(TEXT);
    int size = snprintf(text, TEXT, ".version %s\n.target %s\n.address_size 64\n.visible .entry test%s\n",
                        sim_tester.version, sim_tester.target, entry);
    check_room(size, TEXT);
    ptx_module *module = ptx_module_load(text, (size_t)size, error, 1024);
    free(text);
    return module;
}

/* Params: in, out, g (64 bits each), mask. */
typedef struct launch_params {
    uint64_t in, out, memory;
    uint32_t mask, unused;
} launch_params;

static int by_start(const void *a, const void *b)
{
    const sim_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool launch(const ptx_module *module, uint32_t blocks, uint32_t threads, const launch_params *params,
                   size_t in_bytes, size_t out_bytes)
{
    sim_range range[3] = {{params->memory, params->memory + SIM_TEST_MEMORY, false},
                          {params->in, params->in + in_bytes, true},
                          {params->out, params->out + out_bytes, false}};
    size_t ranges = in_bytes ? 3 : 1;
    qsort(range, ranges, sizeof range[0], by_start);
    sim_launch launch = {.function = ptx_module_entry(module, "test"),
                         .grid = {blocks, 1, 1},
                         .block = {threads, 1, 1},
                         .params = (const uint8_t *)params,
                         .ranges = range,
                         .range_count = ranges,
                         .options = sim_tester.options};
    memcpy(launch.cluster, sim_tester.cluster, sizeof launch.cluster);
    sim_tester.fault = (sim_fault){0};
    sim_tester.counters = (sim_counters){0};
    return sim_launch_run(&launch, &sim_tester.counters, &sim_tester.fault);
}

typedef struct writer {
    char *at, *end;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(w->at, (size_t)(w->end - w->at), format, arguments);
    va_end(arguments);
    check_room(size, w->end - w->at);
    w->at += size;
}

static const char prologue[] = "{\n.reg .b64 %in, %out, %to, g;\n.reg .b32 %n, %x, %y;\n.reg .pred %q;\n"
                               "mov.u32 %n, %tid.x;\nmov.u32 %x, %ctaid.x;\nmov.u32 %y, %ntid.x;\n"
                               "mad.lo.s32 %n, %x, %y, %n;\nld.param.u64 g, [memory];\n";

static void put_prologue(writer *w)
{
    put(w, "(.param .u64 in, .param .u64 out, .param .u64 memory, .param .u32 mask) %s\n%s",
        sim_tester.directives ? sim_tester.directives : "", prologue);
}

/* --- rows --- */

static char type_of(char kind)
{
    if (kind == 'h' || kind == 'x' || kind == 'y') {
        return 'h';
    }
    if (kind == 'r' || kind == 'f') {
        return 'r';
    }
    return kind == 'p' ? 'p' : 'l';
}

static const char *register_type(char kind)
{
    switch (type_of(kind)) {
    case 'h':
        return "b16";
    case 'r':
        return "b32";
    case 'p':
        return "pred";
    default:
        return "b64";
    }
}

static void put_loads(writer *w, const char *kinds)
{
    static const char *const names[] = {"d", "a", "b", "c", "e"};
    for (size_t i = 0; kinds[i]; i++) {
        put(w, ".reg .%s %s;\n", register_type(kinds[i]), names[i]);
    }
    put(w,
        "ld.param.u64 %%in, [in];\nld.param.u64 %%out, [out];\n"
        "mad.wide.u32 %%in, %%n, %zu, %%in;\nmad.wide.u32 %%to, %%n, 8, %%out;\n",
        sizeof(sim_row));
    for (size_t i = 1; kinds[i]; i++) {
        if (type_of(kinds[i]) == 'p') {
            put(w, "ld.global.u32 %%x, [%%in+%zu];\nsetp.ne.u32 %s, %%x, 0;\n", 8 * i, names[i]);
        } else {
            put(w, "ld.global.%s %s, [%%in+%zu];\n", register_type(kinds[i]), names[i], 8 * i);
        }
    }
}

static void put_store(writer *w, char kind)
{
    if (type_of(kind) == 'p') {
        put(w, "selp.b32 %%x, 1, 0, d;\nst.global.b32 [%%to], %%x;\n");
    } else {
        put(w, "st.global.%s [%%to], d;\n", register_type(kind));
    }
}

/* d is loaded from the poisoned result first, so that lanes that stay out must keep it. */
static void put_masked(writer *w, const char *text, char kind)
{
    if (type_of(kind) == 'p') {
        put(w, "ld.global.u32 %%x, [%%to];\nsetp.ne.u32 d, %%x, 0;\n");
    } else {
        put(w, "ld.global.%s d, [%%to];\n", register_type(kind));
    }
    put(w, "ld.param.u32 %%x, [mask];\nmov.u32 %%y, %%laneid;\nshr.u32 %%x, %%x, %%y;\nand.b32 %%x, %%x, 1;\n"
           "setp.ne.u32 %%q, %%x, 0;\n");
    bool single = strchr(text, ';') == strrchr(text, ';') && !strchr(text, '{') && !strchr(text, '@');
    if (single) {
        put(w, "@%%q %s\n", text);
    } else {
        put(w, "@!%%q bra $skip;\n{\n%s\n}\n$skip:\n", text);
    }
}

static bool is_nan(uint64_t bits, unsigned exponent, unsigned mantissa)
{
    uint64_t all = ((UINT64_C(1) << exponent) - 1) << mantissa;
    return (bits & all) == all && (bits & ((UINT64_C(1) << mantissa) - 1)) != 0;
}

static bool same(char kind, uint64_t got, uint64_t want)
{
    switch (kind) {
    case 'f':
        return got == want || (is_nan(got, 8, 23) && is_nan(want, 8, 23));
    case 'D':
        return got == want || (is_nan(got, 11, 52) && is_nan(want, 11, 52));
    case 'x':
        return got == want || (is_nan(got, 5, 10) && is_nan(want, 5, 10));
    case 'y':
        return got == want || (is_nan(got, 8, 7) && is_nan(want, 8, 7));
    default:
        return got == want;
    }
}

static uint64_t width_mask(char kind)
{
    char type = type_of(kind);
    return type == 'h' ? 0xffff : type == 'l' ? UINT64_MAX : UINT32_MAX;
}

static void check_rows(const char *where, const char *text, char kind, const sim_row *rows, size_t count,
                       const uint64_t *out, uint32_t mask)
{
    uint64_t poison;
    memset(&poison, POISON, sizeof poison);
    for (size_t i = 0; i < count; i++) {
        bool runs = mask >> i % PTX_LANES & 1;
        uint64_t got = out[i] & width_mask(kind), want = rows[i].d & width_mask(kind);
        if (!runs) {
            want = type_of(kind) == 'p' ? 1 : poison & width_mask(kind);
        }
        sim_test_check(where, runs ? same(kind, got, want) : got == want,
                       "%s: row %zu (%s) of a=%#llx b=%#llx c=%#llx e=%#llx: %#llx, not %#llx", text, i,
                       runs ? "runs" : "does not run", (unsigned long long)rows[i].a, (unsigned long long)rows[i].b,
                       (unsigned long long)rows[i].c, (unsigned long long)rows[i].e, (unsigned long long)got,
                       (unsigned long long)want);
    }
}

static void run_rows(const char *where, const char *text, const char *kinds, const sim_row *rows, size_t count,
                     uint32_t mask)
{
    char error[1024], *entry = malloc(TEXT);
    writer w = {entry, entry + TEXT};
    put_prologue(&w);
    put_loads(&w, kinds);
    if (mask == UINT32_MAX) {
        put(&w, "{\n%s\n}\n", text);
    } else {
        put_masked(&w, text, kinds[0]);
    }
    put_store(&w, kinds[0]);
    put(&w, "ret;\n}\n");
    dump_entry(entry);
    ptx_module *module = load(entry, error);
    sim_test_check(where, module, "%s: %s", text, error);
    if (module) {
        uint32_t blocks = (uint32_t)((count + BLOCK - 1) / BLOCK);
        uint32_t threads = blocks > 1 ? BLOCK : (uint32_t)((count + 31) / 32 * 32);
        size_t room = (size_t)blocks * threads;
        uint64_t *out = malloc(room * sizeof *out);
        sim_row *in = calloc(room + 1, sizeof *in); /* never of nothing */
        memset(out, POISON, room * sizeof *out);
        for (size_t i = 0; i < room; i++) {
            in[i] = rows[i < count ? i : count - 1];
        }
        launch_params params = {(uintptr_t)in, (uintptr_t)out, (uintptr_t)sim_tester.memory, mask, 0};
        if (launch(module, blocks, threads, &params, room * sizeof *in, room * sizeof *out)) {
            check_rows(where, text, kinds[0], rows, count, out, mask);
        } else {
            sim_test_check(where, false, "%s: %s", text, sim_tester.fault.text);
        }
        free(in);
        free(out);
    }
    ptx_module_free(module);
    free(entry);
}

void sim_test_rows(const char *where, const char *text, const char *kinds, const sim_row *rows, size_t count)
{
    run_rows(where, text, kinds, rows, count, UINT32_MAX);
    if (!sim_tester.all_lanes) {
        run_rows(where, text, kinds, rows, count, 0x9d2c5681u);
    }
}

/* --- bodies --- */

static char *body_entry(const char *body)
{
    char *entry = malloc(TEXT);
    writer w = {entry, entry + TEXT};
    put_prologue(&w);
    put(&w, "{\n%s\n}\nret;\n}\n", body);
    return entry;
}

bool sim_test_run(const char *body, uint32_t blocks, uint32_t threads)
{
    char error[1024], *entry = body_entry(body);
    dump_entry(entry);
    ptx_module *module = load(entry, error);
    free(entry);
    if (!module) {
        sim_tester.fault = (sim_fault){.kind = SIM_FAULT_RESOURCES};
        snprintf(sim_tester.fault.text, sizeof sim_tester.fault.text, "%s", error);
        return false;
    }
    launch_params params = {.memory = (uintptr_t)sim_tester.memory};
    bool good = launch(module, blocks, threads, &params, 0, 0);
    ptx_module_free(module);
    return good;
}

void sim_test_refused(const char *where, const char *body, const char *message)
{
    char error[1024], *entry = body_entry(body);
    ptx_module *module = load(entry, error);
    sim_test_check(where, !module, "%s: is not refused", body);
    if (!module) {
        sim_test_check(where, strstr(error, message), "%s: refused with \"%s\", not \"%s\"", body, error, message);
    }
    ptx_module_free(module);
    free(entry);
}

void sim_test_faults(const char *where, const char *body, uint32_t threads, sim_fault_kind kind, const char *text)
{
    bool good = sim_test_run(body, 1, threads);
    sim_test_check(where, !good, "%s: no fault", body);
    if (!good) {
        sim_test_check(where, sim_tester.fault.kind == kind && strstr(sim_tester.fault.text, text),
                       "%s: fault %d \"%s\", not %d with \"%s\"", body, (int)sim_tester.fault.kind,
                       sim_tester.fault.text, (int)kind, text);
    }
}

/* --- the whole --- */

static void begin_group(void)
{
    uint8_t *memory = sim_tester.memory;
    memset(memory, 0, SIM_TEST_MEMORY);
    sim_tester = (sim_test){.version = "7.8", .target = "sm_80", .memory = memory, .options = {.threads = 1}};
}

int sim_test_main(int argc, char **argv, const char *name, const sim_group *groups, size_t count)
{
    dump.folder = argc > 1 ? argv[1] : NULL;
    dump.name = name;
    sim_tester.memory = aligned_alloc(256, SIM_TEST_MEMORY);
    size_t failed = 0;
    for (size_t i = 0; i < count && sim_tester.memory; i++) {
        begin_group();
        groups[i].run();
        printf("%s.%s: %s\n", name, groups[i].name, sim_tester.failures ? "FAILED" : "good");
        failed += sim_tester.failures > 0;
    }
    free(sim_tester.memory);
    return failed || count == 0 ? 1 : 0;
}
