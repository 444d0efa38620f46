/* gemm_plan.c - which kernel, with which tile, on which grid. Decided by what the device is and can do and by the
 * shape, never by a driver's name. */
#include "gemm_plan.h"

typedef struct gemm_tile {
    uint32_t m, n, k, micro_m, micro_n;
} gemm_tile;

/* Loop turns of the kernel for one tile of k: the loop over tiles, the one inside by 8 k, and its last test. */
#define TILED_TURNS(tile_k) (1 + (tile_k) / 8 + 1)

/* Largest first: a larger tile reads less, a smaller one fills more of the device. */
static const gemm_tile tiles[] = {{128, 128, 16, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}};
#define TILE_COUNT (sizeof tiles / sizeof tiles[0])

/* What it costs to load an element of A or B, and to finish and store one of D, in FLOP. */
#define LOAD_WORK  16.0
#define STORE_WORK 64.0

static const char *const tiled_names[] = {"DTYPE",  "TRANS_A", "TRANS_B", "TILE_M",
                                          "TILE_N", "TILE_K",  "MICRO_M", "MICRO_N"};

void hal_gemm_plan_start_with(gemm_plan *plan, const char *name, const uint32_t *constants, uint32_t count,
                              uint32_t operands)
{
    static const hal_access accesses[GEMM_ALL_OPERANDS] = {HAL_READ, HAL_READ, HAL_READ, HAL_WRITE, HAL_READ,
                                                           HAL_READ, HAL_READ, HAL_READ, HAL_READ,  HAL_READ};
    memset(plan, 0, sizeof *plan);
    hal_kernel_spec *spec = &plan->spec;
    snprintf(spec->name, sizeof spec->name, "%s", name);
    plan->choice = name;
    memcpy(spec->constants, constants, count * sizeof *constants);
    spec->constant_count = count;
    memcpy(spec->bindings, accesses, operands * sizeof *accesses);
    plan->operands = spec->binding_count = operands;
    spec->args_size = sizeof(hal_gemm_args);
    spec->group[0] = spec->group[1] = spec->group[2] = 1;
}

void hal_gemm_plan_start(gemm_plan *plan, const char *name, const uint32_t *constants, uint32_t count)
{
    hal_gemm_plan_start_with(plan, name, constants, count, GEMM_OPERANDS);
}

void hal_gemm_plan_cover(gemm_plan *plan, const gemm_problem *p, uint32_t tile_m, uint32_t tile_n, uint32_t tile_k)
{
    plan->tile_k = tile_k;
    plan->tile_m = tile_m;
    plan->tile_n = tile_n;
    plan->grid = HAL_GRID3(hal_groups(p->n, tile_n), hal_groups(p->m, tile_m), p->batch);
}

bool hal_gemm_plan_wanted(const gemm_problem *p, const char *kernel, uint32_t tile_m, uint32_t tile_n, uint32_t tile_k)
{
    const gemm_choice *w = p->want;
    return !w || (strcmp(w->kernel, kernel) == 0 && w->tile_m == tile_m && w->tile_n == tile_n && w->tile_k == tile_k);
}

bool hal_gemm_plan_loops_fit(const hal_device_info *info, const gemm_plan *plan)
{
    return info->max_loop_iterations == 0 || plan->iterations <= info->max_loop_iterations;
}

static bool tile_fits(const hal_device_info *info, const gemm_tile *tile)
{
    uint32_t x = tile->n / tile->micro_n, y = tile->m / tile->micro_m;
    return x * y <= info->max_group_size && x <= info->max_group_dim[0] && y <= info->max_group_dim[1] &&
           (tile->m + tile->n + 8) * tile->k * sizeof(float) <= info->max_shared_memory;
}

static hal_status plan_tiled(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    const gemm_tile *best = NULL;
    for (size_t i = 0; i < TILE_COUNT; i++) {
        const gemm_tile *tile = &tiles[i];
        if (!tile_fits(info, tile) || !hal_gemm_plan_wanted(p, "gemm", tile->m, tile->n, tile->k)) {
            continue;
        }
        best = tile;
        uint64_t count = hal_groups(p->m, tile->m) * hal_groups(p->n, tile->n) * p->batch;
        if (count >= 2 * (uint64_t)info->compute_units) {
            break;
        }
    }
    if (!best) {
        return hal_fail(
            HAL_ERROR_LIMIT,
            "gemm: the device allows groups of %u with %u bytes of shared memory; the smallest tile needs 64 "
            "and 4608",
            info->max_group_size, info->max_shared_memory);
    }
    const uint32_t constants[] = {(uint32_t)p->operands[GEMM_A].dtype,
                                  p->trans_a,
                                  p->trans_b,
                                  best->m,
                                  best->n,
                                  best->k,
                                  best->micro_m,
                                  best->micro_n};
    hal_gemm_plan_start(plan, "gemm", constants, 8);
    plan->constant_names = tiled_names;
    plan->spec.group[0] = best->n / best->micro_n;
    plan->spec.group[1] = best->m / best->micro_m;
    hal_gemm_plan_cover(plan, p, best->m, best->n, best->k);
    plan->iterations = hal_groups(p->k, best->k) * TILED_TURNS(best->k) + 1 + (best->micro_n + 2) * best->micro_m + 1;
    if (!hal_gemm_plan_loops_fit(info, plan)) {
        return hal_fail(HAL_ERROR_LIMIT, "gemm: k is %u; the loops of this device end after %u turns; split k", p->k,
                        info->max_loop_iterations);
    }
    return HAL_OK;
}

bool hal_gemm_has_options(const gemm_problem *p)
{
    const hal_operand *o = p->operands;
    return p->mode == HAL_MODE_STRICT || p->swiglu || p->trans_d || o[GEMM_A].dtype == HAL_F8E4M3 ||
           o[GEMM_D].dtype == HAL_F8E4M3 || o[GEMM_AT_SCALE_A].present || o[GEMM_AT_SCALE_B].present;
}

static hal_status plan_any(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE", "STRICT", "PARTS"};
    static const gemm_tile tile = {32, 32, 16, 4, 4};
    const uint32_t parts = p->swiglu ? 2 : 1;
    const uint32_t constants[] = {(uint32_t)p->operands[GEMM_A].dtype, p->mode == HAL_MODE_STRICT, parts};
    if (!tile_fits(info, &tile) ||
        (tile.m + 4 + parts * (tile.n + 4)) * tile.k * sizeof(float) > info->max_shared_memory) {
        return hal_fail(HAL_ERROR_LIMIT,
                        "gemm: the device allows groups of %u with %u bytes of shared memory; this needs 64 and %u",
                        info->max_group_size, info->max_shared_memory, parts == 1 ? 4608 : 6912);
    }
    hal_gemm_plan_start_with(plan, "gemm_any", constants, 3, GEMM_ALL_OPERANDS);
    plan->constant_names = names;
    plan->spec.group[0] = plan->spec.group[1] = 8;
    hal_gemm_plan_cover(plan, p, tile.m, tile.n, tile.k);
    plan->iterations = hal_groups(p->k, tile.k) * TILED_TURNS(tile.k) + 1 + (tile.micro_n + 2) * tile.micro_m + 1;
    if (!hal_gemm_plan_loops_fit(info, plan)) {
        return hal_fail(HAL_ERROR_LIMIT, "gemm: k is %u; the loops of this device end after %u turns; split k", p->k,
                        info->max_loop_iterations);
    }
    return HAL_OK;
}

hal_status hal_gemm_plan_queue(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan, bool *fits)
{
    hal_status status = plan_any(info, p, plan);
    if (status != HAL_OK) {
        return status;
    }
    const uint64_t tasks = (uint64_t)plan->grid.x * plan->grid.y, turns = plan->iterations;
    const uint64_t groups = hal_fewer(4 * (uint64_t)info->compute_units, tasks);
    const double parts = p->swiglu ? 2 : 1, step = p->mode == HAL_MODE_STRICT ? 8 : 2;
    const double work = (double)p->m * p->n * (p->k * step * parts + STORE_WORK);
    snprintf(plan->spec.name, sizeof plan->spec.name, "gemm_queue");
    plan->operands = plan->spec.binding_count = GEMM_QUEUE_OPERANDS;
    plan->spec.bindings[GEMM_CODES] = plan->spec.bindings[GEMM_ROW_SCALES] = HAL_WRITE;
    plan->spec.bindings[GEMM_QUEUE] = HAL_READ_WRITE;
    plan->grid = HAL_GRID3((uint32_t)groups, 1, 1);
    /* One group may have to take every tile, and then quantise every row. */
    plan->iterations = tasks * (turns + 2) + (uint64_t)p->m * (2 * (p->n / 64 + 1) + 8);
    *fits = hal_gemm_plan_loops_fit(info, plan) && work < info->compute_units * hal_gemm_slowest(info->type, 0) &&
            tasks < UINT32_MAX / 2;
    return HAL_OK;
}

void hal_gemm_plan_combine(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"THREADS", "PARTS"};
    const uint32_t threads = info->max_group_size < 64 ? info->max_group_size : 64;
    const uint32_t constants[] = {threads, p->swiglu ? 2 : 1};
    hal_gemm_plan_start_with(plan, "gemm_combine", constants, 2, GEMM_ALL_OPERANDS);
    plan->constant_names = names;
    plan->spec.group[0] = threads;
    hal_gemm_plan_cover(plan, p, 1, 4 * threads, 0);
}

/* Sums for each element of D. */
static uint32_t sums_of(const gemm_problem *p)
{
    return p->swiglu ? 2 : 1;
}

/* A core's task in OpenCL C, its tile in columns of B. With two more constants it has every option. */
static void start_task(gemm_plan *plan, const gemm_problem *p, const char *name, uint32_t constants[8], uint32_t count)
{
    if (hal_gemm_has_options(p)) {
        constants[count++] = p->mode == HAL_MODE_STRICT;
        constants[count++] = sums_of(p);
        hal_gemm_plan_start_with(plan, name, constants, count, GEMM_ALL_OPERANDS);
    } else {
        hal_gemm_plan_start(plan, name, constants, count);
    }
}

/* B's block and the sums wait in local memory, which is to stay in the core's cache. */
static bool task_fits(const hal_device_info *info, const gemm_problem *p, uint32_t m, uint32_t n, uint32_t k)
{
    const uint64_t floats = (uint64_t)n * (k + m) + (p->trans_a ? 24 : 6) * k;
    return n % (16 * sums_of(p)) == 0 && floats * sizeof(float) <= info->max_shared_memory;
}

/* The first block that the device allows is taken. More rows to a tile mean that B is packed less often. */
static bool task_tile(const hal_device_info *info, const gemm_problem *p, uint32_t tile[3])
{
    static const struct {
        uint32_t n, k;
    } blocks[] = {{64, 512}, {32, 128}, {32, 64}, {16, 64}};
    static const uint32_t all[] = {258, 132, 66, 24}, some[] = {132, 24}; /* options make kernels enough */
    const bool options = hal_gemm_has_options(p);
    const uint32_t *rows = options ? some : all;
    const size_t sizes = options ? sizeof some / sizeof some[0] : sizeof all / sizeof all[0];
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        /* A is widened once for all columns of a tile. */
        const uint32_t n = i == 0 && p->operands[GEMM_A].dtype != HAL_F32 ? 2 * blocks[i].n : blocks[i].n;
        tile[0] = 0;
        for (size_t j = 0; j < sizes; j++) {
            if (!task_fits(info, p, rows[j], n, blocks[i].k) || (j + 1 < sizes && rows[j + 1] >= p->m)) {
                continue;
            }
            tile[0] = rows[j];
            if (hal_groups(p->m, rows[j]) * hal_groups(p->n, n / sums_of(p)) * p->batch >=
                4 * (uint64_t)info->compute_units) {
                break;
            }
        }
        tile[1] = n;
        tile[2] = blocks[i].k;
        if (tile[0]) {
            return true;
        }
    }
    return false;
}

static bool plan_task(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE", "TRANS_A", "TRANS_B", "TILE_M", "TILE_N", "TILE_K", "STRICT", "PARTS"};
    uint32_t tile[3] = {0};
    if (p->want) { /* any, of the multiples that the kernel can do */
        const gemm_choice *w = p->want;
        if (strcmp(w->kernel, "gemm_task") != 0 || !w->tile_m || !w->tile_n || !w->tile_k || w->tile_m % 6 ||
            w->tile_n % 16 || w->tile_k % 16 || !task_fits(info, p, w->tile_m, w->tile_n, w->tile_k)) {
            return false;
        }
        tile[0] = w->tile_m, tile[1] = w->tile_n, tile[2] = w->tile_k;
    } else if (!task_tile(info, p, tile)) {
        return false;
    }
    uint32_t constants[8] = {(uint32_t)p->operands[GEMM_A].dtype, p->trans_a, p->trans_b, tile[0], tile[1], tile[2]};
    start_task(plan, p, "gemm_task", constants, 6);
    plan->constant_names = names;
    hal_gemm_plan_cover(plan, p, tile[0], tile[1] / sums_of(p), tile[2]);
    return true;
}

static uint32_t few_rows(uint32_t m)
{
    return m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : m <= 8 ? 8 : m <= 12 ? 12 : 16;
}

/* Few rows on a CPU device: wide tiles keep B's rows streaming, so a column of a narrow one costs more; a tile is
 * narrower only where units would idle for longer than that. */
static bool plan_task_small(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE", "TRANS_B", "ROWS", "TILE_N", "TILE_K", "STRICT", "PARTS"};
    static const struct {
        uint32_t columns, price;
    } tiles_n[] = {{512, 4}, {128, 6}, {32, 9}};
    const uint32_t rows = few_rows(p->m);
    uint32_t tile_n = 0, tile_k = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof tiles_n / sizeof tiles_n[0]; i++) {
        const uint32_t columns = tiles_n[i].columns;
        const uint64_t tasks = hal_groups(p->n, columns / sums_of(p)) * p->batch;
        const uint64_t cost = hal_groups(tasks, info->compute_units) * columns * tiles_n[i].price;
        if (2 * rows * columns * sizeof(float) <= info->max_shared_memory && cost < least &&
            hal_gemm_plan_wanted(p, "gemm_task_small", rows, columns, columns)) {
            tile_n = tile_k = columns;
            least = cost;
        }
    }
    if (!tile_n) {
        return false;
    }
    uint32_t constants[8] = {(uint32_t)p->operands[GEMM_A].dtype, p->trans_b, rows, tile_n, tile_k};
    start_task(plan, p, "gemm_task_small", constants, 5);
    plan->constant_names = names;
    hal_gemm_plan_cover(plan, p, rows, tile_n / sums_of(p), tile_k);
    return true;
}

/* Few rows on any other device. */
static bool plan_small(const hal_device_info *info, const gemm_problem *p, gemm_plan *plan)
{
    static const char *const names[] = {"DTYPE", "TRANS_B", "ROWS", "TILE_N", "THREADS"};
    const uint32_t rows = few_rows(p->m), tile_n = 32; /* m, so rows, is 8 at most */
    uint32_t threads = 256;
    if (threads > info->max_group_size || threads > info->max_group_dim[0] ||
        threads * rows * sizeof(float) > info->max_shared_memory) {
        threads = 64;
    }
    if (threads > info->max_group_size || threads > info->max_group_dim[0] ||
        threads * rows * sizeof(float) > info->max_shared_memory) {
        return false;
    }
    const uint32_t constants[] = {(uint32_t)p->operands[GEMM_A].dtype, p->trans_b, rows, tile_n, threads};
    hal_gemm_plan_start(plan, "gemm_small", constants, 5);
    plan->constant_names = names;
    plan->spec.group[0] = threads;
    hal_gemm_plan_cover(plan, p, rows, tile_n, threads);
    const uint32_t slices = threads / tile_n, items = hal_groups(rows * tile_n, threads);
    plan->iterations = hal_groups(p->k, slices) + 1 + (uint64_t)items * (slices + 2) + 1;
    return hal_gemm_plan_loops_fit(info, plan) && hal_gemm_plan_wanted(p, "gemm_small", rows, tile_n, threads);
}

/* One core's task, or subgroup, a tile. */
static bool plan_any_task(const hal_device_info *info, const gemm_problem *p, uint32_t without, bool few,
                          gemm_plan *plan)
{
    if (info->max_view_elements) {
        return hal_gemm_plan_texel_task(info, p, without, plan);
    }
    return p->want ? plan_task(info, p, plan) || (few && plan_task_small(info, p, plan))
           : few   ? plan_task_small(info, p, plan)
                   : plan_task(info, p, plan);
}

static hal_status choose(const hal_device_info *info, const gemm_problem *problem, uint32_t without, gemm_plan *plan,
                         gemm_kernel *chosen)
{
    /* Batch-invariant: no kernel whose order of summation differs from the one for many rows (gemm.c). Nor for
     * options: gemm_queue is to have the same bits. */
    const bool invariant = problem->mode == HAL_MODE_BATCH_INVARIANT;
    const bool few = problem->m <= GEMM_FEW_ROWS && !invariant, options = hal_gemm_has_options(problem);
    const bool few_for_task = problem->trans_b ? few && !options : problem->m <= GEMM_FEW_ROWS_TASK;
    *chosen = 0;
    if (info->type == HAL_DEVICE_CPU && !(without & GEMM_KERNEL_TASK) && !(options && info->max_view_elements) &&
        plan_any_task(info, problem, without, few_for_task, plan)) {
        *chosen = GEMM_KERNEL_TASK;
        return HAL_OK;
    }
    if (options) {
        *chosen = !(without & GEMM_KERNEL_MMA) && hal_gemm_plan_mma_any(info, problem, plan) ? GEMM_KERNEL_MMA : 0;
        return *chosen ? HAL_OK : plan_any(info, problem, plan);
    }
    if (few && !(without & GEMM_KERNEL_SMALL) && plan_small(info, problem, plan)) {
        *chosen = GEMM_KERNEL_SMALL;
        return HAL_OK;
    }
    if (!(without & GEMM_KERNEL_ASYNC) && hal_gemm_plan_async(info, problem, plan)) {
        *chosen = GEMM_KERNEL_ASYNC;
        return HAL_OK;
    }
    if (!(without & GEMM_KERNEL_MMA) && hal_gemm_plan_mma(info, problem, plan)) {
        *chosen = GEMM_KERNEL_MMA;
        return HAL_OK;
    }
    return plan_tiled(info, problem, plan);
}

gemm_choice hal_gemm_choice_of(const gemm_plan *plan)
{
    gemm_choice choice = {.tile_m = plan->tile_m, .tile_n = plan->tile_n, .tile_k = plan->tile_k};
    snprintf(choice.kernel, sizeof choice.kernel, "%s", plan->choice);
    return choice;
}

bool hal_gemm_same_choice(const gemm_choice *x, const gemm_choice *y)
{
    return strcmp(x->kernel, y->kernel) == 0 && x->tile_m == y->tile_m && x->tile_n == y->tile_n &&
           x->tile_k == y->tile_k;
}

uint32_t hal_gemm_choices(const hal_device_info *info, const gemm_problem *problem,
                          gemm_choice choices[GEMM_MOST_CHOICES])
{
    static const gemm_choice all[] = {
        {"gemm_task", 258, 64, 512},    {"gemm_task", 132, 64, 512},      {"gemm_task", 66, 64, 512},
        {"gemm_task", 24, 64, 512},     {"gemm_task", 258, 128, 512},     {"gemm_task", 132, 128, 512},
        {"gemm_task", 258, 64, 256},    {"gemm_task", 132, 128, 256},     {"gemm_task", 258, 48, 1024},
        {"gemm_task", 132, 32, 512},    {"gemm_task_small", 0, 512, 512}, {"gemm_task_small", 0, 128, 128},
        {"gemm_task_small", 0, 32, 32}, {"gemm_task", 8, 0, 0},           {"gemm_task", 16, 0, 0},
        {"gemm_task", 32, 0, 0},        {"gemm_task", 48, 0, 0},          {"gemm_small", 0, 32, 256},
        {"gemm_small", 0, 32, 64},      {"gemm_mma", 128, 256, 32},       {"gemm_mma", 128, 128, 32},
        {"gemm_mma", 64, 64, 32},       {"gemm", 128, 128, 16},           {"gemm", 64, 64, 16},
        {"gemm", 32, 32, 16},           {"gemm_async", 128, 256, 64},     {"gemm_async", 128, 128, 64},
    };
    gemm_problem p = *problem;
    gemm_plan plan;
    gemm_kernel chosen;
    uint32_t count = 0;
    p.want = NULL;
    if (choose(info, &p, 0, &plan, &chosen) == HAL_OK) {
        choices[count++] = hal_gemm_choice_of(&plan);
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0] && count < GEMM_MOST_CHOICES; i++) {
        gemm_choice want = all[i];
        want.tile_m = want.tile_m ? want.tile_m : few_rows(p.m); /* kernels for few rows have a size for each */
        want.tile_n = want.tile_n ? want.tile_n : p.operands[GEMM_A].dtype == HAL_F32 ? 32 : 64;
        p.want = &want;
        if (choose(info, &p, 0, &plan, &chosen) != HAL_OK) {
            continue;
        }
        const gemm_choice got = hal_gemm_choice_of(&plan);
        bool known = !hal_gemm_same_choice(&got, &want);
        for (uint32_t c = 0; c < count; c++) {
            known = known || hal_gemm_same_choice(&choices[c], &got);
        }
        if (!known) {
            choices[count++] = got;
        }
    }
    return count;
}

/* About an eighth of what the smallest unit of each class does at its best; a CPU that runs a GPU's kernel (one
 * work-item after the other, barriers between) is far slower: lavapipe was measured at 150 MFLOP/s a core. */
double hal_gemm_slowest(hal_device_type type, gemm_kernel kernel)
{
    switch (type) {
    case HAL_DEVICE_CPU:
        return kernel == GEMM_KERNEL_TASK ? 4e9 : 0.1e9;
    case HAL_DEVICE_DISCRETE:
        return kernel == GEMM_KERNEL_MMA || kernel == GEMM_KERNEL_ASYNC ? 100e9 : 20e9;
    default:
        return 2e9;
    }
}

/* Groups that surely run within a second, the time in which watchdogs and a user who waits lose patience. Less than a
 * group to each unit would not be faster. */
static uint64_t second_of_groups(const hal_device_info *info, const gemm_problem *p, const gemm_plan *plan,
                                 gemm_kernel kernel)
{
    const double m = plan->tile_m, n = plan->tile_n, units = info->compute_units;
    const double parts = p->swiglu ? 2 : 1, step = p->mode == HAL_MODE_STRICT ? 8 : 2; /* FLOP of a product and sum */
    const double work = p->k * (step * m * n * parts + LOAD_WORK * (m + n * parts)) + STORE_WORK * m * n;
    const double most = units * hal_gemm_slowest(info->type, kernel) / work;
    return (uint64_t)(most > units ? most : units);
}

hal_status hal_gemm_plan(const hal_device_info *info, const gemm_problem *problem, uint32_t without, gemm_plan *plan,
                         gemm_kernel *chosen)
{
    hal_status status = choose(info, problem, without, plan, chosen);
    if (status != HAL_OK && problem->want) { /* it does not fit: the rules choose */
        gemm_problem open = *problem;
        open.want = NULL;
        status = choose(info, &open, without, plan, chosen);
    }
    if (status == HAL_OK) {
        plan->most_groups = second_of_groups(info, problem, plan, *chosen);
    }
    return status;
}
