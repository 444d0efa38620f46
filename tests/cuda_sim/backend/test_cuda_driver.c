/* test_cuda_driver.c - the stand-in's driver API by itself: devices, images, variables, memory, tensor maps, entry
 * points. Run once for each profile. */
#include "driver_test.h"

#include <dlfcn.h>
#include <elf.h>

driver cu;
int capability;

const char driver_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".global .align 4 .u32 numbers[4] = {1, 2, 3, 4};\n"
    ".visible .entry store(.param .u64 out)\n{\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; atom.global.add.u32 %r1, [%rd2], 1; ret;\n}\n"
    ".visible .entry wild(.param .u64 out)\n{\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, 5; st.global.u32 [%rd2+4096], %r1; ret;\n}\n"
    ".visible .entry odd(.param .u64 out)\n{\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, 5; st.global.u32 [%rd2+2], %r1; ret;\n}\n"
    ".visible .entry stale(.param .u64 out)\n{\n"
    ".reg .b64 %rd<3>; .reg .b32 %r<2>; .shared .align 4 .b8 fresh[16];\n"
    "ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; ld.shared.u32 %r1, [fresh];\n"
    "st.global.u32 [%rd2], %r1; ret;\n}\n"
    ".visible .entry stuck(.param .u64 out)\n{\n"
    "barrier.sync 1, 64; ret;\n}\n"
    ".visible .entry trapped(.param .u64 out)\n{\ntrap;\n}\n"
    ".visible .entry table(.param .u64 out)\n{\n"
    ".reg .b32 %r<2>;\n"
    "ld.global.u32 %r1, [numbers+8]; add.s32 %r1, %r1, 10; st.global.u32 [numbers+8], %r1; ret;\n}\n"
    ".visible .entry few(.param .u64 out)\n.maxntid 64, 2, 1\n{\nret;\n}\n"
    ".visible .entry exact(.param .u64 out)\n.reqntid 96, 1, 1\n{\nret;\n}\n";

void driver_is(int want, nv_result got, const char *call, const char *file, int line)
{
    const char *name = "?";
    if ((int)got == want)
        return;
    cu.cuGetErrorName(got, &name);
    print_error("%s:%d: %s gave %d (%s), not %d; last error: %s\n", file, line, call, (int)got, name, want,
                cu.last_error());
    _fail(file, line);
}

int driver_begin(void **state)
{
    nv_context context;
    (void)state;
    return cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxPushCurrent_v2(context);
}

int driver_end(void **state)
{
    nv_context context;
    (void)state;
    cu.cuCtxPopCurrent_v2(&context);
    cu.cuDevicePrimaryCtxRelease_v2(0);
    return 0;
}

nv_module driver_module(const char *ptx)
{
    nv_module module;
    OK(cu.cuModuleLoadData(&module, ptx));
    return module;
}

nv_function driver_function(nv_module module, const char *name)
{
    nv_function function;
    OK(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

nv_stream driver_stream(void)
{
    nv_stream stream;
    OK(cu.cuStreamCreate(&stream, NV_STREAM_NON_BLOCKING));
    return stream;
}

nv_ptr driver_words(uint32_t count)
{
    nv_ptr pointer;
    uint32_t *zero = calloc(count, 4);
    assert_non_null(zero);
    OK(cu.cuMemAlloc_v2(&pointer, 4 * (size_t)count));
    OK(cu.cuMemcpyHtoD_v2(pointer, zero, 4 * (size_t)count));
    free(zero);
    return pointer;
}

uint32_t driver_word(nv_ptr address)
{
    uint32_t word;
    OK(cu.cuMemcpyDtoH_v2(&word, address, 4));
    return word;
}

nv_result driver_launch(nv_function function, unsigned grid, unsigned block, unsigned shared, nv_stream stream,
                        nv_ptr address)
{
    void *params[] = {&address};
    return cu.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, params, NULL);
}

/* -- devices ------------------------------------------------------------------------------------------------------- */

static int attribute(int number)
{
    int value = -1;
    OK(cu.cuDeviceGetAttribute(&value, (nv_device_attribute)number, 0));
    return value;
}

static void test_profile(void **state)
{
    (void)state;
    static const struct {
        int capability, multiprocessors, optin, clusters;
    } known[] = {{80, 108, 163 * 1024, 0}, {90, 132, 227 * 1024, 1}, {100, 148, 227 * 1024, 1}};
    size_t i = 0;
    while (i < 3 && known[i].capability != capability)
        i++;
    assert_true(i < 3);
    assert_int_equal(attribute(NV_ATTRIBUTE_MULTIPROCESSOR_COUNT), known[i].multiprocessors);
    assert_int_equal(attribute(NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN), known[i].optin);
    assert_int_equal(attribute(NV_ATTRIBUTE_CLUSTER_LAUNCH), known[i].clusters);
    assert_int_equal(attribute(NV_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK), 65536);
    assert_int_equal(attribute(NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 48 * 1024);
    int value;
    IS(NV_ERROR_INVALID_VALUE, cu.cuDeviceGetAttribute(&value, (nv_device_attribute)9999, 0));
    IS(NV_ERROR_INVALID_DEVICE, cu.cuDeviceGetAttribute(&value, NV_ATTRIBUTE_WARP_SIZE, 7));
}

/* -- images -------------------------------------------------------------------------------------------------------- */

static nv_result load(const char *version, const char *target, const char *body)
{
    char ptx[1024];
    nv_module module;
    snprintf(ptx, sizeof ptx, ".version %s\n.target %s\n.address_size 64\n%s", version, target, body);
    nv_result result = cu.cuModuleLoadData(&module, ptx);
    if (result == NV_SUCCESS)
        OK(cu.cuModuleUnload(module));
    return result;
}

static void test_targets(void **state)
{
    (void)state;
    static const char kernel[] = ".visible .entry f()\n{\nret;\n}\n";
    OK(load("7.0", "sm_80", kernel));
    IS(capability >= 90 ? NV_SUCCESS : NV_ERROR_NO_BINARY_FOR_GPU, load("8.0", "sm_90", kernel));
    IS(capability == 90 ? NV_SUCCESS : NV_ERROR_NO_BINARY_FOR_GPU, load("8.0", "sm_90a", kernel));
    IS(capability >= 100 ? NV_SUCCESS : NV_ERROR_NO_BINARY_FOR_GPU, load("8.6", "sm_100", kernel));
    IS(NV_ERROR_NO_BINARY_FOR_GPU, load("8.7", "sm_120", kernel));
    IS(NV_ERROR_UNSUPPORTED_PTX_VERSION, load("9.9", "sm_80", kernel));
}

static void test_machine_code(void **state)
{
    (void)state;
    nv_module module;
    Elf64_Ehdr header = {.e_machine = EM_CUDA, .e_flags = (Elf64_Word)capability << 8};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    IS(NV_ERROR_NO_BINARY_FOR_GPU, cu.cuModuleLoadData(&module, &header));
    header.e_machine = EM_X86_64;
    IS(NV_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, &header));
}

static void test_compile_log(void **state)
{
    (void)state;
    char log[256] = "";
    nv_jit_option options[] = {NV_JIT_ERROR_LOG_BUFFER, NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    nv_module module;
    static const char bad[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f()\n{\nfrobnicate;\n}\n";
    IS(NV_ERROR_INVALID_PTX, cu.cuModuleLoadDataEx(&module, bad, 2, options, values));
    assert_non_null(strstr(log, "line 6"));
    assert_non_null(strstr(log, "frobnicate"));
}

static void test_variables(void **state)
{
    (void)state;
    nv_module first = driver_module(driver_ptx), second = driver_module(driver_ptx);
    nv_stream stream = driver_stream();
    nv_ptr a, b, unused;
    size_t bytes = 0;
    OK(cu.cuModuleGetGlobal_v2(&a, &bytes, first, "numbers"));
    assert_int_equal(bytes, 16);
    OK(cu.cuModuleGetGlobal_v2(&b, NULL, second, "numbers"));
    IS(NV_ERROR_NOT_FOUND, cu.cuModuleGetGlobal_v2(&unused, &bytes, first, "nothing"));
    OK(driver_launch(driver_function(first, "table"), 1, 1, 0, stream, 0));
    OK(cu.cuStreamSynchronize(stream));
    assert_int_equal(driver_word(a + 8), 13);
    assert_int_equal(driver_word(b + 8), 3); /* each module has its own */
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuModuleUnload(first));
    OK(cu.cuModuleUnload(second));
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
    (void)state;
    size_t available, total, left;
    nv_ptr half, rest;
    OK(cu.cuMemGetInfo_v2(&available, &total));
    assert_int_equal(available, total);
    OK(cu.cuMemAlloc_v2(&half, total / 2));
    OK(cu.cuMemGetInfo_v2(&left, &total));
    assert_int_equal(left, available - total / 2);
    IS(NV_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&rest, total / 2 + 1));
    IS(NV_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(half + total / 2 - 4, &total, 8));
    IS(NV_ERROR_INVALID_VALUE, cu.cuMemFree_v2(half + 256));
    OK(cu.cuMemFree_v2(half));
    IS(NV_ERROR_INVALID_VALUE, cu.cuMemFree_v2(half));
}

/* -- entry points -------------------------------------------------------------------------------------------------- */

static void test_entry_points(void **state)
{
    (void)state;
    void *function = NULL;
    nv_query found;
    OK(cu.cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &found));
    assert_int_equal(found, NV_QUERY_FOUND);
    assert_true(function == *(void **)&cu.cuMemAlloc_v2);
    OK(cu.cuGetProcAddress_v2("cuGraphInstantiate", &function, 13000, 0, NULL));
    assert_true(function == *(void **)&cu.cuGraphInstantiateWithFlags);
    IS(NV_ERROR_NOT_FOUND, cu.cuGetProcAddress_v2("cuMemAlloc_v2", &function, 12000, 0, &found));
    assert_int_equal(found, NV_QUERY_NOT_FOUND);
    assert_null(function);
    IS(NV_ERROR_NOT_FOUND, cu.cuGetProcAddress_v2("cuMemAlloc", &function, 2000, 0, &found));
    assert_int_equal(found, NV_QUERY_VERSION);
}

/* -- tensor maps --------------------------------------------------------------------------------------------------- */

typedef struct tensor {
    nv_tensor_type type;
    uint32_t rank;
    uintptr_t address;
    uint64_t size[5], stride[4];
    uint32_t box[5], step[5];
    nv_tensor_interleave interleave;
    nv_tensor_swizzle swizzle;
    nv_tensor_promotion promotion;
    nv_tensor_fill fill;
} tensor;

static nv_result encode(const tensor *t)
{
    static _Alignas(128) nv_tensor_map map;
    return cu.cuTensorMapEncodeTiled(&map, t->type, t->rank, (void *)t->address, t->size, t->stride, t->box, t->step,
                                     t->interleave, t->swizzle, t->promotion, t->fill);
}

/* One change to a good tensor: it is refused. */
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        tensor t = good;                                                                                               \
        t.change;                                                                                                      \
        IS(NV_ERROR_INVALID_VALUE, encode(&t));                                                                        \
    } while (0)

static void test_tensor_maps(void **state)
{
    (void)state;
    const tensor good = {.type = NV_TENSOR_BF16,
                         .rank = 2,
                         .address = 4096,
                         .size = {1000, 300},
                         .stride = {2048},
                         .box = {64, 256},
                         .step = {1, 1},
                         .swizzle = NV_TENSOR_SWIZZLE_128B};
    if (capability < 90) {
        IS(NV_ERROR_NOT_SUPPORTED, encode(&good));
        return;
    }
    OK(encode(&good));
    REFUSED(type = (nv_tensor_type)99);
    REFUSED(rank = 0);
    REFUSED(rank = 6);
    REFUSED(address = 4104);
    REFUSED(size[1] = 0);
    REFUSED(size[1] = (UINT64_C(1) << 32) + 1);
    REFUSED(stride[0] = 2056);
    REFUSED(stride[0] = UINT64_C(1) << 40);
    REFUSED(stride[0] = 1984); /* below a row of 2,000 bytes */
    REFUSED(box[1] = 0);
    REFUSED(box[1] = 257);
    REFUSED(box[0] = 60);  /* 120 bytes: no multiple of 16 */
    REFUSED(box[0] = 128); /* 256 bytes: more than the swizzle's 128 */
    REFUSED(step[1] = 0);
    REFUSED(step[1] = 9);
    REFUSED(interleave = (nv_tensor_interleave)1);
    REFUSED(promotion = (nv_tensor_promotion)4);
    REFUSED(fill = (nv_tensor_fill)2);
    tensor whole = good;
    whole.type = NV_TENSOR_S32;
    whole.stride[0] = 4096;
    whole.box[0] = 32;
    OK(encode(&whole));
    whole.fill = NV_TENSOR_FILL_NAN;
    IS(NV_ERROR_INVALID_VALUE, encode(&whole));
    nv_tensor_map maps[2];
    void *odd = (char *)maps + 64 - (uintptr_t)maps % 64 + 16;
    IS(NV_ERROR_INVALID_VALUE,
       cu.cuTensorMapEncodeTiled(odd, good.type, 2, (void *)good.address, good.size, good.stride, good.box, good.step,
                                 good.interleave, good.swizzle, good.promotion, good.fill));
}

/* ------------------------------------------------------------------------------------------------------------------ */

static bool find(void)
{
    const char *path = getenv("HAL_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "set HAL_CUDA_LIBRARY to the stand-in libcuda.so.1: %s\n", path ? dlerror() : "not set");
        return false;
    }
#define FIND(member, name)            *(void **)&cu.member = dlsym(library, name)
#define NV_FUNCTION(name, parameters) FIND(name, #name);
#define NV_OPTIONAL(name, parameters) FIND(name, #name);
#include "../../../backends/cuda/driver.def"
#include "../driver/extra.def"
    FIND(errors, "cuda_sim_errors");
    FIND(last_error, "cuda_sim_last_error");
    FIND(last_fault, "cuda_sim_last_fault");
    FIND(counters_read, "cuda_sim_counters_read");
    FIND(counters_reset, "cuda_sim_counters_reset");
    return cu.cuInit && cu.counters_reset;
}

int main(void)
{
    int major = 0, minor = 0;
    if (!find() || cu.cuInit(0) != NV_SUCCESS)
        return 1;
    cu.cuDeviceGetAttribute(&major, NV_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    cu.cuDeviceGetAttribute(&minor, NV_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    capability = 10 * major + minor;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile),
        cmocka_unit_test_setup_teardown(test_targets, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_machine_code, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_compile_log, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_variables, driver_begin, driver_end),
        cmocka_unit_test_setup_teardown(test_memory, driver_begin, driver_end),
        cmocka_unit_test(test_entry_points),
        cmocka_unit_test(test_tensor_maps),
    };
    int failed = cmocka_run_group_tests_name("driver", tests, NULL, NULL);
    return (failed + driver_test_launches() + driver_test_streams()) != 0;
}
