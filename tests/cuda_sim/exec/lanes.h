/* lanes.h - handlers that compute each lane's result from the same lane's sources.
 *
 * All 32 lanes are computed, which the compiler turns into vector instructions, and those of the mask are stored: an
 * expression must not trap for any value. Inside it the sources are a, b and c, and the instruction is i. */
#ifndef LANES_H
#define LANES_H

#include "../ptx/bind.h"
#include "sim.h"
#include <string.h>

static inline void sim_store(uint8_t *to, const void *from, size_t size, uint32_t mask)
{
    if (mask == UINT32_MAX) {
        memcpy(to, from, size * PTX_LANES);
        return;
    }
    SIM_FOR_LANES(lane, mask)
    {
        memcpy(to + lane * size, (const uint8_t *)from + lane * size, size);
    }
}

static inline void sim_store_predicate(sim_warp *w, uint32_t slot, uint32_t bits, uint32_t mask)
{
    uint32_t *p = sim_pred(w, slot);
    *p = (*p & ~mask) | (bits & mask);
}

#define SIM_SLOT(type, slot) ((const type *)(const void *)(w->file + (slot)))
#define SIM_HANDLER(name)    static sim_next name(sim_warp *w, const ptx_insn *i, uint32_t mask)

#define SIM_LANES_1(name, D, A, expression)                                                                            \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const A *pa = SIM_SLOT(A, i->a);                                                                               \
        D r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            A a = pa[l];                                                                                               \
            r[l] = (D)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }

#define SIM_LANES_2(name, D, A, B, expression)                                                                         \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const A *pa = SIM_SLOT(A, i->a);                                                                               \
        const B *pb = SIM_SLOT(B, i->b);                                                                               \
        D r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            A a = pa[l];                                                                                               \
            B b = pb[l];                                                                                               \
            r[l] = (D)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }

#define SIM_LANES_3(name, D, A, B, C, expression)                                                                      \
    SIM_HANDLER(name)                                                                                                  \
    {                                                                                                                  \
        const A *pa = SIM_SLOT(A, i->a);                                                                               \
        const B *pb = SIM_SLOT(B, i->b);                                                                               \
        const C *pc = SIM_SLOT(C, i->c);                                                                               \
        D r[PTX_LANES];                                                                                                \
        for (uint32_t l = 0; l < PTX_LANES; l++) {                                                                     \
            A a = pa[l];                                                                                               \
            B b = pb[l];                                                                                               \
            C c = pc[l];                                                                                               \
            r[l] = (D)(expression);                                                                                    \
        }                                                                                                              \
        sim_store(w->file + i->d, r, sizeof r[0], mask);                                                               \
        return SIM_NEXT;                                                                                               \
    }

/* Operands d, a[, b[, c]], all of insn->type. */
static inline bool sim_bind_same(ptx_bind *b, uint32_t sources, sim_handler run)
{
    ptx_insn *i = b->insn;
    if (!bind_end(b) || !bind_operands(b, sources + 1)) {
        return false;
    }
    uint32_t *slots[] = {&i->a, &i->b, &i->c};
    for (uint32_t s = 0; s < sources && s < sizeof slots / sizeof slots[0]; s++) {
        *slots[s] = bind_source(b, s + 1, (ptx_type)i->type);
    }
    i->d = bind_dest(b, 0, (ptx_type)i->type);
    i->run = run;
    return bind_ok(b);
}

/* The type named by the last suffix: says which of the families that share a mnemonic is meant. */
static inline ptx_type sim_last_type(const ptx_bind *b)
{
    const ptx_insn *i = b->insn;
    for (int type = PTX_NO_TYPE + 1; i->suffix_count && type < PTX_TYPE_COUNT; type++) {
        if (strcmp(i->suffix[i->suffix_count - 1], ptx_type_name((ptx_type)type)) == 0) {
            return (ptx_type)type;
        }
    }
    return PTX_NO_TYPE;
}

/* 16, 32 or 64 bits that are bits, an integer, or a number of a type that registers are declared with. */
static inline bool sim_is_plain(ptx_type type)
{
    uint32_t size = ptx_type_size(type);
    return ptx_type_is_float(type) ? type == PTX_F32 || type == PTX_F64 : size == 2 || size == 4 || size == 8;
}

/* op_float.c: binds an instruction of floating-point type by its mnemonic. */
bool sim_bind_float(ptx_bind *b);

#endif
