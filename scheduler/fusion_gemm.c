/* fusion_gemm.c - rules for what a GEMM may do with its result before it is stored: after the loop over k, where the
 * sum is complete, each element is by itself. hal/ops.h says in what order and with which roundings. */
#include "fusion_rules.h"

#include "graph_build.h"
#include "space.h"

/* A tile of the result, about as kernels have them; the loop over k is done where the rest of the work begins. */
static const uint64_t tile[HAL_SPACE_DIMS] = {128, 128};
enum { TILE_K = 64 };

static bool plain_alpha(const hal_step *step)
{
    return step->alpha == 0.0f || step->alpha == 1.0f;
}

static const hal_step *gemm_before(const hal_fusion_site *site, hal_step_op op, hal_role role, uint32_t *index)
{
    const hal_step *step = hal_site_step(site);
    return step->op == op ? hal_site_made_by(site, step->tensors[role], HAL_STEP_GEMM, index) : NULL;
}

/* The GEMM and the step behind it, which takes its result `t` in; the merged step has that step's result. */
static void start(const hal_fusion_site *site, hal_candidate *c, uint32_t index, uint32_t t)
{
    const hal_step *gemm = &site->program->steps[index];
    char reason[HAL_FUSION_REASON];
    hal_candidate_start(site, c, index, t, gemm);
    c->merged.tensors[HAL_ROLE_Y] = hal_site_step(site)->tensors[HAL_ROLE_Y];
    if (!hal_space_may_fuse(site->program, gemm, hal_site_step(site), site->rows, tile, reason, sizeof reason)) {
        hal_candidate_refuse(c, "%s", reason);
    }
    hal_candidate_drop(site, c, t);
    if (gemm->tensors[HAL_ROLE_SCALE_D]) {
        hal_candidate_decline(c, "no kernel: the gemm quantises its result already");
    }
}

/* A vector that is added to every row, before anything is rounded. */
bool hal_fuse_gemm_bias(const hal_fusion_site *site, hal_candidate *c)
{
    uint32_t index;
    const hal_step *add = hal_site_step(site);
    const hal_step *gemm = gemm_before(site, HAL_STEP_BINARY, HAL_ROLE_X, &index);
    if (!gemm || add->binary != HAL_ADD) {
        return false;
    }
    const uint32_t t = add->tensors[HAL_ROLE_X], bias = add->tensors[HAL_ROLE_B];
    const hal_tensor_info *info = hal_site_tensor(site, t), *vector = hal_site_tensor(site, bias);
    if (!hal_dims_one_row(&vector->dims) || hal_dims_one_row(&info->dims) ||
        hal_dims_columns(&vector->dims) != hal_dims_columns(&info->dims)) {
        return false;
    }
    start(site, c, index, t);
    c->merged.tensors[HAL_ROLE_BIAS] = bias;
    if (info->dtype != HAL_F32) {
        hal_candidate_refuse(c, "dropping a rounding: '%s' is stored as %s before the bias is added", info->name,
                             hal_dtype_name(info->dtype));
    }
    if (gemm->tensors[HAL_ROLE_BIAS] || gemm->act || gemm->tensors[HAL_ROLE_RESIDUAL] || gemm->tensors[HAL_ROLE_B_UP]) {
        hal_candidate_decline(c, "no kernel: the gemm does something else before the bias");
    }
    return true;
}

bool hal_fuse_gemm_activation(const hal_fusion_site *site, hal_candidate *c)
{
    uint32_t index;
    const hal_step *act = hal_site_step(site);
    const hal_step *gemm = gemm_before(site, HAL_STEP_ACTIVATION, HAL_ROLE_X, &index);
    if (!gemm || act->act == HAL_ACT_NONE) {
        return false;
    }
    const uint32_t t = act->tensors[HAL_ROLE_X];
    start(site, c, index, t);
    c->merged.act = act->act;
    hal_candidate_round(site, c, t);
    if (gemm->act || gemm->tensors[HAL_ROLE_RESIDUAL] || gemm->tensors[HAL_ROLE_B_UP]) {
        hal_candidate_decline(c, "no kernel: the gemm does something else before the activation");
    }
    if (act->act == HAL_ACT_SILU && !plain_alpha(act)) {
        hal_candidate_decline(c, "no kernel: silu in a gemm has alpha 1");
    }
    return true;
}

static bool residual_on(const hal_fusion_site *site, hal_role side, hal_role other_side, hal_candidate *c)
{
    uint32_t index;
    const hal_step *add = hal_site_step(site);
    const hal_step *gemm = gemm_before(site, HAL_STEP_BINARY, side, &index);
    const uint32_t t = add->tensors[side], other = add->tensors[other_side];
    if (!gemm || add->binary != HAL_ADD || !hal_site_same_matrix(site, t, other)) {
        return false;
    }
    start(site, c, index, t);
    c->merged.tensors[HAL_ROLE_RESIDUAL] = other;
    hal_candidate_round(site, c, t);
    if (t == other) {
        hal_candidate_refuse(c, "both terms are '%s'", hal_site_tensor(site, t)->name);
    }
    if (gemm->tensors[HAL_ROLE_RESIDUAL]) {
        hal_candidate_decline(c, "no kernel: the gemm has a residual already");
    }
    return true;
}

/* x + y is y + x, bit for bit. */
bool hal_fuse_gemm_residual(const hal_fusion_site *site, hal_candidate *c)
{
    return hal_candidate_either(site, residual_on, c);
}

/* FP32 that is stored in another dtype only to be read no more. */
bool hal_fuse_gemm_cast(const hal_fusion_site *site, hal_candidate *c)
{
    uint32_t index;
    const hal_step *cast = hal_site_step(site);
    if (!gemm_before(site, HAL_STEP_CAST, HAL_ROLE_X, &index)) {
        return false;
    }
    const uint32_t t = cast->tensors[HAL_ROLE_X];
    const hal_tensor_info *info = hal_site_tensor(site, t);
    const hal_dtype to = hal_site_tensor(site, cast->tensors[HAL_ROLE_Y])->dtype;
    start(site, c, index, t);
    if (info->dtype != HAL_F32) {
        hal_candidate_refuse(c, "dropping a rounding: '%s' is stored as %s", info->name, hal_dtype_name(info->dtype));
    }
    if (to == HAL_F8E4M3) {
        hal_candidate_decline(c, "no kernel: codes of a gemm have scales");
    }
    return true;
}

/* To E4M3 with scales that are given; those that are found need the whole row, which a tile does not have. */
bool hal_fuse_gemm_quantize(const hal_fusion_site *site, hal_candidate *c)
{
    uint32_t index;
    const hal_step *quantize = hal_site_step(site);
    const hal_step *gemm = gemm_before(site, HAL_STEP_QUANTIZE, HAL_ROLE_X, &index);
    if (!gemm) {
        return false;
    }
    start(site, c, index, quantize->tensors[HAL_ROLE_X]);
    c->merged.tensors[HAL_ROLE_SCALE_D] = quantize->tensors[HAL_ROLE_SCALE_A];
    hal_candidate_round(site, c, quantize->tensors[HAL_ROLE_X]);
    if (!quantize->tensors[HAL_ROLE_SCALE_A]) {
        hal_candidate_decline(c, "no kernel: a gemm quantises with scales that are given");
    }
    return true;
}

/* Softmax and RMSNorm: illegal in a tile, unless it has whole rows, and then there is no kernel. */
bool hal_fuse_gemm_row(const hal_fusion_site *site, hal_candidate *c)
{
    uint32_t index;
    const hal_step *step = hal_site_step(site);
    const uint32_t t = step->tensors[HAL_ROLE_X];
    if (!gemm_before(site, HAL_STEP_SOFTMAX, HAL_ROLE_X, &index) &&
        !gemm_before(site, HAL_STEP_RMSNORM, HAL_ROLE_X, &index)) {
        return false;
    }
    start(site, c, index, t);
    hal_candidate_decline(c, "no kernel: rows that fit in a tile are too rare");
    return true;
}

/* What gate and up must have in common to be one GEMM of two matrices. */
static void check_pair(const hal_fusion_site *site, hal_candidate *c, const hal_step *gate, const hal_step *up)
{
    const hal_tensor_info *b = hal_site_tensor(site, gate->tensors[HAL_ROLE_B]);
    const hal_tensor_info *b_up = hal_site_tensor(site, up->tensors[HAL_ROLE_B]);
    if (gate->tensors[HAL_ROLE_X] != up->tensors[HAL_ROLE_X]) {
        hal_candidate_decline(c, "no kernel: gate and up are products of different matrices");
    }
    if (b->dtype != b_up->dtype || gate->trans_b != up->trans_b || !hal_dims_equal(&b->dims, &b_up->dims)) {
        hal_candidate_decline(c, "no kernel: '%s' and '%s' differ in dtype or layout", b->name, b_up->name);
    }
    if (gate->tensors[HAL_ROLE_SCALE_A] != up->tensors[HAL_ROLE_SCALE_A] || gate->tensors[HAL_ROLE_SCALE_B] ||
        up->tensors[HAL_ROLE_SCALE_B] || gate->alpha != up->alpha) {
        hal_candidate_decline(c, "no kernel: gate and up have scales of their own");
    }
    for (uint32_t i = 0; i < 2; i++) {
        const hal_step *gemm = i ? up : gate;
        if (gemm->act || gemm->tensors[HAL_ROLE_BIAS] || gemm->tensors[HAL_ROLE_RESIDUAL] ||
            gemm->tensors[HAL_ROLE_B_UP]) {
            hal_candidate_decline(c, "no kernel: %s has a bias, activation or residual", i ? "up" : "gate");
        }
    }
}

bool hal_fuse_gemm_swiglu(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *swiglu = hal_site_step(site);
    const uint32_t gate = swiglu->tensors[HAL_ROLE_X], up = swiglu->tensors[HAL_ROLE_B];
    uint32_t first, second;
    if (swiglu->op != HAL_STEP_BINARY || swiglu->binary != HAL_SWIGLU) {
        return false;
    }
    const hal_step *gemm_gate = hal_site_made_by(site, gate, HAL_STEP_GEMM, &first);
    const hal_step *gemm_up = hal_site_made_by(site, up, HAL_STEP_GEMM, &second);
    if (!gemm_gate || !gemm_up) {
        return false;
    }
    hal_candidate_start(site, c, first, gate, gemm_gate);
    c->steps[1] = second;
    c->steps[2] = site->last;
    c->count = 3;
    c->merged.tensors[HAL_ROLE_B_UP] = gemm_up->tensors[HAL_ROLE_B];
    c->merged.tensors[HAL_ROLE_Y] = swiglu->tensors[HAL_ROLE_Y];
    hal_candidate_drop(site, c, gate);
    if (gate == up) {
        hal_candidate_refuse(c, "gate and up are both '%s'", hal_site_tensor(site, gate)->name);
    }
    hal_candidate_drop(site, c, up);
    check_pair(site, c, gemm_gate, gemm_up);
    if (!plain_alpha(swiglu)) {
        hal_candidate_decline(c, "no kernel: silu in a gemm has alpha 1");
    }
    c->merged.round_between = swiglu->round_between ? swiglu->round_between : HAL_F32;
    hal_candidate_round(site, c, gate);
    hal_candidate_round(site, c, up);
    return true;
}

/* Quantising A where it is loaded: A is read in its wide dtype once for each column of tiles, and once more before for
 * the scales. Legal, but it moves more than it saves, and there is no kernel. */
bool hal_fuse_quantize_gemm(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *gemm = hal_site_step(site);
    const uint32_t codes = gemm->tensors[HAL_ROLE_X];
    uint32_t index;
    const hal_step *quantize =
        gemm->op == HAL_STEP_GEMM ? hal_site_made_by(site, codes, HAL_STEP_QUANTIZE, &index) : NULL;
    if (!quantize) {
        return false;
    }
    hal_candidate_start(site, c, index, codes, gemm);
    c->merged.tensors[HAL_ROLE_X] = quantize->tensors[HAL_ROLE_X];
    const hal_tensor_info *x = hal_site_tensor(site, quantize->tensors[HAL_ROLE_X]);
    const hal_tensor_info *y = hal_site_tensor(site, gemm->tensors[HAL_ROLE_Y]);
    const hal_model_gemm shape = {.m = hal_tensor_rows(x, site->rows),
                                  .k = hal_tensor_columns(x),
                                  .n = hal_tensor_columns(y),
                                  .tile_m = tile[0],
                                  .tile_n = tile[1],
                                  .tile_k = TILE_K,
                                  .a_size = x->element_size,
                                  .b_size = 1,
                                  .d_size = y->element_size};
    hal_model_quantize_gemm cost;
    if (hal_model_quantize_gemm_costs(&shape, &cost) != HAL_OK) {
        hal_candidate_decline(c, "no kernel");
        return true;
    }
    c->bytes_before = cost.separate;
    c->bytes_after = cost.fused - (quantize->tensors[HAL_ROLE_SCALES] ? 0 : cost.fused_scan);
    const double more = (double)c->bytes_after / (double)c->bytes_before - 1;
    hal_candidate_decline(c, "it reads '%s' in %s once a column of tiles: %.0f MiB, apart %.0f (%+.0f %%); no kernel",
                          x->name, hal_dtype_name(x->dtype), (double)c->bytes_after / MIB,
                          (double)c->bytes_before / MIB, 100 * more);
    return true;
}
