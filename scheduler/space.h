/* space.h - what an operator iterates over and what it touches, declared once (space.c has a table of them), as
 * polyhedral compilers do: shapes, footprints of tiles, traffic, FLOPs, and whether work may be moved into or past a
 * loop are derived from it. (Feautrier, "Dataflow analysis of array and scalar references", 1991; the affine maps of
 * MLIR's linalg.)
 *
 * An operator is one or more statements; each runs at every point of its iteration dimensions. RMSNorm is
 *     s[i] += x[i, l]^2          i parallel, l reduction
 *     y[i, j] = x[i, j] s[i] w[j]   i, j parallel
 * An element that a statement reduces into is complete after the last point of its reduction dimensions. */
#ifndef HAL_SPACE_H
#define HAL_SPACE_H

#include "program.h"

enum { HAL_SPACE_DIMS = 6, HAL_SPACE_STATEMENTS = 4, HAL_SPACE_ACCESSES = 10, HAL_SPACE_RANK = 4 };

typedef enum hal_dim_kind { HAL_DIM_PARALLEL, HAL_DIM_REDUCTION } hal_dim_kind;

typedef struct hal_dim {
    const char *name;
    hal_dim_kind kind;
    uint64_t extent;
} hal_dim;

/* One index of an operand is a sum of dimensions, each times a constant, plus a constant. */
typedef struct hal_affine {
    int64_t times[HAL_SPACE_DIMS];
    int64_t plus;
} hal_affine;

typedef struct hal_space_access {
    int role;      /* hal_role; below 0: a temporary of the operator, -1, -2, ..., which needs no memory */
    bool write;    /* where dimensions of the statement do not index it, it is reduced into over them */
    uint32_t rank; /* 2: the tensor as a matrix; 1: its elements counted through */
    hal_affine index[HAL_SPACE_RANK];
} hal_space_access;

typedef struct hal_statement {
    uint32_t dims, accesses;
    uint8_t dim[HAL_SPACE_DIMS]; /* which dimensions of the space it has */
    double flops;                /* at a point: one for each operand more than the first, for a sum, and for a function
                                    (exp, an activation) */
    const char *what;            /* is reduced into: "the scale"; NULL: nothing is */
    hal_space_access access[HAL_SPACE_ACCESSES];
} hal_statement;

typedef struct hal_space {
    uint32_t dims, statements;
    hal_dim dim[HAL_SPACE_DIMS];
    hal_statement statement[HAL_SPACE_STATEMENTS];
} hal_space;

/* The space of a step with so many rows. Dimensions are in the order of the table: GEMM's are i (rows), j (columns of
 * the result) and k. */
void hal_space_of(const hal_program *program, const hal_step *step, uint64_t rows, hal_space *space);

/* Whether a dimension is in an index of the access; whether the statement reduces over it. */
bool hal_space_indexed(const hal_space_access *access, uint32_t dim);
bool hal_space_reduces(const hal_statement *statement, uint32_t dim);
/* Points of a dimension that a tile has: tile[dim], the whole dimension where that is 0 or more. tile may be NULL. */
uint64_t hal_space_tile(const hal_space *space, const uint64_t *tile, uint32_t dim);
/* Values that an index takes in a tile, as exactly as hal_space_footprint. */
uint64_t hal_space_values(const hal_space *space, const hal_affine *index, const uint64_t *tile);

double hal_space_flops(const hal_space *space);
/* Elements of an access that a tile of `tile[d]` points of each dimension touches; 0, and what is beyond the extent:
 * the whole dimension. Exact where no dimension is in two indices and the dimensions of an index nest (rows of a block)
 * or overlap without a gap (a sliding window); else an upper bound. */
uint64_t hal_space_footprint(const hal_space *space, const hal_space_access *access,
                             const uint64_t tile[HAL_SPACE_DIMS]);
/* Bytes that a step moves if each tensor is read or written once, as far as it is touched: of a table, the rows that
 * are looked up. */
uint64_t hal_space_bytes(const hal_program *program, const hal_step *step, uint64_t rows);
/* The same, of the step's space. */
uint64_t hal_space_step_bytes(const hal_space *space, const hal_program *program, const hal_step *step, uint64_t rows);
/* How a kernel goes over a space. 0 in a tile: the whole dimension. */
typedef struct hal_walk {
    uint64_t tile[HAL_SPACE_DIMS]; /* of a statement that reduces: what is loaded once and used for all of it */
    uint64_t lane[HAL_SPACE_DIMS]; /* of one that does not: the same, often of a single work-item */
    uint64_t tile_rows, lane_rows; /* i is taken in as many, those beyond the last one load that again; 0: as it is */
    uint64_t block;                /* attention: keys come in blocks of as many; 0: one by one */
    uint64_t passes;               /* of a statement that reduces over what its tile does not have whole; 0: one */
    bool joined; /* attention: i counts rows, which are queries times the heads that share one of keys */
    bool ahead;  /* attention: Q comes before it is known how many keys a causal mask leaves */
    bool apart; /* a statement keeps nothing for the next: what two of them load comes twice, and what is not indexed by
                   a later reduction (attention's Q, by keys) comes again for each tile of it */
} hal_walk;

typedef struct hal_traffic {
    uint64_t read, written;
} hal_traffic;

/* Bytes that a kernel's work-items load and store. An operand of two statements (RMSNorm's x) is loaded by each, unless
 * the tile holds all of it that they share. Of causal attention each tile of rows loads the keys that its last row
 * sees. Exact for the kernels of tests/scheduler/test_model_bytes.c. */
hal_traffic hal_space_traffic(const hal_program *program, const hal_step *step, uint64_t rows, const hal_walk *walk);
/* The same in all, with one tile for every statement: GEMM's 2MK ceil(N/n) + 2KN ceil(M/m) + 2MN; attention's K and V
 * once a tile of queries. */
uint64_t hal_space_tiled_bytes(const hal_program *program, const hal_step *step, uint64_t rows,
                               const uint64_t tile[HAL_SPACE_DIMS]);

/* Whether `consumer` may do its work where `producer` has a tile of the tensors that join them at hand, without these
 * in memory. It is a matter of dependences only, not of gain. Illegal: `reason` says in words why ("the sum over k is
 * not complete inside its loop: a tile has 32 of 4096", "the scale needs the whole row: a tile has 128 of 12288
 * columns"). tile: of the producer; 0 in it: the whole dimension; NULL: all whole. */
bool hal_space_may_fuse(const hal_program *program, const hal_step *producer, const hal_step *consumer, uint64_t rows,
                        const uint64_t tile[HAL_SPACE_DIMS], char *reason, size_t reason_size);

#endif
