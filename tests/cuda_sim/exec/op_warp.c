/* op_warp.c - exchange among the lanes of a warp, and a warp's place in its cluster. */
#include "op_memory.h"

/* insn->c: slot of the members. */
static sim_next all_here(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    return sim_converge_members(warp, insn, mask, sim_u32(warp, insn->c));
}

/* --- shfl --- */

typedef enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX } shfl_mode;

typedef struct shfl_slots {
    uint32_t segment, predicate;
    bool has_predicate;
} shfl_slots;

/* PTX ISA "shfl.sync": the lane that `lane` reads, and whether it lies in range (else its own). */
static uint32_t shfl_source(shfl_mode mode, uint32_t lane, uint32_t b, uint32_t c, bool *in_range)
{
    uint32_t clamp = c & 31, segment = (c >> 8) & 31, distance = b & 31;
    int most = (int)((lane & segment) | (clamp & ~segment)), least = (int)(lane & segment);
    int from = 0;
    switch (mode) {
    case SHFL_UP:
        from = (int)lane - (int)distance;
        *in_range = from >= most;
        break;
    case SHFL_DOWN:
        from = (int)(lane + distance);
        *in_range = from <= most;
        break;
    case SHFL_BFLY:
        from = (int)(lane ^ distance);
        *in_range = from <= most;
        break;
    case SHFL_IDX:
        from = least | (int)(distance & ~segment);
        *in_range = from <= most;
        break;
    }
    return *in_range ? (uint32_t)from : lane;
}

static sim_next run_shfl(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = all_here(warp, insn, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    const shfl_slots *more = insn->data;
    const uint32_t *a = sim_u32(warp, insn->a), *b = sim_u32(warp, insn->b), *c = sim_u32(warp, more->segment);
    uint32_t value[PTX_LANES], in_range = 0;
    SIM_FOR_LANES(lane, mask)
    {
        bool in = false;
        uint32_t from = shfl_source((shfl_mode)insn->kind, lane, b[lane], c[lane], &in);
        if (!(mask >> from & 1) && !sim_opts(warp)->no_undefined) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_UNDEFINED, "it reads lane %u, which is not here",
                                from);
        }
        value[lane] = a[from];
        in_range |= (uint32_t)in << lane;
    }
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = value[lane];
    }
    if (more->has_predicate) {
        uint32_t *p = sim_pred(warp, more->predicate);
        *p = (*p & ~mask) | in_range;
    }
    return SIM_NEXT;
}

/* d or d|p at operand 0. */
static uint32_t bind_dest_pair(ptx_bind *b, ptx_type type, bool *has_predicate, uint32_t *predicate)
{
    ptx_operand *d = &b->insn->operand[0];
    *has_predicate = d->kind == PTX_PAIR;
    if (!*has_predicate) {
        return bind_dest(b, 0, type);
    }
    *predicate = bind_dest_or_sink(b, &d->element[1], PTX_PRED);
    return bind_dest_or_sink(b, &d->element[0], type);
}

static bool bind_shfl(ptx_bind *b)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sync")) {
        return bind_fail(b, "only shfl.sync exists from sm_70 on");
    }
    int mode = bind_choice(b, modes);
    if (mode < 0 || bind_type(b) != PTX_B32) {
        return bind_fail(b, "not .up, .down, .bfly or .idx with .b32");
    }
    if (!bind_end(b) || !bind_operands(b, 5)) {
        return false;
    }
    shfl_slots *more = bind_alloc(b, sizeof *more);
    i->kind = (uint8_t)mode;
    i->data = more;
    i->a = bind_source(b, 1, PTX_B32);
    i->b = bind_source(b, 2, PTX_B32);
    more->segment = bind_source(b, 3, PTX_B32);
    i->c = bind_source(b, 4, PTX_B32);
    if (i->operand[0].kind == PTX_PAIR && i->operand[0].element[0].kind == PTX_SINK) {
        return bind_fail(b, "the result may not be left out");
    }
    i->d = bind_dest_pair(b, PTX_B32, &more->has_predicate, &more->predicate);
    i->run = run_shfl;
    return bind_ok(b);
}

/* --- vote, match, redux: one result for all lanes that name the same members --- */

static uint32_t group_of(const sim_warp *warp, const ptx_insn *insn, uint32_t lane, uint32_t mask)
{
    return sim_u32(warp, insn->c)[lane] & mask;
}

typedef enum { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT } vote_mode;

static sim_next run_vote(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = all_here(warp, insn, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    uint32_t votes = *sim_pred(warp, insn->a), yes = 0;
    votes = insn->flag ? ~votes : votes;
    SIM_FOR_LANES(lane, mask)
    {
        uint32_t group = group_of(warp, insn, lane, mask), ayes = votes & group;
        bool all = ayes == group, any = ayes != 0;
        bool answer = insn->kind == VOTE_ALL ? all : insn->kind == VOTE_ANY ? any : all || !any;
        yes |= (uint32_t)answer << lane;
        if (insn->kind == VOTE_BALLOT) {
            sim_u32(warp, insn->d)[lane] = ayes;
        }
    }
    if (insn->kind != VOTE_BALLOT) {
        uint32_t *d = sim_pred(warp, insn->d);
        *d = (*d & ~mask) | yes;
    }
    return SIM_NEXT;
}

static bool bind_vote(ptx_bind *b)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sync")) {
        return bind_fail(b, "only vote.sync exists from sm_70 on");
    }
    int mode = bind_choice(b, modes);
    ptx_type type = mode == VOTE_BALLOT ? PTX_B32 : PTX_PRED;
    if (mode < 0 || bind_type(b) != type) {
        return bind_fail(b, "not .all, .any or .uni with .pred, or .ballot with .b32");
    }
    if (!bind_end(b) || !bind_operands(b, 3)) {
        return false;
    }
    bool negated = false;
    i->kind = (uint8_t)mode;
    i->a = bind_predicate(b, &i->operand[1], &negated);
    i->flag = negated;
    i->c = bind_source(b, 2, PTX_B32);
    i->d = bind_dest(b, 0, type);
    i->run = run_vote;
    return bind_ok(b);
}

static uint64_t match_value(const sim_warp *warp, const ptx_insn *insn, uint32_t lane)
{
    return insn->type == PTX_B64 ? sim_u64(warp, insn->a)[lane] : sim_u32(warp, insn->a)[lane];
}

/* insn->flag: match.all, with its predicate at insn->value if insn->extra. */
static sim_next run_match(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = all_here(warp, insn, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    uint32_t same[PTX_LANES], alike = 0;
    SIM_FOR_LANES(lane, mask)
    {
        uint32_t group = group_of(warp, insn, lane, mask);
        same[lane] = 0;
        SIM_FOR_LANES(other, group)
        {
            bool equal = match_value(warp, insn, other) == match_value(warp, insn, lane);
            same[lane] |= (uint32_t)equal << other;
        }
        bool all = same[lane] == group;
        alike |= (uint32_t)all << lane;
        same[lane] = insn->flag && !all ? 0 : same[lane];
    }
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = same[lane];
    }
    if (insn->extra) {
        uint32_t *p = sim_pred(warp, insn->value);
        *p = (*p & ~mask) | alike;
    }
    return SIM_NEXT;
}

static bool bind_match(ptx_bind *b)
{
    static const char *const modes[] = {"any", "all", NULL};
    ptx_insn *i = b->insn;
    int mode = bind_choice(b, modes);
    if (mode < 0 || !bind_take(b, "sync")) {
        return bind_fail(b, "not match.any.sync or match.all.sync");
    }
    i->type = (uint8_t)bind_type(b);
    if (i->type != PTX_B32 && i->type != PTX_B64) {
        return bind_fail(b, "the type is neither .b32 nor .b64");
    }
    if (!bind_end(b) || !bind_operands(b, 3)) {
        return false;
    }
    bool has_predicate = false;
    i->flag = mode == 1;
    i->a = bind_source(b, 1, (ptx_type)i->type);
    i->c = bind_source(b, 2, PTX_B32);
    i->d = bind_dest_pair(b, PTX_B32, &has_predicate, &i->value);
    i->extra = has_predicate;
    if (has_predicate && !i->flag) {
        return bind_fail(b, "match.any has no predicate");
    }
    i->run = run_match;
    return bind_ok(b);
}

typedef enum { REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR } redux_op;

static uint32_t redux_two(redux_op op, bool is_signed, uint32_t x, uint32_t y)
{
    bool less = is_signed ? (int32_t)x < (int32_t)y : x < y;
    switch (op) {
    case REDUX_ADD:
        return x + y;
    case REDUX_MIN:
        return less ? x : y;
    case REDUX_MAX:
        return less ? y : x;
    case REDUX_AND:
        return x & y;
    case REDUX_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static sim_next run_redux(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = all_here(warp, insn, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    const uint32_t *a = sim_u32(warp, insn->a);
    uint32_t result[PTX_LANES];
    SIM_FOR_LANES(lane, mask)
    {
        uint32_t group = group_of(warp, insn, lane, mask), first = (uint32_t)__builtin_ctz(group), total = a[first];
        SIM_FOR_LANES(other, group & (group - 1))
        {
            total = redux_two((redux_op)insn->kind, insn->flag != 0, total, a[other]);
        }
        result[lane] = total;
    }
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = result[lane];
    }
    return SIM_NEXT;
}

static bool bind_redux(ptx_bind *b)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", NULL};
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sync")) {
        return bind_fail(b, "not redux.sync");
    }
    int op = bind_choice(b, ops);
    ptx_type type = op < 0 ? PTX_NO_TYPE : bind_type(b);
    bool number = type == PTX_U32 || type == PTX_S32;
    if (op < 0 || (op < REDUX_AND ? !number : type != PTX_B32)) {
        return bind_fail(b, "not .add, .min or .max with .u32 or .s32, or .and, .or or .xor with .b32 (others are not "
                            "of sm_80 and sm_90)");
    }
    if (!bind_end(b) || !bind_operands(b, 3)) {
        return false;
    }
    i->kind = (uint8_t)op;
    i->flag = type == PTX_S32;
    i->a = bind_source(b, 1, type);
    i->c = bind_source(b, 2, PTX_B32);
    i->d = bind_dest(b, 0, type);
    i->run = run_redux;
    return bind_ok(b);
}

/* --- who is here --- */

static sim_next run_activemask(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = mask;
    }
    return SIM_NEXT;
}

static bool bind_activemask(ptx_bind *b)
{
    if (bind_type(b) != PTX_B32 || !bind_end(b) || !bind_operands(b, 1)) {
        return bind_fail(b, "not activemask.b32 d");
    }
    b->insn->d = bind_dest(b, 0, PTX_B32);
    b->insn->run = run_activemask;
    return bind_ok(b);
}

/* The lowest lane that is there: which one is the implementation's choice, always the same for the same members. */
static sim_next run_elect(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = all_here(warp, insn, mask);
    if (next != SIM_NEXT) {
        return next;
    }
    uint32_t *d = sim_u32(warp, insn->d), *p = sim_pred(warp, insn->value), elected = 0;
    SIM_FOR_LANES(lane, mask)
    {
        d[lane] = (uint32_t)__builtin_ctz(group_of(warp, insn, lane, mask));
        elected |= (uint32_t)(d[lane] == lane) << lane;
    }
    *p = (*p & ~mask) | elected;
    return SIM_NEXT;
}

static bool bind_elect(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    if (!bind_take(b, "sync") || !bind_end(b) || !bind_operands(b, 2)) {
        return bind_fail(b, "not elect.sync d|p, membermask");
    }
    if (!bind_needs_target(b, SM_90, "elect")) {
        return false;
    }
    bool has_predicate = false;
    i->c = bind_source(b, 1, PTX_B32);
    i->d = bind_dest_pair(b, PTX_B32, &has_predicate, &i->value);
    if (!has_predicate) {
        return bind_fail(b, "the predicate is missing");
    }
    i->run = run_elect;
    return bind_ok(b);
}

/* --- mapa, getctarank: sim.h says where the rank lies in an address --- */

static const uint64_t offset_bits = (UINT64_C(1) << SIM_RANK_SHIFT) - 1;

static uint64_t lane_address(const sim_warp *warp, const ptx_insn *insn, uint32_t lane)
{
    return insn->width ? sim_u64(warp, insn->a)[lane] : sim_u32(warp, insn->a)[lane];
}

static bool is_shared(const ptx_insn *insn, uint64_t address)
{
    return insn->space == PTX_SHARED || address >> 32 == SIM_SHARED_WINDOW >> 32;
}

static sim_next run_mapa(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    const uint32_t *rank = sim_u32(warp, insn->b), blocks = warp->block->cluster->block_count;
    SIM_FOR_LANES(lane, mask)
    {
        uint64_t address = lane_address(warp, insn, lane);
        if (rank[lane] >= blocks || !is_shared(insn, address)) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "address 0x%llx, rank %u of %u blocks",
                                (unsigned long long)address, rank[lane], blocks);
        }
        uint64_t high = address >> 32 << 32, mapped = (address & offset_bits) | (uint64_t)(rank[lane] + 1)
                                                                                    << SIM_RANK_SHIFT;
        if (insn->width) {
            sim_u64(warp, insn->d)[lane] = high | mapped;
        } else {
            sim_u32(warp, insn->d)[lane] = (uint32_t)mapped;
        }
    }
    return SIM_NEXT;
}

/* {.shared::cluster}.u32 or .u64, `count` operands, and the address at operand 1. */
static bool bind_shared_address(ptx_bind *b, uint32_t count, ptx_type *type)
{
    ptx_insn *i = b->insn;
    i->space = bind_take(b, "shared::cluster") ? PTX_SHARED : PTX_GENERIC;
    *type = bind_type(b);
    if (*type != PTX_U32 && *type != PTX_U64) {
        return bind_fail(b, "the type is neither .u32 nor .u64");
    }
    if (!bind_needs_target(b, SM_90, i->mnemonic) || !bind_end(b) || !bind_operands(b, count)) {
        return false;
    }
    i->width = *type == PTX_U64;
    i->a = bind_source(b, 1, *type);
    return true;
}

static bool bind_mapa(ptx_bind *b)
{
    ptx_type type;
    if (!bind_shared_address(b, 3, &type)) {
        return false;
    }
    b->insn->b = bind_source(b, 2, PTX_U32);
    b->insn->d = bind_dest(b, 0, type);
    b->insn->run = run_mapa;
    return bind_ok(b);
}

static sim_next run_getctarank(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    uint32_t *d = sim_u32(warp, insn->d);
    SIM_FOR_LANES(lane, mask)
    {
        uint64_t address = lane_address(warp, insn, lane);
        if (!is_shared(insn, address)) {
            return sim_fault_at(warp, insn, (int)lane, SIM_FAULT_ADDRESS, "0x%llx is not in shared memory",
                                (unsigned long long)address);
        }
        uint32_t rank = (uint32_t)address >> SIM_RANK_SHIFT;
        d[lane] = rank ? rank - 1 : warp->block->rank;
    }
    return SIM_NEXT;
}

static bool bind_getctarank(ptx_bind *b)
{
    ptx_type type;
    if (!bind_shared_address(b, 2, &type)) {
        return false;
    }
    b->insn->d = bind_dest(b, 0, PTX_U32);
    b->insn->run = run_getctarank;
    return bind_ok(b);
}

const ptx_op ptx_ops_warp[] = {
    {"shfl", bind_shfl},   {"vote", bind_vote},
    {"match", bind_match}, {"redux", bind_redux},
    {"elect", bind_elect}, {"activemask", bind_activemask},
    {"mapa", bind_mapa},   {"getctarank", bind_getctarank},
    {NULL, NULL},
};
