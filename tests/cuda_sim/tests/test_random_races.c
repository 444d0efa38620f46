/* Random programs of four warps over little shared memory: the race check must stop exactly those in which two accesses
 * race, as found by comparing each with each, byte by byte. What exec/shadow.c takes together, splits and joins, and
 * what exec/order.c tells apart by lanes, is met in every order that way. */
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

enum { WARPS = 4, LANES = 32, THREADS = WARPS * LANES, MEMORY = 1024, STEPS = 12, PROGRAMS = 6000 };

/* COPY: cp.async and a wait for it. HANDOVER: some lanes of a warp arrive at an mbarrier that lanes of another, or all,
 * wait for.
 */
typedef enum kind { READ, WRITE, COPY, MATRICES, HANDOVER, WARP_SYNC, BLOCK_SYNC } kind;
typedef enum who { ALL, FIRST_WARP, LAST_WARPS, ONE, ODD } who;

typedef struct step {
    kind kind;
    uint32_t size, stride, offset, mask; /* of a thread: `size` bytes at (thread * stride + offset) & mask */
    who who;
    uint32_t thread;          /* ONE */
    uint32_t from, to;        /* HANDOVER: warps */
    uint32_t tellers, askers; /* and lanes of theirs */
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
    return s->kind >= HANDOVER;
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
    static const uint32_t tellers[] = {1, 1, 0x80, 0x55555555, UINT32_MAX};
    const step *before = NULL;
    for (uint32_t k = 0; k < STEPS; k++) {
        step *s = &p->step[k];
        *s = (step){.kind = BLOCK_SYNC};
        const uint32_t dice = below(p, 12);
        if (dice == 0) {
            s->kind = WARP_SYNC;
        } else if (dice <= 4) {
            *s = (step){.kind = HANDOVER,
                        .from = below(p, WARPS),
                        .to = below(p, WARPS),
                        .tellers = tellers[below(p, 5)],
                        .askers = below(p, 3) ? UINT32_MAX : 4};
        } else if (dice > 6 || !before || k == STEPS - 1) {
            choose_access(p, s);
            if (before && before->kind != MATRICES && below(p, 2)) {
                choose_again(p, s, before);
            }
            s->kind = s->kind == COPY && overlaps_itself(s) ? WRITE : s->kind;
            before = s;
        }
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

/* known[t][u]: how many steps of thread u are in the past of t. */
typedef struct past {
    uint8_t known[THREADS][THREADS];
} past;

static void learn(past *p, uint32_t thread, const uint8_t *of)
{
    for (uint32_t u = 0; u < THREADS; u++) {
        p->known[thread][u] = p->known[thread][u] > of[u] ? p->known[thread][u] : of[u];
    }
}

/* Threads first to last - 1, those of `tellers` a warp, tell threads to to end - 1, those of `askers`. */
static void tell(past *p, uint32_t first, uint32_t last, uint32_t tellers, uint32_t to, uint32_t end, uint32_t askers)
{
    uint8_t all[THREADS] = {0};
    for (uint32_t t = first; t < last; t++) {
        for (uint32_t u = 0; u < THREADS && (tellers >> t % LANES & 1); u++) {
            all[u] = all[u] > p->known[t][u] ? all[u] : p->known[t][u];
        }
    }
    for (uint32_t t = to; t < end; t++) {
        if (askers >> t % LANES & 1) {
            learn(p, t, all);
        }
    }
}

/* What happens to `p` in the k-th step. */
static void pass(past *p, const step *s, uint32_t k)
{
    for (uint32_t t = 0; t < THREADS; t++) {
        p->known[t][t] = (uint8_t)(k + 1);
    }
    if (s->kind == BLOCK_SYNC) {
        tell(p, 0, THREADS, UINT32_MAX, 0, THREADS, UINT32_MAX);
    } else if (s->kind == HANDOVER) {
        tell(p, s->from * LANES, (s->from + 1) * LANES, s->tellers, s->to * LANES, (s->to + 1) * LANES, s->askers);
    }
    for (uint32_t w = 0; w < THREADS && s->kind == WARP_SYNC; w += LANES) {
        tell(p, w, w + LANES, UINT32_MAX, w, w + LANES, UINT32_MAX);
    }
}

/* Lanes of warp w whose a-th step is in the past of lane `lane` of warp v, or is that lane's own. */
static uint32_t lanes_known(const past *p, uint32_t a, uint32_t w, uint32_t v, uint32_t lane)
{
    uint32_t known = 0;
    for (uint32_t t = 0; t < LANES; t++) {
        known |= (uint32_t)(p->known[v * LANES + lane][w * LANES + t] > a) << t;
    }
    return known;
}

/* What threads do not know, of the accesses in the a-th step, before the b-th: unknown[w][u], a bit a lane of w. */
static void find_unknown(const past *before, uint32_t a, uint32_t b, uint32_t unknown[WARPS][THREADS])
{
    for (uint32_t w = 0; w < WARPS; w++) {
        for (uint32_t u = 0; u < THREADS; u++) {
            const bool same = u / LANES == w;
            const uint32_t own = same ? UINT32_C(1) << u % LANES : 0;
            unknown[w][u] = same && a == b ? 0 : ~(lanes_known(before, a, w, u / LANES, u % LANES) | own);
        }
    }
}

/* Are there two threads, one of `a` and one of `b`, that are not ordered? */
static bool unordered(uint32_t unknown[WARPS][THREADS], const lanes *by_a, const lanes *by_b)
{
    for (uint32_t v = 0; v < WARPS; v++) {
        for (uint32_t left = by_b->of[v]; left; left &= left - 1) {
            const uint32_t u = v * LANES + (uint32_t)__builtin_ctz(left);
            for (uint32_t w = 0; w < WARPS; w++) {
                if (by_a->of[w] & unknown[w][u]) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool writes(const step *s)
{
    return s->kind == WRITE || s->kind == COPY;
}

static bool steps_race(const past *before, const step *steps, uint32_t a, uint32_t b, const lanes by[STEPS][MEMORY])
{
    uint32_t unknown[WARPS][THREADS];
    if (is_sync(&steps[a]) || !(writes(&steps[a]) || writes(&steps[b]))) {
        return false;
    }
    find_unknown(before, a, b, unknown);
    for (uint32_t byte = 0; byte < MEMORY; byte++) {
        if (unordered(unknown, &by[a][byte], &by[b][byte])) {
            return true;
        }
    }
    return false;
}

static bool must_race(const program *p)
{
    static lanes by[STEPS][MEMORY];
    past now = {0};
    for (uint32_t b = 0; b < STEPS; b++) {
        if (!is_sync(&p->step[b])) {
            touch(&p->step[b], by[b]);
        }
        for (uint32_t a = 0; a <= b && !is_sync(&p->step[b]); a++) {
            if (steps_race(&now, p->step, a, b, by)) {
                return true;
            }
        }
        pass(&now, &p->step[b], b);
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

/* The lanes come together behind it, without meeting. */
static size_t write_handover(const step *s, uint32_t k, char *text, size_t size)
{
    static const char chosen[] =
        "shr.u32 x, %u, lane; and.b32 x, x, 1; setp.eq.u32 p, w, %u; setp.ne.and.u32 p, x, 0, p;";
    size_t at = (size_t)snprintf(text, size, chosen, s->tellers, s->from);
    at += (size_t)snprintf(text + at, size - at, " @p mbarrier.arrive.shared.b64 e, [m+%u];\n", 8 * k);
    at += (size_t)snprintf(text + at, size - at, chosen, s->askers, s->to);
    return at + (size_t)snprintf(text + at, size - at,
                                 " @!p bra next%u;\nwait%u: mbarrier.try_wait.parity.shared.b64 q, [m+%u], 0; @!q bra "
                                 "wait%u;\nnext%u: shfl.sync.idx.b32 v, z, 0, 31, 0xffffffff;\n",
                                 k, k, 8 * k, k, k);
}

static size_t write_step(const step *s, uint32_t k, char *text, size_t size)
{
    static const char *const loads[] = {"b8 x, [at]", "b16 x, [at]", "b32 x, [at]", "v2.b32 {x, y}, [at]",
                                        "v4.b32 {x, y, u, v}, [at]"};
    static const char *const stores[] = {"b8 [at], z", "b16 [at], z", "b32 [at], z", "v2.b32 [at], {z, z}",
                                         "v4.b32 [at], {z, z, z, z}"};
    if (s->kind == HANDOVER) {
        return write_handover(s, k, text, size);
    }
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
        return at + (size_t)snprintf(text + at, size - at,
                                     "cp.async.ca.shared.global [at], [g], %u;\n@p cp.async.wait_all;\n", s->size);
    default:
        return at +
               (size_t)snprintf(text + at, size - at, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {x, y, u, v}, [at];\n");
    }
}

static void write_program(const program *p, char *text, size_t size)
{
    size_t at = (size_t)snprintf(
        text, size,
        ".shared .align 128 .b8 s[%d]; .shared .b64 m[%d]; .reg .b32 t, w, lane, base, at, x, y, u, v, "
        "z; .reg .pred p, q; .reg .b64 e;\nmov.u32 t, %%tid.x; shr.u32 w, t, 5; mov.u32 lane, "
        "%%laneid; mov.u32 base, s; mov.b32 z, 7; setp.eq.u32 p, t, 0;\n",
        MEMORY, STEPS);
    for (uint32_t k = 0; k < STEPS; k++) {
        if (p->step[k].kind == HANDOVER) {
            at += (size_t)snprintf(text + at, size - at, "@p mbarrier.init.shared.b64 [m+%u], %d;\n", 8 * k,
                                   __builtin_popcount(p->step[k].tellers));
        }
    }
    at += (size_t)snprintf(text + at, size - at, "bar.sync 0;\n");
    for (uint32_t k = 0; k < STEPS; k++) {
        at += write_step(&p->step[k], k, text + at, size - at);
    }
}

/* Where several lanes of a warp, not all together, tell something, or some learn what others of their warp told, a race
 * may be missed (race_part, race_met), though none is invented. */
static bool is_vague(const program *p)
{
    uint32_t tellers[WARPS] = {0}, several = 0;
    for (uint32_t k = 0; k < STEPS; k++) {
        const step *s = &p->step[k];
        const bool some = s->kind == HANDOVER && s->tellers != UINT32_MAX;
        tellers[s->from] |= some ? s->tellers : 0;
        several |= tellers[s->from] & (tellers[s->from] - 1);
        several |= s->kind == HANDOVER && s->from == s->to && s->askers != UINT32_MAX; /* race_met */
    }
    return several != 0;
}

static void programs(void)
{
    static const sim_timing timings[] = {SIM_EAGER, SIM_LATE, SIM_SEEDED};
    uint32_t racing = 0, missed = 0;
    sim_test_target("sm_90", "8.0");
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
        const bool right = !must ? ran : ran ? is_vague(&p) : sim_tester.fault.kind == SIM_FAULT_RACE;
        missed += must && ran;
        SIM_CHECK(right, "program %u: %s\n%s", k, ran ? "races" : sim_tester.fault.text, right ? "" : text);
        racing += must;
    }
    SIM_CHECK(missed < PROGRAMS / 1000, "%u of %u races are missed", missed, racing);
    SIM_CHECK(racing > PROGRAMS / 8 && racing < PROGRAMS * 7 / 8, "%u of %d programs race", racing, PROGRAMS);
    sim_tester.options = (sim_options){0};
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"programs", programs}};
    return SIM_MAIN("random_races", groups);
}
