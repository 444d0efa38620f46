/* gemm_async.cuh - the GEMM for FP16 and BF16 on asynchronous matrix units: cp.async, mbarriers and wgmma, sm_90a.
 *
 * A group makes a 128 x TILE_N tile. Warpgroup 0 produces: it fills a ring of STAGES slices of A and B, as MmaSlice
 * does for gemm_mma, so that any address, leading dimension and size is right. Warpgroups 1 and 2 consume: each lets
 * the matrix units multiply 64 rows from shared memory while it waits, and then finishes them as gemm_mma does. A
 * stage has two mbarriers: full, at which the producer's warps arrive, and empty, at which the consumers' do.
 *
 * The copies are written through the generic proxy and read through the async one: the producer waits for its copies
 * of the slice before the last, fences, and only then says that the slice is there. One slice is always on its way
 * meanwhile.
 *
 * ptxas 13.0 for sm_90a: 168 registers at the launch, no spill and no stack in any entry, no wgmma serialised; 193 KiB
 * of shared memory, one group a multiprocessor. No GPU has run it yet. */
#ifndef HAL_GEMM_ASYNC_CUH
#define HAL_GEMM_ASYNC_CUH

#include "gemm_mma.cuh"
#include "wgmma.cuh"

#define ASYNC_GROUP   128 /* threads of a warpgroup */
#define ASYNC_THREADS (3 * ASYNC_GROUP)
/* Registers of a thread: at the launch, and then of a producer's and of a consumer's. */
#define ASYNC_LAUNCHED 168
#define ASYNC_PRODUCER 88
#define ASYNC_CONSUMER 208
static_assert(ASYNC_PRODUCER + 2 * ASYNC_CONSUMER <= 3 * ASYNC_LAUNCHED, "or a consumer waits for ever");

/* Where the producer or a consumer is. */
template <uint32_t STAGE_BYTES, uint32_t STAGES> struct AsyncRing {
    uint32_t base, stage, parity;

    __device__ __forceinline__ AsyncRing(uint32_t base_) : base(base_), stage(0), parity(0) {}
    __device__ __forceinline__ uint32_t data() const { return base + stage * STAGE_BYTES; }
    __device__ __forceinline__ uint32_t full() const { return base + STAGES * STAGE_BYTES + stage * 8; }
    __device__ __forceinline__ uint32_t empty() const { return full() + STAGES * 8; }
    __device__ __forceinline__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

template <class SLICE_A, class SLICE_B, class RING>
__device__ __forceinline__ void async_produce(RING ring, SLICE_A a, SLICE_B b, uint32_t k, uint32_t slices)
{
    uint32_t copied = 0;
#pragma unroll 1
    for (uint32_t s = 0; s <= slices; s++) {
        const uint32_t full = ring.full();
        if (s < slices) {
            barrier_wait(ring.empty(), ring.parity ^ 1);
            a.fetch(ring.data(), k - s * 64);
            b.fetch(ring.data() + SLICE_A::BYTES, k - s * 64);
            ring.advance();
        }
        copy_async_commit(); /* empty at the end, so that the count below stays right */
        if (s > 0) {
            copy_async_wait<1>();
            fence_async();
            __syncwarp();
            if (threadIdx.x % 32 == 0)
                barrier_arrive(copied);
        }
        copied = full;
    }
}

/* A slice's stage is handed back when the products behind its own have been issued and its own are done. */
template <class TYPE, bool TRANS_A, bool TRANS_B, class RING, int BLOCKS>
__device__ __forceinline__ void async_consume(RING ring, float (&sum)[1][BLOCKS][4], uint32_t bytes_a, uint32_t slices)
{
    const uint32_t line = 128, block = 64 * line; /* 64 rows by 64 of k */
    const uint32_t next_a = TRANS_A ? 16 * line : 32, next_b = TRANS_B ? 32 : 16 * line;
    const uint32_t half = (threadIdx.x / ASYNC_GROUP - 1) * block;
    const bool speaks = threadIdx.x % 32 == 0;
    uint32_t previous = 0;
#pragma unroll 1
    for (uint32_t s = 0; s < slices; s++) {
        barrier_wait(ring.full(), ring.parity);
        wgmma_fence();
#pragma unroll
        for (uint32_t step = 0; step < 4; step++)
            wgmma<!TRANS_A, TRANS_B>(TYPE(), sum, wgmma_operand<!TRANS_A>(ring.data() + half + step * next_a, block),
                                     wgmma_operand<TRANS_B>(ring.data() + bytes_a + step * next_b, block), s | step);
        wgmma_commit();
        wgmma_wait<1>();
        if (s > 0 && speaks)
            barrier_arrive(previous);
        previous = ring.empty();
        ring.advance();
    }
    wgmma_wait<0>();
}

template <class TYPE, bool TRANS_A, bool TRANS_B, int TILE_N, int STAGES>
__device__ __forceinline__ void gemm_async(GEMM_PARAMETERS)
{
    const int TILE_M = 128, TILE_K = 64;
    typedef MmaSlice<!TRANS_A, TILE_M, TILE_K, ASYNC_GROUP, true> SliceA;
    typedef MmaSlice<TRANS_B, TILE_N, TILE_K, ASYNC_GROUP, true> SliceB;
    typedef AsyncRing<SliceA::BYTES + SliceB::BYTES, STAGES> Ring;
    static_assert(STAGES * (SliceA::BYTES + SliceB::BYTES) >= 8 * 16 * TILE_N * sizeof(float),
                  "the epilogue's rows fit");
    extern __shared__ uint8_t async_shared[];

    const uint32_t start = shared_address(async_shared),
                   skipped = -start & 1023; /* the permutation counts from 1 KiB */
    const Ring ring(start + skipped);
    const GemmPlace place = gemm_place(args, TILE_M, TILE_N);
    const uint32_t slices = (args.k + TILE_K - 1) / TILE_K;
    if (threadIdx.x < STAGES) {
        barrier_init(ring.full() + threadIdx.x * 8, ASYNC_GROUP / 32);
        barrier_init(ring.empty() + threadIdx.x * 8, 2 * ASYNC_GROUP / 32);
    }
    __syncthreads();
    if (threadIdx.x < ASYNC_GROUP) {
        give_registers<ASYNC_PRODUCER>();
        async_produce(
            ring,
            SliceA(gemm_operand<uint16_t>(a, args.stride_a, place.problem), HAL_JOIN64(args.lda), place.row, args.m),
            SliceB(gemm_operand<uint16_t>(b, args.stride_b, place.problem), HAL_JOIN64(args.ldb), place.column, args.n),
            args.k, slices);
        return;
    }
    take_registers<ASYNC_CONSUMER>();
    float sum[1][TILE_N / 8][4];
    async_consume<TYPE, TRANS_A, TRANS_B>(ring, sum, SliceA::BYTES, slices);
    asm volatile("bar.sync 1, 256;" ::: "memory"); /* both are done with the ring: the epilogue uses it */
    const GemmOutput output(args, c, d, bias, residual, place.problem);
    const uint32_t warp = threadIdx.x / 32 - ASYNC_GROUP / 32;
    mma_finish<16, TILE_N>(output, sum, (float *)(async_shared + skipped) + warp * 16 * TILE_N, place.row + warp * 16,
                           place.column);
}

#endif
