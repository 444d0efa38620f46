/* case_moves.c - operators that move elements: Transpose, Gather, RotaryEmbedding, and operands spread over a larger
 * shape. */
#include "case_run.h"

#include <stdlib.h>
#include <string.h>

/* Strides of a tensor's dimensions, from the row stride of its file. */
static void strides_of(const case_tensor *t, uint64_t *strides)
{
    uint64_t step = t->ld;
    for (uint32_t i = t->dim_count; i-- > 0;) {
        const bool inner = i + 1 == t->dim_count;
        strides[i] = inner ? 1 : step;
        step *= inner ? 1 : t->dims[i];
    }
}

bool run_spreads(const case_tensor *t, const case_tensor *over, uint32_t at)
{
    for (uint32_t i = 0; i < t->dim_count; i++) {
        if (at + i >= over->dim_count || (t->dims[i] != 1 && t->dims[i] != over->dims[at + i])) {
            return false;
        }
    }
    return over->dim_count > 0;
}

hal_buffer *run_spread(case_run_state *r, const case_tensor *t, const case_tensor *over, uint32_t at)
{
    const uint64_t elements = over->rows * over->columns;
    uint64_t own[CASE_DIMS];
    hal_buffer *from = run_upload(r, t->data, t->size), *to = run_scratch(r, elements * hal_dtype_size(t->dtype));
    if (!from || !to) {
        return NULL;
    }
    if (t->rows * t->columns == 1) { /* steps of 0 in every dimension would count as none given */
        hal_status status =
            hal_cmd_fill(r->d->list, hal_whole(to), t->data + t->offset * t->element_size, t->element_size);
        if (status != HAL_OK) {
            run_failed(r, "hal_cmd_fill", status);
        }
        return status == HAL_OK ? to : NULL;
    }
    hal_transpose_desc d =
        *HAL_TRANSPOSE(.rank = over->dim_count, .dtype = t->dtype, .x = run_span(from, t, 0), .y = hal_whole(to));
    strides_of(t, own);
    uint64_t step = 1;
    for (uint32_t i = over->dim_count; i-- > 0;) {
        const bool has = i >= at && i - at < t->dim_count;
        d.perm[i] = i;
        d.dims[i] = over->dims[i];
        d.strides_x[i] = has && t->dims[i - at] > 1 ? own[i - at] : 0;
        d.strides_y[i] = step;
        step *= over->dims[i];
    }
    hal_status status = hal_transpose(r->d->list, &d);
    if (status != HAL_OK) {
        run_failed(r, "hal_transpose", status);
        return NULL;
    }
    return to;
}

/* A copy of t's rows, from one distance between them to another. */
static hal_status copy_rows(case_run_state *r, const case_tensor *t, hal_span from, uint64_t ldx, hal_span to,
                            uint64_t ldy)
{
    return hal_transpose(r->d->list,
                         HAL_TRANSPOSE(.rank = 2, .dims = {t->rows, t->columns}, .perm = {0, 1}, .dtype = t->dtype,
                                       .x = from, .y = to, .strides_x = {ldx, 1}, .strides_y = {ldy, 1}));
}

bool run_pack_output(case_run_state *r, const case_tensor *out, hal_span *span)
{
    if (out->ld == out->columns) {
        return true;
    }
    hal_buffer *packed = run_scratch(r, out->rows * out->columns * hal_dtype_size(out->dtype));
    *span = packed ? hal_whole(packed) : *span;
    return packed != NULL;
}

bool run_pack(case_run_state *r, const case_tensor *in, hal_span *span)
{
    const hal_span from = *span;
    if (in->ld == in->columns) {
        return true;
    }
    if (!run_pack_output(r, in, span)) {
        return false;
    }
    hal_status status = copy_rows(r, in, from, in->ld, *span, in->columns);
    return status == HAL_OK || (run_failed(r, "hal_transpose", status), false);
}

hal_status run_put_back(case_run_state *r, const case_tensor *out, hal_span packed, hal_span to)
{
    return out->ld == out->columns ? HAL_OK : copy_rows(r, out, packed, out->columns, to, out->ld);
}

/* perm, or the dimensions in reverse. */
static bool read_perm(const case_file *c, uint32_t rank, uint32_t *perm)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->attributes, "perm");
    uint32_t seen = 0;
    if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != (int)rank)) {
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        const cJSON *item = list ? cJSON_GetArrayItem(list, (int)i) : NULL;
        double value = item ? cJSON_GetNumberValue(item) : (double)(rank - 1 - i);
        if (!(value >= 0 && value < rank) || value != (double)(uint32_t)value) {
            return false;
        }
        perm[i] = (uint32_t)value;
        seen |= 1u << perm[i];
    }
    return seen == (1u << rank) - 1;
}

case_result run_transpose(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *y = &c->outputs[0];
    hal_transpose_desc desc = *HAL_TRANSPOSE(.rank = x->dim_count, .dtype = x->dtype);
    if (x->dim_count == 0) {
        return run_skipped(r, "a transposition of no dimensions");
    }
    if (x->dim_count != y->dim_count || x->dtype != y->dtype || !read_perm(c, x->dim_count, desc.perm)) {
        return run_malformed(r, "perm or shapes of Transpose");
    }
    memcpy(desc.dims, x->dims, sizeof desc.dims);
    strides_of(x, desc.strides_x);
    strides_of(y, desc.strides_y);
    for (uint32_t i = 0; i < x->dim_count; i++) {
        if (y->dims[i] != x->dims[desc.perm[i]]) {
            return run_malformed(r, "shapes of Transpose");
        }
    }
    hal_buffer *from = run_upload(r, x->data, x->size), *to = run_poisoned(r, y);
    if (!from || !to) {
        return CASE_FAILED;
    }
    desc.x = run_span(from, x, 0);
    desc.y = run_span(to, y, 0);
    hal_status status = hal_transpose(r->d->list, &desc);
    return status == HAL_OK ? run_check(r, y, to) : run_failed(r, "hal_transpose", status);
}

/* Whole numbers of a packed tensor as int32, `add` added to negative ones; NULL with `why` set. */
static hal_buffer *upload_int32(case_run_state *r, const case_tensor *t, int64_t add)
{
    const uint64_t count = t->rows * t->columns;
    if (t->dtype != HAL_DTYPE_DEFAULT || t->element_size < 4 || t->ld != t->columns) {
        run_malformed(r, "indices are not packed int32 or int64");
        return NULL;
    }
    int32_t *narrow = malloc(count * sizeof *narrow + 1);
    for (uint64_t i = 0; narrow && i < count; i++) {
        const uint8_t *at = t->data + (t->offset + i) * t->element_size;
        int64_t wide;
        int32_t word;
        memcpy(&wide, at, t->element_size == 8 ? 8 : 0);
        memcpy(&word, at, sizeof word);
        wide = t->element_size == 8 ? wide : word;
        wide += wide < 0 ? add : 0;
        narrow[i] = wide < INT32_MIN || wide > INT32_MAX ? -1 : (int32_t)wide;
    }
    hal_buffer *buffer = narrow ? run_upload(r, narrow, count * sizeof *narrow) : NULL;
    free(narrow);
    return buffer;
}

/* ONNX's Gather: a look-up of rows for each index before the axis. */
case_result run_gather(case_run_state *r)
{
    const case_file *c = r->c;
    case_result outcome = run_check_tensors(r, 1, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *x = &c->inputs[0], *y = &c->outputs[0];
    const case_tensor *ids = c->input_count > 1 && c->inputs[1].present ? &c->inputs[1] : NULL;
    uint32_t axis;
    uint64_t outer = 1, inner = 1;
    if (!ids || !run_axis(c, x, 0, &axis)) {
        return run_malformed(r, "indices or axis of Gather");
    }
    for (uint32_t i = 0; i < x->dim_count; i++) {
        outer *= i < axis ? x->dims[i] : 1;
        inner *= i > axis ? x->dims[i] : 1;
    }
    const uint64_t rows = x->dims[axis], count = ids->rows * ids->columns;
    if (y->rows * y->columns != outer * count * inner) {
        return run_malformed(r, "shapes of Gather");
    }
    hal_buffer *table = run_upload(r, x->data, x->size), *numbers = upload_int32(r, ids, (int64_t)rows),
               *to = run_poisoned(r, y);
    if (!table || !numbers || !to) {
        return CASE_FAILED;
    }
    const uint64_t size = hal_dtype_size(x->dtype), size_y = hal_dtype_size(y->dtype);
    hal_span sx = run_span(table, x, 0), sy = run_span(to, y, 0);
    if (!run_pack(r, x, &sx) || !run_pack_output(r, y, &sy)) {
        return CASE_FAILED;
    }
    for (uint64_t i = 0; i < outer; i++) {
        hal_status status = hal_gather(
            r->d->list, HAL_GATHER(.count = count, .columns = inner, .table_rows = rows, .dtype = x->dtype,
                                   .dtype_y = y->dtype, .table = run_behind(sx, i * rows * inner * size),
                                   .ids = hal_whole(numbers), .y = run_behind(sy, i * count * inner * size_y)));
        if (status != HAL_OK) {
            return run_failed(r, "hal_gather", status);
        }
    }
    hal_status status = run_put_back(r, y, sy, run_span(to, y, 0));
    return status == HAL_OK ? run_check(r, y, to) : run_failed(r, "hal_transpose", status);
}

/* A cache of RotaryEmbedding in FP32; NULL with `why` set. */
static hal_buffer *upload_floats(case_run_state *r, const case_tensor *t)
{
    const uint64_t count = t->rows * t->columns;
    if (t->dtype == HAL_DTYPE_DEFAULT || t->ld != t->columns) {
        run_malformed(r, "a cache is not of packed numbers");
        return NULL;
    }
    float *wide = malloc(count * sizeof *wide + 1);
    hal_buffer *buffer = NULL;
    if (wide && hal_numeric_decode(t->dtype, t->data + t->offset * t->element_size, count, wide) == HAL_OK) {
        buffer = run_upload(r, wide, count * sizeof *wide);
    }
    free(wide);
    return buffer;
}

typedef struct rotary {
    const case_tensor *x, *cos, *sin, *ids;
    uint64_t batch, tokens;
    hal_rope_desc desc;
} rotary;

static case_result read_rotary(case_run_state *r, rotary *o)
{
    const case_file *c = r->c;
    uint64_t interleaved, heads, dim;
    *o = (rotary){.x = &c->inputs[0], .cos = &c->inputs[1], .sin = &c->inputs[2]};
    o->ids = c->input_count > 3 && c->inputs[3].present ? &c->inputs[3] : NULL;
    const case_tensor *x = o->x, *y = &c->outputs[0];
    if (!case_count(c, "interleaved", 0, &interleaved) || !case_count(c, "num_heads", 0, &heads) ||
        !case_count(c, "rotary_embedding_dim", 0, &dim) || (x->dim_count != 3 && x->dim_count != 4) ||
        (x->dim_count == 3 && (!heads || x->dims[2] % heads)) || x->rows != y->rows || x->columns != y->columns ||
        o->cos->dim_count != (o->ids ? 2 : 3) || o->cos->dim_count != o->sin->dim_count ||
        o->cos->rows != o->sin->rows || o->cos->columns != o->sin->columns) {
        return run_malformed(r, "attributes or shapes of RotaryEmbedding");
    }
    if (x->dtype != y->dtype) {
        return run_skipped(r, "RotaryEmbedding to another dtype");
    }
    const bool tokens_first = x->dim_count == 3;
    o->batch = x->dims[0];
    o->tokens = x->dims[tokens_first ? 1 : 2];
    heads = tokens_first ? heads : x->dims[1];
    const uint64_t head_dim = x->dims[x->dim_count - 1] / (tokens_first ? heads : 1), rotated = dim ? dim : head_dim;
    if (o->cos->columns != rotated / 2 || (o->ids && o->ids->rows * o->ids->columns != o->batch * o->tokens) ||
        (!o->ids && (o->cos->dims[0] != o->batch || o->cos->dims[1] != o->tokens))) {
        return run_malformed(r, "caches or positions of RotaryEmbedding");
    }
    o->desc = *HAL_ROPE(.tokens = o->tokens, .heads = (uint32_t)heads, .head_dim = (uint32_t)head_dim,
                        .rotary_dim = (uint32_t)rotated, .interleaved = interleaved != 0, .dtype = x->dtype,
                        .positions = o->ids ? o->cos->dims[0] : o->tokens);
    o->desc.x_token = o->desc.y_token = tokens_first ? heads * head_dim : head_dim;
    o->desc.x_head = o->desc.y_head = tokens_first ? head_dim : o->tokens * head_dim;
    return CASE_PASSED;
}

/* ONNX's RotaryEmbedding: one call a sequence. */
case_result run_rotary(case_run_state *r)
{
    rotary o;
    case_result outcome = run_check_tensors(r, 3, 1);
    outcome = outcome == CASE_PASSED ? read_rotary(r, &o) : outcome;
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    const case_tensor *y = &r->c->outputs[0];
    hal_buffer *x = run_upload(r, o.x->data, o.x->size), *to = run_poisoned(r, y), *cos = upload_floats(r, o.cos),
               *sin = upload_floats(r, o.sin), *ids = o.ids ? upload_int32(r, o.ids, 0) : NULL;
    if (!x || !to || !cos || !sin || (o.ids && !ids)) {
        return CASE_FAILED;
    }
    hal_span from = run_span(x, o.x, 0), result = run_span(to, y, 0);
    if (!run_pack(r, o.x, &from) || !run_pack_output(r, y, &result)) {
        return CASE_FAILED;
    }
    for (uint64_t i = 0; i < o.batch; i++) {
        const uint64_t first = i * o.x->rows / o.batch * o.x->columns,
                       table = o.ids ? 0 : i * o.tokens * o.cos->columns;
        o.desc.x = run_behind(from, first * o.x->element_size);
        o.desc.y = run_behind(result, first * y->element_size);
        o.desc.cos = hal_at(cos, table * 4);
        o.desc.sin = hal_at(sin, table * 4);
        o.desc.position_ids = ids ? hal_at(ids, i * o.tokens * 4) : (hal_span){0};
        hal_status status = hal_rope(r->d->list, &o.desc);
        if (status != HAL_OK) {
            return run_failed(r, "hal_rope", status);
        }
    }
    hal_status status = run_put_back(r, y, result, run_span(to, y, 0));
    return status == HAL_OK ? run_check(r, y, to) : run_failed(r, "hal_transpose", status);
}
