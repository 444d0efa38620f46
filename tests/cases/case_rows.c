/* case_rows.c - the operators on rows, and Cast and quantisation, of conformance cases. */
#include "case_run.h"

#include <stdlib.h>
#include <string.h>

/* The case's tensors in device memory: `buffers` of the first `inputs` inputs (NULL for an absent one), then of the
 * first `outputs` outputs. */
static bool stage(case_run_state *r, uint32_t inputs, uint32_t outputs, hal_buffer **buffers)
{
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        const case_tensor *in = i < inputs ? &r->c->inputs[i] : NULL;
        buffers[i] = !in           ? run_poisoned(r, &r->c->outputs[i - inputs])
                     : in->present ? run_upload(r, in->data, in->size)
                                   : NULL;
        if (!buffers[i] && (!in || in->present)) {
            return false;
        }
    }
    return true;
}

static case_result finish(case_run_state *r, const char *call, hal_status status, const case_tensor *out,
                          hal_buffer *buffer)
{
    return status == HAL_OK ? run_check(r, out, buffer) : run_failed(r, call, status);
}

static bool same_shape(const case_tensor *x, const case_tensor *y)
{
    return x->dim_count == y->dim_count && memcmp(x->dims, y->dims, x->dim_count * sizeof x->dims[0]) == 0;
}

/* Gelu, Relu, Sigmoid, Swish and the recipes' Activation, which names one. */
static bool which_act(const case_file *c, hal_act *act)
{
    if (strcmp(c->op, "Activation") == 0) {
        return run_act(run_text(c, "kind", ""), act);
    }
    *act = strcmp(c->op, "Relu") == 0                                ? HAL_ACT_RELU
           : strcmp(c->op, "Sigmoid") == 0                           ? HAL_ACT_SIGMOID
           : strcmp(c->op, "Swish") == 0                             ? HAL_ACT_SILU
           : strcmp(run_text(c, "approximate", "none"), "tanh") == 0 ? HAL_ACT_GELU_TANH
                                                                     : HAL_ACT_GELU_ERF;
    return true;
}

case_result run_activation(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *y = &c->outputs[0];
    hal_act act;
    double alpha;
    hal_buffer *b[2];
    if (!which_act(c, &act)) {
        return run_skipped(r, "this activation");
    }
    if (!case_number(c, "alpha", 1, &alpha) || !same_shape(x, y)) {
        return run_malformed(r, "attributes or shapes of an activation");
    }
    if ((float)alpha == 0.0f) {
        return run_skipped(r, "alpha = 0");
    }
    if (!stage(r, 1, 1, b)) {
        return CASE_FAILED;
    }
    hal_status status = hal_activation(r->d->list, HAL_ACTIVATION(.rows = x->rows, .columns = x->columns, .act = act,
                                                                  .dtype = x->dtype, .dtype_y = y->dtype,
                                                                  .x = run_span(b[0], x, 0), .y = run_span(b[1], y, 0),
                                                                  .ldx = x->ld, .ldy = y->ld, .alpha = (float)alpha));
    return finish(r, "hal_activation", status, y, b[1]);
}

case_result run_swiglu(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 2, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *g = &c->inputs[0], *u = &c->inputs[1], *y = &c->outputs[0];
    double alpha;
    hal_buffer *b[3];
    if (!case_number(c, "alpha", 1, &alpha) || !same_shape(g, u) || !same_shape(g, y)) {
        return run_malformed(r, "attributes or shapes of SwiGLU");
    }
    if ((float)alpha == 0.0f) {
        return run_skipped(r, "alpha = 0");
    }
    if (!stage(r, 2, 1, b)) {
        return CASE_FAILED;
    }
    hal_status status =
        hal_binary(r->d->list, HAL_BINARY(.rows = g->rows, .columns = g->columns, .op = HAL_SWIGLU, .dtype = g->dtype,
                                          .dtype_b = u->dtype, .dtype_y = y->dtype, .a = run_span(b[0], g, 0),
                                          .b = run_span(b[1], u, 0), .y = run_span(b[2], y, 0), .lda = g->ld,
                                          .ldb = u->ld, .ldy = y->ld, .alpha = (float)alpha));
    return finish(r, "hal_binary", status, y, b[2]);
}

/* How small spreads over big, if hal_binary can say it: rows in turn, or one column. */
static bool spreads(const case_tensor *big, const case_tensor *small, uint64_t *rows, uint64_t *columns)
{
    const uint64_t last = small->dim_count ? small->dims[small->dim_count - 1] : 1;
    uint32_t skip = 0; /* leading dimensions of 1 */
    while (skip + 1 < small->dim_count && small->dims[skip] == 1) {
        skip++;
    }
    *columns = last;
    *rows = small->rows;
    if (small->dim_count - skip > big->dim_count || (last != 1 && last != big->columns)) {
        return false;
    }
    for (uint32_t i = skip; i + 1 < small->dim_count; i++) {
        if (small->dims[i] != big->dims[big->dim_count - small->dim_count + i]) {
            return false;
        }
    }
    return true;
}

/* Both operands spread over the result, packed. `at`: the result's dimension that the second's first is. */
static bool spread_both(case_run_state *r, const case_tensor *y, uint32_t at, hal_binary_desc *d, case_result *outcome)
{
    const case_tensor *x = r->c->inputs;
    if (x[0].dim_count > y->dim_count || x[1].dim_count > y->dim_count ||
        !run_spreads(&x[0], y, y->dim_count - x[0].dim_count) || !run_spreads(&x[1], y, at)) {
        *outcome = run_malformed(r, "shapes do not spread over each other");
        return false;
    }
    hal_buffer *a = run_spread(r, &x[0], y, y->dim_count - x[0].dim_count), *b = run_spread(r, &x[1], y, at);
    *outcome = CASE_FAILED;
    d->a = a ? hal_whole(a) : d->a;
    d->b = b ? hal_whole(b) : d->b;
    return a && b;
}

/* Add and Mul. */
case_result run_binary(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 2, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *y = &c->outputs[0];
    const uint32_t big = same_shape(&c->inputs[0], y) ? 0 : 1;
    const case_tensor *a = &c->inputs[big], *s = &c->inputs[1 - big];
    uint64_t rows, columns, axis;
    hal_buffer *b[3];
    if (!case_count(c, "axis", y->dim_count - c->inputs[1].dim_count, &axis)) { /* before version 7 */
        return run_malformed(r, "axis");
    }
    hal_binary_desc d =
        *HAL_BINARY(.rows = y->rows, .columns = y->columns, .op = strcmp(c->op, "Mul") == 0 ? HAL_MULTIPLY : HAL_ADD,
                    .dtype = a->dtype, .dtype_b = s->dtype, .dtype_y = y->dtype);
    if (same_shape(a, y) && axis + c->inputs[1].dim_count == y->dim_count && spreads(a, s, &rows, &columns)) {
        if (!stage(r, 2, 1, b)) {
            return CASE_FAILED;
        }
        d.a = run_span(b[big], a, 0);
        d.b = run_span(b[1 - big], s, 0);
        d.lda = a->ld;
        d.ldb = s->ld;
        d.b_rows = rows;
        d.b_columns = columns;
    } else {
        b[2] = run_poisoned(r, y);
        d.dtype = c->inputs[0].dtype;
        d.dtype_b = c->inputs[1].dtype;
        if (!b[2] || !spread_both(r, y, (uint32_t)axis, &d, &outcome)) {
            return b[2] ? outcome : CASE_FAILED;
        }
    }
    d.y = run_span(b[2], y, 0);
    d.ldy = y->ld;
    return finish(r, "hal_binary", hal_binary(r->d->list, &d), y, b[2]);
}

/* Softmax over another dimension than the last: moved there and back. x and y are packed. */
static hal_status softmax_across(case_run_state *r, hal_softmax_desc *desc, const case_tensor *x, uint32_t axis)
{
    const uint64_t count = x->rows * x->columns;
    hal_buffer *moved = run_scratch(r, hal_dtype_size(desc->dtype) * count),
               *done = run_scratch(r, hal_dtype_size(desc->dtype_y) * count);
    if (!moved || !done) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    hal_transpose_desc to =
        *HAL_TRANSPOSE(.rank = x->dim_count, .dtype = x->dtype, .x = desc->x, .y = hal_whole(moved));
    hal_transpose_desc back =
        *HAL_TRANSPOSE(.rank = x->dim_count, .dtype = desc->dtype_y, .x = hal_whole(done), .y = desc->y);
    for (uint32_t i = 0; i < x->dim_count; i++) { /* a swap is its own inverse */
        to.perm[i] = i == axis ? x->dim_count - 1 : i + 1 == x->dim_count ? axis : i;
        back.perm[i] = to.perm[i];
        to.dims[i] = x->dims[i];
    }
    for (uint32_t i = 0; i < x->dim_count; i++) {
        back.dims[i] = x->dims[to.perm[i]];
    }
    desc->columns = x->dims[axis];
    desc->rows = desc->columns ? x->rows * x->columns / desc->columns : 0;
    desc->x = hal_whole(moved);
    desc->y = hal_whole(done);
    hal_status status = hal_transpose(r->d->list, &to);
    status = status == HAL_OK ? hal_softmax(r->d->list, desc) : status;
    return status == HAL_OK ? hal_transpose(r->d->list, &back) : status;
}

case_result run_softmax(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *y = &c->outputs[0];
    uint32_t axis;
    hal_buffer *b[2];
    const bool flattens = run_version(c) < 13; /* then the dimensions from axis on are one row */
    if (!run_axis(c, x, flattens ? 1 : -1, &axis) || !same_shape(x, y)) {
        return run_malformed(r, "axis or shapes of Softmax");
    }
    const bool last = axis + 1 == x->dim_count;
    if (!stage(r, 1, 1, b)) {
        return CASE_FAILED;
    }
    hal_softmax_desc desc = *HAL_SOFTMAX(.rows = x->rows, .columns = x->columns, .dtype = x->dtype, .dtype_y = y->dtype,
                                         .x = run_span(b[0], x, 0), .y = run_span(b[1], y, 0), .ldx = x->ld,
                                         .ldy = y->ld, .log = strcmp(c->op, "LogSoftmax") == 0);
    if (!last) {
        desc.ldx = desc.ldy = 0;
        if (!run_pack(r, x, &desc.x) || !run_pack_output(r, y, &desc.y)) {
            return CASE_FAILED;
        }
    }
    const hal_span result = desc.y;
    if (flattens && !last) {
        desc.rows = desc.columns = 1;
        for (uint32_t i = 0; i < x->dim_count; i++) {
            *(i < axis ? &desc.rows : &desc.columns) *= x->dims[i];
        }
    }
    hal_status status = last || flattens ? hal_softmax(r->d->list, &desc) : softmax_across(r, &desc, x, axis);
    if (status == HAL_OK && !last) {
        status = run_put_back(r, y, result, run_span(b[1], y, 0));
    }
    return finish(r, "hal_softmax", status, y, b[1]);
}

case_result run_rmsnorm(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *w = c->input_count > 1 ? &c->inputs[1] : NULL, *y = &c->outputs[0];
    const bool onnx = strcmp(c->op, "RMSNormalization") == 0;
    uint64_t columns = 1;
    uint32_t axis;
    double eps;
    hal_buffer *b[3] = {NULL};
    w = w && w->present ? w : NULL;
    if (!run_axis(c, x, -1, &axis) || !case_number(c, onnx ? "epsilon" : "eps", onnx ? 1e-5 : 0, &eps) ||
        !same_shape(x, y)) {
        return run_malformed(r, "attributes or shapes of an RMS norm");
    }
    for (uint32_t i = axis; i < x->dim_count; i++) {
        columns *= x->dims[i];
    }
    const bool whole_rows = columns == x->columns, spread = w && w->rows * w->columns != columns;
    case_tensor normalised = {.dim_count = x->dim_count - axis, .rows = 1, .columns = columns};
    memcpy(normalised.dims, x->dims + axis, normalised.dim_count * sizeof x->dims[0]);
    const uint32_t at = spread && w->dim_count <= normalised.dim_count ? normalised.dim_count - w->dim_count : 0;
    if (spread && !run_spreads(w, &normalised, at)) {
        return run_malformed(r, "the weight does not spread over what is normalised");
    }
    b[0] = run_upload(r, x->data, x->size);
    b[1] = !w ? NULL : spread ? run_spread(r, w, &normalised, at) : run_upload(r, w->data, w->size);
    b[2] = run_poisoned(r, y);
    if (!b[0] || (w && !b[1]) || !b[2]) {
        return CASE_FAILED;
    }
    hal_rmsnorm_desc desc =
        *HAL_RMSNORM(.rows = columns ? x->rows * x->columns / columns : 0, .columns = columns, .dtype = x->dtype,
                     .dtype_y = y->dtype, .x = run_span(b[0], x, 0), .y = run_span(b[2], y, 0),
                     .ldx = whole_rows ? x->ld : 0, .ldy = whole_rows ? y->ld : 0, .eps = (float)eps);
    if (!whole_rows && (!run_pack(r, x, &desc.x) || !run_pack_output(r, y, &desc.y))) {
        return CASE_FAILED;
    }
    if (w) {
        desc.weight = spread ? hal_whole(b[1]) : run_span(b[1], w, 0);
        desc.dtype_weight = w->dtype;
    }
    hal_status status = hal_rmsnorm(r->d->list, &desc);
    if (status == HAL_OK && !whole_rows) {
        status = run_put_back(r, y, desc.y, run_span(b[2], y, 0));
    }
    return finish(r, "hal_rmsnorm", status, y, b[2]);
}

case_result run_fused_add_rmsnorm(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 3, 2);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *w = &c->inputs[1], *residual = &c->inputs[2];
    const case_tensor *y = &c->outputs[0], *sum = &c->outputs[1];
    double eps;
    hal_buffer *b[5];
    if (!case_number(c, "eps", 0, &eps) || !same_shape(x, y) || !same_shape(x, residual) || !same_shape(x, sum) ||
        w->rows * w->columns != x->columns || x->dtype != residual->dtype || x->dtype != sum->dtype) {
        return run_malformed(r, "attributes, shapes or dtypes of FusedAddRMSNorm");
    }
    if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c->attributes, "sum_rounded_before_norm"))) {
        return run_skipped(r, "a norm of the sum before it is rounded");
    }
    if (!stage(r, 3, 2, b)) {
        return CASE_FAILED;
    }
    hal_status status = hal_rmsnorm(
        r->d->list,
        HAL_RMSNORM(.rows = x->rows, .columns = x->columns, .dtype = x->dtype, .dtype_y = y->dtype,
                    .dtype_weight = w->dtype, .x = run_span(b[0], x, 0), .weight = run_span(b[1], w, 0),
                    .residual = run_span(b[2], residual, 0), .y = run_span(b[3], y, 0), .sum = run_span(b[4], sum, 0),
                    .ldx = x->ld, .ldy = y->ld, .ld_residual = residual->ld, .ld_sum = sum->ld, .eps = (float)eps));
    outcome = finish(r, "hal_rmsnorm", status, y, b[3]);
    return outcome == CASE_PASSED ? run_check(r, sum, b[4]) : outcome;
}

case_result run_cast(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *y = &c->outputs[0];
    uint64_t saturate;
    hal_buffer *b[2];
    if (!case_count(c, "saturate", 1, &saturate) || !same_shape(x, y)) {
        return run_malformed(r, "attributes or shapes of Cast");
    }
    if (!stage(r, 1, 1, b)) {
        return CASE_FAILED;
    }
    hal_status status =
        hal_cast(r->d->list, HAL_CAST(.rows = x->rows, .columns = x->columns, .dtype = x->dtype, .dtype_y = y->dtype,
                                      .x = run_span(b[0], x, 0), .y = run_span(b[1], y, 0), .ldx = x->ld, .ldy = y->ld,
                                      .no_saturate = saturate == 0));
    return finish(r, "hal_cast", status, y, b[1]);
}

/* ONNX's QuantizeLinear and DequantizeLinear as `outer` times `blocks` problems of at most `rows` rows of `columns`
 * elements, so that the scale is one for all, one a row or one a column. */
typedef struct scale_layout {
    uint64_t outer, length, rows, columns; /* length: rows of all blocks */
    uint64_t scales;                       /* of a block; 0: all have the same */
    hal_scaling scaling;
} scale_layout;

/* false: the scale's shape is none of these. */
static bool read_scales(const case_file *c, const case_tensor *x, const case_tensor *scale, scale_layout *l)
{
    uint64_t block;
    uint32_t axis = 0;
    *l = (scale_layout){1, x->rows, x->rows, x->columns, 0, HAL_SCALE_TENSOR};
    if (!case_count(c, "block_size", 0, &block) || (scale->rows > 1 && scale->ld != scale->columns)) {
        return false;
    }
    if (scale->rows * scale->columns == 1 && block == 0) {
        return true;
    }
    if (!run_axis(c, x, 1, &axis)) {
        return false;
    }
    const uint64_t length = x->dims[axis];
    bool fits = block || (scale->dim_count == 1 && scale->columns == length);
    for (uint32_t i = 0; block && i < x->dim_count; i++) {
        const uint64_t want = i == axis ? length / block + (length % block != 0) : x->dims[i];
        fits = fits && scale->dim_count == x->dim_count && scale->dims[i] == want;
    }
    if (!block && axis + 1 == x->dim_count) {
        l->scaling = HAL_SCALE_COLUMN;
        return fits;
    }
    l->columns = 1;
    for (uint32_t i = 0; i < x->dim_count; i++) {
        l->outer *= i < axis ? x->dims[i] : 1;
        l->columns *= i > axis ? x->dims[i] : 1;
    }
    l->length = length;
    l->rows = block && block < length ? block : length;
    l->scales = block ? l->columns : 0;
    l->scaling = block ? HAL_SCALE_COLUMN : HAL_SCALE_ROW;
    return fits;
}

/* Each problem of the layout. *x and *codes are packed unless the whole is one problem. */
static hal_status quantize_parts(case_run_state *r, const scale_layout *l, hal_quantize_desc *desc, bool quantize)
{
    const hal_span x = desc->x, codes = desc->codes, scales = desc->scales;
    const uint64_t size = hal_dtype_size(desc->dtype), scale_size = hal_dtype_size(desc->dtype_scales);
    uint64_t blocks = 0;
    desc->columns = l->columns;
    desc->scaling = l->scaling;
    for (uint64_t i = 0; i < l->outer; i++) {
        for (uint64_t at = 0; at < l->length; at += l->rows, blocks++) {
            const uint64_t first = (i * l->length + at) * l->columns;
            desc->rows = l->length - at < l->rows ? l->length - at : l->rows;
            desc->x = run_behind(x, first * size);
            desc->codes = run_behind(codes, first);
            desc->scales = run_behind(scales, blocks * l->scales * scale_size);
            hal_status status = quantize ? hal_quantize(r->d->list, desc) : hal_dequantize(r->d->list, desc);
            if (status != HAL_OK) {
                return status;
            }
        }
    }
    return HAL_OK;
}

case_result run_quantize_linear(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 2, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const bool quantize = strcmp(c->op, "QuantizeLinear") == 0;
    const case_tensor *x = &c->inputs[0], *scale = &c->inputs[1], *y = &c->outputs[0];
    const case_tensor *zero = c->input_count > 2 && c->inputs[2].present ? &c->inputs[2] : NULL;
    const case_tensor *numbers = quantize ? x : y, *codes = quantize ? y : x;
    uint64_t saturate;
    scale_layout layout;
    hal_buffer *b[3];
    for (uint64_t i = 0; zero && i < zero->size; i++) {
        if (zero->data[i] != 0) {
            return run_skipped(r, "a zero point");
        }
    }
    if (!same_shape(x, y) || !case_count(c, "saturate", 1, &saturate)) {
        return run_malformed(r, "shapes or attributes of a quantisation");
    }
    if (codes->dtype != HAL_F8E4M3 || numbers->dtype == HAL_F8E4M3) {
        return run_skipped(r, "a quantisation of these dtypes");
    }
    if (saturate == 0) {
        return run_skipped(r, "a quantisation that does not saturate");
    }
    if (!read_scales(c, x, scale, &layout)) {
        return run_malformed(r, "the scale's shape does not fit");
    }
    if (!stage(r, 2, 1, b)) {
        return CASE_FAILED;
    }
    hal_span in = run_span(b[0], x, 0), out = run_span(b[2], y, 0);
    const bool whole = layout.columns == x->columns && layout.outer == 1 && layout.rows == x->rows;
    if (!whole && (!run_pack(r, x, &in) || !run_pack_output(r, y, &out))) {
        return CASE_FAILED;
    }
    hal_status status =
        quantize_parts(r, &layout,
                       HAL_QUANTIZE(.dtype = numbers->dtype, .dtype_scales = scale->dtype, .x = quantize ? in : out,
                                    .codes = quantize ? out : in, .scales = run_span(b[1], scale, 0),
                                    .ldx = whole ? numbers->ld : 0, .ld_codes = whole ? codes->ld : 0),
                       quantize);
    if (status == HAL_OK && !whole) {
        status = run_put_back(r, y, out, run_span(b[2], y, 0));
    }
    return finish(r, quantize ? "hal_quantize" : "hal_dequantize", status, y, b[2]);
}

case_result run_quantize_rows(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 2);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *codes = &c->outputs[0], *scales = &c->outputs[1];
    hal_buffer *b[3];
    if (!same_shape(x, codes) || codes->dtype != HAL_F8E4M3 || scales->dtype != HAL_F32 ||
        scales->rows * scales->columns != x->rows) {
        return run_malformed(r, "shapes or dtypes of QuantRowE4M3");
    }
    if (!stage(r, 1, 2, b)) {
        return CASE_FAILED;
    }
    hal_status status = hal_quantize(
        r->d->list, HAL_QUANTIZE(.rows = x->rows, .columns = x->columns, .dtype = x->dtype, .x = run_span(b[0], x, 0),
                                 .codes = run_span(b[1], codes, 0), .scales = run_span(b[2], scales, 0), .ldx = x->ld,
                                 .ld_codes = codes->ld));
    outcome = finish(r, "hal_quantize", status, codes, b[1]);
    return outcome == CASE_PASSED ? run_check(r, scales, b[2]) : outcome;
}
