/* device.c - finds and opens devices; queues; the pipeline cache; the backend's table. */
#include "vulkan_backend.h"

#define PHYSICAL_MAX 64

static hal_status list_physical(const vk_driver *vk, VkPhysicalDevice *physical, uint32_t *count)
{
    *count = PHYSICAL_MAX;
    VkResult result = vk->EnumeratePhysicalDevices(vk->instance, count, physical);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return hal_vk_fail(result, "vkEnumeratePhysicalDevices");
    if (*count == 0)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "vulkan: vkEnumeratePhysicalDevices: the installed drivers found no device");
    return HAL_OK;
}

static hal_status enumerate(hal_found_fn found, void *user)
{
    vk_driver vk;
    hal_status status = hal_vk_driver_open(&vk);
    if (status != HAL_OK)
        return status;
    VkPhysicalDevice physical[PHYSICAL_MAX];
    uint32_t count, usable = 0;
    char reason[256] = "";
    status = list_physical(&vk, physical, &count);
    for (uint32_t i = 0; status == HAL_OK && i < count; i++) {
        vk_caps caps;
        status = hal_vk_caps(&vk, physical[i], i, &caps);
        if (status == HAL_OK && caps.usable) {
            usable++;
            found(user, &caps.info);
        } else if (status == HAL_OK && !reason[0]) {
            memcpy(reason, caps.reason, sizeof reason);
        }
    }
    if (status == HAL_OK && usable == 0)
        status = hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: no device can be used: %s", reason);
    hal_vk_driver_close(&vk);
    return status;
}

static hal_cache_key pipeline_cache_key(const vk_caps *caps)
{
    const hal_cache_part parts[] = {
        HAL_CACHE_TEXT("vulkan pipeline cache 1"),
        {caps->device_uuid, VK_UUID_SIZE},
        {caps->driver_uuid, VK_UUID_SIZE},
        {caps->pipeline_cache_uuid, VK_UUID_SIZE},
        {&caps->driver_version, sizeof caps->driver_version},
        HAL_CACHE_TEXT(caps->info.driver),
    };
    return hal_cache_key_make(parts, sizeof parts / sizeof parts[0]);
}

/* A driver need not survive data of another device or version: only what says it is ours is handed over. */
static bool pipeline_cache_fits(const vk_caps *caps, const void *data, size_t size)
{
    VkPipelineCacheHeaderVersionOne header;
    if (size < sizeof header)
        return false;
    memcpy(&header, data, sizeof header);
    return header.headerSize >= sizeof header && header.headerSize <= size &&
           header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == caps->vendor &&
           header.deviceID == caps->device_id &&
           memcmp(header.pipelineCacheUUID, caps->pipeline_cache_uuid, VK_UUID_SIZE) == 0;
}

static hal_status open_pipeline_cache(hal_native_device *device)
{
    void *data = NULL;
    size_t size = 0;
    if (hal_cache_load(device->core, pipeline_cache_key(&device->caps), &data, &size) != HAL_OK ||
        !pipeline_cache_fits(&device->caps, data, size))
        size = 0;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = size,
        .pInitialData = size ? data : NULL,
    };
    VkResult result = device->vk.CreatePipelineCache(device->handle, &info, NULL, &device->pipeline_cache);
    free(data);
    device->pipeline_cache_loaded = size;
    return result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkCreatePipelineCache");
}

/* Best effort: a cache that cannot be read or stored costs compile time only. */
static void store_pipeline_cache(hal_native_device *device)
{
    size_t size = 0;
    VkResult result = device->vk.GetPipelineCacheData(device->handle, device->pipeline_cache, &size, NULL);
    if (result != VK_SUCCESS || size <= sizeof(VkPipelineCacheHeaderVersionOne) ||
        size <= device->pipeline_cache_loaded)
        return;
    void *data = malloc(size);
    if (data && device->vk.GetPipelineCacheData(device->handle, device->pipeline_cache, &size, data) == VK_SUCCESS &&
        pipeline_cache_fits(&device->caps, data, size))
        hal_cache_store(device->core, pipeline_cache_key(&device->caps), data, size);
    free(data);
}

/* The first queue is the most urgent and the last the least where there are enough to tell streams apart. */
static hal_status create_device(hal_native_device *device, VkPhysicalDevice physical)
{
    float priorities[VK_QUEUES_MAX];
    uint32_t count = device->caps.family_queues;
    for (uint32_t i = 0; i < count; i++)
        priorities[i] = 0.5f;
    if (device->caps.info.priorities) {
        priorities[0] = 1.0f;
        priorities[count - 1] = 0.0f;
    }
    VkDeviceQueueCreateInfo queues = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = device->caps.family,
        .queueCount = count,
        .pQueuePriorities = priorities,
    };
    vk_feature_chain extra;
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = hal_vk_caps_features(&device->caps, &extra),
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queues,
        .enabledExtensionCount = device->caps.extension_count,
        .ppEnabledExtensionNames = device->caps.extensions,
    };
    VkResult result = device->vk.CreateDevice(physical, &info, NULL, &device->handle);
    if (result != VK_SUCCESS) {
        device->handle = VK_NULL_HANDLE;
        return hal_vk_fail(result, "vkCreateDevice: %s", device->caps.info.name);
    }
    return HAL_OK;
}

static void get_queues(hal_native_device *device)
{
    device->queue_count = device->caps.family_queues;
    for (uint32_t i = 0; i < device->queue_count; i++) {
        device->vk.GetDeviceQueue(device->handle, device->caps.family, i, &device->queues[i].handle);
        pthread_mutex_init(&device->queues[i].lock, NULL);
    }
}

hal_status hal_vk_device_fail(hal_native_device *device, VkResult result, const char *call)
{
    if (result == VK_ERROR_DEVICE_LOST && !atomic_load(&device->settled)) {
        for (uint32_t i = 0; i < device->queue_count; i++)
            pthread_mutex_lock(&device->queues[i].lock);
        device->vk.DeviceWaitIdle(device->handle); /* ends in finite time on a lost device, whatever it returns */
        for (uint32_t i = 0; i < device->queue_count; i++)
            pthread_mutex_unlock(&device->queues[i].lock);
        atomic_store(&device->settled, true);
    }
    return hal_vk_fail(result, "%s", call);
}

static void device_close(hal_native_device *device)
{
    if (device->pipeline_cache) {
        store_pipeline_cache(device);
        device->vk.DestroyPipelineCache(device->handle, device->pipeline_cache, NULL);
    }
    for (uint32_t i = 0; i < device->queue_count; i++)
        pthread_mutex_destroy(&device->queues[i].lock);
    if (device->handle && device->vk.DestroyDevice)
        device->vk.DestroyDevice(device->handle, NULL);
    hal_vk_glsl_close(device);
    hal_vk_driver_close(&device->vk);
    pthread_mutex_destroy(&device->view_lock);
    pthread_mutex_destroy(&device->glsl_lock);
    hal_free(device);
}

static hal_status device_open(uint32_t index, hal_core *core, hal_native_device **out, hal_device_info *info)
{
    hal_native_device *device = hal_calloc(core, 1, sizeof *device);
    if (!device)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while opening a device");
    device->core = core;
    pthread_mutex_init(&device->view_lock, NULL);
    pthread_mutex_init(&device->glsl_lock, NULL);
    VkPhysicalDevice physical[PHYSICAL_MAX];
    uint32_t count = 0;
    hal_status status = hal_vk_driver_open(&device->vk);
    if (status == HAL_OK)
        status = list_physical(&device->vk, physical, &count);
    if (status == HAL_OK && index >= count)
        status = hal_fail(HAL_ERROR_NOT_FOUND, "vulkan: no device %u: there are %u", index, count);
    if (status == HAL_OK)
        status = hal_vk_caps(&device->vk, physical[index], index, &device->caps);
    if (status == HAL_OK && !device->caps.usable)
        status = hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: device %u cannot be used: %s", index, device->caps.reason);
    if (status == HAL_OK)
        status = create_device(device, physical[index]);
    if (status == HAL_OK)
        status = hal_vk_driver_load_device(&device->vk, device->handle);
    if (status == HAL_OK) {
        get_queues(device);
        status = open_pipeline_cache(device);
    }
    if (status != HAL_OK) {
        device_close(device);
        return status;
    }
    *info = device->caps.info;
    *out = device;
    return HAL_OK;
}

const hal_backend hal_backend_vulkan = {
    .name = "vulkan",
    .enumerate = enumerate,
    .device_open = device_open,
    .device_close = device_close,
    .ordered = false,
    .memory_create = hal_vk_memory_create,
    .memory_destroy = hal_vk_memory_destroy,
    .memory_map = hal_vk_memory_map,
    .memory_unmap = hal_vk_memory_unmap,
    .module_create = hal_vk_module_create,
    .module_destroy = hal_vk_module_destroy,
    .kernel_create = hal_vk_kernel_create,
    .kernel_destroy = hal_vk_kernel_destroy,
    .stream_create = hal_vk_stream_create,
    .stream_destroy = hal_vk_stream_destroy,
    .stream_execute = hal_vk_stream_execute,
    .stream_mark = hal_vk_stream_mark,
    .stream_completed = hal_vk_stream_completed,
    .stream_wait = hal_vk_stream_wait,
    .stream_wait_point = hal_vk_stream_wait_point,
    .event_create = hal_vk_event_create,
    .event_destroy = hal_vk_event_destroy,
    .event_record = hal_vk_event_record,
    .event_elapsed = hal_vk_event_elapsed,
    .list_create = hal_vk_list_create,
    .list_destroy = hal_vk_list_destroy,
    .list_submit = hal_vk_list_submit,
    .list_builds = hal_vk_list_builds,
};
