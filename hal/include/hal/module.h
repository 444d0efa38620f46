/* hal/module.h - programs: the user's own, and the built-in library.
 *
 * Kernel ABI, the same in all languages: the bound spans in order, then one struct of 4-byte scalars.
 *
 *                OpenCL C                            GLSL / SPIR-V                          CUDA
 *  PLAIN   span  global T *p                         set 0, binding i, storage buffer       T *p
 *          args  by-value struct, last argument      push constants                         by-value struct, last
 *  OFFSET  span  global T *p, ulong byte_offset      64-bit address, i-th of a block        T *p
 *          args  by-value struct, last argument      after the addresses in that block      by-value struct, last
 *
 * PLAIN is the natural form; its spans start at a multiple of hal_device_info.span_alignment (relative to the buffer).
 * OFFSET takes any multiple of the element size: the OpenCL kernel adds byte_offset itself, and the Vulkan kernel gets
 * one push constant, the 8-byte address of a read-only block { uint64_t span[binding_count]; args }.
 * A binding with a view (below) is on Vulkan a uniform texel buffer at set 0, binding i, in either form; elsewhere it
 * is what the form says.
 *
 * Group size: OpenCL and CUDA take hal_kernel_desc.group. A SPIR-V module either has that size fixed, or takes it from
 * specialisation constants 100, 101, 102 (x, y, z), which libhal always sets.
 *
 * Constants are -D NAME=VALUE for OpenCL C, GLSL and CUDA C source, and specialisation constants by id for SPIR-V. A
 * PTX or cubin module exports one entry a variant, named ENTRY__V0_V1_... with the constants' values in order.
 */
#ifndef HAL_MODULE_H
#define HAL_MODULE_H

#include <hal/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_module_desc {
    size_t struct_size;
    const char *label;
    const char *opencl_c;     /* OpenCL C source */
    const void *opencl_spirv; /* kernel SPIR-V, used where the device takes it and there is no source */
    size_t opencl_spirv_size;
    const void *spirv; /* Vulkan SPIR-V */
    size_t spirv_size;
    const char *glsl;     /* Vulkan GLSL compute source, compiled with shaderc where it is installed */
    const char *cuda_ptx; /* PTX text */
    const void *cuda_cubin;
    size_t cuda_cubin_size;
    const char *cuda_c;  /* CUDA C++ source, compiled with NVRTC where it is installed */
    const char *options; /* further options for the source compilers, e.g. "-cl-fast-relaxed-math" */
} hal_module_desc;
#define HAL_MODULE(...) HAL_DESC(hal_module_desc, __VA_ARGS__)

/* Give the variants you have; the device takes the one that fits. HAL_ERROR_UNSUPPORTED names what it would need. The
 * sources are copied. Source may be compiled here or at hal_kernel_create; a compile log is in hal_last_error(). */
HAL_API hal_status hal_module_create(hal_device *device, const hal_module_desc *desc, hal_module **module);
HAL_API void hal_module_destroy(hal_module *module);

typedef enum hal_abi { HAL_ABI_PLAIN = 0, HAL_ABI_OFFSET = 1 } hal_abi;

/* A span that Vulkan reads through a typed, formatted view (VkBufferView). Other backends ignore it. */
typedef enum hal_view {
    HAL_VIEW_NONE = 0,
    HAL_VIEW_R32F,
    HAL_VIEW_RGBA32F,
    HAL_VIEW_R32UI,
    HAL_VIEW_RGBA32UI,
    HAL_VIEW_R16UI,
    HAL_VIEW_RGBA16UI
} hal_view;

typedef struct hal_constant {
    const char *name; /* -D name */
    uint32_t id;      /* specialisation constant id */
    uint32_t value;
} hal_constant;

typedef struct hal_kernel_desc {
    size_t struct_size;
    const char *label;                     /* NULL: the entry's name */
    hal_access bindings[HAL_MAX_BINDINGS]; /* how each span is used: hazards are derived from this */
    hal_view views[HAL_MAX_BINDINGS];
    uint32_t binding_count;
    uint32_t args_size; /* bytes, a multiple of 4, at most hal_device_info.max_args or (HAL_ABI_OFFSET) HAL_MAX_ARGS */
    uint32_t group[3];  /* work-items; 0 counts as 1 */
    const hal_constant *constants;
    uint32_t constant_count;
    hal_abi abi;
    bool splittable;         /* the last 12 bytes of args are uint32_t group_base[3], to be added to the group id:
                                libhal splits grids that exceed the device's limits and fills it in */
    uint32_t dynamic_shared; /* CUDA: bytes of dynamic shared memory */
} hal_kernel_desc;
#define HAL_KERNEL(...) HAL_DESC(hal_kernel_desc, __VA_ARGS__)

/* Compiles if need be (a driver may still defer part of it to the first launch). Kernels are immutable and may be used
 * by any thread. */
HAL_API hal_status hal_kernel_create(hal_module *module, const char *entry, const hal_kernel_desc *desc,
                                     hal_kernel **kernel);
/* A kernel of the built-in library by name. HAL_ERROR_NOT_FOUND for an unknown name, HAL_ERROR_UNAVAILABLE where this
 * build has no variant for the device (the message says why). For libhal's own operators: names, constants and
 * arguments are not stable. */
HAL_API hal_status hal_kernel_create_builtin(hal_device *device, const char *name, const hal_kernel_desc *desc,
                                             hal_kernel **kernel);
HAL_API void hal_kernel_destroy(hal_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
