/* overhead.c - what does one command cost the host, told at once, against the same work on the raw API? */
#include "subject.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMMEDIATE = 1000, UPLOADS = BENCH_MAX_UPLOADS, ROUND_TRIPS = 50, UNWAITED = 1000 };

typedef struct overhead {
    bench_run *run;
    const bench_device *device;
    bench_subject libhal, raw;
    bool has_raw;
    const char *raw_absent;
    uint32_t payload[UPLOADS * BENCH_UPLOAD_SIZE / 4];
} overhead;

static bool run_dispatch(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->dispatch(subject, variant->pattern, variant->count);
}

static bool run_round_trip(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->round_trip(subject, variant->count);
}

static bool run_upload(bench_subject *subject, const bench_variant *variant)
{
    return subject->api->upload(subject, variant->payload, variant->count);
}

static bool run_unwaited(bench_subject *subject, const bench_variant *variant)
{
    for (uint32_t i = 0; i < variant->submissions; i++)
        if (!subject->api->replay(subject))
            return false;
    return true;
}

/* Measure `libhal` and the same on the control, as one row. */
static bench_row *measure(overhead *scene, const char *label, bench_variant libhal, uint32_t commands, uint32_t rounds)
{
    bench_run *run = scene->run;
    bench_variant variants[2] = {libhal, libhal};
    variants[0].subject = &scene->libhal;
    variants[1].subject = &scene->raw;
    bench_pairs pairs = {.rounds = rounds,
                         .budget = run->options->quick ? 0 : 0.6,
                         .repeats = 1,
                         .variants = variants,
                         .variant_count = scene->has_raw ? 2 : 1,
                         .has_raw = scene->has_raw,
                         .totals_only = libhal.submissions > 0,
                         .commands = commands};
    bench_progress(run, "%s: %s", scene->device->select, label);
    if (bench_interrupted())
        return NULL;
    bench_row *row = bench_row_add(run, BENCH_ROW_OVERHEAD, scene->device, label);
    if (!scene->has_raw)
        snprintf(row->note, sizeof row->note, "%s", scene->raw_absent);
    bench_pairs_measure(run, &pairs, row);
    return row;
}

static bool check_uploads(bench_subject *subject, const uint32_t *payload)
{
    static const uint32_t some[] = {0, 1, UPLOADS / 2, UPLOADS - 1};
    for (uint32_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        uint32_t found[BENCH_UPLOAD_SIZE / 4];
        if (!subject->api->read_upload(subject, some[i], found))
            return false;
        if (memcmp(found, payload + (size_t)some[i] * BENCH_UPLOAD_SIZE / 4, sizeof found) != 0)
            return bench_subject_fail(subject, "%s: upload %u did not arrive", subject->api->name, some[i]);
    }
    return true;
}

static void measure_uploads(overhead *scene)
{
    bench_subject *subjects[] = {&scene->libhal, &scene->raw};
    bench_variant variant = {.run = run_upload, .count = UPLOADS, .payload = scene->payload};
    bench_row *row = NULL;
    for (uint32_t i = 0; i < (scene->has_raw ? 2u : 1u); i++) {
        bench_subject *subject = subjects[i];
        if (subject->api->upload(subject, scene->payload, UPLOADS) && subject->api->wait(subject) &&
            check_uploads(subject, scene->payload))
            continue;
        row = bench_row_add(scene->run, BENCH_ROW_OVERHEAD, scene->device, "upload_4k");
        bench_row_fail(scene->run, row, "%s", subject->error);
        return;
    }
    measure(scene, "upload_4k", variant, UPLOADS, scene->run->options->rounds);
}

/* Submissions that nobody waits for must not pile up memory: the process is weighed before and after. */
static void measure_unwaited(overhead *scene)
{
    bench_row *row;
    bench_subject *subjects[] = {&scene->libhal, &scene->raw};
    for (uint32_t i = 0; i < (scene->has_raw ? 2u : 1u); i++)
        if (!subjects[i]->api->record(subjects[i], BENCH_CHAIN, 1)) {
            row = bench_row_add(scene->run, BENCH_ROW_OVERHEAD, scene->device, "unwaited_submits");
            bench_row_fail(scene->run, row, "%s", subjects[i]->error);
            return;
        }
    bench_variant variant = {
        .run = run_unwaited, .count = 1, .pattern = BENCH_CHAIN, .counts = true, .submissions = UNWAITED};
    row = measure(scene, "unwaited_submits", variant, UNWAITED, scene->run->options->quick ? 3 : 5);
    if (!row || row->failed)
        return;
    variant.subject = &scene->libhal;
    uint64_t before = bench_rss();
    bool submitted = run_unwaited(&scene->libhal, &variant);
    uint64_t after = bench_rss();
    if (!submitted || !scene->libhal.api->wait(&scene->libhal))
        bench_row_fail(scene->run, row, "%s", scene->libhal.error);
    row->rss_growth = after > before ? (double)(after - before) : 0;
}

uint32_t bench_overhead_steps(const bench_options *options)
{
    (void)options;
    return 6;
}

void bench_overhead(bench_run *run, const bench_device *device)
{
    overhead *scene = calloc(1, sizeof *scene);
    if (!scene) {
        bench_row_fail(run, bench_row_add(run, BENCH_ROW_OVERHEAD, device, "open"), "out of memory");
        return;
    }
    const bench_subject_api *raw = bench_raw_api(device->info.backend, &scene->raw_absent);
    uint32_t rounds = run->options->rounds;
    scene->run = run;
    scene->device = device;
    for (uint32_t i = 0; i < sizeof scene->payload / sizeof scene->payload[0]; i++)
        scene->payload[i] = bench_upload_word(i / (BENCH_UPLOAD_SIZE / 4), i % (BENCH_UPLOAD_SIZE / 4));
    if (!bench_subject_open(&scene->libhal, &bench_libhal, device)) {
        bench_row *row = bench_row_add(run, BENCH_ROW_OVERHEAD, device, "open");
        bench_row_fail(run, row, "%s", scene->libhal.error);
        goto done;
    }
    scene->has_raw = raw && bench_subject_open(&scene->raw, raw, device);
    if (raw && !scene->has_raw)
        scene->raw_absent = scene->raw.error;
    bench_variant dispatch = {.run = run_dispatch, .count = IMMEDIATE, .counts = true};
    dispatch.pattern = BENCH_INDEPENDENT;
    measure(scene, "immediate_independent", dispatch, IMMEDIATE, rounds);
    dispatch.pattern = BENCH_CHAIN;
    measure(scene, "immediate_dependent", dispatch, IMMEDIATE, rounds);
    dispatch.pattern = BENCH_REBIND;
    measure(scene, "immediate_rebind", dispatch, IMMEDIATE, rounds);
    measure_uploads(scene);
    bench_variant round_trip = {.run = run_round_trip, .count = ROUND_TRIPS, .pattern = BENCH_CHAIN, .counts = true};
    measure(scene, "event_record_wait", round_trip, ROUND_TRIPS, rounds);
    measure_unwaited(scene);
done:
    bench_subject_close(&scene->raw);
    bench_subject_close(&scene->libhal);
    free(scene);
}
