/* attention_case.c - see attention_case.h. */
#include "attention_case.h"

#include "attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t q_heads(const attention_case *c)
{
    return c->kv_heads * c->ratio;
}

static uint64_t queries_of(const attention_case *c, uint64_t s)
{
    return c->cu_q ? (uint64_t)(c->cu_q[s + 1] - c->cu_q[s]) : c->q_length;
}

static uint64_t keys_of(const attention_case *c, uint64_t s)
{
    return c->cu_k ? (uint64_t)(c->cu_k[s + 1] - c->cu_k[s]) : c->lengths ? (uint64_t)c->lengths[s] : c->kv_length;
}

/* Row of a tensor of `length` tokens a sequence. */
static uint64_t row_of(const attention_case *c, uint64_t s, uint64_t length, uint64_t token, uint32_t heads,
                       uint32_t head)
{
    return c->heads_first ? (s * heads + head) * length + token : (s * length + token) * heads + head;
}

uint64_t attention_query_row(const attention_case *c, uint64_t s, uint64_t query, uint32_t head)
{
    return c->cu_q ? ((uint64_t)c->cu_q[s] + query) * q_heads(c) + head
                   : row_of(c, s, c->q_length, query, q_heads(c), head);
}

uint64_t attention_key_row(const attention_case *c, uint64_t s, uint64_t key, uint32_t head)
{
    if (c->cu_k) {
        return ((uint64_t)c->cu_k[s] + key) * c->kv_heads + head;
    }
    if (!c->pages) {
        return row_of(c, s, c->kv_length, key, c->kv_heads, head);
    }
    const uint64_t page = (uint64_t)c->pages[s * c->page_columns + key / c->page_size];
    return row_of(c, page, c->page_size, key % c->page_size, c->kv_heads, head);
}

static uint64_t lse_row(const attention_case *c, uint64_t s, uint64_t query)
{
    return c->cu_q ? (uint64_t)c->cu_q[s] + query : s * c->q_length + query;
}

static int32_t *numbers(uint64_t count)
{
    int32_t *array = calloc(count + 1, sizeof *array);
    assert_non_null(array);
    return array;
}

static hal_buffer *upload(fixture *f, const int32_t *array, uint64_t count)
{
    hal_buffer *buffer = NULL;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = (count + 1) * 4), &buffer));
    OK(hal_cmd_upload(f->list, hal_at(buffer, 4), array, count * 4));
    return buffer;
}

/* Cumulative lengths. */
static int32_t *packed(const attention_case *c, const uint32_t *lengths, uint64_t longest, uint64_t *seed)
{
    int32_t *cu = numbers(c->batch + 1);
    for (uint64_t s = 0; s < c->batch; s++) {
        cu[s + 1] = cu[s] + (int32_t)(lengths ? lengths[s] : random_below(seed, (uint32_t)longest + 1));
    }
    return cu;
}

/* Every page belongs to at most one sequence; entries behind the last page that is needed are nonsense. */
static void make_pages(attention_case *c, uint64_t *seed)
{
    c->page_columns = (c->kv_length + c->page_size - 1) / c->page_size + 1;
    c->page_count = c->batch * c->page_columns;
    c->pages = numbers(c->page_count);
    int32_t *order = numbers(c->page_count);
    for (uint64_t i = 0; i < c->page_count; i++) {
        const uint64_t other = random_below(seed, (uint32_t)i + 1);
        order[i] = order[other];
        order[other] = (int32_t)i;
    }
    for (uint64_t i = 0; i < c->page_count; i++) {
        const bool used = i % c->page_columns * c->page_size < keys_of(c, i / c->page_columns);
        c->pages[i] = used ? order[i] : INT32_MAX - 5;
    }
    free(order);
}

static void make_lengths(attention_case *c, fixture *f, uint64_t *seed)
{
    if (c->kind == CASE_PACKED) {
        c->cu_q = packed(c, c->q_lengths, c->q_length, seed);
        c->cu_k = packed(c, c->kv_lengths, c->kv_length, seed);
        c->cu_q_buffer = upload(f, c->cu_q, c->batch + 1);
        c->cu_k_buffer = upload(f, c->cu_k, c->batch + 1);
    } else if (c->kind != CASE_PLAIN) {
        c->lengths = numbers(c->batch);
        for (uint64_t s = 0; s < c->batch; s++) {
            c->lengths[s] = (int32_t)random_below(seed, (uint32_t)c->kv_length + 1);
        }
        c->lengths_buffer = upload(f, c->lengths, c->batch);
    }
    if (c->kind == CASE_PAGED) {
        make_pages(c, seed);
        c->pages_buffer = upload(f, c->pages, c->page_count);
    }
}

/* NaN wherever no sequence has a key. */
static void poison_unused(attention_case *c, operand *x, const bool *used)
{
    for (uint64_t row = 0; row < x->host.rows; row++) {
        for (uint64_t d = 0; d < x->host.columns && !used[row]; d++) {
            matrix_set(&x->host, 0, row, d, NAN);
        }
    }
    (void)c;
}

static void poison(attention_case *c, fixture *f)
{
    bool *used = calloc(c->k.host.rows + 1, sizeof *used);
    assert_non_null(used);
    for (uint64_t s = 0; s < c->batch; s++) {
        for (uint64_t key = 0; key < keys_of(c, s); key++) {
            for (uint32_t h = 0; h < c->kv_heads; h++) {
                used[attention_key_row(c, s, key, h)] = true;
            }
        }
    }
    poison_unused(c, &c->k, used);
    poison_unused(c, &c->v, used);
    free(used);
    operand_upload(&c->k, f);
    operand_upload(&c->v, f);
}

static void make_mask(attention_case *c, fixture *f, uint64_t *seed)
{
    const hal_dtype dtypes[] = {HAL_F32, HAL_F16, HAL_BF16};
    const hal_dtype dtype = c->mask == CASE_BOOL ? HAL_F8E4M3 : dtypes[random_below(seed, 3)];
    const uint64_t rows = c->batch * q_heads(c) * c->q_length;
    operand_create(&c->hides, f, "mask", dtype, rows, c->kv_length, FILL_RANDOM, seed);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t key = 0; key < c->kv_length; key++) {
            const bool hide = random_below(seed, 3) == 0 || (c->hidden_column && key == c->hidden_column) ||
                              (c->hidden_row && row % c->q_length == c->hidden_row);
            if (c->mask == CASE_BOOL) {
                c->hides.host.data[c->hides.host.offset + row * c->hides.host.ld + key] =
                    hide ? 0 : (uint8_t)(1 + key % 3);
            } else if (hide) {
                matrix_set(&c->hides.host, 0, row, key, -INFINITY);
            }
        }
    }
    operand_upload(&c->hides, f);
}

static void make_input(const attention_case *c, operand *x, fixture *f, const char *name, uint64_t rows, uint64_t dim,
                       uint64_t *seed)
{
    if (c->aligned) {
        const uint64_t pad = 8 * random_below(seed, 2), offset = 8 * (1 + random_below(seed, 3));
        operand_create_at(x, f, name, c->dtype, rows, dim, offset, dim + pad, FILL_RANDOM, seed);
    } else {
        operand_create(x, f, name, c->dtype, rows, dim, FILL_RANDOM, seed);
    }
}

void attention_create(attention_case *c, fixture *f, uint64_t *seed)
{
    c->matrix_units = hal_device_get_info(f->device)->matrix_units;
    make_lengths(c, f, seed);
    const uint64_t q_tokens = c->cu_q ? (uint64_t)c->cu_q[c->batch] : c->batch * c->q_length;
    const uint64_t kv_tokens = c->cu_k    ? (uint64_t)c->cu_k[c->batch]
                               : c->pages ? c->page_count * c->page_size
                                          : c->batch * c->kv_length;
    make_input(c, &c->q, f, "q", q_tokens * q_heads(c), c->head_dim, seed);
    make_input(c, &c->k, f, "k", kv_tokens * c->kv_heads, c->head_dim, seed);
    make_input(c, &c->v, f, "v", kv_tokens * c->kv_heads, c->value_dim, seed);
    operand_create(&c->o, f, "o", c->dtype_o, q_tokens * q_heads(c), c->value_dim, FILL_POISON, seed);
    operand_create_at(&c->sums, f, "lse", HAL_F32, q_tokens, q_heads(c), 1, q_heads(c), FILL_POISON, seed);
    poison(c, f);
    if (c->mask != CASE_NO_MASK) {
        make_mask(c, f, seed);
    }
    if (c->scores) {
        operand_create(&c->seen, f, "scores", c->dtype_scores, c->batch * q_heads(c) * c->q_length, c->kv_length,
                       FILL_POISON, seed);
    }
    if (c->splits > 1) {
        OK(hal_buffer_create(f->device,
                             HAL_BUFFER(.size = 64 + q_tokens * q_heads(c) * c->splits * (c->value_dim + 2) * 4),
                             &c->workspace));
        OK(hal_cmd_fill(f->list, hal_whole(c->workspace), &(uint8_t){0xff}, 1)); /* NaN */
    }
    const uint64_t rows = c->o.host.rows + 1;
    c->want = calloc(rows * c->value_dim, sizeof(double));
    c->error = calloc(rows, sizeof(double));
    c->want_lse = calloc(rows, sizeof(double));
    c->lse_error = calloc(rows, sizeof(double));
    assert_true(c->want && c->error && c->want_lse && c->lse_error);
}

void attention_free(attention_case *c)
{
    operand *const operands[] = {&c->q, &c->k, &c->v, &c->o, &c->sums};
    for (size_t i = 0; i < 5; i++) {
        operand_free(operands[i]);
    }
    if (c->mask != CASE_NO_MASK) {
        operand_free(&c->hides);
    }
    if (c->scores) {
        operand_free(&c->seen);
    }
    hal_buffer *const buffers[] = {c->cu_q_buffer, c->cu_k_buffer, c->lengths_buffer, c->pages_buffer, c->workspace};
    for (size_t i = 0; i < 5; i++) {
        hal_buffer_destroy(buffers[i]);
    }
    void *const arrays[] = {c->cu_q, c->cu_k, c->lengths, c->pages, c->want, c->error, c->want_lse, c->lse_error};
    for (size_t i = 0; i < 8; i++) {
        free(arrays[i]);
    }
}

/* Strides of [outer][token][head] in rows of a tensor, times its leading dimension. */
static void strides(const attention_case *c, const operand *x, uint64_t length, uint32_t heads, uint64_t *batch,
                    uint64_t *token, uint64_t *head)
{
    const uint64_t ld = x->host.ld;
    *batch = ld * length * heads;
    *token = c->heads_first ? ld : ld * heads;
    *head = c->heads_first ? ld * length : ld;
}

hal_attention_desc attention_desc(const attention_case *c, fixture *f)
{
    (void)f;
    const uint64_t length = c->pages ? c->page_size : c->kv_length;
    hal_attention_desc d =
        *HAL_ATTENTION(.batch = c->batch, .q_heads = q_heads(c), .kv_heads = c->kv_heads, .head_dim = c->head_dim,
                       .value_dim = c->value_dim, .q_length = c->q_length, .kv_length = c->kv_length, .dtype = c->dtype,
                       .dtype_o = c->dtype_o, .q = operand_span(&c->q), .k = operand_span(&c->k),
                       .v = operand_span(&c->v), .o = operand_span(&c->o), .scale = c->scale, .causal = c->causal,
                       .causal_offset = c->causal_offset, .softcap = c->softcap, .mode = c->mode,
                       .splits = c->splits > 1 ? c->splits : 0);
    strides(c, &c->q, c->q_length, q_heads(c), &d.q_batch, &d.q_token, &d.q_head);
    strides(c, &c->k, length, c->kv_heads, &d.k_batch, &d.k_token, &d.k_head);
    strides(c, &c->v, length, c->kv_heads, &d.v_batch, &d.v_token, &d.v_head);
    strides(c, &c->o, c->q_length, q_heads(c), &d.o_batch, &d.o_token, &d.o_head);
    if (c->cu_q) {
        d.cu_q = hal_at(c->cu_q_buffer, 4);
        d.cu_k = hal_at(c->cu_k_buffer, 4);
        d.q_tokens = (uint64_t)c->cu_q[c->batch];
        d.kv_tokens = (uint64_t)c->cu_k[c->batch];
    }
    if (c->lengths) {
        d.kv_lengths = hal_at(c->lengths_buffer, 4);
    }
    if (c->pages) {
        d.page_size = c->page_size;
        d.page_columns = c->page_columns;
        d.pages = c->page_count;
        d.page_table = hal_at(c->pages_buffer, 4);
    }
    if (c->mask != CASE_NO_MASK) {
        d.mask = operand_span(&c->hides);
        d.mask_kind = c->mask == CASE_BOOL ? HAL_MASK_BOOL : HAL_MASK_ADD;
        d.dtype_mask = c->mask == CASE_BOOL ? HAL_DTYPE_DEFAULT : c->hides.host.dtype;
        d.mask_row = c->hides.host.ld;
        d.mask_head = c->q_length * d.mask_row;
        d.mask_batch = q_heads(c) * d.mask_head;
    }
    if (c->lse) {
        d.lse = operand_span(&c->sums);
    }
    if (c->scores) {
        d.scores = operand_span(&c->seen);
        d.scores_kind = c->scores_kind;
        d.dtype_scores = c->dtype_scores;
        d.scores_row = c->seen.host.ld;
        d.scores_head = c->q_length * d.scores_row;
        d.scores_batch = q_heads(c) * d.scores_head;
    }
    if (c->splits > 1) {
        d.workspace = hal_at(c->workspace, 4);
    }
    return d;
}

typedef struct call {
    const attention_case *c;
    hal_attention_desc desc;
} call;

static hal_status tell(hal_cmdlist *list, void *user)
{
    const call *k = user;
    return hal_attention_without(list, &k->desc, k->c->without ? UINT32_MAX : 0);
}

void attention_run(attention_case *c, fixture *f)
{
    call k = {c, attention_desc(c, f)};
    operand *const outputs[] = {&c->o, &c->sums, &c->seen};
    operands_run(f, tell, &k, outputs, c->scores ? 3 : 2);
}

void attention_one_query(attention_case *c, fixture *f, uint64_t sequence, uint64_t query)
{
    call k = {c, attention_desc(c, f)};
    hal_attention_desc *d = &k.desc;
    const uint64_t q_at = sequence * d->q_batch + query * d->q_token, o_at = sequence * d->o_batch + query * d->o_token;
    d->batch = d->q_length = 1;
    d->q.offset += q_at * hal_dtype_size(c->dtype);
    d->o.offset += o_at * hal_dtype_size(c->dtype_o);
    d->k.offset += sequence * d->k_batch * hal_dtype_size(c->dtype);
    d->v.offset += sequence * d->v_batch * hal_dtype_size(c->dtype);
    d->q.size = d->k.size = d->v.size = d->o.size = HAL_REST;
    d->lse = d->scores = (hal_span){0};
    operand *const outputs[] = {&c->o};
    operands_run(f, tell, &k, outputs, 1);
}

static bool hidden_by_causal(const attention_case *c, uint64_t s, uint64_t query, uint64_t key)
{
    const int64_t diagonal =
        c->causal == HAL_CAUSAL_BOTTOM_RIGHT ? (int64_t)keys_of(c, s) - (int64_t)queries_of(c, s) : c->causal_offset;
    return c->causal != HAL_CAUSAL_NONE && (int64_t)key > (int64_t)query + diagonal;
}

/* What the mask adds. */
static double mask_of(const attention_case *c, uint64_t s, uint64_t query, uint32_t head, uint64_t key)
{
    if (c->mask == CASE_NO_MASK) {
        return 0;
    }
    const uint64_t row = (s * q_heads(c) + head) * c->q_length + query;
    return c->mask == CASE_ADD ? matrix_get(&c->hides.host, 0, row, key)
           : c->hides.host.data[c->hides.host.offset + row * c->hides.host.ld + key] ? 0
                                                                                     : -INFINITY;
}

/* One score up to a stage before the weights, -inf where it is hidden, and how far FP32 may be from it. */
static double score_of(const attention_case *c, hal_scores stage, uint64_t s, uint64_t query, uint32_t head,
                       uint64_t key, double *error)
{
    *error = 0;
    const double added = stage < HAL_SCORES_MASKED            ? 0
                         : hidden_by_causal(c, s, query, key) ? -INFINITY
                                                              : mask_of(c, s, query, head, key);
    if (isinf(added)) {
        return added;
    }
    const uint64_t q_row = attention_query_row(c, s, query, head);
    const uint64_t k_row = attention_key_row(c, s, key, head / c->ratio);
    const double scale = c->scale ? (double)c->scale : 1 / sqrt(c->head_dim);
    double sum = 0, size = 0;
    for (uint32_t d = 0; d < c->head_dim; d++) {
        const double product = matrix_get(&c->q.host, 0, q_row, d) * matrix_get(&c->k.host, 0, k_row, d);
        sum += product;
        size += fabs(product);
    }
    sum *= scale;
    /* Rounding errors of a sum mostly cancel: a random walk of half units, three times over. */
    *error = size * scale * 0x1p-24 * (3 * sqrt(c->head_dim) + 3);
    if (c->softcap > 0 && stage >= HAL_SCORES_CAPPED) {
        sum = (double)c->softcap * tanh(sum / (double)c->softcap);
        *error += fabs(sum) * 0x1p-24 * 4;
    }
    *error += fabs(sum + added) * 0x1p-24;
    return sum + added;
}

static void expect_row(attention_case *c, uint64_t s, uint64_t query, uint32_t head, double *scores)
{
    const uint64_t keys = keys_of(c, s), row = attention_query_row(c, s, query, head);
    double greatest = -INFINITY, sum = 0, error = 0, *want = c->want + row * c->value_dim, size = 0;
    for (uint64_t key = 0; key < keys; key++) {
        double e;
        scores[key] = score_of(c, HAL_SCORES_MASKED, s, query, head, key, &e);
        greatest = fmax(greatest, scores[key]);
        error = fmax(error, e);
    }
    memset(want, 0, c->value_dim * sizeof *want);
    for (uint64_t key = 0; key < keys; key++) {
        const double w = greatest == -INFINITY || scores[key] == -INFINITY ? 0 : exp(scores[key] - greatest);
        const uint64_t v_row = attention_key_row(c, s, key, head / c->ratio);
        sum += w;
        for (uint32_t d = 0; d < c->value_dim && w != 0; d++) {
            const double v = matrix_get(&c->v.host, 0, v_row, d);
            want[d] += w * v;
            size = fmax(size, fabs(v));
        }
    }
    for (uint32_t d = 0; d < c->value_dim && sum > 0; d++) {
        want[d] /= sum;
    }
    /* Matrix units take weights rounded to the storage type. */
    const bool rounded = c->matrix_units && c->dtype != HAL_F32 && c->mode != HAL_MODE_STRICT;
    const double relative =
        (rounded ? half_ulp(c->dtype, 0.99) : 0) + 2 * error + 0x1p-24 * (10 + 2 * sqrt((double)keys));
    c->error[row] = sum > 0 ? size * relative : 0;
    const uint64_t at = lse_row(c, s, query) * q_heads(c) + head;
    c->want_lse[at] = sum > 0 ? greatest + log(sum) : -INFINITY;
    c->lse_error[at] = 2 * error + 0x1p-24 * (10 + 2 * sqrt((double)keys)) + 0x1p-24 * 2 * fabs(c->want_lse[at]);
}

static double expect_o(void *user, uint64_t row, uint64_t column, double *error)
{
    const attention_case *c = user;
    *error = c->error[row];
    return c->want[row * c->value_dim + column];
}

static double expect_lse(void *user, uint64_t row, uint64_t column, double *error)
{
    const attention_case *c = user;
    *error = c->lse_error[row * q_heads(c) + column];
    return c->want_lse[row * q_heads(c) + column];
}

static double expect_score(void *user, uint64_t row, uint64_t key, double *error)
{
    const attention_case *c = user;
    const uint64_t query = row % c->q_length, s = row / c->q_length / q_heads(c);
    const uint32_t head = (uint32_t)(row / c->q_length % q_heads(c));
    const bool weights = c->scores_kind == HAL_SCORES_WEIGHTS;
    *error = 0;
    if (key >= keys_of(c, s)) {
        return weights ? 0 : -INFINITY;
    }
    const double score = score_of(c, weights ? HAL_SCORES_MASKED : c->scores_kind, s, query, head, key, error);
    if (!weights || score == -INFINITY) {
        return weights ? 0 : score;
    }
    const uint64_t at = lse_row(c, s, query) * q_heads(c) + head;
    const double weight = exp(score - c->want_lse[at]);
    *error = weight * (*error + c->lse_error[at] + 0x1p-22) + 0x1p-126;
    return weight;
}

void attention_check(attention_case *c)
{
    double *scores = malloc((c->kv_length + 1) * sizeof *scores);
    assert_non_null(scores);
    for (uint64_t s = 0; s < c->batch; s++) {
        for (uint64_t query = 0; query < queries_of(c, s); query++) {
            for (uint32_t head = 0; head < q_heads(c); head++) {
                expect_row(c, s, query, head, scores);
            }
        }
    }
    free(scores);
    operand_check(&c->o, expect_o, c, false);
    if (c->scores) {
        operand_check(&c->seen, expect_score, c, false);
    }
    if (c->lse) {
        operand_check(&c->sums, expect_lse, c, false);
    } else {
        for (uint64_t i = 0; i < c->sums.host.bytes; i++) {
            assert_int_equal(c->sums.host.data[i], 0x5A);
        }
    }
}
