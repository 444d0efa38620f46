/* test_cuda_lists.c - recorded lists as graphs on the stand-in driver, which runs the nodes of a graph in the most
 * awkward order that their edges allow. */
#include "cuda_test.h"

typedef struct bench {
    hal_device *device;
    hal_module *module;
    hal_kernel *fill, *scale, *copy, *spin;
    hal_stream *stream;
    hal_cmdlist *list;
} bench;

static bench set_up(void)
{
    bench b = {.device = cuda_open()};
    b.module = cuda_module(b.device);
    b.fill = cuda_kernel(b.module, "fill_index", 1, 8);
    b.scale = cuda_kernel(b.module, "scale_u32", 1, 12);
    b.copy = cuda_kernel(b.module, "copy_u32", 2, 4);
    b.spin = cuda_kernel(b.module, "spin", 1, 4);
    b.stream = cuda_stream(b.device);
    OK(hal_cmdlist_create(b.device, NULL, &b.list));
    return b;
}

static void tear_down(bench *b)
{
    hal_cmdlist_destroy(b->list);
    hal_stream_destroy(b->stream);
    hal_kernel_destroy(b->fill);
    hal_kernel_destroy(b->scale);
    hal_kernel_destroy(b->copy);
    hal_kernel_destroy(b->spin);
    hal_module_destroy(b->module);
    cuda_close(b->device);
}

static uint64_t builds(const bench *b)
{
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_get_stats(b->list, &stats));
    return stats.native_builds;
}

#define N     1024
#define BYTES UINT64_C(4096) /* of N words */

static void scale_by(bench *b, hal_span span, uint32_t mul, uint32_t add)
{
    OK(hal_cmd_dispatch(b->list, b->scale, HAL_GRID1(N / 64), HAL_SPANS(span), (const uint32_t[]){N, mul, add}, 12));
}

/* A chain gives its result only in order; two chains do not wait for each other. */
static void test_edges(void **state)
{
    (void)state;
    bench b = set_up();
    hal_buffer *x = cuda_buffer(b.device, BYTES), *y = cuda_buffer(b.device, BYTES);
    OK(hal_cmd_fill(b.list, hal_whole(x), &(uint32_t){1}, 4));
    OK(hal_cmd_fill(b.list, hal_whole(y), &(uint32_t){2}, 4));
    for (int i = 0; i < 5; i++) {
        scale_by(&b, hal_whole(x), 3, 1);
        scale_by(&b, hal_whole(y), 5, 2);
    }
    OK(hal_cmdlist_finish(b.list));
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_get_stats(b.list, &stats));
    assert_int_equal(stats.edges, 10);
    OK(hal_cmdlist_submit(b.list, b.stream, NULL));
    uint32_t want_x = 1, want_y = 2;
    for (int i = 0; i < 5; i++) {
        want_x = want_x * 3 + 1;
        want_y = want_y * 5 + 2;
    }
    cuda_check(b.stream, x, N, want_x, 0);
    cuda_check(b.stream, y, N, want_y, 0);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    tear_down(&b);
}

static void test_rebinding(void **state)
{
    (void)state;
    bench b = set_up();
    hal_buffer *in[2] = {cuda_buffer(b.device, BYTES), cuda_buffer(b.device, 2 * BYTES)};
    hal_buffer *out[2] = {cuda_buffer(b.device, BYTES), cuda_buffer(b.device, 2 * BYTES)};
    OK(hal_cmd_fill(b.list, hal_slot_range(0, 0, BYTES), &(uint32_t){4}, 4));
    OK(hal_cmd_dispatch(b.list, b.copy, HAL_GRID1(N / 64), HAL_SPANS(hal_slot(0, 0), hal_slot(1, 0)),
                        (const uint32_t[]){N}, 4));
    OK(hal_cmd_dispatch(b.list, b.scale, HAL_GRID1(N / 64), HAL_SPANS(hal_slot(1, 0)), (const uint32_t[]){N, 3, 5},
                        12));
    OK(hal_cmd_scalar(b.list, 0, 4));
    OK(hal_cmd_scalar(b.list, 1, 8));
    OK(hal_cmdlist_finish(b.list));
    for (uint32_t turn = 0; turn < 40; turn++) {
        uint32_t scalars[2] = {turn, turn + 1};
        hal_bindings bindings = *HAL_BINDINGS(hal_whole(in[turn % 2]), hal_whole(out[turn / 2 % 2]));
        if (turn % 3) {
            bindings.scalars = scalars;
            bindings.scalar_count = 2;
        }
        OK(hal_cmdlist_submit(b.list, b.stream, &bindings));
        cuda_check(b.stream, out[turn / 2 % 2], N, turn % 3 ? 4 * turn + turn + 1 : 17, 0);
    }
    assert_int_equal(builds(&b), 1);
    /* The same values again set nothing. */
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(in[0]), hal_whole(out[0]))));
    unsigned long sets = sim.calls("cuGraphExecKernelNodeSetParams_v2");
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(in[0]), hal_whole(out[0]))));
    assert_int_equal(sim.calls("cuGraphExecKernelNodeSetParams_v2"), sets);
    /* Only the nodes of the slot that changed are set. */
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(in[1]), hal_whole(out[0]))));
    assert_int_equal(sim.calls("cuGraphExecKernelNodeSetParams_v2"), sets + 1);
    OK(hal_stream_wait(b.stream, SOON));
    for (int i = 0; i < 2; i++) {
        hal_buffer_destroy(in[i]);
        hal_buffer_destroy(out[i]);
    }
    tear_down(&b);
}

/* Submissions in flight keep what they were given. */
static void test_rebinding_in_flight(void **state)
{
    (void)state;
    enum { TURNS = 16 };
    bench b = set_up();
    hal_buffer *out[TURNS], *wait = cuda_buffer(b.device, 4);
    OK(hal_cmd_dispatch(b.list, b.fill, HAL_GRID1(N / 64), HAL_SPANS(hal_slot(0, 0)), (const uint32_t[]){N, 0}, 8));
    OK(hal_cmd_scalar(b.list, 0, 4));
    OK(hal_cmdlist_finish(b.list));
    OK(hal_cmd_dispatch(hal_stream_cmdlist(b.stream), b.spin, HAL_GRID1(1), HAL_SPANS(hal_whole(wait)),
                        &(uint32_t){1000000}, 4));
    for (uint32_t i = 0; i < TURNS; i++) {
        out[i] = cuda_buffer(b.device, BYTES);
        hal_bindings bindings = *HAL_BINDINGS(hal_whole(out[i]));
        bindings.scalars = &(uint32_t){1000 * i};
        bindings.scalar_count = 1;
        OK(hal_cmdlist_submit(b.list, b.stream, &bindings));
    }
    for (uint32_t i = 0; i < TURNS; i++) {
        cuda_check(b.stream, out[i], N, 1000 * i, 1);
        hal_buffer_destroy(out[i]);
    }
    assert_int_equal(builds(&b), 1);
    hal_buffer_destroy(wait);
    tear_down(&b);
}

/* What an executable graph may not be told is built anew, also while the old one runs. */
static void test_rebuild(void **state)
{
    (void)state;
    bench b = set_up();
    hal_buffer *device = cuda_buffer(b.device, BYTES), *host, *source = cuda_buffer(b.device, BYTES);
    OK(hal_buffer_create(b.device, HAL_BUFFER(.size = BYTES, .memory = HAL_MEMORY_HOST), &host));
    OK(hal_cmd_fill(b.list, hal_whole(source), &(uint32_t){77}, 4));
    OK(hal_cmd_copy(b.list, hal_slot_range(0, 0, BYTES), hal_whole(source)));
    OK(hal_cmdlist_finish(b.list));
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(device))));
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(host))));
    assert_int_equal(builds(&b), 2);
    cuda_check(b.stream, device, N, 77, 0);
    cuda_check(b.stream, host, N, 77, 0);
    hal_buffer_destroy(device);
    hal_buffer_destroy(host);
    hal_buffer_destroy(source);
    tear_down(&b);
}

/* A submit that fails half-way leaves the list right for the next one. */
static void test_failed_update(void **state)
{
    (void)state;
    bench b = set_up();
    hal_buffer *x = cuda_buffer(b.device, BYTES), *y = cuda_buffer(b.device, BYTES);
    for (int i = 0; i < 2; i++)
        OK(hal_cmd_dispatch(b.list, b.fill, HAL_GRID1(N / 128),
                            HAL_SPANS(hal_slot_range(0, i ? BYTES / 2 : 0, BYTES / 2)),
                            (const uint32_t[]){N / 2, 512u * i}, 8));
    OK(hal_cmdlist_finish(b.list));
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(x))));
    cuda_check(b.stream, x, N, 0, 1);
    sim.inject("cuGraphExecKernelNodeSetParams_v2", 2, 1);
    EXPECT(HAL_ERROR_BACKEND, hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(y))));
    OK(hal_cmd_fill(hal_stream_cmdlist(b.stream), hal_whole(y), &(uint32_t){0}, 4));
    OK(hal_cmdlist_submit(b.list, b.stream, HAL_BINDINGS(hal_whole(y))));
    cuda_check(b.stream, y, N, 0, 1);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    tear_down(&b);
}

/* Patterns of each size, and copies between all kinds of memory. */
static void test_fills_and_copies(void **state)
{
    (void)state;
    bench b = set_up();
    static const hal_memory kinds[] = {HAL_MEMORY_DEVICE, HAL_MEMORY_HOST, HAL_MEMORY_UNIFIED};
    hal_buffer *buffers[3];
    for (int i = 0; i < 3; i++)
        OK(hal_buffer_create(b.device, HAL_BUFFER(.size = 64, .memory = kinds[i]), &buffers[i]));
    OK(hal_cmd_fill(b.list, hal_range(buffers[0], 0, 1), &(uint8_t){0x81}, 1));
    OK(hal_cmd_fill(b.list, hal_range(buffers[0], 1, 1), &(uint8_t){0x92}, 1));
    OK(hal_cmd_fill(b.list, hal_range(buffers[0], 2, 2), &(uint16_t){0xa4b3}, 2));
    OK(hal_cmd_fill(b.list, hal_range(buffers[0], 4, 60), &(uint32_t){0xa4b39281}, 4));
    OK(hal_cmd_copy(b.list, hal_whole(buffers[1]), hal_whole(buffers[0])));
    OK(hal_cmd_copy(b.list, hal_whole(buffers[2]), hal_whole(buffers[1])));
    OK(hal_cmdlist_finish(b.list));
    OK(hal_cmdlist_submit(b.list, b.stream, NULL));
    for (int i = 0; i < 3; i++) {
        cuda_check(b.stream, buffers[i], 16, 0xa4b39281, 0);
        hal_buffer_destroy(buffers[i]);
    }
    tear_down(&b);
}

/* A stream waits on the device for another's event. */
static void test_two_streams(void **state)
{
    (void)state;
    bench b = set_up();
    hal_event *event;
    hal_stream *other = cuda_stream(b.device);
    hal_buffer *x = cuda_buffer(b.device, 4), *y = cuda_buffer(b.device, 4);
    OK(hal_event_create(b.device, NULL, &event));
    OK(hal_cmd_fill(hal_stream_cmdlist(b.stream), hal_whole(x), &(uint32_t){1}, 4));
    OK(hal_stream_wait(b.stream, SOON));
    OK(hal_cmd_dispatch(hal_stream_cmdlist(b.stream), b.spin, HAL_GRID1(1), HAL_SPANS(hal_whole(x)),
                        &(uint32_t){1000000}, 4));
    OK(hal_event_record(event, b.stream));
    OK(hal_stream_wait_event(other, event));
    OK(hal_cmd_copy(hal_stream_cmdlist(other), hal_whole(y), hal_whole(x)));
    cuda_check(other, y, 1, 1000000, 0);
    hal_event_destroy(event);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_stream_destroy(other);
    tear_down(&b);
}

int cuda_test_lists(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_rebinding),
        cmocka_unit_test(test_rebinding_in_flight),
        cmocka_unit_test(test_rebuild),
        cmocka_unit_test(test_failed_update),
        cmocka_unit_test(test_fills_and_copies),
        cmocka_unit_test(test_two_streams),
    };
    return cmocka_run_group_tests_name("cuda lists", tests, NULL, NULL);
}
