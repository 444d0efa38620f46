/* Recorded lists: recording, dependencies, what is refused. */
#include "conf.h"

static hal_stream *stream;
static hal_buffer *a, *b, *c, *d;
static hal_kernel *fill, *scale, *copy, *add;

enum { N = 1000 };

static int setup(void **state)
{
    stream = conf_stream(conf_device);
    a = conf_buffer(conf_device, N * 4);
    b = conf_buffer(conf_device, N * 4);
    c = conf_buffer(conf_device, N * 4);
    d = conf_buffer(conf_device, N * 4);
    fill = conf_shared("fill_index");
    scale = conf_shared("scale_u32");
    copy = conf_shared("copy_u32");
    add = conf_shared("add_f32");
    return conf_case_setup(state);
}

static int teardown(void **state)
{
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_buffer_destroy(c);
    hal_buffer_destroy(d);
    hal_stream_destroy(stream);
    return conf_case_teardown(state);
}

static hal_cmdlist_stats finish(hal_cmdlist *list)
{
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_finish(list));
    OK(hal_cmdlist_get_stats(list, &stats));
    return stats;
}

static void run(hal_cmdlist *list)
{
    OK(hal_cmdlist_submit(list, stream, NULL));
}

static void chain(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 0));
    uint32_t mul = 1, plus = 0;
    for (uint32_t i = 0; i < 20; i++) {
        OK(conf_do_scale(list, scale, hal_whole(a), N, 3, i));
        mul *= 3;
        plus = plus * 3 + i;
    }
    hal_cmdlist_stats stats = finish(list);
    assert_int_equal(stats.commands, 21);
    assert_int_equal(stats.edges, 20);
    assert_int_equal(stats.barriers, 20);
    for (int turn = 0; turn < 3; turn++) {
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(a), "\xff", 1));
        run(list);
        conf_check_u32(stream, a, 0, N, plus, mul);
    }
    OK(hal_cmdlist_get_stats(list, &stats));
    assert_int_equal(stats.submits, 3);
    hal_cmdlist_destroy(list);
}

/* a -> b and a -> c in any order, then both into d. */
static void diamond(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 1));
    OK(conf_do_copy(list, copy, hal_whole(a), hal_whole(b), N));
    OK(conf_do_copy(list, copy, hal_whole(a), hal_whole(c), N));
    OK(conf_do_add(list, add, hal_whole(b), hal_whole(c), hal_whole(d), N));
    hal_cmdlist_stats stats = finish(list);
    assert_int_equal(stats.edges, 4);
    assert_int_equal(stats.barriers, 2);
    for (int turn = 0; turn < 50; turn++) {
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(d), "\xff", 1));
        run(list);
        uint32_t got[N];
        conf_get(stream, d, 0, got, sizeof got);
        for (uint32_t i = 0; i < N; i++) {
            float want, x;
            memcpy(&x, &(uint32_t){1 + i}, 4);
            want = x + x;
            /* The sum of two equal subnormals: exact, or 0 on a device that flushes them. */
            if (hal_device_get_info(conf_device)->subnormals_f32)
                assert_memory_equal(&got[i], &want, 4);
        }
    }
    hal_cmdlist_destroy(list);
}

/* Write after read, write after write, and disjoint ranges of one buffer. */
static void kinds_of_hazard(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 100));
    OK(conf_do_copy(list, copy, hal_whole(a), hal_whole(b), N)); /* reads a */
    OK(conf_do_fill(list, fill, hal_whole(a), N, 900));          /* WAR */
    OK(conf_do_fill(list, fill, hal_whole(a), N, 200));          /* WAW */
    OK(conf_do_copy(list, copy, hal_whole(a), hal_whole(c), N)); /* RAW */
    hal_cmdlist_stats stats = finish(list);
    assert_int_equal(stats.edges, 4);
    assert_int_equal(stats.barriers, 4);
    for (int turn = 0; turn < 50; turn++)
        run(list);
    conf_check_u32(stream, b, 0, N, 100, 1);
    conf_check_u32(stream, c, 0, N, 200, 1);
    hal_cmdlist_destroy(list);

    uint32_t piece = hal_device_get_info(conf_device)->span_alignment;
    piece = piece < 64 ? 64 : piece;
    list = conf_list(conf_device);
    for (uint32_t i = 0; i < 8; i++)
        OK(conf_do_fill(list, fill, hal_range(a, (uint64_t)i * piece, piece), piece / 4, i * piece / 4));
    stats = finish(list);
    assert_int_equal(stats.edges, 0);
    assert_int_equal(stats.barriers, 0);
    run(list);
    conf_check_u32(stream, a, 0, 8 * piece / 4, 0, 1);
    hal_cmdlist_destroy(list);
}

static void all_kinds_of_command(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    hal_event *event = conf_event(conf_device), *gate = conf_gate(conf_device);
    uint32_t words[4] = {11, 12, 13, 14};
    OK(hal_cmd_fill(list, hal_whole(a), &(uint32_t){7}, 4));
    OK(hal_cmd_upload(list, hal_range(a, 16, 16), words, 16));
    memset(words, 0, sizeof words); /* the list keeps the bytes */
    OK(hal_cmd_copy(list, hal_whole(b), hal_whole(a)));
    OK(hal_cmd_event_wait(list, gate));
    OK(conf_do_scale(list, scale, hal_whole(b), N, 2, 0));
    OK(hal_cmd_event_record(list, event));
    OK(conf_do_copy(list, copy, hal_whole(b), hal_whole(c), N));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_download(list, words, hal_range(a, 0, 16)));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_finish(list)); /* poisoned by the download */
    hal_cmdlist_destroy(list);

    list = conf_list(conf_device);
    OK(hal_cmd_fill(list, hal_whole(a), &(uint32_t){7}, 4));
    words[0] = 11;
    OK(hal_cmd_upload(list, hal_range(a, 16, 4), words, 4));
    words[0] = 0;
    OK(hal_cmd_copy(list, hal_whole(b), hal_whole(a)));
    OK(hal_cmd_event_wait(list, gate));
    OK(conf_do_scale(list, scale, hal_whole(b), N, 2, 0));
    OK(hal_cmd_event_record(list, event));
    OK(conf_do_copy(list, copy, hal_whole(b), hal_whole(c), N));
    hal_cmdlist_stats stats = finish(list);
    assert_true(stats.segments >= 2);
    for (int turn = 0; turn < 5; turn++) {
        OK(hal_event_reset(gate));
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(c), "\xff", 1));
        run(list);
        EXPECT(HAL_TIMEOUT, hal_stream_wait(stream, HAL_MILLISECONDS(2)));
        OK(hal_event_signal(gate));
        OK(hal_event_wait(event, SOON));
        conf_check_u32(stream, c, 0, 4, 14, 0);
        conf_check_u32(stream, c, 4, 1, 22, 0);
        conf_check_u32(stream, c, 5, N - 5, 14, 0);
    }
    hal_cmdlist_destroy(list);
    hal_event_destroy(event);
    hal_event_destroy(gate);
}

static void empty_lists(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    hal_event *event = conf_event(conf_device);
    hal_cmdlist_stats stats = finish(list);
    assert_int_equal(stats.commands, 0);
    run(list);
    OK(hal_event_record(event, stream));
    OK(hal_event_wait(event, SOON));
    hal_cmdlist_destroy(list);
    list = conf_list(conf_device);
    OK(hal_cmd_fill(list, hal_range(a, 0, 0), "x", 1));
    OK(conf_do_fill(list, fill, hal_whole(a), 0, 0));
    OK(hal_cmd_copy(list, hal_range(a, 0, 0), hal_range(b, 0, 0)));
    finish(list);
    run(list);
    OK(hal_stream_wait(stream, SOON));
    hal_cmdlist_destroy(list);
    hal_event_destroy(event);
}

static void wrong_moments(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 0));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_submit(list, stream, NULL));
    conf_expect_error("finish");
    OK(hal_cmdlist_finish(list));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_finish(list));
    EXPECT(HAL_ERROR_INVALID_STATE, conf_do_fill(list, fill, hal_whole(a), N, 0));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_fill(list, hal_whole(a), "x", 1));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_scalar(list, 0, 0));
    run(list); /* none of it spoiled the list */
    conf_check_u32(stream, a, 0, N, 0, 1);
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_finish(hal_stream_cmdlist(stream)));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_submit(hal_stream_cmdlist(stream), stream, NULL));
    assert_ptr_equal(hal_cmdlist_device(list), conf_device);
    assert_ptr_equal(hal_cmdlist_device(hal_stream_cmdlist(stream)), conf_device);
    assert_null(hal_cmdlist_device(NULL));
    hal_cmdlist_destroy(list);
}

/* A command that was refused poisons the list: it cannot be run by half. */
static void poisoned(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 0));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_fill(list, hal_range(a, 0, N * 4 + 4), "x", 1));
    char cause[256];
    snprintf(cause, sizeof cause, "%s", hal_last_error());
    EXPECT(HAL_ERROR_OVERLAP, hal_cmd_copy(list, hal_whole(a), hal_whole(a)));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmdlist_finish(list)); /* the first */
    conf_expect_error(cause);
    conf_expect_error("; record it anew");
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_submit(list, stream, NULL));
    hal_cmdlist_destroy(list);
}

static void upload_limit(void **state)
{
    (void)state;
    hal_buffer *large = conf_buffer(conf_device, 65540);
    uint8_t *bytes = calloc(1, 65540);
    hal_cmdlist *list = conf_list(conf_device);
    memset(bytes, 9, 65540);
    OK(hal_cmd_upload(list, hal_range(large, 2, 65536), bytes, 65536));
    finish(list);
    run(list);
    uint8_t got[4];
    conf_get(stream, large, 65534, got, 4);
    assert_int_equal(got[3], 9);
    hal_cmdlist_destroy(list);
    list = conf_list(conf_device);
    EXPECT(HAL_ERROR_LIMIT, hal_cmd_upload(list, hal_range(large, 0, 65537), bytes, 65537));
    hal_cmdlist_destroy(list);
    free(bytes);
    hal_buffer_destroy(large);
}

/* What a list recorded lives as long as the list, whatever the user destroys. */
static void keeps_alive(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    hal_kernel *own = conf_kernel(conf_device, "scale_u32");
    hal_buffer *mine = conf_buffer(conf_device, N * 4);
    OK(conf_do_fill(list, fill, hal_whole(mine), N, 5));
    OK(conf_do_scale(list, own, hal_whole(mine), N, 2, 1));
    OK(conf_do_copy(list, copy, hal_whole(mine), hal_whole(a), N));
    finish(list);
    hal_kernel_destroy(own);
    hal_buffer_destroy(mine);
    hal_buffer *reuse[8]; /* would land in its place */
    for (int i = 0; i < 8; i++) {
        reuse[i] = conf_buffer(conf_device, N * 4);
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(reuse[i]), "\x33", 1));
    }
    run(list);
    for (int i = 0; i < 8; i++)
        conf_check_u32(stream, reuse[i], 0, N, 0x33333333, 0);
    conf_check_u32(stream, a, 0, N, 11, 2);
    for (int i = 0; i < 8; i++)
        hal_buffer_destroy(reuse[i]);
    hal_memory_stats with, without;
    OK(hal_device_memory_stats(conf_device, &with));
    hal_cmdlist_destroy(list);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_device_memory_stats(conf_device, &without));
    assert_int_equal(with.current - without.current, N * 4);
}

static void destroyed_while_pending(void **state)
{
    (void)state;
    hal_buffer *word = conf_buffer(conf_device, 4);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(a), N, 8));
    OK(conf_do_scale(list, scale, hal_whole(a), N, 2, 0));
    finish(list);
    conf_busy(stream, conf_shared("spin"), word, 200);
    run(list);
    hal_cmdlist_destroy(list);
    EXPECT(HAL_TIMEOUT, hal_stream_wait(stream, 0)); /* it was not waited for in there */
    conf_check_u32(stream, a, 0, N, 16, 2);
    hal_buffer_destroy(word);
}

/* 5,000 dispatches over a few buffers, in one list. */
static void long_list(void **state)
{
    (void)state;
    hal_cmdlist *list = conf_list(conf_device);
    OK(hal_cmd_fill(list, hal_whole(a), &(uint32_t){0}, 4));
    OK(hal_cmd_fill(list, hal_whole(b), &(uint32_t){0}, 4));
    for (uint32_t i = 0; i < 5000; i++)
        OK(conf_do_scale(list, scale, hal_whole(i % 2 ? a : b), 64, 1, 1 + i % 2));
    uint64_t start = conf_now();
    hal_cmdlist_stats stats = finish(list);
    print_message("5,000 dispatches finished in %llu us, %u segments\n",
                  (unsigned long long)(conf_now() - start) / 1000, stats.segments);
    assert_int_equal(stats.commands, 5002);
    for (int turn = 0; turn < 2; turn++) {
        run(list);
        conf_check_u32(stream, a, 0, 64, 5000, 0);
        conf_check_u32(stream, b, 0, 64, 2500, 0);
    }
    OK(hal_cmdlist_get_stats(list, &stats));
    assert_true(stats.native_builds <= 2 * (uint64_t)stats.segments);
    hal_cmdlist_destroy(list);
}

/* 5,000 different buffers bound in one list, and what they took is given back. */
static void many_bindings(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static hal_buffer *many[COUNT];
    hal_memory_stats before, after;
    OK(hal_device_memory_stats(conf_device, &before));
    hal_cmdlist *list = conf_list(conf_device);
    for (uint32_t i = 0; i < COUNT; i++) {
        many[i] = conf_buffer(conf_device, 256);
        OK(conf_do_fill(list, fill, hal_whole(many[i]), 64, i));
    }
    finish(list);
    run(list);
    for (uint32_t i = 0; i < COUNT; i += 97)
        conf_check_u32(stream, many[i], 0, 64, i, 1);
    hal_cmdlist_destroy(list);
    for (uint32_t i = 0; i < COUNT; i++)
        hal_buffer_destroy(many[i]);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_device_memory_stats(conf_device, &after));
    assert_int_equal(after.current, before.current);
    assert_int_equal(after.count, before.count);
}

/* A list over the node budget is cut into segments, and still runs in order. */
static void cut_into_segments(void **state)
{
    (void)state;
    hal_device *device = conf_open("list_commands=16");
    hal_stream *on = conf_stream(device);
    hal_buffer *y = conf_buffer(device, 4096);
    hal_kernel *times = conf_kernel(device, "scale_u32");
    hal_cmdlist *list = conf_list(device);
    OK(hal_cmd_fill(list, hal_whole(y), &(uint32_t){1}, 4));
    uint32_t want = 1;
    for (uint32_t i = 0; i < 99; i++) {
        OK(conf_do_scale(list, times, hal_whole(y), 1024, 5, i));
        want = want * 5 + i;
    }
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_finish(list));
    OK(hal_cmdlist_get_stats(list, &stats));
    assert_int_equal(stats.commands, 100);
    assert_int_equal(stats.segments, 7);
    for (int turn = 0; turn < 3; turn++) {
        OK(hal_cmdlist_submit(list, on, NULL));
        conf_check_u32(on, y, 0, 1024, want, 0);
    }
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(times);
    hal_buffer_destroy(y);
    hal_stream_destroy(on);
    hal_device_destroy(device);
}

#define LIST_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int conf_test_list(void)
{
    const struct CMUnitTest tests[] = {
        LIST_CASE(chain),
        LIST_CASE(diamond),
        LIST_CASE(kinds_of_hazard),
        LIST_CASE(all_kinds_of_command),
        LIST_CASE(empty_lists),
        LIST_CASE(wrong_moments),
        LIST_CASE(poisoned),
        LIST_CASE(upload_limit),
        LIST_CASE(keeps_alive),
        LIST_CASE(destroyed_while_pending),
        LIST_CASE(long_list),
        LIST_CASE(many_bindings),
        LIST_CASE(cut_into_segments),
    };
    return RUN("list", tests);
}
