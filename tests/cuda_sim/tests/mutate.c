/* mutate.c - see mutate.h. */
#include "mutate.h"
#include "sim_test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 6, TIMINGS = 2 + SEEDS };

static sim_options options_of(const kernel_subject *subject, uint32_t time)
{
    return (sim_options){.timing = time == 0   ? SIM_EAGER
                                   : time == 1 ? SIM_LATE
                                               : SIM_SEEDED,
                         .seed = time,
                         .no_races = subject->no_races};
}

typedef struct text {
    char *at; /* where to write */
} text;

static void put(text *t, const char *from, size_t size)
{
    memcpy(t->at, from, size);
    t->at += size;
}

static void put_string(text *t, const char *from)
{
    put(t, from, strlen(from));
}

static void put_swapped(text *t, const char *line, size_t braces)
{
    const char *open = strchr(line, '{');
    for (size_t i = 0; i < braces && open; i++) {
        open = strchr(open + 1, '{');
    }
    const char *comma = open ? strchr(open, ',') : NULL;
    if (!comma) {
        put_string(t, line);
        return;
    }
    const char *end = comma + strcspn(comma + 1, ",}") + 1;
    put(t, line, (size_t)(open + 1 - line));
    put(t, comma + 1, (size_t)(end - comma - 1));
    put(t, ",", 1);
    put(t, open + 1, (size_t)(comma - open - 1));
    put_string(t, end);
}

/* The line [line, end) changed. */
static void put_changed(text *t, const mutant *m, const char *line, const char *end)
{
    char copy[4096];
    size_t size = (size_t)(end - line);
    if (m->change == MUTANT_DROP || size >= sizeof copy) {
        return;
    }
    memcpy(copy, line, size);
    copy[size] = 0;
    const char *last = strrchr(copy, ','), *found = m->find ? strstr(copy, m->find) : NULL;
    if (m->change == MUTANT_SWAP) {
        put_swapped(t, copy, m->find ? strlen(m->find) : 0);
    } else if (m->change == MUTANT_LAST_OPERAND && last) {
        put(t, copy, (size_t)(last + 1 - copy));
        put_string(t, " ");
        put_string(t, m->with);
        put_string(t, ";\n");
    } else if (m->change == MUTANT_REPLACE && found) {
        put(t, copy, (size_t)(found - copy));
        put_string(t, m->with);
        put_string(t, found + strlen(m->find));
    } else {
        put(t, copy, size);
    }
}

static const char *next_line(const char *line)
{
    const char *next = strchr(line, '\n');
    return next ? next + 1 : line + strlen(line);
}

static bool is_meant(const mutant *m, const char *line, const char *end)
{
    const char *word = line + strspn(line, " \t"), *held = m->holds ? strstr(line, m->holds) : line;
    return strncmp(word, m->opcode, strlen(m->opcode)) == 0 && held && held < end;
}

/* The kernel's text with the change, for the caller to free. */
static char *mutate(const char *kernel, const mutant *m)
{
    const char *from = kernel;
    if (m->from) {
        from = strstr(kernel, m->from);
        if (!from) {
            return NULL;
        }
        from = next_line(from);
    }
    const char *end = m->until ? strstr(from, m->until) : from + strlen(from);
    char *result = end ? malloc(2 * strlen(kernel) + 1) : NULL;
    if (!result) {
        return NULL;
    }
    int count = 0, seen = 0;
    for (const char *line = from; line < end; line = next_line(line)) {
        count += is_meant(m, line, next_line(line));
    }
    const int which = m->which == MUTANT_LAST ? count - 1 : m->which;
    text t = {result};
    put(&t, kernel, (size_t)(from - kernel));
    for (const char *line = from, *next; *line; line = next) {
        next = next_line(line);
        if (line < end && is_meant(m, line, next) && (which == MUTANT_ALL || seen++ == which)) {
            put_changed(&t, m, line, next);
        } else {
            put(&t, line, (size_t)(next - line));
        }
    }
    *t.at = 0;
    return result;
}

static void expect_caught(const kernel_subject *subject, const mutant *m)
{
    char *changed = mutate(subject->text, m), what[1024] = "", times[TIMINGS + 1] = "";
    SIM_CHECK(changed && strcmp(changed, subject->text) != 0, "%s: %s: the text did not change", subject->entry,
              m->name);
    ptx_module *module = changed ? ptx_module_load(changed, strlen(changed), what, sizeof what) : NULL;
    SIM_CHECK(module, "%s: %s: %s", subject->entry, m->name, what);
    kernel_result result = KERNEL_RIGHT;
    for (uint32_t t = 0; module && t < TIMINGS && result == KERNEL_RIGHT; t++) {
        sim_options options = options_of(subject, t);
        result =
            subject->run(ptx_module_entry(module, subject->entry), subject->problem, &options, NULL, what, sizeof what);
        times[t] = ".xf#"[result];
    }
    SIM_CHECK(result > KERNEL_NOT_RUN, "%s: %s: not caught", subject->entry, m->name);
    printf("  %-34s %-8s  %.*s\n", m->name, times, (int)strcspn(what, "\n"), what);
    ptx_module_free(module);
    free(changed);
}

void kernel_mutants(const kernel_subject *subject, const mutant *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect_caught(subject, &list[i]);
    }
}

void kernel_right(const kernel_subject *subject, const char *name)
{
    char what[1024] = "";
    ptx_module *module = ptx_module_load(subject->text, strlen(subject->text), what, sizeof what);
    SIM_CHECK(module, "%s: %s", subject->entry, what);
    for (uint32_t t = 0; module && t < TIMINGS; t++) {
        sim_options options = options_of(subject, t);
        kernel_result result =
            subject->run(ptx_module_entry(module, subject->entry), subject->problem, &options, NULL, what, sizeof what);
        SIM_CHECK(result == KERNEL_RIGHT, "%s: %s, timing %u: %s", subject->entry, name, t, what);
    }
    ptx_module_free(module);
}

void kernel_checked(const char *file, const char *entry, kernel_runner *run, const void *problem, const mutant *list,
                    size_t count)
{
    char *ptx = kernel_text(file, entry);
    const kernel_subject subject = {ptx, entry, run, problem, false};
    kernel_right(&subject, "as it is");
    kernel_mutants(&subject, list, count);
    free(ptx);
}
