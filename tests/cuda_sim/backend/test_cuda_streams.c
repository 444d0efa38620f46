/* test_cuda_streams.c - streams, words, host functions, events and graphs of the stand-in's driver API. */
#include "driver_test.h"

#include <time.h>

/* One stream waits for a word that another writes: they must overlap. */
static void test_words(void **state)
{
    (void)state;
    nv_stream first = driver_stream(), second = driver_stream();
    nv_ptr words = driver_words(4);
    OK(cu.cuStreamWaitValue32_v2(first, words, 5, NV_WAIT_VALUE_EQ));
    OK(cu.cuStreamWriteValue32_v2(first, words + 4, 7, 0));
    IS(NV_ERROR_NOT_READY, cu.cuStreamQuery(first));
    OK(cu.cuStreamWriteValue32_v2(second, words, 4, 0));
    OK(cu.cuStreamSynchronize(second));
    IS(NV_ERROR_NOT_READY, cu.cuStreamQuery(first));
    assert_int_equal(driver_word(words + 4), 0);
    OK(cu.cuStreamWriteValue32_v2(second, words, 5, NV_WRITE_VALUE_NO_MEMORY_BARRIER));
    OK(cu.cuCtxSynchronize());
    assert_int_equal(driver_word(words + 4), 7);
    IS(NV_ERROR_NOT_SUPPORTED, cu.cuStreamWaitValue32_v2(first, words, 5, NV_WAIT_VALUE_FLUSH));
    IS(NV_ERROR_INVALID_VALUE, cu.cuStreamWaitValue64_v2(first, words + 4, 5, 0));
    IS(NV_ERROR_INVALID_VALUE, cu.cuStreamWaitValue32_v2(first, words, 5, 4));
    IS(NV_ERROR_INVALID_VALUE, cu.cuStreamWriteValue32_v2(first, words, 5, 2));
    OK(cu.cuStreamDestroy_v2(first));
    OK(cu.cuStreamDestroy_v2(second));
    OK(cu.cuMemFree_v2(words));
}

/* A stream that is destroyed early is a misuse; what was told to it is still done. */
static void test_destroyed_early(void **state)
{
    (void)state;
    nv_stream first = driver_stream(), second = driver_stream();
    nv_ptr words = driver_words(4);
    unsigned errors = cu.errors();
    OK(cu.cuStreamWaitValue32_v2(first, words, 5, NV_WAIT_VALUE_EQ));
    OK(cu.cuStreamWriteValue32_v2(first, words + 4, 7, 0));
    OK(cu.cuStreamDestroy_v2(first));
    assert_int_equal(cu.errors(), errors + 1);
    IS(NV_ERROR_INVALID_HANDLE, cu.cuStreamQuery(first));
    assert_int_equal(driver_word(words + 4), 0);
    OK(cu.cuStreamWriteValue32_v2(second, words, 5, 0));
    OK(cu.cuStreamWaitValue32_v2(second, words + 4, 7, NV_WAIT_VALUE_EQ));
    OK(cu.cuStreamSynchronize(second));
    OK(cu.cuStreamDestroy_v2(second));
    OK(cu.cuMemFree_v2(words));
}

/* What is there, what is waited for, and whether that is satisfied. */
static void test_conditions(void **state)
{
    (void)state;
    static const struct {
        uint64_t is, wanted;
        unsigned flags, bytes;
        bool satisfied;
    } cases[] = {
        {5, 5, NV_WAIT_VALUE_GEQ, 4, true},
        {4, 5, NV_WAIT_VALUE_GEQ, 4, false},
        {3, 0xfffffffe, NV_WAIT_VALUE_GEQ, 4, true}, /* 5 later, around the end */
        {0xfffffffe, 3, NV_WAIT_VALUE_GEQ, 4, false},
        {UINT64_C(1) << 40, 1, NV_WAIT_VALUE_GEQ, 8, true},
        {1, UINT64_C(1) << 40, NV_WAIT_VALUE_GEQ, 8, false},
        {6, 4, NV_WAIT_VALUE_AND, 4, true},
        {2, 4, NV_WAIT_VALUE_AND, 4, false},
        {2, 6, NV_WAIT_VALUE_AND, 4, true}, /* one bit is enough */
        {0xfffffff0, 0xe, NV_WAIT_VALUE_NOR, 4, true},
        {0xfffffff0, 0xf, NV_WAIT_VALUE_NOR, 4, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        nv_stream stream = driver_stream(), other = driver_stream();
        nv_ptr words = driver_words(2);
        OK(cu.cuMemcpyHtoD_v2(words, &cases[i].is, 8));
        OK(cases[i].bytes == 4 ? cu.cuStreamWaitValue32_v2(stream, words, (uint32_t)cases[i].wanted, cases[i].flags)
                               : cu.cuStreamWaitValue64_v2(stream, words, cases[i].wanted, cases[i].flags));
        OK(cu.cuStreamWaitValue32_v2(other, words, (uint32_t)cases[i].is, NV_WAIT_VALUE_EQ));
        OK(cu.cuStreamSynchronize(other));
        const int turns = cases[i].satisfied ? 20000 : 20; /* of a millisecond: it may take its time, or be too early */
        for (int turn = 0; turn < turns && cu.cuStreamQuery(stream) != NV_SUCCESS; turn++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        if ((cu.cuStreamQuery(stream) == NV_SUCCESS) != cases[i].satisfied)
            fail_msg("case %zu is %ssatisfied", i, cases[i].satisfied ? "not " : "");
        uint64_t good = cases[i].flags == NV_WAIT_VALUE_NOR ? 0 : cases[i].wanted;
        OK(cu.cuStreamWriteValue64_v2(other, words, good, 0));
        OK(cu.cuCtxSynchronize());
        OK(cu.cuStreamDestroy_v2(stream));
        OK(cu.cuStreamDestroy_v2(other));
        OK(cu.cuMemFree_v2(words));
    }
}

/* -- host functions ------------------------------------------------------------------------------------------------ */

typedef struct note {
    const uint32_t *word; /* what is read */
    uint32_t seen, calls;
    nv_result answer;
} note;

static void take_note(void *data)
{
    note *n = data;
    int count;
    n->seen = *n->word;
    n->answer = cu.cuDeviceGetCount(&count);
    n->calls++;
}

static void test_host_functions(void **state)
{
    (void)state;
    nv_module module = driver_module(driver_ptx);
    nv_stream stream = driver_stream();
    nv_ptr words = driver_words(1024);
    note before = {(const uint32_t *)(uintptr_t)words, 99, 0, 0}, after = before, never = before;
    OK(cu.cuLaunchHostFunc(stream, take_note, &before));
    OK(driver_launch(driver_function(module, "store"), 4, 32, 0, stream, words));
    OK(cu.cuLaunchHostFunc(stream, take_note, &after));
    OK(cu.cuStreamSynchronize(stream));
    assert_int_equal(before.seen, 0);
    assert_int_equal(after.seen, 128);
    assert_int_equal(after.answer, NV_ERROR_NOT_PERMITTED);
    /* Not after an error, which waits until all is asked for. */
    nv_stream other = driver_stream();
    OK(cu.cuStreamWaitValue32_v2(stream, words + 4, 1, NV_WAIT_VALUE_EQ));
    OK(driver_launch(driver_function(module, "wild"), 1, 1, 0, stream, words));
    OK(cu.cuLaunchHostFunc(stream, take_note, &never));
    OK(cu.cuStreamWriteValue32_v2(other, words + 4, 1, 0));
    IS(NV_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    assert_int_equal(never.calls, 0);
    IS(NV_ERROR_ILLEGAL_ADDRESS, cu.cuStreamDestroy_v2(stream));
    IS(NV_ERROR_ILLEGAL_ADDRESS, cu.cuStreamDestroy_v2(other));
    OK(cu.cuModuleUnload(module));
}

/* -- events and graphs --------------------------------------------------------------------------------------------- */

static void test_events(void **state)
{
    (void)state;
    nv_event start, end;
    nv_stream stream = driver_stream(), other = driver_stream();
    nv_ptr words = driver_words(2);
    float ms = -1;
    OK(cu.cuEventCreate(&start, NV_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&end, NV_EVENT_BLOCKING_SYNC));
    OK(cu.cuEventRecord(start, stream));
    OK(cu.cuStreamWaitValue32_v2(stream, words, 1, NV_WAIT_VALUE_EQ));
    OK(cu.cuEventRecord(end, stream));
    IS(NV_ERROR_NOT_READY, cu.cuEventElapsedTime(&ms, start, end));
    OK(cu.cuEventSynchronize(start)); /* it is recorded by now */
    nanosleep(&(struct timespec){0, 3000000}, NULL);
    OK(cu.cuStreamWriteValue32_v2(other, words, 1, 0));
    OK(cu.cuEventSynchronize(end));
    OK(cu.cuEventElapsedTime(&ms, start, end));
    assert_true(ms >= 2.5f && ms < 60000);
    OK(cu.cuEventDestroy_v2(start));
    OK(cu.cuEventDestroy_v2(end));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuStreamDestroy_v2(other));
    OK(cu.cuMemFree_v2(words));
}

typedef struct run {
    int inside, together, count;
    char order[8];
} run;
typedef struct step {
    run *run;
    char name;
} step;

static void take_step(void *data)
{
    const step *s = data;
    if (__atomic_add_fetch(&s->run->inside, 1, __ATOMIC_SEQ_CST) > 1)
        s->run->together++;
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    s->run->order[s->run->count++ % 7] = s->name;
    __atomic_sub_fetch(&s->run->inside, 1, __ATOMIC_SEQ_CST);
}

/* b and c wait for a; c runs before b, as nothing says otherwise. Two launches do not overlap. */
static void test_graph_order(void **state)
{
    (void)state;
    run runs = {0};
    step steps[] = {{&runs, 'a'}, {&runs, 'b'}, {&runs, 'c'}};
    nv_stream first = driver_stream(), second = driver_stream();
    nv_graph graph;
    nv_graph_exec exec;
    nv_node nodes[3];
    OK(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cu.cuGraphAddHostNode(&nodes[i], graph, nodes, i > 0, &(nv_host_node){take_step, &steps[i]}));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, first));
    OK(cu.cuGraphLaunch(exec, second));
    OK(cu.cuCtxSynchronize());
    assert_string_equal(runs.order, "acbacb");
    assert_int_equal(runs.together, 0);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamDestroy_v2(first));
    OK(cu.cuStreamDestroy_v2(second));
}

/* kernel -> host node -> record; another graph waits for the event. Then other parameters. */
static void test_graph_nodes(void **state)
{
    (void)state;
    nv_module module = driver_module(driver_ptx);
    nv_stream stream = driver_stream();
    nv_ptr words = driver_words(4), others = driver_words(4);
    nv_graph graph, empty;
    nv_graph_exec exec;
    nv_node kernel, host, record, wait;
    nv_event event;
    void *params[] = {&words};
    nv_kernel_node launch = {.func = driver_function(module, "store"), .grid = {2, 1, 1}, .block = {32, 1, 1}};
    note first = {(const uint32_t *)(uintptr_t)words, 99, 0, 0}, second = first;
    launch.params = params;
    OK(cu.cuEventCreate(&event, NV_EVENT_DISABLE_TIMING));
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphCreate(&empty, 0));
    OK(cu.cuGraphAddKernelNode_v2(&kernel, graph, NULL, 0, &launch));
    OK(cu.cuGraphAddHostNode(&host, graph, &kernel, 1, &(nv_host_node){take_note, &first}));
    OK(cu.cuGraphAddEventRecordNode(&record, graph, &host, 1, event));
    OK(cu.cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    IS(NV_ERROR_INVALID_VALUE, cu.cuGraphAddEmptyNode(&kernel, empty, &kernel, 1));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    assert_int_equal(first.seen, 64);
    OK(cu.cuEventQuery(event));

    OK(cu.cuGraphExecHostNodeSetParams(exec, host, &(nv_host_node){take_note, &second}));
    params[0] = &others;
    OK(cu.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &launch));
    IS(NV_ERROR_INVALID_VALUE, cu.cuGraphExecKernelNodeSetParams_v2(exec, host, &launch));
    OK(cu.cuGraphExecEventRecordNodeSetEvent(exec, record, event));
    OK(cu.cuGraphExecEventWaitNodeSetEvent(exec, wait, event));
    /* Twice in flight: one after the other. */
    nv_stream another = driver_stream();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphLaunch(exec, another));
    OK(cu.cuCtxSynchronize());
    assert_int_equal(second.calls, 2);
    assert_int_equal(driver_word(others), 128);
    assert_int_equal(driver_word(words), 64);
    /* A node whose graph is gone cannot be set any more; what was instantiated still runs. */
    OK(cu.cuGraphDestroy(graph));
    IS(NV_ERROR_INVALID_HANDLE, cu.cuGraphExecKernelNodeSetParams_v2(exec, kernel, &launch));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    assert_int_equal(driver_word(others), 192);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(empty));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuStreamDestroy_v2(another));
    OK(cu.cuMemFree_v2(words));
    OK(cu.cuMemFree_v2(others));
    OK(cu.cuModuleUnload(module));
}

/* A node's cluster stays when its parameters change. */
static void test_node_cluster(void **state)
{
    (void)state;
    nv_module module = driver_module(driver_ptx);
    nv_ptr words = driver_words(1);
    nv_graph graph;
    nv_graph_exec exec;
    nv_node node;
    void *params[] = {&words};
    nv_kernel_node launch = {.func = driver_function(module, "store"), .grid = {4, 1, 1}, .block = {32, 1, 1}};
    nv_launch_value cluster = {.cluster = {4, 1, 1}};
    launch.params = params;
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &launch));
    if (capability < 90) {
        IS(NV_ERROR_NOT_SUPPORTED, cu.cuGraphKernelNodeSetAttribute(node, NV_LAUNCH_CLUSTER_DIMENSION, &cluster));
    } else {
        OK(cu.cuGraphKernelNodeSetAttribute(node, NV_LAUNCH_CLUSTER_DIMENSION, &cluster));
        OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &launch));
        launch.grid[0] = 6; /* no multiple of 4 */
        IS(NV_ERROR_INVALID_CLUSTER_SIZE, cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &launch));
        OK(cu.cuGraphExecDestroy(exec));
    }
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuMemFree_v2(words));
    OK(cu.cuModuleUnload(module));
}

int driver_test_streams(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_destroyed_early, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_conditions, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_host_functions, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_events, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_graph_order, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_graph_nodes, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_node_cluster, driver_begin, driver_end),
    };
    return cmocka_run_group_tests_name("streams", tests, NULL, NULL);
}
