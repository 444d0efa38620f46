/* abi_check.c - holds driver.h against the toolkit's cuda.h: values, sizes and offsets when compiled, and when run with
 * the path of a libcuda (the toolkit's link-time stub will do) that it exports every name of driver.def. */
#include "../../../backends/cuda/driver.h"

#include <cuda.h>
#include <dlfcn.h>

#define SAME(a, b)         _Static_assert((long long)(a) == (long long)(b), #a)
#define SIZE(ours, theirs) SAME(sizeof(ours), sizeof(theirs))
/* NOLINTBEGIN(bugprone-sizeof-expression) of pointers, on purpose */
#define FIELD(ours, field, theirs, their_field)                                                                        \
    SAME(offsetof(ours, field), offsetof(theirs, their_field));                                                        \
    SAME(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->their_field))

SIZE(nv_device, CUdevice);
SIZE(nv_ptr, CUdeviceptr);
SIZE(nv_uuid, CUuuid);
SIZE(nv_result, CUresult);
SIZE(nv_device_attribute, CUdevice_attribute);
SIZE(nv_function_attribute, CUfunction_attribute);
SIZE(nv_jit_option, CUjit_option);
SIZE(nv_memory_type, CUmemorytype);

#define ERROR(name) SAME(NV_ERROR_##name, CUDA_ERROR_##name)
SAME(NV_SUCCESS, CUDA_SUCCESS);
ERROR(INVALID_VALUE);
ERROR(OUT_OF_MEMORY);
ERROR(NOT_INITIALIZED);
ERROR(DEINITIALIZED);
ERROR(STUB_LIBRARY);
ERROR(DEVICE_UNAVAILABLE);
ERROR(NO_DEVICE);
ERROR(INVALID_DEVICE);
ERROR(INVALID_IMAGE);
ERROR(INVALID_CONTEXT);
ERROR(NO_BINARY_FOR_GPU);
ERROR(ECC_UNCORRECTABLE);
ERROR(INVALID_PTX);
ERROR(NVLINK_UNCORRECTABLE);
ERROR(JIT_COMPILER_NOT_FOUND);
ERROR(UNSUPPORTED_PTX_VERSION);
ERROR(JIT_COMPILATION_DISABLED);
ERROR(INVALID_SOURCE);
ERROR(INVALID_HANDLE);
ERROR(NOT_FOUND);
ERROR(NOT_READY);
ERROR(ILLEGAL_ADDRESS);
ERROR(LAUNCH_OUT_OF_RESOURCES);
ERROR(LAUNCH_TIMEOUT);
ERROR(CONTEXT_IS_DESTROYED);
ERROR(ASSERT);
ERROR(HOST_MEMORY_ALREADY_REGISTERED);
ERROR(HOST_MEMORY_NOT_REGISTERED);
ERROR(HARDWARE_STACK_ERROR);
ERROR(ILLEGAL_INSTRUCTION);
ERROR(MISALIGNED_ADDRESS);
ERROR(INVALID_ADDRESS_SPACE);
ERROR(INVALID_PC);
ERROR(LAUNCH_FAILED);
ERROR(NOT_SUPPORTED);
ERROR(SYSTEM_NOT_READY);
ERROR(SYSTEM_DRIVER_MISMATCH);
ERROR(MPS_CLIENT_TERMINATED);
ERROR(EXTERNAL_DEVICE);
ERROR(UNKNOWN);
#if CUDA_VERSION >= 12080
ERROR(CONTAINED);
#endif
#if CUDA_VERSION >= 13000
ERROR(TENSOR_MEMORY_LEAK);
#endif

#define ATTRIBUTE(name) SAME(NV_ATTRIBUTE_##name, CU_DEVICE_ATTRIBUTE_##name)
ATTRIBUTE(MAX_THREADS_PER_BLOCK);
ATTRIBUTE(MAX_BLOCK_DIM_X);
ATTRIBUTE(MAX_BLOCK_DIM_Y);
ATTRIBUTE(MAX_BLOCK_DIM_Z);
ATTRIBUTE(MAX_GRID_DIM_X);
ATTRIBUTE(MAX_GRID_DIM_Y);
ATTRIBUTE(MAX_GRID_DIM_Z);
ATTRIBUTE(WARP_SIZE);
ATTRIBUTE(MULTIPROCESSOR_COUNT);
ATTRIBUTE(INTEGRATED);
ATTRIBUTE(UNIFIED_ADDRESSING);
ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED);
ATTRIBUTE(CONCURRENT_MANAGED_ACCESS);
ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
ATTRIBUTE(HOST_REGISTER_SUPPORTED);

SAME(NV_FUNCTION_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(NV_FUNCTION_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(NV_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME(NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(NV_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(NV_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(NV_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(NV_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(NV_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_GLOBAL);
SAME(NV_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(NV_EVENT_DEFAULT, CU_EVENT_DEFAULT);
SAME(NV_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(NV_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED);

#define KERNEL(field, theirs) FIELD(nv_kernel_node, field, CUDA_KERNEL_NODE_PARAMS_v2, theirs)
SIZE(nv_kernel_node, CUDA_KERNEL_NODE_PARAMS_v2);
KERNEL(func, func);
SAME(offsetof(nv_kernel_node, grid), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX));
SAME(offsetof(nv_kernel_node, block), offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX));
KERNEL(shared_bytes, sharedMemBytes);
KERNEL(params, kernelParams);
KERNEL(extra, extra);
KERNEL(kern, kern);
KERNEL(context, ctx);

#define FILL(field, theirs) FIELD(nv_memset_node, field, CUDA_MEMSET_NODE_PARAMS, theirs)
SIZE(nv_memset_node, CUDA_MEMSET_NODE_PARAMS);
FILL(dst, dst);
FILL(pitch, pitch);
FILL(value, value);
FILL(element_size, elementSize);
FILL(width, width);
FILL(height, height);

#define COPY(field, theirs) FIELD(nv_memcpy3d, field, CUDA_MEMCPY3D, theirs)
SIZE(nv_memcpy3d, CUDA_MEMCPY3D);
COPY(src_x, srcXInBytes);
COPY(src_y, srcY);
COPY(src_z, srcZ);
COPY(src_lod, srcLOD);
COPY(src_type, srcMemoryType);
COPY(src_host, srcHost);
COPY(src_device, srcDevice);
COPY(src_array, srcArray);
COPY(reserved0, reserved0);
COPY(src_pitch, srcPitch);
COPY(src_height, srcHeight);
COPY(dst_x, dstXInBytes);
COPY(dst_y, dstY);
COPY(dst_z, dstZ);
COPY(dst_lod, dstLOD);
COPY(dst_type, dstMemoryType);
COPY(dst_host, dstHost);
COPY(dst_device, dstDevice);
COPY(dst_array, dstArray);
COPY(reserved1, reserved1);
COPY(dst_pitch, dstPitch);
COPY(dst_height, dstHeight);
COPY(width, WidthInBytes);
COPY(height, Height);
COPY(depth, Depth);

/* NOLINTEND(bugprone-sizeof-expression) */

int main(int argc, char **argv)
{
    static const char *const names[] = {
#define NV_FUNCTION(name, params) #name,
#define NV_OPTIONAL(name, params) #name,
#include "../../../backends/cuda/driver.def"
    };
    int missing = 0;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "usage: abi_check LIBCUDA; %s\n", argc > 1 ? dlerror() : "no library given");
        return 2;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!dlsym(library, names[i])) {
            fprintf(stderr, "%s exports no %s\n", argv[1], names[i]);
            missing++;
        }
    }
    printf("%zu names, %d missing\n", sizeof names / sizeof names[0], missing);
    return missing != 0;
}
