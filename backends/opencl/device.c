/* device.c - find the devices of all platforms, open one, and say what it can do. */
#include "opencl_backend.h"

#include <stdarg.h>

#define MAX_PLATFORMS 32
#define MAX_DEVICES   64

const hal_backend hal_backend_opencl = {
    .name = "opencl",
    .enumerate = hal_opencl_enumerate,
    .device_open = hal_opencl_device_open,
    .device_close = hal_opencl_device_close,
    .ordered = true,
    .memory_create = hal_opencl_memory_create,
    .memory_destroy = hal_opencl_memory_destroy,
    .memory_map = hal_opencl_memory_map,
    .memory_unmap = hal_opencl_memory_unmap,
    .module_create = hal_opencl_module_create,
    .module_destroy = hal_opencl_module_destroy,
    .kernel_create = hal_opencl_kernel_create,
    .kernel_destroy = hal_opencl_kernel_destroy,
    .stream_create = hal_opencl_stream_create,
    .stream_destroy = hal_opencl_stream_destroy,
    .stream_execute = hal_opencl_stream_execute,
    .stream_mark = hal_opencl_stream_mark,
    .stream_completed = hal_opencl_stream_completed,
    .stream_wait = hal_opencl_stream_wait,
    .stream_wait_point = hal_opencl_stream_wait_point,
    .event_create = hal_opencl_event_create,
    .event_destroy = hal_opencl_event_destroy,
    .event_record = hal_opencl_event_record,
    .event_elapsed = hal_opencl_event_elapsed,
    .list_create = hal_opencl_list_create,
    .list_destroy = hal_opencl_list_destroy,
    .list_submit = hal_opencl_list_submit,
    .list_builds = hal_opencl_list_builds,
};

/* A device and the answers that are asked for more than once. */
typedef struct found_device {
    cl_platform_id platform;
    cl_device_id id;
    uint32_t version, platform_version;
    char extensions[8192];
} found_device;

static void copy_trimmed(char *target, size_t capacity, const char *text)
{
    while (*text == ' ')
        text++;
    snprintf(target, capacity, "%s", text);
    for (size_t length = strlen(target); length && target[length - 1] == ' '; length--)
        target[length - 1] = 0;
}

static void device_text(const opencl_driver *cl, cl_device_id id, cl_device_info what, char *text, size_t capacity)
{
    char raw[8192];
    if (cl->GetDeviceInfo(id, what, sizeof raw - 1, raw, NULL) != CL_SUCCESS)
        raw[0] = 0;
    raw[sizeof raw - 1] = 0;
    copy_trimmed(text, capacity, raw);
}

static void platform_text(const opencl_driver *cl, cl_platform_id id, cl_platform_info what, char *text,
                          size_t capacity)
{
    char raw[2048];
    if (cl->GetPlatformInfo(id, what, sizeof raw - 1, raw, NULL) != CL_SUCCESS)
        raw[0] = 0;
    raw[sizeof raw - 1] = 0;
    copy_trimmed(text, capacity, raw);
}

/* `value` keeps what it held where the device does not know the question. */
static void device_value(const opencl_driver *cl, cl_device_id id, cl_device_info what, void *value, size_t size)
{
    uint8_t answer[64];
    size_t got = 0;
    if (size <= sizeof answer && cl->GetDeviceInfo(id, what, size, answer, &got) == CL_SUCCESS && got == size)
        memcpy(value, answer, size);
}

static bool device_flag(const opencl_driver *cl, cl_device_id id, cl_device_info what)
{
    cl_bool flag = CL_FALSE;
    device_value(cl, id, what, &flag, sizeof flag);
    return flag != CL_FALSE;
}

static bool has_extension(const found_device *device, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = device->extensions; (at = strstr(at, name)); at += length)
        if ((at == device->extensions || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
            return true;
    return false;
}

/* 12 for "OpenCL 1.2 ..." or "OpenCL C 1.2 ...". */
static uint32_t parse_version(const char *text)
{
    unsigned major = 0, minor = 0;
    if (sscanf(text, "OpenCL C %u.%u", &major, &minor) != 2 && sscanf(text, "OpenCL %u.%u", &major, &minor) != 2)
        return 0;
    return major * 10 + minor;
}

/* Fill `devices` in the order platform, device: the index of a device. `total` also counts those left out. */
static hal_status find_devices(const opencl_driver *cl, found_device *devices, uint32_t *count)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint platform_count = 0;
    uint32_t refused = 0;
    *count = 0;
    cl_int code = cl->GetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
    if (code == CL_PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && platform_count == 0))
        return hal_fail(HAL_ERROR_UNAVAILABLE, "opencl: no platforms: the loader found no driver (install one, such as "
                                               "pocl-opencl-icd; see /etc/OpenCL/vendors and OCL_ICD_VENDORS)");
    if (code != CL_SUCCESS)
        return hal_opencl_fail(code, "clGetPlatformIDs", "no platforms");
    for (cl_uint p = 0; p < platform_count && p < MAX_PLATFORMS; p++) {
        cl_device_id ids[MAX_DEVICES];
        cl_uint id_count = 0;
        if (cl->GetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, ids, &id_count) != CL_SUCCESS)
            continue; /* a platform without devices says CL_DEVICE_NOT_FOUND */
        for (cl_uint d = 0; d < id_count && d < MAX_DEVICES && *count < MAX_DEVICES; d++) {
            found_device *found = &devices[*count];
            char text[256];
            device_text(cl, ids[d], CL_DEVICE_VERSION, text, sizeof text);
            found->version = parse_version(text);
            if (found->version < 12 || !device_flag(cl, ids[d], CL_DEVICE_AVAILABLE) ||
                !device_flag(cl, ids[d], CL_DEVICE_COMPILER_AVAILABLE) ||
                !device_flag(cl, ids[d], CL_DEVICE_ENDIAN_LITTLE)) {
                refused++;
                continue;
            }
            found->platform = platforms[p];
            found->id = ids[d];
            platform_text(cl, platforms[p], CL_PLATFORM_VERSION, text, sizeof text);
            found->platform_version = parse_version(text);
            device_text(cl, ids[d], CL_DEVICE_EXTENSIONS, found->extensions, sizeof found->extensions);
            ++*count;
        }
    }
    if (*count == 0 && refused)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "opencl: no usable device: %u found, but each is below OpenCL 1.2, has no compiler, is "
                        "big-endian or is not available",
                        (unsigned)refused);
    if (*count == 0)
        return hal_fail(HAL_ERROR_UNAVAILABLE, "opencl: no devices on %u platform(s)", (unsigned)platform_count);
    return HAL_OK;
}

static void fill_identity(const opencl_driver *cl, const found_device *device, hal_device_info *info)
{
    char platform[64], version[64];
    device_text(cl, device->id, CL_DEVICE_NAME, info->name, sizeof info->name);
    platform_text(cl, device->platform, CL_PLATFORM_NAME, platform, sizeof platform);
    device_text(cl, device->id, CL_DRIVER_VERSION, version, sizeof version);
    snprintf(info->driver, sizeof info->driver, "%s %s", platform, version);
    if (has_extension(device, "cl_khr_device_uuid")) {
        cl_uchar uuid[CL_UUID_SIZE_KHR] = {0};
        device_value(cl, device->id, CL_DEVICE_UUID_KHR, uuid, sizeof uuid);
        for (size_t i = 0; i < sizeof uuid; i++)
            snprintf(info->uuid + 2 * i, 3, "%02x", uuid[i]);
    }
    if (has_extension(device, "cl_khr_pci_bus_info")) {
        cl_device_pci_bus_info_khr pci = {0};
        device_value(cl, device->id, CL_DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof pci);
        snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", pci.pci_domain & 0xffffu, pci.pci_bus & 0xffu,
                 pci.pci_device & 0xffu, pci.pci_function & 0xfu);
    }
}

static void fill_subgroups(const opencl_driver *cl, const found_device *device, hal_device_info *info)
{
    cl_uint width = 0, groups = 0;
    info->subgroup_size = info->subgroup_size_min = info->subgroup_size_max = 1;
    if (device->version >= 21)
        device_value(cl, device->id, CL_DEVICE_MAX_NUM_SUB_GROUPS, &groups, sizeof groups);
    info->subgroups = groups > 0 || has_extension(device, "cl_khr_subgroups");
    info->subgroup_shuffle = info->subgroups && (has_extension(device, "cl_khr_subgroup_shuffle") ||
                                                 has_extension(device, "cl_intel_subgroups"));
    if (has_extension(device, "cl_nv_device_attribute_query"))
        device_value(cl, device->id, 0x4003 /* CL_DEVICE_WARP_SIZE_NV */, &width, sizeof width);
    else if (has_extension(device, "cl_amd_device_attribute_query"))
        device_value(cl, device->id, 0x4043 /* CL_DEVICE_WAVEFRONT_WIDTH_AMD */, &width, sizeof width);
    if (width)
        info->subgroup_size = info->subgroup_size_min = info->subgroup_size_max = width;
    if (!has_extension(device, "cl_intel_required_subgroup_size"))
        return;
    size_t sizes[16], bytes = 0;
    if (cl->GetDeviceInfo(device->id, 0x4108 /* CL_DEVICE_SUB_GROUP_SIZES_INTEL */, sizeof sizes, sizes, &bytes) !=
            CL_SUCCESS ||
        bytes < sizeof sizes[0])
        return;
    info->subgroup_size_min = info->subgroup_size_max = (uint32_t)sizes[0];
    for (size_t i = 1; i < bytes / sizeof sizes[0]; i++) {
        uint32_t size = (uint32_t)sizes[i];
        info->subgroup_size_min = size < info->subgroup_size_min ? size : info->subgroup_size_min;
        info->subgroup_size_max = size > info->subgroup_size_max ? size : info->subgroup_size_max;
    }
    info->subgroup_size = info->subgroup_size_max;
}

static void fill_arithmetic(const opencl_driver *cl, const found_device *device, hal_device_info *info)
{
    cl_device_fp_config f16 = 0, f32 = 0, f64 = 0;
    info->fp16 = has_extension(device, "cl_khr_fp16");
    if (info->fp16)
        device_value(cl, device->id, CL_DEVICE_HALF_FP_CONFIG, &f16, sizeof f16);
    device_value(cl, device->id, CL_DEVICE_SINGLE_FP_CONFIG, &f32, sizeof f32);
    device_value(cl, device->id, CL_DEVICE_DOUBLE_FP_CONFIG, &f64, sizeof f64);
    info->fp64 = f64 != 0;
    info->int64 = true; /* part of the full profile; the embedded one names it */
    char profile[32];
    device_text(cl, device->id, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (strcmp(profile, "EMBEDDED_PROFILE") == 0)
        info->int64 = has_extension(device, "cles_khr_int64");
    info->subnormals_f32 = (f32 & CL_FP_DENORM) != 0;
    info->subnormals_f16 = (f16 & CL_FP_DENORM) != 0;
}

static void fill_limits(const opencl_driver *cl, const found_device *device, hal_device_info *info)
{
    cl_uint units = 1, base_align = 1024, address_bits = 64;
    cl_ulong memory = 0, largest = 0, local = 0;
    size_t group = 1, dims[3] = {1, 1, 1}, resolution = 1, parameters = 1024;
    device_value(cl, device->id, CL_DEVICE_MAX_COMPUTE_UNITS, &units, sizeof units);
    device_value(cl, device->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, &group, sizeof group);
    device_value(cl, device->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, dims, sizeof dims);
    device_value(cl, device->id, CL_DEVICE_LOCAL_MEM_SIZE, &local, sizeof local);
    device_value(cl, device->id, CL_DEVICE_GLOBAL_MEM_SIZE, &memory, sizeof memory);
    device_value(cl, device->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &largest, sizeof largest);
    device_value(cl, device->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &base_align, sizeof base_align);
    device_value(cl, device->id, CL_DEVICE_ADDRESS_BITS, &address_bits, sizeof address_bits);
    device_value(cl, device->id, CL_DEVICE_MAX_PARAMETER_SIZE, &parameters, sizeof parameters);
    device_value(cl, device->id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, &resolution, sizeof resolution);
    info->compute_units = units;
    info->max_group_size = (uint32_t)group;
    for (int i = 0; i < 3; i++) {
        info->max_group_dim[i] = (uint32_t)dims[i];
        /* The global size is a size_t of the device. */
        uint64_t most = address_bits < 64 ? UINT32_MAX / (dims[i] ? dims[i] : 1) : INT32_MAX;
        info->max_group_count[i] = most < INT32_MAX ? most : INT32_MAX;
    }
    info->max_shared_memory = local < UINT32_MAX ? (uint32_t)local : UINT32_MAX;
    uint64_t spans = (uint64_t)HAL_MAX_BINDINGS * 2 * sizeof(cl_ulong); /* OFFSET form: a pointer and an offset each */
    info->max_args = parameters >= spans + HAL_MAX_ARGS ? HAL_MAX_ARGS : (uint32_t)(parameters / 4 / 4 * 4);
    info->max_args = info->max_args < HAL_MAX_ARGS ? info->max_args : HAL_MAX_ARGS;
    info->span_alignment = base_align / 8 > 256 ? base_align / 8 : 256;
    info->memory_size = memory;
    info->max_buffer_size = largest;
    info->timestamps = true; /* profiling is part of 1.2 */
    info->timestamp_period_ns = resolution ? (double)resolution : 1.0;
}

static void fill_info(const opencl_driver *cl, const found_device *device, uint32_t index, hal_device_info *info)
{
    cl_device_type type = 0;
    memset(info, 0, sizeof *info);
    snprintf(info->backend, sizeof info->backend, "opencl");
    info->index = index;
    info->api_major = device->version / 10;
    info->api_minor = device->version % 10;
    fill_identity(cl, device, info);
    fill_subgroups(cl, device, info);
    fill_arithmetic(cl, device, info);
    fill_limits(cl, device, info);
    device_value(cl, device->id, CL_DEVICE_TYPE, &type, sizeof type);
    info->unified_memory = device_flag(cl, device->id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->type = type & CL_DEVICE_TYPE_CPU      ? HAL_DEVICE_CPU
                 : !(type & CL_DEVICE_TYPE_GPU) ? HAL_DEVICE_OTHER
                 : info->unified_memory         ? HAL_DEVICE_INTEGRATED
                                                : HAL_DEVICE_DISCRETE;
    /* Elsewhere CL_MEM_USE_HOST_PTR is a copy that the driver keeps in step, not an import. */
    info->import_host_memory = info->unified_memory;
    info->priorities = has_extension(device, "cl_khr_priority_hints") && device->version >= 20 &&
                       device->platform_version >= 20 && cl->CreateCommandQueueWithProperties;
}

/* Loaders and drivers start up at the first call, and not all of them are safe against two threads doing that. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static hal_status open_and_find(opencl_driver *cl, found_device *devices, uint32_t *count)
{
    pthread_mutex_lock(&start_lock);
    hal_status status = hal_opencl_driver_open(cl);
    if (status == HAL_OK) {
        status = find_devices(cl, devices, count);
        if (status != HAL_OK)
            hal_opencl_driver_close(cl);
    }
    pthread_mutex_unlock(&start_lock);
    return status;
}

hal_status hal_opencl_enumerate(hal_found_fn found, void *user)
{
    opencl_driver cl;
    uint32_t count = 0;
    found_device *devices = calloc(MAX_DEVICES, sizeof *devices);
    if (!devices)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: out of host memory while listing devices");
    hal_status status = open_and_find(&cl, devices, &count);
    bool opened = status == HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < count; i++) {
        hal_device_info info;
        fill_info(&cl, &devices[i], i, &info);
        found(user, &info);
    }
    free(devices);
    if (opened)
        hal_opencl_driver_close(&cl);
    return status;
}

/* The newest OpenCL C: 3.0 devices list all of them, and may name an older one in the plain version string. */
static uint32_t newest_c(const opencl_driver *cl, const found_device *device)
{
    char text[256];
    device_text(cl, device->id, CL_DEVICE_OPENCL_C_VERSION, text, sizeof text);
    uint32_t newest = parse_version(text);
    cl_name_version all[32];
    size_t bytes = 0;
    if (device->version >= 30 &&
        cl->GetDeviceInfo(device->id, CL_DEVICE_OPENCL_C_ALL_VERSIONS, sizeof all, all, &bytes) == CL_SUCCESS)
        for (size_t i = 0; i < bytes / sizeof all[0]; i++) {
            uint32_t version = CL_VERSION_MAJOR(all[i].version) * 10 + CL_VERSION_MINOR(all[i].version);
            newest = version > newest ? version : newest;
        }
    return newest ? newest : 12;
}

static hal_status open_found(hal_native_device *device, const found_device *found, const hal_device_info *info)
{
    const opencl_driver *cl = &device->cl;
    cl_int code;
    char platform[256], il[256] = "", identity[512];
    device->platform = found->platform;
    device->id = found->id;
    device->version = found->version;
    device->platform_version = found->platform_version;
    device->c_version = newest_c(cl, found);
    device->max_work_group_size = info->max_group_size;
    device->local_memory_size = info->max_shared_memory;
    device->memory_size = info->memory_size;
    device->priorities = info->priorities;
    cl_bool uneven = found->version >= 20; /* always there in 2.x, optional from 3.0 on */
    if (found->version >= 30)
        uneven = device_flag(cl, found->id, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT);
    device->uneven_groups = uneven != CL_FALSE && device->c_version >= 20;
    if (found->version >= 21 && cl->CreateProgramWithIL)
        device_text(cl, found->id, CL_DEVICE_IL_VERSION, il, sizeof il);
    device->spirv = strstr(il, "SPIR-V") != NULL;
    platform_text(cl, found->platform, CL_PLATFORM_VERSION, platform, sizeof platform);
    snprintf(identity, sizeof identity, "%s|%s|%s", info->name, info->driver, platform);
    device->cache_identity = hal_strdup(device->core, identity);
    if (!device->cache_identity)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: device_open: out of host memory");
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)found->platform, 0};
    device->context = cl->CreateContext(properties, 1, &found->id, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        device->context = NULL;
        return hal_opencl_fail(code, "clCreateContext", "on %s", info->name);
    }
    device->maps = cl->CreateCommandQueue(device->context, device->id, 0, &code);
    if (code != CL_SUCCESS) {
        device->maps = NULL;
        return hal_opencl_fail(code, "clCreateCommandQueue", "on %s", info->name);
    }
    return HAL_OK;
}

hal_status hal_opencl_device_open(uint32_t index, hal_core *core, hal_native_device **device, hal_device_info *info)
{
    uint32_t count = 0;
    found_device *found = NULL;
    hal_native_device *opened = hal_calloc(core, 1, sizeof *opened);
    *device = NULL;
    if (!opened)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: device_open: out of host memory");
    opened->core = core;
    atomic_init(&opened->next_id, 1);
    found = hal_calloc(core, MAX_DEVICES, sizeof *found);
    if (!found) {
        hal_free(opened);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "opencl: device_open: out of host memory");
    }
    hal_status status = open_and_find(&opened->cl, found, &count);
    if (status == HAL_OK && index >= count)
        status = hal_fail(HAL_ERROR_NOT_FOUND, "opencl: no device %u: there are %u", (unsigned)index, (unsigned)count);
    if (status != HAL_OK)
        goto fail;
    fill_info(&opened->cl, &found[index], index, info);
    status = open_found(opened, &found[index], info);
    if (status != HAL_OK)
        goto fail;
    hal_free(found);
    *device = opened;
    return HAL_OK;
fail:
    hal_free(found);
    hal_opencl_device_close(opened);
    return status;
}

void hal_opencl_device_close(hal_native_device *device)
{
    if (device->maps)
        device->cl.ReleaseCommandQueue(device->maps);
    if (device->context)
        device->cl.ReleaseContext(device->context);
    hal_opencl_driver_close(&device->cl);
    hal_free(device->cache_identity);
    hal_free(device);
}
