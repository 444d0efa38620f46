/* driver.c - opens libvulkan, makes the instance and fills the function table. */
#include "driver.h"

#include <stdarg.h>

static hal_status open_library(vk_driver *driver)
{
    static const char *const standard[] = {"libvulkan.so.1", "libvulkan.so", NULL};
    const char *override = getenv("HAL_VULKAN_LIBRARY");
    if (override && *override) {
        const char *const wanted[] = {override, NULL};
        driver->library = hal_library_open(wanted);
        if (!driver->library)
            return hal_fail_prefix(HAL_ERROR_UNAVAILABLE, "vulkan: HAL_VULKAN_LIBRARY=%s", override);
    } else {
        driver->library = hal_library_open(standard);
        if (!driver->library)
            return hal_fail_prefix(HAL_ERROR_UNAVAILABLE,
                                   "vulkan: the Vulkan loader was not found, install libvulkan1 and a driver");
    }
    *(void **)&driver->GetInstanceProcAddr = hal_library_symbol(driver->library, "vkGetInstanceProcAddr");
    if (!driver->GetInstanceProcAddr)
        return hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: the loader library has no vkGetInstanceProcAddr: it is broken");
    return HAL_OK;
}

static hal_status create_instance(vk_driver *driver)
{
#define VK_LOADER(name) driver->name = (PFN_vk##name)driver->GetInstanceProcAddr(NULL, "vk" #name);
#include "driver.def"
    driver->version = VK_API_VERSION_1_0;
    if (driver->EnumerateInstanceVersion)
        driver->EnumerateInstanceVersion(&driver->version);
    if (!driver->CreateInstance || driver->version < VK_API_VERSION_1_2)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "vulkan: the loader speaks Vulkan %u.%u, 1.2 is needed: update libvulkan1",
                        VK_API_VERSION_MAJOR(driver->version), VK_API_VERSION_MINOR(driver->version));
    VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "libhal",
        .pEngineName = "libhal",
        .apiVersion = driver->version < VK_API_VERSION_1_3 ? VK_API_VERSION_1_2 : VK_API_VERSION_1_3,
    };
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkResult result = driver->CreateInstance(&info, NULL, &driver->instance);
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "vulkan: vkCreateInstance: no driver (ICD) was found, install one, e.g. mesa-vulkan-drivers");
    if (result != VK_SUCCESS) {
        driver->instance = NULL;
        return hal_vk_fail(result, "vkCreateInstance");
    }
    return HAL_OK;
}

static hal_status load_instance(vk_driver *driver)
{
#define VK_INSTANCE(name)                                                                                              \
    driver->name = (PFN_vk##name)driver->GetInstanceProcAddr(driver->instance, "vk" #name);                            \
    if (!driver->name)                                                                                                 \
        return hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: the loader has no vk%s: update libvulkan1", #name);
#include "driver.def"
    return HAL_OK;
}

hal_status hal_vk_driver_open(vk_driver *driver)
{
    memset(driver, 0, sizeof *driver);
    hal_status status = open_library(driver);
    if (status == HAL_OK)
        status = create_instance(driver);
    if (status == HAL_OK)
        status = load_instance(driver);
    if (status != HAL_OK)
        hal_vk_driver_close(driver);
    return status;
}

hal_status hal_vk_driver_load_device(vk_driver *driver, VkDevice device)
{
#define VK_DEVICE(name)                                                                                                \
    driver->name = (PFN_vk##name)driver->GetDeviceProcAddr(device, "vk" #name);                                        \
    if (!driver->name)                                                                                                 \
        return hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: the driver has no vk%s: update it", #name);
#define VK_DEVICE_OPTIONAL(name) driver->name = (PFN_vk##name)driver->GetDeviceProcAddr(device, "vk" #name);
#include "driver.def"
    return HAL_OK;
}

void hal_vk_driver_close(vk_driver *driver)
{
    if (driver->instance && driver->DestroyInstance)
        driver->DestroyInstance(driver->instance, NULL);
    if (driver->library)
        hal_library_close(driver->library);
    memset(driver, 0, sizeof *driver);
}

const char *hal_vk_result_name(VkResult result)
{
    switch (result) {
#define NAME(code)                                                                                                     \
    case code:                                                                                                         \
        return #code;
        NAME(VK_SUCCESS)
        NAME(VK_NOT_READY)
        NAME(VK_TIMEOUT)
        NAME(VK_INCOMPLETE)
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NAME(VK_ERROR_INITIALIZATION_FAILED)
        NAME(VK_ERROR_DEVICE_LOST)
        NAME(VK_ERROR_MEMORY_MAP_FAILED)
        NAME(VK_ERROR_LAYER_NOT_PRESENT)
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        NAME(VK_ERROR_TOO_MANY_OBJECTS)
        NAME(VK_ERROR_FORMAT_NOT_SUPPORTED)
        NAME(VK_ERROR_FRAGMENTED_POOL)
        NAME(VK_ERROR_UNKNOWN)
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        NAME(VK_ERROR_FRAGMENTATION)
        NAME(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
        NAME(VK_ERROR_INVALID_SHADER_NV)
#undef NAME
    default:
        return "an unknown VkResult";
    }
}

static hal_status status_of(VkResult result)
{
    switch (result) {
    case VK_SUCCESS:
        return HAL_OK;
    case VK_TIMEOUT:
    case VK_NOT_READY:
        return HAL_TIMEOUT;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_TOO_MANY_OBJECTS:
        return HAL_ERROR_OUT_OF_MEMORY;
    case VK_ERROR_DEVICE_LOST:
        return HAL_ERROR_DEVICE_LOST;
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return HAL_ERROR_UNAVAILABLE;
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_FORMAT_NOT_SUPPORTED:
        return HAL_ERROR_UNSUPPORTED;
    default:
        return HAL_ERROR_BACKEND;
    }
}

hal_status hal_vk_fail(VkResult result, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return hal_fail(status_of(result), "vulkan: %s: %s", text, hal_vk_result_name(result));
}
