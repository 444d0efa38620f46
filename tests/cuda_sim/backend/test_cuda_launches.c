/* test_cuda_launches.c - functions, limits, faults and counters of the stand-in's driver API. */
#include "driver_test.h"

typedef struct bench {
    nv_module module;
    nv_stream stream;
    nv_ptr words;
} bench;

static bench set_up(void)
{
    return (bench){driver_module(driver_ptx), driver_stream(), driver_words(1024)};
}

static void tear_down(const bench *b)
{
    OK(cu.cuStreamSynchronize(b->stream));
    OK(cu.cuStreamDestroy_v2(b->stream));
    OK(cu.cuMemFree_v2(b->words));
    OK(cu.cuModuleUnload(b->module));
}

static void test_limits(void **state)
{
    (void)state;
    bench b = set_up();
    nv_function store = driver_function(b.module, "store"), few = driver_function(b.module, "few");
    nv_function exact = driver_function(b.module, "exact");
    OK(driver_launch(store, 3, 1024, 0, b.stream, b.words));
    OK(cu.cuStreamSynchronize(b.stream));
    assert_int_equal(driver_word(b.words), 3072);
    IS(NV_ERROR_INVALID_VALUE, driver_launch(store, 1, 1025, 0, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, driver_launch(store, 0, 32, 0, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, driver_launch(store, 0x80000000u, 32, 0, b.stream, b.words));
    OK(driver_launch(few, 1, 128, 0, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, driver_launch(few, 1, 129, 0, b.stream, b.words));
    OK(driver_launch(exact, 1, 96, 0, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, driver_launch(exact, 1, 64, 0, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, cu.cuLaunchKernel(store, 1, 1, 1, 32, 1, 1, 0, b.stream, NULL, NULL));
    tear_down(&b);
}

static void test_shared_memory(void **state)
{
    (void)state;
    bench b = set_up();
    int value = 0, optin = 0;
    nv_function store = driver_function(b.module, "store");
    OK(cu.cuDeviceGetAttribute(&optin, NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    OK(driver_launch(store, 1, 32, 48 * 1024, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, driver_launch(store, 1, 32, 48 * 1024 + 1, b.stream, b.words));
    IS(NV_ERROR_INVALID_VALUE, cu.cuFuncSetAttribute(store, NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin + 1));
    OK(cu.cuFuncSetAttribute(store, NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin));
    OK(cu.cuFuncGetAttribute(&value, NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, store));
    assert_int_equal(value, optin);
    OK(driver_launch(store, 1, 32, (unsigned)optin, b.stream, b.words));
    OK(cu.cuFuncGetAttribute(&value, NV_FUNCTION_SHARED_SIZE_BYTES, driver_function(b.module, "stale")));
    assert_int_equal(value, 16);
    OK(cu.cuFuncGetAttribute(&value, NV_FUNCTION_MAX_THREADS_PER_BLOCK, driver_function(b.module, "few")));
    assert_int_equal(value, 128);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, store, 256, 0));
    assert_int_equal(value, 8);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, store, 256, (size_t)optin));
    assert_int_equal(value, 1);
    tear_down(&b);
}

/* -- clusters ------------------------------------------------------------------------------------------------------ */

static const char cluster_ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry sized(.param .u64 out)\n{\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
    "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %cluster_nctarank;\n"
    "atom.global.add.u32 %r2, [%rd2], %r1; ret;\n}\n";

static nv_result launch_cluster(nv_function function, unsigned grid, unsigned cluster, nv_stream stream, nv_ptr words)
{
    void *params[] = {&words};
    nv_launch_attribute attribute = {.id = NV_LAUNCH_CLUSTER_DIMENSION, .value.cluster = {cluster, 1, 1}};
    nv_launch_config config = {
        .grid = {grid, 1, 1}, .block = {1, 1, 1}, .stream = stream, .attributes = &attribute, .attribute_count = 1};
    return cu.cuLaunchKernelEx(&config, function, params, NULL);
}

static void test_clusters(void **state)
{
    (void)state;
    bench b = set_up();
    if (capability < 90) {
        nv_function store = driver_function(b.module, "store");
        IS(NV_ERROR_NOT_SUPPORTED, launch_cluster(store, 4, 2, b.stream, b.words));
        tear_down(&b);
        return;
    }
    nv_module module = driver_module(cluster_ptx);
    nv_function sized = driver_function(module, "sized");
    OK(launch_cluster(sized, 8, 4, b.stream, b.words));
    OK(cu.cuStreamSynchronize(b.stream));
    assert_int_equal(driver_word(b.words), 32); /* 8 blocks see 4 each */
    IS(NV_ERROR_INVALID_CLUSTER_SIZE, launch_cluster(sized, 8, 3, b.stream, b.words));
    IS(NV_ERROR_INVALID_CLUSTER_SIZE, launch_cluster(sized, 16, 16, b.stream, b.words));
    OK(cu.cuFuncSetAttribute(sized, (nv_function_attribute)NV_FUNCTION_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(launch_cluster(sized, 16, 16, b.stream, b.words));
    OK(cu.cuFuncSetAttribute(sized, (nv_function_attribute)NV_FUNCTION_REQUIRED_CLUSTER_WIDTH, 2));
    IS(NV_ERROR_INVALID_CLUSTER_SIZE, launch_cluster(sized, 8, 4, b.stream, b.words));
    OK(driver_launch(sized, 8, 1, 0, b.stream, b.words));
    OK(cu.cuStreamSynchronize(b.stream));
    assert_int_equal(driver_word(b.words), 32 + 256 + 16);
    OK(cu.cuModuleUnload(module));
    tear_down(&b);
}

/* -- faults -------------------------------------------------------------------------------------------------------- */

/* After a fault every call in the context says so; a new context is good. */
static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *kernel;
        nv_result result;
    } faults[] = {
        {"wild", NV_ERROR_ILLEGAL_ADDRESS}, {"odd", NV_ERROR_MISALIGNED_ADDRESS}, {"stale", NV_ERROR_LAUNCH_FAILED},
        {"stuck", NV_ERROR_LAUNCH_TIMEOUT}, {"trapped", NV_ERROR_LAUNCH_FAILED},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        nv_ptr more;
        driver_begin(NULL);
        bench b = set_up();
        unsigned errors = cu.errors();
        OK(driver_launch(driver_function(b.module, faults[i].kernel), 1, 32, 0, b.stream, b.words));
        IS(faults[i].result, cu.cuStreamSynchronize(b.stream));
        IS(faults[i].result, cu.cuMemAlloc_v2(&more, 64));
        IS(faults[i].result, cu.cuCtxSynchronize());
        assert_int_equal(cu.errors(), errors + 1);
        if (strncmp(cu.last_fault(), faults[i].kernel, strlen(faults[i].kernel)) != 0)
            fail_msg("the fault of %s is told as: %s", faults[i].kernel, cu.last_fault());
        IS(faults[i].result, cu.cuStreamDestroy_v2(b.stream));
        OK(cu.cuModuleUnload(b.module));
        driver_end(NULL);
    }
    driver_begin(NULL);
    bench b = set_up();
    tear_down(&b);
    driver_end(NULL);
}

/* -- counters ------------------------------------------------------------------------------------------------------ */

static void test_counters(void **state)
{
    (void)state;
    cuda_sim_kernel kernels[4];
    bench b = set_up();
    cu.counters_reset();
    OK(driver_launch(driver_function(b.module, "store"), 2, 64, 0, b.stream, b.words));
    OK(driver_launch(driver_function(b.module, "few"), 1, 32, 0, b.stream, b.words));
    OK(driver_launch(driver_function(b.module, "store"), 1, 64, 0, b.stream, b.words));
    OK(cu.cuStreamSynchronize(b.stream));
    assert_int_equal(cu.counters_read(kernels, 4, sizeof kernels[0]), 2);
    assert_string_equal(kernels[0].name, "store");
    assert_int_equal(kernels[0].launches, 2);
    assert_int_equal(kernels[0].total.warp_instructions, 6 * 4); /* 6 warps of 4 instructions */
    assert_int_equal(kernels[0].total.thread_instructions, 6 * 4 * 32);
    assert_string_equal(kernels[1].name, "few");
    assert_int_equal(cu.counters_read(kernels, 4, 8), 0); /* another layout */
    cu.counters_reset();
    assert_int_equal(cu.counters_read(kernels, 4, sizeof kernels[0]), 0);
    tear_down(&b);
}

int driver_test_launches(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limits, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_shared_memory, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_clusters, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_counters, driver_begin, driver_end),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests_name("launches", tests, NULL, NULL);
}
