/* What an attack on the library found once: hostile arguments, calls in unlucky orders, full queues. One case a
 * promise.
 */
#include "conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* What hal_cmd_scalar says of an offset into the args of a fresh list's only dispatch. */
static hal_status scalar_at(const char *name, const void *args, uint32_t args_size, uint32_t offset)
{
    hal_cmdlist *list = conf_list(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    OK(hal_cmd_dispatch(list, conf_shared(name), HAL_GRID1(1), HAL_SPANS(hal_whole(y)), args, args_size));
    hal_status status = hal_cmd_scalar(list, 0, offset);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(y);
    return status;
}

/* An offset near 2^32 must not wrap, and the group base at the end of a splittable kernel's args is libhal's. */
static void scalar_offsets_stay_inside(void **state)
{
    (void)state;
    const conf_fill fill = {64, 1};
    const uint32_t outside[] = {8, 12, 2, UINT32_MAX, UINT32_MAX - 3, UINT32_MAX - 7, 0x80000000u};
    OK(scalar_at("fill_index", &fill, sizeof fill, 0));
    OK(scalar_at("fill_index", &fill, sizeof fill, 4));
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        EXPECT(HAL_ERROR_OUT_OF_RANGE, scalar_at("fill_index", &fill, sizeof fill, outside[i]));
    const conf_mark mark = {1, 1, 1, {0}};
    OK(scalar_at("group_mark", &mark, sizeof mark, offsetof(conf_mark, gz)));
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(HAL_ERROR_OUT_OF_RANGE,
               scalar_at("group_mark", &mark, sizeof mark, (uint32_t)offsetof(conf_mark, base) + 4 * i));
}

/* A gate that is opened and closed again lets go what waited before it was opened, also behind another gate. */
static void gate_signal_then_reset(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_event *first = conf_gate(conf_device), *second = conf_gate(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    OK(hal_stream_wait_event(stream, first));
    OK(hal_stream_wait_event(stream, second));
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 1024, 5));
    OK(hal_event_signal(second));
    OK(hal_event_reset(second));
    OK(hal_stream_flush(stream));
    EXPECT(HAL_TIMEOUT, hal_stream_wait(stream, HAL_MILLISECONDS(2))); /* the first one is closed */
    OK(hal_event_signal(first));
    OK(hal_event_reset(first));
    OK(hal_stream_wait(stream, HAL_SECONDS(5)));
    conf_check_u32(stream, y, 0, 1024, 5, 1);
    /* Who comes after the reset waits for the next signal. */
    OK(hal_stream_wait_event(stream, second));
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), 1024, 6));
    EXPECT(HAL_TIMEOUT, hal_stream_wait(stream, HAL_MILLISECONDS(2)));
    hal_event_destroy(second); /* a destroyed gate opens */
    conf_check_u32(stream, y, 0, 1024, 6, 1);
    hal_event_destroy(first);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

typedef struct gate_waiter {
    hal_event *gate;
    atomic_bool done;
    hal_status status;
} gate_waiter;

static void *wait_for_gate(void *argument)
{
    gate_waiter *waiter = argument;
    waiter->status = hal_event_wait(waiter->gate, HAL_SECONDS(2));
    atomic_store(&waiter->done, true);
    return NULL;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

/* A thread that waits for a gate sees a signal, however soon the reset follows. */
static void host_sees_brief_signals(void **state)
{
    (void)state;
    gate_waiter waiter = {.gate = conf_gate(conf_device)};
    uint32_t missed = 0;
    for (int turn = 0; turn < 10; turn++) {
        pthread_t thread;
        atomic_store(&waiter.done, false);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_gate, &waiter), 0);
        /* Again, should the thread not have been waiting yet. */
        for (uint32_t tries = 0; !atomic_load(&waiter.done); tries++) {
            missed += tries > 0;
            pause_ms(20);
            OK(hal_event_signal(waiter.gate));
            OK(hal_event_reset(waiter.gate));
            for (int i = 0; i < 100 && !atomic_load(&waiter.done); i++)
                pause_ms(1);
        }
        pthread_join(thread, NULL);
        EXPECT(HAL_OK, waiter.status);
    }
    hal_event_destroy(waiter.gate);
    if (missed > 5)
        fail_msg("%u of %u signals were not seen", missed, missed + 10);
}

/* Marks with no commands between them, more than any queue has room for. */
static void many_marks_behind_a_gate(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_event *gate = conf_gate(conf_device), *event = conf_event(conf_device);
    for (int i = 0; i < 3000; i++) {
        OK(hal_stream_wait_event(stream, gate));
        OK(hal_event_record(event, stream));
    }
    OK(hal_event_signal(gate));
    OK(hal_stream_wait(stream, SOON));
    OK(hal_event_wait(event, SOON));
    hal_event_destroy(event);
    hal_event_destroy(gate);
    hal_stream_destroy(stream);
}

/* What a gate lets go into a full queue, with little patience, is done all the same, once and in order. */
static void held_work_survives_full_queue(void **state)
{
    (void)state;
    enum { COUNT = 1500 };
    hal_device *device;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .submit_timeout = HAL_MILLISECONDS(20)), &device));
    hal_stream *stream = conf_stream(device);
    hal_cmdlist *list = hal_stream_cmdlist(stream), *recorded = conf_list(device);
    hal_event *gate = conf_gate(device), *event = conf_event(device);
    hal_buffer *word = conf_buffer(device, 4), *y = conf_buffer(device, 256);
    hal_kernel *spin = conf_kernel(device, "spin"), *scale = conf_kernel(device, "scale_u32");
    OK(conf_do_scale(recorded, scale, hal_whole(y), 64, 1, 1));
    OK(hal_cmdlist_finish(recorded));
    OK(hal_cmd_fill(list, hal_whole(y), &(uint32_t){0}, 4));
    conf_busy(stream, spin, word, 1);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_stream_wait_event(stream, gate));
    conf_busy(stream, spin, word, 200);
    for (int i = 0; i < COUNT; i++) {
        if (i % 3 == 2)
            OK(hal_cmdlist_submit(recorded, stream, NULL));
        else
            OK(conf_do_scale(list, scale, hal_whole(y), 64, 1, 1));
        OK(hal_event_record(event, stream));
    }
    OK(hal_event_signal(gate));
    OK(hal_stream_wait(stream, SOON));
    OK(hal_event_wait(event, SOON));
    conf_check_u32(stream, y, 0, 64, COUNT, 0);
    hal_cmdlist_destroy(recorded);
    hal_kernel_destroy(spin);
    hal_kernel_destroy(scale);
    hal_buffer_destroy(word);
    hal_buffer_destroy(y);
    hal_event_destroy(event);
    hal_event_destroy(gate);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

/* The buffers of a recorded list's own are looked at when it is submitted. */
static void mapped_buffer_in_a_list(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = conf_list(conf_device);
    hal_buffer *used, *other;
    uint32_t word = 5;
    void *pointer, *elsewhere;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 4096, .memory = HAL_MEMORY_HOST, .label = "used"), &used));
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 4096, .memory = HAL_MEMORY_HOST), &other));
    OK(hal_cmd_fill(list, hal_whole(used), &word, 4));
    OK(hal_cmdlist_finish(list));
    OK(hal_buffer_map(other, 0, HAL_REST, HAL_READ_WRITE, &elsewhere));
    OK(hal_cmdlist_submit(list, stream, NULL)); /* only another one is mapped */
    OK(hal_stream_wait(stream, SOON));
    OK(hal_buffer_map(used, 0, HAL_REST, HAL_READ_WRITE, &pointer));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_submit(list, stream, NULL));
    conf_expect_error("used");
    OK(hal_buffer_unmap(other));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmdlist_submit(list, stream, NULL));
    OK(hal_buffer_unmap(used));
    OK(hal_cmdlist_submit(list, stream, NULL));
    conf_check_u32(stream, used, 0, 1024, 5, 0);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(used);
    hal_buffer_destroy(other);
    hal_stream_destroy(stream);
}

/* The second destroy of a device that its objects keep alive takes nothing away from them. */
static void device_destroyed_twice(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *stream = conf_stream(device);
    hal_buffer *buffer = conf_buffer(device, 64);
    hal_device_destroy(device);
    hal_device_destroy(device);
    hal_device_destroy(device);
    assert_int_equal(hal_buffer_size(buffer), 64);
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
}

static void fill_of_unaligned_imports(void **state)
{
    (void)state;
    if (!hal_device_get_info(conf_device)->import_host_memory)
        SKIP("the device cannot import host memory");
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = aligned_alloc(page, page);
    const uint8_t pattern[4] = {1, 2, 3, 4};
    hal_buffer *buffer;
    assert_non_null(memory);
    memset(memory, 0xee, page);
    OK(hal_buffer_import(conf_device, memory + 1, 1001, NULL, NULL, "odd", &buffer));
    EXPECT(HAL_ERROR_ALIGNMENT, hal_cmd_fill(list, hal_range(buffer, 0, 16), pattern, 4));
    EXPECT(HAL_ERROR_ALIGNMENT, hal_cmd_fill(list, hal_range(buffer, 2, 16), pattern, 2));
    OK(hal_cmd_fill(list, hal_range(buffer, 3, 16), pattern, 4)); /* what counts is the address */
    OK(hal_cmd_fill(list, hal_range(buffer, 1000, 1), pattern, 1));
    OK(hal_stream_wait(stream, SOON));
    for (uint64_t i = 0; i < page; i++)
        assert_int_equal(memory[i], i >= 4 && i < 20 ? pattern[i % 4] : i == 1001 ? 1 : 0xee);
    hal_buffer_destroy(buffer);
    OK(hal_stream_wait(stream, SOON));
    OK(hal_device_memory_stats(conf_device, &(hal_memory_stats){0})); /* collects: the memory is ours again */
    free(memory);
    hal_stream_destroy(stream);
}

static void import_out_of_address_space(void **state)
{
    (void)state;
    static const struct {
        uintptr_t start;
        uint64_t size;
    } ranges[] = {{UINTPTR_MAX - 0x7ff, 0x1000}, {4096, UINT64_MAX}, {4096, UINT64_MAX - 4096}, {UINTPTR_MAX, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        hal_buffer *buffer = (hal_buffer *)&buffer;
        EXPECT(HAL_ERROR_OUT_OF_RANGE,
               hal_buffer_import(conf_device, (void *)ranges[i].start, ranges[i].size, NULL, NULL, NULL, &buffer));
        assert_null(buffer);
    }
}

/* A slot's span of no bytes at the end of what is bound: the range of that size, and the rest of it. */
static void empty_slot_spans(void **state)
{
    (void)state;
    static const char *const kernels[2] = {"copy_u32", "copy_u32_off"};
    const conf_count none = {0};
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *bound, *out = conf_buffer(conf_device, 4096);
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 1024, .dedicated = true), &bound));
    const hal_span spans[2] = {hal_slot_range(0, 1024, 0), hal_slot(0, 1024)};
    for (int i = 0; i < 4; i++) {
        hal_cmdlist *list = conf_list(conf_device);
        hal_kernel *copy = conf_shared(kernels[i % 2]);
        OK(hal_cmd_dispatch(list, copy, HAL_GRID1(1), HAL_SPANS(spans[i / 2], hal_whole(out)), &none, sizeof none));
        OK(hal_cmdlist_finish(list));
        OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(bound))));
        OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_range(bound, 0, 1024))));
        OK(hal_stream_wait(stream, SOON));
        EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_range(bound, 0, 1020))));
        OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), copy, HAL_GRID1(1),
                            HAL_SPANS(hal_at(bound, 1024), hal_whole(out)), &none, sizeof none));
        OK(hal_stream_wait(stream, SOON));
        hal_cmdlist_destroy(list);
    }
    hal_buffer_destroy(bound);
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
}

static void map_of_nothing(void **state)
{
    (void)state;
    hal_buffer *buffer, *empty;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 4096, .memory = HAL_MEMORY_HOST), &buffer));
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 0, .memory = HAL_MEMORY_HOST), &empty));
    const hal_span spans[4] = {hal_range(buffer, 4096, 0), hal_at(buffer, 4096), hal_range(buffer, 7, 0),
                               hal_whole(empty)};
    for (int i = 0; i < 4; i++) {
        void *pointer = NULL;
        OK(hal_buffer_map(spans[i].buffer, spans[i].offset, spans[i].size, HAL_READ, &pointer));
        assert_non_null(pointer);
        OK(hal_buffer_unmap(spans[i].buffer));
    }
    hal_buffer_destroy(buffer);
    hal_buffer_destroy(empty);
}

/* y is 0; a list that is refused leaves it so. Returns what the submission gave. */
static hal_status submit_writer(hal_stream *stream, hal_event *event, bool wait, hal_buffer *y)
{
    hal_cmdlist *list = conf_list(conf_device);
    OK(hal_cmd_fill(list, hal_whole(y), &(uint32_t){7}, 4));
    OK(wait ? hal_cmd_event_wait(list, event) : hal_cmd_event_record(list, event));
    OK(hal_cmd_fill(list, hal_whole(y), &(uint32_t){8}, 4));
    OK(hal_cmdlist_finish(list));
    hal_status status = hal_cmdlist_submit(list, stream, NULL);
    hal_cmdlist_destroy(list);
    return status;
}

/* Waits for a closed gate, as many as a stream takes or `most`. */
static uint32_t hold_back(hal_stream *stream, hal_event *gate, uint32_t most)
{
    for (uint32_t count = 0; count < most; count++) {
        hal_status status = hal_stream_wait_event(stream, gate);
        if (status == HAL_ERROR_LIMIT)
            return count;
        EXPECT(HAL_OK, status);
    }
    return most;
}

/* What would stop a list of several parts half-way is told before the first of them is submitted. */
static void submit_all_or_nothing(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device), *full = conf_stream(conf_device);
    hal_event *never = conf_event(conf_device), *gate = conf_gate(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 256);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){0}, 4));
    OK(hal_stream_wait(stream, SOON));
    EXPECT(HAL_ERROR_INVALID_STATE, submit_writer(stream, never, true, y));
    conf_check_u32(stream, y, 0, 64, 0, 0);

    /* All but two places for what a stream holds back. */
    uint32_t most = hold_back(full, gate, 1000000);
    assert_in_range(most, 1000, 999999);
    OK(hal_event_signal(gate));
    OK(hal_stream_wait(full, SOON));
    OK(hal_event_reset(gate));
    assert_int_equal(hold_back(full, gate, most - 2), most - 2);
    EXPECT(HAL_ERROR_LIMIT, submit_writer(full, never, false, y));
    OK(hal_event_signal(gate));
    OK(hal_device_wait(conf_device, SOON));
    conf_check_u32(full, y, 0, 64, 0, 0);

    OK(submit_writer(full, never, false, y));
    conf_check_u32(full, y, 0, 64, 8, 0);
    hal_event_destroy(never);
    hal_event_destroy(gate);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_stream_destroy(full);
}

static bool is_zero(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)bytes)[i] != 0)
            return false;
    return true;
}

static hal_status attach_nothing(hal_device *device, void **state)
{
    (void)device, (void)state;
    return HAL_ERROR_BACKEND;
}

static void detach_nothing(void *state)
{
    (void)state;
}

static void out_parameters_cleared(void **state)
{
    (void)state;
    hal_buffer *buffer;
    void *pointer = &pointer;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 64, .memory = HAL_MEMORY_HOST), &buffer));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_map(NULL, 0, 1, HAL_READ, &pointer));
    assert_null(pointer);
    pointer = &pointer;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_map(buffer, 0, 1, (hal_access)0, &pointer));
    assert_null(pointer);
    pointer = &pointer;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_device_attach(NULL, &is_zero, attach_nothing, detach_nothing, &pointer));
    assert_null(pointer);
    pointer = &pointer;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_device_attach(conf_device, NULL, NULL, NULL, &pointer));
    assert_null(pointer);
    uint64_t ns = 7;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_event_elapsed(NULL, NULL, &ns));
    assert_int_equal(ns, 0);
#define CLEARED(type, call)                                                                                            \
    do {                                                                                                               \
        type out;                                                                                                      \
        memset(&out, 0xa5, sizeof out);                                                                                \
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, call);                                                                      \
        assert_true(is_zero(&out, sizeof out));                                                                        \
    } while (0)
    char text[8] = "before";
    CLEARED(hal_memory_stats, hal_device_memory_stats(NULL, &out));
    CLEARED(hal_cmdlist_stats, hal_cmdlist_get_stats(NULL, &out));
    CLEARED(hal_stall, hal_device_stall_report(NULL, &out, text, sizeof text));
#undef CLEARED
    assert_int_equal(text[0], 0);
    hal_buffer_destroy(buffer);
}

static void limits_above_the_real_ones(void **state)
{
    (void)state;
    static const char *const refused[] = {"first_point=18446744073709551614", "first_point=9223372036854775808",
                                          "group_count=18446744073709551615"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        hal_device *device;
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, conf_try_open(refused[i], &device));
        assert_null(device);
        conf_expect_error("above");
    }
}

/* A constant is -D NAME=VALUE somewhere, so it has a name. */
static void constants_without_a_name(void **state)
{
    (void)state;
    static const char *const names[2] = {NULL, ""};
    hal_module *module;
    OK(conf_module(conf_device, "fill_const", &module));
    for (int i = 0; i < 2; i++) {
        const hal_constant values[2] = {{"FIRST", 0, 1}, {names[i], 1, 2}};
        hal_kernel_desc desc = conf_kernel_desc("fill_const");
        desc.constants = values;
        desc.constant_count = 2;
        hal_kernel *kernel;
        EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_const", &desc, &kernel));
        assert_null(kernel);
        conf_expect_error("constants[1]");
    }
    hal_module_destroy(module);
}

/* Gates of a lost device say so too, and what they held back is dropped. */
static void gates_of_a_lost_device(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    hal_stream *held = conf_stream(device), *other = conf_stream(device);
    hal_event *gate = conf_gate(device);
    hal_buffer *y = conf_buffer(device, 64);
    OK(hal_stream_wait_event(held, gate));
    OK(hal_cmd_fill(hal_stream_cmdlist(held), hal_whole(y), "x", 1));
    OK(hal_device_inject_fault(device, HAL_FAULT_LOST, 1));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmd_fill(hal_stream_cmdlist(other), hal_whole(y), "x", 1));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_event_signal(gate));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_event_reset(gate));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_stream_wait(held, HAL_FOREVER));
    hal_buffer_destroy(y);
    hal_event_destroy(gate);
    hal_stream_destroy(held);
    hal_stream_destroy(other);
    hal_device_destroy(device);
}

/* A trace that does not fit on the disk can still be written elsewhere. */
static void trace_survives_full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        SKIP("there is no /dev/full");
    hal_device *device = conf_open(NULL);
    hal_stream *stream = conf_stream(device);
    hal_buffer *y = conf_buffer(device, 64);
    char path[64] = "/tmp/hal-trace-XXXXXX", text[4096] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    OK(hal_trace_start(device));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), "x", 1));
    EXPECT(HAL_ERROR_IO, hal_trace_write(device, "/dev/full", SOON));
    hal_status again = hal_trace_write(device, path, SOON);
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    unlink(path);
    EXPECT(HAL_OK, again);
    assert_true(got > 0);
    assert_non_null(strstr(text, "fill"));
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

static void write_header(const char *path, uint32_t value)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#define VALUE %u\n", value);
    assert_int_equal(fclose(file), 0);
}

/* What a kernel gives that includes a file, compiled with `cache` as the cache's folder. */
static uint32_t run_including(const char *options, const char *cache)
{
    hal_device *device;
    hal_module *module;
    hal_kernel *kernel;
    uint32_t got = 0;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .cache_dir = cache), &device));
    OK(hal_module_create(device,
                         HAL_MODULE(.opencl_c = "#include \"value.h\"\nkernel void k(global uint *y) { y[0] = VALUE; }",
                                    .options = options),
                         &module));
    OK(hal_kernel_create(module, "k", HAL_KERNEL(.binding_count = 1, .bindings = {HAL_WRITE}), &kernel));
    hal_stream *stream = conf_stream(device);
    hal_buffer *y = conf_buffer(device, 4);
    OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), kernel, HAL_GRID1(1), HAL_SPANS(hal_whole(y)), NULL, 0));
    conf_get(stream, y, 0, &got, 4);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_kernel_destroy(kernel);
    hal_module_destroy(module);
    hal_device_destroy(device);
    return got;
}

/* An included file that has changed is compiled anew. */
static void included_files_change(void **state)
{
    (void)state;
    if (strcmp(conf_backend, "opencl") != 0)
        SKIP("only OpenCL C modules are given with include folders here");
    char folder[] = "/tmp/hal-include-XXXXXX", header[64], cache[64], options[64], cleanup[128];
    uint32_t got[3];
    assert_non_null(mkdtemp(folder));
    snprintf(header, sizeof header, "%s/value.h", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(options, sizeof options, "-I%s", folder);
    for (uint32_t i = 0; i < 3; i++) {
        write_header(header, 10 + i);
        got[i] = run_including(options, cache);
    }
    snprintf(cleanup, sizeof cleanup, "rm -rf '%s'", folder);
    assert_int_equal(system(cleanup), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(got[i], 10 + i);
}

int conf_test_hardening(void)
{
    const struct CMUnitTest tests[] = {
        CASE(scalar_offsets_stay_inside),
        CASE(gate_signal_then_reset),
        CASE(host_sees_brief_signals),
        CASE(many_marks_behind_a_gate),
        CASE(held_work_survives_full_queue),
        CASE(mapped_buffer_in_a_list),
        CASE(device_destroyed_twice),
        CASE(fill_of_unaligned_imports),
        CASE(import_out_of_address_space),
        CASE(empty_slot_spans),
        CASE(map_of_nothing),
        CASE(submit_all_or_nothing),
        CASE(out_parameters_cleared),
        CASE(limits_above_the_real_ones),
        CASE(constants_without_a_name),
        CASE(gates_of_a_lost_device),
        CASE(trace_survives_full_disk),
        CASE(included_files_change),
    };
    return RUN("hardening", tests);
}
