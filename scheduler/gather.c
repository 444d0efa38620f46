/* gather.c - hal_gather: the kernel `gather`, with constants
 *   DTYPE_T DTYPE_Y INT64 THREADS TILE
 * A group of THREADS work-items (one task on CPU devices) takes TILE columns of a row. `gather_flat` is the same for
 * devices and operands as in flat.h. */
#include "flat.h"
#include "row_kernels.h"

#include "kernel_convert.h"

#include "recording.h"

enum { AT_TABLE, AT_IDS, AT_Y, OPERANDS };

static bool flat_fits(const hal_device_info *info, const hal_operand *o)
{
    return hal_flat_device(info) && hal_row_has_view(info, &o[AT_TABLE]) && hal_flat_has_elements(info, &o[AT_IDS]) &&
           hal_flat_has_output(info, &o[AT_Y]);
}

static void plan_flat(const hal_device_info *info, const hal_gather_desc *desc, hal_operand *o,
                      hal_operator_launch *launch, hal_gather_args *args)
{
    static const char *const names[] = {"DTYPE_T", "DTYPE_Y", "INT64", "REST", "RUNS"};
    const uint32_t runs = desc->columns >= 4 * FLAT_SUBGROUPS * FLAT_RUN ? 4 : 1;
    const uint64_t group_columns = (uint64_t)FLAT_SUBGROUPS * runs * FLAT_RUN;
    const uint32_t constants[] = {(uint32_t)desc->dtype, (uint32_t)desc->dtype_y, desc->ids_are_int64,
                                  hal_flat_rest(desc->columns, group_columns), runs};
    hal_flat_launch_start(launch, "gather_flat", constants, names, 5, sizeof *args, FLAT_SUBGROUPS);
    launch->grid = HAL_GRID2(hal_groups(desc->columns, group_columns), desc->count);
    args->base_table = hal_row_make_view(info, &o[AT_TABLE], &launch->spec.views[AT_TABLE]);
    args->base_ids = hal_flat_make_elements(info, &o[AT_IDS], &launch->spec.views[AT_IDS]);
    args->base_y = hal_flat_make_output(info, &o[AT_Y]);
}

static hal_status record(hal_cmdlist *list, const char *op, const hal_gather_desc *desc)
{
    static const char *const names[] = {"DTYPE_T", "DTYPE_Y", "INT64", "THREADS", "TILE"};
    static const hal_access access[OPERANDS] = {HAL_READ, HAL_READ, HAL_WRITE};
    const uint64_t dimensions[] = {desc->count, desc->columns, desc->table_rows};
    /* Ids are one or two words, as F32 is; 4-byte alignment is all that they need. */
    hal_operand o[OPERANDS] = {
        [AT_TABLE] = {"table", true, desc->table, desc->dtype, desc->table_rows, desc->columns, desc->ldt, 1, 0, 0, 0,
                      0},
        [AT_IDS] = {"ids", true, desc->ids, HAL_F32, 1, desc->ids_are_int64 ? 2 * desc->count : desc->count, 0, 1, 0, 0,
                    0, 0},
        [AT_Y] = {"y", true, desc->y, desc->dtype_y, desc->count, desc->columns, desc->ldy, 1, 0, 0, 0, 0}};
    hal_status status = hal_operand_dimensions(op, "count, columns, table_rows", dimensions, 3);
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(op, &o[i], true);
    }
    status = status == HAL_OK ? hal_operand_check_output(op, o, OPERANDS, AT_Y, 0) : status;
    if (status != HAL_OK) {
        return status;
    }
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    const uint32_t threads = hal_row_threads(info), tile = hal_row_tile(info);
    const uint32_t constants[] = {(uint32_t)desc->dtype, (uint32_t)desc->dtype_y, desc->ids_are_int64, threads, tile};
    hal_gather_args args = {
        .count = (uint32_t)desc->count,
        .columns = (uint32_t)desc->columns,
        .table_rows = (uint32_t)desc->table_rows,
        .flags = ROW_FLAGS(constants[0], constants[1], 0u, 0u, 0u, desc->ids_are_int64 ? GATHER_INT64 : 0u)};
    hal_set64(args.ldt, o[AT_TABLE].ld);
    hal_set64(args.ldy, o[AT_Y].ld);
    hal_operator_launch launch;
    hal_operands_align_slots(list, o, OPERANDS);
    if (flat_fits(info, o)) {
        plan_flat(info, desc, o, &launch, &args);
    } else {
        hal_operator_launch_start(&launch, "gather", constants, names, 5, sizeof(hal_gather_args));
        launch.spec.group[0] = threads;
        launch.grid = HAL_GRID2(hal_groups(desc->columns, tile), desc->count);
    }
    return hal_operator_dispatch(list, op, &launch, o, access, OPERANDS, AT_TABLE, &args);
}

static hal_status tell(hal_cmdlist *list, const hal_gather_desc *given)
{
    static const char op[] = "hal_gather";
    hal_gather_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_gather_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc.dtype_y, desc.dtype, false) : status;
    if (status != HAL_OK || desc.count == 0 || desc.columns == 0) {
        return status;
    }
    return record(list, op, &desc);
}

hal_status hal_gather(hal_cmdlist *list, const hal_gather_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_gather: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell(list, desc)) : status;
}
