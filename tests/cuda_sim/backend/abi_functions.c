/* abi_functions.c - declares the functions of driver.def and of the stand-in's extra.def again, in cuda.h's own types:
 * a parameter that differs does not compile. */
#include <cuda.h>

#define nv_result                 CUresult
#define nv_device                 CUdevice
#define nv_ptr                    CUdeviceptr
#define nv_uuid                   CUuuid
#define nv_context                CUcontext
#define nv_module                 CUmodule
#define nv_function               CUfunction
#define nv_stream                 CUstream
#define nv_event                  CUevent
#define nv_graph                  CUgraph
#define nv_node                   CUgraphNode
#define nv_graph_exec             CUgraphExec
#define nv_device_attribute       CUdevice_attribute
#define nv_function_attribute     CUfunction_attribute
#define nv_jit_option             CUjit_option
#define nv_kernel_node            CUDA_KERNEL_NODE_PARAMS
#define nv_memset_node            CUDA_MEMSET_NODE_PARAMS
#define nv_u32                    cuuint32_t
#define nv_u64                    cuuint64_t
#define nv_query                  CUdriverProcAddressQueryResult
#define nv_host_function          CUhostFn
#define nv_host_node              CUDA_HOST_NODE_PARAMS
#define nv_launch_config          CUlaunchConfig
#define nv_launch_attribute_id    CUlaunchAttributeID
#define nv_launch_value           CUlaunchAttributeValue
#define nv_tensor_map             CUtensorMap
#define nv_tensor_type            CUtensorMapDataType
#define nv_tensor_interleave      CUtensorMapInterleave
#define nv_tensor_swizzle         CUtensorMapSwizzle
#define nv_tensor_promotion       CUtensorMapL2promotion
#define nv_tensor_fill            CUtensorMapFloatOOBfill
#define nv_memcpy3d               CUDA_MEMCPY3D

#define NV_FUNCTION(name, params) CUresult CUDAAPI name params; /* NOLINT(bugprone-macro-parentheses) */
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
#include "../driver/extra.def"
