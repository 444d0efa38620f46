/* attention_mma.cu - attention for FP16 and BF16 with tensor cores: sm_80 and up, dimensions to 128. Steps are
 * attention.cu's. A group of four warps takes 64 rows, 16 a warp; blocks of keys and values come by cp.async, one
 * ahead. Scores and o are fragments in registers; weights are rounded to the storage type for their product with v.
 * Shared rows are 16 bytes longer than they must be, so that ldmatrix meets no bank conflicts. An entry's name ends
 * with DTYPE and DIM, the dimensions or a little more. */
#include "attention.cuh"
#include "mma.cuh"

#define THREADS 128
#define ROWS    64u

template <class TYPE> __device__ __forceinline__ uint32_t pack(float low, float high)
{
    return TYPE::narrow(low) | (uint32_t)TYPE::narrow(high) << 16;
}

/* Greatest or sum over the four lanes that share a row. */
__device__ __forceinline__ float quad_greatest(float x)
{
    x = greater(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return greater(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

template <int DIM> struct Tile {
    static const uint32_t PITCH = DIM + 8, BYTES = KEYS * PITCH * 2, CHUNKS = DIM / 8;

    /* Starts copying the block's keys or values. What lies behind the last key is not read, and counts as zero. */
    static __device__ __forceinline__ void load_keys(const operands &at, const sequence &s, const void *span,
                                                     const strides &t, uint32_t dim, uint32_t key0, uint32_t to)
    {
#pragma unroll
        for (uint32_t e = threadIdx.x; e < KEYS * CHUNKS; e += THREADS) {
            const uint32_t key = key0 + e / CHUNKS, d = e % CHUNKS * 8;
            const bool there = key < s.keys && d < dim;
            const uint16_t *from = (const uint16_t *)span + (there ? key_at(at, s, t, key) + d : 0);
            copy_async(to + (e / CHUNKS * PITCH + d) * 2, from, there ? 16 : 0);
        }
    }

    static __device__ __forceinline__ void load_queries(const operands &at, const sequence &s, uint32_t first_row,
                                                        uint32_t to)
    {
#pragma unroll
        for (uint32_t e = threadIdx.x; e < ROWS * CHUNKS; e += THREADS) {
            const uint32_t r = first_row + e / CHUNKS, d = e % CHUNKS * 8;
            const bool there = r < s.rows && d < at.args.head_dim;
            const uint16_t *from = (const uint16_t *)at.q + (there ? query_at(at, s, r) + d : 0);
            copy_async(to + (e / CHUNKS * PITCH + d) * 2, from, there ? 16 : 0);
        }
    }

    /* Whether a value is NaN or infinite. */
    template <class TYPE> static __device__ __forceinline__ bool unusual(const uint16_t *tile)
    {
        const uint32_t exponent = sizeof(TYPE) && TYPE::widen(0x3f80) == 1.0f ? 0x7f80u : 0x7c00u;
        bool found = false;
        for (uint32_t e = threadIdx.x; e < KEYS * CHUNKS; e += THREADS)
#pragma unroll
            for (uint32_t i = 0; i < 8; i++)
                found |= (tile[e / CHUNKS * PITCH + e % CHUNKS * 8 + i] & exponent) == exponent;
        return found;
    }
};

/* o += weights v for a warp's rows, one key after the other, without weights of zero: NaN and infinity in a hidden
 * value stay hidden. The weights take the place of the block's keys. */
template <class TYPE, int DIM>
__device__ __forceinline__ void multiply_around_holes(float (&o)[DIM / 8][4], const float (&w)[KEYS / 8][4],
                                                      uint16_t *weights, const uint16_t *values)
{
    const uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4, pitch = KEYS + 8;
#pragma unroll
    for (uint32_t n = 0; n < KEYS / 8; n++) {
        *(uint32_t *)(weights + row * pitch + n * 8 + lane % 4 * 2) = pack<TYPE>(w[n][0], w[n][1]);
        *(uint32_t *)(weights + (row + 8) * pitch + n * 8 + lane % 4 * 2) = pack<TYPE>(w[n][2], w[n][3]);
    }
    __syncwarp();
#pragma unroll 1
    for (uint32_t j = 0; j < KEYS; j++) {
        const float low = TYPE::widen(weights[row * pitch + j]), high = TYPE::widen(weights[(row + 8) * pitch + j]);
#pragma unroll
        for (uint32_t i = 0; i < DIM / 8 * 2; i++) {
            const float v = TYPE::widen(values[j * Tile<DIM>::PITCH + i / 2 * 8 + lane % 4 * 2 + i % 2]);
            o[i / 2][i % 2] += low != 0.0f ? low * v : 0.0f;
            o[i / 2][2 + i % 2] += high != 0.0f ? high * v : 0.0f;
        }
    }
}

template <class TYPE, int DIM> __device__ __forceinline__ void attention_mma(const operands &at)
{
    typedef Tile<DIM> tile;
    extern __shared__ __align__(128) uint8_t attention_shared[]; /* two stages of keys, then of values */
    const uint32_t shared = shared_address(attention_shared), values_at = 2 * tile::BYTES;
    const hal_attention_args &args = at.args;
    const sequence s = locate(at);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t first_row = s.tile * ROWS;
    const uint32_t block_end = first_row < s.rows ? last_block(at, s, min(first_row + ROWS, s.rows)) : 0;
    const strides key_strides = strides_of_keys(at, s), value_strides = strides_of_values(at, s);
    const uint32_t rows[2] = {first_row + warp * 16 + lane / 4, first_row + warp * 16 + lane / 4 + 8};
    const uint32_t ends[2] = {visible_keys(at, s, rows[0]), visible_keys(at, s, rows[1])};
    const bool plain = args.softcap == 0.0f && ROW_DTYPE(args.flags, 2) == 0;

    /* Of the four 8 x 8 matrices of an ldmatrix, lanes 8q .. 8q + 7 give the q-th's lines. */
    const uint32_t eighth = lane % 8, odd = lane / 8 % 2 * 8, upper = lane / 16 * 8;
    uint32_t q[DIM / 16][4];
    tile::load_queries(at, s, first_row, shared);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (uint32_t k = 0; k < DIM / 16; k++)
        load_matrices<false>(q[k], shared + ((warp * 16 + odd + eighth) * tile::PITCH + k * 16 + upper) * 2);
    __syncthreads();

    float o[DIM / 8][4];
#pragma unroll
    for (uint32_t i = 0; i < DIM / 8 * 4; i++)
        o[i / 4][i % 4] = 0.0f;
    float greatest[2] = {-HM_INFINITY, -HM_INFINITY}, sum[2] = {0.0f, 0.0f};
    if (s.first_block < block_end) {
        tile::load_keys(at, s, at.k, key_strides, args.head_dim, s.first_block * KEYS, shared);
        tile::load_keys(at, s, at.v, value_strides, args.value_dim, s.first_block * KEYS, shared + values_at);
        copy_async_commit();
    }
#pragma unroll 1
    for (uint32_t block = s.first_block; block < block_end; block++) {
        const uint32_t key0 = block * KEYS, stage = (block - s.first_block) % 2 * tile::BYTES;
        copy_async_wait<0>();
        __syncthreads();
        if (block + 1 < block_end) {
            const uint32_t next = tile::BYTES - stage;
            tile::load_keys(at, s, at.k, key_strides, args.head_dim, key0 + KEYS, shared + next);
            tile::load_keys(at, s, at.v, value_strides, args.value_dim, key0 + KEYS, shared + values_at + next);
            copy_async_commit();
        }
        float w[KEYS / 8][4];
#pragma unroll
        for (uint32_t i = 0; i < KEYS / 8 * 4; i++)
            w[i / 4][i % 4] = 0.0f;
#pragma unroll
        for (uint32_t k = 0; k < DIM / 16; k++)
#pragma unroll
            for (uint32_t n = 0; n < KEYS / 16; n++) {
                uint32_t b[4];
                load_matrices<false>(b, shared + stage + ((n * 16 + upper + eighth) * tile::PITCH + k * 16 + odd) * 2);
                multiply(TYPE(), w[2 * n], q[k], b);
                multiply(TYPE(), w[2 * n + 1], q[k], b + 2);
            }

        bool holes = false;
        float most[2] = {greatest[0], greatest[1]}, shift[2], shrink[2];
#pragma unroll
        for (uint32_t i = 0; i < KEYS / 8 * 4; i++) {
            const uint32_t half = i % 4 / 2, key = key0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            float &x = w[i / 4][i % 4];
            x = !plain ? finish_score(at, s, rows[half], key, x) : key < ends[half] ? x * args.scale : -HM_INFINITY;
            most[half] = greater(most[half], x);
        }
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            most[half] = quad_greatest(most[half]);
            shift[half] = most[half] == -HM_INFINITY ? 0.0f : most[half];
            shrink[half] = __expf(greatest[half] - shift[half]);
            greatest[half] = most[half];
            sum[half] *= shrink[half];
        }
#pragma unroll
        for (uint32_t i = 0; i < KEYS / 8 * 4; i++) {
            float &x = w[i / 4][i % 4];
            x = __expf(x - shift[i % 4 / 2]);
            holes |= x == 0.0f;
            sum[i % 4 / 2] += x;
        }
#pragma unroll
        for (uint32_t i = 0; i < DIM / 8 * 4; i++)
            o[i / 4][i % 4] *= shrink[i % 4 / 2];
        const uint16_t *values = (const uint16_t *)(attention_shared + values_at + stage);
        if (__syncthreads_or(holes) && __syncthreads_or(tile::template unusual<TYPE>(values))) {
            multiply_around_holes<TYPE, DIM>(o, w, (uint16_t *)(attention_shared + stage), values);
            continue;
        }
#pragma unroll
        for (uint32_t k = 0; k < KEYS / 16; k++) {
            const uint32_t a[4] = {pack<TYPE>(w[2 * k][0], w[2 * k][1]), pack<TYPE>(w[2 * k][2], w[2 * k][3]),
                                   pack<TYPE>(w[2 * k + 1][0], w[2 * k + 1][1]),
                                   pack<TYPE>(w[2 * k + 1][2], w[2 * k + 1][3])};
#pragma unroll
            for (uint32_t n = 0; n < DIM / 16; n++) {
                uint32_t b[4];
                load_matrices<true>(b, shared + values_at + stage +
                                           ((k * 16 + odd + eighth) * tile::PITCH + n * 16 + upper) * 2);
                multiply(TYPE(), o[2 * n], a, b);
                multiply(TYPE(), o[2 * n + 1], a, b + 2);
            }
        }
    }

#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const float whole = quad_sum(sum[half]);
        if (rows[half] >= s.rows)
            continue;
#pragma unroll
        for (uint32_t i = 0; i < DIM / 8 * 2; i++) {
            const uint32_t column = i / 2 * 8 + lane % 4 * 2 + i % 2;
            if (column < args.value_dim)
                store_output(at, s, rows[half], column, o[i / 2][half * 2 + i % 2], whole);
        }
        if (lane % 4 == 0)
            store_sums(at, s, rows[half], greatest[half], whole);
    }
}

#define ATTENTION_MMA(dtype, type, dim)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 1)                                                           \
        attention_mma__##dtype##_##dim(SPANS, const __grid_constant__ hal_attention_args args)                         \
    {                                                                                                                  \
        const operands at = OPERANDS;                                                                                  \
        attention_mma<type, dim>(at);                                                                                  \
    }
#define ATTENTION_MMA_DIMS(dtype, type)                                                                                \
    ATTENTION_MMA(dtype, type, 64)                                                                                     \
    ATTENTION_MMA(dtype, type, 80)                                                                                     \
    ATTENTION_MMA(dtype, type, 96)                                                                                     \
    ATTENTION_MMA(dtype, type, 128)

ATTENTION_MMA_DIMS(2, F16)
ATTENTION_MMA_DIMS(3, BF16)
