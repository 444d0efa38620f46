/* test_kernel_math.c - the error of the kernels' functions (scheduler/kernel_math.h), over a comb of all floats, in
 * units in the last place of the FP32 result; and the conversions against hal/numeric.h. HAL_TEST_ALL_FLOATS=1 takes
 * each one (minutes). */
#include "kernel_math.h"

#include "unit.h"

#include <float.h>
#include <hal/numeric.h>

typedef struct bound {
    const char *name;
    float (*function)(float);
    double (*reference)(double);
    float least, most; /* arguments */
    double ulp;
} bound;

static double reciprocal(double x)
{
    return 1 / x;
}

static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu_erf(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

static double gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double row_scale(double amax)
{
    return amax / 448;
}

static float fast_sigmoid(float x)
{
    return hm_fast_activate(5, x);
}

static float fast_silu(float x)
{
    return hm_fast_activate(4, x);
}

/* What kernel_math.h and docs promise: at most 2 ULP for exp, reciprocal and 1/sqrt, a row's scale rounded once.
 * Results below 2^-126 are zero. */
static const bound bounds[] = {{"exp", hm_exp, exp, -87.3f, 88.7f, 1.1},
                               {"row_scale", hm_row_scale, row_scale, 0x1p-117f, FLT_MAX, 0.5},
                               {"reciprocal", hm_reciprocal, reciprocal, 0x1p-125f, 0x1p125f, 1.3},
                               {"rsqrt", hm_rsqrt, rsqrt_of, 0x1p-126f, 3.4e38f, 1.4},
                               {"log", hm_log, log, 1.5f, 3.4e38f, 1.5},
                               {"tanh", hm_tanh, tanh, -100.0f, 100.0f, 2.0},
                               {"sigmoid", hm_sigmoid, sigmoid, -87.0f, 200.0f, 3.5},
                               {"silu", hm_silu, silu, -80.0f, 3e38f, 4.0},
                               {"gelu_erf", hm_gelu_erf, gelu_erf, -3.0f, 3e38f, 16.0},
                               {"fast_exp", hm_fast_exp, exp, -87.3f, 0.0f, 2.0},
                               {"fast_sigmoid", fast_sigmoid, sigmoid, -87.0f, 200.0f, 4.0},
                               {"fast_silu", fast_silu, silu, -80.0f, 3e38f, 4.0},
                               {"fast_gelu_erf", hm_fast_gelu_erf, gelu_erf, -3.0f, 3e38f, 16.0},
                               {"fast_gelu_tanh", hm_fast_gelu_tanh, gelu_tanh, -3.0f, 3e38f, 16.0}};

static double ulps(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

static uint64_t step(void)
{
    return getenv("HAL_TEST_ALL_FLOATS") ? 1 : 997;
}

static void test_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const bound *b = &bounds[i];
        double worst = 0;
        float where = 0;
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step()) {
            float x = hm_float_of((uint32_t)bits);
            if (!(x >= b->least && x <= b->most) || fabsf(x) < 0x1p-100f) {
                continue;
            }
            double error = ulps(b->function(x), b->reference((double)x));
            if (error > worst) {
                worst = error;
                where = x;
            }
        }
        print_message("%-14s %.3f ULP, at %a\n", b->name, worst, (double)where);
        assert_true(worst <= b->ulp);
        assert_true(worst > 0.4); /* something was measured */
    }
}

static void same(float got, float want)
{
    assert_true(hm_bits_of(got) == hm_bits_of(want) || (isnan(got) && isnan(want)));
}

static void test_specials(void **state)
{
    (void)state;
    same(hm_exp(-INFINITY), 0.0f);
    same(hm_exp(INFINITY), INFINITY);
    same(hm_exp(0.0f), 1.0f);
    same(hm_exp(-88.0f), 0.0f); /* 6e-39 is subnormal */
    same(hm_fast_exp(-INFINITY), 0.0f);
    same(hm_fast_exp(0.0f), 1.0f);
    same(hm_fast_exp(-100.0f), 0.0f);
    same(hm_fast_exp(NAN), NAN);
    same(hm_fast_exp(hm_float_of(0xffabcdefu)), NAN);
    same(hm_reciprocal(INFINITY), 0.0f);
    same(hm_reciprocal(0.0f), INFINITY);
    same(hm_reciprocal(0.25f), 4.0f);
    same(hm_rsqrt(INFINITY), 0.0f);
    same(hm_rsqrt(0.25f), 2.0f);
    same(hm_rsqrt(0.0f), hm_rsqrt(0x1p-126f));
    same(hm_log(1.0f), 0.0f);
    same(hm_log(0.0f), -INFINITY);
    same(hm_log(INFINITY), INFINITY);
    same(hm_tanh(INFINITY), 1.0f);
    same(hm_tanh(-INFINITY), -1.0f);
    same(hm_tanh(-0.0f), -0.0f);
    same(hm_tanh(NAN), NAN);
    same(hm_mul(0x1p-80f, 0x1p-80f), 0.0f);
    same(hm_mul(0x1p-80f, -0x1p-46f), -0x1p-126f);
    same(hm_mul(3.0f, 5.0f), 15.0f);
    same(hm_scale(1.5f, 200), INFINITY);
    for (uint32_t act = 0; act <= 5; act++) {
        same(hm_activate(act, NAN), NAN);
        same(hm_activate(act, INFINITY), act == 5 ? 1.0f : INFINITY);
        same(hm_activate(act, -INFINITY), act == 0 ? -INFINITY : 0.0f);
        same(hm_fast_activate(act, NAN), NAN);
        same(hm_fast_activate(act, INFINITY), act == 5 ? 1.0f : INFINITY);
        assert_true(act == 0 || hm_fast_activate(act, -INFINITY) == 0.0f);
        assert_true(act == 0 || hm_abs(hm_fast_activate(act, -1e30f)) == 0.0f);
    }
}

static void test_conversions(void **state)
{
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step()) {
        float x = hm_float_of((uint32_t)bits);
        assert_int_equal(hm_e4m3_from_f32(x, 0x7e), hal_f8e4m3_from_f32(x, true));
        assert_int_equal(hm_e4m3_from_f32(x, 0x7f), hal_f8e4m3_from_f32(x, false));
        assert_int_equal(hm_bf16_from_f32(x), hal_bf16_from_f32(x));
    }
    for (uint32_t code = 0; code < 256; code++) {
        same(hm_f32_from_e4m3(code), hal_f8e4m3_to_f32((uint8_t)code));
    }
}

/* Quotients on and beside the numbers at which the code changes, for scales of every kind: the code is that of C's
 * quotient. */
static void test_quantize(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000000; i++) {
        const uint32_t random = i * 2654435761u;
        const float scale = ldexpf((float)(0x800000 + random % 0x800000), (int)(random >> 24) % 60 - 50);
        const double edge = ldexp(16 + random / 7 % 17, (int)(random / 119 % 20) - 14);
        uint32_t bits;
        float x = (float)(edge * scale);
        memcpy(&bits, &x, sizeof bits);
        bits += random / 31 % 9 - 4;
        memcpy(&x, &bits, sizeof x);
        const uint32_t got = hm_quantize(x, scale), want = hm_e4m3_from_f32(x / scale, 0x7e);
        if (got != want) {
            fail_msg("the code of %a / %a is 0x%x, want 0x%x", x, scale, got, want);
        }
    }
    assert_int_equal(hm_quantize(0x1.9ep-2f, 4.3125f / 448), hm_e4m3_from_f32(42, 0x7e)); /* a tie in FP32 only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds), cmocka_unit_test(test_specials),
                                       cmocka_unit_test(test_conversions), cmocka_unit_test(test_quantize)};
    return cmocka_run_group_tests_name("kernel_math", tests, NULL, NULL);
}
