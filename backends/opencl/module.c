/* module.c - programs, their binary cache, and kernels.
 *
 * Constants are -D options, so a program is built at kernel_create, once for each set of options of a module. */
#include "opencl_backend.h"

#define MAX_OPTIONS 4096
#define MAX_LOG     800 /* of the compile log, in the error message */

typedef struct opencl_program opencl_program;
struct opencl_program {
    opencl_program *next;
    char *options;
    uint32_t *specialisation; /* SPIR-V: id, value pairs */
    uint32_t constant_count;
    cl_program handle;
};

struct hal_native_module {
    hal_native_device *device;
    char *label;
    char *source; /* OpenCL C, or NULL: */
    void *spirv;
    size_t spirv_size;
    char *options;        /* of the description */
    pthread_mutex_t lock; /* the programs; held while one is built */
    opencl_program *programs;
};

hal_status hal_opencl_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **module)
{
    *module = NULL;
    if (!desc->opencl_c && !(desc->opencl_spirv && device->spirv))
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        desc->opencl_spirv ? "this device takes no SPIR-V: give hal_module_desc.opencl_c"
                                           : "no variant for OpenCL: give hal_module_desc.opencl_c%s",
                        device->spirv ? " or opencl_spirv" : "");
    hal_native_module *created = hal_calloc(device->core, 1, sizeof *created);
    if (!created)
        goto fail;
    created->device = device;
    pthread_mutex_init(&created->lock, NULL);
    created->label = hal_strdup(device->core, desc->label ? desc->label : "module");
    created->options = hal_strdup(device->core, desc->options ? desc->options : "");
    if (desc->opencl_c) {
        created->source = hal_strdup(device->core, desc->opencl_c);
    } else {
        created->spirv = hal_calloc(device->core, 1, desc->opencl_spirv_size);
        created->spirv_size = desc->opencl_spirv_size;
        if (created->spirv)
            memcpy(created->spirv, desc->opencl_spirv, desc->opencl_spirv_size);
    }
    if (!created->label || !created->options || !(created->source || created->spirv))
        goto fail;
    *module = created;
    return HAL_OK;
fail:
    if (created)
        hal_opencl_module_destroy(created);
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: module: out of host memory");
}

static void program_destroy(const hal_native_device *device, opencl_program *program)
{
    if (program->handle)
        device->cl.ReleaseProgram(program->handle);
    hal_free(program->options);
    hal_free(program->specialisation);
    hal_free(program);
}

void hal_opencl_module_destroy(hal_native_module *module)
{
    for (opencl_program *program = module->programs, *next; program; program = next) {
        next = program->next;
        program_destroy(module->device, program);
    }
    pthread_mutex_destroy(&module->lock);
    hal_free(module->label);
    hal_free(module->source);
    hal_free(module->spirv);
    hal_free(module->options);
    hal_free(module);
}

/* The options of one program: language, constants, then the module's own. */
static hal_status write_options(const hal_native_module *module, const hal_kernel_desc *desc, char *options)
{
    const hal_native_device *device = module->device;
    size_t used = 0;
    options[0] = 0;
    if (module->source && !strstr(module->options, "-cl-std="))
        used +=
            (size_t)snprintf(options, MAX_OPTIONS, "-cl-std=CL%u.%u ", device->c_version / 10, device->c_version % 10);
    /* Groups may be cut short at the end of the grid unless one says that they never are. */
    if (module->source && device->uneven_groups)
        used += (size_t)snprintf(options + used, MAX_OPTIONS - used, "-cl-uniform-work-group-size ");
    for (uint32_t i = 0; module->source && i < desc->constant_count && used < MAX_OPTIONS; i++)
        used += (size_t)snprintf(options + used, MAX_OPTIONS - used, "-D%s=%u ", desc->constants[i].name,
                                 (unsigned)desc->constants[i].value);
    if (used < MAX_OPTIONS)
        used += (size_t)snprintf(options + used, MAX_OPTIONS - used, "%s", module->options);
    if (used >= MAX_OPTIONS)
        return hal_fail(HAL_ERROR_LIMIT, "opencl: module %s: the build options exceed %d bytes", module->label,
                        MAX_OPTIONS);
    return HAL_OK;
}

/* HAL_ERROR_COMPILE with the log as one line. */
static hal_status compile_failed(const hal_native_module *module, cl_program program, const char *options, cl_int code)
{
    const hal_native_device *device = module->device;
    size_t size = 0;
    char *log = NULL;
    if (device->cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS && size)
        log = hal_calloc(device->core, 1, size + 1);
    if (log && device->cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
        log[0] = 0;
    hal_log(device->core, HAL_LOG_ERROR, "opencl: module %s: %s", module->label, log ? log : "no compile log");
    /* Lines become "; ", runs of blanks one. */
    size_t to = 0;
    for (const char *from = log; from && *from && to < MAX_LOG; from++) {
        bool blank = *from == ' ' || *from == '\t' || *from == '\r';
        if (*from == '\n' && to && log[to - 1] != ';')
            log[to++] = ';';
        else if (*from != '\n' && !(blank && to && log[to - 1] == ' '))
            log[to++] = (char)(blank ? ' ' : *from);
    }
    while (to && (log[to - 1] == ';' || log[to - 1] == ' '))
        to--;
    if (log)
        log[to] = 0;
    hal_status status = code == CL_OUT_OF_HOST_MEMORY ? HAL_ERROR_OUT_OF_MEMORY : HAL_ERROR_COMPILE;
    hal_fail(status, "opencl: clBuildProgram: %s: module %s with \"%s\": %s", hal_opencl_error_name(code),
             module->label, options, log && log[0] ? log : "the driver gave no log");
    hal_free(log);
    return status;
}

/* Binaries on disk. */

/* What the key does not cover must not be cached: files that the source includes may change. System includes name no
 * file of the user's unless a folder is given. */
static bool cacheable(const hal_native_module *module, const char *options)
{
    for (const char *at = module->source; (at = strstr(at, "include"));) {
        at += strlen("include");
        if (at[strspn(at, " \t")] == '"')
            return false;
    }
    return !strstr(options, "-I") && !strstr(options, "-include");
}

static hal_cache_key cache_key(const hal_native_module *module, const char *options)
{
    const hal_cache_part parts[] = {HAL_CACHE_TEXT("opencl program 1"), HAL_CACHE_TEXT(module->device->cache_identity),
                                    HAL_CACHE_TEXT(options), HAL_CACHE_TEXT(module->source)};
    return hal_cache_key_make(parts, sizeof parts / sizeof parts[0]);
}

/* A built program from the cache, or NULL. A binary that the driver refuses is as good as none. */
static cl_program load_binary(const hal_native_module *module, const char *options)
{
    const hal_native_device *device = module->device;
    void *data = NULL;
    size_t size = 0;
    cl_int code, binary_status = CL_SUCCESS;
    if (!cacheable(module, options) || hal_cache_load(device->core, cache_key(module, options), &data, &size) != HAL_OK)
        return NULL;
    const unsigned char *bytes = data;
    cl_program program =
        device->cl.CreateProgramWithBinary(device->context, 1, &device->id, &size, &bytes, &binary_status, &code);
    free(data);
    if (code != CL_SUCCESS)
        return NULL;
    code = binary_status == CL_SUCCESS ? device->cl.BuildProgram(program, 1, &device->id, options, NULL, NULL)
                                       : binary_status;
    if (code == CL_SUCCESS)
        return program;
    hal_log(device->core, HAL_LOG_INFO, "opencl: module %s: cached binary refused (%s): building from source",
            module->label, hal_opencl_error_name(code));
    device->cl.ReleaseProgram(program);
    return NULL;
}

static void store_binary(const hal_native_module *module, const char *options, cl_program program)
{
    const hal_native_device *device = module->device;
    size_t size = 0;
    unsigned char *bytes = NULL;
    if (!cacheable(module, options))
        return;
    if (device->cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) == CL_SUCCESS && size)
        bytes = hal_calloc(device->core, 1, size);
    if (bytes && device->cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS)
        hal_cache_store(device->core, cache_key(module, options), bytes, size);
    hal_free(bytes);
}

static hal_status build(const hal_native_module *module, opencl_program *program)
{
    const hal_native_device *device = module->device;
    const opencl_driver *cl = &device->cl;
    cl_int code = CL_SUCCESS;
    if (module->source) {
        program->handle = load_binary(module, program->options);
        if (program->handle)
            return HAL_OK;
        const char *source = module->source;
        program->handle = cl->CreateProgramWithSource(device->context, 1, &source, NULL, &code);
    } else {
        program->handle = cl->CreateProgramWithIL(device->context, module->spirv, module->spirv_size, &code);
    }
    if (code != CL_SUCCESS) {
        program->handle = NULL;
        return hal_opencl_fail(code, module->source ? "clCreateProgramWithSource" : "clCreateProgramWithIL",
                               "module %s", module->label);
    }
    for (size_t i = 0; i < program->constant_count; i++) {
        code = cl->SetProgramSpecializationConstant
                   ? cl->SetProgramSpecializationConstant(program->handle, program->specialisation[2 * i],
                                                          sizeof(uint32_t), &program->specialisation[2 * i + 1])
                   : CL_INVALID_OPERATION;
        if (code != CL_SUCCESS)
            return hal_opencl_fail(code, "clSetProgramSpecializationConstant", "module %s, constant %u", module->label,
                                   (unsigned)program->specialisation[2 * i]);
    }
    code = cl->BuildProgram(program->handle, 1, &device->id, program->options, NULL, NULL);
    if (code != CL_SUCCESS)
        return compile_failed(module, program->handle, program->options, code);
    if (module->source)
        store_binary(module, program->options, program->handle);
    return HAL_OK;
}

static hal_status program_create(hal_native_module *module, const hal_kernel_desc *desc, const char *options,
                                 opencl_program **created)
{
    hal_core *core = module->device->core;
    hal_status status = HAL_ERROR_OUT_OF_MEMORY;
    opencl_program *program = hal_calloc(core, 1, sizeof *program);
    uint32_t count = module->source ? 0 : desc->constant_count;
    if (program)
        program->options = hal_strdup(core, options);
    if (program && count)
        program->specialisation = hal_calloc(core, count, 2 * sizeof *program->specialisation);
    if (!program || !program->options || (count && !program->specialisation)) {
        hal_fail(status, "opencl: module %s: out of host memory", module->label);
        goto fail;
    }
    program->constant_count = count;
    for (size_t i = 0; i < count; i++) {
        program->specialisation[2 * i] = desc->constants[i].id;
        program->specialisation[2 * i + 1] = desc->constants[i].value;
    }
    status = build(module, program);
    if (status != HAL_OK)
        goto fail;
    program->next = module->programs;
    module->programs = program;
    *created = program;
    return HAL_OK;
fail:
    if (program)
        program_destroy(module->device, program);
    return status;
}

static bool same_specialisation(const opencl_program *program, const hal_native_module *module,
                                const hal_kernel_desc *desc)
{
    if (module->source)
        return true; /* the constants are in the options */
    if (program->constant_count != desc->constant_count)
        return false;
    for (size_t i = 0; i < desc->constant_count; i++)
        if (program->specialisation[2 * i] != desc->constants[i].id ||
            program->specialisation[2 * i + 1] != desc->constants[i].value)
            return false;
    return true;
}

/* The program of these constants, built at the first use, with a reference for the caller. */
static hal_status get_program(hal_native_module *module, const hal_kernel_desc *desc, cl_program *handle)
{
    char options[MAX_OPTIONS];
    hal_status status = write_options(module, desc, options);
    if (status != HAL_OK)
        return status;
    pthread_mutex_lock(&module->lock);
    opencl_program *program = module->programs;
    while (program && !(strcmp(program->options, options) == 0 && same_specialisation(program, module, desc)))
        program = program->next;
    if (!program)
        status = program_create(module, desc, options, &program);
    if (status == HAL_OK) {
        *handle = program->handle;
        module->device->cl.RetainProgram(*handle);
    }
    pthread_mutex_unlock(&module->lock);
    return status;
}

/* Kernels. */

static hal_status no_entry(const hal_native_kernel *kernel, const hal_native_module *module, cl_int code)
{
    char names[512] = "";
    if (code != CL_INVALID_KERNEL_NAME)
        return hal_opencl_fail(code, "clCreateKernel", "%s of module %s", kernel->entry, module->label);
    if (kernel->device->cl.GetProgramInfo(kernel->program, CL_PROGRAM_KERNEL_NAMES, sizeof names - 1, names, NULL) !=
        CL_SUCCESS)
        snprintf(names, sizeof names, "more than fit here");
    return hal_fail(HAL_ERROR_NOT_FOUND, "opencl: clCreateKernel: module %s has no kernel %s; it has: %s",
                    module->label, kernel->entry, names);
}

/* Set every argument once, so that a kernel that does not follow the ABI is refused here and not at its first dispatch.
 */
static hal_status check_arguments(const hal_native_kernel *kernel, cl_kernel handle)
{
    static const uint8_t zeros[HAL_MAX_ARGS];
    const opencl_driver *cl = &kernel->device->cl;
    bool offset = kernel->abi == HAL_ABI_OFFSET;
    cl_uint expected = kernel->binding_count * (offset ? 2 : 1) + (kernel->args_size ? 1 : 0), found = 0;
    const char *form = offset ? "OFFSET kernels take (global T *p, ulong byte_offset) for each span"
                              : "PLAIN kernels take (global T *p) for each span";
    cl_int code = cl->GetKernelInfo(handle, CL_KERNEL_NUM_ARGS, sizeof found, &found, NULL);
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clGetKernelInfo", "%s", kernel->entry);
    if (found != expected)
        return hal_fail(
            HAL_ERROR_INVALID_ARGUMENT,
            "opencl: kernel %s: takes %u arguments where %u are expected for %u spans and %u bytes of args: "
            "%s, then one struct by value if there are args",
            kernel->entry, (unsigned)found, (unsigned)expected, (unsigned)kernel->binding_count,
            (unsigned)kernel->args_size, form);
    for (cl_uint i = 0; i < found && code == CL_SUCCESS; i++) {
        bool args = kernel->args_size && i == found - 1, is_offset = offset && i % 2 == 1;
        size_t size = args ? kernel->args_size : is_offset ? sizeof(cl_ulong) : sizeof(cl_mem);
        code = cl->SetKernelArg(handle, i, size, args || is_offset ? zeros : NULL);
        if (code != CL_SUCCESS)
            return hal_fail(
                HAL_ERROR_INVALID_ARGUMENT,
                "opencl: clSetKernelArg: %s: kernel %s refuses argument %u as %s of %zu bytes: %s, then one "
                "struct by value if there are args",
                hal_opencl_error_name(code), kernel->entry, (unsigned)i,
                args        ? "args"
                : is_offset ? "byte offset"
                            : "pointer",
                size, form);
    }
    return HAL_OK;
}

static hal_status check_limits(const hal_native_kernel *kernel, cl_kernel handle, hal_kernel_limits *limits)
{
    const hal_native_device *device = kernel->device;
    size_t most = device->max_work_group_size, fixed[3] = {0},
           total = kernel->group[0] * kernel->group[1] * kernel->group[2];
    cl_ulong shared = 0;
    cl_int code =
        device->cl.GetKernelWorkGroupInfo(handle, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    if (code == CL_SUCCESS)
        code = device->cl.GetKernelWorkGroupInfo(handle, device->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof fixed,
                                                 fixed, NULL);
    if (code == CL_SUCCESS)
        code = device->cl.GetKernelWorkGroupInfo(handle, device->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof shared, &shared,
                                                 NULL);
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clGetKernelWorkGroupInfo", "%s", kernel->entry);
    limits->max_group_size = (uint32_t)most;
    if (fixed[0] && memcmp(fixed, kernel->group, sizeof fixed) != 0)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "opencl: kernel %s: reqd_work_group_size is %zu x %zu x %zu but hal_kernel_desc.group is %zu x "
                        "%zu x %zu",
                        kernel->entry, fixed[0], fixed[1], fixed[2], kernel->group[0], kernel->group[1],
                        kernel->group[2]);
    if (total > most)
        return hal_fail(HAL_ERROR_LIMIT,
                        "opencl: kernel %s: a group of %zu work-items exceeds the kernel's CL_KERNEL_WORK_GROUP_SIZE "
                        "of %zu on this device",
                        kernel->entry, total, most);
    if (shared > device->local_memory_size)
        return hal_fail(HAL_ERROR_LIMIT, "opencl: kernel %s: uses %llu bytes of local memory; the device has %llu",
                        kernel->entry, (unsigned long long)shared, (unsigned long long)device->local_memory_size);
    return HAL_OK;
}

hal_status hal_opencl_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                                    hal_native_kernel **kernel, hal_kernel_limits *limits)
{
    hal_native_device *device = module->device;
    cl_kernel handle = NULL;
    cl_int code;
    *kernel = NULL;
    hal_native_kernel *created = hal_calloc(device->core, 1, sizeof *created);
    if (!created)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: kernel %s: out of host memory", entry);
    atomic_init(&created->references, 1);
    created->device = device;
    created->abi = desc->abi;
    created->binding_count = desc->binding_count;
    created->args_size = desc->args_size;
    for (int i = 0; i < 3; i++)
        created->group[i] = desc->group[i] ? desc->group[i] : 1;
    created->entry = hal_strdup(device->core, entry);
    hal_status status = created->entry
                            ? get_program(module, desc, &created->program)
                            : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: kernel %s: out of host memory", entry);
    if (status == HAL_OK) {
        handle = device->cl.CreateKernel(created->program, entry, &code);
        if (code != CL_SUCCESS) {
            handle = NULL;
            status = no_entry(created, module, code);
        }
    }
    if (status == HAL_OK)
        status = check_arguments(created, handle);
    if (status == HAL_OK)
        status = check_limits(created, handle, limits);
    if (handle)
        device->cl.ReleaseKernel(handle); /* streams and lists make their own */
    if (status != HAL_OK) {
        hal_opencl_kernel_release(created);
        return status;
    }
    *kernel = created;
    return HAL_OK;
}

void hal_opencl_kernel_release(hal_native_kernel *kernel)
{
    if (atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) != 1)
        return;
    if (kernel->program)
        kernel->device->cl.ReleaseProgram(kernel->program);
    hal_free(kernel->entry);
    hal_free(kernel);
}

void hal_opencl_kernel_destroy(hal_native_kernel *kernel)
{
    atomic_store_explicit(&kernel->destroyed, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&kernel->device->destroyed_kernels, 1, memory_order_relaxed);
    hal_opencl_kernel_release(kernel);
}
