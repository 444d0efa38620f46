/* registry.c - see registry.h. */
#include "registry.h"

#ifdef HAL_HAVE_CUDA
#define CUDA &hal_backend_cuda
#else
#define CUDA NULL
#endif
#ifdef HAL_HAVE_VULKAN
#define VULKAN &hal_backend_vulkan
#else
#define VULKAN NULL
#endif
#ifdef HAL_HAVE_OPENCL
#define OPENCL &hal_backend_opencl
#else
#define OPENCL NULL
#endif

const hal_registry_entry hal_registry[HAL_REGISTRY_COUNT] = {
    {"cuda", CUDA},
    {"vulkan", VULKAN},
    {"opencl", OPENCL},
};
