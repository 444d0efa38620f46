// The headers from C++ before 2020, which has no designated initialisers: descriptors are filled by hand.
#include <hal/hal.h>
#include <hal/ops.h>

#include <cstdio>

namespace
{

hal_status open_first(hal_device **device)
{
    hal_device_desc desc{};
    desc.struct_size = sizeof desc;
    desc.cache_dir = "";
    return hal_device_open(&desc, device);
}

hal_status fill(hal_device *device, hal_stream *stream, uint32_t &first)
{
    hal_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.size = 256;
    hal_buffer *buffer = nullptr;
    hal_status status = hal_buffer_create(device, &desc, &buffer);
    const uint32_t pattern = 7;
    if (status == HAL_OK)
        status = hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), &pattern, sizeof pattern);
    if (status == HAL_OK)
        status = hal_cmd_download(hal_stream_cmdlist(stream), &first, hal_range(buffer, 128, sizeof first));
    if (status == HAL_OK)
        status = hal_stream_wait(stream, HAL_SECONDS(10));
    hal_buffer_destroy(buffer);
    return status;
}

} // namespace

int main()
{
    hal_device *device = nullptr;
    hal_stream *stream = nullptr;
    uint32_t first = 0;
    hal_status status = open_first(&device);
    if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
        std::printf("no device: %s\n", hal_last_error());
        return 0;
    }
    if (status == HAL_OK)
        status = hal_stream_create(device, nullptr, &stream);
    if (status == HAL_OK)
        status = fill(device, stream, first);
    if (status != HAL_OK)
        std::fprintf(stderr, "%s: %s\n", hal_status_name(status), hal_last_error());
    else
        std::printf("from C++ on %s: %u\n", hal_device_get_info(device)->name, static_cast<unsigned>(first));
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return status == HAL_OK && first == 7 ? 0 : 1;
}
