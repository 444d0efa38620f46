/* test_batch_memory.c - the lives of a ragged batch and of a pipeline with one thing failing, for every thing: host
 * memory, device memory, submissions, compilations, the device. */
#include <hal/pipeline.h>
#include <hal/ragged.h>

#include "failures.h"
#include "host_memory.h"
#include "rows.h"

#include <string.h>

enum { TOKENS = 5, HEADS = 2, DIM = 16, PAGE = 8, PAGES = 4, ELEMENTS = TOKENS * HEADS * DIM, BYTES = ELEMENTS * 4 };
enum { ITEMS = 3 };

/* A layer's operands; items and their results. Whatever a life has asked for may still be written here after it. */
typedef struct batch_case {
    fixture f;
    hal_buffer *q, *pages, *o;
    float numbers[ELEMENTS], got[ELEMENTS], want[ELEMENTS];
    float targets[ITEMS][ELEMENTS];
} batch_case;

static void open_case(batch_case *c, const char *limits)
{
    const uint64_t pool = (uint64_t)PAGES * PAGE * HEADS * DIM * 4;
    memset(c, 0, sizeof *c);
    fixture_open(&c->f, limits);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        c->numbers[i] = (float)(i * 7 % 31) / 8 - 2;
    }
    OK(hal_buffer_create(c->f.device, HAL_BUFFER(.size = BYTES), &c->q));
    OK(hal_buffer_create(c->f.device, HAL_BUFFER(.size = BYTES), &c->o));
    OK(hal_buffer_create(c->f.device, HAL_BUFFER(.size = pool), &c->pages));
    OK(hal_cmd_upload(c->f.list, hal_whole(c->q), c->numbers, BYTES));
    for (uint64_t at = 0; at < pool; at += BYTES) {
        const uint64_t size = pool - at < BYTES ? pool - at : BYTES;
        OK(hal_cmd_upload(c->f.list, hal_range(c->pages, at, size), c->numbers, size));
    }
    OK(hal_stream_wait(c->f.stream, TEST_TIMEOUT));
}

static void close_case(batch_case *c)
{
    hal_buffer_destroy(c->q);
    hal_buffer_destroy(c->o);
    hal_buffer_destroy(c->pages);
    fixture_close(&c->f);
}

/* A small batch, then one that needs more room; both are run, the result comes back. The first failure. */
static hal_status ragged_life(void *user)
{
    static const int32_t queries[] = {1, 1, 3}, keys[] = {9, 1, 12}, tables[] = {0, 2, 3, 0, 1, 3};
    batch_case *c = user;
    hal_ragged *ragged = NULL;
    hal_status status = hal_ragged_create(
        c->f.stream,
        HAL_RAGGED(.q_heads = HEADS, .kv_heads = HEADS, .head_dim = DIM, .page_size = PAGE, .pages = PAGES), &ragged);
    for (uint32_t sequences = 1; status == HAL_OK && sequences <= 3; sequences += 2) {
        const hal_ragged_batch *batch = HAL_RAGGED_BATCH(.sequences = sequences, .q_lengths = queries,
                                                         .kv_lengths = keys, .page_table = tables, .page_columns = 2);
        status = hal_ragged_plan(ragged, batch);
        if (status == HAL_OK) {
            status =
                hal_ragged_run(ragged, HAL_RAGGED_LAYER(.batch = batch, .q = hal_whole(c->q), .k = hal_whole(c->pages),
                                                        .v = hal_whole(c->pages), .o = hal_whole(c->o)));
        }
    }
    status = status == HAL_OK ? hal_cmd_download(c->f.list, c->got, hal_whole(c->o)) : status;
    const hal_status waited = hal_stream_wait(c->f.stream, TEST_TIMEOUT);
    hal_ragged_destroy(ragged);
    return status == HAL_OK ? waited : status;
}

static void check_ragged(void *user)
{
    batch_case *c = user;
    memset(c->got, 0x5A, sizeof c->got);
    OK(ragged_life(c));
    assert_memory_equal(c->got, c->want, BYTES);
}

static hal_status twice(void *user, hal_cmdlist *list, uint64_t item, hal_span input, hal_span output)
{
    (void)user;
    (void)item;
    return hal_binary(list,
                      HAL_BINARY(.rows = 1, .columns = ELEMENTS, .op = HAL_ADD, .a = input, .b = input, .y = output));
}

static hal_status pipeline_life(void *user)
{
    batch_case *c = user;
    hal_pipeline *p = NULL;
    hal_status status = hal_pipeline_create(
        c->f.device, HAL_PIPELINE(.slots = 2, .input_size = BYTES, .output_size = BYTES, .compute = twice), &p);
    for (uint32_t i = 0; status == HAL_OK && i < ITEMS; i++) {
        status = hal_pipeline_push(p, c->numbers, BYTES, c->targets[i], BYTES, TEST_TIMEOUT);
    }
    status = status == HAL_OK ? hal_pipeline_finish(p, TEST_TIMEOUT) : status;
    hal_pipeline_destroy(p);
    return status;
}

static void check_pipeline(void *user)
{
    batch_case *c = user;
    memset(c->targets, 0x5A, sizeof c->targets);
    OK(pipeline_life(c));
    for (uint32_t i = 0; i < ITEMS * ELEMENTS; i++) {
        assert_true(c->targets[i / ELEMENTS][i % ELEMENTS] == 2 * c->numbers[i % ELEMENTS]);
    }
}

/* Both lives in turn. */
static a_life life_of(batch_case *c, int which)
{
    a_life life = {c->f.device, which ? pipeline_life : ragged_life, which ? check_pipeline : check_ragged, c};
    OK(life.live(c));
    memcpy(c->want, c->got, BYTES);
    return life;
}

static void test_host_memory(void **state)
{
    static batch_case c;
    (void)state;
    for (int which = 0; which < 2; which++) {
        open_case(&c, NULL);
        const a_life life = life_of(&c, which);
        fail_host_memory(&life, 5);
        close_case(&c);
    }
}

static void test_faults(void **state)
{
    static batch_case c;
    (void)state;
    for (int which = 0; which < 2; which++) {
        open_case(&c, "pooled=0"); /* each buffer is an allocation */
        const a_life life = life_of(&c, which);
        fail_each(&life, HAL_FAULT_ALLOC, HAL_ERROR_OUT_OF_MEMORY, 2);
        fail_each(&life, HAL_FAULT_SUBMIT, HAL_ERROR_BACKEND, 2);
        close_case(&c);
    }
}

/* On devices that have compiled nothing yet, and on devices that are lost: then all can be destroyed. */
static void test_new_devices(void **state)
{
    static const struct {
        hal_fault fault;
        hal_status natural;
    } faults[] = {{HAL_FAULT_COMPILE, HAL_ERROR_COMPILE}, {HAL_FAULT_LOST, HAL_ERROR_DEVICE_LOST}};
    static batch_case c;
    (void)state;
    for (int which = 0; which < 2; which++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            hal_status status = HAL_ERROR_BACKEND;
            uint64_t nth;
            for (nth = 1; status != HAL_OK && nth < 50; nth++) {
                open_case(&c, NULL);
                OK(hal_device_inject_fault(c.f.device, faults[i].fault, nth));
                status = which ? pipeline_life(&c) : ragged_life(&c);
                OK(hal_device_inject_fault(c.f.device, faults[i].fault, 0));
                assert_true(status == HAL_OK || status == faults[i].natural);
                if (faults[i].fault == HAL_FAULT_COMPILE) {
                    OK(which ? pipeline_life(&c) : ragged_life(&c));
                }
                close_case(&c);
            }
            assert_true(nth > 2 && nth < 50);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host_memory), cmocka_unit_test(test_faults),
                                       cmocka_unit_test(test_new_devices)};
    return ROWS_MAIN("batch_memory", tests);
}
