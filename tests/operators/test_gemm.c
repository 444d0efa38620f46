/* test_gemm.c - numerics of hal_gemm on the device that HAL_BACKEND names: sizes, layouts, dtypes, epilogues,
 * exactness, special values. */
#include "test_gemm.h"

#include "gemm.h"
#include "gemm_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t sizes[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 193};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void one_random(fixture *f, hal_dtype dtype, int trans, uint64_t m, uint64_t n, uint64_t k, bool exact,
                       uint32_t without, uint64_t *seed)
{
    static const float exact_factors[] = {1.0f, -1.0f, 0.5f, 2.0f};
    gemm_case g;
    case_random(&g, dtype, trans & 1, trans & 2, m, n, k, seed);
    if (exact) {
        g.alpha = exact_factors[random_below(seed, 4)];
        g.beta = exact_factors[random_below(seed, 4)];
        g.act = (hal_act)random_below(seed, 2);
    }
    case_fill(&g, exact ? FILL_INTEGER : FILL_RANDOM, seed);
    case_upload(&g, f);
    case_run_without(&g, f, without);
    case_check(&g, exact);
    case_free(&g);
}

/* Every size on every axis, for each dtype and transposition: the axes are walked with different strides, so that sizes
 * meet in different company each time. Odd rounds hold integers, whose result must be exact (and so equal everywhere).
 */
static void test_sizes(void **state)
{
    fixture *f = *state;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int trans = 0; trans < 4; trans++) {
            uint64_t seed = 1000u * dtype + (uint64_t)trans;
            for (uint32_t round = 0; round < 2 * SIZES; round++) {
                uint32_t shift = (uint32_t)trans + 4 * dtype + (round >= SIZES ? 7 : 0);
                one_random(f, dtype, trans, sizes[round % SIZES], sizes[(round * 5 + shift) % SIZES],
                           sizes[(round * 11 + 3 * shift) % SIZES], round & 1, 0, &seed);
            }
        }
    }
}

/* Few rows, wide and deep: the shapes of decoding. */
static void test_few_rows(void **state)
{
    fixture *f = *state;
    uint64_t seed = 77;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int trans = 0; trans < 4; trans++) {
            for (uint64_t m = 1; m <= 17; m += trans == 0 || trans == 2 ? 1 : 4) {
                one_random(f, dtype, trans, m, 200 + random_below(&seed, 200), 300 + random_below(&seed, 300), m & 1, 0,
                           &seed);
            }
        }
    }
}

/* The kernels that the device's own choice passes over must be right on it, too. */
static void test_general_kernels(void **state)
{
    fixture *f = *state;
    uint64_t seed = 21;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int trans = 0; trans < 4; trans++) {
            for (uint32_t round = 0; round < 5; round++) {
                uint64_t m = round % 4 == 0 ? 1 + random_below(&seed, 8) : sizes[random_below(&seed, SIZES)];
                uint32_t without = round == 4 ? GEMM_KERNEL_VIEWS
                                              : GEMM_KERNEL_TASK | GEMM_KERNEL_MMA | GEMM_KERNEL_ASYNC |
                                                    (round & 2 ? GEMM_KERNEL_SMALL : 0);
                one_random(f, dtype, trans, m, sizes[random_below(&seed, SIZES)], sizes[random_below(&seed, SIZES)],
                           round & 1, without, &seed);
            }
        }
    }
}

/* Deeper than one block of k, more tiles than one in each direction, and large enough for the widest kernels. */
static void test_large(void **state)
{
    fixture *f = *state;
    uint64_t seed = 5;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int trans = 0; trans < 4; trans++) {
            one_random(f, dtype, trans, 150, 130 + 8 * dtype, 1100 + (uint64_t)trans, trans & 1, 0, &seed);
        }
    }
}

/* D = act(beta C + bias) + residual for chosen values: NaN, infinities and far-out values through every activation. */
static void test_special_values(void **state)
{
    fixture *f = *state;
    static const float values[] = {NAN,    INFINITY, -INFINITY, 0.0f,   -0.0f, 1.0f,   -1.0f,   -3.0f,  -5.5f, -9.0f,
                                   -10.5f, -13.0f,   -14.5f,    -30.0f, 30.0f, -88.5f, -104.0f, 200.0f, 3e38f, -3e38f};
    const uint64_t count = sizeof values / sizeof values[0];
    for (hal_act act = HAL_ACT_NONE; act <= HAL_ACT_SIGMOID; act++) {
        uint64_t seed = act;
        gemm_case g = {.m = 2, .n = count, .k = 0, .batch = 1, .alpha = 1, .beta = 1, .act = act};
        for (int i = 0; i < MATRICES; i++) {
            g.matrices[i].dtype = HAL_F32;
            g.present[i] = i <= AT_D;
        }
        case_fill(&g, FILL_RANDOM, &seed);
        for (uint64_t i = 0; i < count; i++) {
            matrix_set(&g.matrices[AT_C], 0, 0, i, values[i]);
            matrix_set(&g.matrices[AT_C], 0, 1, i, values[count - 1 - i]);
        }
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, false);
        case_free(&g);
    }
}

/* Loads of all 16-bit patterns, and stores of FP32 values around every rounding boundary, against hal/numeric.h. */
static void convert(fixture *f, hal_dtype from, hal_dtype to, const void *input, void *output, uint64_t count)
{
    hal_buffer *source, *target;
    uint64_t in_bytes = count * hal_dtype_size(from), out_bytes = count * hal_dtype_size(to);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = in_bytes), &source));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = out_bytes), &target));
    OK(hal_cmd_upload(f->list, hal_whole(source), input, in_bytes));
    OK(hal_gemm(f->list, HAL_GEMM(.m = count / 256, .n = 256, .dtype_c = from, .dtype_d = to, .beta = 1.0f,
                                  .c = hal_whole(source), .d = hal_whole(target))));
    OK(hal_cmd_download(f->list, output, hal_whole(target)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(source);
    hal_buffer_destroy(target);
}

static bool is_subnormal(float x)
{
    return fpclassify(x) == FP_SUBNORMAL;
}

static void test_conversions(void **state)
{
    fixture *f = *state;
    enum { COUNT = 65536 };
    float *single = malloc(COUNT * sizeof *single);
    uint16_t *half = malloc(COUNT * sizeof *half);
    assert_true(single && half);
    bool keeps = hal_device_get_info(f->device)->subnormals_f32;
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            half[i] = (uint16_t)i;
        }
        convert(f, dtype, HAL_F32, half, single, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            float want = dtype == HAL_F16 ? hal_f16_to_f32((uint16_t)i) : hal_bf16_to_f32((uint16_t)i);
            bool same =
                isnan(want) ? isnan(single[i]) : single[i] == want || (!keeps && is_subnormal(want) && single[i] == 0);
            if (!same) {
                fail_msg("%s %04x loads as %g, want %g", hal_dtype_name(dtype), i, (double)single[i], (double)want);
            }
        }
        /* Low bits that lie just below, on and just above a tie, and others, for every upper half of the word. */
        static const uint32_t lows[] = {0x0000, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0fff, 0x1000, 0x1001, 0x3000, 0x2fff};
        for (size_t low = 0; low < sizeof lows / sizeof lows[0]; low++) {
            for (uint32_t i = 0; i < COUNT; i++) {
                uint32_t bits = i << 16 | lows[low];
                memcpy(&single[i], &bits, sizeof bits);
            }
            convert(f, HAL_F32, dtype, single, half, COUNT);
            for (uint32_t i = 0; i < COUNT; i++) {
                float x = single[i];
                uint16_t want = dtype == HAL_F16 ? hal_f16_from_f32(x) : hal_bf16_from_f32(x);
                float back = dtype == HAL_F16 ? hal_f16_to_f32(half[i]) : hal_bf16_to_f32(half[i]);
                bool same = isnan(x) ? isnan(back)
                                     : half[i] == want || (x == 0 && back == 0) || /* the sum may lose a zero's sign */
                                           (!keeps && is_subnormal(x) && back == 0);
                if (!same) {
                    fail_msg("%a stores as %s %04x, want %04x", (double)x, hal_dtype_name(dtype), half[i], want);
                }
            }
        }
    }
    free(single);
    free(half);
}

/* A NaN in a row of A spoils that row of D only, whatever the padding of k. */
static void test_nan_row(void **state)
{
    fixture *f = *state;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        uint64_t seed = 3;
        gemm_case g = {.m = 37, .n = 70, .k = 37, .batch = 1, .alpha = 1, .present = {true, true, false, true}};
        for (int i = 0; i < MATRICES; i++) {
            g.matrices[i].dtype = dtype;
        }
        case_fill(&g, FILL_RANDOM, &seed);
        for (uint64_t k = 0; k < g.k; k++) {
            matrix_set(&g.matrices[AT_A], 0, 1, k, NAN);
        }
        matrix_set(&g.matrices[AT_B], 0, 36, 69, INFINITY);
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, false);
        case_free(&g);
    }
}

/* alpha = 0 must not read A and B, beta = 0 not C: they are full of NaN, in the second round absent as far as allowed.
 */
static void test_not_read(void **state)
{
    fixture *f = *state;
    for (int round = 0; round < 4; round++) {
        uint64_t seed = 11;
        gemm_case g = {.m = 35, .n = 67, .k = 33, .batch = 2, .alpha = round & 1 ? 0 : 1, .beta = round & 2 ? 0 : 2};
        memcpy(g.present, (const bool[MATRICES]){true, true, true, true, true, false}, sizeof g.present);
        for (int i = 0; i < MATRICES; i++) {
            g.matrices[i].dtype = HAL_F32;
        }
        case_fill(&g, FILL_RANDOM, &seed);
        if (g.alpha == 0) {
            g.present[AT_B] = false;
            memset(g.matrices[AT_A].data, 0xff, g.matrices[AT_A].bytes);
        }
        if (g.beta == 0) {
            memset(g.matrices[AT_C].data, 0xff, g.matrices[AT_C].bytes);
        }
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, false);
        case_free(&g);
    }
}

/* k = 0 gives the epilogue of nothing; m, n or batch = 0 write nothing. */
static void test_empty(void **state)
{
    fixture *f = *state;
    static const uint64_t shapes[][4] = {{3, 4, 0, 1}, {0, 4, 3, 1}, {3, 0, 4, 1}, {3, 4, 5, 0}, {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        uint64_t seed = i;
        gemm_case g;
        case_random(&g, HAL_F32, false, true, shapes[i][0], shapes[i][1], shapes[i][2], &seed);
        g.batch = shapes[i][3];
        g.present[AT_C] = g.present[AT_BIAS] = g.present[AT_RESIDUAL] = true;
        case_fill(&g, FILL_RANDOM, &seed);
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, false);
        case_free(&g);
    }
}

/* Sums that lose or stick where they are not kept in FP32. */
static void test_long_sums(void **state)
{
    fixture *f = *state;
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        uint64_t seed = 9;
        gemm_case g = {.m = 3, .n = 20, .k = 6144, .batch = 1, .alpha = 1, .present = {true, true, false, true}};
        for (int i = 0; i < MATRICES; i++) {
            g.matrices[i].dtype = i == AT_D ? HAL_F32 : dtype;
        }
        case_fill(&g, FILL_INTEGER, &seed);
        for (uint64_t k = 0; k < g.k; k++) {
            for (uint64_t i = 0; i < g.m; i++) {
                matrix_set(&g.matrices[AT_A], 0, i, k, 1);
            }
            for (uint64_t j = 0; j < g.n; j++) {
                matrix_set(&g.matrices[AT_B], 0, k, j, 1);
            }
        }
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, true);
        case_free(&g);
    }
}

/* D = ones times ones, so k, into d; through slots, whose address is not known when it is recorded, if asked for. */
static hal_status multiply_ones(fixture *f, hal_buffer *ones, hal_gemm_desc *desc, bool slots, hal_buffer *d)
{
    if (!slots) {
        desc->a = desc->b = hal_whole(ones);
        desc->d = hal_whole(d);
        return hal_gemm(f->list, desc);
    }
    hal_cmdlist *list;
    OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "ones"), &list));
    desc->a = hal_slot(0, 0);
    desc->b = hal_slot(1, 0);
    desc->d = hal_slot(2, 0);
    hal_status status = hal_gemm(list, desc);
    if (status == HAL_OK) {
        OK(hal_cmdlist_finish(list));
        OK(hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(hal_whole(ones), hal_whole(ones), hal_whole(d))));
    }
    hal_cmdlist_destroy(list);
    return status;
}

/* `promised`: up to this k no device may refuse. */
static void check_long_k(fixture *f, hal_dtype dtype, uint64_t m, uint64_t k, uint64_t promised, bool slots)
{
    enum { N = 5 };
    const uint64_t size = hal_dtype_size(dtype);
    const float one = 1;
    const uint16_t one_bf16 = 0x3f80;
    float out[16 * N] = {0};
    hal_buffer *ones, *d;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = (m > N ? m : N) * k * size), &ones));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = m * N * 4), &d));
    OK(hal_cmd_fill(f->list, hal_whole(ones), dtype == HAL_F32 ? (const void *)&one : &one_bf16, (uint32_t)size));
    hal_gemm_desc desc = {.struct_size = sizeof desc, .m = m, .n = N, .k = k, .dtype = dtype, .dtype_d = HAL_F32};
    hal_status status = multiply_ones(f, ones, &desc, slots, d);
    if (status == HAL_OK) {
        OK(hal_cmd_download(f->list, out, hal_whole(d)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        for (uint64_t i = 0; i < m * N; i++) {
            if (out[i] != (float)k) {
                fail_msg("dtype %d, m %d, k %d, slots %d: got %.1f", (int)dtype, (int)m, (int)k, slots, (double)out[i]);
            }
        }
    } else {
        if (status != HAL_ERROR_LIMIT || k <= promised || hal_device_get_info(f->device)->max_loop_iterations == 0) {
            fail_msg("dtype %d, m %d, k %d, slots %d: %s", (int)dtype, (int)m, (int)k, slots, hal_last_error());
        }
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    }
    hal_buffer_destroy(ones);
    hal_buffer_destroy(d);
}

/* Some drivers leave loops after so many turns: the sum is whole there, too, or it is refused. */
static void test_long_k(void **state)
{
    (void)state;
    /* Around 65535 turns of 1, 4, 8 or 16 k. */
    static const uint64_t depths[] = {65537, 262000, 262200, 522000, 524288, 1048576};
    static const char *const limits[] = {"", "subgroups=0", "subgroups=0,group_size=128"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const uint64_t promised = i == 0 ? 522000 : 262000;
        fixture f;
        fixture_open(&f, limits[i]);
        for (size_t j = 0; j < sizeof depths / sizeof depths[0]; j++) {
            check_long_k(&f, HAL_F32, 1, depths[j], promised, false);
            check_long_k(&f, HAL_F32, 9, depths[j], promised, true);
            check_long_k(&f, HAL_BF16, 1, depths[j], promised, true);
            check_long_k(&f, HAL_BF16, 9, depths[j], promised, false);
        }
        bool limited = hal_device_get_info(f.device)->max_loop_iterations != 0;
        fixture_close(&f);
        if (!limited) {
            return; /* the other kernels differ in what they count */
        }
    }
    fixture f;
    fixture_open(&f, "loop_iterations=2000");
    OK(hal_gemm_prepare(f.device, HAL_GEMM(.m = 9, .n = 5, .k = 1000)));
    REFUSED(HAL_ERROR_LIMIT, hal_gemm_prepare(f.device, HAL_GEMM(.m = 9, .n = 5, .k = 40000)));
    fixture_close(&f);
}

int main(void)
{
    fixture probe;
    hal_status status = hal_device_open(NULL, &probe.device);
    if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
        printf("skipped: %s\n", hal_last_error());
        return 77;
    }
    hal_device_destroy(probe.device);
    tests_select();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_few_rows),
                                       cmocka_unit_test(test_general_kernels),
                                       cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_special_values),
                                       cmocka_unit_test(test_conversions),
                                       cmocka_unit_test(test_nan_row),
                                       cmocka_unit_test(test_not_read),
                                       cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_long_sums),
                                       cmocka_unit_test(test_long_k),
                                       cmocka_unit_test(test_guard_pages),
                                       cmocka_unit_test(test_second_of_groups),
                                       cmocka_unit_test(test_split_is_equal),
                                       cmocka_unit_test(test_split_count),
                                       cmocka_unit_test(test_async_matrix),
                                       cmocka_unit_test(test_async_choice),
                                       cmocka_unit_test(test_epilogues)};
    int failed = cmocka_run_group_tests_name("gemm", tests, gemm_setup, gemm_teardown);
    failed += cmocka_run_group_tests_name("gemm rules", gemm_rules, gemm_setup, gemm_teardown);
    return failed != 0;
}
