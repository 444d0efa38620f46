/* provoke_vulkan - one invalid Vulkan call and one missing barrier, on purpose: the check matrix runs it to see that
 * the validation layer is there and speaks up, before it takes the layer's silence for a good sign. */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <stdio.h>
#include <vulkan/vulkan.h>

static PFN_vkGetInstanceProcAddr get;
static VkInstance instance;
#define LOAD(name) PFN_##name name = (PFN_##name)get(instance, #name)
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != VK_SUCCESS) {                                                                                    \
            fprintf(stderr, "provoke_vulkan: %s failed\n", #call);                                                     \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* A buffer with memory. */
static int make_buffer(VkDevice device, VkBuffer *buffer)
{
    LOAD(vkCreateBuffer);
    LOAD(vkGetBufferMemoryRequirements);
    LOAD(vkAllocateMemory);
    LOAD(vkBindBufferMemory);
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = 256,
                               .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryRequirements needs;
    VkDeviceMemory memory;
    unsigned type = 0;
    TRY(vkCreateBuffer(device, &info, NULL, buffer));
    vkGetBufferMemoryRequirements(device, *buffer, &needs);
    while (!(needs.memoryTypeBits >> type & 1))
        type++;
    VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, NULL, needs.size, type};
    TRY(vkAllocateMemory(device, &allocate, NULL, &memory));
    TRY(vkBindBufferMemory(device, *buffer, memory, 0));
    return 0;
}

static int provoke(VkDevice device, uint32_t family)
{
    LOAD(vkCreateBuffer);
    LOAD(vkCreateCommandPool);
    LOAD(vkAllocateCommandBuffers);
    LOAD(vkBeginCommandBuffer);
    LOAD(vkCmdFillBuffer);
    LOAD(vkCmdCopyBuffer);
    LOAD(vkEndCommandBuffer);
    VkBuffer a, b, unusable = VK_NULL_HANDLE;
    VkCommandPool pool;
    VkCommandBuffer commands;

    /* The invalid call: a buffer of size 0. */
    VkBufferCreateInfo zero = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    vkCreateBuffer(device, &zero, NULL, &unusable);

    /* The hazard: a copy reads what a fill wrote, with no barrier between. */
    if (make_buffer(device, &a) || make_buffer(device, &b))
        return 1;
    VkCommandPoolCreateInfo pool_info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, NULL, 0, family};
    TRY(vkCreateCommandPool(device, &pool_info, NULL, &pool));
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, NULL, pool,
                                            VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
    TRY(vkAllocateCommandBuffers(device, &allocate, &commands));
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    TRY(vkBeginCommandBuffer(commands, &begin));
    vkCmdFillBuffer(commands, a, 0, 256, 1);
    VkBufferCopy region = {0, 0, 256};
    vkCmdCopyBuffer(commands, a, b, 1, &region);
    TRY(vkEndCommandBuffer(commands));
    return 0;
}

int main(void)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "provoke_vulkan: %s\n", dlerror());
        return 1;
    }
    get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
    LOAD(vkCreateInstance);
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    TRY(vkCreateInstance(&info, NULL, &instance));
    LOAD(vkEnumeratePhysicalDevices);
    LOAD(vkCreateDevice);
    uint32_t count = 1;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    vkEnumeratePhysicalDevices(instance, &count, &physical);
    if (count == 0 || !physical) {
        fprintf(stderr, "provoke_vulkan: no device\n");
        return 1;
    }
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue};
    VkDevice device;
    TRY(vkCreateDevice(physical, &create, NULL, &device));
    return provoke(device, 0); /* the process ends here: nothing is destroyed, which the layer does not mind */
}
