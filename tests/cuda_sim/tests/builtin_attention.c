/* builtin_attention.c - see builtin_attention.h. */
#include "builtin_attention.h"
#include "kernel_attention.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 128, LANES = 8, MMA_ROWS = 64, MOST_DIM = 256, HIDDEN_EVERY = 5 };
#define LN2       0.69314718055994531
#define TOLERANCE 1e-5

/* --- where things are --- */

static uint32_t queries_of(const builtin_attention *p, uint32_t sequence)
{
    return p->q_length - (p->options & ATTENTION_HAS_CU_Q ? SHORTER_Q * sequence : 0);
}

static uint32_t keys_of(const builtin_attention *p, uint32_t sequence)
{
    return p->kv_length - (p->options & (ATTENTION_HAS_CU_K | ATTENTION_HAS_LENGTHS) ? SHORTER_K * sequence : 0);
}

/* The token of a sequence's first query; of its first key where there are no pages. */
static uint32_t first_query(const builtin_attention *p, uint32_t sequence)
{
    uint32_t token = 0;
    for (uint32_t s = 0; s < sequence; s++) {
        token += queries_of(p, s);
    }
    return token;
}

static uint32_t first_key(const builtin_attention *p, uint32_t sequence)
{
    uint32_t token = 0;
    for (uint32_t s = 0; s < sequence; s++) {
        token += p->options & ATTENTION_HAS_CU_K ? keys_of(p, s) : p->kv_length;
    }
    return token;
}

static uint32_t page_columns(const builtin_attention *p)
{
    return p->page_size ? (p->kv_length - 1) / p->page_size + 1 : 0;
}

/* Pages lie in another order than they are used. */
static uint32_t page_of(const builtin_attention *p, uint32_t sequence, uint32_t column)
{
    const uint32_t pages = p->batch * page_columns(p);
    return pages - 1 - (sequence * page_columns(p) + column);
}

static uint32_t key_token(const builtin_attention *p, uint32_t sequence, uint32_t key)
{
    return p->page_size ? page_of(p, sequence, key / p->page_size) * p->page_size + key % p->page_size
                        : first_key(p, sequence) + key;
}

static uint32_t tokens_of_keys(const builtin_attention *p)
{
    return p->page_size ? p->batch * page_columns(p) * p->page_size : first_key(p, p->batch);
}

static uint32_t size_of(uint32_t dtype)
{
    return dtype == HAL_KERNEL_F32 ? 4 : 2;
}

/* A tensor [tokens][heads][dim + pad] without the last padding. */
static size_t bytes_of(const builtin_attention *p, uint32_t dtype, uint32_t tokens, uint32_t heads, uint32_t dim)
{
    return (((size_t)tokens * heads - 1) * (dim + p->pad) + dim) * size_of(dtype);
}

static size_t at(const builtin_attention *p, uint32_t token, uint32_t heads, uint32_t head, uint32_t dim)
{
    return ((size_t)token * heads + head) * (dim + p->pad);
}

static uint32_t blocks_of_split(const builtin_attention *p)
{
    const uint32_t blocks = (p->kv_length - 1) / ATTENTION_KEYS + 1;
    return (blocks - 1) / p->splits + 1;
}

static size_t part_at(const builtin_attention *p, uint32_t token, uint32_t head, uint32_t split)
{
    return (((size_t)token * p->q_heads + head) * p->splits + split) * (p->value_dim + 2);
}

static size_t mask_at(const builtin_attention *p, uint32_t sequence, uint32_t head, uint32_t query)
{
    return (((size_t)sequence * p->q_heads + head) * p->q_length + query) * p->kv_length;
}

/* --- operands --- */

/* By span; NULL: absent. */
typedef struct operands {
    void *data[ATTENTION_SPANS];
    size_t bytes[ATTENTION_SPANS];
} operands;

static void give(operands *o, uint32_t span, size_t bytes)
{
    o->data[span] = kernel_memory(bytes);
    o->bytes[span] = bytes;
}

static float sign_of(uint32_t row, uint32_t column, uint32_t seed)
{
    const float number = kernel_number(row, column, seed);
    return number > 0 ? 1.0f : number < 0 ? -1.0f : 0.0f;
}

/* Of every eight columns one is not zero; rows next to each other, and 8 or 64 apart, differ. */
static float query_number(uint32_t row, uint32_t column)
{
    return (row + row / 8 + row / 64 + 5 * column) % 8 == 0 ? 1.0f + (float)((row / 8 + column / 8) % 2) : 0.0f;
}

static bool is_hidden(const builtin_attention *p, uint32_t key)
{
    return p->mask && key % HIDDEN_EVERY == 2;
}

static void fill_queries(const builtin_attention *p, operands *o)
{
    for (uint32_t row = 0; row < first_query(p, p->batch) * p->q_heads; row++) {
        for (uint32_t d = 0; d < p->head_dim; d++) {
            kernel_set(o->data[ATTENTION_Q], p->dtype, (size_t)row * (p->head_dim + p->pad) + d, query_number(row, d));
        }
    }
}

static void fill_key(const builtin_attention *p, operands *o, uint32_t sequence, uint32_t key, uint32_t head)
{
    const uint32_t token = key_token(p, sequence, key), row = token * p->kv_heads + head;
    for (uint32_t d = 0; d < p->head_dim; d++) {
        kernel_set(o->data[ATTENTION_K], p->dtype, at(p, token, p->kv_heads, head, p->head_dim) + d,
                   sign_of(row, d, 7));
    }
    for (uint32_t d = 0; d < p->value_dim && !is_hidden(p, key); d++) {
        kernel_set(o->data[ATTENTION_V], p->dtype, at(p, token, p->kv_heads, head, p->value_dim) + d,
                   kernel_number(row, d, 77));
    }
}

/* Whole octaves, so that weights stay powers of two. */
static float mask_number(const builtin_attention *p, size_t row, uint32_t key)
{
    return is_hidden(p, key) ? -INFINITY : (float)(-LN2 * (double)((row + key) % 3));
}

static void fill_mask(const builtin_attention *p, operands *o)
{
    const size_t rows = (size_t)p->batch * p->q_heads * p->q_length;
    give(o, ATTENTION_MASK, rows * p->kv_length * (p->mask == HAL_KERNEL_F32 ? 4 : 1));
    for (size_t row = 0; row < rows; row++) {
        for (uint32_t key = 0; key < p->kv_length; key++) {
            const size_t i = row * p->kv_length + key;
            if (p->mask == HAL_KERNEL_F32) {
                ((float *)o->data[ATTENTION_MASK])[i] = mask_number(p, row, key);
            } else {
                ((uint8_t *)o->data[ATTENTION_MASK])[i] = !is_hidden(p, key);
            }
        }
    }
}

static void fill_integers(const builtin_attention *p, operands *o)
{
    const uint32_t counts[] = {p->batch + 1, p->batch + 1, p->batch, p->batch * page_columns(p)};
    const bool given[] = {p->options & ATTENTION_HAS_CU_Q, p->options & ATTENTION_HAS_CU_K,
                          p->options & ATTENTION_HAS_LENGTHS, p->page_size};
    for (uint32_t i = 0; i < 4; i++) {
        if (given[i]) {
            give(o, ATTENTION_CU_Q + i, counts[i] * sizeof(int32_t));
        }
        for (uint32_t j = 0; given[i] && j < counts[i]; j++) {
            const uint32_t values[] = {i == 0 ? first_query(p, j) : 0, i == 1 ? first_key(p, j) : 0,
                                       i == 2 ? keys_of(p, j) : 0,
                                       i == 3 ? page_of(p, j / page_columns(p), j % page_columns(p)) : 0};
            ((int32_t *)o->data[ATTENTION_CU_Q + i])[j] = (int32_t)values[i];
        }
    }
}

static operands operands_of(const builtin_attention *p)
{
    operands o = {0};
    const uint32_t queries = first_query(p, p->batch), keys = tokens_of_keys(p);
    give(&o, ATTENTION_Q, bytes_of(p, p->dtype, queries, p->q_heads, p->head_dim));
    give(&o, ATTENTION_K, bytes_of(p, p->dtype, keys, p->kv_heads, p->head_dim));
    give(&o, ATTENTION_V, bytes_of(p, p->dtype, keys, p->kv_heads, p->value_dim));
    give(&o, ATTENTION_O, bytes_of(p, p->dtype_o, queries, p->q_heads, p->value_dim));
    if (p->options & ATTENTION_HAS_LSE) {
        give(&o, ATTENTION_LSE, (size_t)queries * p->q_heads * sizeof(float));
    }
    if (p->splits > 1) {
        give(&o, ATTENTION_PARTS, part_at(p, queries, 0, 0) * sizeof(float));
    }
    fill_queries(p, &o);
    for (uint32_t s = 0; s < p->batch; s++) {
        for (uint32_t key = 0; key < keys_of(p, s); key++) {
            for (uint32_t head = 0; head < p->kv_heads; head++) {
                fill_key(p, &o, s, key, head);
            }
        }
    }
    if (p->mask) {
        fill_mask(p, &o);
    }
    fill_integers(p, &o);
    return o;
}

static void free_operands(operands *o)
{
    for (uint32_t i = 0; i < ATTENTION_SPANS; i++) {
        free(o->data[i]);
    }
}

/* --- what it should be --- */

typedef struct row_place {
    uint32_t sequence, query, head, first, end; /* keys */
} row_place;

typedef struct row_result {
    double greatest, sum, o[MOST_DIM]; /* o: not yet divided by the sum */
} row_result;

static uint32_t visible_keys(const builtin_attention *p, uint32_t sequence, uint32_t query)
{
    const int64_t keys = keys_of(p, sequence), queries = queries_of(p, sequence);
    if (!(p->options & (ATTENTION_BOTTOM_RIGHT | ATTENTION_TOP_LEFT))) {
        return (uint32_t)keys;
    }
    const int64_t end = query + 1 + (p->options & ATTENTION_BOTTOM_RIGHT ? keys - queries : 0);
    return (uint32_t)(end < 0 ? 0 : end < keys ? end : keys);
}

static double score_of(const builtin_attention *p, const operands *o, const row_place *r, uint32_t key)
{
    const uint32_t kv_head = r->head / (p->q_heads / p->kv_heads), token = key_token(p, r->sequence, key);
    const size_t q = at(p, first_query(p, r->sequence) + r->query, p->q_heads, r->head, p->head_dim);
    const size_t k = at(p, token, p->kv_heads, kv_head, p->head_dim), row = mask_at(p, r->sequence, r->head, r->query);
    double sum = 0;
    for (uint32_t d = 0; d < p->head_dim; d++) {
        sum += (double)kernel_get(o->data[ATTENTION_Q], p->dtype, q + d) *
               kernel_get(o->data[ATTENTION_K], p->dtype, k + d);
    }
    sum *= LN2;
    return p->mask == HAL_KERNEL_F32 ? sum + ((const float *)o->data[ATTENTION_MASK])[row + key] : sum;
}

static row_result attend(const builtin_attention *p, const operands *o, const row_place *r)
{
    row_result result = {.greatest = -INFINITY};
    const uint32_t visible = visible_keys(p, r->sequence, r->query), end = r->end < visible ? r->end : visible;
    for (uint32_t key = r->first; key < end; key++) {
        const double score = score_of(p, o, r, key);
        result.greatest = !is_hidden(p, key) && score > result.greatest ? score : result.greatest;
    }
    for (uint32_t key = r->first; key < end; key++) {
        if (is_hidden(p, key)) {
            continue;
        }
        const double weight = exp(score_of(p, o, r, key) - result.greatest);
        const size_t v =
            at(p, key_token(p, r->sequence, key), p->kv_heads, r->head / (p->q_heads / p->kv_heads), p->value_dim);
        result.sum += weight;
        for (uint32_t d = 0; d < p->value_dim; d++) {
            result.o[d] += weight * kernel_get(o->data[ATTENTION_V], p->dtype, v + d);
        }
    }
    return result;
}

static bool is_near(double got, double want, double tolerance)
{
    return got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

/* The row's o, what lies behind it, and its lse. */
static bool row_is_right(const builtin_attention *p, const operands *o, const row_place *r, char *text, size_t size)
{
    const row_result want = attend(p, o, r);
    const uint32_t token = first_query(p, r->sequence) + r->query;
    const size_t row = at(p, token, p->q_heads, r->head, p->value_dim),
                 last = o->bytes[ATTENTION_O] / size_of(p->dtype_o);
    const double tolerance = p->dtype_o == HAL_KERNEL_F32 ? TOLERANCE : 1.0 / 256;
    for (uint32_t d = 0; d < p->value_dim + p->pad && row + d < last; d++) {
        const double got = kernel_get(o->data[ATTENTION_O], p->dtype_o, row + d);
        const double value = d >= p->value_dim ? NAN : want.sum == 0 ? 0 : want.o[d] / want.sum;
        if (d >= p->value_dim ? !isnan(got) : !is_near(got, value, tolerance)) {
            snprintf(text, size, "o(%u, %u, %u)[%u] is %.9g, not %.9g", r->sequence, r->query, r->head, d, got, value);
            return false;
        }
    }
    if (p->options & ATTENTION_HAS_LSE) {
        const double got = ((const float *)o->data[ATTENTION_LSE])[(size_t)token * p->q_heads + r->head];
        const double value = want.sum == 0 ? -INFINITY : want.greatest + log(want.sum);
        if (!is_near(got, value, TOLERANCE)) {
            snprintf(text, size, "lse(%u, %u, %u) is %g, not %g", r->sequence, r->query, r->head, got, value);
            return false;
        }
    }
    return true;
}

/* One split of the row: greatest score, sum, weighted sum. */
static bool part_is_right(const builtin_attention *p, const operands *o, const row_place *r, uint32_t split, char *text,
                          size_t size)
{
    const row_result want = attend(p, o, r);
    const float *got =
        (const float *)o->data[ATTENTION_PARTS] + part_at(p, first_query(p, r->sequence) + r->query, r->head, split);
    for (uint32_t i = 0; i < p->value_dim + 2; i++) {
        const double value = i == 0 ? want.greatest : i == 1 ? want.sum : want.o[i - 2];
        if (!is_near(got[i], value, TOLERANCE)) {
            snprintf(text, size, "part %u of (%u, %u, %u)[%u] is %.9g, not %.9g", split, r->sequence, r->query, r->head,
                     i, got[i], value);
            return false;
        }
    }
    return true;
}

static kernel_result compare(const builtin_attention *p, const operands *o, bool parts, char *text, size_t size)
{
    row_place r = {0};
    for (r.sequence = 0; r.sequence < p->batch; r.sequence++) {
        for (r.query = 0; r.query < queries_of(p, r.sequence); r.query++) {
            for (r.head = 0; r.head < p->q_heads; r.head++) {
                r.first = 0, r.end = p->kv_length;
                bool right = parts || row_is_right(p, o, &r, text, size);
                for (uint32_t s = 0; parts && right && s < p->splits; s++) {
                    r.first = s * blocks_of_split(p) * ATTENTION_KEYS;
                    r.end = r.first + blocks_of_split(p) * ATTENTION_KEYS;
                    right = part_is_right(p, o, &r, s, text, size);
                }
                if (!right) {
                    return KERNEL_WRONG;
                }
            }
        }
    }
    return KERNEL_RIGHT;
}

/* --- launches --- */

static void set64(uint32_t words[2], uint64_t value)
{
    words[0] = (uint32_t)value;
    words[1] = (uint32_t)(value >> 32);
}

static hal_attention_args args_of(const builtin_attention *p)
{
    hal_attention_args args = {.flags = ROW_FLAGS(p->dtype, p->dtype_o, p->mask, 0u, 0u,
                                                  p->options | (p->page_size ? ATTENTION_HAS_PAGES : 0)),
                               .q_heads = p->q_heads,
                               .kv_heads = p->kv_heads,
                               .head_dim = p->head_dim,
                               .value_dim = p->value_dim,
                               .q_length = p->q_length,
                               .kv_length = p->kv_length,
                               .page_size = p->page_size,
                               .page_columns = page_columns(p),
                               .batch = p->batch,
                               .splits = p->splits,
                               .part = blocks_of_split(p),
                               .scale = (float)LN2};
    const uint64_t k_tokens = p->page_size ? p->page_size : p->kv_length;
    set64(args.q_head, p->head_dim + p->pad);
    set64(args.q_token, at(p, 1, p->q_heads, 0, p->head_dim));
    set64(args.q_batch, at(p, p->q_length, p->q_heads, 0, p->head_dim));
    set64(args.k_head, p->head_dim + p->pad);
    set64(args.k_token, at(p, 1, p->kv_heads, 0, p->head_dim));
    set64(args.k_batch, k_tokens * at(p, 1, p->kv_heads, 0, p->head_dim));
    set64(args.v_head, p->value_dim + p->pad);
    set64(args.v_token, at(p, 1, p->kv_heads, 0, p->value_dim));
    set64(args.v_batch, k_tokens * at(p, 1, p->kv_heads, 0, p->value_dim));
    set64(args.o_head, p->value_dim + p->pad);
    set64(args.o_token, at(p, 1, p->q_heads, 0, p->value_dim));
    set64(args.o_batch, at(p, p->q_length, p->q_heads, 0, p->value_dim));
    set64(args.mask_row, p->kv_length);
    set64(args.mask_head, mask_at(p, 0, 1, 0));
    set64(args.mask_batch, mask_at(p, 1, 0, 0));
    return args;
}

typedef struct parameters {
    const void *span[ATTENTION_SPANS];
    hal_attention_args args;
} parameters;

/* `written`: bits of spans. */
static kernel_result launch(sim_launch *l, const builtin_attention *p, const operands *o, uint32_t written,
                            sim_counters *counters, char *text, size_t size)
{
    parameters all = {.args = args_of(p)};
    sim_range ranges[ATTENTION_SPANS];
    size_t count = 0;
    for (uint32_t i = 0; i < ATTENTION_SPANS; i++) {
        all.span[i] = o->data[i] ? o->data[i] : o->data[ATTENTION_O];
        if (o->data[i]) {
            ranges[count++] = kernel_range(o->data[i], o->bytes[i], !(written & 1u << i));
        }
    }
    l->params = (const uint8_t *)&all;
    return kernel_launch(l, ranges, count, counters, text, size);
}

kernel_result builtin_attention_run(const ptx_function *function, const void *problem, const sim_options *options,
                                    sim_counters *counters, char *text, size_t size)
{
    const builtin_attention *p = problem;
    operands o = operands_of(p);
    const uint32_t tile = p->room ? MMA_ROWS : THREADS / LANES, rows = p->q_length * (p->q_heads / p->kv_heads);
    sim_launch l = {.function = function,
                    .grid = {(rows - 1) / tile + 1, p->kv_heads, p->batch * p->splits},
                    .block = {THREADS, 1, 1},
                    .dynamic_shared = p->room ? 4 * ATTENTION_KEYS * (p->room + 8) * 2 : 0,
                    .options = *options};
    const uint32_t written = p->splits > 1 ? 1u << ATTENTION_PARTS : 1u << ATTENTION_O | 1u << ATTENTION_LSE;
    kernel_result result = launch(&l, p, &o, written, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare(p, &o, p->splits > 1, text, size);
    }
    free_operands(&o);
    return result;
}

static void fill_parts(const builtin_attention *p, operands *o)
{
    row_place r = {0};
    for (r.sequence = 0; r.sequence < p->batch; r.sequence++) {
        for (r.query = 0; r.query < queries_of(p, r.sequence); r.query++) {
            for (uint32_t i = 0; i < p->q_heads * p->splits; i++) {
                r.head = i / p->splits;
                r.first = i % p->splits * blocks_of_split(p) * ATTENTION_KEYS;
                r.end = r.first + blocks_of_split(p) * ATTENTION_KEYS;
                const row_result part = attend(p, o, &r);
                float *to = (float *)o->data[ATTENTION_PARTS] +
                            part_at(p, first_query(p, r.sequence) + r.query, r.head, i % p->splits);
                to[0] = (float)part.greatest;
                to[1] = (float)part.sum;
                for (uint32_t d = 0; d < p->value_dim; d++) {
                    to[2 + d] = (float)part.o[d];
                }
            }
        }
    }
}

kernel_result builtin_attention_combine_run(const ptx_function *function, const void *problem,
                                            const sim_options *options, sim_counters *counters, char *text, size_t size)
{
    const builtin_attention *p = problem;
    operands o = operands_of(p);
    fill_parts(p, &o);
    sim_launch l = {.function = function,
                    .grid = {p->q_heads, first_query(p, p->batch), 1},
                    .block = {THREADS, 1, 1},
                    .options = *options};
    kernel_result result = launch(&l, p, &o, 1u << ATTENTION_O | 1u << ATTENTION_LSE, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare(p, &o, false, text, size);
    }
    free_operands(&o);
    return result;
}
