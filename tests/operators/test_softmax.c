/* test_softmax.c - hal_softmax on the device that HAL_BACKEND names. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "row_kernels.h"

typedef struct softmax_case {
    operand x, mask, y;
    uint64_t rows, columns;
    hal_mask_kind kind;
    bool masked, log;
    float scale;
    hal_mode mode;
    unsigned forms;
    /* the reference's, of the row that was asked for last */
    uint64_t row;
    double most, sum, *scores;
} softmax_case;

static double score(const softmax_case *c, uint64_t row, uint64_t column)
{
    const double s = (double)c->scale * matrix_get(&c->x.host, 0, row, column);
    if (!c->masked) {
        return s;
    }
    if (c->kind == HAL_MASK_BOOL) {
        const matrix *m = &c->mask.host;
        return m->data[m->offset + row % m->rows * m->ld + column] ? s : -INFINITY;
    }
    const double m = matrix_get(&c->mask.host, 0, row % c->mask.host.rows, column);
    return isinf(m) ? m : s + m;
}

static double expect(void *user, uint64_t row, uint64_t column, double *error)
{
    softmax_case *c = user;
    if (row != c->row) {
        c->row = row;
        c->most = -INFINITY;
        c->sum = 0;
        for (uint64_t i = 0; i < c->columns; i++) {
            c->scores[i] = score(c, row, i);
            c->most = c->scores[i] > c->most ? c->scores[i] : c->most;
        }
        for (uint64_t i = 0; i < c->columns; i++) {
            c->sum += exp(c->scores[i] - (isinf(c->most) && c->most < 0 ? 0 : c->most));
        }
    }
    const double s = c->scores[column], unit = 0x1p-24;
    /* Rounding of the score and of the difference from the maximum is what exp makes greater; the sum's error is that
     * of partial sums of columns / 1024 elements and a tree. */
    const double of_score = isfinite(s) ? unit * (2 * fabs(s) + 2 * fabs(c->most) + fabs(s - c->most)) : 0;
    const double of_sum = unit * (14 + (double)c->columns / 1024 + 2 * (isfinite(c->most) ? fabs(c->most) : 0));
    if (c->most == -INFINITY && !isnan(c->sum)) {
        *error = 0;
        return c->log ? -INFINITY : 0;
    }
    if (c->log) {
        double value = s - c->most - log(c->sum);
        *error = of_score + of_sum + 2 * unit * (fabs(value) + log(c->sum));
        return value;
    }
    double value = exp(s - c->most) / c->sum;
    *error = value * (of_score + of_sum + 6 * unit) + 0x1p-126; /* the greatest number that may count as zero */
    return value;
}

static hal_softmax_desc desc_of(const softmax_case *c)
{
    return *HAL_SOFTMAX(.rows = c->rows, .columns = c->columns, .dtype = c->x.host.dtype, .dtype_y = c->y.host.dtype,
                        .x = operand_span(&c->x), .y = operand_span(&c->y), .ldx = c->x.host.ld, .ldy = c->y.host.ld,
                        .scale = c->scale, .log = c->log, .mask = c->masked ? operand_span(&c->mask) : (hal_span){0},
                        .mask_kind = c->kind,
                        .dtype_mask = c->masked && c->kind == HAL_MASK_ADD ? c->mask.host.dtype : HAL_DTYPE_DEFAULT,
                        .ldmask = c->masked ? c->mask.host.ld : 0, .mask_rows = c->masked ? c->mask.host.rows : 0,
                        .mode = c->mode);
}

static hal_status tell(hal_cmdlist *list, void *user)
{
    const softmax_case *c = user;
    const hal_softmax_desc desc = desc_of(c);
    return hal_softmax_in(list, &desc, c->forms);
}

static void case_make(softmax_case *c, fixture *f, hal_dtype x, hal_dtype y, hal_dtype mask, uint64_t mask_rows,
                      uint64_t *seed)
{
    operand_create(&c->x, f, "x", x, c->rows, c->columns, FILL_RANDOM, seed);
    operand_create(&c->y, f, "y", y, c->rows, c->columns, FILL_POISON, seed);
    c->scores = calloc(c->columns, sizeof *c->scores);
    assert_non_null(c->scores);
    if (c->masked) {
        operand_create(&c->mask, f, "mask", mask, mask_rows, c->columns, FILL_RANDOM, seed);
        for (uint64_t i = 0; i < mask_rows * c->columns; i++) {
            const bool hidden = random_below(seed, 3) == 0;
            if (c->kind == HAL_MASK_BOOL) {
                c->mask.host.data[c->mask.host.offset + i / c->columns * c->mask.host.ld + i % c->columns] =
                    hidden ? 0 : (uint8_t)(1 + random_below(seed, 255));
            } else if (hidden) {
                matrix_set(&c->mask.host, 0, i / c->columns, i % c->columns, -INFINITY);
            }
        }
        operand_upload(&c->mask, f);
    }
}

/* x is spread, so that exponentials differ. */
static void case_spread(softmax_case *c, fixture *f, float factor)
{
    for (uint64_t i = 0; i < c->rows * c->columns; i++) {
        const double v = matrix_get(&c->x.host, 0, i / c->columns, i % c->columns);
        matrix_set(&c->x.host, 0, i / c->columns, i % c->columns, (float)v * factor);
    }
    operand_upload(&c->x, f);
}

static void case_end(softmax_case *c)
{
    operand_free(&c->x);
    operand_free(&c->y);
    if (c->masked) {
        operand_free(&c->mask);
    }
    free(c->scores);
}

static void check(fixture *f, softmax_case *c)
{
    operand *const outputs[] = {&c->y};
    for (c->forms = 0; c->forms <= HAL_ROW_GROUPS; c->forms++) {
        operands_run(f, tell, c, outputs, 1);
        c->row = UINT64_MAX;
        operand_check(&c->y, expect, c, false);
    }
}

static void test_random(void **state)
{
    fixture *f = *state;
    static const uint64_t many[] = {257, 513, 1000, 1025, 4099, 8192, 20000, 70000};
    uint64_t seed = 11;
    for (uint32_t round = 0; round < 32; round++) {
        const bool large = round % 4 == 3;
        softmax_case c = {.rows = large ? 1 + round % 3 : test_sizes[random_below(&seed, test_size_count)],
                          .columns = large ? many[round / 4] : test_sizes[round % test_size_count],
                          .kind = (hal_mask_kind)(round / 2 % 2),
                          .masked = round / 4 % 2,
                          .log = round % 5 == 4,
                          .scale = round % 3 == 0   ? 1.0f
                                   : round % 3 == 1 ? 0.125f
                                                    : -2.0f,
                          .mode = (hal_mode)(round / 3 % 3)};
        const uint64_t mask_rows = round % 8 < 4 ? c.rows : 1 + random_below(&seed, (uint32_t)c.rows);
        case_make(&c, f, (hal_dtype)(HAL_F32 + round % 3), (hal_dtype)(HAL_F32 + round / 3 % 3),
                  c.kind == HAL_MASK_BOOL ? HAL_F8E4M3 : (hal_dtype)(HAL_F32 + round / 5 % 3), mask_rows, &seed);
        case_spread(&c, f, round % 7 == 0 ? 100.0f : 6.0f);
        check(f, &c);
        case_end(&c);
    }
}

/* Rows 0 to 5: all -infinity; a third of it -infinity; a NaN; +infinity; +-6e4; equal numbers. */
static void test_special_rows(void **state)
{
    fixture *f = *state;
    uint64_t seed = 12;
    static const uint64_t widths[] = {1, 64, 257, 3000, 9000};
    for (uint32_t round = 0; round < 5 * 2 * 2; round++) {
        softmax_case c = {.rows = 6,
                          .columns = widths[round % 5],
                          .scale = 1.0f,
                          .mode = round / 5 % 2 ? HAL_MODE_STRICT : HAL_MODE_FAST,
                          .log = round >= 10};
        case_make(&c, f, HAL_F32, HAL_F32, HAL_F32, 0, &seed);
        for (uint64_t i = 0; i < c.columns; i++) {
            matrix_set(&c.x.host, 0, 0, i, -INFINITY);
            if (i * 3 > c.columns && i * 3 < c.columns * 2) {
                matrix_set(&c.x.host, 0, 1, i, -INFINITY);
            }
            matrix_set(&c.x.host, 0, 4, i, i % 2 ? 6e4f : -6e4f);
            matrix_set(&c.x.host, 0, 5, i, 3.0f);
        }
        matrix_set(&c.x.host, 0, 2, c.columns / 2, NAN);
        matrix_set(&c.x.host, 0, 3, c.columns / 3, INFINITY);
        operand_upload(&c.x, f);
        check(f, &c);
        if (c.columns == 64) {
            assert_true(c.log || matrix_get(&c.y.host, 0, 5, 7) == 1.0 / 64);
        }
        case_end(&c);
    }
}

/* A sum in half precision would stop at 2048. */
static void test_long_equal(void **state)
{
    fixture *f = *state;
    uint64_t seed = 13;
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        for (uint64_t columns = 4096; columns <= 65536; columns *= 16) {
            softmax_case c = {.rows = 2, .columns = columns, .scale = 1.0f};
            case_make(&c, f, dtype, dtype, HAL_F32, 0, &seed);
            for (uint64_t i = 0; i < 2 * columns; i++) {
                matrix_set(&c.x.host, 0, i / columns, i % columns, 0.5f);
            }
            operand_upload(&c.x, f);
            operand *const outputs[] = {&c.y};
            for (c.forms = 0; c.forms <= HAL_ROW_GROUPS; c.forms++) {
                operands_run(f, tell, &c, outputs, 1);
                for (uint64_t i = 0; i < 2 * columns; i++) {
                    assert_true(matrix_get(&c.y.host, 0, i / columns, i % columns) == 1.0 / (double)columns);
                }
            }
            case_end(&c);
        }
    }
}

/* Strict: groups of work-items and a CPU device's own form give the same bits. */
static void test_strict_forms_agree(void **state)
{
    fixture *f = *state;
    uint64_t seed = 14;
    static const uint64_t widths[] = {5, 100, 704, 1024, 4096, 8200, 70000};
    for (uint32_t round = 0; round < 28; round++) {
        softmax_case c = {.rows = 3,
                          .columns = widths[round / 4],
                          .scale = 0.3f,
                          .log = round % 2,
                          .masked = round & 2,
                          .mode = HAL_MODE_STRICT};
        case_make(&c, f, HAL_F32, HAL_F32, HAL_F32, 2, &seed);
        case_spread(&c, f, 40.0f);
        operand *const outputs[] = {&c.y};
        operands_run(f, tell, &c, outputs, 1);
        uint8_t *first = malloc(c.y.host.bytes);
        assert_non_null(first);
        memcpy(first, c.y.host.data, c.y.host.bytes);
        c.forms = HAL_ROW_GROUPS;
        operands_run(f, tell, &c, outputs, 1);
        assert_memory_equal(first, c.y.host.data, c.y.host.bytes);
        free(first);
        case_end(&c);
    }
}

static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 15;
    operand x, y;
    operand_create_at(&x, f, "x", HAL_F32, 4, 10, 0, 12, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F32, 4, 10, 0, 12, FILL_POISON, &seed);
    const hal_span sx = operand_span(&x), sy = operand_span(&y);
    OK(hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sx, .ldx = 12, .ldy = 12)));
    OK(hal_softmax(f->list, HAL_SOFTMAX(.rows = 0, .columns = 10, .x = sx, .y = sy)));
    OK(hal_softmax_prepare(f->device, HAL_SOFTMAX(.rows = 4, .columns = 10)));
    OK(hal_softmax_prepare(f->device, HAL_SOFTMAX(.rows = 0, .columns = 10)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_softmax(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_softmax_prepare(f->device, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 0, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_softmax(f->list, HAL_SOFTMAX(.rows = 1, .columns = 1, .x = sx)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sy, .ldx = 9)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sy,
                                                                         .mask_kind = (hal_mask_kind)2)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sy, .dtype = HAL_F8E4M3)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_softmax(f->list, HAL_SOFTMAX(.rows = 400, .columns = 10, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sy,
                                                                     .mask = sx, .ldmask = 12, .mask_rows = 40)));
    REFUSED(HAL_ERROR_LIMIT,
            hal_softmax(f->list, HAL_SOFTMAX(.rows = UINT64_C(1) << 31, .columns = 1, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_OVERLAP, hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx,
                                                                .y = hal_at(x.buffer, 4), .ldx = 12, .ldy = 12)));
    REFUSED(HAL_ERROR_OVERLAP, hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 10, .x = sx, .y = sy, .mask = sy,
                                                                .ldx = 12, .ldy = 12, .ldmask = 12)));
    REFUSED(HAL_ERROR_ALIGNMENT,
            hal_softmax(f->list, HAL_SOFTMAX(.rows = 4, .columns = 8, .x = hal_at(x.buffer, 2), .y = sy)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_free(&x);
    operand_free(&y);
}

/* The least that Vulkan and OpenCL promise: groups of 128, 16 KiB of shared memory; in place. */
static void test_small_limits(void **state)
{
    (void)state;
    fixture f;
    uint64_t seed = 16;
    fixture_open(&f, "shared=16384,group_size=128");
    for (uint32_t round = 0; round < 24; round++) {
        static const uint64_t widths[] = {3, 64, 500, 513, 2048, 9000};
        softmax_case c = {.rows = 5,
                          .columns = widths[round % 6],
                          .scale = 1.0f,
                          .log = round / 6 % 2,
                          .mode = round < 12 ? HAL_MODE_FAST : HAL_MODE_STRICT};
        case_make(&c, &f, HAL_F32, HAL_F32, HAL_F32, 0, &seed);
        check(&f, &c);
        case_end(&c);
    }
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),       cmocka_unit_test(test_special_rows),
                                       cmocka_unit_test(test_long_equal),   cmocka_unit_test(test_strict_forms_agree),
                                       cmocka_unit_test(test_small_limits), cmocka_unit_test(test_rules)};
    return ROWS_MAIN("softmax", tests);
}
