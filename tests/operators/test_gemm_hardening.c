/* test_gemm_hardening.c - what an attack on hal_gemm found once: leading dimensions that overflow, addresses that are
 * not known, or not aligned, until late. */
#include "test_gemm.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 16 };

/* A buffer of N x N floats with value(row, column) = row * down + column * across. */
static hal_buffer *make_matrix(fixture *f, float down, float across)
{
    float values[N * N];
    hal_buffer *buffer;
    for (int i = 0; i < N * N; i++) {
        int row = i / N, column = i % N;
        values[i] = (float)row * down + (float)column * across;
    }
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = sizeof values), &buffer));
    OK(hal_cmd_upload(f->list, hal_whole(buffer), values, sizeof values));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    return buffer;
}

/* The sum over k of (row * a_down + k * a_across) * (k * b_down + column * b_across), from the buffer's start. */
static void check_product(fixture *f, hal_buffer *d, const float a[2], const float b[2])
{
    float got[N * N];
    OK(hal_cmd_download(f->list, got, hal_range(d, 0, sizeof got)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (int i = 0; i < N * N; i++) {
        int row = i / N, column = i % N;
        float want = 0;
        for (int k = 0; k < N; k++) {
            want += ((float)row * a[0] + (float)k * a[1]) * ((float)k * b[0] + (float)column * b[1]);
        }
        if (got[i] != want) {
            fail_msg("element %d is %g, not %g", i, (double)got[i], (double)want);
        }
    }
}

/* The leading dimension of a matrix of one row means nothing, whatever its value; also in place. */
void test_one_row_any_ld(void **state)
{
    fixture *f = *state;
    static const uint64_t ld[] = {1ull << 62, 1ull << 61, UINT64_MAX, (1ull << 62) + 1, N};
    hal_buffer *ones = make_matrix(f, 0, 0), *c = make_matrix(f, 1, 1);
    float one = 1, got[N], start[N];
    OK(hal_cmd_fill(f->list, hal_whole(ones), &one, 4));
    for (int i = 0; i < N; i++) {
        start[i] = (float)i;
    }
    for (size_t i = 0; i < sizeof ld / sizeof ld[0]; i++) {
        OK(hal_cmd_upload(f->list, hal_range(c, 0, sizeof start), start, sizeof start));
        OK(hal_gemm(f->list, HAL_GEMM(.m = 1, .n = N, .k = 4, .a = hal_whole(ones), .b = hal_whole(ones), .beta = 1,
                                      .lda = ld[i], .c = hal_whole(c), .ldc = ld[i], .d = hal_whole(c), .ldd = ld[i])));
        OK(hal_cmd_download(f->list, got, hal_range(c, 0, sizeof got)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        for (int k = 0; k < N; k++) {
            assert_true(got[k] == (float)k + 4);
        }
    }
    /* With other leading dimensions it is the same row still. */
    OK(hal_gemm(f->list, HAL_GEMM(.m = 1, .n = N, .k = 4, .a = hal_whole(ones), .b = hal_whole(ones), .beta = 1,
                                  .c = hal_whole(c), .ldc = 100, .d = hal_whole(c), .ldd = 1ull << 62)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(ones);
    hal_buffer_destroy(c);
}

/* What a slot is bound to is a multiple of its elements' size, as an offset given at once is. */
void test_slot_alignment(void **state)
{
    fixture *f = *state;
    hal_buffer *a = make_matrix(f, 1, 1), *b = make_matrix(f, 1, 1), *d;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = N * N * 4 + 64), &d));
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        const uint64_t size = hal_dtype_size(dtype);
        hal_cmdlist *list;
        OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "slots"), &list));
        OK(hal_gemm(list, HAL_GEMM(.m = 4, .n = 8, .k = 4, .dtype = dtype, .a = hal_slot(0, 0), .b = hal_whole(b),
                                   .d = hal_slot(1, 0))));
        OK(hal_cmdlist_finish(list));
        OK(hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(hal_at(a, size), hal_at(d, size))));
        for (uint64_t odd = 1; odd < size; odd++) {
            REFUSED(HAL_ERROR_ALIGNMENT,
                    hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(hal_at(a, odd), hal_whole(d))));
            REFUSED(HAL_ERROR_ALIGNMENT,
                    hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(hal_whole(a), hal_at(d, odd))));
        }
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        hal_cmdlist_destroy(list);
    }
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_buffer_destroy(d);
}

/* Imported memory: what counts is the address. At an odd one it is refused; at any element it is taken. */
void test_import_alignment(void **state)
{
    fixture *f = *state;
    if (!hal_device_get_info(f->device)->import_host_memory) {
        print_message("skipped test_import_alignment: the device cannot import host memory\n");
        skip();
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = N * N * 4;
    const float down[2] = {1, 2}, across[2] = {3, 1};
    hal_buffer *b = make_matrix(f, across[0], across[1]), *d = make_matrix(f, 0, 0);
    uint8_t *memory = aligned_alloc(page, 2 * page);
    assert_non_null(memory);
    for (size_t at = 0; at <= 20; at++) {
        hal_buffer *import;
        for (int i = 0; i < N * N; i++) {
            int row = i / N, column = i % N;
            float value = (float)row * down[0] + (float)column * down[1];
            memcpy(memory + at + 4 * (size_t)i, &value, 4);
        }
        OK(hal_buffer_import(f->device, memory + at, size, NULL, NULL, "import", &import));
        const hal_gemm_desc desc = {.struct_size = sizeof desc,
                                    .m = N,
                                    .n = N,
                                    .k = N,
                                    .alpha = 1,
                                    .a = hal_whole(import),
                                    .b = hal_whole(b),
                                    .d = hal_whole(d)};
        if (at % 4) {
            REFUSED(HAL_ERROR_ALIGNMENT, hal_gemm(f->list, &desc));
        } else {
            OK(hal_gemm(f->list, &desc));
            check_product(f, d, down, across);
        }
        hal_buffer_destroy(import);
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        OK(hal_device_memory_stats(f->device, &(hal_memory_stats){0})); /* collects: the memory is ours again */
    }
    free(memory);
    hal_buffer_destroy(b);
    hal_buffer_destroy(d);
}
