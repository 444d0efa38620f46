/* module.c - modules and kernels: the user's and the built-in ones. */
#include "internal.h"

static void free_module(hal_object *object)
{
    hal_module *module = (hal_module *)object;
    hal_device *device = object->device;
    if (module->native) {
        device->backend->module_destroy(module->native);
    }
    object->type = 0;
    hal_free(object->label);
    hal_free(module);
    hal_release(&device->object);
}

static hal_status make_module(hal_device *device, const hal_module_desc *desc, hal_module **out)
{
    hal_module *module = hal_calloc(&device->core, 1, sizeof *module);
    if (!module) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a module");
    }
    hal_status status = hal_object_init(&module->object, HAL_TYPE_MODULE, device, desc->label, "module", free_module);
    if (status != HAL_OK) {
        hal_free(module);
        return status;
    }
    status = hal_fault_hit(device, HAL_FAULT_COMPILE)
                 ? hal_fail(HAL_ERROR_COMPILE, "injected fault: compile of module '%s'", module->object.label)
                 : hal_device_note(device, device->backend->module_create(device->native, desc, &module->native));
    if (status != HAL_OK) {
        module->native = NULL;
        status = hal_fail_prefix(status, "module '%s'", module->object.label);
        free_module(&module->object);
        return status;
    }
    *out = module;
    return HAL_OK;
}

hal_status hal_module_create(hal_device *device, const hal_module_desc *given, hal_module **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_module_create: module is NULL");
    }
    *out = NULL;
    hal_module_desc desc;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_module_desc") : status;
    status = status == HAL_OK ? hal_device_usable(device) : status;
    return status == HAL_OK ? make_module(device, &desc, out) : status;
}

void hal_module_destroy(hal_module *module)
{
    if (module && hal_check(module, HAL_TYPE_MODULE, "module") == HAL_OK) {
        hal_release(&module->object);
    }
}

static void free_kernel(hal_object *object)
{
    hal_kernel *kernel = (hal_kernel *)object;
    hal_device *device = object->device;
    if (kernel->native) {
        device->backend->kernel_destroy(kernel->native);
    }
    hal_release(kernel->module ? &kernel->module->object : NULL);
    object->type = 0;
    hal_free(object->label);
    hal_free(kernel);
    hal_release(&device->object);
}

static hal_status check_group(const hal_device *device, const char *label, hal_kernel_desc *desc)
{
    uint64_t items = 1;
    for (int i = 0; i < 3; i++) {
        desc->group[i] = desc->group[i] ? desc->group[i] : 1;
        if (desc->group[i] > device->info.max_group_dim[i]) {
            return hal_fail(HAL_ERROR_LIMIT, "kernel '%s': group[%d] is %u, the device takes %u", label, i,
                            desc->group[i], device->info.max_group_dim[i]);
        }
        items *= desc->group[i];
    }
    return items <= device->info.max_group_size
               ? HAL_OK
               : hal_fail(HAL_ERROR_LIMIT, "kernel '%s': a group of %llu work-items, the device takes %u", label,
                          (unsigned long long)items, device->info.max_group_size);
}

static hal_status check_kernel(const hal_device *device, const char *label, hal_kernel_desc *desc)
{
    if (desc->binding_count > HAL_MAX_BINDINGS) {
        return hal_fail(HAL_ERROR_LIMIT, "kernel '%s': %u bindings; at most %d", label, desc->binding_count,
                        HAL_MAX_BINDINGS);
    }
    uint32_t least = desc->splittable ? 12 : 0;
    uint32_t most = desc->abi == HAL_ABI_OFFSET ? HAL_MAX_ARGS : device->info.max_args;
    if (desc->args_size % 4 || desc->args_size > most || desc->args_size < least) {
        return hal_fail(desc->args_size > most ? HAL_ERROR_LIMIT : HAL_ERROR_INVALID_ARGUMENT,
                        "kernel '%s': %u bytes of args; a multiple of 4, from %u to %u", label, desc->args_size, least,
                        most);
    }
    for (uint32_t i = 0; i < desc->binding_count; i++) {
        if (desc->bindings[i] < HAL_READ || desc->bindings[i] > HAL_READ_WRITE) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                            "kernel '%s': bindings[%u] is %d; say HAL_READ, HAL_WRITE or both", label, i,
                            (int)desc->bindings[i]);
        }
        if ((unsigned)desc->views[i] > HAL_VIEW_RGBA16UI) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "kernel '%s': views[%u] is %d, none of hal_view", label, i,
                            (int)desc->views[i]);
        }
    }
    if ((unsigned)desc->abi > HAL_ABI_OFFSET || (desc->constant_count && !desc->constants)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "kernel '%s': abi %d is none of hal_abi, or constants is NULL",
                        label, (int)desc->abi);
    }
    for (uint32_t i = 0; i < desc->constant_count; i++) {
        if (!desc->constants[i].name || !*desc->constants[i].name) {
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "kernel '%s': constants[%u] has no name", label, i);
        }
    }
    return check_group(device, label, desc);
}

/* `builtin`: `module` is the device's own of that row, and is not referenced; else NULL. */
static hal_status make_kernel(hal_module *module, const hal_builtin *builtin, const char *entry,
                              const hal_kernel_desc *given, hal_kernel **out)
{
    hal_device *device = module->object.device;
    hal_kernel_desc desc;
    hal_status status = hal_desc_read(given, &desc, sizeof desc, "hal_kernel_desc");
    const char *label = desc.label ? desc.label : entry;
    status = status == HAL_OK ? check_kernel(device, label, &desc) : status;
    if (status != HAL_OK) {
        return status;
    }
    if (builtin && builtin->one_entry && device->backend->constants_in_names) {
        desc.constant_count = 0; /* that form reads from its arguments what others compile in */
    }
    if (hal_fault_hit(device, HAL_FAULT_COMPILE)) {
        return hal_fail(HAL_ERROR_COMPILE, "injected fault: compile of kernel '%s'", label);
    }
    hal_kernel *kernel = hal_calloc(&device->core, 1, sizeof *kernel);
    if (!kernel || hal_object_init(&kernel->object, HAL_TYPE_KERNEL, device, label, "kernel", free_kernel) != HAL_OK) {
        hal_free(kernel);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a kernel");
    }
    hal_kernel_limits limits = {0};
    status =
        hal_device_note(device, device->backend->kernel_create(module->native, entry, &desc, &kernel->native, &limits));
    if (status != HAL_OK) {
        kernel->native = NULL;
        status = hal_fail_prefix(status, "kernel '%s'", kernel->object.label);
        free_kernel(&kernel->object);
        return status;
    }
    if (!builtin) {
        kernel->module = module;
        hal_retain(&module->object);
    }
    desc.label = NULL;
    desc.constants = NULL;
    kernel->desc = desc;
    *out = kernel;
    return HAL_OK;
}

hal_status hal_kernel_create(hal_module *module, const char *entry, const hal_kernel_desc *desc, hal_kernel **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_kernel_create: kernel is NULL");
    }
    *out = NULL;
    hal_status status = hal_check(module, HAL_TYPE_MODULE, "module");
    if (status == HAL_OK && (!entry || !*entry)) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_kernel_create: no entry point is named");
    }
    status = status == HAL_OK ? hal_device_usable(module->object.device) : status;
    return status == HAL_OK ? make_kernel(module, NULL, entry, desc, out) : status;
}

/* The device's module of a built-in kernel, made at first use. */
static hal_status builtin_module(hal_device *device, size_t index, hal_module **out)
{
    const hal_builtin *builtin = &hal_builtins[index];
    char options[128];
    /* -w: some OpenCL compilers print how many warnings there were. */
    snprintf(options, sizeof options, "-w -DHAL_KERNEL_%s", builtin->name);
    hal_module_desc desc = {.struct_size = sizeof desc,
                            .label = builtin->name,
                            .opencl_c = builtin->opencl_c,
                            .spirv = builtin->spirv,
                            .spirv_size = builtin->spirv_size ? *builtin->spirv_size : 0,
                            .cuda_ptx = builtin->cuda_ptx,
                            .cuda_cubin = builtin->cuda_cubin,
                            .cuda_cubin_size = builtin->cuda_cubin_size ? *builtin->cuda_cubin_size : 0,
                            .options = options};
    hal_module *module = hal_calloc(&device->core, 1, sizeof *module);
    if (!module) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a module");
    }
    hal_status status = hal_label(&device->core, builtin->name, "builtin", &module->object.label);
    if (status == HAL_OK) {
        module->object.type = HAL_TYPE_MODULE;
        module->object.device = device;
        status = hal_device_note(device, device->backend->module_create(device->native, &desc, &module->native));
    }
    if (status == HAL_ERROR_UNSUPPORTED) {
        status =
            hal_fail(HAL_ERROR_UNAVAILABLE, "built-in kernel '%s' has no variant for %s in this build%s%s",
                     builtin->name, device->info.backend, builtin->cuda_absent && !builtin->cuda_ptx ? "; CUDA: " : "",
                     builtin->cuda_absent && !builtin->cuda_ptx ? builtin->cuda_absent : "");
    }
    if (status != HAL_OK) {
        hal_free(module->object.label);
        hal_free(module);
        return status;
    }
    *out = module;
    return HAL_OK;
}

hal_status hal_kernel_create_builtin(hal_device *device, const char *name, const hal_kernel_desc *desc,
                                     hal_kernel **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_kernel_create_builtin: kernel is NULL");
    }
    *out = NULL;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    status = status == HAL_OK ? hal_device_usable(device) : status;
    if (status == HAL_OK && !name) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_kernel_create_builtin: name is NULL");
    }
    if (status != HAL_OK) {
        return status;
    }
    size_t index = 0;
    while (index < hal_builtin_count && strcmp(hal_builtins[index].name, name) != 0) {
        index++;
    }
    if (index == hal_builtin_count) {
        return hal_fail(HAL_ERROR_NOT_FOUND, "no built-in kernel is named '%s'", name);
    }
    pthread_mutex_lock(&device->builtin_lock);
    if (!device->builtins[index]) {
        status = builtin_module(device, index, &device->builtins[index]);
    }
    hal_module *module = device->builtins[index];
    pthread_mutex_unlock(&device->builtin_lock);
    return status == HAL_OK ? make_kernel(module, &hal_builtins[index], name, desc, out) : status;
}

void hal_kernel_destroy(hal_kernel *kernel)
{
    if (kernel && hal_check(kernel, HAL_TYPE_KERNEL, "kernel") == HAL_OK) {
        hal_release(&kernel->object);
    }
}
