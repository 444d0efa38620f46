/* test_gemm_async.c - where a device has asynchronous matrix units, their GEMM is taken for what is large enough, and
 * it alone; results are those of the other matrix kernel. */
#include "gemm.h"
#include "gemm_case.h"
#include "test_gemm.h"

#include <stdlib.h>
#include <string.h>

/* The kernel that a problem gets. */
static gemm_kernel kernel_of(fixture *f, const hal_gemm_desc *desc)
{
    hal_cmdlist *list;
    gemm_kernel used = 0;
    OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "kernel_of"), &list));
    OK(hal_gemm_without(list, desc, 0, &used));
    hal_cmdlist_destroy(list);
    return used;
}

/* D of a problem of integers drawn from `seed`, by the kernel that is expected; for the caller to free. */
static void *one_case(const char *limits, gemm_kernel want, hal_dtype dtype, int trans, uint64_t seed, uint64_t *size)
{
    fixture f;
    gemm_case g;
    fixture_open(&f, limits);
    case_random(&g, dtype, trans & 1, trans & 2, 65 + random_below(&seed, 90), 100 + random_below(&seed, 200),
                1 + random_below(&seed, 300), &seed);
    g.alpha = 1;
    g.beta = 2;
    g.act = HAL_ACT_RELU;
    case_fill(&g, FILL_INTEGER, &seed);
    case_upload(&g, &f);
    const hal_gemm_desc desc = case_desc(&g);
    assert_int_equal(kernel_of(&f, &desc), want);
    case_run(&g, &f);
    case_check(&g, true);
    *size = g.matrices[AT_D].bytes;
    void *d = malloc(*size);
    assert_non_null(d);
    memcpy(d, g.matrices[AT_D].data, *size);
    case_free(&g);
    fixture_close(&f);
    return d;
}

void test_async_matrix(void **state)
{
    fixture *f = *state;
    if (!hal_device_get_info(f->device)->async_matrix) {
        skip();
    }
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        for (int trans = 0; trans < 4; trans++) {
            uint64_t size, same;
            void *d = one_case("units=1", GEMM_KERNEL_ASYNC, dtype, trans, 13, &size);
            void *e = one_case("units=1,async_matrix=0", GEMM_KERNEL_MMA, dtype, trans, 13, &same);
            assert_int_equal(size, same);
            assert_memory_equal(d, e, size);
            free(d);
            free(e);
        }
    }
}

/* Which shapes are large enough; without the units, or with a mode or an option that needs another kernel, none is. */
void test_async_choice(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "");
    const hal_device_info *info = hal_device_get_info(f.device);
    hal_gemm_desc desc = {.struct_size = sizeof desc, .m = 128, .k = 64, .dtype = HAL_BF16};
    desc.a = hal_slot(0, 0);
    desc.b = hal_slot(1, 0);
    desc.d = hal_slot(2, 0);
    desc.n = (uint64_t)128 * ((info->compute_units + 1) / 2); /* half of the device */
    if (!info->async_matrix) {
        assert_int_not_equal(kernel_of(&f, &desc), GEMM_KERNEL_ASYNC);
    } else {
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_ASYNC);
        desc.n -= 128;
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_MMA);
        desc.mode = HAL_MODE_BATCH_INVARIANT; /* whatever m is, it must be the same */
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_ASYNC);
        desc.m = 1;
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_ASYNC);
        desc.mode = HAL_MODE_FAST;
        desc.m = 64;
        desc.n = 65536;
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_MMA);
        desc.m = 65;
        assert_int_equal(kernel_of(&f, &desc), GEMM_KERNEL_ASYNC);
        desc.dtype = HAL_F32;
        assert_int_equal(kernel_of(&f, &desc), 0);
        desc.dtype = HAL_BF16;
        desc.mode = HAL_MODE_STRICT;
        assert_int_equal(kernel_of(&f, &desc), 0);
        fixture_close(&f);
        fixture_open(&f, "matrix=0");
        desc.mode = HAL_MODE_FAST;
        assert_int_equal(kernel_of(&f, &desc), 0);
    }
    fixture_close(&f);
}
