/* options_case.c - see options_case.h. */
#include "options_case.h"
#include "kernel_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool options_swiglu(const options_case *c)
{
    return c->has[UP] || c->interleaved;
}

static void shape(const options_case *c, int i, uint64_t *rows, uint64_t *columns)
{
    const uint64_t wide = c->interleaved ? 2 * c->n : c->n;
    const uint64_t scales_b = c->one_scale_b ? (c->has[UP] ? 2 : 1) : options_swiglu(c) ? 2 * c->n : c->n;
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

void options_create(options_case *c, fixture *f, matrix_fill fill, uint64_t *seed)
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

void options_add_workspace(options_case *c, fixture *f)
{
    const hal_gemm_desc desc = options_desc(c);
    uint64_t size = 0;
    OK(hal_gemm_workspace(f->device, &desc, &size));
    if (size) {
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = size, .label = "workspace"), &c->workspace));
    }
}

void options_destroy(options_case *c)
{
    hal_buffer_destroy(c->workspace);
    c->workspace = NULL;
    for (int i = 0; i < OPERANDS; i++) {
        operand_free(&c->x[i]);
        free(c->values[i]);
        c->values[i] = NULL;
    }
}

static hal_span options_span(const options_case *c, int i)
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

hal_gemm_desc options_desc(const options_case *c)
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
                          .a = options_span(c, A),
                          .b = options_span(c, B),
                          .c = options_span(c, C),
                          .d = options_span(c, D),
                          .bias = options_span(c, BIAS),
                          .residual = options_span(c, RESIDUAL),
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
                          .b_up = options_span(c, UP),
                          .interleaved = c->interleaved,
                          .swiglu_alpha = c->swiglu_alpha,
                          .scale_a = options_span(c, SCALE_A),
                          .scale_b = options_span(c, SCALE_B),
                          .scale_d = options_span(c, SCALE_D),
                          .one_scale_a = c->one_scale_a,
                          .one_scale_b = c->one_scale_b,
                          .stride_scale_a = stride_of(c, SCALE_A),
                          .stride_scale_b = stride_of(c, SCALE_B),
                          .stride_scale_d = stride_of(c, SCALE_D),
                          .trans_d = c->trans_d};
    if (c->workspace) {
        desc.workspace = hal_whole(c->workspace);
    }
    return desc;
}

hal_status options_tell(hal_cmdlist *list, void *user)
{
    const hal_gemm_desc desc = options_desc(user);
    return hal_gemm(list, &desc);
}

void options_print(const options_case *c)
{
    print_error(
        "m %d n %d k %d batch %d trans %d%d%d %s -> %s, between %s, act %d, mode %d, swiglu %d%s, has c %d bias %d "
        "residual %d scales %d%d%d one %d%d\n",
        (int)c->m, (int)c->n, (int)c->k, (int)c->batch, c->trans_a, c->trans_b, c->trans_d, hal_dtype_name(c->dtype),
        hal_dtype_name(c->dtype_d), hal_dtype_name(c->between), (int)c->act, (int)c->mode, options_swiglu(c),
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

/* The result y of an activation of x. But in strict mode a device has a form of its own: `side` -1 or 1 gives an end of
 * what it may be, 0 the host's bits. */
static float smooth(const options_case *c, float x, float y, int side)
{
    if (c->mode == HAL_MODE_STRICT || !isfinite(y)) {
        return y;
    }
    const double square = (double)x * (double)x;
    return (float)((double)y + side * (fabs((double)y) * 0x1p-24 * (8 + 8 * fmin(square, 200)) + 0x1p-126));
}

static float host_element(const options_case *c, uint64_t problem, uint64_t row, uint64_t column, int side)
{
    float v = product(c, problem, row, column, 0);
    if (options_swiglu(c)) {
        const float gate = between(c, v), up = between(c, product(c, problem, row, column, 1));
        const float u = c->swiglu_alpha * gate;
        v = hm_mul(between(c, smooth(c, u, hm_times_sigmoid(gate, u), side)), up);
    }
    if (c->has[C]) {
        v = hm_flush(v + hm_mul(c->beta, value(c, C, problem, row, column)));
    }
    if (c->has[BIAS]) {
        v = hm_flush(v + value(c, BIAS, problem, 0, column));
    }
    if (c->act) {
        const float x = between(c, v);
        v = c->act == HAL_ACT_RELU ? hm_relu(x) : smooth(c, x, hm_activate(c->act, x), side);
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

void options_check_bits(options_case *c)
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
        float had, expected, ends[2];
        store(c, problem, row, host_element(c, problem, row, column, 0), want);
        hal_numeric_decode(d->dtype, got, 1, &had);
        hal_numeric_decode(d->dtype, want, 1, &expected);
        if (memcmp(got, want, size) == 0 || (isnan(had) && isnan(expected))) {
            continue;
        }
        for (int end = 0; end < 2; end++) {
            store(c, problem, row, host_element(c, problem, row, column, end ? 1 : -1), want);
            hal_numeric_decode(d->dtype, want, 1, &ends[end]);
        }
        if (c->mode == HAL_MODE_STRICT || !(had >= fminf(ends[0], ends[1]) && had <= fmaxf(ends[0], ends[1]))) {
            options_print(c);
            fail_msg("problem %d [%d][%d] is %a; the host has %a", (int)problem, (int)row, (int)column, (double)had,
                     (double)expected);
        }
    }
    operand_check_gaps(&c->x[D]);
}

void options_check(options_case *c, fixture *f)
{
    operand *const outputs[] = {&c->x[D]};
    operands_run(f, options_tell, c, outputs, 1);
    options_check_bits(c);
}

static bool coin(uint64_t *seed)
{
    return random_below(seed, 2);
}

hal_dtype wide_dtype(uint64_t *seed)
{
    return (hal_dtype)(HAL_F32 + random_below(seed, 3));
}

options_case options_draw(uint64_t *seed)
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
    if (!options_swiglu(&c)) {
        c.has[C] = coin(seed);
        c.has[BIAS] = coin(seed);
        c.act = (hal_act)random_below(seed, HAL_ACT_SIGMOID + 1);
    }
    c.has[RESIDUAL] = coin(seed);
    c.has[SCALE_A] = coin(seed);
    c.has[SCALE_B] = coin(seed);
    c.has[SCALE_D] = c.dtype_d == HAL_F8E4M3 && coin(seed);
    return c;
}
