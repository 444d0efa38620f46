/* module.c - the module around the functions: directives, entries, and the memory of it all. */
#include "parser.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types --- */

static const struct {
    const char *name;
    uint8_t size;
    bool is_signed, is_float;
} types[PTX_TYPE_COUNT] = {
    [PTX_NO_TYPE] = {"no type", 0, false, false}, [PTX_PRED] = {"pred", 0, false, false},
    [PTX_B8] = {"b8", 1, false, false},           [PTX_B16] = {"b16", 2, false, false},
    [PTX_B32] = {"b32", 4, false, false},         [PTX_B64] = {"b64", 8, false, false},
    [PTX_B128] = {"b128", 16, false, false},      [PTX_U8] = {"u8", 1, false, false},
    [PTX_U16] = {"u16", 2, false, false},         [PTX_U32] = {"u32", 4, false, false},
    [PTX_U64] = {"u64", 8, false, false},         [PTX_S8] = {"s8", 1, true, false},
    [PTX_S16] = {"s16", 2, true, false},          [PTX_S32] = {"s32", 4, true, false},
    [PTX_S64] = {"s64", 8, true, false},          [PTX_F16] = {"f16", 2, false, true},
    [PTX_BF16] = {"bf16", 2, false, true},        [PTX_TF32] = {"tf32", 4, false, true},
    [PTX_F32] = {"f32", 4, false, true},          [PTX_F64] = {"f64", 8, false, true},
    [PTX_F16X2] = {"f16x2", 4, false, true},      [PTX_BF16X2] = {"bf16x2", 4, false, true},
    [PTX_E4M3] = {"e4m3", 1, false, true},        [PTX_E5M2] = {"e5m2", 1, false, true},
    [PTX_E4M3X2] = {"e4m3x2", 2, false, true},    [PTX_E5M2X2] = {"e5m2x2", 2, false, true},
};

uint32_t ptx_type_size(ptx_type type)
{
    return types[type].size;
}

bool ptx_type_is_signed(ptx_type type)
{
    return types[type].is_signed;
}

bool ptx_type_is_float(ptx_type type)
{
    return types[type].is_float;
}

const char *ptx_type_name(ptx_type type)
{
    return types[type].name;
}

ptx_type ptx_type_of(const char *text, size_t size)
{
    for (int type = PTX_NO_TYPE + 1; type < PTX_TYPE_COUNT; type++) {
        if (strlen(types[type].name) == size && memcmp(types[type].name, text, size) == 0) {
            return (ptx_type)type;
        }
    }
    return PTX_NO_TYPE;
}

/* --- memory and errors --- */

enum { CHUNK = 64 << 10, ARENA_ALIGN = 16, MAX_THREADS = 1024, DYNAMIC_ALIGN = 16 };

typedef struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(ARENA_ALIGN) unsigned char bytes[];
} arena_chunk;

struct ptx_arena {
    arena_chunk *chunk;
    ptx_parser *parser; /* who fails when there is no memory; only a load allocates */
};

_Noreturn void ptx_fail(ptx_parser *p, uint32_t line, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(p->error, p->error_size, "line %u: %s%s%s", line ? line : p->token.line, p->opcode ? p->opcode : "",
             p->opcode ? ": " : "", text);
    longjmp(p->escape, 1);
}

void *ptx_alloc(ptx_module *module, size_t size)
{
    struct ptx_arena *arena = module->arena;
    size = ptx_align_up(size ? size : 1, ARENA_ALIGN);
    arena_chunk *chunk = arena->chunk;
    if (!chunk || chunk->size - chunk->used < size) {
        size_t room = size > CHUNK ? size : CHUNK;
        chunk = calloc(1, sizeof *chunk + room);
        if (!chunk) {
            ptx_fail(arena->parser, 0, "out of memory");
        }
        chunk->size = room;
        chunk->next = arena->chunk;
        arena->chunk = chunk;
    }
    void *result = chunk->bytes + chunk->used;
    chunk->used += size;
    return result;
}

void ptx_module_free(ptx_module *module)
{
    if (!module) {
        return;
    }
    for (arena_chunk *chunk = module->arena->chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(module->arena);
    free(module->data);
    free(module);
}

/* --- entries --- */

/* .param .type [.ptr [.space] [.align n]] name[n] */
static void parse_param(ptx_parser *p, ptx_function *f, ptx_symbol **param)
{
    char text[80];
    ptx_shape shape;
    if (!ptx_accept_dot(p, "param")) {
        ptx_fail(p, 0, "a parameter begins with .param, not %s", ptx_token_text(&p->token, text));
    }
    ptx_parse_shape(p, &shape);
    if (ptx_accept_dot(p, "ptr")) {
        if (ptx_is_variable(p)) {
            ptx_next(p);
        }
        if (ptx_accept_dot(p, "align")) {
            ptx_parse_align(p); /* of what it points to */
        }
    }
    ptx_name *name = ptx_take_name(p);
    ptx_parse_dimensions(p, &shape);
    *param = ptx_add_symbol(p, name, PTX_PARAM, &shape);
    if ((*param)->size == 0) {
        ptx_fail(p, 0, "\"%.64s\" has no size", name->text);
    }
    ptx_place(p, *param, &f->param_bytes, PTX_MAX_PARAMS);
}

static void parse_params(ptx_parser *p, ptx_function *f)
{
    if (!ptx_accept(p, '(') || ptx_accept(p, ')')) {
        return;
    }
    uint32_t room = 0;
    do {
        if (f->param_count == room) {
            room = room ? 2 * room : 8;
            ptx_symbol **more = ptx_alloc(p->module, room * sizeof(ptx_symbol *));
            for (uint32_t i = 0; i < f->param_count; i++) {
                more[i] = f->param[i];
            }
            f->param = more;
        }
        parse_param(p, f, &f->param[f->param_count++]);
    } while (ptx_accept(p, ','));
    ptx_expect(p, ')');
}

static void parse_three(ptx_parser *p, uint32_t three[3])
{
    three[1] = three[2] = 1;
    for (int i = 0; i < 3; i++) {
        three[i] = (uint32_t)ptx_take_integer(p, 1, UINT32_MAX);
        if (i < 2 && !ptx_accept(p, ',')) {
            return;
        }
    }
}

/* PTX ISA "Performance-Tuning Directives", "Cluster Dimension Directives". Those that only guide ptxas are checked for
 * their form. */
static bool parse_tuning(ptx_parser *p, ptx_function *f)
{
    static const char *const numbers[] = {"maxnctapersm", "maxclusterrank"};
    if (ptx_accept_dot(p, "maxntid")) {
        parse_three(p, f->max_threads);
        return true;
    }
    if (ptx_accept_dot(p, "reqntid")) {
        parse_three(p, f->required_threads);
        return true;
    }
    if (ptx_accept_dot(p, "reqnctapercluster")) {
        parse_three(p, f->cluster);
        return true;
    }
    if (ptx_accept_dot(p, "minnctapersm")) {
        f->min_blocks = (uint32_t)ptx_take_integer(p, 1, UINT32_MAX);
        return true;
    }
    if (ptx_accept_dot(p, "maxnreg")) {
        f->max_registers = (uint32_t)ptx_take_integer(p, 1, UINT32_MAX);
        return true;
    }
    if (ptx_accept_dot(p, "explicitcluster")) {
        return true;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (ptx_accept_dot(p, numbers[i])) {
            ptx_take_integer(p, 1, UINT32_MAX);
            return true;
        }
    }
    return ptx_parse_debug(p);
}

uint32_t ptx_dynamic_offset(const ptx_function *function)
{
    uint32_t align = function->dynamic_align > DYNAMIC_ALIGN ? function->dynamic_align : DYNAMIC_ALIGN;
    uint32_t offset = ptx_align_up(function->shared_bytes, align);
    return offset % (2 * align) ? offset : offset + align;
}

uint32_t ptx_max_threads(const ptx_function *function)
{
    const uint32_t *limit = function->required_threads[0] ? function->required_threads : function->max_threads;
    uint64_t product = limit[0];
    for (int i = 1; i < 3; i++) {
        product = product < MAX_THREADS ? product * limit[i] : MAX_THREADS;
    }
    return product < MAX_THREADS ? (uint32_t)product : MAX_THREADS;
}

static ptx_function *new_function(ptx_parser *p, const ptx_name *name)
{
    ptx_function *f = ptx_alloc(p->module, sizeof *f);
    f->name = name->text;
    f->is_entry = true;
    f->module = p->module;
    f->shared_bytes = p->module_shared;
    f->dynamic_align = 1;
    f->register_count = 1; /* number 0 is what is always defined */
    f->special = ptx_alloc(p->module, PTX_SPECIAL_COUNT * sizeof *f->special);
    return f;
}

static void keep_function(ptx_parser *p, ptx_function *f)
{
    f->insn_count = p->insn_count;
    f->insn = ptx_alloc(p->module, f->insn_count * sizeof *f->insn);
    f->register_name = ptx_alloc(p->module, f->register_count * sizeof *f->register_name);
    if (f->insn_count > 0) {
        memcpy(f->insn, p->insn, f->insn_count * sizeof *f->insn);
    }
    for (uint32_t i = 1; i < f->register_count; i++) {
        f->register_name[i] = p->register_name[i];
    }
}

static void parse_function(ptx_parser *p, ptx_name *name)
{
    ptx_function *f = new_function(p, name);
    p->function = f;
    p->insn_count = 0;
    p->predicates_left = 0;
    f->file_bytes = PTX_LANES * sizeof(uint64_t); /* the first slot is the sink, bind_dest_or_sink() */
    ptx_open_scope(p);
    parse_params(p, f);
    while (!ptx_is(p, '{') && !ptx_is(p, ';')) {
        char text[80];
        if (!parse_tuning(p, f)) {
            ptx_fail(p, 0, "%s is not supported here", ptx_token_text(&p->token, text));
        }
    }
    bool defined = ptx_accept(p, '{');
    if (defined) {
        ptx_declaration *d = name->declared;
        if (d) {
            ptx_fail(p, 0, "\"%.64s\" is declared twice", name->text);
        }
        ptx_parse_body(p);
        keep_function(p, f);
        *p->last_function = f;
        p->last_function = &f->next;
    } else {
        ptx_next(p); /* a declaration ahead */
    }
    ptx_close_scope(p);
    p->function = NULL;
    if (defined) {
        ptx_declare(p, name, PTX_DECLARED_ENTRY);
    }
}

/* --- the module --- */

/* .section name { ... }: debug data, nothing in it runs. */
static void skip_section(ptx_parser *p)
{
    ptx_next(p);
    ptx_expect(p, '{');
    for (uint32_t depth = 1; depth > 0; ptx_next(p)) {
        if (p->token.kind == PTX_TOKEN_END) {
            ptx_fail(p, 0, "a .section does not end");
        }
        depth += ptx_is(p, '{');
        depth -= ptx_is(p, '}');
    }
}

static void skip_string(ptx_parser *p)
{
    char text[80];
    if (p->token.kind != PTX_TOKEN_STRING) {
        ptx_fail(p, 0, "a string expected, not %s", ptx_token_text(&p->token, text));
    }
    ptx_next(p);
}

static void skip_place(ptx_parser *p)
{
    for (int i = 0; i < 3; i++) {
        ptx_take_integer(p, 0, UINT32_MAX);
    }
}

/* .loc file line column [, function_name label [+ n] [, inlined_at file line column]] */
static void skip_loc(ptx_parser *p)
{
    skip_place(p);
    while (ptx_accept(p, ',')) {
        ptx_name *word = ptx_take_name(p);
        if (strcmp(word->text, "function_name") == 0) {
            ptx_take_name(p);
            if (ptx_accept(p, '+')) {
                ptx_take_integer(p, 0, UINT32_MAX);
            }
        } else if (strcmp(word->text, "inlined_at") == 0) {
            skip_place(p);
        } else {
            ptx_fail(p, 0, "\"%.64s\" is not known in a .loc", word->text);
        }
    }
}

bool ptx_parse_debug(ptx_parser *p)
{
    if (ptx_accept_dot(p, "loc")) {
        skip_loc(p);
    } else if (ptx_accept_dot(p, "section")) {
        skip_section(p);
    } else if (ptx_accept_dot(p, "file")) {
        ptx_take_integer(p, 0, UINT32_MAX);
        skip_string(p);
        while (ptx_accept(p, ',')) {
            ptx_take_integer(p, 0, UINT64_MAX);
        }
    } else if (ptx_accept_dot(p, "pragma")) {
        do {
            skip_string(p);
        } while (ptx_accept(p, ','));
        ptx_expect(p, ';');
    } else {
        return false;
    }
    return true;
}

/* .version m.n */
static void parse_version(ptx_parser *p)
{
    char text[80];
    unsigned major = 0, minor = 0;
    char rest = '\0';
    char number[16] = "";
    snprintf(number, sizeof number, "%.*s", p->token.size < sizeof number ? (int)p->token.size : 0, p->token.text);
    if (p->token.kind != PTX_TOKEN_FLOAT || sscanf(number, "%1u.%1u%c", &major, &minor, &rest) != 2) {
        ptx_fail(p, 0, "a version such as 8.0 expected, not %s", ptx_token_text(&p->token, text));
    }
    p->module->version = major * 10 + minor;
    p->versioned = true;
    ptx_next(p);
}

/* .target sm_90a [, debug]: the number, and a or f for what only that architecture (family) has. */
static void parse_target(ptx_parser *p)
{
    const char *name = ptx_take_name(p)->text;
    char *end = NULL;
    unsigned long number = strncmp(name, "sm_", 3) == 0 ? strtoul(name + 3, &end, 10) : 0;
    bool specific = number && (*end == 'a' || *end == 'f');
    if (number < 10 || number > 999 || end[specific] != '\0') {
        ptx_fail(p, 0, "a target such as sm_90a expected, not \"%.64s\"", name);
    }
    p->module->target = (uint32_t)number;
    p->module->arch_specific = specific;
    p->targeted = true;
    while (ptx_accept(p, ',')) {
        const char *option = ptx_take_name(p)->text;
        if (strcmp(option, "debug") != 0) {
            ptx_fail(p, 0, "target option \"%.64s\" is not supported", option);
        }
    }
}

/* What may stand behind [.visible|.extern|.weak|.common]. */
static void parse_linked(ptx_parser *p)
{
    char text[80];
    bool external = ptx_accept_dot(p, "extern");
    if (!external && !ptx_accept_dot(p, "visible")) {
        ptx_accept_dot(p, "weak");
    }
    if (ptx_is_variable(p)) {
        ptx_parse_variable(p, external);
    } else if (ptx_accept_dot(p, "entry")) {
        ptx_name *name = ptx_take_name(p);
        if (external) {
            ptx_fail(p, 0, "\"%.64s\": external entries are not supported", name->text);
        }
        parse_function(p, name);
    } else if (ptx_is_dot(p, "func")) {
        ptx_fail(p, 0, "functions (.func) are not supported");
    } else {
        ptx_fail(p, 0, "%s is not supported here", ptx_token_text(&p->token, text));
    }
}

static void parse_module(ptx_parser *p)
{
    ptx_next(p);
    while (p->token.kind != PTX_TOKEN_END) {
        if (ptx_accept_dot(p, "version")) {
            parse_version(p);
        } else if (!p->versioned) {
            ptx_fail(p, 0, "a module begins with .version");
        } else if (ptx_accept_dot(p, "target")) {
            parse_target(p);
        } else if (!p->targeted) {
            ptx_fail(p, 0, ".target must follow .version");
        } else if (ptx_accept_dot(p, "address_size")) {
            ptx_take_integer(p, 64, 64);
        } else if (!ptx_parse_debug(p)) {
            parse_linked(p);
        }
    }
    if (!p->targeted) {
        ptx_fail(p, 0, "a module begins with .version and .target");
    }
}

static void fill_data(ptx_parser *p)
{
    ptx_module *m = p->module;
    size_t size = ptx_align_up(m->data_size + 1, 256);
    m->data = aligned_alloc(256, size);
    if (!m->data) {
        ptx_fail(p, 0, "out of memory");
    }
    memset(m->data, 0, size);
    for (const ptx_initial *initial = p->initials; initial; initial = initial->next) {
        uint64_t bits = initial->bits;
        if (initial->symbol) {
            bits += (uint64_t)(uintptr_t)m->data + initial->symbol->offset;
        }
        memcpy(m->data + initial->offset, &bits, initial->size);
    }
}

ptx_module *ptx_module_load(const char *text, size_t size, char *error, size_t error_size)
{
    ptx_module *volatile module = calloc(1, sizeof *module); /* volatile: setjmp */
    ptx_parser *p = calloc(1, sizeof *p);
    struct ptx_arena *arena = calloc(1, sizeof *arena);
    if (!module || !p || !arena || size > PTX_MAX_TEXT) {
        snprintf(error, error_size, size > PTX_MAX_TEXT ? "the text is too large" : "out of memory");
        free(module);
        free(p);
        free(arena);
        return NULL;
    }
    arena->parser = p;
    module->arena = arena;
    *p = (ptx_parser){
        .module = module, .error = error, .error_size = error_size, .at = text, .end = text + size, .line = 1};
    p->last_initial = &p->initials;
    p->last_function = &module->functions;
    bool good = setjmp(p->escape) == 0;
    if (good) {
        parse_module(p);
        fill_data(p);
        for (ptx_function *f = module->functions; f; f = f->next) {
            ptx_bind_function(p, f);
        }
    } else {
        ptx_module_free(module);
        module = NULL;
    }
    free(p->bucket);
    free(p->insn);
    free(p->register_name);
    free(p);
    return module;
}

const ptx_function *ptx_module_entry(const ptx_module *module, const char *name)
{
    const ptx_function *f = module->functions;
    while (f && strcmp(f->name, name) != 0) {
        f = f->next;
    }
    return f;
}

const ptx_symbol *ptx_module_symbol(const ptx_module *module, const char *name)
{
    const ptx_symbol *symbol = module->symbols;
    while (symbol &&
           !((symbol->space == PTX_GLOBAL || symbol->space == PTX_CONST) && strcmp(symbol->name, name) == 0)) {
        symbol = symbol->next;
    }
    return symbol;
}
