/* A small user of an installed libhal: lists the devices, and fills and reads a buffer on the first one, if any. */
#include <hal/ops.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

static int use_first_device(void)
{
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *buffer = NULL;
    uint32_t words[64] = {0};
    const uint32_t pattern = 0x01020304u;
    int result = 1;

    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, HAL_STREAM(.label = "consumer"), &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof words), &buffer));
    TRY(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), &pattern, sizeof pattern));
    TRY(hal_cmd_download(hal_stream_cmdlist(stream), words, hal_whole(buffer)));
    TRY(hal_stream_wait(stream, HAL_SECONDS(10)));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i] != pattern) {
            fprintf(stderr, "word %zu is %08x\n", i, (unsigned)words[i]);
            goto done;
        }
    printf("filled and read %zu bytes on %s\n", sizeof words, hal_device_get_info(device)->name);
    result = 0;
    goto done;
fail:
    fprintf(stderr, "%s\n", hal_last_error());
done:
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}

int main(void)
{
    hal_device_list *list = NULL;
    bool any = false;

    if (strcmp(hal_version(), "0.1.0") != 0) {
        fprintf(stderr, "the library is version %s, the headers 0.1.0\n", hal_version());
        return 1;
    }
    if (hal_device_list_create(NULL, &list) != HAL_OK) {
        fprintf(stderr, "%s\n", hal_last_error());
        return 1;
    }
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        printf("%s: %s\n", entry->backend, entry->available ? entry->info->name : entry->reason);
        any |= entry->available;
    }
    hal_device_list_destroy(list);
    /* The operators are in the same library: an argument error is all this needs. */
    if (hal_gemm(NULL, NULL) != HAL_ERROR_INVALID_ARGUMENT) {
        fprintf(stderr, "hal_gemm(NULL, NULL) was accepted\n");
        return 1;
    }
    return any ? use_first_device() : 0;
}
