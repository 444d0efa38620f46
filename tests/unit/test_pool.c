/* The pool against a map of bytes. */
#include "unit.h"

#include "pool.h"

#define SIZE 4096
#define LIVE 200

static hal_core core;

static void random_turns(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    static uint8_t owner[SIZE];
    uint64_t offsets[LIVE], sizes[LIVE];
    uint32_t live = 0;
    hal_pool_block block;
    memset(owner, 0, sizeof owner);
    assert_int_equal(hal_pool_block_init(&core, &block, SIZE), HAL_OK);
    for (int turn = 0; turn < 50000; turn++) {
        if (live < LIVE && unit_random(&random) % 100 < (turn / 1000 % 2 ? 35 : 65)) {
            uint64_t size = 1 + unit_random(&random) % (unit_random(&random) % 8 ? 64 : 1000);
            uint64_t alignment = UINT64_C(1) << unit_random(&random) % 9, at = UINT64_MAX;
            if (hal_pool_alloc(&block, size, alignment, &at)) {
                assert_true(at % alignment == 0 && size <= SIZE && at <= SIZE - size);
                for (uint64_t i = at; i < at + size; i++) {
                    assert_int_equal(owner[i], 0);
                    owner[i] = 1;
                }
                offsets[live] = at;
                sizes[live++] = size;
            } else { /* then there really is no room */
                for (uint64_t begin = 0; begin + size <= SIZE; begin += alignment) {
                    uint64_t i = begin;
                    while (i < begin + size && !owner[i])
                        i++;
                    assert_true(i < begin + size);
                }
            }
        } else if (live > 0) {
            uint32_t which = (uint32_t)(unit_random(&random) % live);
            assert_true(hal_pool_free(&block, offsets[which]));
            memset(owner + offsets[which], 0, sizes[which]);
            assert_false(hal_pool_free(&block, offsets[which]));
            live--;
            offsets[which] = offsets[live];
            sizes[which] = sizes[live];
        }
        assert_true(hal_pool_check(&block));
    }
    while (live > 0)
        assert_true(hal_pool_free(&block, offsets[--live]));
    assert_true(hal_pool_check(&block) && block.used == 0 && block.count == 1);
    hal_pool_block_free(&block);
}

static void best_fit(void **state)
{
    (void)state;
    uint64_t at[5], got;
    hal_pool_block block;
    assert_int_equal(hal_pool_block_init(&core, &block, 1000), HAL_OK);
    const uint64_t sizes[5] = {300, 100, 100, 100, 400};
    for (int i = 0; i < 5; i++)
        assert_true(hal_pool_alloc(&block, sizes[i], 1, &at[i]));
    assert_false(hal_pool_alloc(&block, 1, 1, &got));
    assert_true(hal_pool_free(&block, at[0]) && hal_pool_free(&block, at[2]));
    assert_true(hal_pool_alloc(&block, 90, 1, &got)); /* the hole of 100, not that of 300 */
    assert_int_equal(got, at[2]);
    assert_true(hal_pool_alloc(&block, 300, 1, &got));
    assert_int_equal(got, at[0]);
    hal_pool_block_free(&block);
}

static void refusals(void **state)
{
    (void)state;
    uint64_t got;
    hal_pool_block block;
    assert_int_equal(hal_pool_block_init(&core, &block, 256), HAL_OK);
    assert_false(hal_pool_alloc(&block, 0, 1, &got));
    assert_false(hal_pool_alloc(&block, 257, 1, &got));
    assert_false(hal_pool_alloc(&block, UINT64_MAX, 256, &got));
    assert_false(hal_pool_free(&block, 0));
    assert_true(hal_pool_alloc(&block, 256, 256, &got));
    assert_false(hal_pool_free(&block, 1));
    assert_true(hal_pool_free(&block, 0));
    assert_true(hal_pool_check(&block));
    hal_pool_block_free(&block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_turns),
        cmocka_unit_test(best_fit),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
