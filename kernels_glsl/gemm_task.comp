/* gemm_task.comp - GEMM for CPU devices whose subgroups have 8 lanes: a group is one subgroup and computes
 * 8 ROW_GROUPS x 8 VECTORS of D in registers.
 *
 * Such drivers run a storage load inside a loop lane by lane, but fetch texels without a branch: A and B are therefore
 * uniform texel buffers of 16 bytes a texel, whatever their dtype. Along the direction in which an operand is
 * contiguous a lane takes whole texels; along the other, one row or column a lane:
 *   A plain: lane = row of a group of 8, texel = neighbours in k   A transposed: lane = k, texel = neighbouring rows
 *   B plain: texel = neighbouring columns of one lane              B transposed: lane = column, texel = neighbours in k
 * Values of A reach all lanes by a shuffle with a constant. Where rows do not start at a texel (SHIFT_A, SHIFT_B), each
 * run of texels is read with one more, and shifted. A view starts up to a texel before its operand: base_a, base_b.
 * gemm_task_address is the same where no view can be made (the address is not known before submit, or the operand is
 * too large for a view): slower there, but far ahead of a kernel with shared memory. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "gemm.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint TRANS_A = 0;
layout(constant_id = 2) const uint TRANS_B = 0;
layout(constant_id = 3) const uint ROW_GROUPS = 1;
layout(constant_id = 4) const uint SHIFT_A = 0;
layout(constant_id = 5) const uint SHIFT_B = 0;
layout(constant_id = 6) const uint DTYPE_D = 1;
layout(constant_id = 7) const uint EXTRAS = 1; /* C, bias, activation or residual */

#ifdef HAL_KERNEL_gemm_task_address
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer ref_texel {
    uvec4 value;
};
uint64_t a_start, b_start; /* of the problem's operand, rounded down to a texel */

uvec4 fetch_a(uint texel)
{
    return ref_texel(a_start + uint64_t(texel) * 16).value;
}

uvec4 fetch_b(uint texel)
{
    return ref_texel(b_start + uint64_t(texel) * 16).value;
}
#else
layout(set = 0, binding = 0) uniform usamplerBuffer a_view;
layout(set = 0, binding = 1) uniform usamplerBuffer b_view;

uvec4 fetch_a(uint texel)
{
    return texelFetch(a_view, int(texel));
}

uvec4 fetch_b(uint texel)
{
    return texelFetch(b_view, int(texel));
}
#endif

const uint TEXEL = DTYPE == HAL_KERNEL_F32 ? 4 : 8; /* elements */
const uint VECTORS = TEXEL;                         /* of 8 columns */
const uint STEP = DTYPE == HAL_KERNEL_F32 ? 16 : 8; /* k of a turn */
const uint ROWS = 8 * ROW_GROUPS;

/* Element `i` of a texel; i is constant once loops are unrolled. */
float pick(uvec4 texel, uint i)
{
    if (DTYPE == HAL_KERNEL_F32)
        return uintBitsToFloat(texel[i]);
    uint word = texel[i >> 1];
    if (DTYPE == HAL_KERNEL_F16)
        return unpackHalf2x16(word)[i & 1];
    return uintBitsToFloat((i & 1) == 0 ? word << 16 : word & 0xffff0000u);
}

/* The texel that starts `shift` elements into `low`, which `high` follows. */
uvec4 funnel(uvec4 low, uvec4 high, uint shift)
{
    uint word = DTYPE == HAL_KERNEL_F32 ? shift : shift >> 1;
    bool two = (word & 2) != 0, one = (word & 1) != 0;
    uint w0 = two ? low.z : low.x, w1 = two ? low.w : low.y, w2 = two ? high.x : low.z, w3 = two ? high.y : low.w;
    uint w4 = two ? high.z : high.x, w5 = two ? high.w : high.y;
    uvec4 words = one ? uvec4(w1, w2, w3, w4) : uvec4(w0, w1, w2, w3);
    if (DTYPE == HAL_KERNEL_F32)
        return words;
    uint next = one ? w5 : w4;
    uvec4 halves = words >> 16 | uvec4(words.yzw, next) << 16;
    return (shift & 1) != 0 ? halves : words;
}

/* One element, for what whole texels do not cover. */
float one_a(uint at)
{
    uvec4 texel = fetch_a(at / TEXEL);
    uint i = at % TEXEL;
    float v = 0.0;
    [[unroll]] for (uint c = 0; c < TEXEL; c++)
        v = i == c ? pick(texel, c) : v;
    return v;
}

float one_b(uint at)
{
    uvec4 texel = fetch_b(at / TEXEL);
    uint i = at % TEXEL;
    float v = 0.0;
    [[unroll]] for (uint c = 0; c < TEXEL; c++)
        v = i == c ? pick(texel, c) : v;
    return v;
}

void main()
{
    const uint m = args.m, n = args.n, depth = args.k;
    const uint problem = gl_WorkGroupID.z + args.group_base[2];
    const uint row0 = (gl_WorkGroupID.y + args.group_base[1]) * ROWS;
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * 8 * VECTORS;
    const uint lda = args.lda[0], ldb = args.ldb[0]; /* a view's elements fit 32 bits */
#ifdef HAL_KERNEL_gemm_task_address
    a_start = args.span[SPAN_A] + problem * JOIN64(args.stride_a) * element_size(DTYPE);
    b_start = args.span[SPAN_B] + problem * JOIN64(args.stride_b) * element_size(DTYPE);
    const uint a0 = (uint(a_start) & 15u) / element_size(DTYPE), b0 = (uint(b_start) & 15u) / element_size(DTYPE);
    a_start &= ~uint64_t(15);
    b_start &= ~uint64_t(15);
    const uint last_a = (a0 + (TRANS_A == 0 ? (m - 1) * lda + depth : (depth - 1) * lda + m) - 1) / TEXEL;
    const uint last_b = (b0 + (TRANS_B == 0 ? (depth - 1) * ldb + n : (n - 1) * ldb + depth) - 1) / TEXEL;
#else
    const uint a0 = args.base_a + problem * args.stride_a[0], b0 = args.base_b + problem * args.stride_b[0];
    const uint last_a = uint(textureSize(a_view)) - 1, last_b = uint(textureSize(b_view)) - 1;
#endif
    const epilogue e = load_epilogue(problem);
    const uint lane = gl_LocalInvocationID.x;

    float sum[ROWS * VECTORS];
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++)
        sum[i] = 0.0;

    uint k = 0;
    for (; k + STEP <= depth; k += STEP) {
        float b[STEP * VECTORS];
        if (TRANS_B == 0) {
            uvec4 ninths[STEP / 8]; /* of the texels that 8 lanes need of a row, lane = row */
            [[unroll]] for (uint i = 0; SHIFT_B != 0 && i < STEP / 8; i++)
                ninths[i] = fetch_b(min((b0 + (k + 8 * i + lane) * ldb + column0) / TEXEL + 8, last_b));
            [[unroll]] for (uint q = 0; q < STEP; q++) {
                uint at = b0 + (k + q) * ldb + column0 + TEXEL * lane;
                uvec4 texel = fetch_b(min(at / TEXEL, last_b));
                if (SHIFT_B != 0) {
                    uvec4 next = subgroupShuffle(texel, gl_SubgroupInvocationID + 1 & 7);
                    uvec4 ninth = subgroupShuffle(ninths[q / 8], q % 8);
                    texel = funnel(texel, gl_SubgroupInvocationID == 7 ? ninth : next, at % TEXEL);
                }
                [[unroll]] for (uint v = 0; v < VECTORS; v++)
                    b[q * VECTORS + v] = pick(texel, v);
            }
        } else {
            [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                uint at = b0 + min(column0 + 8 * v + lane, n - 1) * ldb + k;
                uvec4 texel = fetch_b(at / TEXEL);
                [[unroll]] for (uint u = 0; u < STEP / TEXEL; u++) {
                    uvec4 next = texel, whole = texel;
                    if (SHIFT_B != 0 || u + 1 < STEP / TEXEL)
                        next = fetch_b(min(at / TEXEL + u + 1, last_b));
                    if (SHIFT_B != 0)
                        whole = funnel(texel, next, at % TEXEL);
                    [[unroll]] for (uint c = 0; c < TEXEL; c++)
                        b[(u * TEXEL + c) * VECTORS + v] = pick(whole, c);
                    texel = next;
                }
            }
        }
        [[unroll]] for (uint group = 0; group < ROW_GROUPS; group++) {
            float a[STEP];
            if (TRANS_A == 0) {
                uint at = a0 + min(row0 + 8 * group + lane, m - 1) * lda + k;
                uvec4 texel = fetch_a(at / TEXEL);
                [[unroll]] for (uint u = 0; u < STEP / TEXEL; u++) {
                    uvec4 next = texel, whole = texel;
                    if (SHIFT_A != 0 || u + 1 < STEP / TEXEL)
                        next = fetch_a(min(at / TEXEL + u + 1, last_a));
                    if (SHIFT_A != 0)
                        whole = funnel(texel, next, at % TEXEL);
                    [[unroll]] for (uint c = 0; c < TEXEL; c++)
                        a[u * TEXEL + c] = pick(whole, c);
                    texel = next;
                }
            } else {
                [[unroll]] for (uint block = 0; block < STEP / 8; block++) {
                    uint at = a0 + (k + 8 * block + lane) * lda + row0 + 8 * group;
                    uvec4 texel = fetch_a(min(at / TEXEL, last_a));
                    [[unroll]] for (uint u = 0; u < 8 / TEXEL; u++) {
                        uvec4 next = texel, whole = texel;
                        if (SHIFT_A != 0 || u + 1 < 8 / TEXEL)
                            next = fetch_a(min(at / TEXEL + u + 1, last_a));
                        if (SHIFT_A != 0)
                            whole = funnel(texel, next, at % TEXEL);
                        [[unroll]] for (uint c = 0; c < TEXEL; c++)
                            a[8 * block + u * TEXEL + c] = pick(whole, c);
                        texel = next;
                    }
                }
            }
            [[unroll]] for (uint row = 0; row < 8; row++) {
                [[unroll]] for (uint q = 0; q < STEP; q++) {
                    float x = TRANS_A == 0 ? subgroupShuffle(a[q], row) : subgroupShuffle(a[(q & ~7u) + row], q & 7);
                    [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                        uint i = (8 * group + row) * VECTORS + v;
                        sum[i] = x * b[q * VECTORS + v] + sum[i];
                    }
                }
            }
        }
    }
    for (; k < depth; k++) {
        float b[VECTORS];
        [[unroll]] for (uint v = 0; v < VECTORS; v++) {
            uint column = min(column0 + (TRANS_B == 0 ? TEXEL * lane + v : 8 * v + lane), n - 1);
            b[v] = one_b(b0 + (TRANS_B == 0 ? k * ldb + column : column * ldb + k));
        }
        [[unroll]] for (uint group = 0; group < ROW_GROUPS; group++) {
            uint row = min(row0 + 8 * group + lane, m - 1);
            float a = one_a(a0 + (TRANS_A == 0 ? row * lda + k : k * lda + row));
            [[unroll]] for (uint r = 0; r < 8; r++) {
                float x = subgroupShuffle(a, r);
                [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                    uint i = (8 * group + r) * VECTORS + v;
                    sum[i] = x * b[v] + sum[i];
                }
            }
        }
    }

    /* A copy, so that only it has to lie in memory for the loop to index it. */
    float result[ROWS * VECTORS];
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++)
        result[i] = sum[i];
    [[dont_unroll]] for (uint i = 0; i < ROWS * VECTORS; i++) {
        uint row = row0 + i / VECTORS, v = i % VECTORS;
        uint column = column0 + (TRANS_B == 0 ? TEXEL * lane + v : 8 * v + lane);
        if (row < m && column < n) {
            if (EXTRAS != 0)
                finish_element(e, row, column, result[i]);
            else
                store_element(e.d, DTYPE_D, row * e.ldd + column, e.alpha * result[i]);
        }
    }
}
