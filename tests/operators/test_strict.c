/* test_strict.c - strict mode gives the same bits on every backend: each operator that has the mode runs on all that
 * are there (CUDA on the stand-in, where the test is given it) on the same inputs, and the outputs are compared whole.
 */
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKENDS 3

typedef struct backend {
    const char *name;
    fixture f;
    hal_buffer *x, *w, *y;
    uint8_t *bytes; /* of y */
} backend;

static backend backends[BACKENDS] = {{.name = "opencl"}, {.name = "vulkan"}, {.name = "cuda"}};
static uint32_t count; /* of those that are there, first in the table */

/* `elements` floats of all kinds: even places near 1, odd ones any bit pattern but NaN. */
static float *make_input(uint64_t elements, bool wild, uint64_t *seed)
{
    float *x = malloc(elements * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t bits = random_below(seed, 1u << 16) << 16 | random_below(seed, 1u << 16);
        bits = (bits & 0x7f800000u) == 0x7f800000u ? bits & 0xff7fffffu : bits;
        memcpy(&x[i], &bits, sizeof bits);
        if (!wild || i % 2 == 0) {
            x[i] = (float)random_below(seed, 1u << 24) / (float)(1u << 20) - 8.0f;
        }
    }
    for (uint64_t i = 0; wild && i < test_special_count && i < elements; i++) {
        x[i * 37 % elements] = test_specials[i];
    }
    return x;
}

typedef hal_status (*tell_backend)(const backend *b, void *user);

/* Runs `tell` everywhere on x and w (floats), and compares the `size` bytes of y. */
static void compare(const char *what, tell_backend tell, void *user, const float *x, uint64_t x_count, const float *w,
                    uint64_t w_count, uint64_t size)
{
    for (uint32_t i = 0; i < count; i++) {
        backend *b = &backends[i];
        OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = x_count * 4), &b->x));
        OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = w_count * 4), &b->w));
        OK(hal_buffer_create(b->f.device, HAL_BUFFER(.size = size), &b->y));
        OK(hal_cmd_upload(b->f.list, hal_whole(b->x), x, x_count * 4));
        OK(hal_cmd_upload(b->f.list, hal_whole(b->w), w, w_count * 4));
        OK(tell(b, user));
        b->bytes = malloc(size);
        assert_non_null(b->bytes);
        OK(hal_cmd_download(b->f.list, b->bytes, hal_whole(b->y)));
        OK(hal_stream_wait(b->f.stream, TEST_TIMEOUT));
    }
    for (uint32_t i = 1; i < count; i++) {
        for (uint64_t at = 0; at < size; at += 4) {
            uint32_t a, b;
            memcpy(&a, backends[0].bytes + at, 4);
            memcpy(&b, backends[i].bytes + at, 4);
            const bool nans = (a & 0x7fffffffu) > 0x7f800000u && (b & 0x7fffffffu) > 0x7f800000u;
            if (a != b && !nans) {
                fail_msg("%s: element %llu is %08x on %s, %08x on %s", what, (unsigned long long)at / 4, a,
                         backends[0].name, b, backends[i].name);
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        hal_buffer_destroy(backends[i].x);
        hal_buffer_destroy(backends[i].w);
        hal_buffer_destroy(backends[i].y);
        free(backends[i].bytes);
    }
}

typedef struct shape {
    uint64_t rows, columns;
    bool log;
} shape;

static hal_status tell_softmax(const backend *b, void *user)
{
    const shape *s = user;
    return hal_softmax(b->f.list, HAL_SOFTMAX(.rows = s->rows, .columns = s->columns, .x = hal_whole(b->x),
                                              .y = hal_whole(b->y), .log = s->log, .mode = HAL_MODE_STRICT));
}

static hal_status tell_rmsnorm(const backend *b, void *user)
{
    const shape *s = user;
    return hal_rmsnorm(b->f.list, HAL_RMSNORM(.rows = s->rows, .columns = s->columns, .x = hal_whole(b->x),
                                              .weight = hal_whole(b->w), .y = hal_whole(b->y), .eps = 1e-6f,
                                              .mode = HAL_MODE_STRICT));
}

static hal_status tell_swiglu(const backend *b, void *user)
{
    const shape *s = user;
    return hal_binary(b->f.list,
                      HAL_BINARY(.rows = s->rows, .columns = s->columns, .op = HAL_SWIGLU, .a = hal_whole(b->x),
                                 .b = hal_whole(b->w), .y = hal_whole(b->y), .b_rows = 1, .mode = HAL_MODE_STRICT));
}

static hal_status tell_gemm(const backend *b, void *user)
{
    const shape *s = user;
    return hal_gemm(b->f.list,
                    HAL_GEMM(.m = s->rows, .n = 65, .k = s->columns, .a = hal_whole(b->x), .b = hal_whole(b->w),
                             .d = hal_whole(b->y), .act = HAL_ACT_GELU_TANH, .mode = HAL_MODE_STRICT));
}

static void each_shape(const char *what, tell_backend tell, const shape *shapes, size_t shape_count, uint64_t w_factor,
                       uint64_t y_columns)
{
    uint64_t seed = 17;
    for (size_t i = 0; i < shape_count; i++) {
        shape s = shapes[i];
        const uint64_t elements = s.rows * s.columns, w_count = s.columns * w_factor;
        for (int wild = 0; wild < 2; wild++) {
            float *x = make_input(elements, wild, &seed), *w = make_input(w_count, wild, &seed);
            compare(what, tell, &s, x, elements, w, w_count, s.rows * (y_columns ? y_columns : s.columns) * 4);
            free(x);
            free(w);
        }
    }
}

static const shape row_shapes[] = {
    {977, 1025, false}, {3, 1, true}, {64, 33, true}, {2, 40000, false}, {9, 4096, true}};
#define ROW_SHAPES (sizeof row_shapes / sizeof row_shapes[0])

static void test_softmax(void **state)
{
    (void)state;
    each_shape("softmax", tell_softmax, row_shapes, ROW_SHAPES, 1, 0);
}

static void test_rmsnorm(void **state)
{
    (void)state;
    each_shape("rmsnorm", tell_rmsnorm, row_shapes, ROW_SHAPES, 1, 0);
}

static void test_swiglu(void **state)
{
    (void)state;
    each_shape("swiglu", tell_swiglu, row_shapes, ROW_SHAPES, 1, 0);
}

static void test_gemm(void **state)
{
    (void)state;
    static const shape shapes[] = {{67, 129, false}, {1, 300, false}, {130, 31, false}};
    each_shape("gemm", tell_gemm, shapes, 3, 65, 65);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax), cmocka_unit_test(test_rmsnorm),
                                       cmocka_unit_test(test_swiglu), cmocka_unit_test(test_gemm)};
    int failed = cmocka_run_group_tests_name("strict", tests, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        fixture_close(&backends[i].f);
    }
    return failed != 0;
}
