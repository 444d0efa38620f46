/* run.c - a launch: clusters handed to workers, the warps of a cluster in turn, and how a launch ends. */
#include "cluster.h"
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUANTUM = 256,      /* instructions of one warp before the next one's turn */
    POLL = 64,          /* a turn of at most so many that ends in a yield was only a look */
    SLICE = 1 << 16,    /* instructions of one cluster before the next resident one's turn */
    PATIENCE = 1 << 22, /* instructions without the end of a cluster, then a further one becomes resident */
    REPORTED = 16,      /* warps in a report */
    SM_THREADS = 2048,  /* what fits on one SM */
    SM_BLOCKS = 32,
    SM_SHARED = 228 << 10,
    RESERVED_SHARED = 1024,
};
#define DEFAULT_INSTRUCTIONS (UINT64_C(1) << 36)

/* --- faults --- */

/* Of many that fault at the same time the first one speaks. */
static bool fault_begins(sim_run *run, sim_fault_kind kind)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&run->faulted, &none, 1)) {
        return false;
    }
    run->fault.kind = kind;
    return true;
}

__attribute__((format(printf, 3, 4))) static size_t append(char *text, size_t at, const char *format, ...)
{
    size_t room = sizeof((sim_fault *)NULL)->text;
    va_list list;
    va_start(list, format);
    int written = at < room ? vsnprintf(text + at, room - at, format, list) : 0;
    va_end(list);
    at += written > 0 ? (size_t)written : 0;
    return at < room ? at : room;
}

static void thread_of(const sim_warp *warp, uint32_t lane, uint32_t at[3])
{
    const uint32_t *size = warp->block->cluster->worker->run->launch->block;
    uint32_t number = warp->id * PTX_LANES + lane;
    at[0] = number % size[0];
    at[1] = number / size[0] % size[1];
    at[2] = number / size[0] / size[1];
}

sim_next sim_fault_at(sim_warp *warp, const ptx_insn *insn, int lane, sim_fault_kind kind, const char *format, ...)
{
    sim_run *run = warp->block->cluster->worker->run;
    if (!fault_begins(run, kind)) {
        return SIM_FAULT;
    }
    char *text = run->fault.text;
    const uint32_t *block = warp->block->ctaid;
    size_t at = append(text, 0, "%s, line %u, %s: block (%u,%u,%u), ", run->function->name, insn->line, insn->text,
                       block[0], block[1], block[2]);
    if (lane >= 0 && lane < PTX_LANES) {
        uint32_t thread[3];
        thread_of(warp, (uint32_t)lane, thread);
        at = append(text, at, "thread (%u,%u,%u): ", thread[0], thread[1], thread[2]);
    } else {
        at = append(text, at, "warp %u: ", warp->id);
    }
    va_list list;
    va_start(list, format);
    vsnprintf(text + at, sizeof run->fault.text - at, format, list);
    va_end(list);
    return SIM_FAULT;
}

/* A line for each split of the first warps that still live: where it is, and what it waits for. */
static void report_warps(sim_cluster *cluster, size_t at)
{
    sim_run *run = cluster->worker->run;
    uint32_t left = REPORTED;
    for (uint32_t w = 0; w < sim_cluster_warps(cluster) && left; w++) {
        const sim_warp *warp = &cluster->block[0].warp[w];
        for (uint32_t s = 0; warp->live && s < warp->split_count && left; s++, left--) {
            const sim_split *split = &warp->split[s];
            const ptx_insn *insn = split->pc < run->function->insn_count ? &run->function->insn[split->pc] : NULL;
            const uint32_t *block = warp->block->ctaid;
            char text[256] = "";
            if (insn && split->waiting) {
                sim_barrier_explain(warp, insn, split->mask, text, sizeof text);
            }
            at = append(run->fault.text, at, "\nblock (%u,%u,%u) warp %u lanes 0x%08x at line %u, %s%s%s", block[0],
                        block[1], block[2], warp->id, split->mask, insn ? insn->line : 0, insn ? insn->text : "end",
                        *text ? ": " : "", text);
        }
    }
}

static void report_deadlock(sim_cluster *cluster)
{
    sim_run *run = cluster->worker->run;
    if (fault_begins(run, SIM_FAULT_DEADLOCK)) {
        report_warps(cluster, append(run->fault.text, 0, "%s: deadlock, all wait:", run->function->name));
    }
}

static void report_endless(sim_cluster *cluster, uint64_t limit)
{
    sim_run *run = cluster->worker->run;
    if (fault_begins(run, SIM_FAULT_ENDLESS)) {
        size_t at =
            append(run->fault.text, 0, "%s: not done after %llu warp instructions, given up at:", run->function->name,
                   (unsigned long long)limit);
        report_warps(cluster, at);
    }
}

static void report_memory(sim_run *run)
{
    if (fault_begins(run, SIM_FAULT_RESOURCES)) {
        append(run->fault.text, 0, "%s: the host is out of memory", run->function->name);
    }
}

static bool stopped(sim_run *run)
{
    return atomic_load_explicit(&run->faulted, memory_order_relaxed) != 0;
}

/* --- one cluster --- */

typedef enum outcome { DONE, BUSY, POLLING, STOPPED } outcome;

typedef struct pass {
    bool ran, busy; /* some warp executed something; more than looking whether it may go on */
} pass;

static bool run_warp(sim_cluster *cluster, sim_warp *warp, bool seeded, pass *p)
{
    sim_worker *worker = cluster->worker;
    uint64_t before = worker->instructions, events = cluster->events;
    sim_next next = sim_warp_run(warp, seeded ? 1 + (uint32_t)(sim_random(cluster) % QUANTUM) : QUANTUM);
    uint64_t used = worker->instructions - before;
    p->ran |= used > 0;
    p->busy |= events != cluster->events || (used > 0 && (next != SIM_YIELD || used > POLL));
    return next != SIM_FAULT;
}

/* Every warp once, from the one on whose turn it is (or a random one). */
static bool run_pass(sim_cluster *cluster, pass *p)
{
    bool seeded = cluster->worker->run->launch->options.timing == SIM_SEEDED;
    uint32_t warps = sim_cluster_warps(cluster);
    uint32_t first = seeded ? (uint32_t)(sim_random(cluster) % warps) : 0;
    for (uint32_t k = 0; k < warps; k++) {
        sim_warp *warp = &cluster->block[0].warp[(first + k) % warps];
        if (warp->live && !run_warp(cluster, warp, seeded, p)) {
            return false;
        }
    }
    return true;
}

/* Nobody did anything but look: an asynchronous operation may be what they look for. */
static outcome advance(sim_cluster *cluster, bool ran)
{
    sim_next result = SIM_NEXT;
    if (sim_async_advance(cluster, &result)) {
        sim_wake(cluster);
        return result == SIM_FAULT ? STOPPED : BUSY;
    }
    if (ran) {
        return POLLING;
    }
    report_deadlock(cluster);
    return STOPPED;
}

static outcome run_slice(sim_cluster *cluster, uint64_t slice)
{
    sim_worker *worker = cluster->worker;
    uint64_t until = worker->instructions + slice;
    while (worker->instructions < until) {
        pass p = {false, false};
        if (stopped(worker->run) || !run_pass(cluster, &p)) {
            return STOPPED;
        }
        if (cluster->live_blocks == 0) {
            return DONE;
        }
        outcome end = p.busy ? BUSY : advance(cluster, p.ran);
        if (end != BUSY) {
            return end;
        }
    }
    /* It may spin on plain loads until a copy has arrived. */
    sim_next result = SIM_NEXT;
    return sim_async_advance(cluster, &result) && result == SIM_FAULT ? STOPPED : BUSY;
}

/* --- one worker --- */

/* The clusters that a worker has begun and not finished. One runs until it is done; a further one is begun when all
 * those only poll, as they may wait for it. */
typedef struct residents {
    sim_cluster **cluster;
    uint32_t count, limit, current;
    uint32_t polls;     /* slices in a row that only polled */
    uint64_t last_end;  /* worker->instructions when a cluster ended, or one became resident, last */
    sim_cluster *spare; /* memory of one that has ended */
    bool none_left;     /* all clusters of the launch are handed out */
} residents;

static bool admit(sim_worker *worker, residents *r)
{
    sim_run *run = worker->run;
    if (r->none_left || r->count == r->limit) {
        return false;
    }
    uint64_t number = atomic_fetch_add(&run->next_cluster, 1);
    if (number >= run->cluster_total) {
        r->none_left = true;
        return false;
    }
    sim_cluster *cluster = r->spare ? r->spare : sim_cluster_new(worker);
    r->spare = NULL;
    if (!cluster || !sim_cluster_begin(cluster, number)) {
        report_memory(run);
    }
    if (cluster) {
        r->cluster[r->count] = cluster;
        r->current = r->count++;
        r->polls = 0;
        r->last_end = worker->instructions;
    }
    return cluster != NULL;
}

static void retire(sim_worker *worker, residents *r)
{
    sim_cluster *cluster = r->cluster[r->current];
    sim_cluster_end(cluster);
    r->cluster[r->current] = r->cluster[--r->count];
    r->current = 0;
    r->polls = 0;
    r->last_end = worker->instructions;
    if (r->spare) {
        sim_cluster_free(cluster);
    } else {
        r->spare = cluster;
    }
}

static void next_turn(sim_worker *worker, residents *r, outcome end)
{
    r->polls = end == POLLING ? r->polls + 1 : 0;
    bool all_poll = r->polls >= r->count;
    bool impatient = worker->instructions - r->last_end > PATIENCE;
    if ((all_poll || impatient) && admit(worker, r)) {
        return;
    }
    if (all_poll) {
        sched_yield(); /* what they wait for runs on another worker, if at all */
    }
    r->current = (r->current + 1) % r->count;
}

static void work(sim_worker *worker, residents *r)
{
    sim_run *run = worker->run;
    uint64_t limit = run->launch->options.max_instructions;
    limit = limit ? limit : DEFAULT_INSTRUCTIONS;
    uint64_t slice = limit < SLICE ? limit : SLICE;
    while (!stopped(run) && (r->count || admit(worker, r))) {
        uint64_t before = worker->instructions;
        outcome end = run_slice(r->cluster[r->current], slice);
        uint64_t total = atomic_fetch_add(&run->instructions, worker->instructions - before);
        if (end == DONE) {
            retire(worker, r);
        } else if (total + worker->instructions - before >= limit) {
            report_endless(r->cluster[r->current], limit);
        } else if (end != STOPPED) {
            next_turn(worker, r, end);
        }
    }
}

/* As many clusters as the whole GPU would hold, shared among the workers; at least two. */
static uint32_t resident_limit(const sim_run *run, uint32_t workers)
{
    uint32_t threads = run->warps_per_block * PTX_LANES;
    uint32_t blocks = SM_THREADS / threads, by_memory = SM_SHARED / (run->shared_used + RESERVED_SHARED);
    blocks = blocks < SM_BLOCKS ? blocks : SM_BLOCKS;
    blocks = blocks < by_memory ? blocks : by_memory;
    uint32_t sms = run->launch->sm_count ? run->launch->sm_count : SIM_SM_COUNT;
    uint32_t limit = (blocks ? blocks : 1) * sms / run->blocks_per_cluster / workers;
    return limit < 2 ? 2 : limit;
}

typedef struct job {
    sim_worker worker;
    pthread_t thread;
    uint32_t workers;
    bool started;
} job;

static void *run_worker(void *arg)
{
    job *j = arg;
    residents r = {.limit = resident_limit(j->worker.run, j->workers)};
    r.cluster = calloc(r.limit, sizeof(sim_cluster *));
    if (r.cluster) {
        work(&j->worker, &r);
    } else {
        report_memory(j->worker.run);
    }
    for (uint32_t i = 0; i < r.count; i++) {
        sim_cluster_end(r.cluster[i]);
        sim_cluster_free(r.cluster[i]);
    }
    sim_cluster_free(r.spare);
    free(r.cluster);
    return NULL;
}

/* --- the launch --- */

static uint32_t worker_count(const sim_run *run)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = run->launch->options.threads;
    threads = threads ? threads : cores > 0 ? (uint64_t)cores : 1;
    return (uint32_t)(threads < run->cluster_total ? threads : run->cluster_total);
}

/* A worker that cannot have a thread is left out: the others take its clusters. */
static void run_jobs(job *jobs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        jobs[i].started = pthread_create(&jobs[i].thread, NULL, run_worker, &jobs[i]) == 0;
    }
    run_worker(&jobs[0]);
    for (uint32_t i = 1; i < count; i++) {
        if (jobs[i].started) {
            pthread_join(jobs[i].thread, NULL);
        }
    }
}

static void prepare(sim_run *run)
{
    const sim_launch *launch = run->launch;
    const ptx_function *function = run->function;
    const uint32_t *cluster = launch->cluster[0] ? launch->cluster : function->cluster;
    run->blocks_per_cluster = 1;
    run->cluster_total = 1;
    for (int axis = 0; axis < 3; axis++) {
        run->cluster_dims[axis] = cluster[axis] ? cluster[axis] : 1;
        run->blocks_per_cluster *= run->cluster_dims[axis];
        run->cluster_total *= launch->grid[axis] / run->cluster_dims[axis];
    }
    run->shared_used = function->shared_bytes + launch->dynamic_shared;
    run->shared_bytes =
        launch->dynamic_shared ? ptx_dynamic_offset(function) + launch->dynamic_shared : function->shared_bytes;
    run->warps_per_block = (launch->block[0] * launch->block[1] * launch->block[2] + PTX_LANES - 1) / PTX_LANES;
    for (uint32_t i = 0; i < function->special_count; i++) {
        run->uses_clocks |= function->special[i].special >= PTX_CLOCK;
    }
}

static void add_counters(sim_counters *counters, const sim_run *run, const job *jobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sim_counters_add(counters, &jobs[i].worker.counters);
    }
    uint32_t registers = run->function->registers_32 + 2 * run->function->registers_64;
    counters->registers = registers > counters->registers ? registers : counters->registers;
    counters->shared_bytes = run->shared_used > counters->shared_bytes ? run->shared_used : counters->shared_bytes;
}

bool sim_launch_run(const sim_launch *launch, sim_counters *counters, sim_fault *fault)
{
    sim_run run = {.launch = launch, .function = launch->function};
    prepare(&run);
    uint32_t workers = worker_count(&run);
    job *jobs = calloc(workers ? workers : 1, sizeof *jobs);
    if (!jobs) {
        report_memory(&run);
    }
    for (uint32_t i = 0; jobs && i < workers; i++) {
        jobs[i].worker.run = &run;
        jobs[i].workers = workers;
    }
    if (jobs && workers) {
        run_jobs(jobs, workers);
        if (counters) {
            add_counters(counters, &run, jobs, workers);
        }
    }
    free(jobs);
    *fault = run.fault;
    return run.fault.kind == SIM_NO_FAULT;
}
