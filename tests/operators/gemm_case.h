/* gemm_case.h - one GEMM problem with its memory: made at random, run on a device, compared with the reference. */
#ifndef TEST_GEMM_CASE_H
#define TEST_GEMM_CASE_H

#include "matrix.h"

/* cmocka wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        hal_status ok_ = (call);                                                                                       \
        if (ok_ != HAL_OK) {                                                                                           \
            print_error("%s: %s: %s\n", #call, hal_status_name(ok_), hal_last_error());                                \
            fail();                                                                                                    \
        }                                                                                                              \
    } while (0)
#define REFUSED(code, call)                                                                                            \
    do {                                                                                                               \
        hal_status got_ = (call);                                                                                      \
        if (got_ != (code)) {                                                                                          \
            print_error("%s: got %s, want %s\n", #call, hal_status_name(got_), #code);                                 \
            fail();                                                                                                    \
        }                                                                                                              \
        assert_true(hal_last_error()[0] != 0);                                                                         \
    } while (0)

typedef struct fixture {
    hal_device *device;
    hal_stream *stream;
    hal_cmdlist *list; /* the stream's */
} fixture;

/* Some drivers compile a kernel when it first runs; $HAL_TEST_SLOW multiplies it. */
#define TEST_TIMEOUT test_timeout()
uint64_t test_timeout(void);

/* Keeps to the tests that $HAL_TEST_ONLY names, and leaves out what $HAL_TEST_WITHOUT names: patterns with * and ?. */
void tests_select(void);

void fixture_open(fixture *f, const char *limits);
void fixture_close(fixture *f);

enum { AT_A, AT_B, AT_C, AT_D, AT_BIAS, AT_RESIDUAL, MATRICES };

typedef struct gemm_case {
    uint64_t m, n, k, batch;
    bool trans_a, trans_b;
    float alpha, beta;
    hal_act act;
    bool present[MATRICES];
    matrix matrices[MATRICES]; /* dtype, ld, stride, offset are taken from here */
    hal_buffer *buffers[MATRICES];
} gemm_case;

/* A case of this size: everything else (dtypes of C, D, bias, residual, paddings, offsets, epilogue) drawn from the
 * seed. */
void case_random(gemm_case *g, hal_dtype dtype, bool trans_a, bool trans_b, uint64_t m, uint64_t n, uint64_t k,
                 uint64_t *seed);
/* Set rows, columns and batch of the matrices from the sizes; ld and stride at least what they must be. */
void case_shape(gemm_case *g);
void case_fill(gemm_case *g, matrix_fill fill, uint64_t *seed);
/* Create the buffers and upload. */
void case_upload(gemm_case *g, fixture *f);
void case_free(gemm_case *g);
hal_gemm_desc case_desc(const gemm_case *g);
/* Run it twice from fresh output bytes: both must give the same, which goes to matrices[AT_D]. */
void case_run(gemm_case *g, fixture *f);
/* The same without some of the kernels (bits of gemm_kernel), so that the general ones run on this device, too. */
void case_run_without(gemm_case *g, fixture *f, uint32_t without);
/* Compare matrices[AT_D] with the reference: within the error bound, or bit for bit; gaps untouched. */
void case_check(const gemm_case *g, bool exact);
void case_print(const gemm_case *g);

#endif
