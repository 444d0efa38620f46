/* Injected faults: the k-th allocation, submission and compilation of a small scenario, for every k, and a lost device.
 */
#include "conf.h"

#include <pthread.h>

/* Device memory, a kernel, an upload, immediate and recorded work, a download. Returns the first failure; all is freed.
 */
static hal_status scenario(hal_device *device)
{
    hal_stream *stream = NULL;
    hal_buffer *x = NULL, *y = NULL, *host = NULL;
    hal_kernel *fill = NULL, *scale = NULL;
    hal_cmdlist *list = NULL;
    uint32_t got[256] = {0};
    hal_status status = hal_stream_create(device, NULL, &stream);
#define STEP(call) status = status == HAL_OK ? (call) : status
    STEP(hal_buffer_create(device, HAL_BUFFER(.size = 1024), &x));
    STEP(hal_buffer_create(device, HAL_BUFFER(.size = 1024, .dedicated = true), &y));
    STEP(hal_buffer_create(device, HAL_BUFFER(.size = 1024, .memory = HAL_MEMORY_HOST), &host));
    STEP(conf_try_kernel(device, "fill_index", &fill));
    STEP(conf_try_kernel(device, "scale_u32", &scale));
    STEP(hal_cmd_upload(hal_stream_cmdlist(stream), hal_range(x, 0, 4), &(uint32_t){1}, 4));
    STEP(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(x), 256, 4));
    STEP(hal_cmdlist_create(device, NULL, &list));
    STEP(conf_do_scale(list, scale, hal_slot(0, 0), 256, 2, 0));
    STEP(hal_cmd_copy(list, hal_whole(y), hal_slot_range(0, 0, 1024)));
    STEP(hal_cmdlist_finish(list));
    STEP(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(x))));
    STEP(hal_cmd_copy(hal_stream_cmdlist(stream), hal_whole(host), hal_whole(y)));
    STEP(hal_cmd_download(hal_stream_cmdlist(stream), got, hal_whole(host)));
    STEP(hal_stream_wait(stream, SOON));
#undef STEP
    for (uint32_t i = 0; i < 256 && status == HAL_OK; i++)
        if (got[i] != 8 + 2 * i)
            fail_msg("element %u is %u", i, got[i]);
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(fill);
    hal_kernel_destroy(scale);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_buffer_destroy(host);
    hal_stream_destroy(stream);
    return status;
}

/* Fail each in turn; after each the scenario succeeds on the same device. */
static void fail_each(hal_fault fault, hal_status natural)
{
    hal_device *device;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .cache_dir = ""), &device));
    OK(scenario(device));
    hal_memory_stats before, after;
    OK(hal_device_memory_stats(device, &before));
    /* Where there is another way, a failure may be got round: then the scenario succeeds, and the next place counts. */
    uint32_t failed = 0, passed = 0;
    for (uint64_t nth = 1; nth < 100 && passed < 4; nth++) {
        OK(hal_device_inject_fault(device, fault, nth));
        hal_status status = scenario(device);
        if (status == HAL_OK) {
            passed++;
            continue;
        }
        passed = 0;
        failed++;
        EXPECT(natural, status);
        conf_expect_error("");
        OK(hal_device_inject_fault(device, fault, 0));
        OK(scenario(device));
        OK(hal_device_status(device));
    }
    OK(hal_device_inject_fault(device, fault, 0));
    OK(hal_device_wait(device, SOON)); /* a scenario that failed left work behind */
    OK(hal_device_memory_stats(device, &after));
    print_message("failed at %u places\n", failed);
    assert_true(failed >= 2 && failed < 50);
    assert_int_equal(after.current, before.current); /* nothing was lost on the way */
    assert_int_equal(after.count, before.count);
    hal_device_destroy(device);
}

static void allocations(void **state)
{
    (void)state;
    fail_each(HAL_FAULT_ALLOC, HAL_ERROR_OUT_OF_MEMORY);
}

static void submissions(void **state)
{
    (void)state;
    fail_each(HAL_FAULT_SUBMIT, HAL_ERROR_BACKEND);
}

static void compilations(void **state)
{
    (void)state;
    fail_each(HAL_FAULT_COMPILE, HAL_ERROR_COMPILE);
}

/* From the n-th submission on everything says lost, at once; all can be destroyed, and another device opened. */
static void lost(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 8; nth++) {
        hal_device *device = conf_open(NULL), *fresh;
        OK(hal_device_inject_fault(device, HAL_FAULT_LOST, nth));
        hal_status status = scenario(device);
        if (status == HAL_OK) {
            assert_true(nth > 3);
            hal_device_destroy(device);
            break;
        }
        EXPECT(HAL_ERROR_DEVICE_LOST, status);
        uint64_t start = conf_now();
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_device_status(device));
        EXPECT(HAL_ERROR_DEVICE_LOST, scenario(device));
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_device_wait(device, HAL_FOREVER));
        hal_buffer *buffer;
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_buffer_create(device, HAL_BUFFER(.size = 64), &buffer));
        assert_null(buffer);
        conf_expect_error("lost");
        assert_non_null(hal_device_get_info(device));
        assert_true(conf_now() - start < HAL_SECONDS(1));
        fresh = conf_open(NULL);
        OK(scenario(fresh));
        hal_device_destroy(device);
        OK(scenario(fresh));
        hal_device_destroy(fresh);
    }
}

/* Work and waits are pending when the device is lost: the waits end. */
static void *wait_long(void *stream)
{
    return (void *)(intptr_t)hal_stream_wait(stream, HAL_SECONDS(30));
}

static void lost_while_waiting(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *held = conf_stream(device), *other = conf_stream(device);
    hal_buffer *x = conf_buffer(device, 64);
    hal_event *gate = conf_gate(device), *event = conf_event(device);
    hal_cmdlist *list = conf_list(device);
    OK(hal_cmd_fill(list, hal_whole(x), "x", 1));
    OK(hal_cmdlist_finish(list));
    OK(hal_stream_wait_event(held, gate));
    OK(hal_cmd_fill(hal_stream_cmdlist(held), hal_whole(x), "x", 1));
    OK(hal_cmdlist_submit(list, held, NULL));
    OK(hal_event_record(event, held));
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, wait_long, held), 0);
    OK(hal_device_inject_fault(device, HAL_FAULT_LOST, 1));
    uint64_t start = conf_now();
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmd_fill(hal_stream_cmdlist(other), hal_whole(x), "x", 1));
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, HAL_ERROR_DEVICE_LOST);
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_event_wait(event, HAL_SECONDS(30)));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmdlist_submit(list, other, NULL));
    assert_true(conf_now() - start < HAL_SECONDS(2));
    hal_cmdlist_destroy(list);
    hal_event_destroy(event);
    hal_event_destroy(gate);
    hal_buffer_destroy(x);
    hal_stream_destroy(held);
    hal_stream_destroy(other);
    hal_device_destroy(device);
}

/* A list's submission is one, too: nothing of it runs, and the next one does. */
static void list_submission(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *stream = conf_stream(device);
    hal_buffer *x = conf_buffer(device, 64);
    hal_cmdlist *list = conf_list(device);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(x), &(uint32_t){1}, 4));
    OK(hal_cmd_fill(list, hal_whole(x), &(uint32_t){2}, 4));
    OK(hal_cmdlist_finish(list));
    OK(hal_device_inject_fault(device, HAL_FAULT_SUBMIT, 1));
    EXPECT(HAL_ERROR_BACKEND, hal_cmdlist_submit(list, stream, NULL));
    conf_expect_error("injected fault");
    conf_check_u32(stream, x, 0, 16, 1, 0);
    OK(hal_cmdlist_submit(list, stream, NULL));
    conf_check_u32(stream, x, 0, 16, 2, 0);
    OK(hal_device_inject_fault(device, HAL_FAULT_LOST, 1));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmdlist_submit(list, stream, NULL));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_device_status(device));
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(x);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

/* By environment, before the first call. */
static void by_environment(void **state)
{
    (void)state;
    hal_device *device;
    setenv("HAL_FAULT", "alloc:1", 1);
    device = conf_open(NULL);
    unsetenv("HAL_FAULT");
    hal_buffer *buffer;
    EXPECT(HAL_ERROR_OUT_OF_MEMORY, hal_buffer_create(device, HAL_BUFFER(.size = 64, .dedicated = true), &buffer));
    OK(hal_buffer_create(device, HAL_BUFFER(.size = 64, .dedicated = true), &buffer));
    hal_buffer_destroy(buffer);
    hal_device_destroy(device);
    const char *log = getenv("HAL_LOG");
    char *old = log ? strdup(log) : NULL;
    setenv("HAL_LOG", "loud", 1);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, conf_try_open(NULL, &device));
    conf_expect_error("HAL_LOG: no such level 'loud'");
    if (old)
        setenv("HAL_LOG", old, 1);
    else
        unsetenv("HAL_LOG");
    free(old);
    setenv("HAL_FAULT", "nonsense:1", 1);
    hal_status status = conf_try_open(NULL, &device);
    unsetenv("HAL_FAULT");
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, status);
    assert_null(device);
}

int conf_test_faults(void)
{
    const struct CMUnitTest tests[] = {
        CASE(allocations),        CASE(submissions),    CASE(compilations),    CASE(lost),
        CASE(lost_while_waiting), CASE(by_environment), CASE(list_submission),
    };
    return RUN("faults", tests);
}
