/* attention_plan.c - which kernel, in which tiles, and how many splits. Decided by what the device is and can do and by
 * the shape, never by a driver's name. Kernels:
 *   attention          8 neighbours a row, tiles in shared memory: any device
 *   attention_task     one core's task, or one subgroup, a tile: CPU devices
 *   attention_mma      matrix units: FP16 and BF16
 *   attention_combine  puts splits together
 *   attention_scores   the scores themselves: any device, as simple as it can be */
#include "attention.h"

#include "core.h"

static const char *const names[] = {"DTYPE", "STRICT", "THREADS", "HEAD_ROOM", "VALUE_ROOM"};
#define CONSTANTS 5
#define LANES     8u

/* Few sizes of what kernels keep, so that there are few kernels. */
static uint32_t room(uint32_t dim)
{
    return dim <= 64 ? 64 : dim <= 128 ? 128 : 256;
}

static void constants_of(const attention_problem *p, uint32_t threads, uint32_t constants[CONSTANTS])
{
    const uint32_t values[CONSTANTS] = {(uint32_t)p->desc.dtype, p->desc.mode == HAL_MODE_STRICT, threads,
                                        room(p->desc.head_dim), room(p->desc.value_dim)};
    memcpy(constants, values, sizeof values);
}

/* Blocks of keys of the longest sequence. */
static uint32_t blocks_of(const attention_problem *p)
{
    const uint64_t blocks = hal_groups(p->desc.kv_length, ATTENTION_KEYS);
    return blocks ? (uint32_t)blocks : 1;
}

/* Splits that keep every unit busy, each of some blocks, so that its start and its combination cost little. */
static uint32_t choose_splits(const hal_device_info *info, const attention_problem *p, bool may_split, uint64_t groups)
{
    const uint32_t blocks = blocks_of(p), most = blocks / 4 ? blocks / 4 : 1;
    if (!may_split || p->desc.mode != HAL_MODE_FAST) {
        return 1;
    }
    if (p->desc.splits) {
        return (uint32_t)hal_fewer(p->desc.splits, blocks);
    }
    const uint64_t wanted = 2 * (uint64_t)info->compute_units;
    return groups >= wanted ? 1 : (uint32_t)hal_fewer(hal_groups(wanted, groups), hal_fewer(most, 64));
}

/* A split has `part` blocks of keys; there may be empty ones behind the last key of a short sequence. Where loops end
 * early, at `turns` a block, there must be enough splits; false if there may not be. */
static bool split(const hal_device_info *info, const attention_problem *p, uint32_t splits, bool may_split,
                  uint64_t turns, attention_plan *plan)
{
    const uint64_t most = info->max_loop_iterations ? (info->max_loop_iterations - 1024) / turns : UINT32_MAX;
    plan->part = (uint32_t)hal_groups(blocks_of(p), splits);
    if (plan->part > most) {
        if (!may_split || p->desc.mode != HAL_MODE_FAST || most == 0) {
            return false;
        }
        plan->part = (uint32_t)most;
    }
    plan->splits = (uint32_t)hal_groups(blocks_of(p), plan->part);
    return true;
}

/* Work-items of the kernel for any device, or 0 where it does not fit. */
static uint32_t group_threads(const hal_device_info *info)
{
    for (uint32_t threads = 128; threads >= 32; threads /= 2) {
        const uint32_t rows = threads / LANES, floats = rows * 32 + ATTENTION_KEYS * 33 + rows * ATTENTION_KEYS;
        if (threads <= info->max_group_size && threads <= info->max_group_dim[0] &&
            floats * sizeof(float) <= info->max_shared_memory) {
            return threads;
        }
    }
    return 0;
}

/* Groups that surely run within a second; see gemm_plan.c for the rates. */
static uint64_t second_of_groups(const hal_device_info *info, const attention_problem *p, const attention_plan *plan,
                                 uint32_t rows, double rate)
{
    const double keys = (double)hal_fewer((uint64_t)plan->part * ATTENTION_KEYS, p->desc.kv_length) + ATTENTION_KEYS;
    const double work = keys * rows * 2.0 * (p->desc.head_dim + p->desc.value_dim + 32);
    const double most = info->compute_units * rate / work;
    return (uint64_t)(most > info->compute_units ? most : info->compute_units);
}

/* Turns of an invocation's loops for one block of keys in the kernel for any device. */
static uint64_t group_turns(const attention_problem *p, uint32_t threads)
{
    const uint64_t load = ATTENTION_KEYS * 32 / threads + 1, chunks_k = hal_groups(p->desc.head_dim, 32),
                   chunks_v = hal_groups(p->desc.value_dim, 32);
    return 96 + chunks_k * (load + 40) + chunks_v * (load + ATTENTION_KEYS + 1);
}

static void start(const hal_device_info *info, const attention_problem *p, attention_plan *plan, uint32_t rows,
                  double rate)
{
    plan->rows = rows;
    plan->launch.grid = HAL_GRID3(hal_groups(p->rows, rows), p->desc.kv_heads, p->desc.batch * plan->splits);
    plan->launch.most_groups = second_of_groups(info, p, plan, rows, rate);
}

static hal_status plan_group(const hal_device_info *info, const attention_problem *p, bool may_split,
                             attention_plan *plan)
{
    const uint32_t threads = group_threads(info), rows = threads / LANES;
    if (!threads) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "hal_attention: the device allows groups of %u with %u bytes of shared memory; 32 and 9984 are "
                        "needed",
                        info->max_group_size, info->max_shared_memory);
    }
    const uint64_t tiles = hal_groups(p->rows, rows), turns = group_turns(p, threads) + 1;
    uint32_t splits = choose_splits(info, p, may_split, tiles * p->desc.kv_heads * p->desc.batch);
    if (!split(info, p, splits, may_split, turns, plan)) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "hal_attention: kv_length is %llu; loops of this device end after %u turns; give a workspace",
                        (unsigned long long)p->desc.kv_length, info->max_loop_iterations);
    }
    uint32_t constants[CONSTANTS];
    constants_of(p, threads, constants);
    constants[3] = 0; /* it goes through head_dim in pieces */
    hal_operator_launch_start(&plan->launch, "attention", constants, names, CONSTANTS, sizeof(hal_attention_args));
    plan->launch.spec.group[0] = threads;
    start(info, p, plan, rows, info->type == HAL_DEVICE_CPU ? 0.1e9 : info->type == HAL_DEVICE_DISCRETE ? 20e9 : 2e9);
    return HAL_OK;
}

/* One core's task in OpenCL C. Everything waits in local memory, which is to stay in the core's cache. More rows to a
 * tile mean that keys are transposed less often. Up to `direct` rows are one tile, which reads keys once. */
static bool plan_task(const hal_device_info *info, const attention_problem *p, bool may_split, attention_plan *plan)
{
    static const char *const task_names[] = {"DTYPE", "STRICT", "ROWS", "HEAD_ROOM", "VALUE_ROOM"};
    static const uint32_t sizes[] = {48, 24, 12, 8, 6, 4, 2, 1}, direct = 12;
    const uint32_t dims = room(p->desc.head_dim) + room(p->desc.value_dim);
    uint32_t rows = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint32_t floats = sizes[i] * (dims + ATTENTION_KEYS + 9) + ATTENTION_KEYS * dims;
        const bool smaller_covers = i + 1 < sizeof sizes / sizeof sizes[0] && sizes[i + 1] >= p->rows;
        if (floats * sizeof(float) > info->max_shared_memory || smaller_covers) {
            continue;
        }
        rows = sizes[i];
        if (hal_groups(p->rows, rows) * p->desc.kv_heads * p->desc.batch >= 4 * (uint64_t)info->compute_units ||
            p->rows <= direct || rows <= 6) {
            break;
        }
    }
    if (!rows) {
        return false;
    }
    const uint64_t groups = hal_groups(p->rows, rows) * p->desc.kv_heads * p->desc.batch;
    if (!split(info, p, choose_splits(info, p, may_split, groups), may_split, 1024, plan)) {
        return false;
    }
    uint32_t constants[CONSTANTS];
    constants_of(p, rows, constants);
    hal_operator_launch_start(&plan->launch, "attention_task", constants, task_names, CONSTANTS,
                              sizeof(hal_attention_args));
    start(info, p, plan, rows, 4e9);
    return true;
}

/* Whether a tensor's rows start at texels of 16 bytes, in a view that the device allows. */
static bool view_rows(const hal_device_info *info, const hal_operand *o, uint32_t dim, const uint64_t strides[3],
                      uint32_t *back)
{
    const uint64_t size = hal_dtype_size(o->dtype), texel = 16 / size;
    *back = 0;
    if (!o->present || !hal_operand_placed(o, info->view_alignment)) {
        return false; /* a slot's address may not be known until submit */
    }
    const uint64_t before = hal_operand_before(o, info->view_alignment);
    *back = (uint32_t)before;
    return before % 16 == 0 && before <= o->span.offset && dim % texel == 0 && strides[0] % texel == 0 &&
           strides[1] % texel == 0 && strides[2] % texel == 0 && o->columns < INT32_MAX / 2 &&
           (before + o->bytes) / 16 + 1 <= info->max_view_elements;
}

/* One subgroup of 8 lanes in GLSL; fewer rows than lanes where there are no more. */
static bool plan_subgroup(const hal_device_info *info, const attention_problem *p, bool may_split, attention_plan *plan)
{
    static const char *const task_names[] = {"DTYPE", "STRICT", "STEP", "ROWS", "VALUE_ROOM", "FINISH", "PAGED"};
    const hal_attention_desc *d = &p->desc;
    const hal_operand *o = p->operands;
    const uint64_t q[] = {d->q_batch, d->q_token, d->q_head}, k[] = {d->k_batch, d->k_token, d->k_head},
                   v[] = {d->v_batch, d->v_token, d->v_head};
    if (!info->subgroups || !info->subgroup_shuffle || info->subgroup_size != LANES || info->max_group_size < LANES ||
        d->mode == HAL_MODE_STRICT || !view_rows(info, &o[ATTENTION_Q], d->head_dim, q, &plan->back[0]) ||
        !view_rows(info, &o[ATTENTION_K], d->head_dim, k, &plan->back[1]) ||
        !view_rows(info, &o[ATTENTION_V], d->value_dim, v, &plan->back[2])) {
        return false;
    }
    const uint32_t rows = p->rows == 1 ? 1 : p->rows == 2 ? 2 : p->rows <= 4 ? 4 : LANES;
    const uint64_t groups = hal_groups(p->rows, rows) * d->kv_heads * d->batch;
    const uint64_t turns = d->head_dim / 4 + 3 * ATTENTION_KEYS;
    if (!split(info, p, choose_splits(info, p, may_split, groups), may_split, turns, plan)) {
        return false;
    }
    /* Texels of a key at a time: FP32's are two of one cache line, which may be gone when the loop comes back to it. */
    const uint32_t step = hal_dtype_size(d->dtype) < 4 || d->head_dim % 8 ? 1 : 2;
    uint32_t constants[CONSTANTS + 2];
    constants_of(p, step, constants);
    constants[3] = rows;
    constants[CONSTANTS] = d->softcap != 0.0f || o[ATTENTION_MASK].present;
    constants[CONSTANTS + 1] = d->page_size != 0;
    hal_operator_launch_start(&plan->launch, "attention_task", constants, task_names, CONSTANTS + 2,
                              sizeof(hal_attention_args));
    plan->launch.spec.group[0] = LANES;
    for (uint32_t i = 0; i < 3; i++) {
        plan->launch.spec.views[i] = HAL_VIEW_RGBA32UI;
    }
    start(info, p, plan, rows, 2e9);
    return true;
}

/* Whether a tensor's rows start at multiples of 16 bytes and have whole ones. */
static bool rows_wide(const hal_operand *o, uint32_t dim, const uint64_t strides[3])
{
    return !o->present || (hal_operand_placed(o, 16) && (o->start + o->span.offset) % 16 == 0 && dim % 8 == 0 &&
                           strides[0] % 8 == 0 && strides[1] % 8 == 0 && strides[2] % 8 == 0);
}

/* Matrix units. A backend that has none of these kernels is found out when the kernel is asked for. */
static bool plan_mma(const hal_device_info *info, const attention_problem *p, bool may_split, attention_plan *plan)
{
    static const char *const mma_names[] = {"DTYPE", "DIM"};
    static const uint32_t dims[] = {64, 80, 96, 128};
    enum { ROWS = 64, THREADS = 128 };
    const hal_attention_desc *d = &p->desc;
    const uint32_t widest = d->head_dim > d->value_dim ? d->head_dim : d->value_dim;
    const uint64_t q[] = {d->q_batch, d->q_token, d->q_head}, k[] = {d->k_batch, d->k_token, d->k_head},
                   v[] = {d->v_batch, d->v_token, d->v_head};
    if (!info->matrix_units || info->subgroup_size != 32 || info->max_group_size < THREADS || d->dtype == HAL_F32 ||
        d->mode == HAL_MODE_STRICT || widest > 128 || !rows_wide(&p->operands[ATTENTION_Q], d->head_dim, q) ||
        !rows_wide(&p->operands[ATTENTION_K], d->head_dim, k) ||
        !rows_wide(&p->operands[ATTENTION_V], d->value_dim, v)) {
        return false;
    }
    uint32_t dim = 0;
    for (size_t i = 0; dim < widest; i++) {
        dim = dims[i];
    }
    const uint32_t shared = 4 * ATTENTION_KEYS * (dim + 8) * 2, constants[] = {(uint32_t)d->dtype, dim};
    const uint64_t groups = hal_groups(p->rows, ROWS) * d->kv_heads * d->batch;
    if (shared > info->max_shared_memory ||
        !split(info, p, choose_splits(info, p, may_split, groups), may_split, 64, plan)) {
        return false;
    }
    hal_operator_launch_start(&plan->launch, "attention_mma", constants, mma_names, 2, sizeof(hal_attention_args));
    plan->launch.spec.group[0] = THREADS;
    plan->launch.spec.dynamic_shared = shared;
    start(info, p, plan, ROWS, info->type == HAL_DEVICE_DISCRETE ? 100e9 : 2e9);
    plan->kernel = ATTENTION_KERNEL_MMA;
    return true;
}

static hal_status choose(const hal_device_info *info, const attention_problem *p, bool may_split, uint32_t without,
                         attention_plan *plan)
{
    if (info->type == HAL_DEVICE_CPU && !(without & ATTENTION_KERNEL_TASK)) {
        const bool fits =
            info->max_view_elements ? plan_subgroup(info, p, may_split, plan) : plan_task(info, p, may_split, plan);
        if (fits) {
            plan->kernel = ATTENTION_KERNEL_TASK;
            return HAL_OK;
        }
        memset(plan, 0, sizeof *plan);
    }
    if (!(without & ATTENTION_KERNEL_MMA) && plan_mma(info, p, may_split, plan)) {
        return HAL_OK;
    }
    return plan_group(info, p, may_split, plan);
}

hal_status hal_attention_plan(const hal_device_info *info, const attention_problem *p, bool may_split, uint32_t without,
                              attention_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    hal_status status = choose(info, p, may_split, without, plan);
    if (status == HAL_OK && p->desc.batch * plan->splits > HAL_MAX_DIMENSION) {
        status = hal_fail(HAL_ERROR_LIMIT, "hal_attention: batch x splits must be below 2^31");
    }
    return status;
}

void hal_attention_plan_combine(const hal_device_info *info, const attention_problem *p, hal_operator_launch *launch)
{
    uint32_t constants[CONSTANTS];
    const uint32_t row_threads = hal_row_threads(info), threads = row_threads < 128 ? row_threads : 128;
    constants_of(p, threads, constants);
    constants[0] = constants[3] = constants[4] = 0; /* parts are FP32; all dimensions are arguments */
    hal_operator_launch_start(launch, "attention_combine", constants, names, CONSTANTS, sizeof(hal_attention_args));
    launch->spec.group[0] = threads;
    launch->grid = HAL_GRID3(p->desc.q_heads, p->tokens, 1);
}

hal_status hal_attention_plan_scores(const hal_device_info *info, const attention_problem *p,
                                     hal_operator_launch *launch)
{
    enum { THREADS = ATTENTION_SCORE_THREADS, PASSES = 3 };
    const uint64_t keys = hal_groups(p->desc.kv_length, THREADS), turns = PASSES * keys * (p->desc.head_dim / 8 + 2);
    if (info->max_group_size < THREADS || info->max_group_dim[0] < THREADS) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_attention: the device allows groups of %u; scores need %u",
                        info->max_group_size, (unsigned)THREADS);
    }
    if (info->max_loop_iterations && turns + 1024 > info->max_loop_iterations) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "hal_attention: kv_length is %llu; loops of this device end after %u turns: too few for scores",
                        (unsigned long long)p->desc.kv_length, info->max_loop_iterations);
    }
    uint32_t constants[CONSTANTS];
    constants_of(p, THREADS, constants);
    constants[3] = constants[4] = 0; /* all dimensions are arguments */
    hal_operator_launch_start(launch, "attention_scores", constants, names, CONSTANTS, sizeof(hal_attention_args));
    launch->spec.group[0] = THREADS;
    launch->grid = HAL_GRID3(p->rows, p->desc.kv_heads, p->desc.batch);
    const double work = PASSES * 2.0 * (double)p->desc.kv_length * p->desc.head_dim + 1;
    const double rate = info->type == HAL_DEVICE_CPU ? 0.05e9 : 1e9, most = info->compute_units * rate / work;
    launch->most_groups = most > info->compute_units ? (uint64_t)most : info->compute_units;
    return HAL_OK;
}

uint64_t hal_attention_part_elements(const attention_problem *p, uint32_t splits)
{
    return p->tokens * p->desc.q_heads * splits * (p->desc.value_dim + 2);
}
