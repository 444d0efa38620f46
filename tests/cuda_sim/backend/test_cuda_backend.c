/* test_cuda_backend.c - the CUDA backend on the stand-in driver: absence, contexts, errors, modules, queues. */
#include "cuda_test.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

sim_control sim;

void cuda_expect(hal_status want, hal_status got, const char *call, const char *file, int line)
{
    if (got == want)
        return;
    print_error("%s:%d: %s gave %s, not %s; last error: %s\n", file, line, call, hal_status_name(got),
                hal_status_name(want), hal_last_error());
    _fail(file, line);
}

void cuda_expect_error(const char *part)
{
    const char *text = hal_last_error();
    if (strchr(text, '\n') != NULL || strstr(text, part) == NULL)
        fail_msg("the last error does not say '%s': %s", part, text);
}

hal_device *cuda_open(void)
{
    hal_device *device;
    OK(hal_device_open(NULL, &device));
    return device;
}

void cuda_close(hal_device *device)
{
    hal_device_destroy(device);
    if (sim.errors())
        fail_msg("the driver was misused: %s", sim.last_error());
    assert_int_equal(sim.live(), 0);
}

hal_module *cuda_module(hal_device *device)
{
    static char ptx[16384];
    hal_module *module;
    FILE *file = fopen(CUDA_SIM_PTX, "r");
    assert_non_null(file);
    size_t size = fread(ptx, 1, sizeof ptx - 1, file);
    fclose(file);
    ptx[size] = 0;
    OK(hal_module_create(device, HAL_MODULE(.label = "tests", .cuda_ptx = ptx), &module));
    return module;
}

hal_kernel *cuda_kernel(hal_module *module, const char *name, uint32_t bindings, uint32_t args_size)
{
    hal_kernel *kernel;
    hal_kernel_desc desc = {.struct_size = sizeof desc, .binding_count = bindings, .args_size = args_size};
    desc.group[0] = strcmp(name, "spin") == 0 ? 1 : 64;
    for (uint32_t i = 0; i < bindings; i++)
        desc.bindings[i] = i + 1 < bindings ? HAL_READ : HAL_READ_WRITE;
    OK(hal_kernel_create(module, name, &desc, &kernel));
    return kernel;
}

hal_buffer *cuda_buffer(hal_device *device, uint64_t size)
{
    hal_buffer *buffer;
    OK(hal_buffer_create(device, HAL_BUFFER(.size = size), &buffer));
    return buffer;
}

hal_stream *cuda_stream(hal_device *device)
{
    hal_stream *stream;
    OK(hal_stream_create(device, NULL, &stream));
    return stream;
}

void cuda_check(hal_stream *stream, hal_buffer *buffer, uint32_t n, uint32_t first, uint32_t step)
{
    uint32_t *values = malloc(4 * (size_t)n);
    assert_non_null(values);
    OK(hal_cmd_download(hal_stream_cmdlist(stream), values, hal_range(buffer, 0, 4ull * n)));
    OK(hal_stream_wait(stream, SOON));
    for (uint32_t i = 0; i < n; i++)
        if (values[i] != first + i * step)
            fail_msg("element %u is %u, not %u", i, values[i], first + i * step);
    free(values);
}

/* -- absence: in a child, as the driver reads its environment once ------------------------------------------------- */

static void absent(const char *variable, const char *value, const char *reason)
{
    int pipes[2];
    char text[1024];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        dup2(pipes[1], 1);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_cuda_backend", "--reason", (char *)NULL);
        _exit(99);
    }
    close(pipes[1]);
    ssize_t size = read(pipes[0], text, sizeof text - 1);
    int status;
    waitpid(child, &status, 0);
    close(pipes[0]);
    assert_true(size > 0);
    text[size] = 0;
    if (!strstr(text, reason) || !WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s=%s: wanted '%s', got: %s", variable, value, reason, text);
}

/* What the child does: say why there is no device, and that opening one fails. */
static int say_reason(void)
{
    hal_device *device;
    hal_device_list *list;
    if (hal_device_list_create("cuda", &list) != HAL_OK || hal_device_list_count(list) != 1)
        return 1;
    const hal_device_entry *entry = hal_device_list_get(list, 0);
    if (entry->available || hal_device_open(NULL, &device) >= HAL_OK || device)
        return 2;
    printf("%s\n", entry->reason);
    hal_device_list_destroy(list);
    return 0;
}

static void test_absent(void **state)
{
    (void)state;
    absent("HAL_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", "install the NVIDIA driver");
    absent("HAL_CUDA_LIBRARY", "libm.so.6", "it is no CUDA driver");
    absent("HAL_CUDA_SIM_DEVICES", "0", "there is no CUDA device");
    absent("HAL_CUDA_SIM_VERSION", "11080", "supports CUDA 11.8, libhal needs 12.0");
    absent("HAL_CUDA_SIM_FAIL", "cuInit:1:999,cuInit:1:999", "CUDA_ERROR_UNKNOWN");
    absent("HAL_CUDA_SIM_FAIL", "cuInit:1:34,cuInit:1:34", "link-time stub");
}

static void test_no_such_index(void **state)
{
    (void)state;
    hal_device *device;
    EXPECT(HAL_ERROR_NOT_FOUND, hal_device_open(HAL_DEVICE(.select = "cuda:7"), &device));
}

static void test_info(void **state)
{
    (void)state;
    hal_device *device = cuda_open();
    const hal_device_info *info = hal_device_get_info(device);
    assert_string_equal(info->backend, "cuda");
    assert_string_equal(info->name, "Simulated H100");
    assert_string_equal(info->pci, "0000:41:00.0");
    assert_string_equal(info->uuid, "fafafafafafafafafafafafafafafa00");
    assert_int_equal(info->compute_capability, 90);
    assert_int_equal(info->max_shared_memory, 227 * 1024);
    assert_true(info->bf16 && info->fp8 && info->matrix_units && info->async_matrix && info->priorities);
    assert_true(info->native_replay);
    cuda_close(device);
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */

static void some_work(hal_device *device)
{
    hal_module *module = cuda_module(device);
    hal_kernel *fill = cuda_kernel(module, "fill_index", 1, 8);
    hal_buffer *buffer = cuda_buffer(device, 4096);
    hal_stream *stream = cuda_stream(device);
    OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), fill, HAL_GRID1(16), HAL_SPANS(hal_whole(buffer)),
                        (const uint32_t[]){1024, 7}, 8));
    cuda_check(stream, buffer, 1024, 7, 1);
    hal_stream_destroy(stream);
    hal_buffer_destroy(buffer);
    hal_kernel_destroy(fill);
    hal_module_destroy(module);
}

static void test_context_of_caller(void **state)
{
    (void)state;
    void *before = NULL, *after = NULL, *popped = NULL;
    hal_device *device = cuda_open();
    sim.get_current(&before);
    assert_null(before);
    some_work(device);
    sim.get_current(&after);
    assert_null(after);
    hal_device_destroy(device);

    /* With a context of the caller's own, here another device's, in place. */
    hal_device *other;
    OK(hal_device_open(HAL_DEVICE(.select = "cuda:1"), &other));
    hal_stream *stream = cuda_stream(other);
    hal_buffer *buffer = cuda_buffer(other, 64);
    void *library = dlopen(getenv("HAL_CUDA_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*release)(int) = (int (*)(int))dlsym(library, "cuDevicePrimaryCtxRelease_v2");
    assert_int_equal(retain(&before, 0), 0);
    assert_int_equal(sim.push(before), 0);
    some_work(other);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), &(uint32_t){3}, 4));
    cuda_check(stream, buffer, 16, 3, 0);
    sim.get_current(&after);
    assert_ptr_equal(before, after);
    assert_int_equal(sim.pop(&popped), 0);
    assert_ptr_equal(popped, before);
    sim.get_current(&after);
    assert_null(after);
    assert_int_equal(release(0), 0);
    dlclose(library);
    hal_stream_destroy(stream);
    hal_buffer_destroy(buffer);
    cuda_close(other);
}

/* A child of fork cannot use CUDA, and is told so. */
static void test_fork(void **state)
{
    (void)state;
    cuda_close(cuda_open());
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0) {
        hal_device_list *list;
        hal_device_list_create("cuda", &list);
        const hal_device_entry *entry = hal_device_list_get(list, 0);
        _exit(entry && !entry->available && strstr(entry->reason, "child of fork") ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

static void test_out_of_memory(void **state)
{
    (void)state;
    hal_buffer *buffer;
    hal_device *device = cuda_open();
    for (int i = 0; i < 3; i++) {
        EXPECT(HAL_ERROR_OUT_OF_MEMORY,
               hal_buffer_create(device, HAL_BUFFER(.size = UINT64_C(1) << 40, .dedicated = true), &buffer));
        /* libhal may ask again once it has freed what it could. */
        for (int k = 0; k < 2; k++)
            sim.inject("cuMemAlloc_v2", 1, 2);
        EXPECT(HAL_ERROR_OUT_OF_MEMORY,
               hal_buffer_create(device, HAL_BUFFER(.size = 4096, .dedicated = true), &buffer));
        cuda_expect_error("CUDA_ERROR_OUT_OF_MEMORY");
        sim.inject("cuMemAlloc_v2", 0, 0);
        for (int k = 0; k < 2; k++)
            sim.inject("cuMemHostAlloc", 1, 2);
        EXPECT(HAL_ERROR_OUT_OF_MEMORY,
               hal_buffer_create(device, HAL_BUFFER(.size = 4096, .memory = HAL_MEMORY_HOST), &buffer));
        sim.inject("cuMemHostAlloc", 0, 0);
        assert_null(buffer);
        OK(hal_device_status(device));
        some_work(device);
    }
    cuda_close(device);
}

static void test_sticky(void **state)
{
    (void)state;
    static const int codes[] = {700, 716, 719};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        hal_device *device = cuda_open();
        hal_module *module = cuda_module(device);
        hal_kernel *fill = cuda_kernel(module, "fill_index", 1, 8);
        hal_buffer *buffer = cuda_buffer(device, 4096), *another;
        hal_stream *stream = cuda_stream(device);
        sim.inject("cuLaunchKernel", 1, codes[i]);
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_cmd_dispatch(hal_stream_cmdlist(stream), fill, HAL_GRID1(16),
                                                       HAL_SPANS(hal_whole(buffer)), (const uint32_t[]){1024, 7}, 8));
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_buffer_create(device, HAL_BUFFER(.size = 4096), &another));
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_stream_wait(stream, SOON));
        EXPECT(HAL_ERROR_DEVICE_LOST, hal_device_status(device));
        hal_buffer_destroy(buffer);
        hal_kernel_destroy(fill);
        hal_module_destroy(module);
        hal_stream_destroy(stream);
        hal_device_destroy(device);
        /* A new device is a new context. */
        device = cuda_open();
        some_work(device);
        hal_device_destroy(device);
        assert_int_equal(sim.errors(), 0);
    }
}

/* A kernel that leaves its memory is noticed by the wait. */
static void test_illegal_address(void **state)
{
    (void)state;
    hal_device *device = cuda_open();
    hal_module *module = cuda_module(device);
    hal_kernel *fill = cuda_kernel(module, "fill_index", 1, 8);
    hal_buffer *buffer;
    OK(hal_buffer_create(device, HAL_BUFFER(.size = 4096, .dedicated = true), &buffer));
    hal_stream *stream = cuda_stream(device);
    unsigned errors = sim.errors();
    OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), fill, HAL_GRID1(1 << 16), HAL_SPANS(hal_whole(buffer)),
                        (const uint32_t[]){1 << 22, 7}, 8));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_stream_wait(stream, SOON));
    assert_int_equal(sim.errors(), errors + 1);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
    hal_kernel_destroy(fill);
    hal_module_destroy(module);
    hal_device_destroy(device);
}

/* -- modules ------------------------------------------------------------------------------------------------------- */

static void test_variants(void **state)
{
    (void)state;
    hal_kernel *kernel;
    hal_device *device = cuda_open();
    hal_module *module = cuda_module(device);
    hal_constant constants[] = {{"FIRST", 100, 3}, {"SECOND", 101, 5}};
    hal_kernel_desc desc = {.struct_size = sizeof desc,
                            .binding_count = 1,
                            .args_size = 4,
                            .bindings = {HAL_WRITE},
                            .group = {64, 1, 1},
                            .constants = constants,
                            .constant_count = 2};
    OK(hal_kernel_create(module, "fill_const", &desc, &kernel));
    hal_kernel_destroy(kernel);
    constants[1].value = 6;
    EXPECT(HAL_ERROR_NOT_FOUND, hal_kernel_create(module, "fill_const", &desc, &kernel));
    cuda_expect_error("fill_const__3_6");
    /* A plain entry is no stand-in for a variant. */
    EXPECT(HAL_ERROR_NOT_FOUND, hal_kernel_create(module, "copy_u32", &desc, &kernel));
    cuda_expect_error("copy_u32__3_6");
    hal_module_destroy(module);
    cuda_close(device);
}

static void test_wrong_parameters(void **state)
{
    (void)state;
    hal_kernel *kernel;
    hal_device *device = cuda_open();
    hal_module *module = cuda_module(device);
    hal_kernel_desc desc = {.struct_size = sizeof desc, .binding_count = 1, .args_size = 4, .bindings = {HAL_WRITE}};
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    cuda_expect_error("parameter 1 of kernel fill_index has 8 bytes");
    desc.args_size = 0;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    cuda_expect_error("takes more than 1 parameters");
    desc.binding_count = 3;
    desc.bindings[1] = desc.bindings[2] = HAL_READ;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    hal_module_destroy(module);
    cuda_close(device);
}

static void test_images(void **state)
{
    (void)state;
    hal_module *module;
    hal_device *device = cuda_open();
    EXPECT(HAL_ERROR_COMPILE, hal_module_create(device, HAL_MODULE(.cuda_ptx = "int main() {}"), &module));
    cuda_expect_error("Missing .version directive");
    EXPECT(
        HAL_ERROR_COMPILE,
        hal_module_create(device, HAL_MODULE(.cuda_ptx = ".version 9.7\n.target sm_80\n.address_size 64\n"), &module));
    cuda_expect_error("CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    EXPECT(HAL_ERROR_COMPILE,
           hal_module_create(device, HAL_MODULE(.cuda_cubin = "\177ELF", .cuda_cubin_size = 4), &module));
    cuda_expect_error("not a whole cubin");
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_module_create(device, HAL_MODULE(.opencl_c = "kernel void f() {}"), &module));
    cuda_expect_error("cuda_ptx, cuda_cubin or cuda_c");
    cuda_close(device);
}

static void test_no_nvrtc(void **state)
{
    (void)state;
    hal_module *module;
    hal_device *device = cuda_open();
    setenv("HAL_NVRTC_LIBRARY", "/nonexistent/libnvrtc.so", 1);
    EXPECT(HAL_ERROR_UNAVAILABLE,
           hal_module_create(device, HAL_MODULE(.cuda_c = "extern \"C\" __global__ void f() {}"), &module));
    cuda_expect_error("NVRTC");
    unsetenv("HAL_NVRTC_LIBRARY");
    cuda_close(device);
}

/* The real NVRTC where there is one. Its cubin is refused, as one for another device is; its PTX runs. */
static void test_nvrtc(void **state)
{
    (void)state;
    static const char source[] = "struct args { unsigned n, base; };\n"
                                 "extern \"C\" __global__ void fill_index(unsigned *out, args a)\n"
                                 "{ if (threadIdx.x < a.n) out[threadIdx.x] = a.base + THIRD; }\n";
    hal_module *module;
    hal_kernel *kernel;
    hal_device *device = cuda_open();
    hal_status status =
        hal_module_create(device, HAL_MODULE(.cuda_c = source, .options = "-cl-mad-enable -lineinfo"), &module);
    if (status == HAL_ERROR_UNAVAILABLE) {
        print_message("no NVRTC here: %s\n", hal_last_error());
        cuda_close(device);
        skip();
    }
    OK(status);
    hal_kernel_desc desc = {.struct_size = sizeof desc,
                            .binding_count = 1,
                            .args_size = 8,
                            .bindings = {HAL_WRITE},
                            .group = {64, 1, 1},
                            .constants = &(hal_constant){"THIRD", 0, 9},
                            .constant_count = 1};
    for (int i = 0; i < 2; i++) { /* compiled, then from the cache */
        OK(hal_kernel_create(module, "fill_index", &desc, &kernel));
        hal_kernel_destroy(kernel);
    }
    EXPECT(HAL_ERROR_NOT_FOUND, hal_kernel_create(module, "other", &desc, &kernel));
    cuda_expect_error("extern \"C\"");
    desc.constant_count = 0;
    EXPECT(HAL_ERROR_COMPILE, hal_kernel_create(module, "fill_index", &desc, &kernel));
    cuda_expect_error("identifier \"THIRD\" is undefined");
    hal_module_destroy(module);
    cuda_close(device);
}

/* -- queues -------------------------------------------------------------------------------------------------------- */

/* A full queue is waited for with a deadline, and nothing is lost. */
static void test_full_queue(void **state)
{
    (void)state;
    hal_device *device;
    OK(hal_device_open(HAL_DEVICE(.submit_timeout = HAL_MILLISECONDS(20)), &device));
    hal_module *module = cuda_module(device);
    hal_kernel *spin = cuda_kernel(module, "spin", 1, 4), *scale = cuda_kernel(module, "scale_u32", 1, 12);
    hal_buffer *out = cuda_buffer(device, 4096), *data = cuda_buffer(device, 4096);
    hal_stream *stream = cuda_stream(device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    OK(hal_cmd_fill(list, hal_whole(data), &(uint32_t){0}, 4));
    OK(hal_cmd_dispatch(list, spin, HAL_GRID1(1), HAL_SPANS(hal_whole(out)), &(uint32_t){8000000}, 4));
    uint32_t told = 0;
    hal_status status = HAL_OK;
    while (status == HAL_OK && told < 100000) {
        status =
            hal_cmd_dispatch(list, scale, HAL_GRID1(1), HAL_SPANS(hal_whole(data)), (const uint32_t[]){1, 1, 1}, 12);
        told += status == HAL_OK;
    }
    assert_int_equal(status, HAL_TIMEOUT);
    cuda_expect_error("queue is full");
    assert_in_range(told, 500, 1024);
    OK(hal_stream_wait(stream, SOON));
    cuda_check(stream, data, 1, told, 0);
    hal_stream_destroy(stream);
    hal_buffer_destroy(out);
    hal_buffer_destroy(data);
    hal_kernel_destroy(spin);
    hal_kernel_destroy(scale);
    hal_module_destroy(module);
    cuda_close(device);
}

static void test_steady_state(void **state)
{
    (void)state;
    hal_device *device = cuda_open();
    hal_module *module = cuda_module(device);
    hal_kernel *scale = cuda_kernel(module, "scale_u32", 1, 12);
    hal_buffer *data = cuda_buffer(device, 4096);
    hal_stream *stream = cuda_stream(device);
    unsigned live = 0;
    for (int turn = 0; turn < 40; turn++) {
        for (int i = 0; i < 100; i++)
            OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), scale, HAL_GRID1(1), HAL_SPANS(hal_whole(data)),
                                (const uint32_t[]){1, 1, 1}, 12));
        OK(hal_stream_wait(stream, SOON));
        if (turn == 20)
            live = sim.live();
    }
    assert_int_equal(sim.live(), live); /* events are used again */
    hal_stream_destroy(stream);
    hal_buffer_destroy(data);
    hal_kernel_destroy(scale);
    hal_module_destroy(module);
    cuda_close(device);
}

/* -- imports ------------------------------------------------------------------------------------------------------- */

static void test_import_twice(void **state)
{
    (void)state;
    hal_buffer *first, *second, *over;
    hal_device *device = cuda_open();
    uint8_t *pages = aligned_alloc(4096, 16384);
    assert_non_null(pages);
    OK(hal_buffer_import(device, pages, 8192, NULL, NULL, NULL, &first));
    OK(hal_buffer_import(device, pages + 100, 1000, NULL, NULL, NULL, &second));
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_buffer_import(device, pages + 4096, 8192, NULL, NULL, NULL, &over));
    cuda_expect_error("registered already");
    hal_buffer_destroy(first);
    hal_stream *stream = cuda_stream(device);
    memset(pages, 0, 16384);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(second), &(uint8_t){9}, 1));
    OK(hal_stream_wait(stream, SOON));
    assert_int_equal(pages[99], 0);
    assert_int_equal(pages[100], 9);
    assert_int_equal(pages[1099], 9);
    assert_int_equal(pages[1100], 0);
    hal_buffer_destroy(second);
    hal_stream_destroy(stream);
    OK(hal_device_wait(device, SOON));
    OK(hal_buffer_import(device, pages + 4096, 8192, NULL, NULL, NULL, &over));
    hal_buffer_destroy(over);
    cuda_close(device);
    free(pages);
}

static int find_sim(void)
{
    const char *path = getenv("HAL_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "set HAL_CUDA_LIBRARY to the stand-in libcuda.so.1: %s\n", path ? dlerror() : "not set");
        return 1;
    }
#define FIND(member, name) *(void **)&sim.member = dlsym(library, name)
    FIND(errors, "cuda_sim_errors");
    FIND(last_error, "cuda_sim_last_error");
    FIND(calls, "cuda_sim_calls");
    FIND(live, "cuda_sim_live");
    FIND(inject, "cuda_sim_fail");
    FIND(get_current, "cuCtxGetCurrent");
    FIND(push, "cuCtxPushCurrent_v2");
    FIND(pop, "cuCtxPopCurrent_v2");
#undef FIND
    return !sim.errors || !sim.pop;
}

int main(int argc, char **argv)
{
    setenv("HAL_BACKEND", "cuda", 1);
    /* A failed open lists the other backends' devices: leave their drivers out of it. */
    setenv("VK_DRIVER_FILES", "/nonexistent", 1);
    setenv("VK_ICD_FILENAMES", "/nonexistent", 1);
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    if (argc == 2 && strcmp(argv[1], "--reason") == 0)
        return say_reason();
    setenv("HAL_CUDA_SIM_DEVICES", "2", 0);
    if (find_sim() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_no_such_index),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_context_of_caller),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_wrong_parameters),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_no_nvrtc),
        cmocka_unit_test(test_nvrtc),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_full_queue),
        cmocka_unit_test(test_steady_state),
        cmocka_unit_test(test_import_twice),
        cmocka_unit_test(test_sticky),
    };
    int failed = cmocka_run_group_tests_name("cuda backend", tests, NULL, NULL);
    failed += cuda_test_lists();
    /* Last: the stand-in counts what the kernel did as misuse. */
    const struct CMUnitTest last[] = {cmocka_unit_test(test_illegal_address)};
    return (failed + cmocka_run_group_tests_name("cuda misuse", last, NULL, NULL)) != 0;
}
