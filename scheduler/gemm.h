/* gemm.h - between gemm.c (operands) and gemm_plan.c (kernels). */
#ifndef HAL_GEMM_H
#define HAL_GEMM_H

#include <hal/ops.h>

#include "operand.h"

/* Positions of the spans: of every kernel, and the rest of gemm_any and gemm_mma_any. */
enum { GEMM_A, GEMM_B, GEMM_C, GEMM_D, GEMM_BIAS, GEMM_RESIDUAL, GEMM_OPERANDS };
enum { GEMM_B_UP = GEMM_OPERANDS, GEMM_AT_SCALE_A, GEMM_AT_SCALE_B, GEMM_AT_SCALE_D, GEMM_ALL_OPERANDS };
enum { GEMM_CODES = GEMM_ALL_OPERANDS, GEMM_ROW_SCALES, GEMM_QUEUE, GEMM_QUEUE_OPERANDS }; /* of gemm_queue */

/* One way to compute a product: a kernel, and its tile. What the numbers mean beyond rows and columns of D is the
 * kernel's: depth of k, or 0. */
typedef struct gemm_choice {
    char kernel[24]; /* "gemm_task"; "" ends a list, or is no choice */
    uint32_t tile_m, tile_n, tile_k;
} gemm_choice;
enum { GEMM_MOST_CHOICES = 32 };

/* A checked descriptor. k is 0 where A and B are not to be read. */
typedef struct gemm_problem {
    uint32_t m, n, k, batch;
    bool trans_a, trans_b, trans_d;
    bool swiglu, interleaved;      /* two sums for each element of D; their columns of B alternate */
    bool alternate;                /* gemm_combine: sums of gate and up in turn */
    bool one_scale_a, one_scale_b; /* instead of one a row, one a column */
    hal_act act;
    hal_dtype between;
    hal_mode mode;
    float alpha, beta, swiglu_alpha;
    hal_span workspace;
    const gemm_choice *want; /* only this is planned, where it fits; NULL: whatever suits best */
    hal_operand operands[GEMM_ALL_OPERANDS];
} gemm_problem;

/* A kernel and how to launch it. */
typedef struct gemm_plan {
    hal_kernel_spec spec;
    const char *choice; /* what a gemm_choice calls the kernel in all its forms */
    bool flat;          /* gemm_task_flat, which has arguments of its own */
    const char *const *constant_names;
    uint32_t operands; /* spans that it takes */
    hal_grid grid;
    uint32_t tile_m, tile_n; /* what a group computes, ... */
    uint32_t tile_k;         /* ... so much of k at a time; 0: the kernel has but one depth */
    uint64_t most_groups;    /* of one dispatch, so that it does not run for long */
    uint64_t back_a, back_b; /* bytes that the views of A and B start before the operand */
    uint64_t iterations;     /* the most that a work-item's loops take together, the last test of each included */
} gemm_plan;

/* Up to so many rows B is what costs time, and it is read once, as it lies. */
#define GEMM_FEW_ROWS      8
#define GEMM_FEW_ROWS_TASK 16 /* of a core's task, B plain: packing it would cost more than it gains */

/* Kernels that a plan can do without: the general one is always left. */
typedef enum gemm_kernel {
    GEMM_KERNEL_TASK = 1,
    GEMM_KERNEL_MMA = 2, /* gemm_mma, or gemm_mma_any where there are options */
    GEMM_KERNEL_SMALL = 4,
    GEMM_KERNEL_ASYNC = 16,
    GEMM_KERNEL_VIEWS = 8 /* the task kernel's texel views: never *chosen, but may be done without */
} gemm_kernel;

/* The best plan for the device without the kernels in `without` (bits of gemm_kernel); *chosen: the one it took, or 0.
 */
hal_status hal_gemm_plan(const hal_device_info *info, const gemm_problem *problem, uint32_t without, gemm_plan *plan,
                         gemm_kernel *chosen);

/* The choices that fit the device and the problem, the one that hal_gemm_plan takes first. Returns how many. */
uint32_t hal_gemm_choices(const hal_device_info *info, const gemm_problem *problem,
                          gemm_choice choices[GEMM_MOST_CHOICES]);
/* What a plan has chosen. */
gemm_choice hal_gemm_choice_of(const gemm_plan *plan);
bool hal_gemm_same_choice(const gemm_choice *x, const gemm_choice *y);

/* Whether a problem asks for what the plain kernels lack: then gemm_any does it, gemm_mma_any, or a task with every
 * option. */
bool hal_gemm_has_options(const gemm_problem *problem);

/* The plan of gemm_combine: what the first phase stored is its A, in as many parts as its k. */
void hal_gemm_plan_combine(const hal_device_info *info, const gemm_problem *problem, gemm_plan *plan);

/* The plan of gemm_queue, whose groups take tiles of gemm_any from a queue. *fits: it surely ends within a second, in
 * loops that the device allows. */
hal_status hal_gemm_plan_queue(const hal_device_info *info, const gemm_problem *problem, gemm_plan *plan, bool *fits);

/* FLOP/s that a compute unit reaches at the least. */
double hal_gemm_slowest(hal_device_type type, gemm_kernel kernel);

/* The argument struct of every kernel but gemm_task_flat; its flags that the plain kernels heed. */
void hal_gemm_arguments(const gemm_problem *problem, const gemm_plan *plan, hal_gemm_args *args);
uint32_t hal_gemm_flags(const gemm_problem *problem);
/* Check a descriptor. *empty: there is nothing to do. `spans`: A, B and D must be given. */
hal_status hal_gemm_resolve(const hal_gemm_desc *desc, bool spans, gemm_problem *problem, bool *empty);
/* Records a problem's dispatches; most_groups of each, 0: as planned. */
hal_status hal_gemm_record(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                           gemm_kernel *used);
/* One dispatch of a plan. */
hal_status hal_gemm_dispatch(hal_cmdlist *list, hal_kernel *kernel, const gemm_plan *plan, const gemm_problem *problem,
                             uint64_t most_groups);
/* The same of a flat one (gemm_texel.c). */
hal_status hal_gemm_dispatch_flat(hal_cmdlist *list, hal_kernel *kernel, const gemm_plan *plan,
                                  const gemm_problem *problem, uint64_t most_groups);

/* Two phases, for a problem with a workspace (gemm_phases.c). */
typedef struct gemm_phases {
    uint32_t parts, depth; /* of k; 1: whole */
    uint32_t sums;         /* of each element, each a GEMM of the first phase: 2 for gate and up, ... */
    uint32_t kernels;      /* ... which are so many dispatches: a shorter last part is one of its own */
    bool alternate;        /* SwiGLU's columns of B alternate, and one GEMM makes both */
    bool narrow;    /* but one phase would be SwiGLU by a core's task: its tile is half as wide, see gemm_plan.c */
    uint64_t bytes; /* of the workspace */
} gemm_phases;

/* Whether it is done in two phases where there is a workspace. */
bool hal_gemm_phases(const hal_device_info *info, const gemm_problem *problem, uint32_t without, gemm_phases *phases);
/* The same of a descriptor whose workspace is what hal_gemm_workspace says; no bytes: one kernel does it all, and of
 * the rest only `narrow` is said. */
hal_status hal_gemm_asked_phases(const hal_device_info *info, const hal_gemm_desc *desc, gemm_phases *phases);
/* k in `parts`, or some less: a multiple of 64 of k each. */
gemm_phases hal_gemm_phases_of(const gemm_problem *problem, uint32_t parts);
hal_status hal_gemm_record_phases(hal_cmdlist *list, const gemm_problem *problem, const gemm_phases *phases,
                                  uint32_t without, gemm_kernel *used);

/* Let the problem want what the device's tunings say, in the mode that may look at them; *choice: where it is kept. */
void hal_gemm_ask_tunings(hal_device *device, gemm_problem *problem, uint32_t without, gemm_choice *choice);

/* hal_gemm in one phase with this choice; HAL_ERROR_UNSUPPORTED where it does not fit. */
hal_status hal_gemm_chosen(hal_cmdlist *list, const hal_gemm_desc *desc, const gemm_choice *choice);

/* hal_gemm without some kernels; tests run every form of a kernel on every device with it. *used: the one taken. */
hal_status hal_gemm_without(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, gemm_kernel *used);
/* The same, cut into dispatches of at most so many groups. */
hal_status hal_gemm_split(hal_cmdlist *list, const hal_gemm_desc *desc, uint32_t without, uint64_t most_groups,
                          gemm_kernel *used);

#endif
