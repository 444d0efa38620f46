/* test_memory_plan.c - plans of random programs, in random partial orders, pass the checker; the checker agrees with a
 * brute-force run of small programs in every order, also on plans that were damaged; and known figures. */
#include "unit.h"

#include "memory_plan.h"

enum { CELL = 256, MOST_STEPS = 40, COLUMNS = 64 };

typedef struct fixture {
    hal_program program;
    uint64_t before[MOST_STEPS]; /* at most 64 steps: a word a row */
    uint64_t workspaces[MOST_STEPS];
    uint64_t seed;
} fixture;

static uint32_t below(fixture *f, uint32_t limit)
{
    return (uint32_t)(unit_random(&f->seed) % limit);
}

/* `cells` cells of FP32; E4M3 has a quarter. */
static uint32_t tensor(fixture *f, hal_tensor_kind kind, hal_dtype dtype, uint64_t cells)
{
    const hal_tensor_info info = {.kind = kind,
                                  .dtype = dtype,
                                  .element_size = hal_dtype_size(dtype),
                                  .dims = {2, {cells, dtype == HAL_F8E4M3 ? 4 * COLUMNS : COLUMNS}}};
    uint32_t id;
    assert_int_equal(hal_program_add_tensor(&f->program, &info, NULL, &id), HAL_OK);
    return id;
}

static uint64_t cells_of(const fixture *f, uint32_t t)
{
    return f->program.tensors[t].dims.size[0];
}

/* A tensor that there is: more often one of the last. */
static uint32_t some(fixture *f)
{
    const uint32_t count = f->program.tensor_count - 1, recent = count < 4 ? count : 4;
    return 1 + (below(f, 3) ? count - 1 - below(f, recent) : below(f, count));
}

static uint32_t like(fixture *f, uint32_t x)
{
    const hal_tensor_info *info = &f->program.tensors[x];
    return tensor(f, HAL_TENSOR_STEP, info->dtype, info->dims.size[0]);
}

static void add_random_step(fixture *f)
{
    static const hal_step_op ops[] = {HAL_STEP_ACTIVATION, HAL_STEP_BINARY,   HAL_STEP_RMSNORM, HAL_STEP_GEMM,
                                      HAL_STEP_SOFTMAX,    HAL_STEP_QUANTIZE, HAL_STEP_ROPE,    HAL_STEP_TRANSPOSE};
    hal_step step = {.op = ops[below(f, 8)]};
    uint32_t *t = step.tensors;
    t[HAL_ROLE_X] = some(f);
    switch (step.op) {
    case HAL_STEP_BINARY:
        t[HAL_ROLE_B] = some(f);
        t[HAL_ROLE_Y] = like(f, t[HAL_ROLE_X]);
        break;
    case HAL_STEP_RMSNORM:
        t[HAL_ROLE_RESIDUAL] = below(f, 2) ? some(f) : 0;
        t[HAL_ROLE_Y] = like(f, t[HAL_ROLE_X]);
        t[HAL_ROLE_SUM] = t[HAL_ROLE_RESIDUAL] ? like(f, t[HAL_ROLE_X]) : 0;
        break;
    case HAL_STEP_GEMM:
        t[HAL_ROLE_B] = some(f);
        t[HAL_ROLE_RESIDUAL] = below(f, 2) ? some(f) : 0;
        t[HAL_ROLE_Y] = t[HAL_ROLE_RESIDUAL] && below(f, 4) ? like(f, t[HAL_ROLE_RESIDUAL])
                                                            : tensor(f, HAL_TENSOR_STEP, HAL_F32, 1 + below(f, 4));
        break;
    case HAL_STEP_QUANTIZE:
        t[HAL_ROLE_Y] = tensor(f, HAL_TENSOR_STEP, HAL_F8E4M3, cells_of(f, t[HAL_ROLE_X]));
        t[HAL_ROLE_SCALES] = tensor(f, HAL_TENSOR_STEP, HAL_F32, 1);
        break;
    default:
        t[HAL_ROLE_Y] = like(f, t[HAL_ROLE_X]);
    }
    assert_int_equal(hal_program_add_step(&f->program, &step), HAL_OK);
}

/* What data needs, some more, and what follows from both. */
static void random_order(fixture *f, bool total)
{
    const uint32_t steps = f->program.step_count, extra = below(f, 4);
    for (uint32_t i = 0; i < steps; i++) {
        f->before[i] = total ? (UINT64_C(1) << i) - 1 : 0;
        for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
            const uint32_t writer = hal_program_writer(&f->program, f->program.steps[i].tensors[role]);
            f->before[i] |= writer == UINT32_MAX ? 0 : UINT64_C(1) << writer;
        }
        if (i && below(f, 3) < extra) {
            f->before[i] |= UINT64_C(1) << below(f, i);
        }
        for (uint32_t j = 0; j < i; j++) {
            f->before[i] |= f->before[i] >> j & 1 ? f->before[j] : 0;
        }
    }
}

static void random_program(fixture *f, uint64_t seed, uint32_t steps)
{
    *f = (fixture){.seed = seed};
    tensor(f, HAL_TENSOR_INPUT, HAL_F32, 2);
    tensor(f, HAL_TENSOR_CONSTANT, HAL_F32, 3);
    for (uint32_t i = 0; i < steps; i++) {
        add_random_step(f);
        f->workspaces[i] = below(f, 4) ? 0 : CELL * (1 + below(f, 3)) - 16 * below(f, 2);
    }
    for (uint32_t t = 3; t < f->program.tensor_count; t++) {
        f->program.tensors[t].output = below(f, 8) == 0;
    }
    random_order(f, below(f, 3) == 0);
}

static void make(const fixture *f, hal_memory_plan *plan)
{
    assert_int_equal(hal_memory_plan_make(&f->program, 1, f->before, f->workspaces, plan), HAL_OK);
}

static hal_status check(const fixture *f, const hal_memory_plan *plan)
{
    return hal_memory_plan_check(&f->program, 1, f->before, f->workspaces, plan);
}

/* The brute force. Steps begin and end; a cell of the arena holds who wrote it last: a tensor's id, or that of a step's
 * scratch. A step writes scratch and results when it begins and when it ends, and finds its operands and its scratch
 * when it ends; a result in place of an operand is written at the end alone. */
enum { CELLS = 256 };
typedef struct machine {
    const fixture *f;
    const hal_memory_plan *plan;
    bool wrong;
} machine;
typedef struct arena {
    uint16_t cell[CELLS];
    uint64_t begun, ended;
} arena;

static bool lies(const machine *m, uint32_t t, uint64_t *first, uint64_t *count)
{
    if (t == 0 || m->plan->offsets[t] == HAL_NO_PLACE) {
        return false;
    }
    *first = m->plan->offsets[t] / CELL;
    *count = (hal_tensor_bytes(&m->f->program.tensors[t], 1) + CELL - 1) / CELL;
    return true;
}

/* A result exactly over an operand, where the operator can do that: it is written when the step ends. */
static bool in_place(const machine *m, const hal_step *step, uint32_t t)
{
    static const uint32_t allowed[HAL_STEP_OPS] = {[HAL_STEP_ACTIVATION] = 1u << HAL_ROLE_X,
                                                   [HAL_STEP_SOFTMAX] = 1u << HAL_ROLE_X,
                                                   [HAL_STEP_ROPE] = 1u << HAL_ROLE_X,
                                                   [HAL_STEP_BINARY] = 1u << HAL_ROLE_X | 1u << HAL_ROLE_B,
                                                   [HAL_STEP_RMSNORM] = 1u << HAL_ROLE_X | 1u << HAL_ROLE_RESIDUAL,
                                                   [HAL_STEP_GEMM] = 1u << HAL_ROLE_RESIDUAL};
    const uint64_t *offsets = m->plan->offsets;
    uint32_t over = 0;
    for (uint32_t role = 0; role < HAL_ROLES; role++) {
        const uint32_t x = step->tensors[role];
        if (x == 0 || x == t || offsets[x] == HAL_NO_PLACE || offsets[x] != offsets[t]) {
            continue;
        }
        if (!(allowed[step->op] >> role & 1) || cells_of(m->f, x) != cells_of(m->f, t) ||
            m->f->program.tensors[x].dtype != m->f->program.tensors[t].dtype) {
            return false;
        }
        over |= 1u << role;
    }
    return over != 0;
}

static void put(arena *memory, uint64_t first, uint64_t count, uint32_t what)
{
    for (uint64_t i = 0; i < count; i++) {
        memory->cell[first + i] = (uint16_t)what;
    }
}

static bool holds(const arena *memory, uint64_t first, uint64_t count, uint32_t what)
{
    for (uint64_t i = 0; i < count; i++) {
        if (memory->cell[first + i] != what) {
            return false;
        }
    }
    return true;
}

static void write_all(const machine *m, arena *memory, uint32_t s, bool end)
{
    const hal_step *step = &m->f->program.steps[s];
    uint64_t first, count;
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        const uint32_t t = step->tensors[role];
        if (lies(m, t, &first, &count) && (end || !in_place(m, step, t))) {
            put(memory, first, count, t);
        }
    }
    if (m->f->workspaces[s] && !end) {
        put(memory, m->plan->workspace[s] / CELL, (m->f->workspaces[s] + CELL - 1) / CELL, 1000 + s);
    }
}

static bool finds_all(const machine *m, const arena *memory, uint32_t s)
{
    const hal_step *step = &m->f->program.steps[s];
    uint64_t first, count;
    bool right = true;
    for (uint32_t role = 0; role < HAL_ROLES; role++) {
        const uint32_t t = step->tensors[role];
        if (lies(m, t, &first, &count) && (!hal_role_written(role) || !in_place(m, step, t))) {
            right = right && holds(memory, first, count, t);
        }
    }
    return right && (!m->f->workspaces[s] ||
                     holds(memory, m->plan->workspace[s] / CELL, (m->f->workspaces[s] + CELL - 1) / CELL, 1000 + s));
}

static void run(machine *m, const arena *from)
{
    for (uint32_t s = 0; s < m->f->program.step_count && !m->wrong; s++) {
        const uint64_t bit = UINT64_C(1) << s;
        arena next = *from;
        if (!(from->begun & bit) && (m->f->before[s] & ~from->ended) == 0) {
            next.begun |= bit;
            write_all(m, &next, s, false);
            run(m, &next);
        } else if (from->begun & ~from->ended & bit) {
            m->wrong = !finds_all(m, from, s);
            next.ended |= bit;
            write_all(m, &next, s, true);
            run(m, &next);
        }
    }
}

static bool goes_wrong(const fixture *f, const hal_memory_plan *plan)
{
    machine m = {f, plan, false};
    const arena start = {.begun = 0};
    run(&m, &start);
    return m.wrong;
}

/* Moves something to where something else is, or anywhere. */
static void damage(fixture *f, hal_memory_plan *plan)
{
    const uint64_t anywhere = CELL * (plan->size / CELL ? unit_random(&f->seed) % (plan->size / CELL) : 0);
    const uint32_t t = 1 + below(f, f->program.tensor_count - 1), other = 1 + below(f, f->program.tensor_count - 1);
    const uint32_t s = below(f, f->program.step_count);
    const uint64_t to = plan->offsets[other] != HAL_NO_PLACE && below(f, 2) ? plan->offsets[other] : anywhere;
    uint64_t *place = f->workspaces[s] && below(f, 3) == 0 ? &plan->workspace[s] : &plan->offsets[t];
    *place = *place == HAL_NO_PLACE ? *place : to;
    plan->size += 4 * CELL; /* so that nothing lies outside */
}

static void the_checker_agrees_with_every_order(void **state)
{
    (void)state;
    const uint64_t seed = unit_seed();
    uint32_t wrong = 0, right = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        fixture f;
        hal_memory_plan plan;
        random_program(&f, seed + i * 77, 1 + (uint32_t)(i % 5));
        make(&f, &plan);
        assert_int_equal(check(&f, &plan), HAL_OK);
        assert_false(goes_wrong(&f, &plan));
        damage(&f, &plan);
        const bool brute = goes_wrong(&f, &plan), found = check(&f, &plan) != HAL_OK;
        if (brute != found) {
            fail_msg("program %llu: %s, the checker says %s", (unsigned long long)i, brute ? "wrong" : "right",
                     found ? hal_last_error() : "right");
        }
        wrong += brute;
        right += !brute;
        hal_memory_plan_clear(&plan);
        hal_program_clear(&f.program);
    }
    print_message("damaged plans: %u wrong, %u still right\n", wrong, right);
    assert_true(wrong > 300 && right > 300);
}

static void plans_of_random_programs_pass(void **state)
{
    (void)state;
    const uint64_t seed = unit_seed();
    uint64_t shared = 0, unshared = 0;
    for (uint64_t i = 0; i < 400; i++) {
        fixture f;
        hal_memory_plan plan;
        random_program(&f, seed + i * 1000, 1 + (uint32_t)(i % MOST_STEPS));
        make(&f, &plan);
        if (check(&f, &plan) != HAL_OK) {
            fail_msg("program %llu: %s", (unsigned long long)i, hal_last_error());
        }
        assert_true(plan.peak <= plan.size && plan.size <= plan.unshared && plan.peak <= plan.peak_apart);
        shared += plan.size;
        unshared += plan.unshared;
        hal_memory_plan_clear(&plan);
        hal_program_clear(&f.program);
    }
    print_message("shared %llu of %llu bytes\n", (unsigned long long)shared, (unsigned long long)unshared);
    assert_true(2 * shared < unshared);
}

static void expect_damage(const fixture *f, hal_memory_plan *plan, uint64_t *place, uint64_t to, const char *words)
{
    const uint64_t was = *place;
    *place = to;
    assert_int_equal(check(f, plan), HAL_ERROR_INVALID_STATE);
    if (!strstr(hal_last_error(), words)) {
        fail_msg("'%s' does not say '%s'", hal_last_error(), words);
    }
    *place = was;
    assert_int_equal(check(f, plan), HAL_OK);
}

/* x -> SiLU -> a, with scratch; a -> output. */
static void places_are_checked(void **state)
{
    (void)state;
    fixture f = {.workspaces = {100}, .before = {0, 1}};
    const uint32_t x = tensor(&f, HAL_TENSOR_INPUT, HAL_F32, 2), a = like(&f, x), y = like(&f, x);
    f.program.tensors[y].output = true;
    const hal_step steps[] = {{.op = HAL_STEP_ACTIVATION, .tensors = {[HAL_ROLE_X] = x, [HAL_ROLE_Y] = a}},
                              {.op = HAL_STEP_ACTIVATION, .tensors = {[HAL_ROLE_X] = a, [HAL_ROLE_Y] = y}}};
    assert_int_equal(hal_program_add_step(&f.program, &steps[0]), HAL_OK);
    assert_int_equal(hal_program_add_step(&f.program, &steps[1]), HAL_OK);
    hal_memory_plan plan;
    make(&f, &plan);
    assert_int_equal(plan.size, 3 * CELL);
    assert_int_equal(plan.peak, 2 * CELL + 100);
    assert_int_equal(plan.offsets[x], HAL_NO_PLACE);
    assert_int_equal(plan.offsets[y], HAL_NO_PLACE);
    expect_damage(&f, &plan, &plan.offsets[a], plan.offsets[a] + 64, "no multiple of 256");
    expect_damage(&f, &plan, &plan.offsets[a], 2 * CELL, "the arena has 768 bytes");
    expect_damage(&f, &plan, &plan.offsets[a], HAL_NO_PLACE, "has no place");
    expect_damage(&f, &plan, &plan.offsets[y], 0, "is an output");
    expect_damage(&f, &plan, &plan.workspace[0], HAL_NO_PLACE, "has no place");
    expect_damage(&f, &plan, &plan.workspace[0], plan.offsets[a], "writes");
    f.before[1] = 0;
    assert_int_equal(check(&f, &plan), HAL_ERROR_INVALID_STATE); /* the reader need not come second */
    hal_memory_plan_clear(&plan);
    hal_program_clear(&f.program);
}

/* A matrix of BF16 [1024, 12288] takes 24 MiB; codes take 12. gate and up come from GEMMs, the codes go to one. */
static void figures_of_the_activation_chain(void **state)
{
    (void)state;
    const uint64_t mib = UINT64_C(1) << 20;
    fixture f = {.seed = 0};
    hal_tensor_info info = {.dtype = HAL_BF16, .element_size = 2, .dims = {2, {1024, 12288}}};
    uint32_t id[8];
    for (uint32_t i = 1; i < 7; i++) { /* 1 x; 2 gate, 3 up, 4 SiLU(gate), 5 product; 6 codes */
        info.kind = i == 1 ? HAL_TENSOR_INPUT : HAL_TENSOR_STEP;
        if (i == 6) {
            info.dtype = HAL_F8E4M3;
            info.element_size = 1;
        }
        assert_int_equal(hal_program_add_tensor(&f.program, &info, NULL, &id[i]), HAL_OK);
    }
    info = (hal_tensor_info){.kind = HAL_TENSOR_STEP, .dtype = HAL_F32, .element_size = 4, .dims = {1, {1024}}};
    assert_int_equal(hal_program_add_tensor(&f.program, &info, NULL, &id[7]), HAL_OK);
    const hal_step steps[] = {
        {.op = HAL_STEP_GEMM, .tensors = {[HAL_ROLE_X] = 1, [HAL_ROLE_B] = 1, [HAL_ROLE_Y] = 2}},
        {.op = HAL_STEP_GEMM, .tensors = {[HAL_ROLE_X] = 1, [HAL_ROLE_B] = 1, [HAL_ROLE_Y] = 3}},
        {.op = HAL_STEP_ACTIVATION, .act = HAL_ACT_SILU, .tensors = {[HAL_ROLE_X] = 2, [HAL_ROLE_Y] = 4}},
        {.op = HAL_STEP_BINARY,
         .binary = HAL_MULTIPLY,
         .tensors = {[HAL_ROLE_X] = 4, [HAL_ROLE_B] = 3, [HAL_ROLE_Y] = 5}},
        {.op = HAL_STEP_QUANTIZE, .tensors = {[HAL_ROLE_X] = 5, [HAL_ROLE_Y] = 6, [HAL_ROLE_SCALES] = 7}}};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(hal_program_add_step(&f.program, &steps[i]), HAL_OK);
    }
    hal_memory_plan plan;
    assert_int_equal(hal_memory_plan_make(&f.program, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(hal_memory_plan_check(&f.program, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(plan.peak_apart, 72 * mib);
    assert_int_equal(plan.peak, 48 * mib); /* SiLU over gate, the product over that */
    assert_int_equal(plan.size, 48 * mib);
    assert_int_equal(plan.unshared, 108 * mib + 4096);
    hal_memory_plan_clear(&plan);

    hal_step *fused = &f.program.steps[4]; /* all three in one: as if a kernel quantised SiLU(gate) up */
    *fused = (hal_step){.op = HAL_STEP_QUANTIZE,
                        .tensors = {[HAL_ROLE_X] = 2, [HAL_ROLE_B] = 3, [HAL_ROLE_Y] = 6, [HAL_ROLE_SCALES] = 7}};
    hal_program_remove_step(&f.program, 3);
    hal_program_remove_step(&f.program, 2);
    f.program.tensors[4].kind = f.program.tensors[5].kind = HAL_TENSOR_FUSED;
    assert_int_equal(hal_memory_plan_make(&f.program, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(hal_memory_plan_check(&f.program, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(plan.peak, 60 * mib + 4096);
    assert_int_equal(plan.peak_apart, 60 * mib + 4096);
    assert_int_equal(plan.offsets[4], HAL_NO_PLACE);
    hal_memory_plan_clear(&plan);
    hal_program_clear(&f.program);
}

/* Nothing is in place in a transposition: a chain of them needs two places, whatever its length. */
static void a_chain_takes_two_places(void **state)
{
    (void)state;
    fixture f = {.seed = 0};
    uint32_t x = tensor(&f, HAL_TENSOR_INPUT, HAL_F32, 5);
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t y = like(&f, x);
        const hal_step step = {.op = HAL_STEP_TRANSPOSE, .tensors = {[HAL_ROLE_X] = x, [HAL_ROLE_Y] = y}};
        assert_int_equal(hal_program_add_step(&f.program, &step), HAL_OK);
        x = y;
    }
    hal_memory_plan plan;
    assert_int_equal(hal_memory_plan_make(&f.program, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(plan.size, 10 * CELL);
    assert_int_equal(plan.unshared, 50 * CELL);
    hal_memory_plan_clear(&plan);
    hal_program_clear(&f.program);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    fixture f = {.workspaces = {UINT64_MAX - 3}, .before = {0}};
    const hal_step step = {.op = HAL_STEP_ACTIVATION,
                           .tensors = {[HAL_ROLE_X] = tensor(&f, HAL_TENSOR_INPUT, HAL_F32, 1),
                                       [HAL_ROLE_Y] = tensor(&f, HAL_TENSOR_STEP, HAL_F32, 1)}};
    assert_int_equal(hal_program_add_step(&f.program, &step), HAL_OK);
    hal_memory_plan plan;
    assert_int_equal(hal_memory_plan_make(&f.program, 1, NULL, f.workspaces, &plan), HAL_ERROR_OUT_OF_RANGE);
    assert_null(plan.offsets);
    f.workspaces[0] = UINT64_MAX - 255;
    assert_int_equal(hal_memory_plan_make(&f.program, 1, NULL, f.workspaces, &plan), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(hal_memory_plan_make(&f.program, 0, NULL, NULL, &plan), HAL_OK);
    hal_memory_plan_clear(&plan);
    hal_program_clear(&f.program);
    const hal_program empty = {0};
    assert_int_equal(hal_memory_plan_make(&empty, 1, NULL, NULL, &plan), HAL_OK);
    assert_int_equal(plan.size, 0);
    assert_int_equal(hal_memory_plan_check(&empty, 1, NULL, NULL, &plan), HAL_OK);
    hal_memory_plan_clear(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_of_random_programs_pass),
        cmocka_unit_test(the_checker_agrees_with_every_order),
        cmocka_unit_test(places_are_checked),
        cmocka_unit_test(figures_of_the_activation_chain),
        cmocka_unit_test(a_chain_takes_two_places),
        cmocka_unit_test(sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
