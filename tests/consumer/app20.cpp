// The descriptor macros from C++20: designated initialisers, in the order of the fields.
#include <hal/graph.h>
#include <hal/ops.h>

#include <cstdio>

static hal_status run(hal_device *device, float (&d)[4])
{
    const float a[] = {1, 2, 3, 4}, b[] = {0, 1, 1, 0};
    hal_stream *stream = nullptr;
    hal_buffer *memory = nullptr;
    hal_status status = hal_stream_create(device, HAL_STREAM(.label = "C++"), &stream);
    if (status == HAL_OK)
        status = hal_buffer_create(device, HAL_BUFFER(.size = 3 * 256), &memory);
    hal_cmdlist *now = hal_stream_cmdlist(stream);
    const hal_span at_a = hal_range(memory, 0, sizeof a), at_b = hal_range(memory, 256, sizeof b),
                   at_d = hal_range(memory, 512, sizeof d);
    if (status == HAL_OK)
        status = hal_cmd_upload(now, at_a, a, sizeof a);
    if (status == HAL_OK)
        status = hal_cmd_upload(now, at_b, b, sizeof b);
    if (status == HAL_OK)
        status = hal_gemm(now, HAL_GEMM(.m = 2, .n = 2, .k = 2, .a = at_a, .b = at_b, .d = at_d));
    if (status == HAL_OK)
        status = hal_cmd_download(now, d, at_d);
    if (status == HAL_OK)
        status = hal_stream_wait(stream, HAL_SECONDS(10));
    hal_buffer_destroy(memory);
    hal_stream_destroy(stream);
    return status;
}

static bool macros_hold(hal_buffer *buffer)
{
    const hal_bindings *bindings = HAL_BINDINGS(hal_whole(buffer), hal_whole(buffer));
    (void)bindings; // gone with that statement
    const hal_dims dims = HAL_DIMS(HAL_ROWS, 4096);
    const hal_grid grid = HAL_GRID2(3, 4);
    return dims.rank == 2 && dims.size[1] == 4096 && grid.x == 3 && grid.y == 4 && grid.z == 1 &&
           HAL_BINDINGS(hal_whole(buffer), hal_whole(buffer))->span_count == 2;
}

int main()
{
    hal_device *device = nullptr;
    float d[4] = {};
    hal_status status = hal_device_open(HAL_DEVICE(.cache_dir = ""), &device);
    if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
        std::printf("no device: %s\n", hal_last_error());
        return 0;
    }
    if (status == HAL_OK)
        status = run(device, d);
    if (status != HAL_OK)
        std::fprintf(stderr, "%s: %s\n", hal_status_name(status), hal_last_error());
    hal_device_destroy(device);
    return status == HAL_OK && macros_hold(nullptr) && d[0] == 2 && d[1] == 1 && d[2] == 4 && d[3] == 3 ? 0 : 1;
}
