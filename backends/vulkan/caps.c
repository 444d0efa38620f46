/* caps.c - what a physical device is and can do, and the features we switch on. */
#include "vulkan_backend.h"

#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
/* Of extensions newer than the oldest headers we build with. */
#define TYPE_COOPERATIVE_MATRIX_FEATURES ((VkStructureType)1000506000)
#define TYPE_BFLOAT16_FEATURES           ((VkStructureType)1000141000)

typedef struct properties {
    VkPhysicalDeviceProperties2 base;
    VkPhysicalDeviceVulkan11Properties v11;
    VkPhysicalDeviceVulkan12Properties v12;
    VkPhysicalDeviceMaintenance4Properties maintenance4;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup;
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT import;
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci;
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia;
    VkPhysicalDeviceShaderCorePropertiesAMD amd;
} properties;

typedef struct extensions {
    VkExtensionProperties *list;
    uint32_t count;
} extensions;

static bool has_extension(const extensions *all, const char *name)
{
    for (uint32_t i = 0; all->list && i < all->count; i++)
        if (strcmp(all->list[i].extensionName, name) == 0)
            return true;
    return false;
}

static hal_status list_extensions(const vk_driver *vk, VkPhysicalDevice physical, extensions *all)
{
    VkResult result = vk->EnumerateDeviceExtensionProperties(physical, NULL, &all->count, NULL);
    if (result == VK_SUCCESS && all->count) {
        all->list = calloc(all->count, sizeof *all->list);
        result = all->list ? vk->EnumerateDeviceExtensionProperties(physical, NULL, &all->count, all->list)
                           : VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (result == VK_SUCCESS || result == VK_INCOMPLETE)
        return HAL_OK;
    free(all->list);
    all->list = NULL;
    return hal_vk_fail(result, "vkEnumerateDeviceExtensionProperties");
}

static void chain(void **tail, void *next_struct, VkStructureType type)
{
    VkBaseOutStructure *next = next_struct;
    next->sType = type;
    ((VkBaseOutStructure *)*tail)->pNext = next;
    *tail = next;
}

static void query_properties(const vk_driver *vk, VkPhysicalDevice physical, const extensions *all, properties *p)
{
    bool v13 = p->base.properties.apiVersion >= VK_API_VERSION_1_3 && vk->version >= VK_API_VERSION_1_3;
    void *tail = &p->base;
    p->base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    chain(&tail, &p->v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
    chain(&tail, &p->v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    if (v13 || has_extension(all, VK_KHR_MAINTENANCE_4_EXTENSION_NAME))
        chain(&tail, &p->maintenance4, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES);
    if (v13 || has_extension(all, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        chain(&tail, &p->subgroup, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    if (has_extension(all, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME))
        chain(&tail, &p->import, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT);
    if (has_extension(all, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME))
        chain(&tail, &p->pci, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
    if (has_extension(all, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        chain(&tail, &p->nvidia, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV);
    if (has_extension(all, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        chain(&tail, &p->amd, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    vk->GetPhysicalDeviceProperties2(physical, &p->base);
}

/* Ask which features there are and keep only those we use. */
static void choose_features(const vk_driver *vk, VkPhysicalDevice physical, const extensions *all, bool cpu,
                            vk_caps *caps)
{
    vk_feature_chain extra = {0};
    VkPhysicalDeviceVulkan12Features f12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features f11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                                            .pNext = &f12};
    VkPhysicalDeviceFeatures2 f = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f11};
    bool has_matrix = has_extension(all, "VK_KHR_cooperative_matrix");
    bool has_bfloat = has_extension(all, "VK_KHR_shader_bfloat16");
    bool has_robustness = has_extension(all, VK_EXT_ROBUSTNESS_2_EXTENSION_NAME);
    void *tail = &f12;
    if (has_matrix)
        chain(&tail, &extra.cooperative_matrix, TYPE_COOPERATIVE_MATRIX_FEATURES);
    if (has_bfloat)
        chain(&tail, &extra.bfloat16, TYPE_BFLOAT16_FEATURES);
    if (has_robustness)
        chain(&tail, &extra.robustness, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT);
    vk->GetPhysicalDeviceFeatures2(physical, &f);
    caps->cooperative_matrix = has_matrix && extra.cooperative_matrix.bits[0];
    caps->bfloat16 = has_bfloat && extra.bfloat16.bits[0];
    /* Only where it costs nothing: a CPU device's driver compares each access with the span anyhow. */
    caps->robustness = cpu && has_robustness && extra.robustness.bits[0];
    caps->features.features.robustBufferAccess = caps->robustness;

#define KEEP(member, from, field) caps->member.field = (from).field
    KEEP(features.features, f.features, shaderInt64);
    KEEP(features.features, f.features, shaderInt16);
    KEEP(features.features, f.features, shaderFloat64);
    KEEP(features11, f11, storageBuffer16BitAccess);
    KEEP(features11, f11, uniformAndStorageBuffer16BitAccess);
    KEEP(features11, f11, variablePointersStorageBuffer);
    KEEP(features11, f11, variablePointers);
    KEEP(features12, f12, storageBuffer8BitAccess);
    KEEP(features12, f12, uniformAndStorageBuffer8BitAccess);
    KEEP(features12, f12, shaderBufferInt64Atomics);
    KEEP(features12, f12, shaderSharedInt64Atomics);
    KEEP(features12, f12, shaderFloat16);
    KEEP(features12, f12, shaderInt8);
    KEEP(features12, f12, scalarBlockLayout);
    KEEP(features12, f12, shaderSubgroupExtendedTypes);
    KEEP(features12, f12, timelineSemaphore);
    KEEP(features12, f12, bufferDeviceAddress);
    KEEP(features12, f12, vulkanMemoryModel);
    KEEP(features12, f12, vulkanMemoryModelDeviceScope);
#undef KEEP
}

const void *hal_vk_caps_features(vk_caps *caps, vk_feature_chain *extra)
{
    caps->features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    caps->features.pNext = NULL;
    void *tail = &caps->features;
    chain(&tail, &caps->features11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    chain(&tail, &caps->features12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    memset(extra, 0, sizeof *extra);
    extra->cooperative_matrix.bits[0] = VK_TRUE;
    extra->bfloat16.bits[0] = VK_TRUE;
    extra->robustness.bits[0] = VK_TRUE; /* robustBufferAccess2 */
    if (caps->cooperative_matrix)
        chain(&tail, &extra->cooperative_matrix, TYPE_COOPERATIVE_MATRIX_FEATURES);
    if (caps->bfloat16)
        chain(&tail, &extra->bfloat16, TYPE_BFLOAT16_FEATURES);
    if (caps->robustness)
        chain(&tail, &extra->robustness, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT);
    ((VkBaseOutStructure *)tail)->pNext = NULL;
    return &caps->features;
}

static void choose_extensions(const extensions *all, const properties *p, vk_caps *caps)
{
    caps->host_import = has_extension(all, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    if (caps->host_import) {
        caps->extensions[caps->extension_count++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
        caps->import_alignment = p->import.minImportedHostPointerAlignment;
    }
    if (caps->cooperative_matrix)
        caps->extensions[caps->extension_count++] = "VK_KHR_cooperative_matrix";
    if (caps->bfloat16)
        caps->extensions[caps->extension_count++] = "VK_KHR_shader_bfloat16";
    if (caps->robustness)
        caps->extensions[caps->extension_count++] = VK_EXT_ROBUSTNESS_2_EXTENSION_NAME;
}

/* A family for compute only, if there is one: it runs beside graphics. */
static bool choose_family(const vk_driver *vk, VkPhysicalDevice physical, vk_caps *caps)
{
    VkQueueFamilyProperties families[32];
    uint32_t count = COUNT(families);
    vk->GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || families[i].queueCount == 0)
            continue;
        if (best < 0 ||
            ((families[best].queueFlags & VK_QUEUE_GRAPHICS_BIT) && !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)))
            best = (int)i;
    }
    if (best < 0)
        return false;
    caps->family = (uint32_t)best;
    caps->family_queues = families[best].queueCount < VK_QUEUES_MAX ? families[best].queueCount : VK_QUEUES_MAX;
    caps->timestamp_bits = families[best].timestampValidBits;
    return true;
}

static uint64_t largest_local_heap(const VkPhysicalDeviceMemoryProperties *memory)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if ((memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && memory->memoryHeaps[i].size > size)
            size = memory->memoryHeaps[i].size;
    return size;
}

/* Vulkan has no count of compute units; vendors' extensions do. 1 where nothing tells. */
static uint32_t compute_units(const properties *p)
{
    if (p->nvidia.shaderSMCount)
        return p->nvidia.shaderSMCount;
    if (p->amd.computeUnitsPerShaderArray)
        return p->amd.shaderEngineCount * p->amd.shaderArraysPerEngineCount * p->amd.computeUnitsPerShaderArray;
    if (p->base.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        /* llvmpipe takes its number of threads from the environment; 0 runs on one thread of its own. */
        const char *threads = getenv("LP_NUM_THREADS");
        long cores = threads && *threads ? strtol(threads, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
        return cores < 1 ? 1 : (uint32_t)cores;
    }
    return 1;
}

static void describe_identity(const properties *p, uint32_t index, hal_device_info *info)
{
    const VkPhysicalDeviceProperties *base = &p->base.properties;
    snprintf(info->backend, sizeof info->backend, "vulkan");
    snprintf(info->name, sizeof info->name, "%.127s", base->deviceName);
    snprintf(info->driver, sizeof info->driver, "%.60s %.60s", p->v12.driverName, p->v12.driverInfo);
    for (uint32_t i = 0; i < VK_UUID_SIZE; i++)
        snprintf(info->uuid + (size_t)2 * i, 3, "%02x", p->v11.deviceUUID[i]);
    if (p->pci.pciBus || p->pci.pciDevice || p->pci.pciDomain)
        snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", p->pci.pciDomain & 0xffffffu, p->pci.pciBus & 0xffu,
                 p->pci.pciDevice & 0xffu, p->pci.pciFunction & 0xfu);
    info->index = index;
    info->api_major = VK_API_VERSION_MAJOR(base->apiVersion);
    info->api_minor = VK_API_VERSION_MINOR(base->apiVersion);
    switch (base->deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
        info->type = HAL_DEVICE_CPU;
        break;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        info->type = HAL_DEVICE_INTEGRATED;
        break;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        info->type = HAL_DEVICE_DISCRETE;
        break;
    default:
        info->type = HAL_DEVICE_OTHER;
    }
}

static void describe_limits(const properties *p, vk_caps *caps)
{
    const VkPhysicalDeviceLimits *limits = &p->base.properties.limits;
    hal_device_info *info = &caps->info;
    info->compute_units = compute_units(p);
    info->subgroup_size = p->v11.subgroupSize ? p->v11.subgroupSize : 1;
    info->subgroup_size_min = p->subgroup.minSubgroupSize ? p->subgroup.minSubgroupSize : info->subgroup_size;
    info->subgroup_size_max = p->subgroup.maxSubgroupSize ? p->subgroup.maxSubgroupSize : info->subgroup_size;
    info->max_group_size = limits->maxComputeWorkGroupInvocations;
    for (int i = 0; i < 3; i++) {
        info->max_group_dim[i] = limits->maxComputeWorkGroupSize[i];
        info->max_group_count[i] = limits->maxComputeWorkGroupCount[i];
    }
    info->max_shared_memory = limits->maxComputeSharedMemorySize;
    info->max_args = limits->maxPushConstantsSize < HAL_MAX_ARGS ? limits->maxPushConstantsSize : HAL_MAX_ARGS;
    info->span_alignment =
        limits->minStorageBufferOffsetAlignment > 256 ? (uint32_t)limits->minStorageBufferOffsetAlignment : 256;
    info->memory_size = largest_local_heap(&caps->memory);
    caps->max_allocation = p->v11.maxMemoryAllocationSize;
    if (p->maintenance4.maxBufferSize && p->maintenance4.maxBufferSize < caps->max_allocation)
        caps->max_allocation = p->maintenance4.maxBufferSize;
    info->max_buffer_size = caps->max_allocation < info->memory_size ? caps->max_allocation : info->memory_size;
    info->max_view_elements = limits->maxTexelBufferElements;
    info->view_alignment =
        limits->minTexelBufferOffsetAlignment > 16 ? (uint32_t)limits->minTexelBufferOffsetAlignment : 16;
    /* llvmpipe leaves every loop once an invocation has been through so many: LP_MAX_TGSI_LOOP_ITERATIONS in Mesa. */
    info->max_loop_iterations = p->v12.driverID == VK_DRIVER_ID_MESA_LLVMPIPE ? 65535 : 0;
    caps->max_storage_range = limits->maxStorageBufferRange;
    info->bounded_span = caps->robustness ? caps->max_storage_range : 0;
    caps->max_push = limits->maxPushConstantsSize;
    caps->atom = limits->nonCoherentAtomSize ? limits->nonCoherentAtomSize : 1;
}

static void describe_abilities(const properties *p, vk_caps *caps)
{
    hal_device_info *info = &caps->info;
    bool subgroups = p->v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
    info->fp16 = caps->features12.shaderFloat16;
    info->bf16 = caps->bfloat16;
    info->fp64 = caps->features.features.shaderFloat64;
    info->int64 = caps->features.features.shaderInt64;
    info->subgroups = subgroups && info->subgroup_size > 1;
    info->subgroup_shuffle = info->subgroups && (p->v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
    caps->subgroup_operations = subgroups ? p->v11.subgroupSupportedOperations : 0;
    info->matrix_units = caps->cooperative_matrix;
    info->unified_memory = info->type == HAL_DEVICE_CPU || info->type == HAL_DEVICE_INTEGRATED;
    info->import_host_memory = caps->host_import;
    info->timestamps = caps->timestamp_bits > 0 && p->base.properties.limits.timestampPeriod > 0;
    info->timestamp_period_ns = info->timestamps ? (double)p->base.properties.limits.timestampPeriod : 0;
    /* What the driver promises to shaders that ask for it; one that promises nothing may still keep subnormals. */
    info->subnormals_f32 = p->v12.shaderDenormPreserveFloat32;
    info->subnormals_f16 = p->v12.shaderDenormPreserveFloat16;
    info->priorities = caps->family_queues >= 3;
    info->native_replay = true;
}

static void check_usable(const properties *p, bool has_family, vk_caps *caps)
{
    const char *missing = NULL;
    if (!has_family)
        missing = "a compute queue";
    else if (!caps->features12.timelineSemaphore)
        missing = "timeline semaphores";
    else if (!caps->features12.bufferDeviceAddress)
        missing = "buffer device addresses";
    if (missing)
        snprintf(caps->reason, sizeof caps->reason, "%.128s has no %s, which libhal needs",
                 p->base.properties.deviceName, missing);
    caps->usable = missing == NULL;
}

hal_status hal_vk_caps(const vk_driver *vk, VkPhysicalDevice physical, uint32_t index, vk_caps *caps)
{
    extensions all = {0};
    properties p = {0};
    memset(caps, 0, sizeof *caps);
    vk->GetPhysicalDeviceProperties(physical, &p.base.properties);
    uint32_t version = p.base.properties.apiVersion;
    if (version < VK_API_VERSION_1_2) {
        snprintf(caps->reason, sizeof caps->reason, "%.128s speaks Vulkan %u.%u, libhal needs 1.2",
                 p.base.properties.deviceName, VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
        return HAL_OK;
    }
    hal_status status = list_extensions(vk, physical, &all);
    if (status != HAL_OK)
        return status;
    query_properties(vk, physical, &all, &p);
    choose_features(vk, physical, &all, p.base.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU, caps);
    choose_extensions(&all, &p, caps);
    free(all.list);
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    vk->GetPhysicalDeviceMemoryProperties2(physical, &memory);
    caps->memory = memory.memoryProperties;
    bool has_family = choose_family(vk, physical, caps);

    caps->vendor = p.base.properties.vendorID;
    caps->device_id = p.base.properties.deviceID;
    caps->driver_version = p.base.properties.driverVersion;
    memcpy(caps->pipeline_cache_uuid, p.base.properties.pipelineCacheUUID, VK_UUID_SIZE);
    memcpy(caps->device_uuid, p.v11.deviceUUID, VK_UUID_SIZE);
    memcpy(caps->driver_uuid, p.v11.driverUUID, VK_UUID_SIZE);
    caps->max_spirv = version >= VK_API_VERSION_1_3 && vk->version >= VK_API_VERSION_1_3 ? 0x10600 : 0x10500;
    describe_identity(&p, index, &caps->info);
    describe_limits(&p, caps);
    describe_abilities(&p, caps);
    check_usable(&p, has_family, caps);
    return HAL_OK;
}
