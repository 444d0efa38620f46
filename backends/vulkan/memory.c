/* memory.c - one VkBuffer on one VkDeviceMemory for each native memory, and the texel views of it. */
#include "vulkan_backend.h"

#define BUFFER_USAGE                                                                                                   \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |                                   \
     VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT)
#define LOCAL    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define VISIBLE  VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT
#define COHERENT VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
#define CACHED   VK_MEMORY_PROPERTY_HOST_CACHED_BIT

/* What a use of memory needs of its type, the best first; 0 fits any type. */
typedef struct placement {
    VkMemoryPropertyFlags wants[3];
    uint32_t count;
    const char *name;
} placement;

static const placement place_device = {{LOCAL, 0}, 2, "device"};
static const placement place_host = {{VISIBLE | CACHED | COHERENT, VISIBLE | CACHED, VISIBLE | COHERENT}, 3, "host"};
static const placement place_unified = {
    {LOCAL | VISIBLE | COHERENT | CACHED, LOCAL | VISIBLE | COHERENT}, 2, "unified"};
static const placement place_staging = {{VISIBLE | COHERENT | CACHED, VISIBLE | COHERENT}, 2, "staging"};
static const placement place_parameters = {{LOCAL | VISIBLE | COHERENT, VISIBLE | COHERENT}, 2, "parameter"};
static const placement place_import = {{VISIBLE | COHERENT | CACHED, VISIBLE | COHERENT}, 2, "imported"};

static int find_type(const vk_caps *caps, const placement *place, uint32_t allowed)
{
    for (uint32_t w = 0; w < place->count; w++)
        for (uint32_t i = 0; i < caps->memory.memoryTypeCount; i++)
            if ((allowed & 1u << i) && (caps->memory.memoryTypes[i].propertyFlags & place->wants[w]) == place->wants[w])
                return (int)i;
    return -1;
}

static const placement *placement_of(hal_native_memory_kind kind)
{
    switch (kind) {
    case HAL_NATIVE_HOST:
        return &place_host;
    case HAL_NATIVE_UNIFIED:
        return &place_unified;
    case HAL_NATIVE_STAGING:
        return &place_staging;
    case HAL_NATIVE_IMPORT:
        return &place_import;
    default:
        return &place_device;
    }
}

static hal_status create_buffer(hal_native_memory *memory, const placement *place)
{
    hal_native_device *device = memory->device;
    if (memory->size > device->caps.max_allocation)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY,
                        "vulkan: %s memory of %llu bytes: the device allocates at most %llu at once", place->name,
                        (unsigned long long)memory->size, (unsigned long long)device->caps.max_allocation);
    VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
    };
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = memory->imported ? &external : NULL,
        .size = memory->size,
        .usage = BUFFER_USAGE,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VkResult result = device->vk.CreateBuffer(device->handle, &info, NULL, &memory->buffer);
    if (result != VK_SUCCESS) {
        memory->buffer = VK_NULL_HANDLE;
        return hal_vk_fail(result, "vkCreateBuffer: %llu bytes of %s memory", (unsigned long long)memory->size,
                           place->name);
    }
    return HAL_OK;
}

/* The memory types that a host pointer can be imported as. */
static hal_status imported_types(hal_native_memory *memory, uint32_t *allowed)
{
    hal_native_device *device = memory->device;
    VkMemoryHostPointerPropertiesEXT properties = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkResult result = device->vk.GetMemoryHostPointerPropertiesEXT(
        device->handle, VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, memory->host, &properties);
    if (result == VK_ERROR_INVALID_EXTERNAL_HANDLE || (result == VK_SUCCESS && properties.memoryTypeBits == 0))
        return hal_fail(HAL_ERROR_UNSUPPORTED, "vulkan: vkGetMemoryHostPointerPropertiesEXT: the driver cannot import "
                                               "this kind of host memory");
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkGetMemoryHostPointerPropertiesEXT: %p", memory->host);
    *allowed &= properties.memoryTypeBits;
    return HAL_OK;
}

static hal_status allocate(hal_native_memory *memory, const placement *place)
{
    hal_native_device *device = memory->device;
    const VkPhysicalDeviceMemoryProperties *types = &device->caps.memory;
    VkMemoryRequirements needs;
    device->vk.GetBufferMemoryRequirements(device->handle, memory->buffer, &needs);
    if (memory->imported) {
        hal_status status = imported_types(memory, &needs.memoryTypeBits);
        if (status != HAL_OK)
            return status;
    }
    int type = find_type(&device->caps, place, needs.memoryTypeBits);
    if (type < 0)
        return hal_fail(HAL_ERROR_UNSUPPORTED, "vulkan: the device has no memory type for %s memory", place->name);
    uint64_t heap = types->memoryHeaps[types->memoryTypes[type].heapIndex].size;
    uint64_t size = memory->imported ? memory->size : needs.size;
    if (needs.size > heap || (memory->imported && needs.size > memory->size))
        return hal_fail(
            HAL_ERROR_OUT_OF_MEMORY, "vulkan: %llu bytes of %s memory: %llu are needed and the heap has %llu",
            (unsigned long long)memory->size, place->name, (unsigned long long)needs.size, (unsigned long long)heap);
    VkImportMemoryHostPointerInfoEXT import = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT,
        .pHostPointer = memory->host,
    };
    VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .pNext = memory->imported ? &import : NULL,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = size,
        .memoryTypeIndex = (uint32_t)type,
    };
    VkResult result = device->vk.AllocateMemory(device->handle, &info, NULL, &memory->memory);
    if (result != VK_SUCCESS) {
        memory->memory = VK_NULL_HANDLE;
        return hal_vk_fail(result, "vkAllocateMemory: %llu bytes of %s memory", (unsigned long long)size, place->name);
    }
    VkMemoryPropertyFlags properties = types->memoryTypes[type].propertyFlags;
    memory->coherent = properties & COHERENT;
    return HAL_OK;
}

static hal_status bind_and_map(hal_native_memory *memory, bool map)
{
    hal_native_device *device = memory->device;
    VkResult result = device->vk.BindBufferMemory(device->handle, memory->buffer, memory->memory, 0);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkBindBufferMemory");
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = memory->buffer};
    memory->address = device->vk.GetBufferDeviceAddress(device->handle, &info);
    if (!map)
        return HAL_OK;
    result = device->vk.MapMemory(device->handle, memory->memory, 0, VK_WHOLE_SIZE, 0, &memory->host);
    if (result != VK_SUCCESS) {
        memory->host = NULL;
        return hal_vk_fail(result, "vkMapMemory: %llu bytes", (unsigned long long)memory->size);
    }
    return HAL_OK;
}

static hal_status create(hal_native_device *device, const placement *place, uint64_t size, void *import, bool map,
                         hal_native_memory **out)
{
    hal_native_memory *memory = hal_calloc(device->core, 1, sizeof *memory);
    if (!memory)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating %s memory", place->name);
    memory->device = device;
    memory->id = atomic_fetch_add(&device->next_memory, 1) + 1;
    memory->imported = import != NULL;
    memory->host = import;
    /* Whole texels, so that a view may round its last element up. */
    memory->size = import || size > UINT64_MAX - 15 ? size : (size + 15) & ~UINT64_C(15);
    hal_status status = create_buffer(memory, place);
    if (status == HAL_OK)
        status = allocate(memory, place);
    if (status == HAL_OK)
        status = bind_and_map(memory, map);
    if (status != HAL_OK) {
        hal_vk_memory_destroy(memory);
        return status;
    }
    *out = memory;
    return HAL_OK;
}

hal_status hal_vk_parameters_create(hal_native_device *device, uint64_t size, hal_native_memory **memory)
{
    return create(device, &place_parameters, size, NULL, true, memory);
}

hal_status hal_vk_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                                hal_native_memory **memory)
{
    void *import = NULL;
    if (kind == HAL_NATIVE_IMPORT) {
        import = *host;
        uint64_t alignment = device->caps.import_alignment;
        if (!device->caps.host_import || !device->vk.GetMemoryHostPointerPropertiesEXT)
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "vulkan: the driver cannot import host memory (VK_EXT_external_memory_host)");
        if ((uintptr_t)import % alignment || size % alignment)
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "vulkan: imported memory at %p of %llu bytes: the driver needs multiples of %llu", import,
                            (unsigned long long)size, (unsigned long long)alignment);
    }
    bool map = kind == HAL_NATIVE_HOST || kind == HAL_NATIVE_UNIFIED || kind == HAL_NATIVE_STAGING;
    hal_status status = create(device, placement_of(kind), size, import, map, memory);
    if (status == HAL_OK && host && kind == HAL_NATIVE_STAGING)
        *host = (*memory)->host;
    return status;
}

/* A view may still be named by a recording that is done but not yet reset: its record lives on without the handle. */
static void orphan_views(hal_native_memory *memory)
{
    hal_native_device *device = memory->device;
    pthread_mutex_lock(&device->view_lock);
    for (vk_view *view = memory->views, *next; view; view = next) {
        next = view->next;
        device->vk.DestroyBufferView(device->handle, view->handle, NULL);
        view->handle = VK_NULL_HANDLE;
        view->memory = NULL;
        if (view->uses == 0)
            hal_free(view);
    }
    memory->views = NULL;
    pthread_mutex_unlock(&device->view_lock);
}

void hal_vk_memory_destroy(hal_native_memory *memory)
{
    if (!memory)
        return;
    hal_native_device *device = memory->device;
    if (memory->views)
        orphan_views(memory);
    if (memory->buffer)
        device->vk.DestroyBuffer(device->handle, memory->buffer, NULL);
    if (memory->memory)
        device->vk.FreeMemory(device->handle, memory->memory, NULL); /* unmaps it */
    hal_free(memory);
}

/* Flush or invalidate all of it: the atom size makes exact ranges cost more than they save. */
static VkMappedMemoryRange whole_range(const hal_native_memory *memory)
{
    VkMappedMemoryRange range = {
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = memory->memory,
        .offset = 0,
        .size = VK_WHOLE_SIZE,
    };
    return range;
}

hal_status hal_vk_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                             void **pointer)
{
    hal_native_device *device = memory->device;
    (void)size;
    (void)access;
    if (!memory->host)
        return hal_fail(HAL_ERROR_UNSUPPORTED, "vulkan: the memory is not visible to the host");
    if (!memory->coherent) {
        VkMappedMemoryRange range = whole_range(memory);
        VkResult result = device->vk.InvalidateMappedMemoryRanges(device->handle, 1, &range);
        if (result != VK_SUCCESS)
            return hal_vk_fail(result, "vkInvalidateMappedMemoryRanges");
    }
    *pointer = (char *)memory->host + offset;
    return HAL_OK;
}

hal_status hal_vk_memory_unmap(hal_native_memory *memory, void *pointer)
{
    hal_native_device *device = memory->device;
    (void)pointer;
    if (memory->coherent)
        return HAL_OK;
    VkMappedMemoryRange range = whole_range(memory);
    VkResult result = device->vk.FlushMappedMemoryRanges(device->handle, 1, &range);
    return result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkFlushMappedMemoryRanges");
}

static VkFormat view_format(hal_view view, uint32_t *texel)
{
    switch (view) {
    case HAL_VIEW_R32F:
        *texel = 4;
        return VK_FORMAT_R32_SFLOAT;
    case HAL_VIEW_RGBA32F:
        *texel = 16;
        return VK_FORMAT_R32G32B32A32_SFLOAT;
    case HAL_VIEW_R32UI:
        *texel = 4;
        return VK_FORMAT_R32_UINT;
    case HAL_VIEW_RGBA32UI:
        *texel = 16;
        return VK_FORMAT_R32G32B32A32_UINT;
    case HAL_VIEW_R16UI:
        *texel = 2;
        return VK_FORMAT_R16_UINT;
    default:
        *texel = 8;
        return VK_FORMAT_R16G16B16A16_UINT;
    }
}

/* With view_lock held: drop the view unused for longest, if there are many. */
static void trim_views(hal_native_memory *memory)
{
    if (memory->view_count < VK_VIEWS_MAX)
        return;
    vk_view **oldest = NULL;
    for (vk_view **link = &memory->views; *link; link = &(*link)->next)
        if ((*link)->uses == 0)
            oldest = link;
    if (!oldest)
        return;
    vk_view *view = *oldest;
    *oldest = view->next;
    memory->view_count--;
    memory->device->vk.DestroyBufferView(memory->device->handle, view->handle, NULL);
    hal_free(view);
}

static hal_status create_view(hal_native_memory *memory, VkFormat format, uint64_t offset, uint64_t range,
                              vk_view **out)
{
    hal_native_device *device = memory->device;
    vk_view *view = hal_calloc(device->core, 1, sizeof *view);
    if (!view)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a texel view");
    VkBufferViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = memory->buffer,
        .format = format,
        .offset = offset,
        .range = range,
    };
    VkResult result = device->vk.CreateBufferView(device->handle, &info, NULL, &view->handle);
    if (result != VK_SUCCESS) {
        hal_free(view);
        return hal_vk_fail(result, "vkCreateBufferView: bytes %llu to %llu", (unsigned long long)offset,
                           (unsigned long long)offset + (unsigned long long)range);
    }
    view->format = format;
    view->offset = offset;
    view->range = range;
    view->memory = memory;
    *out = view;
    return HAL_OK;
}

hal_status hal_vk_view_acquire(hal_native_memory *memory, hal_view kind, uint64_t offset, uint64_t size, vk_view **out)
{
    hal_native_device *device = memory->device;
    uint32_t texel;
    VkFormat format = view_format(kind, &texel);
    uint64_t range = size > memory->size - offset - (memory->size - offset) % texel
                         ? memory->size - offset - (memory->size - offset) % texel
                         : (size + texel - 1) / texel * texel;
    if (range == 0 || range / texel > device->caps.info.max_view_elements)
        return hal_fail(HAL_ERROR_LIMIT,
                        "vulkan: a texel view of %llu bytes has %llu elements: the device takes 1 to %llu "
                        "(max_view_elements); bind a shorter span",
                        (unsigned long long)size, (unsigned long long)(range / texel),
                        (unsigned long long)device->caps.info.max_view_elements);
    hal_status status = HAL_OK;
    pthread_mutex_lock(&device->view_lock);
    vk_view *view = NULL;
    for (vk_view **link = &memory->views; *link; link = &(*link)->next)
        if ((*link)->offset == offset && (*link)->range == range && (*link)->format == format) {
            view = *link;
            *link = view->next;
            break;
        }
    if (!view) {
        trim_views(memory);
        status = create_view(memory, format, offset, range, &view);
        memory->view_count += status == HAL_OK;
    }
    if (view) {
        view->uses++;
        view->next = memory->views;
        memory->views = view;
        *out = view;
    }
    pthread_mutex_unlock(&device->view_lock);
    return status;
}

void hal_vk_view_release(hal_native_device *device, vk_view *view)
{
    pthread_mutex_lock(&device->view_lock);
    view->uses--;
    if (view->uses == 0 && !view->memory)
        hal_free(view);
    pthread_mutex_unlock(&device->view_lock);
}
