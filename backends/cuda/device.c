/* device.c - devices: what there is, what they can do, the primary context. */
#include "cuda_backend.h"

static int attribute(const cuda_driver *driver, nv_device_attribute which, nv_device device, nv_result *result)
{
    int value = 0;
    nv_result asked = driver->cuDeviceGetAttribute(&value, which, device);
    if (asked != NV_SUCCESS)
        *result = asked;
    return value;
}

static void fill_limits(const cuda_driver *driver, nv_device device, hal_device_info *info, nv_result *result)
{
    info->compute_units = (uint32_t)attribute(driver, NV_ATTRIBUTE_MULTIPROCESSOR_COUNT, device, result);
    info->subgroup_size = (uint32_t)attribute(driver, NV_ATTRIBUTE_WARP_SIZE, device, result);
    info->subgroup_size_min = info->subgroup_size_max = info->subgroup_size;
    info->max_group_size = (uint32_t)attribute(driver, NV_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device, result);
    for (int i = 0; i < 3; i++) {
        nv_device_attribute block = (nv_device_attribute)(NV_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        nv_device_attribute grid = (nv_device_attribute)(NV_ATTRIBUTE_MAX_GRID_DIM_X + i);
        info->max_group_dim[i] = (uint32_t)attribute(driver, block, device, result);
        info->max_group_count[i] = (uint64_t)attribute(driver, grid, device, result);
    }
    info->max_shared_memory =
        (uint32_t)attribute(driver, NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device, result);
    info->max_args = HAL_MAX_ARGS;
    info->span_alignment = 256;
    info->view_alignment = 1;
}

static void fill_features(const cuda_driver *driver, nv_device device, hal_device_info *info, nv_result *result)
{
    int major = attribute(driver, NV_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device, result);
    int minor = attribute(driver, NV_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device, result);
    info->compute_capability = (uint32_t)(major * 10 + minor);
    info->unified_memory = attribute(driver, NV_ATTRIBUTE_INTEGRATED, device, result) != 0;
    info->type = info->unified_memory ? HAL_DEVICE_INTEGRATED : HAL_DEVICE_DISCRETE;
    info->import_host_memory = attribute(driver, NV_ATTRIBUTE_HOST_REGISTER_SUPPORTED, device, result) != 0;
    info->priorities = attribute(driver, NV_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, device, result) != 0;
    info->fp16 = info->compute_capability >= 53;
    info->bf16 = info->compute_capability >= 80;
    info->fp8 = info->compute_capability >= 89;
    info->matrix_units = info->compute_capability >= 70;
    info->async_matrix = info->compute_capability == 90; /* what sm_90a has, and no later architecture */
    info->fp64 = info->int64 = true;
    info->subgroups = info->subgroup_shuffle = true;
    info->subnormals_f32 = info->subnormals_f16 = true;
    info->timestamps = true;
    info->timestamp_period_ns = 500; /* the documented resolution of events */
    info->native_replay = true;
}

static nv_result fill_identity(const cuda_driver *driver, nv_device device, hal_device_info *info)
{
    nv_uuid uuid;
    size_t bytes = 0;
    nv_result result = driver->cuDeviceGetName(info->name, sizeof info->name, device);
    if (result == NV_SUCCESS)
        result = driver->cuDeviceGetUuid_v2(&uuid, device);
    if (result == NV_SUCCESS)
        result = driver->cuDeviceGetPCIBusId(info->pci, sizeof info->pci, device);
    if (result == NV_SUCCESS)
        result = driver->cuDeviceTotalMem_v2(&bytes, device);
    if (result != NV_SUCCESS)
        return result;
    for (size_t i = 0; i < sizeof uuid.bytes; i++)
        snprintf(info->uuid + 2 * i, 3, "%02x", (unsigned char)uuid.bytes[i]);
    info->memory_size = info->max_buffer_size = bytes;
    info->api_major = (uint32_t)(driver->version / 1000);
    info->api_minor = (uint32_t)(driver->version % 1000 / 10);
    snprintf(info->driver, sizeof info->driver, "NVIDIA driver for CUDA %u.%u", info->api_major, info->api_minor);
    return NV_SUCCESS;
}

static hal_status fill_info(const cuda_driver *driver, uint32_t index, nv_device *device, hal_device_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->backend, sizeof info->backend, "cuda");
    info->index = index;
    nv_result result = driver->cuDeviceGet(device, (int)index);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuDeviceGet(%u)", index);
    result = fill_identity(driver, *device, info);
    fill_limits(driver, *device, info, &result);
    fill_features(driver, *device, info, &result);
    if (result == NV_SUCCESS && !attribute(driver, NV_ATTRIBUTE_UNIFIED_ADDRESSING, *device, &result))
        return hal_fail(HAL_ERROR_UNSUPPORTED, "cuda: device %u (%s) has no unified addressing", index, info->name);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "asking device %u for its properties", index);
    return HAL_OK;
}

static hal_status count_devices(const cuda_driver *driver, uint32_t *count)
{
    int devices = 0;
    nv_result result = driver->cuDeviceGetCount(&devices);
    if (result != NV_SUCCESS)
        return cuda_fail(driver, result, "cuDeviceGetCount");
    if (devices < 1)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "cuda: cuDeviceGetCount: the driver is installed, but there is no CUDA device: see nvidia-smi "
                        "and CUDA_VISIBLE_DEVICES; a container must be given the GPU");
    *count = (uint32_t)devices;
    return HAL_OK;
}

static hal_status enumerate(hal_found_fn found, void *user)
{
    cuda_driver driver;
    uint32_t count = 0;
    hal_status status = cuda_driver_load(&driver);
    if (status == HAL_OK)
        status = count_devices(&driver, &count);
    for (uint32_t i = 0; i < count && status == HAL_OK; i++) {
        nv_device device;
        hal_device_info info;
        status = fill_info(&driver, i, &device, &info);
        if (status == HAL_OK)
            found(user, &info);
    }
    return status;
}

hal_status cuda_enter(hal_native_device *device, bool *pushed)
{
    nv_context current = NULL;
    *pushed = false;
    nv_result result = device->driver.cuCtxGetCurrent(&current);
    if (result == NV_SUCCESS && current == device->context)
        return HAL_OK;
    if (result == NV_SUCCESS)
        result = device->driver.cuCtxPushCurrent_v2(device->context);
    if (result != NV_SUCCESS)
        return cuda_fail(&device->driver, result, "cuCtxPushCurrent_v2");
    *pushed = true;
    return HAL_OK;
}

void cuda_leave(hal_native_device *device, bool pushed)
{
    nv_context popped;
    if (pushed)
        cuda_check_destroy(device, device->driver.cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent_v2");
}

void cuda_check_destroy(hal_native_device *device, nv_result result, const char *call)
{
    /* On a lost device, or while the process exits, this is expected. */
    hal_log_level level = cuda_status(result) == HAL_ERROR_DEVICE_LOST ? HAL_LOG_DEBUG : HAL_LOG_WARNING;
    if (result != NV_SUCCESS)
        hal_log(device->core, level, "cuda: %s failed with %d", call, (int)result);
}

static hal_status open_context(hal_native_device *device, const hal_device_info *info)
{
    bool pushed;
    nv_result result = device->driver.cuDevicePrimaryCtxRetain(&device->context, device->handle);
    if (result != NV_SUCCESS) {
        device->context = NULL;
        return cuda_fail(&device->driver, result, "cuDevicePrimaryCtxRetain(device %u, %s)", info->index, info->name);
    }
    hal_status status = cuda_enter(device, &pushed);
    if (status == HAL_OK) {
        result = device->driver.cuCtxGetStreamPriorityRange(&device->priority_least, &device->priority_greatest);
        if (result != NV_SUCCESS)
            status = cuda_fail(&device->driver, result, "cuCtxGetStreamPriorityRange");
    }
    cuda_leave(device, pushed);
    return status;
}

static void device_close(hal_native_device *device)
{
    if (!device)
        return;
    cuda_nvrtc_free(device->nvrtc);
    if (device->context)
        cuda_check_destroy(device, device->driver.cuDevicePrimaryCtxRelease_v2(device->handle),
                           "cuDevicePrimaryCtxRelease_v2");
    pthread_mutex_destroy(&device->lock);
    hal_free(device);
}

static hal_status device_open(uint32_t index, hal_core *core, hal_native_device **out, hal_device_info *info)
{
    uint32_t count = 0;
    nv_result result = NV_SUCCESS;
    hal_native_device *device = hal_calloc(core, 1, sizeof *device);
    *out = NULL;
    if (!device)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a device");
    device->core = core;
    pthread_mutex_init(&device->lock, NULL);

    hal_status status = cuda_driver_load(&device->driver);
    if (status == HAL_OK)
        status = count_devices(&device->driver, &count);
    if (status == HAL_OK && index >= count)
        status = hal_fail(HAL_ERROR_NOT_FOUND, "cuda: there is no device %u; the driver has %u", index, count);
    if (status == HAL_OK)
        status = fill_info(&device->driver, index, &device->handle, info);
    if (status == HAL_OK)
        status = open_context(device, info);
    if (status != HAL_OK) {
        device_close(device);
        return status;
    }
    device->compute_capability = info->compute_capability;
    device->max_shared = info->max_shared_memory;
    device->managed = attribute(&device->driver, NV_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device->handle, &result) != 0;
    info->priorities = info->priorities && device->priority_least != device->priority_greatest;
    snprintf(device->key, sizeof device->key, "cuda driver %d sm_%u", device->driver.version, info->compute_capability);
    *out = device;
    return HAL_OK;
}

const hal_backend hal_backend_cuda = {
    .name = "cuda",
    .enumerate = enumerate,
    .device_open = device_open,
    .device_close = device_close,
    .ordered = true,
    .constants_in_names = true,
    .memory_create = cuda_memory_create,
    .memory_destroy = cuda_memory_destroy,
    .memory_map = cuda_memory_map,
    .memory_unmap = cuda_memory_unmap,
    .module_create = cuda_module_create,
    .module_destroy = cuda_module_destroy,
    .kernel_create = cuda_kernel_create,
    .kernel_destroy = cuda_kernel_destroy,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_execute = cuda_stream_execute,
    .stream_mark = cuda_stream_mark,
    .stream_completed = cuda_stream_completed,
    .stream_wait = cuda_stream_wait,
    .stream_wait_point = cuda_stream_wait_point,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_elapsed = cuda_event_elapsed,
    .list_create = cuda_list_create,
    .list_destroy = cuda_list_destroy,
    .list_submit = cuda_list_submit,
    .list_builds = cuda_list_builds,
};
