/* The user's own programs: languages, constants, wrong ones, and where spans may start. */
#include "conf.h"

static bool is(const char *backend)
{
    return strcmp(conf_backend, backend) == 0;
}

static void runs(hal_kernel *kernel)
{
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    OK(conf_do_fill(hal_stream_cmdlist(stream), kernel, hal_whole(y), 1024, 5));
    conf_check_u32(stream, y, 0, 1024, 5, 1);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* Each test kernel gives the right result, in both forms. */
static void all_kernels(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *x = conf_buffer(conf_device, 4000), *y = conf_buffer(conf_device, 4000),
               *z = conf_buffer(conf_device, 4000);
    static const char *const suffixes[2] = {"", "_off"};
    for (int s = 0; s < 2; s++) {
        char names[4][32];
        hal_kernel *kernels[4];
        static const char *const bases[4] = {"fill_index", "scale_u32", "copy_u32", "add_f32"};
        for (int i = 0; i < 4; i++) {
            snprintf(names[i], sizeof names[i], "%s%s", bases[i], suffixes[s]);
            kernels[i] = conf_kernel(conf_device, names[i]);
        }
        OK(conf_do_fill(list, kernels[0], hal_whole(x), 1000, 10));
        OK(conf_do_scale(list, kernels[1], hal_whole(x), 1000, 7, 3));
        OK(conf_do_copy(list, kernels[2], hal_whole(x), hal_whole(y), 1000));
        conf_check_u32(stream, y, 0, 1000, 73, 7);
        float values[1000], got[1000];
        for (int i = 0; i < 1000; i++)
            values[i] = (float)i * 0.25f;
        conf_write(stream, x, 0, values, sizeof values);
        conf_write(stream, y, 0, values, sizeof values);
        OK(conf_do_add(list, kernels[3], hal_whole(x), hal_whole(y), hal_whole(z), 1000));
        conf_get(stream, z, 0, got, sizeof got);
        for (int i = 0; i < 1000; i++)
            assert_true(got[i] == values[i] * 2);
        for (int i = 0; i < 4; i++)
            hal_kernel_destroy(kernels[i]);
    }
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_buffer_destroy(z);
    hal_stream_destroy(stream);
}

/* Constants: -D in OpenCL C, specialisation constants by id, the entry's suffix in PTX. Both values in one process. */
static void constants(void **state)
{
    (void)state;
    hal_module *module;
    OK(conf_module(conf_device, "fill_const", &module));
    const uint32_t pairs[3][2] = {{3, 5}, {7, 11}, {3, 5}};
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096);
    for (int i = 0; i < 3; i++) {
        const hal_constant values[2] = {{"FIRST", 0, pairs[i][0]}, {"SECOND", 1, pairs[i][1]}};
        hal_kernel_desc desc = conf_kernel_desc("fill_const");
        desc.constants = values;
        desc.constant_count = 2;
        hal_kernel *kernel;
        OK(hal_kernel_create(module, "fill_const", &desc, &kernel));
        OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), kernel, conf_grid(1024), HAL_SPANS(hal_whole(y)),
                            &(conf_count){1024}, sizeof(conf_count)));
        conf_check_u32(stream, y, 0, 1024, pairs[i][0] * 1000 + pairs[i][1], 0);
        hal_kernel_destroy(kernel);
    }
    hal_module_destroy(module);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

static const char glsl[] = "#version 450\n"
                           "layout(local_size_x_id = 100) in;\n"
                           "layout(std430, set = 0, binding = 0) buffer Out { uint at[]; } dst;\n"
                           "layout(push_constant) uniform Args { uint n, base; } args;\n"
                           "void main() {\n"
                           "  uint i = gl_GlobalInvocationID.x;\n"
                           "  if (i < args.n) dst.at[i] = args.base + i;\n"
                           "}\n";

/* The source language of each backend, where its compiler is installed. */
static void from_source(void **state)
{
    (void)state;
    size_t size;
    char *opencl = conf_read("test_kernels.cl", &size), *cuda = conf_read("test_kernels.cu", &size);
    hal_module *module = NULL;
    hal_kernel *kernel = NULL;
    hal_kernel_desc desc = conf_kernel_desc("fill_index");
    hal_status status = hal_module_create(
        conf_device, HAL_MODULE(.opencl_c = opencl, .glsl = glsl, .cuda_c = cuda, .label = "from source"), &module);
    if (status == HAL_OK)
        status = hal_kernel_create(module, is("vulkan") ? "main" : "fill_index", &desc, &kernel);
    free(opencl);
    free(cuda);
    if (is("opencl") || status == HAL_OK) {
        assert_int_equal(status, HAL_OK);
        runs(kernel);
    } else {
        EXPECT(HAL_ERROR_UNAVAILABLE, status);
        conf_expect_error(is("vulkan") ? "shaderc" : "NVRTC");
    }
    hal_kernel_destroy(kernel);
    hal_module_destroy(module);
    if (status != HAL_OK)
        SKIP("no compiler for this backend's source language is installed");
}

/* A program that does not compile: the log is in the error, and the device works on. */
static void compile_error(void **state)
{
    (void)state;
    hal_module *module = NULL;
    hal_kernel *kernel = NULL;
    hal_kernel_desc desc = conf_kernel_desc("fill_index");
    static const uint32_t rubbish[8] = {0x07230203, 0x00010300, 0, 9, 0, 0xffffffff, 1, 2};
    hal_status status =
        hal_module_create(conf_device,
                          HAL_MODULE(.opencl_c = "kernel void fill_index(global uint *out) { no_such_word; }",
                                     .glsl = "#version 450\nvoid main() { no_such_word; }",
                                     .cuda_c = "extern \"C\" __global__ void fill_index() { no_such_word; }",
                                     .cuda_ptx = "rubbish", .label = "broken"),
                          &module);
    if (status == HAL_OK)
        status = hal_kernel_create(module, is("vulkan") ? "main" : "fill_index", &desc, &kernel);
    assert_null(kernel);
    if (status == HAL_ERROR_UNAVAILABLE)
        conf_expect_error("shaderc");
    else
        EXPECT(HAL_ERROR_COMPILE, status);
    if (is("opencl"))
        conf_expect_error("no_such_word");
    hal_module_destroy(module);
    if (is("vulkan")) {
        module = NULL;
        status = hal_module_create(conf_device, HAL_MODULE(.spirv = rubbish, .spirv_size = 7), &module);
        EXPECT(HAL_ERROR_COMPILE, status); /* no whole number of words */
        EXPECT(HAL_ERROR_COMPILE,
               hal_module_create(conf_device, HAL_MODULE(.spirv = "text that is not SPIR-V !!", .spirv_size = 24),
                                 &module));
        assert_null(module);
    }
    runs(conf_shared("fill_index"));
}

static void nothing_that_fits(void **state)
{
    (void)state;
    hal_module *module = (hal_module *)&module;
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_module_create(conf_device, NULL, &module));
    assert_null(module);
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_module_create(conf_device, HAL_MODULE(.label = "empty"), &module));
    conf_expect_error("module 'empty': no variant for ");
    if (is("opencl"))
        EXPECT(HAL_ERROR_UNSUPPORTED, hal_module_create(conf_device, HAL_MODULE(.cuda_ptx = "x"), &module));
    else
        EXPECT(HAL_ERROR_UNSUPPORTED, hal_module_create(conf_device, HAL_MODULE(.opencl_c = "x"), &module));
    conf_expect_error(is("opencl") ? "opencl" : is("vulkan") ? "spirv" : "ptx");
    assert_null(module);
}

static void wrong_kernels(void **state)
{
    (void)state;
    hal_module *module;
    hal_kernel *kernel = (hal_kernel *)&kernel;
    hal_kernel_desc desc = conf_kernel_desc("fill_index");
    OK(conf_module(conf_device, "fill_index", &module));
    EXPECT(HAL_ERROR_NOT_FOUND, hal_kernel_create(module, "no_such_entry", &desc, &kernel));
    assert_null(kernel);
    conf_expect_error("no_such_entry");
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, NULL, &desc, &kernel));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(NULL, "fill_index", &desc, &kernel));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, NULL));
    desc.args_size = 7;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc.args_size = HAL_MAX_ARGS + 4;
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.binding_count = HAL_MAX_BINDINGS + 1;
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.bindings[0] = (hal_access)8;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.abi = (hal_abi)5;
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.group[0] = 1u << 30;
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.group[0] = desc.group[1] = desc.group[2] = 64;
    EXPECT(HAL_ERROR_LIMIT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    desc = conf_kernel_desc("fill_index");
    desc.splittable = true;
    desc.args_size = 8; /* no room for the group base */
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, "fill_index", &desc, &kernel));
    EXPECT(HAL_ERROR_NOT_FOUND, hal_kernel_create_builtin(conf_device, "no_such_kernel", &desc, &kernel));
    conf_expect_error("no_such_kernel");
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create_builtin(conf_device, NULL, &desc, &kernel));
    assert_null(kernel);
    hal_module_destroy(module);
    runs(conf_shared("fill_index"));
}

/* Spans that start in the middle of a buffer. The PLAIN form takes multiples of span_alignment and says ALIGNMENT to
 * the rest; the OFFSET form takes every multiple of the element size. The neighbours stay as they were. */
static void span_offsets(void **state)
{
    (void)state;
    const uint32_t alignment = hal_device_get_info(conf_device)->span_alignment;
    const uint64_t offsets[] = {4, 8, 12, 16, 60, 64, 128, 252, 256, 1024, 4092};
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *y = conf_buffer(conf_device, 16384), *x = conf_buffer(conf_device, 16384);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        uint64_t at = offsets[i];
        for (int off = 0; off < 2; off++) {
            OK(hal_cmd_fill(list, hal_whole(y), &(uint32_t){0x5a5a5a5a}, 4));
            hal_status status =
                conf_do_fill(list, conf_shared(off ? "fill_index_off" : "fill_index"), hal_range(y, at, 400), 100, 1);
            bool legal = off || at % alignment == 0;
            EXPECT(legal ? HAL_OK : HAL_ERROR_ALIGNMENT, status);
            conf_check_u32(stream, y, 0, (uint32_t)(at / 4), 0x5a5a5a5a, 0);
            if (legal)
                conf_check_u32(stream, y, at / 4, 100, 1, 1);
            conf_check_u32(stream, y, at / 4 + (legal ? 100 : 0), 100, 0x5a5a5a5a, 0);
        }
        OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(x), 4096, 0));
        OK(conf_do_copy(list, conf_shared("copy_u32_off"), hal_range(x, at, 400), hal_range(y, at + 4, 400), 100));
        conf_check_u32(stream, y, at / 4 + 1, 100, (uint32_t)(at / 4), 1);
    }
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* A span that Vulkan reads through a typed view: at once, by a list with slots, and where it may start. */
static void views(void **state)
{
    (void)state;
    const hal_device_info *info = hal_device_get_info(conf_device);
    hal_module *module;
    hal_kernel *kernel;
    hal_kernel_desc desc = conf_kernel_desc("view_copy");
    desc.views[0] = HAL_VIEW_R32UI;
    OK(conf_module(conf_device, "view_copy", &module));
    /* CUDA has no views: its plain copy is the same program. */
    const char *entry = is("cuda") ? "copy_u32" : "view_copy";
    OK(hal_kernel_create(module, entry, &desc, &kernel));
    hal_module_destroy(module);
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = conf_list(conf_device);
    hal_buffer *x = conf_buffer(conf_device, 16384), *y = conf_buffer(conf_device, 4096);
    uint32_t step = info->view_alignment > info->span_alignment ? info->view_alignment : info->span_alignment;
    OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(x), 4096, 0));
    OK(conf_do_copy(list, kernel, hal_slot(0, 0), hal_slot(1, 0), 100));
    OK(hal_cmdlist_finish(list));
    for (uint32_t i = 0; i < 40; i++) {
        hal_span from = hal_range(x, (uint64_t)i * step, 400);
        OK(conf_do_copy(hal_stream_cmdlist(stream), kernel, from, hal_whole(y), 100));
        conf_check_u32(stream, y, 0, 100, i * step / 4, 1);
        from.offset += step;
        OK(hal_cmdlist_submit(list, stream, HAL_BINDINGS(from, hal_whole(y))));
        conf_check_u32(stream, y, 0, 100, (i + 1) * step / 4, 1);
    }
    if (info->max_view_elements > 0 && info->view_alignment > 4)
        EXPECT(HAL_ERROR_ALIGNMENT, conf_do_copy(hal_stream_cmdlist(stream), kernel, hal_at(x, 4), hal_whole(y), 100));
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(kernel);
    desc.views[0] = (hal_view)99;
    OK(conf_module(conf_device, "view_copy", &module));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_kernel_create(module, entry, &desc, &kernel));
    hal_module_destroy(module);
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
}

/* A kernel whose module and buffers are destroyed while it runs. */
static void outlives_its_module(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *y = conf_buffer(conf_device, 4096), *word = conf_buffer(conf_device, 4);
    conf_busy(stream, conf_shared("spin"), word, 30);
    hal_kernel *fill = conf_kernel(conf_device, "fill_index"); /* its module is destroyed already */
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(y), 1024, 2));
    hal_kernel_destroy(fill);
    conf_check_u32(stream, y, 0, 1024, 2, 1);
    hal_buffer_destroy(y);
    hal_buffer_destroy(word);
    hal_stream_destroy(stream);
}

int conf_test_module(void)
{
    const struct CMUnitTest tests[] = {
        CASE(all_kernels),   CASE(constants),           CASE(from_source),
        CASE(compile_error), CASE(nothing_that_fits),   CASE(wrong_kernels),
        CASE(span_offsets),  CASE(outlives_its_module), CASE(views),
    };
    return RUN("module", tests);
}
