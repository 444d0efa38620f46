/* driver.h - libOpenCL's functions, loaded at run time, and what its error codes mean. */
#ifndef HAL_OPENCL_DRIVER_H
#define HAL_OPENCL_DRIVER_H

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue, for devices before 2.0 */
#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "backend.h"

typedef struct opencl_driver {
    void *library;
#define OPENCL_FUNCTION(name) __typeof__(cl##name) *(name);
#define OPENCL_OPTIONAL(name) OPENCL_FUNCTION(name)
#include "driver.def"
#undef OPENCL_FUNCTION
#undef OPENCL_OPTIONAL
} opencl_driver;

/* Load $HAL_OPENCL_LIBRARY, else the system's libOpenCL. HAL_ERROR_UNAVAILABLE with the reason. */
hal_status hal_opencl_driver_open(opencl_driver *driver);
void hal_opencl_driver_close(opencl_driver *driver);

/* "CL_OUT_OF_RESOURCES", or "unknown OpenCL error". */
const char *hal_opencl_error_name(cl_int code);
/* The status that an OpenCL error code stands for. */
hal_status hal_opencl_status(cl_int code);
/* Set the last error to "opencl: call: CL_NAME (code): detail" and return the status. */
hal_status hal_opencl_fail(cl_int code, const char *call, const char *detail, ...)
    __attribute__((format(printf, 3, 4)));

#endif
