/* fusion_rules.c - the table of rules, what they share, and those on rows. */
#include "fusion_rules.h"

#include "graph_build.h"
#include "space.h"
#include <stdarg.h>

const hal_fusion_rule hal_fusion_rules[] = {
    {"scores + softmax + weighted sum -> attention", hal_fuse_attention},
    {"activation + multiply", hal_fuse_activation_multiply},
    {"gemm, gemm + swiglu", hal_fuse_gemm_swiglu},
    {"gemm + bias", hal_fuse_gemm_bias},
    {"gemm + cast", hal_fuse_gemm_cast},
    {"gemm + activation", hal_fuse_gemm_activation},
    {"gemm + residual", hal_fuse_gemm_residual},
    {"gemm + quantize", hal_fuse_gemm_quantize},
    {"gemm + operator on rows", hal_fuse_gemm_row},
    {"softmax + gemm", hal_fuse_softmax_gemm},
    {"add + rmsnorm", hal_fuse_add_rmsnorm},
    {"rmsnorm + quantize", hal_fuse_rmsnorm_quantize},
    {"activation + quantize", hal_fuse_activation_quantize},
    {"quantize inside gemm", hal_fuse_quantize_gemm},
};
const uint32_t hal_fusion_rule_count = sizeof hal_fusion_rules / sizeof hal_fusion_rules[0];

const hal_step *hal_site_made_by(const hal_fusion_site *site, uint32_t tensor, hal_step_op op, uint32_t *index)
{
    const uint32_t writer = site->writers[tensor];
    const hal_step *step = writer == UINT32_MAX ? NULL : &site->program->steps[writer];
    *index = writer;
    return step && step->op == op && step->tensors[HAL_ROLE_Y] == tensor ? step : NULL;
}

bool hal_site_same_matrix(const hal_fusion_site *site, uint32_t x, uint32_t y)
{
    const hal_dims *a = &hal_site_tensor(site, x)->dims, *b = &hal_site_tensor(site, y)->dims;
    return hal_dims_same_rows(a, b) && hal_dims_columns(a) == hal_dims_columns(b);
}

void hal_candidate_start(const hal_fusion_site *site, hal_candidate *c, uint32_t first, uint32_t tensor,
                         const hal_step *merged)
{
    *c = (hal_candidate){.steps = {first, site->last}, .count = 2, .tensor = tensor, .merged = *merged};
}

static void say(hal_candidate *c, hal_verdict verdict, const char *format, va_list args)
{
    if (c->verdict == HAL_VERDICT_FUSED) {
        c->verdict = verdict;
        vsnprintf(c->reason, sizeof c->reason, format, args);
    }
}

void hal_candidate_refuse(hal_candidate *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, HAL_VERDICT_REFUSED, format, args);
    va_end(args);
}

void hal_candidate_decline(hal_candidate *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, HAL_VERDICT_DECLINED, format, args);
    va_end(args);
}

void hal_candidate_drop(const hal_fusion_site *site, hal_candidate *c, uint32_t tensor)
{
    const hal_tensor_info *info = hal_site_tensor(site, tensor);
    const uint32_t readers = site->readers[tensor];
    c->gone[c->gone_count++] = tensor;
    if (info->output) {
        hal_candidate_refuse(c, "'%s' is an output: it must be in memory", info->name);
    } else if (readers > 1) {
        hal_candidate_refuse(c, "'%s' is read by %u steps: it must be in memory", info->name, readers);
    }
}

void hal_candidate_round(const hal_fusion_site *site, hal_candidate *c, uint32_t tensor)
{
    const hal_tensor_info *info = hal_site_tensor(site, tensor);
    if (c->merged.round_between == HAL_DTYPE_DEFAULT) {
        c->merged.round_between = info->dtype;
    } else if (c->merged.round_between != info->dtype) {
        hal_candidate_refuse(c, "dropping a rounding: '%s' is stored as %s, the kernel rounds to %s between steps",
                             info->name, hal_dtype_name(info->dtype), hal_dtype_name(c->merged.round_between));
    }
}

bool hal_candidate_either(const hal_fusion_site *site, hal_sided_rule find, hal_candidate *c)
{
    hal_candidate other;
    const bool left = find(site, HAL_ROLE_X, HAL_ROLE_B, c);
    if (left && c->verdict == HAL_VERDICT_FUSED) {
        return true;
    }
    const bool right = find(site, HAL_ROLE_B, HAL_ROLE_X, &other);
    if (right && (!left || other.verdict == HAL_VERDICT_FUSED)) {
        *c = other;
    }
    return left || right;
}

static bool silu_on(const hal_fusion_site *site, hal_role side, hal_role other_side, hal_candidate *c)
{
    const hal_step *multiply = hal_site_step(site);
    const uint32_t t = multiply->tensors[side], other = multiply->tensors[other_side];
    uint32_t index;
    if (multiply->op != HAL_STEP_BINARY || multiply->binary != HAL_MULTIPLY) {
        return false;
    }
    const hal_step *act = hal_site_made_by(site, t, HAL_STEP_ACTIVATION, &index);
    if (!act || (side == HAL_ROLE_B && !hal_site_same_matrix(site, t, other))) {
        return false; /* SwiGLU's b, not its a, may be smaller */
    }
    hal_candidate_start(site, c, index, t, multiply);
    c->merged.binary = HAL_SWIGLU;
    c->merged.alpha = act->alpha;
    c->merged.tensors[HAL_ROLE_X] = act->tensors[HAL_ROLE_X];
    c->merged.tensors[HAL_ROLE_B] = other;
    if (t == other) {
        hal_candidate_refuse(c, "both factors are '%s'", hal_site_tensor(site, t)->name);
    }
    hal_candidate_drop(site, c, t);
    hal_candidate_round(site, c, t);
    if (act->act != HAL_ACT_SILU) {
        hal_candidate_decline(c, "there is a kernel for silu and multiply only");
    }
    return true;
}

/* SiLU, and what it is multiplied by: the binary operator SwiGLU, which rounds between. */
bool hal_fuse_activation_multiply(const hal_fusion_site *site, hal_candidate *c)
{
    return hal_candidate_either(site, silu_on, c);
}

/* RMSNorm adds the residual itself, and stores the sum where somebody else wants it. */
bool hal_fuse_add_rmsnorm(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *norm = hal_site_step(site);
    const uint32_t sum = norm->tensors[HAL_ROLE_X];
    uint32_t index;
    if (norm->op != HAL_STEP_RMSNORM || norm->tensors[HAL_ROLE_RESIDUAL]) {
        return false;
    }
    const hal_step *add = hal_site_made_by(site, sum, HAL_STEP_BINARY, &index);
    if (!add || add->binary != HAL_ADD) {
        return false;
    }
    const uint32_t a = add->tensors[HAL_ROLE_X], b = add->tensors[HAL_ROLE_B];
    const hal_tensor_info *info = hal_site_tensor(site, sum);
    hal_candidate_start(site, c, index, sum, norm);
    c->merged.tensors[HAL_ROLE_X] = a;
    c->merged.tensors[HAL_ROLE_RESIDUAL] = b;
    if (info->output || site->readers[sum] > 1) {
        c->merged.tensors[HAL_ROLE_SUM] = sum;
    } else {
        c->gone[c->gone_count++] = sum;
    }
    if (!hal_site_same_matrix(site, a, b)) {
        hal_candidate_decline(c, "no kernel: rmsnorm adds a residual of x's shape, '%s' is smaller",
                              hal_site_tensor(site, b)->name);
    }
    if (hal_site_tensor(site, a)->dtype != info->dtype || hal_site_tensor(site, b)->dtype != info->dtype) {
        hal_candidate_decline(c, "no kernel: rmsnorm adds operands of one dtype");
    }
    return true;
}

bool hal_fuse_rmsnorm_quantize(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *quantize = hal_site_step(site);
    const uint32_t t = quantize->tensors[HAL_ROLE_X];
    uint32_t index;
    const hal_step *norm =
        quantize->op == HAL_STEP_QUANTIZE ? hal_site_made_by(site, t, HAL_STEP_RMSNORM, &index) : NULL;
    if (!norm) {
        return false;
    }
    hal_candidate_start(site, c, index, t, norm);
    c->merged.tensors[HAL_ROLE_Y] = quantize->tensors[HAL_ROLE_Y];
    c->merged.tensors[HAL_ROLE_SCALES] = quantize->tensors[HAL_ROLE_SCALES];
    hal_candidate_drop(site, c, t);
    hal_candidate_round(site, c, t);
    if (quantize->tensors[HAL_ROLE_SCALE_A]) {
        hal_candidate_decline(c, "no kernel: rmsnorm finds the scales itself, here they are given");
    }
    return true;
}

/* The last step of an activation chain: the operators on elements quantise their rows themselves. */
bool hal_fuse_activation_quantize(const hal_fusion_site *site, hal_candidate *c)
{
    const hal_step *quantize = hal_site_step(site);
    const uint32_t t = quantize->tensors[HAL_ROLE_X];
    uint32_t index;
    if (quantize->op != HAL_STEP_QUANTIZE) {
        return false;
    }
    const hal_step *made = hal_site_made_by(site, t, HAL_STEP_BINARY, &index);
    made = made ? made : hal_site_made_by(site, t, HAL_STEP_ACTIVATION, &index);
    if (!made) {
        return false;
    }
    hal_candidate_start(site, c, index, t, made);
    c->merged.tensors[HAL_ROLE_Y] = quantize->tensors[HAL_ROLE_Y];
    c->merged.tensors[HAL_ROLE_SCALES] = quantize->tensors[HAL_ROLE_SCALES];
    hal_candidate_drop(site, c, t);
    hal_candidate_round(site, c, t);
    if (quantize->tensors[HAL_ROLE_SCALE_A]) {
        hal_candidate_decline(c, "no kernel: an activation finds the scales itself, here they are given");
    }
    return true;
}
