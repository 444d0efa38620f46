/* driver.c - load libOpenCL; name and translate its errors. */
#include "driver.h"

#include <dlfcn.h>
#include <stdarg.h>

/* Keep libOpenCL mapped once it has been loaded. It never unloads the drivers behind it, and each new start of it would
 * leak what it knew about them. */
static void pin(void *function)
{
    Dl_info info;
    void *again = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    if (again)
        dlclose(again);
}

hal_status hal_opencl_driver_open(opencl_driver *driver)
{
    const char *wanted = getenv("HAL_OPENCL_LIBRARY");
    const char *const given[] = {wanted, NULL};
    const char *const usual[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};
    memset(driver, 0, sizeof *driver);
    driver->library = hal_library_open(wanted && wanted[0] ? given : usual);
    if (!driver->library)
        return hal_fail_prefix(HAL_ERROR_UNAVAILABLE, "opencl: library not found (install an OpenCL ICD loader such as "
                                                      "ocl-icd-libopencl1, or set HAL_OPENCL_LIBRARY)");
    const char *missing = NULL;
#define OPENCL_OPTIONAL(name) driver->name = (__typeof__(driver->name))hal_library_symbol(driver->library, "cl" #name);
#define OPENCL_FUNCTION(name)                                                                                          \
    OPENCL_OPTIONAL(name)                                                                                              \
    if (!driver->name)                                                                                                 \
        missing = "cl" #name;
#include "driver.def"
#undef OPENCL_FUNCTION
#undef OPENCL_OPTIONAL
    if (missing) {
        hal_opencl_driver_close(driver);
        return hal_fail(HAL_ERROR_UNAVAILABLE, "opencl: library has no %s: OpenCL 1.2 or later is needed", missing);
    }
    pin((void *)driver->GetPlatformIDs);
    return HAL_OK;
}

void hal_opencl_driver_close(opencl_driver *driver)
{
    if (driver->library)
        hal_library_close(driver->library);
    memset(driver, 0, sizeof *driver);
}

static const struct {
    cl_int code;
    const char *name;
} error_names[] = {
#define NAME(code)                                                                                                     \
    {                                                                                                                  \
        code, #code                                                                                                    \
    }
    NAME(CL_DEVICE_NOT_FOUND),
    NAME(CL_DEVICE_NOT_AVAILABLE),
    NAME(CL_COMPILER_NOT_AVAILABLE),
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    NAME(CL_OUT_OF_RESOURCES),
    NAME(CL_OUT_OF_HOST_MEMORY),
    NAME(CL_PROFILING_INFO_NOT_AVAILABLE),
    NAME(CL_MEM_COPY_OVERLAP),
    NAME(CL_BUILD_PROGRAM_FAILURE),
    NAME(CL_MAP_FAILURE),
    NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    NAME(CL_INVALID_VALUE),
    NAME(CL_INVALID_DEVICE),
    NAME(CL_INVALID_CONTEXT),
    NAME(CL_INVALID_QUEUE_PROPERTIES),
    NAME(CL_INVALID_COMMAND_QUEUE),
    NAME(CL_INVALID_HOST_PTR),
    NAME(CL_INVALID_MEM_OBJECT),
    NAME(CL_INVALID_BINARY),
    NAME(CL_INVALID_BUILD_OPTIONS),
    NAME(CL_INVALID_PROGRAM),
    NAME(CL_INVALID_PROGRAM_EXECUTABLE),
    NAME(CL_INVALID_KERNEL_NAME),
    NAME(CL_INVALID_KERNEL),
    NAME(CL_INVALID_ARG_INDEX),
    NAME(CL_INVALID_ARG_VALUE),
    NAME(CL_INVALID_ARG_SIZE),
    NAME(CL_INVALID_KERNEL_ARGS),
    NAME(CL_INVALID_WORK_DIMENSION),
    NAME(CL_INVALID_WORK_GROUP_SIZE),
    NAME(CL_INVALID_WORK_ITEM_SIZE),
    NAME(CL_INVALID_GLOBAL_OFFSET),
    NAME(CL_INVALID_EVENT_WAIT_LIST),
    NAME(CL_INVALID_EVENT),
    NAME(CL_INVALID_OPERATION),
    NAME(CL_INVALID_BUFFER_SIZE),
    NAME(CL_INVALID_GLOBAL_WORK_SIZE),
    NAME(CL_INVALID_SPEC_ID),
    NAME(CL_PLATFORM_NOT_FOUND_KHR),
#undef NAME
};

const char *hal_opencl_error_name(cl_int code)
{
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (error_names[i].code == code)
            return error_names[i].name;
    return "unknown OpenCL error";
}

hal_status hal_opencl_status(cl_int code)
{
    switch (code) {
    case CL_SUCCESS:
        return HAL_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE: /* above CL_DEVICE_MAX_MEM_ALLOC_SIZE: hal/ has refused size 0 */
        return HAL_ERROR_OUT_OF_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE: /* what a queue becomes after a fault on some GPUs */
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
        return HAL_ERROR_DEVICE_LOST;
    case CL_BUILD_PROGRAM_FAILURE:
    case CL_INVALID_BUILD_OPTIONS:
        return HAL_ERROR_COMPILE;
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
    case CL_INVALID_GLOBAL_WORK_SIZE:
        return HAL_ERROR_LIMIT;
    case CL_INVALID_KERNEL_NAME:
        return HAL_ERROR_NOT_FOUND;
    case CL_PLATFORM_NOT_FOUND_KHR:
    case CL_DEVICE_NOT_FOUND:
    case CL_COMPILER_NOT_AVAILABLE:
        return HAL_ERROR_UNAVAILABLE;
    default:
        return HAL_ERROR_BACKEND;
    }
}

hal_status hal_opencl_fail(cl_int code, const char *call, const char *detail, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(text, sizeof text, detail, arguments);
    va_end(arguments);
    return hal_fail(hal_opencl_status(code), "opencl: %s: %s (%d): %s", call, hal_opencl_error_name(code), (int)code,
                    text);
}
