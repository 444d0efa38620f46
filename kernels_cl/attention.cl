/* attention.cl - softmax(scale q k^T + mask) v with scores that never leave the group (Dao et al., "FlashAttention",
 * 2022). Constants: DTYPE of q k v, STRICT, THREADS, VALUE_ROOM: value_dim or a little more.
 *
 * A group takes THREADS / LANES rows, each by LANES neighbours, and goes through the keys in blocks of KEYS. Lane l of
 * a row has the keys l, l + LANES, ... of a block, and the same columns of o. The order of every sum is fixed: scores
 * by ascending dimension; a row's sum of weights by lane, ascending, then the lanes by halving; o by ascending key. */
#include "attention.clh"

#define CHUNK       32
#define PITCH       (CHUNK + 1)
#define COLUMNS     (VALUE_ROOM / LANES)
#define ROWS        (THREADS / LANES)
#define OWN_KEYS    (KEYS / LANES)
#define OWN_COLUMNS (CHUNK / LANES)

/* Dimensions d0 to d0 + CHUNK - 1 of the group's queries; zero beyond. */
void load_queries(const operands *at, const sequence *s, uint first_row, uint d0, local float *tile_q)
{
    for (uint e = get_local_id(0); e < ROWS * CHUNK; e += THREADS) {
        const uint r = first_row + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0f;
        if (r < s->rows && d < at->args->head_dim)
            x = flush_if(STRICT, load_element(at->span[ATTENTION_Q], DTYPE, query_at(at, s, r) + d));
        tile_q[e] = x;
    }
}

/* The same of the block's keys, or columns of its values. What lies behind the last key is not read. */
void load_keys(const operands *at, const sequence *s, global const uchar *span, const strides *t, uint dim, uint key0,
               uint d0, local float *tile_kv)
{
    for (uint e = get_local_id(0); e < KEYS * CHUNK; e += THREADS) {
        const uint key = key0 + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0f;
        if (key < s->keys && d < dim)
            x = flush_if(STRICT, load_element(span, DTYPE, key_at(at, s, t, key) + d));
        tile_kv[e / CHUNK * PITCH + e % CHUNK] = x;
    }
}

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void attention(SPANS, hal_attention_args args)
{
    local float tile_q[ROWS * CHUNK], tile_kv[KEYS * PITCH], weights[ROWS * KEYS];
    const operands at = OPERANDS;
    const sequence s = locate(&at);
    const uint row = get_local_id(0) / LANES, lane = get_local_id(0) % LANES;
    const uint first_row = s.tile * ROWS, r = first_row + row;
    const uint block_end = last_block(&at, &s, min((uint)(first_row + ROWS), s.rows));
    const strides key_strides = strides_of_keys(&at, &s), value_strides = strides_of_values(&at, &s);
    float o[COLUMNS];
    for (uint c = 0; c < COLUMNS; c++)
        o[c] = 0.0f;
    float greatest = -INFINITY, sum = 0.0f;

    for (uint block = s.first_block; block < block_end; block++) {
        const uint key0 = block * KEYS;
        float score[OWN_KEYS];
        for (uint i = 0; i < OWN_KEYS; i++)
            score[i] = 0.0f;
        for (uint d0 = 0; d0 < args.head_dim; d0 += CHUNK) {
            barrier(CLK_LOCAL_MEM_FENCE);
            load_queries(&at, &s, first_row, d0, tile_q);
            load_keys(&at, &s, at.span[ATTENTION_K], &key_strides, args.head_dim, key0, d0, tile_kv);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint d = 0; d < CHUNK; d++) {
                const float q = tile_q[row * CHUNK + d];
                for (uint i = 0; i < OWN_KEYS; i++)
                    score[i] = add_product(score[i], q, tile_kv[(lane + LANES * i) * PITCH + d]);
            }
        }
        for (uint i = 0; i < OWN_KEYS; i++) {
            score[i] = finish_score(&at, &s, r, key0 + lane + LANES * i, score[i]);
            weights[row * KEYS + lane + LANES * i] = score[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float most = greatest;
        for (uint j = 0; j < KEYS; j++)
            most = greater(most, weights[row * KEYS + j]);
        barrier(CLK_LOCAL_MEM_FENCE);
        const float shift = most == -INFINITY ? 0.0f : most, shrink = weight_of(greatest, shift);
        greatest = most;
        sum = multiply(sum, shrink);
        for (uint i = 0; i < OWN_KEYS; i++) {
            const float w = weight_of(score[i], shift);
            weights[row * KEYS + lane + LANES * i] = w;
            sum = add(sum, w);
        }
        for (uint c = 0; c < COLUMNS; c++)
            o[c] = multiply(o[c], shrink);
        for (uint c = 0; c < COLUMNS; c += OWN_COLUMNS) {
            barrier(CLK_LOCAL_MEM_FENCE);
            load_keys(&at, &s, at.span[ATTENTION_V], &value_strides, args.value_dim, key0, c * LANES, tile_kv);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint j = 0; j < KEYS; j++) {
                const float w = weights[row * KEYS + j];
                if (w != 0.0f) { /* so that NaN and infinity in a hidden value stay hidden */
                    for (uint i = 0; i < OWN_COLUMNS; i++)
                        o[c + i] = add_product(o[c + i], w, tile_kv[j * PITCH + lane + LANES * i]);
                }
            }
        }
    }

    barrier(CLK_LOCAL_MEM_FENCE);
    weights[row * KEYS + lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    float lanes[LANES];
    for (uint i = 0; i < LANES; i++)
        lanes[i] = weights[row * KEYS + i];
    for (uint stride = LANES / 2; stride > 0; stride /= 2)
        for (uint i = 0; i < stride; i++)
            lanes[i] = add(lanes[i], lanes[i + stride]);
    if (r < s.rows) {
        for (uint c = 0; c < COLUMNS; c++)
            if (lane + LANES * c < args.value_dim)
                store_output(&at, &s, r, lane + LANES * c, o[c], lanes[0]);
        if (lane == 0)
            store_sums(&at, &s, r, greatest, lanes[0]);
    }
}
