/* rows.c - see rows.h. */
#include "rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint64_t test_sizes[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 193};
const uint32_t test_size_count = sizeof test_sizes / sizeof test_sizes[0];
const float test_specials[] = {NAN,     INFINITY, -INFINITY, 0.0f,   -0.0f,  1.0f,    -1.0f,    -3.0f,
                               -5.5f,   -9.0f,    -10.5f,    -13.0f, -14.5f, -30.0f,  30.0f,    -88.5f,
                               -104.0f, 200.0f,   3e38f,     -3e38f, 1e-30f, -1e-30f, 65504.0f, -65504.0f};
const uint32_t test_special_count = sizeof test_specials / sizeof test_specials[0];

void operand_upload(operand *x, fixture *f)
{
    OK(hal_cmd_upload(f->list, hal_whole(x->buffer), x->host.data, x->host.bytes));
}

void operand_create_at(operand *x, fixture *f, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns,
                       uint64_t offset, uint64_t ld, matrix_fill fill, uint64_t *seed)
{
    *x = (operand){.name = name,
                   .host = {.dtype = dtype, .rows = rows, .columns = columns, .ld = ld, .batch = 1, .offset = offset}};
    matrix_create(&x->host, fill, seed);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = x->host.bytes, .label = name), &x->buffer));
    operand_upload(x, f);
}

void operand_create(operand *x, fixture *f, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns,
                    matrix_fill fill, uint64_t *seed)
{
    /* packed and aligned; padded to 8; anything; rows start at cache lines */
    const uint32_t kind = random_below(seed, 4);
    const uint64_t pads[] = {0, 8 * random_below(seed, 3), random_below(seed, 9), (64 - columns % 64) % 64};
    const uint64_t offset = kind == 2 ? random_below(seed, 9) : (kind == 3 ? 64u : 16u) * random_below(seed, 2);
    operand_create_at(x, f, name, dtype, rows, columns, offset, columns + pads[kind], fill, seed);
}

void operand_free(operand *x)
{
    hal_buffer_destroy(x->buffer);
    matrix_free(&x->host);
}

hal_span operand_span(const operand *x)
{
    return hal_at(x->buffer, x->host.offset * hal_dtype_size(x->host.dtype));
}

void operands_run(fixture *f, tell_fn tell, void *user, operand *const *outputs, uint32_t count)
{
    const uint8_t poison = 0x5A;
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < count; i++) {
            OK(hal_cmd_fill(f->list, hal_whole(outputs[i]->buffer), &poison, 1));
        }
        OK(tell(f->list, user));
        for (uint32_t i = 0; i < count; i++) {
            matrix *y = &outputs[i]->host;
            uint8_t *bytes = malloc(y->bytes);
            assert_non_null(bytes);
            OK(hal_cmd_download(f->list, bytes, hal_whole(outputs[i]->buffer)));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
            if (turn && memcmp(bytes, y->data, y->bytes) != 0) {
                fail_msg("%s: two runs differ", outputs[i]->name);
            }
            free(y->data);
            y->data = bytes;
        }
    }
}

void operand_check_gaps(const operand *y)
{
    for (uint64_t i = 0; i < y->host.bytes; i++) {
        if (y->host.data[i] != 0x5A && !matrix_covers(&y->host, i)) {
            fail_msg("%s: byte %llu, outside of it, was written", y->name, (unsigned long long)i);
        }
    }
}

/* The value that `dtype` has for it, as a store would round it. */
static double stored(hal_dtype dtype, double value)
{
    float single = (float)value, rounded = NAN;
    uint8_t bytes[4];
    hal_numeric_encode(dtype, &single, 1, bytes);
    hal_numeric_decode(dtype, bytes, 1, &rounded);
    return (double)rounded;
}

static bool close_enough(hal_dtype dtype, double got, double want, double error, bool exact)
{
    if (isnan(want)) {
        return isnan(got);
    }
    if (exact || isinf(want)) {
        return got == stored(dtype, want);
    }
    /* The store is monotonic: what is stored lies between what the ends of the interval become. */
    return got >= stored(dtype, want - 2 * error) && got <= stored(dtype, want + 2 * error);
}

void operand_check(const operand *y, expect_fn expect, void *user, bool exact)
{
    for (uint64_t row = 0; row < y->host.rows; row++) {
        for (uint64_t column = 0; column < y->host.columns; column++) {
            double error = 0, want = expect(user, row, column, &error), got = matrix_get(&y->host, 0, row, column);
            if (!close_enough(y->host.dtype, got, want, error, exact)) {
                fail_msg("%s (%s, %llu x %llu, ld %llu, offset %llu): [%llu][%llu] is %.9g, want %.9g +- %.3g", y->name,
                         hal_dtype_name(y->host.dtype), (unsigned long long)y->host.rows,
                         (unsigned long long)y->host.columns, (unsigned long long)y->host.ld,
                         (unsigned long long)y->host.offset, (unsigned long long)row, (unsigned long long)column, got,
                         want, exact ? 0.0 : 2 * error);
            }
        }
    }
    operand_check_gaps(y);
}

static fixture shared;

static int open_shared(void **state)
{
    fixture_open(&shared, NULL);
    *state = &shared;
    return 0;
}

static int close_shared(void **state)
{
    fixture_close(*state);
    return 0;
}

int rows_main(const char *name, const struct CMUnitTest *tests, size_t count)
{
    hal_device *probe = NULL;
    hal_status status = hal_device_open(NULL, &probe);
    if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
        printf("skipped: %s\n", hal_last_error());
        return 77;
    }
    hal_device_destroy(probe);
    tests_select();
    return _cmocka_run_group_tests(name, tests, count, open_shared, close_shared) != 0;
}
