/* raw_vulkan.c - the control for Vulkan: the work in the fastest plain form that we know.
 *
 * Immediate work is one command buffer, with operands as push constants (buffer addresses), and one submission. A
 * recorded list is that command buffer, kept. A list to be rebound reads its operands from blocks of mapped memory, so
 * that rebinding is writing the addresses there. Completion is a timeline semaphore. */
#include "raw_vulkan_api.h"

#include <string.h>

typedef struct operands {
    VkDeviceAddress source, sink;
    uint32_t add, unused;
} operands;

static operands operands_of(const bench_vulkan *vk, bench_group group, bench_operands step)
{
    VkDeviceSize first = (VkDeviceSize)group * BENCH_MAX_STEPS;
    return (operands){vk->sources.address + (first + step.source) * BENCH_SPACING,
                      vk->sinks.address + (first + step.sink) * BENCH_SPACING, step.add, 0};
}

static void barrier(bench_vulkan *vk, VkCommandBuffer commands)
{
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    vk->vkCmdPipelineBarrier(commands, stages, stages, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* Empty the list and open it, ordered after what was submitted before. */
static bool begin(bench_subject *subject, bench_vulkan_use use, VkCommandBuffer *commands)
{
    bench_vulkan *vk = subject->state;
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                     .flags = use == BENCH_VULKAN_NOW ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
                                                                      : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    VkResult code = vk->vkResetCommandPool(vk->device, vk->lists[use].pool, 0);
    *commands = vk->lists[use].commands;
    if (!code)
        code = vk->vkBeginCommandBuffer(*commands, &info);
    if (code)
        return bench_vulkan_failed(subject, "vkBeginCommandBuffer", code);
    barrier(vk, *commands);
    return true;
}

static bool end(bench_subject *subject, bench_vulkan_use use)
{
    bench_vulkan *vk = subject->state;
    VkResult code = vk->vkEndCommandBuffer(vk->lists[use].commands);
    return code == VK_SUCCESS || bench_vulkan_failed(subject, "vkEndCommandBuffer", code);
}

static bool submit(bench_subject *subject, bench_vulkan_use use)
{
    bench_vulkan *vk = subject->state;
    uint64_t point = vk->point + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = 1,
                                              .pSignalSemaphoreValues = &point};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                         .pNext = &timeline,
                         .commandBufferCount = 1,
                         .pCommandBuffers = &vk->lists[use].commands,
                         .signalSemaphoreCount = 1,
                         .pSignalSemaphores = &vk->timeline};
    VkResult code = vk->vkQueueSubmit(vk->queue, 1, &info, VK_NULL_HANDLE);
    if (code)
        return bench_vulkan_failed(subject, "vkQueueSubmit", code);
    vk->point = point;
    return true;
}

static bool wait(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                .semaphoreCount = 1,
                                .pSemaphores = &vk->timeline,
                                .pValues = &vk->point};
    VkResult code = vk->vkWaitSemaphores(vk->device, &info, HAL_SECONDS(30));
    return code == VK_SUCCESS || bench_vulkan_failed(subject, "vkWaitSemaphores", code);
}

static bool copy_and_wait(bench_subject *subject, VkBuffer target, VkDeviceSize target_offset, VkBuffer source,
                          VkDeviceSize source_offset, VkDeviceSize size)
{
    bench_vulkan *vk = subject->state;
    VkCommandBuffer commands;
    VkBufferCopy region = {source_offset, target_offset, size};
    if (!begin(subject, BENCH_VULKAN_NOW, &commands))
        return false;
    vk->vkCmdCopyBuffer(commands, source, target, 1, &region);
    VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                              .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
                              .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vk->vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &memory, 0,
                             NULL, 0, NULL);
    return end(subject, BENCH_VULKAN_NOW) && submit(subject, BENCH_VULKAN_NOW) && wait(subject);
}

static bool raw_open(bench_subject *subject, const bench_device *device)
{
    if (!bench_vulkan_open(subject, device))
        return false;
    bench_vulkan *vk = subject->state;
    VkDeviceSize arena = (VkDeviceSize)BENCH_GROUPS * BENCH_MAX_STEPS * BENCH_SPACING;
    for (uint32_t i = 0; i < BENCH_GROUPS * BENCH_MAX_STEPS; i++) {
        uint32_t value = bench_source_value(i % BENCH_MAX_STEPS);
        memcpy(vk->staging.mapped + (size_t)i * BENCH_SPACING, &value, sizeof value);
    }
    return copy_and_wait(subject, vk->sources.buffer, 0, vk->staging.buffer, 0, arena);
}

static bool clear(bench_subject *subject)
{
    bench_vulkan *vk = subject->state;
    VkCommandBuffer commands;
    if (!begin(subject, BENCH_VULKAN_NOW, &commands))
        return false;
    vk->vkCmdFillBuffer(commands, vk->sinks.buffer, 0, VK_WHOLE_SIZE, 0);
    return end(subject, BENCH_VULKAN_NOW) && submit(subject, BENCH_VULKAN_NOW) && wait(subject);
}

static bool read_sinks(bench_subject *subject, bench_group group, uint32_t count, uint32_t *sinks)
{
    bench_vulkan *vk = subject->state;
    VkDeviceSize size = (VkDeviceSize)BENCH_MAX_STEPS * BENCH_SPACING;
    if (!copy_and_wait(subject, vk->staging.buffer, 0, vk->sinks.buffer, group * size, size))
        return false;
    for (uint32_t i = 0; i < count; i++)
        memcpy(&sinks[i], vk->staging.mapped + (size_t)i * BENCH_SPACING, sizeof *sinks);
    return true;
}

static bool record_push(bench_subject *subject, bench_vulkan_use use, bench_pattern pattern, bench_group group,
                        uint32_t count)
{
    bench_vulkan *vk = subject->state;
    VkCommandBuffer commands;
    if (!begin(subject, use, &commands))
        return false;
    vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, vk->push);
    for (uint32_t i = 0; i < count; i++) {
        operands step = operands_of(vk, group, bench_step_operands(pattern, i));
        if (pattern == BENCH_CHAIN && i > 0)
            barrier(vk, commands);
        vk->vkCmdPushConstants(commands, vk->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 20, &step);
        vk->vkCmdDispatch(commands, 1, 1, 1);
    }
    return end(subject, use);
}

static bool dispatch(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    return record_push(subject, BENCH_VULKAN_NOW, pattern, BENCH_BUFFERS, count) && submit(subject, BENCH_VULKAN_NOW);
}

static bool upload(bench_subject *subject, const void *source, uint32_t count)
{
    bench_vulkan *vk = subject->state;
    VkCommandBuffer commands;
    if (!begin(subject, BENCH_VULKAN_NOW, &commands))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        VkDeviceSize place = (VkDeviceSize)i * BENCH_UPLOAD_SIZE;
        VkBufferCopy region = {place, place, BENCH_UPLOAD_SIZE};
        memcpy(vk->staging.mapped + place, (const char *)source + place, BENCH_UPLOAD_SIZE);
        vk->vkCmdCopyBuffer(commands, vk->staging.buffer, vk->uploads.buffer, 1, &region);
    }
    return end(subject, BENCH_VULKAN_NOW) && submit(subject, BENCH_VULKAN_NOW);
}

static bool read_upload(bench_subject *subject, uint32_t index, void *target)
{
    bench_vulkan *vk = subject->state;
    VkDeviceSize place = (VkDeviceSize)index * BENCH_UPLOAD_SIZE;
    if (!copy_and_wait(subject, vk->staging.buffer, 0, vk->uploads.buffer, place, BENCH_UPLOAD_SIZE))
        return false;
    memcpy(target, vk->staging.mapped, BENCH_UPLOAD_SIZE);
    return true;
}

static bool round_trip(bench_subject *subject, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!dispatch(subject, BENCH_CHAIN, 1) || !wait(subject))
            return false;
    return true;
}

static bool record(bench_subject *subject, bench_pattern pattern, uint32_t count)
{
    return record_push(subject, BENCH_VULKAN_RECORDED, pattern, BENCH_BUFFERS, count);
}

static bool replay(bench_subject *subject)
{
    return submit(subject, BENCH_VULKAN_RECORDED);
}

static bool record_slots(bench_subject *subject, uint32_t count)
{
    bench_vulkan *vk = subject->state;
    VkCommandBuffer commands;
    if (!begin(subject, BENCH_VULKAN_SLOTS, &commands))
        return false;
    vk->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, vk->block);
    for (uint32_t i = 0; i < count; i++) {
        VkDeviceAddress block = vk->blocks.address + (VkDeviceAddress)i * sizeof(operands);
        vk->vkCmdPushConstants(commands, vk->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof block, &block);
        vk->vkCmdDispatch(commands, 1, 1, 1);
    }
    vk->slot_count = count;
    return end(subject, BENCH_VULKAN_SLOTS);
}

static bool rebind(bench_subject *subject, bench_group group)
{
    bench_vulkan *vk = subject->state;
    operands *blocks = (operands *)(void *)vk->blocks.mapped;
    for (uint32_t i = 0; i < vk->slot_count; i++)
        blocks[i] = operands_of(vk, group, bench_step_operands(BENCH_REBIND, i));
    return submit(subject, BENCH_VULKAN_SLOTS);
}

static bool rerecord(bench_subject *subject, bench_group group, uint32_t count)
{
    return record_push(subject, BENCH_VULKAN_NOW, BENCH_REBIND, group, count) && submit(subject, BENCH_VULKAN_NOW);
}

const bench_subject_api bench_raw_vulkan = {
    .name = "raw Vulkan",
    .open = raw_open,
    .close = bench_vulkan_close,
    .wait = wait,
    .clear = clear,
    .read = read_sinks,
    .dispatch = dispatch,
    .upload = upload,
    .read_upload = read_upload,
    .round_trip = round_trip,
    .record = record,
    .replay = replay,
    .record_slots = record_slots,
    .rebind = rebind,
    .rerecord = rerecord,
};
