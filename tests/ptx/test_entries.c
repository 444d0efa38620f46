/* Whatever GEMM kernel is planned for a CUDA device, the PTX of this build has an entry of that name, with the kernel
 * ABI's parameters and for groups of that size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core.h"
#include "gemm.h"

static const char *built_in_ptx(const char *name)
{
    for (size_t i = 0; i < hal_builtin_count; i++)
        if (strcmp(hal_builtins[i].name, name) == 0)
            return hal_builtins[i].cuda_ptx;
    return NULL;
}

/* The text from ".entry NAME(" up to its body; false if there is none. */
static bool entry_head(const hal_kernel_spec *spec, char *name, size_t name_size, char *head, size_t head_size)
{
    const char *ptx = built_in_ptx(spec->name), *start, *body;
    size_t used = (size_t)snprintf(name, name_size, ".entry %s", spec->name);
    for (uint32_t i = 0; i < spec->constant_count; i++)
        used += (size_t)snprintf(name + used, name_size - used, "%s%u", i ? "_" : "__", spec->constants[i]);
    snprintf(name + used, name_size - used, "(");
    if (!ptx || !(start = strstr(ptx, name)) || !(body = strchr(start, '{')))
        return false;
    snprintf(head, head_size, "%.*s", (int)(body - start), start);
    return true;
}

static uint32_t occurrences(const char *text, const char *part)
{
    uint32_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

static void check_entry(const hal_kernel_spec *spec, const char *name, const char *head)
{
    char wanted[64];
    const char *group = strstr(head, ".maxntid ");
    unsigned x = 0, y = 0, z = 0;
    snprintf(wanted, sizeof wanted, "[%zu]", sizeof(hal_gemm_args));
    if (occurrences(head, ".param ") != spec->binding_count + 1 ||
        occurrences(head, ".param .u64") != spec->binding_count || !strstr(head, wanted))
        fail_msg("%s: not %u pointers and %zu bytes:\n%s", name, spec->binding_count, sizeof(hal_gemm_args), head);
    if (!group || sscanf(group, ".maxntid %u, %u, %u", &x, &y, &z) != 3 ||
        x * y * z != spec->group[0] * spec->group[1] * spec->group[2])
        fail_msg("%s: is for groups of %ux%ux%u, launched with %ux%ux%u", name, x, y, z, spec->group[0], spec->group[1],
                 spec->group[2]);
}

/* As hal_gemm does it: without a kernel that is not there. `whole`: every kernel that is chosen must be there. */
static void check_plan(const hal_device_info *info, const gemm_problem *problem, uint32_t without, bool whole)
{
    for (;;) {
        gemm_plan plan;
        gemm_kernel chosen;
        char name[256], head[4096];
        assert_int_equal(hal_gemm_plan(info, problem, without, &plan, &chosen), HAL_OK);
        if (entry_head(&plan.spec, name, sizeof name, head, sizeof head)) {
            check_entry(&plan.spec, name, head);
            return;
        }
        if (whole || !chosen)
            fail_msg("%s: no \"%s\" in the PTX (m %u, n %u, k %u)", info->name, name, problem->m, problem->n,
                     problem->k);
        without |= chosen;
    }
}

static void check_device(const hal_device_info *info, bool whole)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 9, 64, 129, 513, 4096, 20000};
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t m = 0; m < count; m++)
        for (size_t n = 0; n < count; n++)
            for (uint32_t bits = 0; bits < 4 * 2 * 2 * 2 * 4; bits++) {
                gemm_problem problem = {.m = sizes[m], .n = sizes[n], .batch = 1, .alpha = 1};
                problem.trans_a = bits & 1;
                problem.trans_b = bits & 2;
                problem.k = bits & 4 ? 4096 : 0;
                uint32_t without = (bits & 8 ? GEMM_KERNEL_MMA : 0) | (bits & 16 ? GEMM_KERNEL_SMALL : 0) |
                                   (bits & 24 ? GEMM_KERNEL_ASYNC : 0);
                for (int i = 0; i < GEMM_OPERANDS; i++)
                    problem.operands[i].dtype = (hal_dtype)(HAL_F32 + bits / 32);
                check_plan(info, &problem, without, whole);
                problem.swiglu = true;
                check_plan(info, &problem, without, whole);
                problem.swiglu = false;
                problem.trans_d = true;
                check_plan(info, &problem, without, whole);
            }
}

static hal_device_info device(const char *name, uint32_t capability, uint32_t units, uint32_t shared)
{
    hal_device_info info = {.type = HAL_DEVICE_DISCRETE,
                            .compute_capability = capability,
                            .compute_units = units,
                            .subgroup_size = 32,
                            .subgroup_size_min = 32,
                            .subgroup_size_max = 32,
                            .max_group_size = 1024,
                            .max_group_dim = {1024, 1024, 64},
                            .max_shared_memory = shared,
                            .subgroups = true,
                            .subgroup_shuffle = true,
                            .fp16 = true,
                            .bf16 = true,
                            .matrix_units = true,
                            .async_matrix = capability == 90};
    snprintf(info.backend, sizeof info.backend, "cuda");
    snprintf(info.name, sizeof info.name, "%s", name);
    return info;
}

static void test_real_devices(void **state)
{
    (void)state;
    const hal_device_info devices[] = {device("A100", 80, 108, 166912), device("RTX 3050", 86, 16, 101376),
                                       device("H100", 90, 132, 232448), device("RTX PRO 6000", 120, 188, 101376)};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        check_device(&devices[i], true);
}

/* Lowered limits, as tests set them: perhaps another kernel, but one that is there. */
static void test_lowered_limits(void **state)
{
    (void)state;
    hal_device_info small = device("small groups", 90, 132, 232448), shared = device("little shared", 90, 132, 16384);
    hal_device_info plain = device("no matrix units", 90, 132, 232448);
    small.max_group_size = 128;
    plain.matrix_units = plain.async_matrix = false;
    check_device(&small, false);
    check_device(&shared, false);
    check_device(&plain, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_devices), cmocka_unit_test(test_lowered_limits)};
    if (!built_in_ptx("gemm")) {
        printf("skipped: this build has no CUDA kernels\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
