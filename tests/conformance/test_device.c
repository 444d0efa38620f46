/* Devices: what they say of themselves, lowered limits, descriptors, lifetime, layers above, fork. */
#include "conf.h"

#include <locale.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static bool power_of_two(uint64_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

static void info_is_sane(void **state)
{
    (void)state;
    const hal_device_info *info = hal_device_get_info(conf_device);
    assert_true(info->name[0] != '\0' && info->driver[0] != '\0');
    assert_true(info->compute_units >= 1 && info->compute_units < 100000);
    assert_true(info->subgroup_size >= 1 && info->subgroup_size <= 128);
    assert_true(info->subgroup_size_min <= info->subgroup_size && info->subgroup_size <= info->subgroup_size_max);
    assert_true(info->max_group_size >= 64 && info->max_group_dim[0] >= 64);
    for (int i = 0; i < 3; i++)
        assert_true(info->max_group_count[i] >= 65535 && info->max_group_dim[i] >= 1);
    assert_true(info->max_shared_memory >= 16384);
    assert_true(info->max_args >= 64 && info->max_args <= HAL_MAX_ARGS);
    assert_true(power_of_two(info->span_alignment) && info->span_alignment <= 256);
    assert_true(info->memory_size >= 64u << 20 && info->max_buffer_size >= 64u << 20);
    assert_true(!info->timestamps || info->timestamp_period_ns > 0);
    assert_true(info->subgroups || info->subgroup_size >= 1);
    assert_true(info->api_major >= 1);
    OK(hal_device_status(conf_device));
}

static void versions(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", HAL_VERSION_MAJOR, HAL_VERSION_MINOR, HAL_VERSION_PATCH);
    assert_string_equal(hal_version(), text);
    assert_string_equal(hal_status_name(HAL_OK), "HAL_OK");
    assert_string_equal(hal_status_name(HAL_TIMEOUT), "HAL_TIMEOUT");
    for (int i = HAL_ERROR_BACKEND; i <= HAL_ERROR_INVALID_ARGUMENT; i++)
        assert_memory_equal(hal_status_name((hal_status)i), "HAL_ERROR_", 10);
    assert_non_null(hal_status_name((hal_status)12345));
}

static void lowered_limits(void **state)
{
    (void)state;
    hal_device *device =
        conf_open("group_size=64,shared=16384,fp16=0,bf16=0,fp8=0,subgroups=0,matrix=0,group_count=100,"
                  "buffer_size=1048576,memory=67108864,loop_iterations=1000,bounded_span=0,units=1");
    const hal_device_info *info = hal_device_get_info(device);
    assert_int_equal(info->max_group_size, 64);
    assert_int_equal(info->max_shared_memory, 16384);
    assert_false(info->fp16 || info->bf16 || info->fp8 || info->subgroups || info->matrix_units || info->async_matrix);
    assert_int_equal(info->compute_units, 1);
    assert_int_equal(info->max_group_count[1], 100);
    assert_int_equal(info->max_buffer_size, 1048576);
    assert_int_equal(info->memory_size, 67108864);
    assert_int_equal(info->max_loop_iterations, 1000);
    assert_int_equal(info->bounded_span, 0);
    hal_buffer *buffer;
    EXPECT(HAL_ERROR_OUT_OF_MEMORY, hal_buffer_create(device, HAL_BUFFER(.size = 1048577), &buffer));
    hal_device_destroy(device);
    const char *const wrong[] = {"group_size=1000000000",
                                 "no_such=1",
                                 "fp16=1",
                                 "group_size",
                                 "group_size=abc",
                                 "shared=-1",
                                 "memory=1152921504606846976",
                                 "group_count=0",
                                 "units=0",
                                 "units=4294967295",
                                 "async_matrix=1",
                                 "loop_iterations=0",
                                 "loop_iterations=4294967296",
                                 "pooled=-1",
                                 "pooled= 1",
                                 "list_commands=99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, conf_try_open(wrong[i], &device));
        assert_null(device);
        conf_expect_error("HAL_LIMITS");
    }
}

/* A kernel that does not fit lowered limits is refused when it is made. */
static void limits_bind(void **state)
{
    (void)state;
    hal_device *device = conf_open("group_size=32");
    hal_kernel *kernel;
    EXPECT(HAL_ERROR_LIMIT, conf_try_kernel(device, "fill_index", &kernel));
    assert_null(kernel);
    OK(conf_try_kernel(device, "spin", &kernel));
    hal_kernel_destroy(kernel);
    hal_device_destroy(device);
}

/* Descriptors of callers that know less, or more. */
static void descriptor_sizes(void **state)
{
    (void)state;
    struct {
        hal_buffer_desc desc;
        uint8_t more[16];
    } newer = {.desc = {.struct_size = sizeof newer, .size = 64}};
    hal_buffer *buffer;
    OK(hal_buffer_create(conf_device, &newer.desc, &buffer));
    hal_buffer_destroy(buffer);
    newer.more[15] = 1;
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_buffer_create(conf_device, &newer.desc, &buffer));
    assert_null(buffer);
    hal_buffer_desc older = {.struct_size = offsetof(hal_buffer_desc, memory), .size = 100, .memory = (hal_memory)77};
    OK(hal_buffer_create(conf_device, &older, &buffer));
    assert_int_equal(hal_buffer_size(buffer), 100);
    hal_buffer_destroy(buffer);
    older.struct_size = 0;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_create(conf_device, &older, &buffer));
    conf_expect_error("struct_size");
}

static int created, destroyed;
static const int layer_key, other_key;

static hal_status make_layer(hal_device *device, void **state)
{
    (void)device;
    *state = &created;
    __atomic_add_fetch(&created, 1, __ATOMIC_SEQ_CST);
    return HAL_OK;
}

static hal_status fail_layer(hal_device *device, void **state)
{
    (void)device, (void)state;
    return HAL_ERROR_OUT_OF_MEMORY;
}

static void free_layer(void *state)
{
    (void)state;
    destroyed++;
}

static void *attach(void *device)
{
    void *state = NULL;
    return hal_device_attach(device, &layer_key, make_layer, free_layer, &state) == HAL_OK ? state : NULL;
}

static void layers_attach(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    pthread_t threads[8];
    void *got;
    created = destroyed = 0;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, attach, device), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &got);
        assert_ptr_equal(got, &created);
    }
    assert_int_equal(created, 1);
    EXPECT(HAL_ERROR_OUT_OF_MEMORY, hal_device_attach(device, &other_key, fail_layer, free_layer, &got));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_device_attach(device, NULL, make_layer, free_layer, &got));
    hal_stream *stream = conf_stream(device);
    hal_device_destroy(device);
    assert_int_equal(destroyed, 1);
    EXPECT(HAL_ERROR_INVALID_STATE, hal_device_attach(device, &layer_key, make_layer, free_layer, &got));
    hal_stream_destroy(stream);
}

/* Objects outlive hal_device_destroy and go on working. */
static void children_outlive(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *stream = conf_stream(device);
    hal_buffer *buffer = conf_buffer(device, 4096);
    hal_kernel *fill = conf_kernel(device, "fill_index");
    hal_event *event = conf_event(device);
    hal_device_destroy(device);
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(buffer), 1024, 5));
    OK(hal_event_record(event, stream));
    OK(hal_event_wait(event, SOON));
    conf_check_u32(stream, buffer, 0, 1024, 5, 1);
    hal_kernel_destroy(fill);
    hal_event_destroy(event);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
}

static void locale_stays(void **state)
{
    (void)state;
    char before[256];
    snprintf(before, sizeof before, "%s", setlocale(LC_ALL, NULL));
    hal_device *device = conf_open(NULL);
    hal_kernel_destroy(conf_kernel(device, "fill_index"));
    hal_device_destroy(device);
    assert_string_equal(setlocale(LC_ALL, NULL), before);
}

/* Drivers do not survive fork: the child is told so, and the parent notices nothing. */
static void fork_is_refused(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *buffer = conf_buffer(conf_device, 4096);
    hal_kernel *fill = conf_shared("fill_index");
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(buffer), 1024, 1));
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        hal_buffer *mine;
        hal_event *event;
        int wrong = hal_device_status(conf_device) != HAL_ERROR_INVALID_STATE;
        wrong += hal_buffer_create(conf_device, HAL_BUFFER(.size = 64), &mine) != HAL_ERROR_INVALID_STATE;
        wrong += strstr(hal_last_error(), "fork") == NULL;
        wrong += hal_event_create(conf_device, NULL, &event) != HAL_ERROR_INVALID_STATE;
        wrong += hal_stream_wait(stream, 0) != HAL_ERROR_INVALID_STATE;
        wrong += hal_device_wait(conf_device, 0) != HAL_ERROR_INVALID_STATE;
        wrong += conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(buffer), 8, 0) != HAL_ERROR_INVALID_STATE;
        hal_buffer_destroy(buffer);
        hal_stream_destroy(stream);
        _exit(wrong);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    conf_check_u32(stream, buffer, 0, 1024, 1, 1);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
}

/* Two devices, of this backend and of another one, in turns; an object of one is refused by the other. */
static void two_devices(void **state)
{
    (void)state;
    const char *const others[3] = {"opencl", "vulkan", "cuda"};
    int pairs = 0;
    for (int o = 0; o < 3; o++) {
        hal_device *devices[2] = {NULL, NULL};
        hal_stream *streams[2];
        hal_buffer *buffers[2];
        hal_kernel *fills[2];
        if (hal_device_open(HAL_DEVICE(.select = others[o]), &devices[1]) != HAL_OK)
            continue;
        devices[0] = conf_open(NULL);
        for (int i = 0; i < 2; i++) {
            streams[i] = conf_stream(devices[i]);
            buffers[i] = conf_buffer(devices[i], 4096);
            fills[i] = conf_kernel(devices[i], "fill_index");
        }
        for (uint32_t turn = 0; turn < 50; turn++) {
            for (uint32_t i = 0; i < 2; i++)
                OK(conf_do_fill(hal_stream_cmdlist(streams[i]), fills[i], hal_whole(buffers[i]), 1024, turn * 2 + i));
            for (uint32_t i = 0; i < 2; i++)
                conf_check_u32(streams[i], buffers[i], 0, 1024, turn * 2 + i, 1);
        }
        hal_cmdlist *list = hal_stream_cmdlist(streams[0]);
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, conf_do_fill(list, fills[0], hal_whole(buffers[1]), 1024, 0));
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, conf_do_fill(list, fills[1], hal_whole(buffers[0]), 1024, 0));
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_cmd_copy(list, hal_whole(buffers[0]), hal_whole(buffers[1])));
        hal_event *event = conf_event(devices[1]);
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_event_record(event, streams[0]));
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_stream_wait_event(streams[0], event));
        hal_event_destroy(event);
        for (int i = 0; i < 2; i++) {
            hal_kernel_destroy(fills[i]);
            hal_buffer_destroy(buffers[i]);
            hal_stream_destroy(streams[i]);
            hal_device_destroy(devices[i]);
        }
        pairs++;
    }
    assert_true(pairs > 0);
}

static char logged[4096];
static void keep_log(void *user, hal_log_level level, const char *message)
{
    assert_ptr_equal(user, logged);
    assert_true(level >= HAL_LOG_ERROR && level <= HAL_LOG_INFO);
    assert_null(strchr(message, '\n'));
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%d %s\n", level, message);
}

static void log_callback(void **state)
{
    (void)state;
    hal_device *device;
    logged[0] = '\0';
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .log = keep_log, .log_user = logged), &device));
    assert_non_null(strstr(logged, conf_backend));
    OK(hal_device_inject_fault(device, HAL_FAULT_LOST, 1));
    hal_stream *stream = conf_stream(device);
    hal_buffer *buffer = conf_buffer(device, 64);
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), "x", 1));
    assert_non_null(strstr(logged, "lost"));
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

int conf_test_device(void)
{
    const struct CMUnitTest tests[] = {
        CASE(info_is_sane),    CASE(versions),         CASE(lowered_limits),   CASE(limits_bind),
        CASE(layers_attach),   CASE(children_outlive), CASE(descriptor_sizes), CASE(locale_stays),
        CASE(fork_is_refused), CASE(two_devices),      CASE(log_callback),
    };
    return RUN("device", tests);
}
