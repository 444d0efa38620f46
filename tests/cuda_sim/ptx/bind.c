/* bind.c - the binders' tools (bind.h): suffixes, type checks, slots; and the walk that calls the binders. */
#include "../exec/sim.h"
#include "parser.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool bind_fail(ptx_bind *b, const char *format, ...)
{
    if (!b->failed) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(b->parser->complaint, sizeof b->parser->complaint, format, arguments);
        va_end(arguments);
    }
    b->failed = true;
    return false;
}

bool bind_ok(const ptx_bind *b)
{
    return !b->failed;
}

void *bind_alloc(ptx_bind *b, size_t size)
{
    return ptx_alloc(b->module, size);
}

/* --- suffixes --- */

static const char *next_suffix(const ptx_bind *b)
{
    return b->next < b->insn->suffix_count ? b->insn->suffix[b->next] : NULL;
}

bool bind_take(ptx_bind *b, const char *suffix)
{
    const char *next = next_suffix(b);
    if (!next || strcmp(next, suffix) != 0) {
        return false;
    }
    b->next++;
    return true;
}

int bind_choice(ptx_bind *b, const char *const *names)
{
    for (int i = 0; names[i]; i++) {
        if (bind_take(b, names[i])) {
            return i;
        }
    }
    return -1;
}

ptx_type bind_type_if(ptx_bind *b)
{
    const char *next = next_suffix(b);
    ptx_type type = next ? ptx_type_of(next, strlen(next)) : PTX_NO_TYPE;
    b->next += type != PTX_NO_TYPE;
    return type;
}

ptx_type bind_type(ptx_bind *b)
{
    ptx_type type = bind_type_if(b);
    if (type == PTX_NO_TYPE) {
        const char *next = next_suffix(b);
        bind_fail(b, next ? "a type expected, not .%.64s" : "a type is missing", next);
    }
    return type;
}

ptx_space bind_space_if(ptx_bind *b)
{
    static const char *const names[] = {"global", "shared",       "shared::cta", "shared::cluster", "local", "const",
                                        "param",  "param::entry", NULL};
    static const ptx_space spaces[] = {PTX_GLOBAL, PTX_SHARED, PTX_SHARED, PTX_SHARED,
                                       PTX_LOCAL,  PTX_CONST,  PTX_PARAM,  PTX_PARAM};
    int choice = bind_choice(b, names);
    return choice < 0 ? PTX_GENERIC : spaces[choice];
}

bool bind_end(ptx_bind *b)
{
    const char *next = next_suffix(b);
    return next ? bind_fail(b, ".%.64s is not supported", next) : true;
}

bool bind_operands(ptx_bind *b, uint32_t count)
{
    uint32_t given = b->insn->operand_count;
    return given == count ? true : bind_fail(b, "%u operands expected, not %u", count, given);
}

static ptx_operand *operand_at(ptx_bind *b, uint32_t index)
{
    if (index < b->insn->operand_count) {
        return &b->insn->operand[index];
    }
    bind_fail(b, "operand %u is missing", index + 1);
    return NULL;
}

/* --- slots of constants --- */

static uint32_t lane_bytes(ptx_type type)
{
    return type == PTX_PRED ? 0 : ptx_type_size(type) > 4 ? 8 : 4;
}

static uint32_t constant_slot(ptx_bind *b, uint64_t bits, uint32_t lane_bytes)
{
    ptx_parser *p = b->parser;
    uint64_t hash = (bits + lane_bytes) * UINT64_C(0x9e3779b97f4a7c15);
    ptx_constant **bucket = &p->constants[hash >> 56];
    for (const ptx_constant *c = *bucket; c; c = c->next) {
        if (c->bits == bits && c->lane_bytes == lane_bytes) {
            return c->slot;
        }
    }
    ptx_constant *c = bind_alloc(b, sizeof *c);
    *c = (ptx_constant){.next = *bucket, .bits = bits, .lane_bytes = lane_bytes};
    c->slot = ptx_take_slot(p, lane_bytes);
    *bucket = c;
    return c->slot;
}

/* Bits of an immediate as a value of `type` (PTX ISA "Constants"): integers are cut to the type's width, floats fit
 * float types, and bit types of their own width: 0f for .b32, 0d and decimals for .b64. */
static uint64_t immediate_bits(ptx_bind *b, const ptx_operand *operand, ptx_type type)
{
    uint32_t size = ptx_type_size(type);
    if (type == PTX_PRED) {
        if (operand->is_float) { /* an integer is true unless it is 0 (PTX ISA "Predicate Constants") */
            bind_fail(b, "a predicate cannot be a floating-point constant");
        }
        return operand->bits ? UINT32_MAX : 0;
    }
    if (operand->is_float) {
        bool single = type == PTX_F32 || (type == PTX_B32 && operand->is_single);
        if (!single && type != PTX_F64 && !(type == PTX_B64 && !operand->is_single)) {
            bind_fail(b, "a floating-point constant cannot be a %s", ptx_type_name(type));
        }
        return single ? ptx_narrow_bits(operand->bits) : operand->bits;
    }
    if (ptx_type_is_float(type)) {
        bind_fail(b, "an integer constant cannot be a %s", ptx_type_name(type));
    }
    return size < 8 ? operand->bits & ((UINT64_C(1) << 8 * size) - 1) : operand->bits;
}

/* Address of a variable in its space, as sim.h lays the spaces out. */
static uint64_t symbol_address(const ptx_bind *b, const ptx_symbol *symbol)
{
    switch (symbol->space) {
    case PTX_GLOBAL:
    case PTX_CONST:
        return (uint64_t)(uintptr_t)b->module->data + symbol->offset;
    case PTX_SHARED:
        if (symbol->size == 0) {
            return SIM_SHARED_BASE + ptx_dynamic_offset(b->function);
        }
        return SIM_SHARED_BASE + symbol->offset;
    default:
        return symbol->offset;
    }
}

static bool is_instruction(const ptx_bind *b, const char *mnemonic)
{
    return strcmp(b->insn->mnemonic, mnemonic) == 0;
}

static uint32_t symbol_slot(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    const ptx_symbol *symbol = operand->symbol;
    uint32_t size = ptx_type_size(type);
    bool wide_only = symbol->space == PTX_GLOBAL || symbol->space == PTX_CONST;
    if (!is_instruction(b, "mov") && !is_instruction(b, "cvta")) {
        bind_fail(b, "a variable's address is taken with mov or cvta");
    }
    if (ptx_type_is_float(type) || (size != 8 && (size != 4 || wide_only))) {
        bind_fail(b, "the address of \"%.64s\" is no %s", symbol->name, ptx_type_name(type));
    }
    uint64_t address = symbol_address(b, symbol) + (uint64_t)operand->offset;
    return constant_slot(b, size == 8 ? address : (uint32_t)address, lane_bytes(type));
}

/* --- registers --- */

static void note(ptx_bind *b, uint32_t *list, uint32_t *count, uint32_t reg)
{
    if (reg == 0) {
        return;
    }
    if (*count == PTX_MAX_NOTES) {
        bind_fail(b, "too many registers");
        return;
    }
    list[(*count)++] = reg;
}

static void note_read(ptx_bind *b, uint32_t reg)
{
    note(b, b->parser->reads, &b->insn->read_count, reg);
}

static void note_write(ptx_bind *b, uint32_t reg)
{
    note(b, b->parser->writes, &b->insn->write_count, reg);
}

static bool is_bits(ptx_type type)
{
    return type >= PTX_B8 && type <= PTX_B128;
}

/* PTX ISA "Type Information for Instructions and Operands" and, for `wide`, "Operand Size Exceeding Instruction-Type
 * Size": bit types go with anything, integers with integers, a float type only with itself. */
static bool agrees(ptx_type declared, ptx_type type, bool wide)
{
    uint32_t given = ptx_type_size(declared), size = ptx_type_size(type);
    if (declared == PTX_PRED || type == PTX_PRED) {
        return declared == type;
    }
    if (size == 0 || (wide ? given < size : given != size)) {
        return false;
    }
    if (is_bits(declared) || is_bits(type)) {
        return true;
    }
    return ptx_type_is_float(declared) || ptx_type_is_float(type) ? declared == type : true;
}

static void check_register(ptx_bind *b, const ptx_operand *operand, ptx_type type, bool wide)
{
    if (!agrees(operand->type, type, wide)) {
        bind_fail(b, "a register of type %s where %s is expected", ptx_type_name(operand->type), ptx_type_name(type));
    }
    if (operand->negated) {
        bind_fail(b, "'!' is not supported here"); /* where it is, bind_predicate() is called */
    }
}

static uint32_t source(ptx_bind *b, ptx_operand *operand, ptx_type type, bool wide)
{
    if (!operand) {
        return 0;
    }
    switch (operand->kind) {
    case PTX_REGISTER:
        check_register(b, operand, type, wide);
        note_read(b, operand->reg);
        break;
    case PTX_SPECIAL_REGISTER:
        check_register(b, operand, type, wide);
        if (!is_instruction(b, "mov") && !is_instruction(b, "cvt")) {
            bind_fail(b, "a special register is read with mov or cvt");
        }
        break;
    case PTX_IMMEDIATE:
        operand->slot = constant_slot(b, immediate_bits(b, operand, type), lane_bytes(type));
        break;
    case PTX_SYMBOL:
        operand->slot = symbol_slot(b, operand, type);
        break;
    default:
        bind_fail(b, "a register or a constant expected");
    }
    return operand->slot;
}

uint32_t bind_source(ptx_bind *b, uint32_t index, ptx_type type)
{
    return source(b, operand_at(b, index), type, false);
}

uint32_t bind_source_operand(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    return source(b, operand, type, false);
}

uint32_t bind_source_wide(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    return source(b, operand, type, true);
}

static uint32_t destination(ptx_bind *b, ptx_operand *operand, ptx_type type, bool wide)
{
    if (!operand) {
        return 0;
    }
    if (operand->kind != PTX_REGISTER || operand->negated) {
        bind_fail(b, "a register expected as the destination");
        return 0;
    }
    check_register(b, operand, type, wide);
    note_write(b, operand->reg);
    return operand->slot;
}

uint32_t bind_dest(ptx_bind *b, uint32_t index, ptx_type type)
{
    return destination(b, operand_at(b, index), type, false);
}

uint32_t bind_dest_operand(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    return destination(b, operand, type, false);
}

uint32_t bind_dest_wide(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    return destination(b, operand, type, true);
}

uint32_t bind_inout_operand(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    uint32_t slot = destination(b, operand, type, false);
    note_read(b, operand ? operand->reg : 0);
    return slot;
}

uint32_t bind_dest_or_sink(ptx_bind *b, ptx_operand *operand, ptx_type type)
{
    if (operand && operand->kind == PTX_SINK) {
        return operand->slot = 0; /* every file begins with room that nobody reads */
    }
    return destination(b, operand, type, false);
}

uint32_t bind_predicate(ptx_bind *b, ptx_operand *operand, bool *negated)
{
    *negated = operand && operand->negated;
    if (operand && operand->kind == PTX_REGISTER) {
        if (operand->type != PTX_PRED) {
            bind_fail(b, "a predicate expected, not a %s", ptx_type_name(operand->type));
        }
        note_read(b, operand->reg);
        return operand->slot;
    }
    return source(b, operand, PTX_PRED, false);
}

/* --- other operands --- */

static uint32_t symbol_base(ptx_bind *b, const ptx_symbol *symbol, bool *wide)
{
    *wide = symbol->space != PTX_SHARED;
    return constant_slot(b, symbol_address(b, symbol), *wide ? 8 : 4);
}

uint32_t bind_address(ptx_bind *b, ptx_operand *operand, bool *wide)
{
    *wide = true;
    if (!operand || operand->kind != PTX_ADDRESS) {
        bind_fail(b, "an address in [] expected");
        return 0;
    }
    const ptx_operand *base = operand->base;
    if (!base) {
        return operand->slot = symbol_base(b, operand->symbol, wide);
    }
    if (base->kind == PTX_IMMEDIATE) {
        return operand->slot = constant_slot(b, base->bits, 8);
    }
    *wide = ptx_type_size(base->type) == 8;
    if (ptx_type_size(base->type) < 4 || (!is_bits(base->type) && ptx_type_is_float(base->type))) {
        bind_fail(b, "a %s cannot be an address", ptx_type_name(base->type));
    }
    note_read(b, base->reg);
    operand->reg = base->reg;
    return operand->slot = base->slot;
}

bool bind_constant(ptx_bind *b, ptx_operand *operand, int64_t *value)
{
    *value = 0;
    if (!operand || operand->kind != PTX_IMMEDIATE || operand->is_float) {
        return bind_fail(b, "an integer constant expected");
    }
    *value = (int64_t)operand->bits;
    return true;
}

ptx_operand *bind_vector(ptx_bind *b, uint32_t index, uint32_t count)
{
    ptx_operand *operand = operand_at(b, index);
    if (!operand || (operand->kind != PTX_VECTOR && count == 1)) {
        return operand;
    }
    if (operand->kind != PTX_VECTOR || operand->count != count) {
        bind_fail(b, "a vector of %u expected", count);
        return NULL;
    }
    return operand->element;
}

/* --- the walk --- */

static uint32_t *keep(ptx_bind *b, const uint32_t *list, uint32_t count)
{
    uint32_t *copy = bind_alloc(b, count * sizeof *copy);
    memcpy(copy, list, count * sizeof *copy);
    return copy;
}

static void bind_insn(ptx_parser *p, ptx_function *f, ptx_insn *insn)
{
    ptx_bind b = {.insn = insn, .function = f, .module = p->module, .parser = p};
    ptx_name *name = ptx_intern(p, insn->mnemonic, strlen(insn->mnemonic));
    if (!name->op_known) {
        name->op = ptx_op_find(name->text);
        name->op_known = true;
    }
    p->opcode = insn->text;
    for (uint32_t s = 0; s < insn->suffix_count; s++) {
        insn->any_block |= strcmp(insn->suffix[s], "shared::cluster") == 0;
    }
    if (!name->op) {
        ptx_fail(p, insn->line, "no such instruction is known");
    }
    bool bound = name->op->bind(&b);
    if (!bound || b.failed) {
        ptx_fail(p, insn->line, "%s", b.failed ? p->complaint : "not supported");
    }
    if (!insn->run) {
        ptx_fail(p, insn->line, "not supported");
    }
    insn->reads = keep(&b, p->reads, insn->read_count);
    insn->writes = keep(&b, p->writes, insn->write_count);
    p->opcode = NULL;
}

static void fill_constants(ptx_parser *p, ptx_function *f)
{
    f->constants = ptx_alloc(p->module, f->constant_bytes);
    for (size_t i = 0; i < sizeof p->constants / sizeof p->constants[0]; i++) {
        for (const ptx_constant *c = p->constants[i]; c; c = c->next) {
            uint8_t *to = f->constants + (c->slot - f->constant_start);
            uint32_t size = c->lane_bytes ? c->lane_bytes : (uint32_t)sizeof(uint32_t);
            for (uint32_t lane = 0; lane < (c->lane_bytes ? PTX_LANES : 1); lane++) {
                memcpy(to + lane * size, &c->bits, size);
            }
        }
        p->constants[i] = NULL;
    }
}

void ptx_bind_function(ptx_parser *p, ptx_function *f)
{
    p->function = f;
    p->predicates_left = 0; /* constants begin in room of their own */
    f->constant_start = f->file_bytes;
    for (uint32_t i = 0; i < f->insn_count; i++) {
        bind_insn(p, f, &f->insn[i]);
    }
    f->constant_bytes = f->file_bytes - f->constant_start;
    fill_constants(p, f);
}
