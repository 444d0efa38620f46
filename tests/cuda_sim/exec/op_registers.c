/* op_registers.c - setmaxnreg: warpgroups hand each other registers of what their block was launched with (PTX ISA
 * "setmaxnreg").
 *
 * With how many that is, ptxas 13.0 knows from .maxnreg and from .minnctapersm with .maxntid or .reqntid, for which it
 * takes the warps in fours; where it does not know, it leaves setmaxnreg out, and so nothing is counted here either. A
 * thread's registers come by eight. What a warp has when it ends is not given back: the ISA does not say that it is. */
#include "op_memory.h"
#include <stdio.h>

enum {
    MIN_REGISTERS = 24,
    MAX_REGISTERS = 256,
    REGISTER_STEP = 8,
    SM_REGISTERS = 65536,
    GROUP_WARPS = 4,
};

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Of a thread at the launch; 0: not known. */
static uint32_t launched_with(const ptx_function *function)
{
    const uint32_t group = GROUP_WARPS * PTX_LANES, threads = ptx_max_threads(function);
    uint32_t most = function->max_registers;
    if (function->min_blocks && threads) {
        uint64_t all = (uint64_t)((threads + group - 1) / group * group) * function->min_blocks;
        uint32_t fit = (uint32_t)(SM_REGISTERS / all) / REGISTER_STEP * REGISTER_STEP;
        most = most ? lesser(most, fit) : fit;
    }
    return lesser((most + REGISTER_STEP - 1) / REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS);
}

void sim_registers_begin(sim_block *block)
{
    uint32_t registers = launched_with(block->cluster->worker->run->function);
    block->free_registers = 0;
    for (uint32_t w = 0; w < block->warp_count; w++) {
        block->warp[w].registers = registers;
        block->warp[w].register_changes = 0;
        block->warp[w].register_change = NULL;
    }
}

/* Warps of a warpgroup change their registers by the same instruction, and none a second time before all have once. */
static sim_next agree(sim_warp *warp, const ptx_insn *insn)
{
    sim_warp *first = warp - warp->id % GROUP_WARPS;
    if (first->id + GROUP_WARPS > warp->block->warp_count) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "warp %u is in no warpgroup of four warps",
                            warp->id);
    }
    for (uint32_t w = 0; w < GROUP_WARPS; w++) {
        const sim_warp *other = &first[w];
        if (other->register_changes > warp->register_changes && other->register_change != insn) {
            return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION,
                                "warp %u of this warpgroup has executed that of line %u instead", other->id,
                                other->register_change->line);
        }
        if (other->register_changes < warp->register_changes ||
            (!other->live && other != warp && other->register_changes == warp->register_changes)) {
            return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "warp %u of this warpgroup has %s", other->id,
                                other->live ? "not yet executed the one before" : "ended without it");
        }
    }
    return SIM_NEXT;
}

static sim_next run_setmaxnreg(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = sim_converge(warp, insn, mask, warp->live);
    if (next != SIM_NEXT || (next = agree(warp, insn)) != SIM_NEXT) {
        return next;
    }
    sim_block *block = warp->block;
    const bool grows = insn->flag != 0, counted = warp->registers != 0;
    const uint32_t from = warp->registers, to = insn->value;
    if (counted && (grows ? to < from : to > from)) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_INSTRUCTION, "%s to %u registers from %u", grows ? "inc" : "dec",
                            to, from);
    }
    if (counted && grows && (to - from) * PTX_LANES > block->free_registers) {
        return SIM_WAIT;
    }
    if (counted) {
        block->free_registers += (from - to) * PTX_LANES; /* modulo 2^32 where it grows */
        warp->registers = to;
        sim_wake(block->cluster);
    }
    warp->register_changes++;
    warp->register_change = insn;
    return SIM_NEXT;
}

sim_next sim_registers_warp_ends(sim_warp *warp)
{
    sim_warp *first = warp - warp->id % GROUP_WARPS;
    for (uint32_t w = 0; w < GROUP_WARPS && first->id + w < warp->block->warp_count; w++) {
        if (first[w].register_changes > warp->register_changes) {
            return sim_fault_at(&first[w], first[w].register_change, -1, SIM_FAULT_INSTRUCTION,
                                "warp %u of this warpgroup has ended without it", warp->id);
        }
    }
    return SIM_NEXT;
}

void sim_registers_explain(const sim_warp *warp, const ptx_insn *insn, char *text, size_t size)
{
    snprintf(text, size, "%u more registers for each of its threads are %u, of which its block has %u free",
             insn->value - warp->registers, (insn->value - warp->registers) * PTX_LANES, warp->block->free_registers);
}

static bool bind_setmaxnreg(ptx_bind *b)
{
    static const char *const actions[] = {"dec", "inc", NULL};
    int action = bind_choice(b, actions);
    if (action < 0 || !bind_take(b, "sync") || !bind_take(b, "aligned") || bind_type(b) != PTX_U32) {
        return bind_fail(b, "not .inc or .dec with .sync.aligned.u32");
    }
    if (b->module->target < SM_90 || !b->module->arch_specific) {
        return bind_fail(b, "it needs sm_90a");
    }
    int64_t count = 0;
    if (!bind_end(b) || !bind_operands(b, 1) || !bind_constant(b, &b->insn->operand[0], &count)) {
        return false;
    }
    if (count < MIN_REGISTERS || count > MAX_REGISTERS || count % REGISTER_STEP) {
        return bind_fail(b, "the count is not a multiple of 8 in 24..256");
    }
    b->insn->flag = (uint8_t)action;
    b->insn->value = (uint32_t)count;
    b->insn->run = run_setmaxnreg;
    return bind_ok(b);
}

const ptx_op ptx_ops_registers[] = {
    {"setmaxnreg", bind_setmaxnreg},
    {NULL, NULL},
};
