/* memory_plan.c - see memory_plan.h. Blocks (intermediates, and the scratch of steps) are placed one after another, the
 * largest first, each into the least gap that holds it between those it must not share with. Blocks are kept in the
 * order of the steps that write them, so that those which may be alive together are near each other: where steps run
 * one after another, only those of a window are compared. */
#include "memory_plan.h"

#include "internal.h"

enum { ALIGNMENT = HAL_MEMORY_ALIGNMENT };

typedef struct block {
    uint64_t size;         /* a multiple of ALIGNMENT */
    uint64_t bytes;        /* without padding */
    uint64_t offset;       /* HAL_NO_PLACE: not placed yet */
    uint32_t tensor;       /* 0: scratch */
    uint32_t def;          /* the step that writes it */
    uint32_t users, count; /* steps that read or write it, ascending, in planner.users: from `users` on so many */
} block;

/* Blocks from `first` on, before `end`. */
typedef struct window {
    uint32_t first, end;
} window;

typedef struct planner {
    const hal_program *program;
    const uint64_t *before;
    block *blocks;
    uint32_t count;
    uint32_t *starts; /* by tensor: where its users begin */
    uint32_t *users;
    window *alive;    /* by step: none but these can be alive while it runs */
    block **order;    /* the largest first */
    uint32_t *placed; /* by offset: scratch of one placement */
} planner;

/* May two blocks have bytes in common? */
typedef enum relation { SHARE, IN_PLACE, APART } relation;

bool hal_step_in_place(const hal_program *program, const hal_step *step, hal_role role)
{
    static const uint32_t roles[HAL_STEP_OPS] = {[HAL_STEP_GEMM] = 1u << HAL_ROLE_RESIDUAL,
                                                 [HAL_STEP_ACTIVATION] = 1u << HAL_ROLE_X,
                                                 [HAL_STEP_BINARY] = 1u << HAL_ROLE_X | 1u << HAL_ROLE_B,
                                                 [HAL_STEP_RMSNORM] = 1u << HAL_ROLE_X | 1u << HAL_ROLE_RESIDUAL,
                                                 [HAL_STEP_SOFTMAX] = 1u << HAL_ROLE_X,
                                                 [HAL_STEP_ROPE] = 1u << HAL_ROLE_X};
    const hal_tensor_info *x = &program->tensors[step->tensors[role]],
                          *y = &program->tensors[step->tensors[HAL_ROLE_Y]];
    return roles[step->op] >> role & 1 && x->dtype == y->dtype && x->dims.rank == y->dims.rank &&
           memcmp(x->dims.size, y->dims.size, x->dims.rank * sizeof *x->dims.size) == 0;
}

static bool done_before(const planner *p, uint32_t first, uint32_t then)
{
    return p->before ? p->before[(size_t)then * hal_order_words(p->program->step_count) + first / 64] >> first % 64 & 1
                     : first < then;
}

/* All that is done with x is done before y is begun; `but` does not count. One after another, the last user decides. */
static bool dead_before(const planner *p, const block *x, const block *y, uint32_t but)
{
    bool dead = true, decided = false;
    for (uint32_t i = x->count; dead && !decided && i-- > 0;) {
        const uint32_t user = p->users[x->users + i];
        dead = user == but || done_before(p, user, y->def);
        decided = !p->before && user != but;
    }
    return dead;
}

/* y may be written exactly over x: the step that does it reads x last, and only as operands that it allows that for. */
static bool takes_place(const planner *p, const block *x, const block *y)
{
    const hal_step *step = &p->program->steps[y->def];
    bool reads = false;
    if (!x->tensor || !y->tensor || x->bytes != y->bytes || step->tensors[HAL_ROLE_SCALES] == y->tensor) {
        return false;
    }
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        if (step->tensors[role] == x->tensor) {
            reads = true;
            if (!hal_step_in_place(p->program, step, (hal_role)role)) {
                return false;
            }
        }
    }
    return reads && dead_before(p, x, y, y->def);
}

static relation relation_of(const planner *p, const block *x, const block *y)
{
    if (dead_before(p, x, y, UINT32_MAX) || dead_before(p, y, x, UINT32_MAX)) {
        return SHARE;
    }
    return takes_place(p, x, y) || takes_place(p, y, x) ? IN_PLACE : APART;
}

static hal_status sized(block *b, uint64_t bytes, const char *name)
{
    b->bytes = bytes;
    b->offset = HAL_NO_PLACE;
    if (__builtin_add_overflow(bytes, ALIGNMENT - 1, &b->size)) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE, "memory plan: '%s' has %llu bytes", name, (unsigned long long)bytes);
    }
    b->size -= b->size % ALIGNMENT;
    return HAL_OK;
}

/* The users of each tensor; behind them each step as its scratch's. */
static void find_users(planner *p)
{
    const hal_program *program = p->program;
    const uint32_t steps = program->step_count;
    uint32_t *ends = p->starts + 1; /* where a tensor's end, the next one's begin */
    for (uint32_t i = 0; i < steps * HAL_ROLES; i++) {
        ends[program->steps[i / HAL_ROLES].tensors[i % HAL_ROLES]]++;
    }
    ends[0] = 0; /* roles without a tensor */
    for (uint32_t t = 1, sum = 0; t < program->tensor_count; t++) {
        sum += ends[t];
        ends[t] = sum - ends[t];
    }
    for (uint32_t i = 0; i < steps * HAL_ROLES; i++) {
        const uint32_t t = program->steps[i / HAL_ROLES].tensors[i % HAL_ROLES];
        if (t) {
            p->users[ends[t]++] = i / HAL_ROLES;
        }
    }
    for (uint32_t i = 0; i < steps; i++) {
        p->users[steps * HAL_ROLES + i] = i;
    }
}

static hal_status add_block(planner *p, uint32_t step, uint32_t tensor, uint64_t bytes)
{
    block *b = &p->blocks[p->count++];
    *b = (block){.tensor = tensor, .def = step, .users = p->program->step_count * HAL_ROLES + step, .count = 1};
    if (tensor) {
        b->users = p->starts[tensor];
        b->count = p->starts[tensor + 1] - b->users;
    }
    return sized(b, bytes, tensor ? p->program->tensors[tensor].name : "scratch of a step");
}

static hal_status collect(planner *p, uint64_t rows, const uint64_t *workspaces)
{
    const hal_program *program = p->program;
    hal_status status = HAL_OK;
    find_users(p);
    for (uint32_t i = 0; status == HAL_OK && i < program->step_count; i++) {
        for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; status == HAL_OK && role < HAL_ROLES; role++) {
            const uint32_t t = program->steps[i].tensors[role];
            if (t && !program->tensors[t].output) {
                status = add_block(p, i, t, hal_tensor_bytes(&program->tensors[t], rows));
            }
        }
        if (status == HAL_OK && workspaces && workspaces[i]) {
            status = add_block(p, i, 0, workspaces[i]);
        }
    }
    return status;
}

static uint32_t last_user(const planner *p, const block *b)
{
    return p->users[b->users + b->count - 1];
}

static void find_alive(planner *p)
{
    uint32_t first = 0, end = 0;
    for (uint32_t i = 0; i < p->program->step_count; i++) {
        while (end < p->count && (p->before || p->blocks[end].def <= i)) {
            end++;
        }
        while (!p->before && first < end && last_user(p, &p->blocks[first]) < i) {
            first++;
        }
        p->alive[i] = (window){first, end};
    }
}

/* Where those are that cannot share with it: alive when it is begun, or begun while it is alive. */
static window near(const planner *p, const block *b)
{
    return (window){p->alive[b->def].first, p->alive[last_user(p, b)].end};
}

/* Can b lie at `offset`, among those already placed? */
static bool fits_at(const planner *p, const block *b, uint64_t offset)
{
    const window w = near(p, b);
    for (uint32_t i = w.first; i < w.end; i++) {
        const block *other = &p->blocks[i];
        if (other->offset == HAL_NO_PLACE || other->size == 0 || offset >= other->offset + other->size ||
            other->offset >= offset + b->size) {
            continue;
        }
        const relation r = relation_of(p, b, other);
        if (r == APART || (r == IN_PLACE && other->offset != offset)) {
            return false;
        }
    }
    return true;
}

static uint64_t place_in_place(const planner *p, const block *b)
{
    const window w = near(p, b);
    for (uint32_t i = w.first; i < w.end; i++) {
        const block *other = &p->blocks[i];
        if (other->offset != HAL_NO_PLACE && other->size == b->size && relation_of(p, b, other) == IN_PLACE &&
            fits_at(p, b, other->offset)) {
            return other->offset;
        }
    }
    return HAL_NO_PLACE;
}

/* The least gap that holds it between the blocks that it must keep apart from, or behind them. */
static uint64_t place_best(const planner *p, const block *b)
{
    const window w = near(p, b);
    uint32_t count = 0;
    for (uint32_t i = w.first; i < w.end; i++) {
        const block *other = &p->blocks[i];
        if (other->offset != HAL_NO_PLACE && other->size && relation_of(p, b, other) != SHARE) {
            uint32_t at = count++;
            for (; at && p->blocks[p->placed[at - 1]].offset > other->offset; at--) {
                p->placed[at] = p->placed[at - 1];
            }
            p->placed[at] = i;
        }
    }
    uint64_t end = 0, best = HAL_NO_PLACE, least = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const block *other = &p->blocks[p->placed[i]];
        const uint64_t gap = other->offset > end ? other->offset - end : 0;
        if (gap >= b->size && gap < least) {
            best = end;
            least = gap;
        }
        end = other->offset + other->size > end ? other->offset + other->size : end;
    }
    return best == HAL_NO_PLACE ? end : best;
}

/* For qsort; of one size, those that are begun first. */
static int larger_first(const void *left, const void *right)
{
    const block *x = *(block *const *)left, *y = *(block *const *)right;
    return x->size != y->size ? (x->size < y->size ? 1 : -1) : (x > y) - (x < y);
}

static hal_status place_all(planner *p, hal_memory_plan *plan)
{
    for (uint32_t i = 0; i < p->count; i++) {
        p->order[i] = &p->blocks[i];
        if (__builtin_add_overflow(plan->unshared, p->blocks[i].size, &plan->unshared)) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "memory plan: the intermediates pass 2^64 bytes");
        }
    }
    qsort(p->order, p->count, sizeof(block *), larger_first);
    for (uint32_t i = 0; i < p->count; i++) { /* no end overflows: all lie below the sum of all */
        block *b = p->order[i];
        const uint64_t same = b->size ? place_in_place(p, b) : 0;
        b->offset = same == HAL_NO_PLACE ? place_best(p, b) : same;
        plan->size = b->offset + b->size > plan->size ? b->offset + b->size : plan->size;
        if (b->tensor) {
            plan->offsets[b->tensor] = b->offset;
        } else {
            plan->workspace[b->def] = b->offset;
        }
    }
    return HAL_OK;
}

/* Bytes that are alive while a step runs: each block's, and those of the arena's places. */
static void alive_at(const planner *p, uint32_t step, uint64_t *blocks, uint64_t *places)
{
    const block at = {.def = step};
    uint32_t count = 0;
    uint64_t end = 0;
    *blocks = *places = 0;
    for (uint32_t i = p->alive[step].first; i < p->alive[step].end; i++) {
        const block *b = &p->blocks[i];
        if (done_before(p, step, b->def) || dead_before(p, b, &at, UINT32_MAX)) {
            continue;
        }
        *blocks += b->bytes;
        uint32_t to = count++;
        for (; to && p->blocks[p->placed[to - 1]].offset > b->offset; to--) {
            p->placed[to] = p->placed[to - 1];
        }
        p->placed[to] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        const block *b = &p->blocks[p->placed[i]];
        const uint64_t from = b->offset > end ? b->offset : end, to = b->offset + b->bytes;
        *places += to > from ? to - from : 0;
        end = to > end ? to : end;
    }
}

static void find_peaks(const planner *p, hal_memory_plan *plan)
{
    for (uint32_t i = 0; i < p->program->step_count; i++) {
        uint64_t blocks, places;
        alive_at(p, i, &blocks, &places);
        plan->peak = places > plan->peak ? places : plan->peak;
        plan->peak_apart = blocks > plan->peak_apart ? blocks : plan->peak_apart;
    }
}

static bool allocate(planner *p, hal_memory_plan *plan)
{
    const size_t steps = p->program->step_count, tensors = p->program->tensor_count, most = steps + tensors;
    *plan = (hal_memory_plan){.tensors = (uint32_t)tensors, .steps = (uint32_t)steps};
    plan->offsets = malloc((tensors + 1) * sizeof *plan->offsets);
    plan->workspace = malloc((steps + 1) * sizeof *plan->workspace);
    p->blocks = calloc(most + 1, sizeof *p->blocks);
    p->order = calloc(most + 1, sizeof(block *));
    p->placed = calloc(most + 1, sizeof *p->placed);
    p->starts = calloc(tensors + 2, sizeof *p->starts);
    p->users = calloc(steps * (HAL_ROLES + 1) + 1, sizeof *p->users);
    p->alive = calloc(steps + 1, sizeof *p->alive);
    if (!plan->offsets || !plan->workspace || !p->blocks || !p->order || !p->placed || !p->starts || !p->users ||
        !p->alive) {
        return false;
    }
    memset(plan->offsets, 0xff, (tensors + 1) * sizeof *plan->offsets); /* HAL_NO_PLACE */
    memset(plan->workspace, 0xff, (steps + 1) * sizeof *plan->workspace);
    return true;
}

hal_status hal_memory_plan_make(const hal_program *program, uint64_t rows, const uint64_t *before,
                                const uint64_t *workspaces, hal_memory_plan *plan)
{
    planner p = {.program = program, .before = before};
    hal_status status = allocate(&p, plan)
                            ? HAL_OK
                            : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a memory plan of %u steps",
                                       program->step_count);
    status = status == HAL_OK ? collect(&p, rows, workspaces) : status;
    if (status == HAL_OK) {
        find_alive(&p);
        status = place_all(&p, plan);
    }
    if (status == HAL_OK) {
        find_peaks(&p, plan);
    } else {
        hal_memory_plan_clear(plan);
    }
    free(p.blocks);
    free(p.order);
    free(p.placed);
    free(p.starts);
    free(p.users);
    free(p.alive);
    return status;
}

void hal_memory_plan_clear(hal_memory_plan *plan)
{
    free(plan->offsets);
    free(plan->workspace);
    *plan = (hal_memory_plan){0};
}
