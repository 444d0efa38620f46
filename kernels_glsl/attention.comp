/* attention.comp - softmax(scale q k^T + mask) v with scores that never leave the group (Dao et al., "FlashAttention",
 * 2022). Constants: DTYPE of q k v, STRICT, THREADS, VALUE_ROOM: value_dim or a little more.
 *
 * A group takes THREADS / LANES rows, each by LANES neighbours, and goes through the keys in blocks of KEYS. Lane l of
 * a row has the keys l, l + LANES, ... of a block, and the same columns of o. The order of every sum is fixed: scores
 * by ascending dimension; a row's sum of weights by lane, ascending, then the lanes by halving; o by ascending key. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attention.glsl"

const uint CHUNK = 32, PITCH = CHUNK + 1, COLUMNS = VALUE_ROOM / LANES;
const uint ROWS = THREADS / LANES, OWN_KEYS = KEYS / LANES, OWN_COLUMNS = CHUNK / LANES;

shared float tile_q[ROWS * CHUNK];
shared float tile_kv[KEYS * PITCH];
shared float weights[ROWS * KEYS];

uint row, lane;

/* Dimensions d0 to d0 + CHUNK - 1 of the group's queries; zero beyond. */
void load_queries(sequence s, uint first_row, uint d0)
{
    for (uint e = gl_LocalInvocationID.x; e < ROWS * CHUNK; e += THREADS) {
        const uint r = first_row + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0;
        if (r < s.rows && d < args.head_dim)
            x = flush_if(STRICT != 0u, load_element(args.span[ATTENTION_Q], DTYPE, query_at(s, r) + d));
        tile_q[e] = x;
    }
}

/* The same of the block's keys, or columns of its values. What lies behind the last key is not read. */
void load_keys(sequence s, uint64_t span, strides t, uint dim, uint key0, uint d0)
{
    for (uint e = gl_LocalInvocationID.x; e < KEYS * CHUNK; e += THREADS) {
        const uint key = key0 + e / CHUNK, d = d0 + e % CHUNK;
        float x = 0.0;
        if (key < s.keys && d < dim)
            x = flush_if(STRICT != 0u, load_element(span, DTYPE, key_at(s, t, key) + d));
        tile_kv[e / CHUNK * PITCH + e % CHUNK] = x;
    }
}

void main()
{
    const sequence s = locate();
    row = gl_LocalInvocationID.x / LANES;
    lane = gl_LocalInvocationID.x % LANES;
    const uint first_row = s.tile * ROWS, r = first_row + row;
    const uint block_end = last_block(s, min(first_row + ROWS, s.rows));
    const strides key_strides = strides_of_keys(), value_strides = strides_of_values();
    const uint64_t keys = args.span[ATTENTION_K], values = args.span[ATTENTION_V];
    float o[COLUMNS];
    for (uint c = 0; c < COLUMNS; c++)
        o[c] = 0.0;
    float greatest = -HM_INFINITY, sum = 0.0;

    for (uint block = s.first_block; block < block_end; block++) {
        const uint key0 = block * KEYS;
        float score[OWN_KEYS];
        for (uint i = 0; i < OWN_KEYS; i++)
            score[i] = 0.0;
        for (uint d0 = 0; d0 < args.head_dim; d0 += CHUNK) {
            barrier();
            load_queries(s, first_row, d0);
            load_keys(s, keys, key_strides, args.head_dim, key0, d0);
            barrier();
            for (uint d = 0; d < CHUNK; d++) {
                const float q = tile_q[row * CHUNK + d];
                [[unroll]] for (uint i = 0; i < OWN_KEYS; i++) score[i] =
                    add_product(score[i], q, tile_kv[(lane + LANES * i) * PITCH + d]);
            }
        }
        [[unroll]] for (uint i = 0; i < OWN_KEYS; i++)
        {
            score[i] = finish_score(s, r, key0 + lane + LANES * i, score[i]);
            weights[row * KEYS + lane + LANES * i] = score[i];
        }
        barrier();
        float most = greatest;
        for (uint j = 0; j < KEYS; j++)
            most = greater(most, weights[row * KEYS + j]);
        barrier();
        const float shift = most == -HM_INFINITY ? 0.0 : most, shrink = weight_of(greatest, shift);
        greatest = most;
        sum = multiply(sum, shrink);
        [[unroll]] for (uint i = 0; i < OWN_KEYS; i++)
        {
            const float w = weight_of(score[i], shift);
            weights[row * KEYS + lane + LANES * i] = w;
            sum = add(sum, w);
        }
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) o[c] = multiply(o[c], shrink);
        [[unroll]] for (uint c = 0; c < COLUMNS; c += OWN_COLUMNS)
        {
            barrier();
            load_keys(s, values, value_strides, args.value_dim, key0, c * LANES);
            barrier();
            for (uint j = 0; j < KEYS; j++) {
                const float w = weights[row * KEYS + j];
                if (w != 0.0) { /* so that NaN and infinity in a hidden value stay hidden */
                    [[unroll]] for (uint i = 0; i < OWN_COLUMNS; i++) o[c + i] =
                        add_product(o[c + i], w, tile_kv[j * PITCH + lane + LANES * i]);
                }
            }
        }
    }

    barrier();
    weights[row * KEYS + lane] = sum;
    barrier();
    float lanes[LANES];
    for (uint i = 0; i < LANES; i++)
        lanes[i] = weights[row * KEYS + i];
    for (uint stride = LANES / 2; stride > 0; stride /= 2)
        for (uint i = 0; i < stride; i++)
            lanes[i] = add(lanes[i], lanes[i + stride]);
    if (r < s.rows) {
        for (uint c = 0; c < COLUMNS; c++)
            if (lane + LANES * c < args.value_dim)
                store_output(s, r, lane + LANES * c, o[c], lanes[0]);
        if (lane == 0)
            store_sums(s, r, greatest, lanes[0]);
    }
}
