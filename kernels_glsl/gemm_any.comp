/* gemm_any.comp - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed.
 * Constants: DTYPE STRICT PARTS. PARTS is 2 for SwiGLU: the gate's sums, then those it is multiplied by.
 *
 * One invocation computes MICRO x MICRO elements, k ascending, one accumulator for each. The shared tiles are k-major;
 * edges are filled with zeros. Loops are unrolled so that a tile takes few turns (gemm_plan.c: TILED_TURNS). */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define GEMM_SPANS 10
#define NUMERICS_F8
#include "gemm.glsl"

#define SPAN_UP 6
#define SPAN_SCALE_A 7
#define SPAN_SCALE_B 8
#define SPAN_SCALE_D 9

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint STRICT = 0;
layout(constant_id = 2) const uint PARTS = 1;
const uint TILE = 32; /* rows and columns of D */
const uint DEPTH = 16;
const uint MICRO = 4;
const uint SIDE = TILE / MICRO;
const uint THREADS = SIDE * SIDE;
const uint PITCH = TILE + 4;

shared float a_tile[DEPTH * PITCH];
shared float b_tile[PARTS * DEPTH * PITCH];

/* The epilogue and what it needs besides. */
struct options {
    epilogue e;
    uint64_t scale_a, scale_b, scale_d; /* of the problem */
    float swiglu_alpha;
    uint n;
};

float flushed(float x)
{
    return STRICT != 0u ? hm_flush(x) : x;
}

float times(float x, float y)
{
    precise float product = HM_MUL(x, y);
    return STRICT != 0u ? hm_mul(x, y) : product;
}

float plus(float x, float y)
{
    precise float sum = HM_ADD(x, y);
    return flushed(sum);
}

/* What the next operator would read. */
float between(options o, float x)
{
    return flushed(round_to(GEMM_BETWEEN(o.e.flags), x));
}

float operand(uint64_t p, uint dtype, uint64_t i)
{
    return flushed(load_element(p, dtype, i));
}

float scaled(options o, uint row, uint column, uint part, float sum)
{
    const uint flags = o.e.flags;
    const bool alternate = (flags & GEMM_INTERLEAVED) != 0u;
    const uint each = alternate ? 2u * column + part : part * o.n + column, one = alternate ? 0u : part;
    if (GEMM_SCALE_A(flags) != 0u)
        sum = times(sum, operand(o.scale_a, HAL_KERNEL_F32, GEMM_SCALE_A(flags) == GEMM_SCALE_EACH ? row : 0u));
    if (GEMM_SCALE_B(flags) != 0u)
        sum = times(sum, operand(o.scale_b, HAL_KERNEL_F32, GEMM_SCALE_B(flags) == GEMM_SCALE_EACH ? each : one));
    return times(flushed(o.e.alpha), sum);
}

/* The steps of finish_element (gemm.glsl) or SwiGLU. */
void finish(options o, uint row, uint column, float sum, float sum_up)
{
    const epilogue e = o.e;
    const uint flags = e.flags;
    float v = scaled(o, row, column, 0u, sum);
    if (PARTS == 2u) {
        const float gate = between(o, v), up = between(o, scaled(o, row, column, 1u, sum_up));
        precise float inner = HM_MUL(o.swiglu_alpha, gate);
        v = times(round_to(GEMM_BETWEEN(flags), hm_times_sigmoid(gate, inner)), up);
    }
    if (GEMM_DTYPE_C(flags) != 0u)
        v = plus(v, times(flushed(e.beta), operand(e.c, GEMM_DTYPE_C(flags), row * e.ldc + column)));
    if (GEMM_DTYPE_BIAS(flags) != 0u)
        v = plus(v, operand(e.bias, GEMM_DTYPE_BIAS(flags), column));
    if (GEMM_ACT(flags) != 0u)
        v = hm_activate(GEMM_ACT(flags), between(o, v));
    if (GEMM_DTYPE_RESIDUAL(flags) != 0u)
        v = plus(between(o, v), operand(e.residual, GEMM_DTYPE_RESIDUAL(flags), row * e.ldr + column));
    if (GEMM_DTYPE_D(flags) == HAL_KERNEL_F8E4M3)
        v = between(o, v);
    const uint64_t at = (flags & GEMM_TRANS_D) != 0u ? column * e.ldd + row : row * e.ldd + column;
    if (GEMM_SCALE_D(flags) != 0u)
        ref_u8(e.d + at).value = uint8_t(hm_quantize(v, load_element(o.scale_d, HAL_KERNEL_F32, row)));
    else
        store_element(e.d, GEMM_DTYPE_D(flags), at, v);
}

void main()
{
    const uint problem = gl_WorkGroupID.z + args.group_base[2];
    const uint row0 = (gl_WorkGroupID.y + args.group_base[1]) * TILE;
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE;
    const uint m = args.m, n = args.n, k_end = args.k, flags = args.flags;
    const uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, thread = ty * SIDE + tx;
    const bool trans_a = (flags & GEMM_TRANS_A) != 0u, trans_b = (flags & GEMM_TRANS_B) != 0u;
    const bool alternate = (flags & GEMM_INTERLEAVED) != 0u;
    const uint64_t lda = JOIN64(args.lda), ldb = JOIN64(args.ldb), one = uint64_t(1);
    const uint64_t a_row = trans_a ? one : lda, a_k = trans_a ? lda : one;
    const uint64_t b_next = trans_b ? ldb : one, b_k = trans_b ? one : ldb;
    const uint64_t b_column = alternate ? b_next * 2 : b_next;
    const uint64_t a = args.span[SPAN_A] + problem * JOIN64(args.stride_a) * element_size(DTYPE);
    const uint64_t b_first = problem * JOIN64(args.stride_b) * element_size(DTYPE);
    const uint64_t b = args.span[SPAN_B] + b_first;
    const uint64_t up = alternate ? b + b_next * element_size(DTYPE) : args.span[SPAN_UP] + b_first;
    const options o = options(load_epilogue(problem),
                              args.span[SPAN_SCALE_A] + problem * JOIN64(args.stride_scale_a) * 4,
                              args.span[SPAN_SCALE_B] + problem * JOIN64(args.stride_scale_b) * 4,
                              args.span[SPAN_SCALE_D] + problem * JOIN64(args.stride_scale_d) * 4,
                              args.swiglu_alpha, n);

    float sum[PARTS * MICRO * MICRO];
    [[unroll]] for (uint i = 0; i < PARTS * MICRO * MICRO; i++)
        sum[i] = 0.0;

    for (uint k0 = 0; k0 < k_end; k0 += DEPTH) {
        [[unroll]] for (uint turn = 0; turn < TILE * DEPTH / THREADS; turn++) {
            const uint item = turn * THREADS + thread;
            const uint i = trans_a ? item % TILE : item / DEPTH, k = trans_a ? item / TILE : item % DEPTH;
            float v = 0.0;
            if (row0 + i < m && k0 + k < k_end)
                v = operand(a, DTYPE, (row0 + i) * a_row + (k0 + k) * a_k);
            a_tile[k * PITCH + i] = v;
        }
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            [[unroll]] for (uint turn = 0; turn < TILE * DEPTH / THREADS; turn++) {
                const uint item = turn * THREADS + thread;
                const uint j = trans_b ? item / DEPTH : item % TILE, k = trans_b ? item % DEPTH : item / TILE;
                float v = 0.0;
                if (column0 + j < n && k0 + k < k_end)
                    v = operand(part == 0 ? b : up, DTYPE, (column0 + j) * b_column + (k0 + k) * b_k);
                b_tile[(part * DEPTH + k) * PITCH + j] = v;
            }
        }
        barrier();
        for (uint k8 = 0; k8 < DEPTH; k8 += 8) {
            [[unroll]] for (uint step = 0; step < 8; step++) {
                const uint k = k8 + step;
                [[unroll]] for (uint part = 0; part < PARTS; part++) {
                    float x[MICRO], y[MICRO];
                    [[unroll]] for (uint i = 0; i < MICRO; i++)
                        x[i] = a_tile[k * PITCH + ty * MICRO + i];
                    [[unroll]] for (uint j = 0; j < MICRO; j++)
                        y[j] = b_tile[(part * DEPTH + k) * PITCH + j * SIDE + tx];
                    [[unroll]] for (uint i = 0; i < MICRO; i++) {
                        [[unroll]] for (uint j = 0; j < MICRO; j++) {
                            const uint at = (part * MICRO + i) * MICRO + j;
                            if (STRICT != 0u)
                                sum[at] = hm_add_product(sum[at], x[i], y[j]);
                            else
                                sum[at] += x[i] * y[j];
                        }
                    }
                }
            }
        }
        barrier();
    }

    for (uint i = 0; i < MICRO; i++) {
        for (uint j = 0; j < MICRO; j++) {
            const uint row = row0 + ty * MICRO + i, column = column0 + j * SIDE + tx;
            if (row < m && column < n)
                finish(o, row, column, sum[i * MICRO + j], sum[((PARTS - 1) * MICRO + i) * MICRO + j]);
        }
    }
}
