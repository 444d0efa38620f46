/* test_gemm_sm90.c - kernels/gemm_sm90.cu is right under every timing, and each of its mutants is not.
 *
 * A mutant is the kernel's PTX with one change that its author could have made. It must be caught under one timing at
 * least: by a fault, or by wrong numbers. */
#include "gemm_run.h"
#include "sim_test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 6, TIMINGS = 2 + SEEDS };

static sim_options options_of(uint32_t time)
{
    return (sim_options){.timing = time == 0 ? SIM_EAGER : time == 1 ? SIM_LATE : SIM_SEEDED, .seed = time};
}

static char *kernel_text(void)
{
    char *text = gemm_read(GEMM_SM90_PTX);
    if (!text) {
        fprintf(stderr, "%s cannot be read\n", GEMM_SM90_PTX);
        exit(2);
    }
    return text;
}

static void right_numbers(void)
{
    static const gemm_case cases[] = {
        {"gemm_sm90", 1, 1, 128, 128, 64},       {"gemm_sm90", 1, 2, 200, 136, 200},
        {"gemm_sm90", 1, 1, 72, 264, 8},         {"gemm_sm90", 1, 2, 384, 256, 320},
        {"gemm_sm90_pair", 2, 2, 256, 128, 64},  {"gemm_sm90_pair", 2, 4, 300, 400, 136},
        {"gemm_sm90_pair", 2, 2, 520, 264, 264},
    };
    char *text = kernel_text();
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (uint32_t t = 0; t < TIMINGS; t++) {
            char what[1024] = "";
            sim_options options = options_of(t);
            SIM_CHECK(gemm_run(text, &cases[c], &options, what, sizeof what) == GEMM_RIGHT, "case %zu, timing %u: %s",
                      c, t, what);
        }
    }
    free(text);
}

/* --- mutants --- */

typedef enum change { DROP, LAST_OPERAND, REPLACE, SWAP_COORDINATES } change;

/* What happens to the lines of one entry that begin with `opcode`, the which-th of them or ALL. */
enum { ALL = -1 };
typedef struct mutant {
    const char *name, *opcode;
    int which;
    change change;
    const char *find, *with; /* REPLACE: both; LAST_OPERAND: with */
} mutant;

typedef struct text {
    char *at; /* where to write */
} text;

static void put(text *t, const char *from, size_t size)
{
    memcpy(t->at, from, size);
    t->at += size;
}

/* The line [line, end) changed. */
static void put_changed(text *t, const mutant *m, const char *line, const char *end)
{
    char copy[4096];
    size_t size = (size_t)(end - line);
    if (m->change == DROP || size >= sizeof copy) {
        return;
    }
    memcpy(copy, line, size);
    copy[size] = 0;
    char *open = strchr(copy, '{'), *comma = open ? strchr(open, ',') : NULL,
         *close = comma ? strchr(comma, '}') : NULL;
    char *last = strrchr(copy, ','), *found = m->find ? strstr(copy, m->find) : NULL;
    if (m->change == SWAP_COORDINATES && close) {
        put(t, copy, (size_t)(open + 1 - copy));
        put(t, comma + 1, (size_t)(close - comma - 1));
        put(t, ",", 1);
        put(t, open + 1, (size_t)(comma - open - 1));
        put(t, close, strlen(close));
    } else if (m->change == LAST_OPERAND && last) {
        put(t, copy, (size_t)(last + 1 - copy));
        put(t, " ", 1);
        put(t, m->with, strlen(m->with));
        put(t, ";\n", 2);
    } else if (m->change == REPLACE && found) {
        put(t, copy, (size_t)(found - copy));
        put(t, m->with, strlen(m->with));
        put(t, found + strlen(m->find), strlen(found + strlen(m->find)));
    } else {
        put(t, copy, size);
    }
}

/* The kernel's text with the change, for the caller to free. */
static char *mutate(const char *kernel, const char *entry, const mutant *m)
{
    char begin[128];
    snprintf(begin, sizeof begin, ".entry %s(", entry);
    const char *line = strstr(kernel, begin), *end = line ? strstr(line + 1, ".visible .entry ") : NULL;
    char *result = malloc(2 * strlen(kernel) + 1);
    text t = {result};
    if (!line || !result) {
        free(result);
        return NULL;
    }
    end = end ? end : kernel + strlen(kernel);
    put(&t, kernel, (size_t)(line - kernel));
    for (int seen = 0; line < end;) {
        const char *next = strchr(line, '\n'), *word = line + strspn(line, " \t");
        next = next ? next + 1 : end;
        if (strncmp(word, m->opcode, strlen(m->opcode)) == 0 && (m->which == ALL || seen++ == m->which)) {
            put_changed(&t, m, line, next);
        } else {
            put(&t, line, (size_t)(next - line));
        }
        line = next;
    }
    put(&t, end, strlen(end) + 1);
    return result;
}

/* Prints what each timing shows: a fault (f), wrong numbers (#) or nothing (.). */
static void expect_caught(const char *kernel, const gemm_case *gemm, const mutant *m, bool races)
{
    char *changed = mutate(kernel, gemm->entry, m), first[1024] = "", times[TIMINGS + 1] = "";
    SIM_CHECK(changed && strcmp(changed, kernel) != 0, "%s: %s: the text did not change", gemm->entry, m->name);
    bool caught = false;
    for (uint32_t t = 0; changed && t < TIMINGS; t++) {
        char what[1024] = "";
        sim_options options = options_of(t);
        options.no_races = !races;
        gemm_result result = gemm_run(changed, gemm, &options, what, sizeof what);
        SIM_CHECK(result != GEMM_NOT_RUN, "%s: %s: %s", gemm->entry, m->name, what);
        times[t] = ".xf#"[result];
        if (result > GEMM_NOT_RUN && !caught) {
            memcpy(first, what, sizeof first);
        }
        caught = caught || result > GEMM_NOT_RUN;
    }
    SIM_CHECK(caught, "%s: %s: not caught", gemm->entry, m->name);
    char *line = strchr(first, '\n');
    printf("  %-34s %s  %.*s\n", m->name, times, line ? (int)(line - first) : 200, first);
    free(changed);
}

/* A descriptor's constant part: see describe() in the kernel. */
#define DESCRIPTOR "4611686293305360384"

static void mutants(void)
{
    static const mutant list[] = {
        {"no fence.proxy.async", "fence.proxy.async", ALL, DROP, NULL, NULL},
        {"no wgmma.fence", "wgmma.fence", ALL, DROP, NULL, NULL},
        {"no wgmma.wait_group", "wgmma.wait_group", ALL, DROP, NULL, NULL},
        {"no wgmma.wait_group 0", "wgmma.wait_group.sync.aligned 0", ALL, DROP, NULL, NULL},
        {"wgmma.wait_group 2", "wgmma.wait_group.sync.aligned 1", ALL, REPLACE, "aligned 1", "aligned 2"},
        {"no wgmma.commit_group", "wgmma.commit_group", ALL, DROP, NULL, NULL},
        {"no bulk wait_group.read", "cp.async.bulk.wait_group.read", ALL, DROP, NULL, NULL},
        {"no bulk wait_group at the end", "cp.async.bulk.wait_group 0", ALL, DROP, NULL, NULL},
        {"no bulk commit_group", "cp.async.bulk.commit_group", ALL, DROP, NULL, NULL},
        {"expects 16 bytes too few", "mbarrier.arrive.expect_tx", ALL, LAST_OPERAND, NULL, "32752"},
        {"expects 16 bytes too many", "mbarrier.arrive.expect_tx", ALL, LAST_OPERAND, NULL, "32784"},
        {"expects nothing", "mbarrier.arrive.expect_tx", ALL, LAST_OPERAND, NULL, "0"},
        {"producer never waits", "mbarrier.try_wait", 0, LAST_OPERAND, NULL, "1"},
        {"consumer's parity is always 0", "mbarrier.try_wait", 1, LAST_OPERAND, NULL, "0"},
        {"consumer's parity is always 1", "mbarrier.try_wait", 1, LAST_OPERAND, NULL, "1"},
        {"no release of a stage", "mbarrier.arrive.shared", ALL, DROP, NULL, NULL},
        {"one consumer empties a stage", "mbarrier.init", 1, LAST_OPERAND, NULL, "1"},
        {"three consumers empty a stage", "mbarrier.init", 1, LAST_OPERAND, NULL, "3"},
        {"two producers fill a stage", "mbarrier.init", 0, LAST_OPERAND, NULL, "2"},
        {"no bar.sync behind the init", "bar.sync \t0", ALL, DROP, NULL, NULL},
        {"no bar.sync of consumer 0", "bar.sync 1", ALL, DROP, NULL, NULL},
        {"no bar.sync before the boxes", "bar.sync 1", 0, DROP, NULL, NULL},
        {"no bar.sync behind the boxes", "bar.sync 2", 1, DROP, NULL, NULL},
        {"bar.sync of 256 threads", "bar.sync 1", 0, REPLACE, "128", "256"},
        {"bar.sync of the other consumer", "bar.sync 2", 0, REPLACE, "2, 128", "1, 128"},
        {"64-byte swizzle in descriptors", "or.b64", ALL, REPLACE, DESCRIPTOR, "9223372311732748288"},
        {"no swizzle in descriptors", "or.b64", ALL, REPLACE, DESCRIPTOR, "274877972480"},
        {"8 rows are 512 bytes", "or.b64", ALL, REPLACE, DESCRIPTOR, "4611686155866406912"},
        {"load coordinates swapped", "cp.async.bulk.tensor.2d.shared::cluster", 0, SWAP_COORDINATES, NULL, NULL},
        {"store coordinates swapped", "cp.async.bulk.tensor.2d.global", 0, SWAP_COORDINATES, NULL, NULL},
        {"a box is not loaded", "cp.async.bulk.tensor.2d.shared::cluster", 1, DROP, NULL, NULL},
        {"a box is not stored", "cp.async.bulk.tensor.2d.global", 1, DROP, NULL, NULL},
        {"B is transposed", "wgmma.mma_async", 2, REPLACE, "1, 1, 0, 0", "1, 1, 0, 1"},
        {"a product is missing", "wgmma.mma_async", 3, DROP, NULL, NULL},
        {"boxes are transposed", "stmatrix", 4, REPLACE, "x4.shared", "x4.trans.shared"},
    };
    static const gemm_case gemm = {"gemm_sm90", 1, 1, 256, 128, 320};
    char *kernel = kernel_text();
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        expect_caught(kernel, &gemm, &list[i], true);
    }
    free(kernel);
}

static void mutants_of_the_pair(void)
{
    static const mutant list[] = {
        {"no cluster barrier at the start", "barrier.cluster", 0, DROP, NULL, NULL},
        {"no wait for the cluster", "barrier.cluster.wait", 0, DROP, NULL, NULL},
        {"only the own stage is released", "mapa", ALL, LAST_OPERAND, NULL, "0"},
        {"two consumers empty a stage", "mbarrier.init", 1, LAST_OPERAND, NULL, "2"},
        {"B is for the first block only",
         "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::"
         "bytes.multicast",
         ALL, LAST_OPERAND, NULL, "1"},
        {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", ALL, DROP, NULL, NULL},
        {"no fence.proxy.async", "fence.proxy.async", ALL, DROP, NULL, NULL},
        {"no release of a stage", "mbarrier.arrive.release", ALL, DROP, NULL, NULL},
    };
    static const gemm_case gemm = {"gemm_sm90_pair", 2, 2, 256, 256, 320};
    char *kernel = kernel_text();
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        expect_caught(kernel, &gemm, &list[i], true);
    }
    free(kernel);
}

/* What waits for nothing is wrong by its numbers too where copies and products come late: no race check needed. */
static void late_mutants(void)
{
    static const mutant reads = {"no bulk wait_group.read", "cp.async.bulk.wait_group.read", ALL, DROP, NULL, NULL};
    static const mutant boxes = {"no bar.sync before the boxes", "bar.sync 1", 0, DROP, NULL, NULL};
    static const mutant products = {"no wgmma.wait_group 1", "wgmma.wait_group.sync.aligned 1", ALL, DROP, NULL, NULL};
    char *kernel = kernel_text();
    expect_caught(kernel, &(gemm_case){"gemm_sm90", 1, 1, 256, 128, 320}, &reads, false);
    expect_caught(kernel, &(gemm_case){"gemm_sm90", 1, 1, 256, 128, 320}, &boxes, false);
    expect_caught(kernel, &(gemm_case){"gemm_sm90_pair", 2, 2, 256, 256, 320}, &products, false);
    free(kernel);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"right_numbers", right_numbers},
                                       {"mutants", mutants},
                                       {"mutants_of_the_pair", mutants_of_the_pair},
                                       {"late_mutants", late_mutants}};
    return SIM_MAIN("gemm_sm90", groups);
}
