/* fusion_case.h - a graph run operator by operator and run fused, on the same memory: the outputs' bytes are equal. */
#ifndef TEST_FUSION_CASE_H
#define TEST_FUSION_CASE_H

#include "rows.h"

#include "fusion.h"

enum { FUSION_TENSORS = 128 };

typedef struct fusion_case {
    fixture *f;
    hal_graph *graph;
    uint64_t rows, seed, columns[FUSION_TENSORS];
    uint32_t names;
    hal_buffer *shared[FUSION_TENSORS]; /* inputs and constants, by tensor */
} fusion_case;

void fusion_case_open(fusion_case *c, fixture *f, uint64_t rows, uint64_t seed);
/* Numbers in [-2, 2) with all bits of the dtype in use; scales in (0, 1]. */
hal_tensor fusion_input(fusion_case *c, hal_dtype dtype, uint64_t columns);
hal_tensor fusion_scales(fusion_case *c);
hal_tensor fusion_weight(fusion_case *c, hal_dtype dtype, uint64_t rows, uint64_t columns);
void fusion_output(fusion_case *c, hal_tensor tensor);
/* Makes all legal fusions that do not reorder, runs both ways in the mode, compares; `what` names it in a failure. The
 * steps of the fused program, as "gemm+silu, add". */
void fusion_case_run(fusion_case *c, hal_mode mode, const char *what, char *steps, size_t size);
void fusion_case_close(fusion_case *c);

#endif
