/* row_kernels.c - see row_kernels.h. */
#include "row_kernels.h"

#include "flat.h"

#include "kernel_rows.h"
#include "recording.h"

enum { MOST_THREADS = ROW_SUMS / 4, FEWEST_THREADS = 8, MOST_KEPT = 8, MOST_TASK_KEPT = 65536, TASK_ELEMENTS = 65536 };

/* Few enough that every core gets several tasks, many enough that a task is worth it: its rows are fetched ahead of
 * their turn but for the first. */
static uint32_t rows_of_task(const hal_device_info *info, uint64_t rows, uint64_t columns)
{
    const uint64_t fair = hal_groups(rows, 8 * (uint64_t)(info->compute_units ? info->compute_units : 1));
    const uint64_t enough = hal_groups(TASK_ELEMENTS, columns);
    const uint64_t chosen = fair < enough ? fair : enough;
    return chosen ? (uint32_t)chosen : 1;
}

hal_row_shape hal_row_shape_of(const hal_device_info *info, uint64_t rows, uint64_t columns, unsigned forms)
{
    const bool cpu = info->type == HAL_DEVICE_CPU && !(forms & HAL_ROW_GROUPS);
    hal_row_shape shape = {.task = cpu && !info->max_view_elements,
                           .views = cpu && info->max_view_elements,
                           .flat = cpu && hal_flat_device(info),
                           .threads = 1,
                           .most_threads = 1,
                           .rows = 1,
                           .group_rows = 1};
    if (shape.task) {
        shape.group_rows = rows_of_task(info, rows, columns);
        shape.turns = columns / 8 + 1;
        return shape;
    }
    const uint32_t most = hal_threads_allowed(info, cpu ? FEWEST_THREADS : MOST_THREADS);
    shape.most_threads = most;
    shape.threads = most < FEWEST_THREADS ? most : FEWEST_THREADS;
    while (shape.threads < most && 4 * shape.threads < columns) {
        shape.threads *= 2;
    }
    shape.group_rows = shape.rows = most / shape.threads;
    if (columns <= 4 * shape.threads) {
        shape.keep = 1;
    } else if (shape.threads == MOST_THREADS) { /* a thread owns one four of partial sums */
        shape.keep = 2;
        while (shape.keep <= MOST_KEPT && shape.keep * ROW_SUMS < columns) {
            shape.keep *= 2;
        }
        shape.keep = shape.keep <= MOST_KEPT ? shape.keep : 0;
    }
    shape.turns = columns / (4 * shape.threads) + ROW_SUMS / 4 / shape.threads * 7 + 1;
    return shape;
}

bool hal_row_has_view(const hal_device_info *info, const hal_operand *o)
{
    const uint64_t texel = 4 * (uint64_t)hal_dtype_size(o->dtype), back = hal_operand_before(o, info->view_alignment);
    return hal_operand_placed(o, info->view_alignment) && back % texel == 0 && back <= o->span.offset &&
           (o->ld % 4 == 0 || o->rows == 1) && (back + o->bytes) / texel + 1 <= info->max_view_elements &&
           (back + o->bytes) <= INT32_MAX;
}

uint32_t hal_row_make_view(const hal_device_info *info, hal_operand *o, hal_view *view)
{
    const uint64_t size = hal_dtype_size(o->dtype), back = hal_operand_before(o, info->view_alignment);
    *view = size == 4 ? HAL_VIEW_RGBA32UI : size == 2 ? HAL_VIEW_RGBA16UI : HAL_VIEW_R32UI;
    hal_operand_move_back(o, back);
    return (uint32_t)(back / (4 * size));
}

uint32_t hal_row_task_keep(const hal_device_info *info, uint64_t columns)
{
    uint32_t keep = ROW_SUMS;
    while (keep < columns && keep < MOST_TASK_KEPT) {
        keep *= 2;
    }
    return keep >= columns && (keep + ROW_SUMS) * 4 + 64 <= info->max_shared_memory ? keep : 0;
}

uint32_t hal_row_kept_bytes(const hal_device_info *info, const hal_row_shape *shape)
{
    return info->compute_capability ? shape->keep * shape->threads * shape->rows * 4 * (uint32_t)sizeof(float) : 0;
}

hal_status hal_row_loops_fit(const hal_device_info *info, const char *op, uint64_t turns)
{
    if (info->max_loop_iterations && turns > info->max_loop_iterations) {
        return hal_fail(HAL_ERROR_LIMIT, "%s: a row takes %llu turns of a loop; this driver leaves loops after %u", op,
                        (unsigned long long)turns, info->max_loop_iterations);
    }
    return HAL_OK;
}

hal_status hal_row_threads_fit(const hal_device_info *info, const char *op, uint64_t columns, uint32_t *threads)
{
    const uint32_t most = info->max_loop_iterations;
    *threads = hal_row_threads(info);
    while (most && 2 * (columns / *threads + 1) + 16 > most) {
        *threads *= 2;
        if (*threads > info->max_group_size || *threads > info->max_group_dim[0]) {
            return hal_fail(HAL_ERROR_LIMIT, "%s: columns is %llu; this device's kernels end loops after %u turns", op,
                            (unsigned long long)columns, most);
        }
    }
    return HAL_OK;
}
