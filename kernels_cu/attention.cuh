/* attention.cuh - what the attention kernels share: where a row's operands lie, what a score goes through, and how a
 * row ends. */
#ifndef HAL_ATTENTION_CUH
#define HAL_ATTENTION_CUH

#include "kernel_attention.h"
#include "rows.cuh"

#define LANES 8u
#define KEYS  ATTENTION_KEYS

#define SPANS                                                                                                          \
    const void *q_span, const void *k_span, const void *v_span, void *o_span, const void *mask_span,                   \
        const int *cu_q_span, const int *cu_k_span, const int *lengths_span, const int *pages_span, float *lse_span,   \
        float *parts_span
#define OPERANDS                                                                                                       \
    {                                                                                                                  \
        q_span, k_span, v_span, o_span, mask_span, cu_q_span, cu_k_span, lengths_span, pages_span, lse_span,           \
            parts_span, args                                                                                           \
    }

struct operands {
    const void *q, *k, *v;
    void *o;
    const void *mask;
    const int *cu_q, *cu_k, *lengths, *pages;
    float *lse, *parts;
    const hal_attention_args &args;
    __device__ __forceinline__ uint32_t options() const { return ROW_OP(args.flags); }
    __device__ __forceinline__ bool strict() const { return ROW_STRICT(args.flags); }
};

/* One sequence and one of its heads of keys, as a group sees it. */
struct sequence {
    uint32_t number, tile, split, rows, keys, first_block, end_block;
    int diagonal; /* query i sees keys j <= i + diagonal */
    uint32_t ratio, head0;
    uint64_t first_token; /* in o and lse, where tokens are counted through */
    uint64_t q0, o0, k0, v0;
};
struct strides {
    uint64_t start, page, token;
};

__device__ __forceinline__ sequence locate(const operands &at)
{
    sequence s;
    const hal_attention_args &args = at.args;
    const uint32_t options = at.options(), z = blockIdx.z + args.group_base[2];
    const uint32_t kv_head = blockIdx.y + args.group_base[1];
    s.number = z / args.splits;
    s.tile = blockIdx.x + args.group_base[0];
    s.split = z % args.splits;
    if (options & ATTENTION_HAS_LIST) {
        const uint32_t *item = (const uint32_t *)at.mask + 4 * (uint64_t)s.tile;
        s.number = item[0];
        s.tile = item[1];
        s.split = item[2];
    }
    s.ratio = args.q_heads / args.kv_heads;
    s.head0 = kv_head * s.ratio;
    uint32_t queries = args.q_length, tokens = args.kv_length;
    uint64_t q_token = 0, k_token = 0, q_batch = s.number, k_batch = s.number;
    s.first_token = (uint64_t)s.number * args.q_length;
    if (options & ATTENTION_HAS_CU_Q) {
        s.first_token = q_token = (uint64_t)at.cu_q[s.number];
        queries = min((uint32_t)at.cu_q[s.number + 1] - (uint32_t)q_token, args.q_length);
        q_batch = 0;
    }
    if (options & ATTENTION_HAS_CU_K) {
        k_token = (uint64_t)at.cu_k[s.number];
        tokens = min((uint32_t)at.cu_k[s.number + 1] - (uint32_t)k_token, args.kv_length);
        k_batch = 0;
    }
    if (options & ATTENTION_HAS_LENGTHS)
        tokens = (uint32_t)min(max(at.lengths[s.number], 0), (int)tokens);
    if (options & ATTENTION_HAS_PAGES)
        k_batch = 0;
    s.q0 = q_batch * HAL_JOIN64(args.q_batch) + q_token * HAL_JOIN64(args.q_token);
    s.o0 = q_batch * HAL_JOIN64(args.o_batch) + q_token * HAL_JOIN64(args.o_token);
    s.k0 = k_batch * HAL_JOIN64(args.k_batch) + k_token * HAL_JOIN64(args.k_token) + kv_head * HAL_JOIN64(args.k_head);
    s.v0 = k_batch * HAL_JOIN64(args.v_batch) + k_token * HAL_JOIN64(args.v_token) + kv_head * HAL_JOIN64(args.v_head);
    s.rows = queries * s.ratio;
    s.keys = tokens;
    s.diagonal = options & ATTENTION_BOTTOM_RIGHT ? (int)tokens - (int)queries : (int)args.diagonal;
    s.first_block = s.split * args.part;
    s.end_block = min(s.first_block + args.part, (tokens + KEYS - 1) / KEYS);
    return s;
}

__device__ __forceinline__ bool causal(const operands &at)
{
    return (at.options() & (ATTENTION_BOTTOM_RIGHT | ATTENTION_TOP_LEFT)) != 0;
}

/* One more than the last block of keys that a row before `row_end` sees. */
__device__ __forceinline__ uint32_t last_block(const operands &at, const sequence &s, uint32_t row_end)
{
    if (row_end == 0 || !causal(at))
        return row_end == 0 ? s.first_block : s.end_block;
    const int visible = max((int)((row_end - 1) / s.ratio) + s.diagonal + 1, 0);
    return min(s.end_block, ((uint32_t)visible + KEYS - 1) / KEYS);
}

/* Keys of the sequence that row r sees, from the first on; masks may hide some more. */
__device__ __forceinline__ uint32_t visible_keys(const operands &at, const sequence &s, uint32_t r)
{
    if (r >= s.rows)
        return 0;
    return causal(at) ? (uint32_t)min(max((int)(r / s.ratio) + s.diagonal + 1, 0), (int)s.keys) : s.keys;
}

__device__ __forceinline__ strides strides_of_keys(const operands &at, const sequence &s)
{
    return {s.k0, HAL_JOIN64(at.args.k_batch), HAL_JOIN64(at.args.k_token)};
}

__device__ __forceinline__ strides strides_of_values(const operands &at, const sequence &s)
{
    return {s.v0, HAL_JOIN64(at.args.v_batch), HAL_JOIN64(at.args.v_token)};
}

/* Where a key or value lies; only asked for those that there are. */
__device__ __forceinline__ uint64_t key_at(const operands &at, const sequence &s, const strides &t, uint32_t key)
{
    if (!(at.options() & ATTENTION_HAS_PAGES))
        return t.start + key * t.token;
    const uint32_t size = at.args.page_size;
    const uint64_t slot = (uint64_t)s.number * at.args.page_columns + key / size;
    return t.start + (uint64_t)at.pages[slot] * t.page + (key % size) * t.token;
}

__device__ __forceinline__ uint64_t query_at(const operands &at, const sequence &s, uint32_t r)
{
    return s.q0 + (r / s.ratio) * HAL_JOIN64(at.args.q_token) + (s.head0 + r % s.ratio) * HAL_JOIN64(at.args.q_head);
}

__device__ __forceinline__ float add(bool strict, float x, float y)
{
    return flush_if(strict, HM_ADD(x, y));
}

__device__ __forceinline__ float multiply(bool strict, float x, float y)
{
    return strict ? hm_mul(x, y) : x * y;
}

__device__ __forceinline__ float add_product(bool strict, float sum, float x, float y)
{
    return strict ? add(true, sum, hm_mul(x, y)) : fmaf(x, y, sum);
}

/* NaN does not count. */
__device__ __forceinline__ float greater(float x, float y)
{
    return y > x ? y : x;
}

__device__ __forceinline__ float weight_of(float score, float shift)
{
    return hm_exp(HM_ADD(score, -shift));
}

__device__ __forceinline__ float scale_and_cap(const operands &at, float score)
{
    const bool strict = at.strict();
    const float x = multiply(strict, score, at.args.scale), softcap = at.args.softcap;
    return softcap > 0.0f ? multiply(strict, softcap, hm_tanh(multiply(strict, x, hm_reciprocal(softcap)))) : x;
}

/* Scale, softcap and mask; -inf where row r does not see the key. */
__device__ __forceinline__ float finish_score(const operands &at, const sequence &s, uint32_t r, uint32_t key,
                                              float score)
{
    const hal_attention_args &args = at.args;
    const bool strict = at.strict();
    const uint32_t query = r / s.ratio, head = s.head0 + r % s.ratio, dtype_mask = ROW_DTYPE(args.flags, 2);
    if (key >= visible_keys(at, s, r))
        return -HM_INFINITY;
    const float x = scale_and_cap(at, score);
    if (dtype_mask == 0)
        return x;
    const uint64_t i = s.number * HAL_JOIN64(args.mask_batch) + head * HAL_JOIN64(args.mask_head) +
                       query * HAL_JOIN64(args.mask_row) + key;
    if (dtype_mask == HAL_KERNEL_F8E4M3)
        return ((const uint8_t *)at.mask)[i] == 0 ? -HM_INFINITY : x;
    const float m = flush_if(strict, load_element(at.mask, dtype_mask, i));
    return m == -HM_INFINITY ? m : add(strict, x, m);
}

__device__ __forceinline__ uint64_t part_at(const operands &at, const sequence &s, uint32_t r)
{
    const uint64_t token = s.first_token + r / s.ratio;
    return ((token * at.args.q_heads + s.head0 + r % s.ratio) * at.args.splits + s.split) * (at.args.value_dim + 2);
}

__device__ __forceinline__ uint64_t output_at(const operands &at, const sequence &s, uint32_t r)
{
    return s.o0 + (r / s.ratio) * HAL_JOIN64(at.args.o_token) + (s.head0 + r % s.ratio) * HAL_JOIN64(at.args.o_head);
}

/* Column c of row r: o / sum, or o itself where splits will be combined. */
__device__ __forceinline__ void store_output(const operands &at, const sequence &s, uint32_t r, uint32_t c, float o,
                                             float sum)
{
    if (at.args.splits > 1)
        at.parts[part_at(at, s, r) + 2 + c] = o;
    else
        store_element(at.o, ROW_DTYPE(at.args.flags, 1), output_at(at, s, r) + c,
                      sum == 0.0f ? 0.0f : multiply(at.strict(), o, hm_reciprocal(sum)));
}

/* The greatest score and the sum, for whoever combines; else the logarithm of the sum of exponentials, if wanted. */
__device__ __forceinline__ void store_sums(const operands &at, const sequence &s, uint32_t r, float greatest, float sum)
{
    if (at.args.splits > 1) {
        at.parts[part_at(at, s, r)] = greatest;
        at.parts[part_at(at, s, r) + 1] = sum;
    } else if (at.options() & ATTENTION_HAS_LSE) {
        at.lse[(s.first_token + r / s.ratio) * at.args.q_heads + s.head0 + r % s.ratio] =
            sum == 0.0f ? -HM_INFINITY : add(at.strict(), greatest, hm_log(sum));
    }
}

#endif
