/* test_activation_row.c - hal_activation and hal_binary to E4M3 with a scale a row, on the device that HAL_BACKEND
 * names: the bits of the two operators in turn, and near enough to double. */
#include "rows.h"

#include <hal/numeric.h>
#include <math.h>
#include <string.h>

enum { BINARY = 100, LARGEST = 448 /* of E4M3 */ };

typedef struct chain {
    operand a, b, codes, scales;      /* fused */
    operand between, codes2, scales2; /* in turn */
    int op;                           /* a hal_act, or BINARY + a hal_binary_op */
    float alpha;
    uint64_t rows, columns;
    hal_mode mode;
} chain;

static hal_status tell(hal_cmdlist *list, const chain *c, const operand *y, hal_dtype between, hal_span scales)
{
    if (c->op < BINARY) {
        return hal_activation(list, HAL_ACTIVATION(.rows = c->rows, .columns = c->columns, .act = (hal_act)c->op,
                                                   .dtype = c->a.host.dtype, .dtype_y = y->host.dtype,
                                                   .x = operand_span(&c->a), .y = operand_span(y), .ldx = c->a.host.ld,
                                                   .ldy = y->host.ld, .alpha = c->alpha, .mode = c->mode,
                                                   .round_between = between, .scales = scales));
    }
    return hal_binary(list, HAL_BINARY(.rows = c->rows, .columns = c->columns, .op = (hal_binary_op)(c->op - BINARY),
                                       .dtype = c->a.host.dtype, .dtype_b = c->b.host.dtype, .dtype_y = y->host.dtype,
                                       .a = operand_span(&c->a), .b = operand_span(&c->b), .y = operand_span(y),
                                       .lda = c->a.host.ld, .ldb = c->b.host.ld, .ldy = y->host.ld,
                                       .b_rows = c->b.host.rows, .b_columns = c->b.host.columns, .alpha = c->alpha,
                                       .round_between = between, .mode = c->mode, .scales = scales));
}

static hal_status tell_fused(hal_cmdlist *list, void *user)
{
    const chain *c = user;
    return tell(list, c, &c->codes, c->between.host.dtype, operand_span(&c->scales));
}

static hal_status tell_in_turn(hal_cmdlist *list, void *user)
{
    const chain *c = user;
    hal_status status = tell(list, c, &c->between, c->between.host.dtype, (hal_span){0});
    return status == HAL_OK
               ? hal_quantize(list, HAL_QUANTIZE(.rows = c->rows, .columns = c->columns, .dtype = c->between.host.dtype,
                                                 .x = operand_span(&c->between), .ldx = c->between.host.ld,
                                                 .codes = operand_span(&c->codes2), .ld_codes = c->codes2.host.ld,
                                                 .scales = operand_span(&c->scales2), .mode = c->mode))
               : status;
}

static double silu(double x, double alpha)
{
    return (x == -INFINITY ? 0.0 : x) / (1 + exp(-alpha * x));
}

/* In double, and how far FP32 with a rounding to `between`, of SwiGLU two of them, may be from it. */
static double expect(const chain *c, uint64_t row, uint64_t column, double *error)
{
    const double a = matrix_get(&c->a.host, 0, row, column), alpha = (double)c->alpha;
    const hal_dtype between = c->between.host.dtype;
    double y = a, b = 1;
    *error = 0;
    if (c->op == HAL_ACT_RELU) {
        y = a < 0 ? 0 : a;
    } else if (c->op == HAL_ACT_SILU) {
        y = silu(a, alpha);
    } else if (c->op == HAL_ACT_SIGMOID) {
        y = 1 / (1 + exp(-a));
    } else if (c->op >= BINARY) {
        b = matrix_get(&c->b.host, 0, row % c->b.host.rows, c->b.host.columns == 1 ? 0 : column);
        y = c->op == BINARY + HAL_ADD ? a + b : c->op == BINARY + HAL_MULTIPLY ? a * b : silu(a, alpha) * b;
        if (c->op == BINARY + HAL_SWIGLU) {
            *error = fabs(b) * half_ulp(between, silu(a, alpha));
        }
    }
    *error = 2 * (*error + fabs(y) * 0x1p-24 * 16 + half_ulp(between, y) + 0x1p-126);
    return y;
}

/* The scale is the row's largest magnitude / 448, and a code the nearest of its number. */
static void check_row(const chain *c, uint64_t row)
{
    double most = 0, most_error = 0, error;
    for (uint64_t i = 0; i < c->columns; i++) {
        most = fmax(most, fabs(expect(c, row, i, &error)));
        most_error = fmax(most_error, error);
    }
    const double scale = matrix_get(&c->scales.host, 0, 0, row);
    if (fabs(scale * LARGEST - most) > most_error + most * 0x1p-22 && !(most == 0 && scale == 1)) {
        fail_msg("op %d, row %llu: scale * 448 is %g, want %g", c->op, (unsigned long long)row, scale * LARGEST, most);
    }
    for (uint64_t i = 0; i < c->columns; i++) {
        const double want = expect(c, row, i, &error), got = matrix_get(&c->codes.host, 0, row, i) * scale;
        const double step =
            fmax(fabs(want) * 0x1p-4, scale * 0x1p-10); /* half of one; subnormal codes are 2^-9 apart */
        if (!(fabs(got - want) <= error + step * (1 + 0x1p-6) + most_error * fabs(want) / fmax(most, 1e-30))) {
            fail_msg("op %d, [%llu][%llu]: %g, want %g +- %g", c->op, (unsigned long long)row, (unsigned long long)i,
                     got, want, error + step);
        }
    }
}

/* A chain's outputs: what is fused has gaps of its own. */
static void create_outputs(chain *c, fixture *f, hal_dtype between, uint64_t *seed)
{
    operand_create(&c->codes, f, "codes", HAL_F8E4M3, c->rows, c->columns, FILL_POISON, seed);
    operand_create(&c->scales, f, "scales", HAL_F32, 1, c->rows, FILL_POISON, seed);
    operand_create(&c->between, f, "between", between, c->rows, c->columns, FILL_POISON, seed);
    operand_create(&c->codes2, f, "codes in turn", HAL_F8E4M3, c->rows, c->columns, FILL_POISON, seed);
    operand_create(&c->scales2, f, "scales in turn", HAL_F32, 1, c->rows, FILL_POISON, seed);
}

static void free_chain(chain *c)
{
    operand *const all[] = {&c->a, &c->b, &c->codes, &c->scales, &c->between, &c->codes2, &c->scales2};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        operand_free(all[i]);
    }
}

static uint8_t code_at(const operand *x, uint64_t row, uint64_t column)
{
    return x->host.data[x->host.offset + row * x->host.ld + column];
}

static void check_same(const chain *c)
{
    for (uint64_t row = 0; row < c->rows; row++) {
        const double scale = matrix_get(&c->scales.host, 0, 0, row), scale2 = matrix_get(&c->scales2.host, 0, 0, row);
        if (!(scale == scale2)) { /* NaN is none of them */
            fail_msg("op %d, mode %d: the scale of row %llu is %g, in turn %g", c->op, (int)c->mode,
                     (unsigned long long)row, scale, scale2);
        }
        for (uint64_t i = 0; i < c->columns; i++) {
            if (code_at(&c->codes, row, i) != code_at(&c->codes2, row, i)) {
                fail_msg("op %d, mode %d: code [%llu][%llu] is %#x, in turn %#x", c->op, (int)c->mode,
                         (unsigned long long)row, (unsigned long long)i, code_at(&c->codes, row, i),
                         code_at(&c->codes2, row, i));
            }
        }
    }
}

static void run(fixture *f, chain *c)
{
    operand *const fused[] = {&c->codes, &c->scales}, *const in_turn[] = {&c->between, &c->codes2, &c->scales2};
    operands_run(f, tell_fused, c, fused, 2);
    operands_run(f, tell_in_turn, c, in_turn, 3);
    check_same(c);
    operand_check_gaps(&c->codes);
    operand_check_gaps(&c->scales);
}

static const int ops[] = {HAL_ACT_NONE,        HAL_ACT_RELU,     HAL_ACT_SILU,         HAL_ACT_SIGMOID,
                          BINARY + HAL_SWIGLU, BINARY + HAL_ADD, BINARY + HAL_MULTIPLY};
enum { OPS = sizeof ops / sizeof ops[0] };

/* Sizes around eights, groups and runs; rows that a group cannot keep. */
static void test_random(void **state)
{
    static const uint64_t longer[] = {300, 1000, 4099, 12288, 20000, 33000};
    fixture *f = *state;
    uint64_t seed = 21;
    for (uint32_t round = 0; round < 42; round++) {
        const bool is_long = round % 7 == 6;
        chain c = {.op = ops[round * 3 % OPS],
                   .alpha = round & 4 ? 1.702f : 1.0f,
                   .rows = is_long ? 2 : test_sizes[random_below(&seed, test_size_count)],
                   .columns = is_long ? longer[round / 7 % 6] : test_sizes[round % test_size_count],
                   .mode = (hal_mode)(round / 2 % 3)};
        const uint64_t b_rows = round % 4 ? c.rows : 1 + random_below(&seed, (uint32_t)c.rows);
        operand_create(&c.a, f, "a", (hal_dtype)(HAL_F32 + round % 3), c.rows, c.columns, FILL_RANDOM, &seed);
        operand_create(&c.b, f, "b", (hal_dtype)(HAL_F32 + round / 3 % 3), b_rows, round % 8 == 5 ? 1 : c.columns,
                       FILL_RANDOM, &seed);
        create_outputs(&c, f, (hal_dtype)(HAL_F32 + round / 5 % 3), &seed);
        run(f, &c);
        for (uint64_t row = 0; row < c.rows; row++) {
            check_row(&c, row);
        }
        free_chain(&c);
    }
}

/* The rest of the activations, and of the numbers: NaN, infinities, rows of zeros, subnormal numbers. */
static void test_special_values(void **state)
{
    fixture *f = *state;
    uint64_t seed = 22;
    for (uint32_t which = 0; which < 9; which++) {
        chain c = {.op = which <= HAL_ACT_SIGMOID ? (int)which : BINARY + (int)which - HAL_ACT_SIGMOID - 1,
                   .alpha = 1.0f,
                   .rows = test_special_count + 2,
                   .columns = 40,
                   .mode = which % 2 ? HAL_MODE_STRICT : HAL_MODE_FAST};
        operand_create(&c.a, f, "a", HAL_F32, c.rows, c.columns, FILL_RANDOM, &seed);
        operand_create(&c.b, f, "b", HAL_F32, c.rows, c.columns, FILL_RANDOM, &seed);
        for (uint64_t row = 0; row < c.rows; row++) {
            for (uint64_t i = 0; i < c.columns; i++) {
                const float a = matrix_get(&c.a.host, 0, row, i) > 0 ? 1.0f : -1.0f;
                if (row < test_special_count && i % 13 == row % 13) {
                    matrix_set(&c.a.host, 0, row, i, test_specials[row]);
                    matrix_set(&c.b.host, 0, row, i, test_specials[i % test_special_count]);
                } else if (row >= test_special_count) {
                    matrix_set(&c.a.host, 0, row, i, row == test_special_count ? 0.0f : a * 1e-39f);
                }
            }
        }
        operand_upload(&c.a, f);
        operand_upload(&c.b, f);
        create_outputs(&c, f, (hal_dtype)(HAL_F32 + which % 3), &seed);
        run(f, &c);
        free_chain(&c);
    }
}

/* What is wrong is refused; what is not asked for is left alone. */
static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 23;
    operand x, y, s;
    operand_create_at(&x, f, "x", HAL_F32, 4, 32, 0, 32, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F8E4M3, 4, 32, 0, 32, FILL_POISON, &seed);
    operand_create_at(&s, f, "s", HAL_F32, 1, 4, 0, 4, FILL_POISON, &seed);
    const hal_span sx = operand_span(&x), sy = operand_span(&y), ss = operand_span(&s);
    OK(hal_activation(f->list,
                      HAL_ACTIVATION(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .x = sx, .y = sy, .scales = ss)));
    OK(hal_binary(f->list, HAL_BINARY(.rows = 0, .columns = 32, .dtype_y = HAL_F8E4M3, .a = sx, .b = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .x = sx, .y = sy,
                                                   .scales = ss, .round_between = HAL_F8E4M3)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE,
            hal_binary(f->list, HAL_BINARY(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .a = sx, .b = sx, .y = sy,
                                           .scales = hal_range(s.buffer, 0, 12))));
    REFUSED(HAL_ERROR_OVERLAP, hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3,
                                                                      .x = sx, .y = sx, .scales = ss)));
    REFUSED(HAL_ERROR_OVERLAP,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .x = sx, .y = sy,
                                                   .scales = hal_at(x.buffer, 16))));
    REFUSED(HAL_ERROR_OVERLAP, hal_binary(f->list, HAL_BINARY(.rows = 4, .columns = 32, .dtype_y = HAL_F8E4M3, .a = sx,
                                                              .b = sx, .y = sy, .scales = hal_at(y.buffer, 16))));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_free(&x);
    operand_free(&y);
    operand_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_special_values),
                                       cmocka_unit_test(test_rules)};
    return ROWS_MAIN("activation_row", tests);
}
