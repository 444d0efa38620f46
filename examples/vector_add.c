/* vector_add - your own kernel, in three languages: c = a + b on whatever device there is.
 *
 * Give a module the variants you have; the device takes the one that fits. All follow one ABI (hal/module.h): the bound
 * spans in order, then one struct of 4-byte scalars. */
#include <hal/hal.h>
#include <stdio.h>

enum { COUNT = 1000, GROUP = 64 };

static const char opencl_c[] =
    "struct args { uint count; };\n"
    "kernel void vector_add(global const float *a, global const float *b, global float *c, struct args args)\n"
    "{\n"
    "    size_t i = get_global_id(0);\n"
    "    if (i < args.count)\n"
    "        c[i] = a[i] + b[i];\n"
    "}\n";

#ifdef VECTOR_ADD_SPIRV
static const uint32_t spirv[] = {
#include VECTOR_ADD_SPIRV /* vector_add.comp, compiled by glslangValidator */
};
#define VULKAN_VARIANT .spirv = spirv, .spirv_size = sizeof spirv
#else
#define VULKAN_VARIANT .spirv = NULL
#endif

static const char ptx[] = ".version 7.0\n"
                          ".target sm_80\n"
                          ".address_size 64\n"
                          ".visible .entry vector_add(.param .u64 pa, .param .u64 pb, .param .u64 pc,\n"
                          "                           .param .align 4 .b8 args[4])\n"
                          "{\n"
                          "    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %a<8>;\n"
                          "    mov.u32 %r1, %ctaid.x;\n"
                          "    mov.u32 %r2, %ntid.x;\n"
                          "    mov.u32 %r3, %tid.x;\n"
                          "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
                          "    ld.param.u32 %r5, [args];\n"
                          "    setp.ge.u32 %p1, %r4, %r5;\n"
                          "    @%p1 ret;\n"
                          "    ld.param.u64 %a1, [pa];\n"
                          "    ld.param.u64 %a2, [pb];\n"
                          "    ld.param.u64 %a3, [pc];\n"
                          "    mul.wide.u32 %a4, %r4, 4;\n"
                          "    add.u64 %a5, %a1, %a4;\n"
                          "    add.u64 %a6, %a2, %a4;\n"
                          "    add.u64 %a7, %a3, %a4;\n"
                          "    ld.global.f32 %f1, [%a5];\n"
                          "    ld.global.f32 %f2, [%a6];\n"
                          "    add.f32 %f3, %f1, %f2;\n"
                          "    st.global.f32 [%a7], %f3;\n"
                          "    ret;\n"
                          "}\n";

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(void)
{
    static float a[COUNT], b[COUNT], c[COUNT];
    const uint32_t args[] = {COUNT};
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *da = NULL, *db = NULL, *dc = NULL;
    hal_module *module = NULL;
    hal_kernel *kernel = NULL;
    int result = 1, wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    TRY(hal_device_open(NULL, &device)); /* $HAL_BACKEND, else the best device */
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof a, .label = "a"), &da));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof b, .label = "b"), &db));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof c, .label = "c"), &dc));
    TRY(hal_module_create(device, HAL_MODULE(.opencl_c = opencl_c, VULKAN_VARIANT, .cuda_ptx = ptx), &module));
    TRY(hal_kernel_create(module, "vector_add",
                          HAL_KERNEL(.bindings = {HAL_READ, HAL_READ, HAL_WRITE}, .binding_count = 3,
                                     .args_size = sizeof args, .group = {GROUP}),
                          &kernel));

    hal_cmdlist *now = hal_stream_cmdlist(stream);
    TRY(hal_cmd_upload(now, hal_whole(da), a, sizeof a));
    TRY(hal_cmd_upload(now, hal_whole(db), b, sizeof b));
    TRY(hal_cmd_dispatch(now, kernel, HAL_GRID1((COUNT + GROUP - 1) / GROUP),
                         HAL_SPANS(hal_whole(da), hal_whole(db), hal_whole(dc)), args, sizeof args));
    TRY(hal_cmd_download(now, c, hal_whole(dc)));
    TRY(hal_stream_wait(stream, HAL_SECONDS(10)));

    for (int i = 0; i < COUNT; i++)
        wrong += c[i] != 1.5f * (float)i;
    printf("vector_add on %s (%s): %d sums, %d wrong\n", hal_device_get_info(device)->name,
           hal_device_get_info(device)->backend, COUNT, wrong);
    result = wrong != 0;
    goto done;
fail:
    fprintf(stderr, "vector_add: %s\n", hal_last_error());
done:
    hal_kernel_destroy(kernel);
    hal_module_destroy(module);
    hal_buffer_destroy(dc);
    hal_buffer_destroy(db);
    hal_buffer_destroy(da);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}
