/* test_gemm_rules.c - what hal_gemm accepts and refuses, aliasing, recorded lists, lowered limits, threads. */
#include "test_gemm.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

int gemm_setup(void **state)
{
    fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_open(f, NULL);
    *state = f;
    return 0;
}

int gemm_teardown(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

/* A plain FP32 case with everything present, packed. */
static void plain_case(gemm_case *g, uint64_t m, uint64_t n, uint64_t k, uint64_t *seed)
{
    *g = (gemm_case){.m = m, .n = n, .k = k, .batch = 1, .alpha = 1, .beta = 2};
    for (int i = 0; i < MATRICES; i++) {
        g->matrices[i].dtype = HAL_F32;
        g->present[i] = true;
    }
    case_fill(g, FILL_INTEGER, seed);
}

static void test_bad_arguments(void **state)
{
    fixture *f = *state;
    uint64_t seed = 1;
    gemm_case g;
    plain_case(&g, 5, 6, 7, &seed);
    case_upload(&g, f);
    const hal_gemm_desc good = case_desc(&g);
    const hal_span none = {0};
    hal_gemm_desc desc;
#define WITH(code, ...)                                                                                                \
    desc = good;                                                                                                       \
    __VA_ARGS__;                                                                                                       \
    REFUSED(code, hal_gemm(f->list, &desc))
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm(NULL, &good));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm((hal_cmdlist *)f->device, &good));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_prepare(NULL, &good));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_workspace(f->device, &good, NULL));
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.struct_size = 3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.struct_size = SIZE_MAX); /* never set: not followed through memory */
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype = (hal_dtype)5);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_d = (hal_dtype)77);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_bias = (hal_dtype)-1);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.act = (hal_act)6);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.a = none);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.d = none);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.lda = 6);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.ldd = 5);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.trans_a = true; desc.lda = 4);
    WITH(HAL_ERROR_ALIGNMENT, desc.a.offset = 2);
    WITH(HAL_ERROR_ALIGNMENT, desc.dtype_d = HAL_BF16; desc.d.offset = 1);
    WITH(HAL_ERROR_LIMIT, desc.m = 1ull << 31);
    WITH(HAL_ERROR_LIMIT, desc.k = UINT64_MAX);
    WITH(HAL_ERROR_LIMIT, desc.batch = 1ull << 40);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.m = 5000);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.lda = 1ull << 60);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.ldd = UINT64_MAX);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.batch = 3; desc.stride_b = 1ull << 62);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.a.size = 5 * 7 * 4 - 1);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.a.offset = 1ull << 40);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.a.offset = UINT64_MAX - 3);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.bias = hal_at(g.buffers[AT_BIAS], g.matrices[AT_BIAS].bytes - 4));
    WITH(HAL_ERROR_OVERLAP, desc.batch = 2; desc.stride_d = 5; desc.stride_a = desc.stride_b = 0; desc.c = none;
         desc.residual = none);
#undef WITH
    /* The device goes on working. */
    case_run(&g, f);
    case_check(&g, true);
    case_free(&g);
}

/* D may be exactly C or exactly the residual, or a block of columns beside an operand; nothing else. */
static void test_overlaps(void **state)
{
    fixture *f = *state;
    const uint64_t n = 24;
    uint64_t seed = 2;
    gemm_case g;
    plain_case(&g, 20, n, n, &seed);
    case_upload(&g, f);
    hal_gemm_desc desc = case_desc(&g);
    desc.d = desc.a;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, &desc));
    desc = case_desc(&g);
    desc.c = hal_at(g.buffers[AT_D], 4 * n);
    desc.m = 10;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, &desc));
    desc.c = desc.d;
    desc.ldc = desc.ldd + 1;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, &desc));
    desc.beta = 0; /* then C is not an operand */
    OK(hal_gemm(f->list, &desc));
    desc = case_desc(&g);
    desc.bias = desc.d;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, &desc));
    desc = case_desc(&g);
    desc.residual = desc.d;
    desc.dtype_residual = HAL_BF16;
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, &desc));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    case_free(&g);
}

/* In place over C, then over the residual: the same bits as with memory of its own, and that operand's bytes stay. */
static void test_in_place(void **state)
{
    fixture *f = *state;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (int over = AT_C; over <= AT_RESIDUAL; over += AT_RESIDUAL - AT_C) {
            uint64_t seed = 3;
            gemm_case g;
            case_random(&g, dtype, false, true, 70, 45, 50, &seed);
            for (int i = 0; i < MATRICES; i++) {
                g.present[i] = true;
            }
            g.matrices[over].dtype = g.matrices[AT_D].dtype = dtype;
            g.matrices[over].ld = g.matrices[AT_D].ld;
            g.matrices[over].stride = g.matrices[AT_D].stride;
            g.matrices[over].offset = g.matrices[AT_D].offset;
            case_fill(&g, FILL_RANDOM, &seed);
            case_upload(&g, f);
            case_run(&g, f);
            case_check(&g, false);
            const matrix *d = &g.matrices[AT_D];
            matrix before = g.matrices[over];
            uint8_t *bytes = malloc(d->bytes);
            assert_non_null(bytes);
            OK(hal_cmd_download(f->list, bytes, hal_whole(g.buffers[over])));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
            assert_memory_equal(bytes, before.data, before.bytes);
            hal_gemm_desc desc = case_desc(&g);
            desc.d = over == AT_C ? desc.c : desc.residual;
            OK(hal_gemm(f->list, &desc));
            OK(hal_cmd_download(f->list, bytes, hal_whole(g.buffers[over])));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
            for (uint64_t i = 0; i < d->bytes; i++) {
                assert_int_equal(bytes[i], (matrix_covers(d, i) ? d : &before)->data[i]);
            }
            free(bytes);
            case_free(&g);
        }
    }
}

/* D in the columns beside A, in one matrix of twice the width; and a batch whose problems lie side by side. */
static void test_columns_apart(void **state)
{
    fixture *f = *state;
    enum { M = 9, N = 8, LD = 2 * N };
    float memory[M * LD], identity[N * N] = {0}, out[M * LD];
    for (int i = 0; i < M * LD; i++) {
        memory[i] = (float)i;
    }
    for (int i = 0; i < N; i++) {
        identity[i * N + i] = 1;
    }
    hal_buffer *x, *b;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = sizeof memory), &x));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = sizeof identity), &b));
    OK(hal_cmd_upload(f->list, hal_whole(x), memory, sizeof memory));
    OK(hal_cmd_upload(f->list, hal_whole(b), identity, sizeof identity));
    OK(hal_gemm(f->list, HAL_GEMM(.m = M, .n = N, .k = N, .a = hal_whole(x), .b = hal_whole(b), .lda = LD,
                                  .d = hal_at(x, N * 4), .ldd = LD)));
    REFUSED(HAL_ERROR_OVERLAP, hal_gemm(f->list, HAL_GEMM(.m = M, .n = N, .k = N, .a = hal_whole(x), .b = hal_whole(b),
                                                          .lda = LD, .d = hal_at(x, N * 4 - 4), .ldd = LD)));
    OK(hal_cmd_download(f->list, out, hal_whole(x)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (int i = 0; i < M * LD; i++) {
        assert_true(out[i] == (i % LD < N ? memory[i] : memory[i - N]));
    }
    OK(hal_gemm(f->list, HAL_GEMM(.m = N, .n = N, .k = N, .batch = 2, .a = hal_whole(b), .lda = N, .b = hal_whole(b),
                                  .ldd = LD, .stride_d = N, .d = hal_whole(x))));
    OK(hal_cmd_download(f->list, out, hal_whole(x)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (int i = 0; i < N * LD; i++) {
        assert_true(out[i] == identity[i / LD * N + i % N]);
    }
    hal_buffer_destroy(x);
    hal_buffer_destroy(b);
}

/* A recorded list with slots, replayed with other buffers at other offsets, the second while the first may still run.
 */
static void test_recorded(void **state)
{
    fixture *f = *state;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        uint64_t seed = 4;
        gemm_case g[2];
        hal_cmdlist *list;
        OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "gemm"), &list));
        for (int i = 0; i < 2; i++) {
            g[i] = (gemm_case){.m = 33, .n = 40, .k = 70, .batch = 2, .alpha = 1, .beta = 1, .act = HAL_ACT_SILU};
            for (int j = 0; j < MATRICES; j++) {
                g[i].present[j] = j != AT_RESIDUAL;
                g[i].matrices[j].dtype = dtype;
                g[i].matrices[j].offset = i ? 3u + (uint64_t)j : 0;
            }
            case_fill(&g[i], FILL_RANDOM, &seed);
            case_upload(&g[i], f);
        }
        hal_gemm_desc desc = case_desc(&g[0]);
        desc.a = hal_slot(0, 0);
        desc.d = hal_slot(1, 0);
        desc.b = hal_slot(2, 0);
        desc.c = hal_slot(3, 0);
        OK(hal_gemm(list, &desc));
        OK(hal_cmdlist_finish(list));
        static const int order[] = {AT_A, AT_D, AT_B, AT_C};
        for (int i = 0; i < 2; i++) {
            hal_span spans[4];
            for (int j = 0; j < 4; j++) {
                const matrix *x = &g[i].matrices[order[j]];
                spans[j] = hal_at(g[i].buffers[order[j]], x->offset * hal_dtype_size(x->dtype));
            }
            OK(hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(spans[0], spans[1], spans[2], spans[3])));
            spans[0].size = 16;
            REFUSED(HAL_ERROR_OUT_OF_RANGE,
                    hal_cmdlist_submit(list, f->stream, HAL_BINDINGS(spans[0], spans[1], spans[2], spans[3])));
        }
        for (int i = 0; i < 2; i++) {
            OK(hal_cmd_download(f->list, g[i].matrices[AT_D].data, hal_whole(g[i].buffers[AT_D])));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        }
        /* The bias was a buffer of the first case in both submissions. */
        matrix bias = g[1].matrices[AT_BIAS];
        g[1].matrices[AT_BIAS] = g[0].matrices[AT_BIAS];
        case_check(&g[0], false);
        case_check(&g[1], false);
        g[1].matrices[AT_BIAS] = bias;
        hal_cmdlist_destroy(list);
        case_free(&g[0]);
        case_free(&g[1]);
    }
}

/* A refused GEMM poisons the recorded list. */
static void test_recorded_failure(void **state)
{
    fixture *f = *state;
    hal_cmdlist *list;
    OK(hal_cmdlist_create(f->device, HAL_CMDLIST(.label = "bad"), &list));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm(list, HAL_GEMM(.m = 4, .n = 4, .k = 4)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_finish(list));
    hal_cmdlist_destroy(list);
}

static void run_some(fixture *f, uint64_t seed)
{
    static const uint64_t shapes[][3] = {{1, 33, 65}, {8, 40, 100}, {70, 65, 33}, {130, 20, 17}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        gemm_case g;
        case_random(&g, (hal_dtype)(HAL_F32 + i % 3), i & 1, i & 2, shapes[i][0], shapes[i][1], shapes[i][2], &seed);
        g.act = HAL_ACT_RELU;
        g.alpha = g.beta = 1;
        case_fill(&g, FILL_INTEGER, &seed);
        case_upload(&g, f);
        case_run(&g, f);
        case_check(&g, true);
        case_free(&g);
    }
}

/* Devices that can less: the kernels must fit, and give the same integers. */
static void test_limits(void **state)
{
    (void)state;
    static const char *const limits[] = {"shared=16384,group_size=128", "shared=8192,group_size=64", "subgroups=0",
                                         "fp16=0,bf16=0,matrix=0", "group_count=3"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        fixture small;
        fixture_open(&small, limits[i]);
        run_some(&small, i);
        fixture_close(&small);
    }
}

static void test_too_small(void **state)
{
    (void)state;
    fixture tiny;
    fixture_open(&tiny, "shared=1024,group_size=4,subgroups=0");
    uint64_t seed = 6;
    gemm_case g;
    plain_case(&g, 20, 20, 20, &seed);
    case_upload(&g, &tiny);
    hal_gemm_desc desc = case_desc(&g);
    hal_status status = hal_gemm(tiny.list, &desc);
    assert_true(status == HAL_OK || status == HAL_ERROR_LIMIT); /* a task kernel may still fit */
    OK(hal_stream_wait(tiny.stream, TEST_TIMEOUT));
    case_free(&g);
    fixture_close(&tiny);
}

typedef struct first_call {
    fixture *shared;
    uint64_t seed;
} first_call;

static void *first_call_main(void *argument)
{
    first_call *call = argument;
    fixture own = {.device = call->shared->device};
    if (hal_stream_create(own.device, HAL_STREAM(.label = "thread"), &own.stream) != HAL_OK) {
        return "stream";
    }
    own.list = hal_stream_cmdlist(own.stream);
    hal_buffer *x = NULL, *y = NULL;
    float a[16 * 16], d[16 * 16];
    for (int i = 0; i < 256; i++) {
        a[i] = (float)(i % 16 == i / 16);
    }
    const char *failed = NULL;
    if (hal_buffer_create(own.device, HAL_BUFFER(.size = sizeof a), &x) != HAL_OK ||
        hal_buffer_create(own.device, HAL_BUFFER(.size = sizeof d), &y) != HAL_OK ||
        hal_cmd_upload(own.list, hal_whole(x), a, sizeof a) != HAL_OK ||
        hal_gemm(own.list, HAL_GEMM(.m = 16, .n = 16, .k = 16, .a = hal_whole(x), .b = hal_whole(x), .d = hal_whole(y),
                                    .trans_b = call->seed & 1)) != HAL_OK ||
        hal_cmd_download(own.list, d, hal_whole(y)) != HAL_OK || hal_stream_wait(own.stream, TEST_TIMEOUT) != HAL_OK) {
        failed = hal_last_error()[0] ? "a call failed" : "failed without an error";
    }
    for (int i = 0; i < 256 && !failed; i++) {
        failed = a[i] != d[i] ? "wrong result" : NULL;
    }
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_stream_destroy(own.stream);
    return (void *)failed;
}

/* Eight threads make their first call together on a fresh device. */
static void test_first_calls_together(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, NULL);
    pthread_t threads[8];
    first_call calls[8];
    for (uint64_t i = 0; i < 8; i++) {
        calls[i] = (first_call){&f, i};
        assert_int_equal(pthread_create(&threads[i], NULL, first_call_main, &calls[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        if (failed) {
            fail_msg("thread %d: %s", i, (const char *)failed);
        }
    }
    fixture_close(&f);
}

/* A kernel that fails to compile once is compiled by the next call; prepare does it ahead and needs no spans. */
static void test_compile_fault(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, NULL);
    OK(hal_device_inject_fault(f.device, HAL_FAULT_COMPILE, 1));
    const hal_gemm_desc desc = {.struct_size = sizeof desc, .m = 40, .n = 40, .k = 40, .trans_a = true};
    REFUSED(HAL_ERROR_COMPILE, hal_gemm_prepare(f.device, &desc));
    OK(hal_gemm_prepare(f.device, &desc));
    uint64_t size = 1;
    OK(hal_gemm_workspace(f.device, &desc, &size));
    run_some(&f, 8);
    fixture_close(&f);
}

const struct CMUnitTest gemm_rules[GEMM_RULES] = {cmocka_unit_test(test_bad_arguments),
                                                  cmocka_unit_test(test_overlaps),
                                                  cmocka_unit_test(test_in_place),
                                                  cmocka_unit_test(test_columns_apart),
                                                  cmocka_unit_test(test_recorded),
                                                  cmocka_unit_test(test_recorded_failure),
                                                  cmocka_unit_test(test_limits),
                                                  cmocka_unit_test(test_too_small),
                                                  cmocka_unit_test(test_first_calls_together),
                                                  cmocka_unit_test(test_compile_fault),
                                                  cmocka_unit_test(test_one_row_any_ld),
                                                  cmocka_unit_test(test_slot_alignment),
                                                  cmocka_unit_test(test_import_alignment)};
