/* provoke_oclgrind - a write past a buffer and a race between two work-items, on purpose: the check matrix runs it to
 * see that oclgrind sees both through libhal, before it takes its silence for a good sign. */
#include <hal/hal.h>
#include <stdio.h>

static const char source[] = "struct args { uint beyond; };\n"
                             "kernel void provoke(global uint *out, struct args args)\n"
                             "{\n"
                             "    uint i = (uint)get_global_id(0);\n"
                             "    out[0] = i;\n"
                             "    if (i == 0)\n"
                             "        out[args.beyond] = i;\n"
                             "}\n";

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(void)
{
    enum { SIZE = 1024 };
    const uint32_t args[] = {SIZE / sizeof(uint32_t)};
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *out = NULL;
    hal_module *module = NULL;
    hal_kernel *kernel = NULL;
    int result = 1;

    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = SIZE, .label = "out"), &out));
    TRY(hal_module_create(device, HAL_MODULE(.opencl_c = source), &module));
    TRY(hal_kernel_create(
        module, "provoke",
        HAL_KERNEL(.bindings = {HAL_WRITE}, .binding_count = 1, .args_size = sizeof args, .group = {4}), &kernel));
    TRY(hal_cmd_dispatch(hal_stream_cmdlist(stream), kernel, HAL_GRID1(1), HAL_SPANS(hal_whole(out)), args,
                         sizeof args));
    TRY(hal_stream_wait(stream, HAL_SECONDS(10)));
    result = 0;
    goto done;
fail:
    fprintf(stderr, "provoke_oclgrind: %s\n", hal_last_error());
done:
    hal_kernel_destroy(kernel);
    hal_module_destroy(module);
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}
