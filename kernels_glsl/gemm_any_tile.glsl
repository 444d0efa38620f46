/* gemm_any_tile.glsl - one tile of the GEMM with every option. Constants: DTYPE STRICT PARTS. PARTS is 2 for SwiGLU: the gate's
 * sums, then those it is multiplied by.
 *
 * One invocation computes MICRO x MICRO elements, k ascending, one accumulator for each. The shared tiles are k-major;
 * edges are filled with zeros. Loops are unrolled so that a tile takes few turns (gemm_plan.c: TILED_TURNS). */
layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;
layout(constant_id = 1) const uint STRICT = 0;
layout(constant_id = 2) const uint PARTS = 1;
#include "gemm_any.glsl"

const uint TILE = 32; /* rows and columns of D */
const uint DEPTH = 16;
const uint MICRO = 4;
const uint SIDE = TILE / MICRO;
const uint THREADS = SIDE * SIDE;
const uint PITCH = TILE + 4;

shared float a_tile[DEPTH * PITCH];
shared float b_tile[PARTS * DEPTH * PITCH];

/* Rows from row0, columns from column0 of a problem. Shared memory may be used again after a barrier. */
void multiply_tile(uint problem, uint row0, uint column0)
{
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
    const options o = load_options(problem);

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
