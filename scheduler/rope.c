/* rope.c - hal_rope: the kernel `rope`, with constants
 *   DTYPE INTERLEAVED HAS_IDS STRICT THREADS
 * A group of THREADS work-items (one task on CPU devices) turns some heads of a token. `rope_flat` is the same for
 * devices and operands as in flat.h. And the tables for it. */
#include "flat.h"
#include "row_kernels.h"

#include "kernel_convert.h"

#include "recording.h"
#include <math.h>

enum { AT_X, AT_Y, AT_COS, AT_SIN, AT_IDS, OPERANDS, MOST_RUNS = 16 };

static const hal_access access_of[OPERANDS] = {HAL_READ, HAL_WRITE, HAL_READ, HAL_READ, HAL_READ};

/* No two heads of y may share memory: the larger stride steps over all that the smaller one reaches. */
static hal_status check_apart(const char *op, const hal_rope_desc *desc)
{
    uint64_t inner = desc->heads > 1 ? desc->y_head : 0, inner_count = desc->heads, outer = desc->y_token;
    if (desc->heads > 1 && desc->tokens > 1 && desc->y_token < desc->y_head) {
        inner = desc->y_token;
        inner_count = desc->tokens;
        outer = desc->y_head;
    }
    const bool inner_apart = inner_count <= 1 || inner >= desc->head_dim;
    const bool one = desc->tokens <= 1 || desc->heads < 1;
    uint64_t reach = 0;
    const bool fits = !__builtin_mul_overflow(inner_count - 1, inner, &reach) && reach <= UINT64_MAX - desc->head_dim;
    if (!inner_apart || !fits || (!one && outer < reach + desc->head_dim)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: y_token is %llu, y_head %llu: heads of y would overlap", op,
                        (unsigned long long)desc->y_token, (unsigned long long)desc->y_head);
    }
    return HAL_OK;
}

static hal_status check(const char *op, hal_rope_desc *desc, hal_operand *operands)
{
    const uint64_t dimensions[] = {desc->tokens, (uint64_t)desc->heads * desc->head_dim};
    hal_status status = hal_operand_dimensions(op, "tokens, heads * head_dim", dimensions, 2);
    status = status == HAL_OK ? check_apart(op, desc) : status;
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        status = hal_operand_resolve(op, &operands[i], true);
    }
    return status == HAL_OK ? hal_operand_check_output(op, operands, OPERANDS, AT_Y, 1u << AT_X) : status;
}

/* Runs of each half of the pairs, if they are apart and halves have whole ones. */
static uint32_t pair_runs(const hal_rope_desc *desc)
{
    return !desc->interleaved && desc->rotary_dim % (2 * FLAT_RUN) == 0 ? desc->rotary_dim / (2 * FLAT_RUN) : 0;
}

static bool flat_fits(const hal_device_info *info, const hal_rope_desc *desc, const hal_operand *o)
{
    const uint64_t y_token = desc->y_token * hal_dtype_size(desc->dtype);
    const bool together = desc->interleaved || pair_runs(desc) || !hal_operands_overlap(&o[AT_X], &o[AT_Y]);
    return hal_flat_device(info) && together && desc->rotary_dim % 8 == 0 && desc->head_dim <= MOST_RUNS * FLAT_RUN &&
           hal_row_has_view(info, &o[AT_X]) && (desc->tokens == 1 || (desc->x_token % 4 == 0 && y_token % 32 == 0)) &&
           hal_flat_has_output(info, &o[AT_Y]) && hal_row_has_view(info, &o[AT_COS]) &&
           hal_row_has_view(info, &o[AT_SIN]) && (!o[AT_IDS].present || hal_flat_has_elements(info, &o[AT_IDS]));
}

static hal_status record_flat(hal_cmdlist *list, const char *op, const hal_rope_desc *desc, hal_operand *o)
{
    static const char *const names[] = {"DTYPE_Y", "INTERLEAVED", "HAS_IDS",     "STRICT",
                                        "REST",    "RUNS",        "SUBGROUPS_H", "PAIR_RUNS"};
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    const uint32_t runs = (uint32_t)hal_groups(desc->head_dim, FLAT_RUN);
    uint32_t across = 1; /* heads of a group */
    while (across < FLAT_SUBGROUPS && across < desc->heads) {
        across *= 2;
    }
    const uint32_t rest = desc->head_dim % FLAT_RUN ? FLAT_PART : FLAT_RUNS; /* heads and tokens end anywhere */
    const uint32_t constants[] = {
        (uint32_t)desc->dtype, desc->interleaved, o[AT_IDS].present, desc->mode == HAL_MODE_STRICT, rest, runs, across,
        pair_runs(desc)};
    hal_operator_launch launch;
    hal_flat_launch_start(&launch, "rope_flat", constants, names, 8, sizeof(hal_rope_flat_args), FLAT_SUBGROUPS);
    launch.grid = HAL_GRID2(hal_groups(desc->heads, across), hal_groups(desc->tokens, FLAT_SUBGROUPS / across));
    hal_view *views = launch.spec.views;
    hal_rope_flat_args args = {.tokens = (uint32_t)desc->tokens,
                               .heads = desc->heads,
                               .head_dim = desc->head_dim,
                               .rotary_dim = desc->rotary_dim,
                               .x_token = (uint32_t)desc->x_token,
                               .x_head = (uint32_t)desc->x_head,
                               .y_token = (uint32_t)desc->y_token,
                               .y_head = (uint32_t)desc->y_head,
                               .positions = (uint32_t)desc->positions,
                               .first = desc->first_position < INT32_MAX ? (uint32_t)desc->first_position
                                                                         : INT32_MAX, /* beyond any table */
                               .base_x = hal_row_make_view(info, &o[AT_X], &views[AT_X]),
                               .base_y = hal_flat_make_output(info, &o[AT_Y]),
                               .base_cos = hal_row_make_view(info, &o[AT_COS], &views[AT_COS]),
                               .base_sin = hal_row_make_view(info, &o[AT_SIN], &views[AT_SIN])};
    views[AT_IDS] = views[AT_X];
    if (o[AT_IDS].present) {
        args.base_ids = hal_flat_make_elements(info, &o[AT_IDS], &views[AT_IDS]);
    }
    return hal_operator_dispatch(list, op, &launch, o, access_of, OPERANDS, AT_X, &args);
}

static hal_status record(hal_cmdlist *list, const char *op, hal_rope_desc *desc)
{
    static const char *const names[] = {"DTYPE", "INTERLEAVED", "HAS_IDS", "STRICT", "THREADS"};
    const bool has_ids = desc->position_ids.kind != HAL_SPAN_NONE;
    const uint64_t pairs = desc->rotary_dim / 2;
    /* Position ids are 4 bytes each, as F32 is; 4-byte alignment is all that they need. */
    hal_operand operands[OPERANDS] = {
        [AT_X] = {"x", true, desc->x, desc->dtype, desc->heads, desc->head_dim, desc->x_head, desc->tokens,
                  desc->x_token, 0, 0, 0},
        [AT_Y] = {"y", true, desc->y, desc->dtype, desc->heads, desc->head_dim, desc->y_head, desc->tokens,
                  desc->y_token, 0, 0, 0},
        [AT_COS] = {"cos", true, desc->cos, HAL_F32, desc->positions, pairs, 0, 1, 0, 0, 0, 0},
        [AT_SIN] = {"sin", true, desc->sin, HAL_F32, desc->positions, pairs, 0, 1, 0, 0, 0, 0},
        [AT_IDS] = {"position_ids", has_ids, desc->position_ids, HAL_F32, 1, desc->tokens, 0, 1, 0, 0, 0, 0}};
    hal_status status = check(op, desc, operands);
    if (status != HAL_OK) {
        return status;
    }
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    hal_operands_align_slots(list, operands, OPERANDS);
    if (flat_fits(info, desc, operands)) {
        return record_flat(list, op, desc, operands);
    }
    const uint32_t threads = hal_row_threads(info), strict = desc->mode == HAL_MODE_STRICT;
    const uint32_t constants[] = {(uint32_t)desc->dtype, desc->interleaved, has_ids, strict, threads};
    const uint32_t work = hal_row_tile(info); /* elements of a group, about */
    const uint32_t heads = work / desc->head_dim ? work / desc->head_dim : 1;
    hal_operator_launch launch;
    hal_operator_launch_start(&launch, "rope", constants, names, 5, sizeof(hal_rope_args));
    launch.spec.group[0] = threads;
    launch.grid = HAL_GRID2(hal_groups(desc->heads, heads), desc->tokens);
    hal_rope_args args = {.tokens = (uint32_t)desc->tokens,
                          .heads = desc->heads,
                          .head_dim = desc->head_dim,
                          .rotary_dim = desc->rotary_dim,
                          .flags =
                              ROW_FLAGS((uint32_t)desc->dtype, 0u, 0u, 0u, strict,
                                        (desc->interleaved ? ROPE_INTERLEAVED : 0u) | (has_ids ? ROPE_HAS_IDS : 0u)),
                          .heads_a_group = heads};
    hal_set64(args.x_token, desc->x_token);
    hal_set64(args.x_head, desc->x_head);
    hal_set64(args.y_token, desc->y_token);
    hal_set64(args.y_head, desc->y_head);
    hal_set64(args.positions, desc->positions);
    hal_set64(args.first, desc->first_position);
    return hal_operator_dispatch(list, op, &launch, operands, access_of, OPERANDS, AT_X, &args);
}

static hal_status tell(hal_cmdlist *list, const hal_rope_desc *given)
{
    static const char op[] = "hal_rope";
    hal_rope_desc desc;
    hal_status status = hal_operator_desc(op, given, &desc, sizeof desc, "hal_rope_desc");
    status = status == HAL_OK ? hal_operand_dtype(op, "dtype", &desc.dtype, HAL_F32, false) : status;
    if (status != HAL_OK) {
        return status;
    }
    desc.rotary_dim = desc.rotary_dim ? desc.rotary_dim : desc.head_dim;
    if (desc.head_dim == 0 || desc.rotary_dim % 2 || desc.rotary_dim > desc.head_dim) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: rotary_dim is %u of head_dim %u; use an even part of it", op,
                        desc.rotary_dim, desc.head_dim);
    }
    if ((unsigned)desc.mode > HAL_MODE_STRICT) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: mode is %d; use a hal_mode", op, (int)desc.mode);
    }
    if (desc.positions == 0) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: positions is 0; give the rows of cos and sin", op);
    }
    if (desc.tokens == 0 || desc.heads == 0) {
        return HAL_OK;
    }
    const uint64_t packed = (uint64_t)desc.heads * desc.head_dim;
    desc.x_head = desc.x_head ? desc.x_head : desc.head_dim;
    desc.y_head = desc.y_head ? desc.y_head : desc.head_dim;
    desc.x_token = desc.x_token ? desc.x_token : packed;
    desc.y_token = desc.y_token ? desc.y_token : packed;
    return record(list, op, &desc);
}

hal_status hal_rope(hal_cmdlist *list, const hal_rope_desc *desc)
{
    hal_status status = hal_check(list, HAL_TYPE_CMDLIST, "hal_rope: list");
    return status == HAL_OK ? hal_cmdlist_noted(list, tell(list, desc)) : status;
}

hal_status hal_rope_table(uint64_t positions, uint32_t rotary_dim, double base, float *cosines, float *sines)
{
    const uint32_t pairs = rotary_dim / 2;
    if (rotary_dim == 0 || rotary_dim % 2 || !(base > 0) || (positions && (!cosines || !sines))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_rope_table: rotary_dim is %u, base %g; use an even number, a base above 0 and two arrays",
                        rotary_dim, base);
    }
    for (uint32_t i = 0; i < pairs; i++) {
        const double frequency = pow(base, -2.0 * i / rotary_dim);
        for (uint64_t position = 0; position < positions; position++) {
            const double angle = (double)position * frequency;
            cosines[position * pairs + i] = (float)cos(angle);
            sines[position * pairs + i] = (float)sin(angle);
        }
    }
    return HAL_OK;
}
