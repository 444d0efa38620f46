/* spirv.c - looks SPIR-V over before a driver sees it: drivers may crash on what they are not obliged to check. */
#include "vulkan_backend.h"

#define MAGIC        0x07230203u
#define HEADER_WORDS 5
#define HEADER_BYTES ((size_t)20)

enum { OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, OP_CAPABILITY = 17, OP_FUNCTION = 54, OP_FUNCTION_END = 56 };
enum { OP_TYPE_BOOL = 20, OP_TYPE_INT, OP_TYPE_FLOAT, OP_TYPE_VECTOR, OP_TYPE_MATRIX };
enum { OP_TYPE_ARRAY = 28, OP_TYPE_STRUCT = 30, OP_TYPE_POINTER = 32, OP_CONSTANT = 43, OP_SPEC_CONSTANT = 50 };
enum { OP_SPEC_CONSTANT_OP = 52, OP_VARIABLE = 59, OP_DECORATE = 71 };
enum { OP_I_ADD = 128, OP_I_SUB = 130, OP_I_MUL = 132, OP_U_DIV = 134 };
enum { DECORATION_SPEC_ID = 1, STORAGE_WORKGROUP = 4, IDS_MAX = 1 << 22, NESTING_MAX = 32 };
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
    const char *name;
    uint32_t id;
    bool present;
} capability;

static hal_status check_capability(const vk_caps *caps, uint32_t id, const char *label)
{
    const VkSubgroupFeatureFlags subgroup = caps->subgroup_operations;
    const capability known[] = {
        {"Kernel (an OpenCL program)", 6, false},
        {"Float16", 9, caps->features12.shaderFloat16},
        {"Float64", 10, caps->features.features.shaderFloat64},
        {"Int64", 11, caps->features.features.shaderInt64},
        {"Int64Atomics", 12, caps->features12.shaderBufferInt64Atomics || caps->features12.shaderSharedInt64Atomics},
        {"Int16", 22, caps->features.features.shaderInt16},
        {"Int8", 39, caps->features12.shaderInt8},
        {"GroupNonUniform", 61, subgroup & VK_SUBGROUP_FEATURE_BASIC_BIT},
        {"GroupNonUniformVote", 62, subgroup & VK_SUBGROUP_FEATURE_VOTE_BIT},
        {"GroupNonUniformArithmetic", 63, subgroup & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT},
        {"GroupNonUniformBallot", 64, subgroup & VK_SUBGROUP_FEATURE_BALLOT_BIT},
        {"GroupNonUniformShuffle", 65, subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_BIT},
        {"GroupNonUniformShuffleRelative", 66, subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT},
        {"GroupNonUniformClustered", 67, subgroup & VK_SUBGROUP_FEATURE_CLUSTERED_BIT},
        {"GroupNonUniformQuad", 68, subgroup & VK_SUBGROUP_FEATURE_QUAD_BIT},
        {"StorageBuffer16BitAccess", 4433, caps->features11.storageBuffer16BitAccess},
        {"UniformAndStorageBuffer16BitAccess", 4434, caps->features11.uniformAndStorageBuffer16BitAccess},
        {"StoragePushConstant16", 4435, false},
        {"VariablePointersStorageBuffer", 4441, caps->features11.variablePointersStorageBuffer},
        {"VariablePointers", 4442, caps->features11.variablePointers},
        {"StorageBuffer8BitAccess", 4448, caps->features12.storageBuffer8BitAccess},
        {"UniformAndStorageBuffer8BitAccess", 4449, caps->features12.uniformAndStorageBuffer8BitAccess},
        {"StoragePushConstant8", 4450, false},
        {"BFloat16TypeKHR", 5116, caps->bfloat16},
        {"BFloat16DotProductKHR", 5117, false},
        {"BFloat16CooperativeMatrixKHR", 5118, caps->bfloat16 && caps->cooperative_matrix},
        {"VulkanMemoryModel", 5345, caps->features12.vulkanMemoryModel},
        {"VulkanMemoryModelDeviceScope", 5346, caps->features12.vulkanMemoryModelDeviceScope},
        {"CooperativeMatrixNV", 5357, false},
        {"DotProductInputAll", 6016, false},
        {"DotProductInput4x8Bit", 6017, false},
        {"DotProductInput4x8BitPacked", 6018, false},
        {"DotProduct", 6019, false},
        {"CooperativeMatrixKHR", 6022, caps->cooperative_matrix},
        {"AtomicFloat32AddEXT", 6033, false},
        {"AtomicFloat64AddEXT", 6034, false},
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
    if (size % 4 || size < HEADER_BYTES)
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

/* ---- shared memory: how much a module declares, so that too much is an error and not a crash */

typedef struct program {
    const uint32_t **defined; /* by id: the instruction that defines it, first word included */
    uint32_t *spec_ids;       /* by id: specialisation constant id + 1 */
    uint32_t bound;
    const VkSpecializationInfo *constants;
} program;

static uint32_t length_of(const uint32_t *instruction)
{
    return instruction[0] >> 16;
}

/* The instruction that defines a type or constant; NULL for anything else. */
static const uint32_t *definition(const program *p, uint32_t id)
{
    return id < p->bound ? p->defined[id] : NULL;
}

static uint64_t specialised(const program *p, uint32_t id, uint32_t value)
{
    const VkSpecializationInfo *constants = p->constants;
    for (uint32_t i = 0; p->spec_ids[id] && i < constants->mapEntryCount; i++)
        if (constants->pMapEntries[i].constantID == p->spec_ids[id] - 1)
            memcpy(&value, (const char *)constants->pData + constants->pMapEntries[i].offset, sizeof value);
    return value;
}

/* The value of an integer constant; 0 for what is not understood. */
static uint64_t constant_value(const program *p, uint32_t id, uint32_t depth)
{
    const uint32_t *at = definition(p, id);
    if (!at || depth > NESTING_MAX || length_of(at) < 4)
        return 0;
    uint32_t opcode = at[0] & 0xffff;
    if (opcode == OP_CONSTANT)
        return at[3];
    if (opcode == OP_SPEC_CONSTANT)
        return specialised(p, id, at[3]);
    if (opcode != OP_SPEC_CONSTANT_OP || length_of(at) < 6)
        return 0;
    uint64_t a = constant_value(p, at[4], depth + 1), b = constant_value(p, at[5], depth + 1);
    switch (at[3]) {
    case OP_I_ADD:
        return (uint32_t)(a + b);
    case OP_I_SUB:
        return (uint32_t)(a - b);
    case OP_I_MUL:
        return (uint32_t)(a * b);
    case OP_U_DIV:
        return b ? a / b : 0;
    default:
        return 0;
    }
}

/* Bytes of a type without padding: the least that a driver needs. 0 for what is not understood. */
static uint64_t type_size(const program *p, uint32_t id, uint32_t depth)
{
    const uint32_t *at = definition(p, id);
    if (!at || depth > NESTING_MAX)
        return 0;
    uint32_t words = length_of(at);
    uint64_t size = 0;
    switch (at[0] & 0xffff) {
    case OP_TYPE_BOOL:
        return 4;
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
        return words >= 3 ? at[2] / 8 : 0;
    case OP_TYPE_VECTOR:
    case OP_TYPE_MATRIX:
        return words >= 4 ? type_size(p, at[2], depth + 1) * (at[3] & 0xff) : 0;
    case OP_TYPE_ARRAY:
        return words >= 4 ? type_size(p, at[2], depth + 1) * constant_value(p, at[3], 0) : 0;
    case OP_TYPE_STRUCT:
        for (uint32_t i = 2; i < words && i < 2 + NESTING_MAX; i++)
            size += type_size(p, at[i], depth + 8); /* few levels: a hostile module branches at each */
        return size;
    default:
        return 0;
    }
}

static void define(program *p, const walker *w)
{
    const uint32_t *at = w->operands - 1;
    uint32_t id = 0;
    if (w->opcode >= OP_TYPE_BOOL && w->opcode <= OP_TYPE_POINTER && w->length >= 2)
        id = at[1];
    else if (w->opcode >= OP_CONSTANT && w->opcode <= OP_SPEC_CONSTANT_OP && w->length >= 3)
        id = at[2];
    else if (w->opcode == OP_DECORATE && w->length >= 4 && at[2] == DECORATION_SPEC_ID && at[1] < p->bound)
        p->spec_ids[at[1]] = at[3] + 1;
    if (id && id < p->bound)
        p->defined[id] = at;
}

static uint64_t variable_size(const program *p, const walker *w)
{
    if (w->opcode != OP_VARIABLE || w->length < 4 || w->operands[2] != STORAGE_WORKGROUP)
        return 0;
    const uint32_t *pointer = definition(p, w->operands[0]);
    return pointer && (pointer[0] & 0xffff) == OP_TYPE_POINTER && length_of(pointer) >= 4 ? type_size(p, pointer[3], 0)
                                                                                          : 0;
}

hal_status hal_vk_spirv_check_shared(const hal_native_device *device, const uint32_t *words, size_t size,
                                     const VkSpecializationInfo *constants, const char *label)
{
    uint32_t limit = device->caps.info.max_shared_memory;
    program p = {.bound = words[3] < IDS_MAX ? words[3] : IDS_MAX, .constants = constants};
    p.defined = hal_calloc(device->core, (size_t)p.bound + 1, sizeof *p.defined);
    p.spec_ids = hal_calloc(device->core, (size_t)p.bound + 1, sizeof *p.spec_ids);
    uint64_t shared = 0;
    hal_status status = HAL_OK;
    if (p.defined && p.spec_ids) {
        walker w = walk(words, size);
        while (next(&w)) {
            define(&p, &w);
            shared += variable_size(&p, &w);
        }
    } else {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for kernel '%s'", label);
    }
    if (shared > limit)
        status = hal_fail(HAL_ERROR_LIMIT, "vulkan: kernel '%s' declares %llu bytes of shared memory, a group has %u",
                          label, (unsigned long long)shared, limit);
    hal_free(p.defined);
    hal_free(p.spec_ids);
    return status;
}
