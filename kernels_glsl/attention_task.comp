/* attention_task.comp - attention for CPU devices whose subgroups have 8 lanes: a group is one subgroup and takes ROWS
 * rows with everything in registers. Steps are attention.comp's. Scores have a key a lane, o has neighbouring columns:
 * queries, keys and values are uniform texel buffers of 16 bytes a texel, since such drivers fetch texels without a
 * branch, but run a storage load inside a loop lane by lane. Rows of q, k and v start at texels; a view may start
 * before its operand: base_q, base_k, base_v. Constants: DTYPE, STRICT (0), STEP: texels of a key at a time, ROWS,
 * VALUE_ROOM: value_dim or a little more, FINISH: scores are capped or masked, PAGED.
 *
 * Arrays are indexed by constants only, so that they are registers, and what is stored is stored at the end: a store to
 * memory, be it of an array or a buffer, is a branch for each lane, and a hundred branches take seconds to compile. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define THREADS   STEP
#define HEAD_ROOM ROWS
#include "attention.glsl"
layout(constant_id = 5) const uint FINISH = 0;
layout(constant_id = 6) const uint PAGED = 0;

layout(set = 0, binding = 0) uniform usamplerBuffer q_view;
layout(set = 0, binding = 1) uniform usamplerBuffer k_view;
layout(set = 0, binding = 2) uniform usamplerBuffer v_view;

const uint TEXEL = DTYPE == HAL_KERNEL_F32 ? 4 : 8; /* elements */
const uint LINE = 4 * TEXEL; /* elements of a cache line */
const uint VECTORS = KEYS / LANES, WIDTH = LANES * TEXEL;
const uint NEAR = 4; /* keys whose values are fetched at a time */
const uint COLUMNS = VALUE_ROOM / LANES, TEXELS = VALUE_ROOM / WIDTH;

/* Element `i` of a texel; i is constant once loops are unrolled. */
float pick(uvec4 texel, uint i)
{
    if (DTYPE == HAL_KERNEL_F32)
        return uintBitsToFloat(texel[i]);
    const uint word = texel[i >> 1];
    if (DTYPE == HAL_KERNEL_F16)
        return unpackHalf2x16(word)[i & 1];
    return uintBitsToFloat((i & 1) == 0 ? word << 16 : word & 0xffff0000u);
}

layout(buffer_reference, std430, buffer_reference_align = 8) writeonly buffer ref_u64x2 {
    u64vec2 value;
};

/* A texel's elements as 16 bytes: long words, since a store takes as long for any word. */
u64vec2 texel_of(float v[TEXEL])
{
    uvec4 words;
    [[unroll]] for (uint i = 0; i < 4; i++)
    {
        if (DTYPE == HAL_KERNEL_F32)
            words[i] = floatBitsToUint(v[i]);
        else if (DTYPE == HAL_KERNEL_F16)
            words[i] = f16_from_f32(v[2 * i]) | f16_from_f32(v[2 * i + 1]) << 16;
        else
            words[i] = hm_bf16_from_f32(v[2 * i]) | hm_bf16_from_f32(v[2 * i + 1]) << 16;
    }
    return u64vec2(packUint2x32(words.xy), packUint2x32(words.zw));
}

/* Whether rows of o begin at long words, of q's dtype. */
bool output_is_wide(sequence s)
{
    const uint low = args.o_token[0] | args.o_head[0] | uint(s.o0) | args.value_dim;
    return args.splits == 1u && ROW_DTYPE(args.flags, 1) == DTYPE && (low * (16 / TEXEL) & 7u) == 0u &&
           (uint(args.span[ATTENTION_O]) & 7u) == 0u && args.value_dim % TEXEL == 0u;
}

/* v_at[v] as `at` and the weights of vector v as `w`. By choice: an index that is no constant would put the arrays in
 * memory, where lanes go one after the other. */
#define PICK(v)                                                                                                        \
    uint at = v_at[0];                                                                                                 \
    float w[ROWS];                                                                                                     \
    [[unroll]] for (uint row = 0; row < ROWS; row++) w[row] = weights[row * VECTORS];                                  \
    [[unroll]] for (uint i = 1; i < VECTORS; i++)                                                                      \
    {                                                                                                                  \
        at = (v) == i ? v_at[i] : at;                                                                                  \
        [[unroll]] for (uint row = 0; row < ROWS; row++) w[row] = (v) == i ? weights[row * VECTORS + i] : w[row];      \
    }

void main()
{
    const sequence s = locate();
    if (PAGED == 0u)
        options &= ~ATTENTION_HAS_PAGES; /* the compiler leaves tables out */
    const uint lane = gl_LocalInvocationID.x, head_dim = args.head_dim, value_dim = args.value_dim;
    const uint first_row = s.tile * ROWS, row_end = min(first_row + ROWS, s.rows);
    const uint last_row = max(row_end, 1u) - 1;
    const uint own_row = min(first_row + lane, last_row); /* lane = row; beyond the last, the last one */
    const uint block_end = last_block(s, row_end);
    const strides key_strides = strides_of_keys(), value_strides = strides_of_values();
    const float factor = FINISH == 0u ? scale : 1.0; /* else finish_score has scaled */
    const uint q_base = args.base_q + uint(query_at(s, own_row)), k_base = args.base_k, v_base = args.base_v;
    const uint own_end = visible_keys(s, own_row);
    const bool wide = output_is_wide(s);
    const uint64_t own_output = args.span[ATTENTION_O] + output_at(s, own_row) * (16 / TEXEL);
    float o[ROWS * COLUMNS], sums[ROWS], greatest[ROWS];
    uint ends[ROWS], last_end = 0;
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) o[i] = 0.0;
    [[unroll]] for (uint row = 0; row < ROWS; row++)
    {
        sums[row] = 0.0;
        greatest[row] = -HM_INFINITY;
        ends[row] = subgroupShuffle(own_end, row);
        last_end = max(last_end, ends[row]);
    }
    uint touched = 0;

    for (uint block = first_row < s.rows ? s.first_block : block_end; block < block_end; block++) {
        const uint key0 = block * KEYS;
        uint k_at[VECTORS], v_at[VECTORS]; /* lane = key; beyond the last key, the last one */
        [[unroll]] for (uint v = 0; v < VECTORS; v++)
        {
            const uint key = min(key0 + v * LANES + lane, s.keys - 1);
            k_at[v] = k_base + uint(key_at(s, key_strides, key));
            v_at[v] = v_base + uint(key_at(s, value_strides, key));
        }

        /* With few rows memory is waited for. Values come row by row below, so a fetch has two cache lines under way;
         * one that takes a line of eight rows has eight. What it gets is of no use, but the compiler must not know. */
        [[dont_unroll]] for (uint d = ROWS < LANES ? 0u : value_dim; d < value_dim; d += LINE)
        {
            [[unroll]] for (uint v = 0; v < VECTORS; v++) touched |= texelFetch(v_view, int((v_at[v] + d) / TEXEL)).x;
        }

        float weights[ROWS * VECTORS];
        [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) weights[i] = 0.0;
        for (uint d = 0; d < head_dim; d += STEP * TEXEL) {
            uvec4 q[STEP];
            [[unroll]] for (uint i = 0; i < STEP; i++) q[i] = texelFetch(q_view, int((q_base + d) / TEXEL + i));
            [[unroll]] for (uint v = 0; v < VECTORS; v++)
            {
                uvec4 k[STEP];
                [[unroll]] for (uint i = 0; i < STEP; i++) k[i] = texelFetch(k_view, int((k_at[v] + d) / TEXEL + i));
                [[unroll]] for (uint i = 0; i < STEP; i++) [[unroll]] for (uint c = 0; c < TEXEL; c++)
                {
                    const float y = pick(k[i], c);
                    [[unroll]] for (uint row = 0; row < ROWS; row++) weights[row * VECTORS + v] =
                        subgroupShuffle(pick(q[i], c), row) * y + weights[row * VECTORS + v];
                }
            }
        }

        if (FINISH != 0u) { /* a copy, so that only it has to lie in memory for a loop to index it */
            float scores[ROWS * VECTORS];
            [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) scores[i] = weights[i];
            [[dont_unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) scores[i] =
                finish_score(s, min(first_row + i / VECTORS, last_row), key0 + i % VECTORS * LANES + lane, scores[i]);
            [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) weights[i] = scores[i];
        }

        uint holes = 0; /* bit v: some of the weights of keys 8 v to 8 v + 7 are zero */
        [[unroll]] for (uint row = 0; row < ROWS; row++)
        {
            float x[VECTORS], most = -HM_INFINITY;
            [[unroll]] for (uint v = 0; v < VECTORS; v++) x[v] =
                key0 + v * LANES + lane < ends[row] ? weights[row * VECTORS + v] * factor : -HM_INFINITY;
            [[unroll]] for (uint v = 0; v < VECTORS; v++) most = greater(most, x[v]);
            most = greater(most, subgroupShuffle(most, lane ^ 4u));
            most = greater(most, subgroupShuffle(most, lane ^ 2u));
            most = greater(most, subgroupShuffle(most, lane ^ 1u));
            const float before = greatest[row], after = greater(before, most);
            const float shift = after == -HM_INFINITY ? 0.0 : after, shrink = weight_of(before, shift);
            greatest[row] = after;
            float sum = sums[row] * shrink;
            [[unroll]] for (uint v = 0; v < VECTORS; v++)
            {
                const float w = weight_of(x[v], shift);
                weights[row * VECTORS + v] = w;
                holes |= w == 0.0 ? 1u << v : 0u;
                sum = add(sum, w);
            }
            sums[row] = sum;
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) o[row * COLUMNS + c] *= shrink;
        }
        holes |= subgroupShuffle(holes, lane ^ 4u);
        holes |= subgroupShuffle(holes, lane ^ 2u);
        holes |= subgroupShuffle(holes, lane ^ 1u);

        /* Keys without holes, then from the first hole to the last key that any row sees. */
        const uint visible = min(last_end - key0, KEYS);
        const uint whole = uint(findLSB(holes | 1u << VECTORS)) * LANES;
        [[dont_unroll]] for (uint n = 0; n < whole; n += NEAR)
        {
            PICK(n / LANES)
            [[unroll]] for (uint t = 0; t < TEXELS; t++)
            {
                const uint column = min(t * WIDTH + TEXEL * lane, value_dim - TEXEL);
                uvec4 texel[NEAR];
                [[unroll]] for (uint i = 0; i < NEAR; i++) texel[i] =
                    texelFetch(v_view, int((subgroupShuffle(at, n % LANES + i) + column) / TEXEL));
                [[unroll]] for (uint row = 0; row < ROWS; row++)
                {
                    [[unroll]] for (uint c = 0; c < TEXEL; c++)
                    {
                        float sum = o[row * COLUMNS + t * TEXEL + c];
                        [[unroll]] for (uint i = 0; i < NEAR; i++) sum =
                            subgroupShuffle(w[row], n % LANES + i) * pick(texel[i], c) + sum;
                        o[row * COLUMNS + t * TEXEL + c] = sum;
                    }
                }
            }
        }
        [[dont_unroll]] for (uint n = whole; n < visible; n++)
        { /* weights of zero are skipped: NaN and infinity in a hidden value stay hidden */
            PICK(n / LANES)
            [[unroll]] for (uint t = 0; t < TEXELS; t++)
            {
                const uint column = min(t * WIDTH + TEXEL * lane, value_dim - TEXEL);
                const uvec4 texel = texelFetch(v_view, int((subgroupShuffle(at, n % LANES) + column) / TEXEL));
                [[unroll]] for (uint row = 0; row < ROWS; row++)
                {
                    const float x = subgroupShuffle(w[row], n % LANES);
                    [[unroll]] for (uint c = 0; c < TEXEL; c++)
                    {
                        const uint i = row * COLUMNS + t * TEXEL + c;
                        o[i] = x == 0.0 ? o[i] : x * pick(texel, c) + o[i];
                    }
                }
            }
        }
    }

    float sum = 0.0, most = 0.0; /* lane = row */
    [[unroll]] for (uint row = 0; row < ROWS; row++)
    {
        float l[LANES];
        [[unroll]] for (uint i = 0; i < LANES; i++) l[i] = subgroupShuffle(sums[row], i);
        const float total = add(add(add(l[0], l[4]), add(l[2], l[6])), add(add(l[1], l[5]), add(l[3], l[7])));
        sum = lane == row ? total : sum;
        most = lane == row ? greatest[row] : most;
    }
    if (first_row + lane < row_end)
        store_sums(s, own_row, most, sum);

    const float unit = sum == 0.0 ? 0.0 : hm_reciprocal(sum);
    const uint zero = value_dim >> 16, rows = max(row_end, first_row) - first_row;
    const uvec2 own_words = unpackUint2x32(own_output);
    float result[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) result[i] = o[i];
    /* Two loops, of which one has a single turn with all lanes off: a branch would be run every time. */
    const uint texels = wide && (touched & zero) == 0u ? rows * TEXELS : 0u, elements = wide ? 0u : rows * COLUMNS;
    [[dont_unroll]] for (uint i = 0; i < texels; i++)
    {
        const uint row = i / TEXELS, column = i % TEXELS * WIDTH + TEXEL * lane;
        const float by = subgroupShuffle(unit, row);
        const uvec2 words = uvec2(subgroupShuffle(own_words.x, row), subgroupShuffle(own_words.y, row));
        float v[TEXEL];
        [[unroll]] for (uint c = 0; c < TEXEL; c++) v[c] = by == 0.0 ? 0.0 : result[i * TEXEL + c] * by;
        if (column < value_dim)
            ref_u64x2(packUint2x32(words) + column * (16 / TEXEL)).value = texel_of(v);
    }
    [[dont_unroll]] for (uint i = 0; i < elements; i++)
    {
        const uint row = i / COLUMNS, column = i % COLUMNS / TEXEL * WIDTH + TEXEL * lane + i % TEXEL;
        const float total = subgroupShuffle(sum, row);
        if (column < value_dim)
            store_output(s, first_row + row, column, result[i], total);
    }
}
