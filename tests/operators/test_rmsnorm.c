/* test_rmsnorm.c - hal_rmsnorm on the device that HAL_BACKEND names. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_rows.h"
#include "row_kernels.h"

typedef struct norm_case {
    operand x, weight, residual, sum, y, scales;
    hal_buffer *workspace;
    uint64_t rows, columns;
    bool weighted, added, summed, quantised, split;
    hal_dtype between;
    float eps;
    hal_mode mode;
    unsigned forms;
    uint64_t row; /* the reference's */
    double root, root_error;
} norm_case;

static double rounded(hal_dtype dtype, double value)
{
    float single = (float)value, result = 0;
    uint8_t bytes[4];
    hal_numeric_encode(dtype, &single, 1, bytes);
    hal_numeric_decode(dtype, bytes, 1, &result);
    return (double)result;
}

/* x, or the rounded sum. */
static double value_at(const norm_case *c, uint64_t row, uint64_t column)
{
    double v = matrix_get(&c->x.host, 0, row, column);
    return c->added ? rounded(c->x.host.dtype, v + matrix_get(&c->residual.host, 0, row, column)) : v;
}

static double expect_sum(void *user, uint64_t row, uint64_t column, double *error)
{
    *error = 0;
    return value_at(user, row, column);
}

static double expect(void *user, uint64_t row, uint64_t column, double *error)
{
    norm_case *c = user;
    if (row != c->row) {
        double sum = 0;
        for (uint64_t i = 0; i < c->columns; i++) {
            sum += value_at(c, row, i) * value_at(c, row, i);
        }
        c->row = row;
        c->root = 1 / sqrt(sum / (double)c->columns + (double)c->eps);
        c->root_error = 0x1p-24 * (9 + (double)c->columns / 2048); /* half of the sum's, and the root's own */
    }
    const double weight = c->weighted ? matrix_get(&c->weight.host, 0, 0, column) : 1;
    const double v = value_at(c, row, column) * c->root * weight;
    *error = fabs(v) * (c->root_error + 3 * 0x1p-24) + 0x1p-126;
    return v;
}

static hal_rmsnorm_desc desc_of(const norm_case *c)
{
    const hal_span none = {0};
    return *HAL_RMSNORM(.rows = c->rows, .columns = c->columns, .dtype = c->x.host.dtype, .dtype_y = c->y.host.dtype,
                        .dtype_weight = c->weighted ? c->weight.host.dtype : HAL_DTYPE_DEFAULT,
                        .round_between = c->between, .x = operand_span(&c->x),
                        .weight = c->weighted ? operand_span(&c->weight) : none, .y = operand_span(&c->y),
                        .residual = c->added ? operand_span(&c->residual) : none,
                        .sum = c->summed ? operand_span(&c->sum) : none,
                        .scales = c->quantised ? operand_span(&c->scales) : none, .ldx = c->x.host.ld,
                        .ldy = c->y.host.ld, .ld_residual = c->added ? c->residual.host.ld : 0,
                        .ld_sum = c->summed ? c->sum.host.ld : 0, .eps = c->eps, .mode = c->mode,
                        .workspace = c->split ? hal_whole(c->workspace) : none);
}

static hal_status tell(hal_cmdlist *list, void *user)
{
    const norm_case *c = user;
    const hal_rmsnorm_desc desc = desc_of(c);
    return hal_rmsnorm_in(list, &desc, c->forms | (c->split ? HAL_ROW_SPLIT : 0));
}

static void case_make(norm_case *c, fixture *f, hal_dtype dtype, hal_dtype dtype_y, hal_dtype dtype_weight,
                      uint64_t *seed)
{
    operand_create(&c->x, f, "x", dtype, c->rows, c->columns, FILL_RANDOM, seed);
    operand_create(&c->y, f, "y", c->quantised ? HAL_F8E4M3 : dtype_y, c->rows, c->columns, FILL_POISON, seed);
    if (c->weighted) {
        operand_create(&c->weight, f, "weight", dtype_weight, 1, c->columns, FILL_RANDOM, seed);
    }
    if (c->added) {
        operand_create(&c->residual, f, "residual", dtype, c->rows, c->columns, FILL_RANDOM, seed);
    }
    if (c->summed) {
        operand_create(&c->sum, f, "sum", dtype, c->rows, c->columns, FILL_POISON, seed);
    }
    if (c->quantised) {
        operand_create(&c->scales, f, "scales", HAL_F32, 1, c->rows, FILL_POISON, seed);
    }
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = c->rows * RMSNORM_ROW * 4, .label = "workspace"),
                         &c->workspace));
}

static void case_end(norm_case *c)
{
    operand *const all[] = {&c->x, &c->y, &c->weight, &c->residual, &c->sum, &c->scales};
    const bool there[] = {true, true, c->weighted, c->added, c->summed, c->quantised};
    for (uint32_t i = 0; i < 6; i++) {
        if (there[i]) {
            operand_free(all[i]);
        }
    }
    hal_buffer_destroy(c->workspace);
}

static void run(fixture *f, norm_case *c)
{
    operand *outputs[3] = {&c->y};
    uint32_t count = 1;
    if (c->summed) {
        outputs[count++] = &c->sum;
    }
    if (c->quantised) {
        outputs[count++] = &c->scales;
    }
    operands_run(f, tell, c, outputs, count);
}

/* A code is that of the expected number, or its neighbour where rounding may have gone the other way. */
static void check_codes(norm_case *c)
{
    for (uint64_t row = 0; row < c->rows; row++) {
        const double scale = matrix_get(&c->scales.host, 0, 0, row);
        double amax = 0, error = 0;
        for (uint64_t i = 0; i < c->columns; i++) {
            amax = fmax(amax, fabs(rounded(c->between, expect(c, row, i, &error))));
        }
        assert_true(scale > 0 && isfinite(scale));
        const double want_scale = amax == 0 ? 1 : amax / 448;
        assert_true(fabs(scale - want_scale) <=
                    want_scale * (1e-6 + 4 * c->root_error + (c->between == HAL_F32 ? 0 : 0x1p-7)));
        for (uint64_t i = 0; i < c->columns; i++) {
            const double want = expect(c, row, i, &error), got = matrix_get(&c->y.host, 0, row, i);
            double slack = 2 * error + (c->between == HAL_F32 ? 0 : 2 * half_ulp(c->between, want));
            const double low = rounded(HAL_F8E4M3, (want - slack) / scale),
                         high = rounded(HAL_F8E4M3, (want + slack) / scale);
            if (!(got >= low && got <= high)) {
                fail_msg("code [%llu][%llu] is %g, want %g to %g", (unsigned long long)row, (unsigned long long)i, got,
                         low, high);
            }
        }
    }
    operand_check_gaps(&c->y);
    operand_check_gaps(&c->scales);
}

/* In every form: right, and the same bits; `parts`: in parts, too. */
static void check(fixture *f, norm_case *c, bool parts)
{
    uint8_t *first = NULL;
    for (uint32_t form = 0; form < (parts ? 4 : 2); form++) {
        c->forms = form & HAL_ROW_GROUPS;
        c->split = (form & 2) != 0;
        c->row = UINT64_MAX;
        run(f, c);
        if (!first) {
            first = malloc(c->y.host.bytes);
            assert_non_null(first);
            memcpy(first, c->y.host.data, c->y.host.bytes);
            if (c->quantised) {
                check_codes(c);
            } else {
                operand_check(&c->y, expect, c, false);
            }
        }
        assert_memory_equal(first, c->y.host.data, c->y.host.bytes);
        if (c->summed) {
            operand_check(&c->sum, expect_sum, c, true);
        }
    }
    free(first);
}

static void test_random(void **state)
{
    fixture *f = *state;
    static const uint64_t many[] = {257, 513, 1000, 1025, 4099, 8192, 20000, 70000};
    uint64_t seed = 21;
    for (uint32_t round = 0; round < 32; round++) {
        const bool large = round % 4 == 3;
        norm_case c = {.rows = large ? 1 + round % 3 : test_sizes[random_below(&seed, test_size_count)],
                       .columns = large ? many[round / 4] : test_sizes[round % test_size_count],
                       .weighted = round % 5 != 0,
                       .added = round % 3 != 0,
                       .summed = round % 3 == 2,
                       .quantised = round % 7 >= 5,
                       .between = (hal_dtype)(HAL_F32 + round / 7 % 3),
                       .eps = round % 2 ? 1e-5f : 0.25f,
                       .mode = round / 2 % 2 ? HAL_MODE_STRICT : HAL_MODE_FAST};
        case_make(&c, f, (hal_dtype)(HAL_F32 + round % 3), (hal_dtype)(HAL_F32 + round / 3 % 3),
                  (hal_dtype)(HAL_F32 + round / 2 % 3), &seed);
        check(f, &c, large || round % 8 == 0);
        case_end(&c);
    }
}

/* Rows: zeros; a NaN; half-precision squares overflow; subnormal halves; one. */
static void test_special_rows(void **state)
{
    fixture *f = *state;
    uint64_t seed = 22;
    for (uint32_t round = 0; round < 4; round++) {
        norm_case c = {
            .rows = 5, .columns = round % 2 ? 300 : 64, .eps = 0, .mode = round / 2 ? HAL_MODE_STRICT : HAL_MODE_FAST};
        case_make(&c, f, HAL_F16, HAL_F16, HAL_F32, &seed);
        for (uint64_t i = 0; i < c.columns; i++) {
            matrix_set(&c.x.host, 0, 0, i, 0.0f);
            matrix_set(&c.x.host, 0, 2, i, i % 2 ? 60000.0f : -60000.0f);
            matrix_set(&c.x.host, 0, 3, i, 0x1p-24f);
            matrix_set(&c.x.host, 0, 4, i, 1.0f);
        }
        matrix_set(&c.x.host, 0, 1, 5, NAN);
        operand_upload(&c.x, f);
        for (c.forms = 0; c.forms <= HAL_ROW_GROUPS; c.forms++) {
            run(f, &c);
            for (uint64_t i = 0; i < c.columns; i++) {
                assert_true(matrix_get(&c.y.host, 0, 0, i) == 0);
                assert_true(isnan(matrix_get(&c.y.host, 0, 1, i)));
                assert_true(matrix_get(&c.y.host, 0, 2, i) == (i % 2 ? 1 : -1));
                assert_true(matrix_get(&c.y.host, 0, 3, i) == 1);
                assert_true(matrix_get(&c.y.host, 0, 4, i) == 1);
            }
        }
        case_end(&c);
    }
}

/* Quantised at once: the codes and scales of the row as it is stored without. A row of zeros has scale 1. */
static void test_fused_quantisation(void **state)
{
    fixture *f = *state;
    uint64_t seed = 23;
    for (uint32_t round = 0; round < 6; round++) {
        norm_case c = {.rows = 9,
                       .columns = round % 2 ? 1500 : 200,
                       .quantised = true,
                       .weighted = true,
                       .between = (hal_dtype)(HAL_F32 + round % 3),
                       .eps = 1e-6f,
                       .mode = round / 3 ? HAL_MODE_STRICT : HAL_MODE_FAST};
        case_make(&c, f, HAL_F32, HAL_F32, HAL_F32, &seed);
        for (uint64_t i = 0; i < c.columns; i++) {
            matrix_set(&c.x.host, 0, 4, i, 0.0f);
        }
        operand_upload(&c.x, f);
        run(f, &c);
        norm_case plain = c;
        plain.quantised = false;
        operand_create(&plain.y, f, "normalised", c.between, c.rows, c.columns, FILL_POISON, &seed);
        run(f, &plain);
        for (uint64_t row = 0; row < c.rows; row++) {
            double amax = 0, scale = matrix_get(&c.scales.host, 0, 0, row);
            for (uint64_t i = 0; i < c.columns; i++) {
                double v = matrix_get(&plain.y.host, 0, row, i);
                amax = fmax(amax, fabs(v));
                if (matrix_get(&c.y.host, 0, row, i) != nearest_e4m3((float)(v / scale))) {
                    fail_msg("code [%llu][%llu] is %g, want %.17g", (unsigned long long)row, (unsigned long long)i,
                             matrix_get(&c.y.host, 0, row, i), v / scale);
                }
            }
            assert_true(fabs(scale - (amax == 0 ? 1 : amax / 448)) <= scale * 0x1p-22);
        }
        operand_free(&plain.y);
        case_end(&c);
    }
}

static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 24, size = 7;
    operand x, y, r;
    operand_create_at(&x, f, "x", HAL_F32, 4, 10, 0, 12, FILL_RANDOM, &seed);
    operand_create_at(&r, f, "r", HAL_F32, 4, 10, 0, 12, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F32, 4, 10, 0, 12, FILL_POISON, &seed);
    const hal_span sx = operand_span(&x), sy = operand_span(&y), sr = operand_span(&r);
#define NORM(...) hal_rmsnorm(f->list, HAL_RMSNORM(__VA_ARGS__))
    OK(NORM(.rows = 4, .columns = 10, .x = sx, .y = sx, .ldx = 12, .ldy = 12));
    OK(NORM(.rows = 4, .columns = 10, .x = sx, .residual = sr, .sum = sr, .y = sy, .ldx = 12, .ldy = 12,
            .ld_residual = 12, .ld_sum = 12));
    OK(NORM(.rows = 0, .columns = 10, .x = sx, .y = sy));
    OK(hal_rmsnorm_prepare(f->device, HAL_RMSNORM(.rows = 4, .columns = 10)));
    OK(hal_rmsnorm_workspace(f->device, HAL_RMSNORM(.rows = 100, .columns = 10), &size));
    assert_int_equal(size, 0);
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rmsnorm(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rmsnorm_workspace(f->device, HAL_RMSNORM(.rows = 4, .columns = 10), NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 4, .columns = 0, .x = sx, .y = sy));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 1, .columns = 1, .x = sx));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 4, .columns = 10, .x = sx, .y = sy, .ldx = 9));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 4, .columns = 10, .x = sx, .y = sy, .sum = sr));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 4, .columns = 10, .x = sx, .y = sy, .dtype = HAL_F8E4M3));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, NORM(.rows = 4, .columns = 10, .x = sx, .y = sy, .dtype_y = HAL_F8E4M3));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, NORM(.rows = 400, .columns = 10, .x = sx, .y = sy));
    REFUSED(HAL_ERROR_LIMIT, NORM(.rows = UINT64_C(1) << 31, .columns = 1, .x = sx, .y = sy));
    REFUSED(HAL_ERROR_OVERLAP, NORM(.rows = 4, .columns = 10, .x = sx, .y = hal_at(x.buffer, 4), .ldx = 12, .ldy = 12));
    REFUSED(HAL_ERROR_OVERLAP, NORM(.rows = 4, .columns = 10, .x = sx, .residual = sr, .sum = sy, .y = sy, .ldx = 12,
                                    .ldy = 12, .ld_residual = 12, .ld_sum = 12));
    REFUSED(HAL_ERROR_ALIGNMENT, NORM(.rows = 4, .columns = 8, .x = hal_at(x.buffer, 2), .y = sy));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_free(&x);
    operand_free(&y);
    operand_free(&r);
}

/* The least that Vulkan and OpenCL promise: groups of 128, 16 KiB of shared memory. */
static void test_small_limits(void **state)
{
    (void)state;
    fixture f;
    uint64_t seed = 25;
    fixture_open(&f, "shared=16384,group_size=128");
    for (uint32_t round = 0; round < 6; round++) {
        static const uint64_t widths[] = {3, 500, 513, 2048, 9000, 40000};
        norm_case c = {.rows = 2, .columns = widths[round], .eps = 1e-5f, .mode = HAL_MODE_STRICT};
        case_make(&c, &f, HAL_F32, HAL_F32, HAL_F32, &seed);
        check(&f, &c, true);
        case_end(&c);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_special_rows),
                                       cmocka_unit_test(test_fused_quantisation), cmocka_unit_test(test_small_limits),
                                       cmocka_unit_test(test_rules)};
    return ROWS_MAIN("rmsnorm", tests);
}
