/* test_quantize.c - hal_cast, hal_quantize and hal_dequantize on the device that HAL_BACKEND names: every code and
 * every 16-bit number against tables, the rest against double. */
#include "rows.h"

#include <float.h>
#include <hal/numeric.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DTYPES = 4 };

static bool is_nan_code(hal_dtype dtype, uint32_t bits)
{
    switch (dtype) {
    case HAL_F8E4M3:
        return (bits & 0x7f) == 0x7f;
    case HAL_F16:
        return (bits & 0x7fff) > 0x7c00;
    case HAL_BF16:
        return (bits & 0x7fff) > 0x7f80;
    default:
        return (bits & 0x7fffffff) > 0x7f800000;
    }
}

static uint32_t code_at(const void *codes, hal_dtype dtype, uint64_t i)
{
    switch (hal_dtype_size(dtype)) {
    case 1:
        return ((const uint8_t *)codes)[i];
    case 2:
        return ((const uint16_t *)codes)[i];
    default:
        return ((const uint32_t *)codes)[i];
    }
}

/* Casts `count` elements, whose first is at element `offset` of its buffer, and compares with `want`, which is of
 * to_dtype. */
static void check_cast(fixture *f, hal_dtype from_dtype, const void *from, hal_dtype to_dtype, const void *want,
                       uint64_t count, bool no_saturate, uint64_t offset)
{
    const uint64_t from_size = hal_dtype_size(from_dtype), to_size = hal_dtype_size(to_dtype);
    const uint64_t room = (offset + count + 1) * 4;
    const uint8_t poison = 0x5A;
    uint8_t *got = malloc(room);
    hal_buffer *x, *y;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = room), &x));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = room), &y));
    OK(hal_cmd_upload(f->list, hal_range(x, offset * from_size, count * from_size), from, count * from_size));
    OK(hal_cmd_fill(f->list, hal_whole(y), &poison, 1));
    OK(hal_cast(f->list, HAL_CAST(.rows = 1, .columns = count, .dtype = from_dtype, .dtype_y = to_dtype,
                                  .x = hal_at(x, offset * from_size), .y = hal_at(y, offset * to_size),
                                  .no_saturate = no_saturate)));
    OK(hal_cmd_download(f->list, got, hal_whole(y)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (uint64_t i = 0; i < count; i++) {
        uint32_t is = code_at(got + offset * to_size, to_dtype, i), should = code_at(want, to_dtype, i);
        if (is != should && !(is_nan_code(to_dtype, is) && is_nan_code(to_dtype, should))) {
            fail_msg("%s %#x to %s%s is %#x, want %#x", hal_dtype_name(from_dtype), code_at(from, from_dtype, i),
                     hal_dtype_name(to_dtype), no_saturate ? ", not saturating" : "", is, should);
        }
    }
    for (uint64_t i = 0; i < room; i++) {
        if ((i < offset * to_size || i >= (offset + count) * to_size) && got[i] != poison) {
            fail_msg("byte %llu, outside of y, was written", (unsigned long long)i);
        }
    }
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    free(got);
}

static FILE *open_data(const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/fp8/%s", HAL_TEST_DATA, name);
    FILE *file = fopen(path, mode);
    if (!file) {
        fail_msg("cannot open %s", path);
    }
    return file;
}

/* Every E4M3 code to each dtype, and what is exact back again. */
static void test_codes(void **state)
{
    fixture *f = *state;
    char line[256];
    uint8_t codes[256];
    uint32_t f32[256];
    uint16_t f16[256], bf16[256];
    unsigned count = 0, code, as_f32, as_f16, as_bf16;
    FILE *file = open_data("e4m3fn_codes.tsv", "r");
    assert_non_null(fgets(line, sizeof line, file)); /* the heading */
    while (count < 256 && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%x %*s %*s %*s %*s %*s %x %x %x", &code, &as_f32, &as_f16, &as_bf16) != 4) {
            fail_msg("cannot read: %s", line);
        }
        codes[count] = (uint8_t)code;
        f32[count] = as_f32;
        f16[count] = (uint16_t)as_f16;
        bf16[count++] = (uint16_t)as_bf16;
    }
    fclose(file);
    assert_int_equal(count, 256);
    for (uint64_t offset = 0; offset < 2; offset++) {
        check_cast(f, HAL_F8E4M3, codes, HAL_F32, f32, 256, false, offset);
        check_cast(f, HAL_F8E4M3, codes, HAL_F16, f16, 256, false, offset);
        check_cast(f, HAL_F8E4M3, codes, HAL_BF16, bf16, 256, false, offset);
        check_cast(f, HAL_F8E4M3, codes, HAL_F8E4M3, codes, 256, false, offset);
        for (int no_saturate = 0; no_saturate < 2; no_saturate++) {
            check_cast(f, HAL_F32, f32, HAL_F8E4M3, codes, 256, no_saturate, offset);
            check_cast(f, HAL_F16, f16, HAL_F8E4M3, codes, 256, no_saturate, offset);
            check_cast(f, HAL_BF16, bf16, HAL_F8E4M3, codes, 256, no_saturate, offset);
        }
    }
}

/* Every 16-bit number to E4M3. */
static void test_halves_to_codes(void **state)
{
    static const struct {
        hal_dtype dtype;
        bool no_saturate;
        const char *file;
    } tables[] = {{HAL_F16, false, "f16_to_e4m3fn_sat.bin"},
                  {HAL_F16, true, "f16_to_e4m3fn_nosat.bin"},
                  {HAL_BF16, false, "bf16_to_e4m3fn_sat.bin"},
                  {HAL_BF16, true, "bf16_to_e4m3fn_nosat.bin"}};
    fixture *f = *state;
    static uint16_t halves[0x10000];
    static uint8_t codes[0x10000];
    for (uint32_t i = 0; i < 0x10000; i++) {
        halves[i] = (uint16_t)i;
    }
    for (uint32_t i = 0; i < 4; i++) {
        FILE *file = open_data(tables[i].file, "rb");
        assert_int_equal(fread(codes, 1, sizeof codes, file), sizeof codes);
        fclose(file);
        check_cast(f, tables[i].dtype, halves, HAL_F8E4M3, codes, 0x10000, tables[i].no_saturate, i);
    }
}

/* Every 16-bit number to FP32, back, to the other format, and to itself. */
static void test_halves(void **state)
{
    fixture *f = *state;
    static uint16_t halves[0x10000], others[0x10000];
    static float singles[0x10000];
    for (uint32_t i = 0; i < 0x10000; i++) {
        halves[i] = (uint16_t)i;
    }
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        const hal_dtype other = dtype == HAL_F16 ? HAL_BF16 : HAL_F16;
        OK(hal_numeric_decode(dtype, halves, 0x10000, singles));
        OK(hal_numeric_encode(other, singles, 0x10000, others));
        check_cast(f, dtype, halves, HAL_F32, singles, 0x10000, false, 0);
        check_cast(f, HAL_F32, singles, dtype, halves, 0x10000, false, 3);
        check_cast(f, dtype, halves, other, others, 0x10000, false, 1);
        check_cast(f, dtype, halves, dtype, halves, 0x10000, false, 2);
    }
}

/* FP32 numbers at and around the places where rounding changes. */
static void test_singles(void **state)
{
    fixture *f = *state;
    enum { MOST = 4096 };
    static uint32_t f32[MOST];
    static uint8_t saturated[MOST], nan[MOST];
    static uint16_t f16[MOST], bf16[MOST];
    char line[256], word[3][16];
    uint32_t count = 0;
    FILE *file = open_data("f32_to_e4m3fn.tsv", "r");
    assert_non_null(fgets(line, sizeof line, file)); /* the heading */
    while (count < MOST && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %*s %15s %15s", word[0], word[1], word[2]) != 3) {
            fail_msg("cannot read: %s", line);
        }
        f32[count] = (uint32_t)strtoul(word[0], NULL, 16);
        saturated[count] = word[1][0] == 'n' ? 0x7f : (uint8_t)strtoul(word[1], NULL, 16);
        nan[count++] = word[2][0] == 'n' ? 0x7f : (uint8_t)strtoul(word[2], NULL, 16);
    }
    fclose(file);
    assert_true(count > 1000 && count < MOST);
    check_cast(f, HAL_F32, f32, HAL_F8E4M3, saturated, count, false, 0);
    check_cast(f, HAL_F32, f32, HAL_F8E4M3, nan, count, true, 1);
    count = 0;
    file = open_data("f32_to_f16_bf16.tsv", "r");
    assert_non_null(fgets(line, sizeof line, file));
    while (count < MOST && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %15s %15s", word[0], word[1], word[2]) != 3) {
            fail_msg("cannot read: %s", line);
        }
        f32[count] = (uint32_t)strtoul(word[0], NULL, 16);
        f16[count] = word[1][0] == 'n' ? 0x7e00 : (uint16_t)strtoul(word[1], NULL, 16);
        bf16[count++] = word[2][0] == 'n' ? 0x7fc0 : (uint16_t)strtoul(word[2], NULL, 16);
    }
    fclose(file);
    assert_true(count > 100 && count < MOST);
    check_cast(f, HAL_F32, f32, HAL_F16, f16, count, false, 0);
    check_cast(f, HAL_F32, f32, HAL_BF16, bf16, count, false, 0);
    check_cast(f, HAL_F32, f32, HAL_F32, f32, count, false, 1); /* subnormal numbers and NaNs keep their bits */
}

typedef struct cast_case {
    operand x, y;
    bool no_saturate;
} cast_case;

static hal_status tell_cast(hal_cmdlist *list, void *user)
{
    const cast_case *c = user;
    return hal_cast(list, HAL_CAST(.rows = c->x.host.rows, .columns = c->x.host.columns, .dtype = c->x.host.dtype,
                                   .dtype_y = c->y.host.dtype, .x = operand_span(&c->x), .y = operand_span(&c->y),
                                   .ldx = c->x.host.ld, .ldy = c->y.host.ld, .no_saturate = c->no_saturate));
}

static double expect_cast(void *user, uint64_t row, uint64_t column, double *error)
{
    const cast_case *c = user;
    *error = 0;
    return matrix_get(&c->x.host, 0, row, column);
}

static void test_cast_shapes(void **state)
{
    fixture *f = *state;
    uint64_t seed = 11;
    for (uint32_t round = 0; round < 64; round++) {
        const uint64_t rows = test_sizes[random_below(&seed, test_size_count)];
        const uint64_t columns = round % 8 == 7 ? 5000 : test_sizes[random_below(&seed, test_size_count)];
        cast_case c = {.no_saturate = round & 1};
        operand_create(&c.x, f, "x", (hal_dtype)(HAL_F32 + round % DTYPES), rows, columns, FILL_RANDOM, &seed);
        operand_create(&c.y, f, "y", (hal_dtype)(HAL_F32 + round / DTYPES % DTYPES), rows, columns, FILL_POISON, &seed);
        operand *const outputs[] = {&c.y};
        operands_run(f, tell_cast, &c, outputs, 1);
        operand_check(&c.y, expect_cast, &c, true);
        operand_free(&c.x);
        operand_free(&c.y);
    }
}

typedef struct scaled_case {
    operand x, codes, scales;
    hal_scaling scaling;
    hal_mode mode;
    bool dequantize;
} scaled_case;

static hal_status tell_scaled(hal_cmdlist *list, void *user)
{
    const scaled_case *c = user;
    const hal_quantize_desc desc = {.struct_size = sizeof desc,
                                    .rows = c->x.host.rows,
                                    .columns = c->x.host.columns,
                                    .dtype = c->x.host.dtype,
                                    .dtype_scales = c->scales.host.dtype,
                                    .scaling = c->scaling,
                                    .x = operand_span(&c->x),
                                    .codes = operand_span(&c->codes),
                                    .scales = operand_span(&c->scales),
                                    .ldx = c->x.host.ld,
                                    .ld_codes = c->codes.host.ld,
                                    .mode = c->mode};
    return c->dequantize ? hal_dequantize(list, &desc) : hal_quantize(list, &desc);
}

static double scale_of(const scaled_case *c, uint64_t row, uint64_t column)
{
    const uint64_t at = c->scaling <= HAL_SCALE_ROW ? row : c->scaling == HAL_SCALE_COLUMN ? column : 0;
    return matrix_get(&c->scales.host, 0, 0, at);
}

static double expect_codes(void *user, uint64_t row, uint64_t column, double *error)
{
    const scaled_case *c = user;
    *error = 0;
    return nearest_e4m3((float)(matrix_get(&c->x.host, 0, row, column) / scale_of(c, row, column)));
}

static double expect_numbers(void *user, uint64_t row, uint64_t column, double *error)
{
    const scaled_case *c = user;
    *error = 0;
    return (double)(float)(matrix_get(&c->codes.host, 0, row, column) * scale_of(c, row, column));
}

static void create_scaled(scaled_case *c, fixture *f, hal_dtype dtype, hal_dtype dtype_scales, uint64_t rows,
                          uint64_t columns, uint64_t *seed)
{
    const uint64_t count = c->scaling <= HAL_SCALE_ROW ? rows : c->scaling == HAL_SCALE_COLUMN ? columns : 1;
    const bool amax = c->scaling == HAL_SCALE_ROW_AMAX;
    operand_create(&c->x, f, "x", dtype, rows, columns, c->dequantize ? FILL_POISON : FILL_RANDOM, seed);
    operand_create(&c->codes, f, "codes", HAL_F8E4M3, rows, columns, c->dequantize ? FILL_RANDOM : FILL_POISON, seed);
    operand_create(&c->scales, f, "scales", dtype_scales, 1, count, amax ? FILL_POISON : FILL_RANDOM, seed);
    for (uint64_t i = 0; !amax && i < count; i++) {
        const float value = ldexpf(1.0f + (float)random_below(seed, 256) / 256.0f, -(int)random_below(seed, 14));
        matrix_set(&c->scales.host, 0, 0, i, value);
    }
    if (!amax) {
        operand_upload(&c->scales, f);
    }
}

static void free_scaled(scaled_case *c)
{
    operand_free(&c->x);
    operand_free(&c->codes);
    operand_free(&c->scales);
}

/* amax / 448, rounded once (or twice, where it is subnormal), finite and positive. */
static void check_scales(const scaled_case *c)
{
    for (uint64_t row = 0; row < c->x.host.rows; row++) {
        double amax = 0, got = matrix_get(&c->scales.host, 0, 0, row);
        for (uint64_t column = 0; column < c->x.host.columns; column++) {
            const double x = fabs(matrix_get(&c->x.host, 0, row, column));
            amax = !isnan(x) && x > amax ? x : amax;
        }
        const double want = amax == 0 ? 1 : fmin(amax, (double)FLT_MAX) / 448;
        if (!(fabs(got - want) <= want * 0x1p-24 + 0x1p-149) || !(got > 0)) {
            fail_msg("scale of row %llu is %.9g, want %.9g", (unsigned long long)row, got, want);
        }
    }
    operand_check_gaps(&c->scales);
}

static void run_quantize(fixture *f, scaled_case *c)
{
    operand *const outputs[] = {&c->codes, &c->scales};
    const bool amax = c->scaling == HAL_SCALE_ROW_AMAX;
    operands_run(f, tell_scaled, c, outputs, amax ? 2 : 1);
    if (amax) {
        check_scales(c);
    }
    operand_check(&c->codes, expect_codes, c, true);
}

static void test_quantize(void **state)
{
    fixture *f = *state;
    uint64_t seed = 12;
    for (uint32_t round = 0; round < 72; round++) {
        scaled_case c = {.scaling = (hal_scaling)(round % 4), .mode = round % 5 ? HAL_MODE_FAST : HAL_MODE_STRICT};
        const hal_dtype given = (hal_dtype)(HAL_F32 + round / 12 % 3);
        const uint64_t columns = round % 9 == 8 ? 3000 : test_sizes[random_below(&seed, test_size_count)];
        create_scaled(&c, f, (hal_dtype)(HAL_F32 + round / 4 % 3), c.scaling == HAL_SCALE_ROW_AMAX ? HAL_F32 : given,
                      test_sizes[random_below(&seed, test_size_count)], columns, &seed);
        run_quantize(f, &c);
        free_scaled(&c);
    }
}

static void test_dequantize(void **state)
{
    fixture *f = *state;
    uint64_t seed = 13;
    for (uint32_t round = 0; round < 54; round++) {
        scaled_case c = {.scaling = (hal_scaling)(1 + round % 3),
                         .mode = round % 2 ? HAL_MODE_FAST : HAL_MODE_STRICT,
                         .dequantize = true};
        create_scaled(&c, f, (hal_dtype)(HAL_F32 + round / 3 % 3), (hal_dtype)(HAL_F32 + round / 9 % 3),
                      test_sizes[random_below(&seed, test_size_count)],
                      test_sizes[random_below(&seed, test_size_count)], &seed);
        operand *const outputs[] = {&c.x};
        operands_run(f, tell_scaled, &c, outputs, 1);
        operand_check(&c.x, expect_numbers, &c, true);
        free_scaled(&c);
    }
}

/* Quotients at and next to where the code changes, for scales whose mantissas are anything. */
static void test_ties(void **state)
{
    fixture *f = *state;
    uint64_t seed = 14;
    enum { SCALES = 64, VALUES = 128 * 3 };
    scaled_case c = {.scaling = HAL_SCALE_ROW};
    create_scaled(&c, f, HAL_F32, HAL_F32, SCALES, VALUES, &seed);
    for (uint64_t row = 0; row < SCALES; row++) {
        const float scale =
            ldexpf(1.0f + (float)random_below(&seed, 1u << 23) * 0x1p-23f, (int)random_below(&seed, 40) - 20);
        matrix_set(&c.scales.host, 0, 0, row, row % 4 ? scale : ldexpf(1.0f, (int)row - 32));
        for (uint32_t i = 0; i < VALUES; i++) {
            const uint8_t code = (uint8_t)(i / 3 % 127), next = (uint8_t)(code + 1 > 126 ? 126 : code + 1);
            const float middle = 0.5f * (hal_f8e4m3_to_f32(code) + hal_f8e4m3_to_f32(next));
            float x = middle * (float)matrix_get(&c.scales.host, 0, 0, row);
            x = i % 3 == 0 ? nextafterf(x, 0.0f) : i % 3 == 1 ? x : nextafterf(x, INFINITY);
            matrix_set(&c.x.host, 0, row, i, i & 8 ? -x : x);
        }
    }
    operand_upload(&c.scales, f);
    operand_upload(&c.x, f);
    run_quantize(f, &c);
    free_scaled(&c);
}

/* Rows of zeros, of one number, tiny, huge, with NaN and infinity: no NaN but where there was one, scales finite. */
static void test_extreme_rows(void **state)
{
    static const float rows[][4] = {
        {0, -0.0f, 0, 0}, {1, 1, 1, 1},         {0x1p-120f, 1e-37f, 0, 0},         {FLT_MAX, 1, -FLT_MAX, 0},
        {NAN, 1, -2, 3},  {NAN, NAN, NAN, NAN}, {INFINITY, 1, -INFINITY, FLT_MAX}, {448, 447, 3.5f, -448}};
    enum { ROWS = sizeof rows / sizeof rows[0] };
    fixture *f = *state;
    uint64_t seed = 15;
    for (hal_mode mode = HAL_MODE_FAST; mode <= HAL_MODE_STRICT; mode++) {
        scaled_case c = {.scaling = HAL_SCALE_ROW_AMAX, .mode = mode};
        create_scaled(&c, f, HAL_F32, HAL_F32, ROWS, 37, &seed);
        for (uint64_t row = 0; row < ROWS; row++) {
            for (uint64_t i = 0; i < 37; i++) {
                matrix_set(&c.x.host, 0, row, i, rows[row][i % 4]);
            }
        }
        operand_upload(&c.x, f);
        run_quantize(f, &c);
        for (uint64_t row = 0; row < ROWS; row++) {
            for (uint64_t i = 0; i < 37; i++) {
                assert_int_equal(isnan(matrix_get(&c.codes.host, 0, row, i)), isnan(rows[row][i % 4]));
            }
        }
        free_scaled(&c);
    }
}

/* A scale that is no positive finite number gives NaN. */
static void test_bad_scales(void **state)
{
    static const float bad[] = {0.0f, -0.0f, -1.0f, NAN, INFINITY};
    fixture *f = *state;
    uint64_t seed = 16;
    scaled_case c = {.scaling = HAL_SCALE_COLUMN};
    create_scaled(&c, f, HAL_F32, HAL_F32, 3, 5, &seed);
    for (uint64_t i = 0; i < 5; i++) {
        matrix_set(&c.scales.host, 0, 0, i, bad[i]);
    }
    operand_upload(&c.scales, f);
    operand *const outputs[] = {&c.codes};
    operands_run(f, tell_scaled, &c, outputs, 1);
    for (uint64_t i = 0; i < 15; i++) {
        assert_true(isnan(matrix_get(&c.codes.host, 0, i / 5, i % 5)));
    }
    free_scaled(&c);
}

/* A row as long as no device's loop is: more work-items where turns are limited. */
static void test_long_row(void **state)
{
    fixture *f = *state;
    uint64_t seed = 17;
    scaled_case c = {.scaling = HAL_SCALE_ROW_AMAX};
    const uint64_t columns = 300001;
    create_scaled(&c, f, HAL_BF16, HAL_F32, 2, columns, &seed);
    matrix_set(&c.x.host, 0, 0, columns - 1, 100.0f);
    matrix_set(&c.x.host, 0, 1, 150000, -200.0f);
    operand_upload(&c.x, f);
    run_quantize(f, &c);
    free_scaled(&c);
}

static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 18;
    operand x, y;
    operand_create_at(&x, f, "x", HAL_F32, 4, 10, 0, 12, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F32, 4, 10, 0, 12, FILL_POISON, &seed);
    const hal_span sx = operand_span(&x), sy = operand_span(&y);
    OK(hal_cast(f->list, HAL_CAST(.rows = 4, .columns = 10, .x = sx, .y = sx, .ldx = 12, .ldy = 12)));
    OK(hal_cast(f->list, HAL_CAST(.rows = 0, .columns = 10)));
    OK(hal_quantize(f->list, HAL_QUANTIZE(.rows = 4, .columns = 0)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_cast(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_quantize(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_cast(f->list, HAL_CAST(.rows = 4, .columns = 10, .x = sx)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_cast(f->list, HAL_CAST(.rows = 4, .columns = 10, .x = sx, .y = sy, .dtype = (hal_dtype)9)));
    REFUSED(HAL_ERROR_OVERLAP, hal_cast(f->list, HAL_CAST(.rows = 4, .columns = 10, .dtype_y = HAL_F16, .x = sx,
                                                          .y = sx, .ldx = 12, .ldy = 12)));
    REFUSED(HAL_ERROR_OVERLAP, hal_cast(f->list, HAL_CAST(.rows = 4, .columns = 10, .x = sx, .y = hal_at(x.buffer, 4),
                                                          .ldx = 12, .ldy = 12)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_cast(f->list, HAL_CAST(.rows = 400, .columns = 10, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_LIMIT, hal_cast(f->list, HAL_CAST(.rows = UINT64_C(1) << 31, .columns = 1, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_quantize(f->list, HAL_QUANTIZE(.rows = 1, .columns = 1, .x = sx, .codes = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_quantize(f->list, HAL_QUANTIZE(.rows = 1, .columns = 1, .x = sx, .codes = sy,
                                               .scales = hal_at(y.buffer, 16), .scaling = (hal_scaling)4)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_quantize(f->list, HAL_QUANTIZE(.rows = 1, .columns = 1, .x = sx, .codes = sy,
                                               .scales = hal_at(y.buffer, 16), .dtype_scales = HAL_F16)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_dequantize(
                f->list, HAL_QUANTIZE(.rows = 1, .columns = 1, .x = sx, .codes = sy, .scales = hal_at(y.buffer, 16))));
    REFUSED(HAL_ERROR_OVERLAP, hal_quantize(f->list, HAL_QUANTIZE(.rows = 4, .columns = 10, .x = sx, .codes = sy,
                                                                  .scales = hal_at(y.buffer, 20), .ldx = 12)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_free(&x);
    operand_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes),        cmocka_unit_test(test_halves_to_codes),
                                       cmocka_unit_test(test_halves),       cmocka_unit_test(test_singles),
                                       cmocka_unit_test(test_cast_shapes),  cmocka_unit_test(test_quantize),
                                       cmocka_unit_test(test_dequantize),   cmocka_unit_test(test_ties),
                                       cmocka_unit_test(test_extreme_rows), cmocka_unit_test(test_bad_scales),
                                       cmocka_unit_test(test_long_row),     cmocka_unit_test(test_rules)};
    return ROWS_MAIN("quantize", tests);
}
