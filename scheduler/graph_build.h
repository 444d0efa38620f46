/* graph_build.h - what the builder calls of hal/graph.h share: a call looks at its operands, refuses with a message
 * that names them, or adds a step and its result. */
#ifndef HAL_GRAPH_BUILD_H
#define HAL_GRAPH_BUILD_H

#include "program.h"

#include "core.h"

/* Which element types an operand may have: bit 1 << hal_dtype; bit 0: indices. */
enum {
    HAL_TAKES_F32 = 1u << HAL_F32,
    HAL_TAKES_F8 = 1u << HAL_F8E4M3,
    HAL_TAKES_FLOATS = 1u << HAL_F32 | 1u << HAL_F16 | 1u << HAL_BF16,
    HAL_TAKES_INDICES = 1u << HAL_DTYPE_DEFAULT
};

/* Keep the failure, if it is the graph's first. False, to be returned at once. */
bool hal_graph_refuse(hal_graph *graph, hal_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the graph is one, and has not failed. */
bool hal_graph_takes(hal_graph *graph, const char *op);
/* An operand that must be there. NULL: refused. The pointer is good until the graph grows. */
const hal_tensor_info *hal_graph_operand(hal_graph *graph, const char *op, const char *field, hal_tensor tensor,
                                         unsigned takes);
/* One that may be none: *info is NULL then. False: refused. */
bool hal_graph_optional(hal_graph *graph, const char *op, const char *field, hal_tensor tensor, unsigned takes,
                        const hal_tensor_info **info);
/* An options struct (hal_desc_read). */
bool hal_graph_options(hal_graph *graph, const void *given, void *options, size_t size, const char *type);

/* A new tensor that the last step will write, in a role of it. */
hal_tensor hal_graph_result(hal_graph *graph, const char *op, hal_step *step, hal_role role, hal_dtype dtype,
                            const hal_dims *dims);
/* The step, whose results are made. False: refused. */
bool hal_graph_step(hal_graph *graph, const hal_step *step);

/* Rows of a tensor compared without knowing HAL_ROWS: does `tensor` have as many elements as `matrix` has rows? */
bool hal_dims_one_a_row(const hal_dims *vector, const hal_dims *matrix);
bool hal_dims_same_rows(const hal_dims *x, const hal_dims *y);
bool hal_dims_one_row(const hal_dims *dims);
uint64_t hal_dims_columns(const hal_dims *dims);
bool hal_dims_equal(const hal_dims *x, const hal_dims *y);

#endif
