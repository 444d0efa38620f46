/* Number formats: against tables, against the compiler's own _Float16, and against a search for the nearest value. */
#include "unit.h"

#include <hal/numeric.h>
#include <math.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static FILE *open_table(const char *name)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/fp8/%s", HAL_TEST_DATA, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* the heading */
    return file;
}

static bool is_nan16(uint16_t bits, uint16_t infinity)
{
    return (bits & 0x7fff) > infinity;
}

static void round_trips(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0xffff; code++) {
        float f16 = hal_f16_to_f32((uint16_t)code), bf16 = hal_bf16_to_f32((uint16_t)code);
        if (is_nan16((uint16_t)code, 0x7c00))
            assert_true(isnan(f16) && is_nan16(hal_f16_from_f32(f16), 0x7c00));
        else
            assert_int_equal(hal_f16_from_f32(f16), code);
        if (is_nan16((uint16_t)code, 0x7f80))
            assert_true(isnan(bf16) && is_nan16(hal_bf16_from_f32(bf16), 0x7f80));
        else
            assert_int_equal(hal_bf16_from_f32(bf16), code);
    }
    for (uint32_t code = 0; code <= 0xff; code++) {
        float value = hal_f8e4m3_to_f32((uint8_t)code);
        if ((code & 0x7f) == 0x7f)
            assert_true(isnan(value));
        else
            assert_int_equal(hal_f8e4m3_from_f32(value, false), code);
    }
}

/* The values themselves, from the definition: sign, exponent and fraction. */
static void f16_values(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7c00; code++) {
        int exponent = (int)(code >> 10);
        double fraction = (double)(code & 0x3ff);
        double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        assert_true((double)hal_f16_to_f32((uint16_t)code) == value);
        assert_true((double)hal_f16_to_f32((uint16_t)(code | 0x8000)) == -value);
    }
    assert_true(hal_f16_to_f32(0x7c00) == INFINITY && hal_f16_to_f32(0xfc00) == -INFINITY);
    assert_int_equal(bits_of(hal_f16_to_f32(0x8000)), 0x80000000u);
}

static void f16_bf16_table(void **state)
{
    (void)state;
    FILE *file = open_table("f32_to_f16_bf16.tsv");
    unsigned bits;
    char f16[8], bf16[8];
    int rows = 0;
    for (; fscanf(file, "%x %7s %7s", &bits, f16, bf16) == 3; rows++) {
        uint16_t got16 = hal_f16_from_f32(float_of(bits)), gotb = hal_bf16_from_f32(float_of(bits));
        if (strcmp(f16, "nan") == 0) {
            assert_true(is_nan16(got16, 0x7c00) && is_nan16(gotb, 0x7f80));
            assert_int_equal(got16 >> 15, bits >> 31);
            continue;
        }
        assert_int_equal(got16, strtoul(f16, NULL, 16));
        assert_int_equal(gotb, strtoul(bf16, NULL, 16));
    }
    fclose(file);
    assert_int_equal(rows, 150);
}

static void e4m3_codes_table(void **state)
{
    (void)state;
    FILE *file = open_table("e4m3fn_codes.tsv");
    unsigned code, bits;
    char class[16];
    int rows = 0;
    for (; fscanf(file, "%x %*d %*d %*d %15s %*s %x %*s %*s", &code, class, &bits) == 3; rows++) {
        float value = hal_f8e4m3_to_f32((uint8_t)code);
        if (strcmp(class, "nan") == 0)
            assert_true(isnan(value));
        else
            assert_int_equal(bits_of(value), bits);
    }
    fclose(file);
    assert_int_equal(rows, 256);
}

static void e4m3_table(void **state)
{
    (void)state;
    FILE *file = open_table("f32_to_e4m3fn.tsv");
    unsigned bits, saturated, plain;
    int rows = 0;
    for (; fscanf(file, "%x %*s %x %x", &bits, &saturated, &plain) == 3; rows++) {
        uint8_t got[2] = {hal_f8e4m3_from_f32(float_of(bits), true), hal_f8e4m3_from_f32(float_of(bits), false)};
        unsigned want[2] = {saturated, plain};
        for (int i = 0; i < 2; i++)
            if ((want[i] & 0x7f) == 0x7f)
                assert_int_equal(got[i] & 0x7f, 0x7f);
            else
                assert_int_equal(got[i], want[i]);
    }
    fclose(file);
    assert_int_equal(rows, 1548);
}

/* The nearest code by looking at all of them; on a tie the even one. */
static uint8_t e4m3_nearest(double magnitude)
{
    int best = 0;
    double least = INFINITY;
    for (int code = 0; code < 0x7f; code++) {
        int exponent = code >> 3, fraction = code & 7;
        double value = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
        double distance = fabs(value - magnitude);
        if (distance < least || (distance == least && (code & 1) == 0)) {
            least = distance;
            best = code;
        }
    }
    return (uint8_t)best;
}

static void e4m3_of_every_half(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7f80; code++) {
        float values[2] = {hal_bf16_to_f32((uint16_t)code), code < 0x7c00 ? hal_f16_to_f32((uint16_t)code) : 0};
        for (int i = 0; i < 2; i++) {
            uint8_t want = e4m3_nearest(values[i]);
            assert_int_equal(hal_f8e4m3_from_f32(values[i], true), want);
            assert_int_equal(hal_f8e4m3_from_f32(-values[i], true), want | 0x80);
            assert_int_equal(hal_f8e4m3_from_f32(values[i], false), values[i] > 464 ? 0x7f : want);
        }
    }
    assert_int_equal(hal_f8e4m3_from_f32(INFINITY, true), 0x7e);
    assert_int_equal(hal_f8e4m3_from_f32(-INFINITY, true), 0xfe);
    assert_int_equal(hal_f8e4m3_from_f32(INFINITY, false), 0x7f);
    assert_int_equal(hal_f8e4m3_from_f32(NAN, true) & 0x7f, 0x7f);
}

static void f16_of_many_floats(void **state)
{
    (void)state;
#ifdef __FLT16_MAX__
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 509) {
        float value = float_of((uint32_t)bits);
        _Float16 half = (_Float16)value;
        uint16_t want;
        memcpy(&want, &half, sizeof want);
        uint16_t got = hal_f16_from_f32(value);
        if (isnan(value) ? !is_nan16(got, 0x7c00) : got != want)
            fail_msg("%08x gives %04x, not %04x", (unsigned)bits, got, want);
    }
#else
    print_message("[  SKIPPED ] f16_of_many_floats: this compiler has no _Float16\n");
    skip();
#endif
}

static void arrays(void **state)
{
    (void)state;
    const float values[5] = {0, -1.5f, 448, 1e30f, 0.0009765625f};
    const hal_dtype dtypes[4] = {HAL_F32, HAL_F16, HAL_BF16, HAL_F8E4M3};
    for (int i = 0; i < 4; i++) {
        uint8_t bytes[5 * 4 + 1];
        float back[5];
        memset(bytes, 0x5a, sizeof bytes);
        assert_int_equal(hal_numeric_encode(dtypes[i], values, 5, bytes), HAL_OK);
        assert_int_equal(bytes[5 * hal_dtype_size(dtypes[i])], 0x5a);
        assert_int_equal(hal_numeric_decode(dtypes[i], bytes, 5, back), HAL_OK);
        assert_true(back[0] == 0 && back[1] == -1.5f && back[2] == 448);
    }
    uint8_t byte = 0;
    assert_int_equal(hal_numeric_encode((hal_dtype)99, values, 1, &byte), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "99"));
    assert_int_equal(hal_numeric_encode(HAL_DTYPE_DEFAULT, values, 1, &byte), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_numeric_encode(HAL_F16, NULL, 1, &byte), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_numeric_decode(HAL_F16, NULL, 1, NULL), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_numeric_decode(HAL_F16, NULL, 0, NULL), HAL_OK);
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(hal_dtype_size(HAL_F32), 4);
    assert_int_equal(hal_dtype_size(HAL_F16), 2);
    assert_int_equal(hal_dtype_size(HAL_BF16), 2);
    assert_int_equal(hal_dtype_size(HAL_F8E4M3), 1);
    assert_int_equal(hal_dtype_size((hal_dtype)77), 0);
    assert_string_equal(hal_dtype_name(HAL_F32), "f32");
    assert_string_equal(hal_dtype_name(HAL_F16), "f16");
    assert_string_equal(hal_dtype_name(HAL_BF16), "bf16");
    assert_string_equal(hal_dtype_name(HAL_F8E4M3), "f8e4m3");
    assert_non_null(hal_dtype_name((hal_dtype)77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),        cmocka_unit_test(f16_values), cmocka_unit_test(f16_bf16_table),
        cmocka_unit_test(e4m3_codes_table),   cmocka_unit_test(e4m3_table), cmocka_unit_test(e4m3_of_every_half),
        cmocka_unit_test(f16_of_many_floats), cmocka_unit_test(arrays),     cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("numeric", tests, NULL, NULL);
}
