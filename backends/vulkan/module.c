/* module.c - programs and the pipelines made of them. */
#include "vulkan_backend.h"

#define CONSTANTS_MAX  64
#define GROUP_CONSTANT 100u /* specialisation constants 100, 101, 102: the group size */

struct hal_native_module {
    hal_native_device *device;
    char *label;
    uint32_t *words; /* SPIR-V, or NULL with: */
    size_t size;
    char *glsl, *options; /* compiled for each kernel, as its constants are macros */
};

hal_status hal_vk_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **out)
{
    if (!desc->spirv && !desc->glsl)
        return hal_fail(HAL_ERROR_UNSUPPORTED, "no variant for Vulkan: give hal_module_desc.spirv or glsl");
    hal_native_module *module = hal_calloc(device->core, 1, sizeof *module);
    if (!module)
        goto out_of_memory;
    module->device = device;
    module->label = hal_strdup(device->core, desc->label ? desc->label : "module");
    if (!module->label)
        goto out_of_memory;
    if (desc->spirv) {
        module->size = desc->spirv_size;
        module->words = hal_calloc(device->core, 1, desc->spirv_size + 1);
        if (!module->words)
            goto out_of_memory;
        memcpy(module->words, desc->spirv, desc->spirv_size);
        hal_status status = hal_vk_spirv_check(&device->caps, module->words, module->size, module->label);
        if (status != HAL_OK) {
            hal_vk_module_destroy(module);
            return status;
        }
    } else {
        module->glsl = hal_strdup(device->core, desc->glsl);
        module->options = hal_strdup(device->core, desc->options ? desc->options : "");
        if (!module->glsl || !module->options)
            goto out_of_memory;
    }
    *out = module;
    return HAL_OK;
out_of_memory:
    hal_vk_module_destroy(module);
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating a module");
}

void hal_vk_module_destroy(hal_native_module *module)
{
    if (!module)
        return;
    hal_free(module->label);
    hal_free(module->words);
    hal_free(module->glsl);
    hal_free(module->options);
    hal_free(module);
}

static hal_status check_group(const hal_native_device *device, const char *label, const uint32_t group[3])
{
    const hal_device_info *info = &device->caps.info;
    uint64_t total = (uint64_t)group[0] * group[1] * group[2];
    for (int i = 0; i < 3; i++)
        if (group[i] > info->max_group_dim[i])
            return hal_fail(HAL_ERROR_LIMIT, "vulkan: kernel '%s': a group of %ux%ux%u exceeds %u along %c", label,
                            group[0], group[1], group[2], info->max_group_dim[i], "xyz"[i]);
    if (total > info->max_group_size)
        return hal_fail(HAL_ERROR_LIMIT, "vulkan: kernel '%s': a group of %ux%ux%u = %llu work-items exceeds %u", label,
                        group[0], group[1], group[2], (unsigned long long)total, info->max_group_size);
    return HAL_OK;
}

/* The group a launch really has: what the module fixes must agree with what the descriptor says. */
static hal_status choose_group(const hal_native_device *device, const char *label, const hal_kernel_desc *desc,
                               const vk_entry *entry, uint32_t group[3])
{
    for (int i = 0; i < 3; i++)
        group[i] = desc->group[i] ? desc->group[i] : 1;
    if (entry->group[0]) {
        bool told = group[0] != 1 || group[1] != 1 || group[2] != 1;
        if (told && memcmp(group, entry->group, sizeof entry->group) != 0)
            return hal_fail(
                HAL_ERROR_INVALID_ARGUMENT,
                "vulkan: kernel '%s': the program fixes the group at %ux%ux%u, the descriptor says %ux%ux%u: "
                "make them equal, or take the size from specialisation constants 100, 101, 102",
                label, entry->group[0], entry->group[1], entry->group[2], group[0], group[1], group[2]);
        memcpy(group, entry->group, sizeof entry->group);
    }
    return check_group(device, label, group);
}

static hal_status create_layout(hal_native_kernel *kernel, const hal_kernel_desc *desc)
{
    hal_native_device *device = kernel->device;
    VkDescriptorSetLayoutBinding bindings[HAL_MAX_BINDINGS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < desc->binding_count; i++) {
        bool texel = desc->views[i] != HAL_VIEW_NONE;
        kernel->views[i] = desc->views[i];
        kernel->has_descriptor[i] = texel || desc->abi == HAL_ABI_PLAIN;
        if (!kernel->has_descriptor[i])
            continue;
        kernel->texel_count += texel;
        kernel->storage_count += !texel;
        bindings[count++] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = texel ? VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        };
    }
    if (count) {
        VkDescriptorSetLayoutCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
            .bindingCount = count,
            .pBindings = bindings,
        };
        VkResult result = device->vk.CreateDescriptorSetLayout(device->handle, &info, NULL, &kernel->set_layout);
        if (result != VK_SUCCESS)
            return hal_vk_fail(result, "vkCreateDescriptorSetLayout");
    }
    VkPushConstantRange push = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        .size = desc->abi == HAL_ABI_OFFSET ? (uint32_t)sizeof(VkDeviceAddress) : desc->args_size,
    };
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = count ? 1 : 0,
        .pSetLayouts = &kernel->set_layout,
        .pushConstantRangeCount = push.size ? 1 : 0,
        .pPushConstantRanges = &push,
    };
    VkResult result = device->vk.CreatePipelineLayout(device->handle, &info, NULL, &kernel->layout);
    return result == VK_SUCCESS ? HAL_OK : hal_vk_fail(result, "vkCreatePipelineLayout");
}

/* The group size and the descriptor's constants, as specialisation constants. */
typedef struct specialisation {
    VkSpecializationMapEntry entries[CONSTANTS_MAX + 3];
    uint32_t values[CONSTANTS_MAX + 3];
    VkSpecializationInfo info;
} specialisation;

static hal_status specialise(const hal_constant *constants, uint32_t constant_count, const char *label,
                             const uint32_t group[3], specialisation *out)
{
    uint32_t count = 0;
    if (constant_count > CONSTANTS_MAX)
        return hal_fail(HAL_ERROR_LIMIT, "vulkan: kernel '%s': %u constants, at most %d are taken", label,
                        constant_count, CONSTANTS_MAX);
    for (uint32_t i = 0; i < 3 + constant_count; i++) {
        uint32_t id = i < 3 ? GROUP_CONSTANT + i : constants[i - 3].id;
        uint32_t value = i < 3 ? group[i] : constants[i - 3].value;
        for (uint32_t k = 0; k < count; k++)
            if (out->entries[k].constantID == id)
                return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                                "vulkan: kernel '%s': specialisation constant %u is given twice%s", label, id,
                                k < 3 ? " (100 to 102 are the group size)" : "");
        out->entries[count] = (VkSpecializationMapEntry){id, count * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)};
        out->values[count++] = value;
    }
    out->info = (VkSpecializationInfo){count, out->entries, count * sizeof(uint32_t), out->values};
    return HAL_OK;
}

static hal_status create_pipeline(hal_native_kernel *kernel, const uint32_t *words, size_t size, const vk_entry *entry,
                                  const specialisation *constants, const char *label)
{
    hal_native_device *device = kernel->device;
    VkShaderModule shader;
    VkShaderModuleCreateInfo shader_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = size,
        .pCode = words,
    };
    VkResult result = device->vk.CreateShaderModule(device->handle, &shader_info, NULL, &shader);
    if (result != VK_SUCCESS)
        return hal_vk_fail(result, "vkCreateShaderModule: kernel '%s'", label);
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = shader,
                .pName = entry->name,
                .pSpecializationInfo = &constants->info,
            },
        .layout = kernel->layout,
    };
    result =
        device->vk.CreateComputePipelines(device->handle, device->pipeline_cache, 1, &info, NULL, &kernel->pipeline);
    device->vk.DestroyShaderModule(device->handle, shader, NULL);
    if (result == VK_SUCCESS)
        return HAL_OK;
    kernel->pipeline = VK_NULL_HANDLE;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
        result == VK_ERROR_DEVICE_LOST)
        return hal_vk_fail(result, "vkCreateComputePipelines: kernel '%s'", label);
    return hal_fail(HAL_ERROR_COMPILE,
                    "vulkan: vkCreateComputePipelines: kernel '%s': the driver refused the program: %s", label,
                    hal_vk_result_name(result));
}

/* With `macros` the descriptor's constants are in the program already. */
static hal_status build(hal_native_kernel *kernel, const uint32_t *words, size_t size, const char *entry_name,
                        const hal_kernel_desc *desc, bool macros, const char *label)
{
    vk_entry entry;
    uint32_t group[3];
    specialisation constants;
    hal_status status = hal_vk_spirv_entry(words, size, entry_name, &entry);
    if (status == HAL_OK)
        status = choose_group(kernel->device, label, desc, &entry, group);
    if (status == HAL_OK)
        status = specialise(desc->constants, macros ? 0 : desc->constant_count, label, group, &constants);
    if (status == HAL_OK)
        status = hal_vk_spirv_check_shared(kernel->device, words, size, &constants.info, label);
    if (status == HAL_OK)
        status = create_layout(kernel, desc);
    if (status == HAL_OK)
        status = create_pipeline(kernel, words, size, &entry, &constants, label);
    return status;
}

hal_status hal_vk_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                                hal_native_kernel **out, hal_kernel_limits *limits)
{
    hal_native_device *device = module->device;
    const char *label = desc->label ? desc->label : entry;
    uint32_t *compiled = NULL;
    size_t compiled_size = 0;
    hal_native_kernel *kernel = hal_calloc(device->core, 1, sizeof *kernel);
    if (!kernel)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while creating kernel '%s'", label);
    kernel->device = device;
    kernel->abi = desc->abi;
    kernel->binding_count = desc->binding_count;
    kernel->args_size = desc->args_size;
    hal_status status = HAL_OK;
    if (module->words) {
        status = build(kernel, module->words, module->size, entry, desc, false, label);
    } else {
        status = hal_vk_glsl_compile(device, module->glsl, module->label, module->options, desc->constants,
                                     desc->constant_count, &compiled, &compiled_size);
        if (status == HAL_OK)
            status = hal_vk_spirv_check(&device->caps, compiled, compiled_size, module->label);
        if (status == HAL_OK)
            status = build(kernel, compiled, compiled_size, entry, desc, true, label);
        hal_free(compiled);
    }
    if (status != HAL_OK) {
        hal_vk_kernel_destroy(kernel);
        return status;
    }
    limits->max_group_size = device->caps.info.max_group_size;
    *out = kernel;
    return HAL_OK;
}

void hal_vk_kernel_destroy(hal_native_kernel *kernel)
{
    if (!kernel)
        return;
    hal_native_device *device = kernel->device;
    if (kernel->pipeline)
        device->vk.DestroyPipeline(device->handle, kernel->pipeline, NULL);
    if (kernel->layout)
        device->vk.DestroyPipelineLayout(device->handle, kernel->layout, NULL);
    if (kernel->set_layout)
        device->vk.DestroyDescriptorSetLayout(device->handle, kernel->set_layout, NULL);
    hal_free(kernel);
}
