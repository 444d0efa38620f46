/* matrix.h - host images of device matrices, with gaps that show stray reads and writes, and a double-precision GEMM.
 */
#ifndef TEST_MATRIX_H
#define TEST_MATRIX_H

#include <hal/ops.h>

/* `batch` matrices of rows x columns in one allocation: `offset` elements of guard, the matrices, a guard behind. */
typedef struct matrix {
    hal_dtype dtype;
    uint64_t rows, columns, ld, stride, batch, offset;
    uint64_t bytes; /* of the whole allocation */
    uint8_t *data;
} matrix;

typedef enum matrix_fill {
    FILL_RANDOM,  /* [-1, 1) */
    FILL_INTEGER, /* -2 .. 2 */
    FILL_NAN,
    FILL_POISON /* bytes 0x5A: an output before it is written */
} matrix_fill;

/* The fields up to offset are given. Gaps and guards hold NaN, or 0x5A with FILL_POISON. */
void matrix_create(matrix *x, matrix_fill fill, uint64_t *seed);
void matrix_free(matrix *x);
double matrix_get(const matrix *x, uint64_t problem, uint64_t row, uint64_t column);
void matrix_set(matrix *x, uint64_t problem, uint64_t row, uint64_t column, float value);
/* Whether byte `at` belongs to an element, not to a gap. */
bool matrix_covers(const matrix *x, uint64_t at);

uint32_t random_below(uint64_t *seed, uint32_t limit);

typedef struct gemm_reference {
    const matrix *a, *b, *c, *bias, *residual; /* NULL: absent */
    bool trans_a, trans_b;
    uint64_t m, n, k;
    float alpha, beta;
    hal_act act;
} gemm_reference;

/* One element in double, and how far a plain FP32 loop may be from it before the store (worst case). */
double gemm_expect(const gemm_reference *g, uint64_t problem, uint64_t row, uint64_t column, double *error);
/* Half of the distance between neighbours of `dtype` near `value`. */
double half_ulp(hal_dtype dtype, double value);
/* The E4M3 number nearest to value, saturating. */
double nearest_e4m3(double value);

#endif
