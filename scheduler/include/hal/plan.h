/* hal/plan.h - a graph compiled for a device: fusions chosen, intermediates placed in one arena, kernels compiled,
 * and run eagerly or as a replayed command list, with inputs and outputs bound by pointer at each run.
 *
 * Any call may come from any thread; the calls of one plan take turns, but that hal_plan_prepare records while runs go
 * on. A plan holds its device, and the buffers of the graph's constants. Runs on one stream are in order. Runs that use
 * the plan's own scratch are ordered one after another on the device, on whatever streams they are told to; give each
 * its own scratch to let them overlap. Whatever way a run takes, the bits are the same, but where it says otherwise.
 *
 * After a failure the plan, the device and what was bound can be used as before; only the outputs of a run that failed
 * hold anything. */
#ifndef HAL_PLAN_H
#define HAL_PLAN_H

#include <hal/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_plan hal_plan;

/* Which legal fusions are made. Every policy gives the same bits, but where a decision says "reorders sums". */
typedef enum hal_fusion {
    HAL_FUSE_MODEL = 0,   /* those that the cost model predicts to gain */
    HAL_FUSE_NONE = 1,    /* a kernel for each operator of the graph */
    HAL_FUSE_ALL = 2,     /* all for which there is a kernel */
    HAL_FUSE_MEASURED = 3 /* both ways timed on the device at hal_plan_create, at `measure_rows` rows */
} hal_fusion;

/* How a run with a number of rows is carried out. */
typedef enum hal_shapes {
    HAL_SHAPES_SPECIAL = 0,  /* a program of its own for each number of rows seen, at most `programs` kept */
    HAL_SHAPES_GENERAL = 1,  /* operators told at each run; nothing is recorded */
    HAL_SHAPES_BUCKETED = 2, /* the least of `buckets` that holds the rows; inputs are copied and padded with zeros, and
                                outputs copied, where the rows are fewer; beyond the greatest: general. A graph in which
                                padding could reach a row that counts is refused (HAL_ERROR_UNSUPPORTED). With
                                HAL_MODE_FAST sums are taken in the bucket's order, not in that of so many rows */
    HAL_SHAPES_AUTO = 3      /* general at first; a number of rows that has come so often that recording pays, by the
                                times measured so far, gets a program */
} hal_shapes;

typedef struct hal_plan_desc {
    size_t struct_size;
    const char *label; /* NULL: the graph's */
    hal_fusion fusion;
    bool no_reordering;      /* leave out fusions that change the order of sums (attention made of its parts) */
    bool replay;             /* record once, then replay; else operators are told at each run */
    hal_mode mode;           /* of every operator */
    hal_shapes shapes;       /* with replay; else ignored */
    uint32_t programs;       /* recorded lists kept at most, the least recently used goes; 0: 8 */
    const uint64_t *buckets; /* rows, ascending */
    uint32_t bucket_count;
    uint32_t streams;      /* independent branches run on so many streams where that pays, by the model; 0 and 1: one.
                              A recorded list is always one: branches are independent in it, and where streams pay they
                              share no memory, which would make one wait for the other */
    uint64_t measure_rows; /* rows at which fusions and streams are chosen, and of hal_plan_explain's table of fusions;
                              0: 1024 */
    const char *choices;   /* what hal_plan_export wrote: fusions are taken from it, not chosen; NULL: chosen */
    bool background; /* with replay (else ignored): a thread of the plan records programs, at first sight of their rows
                        or, with HAL_SHAPES_AUTO, once that pays; runs tell their operators until theirs is there. What
                        it cannot record goes on being told, and hal_plan_stats and hal_plan_explain say so */
} hal_plan_desc;
#define HAL_PLAN(...) HAL_DESC(hal_plan_desc, __VA_ARGS__)

/* Compiles: kernels are built, nothing is run but for HAL_FUSE_MEASURED. A failure leaves device and graph as they
 * were. */
HAL_API hal_status hal_plan_create(hal_device *device, const hal_graph *graph, const hal_plan_desc *desc,
                                   hal_plan **plan);
/* Legal while it runs: that is finished first, without blocking here. A program that the background is recording is
 * waited for. */
HAL_API void hal_plan_destroy(hal_plan *plan);

/* Bytes of scratch for so many rows. Here and below: rows for which the steps would be cut into more than 65,536
 * kernels, since none may run for long, are HAL_ERROR_LIMIT. */
HAL_API hal_status hal_plan_scratch(hal_plan *plan, uint64_t rows, uint64_t *size);
/* Have the program for so many rows recorded, so that the run does not have to: ahead, or from a thread of yours, one
 * program at a time (hal_plan_desc.background has one do it by itself). Runs that come meanwhile and find no program
 * tell their operators. */
HAL_API hal_status hal_plan_prepare(hal_plan *plan, uint64_t rows);
/* Run on a stream. bindings: the inputs' spans, the outputs' spans, in the order of the graph; one more is scratch of
 * hal_plan_scratch bytes at a multiple of 256, else the plan's own is used. An output may be bound over nothing else.
 * Recorded lists take addresses that are multiples of 16, on Vulkan's CPU devices of hal_device_info.span_alignment, as
 * buffers' starts are; bound elsewhere, operators are told, and may take kernels that round otherwise.
 * Nothing is copied but by HAL_SHAPES_BUCKETED. rows is ignored where the graph has no HAL_ROWS; 0 rows are legal. */
HAL_API hal_status hal_plan_run(hal_plan *plan, hal_stream *stream, uint64_t rows, const hal_bindings *bindings);

/* A run for hal_plan_explain: its steps are told one by one with a timestamp between, and waited for. Needs a device
 * with timestamps. */
HAL_API hal_status hal_plan_measure(hal_plan *plan, hal_stream *stream, uint64_t rows, const hal_bindings *bindings,
                                    uint64_t timeout);

typedef struct hal_plan_stats {
    size_t struct_size;
    /* predicted, for the rows asked */
    uint32_t operators;                  /* of the graph */
    uint32_t steps;                      /* after fusion */
    uint32_t fusions, declined, refused; /* made; legal but not made; illegal */
    uint32_t streams;                    /* used */
    uint64_t bytes;                      /* read and written by the steps' operands, each once a step */
    double flops;
    uint64_t scratch_bytes;  /* the arena */
    uint64_t peak_bytes;     /* alive at once at most: intermediates, without inputs, outputs and constants */
    uint64_t unshared_bytes; /* the arena would take without sharing */
    double predicted_us;
    /* measured, over all runs so far */
    uint64_t runs;
    uint64_t submits;                             /* of lists, and of kernels told at once */
    uint64_t kernels;                             /* dispatches, before hal/ splits any */
    uint64_t programs_recorded, programs_dropped; /* instances, and those that the bound on them let go */
    double submit_us; /* host time of telling: of the last run that was told, or replayed and timed; NAN: none */
    double device_us; /* the last run that was timed, on devices with timestamps; NAN: none, or it was not done when you
                         asked. Timed are runs 1, 2, 4, 8 and so on, and every 64th: a timestamp may cost a submission.
                         How long you wait for a run is yours to measure */
    uint64_t programs_failed; /* that the background could not record */
    hal_status failure;       /* the last of them; HAL_OK: none. hal_plan_explain has its message */
} hal_plan_stats;
/* stats->struct_size is set by the caller. */
HAL_API hal_status hal_plan_get_stats(hal_plan *plan, uint64_t rows, hal_plan_stats *stats);

/* A table: each step with its kernel, bytes, FLOPs, floor, predicted and measured time, place of its result; each
 * fusion considered, with the reason for what became of it; the critical path. */
HAL_API hal_status hal_plan_explain(hal_plan *plan, uint64_t rows, FILE *out);
HAL_API hal_status hal_plan_explain_json(hal_plan *plan, uint64_t rows, FILE *out);
/* The choices made, as JSON for hal_plan_desc.choices: they fit the same graph on any device. malloc'ed: free it with
 * hal_plan_export_free. */
HAL_API hal_status hal_plan_export(const hal_plan *plan, char **json);
HAL_API void hal_plan_export_free(char *json);

#ifdef __cplusplus
}
#endif
#endif
