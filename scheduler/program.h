/* program.h - what a graph is made of, and what fusion turns into what a plan runs: steps over tensors. A graph's
 * program has one step an operator; fusion merges steps. Steps are in an order in which they can run. */
#ifndef HAL_PROGRAM_H
#define HAL_PROGRAM_H

#include <hal/graph.h>

typedef enum hal_tensor_kind {
    HAL_TENSOR_INPUT,
    HAL_TENSOR_CONSTANT,
    HAL_TENSOR_STEP, /* a step's result */
    HAL_TENSOR_FUSED /* a result that fusion made disappear: no step writes it any more */
} hal_tensor_kind;

typedef struct hal_tensor_info {
    char *name; /* "%12" for unnamed ones; owned by the program */
    hal_tensor_kind kind;
    hal_dtype dtype;       /* HAL_DTYPE_DEFAULT: indices */
    uint32_t element_size; /* bytes */
    hal_dims dims;
    hal_span constant;    /* HAL_TENSOR_CONSTANT; the program holds the buffer */
    uint32_t slot;        /* HAL_TENSOR_INPUT: which one */
    bool output;          /* a result that the caller binds, at ... */
    uint32_t output_slot; /* ... which output */
} hal_tensor_info;

typedef enum hal_step_op {
    HAL_STEP_GEMM,
    HAL_STEP_ACTIVATION,
    HAL_STEP_BINARY,
    HAL_STEP_RMSNORM,
    HAL_STEP_SOFTMAX,
    HAL_STEP_CAST,
    HAL_STEP_QUANTIZE,
    HAL_STEP_DEQUANTIZE,
    HAL_STEP_TRANSPOSE,
    HAL_STEP_ROPE,
    HAL_STEP_GATHER,
    HAL_STEP_ATTENTION,
    HAL_STEP_OPS
} hal_step_op;

/* What a step does with a tensor. Not every operator has each. */
typedef enum hal_role {
    HAL_ROLE_X,        /* gemm's A, attention's Q, gather's table, dequantise's codes */
    HAL_ROLE_B,        /* gemm's B (gate's, with B_UP), binary's b, attention's K, gather's ids */
    HAL_ROLE_B_UP,     /* gemm: SwiGLU's other matrix */
    HAL_ROLE_V,        /* attention */
    HAL_ROLE_WEIGHT,   /* rmsnorm */
    HAL_ROLE_BIAS,     /* gemm */
    HAL_ROLE_RESIDUAL, /* gemm, rmsnorm */
    HAL_ROLE_SCALE_A,  /* gemm; quantise and dequantise: scales that are read */
    HAL_ROLE_SCALE_B,  /* gemm */
    HAL_ROLE_SCALE_D,  /* gemm to E4M3: scales that are read */
    HAL_ROLE_MASK,     /* softmax, attention */
    HAL_ROLE_COS,
    HAL_ROLE_SIN,
    HAL_ROLE_POSITIONS,  /* rope */
    HAL_ROLE_KV_LENGTHS, /* attention */
    HAL_ROLE_FIRST_OUTPUT,
    HAL_ROLE_Y = HAL_ROLE_FIRST_OUTPUT, /* the result */
    HAL_ROLE_SUM,                       /* rmsnorm with a residual: x + residual */
    HAL_ROLE_SCALES, /* quantise; rmsnorm, activation and binary to E4M3: each row's scale, written */
    HAL_ROLES
} hal_role;
static inline bool hal_role_written(uint32_t role)
{
    return role >= HAL_ROLE_FIRST_OUTPUT;
}

typedef struct hal_step {
    hal_step_op op;
    uint32_t tensors[HAL_ROLES]; /* ids by role; 0: none */
    hal_act act;                 /* activation; gemm: fused */
    hal_binary_op binary;
    bool trans_b, log;
    float alpha; /* gemm, activation, SwiGLU; 0 counts as 1 */
    float eps, scale, softcap;
    hal_dtype round_between; /* what fusion has to keep rounding to; HAL_DTYPE_DEFAULT: FP32 */
    hal_causal causal;
    uint32_t heads, kv_heads; /* rope, attention */
    uint32_t perm[HAL_MAX_RANK];
    uint32_t fused; /* operators of the graph that it stands for; 1: one */
} hal_step;

struct gemm_phases; /* gemm.h */

typedef struct hal_program {
    char *label;
    hal_tensor_info *tensors; /* by id; [0] is none */
    uint32_t tensor_count, tensor_capacity;
    hal_step *steps;
    uint32_t step_count, step_capacity;
    uint32_t inputs, outputs; /* slots of each */
} hal_program;

/* program.c. A zeroed program is empty. Growth fails with HAL_ERROR_OUT_OF_MEMORY and leaves it as it was. */
hal_status hal_program_add_tensor(hal_program *program, const hal_tensor_info *info, const char *name, uint32_t *id);
hal_status hal_program_add_step(hal_program *program, const hal_step *step);
hal_status hal_program_copy(const hal_program *from, hal_program *to); /* constants' buffers are held once more */
void hal_program_clear(hal_program *program);
void hal_program_remove_step(hal_program *program, uint32_t index);

/* The step that writes a tensor, or UINT32_MAX; how many steps read it. */
uint32_t hal_program_writer(const hal_program *program, uint32_t tensor);
uint32_t hal_program_readers(const hal_program *program, uint32_t tensor);

/* A tensor as the matrix that operators see, with HAL_ROWS replaced (by at most 2^31 - 1, so that no size overflows).
 * Rows: the product of all dimensions but the last. HAL_ROWS alone is a column: so many rows of one element. */
uint64_t hal_tensor_rows(const hal_tensor_info *tensor, uint64_t rows);
uint64_t hal_tensor_columns(const hal_tensor_info *tensor);
uint64_t hal_tensor_bytes(const hal_tensor_info *tensor, uint64_t rows);

/* In words. With a buffer: they return it, filled in. */
enum { HAL_DIMS_TEXT = 96, HAL_STEP_NAME = 64 };
const char *hal_dims_text(const hal_dims *dims, char text[HAL_DIMS_TEXT]); /* "[rows, 4096]" */
const char *hal_step_name(const hal_step *step, char name[HAL_STEP_NAME]); /* "gemm+silu+residual" */
const char *hal_role_name(hal_role role);                                  /* "x", "scale_a" */
const char *hal_tensor_dtype_name(const hal_tensor_info *tensor);          /* "bf16"; indices: "i32", "i64" */

/* step.c: a step as the operator that does it. spans by tensor id, NULL: slots, one a role; workspace may be none. */
hal_status hal_step_record(hal_cmdlist *list, const hal_program *program, const hal_step *step, uint64_t rows,
                           hal_mode mode, const hal_span *spans, hal_span workspace);
/* Scratch that makes it fastest on the device: 0 where it needs none. */
hal_status hal_step_workspace(hal_device *device, const hal_program *program, const hal_step *step, uint64_t rows,
                              hal_mode mode, uint64_t *size);
/* How hal_gemm does a GEMM with that scratch; no bytes: any other step, and where it is one kernel. */
void hal_step_phases(const hal_device_info *info, const hal_program *program, const hal_step *step, uint64_t rows,
                     hal_mode mode, struct gemm_phases *phases);
/* Compile its kernels. */
hal_status hal_step_prepare(hal_device *device, const hal_program *program, const hal_step *step, uint64_t rows,
                            hal_mode mode);

/* The program that a graph holds. */
const hal_program *hal_graph_program(const hal_graph *graph);
/* hal_graph_status for the call `op`, which the message names. */
hal_status hal_graph_usable(const hal_graph *graph, const char *op);
/* A name or label in a line of text: control characters, which would break it, become spaces. */
void hal_program_text(FILE *out, const char *text);
hal_status hal_program_dump(const hal_program *program, hal_graph_format format, FILE *out);

#endif
