/* fusion_rules.h - the rules of fusion: each looks whether a pattern of steps ends at a step, whether one step in their
 * place gives the same bits, and what that step is. */
#ifndef HAL_FUSION_RULES_H
#define HAL_FUSION_RULES_H

#include "fusion.h"

#define MIB 1048576.0 /* in words */

enum { HAL_FUSION_STEPS = 4, HAL_FUSION_REASON = sizeof((hal_decision *)0)->reason };

/* What a rule looks at. */
typedef struct hal_fusion_site {
    const hal_program *program;
    const uint32_t *writers, *readers; /* by tensor: the step; how many steps */
    uint32_t last;                     /* the step that the pattern ends at */
    uint64_t rows;
} hal_fusion_site;

/* Steps that would become one. */
typedef struct hal_candidate {
    uint32_t steps[HAL_FUSION_STEPS]; /* the last of them is the site's */
    uint32_t count;
    hal_step merged;
    uint32_t tensor;                 /* of the decision */
    uint32_t gone[HAL_FUSION_STEPS]; /* results that nobody writes any more */
    uint32_t gone_count;
    hal_verdict verdict;                /* FUSED: legal, and there is a kernel; else `reason` says why not */
    bool reorders;                      /* sums are taken in another order */
    uint64_t bytes_before, bytes_after; /* 0: those of the operands */
    char reason[HAL_FUSION_REASON];
} hal_candidate;

typedef struct hal_fusion_rule {
    const char *name;
    bool (*find)(const hal_fusion_site *site, hal_candidate *c); /* false: the pattern is not there */
} hal_fusion_rule;

/* In the order in which they are tried: a rule builds on what those before it made. */
extern const hal_fusion_rule hal_fusion_rules[];
extern const uint32_t hal_fusion_rule_count;

/* For the files of rules. */

static inline const hal_step *hal_site_step(const hal_fusion_site *site)
{
    return &site->program->steps[site->last];
}
static inline const hal_tensor_info *hal_site_tensor(const hal_fusion_site *site, uint32_t id)
{
    return &site->program->tensors[id];
}
/* The step of an operator that has `tensor` as its result Y, or NULL; *index: which it is. */
const hal_step *hal_site_made_by(const hal_fusion_site *site, uint32_t tensor, hal_step_op op, uint32_t *index);
bool hal_site_same_matrix(const hal_fusion_site *site, uint32_t x, uint32_t y);

/* A candidate of `first` and the site's step, of the tensor between them; merged is a copy of `merged`. */
void hal_candidate_start(const hal_fusion_site *site, hal_candidate *c, uint32_t first, uint32_t tensor,
                         const hal_step *merged);
/* The first of these that is called says why not. */
void hal_candidate_refuse(hal_candidate *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hal_candidate_decline(hal_candidate *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A result that nobody writes any more, if nobody else needs it: else it is refused. */
void hal_candidate_drop(const hal_fusion_site *site, hal_candidate *c, uint32_t tensor);
/* The merged step rounds to what the tensor is stored as, or it is refused. */
void hal_candidate_round(const hal_fusion_site *site, hal_candidate *c, uint32_t tensor);

/* A pattern on one operand of a sum or product; `either` looks at both, and takes the one that is legal. */
typedef bool (*hal_sided_rule)(const hal_fusion_site *site, hal_role side, hal_role other, hal_candidate *c);
bool hal_candidate_either(const hal_fusion_site *site, hal_sided_rule find, hal_candidate *c);

/* The rules, by file. */
bool hal_fuse_activation_multiply(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_swiglu(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_bias(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_activation(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_residual(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_quantize(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_cast(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_gemm_row(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_quantize_gemm(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_softmax_gemm(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_add_rmsnorm(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_rmsnorm_quantize(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_activation_quantize(const hal_fusion_site *site, hal_candidate *c);
bool hal_fuse_attention(const hal_fusion_site *site, hal_candidate *c);

#endif
