/* Streams: order, deadlines, waits across streams, destruction in flight. */
#include "conf.h"

/* Ask in every way whether the work told to `stream` since `start`, which takes about `took`, is done: not yet, and
 * quickly. false: the machine was so slow that the work was done meanwhile. */
static bool says_not_yet(hal_stream *stream, hal_event *event, uint64_t start, uint64_t took)
{
    const uint64_t timeouts[4] = {0, HAL_MILLISECONDS(1), 0, HAL_MILLISECONDS(5)};
    int late = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t asked = conf_now();
        const hal_status got[3] = {hal_stream_wait(stream, timeouts[i]), hal_event_wait(event, timeouts[i]),
                                   hal_device_wait(conf_device, timeouts[i])};
        uint64_t now = conf_now();
        for (int k = 0; k < 3; k++)
            if (got[k] != HAL_TIMEOUT) {
                EXPECT(HAL_OK, got[k]);
                assert_true(now - start > took / 4); /* not before it can be */
                OK(hal_stream_wait(stream, 0));
                return false;
            }
        assert_true(hal_last_error()[0] != '\0');
        late += now - asked >= 3 * timeouts[i] + took / 8;
    }
    assert_true(late <= 1); /* one may be the machine's fault */
    return true;
}

/* Asking and short waits say "not yet" of long work, quickly; then it is done, and stays done. */
static void deadlines(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *word = conf_buffer(conf_device, 4);
    hal_event *event = conf_event(conf_device);
    hal_kernel *spin = conf_shared("spin");
    conf_busy(stream, spin, word, 1); /* calibrates */
    OK(hal_stream_wait(stream, SOON));
    bool asked = false;
    for (uint32_t ms = 200; !asked; ms *= 2) {
        assert_true(ms < 4000);
        uint64_t start, took = UINT64_MAX; /* by the same work, the quickest of three: the machine may be busy */
        for (int turn = 0; turn < 3; turn++) {
            start = conf_now();
            conf_busy(stream, spin, word, ms);
            OK(hal_stream_wait(stream, SOON));
            uint64_t time = conf_now() - start;
            took = time < took ? time : took;
        }
        start = conf_now();
        conf_busy(stream, spin, word, ms);
        OK(hal_event_record(event, stream));
        asked = says_not_yet(stream, event, start, took);
        OK(hal_stream_wait(stream, UINT64_MAX - 1));
        assert_true(conf_now() - start > took / 4);
    }
    OK(hal_stream_wait(stream, 0));
    OK(hal_event_wait(event, 0));
    OK(hal_device_wait(conf_device, 0));
    conf_busy(stream, spin, word, 20);
    OK(hal_stream_wait(stream, HAL_FOREVER));
    conf_busy(stream, spin, word, 20);
    OK(hal_device_wait(conf_device, UINT64_MAX - 1));
    OK(hal_event_record(event, stream));
    OK(hal_event_wait(event, UINT64_MAX - 1));
    hal_event_destroy(event);
    hal_buffer_destroy(word);
    hal_stream_destroy(stream);
}

/* A stream on which nothing was ever told is done. */
static void idle_is_done(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    OK(hal_stream_wait(stream, 0));
    OK(hal_stream_flush(stream));
    OK(hal_stream_wait(stream, HAL_FOREVER));
    hal_stream_destroy(stream);
}

static void in_order(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *y = conf_buffer(conf_device, 40000);
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(y), 10000, 0));
    uint32_t mul = 1, add = 0;
    for (uint32_t i = 0; i < 500; i++) {
        OK(conf_do_scale(list, conf_shared("scale_u32"), hal_whole(y), 10000, 3, i));
        mul *= 3;
        add = add * 3 + i;
    }
    conf_check_u32(stream, y, 0, 10000, add, mul);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* y2 = f(x uploaded on the second stream, z of the first), the wait in the middle of the stream; 1,000 turns. */
static void waits_across(void **state)
{
    (void)state;
    hal_stream *s1 = conf_stream(conf_device), *s2 = conf_stream(conf_device);
    hal_event *done1 = conf_event(conf_device), *done2 = conf_event(conf_device);
    hal_buffer *z = conf_buffer(conf_device, 256), *x = conf_buffer(conf_device, 256),
               *y = conf_buffer(conf_device, 256);
    hal_kernel *add = conf_shared("add_f32");
    float values[64], got[64];
    for (uint32_t turn = 0; turn < 1000; turn++) {
        for (int i = 0; i < 64; i++)
            values[i] = (float)turn;
        if (turn > 0)
            OK(hal_stream_wait_event(s1, done2)); /* the reader of z is done */
        OK(hal_cmd_upload(hal_stream_cmdlist(s1), hal_whole(z), values, sizeof values));
        OK(hal_event_record(done1, s1));
        for (int i = 0; i < 64; i++)
            values[i] = (float)i;
        OK(hal_cmd_upload(hal_stream_cmdlist(s2), hal_whole(x), values, sizeof values));
        OK(hal_stream_wait_event(s2, done1));
        OK(conf_do_add(hal_stream_cmdlist(s2), add, hal_whole(x), hal_whole(z), hal_whole(y), 64));
        OK(hal_event_record(done2, s2));
        if (turn % 10 == 9) {
            conf_get(s2, y, 0, got, sizeof got);
            for (int i = 0; i < 64; i++)
                if (got[i] != (float)turn + (float)i)
                    fail_msg("turn %u, element %d: %g", turn, i, (double)got[i]);
        }
    }
    OK(hal_device_wait(conf_device, SOON));
    hal_buffer_destroy(z);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_event_destroy(done1);
    hal_event_destroy(done2);
    hal_stream_destroy(s1);
    hal_stream_destroy(s2);
}

/* A wait orders streams that share no memory, too: when what follows it is done, what it waits for is. Told to the
 * stream, told to its command list, and recorded. */
static void waits_order_streams(void **state)
{
    (void)state;
    hal_stream *slow = conf_stream(conf_device), *quick = conf_stream(conf_device);
    hal_event *first = conf_event(conf_device), *second = conf_event(conf_device);
    hal_buffer *word = conf_buffer(conf_device, 4), *y = conf_buffer(conf_device, 4096);
    hal_cmdlist *list = conf_list(conf_device);
    OK(hal_cmd_event_wait(list, first));
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(y), 1024, 2));
    OK(hal_cmdlist_finish(list));
    conf_busy(slow, conf_shared("spin"), word, 1); /* calibrates */
    OK(hal_stream_wait(slow, SOON));
    for (int way = 0; way < 3; way++) {
        conf_busy(slow, conf_shared("spin"), word, 100);
        OK(hal_event_record(first, slow));
        if (way == 2)
            OK(hal_cmdlist_submit(list, quick, NULL));
        else
            OK(way == 0 ? hal_stream_wait_event(quick, first) : hal_cmd_event_wait(hal_stream_cmdlist(quick), first));
        if (way < 2)
            OK(conf_do_fill(hal_stream_cmdlist(quick), conf_shared("fill_index"), hal_whole(y), 1024, 1));
        OK(hal_event_record(second, quick));
        OK(hal_event_wait(second, SOON));
        OK(hal_event_wait(first, 0));
    }
    hal_cmdlist_destroy(list);
    hal_event_destroy(first);
    hal_event_destroy(second);
    hal_buffer_destroy(word);
    hal_buffer_destroy(y);
    hal_stream_destroy(slow);
    hal_stream_destroy(quick);
}

/* What waits stays behind; a stream that does not wait goes ahead even while the other is slow. */
static void streams_overlap(void **state)
{
    (void)state;
    hal_stream *held = conf_stream(conf_device), *free_stream = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device);
    hal_buffer *a = conf_buffer(conf_device, 4096), *b = conf_buffer(conf_device, 4096);
    OK(hal_stream_wait_event(held, gate));
    OK(conf_do_fill(hal_stream_cmdlist(held), conf_shared("fill_index"), hal_whole(a), 1024, 1));
    OK(hal_stream_flush(held));
    OK(conf_do_fill(hal_stream_cmdlist(free_stream), conf_shared("fill_index"), hal_whole(b), 1024, 2));
    conf_check_u32(free_stream, b, 0, 1024, 2, 1);
    EXPECT(HAL_TIMEOUT, hal_stream_wait(held, HAL_MILLISECONDS(5)));
    OK(hal_event_signal(gate));
    conf_check_u32(held, a, 0, 1024, 1, 1);
    hal_event_destroy(gate);
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_stream_destroy(held);
    hal_stream_destroy(free_stream);
}

/* Stream A waits for what stream B is told later (through a gate): finishes, though both may share one queue. */
static void wait_before_submit(void **state)
{
    (void)state;
    hal_stream *a = conf_stream(conf_device), *b = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device), *of_a = conf_event(conf_device);
    hal_buffer *x = conf_buffer(conf_device, 4096), *y = conf_buffer(conf_device, 4096);
    OK(hal_stream_wait_event(a, gate));
    OK(conf_do_fill(hal_stream_cmdlist(a), conf_shared("fill_index"), hal_whole(x), 1024, 9));
    OK(hal_event_record(of_a, a)); /* behind the gate */
    OK(hal_stream_wait_event(b, of_a));
    OK(conf_do_copy(hal_stream_cmdlist(b), conf_shared("copy_u32"), hal_whole(x), hal_whole(y), 1024));
    OK(hal_stream_flush(b));
    EXPECT(HAL_TIMEOUT, hal_stream_wait(b, HAL_MILLISECONDS(2)));
    EXPECT(HAL_TIMEOUT, hal_event_wait(of_a, HAL_MILLISECONDS(2)));
    OK(hal_event_signal(gate));
    conf_check_u32(b, y, 0, 1024, 9, 1);
    OK(hal_event_wait(of_a, SOON));
    hal_event_destroy(gate);
    hal_event_destroy(of_a);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_stream_destroy(a);
    hal_stream_destroy(b);
}

static void destroyed_with_work(void **state)
{
    (void)state;
    hal_buffer *word = conf_buffer(conf_device, 4), *kept = conf_buffer(conf_device, 4096);
    hal_stream *stream = conf_stream(conf_device), *reader = conf_stream(conf_device);
    hal_event *done = conf_event(conf_device);
    conf_busy(stream, conf_shared("spin"), word, 200);
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(kept), 1024, 4));
    OK(hal_event_record(done, stream));
    hal_stream_destroy(stream);
    EXPECT(HAL_TIMEOUT, hal_event_wait(done, 0)); /* not there was the work waited for */
    OK(hal_stream_wait_event(reader, done));      /* the point outlives the stream */
    conf_check_u32(reader, kept, 0, 1024, 4, 1);
    hal_event_destroy(done);
    hal_stream_destroy(reader);
    hal_buffer_destroy(word);
    hal_buffer_destroy(kept);
}

static void priorities(void **state)
{
    (void)state;
    hal_buffer *buffer = conf_buffer(conf_device, 4096);
    const int values[5] = {0, 1, -1, 1000, -1000};
    for (uint32_t i = 0; i < 5; i++) {
        hal_stream *stream;
        OK(hal_stream_create(conf_device, HAL_STREAM(.priority = values[i], .label = "with priority"), &stream));
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(buffer), 1024, i));
        conf_check_u32(stream, buffer, 0, 1024, i, 1);
        hal_stream_destroy(stream);
    }
    hal_buffer_destroy(buffer);
}

/* The counter of submissions passes 2^31 and 2^32. */
static void counter_wraps(void **state)
{
    (void)state;
    const char *const starts[3] = {"first_point=2147483646", "first_point=4294967294",
                                   "first_point=9223372036854775000"};
    for (int s = 0; s < 3; s++) {
        hal_device *device = conf_open(starts[s]);
        hal_stream *stream = conf_stream(device), *other = conf_stream(device);
        hal_event *event = conf_event(device);
        hal_buffer *y = conf_buffer(device, 4096);
        hal_kernel *fill = conf_kernel(device, "fill_index"), *scale = conf_kernel(device, "scale_u32");
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(y), 1024, 0));
        for (uint32_t i = 0; i < 12; i++) {
            hal_stream *on = i % 2 ? other : stream, *next = i % 2 ? stream : other;
            OK(conf_do_scale(hal_stream_cmdlist(on), scale, hal_whole(y), 1024, 1, 1));
            OK(hal_event_record(event, on));
            OK(hal_stream_wait_event(next, event));
            if (i % 3 == 0)
                OK(hal_event_wait(event, SOON));
        }
        conf_check_u32(stream, y, 0, 1024, 12, 1);
        OK(hal_device_wait(device, SOON));
        hal_kernel_destroy(fill);
        hal_kernel_destroy(scale);
        hal_buffer_destroy(y);
        hal_event_destroy(event);
        hal_stream_destroy(stream);
        hal_stream_destroy(other);
        hal_device_destroy(device);
    }
}

int conf_test_stream(void)
{
    const struct CMUnitTest tests[] = {
        CASE(deadlines),           CASE(idle_is_done),    CASE(in_order),           CASE(waits_across),
        CASE(waits_order_streams), CASE(streams_overlap), CASE(wait_before_submit), CASE(destroyed_with_work),
        CASE(priorities),          CASE(counter_wraps),
    };
    return RUN("stream", tests);
}
