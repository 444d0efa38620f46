/* test_attention.c - hal_attention on the device that HAL_BACKEND names. */
#include "attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t dims[] = {1, 7, 16, 33, 64, 80, 96, 128, 200, 256};
static const uint32_t ratios[] = {1, 2, 3, 5, 8};

static uint64_t small_size(uint64_t *seed)
{
    return test_sizes[random_below(seed, test_size_count - 1)];
}

/* Everything drawn at random; `round` makes sure that each kind comes. */
static attention_case draw(uint32_t round, uint64_t *seed)
{
    attention_case c = {.batch = 1 + random_below(seed, 3),
                        .kv_heads = 1 + random_below(seed, 3),
                        .ratio = ratios[random_below(seed, 5)],
                        .head_dim = dims[random_below(seed, 10)],
                        .value_dim = dims[random_below(seed, 10)],
                        .q_length = small_size(seed),
                        .kv_length = small_size(seed),
                        .kind = (case_kind)(round % 4 ^ round / 8 % 4),
                        .causal = (hal_causal)(round / 4 % 3),
                        .dtype = (hal_dtype)(HAL_F32 + round / 2 % 3),
                        .dtype_o = (hal_dtype)(HAL_F32 + round / 3 % 3),
                        .mask = (case_mask)(round % 3),
                        .softcap = round % 5 == 1 ? 3.0f : 0.0f,
                        .scale = round % 6 == 2 ? 0.37f : 0.0f,
                        .page_size = 1 + random_below(seed, 20),
                        .splits = round % 7 == 3 ? 3 : 1,
                        .heads_first = round / 4 % 2 == 1,
                        .lse = round % 3 != 0,
                        .mode = (hal_mode)(round % 11 % 3)};
    if (c.causal == HAL_CAUSAL_TOP_LEFT) {
        c.causal_offset = (int64_t)random_below(seed, 41) - 20;
    }
    if (c.kind == CASE_PACKED) {
        c.mask = CASE_NO_MASK;
        c.heads_first = false;
    }
    if (round % 2) {
        c.value_dim = c.head_dim;
    }
    if (c.dtype != HAL_F32 || c.mode == HAL_MODE_STRICT) { /* each room for dimensions is a kernel to compile */
        c.head_dim = dims[round % 5];
        c.value_dim = round % 2 ? c.head_dim : dims[round / 2 % 5];
    }
    if (c.splits > 1) {
        c.mode = HAL_MODE_FAST;
        c.kv_length = 193;
    }
    if (round % 4 >= 2) { /* as most callers have it, and the fast kernels want it */
        c.aligned = true;
        c.head_dim = (c.head_dim + 7) / 8 * 8;
        c.value_dim = (c.value_dim + 7) / 8 * 8;
    }
    while (c.q_length * c.kv_length * c.ratio * c.kv_heads * c.batch * c.head_dim > 20 * 1000 * 1000) {
        c.q_length = (c.q_length + 1) / 2;
        c.ratio = (c.ratio + 1) / 2;
    }
    return c;
}

static void test_random(void **state)
{
    fixture *f = *state;
    uint64_t seed = 11;
    for (uint32_t round = 0; round < 84; round++) {
        attention_case c = draw(round, &seed);
        attention_create(&c, f, &seed);
        /* Some drivers compile the kernel for any device for many seconds: not for each size. */
        const bool both = c.value_dim <= 64 && c.head_dim <= 64;
        for (c.without = 0; c.without < (both ? 2 : 1); c.without++) {
            attention_run(&c, f);
            attention_check(&c);
        }
        attention_free(&c);
    }
}

/* The row lengths around the block of keys and the tile of rows. */
static void test_sizes_around_blocks(void **state)
{
    fixture *f = *state;
    uint64_t seed = 12;
    static const uint64_t lengths[] = {1, 15, 16, 17, 31, 63, 64, 65, 127, 129};
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t j = 0; j < 10; j += 3) {
            attention_case c = {.batch = 1,
                                .kv_heads = 1,
                                .ratio = 1,
                                .head_dim = 16,
                                .value_dim = 8,
                                .q_length = lengths[j],
                                .kv_length = lengths[i],
                                .dtype = HAL_F32,
                                .dtype_o = HAL_F32,
                                .causal = (hal_causal)((i + j) % 3),
                                .splits = 1,
                                .lse = true};
            attention_create(&c, f, &seed);
            attention_run(&c, f);
            attention_check(&c);
            attention_free(&c);
        }
    }
}

/* Every stage of the scores, with everything that comes before it. */
static void test_scores(void **state)
{
    fixture *f = *state;
    uint64_t seed = 18;
    for (uint32_t round = 0; round < 24; round++) {
        attention_case c = {.batch = 2,
                            .kv_heads = 2,
                            .ratio = 1 + round % 3,
                            .head_dim = dims[round % 5],
                            .value_dim = 8,
                            .q_length = 1 + random_below(&seed, 20),
                            .kv_length = small_size(&seed),
                            .dtype = (hal_dtype)(HAL_F32 + round % 3),
                            .dtype_o = HAL_F32,
                            .kind = round % 3 == 0   ? CASE_PLAIN
                                    : round % 3 == 1 ? CASE_LENGTHS
                                                     : CASE_PAGED,
                            .causal = (hal_causal)(round / 2 % 3),
                            .causal_offset = round % 2 ? 30 : -3,
                            .mask = (case_mask)(round / 3 % 3),
                            .softcap = round % 4 > 1 ? 2.0f : 0.0f,
                            .page_size = 5,
                            .splits = 1,
                            .lse = true,
                            .mode = (hal_mode)(round / 5 % 3),
                            .scores = true,
                            .scores_kind = (hal_scores)(round % 4),
                            .dtype_scores = (hal_dtype)(HAL_F32 + round / 4 % 3)};
        attention_create(&c, f, &seed);
        attention_run(&c, f);
        attention_check(&c);
        attention_free(&c);
    }
}

/* Sequences of no queries, of no keys, of neither; no keys at all; nothing to do. */
static void test_zero_lengths(void **state)
{
    fixture *f = *state;
    uint64_t seed = 13;
    static const uint32_t q_lengths[] = {3, 0, 2, 0, 5}, kv_lengths[] = {0, 4, 70, 0, 1};
    for (int causal = 0; causal < 3; causal++) {
        attention_case c = {.batch = 5,
                            .kv_heads = 2,
                            .ratio = 2,
                            .head_dim = 32,
                            .value_dim = 32,
                            .q_length = 5,
                            .kv_length = 70,
                            .kind = CASE_PACKED,
                            .q_lengths = q_lengths,
                            .kv_lengths = kv_lengths,
                            .dtype = HAL_F16,
                            .dtype_o = HAL_F16,
                            .causal = (hal_causal)causal,
                            .splits = 1,
                            .lse = true};
        attention_create(&c, f, &seed);
        attention_run(&c, f);
        attention_check(&c);
        attention_free(&c);
    }
    attention_case none = {.batch = 2,
                           .kv_heads = 1,
                           .ratio = 2,
                           .head_dim = 8,
                           .value_dim = 8,
                           .q_length = 3,
                           .dtype = HAL_F32,
                           .dtype_o = HAL_F32,
                           .splits = 1,
                           .lse = true};
    attention_create(&none, f, &seed);
    attention_run(&none, f);
    attention_check(&none);
    attention_free(&none);
}

/* Scores of +-6e4 and beyond, values near FP16's largest, sums that FP16 could not hold. */
static void test_extremes(void **state)
{
    fixture *f = *state;
    uint64_t seed = 14;
    static const float factors[] = {6e4f, -6e4f, 3e5f, 0.0f};
    for (int i = 0; i < 4; i++) {
        attention_case c = {.batch = 1,
                            .kv_heads = 1,
                            .ratio = 1,
                            .head_dim = 16,
                            .value_dim = 16,
                            .q_length = 9,
                            .kv_length = 100,
                            .dtype = HAL_F16,
                            .dtype_o = HAL_F16,
                            .scale = 1.0f,
                            .splits = 1,
                            .lse = true,
                            .causal = HAL_CAUSAL_BOTTOM_RIGHT};
        attention_create(&c, f, &seed);
        for (uint64_t row = 0; row < c.q.host.rows; row++) {
            for (uint64_t d = 0; d < 16; d++) {
                matrix_set(&c.q.host, 0, row, d, d == 0 ? factors[i] / 16 : 0.0f);
            }
        }
        for (uint64_t row = 0; row < c.k.host.rows; row++) {
            matrix_set(&c.k.host, 0, row, 0, row % 7 == 0 ? 16.0f : 15.0f);
            for (uint64_t d = 0; d < 16; d++) {
                matrix_set(&c.v.host, 0, row, d, 60000.0f);
            }
        }
        operand_upload(&c.q, f);
        operand_upload(&c.k, f);
        operand_upload(&c.v, f);
        attention_run(&c, f);
        attention_check(&c);
        attention_free(&c);
    }
}

/* Keys and values that a mask hides may hold anything; rows that it hides whole give zero. */
static void test_hidden(void **state)
{
    fixture *f = *state;
    uint64_t seed = 15;
    static const float poison[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t round = 0; round < 12; round++) {
        attention_case c = {.batch = 1,
                            .kv_heads = 2,
                            .ratio = 3,
                            .head_dim = 24,
                            .value_dim = 40,
                            .q_length = 21,
                            .kv_length = 150,
                            .dtype = (hal_dtype)(HAL_F32 + round % 3),
                            .dtype_o = HAL_F32,
                            .mask = round % 2 ? CASE_ADD : CASE_BOOL,
                            .splits = round % 4 == 3 ? 2 : 1,
                            .lse = true,
                            .softcap = round % 3 == 1 ? 0.5f : 0.0f,
                            .hidden_column = 77,
                            .hidden_row = 5,
                            .without = round >= 6};
        attention_create(&c, f, &seed);
        for (uint32_t h = 0; h < 2; h++) {
            const uint64_t row = attention_key_row(&c, 0, 77, h);
            for (uint64_t d = 0; d < 24; d++) {
                matrix_set(&c.k.host, 0, row, d, poison[round % 3]);
            }
            for (uint64_t d = 0; d < 40; d++) {
                matrix_set(&c.v.host, 0, row, d, poison[round % 3]);
            }
        }
        operand_upload(&c.k, f);
        operand_upload(&c.v, f);
        attention_run(&c, f);
        attention_check(&c);
        attention_free(&c);
    }
}

/* A query's bits do not depend on the queries beside it, nor on the other sequences. */
static void test_batch_invariant(void **state)
{
    fixture *f = *state;
    uint64_t seed = 16;
    for (hal_mode mode = HAL_MODE_BATCH_INVARIANT; mode <= HAL_MODE_STRICT; mode++) {
        attention_case c = {.batch = 3,
                            .kv_heads = 2,
                            .ratio = 2,
                            .head_dim = 64,
                            .value_dim = 64,
                            .q_length = 37,
                            .kv_length = 150,
                            .dtype = HAL_F32,
                            .dtype_o = HAL_F32,
                            .splits = 1,
                            .mode = mode,
                            .causal = HAL_CAUSAL_BOTTOM_RIGHT};
        attention_create(&c, f, &seed);
        attention_run(&c, f);
        matrix whole = c.o.host;
        c.o.host.data = malloc(whole.bytes);
        assert_non_null(c.o.host.data);
        attention_one_query(&c, f, 1, 36); /* the last query of sequence 1: bottom-right sees all the same */
        for (uint32_t h = 0; h < 4; h++) {
            const uint64_t row = attention_query_row(&c, 1, 36, h);
            for (uint64_t d = 0; d < 64; d++) {
                assert_true(matrix_get(&whole, 0, row, d) == matrix_get(&c.o.host, 0, row, d));
            }
        }
        free(whole.data);
        attention_free(&c);
    }
}

static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 17;
    attention_case c = {.batch = 2,
                        .kv_heads = 2,
                        .ratio = 2,
                        .head_dim = 8,
                        .value_dim = 8,
                        .q_length = 3,
                        .kv_length = 5,
                        .dtype = HAL_F32,
                        .dtype_o = HAL_F32,
                        .splits = 1};
    attention_create(&c, f, &seed);
    const hal_attention_desc good = attention_desc(&c, f);
    OK(hal_attention_prepare(f->device, &good));
#define REFUSE(code, field, value)                                                                                     \
    do {                                                                                                               \
        hal_attention_desc bad = good;                                                                                 \
        bad.field = value;                                                                                             \
        REFUSED(code, hal_attention(f->list, &bad));                                                                   \
    } while (0)
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_attention(f->list, NULL));
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, q, (hal_span){0});
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, q_heads, 3);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, kv_heads, 0);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, head_dim, 0);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, head_dim, 257);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, value_dim, 257);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, dtype, HAL_F8E4M3);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, causal, (hal_causal)3);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, mode, (hal_mode)3);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, softcap, -1.0f);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, scale, INFINITY);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, page_size, 4);
    REFUSE(HAL_ERROR_OUT_OF_RANGE, batch, 200);
    REFUSE(HAL_ERROR_OUT_OF_RANGE, kv_length, 5000);
    REFUSE(HAL_ERROR_OUT_OF_RANGE, k_token, UINT64_MAX / 2);
    REFUSE(HAL_ERROR_OVERLAP, o, good.q);
    REFUSE(HAL_ERROR_OVERLAP, lse, good.o);
    REFUSE(HAL_ERROR_OVERLAP, o_token, 7);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, scores_kind, (hal_scores)4);
    REFUSE(HAL_ERROR_INVALID_ARGUMENT, dtype_scores, HAL_F8E4M3);
    REFUSE(HAL_ERROR_OVERLAP, scores, good.o);
    REFUSE(HAL_ERROR_LIMIT, q_length, INT32_MAX - 4);
    REFUSE(HAL_ERROR_LIMIT, batch, UINT64_C(1) << 31);
    hal_attention_desc split = good;
    split.splits = 2;
    split.mode = HAL_MODE_STRICT;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_attention(f->list, &split));
    hal_attention_desc nothing = good;
    nothing.batch = 0;
    OK(hal_attention(f->list, &nothing));
    uint64_t size = 1;
    OK(hal_attention_workspace(f->device, &good, &size));
    assert_int_equal(size, 0);
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    attention_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),          cmocka_unit_test(test_sizes_around_blocks),
        cmocka_unit_test(test_scores),          cmocka_unit_test(test_zero_lengths),
        cmocka_unit_test(test_extremes),        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_batch_invariant), cmocka_unit_test(test_rules)};
    return ROWS_MAIN("attention", tests);
}
