/* device.c - the stand-in driver's start, the names of its errors, and its devices. */
#include "drv.h"

enum { FIRST_BUS = 0x41 };

nv_result cuInit(unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_NOTHING);
    if (flags != 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuInit with flags"));
    if (drv_set.broken)
        return drv_leave(NV_ERROR_INVALID_VALUE);
    if (drv_set.devices == 0)
        return drv_leave(NV_ERROR_NO_DEVICE);
    return drv_leave(drv_start());
}

nv_result cuDriverGetVersion(int *version)
{
    DRV_ENTER(DRV_NEEDS_NOTHING);
    *version = drv_set.version;
    return drv_leave(NV_SUCCESS);
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

static const struct {
    int result;
    const char *name, *text;
} errors[] = {
    {NV_SUCCESS, "CUDA_SUCCESS", "no error"},
    {NV_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {NV_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NV_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NV_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {NV_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {NV_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {NV_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NV_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the device"},
    {NV_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {NV_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NV_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported PTX version"},
    {NV_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NV_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NV_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {NV_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NV_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {NV_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {NV_ERROR_ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "already registered"},
    {NV_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not registered"},
    {NV_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {NV_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {NV_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NV_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NV_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {NV_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {NV_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *error_text(nv_result result, bool name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == (int)result)
            return name ? errors[i].name : errors[i].text;
    return NULL;
}

nv_result cuGetErrorName(nv_result error, const char **name)
{
    *name = error_text(error, true);
    return *name ? NV_SUCCESS : NV_ERROR_INVALID_VALUE;
}

nv_result cuGetErrorString(nv_result error, const char **text)
{
    *text = error_text(error, false);
    return *text ? NV_SUCCESS : NV_ERROR_INVALID_VALUE;
}

/* -- devices ------------------------------------------------------------------------------------------------------- */

nv_result cuDeviceGetCount(int *count)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *count = drv_set.devices;
    return drv_leave(NV_SUCCESS);
}

nv_result cuDeviceGet(nv_device *device, int ordinal)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *device = ordinal;
    return drv_leave(drv_check_device(ordinal));
}

nv_result cuDeviceGetName(char *name, int size, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    snprintf(name, (size_t)size, "%s", drv_set.profile->device);
    return drv_leave(drv_check_device(device));
}

nv_result cuDeviceGetUuid_v2(nv_uuid *uuid, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    memset(uuid, 0xfa, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return drv_leave(drv_check_device(device));
}

nv_result cuDeviceGetPCIBusId(char *text, int size, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    snprintf(text, (size_t)size, "0000:%02X:00.0", FIRST_BUS + device);
    return drv_leave(drv_check_device(device));
}

nv_result cuDeviceTotalMem_v2(size_t *bytes, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *bytes = drv_set.memory;
    return drv_leave(drv_check_device(device));
}

/* Those that differ between profiles, then those that do not. -1: not known. */
static int profile_value(int attribute, int device)
{
    const drv_profile *p = drv_set.profile;
    switch (attribute) {
    case NV_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return p->major;
    case NV_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return p->minor;
    case NV_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return p->multiprocessors;
    case NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return p->shared_optin;
    case NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return p->shared_per_sm;
    case NV_ATTRIBUTE_L2_CACHE_SIZE:
        return p->l2_bytes;
    case NV_ATTRIBUTE_CLOCK_RATE:
        return p->clock_khz;
    case NV_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return p->memory_khz;
    case NV_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return p->bus_bits;
    case NV_ATTRIBUTE_CLUSTER_LAUNCH:
    case NV_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
        return p->clusters;
    case NV_ATTRIBUTE_PCI_BUS_ID:
        return FIRST_BUS + device;
    default:
        return -1;
    }
}

static int common_value(int attribute)
{
    static const struct {
        int attribute, value;
    } values[] = {
        {NV_ATTRIBUTE_MAX_THREADS_PER_BLOCK, DRV_MAX_THREADS},
        {NV_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {NV_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {NV_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {NV_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
        {NV_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {NV_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, DRV_SHARED_DEFAULT},
        {NV_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
        {NV_ATTRIBUTE_WARP_SIZE, 32},
        {NV_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
        {NV_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, DRV_REGISTERS},
        {NV_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, DRV_REGISTERS},
        {NV_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, DRV_THREADS_PER_SM},
        {NV_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, DRV_BLOCKS_PER_SM},
        {NV_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, DRV_SHARED_RESERVED},
        {NV_ATTRIBUTE_GPU_OVERLAP, 1},
        {NV_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
        {NV_ATTRIBUTE_INTEGRATED, 0},
        {NV_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {NV_ATTRIBUTE_COMPUTE_MODE, 0},
        {NV_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {NV_ATTRIBUTE_ECC_ENABLED, 1},
        {NV_ATTRIBUTE_PCI_DEVICE_ID, 0},
        {NV_ATTRIBUTE_PCI_DOMAIN_ID, 0},
        {NV_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
        {NV_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {NV_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {NV_ATTRIBUTE_MANAGED_MEMORY, 1},
        {NV_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0},
        {NV_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
        {NV_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
        {NV_ATTRIBUTE_COOPERATIVE_LAUNCH, 0},
        {NV_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
        {NV_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
        {NV_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
        {NV_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i].attribute == attribute)
            return values[i].value;
    return -1;
}

nv_result cuDeviceGetAttribute(int *value, nv_device_attribute attribute, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *value = profile_value((int)attribute, device);
    if (*value < 0)
        *value = common_value((int)attribute);
    if (*value < 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "device attribute %d is not known here", (int)attribute));
    return drv_leave(drv_check_device(device));
}
