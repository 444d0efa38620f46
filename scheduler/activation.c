/* activation.c - hal_activation and hal_binary: one kernel, `activation`, with constants
 *   DTYPE_A DTYPE_B DTYPE_Y OP STRICT THREADS TILE
 * A group of THREADS work-items (one task on CPU devices) takes TILE columns of a row. Where no row is padded, the
 * whole is treated as few long rows. To HAL_F8E4M3 it is `activation_row`, with constants
 *   DTYPE_A DTYPE_B OP STRICT THREADS KEPT
 * whose groups take a row. `activation_flat` and `activation_row_flat` are the same for devices and operands as in
 * flat.h. */
#include "flat.h"

#include "recording.h"
#include "row_kernels.h"

_Static_assert(ACTIVATION_SILU == HAL_ACT_SILU && ACTIVATION_ADD > HAL_ACT_SIGMOID, "operation values");
_Static_assert(ACTIVATION_MULTIPLY - ACTIVATION_ADD == HAL_MULTIPLY && ACTIVATION_SWIGLU - ACTIVATION_ADD == HAL_SWIGLU,
               "operation values");

enum { AT_A, AT_B, AT_Y, AT_SCALES, OPERANDS };
enum { ELEMENT_OPERANDS = AT_SCALES }; /* where nothing is quantised */

typedef struct problem {
    const char *op;
    uint64_t rows, columns, b_rows, b_columns;
    uint32_t kernel_op;
    float alpha;
    hal_dtype between;
    hal_mode mode;
    hal_operand operands[OPERANDS];
} problem;

/* Rows that follow each other without a gap are one row. Kept below 2^30 columns, so that indices stay 32-bit. */
static void flatten(problem *p)
{
    hal_operand *o = p->operands;
    const bool b_fits = !o[AT_B].present || (p->b_rows == p->rows && p->b_columns == p->columns);
    const bool packed =
        o[AT_A].ld == p->columns && o[AT_Y].ld == p->columns && (!o[AT_B].present || o[AT_B].ld == p->columns);
    if (b_fits && packed && p->rows > 1 && p->rows * p->columns < UINT64_C(1) << 30) {
        p->columns *= p->rows;
        p->rows = p->b_rows = 1;
        p->b_columns = p->columns;
        for (uint32_t i = 0; i < ELEMENT_OPERANDS; i++) {
            o[i].rows = 1;
            o[i].columns = o[i].ld = p->columns;
        }
    }
}

static const hal_access access_of[OPERANDS] = {HAL_READ, HAL_READ, HAL_WRITE, HAL_WRITE};

/* To E4M3: each row has a scale. */
static bool by_row(const problem *p)
{
    return p->operands[AT_SCALES].present;
}

static hal_status check(problem *p)
{
    const uint64_t dimensions[] = {p->rows, p->columns, p->b_rows, p->b_columns};
    hal_status status = hal_operand_dimensions(p->op, "rows, columns, b_rows, b_columns", dimensions, 4);
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(p->op, &p->operands[i], true);
    }
    status = status == HAL_OK ? hal_operand_check_output(p->op, p->operands, OPERANDS, AT_Y, 1u << AT_A | 1u << AT_B)
                              : status;
    return status == HAL_OK && by_row(p) ? hal_operand_check_output(p->op, p->operands, OPERANDS, AT_SCALES, 0)
                                         : status;
}

static hal_dtype dtype_b(const problem *p)
{
    return p->operands[p->operands[AT_B].present ? AT_B : AT_A].dtype;
}

static hal_activation_args args_of(const problem *p)
{
    const hal_operand *o = p->operands;
    hal_activation_args args = {.rows = (uint32_t)p->rows,
                                .columns = (uint32_t)p->columns,
                                .flags = ROW_FLAGS((uint32_t)o[AT_A].dtype, (uint32_t)dtype_b(p),
                                                   (uint32_t)o[AT_Y].dtype, (uint32_t)p->between,
                                                   (uint32_t)(p->mode == HAL_MODE_STRICT), p->kernel_op),
                                .b_rows = (uint32_t)p->b_rows,
                                .b_columns = (uint32_t)p->b_columns,
                                .alpha = p->alpha};
    hal_set64(args.lda, o[AT_A].ld);
    hal_set64(args.ldb, o[AT_B].ld);
    hal_set64(args.ldy, o[AT_Y].ld);
    return args;
}

static bool one_column(const problem *p)
{
    return p->operands[AT_B].present && p->b_columns == 1;
}

static bool flat_fits(const hal_device_info *info, const problem *p)
{
    const hal_operand *o = p->operands;
    return hal_flat_device(info) && hal_row_has_view(info, &o[AT_A]) && hal_flat_has_output(info, &o[AT_Y]) &&
           (!o[AT_B].present ||
            (one_column(p) ? hal_flat_has_elements(info, &o[AT_B]) : hal_row_has_view(info, &o[AT_B])));
}

/* What a subgroup takes at once: more is faster where an element takes few steps, but longer to compile. */
static uint32_t flat_runs(const problem *p)
{
    return p->mode == HAL_MODE_STRICT ? 8 : 16;
}

/* Inputs of a flat kernel become views. */
static void make_views(const hal_device_info *info, hal_operand *o, bool one, hal_activation_args *args,
                       hal_view *views)
{
    args->base_a = hal_row_make_view(info, &o[AT_A], &views[AT_A]);
    if (!o[AT_B].present) {
        views[AT_B] = views[AT_A];
    } else if (one) {
        args->base_b = hal_flat_make_elements(info, &o[AT_B], &views[AT_B]);
    } else {
        args->base_b = hal_row_make_view(info, &o[AT_B], &views[AT_B]);
    }
    args->base_y = hal_flat_make_output(info, &o[AT_Y]);
}

static hal_status record_flat(hal_cmdlist *list, const hal_device_info *info, problem *p)
{
    static const char *const names[] = {"DTYPE_A", "DTYPE_B", "DTYPE_Y", "OP",   "STRICT",
                                        "ROWS",    "ONE",     "REST",    "RUNS", "BETWEEN"};
    hal_operand *o = p->operands;
    hal_activation_args args = args_of(p);
    const uint32_t runs = flat_runs(p);
    const uint32_t constants[] = {(uint32_t)o[AT_A].dtype,
                                  (uint32_t)dtype_b(p),
                                  (uint32_t)o[AT_Y].dtype,
                                  p->kernel_op,
                                  ROW_STRICT(args.flags),
                                  p->rows > 1,
                                  one_column(p),
                                  hal_flat_rest(p->columns, FLAT_SUBGROUPS * runs * FLAT_RUN),
                                  runs,
                                  (uint32_t)(p->kernel_op == ACTIVATION_SWIGLU ? p->between : HAL_F32)};
    hal_operator_launch launch;
    hal_flat_launch_start(&launch, "activation_flat", constants, names, 10, sizeof args, FLAT_SUBGROUPS);
    launch.grid = HAL_GRID2(hal_groups(p->columns, FLAT_SUBGROUPS * runs * FLAT_RUN), p->rows);
    make_views(info, o, one_column(p), &args, launch.spec.views);
    return hal_operator_dispatch(list, p->op, &launch, o, access_of, ELEMENT_OPERANDS, AT_A, &args);
}

static hal_status record_elements(hal_cmdlist *list, problem *p)
{
    static const char *const names[] = {"DTYPE_A", "DTYPE_B", "DTYPE_Y", "OP", "STRICT", "THREADS", "TILE"};
    flatten(p);
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    if (flat_fits(info, p)) {
        return record_flat(list, info, p);
    }
    const uint32_t threads = hal_row_threads(info), tile = hal_row_tile(info);
    const hal_operand *o = p->operands;
    const hal_activation_args args = args_of(p);
    const uint32_t constants[] = {(uint32_t)o[AT_A].dtype,
                                  (uint32_t)dtype_b(p),
                                  (uint32_t)o[AT_Y].dtype,
                                  p->kernel_op,
                                  ROW_STRICT(args.flags),
                                  threads,
                                  tile};
    hal_operator_launch launch;
    hal_operator_launch_start(&launch, "activation", constants, names, 7, sizeof args);
    launch.spec.group[0] = threads;
    launch.grid = HAL_GRID3(hal_groups(p->columns, tile), p->rows, 1);
    return hal_operator_dispatch(list, p->op, &launch, p->operands, access_of, ELEMENT_OPERANDS, AT_A, &args);
}

static hal_status record_rows_flat(hal_cmdlist *list, const hal_device_info *info, problem *p, hal_flat_row shape)
{
    static const char *const names[] = {"DTYPE_A", "DTYPE_B", "OP",        "STRICT", "ONE",
                                        "REST",    "RUNS",    "SUBGROUPS", "BETWEEN"};
    hal_operand *o = p->operands;
    hal_activation_args args = args_of(p);
    const uint32_t constants[] = {(uint32_t)o[AT_A].dtype,
                                  (uint32_t)dtype_b(p),
                                  p->kernel_op,
                                  ROW_STRICT(args.flags),
                                  one_column(p),
                                  hal_flat_rest(p->columns, (uint64_t)shape.subgroups * shape.runs * FLAT_RUN),
                                  shape.runs,
                                  shape.subgroups,
                                  (uint32_t)p->between};
    hal_operator_launch launch;
    hal_flat_launch_start(&launch, "activation_row_flat", constants, names, 9, sizeof args, shape.subgroups);
    launch.grid = HAL_GRID1(p->rows);
    make_views(info, o, one_column(p), &args, launch.spec.views);
    args.base_s = hal_flat_make_element_output(info, &o[AT_SCALES]);
    return hal_operator_dispatch(list, p->op, &launch, o, access_of, OPERANDS, AT_A, &args);
}

/* Results that a group keeps on chip for the time when the row's scale is known: on CPU devices what fits in a core's
 * cache, so that there is one kernel for all sizes. */
static uint32_t kept(const hal_device_info *info, uint64_t columns)
{
    const uint64_t most = hal_fewer(info->type == HAL_DEVICE_CPU ? 65536 : 16384, info->max_shared_memory / 2);
    uint32_t elements = 256;
    while ((elements < columns || info->type == HAL_DEVICE_CPU) && 4 * elements * sizeof(float) <= most) {
        elements *= 4;
    }
    return elements;
}

/* CUDA's, in bytes of the dtype that they are rounded to: the whole row or nothing. */
static uint32_t dynamic_shared(const hal_device_info *info, const problem *p)
{
    const uint32_t size = hal_dtype_size(p->between);
    uint32_t bytes = 1024;
    if (!info->compute_capability || p->columns > ACTIVATION_ROW_KEPT / size) {
        return 0;
    }
    while (bytes < p->columns * size) {
        bytes *= 2;
    }
    return bytes;
}

static hal_status record_rows(hal_cmdlist *list, problem *p)
{
    static const char *const names[] = {"DTYPE_A", "DTYPE_B", "OP", "STRICT", "THREADS", "KEPT"};
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    const hal_operand *o = p->operands;
    hal_flat_row shape;
    if (flat_fits(info, p) && hal_flat_has_element_output(info, &o[AT_SCALES]) &&
        hal_flat_row_of(info, p->columns, &shape)) {
        return record_rows_flat(list, info, p, shape);
    }
    uint32_t threads;
    hal_status status = hal_row_threads_fit(info, p->op, p->columns, &threads);
    if (status != HAL_OK) {
        return status;
    }
    const hal_activation_args args = args_of(p);
    const uint32_t constants[] = {
        (uint32_t)o[AT_A].dtype, (uint32_t)dtype_b(p), p->kernel_op, ROW_STRICT(args.flags), threads,
        kept(info, p->columns)};
    hal_operator_launch launch;
    hal_operator_launch_start(&launch, "activation_row", constants, names, 6, sizeof args);
    launch.spec.group[0] = threads;
    launch.spec.dynamic_shared = dynamic_shared(info, p);
    launch.grid = HAL_GRID2(1, p->rows);
    return hal_operator_dispatch(list, p->op, &launch, o, access_of, OPERANDS, AT_A, &args);
}

static hal_status record(hal_cmdlist *list, problem *p)
{
    hal_status status = check(p);
    if (status != HAL_OK) {
        return status;
    }
    hal_operands_align_slots(list, p->operands, OPERANDS);
    return by_row(p) ? record_rows(list, p) : record_elements(list, p);
}

/* Of a result in E4M3. */
static hal_operand scales_of(hal_span span, hal_dtype dtype_y, uint64_t rows)
{
    return (hal_operand){
        .name = "scales", .present = dtype_y == HAL_F8E4M3, .span = span, .dtype = HAL_F32, .rows = 1, .columns = rows};
}

static hal_status tell_activation(hal_cmdlist *list, const hal_activation_desc *given)
{
    static const char op[] = "hal_activation";
    hal_activation_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_activation_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc.dtype_y, desc.dtype, true) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "round_between", &desc.round_between, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    if ((unsigned)desc.act > HAL_ACT_SIGMOID || (unsigned)desc.mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: act is %d, mode %d; use a hal_act and a hal_mode", op,
                        (int)desc.act, (int)desc.mode);
    }
    if (desc.rows == 0 || desc.columns == 0) {
        return HAL_OK;
    }
    problem p = {
        .op = op,
        .rows = desc.rows,
        .columns = desc.columns,
        .b_rows = 1,
        .b_columns = desc.columns,
        .kernel_op = (uint32_t)desc.act,
        .alpha = desc.alpha == 0.0f ? 1.0f : desc.alpha,
        .between = desc.round_between,
        .mode = desc.mode,
        .operands = {[AT_A] = {"x", true, desc.x, desc.dtype, desc.rows, desc.columns, desc.ldx, 1, 0, 0, 0, 0},
                     [AT_Y] = {"y", true, desc.y, desc.dtype_y, desc.rows, desc.columns, desc.ldy, 1, 0, 0, 0, 0},
                     [AT_SCALES] = scales_of(desc.scales, desc.dtype_y, desc.rows)}};
    return record(list, &p);
}

hal_status hal_activation(hal_cmdlist *list, const hal_activation_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_activation: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell_activation(list, desc)) : status;
}

static hal_status tell_binary(hal_cmdlist *list, const hal_binary_desc *given)
{
    static const char op[] = "hal_binary";
    hal_binary_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_binary_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_b", &desc.dtype_b, desc.dtype, false) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype_y", &desc.dtype_y, desc.dtype, true) : status;
    status = status == HAL_OK ? hal_operand_dtype(op, "round_between", &desc.round_between, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    if ((unsigned)desc.op > HAL_SWIGLU || (unsigned)desc.mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: op is %d, mode %d; use a hal_binary_op and a hal_mode", op,
                        (int)desc.op, (int)desc.mode);
    }
    if (desc.rows == 0 || desc.columns == 0) {
        return HAL_OK;
    }
    desc.b_rows = desc.b_rows ? desc.b_rows : desc.rows;
    desc.b_columns = desc.b_columns ? desc.b_columns : desc.columns;
    if (desc.b_columns != 1 && desc.b_columns != desc.columns) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: b_columns is %llu; use 1 or columns, %llu", op,
                        (unsigned long long)desc.b_columns, (unsigned long long)desc.columns);
    }
    problem p = {
        .op = op,
        .rows = desc.rows,
        .columns = desc.columns,
        .b_rows = desc.b_rows,
        .b_columns = desc.b_columns,
        .kernel_op = ACTIVATION_ADD + (uint32_t)desc.op,
        .alpha = desc.alpha == 0.0f ? 1.0f : desc.alpha,
        .between = desc.round_between,
        .mode = desc.mode,
        .operands = {[AT_A] = {"a", true, desc.a, desc.dtype, desc.rows, desc.columns, desc.lda, 1, 0, 0, 0, 0},
                     [AT_B] = {"b", true, desc.b, desc.dtype_b, desc.b_rows, desc.b_columns, desc.ldb, 1, 0, 0, 0, 0},
                     [AT_Y] = {"y", true, desc.y, desc.dtype_y, desc.rows, desc.columns, desc.ldy, 1, 0, 0, 0, 0},
                     [AT_SCALES] = scales_of(desc.scales, desc.dtype_y, desc.rows)}};
    return record(list, &p);
}

hal_status hal_binary(hal_cmdlist *list, const hal_binary_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_binary: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell_binary(list, desc)) : status;
}
