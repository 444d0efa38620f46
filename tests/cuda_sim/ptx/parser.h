/* parser.h - what lex.c, parse.c, variable.c, module.c and bind.c share.
 *
 * A fault anywhere below ptx_module_load() leaves by longjmp: all memory is the arena's or the parser's, so that
 * nothing is lost, and the grammar's code needs no error paths. */
#ifndef PTX_PARSER_H
#define PTX_PARSER_H

#include "bind.h"
#include <setjmp.h>

/* Hostile text is refused by these; nothing that nvcc writes comes near. */
enum {
    PTX_MAX_TEXT = 256 << 20,
    PTX_MAX_NAME = 4096,
    PTX_MAX_DEPTH = 64,
    PTX_MAX_OPERANDS = 16,
    PTX_MAX_ELEMENTS = 256,
    PTX_MAX_RANGE = 1 << 24,
    PTX_MAX_DIMENSIONS = 8,
    PTX_MAX_DATA = 64 << 20,
    PTX_MAX_STATIC_SHARED = 48 << 10, /* ptxas: "uses too much shared data" beyond */
    PTX_MAX_LOCAL = 512 << 10,
    PTX_MAX_PARAMS = 32764, /* PTX ISA "Kernel Function Parameters" */
    PTX_MAX_FILE = 64 << 20,
    PTX_MAX_NOTES = 512
};

typedef enum ptx_token_kind {
    PTX_TOKEN_END,
    PTX_TOKEN_NAME,    /* ld, %r1, $L__BB0_1, _ */
    PTX_TOKEN_DOT,     /* .shared::cluster, text without the dot */
    PTX_TOKEN_INTEGER, /* bits: the value */
    PTX_TOKEN_FLOAT,   /* bits: of a double */
    PTX_TOKEN_STRING,  /* text without the quotes */
    PTX_TOKEN_CHAR     /* one of { } ( ) [ ] < > , ; : = + - | ! @ */
} ptx_token_kind;

typedef struct ptx_token {
    ptx_token_kind kind;
    char symbol; /* PTX_TOKEN_CHAR, else 0 */
    uint32_t line;
    const char *text;
    size_t size;
    uint64_t bits;
    bool is_single; /* a float written as 0f */
} ptx_token;

typedef enum ptx_declared {
    PTX_DECLARED_REGISTER,
    PTX_DECLARED_RANGE,
    PTX_DECLARED_SYMBOL,
    PTX_DECLARED_LABEL,
    PTX_DECLARED_TARGETS, /* .branchtargets */
    PTX_DECLARED_ENTRY
} ptx_declared;

/* What a name stands for in one scope. */
typedef struct ptx_declaration {
    ptx_declared kind;
    uint32_t depth;
    struct ptx_name *name;
    struct ptx_declaration *outer;   /* that it hides */
    struct ptx_declaration *sibling; /* in its scope */
    ptx_type type;                   /* registers */
    uint32_t lanes;                  /* registers: 1, or 2 or 4 of a vector */
    uint32_t count;                  /* PTX_DECLARED_RANGE */
    uint32_t slot[4], reg[4];        /* of registers in use; reg 0: not yet */
    ptx_symbol *symbol;
    uint32_t target;      /* PTX_DECLARED_LABEL */
    ptx_operand *targets; /* PTX_DECLARED_TARGETS: a vector of labels */
} ptx_declaration;

/* Every different name is kept once; what it means now is found here, without a search per scope. */
typedef struct ptx_name {
    struct ptx_name *next; /* in its bucket */
    uint32_t hash;
    bool op_known;
    const ptx_op *op;                         /* as a mnemonic */
    struct ptx_declaration *declared, *range; /* innermost; range: of name<count> */
    char text[];
} ptx_name;

/* An operand that names a label, resolved when a scope that declares it ends. */
typedef struct ptx_label_use {
    struct ptx_label_use *next;
    ptx_operand *operand;
    ptx_name *name;
    uint32_t line;
} ptx_label_use;

typedef struct ptx_scope {
    ptx_declaration *first;
    ptx_label_use *uses;
} ptx_scope;

/* A variable as its text says, not yet placed. */
typedef struct ptx_shape {
    ptx_type type;
    uint32_t align, lanes, dimensions;
    uint64_t extent[PTX_MAX_DIMENSIONS]; /* 0: [] */
    uint64_t elements;                   /* of the lanes' type; 0: an open array */
} ptx_shape;

typedef struct ptx_initial {
    struct ptx_initial *next;
    uint64_t offset; /* in the module's data */
    uint32_t size;
    uint64_t bits;            /* or the symbol's address plus them */
    const ptx_symbol *symbol; /* NULL: a number */
} ptx_initial;

typedef struct ptx_constant {
    struct ptx_constant *next;
    uint64_t bits;
    uint32_t slot, lane_bytes; /* 4, 8; 0: a predicate */
} ptx_constant;

typedef struct ptx_parser {
    ptx_module *module;
    jmp_buf escape;
    char *error;
    size_t error_size;
    /* lex.c */
    const char *at, *end;
    uint32_t line;
    ptx_token token; /* the next one */
    ptx_name **bucket;
    size_t bucket_count, name_count;
    /* scope.c */
    ptx_scope scope[PTX_MAX_DEPTH];
    uint32_t depth; /* of the innermost: 0 is the module's */
    /* parse.c */
    ptx_function *function;
    ptx_insn *insn;
    uint32_t insn_count, insn_room;
    const char **register_name;
    uint32_t register_room;
    uint32_t predicate_slot, predicates_left;
    const char *opcode; /* for errors */
    /* module.c */
    bool versioned, targeted;
    uint32_t module_shared;
    ptx_initial *initials, **last_initial;
    ptx_function **last_function;
    /* bind.c */
    ptx_constant *constants[256];
    uint32_t reads[PTX_MAX_NOTES], writes[PTX_MAX_NOTES];
    char complaint[512];
} ptx_parser;

/* Leaves ptx_module_load(). `line` 0: the next token's. */
_Noreturn void ptx_fail(ptx_parser *p, uint32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* lex.c */
void ptx_next(ptx_parser *p);
bool ptx_is(const ptx_parser *p, char symbol);
bool ptx_accept(ptx_parser *p, char symbol);
void ptx_expect(ptx_parser *p, char symbol);
bool ptx_is_dot(const ptx_parser *p, const char *text);
bool ptx_accept_dot(ptx_parser *p, const char *text);
ptx_name *ptx_intern(ptx_parser *p, const char *text, size_t size);
ptx_name *ptx_known_name(const ptx_parser *p, const char *text, size_t size); /* NULL: nobody wrote it yet */
ptx_name *ptx_take_name(ptx_parser *p);
uint64_t ptx_take_integer(ptx_parser *p, uint64_t least, uint64_t most);
/* [-] number, as an immediate operand. */
void ptx_take_number(ptx_parser *p, ptx_operand *number);
uint32_t ptx_narrow_bits(uint64_t bits); /* of a double -> of a float; undoes the widening of 0f constants */
const char *ptx_token_text(const ptx_token *token, char buffer[80]); /* for errors */

/* scope.c */
void ptx_open_scope(ptx_parser *p);
void ptx_close_scope(ptx_parser *p);
ptx_declaration *ptx_declare(ptx_parser *p, ptx_name *name, ptx_declared kind);
ptx_declaration *ptx_look_up(ptx_parser *p, ptx_name *name); /* NULL: nothing declares it */

/* parse.c */
void ptx_parse_body(ptx_parser *p); /* from behind the opening brace through the closing one */
uint32_t ptx_take_slot(ptx_parser *p, uint32_t lane_bytes);

/* module.c */
ptx_type ptx_type_of(const char *text, size_t size);
bool ptx_parse_debug(ptx_parser *p); /* .loc, .file, .section, .pragma: true if there was one */

/* variable.c */
bool ptx_is_variable(const ptx_parser *p);
void ptx_parse_variable(ptx_parser *p, bool external);
uint32_t ptx_parse_align(ptx_parser *p);
void ptx_parse_shape(ptx_parser *p, ptx_shape *shape); /* [.align n] [.v2|.v4] .type */
void ptx_parse_dimensions(ptx_parser *p, ptx_shape *shape);
ptx_symbol *ptx_add_symbol(ptx_parser *p, ptx_name *name, ptx_space space, const ptx_shape *shape);
/* Its place in its space; `end` counts the bytes of the space. */
void ptx_place(ptx_parser *p, ptx_symbol *symbol, uint32_t *end, uint64_t most);

/* bind.c */
void ptx_bind_function(ptx_parser *p, ptx_function *function);

static inline uint64_t ptx_align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

#endif
