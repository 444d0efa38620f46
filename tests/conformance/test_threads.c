/* Several threads on one device: the program that ThreadSanitizer runs. cmocka's assertions end the case by a jump,
 * which only the main thread may do, so the threads count what went wrong. */
#include "conf.h"

#include <hal/ops.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 8, N = 256 };

static atomic_int wrong;
static atomic_bool stop;
static hal_event *opened[2];

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        hal_status try_status = (call);                                                                                \
        if (try_status != HAL_OK && atomic_fetch_add(&wrong, 1) == 0)                                                  \
            print_error("%s: %s: %s\n", #call, hal_status_name(try_status), hal_last_error());                         \
    } while (0)

static void run_threads(uint32_t count, void *(*work)(void *))
{
    pthread_t threads[THREADS];
    atomic_store(&wrong, 0);
    for (uintptr_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

static void check_u32(hal_stream *stream, hal_buffer *buffer, uint32_t base, uint32_t step)
{
    uint32_t got[N];
    TRY(hal_cmd_download(hal_stream_cmdlist(stream), got, hal_range(buffer, 0, sizeof got)));
    TRY(hal_stream_wait(stream, SOON));
    for (uint32_t i = 0; i < N; i++)
        if (got[i] != base + i * step && atomic_fetch_add(&wrong, 1) == 0)
            print_error("element %u is %u, not %u\n", i, got[i], base + i * step);
}

static void *wait_for_device(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop)) {
        TRY(hal_device_wait(conf_device, SOON));
        hal_stall stall;
        hal_memory_stats stats;
        char text[1024];
        TRY(hal_device_stall_report(conf_device, &stall, text, sizeof text));
        TRY(hal_device_memory_stats(conf_device, &stats));
    }
    return NULL;
}

static void *own_stream(void *index)
{
    uint32_t self = (uint32_t)(uintptr_t)index;
    hal_stream *stream;
    hal_buffer *y;
    hal_cmdlist *list;
    TRY(hal_stream_create(conf_device, NULL, &stream));
    TRY(hal_buffer_create(conf_device, HAL_BUFFER(.size = N * 4), &y));
    TRY(hal_cmdlist_create(conf_device, NULL, &list));
    TRY(conf_do_scale(list, conf_shared("scale_u32"), hal_slot(0, 0), N, 1, 1));
    TRY(hal_cmdlist_finish(list));
    TRY(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), N, self * 1000));
    for (uint32_t i = 0; i < 200; i++) {
        if (i % 2 == 0)
            TRY(hal_cmdlist_submit(list, stream, HAL_BINDINGS(hal_whole(y))));
        else
            TRY(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(y), N, 1, 1));
        if (i % 50 == 0)
            TRY(hal_stream_wait(stream, SOON));
    }
    check_u32(stream, y, self * 1000 + 200, 1);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    return NULL;
}

/* 8 threads of 200 submissions, and one that waits for the device all the time. */
static void own_streams(void **state)
{
    (void)state;
    pthread_t waiter;
    conf_shared("scale_u32");
    conf_shared("fill_index");
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_device, NULL), 0);
    run_threads(THREADS, own_stream);
    atomic_store(&stop, true);
    pthread_join(waiter, NULL);
    assert_int_equal(atomic_load(&wrong), 0);
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static hal_stream *common_stream;
static hal_buffer *common_buffer;
static hal_cmdlist *common_list;

static void *in_turns(void *index)
{
    (void)index;
    for (uint32_t i = 0; i < 100; i++) {
        pthread_mutex_lock(&turn);
        TRY(conf_do_scale(hal_stream_cmdlist(common_stream), conf_shared("scale_u32"), hal_whole(common_buffer), N, 1,
                          1));
        TRY(hal_cmdlist_submit(common_list, common_stream, NULL));
        pthread_mutex_unlock(&turn);
        TRY(hal_stream_wait(common_stream, SOON)); /* waits need no turn */
    }
    return NULL;
}

/* One stream and one list, used by one thread at a time, and waited for by all at once. */
static void one_stream_in_turns(void **state)
{
    (void)state;
    common_stream = conf_stream(conf_device);
    common_buffer = conf_buffer(conf_device, N * 4);
    common_list = conf_list(conf_device);
    OK(conf_do_scale(common_list, conf_shared("scale_u32"), hal_whole(common_buffer), N, 1, 1));
    OK(hal_cmdlist_finish(common_list));
    OK(hal_cmd_fill(hal_stream_cmdlist(common_stream), hal_whole(common_buffer), &(uint32_t){0}, 4));
    run_threads(THREADS, in_turns);
    conf_check_u32(common_stream, common_buffer, 0, N, THREADS * 200, 0);
    hal_cmdlist_destroy(common_list);
    hal_buffer_destroy(common_buffer);
    hal_stream_destroy(common_stream);
}

static hal_device *fresh;

static void *first_kernels(void *index)
{
    static const char *const names[4] = {"fill_index", "scale_u32", "copy_u32", "add_f32"};
    uint32_t self = (uint32_t)(uintptr_t)index;
    hal_kernel *kernels[4], *fill = NULL;
    hal_stream *stream;
    hal_buffer *y;
    for (uint32_t i = 0; i < 4; i++)
        TRY(conf_try_kernel(fresh, names[(i + self) % 4], &kernels[i]));
    for (uint32_t i = 0; i < 4; i++)
        fill = (i + self) % 4 == 0 ? kernels[i] : fill;
    TRY(hal_stream_create(fresh, NULL, &stream));
    TRY(hal_buffer_create(fresh, HAL_BUFFER(.size = N * 4), &y));
    TRY(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(y), N, self));
    check_u32(stream, y, self, 1);
    for (uint32_t i = 0; i < 4; i++)
        hal_kernel_destroy(kernels[i]);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    return NULL;
}

/* The first kernels of a fresh device with no cache, compiled by 8 threads at once. */
static void first_kernels_together(void **state)
{
    (void)state;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .cache_dir = ""), &fresh));
    run_threads(THREADS, first_kernels);
    hal_device_destroy(fresh);
}

/* D = A B with A = 2 everywhere and B = 3: every element is 6 k. */
static void *first_gemm(void *index)
{
    uint32_t self = (uint32_t)(uintptr_t)index;
    enum { M = 8 };
    float values[M * M], got[M * M];
    hal_stream *stream;
    hal_buffer *x[3];
    TRY(hal_stream_create(fresh, NULL, &stream));
    for (int i = 0; i < 3; i++) {
        TRY(hal_buffer_create(fresh, HAL_BUFFER(.size = sizeof values), &x[i]));
        for (int k = 0; k < M * M; k++)
            values[k] = (float)(2 + i);
        TRY(hal_cmd_upload(hal_stream_cmdlist(stream), hal_whole(x[i]), values, sizeof values));
    }
    TRY(hal_gemm(hal_stream_cmdlist(stream),
                 HAL_GEMM(.m = M, .n = M, .k = M, .a = hal_whole(x[0]), .b = hal_whole(x[1]), .d = hal_whole(x[2]),
                          .trans_a = (self & 1) != 0, .trans_b = (self & 2) != 0,
                          .act = self & 4 ? HAL_ACT_RELU : HAL_ACT_NONE)));
    TRY(hal_cmd_download(hal_stream_cmdlist(stream), got, hal_whole(x[2])));
    TRY(hal_stream_wait(stream, SOON));
    for (int k = 0; k < M * M; k++)
        if (got[k] != 48 && atomic_fetch_add(&wrong, 1) == 0)
            print_error("element %d is %g\n", k, (double)got[k]);
    for (int i = 0; i < 3; i++)
        hal_buffer_destroy(x[i]);
    hal_stream_destroy(stream);
    return NULL;
}

/* The first operator of a fresh device, called by 8 threads at once. */
static void first_operator_together(void **state)
{
    (void)state;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .cache_dir = ""), &fresh));
    hal_status status = hal_gemm_prepare(conf_device, HAL_GEMM(.m = 8, .n = 8, .k = 8));
    if (status == HAL_ERROR_UNAVAILABLE || strcmp(conf_backend, "cuda") == 0) {
        hal_device_destroy(fresh);
        SKIP("this device cannot run the built-in kernels");
    }
    run_threads(THREADS, first_gemm);
    hal_device_destroy(fresh);
}

static void *make_and_destroy(void *index)
{
    uint32_t self = (uint32_t)(uintptr_t)index;
    hal_stream *stream;
    TRY(hal_stream_create(conf_device, NULL, &stream));
    for (uint32_t i = 0; i < 60; i++) {
        hal_buffer *y;
        hal_event *event;
        hal_cmdlist *list;
        TRY(hal_buffer_create(conf_device, HAL_BUFFER(.size = N * 4 + i * 300, .memory = (hal_memory)(i % 3)), &y));
        TRY(hal_event_create(conf_device, NULL, &event));
        TRY(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(y), N, self + i));
        TRY(hal_event_record(event, stream));
        TRY(hal_cmdlist_create(conf_device, NULL, &list));
        TRY(conf_do_scale(list, conf_shared("scale_u32"), hal_whole(y), N, 2, 0));
        TRY(hal_cmdlist_finish(list));
        TRY(hal_cmdlist_submit(list, stream, NULL));
        if (i % 8 == 0)
            check_u32(stream, y, 2 * (self + i), 2);
        hal_cmdlist_destroy(list);
        hal_event_destroy(event);
        hal_buffer_destroy(y);
    }
    hal_stream_destroy(stream);
    return NULL;
}

static void objects_come_and_go(void **state)
{
    (void)state;
    run_threads(THREADS, make_and_destroy);
    OK(hal_device_wait(conf_device, SOON));
}

/* One thread opens gates, the others wait for what is behind them. */
static void *open_gates(void *index)
{
    if ((uintptr_t)index == 0) {
        for (int i = 0; i < 200; i++) {
            hal_stream *stream = common_stream;
            pthread_mutex_lock(&turn);
            TRY(hal_event_reset(opened[0]));
            TRY(hal_stream_wait_event(stream, opened[0]));
            TRY(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(common_buffer), N, 1, 1));
            TRY(hal_event_record(opened[1], stream));
            pthread_mutex_unlock(&turn);
            TRY(hal_event_signal(opened[0]));
        }
        atomic_store(&stop, true);
        return NULL;
    }
    while (!atomic_load(&stop)) {
        hal_status status = hal_event_wait(opened[1], HAL_MILLISECONDS(50));
        if (status != HAL_TIMEOUT)
            TRY(status);
        status = hal_event_wait(opened[0], HAL_MILLISECONDS(1));
        if (status != HAL_TIMEOUT)
            TRY(status);
    }
    return NULL;
}

static void gates_from_another_thread(void **state)
{
    (void)state;
    common_stream = conf_stream(conf_device);
    common_buffer = conf_buffer(conf_device, N * 4);
    opened[0] = conf_gate(conf_device);
    opened[1] = conf_event(conf_device);
    OK(hal_cmd_fill(hal_stream_cmdlist(common_stream), hal_whole(common_buffer), &(uint32_t){0}, 4));
    OK(hal_event_record(opened[1], common_stream));
    atomic_store(&stop, false);
    run_threads(4, open_gates);
    conf_check_u32(common_stream, common_buffer, 0, N, 200, 0);
    hal_event_destroy(opened[0]);
    hal_event_destroy(opened[1]);
    hal_buffer_destroy(common_buffer);
    hal_stream_destroy(common_stream);
}

/* Waits of 20 s that begin before what they wait for is there: they end when it is, not at their deadline. */
static void *wait_early(void *index)
{
    switch ((uintptr_t)index) {
    case 0:
        TRY(hal_event_wait(opened[0], SOON)); /* a gate */
        break;
    case 1:
        TRY(hal_event_wait(opened[1], SOON)); /* an event behind the gate */
        break;
    case 2:
        TRY(hal_stream_wait(common_stream, SOON)); /* a stream behind the gate */
        break;
    default:
        for (uint64_t start = conf_now(); conf_now() - start < HAL_MILLISECONDS(10);)
            sched_yield();
        TRY(hal_event_signal(opened[0]));
        break;
    }
    return NULL;
}

static void waiters_wake(void **state)
{
    (void)state;
    common_stream = conf_stream(conf_device);
    common_buffer = conf_buffer(conf_device, N * 4);
    opened[0] = conf_gate(conf_device);
    opened[1] = conf_event(conf_device);
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t start = conf_now();
        OK(hal_event_reset(opened[0]));
        OK(hal_stream_wait_event(common_stream, opened[0]));
        OK(conf_do_fill(hal_stream_cmdlist(common_stream), conf_shared("fill_index"), hal_whole(common_buffer), N, 0));
        OK(hal_event_record(opened[1], common_stream));
        run_threads(4, wait_early);
        least = conf_now() - start < least ? conf_now() - start : least;
    }
    assert_true(least < HAL_MILLISECONDS(35)); /* at once, the machine permitting */
    hal_event_destroy(opened[0]);
    hal_event_destroy(opened[1]);
    hal_buffer_destroy(common_buffer);
    hal_stream_destroy(common_stream);
}

/* Errors are the thread's own. */
static void *fail_alone(void *index)
{
    char number[32];
    uint64_t size = 1000 + (uintptr_t)index;
    snprintf(number, sizeof number, "%llu", (unsigned long long)size);
    for (int i = 0; i < 500; i++)
        if (hal_cmd_fill(hal_stream_cmdlist(common_stream), hal_range(common_buffer, size * 1000, size), "x", 1) !=
                HAL_ERROR_OUT_OF_RANGE ||
            strstr(hal_last_error(), number) == NULL)
            atomic_fetch_add(&wrong, 1);
    return NULL;
}

static void errors_are_per_thread(void **state)
{
    (void)state;
    common_stream = conf_stream(conf_device);
    common_buffer = conf_buffer(conf_device, 64);
    run_threads(THREADS, fail_alone);
    hal_buffer_destroy(common_buffer);
    hal_stream_destroy(common_stream);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        CASE(own_streams),
        CASE(one_stream_in_turns),
        CASE(first_kernels_together),
        CASE(objects_come_and_go),
        CASE(gates_from_another_thread),
        CASE(errors_are_per_thread),
        CASE(first_operator_together),
        CASE(waiters_wake),
    };
    return RUN("threads", tests);
}

const conf_topic conf_topics[] = {{"threads", run_all}, {NULL, NULL}};

int conf_child(const char *argument)
{
    (void)argument;
    return 2;
}
