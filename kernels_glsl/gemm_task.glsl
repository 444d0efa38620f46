/* gemm_task.glsl - what the forms of the GEMM for CPU devices share whose subgroups have 8 lanes: a group is one subgroup
 * and computes 8 ROW_GROUPS x 8 VECTORS of D in registers.
 *
 * Such drivers run a storage load inside a loop lane by lane, but fetch texels without a branch: A and B are therefore
 * uniform texel buffers of 16 bytes a texel, whatever their dtype. Along the direction in which an operand is
 * contiguous a lane takes whole texels; along the other, one row or column a lane:
 *   A plain: lane = row of a group of 8, texel = neighbours in k   A transposed: lane = k, texel = neighbouring rows
 *   B plain: texel = neighbouring columns of one lane              B transposed: lane = column, texel = neighbours in k
 * Values of A reach all lanes by a shuffle with a constant. Where rows do not start at a texel (SHIFT_A, SHIFT_B), each
 * run of texels is read with one more, and shifted. A view starts up to a texel before its operand: base_a, base_b.
 *
 * The file before it declares the constants, and fetch_a and fetch_b of a texel. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

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

/* The tile at row0 and column0 of one problem. In elements: a0 and b0 are where A and B begin, lda and ldb rows; last_a
 * and last_b are the last texels. */
struct task {
    uint m, n, depth, row0, column0, a0, b0, lda, ldb, last_a, last_b;
};

/* The column of D that a lane has in its v-th vector. */
uint column_of(task t, uint lane, uint v)
{
    return t.column0 + (TRANS_B == 0 ? TEXEL * lane + v : 8 * v + lane);
}

float sum[ROWS * VECTORS]; /* [row * VECTORS + v]: of a row of the tile, in column_of(t, lane, v) */

void multiply(task t, uint lane)
{
    [[unroll]] for (uint i = 0; i < ROWS * VECTORS; i++)
        sum[i] = 0.0;

    uint k = 0;
    for (; k + STEP <= t.depth; k += STEP) {
        float b[STEP * VECTORS];
        if (TRANS_B == 0) {
            uvec4 ninths[STEP / 8]; /* of the texels that 8 lanes need of a row, lane = row */
            [[unroll]] for (uint i = 0; SHIFT_B != 0 && i < STEP / 8; i++)
                ninths[i] = fetch_b(min((t.b0 + (k + 8 * i + lane) * t.ldb + t.column0) / TEXEL + 8, t.last_b));
            [[unroll]] for (uint q = 0; q < STEP; q++) {
                uint at = t.b0 + (k + q) * t.ldb + t.column0 + TEXEL * lane;
                uvec4 texel = fetch_b(min(at / TEXEL, t.last_b));
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
                uint at = t.b0 + min(t.column0 + 8 * v + lane, t.n - 1) * t.ldb + k;
                uvec4 texel = fetch_b(at / TEXEL);
                [[unroll]] for (uint u = 0; u < STEP / TEXEL; u++) {
                    uvec4 next = texel, whole = texel;
                    if (SHIFT_B != 0 || u + 1 < STEP / TEXEL)
                        next = fetch_b(min(at / TEXEL + u + 1, t.last_b));
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
                uint at = t.a0 + min(t.row0 + 8 * group + lane, t.m - 1) * t.lda + k;
                uvec4 texel = fetch_a(at / TEXEL);
                [[unroll]] for (uint u = 0; u < STEP / TEXEL; u++) {
                    uvec4 next = texel, whole = texel;
                    if (SHIFT_A != 0 || u + 1 < STEP / TEXEL)
                        next = fetch_a(min(at / TEXEL + u + 1, t.last_a));
                    if (SHIFT_A != 0)
                        whole = funnel(texel, next, at % TEXEL);
                    [[unroll]] for (uint c = 0; c < TEXEL; c++)
                        a[u * TEXEL + c] = pick(whole, c);
                    texel = next;
                }
            } else {
                [[unroll]] for (uint block = 0; block < STEP / 8; block++) {
                    uint at = t.a0 + (k + 8 * block + lane) * t.lda + t.row0 + 8 * group;
                    uvec4 texel = fetch_a(min(at / TEXEL, t.last_a));
                    [[unroll]] for (uint u = 0; u < 8 / TEXEL; u++) {
                        uvec4 next = texel, whole = texel;
                        if (SHIFT_A != 0 || u + 1 < 8 / TEXEL)
                            next = fetch_a(min(at / TEXEL + u + 1, t.last_a));
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
    for (; k < t.depth; k++) {
        float b[VECTORS];
        [[unroll]] for (uint v = 0; v < VECTORS; v++) {
            uint column = min(column_of(t, lane, v), t.n - 1);
            b[v] = one_b(t.b0 + (TRANS_B == 0 ? k * t.ldb + column : column * t.ldb + k));
        }
        [[unroll]] for (uint group = 0; group < ROW_GROUPS; group++) {
            uint row = min(t.row0 + 8 * group + lane, t.m - 1);
            float a = one_a(t.a0 + (TRANS_A == 0 ? row * t.lda + k : k * t.lda + row));
            [[unroll]] for (uint r = 0; r < 8; r++) {
                float x = subgroupShuffle(a, r);
                [[unroll]] for (uint v = 0; v < VECTORS; v++) {
                    uint i = (8 * group + r) * VECTORS + v;
                    sum[i] = x * b[v] + sum[i];
                }
            }
        }
    }
}
