#include "../ptx/bind.h"
#include "sim.h"

const ptx_op ptx_ops_matrix[] = {{NULL, NULL}};
