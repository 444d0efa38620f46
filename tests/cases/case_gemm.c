/* case_gemm.c - Gemm and MatMul of conformance cases, as ONNX defines them and as the recipes do. */
#include "case_run.h"

#include <stdlib.h>
#include <string.h>

static bool is_matrix(const case_tensor *t, uint64_t rows, uint64_t columns)
{
    return t->dim_count == 2 && t->dims[0] == rows && t->dims[1] == columns;
}

/* ONNX lets C spread over (M, N): make it a packed matrix. NULL with `why` set. */
static hal_buffer *spread(case_run_state *r, const case_tensor *c, uint64_t m, uint64_t n)
{
    const uint64_t size = hal_dtype_size(c->dtype);
    const uint64_t rows = c->dim_count == 2 ? c->dims[0] : 1, columns = c->dim_count ? c->dims[c->dim_count - 1] : 1;
    if (c->dim_count > 2 || (rows != 1 && rows != m) || (columns != 1 && columns != n)) {
        run_malformed(r, "C does not spread to the result's shape");
        return NULL;
    }
    uint8_t *whole = malloc(m * n * size + 1);
    if (!whole) {
        run_result(r, CASE_FAILED, "no memory for C");
        return NULL;
    }
    for (uint64_t i = 0; i < m * n; i++) {
        uint64_t row = rows == 1 ? 0 : i / n, column = columns == 1 ? 0 : i % n;
        memcpy(whole + i * size, c->data + (c->offset + row * c->ld + column) * size, size);
    }
    hal_buffer *buffer = run_upload(r, whole, m * n * size);
    free(whole);
    return buffer;
}

/* The attributes of Gemm into `desc`. */
static bool read_gemm(const case_file *c, hal_gemm_desc *desc)
{
    const case_tensor *d = &c->outputs[0], *a = &c->inputs[0];
    uint64_t trans_a, trans_b;
    double alpha, beta;
    if (!case_count(c, "transA", 0, &trans_a) || !case_count(c, "transB", 0, &trans_b) ||
        !case_number(c, "alpha", 1, &alpha) || !case_number(c, "beta", 1, &beta) || d->dim_count != 2 ||
        a->dim_count != 2) {
        return false;
    }
    *desc = *HAL_GEMM(.m = d->dims[0], .n = d->dims[1], .k = a->dims[trans_a ? 0 : 1], .trans_a = trans_a != 0,
                      .trans_b = trans_b != 0, .alpha = (float)alpha, .alpha_is_zero = (float)alpha == 0.0f,
                      .beta = (float)beta);
    uint64_t m, n, k;
    return case_count(c, "M", desc->m, &m) && case_count(c, "N", desc->n, &n) && case_count(c, "K", desc->k, &k) &&
           m == desc->m && n == desc->n && k == desc->k;
}

case_result run_gemm(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 2, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *a = &c->inputs[0], *b = &c->inputs[1], *d = &c->outputs[0];
    const case_tensor *bias = case_input(c, "bias"), *residual = case_input(c, "residual"),
                      *addend = case_input(c, "C");
    bool onnx =
        !addend && c->input_count > 2 && c->inputs[2].present && &c->inputs[2] != bias && &c->inputs[2] != residual;
    addend = onnx ? &c->inputs[2] : addend;
    hal_gemm_desc desc;
    if (!read_gemm(c, &desc)) {
        return run_malformed(r, "attributes or shapes of Gemm");
    }
    if (!run_act(run_text(c, "act", "none"), &desc.act)) {
        return run_result(r, CASE_SKIPPED, "activation not in this library version");
    }
    if (a->dtype != b->dtype || !is_matrix(a, desc.trans_a ? desc.k : desc.m, desc.trans_a ? desc.m : desc.k) ||
        !is_matrix(b, desc.trans_b ? desc.n : desc.k, desc.trans_b ? desc.k : desc.n) ||
        (bias && (bias->rows != 1 || bias->columns != desc.n)) || (residual && !is_matrix(residual, desc.m, desc.n))) {
        return run_malformed(r, "shapes of Gemm do not fit together");
    }
    hal_buffer *a_buffer = run_upload(r, a->data, a->size), *b_buffer = run_upload(r, b->data, b->size),
               *d_buffer = run_poisoned(r, d);
    hal_buffer *bias_buffer = bias ? run_upload(r, bias->data, bias->size) : NULL;
    hal_buffer *residual_buffer = residual ? run_upload(r, residual->data, residual->size) : NULL;
    /* A matrix of the full shape is used as it lies, leading dimension and all. */
    bool packed = addend && !is_matrix(addend, desc.m, desc.n);
    hal_buffer *c_buffer = !addend  ? NULL
                           : packed ? spread(r, addend, desc.m, desc.n)
                                    : run_upload(r, addend->data, addend->size);
    if (!a_buffer || !b_buffer || !d_buffer || (bias && !bias_buffer) || (residual && !residual_buffer) ||
        (addend && !c_buffer)) {
        return CASE_FAILED;
    }
    desc.dtype = a->dtype;
    desc.dtype_d = d->dtype;
    desc.a = run_span(a_buffer, a, 0);
    desc.b = run_span(b_buffer, b, 0);
    desc.d = run_span(d_buffer, d, 0);
    desc.lda = a->ld;
    desc.ldb = b->ld;
    desc.ldd = d->ld;
    if (addend) {
        desc.c = packed ? hal_whole(c_buffer) : run_span(c_buffer, addend, 0);
        desc.dtype_c = addend->dtype;
        desc.ldc = packed ? 0 : addend->ld;
    }
    if (bias) {
        desc.bias = run_span(bias_buffer, bias, 0);
        desc.dtype_bias = bias->dtype;
    }
    if (residual) {
        desc.residual = run_span(residual_buffer, residual, 0);
        desc.dtype_residual = residual->dtype;
        desc.ldr = residual->ld;
    }
    hal_status status = hal_gemm(r->d->list, &desc);
    return status == HAL_OK ? run_check(r, d, d_buffer) : run_failed(r, "hal_gemm", status);
}

/* A MatMul operand as a stack of matrices: a vector has one row (left) or one column (right). */
typedef struct stack {
    uint64_t rows, columns, ld;
    uint32_t batch_dims;
    const uint64_t *batch; /* their sizes */
} stack;

static stack stack_of(const case_tensor *t, bool left)
{
    if (t->dim_count == 1) {
        return (stack){left ? 1 : t->dims[0], left ? t->dims[0] : 1, left ? t->ld : 1, 0, t->dims};
    }
    return (stack){t->dims[t->dim_count - 2], t->dims[t->dim_count - 1], t->ld, t->dim_count - 2, t->dims};
}

/* Which matrix of `s` belongs to the result's batch index; false if the sizes do not spread. */
static bool stack_index(const stack *s, const uint64_t *dims, uint32_t count, uint64_t index, uint64_t *matrix)
{
    uint64_t scale = 1;
    *matrix = 0;
    for (uint32_t i = 0; i < count; i++) { /* from the last dimension on */
        uint64_t size = dims[count - 1 - i], at = index % size;
        index /= size;
        if (i >= s->batch_dims) {
            continue;
        }
        uint64_t own = s->batch[s->batch_dims - 1 - i];
        if (own != size && own != 1) {
            return false;
        }
        *matrix += (own == 1 ? 0 : at) * scale;
        scale *= own;
    }
    return true;
}

/* The batch dimensions of the result, spread from both sides. */
static bool spread_batch(const stack *a, const stack *b, uint64_t *dims, uint32_t *count, uint64_t *total)
{
    *count = a->batch_dims > b->batch_dims ? a->batch_dims : b->batch_dims;
    *total = 1;
    for (uint32_t i = 0; i < *count; i++) {
        uint64_t x = i < a->batch_dims ? a->batch[a->batch_dims - 1 - i] : 1;
        uint64_t y = i < b->batch_dims ? b->batch[b->batch_dims - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) {
            return false;
        }
        dims[*count - 1 - i] = x == 1 ? y : x;
        if (__builtin_mul_overflow(*total, dims[*count - 1 - i], total)) {
            return false;
        }
    }
    return true;
}

case_result run_matmul(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 2, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *a = &c->inputs[0], *b = &c->inputs[1], *d = &c->outputs[0];
    if (a->dim_count == 0 || b->dim_count == 0 || a->dtype != b->dtype) {
        return run_malformed(r, "MatMul takes two arrays of one dtype");
    }
    const stack x = stack_of(a, true), y = stack_of(b, false);
    uint64_t dims[CASE_DIMS], total, rows, elements;
    uint32_t count;
    const uint64_t own = b->dim_count == 1 ? 1 : x.rows; /* rows of the result's file for each matrix */
    if (x.columns != y.rows || !spread_batch(&x, &y, dims, &count, &total) ||
        __builtin_mul_overflow(total, x.rows, &rows) || __builtin_mul_overflow(rows, y.columns, &elements) ||
        elements != d->rows * d->columns || (elements && d->rows * x.rows != rows * own)) {
        return run_malformed(r, "shapes of MatMul do not fit together");
    }
    hal_buffer *a_buffer = run_upload(r, a->data, a->size), *b_buffer = run_upload(r, b->data, b->size),
               *d_buffer = run_poisoned(r, d);
    if (!a_buffer || !b_buffer || !d_buffer) {
        return CASE_FAILED;
    }
    for (uint64_t i = 0; i < total && elements; i++) {
        uint64_t at_a, at_b;
        if (!stack_index(&x, dims, count, i, &at_a) || !stack_index(&y, dims, count, i, &at_b)) {
            return run_malformed(r, "batches of MatMul do not fit together");
        }
        hal_status status = hal_gemm(
            r->d->list, HAL_GEMM(.m = x.rows, .n = y.columns, .k = x.columns, .dtype = a->dtype, .dtype_d = d->dtype,
                                 .a = run_span(a_buffer, a, at_a * x.rows * x.ld), .lda = x.ld,
                                 .b = run_span(b_buffer, b, at_b * y.rows * y.ld), .ldb = y.ld,
                                 .d = run_span(d_buffer, d, i * own * d->ld), .ldd = b->dim_count == 1 ? 1 : d->ld));
        if (status != HAL_OK) {
            return run_failed(r, "hal_gemm", status);
        }
    }
    return run_check(r, d, d_buffer);
}
