/* op_mbarrier.c - the mbarrier instructions. PTX ISA "Parallel Synchronization and Communication Instructions:
 * mbarrier". */
#include "barrier.h"
#include "op_memory.h"

typedef enum { ARRIVE_PLAIN, ARRIVE_EXPECT_TX, ARRIVE_NO_COMPLETE } arrive_kind;

/* Slots of all of them: a: address, with its offset in `address`; b: count, bytes, state or parity if there is one;
 * d: result. width: 64-bit addresses. */
typedef struct mbarrier_form {
    const ptx_operand *address;
    bool has_count; /* b is there */
    bool drop;      /* arrive_drop */
    bool relaxed;   /* neither release nor acquire */
    bool remote;    /* another block's barrier will do */
    bool cluster;   /* .shared::cluster */
    bool parity, waits, completes, state;
} mbarrier_form;

static void addresses_of(const sim_warp *warp, const ptx_insn *insn, uint64_t *address)
{
    const mbarrier_form *form = insn->data;
    sim_addresses(warp, insn->a, insn->width != 0, form->address->offset, address);
}

static sim_mbarrier *barrier_of(sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint64_t address,
                                sim_block **owner)
{
    const mbarrier_form *form = insn->data;
    return sim_mbarrier_at(warp, insn, lane, (ptx_space)insn->space, address, form->remote, owner);
}

/* --- suffixes and operands --- */

/* {.sem.scope}: the default is .release or .acquire (`name`) at .cta scope; relaxed must name its scope. */
static bool take_order(ptx_bind *b, const char *name, bool *is_relaxed)
{
    bool relaxed = bind_take(b, "relaxed"), named = !relaxed && name && bind_take(b, name);
    *is_relaxed = relaxed || !name;
    if (relaxed && !bind_needs_target(b, SM_90, ".relaxed")) {
        return false;
    }
    if ((!relaxed && !named) || bind_take(b, "cta")) {
        return true;
    }
    return bind_take(b, "cluster") ? bind_needs_target(b, SM_90, "scope .cluster")
                                   : bind_fail(b, "the scope is neither .cta nor .cluster");
}

static bool take_space(ptx_bind *b, mbarrier_form *form, bool may_be_remote)
{
    bool cluster = bind_take(b, "shared::cluster");
    bool own = !cluster && (bind_take(b, "shared::cta") || bind_take(b, "shared"));
    if (cluster && !may_be_remote) {
        return bind_fail(b, "only barriers of the own block");
    }
    form->remote = may_be_remote && !own;
    form->cluster = cluster;
    b->insn->space = own || cluster ? PTX_SHARED : PTX_GENERIC;
    return !cluster || bind_needs_target(b, SM_90, ".shared::cluster");
}

static bool take_address(ptx_bind *b, mbarrier_form *form, uint32_t index)
{
    ptx_operand *operand = &b->insn->operand[index];
    if (operand->kind != PTX_ADDRESS || operand->count) {
        return bind_fail(b, "operand %u is not an address", index + 1);
    }
    bool wide = false;
    b->insn->a = bind_address(b, operand, &wide);
    b->insn->width = wide;
    if (b->insn->space == PTX_GENERIC && !wide && operand->base && operand->base->kind == PTX_REGISTER) {
        return bind_fail(b, "a generic address must have 64 bits");
    }
    form->address = operand;
    return bind_ok(b);
}

static mbarrier_form *new_form(ptx_bind *b)
{
    mbarrier_form *form = bind_alloc(b, sizeof *form);
    b->insn->data = form;
    return form;
}

static bool take_b64(ptx_bind *b)
{
    return (bind_take(b, "b64") && bind_end(b)) || bind_fail(b, "not .b64");
}

/* --- init, inval --- */

static sim_next run_init(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint64_t address[PTX_LANES];
    uint8_t *host[PTX_LANES];
    const uint32_t *count = sim_u32(warp, insn->b);
    addresses_of(warp, insn, address);
    sim_next next =
        sim_reach_warp(warp, insn, mask, (ptx_space)insn->space, address, sizeof(uint64_t), SIM_WRITE, host);
    SIM_FOR_LANES(lane, mask)
    {
        sim_block *owner = NULL;
        uint32_t offset = 0;
        if (next == SIM_FAULT || !sim_reach(warp, insn, lane, (ptx_space)insn->space, address[lane], sizeof(uint64_t),
                                            SIM_WRITE, &owner, &offset)) {
            return SIM_FAULT;
        }
        if (owner != warp->block) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "not in the own block's shared memory");
        }
        next = sim_mbarrier_init(warp, insn, lane, offset, count[lane]);
    }
    return next;
}

static bool bind_init(ptx_bind *b)
{
    mbarrier_form *form = new_form(b);
    if (!take_space(b, form, false) || !take_b64(b) || !bind_operands(b, 2) || !take_address(b, form, 0)) {
        return false;
    }
    b->insn->b = bind_source(b, 1, PTX_U32);
    b->insn->run = run_init;
    return bind_ok(b);
}

static sim_next run_inval(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint64_t address[PTX_LANES];
    addresses_of(warp, insn, address);
    SIM_FOR_LANES(lane, mask)
    {
        sim_block *owner;
        sim_mbarrier *barrier = barrier_of(warp, insn, lane, address[lane], &owner);
        if (!barrier) {
            return SIM_FAULT;
        }
        barrier->live = false;
    }
    return SIM_NEXT;
}

static bool bind_inval(ptx_bind *b)
{
    mbarrier_form *form = new_form(b);
    if (!take_space(b, form, false) || !take_b64(b) || !bind_operands(b, 1) || !take_address(b, form, 0)) {
        return false;
    }
    b->insn->run = run_inval;
    return bind_ok(b);
}

/* --- arrive, arrive_drop --- */

static sim_next arrive(sim_warp *warp, const ptx_insn *insn, uint32_t lane, sim_block *owner, sim_mbarrier *barrier)
{
    const mbarrier_form *form = insn->data;
    uint32_t operand = form->has_count ? sim_u32(warp, insn->b)[lane] : 1;
    bool expects = insn->kind == ARRIVE_EXPECT_TX;
    uint32_t count = expects ? 1 : operand;
    if (form->state) {
        sim_u64(warp, insn->d)[lane] = sim_mbarrier_state(barrier);
    }
    if (expects && sim_mbarrier_expect(warp, insn, lane, owner, barrier, operand) == SIM_FAULT) {
        return SIM_FAULT;
    }
    if (insn->kind == ARRIVE_NO_COMPLETE && count >= barrier->pending) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "it completes the phase: %u arrivals of %u",
                            count, barrier->pending);
    }
    if (form->drop && count <= barrier->expected) {
        barrier->expected -= count;
    }
    return sim_mbarrier_arrive(warp, insn, lane, owner, barrier, count, form->relaxed);
}

/* All look first: what the lanes of one instruction did before, they did at one time. */
static sim_next run_arrive(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint64_t address[PTX_LANES];
    sim_block *owner[PTX_LANES];
    sim_mbarrier *barrier[PTX_LANES];
    addresses_of(warp, insn, address);
    SIM_FOR_LANES(lane, mask)
    {
        barrier[lane] = barrier_of(warp, insn, lane, address[lane], &owner[lane]);
        if (!barrier[lane]) {
            return SIM_FAULT;
        }
    }
    SIM_FOR_LANES(lane, mask)
    {
        if (arrive(warp, insn, lane, owner[lane], barrier[lane]) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_NEXT;
}

/* state or "_", address, and a count that may be left out. */
static bool take_arrival(ptx_bind *b, mbarrier_form *form)
{
    ptx_insn *i = b->insn;
    form->has_count = i->operand_count == 3;
    if (!bind_operands(b, i->kind != ARRIVE_PLAIN || form->has_count ? 3 : 2) || !take_address(b, form, 1)) {
        return false;
    }
    bool newer = i->kind == ARRIVE_EXPECT_TX || (i->kind == ARRIVE_PLAIN && form->has_count);
    if (newer && !bind_needs_target(b, SM_90, ".expect_tx, or a count without .noComplete,")) {
        return false;
    }
    form->state = i->operand[0].kind != PTX_SINK;
    if (form->state && form->cluster) {
        return bind_fail(b, "the state of a barrier of .shared::cluster cannot be had");
    }
    i->b = form->has_count ? bind_source(b, 2, PTX_U32) : 0;
    i->d = form->state ? bind_dest(b, 0, PTX_B64) : 0;
    return bind_ok(b);
}

static bool bind_arrive(ptx_bind *b, bool drop)
{
    mbarrier_form *form = new_form(b);
    b->insn->kind = bind_take(b, "expect_tx")    ? ARRIVE_EXPECT_TX
                    : bind_take(b, "noComplete") ? ARRIVE_NO_COMPLETE
                                                 : ARRIVE_PLAIN;
    form->drop = drop;
    b->insn->run = run_arrive;
    return take_order(b, "release", &form->relaxed) && take_space(b, form, true) && take_b64(b) &&
           take_arrival(b, form);
}

/* --- expect_tx, complete_tx --- */

static sim_next run_tx(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const mbarrier_form *form = insn->data;
    const uint32_t *bytes = sim_u32(warp, insn->b);
    uint64_t address[PTX_LANES];
    addresses_of(warp, insn, address);
    SIM_FOR_LANES(lane, mask)
    {
        sim_block *owner;
        sim_mbarrier *barrier = barrier_of(warp, insn, lane, address[lane], &owner);
        int64_t change = form->completes ? -(int64_t)bytes[lane] : (int64_t)bytes[lane];
        if (!barrier || sim_mbarrier_expect(warp, insn, lane, owner, barrier, change) == SIM_FAULT) {
            return SIM_FAULT;
        }
    }
    return SIM_NEXT;
}

static bool bind_tx(ptx_bind *b, bool completes)
{
    mbarrier_form *form = new_form(b);
    form->completes = completes;
    if (!bind_needs_target(b, SM_90, completes ? "complete_tx" : "expect_tx")) {
        return false;
    }
    if (!take_order(b, NULL, &form->relaxed) || !take_space(b, form, true) || !take_b64(b) || !bind_operands(b, 2) ||
        !take_address(b, form, 0)) {
        return false;
    }
    b->insn->b = bind_source(b, 1, PTX_U32);
    b->insn->run = run_tx;
    return bind_ok(b);
}

/* --- test_wait, try_wait --- */

/* Whether the phase that the operand names is over: a state must be of this phase or of the one before it. */
static sim_next phase_over(sim_warp *warp, const ptx_insn *insn, uint32_t lane, const sim_mbarrier *barrier, bool *over)
{
    const mbarrier_form *form = insn->data;
    if (form->parity) {
        uint32_t parity = sim_u32(warp, insn->b)[lane];
        if (parity > 1) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "a parity of %u", parity);
        }
        *over = (barrier->phase & 1) != parity;
        return SIM_NEXT;
    }
    uint64_t now = sim_mbarrier_state(barrier) >> SIM_MBARRIER_PHASE,
             then = sim_u64(warp, insn->b)[lane] >> SIM_MBARRIER_PHASE;
    uint64_t behind = (now - then) & SIM_MBARRIER_PHASES;
    if (behind > 1) {
        return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_INSTRUCTION, "the state is %u phases old",
                            (uint32_t)behind);
    }
    *over = behind == 1;
    return SIM_NEXT;
}

static void learn(sim_warp *warp, const sim_mbarrier *barrier, uint32_t lanes, const mbarrier_form *form)
{
    if (barrier) {
        sim_mbarrier_acquire(warp, lanes, barrier, form->relaxed);
    }
}

/* A failed try_wait is suspended until something happens; how long at most is not specified. At random times it gives
 * up now and then. */
static bool gives_up(const sim_warp *warp)
{
    enum { ONE_IN = 4 };
    return sim_opts(warp)->timing == SIM_SEEDED && sim_random(warp->block->cluster) % ONE_IN == 0;
}

static sim_next run_wait(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const mbarrier_form *form = insn->data;
    const sim_mbarrier *last = NULL; /* one that is over, and lanes that wait for it, one behind the other */
    uint64_t address[PTX_LANES];
    uint32_t over = 0, learners = 0;
    addresses_of(warp, insn, address);
    SIM_FOR_LANES(lane, mask)
    {
        sim_block *owner;
        sim_mbarrier *barrier = barrier_of(warp, insn, lane, address[lane], &owner);
        bool is_over = false;
        if (!barrier || phase_over(warp, insn, lane, barrier, &is_over) == SIM_FAULT) {
            return SIM_FAULT;
        }
        if (is_over && barrier != last) {
            learn(warp, last, learners, form);
            last = barrier;
            learners = 0;
        }
        learners |= (uint32_t)is_over << lane;
        over |= (uint32_t)is_over << lane;
    }
    learn(warp, last, learners, form);
    if (!over && form->waits && !gives_up(warp)) {
        return SIM_WAIT;
    }
    uint32_t *d = sim_pred(warp, insn->d);
    *d = (*d & ~mask) | over;
    return over == mask ? SIM_NEXT : SIM_YIELD;
}

static bool bind_wait(ptx_bind *b, bool waits)
{
    ptx_insn *i = b->insn;
    mbarrier_form *form = new_form(b);
    form->waits = waits;
    if (waits && !bind_needs_target(b, SM_90, "try_wait")) {
        return false;
    }
    form->parity = bind_take(b, "parity");
    if (!take_order(b, "acquire", &form->relaxed) || !take_space(b, form, false) || !take_b64(b)) {
        return false;
    }
    bool hint = waits && i->operand_count == 4; /* how long to be suspended at most */
    if (!bind_operands(b, hint ? 4 : 3) || !take_address(b, form, 1)) {
        return false;
    }
    i->b = bind_source(b, 2, form->parity ? PTX_U32 : PTX_B64);
    if (hint) {
        bind_source(b, 3, PTX_U32);
    }
    i->d = bind_dest(b, 0, PTX_PRED);
    i->run = run_wait;
    return bind_ok(b);
}

/* --- pending_count --- */

static sim_next run_pending(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const uint64_t *state = sim_u64(warp, insn->a);
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = (uint32_t)state[lane] & SIM_MBARRIER_MAX;
    }
    return SIM_NEXT;
}

static bool bind_pending(ptx_bind *b)
{
    if (!take_b64(b) || !bind_operands(b, 2)) {
        return false;
    }
    b->insn->a = bind_source(b, 1, PTX_B64);
    b->insn->d = bind_dest(b, 0, PTX_U32);
    b->insn->run = run_pending;
    return bind_ok(b);
}

static bool bind_mbarrier(ptx_bind *b)
{
    static const char *const actions[] = {"init",        "inval",     "arrive",   "arrive_drop",   "expect_tx",
                                          "complete_tx", "test_wait", "try_wait", "pending_count", NULL};
    switch (bind_choice(b, actions)) {
    case 0:
        return bind_init(b);
    case 1:
        return bind_inval(b);
    case 2:
        return bind_arrive(b, false);
    case 3:
        return bind_arrive(b, true);
    case 4:
        return bind_tx(b, false);
    case 5:
        return bind_tx(b, true);
    case 6:
        return bind_wait(b, false);
    case 7:
        return bind_wait(b, true);
    case 8:
        return bind_pending(b);
    default:
        return bind_fail(b, "no such mbarrier instruction");
    }
}

const ptx_op ptx_ops_mbarrier[] = {
    {"mbarrier", bind_mbarrier},
    {NULL, NULL},
};
