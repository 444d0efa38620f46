/* test_activation.c - hal_activation and hal_binary on the device that HAL_BACKEND names. */
#include "kernel_math.h"
#include "rows.h"

#include <math.h>
#include <string.h>

typedef struct unary_case {
    operand x, y;
    hal_act act;
    float alpha;
    hal_mode mode;
} unary_case;

static double act_reference(hal_act act, double x, double alpha)
{
    if (isnan(x)) {
        return x;
    }
    const double weight = x == -INFINITY ? 0.0 : x; /* the limit of those that vanish there */
    switch (act) {
    case HAL_ACT_RELU:
        return x < 0 ? 0 : x;
    case HAL_ACT_GELU_ERF:
        return 0.5 * weight * erfc(-x * M_SQRT1_2);
    case HAL_ACT_GELU_TANH: /* x sigmoid(2u): no difference of nearly equal numbers on the left */
        return weight / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case HAL_ACT_SILU:
        return weight / (1 + exp(-alpha * x));
    case HAL_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

static double expect_unary(void *user, uint64_t row, uint64_t column, double *error)
{
    const unary_case *c = user;
    double x = matrix_get(&c->x.host, 0, row, column), y = act_reference(c->act, x, (double)c->alpha);
    /* A few units in the last place; the arguments of exp are rounded, which counts for more far out. */
    *error = c->act <= HAL_ACT_RELU ? 0 : fabs(y) * 0x1p-24 * (4 + 4 * fmin(x * x, 200)) + 0x1p-126;
    return y;
}

static hal_status tell_unary(hal_cmdlist *list, void *user)
{
    const unary_case *c = user;
    return hal_activation(list, HAL_ACTIVATION(.rows = c->x.host.rows, .columns = c->x.host.columns, .act = c->act,
                                               .dtype = c->x.host.dtype, .dtype_y = c->y.host.dtype,
                                               .x = operand_span(&c->x), .y = operand_span(&c->y), .ldx = c->x.host.ld,
                                               .ldy = c->y.host.ld, .alpha = c->alpha, .mode = c->mode));
}

static void run_unary(fixture *f, unary_case *c)
{
    operand *const outputs[] = {&c->y};
    operands_run(f, tell_unary, c, outputs, 1);
    operand_check(&c->y, expect_unary, c, false);
}

static void test_random(void **state)
{
    fixture *f = *state;
    uint64_t seed = 3;
    for (uint32_t round = 0; round < 60; round++) {
        const uint64_t rows = test_sizes[random_below(&seed, test_size_count)];
        const uint64_t columns = round % 10 == 9 ? 5000 : test_sizes[round % test_size_count];
        unary_case c = {.act = (hal_act)(round % 6), .alpha = round & 8 ? 1.702f : 1.0f, .mode = (hal_mode)(round % 3)};
        operand_create(&c.x, f, "x", (hal_dtype)(HAL_F32 + round % 3), rows, columns, FILL_RANDOM, &seed);
        operand_create(&c.y, f, "y", (hal_dtype)(HAL_F32 + round / 3 % 3), rows, columns, FILL_POISON, &seed);
        run_unary(f, &c);
        operand_free(&c.x);
        operand_free(&c.y);
    }
}

static void test_special_values(void **state)
{
    fixture *f = *state;
    uint64_t seed = 4;
    for (hal_act act = HAL_ACT_NONE; act <= HAL_ACT_SIGMOID; act++) {
        for (hal_mode mode = HAL_MODE_FAST; mode <= HAL_MODE_STRICT; mode++) {
            unary_case c = {.act = act, .alpha = 1.0f, .mode = mode};
            operand_create_at(&c.x, f, "x", HAL_F32, 2, test_special_count, 1, test_special_count, FILL_RANDOM, &seed);
            operand_create(&c.y, f, "y", HAL_F32, 2, test_special_count, FILL_POISON, &seed);
            for (uint64_t i = 0; i < test_special_count; i++) {
                matrix_set(&c.x.host, 0, 0, i, test_specials[i]);
                matrix_set(&c.x.host, 0, 1, i, (float)i - 12.0f);
            }
            operand_upload(&c.x, f);
            run_unary(f, &c);
            operand_free(&c.x);
            operand_free(&c.y);
        }
    }
}

typedef struct binary_case {
    operand a, b, y;
    hal_binary_op op;
    float alpha;
    hal_dtype between;
    uint64_t rows, columns;
    hal_mode mode;
} binary_case;

static double expect_binary(void *user, uint64_t row, uint64_t column, double *error)
{
    const binary_case *c = user;
    const uint64_t b_column = c->b.host.columns == 1 ? 0 : column;
    double a = matrix_get(&c->a.host, 0, row, column), b = matrix_get(&c->b.host, 0, row % c->b.host.rows, b_column);
    *error = 0;
    if (c->op == HAL_ADD) {
        return (double)(float)(a + b); /* the exact sum, rounded to FP32 first */
    }
    if (c->op == HAL_MULTIPLY) {
        return (double)(float)(a * b);
    }
    double g = act_reference(HAL_ACT_SILU, a, (double)c->alpha);
    *error = fabs(g * b) * 0x1p-24 * 10;
    if (c->between != HAL_F32) {
        *error += fabs(b) * half_ulp(c->between, g);
    }
    return g * b;
}

static hal_status tell_binary(hal_cmdlist *list, void *user)
{
    const binary_case *c = user;
    return hal_binary(list, HAL_BINARY(.rows = c->rows, .columns = c->columns, .op = c->op, .dtype = c->a.host.dtype,
                                       .dtype_b = c->b.host.dtype, .dtype_y = c->y.host.dtype, .a = operand_span(&c->a),
                                       .b = operand_span(&c->b), .y = operand_span(&c->y), .lda = c->a.host.ld,
                                       .ldb = c->b.host.ld, .ldy = c->y.host.ld, .b_rows = c->b.host.rows,
                                       .b_columns = c->b.host.columns, .alpha = c->alpha, .round_between = c->between,
                                       .mode = c->mode));
}

static void test_binary(void **state)
{
    fixture *f = *state;
    uint64_t seed = 5;
    for (uint32_t round = 0; round < 60; round++) {
        const uint64_t rows = test_sizes[random_below(&seed, test_size_count)];
        const uint64_t columns = test_sizes[round % test_size_count];
        const uint64_t b_rows = round % 4 == 0 ? 1 : round % 4 == 1 ? 1 + random_below(&seed, (uint32_t)rows) : rows;
        binary_case c = {.op = (hal_binary_op)(round % 3),
                         .alpha = 1.0f,
                         .between = (hal_dtype)(HAL_F32 + round / 9 % 3),
                         .rows = rows,
                         .columns = columns,
                         .mode = (hal_mode)(round / 2 % 3)};
        operand_create(&c.a, f, "a", (hal_dtype)(HAL_F32 + round / 3 % 3), rows, columns, FILL_RANDOM, &seed);
        operand_create(&c.b, f, "b", (hal_dtype)(HAL_F32 + round / 5 % 3), b_rows, round % 7 ? columns : 1, FILL_RANDOM,
                       &seed);
        operand_create(&c.y, f, "y", (hal_dtype)(HAL_F32 + round / 7 % 3), rows, columns, FILL_POISON, &seed);
        operand *const outputs[] = {&c.y};
        operands_run(f, tell_binary, &c, outputs, 1);
        operand_check(&c.y, expect_binary, &c, c.op != HAL_SWIGLU);
        operand_free(&c.a);
        operand_free(&c.b);
        operand_free(&c.y);
    }
}

/* Strict mode: every backend gives the bits of the host's own copy of the functions, so all give the same. A million
 * bit patterns of all kinds, and those around the ends of the formats. */
static void test_strict(void **state)
{
    fixture *f = *state;
    uint64_t seed = 8;
    const uint64_t rows = 1024, columns = 1024;
    operand x, y;
    operand_create_at(&x, f, "x", HAL_F32, rows, columns, 0, columns, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F32, rows, columns, 0, columns, FILL_POISON, &seed);
    float *in = (float *)(void *)x.host.data;
    const float *out;
    for (uint32_t i = 0; i < rows * columns; i++) {
        uint32_t bits = random_below(&seed, 1u << 16) << 16 | random_below(&seed, 1u << 16);
        float spread = ((float)(bits >> 8) / (float)(1 << 23) - 1.0f) * 100.0f;
        in[i] = i % 2 ? spread : hm_float_of(bits);
        if (i < 4096) { /* around zero, the subnormal numbers, infinity */
            in[i] = hm_float_of((i & 1) << 31 | ((i & 2 ? 0x7f800000u : 0x00800000u) + (i >> 2) - 512));
        }
        in[i] = i < test_special_count ? test_specials[i] : in[i];
    }
    operand_upload(&x, f);
    for (hal_act act = HAL_ACT_NONE; act <= HAL_ACT_SIGMOID; act++) {
        OK(hal_activation(f->list, HAL_ACTIVATION(.rows = rows, .columns = columns, .act = act, .x = operand_span(&x),
                                                  .y = operand_span(&y), .mode = HAL_MODE_STRICT)));
        OK(hal_cmd_download(f->list, y.host.data, hal_whole(y.buffer)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        out = (const float *)(const void *)y.host.data;
        for (uint32_t i = 0; i < rows * columns; i++) {
            float want = hm_activate(act, hm_flush(in[i]));
            if (hm_bits_of(out[i]) != hm_bits_of(want) && !(isnan(out[i]) && isnan(want))) {
                fail_msg("act %d of %a is %a; the host has %a", (int)act, (double)in[i], (double)out[i], (double)want);
            }
        }
    }
    operand_free(&x);
    operand_free(&y);
}

/* A device that allows small groups only: the kernel must not count on its usual ones. */
static void test_small_groups(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "group_size=64");
    uint64_t seed = 9;
    for (uint32_t round = 0; round < 6; round++) {
        unary_case c = {.act = (hal_act)round, .alpha = 1.0f};
        operand_create(&c.x, &f, "x", HAL_F32, 5, 3001, FILL_RANDOM, &seed);
        operand_create(&c.y, &f, "y", HAL_F32, 5, 3001, FILL_POISON, &seed);
        run_unary(&f, &c);
        operand_free(&c.x);
        operand_free(&c.y);
    }
    fixture_close(&f);
}

/* y may be exactly an input; nothing is done for no rows; what is wrong is refused. */
static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 6;
    operand x, y;
    operand_create_at(&x, f, "x", HAL_F32, 4, 10, 0, 12, FILL_RANDOM, &seed);
    operand_create_at(&y, f, "y", HAL_F32, 4, 10, 0, 12, FILL_POISON, &seed);
    const hal_span sx = operand_span(&x), sy = operand_span(&y);
    OK(hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 10, .x = sx, .y = sx, .ldx = 12, .ldy = 12)));
    OK(hal_activation(f->list, HAL_ACTIVATION(.rows = 0, .columns = 10, .x = sx, .y = sy)));
    OK(hal_binary(f->list, HAL_BINARY(.rows = 4, .columns = 0, .a = sx, .b = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_activation(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_activation(f->list, HAL_ACTIVATION(.rows = 1, .columns = 1, .x = sx)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 10, .x = sx, .y = sy, .ldx = 9)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 10, .x = sx, .y = sy, .act = (hal_act)9)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 10, .x = sx, .y = sy, .dtype = HAL_F8E4M3)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 400, .columns = 10, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_LIMIT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = UINT64_C(1) << 31, .columns = 1, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_OVERLAP, hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 10, .x = sx,
                                                                      .y = hal_at(x.buffer, 4), .ldx = 12, .ldy = 12)));
    REFUSED(HAL_ERROR_OVERLAP, hal_binary(f->list, HAL_BINARY(.rows = 4, .columns = 10, .a = sy, .b = sx, .y = sx,
                                                              .b_rows = 1, .lda = 12, .ldy = 12)));
    REFUSED(HAL_ERROR_ALIGNMENT,
            hal_activation(f->list, HAL_ACTIVATION(.rows = 4, .columns = 8, .x = hal_at(x.buffer, 2), .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_binary(f->list, HAL_BINARY(.rows = 4, .columns = 10, .a = sx, .b = sx, .y = sy, .b_columns = 3)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_free(&x);
    operand_free(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),       cmocka_unit_test(test_special_values),
                                       cmocka_unit_test(test_binary),       cmocka_unit_test(test_strict),
                                       cmocka_unit_test(test_small_groups), cmocka_unit_test(test_rules)};
    return ROWS_MAIN("activation", tests);
}
