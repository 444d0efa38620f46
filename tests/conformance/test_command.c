/* Immediate commands: copy, fill, upload, download. */
#include "conf.h"

static hal_stream *stream;
static hal_cmdlist *list;
static hal_buffer *a, *b;

enum { SIZE = 70000 };

static int setup(void **state)
{
    stream = conf_stream(conf_device);
    list = hal_stream_cmdlist(stream);
    a = conf_buffer(conf_device, SIZE);
    b = conf_buffer(conf_device, SIZE);
    OK(hal_cmd_fill(list, hal_whole(a), "\x5a", 1));
    OK(hal_cmd_fill(list, hal_whole(b), "\x5a", 1));
    return conf_case_setup(state);
}

static int teardown(void **state)
{
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(a);
    hal_buffer_destroy(b);
    hal_stream_destroy(stream);
    return conf_case_teardown(state);
}

static void fills(void **state)
{
    (void)state;
    static uint8_t got[SIZE];
    static const uint8_t pattern[4] = {1, 2, 3, 4};
    const uint32_t sizes[3] = {1, 2, 4};
    const uint64_t lengths[] = {1, 2, 3, 4, 5, 7, 8, 12, 64, 100, 4096, 65536};
    for (int s = 0; s < 3; s++)
        for (uint64_t at = 0; at < 20; at += 1)
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                hal_status status = hal_cmd_fill(list, hal_range(a, at, lengths[l]), pattern, sizes[s]);
                if (at % sizes[s] != 0 || lengths[l] % sizes[s] != 0) {
                    EXPECT(HAL_ERROR_ALIGNMENT, status);
                    continue;
                }
                assert_int_equal(status, HAL_OK);
                conf_get(stream, a, 0, got, lengths[l] + at + 8);
                for (uint64_t i = 0; i < lengths[l] + at + 8; i++) {
                    bool inside = i >= at && i < at + lengths[l];
                    uint8_t want = inside ? pattern[(i - at) % sizes[s]] : 0x5a;
                    if (got[i] != want)
                        fail_msg("pattern of %u, [%llu, +%llu): byte %llu is %u", sizes[s], (unsigned long long)at,
                                 (unsigned long long)lengths[l], (unsigned long long)i, got[i]);
                }
                OK(hal_cmd_fill(list, hal_range(a, 0, lengths[l] + at + 8), "\x5a", 1));
            }
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_fill(list, hal_whole(a), pattern, 3));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_fill(list, hal_whole(a), pattern, 0));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_fill(list, hal_whole(a), NULL, 4));
}

static void copies(void **state)
{
    (void)state;
    static uint8_t source[SIZE], got[SIZE];
    for (int i = 0; i < SIZE; i++)
        source[i] = (uint8_t)(i * 7 + i / 256);
    conf_write(stream, a, 0, source, SIZE);
    const uint64_t cases[][3] = {{0, 0, SIZE}, {1, 0, 1}, {0, 3, 5}, {17, 5, 1000}, {4, 8, 65536}, {SIZE - 1, 0, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint64_t from = cases[c][0], to = cases[c][1], size = cases[c][2];
        OK(hal_cmd_fill(list, hal_whole(b), "\x5a", 1));
        OK(hal_cmd_copy(list, hal_range(b, to, size), hal_range(a, from, size)));
        conf_get(stream, b, 0, got, SIZE);
        for (uint64_t i = 0; i < SIZE; i++) {
            bool inside = i >= to && i < to + size;
            assert_int_equal(got[i], inside ? source[i - to + from] : 0x5a);
        }
    }
    /* HAL_REST takes the other side's size. */
    OK(hal_cmd_copy(list, hal_at(b, 100), hal_range(a, 0, 50)));
    OK(hal_cmd_copy(list, hal_range(b, 200, 50), hal_at(a, 0)));
    conf_get(stream, b, 0, got, SIZE);
    assert_memory_equal(got + 100, source, 50);
    assert_memory_equal(got + 200, source, 50);
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_copy(list, hal_range(b, 0, 10), hal_range(a, 0, 11)));
    /* Within one buffer. */
    OK(hal_cmd_copy(list, hal_range(a, 1000, 500), hal_range(a, 500, 500)));
    conf_get(stream, a, 1000, got, 500);
    assert_memory_equal(got, source + 500, 500);
    EXPECT(HAL_ERROR_OVERLAP, hal_cmd_copy(list, hal_range(a, 0, 100), hal_range(a, 99, 100)));
    EXPECT(HAL_ERROR_OVERLAP, hal_cmd_copy(list, hal_range(a, 99, 100), hal_range(a, 0, 100)));
    EXPECT(HAL_ERROR_OVERLAP, hal_cmd_copy(list, hal_whole(a), hal_whole(a)));
}

/* The source may be overwritten as soon as the call has returned. */
static void uploads_copy(void **state)
{
    (void)state;
    static uint8_t source[SIZE], got[SIZE];
    hal_buffer *word = conf_buffer(conf_device, 4);
    conf_busy(stream, conf_shared("spin"), word, 20);
    memset(source, 1, sizeof source);
    OK(hal_cmd_upload(list, hal_range(a, 3, 60001), source, 60001));
    memset(source, 2, sizeof source);
    OK(hal_cmd_upload(list, hal_range(a, 10, 5), source, 5));
    memset(source, 3, sizeof source);
    conf_get(stream, a, 0, got, SIZE);
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(got[i], i >= 10 && i < 15 ? 2 : i >= 3 && i < 60004 ? 1 : 0x5a);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_upload(list, hal_range(a, 0, 4), NULL, 4));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_upload(list, hal_range(a, 0, 4), source, 5));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_upload(list, hal_at(a, SIZE - 4), source, 5));
    hal_buffer_destroy(word);
}

/* More uploads than any staging area holds, without a wait; and an earlier kernel still saw the old bytes. */
static void many_uploads(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    hal_buffer *rows = conf_buffer(conf_device, (uint64_t)COUNT * 16);
    hal_buffer *x = conf_buffer(conf_device, 16);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t words[4] = {i, i + 1, i + 2, i + 3};
        OK(hal_cmd_upload(list, hal_whole(x), words, sizeof words));
        OK(hal_cmd_copy(list, hal_range(rows, (uint64_t)i * 16, 16), hal_whole(x)));
    }
    uint32_t *got = malloc(COUNT * 16);
    conf_get(stream, rows, 0, got, COUNT * 16);
    for (uint32_t i = 0; i < COUNT * 4; i++)
        if (got[i] != i / 4 + i % 4)
            fail_msg("word %u is %u", i, got[i]);
    free(got);
    hal_buffer_destroy(rows);
    hal_buffer_destroy(x);
}

/* 200 MiB through the staging area in large pieces: memory stays bounded. */
static void large_uploads(void **state)
{
    (void)state;
    enum { PIECE = 8 << 20 };
    hal_buffer *large = conf_buffer(conf_device, PIECE);
    uint8_t *source = malloc(PIECE), *got = malloc(PIECE);
    hal_memory_stats stats;
    for (int i = 0; i < 25; i++) {
        memset(source, i, PIECE);
        OK(hal_cmd_upload(list, hal_whole(large), source, PIECE));
        OK(hal_device_memory_stats(conf_device, &stats));
    }
    OK(hal_cmd_download(list, got, hal_whole(large)));
    OK(hal_stream_wait(stream, SOON));
    for (int i = 0; i < PIECE; i += 4093)
        assert_int_equal(got[i], 24);
    assert_true(stats.reserved < stats.current + (160u << 20));
    free(source);
    free(got);
    hal_buffer_destroy(large);
}

static void downloads(void **state)
{
    (void)state;
    hal_event *event = conf_event(conf_device);
    uint8_t bytes[3][64];
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(a), 1000, 0));
    memset(bytes, 0, sizeof bytes);
    OK(hal_cmd_download(list, bytes[0], hal_range(a, 4, 64)));
    OK(hal_cmd_download(list, bytes[1], hal_range(a, 1, 63)));
    OK(hal_event_record(event, stream));
    OK(hal_event_wait(event, SOON)); /* a wait for a later event is as good as one for the stream */
    uint32_t word;
    memcpy(&word, bytes[0], 4);
    assert_int_equal(word, 1);
    assert_int_equal(bytes[0][60], 16);
    assert_int_equal(bytes[1][3], 1);
    assert_int_equal(bytes[1][63], 0);
    OK(hal_cmd_download(list, bytes[2], hal_range(a, 0, 0)));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_download(list, NULL, hal_range(a, 0, 4)));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_download(list, bytes[2], hal_range(a, SIZE, 4)));
    hal_event_destroy(event);
}

/* What was downloaded but not yet waited for is not overwritten by later traffic through the same staging memory. */
static void downloads_keep(void **state)
{
    (void)state;
    static uint8_t early[60000], junk[60000];
    memset(junk, 0xcc, sizeof junk);
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(a), 15000, 1));
    OK(hal_cmd_download(list, early, hal_range(a, 0, sizeof early)));
    OK(hal_stream_flush(stream));
    for (uint64_t start = conf_now(); conf_now() - start < HAL_MILLISECONDS(100);)
        ; /* the device is done by now, and nobody has asked */
    for (int i = 0; i < 100; i++)
        OK(hal_cmd_upload(list, hal_range(b, 0, sizeof junk), junk, sizeof junk));
    OK(hal_stream_wait(stream, SOON));
    for (uint32_t i = 0; i < 15000; i++) {
        uint32_t got;
        memcpy(&got, early + (size_t)i * 4, 4);
        assert_int_equal(got, 1 + i);
    }
}

static void zero_sized(void **state)
{
    (void)state;
    hal_event *event = conf_event(conf_device);
    OK(hal_cmd_fill(list, hal_range(a, 8, 0), "x", 1));
    OK(hal_cmd_copy(list, hal_range(a, 8, 0), hal_range(b, 9, 0)));
    OK(hal_cmd_copy(list, hal_range(a, SIZE, 0), hal_range(a, SIZE, 0)));
    OK(hal_cmd_upload(list, hal_range(a, 8, 0), NULL, 0));
    OK(hal_cmd_download(list, NULL, hal_range(a, 8, 0)));
    const hal_grid grids[3] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
    for (int i = 0; i < 3; i++)
        OK(hal_cmd_dispatch(list, conf_shared("fill_index"), grids[i], HAL_SPANS(hal_whole(a)), &(conf_fill){64, 0},
                            sizeof(conf_fill)));
    OK(hal_event_record(event, stream)); /* and it signals */
    OK(hal_event_wait(event, SOON));
    OK(hal_stream_wait(stream, SOON));
    conf_check_u32(stream, a, 0, 100, 0x5a5a5a5a, 0);
    hal_event_destroy(event);
}

/* In steady state telling a command takes no memory from the host's allocator. */
static void no_allocation(void **state)
{
    (void)state;
    hal_memory_stats before, after;
    for (int round = 0; round < 3; round++) {
        OK(hal_device_memory_stats(conf_device, &before));
        for (uint32_t i = 0; i < 500; i++) {
            OK(conf_do_scale(list, conf_shared("scale_u32"), hal_whole(a), 64, 3, i));
            OK(conf_do_copy(list, conf_shared("copy_u32"), hal_whole(a), hal_whole(b), 64));
        }
        OK(hal_stream_wait(stream, SOON));
        OK(hal_device_memory_stats(conf_device, &after));
    }
    if (after.host_allocations - before.host_allocations > 20)
        fail_msg("1,000 dispatches made %llu host allocations",
                 (unsigned long long)(after.host_allocations - before.host_allocations));
}

#define COMMAND_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int conf_test_command(void)
{
    const struct CMUnitTest tests[] = {
        COMMAND_CASE(fills),          COMMAND_CASE(copies),        COMMAND_CASE(uploads_copy),
        COMMAND_CASE(many_uploads),   COMMAND_CASE(large_uploads), COMMAND_CASE(downloads),
        COMMAND_CASE(downloads_keep), COMMAND_CASE(zero_sized),    COMMAND_CASE(no_allocation),
    };
    return RUN("command", tests);
}
