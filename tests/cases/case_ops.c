/* case_ops.c - what the operators' runners share, and the table of them. */
#include "case_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT HAL_SECONDS(120)

case_result run_result(case_run_state *r, case_result what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, r->capacity, format, args);
    va_end(args);
    return what;
}

case_result run_failed(case_run_state *r, const char *call, hal_status status)
{
    return run_result(r, CASE_FAILED, "%s: %s: %s", call, hal_status_name(status), hal_last_error());
}

case_result run_malformed(case_run_state *r, const char *what)
{
    return run_result(r, CASE_FAILED, "malformed: %s", what);
}

/* A buffer with these bytes; NULL with `why` set. */
hal_buffer *run_upload(case_run_state *r, const void *bytes, uint64_t size)
{
    hal_buffer *buffer = NULL;
    hal_status status = hal_buffer_create(r->d->device, HAL_BUFFER(.size = size, .label = "case"), &buffer);
    if (status == HAL_OK) {
        r->buffers[r->buffer_count++] = buffer;
        status = hal_cmd_upload(r->d->list, hal_whole(buffer), bytes, size);
    }
    if (status != HAL_OK) {
        run_failed(r, "upload", status);
        return NULL;
    }
    return buffer;
}

/* The output's buffer, full of 0x5A; NULL with `why` set. */
hal_buffer *run_poisoned(case_run_state *r, const case_tensor *out)
{
    hal_buffer *buffer = NULL;
    const uint8_t poison = 0x5A;
    hal_status status = hal_buffer_create(r->d->device, HAL_BUFFER(.size = out->size, .label = out->name), &buffer);
    if (status == HAL_OK) {
        r->buffers[r->buffer_count++] = buffer;
        status = hal_cmd_fill(r->d->list, hal_whole(buffer), &poison, 1);
    }
    if (status != HAL_OK) {
        run_failed(r, "output buffer", status);
        return NULL;
    }
    return buffer;
}

hal_span run_span(hal_buffer *buffer, const case_tensor *t, uint64_t element)
{
    return hal_at(buffer, (t->offset + element) * hal_dtype_size(t->dtype));
}

/* Fetch the output and compare it whole. */
case_result run_check(case_run_state *r, const case_tensor *out, hal_buffer *buffer)
{
    if (out->dtype == HAL_DTYPE_DEFAULT) {
        return run_malformed(r, "dtype of an output");
    }
    uint8_t *got = malloc(out->size + 1);
    if (!got) {
        return run_result(r, CASE_FAILED, "no memory for %s", out->name);
    }
    hal_status status = hal_cmd_download(r->d->list, got, hal_whole(buffer));
    status = status == HAL_OK ? hal_stream_wait(r->d->stream, TIMEOUT) : status;
    case_result outcome = status != HAL_OK                              ? run_failed(r, "wait", status)
                          : case_compare(out, got, r->why, r->capacity) ? CASE_PASSED
                                                                        : CASE_FAILED;
    free(got);
    return outcome;
}

case_result run_skipped(case_run_state *r, const char *what)
{
    return run_result(r, CASE_SKIPPED, "%s is not in this library version", what);
}

hal_buffer *run_scratch(case_run_state *r, uint64_t size)
{
    hal_buffer *buffer = NULL;
    hal_status status = hal_buffer_create(r->d->device, HAL_BUFFER(.size = size, .label = "scratch"), &buffer);
    if (status != HAL_OK) {
        run_failed(r, "scratch buffer", status);
        return NULL;
    }
    r->buffers[r->buffer_count++] = buffer;
    return buffer;
}

case_result run_check_tensors(case_run_state *r, uint32_t least, uint32_t outputs)
{
    const case_file *c = r->c;
    if (c->input_count < least || c->output_count < outputs) {
        return run_malformed(r, "wrong number of inputs or outputs");
    }
    for (uint32_t i = 0; i < c->input_count + outputs; i++) {
        const case_tensor *t = i < c->input_count ? &c->inputs[i] : &c->outputs[i - c->input_count];
        const bool optional = i >= least && i < c->input_count;
        if (!t->present && !optional) {
            return run_malformed(r, "a required tensor is null");
        }
        if (t->present && t->dtype == HAL_DTYPE_DEFAULT && !(optional && t->element_size)) {
            return run_result(r, CASE_SKIPPED, "dtype %s not in this library version for %s", t->dtype_name, c->op);
        }
    }
    return CASE_PASSED;
}

bool run_signed(const case_file *c, const char *name, int64_t fallback, int64_t *value)
{
    double number;
    if (!case_number(c, name, (double)fallback, &number) || !(fabs(number) <= 2147483648.0) ||
        number != floor(number)) {
        return false;
    }
    *value = (int64_t)number;
    return true;
}

bool run_axis(const case_file *c, const case_tensor *t, int64_t fallback, uint32_t *axis)
{
    int64_t given;
    if (!run_signed(c, "axis", fallback, &given)) {
        return false;
    }
    given += given < 0 ? (int64_t)t->dim_count : 0;
    *axis = (uint32_t)given;
    return given >= 0 && given < (int64_t)t->dim_count;
}

uint64_t run_version(const case_file *c)
{
    const cJSON *sets = cJSON_GetObjectItemCaseSensitive(c->json, "opset");
    const double version = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(sets, ""));
    return version >= 1 && version < 1000 ? (uint64_t)version : 1000; /* unknown: the newest */
}

const char *run_text(const case_file *c, const char *name, const char *fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(c->attributes, name);
    const char *text = item ? cJSON_GetStringValue(item) : fallback;
    return text ? text : "";
}

bool run_act(const char *name, hal_act *act)
{
    static const struct {
        const char *name;
        hal_act act;
    } known[] = {{"none", HAL_ACT_NONE},           {"relu", HAL_ACT_RELU},      {"gelu", HAL_ACT_GELU_ERF},
                 {"gelu_erf", HAL_ACT_GELU_ERF},   {"silu", HAL_ACT_SILU},      {"swish", HAL_ACT_SILU},
                 {"gelu_tanh", HAL_ACT_GELU_TANH}, {"sigmoid", HAL_ACT_SIGMOID}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) == 0) {
            *act = known[i].act;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *op;
    case_result (*run)(case_run_state *r);
    bool codes; /* also of HAL_F8E4M3 */
} operators[] = {{"Gemm", run_gemm, true},
                 {"MatMul", run_matmul, true},
                 {"Activation", run_activation, false},
                 {"Gelu", run_activation, false},
                 {"Relu", run_activation, false},
                 {"Sigmoid", run_activation, false},
                 {"Swish", run_activation, false},
                 {"SwiGLU", run_swiglu, false},
                 {"Add", run_binary, false},
                 {"Mul", run_binary, false},
                 {"Softmax", run_softmax, false},
                 {"LogSoftmax", run_softmax, false},
                 {"RMSNormalization", run_rmsnorm, false},
                 {"RMSNorm", run_rmsnorm, false},
                 {"FusedAddRMSNorm", run_fused_add_rmsnorm, false},
                 {"Transpose", run_transpose, true},
                 {"Gather", run_gather, false},
                 {"RotaryEmbedding", run_rotary, false},
                 {"Cast", run_cast, true},
                 {"QuantizeLinear", run_quantize_linear, true},
                 {"DequantizeLinear", run_quantize_linear, true},
                 {"QuantRowE4M3", run_quantize_rows, true},
                 {"Attention", run_attention, false},
                 {"FlexAttention", run_attention, false}};
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

static bool has_codes(const case_file *c)
{
    bool found = false;
    for (uint32_t i = 0; i < CASE_TENSORS; i++) {
        found = found || c->inputs[i].dtype == HAL_F8E4M3 || c->outputs[i].dtype == HAL_F8E4M3;
    }
    return found;
}

case_result case_run(const case_device *d, const case_file *c, char *why, size_t capacity)
{
    case_run_state r = {.d = d, .c = c, .why = why, .capacity = capacity};
    case_result outcome = CASE_SKIPPED;
    snprintf(why, capacity, "operator %s not in this library version", c->op);
    for (size_t i = 0; i < OPERATORS; i++) {
        if (strcmp(c->op, operators[i].op) == 0) {
            outcome =
                operators[i].codes || !has_codes(c) ? operators[i].run(&r) : run_skipped(&r, "this operator on E4M3");
        }
    }
    /* What was told before a failure may still run, and read our memory. */
    hal_status status = hal_stream_wait(d->stream, TIMEOUT);
    if (status != HAL_OK && outcome == CASE_PASSED) {
        outcome = run_failed(&r, "wait", status);
    }
    for (uint32_t i = 0; i < r.buffer_count; i++) {
        hal_buffer_destroy(r.buffers[i]);
    }
    return outcome;
}
