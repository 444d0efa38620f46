/* bind.h - for the binders of exec/op_*.c: consume suffixes, check operands, get slots.
 *
 *   static bool bind_add(ptx_bind *b) {
 *       ptx_insn *i = b->insn;
 *       bool saturate = bind_take(b, "sat");
 *       i->type = bind_type(b);
 *       if (!bind_end(b) || !bind_operands(b, 3)) { return false; }
 *       i->d = bind_dest(b, 0, i->type);
 *       i->a = bind_source(b, 1, i->type);
 *       i->b = bind_source(b, 2, i->type);
 *       i->run = ...; (NULL: "not supported", said by the caller with the opcode and the line)
 *       return bind_ok(b);
 *   } */
#ifndef PTX_BIND_H
#define PTX_BIND_H

#include "ptx.h"

typedef struct ptx_bind {
    ptx_insn *insn;
    ptx_function *function;
    ptx_module *module;
    uint32_t next; /* suffix to be consumed */
    bool failed;
    struct ptx_parser *parser;
} ptx_bind;

/* Says what is wrong with this instruction (one line, without the place); returns false. */
bool bind_fail(ptx_bind *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool bind_ok(const ptx_bind *b);

bool bind_take(ptx_bind *b, const char *suffix); /* consume it if it is the next one */
/* Consume the next suffix if it is one of `names` (ends in NULL) and return its index; else -1. */
int bind_choice(ptx_bind *b, const char *const *names);
ptx_type bind_type(ptx_bind *b);    /* consume a type; PTX_NO_TYPE and failed if there is none */
ptx_type bind_type_if(ptx_bind *b); /* consume a type if there is one */
ptx_space
bind_space_if(ptx_bind *b); /* global, shared, shared::cta, shared::cluster, local, const, param; else PTX_GENERIC */
bool bind_end(ptx_bind *b); /* false and failed if a suffix is left over */
bool bind_operands(ptx_bind *b, uint32_t count);

/* Slots. `type` gives the width that the slot must have: a register of another width fails, unless it is wider and
 * bind_*_wide is used (ld, st, cvt: PTX ISA "Operand Size Exceeding Instruction-Type Size"). Immediates, special
 * registers and symbols get a constant slot. The reads and writes of the instruction are noted here. */
uint32_t bind_source(ptx_bind *b, uint32_t index, ptx_type type);
uint32_t bind_source_operand(ptx_bind *b, ptx_operand *operand, ptx_type type);
uint32_t bind_source_wide(ptx_bind *b, ptx_operand *operand, ptx_type type);
uint32_t bind_dest(ptx_bind *b, uint32_t index, ptx_type type);
uint32_t bind_dest_operand(ptx_bind *b, ptx_operand *operand, ptx_type type);
uint32_t bind_dest_wide(ptx_bind *b, ptx_operand *operand, ptx_type type);
/* A destination that is also read, as an accumulator is. */
uint32_t bind_inout_operand(ptx_bind *b, ptx_operand *operand, ptx_type type);
/* A destination that may be "_": slot of a scratch register then. */
uint32_t bind_dest_or_sink(ptx_bind *b, ptx_operand *operand, ptx_type type);
/* Predicate source: the slot; *negated says whether to invert. An immediate 0 or 1 is allowed. */
uint32_t bind_predicate(ptx_bind *b, ptx_operand *operand, bool *negated);
/* PTX_ADDRESS: the slot of its base, 64-bit lanes (a 32-bit register or a symbol of shared memory is allowed: *wide is
 * false then and the lanes are uint32_t); the constant offset is operand->offset. */
uint32_t bind_address(ptx_bind *b, ptx_operand *operand, bool *wide);
/* A constant that must be known now (immediates only). */
bool bind_constant(ptx_bind *b, ptx_operand *operand, int64_t *value);
/* Operand `index` must be {..} of `count` elements (count 1: the operand itself will do); NULL and failed if not. */
ptx_operand *bind_vector(ptx_bind *b, uint32_t index, uint32_t count);
/* Memory of the module, for insn->data. */
void *bind_alloc(ptx_bind *b, size_t size);

/* One family of instructions; each op_*.c defines one table, ends in {NULL, NULL}. exec/ops.c lists the tables. */
typedef struct ptx_op {
    const char *mnemonic;
    bool (*bind)(ptx_bind *b);
} ptx_op;
const ptx_op *ptx_op_find(const char *mnemonic);

/* op_bulk.c: cp.async.bulk and cp.reduce, which share a mnemonic with cp.async. "bulk" or "reduce" is next. */
bool bind_bulk(ptx_bind *b);

#endif
