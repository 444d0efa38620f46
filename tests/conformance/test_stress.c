/* Long runs: nothing grows, nothing fails at a random turn. */
#include "conf.h"

enum { N = 256 };

/* 1,000 submissions before each wait, of lists and of immediate commands. */
static void unwaited(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, N * 4);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_scale(list, conf_shared("scale_u32"), hal_slot(0, 0), N, 1, 1));
    OK(hal_cmdlist_finish(list));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
    uint64_t start = 0;
    uint32_t want = 0;
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 1000; i++)
            OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(y))));
        for (int i = 0; i < 1000; i++)
            OK(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(y), N, 1, 1));
        OK(hal_stream_wait(stream, SOON));
        want += 2000;
        if (round == 3)
            start = conf_rss();
    }
    conf_check_u32(stream, y, 0, N, want, 0);
    conf_check_growth(start, 2 << 20);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* One submission, one wait, 10,000 times, by event and by stream in turns. */
static void submit_and_wait(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, N * 4);
    hal_event *event = conf_event(conf_device);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_scale(list, conf_shared("scale_u32"), hal_whole(y), N, 1, 1));
    OK(hal_cmdlist_finish(list));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
    uint64_t start = 0;
    for (uint32_t turn = 0; turn < 10000; turn++) {
        OK(hal_cmdlist_submit(list, stream, NULL));
        if (turn % 2 == 0) {
            OK(hal_event_record(event, stream));
            OK(hal_event_wait(event, SOON));
        } else {
            OK(hal_stream_wait(stream, SOON));
        }
        if (turn % 1000 == 0)
            conf_check_u32(stream, y, 0, N, turn + 1, 0);
        if (turn == 2000)
            start = conf_rss();
    }
    conf_check_u32(stream, y, 0, N, 10000, 0);
    conf_check_growth(start, 1 << 20);
    hal_cmdlist_destroy(list);
    hal_event_destroy(event);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* Records, and events made and destroyed. */
static void many_events(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device), *other = conf_stream(conf_device);
    hal_event *kept = conf_event(conf_device);
    uint64_t start = 0;
    for (uint32_t turn = 0; turn < 20000; turn++) {
        OK(hal_event_record(kept, stream));
        OK(hal_stream_wait_event(other, kept));
        if (turn % 4 == 0) {
            hal_event *passing = conf_event(conf_device);
            OK(hal_event_record(passing, stream));
            OK(hal_stream_wait_event(other, passing));
            hal_event_destroy(passing);
        }
        if (turn % 500 == 0)
            OK(hal_device_wait(conf_device, SOON));
        if (turn == 5000)
            start = conf_rss();
    }
    OK(hal_device_wait(conf_device, SOON));
    conf_check_growth(start, 1 << 20);
    hal_event_destroy(kept);
    hal_stream_destroy(stream);
    hal_stream_destroy(other);
}

/* New buffers bound all the time. */
static void many_bindings(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    uint64_t start = 0;
    for (uint32_t turn = 0; turn < 6000; turn++) {
        hal_buffer *y = conf_buffer(conf_device, 256 + turn % 7 * 1024);
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 64, turn));
        if (turn % 100 == 0)
            conf_check_u32(stream, y, 0, 64, turn, 1);
        hal_buffer_destroy(y);
        if (turn == 2000)
            start = conf_rss();
    }
    OK(hal_stream_wait(stream, SOON));
    conf_check_growth(start, 2 << 20);
    hal_stream_destroy(stream);
}

/* Everything made and destroyed 200 times. */
static void open_and_close(void **state)
{
    (void)state;
    uint64_t start = 0;
    uint32_t handles = 0;
    for (uint32_t turn = 0; turn < 200; turn++) {
        hal_device *device = conf_open(NULL);
        hal_stream *stream = conf_stream(device), *second = conf_stream(device);
        hal_buffer *y = conf_buffer(device, N * 4);
        hal_event *event = conf_event(device);
        hal_kernel *fill = conf_kernel(device, "fill_index");
        hal_cmdlist *list = conf_list(device);
        OK(conf_do_fill(list, fill, hal_whole(y), N, turn));
        OK(hal_cmdlist_finish(list));
        OK(hal_cmdlist_submit(list, stream, NULL));
        OK(hal_event_record(event, stream));
        OK(hal_stream_wait_event(second, event));
        conf_check_u32(second, y, 0, N, turn, 1);
        hal_cmdlist_destroy(list);
        hal_kernel_destroy(fill);
        hal_event_destroy(event);
        hal_buffer_destroy(y);
        hal_stream_destroy(stream);
        hal_stream_destroy(second);
        hal_device_destroy(device);
        if (turn == 20) {
            start = conf_rss();
            handles = conf_handles();
        }
    }
    assert_int_equal(conf_handles(), handles);
    conf_check_growth(start, 1 << 20);
}

int conf_test_stress(void)
{
    const struct CMUnitTest tests[] = {
        CASE(unwaited), CASE(submit_and_wait), CASE(many_events), CASE(many_bindings), CASE(open_and_close),
    };
    return RUN("stress", tests);
}
