/* attention_scores.cu - the scores of attention, for those who want to see them. A group takes a row, and its thread l
 * the keys l, l + THREADS, ...; a score is computed again each time that it is needed. Weights are added by thread,
 * ascending, then by halving. */
#include "attention.cuh"

#define THREADS ATTENTION_SCORE_THREADS

/* The wanted stage of a score; of the mask's for weights. */
__device__ __forceinline__ float score_of(const operands &at, const sequence &s, const strides &key_strides, uint32_t r,
                                          uint32_t key)
{
    const hal_attention_args &args = at.args;
    const bool strict = at.strict();
    const uint32_t dtype = ROW_DTYPE(args.flags, 0);
    if (key >= s.keys)
        return -HM_INFINITY;
    const uint64_t q = query_at(at, s, r), k = key_at(at, s, key_strides, key);
    float score = 0.0f;
#pragma unroll 1 /* unrolled, some targets spill */
    for (uint32_t d = 0; d < args.head_dim; d++)
        score = add_product(strict, score, flush_if(strict, load_element(at.q, dtype, q + d)),
                            flush_if(strict, load_element(at.k, dtype, k + d)));
    return args.scores == ATTENTION_SCALED   ? multiply(strict, score, args.scale)
           : args.scores == ATTENTION_CAPPED ? scale_and_cap(at, score)
                                             : finish_score(at, s, r, key, score);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    attention_scores(SPANS, const __grid_constant__ hal_attention_args args)
{
    __shared__ float lanes[THREADS];
    const operands at = OPERANDS;
    const sequence s = locate(at);
    const bool strict = at.strict(), weights = args.scores == ATTENTION_WEIGHTS;
    const strides key_strides = strides_of_keys(at, s);
    const uint32_t lane = threadIdx.x, r = s.tile, weighed = weights ? s.keys : 0;

    float greatest = -HM_INFINITY;
#pragma unroll 1
    for (uint32_t key = lane; key < weighed; key += THREADS)
        greatest = greater(greatest, score_of(at, s, key_strides, r, key));
    lanes[lane] = greatest;
    __syncthreads();
    for (uint32_t i = 0; i < THREADS; i++)
        greatest = greater(greatest, lanes[i]);
    const float shift = greatest == -HM_INFINITY ? 0.0f : greatest;
    __syncthreads();

    float sum = 0.0f, unit = 0.0f;
#pragma unroll 1
    for (uint32_t key = lane; key < weighed; key += THREADS)
        sum = add(strict, sum, weight_of(score_of(at, s, key_strides, r, key), shift));
    lanes[lane] = sum;
    for (uint32_t stride = THREADS / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (lane < stride)
            lanes[lane] = add(strict, lanes[lane], lanes[lane + stride]);
    }
    __syncthreads();
    sum = lanes[0];
    if (sum != 0.0f)
        unit = hm_reciprocal(sum);

#pragma unroll 1
    for (uint32_t key = lane; key < args.kv_length; key += THREADS) {
        float x = score_of(at, s, key_strides, r, key);
        if (weights)
            x = sum == 0.0f ? 0.0f : multiply(strict, weight_of(x, shift), unit);
        store_element(at.o, ROW_DTYPE(args.flags, 1), output_at(at, s, r) + key, x);
    }
}
