/* attention_scores.cl - the scores of attention, for those who want to see them. A group of THREADS takes a row, and its
 * work-item l the keys l, l + THREADS, ...; a score is computed again each time that it is needed. Weights are added by
 * work-item, ascending, then by halving. Constants as attention's. */
#include "attention.clh"

/* The wanted stage of a score; of the mask's for weights. */
float score_of(const operands *at, const sequence *s, const strides *key_strides, uint r, uint key)
{
    const hal_attention_args *args = at->args;
    if (key >= s->keys)
        return -INFINITY;
    const ulong q = query_at(at, s, r), k = key_at(at, s, key_strides, key);
    float score = 0.0f;
    for (uint d = 0; d < args->head_dim; d++)
        score = add_product(score, flush_if(STRICT, load_element(at->span[ATTENTION_Q], DTYPE, q + d)),
                            flush_if(STRICT, load_element(at->span[ATTENTION_K], DTYPE, k + d)));
    return args->scores == ATTENTION_SCALED   ? multiply(score, args->scale)
           : args->scores == ATTENTION_CAPPED ? scale_and_cap(at, score)
                                              : finish_score(at, s, r, key, score);
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void attention_scores(SPANS, hal_attention_args args)
{
    local float lanes[THREADS];
    const operands at = OPERANDS;
    const sequence s = locate(&at);
    const strides key_strides = strides_of_keys(&at, &s);
    const uint lane = get_local_id(0), r = s.tile;
    const bool weights = args.scores == ATTENTION_WEIGHTS;
    const uint weighed = weights ? s.keys : 0;

    float greatest = -INFINITY;
    for (uint key = lane; key < weighed; key += THREADS)
        greatest = greater(greatest, score_of(&at, &s, &key_strides, r, key));
    lanes[lane] = greatest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < THREADS; i++)
        greatest = greater(greatest, lanes[i]);
    const float shift = greatest == -INFINITY ? 0.0f : greatest;
    barrier(CLK_LOCAL_MEM_FENCE);

    float sum = 0.0f;
    for (uint key = lane; key < weighed; key += THREADS)
        sum = add(sum, weight_of(score_of(&at, &s, &key_strides, r, key), shift));
    lanes[lane] = sum;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < stride)
            lanes[lane] = add(lanes[lane], lanes[lane + stride]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sum = lanes[0];

    for (uint key = lane; key < args.kv_length; key += THREADS) {
        float x = score_of(&at, &s, &key_strides, r, key);
        if (weights)
            x = sum == 0.0f ? 0.0f : multiply(weight_of(x, shift), hm_reciprocal(sum));
        store_element(at.span[ATTENTION_O], ROW_DTYPE(args.flags, 1), output_at(&at, &s, r) + key, x);
    }
}
