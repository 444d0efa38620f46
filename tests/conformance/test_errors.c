/* Misuse: each call with NULL, with an object of another type, and with numbers that do not fit. The same code on every
 * backend, one line of text, and a device that works on. */
#include "conf.h"

static void nulls(void **state)
{
    (void)state;
    hal_device *device;
    hal_buffer *buffer;
    hal_stream *stream;
    hal_event *event;
    hal_module *module;
    hal_kernel *kernel;
    hal_cmdlist *list;
    hal_memory_stats memory;
    hal_cmdlist_stats stats;
    hal_stall stall;
    void *pointer;
    uint64_t ns;
    hal_kernel_desc desc = conf_kernel_desc("fill_index");
    const hal_status bad = HAL_ERROR_INVALID_ARGUMENT;
    EXPECT(bad, hal_device_open(NULL, NULL));
    EXPECT(bad, hal_device_status(NULL));
    EXPECT(bad, hal_device_wait(NULL, 0));
    EXPECT(bad, hal_device_memory_stats(NULL, &memory));
    EXPECT(bad, hal_device_memory_stats(conf_device, NULL));
    EXPECT(bad, hal_device_stall_report(NULL, &stall, NULL, 0));
    EXPECT(bad, hal_device_inject_fault(NULL, HAL_FAULT_ALLOC, 1));
    EXPECT(bad, hal_device_inject_fault(conf_device, (hal_fault)17, 1));
    assert_null(hal_device_get_info(NULL));
    EXPECT(bad, hal_trace_start(NULL));
    EXPECT(bad, hal_trace_write(NULL, "/tmp/x", 0));
    EXPECT(bad, hal_buffer_create(NULL, HAL_BUFFER(.size = 4), &buffer));
    EXPECT(bad, hal_buffer_create(conf_device, HAL_BUFFER(.size = 4), NULL));
    EXPECT(bad, hal_buffer_create(conf_device, NULL, &buffer));
    conf_expect_error("HAL_BUFFER(");
    EXPECT(bad, hal_buffer_create(conf_device, HAL_BUFFER(.size = 4, .memory = (hal_memory)9), &buffer));
    assert_null(buffer);
    EXPECT(bad, hal_buffer_import(NULL, &ns, 8, NULL, NULL, NULL, &buffer));
    EXPECT(bad, hal_buffer_map(NULL, 0, 4, HAL_READ, &pointer));
    EXPECT(bad, hal_buffer_unmap(NULL));
    assert_int_equal(hal_buffer_size(NULL), 0);
    assert_non_null(hal_buffer_label(NULL));
    EXPECT(bad, hal_stream_create(NULL, NULL, &stream));
    EXPECT(bad, hal_stream_create(conf_device, NULL, NULL));
    assert_null(hal_stream_cmdlist(NULL));
    EXPECT(bad, hal_stream_flush(NULL));
    EXPECT(bad, hal_stream_wait(NULL, 0));
    EXPECT(bad, hal_event_create(NULL, NULL, &event));
    EXPECT(bad, hal_event_create(conf_device, NULL, NULL));
    EXPECT(bad, hal_event_wait(NULL, 0));
    EXPECT(bad, hal_event_signal(NULL));
    EXPECT(bad, hal_event_reset(NULL));
    EXPECT(bad, hal_event_elapsed(NULL, NULL, &ns));
    EXPECT(bad, hal_module_create(NULL, HAL_MODULE(.opencl_c = "x"), &module));
    EXPECT(bad, hal_module_create(conf_device, HAL_MODULE(.opencl_c = "x"), NULL));
    EXPECT(bad, hal_kernel_create(NULL, "x", &desc, &kernel));
    EXPECT(bad, hal_kernel_create_builtin(NULL, "x", &desc, &kernel));
    EXPECT(bad, hal_cmdlist_create(NULL, NULL, &list));
    EXPECT(bad, hal_cmdlist_create(conf_device, NULL, NULL));
    EXPECT(bad, hal_cmdlist_finish(NULL));
    EXPECT(bad, hal_cmdlist_get_stats(NULL, &stats));
    EXPECT(bad, hal_cmdlist_submit(NULL, NULL, NULL));
    EXPECT(bad, hal_cmd_fill(NULL, (hal_span){0}, "x", 1));
    EXPECT(bad, hal_cmd_copy(NULL, (hal_span){0}, (hal_span){0}));
    EXPECT(bad, hal_cmd_upload(NULL, (hal_span){0}, "x", 1));
    EXPECT(bad, hal_cmd_download(NULL, &ns, (hal_span){0}));
    EXPECT(bad, hal_cmd_scalar(NULL, 0, 0));
    EXPECT(bad, hal_cmd_event_record(NULL, NULL));
    EXPECT(bad, hal_cmd_event_wait(NULL, NULL));
    EXPECT(bad, hal_cmd_dispatch(NULL, NULL, HAL_GRID1(1), NULL, 0, NULL, 0));
    hal_device_destroy(NULL);
    hal_buffer_destroy(NULL);
    hal_stream_destroy(NULL);
    hal_event_destroy(NULL);
    hal_module_destroy(NULL);
    hal_kernel_destroy(NULL);
    hal_cmdlist_destroy(NULL);
    (void)device;
}

/* An object of another type, passed by a wrong cast. */
static void wrong_types(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *buffer = conf_buffer(conf_device, 64);
    hal_event *event = conf_event(conf_device);
    const hal_status bad = HAL_ERROR_INVALID_ARGUMENT;
    hal_stream *made;
    EXPECT(bad, hal_stream_create((hal_device *)buffer, NULL, &made));
    EXPECT(bad, hal_stream_wait((hal_stream *)buffer, 0));
    conf_expect_error("buffer");
    EXPECT(bad, hal_event_wait((hal_event *)stream, 0));
    EXPECT(bad, hal_event_record((hal_event *)stream, stream));
    EXPECT(bad, hal_event_record(event, (hal_stream *)buffer));
    EXPECT(bad, hal_buffer_unmap((hal_buffer *)event));
    EXPECT(bad, hal_cmd_fill((hal_cmdlist *)stream, hal_whole(buffer), "x", 1));
    EXPECT(bad, hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole((hal_buffer *)event), "x", 1));
    EXPECT(bad, hal_cmd_dispatch(hal_stream_cmdlist(stream), (hal_kernel *)buffer, HAL_GRID1(1),
                                 HAL_SPANS(hal_whole(buffer)), "12345678", 8));
    EXPECT(bad, hal_cmdlist_submit((hal_cmdlist *)buffer, stream, NULL));
    hal_event_destroy(event);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
}

static void wrong_dispatches(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    hal_kernel *fill = conf_shared("fill_index");
    const conf_fill args = {4, 0};
    const hal_status bad = HAL_ERROR_INVALID_ARGUMENT;
    EXPECT(bad, hal_cmd_dispatch(list, NULL, HAL_GRID1(1), HAL_SPANS(hal_whole(y)), &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_whole(y), hal_whole(y)), &args, sizeof args));
    conf_expect_error("fill_index");
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), NULL, 0, &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), NULL, 1, &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_whole(y)), &args, 4));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_whole(y)), &args, 12));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_whole(y)), NULL, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS((hal_span){0}), &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_whole(NULL)), &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS(hal_slot(0, 0)), &args, sizeof args));
    EXPECT(bad, hal_cmd_dispatch(list, fill, HAL_GRID1(1), HAL_SPANS((hal_span){.kind = (hal_span_kind)7, .buffer = y}),
                                 &args, sizeof args));
    OK(conf_do_fill(list, fill, hal_whole(y), 1024, 1));
    conf_check_u32(stream, y, 0, 1024, 1, 1);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* Spans at and beyond the end, and sums that wrap. */
static void spans_out_of_range(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    const uint64_t wrong[][2] = {{0, 4097},       {4096, 1},           {4097, 0},           {4097, HAL_REST}, {4096, 4},
                                 {UINT64_MAX, 1}, {UINT64_MAX - 3, 4}, {8, UINT64_MAX - 7}, {1u << 31, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        hal_span span = hal_range(y, wrong[i][0], wrong[i][1]);
        EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_fill(list, span, "x", 1));
        conf_expect_error("4096");
        EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_copy(list, span, span));
        EXPECT(HAL_ERROR_OUT_OF_RANGE, conf_do_fill(list, conf_shared("fill_index"), span, 4, 0));
    }
    OK(hal_cmd_fill(list, hal_at(y, 4096), "x", 1)); /* empty, at the end */
    OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(y), 1024, 1));
    conf_check_u32(stream, y, 0, 1024, 1, 1);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* The last error is the thread's own, names the object, and stays when a call succeeds. */
static void last_error(void **state)
{
    (void)state;
    hal_buffer *buffer;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 64, .label = "weights of layer 7"), &buffer));
    hal_stream *stream = conf_stream(conf_device);
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_fill(hal_stream_cmdlist(stream), hal_range(buffer, 0, 999), "x", 1));
    conf_expect_error("weights of layer 7");
    conf_expect_error("999");
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
}

/* Twice the same name would not say what is wrong. */
static void opened_twice(void **state)
{
    (void)state;
    hal_device *second;
    OK(conf_try_open(NULL, &second));
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *theirs = conf_buffer(second, 64);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(theirs), "x", 1));
    conf_expect_error("belongs to another hal_device opened on '");
    hal_buffer_destroy(theirs);
    hal_stream_destroy(stream);
    hal_device_destroy(second);
}

/* After all this the device is as good as new. */
static void still_works(void **state)
{
    (void)state;
    OK(hal_device_status(conf_device));
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 1024, 1));
    conf_check_u32(stream, y, 0, 1024, 1, 1);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

int conf_test_errors(void)
{
    const struct CMUnitTest tests[] = {
        CASE(nulls),      CASE(wrong_types),  CASE(wrong_dispatches), CASE(spans_out_of_range),
        CASE(last_error), CASE(opened_twice), CASE(still_works),
    };
    return RUN("errors", tests);
}
