/* case_ops.c - Gemm and MatMul of conformance cases, as ONNX defines them and as the recipes do. */
#include "case_ops.h"

#include <hal/ops.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT HAL_SECONDS(120)

typedef struct run {
    const case_device *d;
    const case_file *c;
    char *why;
    size_t capacity;
    hal_buffer *buffers[CASE_TENSORS + 1];
    uint32_t buffer_count;
} run;

static case_result result(run *r, case_result what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static case_result result(run *r, case_result what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, r->capacity, format, args);
    va_end(args);
    return what;
}

static case_result failed(run *r, const char *call, hal_status status)
{
    return result(r, CASE_FAILED, "%s: %s: %s", call, hal_status_name(status), hal_last_error());
}

static case_result malformed(run *r, const char *what)
{
    return result(r, CASE_FAILED, "malformed: %s", what);
}

/* A buffer with these bytes; NULL with `why` set. */
static hal_buffer *upload(run *r, const void *bytes, uint64_t size)
{
    hal_buffer *buffer = NULL;
    hal_status status = hal_buffer_create(r->d->device, HAL_BUFFER(.size = size, .label = "case"), &buffer);
    if (status == HAL_OK) {
        r->buffers[r->buffer_count++] = buffer;
        status = hal_cmd_upload(r->d->list, hal_whole(buffer), bytes, size);
    }
    if (status != HAL_OK) {
        failed(r, "upload", status);
        return NULL;
    }
    return buffer;
}

/* The output's buffer, full of 0x5A; NULL with `why` set. */
static hal_buffer *poisoned(run *r, const case_tensor *out)
{
    hal_buffer *buffer = NULL;
    const uint8_t poison = 0x5A;
    hal_status status = hal_buffer_create(r->d->device, HAL_BUFFER(.size = out->size, .label = out->name), &buffer);
    if (status == HAL_OK) {
        r->buffers[r->buffer_count++] = buffer;
        status = hal_cmd_fill(r->d->list, hal_whole(buffer), &poison, 1);
    }
    if (status != HAL_OK) {
        failed(r, "output buffer", status);
        return NULL;
    }
    return buffer;
}

static hal_span span_of(hal_buffer *buffer, const case_tensor *t, uint64_t element)
{
    return hal_at(buffer, (t->offset + element) * hal_dtype_size(t->dtype));
}

/* Fetch the output and compare it whole. */
static case_result check(run *r, const case_tensor *out, hal_buffer *buffer)
{
    uint8_t *got = malloc(out->size + 1);
    if (!got) {
        return result(r, CASE_FAILED, "no memory for %s", out->name);
    }
    hal_status status = hal_cmd_download(r->d->list, got, hal_whole(buffer));
    status = status == HAL_OK ? hal_stream_wait(r->d->stream, TIMEOUT) : status;
    case_result outcome = status != HAL_OK                              ? failed(r, "wait", status)
                          : case_compare(out, got, r->why, r->capacity) ? CASE_PASSED
                                                                        : CASE_FAILED;
    free(got);
    return outcome;
}

/* CASE_PASSED if libhal computes with every tensor's dtype. */
static case_result check_dtypes(run *r, uint32_t least_inputs)
{
    if (r->c->input_count < least_inputs || r->c->output_count != 1) {
        return malformed(r, "wrong number of inputs or outputs");
    }
    for (uint32_t i = 0; i < r->c->input_count + 1; i++) {
        const case_tensor *t = i < r->c->input_count ? &r->c->inputs[i] : &r->c->outputs[0];
        if (i < least_inputs && !t->present) {
            return malformed(r, "a required input is null");
        }
        if (t->present && t->dtype == HAL_DTYPE_DEFAULT) {
            return result(r, CASE_SKIPPED, "dtype %s not in this library version for %s", t->dtype_name, r->c->op);
        }
    }
    return CASE_PASSED;
}

static bool is_matrix(const case_tensor *t, uint64_t rows, uint64_t columns)
{
    return t->dim_count == 2 && t->dims[0] == rows && t->dims[1] == columns;
}

/* ONNX lets C spread over (M, N): make it a packed matrix. NULL with `why` set. */
static hal_buffer *spread(run *r, const case_tensor *c, uint64_t m, uint64_t n)
{
    const uint64_t size = hal_dtype_size(c->dtype);
    const uint64_t rows = c->dim_count == 2 ? c->dims[0] : 1, columns = c->dim_count ? c->dims[c->dim_count - 1] : 1;
    if (c->dim_count > 2 || (rows != 1 && rows != m) || (columns != 1 && columns != n)) {
        malformed(r, "C does not spread to the result's shape");
        return NULL;
    }
    uint8_t *whole = malloc(m * n * size + 1);
    if (!whole) {
        result(r, CASE_FAILED, "no memory for C");
        return NULL;
    }
    for (uint64_t i = 0; i < m * n; i++) {
        uint64_t row = rows == 1 ? 0 : i / n, column = columns == 1 ? 0 : i % n;
        memcpy(whole + i * size, c->data + (c->offset + row * c->ld + column) * size, size);
    }
    hal_buffer *buffer = upload(r, whole, m * n * size);
    free(whole);
    return buffer;
}

static bool read_act(const case_file *c, hal_act *act)
{
    static const struct {
        const char *name;
        hal_act act;
    } known[] = {{"none", HAL_ACT_NONE},         {"relu", HAL_ACT_RELU},           {"gelu", HAL_ACT_GELU_ERF},
                 {"gelu_erf", HAL_ACT_GELU_ERF}, {"gelu_tanh", HAL_ACT_GELU_TANH}, {"silu", HAL_ACT_SILU},
                 {"swish", HAL_ACT_SILU}};
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(c->attributes, "act");
    const char *name = item ? cJSON_GetStringValue(item) : "none";
    for (size_t i = 0; name && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            *act = known[i].act;
            return true;
        }
    }
    return false;
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

static case_result run_gemm(run *r)
{
    const case_file *c = r->c;
    case_result outcome = check_dtypes(r, 2);
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
        return malformed(r, "attributes or shapes of Gemm");
    }
    if (!read_act(c, &desc.act)) {
        return result(r, CASE_SKIPPED, "activation not in this library version");
    }
    if (a->dtype != b->dtype || !is_matrix(a, desc.trans_a ? desc.k : desc.m, desc.trans_a ? desc.m : desc.k) ||
        !is_matrix(b, desc.trans_b ? desc.n : desc.k, desc.trans_b ? desc.k : desc.n) ||
        (bias && (bias->rows != 1 || bias->columns != desc.n)) || (residual && !is_matrix(residual, desc.m, desc.n))) {
        return malformed(r, "shapes of Gemm do not fit together");
    }
    hal_buffer *a_buffer = upload(r, a->data, a->size), *b_buffer = upload(r, b->data, b->size),
               *d_buffer = poisoned(r, d);
    hal_buffer *bias_buffer = bias ? upload(r, bias->data, bias->size) : NULL;
    hal_buffer *residual_buffer = residual ? upload(r, residual->data, residual->size) : NULL;
    /* A matrix of the full shape is used as it lies, leading dimension and all. */
    bool packed = addend && !is_matrix(addend, desc.m, desc.n);
    hal_buffer *c_buffer = !addend  ? NULL
                           : packed ? spread(r, addend, desc.m, desc.n)
                                    : upload(r, addend->data, addend->size);
    if (!a_buffer || !b_buffer || !d_buffer || (bias && !bias_buffer) || (residual && !residual_buffer) ||
        (addend && !c_buffer)) {
        return CASE_FAILED;
    }
    desc.dtype = a->dtype;
    desc.dtype_d = d->dtype;
    desc.a = span_of(a_buffer, a, 0);
    desc.b = span_of(b_buffer, b, 0);
    desc.d = span_of(d_buffer, d, 0);
    desc.lda = a->ld;
    desc.ldb = b->ld;
    desc.ldd = d->ld;
    if (addend) {
        desc.c = packed ? hal_whole(c_buffer) : span_of(c_buffer, addend, 0);
        desc.dtype_c = addend->dtype;
        desc.ldc = packed ? 0 : addend->ld;
    }
    if (bias) {
        desc.bias = span_of(bias_buffer, bias, 0);
        desc.dtype_bias = bias->dtype;
    }
    if (residual) {
        desc.residual = span_of(residual_buffer, residual, 0);
        desc.dtype_residual = residual->dtype;
        desc.ldr = residual->ld;
    }
    hal_status status = hal_gemm(r->d->list, &desc);
    return status == HAL_OK ? check(r, d, d_buffer) : failed(r, "hal_gemm", status);
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

static case_result run_matmul(run *r)
{
    const case_file *c = r->c;
    case_result outcome = check_dtypes(r, 2);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *a = &c->inputs[0], *b = &c->inputs[1], *d = &c->outputs[0];
    if (a->dim_count == 0 || b->dim_count == 0 || a->dtype != b->dtype) {
        return malformed(r, "MatMul takes two arrays of one dtype");
    }
    const stack x = stack_of(a, true), y = stack_of(b, false);
    uint64_t dims[CASE_DIMS], total, elements;
    uint32_t count;
    if (x.columns != y.rows || !spread_batch(&x, &y, dims, &count, &total) ||
        __builtin_mul_overflow(d->rows, d->columns, &elements) || total > elements + 1 ||
        elements != total * x.rows * y.columns || (d->rows > 1 && d->ld != d->columns)) {
        return malformed(r, "shapes of MatMul do not fit together");
    }
    hal_buffer *a_buffer = upload(r, a->data, a->size), *b_buffer = upload(r, b->data, b->size),
               *d_buffer = poisoned(r, d);
    if (!a_buffer || !b_buffer || !d_buffer) {
        return CASE_FAILED;
    }
    for (uint64_t i = 0; i < total && elements; i++) {
        uint64_t at_a, at_b;
        if (!stack_index(&x, dims, count, i, &at_a) || !stack_index(&y, dims, count, i, &at_b)) {
            return malformed(r, "batches of MatMul do not fit together");
        }
        hal_status status =
            hal_gemm(r->d->list, HAL_GEMM(.m = x.rows, .n = y.columns, .k = x.columns, .dtype = a->dtype,
                                          .dtype_d = d->dtype, .a = span_of(a_buffer, a, at_a * x.rows * x.ld),
                                          .lda = x.ld, .b = span_of(b_buffer, b, at_b * y.rows * y.ld), .ldb = y.ld,
                                          .d = span_of(d_buffer, d, i * x.rows * y.columns)));
        if (status != HAL_OK) {
            return failed(r, "hal_gemm", status);
        }
    }
    return check(r, d, d_buffer);
}

static const struct {
    const char *op;
    case_result (*run)(run *r);
} operators[] = {{"Gemm", run_gemm}, {"MatMul", run_matmul}};
#define OPERATORS (sizeof operators / sizeof operators[0])

bool case_op_known(const char *op)
{
    for (size_t i = 0; i < OPERATORS; i++) {
        if (strcmp(op, operators[i].op) == 0) {
            return true;
        }
    }
    return false;
}

case_result case_run(const case_device *d, const case_file *c, char *why, size_t capacity)
{
    run r = {.d = d, .c = c, .why = why, .capacity = capacity};
    case_result outcome = CASE_SKIPPED;
    snprintf(why, capacity, "operator %s not in this library version", c->op);
    for (size_t i = 0; i < OPERATORS; i++) {
        if (strcmp(c->op, operators[i].op) == 0) {
            outcome = operators[i].run(&r);
        }
    }
    /* What was told before a failure may still run, and read our memory. */
    hal_status status = hal_stream_wait(d->stream, TIMEOUT);
    if (status != HAL_OK && outcome == CASE_PASSED) {
        outcome = failed(&r, "wait", status);
    }
    for (uint32_t i = 0; i < r.buffer_count; i++) {
        hal_buffer_destroy(r.buffers[i]);
    }
    return outcome;
}
