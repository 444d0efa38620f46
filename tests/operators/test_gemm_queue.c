/* test_gemm_queue.c - hal_gemm_quantize against hal_gemm and hal_quantize, on the device that HAL_BACKEND names. */
#include "gemm.h"

#include "options_case.h"

#include <stdlib.h>
#include <string.h>

/* A GEMM, and its rows quantised: once in one kernel, once as two operators. */
typedef struct queue_case {
    options_case c;
    operand codes, scales, want_codes, want_scales;
    hal_buffer *queue;
    uint64_t queue_size;
    bool apart;
} queue_case;

static hal_status tell(hal_cmdlist *list, void *user)
{
    queue_case *q = user;
    const hal_gemm_desc gemm = options_desc(&q->c);
    if (!q->apart) {
        return hal_gemm_quantize(list,
                                 HAL_GEMM_QUANTIZE(.gemm = &gemm, .codes = operand_span(&q->codes),
                                                   .scales = operand_span(&q->scales), .queue = hal_whole(q->queue)));
    }
    hal_status status = hal_gemm(list, &gemm);
    return status == HAL_OK
               ? hal_quantize(list, HAL_QUANTIZE(.rows = q->c.m, .columns = q->c.n, .dtype = gemm.dtype_d, .x = gemm.d,
                                                 .ldx = gemm.ldd, .codes = operand_span(&q->want_codes),
                                                 .scales = operand_span(&q->want_scales), .mode = gemm.mode))
               : status;
}

static void create(queue_case *q, fixture *f, matrix_fill fill, uint64_t *seed)
{
    const uint64_t m = q->c.m, n = q->c.n;
    options_create(&q->c, f, fill, seed);
    operand_create_at(&q->codes, f, "codes", HAL_F8E4M3, m, n, 3, n, FILL_POISON, seed);
    operand_create_at(&q->want_codes, f, "want_codes", HAL_F8E4M3, m, n, 3, n, FILL_POISON, seed);
    operand_create_at(&q->scales, f, "scales", HAL_F32, 1, m, 1, m, FILL_POISON, seed);
    operand_create_at(&q->want_scales, f, "want_scales", HAL_F32, 1, m, 1, m, FILL_POISON, seed);
    const hal_gemm_desc gemm = options_desc(&q->c);
    OK(hal_gemm_quantize_queue(&gemm, &q->queue_size));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = q->queue_size), &q->queue));
    const uint8_t zero = 0;
    OK(hal_cmd_fill(f->list, hal_whole(q->queue), &zero, 1));
}

static void destroy(queue_case *q)
{
    options_destroy(&q->c);
    operand_free(&q->codes);
    operand_free(&q->scales);
    operand_free(&q->want_codes);
    operand_free(&q->want_scales);
    hal_buffer_destroy(q->queue);
}

static void check_queue_is_zero(queue_case *q, fixture *f)
{
    uint8_t *bytes = malloc(q->queue_size);
    assert_non_null(bytes);
    OK(hal_cmd_download(f->list, bytes, hal_whole(q->queue)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (uint64_t i = 0; i < q->queue_size; i++) {
        assert_int_equal(bytes[i], 0);
    }
    free(bytes);
}

/* Both ways, every output twice from poison; equal in every byte, gaps included. */
static void check(queue_case *q, fixture *f)
{
    operand *const one[] = {&q->c.x[D], &q->codes, &q->scales};
    operand *const two[] = {&q->c.x[D], &q->want_codes, &q->want_scales};
    const uint64_t size = q->c.x[D].host.bytes;
    uint8_t *kept = malloc(size);
    assert_non_null(kept);
    q->apart = false;
    operands_run(f, tell, q, one, 3);
    check_queue_is_zero(q, f);
    memcpy(kept, q->c.x[D].host.data, size);
    q->apart = true;
    operands_run(f, tell, q, two, 3);
    const bool same = memcmp(kept, q->c.x[D].host.data, size) == 0 &&
                      memcmp(q->codes.host.data, q->want_codes.host.data, q->codes.host.bytes) == 0 &&
                      memcmp(q->scales.host.data, q->want_scales.host.data, q->scales.host.bytes) == 0;
    if (!same) {
        options_print(&q->c);
    }
    assert_true(same);
    free(kept);
}

static queue_case draw(uint64_t *seed)
{
    queue_case q = {.c = options_draw(seed)};
    q.c.batch = 1;
    q.c.trans_d = false;
    q.c.has[SCALE_D] = false;
    q.c.dtype_d = wide_dtype(seed);
    return q;
}

/* Any options in strict mode, and now and then fast mode with whole numbers, whose sums are exact. */
static void test_options(void **state)
{
    fixture *f = *state;
    uint64_t seed = 41;
    for (uint32_t round = 0; round < 40; round++) {
        queue_case q = draw(&seed);
        q.c.mode = round % 4 ? HAL_MODE_STRICT : HAL_MODE_FAST;
        if (round % 4 == 0) { /* each kind of kernel takes some drivers many seconds to compile */
            q.c.dtype = q.c.dtype_d = HAL_F32;
            q.c.has[UP] = q.c.interleaved = q.c.has[SCALE_A] = q.c.has[SCALE_B] = false;
            q.c.act = HAL_ACT_NONE;
        }
        create(&q, f, q.c.mode == HAL_MODE_STRICT ? FILL_RANDOM : FILL_INTEGER, &seed);
        check(&q, f);
        destroy(&q);
    }
}

/* Many tiles and few columns of tiles, many groups at once: what a group reads another may have written. */
static void test_shapes(void **state)
{
    static const uint64_t shapes[][3] = {{1, 1, 1},     {33, 1, 5},     {1, 300, 40},
                                         {200, 65, 17}, {129, 257, 64}, {64, 64, 0}};
    fixture *f = *state;
    uint64_t seed = 43;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        queue_case q = {.c = {.m = shapes[i][0],
                              .n = shapes[i][1],
                              .k = shapes[i][2],
                              .batch = 1,
                              .has = {[A] = true, [B] = true, [D] = true},
                              .dtype = HAL_F32,
                              .dtype_c = HAL_F32,
                              .dtype_d = HAL_F32,
                              .between = HAL_F32,
                              .mode = HAL_MODE_STRICT,
                              .alpha = 1}};
        create(&q, f, FILL_RANDOM, &seed);
        check(&q, f);
        destroy(&q);
    }
}

static void test_misuse(void **state)
{
    fixture *f = *state;
    uint64_t seed = 44, size;
    queue_case q = draw(&seed);
    q.c.mode = HAL_MODE_STRICT;
    create(&q, f, FILL_RANDOM, &seed);
    hal_gemm_desc gemm = options_desc(&q.c);
    hal_gemm_quantize_desc desc = {.struct_size = sizeof desc,
                                   .gemm = &gemm,
                                   .codes = operand_span(&q.codes),
                                   .scales = operand_span(&q.scales),
                                   .queue = hal_whole(q.queue)};
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_quantize(NULL, &desc));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_quantize_queue(&gemm, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_quantize_queue(NULL, &size));
    desc.queue = (hal_span){0};
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_quantize(f->list, &desc));
    desc.queue = hal_range(q.queue, 0, q.queue_size - 4);
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_gemm_quantize(f->list, &desc));
    desc.queue = hal_whole(q.queue);
    desc.codes = gemm.d;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm_quantize(f->list, &desc));
    desc.codes = operand_span(&q.codes);
    gemm.trans_d = true;
    gemm.ldd = gemm.m;
    hal_status status = hal_gemm_quantize(f->list, &desc);
    assert_true(status == HAL_ERROR_UNSUPPORTED || status == HAL_ERROR_OUT_OF_RANGE);
    destroy(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_options), cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_misuse)};
    return ROWS_MAIN("gemm_queue", tests);
}
