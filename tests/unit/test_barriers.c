/* Which immediate commands are told to wait for those before them, seen at the interface of the backends: drivers that
 * run commands one by one give right results also when a barrier is missing. Opens the device that HAL_BACKEND names,
 * or any; without one it is skipped. */
#include "unit.h"

#include "internal.h"

#define SOON HAL_SECONDS(20)

static hal_backend spy;
static hal_status answer;   /* what the next commands are answered */
static uint32_t executed;   /* commands that reached the backend */
static bool barriers[4096]; /* of each of those */

static hal_status spy_execute(hal_native_stream *stream, const hal_command *command)
{
    (void)stream;
    barriers[executed++ % 4096] = command->barrier;
    return answer == HAL_OK ? HAL_OK : hal_fail(answer, "refused by the test");
}

typedef struct fixture {
    hal_device *device;
    hal_stream *stream;
    hal_event *gate;
    hal_buffer *x, *y;
} fixture;

static int setup(void **state)
{
    static fixture f;
    *state = &f;
    if (hal_device_open(NULL, &f.device) != HAL_OK)
        return -1;
    spy = *f.device->backend;
    spy.stream_execute = spy_execute;
    spy.ordered = false; /* so that barriers are derived */
    f.device->backend = &spy;
    answer = HAL_OK;
    executed = 0;
    if (hal_stream_create(f.device, NULL, &f.stream) != HAL_OK ||
        hal_event_create(f.device, HAL_EVENT(.gate = true), &f.gate) != HAL_OK ||
        hal_buffer_create(f.device, HAL_BUFFER(.size = 64), &f.x) != HAL_OK ||
        hal_buffer_create(f.device, HAL_BUFFER(.size = 64), &f.y) != HAL_OK)
        return -1;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hal_event_destroy(f->gate);
    hal_buffer_destroy(f->x);
    hal_buffer_destroy(f->y);
    hal_stream_destroy(f->stream);
    hal_device_destroy(f->device);
    return 0;
}

/* A command that writes the span, or the buffer. */
static hal_status write_span(fixture *f, hal_span span)
{
    return hal_cmd_fill(hal_stream_cmdlist(f->stream), span, "x", 1);
}

static hal_status write_to(fixture *f, hal_buffer *buffer)
{
    return write_span(f, hal_whole(buffer));
}

static void only_conflicts(void **state)
{
    fixture *f = *state;
    assert_int_equal(write_to(f, f->x), HAL_OK);
    assert_int_equal(write_to(f, f->y), HAL_OK);
    assert_int_equal(write_to(f, f->x), HAL_OK);
    assert_int_equal(write_to(f, f->y), HAL_OK);
    const bool want[4] = {false, false, true, false};
    assert_int_equal(executed, 4);
    assert_memory_equal(barriers, want, sizeof want);
}

/* The barrier that a refused command would have had is given to the next one, which conflicts with what came before it
 * only. */
static void refused_command_keeps_barriers(void **state)
{
    fixture *f = *state;
    static const hal_status refusals[3] = {HAL_TIMEOUT, HAL_ERROR_OUT_OF_MEMORY, HAL_ERROR_BACKEND};
    const hal_span low = hal_range(f->x, 0, 32), high = hal_range(f->x, 32, 32);
    for (int i = 0; i < 3; i++) {
        executed = 0;
        assert_int_equal(write_to(f, f->x), HAL_OK);
        answer = refusals[i];
        assert_int_equal(write_span(f, low), refusals[i]);
        answer = HAL_OK;
        assert_int_equal(write_span(f, high), HAL_OK);
        assert_int_equal(write_to(f, f->y), HAL_OK);
        assert_int_equal(executed, 4);
        assert_true(barriers[1]);
        assert_true(barriers[2]);
        assert_false(barriers[3]);
    }
    /* An injected fault refuses it before the backend does. */
    executed = 0;
    assert_int_equal(write_to(f, f->x), HAL_OK);
    assert_int_equal(hal_device_inject_fault(f->device, HAL_FAULT_SUBMIT, 1), HAL_OK);
    assert_int_equal(write_span(f, low), HAL_ERROR_BACKEND);
    assert_int_equal(write_span(f, high), HAL_OK);
    assert_int_equal(executed, 2);
    assert_true(barriers[1]);
}

/* A list that is let go forgets nothing of what was told after it. */
static void held_list_keeps_barriers(void **state)
{
    fixture *f = *state;
    hal_cmdlist *list;
    assert_int_equal(hal_cmdlist_create(f->device, NULL, &list), HAL_OK);
    assert_int_equal(hal_cmd_fill(list, hal_whole(f->y), "y", 1), HAL_OK);
    assert_int_equal(hal_cmdlist_finish(list), HAL_OK);
    assert_int_equal(hal_stream_wait_event(f->stream, f->gate), HAL_OK);
    assert_int_equal(hal_cmdlist_submit(list, f->stream, NULL), HAL_OK);
    assert_int_equal(write_to(f, f->x), HAL_OK); /* held back */
    assert_int_equal(executed, 0);
    assert_int_equal(hal_event_signal(f->gate), HAL_OK);
    assert_int_equal(executed, 1);
    assert_int_equal(write_to(f, f->x), HAL_OK);
    assert_int_equal(executed, 2);
    assert_true(barriers[1]);
    assert_int_equal(hal_stream_wait(f->stream, SOON), HAL_OK);
    hal_cmdlist_destroy(list);
}

int main(void)
{
    hal_device *device;
    if (hal_device_open(NULL, &device) != HAL_OK) {
        printf("skipped: no device: %s\n", hal_last_error());
        return 77;
    }
    hal_device_destroy(device);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_conflicts, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_command_keeps_barriers, setup, teardown),
        cmocka_unit_test_setup_teardown(held_list_keeps_barriers, setup, teardown),
    };
    return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
