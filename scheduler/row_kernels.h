/* row_kernels.h - how softmax and RMSNorm are laid over a device. */
#ifndef HAL_ROW_KERNELS_H
#define HAL_ROW_KERNELS_H

#include "operand.h"

/* Bits for the tests, which run on CPU devices what is made for GPUs, too; 0: what suits the device. */
#define HAL_ROW_GROUPS 1u /* groups of work-items, as on GPUs */
#define HAL_ROW_SPLIT  2u /* rows in parts wherever there is a workspace */

typedef struct hal_row_shape {
    bool task;        /* one work-item is a core's task */
    bool views;       /* inputs should be texel views */
    bool flat;        /* a flat kernel (flat.h) should be used */
    uint32_t threads; /* of a row */
    uint32_t most_threads;
    uint32_t rows;       /* of a group of work-items at a time */
    uint32_t group_rows; /* that a group takes in all */
    uint32_t keep;       /* how many times four neighbours a thread keeps of its row; 0: rows are read again */
    uint64_t turns;      /* of a loop over a row, at most */
} hal_row_shape;

/* `keep` depends on the columns only. */
hal_row_shape hal_row_shape_of(const hal_device_info *info, uint64_t rows, uint64_t columns, unsigned forms);

/* Whether the operand can be read as texels of four elements: rows start at a texel. */
bool hal_row_has_view(const hal_device_info *info, const hal_operand *operand);
/* Makes its span a view's, which may start earlier: by so many texels. */
uint32_t hal_row_make_view(const hal_device_info *info, hal_operand *operand, hal_view *view);

/* Elements of a row that a task keeps in local memory, beside its partial sums: the row's, or, if it is too long, 0. */
uint32_t hal_row_task_keep(const hal_device_info *info, uint64_t columns);

/* Dynamic shared memory in which CUDA's kernels keep rows; others keep them in registers. */
uint32_t hal_row_kept_bytes(const hal_device_info *info, const hal_row_shape *shape);

/* HAL_ERROR_LIMIT where a driver leaves loops before so many turns. */
hal_status hal_row_loops_fit(const hal_device_info *info, const char *op, uint64_t turns);

/* Work-items of a group that goes over a row twice, column by column in the worst case: hal_row_threads, or more where
 * a driver limits its turns. */
hal_status hal_row_threads_fit(const hal_device_info *info, const char *op, uint64_t columns, uint32_t *threads);

hal_status hal_softmax_in(hal_cmdlist *list, const hal_softmax_desc *desc, unsigned forms);
hal_status hal_rmsnorm_in(hal_cmdlist *list, const hal_rmsnorm_desc *desc, unsigned forms);

#endif
