/* ops.c - every family of instructions, one table a file. */
#include "../ptx/bind.h"
#include <string.h>

extern const ptx_op ptx_ops_integer[];
extern const ptx_op ptx_ops_float[];
extern const ptx_op ptx_ops_convert[];
extern const ptx_op ptx_ops_logic[];
extern const ptx_op ptx_ops_compare[];
extern const ptx_op ptx_ops_move[];
extern const ptx_op ptx_ops_control[];
extern const ptx_op ptx_ops_registers[];
extern const ptx_op ptx_ops_warp[];
extern const ptx_op ptx_ops_barrier[];
extern const ptx_op ptx_ops_mbarrier[];
extern const ptx_op ptx_ops_memory[];
extern const ptx_op ptx_ops_atomic[];
extern const ptx_op ptx_ops_fence[];
extern const ptx_op ptx_ops_cp_async[];
extern const ptx_op ptx_ops_bulk[];
extern const ptx_op ptx_ops_mma[];
extern const ptx_op ptx_ops_matrix[];
extern const ptx_op ptx_ops_wgmma[];

static const ptx_op *const tables[] = {
    ptx_ops_integer,  ptx_ops_float,   ptx_ops_convert,   ptx_ops_logic, ptx_ops_compare,
    ptx_ops_move,     ptx_ops_control, ptx_ops_registers, ptx_ops_warp,  ptx_ops_barrier,
    ptx_ops_mbarrier, ptx_ops_memory,  ptx_ops_atomic,    ptx_ops_fence, ptx_ops_cp_async,
    ptx_ops_bulk,     ptx_ops_mma,     ptx_ops_matrix,    ptx_ops_wgmma,
};

const ptx_op *ptx_op_find(const char *mnemonic)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const ptx_op *op = tables[t]; op->mnemonic; op++) {
            if (strcmp(op->mnemonic, mnemonic) == 0) {
                return op;
            }
        }
    }
    return NULL;
}
