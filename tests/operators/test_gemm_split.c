/* test_gemm_split.c - a GEMM that would keep the device busy for long is cut into several dispatches. */
#include "test_gemm.h"

#include "gemm.h"

#include <stdlib.h>
#include <string.h>

static hal_device_info device_like(hal_device_type type, uint32_t units, bool matrix_units)
{
    const hal_device_info info = {.type = type,
                                  .compute_units = units,
                                  .subgroup_size = 32,
                                  .max_group_size = 1024,
                                  .max_group_dim = {1024, 1024, 64},
                                  .max_group_count = {INT32_MAX, 65535, 65535},
                                  .max_shared_memory = 100 << 10,
                                  .matrix_units = matrix_units};
    return info;
}

static gemm_plan plan_for(const hal_device_info *info, hal_dtype dtype, uint64_t size, uint32_t k, gemm_kernel *kernel)
{
    gemm_problem problem = {.m = (uint32_t)size, .n = (uint32_t)size, .k = k, .batch = 1, .alpha = 1};
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        problem.operands[i].dtype = dtype;
    }
    gemm_plan plan;
    OK(hal_gemm_plan(info, &problem, 0, &plan, kernel));
    return plan;
}

/* What is usual is one dispatch. What is not has at most a second's work in each, or a group for each unit. */
void test_second_of_groups(void **state)
{
    (void)state;
    const struct {
        hal_device_info info;
        uint64_t usual, huge;
    } devices[] = {{device_like(HAL_DEVICE_CPU, 2, false), 1024, 8192},
                   {device_like(HAL_DEVICE_INTEGRATED, 1, false), 512, 8192},
                   {device_like(HAL_DEVICE_INTEGRATED, 32, false), 2048, 16384},
                   {device_like(HAL_DEVICE_DISCRETE, 3, false), 2048, 16384},
                   {device_like(HAL_DEVICE_DISCRETE, 132, false), 8192, 65536},
                   {device_like(HAL_DEVICE_DISCRETE, 132, true), 8192, 65536}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        const hal_device_info *info = &devices[i].info;
        for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
            gemm_kernel kernel;
            gemm_plan plan = plan_for(info, dtype, devices[i].usual, (uint32_t)devices[i].usual, &kernel);
            if (plan.most_groups < (uint64_t)plan.grid.x * plan.grid.y) {
                fail_msg("device %zu: %s of %d is split", i, plan.spec.name, (int)devices[i].usual);
            }
            for (uint32_t deep = 0; deep < 3; deep++) {
                const uint32_t k = (const uint32_t[]){0, 4096, 1u << 24}[deep];
                const uint64_t size = devices[i].huge << (k ? 2 : 5);
                plan = plan_for(info, dtype, size, k, &kernel);
                const double work = 2.0 * plan.tile_m * plan.tile_n * (k ? k : 1);
                const double second = info->compute_units * hal_gemm_slowest(info->type, kernel);
                const bool short_enough =
                    plan.most_groups == info->compute_units || (double)plan.most_groups * work <= second;
                if (!short_enough || plan.most_groups >= (uint64_t)plan.grid.x * plan.grid.y) {
                    fail_msg("device %zu, k %u: %llu of %u x %u groups of %s", i, k,
                             (unsigned long long)plan.most_groups, plan.grid.x, plan.grid.y, plan.spec.name);
                }
            }
        }
    }
}

/* Record the case, cut; its dispatches. */
static uint32_t record_split(fixture *f, const hal_gemm_desc *desc, uint32_t without, uint64_t most, hal_cmdlist **list)
{
    gemm_kernel used;
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "split"), list));
    OK(hal_gemm_split(*list, desc, without, most, &used));
    OK(hal_cmdlist_finish(*list));
    OK(hal_cmdlist_get_stats(*list, &stats));
    return stats.commands;
}

/* Bit for bit what one dispatch gives, recorded and at once, and nothing beside D. */
static void check_equal(gemm_case *g, fixture *f, uint32_t without, uint64_t most)
{
    static const uint8_t poison = 0x5A;
    matrix *d = &g->matrices[AT_D];
    const hal_gemm_desc desc = case_desc(g);
    uint8_t *got = malloc(d->bytes);
    assert_non_null(got);
    for (int recorded = 0; recorded < 2; recorded++) {
        OK(hal_cmd_fill(f->list, hal_whole(g->buffers[AT_D]), &poison, 1));
        gemm_kernel used;
        hal_cmdlist *list = NULL;
        if (recorded) {
            record_split(f, &desc, without, most, &list);
            OK(hal_cmdlist_submit(list, f->stream, NULL));
        } else {
            OK(hal_gemm_split(f->list, &desc, without, most, &used));
        }
        OK(hal_cmd_download(f->list, got, hal_whole(g->buffers[AT_D])));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        hal_cmdlist_destroy(list);
        if (memcmp(got, d->data, d->bytes) != 0) {
            case_print(g);
            fail_msg("%d groups a dispatch: the result differs", (int)most);
        }
    }
    free(got);
}

void test_split_is_equal(void **state)
{
    fixture *f = *state;
    uint64_t seed = 41;
    static const uint32_t forms[] = {0, GEMM_KERNEL_VIEWS, GEMM_KERNEL_TASK | GEMM_KERNEL_MMA | GEMM_KERNEL_ASYNC,
                                     GEMM_KERNEL_TASK | GEMM_KERNEL_MMA | GEMM_KERNEL_ASYNC | GEMM_KERNEL_SMALL};
    for (uint32_t round = 0; round < 24; round++) {
        const uint32_t without = forms[round % 4];
        gemm_case g;
        case_random(&g, (hal_dtype)(HAL_F32 + round % 3), round & 1, round & 2, round / 4 % 2 ? 5 : 140, 300, 21,
                    &seed);
        g.batch = 2;
        case_fill(&g, FILL_RANDOM, &seed);
        case_upload(&g, f);
        case_run_without(&g, f, without);
        case_check(&g, false);
        for (uint64_t most = 1; most <= 5; most += 2) {
            check_equal(&g, f, without, most);
        }
        case_free(&g);
    }
}

/* How many dispatches: one where all groups fit, else no more than it takes. */
void test_split_count(void **state)
{
    fixture *f = *state;
    hal_cmdlist *list;
    hal_gemm_desc desc = {.struct_size = sizeof desc, .m = 4, .n = 5000, .k = 4};
    desc.a = hal_slot(0, 0);
    desc.b = hal_slot(1, 0);
    desc.d = hal_slot(2, 0);
    const uint32_t groups = record_split(f, &desc, 0, 1, &list); /* all side by side */
    hal_cmdlist_destroy(list);
    assert_true(groups > 4);
    for (uint32_t most = 2; most <= groups + 1; most++) {
        assert_int_equal(record_split(f, &desc, 0, most, &list), (groups + most - 1) / most);
        hal_cmdlist_destroy(list);
    }
    /* Nothing is lowered here: the plan for this device decides. */
    desc.m = desc.n = desc.k = 512;
    assert_int_equal(record_split(f, &desc, 0, 0, &list), 1);
    hal_cmdlist_destroy(list);
    desc.m = desc.n = desc.k = 16384;
    assert_true(record_split(f, &desc, 0, 0, &list) > 1);
    hal_cmdlist_destroy(list);
}
