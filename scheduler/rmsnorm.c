/* rmsnorm.c - hal_rmsnorm. Kernels: `rmsnorm`, in groups of work-items, and `rmsnorm_task` for CPU devices, with the
 * same constants; `rmsnorm_flat` for devices and operands as in flat.h. Few long rows are taken in parts where a
 * workspace is given: one dispatch for the partial sums, one for the greatest magnitudes if the row is quantised, one
 * that writes. */
#include "flat.h"
#include "row_kernels.h"

#include "kernel_rows.h"
#include "recording.h"

enum { AT_X, AT_WEIGHT, AT_RESIDUAL, AT_SUM, AT_Y, AT_SCALES, AT_PARTS, OPERANDS };
enum { LONG_ROW = 32768 };  /* columns from which on parts of a row are worth their dispatches */
enum { PART_COLUMNS = 16 }; /* a part has a multiple of them: the widest vector of a kernel */

typedef struct problem {
    uint64_t rows, columns;
    hal_dtype between;
    float eps;
    hal_mode mode;
    bool quantised;
    hal_operand operands[OPERANDS];
} problem;

/* How it is run; a dispatch per phase. */
typedef struct norm_plan {
    const hal_device_info *info;
    hal_row_shape shape;
    hal_access access[OPERANDS];
    hal_view views[OPERANDS];
    uint32_t bases[OPERANDS];
    uint32_t parts, what;
    bool view;
    bool flat;
    hal_flat_row flat_row;
} norm_plan;

static const char op[] = "hal_rmsnorm";

static hal_status check(hal_rmsnorm_desc *desc)
{
    hal_status status = hal_operand_dtype(op, "dtype", &desc->dtype, HAL_F32, false);
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc->dtype_y, desc->dtype, true) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_weight", &desc->dtype_weight, desc->dtype, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "round_between", &desc->round_between, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    if ((unsigned)desc->mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: mode is %d; use a hal_mode", op, (int)desc->mode);
    }
    if (desc->columns == 0) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: columns is 0; an empty row has no mean", op);
    }
    if (desc->sum.kind != HAL_SPAN_NONE && desc->residual.kind == HAL_SPAN_NONE) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: sum is given, residual is none; give both", op);
    }
    return HAL_OK;
}

static hal_status read_desc(const hal_rmsnorm_desc *given, problem *p)
{
    hal_rmsnorm_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_rmsnorm_desc");
    status = status == HAL_OK ? check(&desc) : status;
    if (status != HAL_OK) {
        return status;
    }
    const uint64_t rows = desc.rows, columns = desc.columns;
    const bool weight = desc.weight.kind != HAL_SPAN_NONE, residual = desc.residual.kind != HAL_SPAN_NONE;
    const bool sum = desc.sum.kind != HAL_SPAN_NONE, parts = desc.workspace.kind != HAL_SPAN_NONE;
    const bool quantised = desc.dtype_y == HAL_F8E4M3;
    *p = (problem){
        .rows = rows,
        .columns = columns,
        .between = desc.round_between,
        .eps = desc.eps,
        .mode = desc.mode,
        .quantised = quantised,
        .operands = {[AT_X] = {"x", true, desc.x, desc.dtype, rows, columns, desc.ldx, 1, 0, 0, 0, 0},
                     [AT_WEIGHT] = {"weight", weight, desc.weight, desc.dtype_weight, 1, columns, 0, 1, 0, 0, 0, 0},
                     [AT_RESIDUAL] = {"residual", residual, desc.residual, desc.dtype, rows, columns, desc.ld_residual,
                                      1, 0, 0, 0, 0},
                     [AT_SUM] = {"sum", sum, desc.sum, desc.dtype, rows, columns, desc.ld_sum, 1, 0, 0, 0, 0},
                     [AT_Y] = {"y", true, desc.y, desc.dtype_y, rows, columns, desc.ldy, 1, 0, 0, 0, 0},
                     [AT_SCALES] = {"scales", quantised, desc.scales, HAL_F32, 1, rows, 0, 1, 0, 0, 0, 0},
                     [AT_PARTS] = {"workspace", parts, desc.workspace, HAL_F32, rows, RMSNORM_ROW, 0, 1, 0, 0, 0, 0}}};
    if (rows == 0) {
        return HAL_OK;
    }
    const uint64_t dimensions[] = {rows, columns};
    return hal_operand_dimensions(op, "rows, columns", dimensions, 2);
}

static hal_status resolve(problem *p, bool spans)
{
    const uint32_t inputs = 1u << AT_X | 1u << AT_RESIDUAL;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(op, &p->operands[i], spans);
    }
    for (uint32_t i = AT_SUM; spans && status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_check_output(op, p->operands, OPERANDS, i, i <= AT_Y ? inputs : 0);
    }
    return status;
}

/* Parts of a row, a power of two; 1: rows are not taken in parts. */
static uint32_t parts_of(const hal_device_info *info, const problem *p, bool task, unsigned forms)
{
    const bool groups = info->type != HAL_DEVICE_CPU || forms & HAL_ROW_GROUPS;
    const bool few_long = p->rows < info->compute_units && p->columns >= LONG_ROW;
    if (!task) {
        return groups && (few_long || forms & HAL_ROW_SPLIT) ? RMSNORM_PARTS : 1;
    }
    uint32_t parts = 1;
    while (parts < RMSNORM_PARTS && parts < 2 * info->compute_units) {
        parts *= 2;
    }
    return few_long || forms & HAL_ROW_SPLIT ? parts : 1;
}

/* Decides before operands are resolved: a workspace that is not used counts as absent. */
static void plan_of(const hal_device_info *info, problem *p, unsigned forms, norm_plan *plan)
{
    static const hal_access access[OPERANDS] = {HAL_READ,  HAL_READ,  HAL_READ,      HAL_WRITE,
                                                HAL_WRITE, HAL_WRITE, HAL_READ_WRITE};
    hal_operand *o = p->operands;
    *plan = (norm_plan){.info = info};
    plan->shape = hal_row_shape_of(info, p->rows, p->columns, forms);
    plan->parts = o[AT_PARTS].present ? parts_of(info, p, plan->shape.task, forms) : 1;
    o[AT_PARTS].present = plan->parts > 1;
    if (plan->parts > 1) {
        plan->shape.group_rows = plan->shape.rows = 1;
        plan->shape.threads = plan->shape.most_threads;
        plan->shape.keep = 0;
    }
    plan->what = (o[AT_RESIDUAL].present ? RMSNORM_RESIDUAL : 0) | (o[AT_SUM].present ? RMSNORM_SUM : 0);
    for (uint32_t i = 0; i < OPERANDS; i++) {
        plan->access[i] = o[i].present ? access[i] : HAL_READ; /* an absent one has x's span */
    }
}

static void launch_flat(const problem *p, const norm_plan *plan, hal_operator_launch *launch)
{
    static const char *const names[] = {"DTYPE_X", "DTYPE_WEIGHT", "DTYPE_Y", "BETWEEN", "WHAT",
                                        "RUNS",    "SUBGROUPS",    "STRICT",  "REST"};
    const hal_operand *o = p->operands;
    const uint32_t constants[] = {
        (uint32_t)o[AT_X].dtype,
        o[AT_WEIGHT].present ? (uint32_t)o[AT_WEIGHT].dtype : 0,
        (uint32_t)o[AT_Y].dtype,
        (uint32_t)p->between,
        plan->what,
        plan->flat_row.runs,
        plan->flat_row.subgroups,
        p->mode == HAL_MODE_STRICT,
        hal_flat_rest(p->columns, (uint64_t)plan->flat_row.subgroups * plan->flat_row.runs * FLAT_RUN)};
    hal_flat_launch_start(launch, "rmsnorm_flat", constants, names, 9, sizeof(hal_rmsnorm_args),
                          plan->flat_row.subgroups);
    launch->grid = HAL_GRID1(p->rows);
}

static void launch_of(const problem *p, const norm_plan *plan, uint32_t phase, hal_operator_launch *launch)
{
    static const char *const names[] = {"DTYPE_X", "DTYPE_WEIGHT", "DTYPE_Y", "BETWEEN", "WHAT",
                                        "KEEP",    "PHASE",        "STRICT",  "THREADS", "ROWS"};
    const hal_operand *o = p->operands;
    const hal_row_shape *shape = &plan->shape;
    const uint32_t strict = p->mode == HAL_MODE_STRICT;
    const uint32_t weight = o[AT_WEIGHT].present ? (uint32_t)o[AT_WEIGHT].dtype : 0;
    const bool keeps_sum = shape->task && phase == RMSNORM_WHOLE && o[AT_RESIDUAL].present; /* cheaper than adding */
    const uint32_t constants[] = {(uint32_t)o[AT_X].dtype,
                                  weight,
                                  (uint32_t)o[AT_Y].dtype,
                                  (uint32_t)p->between,
                                  plan->what,
                                  keeps_sum ? hal_row_task_keep(plan->info, p->columns) : shape->keep,
                                  phase,
                                  strict,
                                  shape->threads,
                                  shape->rows};
    hal_operator_launch_start(launch,
                              shape->task  ? "rmsnorm_task"
                              : plan->view ? "rmsnorm_view"
                                           : "rmsnorm",
                              constants, names, 10, sizeof(hal_rmsnorm_args));
    launch->spec.group[0] = shape->threads;
    launch->spec.group[1] = shape->rows;
    launch->spec.dynamic_shared = hal_row_kept_bytes(plan->info, shape);
    launch->grid = HAL_GRID3(hal_groups(p->rows, shape->group_rows), plan->parts, 1);
}

static hal_rmsnorm_args args_of(const problem *p, const norm_plan *plan, uint32_t phase)
{
    const hal_operand *o = p->operands;
    const uint32_t *b = plan->bases, weight = o[AT_WEIGHT].present ? (uint32_t)o[AT_WEIGHT].dtype : 0;
    hal_rmsnorm_args args = {
        .rows = (uint32_t)p->rows,
        .columns = (uint32_t)p->columns,
        .flags = ROW_FLAGS((uint32_t)o[AT_X].dtype, weight, (uint32_t)o[AT_Y].dtype, (uint32_t)p->between,
                           (uint32_t)(p->mode == HAL_MODE_STRICT), RMSNORM_OP(plan->what, plan->shape.keep, phase)),
        .group_rows = plan->shape.group_rows,
        .parts = plan->parts,
        .part_columns = PART_COLUMNS * (uint32_t)hal_groups(p->columns, PART_COLUMNS * (uint64_t)plan->parts),
        .bases = {ROW_BASES(b[AT_X], b[AT_WEIGHT], b[AT_RESIDUAL]), ROW_BASES(b[AT_Y], b[AT_SUM], b[AT_SCALES])},
        .eps = p->eps,
        .inverse = 1.0f / (float)p->columns};
    hal_set64(args.ldx, o[AT_X].ld);
    hal_set64(args.ldr, o[AT_RESIDUAL].ld);
    hal_set64(args.lds, o[AT_SUM].ld);
    hal_set64(args.ldy, o[AT_Y].ld);
    return args;
}

/* Outputs of a flat kernel; one that there is not has y's span, since it must be a storage buffer, too. */
static void make_outputs(problem *p, norm_plan *plan)
{
    hal_operand *o = p->operands;
    plan->bases[AT_Y] = hal_flat_make_output(plan->info, &o[AT_Y]);
    if (o[AT_SUM].present) {
        plan->bases[AT_SUM] = hal_flat_make_output(plan->info, &o[AT_SUM]);
    }
    if (o[AT_SCALES].present) {
        plan->bases[AT_SCALES] = hal_flat_make_element_output(plan->info, &o[AT_SCALES]);
    }
    for (uint32_t i = AT_SUM; i < OPERANDS; i++) {
        if (!o[i].present) {
            o[i] = o[AT_Y];
        }
    }
}

static bool flat_fits(const problem *p, norm_plan *plan)
{
    const hal_operand *o = p->operands;
    return plan->view && plan->shape.flat && hal_flat_has_output(plan->info, &o[AT_Y]) &&
           (!o[AT_SUM].present || hal_flat_has_output(plan->info, &o[AT_SUM])) &&
           (!o[AT_SCALES].present || hal_flat_has_element_output(plan->info, &o[AT_SCALES])) &&
           hal_flat_row_of(plan->info, p->columns, &plan->flat_row);
}

/* Inputs as texel views, if all of them can be; then it may be flat. The resolved spans become theirs. */
static void make_views(problem *p, norm_plan *plan)
{
    static const uint32_t inputs[] = {AT_X, AT_WEIGHT, AT_RESIDUAL};
    plan->view = plan->shape.views && plan->parts == 1;
    for (uint32_t i = 0; i < 3; i++) {
        const hal_operand *o = &p->operands[inputs[i]];
        plan->view = plan->view && (!o->present || hal_row_has_view(plan->info, o));
    }
    plan->flat = flat_fits(p, plan);
    for (uint32_t i = 0; plan->view && i < 3; i++) {
        hal_operand *o = &p->operands[inputs[i]];
        if (o->present) {
            plan->bases[inputs[i]] = hal_row_make_view(plan->info, o, &plan->views[inputs[i]]);
        } else {
            plan->views[inputs[i]] = plan->views[AT_X];
        }
    }
    if (plan->flat) {
        make_outputs(p, plan);
    }
}

/* The phase after this one; RMSNORM_WHOLE: none. */
static uint32_t phase_after(const problem *p, uint32_t phase)
{
    switch (phase) {
    case RMSNORM_SUMS:
        return p->quantised ? RMSNORM_AMAX : RMSNORM_WRITE;
    case RMSNORM_AMAX:
        return RMSNORM_WRITE;
    default:
        return RMSNORM_WHOLE;
    }
}

/* Each phase is recorded, or, without a list, only compiled. */
static hal_status run(hal_device *device, hal_cmdlist *list, const hal_rmsnorm_desc *desc, unsigned forms)
{
    problem p;
    norm_plan plan;
    hal_status status = read_desc(desc, &p);
    if (status != HAL_OK || p.rows == 0) {
        return status;
    }
    const hal_device_info *info = hal_device_get_info(device);
    plan_of(info, &p, forms, &plan);
    status = resolve(&p, list != NULL);
    if (list) {
        hal_operands_align_slots(list, p.operands, OPERANDS);
    }
    status = status == HAL_OK ? hal_row_loops_fit(info, op, 3 * plan.shape.turns) : status;
    if (status == HAL_OK) {
        make_views(&p, &plan);
    }
    uint32_t phase = plan.parts > 1 ? RMSNORM_SUMS : RMSNORM_WHOLE;
    do {
        hal_operator_launch launch;
        const hal_rmsnorm_args args = args_of(&p, &plan, phase);
        if (plan.flat) {
            launch_flat(&p, &plan, &launch);
        } else {
            launch_of(&p, &plan, phase, &launch);
        }
        memcpy(launch.spec.views, plan.views, sizeof plan.views);
        if (status == HAL_OK) {
            status = list ? hal_operator_dispatch(list, op, &launch, p.operands, plan.access, OPERANDS, AT_X, &args)
                          : hal_operator_prepare(device, op, &launch, plan.access, OPERANDS);
        }
        phase = phase_after(&p, phase);
    } while (status == HAL_OK && phase != RMSNORM_WHOLE);
    return status;
}

hal_status hal_rmsnorm_in(hal_cmdlist *list, const hal_rmsnorm_desc *desc, unsigned forms)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_rmsnorm: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, run(hal_cmdlist_device(list), list, desc, forms)) : status;
}

hal_status hal_rmsnorm(hal_cmdlist *list, const hal_rmsnorm_desc *desc)
{
    return hal_rmsnorm_in(list, desc, 0);
}

hal_status hal_rmsnorm_prepare(hal_device *device, const hal_rmsnorm_desc *desc)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_rmsnorm_prepare: device");
    return status == HAL_OK ? run(device, NULL, desc, 0) : status;
}

hal_status hal_rmsnorm_workspace(hal_device *device, const hal_rmsnorm_desc *desc, uint64_t *size)
{
    problem p;
    norm_plan plan;
    if (!size) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_rmsnorm_workspace: size is NULL; pass a uint64_t");
    }
    *size = 0;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_rmsnorm_workspace: device");
    status = status == HAL_OK ? read_desc(desc, &p) : status;
    if (status != HAL_OK || p.rows == 0) {
        return status;
    }
    p.operands[AT_PARTS].present = true;
    plan_of(hal_device_get_info(device), &p, 0, &plan);
    *size = plan.parts > 1 ? p.rows * RMSNORM_ROW * sizeof(float) : 0;
    return HAL_OK;
}
