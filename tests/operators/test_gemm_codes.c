/* test_gemm_codes.c - products of E4M3 on the device that HAL_BACKEND names: every pair of codes, every size, any
 * address, and which kernel is to do it. */
#include "gemm.h"
#include "kernel_math.h"
#include "rows.h"

#include <math.h>
#include <string.h>

/* D = A B of operands that are uploaded; a tell_fn. */
typedef struct product {
    operand a, b, d;
    uint64_t m, n, k;
    bool trans_a, trans_b;
    hal_mode mode;
} product;

static hal_status tell(hal_cmdlist *list, void *user)
{
    const product *p = user;
    return hal_gemm(list, HAL_GEMM(.m = p->m, .n = p->n, .k = p->k, .dtype = HAL_F8E4M3, .trans_a = p->trans_a,
                                   .trans_b = p->trans_b, .a = operand_span(&p->a), .b = operand_span(&p->b),
                                   .d = operand_span(&p->d), .lda = p->a.host.ld, .ldb = p->b.host.ld,
                                   .ldd = p->d.host.ld, .mode = p->mode));
}

static void create(product *p, fixture *f, const uint64_t offset[2], const uint64_t pad[2], matrix_fill fill,
                   uint64_t *seed)
{
    const uint64_t columns_a = p->trans_a ? p->m : p->k, columns_b = p->trans_b ? p->k : p->n;
    operand_create_at(&p->a, f, "a", HAL_F8E4M3, p->trans_a ? p->k : p->m, columns_a, offset[0], columns_a + pad[0],
                      fill, seed);
    operand_create_at(&p->b, f, "b", HAL_F8E4M3, p->trans_b ? p->n : p->k, columns_b, offset[1], columns_b + pad[1],
                      fill, seed);
    operand_create(&p->d, f, "d", HAL_F32, p->m, p->n, FILL_POISON, seed);
}

static void run_and_free(product *p, fixture *f, expect_fn expect)
{
    operand *const outputs[] = {&p->d};
    operands_run(f, tell, p, outputs, 1);
    operand_check(&p->d, expect, p, true);
    operand_free(&p->a);
    operand_free(&p->b);
    operand_free(&p->d);
}

static void set_code(operand *x, bool turned, uint64_t row, uint64_t column, uint64_t code)
{
    x->host.data[x->host.offset + (turned ? column * x->host.ld + row : row * x->host.ld + column)] = (uint8_t)code;
}

static double of_code(uint64_t code)
{
    return (double)hm_f32_from_e4m3((uint32_t)code);
}

static double expect_pair(void *user, uint64_t row, uint64_t column, double *error)
{
    (void)user;
    *error = 0;
    return of_code(row) * of_code(column);
}

/* Row i of A has code i at one of 32 places, and zeros; column j of B has code j everywhere. All products are exact,
 * and NaN is NaN. */
static void test_pairs(void **state)
{
    static const uint64_t none[2] = {0, 0};
    fixture *f = *state;
    uint64_t seed = 51;
    for (uint32_t round = 0; round < 8; round++) {
        product p = {.m = 256, .n = 256, .k = 32, .trans_a = round & 1, .trans_b = round & 2};
        p.mode = round & 4 ? HAL_MODE_BATCH_INVARIANT : HAL_MODE_FAST;
        create(&p, f, none, none, FILL_POISON, &seed);
        for (uint64_t i = 0; i < 256; i++) {
            for (uint64_t k = 0; k < p.k; k++) {
                set_code(&p.a, p.trans_a, i, k, k == (i * 11 + round) % p.k ? i : 0);
                set_code(&p.b, p.trans_b, k, i, i);
            }
        }
        operand_upload(&p.a, f);
        operand_upload(&p.b, f);
        run_and_free(&p, f, expect_pair);
    }
}

static double expect_sum(void *user, uint64_t row, uint64_t column, double *error)
{
    const product *p = user;
    double sum = 0;
    for (uint64_t k = 0; k < p->k; k++) {
        sum += matrix_get(&p->a.host, 0, p->trans_a ? k : row, p->trans_a ? row : k) *
               matrix_get(&p->b.host, 0, p->trans_b ? column : k, p->trans_b ? k : column);
    }
    *error = 0;
    return sum;
}

/* Addresses and leading dimensions that can be copied 16 bytes at a time, less, or one; A's and B's apart. */
static void test_addresses(void **state)
{
    static const uint64_t offsets[] = {0, 1, 2, 4, 8, 15, 16, 33}, pads[] = {0, 1, 2, 4, 8, 15, 16};
    fixture *f = *state;
    uint64_t seed = 52;
    for (uint32_t round = 0; round < 4 * 8 * 7; round++) {
        const uint64_t offset[2] = {offsets[round % 8], offsets[round / 8 % 8]};
        const uint64_t pad[2] = {pads[round % 7], pads[round / 7 % 7]};
        product p = {.m = 48, .n = 80, .k = 112, .trans_a = round & 1, .trans_b = round / 2 & 1};
        create(&p, f, offset, pad, FILL_INTEGER, &seed);
        run_and_free(&p, f, expect_sum);
    }
}

/* Every size on every axis, the others drawn, in whole numbers, whose sums are exact, and in others; every epilogue of
 * gemm_case. */
static void test_shapes(void **state)
{
    fixture *f = *state;
    uint64_t seed = 53;
    for (uint32_t trans = 0; trans < 4; trans++) {
        for (uint32_t round = 0; round < 2 * test_size_count; round++) {
            const bool exact = round & 1;
            uint64_t size[3];
            gemm_case g;
            for (uint32_t axis = 0; axis < 3; axis++) {
                size[axis] = test_sizes[axis == trans % 3 ? round / 2 : random_below(&seed, test_size_count)];
            }
            case_random(&g, HAL_F8E4M3, trans & 1, trans & 2, size[0], size[1], size[2], &seed);
            if (exact) {
                g.alpha = 2;
                g.beta = -1;
                g.act = HAL_ACT_RELU;
            }
            case_fill(&g, exact ? FILL_INTEGER : FILL_RANDOM, &seed);
            case_upload(&g, f);
            case_run(&g, f);
            case_check(&g, exact);
            case_free(&g);
        }
    }
}

/* The kernel of a problem that is changed a little. */
static void expect_kernel(const hal_device_info *info, const gemm_problem *p, uint32_t without, const char *want)
{
    gemm_plan plan;
    gemm_kernel chosen;
    OK(hal_gemm_plan(info, p, without, &plan, &chosen));
    assert_string_equal(plan.spec.name, want);
    assert_int_equal(chosen, strcmp(want, "gemm_any") == 0 ? 0 : GEMM_KERNEL_MMA);
}

/* Options go to matrix units where there are any, but for FP32, strict sums, and no k. */
static void test_choice(void **state)
{
    (void)state;
    hal_device_info info = {.type = HAL_DEVICE_DISCRETE,
                            .compute_units = 132,
                            .subgroup_size = 32,
                            .max_group_size = 1024,
                            .max_group_dim = {1024, 1024, 64},
                            .max_shared_memory = 227 << 10,
                            .matrix_units = true};
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_F8E4M3; dtype++) {
        const char *const best = dtype == HAL_F32 ? "gemm_any" : "gemm_mma_any";
        gemm_problem p = {.m = 5, .n = 200, .k = 100, .batch = 1, .alpha = 1, .trans_d = true};
        for (int i = 0; i < GEMM_ALL_OPERANDS; i++) {
            p.operands[i].dtype = dtype;
        }
        expect_kernel(&info, &p, 0, best);
        expect_kernel(&info, &p, GEMM_KERNEL_MMA, "gemm_any");
        p.mode = HAL_MODE_BATCH_INVARIANT;
        expect_kernel(&info, &p, 0, best);
        p.mode = HAL_MODE_STRICT;
        expect_kernel(&info, &p, 0, "gemm_any");
        p.mode = HAL_MODE_FAST;
        p.swiglu = true;
        expect_kernel(&info, &p, 0, best);
        p.swiglu = false;
        p.k = 0;
        expect_kernel(&info, &p, 0, "gemm_any");
        p.k = 100;
        info.matrix_units = false;
        expect_kernel(&info, &p, 0, "gemm_any");
        info.matrix_units = true;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_addresses),
                                       cmocka_unit_test(test_shapes), cmocka_unit_test(test_choice)};
    return ROWS_MAIN("gemm codes", tests);
}
