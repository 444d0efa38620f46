/* plan_state.h - what is inside a plan. plan.c makes it, plan_lanes.c spreads it over streams, plan_shapes.c keeps what
 * a number of rows needs, plan_background.c records it beside the runs, plan_run.c runs it, plan_measure.c times its
 * steps, plan_padding.c says whether it may be padded, plan_choices.c exports and imports its fusions, plan_table.c,
 * plan_explain.c and plan_json.c tell about it.
 *
 * What hal_plan_create has made is not written any more, so that programs are recorded without a lock; what runs change
 * is under `lock`, which a run holds while it tells its work. `prepare` is taken before it. */
#ifndef HAL_PLAN_STATE_H
#define HAL_PLAN_STATE_H

#include <pthread.h>

#include "fusion.h"
#include "memory_plan.h"

enum {
    HAL_PLAN_PROGRAMS = 8,         /* kept by default */
    HAL_PLAN_MOST_PROGRAMS = 4096, /* and at most */
    HAL_PLAN_UNRECORDED = 32,      /* numbers of rows remembered without a program */
    HAL_PLAN_KERNELS = 65536,      /* of a program at most, and a few more for each step of it */
    HAL_PLAN_MOST_STREAMS = 64,
    HAL_PLAN_WANTED = 16 /* numbers of rows that wait for the background at most; more ask again */
};

/* What runs with a number of rows need. The memory plan, and everything before `list`, stays as it was made. */
typedef struct hal_plan_shape {
    struct hal_plan_shape *chain, *newer, *older;
    uint64_t rows;
    hal_memory_plan memory;
    uint64_t *workspaces;  /* by step: bytes */
    uint64_t *slot_bytes;  /* by slot: the least its span must have */
    uint64_t *padded;      /* by slot: where scratch has its padded copy; HAL_NO_PLACE: it needs none */
    uint64_t padded_end;   /* scratch with those copies */
    uint32_t *kernels;     /* by step: dispatches */
    uint32_t kernel_count; /* their sum */
    hal_cmdlist *list;     /* NULL: steps are told at each run */
    double *measured_us;   /* by step: by hal_plan_measure; NAN */
    uint64_t runs;         /* told so far, or since recording failed: HAL_SHAPES_AUTO weighs them */
    bool asked, refused;   /* of the background: waits for its program; did not get it */
} hal_plan_shape;

/* Where an eager run tells a step. */
typedef struct hal_plan_lane {
    uint32_t stream;            /* 0: the run's own */
    uint32_t first_wait, waits; /* in plan->waits: steps of other streams that it waits for */
    hal_event *event;           /* recorded behind it for other streams; NULL: none waits */
} hal_plan_lane;

/* Of the last few times. */
typedef struct hal_plan_mean {
    double us;
    uint64_t count;
} hal_plan_mean;

struct hal_plan {
    uint32_t type;
    hal_device *device;
    hal_plan_desc desc; /* defaults filled in; label and choices are not kept */
    uint64_t *buckets;
    hal_program program;
    uint32_t operators; /* of the graph */
    uint64_t graph;     /* digest of its program, before fusion */
    hal_decisions decisions;
    hal_model_machine machine;
    bool has_rows;
    uint32_t *slots; /* tensors: the inputs, then the outputs */
    uint32_t slot_count;
    uint32_t *writers; /* by tensor: the step; UINT32_MAX: none */

    uint32_t streams;  /* used by eager runs */
    hal_stream **side; /* streams - 1 */
    hal_event *fork, **join;
    hal_plan_lane *lanes; /* by step; NULL with one stream */
    uint32_t *waits;
    uint64_t *before;            /* see memory_plan.h; NULL: steps run in order */
    double serial_us, spread_us; /* predicted on one stream and on those; 0 where only one may be used */

    pthread_mutex_t prepare; /* one program is recorded at a time */
    pthread_mutex_t lock;    /* everything below */
    hal_plan_shape **table;  /* chains by number of rows */
    uint32_t table_size, shape_count, list_count;
    hal_plan_shape *newest, *oldest;
    hal_span *spans; /* by tensor, of the run that is told */
    hal_span *bound; /* by slot, and scratch: what the steps get */
    hal_span *given; /* by slot: what the caller bound, where inputs and outputs are padded */
    hal_buffer *scratch;
    uint64_t scratch_size;
    hal_event *scratch_done; /* behind the last run that used it, on ... */
    hal_stream *scratch_stream;
    hal_event *start, *end; /* around some runs; NULL: no timestamps */
    bool timed;             /* they were recorded and not read */
    double device_us, submit_us;
    uint32_t alignment; /* of what recorded lists take; bound otherwise, steps are told */
    uint64_t runs, submits, kernel_count, recorded, dropped;
    hal_plan_mean told, replayed, recording;

    pthread_t worker; /* desc.background: plan_background.c */
    bool has_worker;  /* not written while it runs */
    pthread_cond_t asked;
    bool stop;
    uint64_t wanted[HAL_PLAN_WANTED]; /* rows, the next first */
    uint32_t wanted_count;
    uint64_t failed;    /* programs */
    hal_status failure; /* the last */
    char failure_text[256];
};

/* For tests: spread over streams even where the model is against it. */
typedef struct hal_plan_hooks {
    bool spread;
} hal_plan_hooks;
hal_status hal_plan_create_with(hal_device *device, const hal_graph *graph, const hal_plan_desc *desc,
                                const hal_plan_hooks *hooks, hal_plan **plan);

/* HAL_OK if it is a plan; `call` is for the message. */
hal_status hal_plan_check(const hal_plan *plan, const char *call);
const hal_tensor_info *hal_plan_slot(const hal_plan *plan, uint32_t slot);
static inline bool hal_tensor_has_rows(const hal_tensor_info *tensor)
{
    return tensor->dims.size[0] == HAL_ROWS;
}
static inline uint64_t hal_plan_align(uint64_t bytes)
{
    return (bytes + HAL_MEMORY_ALIGNMENT - 1) / HAL_MEMORY_ALIGNMENT * HAL_MEMORY_ALIGNMENT;
}
void hal_plan_mean_add(hal_plan_mean *mean, double us);

/* plan_lanes.c: streams for the steps, if that pays or is forced; else one. */
hal_status hal_plan_spread(hal_plan *plan, bool force);
void hal_plan_lanes_clear(hal_plan *plan);
/* What the model predicts for a step, and ... */
double hal_plan_predict_us(const hal_plan *plan, uint32_t index, uint64_t rows);
/* ... the least that it can take: its bytes once and its FLOPs, at the machine's rates. */
double hal_plan_floor_us(const hal_plan *plan, uint32_t index, uint64_t rows);
/* The steps whose results step `index` reads. */
uint32_t hal_plan_after(const hal_plan *plan, uint32_t index, uint32_t steps[HAL_ROLES]);

/* plan_shapes.c. The rows that a run of `rows` is carried out with: those of a bucket, or its own; checked, and 1 for a
 * graph without HAL_ROWS. */
hal_status hal_plan_rows(const hal_plan *plan, const char *call, uint64_t rows, uint64_t *carried);
/* Whether runs of so many rows are to have a program, sooner or later. */
bool hal_plan_records(const hal_plan *plan, uint64_t carried);
/* The shape, made if need be, and the newest from now on. `recorded`: with a list, unless another thread records one.
 */
hal_status hal_plan_shape_locked(hal_plan *plan, uint64_t carried, bool recorded, hal_plan_shape **shape);
/* NULL: these rows are not known (any more). */
hal_plan_shape *hal_plan_known_locked(hal_plan *plan, uint64_t carried);
void hal_plan_shapes_clear(hal_plan *plan);
/* Where each tensor is, if the slots are `bound` and scratch is `scratch`. */
void hal_plan_place(const hal_plan *plan, const hal_plan_shape *shape, const hal_span *bound, hal_span scratch,
                    hal_span *spans);
static inline hal_span hal_plan_part(hal_span span, uint64_t offset, uint64_t size)
{
    span.offset += offset;
    span.size = size;
    return span;
}
hal_span hal_plan_workspace(const hal_plan_shape *shape, uint32_t step, hal_span scratch);

/* plan_background.c: the thread, if the plan is to have one; it ends with what it is at. */
hal_status hal_plan_background_start(hal_plan *plan);
void hal_plan_background_stop(hal_plan *plan);
/* Its program is to be recorded, unless that is under way or has failed not long ago. */
void hal_plan_ask_locked(hal_plan *plan, hal_plan_shape *shape);

/* plan_run.c: the device's time of the last timed run, if it is done. */
void hal_plan_harvest_locked(hal_plan *plan);

/* plan_padding.c: HAL_OK if rows behind those that count cannot change the others; else the reason. */
hal_status hal_plan_may_pad(const hal_program *program);

/* plan_measure.c: hal_fusion_options.measure, with the plan as `user`. */
bool hal_plan_measure_steps(void *user, const hal_program *program, const hal_step *steps, uint32_t count, double *us);

/* plan_choices.c */
uint64_t hal_plan_digest(const hal_program *program);
/* Fusions as hal_plan_export wrote them. The text that decisions point into is *held: free both, decisions first. */
struct hal_json;
hal_status hal_plan_import(const char *text, uint64_t graph, hal_decisions *decisions, struct hal_json **held);

#endif
