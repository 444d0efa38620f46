/* Events, gates, device time, and the stall report. */
#include "conf.h"

static void never_recorded(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_event *event;
    OK(hal_event_create(conf_device, HAL_EVENT(.label = "lonely"), &event));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_stream_wait_event(stream, event));
    conf_expect_error("lonely");
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_wait(event, 0));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_wait(event, HAL_FOREVER)); /* and does not wait */
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_event_wait(hal_stream_cmdlist(stream), event));
    OK(hal_event_record(event, stream)); /* on an idle stream it is passed at once */
    OK(hal_event_wait(event, SOON));
    OK(hal_stream_wait_event(stream, event));
    OK(hal_stream_wait(stream, SOON));
    hal_event_destroy(event);
    hal_stream_destroy(stream);
}

/* A wait already made keeps the earlier point. */
static void recorded_again(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device), *other = conf_stream(conf_device);
    hal_event *event = conf_event(conf_device), *gate = conf_gate(conf_device);
    hal_buffer *a = conf_buffer(conf_device, 4096), *b = conf_buffer(conf_device, 4096);
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(a), 1024, 3));
    OK(hal_event_record(event, stream));
    OK(hal_stream_wait_event(other, event));
    OK(hal_stream_wait_event(stream, gate));
    OK(hal_event_record(event, stream)); /* this point is behind the gate */
    OK(conf_do_copy(hal_stream_cmdlist(other), conf_shared("copy_u32"), hal_whole(a), hal_whole(b), 1024));
    conf_check_u32(other, b, 0, 1024, 3, 1); /* would hang if it had moved to the later point */
    EXPECT(HAL_TIMEOUT, hal_event_wait(event, HAL_MILLISECONDS(2)));
    OK(hal_event_signal(gate));
    OK(hal_event_wait(event, SOON));
    OK(hal_event_record(event, other)); /* and on another stream */
    OK(hal_event_wait(event, SOON));
    hal_event_destroy(event);
    hal_event_destroy(gate);
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_stream_destroy(stream);
    hal_stream_destroy(other);
}

static void gate_rules(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device), *event = conf_event(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    EXPECT(HAL_TIMEOUT, hal_event_wait(gate, 0));
    EXPECT(HAL_TIMEOUT, hal_event_wait(gate, HAL_MILLISECONDS(1)));
    OK(hal_event_signal(gate));
    OK(hal_event_signal(gate));
    OK(hal_event_wait(gate, 0));
    OK(hal_stream_wait_event(stream, gate)); /* open: passes */
    OK(hal_stream_wait(stream, SOON));
    OK(hal_event_reset(gate));
    EXPECT(HAL_TIMEOUT, hal_event_wait(gate, 0));
    /* Signalled and closed again at once: what waited before is let through. */
    OK(hal_stream_wait_event(stream, gate));
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 1024, 6));
    OK(hal_event_signal(gate));
    OK(hal_event_reset(gate));
    conf_check_u32(stream, y, 0, 1024, 6, 1);
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_record(gate, stream));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_signal(event));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_reset(event));
    /* A destroyed gate opens. */
    OK(hal_stream_wait_event(stream, gate));
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 1024, 8));
    hal_event_destroy(gate);
    conf_check_u32(stream, y, 0, 1024, 8, 1);
    hal_event_destroy(event);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* Everything that can be told to a stream is held behind a gate, and comes in order. */
static void held_commands(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream), *recorded = conf_list(conf_device);
    hal_event *gate = conf_gate(conf_device), *second = conf_gate(conf_device), *done = conf_event(conf_device);
    hal_buffer *a = conf_buffer(conf_device, 4096), *b = conf_buffer(conf_device, 4096);
    uint32_t got[1024], word = 41;
    OK(conf_do_scale(recorded, conf_shared("scale_u32"), hal_slot(0, 0), 1024, 2, 1));
    OK(hal_cmdlist_finish(recorded));
    memset(got, 0, sizeof got);
    OK(hal_stream_wait_event(stream, gate));
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(a), 1024, 0));
    OK(hal_cmd_copy(list, hal_whole(b), hal_whole(a)));
    OK(hal_cmdlist_submit(recorded, stream, HAL_BINDINGS(hal_whole(b))));
    OK(hal_stream_wait_event(stream, second));
    OK(hal_cmd_upload(list, hal_range(b, 0, 4), &word, 4));
    word = 0;
    OK(hal_cmd_fill(list, hal_range(b, 4, 4), &word, 4));
    OK(hal_cmd_download(list, got, hal_whole(b)));
    OK(hal_event_record(done, stream));
    hal_cmdlist_destroy(recorded); /* still held back: kept alive */
    EXPECT(HAL_TIMEOUT, hal_event_wait(done, HAL_MILLISECONDS(5)));
    OK(hal_event_signal(second)); /* the later one first */
    EXPECT(HAL_TIMEOUT, hal_event_wait(done, HAL_MILLISECONDS(5)));
    assert_int_equal(got[9], 0);
    OK(hal_event_signal(gate));
    OK(hal_event_wait(done, SOON));
    assert_int_equal(got[0], 41);
    assert_int_equal(got[1], 0);
    for (uint32_t i = 2; i < 1024; i++)
        assert_int_equal(got[i], 2 * i + 1);
    hal_event_destroy(gate);
    hal_event_destroy(second);
    hal_event_destroy(done);
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_stream_destroy(stream);
}

/* The device's time between two events against the host's around them: `inner` is surely between them, and they are
 * surely within `outer`. */
static void check_elapsed(hal_stream *stream, hal_event *start, hal_event *end, hal_buffer *word)
{
    uint64_t ns = 1, inner = 0, outer = 0;
    for (uint32_t ms = 40; inner < HAL_MILLISECONDS(20); ms *= 2) {
        assert_true(ms < 4000);
        outer = conf_now();
        OK(hal_event_record(start, stream));
        OK(hal_event_wait(start, SOON));
        uint64_t passed = conf_now(), last = passed;
        conf_busy(stream, conf_shared("spin"), word, ms);
        OK(hal_event_record(end, stream));
        for (uint64_t now = passed; hal_event_wait(end, HAL_MILLISECONDS(1)) == HAL_TIMEOUT; now = conf_now())
            last = now; /* when it was asked, it had not passed */
        OK(hal_event_wait(end, 0));
        inner = last > passed ? last - passed : 0;
        outer = conf_now() - outer;
    }
    OK(hal_event_elapsed(start, end, &ns));
    if (ns < inner / 2 || ns > outer + outer / 16)
        fail_msg("%llu ns on the device, between %llu and %llu on the host", (unsigned long long)ns,
                 (unsigned long long)inner, (unsigned long long)outer);
}

static void elapsed(void **state)
{
    (void)state;
    if (!hal_device_get_info(conf_device)->timestamps)
        SKIP("the device has no timestamps");
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *word = conf_buffer(conf_device, 4);
    hal_event *start, *end, *plain = conf_event(conf_device), *gate = conf_gate(conf_device);
    OK(hal_event_create(conf_device, HAL_EVENT(.timing = true), &start));
    OK(hal_event_create(conf_device, HAL_EVENT(.timing = true), &end));
    uint64_t ns = 1;
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_elapsed(start, end, &ns));
    conf_busy(stream, conf_shared("spin"), word, 1);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_event_record(start, stream));
    OK(hal_stream_wait_event(stream, gate));
    OK(hal_event_record(end, stream));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_elapsed(start, end, &ns)); /* the end has not passed */
    OK(hal_event_signal(gate));
    for (int turn = 0; turn < 3; turn++)
        check_elapsed(stream, start, end, word);
    OK(hal_event_elapsed(start, start, &ns));
    assert_int_equal(ns, 0);
    OK(hal_event_record(plain, stream));
    OK(hal_event_wait(plain, SOON));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_event_elapsed(start, plain, &ns));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_event_elapsed(start, end, NULL));
    hal_event_destroy(plain);
    hal_event_destroy(gate);
    hal_event_destroy(start);
    hal_event_destroy(end);
    hal_buffer_destroy(word);
    hal_stream_destroy(stream);
}

static void stall_report(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *held, *slow = conf_stream(device);
    hal_event *gate;
    hal_buffer *word = conf_buffer(device, 4), *y = conf_buffer(device, 4096);
    hal_kernel *spin = conf_kernel(device, "spin"), *fill = conf_kernel(device, "fill_index");
    OK(hal_stream_create(device, HAL_STREAM(.label = "decoder stream"), &held));
    OK(hal_event_create(device, HAL_EVENT(.gate = true, .label = "tokens ready"), &gate));
    hal_stall stall;
    char text[4096], small[16];
    OK(hal_device_stall_report(device, &stall, text, sizeof text));
    assert_false(stall.stuck);
    assert_int_equal(stall.unfinished, 0);

    conf_busy(slow, spin, word, 1);
    OK(hal_stream_wait(slow, SOON));
    conf_busy(slow, spin, word, 200);
    EXPECT(HAL_TIMEOUT, hal_stream_wait(slow, HAL_MILLISECONDS(5)));
    OK(hal_device_stall_report(device, &stall, text, sizeof text)); /* slow, not stuck */
    assert_false(stall.stuck);
    assert_true(stall.unfinished >= 1);
    assert_true(stall.oldest_age_ns >= HAL_MILLISECONDS(4));
    assert_non_null(strstr(text, "spin"));
    OK(hal_stream_wait(slow, SOON));

    OK(hal_stream_wait_event(held, gate));
    OK(conf_do_fill(hal_stream_cmdlist(held), fill, hal_whole(y), 1024, 0));
    EXPECT(HAL_TIMEOUT, hal_stream_wait(held, HAL_MILLISECONDS(5)));
    OK(hal_device_stall_report(device, &stall, text, sizeof text)); /* stuck */
    assert_true(stall.stuck);
    assert_true(stall.unfinished >= 1);
    assert_non_null(strstr(text, "tokens ready"));
    assert_non_null(strstr(text, "decoder stream"));
    assert_non_null(strstr(text, "fill_index"));
    OK(hal_device_stall_report(device, &stall, NULL, 0));
    memset(small, 'x', sizeof small);
    OK(hal_device_stall_report(device, &stall, small, 8));
    assert_true(memchr(small, '\0', 8) != NULL && small[8] == 'x');
    OK(hal_event_signal(gate));
    OK(hal_stream_wait(held, SOON));
    OK(hal_device_stall_report(device, &stall, text, sizeof text));
    assert_false(stall.stuck);
    assert_int_equal(stall.unfinished, 0);
    hal_kernel_destroy(spin);
    hal_kernel_destroy(fill);
    hal_buffer_destroy(word);
    hal_buffer_destroy(y);
    hal_event_destroy(gate);
    hal_stream_destroy(held);
    hal_stream_destroy(slow);
    hal_device_destroy(device);
}

/* Host opens, device waits, host waits: many times over, with work behind each gate. */
static void gate_chain(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device), *other = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device), *done = conf_event(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 256);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
    for (int turn = 0; turn < 500; turn++) {
        OK(hal_stream_wait_event(stream, gate));
        OK(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(y), 64, 1, 1));
        OK(hal_event_record(done, stream));
        OK(hal_stream_wait_event(other, done));
        OK(conf_do_scale(hal_stream_cmdlist(other), conf_shared("scale_u32"), hal_whole(y), 64, 1, 1));
        OK(hal_event_record(done, other));
        OK(hal_stream_wait_event(stream, done));
        OK(hal_event_signal(gate));
        OK(hal_event_wait(done, SOON));
        OK(hal_event_reset(gate));
    }
    conf_check_u32(stream, y, 0, 64, 1000, 0);
    hal_event_destroy(gate);
    hal_event_destroy(done);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_stream_destroy(other);
}

int conf_test_event(void)
{
    const struct CMUnitTest tests[] = {
        CASE(never_recorded), CASE(recorded_again), CASE(gate_rules), CASE(held_commands),
        CASE(elapsed),        CASE(stall_report),   CASE(gate_chain),
    };
    return RUN("event", tests);
}
