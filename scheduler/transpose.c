/* transpose.c - hal_transpose. The axes are sorted by y's strides, and merged where both x and y step over them alike.
 * If x and y then have the same innermost axis, `transpose_copy` moves runs along it, with constants
 *   WIDTH THREADS TILE LOG_B
 * in elements as wide as strides and addresses allow; else `transpose` turns tiles of x's and y's innermost axes, with
 *   WIDTH THREADS TILE SIDE
 * where a group takes a square of SIDE. The others are counted by groups. `transpose_copy_flat` and `transpose_flat`
 * are the same for devices and operands as in flat.h. */
#include "transpose.h"

#include "flat.h"

#include "kernel_convert.h"

#include "recording.h"

#define WIDEST 16u /* bytes that a work-item moves at once */

typedef struct axis {
    uint64_t count, x, y; /* strides in elements */
} axis;

typedef struct problem {
    const char *op;
    axis axes[HAL_MAX_DIMS]; /* outermost of y first */
    uint32_t count;
    uint32_t width;
    hal_operand operands[2]; /* x, y */
} problem;

/* y's strides descend, and axes of one element are left out. */
static void sort_axes(problem *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const axis moved = p->axes[i];
        uint32_t at = kept;
        if (moved.count == 1) {
            continue;
        }
        for (; at > 0 && p->axes[at - 1].y < moved.y; at--) {
            p->axes[at] = p->axes[at - 1];
        }
        p->axes[at] = moved;
        kept++;
    }
    p->count = kept;
}

static void merge_axes(problem *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const axis inner = p->axes[i];
        axis *outer = &p->axes[kept ? kept - 1 : 0];
        if (kept && outer->x == inner.x * inner.count && outer->y == inner.y * inner.count &&
            outer->count * inner.count <= HAL_MAX_DIMENSION) {
            *outer = (axis){outer->count * inner.count, inner.x, inner.y};
        } else {
            p->axes[kept++] = inner;
        }
    }
    p->count = kept;
}

/* The widest element, up to `most` bytes, that runs along the innermost axis consist of: a power of two that divides
 * all it must. */
static void widen(problem *p, uint32_t most)
{
    axis *inner = &p->axes[p->count - 1];
    uint64_t all = inner->count * p->width;
    for (uint32_t i = 0; i + 1 < p->count; i++) {
        all |= (p->axes[i].x | p->axes[i].y) * p->width;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const hal_operand *o = &p->operands[i];
        all |= hal_operand_placed(o, most) ? o->start + o->span.offset : p->width; /* a slot's may not be known */
    }
    uint32_t width = p->width;
    while (width < most && all % (2 * width) == 0) {
        width *= 2;
    }
    const uint32_t factor = width / p->width;
    inner->count /= factor;
    for (uint32_t i = 0; i + 1 < p->count; i++) {
        p->axes[i].x /= factor;
        p->axes[i].y /= factor;
    }
    p->width = width;
}

/* Takes axis `index` out. */
static axis take(problem *p, uint32_t index)
{
    const axis taken = p->axes[index];
    p->count--;
    for (uint32_t i = index; i < p->count; i++) {
        p->axes[i] = p->axes[i + 1];
    }
    return taken;
}

/* The axis along which x is contiguous, or nearly: the last one where that is as good. */
static uint32_t inner_of_x(const problem *p)
{
    uint32_t best = p->count - 1;
    for (uint32_t i = p->count - 1; i-- > 0;) {
        const uint64_t x = p->axes[i].x, least = p->axes[best].x;
        best = x && (x < least || !least) ? i : best;
    }
    return best;
}

static hal_status fill_outer(problem *p, hal_transpose_args *args, uint64_t *groups)
{
    *groups = 1;
    args->outer = p->count;
    for (uint32_t i = 0; i < p->count; i++) {
        const axis *outer = &p->axes[p->count - 1 - i];
        args->counts[i] = (uint32_t)outer->count;
        hal_set64(&args->outer_x[2 * i], outer->x);
        hal_set64(&args->outer_y[2 * i], outer->y);
        *groups *= outer->count;
        if (*groups > HAL_MAX_DIMENSION) {
            return hal_fail(HAL_ERROR_LIMIT, "%s: more than 2^31 runs of elements that no stride joins", p->op);
        }
    }
    return HAL_OK;
}

static uint32_t log2_above(uint64_t size, uint32_t most)
{
    uint32_t log = 0;
    while (log < most && UINT64_C(1) << log < size) {
        log++;
    }
    return log;
}

/* The square that a task turns: large, so that it stays on few pages of memory, while there is enough for each core. */
static uint32_t task_side(const hal_device_info *info, uint64_t a, uint64_t b, uint32_t tile)
{
    uint32_t side = 4 * tile;
    while (side > tile && hal_groups(a, side) * hal_groups(b, side) < 4 * (uint64_t)info->compute_units) {
        side /= 2;
    }
    return side;
}

enum { X, Y, FLAT_OUTER = 4, FLAT_PART_BYTES = 32, FLAT_TEXEL_BYTES = 16 };

/* Where flat kernels read and write; in the widest units where operands and strides allow. */
typedef struct flat_form {
    bool copy, wide_x;
    uint32_t y_unit; /* bytes that are stored at a time */
    axis a, b;
} flat_form;

/* Whether all but the innermost stride, and where the operand begins, are multiples of `unit` bytes. */
static bool steps_by(const problem *p, const flat_form *form, uint32_t of, uint64_t unit)
{
    const bool of_y = of == Y;
    const axis *next = form->copy || of_y ? &form->a : &form->b;
    uint64_t all = of_y ? next->y : next->x;
    for (uint32_t i = 0; i < p->count; i++) {
        all |= of_y ? p->axes[i].y : p->axes[i].x;
    }
    return (all * p->width | (p->operands[of].start + p->operands[of].span.offset)) % unit == 0;
}

/* `p` has the outer axes left. */
static bool flat_fits(const hal_device_info *info, const problem *p, flat_form *form)
{
    const hal_operand *x = &p->operands[X];
    const uint64_t bytes = info->view_alignment + x->bytes;
    form->wide_x = (form->copy ? form->b.x : form->a.x) == 1 && steps_by(p, form, X, FLAT_TEXEL_BYTES);
    form->y_unit = p->width;
    if (form->b.y == 1) {
        form->y_unit = steps_by(p, form, Y, FLAT_PART_BYTES)                   ? FLAT_PART_BYTES
                       : !form->copy && steps_by(p, form, Y, sizeof(uint32_t)) ? sizeof(uint32_t)
                                                                               : p->width;
    }
    return p->count <= FLAT_OUTER && hal_operand_placed(x, info->view_alignment) &&
           hal_operand_before(x, info->view_alignment) <= x->span.offset && bytes < INT32_MAX &&
           bytes / sizeof(uint32_t) <= info->max_view_elements && hal_flat_has_element_output(info, &p->operands[Y]);
}

/* What a subgroup takes along a and b, and how many of them lie along b. What is stored element by element makes long
 * kernels. */
typedef struct flat_tile {
    uint32_t texels, parts, subgroups_b;
} flat_tile;

static flat_tile flat_tile_of(const problem *p, const flat_form *form, uint32_t y_unit)
{
    const bool rows = form->a.count >= 8, wide = form->wide_x && y_unit == FLAT_PART_BYTES;
    flat_tile tile = {1, form->copy ? 4 : wide ? 2 : 1, rows ? 1 : FLAT_SUBGROUPS};
    if (wide && form->copy) {
        tile.texels = rows ? 8 : 1;
        tile.parts = rows ? 4 : 16;
    } else if (!form->copy && y_unit >= sizeof(uint32_t)) {
        tile.texels = form->wide_x || p->width == sizeof(uint32_t) ? p->width : 1;
    }
    return tile;
}

/* Those of b from `from` to `to`. */
static hal_status record_flat_part(hal_cmdlist *list, const problem *p, const flat_form *form, uint64_t from,
                                   uint64_t to, uint32_t y_unit)
{
    static const char *const names[] = {"SIZE", "WIDE_X", "Y_UNIT", "OUTER", "SUBGROUPS_B", "TEXELS", "PARTS"};
    static const hal_access access[] = {HAL_READ, HAL_WRITE};
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    problem moved = *p;
    hal_operand *o = moved.operands;
    const flat_tile tile = flat_tile_of(p, form, y_unit);
    const uint64_t tall = form->copy ? 1 : FLAT_TEXEL_BYTES / p->width;
    const uint64_t group_a = FLAT_SUBGROUPS / tile.subgroups_b * tile.texels * tall;
    const uint64_t group_b = (uint64_t)tile.subgroups_b * tile.parts * (FLAT_PART_BYTES / p->width);
    const uint32_t constants[] = {p->width, form->wide_x, y_unit, p->count, tile.subgroups_b, tile.texels, tile.parts};
    hal_operator_launch launch;
    hal_flat_launch_start(&launch, form->copy ? "transpose_copy_flat" : "transpose_flat", constants, names, 7,
                          sizeof(hal_transpose_flat_args), FLAT_SUBGROUPS);
    hal_transpose_flat_args args = {.count_a = (uint32_t)form->a.count,
                                    .count_b = (uint32_t)(to - from),
                                    .xa = (uint32_t)form->a.x,
                                    .xb = (uint32_t)form->b.x,
                                    .ya = (uint32_t)form->a.y,
                                    .yb = (uint32_t)form->b.y};
    uint64_t outer = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        const axis *at = &p->axes[p->count - 1 - i];
        args.counts[i] = (uint32_t)at->count;
        args.outer_x[i] = (uint32_t)at->x;
        args.outer_y[i] = (uint32_t)at->y;
        outer *= at->count;
    }
    const uint64_t back = hal_operand_before(&o[X], info->view_alignment);
    hal_operand_move_back(&o[X], back);
    launch.spec.views[X] = form->wide_x ? HAL_VIEW_RGBA32UI : HAL_VIEW_R32UI;
    args.base_x = (uint32_t)(back / p->width + from * form->b.x);
    args.base_y = hal_flat_make_element_output(info, &o[Y]) * hal_dtype_size(o[Y].dtype) / p->width;
    args.base_y += (uint32_t)(from * form->b.y);
    launch.grid = HAL_GRID3(hal_groups(to - from, group_b), hal_groups(form->a.count, group_a), outer);
    return hal_operator_dispatch(list, p->op, &launch, o, access, 2, 0, &args);
}

/* Whole units, and what is left of rows. */
static hal_status record_flat(hal_cmdlist *list, const problem *p, const flat_form *form)
{
    const uint64_t end = form->b.count, whole = end - end % (form->y_unit / p->width);
    hal_status status = whole ? record_flat_part(list, p, form, 0, whole, form->y_unit) : HAL_OK;
    return status == HAL_OK && whole < end ? record_flat_part(list, p, form, whole, end, p->width) : status;
}

/* `p` has at least one axis. */
static hal_status record(hal_cmdlist *list, problem *p)
{
    static const char *const names[] = {"WIDTH", "THREADS", "TILE", "LOG_B", "SIDE"};
    static const hal_access access[] = {HAL_READ, HAL_WRITE};
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    const bool cpu = info->type == HAL_DEVICE_CPU;
    const uint32_t threads = hal_row_threads(info), inner = inner_of_x(p);
    const bool copy = inner == p->count - 1;
    hal_operands_align_slots(list, p->operands, 2);
    if (hal_flat_device(info)) {
        problem flat = *p;
        flat_form form = {.copy = copy};
        if (copy && flat.axes[inner].x == 1 && flat.axes[inner].y == 1) {
            widen(&flat, 4);
        }
        form.b = take(&flat, flat.count - 1);
        form.a = !copy ? take(&flat, inner) : flat.count ? take(&flat, flat.count - 1) : (axis){1, 0, 0};
        if (flat_fits(info, &flat, &form)) {
            return record_flat(list, &flat, &form);
        }
    }
    if (copy && p->axes[inner].x == 1 && p->axes[inner].y == 1) {
        widen(p, WIDEST);
    }
    const axis b = take(p, p->count - 1);
    const axis a = !copy ? take(p, inner) : p->count ? take(p, p->count - 1) : (axis){1, 0, 0};
    const uint32_t log_tile = cpu ? 12 : 10, log_b = copy ? log2_above(b.count, log_tile) : 0;
    const uint32_t tile = copy ? 1u << log_tile : threads == 1 ? 64 : 32;
    hal_transpose_args args = {
        .count_a = (uint32_t)a.count, .count_b = (uint32_t)b.count, .width = p->width, .log_b = log_b};
    hal_set64(args.xa, a.x);
    hal_set64(args.xb, b.x);
    hal_set64(args.ya, a.y);
    hal_set64(args.yb, b.y);
    uint64_t groups;
    hal_status status = fill_outer(p, &args, &groups);
    if (status != HAL_OK) {
        return status;
    }
    const uint32_t side = !copy && threads == 1 ? task_side(info, a.count * groups, b.count, tile) : tile;
    const uint32_t step_a = copy ? tile >> log_b : side, step_b = copy ? 1u << log_b : side;
    const uint32_t constants[] = {p->width, threads, tile, log_b, side};
    hal_operator_launch launch;
    hal_operator_launch_start(&launch, copy ? "transpose_copy" : "transpose", constants, names, 5,
                              sizeof(hal_transpose_args));
    launch.spec.group[0] = threads;
    launch.grid = HAL_GRID3(hal_groups(b.count, step_b), hal_groups(a.count, step_a), groups);
    return hal_operator_dispatch(list, p->op, &launch, p->operands, access, 2, 0, &args);
}

hal_status hal_copy_rows(hal_cmdlist *list, const char *op, const hal_operand *x, const hal_operand *y)
{
    if (hal_operands_overlap(x, y)) {
        return HAL_OK; /* exactly the same */
    }
    problem p = {.op = op,
                 .axes = {{x->rows, x->ld, y->ld}, {x->columns, 1, 1}},
                 .count = 2,
                 .width = hal_dtype_size(x->dtype),
                 .operands = {*x, *y}};
    if (x->rows == 1) {
        p.axes[0] = (axis){1, 1, 1};
    }
    sort_axes(&p);
    merge_axes(&p);
    if (p.count == 0) { /* one element */
        p.axes[p.count++] = (axis){1, 1, 1};
    }
    return record(list, &p);
}

/* What the strides span, in elements, from the first to the last; false beyond 2^62. */
static bool extent(const problem *p, bool of_y, uint64_t *elements)
{
    *elements = 1;
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t step;
        if (__builtin_mul_overflow(p->axes[i].count - 1, of_y ? p->axes[i].y : p->axes[i].x, &step) ||
            __builtin_add_overflow(*elements, step, elements) || *elements >> 62) {
            return false;
        }
    }
    return true;
}

/* Fills in the axes, in y's order; strides that are all 0 are those of packed memory. */
static hal_status read_axes(problem *p, const hal_transpose_desc *desc)
{
    bool packed_x = true, packed_y = true, seen[HAL_MAX_DIMS] = {false};
    for (uint32_t i = 0; i < desc->rank; i++) {
        packed_x = packed_x && desc->strides_x[i] == 0;
        packed_y = packed_y && desc->strides_y[i] == 0;
        if (desc->perm[i] >= desc->rank || seen[desc->perm[i]]) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: perm[%u] is %u; use each of 0 to %u once", p->op, i,
                            desc->perm[i], desc->rank - 1);
        }
        seen[desc->perm[i]] = true;
    }
    uint64_t strides[HAL_MAX_DIMS], step_x = 1, step_y = 1;
    for (uint32_t i = desc->rank; i-- > 0;) {
        strides[i] = packed_x ? step_x : desc->strides_x[i];
        if (__builtin_mul_overflow(step_x, desc->dims[i], &step_x) || step_x >> 62) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: dims multiply to more than 2^62 elements", p->op);
        }
    }
    for (uint32_t i = desc->rank; i-- > 0;) {
        const uint32_t from = desc->perm[i];
        p->axes[i] = (axis){desc->dims[from], strides[from], packed_y ? step_y : desc->strides_y[i]};
        step_y *= desc->dims[from];
    }
    p->count = desc->rank;
    return hal_operand_dimensions(p->op, "dims", desc->dims, desc->rank);
}

/* No two elements of y may share memory: each axis steps over all of those inside it. */
static hal_status check_apart(const problem *p)
{
    uint64_t span = 1;
    for (uint32_t i = p->count; i-- > 0;) {
        if (p->axes[i].y < span) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: a stride of y is %llu; inside it lie %llu elements", p->op,
                            (unsigned long long)p->axes[i].y, (unsigned long long)span);
        }
        span += (p->axes[i].count - 1) * p->axes[i].y;
    }
    return HAL_OK;
}

static hal_status tell(hal_cmdlist *list, const hal_transpose_desc *given)
{
    static const char op[] = "hal_transpose";
    hal_transpose_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_transpose_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, true) : status;
    if (status != HAL_OK) {
        return status;
    }
    if (desc.rank == 0 || desc.rank > HAL_MAX_DIMS) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: rank is %u; use 1 to %d", op, desc.rank, HAL_MAX_DIMS);
    }
    problem p = {.op = op, .width = hal_dtype_size(desc.dtype)};
    status = read_axes(&p, &desc);
    for (uint32_t i = 0; status == HAL_OK && i < p.count; i++) {
        if (p.axes[i].count == 0) {
            return HAL_OK;
        }
    }
    uint64_t extent_x = 0, extent_y = 0;
    if (status == HAL_OK && (!extent(&p, false, &extent_x) || !extent(&p, true, &extent_y))) {
        status = hal_fail(HAL_ERROR_OUT_OF_RANGE, "%s: strides span more than 2^62 elements", op);
    }
    if (status != HAL_OK) {
        return status;
    }
    p.operands[0] = (hal_operand){"x", true, desc.x, desc.dtype, 1, extent_x, 0, 1, 0, 0, 0, 0};
    p.operands[1] = (hal_operand){"y", true, desc.y, desc.dtype, 1, extent_y, 0, 1, 0, 0, 0, 0};
    sort_axes(&p);
    status = check_apart(&p);
    status = status == HAL_OK ? hal_operand_resolve(op, &p.operands[0], true) : status;
    status = status == HAL_OK ? hal_operand_resolve(op, &p.operands[1], true) : status;
    status = status == HAL_OK ? hal_operand_check_output(op, p.operands, 2, 1, 0) : status;
    if (status != HAL_OK) {
        return status;
    }
    merge_axes(&p);
    if (p.count == 0) { /* one element */
        p.axes[p.count++] = (axis){1, 1, 1};
    }
    return record(list, &p);
}

hal_status hal_transpose(hal_cmdlist *list, const hal_transpose_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_transpose: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell(list, desc)) : status;
}
