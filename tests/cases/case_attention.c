/* case_attention.c - ONNX's Attention and FlexAttention, and the recipes' packed and paged Attention. */
#include "case_run.h"

#include <stdlib.h>
#include <string.h>

/* Q, K, V or Y of ONNX as [batch][heads][tokens][dim], with its strides: (batch, heads, tokens, dim) or (batch, tokens,
 * heads * dim). */
typedef struct heads {
    uint64_t batch, count, tokens, dim;
    uint64_t batch_stride, token, head;
} heads;

static bool read_heads(const case_tensor *t, uint64_t count, heads *h)
{
    if (t->ld != t->columns || t->offset) {
        return false;
    }
    if (t->dim_count == 4) {
        *h = (heads){t->dims[0], t->dims[1], t->dims[2], t->dims[3], 0, t->dims[3], t->dims[2] * t->dims[3]};
        h->batch_stride = h->count * h->head;
        return true;
    }
    if (t->dim_count != 3 || count == 0 || t->dims[2] % count) {
        return false;
    }
    *h = (heads){t->dims[0],        count, t->dims[1], t->dims[2] / count, t->dims[1] * t->dims[2], t->dims[2],
                 t->dims[2] / count};
    return true;
}

/* What the runner knows of an ONNX case on its way. */
typedef struct onnx_attention {
    const case_tensor *q, *k, *v, *y, *mask, *past_k, *past_v, *lengths, *present_k, *present_v, *scores;
    heads hq, hk, hv, hy;
    uint64_t past;
    hal_attention_desc desc;
} onnx_attention;

static const case_tensor *input_at(const case_file *c, uint32_t i)
{
    return i < c->input_count && c->inputs[i].present ? &c->inputs[i] : NULL;
}

static const case_tensor *output_at(const case_file *c, uint32_t i)
{
    return i < c->output_count && c->outputs[i].present ? &c->outputs[i] : NULL;
}

/* [batch][heads][tokens][dim], or absent. */
static bool is_past(const case_tensor *t, const heads *h)
{
    return !t || (t->dim_count == 4 && t->dims[0] == h->batch && t->dims[1] == h->count && t->dims[3] == h->dim &&
                  t->ld == t->columns && !t->offset && t->element_size);
}

static case_result read_onnx(case_run_state *r, onnx_attention *a)
{
    const case_file *c = r->c;
    uint64_t causal, q_heads, kv_heads, mode;
    double scale, softcap;
    *a = (onnx_attention){.q = &c->inputs[0],
                          .k = &c->inputs[1],
                          .v = &c->inputs[2],
                          .y = &c->outputs[0],
                          .mask = input_at(c, 3),
                          .past_k = input_at(c, 4),
                          .past_v = input_at(c, 5),
                          .lengths = input_at(c, 6),
                          .present_k = output_at(c, 1),
                          .present_v = output_at(c, 2),
                          .scores = output_at(c, 3)};
    if (!case_count(c, "is_causal", 0, &causal) || !case_count(c, "q_num_heads", 0, &q_heads) ||
        !case_count(c, "kv_num_heads", 0, &kv_heads) || !case_count(c, "qk_matmul_output_mode", 0, &mode) ||
        !case_number(c, "scale", 0, &scale) || !case_number(c, "softcap", 0, &softcap)) {
        return run_malformed(r, "attributes of Attention");
    }
    if (!read_heads(a->q, q_heads, &a->hq) || !read_heads(a->k, kv_heads, &a->hk) ||
        !read_heads(a->v, kv_heads, &a->hv) || !read_heads(a->y, q_heads, &a->hy) || a->hk.count == 0 ||
        a->hq.count % a->hk.count || a->hv.count != a->hk.count || a->hk.tokens != a->hv.tokens ||
        a->hk.batch != a->hq.batch || a->hv.batch != a->hq.batch || a->hq.dim != a->hk.dim ||
        !a->past_k != !a->past_v || !is_past(a->past_k, &a->hk) || !is_past(a->past_v, &a->hv)) {
        return run_malformed(r, "shapes of Attention do not fit together");
    }
    if (mode > HAL_SCORES_WEIGHTS ||
        (a->scores && (a->scores->dim_count != 4 || a->scores->offset || a->scores->ld != a->scores->columns))) {
        return run_malformed(r, "qk_matmul_output or its mode");
    }
    if (a->k->dtype != a->q->dtype || a->v->dtype != a->q->dtype) {
        return run_skipped(r, "attention of mixed dtypes");
    }
    if (cJSON_GetObjectItemCaseSensitive(c->attributes, "score_mod") ||
        cJSON_GetObjectItemCaseSensitive(c->attributes, "prob_mod")) {
        return run_skipped(r, "a graph of the caller's on scores or weights");
    }
    a->past = a->past_k ? a->past_k->dims[2] : 0;
    a->desc =
        *HAL_ATTENTION(.batch = a->hq.batch, .q_heads = (uint32_t)a->hq.count, .kv_heads = (uint32_t)a->hk.count,
                       .head_dim = (uint32_t)a->hq.dim, .value_dim = (uint32_t)a->hv.dim, .q_length = a->hq.tokens,
                       .kv_length = a->past + a->hk.tokens, .dtype = a->q->dtype, .dtype_o = a->y->dtype,
                       .scale = (float)scale, .softcap = (float)softcap, .scores_kind = (hal_scores)mode);
    if (causal) { /* with fewer keys than there is room for, aligned to the last query */
        a->desc.causal = a->lengths ? HAL_CAUSAL_BOTTOM_RIGHT : HAL_CAUSAL_TOP_LEFT;
        a->desc.causal_offset = (int64_t)a->past;
    }
    return CASE_PASSED;
}

/* present = past, if there is one, followed by the new tokens, [batch][heads][past + new][dim]. */
static hal_status concatenate(case_run_state *r, const case_tensor *past, const case_tensor *fresh, const heads *h,
                              const case_tensor *present, hal_buffer **out)
{
    const uint64_t before = past ? past->dims[2] : 0, all = before + h->tokens;
    const uint64_t size = h->batch * h->count * all * h->dim * hal_dtype_size(fresh->dtype);
    hal_buffer *new = run_upload(r, fresh->data, fresh->size),
               *old = past ? run_upload(r, past->data, past->size) : new;
    *out = present ? run_poisoned(r, present) : run_scratch(r, size);
    if (!old || !new || !*out || hal_buffer_size(*out) < size) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    hal_transpose_desc copy =
        *HAL_TRANSPOSE(.rank = 4, .dims = {h->batch, h->count, before, h->dim}, .perm = {0, 1, 2, 3},
                       .dtype = fresh->dtype, .x = hal_whole(old), .y = hal_whole(*out),
                       .strides_x = {h->count * before * h->dim, before * h->dim, h->dim, 1},
                       .strides_y = {h->count * all * h->dim, all * h->dim, h->dim, 1});
    hal_status status = hal_transpose(r->d->list, &copy);
    copy.dims[2] = h->tokens;
    copy.x = hal_whole(new);
    copy.y = hal_at(*out, before * h->dim * hal_dtype_size(fresh->dtype));
    const uint64_t strides[] = {h->batch_stride, h->head, h->token, 1};
    memcpy(copy.strides_x, strides, sizeof strides);
    return status == HAL_OK ? hal_transpose(r->d->list, &copy) : status;
}

/* K and V of the descriptor, with the past before them where there is one. */
static hal_status give_keys(case_run_state *r, onnx_attention *a, hal_buffer **k, hal_buffer **v)
{
    hal_attention_desc *d = &a->desc;
    if (a->past_k || a->present_k || a->present_v) {
        const uint64_t all = d->kv_length;
        hal_status status = concatenate(r, a->past_k, a->k, &a->hk, a->present_k, k);
        status = status == HAL_OK ? concatenate(r, a->past_v, a->v, &a->hv, a->present_v, v) : status;
        a->hk.token = a->hk.dim;
        a->hv.token = a->hv.dim;
        a->hk.head = all * a->hk.dim;
        a->hv.head = all * a->hv.dim;
        a->hk.batch_stride = a->hk.count * a->hk.head;
        a->hv.batch_stride = a->hv.count * a->hv.head;
        if (status != HAL_OK) {
            return status;
        }
    } else {
        *k = run_upload(r, a->k->data, a->k->size);
        *v = run_upload(r, a->v->data, a->v->size);
    }
    if (!*k || !*v) {
        return HAL_ERROR_OUT_OF_MEMORY;
    }
    d->k = hal_whole(*k);
    d->v = hal_whole(*v);
    d->k_batch = a->hk.batch_stride;
    d->k_token = a->hk.token;
    d->k_head = a->hk.head;
    d->v_batch = a->hv.batch_stride;
    d->v_token = a->hv.token;
    d->v_head = a->hv.head;
    return HAL_OK;
}

/* Any mask over [batch][heads][q][kv]: each dimension spreads, and keys behind its last are hidden. NULL with `why`
 * set. */
static uint8_t *whole_mask(case_run_state *r, const case_tensor *m, const hal_attention_desc *d)
{
    const uint64_t shape[] = {d->batch, d->q_heads, d->q_length, d->kv_length}, size = m->element_size;
    uint64_t steps[4] = {0}, step = m->ld;
    if (m->dim_count > 4) {
        run_malformed(r, "a mask of more than four dimensions");
        return NULL;
    }
    for (uint32_t i = 0; i < m->dim_count; i++) { /* from the last dimension on */
        const uint64_t length = m->dims[m->dim_count - 1 - i], over = shape[3 - i];
        if (i == 0 ? length > over : length != 1 && length != over) {
            run_malformed(r, "the mask does not spread over the scores");
            return NULL;
        }
        steps[3 - i] = i == 0 ? 1 : length > 1 ? step : 0;
        step *= i == 0 ? 1 : length;
    }
    const uint64_t keys = m->dim_count ? m->columns : d->kv_length, rows = d->batch * d->q_heads * d->q_length;
    const bool half = m->dtype == HAL_F16;
    const uint8_t hidden[] = {0, 0, half ? 0 : 0x80, size == 1 ? 0 : half ? 0xfc : 0xff}; /* false, or -inf */
    uint8_t *whole = malloc(rows * d->kv_length * size + 1);
    for (uint64_t i = 0; whole && i < rows * d->kv_length; i++) {
        const uint64_t key = i % d->kv_length, row = i / d->kv_length, query = row % d->q_length,
                       head = row / d->q_length % d->q_heads, batch = row / d->q_length / d->q_heads;
        const uint64_t at = m->offset + batch * steps[0] + head * steps[1] + query * steps[2] + key * steps[3];
        memcpy(whole + i * size, key < keys ? m->data + at * size : hidden + 4 - size, size);
    }
    return whole;
}

/* The mask as it lies where its leading dimensions are those of the scores or 1; else written out. */
static case_result give_mask(case_run_state *r, onnx_attention *a)
{
    const case_tensor *m = a->mask;
    hal_attention_desc *d = &a->desc;
    const uint32_t n = m->dim_count;
    const uint64_t batch = n > 3 ? m->dims[n - 4] : 1, head = n > 2 ? m->dims[n - 3] : 1;
    const bool flags = strcmp(m->dtype_name, "bool") == 0;
    if (!flags && (m->dtype == HAL_DTYPE_DEFAULT || m->dtype == HAL_F8E4M3)) {
        return run_skipped(r, "this dtype of a mask");
    }
    const bool lies = n >= 2 && n <= 4 && m->ld == m->columns && m->dims[n - 1] == d->kv_length &&
                      m->dims[n - 2] == d->q_length && (batch == 1 || batch == d->batch) &&
                      (head == 1 || head == d->q_heads);
    uint8_t *whole = lies ? NULL : whole_mask(r, m, d);
    if (!lies && !whole) {
        return CASE_FAILED;
    }
    const uint64_t plane = d->q_length * d->kv_length;
    hal_buffer *buffer =
        lies ? run_upload(r, m->data, m->size) : run_upload(r, whole, d->batch * d->q_heads * plane * m->element_size);
    free(whole);
    if (!buffer) {
        return CASE_FAILED;
    }
    d->mask = lies ? hal_at(buffer, m->offset * m->element_size) : hal_whole(buffer);
    d->mask_kind = flags ? HAL_MASK_BOOL : HAL_MASK_ADD;
    d->dtype_mask = flags ? HAL_DTYPE_DEFAULT : m->dtype;
    d->mask_row = d->kv_length;
    d->mask_head = !lies || head > 1 ? plane : 0;
    d->mask_batch = !lies ? d->q_heads * plane : batch > 1 ? head * plane : 0;
    return CASE_PASSED;
}

/* nonpad_kv_seqlen, narrowed to int32. */
static case_result give_lengths(case_run_state *r, onnx_attention *a)
{
    const case_tensor *t = a->lengths;
    const uint64_t count = t->rows * t->columns;
    if (t->element_size != 8 || count != a->desc.batch) {
        return run_malformed(r, "nonpad_kv_seqlen is not one int64 a sequence");
    }
    int32_t *narrow = malloc(count * sizeof *narrow + 1);
    for (uint64_t i = 0; narrow && i < count; i++) {
        int64_t wide;
        memcpy(&wide, t->data + i * sizeof wide, sizeof wide);
        if (wide < 0 || (uint64_t)wide > a->desc.kv_length) {
            free(narrow);
            return run_malformed(r, "nonpad_kv_seqlen is beyond the keys");
        }
        narrow[i] = (int32_t)wide;
    }
    hal_buffer *buffer = narrow ? run_upload(r, narrow, count * sizeof *narrow) : NULL;
    free(narrow);
    if (!buffer) {
        return CASE_FAILED;
    }
    a->desc.kv_lengths = hal_whole(buffer);
    return CASE_PASSED;
}

/* ONNX's qk_matmul_output. Before the mask it has the padding behind nonpad_kv_seqlen, too, which libhal does not read:
 * then it comes from another call, without the lengths. */
static case_result run_scores(case_run_state *r, const onnx_attention *a)
{
    const case_tensor *t = a->scores;
    hal_attention_desc d = a->desc;
    const uint64_t shape[] = {d.batch, d.q_heads, d.q_length, d.kv_length};
    if (memcmp(t->dims, shape, sizeof shape) != 0 || t->dtype == HAL_DTYPE_DEFAULT) {
        return run_malformed(r, "shape or dtype of qk_matmul_output");
    }
    hal_buffer *scores = run_poisoned(r, t), *o = run_scratch(r, a->y->size);
    if (!scores || !o) {
        return CASE_FAILED;
    }
    d.o = hal_whole(o);
    d.scores = hal_whole(scores);
    d.dtype_scores = t->dtype;
    if (d.scores_kind < HAL_SCORES_MASKED) {
        d.kv_lengths = (hal_span){0};
    }
    hal_status status = hal_attention(r->d->list, &d);
    return status == HAL_OK ? run_check(r, t, scores) : run_failed(r, "hal_attention with scores", status);
}

static case_result run_onnx(case_run_state *r)
{
    onnx_attention a;
    hal_buffer *k = NULL, *v = NULL;
    case_result outcome = read_onnx(r, &a);
    if (outcome == CASE_PASSED && a.mask) {
        outcome = give_mask(r, &a);
    }
    if (outcome == CASE_PASSED && a.lengths) {
        outcome = give_lengths(r, &a);
    }
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    hal_buffer *q = run_upload(r, a.q->data, a.q->size), *y = run_poisoned(r, a.y);
    if (!q || !y) {
        return CASE_FAILED;
    }
    hal_status status = give_keys(r, &a, &k, &v);
    if (status != HAL_OK) {
        return run_failed(r, "keys and values", status);
    }
    a.desc.q = hal_whole(q);
    a.desc.o = hal_whole(y);
    a.desc.q_batch = a.hq.batch_stride;
    a.desc.q_token = a.hq.token;
    a.desc.q_head = a.hq.head;
    a.desc.o_batch = a.hy.batch_stride;
    a.desc.o_token = a.hy.token;
    a.desc.o_head = a.hy.head;
    status = hal_attention(r->d->list, &a.desc);
    if (status != HAL_OK) {
        return run_failed(r, "hal_attention", status);
    }
    outcome = run_check(r, a.y, y);
    if (outcome == CASE_PASSED && a.present_k) {
        outcome = run_check(r, a.present_k, k);
    }
    if (outcome == CASE_PASSED && a.present_v) {
        outcome = run_check(r, a.present_v, v);
    }
    return outcome == CASE_PASSED && a.scores ? run_scores(r, &a) : outcome;
}

/* A span of int32 of a recipe, without gaps between rows; none where there is no such input. */
static bool give_int32(case_run_state *r, const char *name, hal_span *span)
{
    const case_tensor *t = case_input(r->c, name);
    *span = (hal_span){0};
    if (!t) {
        return true;
    }
    const uint64_t row = t->columns * 4;
    uint8_t *whole = malloc(t->rows * row + 1);
    for (uint64_t i = 0; whole && i < t->rows; i++) {
        memcpy(whole + i * row, t->data + (t->offset + i * t->ld) * 4, row);
    }
    hal_buffer *buffer = whole ? run_upload(r, whole, t->rows * row) : NULL;
    free(whole);
    *span = buffer ? hal_whole(buffer) : *span;
    return buffer != NULL;
}

static int32_t value_at(const case_tensor *t, uint64_t i)
{
    int32_t value;
    memcpy(&value, t->data + (t->offset + i) * 4, 4);
    return value;
}

static bool is_int32(const case_tensor *t)
{
    return t && t->element_size == 4 && t->dtype == HAL_DTYPE_DEFAULT;
}

/* Cumulative lengths, of so many tokens at most; *longest is the greatest of the lengths. */
static bool cumulative(const case_tensor *t, uint64_t tokens, uint64_t *longest)
{
    *longest = 0;
    if (!is_int32(t) || t->rows != 1 || t->columns == 0 || value_at(t, 0) < 0) {
        return false;
    }
    for (uint64_t i = 1; i < t->columns; i++) {
        const int64_t length = (int64_t)value_at(t, i) - value_at(t, i - 1);
        if (length < 0) {
            return false;
        }
        *longest = (uint64_t)length > *longest ? (uint64_t)length : *longest;
    }
    return (uint64_t)value_at(t, t->columns - 1) <= tokens;
}

/* Lengths of paged sequences, and a table whose pages are there as far as the lengths go: libhal trusts both. A length
 * beyond the table is for it to refuse. */
static bool paged(const case_tensor *lens, const case_tensor *table, uint64_t batch, uint64_t page, uint64_t pages,
                  uint64_t *longest)
{
    *longest = 0;
    if (!is_int32(lens) || !is_int32(table) || lens->rows != 1 || lens->columns != batch || table->rows != batch) {
        return false;
    }
    for (uint64_t s = 0; s < batch; s++) {
        const int32_t length = value_at(lens, s);
        if (length < 0) {
            return false;
        }
        *longest = (uint64_t)length > *longest ? (uint64_t)length : *longest;
        for (uint64_t i = 0; i < table->columns && i * page < (uint64_t)length; i++) {
            const int32_t number = value_at(table, s * table->ld + i);
            if (number < 0 || (uint64_t)number >= pages) {
                return false;
            }
        }
    }
    return true;
}

/* Strides of [token][head][dim], dim padded to ld; false if it is none. */
static bool packed(const case_tensor *t, uint32_t first, uint64_t count, uint64_t *token, uint64_t *head)
{
    if (t->dim_count != first + 2 || t->dims[first] != count) {
        return false;
    }
    *head = t->ld;
    *token = count * t->ld;
    return true;
}

static case_result read_recipe(case_run_state *r, hal_attention_desc *d)
{
    const case_file *c = r->c;
    const case_tensor *q = &c->inputs[0], *k = &c->inputs[1], *v = &c->inputs[2], *o = &c->outputs[0];
    const case_tensor *cu_q = case_input(c, "cu_q"), *cu_k = case_input(c, "cu_k"), *lens = case_input(c, "kv_lens");
    const case_tensor *table = case_input(c, "block_table");
    uint64_t causal, q_heads, kv_heads, dim, page;
    double scale, softcap;
    if (!case_count(c, "causal", 0, &causal) || !case_count(c, "q_heads", 0, &q_heads) ||
        !case_count(c, "kv_heads", 0, &kv_heads) || !case_count(c, "head_dim", 0, &dim) ||
        !case_count(c, "page_size", 0, &page) || !case_number(c, "scale", 0, &scale) ||
        !case_number(c, "softcap", 0, &softcap) || !cu_q || (page ? !lens || !table : !cu_k) || q->dim_count != 3 ||
        o->dim_count != 3 || q->dims[2] != dim) {
        return run_malformed(r, "attributes or inputs of Attention");
    }
    const uint64_t batch = cu_q->columns - 1;
    uint64_t q_length, kv_length;
    if (!cumulative(cu_q, q->dims[0], &q_length) ||
        !(page ? paged(lens, table, batch, page, k->dims[0], &kv_length)
               : cumulative(cu_k, k->dims[0], &kv_length) && cu_k->columns == batch + 1)) {
        return run_malformed(r, "lengths or pages of Attention");
    }
    *d = *HAL_ATTENTION(.batch = batch, .q_heads = (uint32_t)q_heads, .kv_heads = (uint32_t)kv_heads,
                        .head_dim = (uint32_t)dim, .value_dim = (uint32_t)o->dims[2], .q_length = q_length,
                        .kv_length = kv_length, .q_tokens = q->dims[0], .dtype = q->dtype, .dtype_o = o->dtype,
                        .scale = (float)scale, .softcap = (float)softcap, .page_size = (uint32_t)page,
                        .causal = !causal ? HAL_CAUSAL_NONE
                                  : strcmp(run_text(c, "causal_alignment", "bottom_right"), "top_left") == 0
                                      ? HAL_CAUSAL_TOP_LEFT
                                      : HAL_CAUSAL_BOTTOM_RIGHT);
    const uint32_t first = page ? 2 : 1; /* the heads' dimension of K and V */
    if (!packed(q, 1, q_heads, &d->q_token, &d->q_head) || !packed(o, 1, q_heads, &d->o_token, &d->o_head) ||
        !packed(k, first, kv_heads, &d->k_token, &d->k_head) || !packed(v, first, kv_heads, &d->v_token, &d->v_head)) {
        return run_malformed(r, "shapes of Attention do not fit together");
    }
    if (page) {
        d->pages = k->dims[0];
        d->page_columns = table->columns;
        d->k_batch = page * d->k_token;
        d->v_batch = page * d->v_token;
    } else {
        d->kv_tokens = k->dims[0];
    }
    return CASE_PASSED;
}

/* Of Q, K and V and what says where they lie; a mask, say, is not for packed sequences. */
static bool knows_inputs(const case_file *c)
{
    static const char *const known[] = {"cu_q", "cu_k", "kv_lens", "block_table"};
    bool all = true;
    for (uint32_t i = 3; i < c->input_count && all; i++) {
        all = !c->inputs[i].present;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            all = all || strcmp(c->inputs[i].name, known[k]) == 0;
        }
    }
    return all;
}

static case_result run_recipe(case_run_state *r)
{
    const case_file *c = r->c;
    hal_attention_desc d;
    if (!knows_inputs(c)) {
        return run_skipped(r, "a further input of packed attention");
    }
    if (c->inputs[1].dtype != c->inputs[0].dtype || c->inputs[2].dtype != c->inputs[0].dtype) {
        return run_skipped(r, "attention of mixed dtypes");
    }
    case_result outcome = read_recipe(r, &d);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    if (!give_int32(r, "cu_q", &d.cu_q) || !give_int32(r, "cu_k", &d.cu_k) ||
        !give_int32(r, "kv_lens", &d.kv_lengths) || !give_int32(r, "block_table", &d.page_table)) {
        return CASE_FAILED;
    }
    const case_tensor *lse = output_at(c, 1);
    lse = lse && strncmp(lse->name, "LSE", 3) == 0 ? lse : NULL;
    hal_buffer *in[3], *o = run_poisoned(r, &c->outputs[0]), *lse_buffer = lse ? run_poisoned(r, lse) : NULL;
    for (uint32_t i = 0; i < 3; i++) {
        in[i] = run_upload(r, c->inputs[i].data, c->inputs[i].size);
        if (!in[i]) {
            return CASE_FAILED;
        }
    }
    if (!o || (lse && !lse_buffer)) {
        return CASE_FAILED;
    }
    d.q = run_span(in[0], &c->inputs[0], 0);
    d.k = run_span(in[1], &c->inputs[1], 0);
    d.v = run_span(in[2], &c->inputs[2], 0);
    d.o = run_span(o, &c->outputs[0], 0);
    if (lse) {
        d.lse = run_span(lse_buffer, lse, 0);
    }
    hal_status status = hal_attention(r->d->list, &d);
    if (status != HAL_OK) {
        return run_failed(r, "hal_attention", status);
    }
    outcome = run_check(r, &c->outputs[0], o);
    return outcome == CASE_PASSED && lse ? run_check(r, lse, lse_buffer) : outcome;
}

case_result run_attention(case_run_state *r)
{
    case_result outcome = run_check_tensors(r, 3, 1);
    if (outcome != CASE_PASSED) {
        return outcome;
    }
    return case_input(r->c, "cu_q") ? run_recipe(r) : run_onnx(r);
}
