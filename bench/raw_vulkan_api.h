/* raw_vulkan_api.h - the Vulkan functions that the raw control uses, and its set-up in raw_vulkan_setup.c. */
#ifndef BENCH_RAW_VULKAN_API_H
#define BENCH_RAW_VULKAN_API_H

#define VK_NO_PROTOTYPES
#include "subject.h"

#include <vulkan/vulkan.h>

#define BENCH_VULKAN_INSTANCE(X)                                                                                       \
    X(vkDestroyInstance)                                                                                               \
    X(vkEnumeratePhysicalDevices)                                                                                      \
    X(vkGetPhysicalDeviceProperties)                                                                                   \
    X(vkGetPhysicalDeviceQueueFamilyProperties)                                                                        \
    X(vkGetPhysicalDeviceMemoryProperties)                                                                             \
    X(vkCreateDevice)                                                                                                  \
    X(vkGetDeviceProcAddr)
#define BENCH_VULKAN_DEVICE(X)                                                                                         \
    X(vkDestroyDevice)                                                                                                 \
    X(vkGetDeviceQueue)                                                                                                \
    X(vkCreateBuffer)                                                                                                  \
    X(vkDestroyBuffer)                                                                                                 \
    X(vkGetBufferMemoryRequirements)                                                                                   \
    X(vkAllocateMemory)                                                                                                \
    X(vkFreeMemory)                                                                                                    \
    X(vkBindBufferMemory)                                                                                              \
    X(vkMapMemory)                                                                                                     \
    X(vkGetBufferDeviceAddress)                                                                                        \
    X(vkCreateShaderModule)                                                                                            \
    X(vkDestroyShaderModule)                                                                                           \
    X(vkCreatePipelineLayout)                                                                                          \
    X(vkDestroyPipelineLayout)                                                                                         \
    X(vkCreateComputePipelines)                                                                                        \
    X(vkDestroyPipeline)                                                                                               \
    X(vkCreateSemaphore)                                                                                               \
    X(vkDestroySemaphore)                                                                                              \
    X(vkWaitSemaphores)                                                                                                \
    X(vkCreateCommandPool)                                                                                             \
    X(vkDestroyCommandPool)                                                                                            \
    X(vkResetCommandPool)                                                                                              \
    X(vkAllocateCommandBuffers)                                                                                        \
    X(vkBeginCommandBuffer)                                                                                            \
    X(vkEndCommandBuffer)                                                                                              \
    X(vkCmdBindPipeline)                                                                                               \
    X(vkCmdPushConstants)                                                                                              \
    X(vkCmdDispatch)                                                                                                   \
    X(vkCmdPipelineBarrier)                                                                                            \
    X(vkCmdCopyBuffer)                                                                                                 \
    X(vkCmdFillBuffer)                                                                                                 \
    X(vkQueueSubmit)                                                                                                   \
    X(vkDeviceWaitIdle)

/* A buffer with memory of its own; `mapped` is NULL for device memory. */
typedef struct bench_vulkan_buffer {
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    unsigned char *mapped;
} bench_vulkan_buffer;

/* A command buffer in a pool of its own. */
typedef struct bench_vulkan_list {
    VkCommandPool pool;
    VkCommandBuffer commands;
} bench_vulkan_list;

typedef enum bench_vulkan_use {
    BENCH_VULKAN_NOW,
    BENCH_VULKAN_RECORDED,
    BENCH_VULKAN_SLOTS,
    BENCH_VULKAN_LISTS
} bench_vulkan_use;

typedef struct bench_vulkan {
    void *library;
    PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr;
#define DECLARE(name) PFN_##name name;
    BENCH_VULKAN_INSTANCE(DECLARE)
    BENCH_VULKAN_DEVICE(DECLARE)
#undef DECLARE
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkSemaphore timeline;
    uint64_t point; /* the last submitted */
    VkPipelineLayout layout;
    VkPipeline push, block; /* operands as push constants; in a block of memory */
    bench_vulkan_list lists[BENCH_VULKAN_LISTS];
    uint32_t slot_count;
    bench_vulkan_buffer sources, sinks; /* [BENCH_GROUPS][BENCH_MAX_STEPS], BENCH_SPACING apart */
    bench_vulkan_buffer uploads, staging;
    bench_vulkan_buffer blocks; /* the recorded slots' operands */
} bench_vulkan;

bool bench_vulkan_failed(bench_subject *subject, const char *call, int code);
bool bench_vulkan_open(bench_subject *subject, const bench_device *device);
void bench_vulkan_close(bench_subject *subject);

#endif
