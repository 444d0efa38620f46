/* record.c - lowers one hal_command into a command buffer; shared by streams and recorded lists. */
#include "vulkan_backend.h"

#define WORK_STAGES  (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define WORK_WRITES  (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define WORK_READS   (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT)
#define POOL_SETS    64 /* sets of the first descriptor pool of a chain; each further one is four times as large */
#define POOL_LARGEST 4096

hal_status hal_vk_recorder_create(vk_recorder *recorder, hal_native_device *device, uint64_t parameter_size)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->device = device;
    hal_status status = hal_vk_allocator_create(device->core, &recorder->allocator);
    if (status != HAL_OK)
        return status;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = device->caps.family,
    };
    VkResult result =
        device->vk.CreateCommandPool(device->handle, &pool, &recorder->allocator->callbacks, &recorder->pool);
    if (result != VK_SUCCESS) {
        recorder->pool = VK_NULL_HANDLE;
        hal_vk_recorder_destroy(recorder);
        return hal_vk_fail(result, "vkCreateCommandPool");
    }
    VkCommandBufferAllocateInfo commands = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = recorder->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    result = device->vk.AllocateCommandBuffers(device->handle, &commands, &recorder->commands);
    status = result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkAllocateCommandBuffers");
    if (status == HAL_OK && parameter_size)
        status = hal_vk_parameters_create(device, parameter_size, &recorder->parameters);
    if (status != HAL_OK)
        hal_vk_recorder_destroy(recorder);
    return status;
}

void hal_vk_recorder_destroy(vk_recorder *recorder)
{
    hal_native_device *device = recorder->device;
    if (!device)
        return;
    hal_vk_recorder_release(recorder);
    for (uint32_t i = 0; i < recorder->descriptors.pool_count; i++)
        device->vk.DestroyDescriptorPool(device->handle, recorder->descriptors.pools[i].handle, NULL);
    hal_free(recorder->descriptors.pools);
    hal_free(recorder->views);
    hal_vk_memory_destroy(recorder->parameters);
    if (recorder->pool) /* and the command buffer with it */
        device->vk.DestroyCommandPool(device->handle, recorder->pool, &recorder->allocator->callbacks);
    hal_vk_allocator_destroy(recorder->allocator);
    memset(recorder, 0, sizeof *recorder);
}

void hal_vk_recorder_release(vk_recorder *recorder)
{
    for (uint32_t i = 0; i < recorder->view_count; i++)
        hal_vk_view_release(recorder->device, recorder->views[i].view);
    recorder->view_count = 0;
}

static void barrier(vk_recorder *recorder, VkPipelineStageFlags to, VkAccessFlags access)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = WORK_WRITES,
        .dstAccessMask = access,
    };
    recorder->device->vk.CmdPipelineBarrier(recorder->commands, WORK_STAGES, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* What the queue ran before is done and visible first. */
hal_status hal_vk_recorder_begin(vk_recorder *recorder, VkCommandBufferUsageFlags usage)
{
    hal_native_device *device = recorder->device;
    vk_descriptors *descriptors = &recorder->descriptors;
    hal_vk_recorder_release(recorder);
    VkResult result = device->vk.ResetCommandPool(device->handle, recorder->pool, 0);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkResetCommandPool");
    for (uint32_t i = 0; i < descriptors->pool_count && i <= descriptors->current; i++) {
        result = device->vk.ResetDescriptorPool(device->handle, descriptors->pools[i].handle, 0);
        if (result != VK_SUCCESS)
            return hal_vk_fail(result, "vkResetDescriptorPool");
    }
    descriptors->current = 0;
    if (descriptors->pool_count) {
        descriptors->sets = descriptors->pools[0].sets;
        descriptors->storage = descriptors->pools[0].storage;
        descriptors->texel = descriptors->pools[0].texel;
    }
    recorder->used = 0;
    recorder->kernel = NULL;
    recorder->set_bound = false;
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = usage};
    result = device->vk.BeginCommandBuffer(recorder->commands, &info);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkBeginCommandBuffer");
    barrier(recorder, WORK_STAGES, WORK_READS | WORK_WRITES);
    recorder->fresh = true;
    return HAL_OK;
}

/* The host may read what was written once the submission is waited for. */
hal_status hal_vk_recorder_end(vk_recorder *recorder)
{
    barrier(recorder, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    VkResult result = recorder->device->vk.EndCommandBuffer(recorder->commands);
    return result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkEndCommandBuffer");
}

static uint32_t block_size(const hal_command *command)
{
    uint32_t size = command->dispatch.span_count * (uint32_t)sizeof(VkDeviceAddress) + command->dispatch.args_size;
    return (size + VK_PARAMETER_STEP - 1) & ~(VK_PARAMETER_STEP - 1);
}

uint32_t hal_vk_parameter_size(const hal_command *command)
{
    switch (command->kind) {
    case HAL_COMMAND_DISPATCH:
        return command->dispatch.kernel->abi == HAL_ABI_OFFSET ? block_size(command) : 0;
    case HAL_COMMAND_FILL:
        return VK_PARAMETER_STEP;
    default:
        return 0;
    }
}

/* Where a span is once its slot is bound. memory is NULL while it is not. */
static hal_native_span resolve(const vk_recorder *recorder, const hal_native_span *span)
{
    hal_native_span place = *span;
    if (!span->memory && span->slot != HAL_NO_SLOT && recorder->bindings) {
        const hal_native_span *bound = &recorder->bindings[span->slot];
        if (span->size == HAL_REST && bound->size <= span->offset)
            return *bound; /* the rest of it is nothing: its beginning stands for that */
        place.memory = bound->memory;
        place.offset = bound->offset + span->offset;
        if (span->size == HAL_REST)
            place.size = bound->size - span->offset;
    }
    return place;
}

static hal_status add_pool(vk_recorder *recorder, const hal_native_kernel *kernel)
{
    hal_native_device *device = recorder->device;
    vk_descriptors *d = &recorder->descriptors;
    uint32_t sets = d->pool_count ? d->pools[d->pool_count - 1].sets * 4 : POOL_SETS;
    if (sets > POOL_LARGEST)
        sets = POOL_LARGEST;
    uint32_t storage = sets * (kernel->storage_count > 4 ? kernel->storage_count : 4);
    uint32_t texel = sets * (kernel->texel_count > 2 ? kernel->texel_count : 2);
    VkDescriptorPoolSize sizes[2] = {
        {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storage},
        {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, texel},
    };
    VkDescriptorPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = sets,
        .poolSizeCount = 2,
        .pPoolSizes = sizes,
    };
    vk_descriptor_pool *pools = hal_realloc(device->core, d->pools, (d->pool_count + 1) * sizeof *pools);
    if (!pools)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for descriptor pools");
    d->pools = pools;
    VkDescriptorPool handle;
    VkResult result = device->vk.CreateDescriptorPool(device->handle, &info, NULL, &handle);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkCreateDescriptorPool: %u sets", sets);
    d->pools[d->pool_count++] = (vk_descriptor_pool){handle, sets, storage, texel};
    return HAL_OK;
}

static hal_status allocate_set(vk_recorder *recorder, const hal_native_kernel *kernel, VkDescriptorSet *set)
{
    hal_native_device *device = recorder->device;
    vk_descriptors *d = &recorder->descriptors;
    while (d->pool_count == 0 || d->sets == 0 || d->storage < kernel->storage_count || d->texel < kernel->texel_count) {
        uint32_t following = d->pool_count ? d->current + 1 : 0;
        if (following == d->pool_count) {
            hal_status status = add_pool(recorder, kernel);
            if (status != HAL_OK)
                return status;
        }
        d->current = following;
        d->sets = d->pools[following].sets;
        d->storage = d->pools[following].storage;
        d->texel = d->pools[following].texel;
    }
    VkDescriptorSetAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = d->pools[d->current].handle,
        .descriptorSetCount = 1,
        .pSetLayouts = &kernel->set_layout,
    };
    VkResult result = device->vk.AllocateDescriptorSets(device->handle, &info, set);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkAllocateDescriptorSets");
    d->sets--;
    d->storage -= kernel->storage_count;
    d->texel -= kernel->texel_count;
    return HAL_OK;
}

static hal_status use_view(vk_recorder *recorder, const hal_native_span *span, hal_view kind, VkBufferView *handle)
{
    if (recorder->view_count == recorder->view_capacity) {
        uint32_t capacity = recorder->view_capacity ? recorder->view_capacity * 2 : 32;
        struct vk_view_use *views = hal_realloc(recorder->device->core, recorder->views, capacity * sizeof *views);
        if (!views)
            return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for texel views");
        recorder->views = views;
        recorder->view_capacity = capacity;
    }
    vk_view *view = NULL;
    hal_status status = hal_vk_view_acquire(span->memory, kind, span->offset, span->size, &view);
    if (!view)
        return status;
    recorder->views[recorder->view_count++].view = view;
    *handle = view->handle;
    return HAL_OK;
}

static bool same_set(const vk_recorder *recorder, const hal_native_kernel *kernel, const hal_native_span *spans)
{
    if (!recorder->set_bound)
        return false;
    for (uint32_t i = 0; i < kernel->binding_count; i++)
        if (kernel->has_descriptor[i] &&
            (spans[i].memory != recorder->set_spans[i].memory || spans[i].offset != recorder->set_spans[i].offset ||
             spans[i].size != recorder->set_spans[i].size))
            return false;
    return true;
}

static hal_status write_set(vk_recorder *recorder, const hal_native_kernel *kernel, const hal_native_span *spans,
                            uint32_t span_count, VkDescriptorSet set)
{
    hal_native_device *device = recorder->device;
    VkWriteDescriptorSet writes[HAL_MAX_BINDINGS];
    VkDescriptorBufferInfo buffers[HAL_MAX_BINDINGS];
    VkBufferView views[HAL_MAX_BINDINGS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < span_count; i++) {
        if (!kernel->has_descriptor[i])
            continue;
        VkWriteDescriptorSet *write = &writes[count++];
        *write = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = i,
            .descriptorCount = 1,
        };
        if (kernel->views[i] != HAL_VIEW_NONE) {
            hal_status status = use_view(recorder, &spans[i], kernel->views[i], &views[i]);
            if (status != HAL_OK)
                return status;
            write->descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
            write->pTexelBufferView = &views[i];
        } else {
            if (spans[i].size > device->caps.max_storage_range)
                return hal_fail(HAL_ERROR_LIMIT,
                                "vulkan: binding %u spans %llu bytes: maxStorageBufferRange is %llu; write the kernel "
                                "for HAL_ABI_OFFSET, whose spans have no such limit",
                                i, (unsigned long long)spans[i].size,
                                (unsigned long long)device->caps.max_storage_range);
            buffers[i] = (VkDescriptorBufferInfo){spans[i].memory->buffer, spans[i].offset, spans[i].size};
            write->descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
            write->pBufferInfo = &buffers[i];
        }
    }
    device->vk.UpdateDescriptorSets(device->handle, count, writes, 0, NULL);
    return HAL_OK;
}

static hal_status bind_set(vk_recorder *recorder, const hal_command *command)
{
    hal_native_device *device = recorder->device;
    const hal_native_kernel *kernel = command->dispatch.kernel;
    hal_native_span spans[HAL_MAX_BINDINGS];
    uint32_t span_count = kernel->binding_count;
    for (uint32_t i = 0; i < span_count; i++)
        spans[i] = resolve(recorder, &command->dispatch.spans[i]);
    if (same_set(recorder, kernel, spans))
        return HAL_OK;
    VkDescriptorSet set;
    recorder->set_bound = false;
    hal_status status = allocate_set(recorder, kernel, &set);
    if (status == HAL_OK)
        status = write_set(recorder, kernel, spans, span_count, set);
    if (status != HAL_OK)
        return status;
    device->vk.CmdBindDescriptorSets(recorder->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set, 0,
                                     NULL);
    memcpy(recorder->set_spans, spans, span_count * sizeof *spans);
    recorder->set_bound = true;
    return HAL_OK;
}

/* 0 while the span's slot is not bound. */
static VkDeviceAddress address_of(const vk_recorder *recorder, const hal_native_span *span)
{
    if (span->memory)
        return span->memory->address + span->offset;
    hal_native_span place = resolve(recorder, span);
    return place.memory ? place.memory->address + place.offset : 0;
}

/* Write { span addresses; args } and push the address of it. */
static void push_block(vk_recorder *recorder, const hal_command *command)
{
    const hal_native_kernel *kernel = command->dispatch.kernel;
    hal_native_memory *parameters = recorder->parameters;
    uint32_t span_count = command->dispatch.span_count;
    VkDeviceAddress *block = (VkDeviceAddress *)((char *)parameters->host + recorder->used);
    VkDeviceAddress address = parameters->address + recorder->used;
    for (uint32_t i = 0; i < span_count; i++)
        block[i] = address_of(recorder, &command->dispatch.spans[i]);
    if (command->dispatch.args_size)
        memcpy(block + span_count, command->dispatch.args, command->dispatch.args_size);
    recorder->used += block_size(command);
    recorder->device->vk.CmdPushConstants(recorder->commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                          sizeof address, &address);
}

static hal_status record_dispatch(vk_recorder *recorder, const hal_command *command)
{
    const vk_driver *vk = &recorder->device->vk;
    const hal_native_kernel *kernel = command->dispatch.kernel;
    if (kernel != recorder->kernel) {
        vk->CmdBindPipeline(recorder->commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
        recorder->kernel = kernel;
        recorder->set_bound = false;
    }
    if (kernel->set_layout) {
        hal_status status = bind_set(recorder, command);
        if (status != HAL_OK)
            return status;
    }
    if (kernel->abi == HAL_ABI_OFFSET)
        push_block(recorder, command);
    else if (command->dispatch.args_size)
        vk->CmdPushConstants(recorder->commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                             command->dispatch.args_size, command->dispatch.args);
    vk->CmdDispatch(recorder->commands, command->dispatch.grid[0], command->dispatch.grid[1],
                    command->dispatch.grid[2]);
    return HAL_OK;
}

static void record_copy(vk_recorder *recorder, const hal_command *command)
{
    hal_native_span dst = resolve(recorder, &command->copy.dst);
    hal_native_span src = resolve(recorder, &command->copy.src);
    VkBufferCopy region = {src.offset, dst.offset, dst.size < src.size ? dst.size : src.size};
    if (region.size == 0)
        return;
    recorder->device->vk.CmdCopyBuffer(recorder->commands, src.memory->buffer, dst.memory->buffer, 1, &region);
}

/* vkCmdFillBuffer writes whole words: the bytes before and behind are copied from a block that holds the pattern. */
static void record_fill(vk_recorder *recorder, const hal_command *command)
{
    const vk_driver *vk = &recorder->device->vk;
    hal_native_memory *parameters = recorder->parameters;
    hal_native_span dst = resolve(recorder, &command->fill.dst);
    uint64_t block = recorder->used;
    recorder->used += VK_PARAMETER_STEP;
    uint64_t phase = dst.offset % 4;
    uint64_t head = phase ? 4 - phase : 0;
    if (head > dst.size)
        head = dst.size;
    uint64_t middle = (dst.size - head) & ~UINT64_C(3);
    uint64_t tail = dst.size - head - middle;
    /* The pattern is that of the word it falls into, whatever byte of it the span starts with. */
    uint32_t words[2] = {command->fill.pattern, command->fill.pattern};
    if (head || tail)
        memcpy((char *)parameters->host + block, words, sizeof words);
    if (middle)
        vk->CmdFillBuffer(recorder->commands, dst.memory->buffer, dst.offset + head, middle, command->fill.pattern);
    VkBufferCopy regions[2];
    uint32_t count = 0;
    if (head)
        regions[count++] = (VkBufferCopy){block + phase, dst.offset, head};
    if (tail)
        regions[count++] = (VkBufferCopy){block, dst.offset + head + middle, tail};
    if (count)
        vk->CmdCopyBuffer(recorder->commands, parameters->buffer, dst.memory->buffer, count, regions);
}

hal_status hal_vk_record(vk_recorder *recorder, const hal_command *command)
{
    if (command->barrier && !recorder->fresh)
        barrier(recorder, WORK_STAGES, WORK_READS | WORK_WRITES);
    recorder->fresh = false;
    switch (command->kind) {
    case HAL_COMMAND_DISPATCH:
        return record_dispatch(recorder, command);
    case HAL_COMMAND_COPY:
        record_copy(recorder, command);
        return HAL_OK;
    default:
        record_fill(recorder, command);
        return HAL_OK;
    }
}
