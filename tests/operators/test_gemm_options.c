/* test_gemm_options.c - hal_gemm's options on the device that HAL_BACKEND names: strict and batch-invariant mode,
 * SwiGLU, E4M3 with scales, D transposed, and chains whose bits are those of separate operators.
 *
 * The host's copy of the computation makes the same steps with kernel_math.h. It holds bit for bit in strict mode for
 * any numbers, and in every mode for small whole numbers, whose sums are exact. */
#include "kernel_math.h"
#include "rows.h"

#include "gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { A, B, UP, C, D, BIAS, RESIDUAL, SCALE_A, SCALE_B, SCALE_D, OPERANDS };

/* Matrices hold the problems of the batch one below the other, scales one after the other. */
typedef struct options_case {
    uint64_t m, n, k, batch;
    bool trans_a, trans_b, trans_d, interleaved, one_scale_a, one_scale_b;
    bool has[OPERANDS];
    hal_dtype dtype, dtype_c, dtype_d, between;
    hal_act act;
    hal_mode mode;
    float alpha, beta, swiglu_alpha;
    operand x[OPERANDS];
    float *values[OPERANDS]; /* without gaps */
} options_case;

static bool is_swiglu(const options_case *c)
{
    return c->has[UP] || c->interleaved;
}

static void shape(const options_case *c, int i, uint64_t *rows, uint64_t *columns)
{
    const uint64_t wide = c->interleaved ? 2 * c->n : c->n;
    const uint64_t scales_b = c->one_scale_b ? (c->has[UP] ? 2 : 1) : is_swiglu(c) ? 2 * c->n : c->n;
    const uint64_t shapes[OPERANDS][2] = {[A] = {c->trans_a ? c->k : c->m, c->trans_a ? c->m : c->k},
                                          [B] = {c->trans_b ? wide : c->k, c->trans_b ? c->k : wide},
                                          [UP] = {c->trans_b ? c->n : c->k, c->trans_b ? c->k : c->n},
                                          [C] = {c->m, c->n},
                                          [D] = {c->trans_d ? c->n : c->m, c->trans_d ? c->m : c->n},
                                          [BIAS] = {1, c->n},
                                          [RESIDUAL] = {c->m, c->n},
                                          [SCALE_A] = {1, c->one_scale_a ? 1 : c->m},
                                          [SCALE_B] = {1, scales_b},
                                          [SCALE_D] = {1, c->m}};
    *rows = shapes[i][0];
    *columns = shapes[i][1];
}

static bool is_scale(int i)
{
    return i >= SCALE_A;
}

static void create(options_case *c, fixture *f, matrix_fill fill, uint64_t *seed)
{
    static const char *const names[OPERANDS] = {"a",    "b",        "b_up",    "c",       "d",
                                                "bias", "residual", "scale_a", "scale_b", "scale_d"};
    for (int i = 0; i < OPERANDS; i++) {
        const hal_dtype dtype = i <= UP                    ? c->dtype
                                : i == D                   ? c->dtype_d
                                : i == BIAS || is_scale(i) ? HAL_F32
                                                           : c->dtype_c;
        uint64_t rows, columns;
        shape(c, i, &rows, &columns);
        rows *= i == BIAS || is_scale(i) ? 1 : c->batch;
        columns *= is_scale(i) ? c->batch : 1;
        if (i == UP && c->has[UP]) {
            operand_create_at(&c->x[i], f, names[i], dtype, rows, columns, 3, c->x[B].host.ld, fill, seed);
        } else {
            operand_create(&c->x[i], f, names[i], dtype, rows, columns,
                           i == D        ? FILL_POISON
                           : is_scale(i) ? FILL_RANDOM
                                         : fill,
                           seed);
        }
        matrix *x = &c->x[i].host;
        for (uint64_t j = 0; is_scale(i) && j < columns; j++) {
            matrix_set(x, 0, 0, j, (float)fabs(matrix_get(x, 0, 0, j)) + 0.01f);
        }
        operand_upload(&c->x[i], f);
    }
}

static void destroy(options_case *c)
{
    for (int i = 0; i < OPERANDS; i++) {
        operand_free(&c->x[i]);
        free(c->values[i]);
        c->values[i] = NULL;
    }
}

static hal_span span_of(const options_case *c, int i)
{
    const hal_span none = {0};
    return c->has[i] ? operand_span(&c->x[i]) : none;
}

static uint64_t stride_of(const options_case *c, int i)
{
    uint64_t rows, columns;
    shape(c, i, &rows, &columns);
    return is_scale(i) ? columns : rows * c->x[i].host.ld;
}

static hal_gemm_desc describe(const options_case *c)
{
    hal_gemm_desc desc = {.struct_size = sizeof desc,
                          .m = c->m,
                          .n = c->n,
                          .k = c->k,
                          .batch = c->batch,
                          .dtype = c->dtype,
                          .dtype_c = c->dtype_c,
                          .dtype_d = c->dtype_d,
                          .dtype_residual = c->dtype_c,
                          .trans_a = c->trans_a,
                          .trans_b = c->trans_b,
                          .a = span_of(c, A),
                          .b = span_of(c, B),
                          .c = span_of(c, C),
                          .d = span_of(c, D),
                          .bias = span_of(c, BIAS),
                          .residual = span_of(c, RESIDUAL),
                          .lda = c->x[A].host.ld,
                          .ldb = c->x[B].host.ld,
                          .ldc = c->x[C].host.ld,
                          .ldd = c->x[D].host.ld,
                          .ldr = c->x[RESIDUAL].host.ld,
                          .stride_a = stride_of(c, A),
                          .stride_b = stride_of(c, B),
                          .stride_c = stride_of(c, C),
                          .stride_d = stride_of(c, D),
                          .stride_r = stride_of(c, RESIDUAL),
                          .alpha = c->alpha,
                          .beta = c->beta,
                          .act = c->act,
                          .mode = c->mode,
                          .round_between = c->between,
                          .b_up = span_of(c, UP),
                          .interleaved = c->interleaved,
                          .swiglu_alpha = c->swiglu_alpha,
                          .scale_a = span_of(c, SCALE_A),
                          .scale_b = span_of(c, SCALE_B),
                          .scale_d = span_of(c, SCALE_D),
                          .one_scale_a = c->one_scale_a,
                          .one_scale_b = c->one_scale_b,
                          .stride_scale_a = stride_of(c, SCALE_A),
                          .stride_scale_b = stride_of(c, SCALE_B),
                          .stride_scale_d = stride_of(c, SCALE_D),
                          .trans_d = c->trans_d};
    return desc;
}

static hal_status tell(hal_cmdlist *list, void *user)
{
    const hal_gemm_desc desc = describe(user);
    return hal_gemm(list, &desc);
}

static void print_case(const options_case *c)
{
    print_error(
        "m %d n %d k %d batch %d trans %d%d%d %s -> %s, between %s, act %d, mode %d, swiglu %d%s, has c %d bias %d "
        "residual %d scales %d%d%d one %d%d\n",
        (int)c->m, (int)c->n, (int)c->k, (int)c->batch, c->trans_a, c->trans_b, c->trans_d, hal_dtype_name(c->dtype),
        hal_dtype_name(c->dtype_d), hal_dtype_name(c->between), (int)c->act, (int)c->mode, is_swiglu(c),
        c->interleaved ? " interleaved" : "", c->has[C], c->has[BIAS], c->has[RESIDUAL], c->has[SCALE_A],
        c->has[SCALE_B], c->has[SCALE_D], c->one_scale_a, c->one_scale_b);
}

/* The host's copy. */

static void read_values(options_case *c)
{
    for (int i = 0; i < OPERANDS; i++) {
        const matrix *x = &c->x[i].host;
        free(c->values[i]);
        c->values[i] = malloc(x->rows * x->columns * sizeof(float));
        assert_non_null(c->values[i]);
        for (uint64_t row = 0; i != D && row < x->rows; row++) {
            for (uint64_t column = 0; column < x->columns; column++) {
                c->values[i][row * x->columns + column] = hm_flush((float)matrix_get(x, 0, row, column));
            }
        }
    }
}

/* Element [row][column] of a problem's matrix. */
static float value(const options_case *c, int i, uint64_t problem, uint64_t row, uint64_t column)
{
    uint64_t rows, columns;
    shape(c, i, &rows, &columns);
    return c->values[i][(i == BIAS ? 0 : problem * rows + row) * columns + column];
}

static float between(const options_case *c, float x)
{
    uint8_t bytes[4];
    float back;
    hal_numeric_encode(c->between, &x, 1, bytes);
    hal_numeric_decode(c->between, bytes, 1, &back);
    return hm_flush(back);
}

/* alpha A B of a column of B or, part 1, of what stands for b_up. */
static float product(const options_case *c, uint64_t problem, uint64_t row, uint64_t column, uint64_t part)
{
    const int which = part && c->has[UP] ? UP : B;
    const uint64_t b_column = c->interleaved ? 2 * column + part : column;
    float sum = 0;
    for (uint64_t k = 0; k < c->k; k++) {
        const float x = c->trans_a ? value(c, A, problem, k, row) : value(c, A, problem, row, k);
        const float y = c->trans_b ? value(c, which, problem, b_column, k) : value(c, which, problem, k, b_column);
        sum = hm_add_product(sum, x, y);
    }
    if (c->has[SCALE_A]) {
        sum = hm_mul(sum, value(c, SCALE_A, problem, 0, c->one_scale_a ? 0 : row));
    }
    if (c->has[SCALE_B]) {
        const uint64_t one = c->has[UP] ? part : 0, each = c->interleaved ? b_column : part * c->n + column;
        sum = hm_mul(sum, value(c, SCALE_B, problem, 0, c->one_scale_b ? one : each));
    }
    return hm_mul(c->alpha, sum);
}

static float host_element(const options_case *c, uint64_t problem, uint64_t row, uint64_t column)
{
    float v = product(c, problem, row, column, 0);
    if (is_swiglu(c)) {
        const float gate = between(c, v), up = between(c, product(c, problem, row, column, 1));
        v = hm_mul(between(c, hm_times_sigmoid(gate, c->swiglu_alpha * gate)), up);
    }
    if (c->has[C]) {
        v = hm_flush(v + hm_mul(c->beta, value(c, C, problem, row, column)));
    }
    if (c->has[BIAS]) {
        v = hm_flush(v + value(c, BIAS, problem, 0, column));
    }
    if (c->act) {
        v = hm_activate(c->act, between(c, v));
    }
    if (c->has[RESIDUAL]) {
        v = hm_flush(between(c, v) + value(c, RESIDUAL, problem, row, column));
    }
    return v;
}

static void store(const options_case *c, uint64_t problem, uint64_t row, float v, uint8_t bytes[4])
{
    if (c->dtype_d == HAL_F8E4M3) {
        v = between(c, v);
        bytes[0] =
            (uint8_t)(c->has[SCALE_D] ? hm_quantize(v, value(c, SCALE_D, problem, 0, row)) : hm_e4m3_from_f32(v, 0x7e));
        return;
    }
    hal_numeric_encode(c->dtype_d, &v, 1, bytes);
}

static void check_bits(options_case *c)
{
    const matrix *d = &c->x[D].host;
    const uint64_t size = hal_dtype_size(d->dtype);
    read_values(c);
    for (uint64_t i = 0; i < c->batch * c->m * c->n; i++) {
        const uint64_t problem = i / (c->m * c->n), row = i / c->n % c->m, column = i % c->n;
        const uint64_t at =
            c->trans_d ? (problem * c->n + column) * d->ld + row : (problem * c->m + row) * d->ld + column;
        const uint8_t *got = d->data + (d->offset + at) * size;
        uint8_t want[4];
        float had, expected;
        store(c, problem, row, host_element(c, problem, row, column), want);
        hal_numeric_decode(d->dtype, got, 1, &had);
        hal_numeric_decode(d->dtype, want, 1, &expected);
        if (memcmp(got, want, size) != 0 && !(isnan(had) && isnan(expected))) {
            print_case(c);
            fail_msg("problem %d [%d][%d] is %a; the host has %a", (int)problem, (int)row, (int)column, (double)had,
                     (double)expected);
        }
    }
    operand_check_gaps(&c->x[D]);
}

static void run_and_check(options_case *c, fixture *f)
{
    operand *const outputs[] = {&c->x[D]};
    operands_run(f, tell, c, outputs, 1);
    check_bits(c);
}

static bool coin(uint64_t *seed)
{
    return random_below(seed, 2);
}

static hal_dtype wide_dtype(uint64_t *seed)
{
    return (hal_dtype)(HAL_F32 + random_below(seed, 3));
}

/* Any options that go together. */
static options_case draw(uint64_t *seed)
{
    options_case c = {.m = test_sizes[random_below(seed, 12)],
                      .n = test_sizes[random_below(seed, 12)],
                      .k = random_below(seed, 70),
                      .batch = 1 + random_below(seed, 2),
                      .trans_a = coin(seed),
                      .trans_b = coin(seed),
                      .trans_d = random_below(seed, 3) == 0,
                      .one_scale_a = coin(seed),
                      .one_scale_b = coin(seed),
                      .dtype = (hal_dtype)(HAL_F32 + random_below(seed, 4)),
                      .dtype_c = wide_dtype(seed),
                      .dtype_d = (hal_dtype)(HAL_F32 + random_below(seed, 4)),
                      .between = wide_dtype(seed),
                      .alpha = coin(seed) ? 1.0f : -0.75f,
                      .beta = 1.25f,
                      .swiglu_alpha = coin(seed) ? 1.0f : 1.702f};
    const uint32_t swiglu = random_below(seed, 4);
    c.has[A] = c.has[B] = c.has[D] = true;
    c.has[UP] = swiglu == 1;
    c.interleaved = swiglu == 2;
    if (!is_swiglu(&c)) {
        c.has[C] = coin(seed);
        c.has[BIAS] = coin(seed);
        c.act = (hal_act)random_below(seed, 5);
    }
    c.has[RESIDUAL] = coin(seed);
    c.has[SCALE_A] = coin(seed);
    c.has[SCALE_B] = coin(seed);
    c.has[SCALE_D] = c.dtype_d == HAL_F8E4M3 && coin(seed);
    return c;
}

/* Whole numbers: every mode gives the host's bits. */
static void test_exact(void **state)
{
    fixture *f = *state;
    uint64_t seed = 21;
    for (uint32_t round = 0; round < 60; round++) {
        options_case c = draw(&seed);
        c.mode = (hal_mode)(round % 3);
        create(&c, f, FILL_INTEGER, &seed);
        run_and_check(&c, f);
        destroy(&c);
    }
}

/* Strict mode with all options and any numbers. */
static void test_strict_options(void **state)
{
    fixture *f = *state;
    uint64_t seed = 22;
    for (uint32_t round = 0; round < 60; round++) {
        options_case c = draw(&seed);
        c.mode = HAL_MODE_STRICT;
        create(&c, f, FILL_RANDOM, &seed);
        run_and_check(&c, f);
        destroy(&c);
    }
}

/* Numbers of all sizes, such that products and sums are subnormal, just not, or overflow. */
static void spread(operand *x, uint64_t *seed)
{
    for (uint64_t row = 0; row < x->host.rows; row++) {
        for (uint64_t column = 0; column < x->host.columns; column++) {
            const uint32_t draw = random_below(seed, 1000), bits = random_below(seed, 1u << 31) << 1 | (draw & 1);
            const int power = row % 3 == 0 ? -63 : row % 3 == 1 ? 0 : -126 + (int)random_below(seed, 140);
            float v = ldexpf((float)(int32_t)bits * 0x1p-31f, power + (int)random_below(seed, 4));
            v = draw < 8 ? hm_float_of(bits & 0x807fffffu) : v; /* subnormal */
            v = draw == 9 && row % 16 == 5 ? test_specials[random_below(seed, test_special_count)] : v;
            matrix_set(&x->host, 0, row, column, v);
        }
    }
}

/* FP32 in strict mode: every backend gives the bits of the host's copy, so all give the same. */
static void test_strict_f32(void **state)
{
    fixture *f = *state;
    uint64_t seed = 23;
    for (uint32_t round = 0; round < 4; round++) {
        options_case c = {.m = 331,
                          .n = 317,
                          .k = round == 0 ? 1 : 10 + 10 * round,
                          .batch = 1,
                          .trans_b = round & 1,
                          .dtype = HAL_F32,
                          .dtype_c = HAL_F32,
                          .dtype_d = HAL_F32,
                          .between = HAL_F32,
                          .act = (hal_act)(round == 3 ? HAL_ACT_SILU : HAL_ACT_NONE),
                          .mode = HAL_MODE_STRICT,
                          .alpha = round ? 1.0f : 0.625f,
                          .beta = 1.0f,
                          .swiglu_alpha = 1.0f,
                          .has = {[A] = true, [B] = true, [D] = true, [RESIDUAL] = round == 2}};
        create(&c, f, FILL_RANDOM, &seed);
        spread(&c.x[A], &seed);
        spread(&c.x[B], &seed);
        operand_upload(&c.x[A], f);
        operand_upload(&c.x[B], f);
        run_and_check(&c, f);
        destroy(&c);
    }
}

/* Separate operators that store `between`. */
typedef struct chain {
    const options_case *c;
    operand first, second, result;
} chain;

static hal_status tell_swiglu_chain(hal_cmdlist *list, const chain *h, hal_gemm_desc desc)
{
    const options_case *c = h->c;
    const bool alternate = desc.interleaved;
    desc.round_between = HAL_F32;
    desc.interleaved = false;
    desc.b_up = desc.residual = (hal_span){0};
    desc.dtype_d = c->between;
    desc.d = operand_span(&h->first);
    desc.ldd = h->first.host.ld;
    desc.stride_d = c->m * desc.ldd;
    desc.ldb *= alternate ? 2 : 1; /* rows in turn: trans_b */
    hal_status status = hal_gemm(list, &desc);
    desc.b = alternate ? hal_at(c->x[B].buffer, (c->x[B].host.offset + c->x[B].host.ld) * hal_dtype_size(c->dtype))
                       : operand_span(&c->x[UP]);
    desc.d = operand_span(&h->second);
    desc.ldd = h->second.host.ld;
    desc.stride_d = c->m * desc.ldd;
    status = status == HAL_OK ? hal_gemm(list, &desc) : status;
    const bool last = !c->has[RESIDUAL];
    const operand *y = last ? &h->result : &h->first;
    return status != HAL_OK
               ? status
               : hal_binary(list,
                            HAL_BINARY(.rows = c->batch * c->m, .columns = c->n, .op = HAL_SWIGLU, .dtype = c->between,
                                       .dtype_y = last ? c->dtype_d : c->between, .a = operand_span(&h->first),
                                       .lda = h->first.host.ld, .b = operand_span(&h->second), .ldb = h->second.host.ld,
                                       .y = operand_span(y), .ldy = y->host.ld, .alpha = c->swiglu_alpha,
                                       .round_between = c->between, .mode = c->mode));
}

static hal_status tell_act_chain(hal_cmdlist *list, const chain *h, hal_gemm_desc desc)
{
    const options_case *c = h->c;
    const bool add = c->has[RESIDUAL];
    const operand *y = c->act || add ? &h->first : &h->result;
    desc.round_between = HAL_F32;
    desc.residual = (hal_span){0};
    desc.act = HAL_ACT_NONE;
    desc.dtype_d = y->host.dtype;
    desc.d = operand_span(y);
    desc.ldd = y->host.ld;
    desc.stride_d = c->m * desc.ldd;
    hal_status status = hal_gemm(list, &desc);
    y = add ? &h->first : &h->result;
    return status != HAL_OK || !c->act
               ? status
               : hal_activation(list, HAL_ACTIVATION(.rows = c->batch * c->m, .columns = c->n, .act = c->act,
                                                     .dtype = c->between, .dtype_y = y->host.dtype,
                                                     .x = operand_span(&h->first), .ldx = h->first.host.ld,
                                                     .y = operand_span(y), .ldy = y->host.ld, .mode = c->mode));
}

static hal_status tell_chain(hal_cmdlist *list, void *user)
{
    const chain *h = user;
    const options_case *c = h->c;
    const hal_gemm_desc desc = describe(c);
    hal_status status = is_swiglu(c) ? tell_swiglu_chain(list, h, desc) : tell_act_chain(list, h, desc);
    return status != HAL_OK || !c->has[RESIDUAL]
               ? status
               : hal_binary(list, HAL_BINARY(.rows = c->batch * c->m, .columns = c->n, .op = HAL_ADD,
                                             .dtype = c->between, .dtype_b = c->dtype_c, .dtype_y = c->dtype_d,
                                             .a = operand_span(&h->first), .lda = h->first.host.ld,
                                             .b = operand_span(&c->x[RESIDUAL]), .ldb = c->x[RESIDUAL].host.ld,
                                             .y = operand_span(&h->result), .ldy = h->result.host.ld, .mode = c->mode));
}

static void check_chain(options_case *c, fixture *f, uint64_t *seed)
{
    const uint64_t rows = c->batch * c->m;
    chain h = {.c = c};
    operand_create(&h.first, f, "first", c->between, rows, c->n, FILL_NAN, seed);
    operand_create(&h.second, f, "second", c->between, rows, c->n, FILL_NAN, seed);
    operand_create(&h.result, f, "result", c->dtype_d, rows, c->n, FILL_POISON, seed);
    operand *const fused[] = {&c->x[D]}, *const separate[] = {&h.result};
    operands_run(f, tell, c, fused, 1);
    operands_run(f, tell_chain, &h, separate, 1);
    const matrix *x = &c->x[D].host, *y = &h.result.host;
    const uint64_t size = hal_dtype_size(c->dtype_d);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t column = 0; column < c->n; column++) {
            if (memcmp(x->data + (x->offset + row * x->ld + column) * size,
                       y->data + (y->offset + row * y->ld + column) * size, size) != 0) {
                print_case(c);
                fail_msg("[%d][%d] is %a fused, %a from separate operators", (int)row, (int)column,
                         matrix_get(x, 0, row, column), matrix_get(y, 0, row, column));
            }
        }
    }
    operand_free(&h.first);
    operand_free(&h.second);
    operand_free(&h.result);
}

/* GEMM, activation and residual in one are the same bits as one by one, in every mode. */
static void test_chains(void **state)
{
    fixture *f = *state;
    uint64_t seed = 24;
    for (uint32_t round = 0; round < 60; round++) {
        options_case c = draw(&seed);
        c.has[UP] = c.interleaved = c.trans_d = false;
        c.has[SCALE_A] = c.has[SCALE_B] = c.has[SCALE_D] = round % 2; /* plain: the fast kernels */
        c.dtype = round % 2 ? c.dtype : c.between;
        c.dtype_d = wide_dtype(&seed);
        c.has[SCALE_D] = false;
        c.has[BIAS] = c.has[RESIDUAL] = round % 5 != 0;
        c.act = (hal_act)(round % 5);
        c.mode = (hal_mode)(round / 2 % 3);
        create(&c, f, FILL_RANDOM, &seed);
        check_chain(&c, f, &seed);
        destroy(&c);
    }
}

/* SwiGLU in one pass is GEMM, GEMM and hal_binary, bit for bit. On matrix units a GEMM of its own adds up in another
 * order, unless it is strict. */
static void test_swiglu_chain(void **state)
{
    fixture *f = *state;
    const bool matrix_units = hal_device_get_info(f->device)->matrix_units;
    uint64_t seed = 25;
    for (uint32_t round = 0; round < 40; round++) {
        options_case c = draw(&seed);
        c.has[C] = c.has[BIAS] = c.trans_d = c.has[SCALE_A] = c.has[SCALE_B] = c.has[SCALE_D] = false;
        c.act = HAL_ACT_NONE;
        c.interleaved = round % 2;
        c.has[UP] = !c.interleaved;
        c.trans_b = c.interleaved || c.trans_b;
        c.dtype_d = wide_dtype(&seed);
        c.mode = round % 4 < 2 || (matrix_units && c.dtype != HAL_F32) ? HAL_MODE_STRICT : HAL_MODE_BATCH_INVARIANT;
        create(&c, f, FILL_RANDOM, &seed);
        check_chain(&c, f, &seed);
        destroy(&c);
    }
}

/* A row's bits are the same alone, among few and among many. */
static void test_batch_invariant(void **state)
{
    fixture *f = *state;
    uint64_t seed = 26;
    static const uint64_t rows[] = {1, 2, 7, 9, 16, 17, 33, 130, 300};
    const size_t count = sizeof rows / sizeof rows[0];
    for (uint32_t round = 0; round < 3 * 2 * 2; round++) {
        options_case c = draw(&seed);
        c.m = 300;
        c.n = 75;
        c.k = 600 + round;
        c.batch = 1;
        memset(c.has, 0, sizeof c.has);
        c.has[A] = c.has[B] = c.has[D] = true;
        c.interleaved = c.trans_a = c.trans_d = false;
        c.trans_b = round & 1;
        c.dtype = (hal_dtype)(HAL_F32 + round / 4);
        c.dtype_d = HAL_F32;
        c.act = HAL_ACT_SILU;
        c.mode = round & 2 ? HAL_MODE_BATCH_INVARIANT : HAL_MODE_STRICT;
        create(&c, f, FILL_RANDOM, &seed);
        const uint64_t bytes = c.x[D].host.bytes, first = c.x[D].host.offset * 4;
        uint8_t *whole = malloc(bytes);
        assert_non_null(whole);
        for (size_t i = count; i-- > 0;) {
            const uint64_t at = i + 1 < count ? random_below(&seed, (uint32_t)(300 - rows[i])) : 0;
            hal_gemm_desc desc = describe(&c);
            desc.m = rows[i];
            desc.a.offset += at * desc.lda * hal_dtype_size(c.dtype);
            OK(hal_gemm(f->list, &desc));
            OK(hal_cmd_download(f->list, c.x[D].host.data, hal_whole(c.x[D].buffer)));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
            if (i + 1 == count) {
                memcpy(whole, c.x[D].host.data, bytes);
                continue;
            }
            for (uint64_t row = 0; row < rows[i]; row++) {
                const uint64_t ld = c.x[D].host.ld;
                if (memcmp(c.x[D].host.data + first + row * ld * 4, whole + first + (at + row) * ld * 4, c.n * 4) !=
                    0) {
                    print_case(&c);
                    fail_msg("row %d of %d differs from row %d of 300", (int)row, (int)rows[i], (int)(at + row));
                }
            }
        }
        free(whole);
        destroy(&c);
    }
}

/* What does not go together is refused. */
static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 27;
    options_case c = draw(&seed);
    memset(c.has, true, sizeof c.has);
    c.has[C] = c.has[BIAS] = c.interleaved = c.one_scale_a = c.one_scale_b = false;
    c.act = HAL_ACT_NONE;
    c.m = c.n = c.k = 20;
    c.dtype = c.dtype_c = HAL_F32;
    c.dtype_d = HAL_F8E4M3;
    create(&c, f, FILL_RANDOM, &seed);
    const hal_gemm_desc good = describe(&c);
    hal_gemm_desc desc = good;
    OK(hal_gemm(f->list, &desc));
#define WITH(code, ...)                                                                                                \
    desc = good;                                                                                                       \
    __VA_ARGS__;                                                                                                       \
    REFUSED(code, hal_gemm(f->list, &desc))
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.mode = (hal_mode)3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.round_between = HAL_F8E4M3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_c = HAL_F8E4M3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.interleaved = true);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.act = HAL_ACT_RELU);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.bias = operand_span(&c.x[BIAS]));
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_d = HAL_F32);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.scale_a.offset = c.x[SCALE_A].host.bytes - 16);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.batch = 3;
         desc.stride_a = desc.stride_b = desc.stride_r = desc.stride_scale_a = desc.stride_scale_d = 0);
    WITH(HAL_ERROR_ALIGNMENT, desc.scale_b.offset += 2);
    WITH(HAL_ERROR_OVERLAP, desc.d = desc.b_up);
    WITH(HAL_ERROR_OVERLAP, desc.dtype_d = desc.dtype_residual = HAL_F32; desc.scale_d = (hal_span){0};
         desc.trans_d = true; desc.d = desc.residual; desc.ldd = desc.ldr; desc.stride_d = desc.stride_r);
#undef WITH
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    destroy(&c);
    fixture tiny;
    fixture_open(&tiny, "shared=4608,group_size=64");
    OK(hal_gemm_prepare(tiny.device, HAL_GEMM(.m = 9, .n = 9, .k = 9, .mode = HAL_MODE_STRICT)));
    REFUSED(HAL_ERROR_LIMIT, hal_gemm_prepare(tiny.device, HAL_GEMM(.m = 9, .n = 9, .k = 9, .interleaved = true)));
    fixture_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact),        cmocka_unit_test(test_strict_options),
                                       cmocka_unit_test(test_strict_f32),   cmocka_unit_test(test_chains),
                                       cmocka_unit_test(test_swiglu_chain), cmocka_unit_test(test_batch_invariant),
                                       cmocka_unit_test(test_rules)};
    return ROWS_MAIN("gemm options", tests);
}
