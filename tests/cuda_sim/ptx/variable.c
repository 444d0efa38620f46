/* variable.c - .global, .const, .shared and .local variables, their places and their initial values. */
#include "parser.h"
#include <string.h>

static const struct {
    const char *name;
    ptx_space space;
} variable_spaces[] = {{"global", PTX_GLOBAL}, {"const", PTX_CONST}, {"shared", PTX_SHARED}, {"local", PTX_LOCAL}};

static ptx_space variable_space(const ptx_parser *p)
{
    for (size_t i = 0; i < sizeof variable_spaces / sizeof variable_spaces[0]; i++) {
        if (ptx_is_dot(p, variable_spaces[i].name)) {
            return variable_spaces[i].space;
        }
    }
    return PTX_GENERIC;
}

bool ptx_is_variable(const ptx_parser *p)
{
    return variable_space(p) != PTX_GENERIC;
}

uint32_t ptx_parse_align(ptx_parser *p)
{
    uint64_t align = ptx_take_integer(p, 1, 4096);
    if (align & (align - 1)) {
        ptx_fail(p, 0, "an alignment is a power of two");
    }
    return (uint32_t)align;
}

/* [.align n] [.v2|.v4] .type; PTX ISA "Type Information": a fundamental type, no predicate. */
void ptx_parse_shape(ptx_parser *p, ptx_shape *shape)
{
    char text[80];
    *shape = (ptx_shape){.lanes = 1};
    if (ptx_accept_dot(p, "align")) {
        shape->align = ptx_parse_align(p);
    }
    shape->lanes = ptx_accept_dot(p, "v2") ? 2 : ptx_accept_dot(p, "v4") ? 4 : 1;
    shape->type = p->token.kind == PTX_TOKEN_DOT ? ptx_type_of(p->token.text, p->token.size) : PTX_NO_TYPE;
    if (ptx_type_size(shape->type) == 0 || shape->type >= PTX_E4M3 || shape->type == PTX_BF16 ||
        shape->type == PTX_TF32 || shape->type == PTX_BF16X2) {
        ptx_fail(p, 0, "no variables of type %s", ptx_token_text(&p->token, text));
    }
    ptx_next(p);
}

void ptx_parse_dimensions(ptx_parser *p, ptx_shape *shape)
{
    shape->dimensions = 0;
    shape->elements = shape->lanes;
    while (ptx_accept(p, '[')) {
        if (shape->dimensions == PTX_MAX_DIMENSIONS - 1) {
            ptx_fail(p, 0, "more than %d dimensions", PTX_MAX_DIMENSIONS - 1);
        }
        bool open = shape->dimensions == 0 && ptx_is(p, ']');
        uint64_t extent = open ? 0 : ptx_take_integer(p, 1, PTX_MAX_DATA);
        shape->extent[shape->dimensions++] = extent;
        shape->elements *= open ? 1 : extent;
        if (shape->elements > PTX_MAX_DATA) {
            ptx_fail(p, 0, "an array this large is not supported");
        }
        ptx_expect(p, ']');
    }
    if (shape->dimensions > 0 && shape->extent[0] == 0) {
        shape->elements = 0;
    }
    if (shape->lanes > 1) {
        shape->extent[shape->dimensions++] = shape->lanes;
    }
}

ptx_symbol *ptx_add_symbol(ptx_parser *p, ptx_name *name, ptx_space space, const ptx_shape *shape)
{
    ptx_symbol *symbol = ptx_alloc(p->module, sizeof *symbol);
    uint32_t natural = ptx_type_size(shape->type) * shape->lanes;
    *symbol = (ptx_symbol){.name = name->text,
                           .space = space,
                           .type = shape->type,
                           .align = shape->align ? shape->align : natural,
                           .size = shape->elements * ptx_type_size(shape->type)};
    ptx_declare(p, name, PTX_DECLARED_SYMBOL)->symbol = symbol;
    if (p->depth == 0) {
        symbol->next = p->module->symbols;
        p->module->symbols = symbol;
    }
    return symbol;
}

/* The place in its space; `end` counts the bytes of the space. */
static void place(ptx_parser *p, ptx_symbol *symbol, uint64_t *end, uint64_t most)
{
    symbol->offset = ptx_align_up(*end, symbol->align);
    *end = symbol->offset + symbol->size;
    if (*end > most) {
        ptx_fail(p, 0, "\"%.64s\": more than %llu bytes of this kind of memory", symbol->name,
                 (unsigned long long)most);
    }
}

void ptx_place(ptx_parser *p, ptx_symbol *symbol, uint32_t *end, uint64_t most)
{
    uint64_t wide = *end;
    place(p, symbol, &wide, most);
    *end = (uint32_t)wide;
}

static void add_initial(ptx_parser *p, const ptx_symbol *variable, uint64_t element, uint64_t bits,
                        const ptx_symbol *symbol)
{
    ptx_initial *initial = ptx_alloc(p->module, sizeof *initial);
    uint32_t size = ptx_type_size(variable->type);
    /* Offsets count from the variable until it has its place. */
    *initial = (ptx_initial){.offset = element * size, .size = size, .bits = bits, .symbol = symbol};
    *p->last_initial = initial;
    p->last_initial = &initial->next;
}

/* name, name+n, generic(name), generic(name)+n: the address of a variable known by now. */
static void parse_initial_address(ptx_parser *p, const ptx_symbol *variable, uint64_t element)
{
    ptx_name *name = ptx_take_name(p);
    bool generic = strcmp(name->text, "generic") == 0 && ptx_accept(p, '(');
    if (generic) {
        name = ptx_take_name(p);
        ptx_expect(p, ')');
    }
    const ptx_declaration *d = name->declared;
    if (!d || d->kind != PTX_DECLARED_SYMBOL || (d->symbol->space != PTX_GLOBAL && d->symbol->space != PTX_CONST) ||
        ptx_type_size(variable->type) != 8 || ptx_type_is_float(variable->type)) {
        ptx_fail(p, 0, "\"%.64s\" has no address that can be an initial value here", name->text);
    }
    uint64_t offset = ptx_accept(p, '+') ? ptx_take_integer(p, 0, PTX_MAX_DATA) : 0;
    add_initial(p, variable, element, offset, d->symbol);
}

static void parse_initial(ptx_parser *p, const ptx_symbol *variable, uint64_t element)
{
    if (p->token.kind == PTX_TOKEN_NAME) {
        parse_initial_address(p, variable, element);
        return;
    }
    ptx_operand number;
    ptx_take_number(p, &number);
    if (number.is_float != (variable->type == PTX_F32 || variable->type == PTX_F64)) {
        ptx_fail(p, 0, "a %s cannot have this initial value", ptx_type_name(variable->type));
    }
    uint64_t bits = variable->type == PTX_F32 ? ptx_narrow_bits(number.bits) : number.bits;
    add_initial(p, variable, element, bits, NULL);
}

/* One level of braces; `first`: its first element. Returns how many entries it had. */
static uint64_t parse_initials(ptx_parser *p, const ptx_symbol *variable, const ptx_shape *shape, uint32_t dimension,
                               uint64_t first)
{
    uint64_t step = 1, count = 0, most = shape->extent[dimension];
    for (uint32_t i = dimension + 1; i < shape->dimensions; i++) {
        step *= shape->extent[i];
    }
    ptx_expect(p, '{');
    do {
        if (most ? count == most : count * step >= PTX_MAX_DATA) {
            ptx_fail(p, 0, "more initial values than elements");
        }
        uint64_t element = first + count++ * step;
        if (dimension + 1 < shape->dimensions) {
            parse_initials(p, variable, shape, dimension + 1, element);
        } else {
            parse_initial(p, variable, element);
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, '}');
    return count;
}

static void parse_initializer(ptx_parser *p, ptx_symbol *variable, ptx_shape *shape)
{
    if (variable->space != PTX_GLOBAL && variable->space != PTX_CONST) {
        ptx_fail(p, 0, "only .global and .const variables have initial values");
    }
    if (shape->dimensions == 0) {
        parse_initial(p, variable, 0);
        return;
    }
    uint64_t count = parse_initials(p, variable, shape, 0, 0);
    if (shape->extent[0] == 0) {
        uint64_t elements = count;
        for (uint32_t i = 1; i < shape->dimensions; i++) {
            elements *= shape->extent[i];
        }
        if (elements > PTX_MAX_DATA) {
            ptx_fail(p, 0, "an array this large is not supported");
        }
        variable->size = elements * ptx_type_size(variable->type);
    }
}

static void place_variable(ptx_parser *p, ptx_symbol *symbol, bool external)
{
    if (external && (symbol->space != PTX_SHARED || symbol->size > 0)) {
        ptx_fail(p, 0, "\"%.64s\": of external variables only .shared arrays without a size are supported",
                 symbol->name);
    }
    if (!external && symbol->size == 0) {
        ptx_fail(p, 0, "\"%.64s\" has no size", symbol->name);
    }
    switch (symbol->space) {
    case PTX_SHARED:
        ptx_place(p, symbol, p->function ? &p->function->shared_bytes : &p->module_shared, PTX_MAX_STATIC_SHARED);
        break;
    case PTX_LOCAL:
        if (!p->function) {
            ptx_fail(p, 0, "a .local variable outside of a function");
        }
        ptx_place(p, symbol, &p->function->local_bytes, PTX_MAX_LOCAL);
        break;
    default:
        place(p, symbol, &p->module->data_size, PTX_MAX_DATA);
    }
}

/* .space [.align n] [.v2|.v4] .type name[n] [= initial values] {, ...}; */
void ptx_parse_variable(ptx_parser *p, bool external)
{
    ptx_shape shape;
    ptx_space space = variable_space(p);
    ptx_next(p);
    ptx_parse_shape(p, &shape);
    do {
        ptx_name *name = ptx_take_name(p);
        ptx_parse_dimensions(p, &shape);
        ptx_symbol *symbol = ptx_add_symbol(p, name, space, &shape);
        ptx_initial **initials = p->last_initial;
        if (ptx_accept(p, '=')) {
            parse_initializer(p, symbol, &shape);
        }
        place_variable(p, symbol, external);
        for (ptx_initial *initial = *initials; initial; initial = initial->next) {
            initial->offset += symbol->offset;
        }
    } while (ptx_accept(p, ','));
    ptx_expect(p, ';');
}
