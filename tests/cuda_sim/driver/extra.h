/* extra.h - the part of the CUDA driver's ABI that the stand-in has and the backend does not use yet. Checked against
 * cuda.h by backend/abi_check.c. */
#ifndef DRV_EXTRA_H
#define DRV_EXTRA_H

#include "../../../backends/cuda/driver.h"

typedef uint32_t nv_u32;
typedef uint64_t nv_u64;

enum { NV_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720, NV_ERROR_NOT_PERMITTED = 800, NV_ERROR_INVALID_CLUSTER_SIZE = 912 };

typedef enum nv_query { NV_QUERY_FOUND, NV_QUERY_NOT_FOUND, NV_QUERY_VERSION } nv_query;

/* nv_device_attribute has those that the backend asks for. */
enum {
    NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
    NV_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
    NV_ATTRIBUTE_MAX_PITCH = 11,
    NV_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
    NV_ATTRIBUTE_CLOCK_RATE = 13,
    NV_ATTRIBUTE_GPU_OVERLAP = 15,
    NV_ATTRIBUTE_KERNEL_EXEC_TIMEOUT = 17,
    NV_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    NV_ATTRIBUTE_COMPUTE_MODE = 20,
    NV_ATTRIBUTE_CONCURRENT_KERNELS = 31,
    NV_ATTRIBUTE_ECC_ENABLED = 32,
    NV_ATTRIBUTE_PCI_BUS_ID = 33,
    NV_ATTRIBUTE_PCI_DEVICE_ID = 34,
    NV_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
    NV_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
    NV_ATTRIBUTE_L2_CACHE_SIZE = 38,
    NV_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    NV_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    NV_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    NV_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    NV_ATTRIBUTE_MANAGED_MEMORY = 83,
    NV_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
    NV_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    NV_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
    NV_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
    NV_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    NV_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    NV_ATTRIBUTE_CLUSTER_LAUNCH = 120,
    NV_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
    NV_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
    NV_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED = 127
};

/* nv_function_attribute has those that the backend uses. */
enum {
    NV_FUNCTION_CONST_SIZE_BYTES = 2,
    NV_FUNCTION_LOCAL_SIZE_BYTES = 3,
    NV_FUNCTION_NUM_REGS = 4,
    NV_FUNCTION_PTX_VERSION = 5,
    NV_FUNCTION_BINARY_VERSION = 6,
    NV_FUNCTION_CACHE_MODE_CA = 7,
    NV_FUNCTION_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    NV_FUNCTION_CLUSTER_SIZE_MUST_BE_SET = 10,
    NV_FUNCTION_REQUIRED_CLUSTER_WIDTH = 11,
    NV_FUNCTION_REQUIRED_CLUSTER_HEIGHT = 12,
    NV_FUNCTION_REQUIRED_CLUSTER_DEPTH = 13,
    NV_FUNCTION_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
    NV_FUNCTION_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15
};

enum {
    NV_EVENT_BLOCKING_SYNC = 1,
    NV_WAIT_VALUE_GEQ = 0,
    NV_WAIT_VALUE_EQ = 1,
    NV_WAIT_VALUE_AND = 2,
    NV_WAIT_VALUE_NOR = 3,
    NV_WAIT_VALUE_FLUSH = 1 << 30,
    NV_WRITE_VALUE_NO_MEMORY_BARRIER = 1
};

typedef void (*nv_host_function)(void *data);
typedef struct nv_host_node {
    nv_host_function fn;
    void *data;
} nv_host_node;

typedef enum nv_launch_attribute_id {
    NV_LAUNCH_IGNORE = 0,
    NV_LAUNCH_COOPERATIVE = 2,
    NV_LAUNCH_CLUSTER_DIMENSION = 4,
    NV_LAUNCH_CLUSTER_SCHEDULING_POLICY = 5,
    NV_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
    NV_LAUNCH_PRIORITY = 8,
    NV_LAUNCH_MEM_SYNC_DOMAIN_MAP = 9,
    NV_LAUNCH_MEM_SYNC_DOMAIN = 10
} nv_launch_attribute_id;
typedef union nv_launch_value {
    char pad[64];
    int cooperative, programmatic;
    unsigned int cluster[3];
} nv_launch_value;
typedef struct nv_launch_attribute {
    nv_launch_attribute_id id;
    char pad[8 - sizeof(nv_launch_attribute_id)];
    nv_launch_value value;
} nv_launch_attribute;
typedef struct nv_launch_config {
    unsigned int grid[3], block[3], shared_bytes;
    nv_stream stream;
    nv_launch_attribute *attributes;
    unsigned int attribute_count;
} nv_launch_config;

typedef struct nv_tensor_map {
    uint64_t opaque[16];
} nv_tensor_map;
typedef enum nv_tensor_type {
    NV_TENSOR_U8,
    NV_TENSOR_U16,
    NV_TENSOR_U32,
    NV_TENSOR_S32,
    NV_TENSOR_U64,
    NV_TENSOR_S64,
    NV_TENSOR_F16,
    NV_TENSOR_F32,
    NV_TENSOR_F64,
    NV_TENSOR_BF16,
    NV_TENSOR_F32_FTZ,
    NV_TENSOR_TF32,
    NV_TENSOR_TF32_FTZ
} nv_tensor_type;
typedef enum nv_tensor_interleave { NV_TENSOR_INTERLEAVE_NONE } nv_tensor_interleave;
typedef enum nv_tensor_swizzle {
    NV_TENSOR_SWIZZLE_NONE,
    NV_TENSOR_SWIZZLE_32B,
    NV_TENSOR_SWIZZLE_64B,
    NV_TENSOR_SWIZZLE_128B
} nv_tensor_swizzle;
typedef enum nv_tensor_promotion { NV_TENSOR_PROMOTION_NONE, NV_TENSOR_PROMOTION_256B = 3 } nv_tensor_promotion;
typedef enum nv_tensor_fill { NV_TENSOR_FILL_ZERO, NV_TENSOR_FILL_NAN } nv_tensor_fill;

#endif
