/* job.h - one call of an operator, measured: the mechanism that the files of the operators share. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "bench.h"

/* Operands */

/* Elements of `dtype`, and their values as floats (the same memory for HAL_F32): numbers in [-range, range) that are
 * fixed by their place. */
typedef struct bench_operand_data {
    float *values;
    void *elements;
    uint64_t count;
    hal_dtype dtype;
} bench_operand_data;

bool bench_operand_create(bench_operand_data *data, uint64_t count, hal_dtype dtype, uint32_t seed, float range);
void bench_operand_destroy(bench_operand_data *data);
/* What an element of a result is. */
double bench_element(const void *elements, hal_dtype dtype, uint64_t index);
/* How far the rounding of a store may move a value: half a unit in its last place. */
double bench_store_error(hal_dtype dtype, double value);
/* The i-th of a sample of [0, count): its ends, then places all over. */
uint64_t bench_sample(uint64_t count, uint32_t i);

/* Where a result is nearest to its bound, or over it. */
typedef struct bench_worst {
    double share, error, bound;
} bench_worst;
void bench_worst_note(bench_worst *worst, double got, double want, double bound);

/* Jobs */

/* What limits a job: the FP32 multiply-adds of the device, or its memory. */
typedef enum bench_limit { BENCH_LIMIT_FMA, BENCH_LIMIT_COPY, BENCH_LIMIT_READ } bench_limit;

/* Something else that can do the same, or a measure to hold the job against. */
typedef struct bench_peer {
    const char *name;
    double work; /* of a call: floating-point operations or bytes; 0: what the job has */
    bool (*call)(struct bench_peer *peer, uint32_t repeats, double *seconds); /* seconds: of one */
    void (*close)(struct bench_peer *peer);
    void *state;
} bench_peer;

typedef struct bench_place {
    const char *name;
    const void *elements; /* uploaded; NULL: an output, which is poisoned */
    uint64_t size;        /* bytes */
} bench_place;

enum { BENCH_MAX_PLACES = 6 };

typedef struct bench_job {
    const char *op, *label; /* label: the case; the operator's name where there is but one */
    char shape[64];
    hal_dtype dtype;
    bench_limit limit;
    double flops, bytes;                  /* of a call; flops 0: not of interest */
    double budget;                        /* seconds to spend on timed rounds */
    bench_place places[BENCH_MAX_PLACES]; /* they end at the first without a name */
    const void *problem;                  /* the operator's own */
    hal_status (*call)(hal_cmdlist *list, const struct bench_job *job, const hal_span *spans, hal_span workspace);
    /* NULL: no workspace. `spans` is as long as `places`, as for call. */
    hal_status (*workspace)(hal_device *device, const struct bench_job *job, const hal_span *spans, uint64_t *size);
    /* Note every error of the outputs' bytes, which stand in `results` at the outputs' places. */
    void (*check)(const struct bench_job *job, const void *const *results, bench_worst *worst);
    bench_peer peers[BENCH_MAX_PEERS]; /* those with a name take part; closed by the measurement */
} bench_job;

/* Check, time and add a row: NULL if the user interrupted it. */
bench_row *bench_job_measure(bench_run *run, const bench_device *device, bench_job *job);
/* What limits it on this device, by its roofline. */
bench_limit bench_job_limit(const bench_run *run, const bench_device *device, const bench_job *job);
/* What the device could do: measured on the host for CPU devices, published for GPUs. */
bench_peak bench_peak_of(const bench_run *run, const bench_device *device, hal_dtype dtype);
/* Its row, failed: the host has no room for its operands. */
void bench_job_no_memory(bench_run *run, const bench_device *device, const bench_job *job);

/* The cases of an operator */

/* How long a case of this command may take. */
double bench_budget(const bench_options *options);
/* The dtypes to measure: --dtype, or FP32 alone in the suite and where a single case is asked for, or FP32 and BF16.
 * Returns how many. */
uint32_t bench_dtypes(const bench_options *options, bool single, hal_dtype dtypes[2]);

/* A matrix that an operator on rows is measured with. */
typedef struct bench_matrix_case {
    const char *name; /* for --op and the label */
    int op;           /* the operator's own */
    uint64_t rows, columns;
    bool in_suite;
    hal_dtype dtype; /* set by bench_matrix_cases */
} bench_matrix_case;
enum { BENCH_MAX_CASES = 24 };
/* What the options leave of a table, or make of it. Returns how many, at most BENCH_MAX_CASES. `cases` may be NULL. */
uint32_t bench_matrix_cases(const bench_options *options, const bench_matrix_case *table, uint32_t count,
                            bench_matrix_case *cases);
/* Measure each of them. */
typedef void (*bench_matrix_fn)(bench_run *run, const bench_device *device, const bench_matrix_case *shape);
void bench_matrix_each(bench_run *run, const bench_device *device, const bench_matrix_case *table, uint32_t count,
                       bench_matrix_fn measure);
/* The job of a case, but for places, bytes, problem and functions: held against copies. */
bench_job bench_matrix_job(const bench_options *options, const char *op, const bench_matrix_case *shape);

/* Whether a libhal call succeeded; if not, `error` is what was being done and why not. */
bool bench_succeeded(hal_status status, const char *doing, char *error, size_t error_size);

/* The device's side of a job: the job's operands in a device's memory, and calls on its stream. */

typedef struct bench_stage {
    const bench_job *job;
    hal_device *device;
    hal_stream *stream;
    hal_buffer *buffers[BENCH_MAX_PLACES], *workspace;
    hal_span spans[BENCH_MAX_PLACES], workspace_span;
    hal_buffer *copy_from, *copy_to;
    hal_event *start, *end; /* NULL on devices without timestamps */
    hal_status status;      /* of the libhal call that failed */
    char error[500];
} bench_stage;

typedef struct bench_times {
    double submit, wait, device; /* seconds of one call; device NAN if not asked for or not known */
} bench_times;
/* By the device's clock where that was asked for and is known, else by the host's. */
double bench_times_seconds(const bench_times *times);

bool bench_stage_open(bench_stage *stage, const bench_device *device, const bench_job *job);
/* Call it `repeats` times, then wait. */
bool bench_stage_call(bench_stage *stage, uint32_t repeats, bool on_device, bench_times *times);
/* A copy of `size` bytes from buffer to buffer, instead. */
bool bench_stage_copy(bench_stage *stage, uint64_t size, uint32_t repeats, bench_times *times);
bool bench_stage_check(bench_stage *stage, bench_worst *worst);
void bench_stage_close(bench_stage *stage);

/* The limits of a host: multiply-adds of all cores; their non-temporal copies or their reads of `bytes` bytes (reads
 * and writes counted). */

typedef struct bench_host_limit bench_host_limit;
bench_host_limit *bench_host_limit_create(bench_limit limit, double bytes, uint32_t threads); /* NULL: out of memory */
void bench_host_limit_destroy(bench_host_limit *limit);
double bench_host_limit_measure(bench_host_limit *limit, uint32_t repeats); /* GFLOP/s or GB/s */

#endif
