/* subject.h - who is measured: libhal, or the same work written directly against a driver's API.
 *
 * All work is made of one kernel, sink += source + add, run by one work-item. Sources and sinks come in groups:
 * BUFFERS are separate allocations, and SLOTS_A and SLOTS_B are what a recorded list is bound to in turn. Source i of
 * every group holds bench_source_value(i). The controls pass every argument of every dispatch, as a program must that
 * does not know what the previous dispatch was. */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include "bench.h"

enum { BENCH_MAX_STEPS = 1000, BENCH_MAX_UPLOADS = 100, BENCH_UPLOAD_SIZE = 4096, BENCH_SPACING = 256 };

typedef enum bench_group { BENCH_BUFFERS, BENCH_SLOTS_A, BENCH_SLOTS_B, BENCH_GROUPS } bench_group;

typedef enum bench_pattern {
    BENCH_INDEPENDENT, /* dispatch i: source 0, sink i, add 1 */
    BENCH_CHAIN,       /* every dispatch: source 0, sink 0, add 1: each needs the one before */
    BENCH_REBIND       /* dispatch i: source i, sink i, add i: everything changes from one to the next */
} bench_pattern;

typedef struct bench_operands {
    uint32_t source, sink, add;
} bench_operands;
bench_operands bench_step_operands(bench_pattern pattern, uint32_t step);
uint32_t bench_source_value(uint32_t index);
uint32_t bench_upload_word(uint32_t upload, uint32_t word);

typedef struct bench_subject bench_subject;

/* Every function but open and close returns false after setting subject->error. Those that enqueue return when all is
 * handed to the driver, and wait() waits for it. */
typedef struct bench_subject_api {
    const char *name;
    bool (*open)(bench_subject *subject, const bench_device *device);
    void (*close)(bench_subject *subject);
    bool (*wait)(bench_subject *subject);
    bool (*clear)(bench_subject *subject); /* all sinks to 0, and wait */
    bool (*read)(bench_subject *subject, bench_group group, uint32_t count, uint32_t *sinks);
    bool (*dispatch)(bench_subject *subject, bench_pattern pattern, uint32_t count);
    bool (*upload)(bench_subject *subject, const void *source, uint32_t count); /* upload i of 4 KiB to place i */
    bool (*read_upload)(bench_subject *subject, uint32_t index, void *target);
    bool (*round_trip)(bench_subject *subject, uint32_t count); /* each: dispatch, record an event, wait for it */
    bool (*record)(bench_subject *subject, bench_pattern pattern, uint32_t count); /* a list of dispatches on BUFFERS */
    bool (*replay)(bench_subject *subject);
    bool (*record_slots)(bench_subject *subject, uint32_t count); /* REBIND's dispatches, to be bound at rebind */
    bool (*rebind)(bench_subject *subject, bench_group group);    /* bind that list to the group and submit */
    bool (*rerecord)(bench_subject *subject, bench_group group, uint32_t count); /* or make it anew, and submit */
    /* Optional: device time of what is enqueued between the two. */
    bool (*clock_start)(bench_subject *subject);
    bool (*clock_stop)(bench_subject *subject, double *nanoseconds);
    /* Optional: host allocations so far. */
    uint64_t (*allocations)(bench_subject *subject);
} bench_subject_api;

struct bench_subject {
    const bench_subject_api *api;
    void *state;
    char error[400];
    uint32_t *expected; /* [BENCH_GROUPS][BENCH_MAX_STEPS]: what the sinks must hold by now */
};

bool bench_subject_fail(bench_subject *subject, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* False: there is no such subject here, and subject->error says why. Close it in either case. */
bool bench_subject_open(bench_subject *subject, const bench_subject_api *api, const bench_device *device);
void bench_subject_close(bench_subject *subject);
bool bench_subject_clear(bench_subject *subject);
/* The sinks are expected to rise by what `count` dispatches of `pattern` on `group` add. */
void bench_subject_expect(bench_subject *subject, bench_pattern pattern, bench_group group, uint32_t count);
/* Compare all sinks with what is expected. */
bool bench_subject_check(bench_subject *subject);

extern const bench_subject_api bench_libhal;
/* Of libhal's subject only. */
bool bench_subject_trace_start(bench_subject *subject);
bool bench_subject_trace_write(bench_subject *subject, const char *path);
/* The control of a backend, or NULL with the reason. */
const bench_subject_api *bench_raw_api(const char *backend, const char **reason);
/* A driver's library: `name`, or what the environment variable that libhal heeds names instead. NULL after setting
 * subject->error. */
void *bench_driver_open(bench_subject *subject, const char *variable, const char *name);
extern const bench_subject_api bench_raw_opencl;
extern const bench_subject_api bench_raw_vulkan;
extern const bench_subject_api bench_raw_cuda;

/* The kernel in the three languages; no SPIR-V: bench_step_spirv_size is 0. */
extern const unsigned char bench_step_cl[], bench_step_ptx[], bench_step_push[], bench_step_block[];
extern const size_t bench_step_cl_size, bench_step_ptx_size, bench_step_push_size, bench_step_block_size;

/* Measuring */

enum { BENCH_MAX_ROUNDS = 64 };

/* One thing to time: run() enqueues `commands` commands `repeats` times, waiting after each. */
typedef struct bench_variant {
    bench_subject *subject;
    bool (*run)(bench_subject *subject, const struct bench_variant *variant);
    bench_pattern pattern;
    uint32_t count;       /* dispatches of one run() */
    bench_group group;    /* that the next run() writes */
    bool alternate;       /* SLOTS_A and SLOTS_B in turn */
    bool counts;          /* run() changes the sinks */
    uint32_t submissions; /* of one run(); 0 counts as 1 */
    const void *payload;  /* what to upload */
    /* per command, one a round */
    double submit[BENCH_MAX_ROUNDS], wait[BENCH_MAX_ROUNDS];
} bench_variant;

typedef struct bench_pairs {
    uint32_t rounds, repeats; /* at least so many rounds, more while `budget` seconds last */
    double budget;
    bench_variant
        *variants; /* 0: libhal, 1: raw (if has_raw), then others; run in turn, the order reversed each round */
    uint32_t variant_count;
    bool has_raw;
    bool totals_only;  /* submitting may wait for room in the queue: only submit and wait together can be compared */
    uint32_t commands; /* of one run(), for figures per command */
} bench_pairs;

/* Check each variant's result once, time the rounds, check again, and fill the row's submit, wait and ratio figures.
 * False: row->failed is set, or the user interrupted (row->rounds 0). */
bool bench_pairs_measure(bench_run *run, bench_pairs *pairs, bench_row *row);
/* Only the last part: figures from rounds that were timed. raw may be NULL. */
void bench_pairs_fill(const bench_variant *libhal, const bench_variant *raw, uint32_t rounds, bench_row *row);

#endif
