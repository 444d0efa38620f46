/* ptx.h - a PTX module as the interpreter holds it.
 *
 * The parser (lex.c, parse.c, module.c) knows the grammar but no instruction: it splits "cvt.rn.bf16x2.f32 %r1, %f1,
 * %f2" into a mnemonic, suffixes and operands. A binder of exec/op_*.c, found by the mnemonic, then consumes every
 * suffix (bind.h), checks the operands and sets the handler. What no binder takes is an error with its line: nothing is
 * skipped.
 *
 * Facts: "PTX ISA", NVIDIA; section names are given where something follows from one. */
#ifndef PTX_H
#define PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_LANES = 32 };

typedef enum ptx_type {
    PTX_NO_TYPE,
    PTX_PRED,
    PTX_B8,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_B128,
    PTX_U8,
    PTX_U16,
    PTX_U32,
    PTX_U64,
    PTX_S8,
    PTX_S16,
    PTX_S32,
    PTX_S64,
    PTX_F16,
    PTX_BF16,
    PTX_TF32,
    PTX_F32,
    PTX_F64,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_E4M3,
    PTX_E5M2,
    PTX_E4M3X2,
    PTX_E5M2X2,
    PTX_TYPE_COUNT
} ptx_type;

/* Bytes of one element; 0 for PTX_PRED and PTX_NO_TYPE. */
uint32_t ptx_type_size(ptx_type type);
bool ptx_type_is_signed(ptx_type type); /* S8..S64 */
bool ptx_type_is_float(ptx_type type);
const char *ptx_type_name(ptx_type type); /* "bf16x2" */

typedef enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_LOCAL, PTX_CONST, PTX_PARAM } ptx_space;

/* A variable of a module (.global, .const), of a function (.shared, .local), or a parameter. */
typedef struct ptx_symbol {
    const char *name;
    ptx_space space;
    ptx_type type;
    uint32_t align;
    uint64_t size;   /* bytes; 0: an extern .shared array, the dynamic shared memory */
    uint64_t offset; /* in its space: parameters, shared (not the dynamic: it begins at the function's shared_bytes,
                        aligned to its dynamic_align), local; .global and .const: in ptx_module.data */
    struct ptx_symbol *next; /* of the module's own */
} ptx_symbol;

/* Special registers (PTX ISA "Special Registers"). x, y, z follow each other. */
typedef enum ptx_special {
    PTX_TID_X,
    PTX_TID_Y,
    PTX_TID_Z,
    PTX_NTID_X,
    PTX_NTID_Y,
    PTX_NTID_Z,
    PTX_CTAID_X,
    PTX_CTAID_Y,
    PTX_CTAID_Z,
    PTX_NCTAID_X,
    PTX_NCTAID_Y,
    PTX_NCTAID_Z,
    PTX_CLUSTERID_X,
    PTX_CLUSTERID_Y,
    PTX_CLUSTERID_Z,
    PTX_NCLUSTERID_X,
    PTX_NCLUSTERID_Y,
    PTX_NCLUSTERID_Z,
    PTX_CLUSTER_CTAID_X,
    PTX_CLUSTER_CTAID_Y,
    PTX_CLUSTER_CTAID_Z,
    PTX_CLUSTER_NCTAID_X,
    PTX_CLUSTER_NCTAID_Y,
    PTX_CLUSTER_NCTAID_Z,
    PTX_CLUSTER_CTARANK,
    PTX_CLUSTER_NCTARANK,
    PTX_IS_EXPLICIT_CLUSTER,
    PTX_LANEID,
    PTX_WARPID,
    PTX_NWARPID,
    PTX_SMID,
    PTX_NSMID,
    PTX_GRIDID,
    PTX_LANEMASK_EQ,
    PTX_LANEMASK_LE,
    PTX_LANEMASK_LT,
    PTX_LANEMASK_GE,
    PTX_LANEMASK_GT,
    PTX_DYNAMIC_SMEM_SIZE,
    PTX_TOTAL_SMEM_SIZE,
    PTX_CLOCK,
    PTX_CLOCK_HI,
    PTX_CLOCK64,
    PTX_GLOBALTIMER,
    PTX_GLOBALTIMER_LO,
    PTX_GLOBALTIMER_HI, /* move with time */
    PTX_SPECIAL_COUNT
} ptx_special;

typedef enum ptx_operand_kind {
    PTX_REGISTER, /* %r1, !%p1, -%r1 is not an operand */
    PTX_IMMEDIATE,
    PTX_SPECIAL_REGISTER,
    PTX_SYMBOL,  /* name or name+4: its address */
    PTX_ADDRESS, /* [%rd1+8], [name+8], [64]; with coordinates: [%rd1, {%r1, %r2}] and, for im2col or gather, a third
                    part */
    PTX_VECTOR,  /* {a, b}; the name of .branchtargets: a vector of labels */
    PTX_PAIR,    /* %r1|%p1: element[0] and element[1] */
    PTX_LABEL,
    PTX_SINK, /* _ */
} ptx_operand_kind;

/* A value of a warp lies in its register file: at byte `slot`, 32 lanes of uint32_t (types up to 32 bits: the bits
 * above the type's are 0) or of uint64_t; a predicate is one uint32_t, lane l in bit l. Immediates, symbol addresses
 * and special registers get a slot too when a binder asks for one, so that a handler sees nothing but slots. */
typedef struct ptx_operand {
    ptx_operand_kind kind;
    bool negated;   /* !%p1 */
    ptx_type type;  /* PTX_REGISTER: as declared */
    uint32_t slot;  /* PTX_REGISTER from the parser on; others after bind_source() or bind_address() */
    uint32_t reg;   /* number for sim_warp.defined; 0: always defined */
    bool is_float;  /* PTX_IMMEDIATE: written as a floating-point constant */
    bool is_single; /* and as 0f */
    uint64_t bits;  /* PTX_IMMEDIATE: integer, or the bits of a double (0f and decimal constants widened to double) */
    ptx_special special;
    const ptx_symbol *symbol; /* PTX_SYMBOL, PTX_ADDRESS with a name as its base; else NULL */
    int64_t offset;           /* PTX_SYMBOL, PTX_ADDRESS */
    uint32_t target;          /* PTX_LABEL: index of an instruction */
    uint32_t count;           /* PTX_VECTOR, PTX_PAIR: elements. PTX_ADDRESS: vectors of coordinates behind the base */
    struct ptx_operand *element;
    struct ptx_operand *base; /* PTX_ADDRESS: a register or an immediate; NULL where symbol is the base */
} ptx_operand;

struct sim_warp;
struct ptx_insn;
typedef enum sim_next {
    SIM_NEXT,  /* go on behind this instruction */
    SIM_MOVED, /* the handler has set the lanes' pc (branches, exit) */
    SIM_WAIT,  /* not possible yet: the same instruction again, when something has happened */
    SIM_YIELD, /* go on behind it, but let others run first (a failed poll, nanosleep) */
    SIM_FAULT  /* sim_fault() was called: the launch ends */
} sim_next;
/* `mask`: the lanes that execute it, guard applied; never 0. */
typedef sim_next (*sim_handler)(struct sim_warp *warp, const struct ptx_insn *insn, uint32_t mask);

enum { PTX_MAX_SUFFIXES = 16, PTX_NO_GUARD = 0xffffffffu };

typedef struct ptx_insn {
    sim_handler run;
    uint32_t guard; /* slot of the guard predicate, or PTX_NO_GUARD */
    uint32_t guard_reg;
    bool guard_negated;
    uint32_t line;
    const char *text;     /* the full opcode, "ld.global.v4.f32" */
    const char *mnemonic; /* "ld" */
    uint32_t suffix_count;
    const char *suffix[PTX_MAX_SUFFIXES]; /* "global", "v4", "f32"; "shared::cluster" is one */
    uint32_t operand_count;
    ptx_operand *operand;
    /* For the binder and its handler: */
    uint32_t d, a, b, c; /* slots, see bind.h */
    uint8_t type, source_type, space, width, count, kind, flag, extra;
    uint32_t value;
    bool any_block; /* .shared::cluster is one of the suffixes: shared addresses may be those of other blocks */
    void *data;     /* in the module's arena */
    /* Filled by bind.h: registers that are read and written, for the check of undefined registers. */
    uint32_t read_count, write_count;
    uint32_t *reads, *writes;
} ptx_insn;

typedef struct ptx_special_use {
    ptx_special special;
    uint32_t slot;
} ptx_special_use;

typedef struct ptx_function {
    const char *name;
    bool is_entry;
    struct ptx_module *module;
    uint32_t param_count;
    ptx_symbol **param;
    uint32_t param_bytes;
    uint32_t shared_bytes;  /* static, from offset 0 on (sim.h adds SIM_SHARED_BASE) */
    uint32_t dynamic_align; /* of the extern arrays, which begin behind the static part */
    uint32_t local_bytes;
    uint32_t max_threads[3], required_threads[3]; /* .maxntid, .reqntid; 0: not given */
    uint32_t min_blocks, max_registers;           /* .minnctapersm, .maxnreg; 0: not given */
    uint32_t cluster[3];                          /* .reqnctapercluster or .explicitcluster; 0: not given */
    uint32_t insn_count;
    ptx_insn *insn;
    const char **register_name;                      /* by number; [0] is NULL */
    uint32_t register_count;                         /* with number 0, which stands for all that is always defined */
    uint32_t registers_32, registers_64, predicates; /* declared and used, for reports */
    uint32_t file_bytes;     /* register file of a warp: registers, then constants and special registers */
    uint32_t constant_start; /* byte of the file where constant_bytes are copied to */
    uint32_t constant_bytes;
    uint8_t *constants;
    uint32_t special_count;
    ptx_special_use *special;
    struct ptx_function *next;
} ptx_function;

typedef struct ptx_module {
    uint32_t version;   /* 70 for 7.0 */
    uint32_t target;    /* 80 for sm_80 */
    bool arch_specific; /* sm_90a */
    ptx_function *functions;
    ptx_symbol *symbols; /* declared outside of functions */
    uint8_t *data; /* .global and .const variables, initialised; 256-byte aligned; its address is the variables' base */
    uint64_t data_size;
    struct ptx_arena *arena;
} ptx_module;

/* Parse and bind `text` (`size` bytes, need not end in NUL; hostile input is refused, not trusted). NULL: `error` (one
 * line, "line 12: ...") says why. */
ptx_module *ptx_module_load(const char *text, size_t size, char *error, size_t error_size);
void ptx_module_free(ptx_module *module);
/* Where dynamic shared memory begins: aligned as far as declared, or by 16 bytes, and never further by chance, so that
 * a kernel that relies on more is found. */
uint32_t ptx_dynamic_offset(const ptx_function *function);
/* The most threads of a block by .reqntid or .maxntid, at most 1024, which no GPU goes beyond; 0: neither is given. */
uint32_t ptx_max_threads(const ptx_function *function);
const ptx_function *ptx_module_entry(const ptx_module *module, const char *name); /* NULL: none of that name */

/* A .global or .const variable of the module, its bytes at module->data + offset; NULL: none of that name. */
const ptx_symbol *ptx_module_symbol(const ptx_module *module, const char *name);

/* Memory that lives as long as the module; zeroed. NULL never: it fails the load. */
void *ptx_alloc(ptx_module *module, size_t size);

#endif
