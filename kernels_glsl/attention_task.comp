/* attention_task.comp - attention for CPU devices whose subgroups have 8 lanes: a group is one subgroup and takes ROWS
 * rows with everything in registers. Steps are attention.comp's. Scores have a key a lane, o has neighbouring columns:
 * queries, keys and values are uniform texel buffers of 16 bytes a texel, since such drivers fetch texels without a
 * branch, but run a storage load inside a loop lane by lane. Rows of q, k and v start at texels; a view may start
 * before its operand: base_q, base_k, base_v. Constants: DTYPE, STRICT (0), STEP: texels of a key at a time, ROWS,
 * VALUE_ROOM: value_dim or a little more. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define THREADS   STEP
#define HEAD_ROOM ROWS
#include "attention.glsl"

layout(set = 0, binding = 0) uniform usamplerBuffer q_view;
layout(set = 0, binding = 1) uniform usamplerBuffer k_view;
layout(set = 0, binding = 2) uniform usamplerBuffer v_view;

const uint TEXEL = DTYPE == HAL_KERNEL_F32 ? 4 : 8; /* elements */
const uint LINE = 4 * TEXEL; /* elements of a cache line */
const uint VECTORS = KEYS / LANES, WIDTH = LANES * TEXEL;
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

void main()
{
    const sequence s = locate();
    const uint lane = gl_LocalInvocationID.x, head_dim = args.head_dim, value_dim = args.value_dim;
    const uint first_row = s.tile * ROWS, own_row = first_row + lane;
    const uint block_end = last_block(s, min(first_row + ROWS, s.rows));
    const strides key_strides = strides_of_keys(), value_strides = strides_of_values();
    const bool plain = softcap == 0.0 && dtype_mask == 0u;
    const float factor = plain ? scale : 1.0; /* else finish_score has scaled */
    const uint q_base = args.base_q + uint(query_at(s, min(own_row, s.rows == 0u ? 0u : s.rows - 1)));
    const uint k_base = args.base_k, v_base = args.base_v;
    const uint own_end = visible_keys(s, own_row); /* lane = row */
    float o[ROWS * COLUMNS], sums[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) o[i] = 0.0;
    [[unroll]] for (uint row = 0; row < ROWS; row++) sums[row] = 0.0;
    float greatest = -HM_INFINITY; /* lane = row */
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

        float score[ROWS * VECTORS];
        [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) score[i] = 0.0;
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
                    [[unroll]] for (uint row = 0; row < ROWS; row++) score[row * VECTORS + v] =
                        subgroupShuffle(pick(q[i], c), row) * y + score[row * VECTORS + v];
                }
            }
        }

        /* A copy, so that only it has to lie in memory for loops to index it. */
        float weights[ROWS * VECTORS], shrinks[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) weights[i] = score[i];
        bool holes = false;
        /* A loop, not a branch: that would be run every time, with all lanes off. */
        [[dont_unroll]] for (uint i = plain ? ROWS * VECTORS : 0u; i < ROWS * VECTORS; i++) weights[i] =
            finish_score(s, first_row + i / VECTORS, key0 + i % VECTORS * LANES + lane, weights[i]);
        [[dont_unroll]] for (uint row = 0; row < ROWS; row++)
        {
            const uint end = subgroupShuffle(own_end, row);
            const float before = subgroupShuffle(greatest, row);
            float x[VECTORS], most = -HM_INFINITY;
            [[unroll]] for (uint v = 0; v < VECTORS; v++) x[v] =
                key0 + v * LANES + lane < end ? weights[row * VECTORS + v] * factor : -HM_INFINITY;
            [[unroll]] for (uint v = 0; v < VECTORS; v++) most = greater(most, x[v]);
            float row_most = before;
            [[unroll]] for (uint l = 0; l < LANES; l++) row_most = greater(row_most, subgroupShuffle(most, l));
            const float shift = row_most == -HM_INFINITY ? 0.0 : row_most, shrink = weight_of(before, shift);
            greatest = lane == row ? row_most : greatest;
            float sum = sums[row] * shrink;
            [[unroll]] for (uint v = 0; v < VECTORS; v++)
            {
                const float w = weight_of(x[v], shift);
                weights[row * VECTORS + v] = w;
                holes = holes || w == 0.0;
                sum = add(sum, w);
            }
            sums[row] = sum;
            shrinks[row] = shrink;
        }
        [[unroll]] for (uint row = 0; row < ROWS; row++)
        {
            const float shrink = shrinks[row];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) o[row * COLUMNS + c] *= shrink;
        }

        bool any_holes = false;
        [[unroll]] for (uint l = 0; l < LANES; l++) any_holes = any_holes || subgroupShuffle(uint(holes), l) != 0u;
        /* Two loops, of which one has a single turn with all lanes off: a branch within would be run every time. */
        [[dont_unroll]] for (uint v = any_holes ? 0u : VECTORS; v < VECTORS; v++)
        { /* weights of zero are skipped: NaN and infinity in a hidden value stay hidden */
            [[dont_unroll]] for (uint j = 0; j < LANES; j++)
            {
                const uint at = subgroupShuffle(v_at[v], j);
                [[unroll]] for (uint t = 0; t < TEXELS; t++)
                {
                    const uint column = min(t * WIDTH + TEXEL * lane, value_dim - TEXEL);
                    const uvec4 texel = texelFetch(v_view, int((at + column) / TEXEL));
                    [[unroll]] for (uint row = 0; row < ROWS; row++)
                    {
                        const float x = subgroupShuffle(weights[row * VECTORS + v], j);
                        [[unroll]] for (uint c = 0; c < TEXEL; c++)
                        {
                            const uint i = row * COLUMNS + t * TEXEL + c;
                            o[i] = x == 0.0 ? o[i] : x * pick(texel, c) + o[i];
                        }
                    }
                }
            }
        }
        [[dont_unroll]] for (uint v = any_holes ? VECTORS : 0u; v < VECTORS; v++)
        {
            float w[ROWS];
            [[unroll]] for (uint row = 0; row < ROWS; row++) w[row] = weights[row * VECTORS + v];
            [[unroll]] for (uint j = 0; j < LANES; j++)
            {
                const uint at = subgroupShuffle(v_at[v], j);
                [[unroll]] for (uint t = 0; t < TEXELS; t++)
                {
                    const uint column = min(t * WIDTH + TEXEL * lane, value_dim - TEXEL);
                    const uvec4 texel = texelFetch(v_view, int((at + column) / TEXEL));
                    [[unroll]] for (uint row = 0; row < ROWS; row++)
                    {
                        const float x = subgroupShuffle(w[row], j);
                        [[unroll]] for (uint c = 0; c < TEXEL; c++)
                        {
                            const uint i = row * COLUMNS + t * TEXEL + c;
                            o[i] = x * pick(texel, c) + o[i];
                        }
                    }
                }
            }
        }
    }

    const uint zero = value_dim >> 16;
    const bool wide = output_is_wide(s) && (touched & zero) == 0u;
    float result[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++) result[i] = o[i];
    [[dont_unroll]] for (uint row = 0; row < ROWS; row++)
    {
        const uint r = first_row + row;
        float lanes[LANES];
        [[unroll]] for (uint l = 0; l < LANES; l++) lanes[l] = subgroupShuffle(sums[row], l);
        const float sum = add(add(add(lanes[0], lanes[4]), add(lanes[2], lanes[6])),
                              add(add(lanes[1], lanes[5]), add(lanes[3], lanes[7])));
        const float most = subgroupShuffle(greatest, row);
        const float unit = sum == 0.0 ? 0.0 : hm_reciprocal(sum);
        if (r < s.rows) {
            [[dont_unroll]] for (uint t = wide ? 0u : TEXELS; t < TEXELS; t++)
            {
                const uint column = t * WIDTH + TEXEL * lane;
                float v[TEXEL];
                [[unroll]] for (uint c = 0; c < TEXEL; c++) v[c] =
                    sum == 0.0 ? 0.0 : result[row * COLUMNS + t * TEXEL + c] * unit;
                if (column < value_dim)
                    ref_u64x2(args.span[ATTENTION_O] + (output_at(s, r) + column) * (16 / TEXEL)).value = texel_of(v);
            }
            [[dont_unroll]] for (uint i = wide ? COLUMNS : 0u; i < COLUMNS; i++)
            {
                const uint column = i / TEXEL * WIDTH + TEXEL * lane + i % TEXEL;
                if (column < value_dim)
                    store_output(s, r, column, result[row * COLUMNS + i], sum);
            }
            if (lane == 0u)
                store_sums(s, r, most, sum);
        }
    }
}
