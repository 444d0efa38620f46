/* driver.c - finding and loading libcuda, and what its result codes mean. */
#include "driver.h"

#include <stdarg.h>

hal_status cuda_status(nv_result result)
{
    switch (result) {
    case NV_SUCCESS:
        return HAL_OK;
    case NV_ERROR_NOT_READY:
        return HAL_TIMEOUT;
    case NV_ERROR_OUT_OF_MEMORY:
        return HAL_ERROR_OUT_OF_MEMORY;
    case NV_ERROR_NOT_FOUND:
        return HAL_ERROR_NOT_FOUND;
    case NV_ERROR_LAUNCH_OUT_OF_RESOURCES:
        return HAL_ERROR_LIMIT;
    case NV_ERROR_NOT_SUPPORTED:
        return HAL_ERROR_UNSUPPORTED;
    case NV_ERROR_NOT_INITIALIZED: /* what a child of fork gets */
        return HAL_ERROR_INVALID_STATE;
    case NV_ERROR_STUB_LIBRARY:
    case NV_ERROR_DEVICE_UNAVAILABLE:
    case NV_ERROR_NO_DEVICE:
    case NV_ERROR_INVALID_DEVICE:
    case NV_ERROR_SYSTEM_NOT_READY:
    case NV_ERROR_SYSTEM_DRIVER_MISMATCH:
        return HAL_ERROR_UNAVAILABLE;
    case NV_ERROR_INVALID_IMAGE:
    case NV_ERROR_NO_BINARY_FOR_GPU:
    case NV_ERROR_INVALID_PTX:
    case NV_ERROR_JIT_COMPILER_NOT_FOUND:
    case NV_ERROR_UNSUPPORTED_PTX_VERSION:
    case NV_ERROR_JIT_COMPILATION_DISABLED:
    case NV_ERROR_INVALID_SOURCE:
        return HAL_ERROR_COMPILE;
    /* After these the context is of no more use: every later call in it gives the same result. */
    case NV_ERROR_DEINITIALIZED:
    case NV_ERROR_ECC_UNCORRECTABLE:
    case NV_ERROR_NVLINK_UNCORRECTABLE:
    case NV_ERROR_CONTAINED:
    case NV_ERROR_ILLEGAL_ADDRESS:
    case NV_ERROR_LAUNCH_TIMEOUT:
    case NV_ERROR_CONTEXT_IS_DESTROYED:
    case NV_ERROR_ASSERT:
    case NV_ERROR_HARDWARE_STACK_ERROR:
    case NV_ERROR_ILLEGAL_INSTRUCTION:
    case NV_ERROR_MISALIGNED_ADDRESS:
    case NV_ERROR_INVALID_ADDRESS_SPACE:
    case NV_ERROR_INVALID_PC:
    case NV_ERROR_LAUNCH_FAILED:
    case NV_ERROR_TENSOR_MEMORY_LEAK:
    case NV_ERROR_MPS_CLIENT_TERMINATED:
    case NV_ERROR_EXTERNAL_DEVICE:
        return HAL_ERROR_DEVICE_LOST;
    default:
        return HAL_ERROR_BACKEND;
    }
}

hal_status cuda_fail(const cuda_driver *driver, nv_result result, const char *call, ...)
{
    char what[256];
    va_list args;
    va_start(args, call);
    vsnprintf(what, sizeof what, call, args);
    va_end(args);

    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(result, &name) != NV_SUCCESS || !name)
        name = "an unknown error";
    if (driver->cuGetErrorString(result, &text) != NV_SUCCESS || !text)
        text = "the driver has no text for it";
    return hal_fail(cuda_status(result), "cuda: %s: %s (%d): %s", what, name, (int)result, text);
}

/* The name of the first entry point that the library lacks; NULL if it has all. */
static const char *resolve(cuda_driver *driver)
{
    const char *missing = NULL;
#define NV_OPTIONAL(name, params) *(void **)&driver->name = hal_library_symbol(driver->library, #name);
#define NV_FUNCTION(name, params)                                                                                      \
    NV_OPTIONAL(name, params)                                                                                          \
    if (!driver->name && !missing)                                                                                     \
        missing = #name;
#include "driver.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
    return missing;
}

static hal_status check_version(const cuda_driver *driver, const char *path, const char *missing)
{
    if (driver->version < CUDA_MINIMUM_DRIVER)
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "cuda: %s: the driver supports CUDA %d.%d, libhal needs 12.0: update the NVIDIA driver to 525 "
                        "or newer",
                        path, driver->version / 1000, driver->version % 1000 / 10);
    if (missing)
        return hal_fail(HAL_ERROR_UNAVAILABLE, "cuda: %s has no %s: it is not a complete NVIDIA driver; reinstall it",
                        path, missing);
    return HAL_OK;
}

static hal_status initialise(const cuda_driver *driver, const char *path)
{
    nv_result result = driver->cuInit(0);
    switch (result) {
    case NV_SUCCESS:
        return HAL_OK;
    case NV_ERROR_NO_DEVICE:
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "cuda: cuInit: the driver is installed, but there is no CUDA device: see nvidia-smi and "
                        "CUDA_VISIBLE_DEVICES; a container must be given the GPU");
    case NV_ERROR_STUB_LIBRARY:
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "cuda: cuInit: %s is the toolkit's link-time stub, not a driver: take its folder out of "
                        "LD_LIBRARY_PATH",
                        path);
    case NV_ERROR_NOT_INITIALIZED:
        return hal_fail(HAL_ERROR_UNAVAILABLE,
                        "cuda: cuInit: CUDA_ERROR_NOT_INITIALIZED: CUDA cannot be used in a child of fork once the "
                        "parent used it; call exec, or open devices after fork only");
    default:
        cuda_fail(driver, result, "cuInit");
        return hal_fail_prefix(HAL_ERROR_UNAVAILABLE,
                               "the driver could not start (reload the NVIDIA kernel module or restart; see dmesg)");
    }
}

hal_status cuda_driver_load(cuda_driver *driver)
{
    const char *named = getenv("HAL_CUDA_LIBRARY");
    const char *path = named && *named ? named : "libcuda.so.1";
    const char *const names[] = {path, NULL};

    memset(driver, 0, sizeof *driver);
    driver->library = hal_library_open(names);
    if (!driver->library)
        return hal_fail_prefix(HAL_ERROR_UNAVAILABLE, "cuda: the driver library was not found; install the NVIDIA "
                                                      "driver, or name its libcuda.so.1 in HAL_CUDA_LIBRARY");
    const char *missing = resolve(driver);
    hal_status status = HAL_OK;
    if (!driver->cuDriverGetVersion || driver->cuDriverGetVersion(&driver->version) != NV_SUCCESS)
        status = hal_fail(HAL_ERROR_UNAVAILABLE, "cuda: %s does not tell its version: it is no CUDA driver", path);
    if (status == HAL_OK)
        status = check_version(driver, path, missing);
    if (status != HAL_OK) {
        hal_library_close(driver->library);
        return status;
    }
    return initialise(driver, path);
}
