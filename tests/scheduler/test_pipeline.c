/* test_pipeline.c - hal_pipeline on the device that HAL_BACKEND names. */
#include <hal/pipeline.h>

#include "rows.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 3000, BYTES = ELEMENTS * 4, ITEMS = 50 };

/* What the work of an item does. */
typedef struct work {
    hal_event *gate;   /* waited for before the work; NULL: none */
    uint64_t fails_at; /* the item that fails; UINT64_MAX: none */
    uint64_t calls;
} work;

/* y = x + x, of as many elements as were pushed. */
static hal_status twice(void *user, hal_cmdlist *list, uint64_t item, hal_span input, hal_span output)
{
    work *w = user;
    assert_int_equal(w->calls, item);
    w->calls++;
    if (item == w->fails_at) {
        return HAL_ERROR_UNSUPPORTED;
    }
    hal_status status = w->gate ? hal_cmd_event_wait(list, w->gate) : HAL_OK;
    return status == HAL_OK ? hal_binary(list, HAL_BINARY(.rows = 1, .columns = input.size / 4, .op = HAL_ADD,
                                                          .a = input, .b = input, .y = output))
                            : status;
}

static hal_pipeline *create(fixture *f, work *w, uint32_t slots)
{
    hal_pipeline *p;
    OK(hal_pipeline_create(f->device,
                           HAL_PIPELINE(.label = "doubling", .slots = slots, .input_size = BYTES, .output_size = BYTES,
                                        .compute = twice, .user = w),
                           &p));
    return p;
}

static hal_pipeline_stats stats_of(hal_pipeline *p)
{
    hal_pipeline_stats stats = {.struct_size = sizeof stats};
    OK(hal_pipeline_get_stats(p, &stats));
    return stats;
}

static float value(uint64_t item, uint64_t i)
{
    return (float)((item * 7919 + i * 31) % 100003);
}

static void fill(float *source, uint64_t item)
{
    for (uint64_t i = 0; i < ELEMENTS; i++) {
        source[i] = value(item, i);
    }
}

/* Items of all sizes, through any number of slots; the source is overwritten after each push. */
static void test_items(void **state)
{
    fixture *f = *state;
    float *source = malloc(BYTES), *targets = malloc((size_t)ITEMS * BYTES);
    assert_non_null(source);
    assert_non_null(targets);
    for (uint32_t slots = 1; slots <= 5; slots++) {
        work w = {.fails_at = UINT64_MAX};
        hal_pipeline *p = create(f, &w, slots);
        memset(targets, 0x5A, (size_t)ITEMS * BYTES);
        for (uint64_t item = 0; item < ITEMS; item++) {
            const uint64_t size = item % 5 == 4 ? BYTES / (item + 1) / 4 * 4 : BYTES;
            fill(source, item);
            OK(hal_pipeline_push(p, source, size, targets + item * ELEMENTS, size, TEST_TIMEOUT));
            memset(source, 0xFF, BYTES);
            if (item % 7 == 0) {
                OK(hal_pipeline_wait(p, item / 2, TEST_TIMEOUT));
                assert_true(targets[item / 2 * ELEMENTS] == 2 * value(item / 2, 0));
            }
        }
        OK(hal_pipeline_finish(p, TEST_TIMEOUT));
        for (uint64_t item = 0; item < ITEMS; item++) {
            const uint64_t size = item % 5 == 4 ? BYTES / (item + 1) / 4 * 4 : BYTES;
            for (uint64_t i = 0; i < size / 4; i++) {
                assert_true(targets[item * ELEMENTS + i] == 2 * value(item, i));
            }
            for (uint64_t i = size; i < BYTES; i++) {
                assert_int_equal(((uint8_t *)(targets + item * ELEMENTS))[i], 0x5A);
            }
        }
        assert_int_equal(stats_of(p).pushed, ITEMS);
        assert_int_equal(stats_of(p).done, ITEMS);
        hal_pipeline_destroy(p);
    }
    free(source);
    free(targets);
}

/* While the work is held up: pushes fill the slots, then wait, time out and are counted; the report says what each slot
 * waits for; nothing is lost when it goes on. */
static void test_backpressure(void **state)
{
    fixture *f = *state;
    static float source[ELEMENTS], targets[4][ELEMENTS];
    hal_event *gate;
    OK(hal_event_create(f->device, &(hal_event_desc){.struct_size = sizeof(hal_event_desc), .gate = true}, &gate));
    work w = {.gate = gate, .fails_at = UINT64_MAX};
    hal_pipeline *p = create(f, &w, 3);
    for (uint64_t item = 0; item < 3; item++) {
        fill(source, item);
        OK(hal_pipeline_push(p, source, BYTES, targets[item], BYTES, 0));
    }
    assert_int_equal(hal_pipeline_push(p, source, BYTES, targets[3], BYTES, HAL_MILLISECONDS(30)), HAL_TIMEOUT);
    assert_int_equal(hal_pipeline_wait(p, 0, 0), HAL_TIMEOUT);
    assert_int_equal(hal_pipeline_finish(p, HAL_MILLISECONDS(1)), HAL_TIMEOUT);
    hal_pipeline_stats stats = stats_of(p);
    assert_int_equal(stats.pushed, 3);
    assert_int_equal(stats.done, 0);
    assert_int_equal(stats.stalls, 1);
    assert_true(stats.stalled_us >= 29e3);

    char report[1000], cut[20];
    OK(hal_device_stall_report(f->device, NULL, report, sizeof report));
    OK(hal_pipeline_report(p, report, sizeof report));
    assert_non_null(strstr(report, "slot 2: item 2, "));
    assert_null(strstr(report, "done"));
    OK(hal_pipeline_report(p, cut, sizeof cut));
    assert_int_equal(cut[sizeof cut - 1], 0);
    assert_memory_equal(cut, report, sizeof cut - 1);

    OK(hal_event_signal(gate));
    fill(source, 3);
    OK(hal_pipeline_push(p, source, BYTES, targets[3], BYTES, TEST_TIMEOUT));
    OK(hal_pipeline_finish(p, TEST_TIMEOUT));
    OK(hal_pipeline_report(p, report, sizeof report));
    assert_string_equal(report, "slot 0: empty\nslot 1: empty\nslot 2: empty\n");
    for (uint64_t item = 0; item < 4; item++) {
        assert_true(targets[item][ELEMENTS - 1] == 2 * value(item, ELEMENTS - 1));
    }
    hal_pipeline_destroy(p);
    hal_event_destroy(gate);
}

/* A failing item ends the pipeline; what was pushed before is done. */
static void test_failure(void **state)
{
    fixture *f = *state;
    static float source[ELEMENTS], targets[3][ELEMENTS];
    work w = {.fails_at = 2};
    hal_pipeline *p = create(f, &w, 2);
    for (uint64_t item = 0; item < 2; item++) {
        fill(source, item);
        OK(hal_pipeline_push(p, source, BYTES, targets[item], BYTES, TEST_TIMEOUT));
    }
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(p, NULL, 4, NULL, 0, 0)); /* a message that is not its */
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_pipeline_push(p, source, BYTES, targets[2], BYTES, TEST_TIMEOUT));
    assert_non_null(strstr(hal_last_error(), "item 2: compute returned HAL_ERROR_UNSUPPORTED"));
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_pipeline_push(p, source, BYTES, targets[2], BYTES, TEST_TIMEOUT));
    assert_non_null(strstr(hal_last_error(), "item 2"));
    REFUSED(HAL_ERROR_UNSUPPORTED, hal_pipeline_finish(p, TEST_TIMEOUT));
    hal_pipeline_destroy(p);
    OK(hal_device_wait(f->device, TEST_TIMEOUT));
}

static void test_misuse(void **state)
{
    fixture *f = *state;
    static float data[ELEMENTS + 1];
    work w = {.fails_at = UINT64_MAX};
    hal_pipeline *p = NULL;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_create(NULL, HAL_PIPELINE(.compute = twice), &p));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_create(f->device, HAL_PIPELINE(.compute = twice), NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_create(f->device, HAL_PIPELINE(.slots = 2), &p));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_pipeline_create(f->device, HAL_PIPELINE(.compute = twice, .slots = 65), &p));
    assert_null(p);
    p = create(f, &w, 0);
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(p, data, BYTES + 4, NULL, 0, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(p, NULL, 4, NULL, 0, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(p, data, BYTES, data, BYTES + 4, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_wait(p, 0, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(NULL, data, 4, NULL, 0, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_get_stats(p, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_report(p, NULL, 10));
    hal_pipeline *stranger = (hal_pipeline *)(void *)f->stream;
    hal_pipeline_stats stats = {.struct_size = sizeof stats};
    char text[8];
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_push(stranger, data, 4, NULL, 0, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_finish(stranger, 0));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_get_stats(stranger, &stats));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_pipeline_report(stranger, text, sizeof text));
    hal_pipeline_destroy(stranger);
    OK(hal_pipeline_push(p, data, BYTES, NULL, 0, TEST_TIMEOUT)); /* nothing comes back */
    OK(hal_pipeline_finish(p, TEST_TIMEOUT));
    hal_pipeline_destroy(p);
    hal_pipeline_destroy(NULL);
}

/* Items, and kernels that are not compiled yet, after the handle of the device: each pipeline holds what it needs. */
static void test_device_goes_first(void **state)
{
    (void)state;
    static float source[ELEMENTS], target[ELEMENTS];
    fixture f;
    fixture_open(&f, NULL);
    work works[2] = {{.fails_at = UINT64_MAX}, {.fails_at = UINT64_MAX}};
    hal_pipeline *both[2] = {create(&f, &works[0], 2), create(&f, &works[1], 2)};
    hal_stream_destroy(f.stream);
    hal_device_destroy(f.device);
    for (uint64_t i = 0; i < 2; i++) {
        fill(source, i);
        OK(hal_pipeline_push(both[i], source, BYTES, target, BYTES, TEST_TIMEOUT));
        OK(hal_pipeline_finish(both[i], TEST_TIMEOUT));
        assert_true(target[ELEMENTS - 1] == 2 * value(i, ELEMENTS - 1));
        hal_pipeline_destroy(both[i]);
    }
}

/* Out of memory at every allocation of create: an error, nothing leaks, and the device goes on. */
static void test_out_of_memory(void **state)
{
    fixture *f = *state;
    hal_memory_stats before, after;
    OK(hal_device_wait(f->device, TEST_TIMEOUT));
    OK(hal_device_memory_stats(f->device, &before));
    work w = {.fails_at = UINT64_MAX};
    hal_pipeline *p = NULL;
    hal_status status = HAL_ERROR_OUT_OF_MEMORY;
    for (uint64_t nth = 1; status != HAL_OK && nth < 100; nth++) {
        OK(hal_device_inject_fault(f->device, HAL_FAULT_ALLOC, nth));
        status = hal_pipeline_create(
            f->device,
            HAL_PIPELINE(.slots = 2, .input_size = 64 << 20, .output_size = 64 << 20, .compute = twice, .user = &w),
            &p);
        OK(hal_device_inject_fault(f->device, HAL_FAULT_ALLOC, 0));
        assert_true(nth > 4 ? status == HAL_OK : status == HAL_ERROR_OUT_OF_MEMORY && !p);
    }
    hal_pipeline_destroy(p);
    OK(hal_device_wait(f->device, TEST_TIMEOUT));
    OK(hal_device_memory_stats(f->device, &after));
    assert_int_equal(before.current, after.current);
    test_items(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items),  cmocka_unit_test(test_backpressure),      cmocka_unit_test(test_failure),
        cmocka_unit_test(test_misuse), cmocka_unit_test(test_device_goes_first), cmocka_unit_test(test_out_of_memory),
    };
    return ROWS_MAIN("pipeline", tests);
}
