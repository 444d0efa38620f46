/* quantize.c - hal_cast, hal_quantize and hal_dequantize: the kernel `quantize`, with constants
 *   DTYPE_X DTYPE_Y OP SCALING STRICT THREADS TILE
 * A group of THREADS work-items (one task on CPU devices) takes TILE columns of a row; in `quantize_row`, which finds
 * the scales itself, a row. A cast to the same dtype is a copy. `quantize_flat` and `quantize_row_flat` are the same
 * for devices and operands as in flat.h. */
#include "flat.h"
#include "kernel_convert.h"
#include "transpose.h"

#include "recording.h"
#include "row_kernels.h"

_Static_assert(QUANTIZE_PER_ROW == HAL_SCALE_ROW && QUANTIZE_PER_COLUMN == HAL_SCALE_COLUMN &&
                   QUANTIZE_PER_TENSOR == HAL_SCALE_TENSOR,
               "scalings");

enum { AT_X, AT_Y, AT_SCALES, OPERANDS };

typedef struct problem {
    const char *op;
    uint64_t rows, columns;
    uint32_t kernel_op;
    hal_scaling scaling; /* HAL_SCALE_TENSOR where there are no scales */
    bool strict;
    hal_operand operands[OPERANDS];
} problem;

static hal_status check(problem *p)
{
    const uint64_t dimensions[] = {p->rows, p->columns};
    hal_status status = hal_operand_dimensions(p->op, "rows, columns", dimensions, 2);
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(p->op, &p->operands[i], true);
    }
    status = status == HAL_OK
                 ? hal_operand_check_output(p->op, p->operands, OPERANDS, AT_Y, p->kernel_op <= QUANTIZE_CAST_NAN)
                 : status;
    if (status == HAL_OK && p->scaling == HAL_SCALE_ROW_AMAX) {
        status = hal_operand_check_output(p->op, p->operands, OPERANDS, AT_SCALES, 0);
    }
    return status;
}

/* Rows that follow each other without a gap are one row. Kept below 2^30 columns, so that indices stay 32-bit. */
static void flatten(problem *p)
{
    hal_operand *o = p->operands;
    if (p->scaling == HAL_SCALE_TENSOR && o[AT_X].ld == p->columns && o[AT_Y].ld == p->columns && p->rows > 1 &&
        p->rows * p->columns < UINT64_C(1) << 30) {
        p->columns *= p->rows;
        p->rows = 1;
        for (uint32_t i = AT_X; i <= AT_Y; i++) {
            o[i].rows = 1;
            o[i].columns = o[i].ld = p->columns;
        }
    }
}

static bool by_row(const problem *p)
{
    return p->scaling == HAL_SCALE_ROW_AMAX;
}

static hal_quantize_args args_of(const problem *p)
{
    const hal_operand *o = p->operands;
    hal_quantize_args args = {.rows = (uint32_t)p->rows,
                              .columns = (uint32_t)p->columns,
                              .flags = ROW_FLAGS((uint32_t)o[AT_X].dtype, (uint32_t)o[AT_Y].dtype,
                                                 (uint32_t)o[AT_SCALES].dtype, 0u, (uint32_t)p->strict,
                                                 p->kernel_op | (uint32_t)p->scaling << 2)};
    hal_set64(args.ldx, o[AT_X].ld);
    hal_set64(args.ldy, o[AT_Y].ld);
    return args;
}

static hal_status dispatch(hal_cmdlist *list, const problem *p, hal_operator_launch *launch,
                           const hal_quantize_args *args)
{
    const hal_access access[OPERANDS] = {HAL_READ, HAL_WRITE, by_row(p) ? HAL_WRITE : HAL_READ};
    return hal_operator_dispatch(list, p->op, launch, p->operands, access, OPERANDS, AT_X, args);
}

/* And how it is laid out. */
static bool flat_fits(const hal_device_info *info, const problem *p, hal_flat_row *shape)
{
    const hal_operand *o = p->operands;
    *shape = (hal_flat_row){16, FLAT_SUBGROUPS};
    const bool scales = by_row(p)               ? hal_flat_has_element_output(info, &o[AT_SCALES])
                        : !o[AT_SCALES].present ? true
                                                : hal_flat_has_elements(info, &o[AT_SCALES]);
    return hal_flat_device(info) && hal_row_has_view(info, &o[AT_X]) && hal_flat_has_output(info, &o[AT_Y]) && scales &&
           (!by_row(p) || hal_flat_row_of(info, p->columns, shape));
}

static hal_status record_flat(hal_cmdlist *list, const hal_device_info *info, problem *p, hal_flat_row shape)
{
    static const char *const names[] = {"DTYPE_X",      "DTYPE_Y", "OP",   "SCALING", "STRICT",
                                        "DTYPE_SCALES", "REST",    "RUNS", "ROWS"};
    hal_operand *o = p->operands;
    hal_quantize_args args = args_of(p);
    const uint32_t constants[] = {(uint32_t)o[AT_X].dtype,
                                  (uint32_t)o[AT_Y].dtype,
                                  p->kernel_op,
                                  (uint32_t)p->scaling,
                                  p->strict,
                                  (uint32_t)o[AT_SCALES].dtype,
                                  hal_flat_rest(p->columns, (uint64_t)shape.subgroups * shape.runs * FLAT_RUN),
                                  shape.runs,
                                  by_row(p) ? shape.subgroups : p->rows > 1};
    hal_operator_launch launch;
    hal_flat_launch_start(&launch, by_row(p) ? "quantize_row_flat" : "quantize_flat", constants, names, 9, sizeof args,
                          shape.subgroups);
    launch.grid = by_row(p)
                      ? HAL_GRID1(p->rows)
                      : HAL_GRID2(hal_groups(p->columns, (uint64_t)FLAT_SUBGROUPS * shape.runs * FLAT_RUN), p->rows);
    hal_view *views = launch.spec.views;
    args.base_x = hal_row_make_view(info, &o[AT_X], &views[AT_X]);
    args.base_y = hal_flat_make_output(info, &o[AT_Y]);
    if (by_row(p)) {
        args.base_s = hal_flat_make_element_output(info, &o[AT_SCALES]);
    } else if (o[AT_SCALES].present) {
        args.base_s = hal_flat_make_elements(info, &o[AT_SCALES], &views[AT_SCALES]);
    } else {
        views[AT_SCALES] = views[AT_X];
    }
    return dispatch(list, p, &launch, &args);
}

static hal_status record(hal_cmdlist *list, problem *p)
{
    static const char *const names[] = {"DTYPE_X", "DTYPE_Y", "OP", "SCALING", "STRICT", "THREADS", "TILE"};
    hal_status status = check(p);
    if (status != HAL_OK) {
        return status;
    }
    flatten(p);
    hal_operands_align_slots(list, p->operands, OPERANDS);
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    hal_flat_row shape;
    if (flat_fits(info, p, &shape)) {
        return record_flat(list, info, p, shape);
    }
    uint32_t threads = hal_row_threads(info);
    status = by_row(p) ? hal_row_threads_fit(info, p->op, p->columns, &threads) : HAL_OK;
    if (status != HAL_OK) {
        return status;
    }
    const uint32_t tile = by_row(p) ? 0 : info->type == HAL_DEVICE_CPU ? 16384 : 4 * threads;
    const hal_operand *o = p->operands;
    const hal_quantize_args args = args_of(p);
    const uint32_t constants[] = {
        (uint32_t)o[AT_X].dtype, (uint32_t)o[AT_Y].dtype, p->kernel_op, (uint32_t)p->scaling, p->strict, threads, tile};
    hal_operator_launch launch;
    hal_operator_launch_start(&launch, by_row(p) ? "quantize_row" : "quantize", constants, names, 7, sizeof args);
    launch.spec.group[0] = threads;
    launch.grid = HAL_GRID2(by_row(p) ? 1 : hal_groups(p->columns, tile), p->rows);
    return dispatch(list, p, &launch, &args);
}

static hal_status tell_cast(hal_cmdlist *list, const hal_cast_desc *given)
{
    static const char op[] = "hal_cast";
    hal_cast_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_cast_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, true) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc.dtype_y, desc.dtype, true) : status;
    if (status != HAL_OK || desc.rows == 0 || desc.columns == 0) {
        return status;
    }
    const bool nan = desc.no_saturate && desc.dtype_y == HAL_F8E4M3;
    problem p = {
        .op = op,
        .rows = desc.rows,
        .columns = desc.columns,
        .kernel_op = nan ? QUANTIZE_CAST_NAN : QUANTIZE_CAST,
        .scaling = HAL_SCALE_TENSOR,
        .operands = {[AT_X] = {"x", true, desc.x, desc.dtype, desc.rows, desc.columns, desc.ldx, 1, 0, 0, 0, 0},
                     [AT_Y] = {"y", true, desc.y, desc.dtype_y, desc.rows, desc.columns, desc.ldy, 1, 0, 0, 0, 0},
                     [AT_SCALES] = {.dtype = HAL_F32}}};
    if (desc.dtype != desc.dtype_y) {
        return record(list, &p);
    }
    status = check(&p);
    return status == HAL_OK ? hal_copy_rows(list, op, &p.operands[AT_X], &p.operands[AT_Y]) : status;
}

hal_status hal_cast(hal_cmdlist *list, const hal_cast_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_cast: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell_cast(list, desc)) : status;
}

/* Both directions: x are numbers and codes E4M3, whichever is written. */
static hal_status tell_scaled(hal_cmdlist *list, const char *op, const hal_quantize_desc *given, bool quantize)
{
    hal_quantize_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_quantize_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_scales", &desc.dtype_scales, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    const bool amax = desc.scaling == HAL_SCALE_ROW_AMAX;
    if ((unsigned)desc.scaling > HAL_SCALE_TENSOR || (unsigned)desc.mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: scaling is %d, mode %d; use a hal_scaling and a hal_mode", op,
                        (int)desc.scaling, (int)desc.mode);
    }
    if (amax && (!quantize || desc.dtype_scales != HAL_F32)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: HAL_SCALE_ROW_AMAX %s", op,
                        quantize ? "writes HAL_F32; leave dtype_scales at its default"
                                 : "has no scale to read; use HAL_SCALE_ROW");
    }
    if (desc.rows == 0 || desc.columns == 0) {
        return HAL_OK;
    }
    const uint64_t scales = desc.scaling <= HAL_SCALE_ROW      ? desc.rows
                            : desc.scaling == HAL_SCALE_COLUMN ? desc.columns
                                                               : 1;
    const hal_operand numbers = {"x", true, desc.x, desc.dtype, desc.rows, desc.columns, desc.ldx, 1, 0, 0, 0, 0};
    const hal_operand codes = {"codes",       true, desc.codes, HAL_F8E4M3, desc.rows, desc.columns,
                               desc.ld_codes, 1,    0,          0,          0,         0};
    problem p = {
        .op = op,
        .rows = desc.rows,
        .columns = desc.columns,
        .kernel_op = quantize ? QUANTIZE_CODES : QUANTIZE_VALUES,
        .scaling = desc.scaling,
        .strict = desc.mode == HAL_MODE_STRICT,
        .operands = {[AT_X] = quantize ? numbers : codes,
                     [AT_Y] = quantize ? codes : numbers,
                     [AT_SCALES] = {"scales", true, desc.scales, desc.dtype_scales, 1, scales, 0, 1, 0, 0, 0, 0}}};
    return record(list, &p);
}

hal_status hal_quantize(hal_cmdlist *list, const hal_quantize_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_quantize: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell_scaled(list, "hal_quantize", desc, true)) : status;
}

hal_status hal_dequantize(hal_cmdlist *list, const hal_quantize_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_dequantize: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell_scaled(list, "hal_dequantize", desc, false)) : status;
}
