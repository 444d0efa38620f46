/* gemm_case.c - see gemm_case.h. */
#include "gemm_case.h"

#include "gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t test_timeout(void)
{
    const char *factor = getenv("HAL_TEST_SLOW");
    return HAL_SECONDS(120) * (factor ? (uint64_t)atoi(factor) : 1);
}

void tests_select(void)
{
    cmocka_set_test_filter(getenv("HAL_TEST_ONLY"));
    cmocka_set_skip_filter(getenv("HAL_TEST_WITHOUT"));
}

void fixture_open(fixture *f, const char *limits)
{
    memset(f, 0, sizeof *f);
    OK(hal_device_open(HAL_DEVICE(.limits = limits), &f->device));
    OK(hal_stream_create(f->device, HAL_STREAM(.label = "test"), &f->stream));
    f->list = hal_stream_cmdlist(f->stream);
}

void fixture_close(fixture *f)
{
    hal_stream_destroy(f->stream);
    hal_device_destroy(f->device);
}

void case_shape(gemm_case *g)
{
    const uint64_t rows[MATRICES] = {g->trans_a ? g->k : g->m, g->trans_b ? g->n : g->k, g->m, g->m, 1, g->m};
    const uint64_t columns[MATRICES] = {g->trans_a ? g->m : g->k, g->trans_b ? g->k : g->n, g->n, g->n, g->n, g->n};
    for (int i = 0; i < MATRICES; i++) {
        matrix *x = &g->matrices[i];
        x->rows = rows[i];
        x->columns = columns[i];
        x->batch = i == AT_BIAS ? 1 : g->batch;
        x->ld = x->ld < columns[i] ? columns[i] : x->ld;
        uint64_t least = rows[i] ? (rows[i] - 1) * x->ld + columns[i] : 0;
        x->stride = x->stride < least ? least : x->stride;
    }
}

static hal_dtype random_dtype(uint64_t *seed)
{
    return (hal_dtype)(HAL_F32 + random_below(seed, 3));
}

void case_random(gemm_case *g, hal_dtype dtype, bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k,
                 uint64_t *seed)
{
    static const float factors[] = {1.0f, 1.0f, 0.5f, -1.25f, 3.0f};
    *g = (gemm_case){.m = m, .n = n, .k = k, .batch = random_below(seed, 4) ? 1 : 1 + random_below(seed, 3)};
    g->trans_a = trans_a;
    g->trans_b = trans_b;
    g->alpha = factors[random_below(seed, 5)];
    g->beta = factors[random_below(seed, 5)];
    g->act = (hal_act)random_below(seed, HAL_ACT_SIGMOID + 1);
    case_shape(g);
    for (int i = 0; i < MATRICES; i++) {
        matrix *x = &g->matrices[i];
        x->dtype = i == AT_A || i == AT_B ? dtype : random_dtype(seed);
        /* A third of the operands each: packed and aligned; padded to 4 elements; any padding and offset. */
        uint32_t kind = random_below(seed, 3);
        uint64_t pad = random_below(seed, 9);
        x->ld = kind == 0 ? x->columns : kind == 1 ? (x->columns + 3) / 4 * 4 : x->columns + pad;
        x->offset = kind == 0 ? 0 : kind == 1 ? 16 : random_below(seed, 40);
        x->stride = x->rows * x->ld + (kind == 2 ? pad : 0);
        g->present[i] = i < AT_C || i == AT_D || random_below(seed, 2);
    }
}

void case_fill(gemm_case *g, matrix_fill fill, uint64_t *seed)
{
    case_shape(g);
    for (int i = 0; i < MATRICES; i++) {
        matrix_create(&g->matrices[i], i == AT_D ? FILL_POISON : fill, seed);
    }
}

void case_upload(gemm_case *g, fixture *f)
{
    for (int i = 0; i < MATRICES; i++) {
        const matrix *x = &g->matrices[i];
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = x->bytes), &g->buffers[i]));
        OK(hal_cmd_upload(f->list, hal_whole(g->buffers[i]), x->data, x->bytes));
    }
}

void case_free(gemm_case *g)
{
    for (int i = 0; i < MATRICES; i++) {
        hal_buffer_destroy(g->buffers[i]);
        matrix_free(&g->matrices[i]);
        g->buffers[i] = NULL;
    }
}

static hal_span span_of(const gemm_case *g, int i)
{
    hal_span none = {0};
    return g->present[i] ? hal_at(g->buffers[i], g->matrices[i].offset * hal_dtype_size(g->matrices[i].dtype)) : none;
}

hal_gemm_desc case_desc(const gemm_case *g)
{
    const matrix *x = g->matrices;
    hal_gemm_desc desc = {.struct_size = sizeof desc,
                          .m = g->m,
                          .n = g->n,
                          .k = g->k,
                          .batch = g->batch,
                          .batch_is_zero = g->batch == 0,
                          .dtype = x[AT_A].dtype,
                          .dtype_c = x[AT_C].dtype,
                          .dtype_d = x[AT_D].dtype,
                          .dtype_bias = x[AT_BIAS].dtype,
                          .dtype_residual = x[AT_RESIDUAL].dtype,
                          .trans_a = g->trans_a,
                          .trans_b = g->trans_b,
                          .a = span_of(g, AT_A),
                          .b = span_of(g, AT_B),
                          .c = span_of(g, AT_C),
                          .d = span_of(g, AT_D),
                          .bias = span_of(g, AT_BIAS),
                          .residual = span_of(g, AT_RESIDUAL),
                          .lda = x[AT_A].ld,
                          .ldb = x[AT_B].ld,
                          .ldc = x[AT_C].ld,
                          .ldd = x[AT_D].ld,
                          .ldr = x[AT_RESIDUAL].ld,
                          .stride_a = x[AT_A].stride,
                          .stride_b = x[AT_B].stride,
                          .stride_c = x[AT_C].stride,
                          .stride_d = x[AT_D].stride,
                          .stride_r = x[AT_RESIDUAL].stride,
                          .alpha = g->alpha,
                          .alpha_is_zero = g->alpha == 0.0f,
                          .beta = g->beta,
                          .act = g->act};
    return desc;
}

void case_print(const gemm_case *g)
{
    static const char *const names[MATRICES] = {"A", "B", "C", "D", "bias", "residual"};
    print_error("gemm m %llu n %llu k %llu batch %llu trans %d%d alpha %g beta %g act %d\n", (unsigned long long)g->m,
                (unsigned long long)g->n, (unsigned long long)g->k, (unsigned long long)g->batch, g->trans_a,
                g->trans_b, (double)g->alpha, (double)g->beta, (int)g->act);
    for (int i = 0; i < MATRICES; i++) {
        if (g->present[i]) {
            print_error("  %s %s ld %llu offset %llu stride %llu\n", names[i], hal_dtype_name(g->matrices[i].dtype),
                        (unsigned long long)g->matrices[i].ld, (unsigned long long)g->matrices[i].offset,
                        (unsigned long long)g->matrices[i].stride);
        }
    }
}

void case_run(gemm_case *g, fixture *f)
{
    case_run_without(g, f, 0);
}

void case_run_without(gemm_case *g, fixture *f, uint32_t without)
{
    gemm_kernel used;
    matrix *d = &g->matrices[AT_D];
    uint8_t *first = malloc(d->bytes);
    assert_non_null(first);
    const uint8_t poison = 0x5A;
    hal_gemm_desc desc = case_desc(g);
    for (int turn = 0; turn < 2; turn++) {
        if (turn) {
            OK(hal_cmd_fill(f->list, hal_whole(g->buffers[AT_D]), &poison, 1));
        }
        hal_status status = hal_gemm_without(f->list, &desc, without, &used);
        assert_false(used & without);
        if (status != HAL_OK) {
            case_print(g);
            print_error("%s: %s\n", hal_status_name(status), hal_last_error());
            fail();
        }
        OK(hal_cmd_download(f->list, turn ? d->data : first, hal_whole(g->buffers[AT_D])));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    }
    if (memcmp(first, d->data, d->bytes) != 0) {
        case_print(g);
        fail_msg("two runs differ");
    }
    free(first);
}

static void check_gaps(const gemm_case *g)
{
    const matrix *d = &g->matrices[AT_D];
    for (uint64_t i = 0; i < d->bytes; i++) {
        if (d->data[i] != 0x5A && !matrix_covers(d, i)) {
            case_print(g);
            fail_msg("byte %llu outside of D was written", (unsigned long long)i);
        }
    }
}

static bool close_enough(hal_dtype dtype, double got, double want, double error, bool exact)
{
    if (isnan(want)) {
        return isnan(got);
    }
    if (exact || isinf(want)) {
        float rounded;
        uint8_t bytes[4];
        float single = (float)want; /* exact by the choice of the inputs */
        hal_numeric_encode(dtype, &single, 1, bytes);
        hal_numeric_decode(dtype, bytes, 1, &rounded);
        return got == (double)rounded;
    }
    return fabs(got - want) <= 2 * error + half_ulp(dtype, fabs(want) + 2 * error);
}

void case_check(const gemm_case *g, bool exact)
{
    const matrix *x = g->matrices;
    const gemm_reference reference = {&x[AT_A],
                                      &x[AT_B],
                                      g->present[AT_C] ? &x[AT_C] : NULL,
                                      g->present[AT_BIAS] ? &x[AT_BIAS] : NULL,
                                      g->present[AT_RESIDUAL] ? &x[AT_RESIDUAL] : NULL,
                                      g->trans_a,
                                      g->trans_b,
                                      g->m,
                                      g->n,
                                      g->k,
                                      g->alpha,
                                      g->beta,
                                      g->act};
    for (uint64_t problem = 0; problem < g->batch; problem++) {
        for (uint64_t row = 0; row < g->m; row++) {
            for (uint64_t column = 0; column < g->n; column++) {
                double error, want = gemm_expect(&reference, problem, row, column, &error);
                double got = matrix_get(&x[AT_D], problem, row, column);
                if (!close_enough(x[AT_D].dtype, got, want, error, exact)) {
                    case_print(g);
                    fail_msg("problem %llu, D[%llu][%llu] is %.9g, want %.9g +- %.3g", (unsigned long long)problem,
                             (unsigned long long)row, (unsigned long long)column, got, want, exact ? 0.0 : 2 * error);
                }
            }
        }
    }
    check_gaps(g);
}
