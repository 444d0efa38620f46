/* module.c - the stand-in driver's modules: entries and their parameters from PTX text, entry names from a cubin. */
#include "drv.h"

#include <ctype.h>
#include <elf.h>

#define DRV_CAPABILITY 90

/* -- PTX ----------------------------------------------------------------------------------------------------------- */

static size_t type_size(const char *type)
{
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2}, {"f16", 2}, {"b32", 4},
                 {"u32", 4}, {"s32", 4}, {"f32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, type) == 0)
            return types[i].size;
    return 0;
}

/* One ".param ..." declaration, [text, end): .param .u64 .ptr .global .align 1 name, .param .align 4 .b8 name[12] */
static bool add_param(drv_function *function, const char *text, const char *end)
{
    size_t size = 0, align = 0, count = 1;
    while (text < end) {
        char word[32];
        int used = 0;
        text += strspn(text, " \t\r\n");
        if (*text == '.' && sscanf(text + 1, "%31[a-z0-9]%n", word, &used) == 1) {
            text += 1 + used;
            if (strcmp(word, "align") == 0 && sscanf(text, "%zu%n", &align, &used) == 1)
                text += used;
            else if (type_size(word))
                size = type_size(word);
        } else if (*text == '[' && sscanf(text, "[%zu]%n", &count, &used) == 1 && used) {
            text += used;
        } else {
            text++;
        }
    }
    uint32_t index = function->param_count;
    if (size == 0 || index == DRV_MAX_PARAMS)
        return false;
    size_t offset = index ? function->param_offset[index - 1] + function->param_size[index - 1] : 0;
    align = size > align ? size : align;
    function->param_offset[index] = (offset + align - 1) / align * align;
    function->param_size[index] = size * count;
    function->param_count++;
    return function->param_offset[index] + size * count <= DRV_MAX_PARAM_BYTES;
}

static drv_function *add_function(drv_module *module, const char *name)
{
    drv_function *function = drv_new(sizeof *function, DRV_FUNCTION, drv_current());
    const drv_kernel *kernel = drv_kernel_find(name);
    snprintf(function->name, sizeof function->name, "%s", name);
    function->max_threads = 1024;
    function->max_dynamic_shared = 48 * 1024;
    function->run = kernel ? kernel->run : NULL;
    function->next = module->functions;
    module->functions = function;
    return function;
}

/* An entry, after ".entry". Returns what follows, or NULL. */
static const char *parse_entry(drv_module *module, const char *text)
{
    char name[128];
    int used = 0;
    if (sscanf(text, " %127[A-Za-z0-9_$]%n", name, &used) != 1)
        return NULL;
    drv_function *function = add_function(module, name);
    text += used;
    text += strspn(text, " \t\r\n");
    const char *body = strchr(text, '{');
    const char *close = *text == '(' ? strchr(text, ')') : text;
    if (!body || !close || close > body)
        return NULL;
    while (text < close) {
        const char *end = text + 1 + strcspn(text + 1, ",)");
        const char *param = strstr(text, ".param");
        if (param && param < end && !add_param(function, param + strlen(".param"), end))
            return NULL;
        text = end;
    }
    const char *limit = strstr(close, ".maxntid");
    unsigned x = 1, y = 1, z = 1;
    if (limit && limit < body && sscanf(limit, ".maxntid %u, %u, %u", &x, &y, &z) >= 1)
        function->max_threads = x * y * z;
    return body;
}

static nv_result refuse(char *log, size_t size, nv_result result, const char *why)
{
    if (log && size)
        snprintf(log, size, "cuda_sim, line 1; fatal: %s\ncuda_sim: aborted", why);
    return result;
}

static nv_result parse_ptx(drv_module *module, const char *text, char *log, size_t log_size)
{
    int major, minor, target, driver = 0;
    const char *version = strstr(text, ".version"), *arch = strstr(text, ".target sm_");
    if (!version || sscanf(version, ".version %d.%d", &major, &minor) != 2)
        return refuse(log, log_size, NV_ERROR_INVALID_PTX, "Missing .version directive");
    if (!arch || sscanf(arch, ".target sm_%d", &target) != 1 || !strstr(text, ".address_size 64"))
        return refuse(log, log_size, NV_ERROR_INVALID_PTX, "Missing .target or .address_size directive");
    driver = drv_version();
    if (major > driver / 1000 - 4 || (major == driver / 1000 - 4 && minor > driver % 1000 / 10))
        return refuse(log, log_size, NV_ERROR_UNSUPPORTED_PTX_VERSION, "Unsupported .version");
    if (target > DRV_CAPABILITY)
        return refuse(log, log_size, NV_ERROR_NO_BINARY_FOR_GPU, "The target is newer than the device");
    for (const char *entry = text; (entry = strstr(entry, ".entry")) != NULL;) {
        entry = parse_entry(module, entry + strlen(".entry"));
        if (!entry)
            return refuse(log, log_size, NV_ERROR_INVALID_PTX, "Parsing error near an .entry");
    }
    return NV_SUCCESS;
}

/* -- cubin --------------------------------------------------------------------------------------------------------- */

/* A cubin's symbols name its kernels; their parameters are taken from the C functions of the same names. */
static void add_symbol(drv_module *module, const char *name)
{
    const drv_kernel *kernel = drv_kernel_find(name);
    drv_function *function = add_function(module, name);
    if (!kernel)
        return;
    for (uint32_t i = 0; i <= kernel->spans; i++) {
        function->param_offset[i] = 8 * (size_t)i;
        function->param_size[i] = i < kernel->spans ? 8 : kernel->args_size;
    }
    function->param_count = kernel->spans + 1;
}

static nv_result parse_cubin(drv_module *module, const uint8_t *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    uint32_t arch = header->e_ident[EI_ABIVERSION] >= 8 ? header->e_flags >> 8 & 0xff : header->e_flags & 0xff;
    if (header->e_machine != EM_CUDA)
        return NV_ERROR_INVALID_IMAGE;
    if (arch != DRV_CAPABILITY)
        return NV_ERROR_NO_BINARY_FOR_GPU;
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *symbols = (const Elf64_Sym *)(image + sections[i].sh_offset);
        const char *strings = (const char *)image + sections[sections[i].sh_link].sh_offset;
        for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++)
            if (ELF64_ST_TYPE(symbols[j].st_info) == STT_FUNC && ELF64_ST_BIND(symbols[j].st_info) == STB_GLOBAL)
                add_symbol(module, strings + symbols[j].st_name);
    }
    return NV_SUCCESS;
}

/* -- modules ------------------------------------------------------------------------------------------------------- */

static void bury_module(drv_module *module)
{
    for (drv_function *function = module->functions; function; function = function->next)
        drv_bury(&function->object);
    drv_bury(&module->object);
}

nv_result cuModuleLoadDataEx(nv_module *out, const void *image, unsigned int option_count, nv_jit_option *options,
                             void **values)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    char *log = NULL;
    size_t log_size = 0;
    for (unsigned i = 0; i < option_count; i++) {
        if (options[i] == NV_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        else if (options[i] == NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            log_size = (uintptr_t)values[i];
    }
    drv_module *module = drv_new(sizeof *module, DRV_MODULE, drv_current());
    nv_result result =
        memcmp(image, ELFMAG, SELFMAG) == 0 ? parse_cubin(module, image) : parse_ptx(module, image, log, log_size);
    if (result == NV_SUCCESS)
        *out = (nv_module)module;
    else
        bury_module(module);
    return drv_leave(result);
}

nv_result cuModuleUnload(nv_module handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_module *module = (drv_module *)handle;
    nv_result result = drv_check(module, DRV_MODULE, __func__);
    if (result == NV_SUCCESS)
        bury_module(module);
    return drv_leave(result);
}

nv_result cuModuleGetFunction(nv_function *out, nv_module handle, const char *name)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_module *module = (drv_module *)handle;
    nv_result result = drv_check(module, DRV_MODULE, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    for (drv_function *function = module->functions; function; function = function->next) {
        if (strcmp(function->name, name) == 0) {
            *out = (nv_function)function;
            return drv_leave(NV_SUCCESS);
        }
    }
    return drv_leave(NV_ERROR_NOT_FOUND);
}

/* -- functions ----------------------------------------------------------------------------------------------------- */

nv_result cuFuncGetAttribute(int *value, nv_function_attribute attribute, nv_function handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (attribute == NV_FUNCTION_MAX_THREADS_PER_BLOCK)
        *value = (int)function->max_threads;
    else if (attribute == NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *value = (int)function->max_dynamic_shared;
    else
        *value = 0;
    return drv_leave(NV_SUCCESS);
}

nv_result cuFuncSetAttribute(nv_function handle, nv_function_attribute attribute, int value)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_function *function = (drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result == NV_SUCCESS &&
        (attribute != NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 227 * 1024))
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "cuFuncSetAttribute(%d, %d)", (int)attribute, value);
    if (result == NV_SUCCESS)
        function->max_dynamic_shared = (uint32_t)value;
    return drv_leave(result);
}

nv_result cuFuncLoad(nv_function function)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(drv_check(function, DRV_FUNCTION, __func__));
}

nv_result cuFuncGetParamInfo(nv_function handle, size_t index, size_t *offset, size_t *size)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, __func__);
    if (result == NV_SUCCESS && index >= function->param_count)
        result = NV_ERROR_INVALID_VALUE;
    if (result == NV_SUCCESS) {
        *offset = function->param_offset[index];
        *size = function->param_size[index];
    }
    return drv_leave(result);
}

static bool fits(const drv_function *function, const unsigned *grid, const unsigned *block, unsigned shared)
{
    static const unsigned most_groups[] = {0x7fffffff, 65535, 65535}, most_threads[] = {1024, 1024, 64};
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || grid[i] > most_groups[i] || block[i] == 0 || block[i] > most_threads[i])
            return false;
    return block[0] * block[1] * block[2] <= function->max_threads && shared <= function->max_dynamic_shared;
}

/* The parameters are copied now: what they point to may change once the call returned. */
nv_result drv_work_launch(drv_work *work, nv_function handle, const unsigned *grid, const unsigned *block,
                          unsigned shared, void **params)
{
    const drv_function *function = (const drv_function *)handle;
    nv_result result = drv_check(function, DRV_FUNCTION, "a launch");
    if (result != NV_SUCCESS)
        return result;
    if (!fits(function, grid, block, shared))
        return drv_misuse(NV_ERROR_INVALID_VALUE, "launch of %s: grid %u %u %u, block %u %u %u, shared %u",
                          function->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared);
    if (!function->run)
        return NV_ERROR_NOT_SUPPORTED;
    memset(work, 0, sizeof *work);
    work->kind = DRV_LAUNCH;
    work->launch.function = function;
    memcpy(work->launch.grid, grid, sizeof work->launch.grid);
    memcpy(work->launch.block, block, sizeof work->launch.block);
    for (uint32_t i = 0; i < function->param_count; i++) {
        if (!params || !params[i])
            return drv_misuse(NV_ERROR_INVALID_VALUE, "launch of %s: parameter %u is NULL", function->name, i);
        memcpy(work->launch.params + function->param_offset[i], params[i], function->param_size[i]);
    }
    return NV_SUCCESS;
}
