/* parse.c - the body of a function: registers, labels, instructions and their operands. */
#include "parser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- registers --- */

/* Room for a value of 32 lanes of 4 or 8 bytes, or of a predicate (0); 64-byte aligned, predicates packed. */
uint32_t ptx_take_slot(ptx_parser *p, uint32_t lane_bytes)
{
    ptx_function *f = p->function;
    if (lane_bytes == 0 && p->predicates_left > 0) {
        p->predicates_left--;
        return p->predicate_slot += (uint32_t)sizeof(uint32_t);
    }
    uint32_t slot = f->file_bytes;
    f->file_bytes += lane_bytes ? lane_bytes * PTX_LANES : 64;
    if (f->file_bytes > PTX_MAX_FILE) {
        ptx_fail(p, 0, "too many registers");
    }
    if (lane_bytes == 0) {
        p->predicate_slot = slot;
        p->predicates_left = 64 / sizeof(uint32_t) - 1;
    }
    return slot;
}

static uint32_t lane_bytes(ptx_type type)
{
    return type == PTX_PRED ? 0 : ptx_type_size(type) > 4 ? 8 : 4;
}

static uint32_t number_register(ptx_parser *p, const char *name)
{
    if (p->function->register_count >= p->register_room) {
        uint32_t room = p->register_room ? p->register_room * 2 : 256;
        const char **more = realloc(p->register_name, room * sizeof *more);
        if (!more) {
            ptx_fail(p, 0, "out of memory");
        }
        p->register_name = more;
        p->register_room = room;
    }
    p->register_name[p->function->register_count] = name;
    return p->function->register_count++;
}

/* A register gets a slot and a number at its first use. */
static void use_register(ptx_parser *p, ptx_declaration *d, uint32_t lane, ptx_operand *operand)
{
    ptx_function *f = p->function;
    if (d->reg[lane] == 0) {
        uint32_t bytes = lane_bytes(d->type);
        d->slot[lane] = ptx_take_slot(p, bytes);
        d->reg[lane] = number_register(p, d->name->text);
        *(bytes == 0 ? &f->predicates : bytes == 8 ? &f->registers_64 : &f->registers_32) += 1;
    }
    *operand = (ptx_operand){.kind = PTX_REGISTER, .type = d->type, .slot = d->slot[lane], .reg = d->reg[lane]};
}

/* .reg [.v2|.v4] .type name[<count>] {, ...} ; */
static void parse_registers(ptx_parser *p)
{
    char text[80];
    uint32_t lanes = ptx_accept_dot(p, "v2") ? 2 : ptx_accept_dot(p, "v4") ? 4 : 1;
    ptx_type type = p->token.kind == PTX_TOKEN_DOT ? ptx_type_of(p->token.text, p->token.size) : PTX_NO_TYPE;
    bool usable = type == PTX_PRED ? lanes == 1 : ptx_type_size(type) > 0 && ptx_type_size(type) <= 8;
    /* PTX ISA "Alternate Floating-Point Data Formats": they are no fundamental types. */
    if (!usable ||
        (ptx_type_is_float(type) && type != PTX_F16 && type != PTX_F16X2 && type != PTX_F32 && type != PTX_F64)) {
        ptx_fail(p, 0, "no registers of type %s", ptx_token_text(&p->token, text));
    }
    ptx_next(p);
    do {
        ptx_name *name = ptx_take_name(p);
        bool range = ptx_accept(p, '<');
        ptx_declaration *d = ptx_declare(p, name, range ? PTX_DECLARED_RANGE : PTX_DECLARED_REGISTER);
        d->type = type;
        d->lanes = lanes;
        if (range) {
            d->count = (uint32_t)ptx_take_integer(p, 0, PTX_MAX_RANGE);
            ptx_expect(p, '>');
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, ';');
}

/* --- operands --- */

typedef struct special_name {
    const char *name;
    ptx_special special;
    bool has_axes;
} special_name;

static const special_name specials[] = {
    {"%tid", PTX_TID_X, true},
    {"%ntid", PTX_NTID_X, true},
    {"%ctaid", PTX_CTAID_X, true},
    {"%nctaid", PTX_NCTAID_X, true},
    {"%clusterid", PTX_CLUSTERID_X, true},
    {"%nclusterid", PTX_NCLUSTERID_X, true},
    {"%cluster_ctaid", PTX_CLUSTER_CTAID_X, true},
    {"%cluster_nctaid", PTX_CLUSTER_NCTAID_X, true},
    {"%cluster_ctarank", PTX_CLUSTER_CTARANK, false},
    {"%cluster_nctarank", PTX_CLUSTER_NCTARANK, false},
    {"%is_explicit_cluster", PTX_IS_EXPLICIT_CLUSTER, false},
    {"%laneid", PTX_LANEID, false},
    {"%warpid", PTX_WARPID, false},
    {"%nwarpid", PTX_NWARPID, false},
    {"%smid", PTX_SMID, false},
    {"%nsmid", PTX_NSMID, false},
    {"%gridid", PTX_GRIDID, false},
    {"%lanemask_eq", PTX_LANEMASK_EQ, false},
    {"%lanemask_le", PTX_LANEMASK_LE, false},
    {"%lanemask_lt", PTX_LANEMASK_LT, false},
    {"%lanemask_ge", PTX_LANEMASK_GE, false},
    {"%lanemask_gt", PTX_LANEMASK_GT, false},
    {"%dynamic_smem_size", PTX_DYNAMIC_SMEM_SIZE, false},
    {"%total_smem_size", PTX_TOTAL_SMEM_SIZE, false},
    {"%clock", PTX_CLOCK, false},
    {"%clock_hi", PTX_CLOCK_HI, false},
    {"%clock64", PTX_CLOCK64, false},
    {"%globaltimer", PTX_GLOBALTIMER, false},
    {"%globaltimer_lo", PTX_GLOBALTIMER_LO, false},
    {"%globaltimer_hi", PTX_GLOBALTIMER_HI, false},
};

static ptx_type special_type(ptx_special special)
{
    switch (special) {
    case PTX_IS_EXPLICIT_CLUSTER:
        return PTX_PRED;
    case PTX_GRIDID:
    case PTX_CLOCK64:
    case PTX_GLOBALTIMER:
        return PTX_U64;
    default:
        return PTX_U32;
    }
}

/* .x .y .z .w of a vector register; -1: none. */
static int parse_axis(ptx_parser *p, uint32_t count)
{
    static const char *const axes[] = {"x", "y", "z", "w"};
    for (uint32_t i = 0; i < count; i++) {
        if (ptx_accept_dot(p, axes[i])) {
            return (int)i;
        }
    }
    return -1;
}

static uint32_t special_slot(ptx_parser *p, ptx_special special)
{
    ptx_function *f = p->function;
    for (uint32_t i = 0; i < f->special_count; i++) {
        if (f->special[i].special == special) {
            return f->special[i].slot;
        }
    }
    f->special[f->special_count].special = special;
    f->special[f->special_count].slot = ptx_take_slot(p, lane_bytes(special_type(special)));
    return f->special[f->special_count++].slot;
}

static bool parse_special(ptx_parser *p, const ptx_name *name, ptx_operand *operand)
{
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        if (strcmp(name->text, specials[i].name) != 0) {
            continue;
        }
        int axis = specials[i].has_axes ? parse_axis(p, 3) : 0;
        if (axis < 0) {
            ptx_fail(p, 0, "%s needs .x, .y or .z", name->text);
        }
        ptx_special special = (ptx_special)((int)specials[i].special + axis);
        *operand = (ptx_operand){.kind = PTX_SPECIAL_REGISTER, .special = special, .type = special_type(special)};
        operand->slot = special_slot(p, special);
        return true;
    }
    return false;
}

static ptx_operand *copy_operands(ptx_parser *p, const ptx_operand *operand, uint32_t count)
{
    ptx_operand *copy = ptx_alloc(p->module, count * sizeof *copy);
    memcpy(copy, operand, count * sizeof *copy);
    return copy;
}

static void parse_register(ptx_parser *p, ptx_declaration *d, ptx_operand *operand)
{
    int lane = d->lanes > 1 ? parse_axis(p, d->lanes) : 0;
    if (lane >= 0) {
        use_register(p, d, (uint32_t)lane, operand);
        return;
    }
    ptx_operand element[4];
    for (uint32_t i = 0; i < d->lanes; i++) {
        use_register(p, d, i, &element[i]);
    }
    *operand = (ptx_operand){.kind = PTX_VECTOR, .count = d->lanes, .element = copy_operands(p, element, d->lanes)};
}

/* +n, +-n */
static int64_t parse_offset(ptx_parser *p)
{
    ptx_operand number = {0};
    if (ptx_accept(p, '+')) {
        ptx_take_number(p, &number);
    }
    if (number.is_float) {
        ptx_fail(p, 0, "an offset is an integer");
    }
    return (int64_t)number.bits;
}

static void use_symbol(ptx_parser *p, const ptx_symbol *symbol, ptx_operand *operand)
{
    *operand = (ptx_operand){.kind = PTX_SYMBOL, .symbol = symbol, .offset = parse_offset(p)};
    if (symbol->space == PTX_SHARED && symbol->size == 0 && symbol->align > p->function->dynamic_align) {
        p->function->dynamic_align = symbol->align;
    }
}

static void parse_name(ptx_parser *p, ptx_operand *operand)
{
    uint32_t line = p->token.line;
    ptx_name *name = ptx_take_name(p);
    ptx_declaration *d = ptx_look_up(p, name);
    if (d && d->kind == PTX_DECLARED_REGISTER) {
        parse_register(p, d, operand);
    } else if (d && d->kind == PTX_DECLARED_SYMBOL) {
        use_symbol(p, d->symbol, operand);
    } else if (strcmp(name->text, "_") == 0) {
        *operand = (ptx_operand){.kind = PTX_SINK};
    } else if (strcmp(name->text, "WARP_SZ") == 0) {
        *operand = (ptx_operand){.kind = PTX_IMMEDIATE, .bits = PTX_LANES};
    } else if (!parse_special(p, name, operand)) {
        *operand = (ptx_operand){.kind = PTX_LABEL};
        ptx_label_use *use = ptx_alloc(p->module, sizeof *use);
        *use = (ptx_label_use){.next = p->scope[p->depth].uses, .operand = operand, .name = name, .line = line};
        p->scope[p->depth].uses = use;
    }
}

static void parse_simple(ptx_parser *p, ptx_operand *operand)
{
    if (p->token.kind == PTX_TOKEN_NAME) {
        parse_name(p, operand);
        return;
    }
    ptx_take_number(p, operand);
}

/* {a, b, ...} behind its brace. */
static void parse_vector(ptx_parser *p, ptx_operand *operand)
{
    uint32_t room = 4;
    *operand = (ptx_operand){.kind = PTX_VECTOR, .element = ptx_alloc(p->module, room * sizeof *operand)};
    do {
        if (operand->count == room) {
            if (room == PTX_MAX_ELEMENTS) {
                ptx_fail(p, 0, "a vector of more than %d elements", PTX_MAX_ELEMENTS);
            }
            ptx_operand *more = ptx_alloc(p->module, 2 * room * sizeof *more);
            memcpy(more, operand->element, room * sizeof *more);
            operand->element = more;
            room *= 2;
        }
        ptx_operand *element = &operand->element[operand->count++];
        parse_simple(p, element);
        if (element->kind == PTX_VECTOR || element->kind == PTX_LABEL) {
            ptx_fail(p, 0, "this may not stand in a vector");
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, '}');
}

/* [base], [base+n], [base, {x, y}], ... behind its bracket. */
static void parse_address(ptx_parser *p, ptx_operand *operand)
{
    enum { MOST_VECTORS = 3 };
    ptx_operand base, vector[MOST_VECTORS];
    parse_simple(p, &base);
    *operand = (ptx_operand){.kind = PTX_ADDRESS};
    if (base.kind == PTX_SYMBOL) {
        operand->symbol = base.symbol;
        operand->offset = base.offset;
    } else if (base.kind == PTX_REGISTER || (base.kind == PTX_IMMEDIATE && !base.is_float)) {
        operand->base = copy_operands(p, &base, 1);
        operand->offset = base.kind == PTX_REGISTER ? parse_offset(p) : 0;
    } else {
        ptx_fail(p, 0, "an address begins with a register, a variable or an integer");
    }
    while (ptx_accept(p, ',')) {
        if (operand->count == MOST_VECTORS) {
            ptx_fail(p, 0, "an address of more than %d vectors", MOST_VECTORS);
        }
        ptx_expect(p, '{');
        parse_vector(p, &vector[operand->count++]);
    }
    if (operand->count > 0) {
        operand->element = copy_operands(p, vector, operand->count);
    }
    ptx_expect(p, ']');
}

/* a|b: the first is parsed. */
static void parse_pair(ptx_parser *p, ptx_operand *operand)
{
    ptx_operand element[2] = {*operand};
    parse_simple(p, &element[1]);
    for (int i = 0; i < 2; i++) {
        if (element[i].kind != PTX_REGISTER && element[i].kind != PTX_SINK) {
            ptx_fail(p, 0, "'|' stands between registers");
        }
    }
    *operand = (ptx_operand){.kind = PTX_PAIR, .count = 2, .element = copy_operands(p, element, 2)};
}

static void parse_operand(ptx_parser *p, ptx_operand *operand)
{
    if (ptx_accept(p, '{')) {
        parse_vector(p, operand);
    } else if (ptx_accept(p, '[')) {
        parse_address(p, operand);
    } else if (ptx_accept(p, '!')) {
        parse_simple(p, operand);
        if (operand->kind != PTX_REGISTER || operand->type != PTX_PRED) {
            ptx_fail(p, 0, "'!' stands before a predicate");
        }
        operand->negated = true;
    } else {
        parse_simple(p, operand);
        if (ptx_accept(p, '|')) {
            parse_pair(p, operand);
        }
    }
}

/* --- instructions --- */

static ptx_insn *add_insn(ptx_parser *p)
{
    if (p->insn_count == p->insn_room) {
        uint32_t room = p->insn_room ? p->insn_room * 2 : 256;
        ptx_insn *more = realloc(p->insn, room * sizeof *more);
        if (!more) {
            ptx_fail(p, 0, "out of memory");
        }
        p->insn = more;
        p->insn_room = room;
    }
    ptx_insn *insn = &p->insn[p->insn_count++];
    *insn = (ptx_insn){.guard = PTX_NO_GUARD, .line = p->token.line};
    return insn;
}

/* @p or @!p, behind the '@' */
static void parse_guard(ptx_parser *p, ptx_operand *guard)
{
    bool negated = ptx_accept(p, '!');
    parse_simple(p, guard);
    if (guard->kind != PTX_REGISTER || guard->type != PTX_PRED) {
        ptx_fail(p, 0, "a guard must be a predicate");
    }
    guard->negated = negated;
}

/* All suffixes: insn->suffix and the whole as insn->text. */
static void parse_suffixes(ptx_parser *p, ptx_insn *insn)
{
    char text[512];
    size_t size = (size_t)snprintf(text, sizeof text, "%.64s", insn->mnemonic);
    while (p->token.kind == PTX_TOKEN_DOT) {
        if (insn->suffix_count == PTX_MAX_SUFFIXES || size + p->token.size + 2 > sizeof text) {
            ptx_fail(p, 0, "too many suffixes");
        }
        insn->suffix[insn->suffix_count++] = ptx_intern(p, p->token.text, p->token.size)->text;
        size += (size_t)snprintf(text + size, sizeof text - size, ".%.*s", (int)p->token.size, p->token.text);
        ptx_next(p);
    }
    insn->text = ptx_intern(p, text, size)->text;
}

static void parse_operands(ptx_parser *p, ptx_insn *insn)
{
    ptx_operand operand[PTX_MAX_OPERANDS];
    const ptx_label_use *known = p->scope[p->depth].uses;
    do {
        if (insn->operand_count == PTX_MAX_OPERANDS) {
            ptx_fail(p, 0, "more than %d operands", PTX_MAX_OPERANDS);
        }
        parse_operand(p, &operand[insn->operand_count++]);
    } while (ptx_accept(p, ','));
    insn->operand = copy_operands(p, operand, insn->operand_count);
    for (ptx_label_use *use = p->scope[p->depth].uses; use != known; use = use->next) {
        use->operand = insn->operand + (use->operand - operand);
    }
}

static void parse_instruction(ptx_parser *p, ptx_name *mnemonic, const ptx_operand *guard, uint32_t line)
{
    ptx_insn *insn = add_insn(p);
    insn->line = line;
    insn->mnemonic = mnemonic->text;
    if (guard) {
        insn->guard = guard->slot;
        insn->guard_reg = guard->reg;
        insn->guard_negated = guard->negated;
    }
    parse_suffixes(p, insn);
    p->opcode = insn->text;
    if (ptx_is(p, '(') || strcmp(insn->mnemonic, "call") == 0) {
        ptx_fail(p, line, "calls are not supported");
    }
    if (!ptx_is(p, ';')) {
        parse_operands(p, insn);
    }
    ptx_expect(p, ';');
    p->opcode = NULL;
}

/* name: .branchtargets A, B; - behind the dot's word. */
static void parse_targets(ptx_parser *p, ptx_name *name)
{
    ptx_operand *vector = ptx_alloc(p->module, sizeof *vector);
    *vector = (ptx_operand){.kind = PTX_VECTOR, .element = ptx_alloc(p->module, PTX_MAX_ELEMENTS * sizeof *vector)};
    do {
        if (vector->count == PTX_MAX_ELEMENTS) {
            ptx_fail(p, 0, "more than %d branch targets", PTX_MAX_ELEMENTS);
        }
        ptx_operand *element = &vector->element[vector->count++];
        parse_simple(p, element);
        if (element->kind != PTX_LABEL) {
            ptx_fail(p, 0, "a branch target must be a label");
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, ';');
    ptx_declare(p, name, PTX_DECLARED_TARGETS)->targets = vector;
}

static void parse_label(ptx_parser *p, ptx_name *name)
{
    if (ptx_accept_dot(p, "branchtargets")) {
        parse_targets(p, name);
    } else {
        ptx_declare(p, name, PTX_DECLARED_LABEL)->target = p->insn_count;
    }
}

static void parse_statement(ptx_parser *p)
{
    char text[80];
    uint32_t line = p->token.line;
    if (p->token.kind == PTX_TOKEN_NAME) {
        ptx_name *name = ptx_take_name(p);
        if (ptx_accept(p, ':')) {
            parse_label(p, name);
        } else {
            parse_instruction(p, name, NULL, line);
        }
    } else if (ptx_accept(p, '@')) {
        ptx_operand guard;
        parse_guard(p, &guard);
        parse_instruction(p, ptx_take_name(p), &guard, line);
    } else if (ptx_accept_dot(p, "reg")) {
        parse_registers(p);
    } else if (ptx_is_variable(p)) {
        ptx_parse_variable(p, false);
    } else if (!ptx_parse_debug(p)) {
        ptx_fail(p, 0, "a statement cannot begin with %s", ptx_token_text(&p->token, text));
    }
}

void ptx_parse_body(ptx_parser *p)
{
    uint32_t outside = p->depth;
    ptx_open_scope(p);
    while (p->depth > outside) {
        if (ptx_accept(p, '{')) {
            ptx_open_scope(p);
        } else if (ptx_is(p, '}')) {
            ptx_close_scope(p);
            ptx_next(p);
        } else {
            parse_statement(p);
        }
    }
}
