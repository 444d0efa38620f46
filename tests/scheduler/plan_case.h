/* plan_case.h - a graph with memory for its inputs and outputs, for the tests of plans: run as a plan of any kind,
 * bytes compared with those of the plain one. */
#ifndef TEST_PLAN_CASE_H
#define TEST_PLAN_CASE_H

#include <hal/plan.h>

#include "gemm_case.h"

#include "plan_state.h"

enum { CASE_SLOTS = 24, CASE_WEIGHTS = 64 };

typedef struct plan_case {
    fixture *f;
    hal_graph *graph;
    uint64_t most_rows; /* that there is memory for */
    uint64_t seed;
    hal_buffer *weights[CASE_WEIGHTS];
    uint32_t weight_count;
    uint32_t index_limits[CASE_SLOTS]; /* of an index input: values are below; 0: as many keys as count */
    uint32_t inputs, outputs;
    hal_buffer *buffers[CASE_SLOTS];
    uint8_t *want[CASE_SLOTS]; /* outputs, as the plain plan gives them */
} plan_case;

/* An empty graph; then build it, with weights from plan_weight; then plan_case_memory. */
void plan_case_open(plan_case *c, fixture *f, uint64_t most_rows, uint64_t seed);
hal_tensor plan_weight(plan_case *c, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns);
/* Inputs with random numbers, outputs. */
void plan_case_memory(plan_case *c);
void plan_case_close(plan_case *c);

/* Six operators on [rows, h]: RMSNorm, gate, up, SwiGLU, down, residual add. */
void plan_case_ffn(plan_case *c, fixture *f, hal_dtype dtype, uint64_t h, uint64_t inner, uint64_t most_rows);
/* Two chains of `length` operators on one input, and their sum. */
void plan_case_branches(plan_case *c, fixture *f, uint32_t length, uint64_t most_rows);

hal_plan *plan_create(const plan_case *c, const hal_plan_desc *desc);
hal_plan *plan_create_spread(const plan_case *c, const hal_plan_desc *desc);
/* The case's memory, in the order of the slots; scratch may be NULL. */
hal_status plan_run_on(const plan_case *c, hal_plan *plan, hal_stream *stream, uint64_t rows, hal_buffer *scratch);
/* Poison the outputs, run, and compare them with `want`: those of a plan that fuses and records nothing, in that mode.
 * Behind the rows there is still poison. */
void plan_check(plan_case *c, hal_plan *plan, uint64_t rows, hal_buffer *scratch, hal_mode mode);
void plan_expect(plan_case *c, uint64_t rows, hal_mode mode); /* fills `want` */
void plan_compare(const plan_case *c, uint64_t rows, const char *what);
void plan_poison(const plan_case *c);
/* As much as a run wants, for the caller to bind. */
hal_buffer *plan_scratch(const plan_case *c, hal_plan *plan, uint64_t rows);
hal_plan_stats plan_stats(hal_plan *plan, uint64_t rows);

#endif
