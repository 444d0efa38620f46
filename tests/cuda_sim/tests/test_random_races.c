/* Random straight programs of four warps over little shared memory: the race check must stop exactly those in which two
 * accesses race, as found by comparing each with each, byte by byte. What exec/shadow.c takes together, splits and
 * joins is met in every order that way. */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

enum { WARPS = 4, LANES = 32, THREADS = WARPS * LANES, MEMORY = 1024, STEPS = 12, PROGRAMS = 6000 };

/* COPY: cp.async, a wait for it, and bar.warp.sync: what one lane has waited for, the others' copies may know. */
typedef enum kind { READ, WRITE, COPY, MATRICES, WARP_SYNC, BLOCK_SYNC } kind;
typedef enum who { ALL, FIRST_WARP, LAST_WARPS, ONE, ODD } who;

typedef struct step {
    kind kind;
    uint32_t size, stride, offset, mask; /* of a thread: `size` bytes at (thread * stride + offset) & mask */
    who who;
    uint32_t thread;                  /* ONE */
    uint32_t block_phase, warp_phase; /* barriers of the block, of a warp, before it */
} step;

typedef struct program {
    step step[STEPS];
    uint64_t random;
} program;

/* xorshift64*, Vigna 2016. */
static uint32_t below(program *p, uint32_t limit)
{
    p->random ^= p->random >> 12;
    p->random ^= p->random << 25;
    p->random ^= p->random >> 27;
    return (uint32_t)((p->random * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % limit;
}

static bool is_sync(const step *s)
{
    return s->kind >= WARP_SYNC;
}

static void choose_access(program *p, step *s)
{
    static const kind kinds[] = {READ, READ, READ, WRITE, WRITE, COPY, MATRICES};
    static const uint32_t masks[] = {63, 255, MEMORY - 1, MEMORY - 1, MEMORY - 1};
    s->kind = kinds[below(p, 7)];
    s->size = s->kind == MATRICES ? 16 : s->kind == COPY ? 4u << below(p, 3) : 1u << below(p, 5);
    const uint32_t strides[] = {0, s->size, s->size, s->size, 16, 16, 2 * s->size, 4};
    s->stride = strides[below(p, 8)];
    s->mask = masks[below(p, 5)];
    s->offset = below(p, 3) ? 0 : below(p, MEMORY);
    s->who = s->kind == MATRICES ? (who)below(p, 3) : (who)below(p, 5);
    s->thread = below(p, THREADS);
}

/* Where the one before was, so that not every program races. */
static void choose_again(program *p, step *s, const step *before)
{
    const uint32_t size = s->size;
    step again = *before;
    again.kind = s->kind == MATRICES ? READ : s->kind;
    again.size = size < before->size && again.kind != COPY ? size : before->size;
    again.kind = again.kind == COPY && again.size < 4 ? WRITE : again.kind;
    again.offset += before->who == ALL && !below(p, 4) ? before->size : 0;
    *s = again;
}

static bool takes_part(const step *s, uint32_t thread)
{
    switch (s->who) {
    case ALL:
        return true;
    case FIRST_WARP:
        return thread < LANES;
    case LAST_WARPS:
        return thread >= LANES;
    case ONE:
        return thread == s->thread;
    default:
        return thread % 2;
    }
}

static uint32_t place(const step *s, uint32_t thread)
{
    return (thread * s->stride + s->offset) & s->mask & ~(s->size - 1);
}

/* Copies of one instruction to one place race or not as they belong to one group of copies or to several. */
static bool overlaps_itself(const step *s)
{
    for (uint32_t t = 0; t < THREADS; t++) {
        for (uint32_t u = 0; u < t; u++) {
            if (takes_part(s, t) && takes_part(s, u) && place(s, t) == place(s, u)) {
                return true;
            }
        }
    }
    return false;
}

static void choose(program *p)
{
    uint32_t block = 0, warp = 0;
    const step *before = NULL;
    for (uint32_t k = 0; k < STEPS; k++) {
        step *s = &p->step[k];
        *s = (step){.kind = BLOCK_SYNC};
        const uint32_t dice = below(p, 12);
        if (dice == 0) {
            s->kind = WARP_SYNC;
        } else if (dice > 6 || !before || k == STEPS - 1) {
            choose_access(p, s);
            if (before && before->kind != MATRICES && below(p, 2)) {
                choose_again(p, s, before);
            }
            s->kind = s->kind == COPY && overlaps_itself(s) ? WRITE : s->kind;
            before = s;
        }
        s->block_phase = block;
        s->warp_phase = warp;
        block += s->kind == BLOCK_SYNC;
        warp += s->kind >= WARP_SYNC || s->kind == COPY;
    }
}

/* --- what must be found --- */

/* The lanes of each warp whose accesses a byte has seen in one step; a warp's matrices are read for all its lanes. */
typedef struct lanes {
    uint32_t of[WARPS];
} lanes;

static void touch(const step *s, lanes *by)
{
    memset(by, 0, MEMORY * sizeof *by);
    for (uint32_t t = 0; t < THREADS; t++) {
        for (uint32_t b = 0; takes_part(s, t) && b < s->size; b++) {
            by[place(s, t) + b].of[t / LANES] |= s->kind == MATRICES ? UINT32_MAX : UINT32_C(1) << t % LANES;
        }
    }
}

/* Are there two threads, one of `a` and one of `b`, that are not ordered? */
static bool unordered(const step *a, const step *b, const lanes *by_a, const lanes *by_b)
{
    const bool in_step = a == b || a->warp_phase != b->warp_phase; /* lanes of a warp are ordered */
    for (uint32_t w = 0; w < WARPS && a->block_phase == b->block_phase; w++) {
        for (uint32_t v = 0; v < WARPS; v++) {
            const uint32_t x = by_a->of[w], y = by_b->of[v];
            if (x && y && (v != w || (!in_step && ((x | y) & ((x | y) - 1))))) {
                return true;
            }
        }
    }
    return false;
}

static bool writes(const step *s)
{
    return s->kind == WRITE || s->kind == COPY;
}

static bool must_race(const program *p)
{
    static lanes by[STEPS][MEMORY];
    for (uint32_t b = 0; b < STEPS; b++) {
        const step *second = &p->step[b];
        if (is_sync(second)) {
            continue;
        }
        touch(second, by[b]);
        for (uint32_t a = 0; a <= b; a++) {
            const step *first = &p->step[a];
            const bool matters = !is_sync(first) && (writes(first) || writes(second));
            for (uint32_t byte = 0; matters && byte < MEMORY; byte++) {
                if (unordered(first, second, &by[a][byte], &by[b][byte])) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* --- its text --- */

static const char *guard_of(const step *s, char *text, size_t size)
{
    static const char *const guards[] = {"setp.lt.u32 p, t, 128; ", "setp.lt.u32 p, t, 32; ", "setp.ge.u32 p, t, 32; "};
    if (s->who == ONE) {
        snprintf(text, size, "setp.eq.u32 p, t, %u; ", s->thread);
    } else {
        snprintf(text, size, "%s", s->who == ODD ? "and.b32 x, t, 1; setp.ne.u32 p, x, 0; " : guards[s->who]);
    }
    return text;
}

static size_t write_step(const step *s, char *text, size_t size)
{
    static const char *const loads[] = {"b8 x, [at]", "b16 x, [at]", "b32 x, [at]", "v2.b32 {x, y}, [at]",
                                        "v4.b32 {x, y, u, v}, [at]"};
    static const char *const stores[] = {"b8 [at], z", "b16 [at], z", "b32 [at], z", "v2.b32 [at], {z, z}",
                                         "v4.b32 [at], {z, z, z, z}"};
    if (is_sync(s)) {
        return (size_t)snprintf(text, size, s->kind == WARP_SYNC ? "bar.warp.sync 0xffffffff;\n" : "bar.sync 0;\n");
    }
    char guard[64];
    const uint32_t which = (uint32_t)__builtin_ctz(s->size);
    size_t at =
        (size_t)snprintf(text, size, "%smad.lo.u32 at, t, %u, %u; and.b32 at, at, %u; add.u32 at, at, base;\n@p ",
                         guard_of(s, guard, sizeof guard), s->stride, s->offset, s->mask & ~(s->size - 1));
    switch (s->kind) {
    case READ:
        return at + (size_t)snprintf(text + at, size - at, "ld.shared.%s;\n", loads[which]);
    case WRITE:
        return at + (size_t)snprintf(text + at, size - at, "st.shared.%s;\n", stores[which]);
    case COPY:
        return at + (size_t)snprintf(
                        text + at, size - at,
                        "cp.async.ca.shared.global [at], [g], %u;\n@p cp.async.wait_all; bar.warp.sync 0xffffffff;\n",
                        s->size);
    default:
        return at +
               (size_t)snprintf(text + at, size - at, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {x, y, u, v}, [at];\n");
    }
}

static void write_program(const program *p, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size,
                                 ".shared .align 128 .b8 s[%d]; .reg .b32 t, base, at, x, y, u, v, z; .reg .pred p;\n"
                                 "mov.u32 t, %%tid.x; mov.u32 base, s; mov.b32 z, 7;\n",
                                 MEMORY);
    for (uint32_t k = 0; k < STEPS; k++) {
        at += write_step(&p->step[k], text + at, size - at);
    }
}

static void programs(void)
{
    static const sim_timing timings[] = {SIM_EAGER, SIM_LATE, SIM_SEEDED};
    uint32_t racing = 0;
    sim_tester.options.no_undefined = true;
    sim_tester.options.threads = 1;
    for (uint32_t k = 0; k < PROGRAMS; k++) {
        program p = {.random = k + 1};
        char text[8192];
        choose(&p);
        write_program(&p, text, sizeof text);
        sim_tester.options.timing = timings[k % 3];
        sim_tester.options.seed = k;
        const bool ran = sim_test_run(text, 1, THREADS), must = must_race(&p);
        const bool right = must ? !ran && sim_tester.fault.kind == SIM_FAULT_RACE : ran;
        SIM_CHECK(right, "program %u: %s\n%s", k, ran ? "races" : sim_tester.fault.text, right ? "" : text);
        racing += must;
    }
    SIM_CHECK(racing > PROGRAMS / 8 && racing < PROGRAMS * 7 / 8, "%u of %d programs race", racing, PROGRAMS);
    sim_tester.options = (sim_options){0};
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"programs", programs}};
    return SIM_MAIN("random_races", groups);
}
