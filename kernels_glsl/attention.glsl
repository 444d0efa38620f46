/* attention.glsl - what the attention kernels share: where a row's operands lie, what a score goes through, and how a
 * row ends. */
#include "rows.glsl"

#include "kernel_attention.h"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint STRICT = 0;
layout(constant_id = 2) const uint THREADS = 128;
layout(constant_id = 3) const uint HEAD_ROOM = 64;
layout(constant_id = 4) const uint VALUE_ROOM = 64;

const uint LANES = 8, KEYS = ATTENTION_KEYS;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer block
{
    uint64_t span[ATTENTION_SPANS];
#include "kernel_args_attention.inc"
};
layout(push_constant) uniform push_block
{
    block args;
};
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer ref_i32
{
    int value;
};

/* One sequence and one of its heads of keys, as a group sees it. */
struct sequence {
    uint number, tile, split, rows, keys, first_block, end_block;
    int diagonal; /* query i sees keys j <= i + diagonal */
    uint ratio, head0;
    uint64_t first_token; /* in o and lse, where tokens are counted through */
    uint64_t q0, o0, k0, v0;
};
struct strides {
    uint64_t first, page, token;
};

/* Read once: a storage load in a loop is slow on some devices. */
uint options, dtype_mask, page_size, page_columns;
float scale, softcap;

int word_at(uint span, uint64_t i)
{
    return ref_i32(args.span[span] + i * 4).value;
}

sequence locate()
{
    sequence s;
    options = ROW_OP(args.flags);
    dtype_mask = ROW_DTYPE(args.flags, 2);
    page_size = args.page_size;
    page_columns = args.page_columns;
    scale = args.scale;
    softcap = args.softcap;
    const uint z = gl_WorkGroupID.z + args.group_base[2];
    const uint kv_head = gl_WorkGroupID.y + args.group_base[1];
    s.number = z / args.splits;
    s.tile = gl_WorkGroupID.x + args.group_base[0];
    s.split = z % args.splits;
    if ((options & ATTENTION_HAS_LIST) != 0u) {
        const uint64_t item = 4 * uint64_t(s.tile);
        s.number = uint(word_at(ATTENTION_LIST, item));
        s.tile = uint(word_at(ATTENTION_LIST, item + 1));
        s.split = uint(word_at(ATTENTION_LIST, item + 2));
    }
    s.ratio = args.q_heads / args.kv_heads;
    s.head0 = kv_head * s.ratio;
    uint queries = args.q_length, tokens = args.kv_length;
    uint64_t q_token = 0, k_token = 0, q_batch = s.number, k_batch = s.number;
    s.first_token = uint64_t(s.number) * args.q_length;
    if ((options & ATTENTION_HAS_CU_Q) != 0u) {
        s.first_token = q_token = uint64_t(word_at(ATTENTION_CU_Q, s.number));
        queries = min(uint(word_at(ATTENTION_CU_Q, s.number + 1)) - uint(q_token), args.q_length);
        q_batch = 0;
    }
    if ((options & ATTENTION_HAS_CU_K) != 0u) {
        k_token = uint64_t(word_at(ATTENTION_CU_K, s.number));
        tokens = min(uint(word_at(ATTENTION_CU_K, s.number + 1)) - uint(k_token), args.kv_length);
        k_batch = 0;
    }
    if ((options & ATTENTION_HAS_LENGTHS) != 0u)
        tokens = uint(clamp(word_at(ATTENTION_LENGTHS, s.number), 0, int(tokens)));
    if ((options & ATTENTION_HAS_PAGES) != 0u)
        k_batch = 0;
    s.q0 = q_batch * JOIN(args.q_batch) + q_token * JOIN(args.q_token);
    s.o0 = q_batch * JOIN(args.o_batch) + q_token * JOIN(args.o_token);
    s.k0 = k_batch * JOIN(args.k_batch) + k_token * JOIN(args.k_token) + kv_head * JOIN(args.k_head);
    s.v0 = k_batch * JOIN(args.v_batch) + k_token * JOIN(args.v_token) + kv_head * JOIN(args.v_head);
    s.rows = queries * s.ratio;
    s.keys = tokens;
    s.diagonal = (options & ATTENTION_BOTTOM_RIGHT) != 0u ? int(tokens) - int(queries) : int(args.diagonal);
    s.first_block = s.split * args.part;
    s.end_block = min(s.first_block + args.part, (tokens + KEYS - 1) / KEYS);
    return s;
}

bool causal()
{
    return (options & (ATTENTION_BOTTOM_RIGHT | ATTENTION_TOP_LEFT)) != 0u;
}

/* One more than the last block of keys that a row before `row_end` sees. */
uint last_block(sequence s, uint row_end)
{
    if (row_end == 0u || !causal())
        return row_end == 0u ? s.first_block : s.end_block;
    const int visible = max(int((row_end - 1) / s.ratio) + s.diagonal + 1, 0);
    return min(s.end_block, (uint(visible) + KEYS - 1) / KEYS);
}

/* Keys of the sequence that row r sees, from the first on; masks may hide some more. */
uint visible_keys(sequence s, uint r)
{
    if (r >= s.rows)
        return 0;
    return causal() ? uint(clamp(int(r / s.ratio) + s.diagonal + 1, 0, int(s.keys))) : s.keys;
}

strides strides_of_keys()
{
    return strides(0, JOIN(args.k_batch), JOIN(args.k_token));
}

strides strides_of_values()
{
    return strides(1, JOIN(args.v_batch), JOIN(args.v_token));
}

/* Where a key or value lies; only asked for those that there are. */
uint64_t key_at(sequence s, strides t, uint key)
{
    const uint64_t base = t.first == 0 ? s.k0 : s.v0;
    if ((options & ATTENTION_HAS_PAGES) == 0u)
        return base + key * t.token;
    const uint64_t slot = uint64_t(s.number) * page_columns + key / page_size;
    return base + uint64_t(word_at(ATTENTION_PAGES, slot)) * t.page + (key % page_size) * t.token;
}

uint64_t query_at(sequence s, uint r)
{
    return s.q0 + (r / s.ratio) * JOIN(args.q_token) + (s.head0 + r % s.ratio) * JOIN(args.q_head);
}

float add(float x, float y)
{
    precise float z = HM_ADD(x, y);
    return flush_if(STRICT != 0u, z);
}

float multiply(float x, float y)
{
    return STRICT != 0u ? hm_mul(x, y) : x * y;
}

float add_product(float sum, float x, float y)
{
    return STRICT != 0u ? add(sum, hm_mul(x, y)) : x * y + sum;
}

/* NaN does not count. */
float greater(float x, float y)
{
    return y > x ? y : x;
}

/* exp(score - shift), for scores up to shift. */
float weight_of(float score, float shift)
{
    precise float x = HM_ADD(score, -shift);
    return hm_exp_below(x);
}

float scale_and_cap(float score)
{
    const float x = multiply(score, scale);
    return softcap > 0.0 ? multiply(softcap, hm_tanh(multiply(x, hm_reciprocal(softcap)))) : x;
}

/* Scale, softcap and mask; -inf where row r does not see the key. */
float finish_score(sequence s, uint r, uint key, float score)
{
    const uint query = r / s.ratio, head = s.head0 + r % s.ratio;
    if (key >= visible_keys(s, r))
        return -HM_INFINITY;
    const float x = scale_and_cap(score);
    if (dtype_mask == 0u)
        return x;
    const uint64_t at =
        s.number * JOIN(args.mask_batch) + head * JOIN(args.mask_head) + query * JOIN(args.mask_row) + key;
    if (dtype_mask == HAL_KERNEL_F8E4M3)
        return uint(ref_u8(args.span[ATTENTION_MASK] + at).value) == 0u ? -HM_INFINITY : x;
    const float m = flush_if(STRICT != 0u, load_element(args.span[ATTENTION_MASK], dtype_mask, at));
    return m == -HM_INFINITY ? m : add(x, m);
}

uint64_t part_at(sequence s, uint r)
{
    const uint64_t token = s.first_token + r / s.ratio;
    return ((token * args.q_heads + s.head0 + r % s.ratio) * args.splits + s.split) * (args.value_dim + 2);
}

uint64_t output_at(sequence s, uint r)
{
    return s.o0 + (r / s.ratio) * JOIN(args.o_token) + (s.head0 + r % s.ratio) * JOIN(args.o_head);
}

/* Column c of row r: o / sum, or o itself where splits will be combined. */
void store_output(sequence s, uint r, uint c, float o, float sum)
{
    if (args.splits > 1u) {
        store_element(args.span[ATTENTION_PARTS], HAL_KERNEL_F32, part_at(s, r) + 2 + c, o);
        return;
    }
    store_element(args.span[ATTENTION_O], ROW_DTYPE(args.flags, 1), output_at(s, r) + c,
                  sum == 0.0 ? 0.0 : multiply(o, hm_reciprocal(sum)));
}

/* The greatest score and the sum, for whoever combines; else the logarithm of the sum of exponentials, if wanted. */
void store_sums(sequence s, uint r, float greatest, float sum)
{
    if (args.splits > 1u) {
        store_element(args.span[ATTENTION_PARTS], HAL_KERNEL_F32, part_at(s, r), greatest);
        store_element(args.span[ATTENTION_PARTS], HAL_KERNEL_F32, part_at(s, r) + 1, sum);
    } else if ((options & ATTENTION_HAS_LSE) != 0u) {
        const uint64_t at = (s.first_token + r / s.ratio) * args.q_heads + s.head0 + r % s.ratio;
        store_element(args.span[ATTENTION_LSE], HAL_KERNEL_F32, at,
                      sum == 0.0 ? -HM_INFINITY : add(greatest, hm_log(sum)));
    }
}
