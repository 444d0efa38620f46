/* replay - a list recorded once and submitted with other buffers and another scalar each time.
 *
 * The list adds a * x to y twice. x and y are slots, bound at each submission; `a` is a scalar that each submission
 * sets. All submissions are in flight at once, each with its own bindings. */
#include <hal/hal.h>
#include <stdio.h>
#include <string.h>

enum { COUNT = 512, GROUP = 64, SUBMITS = 4 };
enum { SLOT_X, SLOT_Y };

static const char opencl_c[] = "struct args { uint count; float a; };\n"
                               "kernel void saxpy(global const float *x, global float *y, struct args args)\n"
                               "{\n"
                               "    size_t i = get_global_id(0);\n"
                               "    if (i < args.count)\n"
                               "        y[i] = args.a * x[i] + y[i];\n"
                               "}\n";

#ifdef SAXPY_SPIRV
static const uint32_t spirv[] = {
#include SAXPY_SPIRV /* saxpy.comp, compiled by glslangValidator */
};
#define VULKAN_VARIANT .spirv = spirv, .spirv_size = sizeof spirv
#else
#define VULKAN_VARIANT .spirv = NULL
#endif

static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry saxpy(.param .u64 px, .param .u64 py, .param .align 4 .b8 args[8])\n"
                          "{\n"
                          "    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %a<6>;\n"
                          "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
                          "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
                          "    ld.param.u32 %r5, [args]; ld.param.f32 %f1, [args+4];\n"
                          "    setp.ge.u32 %p1, %r4, %r5;\n"
                          "    @%p1 ret;\n"
                          "    ld.param.u64 %a1, [px]; ld.param.u64 %a2, [py];\n"
                          "    mul.wide.u32 %a3, %r4, 4; add.u64 %a4, %a1, %a3; add.u64 %a5, %a2, %a3;\n"
                          "    ld.global.f32 %f2, [%a4]; ld.global.f32 %f3, [%a5];\n"
                          "    fma.rn.f32 %f4, %f1, %f2, %f3;\n"
                          "    st.global.f32 [%a5], %f4;\n"
                          "    ret;\n"
                          "}\n";

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(void)
{
    static float y[SUBMITS][COUNT];
    const uint32_t args[] = {COUNT, 0}; /* count, a */
    const float one = 1.0f;
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *x = NULL, *out[SUBMITS] = {NULL};
    hal_module *module = NULL;
    hal_kernel *saxpy = NULL;
    hal_cmdlist *list = NULL;
    hal_cmdlist_stats stats;
    int result = 1, wrong = 0;

    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_module_create(device, HAL_MODULE(.opencl_c = opencl_c, VULKAN_VARIANT, .cuda_ptx = ptx), &module));
    TRY(hal_kernel_create(module, "saxpy",
                          HAL_KERNEL(.bindings = {HAL_READ, HAL_READ_WRITE}, .binding_count = 2,
                                     .args_size = sizeof args, .group = {GROUP}),
                          &saxpy));

    TRY(hal_cmdlist_create(device, HAL_CMDLIST(.label = "two saxpys"), &list));
    for (int i = 0; i < 2; i++) {
        TRY(hal_cmd_dispatch(list, saxpy, HAL_GRID1(COUNT / GROUP), HAL_SPANS(hal_slot(SLOT_X, 0), hal_slot(SLOT_Y, 0)),
                             args, sizeof args));
        TRY(hal_cmd_scalar(list, 0, sizeof args[0])); /* a is scalar 0 */
    }
    TRY(hal_cmdlist_finish(list));

    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof y[0], .label = "x"), &x));
    TRY(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(x), &one, sizeof one));
    for (int i = 0; i < SUBMITS; i++) {
        const float a = (float)(i + 1);
        uint32_t bits;
        memcpy(&bits, &a, sizeof bits);
        TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof y[0], .label = "y"), &out[i]));
        TRY(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(out[i]), &one, sizeof one));
        const hal_span spans[] = {[SLOT_X] = hal_whole(x), [SLOT_Y] = hal_whole(out[i])};
        const hal_bindings bindings = {sizeof bindings, spans, 2, &bits, 1};
        TRY(hal_cmdlist_submit(list, stream, &bindings));
        TRY(hal_cmd_download(hal_stream_cmdlist(stream), y[i], hal_whole(out[i])));
    }
    TRY(hal_stream_wait(stream, HAL_SECONDS(10)));
    TRY(hal_cmdlist_get_stats(list, &stats));

    for (int i = 0; i < SUBMITS; i++)
        for (int j = 0; j < COUNT; j++)
            wrong += y[i][j] != 1.0f + 2.0f * (float)(i + 1);
    printf("replay on %s: %u commands recorded once, submitted %d times with new buffers and scalars; "
           "%u native builds, %d of %d elements wrong\n",
           hal_device_get_info(device)->backend, stats.commands, SUBMITS, (unsigned)stats.native_builds, wrong,
           SUBMITS * COUNT);
    result = wrong != 0;
    goto done;
fail:
    fprintf(stderr, "replay: %s\n", hal_last_error());
done:
    for (int i = 0; i < SUBMITS; i++)
        hal_buffer_destroy(out[i]);
    hal_buffer_destroy(x);
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(saxpy);
    hal_module_destroy(module);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}
