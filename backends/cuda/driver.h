/* driver.h - the part of the CUDA driver's ABI that the backend uses, declared here so that building needs no toolkit.
 * tests/cuda_sim/backend/abi_check.c compares it with cuda.h where there is one. */
#ifndef HAL_CUDA_DRIVER_H
#define HAL_CUDA_DRIVER_H

#include "core.h"

#define CUDA_MINIMUM_DRIVER 12000

typedef int nv_device;
typedef unsigned long long nv_ptr;
typedef struct CUctx_st *nv_context;
typedef struct CUmod_st *nv_module;
typedef struct CUfunc_st *nv_function;
typedef struct CUkern_st *nv_kernel;
typedef struct CUarray_st *nv_array;
typedef struct CUstream_st *nv_stream;
typedef struct CUevent_st *nv_event;
typedef struct CUgraph_st *nv_graph;
typedef struct CUgraphNode_st *nv_node;
typedef struct CUgraphExec_st *nv_graph_exec;
typedef struct nv_uuid {
    char bytes[16];
} nv_uuid;

typedef enum nv_result {
    NV_SUCCESS = 0,
    NV_ERROR_INVALID_VALUE = 1,
    NV_ERROR_OUT_OF_MEMORY = 2,
    NV_ERROR_NOT_INITIALIZED = 3,
    NV_ERROR_DEINITIALIZED = 4,
    NV_ERROR_STUB_LIBRARY = 34,
    NV_ERROR_DEVICE_UNAVAILABLE = 46,
    NV_ERROR_NO_DEVICE = 100,
    NV_ERROR_INVALID_DEVICE = 101,
    NV_ERROR_INVALID_IMAGE = 200,
    NV_ERROR_INVALID_CONTEXT = 201,
    NV_ERROR_NO_BINARY_FOR_GPU = 209,
    NV_ERROR_ECC_UNCORRECTABLE = 214,
    NV_ERROR_INVALID_PTX = 218,
    NV_ERROR_NVLINK_UNCORRECTABLE = 220,
    NV_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    NV_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    NV_ERROR_JIT_COMPILATION_DISABLED = 223,
    NV_ERROR_CONTAINED = 226,
    NV_ERROR_INVALID_SOURCE = 300,
    NV_ERROR_INVALID_HANDLE = 400,
    NV_ERROR_NOT_FOUND = 500,
    NV_ERROR_NOT_READY = 600,
    NV_ERROR_ILLEGAL_ADDRESS = 700,
    NV_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
    NV_ERROR_LAUNCH_TIMEOUT = 702,
    NV_ERROR_CONTEXT_IS_DESTROYED = 709,
    NV_ERROR_ASSERT = 710,
    NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    NV_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    NV_ERROR_HARDWARE_STACK_ERROR = 714,
    NV_ERROR_ILLEGAL_INSTRUCTION = 715,
    NV_ERROR_MISALIGNED_ADDRESS = 716,
    NV_ERROR_INVALID_ADDRESS_SPACE = 717,
    NV_ERROR_INVALID_PC = 718,
    NV_ERROR_LAUNCH_FAILED = 719,
    NV_ERROR_TENSOR_MEMORY_LEAK = 721,
    NV_ERROR_NOT_SUPPORTED = 801,
    NV_ERROR_SYSTEM_NOT_READY = 802,
    NV_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    NV_ERROR_MPS_CLIENT_TERMINATED = 810,
    NV_ERROR_EXTERNAL_DEVICE = 911,
    NV_ERROR_UNKNOWN = 999
} nv_result;

typedef enum nv_device_attribute {
    NV_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    NV_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
    NV_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
    NV_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
    NV_ATTRIBUTE_MAX_GRID_DIM_X = 5,
    NV_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
    NV_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
    NV_ATTRIBUTE_WARP_SIZE = 10,
    NV_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    NV_ATTRIBUTE_INTEGRATED = 18,
    NV_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    NV_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    NV_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    NV_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
    NV_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
    NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    NV_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99
} nv_device_attribute;

typedef enum nv_function_attribute {
    NV_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    NV_FUNCTION_SHARED_SIZE_BYTES = 1,
    NV_FUNCTION_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
} nv_function_attribute;

typedef enum nv_jit_option { NV_JIT_ERROR_LOG_BUFFER = 5, NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 } nv_jit_option;

enum {
    NV_MEMHOSTALLOC_PORTABLE = 1,
    NV_MEMHOSTALLOC_DEVICEMAP = 2,
    NV_MEMHOSTREGISTER_PORTABLE = 1,
    NV_MEMHOSTREGISTER_DEVICEMAP = 2,
    NV_MEM_ATTACH_GLOBAL = 1,
    NV_STREAM_NON_BLOCKING = 1,
    NV_EVENT_DEFAULT = 0,
    NV_EVENT_DISABLE_TIMING = 2
};

typedef enum nv_memory_type { NV_MEMORYTYPE_UNIFIED = 4 } nv_memory_type;

typedef struct nv_kernel_node {
    nv_function func;
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared_bytes;
    void **params;
    void **extra;
    nv_kernel kern;
    nv_context context;
} nv_kernel_node;

typedef struct nv_memset_node {
    nv_ptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int element_size;
    size_t width;
    size_t height;
} nv_memset_node;

typedef struct nv_memcpy3d {
    size_t src_x, src_y, src_z, src_lod;
    nv_memory_type src_type;
    const void *src_host;
    nv_ptr src_device;
    nv_array src_array;
    void *reserved0;
    size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod;
    nv_memory_type dst_type;
    void *dst_host;
    nv_ptr dst_device;
    nv_array dst_array;
    void *reserved1;
    size_t dst_pitch, dst_height;
    size_t width, height, depth;
} nv_memcpy3d;

/* The loaded driver: one member per row of driver.def. */
typedef struct cuda_driver {
    void *library;
    int version;                                                      /* 12040 for 12.4 */
#define NV_FUNCTION(name, params) __typeof__(nv_result params) *name; /* NOLINT(bugprone-macro-parentheses) */
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "driver.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
} cuda_driver;

/* Load libcuda.so.1 (or $HAL_CUDA_LIBRARY), check its version and initialise it. A loaded driver stays loaded: it keeps
 * threads and exit handlers, and loading again is cheap. */
hal_status cuda_driver_load(cuda_driver *driver);

/* The status that stands for a driver result. */
hal_status cuda_status(nv_result result);
/* Set the last error to "cuda: CALL: NAME (code): text" and return cuda_status(result). */
hal_status cuda_fail(const cuda_driver *driver, nv_result result, const char *call, ...)
    __attribute__((format(printf, 3, 4)));

#endif
