/* test_rope.c - hal_rope and hal_rope_table on the device that HAL_BACKEND names. */
#include "kernel_math.h"
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x and y as matrices: a problem of the batch is a token, a row a head. */
typedef struct rope_case {
    operand x, y, cos, sin;
    hal_buffer *ids;
    int32_t *positions; /* NULL: none */
    uint64_t first;
    uint32_t rotary_dim;
    bool interleaved;
    hal_mode mode;
} rope_case;

static hal_status tell_rope(hal_cmdlist *list, void *user)
{
    const rope_case *c = user;
    const matrix *x = &c->x.host, *y = &c->y.host;
    return hal_rope(list, HAL_ROPE(.tokens = x->batch, .heads = (uint32_t)x->rows, .head_dim = (uint32_t)x->columns,
                                   .rotary_dim = c->rotary_dim, .interleaved = c->interleaved, .dtype = x->dtype,
                                   .x = operand_span(&c->x), .y = operand_span(&c->y), .x_token = x->stride,
                                   .x_head = x->ld, .y_token = y->stride, .y_head = y->ld, .cos = operand_span(&c->cos),
                                   .sin = operand_span(&c->sin), .positions = c->cos.host.rows,
                                   .position_ids = c->positions ? hal_at(c->ids, 0) : (hal_span){0},
                                   .first_position = c->first, .mode = c->mode));
}

static void create_tensor(operand *x, fixture *f, const char *name, matrix host, matrix_fill fill, uint64_t *seed)
{
    *x = (operand){.name = name, .host = host};
    matrix_create(&x->host, fill, seed);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = x->host.bytes, .label = name), &x->buffer));
    operand_upload(x, f);
}

static void create_heads(operand *x, fixture *f, const char *name, hal_dtype dtype, uint64_t tokens, uint64_t heads,
                         uint64_t head_dim, matrix_fill fill, uint64_t *seed)
{
    const bool heads_outside = random_below(seed, 3) == 0; /* [head][token][dim] */
    const uint64_t pad = random_below(seed, 2) ? random_below(seed, 5) : 0, row = head_dim + pad;
    const matrix host = {.dtype = dtype,
                         .rows = heads,
                         .columns = head_dim,
                         .ld = heads_outside ? row * tokens : row,
                         .stride = heads_outside ? row : row * heads,
                         .batch = tokens,
                         .offset = random_below(seed, 5)};
    create_tensor(x, f, name, host, fill, seed);
}

static void create_tables(rope_case *c, fixture *f, uint64_t positions, uint64_t *seed)
{
    const uint64_t pairs = c->rotary_dim / 2;
    operand_create_at(&c->cos, f, "cos", HAL_F32, positions, pairs, 1, pairs, FILL_RANDOM, seed);
    operand_create_at(&c->sin, f, "sin", HAL_F32, positions, pairs, 3, pairs, FILL_RANDOM, seed);
    float *cosines = (float *)(void *)c->cos.host.data + 1, *sines = (float *)(void *)c->sin.host.data + 3;
    OK(hal_rope_table(positions, c->rotary_dim, 10000.0, cosines, sines));
    operand_upload(&c->cos, f);
    operand_upload(&c->sin, f);
}

static void free_case(rope_case *c)
{
    operand_free(&c->x);
    operand_free(&c->y);
    operand_free(&c->cos);
    operand_free(&c->sin);
    hal_buffer_destroy(c->ids);
    free(c->positions);
}

/* An element in double, and the error of three FP32 operations. */
static double expect_rope(const rope_case *c, uint64_t token, uint64_t head, uint32_t d, double *error)
{
    const uint32_t pairs = c->rotary_dim / 2;
    *error = 0;
    if (pairs == 0 || d >= c->rotary_dim) {
        return matrix_get(&c->x.host, token, head, d);
    }
    const int64_t position = c->positions ? c->positions[token] : (int64_t)(c->first + token);
    if (position < 0 || (uint64_t)position >= c->cos.host.rows) {
        return NAN;
    }
    const bool second = c->interleaved ? d % 2 : d >= pairs;
    const uint32_t i = c->interleaved ? d / 2 : d % pairs, other = c->interleaved ? d ^ 1
                                                                   : second       ? d - pairs
                                                                                  : d + pairs;
    const double self = matrix_get(&c->x.host, token, head, d), partner = matrix_get(&c->x.host, token, head, other);
    const double cosine = matrix_get(&c->cos.host, 0, (uint64_t)position, i);
    const double sine = matrix_get(&c->sin.host, 0, (uint64_t)position, i) * (second ? 1 : -1);
    *error = 0x1p-24 * (fabs(self * cosine) + fabs(partner * sine)) * 2;
    return self * cosine + partner * sine;
}

static void check_rope(const rope_case *c)
{
    const matrix *y = &c->y.host;
    for (uint64_t token = 0; token < y->batch; token++) {
        for (uint64_t head = 0; head < y->rows; head++) {
            for (uint32_t d = 0; d < y->columns; d++) {
                double error, want = expect_rope(c, token, head, d, &error), got = matrix_get(y, token, head, d);
                error = 2 * error + (error > 0 ? half_ulp(y->dtype, want) * 1.001 : 0);
                if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= error)) {
                    fail_msg("%s, rotary_dim %u%s: token %llu, head %llu, %u of %llu is %.9g, want %.9g",
                             hal_dtype_name(y->dtype), c->rotary_dim, c->interleaved ? ", interleaved" : "",
                             (unsigned long long)token, (unsigned long long)head, d, (unsigned long long)y->columns,
                             got, want);
                }
            }
        }
    }
    operand_check_gaps(&c->y);
}

static void test_random(void **state)
{
    static const uint32_t dims[] = {2, 6, 16, 34, 64, 80, 128, 130, 256};
    fixture *f = *state;
    uint64_t seed = 41;
    for (uint32_t round = 0; round < 54; round++) {
        const uint64_t tokens = test_sizes[random_below(&seed, 9)], heads = 1 + random_below(&seed, 9);
        const uint32_t head_dim = dims[round % 9] + (round % 4 == 1);
        const uint64_t positions = 1 + random_below(&seed, 300);
        const hal_dtype dtype = (hal_dtype)(HAL_F32 + round % 3);
        rope_case c = {.rotary_dim = round % 4 ? 2 * (1 + random_below(&seed, dims[round % 9] / 2)) : dims[round % 9],
                       .interleaved = round / 3 % 2,
                       .mode = (hal_mode)(round / 6 % 3)};
        create_heads(&c.x, f, "x", dtype, tokens, heads, head_dim, FILL_RANDOM, &seed);
        create_heads(&c.y, f, "y", dtype, tokens, heads, head_dim, FILL_POISON, &seed);
        create_tables(&c, f, positions, &seed);
        c.first = random_below(&seed, 100);
        if (round & 1) {
            c.positions = calloc(tokens, sizeof *c.positions);
            assert_non_null(c.positions);
            for (uint64_t i = 0; i < tokens; i++) {
                c.positions[i] = (int32_t)random_below(&seed, (uint32_t)positions + 2) - 1; /* now and then outside */
            }
            OK(hal_buffer_create(f->device, HAL_BUFFER(.size = tokens * 4), &c.ids));
            OK(hal_cmd_upload(f->list, hal_whole(c.ids), c.positions, tokens * 4));
        }
        operand *const outputs[] = {&c.y};
        operands_run(f, tell_rope, &c, outputs, 1);
        check_rope(&c);
        free_case(&c);
    }
}

/* Heads that begin at multiples of 32 bytes and tables at texels: what flat kernels (scheduler/flat.h) take. With and
 * without columns that are left over, more heads or tokens than a group takes, and in place. */
static void create_wide(operand *x, fixture *f, const char *name, hal_dtype dtype, const uint64_t shape[3],
                        bool outside, matrix_fill fill, uint64_t *seed)
{
    const uint64_t row = (shape[2] + 31) / 32 * 32 + 32 * random_below(seed, 2);
    const matrix host = {.dtype = dtype,
                         .rows = shape[1],
                         .columns = shape[2],
                         .ld = outside ? row * shape[0] : row,
                         .stride = outside ? row : row * shape[1],
                         .batch = shape[0],
                         .offset = 32 * random_below(seed, 2)};
    create_tensor(x, f, name, host, fill, seed);
}

static void create_wide_tables(rope_case *c, fixture *f, uint64_t positions, uint64_t *seed)
{
    const uint64_t pairs = c->rotary_dim / 2;
    operand_create_at(&c->cos, f, "cos", HAL_F32, positions, pairs, 4, pairs, FILL_RANDOM, seed);
    operand_create_at(&c->sin, f, "sin", HAL_F32, positions, pairs, 8, pairs, FILL_RANDOM, seed);
}

static void run_wide(fixture *f, uint32_t head_dim, uint32_t rotary_dim, uint32_t round, uint64_t *seed)
{
    static const uint64_t counts[][2] = {{1, 1}, {9, 3}, {5, 8}, {3, 9}, {17, 2}}; /* tokens, heads */
    const uint64_t *count = counts[round % 5], shape[] = {count[0], count[1], head_dim}, positions = 20;
    const hal_dtype dtype = (hal_dtype)(HAL_F32 + round % 3);
    rope_case c = {
        .rotary_dim = rotary_dim, .interleaved = round / 3 % 2, .mode = (hal_mode)(round % 2 * HAL_MODE_STRICT)};
    create_wide(&c.x, f, "x", dtype, shape, round / 5 % 2, FILL_RANDOM, seed);
    create_wide(&c.y, f, "y", dtype, shape, round / 7 % 2, FILL_POISON, seed);
    create_wide_tables(&c, f, positions, seed);
    c.first = random_below(seed, 12); /* the last tokens have no angles now and then */
    if (round / 2 % 2) {
        c.positions = calloc(shape[0], sizeof *c.positions);
        assert_non_null(c.positions);
        for (uint64_t i = 0; i < shape[0]; i++) {
            c.positions[i] = (int32_t)random_below(seed, 22) - 1;
        }
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = shape[0] * 4), &c.ids));
        OK(hal_cmd_upload(f->list, hal_whole(c.ids), c.positions, shape[0] * 4));
    }
    operand *const outputs[] = {&c.y};
    operands_run(f, tell_rope, &c, outputs, 1);
    check_rope(&c);
    free_case(&c);
}

static void test_wide(void **state)
{
    static const uint32_t dims[][2] = {{128, 128}, {64, 64}, {256, 256}, {96, 64}, {80, 80},
                                       {40, 40},   {80, 64}, {128, 40},  {36, 24}, {512, 512}};
    fixture *f = *state;
    uint64_t seed = 43;
    for (uint32_t round = 0; round < 60; round++) {
        run_wide(f, dims[round % 10][0], dims[round % 10][1], round / 10 + round, &seed);
    }
}

/* In place gives what it gives elsewhere. */
static void test_wide_in_place(void **state)
{
    static const uint32_t dims[] = {128, 64, 80, 256};
    fixture *f = *state;
    uint64_t seed = 44;
    for (uint32_t round = 0; round < 16; round++) {
        const uint64_t shape[] = {5, 3, dims[round % 4]};
        rope_case c = {.rotary_dim = dims[round % 4], .interleaved = round / 4 % 2};
        create_wide(&c.x, f, "x", (hal_dtype)(HAL_F32 + round % 3), shape, false, FILL_RANDOM, &seed);
        create_wide_tables(&c, f, 5, &seed);
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = c.x.host.bytes), &c.y.buffer));
        c.y.host = c.x.host;
        OK(hal_cmd_copy(f->list, hal_whole(c.y.buffer), hal_whole(c.x.buffer)));
        OK(tell_rope(f->list, &c));
        uint8_t *apart = malloc(c.x.host.bytes), *inside = malloc(c.x.host.bytes);
        assert_non_null(apart);
        assert_non_null(inside);
        OK(hal_cmd_download(f->list, apart, hal_whole(c.y.buffer)));
        hal_buffer *const y = c.y.buffer;
        c.y.buffer = c.x.buffer;
        OK(tell_rope(f->list, &c));
        OK(hal_cmd_download(f->list, inside, hal_whole(c.x.buffer)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        assert_memory_equal(apart, inside, c.x.host.bytes);
        free(apart);
        free(inside);
        hal_buffer_destroy(y);
        c.y = (operand){0};
        free_case(&c);
    }
}

/* In place, and every mode gives the host's own bits for numbers that are not subnormal. */
static void test_in_place_and_strict(void **state)
{
    fixture *f = *state;
    uint64_t seed = 42;
    const uint64_t tokens = 33, heads = 5;
    const uint32_t head_dim = 80, pairs = 32;
    for (hal_mode mode = HAL_MODE_FAST; mode <= HAL_MODE_STRICT; mode++) {
        rope_case c = {.rotary_dim = 2 * pairs, .mode = mode};
        create_heads(&c.x, f, "x", HAL_F32, tokens, heads, head_dim, FILL_RANDOM, &seed);
        create_tables(&c, f, tokens, &seed);
        c.y = c.x;
        OK(tell_rope(f->list, &c));
        uint8_t *bytes = malloc(c.x.host.bytes);
        OK(hal_cmd_download(f->list, bytes, hal_whole(c.x.buffer)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        const matrix out = {.dtype = HAL_F32,
                            .rows = heads,
                            .columns = head_dim,
                            .ld = c.x.host.ld,
                            .stride = c.x.host.stride,
                            .batch = tokens,
                            .offset = c.x.host.offset,
                            .data = bytes};
        for (uint64_t token = 0; token < tokens; token++) {
            for (uint64_t head = 0; head < heads; head++) {
                for (uint32_t i = 0; i < pairs; i++) {
                    const float a = (float)matrix_get(&c.x.host, token, head, i);
                    const float b = (float)matrix_get(&c.x.host, token, head, i + pairs);
                    const float cosine = (float)matrix_get(&c.cos.host, 0, token, i);
                    const float sine = (float)matrix_get(&c.sin.host, 0, token, i);
                    const float first = a * cosine + b * -sine, second = b * cosine + a * sine;
                    assert_true((float)matrix_get(&out, token, head, i) == first);
                    assert_true((float)matrix_get(&out, token, head, i + pairs) == second);
                }
                for (uint32_t i = 2 * pairs; i < head_dim; i++) {
                    assert_true(matrix_get(&out, token, head, i) == matrix_get(&c.x.host, token, head, i));
                }
            }
        }
        free(bytes);
        c.y = (operand){0};
        operand_free(&c.x);
        operand_free(&c.cos);
        operand_free(&c.sin);
    }
}

static void test_table(void **state)
{
    (void)state;
    float cosines[4 * 3], sines[4 * 3];
    OK(hal_rope_table(4, 6, 500000.0, cosines, sines));
    for (uint32_t position = 0; position < 4; position++) {
        for (uint32_t i = 0; i < 3; i++) {
            const double angle = position * pow(500000.0, -(double)i / 3);
            assert_true(fabs((double)cosines[position * 3 + i] - cos(angle)) < 1e-7);
            assert_true(fabs((double)sines[position * 3 + i] - sin(angle)) < 1e-7);
        }
    }
    OK(hal_rope_table(0, 6, 10000.0, NULL, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope_table(4, 5, 10000.0, cosines, sines));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope_table(4, 0, 10000.0, cosines, sines));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope_table(4, 6, 0.0, cosines, sines));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope_table(4, 6, 10000.0, NULL, sines));
}

static void test_rules(void **state)
{
    fixture *f = *state;
    hal_buffer *x, *y;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &x));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &y));
    const hal_span sx = hal_whole(x), sy = hal_whole(y), table = hal_at(x, 2048);
    const hal_rope_desc good = {.struct_size = sizeof good,
                                .tokens = 4,
                                .heads = 2,
                                .head_dim = 8,
                                .x = sx,
                                .y = sy,
                                .cos = table,
                                .sin = table,
                                .positions = 4};
    hal_rope_desc d = good;
    OK(hal_rope(f->list, &d));
    d.tokens = 0;
    OK(hal_rope(f->list, &d));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, NULL));
    d = good, d.rotary_dim = 3;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.rotary_dim = 10;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.head_dim = 7;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.mode = (hal_mode)3;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.positions = 0;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.y_token = 8;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.cos = (hal_span){0};
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_rope(f->list, &d));
    d = good, d.y = hal_at(x, 4);
    REFUSED(HAL_ERROR_OVERLAP, hal_rope(f->list, &d));
    d = good, d.tokens = 1000;
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_rope(f->list, &d));
    d = good, d.heads = 1u << 30;
    REFUSED(HAL_ERROR_LIMIT, hal_rope(f->list, &d));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),        cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_wide_in_place), cmocka_unit_test(test_in_place_and_strict),
                                       cmocka_unit_test(test_table),         cmocka_unit_test(test_rules)};
    return ROWS_MAIN("rope", tests);
}
