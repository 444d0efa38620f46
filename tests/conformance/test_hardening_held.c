/* What an attack on the library found once, continued: work that is held back behind gates, and lists of very many
 * parts. */
#include "conf.h"

#include <unistd.h>

static void count_release(void *user, void *pointer, uint64_t size)
{
    (void)pointer, (void)size;
    ++*(int *)user;
}

/* Everything is destroyed right after the signal, while most of the work waits for room in the queue: it is finished,
 * and the imported memory given back after that. */
static void destroyed_after_signal(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    if (!hal_device_get_info(conf_device)->import_host_memory)
        SKIP("the device cannot import host memory");
    hal_device *device = conf_open(NULL);
    hal_stream *stream = conf_stream(device), *after = conf_stream(device);
    hal_event *gate = conf_gate(device), *event = conf_event(device);
    hal_kernel *scale = conf_kernel(device, "scale_u32");
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint32_t *memory = aligned_alloc(page, page);
    int released = 0;
    hal_buffer *buffer;
    assert_non_null(memory);
    memset(memory, 0, page);
    OK(hal_buffer_import(device, memory, page, count_release, &released, "imported", &buffer));
    OK(hal_stream_wait_event(stream, gate));
    for (int i = 0; i < COUNT; i++) {
        OK(conf_do_scale(hal_stream_cmdlist(stream), scale, hal_range(buffer, 0, 256), 64, 1, 1));
        OK(hal_event_record(event, stream));
    }
    OK(hal_stream_wait_event(after, event));
    OK(hal_event_signal(gate));
    hal_buffer_destroy(buffer);
    hal_kernel_destroy(scale);
    hal_stream_destroy(stream);
    hal_stream_destroy(after);
    hal_event_destroy(event);
    hal_event_destroy(gate);
    hal_device_destroy(device);
    assert_int_equal(released, 1);
    for (int i = 0; i < 64; i++)
        assert_int_equal(memory[i], COUNT);
    free(memory);
}

/* Nothing is held back, so the bound on what is does not count: a list may have any number of parts. */
static void many_segments(void **state)
{
    (void)state;
    enum { COUNT = 30000 };
    hal_device *device = conf_open("list_commands=1");
    hal_stream *stream = conf_stream(device);
    hal_buffer *y = conf_buffer(device, 4);
    hal_cmdlist *list = conf_list(device);
    for (uint32_t i = 1; i <= COUNT; i++)
        OK(hal_cmd_fill(list, hal_whole(y), &i, 4));
    OK(hal_cmdlist_finish(list));
    OK(hal_cmdlist_submit(list, stream, NULL));
    conf_check_u32(stream, y, 0, 1, COUNT, 0);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

/* The signal hands over what there is room for and returns; so does a short wait. */
static void signal_returns_promptly(void **state)
{
    (void)state;
    enum { COUNT = 800 };
    hal_stream *stream = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device), *event = conf_event(conf_device);
    hal_buffer *word = conf_buffer(conf_device, 4);
    conf_busy(stream, conf_shared("spin"), word, 1);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_stream_wait_event(stream, gate));
    for (int i = 0; i < COUNT; i++) {
        conf_busy(stream, conf_shared("spin"), word, 1);
        OK(hal_event_record(event, stream));
    }
    uint64_t start = conf_now();
    OK(hal_event_signal(gate));
    uint64_t signalled = conf_now() - start;
    EXPECT(HAL_TIMEOUT, hal_stream_wait(stream, HAL_MILLISECONDS(1)));
    uint64_t waited = conf_now() - start;
    OK(hal_stream_wait(stream, SOON));
    uint64_t done = conf_now() - start;
    hal_event_destroy(gate);
    hal_event_destroy(event);
    hal_buffer_destroy(word);
    hal_stream_destroy(stream);
    if (signalled > done / 4 || waited > done / 2)
        fail_msg("the signal took %llu us and a wait of 1 ms ended after %llu us, of %llu us",
                 (unsigned long long)signalled / 1000, (unsigned long long)waited / 1000,
                 (unsigned long long)done / 1000);
}

int conf_test_hardening_held(void)
{
    const struct CMUnitTest tests[] = {
        CASE(destroyed_after_signal),
        CASE(many_segments),
        CASE(signal_returns_promptly),
    };
    return RUN("hardening (held)", tests);
}
