/* Submitting a recorded list with other buffers and scalars, again and again, also while it still runs. */
#include "conf.h"

enum { N = 256 };

static hal_stream *stream;
static hal_kernel *fill, *scale, *copy;

static int setup(void **state)
{
    stream = conf_stream(conf_device);
    fill = conf_shared("fill_index");
    scale = conf_shared("scale_u32");
    copy = conf_shared("copy_u32");
    return conf_case_setup(state);
}

static int teardown(void **state)
{
    OK(hal_stream_wait(stream, SOON));
    hal_stream_destroy(stream);
    return conf_case_teardown(state);
}

/* slot 1 = (slot 0) * 3 + scalar 0, by way of a buffer of the list's own. */
static hal_cmdlist *three_steps(hal_buffer *own)
{
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_copy(list, copy, hal_slot(0, 0), hal_whole(own), N));
    OK(conf_do_scale(list, scale, hal_whole(own), N, 3, 7));
    OK(hal_cmd_scalar(list, 0, offsetof(conf_scale, add)));
    OK(conf_do_copy(list, copy, hal_whole(own), hal_slot(1, 0), N));
    OK(hal_cmdlist_finish(list));
    return list;
}

static void submit(hal_cmdlist *list, hal_stream *on, hal_span in, hal_span out, uint32_t scalar)
{
    const hal_span spans[2] = {in, out};
    const hal_bindings bindings = {sizeof bindings, spans, 2, &scalar, 1};
    OK(hal_cmdlist_submit(list, on, &bindings));
}

static void new_bindings(void **state)
{
    (void)state;
    hal_buffer *own = conf_buffer(conf_device, N * 4), *in[4], *out[4];
    hal_cmdlist *list = three_steps(own);
    for (uint32_t i = 0; i < 4; i++) {
        in[i] = conf_buffer(conf_device, N * 4);
        out[i] = conf_buffer(conf_device, N * 4);
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(in[i]), N, i * 1000));
    }
    for (uint32_t turn = 0; turn < 20; turn++) {
        for (uint32_t i = 0; i < 4; i++) /* all in flight at once, each with its own bindings */
            submit(list, stream, hal_whole(in[i]), hal_whole(out[(i + turn) % 4]), turn * 10 + i);
        for (uint32_t i = 0; i < 4; i++)
            conf_check_u32(stream, out[(i + turn) % 4], 0, N, i * 3000 + turn * 10 + i, 3);
    }
    /* Without scalars the recorded value stands. */
    OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in[0]), hal_whole(out[0]))));
    conf_check_u32(stream, out[0], 0, N, 7, 3);
    hal_cmdlist_destroy(list);
    for (int i = 0; i < 4; i++) {
        hal_buffer_destroy(in[i]);
        hal_buffer_destroy(out[i]);
    }
    hal_buffer_destroy(own);
}

/* A busy device: many submissions wait in line, each with its own bindings and scalars. */
static void in_flight(void **state)
{
    (void)state;
    enum { COUNT = 64 };
    hal_buffer *word = conf_buffer(conf_device, 4), *rows = conf_buffer(conf_device, COUNT * N * 4);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_slot(0, 0), N, 0));
    OK(hal_cmd_scalar(list, 0, offsetof(conf_fill, base)));
    OK(hal_cmdlist_finish(list));
    conf_busy(stream, conf_shared("spin"), word, 50);
    for (uint32_t i = 0; i < COUNT; i++) {
        hal_span row = hal_range(rows, (uint64_t)i * N * 4, N * 4);
        uint32_t base = i * 100000;
        OK(hal_cmdlist_submit(list, stream, &(hal_bindings){sizeof(hal_bindings), &row, 1, &base, 1}));
        base = 0; /* read at the call */
        row = hal_range(NULL, 0, 0);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        conf_check_u32(stream, rows, (uint64_t)i * N, N, i * 100000, 1);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(rows);
    hal_buffer_destroy(word);
}

static void to_other_streams(void **state)
{
    (void)state;
    hal_stream *streams[3] = {stream, conf_stream(conf_device), conf_stream(conf_device)};
    hal_buffer *in = conf_buffer(conf_device, N * 4), *own = conf_buffer(conf_device, N * 4), *out[3];
    hal_event *event = conf_event(conf_device);
    hal_cmdlist *list = three_steps(own);
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(in), N, 2));
    for (int i = 0; i < 3; i++)
        out[i] = conf_buffer(conf_device, N * 4);
    for (uint32_t turn = 0; turn < 60; turn++) {
        hal_stream *on = streams[turn % 3];
        OK(hal_event_record(event, streams[(turn + 2) % 3])); /* the list's own buffer is used in turns */
        OK(hal_stream_wait_event(on, event));
        submit(list, on, hal_whole(in), hal_whole(out[turn % 3]), turn);
    }
    for (uint32_t i = 0; i < 3; i++)
        conf_check_u32(streams[i], out[i], 0, N, 6 + 57 + i, 3);
    OK(hal_device_wait(conf_device, SOON));
    hal_cmdlist_destroy(list);
    for (int i = 0; i < 3; i++)
        hal_buffer_destroy(out[i]);
    hal_buffer_destroy(in);
    hal_buffer_destroy(own);
    hal_event_destroy(event);
    hal_stream_destroy(streams[1]);
    hal_stream_destroy(streams[2]);
}

/* Copies and fills on slots, and offsets in the list on top of offsets in the binding. */
static void slots_everywhere(void **state)
{
    (void)state;
    hal_buffer *x = conf_buffer(conf_device, 8192), *y = conf_buffer(conf_device, 8192);
    hal_cmdlist *list = conf_list(conf_device);
    uint32_t alignment = hal_device_get_info(conf_device)->span_alignment;
    uint32_t step = alignment < 256 ? 256 : alignment;
    OK(hal_cmd_fill(list, hal_slot_range(0, 0, 64), &(uint32_t){5}, 4));
    OK(hal_cmd_upload(list, hal_slot_range(0, 64, 4), &(uint32_t){6}, 4));
    OK(conf_do_fill(list, fill, hal_slot(0, step), 16, 70));
    OK(hal_cmd_copy(list, hal_slot_range(1, 4, 2 * step), hal_slot_range(0, 0, 2 * step)));
    OK(hal_cmdlist_finish(list));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(x), &(uint32_t){1}, 4));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){2}, 4));
    OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_at(x, 2 * step), hal_range(y, 100, 2 * step + 4))));
    conf_check_u32(stream, x, 0, 2 * step / 4, 1, 0);
    conf_check_u32(stream, x, 2 * step / 4, 16, 5, 0);
    conf_check_u32(stream, x, 2 * step / 4 + 16, 1, 6, 0);
    conf_check_u32(stream, x, 3 * step / 4, 16, 70, 1);
    conf_check_u32(stream, y, 25, 1, 2, 0);
    conf_check_u32(stream, y, 26, 16, 5, 0);
    conf_check_u32(stream, y, 26 + step / 4, 16, 70, 1);
    conf_check_u32(stream, y, 26 + 2 * step / 4, 16, 2, 0);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
}

static void wrong_bindings(void **state)
{
    (void)state;
    hal_buffer *own = conf_buffer(conf_device, N * 4), *in = conf_buffer(conf_device, N * 4);
    hal_buffer *out = conf_buffer(conf_device, N * 4 + 8), *small = conf_buffer(conf_device, 64);
    hal_cmdlist *list = three_steps(own);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_submit(list, stream, NULL));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in))));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_slot(0, 0))));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_whole(NULL))));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), (hal_span){0})));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT,
           hal_cmdlist_submit(list, stream, &(hal_bindings){sizeof(hal_bindings), NULL, 2, NULL, 0}));
    EXPECT(HAL_ERROR_OUT_OF_RANGE,
           hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_range(out, 0, N * 4 + 12))));
    if (hal_device_get_info(conf_device)->span_alignment > 4)
        EXPECT(HAL_ERROR_ALIGNMENT, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_at(out, 4))));
    /* A written slot over another span of the list: the other slot, or the list's own buffer. */
    EXPECT(HAL_ERROR_OVERLAP, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_whole(in))));
    EXPECT(HAL_ERROR_OVERLAP, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_whole(own))));
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(in), N, 0));
    OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(in), hal_whole(out))));
    conf_check_u32(stream, out, 0, N, 7, 3);
    hal_cmdlist_destroy(list);

    /* Ranges in the list that leave the binding. */
    list = conf_list(conf_device);
    OK(hal_cmd_fill(list, hal_slot_range(0, 32, 64), "x", 1));
    OK(hal_cmdlist_finish(list));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(small))));
    char text[64];
    snprintf(text, sizeof text, "is bound to %llu bytes at 0 of", (unsigned long long)hal_buffer_size(small));
    conf_expect_error(text);
    conf_expect_error("needs 96");
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_range(in, 0, 95))));
    OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_range(in, 0, 96))));
    hal_cmdlist_destroy(list);

    list = conf_list(conf_device);
    EXPECT(HAL_ERROR_LIMIT, hal_cmd_fill(list, hal_slot_range(HAL_MAX_SLOTS, 0, 64), "x", 1));
    hal_cmdlist_destroy(list);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_fill(hal_stream_cmdlist(stream), hal_slot_range(0, 0, 64), "x", 1));
    hal_buffer_destroy(own);
    hal_buffer_destroy(in);
    hal_buffer_destroy(out);
    hal_buffer_destroy(small);
}

static void scalars(void **state)
{
    (void)state;
    hal_buffer *y = conf_buffer(conf_device, N * 4);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(y), N, 0));
    OK(hal_cmd_scalar(list, 0, offsetof(conf_fill, base)));
    OK(conf_do_scale(list, scale, hal_whole(y), N, 1, 0));
    OK(hal_cmd_scalar(list, 1, offsetof(conf_scale, mul)));
    OK(hal_cmd_scalar(list, 0, offsetof(conf_scale, add))); /* one value in two places */
    OK(hal_cmdlist_finish(list));
    for (uint32_t i = 1; i < 30; i++) {
        const uint32_t values[2] = {i * 5, i};
        OK(hal_cmdlist_submit(list, stream, &(hal_bindings){sizeof(hal_bindings), NULL, 0, values, 2}));
        conf_check_u32(stream, y, 0, N, i * 5 * i + i * 5, i);
    }
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, /* all or none */
           hal_cmdlist_submit(list, stream, &(hal_bindings){sizeof(hal_bindings), NULL, 0, &(uint32_t){1}, 1}));
    hal_cmdlist_destroy(list);
    list = conf_list(conf_device);
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_scalar(list, 0, 0)); /* no dispatch yet */
    hal_cmdlist_destroy(list);
    list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(y), N, 0));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_scalar(list, 0, 8));
    hal_cmdlist_destroy(list);
    list = conf_list(conf_device);
    OK(conf_do_fill(list, fill, hal_whole(y), N, 0));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_scalar(list, 0, 2));
    hal_cmdlist_destroy(list);
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_scalar(hal_stream_cmdlist(stream), 0, 0));
    hal_buffer_destroy(y);
}

/* 10,000 submissions with alternating buffers and scalars: the native object is not built again each time. */
static void builds_stay_bounded(void **state)
{
    (void)state;
    hal_buffer *own = conf_buffer(conf_device, N * 4), *in[2], *out[3];
    hal_cmdlist *list = three_steps(own);
    for (uint32_t i = 0; i < 2; i++) {
        in[i] = conf_buffer(conf_device, N * 4);
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(in[i]), N, i));
    }
    for (int i = 0; i < 3; i++)
        out[i] = conf_buffer(conf_device, N * 4);
    hal_cmdlist_stats stats;
    uint64_t rss = 0;
    for (uint32_t turn = 0; turn < 10000; turn++) {
        submit(list, stream, hal_whole(in[turn % 2]), hal_whole(out[turn % 3]), turn);
        if (turn % 500 == 499)
            conf_check_u32(stream, out[turn % 3], 0, N, turn % 2 * 3 + turn, 3);
        if (turn == 2000)
            rss = conf_rss();
    }
    OK(hal_stream_wait(stream, SOON));
    OK(hal_cmdlist_get_stats(list, &stats));
    print_message("10,000 submissions, %llu native builds\n", (unsigned long long)stats.native_builds);
    assert_int_equal(stats.submits, 10000);
    assert_true(stats.native_builds <= 64);
    conf_check_growth(rss, 8 << 20);
    hal_cmdlist_destroy(list);
    for (int i = 0; i < 2; i++)
        hal_buffer_destroy(in[i]);
    for (int i = 0; i < 3; i++)
        hal_buffer_destroy(out[i]);
    hal_buffer_destroy(own);
}

/* A bound buffer is destroyed right after the submit. */
static void bound_and_destroyed(void **state)
{
    (void)state;
    hal_buffer *own = conf_buffer(conf_device, N * 4), *word = conf_buffer(conf_device, 4);
    hal_buffer *out = conf_buffer(conf_device, N * 4);
    hal_cmdlist *list = three_steps(own);
    for (uint32_t turn = 0; turn < 20; turn++) {
        hal_buffer *in = conf_buffer(conf_device, N * 4);
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(in), N, turn));
        conf_busy(stream, conf_shared("spin"), word, 2);
        submit(list, stream, hal_whole(in), hal_whole(out), 1);
        hal_buffer_destroy(in);
        hal_buffer *reuse = conf_buffer(conf_device, N * 4);
        hal_stream *other = conf_stream(conf_device);
        OK(hal_cmd_fill(hal_stream_cmdlist(other), hal_whole(reuse), "\x77", 1));
        OK(hal_stream_wait(other, SOON));
        hal_stream_destroy(other);
        hal_buffer_destroy(reuse);
        conf_check_u32(stream, out, 0, N, turn * 3 + 1, 3);
    }
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(own);
    hal_buffer_destroy(out);
    hal_buffer_destroy(word);
}

/* The offset form, and bindings at odd places of a buffer. */
static void offset_form(void **state)
{
    (void)state;
    hal_buffer *x = conf_buffer(conf_device, 8192), *y = conf_buffer(conf_device, 8192);
    hal_cmdlist *list = conf_list(conf_device);
    OK(conf_do_copy(list, conf_shared("copy_u32_off"), hal_slot(0, 4), hal_slot(1, 8), 100));
    OK(conf_do_scale(list, conf_shared("scale_u32_off"), hal_slot(1, 8), 100, 2, 0));
    OK(hal_cmd_scalar(list, 0, offsetof(conf_scale, add)));
    OK(hal_cmdlist_finish(list));
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(x), 2048, 0));
    for (uint32_t turn = 0; turn < 20; turn++) {
        const hal_span spans[2] = {hal_at(x, turn * 12), hal_at(y, turn * 20)};
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
        OK(hal_cmdlist_submit(list, stream, &(hal_bindings){sizeof(hal_bindings), spans, 2, &turn, 1}));
        conf_check_u32(stream, y, 0, turn * 5 + 2, 0, 0);
        conf_check_u32(stream, y, turn * 5 + 2, 100, 2 * (turn * 3 + 1) + turn, 2);
        conf_check_u32(stream, y, turn * 5 + 102, 100, 0, 0);
    }
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
}

#define REPLAY_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int conf_test_replay(void)
{
    const struct CMUnitTest tests[] = {
        REPLAY_CASE(new_bindings),        REPLAY_CASE(in_flight),      REPLAY_CASE(to_other_streams),
        REPLAY_CASE(slots_everywhere),    REPLAY_CASE(wrong_bindings), REPLAY_CASE(scalars),
        REPLAY_CASE(builds_stay_bounded), REPLAY_CASE(offset_form),    REPLAY_CASE(bound_and_destroyed),
    };
    return RUN("replay", tests);
}
