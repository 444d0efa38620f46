/* gemm.comp - D = act(alpha A B + beta C + bias) + residual. See scheduler/gemm.c for the list of kernels and
 * constants. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "gemm.glsl"

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;
layout(constant_id = 0) const uint DTYPE = 1;

#ifdef HAL_KERNEL_gemm
/* One invocation computes MICRO_M x MICRO_N elements, its columns THREADS_N apart so that neighbours load and store
 * neighbours. The shared tiles are k-major; edges are filled with zeros. TILE_K is a multiple of 8, TILE_M TILE_K
 * and TILE_N TILE_K of the number of invocations. Loops are unrolled so that a tile takes few turns, since some drivers
 * count them (gemm_plan.c: TILED_TURNS); fully, compilers would take many times as long. */
layout(constant_id = 1) const uint TRANS_A = 0;
layout(constant_id = 2) const uint TRANS_B = 0;
layout(constant_id = 3) const uint TILE_M = 32;
layout(constant_id = 4) const uint TILE_N = 32;
layout(constant_id = 5) const uint TILE_K = 16;
layout(constant_id = 6) const uint MICRO_M = 4;
layout(constant_id = 7) const uint MICRO_N = 4;
const uint THREADS_N = TILE_N / MICRO_N;
const uint THREADS = THREADS_N * (TILE_M / MICRO_M);
const uint PITCH_M = TILE_M + 4;
const uint PITCH_N = TILE_N + 4;

shared float a_tile[TILE_K * PITCH_M];
shared float b_tile[TILE_K * PITCH_N];

void main()
{
    const uint problem = gl_WorkGroupID.z + args.group_base[2];
    const uint row0 = (gl_WorkGroupID.y + args.group_base[1]) * TILE_M;
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE_N;
    const uint m = args.m, n = args.n, k_end = args.k;
    const uint64_t lda = JOIN64(args.lda), ldb = JOIN64(args.ldb);
    const uint64_t a = args.span[SPAN_A] + problem * JOIN64(args.stride_a) * element_size(DTYPE);
    const uint64_t b = args.span[SPAN_B] + problem * JOIN64(args.stride_b) * element_size(DTYPE);
    const epilogue e = load_epilogue(problem);
    const uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, thread = ty * THREADS_N + tx;

    float sum[MICRO_M * MICRO_N];
    [[unroll]] for (uint i = 0; i < MICRO_M * MICRO_N; i++)
        sum[i] = 0.0;

    for (uint k0 = 0; k0 < k_end; k0 += TILE_K) {
        [[unroll]] for (uint part = 0; part < TILE_M * TILE_K / THREADS; part++) {
            uint item = part * THREADS + thread;
            uint i = TRANS_A != 0 ? item % TILE_M : item / TILE_K, k = TRANS_A != 0 ? item / TILE_M : item % TILE_K;
            uint row = row0 + i, depth = k0 + k;
            float v = 0.0;
            if (row < m && depth < k_end)
                v = load_element(a, DTYPE, TRANS_A != 0 ? depth * lda + row : row * lda + depth);
            a_tile[k * PITCH_M + i] = v;
        }
        [[unroll]] for (uint part = 0; part < TILE_N * TILE_K / THREADS; part++) {
            uint item = part * THREADS + thread;
            uint j = TRANS_B != 0 ? item / TILE_K : item % TILE_N, k = TRANS_B != 0 ? item % TILE_K : item / TILE_N;
            uint column = column0 + j, depth = k0 + k;
            float v = 0.0;
            if (column < n && depth < k_end)
                v = load_element(b, DTYPE, TRANS_B != 0 ? column * ldb + depth : depth * ldb + column);
            b_tile[k * PITCH_N + j] = v;
        }
        barrier();
        for (uint k8 = 0; k8 < TILE_K; k8 += 8) {
            [[unroll]] for (uint step = 0; step < 8; step++) {
                const uint k = k8 + step;
                float x[MICRO_M], y[MICRO_N];
                [[unroll]] for (uint i = 0; i < MICRO_M; i++)
                    x[i] = a_tile[k * PITCH_M + ty * MICRO_M + i];
                [[unroll]] for (uint j = 0; j < MICRO_N; j++)
                    y[j] = b_tile[k * PITCH_N + j * THREADS_N + tx];
                [[unroll]] for (uint i = 0; i < MICRO_M; i++)
                    [[unroll]] for (uint j = 0; j < MICRO_N; j++)
                        sum[i * MICRO_N + j] += x[i] * y[j];
            }
        }
        barrier();
    }

    for (uint i = 0; i < MICRO_M; i++) {
        for (uint j = 0; j < MICRO_N; j++) {
            uint row = row0 + ty * MICRO_M + i, column = column0 + j * THREADS_N + tx;
            if (row < m && column < n)
                finish_element(e, row, column, sum[i * MICRO_N + j]);
        }
    }
}
#endif

#ifdef HAL_KERNEL_gemm_small
/* m <= ROWS: B is read once and shared by all rows. A column's k are dealt out to THREADS / TILE_N invocations, whose
 * parts are added in order at the end. */
layout(constant_id = 1) const uint TRANS_B = 0;
layout(constant_id = 2) const uint ROWS = 1;
layout(constant_id = 3) const uint TILE_N = 32;
layout(constant_id = 4) const uint THREADS = 64;
const uint SLICES = THREADS / TILE_N;

shared float parts[ROWS * THREADS];

void main()
{
    const uint problem = gl_WorkGroupID.z + args.group_base[2];
    const uint row0 = (gl_WorkGroupID.y + args.group_base[1]) * ROWS;
    const uint column0 = (gl_WorkGroupID.x + args.group_base[0]) * TILE_N;
    const uint m = args.m, n = args.n, k_end = args.k;
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0;
    const uint64_t lda = JOIN64(args.lda), ldb = JOIN64(args.ldb);
    const uint64_t a_row = trans_a ? uint64_t(1) : lda, a_k = trans_a ? lda : uint64_t(1);
    const uint64_t a = args.span[SPAN_A] + problem * JOIN64(args.stride_a) * element_size(DTYPE);
    const uint64_t b = args.span[SPAN_B] + problem * JOIN64(args.stride_b) * element_size(DTYPE);
    const epilogue e = load_epilogue(problem);
    const uint thread = gl_LocalInvocationID.x;
    /* Neighbours read neighbours: columns where B is plain, k where it is transposed. */
    const uint j = TRANS_B != 0 ? thread / SLICES : thread % TILE_N;
    const uint slice = TRANS_B != 0 ? thread % SLICES : thread / TILE_N;
    const uint column = min(column0 + j, n - 1);

    float sum[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS; i++)
        sum[i] = 0.0;
    for (uint k = slice; k < k_end; k += SLICES) {
        float y = load_element(b, DTYPE, TRANS_B != 0 ? column * ldb + k : k * ldb + column);
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            sum[i] += load_element(a, DTYPE, min(row0 + i, m - 1) * a_row + k * a_k) * y;
    }
    [[unroll]] for (uint i = 0; i < ROWS; i++)
        parts[i * THREADS + j * SLICES + slice] = sum[i];
    barrier();

    for (uint item = thread; item < ROWS * TILE_N; item += THREADS) {
        uint i = item / TILE_N, c = item % TILE_N;
        float total = 0.0;
        for (uint s = 0; s < SLICES; s++)
            total += parts[i * THREADS + c * SLICES + s];
        if (row0 + i < m && column0 + c < n)
            finish_element(e, row0 + i, column0 + c, total);
    }
}
#endif
