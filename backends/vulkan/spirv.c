/* spirv.c - looks SPIR-V over before a driver sees it: drivers may crash on what they are not obliged to check. */
#include "vulkan_backend.h"

#define MAGIC        0x07230203u
#define HEADER_WORDS 5

enum { OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_CAPABILITY = 17, OP_FUNCTION = 54, OP_FUNCTION_END = 56 };
enum { OP_DECORATE = 71 };
enum { MODEL_GL_COMPUTE = 5, MODE_LOCAL_SIZE = 17, MODE_LOCAL_SIZE_ID = 38, DECORATION_BUILTIN = 11 };
enum { BUILTIN_WORKGROUP_SIZE = 25 };

/* The next instruction, or false at the end (or where it is cut off: `position` then stays below `count`). */
typedef struct walker {
    const uint32_t *words;
    size_t count, position;
    uint32_t opcode, length;
    const uint32_t *operands;
} walker;

static bool next(walker *w)
{
    if (w->position >= w->count)
        return false;
    uint32_t first = w->words[w->position];
    w->opcode = first & 0xffff;
    w->length = first >> 16;
    if (w->length == 0 || w->length > w->count - w->position)
        return false;
    w->operands = w->words + w->position + 1;
    w->position += w->length;
    return true;
}

static walker walk(const uint32_t *words, size_t size)
{
    walker w = {.words = words, .count = size / 4, .position = HEADER_WORDS};
    return w;
}

/* A literal string of at most `count` words; NULL if its end is missing. */
static const char *literal(const uint32_t *words, uint32_t count)
{
    return count && memchr(words, 0, (size_t)count * 4) ? (const char *)words : NULL;
}

typedef struct capability {
    uint32_t id;
    const char *name;
    bool present;
} capability;

static hal_status check_capability(const vk_caps *caps, uint32_t id, const char *label)
{
    const VkSubgroupFeatureFlags subgroup = caps->subgroup_operations;
    const capability known[] = {
        {6, "Kernel (an OpenCL program)", false},
        {9, "Float16", caps->features12.shaderFloat16},
        {10, "Float64", caps->features.features.shaderFloat64},
        {11, "Int64", caps->features.features.shaderInt64},
        {12, "Int64Atomics", caps->features12.shaderBufferInt64Atomics || caps->features12.shaderSharedInt64Atomics},
        {22, "Int16", caps->features.features.shaderInt16},
        {39, "Int8", caps->features12.shaderInt8},
        {61, "GroupNonUniform", subgroup & VK_SUBGROUP_FEATURE_BASIC_BIT},
        {62, "GroupNonUniformVote", subgroup & VK_SUBGROUP_FEATURE_VOTE_BIT},
        {63, "GroupNonUniformArithmetic", subgroup & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT},
        {64, "GroupNonUniformBallot", subgroup & VK_SUBGROUP_FEATURE_BALLOT_BIT},
        {65, "GroupNonUniformShuffle", subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_BIT},
        {66, "GroupNonUniformShuffleRelative", subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT},
        {67, "GroupNonUniformClustered", subgroup & VK_SUBGROUP_FEATURE_CLUSTERED_BIT},
        {68, "GroupNonUniformQuad", subgroup & VK_SUBGROUP_FEATURE_QUAD_BIT},
        {4433, "StorageBuffer16BitAccess", caps->features11.storageBuffer16BitAccess},
        {4434, "UniformAndStorageBuffer16BitAccess", caps->features11.uniformAndStorageBuffer16BitAccess},
        {4435, "StoragePushConstant16", false},
        {4441, "VariablePointersStorageBuffer", caps->features11.variablePointersStorageBuffer},
        {4442, "VariablePointers", caps->features11.variablePointers},
        {4448, "StorageBuffer8BitAccess", caps->features12.storageBuffer8BitAccess},
        {4449, "UniformAndStorageBuffer8BitAccess", caps->features12.uniformAndStorageBuffer8BitAccess},
        {4450, "StoragePushConstant8", false},
        {5116, "BFloat16TypeKHR", caps->bfloat16},
        {5117, "BFloat16DotProductKHR", false},
        {5118, "BFloat16CooperativeMatrixKHR", caps->bfloat16 && caps->cooperative_matrix},
        {5345, "VulkanMemoryModel", caps->features12.vulkanMemoryModel},
        {5346, "VulkanMemoryModelDeviceScope", caps->features12.vulkanMemoryModelDeviceScope},
        {5357, "CooperativeMatrixNV", false},
        {6016, "DotProductInputAll", false},
        {6017, "DotProductInput4x8Bit", false},
        {6018, "DotProductInput4x8BitPacked", false},
        {6019, "DotProduct", false},
        {6022, "CooperativeMatrixKHR", caps->cooperative_matrix},
        {6033, "AtomicFloat32AddEXT", false},
        {6034, "AtomicFloat64AddEXT", false},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].id == id && !known[i].present)
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "vulkan: module '%s': its SPIR-V needs the capability %s, which %s does not offer here",
                            label, known[i].name, caps->info.name);
    return HAL_OK;
}

static hal_status check_header(const vk_caps *caps, const uint32_t *words, size_t size, const char *label)
{
    if (size % 4 || size < HEADER_WORDS * 4)
        return hal_fail(HAL_ERROR_COMPILE,
                        "vulkan: module '%s': %zu bytes are no SPIR-V (a multiple of 4, at least 20)", label, size);
    if (words[0] != MAGIC)
        return hal_fail(HAL_ERROR_COMPILE, "vulkan: module '%s': 0x%08x is not the SPIR-V magic number 0x07230203",
                        label, words[0]);
    if (words[1] > caps->max_spirv)
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        "vulkan: module '%s': SPIR-V %u.%u, the device takes %u.%u: compile for an older target", label,
                        words[1] >> 16 & 0xff, words[1] >> 8 & 0xff, caps->max_spirv >> 16 & 0xff,
                        caps->max_spirv >> 8 & 0xff);
    return HAL_OK;
}

hal_status hal_vk_spirv_check(const vk_caps *caps, const uint32_t *words, size_t size, const char *label)
{
    hal_status status = check_header(caps, words, size, label);
    if (status != HAL_OK)
        return status;
    walker w = walk(words, size);
    uint32_t entries = 0;
    bool in_function = false;
    while (next(&w)) {
        if (w.opcode == OP_FUNCTION || w.opcode == OP_FUNCTION_END) {
            bool nested = in_function == (w.opcode == OP_FUNCTION);
            in_function = w.opcode == OP_FUNCTION || nested;
            if (nested)
                break;
        } else if (w.opcode == OP_CAPABILITY && w.length >= 2) {
            status = check_capability(caps, w.operands[0], label);
            if (status != HAL_OK)
                return status;
        } else if (w.opcode == OP_ENTRY_POINT) {
            if (w.length < 4 || !literal(w.operands + 2, w.length - 3))
                return hal_fail(HAL_ERROR_COMPILE, "vulkan: module '%s': a malformed OpEntryPoint at word %zu", label,
                                w.position - w.length);
            entries += w.operands[0] == MODEL_GL_COMPUTE;
        }
    }
    if (w.position != w.count || in_function)
        return hal_fail(HAL_ERROR_COMPILE, "vulkan: module '%s': the SPIR-V is cut off or damaged at word %zu of %zu",
                        label, w.position, w.count);
    if (entries == 0)
        return hal_fail(HAL_ERROR_COMPILE, "vulkan: module '%s': the SPIR-V has no compute entry point", label);
    return HAL_OK;
}

static void find_group(const uint32_t *words, size_t size, uint32_t function, uint32_t group[3])
{
    walker w = walk(words, size);
    group[0] = group[1] = group[2] = 0;
    while (next(&w)) {
        if (w.opcode == OP_EXECUTION_MODE && w.length >= 6 && w.operands[0] == function &&
            w.operands[1] == MODE_LOCAL_SIZE)
            memcpy(group, w.operands + 2, 3 * sizeof *group);
        if (w.opcode == OP_DECORATE && w.length >= 4 && w.operands[1] == DECORATION_BUILTIN &&
            w.operands[2] == BUILTIN_WORKGROUP_SIZE) {
            group[0] = group[1] = group[2] = 0;
            return;
        }
    }
}

hal_status hal_vk_spirv_entry(const uint32_t *words, size_t size, const char *wanted, vk_entry *entry)
{
    char names[160] = "";
    uint32_t function = 0, count = 0;
    const char *last = NULL;
    entry->name = NULL;
    walker w = walk(words, size);
    while (next(&w)) {
        if (w.opcode != OP_ENTRY_POINT || w.operands[0] != MODEL_GL_COMPUTE)
            continue;
        last = (const char *)(w.operands + 2);
        if (!entry->name)
            function = w.operands[1];
        if (strcmp(last, wanted) == 0)
            entry->name = last;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", count ? ", " : "", last);
        count++;
    }
    if (!entry->name && count == 1 && strcmp(last, "main") == 0)
        entry->name = last;
    if (!entry->name)
        return hal_fail(HAL_ERROR_NOT_FOUND, "vulkan: the SPIR-V has no compute entry '%s', it has: %s", wanted, names);
    find_group(words, size, function, entry->group);
    return HAL_OK;
}
