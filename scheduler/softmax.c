/* softmax.c - hal_softmax. Kernels: `softmax`, in groups of work-items, and `softmax_task` for CPU devices, with the
 * same constants; `softmax_flat` for devices and operands as in flat.h. */
#include "flat.h"
#include "row_kernels.h"

#include "kernel_rows.h"
#include "recording.h"

enum { AT_X, AT_MASK, AT_Y, OPERANDS };

typedef struct problem {
    uint64_t rows, columns, mask_rows;
    float scale;
    bool log;
    uint32_t mask; /* 0: none; a dtype; SOFTMAX_BOOL */
    hal_mode mode;
    hal_operand operands[OPERANDS];
} problem;

static const char op[] = "hal_softmax";
static const hal_access access_of[OPERANDS] = {HAL_READ, HAL_READ, HAL_WRITE};

static hal_status resolve(const hal_softmax_desc *given, bool spans, problem *p)
{
    hal_softmax_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_softmax_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc.dtype_y, desc.dtype, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_mask", &desc.dtype_mask, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    if ((unsigned)desc.mode > HAL_MODE_STRICT || (unsigned)desc.mask_kind > HAL_MASK_BOOL) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: mode is %d, mask_kind %d; use a hal_mode and a hal_mask_kind",
                        op, (int)desc.mode, (int)desc.mask_kind);
    }
    if (desc.columns == 0) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: columns is 0; an empty row has no softmax", op);
    }
    const bool masked = desc.mask.kind != HAL_SPAN_NONE, boolean = desc.mask_kind == HAL_MASK_BOOL;
    const uint64_t mask_rows = desc.mask_rows ? desc.mask_rows : desc.rows;
    const hal_dtype dtype_mask = boolean ? HAL_F8E4M3 : desc.dtype_mask; /* a byte */
    *p = (problem){
        .rows = desc.rows,
        .columns = desc.columns,
        .mask_rows = mask_rows,
        .scale = desc.scale == 0.0f ? 1.0f : desc.scale,
        .log = desc.log,
        .mask = !masked   ? 0
                : boolean ? SOFTMAX_BOOL
                          : (uint32_t)dtype_mask,
        .mode = desc.mode,
        .operands = {
            [AT_X] = {"x", true, desc.x, desc.dtype, desc.rows, desc.columns, desc.ldx, 1, 0, 0, 0, 0},
            [AT_MASK] = {"mask", masked, desc.mask, dtype_mask, mask_rows, desc.columns, desc.ldmask, 1, 0, 0, 0, 0},
            [AT_Y] = {"y", true, desc.y, desc.dtype_y, desc.rows, desc.columns, desc.ldy, 1, 0, 0, 0, 0}}};
    if (desc.rows == 0) {
        return HAL_OK;
    }
    const uint64_t dimensions[] = {p->rows, p->columns, p->mask_rows};
    status = hal_operand_dimensions(op, "rows, columns, mask_rows", dimensions, 3);
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(op, &p->operands[i], spans);
    }
    return status == HAL_OK && spans ? hal_operand_check_output(op, p->operands, OPERANDS, AT_Y, 1u << AT_X) : status;
}

static hal_softmax_args args_of(const problem *p, uint32_t online, uint32_t keep, uint32_t group_rows)
{
    const hal_operand *o = p->operands;
    hal_softmax_args args = {.rows = (uint32_t)p->rows,
                             .columns = (uint32_t)p->columns,
                             .flags =
                                 ROW_FLAGS((uint32_t)o[AT_X].dtype, p->mask, (uint32_t)o[AT_Y].dtype, 0u,
                                           (uint32_t)(p->mode == HAL_MODE_STRICT), SOFTMAX_OP(p->log, online, keep)),
                             .group_rows = group_rows,
                             .mask_rows = (uint32_t)p->mask_rows,
                             .scale = p->scale};
    hal_set64(args.ldx, o[AT_X].ld);
    hal_set64(args.ldmask, o[AT_MASK].ld);
    hal_set64(args.ldy, o[AT_Y].ld);
    return args;
}

static bool flat_fits(const hal_device_info *info, const problem *p, const hal_row_shape *shape, hal_flat_row *row)
{
    const hal_operand *o = p->operands;
    return shape->flat && hal_row_has_view(info, &o[AT_X]) && (!p->mask || hal_row_has_view(info, &o[AT_MASK])) &&
           hal_flat_has_output(info, &o[AT_Y]) && hal_flat_row_of(info, p->columns, row);
}

static void plan_flat(const hal_device_info *info, problem *p, const hal_flat_row *row, hal_operator_launch *launch,
                      hal_softmax_args *args)
{
    static const char *const names[] = {"DTYPE_X", "DTYPE_Y",   "LOG",  "STRICT",
                                        "RUNS",    "SUBGROUPS", "REST", "DTYPE_MASK"};
    hal_operand *o = p->operands;
    *args = args_of(p, 0, 0, 1);
    const uint32_t constants[] = {(uint32_t)o[AT_X].dtype,
                                  (uint32_t)o[AT_Y].dtype,
                                  p->log,
                                  ROW_STRICT(args->flags),
                                  row->runs,
                                  row->subgroups,
                                  hal_flat_rest(p->columns, (uint64_t)row->subgroups * row->runs * FLAT_RUN),
                                  p->mask};
    hal_flat_launch_start(launch, "softmax_flat", constants, names, 8, sizeof *args, row->subgroups);
    launch->grid = HAL_GRID1(p->rows);
    args->base_x = hal_row_make_view(info, &o[AT_X], &launch->spec.views[AT_X]);
    args->base_y = hal_flat_make_output(info, &o[AT_Y]);
    launch->spec.views[AT_MASK] = launch->spec.views[AT_X];
    if (p->mask) {
        args->base_mask = hal_row_make_view(info, &o[AT_MASK], &launch->spec.views[AT_MASK]);
    }
}

static hal_status plan(const hal_device_info *info, problem *p, unsigned forms, hal_operator_launch *launch,
                       hal_softmax_args *args)
{
    static const char *const names[] = {"DTYPE_X", "DTYPE_MASK", "DTYPE_Y", "LOG", "ONLINE",
                                        "KEEP",    "STRICT",     "THREADS", "ROWS"};
    const hal_operand *o = p->operands;
    const hal_row_shape shape = hal_row_shape_of(info, p->rows, p->columns, forms);
    hal_flat_row row;
    if (flat_fits(info, p, &shape, &row)) {
        plan_flat(info, p, &row, launch, args);
        return HAL_OK;
    }
    const bool view = shape.views && !p->mask && hal_row_has_view(info, &o[AT_X]);
    const uint32_t strict = p->mode == HAL_MODE_STRICT;
    const uint32_t keep = shape.task ? hal_row_task_keep(info, p->columns) : shape.keep, online = !keep && !strict;
    const uint32_t constants[] = {
        (uint32_t)o[AT_X].dtype, p->mask,   (uint32_t)o[AT_Y].dtype, p->log, online, keep, strict,
        shape.threads,           shape.rows};
    hal_operator_launch_start(launch,
                              shape.task ? "softmax_task"
                              : view     ? "softmax_view"
                                         : "softmax",
                              constants, names, 9, sizeof *args);
    launch->spec.group[0] = shape.threads;
    launch->spec.group[1] = shape.rows;
    launch->spec.dynamic_shared = hal_row_kept_bytes(info, &shape);
    launch->grid = HAL_GRID1(hal_groups(p->rows, shape.group_rows));
    *args = args_of(p, online, shape.task ? 0 : keep, shape.group_rows);
    if (view) {
        args->base_x = hal_row_make_view(info, &p->operands[AT_X], &launch->spec.views[AT_X]);
    }
    return hal_row_loops_fit(info, op, 3 * shape.turns);
}

static hal_status tell(hal_cmdlist *list, const hal_softmax_desc *desc, unsigned forms)
{
    problem p;
    hal_operator_launch launch;
    hal_softmax_args args;
    hal_status status = resolve(desc, true, &p);
    if (status != HAL_OK || p.rows == 0) {
        return status;
    }
    hal_operands_align_slots(list, p.operands, OPERANDS);
    status = plan(hal_device_get_info(hal_cmdlist_device(list)), &p, forms, &launch, &args);
    return status != HAL_OK ? status
                            : hal_operator_dispatch(list, op, &launch, p.operands, access_of, OPERANDS, AT_X, &args);
}

hal_status hal_softmax_in(hal_cmdlist *list, const hal_softmax_desc *desc, unsigned forms)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_softmax: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell(list, desc, forms)) : status;
}

hal_status hal_softmax(hal_cmdlist *list, const hal_softmax_desc *desc)
{
    return hal_softmax_in(list, desc, 0);
}

hal_status hal_softmax_prepare(hal_device *device, const hal_softmax_desc *desc)
{
    problem p;
    hal_operator_launch launch;
    hal_softmax_args args;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_softmax_prepare: device");
    status = status == HAL_OK ? resolve(desc, false, &p) : status;
    if (status != HAL_OK || p.rows == 0) {
        return status;
    }
    status = plan(hal_device_get_info(device), &p, 0, &launch, &args);
    return status == HAL_OK ? hal_operator_prepare(device, op, &launch, access_of, OPERANDS) : status;
}
