/* attention.h - between attention.c, which checks a descriptor, and attention_plan.c, which chooses kernels. */
#ifndef HAL_ATTENTION_H
#define HAL_ATTENTION_H

#include "kernel_attention.h"
#include "tuning.h"

/* The scores, in the table of operands only: their kernel has them in o's place. */
#define ATTENTION_SCORES   ATTENTION_SPANS
#define ATTENTION_OPERANDS (ATTENTION_SPANS + 1)

/* A checked descriptor: defaults filled in, operands resolved. */
typedef struct attention_problem {
    hal_attention_desc desc;
    hal_operand operands[ATTENTION_OPERANDS];
    uint64_t tokens; /* of all sequences' queries */
    uint32_t rows;   /* of the longest sequence and one head of keys: q_length * q_heads / kv_heads */
} attention_problem;

/* Kernels that a test can do without: */
typedef enum attention_kernel {
    ATTENTION_KERNEL_TASK = 1, /* one core's task, or subgroup, a tile */
    ATTENTION_KERNEL_MMA = 2   /* matrix units */
} attention_kernel;

typedef struct attention_plan {
    attention_kernel kernel; /* 0: the one for any device */
    hal_operator_launch launch;
    uint32_t back[3];      /* bytes that the views of q, k and v start before their spans */
    uint32_t rows;         /* of a tile */
    uint32_t splits, part; /* part: blocks of ATTENTION_KEYS keys of a split */
} attention_plan;

/* Which kernel, in which tiles, and in how many splits: the latter only if `may_split`. */
hal_status hal_attention_plan(const hal_device_info *info, const attention_problem *p, bool may_split, uint32_t without,
                              attention_plan *plan);
/* The kernel that puts splits together. */
void hal_attention_plan_combine(const hal_device_info *info, const attention_problem *p, hal_operator_launch *launch);
/* The kernel that gives the scores. */
hal_status hal_attention_plan_scores(const hal_device_info *info, const attention_problem *p,
                                     hal_operator_launch *launch);
uint64_t hal_attention_part_elements(const attention_problem *p, uint32_t splits);

/* Tiles that there is work for, as a list on the device in place of a grid. */
typedef struct attention_list {
    hal_span items; /* count times ATTENTION_ITEM_WORDS words */
    uint32_t count; /* every tile that has rows, with each of the splits */
    uint32_t rows;  /* of a tile */
    uint32_t splits;
    uint64_t workspace; /* bytes */
} attention_list;
#define ATTENTION_ITEM_WORDS 4 /* sequence, tile, split, 0 */

/* rows, splits and workspace of the kernel that hal_attention takes for a problem whose operands are aligned; it is
 * compiled. */
hal_status hal_attention_layout(hal_device *device, const hal_attention_desc *desc, attention_list *list);
/* hal_attention over such a list. Where the operands need a kernel with other tiles, it goes over the whole grid. */
hal_status hal_attention_listed(hal_cmdlist *cmdlist, const hal_attention_desc *desc, const attention_list *list);

/* Checks all but the workspace. *empty: there is nothing to do. `spans`: operands must be given. */
hal_status hal_attention_resolve(const hal_attention_desc *desc, bool spans, attention_problem *problem, bool *empty);

/* For tuning: what the choices depend on; those that fit, the rules' first, with the workspace that all of them need;
 * hal_attention with one, HAL_ERROR_UNSUPPORTED where it does not fit. A choice's tile is rows and splits. */
hal_tuned_shape hal_attention_shape(const attention_problem *p);
hal_status hal_attention_choices(hal_device *device, const attention_problem *p, gemm_choice choices[GEMM_MOST_CHOICES],
                                 uint32_t *count, uint64_t *workspace);
hal_status hal_attention_chosen(hal_cmdlist *list, const hal_attention_desc *desc, const gemm_choice *choice);

/* hal_attention without some kernels (bits of attention_kernel). */
hal_status hal_attention_without(hal_cmdlist *list, const hal_attention_desc *desc, uint32_t without);

#endif
