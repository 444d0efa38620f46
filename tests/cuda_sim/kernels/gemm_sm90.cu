/* gemm_sm90.cu - a GEMM as Hopper wants it, for the tests of the stand-in alone: C[M,N] = A[M,K] * B[N,K]^T in BF16
 * with FP32 sums. It uses in one kernel what a GPU does not check: TMA, mbarriers, wgmma, two proxies, clusters.
 *
 * Warpgroup 0 produces: one thread lets TMA fill a ring of STAGES slices of A and B. Warpgroups 1 and 2 consume: each
 * multiplies 64 rows, converts, and lets TMA store its 64 x 128 part of C while it goes on with the next tile. All
 * boxes are 64 x 64 elements with 128-byte swizzle. In gemm_sm90_pair two blocks share a tile column: each loads half
 * of B for both. M, N and K need not be multiples of anything here: TMA fills and clips (K and N are multiples of 8 for
 * it). */
#include <cstdint>
#include <cuda_bf16.h>

struct alignas(128) TensorMap {
    unsigned char bytes[128];
};

struct Shape {
    int rows, columns; /* in tiles; rows: in pairs of them for gemm_sm90_pair */
    int slices;        /* of K */
};

namespace
{

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64, STAGES = 3, CONSUMERS = 2, GROUP = 128;
constexpr int THREADS = GROUP * (1 + CONSUMERS);
constexpr uint32_t ROW = 128, BOX = 64 * ROW; /* bytes */
constexpr uint32_t A_BYTES = TILE_M * ROW, STAGE_BYTES = A_BYTES + TILE_N * ROW;
constexpr uint32_t OUTPUT = STAGES * STAGE_BYTES, OUTPUT_BYTES = 2 * BOX; /* of one consumer */
constexpr uint32_t BARRIERS = OUTPUT + CONSUMERS * OUTPUT_BYTES;

__device__ uint32_t shared_address(const void *pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/* --- mbarriers --- */
__device__ void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

__device__ void barrier_wait(uint32_t barrier, uint32_t phase)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}

/* --- TMA --- */
__device__ void load_box(uint32_t to, const TensorMap *map, uint32_t barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}

__device__ void load_box_for_both(uint32_t to, const TensorMap *map, uint32_t barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(static_cast<uint16_t>(3))
                 : "memory");
}

__device__ void store_box(const TensorMap *map, uint32_t from, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y)
                 : "memory");
}

__device__ void prefetch_map(const TensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* --- wgmma --- */
/* A K-major operand in rows of 128 bytes, swizzled by as much; groups of 8 rows follow each other. */
__device__ uint64_t describe(uint32_t address)
{
    constexpr uint64_t leading = 1, stride = 8 * ROW >> 4, swizzle_128 = 1;
    return (address & 0x3ffff) >> 4 | leading << 16 | stride << 32 | swizzle_128 << 62;
}

#define SUMS_4(i)  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)

/* sum = (accumulate ? sum : 0) + a * b, 64 x 128 x 16 */
__device__ __forceinline__ void multiply(float (&sum)[64], uint64_t a, uint64_t b, int accumulate)
{
    asm volatile("{\n"
                 ".reg .pred accumulate;\n"
                 "setp.ne.b32 accumulate, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, accumulate, 1, 1, 0, 0;\n"
                 "}"
                 : SUMS_16(0), SUMS_16(16), SUMS_16(32), SUMS_16(48)
                 : "l"(a), "l"(b), "r"(accumulate));
}

/* --- the ring --- */
struct Ring {
    uint32_t base;
    int stage = 0;
    uint32_t phase = 0;

    __device__ uint32_t a() const { return base + stage * STAGE_BYTES; }
    __device__ uint32_t b() const { return a() + A_BYTES; }
    __device__ uint32_t full() const { return base + BARRIERS + stage * 8; }
    __device__ uint32_t empty() const { return full() + STAGES * 8; }
    __device__ void advance()
    {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};

template <bool PAIR>
__device__ void produce(Ring ring, const TensorMap *a, const TensorMap *b, Shape shape, uint32_t rank)
{
    constexpr int BLOCKS = PAIR ? 2 : 1;
    for (int tile = blockIdx.x / BLOCKS; tile < shape.rows * shape.columns; tile += gridDim.x / BLOCKS) {
        const int m = (tile % shape.rows * BLOCKS + rank) * TILE_M, n = tile / shape.rows * TILE_N;
#pragma unroll 1 /* one of each instruction, for the mutants */
        for (int slice = 0; slice < shape.slices; slice++) {
            const int k = slice * TILE_K;
            barrier_wait(ring.empty(), ring.phase ^ 1);
            barrier_expect(ring.full(), STAGE_BYTES);
            load_box(ring.a(), a, ring.full(), k, m);
            load_box(ring.a() + BOX, a, ring.full(), k, m + 64);
            if (PAIR) {
                load_box_for_both(ring.b() + rank * BOX, b, ring.full(), k, n + rank * 64);
            } else {
                load_box(ring.b(), b, ring.full(), k, n);
                load_box(ring.b() + BOX, b, ring.full(), k, n + 64);
            }
            ring.advance();
        }
    }
}

/* The consumer has read this stage: its producer, or both of a pair, may fill it again. */
template <bool PAIR> __device__ void release(uint32_t empty, int thread)
{
    if (PAIR) {
        if (thread < 2) {
            barrier_arrive_at(empty, thread);
        }
    } else if (thread == 0) {
        barrier_arrive(empty);
    }
}

/* Barrier numbers must be constants, or ptxas reserves all of them. */
__device__ void meet(int consumer)
{
    if (consumer == 0) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 128;" ::: "memory");
    }
}

__device__ uint32_t pack(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/* 64 x 128 sums to two boxes in shared memory, 16 x 16 at a time. */
__device__ __forceinline__ void write_boxes(uint32_t output, const float (&sum)[64], int thread)
{
    const int lane = thread % 32, row = thread / 32 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 16; j += 2) {
        const uint32_t chunk = (j % 8 + lane / 16) ^ (row & 7);
        const uint32_t to = output + j / 8 * BOX + row * ROW + chunk * 16;
        const float *s = &sum[4 * j];
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(pack(s[0], s[1])), "r"(pack(s[2], s[3])), "r"(pack(s[4], s[5])), "r"(pack(s[6], s[7]))
                     : "memory");
    }
}

/* One tile's sums. A stage is released when the group behind its own has been issued and its own is over. */
template <bool PAIR>
__device__ __forceinline__ void accumulate(Ring &ring, float (&sum)[64], int slices, int consumer, int thread)
{
    uint32_t previous = 0;
#pragma unroll 1
    for (int slice = 0; slice < slices; slice++) {
        barrier_wait(ring.full(), ring.phase);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < TILE_K / 16; k++) {
            multiply(sum, describe(ring.a() + consumer * BOX + k * 32), describe(ring.b() + k * 32), slice | k);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (slice) {
            release<PAIR>(previous, thread);
        }
        previous = ring.empty();
        ring.advance();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release<PAIR>(previous, thread);
}

template <bool PAIR> __device__ void consume(Ring ring, const TensorMap *c, Shape shape, uint32_t rank)
{
    constexpr int BLOCKS = PAIR ? 2 : 1;
    const int consumer = threadIdx.x / GROUP - 1, thread = threadIdx.x % GROUP;
    const uint32_t output = ring.base + OUTPUT + consumer * OUTPUT_BYTES;
    float sum[64];
    for (int tile = blockIdx.x / BLOCKS; tile < shape.rows * shape.columns; tile += gridDim.x / BLOCKS) {
        const int m = (tile % shape.rows * BLOCKS + rank) * TILE_M + consumer * 64, n = tile / shape.rows * TILE_N;
        accumulate<PAIR>(ring, sum, shape.slices, consumer, thread);
        if (thread == 0) {
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        meet(consumer);
        write_boxes(output, sum, thread);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet(consumer);
        if (thread == 0) {
            store_box(c, output, n, m);
            store_box(c, output + BOX, n + 64, m);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
    if (thread == 0) {
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

__device__ void meet_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

template <bool PAIR>
__device__ __forceinline__ void gemm(const TensorMap *a, const TensorMap *b, const TensorMap *c, Shape shape)
{
    extern __shared__ unsigned char memory[];
    Ring ring{(shared_address(memory) + 1023) & ~1023u};
    uint32_t rank = 0;
    if (PAIR) {
        asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    }
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            barrier_init(ring.base + BARRIERS + stage * 8, 1);
            barrier_init(ring.base + BARRIERS + (STAGES + stage) * 8, CONSUMERS * (PAIR ? 2 : 1));
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        prefetch_map(a);
        prefetch_map(b);
        prefetch_map(c);
    }
    if (PAIR) {
        meet_cluster();
    } else {
        __syncthreads();
    }
    if (threadIdx.x < GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        uint32_t elected = 0;
        if (threadIdx.x < 32) {
            asm volatile("{\n"
                         ".reg .pred one;\n"
                         "elect.sync _|one, 0xffffffff;\n"
                         "selp.u32 %0, 1, 0, one;\n"
                         "}"
                         : "=r"(elected));
        }
        if (elected) {
            produce<PAIR>(ring, a, b, shape, rank);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume<PAIR>(ring, c, shape, rank);
    }
    /* A block must not end while its pair still arrives at its barriers or writes to its stages. */
    if (PAIR) {
        meet_cluster();
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_sm90(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
              const __grid_constant__ TensorMap c, const Shape shape)
{
    gemm<false>(&a, &b, &c, shape);
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
    gemm_sm90_pair(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                   const __grid_constant__ TensorMap c, const Shape shape)
{
    gemm<true>(&a, &b, &c, shape);
}
