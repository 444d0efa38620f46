/* driver.h - the Vulkan functions, looked up by name in a library opened at run time.
 *
 * The table is our own: volk does the same, but keeps it in global state and is not packaged by every distribution we
 * support. Each device has its own library handle, VkInstance and device-level table, so that nothing is shared. */
#ifndef HAL_VULKAN_DRIVER_H
#define HAL_VULKAN_DRIVER_H

#include "core.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

typedef struct vk_driver {
    void *library;
    VkInstance instance;
    uint32_t version; /* of the instance */
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define VK_LOADER(name)          PFN_vk##name name;
#define VK_INSTANCE(name)        PFN_vk##name name;
#define VK_DEVICE(name)          PFN_vk##name name;
#define VK_DEVICE_OPTIONAL(name) PFN_vk##name name;
#include "driver.def"
} vk_driver;

/* Open the library and make an instance. On failure nothing is left open and the error says what is missing. */
hal_status hal_vk_driver_open(vk_driver *driver);
/* Fill the device-level part of the table. */
hal_status hal_vk_driver_load_device(vk_driver *driver, VkDevice device);
void hal_vk_driver_close(vk_driver *driver);

/* "VK_ERROR_OUT_OF_HOST_MEMORY" and so on. */
const char *hal_vk_result_name(VkResult result);
/* hal_fail with the status that `result` stands for: "vulkan: FORMAT: VK_ERROR_...". */
hal_status hal_vk_fail(VkResult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
