/* op_control.c - branches, exits, and what only tells the hardware something. */
#include "op_memory.h"

static sim_next run_bra(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_branch(warp, mask, insn->value);
    return SIM_MOVED;
}

static sim_next run_bra_uni(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    if (mask != warp->split[warp->current].mask) {
        return sim_fault_at(warp, insn, __builtin_ctz(mask), SIM_FAULT_DIVERGENT,
                            "divergent: only lanes 0x%08x of 0x%08x take it", mask, warp->split[warp->current].mask);
    }
    return run_bra(warp, insn, mask);
}

static bool bind_bra(ptx_bind *b)
{
    bool uniform = bind_take(b, "uni");
    if (!bind_end(b) || !bind_operands(b, 1)) {
        return false;
    }
    if (b->insn->operand[0].kind != PTX_LABEL) {
        return bind_fail(b, "the operand is not a label");
    }
    b->insn->value = b->insn->operand[0].target;
    b->insn->run = uniform ? run_bra_uni : run_bra;
    return bind_ok(b);
}

/* brx.idx index, {label, ...}: .branchtargets names the list. */
static sim_next run_brx(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const ptx_operand *list = &insn->operand[1];
    const uint32_t *index = sim_u32(warp, insn->a);
    sim_split *split = &warp->split[warp->current];
    bool some_stay = mask != split->mask;
    for (uint32_t rest = mask; rest;) {
        uint32_t lane = (uint32_t)__builtin_ctz(rest), alike = 0;
        if (index[lane] >= list->count) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "index %u of %u targets", index[lane],
                                list->count);
        }
        SIM_FOR_LANES(other, rest)
        {
            alike |= index[other] == index[lane] ? UINT32_C(1) << other : 0;
        }
        rest &= ~alike;
        sim_move(warp, alike, list->element[index[lane]].target);
    }
    split->pc += some_stay;
    return SIM_MOVED;
}

static bool bind_brx(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (!bind_take(b, "idx")) {
        return bind_fail(b, "only brx.idx is known");
    }
    bind_take(b, "uni");
    if (!bind_end(b) || !bind_operands(b, 2)) {
        return false;
    }
    bool labels = i->operand[1].kind == PTX_VECTOR && i->operand[1].count > 0;
    for (uint32_t e = 0; labels && e < i->operand[1].count; e++) {
        labels = i->operand[1].element[e].kind == PTX_LABEL;
    }
    if (!labels) {
        return bind_fail(b, "the second operand is not a list of labels");
    }
    i->a = bind_source(b, 0, PTX_U32);
    i->run = run_brx;
    return bind_ok(b);
}

static sim_next run_exit(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)insn;
    sim_exit(warp, mask);
    return SIM_MOVED;
}

static bool bind_exit(ptx_bind *b)
{
    bind_take(b, "uni"); /* ret.uni */
    b->insn->run = run_exit;
    return bind_end(b) && bind_operands(b, 0);
}

static sim_next run_trap(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    return sim_fault_at(warp, insn, __builtin_ctz(mask), SIM_FAULT_TRAP, "the kernel trapped");
}

static bool bind_trap(ptx_bind *b)
{
    b->insn->run = run_trap;
    return bind_end(b) && bind_operands(b, 0);
}

static sim_next run_yield(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return SIM_YIELD;
}

static sim_next run_nothing(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return SIM_NEXT;
}

static bool bind_nanosleep(ptx_bind *b)
{
    if (bind_type(b) != PTX_U32 || !bind_end(b) || !bind_operands(b, 1)) {
        return bind_fail(b, "the type is not .u32");
    }
    bind_source(b, 0, PTX_U32);
    b->insn->run = run_yield;
    return bind_ok(b);
}

/* griddepcontrol: a stream's launches follow each other here, so there is nothing to wait for. */
static bool bind_griddepcontrol(ptx_bind *b)
{
    static const char *const actions[] = {"launch_dependents", "wait", NULL};
    if (bind_choice(b, actions) < 0) {
        return bind_fail(b, "neither .launch_dependents nor .wait");
    }
    b->insn->run = run_nothing;
    return bind_needs_target(b, SM_90, "griddepcontrol") && bind_end(b) && bind_operands(b, 0);
}

const ptx_op ptx_ops_control[] = {
    {"bra", bind_bra},
    {"brx", bind_brx},
    {"ret", bind_exit},
    {"exit", bind_exit},
    {"trap", bind_trap},
    {"nanosleep", bind_nanosleep},
    {"griddepcontrol", bind_griddepcontrol},
    {NULL, NULL},
};
