/* test_ragged.c - hal_ragged on the device that HAL_BACKEND names, against hal_attention for each sequence by itself,
 * which has tests of its own. */
#include <hal/ragged.h>

#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SEQUENCES = 12, MOST_PAGES = 400 };

/* A batch, and the operands of one layer. */
typedef struct layer {
    hal_ragged_desc desc;
    hal_ragged_batch batch;
    int32_t q_lengths[MOST_SEQUENCES], kv_lengths[MOST_SEQUENCES], *page_table;
    uint64_t tokens;
    operand q, k, v, o, lse, want, want_lse; /* a row is one head of one token; of k and v, of one token of a page */
    hal_buffer *metadata;                    /* of one sequence: its length, then its pages */
} layer;

static const int32_t lengths[] = {0, 1, 1, 2, 7, 16, 17, 33, 63, 64, 65, 130, 200, 700};

/* Sequences of any lengths; a prompt among single tokens, now and then. */
static void draw_batch(layer *l, uint64_t *seed, uint32_t sequences)
{
    uint32_t columns = 1, used = 0;
    l->tokens = 0;
    for (uint32_t s = 0; s < sequences; s++) {
        l->kv_lengths[s] = lengths[random_below(seed, 14)];
        l->q_lengths[s] = random_below(seed, 3) ? (l->kv_lengths[s] > 0) : lengths[random_below(seed, 12)];
        const uint32_t pages = ((uint32_t)l->kv_lengths[s] + l->desc.page_size - 1) / l->desc.page_size;
        columns = pages > columns ? pages : columns;
        l->tokens += (uint64_t)l->q_lengths[s];
    }
    l->page_table = malloc((size_t)(sequences + 1) * columns * sizeof(int32_t));
    assert_non_null(l->page_table);
    for (uint32_t i = 0; i < sequences * columns; i++) { /* any order; entries behind the last key are not looked at */
        const uint32_t s = i / columns, page = i % columns;
        const bool there = (uint64_t)page * l->desc.page_size < (uint64_t)l->kv_lengths[s];
        l->page_table[i] = there ? (int32_t)((used++ * 7 + 3) % l->desc.pages) : INT32_MAX;
    }
    l->batch = (hal_ragged_batch){.struct_size = sizeof l->batch,
                                  .sequences = sequences,
                                  .q_lengths = l->q_lengths,
                                  .kv_lengths = l->kv_lengths,
                                  .page_table = l->page_table,
                                  .page_columns = columns};
}

static void create_operands(layer *l, fixture *f, uint64_t *seed)
{
    const hal_ragged_desc *d = &l->desc;
    const uint64_t rows = (l->tokens ? l->tokens : 1) * d->q_heads, keys = d->pages * d->page_size * d->kv_heads;
    const struct {
        operand *o;
        const char *name;
        hal_dtype dtype;
        uint64_t rows, columns;
        matrix_fill fill;
    } all[] = {{&l->q, "q", d->dtype, rows, d->head_dim, FILL_RANDOM},
               {&l->k, "k", d->dtype, keys, d->head_dim, FILL_RANDOM},
               {&l->v, "v", d->dtype, keys, d->value_dim, FILL_RANDOM},
               {&l->o, "o", d->dtype_o, rows, d->value_dim, FILL_POISON},
               {&l->want, "want", d->dtype_o, rows, d->value_dim, FILL_POISON},
               {&l->lse, "lse", HAL_F32, rows, 1, FILL_POISON},
               {&l->want_lse, "want_lse", HAL_F32, rows, 1, FILL_POISON}};
    const uint64_t offset = random_below(seed, 3) * 8;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        operand_create_at(all[i].o, f, all[i].name, all[i].dtype, all[i].rows, all[i].columns, offset, all[i].columns,
                          all[i].fill, seed);
    }
    OK(hal_buffer_create(
        f->device, HAL_BUFFER(.size = 4 * (MOST_SEQUENCES + 1) * ((uint64_t)l->batch.page_columns + 1)), &l->metadata));
}

static void free_layer(layer *l)
{
    operand *const all[] = {&l->q, &l->k, &l->v, &l->o, &l->want, &l->lse, &l->want_lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        operand_free(all[i]);
    }
    hal_buffer_destroy(l->metadata);
    free(l->page_table);
}

/* hal_attention for sequence s alone. */
static void attend_alone(layer *l, fixture *f, uint32_t s, uint64_t first_token)
{
    const hal_ragged_desc *d = &l->desc;
    const uint64_t q_size = hal_dtype_size(d->dtype), o_size = hal_dtype_size(d->dtype_o),
                   row = first_token * d->q_heads;
    const uint32_t columns = l->batch.page_columns;
    const uint64_t at = (uint64_t)s * (columns + 1) * 4;
    OK(hal_cmd_upload(f->list, hal_range(l->metadata, at, 4), &l->kv_lengths[s], 4));
    OK(hal_cmd_upload(f->list, hal_range(l->metadata, at + 4, (uint64_t)columns * 4),
                      l->page_table + (size_t)s * columns, (uint64_t)columns * 4));
    hal_span q = operand_span(&l->q), o = operand_span(&l->want), lse = operand_span(&l->want_lse);
    q = hal_at(q.buffer, q.offset + row * d->head_dim * q_size);
    o = hal_at(o.buffer, o.offset + row * d->value_dim * o_size);
    lse = hal_at(lse.buffer, lse.offset + row * 4);
    OK(hal_attention(
        f->list, HAL_ATTENTION(.batch = 1, .q_heads = d->q_heads, .kv_heads = d->kv_heads, .head_dim = d->head_dim,
                               .value_dim = d->value_dim, .q_length = (uint64_t)l->q_lengths[s],
                               .kv_length = (uint64_t)l->kv_lengths[s], .dtype = d->dtype, .dtype_o = d->dtype_o,
                               .q = q, .k = operand_span(&l->k), .v = operand_span(&l->v), .o = o, .lse = lse,
                               .kv_lengths = hal_range(l->metadata, at, 4), .page_size = d->page_size,
                               .pages = d->pages, .page_columns = columns, .page_table = hal_at(l->metadata, at + 4),
                               .scale = d->scale, .causal = d->causal, .softcap = d->softcap, .mode = d->mode)));
}

static hal_status run(layer *l, hal_ragged *ragged)
{
    return hal_ragged_run(ragged, HAL_RAGGED_LAYER(.batch = &l->batch, .q = operand_span(&l->q),
                                                   .k = operand_span(&l->k), .v = operand_span(&l->v),
                                                   .o = operand_span(&l->o), .lse = operand_span(&l->lse)));
}

typedef struct told {
    layer *l;
    hal_ragged *ragged;
} told;

static hal_status tell(hal_cmdlist *list, void *user)
{
    (void)list;
    const told *t = user;
    return run(t->l, t->ragged);
}

/* Splits add up in another order; all else has the same bits. */
static void compare(const operand *got, const operand *want, bool exact)
{
    for (uint64_t row = 0; row < got->host.rows; row++) {
        for (uint64_t column = 0; column < got->host.columns; column++) {
            const double g = matrix_get(&got->host, 0, row, column), w = matrix_get(&want->host, 0, row, column);
            const double bound = exact ? 0
                                       : 4 * (fabs(w) + 0.1) *
                                             (got->host.dtype == HAL_F32   ? 1e-6
                                              : got->host.dtype == HAL_F16 ? 1e-3
                                                                           : 8e-3);
            if (!(fabs(g - w) <= bound) && !(g == w)) {
                print_error("%s [%u][%u]: got %.9g, want %.9g\n", got->name, (unsigned)row, (unsigned)column, g, w);
                fail();
            }
        }
    }
}

static void check_layer(layer *l, fixture *f, hal_ragged *ragged)
{
    operand *const outputs[] = {&l->o, &l->lse};
    told t = {l, ragged};
    operands_run(f, tell, &t, outputs, l->tokens ? 2 : 0);
    uint64_t first = 0;
    for (uint32_t s = 0; s < l->batch.sequences; s++) {
        if (l->q_lengths[s]) {
            attend_alone(l, f, s, first);
        }
        first += (uint64_t)l->q_lengths[s];
    }
    OK(hal_cmd_download(f->list, l->want.host.data, hal_whole(l->want.buffer)));
    OK(hal_cmd_download(f->list, l->want_lse.host.data, hal_whole(l->want_lse.buffer)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    if (l->tokens) {
        compare(&l->o, &l->want, l->desc.mode != HAL_MODE_FAST);
        compare(&l->lse, &l->want_lse, l->desc.mode != HAL_MODE_FAST);
        operand_check_gaps(&l->o);
        operand_check_gaps(&l->lse);
    }
}

static hal_ragged_desc draw_desc(uint32_t round, uint64_t *seed)
{
    static const uint32_t dims[] = {64, 16, 128, 33}, pages[] = {16, 1, 7, 64};
    hal_ragged_desc d = {.struct_size = sizeof d,
                         .kv_heads = 1 + random_below(seed, 2),
                         .head_dim = dims[round % 4],
                         .value_dim = dims[round % 4],
                         .dtype = (hal_dtype)(HAL_F32 + round % 3),
                         .dtype_o = (hal_dtype)(HAL_F32 + round % 3),
                         .page_size = pages[round / 2 % 4],
                         .pages = MOST_PAGES,
                         .causal = round % 4 ? HAL_CAUSAL_BOTTOM_RIGHT : HAL_CAUSAL_NONE,
                         .softcap = round % 5 == 4 ? 5.0f : 0.0f,
                         .mode = (hal_mode)(round % 2)};
    d.q_heads = d.kv_heads * (1 + random_below(seed, 4));
    return d;
}

static void test_random(void **state)
{
    fixture *f = *state;
    uint64_t seed = 71;
    for (uint32_t round = 0; round < 16; round++) {
        layer l = {.desc = draw_desc(round, &seed)};
        hal_ragged *ragged;
        OK(hal_ragged_create(f->stream, &l.desc, &ragged));
        for (uint32_t step = 0; step < 3; step++) { /* larger and smaller batches on the same object */
            draw_batch(&l, &seed, step == 1 ? MOST_SEQUENCES : random_below(&seed, 4));
            create_operands(&l, f, &seed);
            OK(hal_ragged_plan(ragged, &l.batch));
            check_layer(&l, f, ragged);
            free_layer(&l);
        }
        hal_ragged_destroy(ragged);
    }
}

/* A long sequence is split, and tiles that nobody has queries for are not there. */
static void test_list(void **state)
{
    fixture *f = *state;
    uint64_t seed = 5;
    layer l = {.desc = {.struct_size = sizeof l.desc,
                        .q_heads = 4,
                        .kv_heads = 2,
                        .head_dim = 64,
                        .value_dim = 64,
                        .dtype = HAL_F32,
                        .dtype_o = HAL_F32,
                        .page_size = 16,
                        .pages = MOST_PAGES,
                        .causal = HAL_CAUSAL_BOTTOM_RIGHT}};
    hal_ragged *ragged;
    hal_ragged_stats stats = {.struct_size = sizeof stats};
    OK(hal_ragged_create(f->stream, &l.desc, &ragged));
    draw_batch(&l, &seed, 8);
    for (uint32_t s = 0; s < 8; s++) { /* a prompt among single tokens */
        l.q_lengths[s] = s == 3 ? 200 : 1;
        l.kv_lengths[s] = s == 3 ? 200 : 1;
    }
    l.batch.page_columns = 13;
    free(l.page_table);
    l.page_table = calloc((size_t)9 * 13, sizeof(int32_t));
    assert_non_null(l.page_table);
    l.batch.page_table = l.page_table;
    l.tokens = 207;
    OK(hal_ragged_plan(ragged, &l.batch));
    OK(hal_ragged_get_stats(ragged, &stats));
    assert_true(stats.items < stats.tiles && stats.items >= 8);
    create_operands(&l, f, &seed);
    check_layer(&l, f, ragged);
    free_layer(&l);

    draw_batch(&l, &seed, 1);
    l.q_lengths[0] = 1;
    l.kv_lengths[0] = 6000;
    l.batch.page_columns = 375;
    free(l.page_table);
    l.page_table = calloc((size_t)2 * 375, sizeof(int32_t));
    assert_non_null(l.page_table);
    for (int32_t i = 0; i < 375; i++) {
        l.page_table[i] = 399 - i;
    }
    l.batch.page_table = l.page_table;
    l.tokens = 1;
    OK(hal_ragged_plan(ragged, &l.batch));
    OK(hal_ragged_get_stats(ragged, &stats));
    assert_true(stats.splits > 1 && stats.items == stats.splits && stats.scratch_bytes > 0);
    create_operands(&l, f, &seed);
    check_layer(&l, f, ragged);
    free_layer(&l);
    hal_ragged_destroy(ragged);
}

/* 36 layers: 4 arrays in one upload, instead of 144. A batch that is not the planned one is refused, and nothing of it
 * is told to the device. */
static void test_stale(void **state)
{
    fixture *f = *state;
    uint64_t seed = 9;
    layer l = {.desc = draw_desc(1, &seed)};
    hal_ragged *ragged;
    OK(hal_ragged_create(f->stream, &l.desc, &ragged));
    draw_batch(&l, &seed, 5);
    l.kv_lengths[2] = l.q_lengths[2] = 1;
    l.page_table[2 * l.batch.page_columns] = 4;
    l.tokens = 0;
    for (uint32_t s = 0; s < 5; s++) {
        l.tokens += (uint64_t)l.q_lengths[s];
    }
    create_operands(&l, f, &seed);
    REFUSED(HAL_ERROR_INVALID_STATE, run(&l, ragged)); /* nothing is planned */
    OK(hal_ragged_plan(ragged, &l.batch));
    for (uint32_t i = 0; i < 36; i++) {
        OK(run(&l, ragged));
    }
    hal_ragged_stats stats = {.struct_size = sizeof stats};
    OK(hal_ragged_get_stats(ragged, &stats));
    assert_int_equal(stats.uploads, 1);
    assert_int_equal(stats.arrays, 4);
    assert_int_equal(stats.arrays_unplanned, 144);
    assert_int_equal(stats.runs, 36);

    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    memset(l.o.host.data, 0x33, l.o.host.bytes);
    OK(hal_cmd_upload(f->list, hal_whole(l.o.buffer), l.o.host.data, l.o.host.bytes));
    l.kv_lengths[2]++;
    REFUSED(HAL_ERROR_INVALID_STATE, run(&l, ragged));
    assert_non_null(strstr(hal_last_error(), "sequence 2 has 1 queries and 2 keys, but 1 and 1"));
    l.kv_lengths[2]--;
    l.q_lengths[2]++;
    REFUSED(HAL_ERROR_INVALID_STATE, run(&l, ragged));
    l.q_lengths[2]--;
    l.page_table[2 * l.batch.page_columns]++;
    REFUSED(HAL_ERROR_INVALID_STATE, run(&l, ragged));
    l.page_table[2 * l.batch.page_columns]--;
    l.batch.sequences--;
    REFUSED(HAL_ERROR_INVALID_STATE, run(&l, ragged));
    l.batch.sequences++;
    OK(hal_cmd_download(f->list, l.o.host.data, hal_whole(l.o.buffer)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (uint64_t i = 0; i < l.o.host.bytes; i++) {
        assert_int_equal(l.o.host.data[i], 0x33);
    }
    OK(run(&l, ragged)); /* the plan still stands */
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    free_layer(&l);
    hal_ragged_destroy(ragged);
}

static void test_misuse(void **state)
{
    fixture *f = *state;
    const int32_t one[] = {1}, minus[] = {-1}, many[] = {33}, page[] = {8, 2}, beyond[] = {9, 0};
    hal_ragged *ragged = NULL;
    hal_ragged_stats stats = {.struct_size = sizeof stats};
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_create(NULL, HAL_RAGGED(.page_size = 16), &ragged));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_create(f->stream, HAL_RAGGED(.q_heads = 1), &ragged));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_create(f->stream, HAL_RAGGED(.page_size = 16), NULL));
    hal_ragged *stranger = (hal_ragged *)(void *)f->stream;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_plan(stranger, HAL_RAGGED_BATCH(.sequences = 0)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_run(stranger, HAL_RAGGED_LAYER(.batch = NULL)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_get_stats(stranger, &stats));
    hal_ragged_destroy(stranger);
    const uint32_t heads[][2] = {{0, 0}, {2, 0}, {0, 2}, {3, 2}}; /* a batch of empty sequences divides by them, too */
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        REFUSED(HAL_ERROR_INVALID_ARGUMENT,
                hal_ragged_create(f->stream,
                                  HAL_RAGGED(.q_heads = heads[i][0], .kv_heads = heads[i][1], .head_dim = 8,
                                             .page_size = 16, .pages = 9),
                                  &ragged));
    }
    assert_null(ragged);
    OK(hal_ragged_create(f->stream, HAL_RAGGED(.q_heads = 1, .kv_heads = 1, .head_dim = 8, .page_size = 16, .pages = 9),
                         &ragged));
    const hal_ragged_batch good = {.struct_size = sizeof good,
                                   .sequences = 1,
                                   .q_lengths = one,
                                   .kv_lengths = one,
                                   .page_table = page,
                                   .page_columns = 2};
    hal_ragged_batch bad = good;
    bad.q_lengths = minus;
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_ragged_plan(ragged, &bad));
    bad = good;
    bad.kv_lengths = many;
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_ragged_plan(ragged, &bad));
    bad = good;
    bad.page_table = beyond;
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_ragged_plan(ragged, &bad));
    assert_non_null(strstr(hal_last_error(), "page 0 of sequence 0 is 9"));
    bad = good;
    bad.kv_lengths = NULL;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_plan(ragged, &bad));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_plan(ragged, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_plan(NULL, &good));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_run(ragged, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_ragged_get_stats(ragged, NULL));
    const hal_ragged_batch none = {.struct_size = sizeof none};
    OK(hal_ragged_plan(ragged, &none));
    OK(hal_ragged_run(ragged, HAL_RAGGED_LAYER(.batch = &none)));
    OK(hal_ragged_get_stats(ragged, &stats));
    assert_int_equal(stats.items, 0);
    hal_ragged_destroy(ragged);
    hal_ragged_destroy(NULL);
}

/* Plans, and kernels that are not compiled yet, after the handle of the device: each object holds what it needs. */
static void test_device_goes_first(void **state)
{
    (void)state;
    uint64_t seed = 3;
    fixture f;
    fixture_open(&f, NULL);
    layer l = {.desc = draw_desc(0, &seed)};
    hal_ragged *both[2];
    for (int i = 0; i < 2; i++) {
        OK(hal_ragged_create(f.stream, &l.desc, &both[i]));
    }
    draw_batch(&l, &seed, 5);
    create_operands(&l, &f, &seed);
    hal_device_destroy(f.device);
    for (int i = 0; i < 2; i++) {
        OK(hal_ragged_plan(both[i], &l.batch));
        check_layer(&l, &f, both[i]);
        hal_ragged_destroy(both[i]);
    }
    free_layer(&l);
    hal_stream_destroy(f.stream);
}

/* No memory for a larger batch: an error, and the object goes on with others. */
static void test_out_of_memory(void **state)
{
    (void)state;
    static int32_t ones[5000], pages[5000];
    for (uint32_t i = 0; i < 5000; i++) {
        ones[i] = 1;
    }
    fixture f;
    fixture_open(&f, "pooled=0"); /* each buffer is an allocation */
    hal_ragged *ragged;
    OK(hal_ragged_create(f.stream, HAL_RAGGED(.q_heads = 1, .kv_heads = 1, .head_dim = 8, .page_size = 16, .pages = 9),
                         &ragged));
    hal_ragged_batch batch = {
        .struct_size = sizeof batch, .q_lengths = ones, .kv_lengths = ones, .page_table = pages, .page_columns = 1};
    for (uint32_t sequences = 5000; sequences > 0; sequences -= 2500) {
        batch.sequences = sequences;
        OK(hal_device_inject_fault(f.device, HAL_FAULT_ALLOC, 1));
        hal_status status = hal_ragged_plan(ragged, &batch);
        OK(hal_device_inject_fault(f.device, HAL_FAULT_ALLOC, 0));
        assert_int_equal(status, sequences == 5000 ? HAL_ERROR_OUT_OF_MEMORY : HAL_OK);
        if (status != HAL_OK) {
            REFUSED(HAL_ERROR_INVALID_STATE, hal_ragged_run(ragged, HAL_RAGGED_LAYER(.batch = &batch)));
            OK(hal_ragged_plan(ragged, &batch));
        }
    }
    hal_ragged_destroy(ragged);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_list),
                                       cmocka_unit_test(test_stale),
                                       cmocka_unit_test(test_misuse),
                                       cmocka_unit_test(test_device_goes_first),
                                       cmocka_unit_test(test_out_of_memory)};
    return ROWS_MAIN("ragged", tests);
}
