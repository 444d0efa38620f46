/* warp.c - the loop that runs a warp, and where its lanes are. */
#include "sim.h"
#include <string.h>
#include <time.h>

/* A split that runs this long while others could run gives its turn away: it may spin on what they would do. */
enum { TURN = 8192 };

void sim_wake(sim_cluster *cluster)
{
    cluster->events++;
}

/* --- splits --- */

void sim_move(sim_warp *warp, uint32_t lanes, uint32_t target)
{
    sim_split *split = &warp->split[warp->current];
    if (lanes == split->mask) {
        split->pc = target;
    } else if (lanes) {
        split->mask &= ~lanes;
        warp->split[warp->split_count++] = (sim_split){.pc = target, .mask = lanes};
    }
}

void sim_branch(sim_warp *warp, uint32_t mask, uint32_t target)
{
    sim_split *split = &warp->split[warp->current];
    if (mask == split->mask) {
        split->pc = target;
        return;
    }
    sim_move(warp, mask, target);
    split->pc++;
}

void sim_exit(sim_warp *warp, uint32_t mask)
{
    sim_split *split = &warp->split[warp->current];
    split->mask &= ~mask;
    split->pc++;
    warp->live &= ~mask;
    for (uint32_t i = 0; i < warp->split_count; i++) {
        warp->split[i].waiting = false; /* who waits for these lanes need not any more */
    }
    sim_barriers_warp_exited(warp, mask);
}

/* In the order of their pcs; those that met are one, those without lanes are gone. */
static void settle(sim_warp *warp)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < warp->split_count; i++) {
        sim_split split = warp->split[i];
        if (!split.mask) {
            continue;
        }
        uint32_t at = count;
        while (at > 0 && warp->split[at - 1].pc > split.pc) {
            at--;
        }
        if (at > 0 && warp->split[at - 1].pc == split.pc) {
            warp->split[at - 1].mask |= split.mask;
            warp->split[at - 1].waiting = false;
            warp->pinned = 0;
            continue;
        }
        memmove(&warp->split[at + 1], &warp->split[at], (count - at) * sizeof split);
        warp->split[at] = split;
        count++;
    }
    warp->split_count = count;
}

static bool can_run(const sim_warp *warp, const sim_split *split)
{
    return !split->waiting || split->seen != warp->block->cluster->events;
}

/* Makes the split whose turn it is the current one; false: none can run. */
static bool choose(sim_warp *warp)
{
    for (uint32_t i = 0; warp->pinned && i < warp->split_count; i++) {
        if ((warp->split[i].mask & warp->pinned) && can_run(warp, &warp->split[i])) {
            warp->current = i;
            return true;
        }
    }
    warp->pinned = 0;
    for (uint32_t i = 0; i < warp->split_count; i++) {
        if (can_run(warp, &warp->split[i])) {
            warp->current = i;
            return true;
        }
    }
    return false;
}

/* The turn goes to the next split behind the one that holds `lane`. */
static void give_turn(sim_warp *warp, uint32_t lane)
{
    uint32_t from = 0;
    while (from < warp->split_count && !(warp->split[from].mask & lane)) {
        from++;
    }
    warp->streak = 0;
    for (uint32_t k = 1; k < warp->split_count; k++) {
        sim_split *split = &warp->split[(from + k) % warp->split_count];
        if (can_run(warp, split)) {
            warp->pinned = split->mask & -split->mask;
            return;
        }
    }
    warp->pinned = 0;
}

sim_next sim_converge(sim_warp *warp, const ptx_insn *insn, uint32_t mask, uint32_t wanted)
{
    uint32_t missing = wanted & warp->live & ~mask;
    if (!missing) {
        return SIM_NEXT;
    }
    bool may_come = false;
    for (uint32_t i = 0; i < warp->split_count; i++) {
        const sim_split *split = &warp->split[i];
        bool stuck = split->waiting && split->converging;
        may_come |= i != warp->current && split->mask && !stuck;
    }
    /* Lanes that the guard keeps out go on behind this instruction. */
    may_come |= (warp->split[warp->current].mask & ~mask) != 0;
    if (may_come) {
        warp->split[warp->current].converging = true;
        return SIM_WAIT;
    }
    return sim_fault_at(warp, insn, __builtin_ctz(mask), SIM_FAULT_DIVERGENT,
                        "divergent: lanes 0x%08x are here, lanes 0x%08x will never come", mask, missing);
}

sim_next sim_converge_members(sim_warp *warp, const ptx_insn *insn, uint32_t mask, const uint32_t *members)
{
    sim_next all = SIM_NEXT;
    for (uint32_t rest = mask; rest && all != SIM_FAULT;) {
        uint32_t lane = (uint32_t)__builtin_ctz(rest), wanted = members[lane], alike = 0;
        SIM_FOR_LANES(other, rest)
        {
            alike |= members[other] == wanted ? UINT32_C(1) << other : 0;
        }
        rest &= ~alike;
        uint32_t strangers = (alike & ~wanted) | (wanted & mask & ~alike);
        if (strangers) {
            return sim_fault_at(warp, insn, __builtin_ctz(strangers), SIM_FAULT_DIVERGENT,
                                "lanes 0x%08x name 0x%08x as their members", alike, wanted);
        }
        sim_next next = sim_converge(warp, insn, mask, wanted);
        all = next == SIM_NEXT ? all : next;
    }
    return all;
}

/* --- running --- */

static sim_next undefined_register(sim_warp *warp, const ptx_insn *insn, uint32_t mask, bool reads)
{
    uint32_t count = reads ? insn->read_count : insn->write_count;
    const uint32_t *list = reads ? insn->reads : insn->writes;
    for (uint32_t r = 0; r < count; r++) {
        uint32_t lanes = warp->in_flight ? mask & warp->in_flight[list[r]] : 0;
        if (lanes) {
            return sim_fault_at(warp, insn, __builtin_ctz(lanes), SIM_FAULT_ASYNC,
                                "%s is %s while a wgmma that was not waited for owns it",
                                sim_function(warp)->register_name[list[r]], reads ? "read" : "written");
        }
        lanes = reads ? mask & ~warp->defined[list[r]] : 0;
        if (lanes) {
            return sim_fault_at(warp, insn, __builtin_ctz(lanes), SIM_FAULT_UNDEFINED,
                                "%s is read but was never written", sim_function(warp)->register_name[list[r]]);
        }
    }
    return SIM_NEXT;
}

/* The clocks stand still but for an instruction that may read them. */
static void move_clocks(sim_warp *warp, uint64_t instructions)
{
    const ptx_function *function = sim_function(warp);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    for (uint32_t i = 0; i < function->special_count; i++) {
        ptx_special special = function->special[i].special;
        if (special < PTX_CLOCK) {
            continue;
        }
        bool timer = special >= PTX_GLOBALTIMER, high = special == PTX_CLOCK_HI || special == PTX_GLOBALTIMER_HI;
        uint64_t value = (timer ? ns : instructions) >> (high ? 32 : 0);
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            if (special == PTX_CLOCK64 || special == PTX_GLOBALTIMER) {
                sim_u64(warp, function->special[i].slot)[l] = value;
            } else {
                sim_u32(warp, function->special[i].slot)[l] = (uint32_t)value;
            }
        }
    }
}

/* What the loop below looks at in every instruction. */
typedef struct loop {
    sim_warp *warp;
    const ptx_function *function;
    uint64_t threads; /* thread instructions so far */
    uint32_t budget;
    bool check, seeded, clocks;
} loop;

static inline bool touches_in_flight(const sim_warp *warp, const uint32_t *list, uint32_t count, uint32_t mask)
{
    uint32_t lanes = 0;
    for (uint32_t r = 0; r < count; r++) {
        lanes |= warp->in_flight[list[r]];
    }
    return (lanes & mask) != 0;
}

static inline bool may_run(const loop *l, const ptx_insn *insn, uint32_t mask)
{
    const uint32_t *defined = l->warp->defined;
    uint32_t lanes = ~UINT32_C(0);
    for (uint32_t r = 0; r < insn->read_count; r++) {
        lanes &= defined[insn->reads[r]];
    }
    return !(mask & ~lanes) &&
           (!l->warp->in_flight || !touches_in_flight(l->warp, insn->writes, insn->write_count, mask));
}

static inline void note_uses(const sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    for (uint32_t r = 0; r < insn->write_count; r++) {
        warp->defined[insn->writes[r]] |= mask;
    }
    if (warp->unfenced) {
        for (uint32_t r = 0; r < insn->write_count; r++) {
            warp->unfenced[insn->writes[r]] |= mask;
        }
        for (uint32_t r = 0; r < insn->read_count; r++) {
            warp->unfenced[insn->reads[r]] |= mask;
        }
    }
}

static inline sim_next check(const loop *l, const ptx_insn *insn, uint32_t mask)
{
    if (may_run(l, insn, mask)) {
        return SIM_NEXT;
    }
    sim_next read = undefined_register(l->warp, insn, mask, true);
    return read == SIM_FAULT ? read : undefined_register(l->warp, insn, mask, false);
}

/* Lanes of `mask` for which the guard holds; false after a fault. */
static inline bool guarded(const loop *l, const ptx_insn *insn, uint32_t *mask)
{
    if (insn->guard == PTX_NO_GUARD) {
        return true;
    }
    uint32_t missing = l->check ? *mask & ~l->warp->defined[insn->guard_reg] : 0;
    if (missing) {
        sim_fault_at(l->warp, insn, __builtin_ctz(missing), SIM_FAULT_UNDEFINED, "its guard %s was never written",
                     l->function->register_name[insn->guard_reg]);
        return false;
    }
    uint32_t holds = *sim_pred(l->warp, insn->guard);
    *mask &= insn->guard_negated ? ~holds : holds;
    return true;
}

static inline sim_next run_one(loop *l, const ptx_insn *insn, uint32_t mask)
{
    if (l->check && check(l, insn, mask) == SIM_FAULT) {
        return SIM_FAULT;
    }
    sim_next next = insn->run(l->warp, insn, mask);
    if (next == SIM_NEXT || next == SIM_YIELD) {
        note_uses(l->warp, insn, mask);
    }
    return next;
}

/* The current split until it meets another (at `stop`), moves out of line, waits, or the budget is spent. */
static sim_next run_split(loop *l)
{
    sim_warp *warp = l->warp;
    sim_split *split = &warp->split[warp->current];
    uint32_t stop = warp->current + 1 < warp->split_count ? split[1].pc : UINT32_MAX;
    stop = stop < l->function->insn_count ? stop : l->function->insn_count;
    while (l->budget) {
        if (split->pc >= l->function->insn_count) {
            sim_exit(warp, split->mask); /* the end of the text is a ret */
            return SIM_MOVED;
        }
        const ptx_insn *insn = &l->function->insn[split->pc];
        uint32_t mask = split->mask;
        if (l->clocks) {
            move_clocks(warp, warp->block->cluster->worker->instructions - l->budget);
        }
        if (!guarded(l, insn, &mask)) {
            return SIM_FAULT;
        }
        sim_next next = mask ? run_one(l, insn, mask) : SIM_NEXT;
        if (next == SIM_WAIT) {
            if (mask != split->mask) {
                sim_move(warp, split->mask & ~mask, split->pc + 1);
            }
            return next;
        }
        l->budget--;
        l->threads += mask == ~UINT32_C(0) ? PTX_LANES : (uint32_t)__builtin_popcount(mask);
        if (next == SIM_FAULT) {
            return next;
        }
        if (l->seeded && sim_async_tick(warp->block->cluster) == SIM_FAULT) {
            return SIM_FAULT;
        }
        if (next == SIM_MOVED) {
            if (warp->split_count == 1 && split->mask) {
                continue;
            }
            return next;
        }
        split->pc++;
        if (next == SIM_YIELD || split->pc == stop) {
            return next;
        }
    }
    return SIM_NEXT;
}

static sim_next warp_ends(sim_warp *warp)
{
    sim_block *block = warp->block;
    warp->split_count = 0;
    if (sim_registers_warp_ends(warp) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (--block->live_warps == 0) {
        block->cluster->live_blocks--;
        if (sim_async_block_ends(block) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_MOVED;
}

static sim_next run_splits(loop *l)
{
    sim_warp *warp = l->warp;
    while (l->budget) {
        if (!choose(warp)) {
            return SIM_WAIT;
        }
        sim_split *split = &warp->split[warp->current];
        split->waiting = split->converging = false;
        uint32_t lane = split->mask & -split->mask, before = l->budget;
        sim_next next = run_split(l);
        if (next == SIM_FAULT) {
            return next;
        }
        if (next == SIM_WAIT) {
            split->waiting = true;
            split->seen = warp->block->cluster->events;
        }
        if (!warp->live) {
            return warp_ends(warp);
        }
        if (warp->split_count == 1 && next != SIM_WAIT) {
            if (next == SIM_YIELD) {
                return next;
            }
            continue;
        }
        settle(warp);
        warp->streak += before - l->budget;
        if (next == SIM_YIELD || warp->streak >= TURN) {
            give_turn(warp, lane);
        }
        if (next == SIM_YIELD) {
            return next;
        }
    }
    return SIM_NEXT;
}

sim_next sim_warp_run(sim_warp *warp, uint32_t budget)
{
    sim_worker *worker = warp->block->cluster->worker;
    loop l = {.warp = warp,
              .function = sim_function(warp),
              .budget = budget,
              .check = !sim_opts(warp)->no_undefined,
              .seeded = sim_opts(warp)->timing == SIM_SEEDED,
              .clocks = worker->run->uses_clocks};
    sim_next next = run_splits(&l);
    worker->instructions += budget - l.budget;
    worker->counters.warp_instructions += budget - l.budget;
    worker->counters.thread_instructions += l.threads;
    return next;
}
