/* test_kernel_abi.c - the argument structs of the built-in kernels (kernel_abi.h) and GEMM's flags. No device is
 * needed.
 */
#include "kernel_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* No language pads the struct, it fits a dispatch, and what a split fills in is last. */
static void test_struct(void **state)
{
    (void)state;
    assert_int_equal(sizeof(hal_gemm_args), 9 * 4 + 13 * 8 + 3 * 4);
    assert_true(sizeof(hal_gemm_args) <= 256);
    assert_int_equal(offsetof(hal_gemm_args, group_base), sizeof(hal_gemm_args) - 12);
}

/* Each field of the flags comes back, and none touches another. */
static void test_flags(void **state)
{
    (void)state;
    const uint32_t flags = GEMM_FLAGS(1u, 4u, 3u, 1u, 2u, 4u) | GEMM_SCALES(1u, 2u, 1u);
    assert_int_equal(GEMM_DTYPE_C(flags), 1);
    assert_int_equal(GEMM_DTYPE_D(flags), 4);
    assert_int_equal(GEMM_DTYPE_BIAS(flags), 3);
    assert_int_equal(GEMM_DTYPE_RESIDUAL(flags), 1);
    assert_int_equal(GEMM_BETWEEN(flags), 2);
    assert_int_equal(GEMM_ACT(flags), 4);
    assert_int_equal(GEMM_SCALE_A(flags), 1);
    assert_int_equal(GEMM_SCALE_B(flags), 2);
    assert_int_equal(GEMM_SCALE_D(flags), 1);
    const uint32_t bits = GEMM_TRANS_A | GEMM_TRANS_B | GEMM_TRANS_D | GEMM_INTERLEAVED;
    assert_int_equal(bits & (GEMM_FLAGS(7u, 7u, 7u, 7u, 7u, 7u) | GEMM_SCALES(3u, 3u, 3u)), 0);
    assert_int_equal(GEMM_FLAGS(7u, 7u, 7u, 7u, 7u, 7u) & GEMM_SCALES(3u, 3u, 3u), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_struct), cmocka_unit_test(test_flags)};
    return cmocka_run_group_tests_name("kernel abi", tests, NULL, NULL);
}
