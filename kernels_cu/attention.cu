/* attention.cu - softmax(scale q k^T + mask) v with scores that never leave the group (Dao et al., "FlashAttention",
 * 2022). One entry: dtypes and dimensions come from the arguments.
 *
 * A group takes blockDim.x / LANES rows, each by LANES neighbours, and goes through the keys in blocks of KEYS. Lane l
 * of a row has the keys l, l + LANES, ... of a block, and the same columns of o. The order of every sum is fixed:
 * scores by ascending dimension; a row's sum of weights by lane, ascending, then the lanes by halving; o by ascending
 * key. */
#include "attention.cuh"

#define THREADS     128u /* at most */
#define CHUNK       32u
#define PITCH       (CHUNK + 1)
#define WEIGHTS     (KEYS + LANES) /* of a row: neighbouring rows lie in different banks */
#define ROWS        (THREADS / LANES)
#define COLUMNS     (256u / LANES)
#define OWN_KEYS    (KEYS / LANES)
#define OWN_COLUMNS (CHUNK / LANES)

/* Dimensions d0 to d0 + CHUNK - 1 of the group's queries; zero beyond. */
__device__ __forceinline__ void load_queries(const operands &at, const sequence &s, uint32_t first_row, uint32_t d0,
                                             float *tile_q)
{
    const uint32_t rows = blockDim.x / LANES;
    for (uint32_t e = threadIdx.x; e < rows * CHUNK; e += blockDim.x) {
        const uint32_t r = first_row + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0f;
        if (r < s.rows && d < at.args.head_dim)
            x = flush_if(at.strict(), load_element(at.q, ROW_DTYPE(at.args.flags, 0), query_at(at, s, r) + d));
        tile_q[e / CHUNK * PITCH + e % CHUNK] = x;
    }
}

/* The same of the block's keys, or columns of its values. What lies behind the last key is not read. */
__device__ __forceinline__ void load_keys(const operands &at, const sequence &s, const void *span, const strides &t,
                                          uint32_t dim, uint32_t key0, uint32_t d0, float *tile_kv)
{
    for (uint32_t e = threadIdx.x; e < KEYS * CHUNK; e += blockDim.x) {
        const uint32_t key = key0 + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0f;
        if (key < s.keys && d < dim)
            x = flush_if(at.strict(), load_element(span, ROW_DTYPE(at.args.flags, 0), key_at(at, s, t, key) + d));
        tile_kv[e / CHUNK * PITCH + e % CHUNK] = x;
    }
}

/* Four groups to a multiprocessor: asked for less, ptxas spills for the sake of more. */
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    attention(SPANS, const __grid_constant__ hal_attention_args args)
{
    __shared__ float tile_q[ROWS * PITCH], tile_kv[KEYS * PITCH], weights[ROWS * WEIGHTS];
    const operands at = OPERANDS;
    const sequence s = locate(at);
    const bool strict = at.strict();
    const uint32_t rows = blockDim.x / LANES, row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const uint32_t first_row = s.tile * rows, r = first_row + row;
    const uint32_t block_end = last_block(at, s, min(first_row + rows, s.rows));
    const strides key_strides = strides_of_keys(at, s), value_strides = strides_of_values(at, s);
    float o[COLUMNS];
#pragma unroll
    for (uint32_t c = 0; c < COLUMNS; c++)
        o[c] = 0.0f;
    float greatest = -HM_INFINITY, sum = 0.0f;

    for (uint32_t block = s.first_block; block < block_end; block++) {
        const uint32_t key0 = block * KEYS;
        float score[OWN_KEYS];
#pragma unroll
        for (uint32_t i = 0; i < OWN_KEYS; i++)
            score[i] = 0.0f;
        for (uint32_t d0 = 0; d0 < args.head_dim; d0 += CHUNK) {
            __syncthreads();
            load_queries(at, s, first_row, d0, tile_q);
            load_keys(at, s, at.k, key_strides, args.head_dim, key0, d0, tile_kv);
            __syncthreads();
#pragma unroll 4
            for (uint32_t d = 0; d < CHUNK; d++) {
                const float x = tile_q[row * PITCH + d];
#pragma unroll
                for (uint32_t i = 0; i < OWN_KEYS; i++)
                    score[i] = add_product(strict, score[i], x, tile_kv[(lane + LANES * i) * PITCH + d]);
            }
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN_KEYS; i++) {
            score[i] = finish_score(at, s, r, key0 + lane + LANES * i, score[i]);
            weights[row * WEIGHTS + lane + LANES * i] = score[i];
        }
        __syncthreads();
        float most = greatest;
        for (uint32_t j = 0; j < KEYS; j++)
            most = greater(most, weights[row * WEIGHTS + j]);
        __syncthreads();
        const float shift = most == -HM_INFINITY ? 0.0f : most, shrink = weight_of(greatest, shift);
        greatest = most;
        sum = multiply(strict, sum, shrink);
#pragma unroll
        for (uint32_t i = 0; i < OWN_KEYS; i++) {
            const float w = weight_of(score[i], shift);
            weights[row * WEIGHTS + lane + LANES * i] = w;
            sum = add(strict, sum, w);
        }
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++)
            o[c] = multiply(strict, o[c], shrink);
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c += OWN_COLUMNS) {
            if (c * LANES >= args.value_dim)
                continue;
            __syncthreads();
            load_keys(at, s, at.v, value_strides, args.value_dim, key0, c * LANES, tile_kv);
            __syncthreads();
            for (uint32_t j = 0; j < KEYS; j++) {
                const float w = weights[row * WEIGHTS + j];
                if (w != 0.0f) { /* so that NaN and infinity in a hidden value stay hidden */
#pragma unroll
                    for (uint32_t i = 0; i < OWN_COLUMNS; i++)
                        o[c + i] = add_product(strict, o[c + i], w, tile_kv[j * PITCH + lane + LANES * i]);
                }
            }
        }
    }

    __syncthreads();
    weights[row * WEIGHTS + lane] = sum;
    __syncthreads();
    float lanes[LANES];
#pragma unroll
    for (uint32_t i = 0; i < LANES; i++)
        lanes[i] = weights[row * WEIGHTS + i];
#pragma unroll
    for (uint32_t stride = LANES / 2; stride > 0; stride /= 2)
#pragma unroll
        for (uint32_t i = 0; i < stride; i++)
            lanes[i] = add(strict, lanes[i], lanes[i + stride]);
    if (r < s.rows) {
#pragma unroll
        for (uint32_t c = 0; c < COLUMNS; c++)
            if (lane + LANES * c < args.value_dim)
                store_output(at, s, r, lane + LANES * c, o[c], lanes[0]);
        if (lane == 0)
            store_sums(at, s, r, greatest, lanes[0]);
    }
}
