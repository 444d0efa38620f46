/* op_move.c - mov with its packing and unpacking forms, and cvta. */
#include "lanes.h"

SIM_LANES_1(mov_32, uint32_t, uint32_t, a)
SIM_LANES_1(mov_64, uint64_t, uint64_t, a)

SIM_HANDLER(mov_pred)
{
    sim_store_predicate(w, i->d, *sim_pred(w, i->a) ^ (i->flag ? UINT32_MAX : 0), mask);
    return SIM_NEXT;
}

/* Parts of a vector, from the lowest bits up. width: bytes of a part, extra: of the whole; data: the parts' slots. */
SIM_HANDLER(pack)
{
    const uint32_t *slots = i->data;
    SIM_FOR_LANES(l, mask)
    {
        uint64_t whole = 0;
        for (uint32_t p = 0; p < i->count; p++) {
            uint64_t part = i->width == 8 ? sim_u64(w, slots[p])[l] : sim_u32(w, slots[p])[l];
            whole |= part << (8 * i->width * p % 64);
        }
        if (i->extra == 8) {
            sim_u64(w, i->d)[l] = whole;
        } else {
            sim_u32(w, i->d)[l] = (uint32_t)whole;
        }
    }
    return SIM_NEXT;
}

SIM_HANDLER(unpack)
{
    const uint32_t *slots = i->data;
    uint64_t part = i->width == 4 ? UINT32_MAX : i->width == 2 ? UINT16_MAX : UINT8_MAX;
    SIM_FOR_LANES(l, mask)
    {
        uint64_t whole = i->extra == 8 ? sim_u64(w, i->a)[l] : sim_u32(w, i->a)[l];
        for (uint32_t p = 0; p < i->count; p++) {
            sim_u32(w, slots[p])[l] = (uint32_t)(whole >> (8 * i->width * p) & part);
        }
    }
    return SIM_NEXT;
}

static bool bind_vector_move(ptx_bind *b, ptx_type type, uint32_t vector_index)
{
    ptx_insn *i = b->insn;
    ptx_operand *vector = &i->operand[vector_index];
    uint32_t size = ptx_type_size(type), part = vector->count ? size / vector->count : 0;
    ptx_type part_type = part == 4 ? PTX_B32 : part == 2 ? PTX_B16 : PTX_B8;
    if (part == 0 || part == 8 || size > 8 || part * vector->count != size ||
        (vector->count != 2 && vector->count != 4)) {
        return bind_fail(b, "cannot split .%s into %u parts", ptx_type_name(type), vector->count);
    }
    uint32_t *slots = bind_alloc(b, vector->count * sizeof *slots);
    for (uint32_t p = 0; p < vector->count; p++) {
        slots[p] = vector_index ? bind_source_operand(b, &vector->element[p], part_type)
                                : bind_dest_or_sink(b, &vector->element[p], part_type);
    }
    i->data = slots;
    i->count = (uint8_t)vector->count;
    i->width = (uint8_t)part;
    i->extra = (uint8_t)size;
    if (vector_index) {
        i->d = bind_dest(b, 0, type);
        i->run = pack;
    } else {
        i->a = bind_source(b, 1, type);
        i->run = unpack;
    }
    return bind_ok(b);
}

static bool bind_mov(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    ptx_type type = bind_type(b);
    uint32_t size = ptx_type_size(type);
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    if (type == PTX_PRED) {
        bool negated = false;
        i->a = bind_predicate(b, &i->operand[1], &negated);
        i->flag = negated;
        i->d = bind_dest(b, 0, PTX_PRED);
        i->run = mov_pred;
        return bind_ok(b);
    }
    if (i->operand[0].kind == PTX_VECTOR || i->operand[1].kind == PTX_VECTOR) {
        return bind_vector_move(b, type, i->operand[0].kind == PTX_VECTOR ? 0 : 1);
    }
    i->d = bind_dest(b, 0, type);
    i->a = bind_source(b, 1, type);
    i->run = sim_is_plain(type) ? (size == 8 ? mov_64 : mov_32) : NULL;
    return bind_ok(b);
}

/* --- cvta: an address of a space to or from a generic one --- */

SIM_LANES_1(to_shared_window, uint64_t, uint64_t, (a & UINT32_MAX) | SIM_SHARED_WINDOW)
SIM_LANES_1(to_local_window, uint64_t, uint64_t, (a & UINT32_MAX) | SIM_LOCAL_WINDOW)
SIM_LANES_1(to_param_window, uint64_t, uint64_t, (a & UINT32_MAX) | SIM_PARAM_WINDOW)
SIM_LANES_1(out_of_window, uint64_t, uint64_t, a &UINT32_MAX)

static bool bind_cvta(ptx_bind *b)
{
    static const sim_handler into[] = {[PTX_GLOBAL] = mov_64,
                                       [PTX_SHARED] = to_shared_window,
                                       [PTX_LOCAL] = to_local_window,
                                       [PTX_CONST] = mov_64,
                                       [PTX_PARAM] = to_param_window};
    bool to = bind_take(b, "to");
    ptx_space space = bind_space_if(b);
    if (space == PTX_GENERIC || bind_type(b) != PTX_U64) {
        return bind_fail(b, "needs a space, and .u64");
    }
    b->insn->type = PTX_U64;
    bool host = space == PTX_GLOBAL || space == PTX_CONST;
    return sim_bind_same(b, 1, to && !host ? out_of_window : into[space]);
}

const ptx_op ptx_ops_move[] = {{"mov", bind_mov}, {"cvta", bind_cvta}, {NULL, NULL}};
