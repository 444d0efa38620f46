/* raw_vulkan_setup.c - the raw control's device, pipelines and buffers. */
#include "raw_vulkan_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

bool bench_vulkan_failed(bench_subject *subject, const char *call, int code)
{
    return bench_subject_fail(subject, "raw Vulkan: %s failed with %d", call, code);
}

static bool create_instance(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    vk->library = bench_driver_open(subject, "HAL_VULKAN_LIBRARY", "libvulkan.so.1");
    if (!vk->library)
        return false;
    *(void **)&vk->vkGetInstanceProcAddr = dlsym(vk->library, "vkGetInstanceProcAddr");
    if (!vk->vkGetInstanceProcAddr)
        return bench_subject_fail(subject, "raw Vulkan: libvulkan.so.1 has no vkGetInstanceProcAddr");
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)vk->vkGetInstanceProcAddr(NULL, "vkCreateInstance");
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkResult code = create ? create(&info, NULL, &vk->instance) : VK_ERROR_INITIALIZATION_FAILED;
    if (code)
        return bench_vulkan_failed(subject, "vkCreateInstance", code);
#define LOAD(name)                                                                                                     \
    vk->name = (PFN_##name)vk->vkGetInstanceProcAddr(vk->instance, #name);                                             \
    if (!vk->name)                                                                                                     \
        return bench_subject_fail(subject, "raw Vulkan: the loader has no " #name);
    BENCH_VULKAN_INSTANCE(LOAD)
#undef LOAD
    return true;
}

/* The device that libhal measures, by name, with a queue that computes. */
static bool find_device(bench_subject *subject, const char *wanted)
{
    bench_vulkan *vk = subject->state;
    VkPhysicalDevice devices[32];
    uint32_t count = 32;
    VkResult code = vk->vkEnumeratePhysicalDevices(vk->instance, &count, devices);
    if (code != VK_SUCCESS && code != VK_INCOMPLETE)
        return bench_vulkan_failed(subject, "vkEnumeratePhysicalDevices", code);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceProperties properties;
        vk->vkGetPhysicalDeviceProperties(devices[i], &properties);
        if (strncmp(properties.deviceName, wanted, strlen(wanted)) != 0 || properties.apiVersion < VK_API_VERSION_1_2)
            continue;
        VkQueueFamilyProperties families[32];
        uint32_t family_count = 32;
        vk->vkGetPhysicalDeviceQueueFamilyProperties(devices[i], &family_count, families);
        for (uint32_t f = 0; f < family_count; f++)
            if (families[f].queueFlags & VK_QUEUE_COMPUTE_BIT) {
                vk->physical = devices[i];
                vk->family = f;
                return true;
            }
    }
    return bench_subject_fail(subject, "raw Vulkan: no device is named \"%s\"", wanted);
}

static bool create_device(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = vk->family,
                                     .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceVulkan12Features features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
                                                 .timelineSemaphore = VK_TRUE,
                                                 .bufferDeviceAddress = VK_TRUE};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                               .pNext = &features,
                               .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue};
    VkResult code = vk->vkCreateDevice(vk->physical, &info, NULL, &vk->device);
    if (code)
        return bench_vulkan_failed(subject, "vkCreateDevice", code);
#define LOAD(name)                                                                                                     \
    vk->name = (PFN_##name)vk->vkGetDeviceProcAddr(vk->device, #name);                                                 \
    if (!vk->name)                                                                                                     \
        return bench_subject_fail(subject, "raw Vulkan: the device has no " #name);
    BENCH_VULKAN_DEVICE(LOAD)
#undef LOAD
    vk->vkGetDeviceQueue(vk->device, vk->family, 0, &vk->queue);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    code = vk->vkCreateSemaphore(vk->device, &semaphore, NULL, &vk->timeline);
    return code == VK_SUCCESS || bench_vulkan_failed(subject, "vkCreateSemaphore", code);
}

static bool create_pipeline(bench_subject *subject, const unsigned char *spirv, size_t size, VkPipeline *pipeline)
{
    bench_vulkan *vk = subject->state;
    VkShaderModule module;
    VkShaderModuleCreateInfo code_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                          .codeSize = size,
                                          .pCode = (const uint32_t *)(const void *)spirv};
    VkResult code = vk->vkCreateShaderModule(vk->device, &code_info, NULL, &module);
    if (code)
        return bench_vulkan_failed(subject, "vkCreateShaderModule", code);
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = module,
                                                  .pName = "main"},
                                        .layout = vk->layout};
    code = vk->vkCreateComputePipelines(vk->device, VK_NULL_HANDLE, 1, &info, NULL, pipeline);
    vk->vkDestroyShaderModule(vk->device, module, NULL);
    return code == VK_SUCCESS || bench_vulkan_failed(subject, "vkCreateComputePipelines", code);
}

static bool create_pipelines(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    if (!bench_step_push_size)
        return bench_subject_fail(subject, "raw Vulkan: this build has no SPIR-V (glslangValidator was not found)");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 24};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult code = vk->vkCreatePipelineLayout(vk->device, &layout, NULL, &vk->layout);
    if (code)
        return bench_vulkan_failed(subject, "vkCreatePipelineLayout", code);
    return create_pipeline(subject, bench_step_push, bench_step_push_size, &vk->push) &&
           create_pipeline(subject, bench_step_block, bench_step_block_size, &vk->block);
}

static uint32_t memory_type(bench_vulkan *vk, uint32_t allowed, VkMemoryPropertyFlags wanted)
{
    VkPhysicalDeviceMemoryProperties properties;
    vk->vkGetPhysicalDeviceMemoryProperties(vk->physical, &properties);
    for (uint32_t i = 0; i < properties.memoryTypeCount; i++)
        if ((allowed & (1u << i)) && (properties.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    return UINT32_MAX;
}

static bool create_buffer(bench_subject *subject, VkDeviceSize size, bool mapped, bench_vulkan_buffer *buffer)
{
    bench_vulkan *vk = subject->state;
    VkBufferUsageFlags usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = usage};
    VkResult code = vk->vkCreateBuffer(vk->device, &info, NULL, &buffer->buffer);
    if (code)
        return bench_vulkan_failed(subject, "vkCreateBuffer", code);
    VkMemoryRequirements needs;
    vk->vkGetBufferMemoryRequirements(vk->device, buffer->buffer, &needs);
    VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryPropertyFlags wanted = mapped ? host : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo allocation = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = &flags,
                                       .allocationSize = needs.size,
                                       .memoryTypeIndex = memory_type(vk, needs.memoryTypeBits, wanted)};
    code = vk->vkAllocateMemory(vk->device, &allocation, NULL, &buffer->memory);
    if (!code)
        code = vk->vkBindBufferMemory(vk->device, buffer->buffer, buffer->memory, 0);
    if (!code && mapped)
        code = vk->vkMapMemory(vk->device, buffer->memory, 0, VK_WHOLE_SIZE, 0, (void **)&buffer->mapped);
    if (code)
        return bench_vulkan_failed(subject, "allocating memory", code);
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                         .buffer = buffer->buffer};
    buffer->address = vk->vkGetBufferDeviceAddress(vk->device, &address);
    return true;
}

static bool create_buffers(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    VkDeviceSize arena = (VkDeviceSize)BENCH_GROUPS * BENCH_MAX_STEPS * BENCH_SPACING;
    VkDeviceSize uploads = (VkDeviceSize)BENCH_MAX_UPLOADS * BENCH_UPLOAD_SIZE;
    VkDeviceSize staging = arena > uploads ? arena : uploads;
    return create_buffer(subject, arena, false, &vk->sources) && create_buffer(subject, arena, false, &vk->sinks) &&
           create_buffer(subject, uploads, false, &vk->uploads) &&
           create_buffer(subject, staging, true, &vk->staging) &&
           create_buffer(subject, (VkDeviceSize)BENCH_MAX_STEPS * 32, true, &vk->blocks);
}

static bool create_lists(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    for (uint32_t i = 0; i < BENCH_VULKAN_LISTS; i++) {
        VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .queueFamilyIndex = vk->family};
        VkResult code = vk->vkCreateCommandPool(vk->device, &pool, NULL, &vk->lists[i].pool);
        if (code)
            return bench_vulkan_failed(subject, "vkCreateCommandPool", code);
        VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = vk->lists[i].pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
        code = vk->vkAllocateCommandBuffers(vk->device, &info, &vk->lists[i].commands);
        if (code)
            return bench_vulkan_failed(subject, "vkAllocateCommandBuffers", code);
    }
    return true;
}

bool bench_vulkan_open(bench_subject *subject, const bench_device *device)
{
    subject->state = calloc(1, sizeof(bench_vulkan));
    if (!subject->state)
        return bench_subject_fail(subject, "out of memory");
    return create_instance(subject) && find_device(subject, device->info.name) && create_device(subject) &&
           create_pipelines(subject) && create_buffers(subject) && create_lists(subject);
}

static void destroy_buffer(bench_vulkan *vk, bench_vulkan_buffer *buffer)
{
    vk->vkDestroyBuffer(vk->device, buffer->buffer, NULL);
    vk->vkFreeMemory(vk->device, buffer->memory, NULL);
}

void bench_vulkan_close(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    if (!vk)
        return;
    if (vk->device && vk->vkDeviceWaitIdle) {
        vk->vkDeviceWaitIdle(vk->device);
        for (uint32_t i = 0; i < BENCH_VULKAN_LISTS; i++)
            vk->vkDestroyCommandPool(vk->device, vk->lists[i].pool, NULL);
        bench_vulkan_buffer *buffers[] = {&vk->sources, &vk->sinks, &vk->uploads, &vk->staging, &vk->blocks};
        for (uint32_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
            destroy_buffer(vk, buffers[i]);
        vk->vkDestroyPipeline(vk->device, vk->push, NULL);
        vk->vkDestroyPipeline(vk->device, vk->block, NULL);
        vk->vkDestroyPipelineLayout(vk->device, vk->layout, NULL);
        vk->vkDestroySemaphore(vk->device, vk->timeline, NULL);
        vk->vkDestroyDevice(vk->device, NULL);
    }
    if (vk->instance && vk->vkDestroyInstance)
        vk->vkDestroyInstance(vk->instance, NULL);
    if (vk->library)
        dlclose(vk->library);
    free(vk);
    subject->state = NULL;
}
