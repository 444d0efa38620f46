/* test_gather.c - hal_gather on the device that HAL_BACKEND names. */
#include "rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gather_case {
    operand table, y;
    int64_t *ids;
    hal_buffer *buffer; /* of the ids, at element 1 */
    bool int64;
} gather_case;

static hal_status tell_gather(hal_cmdlist *list, void *user)
{
    const gather_case *c = user;
    return hal_gather(list, HAL_GATHER(.count = c->y.host.rows, .columns = c->y.host.columns,
                                       .table_rows = c->table.host.rows, .dtype = c->table.host.dtype,
                                       .dtype_y = c->y.host.dtype, .table = operand_span(&c->table),
                                       .ids = hal_at(c->buffer, 4), .y = operand_span(&c->y), .ldt = c->table.host.ld,
                                       .ldy = c->y.host.ld, .ids_are_int64 = c->int64));
}

static double expect_gather(void *user, uint64_t row, uint64_t column, double *error)
{
    const gather_case *c = user;
    *error = 0;
    const int64_t id = c->ids[row];
    return id < 0 || (uint64_t)id >= c->table.host.rows ? 0 : matrix_get(&c->table.host, 0, (uint64_t)id, column);
}

static void upload_ids(gather_case *c, fixture *f, uint64_t count)
{
    const uint64_t size = c->int64 ? 8 : 4;
    uint8_t *bytes = malloc(4 + count * size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        const int32_t small = (int32_t)c->ids[i];
        memcpy(bytes + 4 + i * size, c->int64 ? (const void *)&c->ids[i] : (const void *)&small, size);
    }
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4 + count * size), &c->buffer));
    OK(hal_cmd_upload(f->list, hal_range(c->buffer, 4, count * size), bytes + 4, count * size));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    free(bytes);
}

/* Repeated ids, and ids outside: negative, one too large, beyond 32 bits. */
static void test_random(void **state)
{
    static const int64_t outside[] = {-1, INT32_MIN, INT32_MAX, INT64_C(1) << 32, INT64_MIN};
    fixture *f = *state;
    uint64_t seed = 31;
    for (uint32_t round = 0; round < 54; round++) {
        gather_case c = {.int64 = round % 2};
        const uint64_t rows = test_sizes[random_below(&seed, test_size_count)];
        const uint64_t count = test_sizes[random_below(&seed, test_size_count)];
        const uint64_t columns = round % 9 == 8 ? 5000 : test_sizes[random_below(&seed, test_size_count)];
        operand_create(&c.table, f, "table", (hal_dtype)(HAL_F32 + round % 3), rows, columns, FILL_RANDOM, &seed);
        operand_create(&c.y, f, "y", (hal_dtype)(HAL_F32 + round / 3 % 3), count, columns, FILL_POISON, &seed);
        c.ids = calloc(count, sizeof *c.ids);
        assert_non_null(c.ids);
        for (uint64_t i = 0; i < count; i++) {
            c.ids[i] = (int64_t)random_below(&seed, (uint32_t)rows);
            if (random_below(&seed, 5) == 0) {
                const uint32_t kind = random_below(&seed, c.int64 ? 6 : 4);
                c.ids[i] = kind == 3 ? (int64_t)rows : outside[kind > 3 ? kind - 1 : kind];
            }
        }
        upload_ids(&c, f, count);
        operand *const outputs[] = {&c.y};
        operands_run(f, tell_gather, &c, outputs, 1);
        operand_check(&c.y, expect_gather, &c, true);
        hal_buffer_destroy(c.buffer);
        free(c.ids);
        operand_free(&c.table);
        operand_free(&c.y);
    }
}

/* Every 16-bit number keeps its bits, subnormal ones too; NaN stays NaN. */
static void test_bits(void **state)
{
    fixture *f = *state;
    uint64_t seed = 32;
    for (hal_dtype dtype = HAL_F16; dtype <= HAL_BF16; dtype++) {
        int64_t ids[256];
        gather_case c = {.ids = ids};
        operand_create_at(&c.table, f, "table", dtype, 256, 256, 0, 256, FILL_RANDOM, &seed);
        operand_create_at(&c.y, f, "y", dtype, 256, 256, 0, 256, FILL_POISON, &seed);
        uint16_t *in = (uint16_t *)(void *)c.table.host.data;
        for (uint32_t i = 0; i < 0x10000; i++) {
            in[i] = (uint16_t)i;
            ids[i / 256] = 255 - i / 256;
        }
        operand_upload(&c.table, f);
        upload_ids(&c, f, 256);
        operand *const outputs[] = {&c.y};
        operands_run(f, tell_gather, &c, outputs, 1);
        const uint16_t *out = (const uint16_t *)(const void *)c.y.host.data;
        for (uint32_t i = 0; i < 0x10000; i++) {
            const uint32_t want = (255 - i / 256) * 256 + i % 256, infinity = dtype == HAL_F16 ? 0x7c00 : 0x7f80;
            if (out[i] != want && !((want & 0x7fff) > infinity && (out[i] & 0x7fffu) > infinity)) {
                fail_msg("%s %#x became %#x", hal_dtype_name(dtype), want, out[i]);
            }
        }
        hal_buffer_destroy(c.buffer);
        operand_free(&c.table);
        operand_free(&c.y);
    }
}

static void test_rules(void **state)
{
    fixture *f = *state;
    hal_buffer *x, *y;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &x));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &y));
    const hal_span sx = hal_whole(x), sy = hal_whole(y), ids = hal_at(x, 2048);
    OK(hal_gather(f->list, HAL_GATHER(.count = 0, .columns = 4, .table_rows = 4, .table = sx, .ids = ids, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gather(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4, .table = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4,
                                                                       .table = sx, .ids = ids, .y = sy, .ldt = 3)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4, .table = sx, .ids = ids, .y = sy,
                                           .dtype = HAL_F8E4M3)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 400,
                                                                   .table = sx, .ids = ids, .y = sy)));
    REFUSED(HAL_ERROR_OVERLAP, hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4, .table = sx,
                                                              .ids = ids, .y = sx)));
    REFUSED(HAL_ERROR_OVERLAP, hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4, .table = sy,
                                                              .ids = ids, .y = hal_at(x, 2056))));
    REFUSED(HAL_ERROR_ALIGNMENT, hal_gather(f->list, HAL_GATHER(.count = 4, .columns = 4, .table_rows = 4, .table = sx,
                                                                .ids = hal_at(x, 2046), .y = sy)));
    REFUSED(HAL_ERROR_LIMIT, hal_gather(f->list, HAL_GATHER(.count = UINT64_C(1) << 31, .columns = 4, .table_rows = 4,
                                                            .table = sx, .ids = ids, .y = sy)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_bits),
                                       cmocka_unit_test(test_rules)};
    return ROWS_MAIN("gather", tests);
}
