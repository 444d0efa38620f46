/* abi_functions.c - declares the functions of driver.def again, in cuda.h's own types: a parameter that differs does
 * not compile. */
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
#define nv_memcpy3d               CUDA_MEMCPY3D

#define NV_FUNCTION(name, params) CUresult CUDAAPI name params; /* NOLINT(bugprone-macro-parentheses) */
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
