/* wgmma.cuh - what kernels for asynchronous matrix units are made of: mbarriers, wgmma and its view of shared memory.
 * sm_90a only: PTX of this kind is for no other chip, older or newer. */
#ifndef HAL_WGMMA_CUH
#define HAL_WGMMA_CUH

#include "mma.cuh"

/* --- mbarriers, by their addresses in shared memory --- */

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Until the phase of this parity is over. */
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@!over bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* What this thread has written, or knows of, is there for wgmma, which reads through the async proxy. */
__device__ __forceinline__ void fence_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* --- registers of a warpgroup: a multiple of 8 --- */

template <int COUNT> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

/* --- wgmma --- */

__device__ __forceinline__ void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most PENDING of this warp's groups are at work. */
template <int PENDING> __device__ __forceinline__ void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* An operand in shared memory, in lines of 128 bytes whose 16-byte chunks are permuted by an exclusive or with the
 * line; eight lines follow each other. DEEP: a line is 64 of k of one row, else 64 rows at one k, and `leading` bytes
 * lead to the next 64 rows (PTX ISA, "Matrix Descriptor Format"). */
template <bool DEEP> __device__ __forceinline__ uint64_t wgmma_operand(uint32_t address, uint32_t leading)
{
    const uint64_t eight_lines = 1024 >> 4, permuted_128 = 1;
    return (address & 0x3ffff) >> 4 | (uint64_t)(DEEP ? 1 : leading >> 4) << 16 | eight_lines << 32 |
           permuted_128 << 62;
}

#define WGMMA_SUM(j)     "+f"(sum[0][j][0]), "+f"(sum[0][j][1]), "+f"(sum[0][j][2]), "+f"(sum[0][j][3])
#define WGMMA_SUMS_4(j)  WGMMA_SUM(j), WGMMA_SUM(j + 1), WGMMA_SUM(j + 2), WGMMA_SUM(j + 3)
#define WGMMA_SUMS_16(j) WGMMA_SUMS_4(j), WGMMA_SUMS_4(j + 4), WGMMA_SUMS_4(j + 8), WGMMA_SUMS_4(j + 12)
#define WGMMA_REGISTERS_64                                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGISTERS_128                                                                                            \
    WGMMA_REGISTERS_64                                                                                                 \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                               \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                                 \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                     \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/* sum = (accumulate ? sum : 0) + a b, 64 rows, COLUMNS columns, 16 of k. The sums of a thread lie as those of
 * m16n8k16, a block of eight columns after the other. */
#define WGMMA(columns, format, registers, a_at, b_at, on_at, tr_a_at, tr_b_at, sums)                                   \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred accumulate;\n"                                                                            \
                 "setp.ne.b32 accumulate, " on_at ", 0;\n"                                                             \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." format "." format " {" registers "}, " a_at    \
                 ", " b_at ", accumulate, 1, 1, " tr_a_at ", " tr_b_at ";\n"                                           \
                 "}"                                                                                                   \
                 : sums                                                                                                \
                 : "l"(a), "l"(b), "r"(accumulate), "n"(!DEEP_A), "n"(!DEEP_B))
#define WGMMA_COLUMNS(type, format)                                                                                    \
    template <bool DEEP_A, bool DEEP_B>                                                                                \
    __device__ __forceinline__ void wgmma(type, float(&sum)[1][16][4], uint64_t a, uint64_t b, int accumulate)         \
    {                                                                                                                  \
        WGMMA("128", format, WGMMA_REGISTERS_64, "%64", "%65", "%66", "%67", "%68", WGMMA_SUMS_16(0));                 \
    }                                                                                                                  \
    template <bool DEEP_A, bool DEEP_B>                                                                                \
    __device__ __forceinline__ void wgmma(type, float(&sum)[1][32][4], uint64_t a, uint64_t b, int accumulate)         \
    {                                                                                                                  \
        WGMMA("256", format, WGMMA_REGISTERS_128, "%128", "%129", "%130", "%131", "%132",                              \
              WGMMA_BOTH(WGMMA_SUMS_16(0), WGMMA_SUMS_16(16)));                                                        \
    }
#define WGMMA_BOTH(x, y) x, y
WGMMA_COLUMNS(F16, "f16")
WGMMA_COLUMNS(BF16, "bf16")

#endif
