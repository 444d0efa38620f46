/* module.c - programs: a cubin for the device, else PTX, else CUDA C through NVRTC; their functions. */
#include "cuda_backend.h"

#include <elf.h>

#define JIT_LOG 8192

/* The driver is not told an image's size: make sure that what the header names lies within it. */
static bool cubin_is_whole(const void *data, size_t size)
{
    Elf64_Ehdr header;
    if (size < sizeof header)
        return false;
    memcpy(&header, data, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    uint64_t sections = (uint64_t)header.e_shnum * header.e_shentsize;
    uint64_t programs = (uint64_t)header.e_phnum * header.e_phentsize;
    if (header.e_shoff > size || sections > size - header.e_shoff || header.e_phoff > size ||
        programs > size - header.e_phoff || header.e_shentsize < sizeof(Elf64_Shdr))
        return false;
    for (uint32_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, (const char *)data + header.e_shoff + (uint64_t)i * header.e_shentsize, sizeof section);
        if (section.sh_type != SHT_NOBITS && (section.sh_offset > size || section.sh_size > size - section.sh_offset))
            return false;
    }
    return true;
}

/* Load an image; on failure the driver's compile log is in the last error. */
static hal_status load_image(hal_native_device *device, const void *image, const char *what, nv_module *module,
                             nv_result *result)
{
    char log[JIT_LOG] = "";
    nv_jit_option options[] = {NV_JIT_ERROR_LOG_BUFFER, NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    *module = NULL;
    *result = device->driver.cuModuleLoadDataEx(module, image, 2, options, values);
    if (*result == NV_SUCCESS)
        return HAL_OK;
    *module = NULL;
    hal_status status =
        cuda_fail(&device->driver, *result, "cuModuleLoadDataEx(%s, for sm_%u)", what, device->compute_capability);
    return log[0] ? hal_fail(status, "%s: %s", hal_last_error(), log) : status;
}

static bool is_other_device(nv_result result)
{
    return result == NV_ERROR_NO_BINARY_FOR_GPU || result == NV_ERROR_INVALID_IMAGE;
}

/* The first of cubin and PTX that the device takes. Neither given: HAL_OK and no image. */
static hal_status choose_image(hal_native_device *device, const hal_module_desc *desc, nv_module *image)
{
    hal_status status = HAL_OK;
    nv_result result;
    *image = NULL;
    if (desc->cuda_cubin) {
        if (!cubin_is_whole(desc->cuda_cubin, desc->cuda_cubin_size))
            return hal_fail(HAL_ERROR_COMPILE,
                            "cuda: module \"%s\": cuda_cubin (%zu bytes) is not a whole cubin: give the ELF file that "
                            "nvcc -cubin writes",
                            desc->label ? desc->label : "module", desc->cuda_cubin_size);
        status = load_image(device, desc->cuda_cubin, "cubin", image, &result);
        if (status == HAL_OK || !is_other_device(result))
            return status;
        hal_log(device->core, HAL_LOG_INFO, "cuda: the cubin of module \"%s\" is not for sm_%u",
                desc->label ? desc->label : "module", device->compute_capability);
    }
    if (desc->cuda_ptx)
        return load_image(device, desc->cuda_ptx, "PTX", image, &result);
    return desc->cuda_c ? HAL_OK : status;
}

static hal_status module_fill(hal_native_module *module, const hal_module_desc *desc)
{
    hal_native_device *device = module->device;
    if (!desc->cuda_cubin && !desc->cuda_ptx && !desc->cuda_c)
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        "no variant for CUDA: give hal_module_desc.cuda_ptx, cuda_cubin or cuda_c");
    hal_status status = choose_image(device, desc, &module->image);
    if (status != HAL_OK)
        return status;
    if (desc->cuda_c) {
        /* Without an image the source is what there is: say now that it cannot be compiled. */
        if (!module->image && (status = cuda_nvrtc_load(device)) != HAL_OK)
            return status;
        module->source = hal_strdup(device->core, desc->cuda_c);
        module->options = hal_strdup(device->core, desc->options ? desc->options : "");
    }
    module->label = hal_strdup(device->core, desc->label ? desc->label : "module");
    if (!module->label || (desc->cuda_c && (!module->source || !module->options)))
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a module");
    return HAL_OK;
}

static void module_release(hal_native_module *module)
{
    hal_native_device *device = module->device;
    if (module->image)
        cuda_check_destroy(device, device->driver.cuModuleUnload(module->image), "cuModuleUnload");
    hal_free(module->source);
    hal_free(module->options);
    hal_free(module->label);
    hal_free(module);
}

hal_status cuda_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **out)
{
    bool pushed;
    hal_native_module *module = hal_calloc(device->core, 1, sizeof *module);
    *out = NULL;
    if (!module)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a module");
    module->device = device;
    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK)
        status = module_fill(module, desc);
    if (status == HAL_OK)
        *out = module;
    else
        module_release(module);
    cuda_leave(device, pushed);
    return status;
}

void cuda_module_destroy(hal_native_module *module)
{
    bool pushed;
    if (!module)
        return;
    hal_native_device *device = module->device;
    cuda_enter(device, &pushed);
    module_release(module);
    cuda_leave(device, pushed);
}

/* -- kernels ------------------------------------------------------------------------------------------------------- */

/* ENTRY__V0_V1_...: the name of a variant in an image. */
static hal_status variant_name(const char *entry, const hal_kernel_desc *desc, char *name, size_t size)
{
    size_t used = (size_t)snprintf(name, size, "%s", entry);
    for (uint32_t i = 0; i < desc->constant_count && used < size; i++)
        used += (size_t)snprintf(name + used, size - used, "%s%u", i == 0 ? "__" : "_", desc->constants[i].value);
    if (used >= size)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "cuda: the name of kernel %.64s... is too long", entry);
    return HAL_OK;
}

static hal_status find_in_image(hal_native_kernel *kernel, const char *name, const char *entry)
{
    const hal_native_module *module = kernel->module;
    const cuda_driver *driver = &module->device->driver;
    nv_result result = driver->cuModuleGetFunction(&kernel->function, module->image, name);
    if (result == NV_ERROR_NOT_FOUND)
        return hal_fail(HAL_ERROR_NOT_FOUND, "cuda: module \"%s\" exports no entry %s%s%s%s", module->label, name,
                        strcmp(name, entry) ? ", the variant of " : "", strcmp(name, entry) ? entry : "",
                        strcmp(name, entry) ? " for these constants" : "; is it declared extern \"C\"?");
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuModuleGetFunction(%s)", name);
    return HAL_OK;
}

static hal_status load_source(hal_native_kernel *kernel, const hal_kernel_desc *desc, bool ptx, nv_result *result)
{
    hal_native_module *module = kernel->module;
    void *image = NULL;
    size_t size;
    *result = NV_SUCCESS;
    hal_status status = cuda_nvrtc_compile(module->device, module, desc, ptx, &image, &size);
    if (status != HAL_OK)
        return status;
    if (ptx ? memchr(image, 0, size) == NULL : !cubin_is_whole(image, size))
        status = hal_fail(HAL_ERROR_COMPILE, "cuda: module \"%s\": NVRTC gave no whole %s", module->label,
                          ptx ? "PTX" : "cubin");
    else
        status = load_image(module->device, image, ptx ? "PTX from NVRTC" : "cubin from NVRTC", &kernel->image, result);
    free(image);
    return status;
}

static hal_status find_in_source(hal_native_kernel *kernel, const char *entry, const hal_kernel_desc *desc)
{
    hal_native_module *module = kernel->module;
    const cuda_driver *driver = &module->device->driver;
    nv_result result;
    hal_status status = load_source(kernel, desc, false, &result);
    if (status != HAL_OK && is_other_device(result)) /* -arch of the user's options, for one */
        status = load_source(kernel, desc, true, &result);
    if (status != HAL_OK)
        return status;
    result = driver->cuModuleGetFunction(&kernel->function, kernel->image, entry);
    if (result == NV_ERROR_NOT_FOUND)
        return hal_fail(HAL_ERROR_NOT_FOUND,
                        "cuda: the source of module \"%s\" has no entry %s; is it declared "
                        "extern \"C\" __global__?",
                        module->label, entry);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuModuleGetFunction(%s)", entry);
    return HAL_OK;
}

static hal_status find_function(hal_native_kernel *kernel, const char *entry, const hal_kernel_desc *desc)
{
    char name[512];
    hal_status status = variant_name(entry, desc, name, sizeof name);
    if (status != HAL_OK)
        return status;
    if (kernel->module->image) {
        status = find_in_image(kernel, name, entry);
        if (status != HAL_ERROR_NOT_FOUND || !kernel->module->source)
            return status;
    }
    return find_in_source(kernel, entry, desc);
}

/* cuLaunchKernel reads as many parameters as the kernel has: a wrong count must not get that far. */
static hal_status check_params(const hal_native_kernel *kernel, const char *entry, const hal_kernel_desc *desc)
{
    const cuda_driver *driver = &kernel->module->device->driver;
    size_t offset, size, wanted = desc->binding_count + (desc->args_size > 0);
    if (!driver->cuFuncGetParamInfo) /* before CUDA 12.4 */
        return HAL_OK;
    for (size_t i = 0; i <= wanted; i++) {
        nv_result result = driver->cuFuncGetParamInfo(kernel->function, i, &offset, &size);
        if (result == NV_ERROR_INVALID_VALUE && i == wanted)
            return HAL_OK;
        size_t declared = i < desc->binding_count ? sizeof(nv_ptr) : desc->args_size;
        if (result == NV_ERROR_INVALID_VALUE || (result == NV_SUCCESS && i == wanted))
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "cuda: kernel %s takes %s than %zu parameters, but %u spans%s are declared", entry,
                            i == wanted ? "more" : "fewer", wanted, desc->binding_count,
                            desc->args_size ? " and an argument struct" : "");
        if (result != NV_SUCCESS)
            return cuda_fail(driver, result, "cuFuncGetParamInfo(%s, %zu)", entry, i);
        if (size != declared)
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "cuda: parameter %zu of kernel %s has %zu bytes, but %zu are declared (spans are pointers, "
                            "the last parameter is the argument struct)",
                            i, entry, size, declared);
    }
    return HAL_OK;
}

static hal_status prepare(hal_native_kernel *kernel, const char *entry, hal_kernel_limits *limits)
{
    const hal_native_device *device = kernel->module->device;
    const cuda_driver *driver = &device->driver;
    nv_function function = kernel->function;
    int threads = 0, fixed = 0;
    nv_result result = driver->cuFuncGetAttribute(&threads, NV_FUNCTION_MAX_THREADS_PER_BLOCK, function);
    if (result == NV_SUCCESS)
        result = driver->cuFuncGetAttribute(&fixed, NV_FUNCTION_SHARED_SIZE_BYTES, function);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuFuncGetAttribute(%s)", entry);
    if ((uint64_t)fixed + kernel->dynamic_shared > device->max_shared)
        return hal_fail(HAL_ERROR_LIMIT,
                        "cuda: kernel %s needs %d + %u bytes of shared memory, the device has %u for a group", entry,
                        fixed, kernel->dynamic_shared, device->max_shared);
    if (kernel->dynamic_shared > 0) {
        /* Kernels with other constants may share the function: each allows whatever any could need. */
        const uint32_t most = device->max_shared - (uint32_t)fixed;
        result = driver->cuFuncSetAttribute(function, NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)most);
        if (result != NV_SUCCESS)
            return cuda_fail(driver, result, "cuFuncSetAttribute(%s, %u bytes of dynamic shared memory)", entry, most);
    }
    /* Drivers load functions when they are first used, which may wait for the device: do it now. */
    if (driver->cuFuncLoad && (result = driver->cuFuncLoad(function)) != NV_SUCCESS)
        return cuda_fail(driver, result, "cuFuncLoad(%s)", entry);
    limits->max_group_size = (uint32_t)threads;
    return HAL_OK;
}

static void kernel_release(hal_native_kernel *kernel)
{
    hal_native_device *device = kernel->module->device;
    if (kernel->image)
        cuda_check_destroy(device, device->driver.cuModuleUnload(kernel->image), "cuModuleUnload");
    hal_free(kernel);
}

hal_status cuda_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                              hal_native_kernel **out, hal_kernel_limits *limits)
{
    bool pushed;
    hal_native_device *device = module->device;
    hal_native_kernel *kernel = hal_calloc(device->core, 1, sizeof *kernel);
    *out = NULL;
    if (!kernel)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a kernel");
    kernel->module = module;
    kernel->dynamic_shared = desc->dynamic_shared;
    for (int i = 0; i < 3; i++)
        kernel->group[i] = desc->group[i] ? desc->group[i] : 1;

    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK)
        status = find_function(kernel, entry, desc);
    if (status == HAL_OK)
        status = check_params(kernel, entry, desc);
    if (status == HAL_OK)
        status = prepare(kernel, entry, limits);
    if (status == HAL_OK)
        *out = kernel;
    else
        kernel_release(kernel);
    cuda_leave(device, pushed);
    return status;
}

void cuda_kernel_destroy(hal_native_kernel *kernel)
{
    bool pushed;
    if (!kernel)
        return;
    hal_native_device *device = kernel->module->device;
    cuda_enter(device, &pushed);
    kernel_release(kernel);
    cuda_leave(device, pushed);
}
