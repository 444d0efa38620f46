/* test_cuda_faults.c - kernels that do wrong, on the stand-in, as a user of libhal meets them: the wait says that the
 * device is lost, so does every call after it, the stand-in names kernel, line and thread, and a device that is opened
 * again is good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <hal/hal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *(*last_fault)(void);

#define EXPECT(want, call) expect((want), (call), #call, __LINE__)
#define OK(call)           EXPECT(HAL_OK, call)
static void expect(hal_status want, hal_status got, const char *call, int line)
{
    if (got != want) {
        fail_msg("line %d: %s gave %s, not %s: %s", line, call, hal_status_name(got), hal_status_name(want),
                 hal_last_error());
    }
}

/* A kernel of 64 threads with 4096 bytes at g, %t the thread, %a..%d 32 bits, %x %y 64 bits, h 16, f a float, p and q
 * predicates, and 1024 bytes of shared memory at s. */
typedef struct fault {
    const char *name, *body;
    const char *texts[3]; /* of the report */
} fault;

static void source(char *ptx, size_t size, const char *target, const char *version, const fault *f)
{
    snprintf(ptx, size,
             ".version %s\n.target %s\n.address_size 64\n"
             ".const .align 4 .b32 c[4] = {1, 2, 3, 4};\n"
             ".visible .entry %s(.param .u64 out)\n{\n"
             ".reg .b64 g, %%x, %%y; .reg .b32 %%t, %%a, %%b, %%c, %%d; .reg .b16 h; .reg .f32 f; .reg .pred p, q;\n"
             ".shared .align 128 .b8 s[1024]; .local .align 8 .b8 l[64];\n"
             "ld.param.u64 g, [out]; cvta.to.global.u64 g, g; mov.u32 %%t, %%tid.x; mov.u32 %%a, 1; mov.u32 %%b, s;\n"
             "%s\nret;\n}\n"
             ".visible .entry good(.param .u64 out)\n{\n"
             ".reg .b64 g; .reg .b32 t;\n"
             "ld.param.u64 g, [out]; cvta.to.global.u64 g, g; mov.u32 t, %%tid.x; mad.wide.u32 g, t, 4, g;\n"
             "st.global.u32 [g], t; ret;\n}\n",
             version, target, f->name, f->body);
}

typedef struct work {
    hal_device *device;
    hal_module *module;
    hal_kernel *kernel;
    hal_buffer *buffer;
    hal_stream *stream;
} work;

static work begin(const char *ptx, const char *name)
{
    work w = {0};
    hal_kernel_desc desc = {
        .struct_size = sizeof desc, .binding_count = 1, .bindings = {HAL_READ_WRITE}, .group = {64, 1, 1}};
    OK(hal_device_open(NULL, &w.device));
    OK(hal_module_create(w.device, HAL_MODULE(.label = "faults", .cuda_ptx = ptx), &w.module));
    OK(hal_kernel_create(w.module, name, &desc, &w.kernel));
    OK(hal_buffer_create(w.device, HAL_BUFFER(.size = 4096, .dedicated = true), &w.buffer));
    OK(hal_stream_create(w.device, NULL, &w.stream));
    OK(hal_cmd_dispatch(hal_stream_cmdlist(w.stream), w.kernel, HAL_GRID1(1), HAL_SPANS(hal_whole(w.buffer)), NULL, 0));
    return w;
}

static void end(const work *w)
{
    hal_buffer_destroy(w->buffer);
    hal_stream_destroy(w->stream);
    hal_kernel_destroy(w->kernel);
    hal_module_destroy(w->module);
    hal_device_destroy(w->device);
}

static void expect_good(const char *ptx)
{
    uint32_t values[64] = {0};
    work w = begin(ptx, "good");
    OK(hal_cmd_download(hal_stream_cmdlist(w.stream), values, hal_range(w.buffer, 0, sizeof values)));
    OK(hal_stream_wait(w.stream, HAL_SECONDS(20)));
    for (uint32_t i = 0; i < 64; i++) {
        assert_int_equal(values[i], i);
    }
    end(&w);
}

/* Whether the kernel was stopped for what is wrong with it. */
static bool is_stopped(const char *target, const char *version, const fault *f)
{
    char ptx[8192];
    hal_buffer *more;
    source(ptx, sizeof ptx, target, version, f);
    work w = begin(ptx, f->name);
    const hal_status status = hal_stream_wait(w.stream, HAL_SECONDS(20));
    const char *text = status == HAL_OK ? "nothing was wrong" : last_fault();
    bool told = status == HAL_ERROR_DEVICE_LOST && strncmp(text, f->name, strlen(f->name)) == 0;
    for (size_t i = 0; i < 3 && f->texts[i]; i++) {
        told = told && strstr(text, f->texts[i]);
    }
    print_message("%s %s\n", told ? "  " : "* ", text);
    if (status == HAL_OK) {
        end(&w);
        return false;
    }
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_device_status(w.device));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_buffer_create(w.device, HAL_BUFFER(.size = 4096), &more));
    EXPECT(HAL_ERROR_DEVICE_LOST, hal_stream_wait(w.stream, HAL_SECONDS(1)));
    end(&w);
    expect_good(ptx);
    return told;
}

static void test_portable(void **state)
{
    (void)state;
    static const fault faults[] = {
        {"read_past_the_end", "ld.global.u32 %a, [g+4096];", {"ld.global", "line 10", "thread (0,0,0)"}},
        {"read_before_it", "ld.global.u32 %a, [g+-4];", {"ld.global", "outside"}},
        {"write_across_the_end", "st.global.v4.u32 [g+4096], {%a, %a, %a, %a};", {"st.global", "16 bytes"}},
        {"one_thread_writes_past", "mad.wide.u32 %x, %t, 68, g; st.global.u32 [%x], %a;", {"thread (61,0,0)"}},
        {"write_at_null", "mov.u64 %x, 0; st.global.u32 [%x], %a;", {"st.global", "outside"}},
        {"generic_nowhere", "mov.u64 %x, 4096; ld.u32 %a, [%x];", {"ld", "outside"}},
        {"atomic_past_the_end", "atom.global.add.u32 %a, [g+4096], 1;", {"atom", "outside"}},
        {"reduction_past_the_end", "red.global.add.u32 [g+4096], 1;", {"red", "outside"}},
        {"copy_from_outside", "cp.async.ca.shared.global [%b], [g+4096], 16;", {"cp.async", "outside"}},
        {"shared_past_the_end", "st.shared.u32 [%b+1024], %a;", {"st.shared", "shared"}},
        {"shared_before_it", "st.shared.u32 [%b+-4], %a;", {"st.shared"}},
        {"constant_past_the_end", "ld.const.u32 %a, [c+16];", {"ld.const"}},
        {"local_past_the_end", "st.local.u32 [l+64], %a;", {"st.local"}},
        {"copy_into_nothing", "cp.async.ca.shared.global [%b+1020], [g], 16;", {"cp.async"}},
        {"global_misaligned", "ld.global.u32 %a, [g+2];", {"ld.global", "not a multiple of the access\'s 4 bytes"}},
        {"vector_misaligned",
         "ld.global.v4.u32 {%a, %b, %c, %d}, [g+8];",
         {"not a multiple of the access\'s 16 bytes"}},
        {"shared_misaligned", "st.shared.u32 [%b+2], %a;", {"not a multiple of the access\'s 4 bytes"}},
        {"local_misaligned", "st.local.u32 [l+1], %a;", {"not a multiple of the access\'s 4 bytes"}},
        {"atomic_misaligned", "atom.global.add.u32 %a, [g+1], 1;", {"not a multiple of the access\'s 4 bytes"}},
        {"matrix_misaligned",
         "st.shared.u32 [%b], %a; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%b+8];",
         {"ldmatrix", "not a multiple of the access\'s 16 bytes"}},
        {"undefined_register", "add.u32 %a, %c, 1; st.global.u32 [g], %a;", {"add.u32", "%c", "never written"}},
        {"undefined_in_half",
         "setp.lt.u32 p, %t, 40; @p mov.u32 %c, 1; st.global.u32 [g], %c;",
         {"%c", "thread (40,0,0)"}},
        {"undefined_shared", "ld.shared.u32 %a, [%b];", {"ld.shared", "nobody has written"}},
        {"undefined_local", "ld.local.u32 %a, [l]; st.global.u32 [g], %a;", {"ld.local"}},
        {"waits_alone", "barrier.sync 1, 96;", {"deadlock"}},
        {"waits_for_two",
         "setp.lt.u32 p, %t, 32; @p bra A; barrier.sync 2, 64; bra B; A: barrier.sync 3, 64; B:",
         {"deadlock", "barrier 2", "barrier 3"}},
        {"diverged_at_a_barrier",
         "setp.lt.u32 p, %t, 16; @p bra A; bar.sync 1; bra B; A: bar.sync 0; B:",
         {"bar.sync", "divergent"}},
        {"diverged_at_a_shuffle",
         "setp.lt.u32 p, %t, 16; @p shfl.sync.bfly.b32 %a, %a, 1, 31, -1; bar.sync 0;",
         {"divergent: lanes"}},
        {"races_of_warps", "st.shared.u32 [%b], %a;", {"race", "shared+0x0"}},
        {"races_of_lanes",
         "mad.lo.u32 %c, %t, 4, %b; st.shared.u32 [%c], %a; xor.b32 %c, %t, 1; mad.lo.u32 %c, %c, 4, %b; "
         "ld.shared.u32 %a, [%c];",
         {"race"}},
        {"races_without_a_wait",
         "mad.lo.u32 %c, %t, 16, %b; cp.async.ca.shared.global [%c], [g], 16; cp.async.commit_group; "
         "ld.shared.u32 %a, [%c];",
         {"asynchronous"}},
        {"traps", "trap;", {"trap"}},
        {"waits_on_no_barrier", "add.u32 %c, %t, 16; barrier.sync %c;", {"barrier.sync", "different barriers"}},
        {"waits_on_barrier_16", "mov.u32 %c, 16; barrier.sync %c;", {"barrier 16 of 16"}},
    };
    unsigned missed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        missed += !is_stopped("sm_80", "7.0", &faults[i]);
    }
    assert_int_equal(missed, 0);
}

/* The asynchronous proxy, mbarriers and tensor maps. */
static void test_hopper(void **state)
{
    (void)state;
#define FIRST                                                                                                          \
    "setp.ne.u32 p, %t, 0; @p bra END; mbarrier.init.shared.b64 [%b+512], 1; fence.mbarrier_init.release.cluster; "
#define WAIT "W: mbarrier.try_wait.parity.shared.b64 q, [%b+512], 0; @!q bra W; "
    static const fault faults[] = {
        {"waits_for_no_phase", FIRST WAIT "END:", {"deadlock", "mbarrier"}},
        {"arrives_where_nothing_is",
         "setp.ne.u32 p, %t, 0; @p bra END; mbarrier.arrive.shared.b64 _, [%b]; END:",
         {"mbarrier"}},
        {"no_fence_before_a_bulk_store",
         FIRST "st.shared.u32 [%b], %a; st.shared.u32 [%b+4], %a; st.shared.u32 [%b+8], %a; st.shared.u32 [%b+12], %a; "
               "cp.async.bulk.global.shared::cta.bulk_group [g], [%b], 16; cp.async.bulk.commit_group; "
               "cp.async.bulk.wait_group 0; END:",
         {"race", "cp.async.bulk"}},
        {"ends_before_a_bulk_store",
         FIRST "st.shared.u32 [%b], %a; st.shared.u32 [%b+4], %a; st.shared.u32 [%b+8], %a; st.shared.u32 [%b+12], %a; "
               "fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [g], [%b], 16; "
               "cp.async.bulk.commit_group; END:",
         {"cp.async.bulk", "nobody waited"}},
        {"bulk_load_is_not_waited_for",
         FIRST "mbarrier.arrive.expect_tx.shared.b64 _, [%b+512], 16; "
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [g], 16, [%b+512]; "
               "ld.shared.u32 %a, [%b]; " WAIT "END:",
         {"asynchronous"}},
        {"bulk_load_of_8_bytes",
         FIRST "mov.u32 %c, 8; "
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [g], %c, [%b+512]; END:",
         {"cp.async.bulk", "the size 0x8 is not a multiple of 16"}},
        {"bulk_load_of_nothing",
         FIRST "mov.u32 %c, 0; "
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [g], %c, [%b+512]; END:",
         {"cp.async.bulk", "the size"}},
        {"bulk_load_past_the_end",
         FIRST "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [g+4080], 32, [%b+512]; END:",
         {"cp.async.bulk", "outside"}},
        {"no_tensor_map",
         FIRST
         "cvta.global.u64 %x, g; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
         "[%b], [%x, {%t, %t}], [%b+512]; END:",
         {"tensor"}},
        {"expects_too_little",
         FIRST "mbarrier.arrive.expect_tx.shared.b64 _, [%b+512], 32; "
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%b], [g], 16, [%b+512]; " WAIT
               "END:",
         {"deadlock", "mbarrier"}},
    };
    unsigned missed = 0;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        missed += !is_stopped("sm_90a", "8.0", &faults[i]);
    }
    assert_int_equal(missed, 0);
}

/* What is refused before it runs leaves the device as it was. */
static void test_refused(void **state)
{
    (void)state;
    static const fault f = {"needs_shared", "", {NULL}};
    char ptx[8192];
    source(ptx, sizeof ptx, "sm_80", "7.0", &f);
    work w = begin(ptx, "good");
    OK(hal_stream_wait(w.stream, HAL_SECONDS(20)));
    hal_kernel *kernel = NULL;
    hal_kernel_desc desc = {.struct_size = sizeof desc,
                            .binding_count = 1,
                            .bindings = {HAL_READ_WRITE},
                            .group = {64, 1, 1},
                            .dynamic_shared = 1 << 20};
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(w.module, f.name, &desc, &kernel));
    desc.dynamic_shared = hal_device_get_info(w.device)->max_shared_memory - 1023; /* 1024 are the kernel's own */
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(w.module, f.name, &desc, &kernel));
    desc.dynamic_shared = 0;
    desc.group[0] = 2048;
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(w.module, f.name, &desc, &kernel));
    OK(hal_device_status(w.device));
    end(&w);
    expect_good(ptx);
}

int main(void)
{
    const char *path = getenv("HAL_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "set HAL_CUDA_LIBRARY to the stand-in libcuda.so.1: %s\n", path ? dlerror() : "not set");
        return 1;
    }
    *(void **)&last_fault = dlsym(library, "cuda_sim_last_fault");
    if (!last_fault) {
        return 1;
    }
    setenv("HAL_BACKEND", "cuda", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_portable), cmocka_unit_test(test_hopper),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("cuda faults", tests, NULL, NULL);
}
