/* hal/buffer.h - memory.
 *
 *  kind                CUDA              OpenCL                        Vulkan
 *  HAL_MEMORY_DEVICE   cuMemAlloc        clCreateBuffer                VkBuffer, device local; pooled
 *  HAL_MEMORY_HOST     cuMemHostAlloc    CL_MEM_ALLOC_HOST_PTR         host visible, cached
 *  HAL_MEMORY_UNIFIED  cuMemAllocManaged CL_MEM_ALLOC_HOST_PTR         device local + host visible where there is one
 *  imported            cuMemHostRegister CL_MEM_USE_HOST_PTR           VK_EXT_external_memory_host
 *
 * Fresh memory holds anything. Buffers start at an offset that suits every binding form and element size.
 */
#ifndef HAL_BUFFER_H
#define HAL_BUFFER_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hal_memory { HAL_MEMORY_DEVICE = 0, HAL_MEMORY_HOST = 1, HAL_MEMORY_UNIFIED = 2 } hal_memory;

typedef struct hal_buffer_desc {
    size_t struct_size;
    uint64_t size; /* bytes; 0 is legal: a buffer that only zero-sized spans fit */
    hal_memory memory;
    const char *label; /* NULL: "buffer" */
    bool dedicated;    /* an allocation of its own, not a part of a pool */
} hal_buffer_desc;
#define HAL_BUFFER(...) HAL_DESC(hal_buffer_desc, __VA_ARGS__)

/* HAL_ERROR_OUT_OF_MEMORY leaves the device usable. */
HAL_API hal_status hal_buffer_create(hal_device *device, const hal_buffer_desc *desc, hal_buffer **buffer);

/* Called once when libhal and the device no longer touch imported memory. From the thread that noticed; it must not
 * call libhal. */
typedef void (*hal_release_fn)(void *user, void *pointer, uint64_t size);

/* Use the host's own memory [pointer, pointer + size) as a buffer, without a copy. Any address. The memory must stay
 * valid until `release` (may be NULL) is called. HAL_ERROR_UNSUPPORTED where the device cannot. */
HAL_API hal_status hal_buffer_import(hal_device *device, void *pointer, uint64_t size, hal_release_fn release,
                                     void *user, const char *label, hal_buffer **buffer);

/* Legal while work uses the buffer: it goes when that work, and the recorded lists that hold it, are gone. */
HAL_API void hal_buffer_destroy(hal_buffer *buffer);

/* A host pointer to [offset, offset + size) of a HOST, UNIFIED or imported buffer (DEVICE: HAL_ERROR_UNSUPPORTED; use
 * hal_cmd_upload and hal_cmd_download). Work that uses the buffer must be done before map, and unmap must come before
 * new work: using a mapped buffer is HAL_ERROR_INVALID_STATE. One mapping at a time. */
HAL_API hal_status hal_buffer_map(hal_buffer *buffer, uint64_t offset, uint64_t size, hal_access access,
                                  void **pointer);
HAL_API hal_status hal_buffer_unmap(hal_buffer *buffer);

HAL_API uint64_t hal_buffer_size(const hal_buffer *buffer);
HAL_API const char *hal_buffer_label(const hal_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
