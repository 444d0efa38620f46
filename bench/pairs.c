/* pairs.c - interleaved measurement: the variants run in turn, round by round, so that whatever the machine does in
 * the meantime meets all of them alike, and ratios are taken within a round. */
#include "stats.h"
#include "subject.h"

#include <math.h>

/* Run a variant once and tell the check what it did. */
static bool run_once(bench_variant *variant)
{
    bench_subject *subject = variant->subject;
    if (variant->alternate)
        variant->group = variant->group == BENCH_SLOTS_A ? BENCH_SLOTS_B : BENCH_SLOTS_A;
    if (!variant->run(subject, variant))
        return false;
    return true;
}

static void expect_once(const bench_variant *variant)
{
    uint32_t submissions = variant->submissions ? variant->submissions : 1;
    for (uint32_t i = 0; variant->counts && i < submissions; i++)
        bench_subject_expect(variant->subject, variant->pattern, variant->group, variant->count);
}

static bool warm_and_check(bench_variant *variant)
{
    bench_subject *subject = variant->subject;
    if (!run_once(variant) || !subject->api->wait(subject))
        return false;
    expect_once(variant);
    return bench_subject_check(subject);
}

static bool time_round(bench_variant *variant, uint32_t round, uint32_t repeats, uint32_t commands)
{
    bench_subject *subject = variant->subject;
    double submit = 0, wait = 0;
    for (uint32_t i = 0; i < repeats; i++) {
        double start = bench_seconds();
        if (!run_once(variant))
            return false;
        double handed_over = bench_seconds();
        if (!subject->api->wait(subject))
            return false;
        wait += bench_seconds() - handed_over;
        submit += handed_over - start;
        expect_once(variant);
    }
    variant->submit[round] = submit * 1e9 / repeats / commands;
    variant->wait[round] = wait * 1e9 / repeats / commands;
    return true;
}

/* Device timestamps are taken in rounds of their own, as they add work to the stream. */
static bool device_clock(bench_variant *variant, uint32_t commands, double *nanoseconds)
{
    bench_subject *subject = variant->subject;
    double samples[3];
    *nanoseconds = NAN;
    if (!subject->api->clock_start)
        return true;
    for (uint32_t i = 0; i < 3; i++) {
        if (!subject->api->clock_start(subject))
            return true; /* a device without timestamps */
        if (!run_once(variant) || !subject->api->clock_stop(subject, &samples[i]))
            return false;
        expect_once(variant);
        samples[i] /= commands;
    }
    *nanoseconds = bench_median(samples, 3);
    return true;
}

void bench_pairs_fill(const bench_variant *libhal, const bench_variant *raw, uint32_t rounds, bench_row *row)
{
    double ratios[BENCH_MAX_ROUNDS], totals[BENCH_MAX_ROUNDS], libhal_total[BENCH_MAX_ROUNDS],
        raw_total[BENCH_MAX_ROUNDS];
    for (uint32_t i = 0; i < rounds; i++)
        libhal_total[i] = libhal->submit[i] + libhal->wait[i];
    row->rounds = rounds;
    row->libhal_ns = bench_median(libhal->submit, rounds);
    row->wait_ns = bench_median(libhal->wait, rounds);
    row->libhal_total_ns = bench_median(libhal_total, rounds);
    if (!raw)
        return;
    for (uint32_t i = 0; i < rounds; i++) {
        raw_total[i] = raw->submit[i] + raw->wait[i];
        ratios[i] = libhal->submit[i] / raw->submit[i];
        totals[i] = libhal_total[i] / raw_total[i];
    }
    row->raw_ns = bench_median(raw->submit, rounds);
    row->raw_total_ns = bench_median(raw_total, rounds);
    row->ratio = bench_median(ratios, rounds);
    row->ratio_low = bench_quantile(ratios, rounds, 0.25);
    row->ratio_high = bench_quantile(ratios, rounds, 0.75);
    row->total_ratio = bench_median(totals, rounds);
}

static bool more_rounds(const bench_pairs *pairs, uint32_t rounds, double deadline)
{
    if (bench_interrupted() || rounds == BENCH_MAX_ROUNDS)
        return false;
    return rounds < pairs->rounds || bench_seconds() < deadline;
}

bool bench_pairs_measure(bench_run *run, bench_pairs *pairs, bench_row *row)
{
    bench_variant *variants = pairs->variants;
    bench_subject *failed, *libhal = variants[0].subject;
    uint32_t rounds = 0, count = pairs->variant_count;
    uint64_t allocations = 0;
    row->commands = pairs->commands;
    for (uint32_t v = 0; v < count; v++)
        if (!bench_subject_clear(failed = variants[v].subject))
            goto fail;
    for (uint32_t v = 0; v < count; v++)
        for (uint32_t turn = 0; turn < (variants[v].alternate ? 2u : 1u); turn++)
            if (!warm_and_check(&variants[v])) {
                failed = variants[v].subject;
                goto fail;
            }
    double deadline = bench_seconds() + pairs->budget;
    for (rounds = 0; more_rounds(pairs, rounds, deadline); rounds++)
        for (uint32_t v = 0; v < count; v++) {
            bench_variant *variant = &variants[rounds % 2 ? count - 1 - v : v];
            uint64_t before = variant == variants && libhal->api->allocations ? libhal->api->allocations(libhal) : 0;
            if (!time_round(variant, rounds, pairs->repeats, pairs->commands)) {
                failed = variant->subject;
                goto fail;
            }
            if (variant == variants && libhal->api->allocations)
                allocations += libhal->api->allocations(libhal) - before;
        }
    if (rounds == 0) {
        run->row_count--; /* interrupted before there was a figure: the row, the last one, is taken back */
        return false;
    }
    if (!device_clock(&variants[0], pairs->commands, &row->device_ns)) {
        failed = libhal;
        goto fail;
    }
    for (uint32_t v = 0; v < count; v++)
        if (!bench_subject_check(failed = variants[v].subject))
            goto fail;
    bench_pairs_fill(&variants[0], pairs->has_raw ? &variants[1] : NULL, rounds, row);
    if (pairs->totals_only)
        row->raw_ns = row->ratio = row->ratio_low = row->ratio_high = NAN;
    if (libhal->api->allocations)
        row->allocations = (double)allocations / rounds / pairs->repeats / pairs->commands;
    return true;
fail:
    bench_row_fail(run, row, "%s", failed->error);
    return false;
}
