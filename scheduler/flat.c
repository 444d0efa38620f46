/* flat.c - see flat.h. */
#include "flat.h"

#include <string.h>

enum { OUTPUT_ALIGNMENT = 32, MOST_RUNS = 64 }; /* more runs make longer kernels */

bool hal_flat_device(const hal_device_info *info)
{
    return info->type == HAL_DEVICE_CPU && info->bounded_span && info->max_view_elements && info->int64 &&
           info->subgroup_shuffle && info->subgroup_size == FLAT_LANES && info->max_args >= HAL_FLAT_ARGS &&
           info->max_group_size >= FLAT_LANES * FLAT_SUBGROUPS && info->max_group_dim[0] >= FLAT_LANES &&
           info->max_group_dim[1] >= FLAT_SUBGROUPS;
}

bool hal_flat_has_output(const hal_device_info *info, const hal_operand *o)
{
    const uint64_t back = hal_operand_before(o, info->span_alignment), size = hal_dtype_size(o->dtype);
    return hal_operand_placed(o, info->span_alignment) && back <= o->span.offset && back % OUTPUT_ALIGNMENT == 0 &&
           (o->ld * size % OUTPUT_ALIGNMENT == 0 || o->rows == 1) && back + o->bytes <= info->bounded_span &&
           back + o->bytes < INT32_MAX / 2;
}

uint32_t hal_flat_make_output(const hal_device_info *info, hal_operand *o)
{
    const uint64_t back = hal_operand_before(o, info->span_alignment);
    hal_operand_move_back(o, back);
    return (uint32_t)(back / OUTPUT_ALIGNMENT);
}

bool hal_flat_has_element_output(const hal_device_info *info, const hal_operand *o)
{
    const uint64_t back = hal_operand_before(o, info->span_alignment);
    return hal_operand_placed(o, info->span_alignment) && back <= o->span.offset &&
           back + o->bytes <= info->bounded_span;
}

uint32_t hal_flat_make_element_output(const hal_device_info *info, hal_operand *o)
{
    const uint64_t back = hal_operand_before(o, info->span_alignment);
    hal_operand_move_back(o, back);
    return (uint32_t)(back / hal_dtype_size(o->dtype));
}

/* Few numbers of runs, so that there are few kernels, and little of them beyond the row. */
static uint64_t runs_of(uint64_t columns, uint32_t subgroups)
{
    const uint64_t runs = hal_groups(columns, (uint64_t)subgroups * FLAT_RUN);
    return runs <= 2 ? runs : (runs + 3) / 4 * 4;
}

/* Runs first: the sum of a row is taken by 8 subgroups, while others wait. */
bool hal_flat_row_of(const hal_device_info *info, uint64_t columns, hal_flat_row *row)
{
    const uint32_t most_subgroups = info->max_group_size / FLAT_LANES < info->max_group_dim[1]
                                        ? info->max_group_size / FLAT_LANES
                                        : info->max_group_dim[1];
    row->subgroups = FLAT_SUBGROUPS;
    while (runs_of(columns, row->subgroups) > MOST_RUNS && 2 * row->subgroups <= most_subgroups) {
        row->subgroups *= 2;
    }
    row->runs = (uint32_t)runs_of(columns, row->subgroups);
    return row->runs <= MOST_RUNS;
}

uint32_t hal_flat_rest(uint64_t columns, uint64_t group_columns)
{
    return columns % FLAT_RUN ? FLAT_PART : columns % group_columns ? FLAT_RUNS : FLAT_WHOLE;
}

bool hal_flat_has_elements(const hal_device_info *info, const hal_operand *o)
{
    const uint64_t back = hal_operand_before(o, info->view_alignment), size = hal_dtype_size(o->dtype);
    return hal_operand_placed(o, info->view_alignment) && back <= o->span.offset && size > 1 &&
           (back + o->bytes) / size <= info->max_view_elements && back + o->bytes < INT32_MAX;
}

uint32_t hal_flat_make_elements(const hal_device_info *info, hal_operand *o, hal_view *view)
{
    const uint64_t back = hal_operand_before(o, info->view_alignment), size = hal_dtype_size(o->dtype);
    *view = size == 4 ? HAL_VIEW_R32UI : HAL_VIEW_R16UI;
    hal_operand_move_back(o, back);
    return (uint32_t)(back / size);
}

hal_flat_words hal_flat_words_of(const void *args, size_t size)
{
    hal_flat_words flat = {0};
    for (uint32_t i = 0; i < FLAT_DIGITS; i++) {
        flat.words[i] = i;
    }
    memcpy(flat.words + FLAT_DIGITS, args, size);
    return flat;
}

void hal_flat_launch_start(hal_operator_launch *launch, const char *kernel, const uint32_t *constants,
                           const char *const *names, uint32_t count, uint32_t args_size, uint32_t subgroups)
{
    hal_operator_launch_start(launch, kernel, constants, names, count,
                              args_size + FLAT_DIGITS * (uint32_t)sizeof(uint32_t));
    launch->spec.plain = true;
    launch->spec.group[0] = FLAT_LANES;
    launch->spec.group[1] = subgroups;
}
