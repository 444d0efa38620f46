/* graph_tensors.h - what the tests of graphs begin with. */
#ifndef GRAPH_TENSORS_H
#define GRAPH_TENSORS_H

#include "unit.h"

#include "program.h"

/* A graph with a tensor of each kind that the cases need. */
typedef struct tensors {
    hal_graph *graph;
    hal_tensor x, cube, fixed, vector, column, w, codes, scales, ids, ids64, table, rows;
} tensors;

static inline tensors open_tensors(void)
{
    tensors t;
    assert_int_equal(hal_graph_create(HAL_GRAPH(.label = "test"), &t.graph), HAL_OK);
    t.x = hal_graph_input(t.graph, "x", HAL_F16, HAL_DIMS(HAL_ROWS, 24));
    t.cube = hal_graph_input(t.graph, "cube", HAL_BF16, HAL_DIMS(HAL_ROWS, 3, 24));
    t.fixed = hal_graph_input(t.graph, "fixed", HAL_F16, HAL_DIMS(10, 24));
    t.vector = hal_graph_input(t.graph, "vector", HAL_F16, HAL_DIMS(24));
    t.column = hal_graph_input(t.graph, "column", HAL_F16, HAL_DIMS(HAL_ROWS, 1));
    t.w = hal_graph_constant(t.graph, "w", HAL_F16, HAL_DIMS(24, 40), (hal_span){0});
    t.codes = hal_graph_input(t.graph, "codes", HAL_F8E4M3, HAL_DIMS(HAL_ROWS, 24));
    t.scales = hal_graph_input(t.graph, "scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    t.ids = hal_graph_index_input(t.graph, "ids", 4, HAL_DIMS(HAL_ROWS));
    t.ids64 = hal_graph_index_input(t.graph, "ids64", 8, HAL_DIMS(HAL_ROWS, 2));
    t.table = hal_graph_constant(t.graph, "table", HAL_F32, HAL_DIMS(100, 6), (hal_span){0});
    t.rows = hal_graph_input(t.graph, "rows", HAL_F16, HAL_DIMS(HAL_ROWS));
    assert_int_equal(hal_graph_status(t.graph), HAL_OK);
    return t;
}

#endif
