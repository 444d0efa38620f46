/* gemm_texel.c - the plan of a core's task in GLSL: operands as texel views, where they can be, since texels are
 * fetched without a branch. Three forms: gemm_task_flat, where D and what the epilogue reads allow it (flat.h);
 * gemm_task; and gemm_task_address, where A and B allow no views. */
#include "gemm_plan.h"

#include "flat.h"
#include "recording.h"
#include "row_kernels.h"

/* Whether a problem's operand can be indexed in 32 bits, with room for an edge tile. */
static bool indexes_fit(const hal_operand *o)
{
    return o->rows * o->ld <= INT32_MAX;
}

/* How an operand is seen as texels of 16 bytes: where the view starts, and whether rows start inside texels. */
static bool view_operand(const hal_device_info *info, const hal_operand *o, uint32_t batch, uint64_t *back,
                         uint32_t *shift)
{
    const uint64_t size = hal_dtype_size(o->dtype), texel = 16 / size;
    if (!hal_operand_placed(o, info->view_alignment)) {
        return false; /* its address is not known until submit, and a view's is restricted */
    }
    *back = hal_operand_before(o, info->view_alignment);
    if (*back > o->span.offset) {
        return false; /* a view would begin before the buffer */
    }
    const uint64_t bytes = *back + o->bytes;
    *shift = *back % 16 != 0 || o->ld % texel != 0 || (batch > 1 && o->stride % texel != 0);
    return bytes / 16 + 1 <= info->max_view_elements && bytes / size <= INT32_MAX;
}

/* Groups of 8 rows that share what is fetched of B. More take longer to compile: only where there is much to compute.
 */
static uint32_t texel_row_groups(const gemm_problem *p, bool shift_b)
{
    const bool large = (uint64_t)p->m * p->n >= (UINT64_C(1) << 24) / p->k;
    const uint32_t best = p->operands[GEMM_A].dtype == HAL_F32 ? (shift_b ? 6 : 4) : 2;
    const uint32_t most = (uint32_t)hal_groups(p->m, 8);
    return !large ? 1 : best < most ? best : most;
}

static const int finishing[] = {GEMM_C, GEMM_BIAS, GEMM_RESIDUAL}; /* what the epilogue reads */
enum { FINISHING = sizeof finishing / sizeof finishing[0] };

/* Each epilogue is a kernel of its own, and takes its time to compile: only those of D's dtype throughout. */
static bool fits_flat(const hal_device_info *info, const gemm_problem *p)
{
    const hal_operand *d = &p->operands[GEMM_D];
    bool fits = hal_flat_device(info) && hal_flat_has_output(info, d) &&
                (p->batch == 1 || d->stride * hal_dtype_size(d->dtype) % 32 == 0) &&
                (p->between == HAL_F32 || p->between == d->dtype);
    for (int i = 0; i < FINISHING; i++) {
        const hal_operand *o = &p->operands[finishing[i]];
        fits = fits && (!o->present || (o->dtype == d->dtype && hal_flat_has_elements(info, o)));
    }
    return fits;
}

/* Whether what the epilogue reads can be read by four neighbours, which a lane has where B is plain. */
static bool fits_fours(const hal_device_info *info, const gemm_problem *p)
{
    bool fits = !p->trans_b;
    for (int i = 0; i < FINISHING; i++) {
        const hal_operand *o = &p->operands[finishing[i]];
        fits = fits && (!o->present || (hal_row_has_view(info, o) && (p->batch == 1 || o->stride % 4 == 0)));
    }
    return fits;
}

/* Makes views of what the epilogue reads: `base` is where each begins. What is absent shares A's view. */
static void make_views(const hal_device_info *info, bool fours, hal_operand *o, hal_view *views, uint32_t *base)
{
    for (int i = 0; i < FINISHING; i++) {
        const int at = finishing[i];
        views[at] = views[GEMM_A];
        if (o[at].present) {
            base[at] =
                fours ? hal_row_make_view(info, &o[at], &views[at]) : hal_flat_make_elements(info, &o[at], &views[at]);
        }
    }
}

/* Constants beyond the six that all forms have. */
static void add_constants(gemm_plan *plan, const char *const *names, const uint32_t *constants, uint32_t count)
{
    hal_kernel_spec *spec = &plan->spec;
    memcpy(spec->constants + spec->constant_count, constants, count * sizeof *constants);
    spec->constant_count += count;
    plan->constant_names = names;
}

static void flatten(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE",   "TRANS_A", "TRANS_B", "ROW_GROUPS", "SHIFT_A",
                                        "SHIFT_B", "FLAGS",   "REST",    "FOURS"};
    const bool fours = fits_fours(info, p);
    hal_operand o[GEMM_OPERANDS];
    uint32_t base[GEMM_OPERANDS];
    memcpy(o, p->operands, sizeof o);
    make_views(info, fours, o, plan->spec.views, base);
    /* What is rounded to matters only before an activation or a residual. */
    gemm_problem usual = *p;
    if (p->act == HAL_ACT_NONE && !o[GEMM_RESIDUAL].present) {
        usual.between = HAL_F32;
    }
    const uint32_t constants[] = {hal_gemm_flags(&usual), p->n * hal_dtype_size(o[GEMM_D].dtype) % 32 != 0, fours};
    add_constants(plan, names, constants, 3);
    plan->flat = true;
    plan->spec.plain = true;
    plan->spec.args_size = sizeof(hal_gemm_flat_args) + FLAT_DIGITS * (uint32_t)sizeof(uint32_t);
}

hal_status hal_gemm_dispatch_flat(hal_cmdlist *list, hal_kernel *kernel, const gemm_plan *plan,
                                  const gemm_problem *problem, uint64_t most_groups)
{
    const hal_device_info *info = hal_device_get_info(hal_cmdlist_device(list));
    hal_operand o[GEMM_OPERANDS];
    hal_view views[GEMM_OPERANDS] = {HAL_VIEW_NONE};
    uint32_t base[GEMM_OPERANDS] = {0}, alignments[GEMM_OPERANDS];
    hal_span spans[GEMM_OPERANDS];
    memcpy(o, problem->operands, sizeof o);
    make_views(info, fits_fours(info, problem), o, views, base);
    hal_operand_move_back(&o[GEMM_A], plan->back_a);
    hal_operand_move_back(&o[GEMM_B], plan->back_b);
    const hal_gemm_flat_args args = {.m = problem->m,
                                     .n = problem->n,
                                     .k = problem->k,
                                     .alpha = problem->alpha,
                                     .beta = problem->beta,
                                     .base_a = (uint32_t)(plan->back_a / hal_dtype_size(o[GEMM_A].dtype)),
                                     .base_b = (uint32_t)(plan->back_b / hal_dtype_size(o[GEMM_B].dtype)),
                                     .base_c = base[GEMM_C],
                                     .base_d = hal_flat_make_output(info, &o[GEMM_D]),
                                     .base_bias = base[GEMM_BIAS],
                                     .base_r = base[GEMM_RESIDUAL],
                                     .lda = (uint32_t)o[GEMM_A].ld,
                                     .ldb = (uint32_t)o[GEMM_B].ld,
                                     .ldc = (uint32_t)o[GEMM_C].ld,
                                     .ldd = (uint32_t)o[GEMM_D].ld,
                                     .ldr = (uint32_t)o[GEMM_RESIDUAL].ld,
                                     .stride_a = (uint32_t)o[GEMM_A].stride,
                                     .stride_b = (uint32_t)o[GEMM_B].stride,
                                     .stride_c = (uint32_t)o[GEMM_C].stride,
                                     .stride_d = (uint32_t)o[GEMM_D].stride,
                                     .stride_r = (uint32_t)o[GEMM_RESIDUAL].stride};
    hal_operands_bind(o, GEMM_OPERANDS, GEMM_A, spans, alignments);
    const hal_flat_words words = hal_flat_words_of(&args, sizeof args);
    const hal_dispatch_rules rules = {alignments, most_groups ? most_groups : plan->most_groups};
    return hal_cmd_dispatch_with(list, kernel, plan->grid, spans, GEMM_OPERANDS, &rules, words.words,
                                 plan->spec.args_size);
}

bool hal_gemm_plan_texel_task(const hal_device_info *info, const gemm_problem *p, uint32_t without, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE",   "TRANS_A", "TRANS_B", "ROW_GROUPS",
                                        "SHIFT_A", "SHIFT_B", "DTYPE_D", "EXTRAS"};
    const hal_operand *o = p->operands;
    uint64_t back[2];
    uint32_t shift[2] = {1, 1};
    if (!info->subgroups || !info->subgroup_shuffle || info->subgroup_size != 8 || info->max_group_size < 8 ||
        p->k == 0 || !indexes_fit(&o[GEMM_A]) || !indexes_fit(&o[GEMM_B])) {
        return false;
    }
    const bool views = !(without & GEMM_KERNEL_VIEWS) &&
                       view_operand(info, &o[GEMM_A], p->batch, &back[0], &shift[0]) &&
                       view_operand(info, &o[GEMM_B], p->batch, &back[1], &shift[1]);
    if (!views) {
        shift[0] = shift[1] = 1;
    }
    const hal_dtype dtype = o[GEMM_A].dtype;
    const bool extras = o[GEMM_C].present || o[GEMM_BIAS].present || o[GEMM_RESIDUAL].present || p->act != HAL_ACT_NONE;
    const uint32_t columns = dtype == HAL_F32 ? 32 : 64;
    const uint32_t row_groups = p->want ? p->want->tile_m / 8 : texel_row_groups(p, shift[1]);
    if (row_groups < 1 || row_groups > 8) {
        return false;
    }
    const bool flat = views && fits_flat(info, p);
    const uint32_t constants[] = {(uint32_t)dtype, p->trans_a, p->trans_b, row_groups, shift[0], shift[1]};
    hal_gemm_plan_start(plan, flat ? "gemm_task_flat" : views ? "gemm_task" : "gemm_task_address", constants, 6);
    plan->choice = "gemm_task";
    plan->spec.group[0] = 8;
    if (views) {
        plan->spec.views[GEMM_A] = plan->spec.views[GEMM_B] = HAL_VIEW_RGBA32UI;
        plan->back_a = back[0];
        plan->back_b = back[1];
    }
    if (flat) {
        flatten(info, p, plan);
    } else {
        add_constants(plan, names, (const uint32_t[]){extras ? 0 : (uint32_t)o[GEMM_D].dtype, extras}, 2);
    }
    hal_gemm_plan_cover(plan, p, 8 * row_groups, columns, 0);
    const uint32_t step = dtype == HAL_F32 ? 16 : 8;
    plan->iterations = (uint64_t)p->k / step + 1 + p->k % step + 1 + (uint64_t)row_groups * columns + 1;
    return hal_gemm_plan_loops_fit(info, plan) && hal_gemm_plan_wanted(p, plan->choice, 8 * row_groups, columns, 0);
}
