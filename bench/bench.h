/* bench.h - what the files of hal-bench share: options, results, reports. */
#ifndef BENCH_H
#define BENCH_H

#include <hal/hal.h>
#include <stdio.h>

/* Options */

typedef enum bench_command {
    BENCH_SUITE,
    BENCH_DEVICES,
    BENCH_OVERHEAD,
    BENCH_REPLAY,
    BENCH_GEMM,
    BENCH_SOFTMAX,
    BENCH_ATTENTION,
    BENCH_RMSNORM,
    BENCH_ACTIVATION,
    BENCH_TRANSPOSE,
    BENCH_QUANTIZE,
    BENCH_FUSION,
    BENCH_FFN,
    BENCH_LAYER,
    BENCH_TUNE,     /* not measured in rows: bench_tune */
    BENCH_MODEL,    /* reads its own options: bench_model */
    BENCH_COMMANDS, /* how many there are */
    BENCH_HELP,
    BENCH_VERSION
} bench_command;

/* Dimension d of the result is dimension perm[d] of what is permuted. */
enum { BENCH_MAX_DIMS = 8 };
typedef struct bench_permutation {
    uint32_t rank;
    uint64_t dims[BENCH_MAX_DIMS];
    uint32_t perm[BENCH_MAX_DIMS];
} bench_permutation;

/* The sizes of an attention problem. */
typedef struct bench_heads {
    uint64_t batch;
    uint32_t q_heads, kv_heads, head_dim;
    uint64_t q_len, kv_len;
    uint32_t page_size; /* 0: no pages */
    bool causal;        /* query i sees the keys up to i + kv_len - q_len */
} bench_heads;

typedef struct bench_options {
    bench_command command;
    bench_command help_for; /* BENCH_HELP: of which command */
    const char *json, *html, *trace;
    const char *backends; /* NULL: every backend */
    bool quick, verbose, all_devices, counters;
    uint32_t rounds; /* interleaved rounds of a measurement */
    /* operators; 0 or NULL: not given */
    bool has_dtype;
    hal_dtype dtype;
    const char *op;
    uint64_t m, n, k, rows, columns;
    uint64_t hidden; /* graphs */
    uint32_t layers;
    const char *workload, *output; /* tune */
    double seconds;
    bool again;
    bench_heads heads;
    const char *perm; /* as it was given */
    bench_permutation permutation;
} bench_options;

/* Read the command line. False: `error` holds what is wrong. */
bool bench_options_parse(bench_options *options, int argc, char **argv, char *error, size_t error_size);
void bench_options_help(bench_command command, FILE *out);
/* "gemm"; "" of BENCH_SUITE and what is no command. */
const char *bench_command_name(bench_command command);

/* Results. NAN means "not known" or "not measured"; it becomes null in JSON and "-" in tables. */

typedef enum bench_kind { BENCH_ROW_OVERHEAD, BENCH_ROW_REPLAY, BENCH_ROW_OPERATOR, BENCH_ROW_GRAPH } bench_kind;

enum { BENCH_MAX_PEERS = 3 };

typedef struct bench_row {
    bench_kind kind;
    char backend[16], device[128];
    uint32_t index; /* of the device in its backend */
    char label[40]; /* the case */
    bool failed;    /* a wrong result, or the device failed; `note` says what */
    char note[512]; /* also: why there is no control, or why nothing was measured */

    /* overhead and replay: host nanoseconds per command */
    uint32_t commands, rounds;
    double libhal_ns, raw_ns;             /* submit clock */
    double ratio, ratio_low, ratio_high;  /* median of the pairs' libhal / raw, and their quartiles */
    double libhal_total_ns, raw_total_ns; /* submit and wait */
    double total_ratio;
    double device_ns, wait_ns;
    double allocations;                     /* host allocations of libhal per command */
    double rss_growth;                      /* bytes, over the unwaited submits */
    double eager_ns, record_ns, break_even; /* replay: the same work eagerly, per command; recording; submissions */
    double rerecord_ns;                     /* replay: recording again and submitting, per command */

    /* operators: medians of the rounds; ratios are taken within a round. Seconds are device time on GPUs, host time on
     * CPU devices. */
    const char *op; /* "gemm" */
    char shape[64];
    hal_dtype dtype;
    double seconds, rate, gflops, gbps; /* of a call; rate in `unit`, "GFLOP/s" or "GB/s" */
    const char *unit, *floor;           /* what limits it, "" if that is not known */
    double floor_rate, floor_ratio;     /* ratio: rate / the limit's */
    uint32_t peer_count;
    struct {
        const char *name;
        double rate, ratio;   /* ours / the peer's */
    } peers[BENCH_MAX_PEERS]; /* the first is the one to compare with */
    double max_error, bound;  /* where the error is nearest to its bound: |got - want|, and what it may be */
    uint64_t m, n, k;         /* gemm */
    double peak_fraction;     /* gemm: floor_ratio, or on GPUs the share of the published peak */

    /* graphs: of all its layers once; submit clock: libhal_ns */
    const char *mode; /* "eager", "replay", "eager, 2 streams" */
    bool fused;
    uint64_t submits, kernels, bytes, peak_bytes;
    double predicted_ns;
} bench_row;

typedef struct bench_floors {
    uint32_t threads;
    double fma_gflops, copy_gbps, read_gbps; /* FP32; non-temporal stores, read and write counted; summing */
} bench_floors;

typedef struct bench_machine {
    char cpu[128], os[160];
    uint32_t cores;
    bench_floors floors;
} bench_machine;

typedef struct bench_device {
    hal_device_info info;
    char select[32]; /* "opencl:0" */
} bench_device;

typedef struct bench_run {
    const bench_options *options;
    FILE *out; /* tables: stdout, or stderr when stdout carries the JSON */
    bool colour;
    bench_machine machine;
    bench_device *devices;
    uint32_t device_count;
    bench_row *rows;
    uint32_t row_count, row_capacity;
    uint32_t step, steps; /* progress */
    bool failed;
} bench_run;

/* A fresh row, NAN in every figure; it lives until the next one is added. Aborts the program when out of memory. */
bench_row *bench_row_add(bench_run *run, bench_kind kind, const bench_device *device, const char *label);
void bench_row_fail(bench_run *run, bench_row *row, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *bench_row_kind(const bench_row *row); /* "overhead", "replay", or the operator */
/* How much of the bound the error takes: above 1 is wrong. */
double bench_row_error(const bench_row *row);

/* Questions: each measures one device and adds its rows. */

void bench_overhead(bench_run *run, const bench_device *device);
void bench_replay(bench_run *run, const bench_device *device);
uint32_t bench_overhead_steps(const bench_options *options);
uint32_t bench_replay_steps(const bench_options *options);
void bench_gemm(bench_run *run, const bench_device *device);
uint32_t bench_gemm_steps(const bench_options *options);
void bench_softmax(bench_run *run, const bench_device *device);
uint32_t bench_softmax_steps(const bench_options *options);
void bench_attention(bench_run *run, const bench_device *device);
uint32_t bench_attention_steps(const bench_options *options);
void bench_rmsnorm(bench_run *run, const bench_device *device);
uint32_t bench_rmsnorm_steps(const bench_options *options);
void bench_activation(bench_run *run, const bench_device *device);
uint32_t bench_activation_steps(const bench_options *options);
void bench_transpose(bench_run *run, const bench_device *device);
uint32_t bench_transpose_steps(const bench_options *options);
void bench_quantize(bench_run *run, const bench_device *device);
uint32_t bench_quantize_steps(const bench_options *options);
void bench_fusion(bench_run *run, const bench_device *device);
uint32_t bench_fusion_steps(const bench_options *options);
void bench_ffn(bench_run *run, const bench_device *device);
uint32_t bench_ffn_steps(const bench_options *options);
void bench_layer(bench_run *run, const bench_device *device);
uint32_t bench_layer_steps(const bench_options *options);
/* What the command asks for, on every device. */
void bench_measure(bench_run *run);
void bench_trace(bench_run *run, const bench_device *device);
/* The exit code. */
int bench_devices(const bench_options *options, FILE *out, bool colour);

/* Open what --backend, HAL_BACKEND or nothing selects. 0, or the exit code after a message on stderr. */
int bench_devices_choose(bench_run *run);
/* Bind each thread of this process but the caller's to one CPU, in turn. */
void bench_threads_spread(void);
/* Open a device whose kernels are to be timed; if it is a CPU device, its threads are spread. Submission is timed
 * without: where a waiting thread wakes is part of it. */
hal_status bench_device_open(const bench_device *device, hal_device **opened);

/* The machine */

void bench_machine_describe(bench_machine *machine);
bool bench_floors_measure(bench_floors *floors); /* a third of a second */
uint64_t bench_rss(void);                        /* bytes */
double bench_seconds(void);                      /* a steady clock */
void bench_pause(double seconds);

typedef struct bench_peak {
    double gflops, gbps; /* NAN: unknown */
} bench_peak;
/* Published peaks of a GPU by its name (scheduler/devices/). */
bench_peak bench_peak_find(const char *device_name, hal_dtype dtype);

/* Reports */

void bench_report_table(const bench_run *run);      /* what was measured, per device */
void bench_report_comparison(const bench_run *run); /* rows are questions, columns are devices */
char *bench_report_json(const bench_run *run);      /* malloc'ed text, NULL when out of memory */
bool bench_report_html(const bench_run *run, FILE *file);
void bench_counters(FILE *out, bool colour); /* of the stand-in CUDA driver, by kernel */
/* "1.23 us": nanoseconds with a fitting unit; "-" for NAN. Returns `text`. */
char *bench_format_ns(double nanoseconds, char text[24]);
char *bench_format_number(double value, const char *format, char text[24]); /* "-" for NAN */

/* Write text to a file aside and rename it, so that `path` is never half written; "-" is stdout. */
bool bench_file_write(const char *path, const char *text, char *error, size_t error_size);
/* Whether it could, as far as can be told without writing. */
bool bench_file_check(const char *path, char *error, size_t error_size);
/* A regular file's text, with a 0 behind it that *size does not count; free it. NULL, and `error`: it cannot be read,
 * is larger than `most` (whole MiB), or is a pipe, say, whose end might never come. */
char *bench_file_read(const char *path, size_t most, size_t *size, char *error, size_t error_size);

/* Progress and interrupts */

void bench_interrupt_install(void);
bool bench_interrupted(void);
/* One more step begins: shown on a terminal, in place. */
void bench_progress(bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_progress_clear(void);

#endif
