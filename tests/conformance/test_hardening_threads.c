/* What an attack on the library found once, continued: threads that meet at an unlucky moment, children of fork, and
 * processes of their own for what can be tried only once in a process. */
#include "conf.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool stop;
static atomic_int wrong;

/* Fill a buffer over and over until told to stop. */
static void *submit_on(void *device)
{
    hal_stream *stream;
    hal_buffer *y;
    if (hal_stream_create(device, NULL, &stream) != HAL_OK ||
        hal_buffer_create(device, HAL_BUFFER(.size = 4096), &y) != HAL_OK) {
        atomic_fetch_add(&wrong, 1);
        return NULL;
    }
    while (!atomic_load(&stop))
        if (hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(y), &(uint32_t){1}, 4) != HAL_OK ||
            hal_stream_flush(stream) != HAL_OK)
            atomic_fetch_add(&wrong, 1);
    if (hal_stream_wait(stream, SOON) != HAL_OK)
        atomic_fetch_add(&wrong, 1);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    return NULL;
}

static void start_submitting(pthread_t *thread, hal_device *device)
{
    atomic_store(&stop, false);
    atomic_store(&wrong, 0);
    assert_int_equal(pthread_create(thread, NULL, submit_on, device), 0);
}

static void end_submitting(pthread_t thread)
{
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

/* The trace is taken away and written while another thread adds to it. */
static void trace_while_submitting(void **state)
{
    (void)state;
    hal_device *device = conf_open(NULL);
    pthread_t thread;
    hal_status status = HAL_OK;
    uint64_t start = conf_now();
    start_submitting(&thread, device);
    for (int turn = 0; turn < 10 && status == HAL_OK && conf_now() - start < HAL_SECONDS(1); turn++) {
        status = hal_trace_start(device);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        status = status == HAL_OK ? hal_trace_write(device, "/dev/null", SOON) : status;
    }
    end_submitting(thread);
    EXPECT(HAL_OK, status);
    assert_int_equal(atomic_load(&wrong), 0);
    hal_device_destroy(device);
}

typedef struct forked_objects {
    hal_stream *stream;
    hal_event *gate, *timed;
    hal_buffer *mapped;
    hal_cmdlist *list;
} forked_objects;

static hal_status attach_nothing(hal_device *device, void **state)
{
    (void)device, (void)state;
    return HAL_OK;
}

static void detach_nothing(void *state)
{
    (void)state;
}

/* In the child: how many calls did not say HAL_ERROR_INVALID_STATE. */
static int misled(const forked_objects *use)
{
    hal_stall stall;
    hal_memory_stats stats;
    void *attached;
    char text[64];
    uint64_t ns;
    const hal_status got[] = {
        hal_event_signal(use->gate),
        hal_event_reset(use->gate),
        hal_event_wait(use->gate, 0),
        hal_event_elapsed(use->timed, use->timed, &ns),
        hal_buffer_unmap(use->mapped),
        hal_device_stall_report(conf_device, &stall, text, sizeof text),
        hal_device_memory_stats(conf_device, &stats),
        hal_device_attach(conf_device, &stop, attach_nothing, detach_nothing, &attached),
        hal_cmdlist_submit(use->list, use->stream, NULL),
        hal_trace_start(conf_device),
    };
    int count = 0;
    for (size_t i = 0; i < sizeof got / sizeof got[0]; i++)
        if (got[i] != HAL_ERROR_INVALID_STATE) {
            print_error("call %zu of the child: %s\n", i, hal_status_name(got[i]));
            count++;
        }
    return count;
}

/* A child is forked while another thread of the parent holds what it holds: nothing hangs, and nothing of the parent's
 * is touched. */
static void children_touch_nothing(void **state)
{
    (void)state;
    forked_objects use = {.stream = conf_stream(conf_device), .gate = conf_gate(conf_device)};
    use.list = conf_list(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    void *pointer;
    pthread_t thread;
    int child_status = 0;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = 4096, .memory = HAL_MEMORY_HOST), &use.mapped));
    OK(hal_buffer_map(use.mapped, 0, HAL_REST, HAL_WRITE, &pointer));
    OK(conf_do_fill(use.list, conf_shared("fill_index"), hal_whole(y), 1024, 3));
    OK(hal_cmdlist_finish(use.list));
    bool timing = hal_device_get_info(conf_device)->timestamps;
    OK(hal_event_create(conf_device, HAL_EVENT(.timing = timing), &use.timed));
    OK(hal_event_record(use.timed, use.stream));
    OK(hal_event_wait(use.timed, SOON));
    OK(hal_stream_wait_event(use.stream, use.gate));
    OK(hal_cmdlist_submit(use.list, use.stream, NULL));
    start_submitting(&thread, conf_device);
    for (int i = 0; i < 5 && child_status == 0; i++) {
        nanosleep(&(struct timespec){0, 3000000}, NULL);
        pid_t child = fork();
        if (child == 0) {
            alarm(5);
            int count = misled(&use);
            hal_event_destroy(use.gate);
            hal_event_destroy(use.timed);
            hal_cmdlist_destroy(use.list);
            hal_buffer_destroy(use.mapped);
            hal_buffer_destroy(y);
            hal_stream_destroy(use.stream);
            hal_device_destroy(conf_device);
            _exit(count);
        }
        child_status = -1;
        waitpid(child, &child_status, 0);
    }
    end_submitting(thread);
    if (child_status != 0)
        fail_msg("a child ended with wait status 0x%x", (unsigned)child_status);
    assert_int_equal(atomic_load(&wrong), 0);
    OK(hal_event_signal(use.gate));
    conf_check_u32(use.stream, y, 0, 1024, 3, 1);
    OK(hal_buffer_unmap(use.mapped));
    hal_event_destroy(use.gate);
    hal_event_destroy(use.timed);
    hal_cmdlist_destroy(use.list);
    hal_buffer_destroy(use.mapped);
    hal_buffer_destroy(y);
    hal_stream_destroy(use.stream);
}

static void *open_or_list(void *barrier)
{
    hal_device *device = NULL;
    hal_device_list *list = NULL;
    int turn = pthread_barrier_wait(barrier);
    hal_status status =
        turn == PTHREAD_BARRIER_SERIAL_THREAD ? hal_device_list_create(getenv("HAL_BACKEND"), &list) : HAL_OK;
    status = status == HAL_OK ? conf_try_open(NULL, &device) : status;
    if (status != HAL_OK) {
        printf("%s: %s\n", hal_status_name(status), hal_last_error());
        atomic_fetch_add(&wrong, 1);
    }
    hal_device_list_destroy(list);
    hal_device_destroy(device);
    return NULL;
}

int conf_child_first_opens(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    alarm(30);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, open_or_list, &barrier) != 0)
            return 3;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return atomic_load(&wrong) != 0;
}

/* A process whose first calls are made by 8 threads at once. */
static void first_opens_together(void **state)
{
    (void)state;
    char text[4096];
#if defined(__SANITIZE_ADDRESS__)
    if (strcmp(conf_backend, "opencl") == 0)
        SKIP("AddressSanitizer cannot unmap the stacks of PoCL's threads when 8 contexts come and go at once");
#endif
    for (int turn = 0; turn < 3; turn++) {
        int status = conf_run_self("first_opens", NULL, text, sizeof text);
        if (status != 0)
            fail_msg("exit status %d: %s", status, text);
    }
}

static void count_release(void *user, void *pointer, uint64_t size)
{
    (void)pointer, (void)size;
    ++*(int *)user;
}

/* Copies until the driver says that the device is lost, then everything is destroyed. */
int conf_child_lost_driver(void)
{
    static uint64_t memory[512] __attribute__((aligned(4096)));
    hal_device *device;
    hal_stream *stream;
    hal_buffer *buffer, *imported;
    hal_event *event;
    int released = 0;
    alarm(30);
    if (conf_try_open(NULL, &device) != HAL_OK || hal_stream_create(device, NULL, &stream) != HAL_OK ||
        hal_event_create(device, NULL, &event) != HAL_OK ||
        hal_buffer_create(device, HAL_BUFFER(.size = sizeof memory), &buffer) != HAL_OK ||
        hal_buffer_import(device, memory, sizeof memory, count_release, &released, NULL, &imported) != HAL_OK) {
        printf("%s\n", hal_last_error());
        return 3;
    }
    hal_status status = hal_event_record(event, stream);
    for (int i = 0; i < 10 && status == HAL_OK; i++) /* what is unmarked when it happens cannot be marked any more */
        status = hal_cmd_copy(hal_stream_cmdlist(stream), hal_whole(buffer), hal_whole(imported));
    hal_buffer_destroy(imported);
    hal_buffer_destroy(buffer);
    hal_event_destroy(event);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    printf("%s, released %d\n", hal_status_name(status), released);
    return 0;
}

/* A driver that says lost by itself takes no marks any more; everything is given back all the same. */
static void lost_by_the_driver(void **state)
{
    (void)state;
    if (strncmp(hal_device_get_info(conf_device)->name, "Simulated ", 10) != 0)
        SKIP("needs the stand-in for the CUDA driver");
    static const char *const environment[] = {"HAL_CUDA_SIM_FAIL=cuMemcpyAsync:2:700", "HAL_CUDA_SIM_REPORT=1", NULL};
    char text[4096];
    int status = conf_run_self("lost_driver", environment, text, sizeof text);
    if (status != 0 || strstr(text, "HAL_ERROR_DEVICE_LOST, released 1") == NULL ||
        strstr(text, "0 misuses, 0 objects alive") == NULL)
        fail_msg("exit status %d: %s", status, text);
}

int conf_test_hardening_threads(void)
{
    const struct CMUnitTest tests[] = {
        CASE(trace_while_submitting),
        CASE(children_touch_nothing),
        CASE(first_opens_together),
        CASE(lost_by_the_driver),
    };
    return RUN("hardening (threads)", tests);
}
