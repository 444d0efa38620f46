/* test_strict.c - strict mode gives the same bits on every backend: each operator that has the mode runs on all that
 * are there (CUDA on the stand-in, where the test is given it) on the same inputs, and the outputs are compared whole.
 */
#include "rows.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKENDS 3
#define OUTPUTS  3

typedef struct output {
    hal_dtype dtype;
    uint64_t count; /* elements; 0: no such output */
} output;

typedef struct backend {
    const char *name;
    fixture f;
    hal_buffer *x, *w, *y[OUTPUTS];
    uint8_t *bytes[OUTPUTS]; /* of y */
} backend;

static backend backends[BACKENDS] = {{.name = "opencl"}, {.name = "vulkan"}, {.name = "cuda"}};
static uint32_t count; /* of those that are there, first in the table */

/* What inputs hold: NEAR 1; at every other place any bits but NaN; all sizes from the least subnormal number to 16;
 * near 1, but one in 509 is special. */
typedef enum filling { NEAR, WILD, SMALL, SPECIAL, FILLINGS } filling;
static const char *const filling_names[] = {"near 1", "wild", "small", "special"};

static const float specials[] = {NAN,      0.0f,     -0.0f,           INFINITY,  1e-40f,    -1e-40f,
                                 FLT_MIN,  -FLT_MIN, FLT_MAX,         0x1p-149f, -INFINITY, 0x1.fffffcp-127f,
                                 1e-38f,   -FLT_MAX, -0x1p-149f,      0x1p-125f, 88.7228f,  -103.97f,
                                 65504.0f, 448.0f,   0x1.000002p-126f};
#define SPECIALS (sizeof specials / sizeof specials[0])

static float *make_input(uint64_t elements, filling what, uint64_t *seed)
{
    float *x = malloc((elements + 1) * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t bits = random_below(seed, 1u << 16) << 16 | random_below(seed, 1u << 16);
        bits = (bits & 0x7f800000u) == 0x7f800000u ? bits & 0xff7fffffu : bits;
        bits = what == SMALL ? (bits & 0x807fffffu) | (bits >> 23 & 0xffu) % 131 << 23 : bits;
        memcpy(&x[i], &bits, sizeof bits);
        if (what == NEAR || what == SPECIAL || (what == WILD && i % 2 == 0)) {
            x[i] = (float)random_below(seed, 1u << 24) / (float)(1u << 20) - 8.0f;
        }
        if (what == SPECIAL && i % 509 == 7) {
            x[i] = specials[i / 509 % SPECIALS];
        }
    }
    return x;
}

typedef struct inputs {
    const void *x, *w;
    uint64_t x_bytes, w_bytes;
} inputs;
typedef hal_status (*tell_backend)(const backend *b, const void *user);

static void run_on(backend *b, tell_backend tell, const void *user, const inputs *in, const output *out)
{
    OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = in->x_bytes), &b->x));
    OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = in->w_bytes), &b->w));
    OK(hal_cmd_upload(b->f.list, hal_whole(b->x), in->x, in->x_bytes));
    OK(hal_cmd_upload(b->f.list, hal_whole(b->w), in->w, in->w_bytes));
    for (uint32_t i = 0; i < OUTPUTS && out[i].count; i++) {
        const uint64_t size = out[i].count * hal_dtype_size(out[i].dtype);
        OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = size), &b->y[i]));
        b->bytes[i] = malloc(size);
        assert_non_null(b->bytes[i]);
    }
    OK(tell(b, user));
    for (uint32_t i = 0; i < OUTPUTS && out[i].count; i++) {
        OK(hal_cmd_download(b->f.list, b->bytes[i], hal_whole(b->y[i])));
    }
    OK(hal_stream_wait(b->f.stream, TEST_TIMEOUT));
}

static void clear(backend *b, const output *out)
{
    hal_buffer_destroy(b->x);
    hal_buffer_destroy(b->w);
    for (uint32_t i = 0; i < OUTPUTS && out[i].count; i++) {
        hal_buffer_destroy(b->y[i]);
        free(b->bytes[i]);
    }
}

/* The same bits, or NaN both. */
static bool same(hal_dtype dtype, const uint8_t *a, const uint8_t *b)
{
    float x, y;
    if (memcmp(a, b, hal_dtype_size(dtype)) == 0) {
        return true;
    }
    OK(hal_numeric_decode(dtype, a, 1, &x));
    OK(hal_numeric_decode(dtype, b, 1, &y));
    return isnan(x) && isnan(y);
}

/* Runs `tell` everywhere, and compares the outputs. */
static void compare(const char *what, filling fill, tell_backend tell, const void *user, const inputs *in,
                    const output *out)
{
    for (uint32_t i = 0; i < count; i++) {
        run_on(&backends[i], tell, user, in, out);
    }
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t o = 0; o < OUTPUTS && out[o].count; o++) {
            const uint64_t size = hal_dtype_size(out[o].dtype);
            for (uint64_t e = 0; e < out[o].count; e++) {
                const uint8_t *a = backends[0].bytes[o] + e * size, *b = backends[i].bytes[o] + e * size;
                float x, y;
                if (!same(out[o].dtype, a, b)) {
                    OK(hal_numeric_decode(out[o].dtype, a, 1, &x));
                    OK(hal_numeric_decode(out[o].dtype, b, 1, &y));
                    fail_msg("%s of %s inputs: element %llu of output %u is %a on %s, %a on %s", what,
                             filling_names[fill], (unsigned long long)e, o, (double)x, backends[0].name, (double)y,
                             backends[i].name);
                }
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        clear(&backends[i], out);
    }
}

/* A problem on rows. */
typedef struct shape {
    uint64_t rows, columns;
    uint32_t option; /* of the operator */
} shape;

/* With x of the shape and w of `w_factor` rows of it, for each filling. The operator's outputs: `first`, for each
 * element or for each of `y_columns`, and FP32 for each row if `scales`. */
typedef struct plan {
    const char *what;
    tell_backend tell;
    uint64_t w_factor, y_columns;
    hal_dtype first;
    bool scales;
} plan;

static void each_filling(const plan *p, shape s)
{
    uint64_t seed = 17 + s.option;
    const uint64_t elements = s.rows * s.columns, w_count = s.columns * p->w_factor;
    const output out[OUTPUTS] = {{p->first, s.rows * (p->y_columns ? p->y_columns : s.columns)},
                                 {HAL_F32, p->scales ? s.rows : 0}};
    for (filling what = NEAR; what < FILLINGS; what++) {
        float *x = make_input(elements, what, &seed), *w = make_input(w_count, what, &seed);
        compare(p->what, what, p->tell, &s, &(inputs){x, w, elements * 4, w_count * 4}, out);
        free(x);
        free(w);
    }
}

static const shape row_shapes[] = {{977, 1025, 0}, {3, 1, 0}, {64, 33, 0}, {2, 40000, 0}, {9, 4096, 0}};
#define ROW_SHAPES (sizeof row_shapes / sizeof row_shapes[0])

static void each_shape(const plan *p, uint32_t options)
{
    for (size_t i = 0; i < ROW_SHAPES; i++) {
        for (uint32_t option = 0; option < options; option++) {
            each_filling(p, (shape){row_shapes[i].rows, row_shapes[i].columns, option});
        }
    }
}

static hal_status tell_softmax(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_softmax(b->f.list, HAL_SOFTMAX(.rows = s->rows, .columns = s->columns, .x = hal_whole(b->x),
                                              .y = hal_whole(b->y[0]), .log = s->option, .mode = HAL_MODE_STRICT));
}

static hal_status tell_rmsnorm(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_rmsnorm(b->f.list, HAL_RMSNORM(.rows = s->rows, .columns = s->columns, .x = hal_whole(b->x),
                                              .weight = hal_whole(b->w), .y = hal_whole(b->y[0]), .eps = 1e-6f,
                                              .mode = HAL_MODE_STRICT));
}

static hal_status tell_rmsnorm_quantized(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_rmsnorm(b->f.list, HAL_RMSNORM(.rows = s->rows, .columns = s->columns, .dtype_y = HAL_F8E4M3,
                                              .x = hal_whole(b->x), .weight = hal_whole(b->w), .y = hal_whole(b->y[0]),
                                              .scales = hal_whole(b->y[1]), .eps = 1e-6f, .mode = HAL_MODE_STRICT));
}

static hal_status tell_activation(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_activation(b->f.list,
                          HAL_ACTIVATION(.rows = s->rows, .columns = s->columns, .act = (hal_act)s->option,
                                         .x = hal_whole(b->x), .y = hal_whole(b->y[0]), .mode = HAL_MODE_STRICT));
}

static hal_status tell_binary(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_binary(b->f.list, HAL_BINARY(.rows = s->rows, .columns = s->columns, .op = (hal_binary_op)s->option,
                                            .a = hal_whole(b->x), .b = hal_whole(b->w), .y = hal_whole(b->y[0]),
                                            .b_rows = 1, .mode = HAL_MODE_STRICT));
}

static hal_status tell_quantize(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_quantize(b->f.list,
                        HAL_QUANTIZE(.rows = s->rows, .columns = s->columns,
                                     .scaling = s->option ? HAL_SCALE_COLUMN : HAL_SCALE_ROW_AMAX, .x = hal_whole(b->x),
                                     .codes = hal_whole(b->y[0]), .scales = hal_whole(s->option ? b->w : b->y[1]),
                                     .mode = HAL_MODE_STRICT));
}

static hal_status tell_dequantize(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_dequantize(b->f.list, HAL_QUANTIZE(.rows = s->rows, .columns = s->columns, .scaling = HAL_SCALE_COLUMN,
                                                  .x = hal_whole(b->y[0]), .codes = hal_whole(b->x),
                                                  .scales = hal_whole(b->w), .mode = HAL_MODE_STRICT));
}

/* It has no mode: its bits are the same in all of them. */
static hal_status tell_cast(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_cast(b->f.list, HAL_CAST(.rows = s->rows, .columns = s->columns, .dtype_y = (hal_dtype)s->option,
                                        .x = hal_whole(b->x), .y = hal_whole(b->y[0])));
}

#define HEADS    5
#define HEAD_DIM 41
#define ROTATED  38
static hal_status tell_rope(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_rope(b->f.list, HAL_ROPE(.tokens = s->rows, .heads = HEADS, .head_dim = HEAD_DIM, .rotary_dim = ROTATED,
                                        .interleaved = s->option, .x = hal_whole(b->x), .y = hal_whole(b->y[0]),
                                        .cos = hal_whole(b->w), .sin = hal_at(b->w, s->rows * (ROTATED / 2) * 4),
                                        .positions = s->rows, .mode = HAL_MODE_STRICT));
}

#define GEMM_N 65
static hal_status tell_gemm(const backend *b, const void *user)
{
    const shape *s = user;
    return hal_gemm(b->f.list,
                    HAL_GEMM(.m = s->rows, .n = GEMM_N, .k = s->columns, .a = hal_whole(b->x), .b = hal_whole(b->w),
                             .d = hal_whole(b->y[0]), .act = (hal_act)s->option, .mode = HAL_MODE_STRICT));
}

static void test_softmax(void **state)
{
    (void)state;
    each_shape(&(plan){.what = "softmax", .tell = tell_softmax, .w_factor = 1, .first = HAL_F32}, 2);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    each_shape(&(plan){.what = "rmsnorm", .tell = tell_rmsnorm, .w_factor = 1, .first = HAL_F32}, 1);
    each_shape(&(plan){.what = "rmsnorm to E4M3",
                       .tell = tell_rmsnorm_quantized,
                       .w_factor = 1,
                       .first = HAL_F8E4M3,
                       .scales = true},
               1);
}

static void test_activation(void **state)
{
    (void)state;
    const plan p = {.what = "activation", .tell = tell_activation, .w_factor = 1, .first = HAL_F32};
    for (uint32_t act = HAL_ACT_NONE; act <= HAL_ACT_SIGMOID; act++) {
        each_filling(&p, (shape){977, 1025, act});
    }
}

static void test_binary(void **state)
{
    (void)state;
    each_shape(&(plan){.what = "binary", .tell = tell_binary, .w_factor = 1, .first = HAL_F32}, HAL_SWIGLU + 1);
}

static void test_quantize(void **state)
{
    (void)state;
    each_shape(&(plan){.what = "quantize", .tell = tell_quantize, .w_factor = 1, .first = HAL_F8E4M3, .scales = true},
               1);
    const plan given = {.what = "quantize by column", .tell = tell_quantize, .w_factor = 1, .first = HAL_F8E4M3};
    each_filling(&given, (shape){977, 1025, 1});
    each_shape(&(plan){.what = "dequantize", .tell = tell_dequantize, .w_factor = 1, .first = HAL_F32}, 1);
}

static void test_cast(void **state)
{
    (void)state;
    for (hal_dtype to = HAL_F32; to <= HAL_F8E4M3; to++) {
        const plan p = {.what = "cast", .tell = tell_cast, .w_factor = 1, .first = to};
        each_filling(&p, (shape){977, 1025, (uint32_t)to});
    }
}

static void test_rope(void **state)
{
    (void)state;
    /* w: two tables of as many rows as x, ROTATED / 2 columns each. */
    const plan p = {.what = "rope", .tell = tell_rope, .w_factor = 977, .first = HAL_F32};
    for (uint32_t interleaved = 0; interleaved < 2; interleaved++) {
        each_filling(&p, (shape){977, HEADS * HEAD_DIM, interleaved});
    }
}

static void test_gemm(void **state)
{
    (void)state;
    const plan p = {.what = "gemm", .tell = tell_gemm, .w_factor = GEMM_N, .y_columns = GEMM_N, .first = HAL_F32};
    each_filling(&p, (shape){67, 129, HAL_ACT_GELU_TANH});
    each_filling(&p, (shape){1, 300, HAL_ACT_NONE});
    each_filling(&p, (shape){130, 31, HAL_ACT_SIGMOID});
}

typedef struct attention_shape {
    uint32_t q_length, kv_length, ratio, head_dim, value_dim;
    hal_causal causal;
    bool masked;
    float softcap;
    hal_scores scores;
} attention_shape;
#define BATCH    2
#define KV_HEADS 2

static uint64_t keys_in(const attention_shape *s)
{
    return (uint64_t)BATCH * KV_HEADS * s->kv_length * s->head_dim;
}

static uint64_t values_in(const attention_shape *s)
{
    return (uint64_t)BATCH * KV_HEADS * s->kv_length * s->value_dim;
}

static uint64_t rows_in(const attention_shape *s)
{
    return (uint64_t)BATCH * KV_HEADS * s->ratio * s->q_length;
}

/* x: queries; w: keys, values and the mask. */
static hal_status tell_attention(const backend *b, const void *user)
{
    const attention_shape *s = user;
    hal_attention_desc d =
        *HAL_ATTENTION(.batch = BATCH, .q_heads = KV_HEADS * s->ratio, .kv_heads = KV_HEADS, .head_dim = s->head_dim,
                       .value_dim = s->value_dim, .q_length = s->q_length, .kv_length = s->kv_length,
                       .q = hal_whole(b->x), .k = hal_whole(b->w), .v = hal_at(b->w, keys_in(s) * 4),
                       .o = hal_whole(b->y[0]), .lse = hal_whole(b->y[1]), .scores = hal_whole(b->y[2]),
                       .scores_kind = s->scores, .causal = s->causal, .softcap = s->softcap, .mode = HAL_MODE_STRICT);
    if (s->masked) {
        d.mask = hal_at(b->w, (keys_in(s) + values_in(s)) * 4);
    }
    return hal_attention(b->f.list, &d);
}

static void test_attention(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {33, 129, 2, 64, 64, HAL_CAUSAL_BOTTOM_RIGHT, false, 0.0f, HAL_SCORES_WEIGHTS},
        {7, 200, 3, 40, 24, HAL_CAUSAL_NONE, true, 2.0f, HAL_SCORES_MASKED},
        {65, 64, 1, 17, 33, HAL_CAUSAL_TOP_LEFT, false, 0.5f, HAL_SCORES_CAPPED},
        {1, 700, 4, 64, 64, HAL_CAUSAL_NONE, true, 0.0f, HAL_SCORES_WEIGHTS}};
    uint64_t seed = 19;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const attention_shape *s = &shapes[i];
        const uint64_t rows = rows_in(s), x_count = rows * s->head_dim, scores = rows * s->kv_length,
                       w_count = keys_in(s) + values_in(s) + scores;
        const output out[OUTPUTS] = {{HAL_F32, rows * s->value_dim}, {HAL_F32, rows}, {HAL_F32, scores}};
        for (filling what = NEAR; what < FILLINGS; what++) {
            float *x = make_input(x_count, what, &seed), *w = make_input(w_count, what, &seed);
            compare("attention", what, tell_attention, s, &(inputs){x, w, x_count * 4, w_count * 4}, out);
            free(x);
            free(w);
        }
    }
}

int main(void)
{
    backend table[BACKENDS];
    memcpy(table, backends, sizeof table);
    for (uint32_t i = 0; i < BACKENDS; i++) {
        hal_device *device = NULL;
        if (hal_device_open(HAL_DEVICE(.select = table[i].name), &device) != HAL_OK) {
            printf("without %s: %s\n", table[i].name, hal_last_error());
            continue;
        }
        backends[count] = (backend){.name = table[i].name, .f = {.device = device}};
        OK(hal_stream_create(device, NULL, &backends[count].f.stream));
        backends[count].f.list = hal_stream_cmdlist(backends[count].f.stream);
        count++;
    }
    if (count < 2) {
        printf("skipped: %u backend has a device; two are needed to compare\n", count);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_rmsnorm),  cmocka_unit_test(test_activation),
        cmocka_unit_test(test_binary),  cmocka_unit_test(test_quantize), cmocka_unit_test(test_cast),
        cmocka_unit_test(test_rope),    cmocka_unit_test(test_gemm),     cmocka_unit_test(test_attention)};
    int failed = cmocka_run_group_tests_name("strict", tests, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        fixture_close(&backends[i].f);
    }
    return failed != 0;
}
