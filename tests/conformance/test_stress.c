/* Long runs: nothing grows, nothing fails at a random turn. */
#include "conf.h"

enum { N = 256 };

/* 1,000 submissions before each wait: of a list, of immediate commands, of both in turns. The first rounds may take
 * what the deepest queue needs; how deep it gets with both kinds depends on the timing. */
static void unwaited(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, N * 4);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_scale(list, conf_shared("scale_u32"), hal_slot(0, 0), N, 1, 1));
    OK(hal_cmdlist_finish(list));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
    const uint64_t allowances[3] = {1 << 20, 1 << 20, 16 << 20};
    for (int kind = 0; kind < 3; kind++) {
        uint64_t start = 0;
        for (int round = 0; round < 8; round++) {
            for (int i = 0; i < 1000; i++) {
                if (kind != 1)
                    OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(y))));
                if (kind != 0)
                    OK(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(y), N, 1, 1));
            }
            OK(hal_stream_wait(stream, SOON));
            if (round == 2)
                start = conf_rss();
        }
        conf_check_growth(start, allowances[kind]);
    }
    conf_check_u32(stream, y, 0, N, 32000, 0);
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

/* One device with everything on it, made, used and destroyed. */
static bool cycle(uint32_t turn)
{
    hal_device *device = NULL;
    hal_stream *stream = NULL, *second = NULL;
    hal_buffer *y = NULL;
    hal_event *event = NULL;
    hal_kernel *fill = NULL;
    hal_cmdlist *list = NULL;
    uint32_t got[N];
    bool fine = hal_device_open(NULL, &device) == HAL_OK && hal_stream_create(device, NULL, &stream) == HAL_OK &&
                hal_stream_create(device, NULL, &second) == HAL_OK &&
                hal_buffer_create(device, HAL_BUFFER(.size = sizeof got), &y) == HAL_OK &&
                hal_event_create(device, NULL, &event) == HAL_OK &&
                conf_try_kernel(device, "fill_index", &fill) == HAL_OK &&
                hal_cmdlist_create(device, NULL, &list) == HAL_OK &&
                conf_do_fill(list, fill, hal_whole(y), N, turn) == HAL_OK && hal_cmdlist_finish(list) == HAL_OK &&
                hal_cmdlist_submit(list, stream, NULL) == HAL_OK && hal_event_record(event, stream) == HAL_OK &&
                hal_stream_wait_event(second, event) == HAL_OK &&
                hal_cmd_download(hal_stream_cmdlist(second), got, hal_whole(y)) == HAL_OK &&
                hal_stream_wait(second, SOON) == HAL_OK && got[0] == turn && got[N - 1] == turn + N - 1;
    if (!fine)
        printf("turn %u: %s\n", turn, hal_last_error());
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(fill);
    hal_event_destroy(event);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_stream_destroy(second);
    hal_device_destroy(device);
    return fine;
}

int conf_child_cycles(void)
{
    uint64_t memory = 0;
    uint32_t handles = 0;
    for (uint32_t turn = 0; turn < 200; turn++) {
        if (!cycle(turn))
            return 1;
        if (turn == 20) {
            memory = conf_rss();
            handles = conf_handles();
        }
    }
    uint64_t now = conf_rss();
    printf("grew %lld handles %d\n", (long long)(now - memory), (int)conf_handles() - (int)handles);
    return 0;
}

/* 200 times in a process of its own, so that what else ran here does not count. The heap of a driver's threads grows by
 * chance; a leak grows each time. */
static void open_and_close(void **state)
{
    (void)state;
    static const char *const environment[] = {"MALLOC_ARENA_MAX=1",
                                              NULL}; /* an arena a thread is noise of 1 MiB each */
    const long long allowance = 1 << 20;
    long long least = INT64_MAX;
    for (int turn = 0; turn < 4 && least >= allowance; turn++) {
        char text[1024];
        long long grew = 0;
        int handles = -1;
        int status = conf_run_self("cycles", environment, text, sizeof text);
        if (status != 0 || strstr(text, "grew") == NULL ||
            sscanf(strstr(text, "grew"), "grew %lld handles %d", &grew, &handles) != 2)
            fail_msg("exit status %d: %s", status, text);
        assert_int_equal(handles, 0);
        least = grew < least ? grew : least;
    }
    conf_check_growth(conf_rss() - (uint64_t)(least > 0 ? least : 0), (uint64_t)allowance);
}

int conf_test_stress(void)
{
    const struct CMUnitTest tests[] = {
        CASE(unwaited), CASE(submit_and_wait), CASE(many_events), CASE(many_bindings), CASE(open_and_close),
    };
    return RUN("stress", tests);
}
