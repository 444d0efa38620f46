/* mma.cuh - what the tensor-core kernels for FP16 and BF16 are made of: cp.async, ldmatrix, mma.sync. sm_80 and up. */
#ifndef HAL_MMA_CUH
#define HAL_MMA_CUH

#include "numerics.cuh"

__device__ __forceinline__ uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* Copies `bytes` (at most 16) and fills up to 16 with zeros. */
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most PENDING of this thread's groups are on their way. */
template <int PENDING> __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

template <bool TRANSPOSE> __device__ __forceinline__ void load_matrices(uint32_t (&value)[4], uint32_t address)
{
    if (TRANSPOSE)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                     : "r"(address)
                     : "memory");
}

#define HAL_MMA(format)                                                                                                \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." format "." format ".f32 "                                             \
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                              \
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])                                                       \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

__device__ __forceinline__ void multiply(F16, float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b)
{
    HAL_MMA("f16");
}
__device__ __forceinline__ void multiply(BF16, float (&sum)[4], const uint32_t (&a)[4], const uint32_t *b)
{
    HAL_MMA("bf16");
}
#undef HAL_MMA

#endif
