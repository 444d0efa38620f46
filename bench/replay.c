/* replay.c - what does a recorded list save, what does rebinding cost, and from how many submissions on does recording
 * pay? Against the raw API, and against libhal's own eager dispatches, all in the same rounds. */
#include "stats.h"
#include "subject.h"

#include <math.h>
#include <stdlib.h>

enum { LIST = 100, COMMANDS_A_ROUND = 200 };

static const uint32_t lengths[] = {1, 10, 100, 1000};

static bool run_replay(bench_subject *subject, const bench_variant *variant)
{
    (void)variant;
    return subject->api->replay(subject);
}

static bool run_eager(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->dispatch(subject, variant->pattern, variant->count);
}

static bool run_rebind(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->rebind(subject, variant->group);
}

static bool run_rerecord(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->rerecord(subject, variant->group, variant->count);
}

/* Nanoseconds a command that recording takes, the median of a few. False: subject->error. */
static bool record_cost(bench_subject *subject, bench_pattern pattern, uint32_t count, double *nanoseconds)
{
    double samples[5];
    for (uint32_t i = 0; i < 5; i++) {
        double start = bench_seconds();
        if (!subject->api->record(subject, pattern, count))
            return false;
        samples[i] = (bench_seconds() - start) * 1e9 / count;
    }
    *nanoseconds = bench_median(samples, 5);
    return true;
}

/* Variants are libhal's replay, the control's if there is one, and libhal's eager dispatches. */
static void measure_length(bench_run *run, const bench_device *device, bench_subject *libhal, bench_subject *raw,
                           const char *absent, bench_pattern pattern, uint32_t count)
{
    const char *label = pattern == BENCH_CHAIN ? "replay_dependent" : "replay";
    bench_progress(run, "%s: %s of %u", device->select, label, count);
    if (bench_interrupted())
        return;
    bench_row *row = bench_row_add(run, BENCH_ROW_REPLAY, device, label);
    row->commands = count;
    snprintf(row->note, sizeof row->note, "%s", absent);
    if (!record_cost(libhal, pattern, count, &row->record_ns)) {
        bench_row_fail(run, row, "%s", libhal->error);
        return;
    }
    if (raw && !raw->api->record(raw, pattern, count)) {
        bench_row_fail(run, row, "%s", raw->error);
        return;
    }
    bench_variant replay = {.run = run_replay, .pattern = pattern, .count = count, .counts = true};
    bench_variant variants[3];
    uint32_t used = 0;
    variants[used] = replay;
    variants[used++].subject = libhal;
    if (raw) {
        variants[used] = replay;
        variants[used++].subject = raw;
    }
    bench_variant *eager = &variants[used];
    variants[used] = replay;
    variants[used].run = run_eager;
    variants[used++].subject = libhal;
    bench_pairs pairs = {.rounds = run->options->rounds,
                         .budget = run->options->quick ? 0 : 0.6,
                         .repeats = count < COMMANDS_A_ROUND ? (COMMANDS_A_ROUND + count - 1) / count : 1,
                         .variants = variants,
                         .variant_count = used,
                         .has_raw = raw != NULL,
                         .commands = count};
    if (pairs.repeats > 40)
        pairs.repeats = 40;
    if (!bench_pairs_measure(run, &pairs, row))
        return;
    row->eager_ns = bench_median(eager->submit, row->rounds);
    double saved = row->eager_ns - row->libhal_ns;
    row->break_even = saved > 0 ? ceil(row->record_ns / saved) : INFINITY;
}

/* Rebinding a whole list against recording it again: two rows of one set of rounds. */
static void measure_rebinding(bench_run *run, const bench_device *device, bench_subject *libhal, bench_subject *raw,
                              const char *absent)
{
    bench_progress(run, "%s: rebind %u", device->select, LIST);
    if (bench_interrupted())
        return;
    bench_row *row = bench_row_add(run, BENCH_ROW_REPLAY, device, "rebind");
    snprintf(row->note, sizeof row->note, "%s", absent);
    bench_subject *subjects[] = {libhal, raw};
    bench_variant variants[4];
    uint32_t used = 0, each = raw ? 2 : 1;
    for (uint32_t again = 0; again < 2; again++)
        for (uint32_t i = 0; i < each; i++)
            variants[used++] = (bench_variant){.subject = subjects[i],
                                               .run = again ? run_rerecord : run_rebind,
                                               .pattern = BENCH_REBIND,
                                               .count = LIST,
                                               .counts = true,
                                               .alternate = true};
    for (uint32_t i = 0; i < each; i++)
        if (!subjects[i]->api->record_slots(subjects[i], LIST)) {
            bench_row_fail(run, row, "%s", subjects[i]->error);
            return;
        }
    bench_pairs pairs = {.rounds = run->options->rounds,
                         .budget = run->options->quick ? 0 : 0.6,
                         .repeats = 4,
                         .variants = variants,
                         .variant_count = used,
                         .has_raw = raw != NULL,
                         .commands = LIST};
    if (!bench_pairs_measure(run, &pairs, row))
        return;
    row->rerecord_ns = bench_median(variants[each].submit, row->rounds);
    uint32_t rounds = row->rounds;
    bench_row *second = bench_row_add(run, BENCH_ROW_REPLAY, device, "rerecord");
    second->rounds = rounds;
    second->commands = LIST;
    snprintf(second->note, sizeof second->note, "%s", absent);
    bench_pairs_fill(&variants[each], raw ? &variants[each + 1] : NULL, rounds, second);
}

uint32_t bench_replay_steps(const bench_options *options)
{
    (void)options;
    return sizeof lengths / sizeof lengths[0] + 2;
}

void bench_replay(bench_run *run, const bench_device *device)
{
    bench_subject libhal, control = {0};
    const char *absent;
    const bench_subject_api *api = bench_raw_api(device->info.backend, &absent);
    bench_subject *raw = NULL;
    if (!bench_subject_open(&libhal, &bench_libhal, device)) {
        bench_row *row = bench_row_add(run, BENCH_ROW_REPLAY, device, "open");
        bench_row_fail(run, row, "%s", libhal.error);
        goto done;
    }
    if (api && bench_subject_open(&control, api, device))
        raw = &control;
    else if (api)
        absent = control.error;
    for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        measure_length(run, device, &libhal, raw, absent, BENCH_INDEPENDENT, lengths[i]);
    measure_length(run, device, &libhal, raw, absent, BENCH_CHAIN, LIST);
    measure_rebinding(run, device, &libhal, raw, absent);
done:
    bench_subject_close(&control);
    bench_subject_close(&libhal);
}
