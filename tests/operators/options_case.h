/* options_case.h - a GEMM with any of hal_gemm's options, and the host's copy of it: the same steps with kernel_math.h.
 * That holds bit for bit in strict mode for any numbers, and in every mode for small whole numbers, whose sums are
 * exact. */
#ifndef TEST_OPTIONS_CASE_H
#define TEST_OPTIONS_CASE_H

#include "rows.h"

enum { A, B, UP, C, D, BIAS, RESIDUAL, SCALE_A, SCALE_B, SCALE_D, OPERANDS };

/* Matrices hold the problems of the batch one below the other, scales one after the other. */
typedef struct options_case {
    uint64_t m, n, k, batch;
    bool trans_a, trans_b, trans_d, interleaved, one_scale_a, one_scale_b;
    bool has[OPERANDS];
    hal_dtype dtype, dtype_c, dtype_d, between;
    hal_act act;
    hal_mode mode;
    float alpha, beta, swiglu_alpha;
    operand x[OPERANDS];
    float *values[OPERANDS]; /* without gaps */
    hal_buffer *workspace;   /* or NULL */
} options_case;

/* Any options that go together, in fast mode. */
options_case options_draw(uint64_t *seed);
hal_dtype wide_dtype(uint64_t *seed); /* not E4M3 */
bool options_swiglu(const options_case *c);
/* Matrices of those shapes, uploaded. */
void options_create(options_case *c, fixture *f, matrix_fill fill, uint64_t *seed);
/* With as much workspace as hal_gemm asks for; none if that is none. */
void options_add_workspace(options_case *c, fixture *f);
void options_destroy(options_case *c);
hal_gemm_desc options_desc(const options_case *c);
hal_status options_tell(hal_cmdlist *list, void *user); /* hal_gemm; a tell_fn */
void options_print(const options_case *c);
/* Every bit of D, which is on the host, against the host's copy; gaps untouched. */
void options_check_bits(options_case *c);
/* Runs it twice, and checks it. */
void options_check(options_case *c, fixture *f);

#endif
