/* attention_scores.comp - the scores of attention, for those who want to see them. A group of THREADS takes a row, and
 * its invocation l the keys l, l + THREADS, ...; a score is computed again each time that it is needed. Weights are
 * added by invocation, ascending, then by halving. Constants as attention's. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention.glsl"

shared float lanes[THREADS];

/* The wanted stage of a score; of the mask's for weights. */
float score_of(sequence s, strides key_strides, uint r, uint key)
{
    if (key >= s.keys)
        return -HM_INFINITY;
    const uint64_t queries = args.span[ATTENTION_Q], keys = args.span[ATTENTION_K];
    const uint64_t q = query_at(s, r), k = key_at(s, key_strides, key);
    float score = 0.0;
    for (uint d0 = 0; d0 < args.head_dim; d0 += 8) { /* eight a turn: some devices count turns */
        [[unroll]] for (uint d = d0; d < d0 + 8; d++)
        {
            if (d < args.head_dim)
                score = add_product(score, flush_if(STRICT != 0u, load_element(queries, DTYPE, q + d)),
                                    flush_if(STRICT != 0u, load_element(keys, DTYPE, k + d)));
        }
    }
    return args.scores == ATTENTION_SCALED   ? multiply(score, scale)
           : args.scores == ATTENTION_CAPPED ? scale_and_cap(score)
                                             : finish_score(s, r, key, score);
}

void main()
{
    const sequence s = locate();
    const strides key_strides = strides_of_keys();
    const uint lane = gl_LocalInvocationID.x, r = s.tile;
    const bool weights = args.scores == ATTENTION_WEIGHTS;
    const uint weighed = weights ? s.keys : 0;

    float greatest = -HM_INFINITY;
    for (uint key = lane; key < weighed; key += THREADS)
        greatest = greater(greatest, score_of(s, key_strides, r, key));
    lanes[lane] = greatest;
    barrier();
    for (uint i = 0; i < THREADS; i++)
        greatest = greater(greatest, lanes[i]);
    const float shift = greatest == -HM_INFINITY ? 0.0 : greatest;
    barrier();

    float sum = 0.0;
    for (uint key = lane; key < weighed; key += THREADS)
        sum = add(sum, weight_of(score_of(s, key_strides, r, key), shift));
    lanes[lane] = sum;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier();
        if (lane < stride)
            lanes[lane] = add(lanes[lane], lanes[lane + stride]);
    }
    barrier();
    sum = lanes[0];

    for (uint key = lane; key < args.kv_length; key += THREADS) {
        float x = score_of(s, key_strides, r, key);
        if (weights)
            x = sum == 0.0 ? 0.0 : multiply(weight_of(x, shift), hm_reciprocal(sum));
        store_element(args.span[ATTENTION_O], ROW_DTYPE(args.flags, 1), output_at(s, r) + key, x);
    }
}
