/* scope.c - what names mean in the scopes of a function's body, and labels that are used before they are declared. */
#include "parser.h"
#include <stdlib.h>
#include <string.h>

void ptx_open_scope(ptx_parser *p)
{
    if (p->depth + 1 == PTX_MAX_DEPTH) {
        ptx_fail(p, 0, "more than %d scopes in each other", PTX_MAX_DEPTH);
    }
    p->scope[++p->depth] = (ptx_scope){0};
}

static ptx_declaration *declare_at(ptx_parser *p, ptx_name *name, ptx_declared kind, uint32_t depth)
{
    ptx_declaration *d = ptx_alloc(p->module, sizeof *d);
    ptx_declaration **top = kind == PTX_DECLARED_RANGE ? &name->range : &name->declared;
    *d = (ptx_declaration){.kind = kind, .depth = depth, .name = name, .outer = *top, .lanes = 1};
    d->sibling = p->scope[depth].first;
    p->scope[depth].first = d;
    *top = d;
    return d;
}

/* Index that `digits` has in a range: no leading zero, below `count`. */
static bool range_index(const char *digits, uint32_t count)
{
    size_t size = strlen(digits);
    if (size == 0 || size > 9 || (digits[0] == '0' && size > 1)) {
        return false;
    }
    return strtoul(digits, NULL, 10) < count;
}

/* The innermost range name<count> that `name` is one of; "%r12" may be %r<..>'s 12 or %r1<..>'s 2. */
static const ptx_declaration *find_range(ptx_parser *p, const ptx_name *name)
{
    const ptx_declaration *best = NULL;
    size_t size = strlen(name->text);
    for (size_t at = size; at > 1 && name->text[at - 1] >= '0' && name->text[at - 1] <= '9'; at--) {
        const ptx_name *prefix = ptx_known_name(p, name->text, at - 1);
        const ptx_declaration *range = prefix ? prefix->range : NULL;
        if (!range || !range_index(name->text + at - 1, range->count)) {
            continue;
        }
        if (best && best->depth == range->depth) {
            ptx_fail(p, 0, "\"%.64s\" is declared twice", name->text);
        }
        best = !best || range->depth > best->depth ? range : best;
    }
    return best;
}

ptx_declaration *ptx_look_up(ptx_parser *p, ptx_name *name)
{
    ptx_declaration *exact = name->declared;
    if (exact && exact->depth == p->depth) {
        return exact;
    }
    const ptx_declaration *range = find_range(p, name);
    if (!range || (exact && exact->depth >= range->depth)) {
        return exact;
    }
    ptx_declaration *d = declare_at(p, name, PTX_DECLARED_REGISTER, range->depth);
    d->type = range->type;
    d->lanes = range->lanes;
    return d;
}

ptx_declaration *ptx_declare(ptx_parser *p, ptx_name *name, ptx_declared kind)
{
    const ptx_declaration *old = kind == PTX_DECLARED_RANGE ? name->range : ptx_look_up(p, name);
    if (old && old->depth == p->depth) {
        ptx_fail(p, 0, "\"%.64s\" is declared twice", name->text);
    }
    return declare_at(p, name, kind, p->depth);
}

static void resolve(ptx_parser *p, ptx_label_use *use, const ptx_declaration *d)
{
    if (d->kind == PTX_DECLARED_LABEL) {
        use->operand->target = d->target;
    } else if (d->kind == PTX_DECLARED_TARGETS) {
        *use->operand = *d->targets;
    } else {
        ptx_fail(p, use->line, "\"%.64s\" is not a label", use->name->text);
    }
}

/* Labels that this scope declares are now known; what else was named is for the scope around it. */
void ptx_close_scope(ptx_parser *p)
{
    ptx_scope *scope = &p->scope[p->depth];
    for (ptx_label_use *use = scope->uses, *next; use; use = next) {
        next = use->next;
        const ptx_declaration *d = use->name->declared;
        if (d && d->depth == p->depth) {
            resolve(p, use, d);
        } else if (p->depth > 1) {
            use->next = p->scope[p->depth - 1].uses;
            p->scope[p->depth - 1].uses = use;
        } else {
            ptx_fail(p, use->line, "\"%.64s\" is not known here", use->name->text);
        }
    }
    for (ptx_declaration *d = scope->first; d; d = d->sibling) {
        *(d->kind == PTX_DECLARED_RANGE ? &d->name->range : &d->name->declared) = d->outer;
    }
    p->depth--;
}
