/* fusion_attention.c - attention made of its parts: scores, softmax and the weighted sum become one step that keeps the
 * greatest score m, the sum l and the weighted sum u of each row from block to block of keys. That is another order of
 * summation, and the scores are never rounded: so it is legal only where they were stored in FP32. */
#include "fusion_rules.h"

#include "graph_build.h"

enum { MOST_HEAD_DIM = 256 }; /* of hal_attention */

/* The steps: q k^T; maybe + mask; softmax; times v. */
typedef struct parts {
    const hal_step *scores, *add, *softmax, *sum;
    uint32_t at[HAL_FUSION_STEPS], count;
} parts;

static bool find_parts(const hal_fusion_site *site, parts *p)
{
    uint32_t index;
    *p = (parts){.sum = hal_site_step(site)};
    if (p->sum->op != HAL_STEP_GEMM ||
        !(p->softmax = hal_site_made_by(site, p->sum->tensors[HAL_ROLE_X], HAL_STEP_SOFTMAX, &index))) {
        return false;
    }
    uint32_t reversed[HAL_FUSION_STEPS] = {site->last, index}, count = 2, s = p->softmax->tensors[HAL_ROLE_X];
    p->add = hal_site_made_by(site, s, HAL_STEP_BINARY, &index);
    if (p->add) {
        reversed[count++] = index;
        s = p->add->tensors[HAL_ROLE_X];
    }
    p->scores = hal_site_made_by(site, s, HAL_STEP_GEMM, &index);
    reversed[count++] = index;
    while (count) {
        p->at[p->count++] = reversed[--count];
    }
    return p->scores && (!p->add || p->add->binary == HAL_ADD);
}

static bool does_more(const hal_step *gemm)
{
    const uint32_t *t = gemm->tensors;
    return gemm->act || t[HAL_ROLE_BIAS] || t[HAL_ROLE_RESIDUAL] || t[HAL_ROLE_B_UP] || t[HAL_ROLE_SCALE_A] ||
           t[HAL_ROLE_SCALE_B] || t[HAL_ROLE_SCALE_D];
}

static void check_rounding(const hal_fusion_site *site, hal_candidate *c, uint32_t tensor, const char *what)
{
    const hal_tensor_info *info = hal_site_tensor(site, tensor);
    hal_candidate_drop(site, c, tensor);
    if (info->dtype != HAL_F32) {
        hal_candidate_refuse(c, "dropping a rounding: %s, '%s', are stored as %s", what, info->name,
                             hal_dtype_name(info->dtype));
    }
}

static void check_kernel(const hal_fusion_site *site, hal_candidate *c, const parts *p)
{
    const hal_tensor_info *q = hal_site_tensor(site, c->merged.tensors[HAL_ROLE_X]);
    const hal_tensor_info *k = hal_site_tensor(site, c->merged.tensors[HAL_ROLE_B]);
    const hal_tensor_info *v = hal_site_tensor(site, c->merged.tensors[HAL_ROLE_V]);
    const uint32_t mask = c->merged.tensors[HAL_ROLE_MASK];
    if (does_more(p->scores) || does_more(p->sum) || (p->sum->alpha != 0.0f && p->sum->alpha != 1.0f)) {
        hal_candidate_decline(c, "no kernel: a gemm of it does more than multiply");
    }
    if (!p->scores->trans_b || p->sum->trans_b) {
        hal_candidate_decline(c, "no kernel: k is [keys, d], transposed in the product, and v [keys, d]");
    }
    if (p->softmax->log || (p->add && (p->softmax->scale != 0.0f && p->softmax->scale != 1.0f)) ||
        (p->add && p->softmax->tensors[HAL_ROLE_MASK])) {
        hal_candidate_decline(c, "no kernel: softmax of %s",
                              p->softmax->log ? "which the logarithm is taken" : "a sum");
    }
    if (q->dtype != k->dtype || q->dtype != v->dtype) {
        hal_candidate_decline(c, "no kernel: q, k and v are %s, %s and %s", hal_dtype_name(q->dtype),
                              hal_dtype_name(k->dtype), hal_dtype_name(v->dtype));
    }
    if (hal_dims_columns(&q->dims) > MOST_HEAD_DIM || hal_dims_columns(&v->dims) > MOST_HEAD_DIM) {
        hal_candidate_decline(c, "no kernel: heads have at most %u elements", MOST_HEAD_DIM);
    }
    if (mask && !hal_site_same_matrix(site, mask, c->tensor)) {
        hal_candidate_decline(c, "no kernel: the mask is smaller than the scores");
    }
}

static float or_one(float factor)
{
    return factor == 0.0f ? 1.0f : factor;
}

bool hal_fuse_attention(const hal_fusion_site *site, hal_candidate *c)
{
    parts p;
    if (!find_parts(site, &p)) {
        return false;
    }
    const uint32_t mask = p.add ? p.add->tensors[HAL_ROLE_B] : p.softmax->tensors[HAL_ROLE_MASK];
    const hal_step merged = {.op = HAL_STEP_ATTENTION,
                             .heads = 1,
                             .kv_heads = 1,
                             .scale = or_one(p.scores->alpha) * or_one(p.softmax->scale),
                             .tensors = {[HAL_ROLE_X] = p.scores->tensors[HAL_ROLE_X],
                                         [HAL_ROLE_B] = p.scores->tensors[HAL_ROLE_B],
                                         [HAL_ROLE_V] = p.sum->tensors[HAL_ROLE_B],
                                         [HAL_ROLE_MASK] = mask,
                                         [HAL_ROLE_Y] = p.sum->tensors[HAL_ROLE_Y]}};
    hal_candidate_start(site, c, p.at[0], p.scores->tensors[HAL_ROLE_Y], &merged);
    memcpy(c->steps, p.at, sizeof c->steps);
    c->count = p.count;
    c->reorders = true;
    check_rounding(site, c, p.scores->tensors[HAL_ROLE_Y], "the scores");
    if (p.add) {
        check_rounding(site, c, p.add->tensors[HAL_ROLE_Y], "the masked scores");
    }
    check_rounding(site, c, p.softmax->tensors[HAL_ROLE_Y], "the weights");
    check_kernel(site, c, &p);
    return true;
}

/* Without the scores at hand there is no block of weights to begin with. */
bool hal_fuse_softmax_gemm(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *gemm = hal_site_step(site);
    const uint32_t weights = gemm->tensors[HAL_ROLE_X];
    uint32_t index;
    if (gemm->op != HAL_STEP_GEMM || !hal_site_made_by(site, weights, HAL_STEP_SOFTMAX, &index)) {
        return false;
    }
    hal_candidate_start(site, c, index, weights, gemm);
    hal_candidate_refuse(c,
                         "inside the loop over k a block of '%s' has neither its row's maximum nor sum: m, l and u "
                         "must be kept, which is attention",
                         hal_site_tensor(site, weights)->name);
    return true;
}
